//! Changes every column of every row and every field of every Redis key of a sale and of the list of names, one at a
//! time, and also deletes and adds rows. The audit detects every change, except those listed here with the reason why
//! they are harmless.

mod keys;
mod rows;
mod scene;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::common::Bench;
use rushgate::sale::{Rebuild, RebuildOutcome};
use rushgate::{Ledger, Sale, SaleBuilder, Sku, connect_ledger};
use rushgate_test::servers::{Kind, PostgresServer, RedisSetup};

use self::keys::Keys;
use self::rows::{PostgresRows, Rows, SqliteRows};
use self::scene::{Moment, Scene, Worker, carry, failure};

/// Changes that the audit does not detect, and why they are harmless.
type Harmless = [(&'static str, &'static str)];

const OWN_CLOCK: &str = "the ledger's own clock, for operators: no program reads it";
const MOMENT_OF_EVENT: &str =
    "when anything but a reservation happened, for people: the numbers of the events are their order";
const NOT_STOPPED: &str = "why a sale is halted, which this one is not";

const ZERO: &str = "a counter at zero says as much as none";
const NOT_ZERO: &str = "any number except zero says that the sale has a ledger";

const SQLITE_STORE: &Harmless = &[
    ("event of another kind.at_us: next", MOMENT_OF_EVENT),
    ("event of another kind.at_us: far", MOMENT_OF_EVENT),
    ("event of another kind.at_us: zero", MOMENT_OF_EVENT),
    ("sale.ledger: next", NOT_ZERO),
    ("sale.ledger: far", NOT_ZERO),
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

const AGAIN: &str = "orders that were delivered are delivered again, which changes nothing";
const RETRIES: &str = "how often a failed order was retried: only the next delay depends on it";
const SHOWN: &str = "what operators are shown of a failed order";
const SOON: &str = "a failed order is retried within an hour all the same";
const WORKER: &str = "which order worker follows the sale: another one takes over when its lease ends";
const LEASED: &str = "the lease ends within the longest lease all the same";

/// Columns that say how far orders were delivered, while the sale runs.
const SQLITE_ORDERS: &Harmless = &[
    ("sale.worker: longer", WORKER),
    ("sale.worker: none", WORKER),
    ("sale.worker_until_us: next", LEASED),
    ("sale.worker_until_us: far", LEASED),
    ("sale.worker_until_us: zero", LEASED),
    ("failed_order.attempts: next", RETRIES),
    ("failed_order.attempts: far", RETRIES),
    ("failed_order.retry_us: next", SOON),
    ("failed_order.retry_us: far", SOON),
    ("failed_order.retry_us: zero", SOON),
    ("failed_order.reason: longer", SHOWN),
];
const SQLITE_NO_ORDERS: &Harmless = &[
    ("sale.through: zero", AGAIN),
    ("sale.worker: set", WORKER),
    ("sale.worker_until_us: next", LEASED),
    ("sale.worker_until_us: far", LEASED),
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
    ("row.halt_reason: added", NOT_STOPPED),
    ("sales: added", "the list may have names that do not exist, and readers skip them"),
];
const REDIS_ORDERS: &Harmless = &[
    ("row.worker: longer", WORKER),
    ("row.worker: lost", WORKER),
    ("row.worker_until: next", LEASED),
    ("row.worker_until: far", LEASED),
    ("row.worker_until: lost", LEASED),
    ("failed.member retry at: next", SOON),
    ("failed.member retry at: far", SOON),
    ("failed.member attempts: next", RETRIES),
    ("failed.member attempts: far", RETRIES),
    ("failed.member reason: longer", SHOWN),
];
const REDIS_NO_ORDERS: &Harmless = &[];

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
    let scene = Scene::play(bench.shared(), connect_ledger(&ledger_url).unwrap(), moment).await;

    let path = url.trim_start_matches("sqlite:").split('?').next().unwrap();
    let mut store =
        SqliteRows::open(path, |table, columns| table == "sale" || columns.iter().any(|name| name == "sale"));
    // The waiting room holds neither stock nor orders.
    store.leave_out("room");
    let orders = if moment == Moment::Running { SQLITE_ORDERS } else { SQLITE_NO_ORDERS };
    damage_rows(&scene, &mut store).await.are_but(&[SQLITE_STORE, orders], 400);

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
    let scene = Scene::play(Arc::new(store), connect_ledger(&postgres.url()).unwrap(), moment).await;

    let mut found = Found::default();
    let mut keys = Keys::connect(server.port());
    for damage in keys.damages() {
        keys.write(&damage.key, &damage.harm);
        found.note(damage.label, damage.which, scene.audit().await);
        keys.write(&damage.key, &damage.repair);
    }
    scene.passes().await;
    let orders = if moment == Moment::Running { REDIS_ORDERS } else { REDIS_NO_ORDERS };
    found.are_but(&[REDIS_STORE, orders], 400);

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
    let client = bench.client();
    client.create_sale(SaleBuilder::new("phones").sku("phone", units, 1).ledger()).await.unwrap();
    let sale = client.sale("phones").unwrap();
    sale.open().await.unwrap();
    sale
}

on_each_store! {
    a_withdrawal_that_nobody_delivers_is_found
    an_order_that_nobody_delivers_is_found
    a_failed_order_is_not_lost_unless_it_is_forgotten
}

/// Reports every event of the sale as delivered, although the ledger gets none.
async fn deliver_nothing(bench: &Bench, sale: &Sale) {
    let worker = Worker { store: bench.store(), sale };
    let batch = worker.follow(None, Vec::new(), Vec::new(), 100).await;
    assert!(!batch.entries.is_empty() && batch.through == batch.latest, "{batch:?}");
    worker.follow(Some(&batch), Vec::new(), Vec::new(), 0).await;
}

async fn a_withdrawal_that_nobody_delivers_is_found(bench: Bench) {
    let (sale, ledger) = (stocked(&bench, 20).await, connect_ledger("sqlite::memory:").unwrap());
    let phone = Sku::new("phone").unwrap();
    scene::reserve(&sale, "ann", &[("phone", 1)]).await;
    carry(&sale, &ledger).await;
    sale.withdraw_stock(&phone, 5).await.unwrap();
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "an order worker delivers it: {audit:#?}");
    deliver_nothing(&bench, &sale).await;
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    let figures = failed(&audit, "orders_are_delivered");
    assert!(
        figures.contains("the withdrawal of phone no. 16-20 was delivered, but the ledger lacks it"),
        "{figures}"
    );
}

async fn an_order_that_nobody_delivers_is_found(bench: Bench) {
    let (sale, ledger) = (stocked(&bench, 20).await, connect_ledger("sqlite::memory:").unwrap());
    let hold = scene::reserve(&sale, "ann", &[("phone", 1)]).await;
    assert!(sale.audit(Some(&*ledger)).await.unwrap().ok, "an order worker delivers it");
    deliver_nothing(&bench, &sale).await;
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    let figures = failed(&audit, "orders_are_delivered");
    let event =
        format!("event {} (Reserved of {}) was delivered, but the ledger has no order", hold.seq, hold.id);
    assert!(figures.contains(&event), "{figures}");

    sale.confirm(hold.id).await.unwrap();
    assert!(sale.audit(Some(&*ledger)).await.unwrap().ok, "an order worker delivers its current state");
    deliver_nothing(&bench, &sale).await;
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    let figures = failed(&audit, "orders_are_delivered");
    assert!(figures.contains(&format!("reservation {} of buyer `ann` is Confirming", hold.id)), "{figures}");
}

async fn a_failed_order_is_not_lost_unless_it_is_forgotten(bench: Bench) {
    let (sale, ledger) = (stocked(&bench, 20).await, connect_ledger("sqlite::memory:").unwrap());
    let hold = scene::reserve(&sale, "ann", &[("phone", 1)]).await;
    sale.confirm(hold.id).await.unwrap();
    let worker = Worker { store: bench.store(), sale: &sale };
    let batch = worker.follow(None, Vec::new(), Vec::new(), 100).await;
    let seq = batch.entries[0].seq;
    let batch = worker.follow(Some(&batch), vec![failure(seq)], Vec::new(), 100).await;
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "an order worker retries it: {audit:#?}");
    worker.follow(Some(&batch), Vec::new(), vec![seq], 0).await;
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    let figures = failed(&audit, "orders_are_delivered");
    assert!(figures.contains(&format!("reservation {} of buyer `ann` is Confirming", hold.id)), "{figures}");
}

/// 20 units, one of them held; the ledger claims 30.
async fn is_rebuilt_with_what_was_offered(ledger: Arc<dyn Ledger>, orders: &mut impl Rows) {
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
