//! Events of a queue: what happened to its tasks.

use serde::{Deserialize, Serialize};

use crate::{TaskId, Timestamp};

/// An event: one change of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskEvent {
    /// Sequence number: 1, 2, 3, … per queue, without gaps, so a follower can detect missing events.
    pub seq: u64,
    /// When it happened, on the store's clock. For an expired lease or deadline: the time of expiry, not of its
    /// detection.
    #[serde(rename = "at_us")]
    pub at: Timestamp,
    /// ID of the task.
    #[cfg_attr(feature = "schema", schemars(with = "String", length(min = 1, max = 200)))]
    pub id: TaskId,
    /// What happened.
    #[serde(flatten)]
    pub what: TaskChange,
}

/// A change of a task. Each change is one event, whichever call caused it.
///
/// Calls that change nothing produce no event: a duplicate that is kept, a refused enqueue, a stale ticket and a
/// repeated call. Neither does a progress report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum TaskChange {
    /// It was enqueued: by a client, an outbox relay, a schedule, a sale or a release.
    Added {
        /// When it is due.
        #[serde(rename = "due_us")]
        due: Timestamp,
    },
    /// It was changed while it waited, or a pending replacement waits for the current run to end.
    Replaced {
        /// When the changed task or the pending replacement is due.
        #[serde(rename = "due_us")]
        due: Timestamp,
    },
    /// A worker claimed it.
    Claimed {
        /// Number of the attempt that begins.
        attempt: u32,
        /// The worker.
        worker: String,
        /// When it was due: its wait ended with this claim.
        #[serde(rename = "due_us")]
        due: Timestamp,
    },
    /// A worker completed it.
    Done {
        /// Number of the attempt.
        attempt: u32,
        /// When it was claimed, exact to the duration of the claiming call.
        #[serde(rename = "began_us")]
        began: Timestamp,
    },
    /// The worker found nothing to do.
    Discarded {
        /// Number of the attempt.
        attempt: u32,
        /// When it was claimed, exact to the duration of the claiming call.
        #[serde(rename = "began_us")]
        began: Timestamp,
    },
    /// Its run ended in any way, and the pending replacement took its place.
    Requeued {
        /// Number of the attempt that ended.
        attempt: u32,
    },
    /// An attempt failed, and the task waits for the next one.
    Failed {
        /// Number of the attempt.
        attempt: u32,
        /// When it is due again.
        #[serde(rename = "due_us")]
        due: Timestamp,
        /// Why it failed. Truncated to 200 bytes.
        error: String,
    },
    /// Its lease expired, and the task waits again in its old place.
    Lost {
        /// Number of the attempt that was lost.
        attempt: u32,
    },
    /// A worker released it, with or without a delay. The attempt does not count.
    Released {
        /// Number of the attempt that ended.
        attempt: u32,
        /// When it is due: as before its claim, or after the delay.
        #[serde(rename = "due_us")]
        due: Timestamp,
    },
    /// It became a dead letter: no attempts remain, its deadline passed, or a task that it waited for can never
    /// finish.
    Dead {
        /// Number of attempts.
        attempt: u32,
        /// Why. Truncated to 200 bytes.
        error: String,
    },
    /// A client asked to cancel it while it was running. A pending replacement is gone.
    CancelAsked,
    /// It was canceled and is gone.
    Cancelled,
    /// The overflow policy dropped it: as the oldest task, or as a new one.
    Dropped,
    /// A client popped it.
    Popped,
    /// It was dequeued.
    Deleted,
    /// It was a dead letter and was requeued.
    DeadRequeued,
    /// It was a dead letter and was deleted.
    DeadDeleted,
}

/// A page of a queue's events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEvents {
    /// The events, by number.
    pub events: Vec<TaskEvent>,
    /// Number of the first event kept, or of the next event if none is kept.
    pub first: u64,
    /// Number of the latest event; 0 if there was none.
    pub last: u64,
}

impl TaskEvents {
    /// Maximum number of events per page.
    pub const MAX: u32 = 1_000;

    /// Whether a follower that has read up to `after` missed events: they are no longer kept, or the store lost its
    /// latest writes and numbers new events from an earlier one.
    pub fn is_missed(&self, after: u64) -> bool {
        self.first > after.saturating_add(1) || self.last < after
    }
}
