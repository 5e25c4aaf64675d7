//! Schedule operations: encodes requests and decodes answers.

use rushgate_core::{
    DueSchedules, Fire, Fired, NewSchedule, Page, Priority, QueueName, Result, Revision, Schedule,
    ScheduleId, Scheduled, Timestamp,
};

use crate::command::Call;
use crate::function::Function;
use crate::keys;
use crate::queue::{MOMENT_MAX, read_body, write_body};
use crate::reply::{Fields, Packed, Reply, str_of, strange};

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

fn read_moment(micros: u64) -> Option<Timestamp> {
    (micros > 0).then(|| Timestamp::from_micros(micros))
}

pub(crate) fn schedule(queue: &QueueName, new: &NewSchedule) -> Call {
    let paused = match new.paused {
        Some(true) => "1",
        Some(false) => "0",
        None => "",
    };
    change(Function::QueueSchedule, queue)
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

pub(crate) fn unschedule(queue: &QueueName, id: &ScheduleId) -> Call {
    look(Function::QueueUnschedule, queue).arg(id.as_str())
}

pub(crate) fn read_unscheduled(reply: Reply) -> Result<bool> {
    Ok(reply.int()? == 1)
}

pub(crate) fn schedules(queue: &QueueName, page: &Page) -> Call {
    look(Function::QueueSchedules, queue).arg(&page.after).number(page.limit.into())
}

pub(crate) fn read_schedules(reply: Reply) -> Result<Vec<Schedule>> {
    rest_of_schedules(&mut reply.list()?)
}

fn rest_of_schedules(fields: &mut Fields) -> Result<Vec<Schedule>> {
    let mut schedules = Vec::new();
    while !fields.is_empty() {
        let id = ScheduleId::as_stored(fields.text()?)?;
        schedules.push(read_schedule(id, &fields.bytes()?)?);
    }
    Ok(schedules)
}

fn read_schedule(id: ScheduleId, packed: &[u8]) -> Result<Schedule> {
    let mut packed = Packed(packed);
    let revision = Revision::from_u64(packed.number(6)?);
    let paused = packed.number(1)? == 1;
    let (next, previous) = (read_moment(packed.number(7)?), read_moment(packed.number(7)?));
    let priority = Priority::new(packed.number(1)? as u8)?;
    let max_attempts = packed.small(2)?;
    let length = packed.number(2)? as usize;
    let recurrence = str_of(packed.take(length)?)?.to_owned();
    let payload = read_body(packed)?;
    Ok(Schedule { id, recurrence, payload, priority, max_attempts, next, previous, paused, revision })
}

pub(crate) fn due_schedules(queue: &QueueName, n: u32) -> Call {
    look(Function::QueueDueSchedules, queue).number(n.into())
}

pub(crate) fn read_due_schedules(reply: Reply) -> Result<DueSchedules> {
    let mut fields = reply.list()?;
    let (now, next) = (Timestamp::from_micros(fields.int()?), read_moment(fields.int()?));
    Ok(DueSchedules { now, due: rest_of_schedules(&mut fields)?, next })
}

pub(crate) fn fire(queue: &QueueName, fire: &Fire) -> Call {
    let call = change(Function::QueueFire, queue)
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
