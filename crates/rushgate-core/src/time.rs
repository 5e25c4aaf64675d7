use std::fmt;
use std::ops::Add;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::{Error, Field, Result};

/// A point in time on the store's clock, in whole microseconds since the Unix epoch.
///
/// Only the store creates timestamps. A client may pass one back, or give a [`Duration`] from now. It never decides
/// anything by its own wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Creates a timestamp from microseconds since the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Time elapsed since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// ```
/// use std::time::{Duration, SystemTime};
/// use rushgate_core::Timestamp;
///
/// let time = SystemTime::from(Timestamp::from_micros(1_500_000));
/// assert_eq!(time, SystemTime::UNIX_EPOCH + Duration::from_millis(1_500));
/// ```
impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        Self::UNIX_EPOCH + Duration::from_micros(time.0)
    }
}

/// Drops fractions of a microsecond. Fails for times before the Unix epoch.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use rushgate_core::Timestamp;
///
/// let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500);
/// assert_eq!(Timestamp::try_from(time)?, Timestamp::from_micros(1_500_000));
/// assert!(Timestamp::try_from(SystemTime::UNIX_EPOCH - Duration::from_secs(1)).is_err());
/// # Ok::<_, rushgate_core::Error>(())
/// ```
impl TryFrom<SystemTime> for Timestamp {
    type Error = Error;
    fn try_from(time: SystemTime) -> Result<Self> {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| out_of_range())?;
        u64::try_from(since.as_micros()).map(Self).map_err(|_| out_of_range())
    }
}

/// Fails after the year 9999.
///
/// ```
/// use rushgate_core::Timestamp;
///
/// let time = jiff::Timestamp::try_from(Timestamp::from_micros(1_500_000))?;
/// assert_eq!(time.to_string(), "1970-01-01T00:00:01.5Z");
/// assert!(jiff::Timestamp::try_from(Timestamp::from_micros(u64::MAX)).is_err());
/// # Ok::<_, rushgate_core::Error>(())
/// ```
#[cfg(feature = "jiff")]
impl TryFrom<Timestamp> for jiff::Timestamp {
    type Error = Error;
    fn try_from(time: Timestamp) -> Result<Self> {
        let micros = i64::try_from(time.0).map_err(|_| out_of_range())?;
        Self::from_microsecond(micros).map_err(|_| out_of_range())
    }
}

/// Drops fractions of a microsecond. Fails for times before the Unix epoch.
///
/// ```
/// use rushgate_core::Timestamp;
///
/// let time: jiff::Timestamp = "1970-01-01T00:00:01.5Z".parse().expect("a time");
/// assert_eq!(Timestamp::try_from(time)?, Timestamp::from_micros(1_500_000));
/// assert!(Timestamp::try_from(jiff::Timestamp::MIN).is_err());
/// # Ok::<_, rushgate_core::Error>(())
/// ```
#[cfg(feature = "jiff")]
impl TryFrom<jiff::Timestamp> for Timestamp {
    type Error = Error;
    fn try_from(time: jiff::Timestamp) -> Result<Self> {
        u64::try_from(time.as_microsecond()).map(Self).map_err(|_| out_of_range())
    }
}

fn out_of_range() -> Error {
    Error::invalid("the time", "is out of range; it must be in the years 1970 to 9999")
}

impl Add<Duration> for Timestamp {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }
}

/// Human-readable duration: `0s`, `500ms`, `1h`, `1m 30s`. Fractions of a microsecond are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HumanDuration(pub Duration);

impl HumanDuration {
    const UNITS: [(u128, &str); 6] = [
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "m"),
        (1_000_000, "s"),
        (1_000, "ms"),
        (1, "us"),
    ];
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0.as_micros();
        if left == 0 {
            return f.write_str("0s");
        }
        let mut space = "";
        for (length, unit) in Self::UNITS.into_iter() {
            if left >= length {
                write!(f, "{space}{}{unit}", left / length)?;
                left %= length;
                space = " ";
            }
        }
        Ok(())
    }
}

macro_rules! bounded {
    ($($(#[$doc:meta])* $name:ident = $field:expr, $min:expr, $max:expr, $range:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "Duration", into = "Duration")]
        pub struct $name(Duration);

        impl $name {
            /// Minimum.
            pub const MIN: Duration = $min;
            /// Maximum.
            pub const MAX: Duration = $max;

            /// Checks `duration` against [`MIN`](Self::MIN) and [`MAX`](Self::MAX).
            pub fn new(duration: Duration) -> Result<Self> {
                if duration < Self::MIN || duration > Self::MAX {
                    let why = format!("is {}; it must be {}", HumanDuration(duration), $range);
                    return Err(Error::invalid($field, why));
                }
                Ok(Self(duration))
            }

            /// The duration.
            pub const fn get(self) -> Duration {
                self.0
            }

            /// The duration in whole microseconds.
            pub const fn as_micros(self) -> u64 {
                self.0.as_micros() as u64
            }
        }

        impl TryFrom<Duration> for $name {
            type Error = Error;
            fn try_from(duration: Duration) -> Result<Self> {
                Self::new(duration)
            }
        }

        impl From<$name> for Duration {
            fn from(it: $name) -> Duration {
                it.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

bounded! {
    /// Lease duration of a lock or a claimed task: 10 ms to 24 h. It expires unless the holder extends it.
    Lease = Field::Lease, Duration::from_millis(10), Duration::from_secs(86_400), "10 ms to 24 h";
    /// Hold time of a reservation: 10 ms to 30 days. An unconfirmed reservation keeps its units this long.
    HoldTime = "the hold time", Duration::from_millis(10), Duration::from_secs(30 * 86_400), "10 ms to 30 days";
}

/// Serializes durations as whole milliseconds, as all JSON does.
pub(crate) mod as_millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(of: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(of.as_millis()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_of_zero_or_of_decades_is_refused() {
        assert!(Lease::new(Duration::ZERO).unwrap_err().is_invalid());
        assert!(Lease::new(Duration::from_secs(u64::MAX)).unwrap_err().is_invalid());
        assert_eq!(Lease::new(Duration::from_secs(15)).unwrap().as_micros(), 15_000_000);
    }

    #[test]
    fn a_length_of_time_is_written_as_people_do() {
        for (micros, text) in [
            (0, "0s"),
            (7, "7us"),
            (500_000, "500ms"),
            (1_500_000, "1s 500ms"),
            (90_000_000, "1m 30s"),
            (3_600_000_000, "1h"),
            (86_400_000_000, "1d"),
            (90_061_000_000, "1d 1h 1m 1s"),
        ] {
            assert_eq!(HumanDuration(Duration::from_micros(micros)).to_string(), text);
        }
        assert_eq!(HumanDuration(Duration::from_nanos(1)).to_string(), "0s");
        let error = Lease::new(Duration::ZERO).unwrap_err();
        assert_eq!(error.to_string(), "the lease is 0s; it must be 10 ms to 24 h");
    }

    #[test]
    fn timestamps_never_overflow() {
        let end = Timestamp::from_micros(u64::MAX) + Duration::MAX;
        assert_eq!(end.as_micros(), u64::MAX);
        assert_eq!(Timestamp::from_micros(1).since(end), Duration::ZERO);
    }
}
