//! Reports the outcome of claimed tasks, and removes tasks.

use anyhow::Result;
use rushgate::{
    Cancelled, Closed, Completed, Completion, Dequeued, GiveBack, GivenBack, Heartbeat, Lifted, Retried,
    Retry, Rushgate, TaskExtended, TaskProgress, Ticket,
};
use serde::Serialize;

use super::bulk;
use super::push::content;
use crate::args::queue::{
    CancelArgs, CloseArgs, CompleteArgs, DequeueArgs, ExtendArgs, GiveBackArgs, LiftArgs, RetryArgs, Tickets,
};
use crate::exit::Exit;
use crate::output::{Output, counted};

/// Outcome for one ticket, as JSON.
#[derive(Serialize)]
struct Answered<'a> {
    id: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_us: Option<u64>,
}

/// Word for the outcome, and whether it counts as success.
type Word = (&'static str, bool);

const STALE: Word = ("stale", false);
/// The claim is over and the task was canceled, so it does not run again.
const CANCELLED: Word = ("cancelled", true);

pub(super) async fn complete(gate: &Rushgate, args: CompleteArgs, output: Output) -> Result<Exit> {
    let tickets = read(&args.tickets)?;
    let result = args.result.as_ref().map(|text| content(text.clone().into_bytes(), &args.content_type));
    let result = result.transpose()?;
    let done = |ticket: &Ticket| Completion {
        ticket: ticket.clone(),
        result: result.clone(),
        discarded: args.discarded,
    };
    let answers = gate.queue(&args.tickets.queue)?.complete(tickets.iter().map(done).collect()).await?;
    let words = answers.into_iter().map(|answer| match answer {
        Completed::Done => ("done", true),
        Completed::Requeued => ("requeued", true),
        Completed::Stale => STALE,
    });
    show(&tickets, words.map(|word| (word, None)), output)
}

pub(super) async fn retry(gate: &Rushgate, args: RetryArgs, output: Output) -> Result<Exit> {
    let tickets = read(&args.tickets)?;
    let failed = tickets.iter().map(|ticket| Retry {
        ticket: ticket.clone(),
        delay: args.delay,
        error: args.error.clone(),
        give_up: args.give_up,
    });
    let answers = gate.queue(&args.tickets.queue)?.retry(failed.collect()).await?;
    let words = answers.into_iter().map(|answer| match answer {
        Retried::Scheduled { due } => (("scheduled", true), Some(due.as_micros())),
        Retried::Dead => (("dead", true), None),
        Retried::Requeued => (("requeued", true), None),
        Retried::Cancelled => (CANCELLED, None),
        Retried::Stale => (STALE, None),
    });
    show(&tickets, words, output)
}

pub(super) async fn give_back(gate: &Rushgate, args: GiveBackArgs, output: Output) -> Result<Exit> {
    let tickets = read(&args.tickets)?;
    let delay = args.delay.unwrap_or_default();
    let back = tickets.iter().map(|ticket| GiveBack { ticket: ticket.clone(), delay });
    let answers = gate.queue(&args.tickets.queue)?.give_back(back.collect()).await?;
    let words = answers.into_iter().map(|answer| match answer {
        GivenBack::Waiting => ("waiting", true),
        GivenBack::Cancelled => CANCELLED,
        GivenBack::Stale => STALE,
    });
    show(&tickets, words.map(|word| (word, None)), output)
}

pub(super) async fn extend(gate: &Rushgate, args: ExtendArgs, output: Output) -> Result<Exit> {
    let tickets = read(&args.tickets)?;
    let said = args.percent.is_some() || args.note.is_some();
    let progress = said.then(|| TaskProgress { percent: args.percent, note: args.note.unwrap_or_default() });
    let beat = |ticket: &Ticket| Heartbeat { ticket: ticket.clone(), progress: progress.clone() };
    let beats = tickets.iter().map(beat).collect();
    let answers = gate.queue(&args.tickets.queue)?.extend(beats, args.lease).await?;
    let words = answers.into_iter().map(|answer| match answer {
        TaskExtended::Extended => ("extended", true),
        TaskExtended::Cancelled => ("cancelled", false),
        TaskExtended::Lost => ("lost", false),
    });
    show(&tickets, words.map(|word| (word, None)), output)
}

pub(super) async fn dequeue(gate: &Rushgate, args: DequeueArgs, output: Output) -> Result<Exit> {
    let ticket: Ticket = args.ticket.parse()?;
    let word = match gate.queue(&args.queue)?.dequeue(ticket.clone()).await? {
        Dequeued::Removed => ("removed", true),
        Dequeued::Leased => ("leased", false),
        Dequeued::Stale => STALE,
    };
    show_one(ticket.id.as_str(), word, output)
}

pub(super) async fn cancel(gate: &Rushgate, args: CancelArgs, output: Output) -> Result<Exit> {
    let Some(id) = &args.id else { return bulk::cancel(gate, args, output).await };
    let word = match gate.queue(&args.queue)?.cancel(id).await? {
        Cancelled::Removed => ("removed", true),
        Cancelled::Marked => ("marked", true),
        Cancelled::NotFound => ("not_found", false),
    };
    show_one(id, word, output)
}

pub(super) async fn lift(gate: &Rushgate, args: LiftArgs, output: Output) -> Result<Exit> {
    let word = match gate.queue(&args.queue)?.lift(&args.id).await? {
        Lifted::Lifted { .. } => ("lifted", true),
        Lifted::NotFound => ("not_found", false),
    };
    show_one(&args.id, word, output)
}

pub(super) async fn close(gate: &Rushgate, args: CloseArgs, output: Output) -> Result<Exit> {
    let answer = gate.queue(&args.queue)?.close_batch(&args.id).await?;
    let id = &args.id;
    let words = match answer {
        Closed::Closed { left: 0 } => format!("closed {id}: no members left"),
        Closed::Closed { left } => format!("closed {id}: {} left", counted(left, "task")),
        Closed::NotOpen => format!("not_open {id}"),
        Closed::NotFound => format!("not_found {id}"),
    };
    output.line(&answer, words)?;
    Ok(Exit::done_if(matches!(answer, Closed::Closed { .. })))
}

fn read(tickets: &Tickets) -> Result<Vec<Ticket>> {
    tickets.tickets.iter().map(|ticket| Ok(ticket.parse()?)).collect()
}

fn show_one(id: &str, (outcome, done): Word, output: Output) -> Result<Exit> {
    output.line(&Answered { id, outcome, due_us: None }, format_args!("{outcome} {id}"))?;
    Ok(Exit::done_if(done))
}

fn show(
    tickets: &[Ticket],
    words: impl Iterator<Item = (Word, Option<u64>)>,
    output: Output,
) -> Result<Exit> {
    let answer = |(ticket, ((outcome, done), due_us)): (&'_ Ticket, (Word, Option<u64>))| {
        (ticket.id.clone(), outcome, done, due_us)
    };
    let answers: Vec<_> = tickets.iter().zip(words).map(answer).collect();
    let json: Vec<_> = answers
        .iter()
        .map(|(id, outcome, _, due_us)| Answered { id: id.as_str(), outcome, due_us: *due_us })
        .collect();
    let text: String = answers.iter().map(|(id, outcome, ..)| format!("{outcome} {id}\n")).collect();
    output.data(&json, text)?;
    Ok(Exit::done_if(answers.iter().all(|(_, _, done, _)| *done)))
}
