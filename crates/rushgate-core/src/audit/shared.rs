//! What the checks share: their results, the snapshots that they compare, and how they show units.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::snapshot::{LedgerSnapshot, ReservationRow, Snapshot};
use crate::{Event, EventKind, ReservationId, Sku, UnitNumber, UnitRange};

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
    pub(super) skus: BTreeSet<Sku>,
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

/// Snapshots of a store and its ledger.
pub(super) struct Both<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) ledger: &'a LedgerSnapshot,
    pub(super) meanwhile: &'a Meanwhile,
}

impl Both<'_> {
    /// Whether the sale is halted. Its rebuild then sends the ledger what it lacks, under a new generation.
    pub(super) fn is_stopped(&self) -> bool {
        self.snapshot.halted.is_some() || self.meanwhile.stopped
    }

    pub(super) fn has_moved(&self, id: ReservationId) -> bool {
        self.meanwhile.reservations.contains(&id)
    }
}

pub(super) type Unit<'a> = (&'a Sku, UnitNumber);

pub(super) fn in_order(ranges: impl IntoIterator<Item = UnitRange>) -> Vec<UnitRange> {
    let mut ranges: Vec<_> = ranges.into_iter().collect();
    ranges.sort_unstable();
    ranges
}

/// Merges overlapping and adjacent ranges.
pub(super) fn united(ranges: impl IntoIterator<Item = UnitRange>) -> Vec<UnitRange> {
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
pub(super) fn missing(from: &[UnitRange], in_: &[UnitRange]) -> Vec<UnitRange> {
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
pub(super) fn has(ranges: &[UnitRange], unit: UnitNumber) -> bool {
    let after = ranges.partition_point(|range| range.first() <= unit);
    after > 0 && ranges[after - 1].contains(unit)
}

pub(super) fn listed(ranges: &[UnitRange]) -> String {
    ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) fn sorted(units: &[(Sku, UnitNumber)]) -> Vec<&(Sku, UnitNumber)> {
    let mut units: Vec<_> = units.iter().collect();
    units.sort();
    units
}

/// The units of an order or a reservation, for display.
pub(super) fn named(units: &[(Sku, UnitNumber)]) -> String {
    let names: Vec<_> = sorted(units).into_iter().map(|(sku, unit)| format!("{sku} no. {unit}")).collect();
    if names.is_empty() { "no units".into() } else { names.join(", ") }
}

pub(super) fn check(name: &str, claim: &str, figures: impl Display, mut offenders: Vec<String>) -> Check {
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
pub(super) fn counted(n: impl TryInto<u64>, thing: &str) -> String {
    match n.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {thing}"),
        n => format!("{n} {thing}s"),
    }
}

pub(super) fn by_id(snapshot: &Snapshot) -> BTreeMap<ReservationId, &ReservationRow> {
    snapshot.reservations.iter().map(|row| (row.hold.id, row)).collect()
}
