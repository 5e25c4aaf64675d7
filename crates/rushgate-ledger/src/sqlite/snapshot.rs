//! Reads: snapshots of a sale, and health checks.

use std::collections::HashMap;

use rushgate_core::{
    BuyerId, LedgerOrder, LedgerRefusal, LedgerSku, LedgerSnapshot, ReservationId, Result, SaleId, Sku,
};
use rusqlite::params;

use super::fault;
use super::record::{name, read_range, state_from, undecodable};
use super::session::{Session, sql};
use crate::words::{UnitOfOrder, kept_refusal, specification, take_units, unknown};
use crate::{KnownSale, Refusal};

/// Reads a snapshot of a sale.
pub(super) fn snapshot(session: Session<'_>, sale: &SaleId) -> Result<LedgerSnapshot> {
    let read = || {
        session.run("BEGIN DEFERRED", []).map_err(fault::error)?;
        let known = find_sale(session, sale)?;
        let snapshot = read_snapshot(session, sale).map_err(fault::error)?;
        session.run("COMMIT", []).map_err(fault::error)?;
        Ok(known.zip(snapshot))
    };
    let read = read().inspect_err(|_| session.roll_back())?;
    let (known, snapshot) = read.ok_or_else(|| unknown(sale))?;
    Ok(LedgerSnapshot { generation: known.generation, spec: known.spec, ..snapshot })
}

pub(super) fn find_sale(session: Session<'_>, sale: &SaleId) -> Result<Option<KnownSale>> {
    let read = |row: &rusqlite::Row<'_>| {
        let seq: Option<i64> = row.get(1)?;
        Ok((row.get(0)?, seq.unwrap_or(0).cast_unsigned(), row.get(2)?, row.get(3)?))
    };
    let found = session.first(sql!("sale/known"), params![sale.as_str()], read).map_err(fault::error)?;
    let known = |(generation, latest_seq, spec, secret)| {
        let spec = specification(sale, spec, secret)?;
        Ok(KnownSale { generation, latest_seq, spec })
    };
    found.map(known).transpose()
}

/// Reads the database's header, so it detects a lost or damaged file.
pub(super) fn ping(session: Session<'_>) -> Result<()> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM sale LIMIT 1)";
    session.first(sql, [], |_| Ok(())).map(drop).map_err(fault::error)
}

fn read_snapshot(session: Session<'_>, sale: &SaleId) -> rusqlite::Result<Option<LedgerSnapshot>> {
    let Some(sale) = session.first(sql!("sale/find"), params![sale.as_str()], |row| row.get::<_, i64>(0))?
    else {
        return Ok(None);
    };
    let (ids, skus) = read_skus(session, sale)?;
    let names: HashMap<i64, Sku> = ids.into_iter().zip(skus.iter().map(|sku| sku.sku.clone())).collect();
    let mut snapshot =
        LedgerSnapshot { skus, refusals: read_refusals(session, sale)?, ..LedgerSnapshot::default() };
    read_orders(session, sale, &names, &mut snapshot)?;
    Ok(Some(snapshot))
}

fn read_skus(session: Session<'_>, sale: i64) -> rusqlite::Result<(Vec<i64>, Vec<LedgerSku>)> {
    let (mut ids, mut skus) = (Vec::new(), Vec::new());
    session.each(sql!("snapshot/skus"), params![sale], |row| {
        ids.push(row.get(0)?);
        let sku = name(Sku::as_stored, 1, row.get_ref(1)?.as_str()?)?;
        skus.push(LedgerSku { sku, total: row.get(2)?, withdrawn: Vec::new(), per_buyer: row.get(3)? });
        Ok(true)
    })?;
    for (id, sku) in ids.iter().zip(&mut skus) {
        session.each(sql!("snapshot/withdrawn"), params![id], |row| {
            sku.withdrawn.push(read_range(row)?);
            Ok(true)
        })?;
    }
    Ok((ids, skus))
}

fn read_orders(
    session: Session<'_>,
    sale: i64,
    names: &HashMap<i64, Sku>,
    snapshot: &mut LedgerSnapshot,
) -> rusqlite::Result<()> {
    let mut units = read_units(session, sale, names)?.into_iter().peekable();
    session.each(sql!("snapshot/orders"), params![sale], |row| {
        let number: i64 = row.get(0)?;
        let mut order = LedgerOrder {
            id: ReservationId::from_bytes(row.get(1)?),
            buyer: name(BuyerId::as_stored, 2, row.get_ref(2)?.as_str()?)?,
            state: state_from(3, row.get_ref(3)?.as_str()?)?,
            generation: row.get(4)?,
            seq: row.get::<_, i64>(5)? as u64,
            units: Vec::new(),
            returned: Vec::new(),
        };
        take_units(&mut order, number, &mut units, &mut snapshot.contradictions);
        snapshot.orders.push(order);
        Ok(true)
    })
}

fn read_units(
    session: Session<'_>,
    sale: i64,
    names: &HashMap<i64, Sku>,
) -> rusqlite::Result<Vec<UnitOfOrder>> {
    let mut units = Vec::new();
    session.each(sql!("snapshot/units"), params![sale], |row| {
        let sku = names.get(&row.get(1)?).cloned();
        let (order, unit, live, otherwise) = (row.get(0)?, row.get(2)?, row.get(3)?, row.get(4)?);
        units.push(UnitOfOrder { order, sku, unit, live, otherwise });
        Ok(true)
    })?;
    Ok(units)
}

fn read_refusals(session: Session<'_>, sale: i64) -> rusqlite::Result<Vec<LedgerRefusal>> {
    let mut refusals = Vec::new();
    session.each(sql!("snapshot/refusals"), params![sale], |row| {
        let kept = kept_refusal(row.get_ref(2)?.as_str()?).map_err(|why| undecodable(2, why))?;
        let id = ReservationId::from_bytes(row.get(0)?);
        let (generation, units_taken) = (row.get(1)?, kept == Refusal::UnitTaken);
        refusals.push(LedgerRefusal { id, generation, units_taken });
        Ok(true)
    })?;
    Ok(refusals)
}
