//! Compares Rushgate with the raw ceiling of its store, in one run: `cargo run --profile dist -p rushgate-bench`.
//!
//! ```text
//! rushgate-bench [--alone] [sqlite|redis|valkey|http] [WORD]
//! ```
//! `--alone` omits the ceiling, for use with a profiler. A store's name measures that store alone, and a word
//! only the rows that contain it. SQLite files are created in the current directory. Redis is started on a
//! free port without persistence, as is usual for its benchmark tool, and stopped at the end.
#![allow(clippy::print_stdout)]

mod ceiling;
mod handed_sqlite;
mod http;
mod ours;
mod queues;
mod raw_sqlite;
mod redis;
mod sqlite;
mod table;

use anyhow::Result;
use rushgate_test::servers::Kind;

/// Same allocator as the `rushgate` command, for both sides of a row.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let alone = words.first().is_some_and(|word| word == "--alone");
    if alone {
        words.remove(0);
    }
    let mut stores = vec!["sqlite", "redis", "http"];
    if let Some(first) = words.first() {
        let known = ["sqlite", "redis", "valkey", "http"];
        if let Some(store) = known.into_iter().find(|store| store == first) {
            stores = vec![store];
            words.remove(0);
        }
    }
    let table = table::Table::new(words.into_iter().next(), alone);
    table::machine();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for store in stores {
        match store {
            "sqlite" => sqlite::measure(&table, &runtime)?,
            "http" => http::measure(&table, &runtime)?,
            "valkey" => redis::measure(&table, &runtime, Kind::Valkey)?,
            _ => redis::measure(&table, &runtime, Kind::Redis)?,
        }
    }
    Ok(())
}
