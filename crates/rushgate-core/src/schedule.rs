use serde::{Deserialize, Serialize};

use crate::{Answer, Page, Payload, Priority, QueueName, Revision, ScheduleId, TaskId, Timestamp};

/// The schedules of a store: each puts a task into its queue again and again.
///
/// A store knows when a schedule fires next and what it puts in then, not why: the recurrence is text that only its
/// reader understands. Who reads it works out the moments and asks the store to fire, naming what he has read; the
/// store does it only if that still holds. So a schedule fires once for a moment, however many processes look after
/// it, and a process that dies leaves it to the others.
pub trait ScheduleStore: Send + Sync {
    /// Enters a schedule under its id, or changes the one that is there. One that says the same as before stays as it
    /// is, with its next moment: every process of a fleet may enter it when it starts.
    fn schedule(&self, queue: &QueueName, new: NewSchedule) -> Answer<'_, Scheduled>;

    /// Takes a schedule out, and says whether there was one; sent again, there is none. Tasks that it has put in stay.
    fn unschedule(&self, queue: &QueueName, id: &ScheduleId) -> Answer<'_, bool>;

    /// Schedules of a queue by id.
    fn schedules(&self, queue: &QueueName, page: Page) -> Answer<'_, Vec<Schedule>>;

    /// Up to `n` schedules (1 to 1,000) that are due to fire, by moment, and when the next one will be.
    fn due_schedules(&self, queue: &QueueName, n: u32) -> Answer<'_, DueSchedules>;

    /// Puts in the tasks of moments that have come, and sets the schedule's next moment, in one step. Tasks whose id
    /// is in already are kept; the queue's bound does not count. Sent again, it is stale.
    fn fire(&self, queue: &QueueName, fire: Fire) -> Answer<'_, Fired>;
}

/// A schedule to enter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSchedule {
    /// Its id: one schedule each in a queue. 1 to 170 bytes, because the tasks' ids are made of it.
    pub id: ScheduleId,
    /// When it fires, for whoever works that out: 1 to 4,096 bytes.
    pub recurrence: String,
    /// The content of its tasks.
    pub payload: Payload,
    /// The urgency of its tasks.
    pub priority: Priority,
    /// How often each of its tasks may be claimed before it is dead: 1 to 1,000.
    pub max_attempts: u32,
    /// When it fires first; never if there is no such moment. A schedule that is there keeps its next moment, unless its
    /// recurrence changes, or whether it stands still.
    pub next: Option<Timestamp>,
    /// Whether it stands still; `None` leaves that as it is, and a new one runs.
    pub paused: Option<bool>,
    /// Only if the schedule has this revision: for whoever changes what he has read.
    pub as_of: Option<Revision>,
}

impl NewSchedule {
    /// The longest id, in bytes.
    pub const ID_MAX: usize = 170;
    /// The longest recurrence, in bytes.
    pub const RECURRENCE_MAX: usize = 4_096;
    /// Schedules that one queue has at most.
    pub const MAX: u64 = 10_000;
}

/// The answer to [`ScheduleStore::schedule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Scheduled {
    /// It is new.
    Added {
        /// Its revision.
        revision: Revision,
    },
    /// It says something else than before.
    Changed {
        /// The new revision.
        revision: Revision,
    },
    /// It says the same as before.
    Unchanged {
        /// Its revision.
        revision: Revision,
    },
    /// The queue has as many schedules as it may have. Nothing was entered.
    Full,
    /// It has another revision than was said, or is gone. Nothing was changed.
    Stale,
}

/// A schedule as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Its id.
    pub id: ScheduleId,
    /// When it fires, in the words of whoever entered it.
    pub recurrence: String,
    /// The content of its tasks.
    pub payload: Payload,
    /// The urgency of its tasks.
    pub priority: Priority,
    /// How often each of its tasks may be claimed.
    pub max_attempts: u32,
    /// When it fires next, unless it is paused.
    pub next: Option<Timestamp>,
    /// The latest moment for which it has fired.
    pub previous: Option<Timestamp>,
    /// Whether it stands still.
    pub paused: bool,
    /// Grows with every change, and with each time that it fires.
    pub revision: Revision,
}

impl Schedule {
    /// Whether entering `new` would change nothing.
    pub fn says_the_same(&self, new: &NewSchedule) -> bool {
        self.recurrence == new.recurrence
            && self.payload == new.payload
            && self.priority == new.priority
            && self.max_attempts == new.max_attempts
            && new.paused.is_none_or(|paused| paused == self.paused)
    }
}

/// The answer to [`ScheduleStore::due_schedules`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueSchedules {
    /// What the store's clock says.
    pub now: Timestamp,
    /// Those whose moment has come.
    pub due: Vec<Schedule>,
    /// The first moment of the others.
    pub next: Option<Timestamp>,
}

/// What a schedule puts in because moments of it have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fire {
    /// Which schedule.
    pub id: ScheduleId,
    /// As of which revision.
    pub revision: Revision,
    /// A task for each moment that counts, 0 to 1,000, each due at its moment.
    pub runs: Vec<(TaskId, Timestamp)>,
    /// When it fires again; never if there is no such moment.
    pub next: Option<Timestamp>,
}

/// The answer to [`ScheduleStore::fire`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Fired {
    /// The tasks are in.
    Fired {
        /// How many were not in before.
        added: u32,
    },
    /// The schedule is another now, fired already, is not due or is gone. Nothing was changed.
    Stale,
}
