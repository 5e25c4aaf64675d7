//! The ledger on a Postgres server, version 15 or later, shared by the processes of any number of machines.
//!
//! Its tables are in their own schema. A committed order is as durable as the server's disks and synchronous replicas.
//! Connections set `synchronous_commit` to `on` if the server has a weaker setting.
//!
//! Transactions of several processes run concurrently and wait only for those that write the same rows. A transaction
//! that fails because of another one is retried. The next call replaces a lost connection.

pub(crate) mod fault;
pub(crate) mod hosts;
pub(crate) mod late;
pub(crate) mod open;
mod record;
mod serve;
pub(crate) mod session;
mod snapshot;
pub(crate) mod tls;
pub(crate) mod url;
mod write;

use std::sync::Arc;

use rushgate_core::{Error, Result, StoreInfo};

use crate::client::Client;
use crate::counters::Counters;
use url::Options;

/// Opens the ledger at `url`.
pub(crate) fn open(url: &str) -> Result<Client> {
    let options = Options::parse(url)?;
    let shown = options.to_string();
    let counters = Arc::new(Counters::default());
    let doing = |error: Error| error.doing(format_args!("open the ledger {shown}"));
    let (jobs, server) = serve::start(options, Arc::clone(&counters)).map_err(doing)?;
    let info = StoreInfo {
        url: shown,
        server: format!("PostgreSQL {}", server.version),
        durability: server.durability,
    };
    Ok(Client::new(info, counters, jobs, None))
}
