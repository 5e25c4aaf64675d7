//! Sale operations: encodes requests and decodes answers.

mod attempts;
mod orders;
mod snapshot;

use std::collections::HashMap;
use std::fmt::Write;

use rushgate_core::{
    BuyerId, Coded, Decision, Error, Event, Field, Halt, Hold, LedgerOrder, Line, Load, MAX_UNITS, Op,
    OrdersState, ReservationId, Reserve, Reserved, Restored, Result, SaleId, SaleSpec, SaleState, Settled,
    Sku, SkuState, StockChange, StockChanged, Timestamp, UnitChoice, UnitNumber, UnitRange, Verdict,
    check_range, verb,
};

pub(crate) use attempts::{count_attempts, read_attempts};
pub(crate) use orders::{failed_orders, follow_orders, read_failed, read_followed, retry_orders};
pub(crate) use snapshot::{read_snapshot, snapshot};

use crate::command::{Call, Command};
use crate::function::Function;
use crate::keys::{self, Group};
use crate::reply::{Packed, Reply, coded, str_of, strange};

/// Units are coded as SKU × SHELF + number.
const SHELF: u64 = 1 << 24;
/// Length of a packed range of units.
const RANGE_BYTES: usize = 10;

/// The specification of a sale, which never changes, and its keys.
pub(crate) struct Home {
    pub(crate) spec: SaleSpec,
    keys: Group,
    index: HashMap<Sku, usize>,
}

impl Home {
    pub(crate) fn new(spec: SaleSpec) -> Self {
        let index = spec.skus.iter().enumerate().map(|(at, sku)| (sku.sku.clone(), at)).collect();
        Self { keys: keys::sale(&spec.id), spec, index }
    }

    fn call(&self, function: Function) -> Call {
        Call::new(function, [self.keys.clone()]).arg(self.spec.secret.to_bytes())
    }

    /// A request of a rebuild, which also uses the staged sale.
    fn call_beside(&self, function: Function, by: Op) -> Call {
        Call::new(function, [self.keys.clone(), keys::staged_sale(&self.spec.id)])
            .arg(self.spec.secret.to_bytes())
            .arg(by.to_bytes())
    }

    fn sku(&self, no: usize) -> Result<Sku> {
        self.spec.skus.get(no).map(|sku| sku.sku.clone()).ok_or_else(|| strange("an unknown SKU"))
    }

    pub(crate) fn at(&self, sku: &Sku) -> Result<usize> {
        self.index.get(sku).copied().ok_or_else(|| unknown_sku(sku, &self.spec.id))
    }

    fn ranges(&self, mut packed: Packed<'_>) -> Result<Vec<(Sku, UnitRange)>> {
        let mut ranges = Vec::with_capacity(packed.0.len() / RANGE_BYTES);
        while !packed.0.is_empty() {
            let (no, range) = read_range(&mut packed)?;
            ranges.push((self.sku(no)?, range));
        }
        Ok(ranges)
    }

    fn units(&self, packed: Packed<'_>) -> Result<Vec<(Sku, UnitNumber)>> {
        let each = |(sku, range): (Sku, UnitRange)| range.numbers().map(move |unit| (sku.clone(), unit));
        let ranges = self.ranges(packed)?;
        if ranges.iter().map(|(_, range)| u64::from(range.count())).sum::<u64>() > MAX_UNITS.into() {
            return Err(strange("a hold of more units than a reservation has"));
        }
        Ok(ranges.into_iter().flat_map(each).collect())
    }

    fn hold(&self, id: ReservationId, packed: &[u8]) -> Result<Hold> {
        self.hold_and_lines(id, packed).map(|(hold, _)| hold)
    }

    /// A hold, and its cart as it is stored.
    fn hold_and_lines<'a>(&self, id: ReservationId, packed: &'a [u8]) -> Result<(Hold, &'a [u8])> {
        let mut packed = Packed(packed);
        let state = coded(packed.number(1)?)?;
        let deadline = Timestamp::from_micros(packed.number(7)?);
        let (seq, generation) = (packed.number(6)?, packed.small(4)?);
        let (lines, buyer) = (packed.number(2)?, packed.number(1)?);
        let buyer = BuyerId::as_stored(str_of(packed.take(buyer as usize)?)?)?;
        let lines = packed.take(lines as usize)?;
        let units = self.units(packed)?;
        Ok((Hold { id, buyer, units, state, deadline, seq, generation }, lines))
    }
}

/// The number of a SKU, and a range of its units.
fn read_range(packed: &mut Packed<'_>) -> Result<(usize, UnitRange)> {
    let (no, first, last) = (packed.number(2)? as usize, packed.small(4)?, packed.small(4)?);
    UnitRange::new(first, last).map(|range| (no, range)).ok_or_else(|| strange("a range that goes backwards"))
}

fn unknown_sku(sku: &Sku, sale: &SaleId) -> Error {
    Error::not_found(format_args!("the SKU `{sku}` of the sale `{sale}`"))
}

pub(crate) fn unknown(id: &SaleId) -> Error {
    Error::not_found(format_args!("the sale `{id}`"))
        .hint("run `rushgate sale ls` to list the sales of this store")
}

/// The sale's specification is there, but its other keys are not.
pub(crate) fn without_keys(id: &SaleId) -> Error {
    Error::corrupt(format_args!("the keys of the sale `{id}` are missing"))
        .hint("rebuild the sale from its ledger, or restore a backup")
}

pub(crate) fn create(home: &Home) -> Call {
    let spec = &home.spec;
    let moment = |at: Option<Timestamp>| at.map(|at| at.as_micros().to_string()).unwrap_or_default();
    let call = Call::new(Function::SaleCreate, [keys::sale_home(&spec.id), home.keys.clone()])
        .arg(spec.to_json())
        .arg(spec.secret.to_bytes())
        .number(spec.hold.as_micros())
        .arg(moment(spec.opens_at))
        .arg(moment(spec.closes_at))
        .flag(spec.ledger);
    spec.skus.iter().fold(call, |call, sku| call.number(sku.units.into()).number(sku.per_buyer.into()))
}

pub(crate) fn open(home: &Home, _: &verb::Open) -> Result<Call> {
    Ok(home.call(Function::SaleOpen))
}

pub(crate) fn end(home: &Home, _: &verb::End) -> Result<Call> {
    Ok(home.call(Function::SaleEnd))
}

/// The cart, with SKUs by number, or -1 for one that the sale does not have.
fn write_cart(home: &Home, lines: &[Line], choice: UnitChoice) -> String {
    let mut text = String::from(match choice {
        UnitChoice::Any => "any",
        UnitChoice::SameNumber => "same",
    });
    for line in lines {
        let no = home.index.get(&line.sku).map_or(-1, |no| *no as i64);
        let _ = write!(text, " {no}*{}", line.quantity);
    }
    text
}

/// How much work a request is. A common number is searched in every line, so such a request is not merged with others.
fn weight(request: &Reserve) -> u32 {
    match request.choice {
        UnitChoice::Any => request.lines.iter().map(|line| line.quantity).sum(),
        UnitChoice::SameNumber => u32::MAX,
    }
}

pub(crate) fn reserve(home: &Home, verb: &verb::Reserve) -> Result<Call> {
    let request = &verb.request;
    let mut args = Command::default().arg(request.id.to_bytes()).arg(request.buyer.as_str());
    args.push(write_cart(home, &request.lines, request.choice).as_bytes());
    Ok(home.call(Function::SaleReserve).item(weight(request), args))
}

pub(crate) fn read_reserved(home: &Home, verb: &verb::Reserve, reply: Reply) -> Result<Reserved> {
    let request = &verb.request;
    let mut fields = match reply {
        Reply::Bytes(hold) => return Ok(Reserved::Reserved(home.hold(request.id, &hold)?)),
        other => other.list()?,
    };
    match fields.int()? {
        2 => Ok(Reserved::Replayed(home.hold(request.id, &fields.bytes()?)?)),
        3 => Ok(Reserved::KeyReused),
        4 => Ok(Reserved::SoldOut { sku: home.sku(fields.int()? as usize)?, free: fields.small()? }),
        5 => Ok(Reserved::AllHeld {
            sku: home.sku(fields.int()? as usize)?,
            free: fields.small()?,
            next_expiry: fields.moment()?,
        }),
        6 => Ok(Reserved::LimitReached {
            sku: home.sku(fields.int()? as usize)?,
            limit: fields.small()?,
            has: fields.small()?,
        }),
        7 => Ok(Reserved::NotOpen { opens_at: home.spec.opens_at }),
        8 => Ok(Reserved::Ended),
        10 => Ok(Reserved::Halted { retry_at: Timestamp::from_micros(fields.int()?) }),
        9 => {
            let line = request.lines.get(fields.int()? as usize).ok_or_else(|| strange("an unknown line"))?;
            Err(unknown_sku(&line.sku, &home.spec.id))
        }
        _ => Err(strange("an unknown outcome")),
    }
}

pub(crate) fn confirm(home: &Home, verb: &verb::Confirm) -> Result<Call> {
    Ok(home.call(Function::SaleConfirm).item(1, Command::default().arg(verb.id.to_bytes())))
}

pub(crate) fn cancel_hold(home: &Home, verb: &verb::CancelHold) -> Result<Call> {
    // Canceling may release many units, and only the server knows how many.
    Ok(home.call(Function::SaleCancelHold).item(50, Command::default().arg(verb.id.to_bytes())))
}

pub(crate) fn read_decision(home: &Home, id: ReservationId, reply: Reply) -> Result<Decision> {
    let mut fields = reply.list()?;
    let outcome = fields.int()?;
    match outcome {
        0 => return Ok(Decision::Unknown),
        4 => return Ok(Decision::Halted),
        _ => {}
    }
    let hold = home.hold(id, &fields.bytes()?)?;
    match outcome {
        1 => Ok(Decision::Done(hold)),
        2 => Ok(Decision::Pending(hold)),
        3 => Ok(Decision::Refused(hold)),
        _ => Err(strange("an unknown outcome")),
    }
}

pub(crate) fn expire(home: &Home, verb: &verb::Expire) -> Result<Call> {
    Ok(home.call(Function::SaleExpire).number(verb.n.into()))
}

pub(crate) fn settle(home: &Home, verb: &verb::Settle) -> Result<Call> {
    let call = home.call(Function::SaleSettle).number(verb.generation.into());
    Ok(verb.verdicts.iter().fold(call, |call, (id, verdict)| {
        call.arg(id.to_bytes()).arg(match verdict {
            Verdict::Confirmed => "confirmed",
            Verdict::Cancelled => "cancelled",
            Verdict::Expired => "expired",
            Verdict::Rejected { units_taken: false } => "rejected",
            Verdict::Rejected { units_taken: true } => "quarantined",
        })
    }))
}

pub(crate) fn read_settled(reply: Reply) -> Result<Vec<Settled>> {
    reply.list()?.each(|fields| match (fields.int()?, fields.int()?) {
        (0, _) => Ok(Settled::Unknown),
        (1, _) => Ok(Settled::Settled),
        (2, state) => coded(state).map(Settled::Unchanged),
        _ => Err(strange("an unknown outcome")),
    })
}

pub(crate) fn stock(home: &Home, verb: &verb::Stock) -> Result<Call> {
    let no = home.at(&verb.sku)?;
    let (add, withdraw) = match verb.change {
        StockChange::Add(n) => (n, 0),
        StockChange::Withdraw(n) => (0, n),
    };
    let keys = [home.keys.clone(), keys::stock_replays(&home.spec.id, verb.op.client())];
    Ok(Call::new(Function::SaleStock, keys)
        .arg(home.spec.secret.to_bytes())
        .arg(&verb.op.to_bytes()[8..])
        .number(no as u64)
        .number(add.into())
        .number(withdraw.into())
        .number(SaleSpec::UNITS_MAX.into())
        .number(StockChange::GIVEN_BACK_MAX.into()))
}

pub(crate) fn read_stock(sku: &Sku, reply: Reply) -> Result<StockChanged> {
    let mut fields = reply.list()?;
    match fields.int()? {
        1 => Ok(StockChanged::Changed(read_sku(sku.clone(), &fields.bytes()?)?)),
        2 => Ok(StockChanged::NotEnough { free: fields.small()? }),
        3 => Ok(StockChanged::TooLarge { most: fields.small()? }),
        4 => Ok(StockChanged::Halted),
        5 => Ok(StockChanged::KeyReused),
        _ => Err(strange("an unknown outcome")),
    }
}

pub(crate) fn halt(home: &Home, verb: &verb::HaltSale) -> Result<Call> {
    Ok(home.call(Function::SaleHalt).number(verb.generation.into()).number(verb.reason.code().into()))
}

pub(crate) fn read_paused(reply: Reply) -> Result<bool> {
    match reply.int()? {
        2 => Err(without_ledger()),
        halted => Ok(halted == 1),
    }
}

fn without_ledger() -> Error {
    Error::invalid("the sale", "has no ledger to rebuild from")
}

pub(crate) fn begin_rebuild(home: &Home, verb: &verb::BeginRebuild) -> Result<Call> {
    Ok(home.call_beside(Function::SaleBeginRebuild, verb.by).number(home.spec.skus.len() as u64))
}

pub(crate) fn read_begun(reply: Reply) -> Result<()> {
    if reply.int()? == 2 { Err(without_ledger()) } else { Ok(()) }
}

pub(crate) fn load(home: &Home, verb: &verb::Load) -> Result<Call> {
    let (sku, ranges, place) = match &verb.part {
        Load::Orders(orders) => return load_orders(home, verb, orders),
        Load::Free(sku, units) => (sku, UnitRange::gather(units.iter().copied()), "free"),
        Load::Withdrawn(sku, ranges) => (sku, ranges.clone(), "withdrawn"),
    };
    let call = home.call_beside(Function::SaleLoadUnits, verb.by).number(verb.generation.into());
    let call = call.number(home.at(sku)? as u64).arg(place);
    let add = |call: Call, range: UnitRange| call.number(range.first().into()).number(range.last().into());
    Ok(ranges.into_iter().fold(call, add))
}

fn load_orders(home: &Home, verb: &verb::Load, orders: &[LedgerOrder]) -> Result<Call> {
    let call = home.call_beside(Function::SaleLoadOrders, verb.by).number(verb.generation.into());
    orders.iter().try_fold(call, |call, order| {
        let units = pack_units(home, &order.units)?;
        Ok(call.arg(order.id.to_bytes()).arg(order.buyer.as_str()).arg(order.state.word()).arg(units))
    })
}

/// Packed units: sku(2) first(4) last(4) for each range.
fn pack_units(home: &Home, units: &[(Sku, UnitNumber)]) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    for line in units.chunk_by(|(sku, _), (next, _)| sku == next) {
        let no = home.at(&line[0].0)? as u16;
        for range in UnitRange::gather(line.iter().map(|(_, unit)| *unit)) {
            packed.extend_from_slice(&no.to_be_bytes());
            packed.extend_from_slice(&range.first().to_be_bytes());
            packed.extend_from_slice(&range.last().to_be_bytes());
        }
    }
    Ok(packed)
}

pub(crate) fn switch(home: &Home, verb: &verb::Switch) -> Result<Call> {
    let switch = &verb.switch;
    check_range(
        Field::Skus,
        switch.stock.len() as u64,
        home.spec.skus.len() as u64,
        home.spec.skus.len() as u64,
    )?;
    let call = home
        .call_beside(Function::SaleSwitch, verb.by)
        .number(switch.generation.into())
        .number(crate::command::micros(switch.grace));
    Ok(home.spec.skus.iter().zip(&switch.stock).fold(call, |call, (sku, told)| {
        call.number(sku.units.into())
            .number(told.total.into())
            .number(told.handed_out.into())
            .number(told.ahead.into())
    }))
}

pub(crate) fn restore(home: &Home, verb: &verb::Restore) -> Result<Call> {
    let receipt = &verb.receipt;
    Ok(home
        .call(Function::SaleRestore)
        .arg(receipt.id.to_bytes())
        .arg(receipt.buyer.as_str())
        .number(receipt.generation.into())
        .number(receipt.deadline.as_micros())
        .flag(receipt.choice() == UnitChoice::SameNumber)
        .arg(pack_units(home, &receipt.units)?))
}

pub(crate) fn read_restored(home: &Home, verb: &verb::Restore, reply: Reply) -> Result<Restored> {
    let (id, mut fields) = (verb.receipt.id, reply.list()?);
    match fields.int()? {
        1 => Ok(Restored::Restored(home.hold(id, &fields.bytes()?)?)),
        2 => Ok(Restored::Known(home.hold(id, &fields.bytes()?)?)),
        4 | 5 => Ok(Restored::NoneLeft { sku: home.sku(fields.int()? as usize)?, free: fields.small()? }),
        6 => Ok(Restored::LimitReached {
            sku: home.sku(fields.int()? as usize)?,
            limit: fields.small()?,
            has: fields.small()?,
        }),
        10 => Ok(Restored::Halted { retry_at: Timestamp::from_micros(fields.int()?) }),
        11 => Ok(Restored::Expired),
        _ => Err(strange("an unknown outcome")),
    }
}

/// A packed SKU.
fn read_sku(sku: Sku, packed: &[u8]) -> Result<SkuState> {
    let mut packed = Packed(packed);
    let (total, next) = (packed.small(4)?, packed.small(4)?);
    let (ahead, returned) = (packed.small(4)?, packed.small(4)?);
    let state = SkuState {
        sku,
        total,
        free: (u64::from(total) + u64::from(returned))
            .checked_sub(u64::from(next) + u64::from(ahead))
            .and_then(|free| u32::try_from(free).ok())
            .ok_or_else(|| strange("a stock below zero"))?,
        held: packed.small(4)?,
        confirmed: packed.small(4)?,
        withdrawn: packed.small(4)?,
        per_buyer: packed.small(2)?,
    };
    if packed.0.is_empty() { Ok(state) } else { Err(strange("a SKU of another length")) }
}

pub(crate) fn show(home: &Home, _: &verb::Sale) -> Result<Call> {
    Ok(home.call(Function::SaleShow).number(home.spec.skus.len() as u64))
}

pub(crate) fn read_state(home: &Home, _: &verb::Sale, reply: Reply) -> Result<SaleState> {
    let mut fields = reply.list()?;
    let status = coded(fields.int()?)?;
    let (generation, seq) = (fields.small()?, fields.int()?);
    let next_expiry = fields.moment()?;
    let now = Timestamp::from_micros(fields.int()?);
    let mut skus = Vec::with_capacity(home.spec.skus.len());
    for sku in &home.spec.skus {
        skus.push(read_sku(sku.sku.clone(), &fields.bytes()?)?);
    }
    let since = fields.moment()?;
    let reason = coded(fields.int()?)?;
    let halted = since.map(|since| Halt { reason, since });
    let (spec, receipts_until) = (home.spec.clone(), fields.moment()?);
    let orders = OrdersState {
        through: fields.int()?,
        behind_since: fields.moment()?,
        failed: fields.small()?,
        worker_until: fields.moment()?,
    };
    let orders = spec.ledger.then_some(orders);
    Ok(SaleState { spec, status, generation, seq, skus, next_expiry, halted, receipts_until, orders, now })
}

/// Registers this process for the sale's next event.
pub(crate) fn listen(home: &Home, inbox: u64, after: u64) -> Call {
    home.call(Function::SaleListen).arg(format!("{inbox:016x}")).number(after.min(1 << 53))
}

pub(crate) fn reservation(home: &Home, verb: &verb::Reservation) -> Result<Call> {
    Ok(home.call(Function::SaleReservation).arg(verb.id.to_bytes()))
}

pub(crate) fn read_reservation(home: &Home, verb: &verb::Reservation, reply: Reply) -> Result<Option<Hold>> {
    let mut fields = reply.list()?;
    if fields.is_empty() { Ok(None) } else { home.hold(verb.id, &fields.bytes()?).map(Some) }
}

pub(crate) fn events(home: &Home, verb: &verb::Events) -> Result<Call> {
    let after = verb.page.after.min(1 << 53);
    Ok(home.call(Function::SaleEvents).number(after).number(after + u64::from(verb.page.limit) - 1))
}

pub(crate) fn read_events(home: &Home, after: u64, reply: Reply) -> Result<Vec<Event>> {
    let mut seq = after;
    reply.list()?.each(|fields| {
        seq += 1;
        let packed = fields.bytes()?;
        let mut packed = Packed(&packed);
        let at = Timestamp::from_micros(packed.number(7)?);
        let kind = coded(packed.number(1)?)?;
        let reservation = match packed.number(1)? {
            0 => None,
            1 => Some(ReservationId::from_bytes(packed.id()?)),
            _ => return Err(strange("an event of an unknown form")),
        };
        Ok(Event { seq, at, kind, reservation, units: home.ranges(packed)? })
    })
}
