//! `queue why`: explains why a task is not running.

use std::time::Duration;

use anyhow::Result;
use rushgate::Rushgate;
use rushgate::queue::{Finish, IfDead, KeyRun, WaitsFor, Why};
use serde_json::json;

use super::shown::{printable, rounded};
use crate::args::queue::OfTask;
use crate::exit::Exit;
use crate::output::{Output, counted, moment, word};

/// After this time without a claim, a ready task of an idle queue probably has no worker.
const NOBODY_AFTER: Duration = Duration::from_secs(2);

pub(super) async fn why(client: &Rushgate, args: OfTask, output: Output) -> Result<Exit> {
    let reasons = client.queue(&args.queue)?.why(&args.id).await?;
    let known = !reasons.contains(&Why::Unknown);
    let lines: String = reasons.iter().map(|reason| format!("{}\n", words(reason, &args))).collect();
    output.data(&json!({ "id": args.id, "reasons": reasons }), lines)?;
    Ok(Exit::done_if(known))
}

/// A reason in words, with a suggestion.
fn words(reason: &Why, args: &OfTask) -> String {
    let OfTask { queue, id } = args;
    match reason {
        Why::Running { worker, attempt, lease_until, lease_left, cancelled, replaced, .. } => {
            let (worker, until) = (printable(worker, usize::MAX), moment(*lease_until));
            let left = rounded(*lease_left);
            let told = if *cancelled { "; a client asked to cancel it" } else { "" };
            let next = if *replaced { "; a pending replacement runs after it" } else { "" };
            format!(
                "running: attempt {attempt} by {worker}; the lease expires in {left} unless it is extended \
                 ({until}){told}{next}"
            )
        }
        Why::Paused => format!("the queue is paused: `rushgate queue resume {queue}` resumes it"),
        Why::NotDue { due, wait, attempts, max_attempts, error } => {
            let (due, wait) = (moment(*due), rounded(*wait));
            let failed = error.as_ref().map_or(String::new(), |error| {
                let error = printable(error, usize::MAX);
                format!("; attempt {attempts} of {max_attempts} failed: {error}")
            });
            format!("due in {wait} ({due}){failed}")
        }
        Why::QueueBusy { concurrency, running } => {
            let most = counted((*concurrency).into(), "task");
            format!("concurrency limit of the queue reached ({most} at a time): {}", runs(running))
        }
        Why::RateLimited { key, until, wait } => {
            let whose = key.as_ref().map_or("the queue".to_owned(), |key| format!("key {key}"));
            format!("rate limit of {whose}: next task in {} ({})", rounded(*wait), moment(*until))
        }
        Why::KeyBusy { key, running } => {
            format!("concurrency limit of key {key} reached: {}", runs(running))
        }
        Why::InLine { key, first } => {
            let first = first.as_ref().map_or(String::new(), |first| format!("; {first} is first in order"));
            format!("behind other tasks of key {key}{first}")
        }
        Why::WaitsFor { left, dead, first, if_dead, open } => {
            waits_for(*left, *dead, first, *if_dead, *open, args)
        }
        Why::Waiting { ahead, leased, due_for, last_claim } => {
            let ahead = match ahead {
                Some(0) => "first in order".to_owned(),
                Some(ahead) => format!("{} ahead of it", counted((*ahead).into(), "task")),
                None => "at least 1,000 tasks ahead of it".to_owned(),
            };
            let workers = match leased {
                0 if *due_for >= NOBODY_AFTER => {
                    let since = last_claim.map_or("yet".to_owned(), |at| format!("since {}", moment(at)));
                    format!(
                        "; no worker has claimed from this queue {since}. Start one: `rushgate work {queue}`"
                    )
                }
                leased => format!("; {} running", counted(*leased, "task")),
            };
            format!("ready for {}, {ahead}{workers}", rounded(*due_for))
        }
        Why::Deadline { deadline, left } => {
            let (at, left) = (moment(*deadline), rounded(*left));
            format!("deadline in {left} ({at}): after that it becomes a dead letter")
        }
        Why::Dead { attempts, max_attempts, error, died_at } => {
            let (error, at) = (printable(error, usize::MAX), moment(*died_at));
            format!(
                "dead letter since {at}, after attempt {attempts} of {max_attempts}: {error}; \
                 `rushgate queue dead requeue {queue} {id}` requeues it"
            )
        }
        Why::Done { how, finished_at, worker } => {
            let by = worker
                .as_ref()
                .map_or(String::new(), |worker| format!(" by {}", printable(worker, usize::MAX)));
            let how = match how {
                Finish::Done => "completed",
                Finish::Discarded => "discarded: there was nothing to do;",
                Finish::Cancelled => "canceled",
                Finish::Dropped => "dropped by the overflow policy: the queue was at capacity;",
            };
            format!(
                "{how}{by} at {}; `rushgate queue show {queue} {id}` has its result",
                moment(*finished_at)
            )
        }
        Why::Unique { until, left } => {
            let (at, left) = (moment(*until), rounded(*left));
            format!(
                "the ID stays unique for another {left} ({at}); \
                 `rushgate queue clear-unique {queue} {id}` clears it"
            )
        }
        Why::Unknown => "no such task: it is done, was removed, or was never enqueued".to_owned(),
        other => word(other),
    }
}

/// Describes the tasks that a task waits for.
fn waits_for(left: u64, dead: u64, first: &[WaitsFor], if_dead: IfDead, open: bool, args: &OfTask) -> String {
    let OfTask { queue, id } = args;
    let names: Vec<_> = first.iter().map(|one| one.id.to_string()).collect();
    let more = left.saturating_sub(names.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let held =
        format!("it is the callback of an open batch: `rushgate queue close-batch {queue} {id}` closes it");
    let mut words = match (left, open) {
        (0, _) => held,
        (_, open) => {
            let also = if open { format!("; {held}") } else { String::new() };
            format!("waiting for {}: {}{more}{also}", counted(left, "task"), names.join(", "))
        }
    };
    let failed = first.iter().find_map(|one| Some((&one.id, one.error.as_ref()?)));
    if let Some((one, error)) = failed {
        let others = if dead > 1 { format!(", and {} more", dead - 1) } else { String::new() };
        let error = printable(error, usize::MAX);
        let then = match if_dead {
            IfDead::Wait => format!("; `rushgate queue dead requeue {queue} {one}` requeues it"),
            IfDead::Fail | IfDead::Run => String::new(),
        };
        words += &format!("; {one} is dead{others}: {error}{then}");
    }
    words
}

fn runs(running: &[KeyRun]) -> String {
    let run = |run: &KeyRun| {
        let worker = printable(&run.worker, usize::MAX);
        format!("{} by {worker}, lease until {} unless it is extended", run.id, moment(run.lease_until))
    };
    running.iter().map(run).collect::<Vec<_>>().join("; ")
}
