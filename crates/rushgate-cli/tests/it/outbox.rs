//! `rushgate outbox relay` as a process: killed, stopped, and with bad input.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use crate::common::Shop;
use rushgate_test::servers::PostgresServer;
use rusqlite::Connection;
use rustix::process::Signal;

const DATABASE: &str = "sqlite:shop.db";

/// The application's database, with an outbox.
fn database(shop: &Shop) -> Connection {
    let conn = Connection::open(shop.path("shop.db")).unwrap();
    conn.busy_timeout(Duration::from_secs(10)).unwrap();
    conn.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE orders (id INTEGER)").unwrap();
    let stats = shop.json(&["outbox", "stats", DATABASE]);
    assert_eq!(stats["waiting"], 0, "the tables are made: {stats}");
    conn
}

fn insert(conn: &Connection, queue: &str, ids: RangeInclusive<u32>) {
    let rows: Vec<_> = ids.map(|id| format!("('{queue}', 't{id}', '{{\"id\": {id}}}')")).collect();
    let rows = rows.join(", ");
    conn.execute_batch(&format!("INSERT INTO rushgate_outbox (queue, id, payload) VALUES {rows}")).unwrap();
}

fn count(conn: &Connection, table: &str) -> u32 {
    conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed().as_secs() < 30, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn until_ready(shop: &Shop, n: u32) {
    shop.until(&["queue", "stats", "mail"], |stats| stats["ready"] == n);
}

fn pop(shop: &Shop, queue: &str) -> Vec<String> {
    let tasks = shop.json(&["queue", "pop", queue, "-n", "1000"]);
    tasks.as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

fn ids(of: RangeInclusive<u32>) -> Vec<String> {
    of.map(|id| format!("t{id}")).collect()
}

#[test]
fn a_relay_that_is_killed_at_any_step_is_followed_by_one_that_puts_each_task_in_once() {
    let shop = Shop::new();
    let conn = database(&shop);
    insert(&conn, "mail", 1..=1);
    let mut first = shop.start(&["outbox", "relay", DATABASE]);
    until("the task has left", || count(&conn, "rushgate_outbox") == 0);
    until_ready(&shop, 1);
    let store = Connection::open(shop.path("rushgate.db")).unwrap();
    store.busy_timeout(Duration::from_secs(10)).unwrap();

    // Recorded but not sent: another program locks the store.
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    insert(&conn, "mail", 2..=500);
    until("the batch is noted", || count(&conn, "rushgate_outbox_batch") == 1);
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    store.execute_batch("ROLLBACK").unwrap();
    assert_eq!(shop.json(&["queue", "stats", "mail"])["ready"], 1);
    assert_eq!(shop.json(&["outbox", "stats", DATABASE])["waiting"], 499);

    // Sent but still in the outbox: another program locks the database.
    let mut second = shop.start(&["outbox", "relay", DATABASE]);
    until_ready(&shop, 500);
    // This task shows that the relay has asked the queue for its position.
    insert(&conn, "mail", 501..=501);
    until("the task has left", || count(&conn, "rushgate_outbox") == 0);
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    insert(&conn, "mail", 502..=900);
    until("the batch is noted", || count(&conn, "rushgate_outbox_batch") == 1);
    conn.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.execute_batch("ROLLBACK").unwrap();
    until_ready(&shop, 900);
    second.child.kill().unwrap();
    second.child.wait().unwrap();
    conn.execute_batch("ROLLBACK").unwrap();
    assert_eq!(shop.json(&["outbox", "stats", DATABASE])["waiting"], 399);

    // The tasks that were sent have run and ended before the next relay sends them again.
    assert_eq!(pop(&shop, "mail"), ids(1..=900));
    insert(&conn, "mail", 901..=903);
    let said = shop.json(&["outbox", "relay", DATABASE, "--until-empty"]);
    assert_eq!((&said["summary"]["moved"], &said["summary"]["refused"]), (&402.into(), &0.into()));
    assert_eq!(pop(&shop, "mail"), ids(901..=903));
}

#[test]
fn a_relay_that_is_told_to_end_says_what_it_did_and_another_continues() {
    let shop = Shop::new();
    let conn = database(&shop);
    insert(&conn, "mail", 1..=2);
    let first = shop.start(&["--json", "outbox", "relay", DATABASE]);
    until("the tasks have left", || count(&conn, "rushgate_outbox") == 0);
    let second = shop.start(&["--json", "outbox", "relay", DATABASE]);
    first.signal(Signal::TERM);
    let said = first.end();
    assert_eq!(said.status, 0, "{}", said.err);
    let said: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&said["summary"]["moved"], &said["summary"]["outages"]), (&2.into(), &0.into()));
    assert!(said["summary"]["lag_max_us"].is_u64(), "{said}");
    insert(&conn, "mail", 3..=3);
    until_ready(&shop, 3);
    second.signal(Signal::INT);
    assert_eq!(second.end().status, 0);
}

#[test]
fn what_was_set_aside_is_listed_mended_and_deleted() {
    let shop = Shop::new();
    let conn = database(&shop);
    insert(&conn, "mail", 1..=2);
    insert(&conn, "no queue\u{1b}[2J", 3..=5);
    assert_eq!(shop.json(&["outbox", "stats", DATABASE])["waiting"], 5);
    shop.ok(&["outbox", "relay", DATABASE, "--until-empty"]);
    let stats = shop.json(&["outbox", "stats", DATABASE]);
    assert_eq!(
        (&stats["waiting"], &stats["refused"], &stats["oldest_ms"]),
        (&0.into(), &3.into(), &0.into())
    );
    let aside = shop.json(&["outbox", "ls", DATABASE]);
    let listed: Vec<_> = aside.as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap()).collect();
    assert_eq!(listed, ["t3", "t4", "t5"]);
    assert!(aside[0]["why"].as_str().unwrap().contains("the queue"), "{aside}");
    let text = shop.ok(&["outbox", "ls", DATABASE]);
    assert!(text.contains("no queue\\u{1b}[2J") && !text.contains('\u{1b}'), "{text}");
    let first = aside[0]["position"].to_string();
    let rest = shop.json(&["outbox", "ls", DATABASE, "--after", &first, "-n", "1"]);
    assert_eq!((rest.as_array().unwrap().len(), &rest[0]["id"]), (1, &"t4".into()));

    conn.execute("UPDATE rushgate_outbox SET queue = 'mail' WHERE id = 't3'", []).unwrap();
    assert_eq!(shop.json(&["outbox", "retry", DATABASE, "--at", &first])["retried"], 1);
    assert_eq!(shop.json_as(1, &["outbox", "retry", DATABASE, "--at", "999"])["retried"], 0);
    assert_eq!(shop.json_as(1, &["outbox", "delete", DATABASE, "--at", &first])["deleted"], 0, "it waits");
    let second = aside[1]["position"].to_string();
    assert_eq!(shop.json(&["outbox", "delete", DATABASE, "--at", &second])["deleted"], 1);
    assert_eq!(shop.json(&["outbox", "delete", DATABASE, "--all"])["deleted"], 1);
    assert_eq!(shop.json(&["outbox", "delete", DATABASE, "--all"])["deleted"], 0, "all of none is done");
    shop.ok(&["outbox", "relay", DATABASE, "--until-empty"]);
    assert_eq!(pop(&shop, "mail"), ids(1..=3));
    assert_eq!(shop.ok(&["outbox", "stats", DATABASE]), "0 waiting; 0 set aside\n");
}

#[test]
fn a_database_that_is_not_there_is_named_and_nothing_is_made() {
    let shop = Shop::new();
    for verb in ["relay", "stats", "ls"] {
        let said = shop.run(&["outbox", verb, "sqlite:nowhere.db"]);
        assert!(said.status == 4 && said.err.contains("nowhere.db"), "{} {}", said.status, said.err);
        let said = shop.run(&["outbox", verb, "redis://localhost"]);
        assert!(said.status == 2 && said.err.contains("postgres://"), "{} {}", said.status, said.err);
    }
    assert_eq!(std::fs::read_dir(shop.dir.path()).unwrap().count(), 0);
    let said = shop.run(&["outbox", "retry", "sqlite:nowhere.db"]);
    assert!(said.status == 2 && said.err.contains("--at"), "{} {}", said.status, said.err);
    let said = shop.run(&["outbox", "stats"]);
    assert!(said.status == 2 && said.err.contains("<URL>"), "{} {}", said.status, said.err);
}

#[test]
fn a_postgres_that_the_environment_names_has_its_outbox_moved() {
    let (shop, server) = (Shop::new(), PostgresServer::start());
    let url = server.url();
    let run = |args: &[&str]| {
        let said = shop.command(args).env("RUSHGATE_OUTBOX", &url).output().unwrap();
        assert!(said.status.success(), "{args:?}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap()
    };
    assert_eq!(run(&["outbox", "stats"]), "0 waiting; 0 set aside\n");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let enqueue =
            "SELECT rushgate.enqueue('mail', 't' || n, '{}'), rushgate.enqueue('no queue', 'n' || n, '{}')
            FROM generate_series(1, 3) AS n";
        client.query(enqueue, &[]).await.unwrap();
    });
    run(&["outbox", "relay", "--until-empty"]);
    assert_eq!(pop(&shop, "mail"), ids(1..=3));
    assert_eq!(run(&["outbox", "stats"]), "0 waiting; 3 set aside\n");
    let aside: serde_json::Value = serde_json::from_str(&run(&["--json", "outbox", "ls"])).unwrap();
    assert_eq!(aside[2]["id"], "n3");
    assert_eq!(run(&["outbox", "retry", "--all"]), "retried 3\n");
    assert!(run(&["outbox", "stats"]).starts_with("3 waiting, the oldest for "));
    run(&["outbox", "relay", "--until-empty"]);
    assert_eq!(run(&["outbox", "delete", "--all"]), "deleted 3\n");
}
