mod books;
pub(crate) mod fault;
pub(crate) mod hosts;
pub(crate) mod late;
pub(crate) mod open;
mod record;
mod serve;
pub(crate) mod session;
mod sql;
pub(crate) mod tls;
pub(crate) mod url;
mod write;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rushgate_core::{Answer, Error, LedgerBooks, OrderTask, Result, SaleId, StoreInfo};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::counters::{Counters, add};
use crate::ledger::check_entries;
use crate::{KnownSale, Ledger, LedgerCalls, LedgerSale, Written};
use serve::{Job, Reply};
use url::Options;

/// The ledger on a Postgres server, 15 or later, shared by the processes of any number of machines.
///
/// It has tables of its own in a schema of its own, `rushgate` unless the URL names another. A committed order
/// survives what the server's disks and synchronous replicas survive; the connections set `synchronous_commit` to
/// `on` where the server had it weaker.
///
/// Calls that wait at the same moment share one transaction; a lone call does not wait for company. Transactions of
/// several processes run beside each other and wait only for those that write the same rows. What fails because
/// another was in the way is tried again; a lost connection is replaced by the next call.
///
/// The value has a thread of its own, so it serves callers of any runtime. Dropping it lets the calls that were sent
/// be carried out, without waiting for them; [`close`](Ledger::close) waits.
pub struct PostgresLedger {
    info: StoreInfo,
    counters: Arc<Counters>,
    closed: AtomicBool,
    jobs: UnboundedSender<Job>,
}

impl PostgresLedger {
    /// Opens the ledger at `url`; see [`connect`](crate::connect).
    ///
    /// Besides the options of any Postgres URL it takes `schema=NAME`, `pool=N` (connections at most, 4), and
    /// `statement_timeout=MILLISECONDS` (15,000), after which a statement that waits is given up.
    /// `sslmode=prefer`, the default, encrypts if the server can, with any certificate; `require` checks it by the
    /// certificates of this machine or of the file `sslrootcert=`; `disable` neither.
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

    /// Sends a job now and gives the future of its answer.
    fn ask<T: Send + 'static>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Answer<'static, T> {
        add(&self.counters.calls, 1);
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

fn closed() -> Error {
    Error::unavailable("the ledger is closed").hint("connect again")
}

fn refuse<T: Send + 'static>(error: Error) -> Answer<'static, T> {
    Box::pin(async move { Err(error) })
}

impl Ledger for PostgresLedger {
    fn open_sale(&self, sale: LedgerSale) -> Answer<'_, ()> {
        match sale.check() {
            Ok(()) => self.ask(|reply| Job::OpenSale(sale, reply)),
            Err(error) => refuse(error),
        }
    }

    fn write(&self, entries: Vec<OrderTask>) -> Answer<'_, Vec<Written>> {
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

    fn books(&self, sale: &SaleId) -> Answer<'_, LedgerBooks> {
        self.ask(|reply| Job::Books(sale.clone(), reply))
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
