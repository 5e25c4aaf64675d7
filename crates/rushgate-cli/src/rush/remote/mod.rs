//! `rushgate rush --url`: the same simulation over HTTP.

mod api;
mod crowd;
mod report;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rushgate::CancellationToken;
use rushgate::sale::Audit;
use rushgate_http::Address;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::progress::{self, Look, Moment};
use super::tally::Told;
use super::{DRAIN_MAX, OUTAGE_MAX, RushArgs, SKU, STOPPING_MAX, duration, say_that_it_stops};
use crate::exit::{Exit, Fault};
use crate::files;
use crate::globals::Globals;
use crate::signals::{Signals, died_of};
use api::{Api, get, post};
use crowd::{Crowd, Plan, Share};
use report::Report;

/// Time limit for the first answer of a server that may have just started.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// Options of a simulation over HTTP.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Over HTTP")]
pub(crate) struct RemoteArgs {
    /// With --url: period over which the buyers arrive, up to 1d; 0s for all at once. Each buyer has a fixed arrival
    /// time, from which latency is measured, whether or not the server keeps up [default: 10s].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(super) within: Option<Duration>,
}

/// A sale as the server reports it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Seen {
    status: String,
    skus: Vec<SkuSeen>,
    hold_ms: u64,
    generation: u32,
}

/// Stock of one SKU.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct SkuSeen {
    sku: String,
    total: u32,
    pub(super) free: u32,
    pub(super) held: u32,
    confirmed: u32,
    withdrawn: u32,
    per_buyer: u32,
}

impl Seen {
    pub(super) fn is_open(&self) -> bool {
        self.status == "open"
    }

    /// The SKU that the buyers reserve.
    pub(super) fn phone(&self) -> Option<&SkuSeen> {
        self.skus.iter().find(|sku| sku.sku == SKU)
    }
}

/// Path of a sale, with its name percent-encoded.
pub(super) fn sale_path(sale: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    let segment: String = sale
        .bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    format!("/v1/sales/{segment}")
}

pub(super) async fn run(args: RushArgs, url: &str, globals: &Globals) -> Result<Exit> {
    let within = args.remote.within.unwrap_or(Duration::from_secs(10));
    if within > Duration::from_secs(86_400) {
        return Err(Fault::usage("--within must be at most 1d").into());
    }
    if args.keep {
        return Err(Fault::usage("--keep and --url exclude each other: over HTTP there are no files").into());
    }
    let seed = args.seed.unwrap_or_else(rand::random);
    let sale = args.sale(seed)?.to_string();
    let address = Address::of(url)?;
    let api = Api::new(address.clone())?;
    let (stop, second_signal) = Signals::listen().context("cannot listen for signals")?.cancels();
    tokio::spawn(say_that_it_stops(stop.clone(), globals.output()));
    let rush = Rush { args, within, seed, sale, address, api: Arc::new(api), globals: globals.clone(), stop };
    let rush = tokio::spawn(rush.carry_out());
    tokio::select! {
        done = rush => done?,
        signal = second_signal => Ok(died_of(signal.as_raw())),
    }
}

/// One simulation.
struct Rush {
    args: RushArgs,
    within: Duration,
    seed: u64,
    sale: String,
    address: Address,
    api: Arc<Api>,
    globals: Globals,
    /// Canceled by the first signal.
    stop: CancellationToken,
}

impl Rush {
    async fn carry_out(self) -> Result<Exit> {
        let start = Instant::now();
        let ready: Value = self.api.must(get("/readyz"), FIRST_ANSWER).await?;
        let seen = self.open().await?;
        let share = self.send(&seen).await?;
        if self.args.join.is_none() {
            self.post("/end", OUTAGE_MAX).await?;
        }
        let seen = self.drained().await?;
        let audit = self.audit(&seen, &share).await?;
        let report = Report {
            rush: &self,
            ready,
            seen: &seen,
            share: &share,
            audit,
            elapsed: start.elapsed(),
            interrupted: self.stop.is_cancelled(),
        };
        report.print(self.globals.output())?;
        Ok(Exit::done_if(report.ok()))
    }

    async fn seen(&self) -> Result<Seen> {
        let path = sale_path(&self.sale);
        self.api.must(get(&path), OUTAGE_MAX).await
    }

    async fn post(&self, verb: &str, patience: Duration) -> Result<Value> {
        let path = format!("{}{verb}", sale_path(&self.sale));
        self.api.must(post(&path, "{}".into()), patience).await
    }

    /// Creates the sale, unless it is joined and exists, and opens it.
    async fn open(&self) -> Result<Seen> {
        let found = self.api.ask(&get(&sale_path(&self.sale))).await;
        let is_there = found.is_ok_and(|answer| answer.status.is_success());
        if !is_there {
            let body = json!({
                "id": self.sale,
                "skus": [{ "sku": SKU, "units": self.args.stock(), "per_buyer": self.args.per_buyer() }],
                "hold_ms": self.args.hold().as_millis() as u64,
            })
            .to_string();
            let made: Result<Value> = self.api.must(post("/v1/sales", body), OUTAGE_MAX).await;
            // If several processes join at the same time, one creates the sale. The read below shows it.
            if self.args.join.is_none() {
                made?;
            }
        }
        let seen = self.seen().await?;
        if seen.phone().is_none() {
            let message =
                format_args!("sale `{}` has no SKU `{SKU}`, which the simulated buyers reserve", self.sale)
                    .to_string();
            return Err(Fault::refused("not_found", message)
                .hint("join a sale that `rush` or `serve --demo` created")
                .into());
        }
        self.warn_of_differences(&seen, is_there);
        if seen.status == "created" {
            self.post("/open", OUTAGE_MAX).await?;
        }
        Ok(seen)
    }

    /// Warns about options that an existing sale ignores.
    fn warn_of_differences(&self, seen: &Seen, is_there: bool) {
        let asked = self.args.stock.is_some() || self.args.per_buyer.is_some() || self.args.hold.is_some();
        if is_there && asked {
            let (sale, hold) = (&self.sale, seen.hold_ms);
            let (total, limit) = seen.phone().map_or((0, 0), |sku| (sku.total, sku.per_buyer));
            self.globals.output().warn(format_args!(
                "sale `{sale}` already exists and keeps its settings: {total} units, {limit} per buyer, holds of \
                 {hold} ms"
            ));
        }
    }

    /// Runs the buyers.
    async fn send(&self, seen: &Seen) -> Result<Share> {
        files::raise_limit();
        let crowd = Arc::new(Crowd::new(self.plan(seen))?);
        let look = View { api: Arc::clone(&self.api), crowd: Arc::clone(&crowd) };
        let progress = progress::start(look, &self.globals);
        let share = crowd.come().await;
        progress.finish().await;
        Ok(share)
    }

    fn plan(&self, seen: &Seen) -> Plan {
        let units = seen.phone().map_or(0, |sku| sku.total) as usize;
        Plan {
            address: self.address.clone(),
            sale: self.sale.clone(),
            generation: seen.generation,
            buyers: self.args.buyers,
            seed: self.seed,
            connections: self.args.concurrency as usize,
            within: self.within,
            patient_max: (units * 2).clamp(1_000, 1_000_000),
            stop: self.stop.clone(),
        }
    }

    /// State of the sale once no hold is pending and no order waits for the ledger, up to a time limit.
    async fn drained(&self) -> Result<Seen> {
        let start = Instant::now();
        loop {
            let seen = self.seen().await?;
            let most = if self.stop.is_cancelled() { STOPPING_MAX } else { DRAIN_MAX };
            if seen.phone().is_none_or(|sku| sku.held == 0) || start.elapsed() >= most {
                return Ok(seen);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// The server's audit, plus checks of the buyers' answers.
    async fn audit(&self, seen: &Seen, share: &Share) -> Result<Audit> {
        let path = format!("{}/audit", sale_path(&self.sale));
        let mut audit: Audit = self.api.must(get(&path), OUTAGE_MAX).await?;
        audit.checks.extend(report::kept_promises(&share.promises));
        let closed = share.answers[Told::NotOpen as usize] + share.answers[Told::Ended as usize];
        let total = seen.phone().map_or(0, |sku| u64::from(sku.total));
        if closed == 0 && !self.stop.is_cancelled() && self.args.buyers >= 10 * total {
            audit.checks.extend(seen.phone().map(report::nothing_left));
        }
        audit.ok = audit.checks.iter().all(|check| check.ok);
        Ok(audit)
    }
}

/// Source of the live progress line.
struct View {
    api: Arc<Api>,
    crowd: Arc<Crowd>,
}

impl Look for View {
    async fn look(&self) -> Option<Moment> {
        let answer = self.api.ask(&get(self.crowd.path())).await.ok()?;
        let seen: Seen = serde_json::from_value(answer.body).ok()?;
        let sku = seen.phone()?;
        let units = [sku.confirmed, sku.held, sku.free].map(u64::from);
        Some(Moment { units, told: self.crowd.answers() })
    }
}
