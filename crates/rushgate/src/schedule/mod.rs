//! Schedules: recurring tasks, enqueued once per occurrence by the first scheduler to notice.

mod recurrence;
mod scheduler;

use rushgate_core::{
    Enqueued, Error, Kind, NewSchedule, NewTask, Page, Priority, Result, TaskId, Timestamp, Verbs,
};

pub use recurrence::{Missed, Recurrence, RecurrenceSpec};
#[doc(inline)]
pub use rushgate_core::{Schedule, ScheduleId, Scheduled};
pub use scheduler::{Scheduler, SchedulerReport};

use serde::Serialize;

use crate::Queue;
use recurrence::run_id;

/// Page size of reads.
const PAGE: u32 = 100;

/// A schedule to save, with its options. Created by [`Queue::schedule`], stored by [`save`](Self::save).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use rushgate::Recurrence;
/// use rushgate::schedule::Scheduled;
///
/// let reports = client.queue_of::<String>("reports")?;
/// let nightly = || Recurrence::cron("30 3 * * *")?.in_zone("Europe/Berlin");
/// // Every process of the fleet runs this at startup.
/// let entered = reports.schedule("nightly", "sales".to_owned(), nightly()?).max_attempts(5).save().await?;
/// assert!(matches!(entered, Scheduled::Added { .. }));
/// let again = reports.schedule("nightly", "sales".to_owned(), nightly()?).max_attempts(5).save().await?;
/// assert!(matches!(again, Scheduled::Unchanged { .. }));
/// // Any `Worker` of the queue fires it. Its tasks are named `nightly@2026-11-23T02:30:00Z`, one per night.
/// # client.close().await
/// # }
/// ```
#[must_use = "nothing is saved before `save`"]
pub struct Scheduling<'a, T> {
    queue: &'a Queue<T>,
    recurrence: Recurrence,
    new: Result<NewSchedule>,
}

impl<T> Scheduling<'_, T> {
    fn with(mut self, change: impl FnOnce(&mut NewSchedule)) -> Self {
        if let Ok(new) = &mut self.new {
            change(new);
        }
        self
    }

    /// Priority of the tasks, from 0 (first) to 9 (last). Default: 5.
    pub fn priority(mut self, level: u8) -> Self {
        self.new = self.new.and_then(|new| Ok(NewSchedule { priority: Priority::new(level)?, ..new }));
        self
    }

    /// Kind of the tasks; see [`Enqueue::kind`](crate::queue::Enqueue::kind).
    pub fn kind(mut self, kind: impl AsRef<str>) -> Self {
        self.new = self.new.and_then(|mut new| {
            new.payload = new.payload.with_kind(&Kind::new(kind)?)?;
            Ok(new)
        });
        self
    }

    /// Maximum number of attempts of each task: 1 to 1,000. Default: 20.
    pub fn max_attempts(self, max_attempts: u32) -> Self {
        self.with(|new| new.max_attempts = max_attempts)
    }

    /// Pauses or resumes the schedule. Default: unchanged; a new schedule runs.
    pub fn paused(self, paused: bool) -> Self {
        self.with(|new| new.paused = Some(paused))
    }

    /// Creates the schedule, or updates the one with this ID. An identical schedule stays as it is. Only a
    /// new recurrence, a pause or a resume changes the next occurrence, so no due occurrence is lost.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a value outside its range: nothing was saved. Otherwise the
    /// store could not answer; saving again is safe.
    pub async fn save(self) -> Result<Scheduled> {
        let mut new = self.new?;
        new.next = self.recurrence.next_after(self.queue.store_clock().await?);
        self.queue.enter(new).await
    }
}

impl<T> Queue<T> {
    /// A recurring task: returns a builder with its options, to be [saved](Scheduling::save). Its tasks have
    /// IDs such as `ID@2026-11-23T02:30:00Z` and are otherwise ordinary. Runs of one schedule may overlap.
    ///
    /// Every [`Worker`](crate::Worker) of the queue and every [`Scheduler`] fires schedules; each occurrence
    /// fires once.
    pub fn schedule(&self, id: impl AsRef<str>, content: T, recurrence: Recurrence) -> Scheduling<'_, T> {
        let new = ScheduleId::new(id).and_then(|id| {
            // Tasks of a schedule have no span that enqueues them.
            let template = NewTask::new(TaskId::new("template")?, self.content(content)?);
            Ok(NewSchedule {
                id,
                recurrence: words(&recurrence)?,
                payload: template.payload,
                priority: template.priority,
                max_attempts: template.max_attempts,
                next: None,
                paused: None,
                as_of: None,
            })
        });
        Scheduling { queue: self, recurrence, new }
    }

    /// Deletes a schedule. True if it existed; false also if the first answer was lost and the call was
    /// repeated. Tasks that it has enqueued stay.
    pub async fn unschedule(&self, id: impl AsRef<str>) -> Result<bool> {
        let id = ScheduleId::new(id)?;
        self.client().ask(|| self.client().store().unschedule(self.name(), &id)).await
    }

    /// Schedules by ID. [`Schedule::recurrence`] is the JSON of a [`Recurrence`].
    pub async fn schedules(&self, page: Page) -> Result<Vec<Schedule>> {
        self.client().ask(|| self.client().store().schedules(self.name(), page.clone())).await
    }

    /// One schedule by ID.
    pub async fn find_schedule(&self, id: impl AsRef<str>) -> Result<Option<Schedule>> {
        let id = ScheduleId::new(id)?;
        let mut page = Page::first(PAGE);
        loop {
            let schedules = self.schedules(page.clone()).await?;
            let Some(last) = schedules.last() else { return Ok(None) };
            page.after = last.id.as_str().to_owned();
            let is_here = last.id >= id;
            if let Some(found) = schedules.into_iter().find(|schedule| schedule.id == id) {
                return Ok(Some(found));
            }
            if is_here {
                return Ok(None);
            }
        }
    }

    /// Pauses a schedule, or resumes it from now. Occurrences during a pause do not count as missed. False if
    /// there is no such schedule.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a resume if the stored recurrence cannot be parsed. Otherwise
    /// the store could not answer; repeating the call is safe.
    pub async fn pause_schedule(&self, id: impl AsRef<str>, paused: bool) -> Result<bool> {
        let id = ScheduleId::new(id)?;
        loop {
            let Some(found) = self.find_schedule(&id).await? else { return Ok(false) };
            // Pausing must work even if the recurrence cannot be parsed.
            let next = match paused {
                true => found.next,
                false => found.recurrence.parse::<Recurrence>()?.next_after(self.store_clock().await?),
            };
            let new = NewSchedule {
                id: found.id,
                recurrence: found.recurrence,
                payload: found.payload,
                priority: found.priority,
                max_attempts: found.max_attempts,
                next,
                paused: Some(paused),
                as_of: Some(found.revision),
            };
            // The schedule fired or was changed since it was read: try again.
            if self.enter(new).await? != Scheduled::Stale {
                return Ok(true);
            }
        }
    }

    /// Enqueues a task of a schedule now, outside its recurrence, even if it is paused. `None` if there is no
    /// such schedule.
    pub async fn run_schedule(&self, id: impl AsRef<str>) -> Result<Option<Enqueued>> {
        let Some(schedule) = self.find_schedule(id).await? else { return Ok(None) };
        let id = run_id(&schedule.id, self.store_clock().await?)?;
        let task = NewTask {
            priority: schedule.priority,
            max_attempts: schedule.max_attempts,
            ..NewTask::new(id, schedule.payload)
        };
        Ok(self.enqueue_all(vec![task]).await?.into_iter().next())
    }

    async fn enter(&self, new: NewSchedule) -> Result<Scheduled> {
        let entered = self.client().ask(|| self.client().store().schedule(self.name(), new.clone())).await;
        self.client().schedules_changed().notify_waiters();
        entered
    }

    /// Current time on the store's clock.
    pub(crate) async fn store_clock(&self) -> Result<Timestamp> {
        Ok(self.client().ask(|| self.client().store().due_schedules(self.name(), 1)).await?.now)
    }
}

/// A schedule as JSON, with its recurrence in words too.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScheduleReport {
    #[serde(flatten)]
    schedule: Schedule,
    /// Recurrence in words.
    when: String,
    /// The next occurrences: at most five, and none while the schedule is paused.
    upcoming_us: Vec<Timestamp>,
}

/// Number of occurrences in a report.
const UPCOMING: usize = 5;

impl From<Schedule> for ScheduleReport {
    fn from(schedule: Schedule) -> Self {
        let recurrence = schedule.recurrence.parse::<Recurrence>().ok();
        let when = recurrence.as_ref().map_or_else(|| schedule.recurrence.clone(), Recurrence::to_string);
        let next = schedule.next.filter(|_| !schedule.paused);
        let after = next.zip(recurrence.as_ref()).map(|(next, recurrence)| recurrence.upcoming(next));
        let upcoming_us = next.into_iter().chain(after.into_iter().flatten()).take(UPCOMING).collect();
        Self { schedule, when, upcoming_us }
    }
}

fn words(recurrence: &Recurrence) -> Result<String> {
    serde_json::to_string(recurrence)
        .map_err(|error| Error::invalid("the recurrence", "cannot be serialized as JSON").caused_by(error))
}
