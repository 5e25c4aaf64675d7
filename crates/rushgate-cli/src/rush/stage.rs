//! Store or server, ledger and sale of a simulation.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rushgate::sale::{Audit, Created, SaleId, SaleState, SkuState};
use rushgate::store::HumanDuration;
use rushgate::{Ledger, Rushgate, Sale, SaleBuilder};
use rushgate_http::Client;
use serde::de::IgnoredAny;
use serde_json::json;

use super::http::{Http, sale_path};
use super::retry::{retry, with_retries};
use super::simulation::{SKU, Simulation};
use crate::args::rush::RushArgs;
use crate::exit::Fault;
use crate::files;
use crate::globals::{is_http, open_ledger};
use crate::output::Output;

/// Time limit for the first answer of a server, which may have just started.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

pub(super) struct Stage {
    pub(super) client: Rushgate,
    pub(super) sale: Sale,
    pub(super) site: Site,
    /// Number of units in the sale.
    pub(super) stock: u32,
    pub(super) hold: Duration,
    /// Generation of the sale at the start.
    pub(super) generation: u32,
    /// Whether a ledger records the orders: that of this process, or of the server.
    pub(super) has_ledger: bool,
}

/// Where the buyers go.
pub(super) enum Site {
    /// To the store, with a ledger if the sale has one.
    Store { ledger: Option<Arc<dyn Ledger>> },
    /// To a server.
    Server { client: Box<Client>, http: Http },
}

impl Stage {
    /// Opens store and ledger, and creates the sale unless it is joined and exists.
    pub(super) async fn set(rush: &Simulation) -> Result<Self> {
        let url = &rush.place.store_url;
        let retry_budget = if is_http(url) { FIRST_ANSWER } else { Duration::ZERO };
        let client = retry(retry_budget, || Rushgate::connect(url)).await?;
        let set = Self::on(&client, rush).await;
        if set.is_err() {
            // Report the original failure.
            let _ = client.close().await;
        }
        set
    }

    async fn on(client: &Rushgate, rush: &Simulation) -> Result<Self> {
        let Simulation { args, name, .. } = rush;
        let sale = client.sale(name)?;
        // Check everything before a sale is created or opened.
        let found = found(&sale).await?;
        if let Some(state) = &found {
            offered(state)?;
        }
        let site = Site::of(rush, found.as_ref()).await?;
        let is_new = match &site {
            // If several processes join at the same time, one creates the sale.
            Site::Store { .. } => client.create_sale(spec(args, name)).await? == Created::Created,
            Site::Server { client: http, .. } => found.is_none() && create(http, args, &sale).await?,
        };
        let state = with_retries(|| sale.state()).await?;
        let offered = offered(&state)?;
        if !is_new {
            warn_of_differences(args, &state, offered, rush.globals.output);
        }
        with_retries(|| sale.open()).await?;
        let (stock, hold, generation) = (offered.total, state.spec.hold.get(), state.generation);
        let has_ledger = state.spec.ledger;
        let client = client.clone();
        Ok(Self { client, sale, site, stock, hold, generation, has_ledger })
    }

    /// The ledger, if this process writes it.
    pub(super) fn ledger(&self) -> Option<&Arc<dyn Ledger>> {
        match &self.site {
            Site::Store { ledger } => ledger.as_ref(),
            Site::Server { .. } => None,
        }
    }

    /// The sale's audit, by the process that has the ledger.
    pub(super) async fn audit(&self) -> Result<Audit> {
        Ok(match &self.site {
            Site::Store { ledger } => with_retries(|| self.sale.audit(ledger.as_deref())).await?,
            Site::Server { client, .. } => {
                let path = format!("{}/audit", sale_path(self.sale.id()));
                with_retries(|| client.get(&path)).await?
            }
        })
    }

    /// Closes everything.
    pub(super) async fn strike(self) -> Result<()> {
        self.client.close().await?;
        if let Some(ledger) = self.ledger() {
            ledger.close().await?;
        }
        Ok(())
    }
}

impl Site {
    async fn of(rush: &Simulation, found: Option<&SaleState>) -> Result<Self> {
        let url = &rush.place.store_url;
        if is_http(url) {
            files::raise_limit();
            let client = Client::new(url)?;
            let http = Http::new(client.another(), &rush.name, rush.stop.clone());
            return Ok(Self::Server { client: Box::new(client), http });
        }
        let ledger = match found.is_none_or(|state| state.spec.ledger) {
            true => Some(open_ledger(rush.place.orders_url.clone()).await?),
            false => None,
        };
        Ok(Self::Store { ledger })
    }
}

/// Creates the sale at a server, with a ledger if the server has one. False if the sale exists by now: another process
/// has created it, or an earlier answer was lost.
async fn create(client: &Client, args: &RushArgs, sale: &Sale) -> Result<bool> {
    let body = json!({
        "id": sale.id(),
        "skus": [{ "sku": SKU, "units": args.stock(), "per_buyer": args.per_buyer() }],
        "hold_ms": args.hold().as_millis() as u64,
    });
    match with_retries(|| client.post::<IgnoredAny>("/v1/sales", &body)).await {
        Ok(_) => Ok(true),
        Err(_) if found(sale).await?.is_some() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn spec(args: &RushArgs, name: &SaleId) -> SaleBuilder {
    SaleBuilder::new(name.as_str()).sku(SKU, args.stock(), args.per_buyer()).hold(args.hold()).ledger()
}

/// The sale, if it exists.
async fn found(sale: &Sale) -> Result<Option<SaleState>> {
    match with_retries(|| sale.state()).await {
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
            "join a sale that `rush` or `serve --demo` created, or create one with: sale create NAME --sku {SKU}=10"
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
        differences.push(format!("holds of {}, not {}", HumanDuration(hold), HumanDuration(wanted)));
    }
    if !differences.is_empty() {
        output.warn(format_args!("sale `{}` already exists with {}", state.spec.id, differences.join(", ")));
    }
}
