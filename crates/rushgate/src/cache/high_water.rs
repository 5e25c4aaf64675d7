//! High-water mark of a sale's events in this process: a store with fewer has lost writes.

use std::sync::{Mutex, PoisonError};

use rushgate_core::SaleState;

/// Generation, and number of the latest event in it. Both only grow.
pub(crate) type Mark = (u32, u64);

#[derive(Default)]
pub(crate) struct HighWaterMark(Mutex<Mark>);

impl HighWaterMark {
    /// High-water mark. Read it before each request: the answer must not be behind it.
    pub fn mark(&self) -> Mark {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, mark: Mark) {
        let mut highest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *highest = (*highest).max(mark);
    }
}

/// Mark of a sale's state.
pub(crate) fn mark_of(state: &SaleState) -> Mark {
    (state.generation, state.seq)
}
