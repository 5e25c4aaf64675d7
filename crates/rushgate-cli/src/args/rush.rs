use std::time::Duration;

use crate::duration;
use crate::exit::Fault;
use crate::globals::is_http;

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

If the store loses writes, as in a failover, the run continues: the sale is rebuilt from its ledger, \
and buyers restore lost reservations with their receipts.

INT, TERM or HUP stops the arrivals; the sale is then audited. A second signal ends the run at once, \
with status 128+n.
Exit status: 0 if the audit passes, 1 if it fails or the joined sale sells no phone.")]
pub(crate) struct RushArgs {
    /// Number of units for sale [default: 10].
    #[arg(long, value_name = "UNITS", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) stock: Option<u32>,
    /// Number of buyers.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    pub(crate) buyers: u64,
    /// Purchase limit per buyer [default: 1].
    #[arg(long, value_name = "UNITS", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) per_buyer: Option<u32>,
    /// Number of concurrent buyers; over HTTP, number of connections.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) concurrency: u32,
    /// Hold duration: 100ms to 1h [default: 1s].
    #[arg(long, value_name = "DURATION", value_parser = hold)]
    pub(crate) hold: Option<Duration>,
    /// Seed: repeats the behavior of the buyers of an earlier run.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Join this sale on --store or --url, and create it if it does not exist. An existing sale keeps its stock,
    /// limit and hold duration.
    #[arg(long, value_name = "SALE")]
    pub(crate) join: Option<String>,
    /// Keep the files of the run and print their directory.
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
}

/// Options of a simulation over HTTP.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Over HTTP")]
pub(crate) struct HttpArgs {
    /// With --url: period over which the buyers arrive, up to 1d; 0s for all at once. Each buyer has a fixed arrival
    /// time, from which latency is measured, whether or not the server keeps up [default: 10s].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) within: Option<Duration>,
}

impl RushArgs {
    /// Number of units, if the sale is to be created.
    pub(crate) fn stock(&self) -> u32 {
        self.stock.unwrap_or(10)
    }

    pub(crate) fn per_buyer(&self) -> u32 {
        self.per_buyer.unwrap_or(1)
    }

    pub(crate) fn hold(&self) -> Duration {
        self.hold.unwrap_or(Duration::from_secs(1))
    }

    /// Refuses options that do not fit the store, or the server in its place.
    pub(crate) fn check(&self, store: Option<&str>) -> Result<(), Fault> {
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

    pub(crate) fn within(&self) -> Duration {
        self.http.within.unwrap_or(Duration::from_secs(10))
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
