//! Dead letters.

use rushgate_core::{DeadLetter, DeadRequeued, Page, QueueName, Result, Selection, TaskId, Timestamp, verb};

use super::row::{PAST_BEFORE, read_line, read_past};
use super::{call, once, read_body};
use crate::command::Call;
use crate::function::Function;
use crate::reply::{Packed, Reply, str_of};

pub(crate) fn dead(queue: &QueueName, page: &Page) -> Call {
    call(Function::QueueDead, queue).arg(&page.after).number(page.limit.into())
}

pub(crate) fn dead_letter(verb: &verb::DeadLetter) -> Call {
    call(Function::QueueDeadLetter, &verb.queue).arg(verb.id.as_str())
}

pub(crate) fn read_dead_letter(reply: Reply) -> Result<Option<DeadLetter>> {
    Ok(read_dead(reply)?.pop())
}

pub(crate) fn read_dead(reply: Reply) -> Result<Vec<DeadLetter>> {
    reply.list()?.each(|fields| {
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
        Ok(DeadLetter { id, payload, priority, attempts, max_attempts, error, died_at, key, past })
    })
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

pub(crate) fn requeue_dead(verb: &verb::RequeueDead) -> Call {
    with_selection(once(Function::QueueRequeueDead, &verb.queue, verb.op), &verb.which)
}

pub(crate) fn read_dead_requeued(reply: Reply) -> Result<DeadRequeued> {
    let mut fields = reply.list()?;
    Ok(DeadRequeued { requeued: fields.int()?, kept: fields.int()? })
}

pub(crate) fn delete_dead(verb: &verb::DeleteDead) -> Call {
    with_selection(once(Function::QueueDeleteDead, &verb.queue, verb.op), &verb.which)
}

pub(crate) fn read_dead_deleted(reply: Reply) -> Result<u64> {
    reply.list()?.int()
}
