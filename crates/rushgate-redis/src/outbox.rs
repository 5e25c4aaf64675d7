//! The outbox operation: encodes requests and decodes answers.

use rushgate_core::{Relayed, Result, verb};

use crate::command::Call;
use crate::function::Function;
use crate::keys;
use crate::queue::{terms, write_body};
use crate::reply::Reply;

pub(crate) fn relay(verb: &verb::Relay) -> Call {
    let verb::Relay { queue, relay } = verb;
    let keys = [keys::queue(queue), keys::unique(queue)];
    let call = Call::new(Function::QueueRelay, keys).arg(relay.outbox.as_str());
    relay.tasks.iter().fold(call, |call, (number, task)| {
        call.number(*number).arg(task.id.as_str()).arg(terms(task)).arg(write_body(&task.payload))
    })
}

pub(crate) fn read_relayed(reply: Reply) -> Result<Relayed> {
    Ok(Relayed { upto: reply.int()? })
}
