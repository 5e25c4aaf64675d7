//! The verbs of a queue: what each sends, and how its answer is read.

use std::time::Duration;

use rushgate_core::{
    Cancelled, Claim, Claimed, Completed, ContentType, DeadLetter, Dequeued, Due, Enqueued, Fence, GivenBack,
    Lease, NewTask, OnDuplicate, Op, Payload, Priority, QueueLimits, QueueName, QueueStats, Result, Retried,
    Retry, Revision, Revived, Selection, Task, TaskExtended, TaskId, TaskInfo, TaskState, Ticket, Timestamp,
};

use crate::command::{Call, Command};
use crate::keys;
use crate::reply::{Fields, Packed, Reply, str_of, strange};
use crate::scripts::Script;
use crate::store::micros;

/// So many bytes are as much work as one task more.
const BYTES_OF_ONE: u32 = 4_096;
/// Moments are kept below 2^53 µs, the year 2255, because scripts count in doubles.
pub(crate) const MOMENT_MAX: u64 = (1 << 53) - 1;

fn call(script: Script, queue: &QueueName) -> Call {
    Call::new(script, keys::queue(queue))
}

/// A call that is answered once.
fn once(script: Script, queue: &QueueName, op: Op) -> Call {
    let keys = keys::queue(queue).chain(keys::replays(queue, op.client()));
    Call::new(script, keys).arg(&op.to_bytes()[8..])
}

/// The length of the content type in one byte and the type, then the payload. The two common types have a byte of
/// their own.
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
        n => ContentType::new(str_of(body.take(n as usize)?)?)?,
    };
    Payload::new(content_type, body.0)
}

/// What a task asks for, in words that are the same for most.
fn terms(task: &NewTask) -> String {
    let due = match task.due {
        Due::Now => "+0".to_owned(),
        Due::After(delay) => format!("+{}", micros(delay)),
        Due::At(at) => at.as_micros().min(MOMENT_MAX).to_string(),
    };
    let (mode, max_wait) = match task.on_duplicate {
        OnDuplicate::Keep => (0, 0),
        OnDuplicate::Replace => (1, 0),
        OnDuplicate::Earliest => (2, 0),
        OnDuplicate::Debounce { max_wait } => (3, micros(max_wait)),
    };
    format!("{due} {} {mode} {max_wait} {}", task.priority.get(), task.max_attempts)
}

/// A request that others may join in one call: the op stands before its first item, and nothing before the others.
fn joined(script: Script, queue: &QueueName, op: Op, items: impl Iterator<Item = Command>) -> Call {
    let keys = keys::queue(queue).chain(keys::replays(queue, op.client()));
    let (mut args, mut n, bytes) = (Command::default(), 0, op.to_bytes());
    let mut of_request = &bytes[8..];
    for item in items {
        args.push(of_request);
        args.extend(&item);
        (of_request, n) = (b"", n + 1);
    }
    let weight = n + args.len() as u32 / BYTES_OF_ONE;
    Call::new(script, keys).item(weight, args)
}

pub(crate) fn enqueue(op: Op, queue: &QueueName, tasks: &[NewTask]) -> Call {
    let item = |task: &NewTask| {
        Command::default().arg(task.id.as_str()).arg(terms(task)).arg(write_body(&task.payload))
    };
    joined(Script::QueueEnqueue, queue, op, tasks.iter().map(item))
}

pub(crate) fn read_enqueued(reply: Reply) -> Result<Vec<Enqueued>> {
    let mut fields = reply.list()?;
    let mut answers = Vec::new();
    while !fields.is_empty() {
        let (outcome, number) = (fields.int()?, fields.int()?);
        let revision = Revision::from_u64(number);
        answers.push(match outcome {
            1 => Enqueued::Added { revision },
            2 => Enqueued::Kept { revision },
            3 => Enqueued::Replaced { revision },
            4 => Enqueued::Full { bound: number },
            _ => return Err(strange("an unknown outcome")),
        });
    }
    Ok(answers)
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

/// A task's record and run, as `lua/include/queue.lua` packs them.
struct Row {
    task: Task,
    leased: bool,
    replaced: bool,
    cancelled: bool,
    lease_until: Timestamp,
    worker: String,
    error: Option<String>,
}

fn read_row(fields: &mut Fields) -> Result<Row> {
    let id = TaskId::new(fields.text()?)?;
    let (record, run) = (fields.bytes()?, fields.bytes()?);
    let mut record = Packed(&record);
    record.take(6)?;
    let turn = record.number(1)?;
    let revision = Revision::from_u64(record.number(6)? + turn);
    record.take(7)?;
    let due = Timestamp::from_micros(record.number(7)?);
    let priority = Priority::new(record.number(1)? as u8)?;
    let max_attempts = record.small(2)?;
    let payload = read_body(record)?;
    let ticket = Ticket { id, due, revision, claim: None };
    let mut row = Row {
        task: Task { ticket, payload, priority, attempt: 0, max_attempts },
        leased: false,
        replaced: false,
        cancelled: false,
        lease_until: Timestamp::default(),
        worker: String::new(),
        error: None,
    };
    if !run.is_empty() {
        add_run(&mut row, Packed(&run))?;
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
    row.error = (flags & 4 != 0).then(|| str_of(run.0).map(str::to_owned)).transpose()?;
    Ok(())
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

/// What a claim gives, and the queue's count of wake-ups.
pub(crate) fn read_claimed(reply: Reply) -> Result<(Claimed, u64)> {
    let mut fields = reply.list()?;
    let next_due = match fields.next()? {
        Reply::Bytes(none) if none.is_empty() => None,
        other => Some(Duration::from_micros(other.int()?)),
    };
    let wakes = fields.int()?;
    Ok((Claimed { tasks: rest_of_tasks(&mut fields)?, next_due }, wakes))
}

fn claim_number(ticket: &Ticket) -> u64 {
    ticket.claim.map_or(0, Fence::as_u64)
}

fn with_tickets(call: Call, tickets: &[Ticket]) -> Call {
    tickets.iter().fold(call, |call, ticket| call.arg(ticket.id.as_str()).number(claim_number(ticket)))
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

pub(crate) fn complete(op: Op, queue: &QueueName, tickets: &[Ticket]) -> Call {
    let item =
        |ticket: &Ticket| Command::default().arg(ticket.id.as_str()).arg(claim_number(ticket).to_string());
    joined(Script::QueueComplete, queue, op, tickets.iter().map(item))
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

pub(crate) fn give_back(op: Op, queue: &QueueName, tickets: &[Ticket]) -> Call {
    with_tickets(once(Script::QueueGiveBack, queue, op), tickets)
}

pub(crate) fn read_given_back(reply: Reply) -> Result<Vec<GivenBack>> {
    read_outcomes(reply, &[GivenBack::Stale, GivenBack::Waiting, GivenBack::Cancelled])
}

pub(crate) fn extend(queue: &QueueName, tickets: &[Ticket], lease: Lease) -> Call {
    with_tickets(call(Script::QueueExtend, queue).number(lease.as_micros()), tickets)
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

pub(crate) fn tasks<'a>(queue: &QueueName, ids: impl IntoIterator<Item = &'a TaskId>) -> Call {
    ids.into_iter().fold(call(Script::QueueTasks, queue), |call, id| call.arg(id.as_str()))
}

pub(crate) fn read_infos(reply: Reply) -> Result<Vec<TaskInfo>> {
    let mut fields = reply.list()?;
    let now = Timestamp::from_micros(fields.int()?);
    let mut infos = Vec::new();
    while !fields.is_empty() {
        let row = read_row(&mut fields)?;
        infos.push(TaskInfo {
            state: match row.leased {
                true => TaskState::Leased,
                false if row.task.ticket.due <= now => TaskState::Ready,
                false => TaskState::Scheduled,
            },
            lease_until: row.leased.then_some(row.lease_until),
            worker: row.leased.then_some(row.worker),
            replaced: row.replaced,
            cancelled: row.cancelled,
            error: row.error,
            task: row.task,
        });
    }
    Ok(infos)
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
        dead: fields.int()?,
        oldest_due_us: fields.int()?,
        paused: fields.int()? == 1,
        limits: QueueLimits::default(),
    };
    let bound = match fields.next()? {
        Reply::Bytes(none) if none.is_empty() => None,
        other => Some(other.int()?),
    };
    Ok(QueueStats { limits: QueueLimits { bound }, ..stats })
}

pub(crate) fn pause(queue: &QueueName, paused: bool) -> Call {
    call(Script::QueuePause, queue).flag(paused)
}

pub(crate) fn limit(queue: &QueueName, limits: QueueLimits) -> Call {
    let bound = limits.bound.map(|bound| bound.min(MOMENT_MAX).to_string());
    call(Script::QueueLimit, queue).arg(bound.unwrap_or_default())
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
        let id = TaskId::new(fields.text()?)?;
        let letter = fields.bytes()?;
        let mut letter = Packed(&letter);
        let died_at = Timestamp::from_micros(letter.number(7)?);
        let (attempts, max_attempts) = (letter.small(2)?, letter.small(2)?);
        let priority = Priority::new(letter.number(1)? as u8)?;
        let length = letter.number(2)? as usize;
        let error = str_of(letter.take(length)?)?.to_owned();
        let payload = read_body(letter)?;
        letters.push(DeadLetter { id, payload, priority, attempts, max_attempts, error, died_at });
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

pub(crate) fn revive(op: Op, queue: &QueueName, which: &Selection) -> Call {
    with_selection(once(Script::QueueRevive, queue, op), which)
}

pub(crate) fn read_revived(reply: Reply) -> Result<Revived> {
    let mut fields = reply.list()?;
    Ok(Revived { revived: fields.int()?, kept: fields.int()? })
}

pub(crate) fn bury(op: Op, queue: &QueueName, which: &Selection) -> Call {
    with_selection(once(Script::QueueBury, queue, op), which)
}

pub(crate) fn read_buried(reply: Reply) -> Result<u64> {
    reply.list()?.int()
}

pub(crate) fn listen(queue: &QueueName, inbox: u64, seen: Option<u64>) -> Call {
    let seen = seen.map(|seen| seen.to_string()).unwrap_or_default();
    call(Script::QueueListen, queue).arg(format!("{inbox:016x}")).arg(seen)
}

/// Wake-ups that were missed, and wake-ups in all.
pub(crate) fn read_listening(reply: Reply) -> Result<(u64, u64)> {
    let mut fields = reply.list()?;
    Ok((fields.int()?, fields.int()?))
}

pub(crate) fn ring(queue: &QueueName) -> Call {
    call(Script::QueueRing, queue)
}

/// The id in a member of one of the queue's sets: behind a number of seven bytes where tasks wait, of eight where
/// they are leased.
pub(crate) fn member_id(member: &[u8], leased: bool) -> Result<TaskId> {
    let mut member = Packed(member);
    member.take(if leased { 8 } else { 7 })?;
    TaskId::new(str_of(member.0)?)
}
