use std::fmt;

use serde::{Deserialize, Serialize};

use crate::signed::Kind;
use crate::{BuyerId, SaleId, SaleSecret, Timestamp};

/// An admission token: it lets a buyer from the waiting room reserve, until it expires.
///
/// As text it is `rgp1.` with the content and a signature, like a [`Receipt`](crate::Receipt). The sale's secret verifies it
/// without a request to the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// To which sale.
    #[serde(rename = "s")]
    pub sale: SaleId,
    /// Whose.
    #[serde(rename = "b")]
    pub buyer: BuyerId,
    /// From which of its rooms: when that was opened.
    #[serde(rename = "r")]
    pub room: Timestamp,
    /// Until when.
    #[serde(rename = "u")]
    pub until: Timestamp,
}

/// Why a text lets nobody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BadPass {
    /// It is no pass at all, or was cut short.
    Unreadable,
    /// It is another sale's.
    OtherSale,
    /// Its content was changed after signing, or another key signed it.
    Forged,
    /// It is another buyer's.
    OtherBuyer,
    /// It is of a room that was closed.
    OtherRoom,
    /// It has run out.
    Expired,
}

impl fmt::Display for BadPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "this is no pass; send the whole text that the waiting room gave",
            Self::OtherSale => "the pass is another sale's",
            Self::Forged => "the pass was not signed by this sale",
            Self::OtherBuyer => "the pass is another buyer's",
            Self::OtherRoom => "the pass is of a waiting room that was closed",
            Self::Expired => "the pass has run out",
        })
    }
}

const KIND: Kind = Kind { prefix: "rgp1.", domain: b"rushgate pass 1\0", text_max: 2_048 };

impl Pass {
    /// The signed text.
    pub fn sign(&self, secret: SaleSecret) -> String {
        KIND.sign(secret, self)
    }

    /// Reads a signed text, and checks that it lets that buyer into that sale at `now`. Of which room it is, is for the
    /// caller to compare.
    ///
    /// # Errors
    /// Why it does not.
    pub fn read(
        text: &str,
        secret: SaleSecret,
        sale: &SaleId,
        buyer: &BuyerId,
        now: Timestamp,
    ) -> Result<Self, BadPass> {
        let claimed = KIND.read::<Self>(text).ok_or(BadPass::Unreadable)?;
        if claimed.says.sale != *sale {
            return Err(BadPass::OtherSale);
        }
        let pass = KIND.believed(claimed, secret).ok_or(BadPass::Forged)?;
        match pass {
            pass if pass.buyer != *buyer => Err(BadPass::OtherBuyer),
            pass if pass.until <= now => Err(BadPass::Expired),
            pass => Ok(pass),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: SaleSecret = SaleSecret::from_bytes([7; 16]);

    #[test]
    fn a_pass_lets_its_buyer_into_its_sale_until_it_runs_out() {
        let at = Timestamp::from_micros;
        let (sale, buyer) = (SaleId::new("phones").unwrap(), BuyerId::new("ann").unwrap());
        let pass = Pass { sale: sale.clone(), buyer: buyer.clone(), room: at(1), until: at(100) };
        let text = pass.sign(SECRET);
        let read = |text: &str, secret, sale: &str, buyer: &str, now| {
            Pass::read(text, secret, &SaleId::new(sale).unwrap(), &BuyerId::new(buyer).unwrap(), at(now))
        };
        assert_eq!(read(&text, SECRET, "phones", "ann", 99), Ok(pass.clone()));
        assert_eq!(read(&text, SECRET, "phones", "ann", 100), Err(BadPass::Expired));
        assert_eq!(read(&text, SECRET, "phones", "bob", 1), Err(BadPass::OtherBuyer));
        assert_eq!(read(&text, SECRET, "tickets", "ann", 1), Err(BadPass::OtherSale));
        let stranger = SaleSecret::from_bytes([8; 16]);
        assert_eq!(read(&text, stranger, "phones", "ann", 1), Err(BadPass::Forged));
        let longer = Pass { until: at(1_000), ..pass }.sign(stranger);
        let (content, signature) = (longer.rsplit_once('.').unwrap().0, text.rsplit_once('.').unwrap().1);
        let spliced = format!("{content}.{signature}");
        assert_eq!(read(&spliced, SECRET, "phones", "ann", 1), Err(BadPass::Forged));
        for text in ["", "rgp1.", "rg1.e30.e30", &text[..text.len() - 5]] {
            let bad = read(text, SECRET, "phones", "ann", 1);
            assert!(matches!(bad, Err(BadPass::Unreadable | BadPass::Forged)), "{text}");
        }
    }
}
