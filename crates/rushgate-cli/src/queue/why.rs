//! Why a task is not running.

use std::time::Duration;

use anyhow::Result;
use rushgate::{Finish, IfDead, KeyRun, Rushgate, WaitsFor, Why};
use serde_json::json;

use super::shown::{printable, rounded};
use crate::args::queue::WhyArgs;
use crate::exit::Exit;
use crate::output::{Output, counted, moment};

/// A due task that nobody has wanted for so long, while nobody works on others, has no worker.
const NOBODY_AFTER: Duration = Duration::from_secs(2);

pub(super) async fn why(gate: &Rushgate, args: WhyArgs, output: Output) -> Result<Exit> {
    let reasons = gate.queue(&args.queue)?.why(&args.id).await?;
    let known = !reasons.contains(&Why::Unknown);
    let lines: String = reasons.iter().map(|reason| format!("{}\n", words(reason, &args))).collect();
    output.data(&json!({ "id": args.id, "reasons": reasons }), lines)?;
    Ok(Exit::done_if(known))
}

/// The reason, and what can be done about it.
fn words(reason: &Why, args: &WhyArgs) -> String {
    let WhyArgs { queue, id } = args;
    match reason {
        Why::Running { worker, attempt, lease_until, lease_left, cancelled, replaced, .. } => {
            let (worker, until) = (printable(worker, usize::MAX), moment(*lease_until));
            let left = rounded(*lease_left);
            let told = if *cancelled { "; it was told to stop" } else { "" };
            let next =
                if *replaced { "; it runs again after that, with what was put in meanwhile" } else { "" };
            format!(
                "it is running: attempt {attempt}, by {worker}, whose lease ends in {left} unless it is extended \
                 ({until}){told}{next}"
            )
        }
        Why::Paused => format!("the queue is paused: `rushgate queue resume {queue}` lets it go on"),
        Why::NotDue { due, wait, attempts, max_attempts, error } => {
            let (due, wait) = (moment(*due), rounded(*wait));
            let failed = error.as_ref().map_or(String::new(), |error| {
                let error = printable(error, usize::MAX);
                format!("; attempt {attempts} of {max_attempts} failed: {error}")
            });
            format!("it is not due for {wait} ({due}){failed}")
        }
        Why::QueueBusy { concurrency, running } => {
            let most = counted((*concurrency).into(), "task");
            format!("the queue may have {most} leased at a time, and has: {}", runs(running))
        }
        Why::RateLimited { key, until, wait } => {
            let whose = key.as_ref().map_or("the queue".to_owned(), |key| format!("its key {key}"));
            format!("the rate of {whose} allows no other for {} ({})", rounded(*wait), moment(*until))
        }
        Why::KeyBusy { key, running } => {
            format!("its key {key} has as many running as it may have: {}", runs(running))
        }
        Why::InLine { key, first } => {
            let first = first.as_ref().map_or(String::new(), |first| format!("; {first} is first"));
            format!("it stands in line behind others of its key {key}{first}")
        }
        Why::WaitsFor { left, dead, first, if_dead, open } => {
            waits_for(*left, *dead, first, *if_dead, *open, args)
        }
        Why::Waiting { ahead, leased, due_for, last_claim } => {
            let ahead = match ahead {
                Some(0) => "nothing is given out before it".to_owned(),
                Some(ahead) => format!("{} before it", counted((*ahead).into(), "task")),
                None => "a thousand tasks or more before it".to_owned(),
            };
            let workers = match leased {
                0 if *due_for >= NOBODY_AFTER => {
                    let since = last_claim.map_or("ever".to_owned(), |at| format!("since {}", moment(at)));
                    format!(
                        "; nothing of the queue was claimed {since}: is a worker running, such as `rushgate work {queue}`?"
                    )
                }
                leased => format!("; {} being worked on", counted(*leased, "task")),
            };
            format!("it has been due for {}, {ahead}{workers}", rounded(*due_for))
        }
        Why::Deadline { deadline, left } => {
            let (at, left) = (moment(*deadline), rounded(*left));
            format!("its deadline is in {left} ({at}): it is not given out from then on")
        }
        Why::Dead { attempts, max_attempts, error, died_at } => {
            let (error, at) = (printable(error, usize::MAX), moment(*died_at));
            format!(
                "it died at {at} after attempt {attempts} of {max_attempts}: {error}; \
                 `rushgate queue dead retry {queue} {id}` puts it back"
            )
        }
        Why::Done { how, finished_at, worker } => {
            let by = worker
                .as_ref()
                .map_or(String::new(), |worker| format!(" by {}", printable(worker, usize::MAX)));
            let how = match how {
                Finish::Done => "it was done",
                Finish::Discarded => "it was discarded, because there was nothing to do,",
                Finish::Cancelled => "it was cancelled",
                Finish::Dropped => "it was dropped for a newcomer, because the queue was at its bound,",
            };
            format!(
                "{how}{by} at {}; `rushgate queue show {queue} {id}` has its result",
                moment(*finished_at)
            )
        }
        Why::Unique { until, left } => {
            let (at, left) = (moment(*until), rounded(*left));
            format!(
                "it was put in lately: its id is unique for another {left} ({at}); \
                 `rushgate queue lift {queue} {id}` frees it"
            )
        }
        Why::Unknown => "there is no such task: it is done, was removed, or was never put in".to_owned(),
    }
}

/// What a task waits for, and what stands in the way.
fn waits_for(
    left: u64,
    dead: u64,
    first: &[WaitsFor],
    if_dead: IfDead,
    open: bool,
    args: &WhyArgs,
) -> String {
    let WhyArgs { queue, id } = args;
    let names: Vec<_> = first.iter().map(|one| one.id.to_string()).collect();
    let more = left.saturating_sub(names.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let held = format!("it is held open for others: `rushgate queue close {queue} {id}` ends that");
    let mut words = match (left, open) {
        (0, _) => held,
        (_, open) => {
            let also = if open { format!("; {held}") } else { String::new() };
            format!("it waits for {}: {}{more}{also}", counted(left, "task"), names.join(", "))
        }
    };
    let failed = first.iter().find_map(|one| Some((&one.id, one.error.as_ref()?)));
    if let Some((one, error)) = failed {
        let others = if dead > 1 { format!(", and {} more", dead - 1) } else { String::new() };
        let error = printable(error, usize::MAX);
        let then = match if_dead {
            IfDead::Wait => format!("; `rushgate queue dead retry {queue} {one}` puts it back"),
            IfDead::Fail | IfDead::Run => String::new(),
        };
        words += &format!("; {one} is dead{others}: {error}{then}");
    }
    words
}

fn runs(running: &[KeyRun]) -> String {
    let run = |run: &KeyRun| {
        let worker = printable(&run.worker, usize::MAX);
        format!(
            "{} by {worker}, whose lease ends at {} unless it is extended",
            run.id,
            moment(run.lease_until)
        )
    };
    running.iter().map(run).collect::<Vec<_>>().join("; ")
}
