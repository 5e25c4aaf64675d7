use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use rushgate_core::{Answer, Claim, Claimed, Error, Lease, Op, QueueName, Result, Task, TaskRelease, Verbs};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::Queue;
use crate::Rushgate;
use crate::retry::{RETRY_BUDGET, ask, moment_after};

/// Longest sleep of a blocking claim between two requests, in case a notification was lost.
const SLEEP_MAX: Duration = Duration::from_secs(5);
/// Shortest sleep: the store's clock and this one may differ slightly.
const SLEEP_MIN: Duration = Duration::from_millis(1);
/// Polling interval while notifications fail.
const DEAF: Duration = Duration::from_millis(250);

impl<T> Queue<T> {
    /// The same queue handle, with a worker name for its claims: at most 200 bytes without control
    /// characters. Operators see the name with the tasks that it holds. Default: the process, as `host:pid`.
    #[must_use]
    pub fn claiming_as(self, worker: &str) -> Self {
        Self { worker: Some(worker.into()), ..self }
    }

    fn who(&self) -> String {
        self.worker.as_deref().map_or_else(|| self.client.who(), str::to_owned)
    }

    /// Claims up to `n` due tasks (1 to 1,000) under a lease (10 ms to 24 h), and counts an attempt for each.
    /// Returns an empty list if no task is due.
    ///
    /// # Cancel safety
    /// Tasks claimed by a dropped call return to the queue in the background; no attempt is counted.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a number outside its range. Otherwise the store could not
    /// answer, and tasks that may have been claimed return to the queue.
    pub async fn claim(&self, n: u32, lease: Duration) -> Result<Vec<Task>> {
        Ok(self.claim_now(n, lease, self.who()).await?.tasks)
    }

    /// Like [`claim`](Self::claim), but waits up to `wait` for the first due task.
    ///
    /// Sleeps until a task is enqueued or released, or the next one is due, without polling. Cancel safety
    /// and errors are those of `claim`.
    pub async fn claim_wait(&self, n: u32, lease: Duration, wait: Duration) -> Result<Vec<Task>> {
        let until = moment_after(wait);
        let worker = self.who();
        loop {
            // Listen first: otherwise a task enqueued between the claim and the listening would be missed.
            let mut ready = Ready::listen(&self.client, &self.name);
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

    /// Sends one claim. The answer also says when the next task is due.
    pub(crate) async fn claim_now(&self, n: u32, lease: Duration, worker: String) -> Result<Claimed> {
        let claim = Claim { n, lease: Lease::new(lease)?, worker };
        let mut guard = RollbackGuard {
            client: &self.client,
            queue: &self.name,
            op: self.client.op(),
            claim: Some(claim),
        };
        let answer = guard.ask().await;
        if answer.as_ref().map_or_else(|error| !error.may_have_happened(), |_| true) {
            guard.claim = None;
        }
        answer
    }
}

/// Claimed tasks that the caller has not received yet. Dropping them releases them.
struct RollbackGuard<'a> {
    client: &'a Rushgate,
    queue: &'a QueueName,
    op: Op,
    claim: Option<Claim>,
}

impl RollbackGuard<'_> {
    async fn ask(&self) -> Result<Claimed> {
        let Some(claim) = &self.claim else { return Err(Error::bug("a claim was used twice")) };
        self.client.ask(|| self.client.store().claim(self.op, self.queue, claim.clone())).await
    }
}

impl Drop for RollbackGuard<'_> {
    fn drop(&mut self) {
        let Some(claim) = self.claim.take() else { return };
        let (store, closing) = (self.client.store_arc(), self.client.closing().clone());
        let (queue, claimed_by, release) = (self.queue.clone(), self.op, self.client.op());
        let until = Instant::now() + claim.lease.get().min(RETRY_BUDGET * 6);
        self.client.in_background(async move {
            // Repeating the call with the same token returns the claimed tasks and claims no more.
            let claimed = ask(until, &closing, || store.claim(claimed_by, &queue, claim.clone())).await;
            let back: Vec<TaskRelease> = match claimed {
                Ok(claimed) => claimed.tasks.into_iter().map(|task| task.ticket.into()).collect(),
                Err(error) => {
                    return tracing::warn!(%queue, %error, "cannot release the tasks of a dropped claim");
                }
            };
            if back.is_empty() {
                return;
            }
            let back = ask(until, &closing, || store.release_tasks(release, &queue, back.clone())).await;
            if let Err(error) = back {
                tracing::warn!(%queue, %error, "cannot release the tasks of a dropped claim");
            }
        });
    }
}

/// Listens for available tasks, from its creation on.
///
/// The store notifies one listener of a process at a time. A listener that does not use the notification,
/// because it was dropped or its claim had already found a task, passes it on to another one.
pub(crate) struct Ready {
    next: Answer<'static, ()>,
    relay: Arc<Notify>,
    heard: bool,
}

impl Ready {
    pub(crate) fn listen(client: &Rushgate, queue: &QueueName) -> Self {
        Self { next: client.store().ready(queue), relay: client.relay(queue), heard: false }
    }

    /// Returns at a notification, or after `time`.
    pub(crate) async fn within(&mut self, time: Duration) {
        tokio::select! {
            answer = &mut self.next => {
                self.heard = true;
                if let Err(error) = answer {
                    tracing::debug!(%error, "cannot wait for notifications of the queue");
                    sleep(time.min(DEAF)).await;
                }
            }
            () = self.relay.notified() => {}
            () = sleep(time) => {}
        }
    }

    /// Waits for a notification.
    pub(crate) async fn heard(&mut self) -> Result<()> {
        tokio::select! {
            answer = &mut self.next => {
                self.heard = true;
                answer
            }
            () = self.relay.notified() => Ok(()),
        }
    }

    /// More tasks are due than this claim took: wakes another listener.
    pub(crate) fn more_is_due(&self) {
        self.relay.notify_one();
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if self.heard {
            return;
        }
        if matches!(self.next.as_mut().now_or_never(), Some(Ok(()))) {
            self.relay.notify_one();
        }
    }
}
