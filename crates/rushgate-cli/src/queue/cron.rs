//! Schedules.

use std::time::SystemTime;

use anyhow::{Context, Result};
use rushgate::schedule::{Scheduled, Scheduler, SchedulerReport};
use rushgate::store::Page;
use rushgate::wire::{RecurrenceSpec, ScheduleReport};
use rushgate::{Enqueued, Queue, Recurrence, Rushgate, Timestamp};
use serde_json::json;

use super::enqueue::{self, payload};
use crate::args::queue::{CronAddArgs, CronNextArgs, CronVerb, OfQueue, PageArgs, WhenArgs, WhichSchedule};
use crate::exit::Exit;
use crate::log;
use crate::output::{Output, Table, counted, moment, word};
use crate::signals::Signals;

pub(super) async fn run(client: &Rushgate, verb: CronVerb, output: Output) -> Result<Exit> {
    match verb {
        CronVerb::Add(args) => add(client, args, output).await,
        CronVerb::Ls(args) => ls(client, args, output).await,
        CronVerb::Next(args) => next(&args, output),
        CronVerb::Run(which) => run_now(client, which, output).await,
        CronVerb::Pause(which) => pause(client, which, true, output).await,
        CronVerb::Resume(which) => pause(client, which, false, output).await,
        CronVerb::Rm(which) => rm(client, which, output).await,
        CronVerb::Tend(args) => tend(client, args, output).await,
    }
}

async fn add(client: &Rushgate, args: CronAddArgs, output: Output) -> Result<Exit> {
    let queue = client.queue(&args.queue)?;
    let mut schedule = queue
        .schedule(&args.id, payload(&args.content)?, recurrence(&args.when)?)
        .priority(args.priority)
        .max_attempts(args.max_attempts);
    if args.paused {
        schedule = schedule.paused(true);
    }
    let answer = schedule.save().await?;
    let saved = match answer {
        Scheduled::Added { revision }
        | Scheduled::Changed { revision }
        | Scheduled::Unchanged { revision } => Some(revision),
        _ => None,
    };
    let revision = saved.map_or(String::new(), |saved| format!(" revision {}", saved.as_u64()));
    output.line(&answer, word(&answer) + &revision)?;
    Ok(Exit::done_if(saved.is_some()))
}

fn recurrence(when: &WhenArgs) -> Result<Recurrence> {
    let every_ms = when.every.map(|every| u64::try_from(every.as_millis()).unwrap_or(u64::MAX));
    let missed = when.missed;
    let spec = RecurrenceSpec { cron: when.cron.clone(), zone: when.zone.clone(), every_ms, missed };
    Ok(Recurrence::try_from(spec)?)
}

async fn ls(client: &Rushgate, args: PageArgs, output: Output) -> Result<Exit> {
    let page = Page::after(args.after, args.n);
    let schedules = client.queue(&args.queue)?.schedules(page).await?;
    let none = format_args!("no schedules in `{}`", args.queue);
    output.page_end(&schedules, args.n, |of| &of.id, none);
    let rows = schedules.iter().map(|of| {
        let when = of.recurrence.parse::<Recurrence>();
        let when = when.map_or_else(|_| "(invalid)".to_owned(), |when| when.to_string());
        let at = |moment_of: Option<Timestamp>| moment_of.map_or("-".to_owned(), moment);
        let next = if of.paused { "paused".to_owned() } else { at(of.next) };
        [of.id.to_string(), when, next, at(of.previous)]
    });
    let table = Table::new(["SCHEDULE", "WHEN", "NEXT", "PREVIOUS"], rows);
    output.data(&schedules.into_iter().map(ScheduleReport::from).collect::<Vec<_>>(), table)
}

/// Next occurrences, by this machine's clock.
pub(super) fn next(args: &CronNextArgs, output: Output) -> Result<Exit> {
    let now = Timestamp::try_from(SystemTime::now()).unwrap_or_default();
    let recurrence = recurrence(&args.when)?;
    let moments: Vec<_> = recurrence.upcoming(now).take(args.n as usize).collect();
    let micros: Vec<_> = moments.iter().map(|at| at.as_micros()).collect();
    let lines: String = moments.iter().map(|at| format!("{}\n", moment(*at))).collect();
    output.data(&json!({ "recurrence": recurrence, "next_us": micros }), lines)
}

async fn run_now(client: &Rushgate, which: WhichSchedule, output: Output) -> Result<Exit> {
    let answer = client.queue(&which.queue)?.run_schedule(&which.id).await?;
    let Some(answer) = answer else { return none(&which, output) };
    output.line(&answer, enqueue::words(&answer))?;
    Ok(Exit::done_if(!matches!(answer, Enqueued::Full { .. })))
}

async fn pause(client: &Rushgate, which: WhichSchedule, paused: bool, output: Output) -> Result<Exit> {
    match client.queue(&which.queue)?.pause_schedule(&which.id, paused).await? {
        true => output.line(&json!({ "paused": paused }), if paused { "paused" } else { "resumed" }),
        false => none(&which, output),
    }
}

async fn rm(client: &Rushgate, which: WhichSchedule, output: Output) -> Result<Exit> {
    match client.queue(&which.queue)?.unschedule(&which.id).await? {
        true => output.line(&json!({ "removed": true }), "removed"),
        false => none(&which, output),
    }
}

fn none(which: &WhichSchedule, output: Output) -> Result<Exit> {
    let text = format_args!("no schedule `{}` in `{}`", which.id, which.queue);
    output.line(&json!({ "outcome": "not_found" }), text)?;
    Ok(Exit::Refused)
}

async fn tend(client: &Rushgate, args: OfQueue, output: Output) -> Result<Exit> {
    log::show(output);
    let queue: Queue = client.queue(&args.queue)?;
    let (shutdown, second_signal) = Signals::listen().context("cannot listen for signals")?.cancels();
    output.remark(format_args!("running the schedules of `{}`; stop with Ctrl-C or SIGTERM", args.queue));
    let report = tokio::select! {
        report = Scheduler::new(queue).run(shutdown) => report?,
        _ = second_signal => return Ok(Exit::Done),
    };
    let SchedulerReport { fired, tasks, outages } = report;
    let json = json!({ "fired": fired, "tasks": tasks, "outages": outages });
    output.line(&json, format_args!("fired {fired}, enqueued {}", counted(tasks, "task")))
}
