//! Store, ledger and sale of a simulation.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rushgate::sale::{Created, SaleId, SaleState, SkuState};
use rushgate::store::Spoken;
use rushgate::{Ledger, Rushgate, Sale, SaleBuilder};

use super::place::Place;
use super::{RushArgs, SKU};
use crate::exit::Fault;
use crate::globals::open_ledger;
use crate::output::Output;

pub(crate) struct Stage {
    pub(crate) gate: Rushgate,
    pub(crate) sale: Sale,
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
    pub(crate) store_url: String,
    pub(crate) orders_url: String,
    /// Number of units in the sale.
    pub(crate) stock: u32,
    pub(crate) hold: Duration,
    /// Generation of the sale at the start.
    pub(crate) generation: u32,
}

impl Stage {
    /// Opens store and ledger, and creates the sale unless it is joined and exists.
    pub(crate) async fn set(args: &RushArgs, place: &Place, name: &SaleId, output: Output) -> Result<Self> {
        let gate = Rushgate::connect(&place.store_url).await?;
        let set = Self::on(&gate, args, place, name, output).await;
        if set.is_err() {
            // Report the original failure.
            let _ = gate.close().await;
        }
        set
    }

    async fn on(
        gate: &Rushgate,
        args: &RushArgs,
        place: &Place,
        name: &SaleId,
        output: Output,
    ) -> Result<Self> {
        let sale = gate.sale(name)?;
        // Check everything before a sale is created or opened.
        let found = found(&sale).await?;
        let goes_to_ledger = match &found {
            Some(state) => {
                offered(state)?;
                state.spec.ledger
            }
            None => true,
        };
        let ledger = match goes_to_ledger {
            true => Some(open_ledger(place.orders_url.clone()).await?),
            false => None,
        };
        // If several processes join at the same time, one creates the sale.
        let created = gate.create_sale(spec(args, name)).await?;
        let state = sale.state().await?;
        let offered = offered(&state)?;
        if created == Created::Exists {
            warn_of_differences(args, &state, offered, output);
        }
        sale.open().await?;
        // These URLs contain no password.
        let store_url = gate.info().url;
        let orders_url = ledger.as_ref().map(|ledger| ledger.info().url).unwrap_or_default();
        let (stock, hold, generation) = (offered.total, state.spec.hold.get(), state.generation);
        let gate = gate.clone();
        Ok(Self { gate, sale, ledger, store_url, orders_url, stock, hold, generation })
    }

    /// Closes everything.
    pub(crate) async fn strike(self) -> Result<()> {
        self.gate.close().await?;
        if let Some(ledger) = &self.ledger {
            ledger.close().await?;
        }
        Ok(())
    }
}

fn spec(args: &RushArgs, name: &SaleId) -> SaleBuilder {
    SaleBuilder::new(name.as_str()).sku(SKU, args.stock(), args.per_buyer()).hold(args.hold()).ledger()
}

/// The sale, if it exists.
async fn found(sale: &Sale) -> Result<Option<SaleState>> {
    match sale.state().await {
        Ok(state) => Ok(Some(state)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The buyers' SKU, if the sale has it.
pub(super) fn offered(state: &SaleState) -> Result<&SkuState, Fault> {
    state.skus.iter().find(|sku| sku.sku.as_str() == SKU).ok_or_else(|| {
        let sale = &state.spec.id;
        Fault::refused(
            "not_found",
            format_args!("sale `{sale}` has no SKU `{SKU}`, which the simulated buyers reserve"),
        )
        .hint(format_args!(
            "join a sale that `rush` created, or create one with: sale create NAME --sku {SKU}=10"
        ))
    })
}

/// Warns about options that an existing sale ignores.
fn warn_of_differences(args: &RushArgs, state: &SaleState, offered: &SkuState, output: Output) {
    let mut differences = Vec::new();
    if let Some(stock) = args.stock.filter(|stock| *stock != offered.total) {
        differences.push(format!("{} units, not {stock}", offered.total));
    }
    if let Some(per_buyer) = args.per_buyer.filter(|per_buyer| *per_buyer != offered.per_buyer) {
        differences.push(format!("{} per buyer, not {per_buyer}", offered.per_buyer));
    }
    let hold: Duration = state.spec.hold.get();
    if let Some(wanted) = args.hold.filter(|wanted| *wanted != hold) {
        differences.push(format!("holds of {}, not {}", Spoken(hold), Spoken(wanted)));
    }
    if !differences.is_empty() {
        output.warn(format_args!("sale `{}` already exists with {}", state.spec.id, differences.join(", ")));
    }
}
