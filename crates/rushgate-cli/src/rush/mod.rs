//! `rushgate rush`: simulates a flash sale, and audits it.

mod connection;
mod crowd;
mod http;
mod place;
mod progress;
mod report;
mod script;
mod stage;
mod tally;
mod tickets;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rushgate::sale::{Audit, OrderReport, OrdersState, SaleId, SweepReport, Sweeper};
use rushgate::{CancellationToken, Ledger, Line, OrderWorker, Sale, Sku};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::duration;
use crate::exit::{Exit, Fault};
use crate::globals::{Globals, is_http};
use crate::output::Output;
use crate::signals::{Signals, died_of};
use connection::Connection;
use crowd::{Crowd, Plan};
use place::Place;
use report::Report;
use stage::{Site, Stage};
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
    http: HttpArgs,
}

/// Options of a simulation over HTTP.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Over HTTP")]
struct HttpArgs {
    /// With --url: period over which the buyers arrive, up to 1d; 0s for all at once. Each buyer has a fixed arrival
    /// time, from which latency is measured, whether or not the server keeps up [default: 10s].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    within: Option<Duration>,
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

    /// Refuses options that do not fit the store, or the server in its place.
    fn check(&self, store: Option<&str>) -> Result<(), Fault> {
        if !store.is_some_and(is_http) {
            if self.http.within.is_some() {
                return Err(Fault::usage("--within requires --url").hint("pass --url, or set RUSHGATE_URL"));
            }
            if self.join.is_some() && store.is_none() {
                return Err(Fault::usage("--join requires a store that the other processes share")
                    .hint("pass --store sqlite:PATH, or set RUSHGATE_STORE or `store` in rushgate.toml"));
            }
            return Ok(());
        }
        if self.within() > Duration::from_secs(86_400) {
            return Err(Fault::usage("--within must be at most 1d"));
        }
        if self.keep {
            return Err(Fault::usage("--keep and --url exclude each other: over HTTP there are no files"));
        }
        Ok(())
    }

    fn within(&self) -> Duration {
        self.http.within.unwrap_or(Duration::from_secs(10))
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
    args.check(globals.store.as_deref())?;
    let seed = args.seed.unwrap_or_else(rand::random);
    let name = args.sale(seed)?;
    let (stop, second_signal) = Signals::listen().context("cannot listen for signals")?.cancels();
    // Every return path removes the directory.
    let (place, _folder) = Place::find(globals, args.keep)?;
    let stopping = stop.clone();
    let rush = Rush { args, seed, name, place, globals: globals.clone(), stop, start: Instant::now() };
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
    start: Instant,
}

impl Rush {
    async fn carry_out(self) -> Result<Exit> {
        let stage = Stage::set(&self).await?;
        let exit = match &stage.site {
            Site::Store { .. } => self.simulate(&stage, stage.sale.clone(), None).await?,
            Site::Server { http, .. } => {
                self.simulate(&stage, http.clone(), Some(self.args.within())).await?
            }
        };
        stage.strike().await?;
        Ok(exit)
    }

    async fn simulate(
        &self,
        stage: &Stage,
        connection: impl Connection,
        within: Option<Duration>,
    ) -> Result<Exit> {
        let workers = Running::start(stage);
        let tally = Arc::new(Tally::new(self.args.concurrency as usize));
        let progress = progress::start(stage.sale.clone(), Arc::clone(&tally), self.globals.output());
        let crowd = Crowd::new(self.plan(stage, connection, within)?, Arc::clone(&tally))?;
        let wave = crowd.run().await?;
        if self.args.join.is_none() {
            patiently(|| stage.sale.end()).await?;
        }
        self.drain(stage, &crowd, &tally).await?;
        progress.finish().await;
        let mut workers = workers.finish().await?;
        workers.left = orders_left(stage).await?;
        let audit = self.audit(stage, &tally).await?;
        let state = patiently(|| stage.sale.state()).await?;
        let report = Report { rush: self, stage, tally: &tally, wave, workers, state, audit };
        report.print()
    }

    fn plan<C>(&self, stage: &Stage, connection: C, within: Option<Duration>) -> Result<Plan<C>> {
        Ok(Plan {
            connection,
            sale: stage.sale.clone(),
            line: Line { sku: Sku::new(SKU)?, quantity: 1 },
            generation: stage.generation,
            buyers: self.args.buyers,
            members: self.args.concurrency as usize,
            seed: self.seed,
            within,
            patient_max: (stage.stock as usize * 2).clamp(1_000, 1_000_000),
            stop: self.stop.clone(),
            output: self.globals.output(),
        })
    }

    /// Waits until every order is recorded and every lost reservation is restored, up to a time limit.
    async fn drain<C: Connection>(&self, stage: &Stage, crowd: &Arc<Crowd<C>>, tally: &Tally) -> Result<()> {
        let start = Instant::now();
        loop {
            let most = if self.stop.is_cancelled() { STOPPING_MAX } else { DRAIN_MAX };
            let left = most.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            if !crowd.is_made_good().await? {
                let _ = timeout(left, crowd.goes_on()).await;
            } else if orders_left(stage).await? == OrdersLeft::default() {
                let is_behind = match &stage.site {
                    Site::Store { ledger: Some(ledger) } => is_behind(&stage.sale, &**ledger).await?,
                    Site::Store { ledger: None } => false,
                    // The ledger is out of reach. The buyers look for their reservations instead.
                    Site::Server { .. } => {
                        let missing = missing(&stage.sale, tally).await?;
                        let is_behind = !missing.is_empty();
                        let _ = timeout(left, crowd.bring_back(missing)).await;
                        is_behind
                    }
                };
                if !is_behind {
                    return Ok(());
                }
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The sale's audit, plus checks of the buyers' answers.
    async fn audit(&self, stage: &Stage, tally: &Tally) -> Result<Audit> {
        let (interrupted, mut audit) = (self.stop.is_cancelled(), stage.audit().await?);
        let books = patiently(|| stage.sale.books()).await?;
        let rebuilt = books.generation > stage.generation;
        audit.checks.extend(report::kept_promises(&tally.tickets(), &books, rebuilt));
        // Buyers who came before the opening or after the end could not get units.
        let open = [Told::NotOpen, Told::Ended].into_iter().all(|told| tally.count(told) == 0);
        if open && !interrupted && self.args.buyers >= 10 * report::total(&books.skus) {
            audit.checks.push(report::nothing_left(&books.skus));
        }
        if stage.has_ledger {
            let left = orders_left(stage).await?;
            audit.checks.push(report::orders_recorded(left, interrupted || self.args.join.is_some()));
        }
        audit.ok = audit.checks.iter().all(|check| check.ok);
        Ok(audit)
    }
}

/// Order worker and sweeper of this process. A server has its own.
struct Running {
    shutdown: CancellationToken,
    orders: Option<JoinHandle<rushgate::Result<OrderReport>>>,
    sweeps: Option<JoinHandle<rushgate::Result<SweepReport>>>,
}

impl Running {
    fn start(stage: &Stage) -> Self {
        let shutdown = CancellationToken::new();
        let orders = stage.ledger().map(|ledger| {
            let worker = OrderWorker::new(stage.sale.clone(), Arc::clone(ledger))
                .lease(ORDER_LEASE)
                .auto_rebuild(stage.hold.min(RECEIPTS_FIRST));
            tokio::spawn(worker.run(shutdown.clone()))
        });
        let sweeper = matches!(stage.site, Site::Store { .. }).then(|| Sweeper::new(stage.sale.clone()));
        let sweeps = sweeper.map(|sweeper| tokio::spawn(sweeper.run(shutdown.clone())));
        Self { shutdown, orders, sweeps }
    }

    async fn finish(self) -> Result<Workers> {
        self.shutdown.cancel();
        let mut workers = Workers::default();
        if let Some(sweeps) = self.sweeps {
            workers.sweeps = sweeps.await?.context("the sweeper stopped")?;
        }
        if let Some(orders) = self.orders {
            workers.orders = orders.await?.context("the order worker stopped")?;
        }
        Ok(workers)
    }
}

/// Retries while the store or the ledger is unreachable, so that the simulation outlasts a failover.
async fn patiently<T, F: Future<Output = rushgate::Result<T>>>(ask: impl Fn() -> F) -> rushgate::Result<T> {
    retry(OUTAGE_MAX, ask).await
}

/// Retries for up to `most` while the store, the ledger or the server is unreachable.
async fn retry<T, F>(most: Duration, ask: impl Fn() -> F) -> rushgate::Result<T>
where
    F: Future<Output = rushgate::Result<T>>,
{
    let end = Instant::now() + most;
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

/// True if the ledger shows that the store has lost writes.
async fn is_behind(sale: &Sale, ledger: &dyn Ledger) -> Result<bool> {
    let known = patiently(|| ledger.find_sale(sale.id())).await?;
    let state = patiently(|| sale.state()).await?;
    Ok(state.halted.is_some() || known.is_some_and(|known| known.is_ahead_of(&state)))
}

/// Reservations that the store has lost.
async fn missing(sale: &Sale, tally: &Tally) -> Result<Vec<tickets::Place>> {
    let books = patiently(|| sale.books()).await?;
    let there: HashSet<_> = books.reservations.iter().map(|row| row.id).collect();
    Ok(tally.at_stake().into_iter().filter(|at| !there.contains(&tally.ticket(*at).id)).collect())
}
