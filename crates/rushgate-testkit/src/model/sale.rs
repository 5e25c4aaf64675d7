use std::collections::{BTreeMap, BTreeSet};

use rushgate_core::{
    Books, BuyerCount, BuyerId, Created, Deadline, Decision, Due, Error, Event, EventKind, Halt, HaltReason,
    Hold, HoldState, LedgerOrder, Line, Load, NewTask, OnDuplicate, Op, OrderIntent, OrderTask, Page,
    Priority, Rebuilt, Receipt, Reply, ReservationId, ReservationRow, Reserve, Reserved, Restored, Result,
    SaleId, SaleSecret, SaleSpec, SaleState, SaleStatus, Settled, Sku, SkuCounters, SkuState, StockChange,
    StockChanged, Stocktake, Switch, Timestamp, UnitChoice, UnitNumber, UnitRange, UnitRow, Verdict,
};

use super::{Model, Planted};

/// All sales.
#[derive(Clone, Debug, Default)]
pub(super) struct Sales {
    by_id: BTreeMap<SaleId, Sale>,
    /// The requests of stock changes, to compare with a later one of the same `Op`.
    asked: BTreeMap<Op, (SaleId, Sku, StockChange)>,
}

#[derive(Clone, Debug)]
struct Sale {
    spec: SaleSpec,
    status: SaleStatus,
    stock: BTreeMap<Sku, Stock>,
    holds: BTreeMap<ReservationId, Held>,
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
    bug: Option<Planted>,
}

/// Result of a withdrawal.
struct Withdrawn {
    now: Vec<UnitRange>,
    /// Ranges that the order to the ledger names.
    told: Vec<UnitRange>,
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
    fn withdraw(&mut self, n: u32) -> Withdrawn {
        let highest: Vec<_> = self.free_numbers().skip((self.free() - n) as usize).collect();
        let (returned, fresh) =
            highest.split_at(highest.partition_point(|unit| self.returned.contains(unit)));
        // All units above the lowest withdrawn fresh one are withdrawn now.
        let to_the_top = fresh.first().and_then(|lowest| UnitRange::new(*lowest, self.total));
        let told = returned.iter().map(|unit| UnitRange::one(*unit)).chain(to_the_top);
        let withdrawn =
            Withdrawn { now: UnitRange::gather(highest.iter().copied()), told: UnitRange::gather(told) };
        let lowest = highest[0];
        self.returned.split_off(&lowest);
        for range in std::mem::take(&mut self.fresh) {
            self.fresh.extend(UnitRange::new(range.first(), range.last().min(lowest - 1)));
        }
        self.withdrawn.extend(&withdrawn.now);
        withdrawn
    }
}

/// A reservation and its request, with which a repetition is compared. Restored reservations are not compared.
#[derive(Clone, Debug)]
struct Held {
    hold: Hold,
    asked: Option<(Vec<Line>, UnitChoice)>,
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
        self.holds.insert(hold.id, Held { hold: hold.clone(), asked: None });
        hold
    }

    fn halt(&mut self, now: Timestamp, reason: HaltReason) {
        if self.halted.is_none() {
            self.halted = Some(Halt { reason, since: now });
            self.log(now, EventKind::Halted, None, Vec::new());
        }
    }

    /// An empty copy of this sale, for a rebuild.
    fn staged(&self, now: Timestamp) -> Self {
        let mut staged = Self::new(self.spec.clone(), self.bug);
        staged.log(now, EventKind::Rebuilt, None, Vec::new());
        staged
    }

    fn load(&mut self, now: Timestamp, part: Load) {
        match part {
            Load::Orders(orders) => orders.into_iter().for_each(|order| self.load_order(now, order)),
            Load::Free(sku, units) => {
                self.stock.get_mut(&sku).expect("the caller knows the SKU").returned.extend(units);
            }
            Load::Withdrawn(sku, units) => {
                let stock = self.stock.get_mut(&sku).expect("the caller knows the SKU");
                let new: Vec<_> =
                    units.into_iter().filter(|range| !stock.withdrawn.contains(range)).collect();
                stock.withdrawn.extend(&new);
                let new: Vec<_> = new.into_iter().map(|range| (sku.clone(), range)).collect();
                if !new.is_empty() {
                    self.log(now, EventKind::StockWithdrawn, None, new);
                }
            }
        }
    }

    fn load_order(&mut self, now: Timestamp, order: LedgerOrder) {
        if self.holds.contains_key(&order.id) {
            return;
        }
        let deadline = now + self.spec.hold.get();
        let id = self.enter(now, order.id, order.buyer, order.units, deadline).id;
        let (state, kind) = match order.state {
            OrderIntent::Hold => return,
            OrderIntent::Confirm => (HoldState::Confirmed, EventKind::Confirmed),
            OrderIntent::Cancel => (HoldState::Cancelled, EventKind::Cancelled),
            OrderIntent::Expire => (HoldState::Expired, EventKind::Expired),
        };
        // Loaded reservations that have ended had released their units before.
        self.end_as(now, id, state, kind);
    }

    /// Whether every unit up to the highest reserved one has been loaded.
    fn adds_up_to(&self, stock: &[Stocktake]) -> bool {
        self.spec.skus.iter().zip(stock).all(|(sku, told)| {
            let Stock { returned, withdrawn, .. } = &self.stock[&sku.sku];
            let owned = self.owners.keys().filter(|(of, _)| *of == sku.sku).count();
            (returned.len() + owned) as u64 + UnitRange::total(withdrawn)
                == u64::from(told.handed_out) + u64::from(told.ahead)
        })
    }

    /// Replaces the sale with the loaded data.
    fn switch(&mut self, now: Timestamp, by: Op, switch: &Switch) {
        let Some((_, mut new)) = self.rebuild.take() else { unreachable!("the caller has checked") };
        for (sku, told) in new.spec.skus.clone().iter().zip(&switch.stock) {
            let stock = new.stock.get_mut(&sku.sku).expect("it has the SKUs of its specification");
            stock.total = told.total;
            stock.withdrawn.sort();
            let fresh = UnitRange::new(told.handed_out + 1, told.total);
            stock.fresh = fresh.map(|all| all.without(stock.withdrawn.iter().copied())).unwrap_or_default();
            if told.total > sku.units {
                let added = UnitRange::new(sku.units + 1, told.total);
                let added = added.into_iter().map(|range| (sku.sku.clone(), range)).collect();
                new.log(now, EventKind::StockAdded, None, added);
            }
        }
        new.generation = switch.generation;
        new.status = self.status;
        new.since = self.halted.map(|halt| (halt.since, now));
        new.receipts_until = Some(now + switch.grace).filter(|until| now < *until);
        new.rebuilt_by = Some(by);
        *self = *new;
    }

    /// Until when a receipt is honored. A hold that was valid when the sale was halted gets a full hold time from the
    /// switch on, like the holds that the ledger knew.
    fn honoured_until(&self, receipt: &Receipt) -> Timestamp {
        match self.since {
            Some((stopped, switched))
                if receipt.generation < self.generation && receipt.deadline > stopped =>
            {
                switched + self.spec.hold.get()
            }
            _ => receipt.deadline,
        }
    }

    fn restore(&mut self, now: Timestamp, receipt: Receipt) -> Result<Restored> {
        let lines = receipt.lines();
        if let Some(held) = self.holds.get(&receipt.id) {
            return Ok(Restored::Known(held.hold.clone()));
        }
        if let Some(line) = lines.iter().find(|line| !self.stock.contains_key(&line.sku)) {
            return Err(Error::not_found(format_args!("the SKU `{}`", line.sku)));
        }
        if self.spec.orders.is_some() && receipt.generation >= self.generation {
            self.halt(now, HaltReason::LostWrites);
        }
        if self.halted.is_some() {
            return Ok(Restored::Halted { retry_at: now + SaleSpec::ASK_AGAIN_AFTER });
        }
        let deadline = self.honoured_until(&receipt);
        if deadline <= now {
            return Ok(Restored::Expired);
        }
        let request = Reserve {
            sale: receipt.sale.clone(),
            id: receipt.id,
            buyer: receipt.buyer.clone(),
            choice: receipt.choice(),
            lines,
        };
        if let Some(Reserved::LimitReached { sku, limit, has }) = self.over_limit(&request) {
            return Ok(Restored::LimitReached { sku, limit, has });
        }
        let same = receipt.units.iter().all(|(sku, unit)| self.stock[sku].is_free(*unit));
        let units = if same {
            for (sku, unit) in &receipt.units {
                self.stock.get_mut(sku).expect("the units were checked").take(*unit);
            }
            receipt.units
        } else {
            if let Some(Short { sku, free }) = self.short(&request) {
                return Ok(Restored::NoneLeft { sku, free });
            }
            self.take(&request)
        };
        Ok(Restored::Restored(self.enter(now, receipt.id, receipt.buyer, units, deadline)))
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

    /// Changes the stock and returns the order for the ledger.
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
            generation: self.generation,
            seq: self.seq(),
            skus: self.spec.skus.iter().map(|sku| self.sku_state(&sku.sku)).collect(),
            next_expiry: self.next_expiry(),
            halted: self.halted,
            receipts_until: self.receipts_until.filter(|until| now < *until),
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

    fn books(&self, pending: Vec<OrderTask>) -> Books {
        let row = |held: &Held| ReservationRow {
            id: held.hold.id,
            buyer: held.hold.buyer.clone(),
            state: held.hold.state,
            deadline: held.hold.deadline,
            seq: held.hold.seq,
            generation: held.hold.generation,
            asked: held.asked.clone(),
            units: held.hold.units.clone(),
        };
        let owned = |((sku, unit), id): (&(Sku, UnitNumber), &ReservationId)| UnitRow {
            sku: sku.clone(),
            unit: *unit,
            reservation: *id,
        };
        let deadline = |hold: &Hold| Deadline { at: hold.deadline, seq: hold.seq, reservation: hold.id };
        Books {
            spec: self.spec.clone(),
            status: self.status,
            generation: self.generation,
            seq: self.seq(),
            halted: self.halted,
            rebuilt_by: self.rebuild.as_ref().map(|(by, _)| *by).or(self.rebuilt_by),
            since: self.since,
            receipts_until: self.receipts_until,
            skus: self.spec.skus.iter().map(|sku| self.counters(&sku.sku, sku.units)).collect(),
            reservations: self.holds.values().map(row).collect(),
            units: self.owners.iter().map(owned).collect(),
            buyers: self.buyers(),
            deadlines: self.undecided().map(deadline).collect(),
            events: self.events.clone(),
            pending,
            obstacles: Vec::new(),
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

    fn order(&self, hold: &Hold, intent: OrderIntent) -> OrderTask {
        OrderTask::Reservation {
            sale: self.spec.id.clone(),
            generation: hold.generation,
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

/// The task that carries an order to the ledger.
fn order_task(order: &OrderTask, secret: SaleSecret) -> Result<NewTask> {
    Ok(NewTask {
        due: Due::Now,
        priority: Priority::default(),
        on_duplicate: OnDuplicate::Replace,
        max_attempts: 1_000,
        ..NewTask::new(order.task_id(), order.seal(secret)?)
    })
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

    /// Enqueues an order in the step of the change, if the sale has a ledger.
    fn tell_ledger(&mut self, now: Timestamp, sale: &SaleId, order: &OrderTask) -> Result<()> {
        let SaleSpec { orders, secret, .. } = &self.sale_ref(sale)?.spec;
        if let (Some(queue), secret) = (orders.clone(), *secret) {
            self.put_order(now, &queue, order_task(order, secret)?);
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

    /// See [`Verbs::create`](rushgate_core::Verbs::create).
    pub fn create(&mut self, spec: SaleSpec) -> Result<Created> {
        if let Some(sale) = self.sales.by_id.get(&spec.id) {
            return Ok(if sale.spec == spec { Created::Created } else { Created::Exists });
        }
        if let Some(orders) = &spec.orders {
            self.reserve_queue(orders)?;
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
            return Ok(Decision::Refused(self.decide(now, sale, id, OrderIntent::Expire)?));
        }
        Ok(decided_before(self.decide(now, sale, id, intent)?, intent))
    }

    /// See [`Verbs::expire`](rushgate_core::Verbs::expire).
    pub fn expire(&mut self, now: Timestamp, sale: &SaleId, n: u32) -> Result<u32> {
        let of = self.sale_ref(sale)?;
        let overdue = if of.halted.is_some() { Vec::new() } else { of.overdue(now, n) };
        for id in &overdue {
            self.decide(now, sale, *id, OrderIntent::Expire)?;
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

    fn sale_with_ledger(&mut self, id: &SaleId) -> Result<&mut Sale> {
        let sale = self.sale_mut(id)?;
        if sale.spec.orders.is_none() {
            return Err(Error::invalid("the sale", "has no ledger to rebuild from"));
        }
        Ok(sale)
    }

    /// See [`Verbs::halt_sale`](rushgate_core::Verbs::halt_sale).
    pub fn halt_sale(
        &mut self,
        now: Timestamp,
        sale: &SaleId,
        generation: u32,
        reason: HaltReason,
    ) -> Result<bool> {
        let sale = self.sale_with_ledger(sale)?;
        if sale.generation == generation {
            sale.halt(now, reason);
        }
        Ok(sale.halted.is_some())
    }

    /// See [`Verbs::begin_rebuild`](rushgate_core::Verbs::begin_rebuild).
    pub fn begin_rebuild(&mut self, now: Timestamp, by: Op, sale: &SaleId) -> Result<()> {
        let sale = self.sale_with_ledger(sale)?;
        // A repeated call after another rebuild has begun counts as the latest.
        let latest = sale.rebuild.as_ref().map_or(sale.rebuilt_by, |(of, _)| Some(*of));
        if latest != Some(by) {
            sale.halt(now, HaltReason::Rebuilding);
            sale.halted = sale.halted.map(|pause| Halt { reason: HaltReason::Rebuilding, ..pause });
            sale.rebuild = Some((by, Box::new(sale.staged(now))));
        }
        Ok(())
    }

    /// See [`Verbs::load`](rushgate_core::Verbs::load).
    pub fn load(
        &mut self,
        now: Timestamp,
        by: Op,
        id: &SaleId,
        generation: u32,
        part: Load,
    ) -> Result<Rebuilt> {
        let sale = self.sale_mut(id)?;
        let known = |sku: &Sku| sale.stock.contains_key(sku);
        let all_known = match &part {
            Load::Orders(orders) => orders.iter().flat_map(|order| &order.units).all(|(sku, _)| known(sku)),
            Load::Free(sku, _) | Load::Withdrawn(sku, _) => known(sku),
        };
        if !all_known {
            return Err(Error::not_found("the SKU"));
        }
        match &mut sale.rebuild {
            Some((whose, staged)) if *whose == by => {
                staged.generation = generation;
                staged.load(now, part);
            }
            _ => return Ok(Rebuilt::Superseded),
        }
        Ok(Rebuilt::Done)
    }

    /// See [`Verbs::switch`](rushgate_core::Verbs::switch).
    pub fn switch(&mut self, now: Timestamp, by: Op, id: &SaleId, switch: &Switch) -> Result<Rebuilt> {
        let sale = self.sale_mut(id)?;
        let is_done = (sale.rebuilt_by, sale.generation) == (Some(by), switch.generation);
        if is_done && sale.rebuild.is_none() {
            return Ok(Rebuilt::Done);
        }
        match &sale.rebuild {
            Some((whose, staged)) if *whose == by => {
                if switch.generation <= sale.generation || !staged.adds_up_to(&switch.stock) {
                    return Ok(Rebuilt::Incomplete);
                }
            }
            _ => return Ok(Rebuilt::Superseded),
        }
        sale.switch(now, by, switch);
        Ok(Rebuilt::Done)
    }

    /// See [`Verbs::restore`](rushgate_core::Verbs::restore).
    pub fn restore(&mut self, now: Timestamp, receipt: Receipt) -> Result<Restored> {
        let id = receipt.sale.clone();
        let sale = self.sale_mut(&id)?;
        let restored = sale.restore(now, receipt)?;
        if let Restored::Restored(hold) = &restored {
            let order = sale.order(hold, OrderIntent::Hold);
            self.tell_ledger(now, &id, &order)?;
        }
        Ok(restored)
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
        let order = sale.change_stock(now, sku, change);
        let changed = StockChanged::Changed(sale.sku_state(sku));
        self.tell_ledger(now, id, &order)?;
        Ok(changed)
    }

    /// See [`Verbs::sale`](rushgate_core::Verbs::sale).
    pub fn sale(&self, now: Timestamp, sale: &SaleId) -> Result<SaleState> {
        Ok(self.sale_ref(sale)?.state(now))
    }

    /// See [`Verbs::sales`](rushgate_core::Verbs::sales).
    pub fn sales(&self, now: Timestamp, page: &Page) -> Result<Vec<SaleState>> {
        let after = self.sales.by_id.iter().filter(|(id, _)| id.as_str() > page.after.as_str());
        Ok(after.map(|(_, sale)| sale.state(now)).take(page.limit as usize).collect())
    }

    /// See [`Verbs::reservation`](rushgate_core::Verbs::reservation).
    pub fn reservation(&self, sale: &SaleId, id: ReservationId) -> Result<Option<Hold>> {
        Ok(self.sale_ref(sale)?.holds.get(&id).map(|held| held.hold.clone()))
    }

    /// See [`Verbs::events`](rushgate_core::Verbs::events).
    pub fn events(&self, sale: &SaleId, after: u64, limit: u32) -> Result<Vec<Event>> {
        let events = &self.sale_ref(sale)?.events;
        Ok(events.iter().filter(|event| event.seq > after).take(limit as usize).cloned().collect())
    }

    /// See [`Verbs::books`](rushgate_core::Verbs::books).
    pub fn books(&self, sale: &SaleId) -> Result<Books> {
        let of = self.sale_ref(sale)?;
        let payloads = of.spec.orders.iter().flat_map(|queue| self.payloads(queue));
        let orders = payloads.filter_map(|payload| OrderTask::unseal(payload, of.spec.secret).ok());
        Ok(of.books(orders.filter(|order| order.sale() == sale).collect()))
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
