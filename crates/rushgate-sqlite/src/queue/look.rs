//! Reads tasks and statistics.

use rushgate_core::{
    Fence, Listing, Page, QueueLimits, QueueName, QueueStats, TaskId, TaskInfo, TaskProgress, TaskState,
    Timestamp,
};
use rusqlite::Row;

use super::claim::read_task;
use super::kept;
use super::row::read_limits;
use crate::fault::Result;
use crate::read::Reader;
use crate::sql::sql;
use crate::stored::{parsed, stored, time};

fn read_info(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<TaskInfo> {
    let (_, mut task) = read_task(row, 20)?;
    let claim = row.get::<_, i64>(10)?.cast_unsigned();
    task.ticket.claim = (claim > 0).then(|| Fence::from_u64(claim));
    let at = row.get::<_, Option<i64>>(16)?.filter(|_| claim == 0);
    let not_before = at.map(|at| Timestamp::from_micros(at.cast_unsigned()));
    let state = match not_before {
        _ if claim > 0 => TaskState::Leased,
        None => TaskState::Blocked,
        Some(at) if at > now => TaskState::Scheduled,
        Some(_) => TaskState::Ready,
    };
    Ok(TaskInfo {
        task,
        state,
        waits: row.get(21)?,
        not_before,
        lease_until: (claim > 0).then(|| time(row, 11)).transpose()?,
        worker: row.get(12)?,
        replaced: row.get(13)?,
        cancelled: row.get(14)?,
        error: row.get(15)?,
        past: kept::read_past(row, 17)?,
        progress: read_progress(row, 18)?,
        finished: None,
    })
}

fn read_progress(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<TaskProgress>> {
    let (percent, note) = (row.get(at)?, row.get::<_, Option<String>>(at + 1)?);
    Ok(note.map(|note| TaskProgress { percent, note }))
}

pub(crate) fn task(reader: &Reader<'_>, queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>> {
    let params = (queue.as_str(), id.as_str());
    match reader.row(sql!("queue/tasks", "one"), params, |row| read_info(row, reader.now))? {
        Some(live) => Ok(Some(live)),
        None => kept::finished(reader, queue, id),
    }
}

pub(crate) fn tasks(reader: &Reader<'_>, queue: &QueueName, listing: &Listing) -> Result<Vec<TaskInfo>> {
    let (state, few) = match listing.state {
        None => (0, None),
        Some(TaskState::Scheduled) => (1, Some(sql!("queue/tasks", "few_scheduled"))),
        Some(TaskState::Ready) => (2, Some(sql!("queue/tasks", "few_ready"))),
        Some(TaskState::Leased) => (3, Some(sql!("queue/tasks", "few_leased"))),
        Some(TaskState::Blocked) => (4, Some(sql!("queue/tasks", "few_blocked"))),
        Some(TaskState::Done) => return kept::all_finished(reader, queue, &listing.page),
    };
    if let Some(few) = few
        && let Some(tasks) = few_tasks(reader, queue, few, &listing.page)?
    {
        return Ok(tasks);
    }
    let params = (queue.as_str(), &listing.page.after, state, stored(reader.now), listing.page.limit);
    reader.rows(sql!("queue/tasks", "many"), params, |row| read_info(row, reader.now))
}

/// Up to this many tasks are found by an index on their state. More are found as fast in the order of their IDs.
const FEW: usize = 1_000;

/// A page of the tasks that the statement finds; `None` if they are not few.
fn few_tasks(
    reader: &Reader<'_>,
    queue: &QueueName,
    few: &'static str,
    page: &Page,
) -> Result<Option<Vec<TaskInfo>>> {
    let params = (queue.as_str(), stored(reader.now), FEW + 1);
    let found = reader.rows(few, params, |row| Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?)))?;
    if found.len() > FEW {
        return Ok(None);
    }
    let mut ids: Vec<_> = found.into_iter().filter(|(id, is)| *is && *id > page.after).collect();
    ids.sort_unstable();
    let one = |(id, _): &(String, bool)| {
        reader.row(sql!("queue/tasks", "one"), (queue.as_str(), id), |row| read_info(row, reader.now))
    };
    let tasks: Vec<_> = ids.iter().take(page.limit as usize).map(one).collect::<Result<_>>()?;
    Ok(Some(tasks.into_iter().flatten().collect()))
}

pub(crate) fn stats(reader: &Reader<'_>, queue: &QueueName) -> Result<QueueStats> {
    let now = stored(reader.now);
    let stats = reader.row(sql!("queue/stats", "counts"), (queue.as_str(), now), |row| {
        let count = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
        let (ready, scheduled, leased) = (count(0)?, count(1)?, count(2)?);
        let oldest = row.get::<_, Option<i64>>(4)?.unwrap_or(now);
        let limits = read_limits(row, 7, 8, 16, 21)?;
        Ok(QueueStats {
            ready,
            scheduled,
            leased,
            dead: count(3)?,
            done: limits.retention.map_or(Ok(0), |_| count(19))?,
            dropped: count(20)?,
            lag_ms: u64::try_from(now - oldest).unwrap_or(0) / 1_000,
            // What is neither due at some time nor leased waits for its key or for other tasks.
            blocked: count(5)?.saturating_sub(ready + scheduled + leased),
            rate_until: None,
            last_claim: Some(time(row, 15)?).filter(|at| at.as_micros() > 0),
            paused: row.get(6)?,
            limits,
        })
    })?;
    let Some(mut stats) = stats else {
        return Ok(QueueStats {
            ready: 0,
            scheduled: 0,
            leased: 0,
            blocked: 0,
            dead: 0,
            done: 0,
            dropped: 0,
            lag_ms: 0,
            rate_until: None,
            last_claim: None,
            paused: false,
            limits: QueueLimits::default(),
        });
    };
    if let Some(rate) = stats.limits.rate {
        let start =
            reader.row(sql!("queue/stats", "start"), (queue.as_str(), rate.n - 1), |row| time(row, 0))?;
        stats.rate_until = start.map(|start| start + rate.per).filter(|until| *until > reader.now);
    }
    Ok(stats)
}

pub(crate) fn queues(reader: &Reader<'_>, page: &Page) -> Result<Vec<QueueName>> {
    reader
        .rows(sql!("queue/row", "names"), (&page.after, page.limit, stored(reader.now)), |row| parsed(row, 0))
}
