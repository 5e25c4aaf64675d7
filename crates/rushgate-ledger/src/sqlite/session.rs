//! A connection whose statements are counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Params, Row};

use crate::LedgerCalls;

#[derive(Default)]
pub(super) struct Counters {
    pub(super) calls: AtomicU64,
    pub(super) transactions: AtomicU64,
    pub(super) statements: AtomicU64,
    pub(super) entries: AtomicU64,
    pub(super) orders: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) busy_us: AtomicU64,
    pub(super) waited_us: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

impl Counters {
    /// Notes `elapsed`, of which `waited` was spent waiting for another process.
    pub(super) fn worked(&self, elapsed: Duration, waited: Duration) {
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        add(&self.busy_us, micros(elapsed.saturating_sub(waited)));
        add(&self.waited_us, micros(waited));
    }

    pub(super) fn read(&self) -> LedgerCalls {
        LedgerCalls {
            calls: self.calls.load(Relaxed),
            transactions: self.transactions.load(Relaxed),
            statements: self.statements.load(Relaxed),
            entries: self.entries.load(Relaxed),
            orders: self.orders.load(Relaxed),
            refused: self.refused.load(Relaxed),
            busy_us: self.busy_us.load(Relaxed),
            waited_us: self.waited_us.load(Relaxed),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Session<'c> {
    conn: &'c Connection,
    counters: &'c Counters,
}

impl<'c> Session<'c> {
    pub(super) fn new(conn: &'c Connection, counters: &'c Counters) -> Self {
        Self { conn, counters }
    }

    /// Carries a statement out, and says how many rows it changed.
    pub(super) fn run(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        add(&self.counters.statements, 1);
        self.conn.prepare_cached(sql)?.execute(params)
    }

    /// The first row, if there is one.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        add(&self.counters.statements, 1);
        self.conn.prepare_cached(sql)?.query_row(params, read).optional()
    }

    /// Every row, until `visit` says `false`.
    pub(super) fn each(
        &self,
        sql: &str,
        params: impl Params,
        mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<()> {
        add(&self.counters.statements, 1);
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            if !visit(row)? {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn last_id(&self) -> i64 {
        self.conn.last_insert_rowid()
    }

    /// Undoes the transaction that is open, if SQLite has not done so itself.
    pub(super) fn roll_back(&self) {
        if !self.conn.is_autocommit() {
            // It can only fail because the transaction is gone already, which is what is wanted.
            let _ = self.conn.execute_batch("ROLLBACK");
        }
    }
}
