//! Servers that stop, refuse, stall and lose answers: the errors, and the state of the data.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::bench::{Bench, Raw};
use crate::common::{assert_sound, id, order, phones, sale, stock, write_one};
use rushgate_core::OrderIntent::{Confirm, Hold};
use rushgate_core::{Durability, Error, HoldTime, LedgerEntry, SaleSecret, SaleSpec};
use rushgate_ledger::{Ledger, LedgerCalls, LedgerSale, Written, connect};
use rushgate_test::servers::PostgresServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::{Client, NoTls};

const RETRY_BUDGET: Duration = Duration::from_secs(60);

async fn raw(server: &PostgresServer) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn batch(first: u32, n: u32) -> Vec<LedgerEntry> {
    (first..first + n).map(|n| order(n, &format!("buyer-{n}"), &[n], Hold)).collect()
}

fn refused(url: &str) -> Error {
    let error = connect(url).err().expect("the server must be refused");
    assert!(error.hint_text().is_some() && !error.may_have_happened(), "{error:?}");
    error
}

/// A client that writes despite faults: repeats the same call until it is answered, and returns the errors.
async fn write_through(ledger: &dyn Ledger, entries: Vec<LedgerEntry>) -> Vec<Error> {
    let start = Instant::now();
    let mut errors = Vec::new();
    loop {
        match ledger.write(entries.clone()).await {
            Ok(written) => {
                assert!(written.iter().all(|written| *written == Written::Recorded(Hold)), "{written:?}");
                return errors;
            }
            Err(error) => {
                assert!(error.is_unavailable(), "{error:?}");
                assert!(start.elapsed() < RETRY_BUDGET, "{error:?}");
                errors.push(error);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_crashes_and_comes_back_loses_nothing_and_the_ledger_continues() {
    let mut server = PostgresServer::start();
    let ledger = connect(&server.url()).unwrap();
    ledger.open_sale(phones(1_000_000, 1)).await.unwrap();
    let writers = (0..3_u32).map(|writer| {
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move {
            let mut errors = 0;
            for round in 0..60 {
                let first = writer * 100_000 + round * 20 + 1;
                errors += write_through(&*ledger, batch(first, 20)).await.len();
            }
            errors
        })
    });
    let writers: Vec<_> = writers.collect();
    for wanted in [300, 1_200, 2_400] {
        while ledger.counters().orders < wanted {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.stop();
        let down = ledger.ping().await.unwrap_err();
        assert!(down.is_unavailable() && down.hint_text().is_some(), "{down:?}");
        server.start_again();
    }
    let mut errors = 0;
    for writer in writers {
        errors += writer.await.unwrap();
    }
    assert!(errors > 0, "the outage was noticed");
    let snapshot = ledger.snapshot(&sale()).await.unwrap();
    assert_eq!(snapshot.orders.len(), 3_600, "every acknowledged order, once");
    assert_sound(&snapshot);
}

/// One URL with both hosts, which connects to the one that accepts writes.
fn url_of(one: &PostgresServer, other: &PostgresServer) -> String {
    format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres", one.port(), other.port())
}

/// From now on, nothing is acknowledged that a standby does not have.
async fn demand_a_standby(primary: &PostgresServer) {
    let operator = raw(primary).await;
    operator.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.unwrap();
    operator.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let is_synchronous = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
    let start = Instant::now();
    while operator.query(is_synchronous, &[]).await.unwrap().is_empty() {
        assert!(start.elapsed() < RETRY_BUDGET);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_is_promoted_under_writers_has_what_was_acknowledged() {
    let mut primary = PostgresServer::start();
    let standby = primary.standby();
    demand_a_standby(&primary).await;
    let ledger = connect(&url_of(&standby, &primary)).unwrap();
    assert_eq!(ledger.info().durability, Durability::D3);
    ledger.open_sale(phones(1_000_000, 1)).await.unwrap();
    let writers = (0..3_u32).map(|writer| {
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move {
            let mut errors = 0;
            for round in 0..40 {
                let first = writer * 100_000 + round * 20 + 1;
                errors += write_through(&*ledger, batch(first, 20)).await.len();
            }
            errors
        })
    });
    let writers: Vec<_> = writers.collect();
    while ledger.counters().orders < 600 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    primary.stop();
    let acknowledged = ledger.counters().orders;
    standby.promote();
    let mut errors = 0;
    for writer in writers {
        errors += writer.await.unwrap();
    }
    assert!(acknowledged < 2_400 && errors > 0, "{acknowledged} were written before the failover");
    let snapshot = ledger.snapshot(&sale()).await.unwrap();
    assert_eq!(snapshot.orders.len(), 2_400, "every acknowledged order, once");
    assert_sound(&snapshot);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_takes_connections_and_stays_silent_is_passed_over() {
    let primary = PostgresServer::start();
    let standby = primary.standby();
    demand_a_standby(&primary).await;
    let url = format!("{}?connect_timeout=1&statement_timeout=100", url_of(&primary, &standby));
    let ledger = connect(&url).unwrap();
    ledger.open_sale(phones(100, 1)).await.unwrap();
    ledger.write(batch(1, 5)).await.unwrap();
    primary.pause();
    standby.promote();
    write_through(&*ledger, batch(1, 20)).await;
    assert_eq!(ledger.snapshot(&sale()).await.unwrap().orders.len(), 20);
    // A new connection finds it too.
    connect(&url).unwrap().ping().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_standby_has_is_not_acknowledged() {
    let primary = PostgresServer::start();
    let mut standby = primary.standby();
    demand_a_standby(&primary).await;
    let ledger = connect(&format!("{}?statement_timeout=100", primary.url())).unwrap();
    ledger.open_sale(phones(10, 1)).await.unwrap();
    standby.stop();
    let error = ledger.write(batch(1, 2)).await.unwrap_err();
    assert!(error.is_unavailable() && error.may_have_happened(), "{error:?}");
    standby.start_again();
    write_through(&*ledger, batch(1, 2)).await;
    assert_eq!(ledger.snapshot(&sale()).await.unwrap().orders.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_ended_in_the_middle_lose_nothing() {
    let server = PostgresServer::start();
    let ledger = connect(&server.url()).unwrap();
    ledger.open_sale(phones(100_000, 1)).await.unwrap();
    let operator = raw(&server).await;
    let end_all =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'rushgate'";
    let writing = async {
        for round in 0..100 {
            write_through(&*ledger, batch(round * 20 + 1, 20)).await;
        }
    };
    let ending = async {
        // Each round ends the connections at another point of a batch, and rarely enough for some to survive.
        for n in 0_u64.. {
            operator.query(end_all, &[]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20 + n * 13 % 60)).await;
        }
    };
    tokio::select! {
        () = writing => {}
        () = ending => {}
    }
    let snapshot = ledger.snapshot(&sale()).await;
    let snapshot = match snapshot {
        Ok(snapshot) => snapshot,
        // The operator's last query may have ended the connection that reads the snapshot.
        Err(_) => ledger.snapshot(&sale()).await.unwrap(),
    };
    assert_eq!(snapshot.orders.len(), 2_000);
    assert_sound(&snapshot);
}

/// A proxy to a server. Once armed, it forwards one COMMIT and then breaks the connection instead of returning the
/// answer.
async fn proxy(to: u16, armed: Arc<std::sync::atomic::AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
            tokio::spawn(forward(client, server, Arc::clone(&armed)));
        }
    });
    port
}

async fn forward(mut client: TcpStream, mut server: TcpStream, armed: Arc<std::sync::atomic::AtomicBool>) {
    let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    let mut breaks = false;
    loop {
        tokio::select! {
            n = client.read(&mut asked) => {
                let Ok(n @ 1..) = n else { return };
                let commit = asked[..n].windows(7).any(|window| window == b"COMMIT\0");
                breaks |= commit && armed.swap(false, std::sync::atomic::Ordering::SeqCst);
                if server.write_all(&asked[..n]).await.is_err() { return }
            }
            n = server.read(&mut answered) => {
                let Ok(n @ 1..) = n else { return };
                // The server has answered, so it has committed. The client does not learn of it.
                if breaks || client.write_all(&answered[..n]).await.is_err() { return }
            }
        }
    }
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_may_have_happened_and_is_answered_the_same_way_later() {
    let server = PostgresServer::start();
    let armed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let port = proxy(server.port(), Arc::clone(&armed)).await;
    let url = server.url().replace(&server.port().to_string(), &port.to_string());
    let ledger = tokio::task::spawn_blocking(move || connect(&url)).await.unwrap().unwrap();
    ledger.open_sale(phones(10, 1)).await.unwrap();
    armed.store(true, std::sync::atomic::Ordering::SeqCst);
    let error = ledger.write(batch(1, 5)).await.unwrap_err();
    assert!(error.is_unavailable() && error.may_have_happened(), "{error:?}");
    let snapshot = ledger.snapshot(&sale()).await.unwrap();
    assert_eq!(snapshot.orders.len(), 5, "it had happened");
    assert_eq!(ledger.write(batch(1, 5)).await.unwrap(), vec![Written::Recorded(Hold); 5]);
    assert_eq!(ledger.snapshot(&sale()).await.unwrap(), snapshot);
}

#[tokio::test]
async fn a_server_without_a_free_connection_is_unavailable_and_says_what_to_raise() {
    let server = PostgresServer::start_with(&[
        "max_connections=6",
        "superuser_reserved_connections=0",
        "max_wal_senders=0",
    ]);
    connect(&server.url()).unwrap().close().await.unwrap();
    let mut others = Vec::new();
    while let Ok((client, connection)) = tokio_postgres::connect(&server.url(), NoTls).await {
        others.push((client, tokio::spawn(connection)));
        assert!(others.len() < 20);
    }
    let error = refused(&server.url());
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.hint_text().unwrap().contains("max_connections"), "{error:?}");
    drop(others);
    let start = Instant::now();
    while let Err(error) = connect(&server.url()) {
        assert!(start.elapsed() < RETRY_BUDGET, "{error:?}");
        // Closed connections need a moment to disappear.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_misconfigured_until_it_does() {
    let server = PostgresServer::start();
    let ledger = connect(&server.url()).unwrap();
    ledger.open_sale(phones(10, 1)).await.unwrap();
    let operator = raw(&server).await;
    operator.batch_execute("ALTER SYSTEM SET default_transaction_read_only = on").await.unwrap();
    operator.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let start = Instant::now();
    let error = loop {
        // The server's other processes reload their settings a moment later.
        if let Err(error) = ledger.write(batch(1, 1)).await {
            break error;
        }
        assert!(start.elapsed() < RETRY_BUDGET);
    };
    assert!(error.is_misconfigured() && !error.may_have_happened(), "{error:?}");
    assert!(error.hint_text().unwrap().contains("default_transaction_read_only"), "{error:?}");
    assert!(refused(&server.url()).is_misconfigured());
    operator.batch_execute("SET default_transaction_read_only = off").await.unwrap();
    operator.batch_execute("ALTER SYSTEM RESET default_transaction_read_only").await.unwrap();
    operator.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    while ledger.write(batch(1, 1)).await.is_err() {
        assert!(start.elapsed() < RETRY_BUDGET);
    }
}

#[tokio::test]
async fn a_statement_that_waits_too_long_is_given_up_and_nothing_was_written() {
    let bench = Bench::postgres();
    let url = bench.url();
    let ledger = connect(&format!("{url}&statement_timeout=200")).unwrap();
    ledger.open_sale(phones(10, 1)).await.unwrap();
    let other = Raw::connect(&url).await;
    other.hold_writers_up().await;
    let error = ledger.write(batch(1, 3)).await.unwrap_err();
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    assert!(error.hint_text().unwrap().contains("statement_timeout"), "{error:?}");
    other.let_go().await;
    assert!(ledger.snapshot(&sale()).await.unwrap().orders.is_empty());
    assert_eq!(ledger.write(batch(1, 3)).await.unwrap(), vec![Written::Recorded(Hold); 3]);
}

/// The schema fails on demand with the SQLSTATE in the table `wanted`.
#[tokio::test]
async fn every_kind_of_fault_is_distinguished_by_its_state() {
    let bench = Bench::postgres();
    let url = bench.url();
    let ledger = connect(&url).unwrap();
    ledger.open_sale(phones(10, 1)).await.unwrap();
    let other = Raw::connect(&url).await;
    let fail = "CREATE TABLE wanted (state text);
        CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            RAISE EXCEPTION 'on demand' USING ERRCODE = (SELECT state FROM wanted);
        END $$;
        CREATE TRIGGER fails BEFORE INSERT ON orders FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0)
        EXECUTE FUNCTION fail();";
    other.execute(fail).await.unwrap();
    for (state, kind) in [
        ("53100", "full"),
        ("53200", "unavailable"),
        ("53300", "unavailable"),
        ("57014", "unavailable"),
        ("40001", "unavailable"),
        ("40P01", "unavailable"),
        ("55P03", "unavailable"),
        ("58030", "unavailable"),
        ("08006", "unavailable"),
        ("25006", "misconfigured"),
        ("42501", "misconfigured"),
        ("42P01", "misconfigured"),
        ("XX001", "corrupt"),
        ("22012", "bug"),
        ("23514", "bug"),
    ] {
        other.execute(&format!("DELETE FROM wanted; INSERT INTO wanted VALUES ('{state}')")).await.unwrap();
        let error = ledger.write(batch(1, 2)).await.unwrap_err();
        assert_eq!(error.code(), kind, "{state}: {error:?}");
        assert!(!error.may_have_happened(), "{state}: {error:?}");
        assert!(error.is_bug() || error.hint_text().is_some(), "{state}: {error:?}");
    }
    other.execute("DROP TRIGGER fails ON orders").await.unwrap();
    assert_eq!(ledger.write(batch(1, 2)).await.unwrap(), vec![Written::Recorded(Hold); 2]);
}

#[tokio::test]
async fn a_server_that_cannot_be_used_is_refused_in_words_that_help() {
    let mut server = PostgresServer::start();
    let missing = refused(&format!("{}nowhere", server.url()));
    assert!(missing.is_misconfigured() && missing.to_string().contains("does not exist"), "{missing:?}");
    let hba = server.directory().join("data/pg_hba.conf");
    std::fs::write(&hba, "host all all 127.0.0.1/32 scram-sha-256\n").unwrap();
    let operator = raw(&server).await;
    operator.batch_execute("ALTER USER postgres PASSWORD 'hunter2'; SELECT pg_reload_conf()").await.unwrap();
    let url = server.url();
    let with = |password: &str| url.replace("postgres@", &format!("postgres:{password}@"));
    for url in [url.clone(), with("hunter3")] {
        let error = refused(&url);
        assert!(error.is_misconfigured(), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter3"), "{error:?}");
    }
    let ledger = connect(&with("hunter2")).unwrap();
    assert!(!format!("{:?} {}", ledger.info(), ledger.info().url).contains("hunter2"));
    server.stop();
    let down = refused(&with("hunter2"));
    assert!(down.is_unavailable() && !format!("{down} {down:?}").contains("hunter2"), "{down:?}");
}

#[tokio::test]
async fn a_newer_schema_and_another_programs_are_left_alone() {
    let bench = Bench::postgres();
    let url = bench.url();
    connect(&url).unwrap().close().await.unwrap();
    let other = Raw::connect(&url).await;
    other.execute("INSERT INTO schema_version (version) VALUES (999)").await.unwrap();
    let error = refused(&url);
    assert!(error.is_misconfigured() && error.to_string().contains("999"), "{error}");

    let url = bench.url();
    let schema = url.split_once("schema=").unwrap().1;
    other.execute(&format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.note (text text)")).await.unwrap();
    let error = refused(&url);
    assert!(error.is_misconfigured() && error.to_string().contains("another program"), "{error}");
    let other = Raw::connect(&url).await;
    assert_eq!(other.count(&format!("pg_tables WHERE schemaname = '{schema}'")).await, 1);
}

/// Ledgers of two processes write the same orders, in opposite directions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_the_same_orders_never_wait_in_a_circle() {
    let server = PostgresServer::start();
    let (one, two) = (connect(&server.url()).unwrap(), connect(&server.url()).unwrap());
    one.open_sale(phones(100_000, 1_000)).await.unwrap();
    let work = [one.clone(), two].into_iter().enumerate().map(|(at, ledger)| {
        tokio::spawn(async move {
            for round in 0..40_u32 {
                let mut entries = Vec::new();
                for n in round * 100 + 1..=round * 100 + 100 {
                    let units = [n * 3, n * 3 - 1];
                    entries.push(order(
                        n,
                        &format!("buyer-{}", n % 97),
                        &units,
                        [Hold, Confirm][n as usize % 2],
                    ));
                }
                if at == 1 {
                    entries.reverse();
                }
                ledger.write(entries).await.unwrap();
            }
        })
    });
    for writer in work.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_sound(&one.snapshot(&sale()).await.unwrap());
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'";
    let row = raw(&server).await.query_one(deadlocks, &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
}

/// What another connection sees of the ledger's connections.
async fn seen(operator: &Client, what: &str) -> i64 {
    operator.query_one(&format!("SELECT count(*) FROM {what}"), &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_and_readers_of_one_process_have_its_pool_and_no_more() {
    const POOL: i64 = 3;
    let server = PostgresServer::start();
    let ledger = connect(&format!("{}?pool={POOL}", server.url())).unwrap();
    ledger.open_sale(phones(100_000, 1)).await.unwrap();
    let operator = raw(&server).await;
    let all_at_work = async {
        let ours = "pg_stat_activity WHERE application_name = 'rushgate'";
        while seen(&operator, &format!("{ours} AND state <> 'idle'")).await < POOL {}
        // All connections are busy, and more work is waiting.
        seen(&operator, ours).await
    };
    let work = (0..12_u32).map(|who| {
        let ledger = &ledger;
        async move {
            for round in 0_u32.. {
                match who % 2 {
                    0 => drop(write_through(&**ledger, batch(who * 8_000 + round % 20 * 20 + 1, 20)).await),
                    _ => assert_sound(&ledger.snapshot(&sale()).await.unwrap()),
                }
            }
        }
    });
    let work = futures_util::future::join_all(work);
    let connections = tokio::select! {
        found = tokio::time::timeout(RETRY_BUDGET, all_at_work) => found.expect("they work side by side"),
        _ = work => unreachable!("the workers never finish"),
    };
    assert_eq!(connections, POOL);
}

/// Number of locks on the sale that are granted, or waited for.
async fn locks(other: &Raw, mode: &str, granted: bool) -> i64 {
    let schemas = "classid = hashtext('rushgate ' || current_schema())::oid";
    other
        .count(&format!(
            "pg_locks WHERE locktype = 'advisory' AND {schemas} AND mode = '{mode}' AND granted = {granted}"
        ))
        .await
}

async fn until_locked(other: &Raw, mode: &str, granted: bool) {
    let start = Instant::now();
    while locks(other, mode, granted).await == 0 {
        assert!(start.elapsed() < RETRY_BUDGET, "{mode}, {granted}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_are_written_under_a_lock_that_they_share_and_a_change_of_stock_has_alone() {
    let bench = Bench::postgres();
    let url = bench.url();
    let ledger = connect(&url).unwrap();
    ledger.open_sale(phones(10, 1)).await.unwrap();
    let (other, looker) = (Raw::connect(&url).await, Raw::connect(&url).await);

    other.hold_writers_up().await;
    let writing = ledger.write(batch(1, 3));
    until_locked(&looker, "ShareLock", true).await;
    let changing = ledger.write(vec![stock(12, &[], 1)]);
    until_locked(&looker, "ExclusiveLock", false).await;
    assert_eq!(locks(&looker, "ExclusiveLock", true).await, 0, "it waits for the writers");
    other.let_go().await;
    assert_eq!(writing.await.unwrap(), vec![Written::Recorded(Hold); 3]);
    changing.await.unwrap();

    other.execute("BEGIN; LOCK TABLE sku IN SHARE ROW EXCLUSIVE MODE").await.unwrap();
    let changing = ledger.write(vec![stock(13, &[], 1)]);
    until_locked(&looker, "ExclusiveLock", true).await;
    let writing = ledger.write(batch(4, 2));
    until_locked(&looker, "ShareLock", false).await;
    assert_eq!(locks(&looker, "ShareLock", true).await, 0, "no writer runs concurrently");
    other.let_go().await;
    changing.await.unwrap();
    assert_eq!(writing.await.unwrap(), vec![Written::Recorded(Hold); 2]);
    assert_eq!(locks(&looker, "ShareLock", true).await + locks(&looker, "ExclusiveLock", true).await, 0);
}

#[tokio::test]
async fn a_batch_is_a_few_statements_however_long_it_is() {
    let bench = Bench::postgres();
    let ledger = bench.ledger(10_000, 1).await;
    ledger.write(batch(9_000, 1)).await.unwrap();
    let spent = |before: LedgerCalls, now: LedgerCalls| {
        (now.transactions - before.transactions, now.statements - before.statements)
    };
    for n in [1, 50, 1_000] {
        let before = ledger.counters();
        ledger.write(batch(n * 3, n)).await.unwrap();
        let (transactions, statements) = spent(before, ledger.counters());
        assert!(transactions == 1 && statements <= 8, "{statements} statements for {n} orders");
    }
    // One offending entry costs logarithmic, not linear, time.
    let before = ledger.counters();
    let mut entries = batch(5_000, 512);
    entries[300] = order(99_999, "buyer-9000", &[9_999], Hold);
    let written = ledger.write(entries).await.unwrap();
    assert_eq!(written.iter().filter(|written| **written == Written::Recorded(Hold)).count(), 511);
    let (transactions, statements) = spent(before, ledger.counters());
    assert!(transactions == 1 && statements < 150, "{statements}");
}

#[tokio::test]
async fn a_ledger_says_what_it_is() {
    let bench = Bench::postgres();
    let info = bench.ledger(1, 1).await.info();
    assert_eq!(info.durability, Durability::D2);
    assert!(info.server.starts_with("PostgreSQL 15"), "{}", info.server);
    assert!(info.url.starts_with("postgres://postgres@127.0.0.1:"), "{}", info.url);
    let unsynced = PostgresServer::start_with(&["fsync=off", "synchronous_commit=off"]);
    assert_eq!(connect(&unsynced.url()).unwrap().info().durability, Durability::D1);
}

fn make_certificate(directory: &Path, name: &str, owner: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(directory.join(format!("{name}.key")))
        .arg("-out")
        .arg(directory.join(format!("{name}.crt")))
        .output()
        .unwrap_or_else(|error| panic!("openssl is needed for this test ({error}): apt-get install openssl"));
    assert!(made.status.success(), "{made:?}");
    let user = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(owner).unwrap());
    for end in ["key", "crt"] {
        let path = directory.join(format!("{name}.{end}"));
        std::os::unix::fs::chown(&path, Some(user), None).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
}

#[tokio::test]
async fn a_connection_is_encrypted_and_the_certificate_checked_as_the_url_asks() {
    let mut server = PostgresServer::start();
    let directory = server.directory().to_owned();
    make_certificate(&directory, "server", &directory);
    make_certificate(&directory, "other", &directory);
    let with = |options: &str| format!("{}?{options}", server.url());
    // A server without TLS: `prefer` connects without it, `require` fails.
    connect(&with("sslmode=prefer")).unwrap();
    assert!(refused(&with("sslmode=require&sslrootcert=server.crt")).is_misconfigured());
    let root = |name: &str| format!("sslrootcert={}", directory.join(name).display());
    assert!(refused(&with(&format!("sslmode=require&{}", root("server.crt")))).is_misconfigured());

    server.stop();
    let (cert, key) = (directory.join("server.crt"), directory.join("server.key"));
    server.start_with_also(&format!("ssl_cert_file={}", cert.display()));
    server.stop();
    server.start_with_also(&format!("ssl_key_file={}", key.display()));
    server.stop();
    server.start_with_also("ssl=on");
    let with = |options: &str| format!("{}?{options}", server.url());
    let (ours, others) = (root("server.crt"), root("other.crt"));
    for (options, encrypted) in [
        (format!("sslmode=require&{ours}"), true),
        ("sslmode=prefer".to_owned(), true),
        ("sslmode=disable".to_owned(), false),
    ] {
        let ledger = connect(&with(&options)).unwrap();
        ledger.ping().await.unwrap();
        let sql = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                   WHERE application_name = 'rushgate'";
        let row = raw(&server).await.query_one(sql, &[]).await.unwrap();
        assert_eq!(row.get::<_, bool>(0), encrypted, "{options}");
        ledger.close().await.unwrap();
        gone(&server).await;
    }
    for options in [format!("sslmode=require&{others}"), others, "sslmode=require".to_owned()] {
        let error = refused(&with(&options));
        assert!(error.is_misconfigured(), "{options}: {error:?}");
    }
}

/// Waits until the server has noticed that the ledgers' connections are closed.
async fn gone(server: &PostgresServer) {
    let client = raw(server).await;
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rushgate'";
    while client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_call_that_was_answered_is_there_for_every_other_client() {
    let bench = Bench::postgres();
    let url = bench.url();
    let (one, two) = (connect(&url).unwrap(), connect(&url).unwrap());
    one.open_sale(phones(2, 1)).await.unwrap();
    assert_eq!(write_one(&*one, order(1, "ann", &[1], Hold)).await, Written::Recorded(Hold));
    assert_eq!(write_one(&*two, order(1, "ann", &[1], Confirm)).await, Written::Recorded(Confirm));
    assert_eq!(one.snapshot(&sale()).await.unwrap().orders[0].id, id(1));
}

#[tokio::test]
async fn a_role_for_reports_reads_the_orders_and_not_the_secret() {
    let server = PostgresServer::start();
    let ledger = connect(&server.url()).unwrap();
    let told = phones(10, 2);
    let spec = SaleSpec {
        id: told.sale.clone(),
        skus: told.skus.clone(),
        hold: HoldTime::new(Duration::from_secs(300)).unwrap(),
        opens_at: None,
        closes_at: None,
        metadata: String::new(),
        ledger: false,
        secret: SaleSecret::from_bytes([7; 16]),
    };
    ledger.open_sale(LedgerSale { spec: Some(spec.clone()), ..told }).await.unwrap();
    write_one(&*ledger, order(1, "ann", &[1], Confirm)).await;
    assert_eq!(ledger.find_sale(&sale()).await.unwrap().unwrap().spec, Some(spec));
    let docs = include_str!("../../../../docs/servers.md");
    let grants = docs.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let admin = raw(&server).await;
    admin.batch_execute(grants).await.unwrap();
    admin.batch_execute("SET ROLE reports; SET search_path TO rushgate").await.unwrap();
    for table in ["sale", "sku", "withdrawn", "orders", "order_unit", "refusal"] {
        admin.execute(&format!("SELECT * FROM {table}"), &[]).await.unwrap();
    }
    let refused = admin.execute("SELECT * FROM sale_secret", &[]).await.unwrap_err();
    assert_eq!(refused.code(), Some(&tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE), "{refused}");
    let spec: String = admin.query_one("SELECT spec FROM sale", &[]).await.unwrap().get(0);
    assert!(!spec.contains("secret") && !spec.contains("0707"), "{spec}");
}
