//! Times as typed: RFC 3339, a duration from now, or milliseconds since 1970.

use std::time::{SystemTime, UNIX_EPOCH};

use rushgate::Timestamp;

use crate::duration;
use crate::exit::Fault;
use crate::output::moment;

/// An earlier time (1973) was meant in seconds, a later one (the year 5138) in microseconds.
const PLAUSIBLE_MS: std::ops::Range<u64> = 100_000_000_000..100_000_000_000_000;

/// Reads `2026-12-01T20:00:00+01:00`, `10m` (from now, by this machine's clock), or `1796155200000`.
pub(crate) fn parse(text: &str) -> Result<Timestamp, String> {
    if let Ok(millis) = text.parse::<u64>() {
        return epoch_ms(millis);
    }
    if let Ok(time) = duration::parse(text) {
        return u64::try_from((now() + time).as_micros())
            .map(Timestamp::from_micros)
            .map_err(|_| format!("`{text}` from now is out of range"));
    }
    let time: jiff::Timestamp = text.parse().map_err(|_| {
        format!(
            "`{text}` is not a time; use RFC 3339 (2026-12-01T20:00:00+01:00), a duration from now (10m), or \
             milliseconds since 1970"
        )
    })?;
    epoch_ms(u64::try_from(time.as_millisecond()).unwrap_or_default())
}

fn epoch_ms(millis: u64) -> Result<Timestamp, String> {
    if PLAUSIBLE_MS.contains(&millis) {
        return Ok(Timestamp::from_micros(millis * 1_000));
    }
    Err(format!("{millis} ms since 1970 is before 1973 or after 5138; `date +%s%3N` prints the current time"))
}

fn now() -> std::time::Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Refuses a time that has passed by this machine's clock, where only a future one makes sense.
pub(crate) fn still_to_come(option: &str, at: Timestamp) -> Result<Timestamp, Fault> {
    if u128::from(at.as_micros()) > now().as_micros() {
        return Ok(at);
    }
    Err(Fault::usage(format_args!("{option} is in the past: {}", moment(at)))
        .hint("use a time in the future, such as 1h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_rfc_3339_or_a_duration_from_now_or_milliseconds() {
        let micros = |text: &str| parse(text).map(Timestamp::as_micros);
        assert_eq!(micros("1795228136000"), Ok(1_795_228_136_000_000));
        assert_eq!(micros("2026-11-21T02:28:56Z"), Ok(1_795_228_136_000_000));
        assert_eq!(micros("2026-11-21T03:28:56+01:00"), Ok(1_795_228_136_000_000));
        let (before, in_ten_minutes, after) = (now(), micros("10m").unwrap(), now());
        let ten_minutes = u128::from(in_ten_minutes) - 600_000_000;
        assert!((before.as_micros()..=after.as_micros()).contains(&ten_minutes));
    }

    #[test]
    fn seconds_and_microseconds_are_not_taken_for_milliseconds() {
        for wrong in ["0", "1795228136", "1795228136000000", "18446744073709551615", "1960-01-01T00:00:00Z"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_examples() {
        for wrong in ["", "tomorrow", "2026-12-01", "2026-12-01T20:00:00", "-5m"] {
            assert!(parse(wrong).is_err_and(|error| error.contains("RFC 3339")), "{wrong}");
        }
    }
}
