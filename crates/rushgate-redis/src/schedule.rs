//! Schedule operations: encodes requests and decodes answers.

use rushgate_core::{
    DueSchedules, Fired, Priority, QueueName, Result, Revision, Schedule, ScheduleId, Scheduled, Timestamp,
    verb,
};

use crate::command::Call;
use crate::function::Function;
use crate::keys;
use crate::queue::{MOMENT_MAX, read_body, write_body};
use crate::reply::{Fields, Packed, Reply, nonzero, str_of, strange};

/// A request that uses the schedules alone.
fn look(function: Function, queue: &QueueName) -> Call {
    Call::new(function, [keys::schedules(queue)])
}

/// A request that also changes the queue.
fn change(function: Function, queue: &QueueName) -> Call {
    Call::new(function, [keys::queue(queue), keys::schedules(queue)])
}

/// 0 means none.
fn moment(at: Option<Timestamp>) -> u64 {
    at.map_or(0, |at| at.as_micros().min(MOMENT_MAX))
}

pub(crate) fn schedule(verb: &verb::Schedule) -> Call {
    let new = &verb.new;
    let paused = match new.paused {
        Some(true) => "1",
        Some(false) => "0",
        None => "",
    };
    change(Function::QueueSchedule, &verb.queue)
        .arg(new.id.as_str())
        .arg(&new.recurrence)
        .arg(write_body(&new.payload))
        .number(new.priority.get().into())
        .number(new.max_attempts.into())
        .number(moment(new.next))
        .arg(paused)
        .arg(new.as_of.map(|revision| revision.as_u64().to_string()).unwrap_or_default())
}

pub(crate) fn read_scheduled(reply: Reply) -> Result<Scheduled> {
    let mut fields = reply.list()?;
    let outcome = fields.int()?;
    let mut revision = || fields.int().map(Revision::from_u64);
    match outcome {
        1 => Ok(Scheduled::Added { revision: revision()? }),
        2 => Ok(Scheduled::Changed { revision: revision()? }),
        3 => Ok(Scheduled::Unchanged { revision: revision()? }),
        4 => Ok(Scheduled::Full),
        5 => Ok(Scheduled::Stale),
        _ => Err(strange("an unknown outcome")),
    }
}

pub(crate) fn unschedule(verb: &verb::Unschedule) -> Call {
    look(Function::QueueUnschedule, &verb.queue).arg(verb.id.as_str())
}

pub(crate) fn read_unscheduled(reply: Reply) -> Result<bool> {
    Ok(reply.int()? == 1)
}

pub(crate) fn schedules(verb: &verb::Schedules) -> Call {
    look(Function::QueueSchedules, &verb.queue).arg(&verb.page.after).number(verb.page.limit.into())
}

pub(crate) fn read_schedules(reply: Reply) -> Result<Vec<Schedule>> {
    reply.list()?.each(read_schedule)
}

fn read_schedule(fields: &mut Fields) -> Result<Schedule> {
    let (id, packed) = (ScheduleId::as_stored(fields.text()?)?, fields.bytes()?);
    let mut packed = Packed(&packed);
    let revision = Revision::from_u64(packed.number(6)?);
    let paused = packed.number(1)? == 1;
    let (next, previous) = (nonzero(packed.number(7)?), nonzero(packed.number(7)?));
    let priority = Priority::new(packed.number(1)? as u8)?;
    let max_attempts = packed.small(2)?;
    let length = packed.number(2)? as usize;
    let recurrence = str_of(packed.take(length)?)?.to_owned();
    let payload = read_body(packed)?;
    Ok(Schedule { id, recurrence, payload, priority, max_attempts, next, previous, paused, revision })
}

pub(crate) fn due_schedules(verb: &verb::DueSchedules) -> Call {
    look(Function::QueueDueSchedules, &verb.queue).number(verb.n.into())
}

pub(crate) fn read_due_schedules(reply: Reply) -> Result<DueSchedules> {
    let mut fields = reply.list()?;
    let (now, next) = (Timestamp::from_micros(fields.int()?), nonzero(fields.int()?));
    Ok(DueSchedules { now, due: fields.each(read_schedule)?, next })
}

pub(crate) fn fire(verb: &verb::Fire) -> Call {
    let fire = &verb.fire;
    let call = change(Function::QueueFire, &verb.queue)
        .arg(fire.id.as_str())
        .number(fire.revision.as_u64())
        .number(moment(fire.next));
    fire.runs.iter().fold(call, |call, (task, at)| call.arg(task.as_str()).number(at.as_micros()))
}

pub(crate) fn read_fired(reply: Reply) -> Result<Fired> {
    let mut fields = reply.list()?;
    match fields.int()? {
        0 => Ok(Fired::Stale),
        1 => Ok(Fired::Fired { added: fields.small()? }),
        _ => Err(strange("an unknown outcome")),
    }
}
