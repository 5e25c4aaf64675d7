//! Deletes data that is no longer needed.

use std::time::Duration;

use rushgate_core::Timestamp;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row};

use crate::busy::retry_while_busy;
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

/// One round of deletions.
pub(crate) struct Sweep<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) busy_timeout: Duration,
    pub(crate) now: Timestamp,
    pub(crate) counters: &'c Counters,
}

impl<'c> Sweep<'c> {
    /// Prepares a statement, and counts it.
    fn prepare(&self, sql: &'static str) -> rusqlite::Result<CachedStatement<'c>> {
        self.counters.count_statements(1);
        self.conn.prepare_cached(sql)
    }

    fn transaction(&self, work: impl FnOnce() -> rusqlite::Result<()>) -> rusqlite::Result<()> {
        retry_while_busy(self.busy_timeout, || self.conn.execute_batch("BEGIN IMMEDIATE"))?;
        // BEGIN and COMMIT.
        self.counters.count_statements(2);
        work()?;
        self.conn.execute_batch("COMMIT")?;
        self.counters.count_transaction();
        Ok(())
    }

    /// Deletes locks that were idle for an hour, one range of names per call, and old releases and notifications.
    ///
    /// The fencing token of a deleted lock raises the floor for all later ones. No token is ever assigned twice, even
    /// if the machine's clock steps back.
    pub(crate) fn locks(&self, from: &mut String) -> rusqlite::Result<()> {
        let before = self.now.as_micros().cast_signed() - KEEP_US;
        let read = |row: &Row<'_>| row.get::<_, Option<String>>(0);
        let last = self.prepare(sql!("lock/sweep", "stretch"))?.query_row((from.as_str(), ROWS), read)?;
        let Some(last) = last else {
            from.clear();
            return Ok(());
        };
        self.transaction(|| {
            let (first, end) = (from.as_str(), last.as_str());
            self.prepare(sql!("lock/sweep", "drop_dead"))?.execute((first, end, before))?;
            self.prepare(sql!("lock/sweep", "recount"))?.execute((first, end))?;
            self.prepare(sql!("lock/sweep", "raise_floor"))?.execute((first, end, before))?;
            self.prepare(sql!("lock/sweep", "forget"))?.execute((first, end, before))?;
            self.prepare(sql!("lock/sweep", "old_releases"))?.execute([before])?;
            self.prepare(sql!("lock/sweep", "old_news"))?.execute([before]).map(drop)
        })?;
        *from = last;
        Ok(())
    }

    /// Deletes some expired uniqueness windows. A new window also deletes expired ones; this handles the last of them.
    pub(crate) fn periods(&self) -> rusqlite::Result<()> {
        let now = self.now.as_micros().cast_signed();
        if !self.prepare(sql!("queue/unique", "is_over"))?.query_row([now], |row| row.get(0))? {
            return Ok(());
        }
        self.transaction(|| self.prepare(sql!("queue/unique", "forget"))?.execute((now, PERIODS)).map(drop))
    }

    /// Deletes some tickets of a closed room, and the room's entry once no ticket is left.
    pub(crate) fn room(&self) -> rusqlite::Result<()> {
        let read = |row: &Row<'_>| row.get::<_, i64>(0);
        let closed = self.prepare(sql!("room/close", "next"))?.query_row([], read).optional()?;
        let Some(no) = closed else { return Ok(()) };
        self.transaction(|| {
            if self.prepare(sql!("room/close", "tickets"))?.execute((no, TICKETS))? < TICKETS {
                self.prepare(sql!("room/close", "forget"))?.execute([no])?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep<'c>(conn: &'c Connection, counters: &'c Counters, now: u64) -> Sweep<'c> {
        Sweep { conn, busy_timeout: Duration::ZERO, now: Timestamp::from_micros(now), counters }
    }

    fn sweep_at(conn: &Connection, counters: &Counters) {
        sweep(conn, counters, 2 * KEEP_US.cast_unsigned()).locks(&mut String::new()).unwrap();
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
            sweep(&conn, &counters, 0).room().unwrap();
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
            sweep(&conn, &counters, 10).periods().unwrap();
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
