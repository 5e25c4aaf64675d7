//! The ledger: consistent in itself, and never in contradiction to the store.

use std::collections::{BTreeMap, BTreeSet};

use super::buyers::{Owned, limit_check};
use super::delivery::Undelivered;
use super::shared::{
    Both, Check, Unit, by_id, check, counted, has, in_order, listed, missing, named, sorted, united,
};
use crate::{
    EventKind, HoldState, LedgerOrder, LedgerSku, LedgerSnapshot, OrderIntent, ReservationId, ReservationRow,
    SaleSpec, Sku,
};

pub(super) fn no_unit_twice(ledger: &LedgerSnapshot) -> Check {
    let stock = |sku: &LedgerSku| (sku.total, in_order(sku.withdrawn.iter().copied()));
    let stock: BTreeMap<&Sku, _> = ledger.skus.iter().map(|sku| (&sku.sku, stock(sku))).collect();
    let mut seen: BTreeSet<Unit<'_>> = BTreeSet::new();
    let mut sequence = BTreeSet::new();
    let mut offenders = Vec::new();
    for order in &ledger.orders {
        if !sequence.insert((order.generation, order.seq)) {
            offenders.push(format!("event {} of generation {} has two orders", order.seq, order.generation));
        }
        for (sku, unit) in &order.units {
            if !seen.insert((sku, *unit)) {
                offenders.push(format!("{sku} no. {unit} is in two orders"));
            }
            if stock.get(sku).is_none_or(|(total, withdrawn)| unit > total || has(withdrawn, *unit)) {
                offenders.push(format!("{sku} no. {unit} is not for sale"));
            }
        }
    }
    let figures = format!("{}, {}", counted(ledger.orders.len(), "order"), counted(seen.len(), "unit"));
    check("ledger_no_unit_twice", "no unit is in the ledger twice", figures, offenders)
}

pub(super) fn limit(ledger: &LedgerSnapshot) -> Check {
    let mut has = Owned::new();
    for order in &ledger.orders {
        for (sku, _) in &order.units {
            *has.entry((&order.buyer, sku)).or_default() += 1;
        }
    }
    let limits = ledger.skus.iter().map(|sku| (&sku.sku, sku.per_buyer)).collect();
    limit_check(
        "ledger_nobody_over_the_limit",
        "no buyer exceeds the purchase limit in the ledger",
        &has,
        &limits,
    )
}

/// Checks that each order has the units that its state implies.
pub(super) fn is_sound(ledger: &LedgerSnapshot) -> Check {
    let mut offenders = ledger.contradictions.clone();
    for order in &ledger.orders {
        let is_live = order.state.is_live();
        if is_live == order.units.is_empty() {
            offenders.push(format!(
                "the order of {} is {:?} and has {}",
                order.id,
                order.state,
                named(&order.units)
            ));
        }
        if is_live && !order.returned.is_empty() {
            offenders.push(format!("the order of {} is {:?} and has released units", order.id, order.state));
        }
        if order.generation == 0 || order.generation > ledger.generation {
            offenders.push(format!(
                "the order of {} has generation {}, the sale has {}",
                order.id, order.generation, ledger.generation
            ));
        }
    }
    for sku in &ledger.skus {
        let ranges = in_order(sku.withdrawn.iter().copied());
        for pair in ranges.windows(2).filter(|pair| pair[1].first() <= pair[0].last()) {
            offenders.push(format!("{} no. {} is withdrawn twice", sku.sku, pair[1].first()));
        }
        for range in ranges.iter().filter(|range| range.last() > sku.total) {
            offenders.push(format!("{} no. {range} is withdrawn, of {}", sku.sku, sku.total));
        }
    }
    let figures = counted(offenders.len(), "contradiction");
    check("ledger_is_sound", "the records of the ledger are consistent", figures, offenders)
}

/// Whether an order may have this state while the reservation has that one. The ledger may lag behind a decision, but
/// never lead it.
fn agrees(row: HoldState, order: OrderIntent) -> bool {
    match order {
        OrderIntent::Hold => row.is_held(),
        OrderIntent::Confirm => matches!(row, HoldState::Confirming | HoldState::Confirmed),
        OrderIntent::Cancel => matches!(row, HoldState::Cancelling | HoldState::Cancelled),
        OrderIntent::Expire => matches!(row, HoldState::Expiring | HoldState::Expired),
    }
}

impl Both<'_> {
    /// Compares specification and generation.
    pub(super) fn sale(&self) -> Check {
        let (snapshot, ledger) = (self.snapshot, self.ledger);
        let mut offenders = Vec::new();
        if ledger.knows_the_sale() {
            match &ledger.spec {
                None => offenders.push("the ledger lacks the specification of the sale".into()),
                Some(spec) => offenders.extend(differing(&snapshot.spec, spec)),
            }
            let is_behind = ledger.generation < snapshot.generation;
            if is_behind || (ledger.generation > snapshot.generation && !self.is_stopped()) {
                offenders.push(format!(
                    "ledger is in generation {}, store in {}",
                    ledger.generation, snapshot.generation
                ));
            }
        }
        let figures = format!("generation {}", snapshot.generation);
        check("ledger_sale", "store and ledger agree on the specification of the sale", figures, offenders)
    }

    /// The ledger may lack a stock change that is under way, but have none that the store lacks.
    pub(super) fn stock(&self) -> Check {
        let mut offenders = Vec::new();
        let in_ledger: BTreeMap<&Sku, &LedgerSku> =
            self.ledger.skus.iter().map(|sku| (&sku.sku, sku)).collect();
        for sku in self.snapshot.skus.iter().filter(|_| self.ledger.knows_the_sale()) {
            let Some(known) = in_ledger.get(&sku.sku) else {
                offenders.push(format!("ledger does not have {}", sku.sku));
                continue;
            };
            if known.per_buyer != sku.per_buyer {
                offenders.push(format!(
                    "ledger allows {} of {} per buyer, store {}",
                    known.per_buyer, sku.sku, sku.per_buyer
                ));
            }
            if self.meanwhile.skus.contains(&sku.sku) {
                continue;
            }
            if known.total > sku.total {
                offenders.push(format!("ledger offers {} of {}, store {}", known.total, sku.sku, sku.total));
            }
            let extra =
                missing(&united(known.withdrawn.iter().copied()), &united(sku.withdrawn.iter().copied()));
            if !extra.is_empty() {
                offenders.push(format!(
                    "ledger has withdrawn {} no. {}, store has not",
                    sku.sku,
                    listed(&extra)
                ));
            }
        }
        if in_ledger.len() > self.snapshot.skus.len() {
            offenders.push(format!(
                "ledger has {} SKUs, store {}",
                in_ledger.len(),
                self.snapshot.skus.len()
            ));
        }
        let figures = counted(in_ledger.len(), "SKU");
        check("ledger_stock", "the ledger has no stock that the store does not have", figures, offenders)
    }

    pub(super) fn orders(&self) -> Check {
        let orders: BTreeMap<ReservationId, &LedgerOrder> =
            self.ledger.orders.iter().map(|order| (order.id, order)).collect();
        let rows = by_id(self.snapshot);
        let mut offenders = Vec::new();
        for row in self.snapshot.reservations.iter().filter(|row| !self.has_moved(row.hold.id)) {
            let hold = &row.hold;
            match orders.get(&hold.id) {
                // Whether the order is under way is another check.
                None if hold.state.is_held() || hold.state == HoldState::Rejected => {}
                None => offenders.push(format!("{} is {:?} and has no order", hold.id, hold.state)),
                Some(order) => offenders.extend(self.differing_order(row, order)),
            }
        }
        let strange = |order: &&LedgerOrder| !rows.contains_key(&order.id) && !self.has_moved(order.id);
        let strangers = self.ledger.orders.iter().filter(strange);
        offenders.extend(
            strangers.map(|order| format!("{} has an order, but the store does not have it", order.id)),
        );
        let confirmed = |n: usize| format!("{n} confirmed");
        let held = self.snapshot.reservations.iter();
        let figures = format!(
            "store {}, ledger {}",
            confirmed(held.filter(|row| row.hold.state == HoldState::Confirmed).count()),
            confirmed(self.ledger.orders.iter().filter(|order| order.state == OrderIntent::Confirm).count()),
        );
        check("ledger_agrees", "store and ledger agree on every reservation", figures, offenders)
    }

    fn differing_order(&self, row: &ReservationRow, order: &LedgerOrder) -> Vec<String> {
        let hold = &row.hold;
        let mut offenders = Vec::new();
        if !agrees(hold.state, order.state) {
            offenders.push(format!("{} is {:?}, its order {:?}", hold.id, hold.state, order.state));
        }
        if order.buyer != hold.buyer {
            offenders.push(format!(
                "ledger has buyer `{}` for reservation {}, store has `{}`",
                order.buyer, hold.id, hold.buyer
            ));
        }
        let units = if order.units.is_empty() { &order.returned } else { &order.units };
        // A reservation that ended before a rebuild was loaded without its units.
        let loaded_ended = hold.units.is_empty() && row.asked.is_none() && order.units.is_empty();
        if sorted(units) != sorted(&hold.units) && !loaded_ended {
            offenders.push(format!(
                "ledger has {} for reservation {}, store has {}",
                named(units),
                hold.id,
                named(&hold.units)
            ));
        }
        if !self.is_stopped() && !self.is_the_same_event(row, order) {
            offenders.push(format!(
                "ledger has event {} of generation {} for reservation {}, store has {} of {}",
                order.seq, order.generation, hold.id, hold.seq, hold.generation
            ));
        }
        offenders
    }

    /// A rebuild loads an order of an older generation as an event of the new one.
    fn is_the_same_event(&self, row: &ReservationRow, order: &LedgerOrder) -> bool {
        (order.generation, order.seq) == (row.hold.generation, row.hold.seq)
            || (order.generation < row.hold.generation && row.asked.is_none())
    }

    /// An order that the ledger permanently refused in this generation must be rejected in the store.
    pub(super) fn refusals(&self) -> Check {
        let mut rejected: BTreeMap<ReservationId, EventKind> = BTreeMap::new();
        for event in &self.snapshot.events {
            if let (EventKind::Rejected | EventKind::Quarantined, Some(id)) = (event.kind, event.reservation)
            {
                rejected.insert(id, event.kind);
            }
        }
        let undelivered = Undelivered::of(self);
        let mut offenders = Vec::new();
        let of_this = self.ledger.refusals.iter().filter(|refusal| {
            refusal.generation >= self.snapshot.generation
                && !self.is_stopped()
                && !self.has_moved(refusal.id)
        });
        for refusal in of_this {
            let expected = if refusal.units_taken { EventKind::Quarantined } else { EventKind::Rejected };
            let was = rejected.get(&refusal.id);
            if was != Some(&expected) && !(was.is_none() && undelivered.reservations.contains(&refusal.id)) {
                offenders.push(format!("ledger has refused {}, store has no matching rejection", refusal.id));
            }
        }
        let figures = counted(self.ledger.refusals.len(), "refusal");
        check(
            "ledger_refusals",
            "the store has rejected every order that the ledger refused",
            figures,
            offenders,
        )
    }
}

/// The differing fields of two specifications. Values are left out, because one of them is secret.
fn differing(store: &SaleSpec, ledger: &SaleSpec) -> Option<String> {
    let fields =
        |spec: &SaleSpec| serde_json::from_str::<serde_json::Map<_, _>>(&spec.to_json()).unwrap_or_default();
    let (store, ledger) = (fields(store), fields(ledger));
    let names = store.keys().filter(|name| store.get(*name) != ledger.get(*name));
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    (!names.is_empty()).then(|| format!("ledger and store differ in {}", names.join(", ")))
}
