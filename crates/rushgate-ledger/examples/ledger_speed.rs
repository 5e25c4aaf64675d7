//! Measures how many orders per second a ledger records: holds, then their confirmations, in batches.
//!
//! Usage: `cargo run --profile dist -p rushgate-ledger --example ledger_speed -- [ORDERS] [BATCH] [CALLERS] [PER_BUYER]
//! [URL]`. Default URL: a temporary file. Each run creates its own sale.

use std::sync::Arc;
use std::time::Instant;

use rushgate_core::{BuyerId, LedgerEntry, OrderIntent, ReservationId, SaleId, Sku, SkuSpec};
use rushgate_ledger::{Ledger, LedgerSale, Written, connect};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u32| args.next().map_or(Ok(default), |text| text.parse());
    let (orders, batch, callers, per_buyer) = (number(200_000)?, number(500)?, number(2)?, number(1)?);
    let directory = tempfile::tempdir()?;
    let scratch = || format!("sqlite:{}", directory.path().join("orders.db").display());
    let ledger = connect(&args.next().unwrap_or_else(scratch))?;
    let sale = SaleId::new(format!("rush-{}", std::process::id()))?;
    let skus = vec![SkuSpec { sku: Sku::new("phone")?, units: orders, per_buyer }];
    ledger.open_sale(LedgerSale { sale: sale.clone(), generation: 1, skus, spec: None }).await?;
    for intent in [OrderIntent::Hold, OrderIntent::Confirm, OrderIntent::Confirm] {
        let before = ledger.counters();
        let start = Instant::now();
        let work = (0..callers).map(|caller| {
            let batches = (1..=orders).collect::<Vec<_>>();
            let batches = batches.chunks(batch as usize).skip(caller as usize).step_by(callers as usize);
            tokio::spawn(send(
                ledger.clone(),
                sale.clone(),
                batches.map(<[u32]>::to_vec).collect(),
                intent,
                per_buyer,
            ))
        });
        for caller in work.collect::<Vec<_>>() {
            caller.await??;
        }
        report(intent, orders, start.elapsed().as_secs_f64(), &before, &*ledger);
    }
    ledger.close().await?;
    Ok(())
}

async fn send(
    ledger: Arc<dyn Ledger>,
    sale: SaleId,
    batches: Vec<Vec<u32>>,
    intent: OrderIntent,
    per_buyer: u32,
) -> Outcome<()> {
    for batch in batches {
        let entries =
            batch.into_iter().map(|n| order(&sale, n, intent, per_buyer)).collect::<Outcome<Vec<_>>>()?;
        let written = ledger.write(entries).await?;
        if written.iter().any(|written| *written != Written::Recorded(intent)) {
            return Err(format!("not every order was recorded: {:?}", written.first()).into());
        }
    }
    Ok(())
}

fn order(sale: &SaleId, n: u32, intent: OrderIntent, per_buyer: u32) -> Outcome<LedgerEntry> {
    let mut id = [0; 16];
    // Spread the IDs, which are hashes in production, so that the index is filled realistically.
    id[..8].copy_from_slice(&u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    Ok(LedgerEntry::Reservation {
        sale: sale.clone(),
        generation: 1,
        seq: n.into(),
        id: ReservationId::from_bytes(id),
        buyer: BuyerId::new(format!("buyer-{}", n.wrapping_mul(2_654_435_761) % (u32::MAX / per_buyer)))?,
        units: vec![(Sku::new("phone")?, n)],
        intent,
    })
}

#[expect(clippy::print_stdout, reason = "the figures are what this program is for")]
fn report(
    intent: OrderIntent,
    orders: u32,
    seconds: f64,
    before: &rushgate_ledger::LedgerCalls,
    ledger: &dyn Ledger,
) {
    let now = ledger.counters();
    println!(
        "{intent:?}: {:.0} orders/s; {} transactions, {:.2} statements per order, database at work {:.0} % of the time",
        f64::from(orders) / seconds,
        now.transactions - before.transactions,
        (now.statements - before.statements) as f64 / f64::from(orders),
        (now.busy_us - before.busy_us) as f64 / seconds / 10_000.0,
    );
}
