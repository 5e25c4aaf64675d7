//! Events, and the calls that wait for them.

use rushgate_core::{Error, QueueName, Result, TaskChange, TaskEvent, TaskEvents, TaskId, Timestamp, verb};

use super::{MOMENT_MAX, call};
use crate::command::Call;
use crate::function::Function;
use crate::reply::{Packed, Reply, str_of, strange};

pub(crate) fn listen(queue: &QueueName, inbox: u64, seen: Option<u64>) -> Call {
    let seen = seen.map(|seen| seen.to_string()).unwrap_or_default();
    call(Function::QueueListen, queue).arg(format!("{inbox:016x}")).arg(seen)
}

/// Wake-ups missed, and the wake-up count.
pub(crate) fn read_listening(reply: Reply) -> Result<(u64, u64)> {
    let mut fields = reply.list()?;
    Ok((fields.int()?, fields.int()?))
}

pub(crate) fn watch(queue: &QueueName, inbox: u64, id: &TaskId) -> Call {
    call(Function::QueueWatch, queue).arg(format!("{inbox:016x}")).arg(id.as_str())
}

pub(crate) fn follow(queue: &QueueName, inbox: u64, after: u64) -> Call {
    call(Function::QueueFollow, queue).arg(format!("{inbox:016x}")).number(after.min(MOMENT_MAX))
}

pub(crate) fn events(verb: &verb::TaskEvents) -> Call {
    let call = call(Function::QueueEvents, &verb.queue).number(verb.page.after.min(MOMENT_MAX));
    call.number(verb.page.limit.into())
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
        0 => TaskChange::Done { attempt, began: due },
        1 => TaskChange::Discarded { attempt, began: due },
        2 => TaskChange::Cancelled,
        3 => TaskChange::Dropped,
        4 => TaskChange::Popped,
        5 => TaskChange::Deleted,
        6 => TaskChange::Dead { attempt, error: text()? },
        7 => TaskChange::Added { due },
        8 => TaskChange::Replaced { due },
        9 => TaskChange::Claimed { attempt, worker: text()?, due },
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
    call(Function::QueueRing, queue)
}
