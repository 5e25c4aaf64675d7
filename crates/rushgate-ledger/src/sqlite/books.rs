//! Reading: the books of a sale, and a sign of life.

use std::collections::HashMap;

use rushgate_core::{
    Error, LedgerBooks, LedgerOrder, LedgerSku, ReservationId, Result, SaleId, SaleSpec, Sku, UnitNumber,
};
use rusqlite::params;

use super::fault;
use super::record::{name, read_range, state_from};
use super::session::Session;
use super::sql;
use crate::KnownSale;

/// Everything of one sale, in one snapshot.
pub(super) fn books(session: Session<'_>, sale: &SaleId) -> Result<LedgerBooks> {
    let read = || {
        session.run(sql::BEGIN_READ, [])?;
        let books = read_books(session, sale)?;
        session.run(sql::COMMIT, [])?;
        Ok(books)
    };
    let books = read().map_err(|fault| {
        session.roll_back();
        fault::error(fault)
    })?;
    books.ok_or_else(|| unknown(sale))
}

pub(super) fn unknown(sale: &SaleId) -> Error {
    Error::not_found(format_args!("the sale `{sale}` in the ledger"))
}

pub(super) fn find_sale(session: Session<'_>, sale: &SaleId) -> Result<Option<KnownSale>> {
    let read = |row: &rusqlite::Row<'_>| {
        let (seq, spec): (Option<i64>, Option<String>) = (row.get(1)?, row.get(2)?);
        Ok((row.get(0)?, seq.unwrap_or(0).cast_unsigned(), spec))
    };
    let found = session.first(sql::SALE_KNOWN, params![sale.as_str()], read).map_err(fault::error)?;
    let known = |(generation, latest_seq, spec): (u32, u64, Option<String>)| {
        let spec = spec.map(|spec| SaleSpec::from_json(sale, spec.as_bytes())).transpose()?;
        Ok(KnownSale { generation, latest_seq, spec })
    };
    found.map(known).transpose()
}

pub(super) fn ping(session: Session<'_>) -> Result<()> {
    session.first(sql::PING, [], |_| Ok(())).map(drop).map_err(fault::error)
}

fn read_books(session: Session<'_>, sale: &SaleId) -> rusqlite::Result<Option<LedgerBooks>> {
    let Some(sale) = session.first(sql::SALE_FIND, params![sale.as_str()], |row| row.get::<_, i64>(0))?
    else {
        return Ok(None);
    };
    let (ids, skus) = read_skus(session, sale)?;
    let names: HashMap<i64, Sku> = ids.into_iter().zip(skus.iter().map(|sku| sku.sku.clone())).collect();
    Ok(Some(LedgerBooks { orders: read_orders(session, sale, &names)?, skus }))
}

fn read_skus(session: Session<'_>, sale: i64) -> rusqlite::Result<(Vec<i64>, Vec<LedgerSku>)> {
    let (mut ids, mut skus) = (Vec::new(), Vec::new());
    session.each(sql::BOOKS_SKUS, params![sale], |row| {
        ids.push(row.get(0)?);
        let sku = name(1, row.get_ref(1)?.as_str()?)?;
        skus.push(LedgerSku { sku, total: row.get(2)?, withdrawn: Vec::new(), per_buyer: row.get(3)? });
        Ok(true)
    })?;
    for (id, sku) in ids.iter().zip(&mut skus) {
        session.each(sql::BOOKS_WITHDRAWN, params![id], |row| {
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
) -> rusqlite::Result<Vec<LedgerOrder>> {
    let units = read_units(session, sale, names)?;
    let mut units = units.into_iter().peekable();
    let mut orders = Vec::new();
    session.each(sql::BOOKS_ORDERS, params![sale], |row| {
        let id: i64 = row.get(0)?;
        let mut order = LedgerOrder {
            id: ReservationId::from_bytes(row.get(1)?),
            buyer: name(2, row.get_ref(2)?.as_str()?)?,
            state: state_from(3, row.get_ref(3)?.as_str()?)?,
            generation: row.get(4)?,
            seq: row.get::<_, i64>(5)? as u64,
            units: Vec::new(),
        };
        // Both lists are in the order of the ids.
        while let Some((_, sku, unit)) = units.next_if(|(owner, ..)| *owner == id) {
            order.units.push((sku, unit));
        }
        orders.push(order);
        Ok(true)
    })?;
    Ok(orders)
}

fn read_units(
    session: Session<'_>,
    sale: i64,
    names: &HashMap<i64, Sku>,
) -> rusqlite::Result<Vec<(i64, Sku, UnitNumber)>> {
    let mut units = Vec::new();
    session.each(sql::BOOKS_UNITS, params![sale], |row| {
        // The foreign key leads to an SKU of the same sale, so the name is there.
        if let Some(sku) = names.get(&row.get(1)?) {
            units.push((row.get(0)?, sku.clone(), row.get(2)?));
        }
        Ok(true)
    })?;
    Ok(units)
}
