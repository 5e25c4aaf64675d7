//! Counters of a ledger's client.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::LedgerCalls;

#[derive(Default)]
pub(crate) struct Counters(Mutex<LedgerCalls>);

impl Counters {
    fn all(&self) -> MutexGuard<'_, LedgerCalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut LedgerCalls)) {
        count(&mut self.all());
    }

    /// Adds `elapsed` to the counters, of which `waited` was spent waiting for another process.
    pub(crate) fn worked(&self, elapsed: Duration, waited: Duration) {
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.count(|calls| {
            calls.busy_us += micros(elapsed.saturating_sub(waited));
            calls.waited_us += micros(waited);
        });
    }

    pub(crate) fn read(&self) -> LedgerCalls {
        *self.all()
    }
}
