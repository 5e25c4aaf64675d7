//! `queue stats`, `ls`, `show` and similar: reads of queues.

use std::time::Duration;

use anyhow::Result;
use rushgate::Rushgate;
use rushgate::queue::{Listing, QueueName, QueueStats, TaskId, TaskInfo, TaskPage, TaskState, Waits};
use rushgate::store::Page;
use rushgate::wire::QueueReport;
use serde::Serialize;

use super::rule::words;
use super::shown::{info_page, infos, letter_page, rounded};
use crate::args::queue::{LsArgs, OfTask, StatsArgs};
use crate::exit::Exit;
use crate::output::{Output, Table};

/// A task and what it waits for, as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    info: &'a TaskInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<&'a Waits>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    needed_by: Vec<TaskId>,
}

/// Number of dependents shown.
const DEPENDENTS: u32 = 10;

fn waits_line(waits: &Waits) -> String {
    let Waits { open, left, over, dead, .. } = waits;
    let open = if *open { ", batch open" } else { "" };
    format!("waits for    {left} left, {over} finished, {dead} dead{open}\n")
}

/// The names of all queues.
pub(crate) async fn all_queues(client: &Rushgate) -> rushgate::Result<Vec<QueueName>> {
    Page::default().read_all(|page| client.queues(page), QueueName::as_str).await
}

pub(super) async fn ls(client: &Rushgate, args: LsArgs, output: Output) -> Result<Exit> {
    let Some(queue) = args.queue else {
        let queues = all_queues(client).await?;
        let text: String = queues.iter().map(|queue| format!("{queue}\n")).collect();
        if queues.is_empty() {
            output.remark("no queues");
        }
        return output.data(&queues, text);
    };
    let state = args.state;
    let filtered = state.is_some() || !args.after.is_empty();
    let (of, listing) = (client.queue(&queue)?, Listing::new(state, Page::after(args.after, args.n)));
    let TaskPage { tasks, next } = listing.fill(|listing| of.tasks(listing)).await?;
    output.more(next);
    if tasks.is_empty() {
        output.remark(format_args!("no {} in `{queue}`", if filtered { "such tasks" } else { "tasks" }));
    }
    output.data(&tasks, infos(&tasks))
}

/// Shows the live task, or else its end.
pub(super) async fn show(client: &Rushgate, args: OfTask, output: Output) -> Result<Exit> {
    let queue = client.queue(&args.queue)?;
    let (info, letter) = (queue.task(&args.id).await?, queue.dead_letter(&args.id).await?);
    let live = info.as_ref().is_some_and(|info| info.state != TaskState::Done);
    let died_at = letter.as_ref().filter(|_| !live).map(|letter| letter.died_at);
    let finished = info.as_ref().and_then(|info| info.finished.as_ref()).map(|finished| finished.at);
    match (info, letter) {
        (_, Some(letter)) if died_at > finished => output.data(&letter, letter_page(&letter)),
        (Some(info), _) => {
            let waits = queue.waits(&args.id).await?.filter(|_| live);
            let dependents = if live { queue.dependents(&args.id, DEPENDENTS).await? } else { Vec::new() };
            let mut page = info_page(&info) + &waits.as_ref().map(waits_line).unwrap_or_default();
            if !dependents.is_empty() {
                let ids: Vec<_> = dependents.iter().map(TaskId::as_str).collect();
                page += &format!("needed by    {}\n", ids.join(", "));
            }
            output.data(&Shown { info: &info, waits_for: waits.as_ref(), needed_by: dependents }, page)
        }
        (None, _) => {
            output.remark(format_args!("no task `{}` in `{}`, live, done or dead", args.id, args.queue));
            output.data(&Option::<()>::None, "")?;
            Ok(Exit::Refused)
        }
    }
}

pub(super) async fn stats(client: &Rushgate, args: StatsArgs, output: Output) -> Result<Exit> {
    let one = args.queue.is_some();
    let known = all_queues(client).await?;
    let asked = args.queue.map(QueueName::new).transpose()?;
    let unknown = asked.as_ref().is_some_and(|queue| !known.contains(queue));
    if let Some(queue) = asked.as_ref().filter(|_| unknown) {
        output.remark(format_args!("no queue `{queue}`: it has no tasks and no limits"));
    }
    let mut all = Vec::new();
    for queue in asked.map_or(known, |queue| vec![queue]) {
        let stats = client.queue(queue.as_str())?.stats().await?;
        all.push(QueueReport { queue, stats });
    }
    match all.first().filter(|_| one) {
        Some(report) => output.data(report, table(&all))?,
        None => output.data(&all, table(&all))?,
    };
    Ok(Exit::done_if(!unknown))
}

fn table(all: &[QueueReport]) -> Table<9> {
    let head = ["QUEUE", "READY", "SCHEDULED", "LEASED", "BLOCKED", "DEAD", "LAG", "LIMITS", "STATE"];
    let row = |QueueReport { queue, stats }: &QueueReport| row(queue, stats, words(&stats.limits));
    Table::new(head, all.iter().map(row))
}

/// A row of a table of queues, with one more column before the last.
pub(crate) fn row(queue: &QueueName, stats: &QueueStats, more: String) -> [String; 9] {
    [
        queue.to_string(),
        stats.ready.to_string(),
        stats.scheduled.to_string(),
        stats.leased.to_string(),
        stats.blocked.to_string(),
        stats.dead.to_string(),
        lag(stats),
        more,
        status(stats).to_owned(),
    ]
}

/// How long the oldest ready task has been ready.
pub(super) fn lag(stats: &QueueStats) -> String {
    match stats.ready {
        0 => "-".to_owned(),
        _ => rounded(Duration::from_millis(stats.lag_ms)).to_string(),
    }
}

pub(super) const fn status(stats: &QueueStats) -> &'static str {
    if stats.paused { "paused" } else { "runs" }
}
