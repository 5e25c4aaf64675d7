//! Queue operations: encodes requests and decodes answers.

mod dead;
mod event;
mod look;
pub(crate) mod row;

use std::time::Duration;

use rushgate_core::{
    Claimed, Closed, Coded, Completion, ContentType, Due, Enqueued, Fence, Heartbeat, NewTask, OnDuplicate,
    Op, Payload, QueueName, Rescheduled, Result, Retried, Retry, Revision, TaskId, TaskRelease, Ticket,
    Timestamp, UniqueCleared, verb,
};

use crate::command::micros;
use crate::command::{Call, Command};
use crate::function::Function;
use crate::keys;
use crate::reply::{Fields, Reply, coded, nonzero, strange};

pub(crate) use dead::{
    dead, dead_letter, delete_dead, read_dead, read_dead_deleted, read_dead_letter, read_dead_requeued,
    requeue_dead,
};
pub(crate) use event::{events, follow, listen, read_events, read_listening, ring, watch};
pub(crate) use look::{
    dependents, limit, read_dependents, read_stats, read_task, read_task_page, read_waited, read_waits,
    stats, task, tasks, waited, waits,
};
pub(crate) use row::{read_body, read_tasks};

use row::next_task;

/// How many bytes count as much work as one more task.
const BYTES_OF_ONE: u32 = 4_096;
/// Moments are limited to 2^53 - 1 µs, in the year 2255, because Lua calculates with doubles.
pub(crate) const MOMENT_MAX: u64 = (1 << 53) - 1;

fn call(function: Function, queue: &QueueName) -> Call {
    Call::new(function, [keys::queue(queue)])
}

/// A request with an op, which is executed once.
fn once(function: Function, queue: &QueueName, op: Op) -> Call {
    let keys = [keys::queue(queue), keys::replays(queue, op.client())];
    Call::new(function, keys).arg(&op.to_bytes()[8..])
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

fn moment(of: Due) -> String {
    match of {
        Due::Now => "+0".to_owned(),
        Due::After(delay) => format!("+{}", micros(delay)),
        Due::At(at) => at.as_micros().min(MOMENT_MAX).to_string(),
    }
}

/// The terms of a task. Most tasks of a call have equal terms, which the function parses once.
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
    let if_dead = task.if_dead.code();
    let whole = task.part_of.as_ref().map(|whole| format!(" {whole}")).unwrap_or_default();
    let others: String = task.after.iter().map(|id| format!("\n{id}")).collect();
    format!("\n{if_dead}{}{whole}{others}", u8::from(task.held_open))
}

/// A request that can share its call with others. Its weight is the number of its items plus `more`. The first
/// item carries the op, the others an empty one.
fn joined(
    function: Function,
    queue: &QueueName,
    op: Op,
    more: usize,
    items: impl Iterator<Item = Command>,
) -> Call {
    let keys = [keys::queue(queue), keys::replays(queue, op.client())];
    let (mut args, mut n, bytes) = (Command::default(), 0, op.to_bytes());
    let mut of_request = &bytes[8..];
    for item in items {
        args.push(of_request);
        args.extend(&item);
        (of_request, n) = (b"", n + 1);
    }
    let weight = n + more as u32 + args.len() as u32 / BYTES_OF_ONE;
    Call::new(function, keys).item(weight, args)
}

pub(crate) fn enqueue(op: Op, queue: &QueueName, tasks: &[NewTask]) -> Call {
    let item = |task: &NewTask| {
        Command::default().arg(task.id.as_str()).arg(terms(task)).arg(write_body(&task.payload))
    };
    // Each dependency is looked up and linked.
    let others: usize = tasks.iter().map(|task| task.after.len()).sum();
    joined(Function::QueueEnqueue, queue, op, others, tasks.iter().map(item)).group(keys::unique(queue))
}

pub(crate) fn read_enqueued(reply: Reply) -> Result<Vec<Enqueued>> {
    reply.list()?.each(read_put)
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
        8 => Enqueued::Refused { why: coded(number)?, task: TaskId::as_stored(fields.text()?)? },
        _ => return Err(strange("an unknown outcome")),
    })
}

pub(crate) fn top(verb: &verb::Top) -> Call {
    call(Function::QueueTop, &verb.queue).number(verb.n.into())
}

pub(crate) fn pop(verb: &verb::Pop) -> Call {
    once(Function::QueuePop, &verb.queue, verb.op).number(verb.n.into())
}

pub(crate) fn claim(verb: &verb::Claim) -> Call {
    let claim = &verb.claim;
    let request = Command::default()
        .arg(claim.n.to_string())
        .arg(claim.lease.as_micros().to_string())
        .arg(&claim.worker);
    joined(Function::QueueClaim, &verb.queue, verb.op, claim.n as usize, std::iter::once(request))
}

/// The claimed tasks, and the queue's wake-up count.
pub(crate) fn read_claimed(reply: Reply) -> Result<(Claimed, u64)> {
    let mut fields = reply.list()?;
    let next_due = fields.optional()?.map(Duration::from_micros);
    let wakes = fields.int()?;
    Ok((Claimed { tasks: fields.each(next_task)?, next_due }, wakes))
}

fn claim_number(ticket: &Ticket) -> u64 {
    ticket.claim.map_or(0, Fence::as_u64)
}

/// Most completions have no result, and use a function without the arguments for one.
pub(crate) fn complete(verb: &verb::Complete) -> Call {
    let verb::Complete { op, queue, done } = verb;
    let of =
        |ticket: &Ticket| Command::default().arg(ticket.id.as_str()).arg(claim_number(ticket).to_string());
    if done.iter().all(|one| one.result.is_none() && !one.discarded) {
        return joined(Function::QueueComplete, queue, *op, 0, done.iter().map(|one| of(&one.ticket)));
    }
    let item = |one: &Completion| {
        let result = one.result.as_ref().map(write_body).unwrap_or_default();
        of(&one.ticket).arg(if one.discarded { "1" } else { "0" }).arg(result)
    };
    joined(Function::QueueFinish, queue, *op, 0, done.iter().map(item))
}

pub(crate) fn retry(verb: &verb::Retry) -> Call {
    let add = |call: Call, failed: &Retry| {
        call.arg(failed.ticket.id.as_str())
            .number(claim_number(&failed.ticket))
            .number(micros(failed.delay))
            .flag(failed.give_up)
            .arg(failed.error_cut())
    };
    verb.failed.iter().fold(once(Function::QueueRetry, &verb.queue, verb.op), add)
}

pub(crate) fn read_retried(reply: Reply) -> Result<Vec<Retried>> {
    reply.list()?.each(|fields| match (fields.int()?, fields.int()?) {
        (0, _) => Ok(Retried::Stale),
        (1, due) => Ok(Retried::Scheduled { due: Timestamp::from_micros(due) }),
        (2, _) => Ok(Retried::Dead),
        (3, _) => Ok(Retried::Requeued),
        (4, _) => Ok(Retried::Cancelled),
        _ => Err(strange("an unknown outcome")),
    })
}

pub(crate) fn release_tasks(verb: &verb::ReleaseTasks) -> Call {
    let add = |call: Call, back: &TaskRelease| {
        call.arg(back.ticket.id.as_str()).number(claim_number(&back.ticket)).number(micros(back.delay))
    };
    verb.back.iter().fold(once(Function::QueueRelease, &verb.queue, verb.op), add)
}

pub(crate) fn extend(verb: &verb::ExtendTasks) -> Call {
    let add = |call: Call, beat: &Heartbeat| {
        let call = call.arg(beat.ticket.id.as_str()).number(claim_number(&beat.ticket));
        let note = beat.progress.as_ref().map_or("", |progress| &progress.note);
        let percent = beat.progress.as_ref().and_then(|progress| progress.percent);
        let percent = percent.map(|percent| percent.to_string()).unwrap_or_default();
        call.flag(beat.progress.is_some()).arg(percent).arg(note)
    };
    let call = call(Function::QueueExtend, &verb.queue).number(verb.lease.as_micros());
    verb.beats.iter().fold(call, add)
}

pub(crate) fn dequeue(verb: &verb::Dequeue) -> Call {
    once(Function::QueueDequeue, &verb.queue, verb.op)
        .arg(verb.ticket.id.as_str())
        .number(verb.ticket.revision.as_u64())
        .number(claim_number(&verb.ticket))
}

pub(crate) fn cancel(verb: &verb::Cancel) -> Call {
    once(Function::QueueCancel, &verb.queue, verb.op).arg(verb.id.as_str())
}

pub(crate) fn reschedule(verb: &verb::Reschedule) -> Call {
    let (time, from_now) = match verb.due {
        Due::Now => (0, true),
        Due::After(delay) => (micros(delay), true),
        Due::At(at) => (at.as_micros().min(MOMENT_MAX), false),
    };
    once(Function::QueueReschedule, &verb.queue, verb.op).arg(verb.id.as_str()).number(time).flag(from_now)
}

pub(crate) fn read_rescheduled(reply: Reply) -> Result<Rescheduled> {
    let mut fields = reply.list()?;
    let (outcome, time) = (fields.int()?, Timestamp::from_micros(fields.int()?));
    Ok(match outcome {
        0 => Rescheduled::NotFound,
        1 => Rescheduled::Rescheduled { due: time },
        2 => Rescheduled::Leased,
        3 => Rescheduled::TooLate { deadline: time },
        _ => return Err(strange("an unknown outcome")),
    })
}

pub(crate) fn unique_until(verb: &verb::UniqueUntil) -> Call {
    Call::new(Function::QueueUniqueUntil, [keys::unique(&verb.queue)]).arg(verb.id.as_str())
}

pub(crate) fn read_unique_until(reply: Reply) -> Result<Option<Timestamp>> {
    reply.int().map(nonzero)
}

pub(crate) fn clear_unique(verb: &verb::ClearUnique) -> Call {
    let keys = [keys::unique(&verb.queue), keys::replays(&verb.queue, verb.op.client())];
    Call::new(Function::QueueClearUnique, keys).arg(&verb.op.to_bytes()[8..]).arg(verb.id.as_str())
}

pub(crate) fn read_unique_cleared(reply: Reply) -> Result<UniqueCleared> {
    let until = reply.list()?.int()?;
    Ok(match until {
        0 => UniqueCleared::NotFound,
        until => UniqueCleared::Cleared { until: Timestamp::from_micros(until) },
    })
}

pub(crate) fn close_batch(verb: &verb::CloseBatch) -> Call {
    once(Function::QueueCloseBatch, &verb.queue, verb.op).arg(verb.id.as_str())
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

pub(crate) fn set_paused(queue: &QueueName, paused: bool) -> Call {
    call(Function::QueuePause, queue).flag(paused)
}
