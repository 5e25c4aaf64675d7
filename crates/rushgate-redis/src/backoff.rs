use std::time::Duration;

use rand::RngExt;
use rushgate_core::{Error, Result};
use tokio::time::{Instant, sleep};

/// How long opening a store retries while sentinels or other nodes can name its server. A failover takes less.
const OPENING_MAX: Duration = Duration::from_secs(5);
/// Pause between two attempts to open. A connection that is lost later has its own pauses.
const AGAIN: Duration = Duration::from_millis(50);

/// The retry deadline for opening a store whose servers are known to sentinels or to a Cluster.
pub(crate) struct Opening {
    until: Instant,
}

impl Opening {
    pub(crate) fn begin() -> Self {
        Self { until: Instant::now() + OPENING_MAX }
    }

    /// Pauses before the next attempt if the server is unavailable and another source, asked by `is_told`, still names
    /// one. Returns any other error.
    pub(crate) async fn bear(&self, error: Error, is_told: impl Future<Output = bool>) -> Result<()> {
        if !error.is_unavailable() || Instant::now() >= self.until || !is_told.await {
            return Err(error);
        }
        tracing::debug!(%error, "retrying to open the store");
        sleep(AGAIN).await;
        Ok(())
    }
}

/// Exponential backoff between attempts to connect. Each pause is drawn from its upper half, so that clients that lost
/// a server together do not reconnect together.
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
