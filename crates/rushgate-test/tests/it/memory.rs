//! Programs are tested on the in-memory store: its clock moves on request, and waiting clients notice.

use std::sync::Arc;
use std::time::Duration;

use rushgate::{
    BuyerId, CancellationToken, IdempotencyKey, Job, Line, LockOutcome, Reserved, Rushgate, SaleBuilder, Sku,
    Worker,
};
use rushgate_test::MemoryStore;
use tokio::time::timeout;

const HOUR: Duration = Duration::from_secs(3600);
/// Timeout for anything that is expected to happen. No lease, delay or hold of the tests is shorter.
const RETRY_BUDGET: Duration = Duration::from_secs(30);

fn store() -> (MemoryStore, Rushgate) {
    let store = MemoryStore::new();
    let client = Rushgate::with_store(Arc::new(store.clone()));
    (store, client)
}

#[tokio::test]
async fn a_waiter_gets_the_lock_when_the_clock_passes_the_lease() {
    let (store, client) = store();
    let other = Rushgate::with_store(Arc::new(store.clone()));
    let lock = client.lock("a").unwrap().lease(HOUR);
    std::mem::forget(lock.try_acquire().await.unwrap());
    let waiter = tokio::spawn(async move { other.lock("a").unwrap().wait(2 * HOUR).acquire().await });
    while client.lock("a").unwrap().waiters().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    store.advance(HOUR);
    let outcome = timeout(RETRY_BUDGET, waiter).await.expect("it is notified").unwrap().unwrap();
    assert!(matches!(outcome, LockOutcome::Held(_)));
}

#[tokio::test]
async fn a_worker_runs_a_delayed_task_when_the_clock_passes_its_delay() {
    let (store, client) = store();
    let mail = client.queue_of::<String>("mail").unwrap();
    mail.enqueue("1", "Thank you".to_owned()).delay(HOUR).send().await.unwrap();
    let (done, mut finished) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker::new(&mail).register("*", move |job: Job<String>| {
        let done = done.clone();
        async move { drop(done.send(job.payload)) }
    });
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(worker.run(shutdown.clone()));
    // Its first claim finds nothing, so it sleeps until the task is due.
    let calls = client.calls().calls;
    while client.calls().calls < calls + 1 {
        tokio::task::yield_now().await;
    }
    store.advance(HOUR);
    let text = timeout(RETRY_BUDGET, finished.recv()).await.expect("it is notified");
    assert_eq!(text.as_deref(), Some("Thank you"));
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_reservation_expires_when_the_clock_passes_its_hold() {
    let (store, client) = store();
    client.create_sale(SaleBuilder::new("phones").sku("phone", 1, 1).hold(HOUR)).await.unwrap();
    let sale = client.sale("phones").unwrap();
    sale.open().await.unwrap();
    let cart = [Line { sku: Sku::new("phone").unwrap(), quantity: 1 }];
    let key = IdempotencyKey::new("click").unwrap();
    let (ann, bob) = (BuyerId::new("ann").unwrap(), BuyerId::new("bob").unwrap());
    assert!(matches!(sale.reserve(&ann, &cart, &key).await.unwrap(), Reserved::Reserved(_)));
    assert!(!matches!(sale.reserve(&bob, &cart, &key).await.unwrap(), Reserved::Reserved(_)));
    store.advance(HOUR);
    timeout(RETRY_BUDGET, async {
        // The client's admission cache asks the store again after 50 ms.
        while !matches!(sale.reserve(&bob, &cart, &key).await.unwrap(), Reserved::Reserved(_)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("the unit is free again");
}

#[tokio::test]
async fn a_clock_that_stands_still_makes_expiry_exact() {
    let clock = rushgate_test::ManualClock::default();
    let store = MemoryStore::on(clock);
    let client = Rushgate::with_store(Arc::new(store.clone()));
    let mail = client.queue_of::<String>("mail").unwrap();
    mail.enqueue("1", "Thank you".to_owned()).delay(HOUR).send().await.unwrap();
    store.advance(HOUR - Duration::from_micros(1));
    assert!(mail.claim(1, HOUR).await.unwrap().is_empty());
    store.advance(Duration::from_micros(1));
    assert_eq!(mail.claim(1, HOUR).await.unwrap().len(), 1);
}
