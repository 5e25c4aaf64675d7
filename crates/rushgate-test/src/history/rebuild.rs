//! Rebuilds in histories, in parts, from a ledger that knows some of the reservations.

use std::collections::BTreeSet;

use rushgate_core::{
    HoldState, LedgerOrder, Load, OrderIntent, ReservationRow, SkuCounters, Snapshot, Stocktake, UnitNumber,
    UnitRange,
};

/// The data of a ledger that knows these reservations, in parts, and the stock that they add up to.
pub(super) fn parts(
    snapshot: &Snapshot,
    heard_of: &[&ReservationRow],
    generation: u32,
) -> (Vec<Load>, Vec<Stocktake>) {
    let orders: Vec<_> = heard_of.iter().filter_map(|row| order(row, generation)).collect();
    let (first, second) = orders.split_at(orders.len() / 2);
    let mut parts = vec![Load::Orders(first.to_vec()), Load::Orders(second.to_vec())];
    let mut stock = Vec::new();
    for sku in &snapshot.skus {
        let of_sku = orders.iter().flat_map(|order| &order.units).filter(|(of, _)| *of == sku.sku);
        stock.push(shelves(sku, &of_sku.map(|(_, unit)| *unit).collect(), &mut parts));
    }
    (parts, stock)
}

/// Adds the units of a SKU that no order owns to the parts.
fn shelves(sku: &SkuCounters, owned: &BTreeSet<UnitNumber>, parts: &mut Vec<Load>) -> Stocktake {
    let handed_out = owned.last().copied().unwrap_or(0);
    let (mut below, mut above) = (Vec::new(), Vec::new());
    for range in in_order(&sku.withdrawn) {
        below.extend(UnitRange::new(range.first(), range.last().min(handed_out)));
        above.extend(UnitRange::new(range.first().max(handed_out + 1), range.last()));
    }
    let is_free =
        |unit: &UnitNumber| !owned.contains(unit) && !below.iter().any(|range| range.contains(*unit));
    let free: Vec<_> = (1..=handed_out).filter(is_free).collect();
    let ahead = UnitRange::total(&above) as u32;
    below.extend(above);
    if !free.is_empty() {
        parts.push(Load::Free(sku.sku.clone(), free));
    }
    if !below.is_empty() {
        parts.push(Load::Withdrawn(sku.sku.clone(), below));
    }
    Stocktake { total: sku.total, handed_out, ahead }
}

fn order(ReservationRow { hold, .. }: &ReservationRow, generation: u32) -> Option<LedgerOrder> {
    let state = match hold.state {
        HoldState::Held | HoldState::Confirming | HoldState::Cancelling | HoldState::Expiring => {
            OrderIntent::Hold
        }
        HoldState::Confirmed => OrderIntent::Confirm,
        HoldState::Cancelled => OrderIntent::Cancel,
        HoldState::Expired => OrderIntent::Expire,
        HoldState::Rejected => return None,
    };
    let units = if hold.state.is_live() { hold.units.clone() } else { Vec::new() };
    let (buyer, returned) = (hold.buyer.clone(), Vec::new());
    Some(LedgerOrder { id: hold.id, buyer, state, generation, seq: hold.seq, units, returned })
}

/// Sorts and merges ranges, as a ledger does.
fn in_order(ranges: &[UnitRange]) -> Vec<UnitRange> {
    let mut ranges = ranges.to_vec();
    ranges.sort_unstable();
    UnitRange::gather(ranges)
}
