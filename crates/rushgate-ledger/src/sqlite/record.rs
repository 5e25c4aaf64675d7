//! Records one entry. The schema decides what is permitted; this module tries, and translates errors into outcomes.

use std::collections::HashMap;

use rushgate_core::{
    BuyerId, Error, Field, LedgerEntry, OrderIntent, ReservationId, SaleId, SaleSpec, Sku, UnitNumber,
    UnitRange,
};
use rusqlite::params;
use rusqlite::types::Type;

use super::fault::violation;
use super::session::{Session, sql};
use crate::words::{self, Violation, kept_refusal, kept_word};
use crate::{LedgerSale, Refusal, Written};

type Sql<T> = rusqlite::Result<T>;

/// IDs read before. Rows are never deleted and limits never change, so the cache stays valid, except after a
/// rollback.
#[derive(Default)]
pub(super) struct IdCache {
    sales: HashMap<SaleId, CachedSale>,
}

struct CachedSale {
    id: i64,
    skus: HashMap<Sku, CachedSku>,
}

#[derive(Clone, Copy)]
struct CachedSku {
    id: i64,
    per_buyer: u32,
}

impl IdCache {
    const SALES_MAX: usize = 1_000;

    pub(super) fn forget(&mut self) {
        self.sales.clear();
    }
}

/// An [`LedgerEntry::Reservation`] of a known sale.
struct Order<'a> {
    sale: i64,
    generation: u32,
    seq: u64,
    id: ReservationId,
    buyer: &'a BuyerId,
    units: &'a [(Sku, UnitNumber)],
    intent: OrderIntent,
}

/// Counts of a transaction, valid only if it commits.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) entries: u64,
    pub(super) orders: u64,
    pub(super) refused: u64,
}

/// Writes the entries of one transaction.
pub(super) struct Recorder<'c> {
    session: Session<'c>,
    known: &'c mut IdCache,
    now_us: i64,
    /// By SKU: all units above this number are taken. Saves repeated searches during many reassignments.
    search_from: HashMap<i64, UnitNumber>,
    /// Generation by sale. No other transaction changes it while this one writes.
    generations: HashMap<i64, u32>,
    pub(super) tally: Tally,
}

impl<'c> Recorder<'c> {
    pub(super) fn new(session: Session<'c>, known: &'c mut IdCache, now_us: i64) -> Self {
        let (search_from, generations) = (HashMap::new(), HashMap::new());
        Self { session, known, now_us, search_from, generations, tally: Tally::default() }
    }

    /// Registers a sale. The inner error is the caller's and leaves the transaction usable.
    pub(super) fn open_sale(&mut self, sale: &LedgerSale) -> Sql<rushgate_core::Result<()>> {
        if let Some(id) = self.sale(&sale.sale)? {
            for told in &sale.skus {
                match self.sku(&sale.sale, id, &told.sku)? {
                    Some(sku) if sku.per_buyer != told.per_buyer => {
                        let why = format!(
                            "of {} is {}; the ledger has {}",
                            told.sku, told.per_buyer, sku.per_buyer
                        );
                        return Ok(Err(Error::invalid(Field::PerBuyer, why)));
                    }
                    _ => {}
                }
            }
        }
        let id = self.insert_sale(sale)?;
        self.generations.remove(&id);
        for told in &sale.skus {
            self.stock(id, &told.sku, told.units, told.per_buyer)?;
        }
        Ok(Ok(()))
    }

    fn insert_sale(&self, sale: &LedgerSale) -> Sql<i64> {
        let spec = sale.spec.as_ref().map(SaleSpec::to_public_json);
        let params = params![sale.sale.as_str(), sale.generation, self.now_us, spec];
        let id: i64 = self
            .session
            .first(sql!("sale/open"), params, |row| row.get(0))?
            .ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        if let Some(spec) = &sale.spec {
            self.session.run(sql!("sale/keep_secret"), params![id, spec.secret.to_bytes()])?;
        }
        Ok(id)
    }

    /// Starts a new generation and returns it; `None` if the sale is unknown.
    pub(super) fn advance(&mut self, sale: &SaleId) -> Sql<Option<u32>> {
        self.generations.clear();
        self.session.first(sql!("sale/advance"), params![sale.as_str()], |row| row.get(0))
    }

    fn generation(&mut self, sale: i64) -> Sql<u32> {
        if let Some(generation) = self.generations.get(&sale) {
            return Ok(*generation);
        }
        let generation = self.session.first(sql!("sale/generation"), params![sale], |row| row.get(0))?;
        let generation = generation.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        self.generations.insert(sale, generation);
        Ok(generation)
    }

    fn stock(&self, sale: i64, sku: &Sku, total: u32, per_buyer: u32) -> Sql<i64> {
        let params = params![sale, sku.as_str(), total, per_buyer];
        self.session
            .first(sql!("sku/stock"), params, |row| row.get(0))?
            .ok_or(rusqlite::Error::QueryReturnedNoRows)
    }

    /// Writes a batch. Stock changes go first, so that an order for a new unit does not depend on its place in the
    /// batch.
    pub(super) fn entries(&mut self, entries: &[LedgerEntry]) -> Sql<Vec<Written>> {
        let mut written = vec![Written::Refused(Refusal::UnknownSale); entries.len()];
        let is_stock = |entry: &LedgerEntry| matches!(entry, LedgerEntry::Stock { .. });
        for stock_turn in [true, false] {
            for (entry, answer) in entries.iter().zip(&mut written) {
                if is_stock(entry) == stock_turn {
                    *answer = self.entry(entry)?;
                    self.tally.entries += 1;
                    self.tally.refused += u64::from(matches!(answer, Written::Refused(_)));
                }
            }
        }
        Ok(written)
    }

    fn entry(&mut self, entry: &LedgerEntry) -> Sql<Written> {
        let name = entry.sale();
        let Some(sale) = self.sale(name)? else { return Ok(Written::Refused(Refusal::UnknownSale)) };
        match entry {
            LedgerEntry::Reservation { generation, seq, id, buyer, units, intent, .. } => {
                let (generation, seq, id, intent) = (*generation, *seq, *id, *intent);
                self.reservation(name, &Order { sale, generation, seq, id, buyer, units, intent })
            }
            LedgerEntry::Stock { sku, total, withdrawn, per_buyer, .. } => {
                let sku = self.stock(sale, sku, *total, *per_buyer)?;
                self.withdraw(sku, withdrawn)
            }
        }
    }

    /// Withdraws units that no order owns and that were not withdrawn before.
    fn withdraw(&mut self, sku: i64, ranges: &[UnitRange]) -> Sql<Written> {
        let mut owned = Vec::new();
        for range in ranges {
            let mut taken = Vec::new();
            let params = params![sku, range.first(), range.last()];
            self.session.each(sql!("sku/taken_within"), params, |row| {
                taken.push(read_range(row)?);
                if row.get(2)? {
                    owned.push(row.get(0)?);
                }
                Ok(true)
            })?;
            for free in range.without(taken) {
                self.session.run(sql!("sku/withdraw"), params![sku, free.first(), free.last()])?;
            }
        }
        Ok(Written::Stocked { owned })
    }

    fn reservation(&mut self, sale: &SaleId, order: &Order<'_>) -> Sql<Written> {
        let late = order.generation < self.generation(order.sale)?;
        match self.find(order)? {
            Some((.., OrderIntent::Hold)) if late && order.intent != OrderIntent::Hold => {
                return Ok(Written::Refused(Refusal::OldGeneration));
            }
            Some((id, buyer, state)) => return self.stands(order, id, &buyer, state),
            None if late => return Ok(Written::Refused(Refusal::OldGeneration)),
            None => {}
        }
        if order.intent.is_live() && !self.skus_are_known(sale, order)? {
            return Ok(Written::Refused(Refusal::NotForSale));
        }
        // One savepoint per order: a violation rolls back only that order, and the others need not be repeated.
        self.session.run("SAVEPOINT entry", [])?;
        let mut result = self.insert(sale, order, false);
        if matches!(&result, Err(fault) if violation(fault) == Some(Violation::Is(Refusal::UnitTaken))) {
            self.session.run("ROLLBACK TO entry", [])?;
            result = self.insert(sale, order, true);
        }
        let written = match result {
            Ok(written) => written,
            Err(fault) => {
                let Some(violation) = violation(&fault) else { return Err(fault) };
                self.session.run("ROLLBACK TO entry", [])?;
                Written::Refused(self.refuse(order, violation)?)
            }
        };
        self.session.run("RELEASE entry", [])?;
        self.tally.orders += u64::from(!matches!(written, Written::Refused(_)));
        Ok(written)
    }

    fn skus_are_known(&mut self, sale: &SaleId, order: &Order<'_>) -> Sql<bool> {
        for (name, _) in order.units {
            if self.sku(sale, order.sale, name)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn find(&self, order: &Order<'_>) -> Sql<Option<(i64, String, OrderIntent)>> {
        self.session.first(sql!("order/find"), params![order.sale, order.id.to_bytes()], |row| {
            Ok((row.get(0)?, row.get(1)?, state_from(2, row.get_ref(2)?.as_str()?)?))
        })
    }

    /// Changes the state of a recorded order if possible, and returns the order's outcome.
    fn stands(&mut self, order: &Order<'_>, id: i64, buyer: &str, mut state: OrderIntent) -> Sql<Written> {
        if buyer != order.buyer.as_str() {
            return Ok(Written::Refused(Refusal::OtherBuyer));
        }
        if state == OrderIntent::Hold && order.intent != OrderIntent::Hold {
            state = order.intent;
            self.session.run(sql!("order/move"), params![id, state.word(), self.now_us])?;
        }
        if !state.is_live() {
            // Units were released, possibly above the start of a search.
            self.search_from.clear();
            return Ok(Written::Recorded(state));
        }
        let mut units = Vec::with_capacity(order.units.len());
        self.session.each(sql!("order/units"), params![id], |row| {
            units.push((name(Sku::as_stored, 0, row.get_ref(0)?.as_str()?)?, row.get(1)?));
            Ok(true)
        })?;
        Ok(recorded(order, state, units))
    }

    fn insert(&mut self, sale: &SaleId, order: &Order<'_>, reassign: bool) -> Sql<Written> {
        self.session.run(
            sql!("order/insert"),
            params![
                order.sale,
                order.id.to_bytes(),
                order.buyer.as_str(),
                order.generation,
                order.seq as i64,
                order.intent.word(),
                self.now_us
            ],
        )?;
        let id = self.session.last_id();
        let live = order.intent.is_live();
        let mut units = Vec::with_capacity(order.units.len());
        let mut slots = Slots::default();
        for (name, unit) in order.units {
            // Only an ended order can have an unknown SKU here. It owns nothing, and its unit rows would be of no
            // use.
            let Some(sku) = self.sku(sale, order.sale, name)? else { continue };
            let mut place = Place { order: id, sku, slot: None, unit: *unit };
            if live {
                place.slot = Some(slots.next(self, order.buyer, sku)?);
            }
            let result = self.insert_unit(order, &place);
            match result {
                Err(fault) if reassign && violation(&fault) == Some(Violation::Is(Refusal::UnitTaken)) => {
                    place.unit = self.free_unit(sku.id)?.ok_or(fault)?;
                    self.insert_unit(order, &place)?;
                }
                result => result?,
            }
            units.push((name.clone(), place.unit));
        }
        Ok(if live { recorded(order, order.intent, units) } else { Written::Recorded(order.intent) })
    }

    fn insert_unit(&self, order: &Order<'_>, place: &Place) -> Sql<()> {
        let live = place.slot.is_some();
        let buyer = order.buyer.as_str();
        let CachedSku { id: sku, per_buyer } = place.sku;
        let params = params![place.order, order.sale, buyer, sku, place.unit, place.slot, per_buyer, live];
        self.session.run(sql!("order/insert_unit"), params).map(drop)
    }

    /// The highest free unit, if any. The store reserves the lowest units first, so the highest one is the least
    /// likely to be reserved for another buyer already.
    fn free_unit(&mut self, sku: i64) -> Sql<Option<UnitNumber>> {
        let from = match self.search_from.get(&sku) {
            Some(from) => *from,
            None => self.session.first(sql!("sku/total"), params![sku], |row| row.get(0))?.unwrap_or(0),
        };
        let mut free = from;
        self.session.each(sql!("sku/taken_down_from"), params![sku, from], |row| {
            let taken = read_range(row)?;
            let reached = taken.last() == free;
            if reached {
                free = taken.first() - 1;
            }
            Ok(reached)
        })?;
        self.search_from.insert(sku, free);
        Ok((free > 0).then_some(free))
    }

    /// Translates a violation, and records it if a later delivery could otherwise get another answer.
    fn refuse(&self, order: &Order<'_>, violation: Violation) -> Sql<Refusal> {
        let Violation::Is(refusal) = violation else { return self.why_refused(order) };
        if let Some(why) = kept_word(refusal) {
            let params = params![order.sale, order.id.to_bytes(), order.generation, why, self.now_us];
            self.session.run(sql!("order/refuse"), params)?;
        }
        Ok(refusal)
    }

    fn why_refused(&self, order: &Order<'_>) -> Sql<Refusal> {
        let params = params![order.sale, order.id.to_bytes(), order.generation];
        let why = self.session.first(sql!("order/why_refused"), params, |row| row.get::<_, String>(0))?;
        let why = why.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        kept_refusal(&why).map_err(|why| undecodable(0, why))
    }

    fn sale(&mut self, name: &SaleId) -> Sql<Option<i64>> {
        if let Some(sale) = self.known.sales.get(name) {
            return Ok(Some(sale.id));
        }
        let id = self.session.first(sql!("sale/find"), params![name.as_str()], |row| row.get(0))?;
        if let Some(id) = id {
            if self.known.sales.len() >= IdCache::SALES_MAX {
                self.known.forget();
            }
            self.known.sales.insert(name.clone(), CachedSale { id, skus: HashMap::new() });
        }
        Ok(id)
    }

    fn sku(&mut self, sale: &SaleId, sale_id: i64, name: &Sku) -> Sql<Option<CachedSku>> {
        if let Some(sku) = self.known.sales.get(sale).and_then(|sale| sale.skus.get(name)) {
            return Ok(Some(*sku));
        }
        let read = |row: &rusqlite::Row<'_>| Ok(CachedSku { id: row.get(0)?, per_buyer: row.get(1)? });
        let found = self.session.first(sql!("sku/find"), params![sale_id, name.as_str()], read)?;
        if let (Some(sku), Some(sale)) = (found, self.known.sales.get_mut(sale)) {
            sale.skus.insert(name.clone(), sku);
        }
        Ok(found)
    }
}

/// The row of a unit. Only a live unit has a slot.
struct Place {
    order: i64,
    sku: CachedSku,
    slot: Option<u32>,
    unit: UnitNumber,
}

/// The buyer's free slots for an SKU, lowest first. They may exceed the limit; the schema then rejects them.
#[derive(Default)]
struct Slots {
    sku: Option<i64>,
    filled: Vec<u32>,
    next: u32,
}

impl Slots {
    fn next(&mut self, recorder: &Recorder<'_>, buyer: &BuyerId, sku: CachedSku) -> Sql<u32> {
        if self.sku != Some(sku.id) {
            *self = Self { sku: Some(sku.id), filled: Vec::new(), next: 1 };
            // A limit of one leaves no choice.
            if sku.per_buyer > 1 {
                recorder.session.each(sql!("order/slots"), params![sku.id, buyer.as_str()], |row| {
                    self.filled.push(row.get(0)?);
                    Ok(true)
                })?;
            }
        }
        while self.filled.binary_search(&self.next).is_ok() {
            self.next += 1;
        }
        self.next += 1;
        Ok(self.next - 1)
    }
}

fn recorded(order: &Order<'_>, state: OrderIntent, units: Vec<(Sku, UnitNumber)>) -> Written {
    words::recorded(order.units, state, units)
}

pub(super) fn state_from(column: usize, text: &str) -> Sql<OrderIntent> {
    words::state_from(text).map_err(|why| undecodable(column, why))
}

/// Reads a range from the first two columns.
pub(super) fn read_range(row: &rusqlite::Row<'_>) -> Sql<UnitRange> {
    UnitRange::try_from([row.get(0)?, row.get(1)?]).map_err(|error| undecodable(0, error))
}

/// Parses a stored name.
pub(super) fn name<'r, T>(
    read: impl Fn(&'r str) -> Result<T, Error>,
    column: usize,
    text: &'r str,
) -> Sql<T> {
    read(text).map_err(|error| undecodable(column, error))
}

pub(super) fn undecodable(
    column: usize,
    why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into())
}
