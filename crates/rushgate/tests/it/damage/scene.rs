//! A sale with reservations, decisions and stock changes of every kind.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rushgate::lock::{Lease, Token};
use rushgate::sale::{Audit, Hold, StockChanged, UnitChoice};
use rushgate::store::Store;
use rushgate::{
    BuyerId, CancellationToken, IdempotencyKey, Ledger, Line, OrderWorker, Reserved, Rushgate, Sale,
    SaleBuilder, Sku, Timestamp,
};
use rushgate_core::{Failure, Follow, Followed, OrderBatch, Verbs};

use crate::common::{delivered, eventually, secs};

/// State of the sale at the audit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Holds are undecided; decisions and stock changes are not delivered, and one order has failed.
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

/// Runs an order worker until the ledger has every order.
pub async fn carry(sale: &Sale, ledger: &Arc<dyn Ledger>) {
    let shutdown = CancellationToken::new();
    let worker = tokio::spawn(OrderWorker::new(sale.clone(), Arc::clone(ledger)).run(shutdown.clone()));
    delivered(sale).await;
    shutdown.cancel();
    worker.await.unwrap().unwrap();
}

/// An order worker that says what the test wants.
pub struct Worker<'a> {
    pub store: &'a dyn Store,
    pub sale: &'a Sale,
}

impl Worker<'_> {
    /// Reports the batch before, if any, and reads the next `n` events under a lease of one hour; 0 to give it up.
    pub async fn follow(
        &self,
        before: Option<&OrderBatch>,
        failed: Vec<Failure>,
        recovered: Vec<u64>,
        n: u32,
    ) -> OrderBatch {
        let follow = Follow {
            sale: self.sale.id().clone(),
            worker: Token::from_bytes([7; 16]),
            generation: before.map_or(0, |batch| batch.generation),
            through: before.map_or(0, |batch| batch.through),
            failed,
            recovered,
            n,
            lease: Lease::new(secs(3_600)).unwrap(),
        };
        match self.store.follow_orders(follow).await.unwrap() {
            Followed::Batch(batch) => batch,
            Followed::Busy { .. } => panic!("nobody else follows it"),
        }
    }
}

/// The order of this event could not be recorded.
pub fn failure(seq: u64) -> Failure {
    Failure { seq, attempts: 1, reason: "the ledger refuses".to_owned(), retry_after: secs(600) }
}

fn from_now(after: Duration, before: Duration) -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_micros((now + after - before).as_micros() as u64)
}

impl Scene {
    pub async fn play(store: Arc<dyn Store>, ledger: Arc<dyn Ledger>, moment: Moment) -> Self {
        let client = Rushgate::with_store(Arc::clone(&store));
        let made = SaleBuilder::new("launch").sku("phone", 12, 3).sku("case", 6, 2).hold(secs(3)).ledger();
        let made = made
            .opens_at(from_now(Duration::ZERO, secs(3_600)))
            .closes_at(from_now(secs(86_400), Duration::ZERO));
        client.create_sale(made).await.unwrap();
        let sale = client.sale("launch").unwrap();
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
                // One order has failed, and a worker has read one that it has not delivered yet.
                let worker = Worker { store: &*store, sale: &sale };
                reserve(&sale, "ivy", &[("case", 1)]).await;
                let batch = worker.follow(None, Vec::new(), Vec::new(), 10).await;
                let [failed] = &batch.entries[..] else { panic!("{batch:?}") };
                let batch = worker.follow(Some(&batch), vec![failure(failed.seq)], Vec::new(), 10).await;
                assert!(batch.entries.is_empty(), "{batch:?}");
                // No later event of the first undelivered reservation would make up for it.
                reserve(&sale, "hal", &[("phone", 1)]).await;
                let batch = worker.follow(Some(&batch), Vec::new(), Vec::new(), 10).await;
                assert_eq!(batch.entries.len(), 1, "{batch:?}");
                let fay = reserve(&sale, "fay", &[("phone", 1)]).await;
                let guy = reserve(&sale, "guy", &[("case", 1)]).await;
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
