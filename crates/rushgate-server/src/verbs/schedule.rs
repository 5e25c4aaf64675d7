//! Schedules over HTTP.

use std::time::Duration;

use rushgate::{ContentType, Kind, Missed, Payload, Priority, Recurrence, Schedule, Scheduled, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::content::{Content, ContentView};
use super::queue::{EnqueuedView, PausedView, entered, max_attempts};
use super::{PageQuery, PageView};
use crate::call::{Call, Nothing};
use crate::openapi::{KindText, NameText};
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Reply};

/// What happens to occurrences that passed while no scheduler ran.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MissedWord {
    /// Skip them, except one that is at most one minute old.
    Skip,
    /// Run the latest, and skip the others.
    #[default]
    Once,
    /// Run each of them.
    All,
}

/// A schedule to save.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["cron"] }, { "required": ["every_ms"] }]))]
pub(crate) struct ScheduleBody {
    /// Cron pattern: `minute hour day month weekday`, with seconds in front if there are six fields.
    cron: Option<String>,
    /// Time zone of the pattern, such as `Europe/Berlin`. Default: UTC.
    zone: Option<String>,
    /// Interval in milliseconds, instead of `cron`: 1 s to 400 days.
    #[schemars(range(min = 1_000, max = 34_560_000_000_u64))]
    every_ms: Option<u64>,
    /// What happens to missed occurrences. Default: `once`.
    #[serde(default)]
    missed: MissedWord,
    /// Payload of the tasks as JSON, or as a string if `content_type` is not JSON.
    #[schemars(with = "Option<serde_json::Value>")]
    payload: Option<Box<RawValue>>,
    /// Payload of the tasks in base64, instead of `payload`.
    payload_base64: Option<String>,
    /// Media type of the payload. Default: `application/json` for `payload`, `application/octet-stream` for
    /// `payload_base64`.
    #[schemars(with = "Option<NameText>")]
    content_type: Option<ContentType>,
    /// Kind of work, by which a worker selects the handler.
    #[schemars(with = "Option<KindText>")]
    kind: Option<Kind>,
    /// Priority of the tasks, from 0 (first) to 9 (last). Default: 5.
    #[serde(default)]
    #[schemars(with = "u8", range(max = 9))]
    priority: Priority,
    /// Maximum number of attempts of each task: 1 to 1,000. Default: 20.
    #[serde(default = "max_attempts")]
    #[schemars(range(min = 1, max = 1_000))]
    max_attempts: u32,
    /// Whether the schedule is paused. Default: unchanged.
    paused: Option<bool>,
}

impl ScheduleBody {
    fn recurrence(&self) -> Result<Recurrence, Problem> {
        let recurrence = match (&self.cron, self.every_ms) {
            (Some(pattern), None) => Recurrence::cron(pattern)?,
            (None, Some(every)) => Recurrence::every(Duration::from_millis(every))?,
            _ => return Err(Problem::new(Code::Invalid, "set cron or every_ms").field("cron")),
        };
        let recurrence = match &self.zone {
            Some(zone) => recurrence.in_zone(zone)?,
            None => recurrence,
        };
        Ok(recurrence.missed(match self.missed {
            MissedWord::Skip => Missed::Skip,
            MissedWord::Once => Missed::Once,
            MissedWord::All => Missed::All,
        }))
    }
}

/// Outcome of saving a schedule.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub(crate) enum ScheduledView {
    /// A new schedule was created.
    Added {
        /// Revision of the schedule.
        revision: u64,
    },
    /// The schedule was changed.
    Changed {
        /// The new revision.
        revision: u64,
    },
    /// The schedule already had these settings.
    Unchanged {
        /// Revision of the schedule.
        revision: u64,
    },
}

pub(crate) async fn schedule(call: Call<ScheduleBody>) -> Answer<ScheduledView> {
    let (queue, recurrence) = (call.queue()?, call.body.recurrence()?);
    let ScheduleBody { payload, payload_base64, content_type, kind, priority, max_attempts, paused, .. } =
        call.body;
    let content: Payload = Content { payload, payload_base64, content_type, kind }.try_into()?;
    let mut new = queue.schedule(call.path.get("schedule"), content, recurrence);
    new = new.priority(priority.get()).max_attempts(max_attempts);
    if let Some(paused) = paused {
        new = new.paused(paused);
    }
    match new.save().await? {
        Scheduled::Added { revision } => {
            call.shop.more_to_look_after.notify_one();
            Ok(Reply::created(ScheduledView::Added { revision: revision.as_u64() }))
        }
        Scheduled::Changed { revision } => {
            Ok(Reply::ok(ScheduledView::Changed { revision: revision.as_u64() }))
        }
        Scheduled::Unchanged { revision } => {
            Ok(Reply::ok(ScheduledView::Unchanged { revision: revision.as_u64() }))
        }
        Scheduled::Full => {
            Err(Problem::new(Code::QueueFull, "the queue has the maximum number of schedules"))
        }
        Scheduled::Stale => Err(Problem::plain(Code::Stale)),
    }
}

/// A schedule.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ScheduleView {
    /// ID of the schedule.
    id: String,
    /// Recurrence in words.
    when: String,
    #[serde(flatten)]
    content: ContentView,
    /// Priority of the tasks, from 0 (first) to 9 (last).
    priority: u8,
    /// Maximum number of attempts of each task.
    max_attempts: u32,
    /// Next occurrence, in microseconds since the Unix epoch. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_us: Option<u64>,
    /// Latest occurrence that has fired, in microseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_us: Option<u64>,
    /// Whether the schedule is paused.
    paused: bool,
    /// Revision: grows with every change and every occurrence.
    revision: u64,
}

impl From<Schedule> for ScheduleView {
    fn from(of: Schedule) -> Self {
        let when = of.recurrence.parse::<Recurrence>();
        Self {
            id: of.id.to_string(),
            when: when.map_or_else(|_| of.recurrence.clone(), |when| when.to_string()),
            content: (&of.payload).into(),
            priority: of.priority.get(),
            max_attempts: of.max_attempts,
            next_us: of.next.map(Timestamp::as_micros),
            previous_us: of.previous.map(Timestamp::as_micros),
            paused: of.paused,
            revision: of.revision.as_u64(),
        }
    }
}

fn no_schedule() -> Problem {
    Problem::new(Code::NotFound, "no such schedule")
}

pub(crate) async fn schedules(call: Call<Nothing, PageQuery>) -> Answer<PageView<ScheduleView>> {
    let queue = call.queue()?;
    PageView::read(
        (&call.query).into(),
        |page| queue.schedules(page),
        |schedule| schedule.id.as_str(),
        |schedule| &schedule.payload,
        ScheduleView::from,
    )
    .await
}

pub(crate) async fn find_schedule(call: Call) -> Answer<ScheduleView> {
    let found = call.queue()?.find_schedule(call.path.get("schedule")).await?;
    found.map(|found| Reply::ok(found.into())).ok_or_else(no_schedule)
}

/// Outcome of deleting a schedule.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub(crate) enum UnscheduledView {
    /// The schedule is gone. Tasks that it enqueued stay.
    Removed,
}

pub(crate) async fn unschedule(call: Call) -> Answer<UnscheduledView> {
    match call.queue()?.unschedule(call.path.get("schedule")).await? {
        true => Ok(Reply::ok(UnscheduledView::Removed)),
        false => Err(no_schedule()),
    }
}

pub(crate) async fn pause_schedule(call: Call) -> Answer<PausedView> {
    set_paused(call, true).await
}

pub(crate) async fn resume_schedule(call: Call) -> Answer<PausedView> {
    set_paused(call, false).await
}

async fn set_paused(call: Call, paused: bool) -> Answer<PausedView> {
    match call.queue()?.pause_schedule(call.path.get("schedule"), paused).await? {
        true => PausedView::answer(paused),
        false => Err(no_schedule()),
    }
}

pub(crate) async fn run_schedule(call: Call) -> Answer<EnqueuedView> {
    let enqueued = call.queue()?.run_schedule(call.path.get("schedule")).await?;
    entered(enqueued.ok_or_else(no_schedule)?)
}
