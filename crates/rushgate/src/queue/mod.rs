//! Queues: one live record per task ID, claimed in order of priority, due time and arrival.

mod claim;
mod enqueue;
mod finished;
mod follow;
mod why;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{
    Error, Field, Lease, Page, ReleaseWith, ReleasedWith, Result, Subject, Timestamp, Verbs,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use claim::Ready;
pub use enqueue::Enqueue;
pub use finished::FinishedTask;
pub use follow::{Followed, Follower};
#[doc(inline)]
pub use rushgate_core::{
    Announce, Cancelled, Closed, Completed, Completion, ContentType, DeadLetter, DeadRequeued, Dequeued, Due,
    Enqueued, Finish, Finished, Heartbeat, IfDead, KeyLimits, Kind, Listing, NewTask, OnDuplicate, Overflow,
    PastEnd, PastRun, Payload, Priority, QueueLimits, QueueName, QueueStats, Rate, Rescheduled, Retention,
    Retried, Retry, Revision, Selection, Task, TaskChange, TaskEnd, TaskEvent, TaskEvents, TaskExtended,
    TaskId, TaskInfo, TaskKey, TaskPage, TaskProgress, TaskRelease, TaskReleased, TaskState, Ticket,
    TraceParent, UniqueCleared, Unmet, Waited, Waits, WaitsFor, WorkerId, WorkerInfo, WorkerMode,
};
pub use why::{KeyRun, Why};

use crate::{Rushgate, trace};

/// A handle to one queue whose tasks carry a `T`: raw bytes ([`Payload`]) from [`Rushgate::queue`], JSON from
/// [`Rushgate::queue_of`].
///
/// Cheap to clone. Sends no request until a method is called.
///
/// # Unknown outcomes
/// Each changing call has its own [operation token](crate::store::Op). While its outcome is unknown, the call is
/// repeated with the same token for up to 5 s, and takes effect at most once. After an error that [may have
/// happened](Error::may_have_happened), it may or may not have taken effect.
///
/// # Cancel safety
/// If the future of a changing call is dropped, the call may or may not take effect. Claims are the
/// exception: tasks claimed by a dropped call return to the queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
///
/// let mail = client.queue_of::<String>("mail")?;
/// mail.enqueue("to:ann", "Welcome".to_owned()).send().await?;
///
/// let tasks = mail.claim(10, Duration::from_secs(30)).await?;
/// assert_eq!(mail.read(&tasks[0].payload)?, "Welcome");
/// mail.complete(vec![tasks[0].ticket.clone()]).await?;
/// assert_eq!(mail.stats().await?.leased, 0);
/// # client.close().await
/// # }
/// ```
pub struct Queue<T = Payload> {
    client: Rushgate,
    name: QueueName,
    codec: Codec<T>,
    /// Worker name for claims. Default: the process.
    worker: Option<Arc<str>>,
}

/// Conversion between content and bytes.
struct Codec<T> {
    write: fn(T) -> Result<Payload>,
    read: fn(&Payload) -> Result<T>,
}

const BYTES: Codec<Payload> = Codec { write: Ok, read: |payload| Ok(payload.clone()) };

impl<T> Clone for Codec<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Codec<T> {}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            name: self.name.clone(),
            codec: self.codec,
            worker: self.worker.clone(),
        }
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Rushgate {
    /// A handle to the queue `name`, with raw bytes as content.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) unless the name has 1 to 200 bytes and no white space, control
    /// characters or braces.
    pub fn queue(&self, name: impl AsRef<str>) -> Result<Queue> {
        Ok(Queue { client: self.clone(), name: QueueName::new(name)?, codec: BYTES, worker: None })
    }

    /// A handle to the queue `name`, with a `T` in JSON as content.
    ///
    /// # Errors
    /// As [`queue`](Self::queue).
    pub fn queue_of<T: Serialize + DeserializeOwned>(&self, name: impl AsRef<str>) -> Result<Queue<T>> {
        let codec = Codec {
            write: |content| write_json(&content),
            read: |payload| read_json(Field::Payload, payload),
        };
        Ok(Queue { client: self.clone(), name: QueueName::new(name)?, codec, worker: None })
    }

    pub(crate) async fn enqueue(&self, queue: &QueueName, tasks: Vec<NewTask>) -> Result<Vec<Enqueued>> {
        let op = self.op();
        let answer = self.ask(|| self.store().enqueue(op, queue, tasks.clone())).await;
        self.announce_due(queue, &tasks);
        answer
    }

    pub(crate) async fn release_with(&self, release: ReleaseWith) -> Result<ReleasedWith> {
        let op = release.op();
        let answer = self.ask(|| self.store().release_with(op, release.clone())).await;
        self.announce_due(&release.queue, std::slice::from_ref(&release.task));
        answer
    }

    /// Wakes the listeners of a queue if these tasks may change when the next one is due.
    fn announce_due(&self, queue: &QueueName, tasks: &[NewTask]) {
        if tasks.iter().any(|task| task.due != Due::Now || task.deadline.is_some()) {
            self.next_due_changed(queue);
        }
    }
}

fn write_json<T: Serialize>(content: &T) -> Result<Payload> {
    let bytes = serde_json::to_vec(content)
        .map_err(|error| Error::invalid("the content", "cannot be serialized as JSON").caused_by(error))?;
    Payload::new(ContentType::json(), bytes)
}

/// Deserializes a payload. `what` is its name in the error.
pub(crate) fn read_json<'a, T: DeserializeOwned>(
    what: impl Into<Subject<'a>>,
    payload: &Payload,
) -> Result<T> {
    serde_json::from_slice(payload.bytes())
        .map_err(|error| Error::invalid(what, format_args!("cannot be parsed as the expected JSON: {error}")))
}

impl<T> Queue<T> {
    /// The name.
    pub fn name(&self) -> &QueueName {
        &self.name
    }

    /// The same queue, with raw bytes as content.
    pub(crate) fn bytes(&self) -> Queue {
        Queue {
            client: self.client.clone(),
            name: self.name.clone(),
            codec: BYTES,
            worker: self.worker.clone(),
        }
    }

    pub(crate) fn client(&self) -> &Rushgate {
        &self.client
    }

    /// Deserializes the content of a task.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the bytes are not a `T`.
    pub fn read(&self, payload: &Payload) -> Result<T> {
        (self.codec.read)(payload)
    }

    /// Creates a task for [`enqueue_all`](Self::enqueue_all): due at once; if its ID is live, the existing
    /// task is kept. It carries the trace of the current span; see [`trace`].
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a bad ID, or content that exceeds 1 MiB or cannot be serialized.
    pub fn new_task(&self, id: impl AsRef<str>, content: T) -> Result<NewTask> {
        Ok(NewTask::new(TaskId::new(id)?, trace::carried(self.content(content)?)))
    }

    /// Serializes content.
    pub(crate) fn content(&self, content: T) -> Result<Payload> {
        (self.codec.write)(content)
    }

    /// Enqueues a task made with [`new_task`](Self::new_task): returns the builder, as
    /// [`enqueue`](Self::enqueue) does.
    pub fn enqueue_new(&self, task: NewTask) -> Enqueue<'_, T> {
        Enqueue::new(self, Ok(task))
    }

    /// Enqueues one task: returns a builder with its options, to be [sent](Enqueue::send).
    pub fn enqueue(&self, id: impl AsRef<str>, content: T) -> Enqueue<'_, T> {
        Enqueue::new(self, self.new_task(id, content))
    }

    /// Enqueues 1 to 1,000 tasks atomically, in the given order. Each gets its own answer.
    pub async fn enqueue_all(&self, tasks: Vec<NewTask>) -> Result<Vec<Enqueued>> {
        self.client.enqueue(&self.name, tasks).await
    }

    /// The first `n` due tasks (1 to 1,000), without claiming them.
    pub async fn top(&self, n: u32) -> Result<Vec<Task>> {
        self.client.ask(|| self.client.store().top(&self.name, n)).await
    }

    /// Removes and returns the first `n` due tasks (1 to 1,000). If the client dies, they are lost: most
    /// programs need [`claim`](Self::claim).
    pub async fn pop(&self, n: u32) -> Result<Vec<Task>> {
        let op = self.client.op();
        self.client.ask(|| self.client.store().pop(op, &self.name, n)).await
    }

    /// Completes claimed tasks, 1 to 1,000 in one atomic step. Each is a [`Ticket`], or a [`Completion`] with
    /// a result of at most 64 KiB. The result is kept if the queue has a [`Retention`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use std::time::Duration;
    /// use rushgate::queue::{Completion, ContentType, FinishedTask, Payload, QueueLimits, Retention};
    ///
    /// let sums = client.queue_of::<Vec<u64>>("sums")?;
    /// let retention = Some(Retention::new(Duration::from_secs(3_600), 10_000));
    /// sums.limit(QueueLimits { retention, ..QueueLimits::default() }).await?;
    /// sums.enqueue("first", vec![1, 2, 3]).send().await?;
    ///
    /// let task = sums.claim(1, Duration::from_secs(30)).await?.remove(0);
    /// let sum: u64 = sums.read(&task.payload)?.iter().sum();
    /// let result = Payload::new(ContentType::json(), sum.to_string().into_bytes())?;
    /// sums.complete(vec![Completion::with(task.ticket, result)]).await?;
    ///
    /// let over = sums.wait_for("first", Duration::from_secs(10)).await?;
    /// assert_eq!(over.and_then(|over| over.result::<u64>().transpose()).transpose()?, Some(6));
    /// # client.close().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a batch or a result outside its limits: nothing was completed.
    /// Otherwise the store could not answer. Tasks that were not completed become available again when their
    /// leases expire.
    pub async fn complete<D: Into<Completion>>(&self, done: Vec<D>) -> Result<Vec<Completed>> {
        let (op, done) = (self.client.op(), done.into_iter().map(Into::into).collect::<Vec<_>>());
        self.client.ask(|| self.client.store().complete(op, &self.name, done.clone())).await
    }

    /// Fails claimed tasks, 1 to 1,000 in one atomic step. Each waits for its delay and is then due again, or
    /// becomes a dead letter.
    pub async fn retry(&self, failed: Vec<Retry>) -> Result<Vec<Retried>> {
        let op = self.client.op();
        let answer = self.client.ask(|| self.client.store().retry(op, &self.name, failed.clone())).await;
        self.client.next_due_changed(&self.name);
        answer
    }

    /// Returns claimed tasks to the queue, 1 to 1,000 in one atomic step, without counting the attempt. Each
    /// keeps its place, or is due after a delay of at most 400 days. `ticket.into()` is a [`TaskRelease`]
    /// without a delay.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a batch or a delay outside its range: nothing was returned.
    /// Otherwise the store could not answer. Tasks that were not returned become available again when their
    /// leases expire.
    pub async fn release(&self, tasks: Vec<TaskRelease>) -> Result<Vec<TaskReleased>> {
        let op = self.client.op();
        let answer =
            self.client.ask(|| self.client.store().release_tasks(op, &self.name, tasks.clone())).await;
        if tasks.iter().any(|task| !task.delay.is_zero()) {
            self.client.next_due_changed(&self.name);
        }
        answer
    }

    /// Extends the leases of claimed tasks (10 ms to 24 h), and reports which were canceled or lost. Each is
    /// a [`Ticket`], or a [`Heartbeat`] with its progress.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a lease, batch or progress outside its limits: nothing was
    /// extended. Otherwise the store could not answer, and the old leases may still apply.
    pub async fn extend<H: Into<Heartbeat>>(
        &self,
        beats: Vec<H>,
        lease: Duration,
    ) -> Result<Vec<TaskExtended>> {
        let (lease, beats) = (Lease::new(lease)?, beats.into_iter().map(Into::into).collect::<Vec<_>>());
        self.client.ask(|| self.client.store().extend_tasks(&self.name, beats.clone(), lease)).await
    }

    /// Removes a task, but only if it was not enqueued again since the ticket was read and no worker holds
    /// it.
    pub async fn dequeue(&self, ticket: Ticket) -> Result<Dequeued> {
        let op = self.client.op();
        self.client.ask(|| self.client.store().dequeue(op, &self.name, ticket.clone())).await
    }

    /// Cancels a task, whatever its revision. The worker of a running task learns of it at its next
    /// heartbeat.
    pub async fn cancel(&self, id: impl AsRef<str>) -> Result<Cancelled> {
        let (op, id) = (self.client.op(), TaskId::new(id)?);
        self.client.ask(|| self.client.store().cancel(op, &self.name, &id)).await
    }

    /// Changes when a waiting task is due, earlier or later. Everything else about the task stays.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a bad ID or a delay of more than 400 days; nothing was sent. Otherwise the
    /// store could not answer, and the task may be due at the new time. To call it again is safe.
    pub async fn reschedule(&self, id: impl AsRef<str>, due: Due) -> Result<Rescheduled> {
        let (op, id) = (self.client.op(), TaskId::new(id)?);
        let answer = self.client.ask(|| self.client.store().reschedule(op, &self.name, &id, due)).await;
        self.client.next_due_changed(&self.name);
        answer
    }

    /// End of an ID's [uniqueness window](Enqueue::unique_for), whether its task is live or not. `None` if it
    /// has none.
    pub async fn unique_until(&self, id: impl AsRef<str>) -> Result<Option<Timestamp>> {
        let id = TaskId::new(id)?;
        self.client.ask(|| self.client.store().unique_until(&self.name, &id)).await
    }

    /// Clears the [uniqueness window](Enqueue::unique_for) of an ID, so that it can be enqueued again at once. A live task of
    /// that ID stays as it is.
    pub async fn clear_unique(&self, id: impl AsRef<str>) -> Result<UniqueCleared> {
        let (op, id) = (self.client.op(), TaskId::new(id)?);
        self.client.ask(|| self.client.store().clear_unique(op, &self.name, &id)).await
    }

    /// Closes a batch: its [callback](Enqueue::held_open) accepts no more members and runs as soon as all of
    /// them are over, at once if there are none.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a bad ID. Otherwise the store could not answer; closing again is
    /// safe.
    pub async fn close_batch(&self, id: impl AsRef<str>) -> Result<Closed> {
        let (op, id) = (self.client.op(), TaskId::new(id)?);
        let answer = self.client.ask(|| self.client.store().close_batch(op, &self.name, &id)).await;
        self.client.next_due_changed(&self.name);
        answer
    }

    /// The workers of the queue that live, by ID, busy or idle. A [`Worker`](crate::Worker) announces itself every 10 s,
    /// and one that died is listed for up to 30 s.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a page limit outside its range. Otherwise the store could not answer. Nothing
    /// was changed.
    pub async fn workers(&self, page: Page) -> Result<Vec<WorkerInfo>> {
        self.client.ask(|| self.client.store().workers(&self.name, page.clone())).await
    }

    /// Asks a worker to work, to be quiet or to stop. It does so at its next announcement, within 10 s. `false` if it is
    /// not listed.
    ///
    /// # Errors
    /// The store could not answer. The worker may have been asked; asking again is safe.
    pub async fn set_worker(&self, id: &WorkerId, mode: WorkerMode) -> Result<bool> {
        self.client.ask(|| self.client.store().set_worker(&self.name, id, mode)).await
    }

    /// Announces a worker that is no [`Worker`](crate::Worker), such as a program in another language, and returns what
    /// an operator asked of it. A repeated announcement is safe.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a value outside its limits. Otherwise the store could not answer; the worker
    /// may be listed.
    pub async fn announce(&self, worker: Announce) -> Result<WorkerMode> {
        self.client.ask(|| self.client.store().announce(&self.name, worker.clone())).await
    }

    /// Up to `n` live tasks (1 to 1,000) that still wait for this one: by the policy for a dead dependency, then by arrival.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a bad ID or an `n` outside its range. Otherwise the store could not answer.
    /// Nothing was changed.
    pub async fn dependents(&self, id: impl AsRef<str>, n: u32) -> Result<Vec<TaskId>> {
        let id = TaskId::new(id)?;
        self.client.ask(|| self.client.store().dependents(&self.name, &id, n)).await
    }

    /// Progress of what a live task waits for, such as the members of its batch. `None` if the task is not
    /// live or never waited.
    pub async fn waits(&self, id: impl AsRef<str>) -> Result<Option<Waits>> {
        let id = TaskId::new(id)?;
        self.client.ask(|| self.client.store().waits(&self.name, &id)).await
    }

    /// Tasks that a live task waited for and that are over, with their results, by ID: up to 100 a page. A handler
    /// reads them through [`Results`](crate::worker::Results).
    pub async fn waited(&self, id: impl AsRef<str>, page: Page) -> Result<Vec<Waited>> {
        let id = TaskId::new(id)?;
        self.client.ask(|| self.client.store().waited(&self.name, &id, page.clone())).await
    }

    /// One task by ID, if it is live, or done and kept by the queue's [`Retention`].
    pub async fn task(&self, id: impl AsRef<str>) -> Result<Option<TaskInfo>> {
        let id = TaskId::new(id)?;
        self.client.ask(|| self.client.store().task(&self.name, &id)).await
    }

    /// A page of the tasks: the live ones, or those in the requested state, in the order of the store.
    ///
    /// A page may be short or empty although more follow: only a page without [`next`](TaskPage::next) is the last. One
    /// call costs the store a few milliseconds at most, however many tasks the queue has. [`Listing::fill`] reads on until
    /// it has as many tasks as were asked for, and [`Listing::read_all`] to the end.
    ///
    /// All pages of an unchanged queue list each task once. While the queue changes, every task that is live throughout is
    /// listed at least once, if all states are asked for. Of one state, every task is that is in it and unchanged
    /// throughout.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use rushgate::queue::{Listing, TaskState};
    /// use rushgate::store::Page;
    ///
    /// let queue = client.queue("mail")?;
    /// # queue.enqueue("welcome", rushgate::queue::Payload::empty()).send().await?;
    /// let mut ready = Listing::new(TaskState::Ready, Page::first(100));
    /// loop {
    ///     let page = queue.tasks(ready.clone()).await?;
    ///     for info in page.tasks {
    ///         println!("{}", info.task.ticket.id);
    ///     }
    ///     let Some(next) = page.next else { break };
    ///     ready.page.after = next;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for the cursor of another listing.
    pub async fn tasks(&self, listing: Listing) -> Result<TaskPage> {
        self.client.ask(|| self.client.store().tasks(&self.name, listing.clone())).await
    }

    /// Number of tasks by state, and the lag of the queue.
    pub async fn stats(&self) -> Result<QueueStats> {
        self.client.ask(|| self.client.store().stats(&self.name)).await
    }

    /// Pauses the queue: workers get no tasks. All other verbs keep working.
    pub async fn pause(&self) -> Result<()> {
        self.client.ask(|| self.client.store().pause(&self.name)).await
    }

    /// Resumes the queue: workers get tasks again.
    pub async fn resume(&self) -> Result<()> {
        self.client.ask(|| self.client.store().resume(&self.name)).await
    }

    /// Sets all limits of the queue: an absent one means unlimited. They apply to all workers together, on the store's clock.
    /// Existing tasks stay, and running tasks continue. A changed rate limit starts counting from zero.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use std::time::Duration;
    /// use rushgate::queue::{KeyLimits, QueueLimits, Rate};
    ///
    /// let mail = client.queue_of::<String>("mail")?;
    /// // At most 100 per minute in total, and one at a time per tenant.
    /// mail.limit(QueueLimits {
    ///     rate: Some(Rate::new(100, Duration::from_secs(60))),
    ///     per_key: KeyLimits { concurrency: Some(1), ..KeyLimits::default() },
    ///     ..QueueLimits::default()
    /// })
    /// .await?;
    /// for n in 1..=3 {
    ///     mail.enqueue(format!("big:{n}"), "Welcome".to_owned()).key("big").send().await?;
    /// }
    /// mail.enqueue("small:1", "Welcome".to_owned()).key("small").send().await?;
    ///
    /// let tasks = mail.claim(10, Duration::from_secs(30)).await?;
    /// let ids: Vec<_> = tasks.iter().map(|task| task.ticket.id.as_str()).collect();
    /// assert_eq!(ids, ["big:1", "small:1"]);
    /// # client.close().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a limit outside its range: nothing was changed.
    pub async fn limit(&self, limits: QueueLimits) -> Result<()> {
        self.client.ask(|| self.client.store().limit(&self.name, limits)).await
    }

    /// Dead letters by ID.
    pub async fn dead(&self, page: Page) -> Result<Vec<DeadLetter>> {
        self.client.ask(|| self.client.store().dead(&self.name, page.clone())).await
    }

    /// One dead letter by ID.
    pub async fn dead_letter(&self, id: impl AsRef<str>) -> Result<Option<DeadLetter>> {
        let id = TaskId::new(id)?;
        self.client.ask(|| self.client.store().dead_letter(&self.name, &id)).await
    }

    /// Requeues dead letters: they are due at once, with all attempts available again.
    pub async fn requeue_dead(&self, which: Selection) -> Result<DeadRequeued> {
        let op = self.client.op();
        self.client.ask(|| self.client.store().requeue_dead(op, &self.name, which.clone())).await
    }

    /// Deletes dead letters, and returns how many.
    pub async fn delete_dead(&self, which: Selection) -> Result<u64> {
        let op = self.client.op();
        self.client.ask(|| self.client.store().delete_dead(op, &self.name, which.clone())).await
    }
}
