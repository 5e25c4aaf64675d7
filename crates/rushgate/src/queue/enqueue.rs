use std::time::Duration;

use rushgate_core::{
    Due, Enqueued, Error, IfDead, NewTask, OnDuplicate, Priority, QueueName, Result, TaskId, TaskKey,
    Timestamp,
};

use super::Queue;

/// A task to enqueue, with its options. Created by [`Queue::enqueue`], sent by [`send`](Self::send).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
/// use rushgate::Enqueued;
/// use rushgate::queue::OnDuplicate;
///
/// let pages = client.queue_of::<String>("rebuild")?;
/// let burst = OnDuplicate::Debounce { max_wait: Duration::from_secs(60) };
/// let page = || pages.enqueue("page:7", "/7".to_owned()).delay(Duration::from_secs(5)).on_duplicate(burst);
/// assert!(matches!(page().send().await?, Enqueued::Added { .. }));
/// assert!(matches!(page().send().await?, Enqueued::Replaced { .. }));
/// assert_eq!(pages.stats().await?.scheduled, 1);
/// # client.close().await
/// # }
/// ```
#[must_use = "nothing is enqueued before `send`"]
pub struct Enqueue<'a, T> {
    queue: &'a Queue<T>,
    task: Result<NewTask>,
}

impl<'a, T> Enqueue<'a, T> {
    pub(super) fn new(queue: &'a Queue<T>, task: Result<NewTask>) -> Self {
        Self { queue, task }
    }

    /// Queue and task.
    pub(crate) fn into_parts(self) -> Result<(QueueName, NewTask)> {
        let task = self.task.and_then(|task| task.check().map(|()| task))?;
        Ok((self.queue.name().clone(), task))
    }

    fn with(self, change: impl FnOnce(&mut NewTask)) -> Self {
        self.try_with(|task| {
            change(task);
            Ok(())
        })
    }

    fn try_with(mut self, change: impl FnOnce(&mut NewTask) -> Result<()>) -> Self {
        if let Ok(task) = &mut self.task
            && let Err(error) = change(task)
        {
            self.task = Err(error);
        }
        self
    }

    /// Delay before the task is due, on the store's clock: at most 400 days.
    pub fn delay(self, delay: Duration) -> Self {
        self.with(|task| task.due = Due::After(delay))
    }

    /// When the task is due, on the store's clock.
    pub fn at(self, due: Timestamp) -> Self {
        self.with(|task| task.due = Due::At(due))
    }

    /// Deadline, from now, on the store's clock: at most 400 days, and longer than the delay. A task not started by then
    /// becomes a dead letter. A running handler is stopped at the deadline, as by a timeout.
    pub fn deadline(self, time: Duration) -> Self {
        self.with(|task| task.deadline = Some(Due::After(time)))
    }

    /// Deadline as a time on the store's clock; see [`deadline`](Self::deadline).
    pub fn deadline_at(self, moment: Timestamp) -> Self {
        self.with(|task| task.deadline = Some(Due::At(moment)))
    }

    /// Priority, from 0 (first) to 9 (last). Default: 5.
    pub fn priority(self, level: u8) -> Self {
        self.try_with(|task| Priority::new(level).map(|priority| task.priority = priority))
    }

    /// Key of the task, such as a tenant. Tasks with the same key and priority form a group in FIFO order,
    /// and groups take turns, so that a key with many tasks does not starve the others. A key may have
    /// [limits](crate::queue::KeyLimits) of its own.
    ///
    /// 1 to 200 bytes without white space, control characters and braces.
    pub fn key(self, key: impl AsRef<str>) -> Self {
        self.try_with(|task| TaskKey::new(key).map(|key| task.key = Some(key)))
    }

    /// What happens if the ID is live. Default: the existing task is kept.
    pub fn on_duplicate(self, on_duplicate: OnDuplicate) -> Self {
        self.with(|task| task.on_duplicate = on_duplicate)
    }

    /// Uniqueness window of the ID, from the acceptance of the task: 1 ms to 400 days, whatever happens to the task. Until
    /// then, enqueueing the ID again is answered [`Recent`](Enqueued::Recent); while the task is live,
    /// [`on_duplicate`](Self::on_duplicate) decides. [`Queue::clear_unique`] clears the window.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use std::time::Duration;
    /// use rushgate::Enqueued;
    ///
    /// let hour = Duration::from_secs(3600);
    /// let reports = client.queue_of::<String>("reports")?;
    /// let report = || reports.enqueue("shop:7", "sales".to_owned()).unique_for(hour);
    /// assert!(matches!(report().send().await?, Enqueued::Added { .. }));
    /// reports.pop(1).await?;
    /// assert!(matches!(report().send().await?, Enqueued::Recent { .. }));
    /// # client.close().await
    /// # }
    /// ```
    pub fn unique_for(self, period: Duration) -> Self {
        self.with(|task| task.unique_for = Some(period))
    }

    /// Dependencies: up to 1,000 tasks of the same queue. The task is blocked until all of them are over,
    /// whatever its due time. Each must be live, dead, or retained as done; otherwise the answer is
    /// [`Refused`](Enqueued::Refused) and nothing is enqueued. Repeated calls add dependencies.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use rushgate::queue::{IfDead, TaskState};
    ///
    /// let build = client.queue_of::<String>("build")?;
    /// build.enqueue("compile", "app".to_owned()).send().await?;
    /// build.enqueue("test", "app".to_owned()).after(["compile"]).if_dead(IfDead::Fail).send().await?;
    /// assert_eq!(build.task("test").await?.map(|info| info.state), Some(TaskState::Blocked));
    /// # client.close().await
    /// # }
    /// ```
    pub fn after<I: AsRef<str>>(self, others: impl IntoIterator<Item = I>) -> Self {
        let others = others.into_iter().map(TaskId::new).collect::<Result<Vec<_>>>();
        self.try_with(|task| others.map(|others| task.after.extend(others)))
    }

    /// What happens when a task that it [waits for](Self::after), or a [member](Self::part_of) of its batch, becomes a dead
    /// letter. Default: it keeps waiting.
    pub fn if_dead(self, if_dead: IfDead) -> Self {
        self.with(|task| task.if_dead = if_dead)
    }

    /// Makes the task the callback of a batch: it accepts [members](Self::part_of), and runs after the batch
    /// is [closed](Queue::close_batch) and all of them are over.
    pub fn held_open(self) -> Self {
        self.with(|task| task.held_open = true)
    }

    /// Makes the task a member of the batch with the callback `whole`, a task of the same queue that is [held
    /// open](Self::held_open). Otherwise the answer is [`Refused`](Enqueued::Refused).
    pub fn part_of(self, whole: impl AsRef<str>) -> Self {
        self.try_with(|task| TaskId::new(whole).map(|whole| task.part_of = Some(whole)))
    }

    /// Kind of the task, by which a [`Worker`](crate::Worker) selects its handler: 1 to 80 ASCII letters,
    /// digits and `.`, `_`, `:`, `/`, `-`.
    pub fn kind(mut self, kind: impl AsRef<str>) -> Self {
        self.task = self.task.and_then(|task| task.kind(kind));
        self
    }

    /// Maximum number of attempts before the task becomes a dead letter: 1 to 1,000. Default: 20.
    pub fn max_attempts(self, max_attempts: u32) -> Self {
        self.with(|task| task.max_attempts = max_attempts)
    }

    /// Enqueues the task.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a value out of range: nothing was enqueued. Otherwise the outcome is unknown;
    /// enqueueing the same ID again is safe.
    pub async fn send(self) -> Result<Enqueued> {
        let answers = self.queue.enqueue_all(vec![self.task?]).await?;
        let first = answers.into_iter().next();
        first.ok_or_else(|| Error::bug("the store returned no answer for an enqueued task"))
    }
}
