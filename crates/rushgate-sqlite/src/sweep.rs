//! Forgetting what nobody needs any more.

use std::time::Duration;

use rushgate_core::Timestamp;
use rusqlite::Connection;

use crate::busy::patiently;
use crate::sql::sql;

/// Idle locks and undelivered news are kept for so long.
const KEEP_US: i64 = 3_600_000_000;
/// Lock rows looked at in one sweep.
const ROWS: i64 = 2_000;

/// Forgets locks that were idle for an hour, a stretch of names at a time, and old news.
///
/// A forgotten lock's fence raises the floor under all later fences, so no fence is ever given twice, even if the
/// machine's clock steps back.
pub(crate) fn sweep(
    conn: &Connection,
    patience: Duration,
    now: Timestamp,
    from: &mut String,
) -> rusqlite::Result<()> {
    let before = now.as_micros().cast_signed() - KEEP_US;
    let last: Option<String> = conn
        .prepare_cached(sql!("lock/sweep", "stretch"))?
        .query_row((from.as_str(), ROWS), |row| row.get(0))?;
    let Some(last) = last else {
        from.clear();
        return Ok(());
    };
    patiently(patience, || conn.execute_batch("BEGIN IMMEDIATE"))?;
    let stretch = (from.as_str(), last.as_str(), before);
    conn.prepare_cached(sql!("lock/sweep", "drop_dead"))?.execute(stretch)?;
    conn.prepare_cached(sql!("lock/sweep", "recount"))?.execute((from.as_str(), last.as_str()))?;
    conn.prepare_cached(sql!("lock/sweep", "raise_floor"))?.execute(stretch)?;
    conn.prepare_cached(sql!("lock/sweep", "forget"))?.execute(stretch)?;
    conn.prepare_cached(sql!("lock/sweep", "old_news"))?.execute([before])?;
    conn.execute_batch("COMMIT")?;
    *from = last;
    Ok(())
}
