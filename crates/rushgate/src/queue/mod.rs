//! Queues: one live record per task ID, claimed in order of priority, due time and arrival.

mod claim;
mod enqueue;
mod follow;
mod over;
mod why;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{
    Cancelled, Closed, Completed, Completion, ContentType, DeadLetter, Dequeued, Due, Enqueued, Error,
    GiveBack, GivenBack, Heartbeat, Lease, Lifted, Listing, NewTask, Payload, QueueLimits, QueueName,
    QueueStats, ReleaseWith, ReleasedWith, Result, Retried, Retry, Revived, Selection, Task, TaskExtended,
    TaskId, TaskInfo, Ticket, Timestamp, Waited, Waits,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use claim::Ready;
pub use enqueue::Enqueue;
pub use follow::{Followed, Follower};
pub use over::Over;
pub use why::{KeyRun, Why};

use crate::{Rushgate, trace};

/// One queue by name, whose tasks carry a `T`: bytes as they are ([`Payload`]) from [`Rushgate::queue`], JSON from
/// [`Rushgate::queue_of`].
///
/// Cheap to clone; asks the store nothing until a verb is called.
///
/// # Unknown outcomes
/// Each changing call has its own [operation token](crate::Op). While its outcome is unknown the call is repeated
/// with the same token for up to 5 s, and takes effect once. After an error that
/// [may have happened](Error::may_have_happened), it may or may not have taken effect.
///
/// # Cancel safety
/// Dropping the future of a changing call leaves it done or not done. Claims are the exception: what a dropped
/// claim took is released.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
///
/// let mail = gate.queue_of::<String>("mail")?;
/// mail.enqueue("to:ann", "Welcome".to_owned()).send().await?;
///
/// let tasks = mail.claim(10, Duration::from_secs(30)).await?;
/// assert_eq!(mail.read(&tasks[0].payload)?, "Welcome");
/// mail.complete(vec![tasks[0].ticket.clone()]).await?;
/// assert_eq!(mail.stats().await?.leased, 0);
/// # gate.close().await
/// # }
/// ```
pub struct Queue<T = Payload> {
    gate: Rushgate,
    name: QueueName,
    codec: Codec<T>,
    /// In whose name it claims, unless it is the process's.
    worker: Option<Arc<str>>,
}

/// How content becomes bytes and back.
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
            gate: self.gate.clone(),
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
    /// The queue of that name, with content as bytes.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) unless the name has 1 to 200 bytes without white space, control characters
    /// and braces.
    pub fn queue(&self, name: impl AsRef<str>) -> Result<Queue> {
        Ok(Queue { gate: self.clone(), name: QueueName::new(name)?, codec: BYTES, worker: None })
    }

    /// The queue of that name, whose content is a `T` as JSON.
    ///
    /// # Errors
    /// As [`queue`](Self::queue).
    pub fn queue_of<T: Serialize + DeserializeOwned>(&self, name: impl AsRef<str>) -> Result<Queue<T>> {
        let codec = Codec { write: |content| write_json(&content), read: read_json };
        Ok(Queue { gate: self.clone(), name: QueueName::new(name)?, codec, worker: None })
    }

    pub(crate) async fn enqueue(&self, queue: &QueueName, tasks: Vec<NewTask>) -> Result<Vec<Enqueued>> {
        let op = self.op();
        let answer = self.ask(|| self.store().enqueue(op, queue, tasks.clone())).await;
        self.put_in(queue, &tasks);
        answer
    }

    pub(crate) async fn release_with(&self, release: ReleaseWith) -> Result<ReleasedWith> {
        let op = self.op();
        let answer = self.ask(|| self.store().release_with(op, release.clone())).await;
        self.put_in(&release.queue, std::slice::from_ref(&release.task));
        answer
    }

    /// Tells the listeners of a queue if the moment may be another at which the next is due.
    fn put_in(&self, queue: &QueueName, tasks: &[NewTask]) {
        if tasks.iter().any(|task| task.due != Due::Now || task.deadline.is_some()) {
            self.next_due_changed(queue);
        }
    }
}

fn write_json<T: Serialize>(content: &T) -> Result<Payload> {
    let bytes = serde_json::to_vec(content)
        .map_err(|error| Error::invalid("the content", "cannot be written as JSON").caused_by(error))?;
    Payload::new(ContentType::json(), bytes)
}

fn read_json<T: DeserializeOwned>(payload: &Payload) -> Result<T> {
    serde_json::from_slice(payload.bytes()).map_err(|error| {
        Error::invalid("the payload", format_args!("is not the JSON that was expected: {error}"))
    })
}

impl<T> Queue<T> {
    /// The name.
    pub fn name(&self) -> &QueueName {
        &self.name
    }

    /// The same queue, with content as bytes.
    pub(crate) fn bytes(&self) -> Queue {
        Queue { gate: self.gate.clone(), name: self.name.clone(), codec: BYTES, worker: self.worker.clone() }
    }

    pub(crate) fn gate(&self) -> &Rushgate {
        &self.gate
    }

    /// The content of a task.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the bytes are no `T`.
    pub fn read(&self, payload: &Payload) -> Result<T> {
        (self.codec.read)(payload)
    }

    /// Creates a task for [`enqueue_all`](Self::enqueue_all): due at once, and kept if its ID is live. It carries the trace
    /// of the current span; see [`trace`].
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a bad id, or content that is larger than 1 MiB or no JSON.
    pub fn new_task(&self, id: impl AsRef<str>, content: T) -> Result<NewTask> {
        Ok(NewTask::new(TaskId::new(id)?, trace::carried(self.content(content)?)))
    }

    /// Content as bytes.
    pub(crate) fn content(&self, content: T) -> Result<Payload> {
        (self.codec.write)(content)
    }

    /// Puts one task in that was [made before](Self::new_task), as [`enqueue`](Self::enqueue) does.
    pub fn enqueue_new(&self, task: NewTask) -> Enqueue<'_, T> {
        Enqueue::new(self, Ok(task))
    }

    /// Puts one task in; say how, then [`send`](Enqueue::send).
    pub fn enqueue(&self, id: impl AsRef<str>, content: T) -> Enqueue<'_, T> {
        Enqueue::new(self, self.new_task(id, content))
    }

    /// Enqueues 1 to 1,000 tasks atomically, in the given order. Each gets its own answer.
    pub async fn enqueue_all(&self, tasks: Vec<NewTask>) -> Result<Vec<Enqueued>> {
        self.gate.enqueue(&self.name, tasks).await
    }

    /// Looks at the first `n` due tasks (1 to 1,000) without taking them.
    pub async fn top(&self, n: u32) -> Result<Vec<Task>> {
        self.gate.ask(|| self.gate.store().top(&self.name, n)).await
    }

    /// Takes the first `n` due tasks (1 to 1,000) for good. If the taker dies they are lost: most programs want
    /// [`claim`](Self::claim).
    pub async fn pop(&self, n: u32) -> Result<Vec<Task>> {
        let op = self.gate.op();
        self.gate.ask(|| self.gate.store().pop(op, &self.name, n)).await
    }

    /// Ends claimed tasks that are done, 1 to 1,000 in one step: each a [`Ticket`], or a [`Completion`] with what came
    /// of it, at most 64 KiB, which is kept if the queue has a [`Retention`](crate::Retention).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use std::time::Duration;
    /// use rushgate::{Completion, ContentType, Over, Payload, QueueLimits, Retention};
    ///
    /// let sums = gate.queue_of::<Vec<u64>>("sums")?;
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
    /// # gate.close().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a batch or a result outside its limits: nothing was ended. Otherwise the store
    /// could not tell; what was not ended comes again when its lease runs out.
    pub async fn complete<D: Into<Completion>>(&self, done: Vec<D>) -> Result<Vec<Completed>> {
        let (op, done) = (self.gate.op(), done.into_iter().map(Into::into).collect::<Vec<_>>());
        self.gate.ask(|| self.gate.store().complete(op, &self.name, done.clone())).await
    }

    /// Ends claimed tasks that failed, 1 to 1,000 in one step: each waits again after its delay, or becomes a dead
    /// letter.
    pub async fn retry(&self, failed: Vec<Retry>) -> Result<Vec<Retried>> {
        let op = self.gate.op();
        let answer = self.gate.ask(|| self.gate.store().retry(op, &self.name, failed.clone())).await;
        self.gate.next_due_changed(&self.name);
        answer
    }

    /// Releases claimed tasks as if they had not been claimed, 1 to 1,000 in one step: in their places, or due after a delay of at
    /// most 400 days. `ticket.into()` is a [`GiveBack`] without one.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a batch or a delay outside its range: nothing was given back. Otherwise the
    /// store could not tell; what was not given back comes again when its lease runs out.
    pub async fn give_back(&self, back: Vec<GiveBack>) -> Result<Vec<GivenBack>> {
        let op = self.gate.op();
        let answer = self.gate.ask(|| self.gate.store().give_back(op, &self.name, back.clone())).await;
        if back.iter().any(|back| !back.delay.is_zero()) {
            self.gate.next_due_changed(&self.name);
        }
        answer
    }

    /// Extends the leases of claimed tasks (10 ms to 24 h), and reports which were canceled or lost. Each is given as a
    /// [`Ticket`], or as a [`Heartbeat`] with its progress.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a lease, batch or progress outside its limits: nothing was extended. Otherwise
    /// the store could not tell, and the leases may run out when they would have before.
    pub async fn extend<H: Into<Heartbeat>>(
        &self,
        beats: Vec<H>,
        lease: Duration,
    ) -> Result<Vec<TaskExtended>> {
        let (lease, beats) = (Lease::new(lease)?, beats.into_iter().map(Into::into).collect::<Vec<_>>());
        self.gate.ask(|| self.gate.store().extend_tasks(&self.name, beats.clone(), lease)).await
    }

    /// Removes a task only if it was not enqueued again since the ticket was read and nobody works on it.
    pub async fn dequeue(&self, ticket: Ticket) -> Result<Dequeued> {
        let op = self.gate.op();
        self.gate.ask(|| self.gate.store().dequeue(op, &self.name, ticket.clone())).await
    }

    /// Cancels a task of any revision; the worker of a running task learns of it at its next heartbeat.
    pub async fn cancel(&self, id: impl AsRef<str>) -> Result<Cancelled> {
        let (op, id) = (self.gate.op(), TaskId::new(id)?);
        self.gate.ask(|| self.gate.store().cancel(op, &self.name, &id)).await
    }

    /// Until when an id is [unique](Enqueue::unique_for), whether its task is live or not; `None` if it is not.
    pub async fn unique_until(&self, id: impl AsRef<str>) -> Result<Option<Timestamp>> {
        let id = TaskId::new(id)?;
        self.gate.ask(|| self.gate.store().unique_until(&self.name, &id)).await
    }

    /// Clears the [uniqueness window](Enqueue::unique_for) of an ID, so that it can be enqueued again at once. A live task of
    /// that ID stays as it is.
    pub async fn lift(&self, id: impl AsRef<str>) -> Result<Lifted> {
        let (op, id) = (self.gate.op(), TaskId::new(id)?);
        self.gate.ask(|| self.gate.store().lift(op, &self.name, &id)).await
    }

    /// Lets a task that is [held open](Enqueue::held_open) take no more parts: it runs as soon as all that it waits for are
    /// over, which is at once if there are none.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a bad id. Otherwise the store could not tell; closing again is safe.
    pub async fn close_batch(&self, id: impl AsRef<str>) -> Result<Closed> {
        let (op, id) = (self.gate.op(), TaskId::new(id)?);
        let answer = self.gate.ask(|| self.gate.store().close_batch(op, &self.name, &id)).await;
        self.gate.next_due_changed(&self.name);
        answer
    }

    /// What a live task waits for, and how far that has come: the progress of a batch. `None` if it is not live, or
    /// never waited for anything.
    pub async fn waits(&self, id: impl AsRef<str>) -> Result<Option<Waits>> {
        let id = TaskId::new(id)?;
        self.gate.ask(|| self.gate.store().waits(&self.name, &id)).await
    }

    /// Those that a live task waited for and that are over, with their results: at most `limit` (1 to 100) by id, after
    /// `after`, which is empty for the beginning. A handler has them by [`Results`](crate::Results).
    pub async fn waited(&self, id: impl AsRef<str>, after: &str, limit: u32) -> Result<Vec<Waited>> {
        let id = TaskId::new(id)?;
        self.gate.ask(|| self.gate.store().waited(&self.name, &id, after, limit)).await
    }

    /// One task by id, if it is live, or else if it is done and kept by the queue's [`Retention`](crate::Retention).
    pub async fn task(&self, id: impl AsRef<str>) -> Result<Option<TaskInfo>> {
        let id = TaskId::new(id)?;
        self.gate.ask(|| self.gate.store().task(&self.name, &id)).await
    }

    /// Tasks by id: the live ones, or those in the state that is asked for.
    pub async fn tasks(&self, listing: Listing) -> Result<Vec<TaskInfo>> {
        self.gate.ask(|| self.gate.store().tasks(&self.name, listing.clone())).await
    }

    /// Lengths by state, and the age of the oldest due task.
    pub async fn stats(&self) -> Result<QueueStats> {
        self.gate.ask(|| self.gate.store().stats(&self.name)).await
    }

    /// Pauses the queue: workers get no tasks. All other verbs keep working.
    pub async fn pause(&self) -> Result<()> {
        self.gate.ask(|| self.gate.store().pause(&self.name, true)).await
    }

    /// Gives tasks out again.
    pub async fn resume(&self) -> Result<()> {
        self.gate.ask(|| self.gate.store().pause(&self.name, false)).await
    }

    /// Sets all limits of the queue: an absent one means unlimited. They apply to all workers together, on the store's clock.
    /// Existing tasks stay, and running tasks continue. A changed rate limit starts counting from zero.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use std::time::Duration;
    /// use rushgate::{KeyLimits, QueueLimits, Rate};
    ///
    /// let mail = gate.queue_of::<String>("mail")?;
    /// // 100 a minute in all, and one at a time for each tenant.
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
    /// # gate.close().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a limit outside its range: nothing was changed.
    pub async fn limit(&self, limits: QueueLimits) -> Result<()> {
        self.gate.ask(|| self.gate.store().limit(&self.name, limits)).await
    }

    /// Dead letters by id: at most `limit` (1 to 10,000) after `after`, which is empty for the beginning.
    pub async fn dead(&self, after: &str, limit: u32) -> Result<Vec<DeadLetter>> {
        self.gate.ask(|| self.gate.store().dead(&self.name, after, limit)).await
    }

    /// One dead letter by id.
    pub async fn dead_letter(&self, id: impl AsRef<str>) -> Result<Option<DeadLetter>> {
        let id = TaskId::new(id)?;
        self.gate.ask(|| self.gate.store().dead_letter(&self.name, &id)).await
    }

    /// Puts dead letters back, due at once and with all attempts before them.
    pub async fn retry_dead(&self, which: Selection) -> Result<Revived> {
        let op = self.gate.op();
        self.gate.ask(|| self.gate.store().revive(op, &self.name, which.clone())).await
    }

    /// Deletes dead letters, and says how many.
    pub async fn delete_dead(&self, which: Selection) -> Result<u64> {
        let op = self.gate.op();
        self.gate.ask(|| self.gate.store().bury(op, &self.name, which.clone())).await
    }
}
