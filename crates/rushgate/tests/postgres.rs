//! A sale whose orders go to a Postgres server that comes and goes.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Bench, eventually, ms, secs};
use rushgate::{
    BuyerId, CancellationToken, Decision, HoldState, IdempotencyKey, Line, OrderWorker, Reserved, Sale,
    SaleBuilder, Sku, connect_ledger,
};
use rushgate_testkit::servers::PostgresServer;
use tokio::time::timeout;

async fn hold(sale: &Sale, n: u32) -> rushgate::Hold {
    let buyer = BuyerId::new(format!("buyer-{n}")).unwrap();
    let cart = [Line { sku: Sku::new("phone").unwrap(), quantity: 1 }];
    match sale.reserve(&buyer, &cart, &IdempotencyKey::new("click").unwrap()).await.unwrap() {
        Reserved::Reserved(hold) => hold,
        other => panic!("{other:?}"),
    }
}

/// Twenty reservations from `first` on: half are confirmed, a quarter called off, the rest held.
async fn trade(sale: &Sale, first: u32) {
    for n in first..first + 20 {
        let held = hold(sale, n).await;
        let decision = match n % 4 {
            0 | 1 => sale.confirm(held.id).await.unwrap(),
            2 => sale.cancel(held.id).await.unwrap(),
            _ => continue,
        };
        assert!(matches!(decision, Decision::Pending(_)), "the ledger has the last word: {decision:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_outages_of_the_ledger_reservations_go_on_and_no_order_is_lost_or_doubled() {
    timeout(secs(120), outages()).await.expect("it should not take so long");
}

async fn outages() {
    let mut server = PostgresServer::start();
    let bench = Bench::sqlite();
    let gate = bench.client();
    gate.create_sale(SaleBuilder::new("phones").sku("phone", 500, 1).hold(secs(600)).orders("orders"))
        .await
        .unwrap();
    let sale = gate.sale("phones").unwrap();
    sale.open().await.unwrap();
    let ledger = connect_ledger(&server.url()).unwrap();
    let shutdown = CancellationToken::new();
    let worker = OrderWorker::new(sale.clone(), Arc::clone(&ledger)).batch(16).lease(ms(700));
    let worker = tokio::spawn(worker.run(shutdown.clone()));
    let orders = gate.queue("orders").unwrap();

    for round in 0..3 {
        // The server goes while orders are on their way, and sales go on without it.
        trade(&sale, round * 100).await;
        server.stop();
        trade(&sale, round * 100 + 20).await;
        let late = hold(&sale, round * 100 + 60).await;
        sale.confirm(late.id).await.unwrap();
        let waiting = sale.wait_final(late.id, ms(50)).await.unwrap().unwrap();
        assert_eq!(waiting.state, HoldState::Confirming, "decided, and not committed");
        let stats = orders.stats().await.unwrap();
        assert!(stats.ready + stats.leased + stats.scheduled > 0, "its orders wait");

        server.start_again();
        let late = sale.wait_final(late.id, Duration::from_secs(30)).await.unwrap().unwrap();
        assert_eq!(late.state, HoldState::Confirmed);
    }
    let is_empty = async || {
        let stats = orders.stats().await.unwrap();
        stats.ready + stats.scheduled + stats.leased == 0
    };
    eventually(is_empty).await;
    shutdown.cancel();
    let report = worker.await.unwrap().unwrap();
    assert!(report.outages > 0 && report.tasks.dead == 0 && report.lost_writes == 0, "{report:?}");
    let audit = sale.audit(Some(&*ledger)).await.unwrap();
    assert!(audit.ok, "{audit:#?}");
    let sku = sale.state().await.unwrap().skus[0].clone();
    // 3 × 40 reservations by four, and three that came late.
    assert_eq!((sku.confirmed, sku.held, sku.free), (63, 30, 407));
}
