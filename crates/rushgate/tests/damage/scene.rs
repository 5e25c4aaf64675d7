//! A sale with reservations, decisions and stock changes of every kind.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rushgate::queue::Retry;
use rushgate::sale::{Audit, Hold, StockChanged, UnitChoice};
use rushgate::{
    BuyerId, CancellationToken, IdempotencyKey, Ledger, Line, OrderWorker, Queue, Reserved, Rushgate, Sale,
    SaleBuilder, Sku, Timestamp,
};

use crate::common::{eventually, secs};

/// State of the sale at the audit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Holds are undecided; decisions and stock changes are in the order queue.
    Running,
    /// The sale has ended and the ledger is complete.
    Finished,
}

pub struct Scene {
    sale: Sale,
    ledger: Arc<dyn Ledger>,
}

fn cart(lines: &[(&str, u32)]) -> Vec<Line> {
    lines.iter().map(|(sku, quantity)| Line { sku: Sku::new(*sku).unwrap(), quantity: *quantity }).collect()
}

async fn reserve_units(sale: &Sale, who: &str, lines: &[(&str, u32)], choice: UnitChoice) -> Hold {
    let (buyer, key) = (BuyerId::new(who).unwrap(), IdempotencyKey::new("click").unwrap());
    match sale.reserve_units(&buyer, &cart(lines), choice, &key).await.unwrap() {
        Reserved::Reserved(hold) => hold,
        other => panic!("{other:?}"),
    }
}

pub async fn reserve(sale: &Sale, who: &str, lines: &[(&str, u32)]) -> Hold {
    reserve_units(sale, who, lines, UnitChoice::Any).await
}

/// Runs an order worker until the order queue is empty.
pub async fn carry(sale: &Sale, ledger: &Arc<dyn Ledger>) {
    let shutdown = CancellationToken::new();
    let worker = tokio::spawn(OrderWorker::new(sale.clone(), Arc::clone(ledger)).run(shutdown.clone()));
    eventually(async || {
        let books = sale.books().await.unwrap();
        books.pending.is_empty()
    })
    .await;
    shutdown.cancel();
    worker.await.unwrap().unwrap();
}

fn from_now(after: Duration, before: Duration) -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_micros((now + after - before).as_micros() as u64)
}

impl Scene {
    /// `orders` is the order queue, with the authority of an order worker.
    pub async fn play(gate: Rushgate, orders: Queue, ledger: Arc<dyn Ledger>, moment: Moment) -> Self {
        let made =
            SaleBuilder::new("launch").sku("phone", 12, 3).sku("case", 6, 2).hold(secs(3)).orders("orders");
        let made = made
            .opens_at(from_now(Duration::ZERO, secs(3_600)))
            .closes_at(from_now(secs(86_400), Duration::ZERO));
        gate.create_sale(made).await.unwrap();
        let sale = gate.sale("launch").unwrap();
        sale.open().await.unwrap();
        let phone = Sku::new("phone").unwrap();

        let ann = reserve(&sale, "ann", &[("phone", 2), ("case", 1)]).await;
        let bob = reserve(&sale, "bob", &[("phone", 1)]).await;
        let cyd = reserve(&sale, "cyd", &[("case", 1)]).await;
        reserve(&sale, "eve", &[("phone", 1)]).await;
        sale.confirm(ann.id).await.unwrap();
        sale.cancel(bob.id).await.unwrap();
        sale.confirm(cyd.id).await.unwrap();
        eventually(async || sale.expire(10).await.unwrap() == 1).await;
        let stock = sale.add_stock(&phone, 3).await.unwrap();
        assert!(matches!(stock, StockChanged::Changed(_)));
        sale.withdraw_stock(&phone, 2).await.unwrap();
        carry(&sale, &ledger).await;

        let dan = reserve(&sale, "dan", &[("phone", 1)]).await;
        let sam = reserve_units(&sale, "sam", &[("phone", 1), ("case", 1)], UnitChoice::SameNumber).await;
        match moment {
            Moment::Running => {
                carry(&sale, &ledger).await;
                // One order waits for a retry, and one is leased.
                reserve(&sale, "ivy", &[("case", 1)]).await;
                let failed = orders.claim(1, secs(20)).await.unwrap().remove(0);
                let (ticket, error) = (failed.ticket, "the ledger refuses".to_owned());
                let retry = Retry { ticket, delay: secs(600), error, give_up: false };
                orders.retry(vec![retry]).await.unwrap();
                let fay = reserve(&sale, "fay", &[("phone", 1)]).await;
                assert_eq!(orders.claim(10, secs(3_600)).await.unwrap().len(), 1);
                let guy = reserve(&sale, "guy", &[("case", 1)]).await;
                reserve(&sale, "hal", &[("phone", 1)]).await;
                sale.confirm(fay.id).await.unwrap();
                sale.cancel(guy.id).await.unwrap();
                // Withdraw from another SKU: a withdrawal lists all numbers up to the highest, which would
                // repair lost ones.
                sale.withdraw_stock(&Sku::new("case").unwrap(), 1).await.unwrap();
            }
            Moment::Finished => {
                sale.confirm(dan.id).await.unwrap();
                sale.confirm(sam.id).await.unwrap();
                sale.end().await.unwrap();
                carry(&sale, &ledger).await;
            }
        }
        let scene = Self { sale, ledger };
        scene.passes().await;
        scene
    }

    pub async fn audit(&self) -> rushgate::Result<Audit> {
        self.sale.audit(Some(&*self.ledger)).await
    }

    pub async fn passes(&self) {
        let audit = self.audit().await.unwrap();
        let failed: Vec<_> = audit.checks.iter().filter(|check| !check.ok).collect();
        assert!(audit.ok, "{failed:#?}");
    }
}
