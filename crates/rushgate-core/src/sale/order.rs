use std::fmt::{self, Write};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use siphasher::sip::SipHasher24;

use crate::{
    BuyerId, ContentType, Error, Payload, ReservationId, Result, SaleId, SaleSecret, Sku, UnitNumber,
    UnitRange, units,
};

/// An order task, as JSON in the order queue. The task of a reservation has the reservation's ID, so a later
/// decision replaces an earlier one that is still waiting. Each stock change has its own task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "order")]
pub enum OrderTask {
    /// Record the reservation and its decision.
    Reservation {
        /// ID of the sale.
        #[serde(deserialize_with = "SaleId::deserialize_as_stored")]
        sale: SaleId,
        /// Generation of the sale.
        generation: u32,
        /// Number of the event that created the reservation: unique in sale and generation.
        seq: u64,
        /// ID of the reservation.
        id: ReservationId,
        /// The buyer.
        #[serde(deserialize_with = "BuyerId::deserialize_as_stored")]
        buyer: BuyerId,
        /// Its units. In JSON, each SKU with its numbers as ranges: `["phone",[[1,3],[7,7]]]`.
        #[serde(with = "units::by_line")]
        units: Vec<(Sku, UnitNumber)>,
        /// The decision.
        intent: OrderIntent,
    },
    /// Record a stock change.
    ///
    /// It names only the units that it withdraws, so that it stays small. Stock only grows and withdrawn units
    /// stay withdrawn, so changes may be recorded in any order, and repeatedly.
    Stock {
        /// ID of the sale.
        #[serde(deserialize_with = "SaleId::deserialize_as_stored")]
        sale: SaleId,
        /// Name of the SKU.
        #[serde(deserialize_with = "Sku::deserialize_as_stored")]
        sku: Sku,
        /// Number of its event: unique in the sale.
        seq: u64,
        /// All units ever offered, including this change.
        total: u32,
        /// Units that it withdraws. Some may have been withdrawn before.
        withdrawn: Vec<UnitRange>,
        /// Purchase limit per buyer.
        per_buyer: u32,
    },
}

/// Marks the start of the authentication code.
const MAC: &str = ",\"mac\":\"";
const MAC_DIGITS: usize = 40;

fn mac(secret: SaleSecret, text: &[u8]) -> Hmac<Sha1> {
    let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(&secret.to_bytes()) else {
        unreachable!("HMAC takes keys of every length");
    };
    mac.update(ORDER_DOMAIN);
    mac.update(text);
    mac
}

/// Domain separation: the secret authenticates other messages too.
const ORDER_DOMAIN: &[u8] = b"rushgate order 1\0";

/// Why a payload in an order queue is not an order of the sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadOrder {
    /// It is not an order.
    Unreadable(String),
    /// The sale that it names did not create it.
    Forged,
}

impl fmt::Display for BadOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "the payload is not an order: {why}"),
            Self::Forged => f.write_str(
                "the order was not signed by the sale that it names, so it was not written to the ledger",
            ),
        }
    }
}

/// What an order asks the ledger to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderIntent {
    /// The units are on hold for the buyer.
    Hold,
    /// The buyer paid.
    Confirm,
    /// The buyer canceled.
    Cancel,
    /// The deadline passed.
    Expire,
}

impl OrderTask {
    /// Maximum attempts of an order's task. An accepted order must not be given up easily.
    pub const ATTEMPTS: u32 = 1_000;
    /// Latest due time of a pending order, from now: the longest delay after which an order worker retries. The audit
    /// reports an order that is due later.
    pub const DUE_WITHIN: Duration = Duration::from_secs(3_600);

    /// ID of its sale.
    pub fn sale(&self) -> &SaleId {
        match self {
            Self::Reservation { sale, .. } | Self::Stock { sale, .. } => sale,
        }
    }

    /// ID of its task in the order queue: the ID of the reservation, or `stock:SALE:SEQ`.
    pub fn task_id(&self) -> crate::TaskId {
        let id = match self {
            Self::Reservation { id, .. } => id.to_string(),
            Self::Stock { sale, seq, .. } => format!("{}{seq}", Self::stock_ids(sale)),
        };
        crate::TaskId::made_of(&id)
    }

    /// Encodes the order for the order queue: JSON whose last field authenticates everything before it.
    ///
    /// `mac` is HMAC-SHA-1 (RFC 2104) under the sale's secret, because a script on Redis can compute SHA-1. HMAC
    /// does not depend on collision resistance, which is what is broken in SHA-1 (RFC 6194).
    pub fn seal(&self, secret: SaleSecret) -> Result<Payload> {
        let mut text = serde_json::to_string(self)
            .map_err(|error| Error::bug("an order is not JSON").caused_by(error))?;
        text.truncate(text.len() - 1);
        let mac = mac(secret, text.as_bytes()).finalize().into_bytes();
        text.push_str(MAC);
        for byte in mac {
            let _ = write!(text, "{byte:02x}");
        }
        text.push_str("\"}");
        Payload::new(ContentType::json(), text.into_bytes())
    }

    /// Decodes what [`seal`](Self::seal) made, and verifies that the sale with this secret made it.
    ///
    /// # Errors
    /// The reason why the payload is not an order of the sale.
    pub fn unseal(payload: &Payload, secret: SaleSecret) -> Result<Self, BadOrder> {
        let order = Self::read(payload)?;
        Self::verify(payload, secret)?;
        Ok(order)
    }

    /// Verifies that the sale with this secret made the payload.
    ///
    /// # Errors
    /// [`BadOrder::Forged`] if it did not.
    pub fn verify(payload: &Payload, secret: SaleSecret) -> Result<(), BadOrder> {
        let sealed =
            payload.bytes().strip_suffix(b"\"}").and_then(|text| text.split_last_chunk::<MAC_DIGITS>());
        let (text, digits) = sealed.ok_or(BadOrder::Forged)?;
        let text = text.strip_suffix(MAC.as_bytes()).ok_or(BadOrder::Forged)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(BadOrder::Forged);
        }
        let mut given = [0; MAC_DIGITS / 2];
        for (byte, pair) in given.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| BadOrder::Forged)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| BadOrder::Forged)?;
        }
        // The comparison takes constant time.
        mac(secret, text).verify_slice(&given).map_err(|_| BadOrder::Forged)
    }

    /// Decodes an order without verifying its origin; see [`verify`](Self::verify).
    ///
    /// # Errors
    /// [`BadOrder::Unreadable`] if it is not an order.
    pub fn read(payload: &Payload) -> Result<Self, BadOrder> {
        serde_json::from_slice(payload.bytes()).map_err(|error| BadOrder::Unreadable(error.to_string()))
    }

    /// Prefix of the task IDs of a sale's stock changes; the event number follows. It names the sale because
    /// sales may share a queue, by a hash if the ID is too long.
    pub fn stock_ids(sale: &SaleId) -> String {
        const SEQ_DIGITS: usize = 20;
        if "stock::".len() + sale.as_str().len() + SEQ_DIGITS <= crate::MAX_NAME_BYTES {
            return format!("stock:{sale}:");
        }
        format!("stock:#{:016x}:", SipHasher24::new().hash(sale.as_str().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MAX_LINES, MAX_UNITS_PER_LINE, SaleSpec, StockChange, TaskId};

    fn named(text: &str) -> Sku {
        Sku::new(text).unwrap()
    }

    fn order(units: Vec<(Sku, UnitNumber)>) -> OrderTask {
        OrderTask::Reservation {
            sale: SaleId::new("s").unwrap(),
            generation: 1,
            seq: 7,
            id: ReservationId::from_bytes([1; 16]),
            buyer: BuyerId::new("ann").unwrap(),
            units,
            intent: OrderIntent::Hold,
        }
    }

    fn withdrawal(sale: &str, seq: u64, withdrawn: Vec<UnitRange>) -> OrderTask {
        let (sale, sku) = (SaleId::new(sale).unwrap(), named(&"x".repeat(crate::MAX_NAME_BYTES)));
        OrderTask::Stock { sale, sku, seq, total: SaleSpec::UNITS_MAX, withdrawn, per_buyer: 10_000 }
    }

    #[test]
    fn an_order_survives_json_and_neighbours_travel_as_ranges() {
        let units: Vec<_> = [("a", 1), ("a", 2), ("a", 3), ("b", 9), ("b", 7), ("a", 5)]
            .map(|(sku, unit)| (named(sku), unit))
            .into();
        let json = serde_json::to_string(&order(units.clone())).unwrap();
        assert!(json.contains(r#""units":[["a",[[1,3]]],["b",[[9,9],[7,7]]],["a",[[5,5]]]]"#), "{json}");
        assert_eq!(serde_json::from_str::<OrderTask>(&json).unwrap(), order(units));
        let json = json.replace("[1,3]", "[1,4000000000]");
        let error = serde_json::from_str::<OrderTask>(&json).unwrap_err().to_string();
        assert!(error.contains("at most 32000"), "{error}");
    }

    #[test]
    fn an_order_is_believed_only_as_the_sale_made_it() {
        let secret = SaleSecret::from_bytes([7; 16]);
        let order = order(vec![(named("a"), 1)]);
        let sealed = order.seal(secret).unwrap();
        assert_eq!(OrderTask::unseal(&sealed, secret), Ok(order.clone()));
        assert_eq!(OrderTask::unseal(&sealed, SaleSecret::from_bytes([8; 16])), Err(BadOrder::Forged));
        let text = String::from_utf8(sealed.bytes().to_vec()).unwrap();
        let plain = serde_json::to_string(&order).unwrap();
        for forged in [
            plain,
            text.replace("hold", "confirm"),
            text.replace("\"seq\":7", "\"seq\":8"),
            text.replace(",\"mac\"", ",\"other\":1,\"mac\""),
            text.replace("\"}", "0\"}"),
            text.replacen('}', " }", 1),
        ] {
            let payload = Payload::new(ContentType::json(), forged.clone().into_bytes()).unwrap();
            assert_eq!(OrderTask::unseal(&payload, secret), Err(BadOrder::Forged), "{forged}");
        }
        let signed = |text: &str| {
            let at = text.len() - "0f\"}".len();
            (&text[at..=at] == "0").then(|| format!("{}+{}", &text[..at], &text[at + 1..]))
        };
        let signed = (0..=u8::MAX).find_map(|key| {
            let secret = SaleSecret::from_bytes([key; 16]);
            let sealed = order.seal(secret).unwrap();
            signed(std::str::from_utf8(sealed.bytes()).unwrap()).map(|text| (secret, text))
        });
        let (secret, signed) = signed.unwrap();
        let payload = Payload::new(ContentType::json(), signed.into_bytes()).unwrap();
        assert_eq!(OrderTask::unseal(&payload, secret), Err(BadOrder::Forged), "`+f` is no byte");
        let garbage = OrderTask::unseal(&Payload::empty(), secret);
        assert!(matches!(garbage, Err(BadOrder::Unreadable(_))), "{garbage:?}");
    }

    #[test]
    fn the_largest_orders_fit_into_a_task() {
        let scattered = |n: u32| (0..n).map(|n| SaleSpec::UNITS_MAX - 2 * n);
        let skus = (0..MAX_LINES).map(|n| named(&format!("{n:0>200}")));
        let units = skus.flat_map(|sku| scattered(MAX_UNITS_PER_LINE).map(move |unit| (sku.clone(), unit)));
        let withdrawn = scattered(StockChange::GIVEN_BACK_MAX + 1).map(UnitRange::one).collect();
        for order in
            [order(units.collect()), withdrawal(&"s".repeat(crate::MAX_NAME_BYTES), u64::MAX, withdrawn)]
        {
            order.seal(SaleSecret::from_bytes([7; 16])).unwrap();
            TaskId::new(order.task_id().as_str()).unwrap();
        }
    }

    #[test]
    fn sales_that_share_a_queue_do_not_share_the_ids_of_their_stock() {
        let ids =
            [("a", 1), ("b", 1), ("a", 2)].map(|(sale, seq)| withdrawal(sale, seq, Vec::new()).task_id());
        assert_eq!(ids.each_ref().map(TaskId::as_str), ["stock:a:1", "stock:b:1", "stock:a:2"]);
    }
}
