use serde::{Deserialize, Serialize};

use crate::{Answer, Page, Payload, Priority, QueueName, Revision, ScheduleId, TaskId, Timestamp};

/// The schedules of a store: each enqueues a task repeatedly.
///
/// A store knows when a schedule fires next and which task it enqueues, but not why: the recurrence is opaque text. The
/// scheduler that interprets it computes the next time and asks the store to fire, naming the revision that it read. The
/// store fires only if that is still current. So a schedule fires once per occurrence, however many schedulers run, and
/// the others take over when one dies.
pub trait ScheduleStore: Send + Sync {
    /// Creates or changes a schedule. An unchanged schedule keeps its next time, so every process of a fleet may save it
    /// at startup.
    fn schedule(&self, queue: &QueueName, new: NewSchedule) -> Answer<'_, Scheduled>;

    /// Deletes a schedule and returns whether it existed. Tasks that it enqueued stay.
    fn unschedule(&self, queue: &QueueName, id: &ScheduleId) -> Answer<'_, bool>;

    /// Schedules of a queue by id.
    fn schedules(&self, queue: &QueueName, page: Page) -> Answer<'_, Vec<Schedule>>;

    /// Up to `n` schedules (1 to 1,000) that are due to fire, by moment, and when the next one will be.
    fn due_schedules(&self, queue: &QueueName, n: u32) -> Answer<'_, DueSchedules>;

    /// Enqueues the tasks of due occurrences and sets the next time, atomically. Tasks whose ID is live are kept, and the
    /// queue's capacity does not apply. A repeated call is stale.
    fn fire(&self, queue: &QueueName, fire: Fire) -> Answer<'_, Fired>;
}

/// A schedule to create or change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSchedule {
    /// Its id: one schedule each in a queue. 1 to 170 bytes, because the tasks' ids are made of it.
    pub id: ScheduleId,
    /// Recurrence as text, interpreted by the scheduler: 1 to 4,096 bytes.
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
    /// Expected revision, to change only what was read. `None`: any.
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
    /// Recurrence as text, as its creator wrote it.
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

/// The tasks that a schedule enqueues for times that have come.
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
