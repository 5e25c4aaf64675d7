//! `rushgate sale orders`: the order queue of a sale.

use anyhow::Result;
use rushgate::queue::Selection;
use rushgate::{Rushgate, TaskId};
use serde_json::json;

use crate::args::sale::{DeadOrders, OrdersVerb};
use crate::exit::Exit;
use crate::output::Output;

pub(super) async fn run(gate: &Rushgate, verb: OrdersVerb, output: Output) -> Result<Exit> {
    match verb {
        OrdersVerb::Requeue(args) => retry(gate, args.which, output).await,
        OrdersVerb::Delete(args) => delete(gate, args.which, output).await,
        OrdersVerb::Pause(args) => {
            gate.sale(&args.id)?.pause_orders().await?;
            paused(&args.id, true, output)
        }
        OrdersVerb::Resume(args) => {
            gate.sale(&args.id)?.resume_orders().await?;
            paused(&args.id, false, output)
        }
    }
}

async fn retry(gate: &Rushgate, which: DeadOrders, output: Output) -> Result<Exit> {
    let retried = gate.sale(&which.id)?.requeue_orders(selection(&which)?).await?;
    let kept = match retried.kept {
        0 => String::new(),
        kept => format!(", kept {kept} whose ID is live"),
    };
    output.line(&retried, format_args!("retried {}{kept}", retried.requeued))?;
    Ok(Exit::done_if(which.all || retried.requeued > 0))
}

async fn delete(gate: &Rushgate, which: DeadOrders, output: Output) -> Result<Exit> {
    let deleted = gate.sale(&which.id)?.delete_orders(selection(&which)?).await?;
    output.line(&json!({ "deleted": deleted }), format_args!("deleted {deleted}"))?;
    Ok(Exit::done_if(which.all || deleted > 0))
}

fn selection(which: &DeadOrders) -> Result<Selection> {
    if which.all {
        return Ok(Selection::All);
    }
    Ok(Selection::Ids(which.ids.iter().map(TaskId::new).collect::<rushgate::Result<_>>()?))
}

fn paused(id: &str, paused: bool, output: Output) -> Result<Exit> {
    let word = if paused { "paused" } else { "resumed" };
    output.line(&json!({ "sale": id, "paused": paused }), format_args!("{word} the orders of `{id}`"))?;
    Ok(Exit::Done)
}
