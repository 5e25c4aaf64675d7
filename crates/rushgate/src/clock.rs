//! The clocks of this process. They decide nothing: the store's clock does. They only say when
//! to stop trusting what the store said.

use std::ops::Add;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment since the machine was started, counting the time in which it was suspended.
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

    /// How long from here until `later`; zero if that has passed.
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

/// Microseconds on a monotonic clock that is cheap to read and a few milliseconds coarse.
pub(crate) fn coarse_us() -> u64 {
    read(COARSE).as_micros() as u64
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The longest [`margin`].
pub(crate) const MARGIN_MAX: Duration = Duration::from_secs(1);

/// How much earlier than the store a holder believes its lease to end: a tenth of it, 1 ms to 1 s. It pays for clocks
/// that drift apart and for the time that it takes to stop.
pub(crate) fn margin(lease: Duration) -> Duration {
    (lease / 10).clamp(Duration::from_millis(1), MARGIN_MAX)
}
