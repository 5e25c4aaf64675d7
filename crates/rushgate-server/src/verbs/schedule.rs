//! Schedules over HTTP.

use rushgate::queue::{ContentType, Kind, NewTask, Payload, Priority};
use rushgate::schedule::{Missed, Scheduled};
use rushgate::store::Page;
use rushgate::wire::{PayloadSpec, RecurrenceSpec, ScheduleReport};
use rushgate::{Enqueued, Recurrence};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::queue::{PausedView, entered};
use super::{PageQuery, PageView, Part};
use crate::call::{Call, Nothing};
use crate::openapi::exactly_one;
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Reply};

/// A schedule to save.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = exactly_one("cron", "every_ms"))]
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
    missed: Missed,
    /// Payload of the tasks as JSON, or as a string if `content_type` is not JSON.
    #[schemars(with = "Option<serde_json::Value>")]
    payload: Option<Box<RawValue>>,
    /// Payload of the tasks in base64, instead of `payload`.
    payload_base64: Option<String>,
    /// Media type of the payload. Default: `application/json` for `payload`, `application/octet-stream` for
    /// `payload_base64`.
    content_type: Option<ContentType>,
    /// Kind of work, by which a worker selects the handler.
    kind: Option<Kind>,
    /// Priority of the tasks, from 0 (first) to 9 (last). Default: 5.
    #[serde(default)]
    priority: Priority,
    /// Maximum number of attempts of each task: 1 to 1,000. Default: 20.
    #[serde(default = "max_attempts")]
    #[schemars(range(min = 1, max = 1_000))]
    max_attempts: u32,
    /// Whether the schedule is paused. Default: unchanged.
    paused: Option<bool>,
}

fn max_attempts() -> u32 {
    NewTask::MAX_ATTEMPTS
}

pub(crate) async fn schedule(call: Call<ScheduleBody>) -> Answer<Scheduled> {
    let queue = call.queue()?;
    let ScheduleBody { cron, zone, every_ms, missed, payload, payload_base64, content_type, kind, .. } =
        call.body;
    let recurrence = Recurrence::try_from(RecurrenceSpec { cron, zone, every_ms, missed })?;
    let payload = PayloadSpec { payload, payload_base64, content_type, kind, traceparent: None };
    let mut new = queue.schedule(call.path.get("schedule"), Payload::try_from(payload)?, recurrence);
    new = new.priority(call.body.priority.get()).max_attempts(call.body.max_attempts);
    if let Some(paused) = call.body.paused {
        new = new.paused(paused);
    }
    match new.save().await? {
        added @ Scheduled::Added { .. } => {
            call.app.more_to_look_after.notify_one();
            Ok(Reply::created(added))
        }
        Scheduled::Full => {
            Err(Problem::new(Code::QueueFull, "the queue has the maximum number of schedules"))
        }
        Scheduled::Stale => Err(Problem::plain(Code::Stale)),
        saved @ (Scheduled::Changed { .. } | Scheduled::Unchanged { .. }) => Ok(Reply::ok(saved)),
        other => Err(Problem::unforeseen(other)),
    }
}

fn no_schedule() -> Problem {
    Problem::new(Code::NotFound, "no such schedule")
}

pub(crate) async fn schedules(call: Call<Nothing, PageQuery>) -> Answer<PageView<ScheduleReport>> {
    let queue = call.queue()?;
    let ask = async |page: Page| {
        let limit = page.limit;
        Ok(Part::by_id(queue.schedules(page).await?, limit))
    };
    PageView::read((&call.query).into(), None, ask, ScheduleReport::from).await
}

pub(crate) async fn find_schedule(call: Call) -> Answer<ScheduleReport> {
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

pub(crate) async fn run_schedule(call: Call) -> Answer<Enqueued> {
    let enqueued = call.queue()?.run_schedule(call.path.get("schedule")).await?;
    entered(enqueued.ok_or_else(no_schedule)?)
}
