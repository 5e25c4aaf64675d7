//! A connection that counts its statements.

use rusqlite::{Connection, OptionalExtension, Params, Row};

use crate::counters::Counters;

/// The SQL of a file. Its header documents parameters and result.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".sql"))
    };
}
pub(crate) use sql;

#[derive(Clone, Copy)]
pub(super) struct Session<'c> {
    conn: &'c Connection,
    counters: &'c Counters,
}

impl<'c> Session<'c> {
    pub(super) fn new(conn: &'c Connection, counters: &'c Counters) -> Self {
        Self { conn, counters }
    }

    /// Executes a statement and returns the number of changed rows.
    pub(super) fn run(&self, sql: &str, params: impl Params) -> rusqlite::Result<usize> {
        self.counters.count(|calls| calls.statements += 1);
        self.conn.prepare_cached(sql)?.execute(params)
    }

    /// The first row, if any.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.counters.count(|calls| calls.statements += 1);
        self.conn.prepare_cached(sql)?.query_row(params, read).optional()
    }

    /// Calls `visit` for each row until it returns `false`.
    pub(super) fn each(
        &self,
        sql: &str,
        params: impl Params,
        mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<()> {
        self.counters.count(|calls| calls.statements += 1);
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

    /// Rolls back the open transaction, if SQLite has not done so itself.
    pub(super) fn roll_back(&self) {
        if !self.conn.is_autocommit() {
            // It fails only if no transaction is open, which is the desired state.
            let _ = self.conn.execute_batch("ROLLBACK");
        }
    }
}
