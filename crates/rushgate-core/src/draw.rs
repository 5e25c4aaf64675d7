use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::text::{checked_text, hex, hex_text, shown_hex};
use crate::{Error, Field, Result, SaleId, Timestamp};

macro_rules! digits {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name([u8; 32]);

        impl $name {
            /// Creates the value from its 32 bytes.
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// The bytes.
            pub const fn to_bytes(self) -> [u8; 32] {
                self.0
            }

            /// Formats the value as 64 hexadecimal digits.
            pub fn to_hex(self) -> String {
                hex(&self.0)
            }
        }
    )*};
}

digits! {
    /// Secret half of a draw's seed: 256 random bits, created when the room is opened and revealed by the draw.
    DrawSecret;
    /// SHA-256 of a [`DrawSecret`]. It is published while buyers join, so the secret cannot be changed later.
    Commitment;
}
hex_text! {
    DrawSecret = "the draw secret";
    Commitment = "the commitment";
}
shown_hex!(Commitment);

impl DrawSecret {
    /// The commitment to this secret.
    pub fn commitment(self) -> Commitment {
        Commitment(Sha256::digest(self.0).into())
    }
}

impl fmt::Debug for DrawSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DrawSecret(…)")
    }
}

/// Randomness beacon: a public text that nobody could know when the room was opened, such as lottery numbers or a
/// round of drand. 1 to 256 bytes of UTF-8 without control characters.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Beacon(String);

impl Beacon {
    /// Maximum length, in bytes.
    pub const MAX: usize = 256;

    /// Checks `text` against the limits.
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        if text.is_empty() || text.len() > Self::MAX {
            let why = format_args!("has {} bytes; it must have 1 to {}", text.len(), Self::MAX);
            return Err(Error::invalid(Field::Beacon, why));
        }
        match text.chars().find(|c| c.is_control()) {
            Some(c) => {
                Err(Error::invalid(Field::Beacon, format_args!("contains the control character {c:?}")))
            }
            None => Ok(Self(text)),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

checked_text!(Beacon);

/// A completed draw: the values that determine every buyer's position.
///
/// Buyers who joined before the entry was closed have the serials 0 to `entrants` - 1. The draw permutes them over
/// the positions 0 to `entrants` - 1. Later buyers stand behind them, in the order of arrival.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawn {
    /// Number of entrants.
    pub entrants: u64,
    /// The secret that the commitment was made for.
    pub secret: DrawSecret,
    /// The beacon, unknown when the commitment was made.
    pub beacon: Beacon,
}

impl Drawn {
    /// Rounds of the Feistel network. Four make it a pseudorandom permutation for large numbers of entrants (Luby and
    /// Rackoff, 1988). For small numbers, NIST SP 800-38G uses ten.
    const ROUNDS: u8 = 10;

    /// SHA-256 of the secret's 32 bytes and the beacon's text.
    pub fn seed(&self) -> [u8; 32] {
        Sha256::new().chain_update(self.secret.0).chain_update(self.beacon.as_str()).finalize().into()
    }

    /// Position of a serial, from 0.
    ///
    /// The permutation is a balanced Feistel network over the smallest number of bit pairs that holds all entrants.
    /// It is repeated until the result is a valid position (cycle walking: Black and Rogaway, "Ciphers with Arbitrary
    /// Finite Domains", 2002). It is a bijection, needs no memory, and anyone can recompute it: `docs/draw.md` has a
    /// short program and test vectors.
    pub fn place(&self, serial: u64) -> u64 {
        if serial >= self.entrants || self.entrants < 2 {
            return serial;
        }
        let seed = self.seed();
        let half = (u64::BITS - (self.entrants - 1).leading_zeros()).div_ceil(2);
        let mut place = network(&seed, half, serial);
        while place >= self.entrants {
            place = network(&seed, half, place);
        }
        place
    }
}

/// One pass of the Feistel network, on two halves of `half` bits each.
fn network(seed: &[u8; 32], half: u32, number: u64) -> u64 {
    let mask = (1 << half) - 1;
    let (mut left, mut right) = (number >> half, number & mask);
    for round in 0..Drawn::ROUNDS {
        (left, right) = (right, left ^ mixed(seed, round, right) & mask);
    }
    left << half | right
}

/// The first eight bytes of SHA-256 over the seed, the round (one byte) and a half (eight bytes).
fn mixed(seed: &[u8; 32], round: u8, half: u64) -> u64 {
    let hash =
        Sha256::new().chain_update(seed).chain_update([round]).chain_update(half.to_be_bytes()).finalize();
    hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The public record of a draw, as JSON, with which anyone can verify it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrawRecord {
    /// The sale.
    pub sale: SaleId,
    /// The commitment published before the draw.
    pub commitment: Commitment,
    /// When the entry was closed; `None` if the room was drawn without closing it.
    #[serde(default, rename = "entry_closed_us", skip_serializing_if = "Option::is_none")]
    pub entry_closed: Option<Timestamp>,
    /// The revealed secret, the beacon and the number of entrants.
    #[serde(flatten)]
    pub drawn: Drawn,
    /// Serials with their positions, if any are to be verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<(u64, u64)>,
}

impl DrawRecord {
    /// Whether the secret matches the commitment.
    pub fn keeps_its_word(&self) -> bool {
        self.drawn.secret.commitment() == self.commitment
    }

    /// The first serial with a wrong position in the record, and its correct position.
    pub fn wrong_place(&self) -> Option<(u64, u64)> {
        let right = self.places.iter().map(|(serial, said)| (*serial, *said, self.drawn.place(*serial)));
        right.into_iter().find(|(_, said, place)| said != place).map(|(serial, _, place)| (serial, place))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn drawn(entrants: u64, byte: u8) -> Drawn {
        let beacon = Beacon::new("2026-11-22 07 12 19 23 38 41").unwrap();
        Drawn { entrants, secret: DrawSecret::from_bytes([byte; 32]), beacon }
    }

    #[test]
    fn every_buyer_has_a_different_position() {
        let sizes = (0..70).chain([127, 128, 129, 1_000, 4_095, 4_096, 4_097, 20_000]);
        for (at, entrants) in sizes.enumerate() {
            let draw = drawn(entrants, at as u8);
            let places: BTreeSet<_> = (0..entrants).map(|serial| draw.place(serial)).collect();
            assert_eq!(places.len() as u64, entrants, "of {entrants}");
            assert!(places.last().is_none_or(|last| *last < entrants), "of {entrants}");
            assert_eq!((draw.place(entrants), draw.place(entrants + 9)), (entrants, entrants + 9));
        }
    }

    /// The vectors of `docs/draw.md`, as its Python program prints them.
    #[test]
    fn the_vectors_hold() {
        let secret = DrawSecret::from_bytes(std::array::from_fn(|at| at as u8));
        let commitment = "630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd";
        assert_eq!(secret.commitment().to_hex(), commitment);
        let places = |entrants, n| -> Vec<u64> {
            let drawn = Drawn { entrants, secret, beacon: Beacon::new("07 12 19 23 38 41").unwrap() };
            (0..n).map(|serial| drawn.place(serial)).collect()
        };
        assert_eq!(places(2, 2), [1, 0]);
        assert_eq!(places(5, 5), [2, 4, 3, 0, 1]);
        assert_eq!(places(10, 10), [7, 4, 3, 0, 1, 5, 9, 2, 8, 6]);
        assert_eq!(places(1_000_000, 5), [454_120, 78_305, 361_682, 629_687, 297_833]);
    }

    #[test]
    fn who_joins_early_has_no_better_place() {
        let draw = drawn(20_000, 3);
        let early = (0..2_000).filter(|serial| draw.place(*serial) < 2_000).count();
        assert!((150..250).contains(&early), "{early} of the first 2,000 are among the first 2,000");
    }

    #[test]
    fn another_secret_or_beacon_gives_another_order() {
        let order = |draw: &Drawn| (0..100).map(|serial| draw.place(serial)).collect::<Vec<_>>();
        let (one, two) = (drawn(100, 1), drawn(100, 2));
        let three = Drawn { beacon: Beacon::new("another").unwrap(), ..one.clone() };
        assert_ne!(order(&one), order(&two));
        assert_ne!(order(&one), order(&three));
    }

    #[test]
    fn a_draw_of_billions_is_as_quick() {
        let draw = drawn(u64::MAX / 5, 1);
        let places: BTreeSet<_> = (0..50).map(|serial| draw.place(serial)).collect();
        assert_eq!(places.len(), 50);
        assert!(places.iter().all(|place| *place < draw.entrants));
    }

    #[test]
    fn a_record_is_checked_when_it_is_read() {
        let drawn = drawn(10, 1);
        let places = (0..10).map(|serial| (serial, drawn.place(serial))).collect();
        let sale = SaleId::new("phones").unwrap();
        let record = DrawRecord {
            sale,
            commitment: drawn.secret.commitment(),
            entry_closed: Some(Timestamp::from_micros(7)),
            drawn,
            places,
        };
        assert!(record.keeps_its_word() && record.wrong_place().is_none());
        let json = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<DrawRecord>(&json).unwrap(), record);
        let mut forged = record.clone();
        forged.places[3].1 = forged.places[4].1;
        assert_eq!(forged.wrong_place(), Some((3, record.places[3].1)));
        let commitment = Commitment::from_bytes([0; 32]);
        assert!(!DrawRecord { commitment, ..record }.keeps_its_word());
    }

    #[test]
    fn secrets_are_digits_and_beacons_have_limits() {
        let secret = DrawSecret::from_bytes([0xab; 32]);
        assert_eq!(secret.to_hex().parse::<DrawSecret>().unwrap(), secret);
        for text in ["", "ab", &"+".repeat(64), &"é".repeat(32)] {
            assert!(text.parse::<DrawSecret>().unwrap_err().is_invalid(), "{text}");
        }
        assert!(!format!("{secret:?}").contains("ab"), "it is not logged");
        for text in ["", "a\nb", &"x".repeat(257)] {
            assert!(Beacon::new(text).unwrap_err().is_invalid(), "{text}");
        }
        assert!(Beacon::new("x".repeat(256)).is_ok());
    }
}
