//! `rushgate sale work`: writes orders to the ledger, and expires holds.

use std::time::Duration;

use anyhow::{Context, Result};
use rushgate::sale::{OrderReport, SaleState, Sweeper};
use rushgate::store::Page;
use rushgate::{CancellationToken, OrderWorker, Rushgate, Sale, Timestamp};
use serde_json::json;
use tokio::time::sleep;

use crate::args::sale::WorkArgs;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::log;
use crate::output::{Output, counted};
use crate::signals::Signals;

/// Interval for checking whether orders are left.
const EMPTY_CHECK: Duration = Duration::from_millis(50);
/// Maximum number of failed orders that one call lists.
const FAILED_MAX: u32 = 1_000;
/// Time after a rebuild during which only receipts are honored.
const RECEIPTS_FIRST: Duration = Duration::from_secs(5);

pub(super) async fn work(client: &Rushgate, args: WorkArgs, globals: &Globals) -> Result<Exit> {
    let output = globals.output;
    log::show(output);
    let sale = client.sale(&args.id)?;
    let state = sale.state().await?;
    tell_halted(&state, output);
    let has_ledger = state.spec.ledger;
    let (shutdown, second_signal) = Signals::listen().context("cannot listen for signals")?.cancels();
    let all = async {
        tokio::try_join!(
            carry(&sale, has_ledger, args.rebuild, globals, &shutdown),
            async { Ok(Sweeper::new(sale.clone()).run(shutdown.clone()).await?) },
            until_empty(&sale, args.until_empty, &shutdown),
        )
    };
    let (orders, swept, left) = tokio::select! {
        done = all => done?,
        _ = second_signal => return Ok(Exit::Done),
    };
    let json = json!({
        "written": orders.written, "settled": orders.settled, "rejected": orders.rejected,
        "failed": orders.failed, "batches": orders.batches, "lost_writes": orders.lost_writes, "expired": swept.expired,
    });
    let entries = if orders.written == 1 { "entry" } else { "entries" };
    let text = format!(
        "{} {entries} written to the ledger, {} settled, {} rejected, {} failed, {} expired",
        orders.written,
        counted(orders.settled, "reservation"),
        orders.rejected,
        counted(orders.failed, "attempt"),
        counted(swept.expired, "hold"),
    );
    output.line(&json, text)?;
    if left > 0 {
        output.note(format_args!(
            "{} left: `rushgate sale orders ls {}` says why",
            counted(left.into(), "failed order"),
            args.id
        ));
    }
    // A store that is away now has answered before.
    let halted = sale.state().await.is_ok_and(|state| state.halted.is_some());
    Ok(Exit::done_if(orders.lost_writes == 0 && left == 0 && !halted))
}

/// A halted sale sells nothing, which the orders do not show.
fn tell_halted(state: &SaleState, output: Output) {
    if state.halted.is_some() {
        let id = &state.spec.id;
        output.warn(format_args!(
            "the sale is halted and sells nothing; resume it with: rushgate sale rebuild {id}"
        ));
    }
}

async fn carry(
    sale: &Sale,
    has_ledger: bool,
    rebuilds: bool,
    globals: &Globals,
    shutdown: &CancellationToken,
) -> Result<OrderReport> {
    if !has_ledger {
        globals.output.note("the sale has no ledger; only expired holds are released");
        return Ok(OrderReport::default());
    }
    let ledger = globals.ledger().await?;
    let mut worker = OrderWorker::new(sale.clone(), ledger.clone());
    if rebuilds {
        worker = worker.auto_rebuild(RECEIPTS_FIRST);
    }
    let report = worker.run(shutdown.clone()).await;
    ledger.close().await?;
    Ok(report?)
}

/// Stops the workers once no order is left, except failed ones that are retried later. Returns their number.
async fn until_empty(sale: &Sale, wanted: bool, shutdown: &CancellationToken) -> Result<u32> {
    while wanted && !shutdown.is_cancelled() {
        let state = sale.state().await?;
        let (through, failed) = state.orders.map_or((state.seq, 0), |orders| (orders.through, orders.failed));
        if through == state.seq && (failed == 0 || !is_due(sale, state.now).await?) {
            shutdown.cancel();
            return Ok(failed);
        }
        sleep(EMPTY_CHECK).await;
    }
    Ok(0)
}

/// Whether a failed order is due, so that the order worker retries it now.
async fn is_due(sale: &Sale, now: Timestamp) -> Result<bool> {
    Ok(sale.failed_orders(Page::first(FAILED_MAX)).await?.iter().any(|order| order.retry_at <= now))
}
