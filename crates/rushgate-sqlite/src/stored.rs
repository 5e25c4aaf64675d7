//! Conversions between core's types and SQLite columns.

use std::time::Duration;

use rushgate_core::{Coded, Error, Result, Timestamp};
use rusqlite::Row;
use rusqlite::types::Type;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Converts a timestamp to microseconds.
pub(crate) const fn stored(time: Timestamp) -> i64 {
    // SQLite's integers are signed. Timestamps exceed their range only after the year 294,000.
    let micros = time.as_micros();
    if micros > i64::MAX as u64 { i64::MAX } else { micros as i64 }
}

/// Converts a duration to microseconds.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn time(row: &Row<'_>, at: usize) -> rusqlite::Result<Timestamp> {
    Ok(Timestamp::from_micros(row.get::<_, i64>(at)?.cast_unsigned()))
}

pub(crate) fn optional_time(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(|us| Timestamp::from_micros(us.cast_unsigned())))
}

/// Reads a text column as one of core's names or IDs.
pub(crate) fn parsed<T: std::str::FromStr<Err = Error>>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    parse(row.get_ref(at)?.as_str()?, at)
}

/// Parses a text as one of core's names or IDs.
pub(crate) fn parse<T: std::str::FromStr<Err = Error>>(text: &str, at: usize) -> rusqlite::Result<T> {
    text.parse().map_err(|error| unreadable(at, error))
}

/// Reads the number of a variant.
pub(crate) fn coded<T: Coded>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    let code: u32 = row.get(at)?;
    T::from_code(code.into())
        .ok_or_else(|| unreadable(at, Error::corrupt(format_args!("an unknown state number: {code}"))))
}

/// Serializes a value as JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::bug(error.to_string()))
}

/// Reads a column that [`json`] wrote.
pub(crate) fn read_json<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(at)?.as_str()?;
    serde_json::from_str(text).map_err(|error| unreadable(at, Error::corrupt(error.to_string())))
}

/// The error for a column value that the store never writes.
pub(crate) fn unreadable(at: usize, why: Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(at, Type::Text, Box::new(why))
}
