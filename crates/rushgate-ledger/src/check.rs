//! The limits of what is written to a ledger.

use std::collections::BTreeSet;

use rushgate_core::{
    Error, LedgerEntry, MAX_UNITS, Result, SaleSpec, Sku, UnitNumber, UnitRange, check_batch, check_range,
    check_stock,
};

/// Checks the documented limits of a batch; fails with [`is_invalid`](Error::is_invalid).
pub(crate) fn check_entries(entries: &[LedgerEntry]) -> Result<()> {
    check_batch(entries.len())?;
    entries.iter().try_for_each(|entry| match entry {
        LedgerEntry::Reservation { seq, units, .. } => {
            check_range("the sequence number", *seq, 0, i64::MAX as u64)?;
            check_range("the number of units", units.len() as u64, 1, MAX_UNITS.into())?;
            check_units(units)
        }
        LedgerEntry::Stock { total, per_buyer, withdrawn, .. } => {
            check_stock(*total, *per_buyer)?;
            check_withdrawn(withdrawn, *total)
        }
    })
}

fn check_withdrawn(ranges: &[UnitRange], total: u32) -> Result<()> {
    for range in ranges {
        check_range("the unit number", range.first().into(), 1, total.into())?;
        check_range("the unit number", range.last().into(), 1, total.into())?;
    }
    match ranges.windows(2).find(|pair| pair[1].first() <= pair[0].last()) {
        Some(pair) => {
            let why = format_args!(
                "include {} and {}; ranges must be ascending and must not overlap",
                pair[0], pair[1]
            );
            Err(Error::invalid("the withdrawn units", why))
        }
        None => Ok(()),
    }
}

fn check_units(units: &[(Sku, UnitNumber)]) -> Result<()> {
    for (_, unit) in units {
        check_range("the unit number", (*unit).into(), 1, SaleSpec::UNITS_MAX.into())?;
    }
    if units.len() > 1 {
        let mut seen = BTreeSet::new();
        if let Some((sku, unit)) = units.iter().find(|unit| !seen.insert(*unit)) {
            return Err(Error::invalid(
                "the unit",
                format_args!("{sku} no. {unit} is listed twice in an order"),
            ));
        }
    }
    Ok(())
}
