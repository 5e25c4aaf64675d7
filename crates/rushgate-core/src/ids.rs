use std::fmt;
use std::hash::Hasher;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::{BuyerId, Error, IdempotencyKey, Result, SaleId};

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
    ($($(#[$doc:meta])* $name:ident, $field:literal;)*) => {$(
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
            pub fn to_bytes(self) -> [u8; 16] {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&self.client.0.to_be_bytes());
                bytes[8..].copy_from_slice(&self.number.to_be_bytes());
                bytes
            }

            /// The inverse of [`to_bytes`](Self::to_bytes).
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                let (client, number) = bytes.split_at(8);
                let read = |half: &[u8]| half.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
                Self::new(ClientId(read(client)), read(number))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}{:016x}", self.client.0, self.number)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                Ok(Self::from_bytes(hex16($field, text)?))
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(text: String) -> Result<Self> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(it: $name) -> String {
                it.to_string()
            }
        }
    )*};
}

tokens! {
    /// Proof of one acquisition of a lock, created before anything is sent.
    ///
    /// The client knows it in advance, so it can query or undo an acquisition whose answer was lost. 128 bits,
    /// written as 32 hexadecimal digits.
    Token, "the token";
    /// Idempotency token of one mutating call on a queue or a sale. A call repeated with the same `Op` changes
    /// nothing and gets the same answer.
    Op, "the operation token";
}

fn hex16(field: &str, text: &str) -> Result<[u8; 16]> {
    let wrong = || Error::invalid(field, "must be 32 hexadecimal digits");
    if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    u128::from_str_radix(text, 16).map(u128::to_be_bytes).map_err(|_| wrong())
}

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

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ReservationId {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        hex16("the reservation ID", text).map(Self)
    }
}

impl TryFrom<String> for ReservationId {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<ReservationId> for String {
    fn from(id: ReservationId) -> String {
        id.to_string()
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
