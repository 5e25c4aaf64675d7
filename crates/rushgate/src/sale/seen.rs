//! High-water mark of a sale's events in this process: a store with fewer has lost writes.

use std::sync::{Mutex, PoisonError};

use rushgate_core::SaleState;

/// A generation and the number of an event in it. Both only grow.
pub(super) type Mark = (u32, u64);

#[derive(Default)]
pub(super) struct Seen(Mutex<Mark>);

impl Seen {
    /// To be read whenever the store is asked: its answer may not be behind it.
    pub fn mark(&self) -> Mark {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn note(&self, mark: Mark) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = (*seen).max(mark);
    }
}

/// Where the sale is.
pub(super) fn mark_of(state: &SaleState) -> Mark {
    (state.generation, state.seq)
}
