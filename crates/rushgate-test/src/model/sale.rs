mod attempts;
mod orders;
mod rebuild;

use std::collections::{BTreeMap, BTreeSet};

use rushgate_core::{
    BuyerCount, BuyerId, ClientId, Created, Deadline, Decision, Error, Event, EventKind, Halt, HaltReason,
    Hold, HoldState, Line, ListedSale, Op, OrderIntent, Page, Reply, ReservationId, ReservationRow, Reserve,
    Reserved, Result, SaleId, SaleSpec, SaleState, SaleStatus, Settled, Sku, SkuCounters, SkuState, Snapshot,
    StockChange, StockChanged, Timestamp, UnitChoice, UnitNumber, UnitRange, UnitRow, Verdict,
};

use super::{Model, Planted};
use orders::Position;

/// All sales.
#[derive(Clone, Debug, Default)]
pub(super) struct Sales {
    by_id: BTreeMap<SaleId, Sale>,
    /// The requests of stock changes, to compare with a later one of the same `Op`.
    asked: BTreeMap<Op, (SaleId, Sku, StockChange)>,
    /// Attempts by answer and server.
    attempts: BTreeMap<SaleId, BTreeMap<String, BTreeMap<ClientId, u64>>>,
}

#[derive(Clone, Debug)]
struct Sale {
    spec: SaleSpec,
    status: SaleStatus,
    stock: BTreeMap<Sku, Stock>,
    /// With their requests, with which a repetition is compared, unless the reservation was restored.
    holds: BTreeMap<ReservationId, ReservationRow>,
    owners: BTreeMap<(Sku, UnitNumber), ReservationId>,
    events: Vec<Event>,
    generation: u32,
    halted: Option<Halt>,
    receipts_until: Option<Timestamp>,
    /// When the previous generation was halted, and when this one replaced it.
    since: Option<(Timestamp, Timestamp)>,
    /// Token of the rebuild under way, and the data that it has loaded.
    rebuild: Option<(Op, Box<Sale>)>,
    /// Token of the latest finished rebuild.
    rebuilt_by: Option<Op>,
    position: Position,
    bug: Option<Planted>,
}

/// Units of a SKU without an owner.
#[derive(Clone, Debug)]
struct Stock {
    total: u32,
    /// Fresh units: never reserved or skipped, in ascending order.
    fresh: Vec<UnitRange>,
    /// Free units that were released or skipped. All are below the fresh ones.
    returned: BTreeSet<UnitNumber>,
    withdrawn: Vec<UnitRange>,
    per_buyer: u32,
}

impl Stock {
    fn new(units: u32, per_buyer: u32) -> Self {
        let mut stock =
            Self { total: 0, fresh: Vec::new(), returned: BTreeSet::new(), withdrawn: Vec::new(), per_buyer };
        stock.add(units);
        stock
    }

    /// Adds units and returns their range.
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
        self.returned.len() as u32 + self.fresh()
    }

    fn is_free(&self, unit: UnitNumber) -> bool {
        self.returned.contains(&unit) || self.fresh.iter().any(|range| range.contains(unit))
    }

    fn free_numbers(&self) -> impl Iterator<Item = UnitNumber> {
        self.returned.iter().copied().chain(self.fresh.iter().flat_map(|range| range.numbers()))
    }

    /// Takes a free unit. Fresh units below it become released ones.
    fn take(&mut self, unit: UnitNumber) {
        for range in std::mem::take(&mut self.fresh) {
            self.returned.extend(range.numbers().take_while(|number| *number <= unit));
            self.fresh.extend(UnitRange::new(range.first().max(unit + 1), range.last()));
        }
        self.returned.remove(&unit);
    }

    fn take_lowest(&mut self, n: u32) -> Vec<UnitNumber> {
        let units: Vec<_> = self.free_numbers().take(n as usize).collect();
        for unit in &units {
            self.take(*unit);
        }
        units
    }

    /// Withdraws the highest free units.
    fn withdraw(&mut self, n: u32) -> Vec<UnitRange> {
        let highest: Vec<_> = self.free_numbers().skip((self.free() - n) as usize).collect();
        let (withdrawn, lowest) = (UnitRange::gather(highest.iter().copied()), highest[0]);
        self.returned.split_off(&lowest);
        for range in std::mem::take(&mut self.fresh) {
            self.fresh.extend(UnitRange::new(range.first(), range.last().min(lowest - 1)));
        }
        self.withdrawn.extend(&withdrawn);
        withdrawn
    }
}

/// The line for which too few units are free.
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
            generation: 1,
            halted: None,
            receipts_until: None,
            since: None,
            rebuild: None,
            rebuilt_by: None,
            position: Position::default(),
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

    fn next_expiry(&self) -> Option<Timestamp> {
        self.undecided().map(|hold| hold.deadline).min()
    }

    /// The first `n` holds whose deadline has passed, earliest deadline first.
    fn overdue(&self, now: Timestamp, n: u32) -> Vec<ReservationId> {
        let mut overdue: Vec<_> = self.undecided().filter(|hold| hold.deadline <= now).collect();
        overdue.sort_by_key(|hold| (hold.deadline, hold.seq));
        overdue.into_iter().take(n as usize).map(|hold| hold.id).collect()
    }

    /// Why the sale refuses buyers now, if it does.
    fn closed(&self, now: Timestamp) -> Option<Reserved> {
        let opens_at = self.spec.opens_at;
        if self.status == SaleStatus::Ended {
            return Some(Reserved::Ended);
        }
        if self.status == SaleStatus::Created || opens_at.is_some_and(|opens| now < opens) {
            return Some(Reserved::NotOpen { opens_at });
        }
        if self.spec.closes_at.is_some_and(|closes| closes <= now) {
            return Some(Reserved::Ended);
        }
        let receipts_only = self.receipts_until.filter(|until| now < *until);
        let retry_at = self.halted.map(|_| now + SaleSpec::ASK_AGAIN_AFTER).or(receipts_only);
        retry_at.map(|retry_at| Reserved::Halted { retry_at })
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

    /// The first line for which too few units are free.
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
            return Reserved::AllHeld { sku, free, next_expiry: self.next_expiry() };
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
        // The planted bug: every seventh reservation writes back a stock read earlier.
        if self.bug == Some(Planted::TakeIsNotAtomic) && self.holds.len() % 7 == 3 {
            self.stock = before;
        }
        taken
    }

    fn make_hold(&mut self, now: Timestamp, request: Reserve) -> Hold {
        let units = self.take(&request);
        let deadline = now + self.spec.hold.get();
        let hold = self.enter(now, request.id, request.buyer, units, deadline);
        let held = self.holds.get_mut(&hold.id).expect("it was entered");
        held.asked = Some((request.lines, request.choice));
        hold
    }

    /// Stores a reservation of these units.
    fn enter(
        &mut self,
        now: Timestamp,
        id: ReservationId,
        buyer: BuyerId,
        units: Vec<(Sku, UnitNumber)>,
        deadline: Timestamp,
    ) -> Hold {
        let (state, seq, generation) = (HoldState::Held, self.seq() + 1, self.generation);
        let hold = Hold { id, buyer, units, state, deadline, seq, generation };
        self.log(now, EventKind::Reserved, Some(hold.id), as_ranges(&hold.units));
        self.owners.extend(hold.units.iter().map(|unit| (unit.clone(), hold.id)));
        self.holds.insert(hold.id, ReservationRow { hold: hold.clone(), asked: None });
        hold
    }

    fn halt(&mut self, now: Timestamp, reason: HaltReason) {
        if self.halted.is_none() {
            self.halted = Some(Halt { reason, since: now });
            self.log(now, EventKind::Halted, None, Vec::new());
        }
    }

    /// Changes the state of a reservation and moves its units accordingly.
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
            } else if self.bug == Some(Planted::ReturnedTwice) {
                stock.returned.insert(*unit);
                stock.add(1);
            } else {
                stock.returned.insert(*unit);
            }
        }
    }

    /// Decides an undecided hold: to its middle state with a ledger, to its final state without one.
    fn decide(&mut self, now: Timestamp, id: ReservationId, intent: OrderIntent) -> Hold {
        let ledger = self.spec.ledger;
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

    fn settle(&mut self, now: Timestamp, generation: u32, id: ReservationId, verdict: Verdict) -> Settled {
        let Some(held) = self.holds.get(&id) else { return Settled::Unknown };
        let state = held.hold.state;
        if generation != self.generation {
            return Settled::Unchanged(state);
        }
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

    fn change_stock(&mut self, now: Timestamp, sku: &Sku, change: StockChange) {
        let stock = self.stock.get_mut(sku).expect("the caller knows the SKU");
        let (kind, changed) = match change {
            StockChange::Add(n) => (EventKind::StockAdded, stock.add(n).into_iter().collect()),
            StockChange::Withdraw(n) => (EventKind::StockWithdrawn, stock.withdraw(n)),
        };
        self.log(now, kind, None, changed.into_iter().map(|range| (sku.clone(), range)).collect());
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
            generation: self.generation,
            seq: self.seq(),
            skus: self.spec.skus.iter().map(|sku| self.sku_state(&sku.sku)).collect(),
            next_expiry: self.next_expiry(),
            halted: self.halted,
            receipts_until: self.receipts_until.filter(|until| now < *until),
            orders: self.orders_state(),
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
            fresh: stock.fresh(),
            returned: stock.returned.len() as u32,
            held: state.held,
            confirmed: state.confirmed,
            withdrawn_count: state.withdrawn,
            per_buyer: stock.per_buyer,
        }
    }

    fn snapshot(&self) -> Snapshot {
        let owned = |((sku, unit), id): (&(Sku, UnitNumber), &ReservationId)| UnitRow {
            sku: sku.clone(),
            unit: *unit,
            reservation: *id,
        };
        let deadline = |hold: &Hold| Deadline { at: hold.deadline, seq: hold.seq, reservation: hold.id };
        Snapshot {
            spec: self.spec.clone(),
            status: self.status,
            generation: self.generation,
            seq: self.seq(),
            halted: self.halted,
            rebuilt_by: self.rebuild.as_ref().map(|(by, _)| *by).or(self.rebuilt_by),
            since: self.since,
            receipts_until: self.receipts_until,
            skus: self.spec.skus.iter().map(|sku| self.counters(&sku.sku, sku.units)).collect(),
            reservations: self.holds.values().cloned().collect(),
            units: self.owners.iter().map(owned).collect(),
            buyers: self.buyers(),
            deadlines: self.undecided().map(deadline).collect(),
            events: self.events.clone(),
            through: self.position.through,
            failed: self.position.failed(),
            contradictions: Vec::new(),
        }
    }

    /// Number of units of each SKU that each buyer has.
    fn buyers(&self) -> Vec<BuyerCount> {
        let mut counts: BTreeMap<(&BuyerId, &Sku), u32> = BTreeMap::new();
        for hold in self.holds.values().map(|held| &held.hold).filter(|hold| hold.state.is_live()) {
            hold.units.iter().for_each(|(sku, _)| *counts.entry((&hold.buyer, sku)).or_default() += 1);
        }
        let count = |((buyer, sku), units): ((&BuyerId, &Sku), u32)| BuyerCount {
            buyer: buyer.clone(),
            sku: sku.clone(),
            units,
        };
        counts.into_iter().map(count).collect()
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

impl Model {
    fn sale_mut(&mut self, id: &SaleId) -> Result<&mut Sale> {
        self.sales.by_id.get_mut(id).ok_or_else(|| Error::not_found(format_args!("the sale `{id}`")))
    }

    /// Fails if the sale does not exist.
    pub(super) fn must_have_sale(&self, id: &SaleId) -> Result<()> {
        self.sale_ref(id).map(drop)
    }

    fn sale_ref(&self, id: &SaleId) -> Result<&Sale> {
        self.sales.by_id.get(id).ok_or_else(|| Error::not_found(format_args!("the sale `{id}`")))
    }

    /// See [`Verbs::create`](rushgate_core::Verbs::create).
    pub fn create(&mut self, spec: SaleSpec) -> Result<Created> {
        if let Some(sale) = self.sales.by_id.get(&spec.id) {
            return Ok(if sale.spec == spec { Created::Created } else { Created::Exists });
        }
        self.sales.by_id.insert(spec.id.clone(), Sale::new(spec, self.bug));
        Ok(Created::Created)
    }

    /// See [`Verbs::open`](rushgate_core::Verbs::open).
    pub fn open(&mut self, now: Timestamp, sale: &SaleId) -> Result<SaleStatus> {
        let sale = self.sale_mut(sale)?;
        if sale.status == SaleStatus::Created {
            sale.status = SaleStatus::Open;
            sale.log(now, EventKind::Opened, None, Vec::new());
        }
        Ok(sale.status)
    }

    /// See [`Verbs::end`](rushgate_core::Verbs::end).
    pub fn end(&mut self, now: Timestamp, sale: &SaleId) -> Result<SaleStatus> {
        let sale = self.sale_mut(sale)?;
        if sale.status != SaleStatus::Ended {
            sale.status = SaleStatus::Ended;
            sale.log(now, EventKind::Ended, None, Vec::new());
        }
        Ok(sale.status)
    }

    /// See [`Verbs::reserve`](rushgate_core::Verbs::reserve).
    pub fn reserve(&mut self, now: Timestamp, request: Reserve) -> Result<Reserved> {
        let sale = self.sale_mut(&request.sale)?;
        if let Some(held) = sale.holds.get(&request.id) {
            let asked = held.asked.as_ref();
            if asked.is_some_and(|(lines, choice)| (lines, *choice) != (&request.lines, request.choice)) {
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
        let sale = self.sale_mut(&request.sale)?;
        if let Some(refusal) = sale.over_limit(&request) {
            return Ok(refusal);
        }
        if let Some(short) = sale.short(&request) {
            return Ok(sale.sold_out(short));
        }
        Ok(Reserved::Reserved(sale.make_hold(now, request)))
    }

    /// See [`Verbs::confirm`](rushgate_core::Verbs::confirm).
    pub fn confirm(&mut self, now: Timestamp, sale: &SaleId, id: ReservationId) -> Result<Decision> {
        self.decision(now, sale, id, OrderIntent::Confirm)
    }

    /// See [`Verbs::cancel_hold`](rushgate_core::Verbs::cancel_hold).
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
        let late_too = of.bug == Some(Planted::ExpiredHoldIsConfirmed);
        let hold = of.holds.get(&id).map(|held| held.hold.clone());
        let hold = match hold {
            Some(hold) if hold.state != HoldState::Held => return Ok(decided_before(hold, intent)),
            _ if of.halted.is_some() => return Ok(Decision::Halted),
            None => return Ok(Decision::Unknown),
            Some(hold) => hold,
        };
        if hold.deadline <= now && !late_too {
            return Ok(Decision::Refused(of.decide(now, id, OrderIntent::Expire)));
        }
        Ok(decided_before(of.decide(now, id, intent), intent))
    }

    /// See [`Verbs::expire`](rushgate_core::Verbs::expire).
    pub fn expire(&mut self, now: Timestamp, sale: &SaleId, n: u32) -> Result<u32> {
        let of = self.sale_mut(sale)?;
        let overdue = if of.halted.is_some() { Vec::new() } else { of.overdue(now, n) };
        for id in &overdue {
            of.decide(now, *id, OrderIntent::Expire);
        }
        Ok(overdue.len() as u32)
    }

    /// See [`Verbs::settle`](rushgate_core::Verbs::settle).
    pub fn settle(
        &mut self,
        now: Timestamp,
        sale: &SaleId,
        generation: u32,
        verdicts: Vec<(ReservationId, Verdict)>,
    ) -> Result<Vec<Settled>> {
        let sale = self.sale_mut(sale)?;
        let settle = |(id, verdict)| sale.settle(now, generation, id, verdict);
        Ok(verdicts.into_iter().map(settle).collect())
    }

    /// See [`Verbs::stock`](rushgate_core::Verbs::stock).
    pub fn stock(
        &mut self,
        now: Timestamp,
        op: Op,
        sale: &SaleId,
        sku: &Sku,
        change: StockChange,
    ) -> Result<StockChanged> {
        let asked = (sale.clone(), sku.clone(), change);
        if let (Some(Reply::Stock(answer)), Some(first)) = (self.kept_answer(op), self.sales.asked.get(&op)) {
            return Ok(if *first == asked { answer } else { StockChanged::KeyReused });
        }
        let answer = self.change_stock(now, sale, sku, change)?;
        self.sales.asked.insert(op, asked);
        self.keep_answer(op, Reply::Stock(answer.clone()));
        Ok(answer)
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
        if sale.halted.is_some() {
            return Ok(StockChanged::Halted);
        }
        if let Some(refusal) = change.refusal(stock.total, stock.free(), stock.fresh()) {
            return Ok(refusal);
        }
        sale.change_stock(now, sku, change);
        Ok(StockChanged::Changed(sale.sku_state(sku)))
    }

    /// See [`Verbs::sale`](rushgate_core::Verbs::sale).
    pub fn sale(&self, now: Timestamp, sale: &SaleId) -> Result<SaleState> {
        Ok(self.sale_ref(sale)?.state(now))
    }

    /// See [`Verbs::sales`](rushgate_core::Verbs::sales).
    pub fn sales(&self, now: Timestamp, page: &Page) -> Result<Vec<ListedSale>> {
        let after = self.sales.by_id.iter().filter(|(id, _)| id.as_str() > page.after.as_str());
        let states = after.map(|(_, sale)| ListedSale::Sound(sale.state(now)));
        Ok(states.take(page.limit as usize).collect())
    }

    /// See [`Verbs::reservation`](rushgate_core::Verbs::reservation).
    pub fn reservation(&self, sale: &SaleId, id: ReservationId) -> Result<Option<Hold>> {
        Ok(self.sale_ref(sale)?.holds.get(&id).map(|held| held.hold.clone()))
    }

    /// See [`Verbs::events`](rushgate_core::Verbs::events).
    pub fn events(&self, sale: &SaleId, page: &Page<u64>) -> Result<Vec<Event>> {
        let events = &self.sale_ref(sale)?.events;
        Ok(events.iter().filter(|event| event.seq > page.after).take(page.limit as usize).cloned().collect())
    }

    /// See [`Verbs::snapshot`](rushgate_core::Verbs::snapshot).
    pub fn snapshot(&self, sale: &SaleId) -> Result<Snapshot> {
        Ok(self.sale_ref(sale)?.snapshot())
    }
}

/// The answer to a decision on a reservation that was already decided.
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
