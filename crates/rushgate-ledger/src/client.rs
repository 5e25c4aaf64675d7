//! The client of a ledger, which sends calls to the ledger's threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rushgate_core::{Answer, LedgerEntry, LedgerSnapshot, Result, SaleId, StoreInfo, check_skus};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::check::check_entries;
use crate::counters::Counters;
use crate::words::{closed, refuse};
use crate::{KnownSale, Ledger, LedgerCalls, LedgerSale, Written};

pub(crate) type Reply<T> = oneshot::Sender<Result<T>>;

/// Maximum number of entries per transaction, to keep commits short.
pub(crate) const GROUP_ENTRIES_MAX: usize = 4_000;

/// A call.
pub(crate) enum Job {
    OpenSale(LedgerSale, Reply<()>),
    Write(Vec<LedgerEntry>, Reply<Vec<Written>>),
    Advance(SaleId, Reply<u32>),
    Read(Read),
    Close(Close),
}

pub(crate) enum Read {
    Snapshot(SaleId, Reply<LedgerSnapshot>),
    Sale(SaleId, Reply<Option<KnownSale>>),
    Ping(Reply<()>),
}

pub(crate) struct Close {
    pub(crate) reply: Reply<()>,
    /// What to close first. The last connection of an SQLite file to close checkpoints the write-ahead log; of two that
    /// close at the same time, each would leave that to the other.
    pub(crate) after: Option<oneshot::Receiver<Result<()>>>,
}

/// An open ledger.
///
/// Its threads serve callers of any runtime. Concurrent calls share a transaction; a single call does not wait for
/// others. When the client is dropped, calls that were sent still complete in the background. [`close`](Ledger::close)
/// waits for them.
pub(crate) struct Client {
    info: StoreInfo,
    counters: Arc<Counters>,
    closed: AtomicBool,
    writer: UnboundedSender<Job>,
    /// The thread for reads, if they have their own.
    reader: Option<UnboundedSender<Job>>,
}

impl Client {
    pub(crate) fn new(
        info: StoreInfo,
        counters: Arc<Counters>,
        writer: UnboundedSender<Job>,
        reader: Option<UnboundedSender<Job>>,
    ) -> Self {
        Self { info, counters, closed: AtomicBool::new(false), writer, reader }
    }

    /// Sends a job at once and returns the future of its answer.
    fn ask<T: Send + 'static>(
        &self,
        to: &UnboundedSender<Job>,
        doing: &'static str,
        job: impl FnOnce(Reply<T>) -> Job,
    ) -> Answer<'static, T> {
        self.counters.count(|calls| calls.calls += 1);
        let (reply, answer) = oneshot::channel();
        if self.closed.load(Relaxed) || to.send(job(reply)).is_err() {
            return refuse(closed());
        }
        Box::pin(async move {
            match answer.await {
                Ok(answer) => answer.map_err(|error| error.doing(doing)),
                Err(_) => Err(closed().maybe_happened()),
            }
        })
    }

    fn read<T: Send + 'static>(
        &self,
        doing: &'static str,
        read: impl FnOnce(Reply<T>) -> Read,
    ) -> Answer<'static, T> {
        let reader = self.reader.as_ref().unwrap_or(&self.writer);
        self.ask(reader, doing, |reply| Job::Read(read(reply)))
    }
}

impl Ledger for Client {
    fn open_sale(&self, sale: LedgerSale) -> Answer<'_, ()> {
        match check_skus(&sale.skus) {
            Ok(()) => self.ask(&self.writer, "open a sale in the ledger", |reply| Job::OpenSale(sale, reply)),
            Err(error) => refuse(error),
        }
    }

    fn write(&self, entries: Vec<LedgerEntry>) -> Answer<'_, Vec<Written>> {
        match check_entries(&entries) {
            Ok(()) => {
                self.ask(&self.writer, "write orders to the ledger", |reply| Job::Write(entries, reply))
            }
            Err(error) => refuse(error),
        }
    }

    fn find_sale(&self, sale: &SaleId) -> Answer<'_, Option<KnownSale>> {
        self.read("find a sale in the ledger", |reply| Read::Sale(sale.clone(), reply))
    }

    fn advance(&self, sale: &SaleId) -> Answer<'_, u32> {
        self.ask(&self.writer, "raise the generation of a sale", |reply| Job::Advance(sale.clone(), reply))
    }

    fn snapshot(&self, sale: &SaleId) -> Answer<'_, LedgerSnapshot> {
        self.read("read the ledger's snapshot", |reply| Read::Snapshot(sale.clone(), reply))
    }

    fn ping(&self) -> Answer<'_, ()> {
        self.read("ping the ledger", Read::Ping)
    }

    fn info(&self) -> StoreInfo {
        self.info.clone()
    }

    fn counters(&self) -> LedgerCalls {
        self.counters.read()
    }

    fn close(&self) -> Answer<'_, ()> {
        let after = self.reader.as_ref().and_then(|reader| {
            let (reply, closed) = oneshot::channel();
            reader.send(Job::Close(Close { reply, after: None })).ok().map(|()| closed)
        });
        let close = |reply| Job::Close(Close { reply, after });
        let answer = self.ask(&self.writer, "close the ledger", close);
        self.closed.store(true, Relaxed);
        answer
    }
}
