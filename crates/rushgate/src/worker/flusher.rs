//! The flusher of a crew: it takes whatever answers of a kind wait, and sends them together.
//!
//! Each kind has a lane of its own, because one may wait while another need not: a store without room takes completions,
//! which make some, and no failures, which take some.

use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{Completed, GivenBack, Op, QueueName, Result, Retried, Retry, Ticket};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::heartbeat::Leases;
use super::report::{Counters, count};
use crate::Rushgate;
use crate::patience::{Pauses, will_pass};

/// Answers per call at most: what keeps one call short enough to let others in between.
const BATCH_MAX: usize = 256;

/// Where handlers leave the ends of their claims.
pub(super) struct Answers {
    pub complete: UnboundedSender<Ticket>,
    pub retry: UnboundedSender<Retry>,
    pub give_back: UnboundedSender<Ticket>,
}

/// The other ends.
pub(super) struct Lanes {
    complete: UnboundedReceiver<Ticket>,
    retry: UnboundedReceiver<Retry>,
    give_back: UnboundedReceiver<Ticket>,
}

pub(super) fn lanes() -> (Answers, Lanes) {
    let (to_complete, complete) = unbounded_channel();
    let (to_retry, retry) = unbounded_channel();
    let (to_give_back, give_back) = unbounded_channel();
    let answers = Answers { complete: to_complete, retry: to_retry, give_back: to_give_back };
    (answers, Lanes { complete, retry, give_back })
}

pub(super) struct Flusher {
    pub gate: Rushgate,
    pub queue: QueueName,
    pub leases: Arc<Leases>,
    pub counters: Arc<Counters>,
    /// Cancelled when the crew has no time left.
    pub hurry: CancellationToken,
}

impl Flusher {
    /// Runs until every sender is gone and every answer is sent.
    pub async fn flush(self, lanes: Lanes) {
        let Lanes { mut complete, mut retry, mut give_back } = lanes;
        tokio::join!(
            async {
                while let Some(tickets) = batch(&mut complete).await {
                    self.complete(tickets).await;
                }
            },
            async {
                while let Some(failed) = batch(&mut retry).await {
                    self.retry(failed).await;
                }
            },
            async {
                while let Some(tickets) = batch(&mut give_back).await {
                    self.give_back(tickets).await;
                }
            },
        );
    }

    async fn complete(&self, tickets: Vec<Ticket>) {
        let (gate, queue) = (&self.gate, &self.queue);
        let answers = self.send(tickets.len(), |op| gate.store().complete(op, queue, tickets.clone())).await;
        self.let_go(&tickets);
        for answer in answers {
            count(
                match answer {
                    Completed::Done | Completed::Requeued => &self.counters.done,
                    Completed::Stale => &self.counters.lost,
                },
                1,
            );
        }
    }

    async fn retry(&self, failed: Vec<Retry>) {
        let (gate, queue) = (&self.gate, &self.queue);
        let answers = self.send(failed.len(), |op| gate.store().retry(op, queue, failed.clone())).await;
        if !answers.is_empty() {
            gate.next_due_changed(queue);
        }
        self.let_go(failed.iter().map(|retry| &retry.ticket));
        for answer in answers {
            match answer {
                Retried::Scheduled { .. } | Retried::Requeued => count(&self.counters.retried, 1),
                Retried::Dead => count(&self.counters.dead, 1),
                Retried::Cancelled => self.cancelled(),
                Retried::Stale => count(&self.counters.lost, 1),
            }
        }
    }

    async fn give_back(&self, tickets: Vec<Ticket>) {
        let (gate, queue) = (&self.gate, &self.queue);
        let answers = self.send(tickets.len(), |op| gate.store().give_back(op, queue, tickets.clone())).await;
        self.let_go(&tickets);
        for answer in answers {
            match answer {
                GivenBack::Waiting => count(&self.counters.given_back, 1),
                GivenBack::Cancelled => self.cancelled(),
                GivenBack::Stale => count(&self.counters.lost, 1),
            }
        }
    }

    /// The store was told to cancel the task before the crew heard of it. It is over, as one that the crew had heard of.
    fn cancelled(&self) {
        count(&self.counters.cancelled, 1);
        count(&self.counters.done, 1);
    }

    /// No longer keeps the leases of tasks whose answers are sent. What the store did not take runs out there, and the
    /// task comes again.
    fn let_go<'a>(&self, tickets: impl IntoIterator<Item = &'a Ticket>) {
        tickets.into_iter().for_each(|ticket| self.leases.remove(ticket));
    }

    /// Sends until there is an answer: an outage ends some time, and an answer that comes too late is stale and
    /// harms nobody.
    async fn send<'a, A>(&self, n: usize, call: impl Fn(Op) -> rushgate_core::Answer<'a, Vec<A>>) -> Vec<A> {
        let op = self.gate.op();
        let mut pauses = Pauses::new();
        loop {
            let answer: Result<_> = call(op).await;
            let error = match answer {
                Ok(answers) => return answers,
                Err(error) => error,
            };
            if !will_pass(&error) || self.hurry.is_cancelled() || self.gate.closing().is_cancelled() {
                tracing::error!(queue = %self.queue, n, %error, "answers were not taken; the tasks come again");
                count(&self.counters.unanswered, n);
                return Vec::new();
            }
            tracing::debug!(queue = %self.queue, %error, "answers wait for the store");
            count(&self.counters.outages, 1);
            self.pause(pauses.draw()).await;
        }
    }

    async fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            // One more attempt is always made.
            () = self.hurry.cancelled() => sleep(Duration::from_millis(1)).await,
        }
    }
}

/// Whatever waits in a lane; `None` once it is empty and every sender is gone.
async fn batch<T>(lane: &mut UnboundedReceiver<T>) -> Option<Vec<T>> {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    (lane.recv_many(&mut batch, BATCH_MAX).await > 0).then_some(batch)
}
