//! What the tests of the store share.

#![allow(dead_code, reason = "each test file uses what it needs")]

pub mod by_functions;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{Store, Timestamp};
use rushgate_redis::RedisStore;
use rushgate_testkit::ManualClock;
use rushgate_testkit::contract::{Boxed, Harness};
use rushgate_testkit::servers::{Kind, RedisServer, RedisSetup};

/// An empty server whose clock the test moves; `peer` is another process's view of it.
pub struct RedisHarness {
    store: Arc<RedisStore>,
    peer: Arc<RedisStore>,
    clock: ManualClock,
    server: RedisServer,
}

async fn harness(kind: Kind) -> Arc<RedisHarness> {
    let clock = ManualClock::default();
    let server = RedisSetup::new(kind).on(clock.clone()).start();
    let url = server.url();
    RedisHarness::at(&url, server, clock).await
}

impl RedisHarness {
    /// Two stores that reach the server at that URL.
    pub async fn at(url: &str, server: RedisServer, clock: ManualClock) -> Arc<Self> {
        let (store, peer) = (open_at(url).await, open_at(url).await);
        Arc::new(Self { store, peer, clock, server })
    }
}

pub async fn open(server: &RedisServer) -> Arc<RedisStore> {
    open_at(&server.url()).await
}

async fn open_at(url: &str) -> Arc<RedisStore> {
    Arc::new(RedisStore::open(url).await.expect("the store opens"))
}

pub async fn redis() -> Arc<RedisHarness> {
    harness(Kind::Redis).await
}

pub async fn valkey() -> Arc<RedisHarness> {
    harness(Kind::Valkey).await
}

impl Harness for RedisHarness {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn peer(&self) -> Arc<dyn Store> {
        self.peer.clone()
    }

    fn advance(&self, by: Duration) -> Boxed<'_, ()> {
        self.clock.advance(by);
        self.server.set_clock(self.clock.now());
        Box::pin(ready(()))
    }

    fn now(&self) -> Option<Timestamp> {
        Some(self.clock.now())
    }
}
