//! `queue top`, `claim` and `pop`.

use std::time::Duration;

use anyhow::Result;
use rushgate::queue::{Completed, Task, Ticket};
use rushgate::{Queue, Rushgate};

use super::shown::tasks;
use crate::args::queue::{ClaimArgs, TakeArgs};
use crate::exit::{Exit, Fault};
use crate::output::{Output, counted, unwritten};

/// Lease of popped tasks while they are written.
const POP_LEASE: Duration = Duration::from_secs(60);

pub(super) async fn top(client: &Rushgate, args: TakeArgs, output: Output) -> Result<Exit> {
    let due = client.queue(&args.queue)?.top(args.n).await?;
    if due.is_empty() {
        output.note("no task is due");
    }
    output.data(&due, tasks(&due))
}

pub(super) async fn pop(client: &Rushgate, args: TakeArgs, output: Output) -> Result<Exit> {
    let queue = client.queue(&args.queue)?;
    let taken = queue.claim(args.n, POP_LEASE).await?;
    say_if_none(&queue, &args.queue, &taken, output).await?;
    hand_over(&queue, &taken, output).await?;
    if !taken.is_empty() {
        remove(&queue, tickets(&taken)).await?;
    }
    Ok(Exit::Done)
}

pub(super) async fn claim(client: &Rushgate, args: ClaimArgs, output: Output) -> Result<Exit> {
    let queue = client.queue(&args.queue)?;
    let taken = queue.claim_wait(args.n, args.lease, args.wait).await?;
    say_if_none(&queue, &args.queue, &taken, output).await?;
    hand_over(&queue, &taken, output).await
}

/// If no task is available, prints why.
async fn say_if_none(queue: &Queue, name: &str, taken: &[Task], output: Output) -> Result<()> {
    if !taken.is_empty() {
        return Ok(());
    }
    if queue.stats().await?.paused {
        output.note(format_args!("`{name}` is paused: no tasks are available"));
    } else {
        output.note("no task is due");
    }
    Ok(())
}

/// Prints claimed tasks. Tasks that cannot be written are released.
async fn hand_over(queue: &Queue, taken: &[Task], output: Output) -> Result<Exit> {
    match output.try_data(&taken, tasks(taken)) {
        Err(error) if !taken.is_empty() => {
            queue.release(tickets(taken).map(Into::into).collect()).await?;
            Err(unwritten(&error, "the tasks were returned to the queue"))
        }
        written => output.answered(written),
    }
}

/// Completes popped tasks after they were written.
async fn remove(queue: &Queue, tickets: impl Iterator<Item = Ticket>) -> Result<()> {
    let answers = queue.complete(tickets.collect()).await?;
    match answers.iter().filter(|answer| **answer == Completed::Stale).count() {
        0 => Ok(()),
        late => {
            let late = counted(late as u64, "task");
            let message = format!("writing took longer than {POP_LEASE:?}: {late} returned to the queue");
            Err(Fault::new(Exit::MayHaveHappened, "stale", message).into())
        }
    }
}

fn tickets(taken: &[Task]) -> impl Iterator<Item = Ticket> {
    taken.iter().map(|task| task.ticket.clone())
}
