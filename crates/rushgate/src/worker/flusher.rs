//! Flusher of a worker's queue: collects the answers of one kind and sends them together.
//!
//! Each kind has its own channel, because a full store accepts completions, which free space, but not failures,
//! which need some.

use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{
    Completed, Completion, Op, QueueName, Result, Retried, Retry, TaskRelease, TaskReleased, Ticket, Verbs,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::heartbeat::Leases;
use super::metrics::{Meter, QueueMeter};
use crate::Rushgate;
use crate::counters::count;
use crate::retry::{Pauses, will_pass};

/// Maximum answers per call. Keeps a call short, so that other calls get their turn.
const BATCH_MAX: usize = 256;

/// End of one claim, and the meter that counts it.
pub(super) struct Ending<T> {
    pub end: T,
    pub meter: Arc<Meter>,
}

/// Senders for the ends of claims.
pub(super) struct Answers {
    pub complete: UnboundedSender<Ending<Completion>>,
    pub retry: UnboundedSender<Ending<Retry>>,
    pub release: UnboundedSender<Ending<TaskRelease>>,
}

/// Receivers for the ends of claims.
pub(super) struct EndReceivers {
    complete: UnboundedReceiver<Ending<Completion>>,
    retry: UnboundedReceiver<Ending<Retry>>,
    release: UnboundedReceiver<Ending<TaskRelease>>,
}

pub(super) fn receivers() -> (Answers, EndReceivers) {
    let (to_complete, complete) = unbounded_channel();
    let (to_retry, retry) = unbounded_channel();
    let (to_release, release) = unbounded_channel();
    let answers = Answers { complete: to_complete, retry: to_retry, release: to_release };
    (answers, EndReceivers { complete, retry, release })
}

pub(super) struct Flusher {
    pub client: Rushgate,
    pub queue: QueueName,
    pub leases: Arc<Leases>,
    pub meter: Arc<QueueMeter>,
    /// Canceled when the shutdown has run out of time.
    pub hurry: CancellationToken,
}

impl Flusher {
    /// Runs until every sender is gone and every answer is sent.
    pub async fn flush(self, receivers: EndReceivers) {
        let EndReceivers { mut complete, mut retry, mut release } = receivers;
        tokio::join!(
            async {
                while let Some(over) = batch(&mut complete).await {
                    self.complete(&over).await;
                }
            },
            async {
                while let Some(failed) = batch(&mut retry).await {
                    self.retry(&failed).await;
                }
            },
            async {
                while let Some(back) = batch(&mut release).await {
                    self.release(&back).await;
                }
            },
        );
    }

    async fn complete(&self, over: &[Ending<Completion>]) {
        let (client, queue) = (&self.client, &self.queue);
        let done: Vec<_> = over.iter().map(|over| over.end.clone()).collect();
        let answers = self.send(over, |op| client.store().complete(op, queue, done.clone())).await;
        let held = self.let_go(done.iter().map(|done| &done.ticket));
        for ((over, answer), held) in over.iter().zip(answers).zip(held) {
            let counters = &over.meter.counters;
            match answer {
                Completed::Stale => lost(&over.meter, held),
                Completed::Done | Completed::Requeued if over.end.discarded => count(&counters.discarded, 1),
                Completed::Done | Completed::Requeued => count(&counters.done, 1),
            }
        }
    }

    async fn retry(&self, failed: &[Ending<Retry>]) {
        let (client, queue) = (&self.client, &self.queue);
        let retries: Vec<_> = failed.iter().map(|failed| failed.end.clone()).collect();
        let answers = self.send(failed, |op| client.store().retry(op, queue, retries.clone())).await;
        if !answers.is_empty() {
            client.next_due_changed(queue);
        }
        let held = self.let_go(retries.iter().map(|retry| &retry.ticket));
        for ((failed, answer), held) in failed.iter().zip(answers).zip(held) {
            let counters = &failed.meter.counters;
            match answer {
                Retried::Scheduled { .. } | Retried::Requeued => count(&counters.retried, 1),
                Retried::Dead => count(&counters.dead, 1),
                Retried::Cancelled => cancelled(&failed.meter),
                Retried::Stale => lost(&failed.meter, held),
            }
        }
    }

    async fn release(&self, back: &[Ending<TaskRelease>]) {
        let (client, queue) = (&self.client, &self.queue);
        let all: Vec<_> = back.iter().map(|back| back.end.clone()).collect();
        let answers = self.send(back, |op| client.store().release_tasks(op, queue, all.clone())).await;
        if all.iter().any(|back| !back.delay.is_zero()) {
            client.next_due_changed(queue);
        }
        let held = self.let_go(all.iter().map(|back| &back.ticket));
        for ((back, answer), held) in back.iter().zip(answers).zip(held) {
            match answer {
                TaskReleased::Waiting => count(&back.meter.counters.released, 1),
                TaskReleased::Cancelled => cancelled(&back.meter),
                TaskReleased::Stale => lost(&back.meter, held),
            }
        }
    }

    /// Stops renewing the leases of tasks whose answers were sent, and returns which leases were still held.
    /// If the store did not take an answer, its lease expires and the task is available again.
    fn let_go<'a>(&self, tickets: impl IntoIterator<Item = &'a Ticket>) -> Vec<bool> {
        tickets.into_iter().map(|ticket| self.leases.remove(ticket)).collect()
    }

    /// Retries until the store answers. An outage ends eventually; an answer that arrives too late is stale
    /// and has no effect.
    async fn send<'a, T, A>(
        &self,
        endings: &[Ending<T>],
        call: impl Fn(Op) -> rushgate_core::Answer<'a, Vec<A>>,
    ) -> Vec<A> {
        let op = self.client.op();
        let mut pauses = Pauses::new();
        loop {
            let answer: Result<_> = call(op).await;
            let error = match answer {
                Ok(answers) => return answers,
                Err(error) => error,
            };
            if !will_pass(&error) || self.hurry.is_cancelled() || self.client.closing().is_cancelled() {
                let n = endings.len();
                tracing::error!(queue = %self.queue, n, %error, "the store refused the outcomes; the tasks will run \
                    again");
                endings.iter().for_each(|ending| count(&ending.meter.counters.unanswered, 1));
                return Vec::new();
            }
            tracing::debug!(queue = %self.queue, %error, "the store is unavailable; outcomes are pending");
            count(&self.meter.outages, 1);
            self.pause(pauses.draw()).await;
        }
    }

    async fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            // One last attempt is always made.
            () = self.hurry.cancelled() => sleep(Duration::from_millis(1)).await,
        }
    }
}

/// The claim was lost before the answer arrived. If its lease was no longer held, the heartbeat has already
/// counted the loss.
fn lost(meter: &Meter, held: bool) {
    count(&meter.counters.lost, usize::from(held));
}

/// The store canceled the task before the worker learned of it. It counts as done, like any canceled task.
fn cancelled(meter: &Meter) {
    count(&meter.counters.cancelled, 1);
    count(&meter.counters.done, 1);
}

/// Answers that wait in a channel; `None` once it is empty and every sender is gone.
async fn batch<T>(channel: &mut UnboundedReceiver<T>) -> Option<Vec<T>> {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    (channel.recv_many(&mut batch, BATCH_MAX).await > 0).then_some(batch)
}
