//! Order workers in several processes, and what wakes the followers of a sale.

use std::time::Duration;

use crate::common::{fresh, op, sale, spec, store, token, wish};
use rushgate_core::{
    Failure, Follow, Followed, Lease, LedgerEntry, OrderBatch, OrderIntent, Rebuilt, SaleSpec, Stocktake,
    Store, Switch, Verbs,
};
use rushgate_sqlite::SqliteStore;

/// Longer than any notification takes.
const SOON: Duration = Duration::from_secs(10);
/// Long enough to notice a notification that should not arrive.
const MOMENT: Duration = Duration::from_millis(200);

async fn open(store: &SqliteStore) {
    store.create(spec(10)).await.unwrap();
    store.open(&sale("s")).await.unwrap();
}

/// The first request of a worker, which has nothing to report.
fn follow(worker: u64) -> Follow {
    Follow {
        sale: sale("s"),
        worker: token(worker),
        generation: 0,
        through: 0,
        failed: Vec::new(),
        recovered: Vec::new(),
        n: 100,
        lease: Lease::new(Duration::from_secs(60)).unwrap(),
    }
}

fn batch(followed: Followed) -> OrderBatch {
    match followed {
        Followed::Batch(batch) => batch,
        Followed::Busy { until } => panic!("another worker follows the sale until {until:?}"),
    }
}

#[tokio::test]
async fn a_follower_is_notified_of_the_sales_of_another_process() {
    let (_folder, path) = fresh();
    // Two stores in one process see each other as two processes do.
    let (here, there) = (store(&path), store(&path));
    open(&here).await;
    let follower = here.next_sale_event(&sale("s"), 1);
    let mut unchanged = here.next_sale_event(&sale("s"), 1);
    there.create(SaleSpec { id: sale("other"), ..spec(10) }).await.unwrap();
    there.open(&sale("other")).await.unwrap();
    let woken = tokio::time::timeout(MOMENT, &mut unchanged).await;
    assert!(woken.is_err(), "woken by another sale: {woken:?}");
    there.reserve(wish("ann")).await.unwrap();
    for follower in [follower, unchanged] {
        tokio::time::timeout(SOON, follower).await.expect("no notification of the reservation").unwrap();
    }
}

#[tokio::test]
async fn an_idle_worker_that_renews_its_lease_wakes_nobody() {
    let (_folder, path) = fresh();
    let (here, there) = (store(&path), store(&path));
    open(&here).await;
    let (own, other) = (here.next_sale_event(&sale("s"), 1), there.next_sale_event(&sale("s"), 1));
    for _ in 0..2 {
        assert_eq!(batch(here.follow_orders(follow(1)).await.unwrap()).entries, []);
    }
    for follower in [own, other] {
        let woken = tokio::time::timeout(MOMENT, follower).await;
        assert!(woken.is_err(), "woken by a lease: {woken:?}");
    }
}

#[tokio::test]
async fn a_worker_finds_the_position_of_another_process() {
    let (_folder, path) = fresh();
    let (here, there) = (store(&path), store(&path));
    open(&here).await;
    for buyer in ["ann", "bob"] {
        here.reserve(wish(buyer)).await.unwrap();
    }
    let first = batch(here.follow_orders(follow(1)).await.unwrap());
    assert_eq!((first.entries.len(), first.through, first.latest), (2, 3, 3));
    assert!(matches!(there.follow_orders(follow(2)).await.unwrap(), Followed::Busy { .. }));

    let reason = "the ledger refused it".to_owned();
    let failed = vec![Failure { seq: 2, attempts: 1, reason, retry_after: Duration::from_secs(3_600) }];
    let report = Follow { generation: 1, through: 3, failed, n: 0, ..follow(1) };
    here.follow_orders(report).await.unwrap();
    here.close().await.unwrap();
    there.close().await.unwrap();

    let again = store(&path);
    let orders = again.sale(&sale("s")).await.unwrap().orders.unwrap();
    assert_eq!((orders.through, orders.failed, orders.worker_until), (3, 1, None));
    assert_eq!(batch(again.follow_orders(follow(2)).await.unwrap()).entries, []);
    assert_eq!(again.retry_orders(&sale("s")).await.unwrap(), 1);
    let [retried] = &batch(again.follow_orders(follow(2)).await.unwrap()).entries[..] else {
        panic!("the failed entry is due");
    };
    assert_eq!((retried.seq, retried.attempts), (2, 1));
    assert!(matches!(
        &retried.entry,
        LedgerEntry::Reservation { buyer, intent: OrderIntent::Hold, .. } if buyer.as_str() == "ann"
    ));
}

/// In memory, because a store on a file has a thread that would notice it as well.
#[tokio::test]
async fn a_rebuild_wakes_followers_when_it_replaces_the_sale() {
    let store = SqliteStore::open("sqlite::memory:").unwrap();
    open(&store).await;
    let (by, id) = (op(1), sale("s"));
    store.begin_rebuild(by, &id).await.unwrap();
    let halted = store.sale(&id).await.unwrap().seq;
    assert_eq!(halted, 2);
    let mut follower = store.next_sale_event(&id, halted);
    // Events of the data that a rebuild has loaded are not events of the sale yet.
    store.begin_rebuild(op(2), &id).await.unwrap();
    let woken = tokio::time::timeout(MOMENT, &mut follower).await;
    assert!(woken.is_err(), "woken by loaded data: {woken:?}");

    let stock = vec![Stocktake { total: 10, handed_out: 0, ahead: 0 }];
    let switch = Switch { generation: 2, grace: Duration::ZERO, stock };
    assert_eq!(store.switch(op(2), &id, switch).await.unwrap(), Rebuilt::Done);
    tokio::time::timeout(SOON, follower).await.expect("no notification of the switch").unwrap();
    assert_eq!(store.sale(&id).await.unwrap().seq, 1);
}
