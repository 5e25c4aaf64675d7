//! Callers that wait for a reservation to become final.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rushgate_core::ReservationId;
use tokio::sync::oneshot;

/// Up to this number of waiters, every waiter is woken after any event of the sale. Above it, the events are
/// read to find out whose reservation changed.
const FEW: usize = 16;

/// Waiters of this process, by reservation of one sale.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<Waiting>);

#[derive(Default)]
pub(crate) struct Waiting {
    pub of: HashMap<ReservationId, Vec<oneshot::Sender<()>>>,
    /// Whether a task reads the sale for them.
    pub is_watched: bool,
    /// Generation and event number up to which waiters were woken. It outlives that task: one that starts while
    /// the waiters of its predecessor still read would wake them all once more.
    pub known: Option<(u32, u64)>,
}

impl Waiters {
    pub fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn tell(&self, id: ReservationId) {
        self.lock().of.remove(&id);
    }

    pub fn tell_all(&self) {
        self.lock().of.clear();
    }

    pub fn are_few(&self) -> bool {
        self.lock().of.len() <= FEW
    }

    /// True if no caller waits any more; the task that reads the sale then stops.
    pub fn are_left(&self) -> bool {
        let mut waiting = self.lock();
        waiting.of.retain(|_, of| {
            of.retain(|who| !who.is_closed());
            !of.is_empty()
        });
        waiting.is_watched = !waiting.of.is_empty();
        !waiting.is_watched
    }
}
