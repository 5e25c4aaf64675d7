//! Pausing, resuming and bounding queues.

use anyhow::Result;
use rushgate::{QueueLimits, Rushgate};
use serde_json::json;

use crate::args::queue::{LimitArgs, PauseArgs, ResumeArgs};
use crate::exit::Exit;
use crate::output::Output;

pub(super) async fn pause(gate: &Rushgate, args: PauseArgs, output: Output) -> Result<Exit> {
    gate.queue(&args.queue)?.pause().await?;
    output.line(&json!({ "queue": args.queue, "paused": true }), format_args!("{} is paused", args.queue))?;
    Ok(Exit::Done)
}

pub(super) async fn resume(gate: &Rushgate, args: ResumeArgs, output: Output) -> Result<Exit> {
    gate.queue(&args.queue)?.resume().await?;
    output.line(&json!({ "queue": args.queue, "paused": false }), format_args!("{} runs", args.queue))?;
    Ok(Exit::Done)
}

pub(super) async fn limit(gate: &Rushgate, args: LimitArgs, output: Output) -> Result<Exit> {
    let bound = args.bound.0;
    gate.queue(&args.queue)?.limit(QueueLimits { bound }).await?;
    let words = bound.map_or("none".to_owned(), |bound| bound.to_string());
    output.line(&json!({ "queue": args.queue, "bound": bound }), format_args!("bound {words}"))?;
    Ok(Exit::Done)
}
