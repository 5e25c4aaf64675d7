//! Moments as they are typed: milliseconds since 1970.

use std::time::{SystemTime, UNIX_EPOCH};

use rushgate::Timestamp;

use crate::exit::Fault;
use crate::output::moment;

/// Anything earlier (1973) was meant as seconds, anything later (the year 5138) as microseconds.
const PLAUSIBLE_MS: std::ops::Range<u64> = 100_000_000_000..100_000_000_000_000;

/// The moment so many milliseconds after the epoch.
pub(crate) fn epoch_ms(option: &str, millis: u64) -> Result<Timestamp, Fault> {
    if PLAUSIBLE_MS.contains(&millis) {
        return Ok(Timestamp::from_micros(millis * 1_000));
    }
    Err(Fault::usage(format_args!("{option} {millis} is no moment of our time in milliseconds since 1970"))
        .hint("date +%s%3N prints now"))
}

/// The same, if it has not passed by this machine's clock: nothing can be meant by it otherwise.
pub(crate) fn still_to_come(option: &str, millis: u64) -> Result<Timestamp, Fault> {
    let at = epoch_ms(option, millis)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if u128::from(millis) > now.as_millis() {
        return Ok(at);
    }
    Err(Fault::usage(format_args!("{option} {millis} has passed: it was {}", moment(at)))
        .hint("date -d '+1 hour' +%s%3N prints one hour from now"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_microseconds_are_not_taken_for_milliseconds() {
        assert_eq!(epoch_ms("--at", 1_795_228_136_000).unwrap().as_micros(), 1_795_228_136_000_000);
        for wrong in [0, 1_795_228_136, 1_795_228_136_000_000, u64::MAX] {
            assert!(epoch_ms("--at", wrong).is_err(), "{wrong}");
        }
    }
}
