//! 10 phones, 2,000 buyers, a ledger as the system of record, and an audit.

use std::sync::Arc;
use std::time::Duration;

use rushgate::{
    BuyerId, CancellationToken, IdempotencyKey, Line, OrderWorker, Reserved, Rushgate, SaleBuilder, Sku,
    connect_ledger,
};
use tokio::task::JoinSet;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "an example tells its story")]
async fn main() -> rushgate::Result<()> {
    let dir = tempfile::tempdir().expect("a place for the stores");
    let file = format!("sqlite:{}", dir.path().join("shop.db").display());
    let client = Rushgate::connect(&std::env::var("RUSHGATE_STORE").unwrap_or(file)).await?;
    let file = format!("sqlite:{}", dir.path().join("orders.db").display());
    let ledger = connect_ledger(&std::env::var("RUSHGATE_ORDERS").unwrap_or(file))?;

    client.create_sale(SaleBuilder::new("phones").sku("phone", 10, 1).ledger()).await?;
    let sale = client.sale("phones")?;
    sale.open().await?;
    let shutdown = CancellationToken::new();
    let clerk = tokio::spawn(OrderWorker::new(sale.clone(), Arc::clone(&ledger)).run(shutdown.clone()));

    let (mut crowd, mut sold) = (JoinSet::new(), Vec::new());
    for n in 0..2_000 {
        // 100 at a time, like connections to a server.
        if crowd.len() == 100 {
            sold.extend(crowd.join_next().await);
        }
        let sale = sale.clone();
        crowd.spawn(async move {
            let cart = [Line { sku: Sku::new("phone")?, quantity: 1 }];
            let (buyer, key) = (BuyerId::new(format!("buyer-{n}"))?, IdempotencyKey::new("click-1")?);
            let Reserved::Reserved(hold) = sale.reserve(&buyer, &cart, &key).await? else { return Ok(None) };
            sale.confirm(hold.id).await?;
            sale.wait_final(hold.id, Duration::from_secs(30)).await
        });
    }
    sold.extend(crowd.join_all().await.into_iter().map(Ok));
    let mut phones = Vec::new();
    for answer in sold {
        let hold = answer.expect("no buyer panics")?;
        phones.extend(hold.map(|hold| (hold.units[0].1, hold.buyer)));
    }
    shutdown.cancel();
    clerk.await.expect("the worker does not panic")?;

    phones.sort();
    for (unit, buyer) in &phones {
        println!("phone no. {unit} belongs to {buyer}");
    }
    assert_eq!(phones.len(), 10);
    println!("{:?}", sale.admission_stats());
    let audit = sale.audit(Some(&*ledger)).await?;
    for check in &audit.checks {
        println!("{} {}: {}", if check.ok { "ok  " } else { "FAIL" }, check.claim, check.figures);
    }
    assert!(audit.ok);
    client.close().await
}
