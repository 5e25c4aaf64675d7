//! Reads tasks, statistics, limits and dependencies.

use std::time::Duration;

use rushgate_core::{
    Coded, Finished, KeyLimits, Listing, QueueLimits, QueueStats, Rate, Result, Retention, TaskEnd, TaskId,
    TaskInfo, TaskPage, TaskState, Timestamp, Waited, Waits, WaitsFor, verb,
};

use super::row::unpack_row;
use super::{MOMENT_MAX, call, read_body};
use crate::command::Call;
use crate::command::micros;
use crate::function::Function;
use crate::reply::{Fields, Packed, Reply, coded, nonzero, str_of, strange};

pub(crate) fn waits(verb: &verb::Waits) -> Call {
    call(Function::QueueWaits, &verb.queue).arg(verb.id.as_str())
}

pub(crate) fn read_waits(reply: Reply) -> Result<Option<Waits>> {
    let mut fields = reply.list()?;
    if fields.is_empty() {
        return Ok(None);
    }
    Ok(Some(Waits {
        open: fields.int()? == 1,
        if_dead: coded(fields.int()?)?,
        left: fields.int()?,
        over: fields.int()?,
        dead: fields.int()?,
        first: fields.each(|fields| {
            let (id, is_dead) = (TaskId::as_stored(fields.text()?)?, fields.int()? == 1);
            Ok(WaitsFor { id, error: Some(fields.text()?).filter(|_| is_dead) })
        })?,
    }))
}

pub(crate) fn dependents(verb: &verb::Dependents) -> Call {
    call(Function::QueueDependents, &verb.queue).arg(verb.id.as_str()).number(verb.n.into())
}

pub(crate) fn read_dependents(reply: Reply) -> Result<Vec<TaskId>> {
    reply.list()?.each(|fields| TaskId::as_stored(fields.text()?))
}

pub(crate) fn waited(verb: &verb::Waited) -> Call {
    let call = call(Function::QueueWaited, &verb.queue).arg(verb.id.as_str());
    call.arg(&verb.page.after).number(verb.page.limit.into())
}

/// Finished dependencies, packed as in `lua/include/queue.lua`.
pub(crate) fn read_waited(reply: Reply) -> Result<Vec<Waited>> {
    reply.list()?.each(|fields| {
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
        Ok(Waited { id, end, at, result, error })
    })
}

pub(crate) fn task(verb: &verb::Task) -> Call {
    call(Function::QueueTasks, &verb.queue).flag(false).arg(verb.id.as_str())
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

pub(crate) fn tasks(verb: &verb::Tasks) -> Result<Call> {
    let verb::Tasks { queue, listing } = verb;
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
    fields.each(|fields| {
        let id = TaskId::as_stored(fields.text()?)?;
        let (record, run) = (fields.bytes()?, fields.bytes()?);
        if record.is_empty() {
            fields.next()?;
            return read_finished(id, Packed(&run));
        }
        let row = unpack_row(id, Packed(&record), &run)?;
        let not_before = match fields.moment()? {
            _ if row.leased => None,
            Some(_) if row.task.key.is_none() => Some(row.task.ticket.due),
            moment => moment,
        };
        Ok(TaskInfo {
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
        })
    })
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

pub(crate) fn stats(verb: &verb::Stats) -> Call {
    call(Function::QueueStats, &verb.queue)
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
        rate_until: fields.moment()?,
        last_claim: nonzero(fields.int()?),
        paused: fields.int()? == 1,
        limits: QueueLimits::default(),
    };
    let bound = fields.optional()?;
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

pub(crate) fn limit(verb: &verb::Limit) -> Call {
    let QueueLimits { bound, overflow, concurrency, rate, per_key, retention, events } = verb.limits;
    let bound = bound.map(|bound| bound.min(MOMENT_MAX));
    let small = |number: Option<u32>| number.map(u64::from);
    let of_rate = |rate: Option<Rate>| rate.map(|rate| (u64::from(rate.n), micros(rate.per))).unzip();
    let ((n, us), (key_n, key_us)) = (of_rate(rate), of_rate(per_key.rate));
    let words = [bound, small(concurrency), n, us, small(per_key.concurrency), key_n, key_us];
    let text = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let call = call(Function::QueueLimit, &verb.queue);
    let call = words.into_iter().fold(call, |call, word| call.arg(text(word)));
    let (age, count) = retention.map(|keep| (micros(keep.age), keep.count.into())).unzip();
    let call = call.flag(per_key.fifo).arg(text(age)).arg(text(count)).number(overflow.code().into());
    call.arg(text(small(events)))
}
