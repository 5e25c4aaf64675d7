//! Queues: one live record per task id, given out in order of priority, due time and arrival.

mod claim;
mod enqueue;
mod why;

use std::fmt;
use std::time::Duration;

use rushgate_core::{
    Cancelled, Completed, ContentType, DeadLetter, Dequeued, Due, Enqueued, Error, GivenBack, Lease, Listing,
    NewTask, Payload, QueueLimits, QueueName, QueueStats, Result, Retried, Retry, Revived, Selection, Task,
    TaskExtended, TaskId, TaskInfo, Ticket,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use claim::Ready;
pub use enqueue::Enqueue;
pub use why::Why;

use crate::Rushgate;

/// One queue by name, whose tasks carry a `T`: bytes as they are ([`Payload`]) from [`Rushgate::queue`], JSON from
/// [`Rushgate::queue_of`].
///
/// Cheap to clone; asks the store nothing until a verb is called.
///
/// # Unknown outcomes
/// Each changing call has its own [operation token](crate::Op). While its outcome is unknown the same call is sent
/// again with the same token for up to 5 s, and is carried out once. An error that
/// [may have happened](Error::may_have_happened) after that leaves the caller with either.
///
/// # Cancel safety
/// Dropping the future of a changing call leaves it done or not done. Claims are the exception: what a dropped
/// claim took is given back.
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
}

/// How content becomes bytes and back.
struct Codec<T> {
    write: fn(T) -> Result<Payload>,
    read: fn(&Payload) -> Result<T>,
}

impl<T> Clone for Codec<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Codec<T> {}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { gate: self.gate.clone(), name: self.name.clone(), codec: self.codec }
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
        let codec = Codec { write: Ok, read: |payload| Ok(payload.clone()) };
        Ok(Queue { gate: self.clone(), name: QueueName::new(name)?, codec })
    }

    /// The queue of that name, whose content is a `T` as JSON.
    ///
    /// # Errors
    /// As [`queue`](Self::queue).
    pub fn queue_of<T: Serialize + DeserializeOwned>(&self, name: impl AsRef<str>) -> Result<Queue<T>> {
        let codec = Codec { write: |content| write_json(&content), read: read_json };
        Ok(Queue { gate: self.clone(), name: QueueName::new(name)?, codec })
    }

    pub(crate) async fn enqueue(&self, queue: &QueueName, tasks: Vec<NewTask>) -> Result<Vec<Enqueued>> {
        let op = self.op();
        let answer = self.ask(|| self.store().enqueue(op, queue, tasks.clone())).await;
        if tasks.iter().any(|task| task.due != Due::Now) {
            self.next_due_changed(queue);
        }
        answer
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

    /// A task to put in with others ([`enqueue_all`](Self::enqueue_all)): due at once, kept if it is there already.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a bad id, or content that is larger than 1 MiB or no JSON.
    pub fn new_task(&self, id: impl AsRef<str>, content: T) -> Result<NewTask> {
        Ok(NewTask::new(TaskId::new(id)?, (self.codec.write)(content)?))
    }

    /// Puts one task in; say how, then [`send`](Enqueue::send).
    pub fn enqueue(&self, id: impl AsRef<str>, content: T) -> Enqueue<'_, T> {
        Enqueue::new(self, self.new_task(id, content))
    }

    /// Puts 1 to 1,000 tasks in, in one step and in the order given. Each is answered by itself.
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

    /// Ends claimed tasks that are done, 1 to 1,000 in one step.
    pub async fn complete(&self, tickets: Vec<Ticket>) -> Result<Vec<Completed>> {
        let op = self.gate.op();
        self.gate.ask(|| self.gate.store().complete(op, &self.name, tickets.clone())).await
    }

    /// Ends claimed tasks that failed, 1 to 1,000 in one step: each waits again after its delay, or becomes a dead
    /// letter.
    pub async fn retry(&self, failed: Vec<Retry>) -> Result<Vec<Retried>> {
        let op = self.gate.op();
        let answer = self.gate.ask(|| self.gate.store().retry(op, &self.name, failed.clone())).await;
        self.gate.next_due_changed(&self.name);
        answer
    }

    /// Gives claimed tasks back as if they had not been claimed, 1 to 1,000 in one step.
    pub async fn give_back(&self, tickets: Vec<Ticket>) -> Result<Vec<GivenBack>> {
        let op = self.gate.op();
        self.gate.ask(|| self.gate.store().give_back(op, &self.name, tickets.clone())).await
    }

    /// Starts the leases of claimed tasks anew (10 ms to 24 h), and says which were cancelled or lost.
    pub async fn extend(&self, tickets: Vec<Ticket>, lease: Duration) -> Result<Vec<TaskExtended>> {
        let lease = Lease::new(lease)?;
        self.gate.ask(|| self.gate.store().extend_tasks(&self.name, tickets.clone(), lease)).await
    }

    /// Removes a task only if it was not enqueued again since the ticket was read and nobody works on it.
    pub async fn dequeue(&self, ticket: Ticket) -> Result<Dequeued> {
        let op = self.gate.op();
        self.gate.ask(|| self.gate.store().dequeue(op, &self.name, ticket.clone())).await
    }

    /// Removes a task whatever its revision; a worker that is at it is told at its next heartbeat.
    pub async fn cancel(&self, id: impl AsRef<str>) -> Result<Cancelled> {
        let (op, id) = (self.gate.op(), TaskId::new(id)?);
        self.gate.ask(|| self.gate.store().cancel(op, &self.name, &id)).await
    }

    /// One task by id, if it is live.
    pub async fn task(&self, id: impl AsRef<str>) -> Result<Option<TaskInfo>> {
        let id = TaskId::new(id)?;
        self.gate.ask(|| self.gate.store().task(&self.name, &id)).await
    }

    /// Live tasks by id.
    pub async fn tasks(&self, listing: Listing) -> Result<Vec<TaskInfo>> {
        self.gate.ask(|| self.gate.store().tasks(&self.name, listing.clone())).await
    }

    /// Lengths by state, and the age of the oldest due task.
    pub async fn stats(&self) -> Result<QueueStats> {
        self.gate.ask(|| self.gate.store().stats(&self.name)).await
    }

    /// Stops giving tasks out. Everything else goes on.
    pub async fn pause(&self) -> Result<()> {
        self.gate.ask(|| self.gate.store().pause(&self.name, true)).await
    }

    /// Gives tasks out again.
    pub async fn resume(&self) -> Result<()> {
        self.gate.ask(|| self.gate.store().pause(&self.name, false)).await
    }

    /// Sets the limits. Tasks that are in already stay.
    pub async fn limit(&self, limits: QueueLimits) -> Result<()> {
        self.gate.ask(|| self.gate.store().limit(&self.name, limits)).await
    }

    /// Dead letters by id: at most `limit` (1 to 10,000) after `after`, which is empty for the beginning.
    pub async fn dead(&self, after: &str, limit: u32) -> Result<Vec<DeadLetter>> {
        self.gate.ask(|| self.gate.store().dead(&self.name, after, limit)).await
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
