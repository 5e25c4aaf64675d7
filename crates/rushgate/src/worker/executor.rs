//! Runs handlers: takes one batch of claimed tasks from its slot to its answers.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rushgate_core::{Completion, HumanDuration, NewTask, Retry, Task, TaskRelease, Timestamp};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::flusher::{Answers, Ending};
use super::heartbeat::{Leases, Signals};
use super::metrics::{Meter, QueueMeter};
use super::presence::Presence;
use super::route::{Handling, Route, Routes, Terms};
use super::service;
use super::{Backoff, Job, Outcome, Results};
use crate::counters::count;
use crate::{Queue, trace};

pub(super) struct Executor {
    pub routes: Routes,
    /// Permits for running batches.
    pub permits: Semaphore,
    /// Shutdown has started: tasks that were not started return to the queue.
    pub stopping: CancellationToken,
    /// The grace is over: running tasks return to the queue too.
    pub aborting: CancellationToken,
    pub retry_policy: Backoff,
    pub timeout: Option<Duration>,
    pub grace: Duration,
}

/// One of the worker's queues.
pub(super) struct Line {
    pub queue: Queue,
    pub answers: Answers,
    pub leases: Arc<Leases>,
    pub meter: Arc<QueueMeter>,
    pub presence: Arc<Presence>,
}

/// One claimed task.
pub(super) struct Item {
    pub task: Task,
    pub signals: Signals,
    pub meter: Arc<Meter>,
    /// Time at which the handler is stopped.
    pub until: Option<Instant>,
}

/// Time from a task's claim to its deadline. The claim's number is its time on the store's clock in
/// microseconds, or slightly later.
pub(super) fn time_of(task: &Task) -> Option<Duration> {
    let claimed = Timestamp::from_micros(task.ticket.claim?.as_u64());
    task.deadline.map(|deadline| deadline.since(claimed))
}

/// How the handling of a batch ended.
enum Ended {
    Answered(Vec<Outcome>),
    Panicked(String),
    TimedOut(Duration),
    Late,
    Lost,
    Cancelled,
    Aborted,
}

impl Executor {
    pub async fn work_on(&self, line: &Line, route: &Route, batch: Vec<Item>) {
        let Some(first) = batch.first() else { return };
        let permit = tokio::select! {
            biased;
            () = self.stopping.cancelled() => None,
            permit = self.permits.acquire() => permit.ok(),
        };
        if permit.is_none() {
            return release(line, &batch);
        }
        let span = span(line, &batch);
        let (meter, began) = (Arc::clone(&first.meter), Instant::now());
        let ended = self.handle(line, route, &batch).instrument(span.clone()).await;
        meter.run.record(began.elapsed());
        span.in_scope(|| self.settle(line, route.terms, &batch, ended));
    }

    async fn handle(&self, line: &Line, route: &Route, batch: &[Item]) -> Ended {
        let jobs = batch.iter().map(|item| item.job(line));
        // The call is inside, so that a panic in it is caught like one in its future.
        let handled = AssertUnwindSafe(async {
            match &route.handling {
                Handling::Each(handler) => {
                    let mut outcomes = Vec::with_capacity(batch.len());
                    for job in jobs {
                        outcomes.push(service::handle(handler, job).await);
                    }
                    outcomes
                }
                Handling::Batches(_, handler) => handler(jobs.collect()).await,
            }
        })
        .catch_unwind();
        let limit = route.terms.timeout.or(self.timeout);
        let deadline = batch.iter().filter_map(|item| item.until).min();
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ended::Late;
        }
        tokio::select! {
            biased;
            () = all(batch, |signals| &signals.lost) => Ended::Lost,
            ended = handled => ended.map_or_else(|panic| Ended::Panicked(message(&*panic)), Ended::Answered),
            () = self.aborting.cancelled() => Ended::Aborted,
            () = async { all(batch, |signals| &signals.cancel).await; sleep(self.grace).await } => {
                Ended::Cancelled
            }
            limit = async { match limit {
                Some(limit) => { sleep(limit).await; limit }
                None => std::future::pending().await,
            } } => Ended::TimedOut(limit),
            () = async { match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            } } => Ended::Late,
        }
    }

    fn settle(&self, line: &Line, terms: Terms, batch: &[Item], ended: Ended) {
        let outcomes = match ended {
            Ended::Lost => {
                tracing::warn!("the lease was lost while the handler was running");
                return;
            }
            Ended::Aborted => return release(line, batch),
            Ended::Cancelled => vec![Outcome::Done; batch.len()],
            Ended::Panicked(panic) => {
                tracing::error!(%panic, "the handler panicked");
                batch.iter().for_each(|item| count(&item.meter.counters.panicked, 1));
                vec![Outcome::retry(format_args!("the handler panicked: {panic}")); batch.len()]
            }
            Ended::TimedOut(limit) => {
                batch.iter().for_each(|item| count(&item.meter.counters.timed_out, 1));
                let error = format_args!("the handler took longer than {}", HumanDuration(limit));
                vec![Outcome::retry(error); batch.len()]
            }
            Ended::Late => return self.settle_late(line, terms, batch),
            Ended::Answered(outcomes) => outcomes,
        };
        for (item, outcome) in batch.iter().zip(outcomes) {
            self.answer(line, terms, item, outcome);
        }
    }

    /// The batch was stopped at a deadline. Tasks past their own deadline have failed; the others return to
    /// the queue.
    fn settle_late(&self, line: &Line, terms: Terms, batch: &[Item]) {
        let now = Instant::now();
        for item in batch {
            if item.until.is_some_and(|until| until <= now) {
                count(&item.meter.counters.timed_out, 1);
                let late = Outcome::retry("its deadline passed while the handler was running");
                self.answer(line, terms, item, late);
            } else {
                release(line, std::slice::from_ref(item));
            }
        }
    }

    /// No handler matches: fails the attempt, so that a newer worker can retry the task and none is lost.
    pub fn refuse_unknown(&self, line: &Line, item: &Item) {
        count(&item.meter.counters.unknown, 1);
        let error = match item.task.payload.kind() {
            Some(kind) => format!("the worker has no handler for the kind `{kind}`"),
            None => "the worker has no handler for tasks without a kind".to_owned(),
        };
        self.answer(line, Terms::default(), item, Outcome::retry(error));
    }

    fn answer(&self, line: &Line, terms: Terms, item: &Item, outcome: Outcome) {
        if item.signals.lost.is_cancelled() {
            return;
        }
        let (ticket, meter) = (item.task.ticket.clone(), Arc::clone(&item.meter));
        // The flusher outlives every handler; if it is gone the whole worker was dropped.
        match outcome {
            // A canceled task is over, whatever its handler returned.
            _ if item.signals.cancel.is_cancelled() => {
                count(&meter.counters.cancelled, 1);
                drop(line.answers.complete.send(Ending { end: ticket.into(), meter }));
            }
            Outcome::Done => drop(line.answers.complete.send(Ending { end: ticket.into(), meter })),
            Outcome::DoneWith(result) => {
                let end = Completion::with(ticket, result);
                match end.check() {
                    Ok(()) => drop(line.answers.complete.send(Ending { end, meter })),
                    Err(error) => self.answer(line, terms, item, Outcome::give_up(error)),
                }
            }
            Outcome::Discard { reason } => {
                tracing::info!(id = %ticket.id, attempt = item.task.attempt, %reason, "discarded");
                let end = Completion { ticket, result: None, discarded: true };
                drop(line.answers.complete.send(Ending { end, meter }));
            }
            Outcome::Retry { after, error } => {
                let policy = terms.retry_policy.unwrap_or(self.retry_policy);
                let delay = after.unwrap_or_else(|| policy.draw(item.task.attempt));
                tracing::info!(id = %ticket.id, attempt = item.task.attempt, %error, ?delay, "failed");
                mark_failed();
                let end = Retry { ticket, delay, error, give_up: false };
                drop(line.answers.retry.send(Ending { end, meter }));
            }
            Outcome::GiveUp { error } => {
                tracing::warn!(id = %ticket.id, attempt = item.task.attempt, %error, "failed permanently; the task \
                    becomes a dead letter");
                mark_failed();
                let end = Retry { ticket, delay: Duration::ZERO, error, give_up: true };
                drop(line.answers.retry.send(Ending { end, meter }));
            }
            Outcome::Release => drop(line.answers.release.send(Ending { end: ticket.into(), meter })),
            Outcome::Snooze { after } => {
                let end = TaskRelease { ticket, delay: after.min(NewTask::DELAY_MAX) };
                drop(line.answers.release.send(Ending { end, meter }));
            }
        }
    }
}

impl Item {
    fn job(&self, line: &Line) -> Job {
        let task = &self.task;
        Job {
            payload: task.payload.clone(),
            content_type: task.payload.content_type().clone(),
            queue: line.queue.name().clone(),
            ticket: task.ticket.clone(),
            attempt: task.attempt,
            max_attempts: task.max_attempts,
            priority: task.priority,
            key: task.key.clone(),
            deadline: task.deadline,
            cancel: self.signals.cancel.clone(),
            progress: self.signals.progress.clone(),
            results: Results { queue: line.queue.clone(), id: task.ticket.id.clone() },
        }
    }
}

/// The span of a batch. The span of a single task continues the trace that enqueued it.
fn span(line: &Line, batch: &[Item]) -> Span {
    let queue = line.queue.name();
    let [Item { task, .. }] = batch else { return tracing::info_span!("tasks", %queue, n = batch.len()) };
    let kind = task.payload.kind();
    let span = tracing::info_span!(
        "task",
        otel.kind = "consumer",
        otel.status_code = Empty,
        %queue,
        id = %task.ticket.id,
        kind,
        attempt = task.attempt
    );
    if let Some(parent) = task.payload.content_type().traceparent() {
        trace::continue_from(&span, &parent);
    }
    span
}

/// Marks the span of a failed task. A batch has no such mark, because its tasks end individually.
fn mark_failed() {
    Span::current().record("otel.status_code", "ERROR");
}

fn release(line: &Line, batch: &[Item]) {
    for item in batch {
        item.signals.cancel.cancel();
        let (end, meter) = (item.task.ticket.clone().into(), Arc::clone(&item.meter));
        let _ = line.answers.release.send(Ending { end, meter });
    }
}

async fn all(batch: &[Item], signal: impl Fn(&Signals) -> &CancellationToken) {
    for item in batch {
        signal(&item.signals).cancelled().await;
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}
