//! Schedules.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use rushgate::{
    Enqueued, Missed, Page, Queue, Recurrence, Rushgate, Schedule, Scheduled, Scheduler, SchedulerReport,
    Timestamp,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::push::{self, payload};
use super::shown::Content;
use crate::args::queue::{
    CronAddArgs, CronLsArgs, CronNextArgs, CronTendArgs, CronVerb, MissedArg, WhenArgs, WhichSchedule,
};
use crate::exit::Exit;
use crate::log;
use crate::output::{Output, Table, counted, moment};
use crate::signals::Signals;

pub(super) async fn run(gate: &Rushgate, verb: CronVerb, output: Output) -> Result<Exit> {
    match verb {
        CronVerb::Add(args) => add(gate, args, output).await,
        CronVerb::Ls(args) => ls(gate, args, output).await,
        CronVerb::Next(args) => next(&args, output),
        CronVerb::Run(args) => run_now(gate, args.which, output).await,
        CronVerb::Pause(args) => pause(gate, args.which, true, output).await,
        CronVerb::Resume(args) => pause(gate, args.which, false, output).await,
        CronVerb::Rm(args) => rm(gate, args.which, output).await,
        CronVerb::Tend(args) => tend(gate, args, output).await,
    }
}

async fn add(gate: &Rushgate, args: CronAddArgs, output: Output) -> Result<Exit> {
    let queue = gate.queue(&args.queue)?;
    let mut schedule = queue
        .schedule(&args.id, payload(&args.content)?, recurrence(&args.when)?)
        .priority(args.priority)
        .max_attempts(args.max_attempts);
    if args.paused {
        schedule = schedule.paused(true);
    }
    let answer = schedule.save().await?;
    output.line(&answer, words(answer))?;
    Ok(Exit::done_if(!matches!(answer, Scheduled::Full | Scheduled::Stale)))
}

fn words(answer: Scheduled) -> String {
    match answer {
        Scheduled::Added { revision } => format!("added revision {}", revision.as_u64()),
        Scheduled::Changed { revision } => format!("changed revision {}", revision.as_u64()),
        Scheduled::Unchanged { revision } => format!("unchanged revision {}", revision.as_u64()),
        Scheduled::Full => "full".to_owned(),
        Scheduled::Stale => "stale".to_owned(),
    }
}

fn recurrence(when: &WhenArgs) -> Result<Recurrence> {
    let mut recurrence = match (&when.cron, when.every) {
        (Some(pattern), _) => Recurrence::cron(pattern)?,
        (None, every) => Recurrence::every(every.unwrap_or_default())?,
    };
    if let Some(zone) = &when.zone {
        recurrence = recurrence.in_zone(zone)?;
    }
    Ok(recurrence.missed(match when.missed {
        MissedArg::Skip => Missed::Skip,
        MissedArg::Once => Missed::Once,
        MissedArg::All => Missed::All,
    }))
}

/// A schedule as JSON.
#[derive(Serialize)]
struct View<'a> {
    id: &'a str,
    recurrence: Value,
    #[serde(flatten)]
    content: Content<'a>,
    priority: u8,
    max_attempts: u32,
    next_us: Option<u64>,
    previous_us: Option<u64>,
    paused: bool,
    revision: u64,
}

impl<'a> From<&'a Schedule> for View<'a> {
    fn from(of: &'a Schedule) -> Self {
        Self {
            id: of.id.as_str(),
            recurrence: serde_json::from_str(&of.recurrence).unwrap_or_else(|_| json!(of.recurrence)),
            content: (&of.payload).into(),
            priority: of.priority.get(),
            max_attempts: of.max_attempts,
            next_us: of.next.map(Timestamp::as_micros),
            previous_us: of.previous.map(Timestamp::as_micros),
            paused: of.paused,
            revision: of.revision.as_u64(),
        }
    }
}

async fn ls(gate: &Rushgate, args: CronLsArgs, output: Output) -> Result<Exit> {
    let page = Page { after: args.after, limit: args.n };
    let schedules = gate.queue(&args.queue)?.schedules(page).await?;
    if let Some(last) = schedules.last().filter(|_| schedules.len() == args.n as usize) {
        output.note(format_args!("there may be more; continue with --after {}", last.id));
    }
    if schedules.is_empty() {
        output.remark(format_args!("no schedules in `{}`", args.queue));
    }
    let views: Vec<_> = schedules.iter().map(View::from).collect();
    let rows = schedules.iter().map(|of| {
        let when = of.recurrence.parse::<Recurrence>();
        let when = when.map_or_else(|_| "(invalid)".to_owned(), |when| when.to_string());
        let at = |moment_of: Option<Timestamp>| moment_of.map_or("-".to_owned(), moment);
        let next = if of.paused { "paused".to_owned() } else { at(of.next) };
        [of.id.to_string(), when, next, at(of.previous)]
    });
    output.data(&views, Table::new(["SCHEDULE", "WHEN", "NEXT", "PREVIOUS"], rows))?;
    Ok(Exit::Done)
}

/// Next occurrences, by this machine's clock.
pub(super) fn next(args: &CronNextArgs, output: Output) -> Result<Exit> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp::from_micros(now.as_micros() as u64);
    let recurrence = recurrence(&args.when)?;
    let moments: Vec<_> = recurrence.upcoming(now).take(args.n as usize).collect();
    let micros: Vec<_> = moments.iter().map(|at| at.as_micros()).collect();
    let lines: String = moments.iter().map(|at| format!("{}\n", moment(*at))).collect();
    output.data(&json!({ "recurrence": recurrence, "next_us": micros }), lines)?;
    Ok(Exit::Done)
}

async fn run_now(gate: &Rushgate, which: WhichSchedule, output: Output) -> Result<Exit> {
    let answer = gate.queue(&which.queue)?.run_schedule(&which.id).await?;
    match &answer {
        Some(answer) => output.line(answer, push::words(answer))?,
        None => none(&which, output)?,
    }
    Ok(Exit::done_if(answer.is_some_and(|answer| !matches!(answer, Enqueued::Full { .. }))))
}

async fn pause(gate: &Rushgate, which: WhichSchedule, paused: bool, output: Output) -> Result<Exit> {
    let found = gate.queue(&which.queue)?.pause_schedule(&which.id, paused).await?;
    if found {
        output.line(&json!({ "paused": paused }), if paused { "paused" } else { "resumed" })?;
    } else {
        none(&which, output)?;
    }
    Ok(Exit::done_if(found))
}

async fn rm(gate: &Rushgate, which: WhichSchedule, output: Output) -> Result<Exit> {
    let removed = gate.queue(&which.queue)?.unschedule(&which.id).await?;
    if removed {
        output.line(&json!({ "removed": true }), "removed")?;
    } else {
        none(&which, output)?;
    }
    Ok(Exit::done_if(removed))
}

fn none(which: &WhichSchedule, output: Output) -> Result<()> {
    let text = format_args!("no schedule `{}` in `{}`", which.id, which.queue);
    output.line(&json!({ "outcome": "not_found" }), text)
}

async fn tend(gate: &Rushgate, args: CronTendArgs, output: Output) -> Result<Exit> {
    log::show(output);
    let queue: Queue = gate.queue(&args.queue)?;
    let (shutdown, second_signal) = Signals::listen().context("cannot listen for signals")?.cancels();
    output.remark(format_args!("running the schedules of `{}`; stop with Ctrl-C or SIGTERM", args.queue));
    let report = tokio::select! {
        report = Scheduler::new(queue).run(shutdown) => report?,
        _ = second_signal => return Ok(Exit::Done),
    };
    let SchedulerReport { fired, tasks, outages } = report;
    let json = json!({ "fired": fired, "tasks": tasks, "outages": outages });
    output.line(&json, format_args!("fired {fired}, enqueued {}", counted(tasks, "task")))?;
    Ok(Exit::Done)
}
