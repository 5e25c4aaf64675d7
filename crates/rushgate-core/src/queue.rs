use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Answer, ContentType, Error, Fence, Lease, Op, QueueName, Result, Revision, TaskId, Timestamp};

/// The queues of a store: one live record per task id in a queue.
///
/// A record is *waiting* (scheduled until its due time, ready from then on) or *leased*. A task that failed for good
/// becomes a dead letter, kept beside the queue. Delayed and ready tasks are one ordered set, so nothing has to move
/// at the due time, and nothing is given out before it.
///
/// Rules that every backend keeps, and the contract suite checks:
/// - Order is priority, then due time, then arrival.
/// - A lease that ran out counts as given back from that moment on, on the store's clock, whoever asks.
/// - A step with a [`Ticket`] acts only on that revision, and on that claim. Otherwise it is stale and changes nothing.
/// - A mutating call repeated with its [`Op`] gets the same answer, for at least the 1,000 latest calls of a client;
///   fewer, but at least 16, if what they gave out weighs more than 32 MiB together.
pub trait QueueStore: Send + Sync {
    /// Puts tasks in, in the order given. Each is answered by itself; a batch is one step.
    fn enqueue(&self, op: Op, queue: &QueueName, tasks: Vec<NewTask>) -> Answer<'_, Vec<Enqueued>>;

    /// Looks at the first `n` due tasks without taking them (1 to 1,000).
    fn top(&self, queue: &QueueName, n: u32) -> Answer<'_, Vec<Task>>;

    /// Takes the first `n` due tasks for good (1 to 1,000). If the taker dies they are lost: most programs want
    /// [`claim`](Self::claim).
    fn pop(&self, op: Op, queue: &QueueName, n: u32) -> Answer<'_, Vec<Task>>;

    /// Takes up to `n` due tasks under a lease and counts an attempt for each.
    fn claim(&self, op: Op, queue: &QueueName, claim: Claim) -> Answer<'_, Claimed>;

    /// Ends claimed tasks that are done. A task that was replaced meanwhile waits again with the newer content.
    fn complete(&self, op: Op, queue: &QueueName, tickets: Vec<Ticket>) -> Answer<'_, Vec<Completed>>;

    /// Ends claimed tasks that failed: each waits again after its delay, or becomes a dead letter when its attempts
    /// are used up. One that was cancelled meanwhile is gone.
    fn retry(&self, op: Op, queue: &QueueName, failed: Vec<Retry>) -> Answer<'_, Vec<Retried>>;

    /// Gives claimed tasks back, due at once, as if they had not been claimed: the attempt is not counted. One that was
    /// cancelled meanwhile is gone.
    fn give_back(&self, op: Op, queue: &QueueName, tickets: Vec<Ticket>) -> Answer<'_, Vec<GivenBack>>;

    /// Starts the leases of claimed tasks anew, and says which were cancelled or lost.
    fn extend_tasks(
        &self,
        queue: &QueueName,
        tickets: Vec<Ticket>,
        lease: Lease,
    ) -> Answer<'_, Vec<TaskExtended>>;

    /// Removes a task only if it was not enqueued again since the ticket was read and nobody is working on it; a
    /// ticket from a claim removes its own claimed task.
    fn dequeue(&self, op: Op, queue: &QueueName, ticket: Ticket) -> Answer<'_, Dequeued>;

    /// Removes a task whatever its revision; one that is being worked on is marked, and its worker is told at the
    /// next extension.
    fn cancel(&self, op: Op, queue: &QueueName, id: &TaskId) -> Answer<'_, Cancelled>;

    /// One task by id.
    fn task(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<TaskInfo>>;

    /// Tasks of a queue by id, 1 to 10,000 after `after`.
    fn tasks(&self, queue: &QueueName, listing: Listing) -> Answer<'_, Vec<TaskInfo>>;

    /// Lengths by state, and age of the oldest due task. A queue that was never used is empty.
    fn stats(&self, queue: &QueueName) -> Answer<'_, QueueStats>;

    /// The names of the queues, in order.
    fn queues(&self) -> Answer<'_, Vec<QueueName>>;

    /// Stops or resumes giving out tasks (`pop` and `claim`). Everything else goes on.
    fn pause(&self, queue: &QueueName, paused: bool) -> Answer<'_, ()>;

    /// Sets the queue's limits. Tasks that are in already stay.
    fn limit(&self, queue: &QueueName, limits: QueueLimits) -> Answer<'_, ()>;

    /// Dead letters by id, 1 to 10,000 after `after` (empty for the beginning).
    fn dead(&self, queue: &QueueName, after: &str, limit: u32) -> Answer<'_, Vec<DeadLetter>>;

    /// One dead letter by id.
    fn dead_letter(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<DeadLetter>>;

    /// Puts dead letters back, due at once, with all attempts before them. One whose id is live again stays dead.
    fn revive(&self, op: Op, queue: &QueueName, which: Selection) -> Answer<'_, Revived>;

    /// Deletes dead letters, and says how many.
    fn bury(&self, op: Op, queue: &QueueName, which: Selection) -> Answer<'_, u64>;

    /// Waits until the queue may have something to give out: a due task was put in or given back.
    ///
    /// Listening starts at the call. It is a hint, given to one listener of a process at a time. It does not tell of
    /// due times and leases that pass: [`Claimed::next_due`] does. When another process puts in a task that will be
    /// due earlier than all others, a store tells a listener, so that it asks for `next_due` again; inside a process
    /// the caller knows. Dropping the future stops listening.
    fn ready(&self, queue: &QueueName) -> Answer<'_, ()>;
}

/// A task to put in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// Its id: one live record each.
    pub id: TaskId,
    /// Its content.
    pub payload: Payload,
    /// When it may be given out.
    pub due: Due,
    /// Its urgency.
    pub priority: Priority,
    /// What becomes of it if the id is in already.
    pub on_duplicate: OnDuplicate,
    /// How often it may be claimed before it is dead: 1 to 1,000.
    pub max_attempts: u32,
}

impl NewTask {
    /// Attempts unless said otherwise.
    pub const MAX_ATTEMPTS: u32 = 20;
    /// The longest delay.
    pub const DELAY_MAX: Duration = Duration::from_secs(400 * 86_400);

    /// A task that is due at once, of middle priority, kept if it is there already.
    pub fn new(id: TaskId, payload: Payload) -> Self {
        Self {
            id,
            payload,
            due: Due::Now,
            priority: Priority::default(),
            on_duplicate: OnDuplicate::Keep,
            max_attempts: Self::MAX_ATTEMPTS,
        }
    }
}

/// Opaque bytes and what they are. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Payload {
    content_type: ContentType,
    bytes: Arc<[u8]>,
}

impl Payload {
    /// The largest content, in bytes: 1 MiB.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Checks the size.
    pub fn new(content_type: ContentType, bytes: impl Into<Arc<[u8]>>) -> Result<Self> {
        let bytes = bytes.into();
        if bytes.len() > Self::MAX_BYTES {
            return Err(Error::invalid(
                "the payload",
                format_args!("has {} bytes; at most {} are allowed", bytes.len(), Self::MAX_BYTES),
            )
            .hint("store the content elsewhere and enqueue a reference to it"));
        }
        Ok(Self { content_type, bytes })
    }

    /// No content.
    pub fn empty() -> Self {
        Self { content_type: ContentType::bytes(), bytes: Arc::from([]) }
    }

    /// What the bytes are.
    pub fn content_type(&self) -> &ContentType {
        &self.content_type
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// When a task may be given out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Due {
    /// At once.
    Now,
    /// So long after the step, on the store's clock; at most 400 days.
    After(Duration),
    /// At that moment on the store's clock; one in the past is due at once, and sorts by that moment.
    At(Timestamp),
}

/// How urgent a task is: 0 goes first, 9 last, 5 unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Priority(u8);

impl Priority {
    /// Checks the range 0 to 9.
    pub fn new(level: u8) -> Result<Self> {
        if level > 9 {
            return Err(Error::invalid(
                "the priority",
                format_args!("is {level}; it must be 0 (first) to 9"),
            ));
        }
        Ok(Self(level))
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self(5)
    }
}

impl TryFrom<u8> for Priority {
    type Error = Error;
    fn try_from(level: u8) -> Result<Self> {
        Self::new(level)
    }
}

impl From<Priority> for u8 {
    fn from(it: Priority) -> u8 {
        it.0
    }
}

/// What becomes of an enqueue whose id has a live record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDuplicate {
    /// The record stays as it is, waiting or leased. One that is leased and to be cancelled is not kept: the newcomer
    /// waits when that run ends, and is kept from then on.
    Keep,
    /// The newcomer takes its place: content, due time, priority and attempts. If it is leased, the newcomer is kept
    /// beside it and waits when that run ends, so a change during work is never lost.
    Replace,
    /// As Keep, but the record is due at the earlier of the two times. If it is leased, the newcomer runs after it.
    Earliest,
    /// As Replace, but due no later than `max_wait` after the record was first put in: a burst of changes becomes
    /// one run soon after the burst, and at last after `max_wait`.
    Debounce {
        /// The longest that a burst may put the run off.
        max_wait: Duration,
    },
}

/// The answer to one enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Enqueued {
    /// A new record.
    Added {
        /// Its revision.
        revision: Revision,
    },
    /// The record that was there is unchanged.
    Kept {
        /// Its revision.
        revision: Revision,
    },
    /// The record was changed, or will run again after its present run.
    Replaced {
        /// The new revision.
        revision: Revision,
    },
    /// The queue is at its bound. Nothing was put in.
    Full {
        /// The bound.
        bound: u64,
    },
}

/// What was read or claimed: which record, as of which revision, under which claim.
///
/// Its text form is one opaque word, made of the three and the id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ticket {
    /// The task.
    pub id: TaskId,
    /// When it was due.
    pub due: Timestamp,
    /// The revision that was read.
    pub revision: Revision,
    /// The claim's number, which fences the task's writes as a lock's fence does; `None` for one that was only
    /// looked at.
    pub claim: Option<Fence>,
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claim = self.claim.map_or(0, Fence::as_u64);
        write!(f, "{:x}.{:x}.{:x}.{}", self.revision.as_u64(), claim, self.due.as_micros(), self.id)
    }
}

impl std::str::FromStr for Ticket {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid("the ticket", "is not one that Rushgate gave");
        let mut parts = text.splitn(4, '.');
        let mut number = || {
            let part = parts.next().ok_or_else(wrong)?;
            u64::from_str_radix(part, 16).map_err(|_| wrong())
        };
        let (revision, claim, due) = (number()?, number()?, number()?);
        let id = TaskId::new(parts.next().ok_or_else(wrong)?).map_err(|_| wrong())?;
        Ok(Self {
            id,
            due: Timestamp::from_micros(due),
            revision: Revision::from_u64(revision),
            claim: (claim != 0).then(|| Fence::from_u64(claim)),
        })
    }
}

impl TryFrom<String> for Ticket {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Ticket> for String {
    fn from(it: Ticket) -> String {
        it.to_string()
    }
}

/// A task that was looked at or taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What to answer with.
    pub ticket: Ticket,
    /// Its content.
    pub payload: Payload,
    /// Its urgency.
    pub priority: Priority,
    /// How often it has been claimed, this time included.
    pub attempt: u32,
    /// How often it may be.
    pub max_attempts: u32,
}

/// A wish for tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// At most so many: 1 to 1,000.
    pub n: u32,
    /// How long to hold them unless extended.
    pub lease: Lease,
    /// Who claims, for people who look; at most 200 bytes.
    pub worker: String,
}

impl Claim {
    /// The largest batch of anything.
    pub const BATCH_MAX: usize = 1_000;
}

/// The answer to [`QueueStore::claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// What was given out.
    pub tasks: Vec<Task>,
    /// How long until something may be due that is not due now: a delay that ends or a lease that runs out. `None` if
    /// nothing is foreseen, or the queue is paused. Zero if as many were given out as were asked for: there may be
    /// more.
    pub next_due: Option<Duration>,
}

/// The answer to one completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Completed {
    /// Done; the record is gone.
    Done,
    /// Done; the record was replaced during the work and waits again.
    Requeued,
    /// The claim was no longer the ticket's. Nothing was changed.
    Stale,
}

/// A claimed task that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// What was claimed.
    pub ticket: Ticket,
    /// How long to wait before the next attempt; at most 400 days.
    pub delay: Duration,
    /// Why it failed, for people who look; cut to 2,000 bytes.
    pub error: String,
    /// Give up now, whatever attempts are left.
    pub give_up: bool,
}

/// The answer to one retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retried {
    /// It waits for its next attempt.
    Scheduled {
        /// When that is due.
        due: Timestamp,
    },
    /// Its attempts are used up: it is a dead letter.
    Dead,
    /// It was replaced during the work: the newcomer waits with all its attempts.
    Requeued,
    /// It was cancelled during the work: it is gone, and makes no dead letter.
    Cancelled,
    /// The claim was no longer the ticket's. Nothing was changed.
    Stale,
}

/// The answer to one [`QueueStore::give_back`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GivenBack {
    /// It waits, due at once.
    Waiting,
    /// It was cancelled during the work: it is gone.
    Cancelled,
    /// The claim was no longer the ticket's. Nothing was changed.
    Stale,
}

/// The answer to one extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskExtended {
    /// The lease runs anew.
    Extended,
    /// The lease runs anew, and somebody asked to cancel the task: stop, and complete it.
    Cancelled,
    /// The claim was no longer the ticket's: stop, and write nothing more.
    Lost,
}

/// The answer to [`QueueStore::dequeue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dequeued {
    /// Gone.
    Removed,
    /// Somebody is working on it. Nothing was changed.
    Leased,
    /// It was enqueued again, claimed by another, or is gone. Nothing was changed.
    Stale,
}

/// The answer to [`QueueStore::cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cancelled {
    /// Gone.
    Removed,
    /// Somebody is working on it and will be told. A newcomer that waited behind it is gone.
    Marked,
    /// There is no such task.
    NotFound,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Not due yet.
    Scheduled,
    /// Due.
    Ready,
    /// Claimed, and the lease runs.
    Leased,
}

/// A task as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// The task with the ticket to answer with. For a leased one the ticket is the claim's.
    pub task: Task,
    /// Where it stands.
    pub state: TaskState,
    /// When the lease runs out, if it is leased.
    pub lease_until: Option<Timestamp>,
    /// Who claimed it, if it is leased.
    pub worker: Option<String>,
    /// Whether a newcomer waits behind the present run.
    pub replaced: bool,
    /// Whether it is to be cancelled.
    pub cancelled: bool,
    /// Why its last attempt failed.
    pub error: Option<String>,
}

/// Which tasks to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Only those in this state.
    pub state: Option<TaskState>,
    /// Only ids greater than this; empty for the beginning.
    pub after: String,
    /// At most so many, 1 to 10,000.
    pub limit: u32,
}

/// A queue's lengths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStats {
    /// Due, and not claimed.
    pub ready: u64,
    /// Not due yet.
    pub scheduled: u64,
    /// Claimed, and the lease runs.
    pub leased: u64,
    /// Dead letters.
    pub dead: u64,
    /// How long the oldest due task has been due, in microseconds.
    pub oldest_due_us: u64,
    /// Whether it is paused.
    pub paused: bool,
    /// Its limits.
    pub limits: QueueLimits,
}

/// What a queue puts up with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueLimits {
    /// At most so many live records; `None` for no bound.
    pub bound: Option<u64>,
}

/// A task that failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its id. The latest death of an id is kept.
    pub id: TaskId,
    /// Its content.
    pub payload: Payload,
    /// Its urgency.
    pub priority: Priority,
    /// How often it was tried.
    pub attempts: u32,
    /// How often it could be.
    pub max_attempts: u32,
    /// Why the last attempt failed.
    pub error: String,
    /// When it was given up.
    pub died_at: Timestamp,
}

/// Which dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Those with these ids, at most 1,000.
    Ids(Vec<TaskId>),
    /// All.
    All,
}

/// The answer to [`QueueStore::revive`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revived {
    /// So many wait again.
    pub revived: u64,
    /// So many stay dead because their id is live, or the queue is full.
    pub kept: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_survives_text_and_a_made_up_one_is_refused() {
        let ticket = Ticket {
            id: TaskId::new("mail.to.ann:7").unwrap(),
            due: Timestamp::from_micros(1_700_000_000_000_000),
            revision: Revision::from_u64(3),
            claim: Some(Fence::from_u64(99)),
        };
        assert_eq!(ticket.to_string().parse::<Ticket>().unwrap(), ticket);
        let looked_at = Ticket { claim: None, ..ticket };
        assert_eq!(looked_at.to_string().parse::<Ticket>().unwrap(), looked_at);
        for wrong in ["", "1.2.3", "x.2.3.id", "1.2.3.", "1.2.3.a b"] {
            assert!(wrong.parse::<Ticket>().unwrap_err().is_invalid(), "{wrong:?}");
        }
    }

    #[test]
    fn a_payload_over_the_limit_is_refused_with_its_size() {
        let error = Payload::new(ContentType::bytes(), vec![0; Payload::MAX_BYTES + 1]).unwrap_err();
        assert!(error.is_invalid());
        assert!(error.to_string().contains("1048577 bytes"), "{error}");
    }
}
