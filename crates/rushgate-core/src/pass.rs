use std::fmt;

use serde::{Deserialize, Serialize};

use crate::signed::Kind;
use crate::{BuyerId, SaleId, SaleSecret, Timestamp};

/// Admission token: it entitles a buyer from the waiting room to reserve until it expires.
///
/// Text form: `rgp1.`, the content and a signature, like a [`Receipt`](crate::Receipt). The sale's secret verifies it
/// without a request to the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// The sale.
    #[serde(rename = "s")]
    pub sale: SaleId,
    /// The buyer.
    #[serde(rename = "b")]
    pub buyer: BuyerId,
    /// The waiting room, identified by the time at which it was opened.
    #[serde(rename = "r")]
    pub room: Timestamp,
    /// When the token expires.
    #[serde(rename = "u")]
    pub until: Timestamp,
}

/// Why an admission token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BadPass {
    /// Not an admission token, or truncated.
    Unreadable,
    /// Issued for another sale.
    OtherSale,
    /// Changed after signing, or signed with another key.
    Forged,
    /// Issued to another buyer.
    OtherBuyer,
    /// Issued by a waiting room that has been closed.
    OtherRoom,
    /// Expired.
    Expired,
}

impl fmt::Display for BadPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "malformed admission token: send the full text that the waiting room issued",
            Self::OtherSale => "the admission token is for another sale",
            Self::Forged => "the admission token was not signed by this sale",
            Self::OtherBuyer => "the admission token is for another buyer",
            Self::OtherRoom => "the admission token is from a waiting room that was closed",
            Self::Expired => "the admission token has expired",
        })
    }
}

const KIND: Kind = Kind { prefix: "rgp1.", domain: b"rushgate pass 1\0", text_max: 2_048 };

impl Pass {
    /// Serializes and signs the token.
    pub fn sign(&self, secret: SaleSecret) -> String {
        KIND.sign(secret, self)
    }

    /// Parses an admission token and checks that it is valid for `sale` and `buyer` at `now`. The caller compares the
    /// room.
    ///
    /// # Errors
    /// The reason why the token is refused.
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
