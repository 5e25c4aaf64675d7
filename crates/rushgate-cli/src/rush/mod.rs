//! `rushgate rush`: simulates a flash sale, and audits it.

mod crowd;
mod place;
mod progress;
mod remote;
mod report;
mod script;
mod stage;
mod tally;
mod tickets;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rushgate::sale::{Audit, OrderReport, OrdersState, SaleId, SweepReport, Sweeper};
use rushgate::{CancellationToken, Line, OrderWorker, Sku};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::duration;
use crate::exit::{Exit, Fault};
use crate::globals::{Globals, is_http};
use crate::output::Output;
use crate::signals::{Signals, died_of};
use crowd::{Crowd, Plan};
use place::Place;
use progress::Here;
use remote::RemoteArgs;
use report::Report;
use stage::Stage;
use tally::{Tally, Told};

/// SKU that the buyers reserve.
const SKU: &str = "phone";
/// Time limit for the remaining orders after the last buyer.
const DRAIN_MAX: Duration = Duration::from_secs(60);
/// The same after a signal, which should end the run quickly.
const STOPPING_MAX: Duration = Duration::from_secs(1);
/// Maximum length of an outage.
const OUTAGE_MAX: Duration = Duration::from_secs(30);
/// Lease duration of the order worker.
const ORDER_LEASE: Duration = Duration::from_secs(2);
/// Maximum time after a rebuild during which only receipts are honored. Not longer than a hold, because a
/// receipt is worthless after that.
const RECEIPTS_FIRST: Duration = Duration::from_secs(5);

/// Simulate a flash sale with a crowd of buyers, and audit it.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  rushgate rush --stock 10 --buyers 1000000
  rushgate rush --stock 500 --buyers 100000 --per-buyer 2 --seed 7 --json
Several processes in one sale, on one file: start this command several times.
  rushgate rush --join launch --store sqlite:launch.db --stock 100
Over HTTP, against a server started with `rushgate serve --demo`:
  rushgate rush --url http://127.0.0.1:7979 --join demo --buyers 100000

If the store loses writes, as in a failover, the run continues: the sale is rebuilt from its ledger,
and buyers restore lost reservations with their receipts.

INT, TERM or HUP stops the arrivals; the sale is then audited. A second signal ends the run at once,
with status 128+n.
Exit status: 0 if the audit passes, 1 if it fails or the joined sale sells no phone.")]
pub(crate) struct RushArgs {
    /// Number of units for sale [default: 10].
    #[arg(long, value_name = "UNITS", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    stock: Option<u32>,
    /// Number of buyers.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    buyers: u64,
    /// Purchase limit per buyer [default: 1].
    #[arg(long, value_name = "UNITS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    per_buyer: Option<u32>,
    /// Number of concurrent buyers; over HTTP, number of connections.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    concurrency: u32,
    /// Hold duration: 100ms to 1h [default: 1s].
    #[arg(long, value_name = "DURATION", value_parser = hold)]
    hold: Option<Duration>,
    /// Seed: repeats the behavior of the buyers of an earlier run.
    #[arg(long)]
    seed: Option<u64>,
    /// Join this sale on --store or --url, and create it if it does not exist. An existing sale keeps its stock,
    /// limit and hold duration.
    #[arg(long, value_name = "SALE")]
    join: Option<String>,
    /// Keep the files of the run and print their directory.
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    remote: RemoteArgs,
}

impl RushArgs {
    /// Number of units, if the sale is to be created.
    fn stock(&self) -> u32 {
        self.stock.unwrap_or(10)
    }

    fn per_buyer(&self) -> u32 {
        self.per_buyer.unwrap_or(1)
    }

    fn hold(&self) -> Duration {
        self.hold.unwrap_or(Duration::from_secs(1))
    }

    /// The sale's name: the joined one, or a new one.
    fn sale(&self, seed: u64) -> Result<SaleId> {
        let fresh = || format!("rush-{}-{}", script::tag(seed), std::process::id());
        Ok(SaleId::new(self.join.clone().unwrap_or_else(fresh))?)
    }
}

/// Parses a hold time that is short enough for a simulation.
fn hold(text: &str) -> Result<Duration, String> {
    let hold = duration::parse(text)?;
    match (Duration::from_millis(100)..=Duration::from_secs(3_600)).contains(&hold) {
        true => Ok(hold),
        false => Err(format!("{text} is not 100ms to 1h")),
    }
}

/// Totals of the background workers.
#[derive(Default)]
pub(crate) struct Workers {
    pub(crate) orders: OrderReport,
    pub(crate) sweeps: SweepReport,
    /// Orders that the ledger did not have when the run ended.
    pub(crate) left: OrdersLeft,
}

pub(crate) async fn run(args: RushArgs, globals: &Globals) -> Result<Exit> {
    if let Some(url) = globals.store.as_deref().filter(|url| is_http(url)) {
        return remote::run(args, url, globals).await;
    }
    if args.remote.within.is_some() {
        return Err(Fault::usage("--within requires --url").hint("pass --url, or set RUSHGATE_URL").into());
    }
    let seed = args.seed.unwrap_or_else(rand::random);
    let name = args.sale(seed)?;
    if args.join.is_some() && globals.store.is_none() {
        return Err(Fault::usage("--join requires a store that the other processes share")
            .hint("pass --store sqlite:PATH, or set RUSHGATE_STORE or `store` in rushgate.toml")
            .into());
    }
    let (stop, second_signal) = Signals::listen().context("cannot listen for signals")?.cancels();
    // Every return path removes the directory.
    let (place, _folder) = Place::find(globals, args.keep)?;
    let stopping = stop.clone();
    let rush = Rush { args, seed, name, place, globals: globals.clone(), stop };
    // In its own task, so that signals are handled at any time.
    let rush = tokio::spawn(rush.carry_out());
    tokio::spawn(say_that_it_stops(stopping, globals.output()));
    tokio::select! {
        done = rush => done?,
        signal = second_signal => Ok(died_of(signal.as_raw())),
    }
}

async fn say_that_it_stops(stopping: CancellationToken, output: Output) {
    stopping.cancelled().await;
    output.over_progress(
        "stopping: no more buyers arrive, and the sale is audited; a second signal ends the run immediately",
    );
}

/// One simulation.
struct Rush {
    args: RushArgs,
    seed: u64,
    name: SaleId,
    place: Place,
    globals: Globals,
    /// Canceled by the first signal.
    stop: CancellationToken,
}

impl Rush {
    async fn carry_out(self) -> Result<Exit> {
        let Self { args, seed, name, place, globals, stop } = self;
        let start = Instant::now();
        let stage = Stage::set(&args, &place, &name, globals.output()).await?;
        let workers = start_workers(&stage);
        let tally = Arc::new(Tally::new(args.concurrency as usize));
        let here = Here { sale: stage.sale.clone(), tally: Arc::clone(&tally) };
        let progress = progress::start(here, &globals);
        let crowd = Crowd::new(plan(&args, &stage, seed, &stop, globals.output())?, Arc::clone(&tally))?;
        let wave = crowd.run().await?;
        if args.join.is_none() {
            patiently(|| stage.sale.end()).await?;
        }
        drain(&stage, &crowd, &stop).await?;
        progress.finish().await;
        let mut workers = workers.finish().await?;
        workers.left = orders_left(&stage).await?;
        let audit = audit(&stage, &tally, &args, stop.is_cancelled()).await?;
        let report = Report::new(
            &args,
            &stage,
            &tally,
            &workers,
            audit,
            seed,
            wave,
            start.elapsed(),
            stop.is_cancelled(),
        );
        let report = report.await?.kept(place.folder.filter(|_| args.keep));
        report.print(&globals)?;
        stage.strike().await?;
        Ok(if report.ok() { Exit::Done } else { Exit::Refused })
    }
}

fn plan(args: &RushArgs, stage: &Stage, seed: u64, stop: &CancellationToken, output: Output) -> Result<Plan> {
    Ok(Plan {
        sale: stage.sale.clone(),
        line: Line { sku: Sku::new(SKU)?, quantity: 1 },
        generation: stage.generation,
        buyers: args.buyers,
        members: args.concurrency as usize,
        seed,
        patient_max: (stage.stock as usize * 2).clamp(1_000, 1_000_000),
        stop: stop.clone(),
        output,
    })
}

/// Order worker and sweeper of this process.
struct Running {
    shutdown: CancellationToken,
    orders: Option<JoinHandle<rushgate::Result<OrderReport>>>,
    sweeps: JoinHandle<rushgate::Result<SweepReport>>,
}

fn start_workers(stage: &Stage) -> Running {
    let shutdown = CancellationToken::new();
    let orders = stage.ledger.as_ref().map(|ledger| {
        let worker = OrderWorker::new(stage.sale.clone(), Arc::clone(ledger))
            .lease(ORDER_LEASE)
            .auto_rebuild(stage.hold.min(RECEIPTS_FIRST));
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
        Ok(Workers { orders, sweeps, left: OrdersLeft::default() })
    }
}

/// Retries while the store or the ledger is unreachable, so that the simulation outlasts a failover.
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

/// What the ledger does not have yet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OrdersLeft {
    /// Events of the sale that it has yet to follow.
    pub(crate) behind: u64,
    /// Orders that it could not record so far.
    pub(crate) failed: u32,
}

async fn orders_left(stage: &Stage) -> Result<OrdersLeft> {
    let state = patiently(|| stage.sale.state()).await?;
    let left = |orders: OrdersState| OrdersLeft {
        behind: state.seq.saturating_sub(orders.through),
        failed: orders.failed,
    };
    Ok(state.orders.map(left).unwrap_or_default())
}

/// Waits until every order is recorded and every lost reservation is restored, up to a time limit.
async fn drain(stage: &Stage, crowd: &Arc<Crowd>, stop: &CancellationToken) -> Result<()> {
    let start = Instant::now();
    loop {
        let most = if stop.is_cancelled() { STOPPING_MAX } else { DRAIN_MAX };
        let left = most.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        if !crowd.is_made_good().await? {
            let _ = timeout(left, crowd.goes_on()).await;
        } else if orders_left(stage).await? == OrdersLeft::default() && !is_behind(stage).await? {
            return Ok(());
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// True if the ledger shows that the store has lost writes.
async fn is_behind(stage: &Stage) -> Result<bool> {
    let Some(ledger) = &stage.ledger else { return Ok(false) };
    let known = patiently(|| ledger.find_sale(stage.sale.id())).await?;
    let state = patiently(|| stage.sale.state()).await?;
    Ok(state.halted.is_some() || known.is_some_and(|known| known.is_ahead_of(&state)))
}

/// The sale's audit, plus checks of the buyers' answers.
async fn audit(stage: &Stage, tally: &Tally, args: &RushArgs, interrupted: bool) -> Result<Audit> {
    let mut audit = patiently(|| stage.sale.audit(stage.ledger.as_deref())).await?;
    let books = patiently(|| stage.sale.books()).await?;
    let rebuilt = books.generation > stage.generation;
    audit.checks.extend(report::kept_promises(&tally.tickets(), &books, rebuilt));
    // Buyers who came before the opening or after the end could not get units.
    let open = [Told::NotOpen, Told::Ended].into_iter().all(|told| tally.count(told) == 0);
    if open && !interrupted && args.buyers >= 10 * report::total(&books.skus) {
        audit.checks.push(report::nothing_left(&books.skus));
    }
    if stage.ledger.is_some() {
        let left = orders_left(stage).await?;
        audit.checks.push(report::orders_recorded(left, interrupted || args.join.is_some()));
    }
    audit.ok = audit.checks.iter().all(|check| check.ok);
    Ok(audit)
}
