use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Answer, Closed, ContentType, Error, Fence, IfDead, Lease, Op, QueueName, Result, Revision, TaskEvents,
    TaskId, TaskKey, Timestamp, Unmet, Waited, Waits,
};

/// The queues of a store: one live record per task id in a queue.
///
/// A record is *waiting* (scheduled until its due time, ready from then on) or *leased*. A task that failed for good
/// becomes a dead letter, kept beside the queue. Delayed and ready tasks are one ordered set, so nothing has to move
/// at the due time, and nothing is given out before it. A queue with a [`Retention`] also keeps those that are *done*,
/// with their results.
///
/// Tasks may have a [`TaskKey`], such as the tenant they are for. Those of one key and priority stand in a *line*, by due
/// time and arrival, and only the first of a line may be given out; the others are *blocked*. A line has one place
/// among all that waits: when its first is given out, the next takes a place behind whatever is due already. So keys
/// take turns, however long their lines are.
///
/// A task may [wait for others](NewTask::after) of its queue, and be [held open](NewTask::held_open) for others that become
/// [part](NewTask::part_of) of it. Until they are over it is *blocked*, whatever its due time. It stands by its due time and
/// its arrival then, as if it had waited in its place all the time.
///
/// Rules that every backend keeps, and the contract suite checks:
/// - Order is priority, then due time, then arrival. The due time of a line is that of its first task, or the moment at
///   which the line had its last turn if that is later, and it arrives anew with each turn.
/// - A claimed task that is released without a delay, or whose lease expires, keeps its priority, due time and arrival, and
///   its line gets the turn back. A failed task goes behind what was due before its next attempt.
/// - Nothing exceeds the queue's [limits](QueueLimits).
/// - Nothing is given out at its [deadline](NewTask::deadline) or later.
/// - An id that was taken [for a period](NewTask::unique_for) is not taken again in it once its record is gone.
/// - A lease that ran out counts as given back from that moment on, on the store's clock, whoever asks.
/// - A step with a [`Ticket`] acts only on that revision, and on that claim. Otherwise it is stale and changes nothing.
/// - A mutating call repeated with its [`Op`] gets the same answer, for at least the 1,000 latest calls of a client;
///   fewer, but at least 16, if what they gave out weighs more than 32 MiB together.
pub trait QueueStore: Send + Sync {
    /// Puts tasks in, in the order given. Each is answered by itself; a batch is one step.
    fn enqueue(&self, op: Op, queue: &QueueName, tasks: Vec<NewTask>) -> Answer<'_, Vec<Enqueued>>;

    /// Looks at the first `n` due tasks without taking them (1 to 1,000); of each line the first only.
    fn top(&self, queue: &QueueName, n: u32) -> Answer<'_, Vec<Task>>;

    /// Takes the first `n` due tasks for good (1 to 1,000). If the taker dies they are lost: most programs want
    /// [`claim`](Self::claim).
    fn pop(&self, op: Op, queue: &QueueName, n: u32) -> Answer<'_, Vec<Task>>;

    /// Takes up to `n` due tasks under a lease and counts an attempt for each.
    fn claim(&self, op: Op, queue: &QueueName, claim: Claim) -> Answer<'_, Claimed>;

    /// Ends claimed tasks that are done. A task that was replaced meanwhile waits again with the newer content; the
    /// result of the run is not kept then, because that of the newer one will be.
    fn complete(&self, op: Op, queue: &QueueName, done: Vec<Completion>) -> Answer<'_, Vec<Completed>>;

    /// Ends claimed tasks that failed: each waits again after its delay, or becomes a dead letter when its attempts
    /// are used up. One that was cancelled meanwhile is gone.
    fn retry(&self, op: Op, queue: &QueueName, failed: Vec<Retry>) -> Answer<'_, Vec<Retried>>;

    /// Releases claimed tasks as if they had not been claimed: the attempt is not counted, and each keeps its place. With
    /// a delay, a task is due after it instead. One that was cancelled meanwhile is gone.
    fn give_back(&self, op: Op, queue: &QueueName, back: Vec<GiveBack>) -> Answer<'_, Vec<GivenBack>>;

    /// Starts the leases of claimed tasks anew, notes how far they have come, and says which were cancelled or lost.
    fn extend_tasks(
        &self,
        queue: &QueueName,
        beats: Vec<Heartbeat>,
        lease: Lease,
    ) -> Answer<'_, Vec<TaskExtended>>;

    /// Removes a task only if it was not enqueued again since the ticket was read and nobody is working on it; a
    /// ticket from a claim removes its own claimed task.
    fn dequeue(&self, op: Op, queue: &QueueName, ticket: Ticket) -> Answer<'_, Dequeued>;

    /// Removes a task whatever its revision; one that is being worked on is marked, and its worker is told at the
    /// next extension.
    fn cancel(&self, op: Op, queue: &QueueName, id: &TaskId) -> Answer<'_, Cancelled>;

    /// Until when an id is [unique](NewTask::unique_for), whether its task is live or not; `None` if it is not.
    fn unique_until(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<Timestamp>>;

    /// Ends the time for which an id is [unique](NewTask::unique_for): it may be put in again at once. Its task, if it is
    /// live, stays as it is.
    fn lift(&self, op: Op, queue: &QueueName, id: &TaskId) -> Answer<'_, Lifted>;

    /// Lets a task that is [held open](NewTask::held_open) take no more parts: it runs as soon as all that it waits for are
    /// over.
    fn close_batch(&self, op: Op, queue: &QueueName, id: &TaskId) -> Answer<'_, Closed>;

    /// What a live task waits for, and how far that has come. `None` if it is not live, or never waited for anything.
    fn waits(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<Waits>>;

    /// Those that a live task waited for and that are over, with their results: 1 to 100 by id, after `after`. They are kept
    /// until the task is over itself, whatever the queue's [`Retention`].
    fn waited(&self, queue: &QueueName, id: &TaskId, after: &str, limit: u32) -> Answer<'_, Vec<Waited>>;

    /// One task by id: the live one, or else the one that is kept as done.
    fn task(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<TaskInfo>>;

    /// Tasks of a queue by id, 1 to 10,000 after `after`. Those that are done are listed only by their state.
    fn tasks(&self, queue: &QueueName, listing: Listing) -> Answer<'_, Vec<TaskInfo>>;

    /// Lengths by state, and age of the oldest due task. A queue that was never used is empty.
    fn stats(&self, queue: &QueueName) -> Answer<'_, QueueStats>;

    /// The names of the queues, in order.
    fn queues(&self) -> Answer<'_, Vec<QueueName>>;

    /// Stops or resumes giving out tasks (`pop` and `claim`). Everything else goes on.
    fn pause(&self, queue: &QueueName, paused: bool) -> Answer<'_, ()>;

    /// Sets the queue's limits. Tasks that are in already stay, and runs that have begun go on. A rate that changes
    /// begins to count anew; tasks that are done and not to be kept any more are forgotten.
    fn limit(&self, queue: &QueueName, limits: QueueLimits) -> Answer<'_, ()>;

    /// Events of a queue with numbers greater than `after`: the first `limit` (1 to 1,000). A queue keeps none unless its
    /// [limits](QueueLimits::events) say so. Each is written in the step that it tells of.
    fn task_events(&self, queue: &QueueName, after: u64, limit: u32) -> Answer<'_, TaskEvents>;

    /// Dead letters by id, 1 to 10,000 after `after` (empty for the beginning).
    fn dead(&self, queue: &QueueName, after: &str, limit: u32) -> Answer<'_, Vec<DeadLetter>>;

    /// One dead letter by id.
    fn dead_letter(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<DeadLetter>>;

    /// Puts dead letters back, due at once, with all attempts before them and without a deadline. One whose id is live again
    /// stays dead.
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

    /// Waits until a task may be over: done, cancelled, dead, or gone. At once if there is no live task of that id, or
    /// if the queue has no [`Retention`]: then nobody is told.
    ///
    /// Listening starts at the call. It is a hint: whoever hears it asks for the task. Dropping the future stops
    /// listening.
    fn over(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, ()>;

    /// Waits until the queue may have an event with a number greater than `after`; at once if it has one, or if its
    /// latest has a smaller number.
    ///
    /// Listening starts at the call. It is a hint: whoever hears it asks for the events. It does not tell of leases and
    /// deadlines that pass before somebody looks. Dropping the future stops listening.
    fn happens(&self, queue: &QueueName, after: u64) -> Answer<'_, ()>;
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
    /// Whose turn it is part of, if it has a line to stand in.
    pub key: Option<TaskKey>,
    /// When it must have been given out, if that matters: [`After`](Due::After) or [`At`](Due::At), after it is due. From
    /// that moment on it is never given out; one that waits becomes a dead letter, and so does one that fails when its
    /// next attempt would not be due before. A run that has begun goes on, and may complete it.
    pub deadline: Option<Due>,
    /// For how long its id is taken: 1 ms to 400 days from its acceptance on, whatever becomes of the task. Until then an
    /// enqueue or a relay of that id, with a period or without, is answered [`Enqueued::Recent`] once no record is live.
    ///
    /// While one is live, [`OnDuplicate`] decides. A newcomer that is [kept away](Enqueued::Kept) begins no period; one
    /// that changes the record begins its own, if it has one, and never shortens the one that runs. What a store puts in
    /// by itself asks for no uniqueness: orders of a sale, tasks of a schedule's moments, and dead letters that are revived.
    pub unique_for: Option<Duration>,
    /// The tasks of its queue that must be over before it may be given out: at most [`AFTER_MAX`](Self::AFTER_MAX), one that
    /// is named twice counts once.
    ///
    /// Each must be known to the queue at that moment: live (also if it came earlier in the same call), dead, or kept as
    /// done, which counts as over. Otherwise the answer is [`Enqueued::Refused`]. What counts is the id: one that is
    /// dead and put back, or replaced during its work, is waited for until it is done.
    ///
    /// It is blocked while it waits. Its deadline holds for that time too, and if its id is in already it is only
    /// [kept away](OnDuplicate::Keep); a newcomer that changes it changes nothing of what it waits for. A dead letter that
    /// is revived waits for nothing any more.
    pub after: Vec<TaskId>,
    /// What becomes of it when one that it waits for is dead, or can never be done.
    pub if_dead: IfDead,
    /// It takes others as its [parts](Self::part_of), and waits until it is [closed](QueueStore::close_batch): the
    /// callback of a batch. As with [`after`](Self::after), a task whose id is in already is only kept away.
    pub held_open: bool,
    /// The task of its queue that it is part of, which must be [held open](Self::held_open), and waits for it. Otherwise the
    /// answer is [`Enqueued::Refused`]. So it is if its id is in already: that one becomes a part, unless it waits for
    /// others itself. A part cannot be given others to wait for: so no task can come to wait for itself.
    pub part_of: Option<TaskId>,
}

impl NewTask {
    /// So many tasks one may wait for by [`after`](Self::after).
    pub const AFTER_MAX: usize = 1_000;
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
            key: None,
            deadline: None,
            unique_for: None,
            after: Vec::new(),
            if_dead: IfDead::default(),
            held_open: false,
            part_of: None,
        }
    }

    /// Whether it is to wait for others, now or later.
    pub fn is_to_wait(&self) -> bool {
        self.held_open || !self.after.is_empty()
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

    /// The same bytes, called something else.
    pub(crate) fn as_content(&self, content_type: ContentType) -> Self {
        Self { content_type, bytes: Arc::clone(&self.bytes) }
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

impl Due {
    /// The moment that it means in a step at `now`.
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::After(delay) => now + delay,
            Self::At(at) => at,
        }
    }
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
    /// The record stays as it is, waiting or leased, and nothing of the newcomer is stored. One that is leased and to be cancelled is not kept: the newcomer
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// A new record, in the place of the oldest one that waited: the queue was at its bound, and
    /// [drops the oldest](Overflow::DropOldest).
    Displaced {
        /// Its revision.
        revision: Revision,
        /// What was dropped for it.
        dropped: TaskId,
    },
    /// The queue is at its bound and [drops the newcomer](Overflow::DropNew). Nothing else was changed.
    Dropped {
        /// The bound.
        bound: u64,
    },
    /// The queue is at its bound. Nothing was put in.
    Full {
        /// The bound.
        bound: u64,
    },
    /// The id was put in lately, [for a period](NewTask::unique_for) that is not over. Nothing was put in, nor dropped.
    Recent {
        /// When it will be over.
        #[serde(rename = "until_us")]
        until: Timestamp,
    },
    /// It was to [wait for](NewTask::after) a task, or be [part](NewTask::part_of) of one, and cannot. Nothing was put in.
    Refused {
        /// Which task.
        task: TaskId,
        /// Why not.
        why: Unmet,
    },
}

impl Enqueued {
    /// Whether it made a record or changed one: then it begins its [period](NewTask::unique_for), if it has one.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Self::Added { .. } | Self::Displaced { .. } | Self::Replaced { .. })
    }

    /// Whether the id has a live record now: it was put in, or was in already.
    pub fn is_in(&self) -> bool {
        self.is_accepted() || matches!(self, Self::Kept { .. })
    }
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
    /// Whose turn it is part of.
    pub key: Option<TaskKey>,
    /// From when on it is not given out any more, if there is such a moment.
    pub deadline: Option<Timestamp>,
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
    /// How long until something may be given out that may not be now: a delay that ends, a rate that allows more, a
    /// lease that runs out. `None` if nothing is foreseen, or the queue is paused. Zero if as many were given out as
    /// were asked for: there may be more.
    pub next_due: Option<Duration>,
}

/// A claimed task that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What was claimed.
    pub ticket: Ticket,
    /// What came of it; at most 64 KiB. Kept if the queue has a [`Retention`], and dropped otherwise.
    pub result: Option<Payload>,
    /// There was nothing to do: it was not carried out.
    pub discarded: bool,
}

impl Completion {
    /// The largest result, in bytes.
    pub const RESULT_MAX: usize = 64 << 10;

    /// Done, with a result.
    pub fn with(ticket: Ticket, result: Payload) -> Self {
        Self { ticket, result: Some(result), discarded: false }
    }
}

impl From<Ticket> for Completion {
    /// Done, without a result.
    fn from(ticket: Ticket) -> Self {
        Self { ticket, result: None, discarded: false }
    }
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
    /// Its attempts are used up, or its deadline comes before the next: it is a dead letter.
    Dead,
    /// It was replaced during the work: the newcomer waits with all its attempts.
    Requeued,
    /// It was cancelled during the work: it is gone, and makes no dead letter.
    Cancelled,
    /// The claim was no longer the ticket's. Nothing was changed.
    Stale,
}

/// A claimed task that is given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveBack {
    /// What was claimed.
    pub ticket: Ticket,
    /// How long until it is due again; at most 400 days. Zero: it keeps its due time, and its place.
    pub delay: Duration,
}

impl From<Ticket> for GiveBack {
    /// In its place, as before the claim.
    fn from(ticket: Ticket) -> Self {
        Self { ticket, delay: Duration::ZERO }
    }
}

/// The answer to one [`QueueStore::give_back`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GivenBack {
    /// It waits: where it did before its claim, or until its delay is over.
    Waiting,
    /// It was cancelled during the work: it is gone.
    Cancelled,
    /// The claim was no longer the ticket's. Nothing was changed.
    Stale,
}

/// A claimed task whose lease starts anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// What was claimed.
    pub ticket: Ticket,
    /// How far it has come, if that is to be noted; otherwise what was noted before stays.
    pub progress: Option<TaskProgress>,
}

impl From<Ticket> for Heartbeat {
    /// Nothing to note.
    fn from(ticket: Ticket) -> Self {
        Self { ticket, progress: None }
    }
}

/// How far a task has come, in the words of whoever works on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskProgress {
    /// How much of it is done: 0 to 100.
    pub percent: Option<u8>,
    /// What it is at; at most 200 bytes without control characters.
    pub note: String,
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

/// The answer to [`QueueStore::lift`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Lifted {
    /// It may be put in again.
    Lifted {
        /// Until when it would have been unique.
        #[serde(rename = "until_us")]
        until: Timestamp,
    },
    /// It was not unique.
    NotFound,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Not due yet, or not before its key's rate allows it.
    Scheduled,
    /// Due.
    Ready,
    /// Claimed, and the lease runs.
    Leased,
    /// Behind others of its key: behind the first of its line, or behind as many runs as its key may have. Or waiting for
    /// [other tasks](NewTask::after), or held open for them.
    Blocked,
    /// Over, and kept by the queue's [`Retention`].
    Done,
}

/// A task as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInfo {
    /// The task with the ticket to answer with. For a leased one the ticket is the claim's; for one that is done it is
    /// that of the claim that ended it.
    pub task: Task,
    /// Where it stands.
    pub state: TaskState,
    /// Whether it is blocked because it waits for [other tasks](NewTask::after), or is held open for them.
    pub waits: bool,
    /// From when on it may be given out, if it is scheduled or ready: its due time, or later if its key says so.
    pub not_before: Option<Timestamp>,
    /// When the lease runs out, if it is leased.
    pub lease_until: Option<Timestamp>,
    /// Who claimed it, if it is leased or ended as such.
    pub worker: Option<String>,
    /// How far it has come, if it is leased and its worker has said so.
    pub progress: Option<TaskProgress>,
    /// Whether a newcomer waits behind the present run.
    pub replaced: bool,
    /// Whether it is to be cancelled.
    pub cancelled: bool,
    /// Why its last attempt failed.
    pub error: Option<String>,
    /// Its latest runs that did not succeed, the oldest first: at most [`PastRun::KEPT`].
    pub past: Vec<PastRun>,
    /// How it ended, if it is done.
    pub finished: Option<Finished>,
}

/// How a task ended that is kept as done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// When.
    pub at: Timestamp,
    /// In which way.
    pub how: Finish,
    /// What came of it, if whoever completed it has said so.
    pub result: Option<Payload>,
}

/// In which way a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was carried out.
    Done,
    /// There was nothing to do.
    Discarded,
    /// Somebody cancelled it.
    Cancelled,
    /// It gave its place to a newcomer, because the queue was at its bound.
    Dropped,
}

/// A run of a task that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastRun {
    /// Which attempt it was.
    pub attempt: u32,
    /// When it was claimed, within the time that a claim of many takes.
    #[serde(rename = "began_us")]
    pub began: Timestamp,
    /// When it ended.
    #[serde(rename = "ended_us")]
    pub ended: Timestamp,
    /// In which way.
    pub how: PastEnd,
    /// Who had claimed it.
    pub worker: String,
    /// Why it failed, if it did; cut to 200 bytes.
    pub error: String,
}

impl PastRun {
    /// How many are kept of a task.
    pub const KEPT: usize = 10;
    /// The longest error text that is kept of each, in bytes.
    pub const ERROR_MAX: usize = 200;

    /// Adds a run to those that are kept.
    pub fn add_to(self, past: &mut Vec<Self>) {
        if past.len() == Self::KEPT {
            past.remove(0);
        }
        past.push(self);
    }
}

/// How a run ended that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PastEnd {
    /// It failed.
    Failed,
    /// Its lease ran out: the worker died, or could not reach the store.
    Lost,
    /// It was given back for a while, which counts as no attempt.
    Snoozed,
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
    /// Behind others of their keys, or waiting for other tasks.
    pub blocked: u64,
    /// Dead letters.
    pub dead: u64,
    /// Over, and kept by the queue's retention.
    pub done: u64,
    /// Dropped because the queue was at its [bound](QueueLimits::overflow), newcomers and records, since the queue was made.
    pub dropped: u64,
    /// How long the oldest ready task has been ready, in milliseconds.
    pub lag_ms: u64,
    /// When the queue's rate allows another task to be given out, if it allows none now.
    pub rate_until: Option<Timestamp>,
    /// When a task was last claimed, within the time that a claim of many takes; `None` if none ever was.
    pub last_claim: Option<Timestamp>,
    /// Whether it is paused.
    pub paused: bool,
    /// Its limits.
    pub limits: QueueLimits,
}

/// What a queue puts up with. Nothing is limited unless said otherwise.
///
/// A limit holds for all workers together, on the store's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueLimits {
    /// At most so many live records; `None` for no bound.
    pub bound: Option<u64>,
    /// What becomes of a task that is one too many.
    #[serde(default)]
    pub overflow: Overflow,
    /// At most so many under a lease at a time: 1 to 1,000,000.
    pub concurrency: Option<u32>,
    /// How often tasks are given out.
    pub rate: Option<Rate>,
    /// The same for the tasks of each key by itself.
    pub per_key: KeyLimits,
    /// How long tasks that are over are kept; `None` to forget them at once, which costs nothing.
    pub retention: Option<Retention>,
    /// So many of the latest [events](crate::TaskEvent) are kept: 1 to 100,000; `None` to keep none, which costs
    /// nothing. Events are numbered only while some are kept, and the numbers go on when they are kept again.
    pub events: Option<u32>,
}

impl QueueLimits {
    /// The most events that may be kept.
    pub const EVENTS_MAX: u32 = 100_000;
}

/// What becomes of a task that is put into a queue at its bound. Without a bound it says nothing.
///
/// Tasks that ignore the bound (orders of a sale, and what a schedule puts in at its moments) drop nothing, and a dead
/// letter that finds no room stays dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// It is refused: [`Enqueued::Full`].
    #[default]
    Refuse,
    /// It is dropped: [`Enqueued::Dropped`]. For what is worth nothing late, such as samples.
    DropNew,
    /// It takes the place of the record that waits and was first put in the longest ago, the smallest id among equals:
    /// [`Enqueued::Displaced`]. One that is leased is never dropped; if all are, the newcomer is refused. One gives way to
    /// one: a queue beyond its bound stays so.
    DropOldest,
}

/// How long a queue keeps tasks that are over: done, discarded, cancelled or dropped for a newcomer. Those that were
/// dequeued or popped leave nothing (what is kept of an earlier end under the same id stays), and dead letters stay until
/// somebody sees to them.
///
/// Both limits hold, to the microsecond and to the task, on the store's clock: nothing beyond them is shown. The room is
/// given back when the next task of the queue ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// No longer than this: 1 ms to 400 days.
    #[serde(rename = "age_us", with = "crate::time::as_micros")]
    pub age: Duration,
    /// No more than the latest so many: 1 to 1,000,000. Of those that ended at the same moment, the greatest ids.
    pub count: u32,
}

impl Retention {
    /// The most that may be kept.
    pub const COUNT_MAX: u32 = 1_000_000;

    /// So long, and no more than so many.
    pub const fn new(age: Duration, count: u32) -> Self {
        Self { age, count }
    }
}

/// What a queue puts up with from the tasks of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyLimits {
    /// At most so many under a lease at a time: 1 to 1,000,000. 1 if the order is first-in-first-out.
    pub concurrency: Option<u32>,
    /// How often tasks are given out.
    pub rate: Option<Rate>,
    /// First in, first out: one at a time, and a failed task keeps its place, so that those behind it in its line wait
    /// until it is done or dead.
    pub fifo: bool,
}

impl KeyLimits {
    /// How many tasks of one key may be under a lease at a time.
    pub fn at_a_time(&self) -> Option<u32> {
        if self.fifo { Some(1) } else { self.concurrency }
    }
}

/// At most so many in any stretch of time of that length.
///
/// It is exact: it counts the latest `n` times that a task was given out, whatever became of it, and gives out another
/// when the first of them is as long ago as `per`. There is no window at whose edge twice as many could pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// So many: 1 to 10,000.
    pub n: u32,
    /// In so long: 1 ms to 400 days.
    #[serde(rename = "per_us", with = "crate::time::as_micros")]
    pub per: Duration,
}

impl Rate {
    /// The most that may be counted.
    pub const MAX: u32 = 10_000;

    /// So many in so long.
    pub const fn new(n: u32, per: Duration) -> Self {
        Self { n, per }
    }
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
    /// Whose turn it was part of.
    pub key: Option<TaskKey>,
    /// Its latest runs, the oldest first: at most [`PastRun::KEPT`].
    pub past: Vec<PastRun>,
}

impl DeadLetter {
    /// Why a task died whose deadline passed.
    pub const LATE: &str = "its deadline passed before it was carried out";
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
