//! `rushgate rush`: simulates a flash sale, and audits it.

mod connection;
mod http;
mod load;
mod place;
mod progress;
mod report;
mod retry;
mod script;
mod simulation;
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

use crate::args::rush::RushArgs;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::output::Output;
use crate::signals::{Signals, died_of};
use connection::Connection;
use load::{LoadGenerator, Plan};
use place::Place;
use report::Report;
use retry::with_retries;
use simulation::{OrdersLeft, SKU, Simulation, Workers};
use stage::{Site, Stage};
use tally::{Tally, Told};

/// Time limit for the remaining orders after the last buyer.
const DRAIN_MAX: Duration = Duration::from_secs(60);
/// The same after a signal, which should end the run quickly.
const STOPPING_MAX: Duration = Duration::from_secs(1);
/// Lease duration of the order worker.
const ORDER_LEASE: Duration = Duration::from_secs(2);
/// Maximum time after a rebuild during which only receipts are honored. Not longer than a hold, because a
/// receipt is worthless after that.
const RECEIPTS_FIRST: Duration = Duration::from_secs(5);

pub(crate) async fn run(args: RushArgs, globals: &Globals) -> Result<Exit> {
    args.check(globals.store.as_deref())?;
    let seed = args.seed.unwrap_or_else(rand::random);
    let name = sale_name(&args, seed)?;
    let (stop, second_signal) = Signals::listen().context("cannot listen for signals")?.cancels();
    // Every return path removes the directory.
    let (place, _folder) = Place::find(globals, args.keep)?;
    let stopping = stop.clone();
    let rush = Simulation { args, seed, name, place, globals: globals.clone(), stop, start: Instant::now() };
    // In its own task, so that signals are handled at any time.
    let rush = tokio::spawn(rush.carry_out());
    tokio::spawn(say_that_it_stops(stopping, globals.output));
    tokio::select! {
        done = rush => done?,
        signal = second_signal => Ok(died_of(signal.as_raw())),
    }
}

/// The sale's name: the joined one, or a new one.
fn sale_name(args: &RushArgs, seed: u64) -> Result<SaleId> {
    let fresh = || format!("rush-{}-{}", script::tag(seed), std::process::id());
    Ok(SaleId::new(args.join.clone().unwrap_or_else(fresh))?)
}

async fn say_that_it_stops(stopping: CancellationToken, output: Output) {
    stopping.cancelled().await;
    output.over_progress(
        "stopping: no more buyers arrive, and the sale is audited; a second signal ends the run immediately",
    );
}

impl Simulation {
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
        let progress = progress::start(stage.sale.clone(), Arc::clone(&tally), self.globals.output);
        let load = LoadGenerator::new(self.plan(stage, connection, within)?, Arc::clone(&tally))?;
        let wave = load.run().await?;
        if self.args.join.is_none() {
            with_retries(|| stage.sale.end()).await?;
        }
        self.drain(stage, &load, &tally).await?;
        progress.finish().await;
        let mut workers = workers.finish().await?;
        workers.left = orders_left(stage).await?;
        let audit = self.audit(stage, &tally).await?;
        let state = with_retries(|| stage.sale.state()).await?;
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
            retrying_max: (stage.stock as usize * 2).clamp(1_000, 1_000_000),
            stop: self.stop.clone(),
            output: self.globals.output,
        })
    }

    /// Waits until every order is recorded and every lost reservation is restored, up to a time limit.
    async fn drain<C: Connection>(
        &self,
        stage: &Stage,
        load: &Arc<LoadGenerator<C>>,
        tally: &Tally,
    ) -> Result<()> {
        let start = Instant::now();
        loop {
            let most = if self.stop.is_cancelled() { STOPPING_MAX } else { DRAIN_MAX };
            let left = most.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            if !load.is_made_good().await? {
                let _ = timeout(left, load.goes_on()).await;
            } else if orders_left(stage).await? == OrdersLeft::default() {
                let is_behind = match &stage.site {
                    Site::Store { ledger: Some(ledger) } => is_behind(&stage.sale, &**ledger).await?,
                    Site::Store { ledger: None } => false,
                    // The ledger is out of reach. The buyers look for their reservations instead.
                    Site::Server { .. } => {
                        let missing = missing(&stage.sale, tally).await?;
                        let is_behind = !missing.is_empty();
                        let _ = timeout(left, load.bring_back(missing)).await;
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
        let snapshot = with_retries(|| stage.sale.snapshot()).await?;
        let rebuilt = snapshot.generation > stage.generation;
        audit.checks.extend(report::kept_promises(&tally.tickets(), &snapshot, rebuilt));
        // Buyers who came before the opening or after the end could not get units.
        let open = [Told::NotOpen, Told::Ended].into_iter().all(|told| tally.count(told) == 0);
        if open && !interrupted && self.args.buyers >= 10 * report::total(&snapshot.skus) {
            audit.checks.push(report::nothing_left(&snapshot.skus));
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

async fn orders_left(stage: &Stage) -> Result<OrdersLeft> {
    let state = with_retries(|| stage.sale.state()).await?;
    let left = |orders: OrdersState| OrdersLeft {
        behind: state.seq.saturating_sub(orders.through),
        failed: orders.failed,
    };
    Ok(state.orders.map(left).unwrap_or_default())
}

/// True if the ledger shows that the store has lost writes.
async fn is_behind(sale: &Sale, ledger: &dyn Ledger) -> Result<bool> {
    let known = with_retries(|| ledger.find_sale(sale.id())).await?;
    let state = with_retries(|| sale.state()).await?;
    Ok(state.halted.is_some() || known.is_some_and(|known| known.is_ahead_of(&state)))
}

/// Reservations that the store has lost.
async fn missing(sale: &Sale, tally: &Tally) -> Result<Vec<tickets::Place>> {
    let snapshot = with_retries(|| sale.snapshot()).await?;
    let there: HashSet<_> = snapshot.reservations.iter().map(|row| row.hold.id).collect();
    Ok(tally.at_stake().into_iter().filter(|at| !there.contains(&tally.ticket(*at).id)).collect())
}
