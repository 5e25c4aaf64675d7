use std::future::Future;
use std::time::Duration;

use rushgate_core::{Enqueued, NewTask, QueueName, Result};

use super::{Busy, Held, Lock, LockOutcome, LostReason};

/// What [`Lock::run`] does when another holder has the lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum BusyPolicy {
    /// Wait in the queue for at most this long.
    Wait(Duration),
    /// Return [`RunOutcome::Busy`] at once.
    Fail,
    /// Enqueue this task instead, for a worker to run later.
    Defer {
        /// Queue that receives the task.
        queue: QueueName,
        /// The task.
        task: NewTask,
    },
}

/// Outcome of [`Lock::run`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum RunOutcome<T> {
    /// The work ran to its end while the lock was held.
    Done(T),
    /// Another holder has the lock. The work was not started.
    Busy(Busy),
    /// Another holder has the lock. The work was not started; the task was enqueued instead, with this outcome.
    Deferred(Enqueued),
    /// The lock was lost during the work. The work was dropped at an await.
    Lost {
        /// Reason for the loss.
        reason: LostReason,
    },
}

impl Lock {
    /// What [`run`](Self::run) does if the lock is busy. Default: it waits for [`wait`](Self::wait).
    pub fn on_busy(mut self, policy: BusyPolicy) -> Self {
        self.on_busy = Some(policy);
        self
    }

    /// Acquires the lock, runs the work, and releases on every path out: return, panic, loss of the lock,
    /// dropped future.
    ///
    /// If the lock is lost, the work's future is dropped at its current await. Tasks that it has spawned keep
    /// running: stop them with [`Held::lost_token`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use rushgate::RunOutcome;
    ///
    /// let outcome = client.lock("report")?.run(|held| async move { held.fence().as_u64() > 0 }).await?;
    /// assert_eq!(outcome, RunOutcome::Done(true));
    /// assert!(client.lock("report")?.holders().await?.is_empty());
    /// # client.close().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// The lock could not be acquired, or the task not deferred; the work was not started. A release that
    /// fails after the work is not an error: it continues in the background.
    pub async fn run<T, F, Fut>(&self, work: F) -> Result<RunOutcome<T>>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future<Output = T>,
    {
        let guard = match self.obtain(self.longest_wait()).await? {
            LockOutcome::Held(guard) => guard,
            LockOutcome::Busy(busy) => return self.give_way(busy).await,
        };
        let held = guard.held();
        let value = tokio::select! {
            biased;
            reason = guard.lost() => return Ok(RunOutcome::Lost { reason }),
            value = work(held) => value,
        };
        if let Err(error) = guard.release().await {
            tracing::warn!(lock = %self.name, %error, "cannot release the lock after the work; retrying");
        }
        Ok(RunOutcome::Done(value))
    }

    fn longest_wait(&self) -> Duration {
        match &self.on_busy {
            None => self.wait,
            Some(BusyPolicy::Wait(wait)) => *wait,
            Some(BusyPolicy::Fail | BusyPolicy::Defer { .. }) => Duration::ZERO,
        }
    }

    async fn give_way<T>(&self, busy: Busy) -> Result<RunOutcome<T>> {
        let Some(BusyPolicy::Defer { queue, task }) = &self.on_busy else {
            return Ok(RunOutcome::Busy(busy));
        };
        let enqueued = self.client.enqueue(queue, vec![task.clone()]).await?;
        enqueued
            .into_iter()
            .next()
            .map(RunOutcome::Deferred)
            .ok_or_else(|| rushgate_core::Error::bug("the store returned no answer for an enqueued task"))
    }
}
