use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rushgate_core::{Claim, Claimed, Error, GiveBack, Lease, Op, QueueName, Result, Task};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::Queue;
use crate::Rushgate;
use crate::patience::{PATIENCE, ask, moment_after};

/// The longest sleep of a blocking claim without asking: what a lost push may cost at most.
const SLEEP_MAX: Duration = Duration::from_secs(5);
/// The shortest: the store's clock and this one do not tick together.
const SLEEP_MIN: Duration = Duration::from_millis(1);
/// How long to wait if the store does not tell.
const DEAF: Duration = Duration::from_millis(250);

impl<T> Queue<T> {
    /// The same queue, whose claims are told to be by that worker: at most 200 bytes without control characters. People who
    /// look see it with the tasks that it holds; otherwise they see the process, as `host:pid`.
    #[must_use]
    pub fn claiming_as(self, worker: &str) -> Self {
        Self { worker: Some(worker.into()), ..self }
    }

    fn who(&self) -> String {
        self.worker.as_deref().map_or_else(|| self.gate.who(), str::to_owned)
    }

    /// Takes up to `n` due tasks (1 to 1,000) under a lease (10 ms to 24 h), and counts an attempt for each. None if
    /// nothing is due.
    ///
    /// # Cancel safety
    /// What a dropped claim took is given back in the background, without an attempt counted.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a number outside its range. Otherwise the store could not tell; what
    /// may have been taken is given back.
    pub async fn claim(&self, n: u32, lease: Duration) -> Result<Vec<Task>> {
        Ok(self.claim_now(n, lease, self.who()).await?.tasks)
    }

    /// As [`claim`](Self::claim), but waits up to `wait` for a first task to be due.
    ///
    /// It sleeps until a task is enqueued or released, or until the next one is due, without polling. Cancel safety
    /// and errors are those of `claim`.
    pub async fn claim_wait(&self, n: u32, lease: Duration, wait: Duration) -> Result<Vec<Task>> {
        let until = moment_after(wait);
        let worker = self.who();
        loop {
            // Listen first: otherwise a task enqueued between the claim and the listening would be missed.
            let mut ready = Ready::listen(&self.gate, &self.name);
            let claimed = self.claim_now(n, lease, worker.clone()).await?;
            let left = until.saturating_duration_since(Instant::now());
            if claimed.next_due == Some(Duration::ZERO) && !claimed.tasks.is_empty() {
                ready.more_is_due();
            }
            if !claimed.tasks.is_empty() || left.is_zero() {
                return Ok(claimed.tasks);
            }
            let next_due = claimed.next_due.unwrap_or(SLEEP_MAX);
            ready.within(next_due.clamp(SLEEP_MIN, SLEEP_MAX).min(left)).await;
        }
    }

    /// One claim, and when to come again.
    pub(crate) async fn claim_now(&self, n: u32, lease: Duration, worker: String) -> Result<Claimed> {
        let claim = Claim { n, lease: Lease::new(lease)?, worker };
        let mut owed = Owed { gate: &self.gate, queue: &self.name, op: self.gate.op(), claim: Some(claim) };
        let answer = owed.ask().await;
        if answer.as_ref().map_or_else(|error| !error.may_have_happened(), |_| true) {
            owed.claim = None;
        }
        answer
    }
}

/// Claimed tasks that the caller has not received yet. Dropping them releases them.
struct Owed<'a> {
    gate: &'a Rushgate,
    queue: &'a QueueName,
    op: Op,
    claim: Option<Claim>,
}

impl Owed<'_> {
    async fn ask(&self) -> Result<Claimed> {
        let Some(claim) = &self.claim else { return Err(Error::bug("a claim was asked twice")) };
        self.gate.ask(|| self.gate.store().claim(self.op, self.queue, claim.clone())).await
    }
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        let Some(claim) = self.claim.take() else { return };
        let (store, closing) = (self.gate.store_arc(), self.gate.closing().clone());
        let (queue, claimed_by, give_back) = (self.queue.clone(), self.op, self.gate.op());
        let until = Instant::now() + claim.lease.get().min(PATIENCE * 6);
        self.gate.in_background(async move {
            // The same call again says what it took, and takes nothing more.
            let claimed = ask(until, &closing, || store.claim(claimed_by, &queue, claim.clone())).await;
            let back: Vec<GiveBack> = match claimed {
                Ok(claimed) => claimed.tasks.into_iter().map(|task| task.ticket.into()).collect(),
                Err(error) => return tracing::warn!(%queue, %error, "a dropped claim waits for its lease"),
            };
            if back.is_empty() {
                return;
            }
            let back = ask(until, &closing, || store.give_back(give_back, &queue, back.clone())).await;
            if let Err(error) = back {
                tracing::warn!(%queue, %error, "a dropped claim waits for its lease");
            }
        });
    }
}

/// Listens for available tasks, from its creation on.
///
/// The store tells one listener of a process at a time. One that is told and then does not need it, because its
/// claim found something already or was dropped, passes the news on to another of this process.
pub(crate) struct Ready {
    next: Pin<Box<dyn Future<Output = Result<()>> + Send>>,
    relay: Arc<Notify>,
    heard: bool,
}

impl Ready {
    pub(crate) fn listen(gate: &Rushgate, queue: &QueueName) -> Self {
        let (store, relay) = (gate.store_arc(), gate.relay(queue));
        let queue = queue.clone();
        let next = Box::pin(async move { store.ready(&queue).await });
        let mut ready = Self { next, relay, heard: false };
        // Listening starts when the store's method is called, which is at the first poll.
        if let Some(answer) = ready.poll_once() {
            ready.next = Box::pin(std::future::ready(answer));
        }
        ready
    }

    fn poll_once(&mut self) -> Option<Result<()>> {
        match self.next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    /// Returns at the news, or after that time.
    pub(crate) async fn within(&mut self, time: Duration) {
        tokio::select! {
            answer = &mut self.next => {
                self.heard = true;
                if let Err(error) = answer {
                    tracing::debug!(%error, "no news of the queue");
                    sleep(time.min(DEAF)).await;
                }
            }
            () = self.relay.notified() => {}
            () = sleep(time) => {}
        }
    }

    /// More is due than this claim took: another listener should look.
    pub(crate) fn more_is_due(&self) {
        self.relay.notify_one();
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if !self.heard && matches!(self.poll_once(), Some(Ok(()))) {
            self.relay.notify_one();
        }
    }
}
