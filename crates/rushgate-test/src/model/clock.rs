use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rushgate_core::Timestamp;

/// A clock that moves only on request. Clones share the clock.
#[derive(Clone)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Creates a clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.as_micros())))
    }

    /// The time that it shows.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_add(by, Ordering::SeqCst);
    }

    /// Moves the clock back.
    pub fn put_back(&self, by: Duration) {
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_sub(by, Ordering::SeqCst);
    }

    /// Sets the clock.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_micros(), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// November 14, 2023, about 10 p.m. UTC.
    fn default() -> Self {
        Self::new(Timestamp::from_micros(1_700_000_000_000_000))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now().fmt(f)
    }
}

/// The clock of a [`MemoryStore`](super::MemoryStore).
#[derive(Clone, Debug)]
pub(super) enum Clock {
    /// The machine's clock, ahead by what this clock shows.
    Ahead(ManualClock),
    /// A test's clock.
    Manual(ManualClock),
}

impl Clock {
    pub(super) fn now(&self) -> Timestamp {
        match self {
            Self::Manual(clock) => clock.now(),
            Self::Ahead(by) => {
                let here = Timestamp::try_from(SystemTime::now()).unwrap_or_default();
                here + Duration::from_micros(by.now().as_micros())
            }
        }
    }

    pub(super) fn advance(&self, time: Duration) {
        let (Self::Manual(clock) | Self::Ahead(clock)) = self;
        clock.advance(time);
    }
}
