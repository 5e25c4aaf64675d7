//! Queues over HTTP.

use std::time::Duration;

use crate::body::Body;
use hyper::http::Response;
use rushgate::{
    Cancelled, Closed, Completed, Completion, ContentType, DeadLetter, Dequeued, Due, Enqueued, Finish,
    Finished, GiveBack, GivenBack, Heartbeat, IfDead, KeyLimits, Kind, Lease, Lifted, Listing, NewTask,
    OnDuplicate, Over, Overflow, Page, PastEnd, PastRun, Payload, Priority, Queue, QueueLimits, QueueStats,
    Rate, Retention, Retried, Retry, Revived, Selection, Task, TaskEnd, TaskExtended, TaskId, TaskInfo,
    TaskKey, TaskProgress, TaskState, Ticket, Timestamp, Unmet, Waited, Waits, WaitsFor, Why, trace,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::content::{Content, ContentView};
use super::sale::EventsQuery;
use super::{PageQuery, PageView};
use crate::access;
use crate::call::{Call, Nothing};
use crate::events;
use crate::openapi::{KindText, LABEL, NameText, TicketText};
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Owed, Reply};

/// A queue.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QueueView {
    /// Name of the queue.
    name: String,
}

/// The queues that the caller may see.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QueuesView {
    /// The queues, sorted by name.
    items: Vec<QueueView>,
}

pub(crate) async fn list(call: Call) -> Answer<QueuesView> {
    let queues = call.shop.gate.queues().await?.into_iter();
    let seen = queues.filter(|queue| call.caller.may(access::Kind::Queue, queue.as_str()));
    Ok(Reply::ok(QueuesView { items: seen.map(|queue| QueueView { name: queue.to_string() }).collect() }))
}

/// Counts and limits of a queue.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StatsView {
    /// Tasks that are due and not claimed.
    ready: u64,
    /// Tasks that are not due yet.
    scheduled: u64,
    /// Tasks that a worker has claimed and whose lease has not expired.
    leased: u64,
    /// Tasks behind others of their key, or waiting for other tasks.
    blocked: u64,
    /// Dead letters.
    dead: u64,
    /// Finished tasks that the queue's retention keeps.
    done: u64,
    /// Tasks dropped by the overflow policy since the queue was created.
    dropped: u64,
    /// How long the oldest ready task has been ready, in milliseconds.
    lag_ms: u64,
    /// Whether the queue is paused: workers get no tasks.
    paused: bool,
    /// When the rate limit allows the next task, in microseconds since the Unix epoch. Absent if it allows one now.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_until_us: Option<u64>,
    /// When a task was last claimed, in microseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_claim_us: Option<u64>,
    /// The queue's limits and retention.
    limits: LimitsBody,
}

impl From<QueueStats> for StatsView {
    fn from(of: QueueStats) -> Self {
        let QueueStats { ready, scheduled, leased, blocked, dead, done, dropped, lag_ms, paused, .. } = of;
        Self {
            ready,
            scheduled,
            leased,
            blocked,
            dead,
            done,
            dropped,
            lag_ms,
            paused,
            rate_until_us: of.rate_until.map(Timestamp::as_micros),
            last_claim_us: of.last_claim.map(Timestamp::as_micros),
            limits: of.limits.into(),
        }
    }
}

pub(crate) async fn stats(call: Call) -> Answer<StatsView> {
    Ok(Reply::ok(call.queue()?.stats().await?.into()))
}

/// What happens when a live task with the same ID exists.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnDuplicateWord {
    /// The existing task stays unchanged.
    #[default]
    Keep,
    /// The new task replaces the existing one. If that one is running, the new one runs after it.
    Replace,
    /// The existing task stays and is due at the earlier of the two times.
    Earliest,
    /// Like `replace`, but due no later than `max_wait_ms` after the first task of the burst.
    Debounce,
}

/// A task to enqueue.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = { "anyOf": [
    {
        "required": ["delay_ms", "due_ms"],
        "properties": { "delay_ms": { "type": "integer" }, "due_ms": { "type": "integer" } },
    },
    {
        "required": ["deadline_after_ms", "deadline_ms"],
        "properties": { "deadline_after_ms": { "type": "integer" }, "deadline_ms": { "type": "integer" } },
    },
] }))]
pub(crate) struct TaskBody {
    /// ID of the task. A queue holds at most one live task per ID.
    #[schemars(with = "NameText")]
    id: TaskId,
    /// Payload as JSON, or as a string if `content_type` is not JSON. At most 1 MiB.
    #[schemars(with = "Option<serde_json::Value>")]
    payload: Option<Box<RawValue>>,
    /// Payload in base64, instead of `payload`.
    payload_base64: Option<String>,
    /// Media type of the payload. Default: `application/json` for `payload`, `application/octet-stream` for
    /// `payload_base64`.
    #[schemars(with = "Option<NameText>")]
    content_type: Option<ContentType>,
    /// Kind of work, by which a worker selects the handler.
    #[schemars(with = "Option<KindText>")]
    kind: Option<Kind>,
    /// Delay before the task is due, in milliseconds: at most 400 days.
    #[schemars(range(max = 34_560_000_000_u64))]
    delay_ms: Option<u64>,
    /// When the task is due, in milliseconds since the Unix epoch, instead of `delay_ms`.
    due_ms: Option<u64>,
    /// Deadline, in milliseconds from now: at most 400 days, and later than the due time. A task not started by then
    /// becomes a dead letter.
    #[schemars(range(min = 1, max = 34_560_000_000_u64))]
    deadline_after_ms: Option<u64>,
    /// Deadline, in milliseconds since the Unix epoch, instead of `deadline_after_ms`.
    deadline_ms: Option<u64>,
    /// Priority, from 0 (first) to 9 (last). Default: 5.
    #[serde(default)]
    #[schemars(with = "u8", range(max = 9))]
    priority: Priority,
    /// What happens when a live task with the same ID exists. Default: `keep`.
    #[serde(default)]
    on_duplicate: OnDuplicateWord,
    /// With `debounce`: the longest time that a burst may postpone the run, in milliseconds.
    max_wait_ms: Option<u64>,
    /// Maximum number of attempts, 1 to 1,000, before the task becomes a dead letter. Default: 20.
    #[serde(default = "max_attempts")]
    #[schemars(range(min = 1, max = 1_000))]
    max_attempts: u32,
    /// How long the ID stays unique, in milliseconds from now, even after the task is done: at most 400 days.
    #[schemars(range(min = 1, max = 34_560_000_000_u64))]
    unique_for_ms: Option<u64>,
    /// Key that tasks share, such as a tenant. Tasks of a key run in order; keys take turns.
    #[schemars(with = "Option<NameText>")]
    key: Option<TaskKey>,
    /// IDs of tasks in this queue that must finish first: at most 1,000.
    #[serde(default)]
    #[schemars(with = "Vec<NameText>", length(max = 1_000))]
    after: Vec<TaskId>,
    /// What happens when a task in `after` becomes a dead letter. Default: `wait`.
    #[serde(default)]
    if_dead: IfDeadWord,
    /// Whether the task is the callback of an open batch: it takes members and waits until the batch is closed.
    #[serde(default)]
    held_open: bool,
    /// ID of the open batch callback that this task is a member of.
    #[schemars(with = "Option<NameText>")]
    part_of: Option<TaskId>,
}

/// What happens to a task when one that it waits for becomes a dead letter.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IfDeadWord {
    /// The task keeps waiting. It becomes a dead letter itself if the other can never finish.
    #[default]
    Wait,
    /// The task becomes a dead letter too.
    Fail,
    /// The task runs anyway.
    Run,
}

impl From<IfDeadWord> for IfDead {
    fn from(word: IfDeadWord) -> Self {
        match word {
            IfDeadWord::Wait => Self::Wait,
            IfDeadWord::Fail => Self::Fail,
            IfDeadWord::Run => Self::Run,
        }
    }
}

impl From<IfDead> for IfDeadWord {
    fn from(of: IfDead) -> Self {
        match of {
            IfDead::Wait => Self::Wait,
            IfDead::Fail => Self::Fail,
            IfDead::Run => Self::Run,
        }
    }
}

pub(super) fn max_attempts() -> u32 {
    NewTask::MAX_ATTEMPTS
}

impl TryFrom<TaskBody> for NewTask {
    type Error = Problem;
    fn try_from(body: TaskBody) -> Result<Self, Problem> {
        let TaskBody { id, payload, payload_base64, content_type, kind, priority, max_attempts, key, .. } =
            body;
        let due = match (body.delay_ms, body.due_ms) {
            (Some(_), Some(_)) => return Err(either("delay_ms", "due_ms")),
            (Some(delay), None) => Due::After(Duration::from_millis(delay)),
            (None, Some(at)) => Due::At(Timestamp::from_micros(at.saturating_mul(1_000))),
            (None, None) => Due::Now,
        };
        let deadline = match (body.deadline_after_ms, body.deadline_ms) {
            (Some(_), Some(_)) => return Err(either("deadline_after_ms", "deadline_ms")),
            (Some(time), None) => Some(Due::After(Duration::from_millis(time))),
            (None, at) => at.map(|at| Due::At(Timestamp::from_micros(at.saturating_mul(1_000)))),
        };
        let unique_for = body.unique_for_ms.map(Duration::from_millis);
        let on_duplicate = match (body.on_duplicate, body.max_wait_ms) {
            (OnDuplicateWord::Debounce, Some(wait)) => {
                OnDuplicate::Debounce { max_wait: Duration::from_millis(wait) }
            }
            (OnDuplicateWord::Debounce, None) => {
                return Err(Problem::new(Code::Invalid, "debounce requires max_wait_ms").field("max_wait_ms"));
            }
            (_, Some(_)) => {
                return Err(
                    Problem::new(Code::Invalid, "max_wait_ms applies to debounce only").field("max_wait_ms")
                );
            }
            (OnDuplicateWord::Keep, None) => OnDuplicate::Keep,
            (OnDuplicateWord::Replace, None) => OnDuplicate::Replace,
            (OnDuplicateWord::Earliest, None) => OnDuplicate::Earliest,
        };
        let payload: Payload = Content { payload, payload_base64, content_type, kind }.try_into()?;
        let payload = trace::carried(payload);
        Ok(Self {
            due,
            priority,
            on_duplicate,
            max_attempts,
            key,
            deadline,
            unique_for,
            after: body.after,
            if_dead: body.if_dead.into(),
            held_open: body.held_open,
            part_of: body.part_of,
            ..Self::new(id, payload)
        })
    }
}

fn either(one: &str, other: &str) -> Problem {
    Problem::new(Code::Invalid, format_args!("set {one} or {other}, not both")).field(one)
}

/// Outcome of enqueueing one task.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub(crate) enum EnqueuedView {
    /// A new task was added.
    Added {
        /// Revision of the task.
        revision: u64,
    },
    /// A live task with this ID exists and is unchanged.
    Kept {
        /// Revision of the task.
        revision: u64,
    },
    /// The existing task was changed, or will run again after its current run.
    Replaced {
        /// The new revision.
        revision: u64,
    },
    /// A new task was added, and the oldest waiting task was dropped: the queue is at capacity.
    Displaced {
        /// Revision of the task.
        revision: u64,
        /// ID of the dropped task.
        dropped: String,
    },
    /// The queue is at capacity and drops new tasks. The task was not enqueued.
    Dropped {
        /// The capacity.
        bound: u64,
    },
    /// The queue is at capacity. The task was not enqueued.
    Full {
        /// The capacity.
        bound: u64,
    },
    /// The ID is still unique from an earlier task. The task was not enqueued.
    Recent {
        /// When the uniqueness ends, in microseconds since the Unix epoch.
        until_us: u64,
    },
    /// The task cannot wait for another task, or be a member of a batch. It was not enqueued.
    Refused {
        /// ID of the other task.
        task: String,
        /// The reason.
        why: UnmetWord,
    },
}

/// Why a task cannot wait for another task, or be a member of a batch.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UnmetWord {
    /// No task with the given ID is live, dead or retained.
    Unknown,
    /// The batch is not open.
    NotOpen,
    /// A live task with the same ID exists.
    Taken,
}

/// Word for an [unmet](Code::Unmet) dependency, as in [`UnmetWord`].
const fn unmet_word(of: Unmet) -> &'static str {
    match of {
        Unmet::Unknown => "unknown",
        Unmet::NotOpen => "not_open",
        Unmet::Taken => "taken",
    }
}

impl From<Unmet> for UnmetWord {
    fn from(of: Unmet) -> Self {
        match of {
            Unmet::Unknown => Self::Unknown,
            Unmet::NotOpen => Self::NotOpen,
            Unmet::Taken => Self::Taken,
        }
    }
}

impl From<Enqueued> for EnqueuedView {
    fn from(of: Enqueued) -> Self {
        match of {
            Enqueued::Added { revision } => Self::Added { revision: revision.as_u64() },
            Enqueued::Kept { revision } => Self::Kept { revision: revision.as_u64() },
            Enqueued::Replaced { revision } => Self::Replaced { revision: revision.as_u64() },
            Enqueued::Displaced { revision, dropped } => {
                Self::Displaced { revision: revision.as_u64(), dropped: dropped.to_string() }
            }
            Enqueued::Dropped { bound } => Self::Dropped { bound },
            Enqueued::Full { bound } => Self::Full { bound },
            Enqueued::Recent { until } => Self::Recent { until_us: until.as_micros() },
            Enqueued::Refused { task, why } => Self::Refused { task: task.to_string(), why: why.into() },
        }
    }
}

/// The answer for one enqueued task. A full queue refuses it.
pub(super) fn entered(enqueued: Enqueued) -> Answer<EnqueuedView> {
    match enqueued {
        Enqueued::Full { bound } => Err(Problem::plain(Code::QueueFull).with("bound", bound)),
        Enqueued::Refused { task, why } => {
            Err(Problem::plain(Code::Unmet).with("task", task.to_string()).with("why", unmet_word(why)))
        }
        Enqueued::Added { .. } | Enqueued::Displaced { .. } => Ok(Reply::created(enqueued.into())),
        Enqueued::Kept { .. }
        | Enqueued::Replaced { .. }
        | Enqueued::Dropped { .. }
        | Enqueued::Recent { .. } => Ok(Reply::ok(enqueued.into())),
    }
}

pub(crate) async fn enqueue(call: Call<TaskBody>) -> Answer<EnqueuedView> {
    let queue = call.queue()?;
    let task = call.body.try_into()?;
    entered(only(queue.enqueue_all(vec![task]).await?)?)
}

/// The only answer to a batch of one.
fn only<T>(answers: Vec<T>) -> Result<T, Problem> {
    let first = answers.into_iter().next();
    first.ok_or_else(|| rushgate::Error::bug("the store returned no answer").into())
}

/// Tasks to enqueue in one atomic step.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    /// 1 to 1,000 tasks, in the order in which they are enqueued.
    #[schemars(length(min = 1, max = 1_000))]
    tasks: Vec<TaskBody>,
}

/// One outcome per item of the request.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Outcomes<T> {
    /// In the order of the request.
    outcomes: Vec<T>,
}

pub(crate) async fn enqueue_all(call: Call<BatchBody>) -> Answer<Outcomes<EnqueuedView>> {
    let queue = call.queue()?;
    let tasks = call.body.tasks.into_iter().map(NewTask::try_from).collect::<Result<_, _>>()?;
    let outcomes = queue.enqueue_all(tasks).await?.into_iter().map(EnqueuedView::from).collect();
    Ok(Reply::ok(Outcomes { outcomes }))
}

/// A task that was read or claimed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskView {
    /// ID of the task.
    id: String,
    /// Ticket of the task, for this revision and this claim. Pass it to `complete`, `retry`, `release` and `extend`.
    ticket: String,
    #[serde(flatten)]
    content: ContentView,
    /// When it was due, in microseconds since the Unix epoch.
    due_us: u64,
    /// Fencing token of the claim. Absent if the task was only read.
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    /// Revision of the payload.
    revision: u64,
    /// Number of claims so far, including this one.
    attempt: u32,
    /// Maximum number of attempts.
    max_attempts: u32,
    /// Priority, from 0 (first) to 9 (last).
    priority: u8,
    /// Key that tasks share, such as a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Deadline, in microseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_us: Option<u64>,
}

impl From<&Task> for TaskView {
    fn from(of: &Task) -> Self {
        Self {
            id: of.ticket.id.to_string(),
            ticket: of.ticket.to_string(),
            content: (&of.payload).into(),
            due_us: of.ticket.due.as_micros(),
            fence: of.ticket.claim.map(rushgate::Fence::as_u64),
            revision: of.ticket.revision.as_u64(),
            attempt: of.attempt,
            max_attempts: of.max_attempts,
            priority: of.priority.get(),
            key: of.key.as_ref().map(ToString::to_string),
            deadline_us: of.deadline.map(Timestamp::as_micros),
        }
    }
}

/// Tasks.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TasksView {
    /// In the order in which workers receive them.
    tasks: Vec<TaskView>,
}

impl From<&[Task]> for TasksView {
    fn from(of: &[Task]) -> Self {
        Self { tasks: of.iter().map(TaskView::from).collect() }
    }
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
    Ok(Reply::ok(call.queue()?.top(call.query.n).await?.as_slice().into()))
}

pub(crate) async fn pop(call: Call<Many>) -> Answer<TasksView> {
    Ok(Reply::ok(call.queue()?.pop(call.body.n).await?.as_slice().into()))
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
    #[schemars(extend("pattern" = LABEL))]
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
    let view = TasksView::from(tasks.as_slice());
    let tickets = tasks.into_iter().map(|task| task.ticket).collect();
    Ok(Reply::ok(view).owing(ClaimedTasks { queue, tickets }))
}

/// Claimed tasks whose tickets are on their way to the client. If the answer cannot be delivered they are released.
struct ClaimedTasks {
    queue: Queue,
    tickets: Vec<Ticket>,
}

impl Owed for ClaimedTasks {
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
            let back = tickets.into_iter().map(GiveBack::from).collect();
            if let Err(error) = queue.give_back(back).await {
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
#[schemars(extend("oneOf" = [{ "required": ["ticket"] }, { "required": ["tickets"] }]))]
pub(crate) struct CompleteBody {
    /// One ticket.
    #[schemars(with = "Option<TicketText>")]
    ticket: Option<Ticket>,
    /// Several tickets: 1 to 1,000.
    #[schemars(with = "Option<Vec<TicketText>>", length(min = 1, max = 1_000))]
    tickets: Option<Vec<Ticket>>,
    /// Result of each task as JSON, or as a string if `result_type` is not JSON. At most 64 KiB, kept if the queue
    /// has a retention.
    #[schemars(with = "Option<serde_json::Value>")]
    result: Option<Box<RawValue>>,
    /// Result of each task in base64, instead of `result`.
    result_base64: Option<String>,
    /// Media type of the result.
    #[schemars(with = "Option<NameText>")]
    result_type: Option<ContentType>,
    /// Whether there was nothing to do. The tasks end as `discarded`.
    #[serde(default)]
    discarded: bool,
}

fn one_or_many(ticket: Option<Ticket>, tickets: Option<Vec<Ticket>>) -> Result<(Vec<Ticket>, bool), Problem> {
    match (ticket, tickets) {
        (Some(ticket), None) => Ok((vec![ticket], true)),
        (None, Some(tickets)) => Ok((tickets, false)),
        (Some(_), Some(_)) => Err(either("ticket", "tickets")),
        (None, None) => Err(Problem::new(Code::Invalid, "set ticket or tickets").field("ticket")),
    }
}

/// The outcomes; a problem if the only one is a refusal.
fn judged<O: PartialEq, V: From<O>>(outcomes: Vec<O>, alone: bool, stale: &O) -> Answer<Outcomes<V>> {
    if alone && outcomes.first() == Some(stale) {
        return Err(Problem::plain(Code::Stale));
    }
    Ok(Reply::ok(Outcomes { outcomes: outcomes.into_iter().map(V::from).collect() }))
}

/// Outcome of completing a task.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CompletedView {
    /// The task is finished.
    Done,
    /// The task was replaced while it ran. The pending replacement is waiting.
    Requeued,
    /// The ticket is stale: the claim is over. Nothing was changed.
    Stale,
}

impl From<Completed> for CompletedView {
    fn from(of: Completed) -> Self {
        match of {
            Completed::Done => Self::Done,
            Completed::Requeued => Self::Requeued,
            Completed::Stale => Self::Stale,
        }
    }
}

pub(crate) async fn complete(call: Call<CompleteBody>) -> Answer<Outcomes<CompletedView>> {
    let queue = call.queue()?;
    let CompleteBody { ticket, tickets, result, result_base64, result_type, discarded } = call.body;
    let (tickets, alone) = one_or_many(ticket, tickets)?;
    let has_result = result.is_some() || result_base64.is_some();
    if !has_result && result_type.is_some() {
        return Err(Problem::new(Code::Invalid, "result_type requires a result").field("result_type"));
    }
    let content =
        Content { payload: result, payload_base64: result_base64, content_type: result_type, kind: None };
    let result = has_result.then(|| Payload::try_from(content)).transpose();
    let result = result.map_err(|problem| problem.field("result"))?;
    let done = |ticket| Completion { ticket, result: result.clone(), discarded };
    judged(queue.complete(tickets.into_iter().map(done).collect()).await?, alone, &Completed::Stale)
}

/// Tasks that failed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["ticket"] }, { "required": ["tickets"] }]))]
pub(crate) struct RetryBody {
    /// One ticket.
    #[schemars(with = "Option<TicketText>")]
    ticket: Option<Ticket>,
    /// Several tickets: 1 to 1,000.
    #[schemars(with = "Option<Vec<TicketText>>", length(min = 1, max = 1_000))]
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

/// Outcome of retrying a task.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub(crate) enum RetriedView {
    /// The task waits for its next attempt.
    Scheduled {
        /// When the next attempt is due, in microseconds since the Unix epoch.
        due_us: u64,
    },
    /// No attempts remain: the task is a dead letter.
    Dead,
    /// The task was replaced while it ran. The pending replacement is waiting.
    Requeued,
    /// The task was canceled while it ran and is gone.
    Cancelled,
    /// The ticket is stale: the claim is over. Nothing was changed.
    Stale,
}

impl From<Retried> for RetriedView {
    fn from(of: Retried) -> Self {
        match of {
            Retried::Scheduled { due } => Self::Scheduled { due_us: due.as_micros() },
            Retried::Dead => Self::Dead,
            Retried::Requeued => Self::Requeued,
            Retried::Cancelled => Self::Cancelled,
            Retried::Stale => Self::Stale,
        }
    }
}

pub(crate) async fn retry(call: Call<RetryBody>) -> Answer<Outcomes<RetriedView>> {
    let queue = call.queue()?;
    let RetryBody { ticket, tickets, delay_ms, error, give_up } = call.body;
    let (tickets, alone) = one_or_many(ticket, tickets)?;
    let delay = Duration::from_millis(delay_ms);
    let failed = |ticket| Retry { ticket, delay, error: error.clone(), give_up };
    judged(queue.retry(tickets.into_iter().map(failed).collect()).await?, alone, &Retried::Stale)
}

/// Outcome of releasing a task.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GivenBackView {
    /// The task is ready again.
    Waiting,
    /// The task was canceled while it ran and is gone.
    Cancelled,
    /// The ticket is stale: the claim is over. Nothing was changed.
    Stale,
}

impl From<GivenBack> for GivenBackView {
    fn from(of: GivenBack) -> Self {
        match of {
            GivenBack::Waiting => Self::Waiting,
            GivenBack::Cancelled => Self::Cancelled,
            GivenBack::Stale => Self::Stale,
        }
    }
}

/// Tasks to release.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["ticket"] }, { "required": ["tickets"] }]))]
pub(crate) struct GiveBackBody {
    /// One ticket.
    #[schemars(with = "Option<TicketText>")]
    ticket: Option<Ticket>,
    /// Several tickets: 1 to 1,000.
    #[schemars(with = "Option<Vec<TicketText>>", length(min = 1, max = 1_000))]
    tickets: Option<Vec<Ticket>>,
    /// Delay before the tasks are due again, in milliseconds: at most 400 days. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 34_560_000_000_u64))]
    delay_ms: u64,
}

pub(crate) async fn give_back(call: Call<GiveBackBody>) -> Answer<Outcomes<GivenBackView>> {
    let queue = call.queue()?;
    let GiveBackBody { ticket, tickets, delay_ms } = call.body;
    let (tickets, alone) = one_or_many(ticket, tickets)?;
    let delay = Duration::from_millis(delay_ms);
    let back = tickets.into_iter().map(|ticket| GiveBack { ticket, delay }).collect();
    judged(queue.give_back(back).await?, alone, &GivenBack::Stale)
}

/// Tasks whose leases to extend.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["ticket"] }, { "required": ["tickets"] }]))]
pub(crate) struct ExtendBody {
    /// One ticket.
    #[schemars(with = "Option<TicketText>")]
    ticket: Option<Ticket>,
    /// Several tickets: 1 to 1,000.
    #[schemars(with = "Option<Vec<TicketText>>", length(min = 1, max = 1_000))]
    tickets: Option<Vec<Ticket>>,
    /// New lease duration from now, in milliseconds: 10 to 86,400,000. Default: 30,000.
    #[serde(default = "lease_ms")]
    #[schemars(range(min = 10, max = 86_400_000))]
    lease_ms: u64,
    /// Progress of each task, as shown to operators. The earlier progress stays if this is absent.
    progress: Option<ProgressBody>,
}

/// Progress of a task, as its worker reports it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgressBody {
    /// Percentage done: 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    percent: Option<u8>,
    /// Current step, as text: at most 200 bytes without control characters.
    #[serde(default)]
    #[schemars(extend("pattern" = LABEL))]
    note: String,
}

/// Outcome of extending a lease.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExtendedView {
    /// The lease was extended.
    Extended,
    /// The lease was extended, and a client asked to cancel the task: stop, and complete it.
    Cancelled,
    /// The ticket is stale: stop, and write nothing more.
    Lost,
}

impl From<TaskExtended> for ExtendedView {
    fn from(of: TaskExtended) -> Self {
        match of {
            TaskExtended::Extended => Self::Extended,
            TaskExtended::Cancelled => Self::Cancelled,
            TaskExtended::Lost => Self::Lost,
        }
    }
}

pub(crate) async fn extend(call: Call<ExtendBody>) -> Answer<Outcomes<ExtendedView>> {
    let queue = call.queue()?;
    let ExtendBody { ticket, tickets, lease_ms, progress } = call.body;
    let (tickets, alone) = one_or_many(ticket, tickets)?;
    let lease = Lease::new(Duration::from_millis(lease_ms))?.get();
    let progress = progress.map(|ProgressBody { percent, note }| TaskProgress { percent, note });
    let beat = |ticket| Heartbeat { ticket, progress: progress.clone() };
    let beats = tickets.into_iter().map(beat).collect();
    judged(queue.extend(beats, lease).await?, alone, &TaskExtended::Lost)
}

/// The task to remove.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DequeueBody {
    /// Ticket of the task as it was read.
    #[schemars(with = "TicketText")]
    ticket: Ticket,
}

/// Outcome of removing a task.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub(crate) enum RemovedView {
    /// The task is gone.
    Removed,
    /// A worker is running the task and will be notified.
    Marked,
}

pub(crate) async fn dequeue(call: Call<DequeueBody>) -> Answer<RemovedView> {
    let queue = call.queue()?;
    match queue.dequeue(call.body.ticket).await? {
        Dequeued::Removed => Ok(Reply::ok(RemovedView::Removed)),
        Dequeued::Leased => Err(Problem::plain(Code::Leased)),
        Dequeued::Stale => Err(Problem::plain(Code::Stale)),
    }
}

pub(crate) async fn cancel(call: Call) -> Answer<RemovedView> {
    match call.queue()?.cancel(call.path.get("task")).await? {
        Cancelled::Removed => Ok(Reply::ok(RemovedView::Removed)),
        Cancelled::Marked => Ok(Reply::ok(RemovedView::Marked)),
        Cancelled::NotFound => Err(no_task()),
    }
}

/// An ID whose uniqueness window was cleared.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LiftedView {
    /// When the uniqueness would have ended, in microseconds since the Unix epoch.
    until_us: u64,
}

pub(crate) async fn lift(call: Call) -> Answer<LiftedView> {
    match call.queue()?.lift(call.path.get("task")).await? {
        Lifted::Lifted { until } => Ok(Reply::ok(LiftedView { until_us: until.as_micros() })),
        Lifted::NotFound => Err(Problem::new(Code::NotFound, "the ID has no uniqueness window")),
    }
}

/// A closed batch: it takes no more members.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClosedView {
    /// Number of tasks that it still waits for.
    left: u64,
}

pub(crate) async fn close_batch(call: Call) -> Answer<ClosedView> {
    match call.queue()?.close_batch(call.path.get("task")).await? {
        Closed::Closed { left } => Ok(Reply::ok(ClosedView { left })),
        Closed::NotOpen => Err(Problem::plain(Code::NotOpen)),
        Closed::NotFound => Err(no_task()),
    }
}

/// What a task waits for, and the progress of those tasks.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitsView {
    /// Whether the task is the callback of an open batch. It does not run before the batch is closed.
    open: bool,
    /// What happens when a task that it waits for becomes a dead letter.
    if_dead: IfDeadWord,
    /// Number of tasks that it still waits for.
    left: u64,
    /// Number of tasks that have finished.
    over: u64,
    /// Number of dead letters among the first 1,000 unfinished tasks.
    dead: u64,
    /// Up to five of the unfinished tasks, dead letters first.
    first: Vec<WaitsForView>,
}

/// A task that another one waits for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitsForView {
    /// ID of the task.
    id: String,
    /// Why it failed, if it is dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<Waits> for WaitsView {
    fn from(of: Waits) -> Self {
        let Waits { open, if_dead, left, over, dead, first } = of;
        let view = |one: WaitsFor| WaitsForView { id: one.id.to_string(), error: one.error };
        let first = first.into_iter().map(view).collect();
        Self { open, if_dead: if_dead.into(), left, over, dead, first }
    }
}

pub(crate) async fn waits(call: Call) -> Answer<WaitsView> {
    let waits = call.queue()?.waits(call.path.get("task")).await?;
    let none = || Problem::new(Code::NotFound, "no live task with this ID has or had dependencies");
    Ok(Reply::ok(waits.ok_or_else(none)?.into()))
}

/// How a task ended that another one waited for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndWord {
    /// A worker completed it.
    Done,
    /// There was nothing to do.
    Discarded,
    /// A client canceled it.
    Cancelled,
    /// The overflow policy dropped it.
    Dropped,
    /// A client popped it.
    Popped,
    /// It was dequeued, or its dead letter was deleted.
    Deleted,
    /// It is a dead letter.
    Dead,
}

/// A finished task that another one waited for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitedView {
    /// ID of the task.
    id: String,
    /// How it ended.
    end: EndWord,
    /// When it ended, in microseconds since the Unix epoch.
    at_us: u64,
    /// Its result, if the worker returned one.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<ContentView>,
    /// Why it failed, if it is dead; at most 200 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl From<&Waited> for WaitedView {
    fn from(of: &Waited) -> Self {
        Self {
            id: of.id.to_string(),
            end: match of.end {
                TaskEnd::Done => EndWord::Done,
                TaskEnd::Discarded => EndWord::Discarded,
                TaskEnd::Cancelled => EndWord::Cancelled,
                TaskEnd::Dropped => EndWord::Dropped,
                TaskEnd::Popped => EndWord::Popped,
                TaskEnd::Deleted => EndWord::Deleted,
                TaskEnd::Dead => EndWord::Dead,
            },
            at_us: of.at.as_micros(),
            result: of.result.as_ref().map(ContentView::from),
            error: of.error.clone(),
        }
    }
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

pub(crate) async fn waited(call: Call<Nothing, WaitedQuery>) -> Answer<PageView<WaitedView>> {
    let limit = call.query.limit;
    let page = call.queue()?.waited(call.path.get("task"), &call.query.after, limit).await?;
    Ok(Reply::ok(PageView::of(page, limit, |one| one.id.as_str(), |one| Some((&one).into()))))
}

fn no_task() -> Problem {
    Problem::new(Code::NotFound, "no live task with this ID; it may have finished without retention")
}

/// State of a task.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StateWord {
    /// Not due yet.
    Scheduled,
    /// Due, and not claimed.
    Ready,
    /// Claimed, and the lease has not expired.
    Leased,
    /// Behind others of its key, or waiting for other tasks.
    Blocked,
    /// Finished, and kept by the queue's retention.
    Done,
}

impl From<StateWord> for TaskState {
    fn from(word: StateWord) -> Self {
        match word {
            StateWord::Scheduled => Self::Scheduled,
            StateWord::Ready => Self::Ready,
            StateWord::Leased => Self::Leased,
            StateWord::Blocked => Self::Blocked,
            StateWord::Done => Self::Done,
        }
    }
}

impl From<TaskState> for StateWord {
    fn from(state: TaskState) -> Self {
        match state {
            TaskState::Scheduled => Self::Scheduled,
            TaskState::Ready => Self::Ready,
            TaskState::Leased => Self::Leased,
            TaskState::Blocked => Self::Blocked,
            TaskState::Done => Self::Done,
        }
    }
}

/// A task and its state.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InfoView {
    #[serde(flatten)]
    task: TaskView,
    /// State of the task.
    state: StateWord,
    /// Whether it is blocked because it waits for other tasks or for its batch to be closed.
    waits: bool,
    /// When it is due, in microseconds since the Unix epoch, if it is scheduled or ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before_us: Option<u64>,
    /// When its lease expires, in microseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until_us: Option<u64>,
    /// The worker that claimed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    /// Whether a pending replacement waits for the current run to end.
    replaced: bool,
    /// Whether a client asked to cancel it.
    cancelled: bool,
    /// Why its last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Its progress, if the worker has reported any.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressBody>,
    /// Its latest unsuccessful runs, oldest first: at most ten.
    past: Vec<PastView>,
    /// How it ended, if it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished: Option<FinishedView>,
}

/// An unsuccessful run.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PastView {
    /// Number of the attempt.
    attempt: u32,
    /// When it was claimed, in microseconds since the Unix epoch.
    began_us: u64,
    /// When it ended, in microseconds since the Unix epoch.
    ended_us: u64,
    /// How it ended.
    how: PastWord,
    /// The worker that had claimed it.
    worker: String,
    /// Why it failed, if it did; at most 200 bytes.
    error: String,
}

/// How an unsuccessful run ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PastWord {
    /// It failed.
    Failed,
    /// Its lease expired.
    Lost,
    /// The worker released it with a delay.
    Snoozed,
}

impl From<&PastRun> for PastView {
    fn from(of: &PastRun) -> Self {
        Self {
            attempt: of.attempt,
            began_us: of.began.as_micros(),
            ended_us: of.ended.as_micros(),
            how: match of.how {
                PastEnd::Failed => PastWord::Failed,
                PastEnd::Lost => PastWord::Lost,
                PastEnd::Snoozed => PastWord::Snoozed,
            },
            worker: of.worker.clone(),
            error: of.error.clone(),
        }
    }
}

/// How a task ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FinishedView {
    /// When it ended, in microseconds since the Unix epoch.
    at_us: u64,
    /// How it ended.
    how: FinishWord,
    /// Its result, if the worker returned one.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<ContentView>,
}

/// How a task ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FinishWord {
    /// A worker completed it.
    Done,
    /// There was nothing to do.
    Discarded,
    /// A client canceled it.
    Cancelled,
    /// The overflow policy dropped it: the queue was at capacity.
    Dropped,
}

impl From<&Finished> for FinishedView {
    fn from(of: &Finished) -> Self {
        Self {
            at_us: of.at.as_micros(),
            how: match of.how {
                Finish::Done => FinishWord::Done,
                Finish::Discarded => FinishWord::Discarded,
                Finish::Cancelled => FinishWord::Cancelled,
                Finish::Dropped => FinishWord::Dropped,
            },
            result: of.result.as_ref().map(ContentView::from),
        }
    }
}

impl From<&TaskInfo> for InfoView {
    fn from(of: &TaskInfo) -> Self {
        Self {
            task: (&of.task).into(),
            state: of.state.into(),
            waits: of.waits,
            not_before_us: of.not_before.map(Timestamp::as_micros),
            lease_until_us: of.lease_until.map(Timestamp::as_micros),
            worker: of.worker.clone(),
            replaced: of.replaced,
            cancelled: of.cancelled,
            error: of.error.clone(),
            progress: of
                .progress
                .as_ref()
                .map(|TaskProgress { percent, note }| ProgressBody { percent: *percent, note: note.clone() }),
            past: of.past.iter().map(PastView::from).collect(),
            finished: of.finished.as_ref().map(FinishedView::from),
        }
    }
}

/// With `Prefer: wait`, waits until the task has finished, then shows how it ended.
pub(crate) async fn task(call: Call) -> Answer<InfoView> {
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
            return Ok(Reply::ok((&info).into()));
        }
        if let Some(over) = queue.how_it_ended(&id).await? {
            return ended(over);
        }
    }
    Err(no_task())
}

/// Number of reads for a task that keeps changing state.
const LOOKS: usize = 3;

fn ended(over: Over) -> Answer<InfoView> {
    match over {
        Over::Finished(info) => Ok(Reply::ok((&*info).into())),
        Over::Dead(letter) => Err(given_up(*letter)),
        Over::Gone => Err(no_task()),
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
    state: Option<StateWord>,
    /// Only IDs greater than this one: the `next` of the previous page.
    #[serde(default)]
    after: String,
    /// Page size: 1 to 10,000. Default: 1,000.
    #[serde(default = "super::page_limit")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: u32,
}

pub(crate) async fn tasks(call: Call<Nothing, TasksQuery>) -> Answer<PageView<InfoView>> {
    let TasksQuery { state, after, limit } = &call.query;
    let (queue, state) = (call.queue()?, state.map(TaskState::from));
    let page = Page { after: after.clone(), limit: *limit };
    PageView::read(
        page,
        |Page { after, limit }| queue.tasks(Listing { state, after, limit }),
        |info| info.task.ticket.id.as_str(),
        |info| &info.task.payload,
        |info| (&info).into(),
    )
    .await
}

/// Why a task is not running.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WhyView {
    /// At least one reason. The one that must be resolved first comes first.
    #[schemars(with = "Vec<serde_json::Value>")]
    reasons: Vec<Why>,
}

pub(crate) async fn why(call: Call) -> Answer<WhyView> {
    Ok(Reply::ok(WhyView { reasons: call.queue()?.why(call.path.get("task")).await? }))
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

/// Limits of a queue. What is null or absent is unlimited.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsBody {
    /// Capacity: maximum number of live tasks.
    bound: Option<u64>,
    /// Overflow policy: what happens to a new task when the queue is at capacity.
    overflow: OverflowWord,
    /// Maximum number of tasks running at a time: 1 to 1,000,000.
    #[schemars(range(min = 1, max = 1_000_000))]
    concurrency: Option<u32>,
    /// Rate limit of the queue.
    rate: Option<RateBody>,
    /// Limits that apply to the tasks of each key separately.
    per_key: KeyLimitsBody,
    /// How long finished tasks are kept. Not at all if null or absent.
    retention: Option<RetentionBody>,
    /// Number of events kept: 1 to 100,000. None if absent.
    #[schemars(range(min = 1, max = 100_000))]
    events: Option<u32>,
}

/// Overflow policy: what happens to a new task when the queue is at capacity.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OverflowWord {
    /// The new task is refused.
    #[default]
    Refuse,
    /// The new task is dropped.
    DropNew,
    /// The oldest waiting task is dropped, and the new one takes its place. Without a waiting task the new one is
    /// refused.
    DropOldest,
}

impl From<OverflowWord> for Overflow {
    fn from(word: OverflowWord) -> Self {
        match word {
            OverflowWord::Refuse => Self::Refuse,
            OverflowWord::DropNew => Self::DropNew,
            OverflowWord::DropOldest => Self::DropOldest,
        }
    }
}

impl From<Overflow> for OverflowWord {
    fn from(of: Overflow) -> Self {
        match of {
            Overflow::Refuse => Self::Refuse,
            Overflow::DropNew => Self::DropNew,
            Overflow::DropOldest => Self::DropOldest,
        }
    }
}

/// How long finished tasks are kept. Both limits apply.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetentionBody {
    /// Maximum age in milliseconds: at most 400 days.
    #[schemars(range(min = 1, max = 34_560_000_000_u64))]
    age_ms: u64,
    /// Maximum number of finished tasks: 1 to 1,000,000.
    #[schemars(range(min = 1, max = 1_000_000))]
    count: u32,
}

impl From<RetentionBody> for Retention {
    fn from(body: RetentionBody) -> Self {
        Self::new(Duration::from_millis(body.age_ms), body.count)
    }
}

impl From<Retention> for RetentionBody {
    fn from(of: Retention) -> Self {
        Self { age_ms: u64::try_from(of.age.as_millis()).unwrap_or(u64::MAX), count: of.count }
    }
}

/// Limits for the tasks of one key.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KeyLimitsBody {
    /// Maximum number of tasks running at a time: 1 to 1,000,000, and 1 if the order is first in, first out.
    #[schemars(range(min = 1, max = 1_000_000))]
    concurrency: Option<u32>,
    /// Rate limit of the key.
    rate: Option<RateBody>,
    /// First in, first out: one task at a time, and a failed task blocks those behind it.
    fifo: bool,
}

/// Sliding-window rate limit: at most `n` tasks in any period of `per_ms`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateBody {
    /// Maximum number of tasks: 1 to 10,000.
    #[schemars(range(min = 1, max = 10_000))]
    n: u32,
    /// Period in milliseconds: at most 400 days.
    #[schemars(range(min = 1, max = 34_560_000_000_u64))]
    per_ms: u64,
}

impl From<RateBody> for Rate {
    fn from(body: RateBody) -> Self {
        Self::new(body.n, Duration::from_millis(body.per_ms))
    }
}

impl From<Rate> for RateBody {
    fn from(rate: Rate) -> Self {
        Self { n: rate.n, per_ms: u64::try_from(rate.per.as_millis()).unwrap_or(u64::MAX) }
    }
}

impl From<LimitsBody> for QueueLimits {
    fn from(body: LimitsBody) -> Self {
        let LimitsBody { bound, overflow, concurrency, rate, per_key, retention, events } = body;
        let overflow = overflow.into();
        let KeyLimitsBody { concurrency: key_concurrency, rate: key_rate, fifo } = per_key;
        let per_key = KeyLimits { concurrency: key_concurrency, rate: key_rate.map(Rate::from), fifo };
        let retention = retention.map(Retention::from);
        Self { bound, overflow, concurrency, rate: rate.map(Rate::from), per_key, retention, events }
    }
}

impl From<QueueLimits> for LimitsBody {
    fn from(limits: QueueLimits) -> Self {
        let QueueLimits { bound, overflow, concurrency, rate, per_key, retention, events } = limits;
        let overflow = overflow.into();
        let KeyLimits { concurrency: key_concurrency, rate: key_rate, fifo } = per_key;
        let per_key =
            KeyLimitsBody { concurrency: key_concurrency, rate: key_rate.map(RateBody::from), fifo };
        let retention = retention.map(RetentionBody::from);
        Self { bound, overflow, concurrency, rate: rate.map(RateBody::from), per_key, retention, events }
    }
}

pub(crate) async fn limit(mut call: Call<LimitsBody>) -> Answer<LimitsBody> {
    let limits = QueueLimits::from(std::mem::take(&mut call.body));
    call.queue()?.limit(limits).await?;
    Ok(Reply::ok(limits.into()))
}

/// Streams the events of a queue.
pub(crate) async fn events(call: Call<Nothing, EventsQuery>) -> Result<Response<Body>, Problem> {
    let after = call.seen.or(call.query.after);
    Ok(events::of_queue(&call.queue()?, after, call.shop.closing.clone()))
}

/// A dead letter: a task that failed for good.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeadView {
    /// ID of the task.
    id: String,
    #[serde(flatten)]
    content: ContentView,
    /// Priority, from 0 (first) to 9 (last).
    priority: u8,
    /// Key that tasks share, such as a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Number of attempts.
    attempts: u32,
    /// Maximum number of attempts.
    max_attempts: u32,
    /// Why the last attempt failed.
    error: String,
    /// When it became a dead letter, in microseconds since the Unix epoch.
    died_us: u64,
    /// Its latest runs, oldest first: at most ten.
    past: Vec<PastView>,
}

impl From<DeadLetter> for DeadView {
    fn from(of: DeadLetter) -> Self {
        Self {
            id: of.id.to_string(),
            content: (&of.payload).into(),
            priority: of.priority.get(),
            key: of.key.as_ref().map(ToString::to_string),
            attempts: of.attempts,
            max_attempts: of.max_attempts,
            error: of.error,
            past: of.past.iter().map(PastView::from).collect(),
            died_us: of.died_at.as_micros(),
        }
    }
}

pub(crate) async fn dead(call: Call<Nothing, PageQuery>) -> Answer<PageView<DeadView>> {
    let queue = &call.queue()?;
    PageView::read(
        (&call.query).into(),
        |page| async move { queue.dead(&page.after, page.limit).await },
        |letter| letter.id.as_str(),
        |letter| &letter.payload,
        DeadView::from,
    )
    .await
}

/// Selects dead letters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["ids"], "properties": { "all": { "const": false } } },
    { "required": ["all"], "properties": { "all": { "const": true }, "ids": { "type": "null" } } },
]))]
pub(crate) struct SelectionBody {
    /// IDs of dead letters: 1 to 1,000.
    #[schemars(with = "Option<Vec<NameText>>", length(min = 1, max = 1_000))]
    ids: Option<Vec<TaskId>>,
    /// Whether to take all dead letters, instead of `ids`.
    #[serde(default)]
    all: bool,
}

impl TryFrom<SelectionBody> for Selection {
    type Error = Problem;
    fn try_from(body: SelectionBody) -> Result<Self, Problem> {
        match (body.ids, body.all) {
            (Some(ids), false) => Ok(Self::Ids(ids)),
            (None, true) => Ok(Self::All),
            (Some(_), true) => Err(either("ids", "all")),
            (None, false) => Err(Problem::new(Code::Invalid, "set ids, or all: true").field("ids")),
        }
    }
}

/// Outcome of requeueing dead letters.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RevivedView {
    /// Number of tasks that were requeued.
    revived: u64,
    /// Number of tasks that stay dead, because a live task has their ID or the queue is full.
    kept: u64,
}

impl From<Revived> for RevivedView {
    fn from(of: Revived) -> Self {
        let Revived { revived, kept } = of;
        Self { revived, kept }
    }
}

pub(crate) async fn retry_dead(call: Call<SelectionBody>) -> Answer<RevivedView> {
    let queue = call.queue()?;
    Ok(Reply::ok(queue.retry_dead(call.body.try_into()?).await?.into()))
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
