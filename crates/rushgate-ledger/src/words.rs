//! Helpers shared by both ledgers.

use std::collections::HashMap;
use std::iter::Peekable;
use std::time::{SystemTime, UNIX_EPOCH};

use rushgate_core::{Error, LedgerOrder, OrderIntent, Result, SaleId, SaleSecret, SaleSpec, Sku, UnitNumber};

use crate::Written;

/// The answer for a live order, depending on whether it owns the requested units.
pub(crate) fn recorded(
    asked: &[(Sku, UnitNumber)],
    state: OrderIntent,
    mut units: Vec<(Sku, UnitNumber)>,
) -> Written {
    if units == asked || sorted(&units) == sorted(asked) {
        return Written::Recorded(state);
    }
    let mut line = HashMap::new();
    for (at, (sku, _)) in asked.iter().enumerate() {
        line.entry(sku).or_insert(at);
    }
    units.sort_by_key(|(sku, unit)| (line.get(sku), *unit));
    Written::Reassigned { state, units }
}

/// Parses a sale's specification from its two columns.
pub(crate) fn specification(
    sale: &SaleId,
    spec: Option<String>,
    secret: Option<Vec<u8>>,
) -> Result<Option<SaleSpec>> {
    let Some(spec) = spec else { return Ok(None) };
    let secret = secret.and_then(|secret| secret.try_into().ok()).map(SaleSecret::from_bytes);
    let secret = secret
        .ok_or_else(|| Error::corrupt(format_args!("the ledger has no secret for the sale `{sale}`")))?;
    SaleSpec::from_public_json(sale, spec.as_bytes(), secret).map(Some)
}

fn sorted(units: &[(Sku, UnitNumber)]) -> Vec<&(Sku, UnitNumber)> {
    let mut units: Vec<_> = units.iter().collect();
    units.sort_unstable();
    units
}

/// A unit of an order, from its row.
pub(crate) struct UnitOfOrder {
    pub(crate) order: i64,
    pub(crate) sku: Option<Sku>,
    pub(crate) unit: UnitNumber,
    pub(crate) live: bool,
    /// The column that contradicts the order.
    pub(crate) otherwise: Option<String>,
}

/// Moves an order's units to the order. Both are sorted by order ID.
pub(crate) fn take_units(
    order: &mut LedgerOrder,
    number: i64,
    units: &mut Peekable<impl Iterator<Item = UnitOfOrder>>,
    contradictions: &mut Vec<String>,
) {
    while let Some(row) = units.next_if(|row| row.order == number) {
        if let Some(otherwise) = row.otherwise {
            let (unit, id) = (row.unit, order.id);
            contradictions.push(format!(
                "unit no. {unit} of the order of {id} differs from the order in its {otherwise}"
            ));
        }
        let place = if row.live { &mut order.units } else { &mut order.returned };
        place.extend(row.sku.map(|sku| (sku, row.unit)));
    }
}

/// Whether an order was refused because other orders own its units.
pub(crate) fn units_taken(why: &str) -> Result<bool, String> {
    match why {
        "unit_taken" => Ok(true),
        "limit_reached" => Ok(false),
        other => Err(format!("a refusal for the reason `{other}`")),
    }
}

pub(crate) fn is_live(state: OrderIntent) -> bool {
    matches!(state, OrderIntent::Hold | OrderIntent::Confirm)
}

pub(crate) fn state_text(state: OrderIntent) -> &'static str {
    match state {
        OrderIntent::Hold => "held",
        OrderIntent::Confirm => "confirmed",
        OrderIntent::Cancel => "cancelled",
        OrderIntent::Expire => "expired",
    }
}

pub(crate) fn state_from(text: &str) -> Result<OrderIntent, String> {
    let states = [OrderIntent::Hold, OrderIntent::Confirm, OrderIntent::Cancel, OrderIntent::Expire];
    let state = states.into_iter().find(|state| state_text(*state) == text);
    state.ok_or_else(|| format!("an order in the state {text:?}"))
}

/// The machine's clock. It is recorded for information only; no decision depends on it.
pub(crate) fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}
