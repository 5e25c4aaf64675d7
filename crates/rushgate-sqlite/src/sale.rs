//! The sale methods, each one step.

pub(crate) mod attempts;
pub(crate) mod orders;
pub(crate) mod rebuild;
pub(crate) mod reserve;
pub(crate) mod snapshot;
pub(crate) mod stock;
mod units;

use rushgate_core::{
    BuyerId, Coded, Created, Decision, Error, Event, EventKind, Hold, HoldState, Line, ListedSale, Log,
    MAX_UNITS, Op, OrderIntent, OrdersState, Page, ReservationId, SaleId, SaleSpec, SaleState, SaleStatus,
    Settled, Sku, Timestamp, Topic, UnitChoice, Verdict, verb,
};
use rusqlite::{Row, params};

use crate::fault::{Result, about_values};
use crate::read::Reader;
use crate::sql::sql;
use crate::step::Step;
use crate::stored::{coded, micros, optional_time, parsed, stored, time, unreadable};

use crate::rows::sale::{SaleRow, SkuRow, read_sale, read_skus, with_skus};
use units::Units;

/// Value of `part` for the sale itself.
const LIVE: i64 = 0;
/// Value of `part` for the data that a rebuild has loaded.
const STAGED: i64 = -1;

/// Writes back the rows of the sales that the calls of a group used.
pub(crate) fn write_back(step: &mut Step<'_>) -> Result<()> {
    std::mem::take(&mut step.sales).into_values().try_for_each(|row| row.write_back(step))
}

impl SaleRow {
    /// Writes the sale and its stock back if a call of the group changed them.
    fn write_back(&self, step: &mut Step<'_>) -> Result<()> {
        if self.changed {
            let params = params![
                self.no,
                self.status.code(),
                self.seq.cast_signed(),
                self.generation,
                self.halted.map(|pause| stored(pause.since)),
                self.halted.map_or(0, |pause| pause.reason.code()),
                self.rebuilt_by.map(Op::to_bytes),
                self.since.map(|(stopped, _)| stored(stopped)),
                self.since.map(|(_, switched)| stored(switched)),
                self.receipts_until.map(stored),
                self.through.cast_signed(),
                self.worker.map(|(worker, _)| worker.to_bytes()),
                self.worker.map_or(0, |(_, until)| stored(until)),
            ];
            step.exec(sql!("sale/row", "store_sale"), params)?;
        }
        if self.has_events {
            step.tell(Topic::Event(Log::Sale(self.spec.id.clone()), self.seq), None, usize::MAX);
        }
        for (no, sku) in self.skus.iter().enumerate().filter(|(_, sku)| sku.changed) {
            let places = (sku.returned, sku.held, sku.confirmed, sku.withdrawn);
            let stock = (self.no, no, sku.total, sku.next, sku.ahead, places.0, places.1, places.2, places.3);
            step.exec(sql!("sale/row", "store_sku"), stock)?;
        }
        Ok(())
    }
}

/// Loads the sale itself ([`LIVE`]) or the data of a rebuild ([`STAGED`]).
fn load(reader: &Reader<'_>, id: &SaleId, part: i64) -> Result<Option<SaleRow>> {
    let sale = reader.row(sql!("sale/row", "sale"), (id.as_str(), part), |row| read_sale(row, id))?;
    let Some(sale) = sale else { return Ok(None) };
    let skus = reader.rows(sql!("sale/row", "skus"), [sale.no], read_skus())?;
    Ok(Some(with_skus(sale, skus)))
}

pub(crate) fn unknown(id: &SaleId) -> Error {
    Error::not_found(format_args!("the sale `{id}`"))
        .hint("run `rushgate sale ls` to list the sales of this store")
}

/// Fails if fewer free units were found than counted, because the file is then damaged.
fn check_count(missing: u32) -> Result<()> {
    if missing == 0 {
        return Ok(());
    }
    let why = format_args!("{missing} fewer units are free than the counter shows").to_string();
    Err(unreadable(0, Error::corrupt(why)).into())
}

/// A sale during a call: the step, and the sale's row, removed from the step's cache meanwhile.
struct Sale<'s, 'w> {
    step: &'s mut Step<'w>,
    row: SaleRow,
}

fn on_sale<T>(
    step: &mut Step<'_>,
    id: &SaleId,
    verb: impl FnOnce(&mut Sale<'_, '_>) -> Result<T>,
) -> Result<T> {
    let row = match step.sales.remove(id) {
        Some(row) => row,
        None => load(step, id, LIVE)?.ok_or_else(|| unknown(id))?,
    };
    let mut sale = Sale { step, row };
    let answer = verb(&mut sale);
    let Sale { step, row } = sale;
    step.sales.insert(id.clone(), row);
    answer
}

/// Serializes a request, to compare it with a later one of the same key.
fn write_lines(lines: &[Line], choice: UnitChoice) -> String {
    use std::fmt::Write;
    let mut text = String::from(match choice {
        UnitChoice::Any => "any",
        UnitChoice::SameNumber => "same",
    });
    for line in lines {
        let _ = write!(text, " {}*{}", line.sku, line.quantity);
    }
    text
}

/// Parses the output of [`write_lines`]. `Some(None)` for a reservation restored after a loss, whose request is
/// unknown.
fn read_lines(text: &str) -> Option<Option<(Vec<Line>, UnitChoice)>> {
    let mut words = text.split(' ');
    let choice = match words.next()? {
        "any" => UnitChoice::Any,
        "same" => UnitChoice::SameNumber,
        "" => return words.next().is_none().then_some(None),
        _ => return None,
    };
    let line = |word: &str| {
        let (sku, quantity) = word.rsplit_once('*')?;
        Some(Line { sku: Sku::new(sku).ok()?, quantity: quantity.parse().ok()? })
    };
    let lines = words.map(line).collect::<Option<_>>()?;
    Some(Some((lines, choice)))
}

/// A reservation's row.
struct HoldRow {
    id: ReservationId,
    buyer: BuyerId,
    state: HoldState,
    deadline: Timestamp,
    seq: u64,
    generation: u32,
    lines: String,
    units: Units,
}

impl HoldRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let unreadable = |at| unreadable(at, Error::corrupt("cannot read the row of a reservation"));
        Ok(Self {
            id: ReservationId::from_bytes(row.get(0)?),
            buyer: parsed(row, 1)?,
            state: coded(row, 2)?,
            deadline: time(row, 3)?,
            seq: row.get::<_, i64>(4)?.cast_unsigned(),
            generation: row.get(5)?,
            lines: row.get(6)?,
            units: Units::read(row.get_ref(7)?.as_str()?)
                .filter(|units| units.count() <= MAX_UNITS.into())
                .ok_or_else(|| unreadable(7))?,
        })
    }

    fn hold(&self, skus: &[SkuRow]) -> Hold {
        Hold {
            id: self.id,
            buyer: self.buyer.clone(),
            units: self.units.named(skus),
            state: self.state,
            deadline: self.deadline,
            seq: self.seq,
            generation: self.generation,
        }
    }
}

impl Sale<'_, '_> {
    fn find(&mut self, id: ReservationId) -> Result<Option<HoldRow>> {
        self.step.row(sql!("sale/hold", "one"), (self.row.no, id.to_bytes()), HoldRow::read)
    }

    fn hold(&self, row: &HoldRow) -> Hold {
        row.hold(&self.row.skus)
    }

    fn at(&self, sku: &Sku) -> Result<usize> {
        Ok(self.row.index.get(sku).copied().ok_or_else(|| {
            Error::not_found(format_args!("the SKU `{sku}` of the sale `{}`", self.row.spec.id))
        })?)
    }

    fn append(&mut self, kind: EventKind, of: Option<ReservationId>, units: &Units) -> Result<u64> {
        self.row.seq += 1;
        (self.row.changed, self.row.has_events) = (true, true);
        let seq = self.row.seq;
        let of = of.map(ReservationId::to_bytes);
        let params = (self.row.no, seq.cast_signed(), self.step.now_us(), kind.code(), of, units.write());
        self.step.exec(sql!("sale/event", "append"), params)?;
        Ok(seq)
    }

    /// Stores a reservation: units, buyer, event.
    fn record(
        &mut self,
        id: ReservationId,
        buyer: &BuyerId,
        lines: String,
        units: Units,
        deadline: Timestamp,
    ) -> Result<HoldRow> {
        for (sku, unit) in units.each() {
            self.step.exec(sql!("sale/reserve", "own"), (self.row.no, sku, unit, id.to_bytes()))?;
            self.row.skus[sku].held += 1;
        }
        for (sku, quantity) in units.per_sku() {
            let params = (self.row.no, buyer.as_str(), sku, quantity);
            self.step.exec(sql!("sale/reserve", "count"), params)?;
        }
        let seq = self.append(EventKind::Reserved, Some(id), &units)?;
        let (buyer, state, generation) = (buyer.clone(), HoldState::Held, self.row.generation);
        let row = HoldRow { id, buyer, state, deadline, seq, generation, lines, units };
        let params = (
            self.row.no,
            id.to_bytes(),
            row.buyer.as_str(),
            stored(row.deadline),
            seq.cast_signed(),
            row.generation,
            row.lines.as_str(),
            row.units.write(),
        );
        self.step.exec(sql!("sale/reserve", "hold"), params)?;
        Ok(row)
    }

    /// Decides an undecided hold: finally, or until the ledger has committed.
    fn decide(&mut self, row: &mut HoldRow, intent: OrderIntent) -> Result<()> {
        let (waiting, kind, end) = match intent {
            OrderIntent::Confirm => (HoldState::Confirming, EventKind::Confirming, EventKind::Confirmed),
            OrderIntent::Cancel => (HoldState::Cancelling, EventKind::Cancelling, EventKind::Cancelled),
            OrderIntent::Expire => (HoldState::Expiring, EventKind::Expiring, EventKind::Expired),
            OrderIntent::Hold => return Ok(()),
        };
        if !self.row.spec.ledger {
            return self.end(row, end);
        }
        row.state = waiting;
        self.store_state(row)?;
        self.append(kind, Some(row.id), &Units::default()).map(drop)
    }

    fn store_state(&mut self, row: &HoldRow) -> Result<()> {
        let params = (self.row.no, row.id.to_bytes(), row.state.code());
        self.step.exec(sql!("sale/hold", "state"), params).map(drop)
    }

    /// Ends a reservation: its units are sold, free again, or withdrawn.
    fn end(&mut self, row: &mut HoldRow, kind: EventKind) -> Result<()> {
        row.state = match kind {
            EventKind::Confirmed => HoldState::Confirmed,
            EventKind::Cancelled => HoldState::Cancelled,
            EventKind::Expired => HoldState::Expired,
            _ => HoldState::Rejected,
        };
        self.store_state(row)?;
        for (sku, unit) in row.units.each() {
            let stock = &mut self.row.skus[sku];
            stock.changed = true;
            stock.held -= 1;
            match kind {
                EventKind::Confirmed => stock.confirmed += 1,
                EventKind::Quarantined => stock.withdrawn += 1,
                _ => stock.returned += 1,
            }
            if kind == EventKind::Confirmed {
                continue;
            }
            self.step.exec(sql!("sale/unit", "disown"), (self.row.no, sku, unit, row.id.to_bytes()))?;
            if kind == EventKind::Quarantined {
                self.step.exec(sql!("sale/unit", "withdraw"), (self.row.no, sku, unit, unit))?;
            } else {
                self.step.exec(sql!("sale/unit", "free"), (self.row.no, sku, unit))?;
            }
        }
        if kind != EventKind::Confirmed {
            for (sku, quantity) in row.units.per_sku() {
                let params = (self.row.no, row.buyer.as_str(), sku, quantity);
                self.step.exec(sql!("sale/reserve", "uncount"), params)?;
            }
        }
        self.append(kind, Some(row.id), &row.units).map(drop)
    }

    fn expire(&mut self, n: u32) -> Result<u32> {
        let params = (self.row.no, self.step.now_us(), n);
        let due = self.step.rows(sql!("sale/expire", "due"), params, HoldRow::read)?;
        let ended = due.len() as u32;
        for mut row in due {
            self.decide(&mut row, OrderIntent::Expire)?;
        }
        Ok(ended)
    }

    /// Confirms or cancels a hold.
    fn resolve(&mut self, id: ReservationId, intent: OrderIntent) -> Result<Decision> {
        let (pending, done) = match intent {
            OrderIntent::Confirm => (HoldState::Confirming, HoldState::Confirmed),
            _ => (HoldState::Cancelling, HoldState::Cancelled),
        };
        let found = self.find(id)?;
        if self.row.halted.is_some() && found.as_ref().is_none_or(|row| row.state == HoldState::Held) {
            return Ok(Decision::Halted);
        }
        let Some(mut row) = found else { return Ok(Decision::Unknown) };
        if row.state == HoldState::Held {
            let late = row.deadline <= self.step.now;
            self.decide(&mut row, if late { OrderIntent::Expire } else { intent })?;
        }
        let hold = self.hold(&row);
        Ok(match row.state {
            state if state == pending => Decision::Pending(hold),
            state if state == done => Decision::Done(hold),
            _ => Decision::Refused(hold),
        })
    }

    fn settle(&mut self, generation: u32, id: ReservationId, verdict: Verdict) -> Result<Settled> {
        let Some(mut row) = self.find(id)? else { return Ok(Settled::Unknown) };
        if generation != self.row.generation {
            return Ok(Settled::Unchanged(row.state));
        }
        let kind = match (row.state, verdict) {
            (HoldState::Confirming, Verdict::Confirmed) => EventKind::Confirmed,
            (HoldState::Cancelling, Verdict::Cancelled) => EventKind::Cancelled,
            (HoldState::Expiring, Verdict::Expired) => EventKind::Expired,
            (state, Verdict::Rejected { units_taken: false }) if state.is_held() => EventKind::Rejected,
            (state, Verdict::Rejected { units_taken: true }) if state.is_held() => EventKind::Quarantined,
            (state, _) => return Ok(Settled::Unchanged(state)),
        };
        self.end(&mut row, kind)?;
        Ok(Settled::Settled)
    }
}

pub(crate) fn create(step: &mut Step<'_>, spec: &SaleSpec) -> Result<Created> {
    let known = match step.sales.get(&spec.id) {
        Some(row) => Some(row.spec == *spec),
        None => load(step, &spec.id, LIVE)?.map(|row| row.spec == *spec),
    };
    if let Some(same) = known {
        return Ok(if same { Created::Created } else { Created::Exists });
    }
    insert(step, spec, LIVE)?;
    Ok(Created::Created)
}

/// Creates a sale with its full stock.
fn insert(step: &mut Step<'_>, spec: &SaleSpec, part: i64) -> Result<i64> {
    let params = (
        spec.id.as_str(),
        micros(spec.hold.get()),
        spec.opens_at.map(stored),
        spec.closes_at.map(stored),
        spec.ledger,
        spec.secret.to_bytes(),
        part,
        spec.metadata.as_str(),
    );
    let no: i64 = step.value(sql!("sale/create", "sale"), params)?.unwrap_or_default();
    for (at, sku) in spec.skus.iter().enumerate() {
        step.exec(sql!("sale/create", "sku"), (no, at, sku.sku.as_str(), sku.units, sku.per_buyer))?;
    }
    Ok(no)
}

pub(crate) fn open(step: &mut Step<'_>, id: &SaleId) -> Result<SaleStatus> {
    on_sale(step, id, |sale| {
        if sale.row.status == SaleStatus::Created {
            sale.row.status = SaleStatus::Open;
            sale.append(EventKind::Opened, None, &Units::default())?;
        }
        Ok(sale.row.status)
    })
}

pub(crate) fn end(step: &mut Step<'_>, id: &SaleId) -> Result<SaleStatus> {
    on_sale(step, id, |sale| {
        if sale.row.status != SaleStatus::Ended {
            sale.row.status = SaleStatus::Ended;
            sale.append(EventKind::Ended, None, &Units::default())?;
        }
        Ok(sale.row.status)
    })
}

pub(crate) fn confirm(step: &mut Step<'_>, id: &SaleId, of: ReservationId) -> Result<Decision> {
    on_sale(step, id, |sale| sale.resolve(of, OrderIntent::Confirm))
}

pub(crate) fn cancel_hold(step: &mut Step<'_>, id: &SaleId, of: ReservationId) -> Result<Decision> {
    on_sale(step, id, |sale| sale.resolve(of, OrderIntent::Cancel))
}

pub(crate) fn expire(step: &mut Step<'_>, id: &SaleId, n: u32) -> Result<u32> {
    on_sale(step, id, |sale| if sale.row.halted.is_some() { Ok(0) } else { sale.expire(n) })
}

pub(crate) fn settle(step: &mut Step<'_>, v: &verb::Settle) -> Result<Vec<Settled>> {
    on_sale(step, &v.sale, |sale| {
        v.verdicts.iter().map(|(of, verdict)| sale.settle(v.generation, *of, *verdict)).collect()
    })
}

fn read_whole(reader: &Reader<'_>, id: &SaleId) -> Result<SaleRow> {
    Ok(load(reader, id, LIVE)?.ok_or_else(|| unknown(id))?)
}

/// The earliest deadline of an undecided hold of the sale with this number.
fn next_expiry(reader: &Reader<'_>, no: i64) -> Result<Option<Timestamp>> {
    Ok(reader.row(sql!("sale/row", "next_expiry"), [no], |row| optional_time(row, 0))?.flatten())
}

pub(crate) fn sale(reader: &Reader<'_>, id: &SaleId) -> Result<SaleState> {
    let row = read_whole(reader, id)?;
    Ok(row.state(next_expiry(reader, row.no)?, followed(reader, &row)?, reader.now))
}

/// How far the ledger has followed the sale, if it has one.
fn followed(reader: &Reader<'_>, sale: &SaleRow) -> Result<Option<OrdersState>> {
    if !sale.spec.ledger {
        return Ok(None);
    }
    let next = (sale.no, sale.through.cast_signed() + 1);
    let behind_since = reader.row(sql!("sale/orders", "event_time"), next, |row| time(row, 0))?;
    let failed = reader.row(sql!("sale/orders", "count"), [sale.no], |row| row.get(0))?.unwrap_or_default();
    let worker_until = sale.worker.map(|(_, until)| until);
    Ok(Some(OrdersState { through: sale.through, behind_since, failed, worker_until }))
}

pub(crate) fn sales(reader: &Reader<'_>, page: &Page) -> Result<Vec<ListedSale>> {
    let ids =
        reader.rows(sql!("sale/row", "ids"), (&page.after, page.limit), |row| parsed::<SaleId>(row, 0))?;
    let listed = ids.into_iter().map(|id| {
        let state = about_values(sale(reader, &id))?;
        Ok(ListedSale::of(id, state)?)
    });
    listed.collect()
}

pub(crate) fn reservation(reader: &Reader<'_>, id: &SaleId, of: ReservationId) -> Result<Option<Hold>> {
    let sale = read_whole(reader, id)?;
    let row = reader.row(sql!("sale/hold", "one"), (sale.no, of.to_bytes()), HoldRow::read)?;
    Ok(row.map(|row| row.hold(&sale.skus)))
}

fn read_event(row: &Row<'_>, skus: &[SkuRow]) -> rusqlite::Result<Event> {
    let unreadable = |at| unreadable(at, Error::corrupt("cannot read the row of an event"));
    let units = Units::read(row.get_ref(4)?.as_str()?).ok_or_else(|| unreadable(4))?;
    Ok(Event {
        seq: row.get::<_, i64>(0)?.cast_unsigned(),
        at: time(row, 1)?,
        kind: coded(row, 2)?,
        reservation: row.get::<_, Option<[u8; 16]>>(3)?.map(ReservationId::from_bytes),
        units: units.named_ranges(skus),
    })
}

pub(crate) fn events(reader: &Reader<'_>, id: &SaleId, page: &Page<u64>) -> Result<Vec<Event>> {
    let sale = read_whole(reader, id)?;
    let after = i64::try_from(page.after).unwrap_or(i64::MAX);
    reader.rows(sql!("sale/event", "after"), (sale.no, after, page.limit), |row| read_event(row, &sale.skus))
}
