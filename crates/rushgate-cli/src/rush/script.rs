//! Behavior of each simulated buyer, derived from the seed and the buyer's number alone, so that a run can be
//! repeated.

use std::hash::Hasher;
use std::time::Duration;

/// How a buyer sends the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Click {
    /// One click.
    Once,
    /// Several clicks in a row, with the same idempotency key.
    Repeatedly(u32),
    /// Two concurrent requests with the same key.
    Doubled,
    /// A second request with another key, to exceed the purchase limit.
    SecondKey,
}

/// What a buyer does with a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Pays.
    Pay,
    /// Pays at about the deadline.
    PayAtTheDeadline,
    /// Cancels.
    Cancel,
    /// Abandons the hold, which then expires.
    WalkAway,
}

/// Behavior of one buyer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    pub(super) click: Click,
    pub(super) then: Then,
}

/// SplitMix64 (Steele, Lea and Flood, 2014): a well-distributed number for each `n`.
pub(super) fn draw(seed: u64, n: u64) -> u64 {
    let mut z = seed.wrapping_add((n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Script {
    /// 80 % click once, 10 % repeatedly, and the rest concurrently or with a second key. Of those with a
    /// hold, 70 % pay.
    pub(super) fn of(seed: u64, buyer: u64) -> Self {
        let drawn = draw(seed, buyer);
        let click = match drawn % 100 {
            0..80 => Click::Once,
            80..90 => Click::Repeatedly(2 + (drawn >> 32) as u32 % 2),
            90..95 => Click::Doubled,
            _ => Click::SecondKey,
        };
        let then = match (drawn >> 40) % 100 {
            0..70 => Then::Pay,
            70..72 => Then::PayAtTheDeadline,
            72..87 => Then::Cancel,
            _ => Then::WalkAway,
        };
        Self { click, then }
    }
}

/// A time close to `deadline`, before or after it, for a payment that races with the expiry.
pub(super) fn near(deadline: Duration, seed: u64, buyer: u64) -> Duration {
    let offset = Duration::from_micros(draw(seed ^ 0xDEAD, buyer) % 20_000);
    (deadline + offset).saturating_sub(Duration::from_millis(10))
}

/// Short name of a seed, for buyer IDs.
pub(super) fn tag(seed: u64) -> String {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write_u64(seed);
    format!("{:06x}", hasher.finish() & 0xFF_FFFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_every_buyer() {
        for buyer in 0..1_000 {
            let (one, again) = (Script::of(7, buyer), Script::of(7, buyer));
            assert_eq!((one.click, one.then), (again.click, again.then));
        }
    }

    #[test]
    fn the_crowd_does_all_that_it_is_said_to_do() {
        let scripts: Vec<_> = (0..10_000).map(|buyer| Script::of(1, buyer)).collect();
        for click in
            [Click::Once, Click::Repeatedly(2), Click::Repeatedly(3), Click::Doubled, Click::SecondKey]
        {
            assert!(scripts.iter().any(|script| script.click == click), "{click:?}");
        }
        for then in [Then::Pay, Then::PayAtTheDeadline, Then::Cancel, Then::WalkAway] {
            assert!(scripts.iter().any(|script| script.then == then), "{then:?}");
        }
        let once = scripts.iter().filter(|script| script.click == Click::Once).count();
        assert!((7_500..8_500).contains(&once), "{once}");
    }
}
