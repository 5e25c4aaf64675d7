use rushgate_core::{DeadLetter, Fence, Result, Task, TaskId, TaskInfo, TaskState, Timestamp};
use serde::Serialize;
use std::time::Duration;

use super::Queue;

/// Due tasks among which a task's place is looked for.
const PLACES: u32 = 1_000;
/// How often a task that moves all the time is looked for.
const TRIES: u32 = 5;

/// What keeps a task from running now: an answer to "why is this not running?".
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
/// use rushgate::Why;
///
/// let mail = gate.queue_of::<String>("mail")?;
/// mail.enqueue("to:ann", "Welcome".to_owned()).delay(Duration::from_secs(60)).send().await?;
/// mail.pause().await?;
/// let why = mail.why("to:ann").await?;
/// assert!(matches!(why[..], [Why::Paused, Why::NotDue { .. }]), "{why:?}");
/// # gate.close().await
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Why {
    /// It does run, or whoever claimed it has died and its lease has not run out yet.
    Running {
        /// Who claimed it.
        worker: String,
        /// Which attempt it is.
        attempt: u32,
        /// The number of the claim.
        fence: Fence,
        /// When the lease runs out unless it is extended.
        #[serde(rename = "lease_until_us")]
        lease_until: Timestamp,
        /// How long that is.
        #[serde(rename = "lease_left_us", serialize_with = "micros")]
        lease_left: Duration,
        /// Whether it was told to stop.
        cancelled: bool,
        /// Whether another content waits for the end of this run.
        replaced: bool,
    },
    /// The queue gives nothing out.
    Paused,
    /// Its time has not come.
    NotDue {
        /// When it will.
        #[serde(rename = "due_us")]
        due: Timestamp,
        /// How long that is.
        #[serde(rename = "wait_us", serialize_with = "micros")]
        wait: Duration,
        /// How often it was tried.
        attempts: u32,
        /// How often it may be.
        max_attempts: u32,
        /// Why it failed the last time that somebody said so.
        error: Option<String>,
    },
    /// It is due, and nobody has claimed it yet.
    Waiting {
        /// How many due tasks are given out before it; `None` if they are a thousand or more.
        ahead: Option<u32>,
        /// How many tasks of the queue are being worked on under a lease.
        leased: u64,
        /// How long it has been due.
        #[serde(rename = "due_for_us", serialize_with = "micros")]
        due_for: Duration,
    },
    /// It failed for good: it is a dead letter.
    Dead {
        /// How often it was tried.
        attempts: u32,
        /// How often it could be.
        max_attempts: u32,
        /// Why the last attempt failed.
        error: String,
        /// When it was given up.
        #[serde(rename = "died_us")]
        died_at: Timestamp,
    },
    /// It is neither live nor dead: it is done, was removed, or was never put in.
    Unknown,
}

fn micros<S: serde::Serializer>(of: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(of.as_micros()).unwrap_or(u64::MAX))
}

impl<T> Queue<T> {
    /// Why a task is not running: what must end first comes first, and there is at least one answer. It is put together
    /// from several questions, so a task that moves meanwhile may be told as it was a moment ago.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a bad id; otherwise the store could not tell. Nothing was changed.
    pub async fn why(&self, id: impl AsRef<str>) -> Result<Vec<Why>> {
        let id = TaskId::new(id)?;
        let mut tries = 0;
        loop {
            tries += 1;
            let now = self.store_clock().await?;
            let reasons = match self.task(&id).await? {
                Some(info) if info.state == TaskState::Leased => vec![running(&info, now)],
                Some(info) => self.why_waiting(&info, now).await?,
                None => {
                    let letter = self.gate.ask(|| self.gate.store().dead_letter(&self.name, &id)).await?;
                    vec![letter.map_or(Why::Unknown, dead)]
                }
            };
            // It moved between two questions if there is no answer.
            if !reasons.is_empty() || tries == TRIES {
                return Ok(if reasons.is_empty() { vec![Why::Unknown] } else { reasons });
            }
        }
    }

    async fn why_waiting(&self, info: &TaskInfo, now: Timestamp) -> Result<Vec<Why>> {
        let (stats, task) = (self.stats().await?, &info.task);
        let mut reasons = Vec::new();
        if stats.paused {
            reasons.push(Why::Paused);
        }
        if info.state == TaskState::Scheduled {
            reasons.push(Why::NotDue {
                due: task.ticket.due,
                wait: task.ticket.due.since(now),
                attempts: task.attempt,
                max_attempts: task.max_attempts,
                error: info.error.clone(),
            });
        } else if !stats.paused {
            let first = self.top(PLACES).await?;
            let ahead = place(&first, &task.ticket.id);
            if ahead.is_some() || first.len() == PLACES as usize {
                let due_for = now.since(task.ticket.due);
                reasons.push(Why::Waiting { ahead, leased: stats.leased, due_for });
            }
        }
        Ok(reasons)
    }
}

fn running(info: &TaskInfo, now: Timestamp) -> Why {
    let lease_until = info.lease_until.unwrap_or_default();
    Why::Running {
        worker: info.worker.clone().unwrap_or_default(),
        attempt: info.task.attempt,
        fence: info.task.ticket.claim.unwrap_or_default(),
        lease_until,
        lease_left: lease_until.since(now),
        cancelled: info.cancelled,
        replaced: info.replaced,
    }
}

fn dead(letter: DeadLetter) -> Why {
    let DeadLetter { attempts, max_attempts, error, died_at, .. } = letter;
    Why::Dead { attempts, max_attempts, error, died_at }
}

/// How many of the first tasks come before it.
fn place(first: &[Task], id: &TaskId) -> Option<u32> {
    first.iter().position(|task| task.ticket.id == *id).and_then(|at| u32::try_from(at).ok())
}
