//! What the tests of the store share.

#![allow(dead_code, reason = "each test file uses what it needs")]

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
    let (store, peer) = (open(&server).await, open(&server).await);
    Arc::new(RedisHarness { store, peer, clock, server })
}

pub async fn open(server: &RedisServer) -> Arc<RedisStore> {
    Arc::new(RedisStore::open(&server.url()).await.expect("the store opens"))
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
