//! Changes every column of every row and every field of every Redis key of a sale, of its order queue and of the lists
//! of names, one at a time, and also deletes and adds rows. The audit detects every change, except those listed here
//! with the reason why they are harmless.

#[path = "../common/mod.rs"]
mod common;

mod keys;
mod rows;
mod scene;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use common::Bench;
use rushgate::queue::{ContentType, Payload, QueueLimits, Retry};
use rushgate::sale::{Rebuild, RebuildOutcome};
use rushgate::store::Store;
use rushgate::{Ledger, Queue, Rushgate, Sale, SaleBuilder, Sku, connect_ledger};
use rushgate_test::servers::{Kind, PostgresServer, RedisSetup};

use keys::{Content, Keys};
use rows::{PostgresRows, Rows, SqliteRows};
use scene::{Moment, Scene, carry};

/// Changes that the audit does not detect, and why they are harmless.
type Harmless = [(&'static str, &'static str)];

const OWN_CLOCK: &str = "the ledger's own clock, for operators: no program reads it";
const MOMENT_OF_EVENT: &str =
    "when anything but a reservation happened, for people: the numbers of the events are their order";
const NOT_STOPPED: &str = "why a sale is halted, which this one is not";

const ZERO: &str = "a counter at zero says as much as none";

const SQLITE_STORE: &Harmless = &[
    ("event of another kind.at_us: next", MOMENT_OF_EVENT),
    ("event of another kind.at_us: far", MOMENT_OF_EVENT),
    ("event of another kind.at_us: zero", MOMENT_OF_EVENT),
    ("sale.reason: next", NOT_STOPPED),
    ("sale.reason: far", NOT_STOPPED),
    ("buyer at zero: lost", ZERO),
    ("buyer at zero: added", ZERO),
    ("buyer at zero.sale: next", ZERO),
    ("buyer at zero.sale: far", ZERO),
    ("buyer at zero.buyer: longer", ZERO),
    ("buyer at zero.sku: next", ZERO),
    ("buyer at zero.sku: far", ZERO),
];

const SEQUENCE: &str = "the sequence in which orders are delivered: the ledger accepts them in any";
const RETRIES: &str = "how often an order is retried before it is set aside, where operators see it";
const SHOWN: &str = "what operators are shown of a task";
const LIMIT: &str = "a limit slows orders down and loses none; `sale orders resume` removes it";
const PAUSED: &str = "operators pause order queues, and see that they are paused";
const SOON: &str = "the order is due within an hour all the same";
const LEASED: &str = "the lease ends within the longest lease all the same";
const UNUSED: &str = "a counter or a mark that orders do not use";
const HIGHER: &str = "the counter only has to be at least the highest number that a task has";
const NO_TASK: &str = "an empty queue has no task with a number";
const FIRST: &str =
    "when the ID was first enqueued: read for debounces and dropped tasks, which orders are not";
const REVISION: &str = "distinguishes a task from earlier ones with its ID, as any unused revision does";
const SUPERSEDED: &str = "a newer order of the same reservation follows";

/// The row of the order queue, which outlives the orders.
const SQLITE_QUEUE: &Harmless = &[
    ("queue.claim: next", HIGHER),
    ("queue.claim: far", HIGHER),
    ("queue.places: next", HIGHER),
    ("queue.places: far", HIGHER),
    ("queue.revision: next", HIGHER),
    ("queue.revision: far", HIGHER),
    ("queue.kept: next", UNUSED),
    ("queue.kept: far", UNUSED),
    ("queue.dropped: next", UNUSED),
    ("queue.dropped: far", UNUSED),
    ("queue.event_last: next", UNUSED),
    ("queue.event_last: far", UNUSED),
    ("queue.bound: set", LIMIT),
    ("queue.concurrency: set", LIMIT),
    ("queue.events: set", LIMIT),
    ("queue.keep_n: set", LIMIT),
    ("queue.keep_us: set", LIMIT),
    ("queue.key_concurrency: set", LIMIT),
    ("queue.key_fifo: far", LIMIT),
    ("queue.key_fifo: next", LIMIT),
    ("queue.key_rate_n: set", LIMIT),
    ("queue.key_rate_us: set", LIMIT),
    ("queue.overflow: far", LIMIT),
    ("queue.overflow: next", LIMIT),
    ("queue.rate_n: set", LIMIT),
    ("queue.rate_us: set", LIMIT),
    ("queue.paused: next", PAUSED),
];
const SQLITE_NO_ORDERS: &Harmless = &[
    ("queue.claim: zero", NO_TASK),
    ("queue.places: zero", NO_TASK),
    ("queue.revision: zero", NO_TASK),
    ("queue.id: next", "no order is left in the queue"),
    ("queue.id: far", "no order is left in the queue"),
];

/// Columns of the pending orders of a running sale.
const SQLITE_ORDERS: &Harmless = &[
    ("newcomer.due_us: next", SOON),
    ("newcomer.due_us: far", SOON),
    ("newcomer.due_us: zero", SOON),
    ("newcomer.first_us: next", FIRST),
    ("newcomer.first_us: far", FIRST),
    ("newcomer.first_us: zero", FIRST),
    ("newcomer.revision: next", REVISION),
    ("task.arrival: next", "the number of the row, to which no row of an order queue refers"),
    ("task.arrival: far", "the number of the row, to which no row of an order queue refers"),
    ("task.attempts: next", RETRIES),
    ("task.attempts: zero", RETRIES),
    ("task.error: longer", SHOWN),
    ("task.error: none", SHOWN),
    ("task.error: set", SHOWN),
    ("task.first_us: next", FIRST),
    ("task.first_us: far", FIRST),
    ("task.first_us: zero", FIRST),
    ("task.lease_until_us: next", LEASED),
    ("task.lease_until_us: far", LEASED),
    ("task.past: none", SHOWN),
    ("task.payload: longer", SUPERSEDED),
    ("task.progress_note: set", SHOWN),
    ("task.progress_percent: set", SHOWN),
    ("task.revision: next", REVISION),
    ("task.seat: next", SEQUENCE),
    ("task.seat: zero", SEQUENCE),
    ("task.worker: longer", SHOWN),
];

const LEDGER: &Harmless = &[
    ("sale.opened_at_us: next", OWN_CLOCK),
    ("sale.opened_at_us: far", OWN_CLOCK),
    ("sale.opened_at_us: zero", OWN_CLOCK),
    ("orders.recorded_at_us: next", OWN_CLOCK),
    ("orders.recorded_at_us: far", OWN_CLOCK),
    ("orders.recorded_at_us: zero", OWN_CLOCK),
    ("orders.changed_at_us: next", OWN_CLOCK),
    ("orders.changed_at_us: far", OWN_CLOCK),
    ("orders.changed_at_us: zero", OWN_CLOCK),
    ("sale_secret: added", "the secret of a sale that does not exist is never read"),
    ("order_unit.slot: set", "a unit that was returned fills no place"),
    ("order_unit.slot: next", "any place within the buyer's limit that no other unit fills is as good"),
];

const REDIS_STORE: &Harmless = &[
    ("events of another kind.at: next", MOMENT_OF_EVENT),
    ("events of another kind.at: far", MOMENT_OF_EVENT),
    ("row.r: added", NOT_STOPPED),
];

const TOO_MANY: &str = "a list may have names that do not exist, and readers skip them";
const MARK: &str = "says that the queue was used, and is written again with the next task";
const WAKES: &str = "counts notifications to processes, which poll as well";

/// The keys of the order queue and the lists of names, whether or not orders are pending.
const REDIS_QUEUE: &Harmless = &[
    ("meta.a: next", HIGHER),
    ("meta.a: far", HIGHER),
    ("meta.c: next", HIGHER),
    ("meta.c: far", HIGHER),
    ("meta.v: next", HIGHER),
    ("meta.v: far", HIGHER),
    ("meta.h: lost", ZERO),
    ("meta.n: next", MARK),
    ("meta.n: far", MARK),
    ("meta.n: lost", MARK),
    ("meta.p: added", PAUSED),
    ("meta.b: added", LIMIT),
    ("meta.m: added", UNUSED),
    ("meta.f: added", UNUSED),
    ("meta.x: added", UNUSED),
    ("meta.y: added", UNUSED),
    ("meta.e: added", UNUSED),
    ("meta.i: added", UNUSED),
    ("meta.k: added", UNUSED),
    ("meta.$box: added", UNUSED),
    ("meta.u: next", "a priority in use may have no tasks"),
    ("meta.w: next", WAKES),
    ("meta.w: far", WAKES),
    ("meta.w: lost", WAKES),
    ("queues: added", TOO_MANY),
    ("sales: added", TOO_MANY),
];
const REDIS_NO_ORDERS: &Harmless = &[
    ("meta.a: lost", NO_TASK),
    ("meta.c: lost", NO_TASK),
    ("meta.u: lost", NO_TASK),
    ("meta.v: lost", NO_TASK),
];
const REDIS_ORDERS: &Harmless = &[
    ("newcomers.due: next", SOON),
    ("newcomers.due: far", SOON),
    ("newcomers.first: next", FIRST),
    ("newcomers.first: far", FIRST),
    ("newcomers.revision: next", REVISION),
    ("records.arrival: next", SEQUENCE),
    ("records.turn: next", SEQUENCE),
    ("records.due: next", "the due time of the task's run applies"),
    ("records.due: far", "the due time of the task's run applies"),
    ("records.first: next", FIRST),
    ("records.first: far", FIRST),
    ("records.payload: longer", SUPERSEDED),
    ("records.revision: next", REVISION),
    ("runs.attempts: next", RETRIES),
    ("runs.attempts: far", RETRIES),
    ("runs.due: next", SOON),
    ("runs.due: far", SOON),
    ("runs.past and error: longer", SHOWN),
    ("runs.worker: other", SHOWN),
];

/// Number of changes tried, and those not detected.
#[derive(Default)]
struct Found {
    tried: usize,
    missed: BTreeMap<String, String>,
}

impl Found {
    fn note(&mut self, label: String, which: String, audit: rushgate::Result<rushgate::sale::Audit>) {
        self.tried += 1;
        match audit {
            // An unreadable record is an error, which counts as detected.
            Ok(audit) if audit.ok => drop(self.missed.insert(label, which)),
            Ok(_) => {}
            Err(error) => {
                assert!(error.is_corrupt() || error.is_not_found() || error.is_invalid(), "{label}: {error}")
            }
        }
    }

    fn are_but(&self, harmless: &[&Harmless], at_least: usize) {
        let expected: BTreeSet<&str> = harmless.iter().copied().flatten().map(|(label, _)| *label).collect();
        let missed: BTreeSet<&str> = self.missed.keys().map(String::as_str).collect();
        let unfound: Vec<_> =
            missed.difference(&expected).map(|label| (label, &self.missed[*label])).collect();
        assert!(unfound.is_empty(), "the audit does not find {unfound:#?}");
        let found: Vec<_> = expected.difference(&missed).collect();
        assert!(found.is_empty(), "listed as harmless, and found: {found:#?}");
        assert!(self.tried >= at_least, "only {} changes were tried", self.tried);
    }
}

/// Changes and restores each value of the rows, then deletes and adds rows.
async fn damage_rows(scene: &Scene, rows: &mut impl Rows) -> Found {
    let mut found = Found::default();
    for damage in rows::damages(rows).await {
        if rows.change(&damage.harm).await {
            found.note(damage.label, damage.which, scene.audit().await);
            assert!(rows.change(&damage.repair).await, "{:?}", damage.repair);
        }
    }
    scene.passes().await;
    found
}

async fn sqlite_store(moment: Moment) {
    let (bench, url) = Bench::sqlite_at();
    let dir = tempfile::tempdir().unwrap();
    let ledger_url = format!("sqlite:{}", dir.path().join("orders.db").display());
    let scene =
        Scene::play(bench.client(), orders_of(&bench), connect_ledger(&ledger_url).unwrap(), moment).await;

    let path = url.trim_start_matches("sqlite:").split('?').next().unwrap();
    let mut store = SqliteRows::open(path, |table, columns| {
        ["sale", "queue", "task", "newcomer"].contains(&table) || columns.iter().any(|name| name == "sale")
    });
    // The waiting room holds neither stock nor orders.
    store.leave_out("room");
    let orders = if moment == Moment::Running { SQLITE_ORDERS } else { SQLITE_NO_ORDERS };
    damage_rows(&scene, &mut store).await.are_but(&[SQLITE_STORE, SQLITE_QUEUE, orders], 600);

    let mut orders = SqliteRows::open(&ledger_url["sqlite:".len()..], |_, _| true);
    damage_rows(&scene, &mut orders).await.are_but(&[LEDGER], 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_damage_to_a_running_sale_in_sqlite_is_found() {
    sqlite_store(Moment::Running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_damage_to_a_finished_sale_in_sqlite_is_found() {
    sqlite_store(Moment::Finished).await;
}

async fn redis_store(moment: Moment) {
    let server = RedisSetup::new(Kind::Redis).start();
    let store = rushgate_redis::RedisStore::open(&server.url()).await.unwrap();
    let postgres = PostgresServer::start();
    let orders = orders_through(&store);
    let gate = Rushgate::with_store(std::sync::Arc::new(store));
    let scene = Scene::play(gate, orders, connect_ledger(&postgres.url()).unwrap(), moment).await;

    let mut found = Found::default();
    let mut keys = Keys::connect(server.port());
    for damage in keys.damages() {
        keys.write(&damage.key, &damage.harm);
        found.note(damage.label, damage.which, scene.audit().await);
        keys.write(&damage.key, &damage.repair);
    }
    scene.passes().await;
    let orders = if moment == Moment::Running { REDIS_ORDERS } else { REDIS_NO_ORDERS };
    found.are_but(&[REDIS_STORE, REDIS_QUEUE, orders], 600);

    let mut orders = PostgresRows::connect(&postgres.url()).await;
    damage_rows(&scene, &mut orders).await.are_but(&[LEDGER], 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_damage_to_a_running_sale_in_redis_and_postgres_is_found() {
    redis_store(Moment::Running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_damage_to_a_finished_sale_in_redis_and_postgres_is_found() {
    redis_store(Moment::Finished).await;
}

fn failed(audit: &rushgate::sale::Audit, name: &str) -> String {
    let check = audit.checks.iter().find(|check| check.name == name).expect("there is such a check");
    assert!(!check.ok, "{check:?}");
    check.figures.clone()
}

async fn stocked(bench: &Bench, units: u32) -> Sale {
    let gate = bench.client();
    gate.create_sale(SaleBuilder::new("phones").sku("phone", units, 1).orders("orders")).await.unwrap();
    let sale = gate.sale("phones").unwrap();
    sale.open().await.unwrap();
    sale
}

/// The order queue, with the authority of an order worker.
fn orders_of(bench: &Bench) -> Queue {
    orders_through(bench.store())
}

fn orders_through(store: &dyn Store) -> Queue {
    Rushgate::with_store(store.for_orders()).queue("orders").unwrap()
}

on_each_store! {
    an_order_that_was_changed_in_the_queue_is_found
    a_withdrawal_that_nobody_delivers_is_found
    an_order_that_nobody_delivers_is_found
}

async fn a_withdrawal_that_nobody_delivers_is_found(bench: Bench) {
    let (sale, ledger) = (stocked(&bench, 20).await, connect_ledger("sqlite::memory:").unwrap());
    let phone = Sku::new("phone").unwrap();
    scene::reserve(&sale, "ann", &[("phone", 1)]).await;
    carry(&sale, &ledger).await;
    sale.withdraw_stock(&phone, 5).await.unwrap();
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "the change is in the order queue: {audit:#?}");
    assert_eq!(orders_of(&bench).pop(10).await.unwrap().len(), 1);
    carry(&sale, &ledger).await;
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    let figures = failed(&audit, "orders_are_delivered");
    assert!(figures.contains("store has withdrawn phone no. 16-20, ledger has not"), "{figures}");
}

async fn an_order_that_nobody_delivers_is_found(bench: Bench) {
    let (sale, ledger) = (stocked(&bench, 20).await, connect_ledger("sqlite::memory:").unwrap());
    let hold = scene::reserve(&sale, "ann", &[("phone", 1)]).await;
    assert!(sale.audit(Some(&*ledger)).await.unwrap().ok, "the change is in the order queue");
    sale.confirm(hold.id).await.unwrap();
    assert!(sale.audit(Some(&*ledger)).await.unwrap().ok, "the change is in the order queue");
    assert_eq!(orders_of(&bench).pop(10).await.unwrap().len(), 1);
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    let figures = failed(&audit, "orders_are_delivered");
    assert!(figures.contains(&format!("reservation {} of buyer `ann` is Confirming", hold.id)), "{figures}");
}

/// Damages to what leads to a pending order: an order worker would not get it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_in_sqlite_that_no_worker_gets_is_found() {
    let (bench, url) = Bench::sqlite_at();
    let (sale, ledger) = (stocked(&bench, 20).await, connect_ledger("sqlite::memory:").unwrap());
    scene::reserve(&sale, "ann", &[("phone", 1)]).await;
    let path = url.trim_start_matches("sqlite:").split('?').next().unwrap();
    let file = rusqlite::Connection::open(path).unwrap();
    file.busy_timeout(Duration::from_secs(5)).unwrap();
    let save =
        "CREATE TEMP TABLE a AS SELECT * FROM main.task; CREATE TEMP TABLE b AS SELECT * FROM main.queue;";
    file.execute_batch(save).unwrap();
    let year = 31_536_000_000_000_u64;
    for harm in [
        "UPDATE task SET priority = 77".to_owned(),
        "UPDATE task SET at_us = NULL".to_owned(),
        format!("UPDATE task SET at_us = at_us + {year}"),
        format!("UPDATE task SET claim = 77, lease_until_us = due_us + {year}"),
        "DELETE FROM task".to_owned(),
        "UPDATE queue SET reserved = 0".to_owned(),
    ] {
        file.execute_batch(&harm).unwrap();
        let audit = sale.audit(Some(&*ledger)).await.unwrap();
        assert!(!audit.ok, "{harm}");
        let repair = "DELETE FROM task; INSERT INTO task SELECT * FROM a; UPDATE queue SET reserved = 1";
        file.execute_batch(repair).unwrap();
    }
    assert!(sale.audit(Some(&*ledger)).await.unwrap().ok);
}

/// Change of a key.
type Harm = fn(Content) -> Content;

/// Every member of a set, a year later.
fn later(set: Content) -> Content {
    let Content::Sorted(members) = set else { panic!("a set: {set:?}") };
    let later = |at: &[u8]| String::from_utf8_lossy(at).parse::<u64>().unwrap() + 31_536_000_000_000;
    Content::Sorted(members.into_iter().map(|(id, at)| (id, later(&at).to_string().into_bytes())).collect())
}

/// The same on Redis, where the way to a pending order is a member of a set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_in_redis_that_no_worker_gets_is_found() {
    let server = RedisSetup::new(Kind::Redis).start();
    let store = rushgate_redis::RedisStore::open(&server.url()).await.unwrap();
    let gate = Rushgate::with_store(std::sync::Arc::new(store));
    gate.create_sale(SaleBuilder::new("phones").sku("phone", 20, 1).orders("orders")).await.unwrap();
    let sale = gate.sale("phones").unwrap();
    sale.open().await.unwrap();
    let ledger = connect_ledger("sqlite::memory:").unwrap();
    scene::reserve(&sale, "ann", &[("phone", 1)]).await;
    let mut keys = Keys::connect(server.port());
    let lost: Harm = |_| Content::List(Vec::new());
    let harms: [(&str, Harm); 6] = [
        ("rg:{q:orders}:waiting*", later),
        ("rg:{q:orders}:meta", |meta| meta.without(b"R")),
        ("rg:{q:orders}:meta", |meta| meta.without(b"u")),
        ("rg:{q:orders}:records", lost),
        ("rg:{q:orders}:waiting*", lost),
        ("rg:sales", lost),
    ];
    for (pattern, harm) in harms {
        for key in keys.matching(pattern) {
            let content = keys.read(&key);
            keys.write(&key, &harm(content.clone()));
            let audit = sale.audit(Some(&*ledger)).await.unwrap();
            assert!(!audit.ok, "{pattern}: {content:?}");
            keys.write(&key, &content);
        }
    }
    assert!(sale.audit(Some(&*ledger)).await.unwrap().ok);
}

/// A program with the authority of an order worker can postpone an order further than an order worker does.
async fn orders_that_no_worker_gets_in_time_are_found(bench: Bench) {
    let (sale, ledger) = (stocked(&bench, 20).await, connect_ledger("sqlite::memory:").unwrap());
    scene::reserve(&sale, "ann", &[("phone", 1)]).await;
    let orders = orders_of(&bench);
    let claimed = orders.claim(1, Duration::from_secs(86_400)).await.unwrap().remove(0);
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "the longest lease that a worker may request: {audit:#?}");
    let year = Duration::from_secs(365 * 86_400);
    let retry = |delay| Retry { ticket: claimed.ticket.clone(), delay, error: String::new(), give_up: false };
    orders.retry(vec![retry(year)]).await.unwrap();
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    let figures = failed(&audit, "orders_are_delivered");
    assert!(figures.contains("is due only at"), "{figures}");

    // Limits and a pause lose no order.
    orders.limit(QueueLimits { concurrency: Some(1), ..QueueLimits::default() }).await.unwrap();
    sale.pause_orders().await.unwrap();
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert_eq!(failed(&audit, "orders_are_delivered"), figures);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_that_no_worker_gets_in_time_are_found_in_sqlite() {
    orders_that_no_worker_gets_in_time_are_found(Bench::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_that_no_worker_gets_in_time_are_found_in_redis() {
    orders_that_no_worker_gets_in_time_are_found(Bench::redis().await).await;
}

async fn an_order_that_was_changed_in_the_queue_is_found(bench: Bench) {
    let (sale, ledger) = (stocked(&bench, 20).await, connect_ledger("sqlite::memory:").unwrap());
    let hold = scene::reserve(&sale, "ann", &[("phone", 1)]).await;
    let orders = orders_of(&bench);
    let order = orders.pop(10).await.unwrap().remove(0);
    let changed = String::from_utf8(order.payload.bytes().to_vec()).unwrap().replace("ann", "eve");
    let changed = Payload::new(ContentType::json(), changed.into_bytes()).unwrap();
    orders.enqueue(order.ticket.id, changed).send().await.unwrap();
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    let figures = failed(&audit, "orders_are_delivered");
    assert!(figures.contains(&format!("reservation {} of buyer `ann` is Held", hold.id)), "{figures}");
}

/// 20 units, one of them held; the ledger claims 30.
async fn is_rebuilt_with_what_was_offered(ledger: std::sync::Arc<dyn Ledger>, orders: &mut impl Rows) {
    let bench = Bench::sqlite();
    let sale = stocked(&bench, 20).await;
    scene::reserve(&sale, "ann", &[("phone", 1)]).await;
    sale.withdraw_stock(&Sku::new("phone").unwrap(), 4).await.unwrap();
    carry(&sale, &ledger).await;
    orders.strip().await;
    assert!(orders.change("UPDATE sku SET total = total + 10").await);
    assert!(orders.change("DELETE FROM withdrawn").await);
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    let figures = failed(&audit, "ledger_stock");
    assert!(figures.contains("ledger offers 30 of phone, store 20"), "{figures}");
    let rebuild = Rebuild::new(sale.clone(), ledger.clone()).receipts_first(Duration::ZERO);
    assert!(matches!(rebuild.run().await.unwrap(), RebuildOutcome::Rebuilt(_)));
    let state = sale.state().await.unwrap();
    let phone = &state.skus[0];
    assert_eq!((phone.total, phone.free, phone.held, phone.withdrawn), (20, 15, 1, 4));
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    failed(&audit, "ledger_stock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_in_sqlite_that_offers_too_much_does_not_raise_the_stock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("orders.db");
    let ledger = connect_ledger(&format!("sqlite:{}", path.display())).unwrap();
    let mut orders = SqliteRows::open(path.to_str().unwrap(), |_, _| true);
    is_rebuilt_with_what_was_offered(ledger, &mut orders).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ledger_in_postgres_that_offers_too_much_does_not_raise_the_stock() {
    let postgres = PostgresServer::start();
    let ledger = connect_ledger(&postgres.url()).unwrap();
    let mut orders = PostgresRows::connect(&postgres.url()).await;
    is_rebuilt_with_what_was_offered(ledger, &mut orders).await;
}
