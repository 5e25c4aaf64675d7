//! The store's stock: every unit in exactly one place, and every counter equal to its rows.

use std::collections::{BTreeMap, BTreeSet};

use super::shared::{Check, Unit, check, counted, has, in_order};
use crate::{Hold, HoldState, ReservationId, Sku, SkuCounters, Snapshot, UnitNumber, UnitRange};

pub(super) fn live(snapshot: &Snapshot) -> impl Iterator<Item = &Hold> {
    snapshot.reservations.iter().map(|row| &row.hold).filter(|hold| hold.state.is_live())
}

fn count(snapshot: &Snapshot, sku: &Sku, state: impl Fn(HoldState) -> bool) -> usize {
    let rows = snapshot.reservations.iter().filter(|row| state(row.hold.state));
    rows.flat_map(|row| &row.hold.units).filter(|(of, _)| of == sku).count()
}

pub(super) fn conservation(snapshot: &Snapshot) -> Check {
    let mut offenders = Vec::new();
    let mut figures = Vec::new();
    for sku in &snapshot.skus {
        let confirmed = count(snapshot, &sku.sku, |state| state == HoldState::Confirmed);
        let held = count(snapshot, &sku.sku, HoldState::is_held);
        let (free, withdrawn) = (UnitRange::total(&sku.free), UnitRange::total(&sku.withdrawn));
        let sum = (confirmed + held) as u64 + free + withdrawn;
        figures.push(format!(
            "{}: {} offered = {confirmed} confirmed + {held} held + {free} free + {withdrawn} withdrawn",
            sku.sku, sku.total
        ));
        if sum != u64::from(sku.total) {
            offenders.push(format!("{}: the parts add up to {sum}, not {}", sku.sku, sku.total));
        }
        let counters = [
            ("held", u64::from(sku.held), held as u64),
            ("confirmed", u64::from(sku.confirmed), confirmed as u64),
            ("free", u64::from(sku.fresh) + u64::from(sku.returned), free),
            ("withdrawn", u64::from(sku.withdrawn_count), withdrawn),
        ];
        for (what, counter, rows) in counters.into_iter().filter(|(_, counter, rows)| counter != rows) {
            offenders.push(format!("{}: the counter says {counter} {what}, the rows {rows}", sku.sku));
        }
    }
    check(
        "conservation",
        "conservation: offered = sold + held + free + withdrawn",
        figures.join("; "),
        offenders,
    )
}

pub(super) fn no_unit_twice(snapshot: &Snapshot) -> Check {
    let totals: BTreeMap<&Sku, u32> = snapshot.skus.iter().map(|sku| (&sku.sku, sku.total)).collect();
    let mut offenders = Vec::new();
    let mut owner: BTreeMap<Unit<'_>, ReservationId> = BTreeMap::new();
    for hold in live(snapshot) {
        for (sku, unit) in &hold.units {
            if let Some(other) = owner.insert((sku, *unit), hold.id) {
                offenders.push(format!("{sku} no. {unit} belongs to {other} and to {}", hold.id));
            }
            if *unit == 0 || *unit > totals.get(sku).copied().unwrap_or(0) {
                offenders.push(format!("{sku} no. {unit} of {} does not exist", hold.id));
            }
        }
    }
    let mut rows: BTreeMap<Unit<'_>, ReservationId> = BTreeMap::new();
    for row in &snapshot.units {
        if rows.insert((&row.sku, row.unit), row.reservation).is_some() {
            offenders.push(format!("{} no. {} has two rows", row.sku, row.unit));
        }
    }
    if rows != owner && offenders.is_empty() {
        let differing = rows.iter().filter(|(unit, id)| owner.get(*unit) != Some(id)).count()
            + owner.keys().filter(|unit| !rows.contains_key(*unit)).count();
        offenders.push(format!("{differing} unit rows disagree with the reservations"));
    }
    check(
        "no_unit_twice",
        "no unit is sold or held twice",
        format!("{} owned", counted(owner.len(), "unit")),
        offenders,
    )
}

pub(super) fn no_unit_free_and_owned(snapshot: &Snapshot) -> Check {
    let owned: BTreeSet<Unit<'_>> =
        live(snapshot).flat_map(|hold| hold.units.iter().map(|(s, u)| (s, *u))).collect();
    let mut offenders = Vec::new();
    let mut free = 0;
    for SkuCounters { sku, free: offered, withdrawn, .. } in &snapshot.skus {
        free += UnitRange::total(offered);
        let nobodys = in_order(offered.iter().chain(withdrawn).copied());
        for pair in nobodys.windows(2).filter(|pair| pair[1].first() <= pair[0].last()) {
            offenders.push(format!("{sku} no. {} is free or withdrawn twice", pair[1].first()));
        }
        for (_, unit) in
            owned.range((sku, 0)..=(sku, UnitNumber::MAX)).filter(|(_, unit)| has(&nobodys, *unit))
        {
            offenders.push(format!("{sku} no. {unit} is free or withdrawn, and owned"));
        }
    }
    check(
        "no_unit_free_and_owned",
        "no unit is free and owned",
        format!("{} free", counted(free, "unit")),
        offenders,
    )
}
