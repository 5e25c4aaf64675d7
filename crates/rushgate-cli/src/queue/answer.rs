//! Reports the outcome of claimed tasks, and removes tasks.

use anyhow::Result;
use rushgate::Rushgate;
use rushgate::queue::{
    Cancelled, Closed, Completed, Completion, Dequeued, Due, Heartbeat, Rescheduled, Retried, Retry,
    TaskExtended, TaskProgress, TaskRelease, TaskReleased, Ticket, UniqueCleared,
};
use serde::Serialize;

use super::bulk;
use super::enqueue::content;
use crate::args::queue::{
    CancelArgs, CompleteArgs, DequeueArgs, ExtendArgs, OfTask, ReleaseArgs, RescheduleArgs, RetryArgs,
    Tickets,
};
use crate::exit::Exit;
use crate::output::{Output, counted, word};

/// The outcome for one task, as JSON.
#[derive(Serialize)]
struct Answered<'a, O> {
    id: &'a str,
    #[serde(flatten)]
    outcome: &'a O,
}

pub(super) async fn complete(client: &Rushgate, args: CompleteArgs, output: Output) -> Result<Exit> {
    let tickets = read(&args.tickets)?;
    let result = args.result.as_ref().map(|text| content(text.clone().into_bytes(), &args.content_type));
    let result = result.transpose()?;
    let done = |ticket: &Ticket| Completion {
        ticket: ticket.clone(),
        result: result.clone(),
        discarded: args.discarded,
    };
    let outcomes = client.queue(&args.tickets.queue)?.complete(tickets.iter().map(done).collect()).await?;
    show(&tickets, &outcomes, |outcome| *outcome != Completed::Stale, output)
}

pub(super) async fn retry(client: &Rushgate, args: RetryArgs, output: Output) -> Result<Exit> {
    let tickets = read(&args.tickets)?;
    let failed = tickets.iter().map(|ticket| Retry {
        ticket: ticket.clone(),
        delay: args.delay,
        error: args.error.clone(),
        give_up: args.give_up,
    });
    let outcomes = client.queue(&args.tickets.queue)?.retry(failed.collect()).await?;
    show(&tickets, &outcomes, |outcome| *outcome != Retried::Stale, output)
}

pub(super) async fn release(client: &Rushgate, args: ReleaseArgs, output: Output) -> Result<Exit> {
    let tickets = read(&args.tickets)?;
    let delay = args.delay.unwrap_or_default();
    let releases = tickets.iter().map(|ticket| TaskRelease { ticket: ticket.clone(), delay });
    let outcomes = client.queue(&args.tickets.queue)?.release(releases.collect()).await?;
    show(&tickets, &outcomes, |outcome| *outcome != TaskReleased::Stale, output)
}

pub(super) async fn extend(client: &Rushgate, args: ExtendArgs, output: Output) -> Result<Exit> {
    let tickets = read(&args.tickets)?;
    let said = args.percent.is_some() || args.note.is_some();
    let progress = said.then(|| TaskProgress { percent: args.percent, note: args.note.unwrap_or_default() });
    let beat = |ticket: &Ticket| Heartbeat { ticket: ticket.clone(), progress: progress.clone() };
    let beats = tickets.iter().map(beat).collect();
    let outcomes = client.queue(&args.tickets.queue)?.extend(beats, args.lease).await?;
    show(&tickets, &outcomes, |outcome| *outcome == TaskExtended::Extended, output)
}

pub(super) async fn dequeue(client: &Rushgate, args: DequeueArgs, output: Output) -> Result<Exit> {
    let ticket: Ticket = args.ticket.parse()?;
    let outcome = client.queue(&args.queue)?.dequeue(ticket.clone()).await?;
    show_one(ticket.id.as_str(), &outcome, outcome == Dequeued::Removed, output)
}

pub(super) async fn cancel(client: &Rushgate, args: CancelArgs, output: Output) -> Result<Exit> {
    let Some(id) = &args.id else { return bulk::cancel(client, args, output).await };
    let outcome = client.queue(&args.queue)?.cancel(id).await?;
    show_one(id, &outcome, outcome != Cancelled::NotFound, output)
}

pub(super) async fn reschedule(client: &Rushgate, args: RescheduleArgs, output: Output) -> Result<Exit> {
    let due = args.delay.map(Due::After).or(args.at.map(Due::At)).unwrap_or(Due::Now);
    let outcome = client.queue(&args.queue)?.reschedule(&args.id, due).await?;
    show_one(&args.id, &outcome, matches!(outcome, Rescheduled::Rescheduled { .. }), output)
}

pub(super) async fn clear_unique(client: &Rushgate, args: OfTask, output: Output) -> Result<Exit> {
    let outcome = client.queue(&args.queue)?.clear_unique(&args.id).await?;
    show_one(&args.id, &outcome, outcome != UniqueCleared::NotFound, output)
}

pub(super) async fn close_batch(client: &Rushgate, args: OfTask, output: Output) -> Result<Exit> {
    let answer = client.queue(&args.queue)?.close_batch(&args.id).await?;
    let id = &args.id;
    let words = match answer {
        Closed::Closed { left: 0 } => format!("closed {id}: no members left"),
        Closed::Closed { left } => format!("closed {id}: {} left", counted(left, "task")),
        _ => format!("{} {id}", word(&answer)),
    };
    output.line(&answer, words)?;
    Ok(Exit::done_if(matches!(answer, Closed::Closed { .. })))
}

fn read(tickets: &Tickets) -> Result<Vec<Ticket>> {
    tickets.tickets.iter().map(|ticket| Ok(ticket.parse()?)).collect()
}

fn show_one(id: &str, outcome: &impl Serialize, done: bool, output: Output) -> Result<Exit> {
    output.line(&Answered { id, outcome }, format_args!("{} {id}", word(outcome)))?;
    Ok(Exit::done_if(done))
}

fn show<O: Serialize>(
    tickets: &[Ticket],
    outcomes: &[O],
    is_done: impl Fn(&O) -> bool,
    output: Output,
) -> Result<Exit> {
    let of = |(ticket, outcome): (&'_ Ticket, &'_ O)| format!("{} {}\n", word(outcome), ticket.id);
    let text: String = tickets.iter().zip(outcomes).map(of).collect();
    let answered = |(ticket, outcome)| {
        let ticket: &Ticket = ticket;
        Answered { id: ticket.id.as_str(), outcome }
    };
    let json: Vec<_> = tickets.iter().zip(outcomes).map(answered).collect();
    output.data(&json, text)?;
    Ok(Exit::done_if(outcomes.iter().all(is_done)))
}
