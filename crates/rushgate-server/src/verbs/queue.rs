//! Queues over HTTP.

use std::time::Duration;

use crate::body::Body;
use hyper::http::Response;
use rushgate::lock::Lease;
use rushgate::queue::{
    Cancelled, Closed, Completed, Completion, ContentType, DeadLetter, DeadRequeued, Dequeued, Due,
    FinishedTask, Heartbeat, Listing, NewTask, Payload, QueueLimits, QueueName, Rescheduled, Retried, Retry,
    Selection, Task, TaskExtended, TaskInfo, TaskPage, TaskProgress, TaskRelease, TaskReleased, TaskState,
    Ticket, UniqueCleared, Waited, Waits, Why,
};
use rushgate::store::Page;
use rushgate::wire::{PayloadSpec, QueueReport, TaskSpec};
use rushgate::{Enqueued, Error, Queue, TaskId, Timestamp, trace};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::{Contains, EventsQuery, PageQuery, PageView, Part};
use crate::call::{Call, Nothing};
use crate::events;
use crate::history::{HistoryQuery, HistoryView};
use crate::openapi::{either, exactly_one};
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Reply, RollbackGuard};
use crate::scope::Kind;

/// A queue.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QueueView {
    /// Name of the queue.
    name: QueueName,
}

pub(crate) async fn list(call: Call<Nothing, PageQuery>) -> Answer<PageView<QueueView>> {
    let queues = call.app.client.queues((&call.query).into()).await?;
    let seen = |name: QueueName| call.caller.may(Kind::Queue, name.as_str()).then_some(QueueView { name });
    Ok(Reply::ok(PageView::of(queues, call.query.limit, QueueName::as_str, seen)))
}

pub(crate) async fn stats(call: Call) -> Answer<QueueReport> {
    let queue = call.queue()?;
    Ok(Reply::ok(QueueReport { queue: queue.name().clone(), stats: queue.stats().await? }))
}

/// The answer for one enqueued task. A full queue refuses it.
pub(super) fn entered(enqueued: Enqueued) -> Answer<Enqueued> {
    match enqueued {
        Enqueued::Full { bound } => Err(Problem::plain(Code::QueueFull).with("bound", bound)),
        Enqueued::Refused { task, why } => {
            let why = serde_json::to_value(why).unwrap_or_default();
            Err(Problem::plain(Code::Unmet).with("task", task.as_str()).with("why", why))
        }
        Enqueued::Added { .. } | Enqueued::Displaced { .. } => Ok(Reply::created(enqueued)),
        Enqueued::Kept { .. }
        | Enqueued::Replaced { .. }
        | Enqueued::Dropped { .. }
        | Enqueued::Recent { .. } => Ok(Reply::ok(enqueued)),
        other => Err(Problem::unforeseen(other)),
    }
}

/// The task to enqueue, with the trace context of the request unless the body has one.
pub(super) fn task_of(spec: TaskSpec) -> Result<NewTask, Error> {
    let mut task = NewTask::try_from(spec)?;
    task.payload = trace::carried(task.payload);
    Ok(task)
}

pub(crate) async fn enqueue(call: Call<TaskSpec>) -> Answer<Enqueued> {
    let queue = call.queue()?;
    entered(only(queue.enqueue_all(vec![task_of(call.body)?]).await?)?)
}

/// The only answer to a batch of one.
fn only<T>(answers: Vec<T>) -> Result<T, Problem> {
    let first = answers.into_iter().next();
    first.ok_or_else(|| Error::bug("the store returned no answer").into())
}

/// Tasks to enqueue in one atomic step.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    /// 1 to 1,000 tasks, in the order in which they are enqueued.
    #[schemars(length(min = 1, max = 1_000))]
    tasks: Vec<TaskSpec>,
}

/// One outcome per item of the request.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}OutcomesView")]
pub(crate) struct OutcomesView<T> {
    /// In the order of the request.
    outcomes: Vec<T>,
}

pub(crate) async fn enqueue_all(call: Call<BatchBody>) -> Answer<OutcomesView<Enqueued>> {
    let queue = call.queue()?;
    let tasks = call.body.tasks.into_iter().map(task_of).collect::<Result<_, _>>()?;
    Ok(Reply::ok(OutcomesView { outcomes: queue.enqueue_all(tasks).await? }))
}

/// Tasks.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TasksView {
    /// In the order in which workers receive them.
    tasks: Vec<Task>,
}

/// How many tasks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Many {
    /// Number of tasks: 1 to 1,000. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000))]
    n: u32,
}

fn one() -> u32 {
    1
}

pub(crate) async fn top(call: Call<Nothing, Many>) -> Answer<TasksView> {
    Ok(Reply::ok(TasksView { tasks: call.queue()?.top(call.query.n).await? }))
}

pub(crate) async fn pop(call: Call<Many>) -> Answer<TasksView> {
    Ok(Reply::ok(TasksView { tasks: call.queue()?.pop(call.body.n).await? }))
}

/// How to claim tasks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimBody {
    /// Maximum number of tasks: 1 to 1,000. Default: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000))]
    n: u32,
    /// Lease duration in milliseconds: 10 to 86,400,000. Default: 30,000. A task whose lease expires becomes
    /// available again.
    #[serde(default = "lease_ms")]
    #[schemars(range(min = 10, max = 86_400_000))]
    lease_ms: u64,
    /// Name of the worker, as shown to operators: at most 200 bytes without control characters. Default: the server's
    /// name.
    #[schemars(extend("pattern" = rushgate::wire::schema::LABEL))]
    worker: Option<String>,
}

fn lease_ms() -> u64 {
    30_000
}

pub(crate) async fn claim(call: Call<ClaimBody>) -> Answer<TasksView> {
    let mut queue = call.queue()?;
    if let Some(worker) = &call.body.worker {
        queue = queue.claiming_as(worker);
    }
    let lease = Duration::from_millis(call.body.lease_ms);
    let tasks = call.unless_closing(queue.claim_wait(call.body.n, lease, call.wait)).await?;
    let tickets = tasks.iter().map(|task| task.ticket.clone()).collect();
    Ok(Reply::ok(TasksView { tasks }).guarded_by(ClaimedTasks { queue, tickets }))
}

/// Claimed tasks whose tickets are on their way to the client. If the answer cannot be delivered they are released.
struct ClaimedTasks {
    queue: Queue,
    tickets: Vec<Ticket>,
}

impl RollbackGuard for ClaimedTasks {
    fn delivered(mut self: Box<Self>) {
        self.tickets.clear();
    }
}

impl Drop for ClaimedTasks {
    fn drop(&mut self) {
        let tickets = std::mem::take(&mut self.tickets);
        let (queue, Ok(runtime)) = (self.queue.clone(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        if tickets.is_empty() {
            return;
        }
        runtime.spawn(async move {
            let back = tickets.into_iter().map(TaskRelease::from).collect();
            if let Err(error) = queue.release(back).await {
                tracing::warn!(queue = %queue.name(), %error, "cannot release undelivered tasks; they return when \
                    their leases expire");
            }
        });
    }
}

/// Tasks that are done: one ticket or several. A stale ticket is a problem if it is the only one, and an outcome
/// otherwise.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = exactly_one("ticket", "tickets"))]
pub(crate) struct CompleteBody {
    /// One ticket.
    ticket: Option<Ticket>,
    /// Several tickets: 1 to 1,000.
    #[schemars(length(min = 1, max = 1_000))]
    tickets: Option<Vec<Ticket>>,
    /// Result of each task as JSON, or as a string if `result_type` is not JSON. At most 64 KiB, kept if the queue
    /// has a retention.
    #[schemars(with = "Option<serde_json::Value>")]
    result: Option<Box<RawValue>>,
    /// Result of each task in base64, instead of `result`.
    result_base64: Option<String>,
    /// Media type of the result.
    result_type: Option<ContentType>,
    /// Whether there was nothing to do. The tasks end as `discarded`.
    #[serde(default)]
    discarded: bool,
}

fn one_or_many(ticket: Option<Ticket>, tickets: Option<Vec<Ticket>>) -> Result<(Vec<Ticket>, bool), Problem> {
    match (ticket, tickets) {
        (Some(ticket), None) => Ok((vec![ticket], true)),
        (None, Some(tickets)) => Ok((tickets, false)),
        (Some(_), Some(_)) => Err(Error::either("ticket", "tickets").into()),
        (None, None) => Err(Problem::new(Code::Invalid, "set ticket or tickets").field("ticket")),
    }
}

/// The outcomes; a problem if the only one is a refusal.
fn judged<O: PartialEq>(outcomes: Vec<O>, alone: bool, stale: &O) -> Answer<OutcomesView<O>> {
    if alone && outcomes.first() == Some(stale) {
        return Err(Problem::plain(Code::Stale));
    }
    Ok(Reply::ok(OutcomesView { outcomes }))
}

pub(crate) async fn complete(call: Call<CompleteBody>) -> Answer<OutcomesView<Completed>> {
    let queue = call.queue()?;
    let CompleteBody { ticket, tickets, result, result_base64, result_type, discarded } = call.body;
    let (tickets, alone) = one_or_many(ticket, tickets)?;
    let has_result = result.is_some() || result_base64.is_some();
    if !has_result && result_type.is_some() {
        return Err(Problem::new(Code::Invalid, "result_type requires a result").field("result_type"));
    }
    let content = PayloadSpec {
        payload: result,
        payload_base64: result_base64,
        content_type: result_type,
        ..Default::default()
    };
    let result = has_result.then(|| Payload::try_from(content)).transpose();
    let result = result.map_err(|error| Problem::from(error).field("result"))?;
    let done = |ticket| Completion { ticket, result: result.clone(), discarded };
    judged(queue.complete(tickets.into_iter().map(done).collect()).await?, alone, &Completed::Stale)
}

/// Tasks that failed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = exactly_one("ticket", "tickets"))]
pub(crate) struct RetryBody {
    /// One ticket.
    ticket: Option<Ticket>,
    /// Several tickets: 1 to 1,000.
    #[schemars(length(min = 1, max = 1_000))]
    tickets: Option<Vec<Ticket>>,
    /// Delay before the next attempt, in milliseconds: at most 400 days. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 34_560_000_000_u64))]
    delay_ms: u64,
    /// Why the task failed, as shown to operators. Truncated to 2,000 bytes.
    #[serde(default)]
    error: String,
    /// Whether to give up now: the task becomes a dead letter even if attempts remain.
    #[serde(default)]
    give_up: bool,
}

pub(crate) async fn retry(call: Call<RetryBody>) -> Answer<OutcomesView<Retried>> {
    let queue = call.queue()?;
    let RetryBody { ticket, tickets, delay_ms, error, give_up } = call.body;
    let (tickets, alone) = one_or_many(ticket, tickets)?;
    let delay = Duration::from_millis(delay_ms);
    let failed = |ticket| Retry { ticket, delay, error: error.clone(), give_up };
    judged(queue.retry(tickets.into_iter().map(failed).collect()).await?, alone, &Retried::Stale)
}

/// Tasks to release.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = exactly_one("ticket", "tickets"))]
pub(crate) struct ReleaseTasksBody {
    /// One ticket.
    ticket: Option<Ticket>,
    /// Several tickets: 1 to 1,000.
    #[schemars(length(min = 1, max = 1_000))]
    tickets: Option<Vec<Ticket>>,
    /// Delay before the tasks are due again, in milliseconds: at most 400 days. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 34_560_000_000_u64))]
    delay_ms: u64,
}

pub(crate) async fn release_tasks(call: Call<ReleaseTasksBody>) -> Answer<OutcomesView<TaskReleased>> {
    let queue = call.queue()?;
    let ReleaseTasksBody { ticket, tickets, delay_ms } = call.body;
    let (tickets, alone) = one_or_many(ticket, tickets)?;
    let delay = Duration::from_millis(delay_ms);
    let back = tickets.into_iter().map(|ticket| TaskRelease { ticket, delay }).collect();
    judged(queue.release(back).await?, alone, &TaskReleased::Stale)
}

/// Tasks whose leases to extend.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = exactly_one("ticket", "tickets"))]
pub(crate) struct ExtendTasksBody {
    /// One ticket.
    ticket: Option<Ticket>,
    /// Several tickets: 1 to 1,000.
    #[schemars(length(min = 1, max = 1_000))]
    tickets: Option<Vec<Ticket>>,
    /// New lease duration from now, in milliseconds: 10 to 86,400,000. Default: 30,000.
    #[serde(default = "lease_ms")]
    #[schemars(range(min = 10, max = 86_400_000))]
    lease_ms: u64,
    /// Progress of each task, as shown to operators. The earlier progress stays if this is absent.
    progress: Option<TaskProgress>,
}

pub(crate) async fn extend(call: Call<ExtendTasksBody>) -> Answer<OutcomesView<TaskExtended>> {
    let queue = call.queue()?;
    let ExtendTasksBody { ticket, tickets, lease_ms, progress } = call.body;
    let (tickets, alone) = one_or_many(ticket, tickets)?;
    let lease = Lease::new(Duration::from_millis(lease_ms))?.get();
    let beat = |ticket| Heartbeat { ticket, progress: progress.clone() };
    let beats = tickets.into_iter().map(beat).collect();
    judged(queue.extend(beats, lease).await?, alone, &TaskExtended::Lost)
}

/// The task to remove.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DequeueBody {
    /// Ticket of the task as it was read.
    ticket: Ticket,
}

pub(crate) async fn dequeue(call: Call<DequeueBody>) -> Answer<Dequeued> {
    let queue = call.queue()?;
    match queue.dequeue(call.body.ticket).await? {
        Dequeued::Leased => Err(Problem::plain(Code::Leased)),
        Dequeued::Stale => Err(Problem::plain(Code::Stale)),
        removed @ Dequeued::Removed => Ok(Reply::ok(removed)),
        other => Err(Problem::unforeseen(other)),
    }
}

pub(crate) async fn cancel(call: Call) -> Answer<Cancelled> {
    match call.queue()?.cancel(call.path.get("task")).await? {
        Cancelled::NotFound => Err(no_task()),
        cancelled => Ok(Reply::ok(cancelled)),
    }
}

/// When a task is due. Without a field: now.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = {
    "required": ["delay_ms", "due_us"],
    "properties": { "delay_ms": { "type": "integer" }, "due_us": { "type": "integer" } },
}))]
pub(crate) struct RescheduleBody {
    /// Delay before the task is due, in milliseconds: at most 400 days.
    #[schemars(range(max = 34_560_000_000_u64))]
    delay_ms: Option<u64>,
    /// When the task is due, instead of `delay_ms`. A time in the past is due at once.
    #[serde(rename = "due_us")]
    due: Option<Timestamp>,
}

pub(crate) async fn reschedule(call: Call<RescheduleBody>) -> Answer<Rescheduled> {
    let due = match (call.body.delay_ms, call.body.due) {
        (Some(_), Some(_)) => return Err(Error::either("delay_ms", "due_us").into()),
        (Some(delay), None) => Due::After(Duration::from_millis(delay)),
        (None, at) => at.map_or(Due::Now, Due::At),
    };
    match call.queue()?.reschedule(call.path.get("task"), due).await? {
        Rescheduled::NotFound => Err(no_task()),
        Rescheduled::Leased => Err(Problem::plain(Code::Leased)),
        Rescheduled::TooLate { deadline } => {
            let detail = "the new due time is not before the deadline of the task";
            Err(Problem::new(Code::Invalid, detail).field("due_us").with("deadline_us", deadline.as_micros()))
        }
        done @ Rescheduled::Rescheduled { .. } => Ok(Reply::ok(done)),
        other => Err(Problem::unforeseen(other)),
    }
}

pub(crate) async fn clear_unique(call: Call) -> Answer<UniqueCleared> {
    match call.queue()?.clear_unique(call.path.get("task")).await? {
        UniqueCleared::NotFound => Err(Problem::new(Code::NotFound, "the ID has no uniqueness window")),
        cleared => Ok(Reply::ok(cleared)),
    }
}

pub(crate) async fn close_batch(call: Call) -> Answer<Closed> {
    match call.queue()?.close_batch(call.path.get("task")).await? {
        Closed::NotOpen => Err(Problem::plain(Code::NotOpen)),
        Closed::NotFound => Err(no_task()),
        closed @ Closed::Closed { .. } => Ok(Reply::ok(closed)),
        other => Err(Problem::unforeseen(other)),
    }
}

pub(crate) async fn waits(call: Call) -> Answer<Waits> {
    let waits = call.queue()?.waits(call.path.get("task")).await?;
    let none = || Problem::new(Code::NotFound, "no live task with this ID has or had dependencies");
    Ok(Reply::ok(waits.ok_or_else(none)?))
}

/// How many dependents to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DependentsQuery {
    /// Number of tasks: 1 to 1,000. Default: 100.
    #[serde(default = "waited_limit")]
    #[schemars(range(min = 1, max = 1_000))]
    n: u32,
}

/// Tasks that wait for a task.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DependentsView {
    /// Their IDs, by `if_dead`, then by arrival.
    ids: Vec<TaskId>,
}

pub(crate) async fn dependents(call: Call<Nothing, DependentsQuery>) -> Answer<DependentsView> {
    let ids = call.queue()?.dependents(call.path.get("task"), call.query.n).await?;
    Ok(Reply::ok(DependentsView { ids }))
}

/// Page of the tasks that a task waited for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitedQuery {
    /// Only IDs greater than this one: the `next` of the previous page.
    #[serde(default)]
    after: String,
    /// Page size: 1 to 100. Default: 100.
    #[serde(default = "waited_limit")]
    #[schemars(range(min = 1, max = 100))]
    limit: u32,
}

fn waited_limit() -> u32 {
    100
}

pub(crate) async fn waited(call: Call<Nothing, WaitedQuery>) -> Answer<PageView<Waited>> {
    let limit = call.query.limit;
    let page = call.queue()?.waited(call.path.get("task"), Page::after(call.query.after, limit)).await?;
    Ok(Reply::ok(PageView::of(page, limit, |one| one.id.as_str(), Some)))
}

fn no_task() -> Problem {
    Problem::new(Code::NotFound, "no live task with this ID; it may have finished without retention")
}

/// With `Prefer: wait`, waits until the task has finished, then shows how it ended.
pub(crate) async fn task(call: Call) -> Answer<TaskInfo> {
    let (queue, id) = (call.queue()?, TaskId::new(call.path.get("task"))?);
    if !call.wait.is_zero() {
        let over = call.unless_closing(queue.wait_for(&id, call.wait)).await;
        // The ID is valid, so the only thing that can be invalid is a queue without retention.
        let over = over.map_err(|problem| match problem.code() {
            Code::Invalid => problem.called(Code::NothingKept),
            _ => problem,
        })?;
        if let Some(over) = over {
            return ended(over);
        }
    }
    // A read may fall between two lives of the task; it is then live again.
    for _ in 0..LOOKS {
        if let Some(info) = queue.task(&id).await?.filter(|info| info.state != TaskState::Done) {
            return Ok(Reply::ok(info));
        }
        if let Some(over) = queue.how_it_ended(&id).await? {
            return ended(over);
        }
    }
    Err(no_task())
}

/// Number of reads for a task that keeps changing state.
const LOOKS: usize = 3;

fn ended(over: FinishedTask) -> Answer<TaskInfo> {
    match over {
        FinishedTask::Finished(info) => Ok(Reply::ok(*info)),
        FinishedTask::Dead(letter) => Err(given_up(*letter)),
        FinishedTask::Gone => Err(no_task()),
    }
}

fn given_up(letter: DeadLetter) -> Problem {
    let DeadLetter { attempts, error, died_at, .. } = letter;
    Problem::new(Code::Dead, format_args!("the task is dead after {attempts} attempts: {error}"))
        .with("error", error)
        .with("attempts", attempts)
        .with("died_us", died_at.as_micros())
}

/// Which tasks to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TasksQuery {
    /// Only tasks in this state.
    state: Option<TaskState>,
    /// Only tasks whose ID begins with this text: at most 200 bytes.
    #[serde(default)]
    #[schemars(length(max = 200))]
    prefix: String,
    /// Only tasks with this text, 1 to 200 bytes, in the ID, kind, key, worker, error or stored payload, in any case of ASCII letters.
    /// `limit` is then the number of tasks to search, and the page may be empty before the last one.
    contains: Option<Contains>,
    /// The `next` of the previous page, for the same `state`.
    #[serde(default)]
    after: String,
    /// Page size: 1 to 10,000. Default: 1,000. A page may be smaller; `next` says whether more tasks follow.
    #[serde(default = "super::page_limit")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: u32,
}

pub(crate) async fn tasks(call: Call<Nothing, TasksQuery>) -> Answer<PageView<TaskInfo>> {
    let queue = call.queue()?;
    let TasksQuery { state, prefix, contains, after, limit } = call.query;
    let ask = async |page| {
        let TaskPage { tasks: entries, next } =
            queue.tasks(Listing { state, prefix: prefix.clone(), page }).await?;
        Ok(Part { entries, next })
    };
    PageView::read(Page::after(after, limit), contains, ask, |info| info).await
}

/// Why a task is not running.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WhyView {
    /// ID of the task.
    id: TaskId,
    /// At least one reason. The one that must be resolved first comes first.
    reasons: Vec<Why>,
}

pub(crate) async fn why(call: Call) -> Answer<WhyView> {
    let id = TaskId::new(call.path.get("task"))?;
    let reasons = call.queue()?.why(&id).await?;
    Ok(Reply::ok(WhyView { id, reasons }))
}

/// Whether workers get tasks from a queue.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PausedView {
    /// True if the queue is paused.
    paused: bool,
}

impl PausedView {
    pub(super) fn answer(paused: bool) -> Answer<Self> {
        Ok(Reply::ok(Self { paused }))
    }
}

pub(crate) async fn pause(call: Call) -> Answer<PausedView> {
    call.queue()?.pause().await?;
    PausedView::answer(true)
}

pub(crate) async fn resume(call: Call) -> Answer<PausedView> {
    call.queue()?.resume().await?;
    PausedView::answer(false)
}

pub(crate) async fn limit(call: Call<QueueLimits>) -> Answer<QueueLimits> {
    call.queue()?.limit(call.body).await?;
    Ok(Reply::ok(call.body))
}

pub(crate) async fn history(call: Call<Nothing, HistoryQuery>) -> Answer<HistoryView> {
    let queue = call.queue()?;
    let query = call.query.checked()?;
    Ok(Reply::ok(call.app.live.history.of(Kind::Queue, queue.name().as_str(), query)))
}

/// Streams the events of a queue.
pub(crate) async fn events(call: Call<Nothing, EventsQuery>) -> Result<Response<Body>, Problem> {
    let after = call.seen.or(call.query.after);
    Ok(events::of_queue(&call.queue()?, after, call.app.closing.clone()))
}

/// Which dead letters to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeadQuery {
    /// Only dead letters with this text, 1 to 200 bytes, in the ID, kind, key, error or stored payload, in any case of ASCII letters.
    /// `limit` is then the number of dead letters to search, and the page may be empty before the last one.
    contains: Option<Contains>,
    /// Only IDs greater than this one: the `next` of the previous page.
    #[serde(default)]
    after: String,
    /// Page size: 1 to 10,000. Default: 1,000.
    #[serde(default = "super::page_limit")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: u32,
}

pub(crate) async fn dead(call: Call<Nothing, DeadQuery>) -> Answer<PageView<DeadLetter>> {
    let queue = call.queue()?;
    let DeadQuery { contains, after, limit } = call.query;
    let ask = async |page: Page| {
        let limit = page.limit;
        Ok(Part::by_id(queue.dead(page).await?, limit))
    };
    PageView::read(Page::after(after, limit), contains, ask, |letter| letter).await
}

/// Selects dead letters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = ids_or_all)]
pub(crate) struct SelectionBody {
    /// IDs of dead letters: 1 to 1,000.
    #[schemars(length(min = 1, max = 1_000))]
    ids: Option<Vec<TaskId>>,
    /// Whether to take all dead letters, instead of `ids`.
    #[serde(default)]
    all: bool,
}

fn ids_or_all(schema: &mut Schema) {
    let (ids, all) = (json!({ "not": { "type": "null" } }), json!({ "const": true }));
    either(schema, [("ids", &ids), ("all", &all)], &json!({ "const": false }));
}

impl TryFrom<SelectionBody> for Selection {
    type Error = Problem;
    fn try_from(body: SelectionBody) -> Result<Self, Problem> {
        match (body.ids, body.all) {
            (Some(ids), false) => Ok(Self::Ids(ids)),
            (None, true) => Ok(Self::All),
            (Some(_), true) => Err(Error::either("ids", "all").into()),
            (None, false) => Err(Problem::new(Code::Invalid, "set ids, or all: true").field("ids")),
        }
    }
}

pub(crate) async fn requeue_dead(call: Call<SelectionBody>) -> Answer<DeadRequeued> {
    let queue = call.queue()?;
    Ok(Reply::ok(queue.requeue_dead(call.body.try_into()?).await?))
}

/// Number of deleted dead letters.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeletedView {
    /// The number.
    deleted: u64,
}

impl From<u64> for DeletedView {
    fn from(deleted: u64) -> Self {
        Self { deleted }
    }
}

pub(crate) async fn delete_dead(call: Call<SelectionBody>) -> Answer<DeletedView> {
    let queue = call.queue()?;
    Ok(Reply::ok(queue.delete_dead(call.body.try_into()?).await?.into()))
}
