//! Background tasks of one worker: a claimer, a heartbeat and a flusher per queue, and one task per running
//! batch.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::select_all;
use rushgate_core::{Claim, Claimed, Lease, Result, Task, WorkerId};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::executor::{Executor, Item, Line, time_of};
use super::flusher::{EndReceivers, Flusher, receivers};
use super::heartbeat::{Leases, beat};
use super::metrics::{QueueMeter, WorkerMetrics};
use super::plan::Plan;
use super::presence::Presence;
use super::report::WorkerReport;
use super::route::{Handling, Route, Routes};
use super::slots::{Slot, Slots};
use crate::Queue;
use crate::clock::Boot;
use crate::counters::count;
use crate::queue::Ready;
use crate::retry::{Pauses, will_pass};
use crate::schedule::Scheduler;
use std::time::Duration;

/// Time limit for sending the remaining answers after the last handler has ended.
const FLUSH_MAX: Duration = Duration::from_secs(5);
/// A claim is for at most half of the slots, so that the store chooses tasks while handlers run. A claim for so few is not
/// halved, because each call has a cost of its own.
const HALVED_ABOVE: u32 = 32;
/// An idle claim is repeated after this time even without a notification.
const IDLE_MAX: Duration = Duration::from_secs(5);

pub(super) struct WorkerPool {
    executor: Arc<Executor>,
    plan: Plan,
    lines: Vec<Arc<Line>>,
    /// Slots for batches that are claimed and not finished.
    slots: Arc<Slots>,
    work: Mutex<JoinSet<()>>,
    flushers: Vec<(Flusher, EndReceivers)>,
    metrics: WorkerMetrics,
    hurry: CancellationToken,
}

impl WorkerPool {
    pub fn gather(
        queues: Vec<(Queue, u32)>,
        routes: Routes,
        plan: Plan,
        lease: Lease,
        metrics: WorkerMetrics,
    ) -> Result<Self> {
        let (hurry, id) =
            (CancellationToken::new(), WorkerId::new(format!("{:016x}", rand::random::<u64>()))?);
        let (mut lines, mut flushers) = (Vec::new(), Vec::new());
        for (queue, _) in &queues {
            let (answers, receivers) = receivers();
            let leases = Arc::new(Leases::new(lease));
            let meter = Arc::new(QueueMeter::new(queue.name().clone(), routes.kinds()));
            let flusher = Flusher {
                client: queue.client().clone(),
                queue: queue.name().clone(),
                leases: Arc::clone(&leases),
                meter: Arc::clone(&meter),
                hurry: hurry.clone(),
            };
            flushers.push((flusher, receivers));
            let presence = Arc::new(Presence::new(id.clone(), queue.clone(), Arc::clone(&leases), &plan)?);
            lines.push(Arc::new(Line { queue: queue.clone(), answers, leases, meter, presence }));
        }
        let slots = (plan.concurrency + plan.prefetch) as usize;
        Ok(Self {
            slots: Slots::new(slots, queues.iter().map(|(_, weight)| *weight)),
            work: Mutex::default(),
            flushers,
            metrics,
            hurry,
            lines,
            executor: Arc::new(Executor {
                permits: Semaphore::new(plan.concurrency as usize),
                stopping: CancellationToken::new(),
                aborting: CancellationToken::new(),
                retry_policy: plan.retry_policy,
                timeout: plan.timeout,
                grace: plan.grace,
                routes,
            }),
            plan,
        })
    }

    pub async fn work(mut self, shutdown: CancellationToken) -> Result<WorkerReport> {
        let metrics = self.metrics.clone();
        metrics.start(
            self.lines[0].presence.name.clone(),
            self.lines.iter().map(|line| Arc::clone(&line.meter)).collect(),
        );
        let stop = CancellationToken::new();
        let presences: Vec<_> = self.lines.iter().map(|line| Arc::clone(&line.presence)).collect();
        // The heartbeats continue until the last answer is sent.
        let mut staff = self.staff(&stop);
        let mut flushing = JoinSet::new();
        for (flusher, receivers) in self.flushers.drain(..) {
            flushing.spawn(flusher.flush(receivers));
        }
        let claimed = tokio::select! {
            biased;
            () = shutdown.cancelled() => Ok(()),
            () = stop.cancelled() => Ok(()),
            claimed = self.claim_all() => claimed,
        };
        self.finish().await;
        let hurry = self.hurry.clone();
        // Drops the last senders of answers: a flusher ends once it has sent the rest.
        drop(self);
        let mut flushed = pin!(async { while flushing.join_next().await.is_some() {} });
        if timeout(FLUSH_MAX, &mut flushed).await.is_err() {
            hurry.cancel();
            let _ = timeout(FLUSH_MAX, flushed).await;
        }
        staff.shutdown().await;
        let mut leaving = JoinSet::new();
        for presence in presences {
            leaving.spawn(async move { presence.leave().await });
        }
        leaving.join_all().await;
        claimed.map(|()| metrics.snapshot().total())
    }

    /// Starts the heartbeats, the announcements and the schedulers.
    fn staff(&self, stop: &CancellationToken) -> JoinSet<()> {
        let mut staff = JoinSet::new();
        for line in &self.lines {
            let (client, queue) = (line.queue.client().clone(), line.queue.name().clone());
            staff.spawn(beat(client, queue, Arc::clone(&line.leases), Arc::clone(&line.meter)));
            let (presence, stop) = (Arc::clone(&line.presence), stop.clone());
            staff.spawn(async move { presence.announce(stop).await });
            if self.plan.schedules {
                staff.spawn(fire_schedules(line.queue.clone(), self.executor.stopping.clone()));
            }
        }
        staff
    }

    /// Claims from all queues concurrently. Returns only on a lasting error of one of them.
    async fn claim_all(&self) -> Result<()> {
        let (ended, ..) = select_all((0..self.lines.len()).map(|line| Box::pin(self.claim(line)))).await;
        ended
    }

    /// Claims tasks whenever there are free slots.
    async fn claim(&self, at: usize) -> Result<()> {
        let line = &self.lines[at];
        let (client, queue) = (line.queue.client(), line.queue.name());
        let per_slot = self.executor.routes.per_slot();
        let half = ((self.plan.concurrency + self.plan.prefetch) / 2).max(HALVED_ABOVE);
        let most = (Claim::BATCH_MAX as u32).div_ceil(per_slot).min(half) as usize;
        let mut pauses = Pauses::new();
        loop {
            line.presence.until(false).await;
            let slots = self.slots.take(at, most).await;
            self.reap();
            let wanted = (slots.len() as u32).saturating_mul(per_slot).min(Claim::BATCH_MAX as u32);
            let (mut ready, sent) = (Ready::listen(client, queue), Boot::now());
            match self.claim_once(line, wanted).await {
                Ok(claimed) => {
                    pauses = Pauses::new();
                    let n = claimed.tasks.len();
                    let next_due = claimed.next_due.unwrap_or(IDLE_MAX);
                    if next_due.is_zero() && n > 0 {
                        ready.more_is_due();
                    }
                    self.slots.served(at, n);
                    self.hand_out(line, claimed.tasks, slots, sent);
                    if n == 0 {
                        self.slots.idle(at);
                        tokio::select! {
                            () = ready.within(next_due.clamp(Duration::from_millis(1), IDLE_MAX)) => {}
                            () = line.presence.until(true) => {}
                        }
                        if line.presence.is_quiet() || !self.slots.any_free() {
                            // This worker does not claim the task: pass the notification on.
                            ready.more_is_due();
                        }
                    }
                }
                Err(error) if will_pass(&error) && !client.closing().is_cancelled() => {
                    drop(slots);
                    self.slots.idle(at);
                    count(&line.meter.outages, 1);
                    tracing::warn!(%queue, %error, "the store is unavailable; the worker is retrying");
                    sleep(pauses.draw()).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn claim_once(&self, line: &Line, n: u32) -> Result<Claimed> {
        let asked = Instant::now();
        let claimed = line.queue.claim_now(n, self.plan.lease, line.presence.name.clone()).await;
        line.meter.claim.record(asked.elapsed());
        claimed
    }

    /// Reaps finished batches.
    fn reap(&self) {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        while work.try_join_next().is_some() {}
    }

    /// Starts a handler for each task. Every batch has a slot, because no more tasks were claimed than there
    /// are slots.
    fn hand_out(&self, line: &Arc<Line>, tasks: Vec<Task>, slots: Vec<Slot>, sent: Boot) {
        let mut slots = slots.into_iter();
        let mut open: Vec<(Arc<Route>, Vec<Item>)> = Vec::new();
        for task in tasks {
            let kind = task.payload.kind();
            let meter = Arc::clone(line.meter.of(kind));
            count(&meter.counters.claimed, 1);
            let signals = line.leases.add(&task.ticket, sent, &meter);
            let route = self.executor.routes.of(kind).cloned();
            let until = time_of(&task).map(|time| Instant::now() + time);
            let item = Item { task, signals, meter, until };
            let Some(route) = route else {
                self.executor.refuse_unknown(line, &item);
                continue;
            };
            let Handling::Batches(max, _) = route.handling else {
                self.start(line, route, vec![item], slots.next());
                continue;
            };
            let at = open.iter().position(|(other, _)| Arc::ptr_eq(other, &route)).unwrap_or_else(|| {
                open.push((route, Vec::new()));
                open.len() - 1
            });
            open[at].1.push(item);
            if open[at].1.len() == max as usize {
                let (route, items) = open.swap_remove(at);
                self.start(line, route, items, slots.next());
            }
        }
        for (route, items) in open {
            self.start(line, route, items, slots.next());
        }
    }

    fn start(&self, line: &Arc<Line>, route: Arc<Route>, items: Vec<Item>, slot: Option<Slot>) {
        let (executor, line) = (Arc::clone(&self.executor), Arc::clone(line));
        self.work.lock().unwrap_or_else(PoisonError::into_inner).spawn(async move {
            executor.work_on(&line, &route, items).await;
            drop(slot);
        });
    }

    /// Shuts down in order. Afterwards every claimed task has its answer in a channel.
    async fn finish(&mut self) {
        self.executor.stopping.cancel();
        let work = self.work.get_mut().unwrap_or_else(PoisonError::into_inner);
        let all = async { while work.join_next().await.is_some() {} };
        if timeout(self.plan.grace, all).await.is_err() {
            self.executor.aborting.cancel();
            let work = self.work.get_mut().unwrap_or_else(PoisonError::into_inner);
            while work.join_next().await.is_some() {}
        }
    }
}

/// Fires the queue's schedules until the worker stops. Outages are reported by the claims; only errors of the
/// schedules themselves are logged here.
async fn fire_schedules(queue: Queue, stopping: CancellationToken) {
    while let Err(error) = Scheduler::new(queue.clone()).run(stopping.clone()).await {
        tracing::error!(queue = %queue.name(), %error, "cannot run the schedules of the queue");
        tokio::select! {
            () = stopping.cancelled() => return,
            () = sleep(IDLE_MAX) => {}
        }
    }
}
