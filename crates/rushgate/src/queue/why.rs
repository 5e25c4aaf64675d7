use rushgate_core::{
    DeadLetter, Fence, Finish, Finished, IfDead, Listing, Page, QueueStats, Result, Task, TaskId, TaskInfo,
    TaskKey, TaskState, Timestamp, Waits, WaitsFor,
};
use serde::Serialize;
use std::time::Duration;

use super::{FinishedTask, Queue};

/// Number of due tasks searched for the task's position.
const PLACES: u32 = 1_000;
/// Number of leased or scheduled tasks searched for those of a key.
const LISTED: u32 = 10_000;
/// Maximum number of running tasks listed.
const RUNNING_MAX: u32 = 10;
/// Number of attempts to get a consistent answer for a task that keeps changing state.
const TRIES: u32 = 5;

/// Reason why a task is not running.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
/// use rushgate::queue::Why;
///
/// let mail = client.queue_of::<String>("mail")?;
/// mail.enqueue("to:ann", "Welcome".to_owned()).delay(Duration::from_secs(60)).send().await?;
/// mail.pause().await?;
/// let why = mail.why("to:ann").await?;
/// assert!(matches!(why[..], [Why::Paused, Why::NotDue { .. }]), "{why:?}");
/// # client.close().await
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "reason")]
#[non_exhaustive]
pub enum Why {
    /// The task is running, or its worker has died and the lease has not expired yet.
    Running {
        /// Worker that claimed the task.
        worker: String,
        /// Number of the attempt.
        attempt: u32,
        /// Fencing token of the claim.
        fence: Fence,
        /// End of the lease, unless it is extended.
        #[serde(rename = "lease_until_us")]
        lease_until: Timestamp,
        /// Time until then.
        #[serde(rename = "lease_left_ms", serialize_with = "millis")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        lease_left: Duration,
        /// True if the task was canceled and the worker should stop it.
        cancelled: bool,
        /// True if a pending replacement waits for the end of this run.
        replaced: bool,
    },
    /// The queue is paused.
    Paused,
    /// The task is scheduled for later.
    NotDue {
        /// Time at which it is due.
        #[serde(rename = "due_us")]
        due: Timestamp,
        /// Time until then.
        #[serde(rename = "wait_ms", serialize_with = "millis")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        wait: Duration,
        /// Attempts so far.
        attempts: u32,
        /// Maximum number of attempts.
        max_attempts: u32,
        /// Error of the latest failed attempt that reported one.
        error: Option<String>,
    },
    /// The queue's concurrency limit is reached.
    QueueBusy {
        /// The limit.
        concurrency: u32,
        /// Running tasks, at most ten.
        running: Vec<KeyRun>,
    },
    /// The rate limit of the queue, or of its key, is reached.
    RateLimited {
        /// The key, if the limit is the key's.
        key: Option<TaskKey>,
        /// Time at which the limit allows the next task.
        #[serde(rename = "until_us")]
        until: Timestamp,
        /// Time until then.
        #[serde(rename = "wait_ms", serialize_with = "millis")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        wait: Duration,
    },
    /// The concurrency limit of the task's key is reached.
    KeyBusy {
        /// The key.
        key: TaskKey,
        /// Running tasks of the key, at most ten.
        running: Vec<KeyRun>,
    },
    /// The task is behind others of its key group.
    InLine {
        /// The key.
        key: TaskKey,
        /// First task of the group. `None` if it is not among the first 1,000 available tasks or the first
        /// 10,000 scheduled ones.
        #[cfg_attr(feature = "schema", schemars(with = "Option<String>", length(min = 1, max = 200)))]
        first: Option<TaskId>,
    },
    /// The task waits for other tasks, or is the callback of an open batch.
    WaitsFor {
        /// Number of tasks that it waits for.
        left: u64,
        /// Number of dead letters among the first 1,000 of those.
        dead: u64,
        /// Some of them, at most five: dead letters first, with their errors.
        first: Vec<WaitsFor>,
        /// What happens to the task if one is dead.
        if_dead: IfDead,
        /// True if the batch is open. The task does not run before it is closed.
        open: bool,
    },
    /// The task is ready, and no worker has claimed it.
    Waiting {
        /// Number of due tasks ahead of it; `None` for 1,000 or more.
        ahead: Option<u32>,
        /// Number of tasks of the queue that are leased.
        leased: u64,
        /// Time for which the task has been ready.
        #[serde(rename = "due_for_ms", serialize_with = "millis")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        due_for: Duration,
        /// Time of the queue's latest claim; `None` if there was none.
        #[serde(rename = "last_claim_us")]
        last_claim: Option<Timestamp>,
    },
    /// The task has a deadline. If it is waiting then, it becomes a dead letter; if it is running, its worker
    /// stops the handler.
    Deadline {
        /// The deadline.
        #[serde(rename = "deadline_us")]
        deadline: Timestamp,
        /// Time until then.
        #[serde(rename = "left_ms", serialize_with = "millis")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        left: Duration,
    },
    /// The task failed for good and is a dead letter.
    Dead {
        /// Number of attempts made.
        attempts: u32,
        /// Maximum number of attempts.
        max_attempts: u32,
        /// Error of the last attempt.
        error: String,
        /// Time at which it became a dead letter.
        #[serde(rename = "died_us")]
        died_at: Timestamp,
    },
    /// The task is over, and the queue's retention still keeps it.
    Done {
        /// How it ended.
        how: Finish,
        /// Time at which it ended.
        #[serde(rename = "finished_us")]
        finished_at: Timestamp,
        /// Worker of the last claim, if there was one.
        worker: Option<String>,
    },
    /// The task is not live, and its ID is within its uniqueness window: enqueueing the ID again is answered
    /// `Recent`.
    Unique {
        /// End of the window.
        #[serde(rename = "until_us")]
        until: Timestamp,
        /// Time until then.
        #[serde(rename = "left_ms", serialize_with = "millis")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        left: Duration,
    },
    /// The task is not live, dead or retained: it is done, was removed, or was never enqueued.
    Unknown,
}

/// A running task of the same key or the same queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeyRun {
    /// ID of the task.
    #[cfg_attr(feature = "schema", schemars(with = "String", length(min = 1, max = 200)))]
    pub id: TaskId,
    /// Worker that claimed it.
    pub worker: String,
    /// End of its lease, unless it is extended.
    #[serde(rename = "lease_until_us")]
    pub lease_until: Timestamp,
}

fn millis<S: serde::Serializer>(of: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(of.as_millis()).unwrap_or(u64::MAX))
}

impl<T> Queue<T> {
    /// Reasons why a task is not running: at least one, and the reason that must end first comes first. The
    /// answer combines several reads, so it may be slightly out of date for a task that changes state
    /// meanwhile.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a bad ID. Otherwise the store could not answer. Nothing
    /// was changed.
    pub async fn why(&self, id: impl AsRef<str>) -> Result<Vec<Why>> {
        let id = TaskId::new(id)?;
        let mut tries = 0;
        loop {
            tries += 1;
            let now = self.store_clock().await?;
            let reasons = match self.task(&id).await? {
                Some(info) if info.state == TaskState::Leased => {
                    [vec![running(&info, now)], until(&info, now)].concat()
                }
                Some(info) if info.state != TaskState::Done => match self.why_waiting(&info, now).await? {
                    reasons if reasons.is_empty() => reasons,
                    reasons => [reasons, until(&info, now)].concat(),
                },
                _ => self.why_over(&id, now).await?,
            };
            // No reason found: the task changed state between two reads.
            if !reasons.is_empty() || tries == TRIES {
                return Ok(if reasons.is_empty() { vec![Why::Unknown] } else { reasons });
            }
        }
    }

    async fn why_over(&self, id: &TaskId, now: Timestamp) -> Result<Vec<Why>> {
        let Some(over) = self.how_it_ended(id).await? else { return Ok(Vec::new()) };
        let until = self.unique_until(id).await?.filter(|until| *until > now);
        let unique = until.map(|until| Why::Unique { until, left: until.since(now) });
        let known = Some(ended(over)).filter(|why| *why != Why::Unknown || unique.is_none());
        Ok(known.into_iter().chain(unique).collect())
    }

    async fn why_waiting(&self, info: &TaskInfo, now: Timestamp) -> Result<Vec<Why>> {
        let (stats, task) = (self.stats().await?, &info.task);
        let mut reasons = Vec::new();
        if stats.paused {
            reasons.push(Why::Paused);
        }
        reasons.extend(self.why_busy(&stats).await?);
        reasons.extend(limited(&stats, now));
        match info.state {
            TaskState::Scheduled => reasons.push(not_yet(info, now)),
            TaskState::Blocked if info.waits => reasons.extend(self.why_it_waits(info, now).await?),
            TaskState::Blocked => reasons.extend(self.why_blocked(info, &stats).await?),
            _ if !reasons.is_empty() => {}
            _ => {
                let first = self.top(PLACES).await?;
                let ahead = place(&first, &task.ticket.id);
                if ahead.is_some() || first.len() == PLACES as usize {
                    let due_for = now.since(info.not_before.unwrap_or(task.ticket.due));
                    let (leased, last_claim) = (stats.leased, stats.last_claim);
                    reasons.push(Why::Waiting { ahead, leased, due_for, last_claim });
                }
            }
        }
        Ok(reasons)
    }

    async fn why_it_waits(&self, info: &TaskInfo, now: Timestamp) -> Result<Vec<Why>> {
        let Some(waits) = self.waits(&info.task.ticket.id).await? else { return Ok(Vec::new()) };
        let Waits { open, if_dead, left, dead, first, .. } = waits;
        let early = info.task.ticket.due > now;
        let waits = Some(Why::WaitsFor { left, dead, first, if_dead, open }).filter(|_| open || left > 0);
        Ok(waits.into_iter().chain(early.then(|| not_yet(info, now))).collect())
    }

    async fn why_blocked(&self, info: &TaskInfo, stats: &QueueStats) -> Result<Option<Why>> {
        let Some(key) = info.task.key.clone() else { return Ok(None) };
        if let Some(most) = stats.limits.per_key.at_a_time() {
            let mut running = self.in_state(TaskState::Leased, LISTED).await?;
            running.retain(|other| other.task.key.as_ref() == Some(&key));
            if running.len() >= most as usize {
                return Ok(Some(Why::KeyBusy { key, running: key_runs(running) }));
            }
        }
        let same = |other: &Task| other.key.as_ref() == Some(&key) && other.priority == info.task.priority;
        let mut first = self.top(PLACES).await?.into_iter().find(same);
        if first.is_none() {
            // The first task of the group may wait for its next attempt.
            let scheduled = self.in_state(TaskState::Scheduled, LISTED).await?;
            first = scheduled.into_iter().map(|other| other.task).find(same);
        }
        Ok(Some(Why::InLine { key, first: first.map(|first| first.ticket.id) }))
    }

    /// Checks the queue's concurrency limit.
    async fn why_busy(&self, stats: &QueueStats) -> Result<Option<Why>> {
        let busy = stats.limits.concurrency.filter(|most| stats.leased >= u64::from(*most));
        let Some(concurrency) = busy else { return Ok(None) };
        let running = key_runs(self.in_state(TaskState::Leased, RUNNING_MAX).await?);
        Ok(Some(Why::QueueBusy { concurrency, running }))
    }

    async fn in_state(&self, state: TaskState, limit: u32) -> Result<Vec<TaskInfo>> {
        let listing = Listing::new(state, Page::first(limit));
        Ok(listing.fill(|listing| self.tasks(listing)).await?.tasks)
    }
}

/// Checks the queue's rate limit.
fn limited(stats: &QueueStats, now: Timestamp) -> Option<Why> {
    stats.rate_until.map(|until| Why::RateLimited { key: None, until, wait: until.since(now) })
}

/// A scheduled task: it is not due, or its key's rate limit does not allow it yet.
fn not_yet(info: &TaskInfo, now: Timestamp) -> Why {
    let (due, until) = (info.task.ticket.due, info.not_before.unwrap_or_default());
    if until > due {
        return Why::RateLimited { key: info.task.key.clone(), until, wait: until.since(now) };
    }
    Why::NotDue {
        due,
        wait: due.since(now),
        attempts: info.task.attempt,
        max_attempts: info.task.max_attempts,
        error: info.error.clone(),
    }
}

/// The deadline, if the task has one.
fn until(info: &TaskInfo, now: Timestamp) -> Vec<Why> {
    let why = |deadline: Timestamp| Why::Deadline { deadline, left: deadline.since(now) };
    info.task.deadline.map(why).into_iter().collect()
}

fn key_runs(running: Vec<TaskInfo>) -> Vec<KeyRun> {
    running.into_iter().take(RUNNING_MAX as usize).map(key_run).collect()
}

fn key_run(info: TaskInfo) -> KeyRun {
    KeyRun {
        id: info.task.ticket.id,
        worker: info.worker.unwrap_or_default(),
        lease_until: info.lease_until.unwrap_or_default(),
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

fn ended(over: FinishedTask) -> Why {
    match over {
        FinishedTask::Dead(letter) => {
            let DeadLetter { attempts, max_attempts, error, died_at, .. } = *letter;
            Why::Dead { attempts, max_attempts, error, died_at }
        }
        FinishedTask::Finished(info) => {
            let TaskInfo { finished, worker, .. } = *info;
            finished.map_or(Why::Unknown, |Finished { at: finished_at, how, .. }| Why::Done {
                how,
                finished_at,
                worker,
            })
        }
        FinishedTask::Gone => Why::Unknown,
    }
}

/// Number of tasks ahead of `id` in `first`.
fn place(first: &[Task], id: &TaskId) -> Option<u32> {
    first.iter().position(|task| task.ticket.id == *id).and_then(|at| u32::try_from(at).ok())
}
