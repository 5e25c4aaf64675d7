//! Local clocks. The store's clock decides every lease; the local ones only say when to stop trusting its
//! last answer.

use std::ops::Add;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the machine was started, including suspend.
///
/// `std::time::Instant` stops while a Linux machine sleeps, and a lease does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Boot(Duration);

#[cfg(any(target_os = "linux", target_os = "android"))]
const COUNTS_SUSPEND: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const COUNTS_SUSPEND: ClockId = ClockId::Monotonic;

#[cfg(any(target_os = "linux", target_os = "android"))]
const COARSE: ClockId = ClockId::MonotonicCoarse;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const COARSE: ClockId = ClockId::Monotonic;

impl Boot {
    pub(crate) fn now() -> Self {
        Self(read(COUNTS_SUSPEND))
    }

    pub(crate) fn from_micros(micros: u64) -> Self {
        Self(Duration::from_micros(micros))
    }

    pub(crate) fn as_micros(self) -> u64 {
        self.0.as_micros() as u64
    }

    /// Time from here until `later`; zero if that has passed.
    pub(crate) fn until(self, later: Self) -> Duration {
        later.0.saturating_sub(self.0)
    }

    pub(crate) fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration))
    }
}

impl Add<Duration> for Boot {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

/// Microseconds on a monotonic clock that is cheap to read, with a resolution of a few milliseconds.
pub(crate) fn coarse_us() -> u64 {
    read(COARSE).as_micros() as u64
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Upper limit of [`margin`].
pub(crate) const MARGIN_MAX: Duration = Duration::from_secs(1);

/// How much earlier than the store a holder assumes that its lease ends: a tenth of the lease, 1 ms to 1 s.
/// It allows for clock drift and for the time needed to stop.
pub(crate) fn margin(lease: Duration) -> Duration {
    (lease / 10).clamp(Duration::from_millis(1), MARGIN_MAX)
}
