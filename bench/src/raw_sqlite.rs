//! The raw ceiling: the store's own statements through rusqlite alone, in one thread, in optimal groups.
//! There are no channels, tasks or answers, so Rushgate must cost more.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

const SCHEMA: &str = include_str!("../../crates/rushgate-sqlite/migrations/0001_init.sql");

macro_rules! verb {
    ($file:literal, $name:literal) => {
        named(include_str!(concat!("../../crates/rushgate-sqlite/sql/", $file, ".sql")), $name)
    };
}

/// The statement `name` from a verb's file.
fn named(file: &'static str, name: &str) -> &'static str {
    let mark = format!("-- name: {name}\n");
    let start = file.find(&mark).expect("the statement is in the file") + mark.len();
    let rest = &file[start..];
    &rest[..rest.find("-- name: ").unwrap_or(rest.len())]
}

/// A file with the store's schema and pragmas.
pub fn open(path: &Path) -> Result<Connection> {
    let conn = Connection::open(path)?;
    conn.pragma_update(None, "journal_mode", "WAL")?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "cache_size", -65_536)?;
    conn.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    conn.execute_batch(SCHEMA)?;
    conn.set_prepared_statement_cache_capacity(256);
    Ok(conn)
}

/// Runs `ops` in one transaction.
pub fn transaction(conn: &Connection, ops: impl FnOnce() -> Result<()>) -> Result<()> {
    conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    ops()?;
    conn.prepare_cached("COMMIT")?.execute([])?;
    Ok(())
}

/// Runs `op` with 0, 1, 2, … in transactions of `group` operations until the time is up. Returns operations
/// per second.
fn grouped(
    conn: &Connection,
    group: u64,
    length: Duration,
    mut op: impl FnMut(u64) -> Result<()>,
) -> Result<f64> {
    let start = Instant::now();
    let mut n = 0;
    while start.elapsed() < length {
        transaction(conn, || {
            for _ in 0..group {
                op(n)?;
                n += 1;
            }
            Ok(())
        })?;
    }
    Ok(n as f64 / start.elapsed().as_secs_f64())
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as i64
}

/// Acquire and release, each in its own group: cycles per second.
pub fn lock(conn: &Connection, group: u64, length: Duration) -> Result<f64> {
    let (take, free) = (verb!("lock/acquire", "take_free"), verb!("lock/release", "quick"));
    let rate = grouped(conn, group, length, |n| {
        let (name, token) = (format!("lock:{}", n % group), [(n % group) as u8; 16]);
        let at = now();
        if (n / group).is_multiple_of(2) {
            let params = (&name, at, token, at + 15_000_000, "host", 1, "");
            conn.prepare_cached(take)?.query_row(params, |row| row.get::<_, i64>(0))?;
        } else {
            conn.prepare_cached(free)?.execute((&name, token, at, 1_024))?;
        }
        Ok(())
    })?;
    Ok(rate / 2.0)
}

/// The statements of a queue.
pub struct Queue<'c>(&'c Connection);

impl<'c> Queue<'c> {
    pub fn create(conn: &'c Connection) -> Result<Self> {
        conn.execute("INSERT INTO queue (name) VALUES ('bench')", [])?;
        Ok(Self(conn))
    }

    pub fn enqueue(&self, id: &str, n: u64) -> Result<()> {
        let (at, content_type, payload) = (now(), "application/octet-stream", [b'x'; 100]);
        let params = (1, id, 5, at, n, at, 20, content_type, payload, n, false, None::<i64>, None::<String>);
        self.0.prepare_cached(verb!("queue/enqueue", "add"))?.execute(params)?;
        Ok(())
    }

    pub fn claim(&self, number: u64) -> Result<String> {
        let mut waiting = self.0.prepare_cached(verb!("queue/claim", "waiting"))?;
        let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
        let (arrival, id) = waiting.query_row((1, 0, 1), read)?;
        let lease = (arrival, number, now() + 30_000_000, "worker");
        self.0.prepare_cached(verb!("queue/claim", "lease"))?.execute(lease)?;
        Ok(id)
    }

    pub fn complete(&self, id: &str, number: u64) -> Result<()> {
        let mut done = self.0.prepare_cached(verb!("queue/complete", "done"))?;
        done.query_row((1, id, number), |row| row.get::<_, i64>(0))?;
        Ok(())
    }

    /// Writes the counters, once per transaction.
    pub fn store(&self, n: u64) -> Result<()> {
        self.0.prepare_cached(verb!("queue/row", "store"))?.execute((1, false, 0, n, n, n, 0))?;
        Ok(())
    }
}

/// Enqueue, claim one, and complete, each in its own group: cycles per second.
pub fn queue(conn: &Connection, group: u64, length: Duration) -> Result<f64> {
    let queue = Queue::create(conn)?;
    let mut claimed: Vec<String> = Vec::new();
    let rate = grouped(conn, group, length, |n| {
        match n / group % 3 {
            0 => queue.enqueue(&format!("task:{n}"), n)?,
            1 => claimed.push(queue.claim(n + 1)?),
            _ => {
                let at = claimed.len() - group as usize + (n % group) as usize;
                queue.complete(&claimed[at], n - group + 1)?;
            }
        }
        if n % group == group - 1 {
            queue.store(n)?;
        }
        Ok(())
    })?;
    Ok(rate / 3.0)
}

/// The statements of a sale.
pub struct Sale<'c>(&'c Connection);

impl<'c> Sale<'c> {
    pub fn create(conn: &'c Connection) -> Result<Self> {
        let created = ("bench", 1, None::<i64>, None::<i64>, true, [0; 16], 0, "");
        conn.query_row(verb!("sale/create", "sale"), created, |row| row.get::<_, i64>(0))?;
        conn.execute(verb!("sale/create", "sku"), (1, 0, "unit", 10_000_000, 1))?;
        Ok(Self(conn))
    }

    /// Reads the sale and its stock, once per transaction.
    pub fn load(&self) -> Result<()> {
        let id = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        self.0.prepare_cached(verb!("sale/row", "sale"))?.query_row(("bench", 0), id)?;
        self.0.prepare_cached(verb!("sale/row", "skus"))?.query_row([1], id)?;
        Ok(())
    }

    /// Reserves a unit for a new buyer, with the event in the same step.
    pub fn reserve(&self, n: u64) -> Result<()> {
        let at = now();
        // IDs are hashes, so they are in random order.
        let id = u128::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835).to_be_bytes();
        let buyer = format!("buyer:{n}");
        let run = |sql| self.0.prepare_cached(sql);
        let none = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        let missing = run(verb!("sale/hold", "one"))?.query_row((1, id), none).is_err()
            && run(verb!("sale/reserve", "has"))?.query_row((1, &buyer, 0), none).is_err();
        anyhow::ensure!(missing, "the buyer is new");
        run(verb!("sale/reserve", "own"))?.execute((1, 0, n + 1, id))?;
        run(verb!("sale/reserve", "count"))?.execute((1, &buyer, 0, 1))?;
        run(verb!("sale/event", "append"))?.execute((1, n + 1, at, 0, id, "0:1"))?;
        let hold = (1, id, &buyer, at, n + 1, 1, "any unit*1", "0:1");
        run(verb!("sale/reserve", "hold"))?.execute(hold)?;
        Ok(())
    }

    /// Writes the sale and its stock, once per transaction.
    pub fn store(&self, n: u64) -> Result<()> {
        let (never, nobody) = (None::<i64>, None::<[u8; 16]>);
        let sale = (1, 1, n + 1, 1, never, 0, nobody, never, never, never, 0, nobody, 0);
        self.0.prepare_cached(verb!("sale/row", "store_sale"))?.execute(sale)?;
        let sku = (1, 0, 10_000_000, n + 1, 0, 0, n + 1, 0, 0);
        self.0.prepare_cached(verb!("sale/row", "store_sku"))?.execute(sku)?;
        Ok(())
    }
}

/// Reservations of one unit each by new buyers: reservations per second.
pub fn reserve(conn: &Connection, group: u64, length: Duration) -> Result<f64> {
    let sale = Sale::create(conn)?;
    grouped(conn, group, length, |n| {
        if n % group == 0 {
            sale.load()?;
        }
        sale.reserve(n)?;
        if n % group == group - 1 {
            sale.store(n)?;
        }
        Ok(())
    })
}

/// A single transaction of one lock statement, in microseconds.
pub fn lone(conn: &Connection, length: Duration) -> Result<f64> {
    let cycles = lock(conn, 1, length)?;
    Ok(1e6 / (cycles * 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statements are the store's own, and their parameters here must keep up with them.
    #[test]
    fn every_raw_row_runs() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let fresh = |name: &str| open(&folder.path().join(name));
        let length = Duration::from_millis(50);
        assert!(lock(&fresh("lock")?, 64, length)? > 0.0);
        assert!(queue(&fresh("queue")?, 64, length)? > 0.0);
        assert!(reserve(&fresh("reserve")?, 64, length)? > 0.0);
        assert!(lone(&fresh("lone")?, length)? > 0.0);
        Ok(())
    }
}
