//! Cache of the IDs behind a page of a listing, so that consecutive pages read a queue's sets once, not once per page.
//!
//! Redis has no set of a queue's tasks by ID, and one would cost a write per task. So a page reads all sets and sorts.
//! From the second page on, the IDs behind the page are kept, and the next page begins with them. They take at most
//! 4 × 250,000 IDs of memory, until the first call on a queue after 5 s.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rushgate_core::{QueueName, TaskId, TaskState};
use tokio::time::Instant;

/// Maximum number of IDs kept for one listing.
pub(crate) const IDS_MAX: usize = 250_000;
/// Maximum number of listings for which IDs are kept. One more replaces the oldest.
const LISTINGS_MAX: usize = 4;
/// Maximum number of pages that are tracked while they are read. The IDs behind an untracked page are not kept.
const READING_MAX: usize = 64;
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

#[derive(Default)]
struct Listings {
    /// The IDs kept for the next pages, the oldest first.
    kept: Vec<Kept>,
    /// Pages that are being read, the oldest first. A change of their queue removes them.
    reading: Vec<(u64, QueueName)>,
    latest: u64,
}

/// The IDs kept for the next pages of all listings.
///
/// A change of this process drops the IDs of its queue twice: when it is sent, and when it is answered. So a page that
/// is requested after a change was answered always shows it.
#[derive(Default)]
pub(crate) struct Ahead {
    listings: Mutex<Listings>,
    /// Whether a change has anything to drop. Mostly not: then it takes no lock.
    is_used: AtomicBool,
}

/// A page that is being read. Dropping it ends the page.
pub(crate) struct Reading<'a> {
    of: &'a Ahead,
    number: u64,
}

impl Ahead {
    /// Whether pages of this state may continue each other. Time alone makes tasks ready or blocked.
    pub(crate) fn suits(state: Option<TaskState>) -> bool {
        !matches!(state, Some(TaskState::Ready | TaskState::Blocked))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Listings) -> T) -> T {
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        listings.kept.retain(|kept| kept.since.elapsed() < KEPT_FOR);
        let changed = change(&mut listings);
        self.is_used.store(!listings.kept.is_empty() || !listings.reading.is_empty(), Ordering::SeqCst);
        changed
    }

    /// Begins a page, and returns the IDs kept for it.
    pub(crate) fn take(
        &self,
        queue: &QueueName,
        state: Option<TaskState>,
        after: &str,
    ) -> (Reading<'_>, Option<Ids>) {
        let (number, ids) = self.with(|listings| {
            if listings.reading.len() == READING_MAX {
                listings.reading.remove(0);
            }
            listings.latest += 1;
            listings.reading.push((listings.latest, queue.clone()));
            let is_it = |kept: &Kept| kept.queue == *queue && kept.state == state && kept.after == after;
            let at = listings.kept.iter().position(is_it);
            (listings.latest, at.map(|at| listings.kept.remove(at).ahead))
        });
        (Reading { of: self, number }, ids)
    }

    /// Drops the IDs of a queue, because this process changes it.
    pub(crate) fn forget(&self, queue: &QueueName) {
        if self.is_used.load(Ordering::SeqCst) {
            self.with(|listings| {
                listings.kept.retain(|kept| kept.queue != *queue);
                listings.reading.retain(|(_, reading)| reading != queue);
            });
        }
    }
}

impl Reading<'_> {
    /// Keeps the IDs behind the page, unless this process has changed the queue since the page began.
    pub(crate) fn keep(self, state: Option<TaskState>, after: String, ahead: Ids) {
        self.of.with(|listings| {
            let Some(queue) = listings.end(self.number) else { return };
            if listings.kept.len() == LISTINGS_MAX {
                listings.kept.remove(0);
            }
            listings.kept.push(Kept { queue, state, after, ahead, since: Instant::now() });
        });
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.of.with(|listings| listings.end(self.number));
    }
}

impl Listings {
    /// Ends a page; `None` if a change has ended it.
    fn end(&mut self, number: u64) -> Option<QueueName> {
        let at = self.reading.iter().position(|(reading, _)| *reading == number)?;
        Some(self.reading.remove(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_during_a_page_drops_what_is_behind_it() {
        let (ahead, queue, other) =
            (Ahead::default(), QueueName::new("mail").unwrap(), QueueName::new("bulk").unwrap());
        let ids = || Ids { ids: Vec::new(), more: false };
        for (changed, is_kept) in [(&other, true), (&queue, false)] {
            let (page, _) = ahead.take(&queue, None, "a");
            ahead.forget(changed);
            page.keep(None, "b".to_owned(), ids());
            assert_eq!(ahead.take(&queue, None, "b").1.is_some(), is_kept, "{changed}");
        }
    }

    #[test]
    fn a_page_that_keeps_nothing_leaves_nothing_behind() {
        let (ahead, queue) = (Ahead::default(), QueueName::new("mail").unwrap());
        let (page, _) = ahead.take(&queue, None, "");
        assert!(ahead.is_used.load(Ordering::SeqCst));
        drop(page);
        assert!(!ahead.is_used.load(Ordering::SeqCst));
    }
}
