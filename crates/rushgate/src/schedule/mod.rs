//! Schedules: recurring tasks, enqueued once per occurrence by the first scheduler to notice.

mod recurrence;
mod scheduler;

use rushgate_core::{
    Enqueued, Error, Kind, NewSchedule, NewTask, Page, Priority, Result, Schedule, ScheduleId, Scheduled,
    TaskId, Timestamp,
};

pub use recurrence::{Missed, Recurrence};
pub use scheduler::{Scheduler, SchedulerReport};

use crate::Queue;
use recurrence::written;

/// Schedules that are read at a time.
const PAGE: u32 = 100;

/// A schedule on its way into the store: made by [`Queue::schedule`], entered by [`save`](Self::save).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use rushgate::{Recurrence, Scheduled};
///
/// let reports = gate.queue_of::<String>("reports")?;
/// let nightly = || Recurrence::cron("30 3 * * *")?.in_zone("Europe/Berlin");
/// // Every process of the fleet does this when it starts.
/// let entered = reports.schedule("nightly", "sales".to_owned(), nightly()?).max_attempts(5).save().await?;
/// assert!(matches!(entered, Scheduled::Added { .. }));
/// let again = reports.schedule("nightly", "sales".to_owned(), nightly()?).max_attempts(5).save().await?;
/// assert!(matches!(again, Scheduled::Unchanged { .. }));
/// // Any `Worker` of the queue fires it: tasks named `nightly@2026-11-23T02:30:00Z`, one for each night.
/// # gate.close().await
/// # }
/// ```
#[must_use = "nothing is entered before `save`"]
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

    /// Priority of its tasks, from 0 (first) to 9 (last). Default: 5.
    pub fn priority(mut self, level: u8) -> Self {
        match Priority::new(level) {
            Ok(priority) => self.with(|new| new.priority = priority),
            Err(error) => {
                self.new = self.new.and(Err(error));
                self
            }
        }
    }

    /// What sort of work its tasks are; see [`Enqueue::kind`](crate::Enqueue::kind).
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

    /// Whether it stands still. Unless this is said it stays as it is, and a new one runs.
    pub fn paused(self, paused: bool) -> Self {
        self.with(|new| new.paused = Some(paused))
    }

    /// Enters it, or changes the one of that id. One that says the same stays as it is. Only another recurrence, a pause
    /// and its end change its next moment, so nothing that is due is lost.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for whatever is outside its range: nothing was entered. Otherwise the store
    /// could not tell; saving again is safe.
    pub async fn save(self) -> Result<Scheduled> {
        let mut new = self.new?;
        new.next = self.recurrence.next_after(self.queue.store_clock().await?);
        self.queue.enter(new).await
    }
}

impl<T> Queue<T> {
    /// A task that comes again and again; say how, then [`save`](Scheduling::save). Its tasks have ids such as
    /// `ID@2026-11-23T02:30:00Z` and are worked off like any others; runs of one schedule may overlap.
    ///
    /// Schedules are fired by every [`Worker`](crate::Worker) of the queue, and by a [`Scheduler`], each moment once.
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

    /// Takes a schedule out, and says whether there was one: not if an answer was lost and the question repeated. Tasks
    /// that it has put in stay.
    pub async fn unschedule(&self, id: impl AsRef<str>) -> Result<bool> {
        let id = ScheduleId::new(id)?;
        self.gate().ask(|| self.gate().store().unschedule(self.name(), &id)).await
    }

    /// Schedules by id. [`Schedule::recurrence`] is JSON that a [`Recurrence`] is parsed from.
    pub async fn schedules(&self, page: Page) -> Result<Vec<Schedule>> {
        self.gate().ask(|| self.gate().store().schedules(self.name(), page.clone())).await
    }

    /// One schedule by id.
    pub async fn find_schedule(&self, id: impl AsRef<str>) -> Result<Option<Schedule>> {
        let id = ScheduleId::new(id)?;
        let mut page = Page { after: String::new(), limit: PAGE };
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

    /// Has a schedule stand still, or go on from now. Moments that pass meanwhile are no missed ones. False if there is
    /// no such schedule.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if it is to go on and its recurrence cannot be read. Otherwise the store could
    /// not tell; asking again is safe.
    pub async fn pause_schedule(&self, id: impl AsRef<str>, paused: bool) -> Result<bool> {
        let id = ScheduleId::new(id)?;
        loop {
            let Some(found) = self.find_schedule(&id).await? else { return Ok(false) };
            // What cannot be read can be stopped all the same.
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
            // It fired or was changed since it was read: once more.
            if self.enter(new).await? != Scheduled::Stale {
                return Ok(true);
            }
        }
    }

    /// Puts in a task of a schedule at once, whatever its moments, even if it is paused. `None` if there is no such
    /// schedule.
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
        let entered = self.gate().ask(|| self.gate().store().schedule(self.name(), new.clone())).await;
        self.gate().schedules_changed().notify_waiters();
        entered
    }

    /// What the store's clock says.
    pub(crate) async fn store_clock(&self) -> Result<Timestamp> {
        Ok(self.gate().ask(|| self.gate().store().due_schedules(self.name(), 1)).await?.now)
    }
}

fn words(recurrence: &Recurrence) -> Result<String> {
    serde_json::to_string(recurrence)
        .map_err(|error| Error::invalid("the recurrence", "cannot be written as JSON").caused_by(error))
}

/// The task of a schedule's moment.
fn run_id(id: &ScheduleId, at: Timestamp) -> Result<TaskId> {
    TaskId::new(format!("{id}@{}", written(at)))
}
