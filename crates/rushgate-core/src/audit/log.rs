//! The event log: complete, with legal transitions only, and sufficient to derive the rows.

use std::collections::BTreeMap;

use super::shared::{Check, Unit, by_id, check, counted, in_order, named, sorted, united};
use crate::{
    Event, EventKind, HoldState, Line, MAX_UNITS, ReservationId, ReservationRow, Sku, Snapshot, UnitChoice,
    UnitNumber, UnitRange,
};

/// State that an event leads a reservation to.
fn state_after(kind: EventKind) -> Option<HoldState> {
    Some(match kind {
        EventKind::Reserved => HoldState::Held,
        EventKind::Confirming => HoldState::Confirming,
        EventKind::Cancelling => HoldState::Cancelling,
        EventKind::Expiring => HoldState::Expiring,
        EventKind::Confirmed => HoldState::Confirmed,
        EventKind::Cancelled => HoldState::Cancelled,
        EventKind::Expired => HoldState::Expired,
        EventKind::Rejected | EventKind::Quarantined => HoldState::Rejected,
        EventKind::StockAdded
        | EventKind::StockWithdrawn
        | EventKind::Opened
        | EventKind::Ended
        | EventKind::Halted
        | EventKind::Rebuilt => return None,
    })
}

/// Whether a reservation may change from `before` to `next`.
fn follows(before: HoldState, next: HoldState, has_ledger: bool) -> bool {
    use HoldState::{Cancelled, Cancelling, Confirmed, Confirming, Expired, Expiring, Held, Rejected};
    match (before, next) {
        (Held, Confirming | Cancelling | Expiring) => has_ledger,
        (Held, Confirmed | Cancelled | Expired) => !has_ledger,
        (Confirming, Confirmed) | (Cancelling, Cancelled) | (Expiring, Expired) => true,
        (before, Rejected) => before.is_held(),
        _ => false,
    }
}

pub(super) fn every_reservation_ends_once(snapshot: &Snapshot) -> Check {
    let rows = by_id(snapshot);
    let mut at: BTreeMap<ReservationId, HoldState> = BTreeMap::new();
    let mut offenders = Vec::new();
    for event in &snapshot.events {
        let (Some(id), Some(next)) = (event.reservation, state_after(event.kind)) else { continue };
        // A rebuild loads the orders of a ledger in their current state.
        let loaded = rows.get(&id).is_some_and(|row| row.asked.is_none());
        let has_ledger = snapshot.spec.ledger;
        match (at.insert(id, next), next) {
            (None, HoldState::Held) => {}
            (None, _) => offenders.push(format!("{id} ends as {next:?} but was never reserved")),
            (Some(_), HoldState::Held) => offenders.push(format!("{id} was reserved twice")),
            (Some(before), _) if before.is_final() => {
                offenders.push(format!("{id} became {next:?} after it had ended as {before:?}"));
            }
            (Some(before), _) if follows(before, next, has_ledger) => {}
            (Some(before), _) if loaded && follows(before, next, false) => {}
            (Some(before), _) => offenders.push(format!("{id} became {next:?} when it was {before:?}")),
        }
    }
    for ReservationRow { hold, .. } in &snapshot.reservations {
        let logged = at.get(&hold.id);
        if logged != Some(&hold.state) {
            offenders.push(format!("{} is {:?}, the log says {logged:?}", hold.id, hold.state));
        }
    }
    if at.len() != snapshot.reservations.len() {
        offenders.push(format!("{} reservations, {} in the log", snapshot.reservations.len(), at.len()));
    }
    let ended = at.values().filter(|state| state.is_final()).count();
    let figures = format!("{} accepted, {ended} ended, {} still held", at.len(), at.len() - ended);
    check("every_reservation_ends_once", "every accepted reservation ends at most once", figures, offenders)
}

/// Compares each reservation with its events and with its request.
pub(super) fn reservations_match_the_log(snapshot: &Snapshot) -> Check {
    let rows = by_id(snapshot);
    let mut offenders = Vec::new();
    for event in &snapshot.events {
        if !is_well_formed(event) {
            offenders.push(format!(
                "event {} ({:?}) has fields that do not match its kind",
                event.seq, event.kind
            ));
        }
        let Some(row) = event.reservation.and_then(|id| rows.get(&id)) else { continue };
        if names_units(event.kind) {
            let units: Vec<_> = units_of(event).map(|(sku, unit)| (sku.clone(), unit)).collect();
            if sorted(&units) != sorted(&row.hold.units) {
                offenders.push(format!(
                    "{} has {}, event {} says {}",
                    row.hold.id,
                    named(&row.hold.units),
                    event.seq,
                    named(&units)
                ));
            }
        }
        if event.kind == EventKind::Reserved {
            offenders.extend(differs_from_its_event(snapshot, row, event));
        }
    }
    for ReservationRow { hold, asked } in &snapshot.reservations {
        if hold.generation != snapshot.generation {
            offenders.push(format!(
                "{} has generation {}, the sale has {}",
                hold.id, hold.generation, snapshot.generation
            ));
        }
        if asked.as_ref().is_some_and(|(lines, choice)| !fits(lines, *choice, &hold.units)) {
            offenders.push(format!(
                "{} has {}, which does not match its request",
                hold.id,
                named(&hold.units)
            ));
        }
    }
    let figures = counted(snapshot.reservations.len(), "reservation");
    check("reservations_match_the_log", "every reservation matches its events", figures, offenders)
}

fn differs_from_its_event(snapshot: &Snapshot, row: &ReservationRow, event: &Event) -> Option<String> {
    let ReservationRow { hold, asked } = row;
    if event.seq != hold.seq {
        return Some(format!(
            "{} names event {} as its origin, the log names {}",
            hold.id, hold.seq, event.seq
        ));
    }
    // A reservation restored or loaded after a loss keeps its own deadline.
    let deadline = event.at + snapshot.spec.hold.get();
    let (has, expected) = (hold.deadline.as_micros(), deadline.as_micros());
    (asked.is_some() && has != expected)
        .then(|| format!("{} is held until {has} µs, according to its event until {expected} µs", hold.id))
}

/// Whether an event of this kind names the units of its reservation.
fn names_units(kind: EventKind) -> bool {
    use EventKind::{Cancelled, Confirmed, Expired, Quarantined, Rejected, Reserved};
    matches!(kind, Reserved | Confirmed | Cancelled | Expired | Rejected | Quarantined)
}

fn has_too_many(event: &Event) -> bool {
    event.units.iter().map(|(_, range)| u64::from(range.count())).sum::<u64>() > u64::from(MAX_UNITS)
}

fn is_well_formed(event: &Event) -> bool {
    let has_units = !event.units.is_empty();
    match event.kind {
        EventKind::StockAdded => event.reservation.is_none() && event.units.len() == 1,
        EventKind::StockWithdrawn => event.reservation.is_none() && has_units,
        kind if names_units(kind) => event.reservation.is_some() && !has_too_many(event),
        EventKind::Confirming | EventKind::Cancelling | EventKind::Expiring => {
            event.reservation.is_some() && !has_units
        }
        _ => event.reservation.is_none() && !has_units,
    }
}

/// Whether the units satisfy the request.
fn fits(lines: &[Line], choice: UnitChoice, units: &[(Sku, UnitNumber)]) -> bool {
    let mut counts: BTreeMap<&Sku, u32> = BTreeMap::new();
    for (sku, _) in units {
        *counts.entry(sku).or_default() += 1;
    }
    let one_number = units.windows(2).all(|pair| pair[0].1 == pair[1].1);
    counts.len() == lines.len()
        && lines.iter().all(|line| counts.get(&line.sku) == Some(&line.quantity))
        && (choice == UnitChoice::Any || one_number)
}

pub(super) fn log_is_complete(snapshot: &Snapshot) -> Check {
    let mut offenders = Vec::new();
    for (event, expected) in snapshot.events.iter().zip(1..) {
        if event.seq != expected {
            offenders.push(format!("found event {}, expected {expected}", event.seq));
            break;
        }
    }
    if snapshot.events.len() as u64 != snapshot.seq {
        offenders.push(format!("the counter of the sale shows {} events", snapshot.seq));
    }
    check("log_is_complete", "the event log has no gaps", counted(snapshot.events.len(), "event"), offenders)
}

/// Stock as derived from the log alone.
#[derive(Default)]
struct Replay<'a> {
    total: BTreeMap<&'a Sku, u32>,
    owner: BTreeMap<Unit<'a>, ReservationId>,
    /// The first number of each withdrawn range, by its last.
    withdrawn: BTreeMap<Unit<'a>, UnitNumber>,
    offenders: Vec<String>,
}

impl<'a> Replay<'a> {
    fn apply(&mut self, event: &'a Event) {
        match event.kind {
            EventKind::Reserved => self.take(event),
            EventKind::Cancelled | EventKind::Expired | EventKind::Rejected => {
                self.return_units(event, false)
            }
            EventKind::Quarantined => self.return_units(event, true),
            EventKind::StockAdded => {
                for (sku, added) in &event.units {
                    let before = self.total.insert(sku, added.last()).unwrap_or(0);
                    if added.first() != before + 1 {
                        self.offenders.push(format!("event {} adds {added} to {before} of {sku}", event.seq));
                    }
                }
            }
            EventKind::StockWithdrawn => {
                event.units.iter().for_each(|(sku, range)| self.withdraw(event, sku, *range));
            }
            EventKind::Confirming
            | EventKind::Cancelling
            | EventKind::Expiring
            | EventKind::Confirmed
            | EventKind::Opened
            | EventKind::Ended
            | EventKind::Halted
            | EventKind::Rebuilt => {}
        }
    }

    fn take(&mut self, event: &'a Event) {
        let Some(id) = event.reservation else { return };
        for (sku, unit) in units_of(event) {
            if self.is_withdrawn(sku, unit) {
                self.offenders
                    .push(format!("event {} took {sku} no. {unit}, which was withdrawn", event.seq));
            }
            if let Some(other) = self.owner.insert((sku, unit), id) {
                self.offenders.push(format!("event {} took {sku} no. {unit} from {other}", event.seq));
            }
        }
    }

    fn return_units(&mut self, event: &'a Event, withdraw: bool) {
        for (sku, unit) in units_of(event) {
            if self.owner.remove(&(sku, unit)) != event.reservation {
                self.offenders
                    .push(format!("event {} released {sku} no. {unit} of another reservation", event.seq));
            }
            if withdraw {
                self.withdraw(event, sku, UnitRange::one(unit));
            }
        }
    }

    fn withdraw(&mut self, event: &Event, sku: &'a Sku, range: UnitRange) {
        let next = self.withdrawn.range((sku, range.first())..).next();
        let is_out = next.is_some_and(|((of, _), first)| *of == sku && *first <= range.last());
        let mut owned = self.owner.range((sku, range.first())..=(sku, range.last()));
        if is_out || owned.next().is_some() {
            self.offenders
                .push(format!("event {} withdrew {sku} no. {range}, which was not free", event.seq));
        }
        self.withdrawn.insert((sku, range.last()), range.first());
    }

    fn is_withdrawn(&self, sku: &'a Sku, unit: UnitNumber) -> bool {
        let next = self.withdrawn.range((sku, unit)..).next();
        next.is_some_and(|((of, _), first)| *of == sku && *first <= unit)
    }

    /// The withdrawn ranges of a SKU.
    fn withdrawn<'s>(&'s self, sku: &'s Sku) -> impl Iterator<Item = UnitRange> + use<'a, 's> {
        let withdrawn = self.withdrawn.range((sku, 0)..=(sku, UnitNumber::MAX));
        withdrawn.filter_map(|((_, last), first)| UnitRange::new(*first, *last))
    }

    /// The units of a SKU that have no owner and were not withdrawn.
    fn free(&self, sku: &Sku) -> Vec<UnitRange> {
        let of_sku = (sku, 0)..=(sku, UnitNumber::MAX);
        let owned = self.owner.range(of_sku).map(|((_, unit), _)| UnitRange::one(*unit));
        let withdrawn = self.withdrawn(sku);
        let all = self.total.get(sku).and_then(|total| UnitRange::new(1, *total));
        all.map(|all| all.without(in_order(owned.chain(withdrawn)))).unwrap_or_default()
    }
}

/// The units of an event; empty if there are more than a reservation can have.
fn units_of(event: &Event) -> impl Iterator<Item = Unit<'_>> {
    let units = if has_too_many(event) { &[][..] } else { &event.units };
    units.iter().flat_map(|(sku, range)| range.numbers().map(move |unit| (sku, unit)))
}

pub(super) fn log_replays(snapshot: &Snapshot) -> Check {
    let mut replay = Replay {
        total: snapshot.skus.iter().map(|sku| (&sku.sku, sku.initial)).collect(),
        ..Replay::default()
    };
    for event in &snapshot.events {
        replay.apply(event);
    }
    let rows: BTreeMap<Unit<'_>, ReservationId> =
        snapshot.units.iter().map(|row| ((&row.sku, row.unit), row.reservation)).collect();
    let mut offenders = std::mem::take(&mut replay.offenders);
    if rows != replay.owner {
        offenders.push(format!(
            "replaying the log gives {} owned units, the store has {}",
            replay.owner.len(),
            rows.len()
        ));
    }
    for sku in &snapshot.skus {
        if replay.total.get(&sku.sku) != Some(&sku.total) {
            offenders.push(format!("{}: replaying the log gives a different number of units", sku.sku));
        }
        let free = replay.free(&sku.sku);
        if free != UnitRange::gather(in_order(sku.free.iter().copied())) {
            let n = UnitRange::total(&free);
            offenders.push(format!("{}: replaying the log gives {n} free units", sku.sku));
        }
        if united(replay.withdrawn(&sku.sku)) != united(sku.withdrawn.iter().copied()) {
            offenders.push(format!("{}: replaying the log gives different withdrawn units", sku.sku));
        }
    }
    let figures = format!(
        "replaying {} gives {}",
        counted(snapshot.events.len(), "event"),
        counted(replay.owner.len(), "owned unit")
    );
    check("log_replays", "replaying the event log gives the same stock", figures, offenders)
}
