//! A ledger on a server that cannot be reached yet.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rushgate_core::{Answer, Durability, Error, LedgerEntry, LedgerSnapshot, Result, SaleId, StoreInfo};

use super::open;
use super::url::Options;
use crate::client::Client;
use crate::words::refuse;
use crate::{KnownSale, Ledger, LedgerCalls, LedgerSale, Written};

/// Pause between two attempts.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A ledger that is opened as soon as its server can be reached. Until then every call fails as unavailable and
/// changes nothing.
pub(crate) struct LateLedger {
    url: String,
    shared: Arc<Shared>,
    /// Dropping this ends the connecting thread.
    trying: Mutex<Option<Sender<()>>>,
}

struct Shared {
    opened: OnceLock<Client>,
    /// Error of the latest attempt.
    why: Mutex<Error>,
}

impl LateLedger {
    /// Starts the attempts, after a first one that failed with `why`.
    pub(crate) fn new(url: &str, why: Error) -> Result<Self> {
        let shown = Options::parse(url)?.to_string();
        let shared = Arc::new(Shared { opened: OnceLock::new(), why: Mutex::new(why) });
        let (trying, ended) = channel();
        let (tried, url) = (Arc::clone(&shared), url.to_owned());
        thread::Builder::new()
            .name("rushgate-late".into())
            .spawn(move || tried.open(&url, &ended))
            .map_err(|fault| Error::unavailable("cannot start a thread").caused_by(fault))?;
        Ok(Self { url: shown, shared, trying: Mutex::new(Some(trying)) })
    }

    /// Forwards the call to the ledger, or fails with the error of the latest attempt.
    fn ask<T: Send + 'static>(&self, call: impl FnOnce(&Client) -> Answer<'_, T>) -> Answer<'_, T> {
        match self.shared.opened.get() {
            Some(ledger) => call(ledger),
            None => refuse(self.shared.why().duplicate()),
        }
    }
}

impl Shared {
    fn why(&self) -> std::sync::MutexGuard<'_, Error> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, url: &str, ended: &Receiver<()>) {
        while ended.recv_timeout(TRY_AGAIN_AFTER) == Err(RecvTimeoutError::Timeout) {
            match open(url) {
                Ok(ledger) => {
                    tracing::warn!(ledger = ledger.info().url, "the ledger is reachable now");
                    let _ = self.opened.set(ledger);
                    return;
                }
                Err(error) => {
                    if !error.is_unavailable() {
                        tracing::error!(%error, "cannot open the ledger");
                    }
                    *self.why() = error;
                }
            }
        }
    }
}

impl Ledger for LateLedger {
    fn open_sale(&self, sale: LedgerSale) -> Answer<'_, ()> {
        self.ask(|ledger| ledger.open_sale(sale))
    }

    fn write(&self, entries: Vec<LedgerEntry>) -> Answer<'_, Vec<Written>> {
        self.ask(|ledger| ledger.write(entries))
    }

    fn find_sale(&self, sale: &SaleId) -> Answer<'_, Option<KnownSale>> {
        self.ask(|ledger| ledger.find_sale(sale))
    }

    fn advance(&self, sale: &SaleId) -> Answer<'_, u32> {
        self.ask(|ledger| ledger.advance(sale))
    }

    fn snapshot(&self, sale: &SaleId) -> Answer<'_, LedgerSnapshot> {
        self.ask(|ledger| ledger.snapshot(sale))
    }

    fn ping(&self) -> Answer<'_, ()> {
        self.ask(Client::ping)
    }

    fn info(&self) -> StoreInfo {
        self.shared.opened.get().map_or_else(
            || StoreInfo {
                url: self.url.clone(),
                server: "PostgreSQL, not reached yet".to_owned(),
                durability: Durability::D0,
            },
            Client::info,
        )
    }

    fn counters(&self) -> LedgerCalls {
        self.shared.opened.get().map(Client::counters).unwrap_or_default()
    }

    fn close(&self) -> Answer<'_, ()> {
        drop(self.trying.lock().unwrap_or_else(PoisonError::into_inner).take());
        match self.shared.opened.get() {
            Some(ledger) => ledger.close(),
            None => Box::pin(async { Ok(()) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use super::*;

    #[test]
    fn every_call_before_the_connection_has_the_cause_of_the_failure() {
        let why = Error::unavailable("cannot connect").caused_by(io::Error::other("no route to host"));
        let ledger = LateLedger::new("postgres://ann@127.0.0.1:1/shop", why).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..2 {
            let error = runtime.block_on(ledger.write(Vec::new())).unwrap_err();
            assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("no route to host"));
        }
    }
}
