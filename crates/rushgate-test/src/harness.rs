//! An empty store and its clock, as the contract suite and the histories get it.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{Store, Timestamp};

use crate::{ManualClock, MemoryStore, Planted};

/// A boxed future, as a harness and a case return it.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An empty store and its clock.
pub trait Harness: Send + Sync + 'static {
    /// The store, as one client sees it.
    fn store(&self) -> Arc<dyn Store>;

    /// The same data, as another client sees it, if the backend supports several.
    fn peer(&self) -> Arc<dyn Store> {
        self.store()
    }

    /// Moves the store's clock forward.
    fn advance(&self, by: Duration) -> Boxed<'_, ()>;

    /// Moves the store's clock back.
    fn put_back(&self, by: Duration) -> Boxed<'_, ()>;

    /// The time on the store's clock, if it moves only on request. Histories need it.
    fn now(&self) -> Option<Timestamp> {
        None
    }
}

/// A model store on a manual clock.
pub struct ModelHarness {
    store: MemoryStore,
    clock: ManualClock,
}

impl ModelHarness {
    /// Creates a harness with the correct model.
    pub fn new() -> Self {
        let clock = ManualClock::default();
        Self { store: MemoryStore::on(clock.clone()), clock }
    }

    /// Creates a harness with a bug in the model.
    pub fn planted(bug: Planted) -> Self {
        let clock = ManualClock::default();
        Self { store: MemoryStore::planted(bug, clock.clone()), clock }
    }
}

impl Default for ModelHarness {
    fn default() -> Self {
        Self::new()
    }
}

impl Harness for ModelHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn advance(&self, by: Duration) -> Boxed<'_, ()> {
        self.clock.advance(by);
        Box::pin(ready(()))
    }

    fn put_back(&self, by: Duration) -> Boxed<'_, ()> {
        self.clock.put_back(by);
        Box::pin(ready(()))
    }

    fn now(&self) -> Option<Timestamp> {
        Some(self.clock.now())
    }
}
