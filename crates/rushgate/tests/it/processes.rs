//! Guarantees when a whole process is killed or suspended.
//!
//! Each scenario has two processes: the test, and a second instance of this test binary that runs one ignored
//! test and is killed or suspended.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::common::mortal::DiesAfterCommit;
use crate::common::parts::{Lines, path, play, say, signal};
use crate::common::{delivered, in_time};
use rushgate::sale::Decision;
use rushgate::{
    BuyerId, CancellationToken, IdempotencyKey, Line, OrderWorker, Reserved, Rushgate, SaleBuilder, Sku,
    connect_ledger,
};
use rushgate_test::servers::suspend;
use rusqlite::Connection;
use rustix::process::Signal;

fn url(folder: &str, file: &str) -> String {
    format!("sqlite:{folder}/{file}")
}

// ── a worker dies between the ledger's commit and its own acknowledgement ──────────────────────────────────

#[tokio::test]
#[ignore = "a part: started by a_worker_killed_between_commit_and_acknowledgement_does_nothing_twice"]
async fn worker_that_dies_after_the_commit() {
    let folder = path("");
    let client = Rushgate::connect(&url(&folder, "store.db")).await.unwrap();
    let ledger = connect_ledger(&url(&folder, "orders.db")).unwrap();
    let ledger = DiesAfterCommit::new(ledger, Arc::new(AtomicBool::new(true)));
    let worker =
        OrderWorker::new(client.sale("launch").unwrap(), Arc::new(ledger)).lease(Duration::from_millis(300));
    worker.run(CancellationToken::new()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_killed_between_commit_and_acknowledgement_does_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().display().to_string();
    let client = Rushgate::connect(&url(&base, "store.db")).await.unwrap();
    client.create_sale(SaleBuilder::new("launch").sku("phone", 5, 1).ledger()).await.unwrap();
    let sale = client.sale("launch").unwrap();
    sale.open().await.unwrap();
    let cart = [Line { sku: Sku::new("phone").unwrap(), quantity: 1 }];
    let key = IdempotencyKey::new("click").unwrap();
    for number in 0..5 {
        let buyer = BuyerId::new(format!("buyer-{number}")).unwrap();
        let Reserved::Reserved(hold) = sale.reserve(&buyer, &cart, &key).await.unwrap() else {
            panic!("five are left")
        };
        if number < 3 {
            assert!(matches!(sale.confirm(hold.id).await.unwrap(), Decision::Pending(_)));
        }
    }

    let status = play("processes::worker_that_dies_after_the_commit", &folder).wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    let ledger = connect_ledger(&url(&base, "orders.db")).unwrap();
    assert_eq!(ledger.snapshot(sale.id()).await.unwrap().orders.len(), 5, "the ledger had committed");
    assert_eq!(sale.state().await.unwrap().skus[0].confirmed, 0, "the store had not recorded the commit");

    // Another order worker: the dead one's lease expires, the orders are read again, and none is recorded
    // twice.
    let stop = CancellationToken::new();
    let worker = tokio::spawn(OrderWorker::new(sale.clone(), Arc::clone(&ledger)).run(stop.clone()));
    in_time(delivered(&sale)).await;
    stop.cancel();
    let report = worker.await.unwrap().unwrap();
    assert_eq!((report.settled, report.rejected), (3, 0));
    assert_eq!(ledger.snapshot(sale.id()).await.unwrap().orders.len(), 5);
    assert_eq!(sale.state().await.unwrap().skus[0].confirmed, 3);
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
}

// ── a holder is suspended for longer than its lease ────────────────────────────────────────────────────────

const LEASE: Duration = Duration::from_millis(400);

/// The protected resource: one row that rejects a lower fence.
fn account(path: &str) -> Connection {
    let conn = Connection::open(path).unwrap();
    conn.busy_timeout(Duration::from_secs(5)).unwrap();
    conn.execute_batch(
        "CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, writer TEXT, fence INTEGER)",
    )
    .unwrap();
    conn.execute("INSERT OR IGNORE INTO account VALUES (1, 'nobody', 0)", []).unwrap();
    conn
}

fn write(account: &Connection, writer: &str, fence: rushgate::lock::Fence) -> bool {
    let sql = "UPDATE account SET writer = ?1, fence = ?2 WHERE id = 1 AND fence <= ?2";
    account.execute(sql, (writer, fence.as_u64())).unwrap() > 0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a part: started by a_holder_stopped_beyond_its_lease_is_notified_and_its_write_is_refused"]
async fn holder_that_is_stopped() {
    let client = Rushgate::connect(&url(&path(""), "store.db")).await.unwrap();
    let account = account(&path("account.db"));
    let lock = client.lock("account").unwrap().lease(LEASE).label("sleeper");
    let guard = lock.acquire().await.unwrap().held().expect("the lock is free");
    assert!(write(&account, "sleeper", guard.fence()));
    say("holding");
    // The other process suspends this one here; renewal keeps the lock until then.
    let reason = guard.lost().await;
    say(format_args!("lost {reason:?}"));
    say(format_args!("wrote {}", write(&account, "sleeper", guard.fence())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_stopped_beyond_its_lease_is_notified_and_its_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().display().to_string();
    let mut sleeper = play("processes::holder_that_is_stopped", &folder);
    let mut says = Lines::of(&mut sleeper);
    assert_eq!(says.next(), "holding");
    suspend(&sleeper);

    let client = Rushgate::connect(&url(&base, "store.db")).await.unwrap();
    let lock = client.lock("account").unwrap().lease(Duration::from_secs(10)).wait(Duration::from_secs(20));
    let guard = in_time(lock.acquire()).await.unwrap().held().expect("the suspended holder's lease expires");
    let account = account(&folder.path().join("account.db").display().to_string());
    assert!(write(&account, "waiter", guard.fence()), "the new holder's fence is higher");

    signal(&sleeper, Signal::CONT);
    assert!(says.next().starts_with("lost"), "the loss is signaled first");
    assert_eq!(says.next(), "wrote false");
    assert!(sleeper.wait().unwrap().success());
    let writer: String = account.query_row("SELECT writer FROM account", [], |row| row.get(0)).unwrap();
    assert_eq!(writer, "waiter");
    assert!(!guard.is_lost());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a part: started by a_process_is_suspended_while_it_has_no_lock_on_the_file"]
async fn writer_that_is_suspended() {
    let client = Rushgate::connect(&url(&path(""), "store.db")).await.unwrap();
    let lock = client.lock("busy").unwrap();
    say("writes");
    loop {
        lock.acquire().await.unwrap().held().expect("nobody else wants it").release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_is_suspended_while_it_has_no_lock_on_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = play("processes::writer_that_is_suspended", &folder);
    assert_eq!(Lines::of(&mut writer).next(), "writes");
    let client = Rushgate::connect(&url(&folder.path().display().to_string(), "store.db")).await.unwrap();
    for _ in 0..20 {
        suspend(&writer);
        let lock = client.lock("free").unwrap();
        let guard = in_time(lock.acquire()).await.unwrap().held().expect("nobody else wants it");
        guard.release().await.unwrap();
        signal(&writer, Signal::CONT);
    }
}

// ── a buyer's process dies while it holds units ────────────────────────────────────────────────────────────

#[tokio::test]
#[ignore = "a part: started by the_hold_of_a_killed_buyer_comes_back_with_the_same_number"]
async fn buyer_that_is_killed() {
    let client = Rushgate::connect(&url(&path(""), "store.db")).await.unwrap();
    let cart = [Line { sku: Sku::new("phone").unwrap(), quantity: 1 }];
    let (buyer, key) = (BuyerId::new("ann").unwrap(), IdempotencyKey::new("click").unwrap());
    let answer = client.sale("launch").unwrap().reserve(&buyer, &cart, &key).await.unwrap();
    assert!(matches!(answer, Reserved::Reserved(_)));
    say("reserved");
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hold_of_a_killed_buyer_comes_back_with_the_same_number() {
    let folder = tempfile::tempdir().unwrap();
    let client = Rushgate::connect(&url(&folder.path().display().to_string(), "store.db")).await.unwrap();
    let hold = Duration::from_millis(600);
    client.create_sale(SaleBuilder::new("launch").sku("phone", 1, 1).hold(hold)).await.unwrap();
    let sale = client.sale("launch").unwrap();
    sale.open().await.unwrap();
    let mut ann = play("processes::buyer_that_is_killed", &folder);
    assert_eq!(Lines::of(&mut ann).next(), "reserved");
    signal(&ann, Signal::KILL);
    ann.wait().unwrap();

    let cart = [Line { sku: Sku::new("phone").unwrap(), quantity: 1 }];
    let (bob, key) = (BuyerId::new("bob").unwrap(), IdempotencyKey::new("click").unwrap());
    let hold = in_time(async {
        loop {
            match sale.reserve(&bob, &cart, &key).await.unwrap() {
                Reserved::Reserved(hold) => break hold,
                Reserved::AllHeld { .. } => tokio::time::sleep(Duration::from_millis(10)).await,
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    assert_eq!(hold.units, [(Sku::new("phone").unwrap(), 1)]);
    sale.confirm(hold.id).await.unwrap();
    let audit = sale.audit(None).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
}

// ── another client of the same file enqueues a task ────────────────────────────────────────────────────────

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claimer_is_notified_of_a_delayed_task_of_another_client_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder.path().display().to_string(), "store.db");
    let (here, there) = (Rushgate::connect(&url).await.unwrap(), Rushgate::connect(&url).await.unwrap());
    let claimer = {
        let queue = here.queue("mail").unwrap();
        tokio::spawn(
            async move { queue.claim_wait(1, Duration::from_secs(5), Duration::from_secs(25)).await },
        )
    };
    in_time(async {
        // Wait until the claimer has polled once and sleeps without a known due time.
        while here.calls().transactions == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let start = std::time::Instant::now();
    let task = rushgate::queue::Payload::empty();
    there
        .queue("mail")
        .unwrap()
        .enqueue("letter", task)
        .delay(Duration::from_millis(500))
        .send()
        .await
        .unwrap();
    let claimed = in_time(claimer).await.unwrap().unwrap();
    assert_eq!(claimed.len(), 1);
    assert!(start.elapsed() >= Duration::from_millis(500), "claimed before it was due");
    assert!(start.elapsed() < Duration::from_secs(4), "claimed only at the next regular poll");
}
