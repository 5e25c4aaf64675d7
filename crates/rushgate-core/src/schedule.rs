use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{Payload, Priority, Revision, ScheduleId, TaskId, Timestamp};

/// A schedule to create or change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSchedule {
    /// ID of the schedule: 1 to 170 bytes, because the IDs of its tasks contain it.
    pub id: ScheduleId,
    /// Recurrence as text, interpreted by the scheduler: 1 to 4,096 bytes.
    pub recurrence: String,
    /// Payload of its tasks.
    pub payload: Payload,
    /// Priority of its tasks.
    pub priority: Priority,
    /// Maximum number of attempts of each of its tasks: 1 to 1,000.
    pub max_attempts: u32,
    /// When it first fires; `None`: never. An existing schedule keeps its next time unless its recurrence changes or
    /// it is paused or resumed.
    pub next: Option<Timestamp>,
    /// Whether it is paused. `None`: unchanged; a new schedule runs.
    pub paused: Option<bool>,
    /// Expected revision, to change only what was read. `None`: any.
    pub as_of: Option<Revision>,
}

impl NewSchedule {
    /// Maximum length of an ID, in bytes.
    pub const ID_MAX: usize = 170;
    /// Maximum length of a recurrence, in bytes.
    pub const RECURRENCE_MAX: usize = 4_096;
    /// Maximum number of schedules per queue.
    pub const MAX: u64 = 10_000;
}

/// Outcome of [`Verbs::schedule`](crate::Verbs::schedule).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
#[non_exhaustive]
pub enum Scheduled {
    /// The schedule was created.
    Added {
        /// Its revision.
        revision: Revision,
    },
    /// The schedule was changed.
    Changed {
        /// The new revision.
        revision: Revision,
    },
    /// The schedule already had these values.
    Unchanged {
        /// Its revision.
        revision: Revision,
    },
    /// The queue has the maximum number of schedules. Nothing was created.
    Full,
    /// The schedule has another revision than expected, or does not exist. Nothing was changed.
    Stale,
}

/// A schedule and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Schedule {
    /// ID of the schedule.
    pub id: ScheduleId,
    /// Recurrence as text, as its creator wrote it.
    #[serde(serialize_with = "as_json")]
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub recurrence: String,
    /// Payload of its tasks.
    #[serde(flatten)]
    pub payload: Payload,
    /// Priority of its tasks.
    pub priority: Priority,
    /// Maximum number of attempts of each of its tasks.
    pub max_attempts: u32,
    /// When it fires next, unless it is paused.
    #[serde(rename = "next_us", skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// The latest occurrence for which it fired.
    #[serde(rename = "previous_us", skip_serializing_if = "Option::is_none")]
    pub previous: Option<Timestamp>,
    /// Whether it is paused.
    pub paused: bool,
    /// Revision: grows with every change and every firing.
    pub revision: Revision,
}

/// The recurrence as JSON, if it is that.
fn as_json<S: Serializer>(recurrence: &str, serializer: S) -> Result<S::Ok, S::Error> {
    match serde_json::from_str::<&RawValue>(recurrence) {
        Ok(json) => json.serialize(serializer),
        Err(_) => recurrence.serialize(serializer),
    }
}

impl Schedule {
    /// Whether saving `new` would change nothing.
    pub fn says_the_same(&self, new: &NewSchedule) -> bool {
        self.recurrence == new.recurrence
            && self.payload == new.payload
            && self.priority == new.priority
            && self.max_attempts == new.max_attempts
            && new.paused.is_none_or(|paused| paused == self.paused)
    }
}

/// The answer to [`Verbs::due_schedules`](crate::Verbs::due_schedules).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueSchedules {
    /// The store's clock.
    pub now: Timestamp,
    /// The due schedules.
    pub due: Vec<Schedule>,
    /// When the next of the other schedules is due.
    pub next: Option<Timestamp>,
}

/// The tasks to enqueue for due occurrences of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fire {
    /// ID of the schedule.
    pub id: ScheduleId,
    /// The revision that was read.
    pub revision: Revision,
    /// The task ID and due time of each occurrence to enqueue: 0 to 1,000.
    pub runs: Vec<(TaskId, Timestamp)>,
    /// When it fires next; `None`: never.
    pub next: Option<Timestamp>,
}

/// Outcome of [`Verbs::fire`](crate::Verbs::fire).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Fired {
    /// The tasks are in the queue.
    Fired {
        /// Number of tasks that were not in the queue before.
        added: u32,
    },
    /// The schedule was changed, has fired already, is not due or does not exist. Nothing was changed.
    Stale,
}
