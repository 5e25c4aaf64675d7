//! Durations on the command line: an integer and a unit.

use std::time::Duration;

use rushgate::queue::Rate;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Parses `250ms`, `15s`, `2m`, `1h` or `7d`. Refuses a number without a unit, because seconds could be
/// mistaken for milliseconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(format!("`{text}` is not a duration; use 15s, 250ms, 2m or 1h"));
    }
    let micros: u64 = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        "" => return Err(format!("`{number}` has no unit; use {number}s or {number}ms")),
        _ => return Err(format!("`{unit}` is not a unit of time; use us, ms, s, m, h or d")),
    };
    let number = number.parse::<u64>().ok();
    let micros = number.and_then(|number| number.checked_mul(micros));
    micros.map(Duration::from_micros).ok_or_else(|| format!("`{text}` is too long"))
}

/// Deserializes a duration from a file.
pub(crate) fn read<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(reader)?;
    parse(&text).map(Some).map_err(D::Error::custom)
}

/// Parses a rate such as `100/1m`.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    let wrong = || "use a number and a duration, such as 100/1m".to_owned();
    let (n, per) = text.split_once('/').ok_or_else(wrong)?;
    Ok(Rate::new(n.parse().map_err(|_| wrong())?, parse(per)?))
}

/// Deserializes a rate from a file.
pub(crate) fn read_rate<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Rate>, D::Error> {
    let text = String::deserialize(reader)?;
    rate(&text).map(Some).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit_make_a_duration() {
        for (text, millis) in [("250ms", 250), ("15s", 15_000), ("2m", 120_000), ("1h", 3_600_000), ("0s", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_in_words_that_help() {
        for (text, part) in [
            ("5", "`5` has no unit; use 5s or 5ms"),
            ("", "is not a duration"),
            ("s", "is not a duration"),
            ("-5s", "is not a duration"),
            ("5 s", "is not a unit"),
            ("5sec", "`sec` is not a unit"),
            ("1.5s", "is not a unit"),
            ("99999999999999999999s", "is too long"),
            ("999999999999999d", "is too long"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
