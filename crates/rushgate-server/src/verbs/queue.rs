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

/// A queue's name.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QueueView {
    /// Its name.
    name: String,
}

/// The queues that the caller may see.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct QueuesView {
    /// In order.
    items: Vec<QueueView>,
}

pub(crate) async fn list(call: Call) -> Answer<QueuesView> {
    let queues = call.shop.gate.queues().await?.into_iter();
    let seen = queues.filter(|queue| call.caller.may(access::Kind::Queue, queue.as_str()));
    Ok(Reply::ok(QueuesView { items: seen.map(|queue| QueueView { name: queue.to_string() }).collect() }))
}

/// A queue's lengths and limits.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StatsView {
    /// Due, and not claimed.
    ready: u64,
    /// Not due yet.
    scheduled: u64,
    /// Claimed, and the lease runs.
    leased: u64,
    /// Behind others of their keys, or waiting for other tasks.
    blocked: u64,
    /// Dead letters.
    dead: u64,
    /// Over, and kept by the queue's retention.
    done: u64,
    /// Dropped because the queue was at its bound, newcomers and tasks that waited, since the queue was made.
    dropped: u64,
    /// How long the oldest ready task has been ready, in milliseconds.
    lag_ms: u64,
    /// Whether it gives nothing out.
    paused: bool,
    /// When the queue's rate allows another task to be given out, in microseconds since the Unix epoch, if it allows none
    /// now.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_until_us: Option<u64>,
    /// When a task was last claimed, in microseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_claim_us: Option<u64>,
    /// What it puts up with.
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

/// What becomes of a task whose id is in already.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnDuplicateWord {
    /// The earlier stays as it is.
    #[default]
    Keep,
    /// The newcomer takes its place; beside a run under way it waits for the end of that.
    Replace,
    /// The earlier stays, due at the earlier of the two times.
    Earliest,
    /// As replace, but due no later than `max_wait_ms` after the first of the burst.
    Debounce,
}

/// A task to put in.
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
    /// Its id: one live task each.
    #[schemars(with = "NameText")]
    id: TaskId,
    /// Its content as JSON, or as a string if `content_type` is not JSON; at most 1 MiB.
    #[schemars(with = "Option<serde_json::Value>")]
    payload: Option<Box<RawValue>>,
    /// Its content in base64, in place of `payload`.
    payload_base64: Option<String>,
    /// What the content is. Default: `application/json` for `payload`, `application/octet-stream` for `payload_base64`.
    #[schemars(with = "Option<NameText>")]
    content_type: Option<ContentType>,
    /// What sort of work it is, by which a worker finds its handler.
    #[schemars(with = "Option<KindText>")]
    kind: Option<Kind>,
    /// Not given out before so many milliseconds from now: at most 400 days.
    #[schemars(range(max = 34_560_000_000_u64))]
    delay_ms: Option<u64>,
    /// Not given out before that moment, in milliseconds since the Unix epoch, in place of `delay_ms`.
    due_ms: Option<u64>,
    /// Not given out any more when so many milliseconds have passed from now, and a dead letter then: at most 400 days, and
    /// after it is due.
    #[schemars(range(min = 1, max = 34_560_000_000_u64))]
    deadline_after_ms: Option<u64>,
    /// Not given out any more from that moment on, in milliseconds since the Unix epoch, in place of `deadline_after_ms`.
    deadline_ms: Option<u64>,
    /// 0 goes first, 9 last; 5 unless said otherwise.
    #[serde(default)]
    #[schemars(with = "u8", range(max = 9))]
    priority: Priority,
    /// What becomes of it if the id is in already.
    #[serde(default)]
    on_duplicate: OnDuplicateWord,
    /// With `debounce`: the longest that a burst may put the run off, in milliseconds.
    max_wait_ms: Option<u64>,
    /// How often it may be claimed before it is dead: 1 to 1,000; 20 unless said otherwise.
    #[serde(default = "max_attempts")]
    #[schemars(range(min = 1, max = 1_000))]
    max_attempts: u32,
    /// Its id is taken for so many milliseconds from now, whatever becomes of the task: at most 400 days.
    #[schemars(range(min = 1, max = 34_560_000_000_u64))]
    unique_for_ms: Option<u64>,
    /// What it is for, such as a tenant: tasks of a key stand in line, and keys take turns.
    #[schemars(with = "Option<NameText>")]
    key: Option<TaskKey>,
    /// The tasks of the queue that must be over before it is given out: at most 1,000.
    #[serde(default)]
    #[schemars(with = "Vec<NameText>", length(max = 1_000))]
    after: Vec<TaskId>,
    /// What becomes of it when one that it waits for is dead.
    #[serde(default)]
    if_dead: IfDeadWord,
    /// It takes others as its parts, and waits until it is closed: the callback of a batch.
    #[serde(default)]
    held_open: bool,
    /// The task, held open, that it is part of.
    #[schemars(with = "Option<NameText>")]
    part_of: Option<TaskId>,
}

/// What becomes of a task when one that it waits for is dead.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IfDeadWord {
    /// It goes on waiting; it is dead itself if that one can never be done.
    #[default]
    Wait,
    /// It is dead too.
    Fail,
    /// It runs all the same.
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
                return Err(Problem::new(Code::Invalid, "debounce needs max_wait_ms").field("max_wait_ms"));
            }
            (_, Some(_)) => {
                return Err(
                    Problem::new(Code::Invalid, "max_wait_ms goes with debounce only").field("max_wait_ms")
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
    Problem::new(Code::Invalid, format_args!("give {one} or {other}, not both")).field(one)
}

/// What became of one task that was put in.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub(crate) enum EnqueuedView {
    /// A new task.
    Added {
        /// Its revision.
        revision: u64,
    },
    /// The one that was there is unchanged.
    Kept {
        /// Its revision.
        revision: u64,
    },
    /// The one that was there was changed, or will run again after its present run.
    Replaced {
        /// The new revision.
        revision: u64,
    },
    /// A new task, for which the oldest one that waited was dropped: the queue is at its bound.
    Displaced {
        /// Its revision.
        revision: u64,
        /// The id of what was dropped.
        dropped: String,
    },
    /// The queue is at its bound and drops newcomers: it was not put in.
    Dropped {
        /// The bound.
        bound: u64,
    },
    /// The queue is at its bound: it was not put in.
    Full {
        /// The bound.
        bound: u64,
    },
    /// The id was put in lately, for a period that is not over: it was not put in.
    Recent {
        /// When it will be over, in microseconds since the Unix epoch.
        until_us: u64,
    },
    /// It was to wait for a task, or be part of one, and cannot: it was not put in.
    Refused {
        /// The id of which task.
        task: String,
        /// Why not.
        why: UnmetWord,
    },
}

/// Why a task was refused that was to wait for others, or to be part of one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UnmetWord {
    /// The queue knows no task of the id that it was to wait for: none that is live, dead, or kept as done.
    Unknown,
    /// The task that it was to be part of is not held open.
    NotOpen,
    /// A live task of its own id is in the way.
    Taken,
}

/// The word of a [problem](Code::Unmet), as [`UnmetWord`] has it.
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

/// The answer to one task that was put in; a queue that is full refuses it.
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

/// The one answer to a batch of one.
fn only<T>(answers: Vec<T>) -> Result<T, Problem> {
    let first = answers.into_iter().next();
    first.ok_or_else(|| rushgate::Error::bug("the store answered one question with none").into())
}

/// Tasks to put in, in one step.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    /// 1 to 1,000, in the order in which they go in.
    #[schemars(length(min = 1, max = 1_000))]
    tasks: Vec<TaskBody>,
}

/// What became of each.
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

/// A task that was looked at or taken.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TaskView {
    /// Its id.
    id: String,
    /// What to answer with: it is good for this revision, and this claim.
    ticket: String,
    #[serde(flatten)]
    content: ContentView,
    /// When it was due, in microseconds since the Unix epoch.
    due_us: u64,
    /// The number of the claim, which fences what the task writes; absent if it was only looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<u64>,
    /// The version of its content.
    revision: u64,
    /// How often it has been claimed, this time included.
    attempt: u32,
    /// How often it may be.
    max_attempts: u32,
    /// 0 goes first, 9 last.
    priority: u8,
    /// What it is for, such as a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// From when on it is not given out any more, in microseconds since the Unix epoch.
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
    /// In the order in which they are given out.
    tasks: Vec<TaskView>,
}

impl From<&[Task]> for TasksView {
    fn from(of: &[Task]) -> Self {
        Self { tasks: of.iter().map(TaskView::from).collect() }
    }
}

/// How many.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Many {
    /// 1 to 1,000; 1 unless said otherwise.
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

/// How tasks are claimed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimBody {
    /// At most so many: 1 to 1,000; 1 unless said otherwise.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000))]
    n: u32,
    /// How long to hold them unless they are extended, in milliseconds: 10 to 86,400,000; 30,000 unless said otherwise.
    #[serde(default = "lease_ms")]
    #[schemars(range(min = 10, max = 86_400_000))]
    lease_ms: u64,
    /// Who works on them, for people who look; at most 200 bytes, without control characters. The server's own name unless said
    /// otherwise.
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

/// Tasks whose tickets are on their way. If they do not get there, they are given back.
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
                tracing::warn!(queue = %queue.name(), %error, "tasks that nobody took wait for their leases");
            }
        });
    }
}

/// What is done: one ticket, or several. One is refused with a problem if it is stale, several are answered one by one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["ticket"] }, { "required": ["tickets"] }]))]
pub(crate) struct CompleteBody {
    /// One.
    #[schemars(with = "Option<TicketText>")]
    ticket: Option<Ticket>,
    /// Several: 1 to 1,000.
    #[schemars(with = "Option<Vec<TicketText>>", length(min = 1, max = 1_000))]
    tickets: Option<Vec<Ticket>>,
    /// What came of each, as JSON, or as a string if `result_type` is not JSON; at most 64 KiB, kept if the queue has a
    /// retention.
    #[schemars(with = "Option<serde_json::Value>")]
    result: Option<Box<RawValue>>,
    /// What came of each in base64, in place of `result`.
    result_base64: Option<String>,
    /// What the result is.
    #[schemars(with = "Option<NameText>")]
    result_type: Option<ContentType>,
    /// There was nothing to do: none was carried out.
    #[serde(default)]
    discarded: bool,
}

fn one_or_many(ticket: Option<Ticket>, tickets: Option<Vec<Ticket>>) -> Result<(Vec<Ticket>, bool), Problem> {
    match (ticket, tickets) {
        (Some(ticket), None) => Ok((vec![ticket], true)),
        (None, Some(tickets)) => Ok((tickets, false)),
        (Some(_), Some(_)) => Err(either("ticket", "tickets")),
        (None, None) => Err(Problem::new(Code::Invalid, "give ticket or tickets").field("ticket")),
    }
}

/// The answers, or a problem if the only one is a refusal.
fn judged<O: PartialEq, V: From<O>>(outcomes: Vec<O>, alone: bool, stale: &O) -> Answer<Outcomes<V>> {
    if alone && outcomes.first() == Some(stale) {
        return Err(Problem::plain(Code::Stale));
    }
    Ok(Reply::ok(Outcomes { outcomes: outcomes.into_iter().map(V::from).collect() }))
}

/// What became of a completed task.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CompletedView {
    /// It is gone.
    Done,
    /// It was replaced during the work and waits again.
    Requeued,
    /// The claim was no longer the ticket's. Nothing was changed.
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
        return Err(Problem::new(Code::Invalid, "it goes with a result").field("result_type"));
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
    /// One.
    #[schemars(with = "Option<TicketText>")]
    ticket: Option<Ticket>,
    /// Several: 1 to 1,000.
    #[schemars(with = "Option<Vec<TicketText>>", length(min = 1, max = 1_000))]
    tickets: Option<Vec<Ticket>>,
    /// How long to wait before the next attempt, in milliseconds: at most 400 days; at once unless said otherwise.
    #[serde(default)]
    #[schemars(range(max = 34_560_000_000_u64))]
    delay_ms: u64,
    /// Why it failed, for people who look; cut to 2,000 bytes.
    #[serde(default)]
    error: String,
    /// Give up now, whatever attempts are left.
    #[serde(default)]
    give_up: bool,
}

/// What became of a task that failed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub(crate) enum RetriedView {
    /// It waits for its next attempt.
    Scheduled {
        /// When that is due, in microseconds since the Unix epoch.
        due_us: u64,
    },
    /// Its attempts are used up: it is a dead letter.
    Dead,
    /// It was replaced during the work: the newcomer waits.
    Requeued,
    /// It was cancelled during the work: it is gone.
    Cancelled,
    /// The claim was no longer the ticket's. Nothing was changed.
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

/// What became of a task that was given back.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GivenBackView {
    /// It waits, due at once.
    Waiting,
    /// It was cancelled during the work: it is gone.
    Cancelled,
    /// The claim was no longer the ticket's. Nothing was changed.
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

/// What to give back.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["ticket"] }, { "required": ["tickets"] }]))]
pub(crate) struct GiveBackBody {
    /// One.
    #[schemars(with = "Option<TicketText>")]
    ticket: Option<Ticket>,
    /// Several: 1 to 1,000.
    #[schemars(with = "Option<Vec<TicketText>>", length(min = 1, max = 1_000))]
    tickets: Option<Vec<Ticket>>,
    /// Not before so many milliseconds from now: at most 400 days; at once unless said otherwise.
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

/// Whose leases to start anew.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["ticket"] }, { "required": ["tickets"] }]))]
pub(crate) struct ExtendBody {
    /// One.
    #[schemars(with = "Option<TicketText>")]
    ticket: Option<Ticket>,
    /// Several: 1 to 1,000.
    #[schemars(with = "Option<Vec<TicketText>>", length(min = 1, max = 1_000))]
    tickets: Option<Vec<Ticket>>,
    /// The lease from now, in milliseconds: 10 to 86,400,000; 30,000 unless said otherwise.
    #[serde(default = "lease_ms")]
    #[schemars(range(min = 10, max = 86_400_000))]
    lease_ms: u64,
    /// How far each has come, for people who look; what was said before stays if it is absent.
    progress: Option<ProgressBody>,
}

/// How far a task has come, in the words of whoever works on it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgressBody {
    /// How much of it is done: 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 100))]
    percent: Option<u8>,
    /// What it is at; at most 200 bytes without control characters.
    #[serde(default)]
    #[schemars(extend("pattern" = LABEL))]
    note: String,
}

/// What became of a lease.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExtendedView {
    /// It runs anew.
    Extended,
    /// It runs anew, and somebody asked to cancel the task: stop, and complete it.
    Cancelled,
    /// The claim was no longer the ticket's: stop, and write nothing more.
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

/// What to remove.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DequeueBody {
    /// Of the task as it was read.
    #[schemars(with = "TicketText")]
    ticket: Ticket,
}

/// What became of a task that was to be removed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub(crate) enum RemovedView {
    /// It is gone.
    Removed,
    /// Somebody is working on it, and will be told.
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

/// An id that may be put in again.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LiftedView {
    /// Until when it would have been unique, in microseconds since the Unix epoch.
    until_us: u64,
}

pub(crate) async fn lift(call: Call) -> Answer<LiftedView> {
    match call.queue()?.lift(call.path.get("task")).await? {
        Lifted::Lifted { until } => Ok(Reply::ok(LiftedView { until_us: until.as_micros() })),
        Lifted::NotFound => Err(Problem::new(Code::NotFound, "the id is not unique: it may be put in")),
    }
}

/// A task that takes no more parts.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClosedView {
    /// How many it waits for still.
    left: u64,
}

pub(crate) async fn close_batch(call: Call) -> Answer<ClosedView> {
    match call.queue()?.close_batch(call.path.get("task")).await? {
        Closed::Closed { left } => Ok(Reply::ok(ClosedView { left })),
        Closed::NotOpen => Err(Problem::plain(Code::NotOpen)),
        Closed::NotFound => Err(no_task()),
    }
}

/// What a task waits for, and how far that has come.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitsView {
    /// Whether it is held open, and does not run before it is closed.
    open: bool,
    /// What becomes of it when one that it waits for is dead.
    if_dead: IfDeadWord,
    /// So many it waits for still.
    left: u64,
    /// So many are over.
    over: u64,
    /// So many of the first 1,000 that are left are dead.
    dead: u64,
    /// Some of those, at most five: the dead come first.
    first: Vec<WaitsForView>,
}

/// One that a task waits for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitsForView {
    /// Its id.
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
    let none = || Problem::new(Code::NotFound, "there is no such live task that waits for others, or did");
    Ok(Reply::ok(waits.ok_or_else(none)?.into()))
}

/// How a task ended that another waited for.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EndWord {
    /// It was carried out.
    Done,
    /// There was nothing to do.
    Discarded,
    /// Somebody cancelled it.
    Cancelled,
    /// It gave its place to a newcomer.
    Dropped,
    /// It was taken for good.
    Popped,
    /// It was dequeued, or buried.
    Deleted,
    /// It is a dead letter.
    Dead,
}

/// A task that is over, and that another waited for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitedView {
    /// Its id.
    id: String,
    /// How it ended.
    end: EndWord,
    /// When, in microseconds since the Unix epoch.
    at_us: u64,
    /// What came of it, if whoever completed it has said so.
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

/// Which part of what a task waited for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitedQuery {
    /// Only ids greater than this one: the `next` of the page before.
    #[serde(default)]
    after: String,
    /// At most so many, 1 to 100; 100 unless said otherwise.
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
    Problem::new(Code::NotFound, "there is no such live task; it may be done and not kept")
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StateWord {
    /// Not due yet.
    Scheduled,
    /// Due.
    Ready,
    /// Claimed, and the lease runs.
    Leased,
    /// Behind others of its key, or waiting for other tasks.
    Blocked,
    /// Over, and kept by the queue's retention.
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

/// A task as it stands.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InfoView {
    #[serde(flatten)]
    task: TaskView,
    /// Where it stands.
    state: StateWord,
    /// Whether it is blocked because it waits for other tasks, or is held open for them.
    waits: bool,
    /// From when on it may be given out, in microseconds since the Unix epoch, if it is scheduled or ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before_us: Option<u64>,
    /// When its lease runs out, in microseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until_us: Option<u64>,
    /// Who claimed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    /// Whether a newcomer waits behind the present run.
    replaced: bool,
    /// Whether it is to be cancelled.
    cancelled: bool,
    /// Why its last attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// How far it has come, if its worker has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressBody>,
    /// Its latest runs that did not succeed, the oldest first: at most ten.
    past: Vec<PastView>,
    /// How it ended, if it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished: Option<FinishedView>,
}

/// A run that did not succeed.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PastView {
    /// Which attempt it was.
    attempt: u32,
    /// When it was claimed, in microseconds since the Unix epoch.
    began_us: u64,
    /// When it ended, in microseconds since the Unix epoch.
    ended_us: u64,
    /// In which way.
    how: PastWord,
    /// Who had claimed it.
    worker: String,
    /// Why it failed, if it did; at most 200 bytes.
    error: String,
}

/// How a run ended that did not succeed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PastWord {
    /// It failed.
    Failed,
    /// Its lease ran out.
    Lost,
    /// It was given back for a while.
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
    /// When, in microseconds since the Unix epoch.
    at_us: u64,
    /// In which way.
    how: FinishWord,
    /// What came of it, if whoever completed it has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<ContentView>,
}

/// In which way a task ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FinishWord {
    /// It was carried out.
    Done,
    /// There was nothing to do.
    Discarded,
    /// Somebody cancelled it.
    Cancelled,
    /// It gave its place to a newcomer, because the queue was at its bound.
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

/// With `Prefer: wait` it waits for the task to be over, and then shows how it ended.
pub(crate) async fn task(call: Call) -> Answer<InfoView> {
    let (queue, id) = (call.queue()?, TaskId::new(call.path.get("task"))?);
    if !call.wait.is_zero() {
        let over = call.unless_closing(queue.wait_for(&id, call.wait)).await;
        // The id is one: what is left to refuse is the queue, as it is set up now.
        let over = over.map_err(|problem| match problem.code() {
            Code::Invalid => problem.called(Code::NothingKept),
            _ => problem,
        })?;
        if let Some(over) = over {
            return ended(over);
        }
    }
    // A look may meet the task between two lives: then it is live again.
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

/// How often a task that comes and goes is looked for.
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
    Problem::new(Code::Dead, format_args!("it was given up after {attempts} attempts: {error}"))
        .with("error", error)
        .with("attempts", attempts)
        .with("died_us", died_at.as_micros())
}

/// Which tasks to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TasksQuery {
    /// Only those in this state.
    state: Option<StateWord>,
    /// Only ids greater than this: the `next` of the page before.
    #[serde(default)]
    after: String,
    /// At most so many, 1 to 10,000; 1,000 unless said otherwise.
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

/// What keeps a task from running now.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WhyView {
    /// What must end first comes first; there is at least one.
    #[schemars(with = "Vec<serde_json::Value>")]
    reasons: Vec<Why>,
}

pub(crate) async fn why(call: Call) -> Answer<WhyView> {
    Ok(Reply::ok(WhyView { reasons: call.queue()?.why(call.path.get("task")).await? }))
}

/// Whether a queue gives tasks out.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PausedView {
    /// False if it does.
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

/// What a queue puts up with. What is null or absent is not limited.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsBody {
    /// At most so many live tasks.
    bound: Option<u64>,
    /// What becomes of a task that is one too many.
    overflow: OverflowWord,
    /// At most so many under a lease at a time: 1 to 1,000,000.
    #[schemars(range(min = 1, max = 1_000_000))]
    concurrency: Option<u32>,
    /// How often tasks are given out.
    rate: Option<RateBody>,
    /// The same for the tasks of each key by itself.
    per_key: KeyLimitsBody,
    /// How long tasks that are over are kept; not at all if it is null or absent.
    retention: Option<RetentionBody>,
    /// So many of the latest events are kept: 1 to 100,000; none if it is left out.
    #[schemars(range(min = 1, max = 100_000))]
    events: Option<u32>,
}

/// What becomes of a task that is put into a queue at its bound.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OverflowWord {
    /// It is refused.
    #[default]
    Refuse,
    /// It is dropped.
    DropNew,
    /// It takes the place of the one that waits and was first put in the longest ago; if none waits it is refused.
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

/// How long tasks that are over are kept: both limits hold.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetentionBody {
    /// No longer than so many milliseconds: at most 400 days.
    #[schemars(range(min = 1, max = 34_560_000_000_u64))]
    age_ms: u64,
    /// No more than the latest so many: 1 to 1,000,000.
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

/// What a queue puts up with from the tasks of one key.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct KeyLimitsBody {
    /// At most so many under a lease at a time: 1 to 1,000,000; 1 if the order is first-in-first-out.
    #[schemars(range(min = 1, max = 1_000_000))]
    concurrency: Option<u32>,
    /// How often tasks are given out.
    rate: Option<RateBody>,
    /// First in, first out: one at a time, and one that failed holds up those behind it.
    fifo: bool,
}

/// At most so many in any stretch of time of that length.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateBody {
    /// So many: 1 to 10,000.
    #[schemars(range(min = 1, max = 10_000))]
    n: u32,
    /// In so many milliseconds: at most 400 days.
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

/// What happens to the tasks of a queue, as it happens.
pub(crate) async fn events(call: Call<Nothing, EventsQuery>) -> Result<Response<Body>, Problem> {
    let after = call.seen.or(call.query.after);
    Ok(events::of_queue(&call.queue()?, after, call.shop.closing.clone()))
}

/// A task that failed for good.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeadView {
    /// Its id.
    id: String,
    #[serde(flatten)]
    content: ContentView,
    /// 0 goes first, 9 last.
    priority: u8,
    /// What it was for, such as a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// How often it was tried.
    attempts: u32,
    /// How often it could be.
    max_attempts: u32,
    /// Why the last attempt failed.
    error: String,
    /// When it was given up, in microseconds since the Unix epoch.
    died_us: u64,
    /// Its latest runs, the oldest first: at most ten.
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

/// Which dead letters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["ids"], "properties": { "all": { "const": false } } },
    { "required": ["all"], "properties": { "all": { "const": true }, "ids": { "type": "null" } } },
]))]
pub(crate) struct SelectionBody {
    /// Those with these ids: 1 to 1,000.
    #[schemars(with = "Option<Vec<NameText>>", length(min = 1, max = 1_000))]
    ids: Option<Vec<TaskId>>,
    /// All of them, in place of `ids`.
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
            (None, false) => Err(Problem::new(Code::Invalid, "give ids, or all: true").field("ids")),
        }
    }
}

/// What became of dead letters.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RevivedView {
    /// So many wait again.
    revived: u64,
    /// So many stay dead, because their id is live or the queue is full.
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

/// How many dead letters are gone.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DeletedView {
    /// So many.
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
