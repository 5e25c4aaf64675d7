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

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rushgate_core::{Answer, Error, LedgerEntry, LedgerSnapshot, Result, SaleId, StoreInfo, check_skus};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::check::check_entries;
use crate::counters::Counters;
use crate::words::{closed, refuse};
use crate::{KnownSale, Ledger, LedgerCalls, LedgerSale, Written};
use serve::{Job, Reply};
use url::Options;

/// The ledger on a Postgres server, version 15 or later, shared by the processes of any number of machines.
///
/// Its tables are in their own schema: `rushgate`, unless the URL names another. A committed order is as durable as
/// the server's disks and synchronous replicas. Connections set `synchronous_commit` to `on` if the server has a
/// weaker setting.
///
/// Concurrent calls share a transaction; a single call does not wait for others. Transactions of several processes
/// run concurrently and wait only for those that write the same rows. A transaction that fails because of another one
/// is retried. The next call replaces a lost connection.
///
/// The ledger has its own thread, so it serves callers of any runtime. When it is dropped, calls that were sent still
/// complete in the background. [`close`](Ledger::close) waits for them.
pub struct PostgresLedger {
    info: StoreInfo,
    counters: Arc<Counters>,
    closed: AtomicBool,
    jobs: UnboundedSender<Job>,
}

impl PostgresLedger {
    /// Opens the ledger at `url`; see [`connect`](crate::connect).
    ///
    /// Accepts all options of a Postgres URL, and in addition:
    /// - `schema=NAME`: schema of the tables. Default: `rushgate`.
    /// - `pool=N`: maximum number of connections. Default: 4.
    /// - `statement_timeout=MILLISECONDS`: time limit of a statement. Default: 15,000.
    ///
    /// `sslmode=prefer`, the default, encrypts if the server supports it and accepts any certificate. `require`
    /// verifies the certificate with this machine's root certificates or those of the file `sslrootcert=`. `disable`
    /// uses no TLS.
    pub fn open(url: &str) -> Result<Self> {
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
        Ok(Self { info, counters, closed: AtomicBool::new(false), jobs })
    }

    /// Sends a job at once and returns the future of its answer.
    fn ask<T: Send + 'static>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Answer<'static, T> {
        self.counters.count(|calls| calls.calls += 1);
        if self.closed.load(Relaxed) {
            return refuse(closed());
        }
        let (reply, answer) = oneshot::channel();
        if self.jobs.send(job(reply)).is_err() {
            return refuse(closed());
        }
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(closed().maybe_happened())) })
    }
}

impl Ledger for PostgresLedger {
    fn open_sale(&self, sale: LedgerSale) -> Answer<'_, ()> {
        match check_skus(&sale.skus) {
            Ok(()) => self.ask(|reply| Job::OpenSale(sale, reply)),
            Err(error) => refuse(error),
        }
    }

    fn write(&self, entries: Vec<LedgerEntry>) -> Answer<'_, Vec<Written>> {
        match check_entries(&entries) {
            Ok(()) => self.ask(|reply| Job::Write(entries, reply)),
            Err(error) => refuse(error),
        }
    }

    fn find_sale(&self, sale: &SaleId) -> Answer<'_, Option<KnownSale>> {
        self.ask(|reply| Job::Sale(sale.clone(), reply))
    }

    fn advance(&self, sale: &SaleId) -> Answer<'_, u32> {
        self.ask(|reply| Job::Advance(sale.clone(), reply))
    }

    fn snapshot(&self, sale: &SaleId) -> Answer<'_, LedgerSnapshot> {
        self.ask(|reply| Job::Snapshot(sale.clone(), reply))
    }

    fn ping(&self) -> Answer<'_, ()> {
        self.ask(Job::Ping)
    }

    fn info(&self) -> StoreInfo {
        self.info.clone()
    }

    fn counters(&self) -> LedgerCalls {
        self.counters.read()
    }

    fn close(&self) -> Answer<'_, ()> {
        let answer = self.ask(Job::Close);
        self.closed.store(true, Relaxed);
        answer
    }
}

impl fmt::Debug for PostgresLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLedger").field("url", &self.info.url).finish_non_exhaustive()
    }
}
