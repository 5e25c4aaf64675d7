//! `rushgate rush`: a sale, a crowd, and the audit.

mod crowd;
mod progress;
mod report;
mod script;
mod stage;
mod tally;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rushgate::{Audit, CancellationToken, Line, OrderReport, OrderWorker, Sku, SweepReport, Sweeper};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::exit::Exit;
use crate::globals::Globals;
use crowd::Plan;
use report::Report;
use stage::Stage;
use tally::Tally;

/// What the crowd wants.
const SKU: &str = "phone";
/// How long the orders that are on their way may take once the crowd has gone.
const DRAIN_MAX: Duration = Duration::from_secs(60);
/// How long an outage may be.
const OUTAGE_MAX: Duration = Duration::from_secs(30);
/// Order tasks of a worker that died come back after so long.
const ORDER_LEASE: Duration = Duration::from_secs(2);

/// Open a sale, send a crowd of buyers, carry out every order, and audit the books.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rushgate rush --stock 10 --buyers 1000000
  rushgate rush --stock 500 --buyers 100000 --per-buyer 2 --seed 7 --json
Several processes in one sale, on one file; start this as often as you like:
  rushgate rush --join launch --store sqlite:launch.db --stock 100 --buyers 200000

Exit status: 0 if the audit holds, 1 if it does not.")]
pub(crate) struct RushArgs {
    /// How many units are for sale.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    stock: u32,
    /// How many buyers come.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    buyers: u64,
    /// How many units one buyer may have.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    per_buyer: u32,
    /// How many buyers are served at the same time.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    concurrency: u32,
    /// How many milliseconds a cart is kept for its buyer.
    #[arg(long, default_value_t = 1_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=3_600_000))]
    hold_ms: u64,
    /// Repeats the crowd of an earlier run.
    #[arg(long)]
    seed: Option<u64>,
    /// Takes part in the sale of this name on --store, and makes it if it is not there.
    #[arg(long, value_name = "SALE", requires = "store")]
    join: Option<String>,
    /// Leaves the files, and says where they are.
    #[arg(long)]
    keep: bool,
}

/// What the workers behind the sale did.
#[derive(Default)]
pub(crate) struct Workers {
    pub(crate) orders: OrderReport,
    pub(crate) sweeps: SweepReport,
}

pub(crate) async fn run(args: RushArgs, globals: &Globals) -> Result<Exit> {
    let seed = args.seed.unwrap_or_else(rand::random);
    let start = Instant::now();
    let stage = Stage::set(&args, globals, seed).await?;
    let stop = stop_on_ctrl_c();
    let workers = start_workers(&stage);
    let tally = Arc::new(Tally::new(args.concurrency as usize));
    let progress = progress::start(&stage, Arc::clone(&tally), globals);
    let wave = crowd::run(plan(&args, &stage, seed, &stop)?, Arc::clone(&tally)).await?;
    if args.join.is_none() {
        patiently(|| stage.sale.end()).await?;
    }
    drain(&stage, &stop).await?;
    progress.finish().await;
    let workers = workers.finish().await?;
    let audit = audit(&stage, &tally, &args, stop.is_cancelled()).await?;
    let report =
        Report::new(&args, &stage, &tally, &workers, audit, seed, wave, start.elapsed(), stop.is_cancelled());
    let report = report.await?;
    report.print(globals)?;
    stage.strike(args.keep, globals).await?;
    Ok(if report.ok() { Exit::Done } else { Exit::Refused })
}

fn plan(args: &RushArgs, stage: &Stage, seed: u64, stop: &CancellationToken) -> Result<Plan> {
    Ok(Plan {
        sale: stage.sale.clone(),
        line: Line { sku: Sku::new(SKU)?, quantity: 1 },
        buyers: args.buyers,
        members: args.concurrency as usize,
        seed,
        patient_max: (args.stock as usize * 2).clamp(1_000, 1_000_000),
        stop: stop.clone(),
    })
}

/// Cancelled by the first Ctrl-C. The second ends the process on the spot.
fn stop_on_ctrl_c() -> CancellationToken {
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            token.cancel();
        }
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(130);
        }
    });
    stop
}

/// The order worker and the sweeper of this process.
struct Running {
    shutdown: CancellationToken,
    orders: Option<JoinHandle<rushgate::Result<OrderReport>>>,
    sweeps: JoinHandle<rushgate::Result<SweepReport>>,
}

fn start_workers(stage: &Stage) -> Running {
    let shutdown = CancellationToken::new();
    let orders = stage.ledger.as_ref().map(|ledger| {
        let worker = OrderWorker::new(stage.sale.clone(), Arc::clone(ledger)).lease(ORDER_LEASE);
        tokio::spawn(worker.run(shutdown.clone()))
    });
    let sweeps = tokio::spawn(Sweeper::new(stage.sale.clone()).run(shutdown.clone()));
    Running { shutdown, orders, sweeps }
}

impl Running {
    async fn finish(self) -> Result<Workers> {
        self.shutdown.cancel();
        let sweeps = self.sweeps.await?.context("the sweeper stopped")?;
        let orders = match self.orders {
            Some(orders) => orders.await?.context("the order worker stopped")?,
            None => OrderReport::default(),
        };
        Ok(Workers { orders, sweeps })
    }
}

/// Asks again while the store or the ledger cannot be reached: a rush outlasts a failover, as its buyers do.
async fn patiently<T, F>(ask: impl Fn() -> F) -> rushgate::Result<T>
where
    F: Future<Output = rushgate::Result<T>>,
{
    let end = Instant::now() + OUTAGE_MAX;
    loop {
        match ask().await {
            Err(error) if error.is_unavailable() && Instant::now() < end => {
                sleep(Duration::from_millis(100)).await;
            }
            answer => return answer,
        }
    }
}

/// Waits until every order has been carried out, and says so if that takes too long.
async fn drain(stage: &Stage, stop: &CancellationToken) -> Result<()> {
    let Some(orders) = &stage.orders else { return Ok(()) };
    let end = Instant::now() + DRAIN_MAX;
    while Instant::now() < end {
        let stats = patiently(|| orders.stats()).await?;
        if stats.ready + stats.scheduled + stats.leased == 0 {
            return Ok(());
        }
        // After Ctrl-C nobody waits for what other processes go on to put in.
        let pause = if stop.is_cancelled() { 50 } else { 5 };
        sleep(Duration::from_millis(pause)).await;
        if stop.is_cancelled() && stats.ready + stats.leased == 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// The books' audit, and what this crowd was told held against them.
async fn audit(stage: &Stage, tally: &Tally, args: &RushArgs, interrupted: bool) -> Result<Audit> {
    let mut audit = patiently(|| stage.sale.audit(stage.ledger.as_deref())).await?;
    let books = patiently(|| stage.sale.books()).await?;
    audit.checks.extend(tally.read(|sum| report::kept_promises(&sum.promises, &books)));
    let plenty = args.buyers >= 10 * u64::from(args.stock);
    if plenty && !interrupted {
        audit.checks.push(report::nothing_left(&books));
    }
    if let Some(orders) = &stage.orders {
        let stats = patiently(|| orders.stats()).await?;
        audit.checks.push(report::orders_carried_out(&stats, interrupted || args.join.is_some()));
    }
    audit.ok = audit.checks.iter().all(|check| check.ok);
    Ok(audit)
}
