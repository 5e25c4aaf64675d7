//! What happens to the tasks of a queue, as a queue that keeps events tells it.

use serde::{Deserialize, Serialize};

use crate::{TaskId, Timestamp};

/// Something that happened to a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEvent {
    /// 1, 2, 3, … through the whole queue, without gaps: a follower sees by it that nothing is missing.
    pub seq: u64,
    /// When, on the store's clock. For an expired lease or deadline, the time of expiry, not of its detection.
    #[serde(rename = "at_us")]
    pub at: Timestamp,
    /// To which task.
    pub id: TaskId,
    /// What.
    #[serde(flatten)]
    pub what: TaskChange,
}

/// What may happen to a task: each is one event, whichever call led to it.
///
/// What changes nothing is no event: a duplicate that is kept away, a newcomer that is refused, a stale ticket, progress
/// that is noted, a call that is sent again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum TaskChange {
    /// It was enqueued: by a client, an outbox relay, a schedule, a sale or a release.
    Added {
        /// When it is due.
        #[serde(rename = "due_us")]
        due: Timestamp,
    },
    /// It was changed while it waited, or a newcomer waits behind its present run.
    Replaced {
        /// When it is due now, or when the newcomer is.
        #[serde(rename = "due_us")]
        due: Timestamp,
    },
    /// A worker claimed it.
    Claimed {
        /// Which attempt begins.
        attempt: u32,
        /// Who claimed it.
        worker: String,
    },
    /// A worker completed it.
    Done {
        /// By which attempt.
        attempt: u32,
    },
    /// There was nothing to do.
    Discarded {
        /// As which attempt found.
        attempt: u32,
    },
    /// Its run ended, in whatever way, and the newcomer that waited behind it took its place.
    Requeued {
        /// Which attempt ended.
        attempt: u32,
    },
    /// An attempt failed, and it waits for the next.
    Failed {
        /// Which attempt failed.
        attempt: u32,
        /// When it is due again.
        #[serde(rename = "due_us")]
        due: Timestamp,
        /// Why it failed; cut to 200 bytes.
        error: String,
    },
    /// Its lease ran out, and it waits again in its place.
    Lost {
        /// Which attempt was lost.
        attempt: u32,
    },
    /// It was given back, to its place or for a while: the attempt does not count.
    GivenBack {
        /// Which attempt ended.
        attempt: u32,
        /// When it is due: as before its claim, or after the delay.
        #[serde(rename = "due_us")]
        due: Timestamp,
    },
    /// It was given up, and is a dead letter: its attempts are used up, its deadline passed, or it waited for what can never
    /// be done.
    Dead {
        /// How often it was tried.
        attempt: u32,
        /// Why; cut to 200 bytes.
        error: String,
    },
    /// A client asked to cancel it while it was running. A pending replacement is gone.
    CancelAsked,
    /// It was cancelled, and is gone.
    Cancelled,
    /// It gave its place to a newcomer, or was itself one for which there was no room.
    Dropped,
    /// It was taken for good.
    Popped,
    /// It was dequeued.
    Deleted,
    /// It was a dead letter, and waits again.
    Revived,
    /// It was a dead letter, and was deleted.
    Buried,
}

/// Some events of a queue, with the first that it keeps and its latest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskEvents {
    /// By number.
    pub events: Vec<TaskEvent>,
    /// The number of the first event that is kept, or of the next one if none is.
    pub first: u64,
    /// The number of the latest event that there ever was; 0 if there was none.
    pub last: u64,
}

impl TaskEvents {
    /// The most events of one answer.
    pub const MAX: u32 = 1_000;

    /// Whether events after that number were missed: they are no longer kept, or the store lost its latest writes and
    /// numbers new events from an earlier one.
    pub fn is_missed(&self, after: u64) -> bool {
        self.first > after.saturating_add(1) || self.last < after
    }
}
