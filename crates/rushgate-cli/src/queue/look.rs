//! Looking at queues.

use std::time::Duration;

use anyhow::Result;
use rushgate::{Listing, QueueStats, Rushgate, TaskState};
use serde::Serialize;

use super::shown::{InfoView, infos, rounded};
use crate::args::queue::{LsArgs, State, StatsArgs};
use crate::exit::Exit;
use crate::output::{Output, Table};

/// A queue's lengths as JSON.
#[derive(Serialize)]
struct StatsView<'a> {
    queue: &'a str,
    ready: u64,
    scheduled: u64,
    leased: u64,
    dead: u64,
    oldest_due_us: u64,
    paused: bool,
    bound: Option<u64>,
}

impl<'a> From<&'a (String, QueueStats)> for StatsView<'a> {
    fn from((queue, stats): &'a (String, QueueStats)) -> Self {
        let QueueStats { ready, scheduled, leased, dead, oldest_due_us, paused, limits } = *stats;
        Self { queue, ready, scheduled, leased, dead, oldest_due_us, paused, bound: limits.bound }
    }
}

pub(super) async fn ls(gate: &Rushgate, args: LsArgs, output: Output) -> Result<Exit> {
    let Some(queue) = args.queue else {
        let queues = gate.queues().await?;
        let text: String = queues.iter().map(|queue| format!("{queue}\n")).collect();
        if queues.is_empty() {
            output.remark("no queues");
        }
        output.data(&queues, text)?;
        return Ok(Exit::Done);
    };
    let state = args.state.map(|state| match state {
        State::Scheduled => TaskState::Scheduled,
        State::Ready => TaskState::Ready,
        State::Leased => TaskState::Leased,
    });
    let filtered = state.is_some() || !args.after.is_empty();
    let tasks = gate.queue(&queue)?.tasks(Listing { state, after: args.after, limit: args.n }).await?;
    if let Some(last) = tasks.last().filter(|_| tasks.len() == args.n as usize) {
        output.note(format_args!("there may be more; go on with --after {}", last.task.ticket.id));
    }
    if tasks.is_empty() {
        output.remark(format_args!("no {} in `{queue}`", if filtered { "such tasks" } else { "tasks" }));
    }
    let views: Vec<_> = tasks.iter().map(InfoView::from).collect();
    output.data(&views, infos(&tasks))?;
    Ok(Exit::Done)
}

pub(super) async fn stats(gate: &Rushgate, args: StatsArgs, output: Output) -> Result<Exit> {
    let one = args.queue.is_some();
    let known: Vec<_> = gate.queues().await?.iter().map(ToString::to_string).collect();
    if let Some(queue) = args.queue.as_ref().filter(|queue| !known.contains(queue)) {
        output.remark(format_args!("no queue `{queue}` is known"));
    }
    let names = args.queue.map_or(known, |queue| vec![queue]);
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        let stats = gate.queue(&name)?.stats().await?;
        all.push((name, stats));
    }
    let views: Vec<_> = all.iter().map(StatsView::from).collect();
    match views.first().filter(|_| one) {
        Some(view) => output.data(view, table(&all))?,
        None => output.data(&views, table(&all))?,
    }
    Ok(Exit::Done)
}

fn table(all: &[(String, QueueStats)]) -> Table<8> {
    let row = |(queue, stats): &(String, QueueStats)| {
        [
            queue.clone(),
            stats.ready.to_string(),
            stats.scheduled.to_string(),
            stats.leased.to_string(),
            stats.dead.to_string(),
            if stats.ready == 0 {
                "-".to_owned()
            } else {
                rounded(Duration::from_micros(stats.oldest_due_us)).to_string()
            },
            stats.limits.bound.map_or("none".to_owned(), |bound| bound.to_string()),
            if stats.paused { "paused" } else { "runs" }.to_owned(),
        ]
    };
    let head = ["QUEUE", "READY", "SCHEDULED", "LEASED", "DEAD", "OLDEST DUE", "BOUND", "STATE"];
    Table::new(head, all.iter().map(row))
}
