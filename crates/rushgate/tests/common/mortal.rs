//! A process that dies after the ledger's commit and before the store records it.

use std::sync::Arc;

use rushgate::Ledger;
use rushgate::sale::{OrderTask, SaleId};
use rushgate::store::StoreInfo;
use rushgate_core::{Answer, LedgerBooks};
use rushgate_ledger::{KnownSale, LedgerCalls, LedgerSale, Written};
use rustix::process::{Signal, getpid, kill_process};

/// A ledger that commits and then kills its own process.
pub struct DiesAfterCommit(pub Arc<dyn Ledger>);

impl Ledger for DiesAfterCommit {
    fn write(&self, entries: Vec<OrderTask>) -> Answer<'_, Vec<Written>> {
        Box::pin(async move {
            let written = self.0.write(entries).await?;
            if written.iter().all(|written| matches!(written, Written::Refused(_))) {
                return Ok(written);
            }
            kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
            Ok(written)
        })
    }

    fn open_sale(&self, sale: LedgerSale) -> Answer<'_, ()> {
        self.0.open_sale(sale)
    }

    fn find_sale(&self, sale: &SaleId) -> Answer<'_, Option<KnownSale>> {
        self.0.find_sale(sale)
    }

    fn advance(&self, sale: &SaleId) -> Answer<'_, u32> {
        self.0.advance(sale)
    }

    fn books(&self, sale: &SaleId) -> Answer<'_, LedgerBooks> {
        self.0.books(sale)
    }

    fn ping(&self) -> Answer<'_, ()> {
        self.0.ping()
    }

    fn info(&self) -> StoreInfo {
        self.0.info()
    }

    fn counters(&self) -> LedgerCalls {
        self.0.counters()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.0.close()
    }
}
