//! Shared by the tests: a client for each kind of store, and timeouts.
pub mod mortal;
pub mod parts;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rushgate::{Rushgate, Sale};
use rushgate_test::MemoryStore;
use rushgate_test::servers::{ClusterSetup, Kind, Lendable, Lent, RedisSetup};
use tempfile::TempDir;

/// Timeout for anything that is expected to happen.
pub const RETRY_BUDGET: Duration = Duration::from_secs(60);

/// A store that further clients can connect to.
pub struct Bench {
    store: Arc<dyn rushgate::store::Store>,
    _dir: Option<TempDir>,
    _servers: Option<Lent>,
}

impl Bench {
    pub fn model() -> Self {
        Self { store: Arc::new(MemoryStore::new()), _dir: None, _servers: None }
    }

    pub fn sqlite() -> Self {
        Self::sqlite_at().0
    }

    /// A file, and the URL with which another process opens it.
    pub fn sqlite_at() -> (Self, String) {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}?durability=process", dir.path().join("rushgate.db").display());
        let store = Arc::new(rushgate_sqlite::SqliteStore::open(&url).unwrap());
        (Self { store, _dir: Some(dir), _servers: None }, url)
    }

    pub async fn redis() -> Self {
        Self::lent("facade", || RedisSetup::new(Kind::Redis).start()).await
    }

    /// A Cluster of three nodes.
    pub async fn cluster() -> Self {
        Self::lent("facade-cluster", || ClusterSetup::new(Kind::Redis).of(3, 0).start()).await
    }

    async fn lent<S: Lendable>(name: &str, start: impl FnOnce() -> S) -> Self {
        let servers = Lent::take(name, start);
        let store = Arc::new(rushgate_redis::RedisStore::open(servers.url()).await.unwrap());
        Self { store, _dir: None, _servers: Some(servers) }
    }

    /// The store that all clients share.
    pub fn store(&self) -> &dyn rushgate::store::Store {
        &*self.store
    }

    pub fn shared(&self) -> Arc<dyn rushgate::store::Store> {
        Arc::clone(&self.store)
    }

    /// A new client, as another process would have.
    pub fn client(&self) -> Rushgate {
        Rushgate::with_store(Arc::clone(&self.store))
    }
}

/// Runs each named test on each kind of store.
macro_rules! on_each_store {
    ($($name:ident)*) => {
        mod model { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { crate::common::in_time(super::$name(crate::common::Bench::model())).await }
        )* }
        mod sqlite { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { crate::common::in_time(super::$name(crate::common::Bench::sqlite())).await }
        )* }
        mod redis { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::common::in_time(super::$name(crate::common::Bench::redis().await)).await
            }
        )* }
    };
}

/// Runs the named tests on a Cluster too. Choose those that cover most of the facade.
macro_rules! on_a_cluster {
    ($($name:ident)*) => {
        mod cluster { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                crate::common::in_time(super::$name(crate::common::Bench::cluster().await)).await
            }
        )* }
    };
}

pub async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(RETRY_BUDGET, work).await.expect("timed out")
}

/// Polls until `is_so` returns true.
pub async fn eventually<F: Future<Output = bool>>(mut is_so: impl FnMut() -> F) {
    while !is_so().await {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until the ledger has every order of the sale.
pub async fn delivered(sale: &Sale) {
    eventually(async || {
        let state = sale.state().await.unwrap();
        state.orders.is_some_and(|orders| orders.through == state.seq && orders.failed == 0)
    })
    .await;
}

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
