//! What the tests of the store share.

#![allow(dead_code, reason = "each test file uses what it needs")]

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{Store, Timestamp};
use rushgate_sqlite::{Options, SqliteStore};
use rushgate_testkit::ManualClock;
use rushgate_testkit::contract::{Boxed, Harness};
use tempfile::TempDir;

/// An empty store on a clock that the test moves; `peer` is another process's view of the same file.
pub struct SqliteHarness {
    store: Arc<SqliteStore>,
    peer: Option<Arc<SqliteStore>>,
    clock: ManualClock,
    _folder: Option<TempDir>,
}

fn open(url: &str, clock: &ManualClock) -> Arc<SqliteStore> {
    let clock = clock.clone();
    Arc::new(SqliteStore::open_with(url, Options::new().clock(move || clock.now())).expect("the store opens"))
}

/// On a file.
pub async fn file() -> Arc<SqliteHarness> {
    let clock = ManualClock::default();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let url = format!("sqlite:{}?durability=process", folder.path().join("store.db").display());
    let (store, peer) = (open(&url, &clock), Some(open(&url, &clock)));
    Arc::new(SqliteHarness { store, peer, clock, _folder: Some(folder) })
}

/// In memory.
pub async fn memory() -> Arc<SqliteHarness> {
    let clock = ManualClock::default();
    let store = open("sqlite::memory:", &clock);
    Arc::new(SqliteHarness { store, peer: None, clock, _folder: None })
}

impl Harness for SqliteHarness {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn peer(&self) -> Arc<dyn Store> {
        self.peer.clone().unwrap_or_else(|| self.store.clone())
    }

    fn advance(&self, by: Duration) -> Boxed<'_, ()> {
        self.clock.advance(by);
        Box::pin(ready(()))
    }

    fn now(&self) -> Option<Timestamp> {
        Some(self.clock.now())
    }
}
