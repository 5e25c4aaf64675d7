//! Retry budget and backoff of calls to the store.

use std::time::Duration;

use rand::RngExt;
use rushgate_core::{Answer, Error, Result};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Retry budget: a call with an unknown outcome is retried this long before its error is returned.
pub(crate) const RETRY_BUDGET: Duration = Duration::from_secs(5);

/// The time `wait` from now, capped at 100 years.
pub(crate) fn moment_after(wait: Duration) -> Instant {
    const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);
    Instant::now() + wait.min(FOR_EVER)
}

/// Backoff between attempts: doubles from 5 ms to 1 s. Each pause is drawn from the upper half of its range,
/// so that clients that failed together do not retry together.
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

/// True if repeating the call with the same token may succeed.
pub(crate) fn worth_asking_again(error: &Error) -> bool {
    error.is_unavailable() || error.may_have_happened()
}

/// True for a temporary failure that background services wait out: an outage or a full disk.
pub(crate) fn will_pass(error: &Error) -> bool {
    worth_asking_again(error) || error.is_full()
}

/// Repeats the call until it is answered, fails for good, reaches `until`, or the client closes.
///
/// The call carries its own token, so a repeat takes effect at most once.
pub(crate) async fn ask<'a, T>(
    until: Instant,
    closing: &CancellationToken,
    mut call: impl FnMut() -> Answer<'a, T>,
) -> Result<T> {
    let mut failures = Failures { pauses: Pauses::new(), may_have_happened: false };
    loop {
        match call().await {
            Ok(answer) => return Ok(answer),
            Err(error) => failures.wait_out(error, until, closing).await?,
        }
    }
}

/// The failures of one call. Apart from [`ask`], which is compiled for each call.
struct Failures {
    pauses: Pauses,
    may_have_happened: bool,
}

impl Failures {
    /// Returns when to repeat the call, or the error if there is no point.
    async fn wait_out(&mut self, error: Error, until: Instant, closing: &CancellationToken) -> Result<()> {
        // Once an answer was lost, the step may have happened: a later failure does not prove otherwise.
        self.may_have_happened |= error.may_have_happened();
        let error = if self.may_have_happened { error.maybe_happened() } else { error };
        let pause = self.pauses.draw();
        if !worth_asking_again(&error) || Instant::now() + pause >= until || closing.is_cancelled() {
            return Err(error);
        }
        tracing::debug!(%error, ?pause, "retrying a store call");
        sleep(pause).await;
        Ok(())
    }
}
