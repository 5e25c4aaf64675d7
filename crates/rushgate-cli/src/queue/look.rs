//! `queue stats`, `ls`, `show` and similar: reads of queues.

use std::time::Duration;

use anyhow::Result;
use rushgate::{Listing, QueueLimits, QueueStats, Rushgate, TaskState, Timestamp, Waits};
use serde::Serialize;

use super::rule::words;
use super::shown::{DeadView, InfoView, info_page, infos, letter_page, rounded};
use crate::args::queue::{LsArgs, ShowArgs, State, StatsArgs};
use crate::exit::Exit;
use crate::output::{Output, Table};

/// Counts of a queue as JSON.
#[derive(Serialize)]
struct StatsView<'a> {
    queue: &'a str,
    ready: u64,
    scheduled: u64,
    leased: u64,
    dead: u64,
    done: u64,
    dropped: u64,
    lag_ms: u64,
    blocked: u64,
    rate_until_us: Option<u64>,
    last_claim_us: Option<u64>,
    paused: bool,
    limits: QueueLimits,
}

impl<'a> From<&'a (String, QueueStats)> for StatsView<'a> {
    fn from((queue, stats): &'a (String, QueueStats)) -> Self {
        let QueueStats {
            ready, scheduled, leased, blocked, dead, done, dropped, lag_ms, paused, limits, ..
        } = *stats;
        let rate_until_us = stats.rate_until.map(Timestamp::as_micros);
        let last_claim_us = stats.last_claim.map(Timestamp::as_micros);
        Self {
            queue,
            ready,
            scheduled,
            leased,
            dead,
            done,
            dropped,
            lag_ms,
            blocked,
            rate_until_us,
            last_claim_us,
            paused,
            limits,
        }
    }
}

/// A task and what it waits for, as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    info: InfoView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<&'a Waits>,
}

fn waits_line(waits: &Waits) -> String {
    let Waits { open, left, over, dead, .. } = waits;
    let open = if *open { ", batch open" } else { "" };
    format!("waits for    {left} left, {over} finished, {dead} dead{open}\n")
}

pub(super) fn task_state(state: State) -> TaskState {
    match state {
        State::Scheduled => TaskState::Scheduled,
        State::Ready => TaskState::Ready,
        State::Leased => TaskState::Leased,
        State::Blocked => TaskState::Blocked,
        State::Done => TaskState::Done,
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
    let state = args.state.map(task_state);
    let filtered = state.is_some() || !args.after.is_empty();
    let tasks = gate.queue(&queue)?.tasks(Listing { state, after: args.after, limit: args.n }).await?;
    if let Some(last) = tasks.last().filter(|_| tasks.len() == args.n as usize) {
        output.note(format_args!("there may be more; continue with --after {}", last.task.ticket.id));
    }
    if tasks.is_empty() {
        output.remark(format_args!("no {} in `{queue}`", if filtered { "such tasks" } else { "tasks" }));
    }
    let views: Vec<_> = tasks.iter().map(InfoView::from).collect();
    output.data(&views, infos(&tasks))?;
    Ok(Exit::Done)
}

/// Shows the live task, or else its end.
pub(super) async fn show(gate: &Rushgate, args: ShowArgs, output: Output) -> Result<Exit> {
    let queue = gate.queue(&args.queue)?;
    let (info, letter) = (queue.task(&args.id).await?, queue.dead_letter(&args.id).await?);
    let live = info.as_ref().is_some_and(|info| info.state != TaskState::Done);
    let died_at = letter.as_ref().filter(|_| !live).map(|letter| letter.died_at);
    let finished = info.as_ref().and_then(|info| info.finished.as_ref()).map(|finished| finished.at);
    match (info, letter) {
        (_, Some(letter)) if died_at > finished => {
            output.data(&DeadView::from(&letter), letter_page(&letter))?
        }
        (Some(info), _) => {
            let waits = queue.waits(&args.id).await?.filter(|_| live);
            let page = info_page(&info) + &waits.as_ref().map(waits_line).unwrap_or_default();
            output.data(&Shown { info: InfoView::from(&info), waits_for: waits.as_ref() }, page)?
        }
        (None, _) => {
            output.remark(format_args!("no task `{}` in `{}`, live, done or dead", args.id, args.queue));
            output.data(&Option::<()>::None, "")?;
            return Ok(Exit::Refused);
        }
    }
    Ok(Exit::Done)
}

pub(super) async fn stats(gate: &Rushgate, args: StatsArgs, output: Output) -> Result<Exit> {
    let one = args.queue.is_some();
    let known: Vec<_> = gate.queues().await?.iter().map(ToString::to_string).collect();
    let unknown = args.queue.as_ref().is_some_and(|queue| !known.contains(queue));
    if let Some(queue) = args.queue.as_ref().filter(|_| unknown) {
        output.remark(format_args!("no queue `{queue}`: it has no tasks and no limits"));
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
    Ok(Exit::done_if(!unknown))
}

fn table(all: &[(String, QueueStats)]) -> Table<9> {
    let row = |(queue, stats): &(String, QueueStats)| {
        [
            queue.clone(),
            stats.ready.to_string(),
            stats.scheduled.to_string(),
            stats.leased.to_string(),
            stats.blocked.to_string(),
            stats.dead.to_string(),
            if stats.ready == 0 {
                "-".to_owned()
            } else {
                rounded(Duration::from_millis(stats.lag_ms)).to_string()
            },
            words(&stats.limits),
            if stats.paused { "paused" } else { "runs" }.to_owned(),
        ]
    };
    let head = ["QUEUE", "READY", "SCHEDULED", "LEASED", "BLOCKED", "DEAD", "LAG", "LIMITS", "STATE"];
    Table::new(head, all.iter().map(row))
}
