//! `queue wait`: waits until a task is over.

use anyhow::Result;
use rushgate::Rushgate;
use rushgate::queue::{Finish, FinishedTask, Payload};
use serde_json::json;

use crate::args::queue::WaitArgs;
use crate::exit::Exit;
use crate::output::Output;

pub(super) async fn wait(client: &Rushgate, args: WaitArgs, output: Output) -> Result<Exit> {
    let Some(over) = client.queue(&args.queue)?.wait_for(&args.id, args.wait).await? else {
        output.note(format_args!("`{}` has not finished yet", args.id));
        output.data(&json!({ "id": args.id, "how": "waiting", "result": null, "task": null }), "")?;
        return Ok(Exit::Refused);
    };
    let (how, done) = match &over {
        FinishedTask::Finished(info) => match info.finished.as_ref().map(|finished| finished.how) {
            Some(Finish::Cancelled) => ("cancelled", false),
            Some(Finish::Discarded) => ("discarded", false),
            Some(Finish::Dropped) => ("dropped", false),
            _ => ("done", true),
        },
        FinishedTask::Dead(_) => ("dead", false),
        FinishedTask::Gone => ("gone", false),
    };
    if over == FinishedTask::Gone {
        output.note(format_args!("nothing is kept of `{}`: it was removed, or never enqueued", args.id));
    } else if !done {
        output.note(format_args!("`{}` is {how}", args.id));
    }
    let task = match &over {
        FinishedTask::Finished(info) => Some(json!(info)),
        FinishedTask::Dead(letter) => Some(json!(letter)),
        FinishedTask::Gone => None,
    };
    let result = over.payload();
    let view = json!({ "id": args.id, "how": how, "result": result, "task": task });
    output.bytes(&view, result.map_or(&[], Payload::bytes))?;
    Ok(Exit::done_if(done))
}
