//! The stock audit: compares the records of the store, its event log and the ledger.
//!
//! Each fact that is recorded more than once is recomputed and compared: counters and indexes with rows, rows with
//! the log, the store with the ledger. The audit is pure computation and reads nothing itself.

mod books;
mod buyers;
mod delivery;
mod ledger;
mod log;
mod sale;
mod stock;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::{Event, EventKind, ReservationId, Sku, UnitNumber, UnitRange};

pub use books::{
    Books, BuyerCount, Deadline, LedgerBooks, LedgerOrder, LedgerRefusal, LedgerSku, ReservationRow,
    SkuCounters, UnitRow,
};

/// Result of an audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Audit {
    /// Whether every check passed.
    pub ok: bool,
    /// The checks, most important first.
    pub checks: Vec<Check>,
}

/// A check of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// Stable identifier.
    pub name: String,
    /// The invariant, as text.
    pub claim: String,
    /// Whether the check passed.
    pub ok: bool,
    /// The figures, and the first few violations.
    pub figures: String,
}

/// Events of a sale between the store's snapshot and the ledger's. The audit does not compare what they changed.
#[derive(Clone, Debug, Default)]
pub struct Meanwhile {
    reservations: BTreeSet<ReservationId>,
    skus: BTreeSet<Sku>,
    stopped: bool,
}

impl Extend<Event> for Meanwhile {
    fn extend<I: IntoIterator<Item = Event>>(&mut self, events: I) {
        for event in events {
            match event.kind {
                EventKind::StockAdded | EventKind::StockWithdrawn => {
                    self.skus.extend(event.units.into_iter().map(|(sku, _)| sku));
                }
                EventKind::Halted => self.stopped = true,
                _ => self.reservations.extend(event.reservation),
            }
        }
    }
}

/// Audits a sale: the store's snapshot, and the ledger's against it if the ledger is the system of record.
///
/// The sale must be idle, or both snapshots must show the same moment; otherwise use [`audit_live`]. Changes that
/// the ledger has yet to follow are accepted.
pub fn audit(books: &Books, ledger: Option<&LedgerBooks>) -> Audit {
    audit_live(books, ledger, &Meanwhile::default())
}

/// Like [`audit`], for a running sale. The ledger's snapshot must be the later one, and `meanwhile` the events
/// between.
pub fn audit_live(books: &Books, ledger: Option<&LedgerBooks>, meanwhile: &Meanwhile) -> Audit {
    let mut checks = audit_store(books).checks;
    match ledger {
        Some(ledger) => {
            let both = Both { books, ledger, meanwhile };
            checks.extend([
                ledger::no_unit_twice(ledger),
                ledger::limit(ledger),
                ledger::is_sound(ledger),
                both.sale(),
                both.stock(),
                both.orders(),
                both.refusals(),
                both.delivery(),
            ]);
        }
        None if books.spec.ledger => checks.push(Check {
            name: "ledger".into(),
            claim: "the ledger was read".into(),
            ok: false,
            figures: "the sale has a ledger, but the audit ran without it".into(),
        }),
        None => {}
    }
    summed_up(checks)
}

/// Audits the store's snapshot alone, without a ledger.
pub fn audit_store(books: &Books) -> Audit {
    summed_up(vec![
        stock::conservation(books),
        stock::no_unit_twice(books),
        stock::no_unit_free_and_owned(books),
        buyers::nobody_over_the_limit(books),
        buyers::buyers_are_counted(books),
        log::every_reservation_ends_once(books),
        log::reservations_match_the_log(books),
        log::log_is_complete(books),
        log::log_replays(books),
        sale::sale_matches_the_log(books),
        sale::deadlines_are_indexed(books),
        check(
            "store_is_sound",
            "the records of the store are consistent",
            counted(books.contradictions.len(), "contradiction"),
            books.contradictions.clone(),
        ),
    ])
}

/// Snapshots of a store and its ledger.
struct Both<'a> {
    books: &'a Books,
    ledger: &'a LedgerBooks,
    meanwhile: &'a Meanwhile,
}

impl Both<'_> {
    /// Whether the sale is halted. Its rebuild then sends the ledger what it lacks, under a new generation.
    fn is_stopped(&self) -> bool {
        self.books.halted.is_some() || self.meanwhile.stopped
    }

    fn has_moved(&self, id: ReservationId) -> bool {
        self.meanwhile.reservations.contains(&id)
    }
}

fn summed_up(checks: Vec<Check>) -> Audit {
    Audit { ok: checks.iter().all(|check| check.ok), checks }
}

type Unit<'a> = (&'a Sku, UnitNumber);

fn in_order(ranges: impl IntoIterator<Item = UnitRange>) -> Vec<UnitRange> {
    let mut ranges: Vec<_> = ranges.into_iter().collect();
    ranges.sort_unstable();
    ranges
}

/// Merges overlapping and adjacent ranges.
fn united(ranges: impl IntoIterator<Item = UnitRange>) -> Vec<UnitRange> {
    let mut united: Vec<UnitRange> = Vec::new();
    for range in in_order(ranges) {
        match united.last_mut() {
            Some(last) if range.first() <= last.last().saturating_add(1) => {
                *last = UnitRange::new(last.first(), last.last().max(range.last())).unwrap_or(range);
            }
            _ => united.push(range),
        }
    }
    united
}

/// Units in the first ranges but not in the second; both are [united].
fn missing(from: &[UnitRange], in_: &[UnitRange]) -> Vec<UnitRange> {
    from.iter().flat_map(|range| range.without(overlapping(in_, *range))).collect()
}

/// The parts of sorted, disjoint ranges that overlap with the given one.
fn overlapping(ranges: &[UnitRange], with: UnitRange) -> impl Iterator<Item = UnitRange> {
    let from = ranges.partition_point(|range| range.last() < with.first());
    let until = ranges.partition_point(|range| range.first() <= with.last());
    let cut = move |range: &UnitRange| {
        UnitRange::new(range.first().max(with.first()), range.last().min(with.last()))
    };
    ranges[from..until.max(from)].iter().filter_map(cut)
}

/// Whether one of the sorted, disjoint ranges has the unit.
fn has(ranges: &[UnitRange], unit: UnitNumber) -> bool {
    let after = ranges.partition_point(|range| range.first() <= unit);
    after > 0 && ranges[after - 1].contains(unit)
}

fn listed(ranges: &[UnitRange]) -> String {
    ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn sorted(units: &[(Sku, UnitNumber)]) -> Vec<&(Sku, UnitNumber)> {
    let mut units: Vec<_> = units.iter().collect();
    units.sort();
    units
}

/// The units of an order or a reservation, for display.
fn named(units: &[(Sku, UnitNumber)]) -> String {
    let names: Vec<_> = sorted(units).into_iter().map(|(sku, unit)| format!("{sku} no. {unit}")).collect();
    if names.is_empty() { "no units".into() } else { names.join(", ") }
}

fn check(name: &str, claim: &str, figures: impl Display, mut offenders: Vec<String>) -> Check {
    let ok = offenders.is_empty();
    let more = offenders.len().saturating_sub(5);
    offenders.truncate(5);
    let mut figures = figures.to_string();
    if !ok {
        figures = format!("{figures}; {}", offenders.join("; "));
    }
    if more > 0 {
        figures = format!("{figures}; and {more} more");
    }
    Check { name: name.into(), claim: claim.into(), ok, figures }
}

/// A count with its noun in the singular or plural.
fn counted(n: impl TryInto<u64>, thing: &str) -> String {
    match n.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {thing}"),
        n => format!("{n} {thing}s"),
    }
}

fn by_id(books: &Books) -> BTreeMap<ReservationId, &ReservationRow> {
    books.reservations.iter().map(|row| (row.id, row)).collect()
}
