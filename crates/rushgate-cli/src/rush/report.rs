//! Report of a simulation, as text and as JSON.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use rushgate::sale::{Audit, Check, HoldState, ReservationId, SaleState, SkuCounters, Snapshot, UnitRange};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::load::Wave;
use super::simulation::{OrdersLeft, SKU, Simulation, Workers};
use super::stage::{Site, Stage, offered};
use super::tally::{Tally, Told, per_second};
use super::tickets::{Stands, Ticket};
use crate::exit::Exit;
use crate::output::word;
use crate::sale::audit_text;

/// Result of a simulation.
pub(super) struct Report<'a> {
    pub(super) rush: &'a Simulation,
    pub(super) stage: &'a Stage,
    pub(super) tally: &'a Tally,
    pub(super) wave: Wave,
    pub(super) workers: Workers,
    /// State of the sale at the end.
    pub(super) state: SaleState,
    pub(super) audit: Audit,
}

/// What the buyers did with their reservations, as far as this process knows.
struct Stood {
    paid: u64,
    cancelled: u64,
    late: u64,
    lost: u64,
}

/// Latency percentiles, in microseconds.
#[derive(Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl From<&Histogram<u64>> for Latency {
    fn from(of: &Histogram<u64>) -> Self {
        let at = |quantile| of.value_at_quantile(quantile) as f64 / 1e3;
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: of.max() as f64 / 1e3 }
    }
}

impl fmt::Display for Latency {
    /// With the option `#`, also p99.9.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50, p99, p999, max } = *self;
        let [p50, p99, p999, max] = [p50, p99, p999, max].map(micros);
        write!(f, "p50 {p50}, p99 {p99}")?;
        if f.alternate() {
            write!(f, ", p99.9 {p999}")?;
        }
        write!(f, ", max {max}")
    }
}

impl Report<'_> {
    /// Prints the report. Refused if the audit failed.
    pub(super) fn print(&self) -> Result<Exit> {
        self.rush.globals.output.data(&self.json()?, self)?;
        Ok(Exit::done_if(self.audit.ok))
    }

    fn stood(&self) -> Stood {
        let tickets = self.tally.tickets();
        let count = |stands| tickets.iter().filter(|ticket| ticket.stands == stands).count() as u64;
        Stood {
            paid: count(Stands::Paid),
            cancelled: count(Stands::Cancelled),
            late: count(Stands::Late),
            lost: count(Stands::Lost),
        }
    }

    /// Latency of a click, and of the last request alone. They differ if buyers arrive on schedule.
    fn latency(&self) -> [Latency; 2] {
        self.tally.read(|sum| match self.stage.site {
            Site::Store { .. } => [&sum.served, &sum.served].map(Latency::from),
            Site::Server { .. } => [&sum.latency, &sum.served].map(Latency::from),
        })
    }

    fn rate(&self) -> u64 {
        per_second(self.wave.attempts, self.wave.took)
    }

    fn json(&self) -> Result<Value> {
        let Self { rush, stage, tally, wave, workers, state, audit } = self;
        let stock = offered(state)?;
        let answers: Map<String, Value> =
            Told::ALL.into_iter().map(|(told, _)| (word(&told), tally.count(told).into())).collect();
        let Stood { paid, cancelled, late, lost } = self.stood();
        let [latency, served] = self.latency();
        let mut json = json!({
            "sale": stage.sale.id(),
            "seed": rush.seed,
            "joined": rush.args.join.is_some(),
            "interrupted": rush.stop.is_cancelled(),
            "units": stock.total,
            "buyers": rush.args.buyers,
            "confirmed": stock.confirmed,
            "held": stock.held,
            "free": stock.free,
            "withdrawn": stock.withdrawn,
            "answers": answers,
            "attempts": tally.attempts(),
            "attempts_per_second": self.rate(),
            "crowd_ms": wave.took.as_millis() as u64,
            "elapsed_ms": rush.start.elapsed().as_millis() as u64,
            "latency_us": latency,
            "payments": { "confirmed": paid, "cancelled": cancelled, "late": late },
            "generation": state.generation,
            "receipts": { "restored": tally.restored(), "lost": lost },
            "orders_behind": workers.left.behind,
            "orders_failed": workers.left.failed,
            "first_error": tally.read(|sum| sum.first_error.clone()),
            "memory_peak_bytes": memory_peak_bytes(),
            "audit": audit,
        });
        // These URLs contain no password.
        let info = stage.client.info();
        let more = match &stage.site {
            Site::Store { ledger } => {
                json["payments"]["expired"] = workers.sweeps.expired.into();
                let (store, cache) = (stage.client.calls(), stage.sale.admission_stats());
                let orders = ledger.as_ref().map(|ledger| (ledger.info().url, ledger.counters()));
                let (orders, counters) = orders.unwrap_or_default();
                json!({
                    "store": info.url,
                    "orders": orders,
                    "files": self.files(),
                    "from_memory": cache.from_memory,
                    "from_memory_per_second": per_second(wave.from_memory, wave.took),
                    "lost_writes": workers.orders.lost_writes,
                    "rebuilds": workers.orders.rebuilds,
                    "store_calls": store.calls,
                    "store_transactions": store.transactions,
                    "store_statements": store.statements,
                    "ledger_transactions": counters.transactions,
                    "ledger_statements": counters.statements,
                    "ledger_orders": counters.orders,
                })
            }
            Site::Server { http, .. } => json!({
                "url": info.url,
                "durability": info.durability.name(),
                "connections": rush.args.concurrency,
                "asked_again": http.asked_again() + tally.count(Told::Halted),
                "served_us": served,
            }),
        };
        if let (Value::Object(json), Value::Object(more)) = (&mut json, more) {
            json.extend(more);
        }
        Ok(json)
    }

    /// Directory that is kept.
    fn files(&self) -> Option<&PathBuf> {
        self.rush.place.folder.as_ref().filter(|_| self.rush.args.keep)
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rush, stage, tally, wave, workers, state, audit } = self;
        let Ok(stock) = offered(state) else { return Err(fmt::Error) };
        let (at, end) = match &stage.site {
            Site::Store { .. } if rush.args.join.is_some() => {
                (String::new(), ", with buyers of other processes".to_owned())
            }
            Site::Store { .. } => Default::default(),
            Site::Server { .. } => (
                format!(" at {}", stage.client.info().url),
                format!(" over {}", many(rush.args.concurrency.into(), "connection")),
            ),
        };
        let number = |n: u32| thousands(n.into());
        writeln!(
            f,
            "Sale `{}`{at}: {} × {SKU}, {} per buyer; {} (seed {}){end}\n",
            stage.sale.id(),
            number(stock.total),
            stock.per_buyer,
            many(rush.args.buyers, "buyer"),
            rush.seed
        )?;
        if rush.stop.is_cancelled() {
            let done = match workers.left {
                OrdersLeft { behind: 0, failed: 0 } => "every order until then was recorded".to_owned(),
                OrdersLeft { behind, failed } => {
                    let (events, orders) = (many(behind, "event"), many(failed.into(), "failed order"));
                    format!("the ledger is {events} behind, {orders}")
                }
            };
            writeln!(f, "  Stopped     by a signal; {done}\n")?;
        }
        let left = match (stock.free, stock.held) {
            (0, 0) => "none free, none on hold".to_owned(),
            (free, held) => format!("{} free, {} on hold", number(free), number(held)),
        };
        writeln!(f, "  Sold        {} of {}: {left}", number(stock.confirmed), number(stock.total))?;
        let Stood { paid, cancelled, late, lost } = self.stood();
        let [paid, cancelled, late] = [paid, cancelled, late].map(thousands);
        write!(f, "  Payments    {paid} paid, {cancelled} canceled, {late} paid after expiry")?;
        let is_local = matches!(stage.site, Site::Store { .. });
        if is_local {
            write!(f, "; {} expired", many(workers.sweeps.expired, "hold"))?;
        }
        writeln!(f)?;
        if state.generation > 1 {
            write!(f, "  Lost writes ")?;
            if is_local {
                write!(f, "{}, ", many(workers.orders.rebuilds, "rebuild"))?;
            }
            writeln!(
                f,
                "now in generation {}; {} restored from receipts, {} lost",
                state.generation,
                many(tally.restored(), "hold"),
                thousands(lost),
            )?;
        }
        writeln!(
            f,
            "  Answers     {} in {} ({} per second); finished after {}",
            thousands(tally.attempts()),
            seconds(wave.took),
            thousands(self.rate()),
            seconds(rush.start.elapsed())
        )?;
        for (told, meaning) in Told::ALL {
            let n = tally.count(told);
            if n > 0 {
                writeln!(f, "    {:>12}  {meaning}", thousands(n))?;
            }
        }
        if let Some(error) = tally.read(|sum| sum.first_error.clone()) {
            writeln!(f, "                  first error: {error}")?;
        }
        let [latency, served] = self.latency();
        match &stage.site {
            Site::Store { ledger } => {
                let (store, cache) = (stage.client.calls(), stage.sale.admission_stats());
                let orders = ledger.as_ref().map(|ledger| ledger.counters()).unwrap_or_default();
                writeln!(f, "  Latency     {latency}")?;
                writeln!(
                    f,
                    "  Store       {}, {}, {}; {} from the admission cache",
                    many(store.calls, "call"),
                    many(store.transactions, "write transaction"),
                    many(store.statements, "statement"),
                    many(cache.from_memory, "answer")
                )?;
                writeln!(
                    f,
                    "  Ledger      {} in {}, {}",
                    many(orders.orders, "order"),
                    many(orders.transactions, "transaction"),
                    many(orders.statements, "statement")
                )?;
            }
            Site::Server { http, .. } => {
                let again = http.asked_again() + tally.count(Told::Halted);
                if again > 0 {
                    let times = many(again, "time");
                    writeln!(f, "  Retries     {times} while the server or the sale was unavailable")?;
                }
                writeln!(f, "  Latency     {latency:#}")?;
                writeln!(f, "  Round trip  {served:#}")?;
            }
        }
        if let Some(files) = self.files() {
            writeln!(f, "  Files       {}", files.display())?;
        }
        write!(f, "\n{}", audit_text(audit, rush.globals.output))
    }
}

/// Compares the buyers' answers with the store. In a rebuilt sale, canceled and expired holds are not expected, and
/// lost ones were reported.
pub(super) fn kept_promises(tickets: &[Ticket], snapshot: &Snapshot, rebuilt: bool) -> [Check; 2] {
    let rows: HashMap<ReservationId, HoldState> =
        snapshot.reservations.iter().map(|row| (row.hold.id, row.hold.state)).collect();
    let wanted = |ticket: &&Ticket| !rebuilt || matches!(ticket.stands, Stands::Held | Stands::Paid);
    let missing = tickets.iter().filter(wanted).filter(|ticket| !rows.contains_key(&ticket.id)).count();
    let sold =
        |ticket: &&Ticket| matches!(rows.get(&ticket.id), Some(HoldState::Confirmed | HoldState::Confirming));
    let paid = || tickets.iter().filter(|ticket| ticket.stands == Stands::Paid);
    let unsold = paid().count() - paid().filter(sold).count();
    let told = match rebuilt {
        true => "every buyer with a reservation, except those reported lost, is in the store",
        false => "every buyer with a reservation is in the store",
    };
    [
        Check {
            name: "told_reserved".into(),
            claim: told.into(),
            ok: missing == 0,
            figures: format!("{} reservations, {missing} missing", tickets.len()),
        },
        Check {
            name: "told_confirmed".into(),
            claim: "every buyer whose payment was taken has a sold unit".into(),
            ok: unsold == 0,
            figures: format!("{} payments, {unsold} without a unit", paid().count()),
        },
    ]
}

/// The buyers' SKU, in the store's data. A joined sale may have others.
fn wanted(skus: &[SkuCounters]) -> impl Iterator<Item = &SkuCounters> {
    skus.iter().filter(|sku| sku.sku.as_str() == SKU)
}

/// Number of units for the buyers.
pub(super) fn total(skus: &[SkuCounters]) -> u64 {
    wanted(skus).map(|sku| u64::from(sku.total)).sum()
}

/// With ten times as many buyers as units, no unit may be left.
pub(super) fn nothing_left(skus: &[SkuCounters]) -> Check {
    let left = |sku: &SkuCounters| UnitRange::total(&sku.free) + u64::from(sku.held);
    let (total, left) = (total(skus), wanted(skus).map(left).sum::<u64>());
    Check {
        name: "nothing_left".into(),
        claim: "with buyers waiting, every unit was sold".into(),
        ok: left == 0,
        figures: format!("{} of {total} sold or withdrawn", total - left),
    }
}

/// Checks that the ledger has followed the whole sale, and has recorded every order.
pub(super) fn orders_recorded(left: OrdersLeft, others_go_on: bool) -> Check {
    let OrdersLeft { behind, failed } = left;
    let claim = match others_go_on {
        true => "every order was recorded, or waits for another process",
        false => "every order was recorded",
    };
    Check {
        name: "orders_recorded".into(),
        claim: claim.into(),
        ok: failed == 0 && (behind == 0 || others_go_on),
        figures: format!("{} behind, {failed} failed", many(behind, "event")),
    }
}

/// Peak memory of this process.
fn memory_peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

/// `1234567` as `1,234,567`.
fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun in the singular or plural.
fn many(n: u64, thing: &str) -> String {
    format!("{} {thing}{}", thousands(n), if n == 1 { "" } else { "s" })
}

fn seconds(length: Duration) -> String {
    format!("{:.2} s", length.as_secs_f64())
}

/// Microseconds in a readable unit.
fn micros(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.1} µs"),
        us if us < 1_000.0 => format!("{us:.0} µs"),
        us if us < 1_000_000.0 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use rushgate::Sku;

    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000_000), "1,000,000");
        assert_eq!((many(1, "cart").as_str(), many(2_000, "cart").as_str()), ("1 cart", "2,000 carts"));
        assert_eq!(micros(0.42), "0.4 µs");
        assert_eq!(micros(12_345.0), "12.3 ms");
    }

    #[test]
    fn units_are_counted_and_not_the_ranges_in_which_they_are_listed() {
        let of = |sku: &str, free: &[(u32, u32)]| SkuCounters {
            sku: Sku::new(sku).unwrap(),
            initial: 10,
            total: 10,
            free: free.iter().map(|(first, last)| UnitRange::new(*first, *last).unwrap()).collect(),
            withdrawn: Vec::new(),
            fresh: 0,
            returned: 0,
            held: 1,
            confirmed: 5,
            withdrawn_count: 0,
            per_buyer: 1,
        };
        let check = nothing_left(&[of(SKU, &[(1, 3), (7, 7)]), of("hat", &[(1, 9)])]);
        assert_eq!((check.ok, check.figures.as_str()), (false, "5 of 10 sold or withdrawn"));
    }
}
