//! Helpers shared by both ledgers.

use std::collections::HashMap;
use std::iter::Peekable;
use std::time::{SystemTime, UNIX_EPOCH};

use rushgate_core::{
    Answer, Error, LedgerOrder, OrderIntent, Result, SaleId, SaleSecret, SaleSpec, Sku, UnitNumber,
};

use crate::{Refusal, Written};

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

/// The constraint that a statement violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// The order is refused for this reason.
    Is(Refusal),
    /// The order was refused before, and its recorded refusal is the answer.
    RefusedBefore,
}

impl Violation {
    /// The violation with this name in the schema.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(Self::Is(match name {
            "unit_taken" => Refusal::UnitTaken,
            "limit_reached" | "slot_taken" => Refusal::LimitReached,
            "sequence_reused" => Refusal::SequenceReused,
            "not_for_sale" => Refusal::NotForSale,
            "withdrawn" => Refusal::Withdrawn,
            "old_generation" => Refusal::OldGeneration,
            "refused" => return Some(Self::RefusedBefore),
            _ => return None,
        }))
    }
}

/// The word that records a refusal, if a later delivery could otherwise get another answer.
pub(crate) fn kept_word(refusal: Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::UnitTaken => Some("unit_taken"),
        Refusal::LimitReached => Some("limit_reached"),
        _ => None,
    }
}

/// The inverse of [`kept_word`].
pub(crate) fn kept_refusal(word: &str) -> Result<Refusal, String> {
    let kept = [Refusal::UnitTaken, Refusal::LimitReached].into_iter();
    let mut kept = kept.filter(|refusal| kept_word(*refusal) == Some(word));
    kept.next().ok_or_else(|| format!("a refusal for the reason {word:?}"))
}

pub(crate) fn state_from(text: &str) -> Result<OrderIntent, String> {
    let state = OrderIntent::ALL.into_iter().find(|state| state.word() == text);
    state.ok_or_else(|| format!("an order in the state {text:?}"))
}

pub(crate) fn unknown(sale: &SaleId) -> Error {
    Error::not_found(format_args!("the sale `{sale}` in the ledger"))
}

pub(crate) fn closed() -> Error {
    Error::unavailable("the ledger is closed").hint("reconnect")
}

pub(crate) fn refuse<T: Send + 'static>(error: Error) -> Answer<'static, T> {
    Box::pin(async move { Err(error) })
}

/// The machine's clock. It is recorded for information only; no decision depends on it.
pub(crate) fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}
