//! A store that is full: workers and sweepers wait, and continue once there is space.

use std::collections::BTreeMap;
use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::common::{eventually, in_time, secs};
use rushgate::queue::{ContentType, Payload};
use rushgate::sale::{Hold, Sweeper};
use rushgate::store::Store;
use rushgate::worker::Outcome;
use rushgate::{
    BuyerId, CancellationToken, IdempotencyKey, Job, Line, OrderWorker, Queue, Reserved, Rushgate, Sale,
    SaleBuilder, Sku, Worker, connect_ledger,
};
use rushgate_sqlite::{Options, SqliteStore};
use tempfile::TempDir;
use tokio::sync::{Semaphore, mpsc};

const MIB: u64 = 1 << 20;

/// A SQLite file that may not grow beyond 1 MiB.
struct Small {
    store: Arc<SqliteStore>,
    client: Rushgate,
    path: PathBuf,
    _dir: TempDir,
}

fn url(path: &Path) -> String {
    format!("sqlite:{}?durability=process", path.display())
}

impl Small {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rushgate.db");
        let store = SqliteStore::open_with(&url(&path), Options::new().max_bytes(MIB)).unwrap();
        let store = Arc::new(store);
        let client = Rushgate::with_store(store.clone());
        Self { store, client, path, _dir: dir }
    }

    fn ballast(&self) -> Queue {
        self.client.queue("ballast").unwrap()
    }

    /// Enqueues tasks until even the smallest is refused.
    async fn fill(&self) {
        let mut n = 0;
        for bytes in [20_000, 1_000, 1] {
            loop {
                n += 1;
                let sent = self.ballast().enqueue(format!("ballast-{n}"), bytes_of(bytes)).send().await;
                let Err(error) = sent else { continue };
                assert!(error.is_full(), "{error:?}");
                break;
            }
        }
    }

    /// Waits until several calls in a row were refused.
    async fn refuses(&self) {
        let (mut before, mut in_vain) = (self.store.calls(), 0);
        let refused = || {
            let now = self.store.calls();
            let all = now.transactions == before.transactions;
            in_vain = if all { in_vain + now.calls - before.calls } else { 0 };
            before = now;
            ready(in_vain >= 3)
        };
        in_time(eventually(refused)).await;
    }

    /// Frees space through another handle, like a process with its own limit.
    async fn make_room(&self) {
        let other = Rushgate::with_store(Arc::new(SqliteStore::open(&url(&self.path)).unwrap()));
        assert_eq!(other.queue("ballast").unwrap().pop(10).await.unwrap().len(), 10);
        other.close().await.unwrap();
    }
}

fn bytes_of(n: usize) -> Payload {
    Payload::new(ContentType::bytes(), vec![7; n]).unwrap()
}

async fn is_empty<T: Send + 'static>(queue: &Queue<T>) -> bool {
    let stats = queue.stats().await.unwrap();
    stats.ready + stats.scheduled + stats.leased == 0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_waits_for_room_to_claim_and_does_each_task_once() {
    const TASKS: u32 = 300;
    let small = Small::new();
    let queue = small.client.queue_of::<u32>("numbers").unwrap();
    let tasks = (0..TASKS).map(|n| queue.new_task(n.to_string(), n).unwrap());
    queue.enqueue_all(tasks.collect()).await.unwrap();
    small.fill().await;

    let (seen, shutdown) = (Arc::new(Mutex::new(BTreeMap::<u32, u32>::new())), CancellationToken::new());
    let handler = {
        let seen = Arc::clone(&seen);
        move |job: Job<u32>| {
            *seen.lock().unwrap().entry(job.payload).or_default() += 1;
            async {}
        }
    };
    // A claim records the worker's name, which needs space.
    let worker = Worker::new(&queue).label("w".repeat(200)).register("*", handler);
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    small.refuses().await;
    assert!(seen.lock().unwrap().is_empty());
    small.make_room().await;
    in_time(eventually(async || is_empty(&queue).await)).await;
    shutdown.cancel();
    let report = worker.await.unwrap().unwrap();
    assert_eq!((report.claimed, report.done), (TASKS.into(), TASKS.into()), "{report:?}");
    assert!(report.outages > 0, "{report:?}");
    let seen = seen.lock().unwrap();
    assert!(seen.len() == TASKS as usize && seen.values().all(|times| *times == 1), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_waits_for_room_does_not_hold_up_those_that_make_it() {
    const TASKS: u64 = 8;
    let small = Small::new();
    let queue = small.client.queue("large").unwrap();
    for n in 0..TASKS {
        queue.enqueue(format!("{n}"), bytes_of(20_000)).send().await.unwrap();
    }
    let (tell, mut started) = mpsc::unbounded_channel();
    let (fail, succeed) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let handler = {
        let (fail, succeed) = (Arc::clone(&fail), Arc::clone(&succeed));
        move |job: Job<Payload>| {
            let (fail, succeed, tell) = (Arc::clone(&fail), Arc::clone(&succeed), tell.clone());
            async move {
                tell.send(job.id().to_string()).unwrap();
                if job.id().as_str() == "0" && job.attempt == 1 {
                    fail.acquire().await.unwrap().forget();
                    return Outcome::retry("no luck ".repeat(200));
                }
                succeed.acquire().await.unwrap().forget();
                Outcome::Done
            }
        }
    };
    let shutdown = CancellationToken::new();
    let worker = Worker::new(&queue).register("*", handler);
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    for _ in 0..TASKS {
        in_time(started.recv()).await.unwrap();
    }
    small.fill().await;
    // Recording a failure needs space; completing tasks frees some.
    fail.add_permits(1);
    small.refuses().await;
    succeed.add_permits(TASKS as usize);
    in_time(eventually(async || is_empty(&queue).await)).await;
    shutdown.cancel();
    let report = worker.await.unwrap().unwrap();
    assert_eq!((report.claimed, report.done, report.retried), (TASKS + 1, TASKS, 1), "{report:?}");
    assert!(report.outages > 0 && report.unanswered == 0, "{report:?}");
    assert_eq!(in_time(started.recv()).await.as_deref(), Some("0"), "the failed one ran again, and no other");
    assert_eq!(started.try_recv().ok(), None);
}

async fn hold(sale: &Sale, n: u32) -> Hold {
    let cart = [Line { sku: Sku::new("phone").unwrap(), quantity: 1 }];
    let (buyer, key) = (BuyerId::new(format!("buyer-{n}")).unwrap(), IdempotencyKey::new("k").unwrap());
    match sale.reserve(&buyer, &cart, &key).await.unwrap() {
        Reserved::Reserved(hold) => hold,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweeper_waits_for_room_and_ends_each_hold_once() {
    const HOLDS: u32 = 300;
    let small = Small::new();
    small.client.create_sale(SaleBuilder::new("phones").sku("phone", HOLDS, 1).hold(secs(1))).await.unwrap();
    let sale = small.client.sale("phones").unwrap();
    sale.open().await.unwrap();
    for n in 0..HOLDS {
        hold(&sale, n).await;
    }
    small.fill().await;
    // Fill the last bytes: an event that adds one unit is smaller than one that expires a hold.
    let sku = Sku::new("phone").unwrap();
    let mut added = 0;
    while sale.add_stock(&sku, 1).await.is_ok() {
        added += 1;
    }
    let shutdown = CancellationToken::new();
    let sweeper = tokio::spawn(Sweeper::new(sale.clone()).run(shutdown.clone()));
    small.refuses().await;
    assert_eq!(sale.state().await.unwrap().skus[0].held, HOLDS, "no hold is partly expired");
    small.make_room().await;
    in_time(eventually(async || sale.state().await.unwrap().skus[0].held == 0)).await;
    shutdown.cancel();
    let report = sweeper.await.unwrap().unwrap();
    assert_eq!(report.expired, u64::from(HOLDS), "{report:?}");
    assert!(report.outages > 0, "{report:?}");
    assert_eq!(sale.state().await.unwrap().skus[0].free, HOLDS + added);
    let audit = sale.audit(None).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_worker_waits_for_room_and_every_order_is_carried_out_once() {
    const SOLD: u32 = 100;
    let small = Small::new();
    let phones = SaleBuilder::new("phones").sku("phone", SOLD, 1).ledger();
    small.client.create_sale(phones).await.unwrap();
    let sale = small.client.sale("phones").unwrap();
    sale.open().await.unwrap();
    for n in 0..SOLD {
        sale.confirm(hold(&sale, n).await.id).await.unwrap();
    }
    small.fill().await;
    let (ledger, shutdown) = (connect_ledger("sqlite::memory:").unwrap(), CancellationToken::new());
    let clerk = tokio::spawn(OrderWorker::new(sale.clone(), ledger.clone()).run(shutdown.clone()));
    small.refuses().await;
    small.make_room().await;
    in_time(eventually(async || sale.state().await.unwrap().skus[0].confirmed == SOLD)).await;
    shutdown.cancel();
    let report = clerk.await.unwrap().unwrap();
    assert_eq!((report.settled, report.rejected, report.failed), (SOLD.into(), 0, 0), "{report:?}");
    assert!(report.outages > 0, "{report:?}");
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
}
