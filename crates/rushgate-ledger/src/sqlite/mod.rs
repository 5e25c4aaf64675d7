//! The ledger in an SQLite file, shared by the processes of one machine.
//!
//! A committed order survives a power cut (`synchronous=FULL`). A step waits up to 5 s for another process's
//! transaction, then fails with [`is_unavailable`](Error::is_unavailable).

pub(crate) mod fault;
mod open;
mod record;
pub(crate) mod session;
mod snapshot;
mod thread;

use std::path::Path;
use std::sync::Arc;

use rushgate_core::{Durability, Error, Result, StoreInfo};
use rusqlite::Connection;

use crate::client::Client;
use crate::counters::Counters;

/// Opens the file at `path`, or creates it.
pub(crate) fn open(path: &Path, bytes_max: Option<u64>) -> Result<Client> {
    let doing = |error: Error| error.doing(format_args!("open the ledger {}", path.display()));
    let writer = open::writer(Some(path), bytes_max).map_err(doing)?;
    let reader = open::reader(path).map_err(doing)?;
    start(format!("sqlite:{}", path.display()), Durability::D2, writer, Some(reader))
}

/// Creates a ledger in the memory of this process, which only one connection can access.
pub(crate) fn in_memory() -> Result<Client> {
    let writer = open::writer(None, None).map_err(|error| error.doing("open a ledger in memory"))?;
    start("sqlite::memory:".into(), Durability::D0, writer, None)
}

fn start(
    url: String,
    durability: Durability,
    writer: Connection,
    reader: Option<Connection>,
) -> Result<Client> {
    let counters = Arc::new(Counters::default());
    let start = |name, conn| thread::start(name, conn, counters.clone());
    let writer = start("ledger-write", writer)?;
    let reader = reader.map(|conn| start("ledger-read", conn)).transpose()?;
    let server = format!("SQLite {}", rusqlite::version());
    Ok(Client::new(StoreInfo { url, server, durability }, counters, writer, reader))
}
