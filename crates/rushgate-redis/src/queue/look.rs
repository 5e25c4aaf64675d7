//! Reads tasks, statistics, limits and dependencies.

use std::time::Duration;

use rushgate_core::{
    Coded, Finished, KeyLimits, Listing, Page, QueueLimits, QueueName, QueueStats, Rate, Result, Retention,
    TaskEnd, TaskId, TaskInfo, TaskPage, TaskState, Timestamp, Waited, Waits, WaitsFor,
};

use super::row::unpack_row;
use super::{MOMENT_MAX, call, optional, read_body};
use crate::command::Call;
use crate::command::micros;
use crate::function::Function;
use crate::reply::{Fields, Packed, Reply, coded, str_of, strange};

pub(crate) fn waits(queue: &QueueName, id: &TaskId) -> Call {
    call(Function::QueueWaits, queue).arg(id.as_str())
}

pub(crate) fn read_waits(reply: Reply) -> Result<Option<Waits>> {
    let mut fields = reply.list()?;
    if fields.is_empty() {
        return Ok(None);
    }
    let mut waits = Waits {
        open: fields.int()? == 1,
        if_dead: coded(fields.int()?)?,
        left: fields.int()?,
        over: fields.int()?,
        dead: fields.int()?,
        first: Vec::new(),
    };
    while !fields.is_empty() {
        let (id, is_dead, error) = (TaskId::as_stored(fields.text()?)?, fields.int()? == 1, fields.text()?);
        waits.first.push(WaitsFor { id, error: is_dead.then_some(error) });
    }
    Ok(Some(waits))
}

pub(crate) fn dependents(queue: &QueueName, id: &TaskId, n: u32) -> Call {
    call(Function::QueueDependents, queue).arg(id.as_str()).number(n.into())
}

pub(crate) fn read_dependents(reply: Reply) -> Result<Vec<TaskId>> {
    let mut fields = reply.list()?;
    let mut all = Vec::new();
    while !fields.is_empty() {
        all.push(TaskId::as_stored(fields.text()?)?);
    }
    Ok(all)
}

pub(crate) fn waited(queue: &QueueName, id: &TaskId, page: &Page) -> Call {
    call(Function::QueueWaited, queue).arg(id.as_str()).arg(&page.after).number(page.limit.into())
}

/// Finished dependencies, packed as in `lua/include/queue.lua`.
pub(crate) fn read_waited(reply: Reply) -> Result<Vec<Waited>> {
    let mut fields = reply.list()?;
    let mut all = Vec::new();
    while !fields.is_empty() {
        let id = TaskId::as_stored(fields.text()?)?;
        let packed = fields.bytes()?;
        let mut packed = Packed(&packed);
        let at = Timestamp::from_micros(packed.number(7)?);
        let end = coded(packed.number(1)?)?;
        let (mut result, mut error) = (None, None);
        if end == TaskEnd::Dead {
            error = Some(str_of(packed.0)?.to_owned());
        } else if !packed.0.is_empty() {
            result = Some(read_body(packed)?);
        }
        all.push(Waited { id, end, at, result, error });
    }
    Ok(all)
}

pub(crate) fn task(queue: &QueueName, id: &TaskId) -> Call {
    call(Function::QueueTasks, queue).flag(false).arg(id.as_str())
}

pub(crate) fn read_task(reply: Reply) -> Result<Option<TaskInfo>> {
    let mut fields = reply.list()?;
    let now = Timestamp::from_micros(fields.int()?);
    Ok(read_infos(now, fields)?.pop())
}

/// Names the positions of this store in cursors.
const STORE: &str = "redis";
/// The most tasks that one call lists. The server can do nothing else meanwhile.
const LISTED_MAX: u32 = 500;

pub(crate) fn tasks(queue: &QueueName, listing: &Listing) -> Result<Call> {
    let position = listing.position(STORE)?;
    let state = listing.state.map_or("", TaskState::word);
    let limit = listing.page.limit.min(LISTED_MAX);
    Ok(call(Function::QueueList, queue).arg(state).arg(&listing.prefix).number(limit.into()).arg(position))
}

pub(crate) fn read_task_page(listing: &Listing, reply: Reply) -> Result<TaskPage> {
    let mut fields = reply.list()?;
    let now = Timestamp::from_micros(fields.int()?);
    let position = fields.bytes()?;
    let next = (!position.is_empty()).then(|| listing.cursor(STORE, &position));
    Ok(TaskPage { tasks: read_infos(now, fields)?, next })
}

fn read_infos(now: Timestamp, mut fields: Fields) -> Result<Vec<TaskInfo>> {
    let mut infos = Vec::new();
    while !fields.is_empty() {
        let id = TaskId::as_stored(fields.text()?)?;
        let (record, run) = (fields.bytes()?, fields.bytes()?);
        if record.is_empty() {
            fields.next()?;
            infos.push(read_finished(id, Packed(&run))?);
            continue;
        }
        let row = unpack_row(id, Packed(&record), &run)?;
        let not_before = match fields.next()? {
            _ if row.leased => None,
            Reply::Bytes(blocked) if blocked.is_empty() => None,
            moment if row.task.key.is_some() => Some(Timestamp::from_micros(moment.int()?)),
            _ => Some(row.task.ticket.due),
        };
        infos.push(TaskInfo {
            state: match not_before {
                _ if row.leased => TaskState::Leased,
                None => TaskState::Blocked,
                Some(at) if at <= now => TaskState::Ready,
                Some(_) => TaskState::Scheduled,
            },
            waits: row.held,
            not_before,
            lease_until: row.leased.then_some(row.lease_until),
            worker: row.leased.then_some(row.worker),
            replaced: row.replaced,
            cancelled: row.cancelled,
            progress: row.progress.filter(|_| row.leased),
            past: row.past,
            finished: None,
            error: row.error,
            task: row.task,
        });
    }
    Ok(infos)
}

/// A finished task, packed as in `lua/include/queue.lua`.
fn read_finished(id: TaskId, mut kept: Packed<'_>) -> Result<TaskInfo> {
    let at = Timestamp::from_micros(kept.number(7)?);
    let how = coded(kept.number(1)?)?;
    let length = kept.number(4)? as usize;
    let result = kept.take(length)?;
    let result = (!result.is_empty()).then(|| read_body(Packed(result))).transpose()?;
    let length = kept.number(4)? as usize;
    let run = kept.take(length)?;
    let row = unpack_row(id, kept, run)?;
    Ok(TaskInfo {
        state: TaskState::Done,
        waits: false,
        not_before: None,
        lease_until: None,
        worker: row.leased.then_some(row.worker),
        progress: None,
        replaced: false,
        cancelled: false,
        error: row.error,
        past: row.past,
        finished: Some(Finished { at, how, result }),
        task: row.task,
    })
}

pub(crate) fn stats(queue: &QueueName) -> Call {
    call(Function::QueueStats, queue)
}

pub(crate) fn read_stats(reply: Reply) -> Result<QueueStats> {
    let mut fields = reply.list()?;
    let stats = QueueStats {
        ready: fields.int()?,
        scheduled: fields.int()?,
        leased: fields.int()?,
        blocked: fields.int()?,
        dead: fields.int()?,
        done: fields.int()?,
        dropped: fields.int()?,
        lag_ms: fields.int()? / 1_000,
        rate_until: optional(fields.next()?)?.map(Timestamp::from_micros),
        last_claim: Some(fields.int()?).filter(|claim| *claim > 0).map(Timestamp::from_micros),
        paused: fields.int()? == 1,
        limits: QueueLimits::default(),
    };
    let bound = optional(fields.next()?)?;
    let limits = QueueLimits { bound, ..read_limits(&fields.text()?)? };
    Ok(QueueStats { limits, ..stats })
}

/// The limits without the capacity, as `lua/queue/limit.lua` writes them.
pub(crate) fn read_limits(text: &str) -> Result<QueueLimits> {
    let words: Vec<_> = text.split_whitespace().collect();
    let [concurrency, n, us, key_concurrency, key_n, key_us, fifo, age, count, overflow, events] = words[..]
    else {
        return if words.is_empty() { Ok(QueueLimits::default()) } else { Err(strange("unknown limits")) };
    };
    let number = |word: &str| match word {
        "-" => Ok(None),
        word => word.parse::<u64>().map(Some).map_err(|_| strange("not a number")),
    };
    let small = |word| Ok(number(word)?.and_then(|n| u32::try_from(n).ok()));
    let rate = |n, us| -> Result<Option<Rate>> {
        Ok(small(n)?.zip(number(us)?).map(|(n, us)| Rate::new(n, Duration::from_micros(us))))
    };
    let (concurrency, key_concurrency): (Result<_>, Result<_>) = (small(concurrency), small(key_concurrency));
    let per_key = KeyLimits { concurrency: key_concurrency?, rate: rate(key_n, key_us)?, fifo: fifo == "1" };
    let retention = number(age)?.zip(small(count)?);
    let retention = retention.map(|(us, count)| Retention::new(Duration::from_micros(us), count));
    let overflow = coded(number(overflow)?.unwrap_or_default())?;
    let rate = rate(n, us)?;
    let events = small(events)?;
    Ok(QueueLimits { bound: None, overflow, concurrency: concurrency?, rate, per_key, retention, events })
}

pub(crate) fn limit(queue: &QueueName, limits: QueueLimits) -> Call {
    let QueueLimits { bound, overflow, concurrency, rate, per_key, retention, events } = limits;
    let bound = bound.map(|bound| bound.min(MOMENT_MAX));
    let small = |number: Option<u32>| number.map(u64::from);
    let of_rate = |rate: Option<Rate>| rate.map(|rate| (u64::from(rate.n), micros(rate.per))).unzip();
    let ((n, us), (key_n, key_us)) = (of_rate(rate), of_rate(per_key.rate));
    let words = [bound, small(concurrency), n, us, small(per_key.concurrency), key_n, key_us];
    let text = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let call = words.into_iter().fold(call(Function::QueueLimit, queue), |call, word| call.arg(text(word)));
    let (age, count) = retention.map(|keep| (micros(keep.age), keep.count.into())).unzip();
    let call = call.flag(per_key.fifo).arg(text(age)).arg(text(count)).number(overflow.code().into());
    call.arg(text(small(events)))
}
