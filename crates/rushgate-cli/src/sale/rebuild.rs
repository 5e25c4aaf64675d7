//! Sales on a store that lost writes: halts and rebuilds them, and restores lost holds.

use anyhow::Result;
use rushgate::Rushgate;
use rushgate::sale::{Rebuild, RebuildOutcome, RebuildReport, Restored};
use serde_json::json;

use super::reserve::held;
use crate::args::names::OfSale;
use crate::args::sale::{RebuildArgs, RestoreArgs};
use crate::exit::Exit;
use crate::globals::Globals;
use crate::output::{Output, counted, moment, word};

pub(super) async fn halt(client: &Rushgate, args: OfSale, output: Output) -> Result<Exit> {
    let halted = client.sale(&args.id)?.halt().await?;
    let text = format!("{} is halted; resume it with: rushgate sale rebuild {}", args.id, args.id);
    output.line(&json!({ "sale": args.id, "halted": halted }), text)?;
    Ok(Exit::done_if(halted))
}

pub(super) async fn rebuild(client: &Rushgate, args: RebuildArgs, globals: &Globals) -> Result<Exit> {
    let sale = client.sale(&args.id)?;
    // Open an existing ledger only: a mistyped path must not create one.
    let ledger = if args.new_ledger { globals.ledger().await? } else { globals.ledger_to_look_at().await? };
    let rebuild = Rebuild::new(sale.clone(), ledger.clone()).receipts_first(args.receipts_first);
    let outcome = rebuild.new_ledger(args.new_ledger).run().await;
    ledger.close().await?;
    let output = globals.output;
    match outcome? {
        RebuildOutcome::Rebuilt(report) => {
            let status = sale.state().await?.status;
            let text = format!("{}; it is {}", told(&args.id, &report), word(&status));
            let mut json = json!(report);
            json["outcome"] = "rebuilt".into();
            json["sale"] = args.id.into();
            json["status"] = json!(status);
            output.line(&json, text)
        }
        RebuildOutcome::Superseded => {
            let text = "another rebuild of this sale has started and continues";
            output.line(&json!({ "outcome": "superseded", "sale": args.id }), text)?;
            Ok(Exit::Refused)
        }
    }
}

fn told(sale: &str, report: &RebuildReport) -> String {
    let RebuildReport { generation, orders, reassigned, refused, .. } = report;
    let (reassigned, refused) = (reassigned.len(), refused.len());
    format!(
        "rebuilt {sale} as generation {generation} from {}; {reassigned} got other units, {refused} refused by the \
         ledger",
        counted(*orders, "order"),
    )
}

pub(super) async fn restore(client: &Rushgate, args: RestoreArgs, output: Output) -> Result<Exit> {
    let answer = client.sale(&args.id)?.restore(&args.receipt).await?;
    let text = match &answer {
        Restored::Restored(hold) | Restored::Known(hold) => held(&word(&answer), hold),
        Restored::Expired => "the hold of this receipt has expired".to_owned(),
        Restored::NoneLeft { sku, free } => {
            format!("none left: other buyers have the units, and {free} of {sku} are free")
        }
        Restored::LimitReached { sku, limit, has } => {
            format!("purchase limit exceeded: {has} of {sku} owned, limit {limit} per buyer")
        }
        Restored::Halted { retry_at } => {
            format!("the sale is halted; retry after {}", moment(*retry_at))
        }
        Restored::NotHonoured { why } => why.to_string(),
        other => word(other),
    };
    output.line(&answer, text)?;
    Ok(Exit::done_if(matches!(answer, Restored::Restored(_) | Restored::Known(_))))
}
