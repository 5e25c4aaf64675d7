//! Rows of a store in a file.

use std::path::Path;

use anyhow::Result;
use tokio::runtime::Runtime;

use crate::table::{LENGTH, ROUNDS, Table, median};
use crate::{handed_sqlite, ours, queues, raw_sqlite};

/// Number of concurrent callers, and operations per raw transaction.
const CALLERS: u64 = 64;
const DEEP: &str = "claim of one task";

pub fn measure(table: &Table, runtime: &Runtime) -> Result<()> {
    table.head(&format!(
        "SQLite {}: each answer is on the disk; raw: the same statements through rusqlite, {CALLERS} a transaction, \
         synchronous=FULL",
        rusqlite::version()
    ));
    let url = |path: &Path| format!("sqlite:{}", path.display());
    let row = |name: &str, ours: &dyn Fn(&str) -> Result<f64>, raw: &dyn Fn(&Path) -> Result<f64>| {
        let folder = tempfile::tempdir_in(".")?;
        let mut files = (0..).map(|n| folder.path().join(format!("{n}.db")));
        let mut raw_files = (0..).map(|n| folder.path().join(format!("raw-{n}.db")));
        table.row(
            name,
            || ours(&url(&files.next().unwrap_or_default())),
            || raw(&raw_files.next().unwrap_or_default()),
        )
    };
    let queue = |url: &str| runtime.block_on(ours::queue(url, CALLERS, LENGTH));
    let reserve = |url: &str| runtime.block_on(ours::reserve(url, CALLERS, LENGTH));
    row("lock cycles/s, 64 callers", &|url| runtime.block_on(ours::lock(url, CALLERS, LENGTH)), &|path| {
        raw_sqlite::lock(&raw_sqlite::open(path)?, CALLERS, LENGTH)
    })?;
    row("queue cycles/s, 64 callers", &queue, &|path| {
        raw_sqlite::queue(&raw_sqlite::open(path)?, CALLERS, LENGTH)
    })?;
    row("queue cycles/s, raw for callers that wait", &queue, &|path| {
        runtime.block_on(handed_sqlite::queue(path, CALLERS, LENGTH))
    })?;
    row("reservations/s, 64 callers", &reserve, &|path| {
        raw_sqlite::reserve(&raw_sqlite::open(path)?, CALLERS, LENGTH)
    })?;
    // How fast one writer is that never waits for the disk.
    row("reservations/s, raw, disk not waited for", &reserve, &|path| {
        let conn = raw_sqlite::open(path)?;
        conn.pragma_update(None, "synchronous", "OFF")?;
        raw_sqlite::reserve(&conn, CALLERS, LENGTH)
    })?;
    row("reservations/s, raw for callers that wait", &reserve, &|path| {
        runtime.block_on(handed_sqlite::reserve(path, CALLERS, LENGTH))
    })?;
    row("step of a lone caller (lock), µs", &|url| runtime.block_on(ours::lone(url, LENGTH)), &|path| {
        raw_sqlite::lone(&raw_sqlite::open(path)?, LENGTH)
    })?;
    let folder = tempfile::tempdir_in(".")?;
    let number = std::cell::Cell::new(0);
    let fresh = || {
        number.set(number.get() + 1);
        Ok(url(&folder.path().join(format!("queues-{}.db", number.get()))))
    };
    queues::measure(table, runtime, "SQLite", &fresh, None)?;
    if table.wants(DEEP) {
        deep_queue(runtime)?;
    }
    Ok(())
}

/// Compares a claim with few and with very many tasks waiting.
fn deep_queue(runtime: &Runtime) -> Result<()> {
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        small.push(runtime.block_on(ours::claim_with_waiting(10_000))?);
        large.push(runtime.block_on(ours::claim_with_waiting(1_000_000))?);
    }
    let (small, large) = (median(small), median(large));
    println!("{DEEP}, µs: {small:.1} with 10,000 waiting, {large:.1} with 1,000,000: {:.2}", large / small);
    Ok(())
}
