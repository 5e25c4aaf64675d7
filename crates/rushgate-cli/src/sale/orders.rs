//! `rushgate sale orders`: orders that the ledger could not record.

use anyhow::Result;
use rushgate::Rushgate;
use rushgate::sale::FailedOrder;
use rushgate::store::Page;
use serde_json::json;

use crate::args::names::OfSale;
use crate::args::sale::{OrdersLsArgs, OrdersVerb};
use crate::exit::Exit;
use crate::output::{Output, Table, counted, moment};

pub(super) async fn run(client: &Rushgate, verb: OrdersVerb, output: Output) -> Result<Exit> {
    match verb {
        OrdersVerb::Ls(args) => ls(client, args, output).await,
        OrdersVerb::Retry(args) => retry(client, args, output).await,
    }
}

async fn ls(client: &Rushgate, args: OrdersLsArgs, output: Output) -> Result<Exit> {
    let failed = client.sale(&args.id)?.failed_orders(Page::after(args.after, args.n)).await?;
    output.page_end(&failed, args.n, |order| &order.seq, format_args!("no failed orders in `{}`", args.id));
    let row = |order: &FailedOrder| {
        [order.seq.to_string(), order.attempts.to_string(), moment(order.retry_at), order.reason.clone()]
    };
    output.data(&failed, Table::new(["SEQ", "ATTEMPTS", "RETRY AT", "REASON"], failed.iter().map(row)))
}

async fn retry(client: &Rushgate, args: OfSale, output: Output) -> Result<Exit> {
    let failed = client.sale(&args.id)?.retry_orders().await?;
    let text = format!("{} due now", counted(failed.into(), "failed order"));
    output.line(&json!({ "sale": args.id, "failed": failed }), text)
}
