//! IDs read ahead: the pages of a listing that continue each other read the sets of a queue once, not once per page.
//!
//! Redis has no set of a queue's tasks by ID, and one would cost a write per task. So a page reads all sets and sorts.
//! From the second page on, the IDs behind the page are kept, and the next page begins with them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rushgate_core::{QueueName, TaskId, TaskState};
use tokio::time::Instant;

/// The most IDs that are kept for one listing.
pub(crate) const IDS_MAX: usize = 250_000;
/// The most listings for which IDs are kept. Another one replaces the oldest.
const LISTINGS_MAX: usize = 4;
/// How long IDs are kept for the next page.
const KEPT_FOR: Duration = Duration::from_secs(5);

/// IDs that the next page of a listing begins with, in descending order.
pub(crate) struct Ids {
    pub(crate) ids: Vec<TaskId>,
    /// Whether there may be more behind them.
    pub(crate) more: bool,
}

struct Kept {
    queue: QueueName,
    state: Option<TaskState>,
    /// Last ID of the page before.
    after: String,
    ahead: Ids,
    since: Instant,
}

/// The IDs kept for the next pages, the oldest first.
#[derive(Default)]
pub(crate) struct Ahead(Mutex<Vec<Kept>>);

impl Ahead {
    /// Whether pages of this state may continue each other. Time alone makes tasks ready or blocked.
    pub(crate) fn suits(state: Option<TaskState>) -> bool {
        !matches!(state, Some(TaskState::Ready | TaskState::Blocked))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Vec<Kept>) -> T) -> T {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.since.elapsed() < KEPT_FOR);
        change(&mut kept)
    }

    /// Takes the IDs kept for a page.
    pub(crate) fn take(&self, queue: &QueueName, state: Option<TaskState>, after: &str) -> Option<Ids> {
        self.with(|kept| {
            let is_it = |kept: &Kept| kept.queue == *queue && kept.state == state && kept.after == after;
            let at = kept.iter().position(is_it)?;
            Some(kept.remove(at).ahead)
        })
    }

    pub(crate) fn keep(&self, queue: &QueueName, state: Option<TaskState>, after: String, ahead: Ids) {
        self.with(|kept| {
            if kept.len() == LISTINGS_MAX {
                kept.remove(0);
            }
            kept.push(Kept { queue: queue.clone(), state, after, ahead, since: Instant::now() });
        });
    }

    /// Drops the IDs of a queue, because this process changes it.
    pub(crate) fn forget(&self, queue: &QueueName) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.queue != *queue);
    }
}
