//! `rushgate work`: runs a command or calls a webhook for each task.

mod exec;
mod line;
mod metrics;
mod stop;
mod tail;
mod webhook;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rushgate::worker::{Backoff, Outcome, WorkerReport};
use rushgate::{CancellationToken, Job, Queue, Rushgate, Worker};
use serde_json::json;
use tokio::time::sleep;

use crate::args::work::{QueueWeight, WorkArgs};
use crate::exit::{Exit, Fault};
use crate::globals::Globals;
use crate::log;
use crate::output::{Output, counted};
use crate::signals::Signals;
use stop::Stop;

/// Interval for checking whether the queues are empty.
const EMPTY_CHECK: Duration = Duration::from_millis(50);
/// Default time limit of a webhook.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn run(args: WorkArgs, globals: &Globals) -> Result<Exit> {
    let output = globals.output;
    let telemetry = log::start(output)?;
    exec::warn_of_lost_options(&args.exec, output);
    let worked = globals.with_client(async |client| work(&client, args, output).await).await;
    telemetry.end().await;
    worked
}

/// How tasks are handled.
#[derive(Clone)]
enum TaskRunner {
    Exec(Arc<exec::Executor>),
    Webhook(Arc<webhook::Webhook>),
}

async fn work(client: &Rushgate, args: WorkArgs, output: Output) -> Result<Exit> {
    let queues = args.queues.iter().map(|queue| Ok((client.queue(&queue.name)?, queue.weight)));
    let queues = queues.collect::<Result<Vec<_>>>()?;
    let (shutdown, second_signal) = Signals::listen().context("cannot listen for signals")?.cancels();
    let fault = Stop::new(shutdown.clone());
    let runner = match &args.webhook {
        Some(url) => TaskRunner::Webhook(Arc::new(webhook::Webhook::new(url, &args, output)?)),
        None => TaskRunner::Exec(Arc::new(exec::Executor::new(&args, output, fault.clone()))),
    };
    if args.keep_output.is_some() {
        check_they_keep(&queues).await?;
    }
    let worker = worker(&queues, &args)?.register("*", move |job: Job| carry_out(runner.clone(), job));
    let page = match args.metrics {
        Some(address) => Some(metrics::Page::bind(address, worker.metrics()).await?),
        None => None,
    };
    if let Some(page) = &page {
        output.note(format_args!("metrics at {}", page.url()?));
    }
    let report = tokio::select! {
        report = worker.run(shutdown.clone()) => report?,
        _ = second_signal => {
            output.note("stopped immediately; running tasks become available when their leases expire");
            return Ok(Exit::Done);
        }
        never = shown(page) => match never {},
        never = until_empty(&queues, args.until_empty, &shutdown, output) => match never? {},
    };
    say(report, output)?;
    fault.taken()?;
    Ok(Exit::Done)
}

/// Refuses to keep outputs in a queue without a retention.
async fn check_they_keep(queues: &[(Queue, u32)]) -> Result<()> {
    for (queue, _) in queues {
        if queue.stats().await?.limits.retention.is_none() {
            let why = format_args!("queue `{}` has no retention, so it cannot keep output", queue.name());
            return Err(Fault::usage(why)
                .hint(format_args!("set a retention: rushgate queue limit {} --keep 1h/1000", queue.name()))
                .into());
        }
    }
    Ok(())
}

async fn carry_out(runner: TaskRunner, job: Job) -> Outcome {
    match runner {
        TaskRunner::Exec(executor) => executor.carry_out(job).await,
        TaskRunner::Webhook(webhook) => webhook.carry_out(job).await,
    }
}

fn worker(queues: &[(Queue, u32)], args: &WorkArgs) -> Result<Worker> {
    let ((first, weight), others) = queues.split_first().context("clap requires a queue")?;
    let mut worker = Worker::new(first).weight(*weight);
    for (queue, weight) in others {
        worker = worker.queue(queue, *weight);
    }
    let policy = Backoff { base: args.backoff, max: args.backoff_max, ..Backoff::default() };
    let worker =
        worker.concurrency(args.concurrency).lease(args.lease).grace(args.grace).retry_policy(policy);
    let webhook = args.webhook.as_ref().map(|_| WEBHOOK_TIMEOUT);
    Ok(match args.timeout.or(webhook) {
        Some(timeout) => worker.timeout(timeout),
        None => worker,
    })
}

/// Serves the metrics until the worker ends.
async fn shown(page: Option<metrics::Page>) -> Infallible {
    match page {
        Some(page) => page.serve().await,
        None => std::future::pending().await,
    }
}

/// Stops the worker once the queues are empty.
async fn until_empty(
    queues: &[(Queue, u32)],
    wanted: bool,
    shutdown: &CancellationToken,
    output: Output,
) -> Result<Infallible> {
    let mut told = 0;
    while wanted && !shutdown.is_cancelled() {
        match left(queues).await? {
            (0, 0) => shutdown.cancel(),
            (0, blocked) if blocked != told => {
                output.note(format_args!(
                    "{} left, waiting for dependencies: `rushgate queue why` lists them",
                    counted(blocked, "task")
                ));
                told = blocked;
            }
            _ => {}
        }
        sleep(EMPTY_CHECK).await;
    }
    std::future::pending().await
}

/// Number of tasks that run or are scheduled, and number of blocked ones.
async fn left(queues: &[(Queue, u32)]) -> Result<(u64, u64)> {
    let mut left = (0, 0);
    for (queue, _) in queues {
        let stats = queue.stats().await?;
        left = (left.0 + stats.ready + stats.scheduled + stats.leased, left.1 + stats.blocked);
    }
    Ok(left)
}

/// Prints the summary: with --json as data after the lines of the tasks, otherwise as a note, because stdout
/// belongs to the commands.
fn say(report: WorkerReport, output: Output) -> Result<Exit> {
    let WorkerReport { done, cancelled, retried, dead, released, lost, .. } = report;
    // The worker's counters include canceled tasks among the done ones.
    let done = done.saturating_sub(cancelled);
    if output.json {
        let summary = json!({
            "done": done, "cancelled": cancelled, "retried": retried, "dead": dead, "released": released,
            "lost": lost
        });
        return output.line(&json!({ "summary": summary }), "");
    }
    output.note(format_args!(
        "{done} done, {retried} to be retried, {dead} dead, {cancelled} canceled, {released} released, {lost} lost"
    ));
    Ok(Exit::Done)
}

impl std::str::FromStr for QueueWeight {
    type Err = String;

    /// The text after the last `=` is the weight, if it is a number.
    fn from_str(text: &str) -> Result<Self, String> {
        let weighed = text.rsplit_once('=').and_then(|(name, weight)| Some((name, weight.parse().ok()?)));
        let (name, weight) = weighed.unwrap_or((text, 1));
        Ok(Self { name: name.to_owned(), weight })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_may_have_a_weight() {
        let read = |text: &str| text.parse::<QueueWeight>().map(|queue| (queue.name, queue.weight));
        assert_eq!(read("mail"), Ok(("mail".to_owned(), 1)));
        assert_eq!(read("mail=6"), Ok(("mail".to_owned(), 6)));
        assert_eq!(read("a=b"), Ok(("a=b".to_owned(), 1)));
        assert_eq!(read("a=2=1"), Ok(("a=2".to_owned(), 1)));
    }
}
