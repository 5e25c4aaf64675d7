//! Looking at due tasks, and taking them.

use anyhow::Result;
use rushgate::{Queue, Rushgate, Task};

use super::shown::{TaskView, tasks};
use crate::args::queue::{ClaimArgs, PopArgs, TopArgs};
use crate::exit::Exit;
use crate::output::Output;

pub(super) async fn top(gate: &Rushgate, args: TopArgs, output: Output) -> Result<Exit> {
    let due = gate.queue(&args.queue)?.top(args.n).await?;
    if due.is_empty() {
        output.note("nothing is due");
    }
    show(&due, output)
}

pub(super) async fn pop(gate: &Rushgate, args: PopArgs, output: Output) -> Result<Exit> {
    let queue = gate.queue(&args.queue)?;
    let taken = queue.pop(args.n).await?;
    say_if_none(&queue, &args.queue, &taken, output).await?;
    show(&taken, output)
}

pub(super) async fn claim(gate: &Rushgate, args: ClaimArgs, output: Output) -> Result<Exit> {
    let queue = gate.queue(&args.queue)?;
    let taken = queue.claim_wait(args.n, args.lease, args.wait).await?;
    say_if_none(&queue, &args.queue, &taken, output).await?;
    show(&taken, output)
}

/// Why nothing was given out, if nothing was.
async fn say_if_none(queue: &Queue, name: &str, taken: &[Task], output: Output) -> Result<()> {
    if !taken.is_empty() {
        return Ok(());
    }
    if queue.stats().await?.paused {
        output.note(format_args!("`{name}` is paused: nothing is given out"));
    } else {
        output.note("nothing is due");
    }
    Ok(())
}

/// An empty queue is an answer.
fn show(taken: &[Task], output: Output) -> Result<Exit> {
    let views: Vec<_> = taken.iter().map(TaskView::from).collect();
    output.data(&views, tasks(taken))?;
    Ok(Exit::Done)
}
