use serde::{Deserialize, Serialize};

use crate::signed::Kind;
use crate::{
    BadReceipt, BuyerId, Hold, Line, ReservationId, SaleId, SaleSecret, Sku, Timestamp, UnitChoice,
    UnitNumber,
};

/// Receipt of a reservation: signed proof that restores the reservation if the store lost it.
///
/// Text form: `rg1.`, the content and a signature, both in base64url. The signature is HMAC-SHA-256 (RFC 2104, FIPS
/// 180-4) under the sale's secret. Reservation IDs use the shorter SipHash, but an ID only has to be hard to guess. A
/// receipt claims units of a stock, is kept for long and can be attacked offline, so it uses a function designed for
/// signatures. The ledger keeps the secret too, in a separate table, so receipts outlive the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The sale.
    #[serde(rename = "s", deserialize_with = "SaleId::deserialize_as_stored")]
    pub sale: SaleId,
    /// Generation in which the reservation was made.
    #[serde(rename = "g")]
    pub generation: u32,
    /// Sequence number of the event that made it.
    #[serde(rename = "q")]
    pub seq: u64,
    /// ID of the reservation.
    #[serde(rename = "i")]
    pub id: ReservationId,
    /// The buyer.
    #[serde(rename = "b", deserialize_with = "BuyerId::deserialize_as_stored")]
    pub buyer: BuyerId,
    /// Its units, in the order of the cart lines, and by number within a line.
    #[serde(rename = "u", deserialize_with = "crate::units::as_stored")]
    pub units: Vec<(Sku, UnitNumber)>,
    /// Deadline for its confirmation.
    #[serde(rename = "d")]
    pub deadline: Timestamp,
}

const KIND: Kind =
    Kind { prefix: Receipt::PREFIX, domain: Receipt::DOMAIN.as_bytes(), text_max: Receipt::TEXT_MAX };

impl Receipt {
    /// Prefix of the text.
    pub const PREFIX: &str = "rg1.";
    /// Domain separator, signed before the content.
    pub const DOMAIN: &str = "rushgate receipt 1\0";
    /// Maximum length, in bytes. The receipt of a cart with every line full is shorter.
    pub const TEXT_MAX: usize = 16 << 20;

    /// Creates the receipt of a reservation.
    pub fn of(sale: &SaleId, hold: &Hold) -> Self {
        Self {
            sale: sale.clone(),
            generation: hold.generation,
            seq: hold.seq,
            id: hold.id,
            buyer: hold.buyer.clone(),
            units: hold.units.clone(),
            deadline: hold.deadline,
        }
    }

    /// Serializes and signs the receipt.
    pub fn sign(&self, secret: SaleSecret) -> String {
        KIND.sign(secret, self)
    }

    /// Parses a receipt and checks that `sale` signed it.
    ///
    /// # Errors
    /// The reason why the receipt is not honored.
    pub fn read(text: &str, sale: &SaleId, secret: SaleSecret) -> Result<Self, BadReceipt> {
        let claimed = KIND.read::<Self>(text).ok_or(BadReceipt::Unreadable)?;
        if claimed.says.sale != *sale {
            return Err(BadReceipt::OtherSale);
        }
        KIND.believed(claimed, secret).ok_or(BadReceipt::Forged)
    }

    /// The reserved cart: its lines in order.
    pub fn lines(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for (sku, _) in &self.units {
            match lines.last_mut().filter(|line| line.sku == *sku) {
                Some(line) => line.quantity += 1,
                None => lines.push(Line { sku: sku.clone(), quantity: 1 }),
            }
        }
        lines
    }

    /// Which other unit numbers are equivalent: a cart that had one number for all of its lines gets one number
    /// again.
    pub fn choice(&self) -> UnitChoice {
        match self.units.split_first() {
            Some(((_, first), others))
                if !others.is_empty()
                    && others.iter().all(|(_, unit)| unit == first)
                    && self.lines().len() == self.units.len() =>
            {
                UnitChoice::SameNumber
            }
            _ => UnitChoice::Any,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: SaleSecret = SaleSecret::from_bytes([7; 16]);

    fn receipt(units: &[(&str, u32)]) -> Receipt {
        Receipt {
            sale: SaleId::new("phones").unwrap(),
            generation: 1,
            seq: 3,
            id: ReservationId::from_bytes([9; 16]),
            buyer: BuyerId::new("ann").unwrap(),
            units: units.iter().map(|(sku, unit)| (Sku::new(sku).unwrap(), *unit)).collect(),
            deadline: Timestamp::from_micros(5_000_000),
        }
    }

    #[test]
    fn a_receipt_is_read_by_the_sale_that_signed_it_and_by_no_other() {
        let (receipt, other) = (receipt(&[("phone", 4)]), SaleId::new("tickets").unwrap());
        let text = receipt.sign(SECRET);
        assert_eq!(Receipt::read(&text, &receipt.sale, SECRET), Ok(receipt.clone()));
        assert_eq!(Receipt::read(&text, &other, SECRET), Err(BadReceipt::OtherSale));
        let stranger = receipt.sign(SaleSecret::from_bytes([8; 16]));
        assert_eq!(Receipt::read(&stranger, &receipt.sale, SECRET), Err(BadReceipt::Forged));
    }

    #[test]
    fn the_receipt_of_the_documents_is_that_of_its_content() {
        let docs = include_str!("../../../docs/protocol/sales.md");
        let text = docs.lines().find(|line| line.starts_with("rg1.")).expect("there is one");
        let secret = SaleSecret::from_bytes(std::array::from_fn(|byte| byte as u8));
        let read = Receipt::read(text, &SaleId::new("phones").unwrap(), secret).unwrap();
        assert_eq!(read.sign(secret), text);
        assert_eq!((read.buyer.as_str(), read.deadline.as_micros()), ("ann", 1_800_000_000_000_000));
    }

    #[test]
    fn a_receipt_that_was_changed_is_not_honoured() {
        let receipt = receipt(&[("phone", 4)]);
        let text = receipt.sign(SECRET);
        let signature = text.rsplit_once('.').unwrap().1;
        let mine = Receipt { buyer: BuyerId::new("bob").unwrap(), ..receipt.clone() }.sign(SECRET);
        let content = mine.rsplit_once('.').unwrap().0;
        let spliced = format!("{content}.{signature}");
        assert_eq!(Receipt::read(&spliced, &receipt.sale, SECRET), Err(BadReceipt::Forged));
        for text in ["", "rg1.", "rg1.x.y", "rg2.e30.e30", &text[..text.len() - 5], &text[4..]] {
            let read = Receipt::read(text, &receipt.sale, SECRET);
            assert!(matches!(read, Err(BadReceipt::Unreadable | BadReceipt::Forged)), "{text}: {read:?}");
        }
    }

    #[test]
    fn a_receipt_tells_the_cart() {
        let cart = receipt(&[("b", 1), ("b", 2), ("a", 1)]);
        let lines: Vec<_> =
            cart.lines().into_iter().map(|line| (line.sku.to_string(), line.quantity)).collect();
        assert_eq!(lines, [("b".to_owned(), 2), ("a".to_owned(), 1)]);
        assert_eq!(cart.choice(), UnitChoice::Any);
        assert_eq!(receipt(&[("b", 5), ("a", 5)]).choice(), UnitChoice::SameNumber);
        assert_eq!(receipt(&[("b", 5)]).choice(), UnitChoice::Any);
    }
}
