//! Worker operations: encodes requests and decodes answers.

use rushgate_core::{Coded, Page, QueueName, Result, Timestamp, WorkerId, WorkerInfo, verb};

use crate::command::{Call, micros};
use crate::function::Function;
use crate::keys;
use crate::reply::{Fields, Packed, Reply, coded, str_of};

fn call(function: Function, queue: &QueueName) -> Call {
    Call::new(function, [keys::workers(queue)])
}

pub(crate) fn announce(verb: &verb::Announce) -> Call {
    let worker = &verb.worker;
    call(Function::QueueAnnounce, &verb.queue)
        .arg(worker.id.as_str())
        .arg(&worker.name)
        .arg(&worker.version)
        .number(worker.concurrency.into())
        .number(worker.running.into())
        .number(worker.lease.map_or(0, |lease| micros(lease.get())))
}

pub(crate) fn workers(queue: &QueueName, page: &Page) -> Call {
    call(Function::QueueWorkers, queue).arg(&page.after).number(page.limit.into())
}

pub(crate) fn read_workers(reply: Reply) -> Result<Vec<WorkerInfo>> {
    reply.list()?.each(read_worker)
}

fn read_worker(fields: &mut Fields) -> Result<WorkerInfo> {
    let (id, packed) = (WorkerId::as_stored(fields.text()?)?, fields.bytes()?);
    let mut packed = Packed(&packed);
    let mut moment = || packed.number(7).map(Timestamp::from_micros);
    let (since, seen, lease_until) = (moment()?, moment()?, moment()?);
    let mode = coded(packed.number(1)?)?;
    let (concurrency, running) = (packed.small(3)?, packed.small(3)?);
    let length = packed.number(1)? as usize;
    let name = str_of(packed.take(length)?)?.to_owned();
    let version = str_of(packed.0)?.to_owned();
    Ok(WorkerInfo { id, name, version, concurrency, running, since, seen, lease_until, mode })
}

pub(crate) fn set_worker(verb: &verb::SetWorker) -> Call {
    call(Function::QueueSetWorker, &verb.queue).arg(verb.id.as_str()).number(verb.mode.code().into())
}

pub(crate) fn read_set(reply: Reply) -> Result<bool> {
    Ok(reply.int()? == 1)
}
