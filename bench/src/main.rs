//! Rushgate beside the raw ceiling of its store, in one run: `cargo run --release -p rushgate-bench`.
//!
//! ```text
//! rushgate-bench [--alone] [sqlite|redis|valkey|http] [WORD]
//! ```
//! `--alone` leaves the ceiling out, for a look with a profiler. A store's name measures that store alone, a word only the rows with that word in their name. The SQLite files are
//! made in the present directory; Redis is started on a free port and stopped at the end, without persistence, as
//! the server's own benchmark tool is mostly run.
#![allow(clippy::print_stdout)]

mod ceiling;
mod http;
mod ours;
mod queues;
mod raw_sqlite;
mod redis;
mod sqlite;
mod table;

use anyhow::Result;
use rushgate_testkit::servers::Kind;

/// As the command has it, for both sides of a row.
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
