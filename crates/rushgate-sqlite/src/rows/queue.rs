//! A queue's row, and how its columns are read.

use std::time::Duration;

use rushgate_core::{KeyLimits, QueueLimits, QueueName, Rate, Retention};
use rusqlite::Row;

use crate::stored::coded;

/// A queue's row, cached for a group of calls.
pub(crate) struct QueueRow {
    pub(crate) name: QueueName,
    pub(crate) id: i64,
    pub(crate) paused: bool,
    pub(crate) limits: QueueLimits,
    pub(crate) len: u64,
    pub(crate) revision: u64,
    pub(crate) claim: u64,
    /// The latest place assigned.
    pub(crate) places: u64,
    /// Lower bound of the lease expiries.
    pub(crate) lease_floor: i64,
    /// Lower bound of the deadlines of waiting tasks.
    pub(crate) deadline_floor: i64,
    /// Upper bound of the ends of the uniqueness windows.
    pub(crate) unique_until: i64,
    /// Whether any live task waits for other tasks or has done so.
    pub(crate) linked: bool,
    /// Whether tasks have finished whose waiting tasks have not been updated.
    pub(crate) ended: bool,
    /// Number of tasks that became available: as many listeners are notified.
    pub(crate) wakeups: usize,
    pub(crate) changed: bool,
    /// Number of tasks dropped by the overflow policy.
    pub(crate) dropped: u64,
    /// Number of retained tasks, and whether it changed.
    pub(crate) kept: u64,
    pub(crate) kept_changed: bool,
    /// Number of the latest event, and whether it changed.
    pub(crate) event_last: u64,
    pub(crate) events_changed: bool,
}

impl QueueRow {
    /// Reads `load` of `sql/queue/row.sql`.
    pub(crate) fn read(row: &Row<'_>, name: &QueueName) -> rusqlite::Result<Self> {
        Ok(Self {
            name: name.clone(),
            id: row.get(0)?,
            paused: row.get(1)?,
            limits: read_limits(row, 2, 8, 15, 24)?,
            len: row.get::<_, i64>(3)?.cast_unsigned(),
            revision: row.get::<_, i64>(4)?.cast_unsigned(),
            claim: row.get::<_, i64>(5)?.cast_unsigned(),
            lease_floor: row.get::<_, Option<i64>>(6)?.unwrap_or(i64::MAX),
            places: row.get::<_, i64>(7)?.cast_unsigned(),
            deadline_floor: row.get::<_, Option<i64>>(20)?.unwrap_or(i64::MAX),
            unique_until: row.get::<_, Option<i64>>(21)?.unwrap_or_default(),
            linked: row.get(22)?,
            ended: row.get(23)?,
            wakeups: 0,
            changed: false,
            kept: row.get::<_, i64>(18)?.cast_unsigned(),
            dropped: row.get::<_, i64>(19)?.cast_unsigned(),
            kept_changed: false,
            event_last: row.get::<_, i64>(25)?.cast_unsigned(),
            events_changed: false,
        })
    }
}

/// Reads the capacity from column `bound`, the other limits from the seven columns at `others`, the retention from
/// two columns at `keep` with the overflow policy after them, and the number of events from `events`.
pub(crate) fn read_limits(
    row: &Row<'_>,
    bound: usize,
    others: usize,
    keep: usize,
    events: usize,
) -> rusqlite::Result<QueueLimits> {
    let age = row.get::<_, Option<i64>>(keep)?.map(|us| Duration::from_micros(us.cast_unsigned()));
    let rate = |at: usize| -> rusqlite::Result<Option<Rate>> {
        let per = row.get::<_, Option<i64>>(at + 1)?.map(|us| Duration::from_micros(us.cast_unsigned()));
        Ok(row.get::<_, Option<u32>>(at)?.zip(per).map(|(n, per)| Rate::new(n, per)))
    };
    Ok(QueueLimits {
        bound: row.get::<_, Option<i64>>(bound)?.map(i64::cast_unsigned),
        concurrency: row.get(others)?,
        rate: rate(others + 1)?,
        per_key: KeyLimits {
            concurrency: row.get(others + 3)?,
            rate: rate(others + 4)?,
            fifo: row.get(others + 6)?,
        },
        retention: age.zip(row.get(keep + 1)?).map(|(age, count)| Retention { age, count }),
        overflow: coded(row, keep + 2)?,
        events: row.get(events)?,
    })
}
