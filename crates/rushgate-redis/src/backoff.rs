use std::time::Duration;

use rand::RngExt;

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
