//! Outbox: tasks from a transaction of the application's database reach the queue once and in order,
//! whichever process dies.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rushgate::outbox::{Outbox, OutboxEntry, OutboxMetrics, OutboxRelay, OutboxReport};
use rushgate::queue::{
    ContentType, Due, NewTask, OnDuplicate, Payload, Priority, QueueLimits, QueueName, TaskKey,
};
use rushgate::{CancellationToken, Rushgate, TaskId, Timestamp};
use rushgate_core::{Relay, Verbs as _};
use rushgate_ledger::OutboxTurn;
use rushgate_test::MemoryStore;
use rushgate_test::faults::{FaultPlan, Faulty};
use rushgate_test::servers::PostgresServer;
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// Shorter than the relay's polling interval, so that only a notification is fast enough.
const SOON: Duration = Duration::from_secs(15);

/// The application's database.
enum Shop {
    Sqlite { directory: TempDir },
    Postgres { client: tokio_postgres::Client, url: String },
}

async fn postgres(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

impl Shop {
    fn sqlite() -> Self {
        let shop = Self::Sqlite { directory: tempfile::tempdir().unwrap() };
        rusqlite::Connection::open(shop.path())
            .unwrap()
            .execute_batch("CREATE TABLE orders (id INTEGER)")
            .unwrap();
        shop
    }

    /// A new database on the shared server.
    async fn postgres() -> Self {
        let server = PostgresServer::shared("outbox");
        let name = format!("shop_{}_{}", std::process::id(), rand::random::<u32>());
        postgres(&server).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (base, _) = server.rsplit_once('/').unwrap();
        Self::postgres_at(&format!("{base}/{name}")).await
    }

    async fn postgres_at(url: &str) -> Self {
        let client = postgres(url).await;
        client.batch_execute("CREATE TABLE orders (id integer)").await.unwrap();
        Self::Postgres { client, url: url.to_owned() }
    }

    fn path(&self) -> PathBuf {
        match self {
            Self::Sqlite { directory } => directory.path().join("shop.db"),
            Self::Postgres { .. } => unreachable!("it is on a server"),
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Sqlite { .. } => format!("sqlite:{}", self.path().display()),
            Self::Postgres { url, .. } => url.clone(),
        }
    }

    async fn outbox(&self) -> Outbox {
        Outbox::open(&self.url()).await.unwrap()
    }

    async fn say(&self, sql: &str) {
        match self {
            Self::Sqlite { .. } => {
                let conn = rusqlite::Connection::open(self.path()).unwrap();
                conn.busy_timeout(SOON).unwrap();
                conn.execute_batch(sql).unwrap();
            }
            Self::Postgres { client, .. } => client.batch_execute(sql).await.unwrap(),
        }
    }

    fn table(&self) -> &'static str {
        match self {
            Self::Sqlite { .. } => "rushgate_outbox",
            Self::Postgres { .. } => "rushgate.outbox",
        }
    }

    /// A transaction that inserts orders and a task for each.
    async fn order(&self, queue: &str, ids: impl IntoIterator<Item = u64>) {
        let row = |id| format!("('{queue}', 't{id}', '{{}}')");
        let rows: Vec<_> = ids.into_iter().map(row).collect();
        let (table, rows) = (self.table(), rows.join(", "));
        let insert = format!("INSERT INTO {table} (queue, id, payload) VALUES {rows}");
        self.say(&format!("BEGIN; INSERT INTO orders VALUES (1); {insert}; COMMIT")).await;
    }

    async fn insert(&self, row: &OutboxEntry) {
        match self {
            Self::Sqlite { .. } => {
                let params = rusqlite::params![
                    row.queue, row.id, row.payload, row.content_type, row.due_at_ms, row.priority,
                    row.max_attempts, row.key, row.on_duplicate, row.max_wait_ms
                ];
                rusqlite::Connection::open(self.path())
                    .unwrap()
                    .execute(OutboxEntry::SQLITE, params)
                    .unwrap();
            }
            Self::Postgres { client, .. } => {
                let params: [&(dyn tokio_postgres::types::ToSql + Sync); 10] = [
                    &row.queue, &row.id, &row.payload, &row.content_type, &row.due_at_ms, &row.priority,
                    &row.max_attempts, &row.key, &row.on_duplicate, &row.max_wait_ms,
                ];
                client.execute(OutboxEntry::POSTGRES, &params).await.unwrap();
            }
        }
    }
}

/// A running relay.
struct Running {
    metrics: OutboxMetrics,
    shutdown: CancellationToken,
    task: JoinHandle<OutboxReport>,
}

fn start(client: &Rushgate, outbox: &Outbox) -> Running {
    let relay = OutboxRelay::new(client, outbox.clone());
    let (metrics, shutdown) = (relay.metrics(), CancellationToken::new());
    let task = tokio::spawn(relay.run(shutdown.clone()));
    Running { metrics, shutdown, task }
}

impl Running {
    async fn until(&self, what: impl Fn(&OutboxReport) -> bool) {
        let reached = async {
            while !what(&self.metrics.report()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let report = || self.metrics.report();
        tokio::time::timeout(SOON, reached).await.unwrap_or_else(|_| panic!("not in time: {:?}", report()));
    }

    async fn end(self) -> OutboxReport {
        self.shutdown.cancel();
        tokio::time::timeout(SOON, self.task).await.unwrap().unwrap()
    }

    /// Kills the relay.
    async fn die(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

fn ids(of: std::ops::RangeInclusive<u64>) -> Vec<String> {
    of.map(|id| format!("t{id}")).collect()
}

/// Runs all due tasks, and returns their IDs.
async fn work_off(client: &Rushgate, queue: &str) -> Vec<String> {
    let queue = client.queue(queue).unwrap();
    let mut done = Vec::new();
    loop {
        let tasks = queue.claim(1_000, Duration::from_secs(60)).await.unwrap();
        if tasks.is_empty() {
            return done;
        }
        done.extend(tasks.iter().map(|task| task.ticket.id.as_str().to_owned()));
        queue.complete(tasks.into_iter().map(|task| task.ticket).collect()).await.unwrap();
    }
}

fn model() -> Rushgate {
    Rushgate::with_store(Arc::new(MemoryStore::new()))
}

/// An in-memory store, which stays fast with many tasks.
async fn in_memory() -> Rushgate {
    Rushgate::connect("sqlite::memory:").await.unwrap()
}

/// Runs each named test on both kinds of database.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name(super::Shop::sqlite()).await; })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name(super::Shop::postgres().await).await; })*
        }
    };
}

on_both! {
    what_is_committed_is_moved_in_order_and_what_is_rolled_back_is_not
    a_relay_that_dies_between_any_two_steps_puts_each_task_in_once
    relays_that_die_at_any_moment_behind_a_bad_network_put_each_task_in_once
    what_cannot_be_a_task_is_set_aside_and_holds_nothing_up
    a_task_keeps_what_it_asks_for
    a_full_queue_holds_up_its_own_tasks_only
    a_store_that_is_away_is_waited_for
    one_relay_is_at_work_and_another_takes_over
    a_backlog_of_many_queues_is_worked_off
    a_copy_of_a_database_has_a_name_of_its_own
}

async fn what_is_committed_is_moved_in_order_and_what_is_rolled_back_is_not(shop: Shop) {
    let (client, outbox) = (in_memory().await, shop.outbox().await);
    shop.order("mail", 1..=3).await;
    let relay = start(&client, &outbox);
    relay.until(|report| report.moved == 3).await;
    // The relay sleeps now. Only a notification by the database can wake it in time.
    let table = shop.table();
    let row = format!("INSERT INTO {table} (queue, id, payload) VALUES ('mail', 'never', '1')");
    shop.say(&format!("BEGIN; {row}; ROLLBACK")).await;
    shop.order("mail", 4..=1_203).await;
    relay.until(|report| report.moved == 1_203).await;
    let stats = outbox.stats().await.unwrap();
    assert_eq!((stats.waiting, stats.refused), (0, 0));
    let report = relay.end().await;
    assert_eq!((report.moved, report.outages), (1_203, 0));
    assert_eq!(work_off(&client, "mail").await, ids(1..=1_203));
}

/// Stops the relay after each number of steps.
async fn a_relay_that_dies_between_any_two_steps_puts_each_task_in_once(shop: Shop) {
    let outbox = shop.outbox().await;
    for steps in 0..=3 {
        let client = model();
        let queue = QueueName::new(format!("mail{steps}")).unwrap();
        shop.order(queue.as_str(), 1..=5).await;
        let store = MemoryStore::new();
        let gate_of = |store: &MemoryStore| Rushgate::with_store(Arc::new(store.clone()));
        drop(client);
        let mut lead = outbox.lead().await.unwrap();
        assert!(lead.under_way().await.unwrap().batches.is_empty());
        if steps >= 1 {
            let marks = HashMap::from([(queue.clone(), 0)]);
            let turn = OutboxTurn { marks, more: true, ..OutboxTurn::default() };
            let taken = lead.turn(turn).await.unwrap();
            let tasks = &taken.batches[&queue];
            assert_eq!(tasks.len(), 5);
            if steps >= 2 {
                let numbered = tasks.iter().map(|task| (task.number, task.task.clone())).collect();
                let relay = Relay { outbox: lead.id().clone(), tasks: numbered };
                store.relay(&queue, relay).await.unwrap();
            }
            if steps >= 3 {
                let done = tasks.iter().map(|task| task.position).collect();
                lead.turn(OutboxTurn { done, ..OutboxTurn::default() }).await.unwrap();
            }
        }
        drop(lead);
        // The tasks that arrived have run and ended before they are sent again.
        let client = gate_of(&store);
        let mut ran = work_off(&client, queue.as_str()).await;
        let relay = start(&client, &outbox);
        shop.order(queue.as_str(), [6]).await;
        relay.until(|report| report.moved >= if steps == 3 { 1 } else { 6 }).await;
        relay.end().await;
        ran.extend(work_off(&client, queue.as_str()).await);
        assert_eq!(ran, ids(1..=6), "the relay died after step {steps}");
        assert_eq!(outbox.stats().await.unwrap().waiting, 0);
    }
}

#[expect(clippy::print_stdout, reason = "the test reports its measurements")]
async fn relays_that_die_at_any_moment_behind_a_bad_network_put_each_task_in_once(shop: Shop) {
    let seed = std::env::var("RUSHGATE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    println!("RUSHGATE_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let store = MemoryStore::new();
    let plan = FaultPlan { before: 50, reply: 100, twice: 50 };
    let client = Rushgate::with_store(Arc::new(Faulty::new(store.clone(), plan, seed)));
    let calm = Rushgate::with_store(Arc::new(store));
    let outbox = shop.outbox().await;
    let (mut next, mut ran) = (1_u64, Vec::new());
    for _ in 0..25 {
        let n = rng.random_range(1..60);
        shop.order("mail", next..next + n).await;
        next += n;
        let relay = start(&client, &outbox);
        tokio::time::sleep(Duration::from_micros(rng.random_range(0..30_000))).await;
        relay.die().await;
        if rng.random_bool(0.5) {
            ran.extend(work_off(&calm, "mail").await);
        }
    }
    let relay = start(&client, &outbox);
    while outbox.stats().await.unwrap().waiting > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    relay.end().await;
    ran.extend(work_off(&calm, "mail").await);
    assert_eq!(ran, ids(1..=next - 1), "RUSHGATE_SEED={seed}");
}

async fn what_cannot_be_a_task_is_set_aside_and_holds_nothing_up(shop: Shop) {
    let (client, outbox) = (model(), shop.outbox().await);
    let table = shop.table();
    shop.order("mail", [1]).await;
    let large = Payload::MAX_BYTES + 1;
    let large = match shop {
        Shop::Sqlite { .. } => format!("zeroblob({large})"),
        Shop::Postgres { .. } => format!("convert_to(repeat('x', {large}), 'UTF8')"),
    };
    shop.say(&format!("INSERT INTO {table} (queue, id, payload) VALUES ('mail', 'large', {large})")).await;
    shop.say(&format!(
        "INSERT INTO {table} (queue, id, payload) VALUES ('', 'lost', '1'), ('mail', 'a b', '1')"
    ))
    .await;
    shop.say(&format!(
        "INSERT INTO {table} (queue, id, payload, priority) VALUES ('mail', 'hasty', '1', 77)"
    ))
    .await;
    shop.order("mail", [2]).await;
    let relay = start(&client, &outbox);
    relay.until(|report| report.moved == 2 && report.refused == 4).await;
    assert_eq!(work_off(&client, "mail").await, ids(1..=2));
    let aside = outbox.refused(0, 100).await.unwrap();
    let whys: Vec<_> = aside.iter().map(|task| (task.id.as_str(), task.why.as_str())).collect();
    let expected = [
        ("large", "1048577 bytes"),
        ("lost", "the queue name is empty"),
        ("a b", "white space"),
        ("hasty", "priority is out of range"),
    ];
    assert_eq!(whys.len(), expected.len());
    for ((id, why), (wanted, part)) in whys.iter().zip(expected) {
        assert!(*id == wanted && why.contains(part), "{id}: {why} should be {wanted}: {part}");
    }
    assert_eq!(outbox.stats().await.unwrap().refused, 4);
    // Fix one row and retry it; delete the others.
    shop.say(&format!("UPDATE {table} SET priority = 1 WHERE id = 'hasty'")).await;
    assert_eq!(outbox.retry(Some(vec![aside[3].position])).await.unwrap(), 1);
    relay.until(|report| report.moved == 3).await;
    assert_eq!(work_off(&client, "mail").await, ["hasty"]);
    assert_eq!(outbox.delete(None).await.unwrap(), 3);
    assert_eq!(outbox.stats().await.unwrap().refused, 0);
    relay.end().await;
}

async fn a_task_keeps_what_it_asks_for(shop: Shop) {
    let (client, outbox) = (model(), shop.outbox().await);
    let json = ContentType::json().with_kind(&"welcome".parse().unwrap()).unwrap();
    let task = NewTask {
        due: Due::At(Timestamp::from_micros(4_000_000_000_000_000)),
        priority: Priority::new(2).unwrap(),
        max_attempts: 7,
        key: Some(TaskKey::new("ann").unwrap()),
        on_duplicate: OnDuplicate::Debounce { max_wait: Duration::from_secs(5_000_000_000) },
        ..NewTask::new(TaskId::new("later").unwrap(), Payload::new(json, *b"{\"to\": 1}").unwrap())
    };
    let mail = QueueName::new("mail").unwrap();
    assert!(
        OutboxEntry::new(&mail, &task).unwrap_err().is_invalid(),
        "the debounce period exceeds the limit"
    );
    let unique = NewTask {
        unique_for: Some(Duration::from_secs(1)),
        ..NewTask::new(task.id.clone(), Payload::empty())
    };
    assert!(
        OutboxEntry::new(&mail, &unique).unwrap_err().is_invalid(),
        "a row cannot carry a uniqueness window"
    );
    let task = NewTask { on_duplicate: OnDuplicate::Replace, ..task };
    shop.insert(&OutboxEntry::new(&mail, &task).unwrap()).await;
    let relay = start(&client, &outbox);
    relay.until(|report| report.moved == 1).await;
    relay.end().await;
    let info = client.queue("mail").unwrap().task("later").await.unwrap().unwrap().task;
    assert_eq!(info.payload, task.payload);
    assert_eq!((info.priority, info.max_attempts, &info.key), (task.priority, 7, &task.key));
    assert_eq!(info.ticket.due.as_micros(), 4_000_000_000_000_000);
}

async fn a_full_queue_holds_up_its_own_tasks_only(shop: Shop) {
    let (client, outbox) = (in_memory().await, shop.outbox().await);
    let mail = client.queue("mail").unwrap();
    mail.limit(QueueLimits { bound: Some(10), ..QueueLimits::default() }).await.unwrap();
    shop.order("mail", 1..=1_500).await;
    shop.order("other", 1..=20).await;
    let relay = start(&client, &outbox);
    relay.until(|report| report.moved == 30 && report.full > 1).await;
    assert_eq!(work_off(&client, "other").await, ids(1..=20));
    shop.order("other", 21..=25).await;
    relay.until(|report| report.moved == 35).await;
    let mut ran = Vec::new();
    while ran.len() < 1_500 {
        ran.extend(work_off(&client, "mail").await);
        if ran.len() == 100 {
            mail.limit(QueueLimits::default()).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(ran, ids(1..=1_500));
    relay.end().await;
}

async fn a_store_that_is_away_is_waited_for(shop: Shop) {
    let outbox = shop.outbox().await;
    let store = Arc::new(Faulty::new(MemoryStore::new(), FaultPlan::default(), 1));
    let client = Rushgate::with_store(store.clone());
    let relay = start(&client, &outbox);
    shop.order("mail", [1]).await;
    relay.until(|report| report.moved == 1).await;
    store.set_away(true);
    shop.order("mail", 2..=9).await;
    relay.until(|report| report.outages > 0).await;
    assert_eq!(outbox.stats().await.unwrap().waiting, 8);
    store.set_away(false);
    relay.until(|report| report.moved == 9).await;
    relay.end().await;
    assert_eq!(work_off(&client, "mail").await, ids(1..=9));
}

async fn one_relay_is_at_work_and_another_takes_over(shop: Shop) {
    let (client, outbox) = (model(), shop.outbox().await);
    let first = start(&client, &outbox);
    shop.order("mail", [1]).await;
    first.until(|report| report.moved == 1).await;
    let second = start(&client, &shop.outbox().await);
    shop.order("mail", 2..=50).await;
    first.until(|report| report.moved == 50).await;
    assert!(!second.metrics.has_led(), "the other relay is active");
    first.die().await;
    shop.order("mail", 51..=60).await;
    second.until(|report| report.moved >= 10).await;
    second.end().await;
    assert_eq!(work_off(&client, "mail").await, ids(1..=60));
}

async fn a_backlog_of_many_queues_is_worked_off(shop: Shop) {
    let (client, outbox) = (in_memory().await, shop.outbox().await);
    let queue = |n: u64| format!("q{:02}", n % 40);
    for n in 0..40 {
        shop.order(&queue(n), 1..=n + 1).await;
    }
    let relay = start(&client, &outbox);
    relay.until(|report| report.moved == 820).await;
    relay.end().await;
    for n in 0..40 {
        assert_eq!(work_off(&client, &queue(n)).await, ids(1..=n + 1));
    }
}

async fn a_copy_of_a_database_has_a_name_of_its_own(shop: Shop) {
    let name = |outbox: Outbox| async move { outbox.lead().await.unwrap().id().clone() };
    let original = name(shop.outbox().await).await;
    assert_eq!(name(shop.outbox().await).await, original, "the identity does not change");
    let copy = match &shop {
        Shop::Sqlite { directory } => {
            let path = directory.path().join("copy.db");
            std::fs::copy(shop.path(), &path).unwrap();
            format!("sqlite:{}", path.display())
        }
        Shop::Postgres { client, url } => {
            let (base, of) = url.rsplit_once('/').unwrap();
            let server = postgres(&PostgresServer::shared("outbox")).await;
            let end =
                format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{of}'");
            let _ = client.batch_execute(&end).await;
            let copied = format!("CREATE DATABASE copy_{of} TEMPLATE {of}");
            while server.batch_execute(&copied).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            format!("{base}/copy_{of}")
        }
    };
    assert_ne!(name(Outbox::open(&copy).await.unwrap()).await, original);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_set_back_loses_nothing_that_comes_after() {
    let (shop, client) = (Shop::sqlite(), model());
    let outbox = shop.outbox().await;
    shop.say("PRAGMA journal_mode = DELETE").await;
    let relay = start(&client, &outbox);
    shop.order("mail", 1..=5).await;
    relay.until(|report| report.moved == 5).await;
    relay.end().await;
    let backup = std::fs::read(shop.path()).unwrap();
    let relay = start(&client, &outbox);
    shop.order("mail", 6..=20).await;
    relay.until(|report| report.moved == 15).await;
    relay.end().await;
    assert_eq!(work_off(&client, "mail").await, ids(1..=20));
    // Restore the old file: it does not know that it has used numbers up to 20.
    std::fs::write(shop.path(), backup).unwrap();
    shop.order("mail", 21..=25).await;
    let relay = start(&client, &outbox);
    relay.until(|report| report.moved == 5).await;
    relay.end().await;
    assert_eq!(work_off(&client, "mail").await, ids(21..=25));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_crashes_again_and_again_loses_no_task_and_doubles_none() {
    let mut server = PostgresServer::start();
    let client = in_memory().await;
    let shop = Shop::postgres_at(&server.url()).await;
    let outbox = shop.outbox().await;
    let relay = start(&client, &outbox);
    let mut next = 1;
    for round in 0..3_u64 {
        let shop = Shop::Postgres { client: postgres(&server.url()).await, url: server.url() };
        for _ in 0..20 {
            shop.order("mail", next..next + 50).await;
            next += 50;
        }
        relay.until(|report| report.moved > round * 1_000 + 300).await;
        server.stop();
        server.start_again();
    }
    // Rows moved in a transaction whose answer was lost are not counted.
    while outbox.stats().await.unwrap().waiting > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(relay.end().await.outages > 0, "the outage was noticed");
    assert_eq!(work_off(&client, "mail").await, ids(1..=next - 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_rights_to_the_table_enqueues_by_the_function() {
    let shop = Shop::postgres().await;
    let Shop::Postgres { url, client: database } = &shop else { unreachable!() };
    let (client, outbox) = (model(), shop.outbox().await);
    let clerk = format!("clerk_{}", rand::random::<u32>());
    database
        .batch_execute(&format!("CREATE ROLE {clerk} LOGIN; GRANT USAGE ON SCHEMA rushgate TO {clerk}"))
        .await
        .unwrap();
    let as_clerk = format!("{url}?options=-c%20role%3D{clerk}");
    let hands = postgres(&as_clerk).await;
    assert!(hands.batch_execute("DELETE FROM rushgate.outbox").await.is_err(), "the role has no permission");
    hands
        .batch_execute(
            "BEGIN;
             SELECT rushgate.enqueue('mail', 't1', '{\"to\": \"ann\"}');
             SELECT rushgate.enqueue('mail', 't2', delay => '1 hour', priority => 1, kind => 'welcome');
             COMMIT",
        )
        .await
        .unwrap();
    let relay = start(&client, &outbox);
    relay.until(|report| report.moved == 2).await;
    relay.end().await;
    let stats = client.queue("mail").unwrap().stats().await.unwrap();
    assert_eq!((stats.ready, stats.scheduled), (1, 1));
    let later = client.queue("mail").unwrap().task("t2").await.unwrap().unwrap().task;
    assert_eq!((later.payload.bytes(), later.payload.content_type().kind()), (&b"null"[..], Some("welcome")));
    let task = client.queue_of::<serde_json::Value>("mail").unwrap();
    let first = task.claim(1, Duration::from_secs(60)).await.unwrap().remove(0);
    assert_eq!(task.read(&first.payload).unwrap(), serde_json::json!({ "to": "ann" }));
}

#[tokio::test]
async fn what_is_no_outbox_is_refused_with_a_reason() {
    for url in ["sqlite:/nowhere/shop.db", "redis://localhost", "sqlite::memory:", "shop.db"] {
        let error = Outbox::open(url).await.unwrap_err();
        assert!(error.hint_text().is_some(), "{url}: {error}");
        assert!(error.is_invalid() || error.is_misconfigured(), "{url}: {error}");
    }
}
