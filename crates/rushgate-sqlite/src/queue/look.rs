//! Reads tasks and statistics.

use rushgate_core::{
    Fence, Listing, QueueName, QueueStats, TaskInfo, TaskPage, TaskProgress, TaskState, Timestamp, verb,
};
use rusqlite::Row;

use super::claim::read_task;
use super::{kept, read_past};
use crate::fault::Result;
use crate::read::Reader;
use crate::rows::queue::read_limits;
use crate::sql::sql;
use crate::stored::{optional_time, parsed, stored, time};

fn read_info(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<TaskInfo> {
    let (_, mut task) = read_task(row, 20)?;
    let claim = row.get::<_, i64>(10)?.cast_unsigned();
    task.ticket.claim = (claim > 0).then(|| Fence::from_u64(claim));
    let not_before = optional_time(row, 16)?.filter(|_| claim == 0);
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
        past: read_past(row, 17)?,
        progress: read_progress(row, 18)?,
        finished: None,
    })
}

fn read_progress(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<TaskProgress>> {
    let (percent, note) = (row.get(at)?, row.get::<_, Option<String>>(at + 1)?);
    Ok(note.map(|note| TaskProgress { percent, note }))
}

pub(crate) fn task(reader: &Reader<'_>, v: &verb::Task) -> Result<Option<TaskInfo>> {
    let params = (v.queue.as_str(), v.id.as_str());
    match reader.row(sql!("queue/tasks", "one"), params, |row| read_info(row, reader.now))? {
        Some(live) => Ok(Some(live)),
        None => kept::finished(reader, &v.queue, &v.id),
    }
}

/// Names the positions of this store in cursors. A position is an ID.
const STORE: &str = "sqlite";

/// The IDs that a listing may have from its cursor on.
struct IdRange {
    from: String,
    to: String,
}

impl IdRange {
    fn of(listing: &Listing) -> Result<Self> {
        let (after, prefix) = (listing.id_position(STORE)?, &listing.prefix);
        // An ID has at most 200 bytes and no character below a space, and 4 bytes are the greatest character.
        let to = prefix.clone() + &char::MAX.to_string().repeat(50);
        let from = if after >= *prefix { after + "\0" } else { prefix.clone() };
        Ok(Self { from, to })
    }

    fn has(&self, id: &str) -> bool {
        (self.from.as_str()..=self.to.as_str()).contains(&id)
    }
}

pub(crate) fn tasks(reader: &Reader<'_>, v: &verb::Tasks) -> Result<TaskPage> {
    let verb::Tasks { queue, listing } = v;
    let (range, limit) = (IdRange::of(listing)?, listing.page.limit as usize);
    let (state, few) = match listing.state {
        None => {
            let params = (queue.as_str(), &range.from, &range.to, limit + 1);
            let found = reader.rows(sql!("queue/tasks", "many"), params, |row| read_info(row, reader.now))?;
            return Ok(page_of(listing, found.into_iter().map(|info| (info, true)).collect()));
        }
        Some(TaskState::Done) => {
            return Ok(page_of(
                listing,
                kept::next_finished(reader, queue, (&range.from, &range.to), limit + 1)?,
            ));
        }
        Some(TaskState::Scheduled) => (1, sql!("queue/tasks", "few_scheduled")),
        Some(TaskState::Ready) => (2, sql!("queue/tasks", "few_ready")),
        Some(TaskState::Leased) => (3, sql!("queue/tasks", "few_leased")),
        Some(TaskState::Blocked) => (4, sql!("queue/tasks", "few_blocked")),
    };
    let (looked, more) = match few_ids(reader, queue, few, &range)? {
        Some(ids) => (ids, false),
        None => next_ids(reader, queue, state, &range, limit.max(Listing::LOOKED_MAX))?,
    };
    let wanted = looked.iter().enumerate().filter(|(_, (_, is_wanted))| *is_wanted);
    // The page ends before the first task that has no room.
    let end = wanted.map(|(at, _)| at).nth(limit).unwrap_or(looked.len());
    let (shown, behind) = looked.split_at(end);
    let one = |(id, _): &(String, bool)| {
        reader.row(sql!("queue/tasks", "one"), (queue.as_str(), id), |row| read_info(row, reader.now))
    };
    let tasks: Vec<_> = shown.iter().filter(|(_, is_wanted)| *is_wanted).map(one).collect::<Result<_>>()?;
    let last = shown.last().filter(|_| more || !behind.is_empty());
    let next = last.map(|(id, _)| listing.cursor(STORE, id.as_bytes()));
    Ok(TaskPage { tasks: tasks.into_iter().flatten().collect(), next })
}

/// The page of these tasks by ID, of which one more than its limit was read if there is one. Some may not be listed.
fn page_of(listing: &Listing, mut found: Vec<(TaskInfo, bool)>) -> TaskPage {
    let limit = listing.page.limit as usize;
    let is_more = found.len() > limit;
    found.truncate(limit);
    let last = found.last().filter(|_| is_more);
    let next = last.map(|(info, _)| listing.cursor(STORE, info.task.ticket.id.as_str().as_bytes()));
    TaskPage {
        tasks: found.into_iter().filter_map(|(info, is_listed)| is_listed.then_some(info)).collect(),
        next,
    }
}

/// IDs, and whether the task is in the state.
type Ids = Vec<(String, bool)>;

fn read_id(row: &Row<'_>) -> rusqlite::Result<(String, bool)> {
    Ok((row.get(0)?, row.get(1)?))
}

/// The IDs of a range that the statement finds by an index on the state; `None` if it finds more than a page looks at.
fn few_ids(
    reader: &Reader<'_>,
    queue: &QueueName,
    few: &'static str,
    range: &IdRange,
) -> Result<Option<Ids>> {
    let params = (queue.as_str(), stored(reader.now), Listing::LOOKED_MAX + 1);
    let mut found = reader.rows(few, params, read_id)?;
    if found.len() > Listing::LOOKED_MAX {
        return Ok(None);
    }
    found.retain(|(id, _)| range.has(id));
    found.sort_unstable();
    Ok(Some(found))
}

/// The first `n` IDs of a range, and whether more follow.
fn next_ids(
    reader: &Reader<'_>,
    queue: &QueueName,
    state: i64,
    range: &IdRange,
    n: usize,
) -> Result<(Ids, bool)> {
    let params = (queue.as_str(), &range.from, &range.to, n + 1, state, stored(reader.now));
    let mut found = reader.rows(sql!("queue/tasks", "next"), params, read_id)?;
    let more = found.len() > n;
    found.truncate(n);
    Ok((found, more))
}

pub(crate) fn stats(reader: &Reader<'_>, verb::Stats { queue }: &verb::Stats) -> Result<QueueStats> {
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
    let Some(mut stats) = stats else { return Ok(QueueStats::default()) };
    if let Some(rate) = stats.limits.rate {
        let start =
            reader.row(sql!("queue/stats", "start"), (queue.as_str(), rate.n - 1), |row| time(row, 0))?;
        stats.rate_until = start.map(|start| start + rate.per).filter(|until| *until > reader.now);
    }
    Ok(stats)
}

pub(crate) fn queues(reader: &Reader<'_>, verb::Queues { page }: &verb::Queues) -> Result<Vec<QueueName>> {
    reader
        .rows(sql!("queue/row", "names"), (&page.after, page.limit, stored(reader.now)), |row| parsed(row, 0))
}
