//! Ends a worker early.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use rushgate::CancellationToken;

/// Stops the worker on an error that would affect every task.
#[derive(Clone)]
pub(super) struct Stop {
    first: Arc<Mutex<Option<anyhow::Error>>>,
    stop: CancellationToken,
}

impl Stop {
    pub(super) fn new(stop: CancellationToken) -> Self {
        Self { first: Arc::default(), stop }
    }

    pub(super) fn is(&self, error: anyhow::Error) {
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.stop.cancel();
    }

    pub(super) fn taken(&self) -> Result<()> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}
