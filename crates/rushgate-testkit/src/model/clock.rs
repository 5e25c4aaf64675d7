use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rushgate_core::Timestamp;

/// A clock that moves only when it is told to. Clones are the same clock.
#[derive(Clone)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that stands at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.as_micros())))
    }

    /// What it shows.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    /// Moves it on.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_add(by, Ordering::SeqCst);
    }

    /// Puts it back.
    pub fn put_back(&self, by: Duration) {
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.0.fetch_sub(by, Ordering::SeqCst);
    }

    /// Puts it to any moment.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_micros(), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// The 14th of November 2023, about ten at night.
    fn default() -> Self {
        Self::new(Timestamp::from_micros(1_700_000_000_000_000))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now().fmt(f)
    }
}

/// The clock of a [`ModelStore`](super::ModelStore).
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's.
    Real,
    /// A test's.
    Manual(ManualClock),
}

impl Clock {
    pub(super) fn now(&self) -> Timestamp {
        match self {
            Self::Manual(clock) => clock.now(),
            Self::Real => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
            }
        }
    }
}
