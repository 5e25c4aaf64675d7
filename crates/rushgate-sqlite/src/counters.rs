//! Counters of the work done.

use std::sync::atomic::{AtomicU64, Ordering};

use rushgate_core::StoreCalls;

/// The numbers of [`Store::calls`](rushgate_core::Store::calls).
#[derive(Default)]
pub(crate) struct Counters {
    calls: AtomicU64,
    transactions: AtomicU64,
    statements: AtomicU64,
}

impl Counters {
    pub(crate) fn count_calls(&self, n: u64) {
        self.calls.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn count_transaction(&self) {
        self.transactions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_statements(&self, n: u64) {
        self.statements.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> StoreCalls {
        StoreCalls {
            calls: self.calls.load(Ordering::Relaxed),
            transactions: self.transactions.load(Ordering::Relaxed),
            statements: self.statements.load(Ordering::Relaxed),
        }
    }
}
