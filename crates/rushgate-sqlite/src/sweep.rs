//! Forgetting what nobody needs any more.

use std::time::Duration;

use rushgate_core::Timestamp;
use rusqlite::{Connection, ToSql};

use crate::busy::patiently;
use crate::sql::sql;
use crate::writer::Counters;

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
    counters: &Counters,
    from: &mut String,
) -> rusqlite::Result<()> {
    let before = now.as_micros().cast_signed() - KEEP_US;
    counters.count_statements(1);
    let last: Option<String> = conn
        .prepare_cached(sql!("lock/sweep", "stretch"))?
        .query_row((from.as_str(), ROWS), |row| row.get(0))?;
    let Some(last) = last else {
        from.clear();
        return Ok(());
    };
    patiently(patience, || conn.execute_batch("BEGIN IMMEDIATE"))?;
    // BEGIN and COMMIT are statements too.
    counters.count_statements(2);
    let (first, end) = (from.as_str(), last.as_str());
    let exec = |sql, params: &[&dyn ToSql]| {
        counters.count_statements(1);
        conn.prepare_cached(sql)?.execute(params)
    };
    exec(sql!("lock/sweep", "drop_dead"), &[&first, &end, &before])?;
    exec(sql!("lock/sweep", "recount"), &[&first, &end])?;
    exec(sql!("lock/sweep", "raise_floor"), &[&first, &end, &before])?;
    exec(sql!("lock/sweep", "forget"), &[&first, &end, &before])?;
    exec(sql!("lock/sweep", "old_news"), &[&before])?;
    conn.execute_batch("COMMIT")?;
    counters.count_transaction();
    *from = last;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep_at(conn: &Connection, counters: &Counters) {
        let now = Timestamp::from_micros(2 * KEEP_US.cast_unsigned());
        sweep(conn, Duration::ZERO, now, counters, &mut String::new()).unwrap();
    }

    #[test]
    fn a_sweep_counts_what_it_did() {
        let (conn, counters) = (Connection::open_in_memory().unwrap(), Counters::default());
        conn.execute_batch(include_str!("../migrations/0001_init.sql")).unwrap();
        sweep_at(&conn, &counters);
        assert_eq!((counters.read().statements, counters.read().transactions), (1, 0), "nothing to sweep");
        conn.execute("INSERT INTO lock VALUES ('a', 1, NULL, 0, 0, '', 0, '', NULL, 0)", []).unwrap();
        sweep_at(&conn, &counters);
        assert_eq!((counters.read().statements, counters.read().transactions), (1 + 8, 1));
    }
}
