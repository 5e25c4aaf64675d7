//! The facade behind a bad network: lost requests, lost replies and duplicated requests. No call takes effect
//! twice, no acknowledged write is lost, and nothing is left behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::common::{Bench, RETRY_BUDGET, eventually, in_time, ms, secs};
use rushgate::lock::LostReason;
use rushgate::lock::fence::Highest;
use rushgate::store::Store;
use rushgate::worker::Backoff;
use rushgate::{
    BuyerId, CancellationToken, Enqueued, IdempotencyKey, Job, Line, OrderWorker, Reserved, RunOutcome,
    Rushgate, SaleBuilder, Sku, Worker,
};
use rushgate_ledger::connect as connect_ledger;
use rushgate_redis::RedisStore;
use rushgate_sqlite::SqliteStore;
use rushgate_test::MemoryStore;
use rushgate_test::faults::{FaultPlan, Faulty};
use rushgate_test::servers::{Kind, RedisServer, RedisSetup, Wire};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

const BAD: FaultPlan = FaultPlan { before: 100, reply: 100, twice: 50 };

/// One store, with clients behind good and bad networks.
struct Wires {
    open: Box<dyn Fn(Option<u64>) -> Rushgate + Send + Sync>,
    _dir: Option<tempfile::TempDir>,
    _server: Option<RedisServer>,
}

fn behind(store: impl Store + 'static, seed: Option<u64>) -> Rushgate {
    match seed {
        Some(seed) => Rushgate::with_store(Arc::new(Faulty::new(store, BAD, seed))),
        None => Rushgate::with_store(Arc::new(store)),
    }
}

impl Wires {
    fn model() -> Self {
        let store = MemoryStore::new();
        Self { open: Box::new(move |seed| behind(store.clone(), seed)), _dir: None, _server: None }
    }

    fn sqlite() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}?durability=process", dir.path().join("rushgate.db").display());
        let open = move |seed| behind(SqliteStore::open(&url).unwrap(), seed);
        Self { open: Box::new(open), _dir: Some(dir), _server: None }
    }

    fn redis() -> Self {
        let server = RedisSetup::new(Kind::Redis).start();
        let url = server.url();
        let open = move |seed| {
            let opened = || Handle::current().block_on(RedisStore::open(&url)).unwrap();
            behind(tokio::task::block_in_place(opened), seed)
        };
        Self { open: Box::new(open), _dir: None, _server: Some(server) }
    }

    fn good(&self) -> Rushgate {
        (self.open)(None)
    }

    fn bad(&self, seed: u64) -> Rushgate {
        (self.open)(Some(seed))
    }
}

macro_rules! on_each_wire {
    ($($name:ident)*) => {
        mod model { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::in_time(super::$name(super::Wires::model())).await }
        )* }
        mod sqlite { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::in_time(super::$name(super::Wires::sqlite())).await }
        )* }
        mod redis { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::in_time(super::$name(super::Wires::redis())).await }
        )* }
    };
}

on_each_wire! {
    a_lock_has_one_holder_and_nothing_stays_behind
    renewals_survive_lost_replies
    every_task_is_done_once
    a_sale_adds_up
}

async fn a_lock_has_one_holder_and_nothing_stays_behind(wires: Wires) {
    let (inside, highest) = (Arc::new(AtomicU64::new(0)), Arc::new(Highest::default()));
    let mut clerks = JoinSet::new();
    for seed in 0..4 {
        let lock = wires.bad(seed).lock("x").unwrap().lease(secs(2)).wait(RETRY_BUDGET);
        let (inside, highest) = (Arc::clone(&inside), Arc::clone(&highest));
        clerks.spawn(async move {
            for _ in 0..6 {
                let work = async |held: rushgate::lock::Held| {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
                    assert!(highest.admit(held.fence()), "fences grow");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                };
                assert_eq!(lock.run(work).await.unwrap(), RunOutcome::Done(()));
            }
        });
    }
    while let Some(clerk) = clerks.join_next().await {
        clerk.unwrap();
    }
    let lock = wires.good().lock("x").unwrap();
    eventually(async || {
        let state = lock.state().await.unwrap();
        state.holders.is_empty() && state.waiters.is_empty()
    })
    .await;
}

async fn renewals_survive_lost_replies(wires: Wires) {
    let lock = wires.bad(7).lock("x").unwrap().lease(ms(800));
    let guard = lock.acquire().await.unwrap().held().unwrap();
    let seen = wires.good().lock("x").unwrap();
    let first = seen.holders().await.unwrap()[0].clone();
    eventually(async || seen.holders().await.unwrap()[0].lease_until > first.lease_until + secs(2)).await;
    assert!(!guard.is_lost());
    assert_eq!(seen.holders().await.unwrap()[0].fence, guard.fence());
}

async fn every_task_is_done_once(wires: Wires) {
    let queue = wires.bad(1).queue_of::<u32>("numbers").unwrap();
    for n in 0..150 {
        queue.enqueue(n.to_string(), n).send().await.unwrap();
    }
    let (runs, fails) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let handler = {
        let (runs, fails) = (Arc::clone(&runs), Arc::clone(&fails));
        move |job: Job<u32>| {
            runs.fetch_add(1, Ordering::SeqCst);
            let fails_once = job.payload.is_multiple_of(10) && job.attempt == 1;
            fails.fetch_add(fails_once.into(), Ordering::SeqCst);
            async move { if fails_once { Err("on purpose") } else { Ok(()) } }
        }
    };
    let shutdown = CancellationToken::new();
    let quickly = Backoff { base: ms(5), ..Backoff::default() };
    let worker = Worker::new(&wires.bad(2).queue("numbers").unwrap()).concurrency(8).retry_policy(quickly);
    let working = tokio::spawn(worker.register("*", handler).run(shutdown.clone()));
    let seen = wires.good().queue("numbers").unwrap();
    eventually(async || {
        let stats = seen.stats().await.unwrap();
        stats.ready + stats.scheduled + stats.leased == 0
    })
    .await;
    shutdown.cancel();
    let report = working.await.unwrap().unwrap();
    assert_eq!((report.done, report.retried, report.dead, report.lost), (150, 15, 0, 0));
    assert_eq!((runs.load(Ordering::SeqCst), fails.load(Ordering::SeqCst)), (165, 15));
}

async fn a_sale_adds_up(wires: Wires) {
    const UNITS: u32 = 12;
    let owner = wires.good();
    owner.create_sale(SaleBuilder::new("phones").sku("phone", UNITS, 1).ledger()).await.unwrap();
    let truth = owner.sale("phones").unwrap();
    truth.open().await.unwrap();
    let ledger = connect_ledger("sqlite::memory:").unwrap();
    let shutdown = CancellationToken::new();
    let clerk = OrderWorker::new(wires.bad(9).sale("phones").unwrap(), Arc::clone(&ledger)).lease(secs(2));
    let clerk = tokio::spawn(clerk.run(shutdown.clone()));

    let shops: Arc<Vec<_>> = Arc::new((0..3).map(|seed| wires.bad(seed).sale("phones").unwrap()).collect());
    let mut crowd = JoinSet::new();
    for n in 0..200usize {
        let shops = Arc::clone(&shops);
        crowd.spawn(async move {
            let cart = [Line { sku: Sku::new("phone").unwrap(), quantity: 1 }];
            let (buyer, key) =
                (BuyerId::new(format!("buyer-{n}")).unwrap(), IdempotencyKey::new("click").unwrap());
            // Two clicks, at two servers.
            let mut got = None;
            for click in 0..2 {
                match shops[(n + click) % shops.len()].reserve(&buyer, &cart, &key).await.unwrap() {
                    Reserved::Reserved(hold) | Reserved::Replayed(hold) => got = Some(hold),
                    Reserved::AllHeld { .. } | Reserved::SoldOut { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            let hold = got?;
            shops[n % shops.len()].confirm(hold.id).await.unwrap();
            Some(hold.units[0].1)
        });
    }
    let sold: Vec<_> = crowd.join_all().await.into_iter().flatten().collect();
    assert_eq!(sold.len() as u32, UNITS);
    assert_eq!(sold.into_iter().collect::<BTreeSet<_>>(), (1..=UNITS).collect());
    eventually(async || truth.state().await.unwrap().skus[0].confirmed == UNITS).await;
    shutdown.cancel();
    let report = clerk.await.unwrap().unwrap();
    assert_eq!((report.failed, report.rejected, report.lost_writes), (0, 0, 0));
    let audit = truth.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
}

#[tokio::test]
async fn a_store_that_stays_away_ends_the_lock_here_without_releasing_it() {
    let bench = Bench::model();
    let client = bench.client();
    let guard = client.lock("x").unwrap().lease(ms(400)).acquire().await.unwrap().held().unwrap();
    // The store is closed for all clients from now on.
    bench.client().close().await.unwrap();
    assert!(!guard.is_lost(), "a failed renewal does not lose the lock");
    assert_eq!(in_time(guard.lost()).await, LostReason::Expired);
    assert!(guard.release().await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn a_store_that_stays_away_stops_the_work_before_another_can_have_it() {
    let bench = Bench::model();
    let client = bench.client();
    let queue = client.queue_of::<u32>("numbers").unwrap();
    queue.enqueue("1", 1).send().await.unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |job: Job<u32>| {
        tell.send(job.cancel).unwrap();
        std::future::pending::<()>()
    };
    let shutdown = CancellationToken::new();
    let worker = Worker::new(&queue).lease(ms(400)).register("*", handler);
    let working = tokio::spawn(worker.run(shutdown.clone()));
    let cancel = told.recv().await.unwrap();
    bench.client().close().await.unwrap();
    in_time(cancel.cancelled()).await;
    shutdown.cancel();
    let report = in_time(working).await.unwrap().unwrap();
    assert_eq!((report.claimed, report.lost, report.done, report.unanswered), (1, 1, 0, 0));
    assert!(report.outages > 0);
}

/// The first lost answer is retried. The final error says that the call may have happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_redis_that_is_lost_is_asked_for_again_and_may_have_happened_in_the_end() {
    let server = RedisSetup::new(Kind::Redis).start();
    let wire = Wire::to(server.port());
    let client = Rushgate::connect(&wire.url()).await.unwrap();
    let queue = client.queue_of::<u32>("numbers").unwrap();
    queue.enqueue("1", 1).send().await.unwrap();

    wire.lose_answers(true);
    let mended = async {
        eventually(async || wire.lost() > 1).await;
        wire.lose_answers(false);
    };
    let (added, ()) = in_time(async { tokio::join!(queue.enqueue("2", 2).send(), mended) }).await;
    assert!(matches!(added.unwrap(), Enqueued::Added { .. }), "the same answer as the first time");

    wire.lose_answers(true);
    let (lost, start) = (wire.lost(), Instant::now());
    let error = in_time(queue.enqueue("3", 3).send()).await.unwrap_err();
    assert!(error.is_unavailable() && error.may_have_happened(), "{error:?}");
    assert_asked_long_enough(start);
    assert!(wire.lost() - lost > 2, "the call was retried several times");
    wire.lose_answers(false);
    eventually(async || queue.stats().await.is_ok_and(|stats| stats.ready == 3)).await;
}

/// Checks that an outage is waited out for the retry budget, and not much longer on a busy machine.
fn assert_asked_long_enough(start: Instant) {
    // The next pause would end after the 5 s, and lasts at most 1 s.
    let took = start.elapsed();
    assert!(took >= secs(4) && took < secs(15), "{took:?}");
}

#[tokio::test]
async fn an_outage_ends_with_an_error_that_says_so() {
    let store = Arc::new(Faulty::new(MemoryStore::new(), FaultPlan::default(), 1));
    let client = Rushgate::with_store(store.clone());
    let lock = client.lock("x").unwrap().wait(ms(1));
    store.set_away(true);
    let start = Instant::now();
    let error = in_time(lock.try_acquire()).await.expect_err("nobody answers");
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    assert!(error.to_string().contains("the call was lost on the way"), "{error}");
    assert_asked_long_enough(start);
    store.set_away(false);
    assert!(lock.try_acquire().await.unwrap().held().is_some(), "the lock is still free");
}
