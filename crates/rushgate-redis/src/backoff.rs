use std::time::Duration;

use rand::RngExt;
use rushgate_core::{Error, Result};
use tokio::time::{Instant, sleep};

/// How long a store is tried to be opened while others know its servers: a failover takes less.
const OPENING_MAX: Duration = Duration::from_secs(5);
/// Between two attempts. A lane has pauses of its own.
const AGAIN: Duration = Duration::from_millis(50);

/// Opening a store whose servers are known to others, who say where one is, or who takes its place.
pub(crate) struct Opening {
    until: Instant,
}

impl Opening {
    pub(crate) fn begin() -> Self {
        Self { until: Instant::now() + OPENING_MAX }
    }

    /// Bears with a server that is away, before the next attempt; hands on any other error.
    pub(crate) async fn bear(&self, error: Error, is_told: impl Future<Output = bool>) -> Result<()> {
        if !error.is_unavailable() || Instant::now() >= self.until || !is_told.await {
            return Err(error);
        }
        tracing::debug!(%error, "opening the store takes longer");
        sleep(AGAIN).await;
        Ok(())
    }
}

/// Pauses between attempts to connect: doubling, each drawn from its upper half, so that clients which lost the
/// server together do not come back together.
pub(crate) struct Backoff(Duration);

impl Backoff {
    const FIRST: Duration = Duration::from_millis(10);
    const LAST: Duration = Duration::from_secs(1);

    pub(crate) fn new() -> Self {
        Self(Self::FIRST)
    }

    pub(crate) fn draw(&mut self) -> Duration {
        let pause = self.0.mul_f64(rand::rng().random_range(0.5..1.0));
        self.0 = (self.0 * 2).min(Self::LAST);
        pause
    }
}
