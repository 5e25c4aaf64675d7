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
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for _ in 0..group {
            op(n)?;
            n += 1;
        }
        conn.prepare_cached("COMMIT")?.execute([])?;
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

/// Enqueue, claim one, and complete, each in its own group: cycles per second.
pub fn queue(conn: &Connection, group: u64, length: Duration) -> Result<f64> {
    conn.execute("INSERT INTO queue (name) VALUES ('bench')", [])?;
    let add = verb!("queue/enqueue", "add");
    let (waiting, lease) = (verb!("queue/claim", "waiting"), verb!("queue/claim", "lease"));
    let done = verb!("queue/complete", "done");
    let store = verb!("queue/row", "store");
    let payload = [b'x'; 100];
    let mut claimed: Vec<String> = Vec::new();
    let rate = grouped(conn, group, length, |n| {
        let at = now();
        match n / group % 3 {
            0 => {
                let (id, content_type) = (format!("task:{n}"), "application/octet-stream");
                let params =
                    (1, id, 5, at, n, at, 20, content_type, payload, n, false, None::<i64>, None::<String>);
                conn.prepare_cached(add)?.execute(params)?;
            }
            1 => {
                let (arrival, id) = conn
                    .prepare_cached(waiting)?
                    .query_row((1, 0, 1), |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
                conn.prepare_cached(lease)?.execute((arrival, n as i64 + 1, at + 30_000_000, "worker"))?;
                claimed.push(id);
            }
            _ => {
                let at = claimed.len() - group as usize + (n % group) as usize;
                let params = (1, &claimed[at], (n - group) as i64 + 1);
                conn.prepare_cached(done)?.query_row(params, |row| row.get::<_, i64>(0))?;
            }
        }
        if n % group == group - 1 {
            conn.prepare_cached(store)?.execute((1, false, 0, n, n, n, 0))?;
        }
        Ok(())
    })?;
    Ok(rate / 3.0)
}

/// Reservations of one unit each by new buyers, with the event in the same step: reservations per second.
pub fn reserve(conn: &Connection, group: u64, length: Duration) -> Result<f64> {
    let created = ("bench", 1, None::<i64>, None::<i64>, true, [0; 16], 0, "");
    conn.query_row(verb!("sale/create", "sale"), created, |row| row.get::<_, i64>(0))?;
    conn.execute(verb!("sale/create", "sku"), (1, 0, "unit", 10_000_000, 1))?;
    let (one, has, own) =
        (verb!("sale/hold", "one"), verb!("sale/reserve", "has"), verb!("sale/reserve", "own"));
    let (count, append, hold) =
        (verb!("sale/reserve", "count"), verb!("sale/event", "append"), verb!("sale/reserve", "hold"));
    let (sale, skus) = (verb!("sale/row", "sale"), verb!("sale/row", "skus"));
    let (store_sale, store_sku) = (verb!("sale/row", "store_sale"), verb!("sale/row", "store_sku"));
    grouped(conn, group, length, |n| {
        let at = now();
        // IDs are hashes, so they are in random order.
        let id = u128::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835).to_be_bytes();
        let buyer = format!("buyer:{n}");
        if n % group == 0 {
            conn.prepare_cached(sale)?.query_row(("bench", 0), |row| row.get::<_, i64>(0))?;
            conn.prepare_cached(skus)?.query_row([1], |row| row.get::<_, i64>(0))?;
        }
        let none = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        let missing = conn.prepare_cached(one)?.query_row((1, id), none).is_err()
            && conn.prepare_cached(has)?.query_row((1, &buyer, 0), none).is_err();
        anyhow::ensure!(missing, "the buyer is new");
        conn.prepare_cached(own)?.execute((1, 0, n + 1, id))?;
        conn.prepare_cached(count)?.execute((1, &buyer, 0, 1))?;
        conn.prepare_cached(append)?.execute((1, n + 1, at, 0, id, "0:1"))?;
        conn.prepare_cached(hold)?.execute((1, id, &buyer, at, n + 1, 1, "any unit*1", "0:1"))?;
        if n % group == group - 1 {
            let never = None::<i64>;
            conn.prepare_cached(store_sale)?.execute((
                1,
                1,
                n + 1,
                1,
                never,
                0,
                None::<[u8; 16]>,
                never,
                never,
                never,
                0,
                None::<[u8; 16]>,
                0,
            ))?;
            conn.prepare_cached(store_sku)?.execute((1, 0, 10_000_000, n + 1, 0, 0, n + 1, 0, 0))?;
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
