//! Rushgate beside the raw ceiling of its store, in one run: `cargo run --release -p rushgate-bench`.
//!
//! A word after it (`-- queue`) measures only the rows with that word in their name.
#![allow(clippy::print_stdout)]

mod ours;
mod raw;

use std::time::Duration;

use anyhow::Result;

/// How long each row is measured, and how often; the median is told.
const LENGTH: Duration = Duration::from_millis(1_500);
const ROUNDS: usize = 3;
/// Callers at the same time, and operations per raw transaction.
const CALLERS: u64 = 64;
const DEEP: &str = "claim of one task";

fn main() -> Result<()> {
    machine();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("{:<44} {:>12} {:>12} {:>7}", "", "rushgate", "raw ceiling", "ratio");
    row(
        "lock cycles/s, 64 callers",
        |path| runtime.block_on(ours::lock(path, CALLERS, LENGTH)),
        |conn| raw::lock(conn, CALLERS, LENGTH),
    )?;
    row(
        "queue cycles/s, 64 callers",
        |path| runtime.block_on(ours::queue(path, CALLERS, LENGTH)),
        |conn| raw::queue(conn, CALLERS, LENGTH),
    )?;
    row(
        "reservations/s, 64 callers",
        |path| runtime.block_on(ours::reserve(path, CALLERS, LENGTH)),
        |conn| raw::reserve(conn, CALLERS, LENGTH),
    )?;
    row(
        "lock step, lone caller, µs",
        |path| runtime.block_on(ours::lone(path, LENGTH)),
        |conn| raw::lone(conn, LENGTH),
    )?;
    if !wanted(DEEP) {
        return Ok(());
    }
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        small.push(runtime.block_on(ours::claim_with_waiting(10_000))?);
        large.push(runtime.block_on(ours::claim_with_waiting(1_000_000))?);
    }
    let (small, large) = (median(small), median(large));
    println!("\n{DEEP}, µs: {small:.1} with 10,000 waiting, {large:.1} with 1,000,000: {:.2}", large / small);
    Ok(())
}

/// True if the row was asked for.
fn wanted(row: &str) -> bool {
    std::env::args().nth(1).is_none_or(|word| row.contains(&word))
}

/// The medians of our figure and of the raw one, taken in turns.
fn row(
    name: &str,
    mut ours: impl FnMut(&std::path::Path) -> Result<f64>,
    mut raw: impl FnMut(&rusqlite::Connection) -> Result<f64>,
) -> Result<()> {
    if !wanted(name) {
        return Ok(());
    }
    let (mut mine, mut ceiling) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir_in(".")?;
        ceiling.push(raw(&raw::open(&folder.path().join("raw.db"))?)?);
        mine.push(ours(&folder.path().join("ours.db"))?);
    }
    let (mine, ceiling) = (median(mine), median(ceiling));
    println!("{name:<44} {mine:>12.1} {ceiling:>12.1} {:>7.2}", mine / ceiling);
    Ok(())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn machine() {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown CPU");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "{cores} cores,{}; SQLite {}, synchronous=FULL",
        model.trim_start_matches(['\t', ' ', ':']),
        rusqlite::version()
    );
    println!(
        "median of {ROUNDS} rounds of {LENGTH:?}; raw: the same statements through rusqlite, {CALLERS} a transaction\n"
    );
}
