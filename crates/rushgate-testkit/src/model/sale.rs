use std::collections::{BTreeMap, BTreeSet};

use rushgate_core::{
    Books, BuyerId, ContentType, Created, Decision, Due, Error, Event, EventKind, Hold, HoldState, Line,
    NewTask, OnDuplicate, Op, OrderIntent, OrderTask, Page, Payload, Priority, ReservationId, ReservationRow,
    Reserve, Reserved, Result, SaleId, SaleSpec, SaleState, SaleStatus, Settled, Sku, SkuCounters, SkuState,
    StockChange, StockChanged, Timestamp, UnitChoice, UnitNumber, UnitRange, UnitRow, Verdict, check_batch,
    check_range,
};

use super::queue::{Answered, once};
use super::{Model, Planted};

/// All sales.
#[derive(Clone, Debug, Default)]
pub(super) struct Sales {
    by_id: BTreeMap<SaleId, Sale>,
}

#[derive(Clone, Debug)]
struct Sale {
    spec: SaleSpec,
    status: SaleStatus,
    stock: BTreeMap<Sku, Stock>,
    holds: BTreeMap<ReservationId, Held>,
    owners: BTreeMap<(Sku, UnitNumber), ReservationId>,
    events: Vec<Event>,
    bug: Option<Planted>,
}

/// What a withdrawal took.
struct Withdrawn {
    now: Vec<UnitRange>,
    /// What the ledger is told of it.
    told: Vec<UnitRange>,
}

/// The units of one SKU that nobody has.
#[derive(Clone, Debug)]
struct Stock {
    total: u32,
    /// Numbers that were never reserved or skipped, in ascending order.
    fresh: Vec<UnitRange>,
    /// Free numbers that were. They are all below the fresh ones.
    given_back: BTreeSet<UnitNumber>,
    withdrawn: Vec<UnitRange>,
    per_buyer: u32,
}

impl Stock {
    fn new(units: u32, per_buyer: u32) -> Self {
        let mut stock = Self {
            total: 0,
            fresh: Vec::new(),
            given_back: BTreeSet::new(),
            withdrawn: Vec::new(),
            per_buyer,
        };
        stock.add(units);
        stock
    }

    /// Gives the new numbers.
    fn add(&mut self, units: u32) -> Option<UnitRange> {
        let added = UnitRange::new(self.total + 1, self.total + units);
        self.total += units;
        self.fresh.extend(added);
        added
    }

    fn fresh(&self) -> u32 {
        UnitRange::total(&self.fresh) as u32
    }

    fn free(&self) -> u32 {
        self.given_back.len() as u32 + self.fresh()
    }

    fn is_free(&self, unit: UnitNumber) -> bool {
        self.given_back.contains(&unit) || self.fresh.iter().any(|range| range.contains(unit))
    }

    fn free_numbers(&self) -> impl Iterator<Item = UnitNumber> {
        self.given_back.iter().copied().chain(self.fresh.iter().flat_map(|range| range.numbers()))
    }

    /// Takes a free number; those below it that were never reserved can still be.
    fn take(&mut self, unit: UnitNumber) {
        for range in std::mem::take(&mut self.fresh) {
            self.given_back.extend(range.numbers().take_while(|number| *number <= unit));
            self.fresh.extend(UnitRange::new(range.first().max(unit + 1), range.last()));
        }
        self.given_back.remove(&unit);
    }

    fn take_lowest(&mut self, n: u32) -> Vec<UnitNumber> {
        let units: Vec<_> = self.free_numbers().take(n as usize).collect();
        for unit in &units {
            self.take(*unit);
        }
        units
    }

    /// Withdraws the highest free numbers.
    fn withdraw(&mut self, n: u32) -> Withdrawn {
        let highest: Vec<_> = self.free_numbers().skip((self.free() - n) as usize).collect();
        let (given_back, fresh) =
            highest.split_at(highest.partition_point(|unit| self.given_back.contains(unit)));
        // All numbers above the lowest fresh one are out now.
        let to_the_top = fresh.first().and_then(|lowest| UnitRange::new(*lowest, self.total));
        let told = given_back.iter().map(|unit| UnitRange::one(*unit)).chain(to_the_top);
        let withdrawn =
            Withdrawn { now: UnitRange::gather(highest.iter().copied()), told: UnitRange::gather(told) };
        let lowest = highest[0];
        self.given_back.split_off(&lowest);
        for range in std::mem::take(&mut self.fresh) {
            self.fresh.extend(UnitRange::new(range.first(), range.last().min(lowest - 1)));
        }
        self.withdrawn.extend(&withdrawn.now);
        withdrawn
    }
}

/// A reservation and what it asked for, by which a repetition is known.
#[derive(Clone, Debug)]
struct Held {
    hold: Hold,
    lines: Vec<Line>,
    choice: UnitChoice,
}

/// Why units cannot be taken: the line that is short.
struct Short {
    sku: Sku,
    free: u32,
}

impl Sale {
    fn new(spec: SaleSpec, bug: Option<Planted>) -> Self {
        let stock = |sku: &rushgate_core::SkuSpec| (sku.sku.clone(), Stock::new(sku.units, sku.per_buyer));
        Self {
            stock: spec.skus.iter().map(stock).collect(),
            spec,
            status: SaleStatus::Created,
            holds: BTreeMap::new(),
            owners: BTreeMap::new(),
            events: Vec::new(),
            bug,
        }
    }

    fn seq(&self) -> u64 {
        self.events.len() as u64
    }

    fn log(
        &mut self,
        at: Timestamp,
        kind: EventKind,
        reservation: Option<ReservationId>,
        units: Vec<(Sku, UnitRange)>,
    ) {
        self.events.push(Event { seq: self.seq() + 1, at, kind, reservation, units });
    }

    fn count(&self, sku: &Sku, wanted: impl Fn(&Hold) -> bool) -> u32 {
        let holds = self.holds.values().map(|held| &held.hold).filter(|hold| wanted(hold));
        holds.flat_map(|hold| &hold.units).filter(|(of, _)| of == sku).count() as u32
    }

    fn held(&self, sku: &Sku) -> u32 {
        self.count(sku, |hold| hold.state.is_held())
    }

    fn has(&self, buyer: &BuyerId, sku: &Sku) -> u32 {
        self.count(sku, |hold| hold.state.is_live() && hold.buyer == *buyer)
    }

    fn undecided(&self) -> impl Iterator<Item = &Hold> {
        self.holds.values().map(|held| &held.hold).filter(|hold| hold.state == HoldState::Held)
    }

    fn next_give_back(&self) -> Option<Timestamp> {
        self.undecided().map(|hold| hold.deadline).min()
    }

    /// The first `n` holds whose deadline has passed, earliest deadline first.
    fn overdue(&self, now: Timestamp, n: u32) -> Vec<ReservationId> {
        let mut overdue: Vec<_> = self.undecided().filter(|hold| hold.deadline <= now).collect();
        overdue.sort_by_key(|hold| (hold.deadline, hold.seq));
        overdue.into_iter().take(n as usize).map(|hold| hold.id).collect()
    }

    /// Whether the sale keeps buyers out now.
    fn closed(&self, now: Timestamp) -> Option<Reserved> {
        let opens_at = self.spec.opens_at;
        if self.status == SaleStatus::Ended {
            return Some(Reserved::Ended);
        }
        if self.status == SaleStatus::Created || opens_at.is_some_and(|opens| now < opens) {
            return Some(Reserved::NotOpen { opens_at });
        }
        let closed = self.spec.closes_at.is_some_and(|closes| closes <= now);
        closed.then_some(Reserved::Ended)
    }

    fn over_limit(&self, request: &Reserve) -> Option<Reserved> {
        if self.bug == Some(Planted::LimitIsNotChecked) {
            return None;
        }
        request.lines.iter().find_map(|line| {
            let (limit, has) = (self.stock[&line.sku].per_buyer, self.has(&request.buyer, &line.sku));
            (has + line.quantity > limit).then(|| Reserved::LimitReached {
                sku: line.sku.clone(),
                limit,
                has,
            })
        })
    }

    /// The first line of which too little is free.
    fn short(&self, request: &Reserve) -> Option<Short> {
        let free = |line: &Line| self.stock[&line.sku].free();
        let lines = &request.lines;
        let partial = self.bug == Some(Planted::PartialCart);
        let line = match request.choice {
            UnitChoice::Any if partial => lines.iter().find(|line| free(line) == 0),
            UnitChoice::Any => lines.iter().find(|line| free(line) < line.quantity),
            UnitChoice::SameNumber if self.common_number(lines).is_some() => None,
            UnitChoice::SameNumber => lines.iter().find(|line| free(line) == 0).or(lines.first()),
        };
        line.map(|line| Short { sku: line.sku.clone(), free: free(line) })
    }

    fn common_number(&self, lines: &[Line]) -> Option<UnitNumber> {
        let (first, others) = lines.split_first()?;
        let in_others = |unit: &UnitNumber| others.iter().all(|line| self.stock[&line.sku].is_free(*unit));
        self.stock[&first.sku].free_numbers().find(in_others)
    }

    fn sold_out(&self, short: Short) -> Reserved {
        let Short { sku, free } = short;
        if self.held(&sku) > 0 && self.bug != Some(Planted::AllHeldIsCalledSoldOut) {
            return Reserved::AllHeld { sku, free, next_give_back: self.next_give_back() };
        }
        Reserved::SoldOut { sku, free }
    }

    fn take(&mut self, request: &Reserve) -> Vec<(Sku, UnitNumber)> {
        let same = match request.choice {
            UnitChoice::SameNumber => self.common_number(&request.lines),
            UnitChoice::Any => None,
        };
        let before = self.stock.clone();
        let mut taken = Vec::new();
        for line in &request.lines {
            let stock = self.stock.get_mut(&line.sku).expect("the caller knows the SKU");
            let units = match same {
                Some(unit) => {
                    stock.take(unit);
                    vec![unit]
                }
                None => stock.take_lowest(line.quantity),
            };
            taken.extend(units.into_iter().map(|unit| (line.sku.clone(), unit)));
        }
        // The planted read-then-write: every seventh reservation writes back a stock that it had read before.
        if self.bug == Some(Planted::TakeIsNotAtomic) && self.holds.len() % 7 == 3 {
            self.stock = before;
        }
        taken
    }

    fn make_hold(&mut self, now: Timestamp, request: Reserve) -> Hold {
        let units = self.take(&request);
        let hold = Hold {
            id: request.id,
            buyer: request.buyer,
            units,
            state: HoldState::Held,
            deadline: now + self.spec.hold.get(),
            seq: self.seq() + 1,
            generation: 1,
        };
        self.log(now, EventKind::Reserved, Some(hold.id), as_ranges(&hold.units));
        self.owners.extend(hold.units.iter().map(|unit| (unit.clone(), hold.id)));
        let held = Held { hold: hold.clone(), lines: request.lines, choice: request.choice };
        self.holds.insert(hold.id, held);
        hold
    }

    /// Moves a reservation to a state, and its units to their place in it.
    fn end_as(&mut self, now: Timestamp, id: ReservationId, state: HoldState, kind: EventKind) -> Hold {
        let hold = &mut self.holds.get_mut(&id).expect("the caller found it").hold;
        hold.state = state;
        let hold = hold.clone();
        let decided = matches!(kind, EventKind::Confirming | EventKind::Cancelling | EventKind::Expiring);
        let units = if decided { Vec::new() } else { as_ranges(&hold.units) };
        self.log(now, kind, Some(id), units);
        if !state.is_live() {
            self.free_units(&hold, kind == EventKind::Quarantined);
        }
        hold
    }

    fn free_units(&mut self, hold: &Hold, withdraw: bool) {
        for (sku, unit) in &hold.units {
            self.owners.remove(&(sku.clone(), *unit));
            let stock = self.stock.get_mut(sku).expect("reserved units are of a known SKU");
            if withdraw {
                stock.withdrawn.push(UnitRange::one(*unit));
            } else if self.bug == Some(Planted::GivenBackTwice) {
                stock.given_back.insert(*unit);
                stock.add(1);
            } else {
                stock.given_back.insert(*unit);
            }
        }
    }

    /// Carries a decision out on an undecided hold: to its middle state with a ledger, to its end without one.
    fn decide(&mut self, now: Timestamp, id: ReservationId, intent: OrderIntent) -> Hold {
        let ledger = self.spec.orders.is_some();
        let (state, kind) = match (intent, ledger) {
            (OrderIntent::Confirm, true) => (HoldState::Confirming, EventKind::Confirming),
            (OrderIntent::Confirm, false) => (HoldState::Confirmed, EventKind::Confirmed),
            (OrderIntent::Cancel, true) => (HoldState::Cancelling, EventKind::Cancelling),
            (OrderIntent::Cancel, false) => (HoldState::Cancelled, EventKind::Cancelled),
            (OrderIntent::Expire, true) => (HoldState::Expiring, EventKind::Expiring),
            (OrderIntent::Expire, false) => (HoldState::Expired, EventKind::Expired),
            (OrderIntent::Hold, _) => unreachable!("a reservation is not a decision"),
        };
        self.end_as(now, id, state, kind)
    }

    fn settle(&mut self, now: Timestamp, id: ReservationId, verdict: Verdict) -> Settled {
        let Some(held) = self.holds.get(&id) else { return Settled::Unknown };
        let state = held.hold.state;
        let (end, kind) = match (state, verdict) {
            (HoldState::Confirming, Verdict::Confirmed) => (HoldState::Confirmed, EventKind::Confirmed),
            (HoldState::Cancelling, Verdict::Cancelled) => (HoldState::Cancelled, EventKind::Cancelled),
            (HoldState::Expiring, Verdict::Expired) => (HoldState::Expired, EventKind::Expired),
            (_, Verdict::Rejected { units_taken }) if state.is_held() => {
                (HoldState::Rejected, if units_taken { EventKind::Quarantined } else { EventKind::Rejected })
            }
            _ => return Settled::Unchanged(state),
        };
        self.end_as(now, id, end, kind);
        Settled::Settled
    }

    /// Gives the order that tells the ledger.
    fn change_stock(&mut self, now: Timestamp, sku: &Sku, change: StockChange) -> OrderTask {
        let stock = self.stock.get_mut(sku).expect("the caller knows the SKU");
        let (kind, changed, told) = match change {
            StockChange::Add(n) => (EventKind::StockAdded, stock.add(n).into_iter().collect(), Vec::new()),
            StockChange::Withdraw(n) => {
                let Withdrawn { now, told } = stock.withdraw(n);
                (EventKind::StockWithdrawn, now, told)
            }
        };
        self.log(now, kind, None, changed.into_iter().map(|range| (sku.clone(), range)).collect());
        self.stock_order(sku, told)
    }

    fn sku_state(&self, sku: &Sku) -> SkuState {
        let stock = &self.stock[sku];
        SkuState {
            sku: sku.clone(),
            total: stock.total,
            free: stock.free(),
            held: self.held(sku),
            confirmed: self.count(sku, |hold| hold.state == HoldState::Confirmed),
            withdrawn: UnitRange::total(&stock.withdrawn) as u32,
            per_buyer: stock.per_buyer,
        }
    }

    fn state(&self, now: Timestamp) -> SaleState {
        SaleState {
            spec: self.spec.clone(),
            status: self.status,
            generation: 1,
            seq: self.seq(),
            skus: self.spec.skus.iter().map(|sku| self.sku_state(&sku.sku)).collect(),
            next_give_back: self.next_give_back(),
            now,
        }
    }

    fn counters(&self, sku: &Sku, initial: u32) -> SkuCounters {
        let (stock, state) = (&self.stock[sku], self.sku_state(sku));
        SkuCounters {
            sku: sku.clone(),
            initial,
            total: stock.total,
            free: UnitRange::gather(stock.free_numbers()),
            withdrawn: stock.withdrawn.clone(),
            held: state.held,
            confirmed: state.confirmed,
            per_buyer: stock.per_buyer,
        }
    }

    fn books(&self) -> Books {
        let row = |held: &Held| ReservationRow {
            id: held.hold.id,
            buyer: held.hold.buyer.clone(),
            state: held.hold.state,
            seq: held.hold.seq,
            units: held.hold.units.clone(),
        };
        let owned = |((sku, unit), id): (&(Sku, UnitNumber), &ReservationId)| UnitRow {
            sku: sku.clone(),
            unit: *unit,
            reservation: *id,
        };
        Books {
            sale: self.spec.id.clone(),
            generation: 1,
            seq: self.seq(),
            has_ledger: self.spec.orders.is_some(),
            skus: self.spec.skus.iter().map(|sku| self.counters(&sku.sku, sku.units)).collect(),
            reservations: self.holds.values().map(row).collect(),
            units: self.owners.iter().map(owned).collect(),
            events: self.events.clone(),
        }
    }

    fn order(&self, hold: &Hold, intent: OrderIntent) -> OrderTask {
        OrderTask::Reservation {
            sale: self.spec.id.clone(),
            generation: 1,
            seq: hold.seq,
            id: hold.id,
            buyer: hold.buyer.clone(),
            units: hold.units.clone(),
            intent,
        }
    }

    fn stock_order(&self, sku: &Sku, withdrawn: Vec<UnitRange>) -> OrderTask {
        let stock = &self.stock[sku];
        OrderTask::Stock {
            sale: self.spec.id.clone(),
            sku: sku.clone(),
            seq: self.seq(),
            total: stock.total,
            withdrawn,
            per_buyer: stock.per_buyer,
        }
    }
}

fn as_ranges(units: &[(Sku, UnitNumber)]) -> Vec<(Sku, UnitRange)> {
    let lines = units.chunk_by(|(sku, _), (next, _)| sku == next);
    let ranges = lines.flat_map(|line| {
        let ranges = UnitRange::gather(line.iter().map(|(_, unit)| *unit));
        ranges.into_iter().map(|range| (line[0].0.clone(), range))
    });
    ranges.collect()
}

const UNITS_MAX: u64 = SaleSpec::UNITS_MAX as u64;

/// The task by which an order travels to the ledger.
fn order_task(order: &OrderTask) -> Result<NewTask> {
    let json =
        serde_json::to_vec(order).map_err(|error| Error::bug("an order is not JSON").caused_by(error))?;
    Ok(NewTask {
        due: Due::Now,
        priority: Priority::default(),
        on_duplicate: OnDuplicate::Replace,
        max_attempts: 1_000,
        ..NewTask::new(order.task_id(), Payload::new(ContentType::json(), json)?)
    })
}

impl Model {
    fn sale_mut(&mut self, id: &SaleId) -> Result<&mut Sale> {
        self.sales.by_id.get_mut(id).ok_or_else(|| Error::not_found(format_args!("the sale `{id}`")))
    }

    fn sale_ref(&self, id: &SaleId) -> Result<&Sale> {
        self.sales.by_id.get(id).ok_or_else(|| Error::not_found(format_args!("the sale `{id}`")))
    }

    /// Tells the ledger, if the sale has one, by a task in the step of the change itself.
    fn tell_ledger(&mut self, now: Timestamp, sale: &SaleId, order: &OrderTask) -> Result<()> {
        if let Some(queue) = self.sale_ref(sale)?.spec.orders.clone() {
            self.put_order(now, &queue, order_task(order)?);
        }
        Ok(())
    }

    fn decide(
        &mut self,
        now: Timestamp,
        sale: &SaleId,
        id: ReservationId,
        intent: OrderIntent,
    ) -> Result<Hold> {
        let of = self.sale_mut(sale)?;
        let hold = of.decide(now, id, intent);
        let order = of.order(&hold, intent);
        self.tell_ledger(now, sale, &order)?;
        Ok(hold)
    }

    /// See [`SaleStore::create`](rushgate_core::SaleStore::create).
    pub fn create(&mut self, spec: SaleSpec) -> Result<Created> {
        spec.check()?;
        if let Some(sale) = self.sales.by_id.get(&spec.id) {
            return Ok(if sale.spec == spec { Created::Created } else { Created::Exists });
        }
        self.sales.by_id.insert(spec.id.clone(), Sale::new(spec, self.bug));
        Ok(Created::Created)
    }

    /// See [`SaleStore::open`](rushgate_core::SaleStore::open).
    pub fn open(&mut self, now: Timestamp, sale: &SaleId) -> Result<SaleStatus> {
        let sale = self.sale_mut(sale)?;
        if sale.status == SaleStatus::Created {
            sale.status = SaleStatus::Open;
            sale.log(now, EventKind::Opened, None, Vec::new());
        }
        Ok(sale.status)
    }

    /// See [`SaleStore::end`](rushgate_core::SaleStore::end).
    pub fn end(&mut self, now: Timestamp, sale: &SaleId) -> Result<SaleStatus> {
        let sale = self.sale_mut(sale)?;
        if sale.status != SaleStatus::Ended {
            sale.status = SaleStatus::Ended;
            sale.log(now, EventKind::Ended, None, Vec::new());
        }
        Ok(sale.status)
    }

    /// See [`SaleStore::reserve`](rushgate_core::SaleStore::reserve).
    pub fn reserve(&mut self, now: Timestamp, request: Reserve) -> Result<Reserved> {
        request.check()?;
        let sale = self.sale_mut(&request.sale)?;
        if let Some(held) = sale.holds.get(&request.id) {
            if (&held.lines, held.choice) != (&request.lines, request.choice) {
                return Ok(Reserved::KeyReused);
            }
            if sale.bug != Some(Planted::ReplayTakesASecondUnit) || sale.short(&request).is_some() {
                return Ok(Reserved::Replayed(held.hold.clone()));
            }
        }
        if let Some(line) = request.lines.iter().find(|line| !sale.stock.contains_key(&line.sku)) {
            return Err(Error::not_found(format_args!("the SKU `{}`", line.sku)));
        }
        if let Some(refusal) = sale.closed(now) {
            return Ok(refusal);
        }
        if sale.over_limit(&request).is_some() || sale.short(&request).is_some() {
            self.expire(now, &request.sale, SaleSpec::SWEEP_MAX)?;
        }
        self.take(now, request)
    }

    fn take(&mut self, now: Timestamp, request: Reserve) -> Result<Reserved> {
        let id = request.sale.clone();
        let sale = self.sale_mut(&id)?;
        if let Some(refusal) = sale.over_limit(&request) {
            return Ok(refusal);
        }
        if let Some(short) = sale.short(&request) {
            return Ok(sale.sold_out(short));
        }
        let hold = sale.make_hold(now, request);
        let order = sale.order(&hold, OrderIntent::Hold);
        self.tell_ledger(now, &id, &order)?;
        Ok(Reserved::Reserved(hold))
    }

    /// See [`SaleStore::confirm`](rushgate_core::SaleStore::confirm).
    pub fn confirm(&mut self, now: Timestamp, sale: &SaleId, id: ReservationId) -> Result<Decision> {
        self.decision(now, sale, id, OrderIntent::Confirm)
    }

    /// See [`SaleStore::cancel_hold`](rushgate_core::SaleStore::cancel_hold).
    pub fn cancel_hold(&mut self, now: Timestamp, sale: &SaleId, id: ReservationId) -> Result<Decision> {
        self.decision(now, sale, id, OrderIntent::Cancel)
    }

    fn decision(
        &mut self,
        now: Timestamp,
        sale: &SaleId,
        id: ReservationId,
        intent: OrderIntent,
    ) -> Result<Decision> {
        let of = self.sale_mut(sale)?;
        let Some(Held { hold, .. }) = of.holds.get(&id).cloned() else { return Ok(Decision::Unknown) };
        let late_too = of.bug == Some(Planted::ExpiredHoldIsConfirmed);
        if hold.state != HoldState::Held {
            return Ok(decided_before(hold, intent));
        }
        if hold.deadline <= now && !late_too {
            return Ok(Decision::Refused(self.decide(now, sale, id, OrderIntent::Expire)?));
        }
        Ok(decided_before(self.decide(now, sale, id, intent)?, intent))
    }

    /// See [`SaleStore::expire`](rushgate_core::SaleStore::expire).
    pub fn expire(&mut self, now: Timestamp, sale: &SaleId, n: u32) -> Result<u32> {
        check_batch(n as usize)?;
        let overdue = self.sale_ref(sale)?.overdue(now, n);
        for id in &overdue {
            self.decide(now, sale, *id, OrderIntent::Expire)?;
        }
        Ok(overdue.len() as u32)
    }

    /// See [`SaleStore::settle`](rushgate_core::SaleStore::settle).
    pub fn settle(
        &mut self,
        now: Timestamp,
        sale: &SaleId,
        verdicts: Vec<(ReservationId, Verdict)>,
    ) -> Result<Vec<Settled>> {
        check_batch(verdicts.len())?;
        let sale = self.sale_mut(sale)?;
        Ok(verdicts.into_iter().map(|(id, verdict)| sale.settle(now, id, verdict)).collect())
    }

    /// See [`SaleStore::stock`](rushgate_core::SaleStore::stock).
    pub fn stock(
        &mut self,
        now: Timestamp,
        op: Op,
        sale: &SaleId,
        sku: &Sku,
        change: StockChange,
    ) -> Result<StockChanged> {
        change.check()?;
        once!(self, op, Stock, self.change_stock(now, sale, sku, change)?)
    }

    fn change_stock(
        &mut self,
        now: Timestamp,
        id: &SaleId,
        sku: &Sku,
        change: StockChange,
    ) -> Result<StockChanged> {
        let sale = self.sale_mut(id)?;
        let Some(stock) = sale.stock.get(sku) else {
            return Err(Error::not_found(format_args!("the SKU `{sku}`")));
        };
        match change {
            StockChange::Add(n) => {
                let total = u64::from(stock.total) + u64::from(n);
                check_range("the number of units in all", total, 1, UNITS_MAX)?;
            }
            StockChange::Withdraw(n) if stock.free() < n => {
                return Ok(StockChanged::NotEnough { free: stock.free() });
            }
            StockChange::Withdraw(n) => StockChange::check_withdrawal(n, stock.fresh())?,
        }
        let order = sale.change_stock(now, sku, change);
        let changed = StockChanged::Changed(sale.sku_state(sku));
        self.tell_ledger(now, id, &order)?;
        Ok(changed)
    }

    /// See [`SaleStore::sale`](rushgate_core::SaleStore::sale).
    pub fn sale(&self, now: Timestamp, sale: &SaleId) -> Result<SaleState> {
        Ok(self.sale_ref(sale)?.state(now))
    }

    /// See [`SaleStore::sales`](rushgate_core::SaleStore::sales).
    pub fn sales(&self, now: Timestamp, page: &Page) -> Result<Vec<SaleState>> {
        page.check()?;
        let after = self.sales.by_id.iter().filter(|(id, _)| id.as_str() > page.after.as_str());
        Ok(after.map(|(_, sale)| sale.state(now)).take(page.limit as usize).collect())
    }

    /// See [`SaleStore::reservation`](rushgate_core::SaleStore::reservation).
    pub fn reservation(&self, sale: &SaleId, id: ReservationId) -> Result<Option<Hold>> {
        Ok(self.sale_ref(sale)?.holds.get(&id).map(|held| held.hold.clone()))
    }

    /// See [`SaleStore::events`](rushgate_core::SaleStore::events).
    pub fn events(&self, sale: &SaleId, after: u64, limit: u32) -> Result<Vec<Event>> {
        check_range("the page's limit", limit.into(), 1, 10_000)?;
        let events = &self.sale_ref(sale)?.events;
        Ok(events.iter().filter(|event| event.seq > after).take(limit as usize).cloned().collect())
    }

    /// See [`SaleStore::books`](rushgate_core::SaleStore::books).
    pub fn books(&self, sale: &SaleId) -> Result<Books> {
        Ok(self.sale_ref(sale)?.books())
    }
}

/// What a decided reservation answers to a decision, its own or a later one.
fn decided_before(hold: Hold, intent: OrderIntent) -> Decision {
    match (hold.state, intent) {
        (HoldState::Confirmed, OrderIntent::Confirm) | (HoldState::Cancelled, OrderIntent::Cancel) => {
            Decision::Done(hold)
        }
        (HoldState::Confirming, OrderIntent::Confirm) | (HoldState::Cancelling, OrderIntent::Cancel) => {
            Decision::Pending(hold)
        }
        _ => Decision::Refused(hold),
    }
}
