//! Delivery of changes from the store to the ledger: what the ledger lacks must be in the order queue, and an order
//! worker must get it.

use std::collections::BTreeMap;

use super::{
    Both, Check, ReservationRow, SkuCounters, by_id, check, counted, listed, missing, sorted, united,
};
use crate::{EventKind, HoldState, OrderIntent, OrderTask, ReservationId, Sku, UnitRange};

/// The waiting order of each reservation.
type Waiting<'a> = BTreeMap<ReservationId, &'a OrderTask>;

/// What the ledger has yet to record for a reservation in this state, if anything.
fn awaited(state: HoldState) -> Option<OrderIntent> {
    match state {
        HoldState::Held => Some(OrderIntent::Hold),
        HoldState::Confirming => Some(OrderIntent::Confirm),
        HoldState::Cancelling => Some(OrderIntent::Cancel),
        HoldState::Expiring => Some(OrderIntent::Expire),
        HoldState::Confirmed | HoldState::Cancelled | HoldState::Expired | HoldState::Rejected => None,
    }
}

impl Both<'_> {
    pub(super) fn delivery(&self) -> Check {
        let mut offenders = Vec::new();
        // The rebuild of a halted sale sends the ledger what the queue has lost.
        if !self.is_stopped() {
            let waiting = self.waiting();
            offenders.extend(self.books.obstacles.iter().cloned());
            self.check_waiting(&waiting, &mut offenders);
            self.check_reservations(&waiting, &mut offenders);
            self.books.skus.iter().for_each(|sku| self.check_stock(sku, &mut offenders));
        }
        let figures = format!("{} in the order queue", counted(self.books.pending.len(), "order"));
        check(
            "orders_are_delivered",
            "every change that the ledger lacks is in the order queue",
            figures,
            offenders,
        )
    }

    /// Orders of the current generation or later. The ledger accepts none of older generations.
    fn waiting(&self) -> Waiting<'_> {
        let mut waiting = Waiting::new();
        for order in &self.books.pending {
            match order {
                OrderTask::Reservation { id, generation, .. } if *generation >= self.books.generation => {
                    waiting.insert(*id, order);
                }
                _ => {}
            }
        }
        waiting
    }

    /// Compares the orders in the queue with the reservations.
    fn check_waiting(&self, waiting: &Waiting<'_>, offenders: &mut Vec<String>) {
        let rows = by_id(self.books);
        for (id, order) in waiting {
            if !rows.get(id).is_some_and(|row| is_about(order, row)) {
                offenders.push(format!("the order queue has an order of {id} that differs from the store"));
            }
        }
        for order in &self.books.pending {
            let OrderTask::Stock { sku, seq, total, withdrawn, per_buyer, .. } = order else { continue };
            let known = self.books.skus.iter().find(|known| known.sku == *sku);
            let is_known = known.is_some_and(|known| {
                *total <= known.total
                    && *per_buyer == known.per_buyer
                    && missing(&united(withdrawn.iter().copied()), &self.withdrawn(sku)).is_empty()
            });
            if !is_known {
                offenders.push(format!(
                    "the order queue has a change {seq} of {sku} that the store does not have"
                ));
            }
        }
    }

    /// The store enqueues an order in the step of the change, and removes it once the ledger has recorded it.
    fn check_reservations(&self, waiting: &Waiting<'_>, offenders: &mut Vec<String>) {
        let ledger: BTreeMap<ReservationId, OrderIntent> =
            self.ledger.orders.iter().map(|order| (order.id, order.state)).collect();
        for row in self.books.reservations.iter().filter(|row| !self.has_moved(row.id)) {
            let Some(awaited) = awaited(row.state) else { continue };
            let waits = waiting.get(&row.id).and_then(|order| intent_of(order));
            let is_on_its_way = waits == Some(awaited);
            let is_known = row.state == HoldState::Held && ledger.contains_key(&row.id);
            if !is_on_its_way && !is_known {
                offenders.push(format!(
                    "reservation {} of buyer `{}` is {:?}, ledger has {}, and the order queue has no order for it",
                    row.id,
                    row.buyer,
                    row.state,
                    ledger.get(&row.id).map_or_else(|| "no order".into(), |state| format!("`{state:?}`"))
                ));
            }
        }
    }

    fn check_stock(&self, sku: &SkuCounters, offenders: &mut Vec<String>) {
        let (mut total, mut told) = (0, Vec::new());
        for order in &self.books.pending {
            if let OrderTask::Stock { sku: of, total: then, withdrawn, .. } = order
                && *of == sku.sku
            {
                total = total.max(*then);
                told.extend(withdrawn);
            }
        }
        if let Some(known) = self.ledger.skus.iter().find(|known| known.sku == sku.sku) {
            told.extend(&known.withdrawn);
            let known = known.total.max(total);
            if known < sku.total {
                offenders.push(format!(
                    "store offers {} of {}, ledger {known}, and the order queue has no change for it",
                    sku.total, sku.sku
                ));
            }
        }
        let untold = missing(&self.withdrawn(&sku.sku), &united(told));
        if !untold.is_empty() {
            offenders.push(format!(
                "store has withdrawn {} no. {}, ledger has not, and the order queue has no change for it",
                sku.sku,
                listed(&untold)
            ));
        }
    }

    /// Units that stock changes withdrew. Units that the ledger refused to sell are withdrawn in the store alone,
    /// because other orders own them in the ledger.
    fn withdrawn(&self, sku: &Sku) -> Vec<UnitRange> {
        let events = self.books.events.iter().filter(|event| event.kind == EventKind::StockWithdrawn);
        let ranges = events.flat_map(|event| &event.units).filter(|(of, _)| of == sku);
        united(ranges.map(|(_, range)| *range))
    }
}

fn intent_of(order: &OrderTask) -> Option<OrderIntent> {
    match order {
        OrderTask::Reservation { intent, .. } => Some(*intent),
        OrderTask::Stock { .. } => None,
    }
}

/// Whether the order matches the reservation. The ledger may have rejected the reservation whatever the order's
/// intent.
fn is_about(order: &OrderTask, row: &ReservationRow) -> bool {
    let OrderTask::Reservation { generation, seq, buyer, units, intent, .. } = order else { return false };
    let decided = match row.state {
        HoldState::Confirmed => Some(OrderIntent::Confirm),
        HoldState::Cancelled => Some(OrderIntent::Cancel),
        HoldState::Expired => Some(OrderIntent::Expire),
        state => awaited(state),
    };
    (*generation, *seq, buyer) == (row.generation, row.seq, &row.buyer)
        && sorted(units) == sorted(&row.units)
        && decided.is_none_or(|decided| *intent == decided)
}
