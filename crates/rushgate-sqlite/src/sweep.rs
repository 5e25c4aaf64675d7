//! Deletes data that is no longer needed.

use std::time::Duration;

use rushgate_core::Timestamp;
use rusqlite::{Connection, OptionalExtension, ToSql};

use crate::busy::patiently;
use crate::counters::Counters;
use crate::sql::sql;

/// Minimum time for which idle locks and undelivered notifications are kept, in microseconds.
const KEEP_US: i64 = 3_600_000_000;
/// Maximum number of lock rows examined per sweep.
const ROWS: i64 = 2_000;
/// Maximum number of expired uniqueness windows deleted per sweep.
const PERIODS: u32 = 20_000;
/// Maximum number of tickets of a closed room deleted per sweep.
const TICKETS: usize = 20_000;

/// Deletes locks that were idle for an hour, one range of names per call, and old releases and notifications.
///
/// The fencing token of a deleted lock raises the floor for all later ones. No token is ever assigned twice, even if
/// the machine's clock steps back.
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
    // BEGIN and COMMIT.
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
    exec(sql!("lock/sweep", "old_releases"), &[&before])?;
    exec(sql!("lock/sweep", "old_news"), &[&before])?;
    conn.execute_batch("COMMIT")?;
    counters.count_transaction();
    *from = last;
    Ok(())
}

/// Deletes some expired uniqueness windows. A new window also deletes expired ones; this handles the last of them.
pub(crate) fn sweep_periods(
    conn: &Connection,
    patience: Duration,
    now: Timestamp,
    counters: &Counters,
) -> rusqlite::Result<()> {
    let now = now.as_micros().cast_signed();
    counters.count_statements(1);
    if !conn.prepare_cached(sql!("queue/unique", "is_over"))?.query_row([now], |row| row.get(0))? {
        return Ok(());
    }
    patiently(patience, || conn.execute_batch("BEGIN IMMEDIATE"))?;
    // BEGIN, DELETE and COMMIT.
    counters.count_statements(3);
    conn.prepare_cached(sql!("queue/unique", "forget"))?.execute((now, PERIODS))?;
    conn.execute_batch("COMMIT")?;
    counters.count_transaction();
    Ok(())
}

/// Deletes some tickets of a closed room, and the room's entry once no ticket is left.
pub(crate) fn sweep_room(conn: &Connection, patience: Duration, counters: &Counters) -> rusqlite::Result<()> {
    counters.count_statements(1);
    let closed = conn.prepare_cached(sql!("room/close", "next"))?.query_row([], |row| row.get::<_, i64>(0));
    let Some(no) = closed.optional()? else { return Ok(()) };
    patiently(patience, || conn.execute_batch("BEGIN IMMEDIATE"))?;
    // BEGIN, DELETE and COMMIT.
    counters.count_statements(3);
    let tickets = conn.prepare_cached(sql!("room/close", "tickets"))?.execute((no, TICKETS))?;
    if tickets < TICKETS {
        counters.count_statements(1);
        conn.prepare_cached(sql!("room/close", "forget"))?.execute([no])?;
    }
    conn.execute_batch("COMMIT")?;
    counters.count_transaction();
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
    fn a_closed_room_is_forgotten_some_tickets_at_a_time() {
        let (conn, counters) = (Connection::open_in_memory().unwrap(), Counters::default());
        conn.execute_batch(include_str!("../migrations/0001_init.sql")).unwrap();
        let tickets = || conn.query_row("SELECT count(*) FROM room_ticket", [], |row| row.get::<_, usize>(0));
        conn.execute_batch(
            "INSERT INTO closed_room VALUES (1); INSERT INTO room_ticket VALUES (2, 'ann', 0, 0)",
        )
        .unwrap();
        let many = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT 25000)
                    INSERT INTO room_ticket SELECT 1, 'b' || n, n, NULL FROM n";
        conn.execute_batch(many).unwrap();
        for left in [5_001, 1, 1] {
            sweep_room(&conn, Duration::ZERO, &counters).unwrap();
            assert_eq!(tickets().unwrap(), left);
        }
        assert_eq!(counters.read().transactions, 2, "there was nothing left to do");
    }

    #[test]
    fn periods_that_are_over_are_forgotten_though_no_other_begins() {
        let (conn, counters) = (Connection::open_in_memory().unwrap(), Counters::default());
        conn.execute_batch(include_str!("../migrations/0001_init.sql")).unwrap();
        conn.execute_batch("INSERT INTO unique_id VALUES (1, 'a', 9), (2, 'a', 10), (2, 'b', 11)").unwrap();
        for _ in 0..2 {
            sweep_periods(&conn, Duration::ZERO, Timestamp::from_micros(10), &counters).unwrap();
        }
        let left: String = conn.query_row("SELECT id FROM unique_id", [], |row| row.get(0)).unwrap();
        assert_eq!((left.as_str(), counters.read().transactions), ("b", 1), "there was nothing left to do");
    }

    #[test]
    fn a_sweep_counts_what_it_did() {
        let (conn, counters) = (Connection::open_in_memory().unwrap(), Counters::default());
        conn.execute_batch(include_str!("../migrations/0001_init.sql")).unwrap();
        sweep_at(&conn, &counters);
        assert_eq!((counters.read().statements, counters.read().transactions), (1, 0), "nothing to sweep");
        conn.execute("INSERT INTO lock VALUES ('a', 1, NULL, 0, 0, '', 0, '', x'', 0)", []).unwrap();
        sweep_at(&conn, &counters);
        assert_eq!((counters.read().statements, counters.read().transactions), (1 + 9, 1));
    }
}
