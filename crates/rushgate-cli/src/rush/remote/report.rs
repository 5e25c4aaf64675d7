//! Report of a simulation over HTTP, as text and as JSON.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use rushgate::sale::{Audit, Check};
use serde_json::{Value, json};

use super::crowd::{Promises, Share};
use super::{Rush, Seen, SkuSeen};
use crate::output::Output;
use crate::rush::SKU;
use crate::rush::report::{many, micros, seconds, thousands};
use crate::rush::tally::{Told, per_second};
use crate::sale::audit_text;

/// Result of one simulation.
pub(super) struct Report<'a> {
    pub(super) rush: &'a Rush,
    /// Answer of the server's readiness check.
    pub(super) ready: Value,
    pub(super) seen: &'a Seen,
    pub(super) share: &'a Share,
    pub(super) audit: Audit,
    pub(super) elapsed: Duration,
    pub(super) interrupted: bool,
}

/// Latency percentiles, in microseconds.
struct Times {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl From<&Histogram<u64>> for Times {
    fn from(of: &Histogram<u64>) -> Self {
        let at = |quantile| of.value_at_quantile(quantile) as f64 / 1e3;
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: of.max() as f64 / 1e3 }
    }
}

impl Times {
    fn json(&self) -> Value {
        json!({ "p50": self.p50, "p99": self.p99, "p999": self.p999, "max": self.max })
    }

    fn text(&self) -> String {
        let Self { p50, p99, p999, max } = *self;
        let [p50, p99, p999, max] = [p50, p99, p999, max].map(micros);
        format!("p50 {p50}, p99 {p99}, p99.9 {p999}, max {max}")
    }
}

/// Compares the buyers' answers with the server.
pub(super) fn kept_promises(promises: &Promises) -> [Check; 2] {
    let Promises { told, missing, paid, unsold, .. } = promises;
    [
        Check {
            name: "told_reserved".into(),
            claim: "every buyer with a reservation, except those reported lost, is in the store".into(),
            ok: *missing == 0,
            figures: format!("{told} reservations, {missing} missing"),
        },
        Check {
            name: "told_confirmed".into(),
            claim: "every buyer whose payment was taken has a sold unit".into(),
            ok: *unsold == 0,
            figures: format!("{paid} payments, {unsold} without a unit"),
        },
    ]
}

/// With ten times as many buyers as units, no unit may be left.
pub(super) fn nothing_left(sku: &SkuSeen) -> Check {
    let left = sku.free + sku.held;
    Check {
        name: "nothing_left".into(),
        claim: "with buyers waiting, every unit was sold".into(),
        ok: left == 0,
        figures: format!("{} of {} sold or withdrawn", sku.total - left, sku.total),
    }
}

impl Report<'_> {
    pub(super) fn ok(&self) -> bool {
        self.audit.ok
    }

    pub(super) fn print(&self, output: Output) -> Result<()> {
        output.data(&self.json(), self.text(output)).map(drop)
    }

    fn count(&self, told: Told) -> u64 {
        self.share.answers[told as usize]
    }

    fn attempts(&self) -> u64 {
        Told::ALL.into_iter().map(|told| self.count(told)).sum()
    }

    fn rate(&self) -> u64 {
        per_second(self.share.wave_attempts, self.share.wave)
    }

    fn json(&self) -> Value {
        let Rush { args, seed, sale, address, .. } = self.rush;
        let base = &address.base;
        let answers: serde_json::Map<String, Value> =
            Told::ALL.into_iter().map(|told| (told.word().into(), self.count(told).into())).collect();
        let Promises { paid, cancelled, late, restored, lost, .. } = self.share.promises;
        let stock = |of: fn(&SkuSeen) -> u32| self.seen.phone().map_or(0, of);
        json!({
            "sale": sale,
            "seed": seed,
            "url": base,
            "durability": self.ready["durability"],
            "joined": args.join.is_some(),
            "interrupted": self.interrupted,
            "units": stock(|sku| sku.total),
            "buyers": args.buyers,
            "connections": args.concurrency,
            "confirmed": stock(|sku| sku.confirmed),
            "held": stock(|sku| sku.held),
            "free": stock(|sku| sku.free),
            "withdrawn": stock(|sku| sku.withdrawn),
            "answers": answers,
            "attempts": self.attempts(),
            "attempts_per_second": self.rate(),
            "asked_again": self.share.asked_again,
            "crowd_ms": self.share.wave.as_millis() as u64,
            "elapsed_ms": self.elapsed.as_millis() as u64,
            "latency_us": Times::from(&self.share.latency).json(),
            "served_us": Times::from(&self.share.served).json(),
            "payments": { "confirmed": paid, "cancelled": cancelled, "late": late },
            "generation": self.seen.generation,
            "receipts": { "restored": restored, "lost": lost },
            "first_error": self.share.first_error,
            "memory_peak_bytes": self.share.memory_peak_bytes,
            "audit": self.audit,
        })
    }

    fn text(&self, output: Output) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, output);
        text
    }

    fn write(&self, out: &mut String, output: Output) -> std::fmt::Result {
        let Rush { args, seed, sale, address, .. } = self.rush;
        let base = &address.base;
        let Some(stock) = self.seen.phone() else { return Ok(()) };
        let number = |n: u32| thousands(n.into());
        writeln!(
            out,
            "Sale `{sale}` at {base}: {} × {SKU}, {} per buyer; {} (seed {seed}) over {}\n",
            number(stock.total),
            stock.per_buyer,
            many(args.buyers, "buyer"),
            many(args.concurrency.into(), "connection"),
        )?;
        if self.interrupted {
            writeln!(out, "  Stopped     by a signal\n")?;
        }
        let left = match (stock.free, stock.held) {
            (0, 0) => "none free, none on hold".to_owned(),
            (free, held) => format!("{} free, {} on hold", number(free), number(held)),
        };
        writeln!(out, "  Sold        {} of {}: {left}", number(stock.confirmed), number(stock.total))?;
        let Promises { paid, cancelled, late, restored, lost, .. } = self.share.promises;
        let [paid, cancelled, late] = [paid, cancelled, late].map(thousands);
        writeln!(out, "  Payments    {paid} paid, {cancelled} canceled, {late} paid after expiry")?;
        if self.seen.generation > 1 {
            writeln!(
                out,
                "  Lost writes now in generation {}; {} restored from receipts, {} lost",
                self.seen.generation,
                many(restored, "cart"),
                thousands(lost),
            )?;
        }
        writeln!(
            out,
            "  Answers     {} in {} ({} per second); finished after {}",
            thousands(self.attempts()),
            seconds(self.share.wave),
            thousands(self.rate()),
            seconds(self.elapsed)
        )?;
        for told in Told::ALL {
            let n = self.count(told);
            if n > 0 {
                writeln!(out, "    {:>12}  {}", thousands(n), told.meaning())?;
            }
        }
        if let Some(error) = &self.share.first_error {
            writeln!(out, "                  first error: {error}")?;
        }
        let again = self.share.asked_again;
        if again > 0 {
            writeln!(
                out,
                "  Retries     {} while the server or the sale was unavailable",
                many(again, "time")
            )?;
        }
        writeln!(out, "  Latency     {}", Times::from(&self.share.latency).text())?;
        writeln!(out, "  Round trip  {}", Times::from(&self.share.served).text())?;
        write!(out, "\n{}", audit_text(&self.audit, output))
    }
}
