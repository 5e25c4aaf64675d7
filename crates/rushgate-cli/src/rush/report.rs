//! Report of a simulation, as text and as JSON.

use std::collections::{BTreeMap, HashMap};
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use rushgate::sale::{
    Audit, Books, Check, GateStats, HoldState, ReservationId, SkuCounters, SkuState, UnitRange,
};
use rushgate::store::StoreCalls;
use rushgate_ledger::LedgerCalls;
use serde_json::{Value, json};

use super::crowd::Wave;
use super::stage::{Stage, offered};
use super::tally::{Tally, Told, per_second};
use super::tickets::{Stands, Ticket};
use super::{OrdersLeft, RushArgs, SKU, Workers, patiently};
use crate::globals::Globals;
use crate::output::Output;
use crate::sale::audit_text;

pub(super) struct Report {
    sale: String,
    seed: u64,
    store_url: String,
    orders_url: String,
    joined: bool,
    interrupted: bool,
    /// Directory that is kept.
    files: Option<PathBuf>,
    buyers: u64,
    stock: SkuState,
    answers: BTreeMap<usize, u64>,
    wave: Wave,
    elapsed: Duration,
    latency: Latency,
    gate: GateStats,
    store: StoreCalls,
    ledger: LedgerCalls,
    payments: [u64; 4],
    losses: Losses,
    left: OrdersLeft,
    audit: Audit,
    first_error: Option<String>,
    memory_peak_bytes: u64,
}

/// Losses of the store and their repair.
struct Losses {
    /// Generation of the sale; each rebuild raises it.
    generation: u32,
    /// Losses detected by this process, from the ledger's answers and by comparison.
    shown: u64,
    /// Rebuilds by this process.
    rebuilds: u64,
    /// Holds restored from receipts.
    restored: u64,
    /// Buyers whose receipt did not restore their hold.
    lost: u64,
}

/// Latency percentiles, in microseconds.
struct Latency {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Report {
    #[allow(clippy::too_many_arguments)]
    pub(super) async fn new(
        args: &RushArgs,
        stage: &Stage,
        tally: &Tally,
        workers: &Workers,
        audit: Audit,
        seed: u64,
        wave: Wave,
        elapsed: Duration,
        interrupted: bool,
    ) -> Result<Self> {
        let state = patiently(|| stage.sale.state()).await?;
        let stock = offered(&state)?.clone();
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let (latency, first_error) = tally.read(|sum| {
            let latency = Latency {
                p50: micros(sum.latency.value_at_quantile(0.5)),
                p99: micros(sum.latency.value_at_quantile(0.99)),
                max: micros(sum.latency.max()),
            };
            (latency, sum.first_error.clone())
        });
        let tickets = tally.tickets();
        let count = |stands| tickets.iter().filter(|ticket| ticket.stands == stands).count() as u64;
        let losses = Losses {
            generation: state.generation,
            shown: workers.orders.lost_writes,
            rebuilds: workers.orders.rebuilds,
            restored: tally.restored(),
            lost: count(Stands::Lost),
        };
        let payments =
            [count(Stands::Paid), count(Stands::Cancelled), workers.sweeps.expired, count(Stands::Late)];
        Ok(Self {
            sale: stage.sale.id().to_string(),
            seed,
            store_url: stage.store_url.clone(),
            orders_url: stage.orders_url.clone(),
            joined: args.join.is_some(),
            interrupted,
            buyers: args.buyers,
            stock,
            files: None,
            answers: Told::ALL.iter().map(|told| (*told as usize, tally.count(*told))).collect(),
            wave,
            elapsed,
            latency,
            gate: stage.sale.gate_stats(),
            store: stage.gate.calls(),
            ledger: stage.ledger.as_ref().map(|ledger| ledger.counters()).unwrap_or_default(),
            payments,
            losses,
            left: workers.left,
            audit,
            first_error,
            memory_peak_bytes: memory_peak_bytes(),
        })
    }

    /// Reports that the directory is kept.
    pub(super) fn kept(self, files: Option<PathBuf>) -> Self {
        Self { files, ..self }
    }

    pub(super) fn ok(&self) -> bool {
        self.audit.ok
    }

    pub(super) fn print(&self, globals: &Globals) -> Result<()> {
        let mut out = stdout().lock();
        if globals.output().is_json() {
            serde_json::to_writer(&mut out, &self.json())?;
            writeln!(out)?;
        } else {
            self.write(&mut out, globals.output())?;
        }
        out.flush()?;
        Ok(())
    }

    fn attempts(&self) -> u64 {
        self.answers.values().sum()
    }

    fn json(&self) -> Value {
        let answers: serde_json::Map<String, Value> = Told::ALL
            .iter()
            .map(|told| (told.word().into(), self.answers[&(*told as usize)].into()))
            .collect();
        let [confirmed, cancelled, expired, late] = self.payments;
        json!({
            "sale": self.sale,
            "seed": self.seed,
            "store": self.store_url,
            "orders": self.orders_url,
            "files": self.files,
            "joined": self.joined,
            "interrupted": self.interrupted,
            "units": self.stock.total,
            "buyers": self.buyers,
            "confirmed": self.stock.confirmed,
            "held": self.stock.held,
            "free": self.stock.free,
            "withdrawn": self.stock.withdrawn,
            "answers": answers,
            "attempts": self.attempts(),
            "attempts_per_second": per_second(self.wave.attempts, self.wave.took),
            "from_memory": self.gate.from_memory,
            "from_memory_per_second": per_second(self.wave.from_memory, self.wave.took),
            "crowd_ms": self.wave.took.as_millis() as u64,
            "elapsed_ms": self.elapsed.as_millis() as u64,
            "latency_us": { "p50": self.latency.p50, "p99": self.latency.p99, "max": self.latency.max },
            "payments": { "confirmed": confirmed, "cancelled": cancelled, "expired": expired, "late": late },
            "generation": self.losses.generation,
            "lost_writes": self.losses.shown,
            "rebuilds": self.losses.rebuilds,
            "receipts": { "restored": self.losses.restored, "lost": self.losses.lost },
            "store_calls": self.store.calls,
            "store_transactions": self.store.transactions,
            "store_statements": self.store.statements,
            "ledger_transactions": self.ledger.transactions,
            "ledger_statements": self.ledger.statements,
            "ledger_orders": self.ledger.orders,
            "orders_behind": self.left.behind,
            "orders_failed": self.left.failed,
            "first_error": self.first_error,
            "memory_peak_bytes": self.memory_peak_bytes,
            "audit": self.audit,
        })
    }

    fn write(&self, out: &mut impl Write, output: Output) -> Result<()> {
        let stock = &self.stock;
        let what = if self.joined { ", with buyers of other processes" } else { "" };
        writeln!(
            out,
            "Sale `{}`: {} × {SKU}, {} per buyer; {} (seed {}){what}\n",
            self.sale,
            thousands(stock.total.into()),
            stock.per_buyer,
            many(self.buyers, "buyer"),
            self.seed
        )?;
        if self.interrupted {
            let done = match self.left {
                OrdersLeft { behind: 0, failed: 0 } => "every order until then was recorded".to_owned(),
                OrdersLeft { behind, failed } => {
                    format!(
                        "the ledger is {} behind, {}",
                        many(behind, "event"),
                        many(failed.into(), "failed order")
                    )
                }
            };
            writeln!(out, "  Stopped     by a signal; {done}\n")?;
        }
        let left = match (stock.free, stock.held) {
            (0, 0) => "none free, none on hold".to_owned(),
            (free, held) => format!("{} free, {} on hold", thousands(free.into()), thousands(held.into())),
        };
        writeln!(
            out,
            "  Sold        {} of {}: {left}",
            thousands(stock.confirmed.into()),
            thousands(stock.total.into())
        )?;
        let [confirmed, cancelled, _, late] = self.payments.map(thousands);
        let carts = many(self.payments[2], "hold");
        writeln!(
            out,
            "  Payments    {confirmed} paid, {cancelled} canceled, {late} paid after expiry; {carts} expired"
        )?;
        let Losses { generation, rebuilds, restored, lost, .. } = &self.losses;
        if *generation > 1 {
            writeln!(
                out,
                "  Lost writes {}, now in generation {generation}; {} restored from receipts, {} lost",
                many(*rebuilds, "rebuild"),
                many(*restored, "hold"),
                thousands(*lost),
            )?;
        }
        writeln!(
            out,
            "  Answers     {} in {} ({} per second); finished after {}",
            thousands(self.attempts()),
            seconds(self.wave.took),
            thousands(per_second(self.wave.attempts, self.wave.took)),
            seconds(self.elapsed)
        )?;
        for told in Told::ALL {
            let n = self.answers[&(told as usize)];
            if n > 0 {
                writeln!(out, "    {:>12}  {}", thousands(n), told.meaning())?;
            }
        }
        if let Some(error) = &self.first_error {
            writeln!(out, "                  first error: {error}")?;
        }
        writeln!(
            out,
            "  Latency     p50 {}, p99 {}, max {}",
            micros(self.latency.p50),
            micros(self.latency.p99),
            micros(self.latency.max)
        )?;
        writeln!(
            out,
            "  Store       {}, {}, {}; {} from the admission cache",
            many(self.store.calls, "call"),
            many(self.store.transactions, "write transaction"),
            many(self.store.statements, "statement"),
            many(self.gate.from_memory, "answer")
        )?;
        writeln!(
            out,
            "  Ledger      {} in {}, {}",
            many(self.ledger.orders, "order"),
            many(self.ledger.transactions, "transaction"),
            many(self.ledger.statements, "statement")
        )?;
        if let Some(files) = &self.files {
            writeln!(out, "  Files       {}", files.display())?;
        }
        write!(out, "\n{}", audit_text(&self.audit, output))?;
        Ok(())
    }
}

/// Compares the buyers' answers with the store. In a rebuilt sale, canceled and expired holds are not expected, and
/// lost ones were reported.
pub(super) fn kept_promises(tickets: &[Ticket], books: &Books, rebuilt: bool) -> [Check; 2] {
    let rows: HashMap<ReservationId, HoldState> =
        books.reservations.iter().map(|row| (row.id, row.state)).collect();
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
pub(super) fn memory_peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

/// `1234567` as `1,234,567`.
pub(super) fn thousands(n: u64) -> String {
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
pub(super) fn many(n: u64, thing: &str) -> String {
    format!("{} {thing}{}", thousands(n), if n == 1 { "" } else { "s" })
}

pub(super) fn seconds(length: Duration) -> String {
    format!("{:.2} s", length.as_secs_f64())
}

/// Microseconds in a readable unit.
pub(super) fn micros(us: f64) -> String {
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
