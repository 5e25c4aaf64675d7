//! Looking at due tasks, and taking them.

use anyhow::Result;
use rushgate::{Rushgate, Task};

use super::shown::{TaskView, tasks};
use crate::args::queue::{ClaimArgs, PopArgs, TopArgs};
use crate::exit::Exit;
use crate::output::Output;

pub(super) async fn top(gate: &Rushgate, args: TopArgs, output: Output) -> Result<Exit> {
    show(&gate.queue(&args.queue)?.top(args.n).await?, output)
}

pub(super) async fn pop(gate: &Rushgate, args: PopArgs, output: Output) -> Result<Exit> {
    show(&gate.queue(&args.queue)?.pop(args.n).await?, output)
}

pub(super) async fn claim(gate: &Rushgate, args: ClaimArgs, output: Output) -> Result<Exit> {
    show(&gate.queue(&args.queue)?.claim_wait(args.n, args.lease, args.wait).await?, output)
}

/// An empty queue is an answer.
fn show(taken: &[Task], output: Output) -> Result<Exit> {
    if taken.is_empty() {
        output.note("nothing is due");
    }
    let views: Vec<_> = taken.iter().map(TaskView::from).collect();
    output.data(&views, tasks(taken))?;
    Ok(Exit::Done)
}
