use std::time::Duration;

use rand::RngExt;
use rushgate_core::NewTask;

/// Retry delay of failed tasks: exponential, capped, with full jitter.
///
/// The delay after attempt `n` is drawn evenly from zero to `base · factorⁿ⁻¹`, at most `max`. Without
/// jitter, the delay is that upper end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// Delay after the first failure.
    pub base: Duration,
    /// Multiplier for each further failure: 1 or more.
    pub factor: f64,
    /// Longest delay; at most 400 days.
    pub max: Duration,
    /// Draws each delay at random, so that tasks that failed together do not retry together.
    pub jitter: bool,
}

impl Default for Backoff {
    /// 1 s, doubling, up to 1 h, with jitter.
    fn default() -> Self {
        Self { base: Duration::from_secs(1), factor: 2.0, max: Duration::from_secs(3600), jitter: true }
    }
}

impl Backoff {
    /// Longest delay after attempt number `attempt` (1 for the first).
    pub fn longest(&self, attempt: u32) -> Duration {
        let max = self.max.min(NewTask::DELAY_MAX);
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        let seconds = self.base.as_secs_f64() * self.factor.max(1.0).powi(exponent);
        Duration::try_from_secs_f64(seconds).map_or(max, |wait| wait.min(max))
    }

    /// Delay after attempt number `attempt`, drawn at random if `jitter` is set.
    pub fn draw(&self, attempt: u32) -> Duration {
        let longest = self.longest(attempt);
        if !self.jitter {
            return longest;
        }
        longest.mul_f64(rand::rng().random_range(0.0..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_never_overflow() {
        let backoff = Backoff { jitter: false, ..Backoff::default() };
        assert_eq!(backoff.draw(1), Duration::from_secs(1));
        assert_eq!(backoff.draw(4), Duration::from_secs(8));
        assert_eq!(backoff.draw(u32::MAX), backoff.max);
        assert!((0..100).all(|_| Backoff::default().draw(4) <= Duration::from_secs(8)));
        let absurd = Backoff { base: Duration::MAX, max: Duration::MAX, ..backoff };
        assert_eq!(absurd.draw(1), NewTask::DELAY_MAX);
    }
}
