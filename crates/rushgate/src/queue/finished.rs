use std::time::Duration;

use rushgate_core::{DeadLetter, Error, Field, Finish, Payload, Result, TaskId, TaskInfo, TaskState, Verbs};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::{Queue, read_json};
use crate::retry::moment_after;

/// First and longest sleep between two reads, in case a notification was lost. Both may be long: a connection
/// that is reestablished wakes all waiters, so notifications are rarely lost, and thousands of clients may
/// wait.
const SLEEP_MIN: Duration = Duration::from_secs(5);
const SLEEP_MAX: Duration = Duration::from_secs(40);
/// Polling interval while notifications fail.
const DEAF: Duration = Duration::from_millis(250);

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishedTask {
    /// Completed, discarded or canceled; see [`TaskInfo::finished`].
    Finished(Box<TaskInfo>),
    /// Failed for good: a dead letter.
    Dead(Box<DeadLetter>),
    /// Not in the queue, and nothing is kept of it: it was dequeued or popped, its retention has ended, or it
    /// was never enqueued.
    Gone,
}

impl FinishedTask {
    /// Result, if the task was completed with one.
    pub fn payload(&self) -> Option<&Payload> {
        let Self::Finished(info) = self else { return None };
        info.finished.as_ref().filter(|finished| finished.how == Finish::Done)?.result.as_ref()
    }

    /// Result, deserialized from JSON.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the result is not an `R`.
    pub fn result<R: DeserializeOwned>(&self) -> Result<Option<R>> {
        self.payload().map(|payload| read_json(Field::Result, payload)).transpose()
    }
}

impl<T> Queue<T> {
    /// Waits until a task is over, and returns how it ended. `None` if it is still live after `wait`. Returns
    /// at once if it is already over.
    ///
    /// Sleeps until the store notifies it, without polling. The queue must have a
    /// [`Retention`](crate::queue::Retention): without one the store neither keeps nor notifies how a task ended.
    ///
    /// # Cancel safety
    /// Dropping the future stops waiting and changes nothing.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a bad ID, and for a live task in a queue without a retention.
    /// Otherwise the store could not answer.
    pub async fn wait_for(&self, id: impl AsRef<str>, wait: Duration) -> Result<Option<FinishedTask>> {
        let id = TaskId::new(id)?;
        let until = moment_after(wait);
        let (mut sleep_max, mut is_kept) = (SLEEP_MIN, false);
        loop {
            // Listen first: an end between the read and the listening would be missed.
            let told = self.client.store().finished(&self.name, &id);
            if let Some(over) = self.how_it_ended(&id).await? {
                return Ok(Some(over));
            }
            is_kept = is_kept || self.stats().await?.limits.retention.is_some();
            if !is_kept {
                let why = "has no retention, so its tasks cannot be awaited";
                return Err(Error::invalid("the queue", why)
                    .hint("set a retention, for example `rushgate queue limit QUEUE --keep 1h/1000`"));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            tokio::select! {
                told = told => if let Err(error) = told {
                    tracing::debug!(%error, "cannot wait for notifications of the task");
                    sleep(left.min(DEAF)).await;
                },
                () = sleep(left.min(sleep_max)) => sleep_max = (sleep_max * 2).min(SLEEP_MAX),
            }
        }
    }

    /// How a task ended, as far as the store knows; `None` if it is live. If one ID ended several times, the
    /// latest end counts.
    ///
    /// # Errors
    /// The store could not answer.
    pub async fn how_it_ended(&self, id: &TaskId) -> Result<Option<FinishedTask>> {
        let info = self.task(id).await?;
        if info.as_ref().is_some_and(|info| info.state != TaskState::Done) {
            return Ok(None);
        }
        let finished = info.as_ref().and_then(|info| info.finished.as_ref()).map(|finished| finished.at);
        let letter = self.dead_letter(id).await?;
        if letter.is_none() && self.task(id).await?.is_some_and(|info| info.state != TaskState::Done) {
            // It was a dead letter at the first read and was requeued before the second.
            return Ok(None);
        }
        Ok(Some(match (info, letter) {
            (_, Some(letter)) if finished.is_none_or(|at| at < letter.died_at) => {
                FinishedTask::Dead(Box::new(letter))
            }
            (Some(info), _) => FinishedTask::Finished(Box::new(info)),
            (None, _) => FinishedTask::Gone,
        }))
    }
}
