//! The crew of one worker: a claimer, a task for each batch at work, the heartbeat and the flusher.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rushgate_core::{Claim, Claimed, Lease, Result, Retry, Spoken, Task};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::flusher::{Answers, Flusher, Lanes, lanes};
use super::heartbeat::{Leases, Signals, beat};
use super::report::{Counters, count};
use super::{IntoOutcome, Job, Outcome, Plan, WorkerReport};
use crate::clock::Boot;
use crate::patience::{Pauses, will_pass};
use crate::queue::Ready;
use crate::{Queue, Scheduler};

/// How long the answers that are left may take after the last handler has ended.
const FLUSH_MAX: Duration = Duration::from_secs(5);
/// A claim that finds nothing asks again after so long, whatever it heard.
const IDLE_MAX: Duration = Duration::from_secs(5);

pub(super) struct Crew<T, H> {
    shop: Arc<Shop<T, H>>,
    /// Batches claimed and not ended.
    slots: Arc<Semaphore>,
    work: JoinSet<()>,
    staff: JoinSet<()>,
    flusher: Option<(Flusher, Lanes)>,
}

/// What everybody in the crew shares.
struct Shop<T, H> {
    queue: Queue<T>,
    plan: Plan,
    max: u32,
    handler: H,
    leases: Arc<Leases>,
    counters: Arc<Counters>,
    answers: Answers,
    /// Batches being handled.
    hands: Arc<Semaphore>,
    /// No new work: what was not started goes back.
    stopping: CancellationToken,
    /// No time left: what was started goes back too.
    aborting: CancellationToken,
    hurry: CancellationToken,
}

impl<T, H, Fut, O> Crew<T, H>
where
    T: Send + 'static,
    H: Fn(Vec<Job<T>>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Vec<O>> + Send + 'static,
    O: IntoOutcome + 'static,
{
    pub fn gather(queue: Queue<T>, plan: Plan, lease: Lease, max: u32, handler: H) -> Self {
        let (answers, lanes) = lanes();
        let (leases, counters) = (Arc::new(Leases::new(lease)), Arc::new(Counters::default()));
        let hurry = CancellationToken::new();
        let flusher = Flusher {
            gate: queue.gate().clone(),
            queue: queue.name().clone(),
            leases: Arc::clone(&leases),
            counters: Arc::clone(&counters),
            hurry: hurry.clone(),
        };
        Self {
            slots: Arc::new(Semaphore::new((plan.concurrency + plan.prefetch) as usize)),
            work: JoinSet::new(),
            staff: JoinSet::new(),
            flusher: Some((flusher, lanes)),
            shop: Arc::new(Shop {
                hands: Arc::new(Semaphore::new(plan.concurrency as usize)),
                stopping: CancellationToken::new(),
                aborting: CancellationToken::new(),
                hurry,
                queue,
                plan,
                max,
                handler,
                leases,
                counters,
                answers,
            }),
        }
    }

    pub async fn work(mut self, shutdown: CancellationToken) -> Result<WorkerReport> {
        let shop = Arc::clone(&self.shop);
        let (gate, queue) = (shop.queue.gate().clone(), shop.queue.name().clone());
        self.staff.spawn(beat(gate, queue, Arc::clone(&shop.leases), Arc::clone(&shop.counters)));
        if shop.plan.schedules {
            self.staff.spawn(fire_schedules(shop.queue.clone(), shop.stopping.clone()));
        }
        let mut flushing = JoinSet::new();
        if let Some((flusher, lanes)) = self.flusher.take() {
            flushing.spawn(flusher.flush(lanes));
        }
        let claimed = tokio::select! {
            biased;
            () = shutdown.cancelled() => Ok(()),
            claimed = self.claim() => claimed,
        };
        self.finish().await;
        let counters = Arc::clone(&shop.counters);
        let hurry = shop.hurry.clone();
        // The heart beats until the last answer is sent.
        let _staff = std::mem::take(&mut self.staff);
        // The last senders of answers: the flusher ends when it has sent what waits.
        drop((shop, self));
        if timeout(FLUSH_MAX, flushing.join_next()).await.is_err() {
            hurry.cancel();
            let _ = timeout(FLUSH_MAX, flushing.join_next()).await;
        }
        claimed.map(|()| counters.report())
    }

    /// Claims as much as there are free slots for, again and again. Ends with a lasting error only.
    async fn claim(&mut self) -> Result<()> {
        let mut pauses = Pauses::new();
        loop {
            let slots = self.free_slots().await;
            let wanted = (slots.len() as u32).saturating_mul(self.shop.max).min(Claim::BATCH_MAX as u32);
            let (mut ready, sent) =
                (Ready::listen(self.shop.queue.gate(), self.shop.queue.name()), Boot::now());
            match self.claim_once(wanted).await {
                Ok(claimed) => {
                    pauses = Pauses::new();
                    let idle = claimed.tasks.is_empty();
                    let next_due = claimed.next_due.unwrap_or(IDLE_MAX);
                    if next_due.is_zero() && !idle {
                        ready.more_is_due();
                    }
                    self.hand_out(claimed.tasks, slots, sent);
                    if idle {
                        ready.within(next_due.clamp(Duration::from_millis(1), IDLE_MAX)).await;
                    }
                }
                Err(error) if will_pass(&error) && !self.is_closed() => {
                    count(&self.shop.counters.outages, 1);
                    tracing::warn!(queue = %self.shop.queue.name(), %error, "the worker waits for the store");
                    sleep(pauses.draw()).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.shop.queue.gate().closing().is_cancelled()
    }

    async fn claim_once(&self, n: u32) -> Result<Claimed> {
        let shop = &self.shop;
        let worker = shop.plan.label.clone().unwrap_or_else(|| shop.queue.gate().who());
        shop.queue.claim_now(n, shop.plan.lease, worker).await
    }

    /// Waits for a free slot, and takes the others that are free too, up to what one claim may bring.
    async fn free_slots(&mut self) -> Vec<OwnedSemaphorePermit> {
        while self.work.try_join_next().is_some() {}
        let most = (Claim::BATCH_MAX as u32).div_ceil(self.shop.max) as usize;
        let mut slots = Vec::new();
        if let Ok(first) = Arc::clone(&self.slots).acquire_owned().await {
            slots.push(first);
        }
        while slots.len() < most
            && let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned()
        {
            slots.push(slot);
        }
        slots
    }

    fn hand_out(&mut self, tasks: Vec<Task>, slots: Vec<OwnedSemaphorePermit>, sent: Boot) {
        count(&self.shop.counters.claimed, tasks.len());
        let mut tasks = tasks.into_iter().peekable();
        for slot in slots {
            let batch: Vec<_> = tasks.by_ref().take(self.shop.max as usize).collect();
            if batch.is_empty() {
                return;
            }
            let batch = batch.into_iter().map(|task| {
                let signals = self.shop.leases.add(&task.ticket, sent);
                Item { task, signals }
            });
            let shop = Arc::clone(&self.shop);
            let batch = batch.collect();
            self.work.spawn(async move {
                shop.work_on(batch).await;
                drop(slot);
            });
        }
    }

    /// Ends in order; afterwards every task that was claimed has its answer on the way.
    async fn finish(&mut self) {
        self.shop.stopping.cancel();
        let all = async { while self.work.join_next().await.is_some() {} };
        if timeout(self.shop.plan.grace, all).await.is_err() {
            self.shop.aborting.cancel();
            while self.work.join_next().await.is_some() {}
        }
    }
}

/// Until the worker stops. What is wrong with the store is said by its claims, what is wrong with the schedules here.
async fn fire_schedules<T>(queue: Queue<T>, stopping: CancellationToken) {
    while let Err(error) = Scheduler::new(queue.clone()).run(stopping.clone()).await {
        tracing::error!(queue = %queue.name(), %error, "its schedules cannot be fired");
        tokio::select! {
            () = stopping.cancelled() => return,
            () = sleep(IDLE_MAX) => {}
        }
    }
}

struct Item {
    task: Task,
    signals: Signals,
}

/// How the handling of a batch ended.
enum Ended {
    Answered(Vec<Outcome>),
    Panicked(String),
    TimedOut(Duration),
    Lost,
    Cancelled,
    Aborted,
}

impl<T, H, Fut, O> Shop<T, H>
where
    T: Send + 'static,
    H: Fn(Vec<Job<T>>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Vec<O>> + Send + 'static,
    O: IntoOutcome + 'static,
{
    async fn work_on(&self, batch: Vec<Item>) {
        let hand = tokio::select! {
            biased;
            () = self.stopping.cancelled() => None,
            hand = self.hands.acquire() => hand.ok(),
        };
        if hand.is_none() {
            return self.give_back(&batch);
        }
        let (jobs, readable) = self.open(batch);
        if jobs.is_empty() {
            return;
        }
        let span = self.span(&readable);
        let ended = self.handle(jobs, &readable).instrument(span.clone()).await;
        span.in_scope(|| self.settle(readable, ended));
    }

    fn span(&self, batch: &[Item]) -> tracing::Span {
        let queue = self.queue.name();
        match batch {
            [Item { task, .. }] => {
                tracing::info_span!("task", %queue, id = %task.ticket.id, attempt = task.attempt)
            }
            _ => tracing::info_span!("tasks", %queue, n = batch.len()),
        }
    }

    /// Reads the contents. A task that cannot be read is given up: no later attempt will read it.
    fn open(&self, batch: Vec<Item>) -> (Vec<Job<T>>, Vec<Item>) {
        let (mut jobs, mut readable) = (Vec::with_capacity(batch.len()), Vec::with_capacity(batch.len()));
        for item in batch {
            match self.queue.read(&item.task.payload) {
                Ok(payload) => {
                    jobs.push(Job {
                        payload,
                        ticket: item.task.ticket.clone(),
                        attempt: item.task.attempt,
                        max_attempts: item.task.max_attempts,
                        priority: item.task.priority,
                        cancel: item.signals.cancel.clone(),
                    });
                    readable.push(item);
                }
                Err(error) => self.answer(&item, Outcome::give_up(error)),
            }
        }
        (jobs, readable)
    }

    async fn handle(&self, jobs: Vec<Job<T>>, batch: &[Item]) -> Ended {
        // The handler's own call is inside, so that its panic is caught like one of its future.
        let handled = caught(async { (self.handler)(jobs).await });
        let limit = self.plan.timeout;
        tokio::select! {
            biased;
            () = all(batch, |signals| &signals.lost) => Ended::Lost,
            ended = handled => match ended {
                Ok(outcomes) => {
                    Ended::Answered(outcomes.into_iter().map(IntoOutcome::into_outcome).collect())
                }
                Err(panic) => Ended::Panicked(panic),
            },
            () = self.aborting.cancelled() => Ended::Aborted,
            () = async { all(batch, |signals| &signals.cancel).await; sleep(self.plan.grace).await } => {
                Ended::Cancelled
            }
            limit = async { match limit {
                Some(limit) => { sleep(limit).await; limit }
                None => std::future::pending().await,
            } } => Ended::TimedOut(limit),
        }
    }

    fn settle(&self, batch: Vec<Item>, ended: Ended) {
        let outcomes = match ended {
            Ended::Lost => {
                tracing::warn!("the lease was lost during the work");
                return;
            }
            Ended::Aborted => return self.give_back(&batch),
            Ended::Cancelled => vec![Outcome::Done; batch.len()],
            Ended::Panicked(panic) => {
                tracing::error!(%panic, "the handler panicked");
                count(&self.counters.panicked, batch.len());
                vec![Outcome::retry(format_args!("the handler panicked: {panic}")); batch.len()]
            }
            Ended::TimedOut(limit) => {
                count(&self.counters.timed_out, batch.len());
                vec![
                    Outcome::retry(format_args!("the handler took longer than {}", Spoken(limit)));
                    batch.len()
                ]
            }
            Ended::Answered(outcomes) => outcomes,
        };
        let missing = || Outcome::retry("the handler gave no answer for this task of its batch");
        let outcomes = outcomes.into_iter().chain(std::iter::repeat_with(missing));
        for (item, outcome) in batch.iter().zip(outcomes) {
            self.answer(item, outcome);
        }
    }

    fn answer(&self, item: &Item, outcome: Outcome) {
        if item.signals.lost.is_cancelled() {
            return;
        }
        let ticket = item.task.ticket.clone();
        // The flusher outlives every handler; if it is gone the whole worker was dropped.
        match outcome {
            // What was cancelled is over, whatever its handler made of it.
            _ if item.signals.cancel.is_cancelled() => {
                count(&self.counters.cancelled, 1);
                drop(self.answers.complete.send(ticket));
            }
            Outcome::Done => drop(self.answers.complete.send(ticket)),
            Outcome::Retry { after, error } => {
                let delay = after.unwrap_or_else(|| self.plan.retry_policy.draw(item.task.attempt));
                tracing::info!(id = %ticket.id, attempt = item.task.attempt, %error, ?delay, "failed");
                drop(self.answers.retry.send(Retry { ticket, delay, error, give_up: false }));
            }
            Outcome::GiveUp { error } => {
                tracing::warn!(id = %ticket.id, attempt = item.task.attempt, %error, "given up");
                drop(self.answers.retry.send(Retry { ticket, delay: Duration::ZERO, error, give_up: true }));
            }
            Outcome::GiveBack => drop(self.answers.give_back.send(ticket)),
        }
    }

    fn give_back(&self, batch: &[Item]) {
        for item in batch {
            item.signals.cancel.cancel();
            let _ = self.answers.give_back.send(item.task.ticket.clone());
        }
    }
}

async fn all(batch: &[Item], signal: impl Fn(&Signals) -> &CancellationToken) {
    for item in batch {
        signal(&item.signals).cancelled().await;
    }
}

/// Runs `work`; a panic is an answer.
async fn caught<F: Future>(work: F) -> Result<F::Output, String> {
    let mut work = Box::pin(work);
    poll_fn(move |context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(panic) => Poll::Ready(Err(message(&*panic))),
    })
    .await
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without words".to_owned())
}
