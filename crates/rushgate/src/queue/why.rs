use rushgate_core::{
    DeadLetter, Fence, Finish, Finished, IfDead, Listing, QueueStats, Result, Task, TaskId, TaskInfo,
    TaskKey, TaskState, Timestamp, Waits, WaitsFor,
};
use serde::Serialize;
use std::time::Duration;

use super::{Over, Queue};

/// Due tasks among which a task's place is looked for.
const PLACES: u32 = 1_000;
/// Tasks that are leased, or not due, among which those of a key are looked for.
const LISTED: u32 = 10_000;
/// Maximum number of running tasks listed.
const RUNNING_MAX: u32 = 10;
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
    /// It is running, or its worker has died and the lease has not expired yet.
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
        #[serde(rename = "lease_left_ms", serialize_with = "millis")]
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
        #[serde(rename = "wait_ms", serialize_with = "millis")]
        wait: Duration,
        /// How often it was tried.
        attempts: u32,
        /// How often it may be.
        max_attempts: u32,
        /// Error of the latest failed attempt that reported one.
        error: Option<String>,
    },
    /// As many tasks of the queue are leased as may be at a time.
    QueueBusy {
        /// The limit.
        concurrency: u32,
        /// Which, at most ten.
        running: Vec<KeyRun>,
    },
    /// The rate limit of the queue, or of its key, is reached.
    RateLimited {
        /// The key, if it is the key's rate.
        key: Option<TaskKey>,
        /// When it allows another.
        #[serde(rename = "until_us")]
        until: Timestamp,
        /// How long that is.
        #[serde(rename = "wait_ms", serialize_with = "millis")]
        wait: Duration,
    },
    /// Its key has as many running as it may have at a time.
    KeyBusy {
        /// The key.
        key: TaskKey,
        /// Tasks of the key that run, at most ten.
        running: Vec<KeyRun>,
    },
    /// It stands in line behind others of its key.
    InLine {
        /// The key.
        key: TaskKey,
        /// Who is first, if it is among the first thousand that may be given out, or the first ten thousand that are
        /// not due.
        first: Option<TaskId>,
    },
    /// It waits for other tasks, or is held open for them.
    WaitsFor {
        /// Number of tasks that it waits for.
        left: u64,
        /// Number of dead letters among the first 1,000 of those.
        dead: u64,
        /// Some of them, at most five: those that are dead come first, with why they failed.
        first: Vec<WaitsFor>,
        /// What becomes of it if one is dead.
        if_dead: IfDead,
        /// Whether it is held open, and does not run before it is closed.
        open: bool,
    },
    /// It is due, and nobody has claimed it yet.
    Waiting {
        /// Number of due tasks ahead of it; `None` for 1,000 or more.
        ahead: Option<u32>,
        /// How many tasks of the queue are being worked on under a lease.
        leased: u64,
        /// How long it has been due.
        #[serde(rename = "due_for_ms", serialize_with = "millis")]
        due_for: Duration,
        /// When anything of the queue was last claimed; `None` if nothing ever was.
        #[serde(rename = "last_claim_us")]
        last_claim: Option<Timestamp>,
    },
    /// It has a deadline, which keeps it from running from then on: if it waits it becomes a dead letter, and if it runs a
    /// worker's handler is stopped.
    Deadline {
        /// When.
        #[serde(rename = "deadline_us")]
        deadline: Timestamp,
        /// How long that is.
        #[serde(rename = "left_ms", serialize_with = "millis")]
        left: Duration,
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
    /// It is over, as the queue's retention lets one see.
    Done {
        /// In which way it ended.
        how: Finish,
        /// When.
        #[serde(rename = "finished_us")]
        finished_at: Timestamp,
        /// The worker, if one had claimed it.
        worker: Option<String>,
    },
    /// It is not live, and its ID is still unique: enqueueing the ID again is answered `Recent`.
    Unique {
        /// When it will be.
        #[serde(rename = "until_us")]
        until: Timestamp,
        /// How long that is.
        #[serde(rename = "left_ms", serialize_with = "millis")]
        left: Duration,
    },
    /// It is not live, dead or retained: it is done, was removed, or was never enqueued.
    Unknown,
}

/// A task that runs, of the same key or of the same queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyRun {
    /// Its id.
    pub id: TaskId,
    /// Who claimed it.
    pub worker: String,
    /// When its lease runs out unless it is extended.
    #[serde(rename = "lease_until_us")]
    pub lease_until: Timestamp,
}

fn millis<S: serde::Serializer>(of: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(of.as_millis()).unwrap_or(u64::MAX))
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
                Some(info) if info.state == TaskState::Leased => {
                    [vec![running(&info, now)], until(&info, now)].concat()
                }
                Some(info) if info.state != TaskState::Done => match self.why_waiting(&info, now).await? {
                    reasons if reasons.is_empty() => reasons,
                    reasons => [reasons, until(&info, now)].concat(),
                },
                _ => self.why_over(&id, now).await?,
            };
            // It moved between two questions if there is no answer.
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
            // It may wait for another attempt.
            let scheduled = self.in_state(TaskState::Scheduled, LISTED).await?;
            first = scheduled.into_iter().map(|other| other.task).find(same);
        }
        Ok(Some(Why::InLine { key, first: first.map(|first| first.ticket.id) }))
    }

    /// As many are leased as may be at a time.
    async fn why_busy(&self, stats: &QueueStats) -> Result<Option<Why>> {
        let busy = stats.limits.concurrency.filter(|most| stats.leased >= u64::from(*most));
        let Some(concurrency) = busy else { return Ok(None) };
        let running = key_runs(self.in_state(TaskState::Leased, RUNNING_MAX).await?);
        Ok(Some(Why::QueueBusy { concurrency, running }))
    }

    async fn in_state(&self, state: TaskState, limit: u32) -> Result<Vec<TaskInfo>> {
        self.tasks(Listing { state: Some(state), after: String::new(), limit }).await
    }
}

/// What the queue's rate says.
fn limited(stats: &QueueStats, now: Timestamp) -> Option<Why> {
    stats.rate_until.map(|until| Why::RateLimited { key: None, until, wait: until.since(now) })
}

/// It is scheduled: not due, or its key's rate does not allow it yet.
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

/// Its deadline, if it has one.
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

fn ended(over: Over) -> Why {
    match over {
        Over::Dead(letter) => {
            let DeadLetter { attempts, max_attempts, error, died_at, .. } = *letter;
            Why::Dead { attempts, max_attempts, error, died_at }
        }
        Over::Finished(info) => {
            let TaskInfo { finished, worker, .. } = *info;
            finished.map_or(Why::Unknown, |Finished { at: finished_at, how, .. }| Why::Done {
                how,
                finished_at,
                worker,
            })
        }
        Over::Gone => Why::Unknown,
    }
}

/// How many of the first tasks come before it.
fn place(first: &[Task], id: &TaskId) -> Option<u32> {
    first.iter().position(|task| task.ticket.id == *id).and_then(|at| u32::try_from(at).ok())
}
