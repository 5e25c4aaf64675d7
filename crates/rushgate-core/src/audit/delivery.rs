//! Delivery of changes from the store to the ledger: the ledger has the entry of every event that an order worker
//! reported as delivered. What the ledger lacks must be in the log behind it, or among the failed entries.

use std::collections::{BTreeMap, BTreeSet};

use super::shared::{Both, Check, check, counted, listed, missing, united};
use crate::{Event, EventKind, HoldState, OrderIntent, ReservationId, Sku, SkuCounters, UnitRange};

impl Both<'_> {
    pub(super) fn delivery(&self) -> Check {
        let mut offenders = Vec::new();
        // The rebuild of a halted sale sends the ledger all that the store knows.
        if !self.is_stopped() {
            let undelivered = Undelivered::of(self);
            self.check_position(&mut offenders);
            self.check_log(&undelivered, &mut offenders);
            self.check_reservations(&undelivered, &mut offenders);
            self.snapshot.skus.iter().for_each(|sku| self.check_stock(sku, &undelivered, &mut offenders));
        }
        let behind = self.snapshot.seq.saturating_sub(self.snapshot.through);
        let failed = counted(self.snapshot.failed.len(), "failed order");
        let figures = format!("{} behind, {failed}", counted(behind, "event"));
        check("orders_are_delivered", "the ledger has every order that was delivered", figures, offenders)
    }

    /// Whether the worker's position and the failed entries name events of the log.
    fn check_position(&self, offenders: &mut Vec<String>) {
        let (through, seq) = (self.snapshot.through, self.snapshot.seq);
        if through > seq {
            offenders.push(format!("events up to {through} were delivered, but the latest is {seq}"));
        }
        let kinds: BTreeMap<u64, EventKind> =
            self.snapshot.events.iter().map(|event| (event.seq, event.kind)).collect();
        for failed in &self.snapshot.failed {
            let is_entry = kinds.get(&failed.seq).is_some_and(|kind| kind.is_for_ledger());
            if !is_entry || failed.seq > through || failed.attempts == 0 {
                offenders.push(format!("failed entry {} is of no event that was delivered", failed.seq));
            }
        }
    }

    /// Compares the log with the ledger, entry by entry.
    fn check_log(&self, undelivered: &Undelivered, offenders: &mut Vec<String>) {
        let orders: BTreeMap<ReservationId, OrderIntent> =
            self.ledger.orders.iter().map(|order| (order.id, order.state)).collect();
        let refused: BTreeSet<ReservationId> =
            self.ledger.refusals.iter().map(|refusal| refusal.id).collect();
        for event in self.snapshot.events.iter().filter(|event| undelivered.is_delivered(event)) {
            // A batch has a reservation once, so the entry of an earlier event may stand for this one.
            let is_settled = |id: &ReservationId| {
                !self.has_moved(*id) && !refused.contains(id) && !undelivered.reservations.contains(id)
            };
            let Some(id) = event.reservation.filter(is_settled) else { continue };
            let has = orders.get(&id);
            if !has.is_some_and(|state| is_recorded(event.kind, *state)) {
                offenders.push(format!(
                    "event {} ({:?} of {id}) was delivered, but the ledger has {}",
                    event.seq,
                    event.kind,
                    has.map_or_else(|| "no order".into(), |state| format!("`{state:?}`"))
                ));
            }
        }
    }

    /// A reservation that waits for the ledger must be in the log behind the worker, or among the failed entries.
    fn check_reservations(&self, undelivered: &Undelivered, offenders: &mut Vec<String>) {
        let holds = self.snapshot.reservations.iter().map(|row| &row.hold);
        for hold in holds.filter(|hold| !self.has_moved(hold.id)) {
            let waits = hold.state.is_held() && hold.state != HoldState::Held;
            if waits && !undelivered.reservations.contains(&hold.id) {
                offenders.push(format!(
                    "reservation {} of buyer `{}` is {:?}, and no order worker will get it",
                    hold.id, hold.buyer, hold.state
                ));
            }
        }
    }

    fn check_stock(&self, sku: &SkuCounters, undelivered: &Undelivered, offenders: &mut Vec<String>) {
        if !self.ledger.knows_the_sale() || self.meanwhile.skus.contains(&sku.sku) {
            return;
        }
        let (mut total, mut withdrawn) = (sku.initial, Vec::new());
        for event in self.snapshot.events.iter().filter(|event| undelivered.is_delivered(event)) {
            let ranges = event.units.iter().filter(|(of, _)| *of == sku.sku).map(|(_, range)| *range);
            match event.kind {
                EventKind::StockAdded => total = ranges.map(UnitRange::last).fold(total, u32::max),
                EventKind::StockWithdrawn => withdrawn.extend(ranges),
                _ => {}
            }
        }
        let Some(known) = self.ledger.skus.iter().find(|known| known.sku == sku.sku) else { return };
        if known.total < total {
            offenders.push(format!("{total} of {} were delivered, ledger has {}", sku.sku, known.total));
        }
        let lost = missing(&united(withdrawn), &united(known.withdrawn.iter().copied()));
        if !lost.is_empty() {
            let (sku, units): (&Sku, _) = (&sku.sku, listed(&lost));
            offenders
                .push(format!("the withdrawal of {sku} no. {units} was delivered, but the ledger lacks it"));
        }
    }
}

/// Whether an order in this state has recorded such an event of its reservation.
fn is_recorded(event: EventKind, order: OrderIntent) -> bool {
    match event {
        EventKind::Confirming => order == OrderIntent::Confirm,
        EventKind::Cancelling => order == OrderIntent::Cancel,
        EventKind::Expiring => order == OrderIntent::Expire,
        _ => true,
    }
}

/// The events that the ledger need not have recorded yet.
pub(super) struct Undelivered {
    after: u64,
    failed: BTreeSet<u64>,
    /// The reservations that they concern.
    pub(super) reservations: BTreeSet<ReservationId>,
}

impl Undelivered {
    pub(super) fn of(both: &Both<'_>) -> Self {
        let failed = both.snapshot.failed.iter().map(|failed| failed.seq).collect();
        let mut undelivered = Self { after: both.snapshot.through, failed, reservations: BTreeSet::new() };
        let for_ledger = both.snapshot.events.iter().filter(|event| event.kind.is_for_ledger());
        let events = for_ledger.filter(|event| !undelivered.is_delivered(event));
        undelivered.reservations = events.filter_map(|event| event.reservation).collect();
        undelivered
    }

    /// Whether an order worker reported that the ledger has recorded the event.
    fn is_delivered(&self, event: &Event) -> bool {
        event.kind.is_for_ledger() && event.seq <= self.after && !self.failed.contains(&event.seq)
    }
}
