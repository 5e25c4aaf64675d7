//! Counters of a ledger's client.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::LedgerCalls;

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) calls: AtomicU64,
    pub(crate) transactions: AtomicU64,
    pub(crate) statements: AtomicU64,
    pub(crate) entries: AtomicU64,
    pub(crate) orders: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) busy_us: AtomicU64,
    pub(crate) waited_us: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

impl Counters {
    /// Adds `elapsed` to the counters, of which `waited` was spent waiting for another process.
    pub(crate) fn worked(&self, elapsed: Duration, waited: Duration) {
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        add(&self.busy_us, micros(elapsed.saturating_sub(waited)));
        add(&self.waited_us, micros(waited));
    }

    pub(crate) fn read(&self) -> LedgerCalls {
        LedgerCalls {
            calls: self.calls.load(Relaxed),
            transactions: self.transactions.load(Relaxed),
            statements: self.statements.load(Relaxed),
            entries: self.entries.load(Relaxed),
            orders: self.orders.load(Relaxed),
            refused: self.refused.load(Relaxed),
            busy_us: self.busy_us.load(Relaxed),
            waited_us: self.waited_us.load(Relaxed),
        }
    }
}
