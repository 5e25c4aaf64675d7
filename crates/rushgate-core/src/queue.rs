mod limits;
mod ticket;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Error, Field, IfDead, Kind, Lease, Payload, QueueName, Result, Revision, TaskEnd, TaskId, TaskKey,
    Timestamp, Unmet,
};

pub use limits::{KeyLimits, Overflow, QueueLimits, Rate, Retention};
pub use ticket::Ticket;

use ticket::ticket_fields;

/// A task to enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// ID of the task: one live record per ID.
    pub id: TaskId,
    /// Payload.
    pub payload: Payload,
    /// When the task is due.
    pub due: Due,
    /// Priority.
    pub priority: Priority,
    /// What happens if the ID has a live record.
    pub on_duplicate: OnDuplicate,
    /// Maximum number of attempts before the task becomes a dead letter: 1 to 1,000.
    pub max_attempts: u32,
    /// Key that the task shares with others, if any.
    pub key: Option<TaskKey>,
    /// Deadline, later than the due time: [`After`](Due::After) or [`At`](Due::At). From then on the task is
    /// never claimed or popped. A waiting task becomes a dead letter at the deadline; a failed one does if its
    /// next attempt would not be due before it. A running task may still complete.
    pub deadline: Option<Due>,
    /// Uniqueness window of the ID: 1 ms to 400 days from the acceptance of the task, whatever happens to the
    /// task. Until then, enqueueing or relaying the ID again is answered [`Enqueued::Recent`] once no record is
    /// live.
    ///
    /// While a record is live, [`OnDuplicate`] decides. A new task that is not [stored](Enqueued::Kept) starts no
    /// window. One that changes the record starts its own window, if it has one, and never shortens the current
    /// one. Tasks that the store enqueues itself ignore uniqueness: orders of a sale, tasks of schedules and
    /// requeued dead letters.
    pub unique_for: Option<Duration>,
    /// Tasks of the same queue that must finish first: at most [`AFTER_MAX`](Self::AFTER_MAX). Duplicates count
    /// once.
    ///
    /// The queue must know each of them at that time: live (also from earlier in the same call), dead, or
    /// retained as done, which counts as finished. Otherwise the answer is [`Enqueued::Refused`]. The ID counts:
    /// a dead task that is requeued, or one that is replaced while it runs, is waited for until it is done.
    ///
    /// The task is blocked while it waits, and its deadline applies meanwhile. If its ID has a live record the
    /// new task is only [kept](OnDuplicate::Keep); a change to the record does not change what it waits for. A
    /// requeued dead letter waits for nothing.
    pub after: Vec<TaskId>,
    /// What happens when a task that it waits for becomes a dead letter or can never finish.
    pub if_dead: IfDead,
    /// Whether the task is the callback of an open batch: it takes [members](Self::part_of) and waits until the
    /// batch is [closed](crate::Verbs::close_batch). As with [`after`](Self::after), a task whose ID is live is
    /// only kept.
    pub held_open: bool,
    /// The [open](Self::held_open) batch callback of the same queue that the task is a member of, and that waits
    /// for it. Otherwise the answer is [`Enqueued::Refused`]. A live task of this ID becomes the member instead,
    /// unless it waits for others itself. A member cannot get other tasks to wait for, so no task can come to
    /// wait for itself.
    pub part_of: Option<TaskId>,
}

impl NewTask {
    /// Maximum number of tasks in [`after`](Self::after).
    pub const AFTER_MAX: usize = 1_000;
    /// Default number of attempts.
    pub const MAX_ATTEMPTS: u32 = 20;
    /// Maximum delay.
    pub const DELAY_MAX: Duration = Duration::from_secs(400 * 86_400);

    /// Creates a task that is due at once, with middle priority, and kept if its ID is live.
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

    /// Sets the task's kind.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the [`Kind`] is invalid or the content type would exceed 200 bytes.
    pub fn kind(mut self, kind: impl AsRef<str>) -> Result<Self> {
        self.payload = self.payload.with_kind(&Kind::new(kind)?)?;
        Ok(self)
    }

    /// Whether the task waits for others, now or later.
    pub fn is_to_wait(&self) -> bool {
        self.held_open || !self.after.is_empty()
    }
}

/// When a task is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// This long after the step, on the store's clock: at most 400 days.
    After(Duration),
    /// At this time on the store's clock. A time in the past is due at once, and sorts by that time.
    At(Timestamp),
}

impl Due {
    /// The due time in a step at `now`.
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::After(delay) => now + delay,
            Self::At(at) => at,
        }
    }
}

/// Priority of a task, from 0 (first) to 9 (last). Default: 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct Priority(u8);

impl Priority {
    /// Creates a priority after checking the range 0 to 9.
    pub fn new(level: u8) -> Result<Self> {
        if level > 9 {
            return Err(Error::invalid(
                Field::Priority,
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

/// What happens when an enqueued ID has a live record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDuplicate {
    /// The record stays as it is, waiting or leased, and the new task is not stored. Exception: if the record is
    /// leased and marked as canceled, the new task is stored and waits for that run to end. It is then the record
    /// that is kept.
    Keep,
    /// The new task replaces payload, due time, priority and attempts. If the record is leased, the new task is
    /// stored beside it as the pending replacement and waits for that run to end, so a change during a run is
    /// never lost.
    Replace,
    /// Like `Keep`, but the record becomes due at the earlier of the two times. If it is leased, the new task
    /// runs after it.
    Earliest,
    /// Like `Replace`, but due no later than `max_wait` after the record was first enqueued: a burst of changes
    /// becomes one run soon after the burst, and at the latest after `max_wait`.
    Debounce {
        /// The longest time that a burst may postpone the run.
        max_wait: Duration,
    },
}

/// Outcome of one enqueue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
#[non_exhaustive]
pub enum Enqueued {
    /// A new record was created.
    Added {
        /// Its revision.
        revision: Revision,
    },
    /// The existing record is unchanged.
    Kept {
        /// Its revision.
        revision: Revision,
    },
    /// The record was changed, or will run again after its current run.
    Replaced {
        /// The new revision.
        revision: Revision,
    },
    /// A new record was created and the oldest waiting one dropped: the queue was at capacity and [drops the
    /// oldest](Overflow::DropOldest).
    Displaced {
        /// Its revision.
        revision: Revision,
        /// ID of the dropped task.
        #[cfg_attr(feature = "schema", schemars(with = "String", length(min = 1, max = 200)))]
        dropped: TaskId,
    },
    /// The queue is at capacity and [drops new tasks](Overflow::DropNew). Nothing was changed.
    Dropped {
        /// The capacity.
        bound: u64,
    },
    /// The queue is at capacity. Nothing was enqueued.
    Full {
        /// The capacity.
        bound: u64,
    },
    /// The ID is still in its [uniqueness window](NewTask::unique_for). Nothing was enqueued or dropped.
    Recent {
        /// When the window ends.
        #[serde(rename = "until_us")]
        until: Timestamp,
    },
    /// The task cannot [wait for](NewTask::after) a task, or be a [member](NewTask::part_of) of a batch. Nothing
    /// was enqueued.
    Refused {
        /// ID of the other task.
        #[cfg_attr(feature = "schema", schemars(with = "String", length(min = 1, max = 200)))]
        task: TaskId,
        /// The reason.
        why: Unmet,
    },
}

impl Enqueued {
    /// Whether a record was created or changed. Then the [uniqueness window](NewTask::unique_for) starts, if
    /// there is one.
    pub fn is_accepted(&self) -> bool {
        matches!(self, Self::Added { .. } | Self::Displaced { .. } | Self::Replaced { .. })
    }

    /// Whether the ID has a live record now.
    pub fn is_in(&self) -> bool {
        self.is_accepted() || matches!(self, Self::Kept { .. })
    }
}

/// A task that was read or claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Task {
    /// Pass it to complete, retry, release, extend and dequeue.
    #[serde(flatten, serialize_with = "ticket_fields")]
    #[cfg_attr(feature = "schema", schemars(flatten, with = "ticket::TicketFields"))]
    pub ticket: Ticket,
    /// Payload.
    #[serde(flatten)]
    pub payload: Payload,
    /// Priority.
    pub priority: Priority,
    /// Number of claims so far, including this one.
    pub attempt: u32,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Key that the task shares with others, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<TaskKey>,
    /// Deadline, if any.
    #[serde(rename = "deadline_us", skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
}

/// A request to claim tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Maximum number of tasks: 1 to 1,000.
    pub n: u32,
    /// Lease duration.
    pub lease: Lease,
    /// Name of the worker, as shown to operators: at most 200 bytes.
    pub worker: String,
}

impl Claim {
    /// Maximum size of any batch.
    pub const BATCH_MAX: usize = 1_000;
}

/// The answer to [`Verbs::claim`](crate::Verbs::claim).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// The claimed tasks.
    pub tasks: Vec<Task>,
    /// How long until another task may be available: a delay ends, a rate limit allows more, or a lease expires.
    /// `None` if nothing is foreseen or the queue is paused. Zero if as many tasks as requested were claimed,
    /// because there may be more.
    pub next_due: Option<Duration>,
}

/// A claimed task that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Ticket of the claim.
    pub ticket: Ticket,
    /// Result, at most 64 KiB. Kept if the queue has a [`Retention`], and dropped otherwise.
    pub result: Option<Payload>,
    /// Whether there was nothing to do.
    pub discarded: bool,
}

impl Completion {
    /// Maximum size of a result, in bytes.
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

/// Outcome of one completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Completed {
    /// The task is done and its record is gone.
    Done,
    /// The task is done. It was replaced while it ran, and the replacement is waiting.
    Requeued,
    /// The ticket is stale: the claim is over. Nothing was changed.
    Stale,
}

/// A claimed task that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Ticket of the claim.
    pub ticket: Ticket,
    /// Delay before the next attempt: at most 400 days.
    pub delay: Duration,
    /// Why it failed, as shown to operators. Truncated to 2,000 bytes.
    pub error: String,
    /// Whether to give up now, even if attempts remain.
    pub give_up: bool,
}

/// Outcome of one retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Retried {
    /// The task waits for its next attempt.
    Scheduled {
        /// When the next attempt is due.
        #[serde(rename = "due_us")]
        due: Timestamp,
    },
    /// No attempts remain, or the deadline is before the next one: the task is a dead letter.
    Dead,
    /// The task was replaced while it ran. The replacement is waiting with all its attempts.
    Requeued,
    /// The task was canceled while it ran. It is gone, and is not a dead letter.
    Cancelled,
    /// The ticket is stale: the claim is over. Nothing was changed.
    Stale,
}

/// A claimed task to release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRelease {
    /// Ticket of the claim.
    pub ticket: Ticket,
    /// Delay before it is due again: at most 400 days. With zero it keeps its due time and its place.
    pub delay: Duration,
}

impl From<Ticket> for TaskRelease {
    /// Releases the task to its old place.
    fn from(ticket: Ticket) -> Self {
        Self { ticket, delay: Duration::ZERO }
    }
}

/// Outcome of one [`Verbs::release_tasks`](crate::Verbs::release_tasks).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum TaskReleased {
    /// The task waits in its old place, or until its delay has passed.
    Waiting,
    /// The task was canceled while it ran and is gone.
    Cancelled,
    /// The ticket is stale: the claim is over. Nothing was changed.
    Stale,
}

/// A claimed task whose lease to extend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Ticket of the claim.
    pub ticket: Ticket,
    /// New progress. The earlier progress stays if this is `None`.
    pub progress: Option<TaskProgress>,
}

impl From<Ticket> for Heartbeat {
    /// Extends the lease without progress.
    fn from(ticket: Ticket) -> Self {
        Self { ticket, progress: None }
    }
}

/// Progress of a task, as its worker reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TaskProgress {
    /// Percentage done: 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(max = 100)))]
    pub percent: Option<u8>,
    /// Current step, as text: at most 200 bytes without control characters.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("pattern" = crate::field::LABEL)))]
    pub note: String,
}

/// Outcome of one extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum TaskExtended {
    /// The lease was extended.
    Extended,
    /// The lease was extended, and a client asked to cancel the task: stop, and complete it.
    Cancelled,
    /// The ticket is stale: stop, and write nothing more.
    Lost,
}

/// Outcome of [`Verbs::dequeue`](crate::Verbs::dequeue).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
#[non_exhaustive]
pub enum Dequeued {
    /// The task is gone.
    Removed,
    /// A worker is running it. Nothing was changed.
    Leased,
    /// It was enqueued again, claimed by another worker, or is gone. Nothing was changed.
    Stale,
}

/// Outcome of [`Verbs::cancel`](crate::Verbs::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
#[non_exhaustive]
pub enum Cancelled {
    /// The task is gone.
    Removed,
    /// A worker is running it and will be notified. A pending replacement is gone.
    Marked,
    /// There is no such task.
    NotFound,
}

/// Outcome of [`Verbs::reschedule`](crate::Verbs::reschedule).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
#[non_exhaustive]
pub enum Rescheduled {
    /// The task has a new due time.
    Rescheduled {
        /// When the task is due.
        #[serde(rename = "due_us")]
        due: Timestamp,
    },
    /// A worker is running it. Nothing was changed.
    Leased,
    /// The new due time is not before the deadline of the task. Nothing was changed.
    TooLate {
        /// The deadline.
        #[serde(rename = "deadline_us")]
        deadline: Timestamp,
    },
    /// There is no such task.
    NotFound,
}

/// Outcome of [`Verbs::clear_unique`](crate::Verbs::clear_unique).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum UniqueCleared {
    /// The ID can be enqueued again.
    Cleared {
        /// When the window would have ended.
        #[serde(rename = "until_us")]
        until: Timestamp,
    },
    /// The ID had no uniqueness window.
    NotFound,
}

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Not due yet, or not before the rate limit of its key allows it.
    Scheduled,
    /// Due, and not claimed.
    Ready,
    /// Claimed, and the lease has not expired.
    Leased,
    /// Behind others of its key, behind the concurrency limit of its key, waiting for [other
    /// tasks](NewTask::after), or the callback of an open batch.
    Blocked,
    /// Finished, and kept by the queue's [`Retention`].
    Done,
}

impl TaskState {
    /// Its word, as in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Leased => "leased",
            Self::Blocked => "blocked",
            Self::Done => "done",
        }
    }
}

/// A task and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskInfo {
    /// The task and its ticket. For a leased or done task the ticket is that of its last claim.
    #[serde(flatten)]
    pub task: Task,
    /// State of the task.
    pub state: TaskState,
    /// Whether it is blocked because it waits for [other tasks](NewTask::after) or for its batch to be closed.
    pub waits: bool,
    /// When it becomes available, if it is scheduled or ready: its due time, or later if its key demands it.
    #[serde(rename = "not_before_us", skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// When the lease expires, if it is leased.
    #[serde(rename = "lease_until_us", skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Timestamp>,
    /// The worker of its last claim, if it is leased or was done by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Progress, if it is leased and its worker has reported any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<TaskProgress>,
    /// Whether a pending replacement waits for the current run to end.
    pub replaced: bool,
    /// Whether a client asked to cancel it.
    pub cancelled: bool,
    /// Why its last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its latest unsuccessful runs, oldest first: at most [`PastRun::KEPT`].
    pub past: Vec<PastRun>,
    /// How it ended, if it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<Finished>,
}

/// How a retained task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finished {
    /// When it ended.
    #[serde(rename = "at_us")]
    pub at: Timestamp,
    /// How it ended.
    pub how: Finish,
    /// Its result, if the worker returned one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// A worker completed it.
    Done,
    /// There was nothing to do.
    Discarded,
    /// A client canceled it.
    Cancelled,
    /// The overflow policy dropped it: the queue was at capacity.
    Dropped,
}

/// An unsuccessful run of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PastRun {
    /// Number of the attempt.
    pub attempt: u32,
    /// When it was claimed, exact to the duration of the claiming call.
    #[serde(rename = "began_us")]
    pub began: Timestamp,
    /// When it ended.
    #[serde(rename = "ended_us")]
    pub ended: Timestamp,
    /// How it ended.
    pub how: PastEnd,
    /// The worker.
    pub worker: String,
    /// Why it failed, if it did. Truncated to 200 bytes.
    pub error: String,
}

impl PastRun {
    /// Number of runs kept per task.
    pub const KEPT: usize = 10;
    /// Maximum length of a kept error text, in bytes.
    pub const ERROR_MAX: usize = 200;

    /// Appends a run and drops the oldest one beyond the limit.
    pub fn add_to(self, past: &mut Vec<Self>) {
        if past.len() == Self::KEPT {
            past.remove(0);
        }
        past.push(self);
    }
}

/// How an unsuccessful run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PastEnd {
    /// It failed.
    Failed,
    /// Its lease expired: the worker died or could not reach the store.
    Lost,
    /// It was released with a delay, which counts as no attempt.
    Snoozed,
}

/// Counts and limits of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueStats {
    /// Tasks that are due and not claimed.
    pub ready: u64,
    /// Tasks that are not due yet.
    pub scheduled: u64,
    /// Tasks that are claimed and whose lease has not expired.
    pub leased: u64,
    /// Tasks behind others of their key, or waiting for other tasks.
    pub blocked: u64,
    /// Dead letters.
    pub dead: u64,
    /// Finished tasks that the queue's retention keeps.
    pub done: u64,
    /// Tasks dropped by the [overflow policy](QueueLimits::overflow) since the queue was created.
    pub dropped: u64,
    /// How long the oldest ready task has been ready, in milliseconds.
    pub lag_ms: u64,
    /// When the rate limit allows the next task; `None` if it allows one now.
    #[serde(rename = "rate_until_us", skip_serializing_if = "Option::is_none")]
    pub rate_until: Option<Timestamp>,
    /// When a task was last claimed, exact to the duration of the claiming call; `None` if none ever was.
    #[serde(rename = "last_claim_us", skip_serializing_if = "Option::is_none")]
    pub last_claim: Option<Timestamp>,
    /// Whether it is paused.
    pub paused: bool,
    /// Its limits.
    pub limits: QueueLimits,
}

/// Counts and limits of a queue, with its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueueReport {
    /// Name of the queue.
    pub queue: QueueName,
    /// Its counts and limits.
    #[serde(flatten)]
    pub stats: QueueStats,
}

/// A dead letter: a task that failed for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeadLetter {
    /// ID of the task. Only the latest dead letter of an ID is kept.
    #[cfg_attr(feature = "schema", schemars(with = "String", length(min = 1, max = 200)))]
    pub id: TaskId,
    /// Payload.
    #[serde(flatten)]
    pub payload: Payload,
    /// Priority.
    pub priority: Priority,
    /// Number of attempts.
    pub attempts: u32,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Why the last attempt failed.
    pub error: String,
    /// When it became a dead letter.
    #[serde(rename = "died_us")]
    pub died_at: Timestamp,
    /// Key that it shared with others, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<TaskKey>,
    /// Its latest runs, oldest first: at most [`PastRun::KEPT`].
    pub past: Vec<PastRun>,
}

impl DeadLetter {
    /// Error text of a task that became a dead letter at its deadline.
    pub const LATE: &str = "its deadline passed before it ran";

    /// Error text of a task that died because one that it waited for ended like this; `error` is that of a dead
    /// one.
    pub fn unmet(id: &TaskId, end: TaskEnd, error: &str) -> String {
        match end {
            TaskEnd::Dead => format!("waited for {id}, which is dead: {}", PastRun::cut(error)),
            TaskEnd::Cancelled => format!("waited for {id}, which was canceled"),
            TaskEnd::Dropped => format!("waited for {id}, which was dropped"),
            _ => format!("waited for {id}, which was deleted"),
        }
    }
}

/// Selects dead letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These IDs, at most 1,000.
    Ids(Vec<TaskId>),
    /// All dead letters.
    All,
}

/// Outcome of [`Verbs::requeue_dead`](crate::Verbs::requeue_dead).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeadRequeued {
    /// Number of tasks that were requeued.
    pub requeued: u64,
    /// Number of tasks that stay dead because their ID is live or the queue is full.
    pub kept: u64,
}
