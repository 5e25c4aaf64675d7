use std::collections::HashSet;
use std::time::Duration;

use rushgate_core::{
    Claim, DueSchedules, Error, Fire, Fired, QueueName, Result, Revision, Schedule, ScheduleId, Timestamp,
    Verbs,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::recurrence::{Recurrence, run_id};
use crate::retry::{Pauses, will_pass};
use crate::{Queue, Rushgate};

/// Longest sleep: how long it may take to notice a schedule that another process has saved.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Number of schedules read at a time.
const BATCH: u32 = 1_000;
/// Shortest sleep while some schedules cannot be parsed.
const UNREADABLE_WAIT: Duration = Duration::from_secs(1);
/// Maximum payload size of one step, unless a single task exceeds it.
const STEP_BYTES: usize = 4 << 20;

/// Fires the schedules of a queue, for programs that run no [`Worker`](crate::Worker) of it; a worker does
/// the same.
///
/// Run any number of schedulers, in any number of processes. Each occurrence fires once: the store rejects a
/// fire if the schedule has changed since it was read. The scheduler sleeps until the next occurrence on the
/// store's clock, and notices a schedule saved by another process within 5 s.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
/// use rushgate::{CancellationToken, Recurrence};
/// use rushgate::schedule::Scheduler;
///
/// let pulse = client.queue_of::<String>("pulse")?;
/// let each_second = Recurrence::every(Duration::from_secs(1))?;
/// pulse.schedule("beat", "thump".to_owned(), each_second).save().await?;
///
/// let shutdown = CancellationToken::new();
/// let scheduler = tokio::spawn(Scheduler::new(pulse.clone()).run(shutdown.clone()));
/// let beats = pulse.claim_wait(1, Duration::from_secs(30), Duration::from_secs(5)).await?;
/// assert!(beats[0].ticket.id.as_str().starts_with("beat@"));
/// shutdown.cancel();
/// let report = scheduler.await.expect("it does not panic")?;
/// assert!(report.tasks >= 1);
/// # client.close().await
/// # }
/// ```
#[must_use = "a scheduler does nothing until it runs"]
pub struct Scheduler {
    client: Rushgate,
    queue: QueueName,
    /// Unreadable schedules that were logged already.
    unreadable: HashSet<(ScheduleId, Revision)>,
}

/// Totals of a scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerReport {
    /// Occurrences that this scheduler fired.
    pub fired: u64,
    /// Tasks enqueued.
    pub tasks: u64,
    /// Number of times that the store could not be reached.
    pub outages: u64,
}

impl Scheduler {
    /// A scheduler for `queue`.
    pub fn new<T>(queue: Queue<T>) -> Self {
        Self { client: queue.client().clone(), queue: queue.name().clone(), unreadable: HashSet::new() }
    }

    /// Fires due schedules until `shutdown` is canceled. If the future is dropped, each schedule has fired or
    /// not.
    ///
    /// # Errors
    /// A lasting error of the store. An outage is not an error: the scheduler continues after it, and
    /// [`Missed`](super::Missed) decides about the occurrences that passed.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<SchedulerReport> {
        let (mut report, mut pauses) = (SchedulerReport::default(), Pauses::new());
        loop {
            // Created before the read, so that no later change is missed.
            let client = self.client.clone();
            let changed = client.schedules_changed().notified();
            let wait = match self.look(&mut report).await {
                Ok(wait) => {
                    pauses = Pauses::new();
                    wait
                }
                Err(error) if will_pass(&error) && !self.client.closing().is_cancelled() => {
                    report.outages += 1;
                    tracing::warn!(queue = %self.queue, %error, "the store is unavailable; the scheduler is retrying");
                    pauses.draw()
                }
                Err(error) => return Err(error),
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(report),
                () = changed => {}
                () = sleep(wait) => {}
            }
        }
    }

    /// Fires due schedules, and returns the time until the next read.
    async fn look(&mut self, report: &mut SchedulerReport) -> Result<Duration> {
        let DueSchedules { now, due, next } =
            self.client.ask(|| self.client.store().due_schedules(&self.queue, BATCH)).await?;
        let mut wait = next.map_or(LOOK_EVERY, |next| next.since(now)).min(LOOK_EVERY);
        for schedule in due {
            match self.fire(&schedule, now).await {
                Ok(fired) => {
                    // More occurrences may be due, of this schedule or others.
                    wait = Duration::ZERO;
                    if let Fired::Fired { added } = fired {
                        report.fired += 1;
                        report.tasks += u64::from(added);
                    }
                }
                // An unreadable schedule stays due. Log it once, keep firing the others, and pause between
                // reads.
                Err(error) if error.is_invalid() => {
                    wait = wait.max(UNREADABLE_WAIT);
                    if self.unreadable.insert((schedule.id.clone(), schedule.revision)) {
                        tracing::error!(queue = %self.queue, schedule = %schedule.id, %error, "cannot run the schedule");
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(wait)
    }

    async fn fire(&self, schedule: &Schedule, now: Timestamp) -> Result<Fired> {
        let recurrence: Recurrence = schedule.recurrence.parse()?;
        let first = schedule.next.ok_or_else(|| Error::bug("a schedule without a next run is due"))?;
        let most = (STEP_BYTES / schedule.payload.bytes().len().max(1)).clamp(1, Claim::BATCH_MAX);
        let due = recurrence.due(first, now, most);
        // A schedule that was changed while another scheduler fired it may list an occurrence again: skip
        // those.
        let new = due.runs.into_iter().filter(|at| Some(*at) > schedule.previous);
        let fire = Fire {
            id: schedule.id.clone(),
            revision: schedule.revision,
            runs: new.map(|at| Ok((run_id(&schedule.id, at)?, at))).collect::<Result<_>>()?,
            next: due.next,
        };
        let fired = self.client.ask(|| self.client.store().fire(&self.queue, fire.clone())).await?;
        if let Fired::Fired { added } = fired {
            tracing::info!(queue = %self.queue, schedule = %schedule.id, added, "fired");
        }
        Ok(fired)
    }
}
