//! The audit: pure arithmetic over what the store, its event log and the ledger say.
//!
//! It reads what each of them wrote down and adds up again from nothing. It trusts no counter: a counter that
//! disagrees with the rows is itself a finding.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::{
    BuyerId, Event, EventKind, HoldState, OrderIntent, ReservationId, SaleId, Sku, UnitNumber, UnitRange,
};

/// Everything a store knows of a sale, read in one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Books {
    /// Which sale.
    pub sale: SaleId,
    /// Its generation.
    pub generation: u32,
    /// The number of its latest event, by the sale's own counter.
    pub seq: u64,
    /// Whether a ledger has the last word.
    pub has_ledger: bool,
    /// The stock, by the store's own counters and lists.
    pub skus: Vec<SkuCounters>,
    /// Every reservation, by its own row.
    pub reservations: Vec<ReservationRow>,
    /// Every unit that is held or sold, by the unit's own row; by its reservation if the store has no rows of units.
    pub units: Vec<UnitRow>,
    /// Every event.
    pub events: Vec<Event>,
}

/// The stock of one SKU as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkuCounters {
    /// Which.
    pub sku: Sku,
    /// Units that the sale began with.
    pub initial: u32,
    /// Units ever offered: numbers 1..=total.
    pub total: u32,
    /// The free numbers, each as often as the store lists it.
    pub free: Vec<UnitRange>,
    /// The withdrawn numbers, likewise.
    pub withdrawn: Vec<UnitRange>,
    /// The held units, by the counter.
    pub held: u32,
    /// The confirmed units, by the counter.
    pub confirmed: u32,
    /// What one buyer may have.
    pub per_buyer: u32,
}

/// One reservation as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationRow {
    /// Its id.
    pub id: ReservationId,
    /// Whose.
    pub buyer: BuyerId,
    /// Where it stands.
    pub state: HoldState,
    /// The number of its event.
    pub seq: u64,
    /// Its units.
    pub units: Vec<(Sku, UnitNumber)>,
}

impl ReservationRow {
    /// The units that are held or sold by it now.
    pub fn live_units(&self) -> impl Iterator<Item = UnitRow> {
        let units = self.units.iter().filter(|_| self.state.is_live());
        units.map(|(sku, unit)| UnitRow { sku: sku.clone(), unit: *unit, reservation: self.id })
    }
}

/// One unit that is held or sold, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitRow {
    /// Of what.
    pub sku: Sku,
    /// Its number.
    pub unit: UnitNumber,
    /// Whose reservation has it.
    pub reservation: ReservationId,
}

/// Everything the ledger knows of a sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerBooks {
    /// The stock it sells from.
    pub skus: Vec<LedgerSku>,
    /// Every order.
    pub orders: Vec<LedgerOrder>,
}

/// The stock of one SKU in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerSku {
    /// Which.
    pub sku: Sku,
    /// Units ever offered.
    pub total: u32,
    /// Those taken out of the sale.
    pub withdrawn: Vec<UnitRange>,
    /// What one buyer may have.
    pub per_buyer: u32,
}

/// One order in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerOrder {
    /// The reservation.
    pub id: ReservationId,
    /// Whose.
    pub buyer: BuyerId,
    /// What the ledger committed: `Hold` for held, `Confirm` for sold, and so on.
    pub state: OrderIntent,
    /// Its generation.
    pub generation: u32,
    /// The number of its event.
    pub seq: u64,
    /// The units that are the order's now; empty once given back.
    pub units: Vec<(Sku, UnitNumber)>,
}

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

/// Checks a sale's books, and the ledger's against them if it has the last word.
///
/// The sale must be at rest, or the ledger's books be of the same moment; see [`audit_live`] otherwise. Holds that
/// wait for the ledger are allowed for.
pub fn audit(books: &Books, ledger: Option<&LedgerBooks>) -> Audit {
    audit_live(books, ledger, &BTreeSet::new())
}

/// As [`audit`], of a sale that goes on: the ledger's books were read after the store's, and the reservations that
/// `moved` in between are not compared with their orders.
pub fn audit_live(books: &Books, ledger: Option<&LedgerBooks>, moved: &BTreeSet<ReservationId>) -> Audit {
    let mut checks = vec![
        conservation(books),
        no_unit_twice(books),
        no_unit_free_and_owned(books),
        nobody_over_the_limit(books),
        every_reservation_ends_once(books),
        log_is_complete(books),
        log_replays(books),
    ];
    match ledger {
        Some(ledger) => checks.extend([
            ledger_has_no_unit_twice(ledger),
            ledger_limit(ledger),
            ledger_agrees(books, ledger, moved),
        ]),
        None if books.has_ledger => checks.push(Check {
            name: "ledger".into(),
            claim: "the ledger was read".into(),
            ok: false,
            figures: "the sale has a ledger, but none was given to the audit".into(),
        }),
        None => {}
    }
    Audit { ok: checks.iter().all(|check| check.ok), checks }
}

type Unit<'a> = (&'a Sku, UnitNumber);

fn in_order(ranges: impl IntoIterator<Item = UnitRange>) -> Vec<UnitRange> {
    let mut ranges: Vec<_> = ranges.into_iter().collect();
    ranges.sort_unstable();
    ranges
}

/// Whether one of the ranges has the unit. They are in order and do not overlap.
fn has(ranges: &[UnitRange], unit: UnitNumber) -> bool {
    let after = ranges.partition_point(|range| range.first() <= unit);
    after > 0 && ranges[after - 1].contains(unit)
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

fn live(books: &Books) -> impl Iterator<Item = &ReservationRow> {
    books.reservations.iter().filter(|row| row.state.is_live())
}

/// So many things, in the singular if it is one.
fn counted(n: impl TryInto<u64>, thing: &str) -> String {
    match n.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {thing}"),
        n => format!("{n} {thing}s"),
    }
}

fn count(books: &Books, sku: &Sku, state: impl Fn(HoldState) -> bool) -> usize {
    let rows = books.reservations.iter().filter(|row| state(row.state));
    rows.flat_map(|row| &row.units).filter(|(of, _)| of == sku).count()
}

fn conservation(books: &Books) -> Check {
    let mut offenders = Vec::new();
    let mut figures = Vec::new();
    for sku in &books.skus {
        let confirmed = count(books, &sku.sku, |state| state == HoldState::Confirmed);
        let held = count(books, &sku.sku, HoldState::is_held);
        let (free, withdrawn) = (UnitRange::total(&sku.free), UnitRange::total(&sku.withdrawn));
        let sum = (confirmed + held) as u64 + free + withdrawn;
        figures.push(format!(
            "{}: {} offered = {confirmed} confirmed + {held} held + {free} free + {withdrawn} withdrawn",
            sku.sku, sku.total
        ));
        if sum != u64::from(sku.total) {
            offenders.push(format!("{}: the places add up to {sum}, not {}", sku.sku, sku.total));
        }
        if (sku.held as usize, sku.confirmed as usize) != (held, confirmed) {
            offenders.push(format!(
                "{}: the counters say {} held and {} confirmed",
                sku.sku, sku.held, sku.confirmed
            ));
        }
    }
    check("conservation", "every unit has exactly one place", figures.join("; "), offenders)
}

fn no_unit_twice(books: &Books) -> Check {
    let totals: BTreeMap<&Sku, u32> = books.skus.iter().map(|sku| (&sku.sku, sku.total)).collect();
    let mut offenders = Vec::new();
    let mut owner: BTreeMap<Unit<'_>, ReservationId> = BTreeMap::new();
    for row in live(books) {
        for (sku, unit) in &row.units {
            if let Some(other) = owner.insert((sku, *unit), row.id) {
                offenders.push(format!("{sku} no. {unit} belongs to {other} and to {}", row.id));
            }
            if *unit == 0 || *unit > totals.get(sku).copied().unwrap_or(0) {
                offenders.push(format!("{sku} no. {unit} of {} does not exist", row.id));
            }
        }
    }
    let mut rows: BTreeMap<Unit<'_>, ReservationId> = BTreeMap::new();
    for row in &books.units {
        if rows.insert((&row.sku, row.unit), row.reservation).is_some() {
            offenders.push(format!("{} no. {} has two rows", row.sku, row.unit));
        }
    }
    if rows != owner && offenders.is_empty() {
        let differing = rows.iter().filter(|(unit, id)| owner.get(*unit) != Some(id)).count()
            + owner.keys().filter(|unit| !rows.contains_key(*unit)).count();
        offenders
            .push(format!("{differing} units belong to another by their own row than by the reservations"));
    }
    check(
        "no_unit_twice",
        "no unit is sold or held twice",
        format!("{} owned", counted(owner.len(), "unit")),
        offenders,
    )
}

fn no_unit_free_and_owned(books: &Books) -> Check {
    let owned: BTreeSet<Unit<'_>> =
        live(books).flat_map(|row| row.units.iter().map(|(s, u)| (s, *u))).collect();
    let mut offenders = Vec::new();
    let mut free = 0;
    for SkuCounters { sku, free: offered, withdrawn, .. } in &books.skus {
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

fn nobody_over_the_limit(books: &Books) -> Check {
    let mut has: BTreeMap<(&BuyerId, &Sku), u32> = BTreeMap::new();
    for row in live(books) {
        for (sku, _) in &row.units {
            *has.entry((&row.buyer, sku)).or_default() += 1;
        }
    }
    let limits = books.skus.iter().map(|sku| (&sku.sku, sku.per_buyer)).collect();
    limit_check("nobody_over_the_limit", "nobody has more than allowed", &has, &limits)
}

fn limit_check(
    name: &str,
    claim: &str,
    has: &BTreeMap<(&BuyerId, &Sku), u32>,
    limits: &BTreeMap<&Sku, u32>,
) -> Check {
    let over = |(buyer, sku): &(&BuyerId, &Sku), n: u32| {
        let limit = limits.get(sku).copied().unwrap_or(0);
        (n > limit).then(|| format!("{buyer} has {n} of {sku}, allowed {limit}"))
    };
    let offenders = has.iter().filter_map(|(key, n)| over(key, *n)).collect();
    let most = has.values().max().copied().unwrap_or(0);
    let buyers = has.keys().map(|(buyer, _)| buyer).collect::<BTreeSet<_>>().len();
    check(name, claim, format!("units are with {}, the most is {most}", counted(buyers, "buyer")), offenders)
}

/// The state that the events of a reservation lead to.
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
        | EventKind::Paused
        | EventKind::Rebuilt => return None,
    })
}

fn every_reservation_ends_once(books: &Books) -> Check {
    let mut at: BTreeMap<ReservationId, HoldState> = BTreeMap::new();
    let mut offenders = Vec::new();
    for event in &books.events {
        let (Some(id), Some(next)) = (event.reservation, state_after(event.kind)) else { continue };
        match (at.insert(id, next), next) {
            (None, HoldState::Held) => {}
            (None, _) => offenders.push(format!("{id} ends as {next:?} but was never reserved")),
            (Some(_), HoldState::Held) => offenders.push(format!("{id} was reserved twice")),
            (Some(before), _) if before.is_final() => {
                offenders.push(format!("{id} became {next:?} after it had ended as {before:?}"));
            }
            (Some(_), _) => {}
        }
    }
    for row in &books.reservations {
        if at.get(&row.id) != Some(&row.state) {
            offenders.push(format!("{} is {:?}, the log says {:?}", row.id, row.state, at.get(&row.id)));
        }
    }
    if at.len() != books.reservations.len() {
        offenders.push(format!("{} reservations, {} in the log", books.reservations.len(), at.len()));
    }
    let ended = at.values().filter(|state| state.is_final()).count();
    let figures = format!("{} accepted, {ended} ended, {} still held", at.len(), at.len() - ended);
    check("every_reservation_ends_once", "every accepted reservation ends at most once", figures, offenders)
}

fn log_is_complete(books: &Books) -> Check {
    let mut offenders = Vec::new();
    for (event, expected) in books.events.iter().zip(1..) {
        if event.seq != expected {
            offenders.push(format!("event {} stands where {expected} should", event.seq));
            break;
        }
    }
    if books.events.len() as u64 != books.seq {
        offenders.push(format!("the sale counted {} events", books.seq));
    }
    check("log_is_complete", "the event log has no gap", counted(books.events.len(), "event"), offenders)
}

/// The places of units that the log alone leads to.
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
            EventKind::Cancelled | EventKind::Expired | EventKind::Rejected => self.give_back(event, false),
            EventKind::Quarantined => self.give_back(event, true),
            EventKind::StockAdded => {
                if let Some((sku, added)) = event.units.last() {
                    self.total.insert(sku, added.last());
                }
            }
            EventKind::StockWithdrawn => {
                event.units.iter().for_each(|(sku, range)| self.withdraw(sku, *range));
            }
            EventKind::Confirming
            | EventKind::Cancelling
            | EventKind::Expiring
            | EventKind::Confirmed
            | EventKind::Opened
            | EventKind::Ended
            | EventKind::Paused
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

    fn give_back(&mut self, event: &'a Event, withdraw: bool) {
        for (sku, unit) in units_of(event) {
            if self.owner.remove(&(sku, unit)) != event.reservation {
                self.offenders.push(format!("event {} gave back {sku} no. {unit} of another", event.seq));
            }
            if withdraw {
                self.withdraw(sku, UnitRange::one(unit));
            }
        }
    }

    fn withdraw(&mut self, sku: &'a Sku, range: UnitRange) {
        self.withdrawn.insert((sku, range.last()), range.first());
    }

    fn is_withdrawn(&self, sku: &'a Sku, unit: UnitNumber) -> bool {
        let next = self.withdrawn.range((sku, unit)..).next();
        next.is_some_and(|((of, _), first)| *of == sku && *first <= unit)
    }

    /// The numbers of a SKU that nobody owns and that were not withdrawn.
    fn free(&self, sku: &Sku) -> Vec<UnitRange> {
        let of_sku = (sku, 0)..=(sku, UnitNumber::MAX);
        let owned = self.owner.range(of_sku.clone()).map(|((_, unit), _)| UnitRange::one(*unit));
        let withdrawn = self.withdrawn.range(of_sku);
        let withdrawn = withdrawn.filter_map(|((_, last), first)| UnitRange::new(*first, *last));
        let all = self.total.get(sku).and_then(|total| UnitRange::new(1, *total));
        all.map(|all| all.without(in_order(owned.chain(withdrawn)))).unwrap_or_default()
    }
}

fn units_of(event: &Event) -> impl Iterator<Item = Unit<'_>> {
    event.units.iter().flat_map(|(sku, range)| range.numbers().map(move |unit| (sku, unit)))
}

fn log_replays(books: &Books) -> Check {
    let mut replay =
        Replay { total: books.skus.iter().map(|sku| (&sku.sku, sku.initial)).collect(), ..Replay::default() };
    for event in &books.events {
        replay.apply(event);
    }
    let rows: BTreeMap<Unit<'_>, ReservationId> =
        books.units.iter().map(|row| ((&row.sku, row.unit), row.reservation)).collect();
    let mut offenders = std::mem::take(&mut replay.offenders);
    if rows != replay.owner {
        offenders.push(format!(
            "the log leads to {} owned units, the store has {}",
            replay.owner.len(),
            rows.len()
        ));
    }
    for sku in &books.skus {
        if replay.total.get(&sku.sku) != Some(&sku.total) {
            offenders.push(format!("{}: the log leads to another number of units", sku.sku));
        }
        let free = replay.free(&sku.sku);
        if free != UnitRange::gather(in_order(sku.free.iter().copied())) {
            let n = UnitRange::total(&free);
            offenders.push(format!("{}: the log leads to {n} free units", sku.sku));
        }
    }
    let figures = format!(
        "the log of {} leads to {}",
        counted(books.events.len(), "event"),
        counted(replay.owner.len(), "owned unit")
    );
    check("log_replays", "the log alone leads to the same stock", figures, offenders)
}

fn ledger_has_no_unit_twice(ledger: &LedgerBooks) -> Check {
    let stock = |sku: &LedgerSku| (sku.total, in_order(sku.withdrawn.iter().copied()));
    let stock: BTreeMap<&Sku, _> = ledger.skus.iter().map(|sku| (&sku.sku, stock(sku))).collect();
    let mut seen: BTreeSet<Unit<'_>> = BTreeSet::new();
    let mut sequence = BTreeSet::new();
    let mut offenders = Vec::new();
    for order in &ledger.orders {
        if !sequence.insert((order.generation, order.seq)) {
            offenders.push(format!("event {} of generation {} made two orders", order.seq, order.generation));
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
    check("ledger_no_unit_twice", "the ledger has no unit twice", figures, offenders)
}

fn ledger_limit(ledger: &LedgerBooks) -> Check {
    let mut has: BTreeMap<(&BuyerId, &Sku), u32> = BTreeMap::new();
    for order in &ledger.orders {
        for (sku, _) in &order.units {
            *has.entry((&order.buyer, sku)).or_default() += 1;
        }
    }
    let limits = ledger.skus.iter().map(|sku| (&sku.sku, sku.per_buyer)).collect();
    limit_check("ledger_nobody_over_the_limit", "nobody has more than allowed in the ledger", &has, &limits)
}

/// Whether the ledger may say `order` while the store says `row`: it may lag behind a decision, never lead it.
fn agrees(row: HoldState, order: OrderIntent) -> bool {
    match order {
        OrderIntent::Hold => row.is_held(),
        OrderIntent::Confirm => matches!(row, HoldState::Confirming | HoldState::Confirmed),
        OrderIntent::Cancel => matches!(row, HoldState::Cancelling | HoldState::Cancelled),
        OrderIntent::Expire => matches!(row, HoldState::Expiring | HoldState::Expired),
    }
}

fn ledger_agrees(books: &Books, ledger: &LedgerBooks, moved: &BTreeSet<ReservationId>) -> Check {
    let orders: BTreeMap<ReservationId, &LedgerOrder> =
        ledger.orders.iter().map(|order| (order.id, order)).collect();
    let rows: BTreeMap<ReservationId, &ReservationRow> =
        books.reservations.iter().map(|row| (row.id, row)).collect();
    let mut offenders = Vec::new();
    for row in books.reservations.iter().filter(|row| !moved.contains(&row.id)) {
        match orders.get(&row.id) {
            None if row.state.is_held() || row.state == HoldState::Rejected => {}
            None => offenders.push(format!("{} is {:?} and has no order", row.id, row.state)),
            Some(order) if !agrees(row.state, order.state) => {
                offenders.push(format!("{} is {:?}, its order {:?}", row.id, row.state, order.state));
            }
            Some(order)
                if row.state == HoldState::Confirmed && sorted(&order.units) != sorted(&row.units) =>
            {
                offenders.push(format!("{} has other units than its order", row.id));
            }
            Some(_) => {}
        }
    }
    let strange = |order: &&LedgerOrder| !rows.contains_key(&order.id) && !moved.contains(&order.id);
    let strangers = ledger.orders.iter().filter(strange);
    offenders.extend(strangers.map(|order| format!("{} is an order that the store does not know", order.id)));
    let confirmed = |n: usize| format!("{n} confirmed");
    let figures = format!(
        "store {}, ledger {}",
        confirmed(books.reservations.iter().filter(|row| row.state == HoldState::Confirmed).count()),
        confirmed(ledger.orders.iter().filter(|order| order.state == OrderIntent::Confirm).count()),
    );
    check("ledger_agrees", "store and ledger agree on every reservation", figures, offenders)
}

fn sorted(units: &[(Sku, UnitNumber)]) -> Vec<&(Sku, UnitNumber)> {
    let mut units: Vec<_> = units.iter().collect();
    units.sort();
    units
}
