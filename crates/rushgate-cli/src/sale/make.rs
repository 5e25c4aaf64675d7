//! Creates, opens and ends sales.

use anyhow::Result;
use rushgate::sale::{Created, SaleStatus};
use rushgate::{Rushgate, Sale, SaleBuilder};
use rushgate_http::Client;
use serde::Deserialize;
use serde_json::json;

use crate::args::names::OfSale;
use crate::args::sale::CreateArgs;
use crate::exit::{Exit, Fault};
use crate::globals::{Globals, is_http};
use crate::moments::still_to_come;
use crate::output::{Output, word};

/// Holds expired per call.
const BATCH: u32 = 1_000;

pub(super) async fn create(client: &Rushgate, args: CreateArgs, globals: &Globals) -> Result<Exit> {
    let has_ledger = match args.ledger {
        Some(wanted) => wanted,
        None => is_ledger_known(globals).await?,
    };
    let output = globals.output;
    let mut sale = SaleBuilder::new(&args.id).hold(args.hold);
    for sku in args.skus {
        sale = sale.sku(sku.name, sku.units, sku.per_buyer);
    }
    if let Some(at) = args.opens_at {
        sale = sale.opens_at(at);
    }
    if let Some(at) = args.closes_at {
        sale = sale.closes_at(still_to_come("--closes-at", at)?);
    }
    if has_ledger {
        sale = sale.ledger();
    }
    if let Some(file) = &args.metadata {
        let text = std::fs::read_to_string(file);
        let unreadable = |error| Fault::usage(format_args!("cannot read `{}`: {error}", file.display()));
        sale = sale.metadata(text.map_err(unreadable)?);
    }
    let created = client.create_sale(sale).await?;
    let text = match created {
        Created::Created => format!("created {}; open it with: rushgate sale open {}", args.id, args.id),
        Created::Exists => format!("sale `{}` already exists; nothing was changed", args.id),
    };
    output.line(&json!({ "outcome": word(&created), "sale": args.id }), text)?;
    Ok(Exit::done_if(created == Created::Created))
}

/// Whether the command or the server has a ledger: it is meant for the orders.
async fn is_ledger_known(globals: &Globals) -> Result<bool> {
    #[derive(Deserialize)]
    struct Ready {
        ledger: String,
    }
    let url = globals.store_url();
    if globals.orders.is_some() || !is_http(url) {
        return Ok(globals.orders.is_some());
    }
    let ready: Ready = Client::new(url)?.get("/readyz").await?;
    Ok(ready.ledger != "none")
}

pub(super) async fn open(client: &Rushgate, args: OfSale, output: Output) -> Result<Exit> {
    let status = client.sale(&args.id)?.open().await?;
    output.line(&json!({ "sale": args.id, "status": status }), word(&status))?;
    Ok(Exit::done_if(status == SaleStatus::Open))
}

pub(super) async fn end(client: &Rushgate, args: OfSale, output: Output) -> Result<Exit> {
    let status = client.sale(&args.id)?.end().await?;
    output.line(&json!({ "sale": args.id, "status": status }), word(&status))
}

pub(super) async fn expire(client: &Rushgate, args: OfSale, output: Output) -> Result<Exit> {
    let expired = sweep(&client.sale(&args.id)?).await?;
    output.line(&json!({ "sale": args.id, "expired": expired }), format_args!("expired {expired}"))
}

/// Expires every hold that is past its deadline, and returns how many.
pub(super) async fn sweep(sale: &Sale) -> Result<u64> {
    let mut expired = 0;
    loop {
        let ended = sale.expire(BATCH).await?;
        expired += u64::from(ended);
        if ended < BATCH {
            return Ok(expired);
        }
    }
}

/// Parses a reservation ID.
pub(super) fn reservation(text: &str) -> Result<rushgate::sale::ReservationId, Fault> {
    text.parse().map_err(|error| {
        Fault::usage(format_args!("{error}"))
            .hint("copy it from the output of `sale reserve` or `sale events`")
    })
}
