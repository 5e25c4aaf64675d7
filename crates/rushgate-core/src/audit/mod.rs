//! The audit: pure arithmetic over what the store, its event log and the ledger say.
//!
//! It reads what each of them wrote down and adds up again from nothing. Whatever is written down twice is compared:
//! counters and indexes with the rows, rows with the log, the store with the ledger. A sale that passes has no field
//! that contradicts another.

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

/// The audit's finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Whether every check holds.
    pub ok: bool,
    /// The checks, in order of importance to a shop owner.
    pub checks: Vec<Check>,
}

/// One line of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// A stable word for programs.
    pub name: String,
    /// What is claimed, in words.
    pub claim: String,
    /// Whether it holds.
    pub ok: bool,
    /// The figures, and the first few offenders.
    pub figures: String,
}

/// What happened in a sale between the reading of the store's books and that of the ledger's: its events since. What
/// they moved is not compared.
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
                EventKind::Paused => self.stopped = true,
                _ => self.reservations.extend(event.reservation),
            }
        }
    }
}

/// Checks a sale's books, and the ledger's against them if it is the system of record.
///
/// The sale must be at rest, or the ledger's books be of the same moment; see [`audit_live`] otherwise. Changes that
/// wait in the orders queue are allowed for.
pub fn audit(books: &Books, ledger: Option<&LedgerBooks>) -> Audit {
    audit_live(books, ledger, &Meanwhile::default())
}

/// As [`audit`], of a sale that is under way: the ledger's books were read after the store's.
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
        None if books.spec.orders.is_some() => checks.push(Check {
            name: "ledger".into(),
            claim: "the ledger was read".into(),
            ok: false,
            figures: "the sale has a ledger, but none was given to the audit".into(),
        }),
        None => {}
    }
    summed_up(checks)
}

/// The part of the [`audit`] that needs no ledger: the store's books against each other.
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
            "no record of the store contradicts itself",
            counted(books.contradictions.len(), "contradiction"),
            books.contradictions.clone(),
        ),
    ])
}

/// A store and its ledger.
struct Both<'a> {
    books: &'a Books,
    ledger: &'a LedgerBooks,
    meanwhile: &'a Meanwhile,
}

impl Both<'_> {
    /// A stopped sale is rebuilt, which carries to the ledger whatever has not got there, under generations of its own.
    fn is_stopped(&self) -> bool {
        self.books.paused.is_some() || self.meanwhile.stopped
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

/// The same numbers in as few ranges as can be.
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

/// What is in the first ranges and not in the second; both are [united].
fn missing(from: &[UnitRange], in_: &[UnitRange]) -> Vec<UnitRange> {
    from.iter().flat_map(|range| range.without(overlapping(in_, *range))).collect()
}

/// Those of the ranges that share a number with that one, cut to it. They are in order and do not overlap.
fn overlapping(ranges: &[UnitRange], with: UnitRange) -> impl Iterator<Item = UnitRange> {
    let from = ranges.partition_point(|range| range.last() < with.first());
    let until = ranges.partition_point(|range| range.first() <= with.last());
    let cut = move |range: &UnitRange| {
        UnitRange::new(range.first().max(with.first()), range.last().min(with.last()))
    };
    ranges[from..until.max(from)].iter().filter_map(cut)
}

/// Whether one of the ranges has the unit. They are in order and do not overlap.
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

/// The units of an order or a reservation, for people.
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

/// The reservations by their ids.
fn by_id(books: &Books) -> BTreeMap<ReservationId, &ReservationRow> {
    books.reservations.iter().map(|row| (row.id, row)).collect()
}
