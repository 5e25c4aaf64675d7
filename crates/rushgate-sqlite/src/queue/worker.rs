//! Workers that announce themselves to a queue. They are kept by its name, so that one can wait for a queue that was
//! never used.

use rushgate_core::{Announce, Coded, WorkerInfo, WorkerMode, verb};
use rusqlite::Row;

use crate::fault::Result;
use crate::read::Reader;
use crate::sql::sql;
use crate::step::Step;
use crate::stored::{coded, parsed, stored, time};

pub(crate) fn announce(step: &mut Step<'_>, v: &verb::Announce) -> Result<WorkerMode> {
    let (queue, worker, id) = (v.queue.as_str(), &v.worker, v.worker.id.as_str());
    step.exec(sql!("queue/worker", "forget"), (queue, step.now_us()))?;
    let known = step.row(sql!("queue/worker", "load"), (queue, id), read)?;
    let mode = known.as_ref().map(|known| known.mode).unwrap_or_default();
    let Some(lease) = worker.lease else {
        step.exec(sql!("queue/worker", "remove"), (queue, id))?;
        return Ok(mode);
    };
    if known.is_none() {
        let count: Option<i64> = step.value(sql!("queue/worker", "count"), [queue])?;
        if count.unwrap_or_default().cast_unsigned() >= Announce::LISTED_MAX {
            return Ok(mode);
        }
    }
    let until = stored(step.now + lease.get());
    let Announce { name, version, concurrency, running, .. } = worker;
    let params = (queue, id, name, version, concurrency, running, step.now_us(), until);
    step.exec(sql!("queue/worker", "announce"), params)?;
    Ok(mode)
}

pub(crate) fn workers(reader: &Reader<'_>, v: &verb::Workers) -> Result<Vec<WorkerInfo>> {
    let params = (v.queue.as_str(), &v.page.after, stored(reader.now), v.page.limit);
    reader.rows(sql!("queue/worker", "page"), params, read)
}

pub(crate) fn set_worker(step: &mut Step<'_>, v: &verb::SetWorker) -> Result<bool> {
    let params = (v.queue.as_str(), v.id.as_str(), v.mode.code(), step.now_us());
    Ok(step.exec(sql!("queue/worker", "set"), params)? > 0)
}

fn read(row: &Row<'_>) -> rusqlite::Result<WorkerInfo> {
    Ok(WorkerInfo {
        id: parsed(row, 0)?,
        name: row.get(1)?,
        version: row.get(2)?,
        concurrency: row.get(3)?,
        running: row.get(4)?,
        since: time(row, 5)?,
        seen: time(row, 6)?,
        lease_until: time(row, 7)?,
        mode: coded(row, 8)?,
    })
}
