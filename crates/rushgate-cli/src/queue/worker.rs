//! Workers of a queue.

use anyhow::Result;
use rushgate::Rushgate;
use rushgate::queue::{WorkerId, WorkerInfo};
use rushgate::store::Page;
use serde_json::json;

use crate::args::queue::{PageArgs, SetWorkerArgs, WorkerVerb};
use crate::exit::Exit;
use crate::output::{Output, Table, moment, word};

pub(super) async fn run(client: &Rushgate, verb: WorkerVerb, output: Output) -> Result<Exit> {
    match verb {
        WorkerVerb::Ls(args) => ls(client, args, output).await,
        WorkerVerb::Set(args) => set(client, args, output).await,
    }
}

async fn ls(client: &Rushgate, args: PageArgs, output: Output) -> Result<Exit> {
    let workers = client.queue(&args.queue)?.workers(Page::after(args.after, args.n)).await?;
    output.page_end(&workers, args.n, |worker| &worker.id, format_args!("no workers at `{}`", args.queue));
    let rows = workers.iter().map(|worker| {
        let WorkerInfo { id, name, version, concurrency, running, since, mode, .. } = worker;
        let load = format!("{running}/{concurrency}");
        [id.to_string(), name.clone(), load, word(mode), moment(*since), version.clone()]
    });
    let table = Table::new(["WORKER", "NAME", "RUNNING", "MODE", "SINCE", "VERSION"], rows);
    output.data(&workers, table)
}

async fn set(client: &Rushgate, args: SetWorkerArgs, output: Output) -> Result<Exit> {
    let SetWorkerArgs { queue, worker, mode } = args;
    if client.queue(&queue)?.set_worker(&WorkerId::new(&worker)?, mode).await? {
        return output.line(&json!({ "worker": worker, "mode": mode }), word(&mode));
    }
    let text = format_args!("no worker `{worker}` at `{queue}`");
    output.line(&json!({ "outcome": "not_found" }), text)?;
    Ok(Exit::Refused)
}
