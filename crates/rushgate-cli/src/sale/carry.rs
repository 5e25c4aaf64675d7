//! `rushgate sale work`: writes orders to the ledger, and expires holds.

use std::time::Duration;

use anyhow::{Context, Result};
use rushgate::queue::QueueName;
use rushgate::sale::{OrderReport, Sweeper};
use rushgate::{CancellationToken, OrderWorker, Rushgate, Sale};
use serde_json::json;
use tokio::time::sleep;

use crate::args::sale::WorkArgs;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::log;
use crate::output::counted;
use crate::signals::Signals;

/// Interval for checking whether orders are left.
const EMPTY_CHECK: Duration = Duration::from_millis(50);
/// Time after a rebuild during which only receipts are honored.
const RECEIPTS_FIRST: Duration = Duration::from_secs(5);

pub(super) async fn work(gate: &Rushgate, args: WorkArgs, globals: &Globals) -> Result<Exit> {
    let output = globals.output();
    log::show(output);
    let sale = gate.sale(&args.id)?;
    let queue = sale.state().await?.spec.orders;
    let (shutdown, second_signal) = Signals::listen().context("cannot listen for signals")?.cancels();
    let all = async {
        tokio::try_join!(
            carry(&sale, queue.as_ref(), args.rebuild, globals, &shutdown),
            async { Ok(Sweeper::new(sale.clone()).run(shutdown.clone()).await?) },
            until_empty(gate, queue.as_ref(), args.until_empty, &shutdown),
        )
    };
    let (orders, swept, ()) = tokio::select! {
        done = all => done?,
        _ = second_signal => return Ok(Exit::Done),
    };
    let json = json!({
        "written": orders.written, "settled": orders.settled, "rejected": orders.rejected,
        "batches": orders.batches, "lost_writes": orders.lost_writes, "expired": swept.expired,
    });
    let entries = if orders.written == 1 { "entry" } else { "entries" };
    let text = format!(
        "{} {entries} written to the ledger, {} settled, {} rejected, {} expired",
        orders.written,
        counted(orders.settled, "reservation"),
        orders.rejected,
        counted(swept.expired, "hold"),
    );
    output.line(&json, text)?;
    Ok(Exit::done_if(orders.lost_writes == 0))
}

async fn carry(
    sale: &Sale,
    queue: Option<&QueueName>,
    rebuilds: bool,
    globals: &Globals,
    shutdown: &CancellationToken,
) -> Result<OrderReport> {
    if queue.is_none() {
        globals.output().note("the sale has no order queue; only expired holds are released");
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

/// Stops the workers once no order is left.
async fn until_empty(
    gate: &Rushgate,
    queue: Option<&QueueName>,
    wanted: bool,
    shutdown: &CancellationToken,
) -> Result<()> {
    while wanted && !shutdown.is_cancelled() {
        let left = match queue {
            Some(queue) => {
                let stats = gate.queue(queue)?.stats().await?;
                stats.ready + stats.scheduled + stats.leased
            }
            None => 0,
        };
        if left == 0 {
            shutdown.cancel();
        } else {
            sleep(EMPTY_CHECK).await;
        }
    }
    Ok(())
}
