//! A server on a free port, with a store whose clock moves on request, and clients of it.

use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rushgate::{CancellationToken, Rushgate};
use rushgate_core::{Store, Timestamp};
use rushgate_http::HttpStore;
use rushgate_server::Server;
use rushgate_sqlite::{Options, SqliteStore};
use rushgate_test::ManualClock;
use rushgate_test::{Boxed, Harness};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A running server.
pub struct Stand {
    pub address: SocketAddr,
    shutdown: CancellationToken,
    /// The server's own runtime, so that a case cannot end it.
    runtime: Option<Runtime>,
}

impl Stand {
    /// Serves the store, without background services: they would act between the steps of a test.
    pub fn serve(store: Arc<dyn Store>, set_up: impl FnOnce(Server) -> Server) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let (runtime, shutdown) = (runtime.expect("a runtime starts"), CancellationToken::new());
        let server = {
            let _context = runtime.enter();
            set_up(Server { services: false, ..Server::new(Rushgate::with_store(store)) })
        };
        let (tell, told) = std::sync::mpsc::channel();
        let end = shutdown.clone();
        runtime.spawn(async move {
            let bound = server.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port is free");
            tell.send(bound.address()).expect("the test waits");
            bound.run(end).await
        });
        let address = told.recv().expect("the server starts");
        Self { address, shutdown, runtime: Some(runtime) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub async fn client(&self) -> HttpStore {
        HttpStore::open(&self.url()).await.expect("the store opens")
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A store over HTTP. Its peer is another client.
pub struct HttpHarness {
    store: Arc<dyn Store>,
    peer: Arc<dyn Store>,
    clock: ManualClock,
    _stand: Stand,
    _folder: TempDir,
}

fn open(url: &str, clock: &ManualClock) -> Arc<SqliteStore> {
    let clock = clock.clone();
    Arc::new(SqliteStore::open_with(url, Options::new().clock(move || clock.now())).expect("the store opens"))
}

async fn harness(with_peer: bool) -> Arc<HttpHarness> {
    let clock = ManualClock::default();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let url = format!("sqlite:{}?durability=process", folder.path().join("store.db").display());
    let stand = Stand::serve(open(&url, &clock), |server| server);
    let store = Arc::new(stand.client().await);
    let peer: Arc<dyn Store> = match with_peer {
        true => Arc::new(stand.client().await),
        false => open(&url, &clock),
    };
    Arc::new(HttpHarness { store, peer, clock, _stand: stand, _folder: folder })
}

/// Two clients of one server.
pub async fn two_clients() -> Arc<HttpHarness> {
    harness(true).await
}

/// A client of a server, and a process that uses the server's file.
pub async fn beside_a_file() -> Arc<HttpHarness> {
    harness(false).await
}

impl Harness for HttpHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    fn peer(&self) -> Arc<dyn Store> {
        Arc::clone(&self.peer)
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
