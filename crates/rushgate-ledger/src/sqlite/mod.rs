pub(crate) mod fault;
mod open;
mod record;
pub(crate) mod session;
mod snapshot;
mod thread;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::Sender;

use rushgate_core::{
    Answer, Durability, Error, LedgerEntry, LedgerSnapshot, Result, SaleId, StoreInfo, check_skus,
};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::check::check_entries;
use crate::counters::Counters;
use crate::words::{closed, refuse};
use crate::{KnownSale, Ledger, LedgerCalls, LedgerSale, Written};
use thread::{Close, Job, Read, Reply};

/// The embedded ledger: an SQLite file, shared by the processes of one machine.
///
/// A committed order survives a power cut (`synchronous=FULL`). Concurrent calls share a transaction; a single call
/// does not wait for others. A step waits up to 5 s for another process's transaction, then fails with
/// [`is_unavailable`](Error::is_unavailable).
///
/// When the ledger is dropped, calls that were sent still complete in the background. [`close`](Ledger::close) waits
/// for them.
pub struct SqliteLedger {
    url: String,
    durability: Durability,
    counters: Arc<Counters>,
    closed: AtomicBool,
    writer: Sender<Job>,
    /// `None` for a ledger in memory, which only one connection can access.
    reader: Option<Sender<Job>>,
}

impl SqliteLedger {
    /// Opens the file at `path`, or creates it; see [`connect`](crate::connect).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_file(path.as_ref(), None)
    }

    /// Opens the file at `path` like [`open`](Self::open), with a maximum size in bytes, rounded down to pages of
    /// 4,096 bytes. A write that needs more fails with [`is_full`](Error::is_full). The write-ahead log is not
    /// included: about 64 MiB, more while a reader prevents a checkpoint.
    pub fn open_at_most(path: impl AsRef<Path>, bytes: u64) -> Result<Self> {
        Self::open_file(path.as_ref(), Some(bytes))
    }

    /// Creates a ledger in the memory of this process, for tests. Its data is lost with the value.
    pub fn in_memory() -> Result<Self> {
        let writer = open::writer(None, None).map_err(|error| error.doing("open a ledger in memory"))?;
        Self::start("sqlite::memory:".into(), Durability::D0, writer, None)
    }

    fn open_file(path: &Path, bytes_max: Option<u64>) -> Result<Self> {
        let doing = |error: Error| error.doing(format_args!("open the ledger {}", path.display()));
        let writer = open::writer(Some(path), bytes_max).map_err(doing)?;
        let reader = open::reader(path).map_err(doing)?;
        Self::start(format!("sqlite:{}", path.display()), Durability::D2, writer, Some(reader))
    }

    fn start(
        url: String,
        durability: Durability,
        writer: Connection,
        reader: Option<Connection>,
    ) -> Result<Self> {
        let counters = Arc::new(Counters::default());
        let start = |name, conn| thread::start(name, conn, counters.clone());
        let writer = start("ledger-write", writer)?;
        let reader = reader.map(|conn| start("ledger-read", conn)).transpose()?;
        Ok(Self { url, durability, counters, closed: AtomicBool::new(false), writer, reader })
    }

    fn reader(&self) -> &Sender<Job> {
        self.reader.as_ref().unwrap_or(&self.writer)
    }

    /// Sends a job at once and returns the future of its answer.
    fn ask<T: Send + 'static>(
        &self,
        to: &Sender<Job>,
        job: impl FnOnce(Reply<T>) -> Job,
    ) -> Answer<'static, T> {
        self.counters.count(|calls| calls.calls += 1);
        if self.closed.load(Relaxed) {
            return refuse(closed());
        }
        let (reply, answer) = oneshot::channel();
        if to.send(job(reply)).is_err() {
            return refuse(closed());
        }
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(closed().maybe_happened())) })
    }
}

impl Ledger for SqliteLedger {
    fn open_sale(&self, sale: LedgerSale) -> Answer<'_, ()> {
        match check_skus(&sale.skus) {
            Ok(()) => self.ask(&self.writer, |reply| Job::OpenSale(sale, reply)),
            Err(error) => refuse(error),
        }
    }

    fn write(&self, entries: Vec<LedgerEntry>) -> Answer<'_, Vec<Written>> {
        match check_entries(&entries) {
            Ok(()) => self.ask(&self.writer, |reply| Job::Write(entries, reply)),
            Err(error) => refuse(error),
        }
    }

    fn find_sale(&self, sale: &SaleId) -> Answer<'_, Option<KnownSale>> {
        self.ask(self.reader(), |reply| Job::Read(Read::Sale(sale.clone(), reply)))
    }

    fn advance(&self, sale: &SaleId) -> Answer<'_, u32> {
        self.ask(&self.writer, |reply| Job::Advance(sale.clone(), reply))
    }

    fn snapshot(&self, sale: &SaleId) -> Answer<'_, LedgerSnapshot> {
        self.ask(self.reader(), |reply| Job::Read(Read::Snapshot(sale.clone(), reply)))
    }

    fn ping(&self) -> Answer<'_, ()> {
        self.ask(self.reader(), |reply| Job::Read(Read::Ping(reply)))
    }

    fn info(&self) -> StoreInfo {
        let server = format!("SQLite {}", rusqlite::version());
        StoreInfo { url: self.url.clone(), server, durability: self.durability }
    }

    fn counters(&self) -> LedgerCalls {
        self.counters.read()
    }

    fn close(&self) -> Answer<'_, ()> {
        let after = self.reader.as_ref().and_then(|reader| {
            let (reply, closed) = oneshot::channel();
            reader.send(Job::Close(Close { reply, after: None })).ok().map(|()| closed)
        });
        let answer = self.ask(&self.writer, |reply| Job::Close(Close { reply, after }));
        self.closed.store(true, Relaxed);
        answer
    }
}

impl fmt::Debug for SqliteLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteLedger").field("url", &self.url).finish_non_exhaustive()
    }
}
