//! Changes every column of every row and every field of every Redis key of a sale, one at a time, and also
//! deletes and adds rows. The audit detects every change, except those listed here with the reason why they
//! are harmless.

#[path = "../common/mod.rs"]
mod common;

mod keys;
mod rows;
mod scene;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use common::Bench;
use rushgate::{
    ContentType, Ledger, Payload, Queue, Rebuild, RebuildOutcome, Rushgate, Sale, SaleBuilder, Sku,
    connect_ledger,
};
use rushgate_testkit::servers::{Kind, PostgresServer, RedisSetup};

use keys::Keys;
use rows::{PostgresRows, Rows, SqliteRows};
use scene::{Moment, Scene, carry};

/// Changes that the audit does not detect, and why they are harmless.
type Harmless = [(&'static str, &'static str)];

const OWN_CLOCK: &str = "the ledger's own clock, for operators: no program reads it";
const MOMENT_OF_EVENT: &str =
    "when anything but a reservation happened, for people: the numbers of the events are their order";
const NOT_STOPPED: &str = "why a sale is stopped, which this one is not";

const ZERO: &str = "a counter at zero says as much as none";

const SQLITE_STORE: &Harmless = &[
    ("event of another kind.at_us: next", MOMENT_OF_EVENT),
    ("event of another kind.at_us: far", MOMENT_OF_EVENT),
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

const LEDGER: &Harmless = &[
    ("sale.opened_at_us: next", OWN_CLOCK),
    ("sale.opened_at_us: far", OWN_CLOCK),
    ("orders.recorded_at_us: next", OWN_CLOCK),
    ("orders.recorded_at_us: far", OWN_CLOCK),
    ("orders.changed_at_us: next", OWN_CLOCK),
    ("orders.changed_at_us: far", OWN_CLOCK),
    ("sale_secret: added", "the secret of a sale that does not exist is never read"),
    ("order_unit.slot: set", "a unit that was given back fills no place"),
    ("order_unit.slot: next", "any place within the buyer's limit that no other unit fills is as good"),
];

const REDIS_STORE: &Harmless = &[
    ("e of another kind.at: next", MOMENT_OF_EVENT),
    ("e of another kind.at: far", MOMENT_OF_EVENT),
    ("c.r: added", NOT_STOPPED),
];

/// Number of changes tried, and those not detected.
#[derive(Default)]
struct Found {
    tried: usize,
    missed: BTreeMap<String, String>,
}

impl Found {
    fn note(&mut self, label: String, which: String, audit: rushgate::Result<rushgate::Audit>) {
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

    fn are_but(&self, harmless: &Harmless, at_least: usize) {
        let expected: BTreeSet<&str> = harmless.iter().map(|(label, _)| *label).collect();
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
    let scene = Scene::play(bench.client(), connect_ledger(&ledger_url).unwrap(), moment).await;

    let path = url.trim_start_matches("sqlite:").split('?').next().unwrap();
    let mut store =
        SqliteRows::open(path, |table, columns| table == "sale" || columns.iter().any(|name| name == "sale"));
    // The waiting room holds neither stock nor orders.
    store.leave_out("room");
    damage_rows(&scene, &mut store).await.are_but(SQLITE_STORE, 600);

    let mut orders = SqliteRows::open(&ledger_url["sqlite:".len()..], |_, _| true);
    damage_rows(&scene, &mut orders).await.are_but(LEDGER, 200);
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
    let gate = Rushgate::with_store(std::sync::Arc::new(store));
    let postgres = PostgresServer::start();
    let scene = Scene::play(gate, connect_ledger(&postgres.url()).unwrap(), moment).await;

    let mut found = Found::default();
    let mut keys = Keys::connect(server.port());
    for damage in keys.damages() {
        keys.write(&damage.key, &damage.harm);
        found.note(damage.label, damage.which, scene.audit().await);
        keys.write(&damage.key, &damage.repair);
    }
    scene.passes().await;
    found.are_but(REDIS_STORE, 600);

    let mut orders = PostgresRows::connect(&postgres.url()).await;
    damage_rows(&scene, &mut orders).await.are_but(LEDGER, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_damage_to_a_running_sale_in_redis_and_postgres_is_found() {
    redis_store(Moment::Running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_damage_to_a_finished_sale_in_redis_and_postgres_is_found() {
    redis_store(Moment::Finished).await;
}

fn failed(audit: &rushgate::Audit, name: &str) -> String {
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

/// The orders queue, with the authority of an order worker.
fn orders_of(bench: &Bench) -> Queue {
    Rushgate::with_store(bench.store().for_orders()).queue("orders").unwrap()
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
    assert!(audit.ok, "the change is in the orders queue: {audit:#?}");
    assert_eq!(orders_of(&bench).pop(10).await.unwrap().len(), 1);
    carry(&sale, &ledger).await;
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    let figures = failed(&audit, "orders_are_delivered");
    assert!(figures.contains("store has withdrawn phone no. 16-20, ledger has not"), "{figures}");
}

async fn an_order_that_nobody_delivers_is_found(bench: Bench) {
    let (sale, ledger) = (stocked(&bench, 20).await, connect_ledger("sqlite::memory:").unwrap());
    let hold = scene::reserve(&sale, "ann", &[("phone", 1)]).await;
    assert!(sale.audit(Some(&*ledger)).await.unwrap().ok, "the change is in the orders queue");
    sale.confirm(hold.id).await.unwrap();
    assert!(sale.audit(Some(&*ledger)).await.unwrap().ok, "the change is in the orders queue");
    assert_eq!(orders_of(&bench).pop(10).await.unwrap().len(), 1);
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    let figures = failed(&audit, "orders_are_delivered");
    assert!(figures.contains(&format!("reservation {} of buyer `ann` is Confirming", hold.id)), "{figures}");
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
