//! Asking again: how long, and how often.

use std::time::Duration;

use rand::RngExt;
use rushgate_core::{Answer, Error, Result};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// How long a call whose outcome is unknown is asked again before its error is handed on.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The time after `wait`, capped at a hundred years.
pub(crate) fn moment_after(wait: Duration) -> Instant {
    const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);
    Instant::now() + wait.min(FOR_EVER)
}

/// Pauses between attempts: doubling from 5 ms to 1 s, each drawn from the upper half so that clients that failed
/// together do not come back together.
pub(crate) struct Pauses {
    next: Duration,
}

impl Pauses {
    pub(crate) fn new() -> Self {
        Self { next: Duration::from_millis(5) }
    }

    pub(crate) fn draw(&mut self) -> Duration {
        let pause = self.next.mul_f64(rand::rng().random_range(0.5..1.0));
        self.next = (self.next * 2).min(Duration::from_secs(1));
        pause
    }
}

/// True if the same call with the same token may be answered later.
pub(crate) fn worth_asking_again(error: &Error) -> bool {
    error.is_unavailable() || error.may_have_happened()
}

/// True for what will pass, and what long-running helpers therefore wait for: an outage, and a full disk.
pub(crate) fn will_pass(error: &Error) -> bool {
    worth_asking_again(error) || error.is_full()
}

/// Asks until there is an answer, a lasting error, the moment `until`, or the end of the client.
///
/// The call carries its own token, so that asking again does not do it again.
pub(crate) async fn ask<'a, T>(
    until: Instant,
    closing: &CancellationToken,
    mut call: impl FnMut() -> Answer<'a, T>,
) -> Result<T> {
    let mut pauses = Pauses::new();
    let mut may_have_happened = false;
    loop {
        let mut error = match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        // One lost answer is enough: a later failure does not prove that the step had no effect.
        may_have_happened |= error.may_have_happened();
        if may_have_happened {
            error = error.maybe_happened();
        }
        let pause = pauses.draw();
        if !worth_asking_again(&error) || Instant::now() + pause >= until || closing.is_cancelled() {
            return Err(error);
        }
        tracing::debug!(%error, ?pause, "asking the store again");
        sleep(pause).await;
    }
}
