//! The rows of a sale and its stock, and how their columns are read.

use std::collections::HashMap;

use rushgate_core::{
    Error, Halt, HoldTime, Op, OrdersState, SaleId, SaleSecret, SaleSpec, SaleState, SaleStatus, Sku,
    SkuSpec, SkuState, Timestamp, Token, UnitRange,
};
use rusqlite::Row;

use crate::stored::{coded, optional_time, parsed, time, unreadable};

/// A sale and its stock, cached for a group of calls.
pub(crate) struct SaleRow {
    pub(crate) no: i64,
    pub(crate) spec: SaleSpec,
    pub(crate) status: SaleStatus,
    pub(crate) generation: u32,
    pub(crate) seq: u64,
    pub(crate) halted: Option<Halt>,
    /// Token of the latest rebuild.
    pub(crate) rebuilt_by: Option<Op>,
    /// When the previous generation was halted, and when this one replaced it.
    pub(crate) since: Option<(Timestamp, Timestamp)>,
    pub(crate) receipts_until: Option<Timestamp>,
    /// Number of the latest event that was delivered to the ledger.
    pub(crate) through: u64,
    /// The order worker that follows the sale, and the end of its lease.
    pub(crate) worker: Option<(Token, Timestamp)>,
    pub(crate) skus: Vec<SkuRow>,
    pub(crate) index: HashMap<Sku, usize>,
    pub(crate) changed: bool,
    /// Whether it has new events.
    pub(crate) has_events: bool,
}

pub(crate) struct SkuRow {
    pub(crate) sku: Sku,
    pub(crate) per_buyer: u32,
    pub(crate) total: u32,
    pub(crate) next: u32,
    pub(crate) ahead: u32,
    pub(crate) returned: u32,
    pub(crate) held: u32,
    pub(crate) confirmed: u32,
    pub(crate) withdrawn: u32,
    pub(crate) changed: bool,
}

impl SkuRow {
    /// Number of free units that were never reserved.
    pub(crate) fn fresh(&self) -> u32 {
        self.total - self.next - self.ahead
    }

    pub(crate) fn free(&self) -> u32 {
        self.fresh() + self.returned
    }

    /// Reserves or skips fresh units. All units below the range that are not yet passed are withdrawn ones.
    pub(crate) fn pass(&mut self, range: UnitRange) {
        self.ahead -= range.first() - self.next - 1;
        self.next = range.last();
        self.changed = true;
    }

    pub(crate) fn state(&self) -> SkuState {
        SkuState {
            sku: self.sku.clone(),
            total: self.total,
            free: self.free(),
            held: self.held,
            confirmed: self.confirmed,
            withdrawn: self.withdrawn,
            per_buyer: self.per_buyer,
        }
    }
}

impl SaleRow {
    pub(crate) fn state(
        &self,
        next_expiry: Option<Timestamp>,
        orders: Option<OrdersState>,
        now: Timestamp,
    ) -> SaleState {
        SaleState {
            spec: self.spec.clone(),
            status: self.status,
            generation: self.generation,
            seq: self.seq,
            skus: self.skus.iter().map(SkuRow::state).collect(),
            next_expiry,
            halted: self.halted,
            receipts_until: self.receipts_until.filter(|until| now < *until),
            orders,
            now,
        }
    }
}

/// Reads `sale` of `sql/sale/row.sql`. A second statement reads the SKUs.
pub(crate) fn read_sale(row: &Row<'_>, id: &SaleId) -> rusqlite::Result<SaleRow> {
    let hold = std::time::Duration::from_micros(row.get::<_, i64>(4)?.cast_unsigned());
    Ok(SaleRow {
        no: row.get(0)?,
        spec: SaleSpec {
            id: id.clone(),
            skus: Vec::new(),
            hold: HoldTime::new(hold).map_err(|error| unreadable(4, error))?,
            opens_at: optional_time(row, 5)?,
            closes_at: optional_time(row, 6)?,
            ledger: row.get(7)?,
            metadata: row.get(18)?,
            secret: SaleSecret::from_bytes(row.get(8)?),
        },
        status: coded(row, 1)?,
        generation: row.get(2)?,
        seq: row.get::<_, i64>(3)?.cast_unsigned(),
        halted: match optional_time(row, 9)? {
            Some(since) => Some(Halt { reason: coded(row, 10)?, since }),
            None => None,
        },
        rebuilt_by: row.get::<_, Option<[u8; 16]>>(11)?.map(Op::from_bytes),
        since: match (optional_time(row, 12)?, optional_time(row, 13)?) {
            (Some(stopped), Some(switched)) => Some((stopped, switched)),
            (None, None) => None,
            _ => return Err(unreadable(12, Error::corrupt("an incomplete rebuild time of a sale"))),
        },
        receipts_until: optional_time(row, 14)?,
        through: row.get::<_, i64>(15)?.cast_unsigned(),
        worker: match row.get::<_, Option<[u8; 16]>>(16)? {
            Some(worker) => Some((Token::from_bytes(worker), time(row, 17)?)),
            None => None,
        },
        skus: Vec::new(),
        index: HashMap::new(),
        changed: false,
        has_events: false,
    })
}

fn read_sku(row: &Row<'_>) -> rusqlite::Result<(SkuSpec, SkuRow)> {
    let sku: Sku = parsed(row, 1)?;
    let spec = SkuSpec { sku: sku.clone(), units: row.get(2)?, per_buyer: row.get(3)? };
    let stock = SkuRow {
        sku,
        per_buyer: spec.per_buyer,
        total: row.get(4)?,
        next: row.get(5)?,
        ahead: row.get(6)?,
        returned: row.get(7)?,
        held: row.get(8)?,
        confirmed: row.get(9)?,
        withdrawn: row.get(10)?,
        changed: false,
    };
    let has_places = stock.next.checked_add(stock.ahead).is_some_and(|placed| placed <= stock.total);
    if !has_places {
        return Err(unreadable(5, Error::corrupt("a SKU with more units handed out than offered")));
    }
    Ok((spec, stock))
}

/// Reads `skus` of `sql/sale/row.sql`, which are numbered without gaps.
pub(crate) fn read_skus() -> impl FnMut(&Row<'_>) -> rusqlite::Result<(SkuSpec, SkuRow)> {
    let mut numbers = 0_usize..;
    move |row| match numbers.next() == Some(row.get(0)?) {
        true => read_sku(row),
        false => Err(unreadable(0, Error::corrupt("a SKU in the wrong place"))),
    }
}

pub(crate) fn with_skus(mut sale: SaleRow, skus: Vec<(SkuSpec, SkuRow)>) -> SaleRow {
    for (at, (spec, row)) in skus.into_iter().enumerate() {
        sale.index.insert(spec.sku.clone(), at);
        sale.spec.skus.push(spec);
        sale.skus.push(row);
    }
    sale
}
