use std::collections::HashSet;
use std::time::Duration;

use rushgate_core::{
    Claim, DueSchedules, Error, Fire, Fired, QueueName, Result, Revision, Schedule, ScheduleId, Timestamp,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::recurrence::Recurrence;
use super::run_id;
use crate::patience::{Pauses, will_pass};
use crate::{Queue, Rushgate};

/// How long it may take to notice what another process has entered.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Schedules that are read at a time.
const BATCH: u32 = 1_000;
/// How long to wait at least if there are some that cannot be read.
const UNREADABLE_WAIT: Duration = Duration::from_secs(1);
/// Maximum payload size of one step, unless a single task exceeds it.
const STEP_BYTES: usize = 4 << 20;

/// Fires the schedules of a queue, for programs that have no [`Worker`](crate::Worker) of it: a worker does the same.
///
/// Any number of processes may do so. A schedule fires once for each moment, because the store fires it only as it was
/// read; whoever comes second finds it done. It sleeps until the next moment, on the store's clock. A schedule that
/// another process enters is noticed within 5 s.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
/// use rushgate::{CancellationToken, Recurrence, Scheduler};
///
/// let pulse = gate.queue_of::<String>("pulse")?;
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
/// # gate.close().await
/// # }
/// ```
#[must_use = "a scheduler does nothing until it runs"]
pub struct Scheduler {
    gate: Rushgate,
    queue: QueueName,
    /// What was complained of.
    unreadable: HashSet<(ScheduleId, Revision)>,
}

/// What a scheduler has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerReport {
    /// Times that it fired one, and no other did.
    pub fired: u64,
    /// Tasks enqueued.
    pub tasks: u64,
    /// Times that the store could not be reached.
    pub outages: u64,
}

impl Scheduler {
    /// Looks after the schedules of that queue.
    pub fn new<T>(queue: Queue<T>) -> Self {
        Self { gate: queue.gate().clone(), queue: queue.name().clone(), unreadable: HashSet::new() }
    }

    /// Fires what is due until `shutdown` is cancelled. Dropping the future leaves each schedule fired or not fired.
    ///
    /// # Errors
    /// A permanent error of the store. An outage is not: the scheduler continues after it, and [`Missed`](super::Missed) says
    /// what becomes of the moments that passed.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<SchedulerReport> {
        let (mut report, mut pauses) = (SchedulerReport::default(), Pauses::new());
        loop {
            // Before the look, so that no change after it goes unnoticed.
            let gate = self.gate.clone();
            let changed = gate.schedules_changed().notified();
            let wait = match self.look(&mut report).await {
                Ok(wait) => {
                    pauses = Pauses::new();
                    wait
                }
                Err(error) if will_pass(&error) && !self.gate.closing().is_cancelled() => {
                    report.outages += 1;
                    tracing::warn!(queue = %self.queue, %error, "the scheduler waits for the store");
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

    /// Fires what is due, and says how long to wait before the next look.
    async fn look(&mut self, report: &mut SchedulerReport) -> Result<Duration> {
        let DueSchedules { now, due, next } =
            self.gate.ask(|| self.gate.store().due_schedules(&self.queue, BATCH)).await?;
        let mut wait = next.map_or(LOOK_EVERY, |next| next.since(now)).min(LOOK_EVERY);
        for schedule in due {
            match self.fire(&schedule, now).await {
                Ok(fired) => {
                    // There may be more of it, or of others.
                    wait = Duration::ZERO;
                    if let Fired::Fired { added } = fired {
                        report.fired += 1;
                        report.tasks += u64::from(added);
                    }
                }
                // It stays due, and others must not wait for it, nor be looked for without a pause.
                Err(error) if error.is_invalid() => {
                    wait = wait.max(UNREADABLE_WAIT);
                    if self.unreadable.insert((schedule.id.clone(), schedule.revision)) {
                        tracing::error!(queue = %self.queue, schedule = %schedule.id, %error, "it cannot be fired");
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(wait)
    }

    async fn fire(&self, schedule: &Schedule, now: Timestamp) -> Result<Fired> {
        let recurrence: Recurrence = schedule.recurrence.parse()?;
        let first = schedule.next.ok_or_else(|| Error::bug("a schedule without a moment is due"))?;
        let most = (STEP_BYTES / schedule.payload.bytes().len().max(1)).clamp(1, Claim::BATCH_MAX);
        let due = recurrence.due(first, now, most);
        // A change that was under way while another fired may have brought a moment back.
        let new = due.runs.into_iter().filter(|at| Some(*at) > schedule.previous);
        let fire = Fire {
            id: schedule.id.clone(),
            revision: schedule.revision,
            runs: new.map(|at| Ok((run_id(&schedule.id, at)?, at))).collect::<Result<_>>()?,
            next: due.next,
        };
        let fired = self.gate.ask(|| self.gate.store().fire(&self.queue, fire.clone())).await?;
        if let Fired::Fired { added } = fired {
            tracing::info!(queue = %self.queue, schedule = %schedule.id, added, "fired");
        }
        Ok(fired)
    }
}
