//! Where it all happens: the store, the ledger and the sale of one run.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rushgate::{Ledger, OrderTask, Queue, Rushgate, Sale, SaleBuilder, connect_ledger};
use tempfile::TempDir;

use super::{RushArgs, SKU, script};
use crate::globals::Globals;

pub(crate) struct Stage {
    pub(crate) gate: Rushgate,
    pub(crate) sale: Sale,
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
    pub(crate) orders: Option<Queue<OrderTask>>,
    pub(crate) store_url: String,
    pub(crate) orders_url: String,
    /// The folder of a run that was not told where to keep its files.
    folder: Option<TempDir>,
}

impl Stage {
    /// Opens the store and the ledger, and makes the sale unless it is joined and there.
    pub(crate) async fn set(args: &RushArgs, globals: &Globals, seed: u64) -> Result<Self> {
        let (folder, store_url) = match &globals.store {
            Some(url) => (None, url.clone()),
            None => {
                let folder = tempfile::Builder::new().prefix("rushgate-rush-").tempdir()?;
                let url = format!("sqlite:{}", folder.path().join("store.db").display());
                (Some(folder), url)
            }
        };
        let orders_url = globals.orders.clone().unwrap_or_else(|| beside(&store_url));
        let gate = Rushgate::connect(&store_url).await?;
        let name =
            args.join.clone().unwrap_or_else(|| format!("rush-{}-{}", script::tag(seed), std::process::id()));
        let sale = gate.sale(&name)?;
        let spec = SaleBuilder::new(&name)
            .sku(SKU, args.stock, args.per_buyer)
            .hold(Duration::from_millis(args.hold_ms))
            .orders(format!("orders:{name}"));
        // Of several processes that join at the same moment, one makes it.
        gate.create_sale(spec).await?;
        sale.open().await?;
        let orders = sale.state().await?.spec.orders;
        let orders = orders.map(|queue| gate.queue_of(queue)).transpose()?;
        let ledger = match orders {
            Some(_) => Some(connect_ledger(&orders_url)?),
            None => None,
        };
        // Their own words for it have no password.
        let store_url = gate.info().url;
        let orders_url = ledger.as_ref().map(|ledger| ledger.info().url).unwrap_or_default();
        Ok(Self { gate, sale, ledger, orders, store_url, orders_url, folder })
    }

    /// Closes everything. The files of a run in a folder of its own go too, unless they are to be kept.
    pub(crate) async fn strike(self, keep: bool, globals: &Globals) -> Result<()> {
        self.gate.close().await?;
        if let Some(ledger) = &self.ledger {
            ledger.close().await?;
        }
        let Some(folder) = self.folder else { return Ok(()) };
        if keep {
            let path: PathBuf = folder.keep();
            if !globals.quiet {
                writeln!(std::io::stderr(), "The files are in {}", path.display())?;
            }
        }
        Ok(())
    }
}

/// The ledger of a store that has a file: another file beside it. That of a server: a file in the current directory.
fn beside(store: &str) -> String {
    let Some(path) = store.strip_prefix("sqlite:") else {
        return "sqlite:rushgate.orders.db".into();
    };
    let path = path.split('?').next().unwrap_or(path);
    if path == ":memory:" {
        return "sqlite::memory:".into();
    }
    format!("sqlite:{}.orders.db", path.strip_suffix(".db").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::beside;

    #[test]
    fn the_ledger_stands_beside_the_store() {
        assert_eq!(beside("sqlite:shop.db?durability=process"), "sqlite:shop.orders.db");
        assert_eq!(beside("sqlite:/data/shop"), "sqlite:/data/shop.orders.db");
        assert_eq!(beside("sqlite::memory:"), "sqlite::memory:");
        assert_eq!(beside("redis://:secret@host/3"), "sqlite:rushgate.orders.db");
    }
}
