use std::time::Duration;

use rushgate_core::{DeadLetter, Error, Finish, Payload, Result, TaskId, TaskInfo, TaskState};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use super::Queue;
use crate::patience::moment_after;

/// The first and the longest wait without asking: what a lost push may cost. A connection that was lost and made again tells
/// everybody, so hardly any is lost; and thousands may wait.
const SLEEP_MIN: Duration = Duration::from_secs(5);
const SLEEP_MAX: Duration = Duration::from_secs(40);
/// How long to wait if the store does not tell.
const DEAF: Duration = Duration::from_millis(250);

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// It is done, was discarded, or was cancelled, as `finished` in it says.
    Finished(Box<TaskInfo>),
    /// It failed for good.
    Dead(Box<DeadLetter>),
    /// It is not there and has left nothing: it was dequeued or popped, its time of being kept is over, or it was never put
    /// in.
    Gone,
}

impl Over {
    /// Its result, if it was completed with one.
    pub fn payload(&self) -> Option<&Payload> {
        let Self::Finished(info) = self else { return None };
        info.finished.as_ref().filter(|finished| finished.how == Finish::Done)?.result.as_ref()
    }

    /// The same, read from JSON.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the result is something else.
    pub fn result<R: DeserializeOwned>(&self) -> Result<Option<R>> {
        let read = |payload: &Payload| {
            serde_json::from_slice(payload.bytes()).map_err(|error| {
                Error::invalid("the result", format_args!("is not the JSON that was expected: {error}"))
            })
        };
        self.payload().map(read).transpose()
    }
}

impl<T> Queue<T> {
    /// Waits until a task is over, and says how it ended; `None` if it is still live after `wait`. A task that is over
    /// already is answered at once.
    ///
    /// It sleeps until the store tells: no polling. The queue must have a [`Retention`](crate::Retention), because without
    /// one nothing is known of a task that is over, and nobody is told.
    ///
    /// # Cancel safety
    /// Dropping it stops waiting, and changes nothing.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a bad id, and for a live task in a queue without a retention. Otherwise
    /// the store could not tell.
    pub async fn wait_for(&self, id: impl AsRef<str>, wait: Duration) -> Result<Option<Over>> {
        let id = TaskId::new(id)?;
        let until = moment_after(wait);
        let (mut sleep_max, mut is_kept) = (SLEEP_MIN, false);
        loop {
            // Listen first: an end between the look and the listening would go unheard.
            let told = self.gate.store().over(&self.name, &id);
            if let Some(over) = self.how_it_ended(&id).await? {
                return Ok(Some(over));
            }
            is_kept = is_kept || self.stats().await?.limits.retention.is_some();
            if !is_kept {
                let why = "keeps nothing of tasks that are over, so nobody can wait for one";
                return Err(Error::invalid("the queue", why)
                    .hint("give it a retention, for example `rushgate queue limit QUEUE --keep 1h/1000`"));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            tokio::select! {
                told = told => if let Err(error) = told {
                    tracing::debug!(%error, "no news of the task");
                    sleep(left.min(DEAF)).await;
                },
                () = sleep(left.min(sleep_max)) => sleep_max = (sleep_max * 2).min(SLEEP_MAX),
            }
        }
    }

    /// How a task ended, as far as is known; `None` if it is live. The latest end counts: a task may have been done, put in
    /// again and given up.
    ///
    /// # Errors
    /// The store could not tell.
    pub async fn how_it_ended(&self, id: &TaskId) -> Result<Option<Over>> {
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
                Over::Dead(Box::new(letter))
            }
            (Some(info), _) => Over::Finished(Box::new(info)),
            (None, _) => Over::Gone,
        }))
    }
}
