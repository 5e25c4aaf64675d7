//! A process that dies after the ledger's commit and before the store records it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rushgate::Ledger;
use rushgate::sale::{LedgerEntry, SaleId};
use rushgate::store::StoreInfo;
use rushgate_core::{Answer, LedgerSnapshot};
use rushgate_ledger::{KnownSale, LedgerCalls, LedgerSale, Written};
use rustix::process::{Signal, getpid, kill_process};

/// A ledger that commits and then kills its own process.
pub struct DiesAfterCommit {
    ledger: Arc<dyn Ledger>,
    doomed: Arc<AtomicBool>,
}

impl DiesAfterCommit {
    /// Dies after the first commit once `doomed` is set.
    pub fn new(ledger: Arc<dyn Ledger>, doomed: Arc<AtomicBool>) -> Self {
        Self { ledger, doomed }
    }
}

impl Ledger for DiesAfterCommit {
    fn write(&self, entries: Vec<LedgerEntry>) -> Answer<'_, Vec<Written>> {
        Box::pin(async move {
            let written = self.ledger.write(entries).await?;
            let nothing = written.iter().all(|written| matches!(written, Written::Refused(_)));
            if nothing || !self.doomed.load(Ordering::SeqCst) {
                return Ok(written);
            }
            kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
            Ok(written)
        })
    }

    fn open_sale(&self, sale: LedgerSale) -> Answer<'_, ()> {
        self.ledger.open_sale(sale)
    }

    fn find_sale(&self, sale: &SaleId) -> Answer<'_, Option<KnownSale>> {
        self.ledger.find_sale(sale)
    }

    fn advance(&self, sale: &SaleId) -> Answer<'_, u32> {
        self.ledger.advance(sale)
    }

    fn snapshot(&self, sale: &SaleId) -> Answer<'_, LedgerSnapshot> {
        self.ledger.snapshot(sale)
    }

    fn ping(&self) -> Answer<'_, ()> {
        self.ledger.ping()
    }

    fn info(&self) -> StoreInfo {
        self.ledger.info()
    }

    fn counters(&self) -> LedgerCalls {
        self.ledger.counters()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.ledger.close()
    }
}
