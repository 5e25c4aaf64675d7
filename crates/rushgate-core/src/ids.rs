use std::fmt;
use std::hash::Hasher;

use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::text::{hex_text, shown_hex};
use crate::{BuyerId, IdempotencyKey, SaleId};

/// ID of a running client of the store: a random 64-bit number, new at every start.
///
/// A [`Token`] contains it, so the store knows which process to wake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClientId(u64);

impl ClientId {
    /// Creates a client ID from its random number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

macro_rules! tokens {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name {
            client: ClientId,
            number: u64,
        }

        impl $name {
            /// Creates the client's token with that number. A client never uses a number twice.
            pub const fn new(client: ClientId, number: u64) -> Self {
                Self { client, number }
            }

            /// The client that created it.
            pub const fn client(self) -> ClientId {
                self.client
            }

            /// The 16 bytes that are stored.
            pub const fn to_bytes(self) -> [u8; 16] {
                ((self.client.0 as u128) << 64 | self.number as u128).to_be_bytes()
            }

            /// The inverse of [`to_bytes`](Self::to_bytes).
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                let both = u128::from_be_bytes(bytes);
                Self::new(ClientId((both >> 64) as u64), both as u64)
            }
        }
    )*};
}

tokens! {
    /// Proof of one acquisition of a lock, created before anything is sent.
    ///
    /// The client knows it in advance, so it can query or undo an acquisition whose answer was lost. 128 bits,
    /// written as 32 hexadecimal digits.
    Token;
    /// Idempotency token of one mutating call on a queue or a sale. A call repeated with the same `Op` changes
    /// nothing and gets the same answer.
    Op;
}

hex_text! {
    Token = "the token";
    Op = "the operation token";
    ReservationId = "the reservation ID";
}
shown_hex!(Token Op ReservationId);

/// Fencing token: a number that only grows, per lock and per queue.
///
/// It is `max(previous + 1, the store's clock in microseconds)`, so it also grows across expiry, deletion and
/// restart. Pass it to the resource that the lock protects, and let the resource reject a smaller one. That stops a
/// holder that paused past the end of its lease. Fits in 53 bits until the year 2255.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Fence(u64);

impl Fence {
    /// Creates a fencing token from its number.
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Revision of a task's record. It grows each time an enqueue changes the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Revision(u64);

impl Revision {
    /// Creates a revision from its number.
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// Secret key of a sale: 16 random bytes, created with the sale and known only to the store's clients.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleSecret([u8; 16]);

impl SaleSecret {
    /// Creates a secret from 16 random bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes that are stored.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Debug for SaleSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SaleSecret(…)")
    }
}

/// ID of a reservation: a keyed hash of sale, buyer and idempotency key, under the sale's secret.
///
/// A buyer who repeats a key gets the same reservation, whichever process answers. Without the secret, the ID of
/// another buyer's reservation cannot be guessed. 128 bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ReservationId([u8; 16]);

impl ReservationId {
    /// Derives the ID of the reservation of `buyer` under `key`: SipHash-2-4 with 128 bits of output (Aumasson and
    /// Bernstein, <https://www.aumasson.jp/siphash/>), keyed with the sale's secret.
    pub fn derive(secret: SaleSecret, sale: &SaleId, buyer: &BuyerId, key: &IdempotencyKey) -> Self {
        let mut hasher = SipHasher24::new_with_key(&secret.0);
        for part in [sale.as_str(), buyer.as_str(), key.as_str()] {
            // Names contain no NUL, so the parts cannot run into each other.
            hasher.write(part.as_bytes());
            hasher.write_u8(0);
        }
        Self(hasher.finish128().as_u128().to_be_bytes())
    }

    /// The 16 bytes that are stored.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// The inverse of [`to_bytes`](Self::to_bytes).
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_text_and_bytes() {
        let token = Token::new(ClientId::from_u64(0xfeed_0000_0000_0001), 7);
        assert_eq!(token.to_string().parse::<Token>().unwrap(), token);
        assert_eq!(Token::from_bytes(token.to_bytes()), token);
        assert!("feed".parse::<Token>().unwrap_err().is_invalid());
        assert!("+".repeat(32).parse::<Token>().unwrap_err().is_invalid());
    }

    #[test]
    fn a_reservation_id_depends_on_every_part_and_on_the_secret() {
        let id = |secret: u8, sale: &str, buyer: &str, key: &str| {
            ReservationId::derive(
                SaleSecret::from_bytes([secret; 16]),
                &SaleId::new(sale).unwrap(),
                &BuyerId::new(buyer).unwrap(),
                &IdempotencyKey::new(key).unwrap(),
            )
        };
        let base = id(1, "s", "b", "k");
        assert_eq!(base, id(1, "s", "b", "k"));
        for other in
            [id(2, "s", "b", "k"), id(1, "sb", "b", "k"), id(1, "s", "bk", "k"), id(1, "s", "b", "kk")]
        {
            assert_ne!(base, other);
        }
    }
}
