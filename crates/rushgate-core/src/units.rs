//! Ranges of unit numbers. Stock is counted in millions, and most changes affect neighboring numbers.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Error, Result, Sku};

/// Number of a unit of one SKU: 1..N.
pub type UnitNumber = u32;

/// Maximum number of units per line.
pub const MAX_UNITS_PER_LINE: u32 = 1_000;
/// Maximum number of lines per reservation.
pub const MAX_LINES: usize = 32;
/// Maximum number of units per reservation.
pub const MAX_UNITS: u32 = MAX_LINES as u32 * MAX_UNITS_PER_LINE;

/// A nonempty range of consecutive unit numbers of one SKU.
///
/// Text form: `7` or `7-9`. JSON form: the pair `[7,9]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "[UnitNumber; 2]", into = "[UnitNumber; 2]")]
pub struct UnitRange {
    first: UnitNumber,
    last: UnitNumber,
}

impl UnitRange {
    /// Creates the range `first` to `last`; `None` if `first` is greater.
    pub const fn new(first: UnitNumber, last: UnitNumber) -> Option<Self> {
        if first <= last { Some(Self { first, last }) } else { None }
    }

    /// Creates a range of one unit.
    pub const fn one(unit: UnitNumber) -> Self {
        Self { first: unit, last: unit }
    }

    /// The lowest number.
    pub const fn first(self) -> UnitNumber {
        self.first
    }

    /// The highest number.
    pub const fn last(self) -> UnitNumber {
        self.last
    }

    /// Number of units.
    pub const fn count(self) -> u32 {
        (self.last - self.first).saturating_add(1)
    }

    /// Whether the range contains `unit`.
    pub const fn contains(self, unit: UnitNumber) -> bool {
        self.first <= unit && unit <= self.last
    }

    /// Iterates over the numbers.
    pub const fn numbers(self) -> RangeInclusive<UnitNumber> {
        self.first..=self.last
    }

    /// The lowest `n` numbers, or all if there are fewer; `None` if `n` is 0.
    pub fn lowest(self, n: u32) -> Option<Self> {
        let last = self.first.saturating_add(n.checked_sub(1)?);
        Self::new(self.first, last.min(self.last))
    }

    /// The highest `n` numbers, or all if there are fewer; `None` if `n` is 0.
    pub fn highest(self, n: u32) -> Option<Self> {
        let first = self.last.saturating_sub(n.checked_sub(1)?);
        Self::new(first.max(self.first), self.last)
    }

    /// The range without the `taken` ranges, which must be in ascending order.
    pub fn without(self, taken: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut left = Vec::new();
        let mut next = self.first;
        for range in taken {
            left.extend(Self::new(next, range.first.saturating_sub(1).min(self.last)));
            next = next.max(range.last.saturating_add(1));
        }
        left.extend(Self::new(next, self.last));
        left
    }

    /// Merges adjacent ranges. Keeps the numbers in order.
    pub fn gather<T: Into<Self>>(parts: impl IntoIterator<Item = T>) -> Vec<Self> {
        let mut ranges: Vec<Self> = Vec::new();
        for part in parts {
            let part = part.into();
            match ranges.last_mut() {
                Some(before) if before.last.checked_add(1) == Some(part.first) => before.last = part.last,
                _ => ranges.push(part),
            }
        }
        ranges
    }

    /// Number of units in all of the ranges.
    pub fn total(ranges: &[Self]) -> u64 {
        ranges.iter().map(|range| u64::from(range.count())).sum()
    }
}

impl From<UnitNumber> for UnitRange {
    fn from(unit: UnitNumber) -> Self {
        Self::one(unit)
    }
}

impl From<UnitRange> for [UnitNumber; 2] {
    fn from(range: UnitRange) -> Self {
        [range.first, range.last]
    }
}

impl TryFrom<[UnitNumber; 2]> for UnitRange {
    type Error = Error;
    fn try_from([first, last]: [UnitNumber; 2]) -> Result<Self> {
        let backwards =
            || Error::invalid("the unit range", format_args!("is {first} to {last}; it must be ascending"));
        Self::new(first, last).ok_or_else(backwards)
    }
}

impl fmt::Display for UnitRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl FromStr for UnitRange {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let number = |text: &str| {
            text.parse()
                .map_err(|_| Error::invalid("the unit range", format_args!("`{text}` is not a number")))
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        [number(first)?, number(last)?].try_into()
    }
}

/// A unit in JSON.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Unit {
    /// Name of the SKU.
    sku: Sku,
    /// Number of the unit.
    unit: UnitNumber,
}

/// Units as a list of objects.
pub(crate) mod each {
    use super::{Deserialize, Deserializer, Serializer, Sku, Unit, UnitNumber};

    pub fn serialize<S: Serializer>(units: &[(Sku, UnitNumber)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(units.iter().map(|(sku, unit)| Unit { sku: sku.clone(), unit: *unit }))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(Sku, UnitNumber)>, D::Error> {
        let units = Vec::<Unit>::deserialize(from)?;
        Ok(units.into_iter().map(|Unit { sku, unit }| (sku, unit)).collect())
    }
}

/// A range of consecutive units in JSON, because an event may concern millions.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct Units<'a> {
    /// Name of the SKU.
    sku: &'a Sku,
    /// Lowest number.
    first: UnitNumber,
    /// Highest number.
    last: UnitNumber,
}

/// Serializes ranges of units.
pub(crate) fn ranges<S: Serializer>(units: &[(Sku, UnitRange)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(units.iter().map(|(sku, range)| Units { sku, first: range.first(), last: range.last() }))
}

/// A SKU in the spelling of its record.
#[derive(Deserialize)]
struct Stored(#[serde(deserialize_with = "Sku::deserialize_as_stored")] Sku);

/// Deserializes units in the spelling of their record.
pub(crate) fn as_stored<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(Sku, UnitNumber)>, D::Error> {
    let units = Vec::<(Stored, UnitNumber)>::deserialize(from)?;
    Ok(units.into_iter().map(|(Stored(sku), unit)| (sku, unit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: UnitNumber, last: UnitNumber) -> UnitRange {
        UnitRange::new(first, last).unwrap()
    }

    #[test]
    fn a_range_survives_text_and_json_and_never_goes_backwards() {
        for (range, text, json) in [(range(7, 7), "7", "[7,7]"), (range(7, 9), "7-9", "[7,9]")] {
            assert_eq!(range.to_string(), text);
            assert_eq!(text.parse::<UnitRange>().unwrap(), range);
            assert_eq!(serde_json::to_string(&range).unwrap(), json);
            assert_eq!(serde_json::from_str::<UnitRange>(json).unwrap(), range);
        }
        assert_eq!(UnitRange::new(9, 7), None);
        for wrong in ["9-7", "", "7-", "-7", "7-8-9", "x"] {
            assert!(wrong.parse::<UnitRange>().unwrap_err().is_invalid(), "{wrong:?}");
        }
        assert!(serde_json::from_str::<UnitRange>("[9,7]").is_err());
    }

    #[test]
    fn neighbours_are_gathered_in_their_order() {
        let ranges = UnitRange::gather([4, 5, 6, 2, 3, 9, 9]);
        assert_eq!(ranges, [range(4, 6), range(2, 3), range(9, 9), range(9, 9)]);
        assert_eq!(UnitRange::gather([range(1, 2), range(3, 5), range(7, 7)]), [range(1, 5), range(7, 7)]);
        assert_eq!(UnitRange::gather([0; 0]), []);
        assert_eq!(UnitRange::total(&ranges), 7);
    }

    #[test]
    fn what_is_left_lies_between_what_is_taken() {
        let all = range(3, 10);
        assert_eq!(all.without([]), [all]);
        assert_eq!(all.without([range(1, 3), range(5, 6), range(10, 12)]), [range(4, 4), range(7, 9)]);
        assert_eq!(all.without([range(1, 2), range(11, 12)]), [all]);
        assert_eq!(all.without([range(2, 20)]), []);
    }

    #[test]
    fn the_ends_of_a_range_are_cut_to_it() {
        let all = range(3, 10);
        assert_eq!((all.lowest(2), all.highest(2)), (Some(range(3, 4)), Some(range(9, 10))));
        assert_eq!((all.lowest(99), all.highest(99)), (Some(all), Some(all)));
        assert_eq!((all.lowest(0), all.highest(0)), (None, None));
    }
}
