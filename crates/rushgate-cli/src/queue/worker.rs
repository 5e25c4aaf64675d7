//! Workers of a queue.

use anyhow::Result;
use rushgate::Rushgate;
use rushgate::queue::{WorkerId, WorkerInfo};
use rushgate::store::Page;
use serde_json::json;

use super::shown::printable;
use crate::args::queue::{PageArgs, SetWorkerArgs, WorkerVerb};
use crate::exit::Exit;
use crate::output::{Output, Table, moment, word};

pub(super) async fn run(gate: &Rushgate, verb: WorkerVerb, output: Output) -> Result<Exit> {
    match verb {
        WorkerVerb::Ls(args) => ls(gate, args, output).await,
        WorkerVerb::Set(args) => set(gate, args, output).await,
    }
}

async fn ls(gate: &Rushgate, args: PageArgs, output: Output) -> Result<Exit> {
    let workers = gate.queue(&args.queue)?.workers(Page::after(args.after, args.n)).await?;
    if let Some(last) = workers.last().filter(|_| workers.len() == args.n as usize) {
        output.note(format_args!("there may be more; continue with --after {}", last.id));
    }
    if workers.is_empty() {
        output.remark(format_args!("no workers at `{}`", args.queue));
    }
    let rows = workers.iter().map(|worker| {
        let WorkerInfo { id, name, version, concurrency, running, since, mode, .. } = worker;
        let load = format!("{running}/{concurrency}");
        let text = |text: &str| printable(text, usize::MAX);
        [id.to_string(), text(name), load, word(mode), moment(*since), text(version)]
    });
    let table = Table::new(["WORKER", "NAME", "RUNNING", "MODE", "SINCE", "VERSION"], rows);
    output.data(&workers, table)?;
    Ok(Exit::Done)
}

async fn set(gate: &Rushgate, args: SetWorkerArgs, output: Output) -> Result<Exit> {
    let SetWorkerArgs { queue, worker, mode } = args;
    let found = gate.queue(&queue)?.set_worker(&WorkerId::new(&worker)?, mode).await?;
    if found {
        output.line(&json!({ "worker": worker, "mode": mode }), word(&mode))?;
    } else {
        let text = format_args!("no worker `{worker}` at `{queue}`");
        output.line(&json!({ "outcome": "not_found" }), text)?;
    }
    Ok(Exit::done_if(found))
}
