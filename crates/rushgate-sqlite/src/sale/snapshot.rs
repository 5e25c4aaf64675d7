//! Snapshot of a sale for the audit: each table as it is, and each index in its own order.

use rushgate_core::{
    BuyerCount, Deadline, Error, ReservationId, ReservationRow, SaleId, Sku, SkuCounters, Snapshot,
    UnitNumber, UnitRange, UnitRow,
};
use rusqlite::Row;

use super::orders::read_failed;
use super::{HoldRow, read_event, read_lines, read_whole};
use crate::fault::Result;
use crate::read::Reader;
use crate::rows::sale::SaleRow;
use crate::sql::sql;
use crate::stored::{parsed, time, unreadable};

/// Reads a snapshot of a sale.
pub(crate) fn snapshot(reader: &Reader<'_>, id: &SaleId) -> Result<Snapshot> {
    let sale = read_whole(reader, id)?;
    let no = sale.no;
    let units = reader.rows(sql!("sale/snapshot", "owned"), [no], |row| {
        let reservation = ReservationId::from_bytes(row.get(2)?);
        Ok(UnitRow { sku: sku_of(row, &sale)?, unit: row.get(1)?, reservation })
    })?;
    let buyers = reader.rows(sql!("sale/snapshot", "buyers"), [no], |row| {
        Ok(BuyerCount { sku: sku_of(row, &sale)?, buyer: parsed(row, 1)?, units: row.get(2)? })
    })?;
    let deadlines = reader.rows(sql!("sale/snapshot", "deadlines"), [no], |row| {
        let (seq, id): (i64, _) = (row.get(1)?, row.get(2)?);
        Ok(Deadline {
            at: time(row, 0)?,
            seq: seq.cast_unsigned(),
            reservation: ReservationId::from_bytes(id),
        })
    })?;
    Ok(Snapshot {
        status: sale.status,
        generation: sale.generation,
        seq: sale.seq,
        halted: sale.halted,
        rebuilt_by: sale.rebuilt_by,
        since: sale.since,
        receipts_until: sale.receipts_until,
        skus: counters(reader, &sale)?,
        reservations: reader.rows(sql!("sale/snapshot", "holds"), [no], |row| reservation(row, &sale))?,
        units,
        buyers,
        deadlines,
        events: reader.rows(sql!("sale/event", "after"), (no, 0, -1), |row| read_event(row, &sale.skus))?,
        through: sale.through,
        failed: read_failed(reader, &sale, 0, -1)?,
        contradictions: Vec::new(),
        spec: sale.spec,
    })
}

/// The SKU whose index is in the first column.
fn sku_of(row: &Row<'_>, sale: &SaleRow) -> rusqlite::Result<Sku> {
    let sku = sale.skus.get(row.get::<_, usize>(0)?).map(|sku| sku.sku.clone());
    sku.ok_or_else(|| unreadable(0, Error::corrupt("a row of an unknown SKU")))
}

fn reservation(row: &Row<'_>, sale: &SaleRow) -> rusqlite::Result<ReservationRow> {
    let row = HoldRow::read(row)?;
    let all_known = row.units.0.iter().all(|(sku, _)| *sku < sale.skus.len());
    let asked = read_lines(&row.lines).filter(|_| all_known);
    let asked = asked.ok_or_else(|| unreadable(6, Error::corrupt("cannot read the row of a reservation")))?;
    Ok(ReservationRow { hold: row.hold(&sale.skus), asked })
}

fn counters(reader: &Reader<'_>, sale: &SaleRow) -> Result<Vec<SkuCounters>> {
    let known = |no: usize| {
        let known = no < sale.skus.len();
        known.then_some(no).ok_or_else(|| unreadable(0, Error::corrupt("a row of an unknown SKU")))
    };
    let mut returned: Vec<Vec<UnitNumber>> = vec![Vec::new(); sale.skus.len()];
    let mut withdrawn: Vec<Vec<UnitRange>> = vec![Vec::new(); sale.skus.len()];
    reader.rows(sql!("sale/snapshot", "free"), [sale.no], |row| {
        returned[known(row.get(0)?)?].push(row.get(1)?);
        Ok(())
    })?;
    reader.rows(sql!("sale/snapshot", "withdrawn"), [sale.no], |row| {
        let range = UnitRange::try_from([row.get(1)?, row.get(2)?]);
        withdrawn[known(row.get(0)?)?].push(range.map_err(|error| unreadable(1, error))?);
        Ok(())
    })?;
    let places = returned.into_iter().zip(withdrawn);
    Ok(sale
        .skus
        .iter()
        .zip(&sale.spec.skus)
        .zip(places)
        .map(|((row, spec), (returned, withdrawn))| {
            let above = UnitRange::new(row.next + 1, row.total);
            let fresh = above.map(|above| {
                above.without(withdrawn.iter().copied().filter(|range| range.last() > row.next))
            });
            let mut free = UnitRange::gather(returned);
            free.extend(fresh.into_iter().flatten());
            SkuCounters {
                sku: row.sku.clone(),
                initial: spec.units,
                total: row.total,
                free,
                withdrawn,
                fresh: row.fresh(),
                returned: row.returned,
                held: row.held,
                confirmed: row.confirmed,
                withdrawn_count: row.withdrawn,
                per_buyer: row.per_buyer,
            }
        })
        .collect())
}
