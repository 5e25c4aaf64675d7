//! Queue operations: encodes requests and decodes answers.

use std::time::Duration;

use rushgate_core::{
    Cancelled, Claim, Claimed, Closed, Completed, Completion, ContentType, DeadLetter, DeadRequeued,
    Dequeued, Due, Enqueued, Error, Fence, Finish, Finished, Heartbeat, IfDead, KeyLimits, Lease, NewTask,
    OnDuplicate, Op, Overflow, PastEnd, PastRun, Payload, Priority, QueueLimits, QueueName, QueueStats, Rate,
    Result, Retention, Retried, Retry, Revision, Selection, Task, TaskChange, TaskEnd, TaskEvent, TaskEvents,
    TaskExtended, TaskId, TaskInfo, TaskKey, TaskProgress, TaskRelease, TaskReleased, TaskState, Ticket,
    Timestamp, UniqueCleared, Unmet, Waited, Waits, WaitsFor,
};

use crate::command::{Call, Command};
use crate::keys::{self, QueueSet};
use crate::reply::{Fields, Packed, Reply, str_of, strange};
use crate::scripts::Script;
use crate::store::micros;

/// How many bytes count as much work as one more task.
const BYTES_OF_ONE: u32 = 4_096;
/// Moments are limited to 2^53 - 1 µs, in the year 2255, because scripts calculate with doubles.
pub(crate) const MOMENT_MAX: u64 = (1 << 53) - 1;

fn call(script: Script, queue: &QueueName) -> Call {
    Call::new(script, keys::queue(queue))
}

/// A request with an op, which is executed once.
fn once(script: Script, queue: &QueueName, op: Op) -> Call {
    let keys = keys::queue(queue).chain(keys::replays(queue, op.client()));
    Call::new(script, keys).arg(&op.to_bytes()[8..])
}

/// Length of the content type (1), content type, payload. The two common types are a single byte.
pub(crate) fn write_body(payload: &Payload) -> Vec<u8> {
    let content_type = payload.content_type();
    let mut body = Vec::with_capacity(payload.bytes().len() + 1);
    if *content_type == ContentType::bytes() {
        body.push(0);
    } else if *content_type == ContentType::json() {
        body.push(255);
    } else {
        body.push(content_type.as_str().len() as u8);
        body.extend_from_slice(content_type.as_str().as_bytes());
    }
    body.extend_from_slice(payload.bytes());
    body
}

pub(crate) fn read_body(mut body: Packed<'_>) -> Result<Payload> {
    let content_type = match body.number(1)? {
        0 => ContentType::bytes(),
        255 => ContentType::json(),
        n => ContentType::as_stored(str_of(body.take(n as usize)?)?)?,
    };
    Payload::new(content_type, body.0)
}

fn moment(of: Due) -> String {
    match of {
        Due::Now => "+0".to_owned(),
        Due::After(delay) => format!("+{}", micros(delay)),
        Due::At(at) => at.as_micros().min(MOMENT_MAX).to_string(),
    }
}

/// The terms of a task. Most tasks of a call have equal terms, which the script parses once.
pub(crate) fn terms(task: &NewTask) -> String {
    let due = moment(task.due);
    let deadline = task.deadline.map(|deadline| format!("<{}", moment(deadline))).unwrap_or_default();
    let (mode, max_wait) = match task.on_duplicate {
        OnDuplicate::Keep => (0, 0),
        OnDuplicate::Replace => (1, 0),
        OnDuplicate::Earliest => (2, 0),
        OnDuplicate::Debounce { max_wait } => (3, micros(max_wait)),
    };
    let period = task.unique_for.map(|period| format!("!{}", micros(period))).unwrap_or_default();
    let (key, space) = task.key.as_ref().map_or(("", ""), |key| (key.as_str(), " "));
    let (priority, max_attempts) = (task.priority.get(), task.max_attempts);
    let waits = waits_asked(task);
    format!("{due} {priority} {mode} {max_wait} {max_attempts}{deadline}{period}{space}{key}{waits}")
}

/// The dependencies in the terms, on separate lines.
fn waits_asked(task: &NewTask) -> String {
    if !task.is_to_wait() && task.part_of.is_none() {
        return String::new();
    }
    let if_dead = match task.if_dead {
        IfDead::Wait => 0,
        IfDead::Fail => 1,
        IfDead::Run => 2,
    };
    let whole = task.part_of.as_ref().map(|whole| format!(" {whole}")).unwrap_or_default();
    let others: String = task.after.iter().map(|id| format!("\n{id}")).collect();
    format!("\n{if_dead}{}{whole}{others}", u8::from(task.held_open))
}

/// A request that can share its script call with others. Its weight is the number of its items plus `more`. The first
/// item carries the op, the others an empty one.
fn joined(
    script: Script,
    queue: &QueueName,
    op: Op,
    more: usize,
    items: impl Iterator<Item = Command>,
) -> Call {
    let keys = keys::queue(queue).chain(keys::replays(queue, op.client()));
    let (mut args, mut n, bytes) = (Command::default(), 0, op.to_bytes());
    let mut of_request = &bytes[8..];
    for item in items {
        args.push(of_request);
        args.extend(&item);
        (of_request, n) = (b"", n + 1);
    }
    let weight = n + more as u32 + args.len() as u32 / BYTES_OF_ONE;
    Call::new(script, keys).item(weight, args)
}

pub(crate) fn enqueue(op: Op, queue: &QueueName, tasks: &[NewTask]) -> Call {
    let item = |task: &NewTask| {
        Command::default().arg(task.id.as_str()).arg(terms(task)).arg(write_body(&task.payload))
    };
    // Each dependency is looked up and linked.
    let others: usize = tasks.iter().map(|task| task.after.len()).sum();
    joined(Script::QueueEnqueue, queue, op, others, tasks.iter().map(item)).key(keys::unique(queue))
}

pub(crate) fn read_enqueued(reply: Reply) -> Result<Vec<Enqueued>> {
    let mut fields = reply.list()?;
    let mut answers = Vec::new();
    while !fields.is_empty() {
        answers.push(read_put(&mut fields)?);
    }
    Ok(answers)
}

/// The outcome for one task.
pub(crate) fn read_put(fields: &mut Fields) -> Result<Enqueued> {
    let (outcome, number) = (fields.int()?, fields.int()?);
    let revision = Revision::from_u64(number);
    Ok(match outcome {
        1 => Enqueued::Added { revision },
        2 => Enqueued::Kept { revision },
        3 => Enqueued::Replaced { revision },
        4 => Enqueued::Full { bound: number },
        5 => Enqueued::Dropped { bound: number },
        6 => Enqueued::Displaced { revision, dropped: TaskId::as_stored(fields.text()?)? },
        7 => Enqueued::Recent { until: Timestamp::from_micros(number) },
        8 => Enqueued::Refused {
            why: match number {
                0 => Unmet::Unknown,
                1 => Unmet::NotOpen,
                2 => Unmet::Taken,
                _ => return Err(strange("an unknown refusal")),
            },
            task: TaskId::as_stored(fields.text()?)?,
        },
        _ => return Err(strange("an unknown outcome")),
    })
}

pub(crate) fn top(queue: &QueueName, n: u32) -> Call {
    call(Script::QueueTop, queue).number(n.into())
}

pub(crate) fn pop(op: Op, queue: &QueueName, n: u32) -> Call {
    once(Script::QueuePop, queue, op).number(n.into())
}

pub(crate) fn claim(op: Op, queue: &QueueName, claim: &Claim) -> Call {
    once(Script::QueueClaim, queue, op)
        .number(claim.n.into())
        .number(claim.lease.as_micros())
        .arg(&claim.worker)
}

/// A task's record and run, decoded.
pub(crate) struct Row {
    pub(crate) task: Task,
    pub(crate) leased: bool,
    pub(crate) replaced: bool,
    pub(crate) cancelled: bool,
    pub(crate) lease_until: Timestamp,
    worker: String,
    progress: Option<TaskProgress>,
    past: Vec<PastRun>,
    error: Option<String>,
    /// Whether it waits for other tasks.
    pub(crate) held: bool,
}

impl Row {
    /// Whether it has data that only a leased task has.
    pub(crate) fn has_lease_data(&self) -> bool {
        self.cancelled || self.replaced || self.lease_until != Timestamp::default() || !self.worker.is_empty()
    }
}

/// Added to the priority of a task with a key, which then precedes the body.
const KEYED: u64 = 16;
/// Added to the priority of a task with a deadline, which then precedes the key.
const DATED: u64 = 64;
/// Added to the priority of a task that waits for others.
const HELD: u64 = 128;
/// Added to the priority of a dead letter with past runs, which then precede the body.
const PAST_BEFORE: u64 = 32;

fn read_line(byte: u64, body: &mut Packed<'_>) -> Result<(Priority, Option<TaskKey>)> {
    let key = (byte >= KEYED).then(|| TaskKey::as_stored(body.text()?)).transpose()?;
    Ok((Priority::new((byte % KEYED) as u8)?, key))
}

fn read_row(fields: &mut Fields) -> Result<Row> {
    let id = TaskId::as_stored(fields.text()?)?;
    let (record, run) = (fields.bytes()?, fields.bytes()?);
    unpack_row(id, Packed(&record), &run)
}

pub(crate) fn unpack_row(id: TaskId, mut record: Packed<'_>, run: &[u8]) -> Result<Row> {
    record.take(6)?;
    let turn = record.number(1)?;
    let revision = Revision::from_u64(record.number(6)? + turn);
    record.take(7)?;
    let due = Timestamp::from_micros(record.number(7)?);
    let byte = record.number(1)?;
    let (held, byte) = (byte >= HELD, byte % HELD);
    let max_attempts = record.small(2)?;
    let deadline = (byte >= DATED).then(|| record.number(7)).transpose()?.map(Timestamp::from_micros);
    let (priority, key) = read_line(byte % DATED, &mut record)?;
    let payload = read_body(record)?;
    let ticket = Ticket { id, due, revision, claim: None };
    let mut row = Row {
        task: Task { ticket, payload, priority, attempt: 0, max_attempts, key, deadline },
        leased: false,
        replaced: false,
        cancelled: false,
        lease_until: Timestamp::default(),
        worker: String::new(),
        progress: None,
        past: Vec::new(),
        error: None,
        held,
    };
    if !run.is_empty() {
        add_run(&mut row, Packed(run))?;
    }
    Ok(row)
}

fn add_run(row: &mut Row, mut run: Packed<'_>) -> Result<()> {
    let claim = Fence::from_u64(run.number(7)? + run.number(1)?);
    row.task.attempt = run.small(2)?;
    let flags = run.number(1)?;
    row.lease_until = Timestamp::from_micros(run.number(7)?);
    row.task.ticket.due = Timestamp::from_micros(run.number(7)?);
    row.worker = run.text()?.to_owned();
    (row.leased, row.cancelled, row.replaced) = (flags & 1 != 0, flags & 2 != 0, flags & 8 != 0);
    row.task.ticket.claim = row.leased.then_some(claim);
    if flags & 128 != 0 {
        let length = run.number(1)? as usize;
        let percent = Some(run.number(1)? as u8).filter(|percent| *percent <= 100);
        row.progress = Some(TaskProgress { percent, note: str_of(run.take(length)?)?.to_owned() });
    }
    if flags & 64 != 0 {
        row.past = read_past(&mut run)?;
    }
    row.error = (flags & 4 != 0).then(|| str_of(run.0).map(str::to_owned)).transpose()?;
    Ok(())
}

/// Past runs, preceded by their length in 2 bytes.
fn read_past(from: &mut Packed<'_>) -> Result<Vec<PastRun>> {
    let length = from.number(2)? as usize;
    let mut packed = Packed(from.take(length)?);
    let mut past = Vec::new();
    while !packed.0.is_empty() {
        past.push(PastRun {
            attempt: packed.small(2)?,
            began: Timestamp::from_micros(packed.number(7)?),
            ended: Timestamp::from_micros(packed.number(7)?),
            how: match packed.number(1)? {
                0 => PastEnd::Failed,
                1 => PastEnd::Lost,
                2 => PastEnd::Snoozed,
                _ => return Err(strange("an unknown end of a run")),
            },
            worker: packed.text()?.to_owned(),
            error: packed.text()?.to_owned(),
        });
    }
    Ok(past)
}

pub(crate) fn read_tasks(reply: Reply) -> Result<Vec<Task>> {
    rest_of_tasks(&mut reply.list()?)
}

fn rest_of_tasks(fields: &mut Fields) -> Result<Vec<Task>> {
    let mut tasks = Vec::new();
    while !fields.is_empty() {
        tasks.push(read_row(fields)?.task);
    }
    Ok(tasks)
}

/// A number, or '' for none.
fn optional(reply: Reply) -> Result<Option<u64>> {
    match reply {
        Reply::Bytes(none) if none.is_empty() => Ok(None),
        number => number.int().map(Some),
    }
}

/// The claimed tasks, and the queue's wake-up count.
pub(crate) fn read_claimed(reply: Reply) -> Result<(Claimed, u64)> {
    let mut fields = reply.list()?;
    let next_due = optional(fields.next()?)?.map(Duration::from_micros);
    let wakes = fields.int()?;
    Ok((Claimed { tasks: rest_of_tasks(&mut fields)?, next_due }, wakes))
}

fn claim_number(ticket: &Ticket) -> u64 {
    ticket.claim.map_or(0, Fence::as_u64)
}

fn read_outcomes<T: Copy>(reply: Reply, outcomes: &[T]) -> Result<Vec<T>> {
    let mut fields = reply.list()?;
    let mut answers = Vec::new();
    while !fields.is_empty() {
        let outcome = outcomes.get(fields.int()? as usize);
        answers.push(*outcome.ok_or_else(|| strange("an unknown outcome"))?);
    }
    Ok(answers)
}

fn read_outcome<T: Copy>(reply: Reply, outcomes: &[T]) -> Result<T> {
    read_outcomes(reply, outcomes)?.first().copied().ok_or_else(|| strange("no outcome"))
}

/// Most completions have no result, and use a script without the arguments for one.
pub(crate) fn complete(op: Op, queue: &QueueName, done: &[Completion]) -> Call {
    let of =
        |ticket: &Ticket| Command::default().arg(ticket.id.as_str()).arg(claim_number(ticket).to_string());
    if done.iter().all(|one| one.result.is_none() && !one.discarded) {
        return joined(Script::QueueComplete, queue, op, 0, done.iter().map(|one| of(&one.ticket)));
    }
    let item = |one: &Completion| {
        let result = one.result.as_ref().map(write_body).unwrap_or_default();
        of(&one.ticket).arg(if one.discarded { "1" } else { "0" }).arg(result)
    };
    joined(Script::QueueFinish, queue, op, 0, done.iter().map(item))
}

pub(crate) fn read_completed(reply: Reply) -> Result<Vec<Completed>> {
    read_outcomes(reply, &[Completed::Stale, Completed::Done, Completed::Requeued])
}

pub(crate) fn retry(op: Op, queue: &QueueName, failed: &[Retry]) -> Call {
    let add = |call: Call, failed: &Retry| {
        call.arg(failed.ticket.id.as_str())
            .number(claim_number(&failed.ticket))
            .number(micros(failed.delay))
            .flag(failed.give_up)
            .arg(failed.error_cut())
    };
    failed.iter().fold(once(Script::QueueRetry, queue, op), add)
}

pub(crate) fn read_retried(reply: Reply) -> Result<Vec<Retried>> {
    let mut fields = reply.list()?;
    let mut answers = Vec::new();
    while !fields.is_empty() {
        let (outcome, due) = (fields.int()?, fields.int()?);
        answers.push(match outcome {
            0 => Retried::Stale,
            1 => Retried::Scheduled { due: Timestamp::from_micros(due) },
            2 => Retried::Dead,
            3 => Retried::Requeued,
            4 => Retried::Cancelled,
            _ => return Err(strange("an unknown outcome")),
        });
    }
    Ok(answers)
}

pub(crate) fn release_tasks(op: Op, queue: &QueueName, back: &[TaskRelease]) -> Call {
    let add = |call: Call, back: &TaskRelease| {
        call.arg(back.ticket.id.as_str()).number(claim_number(&back.ticket)).number(micros(back.delay))
    };
    back.iter().fold(once(Script::QueueRelease, queue, op), add)
}

pub(crate) fn read_tasks_released(reply: Reply) -> Result<Vec<TaskReleased>> {
    read_outcomes(reply, &[TaskReleased::Stale, TaskReleased::Waiting, TaskReleased::Cancelled])
}

pub(crate) fn extend(queue: &QueueName, beats: &[Heartbeat], lease: Lease) -> Call {
    let add = |call: Call, beat: &Heartbeat| {
        let call = call.arg(beat.ticket.id.as_str()).number(claim_number(&beat.ticket));
        let note = beat.progress.as_ref().map_or("", |progress| &progress.note);
        let percent = beat.progress.as_ref().and_then(|progress| progress.percent);
        let percent = percent.map(|percent| percent.to_string()).unwrap_or_default();
        call.flag(beat.progress.is_some()).arg(percent).arg(note)
    };
    beats.iter().fold(call(Script::QueueExtend, queue).number(lease.as_micros()), add)
}

pub(crate) fn read_extended(reply: Reply) -> Result<Vec<TaskExtended>> {
    read_outcomes(reply, &[TaskExtended::Lost, TaskExtended::Extended, TaskExtended::Cancelled])
}

pub(crate) fn dequeue(op: Op, queue: &QueueName, ticket: &Ticket) -> Call {
    once(Script::QueueDequeue, queue, op)
        .arg(ticket.id.as_str())
        .number(ticket.revision.as_u64())
        .number(claim_number(ticket))
}

pub(crate) fn read_dequeued(reply: Reply) -> Result<Dequeued> {
    read_outcome(reply, &[Dequeued::Stale, Dequeued::Removed, Dequeued::Leased])
}

pub(crate) fn cancel(op: Op, queue: &QueueName, id: &TaskId) -> Call {
    once(Script::QueueCancel, queue, op).arg(id.as_str())
}

pub(crate) fn read_cancelled(reply: Reply) -> Result<Cancelled> {
    read_outcome(reply, &[Cancelled::NotFound, Cancelled::Removed, Cancelled::Marked])
}

pub(crate) fn unique_until(queue: &QueueName, id: &TaskId) -> Call {
    Call::new(Script::QueueUniqueUntil, [keys::unique(queue)]).arg(id.as_str())
}

pub(crate) fn read_unique_until(reply: Reply) -> Result<Option<Timestamp>> {
    let until = reply.int()?;
    Ok((until > 0).then(|| Timestamp::from_micros(until)))
}

pub(crate) fn clear_unique(op: Op, queue: &QueueName, id: &TaskId) -> Call {
    let keys = [keys::unique(queue)].into_iter().chain(keys::replays(queue, op.client()));
    Call::new(Script::QueueClearUnique, keys).arg(&op.to_bytes()[8..]).arg(id.as_str())
}

pub(crate) fn read_unique_cleared(reply: Reply) -> Result<UniqueCleared> {
    let until = reply.list()?.int()?;
    Ok(match until {
        0 => UniqueCleared::NotFound,
        until => UniqueCleared::Cleared { until: Timestamp::from_micros(until) },
    })
}

pub(crate) fn close_batch(op: Op, queue: &QueueName, id: &TaskId) -> Call {
    once(Script::QueueCloseBatch, queue, op).arg(id.as_str())
}

pub(crate) fn read_closed(reply: Reply) -> Result<Closed> {
    let mut fields = reply.list()?;
    Ok(match (fields.int()?, fields.int()?) {
        (0, _) => Closed::NotFound,
        (1, left) => Closed::Closed { left },
        (2, _) => Closed::NotOpen,
        _ => return Err(strange("an unknown outcome")),
    })
}

pub(crate) fn waits(queue: &QueueName, id: &TaskId) -> Call {
    call(Script::QueueWaits, queue).arg(id.as_str())
}

pub(crate) fn read_waits(reply: Reply) -> Result<Option<Waits>> {
    let mut fields = reply.list()?;
    if fields.is_empty() {
        return Ok(None);
    }
    let mut waits = Waits {
        open: fields.int()? == 1,
        if_dead: match fields.int()? {
            0 => IfDead::Wait,
            1 => IfDead::Fail,
            2 => IfDead::Run,
            _ => return Err(strange("an unknown policy")),
        },
        left: fields.int()?,
        over: fields.int()?,
        dead: fields.int()?,
        first: Vec::new(),
    };
    while !fields.is_empty() {
        let (id, is_dead, error) = (TaskId::as_stored(fields.text()?)?, fields.int()? == 1, fields.text()?);
        waits.first.push(WaitsFor { id, error: is_dead.then_some(error) });
    }
    Ok(Some(waits))
}

pub(crate) fn waited(queue: &QueueName, id: &TaskId, after: &str, limit: u32) -> Call {
    call(Script::QueueWaited, queue).arg(id.as_str()).arg(after).number(limit.into())
}

/// Finished dependencies, packed as in `lua/include/queue.lua`.
pub(crate) fn read_waited(reply: Reply) -> Result<Vec<Waited>> {
    let mut fields = reply.list()?;
    let mut all = Vec::new();
    while !fields.is_empty() {
        let id = TaskId::as_stored(fields.text()?)?;
        let packed = fields.bytes()?;
        let mut packed = Packed(&packed);
        let at = Timestamp::from_micros(packed.number(7)?);
        let end = match packed.number(1)? {
            0 => TaskEnd::Done,
            1 => TaskEnd::Discarded,
            2 => TaskEnd::Cancelled,
            3 => TaskEnd::Dropped,
            4 => TaskEnd::Popped,
            5 => TaskEnd::Deleted,
            6 => TaskEnd::Dead,
            _ => return Err(strange("an unknown end of a task")),
        };
        let (mut result, mut error) = (None, None);
        if end == TaskEnd::Dead {
            error = Some(str_of(packed.0)?.to_owned());
        } else if !packed.0.is_empty() {
            result = Some(read_body(packed)?);
        }
        all.push(Waited { id, end, at, result, error });
    }
    Ok(all)
}

/// `over` restricts the answer to finished tasks.
pub(crate) fn tasks<'a>(queue: &QueueName, over: bool, ids: impl IntoIterator<Item = &'a TaskId>) -> Call {
    ids.into_iter().fold(call(Script::QueueTasks, queue).flag(over), |call, id| call.arg(id.as_str()))
}

pub(crate) fn read_infos(reply: Reply) -> Result<Vec<TaskInfo>> {
    let mut fields = reply.list()?;
    let now = Timestamp::from_micros(fields.int()?);
    let mut infos = Vec::new();
    while !fields.is_empty() {
        let id = TaskId::as_stored(fields.text()?)?;
        let (record, run) = (fields.bytes()?, fields.bytes()?);
        if record.is_empty() {
            fields.next()?;
            infos.push(read_finished(id, Packed(&run))?);
            continue;
        }
        let row = unpack_row(id, Packed(&record), &run)?;
        let not_before = match fields.next()? {
            _ if row.leased => None,
            Reply::Bytes(blocked) if blocked.is_empty() => None,
            moment if row.task.key.is_some() => Some(Timestamp::from_micros(moment.int()?)),
            _ => Some(row.task.ticket.due),
        };
        infos.push(TaskInfo {
            state: match not_before {
                _ if row.leased => TaskState::Leased,
                None => TaskState::Blocked,
                Some(at) if at <= now => TaskState::Ready,
                Some(_) => TaskState::Scheduled,
            },
            waits: row.held,
            not_before,
            lease_until: row.leased.then_some(row.lease_until),
            worker: row.leased.then_some(row.worker),
            replaced: row.replaced,
            cancelled: row.cancelled,
            progress: row.progress.filter(|_| row.leased),
            past: row.past,
            finished: None,
            error: row.error,
            task: row.task,
        });
    }
    Ok(infos)
}

/// A finished task, packed as in `lua/include/queue.lua`.
fn read_finished(id: TaskId, mut kept: Packed<'_>) -> Result<TaskInfo> {
    let at = Timestamp::from_micros(kept.number(7)?);
    let how = match kept.number(1)? {
        0 => Finish::Done,
        1 => Finish::Discarded,
        2 => Finish::Cancelled,
        3 => Finish::Dropped,
        _ => return Err(strange("an unknown end of a task")),
    };
    let length = kept.number(4)? as usize;
    let result = kept.take(length)?;
    let result = (!result.is_empty()).then(|| read_body(Packed(result))).transpose()?;
    let length = kept.number(4)? as usize;
    let run = kept.take(length)?;
    let row = unpack_row(id, kept, run)?;
    Ok(TaskInfo {
        state: TaskState::Done,
        waits: false,
        not_before: None,
        lease_until: None,
        worker: row.leased.then_some(row.worker),
        progress: None,
        replaced: false,
        cancelled: false,
        error: row.error,
        past: row.past,
        finished: Some(Finished { at, how, result }),
        task: row.task,
    })
}

pub(crate) fn reap(queue: &QueueName) -> Call {
    call(Script::QueueReap, queue)
}

pub(crate) fn stats(queue: &QueueName) -> Call {
    call(Script::QueueStats, queue)
}

pub(crate) fn read_stats(reply: Reply) -> Result<QueueStats> {
    let mut fields = reply.list()?;
    let stats = QueueStats {
        ready: fields.int()?,
        scheduled: fields.int()?,
        leased: fields.int()?,
        blocked: fields.int()?,
        dead: fields.int()?,
        done: fields.int()?,
        dropped: fields.int()?,
        lag_ms: fields.int()? / 1_000,
        rate_until: optional(fields.next()?)?.map(Timestamp::from_micros),
        last_claim: Some(fields.int()?).filter(|claim| *claim > 0).map(Timestamp::from_micros),
        paused: fields.int()? == 1,
        limits: QueueLimits::default(),
    };
    let bound = optional(fields.next()?)?;
    let limits = QueueLimits { bound, ..read_limits(&fields.text()?)? };
    Ok(QueueStats { limits, ..stats })
}

/// The limits without the capacity, as `lua/queue/limit.lua` writes them.
pub(crate) fn read_limits(text: &str) -> Result<QueueLimits> {
    let words: Vec<_> = text.split_whitespace().collect();
    let [concurrency, n, us, key_concurrency, key_n, key_us, fifo, age, count, overflow, events] = words[..]
    else {
        return if words.is_empty() { Ok(QueueLimits::default()) } else { Err(strange("unknown limits")) };
    };
    let number = |word: &str| match word {
        "-" => Ok(None),
        word => word.parse::<u64>().map(Some).map_err(|_| strange("not a number")),
    };
    let small = |word| Ok(number(word)?.and_then(|n| u32::try_from(n).ok()));
    let rate = |n, us| -> Result<Option<Rate>> {
        Ok(small(n)?.zip(number(us)?).map(|(n, us)| Rate::new(n, Duration::from_micros(us))))
    };
    let (concurrency, key_concurrency): (Result<_>, Result<_>) = (small(concurrency), small(key_concurrency));
    let per_key = KeyLimits { concurrency: key_concurrency?, rate: rate(key_n, key_us)?, fifo: fifo == "1" };
    let retention = number(age)?.zip(small(count)?);
    let retention = retention.map(|(us, count)| Retention::new(Duration::from_micros(us), count));
    let overflow = match overflow {
        "0" => Overflow::Refuse,
        "1" => Overflow::DropNew,
        "2" => Overflow::DropOldest,
        _ => return Err(strange("an unknown overflow")),
    };
    let rate = rate(n, us)?;
    let events = small(events)?;
    Ok(QueueLimits { bound: None, overflow, concurrency: concurrency?, rate, per_key, retention, events })
}

pub(crate) fn set_paused(queue: &QueueName, paused: bool) -> Call {
    call(Script::QueuePause, queue).flag(paused)
}

pub(crate) fn limit(queue: &QueueName, limits: QueueLimits) -> Call {
    let QueueLimits { bound, overflow, concurrency, rate, per_key, retention, events } = limits;
    let bound = bound.map(|bound| bound.min(MOMENT_MAX));
    let small = |number: Option<u32>| number.map(u64::from);
    let of_rate = |rate: Option<Rate>| rate.map(|rate| (u64::from(rate.n), micros(rate.per))).unzip();
    let ((n, us), (key_n, key_us)) = (of_rate(rate), of_rate(per_key.rate));
    let words = [bound, small(concurrency), n, us, small(per_key.concurrency), key_n, key_us];
    let text = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let call = words.into_iter().fold(call(Script::QueueLimit, queue), |call, word| call.arg(text(word)));
    let (age, count) = retention.map(|keep| (micros(keep.age), keep.count.into())).unzip();
    let overflow = match overflow {
        Overflow::Refuse => 0,
        Overflow::DropNew => 1,
        Overflow::DropOldest => 2,
    };
    let call = call.flag(per_key.fifo).arg(text(age)).arg(text(count)).number(overflow);
    call.arg(text(small(events)))
}

pub(crate) fn dead(queue: &QueueName, after: &str, limit: u32) -> Call {
    call(Script::QueueDead, queue).arg(after).number(limit.into())
}

pub(crate) fn dead_letter(queue: &QueueName, id: &TaskId) -> Call {
    call(Script::QueueDeadLetter, queue).arg(id.as_str())
}

pub(crate) fn read_dead_letter(reply: Reply) -> Result<Option<DeadLetter>> {
    Ok(read_dead(reply)?.pop())
}

pub(crate) fn read_dead(reply: Reply) -> Result<Vec<DeadLetter>> {
    let mut fields = reply.list()?;
    let mut letters = Vec::new();
    while !fields.is_empty() {
        let id = TaskId::as_stored(fields.text()?)?;
        let letter = fields.bytes()?;
        let mut letter = Packed(&letter);
        let died_at = Timestamp::from_micros(letter.number(7)?);
        let (attempts, max_attempts) = (letter.small(2)?, letter.small(2)?);
        let byte = letter.number(1)?;
        let (byte, has_past) = (byte % PAST_BEFORE, byte >= PAST_BEFORE);
        let length = letter.number(2)? as usize;
        let error = str_of(letter.take(length)?)?.to_owned();
        let past = if has_past { read_past(&mut letter)? } else { Vec::new() };
        let (priority, key) = read_line(byte, &mut letter)?;
        let payload = read_body(letter)?;
        letters.push(DeadLetter { id, payload, priority, attempts, max_attempts, error, died_at, key, past });
    }
    Ok(letters)
}

fn with_selection(call: Call, which: &Selection) -> Call {
    match which {
        Selection::All => call.flag(true),
        Selection::Ids(ids) => {
            let mut ids: Vec<_> = ids.iter().collect();
            ids.sort();
            ids.dedup();
            ids.into_iter().fold(call.flag(false), |call, id| call.arg(id.as_str()))
        }
    }
}

pub(crate) fn requeue_dead(op: Op, queue: &QueueName, which: &Selection) -> Call {
    with_selection(once(Script::QueueRequeueDead, queue, op), which)
}

pub(crate) fn read_dead_requeued(reply: Reply) -> Result<DeadRequeued> {
    let mut fields = reply.list()?;
    Ok(DeadRequeued { requeued: fields.int()?, kept: fields.int()? })
}

pub(crate) fn delete_dead(op: Op, queue: &QueueName, which: &Selection) -> Call {
    with_selection(once(Script::QueueDeleteDead, queue, op), which)
}

pub(crate) fn read_dead_deleted(reply: Reply) -> Result<u64> {
    reply.list()?.int()
}

pub(crate) fn listen(queue: &QueueName, inbox: u64, seen: Option<u64>) -> Call {
    let seen = seen.map(|seen| seen.to_string()).unwrap_or_default();
    call(Script::QueueListen, queue).arg(format!("{inbox:016x}")).arg(seen)
}

/// Wake-ups missed, and the wake-up count.
pub(crate) fn read_listening(reply: Reply) -> Result<(u64, u64)> {
    let mut fields = reply.list()?;
    Ok((fields.int()?, fields.int()?))
}

pub(crate) fn watch(queue: &QueueName, inbox: u64, id: &TaskId) -> Call {
    call(Script::QueueWatch, queue).arg(format!("{inbox:016x}")).arg(id.as_str())
}

pub(crate) fn follow(queue: &QueueName, inbox: u64, after: u64) -> Call {
    call(Script::QueueFollow, queue).arg(format!("{inbox:016x}")).number(after.min(MOMENT_MAX))
}

pub(crate) fn events(queue: &QueueName, after: u64, limit: u32) -> Call {
    call(Script::QueueEvents, queue).number(after.min(MOMENT_MAX)).number(limit.into())
}

pub(crate) fn read_events(reply: Reply) -> Result<TaskEvents> {
    let mut fields = reply.list()?;
    let (first, last, mut seq) = (fields.int()?, fields.int()?, fields.int()?);
    let mut events = Vec::new();
    while !fields.is_empty() {
        events.push(read_event(seq, Packed(&fields.bytes()?))?);
        seq += 1;
    }
    Ok(TaskEvents { events, first, last })
}

/// An event, packed as in `lua/include/queue.lua`.
fn read_event(seq: u64, mut event: Packed<'_>) -> Result<TaskEvent> {
    let at = Timestamp::from_micros(event.number(7)?);
    let (what, attempt) = (event.number(1)?, event.small(2)?);
    let due = Timestamp::from_micros(event.number(7)?);
    let length = event.number(1)? as usize;
    let id = TaskId::as_stored(str_of(event.take(length)?)?)?;
    let text = || Ok::<_, Error>(str_of(event.0)?.to_owned());
    let what = match what {
        0 => TaskChange::Done { attempt },
        1 => TaskChange::Discarded { attempt },
        2 => TaskChange::Cancelled,
        3 => TaskChange::Dropped,
        4 => TaskChange::Popped,
        5 => TaskChange::Deleted,
        6 => TaskChange::Dead { attempt, error: text()? },
        7 => TaskChange::Added { due },
        8 => TaskChange::Replaced { due },
        9 => TaskChange::Claimed { attempt, worker: text()? },
        10 => TaskChange::Requeued { attempt },
        11 => TaskChange::Failed { attempt, due, error: text()? },
        12 => TaskChange::Lost { attempt },
        13 => TaskChange::Released { attempt, due },
        14 => TaskChange::CancelAsked,
        15 => TaskChange::DeadRequeued,
        16 => TaskChange::DeadDeleted,
        _ => return Err(strange("an unknown event")),
    };
    Ok(TaskEvent { seq, at, id, what })
}

pub(crate) fn ring(queue: &QueueName) -> Call {
    call(Script::QueueRing, queue)
}

impl QueueSet {
    /// The task ID in a member of the set, behind a prefix of known length: a place (7 bytes), a claim (8), a key with
    /// priority, due time and place, or a mark and a moment (8). `None` for a dead letter and for members that index
    /// tasks otherwise.
    pub(crate) fn id(self, member: &[u8]) -> Result<Option<TaskId>> {
        let skipped = match self {
            Self::Waiting => 7,
            Self::Leases => 8,
            Self::Lines => {
                let end = member.iter().position(|byte| *byte == 0);
                end.ok_or_else(|| strange("no key"))? + 16
            }
            Self::Over if member.first() == Some(&0) => 8,
            Self::Over => return Ok(None),
        };
        let mut member = Packed(member);
        member.take(skipped)?;
        TaskId::as_stored(str_of(member.0)?).map(Some)
    }
}
