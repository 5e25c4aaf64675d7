//! Worker operations: encodes requests and decodes answers.

use rushgate_core::{Announce, Coded, Page, QueueName, Result, Timestamp, WorkerId, WorkerInfo, WorkerMode};

use crate::command::{Call, micros};
use crate::function::Function;
use crate::keys;
use crate::reply::{Packed, Reply, str_of, strange};

fn call(function: Function, queue: &QueueName) -> Call {
    Call::new(function, [keys::workers(queue)])
}

pub(crate) fn announce(queue: &QueueName, worker: &Announce) -> Call {
    call(Function::QueueAnnounce, queue)
        .arg(worker.id.as_str())
        .arg(&worker.name)
        .arg(&worker.version)
        .number(worker.concurrency.into())
        .number(worker.running.into())
        .number(worker.lease.map_or(0, |lease| micros(lease.get())))
}

fn mode(code: u64) -> Result<WorkerMode> {
    WorkerMode::from_code(code).ok_or_else(|| strange("an unknown mode"))
}

pub(crate) fn read_mode(reply: Reply) -> Result<WorkerMode> {
    mode(reply.int()?)
}

pub(crate) fn workers(queue: &QueueName, page: &Page) -> Call {
    call(Function::QueueWorkers, queue).arg(&page.after).number(page.limit.into())
}

pub(crate) fn read_workers(reply: Reply) -> Result<Vec<WorkerInfo>> {
    let mut fields = reply.list()?;
    let mut workers = Vec::new();
    while !fields.is_empty() {
        let id = WorkerId::as_stored(fields.text()?)?;
        workers.push(read_worker(id, &fields.bytes()?)?);
    }
    Ok(workers)
}

fn read_worker(id: WorkerId, packed: &[u8]) -> Result<WorkerInfo> {
    let mut packed = Packed(packed);
    let mut moment = || packed.number(7).map(Timestamp::from_micros);
    let (since, seen, lease_until) = (moment()?, moment()?, moment()?);
    let mode = mode(packed.number(1)?)?;
    let (concurrency, running) = (packed.small(3)?, packed.small(3)?);
    let length = packed.number(1)? as usize;
    let name = str_of(packed.take(length)?)?.to_owned();
    let version = str_of(packed.0)?.to_owned();
    Ok(WorkerInfo { id, name, version, concurrency, running, since, seen, lease_until, mode })
}

pub(crate) fn set_worker(queue: &QueueName, id: &WorkerId, mode: WorkerMode) -> Call {
    call(Function::QueueSetWorker, queue).arg(id.as_str()).number(mode.code().into())
}

pub(crate) fn read_set(reply: Reply) -> Result<bool> {
    Ok(reply.int()? == 1)
}
