//! The queue methods, each one step.

use std::collections::BTreeSet;
use std::time::Duration;

use rushgate_core::{
    Cancelled, Claim, Claimed, Completed, Completion, DeadLetter, DeadRequeued, Dequeued, Due, Enqueued,
    Error, Fence, Finish, Heartbeat, KeyLimits, Lease, Listing, NewTask, OnDuplicate, Overflow, PastEnd,
    PastRun, Payload, Priority, QueueLimits, QueueName, QueueStats, Rate, Retention, Retried, Retry,
    Revision, Selection, Task, TaskChange, TaskEnd, TaskExtended, TaskId, TaskInfo, TaskKey, TaskProgress,
    TaskRelease, TaskReleased, TaskState, Ticket, Timestamp,
};
use rusqlite::{Row, params};

use crate::fault::Result;
use crate::read::Reader;
use crate::sql::sql;
use crate::step::Step;
use crate::stored::{micros, parse, parsed, stored, time, unreadable};

pub(crate) mod event;
pub(crate) mod kept;
mod line;
pub(crate) mod outbox;
pub(crate) mod schedule;
pub(crate) mod unique;
pub(crate) mod wait;

/// A queue's row, cached for a group of calls.
pub(crate) struct QueueRow {
    name: QueueName,
    id: i64,
    paused: bool,
    /// Whether the queue is reserved for the orders of sales.
    reserved: bool,
    limits: QueueLimits,
    len: u64,
    revision: u64,
    claim: u64,
    /// The latest place assigned.
    places: u64,
    /// Lower bound of the lease expiries.
    lease_floor: i64,
    /// Lower bound of the deadlines of waiting tasks.
    deadline_floor: i64,
    /// Upper bound of the ends of the uniqueness windows.
    unique_until: i64,
    /// Whether any live task waits for other tasks or has done so.
    linked: bool,
    /// Whether tasks have finished whose waiting tasks have not been updated.
    ended: bool,
    /// Number of tasks that became available: as many listeners are notified.
    news: usize,
    changed: bool,
    /// Number of tasks dropped by the overflow policy.
    dropped: u64,
    /// Number of retained tasks, and whether it changed.
    kept: u64,
    kept_changed: bool,
    /// Number of the latest event, and whether it changed.
    event_last: u64,
    events_changed: bool,
}

impl QueueRow {
    /// Writes the counters back if a call of the group changed them.
    pub(crate) fn write_back(&mut self, step: &mut Step<'_>) -> Result<()> {
        if self.news > 0 {
            step.tell_queue(&self.name, self.news);
        }
        if self.kept_changed {
            step.exec(sql!("queue/finish", "count"), (self.id, self.kept.cast_signed()))?;
        }
        if self.events_changed {
            step.tell_events(&self.name, self.event_last);
            step.exec(sql!("queue/event", "count"), (self.id, self.event_last.cast_signed()))?;
        }
        if !self.changed {
            return Ok(());
        }
        let params = (
            self.id,
            self.paused,
            self.len.cast_signed(),
            self.revision.cast_signed(),
            self.claim.cast_signed(),
            self.places.cast_signed(),
            self.dropped.cast_signed(),
        );
        step.exec(sql!("queue/row", "store"), params).map(drop)
    }
}

/// A queue during a call: the step, and the queue's row, removed from the step's cache meanwhile.
struct Queue<'s, 'w> {
    step: &'s mut Step<'w>,
    row: QueueRow,
    /// Time of the current change: now, or the expiry of the lease that is being ended.
    moment: i64,
    /// Whether a task was added to the retained ones.
    finished: bool,
    /// Events that are not written yet.
    noted: Vec<event::Noted>,
}

/// Kind of access to a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Reads, or deletes rows that a reserved queue never has.
    Look,
    /// Changes the queue. Requires authority over a queue that is reserved for orders.
    Change,
    /// Like `Change`, and creates the queue if needed.
    Make,
    /// Part of a sale's step. Creates the queue if needed.
    Order,
}

/// Runs `verb` on a queue, after ending all expired leases. Returns `None` if the queue was never used and the access
/// does not create it.
fn on_queue<T>(
    step: &mut Step<'_>,
    name: &QueueName,
    access: Access,
    verb: impl FnOnce(&mut Queue<'_, '_>) -> Result<T>,
) -> Result<Option<T>> {
    let row = match step.queues.remove(name) {
        Some(row) => row,
        None => match load(step, name)? {
            Some(row) => row,
            None if matches!(access, Access::Make | Access::Order) => make(step, name)?,
            None => return Ok(None),
        },
    };
    if row.reserved && !step.for_orders && matches!(access, Access::Change | Access::Make) {
        step.queues.insert(name.clone(), row);
        return Err(Error::queue_reserved().into());
    }
    let moment = step.now_us();
    let mut queue = Queue { step, row, moment, finished: false, noted: Vec::new() };
    let answer = queue.reap().and_then(|()| verb(&mut queue));
    let answer = answer.and_then(|answer| queue.settle().map(|()| answer));
    let answer = answer.and_then(|answer| queue.forget_finished().map(|()| answer));
    let answer = answer.and_then(|answer| queue.write_events().map(|()| answer));
    let Queue { step, row, .. } = queue;
    step.queues.insert(name.clone(), row);
    answer.map(Some)
}

fn load(step: &mut Step<'_>, name: &QueueName) -> Result<Option<QueueRow>> {
    step.row(sql!("queue/row", "load"), [name.as_str()], |row| {
        Ok(QueueRow {
            name: name.clone(),
            id: row.get(0)?,
            paused: row.get(1)?,
            limits: read_limits(row, 2, 8, 15, 24)?,
            len: row.get::<_, i64>(3)?.cast_unsigned(),
            revision: row.get::<_, i64>(4)?.cast_unsigned(),
            claim: row.get::<_, i64>(5)?.cast_unsigned(),
            lease_floor: row.get::<_, Option<i64>>(6)?.unwrap_or(i64::MAX),
            places: row.get::<_, i64>(7)?.cast_unsigned(),
            deadline_floor: row.get::<_, Option<i64>>(20)?.unwrap_or(i64::MAX),
            unique_until: row.get::<_, Option<i64>>(21)?.unwrap_or_default(),
            linked: row.get(22)?,
            ended: row.get(23)?,
            news: 0,
            changed: false,
            kept: row.get::<_, i64>(18)?.cast_unsigned(),
            dropped: row.get::<_, i64>(19)?.cast_unsigned(),
            kept_changed: false,
            event_last: row.get::<_, i64>(25)?.cast_unsigned(),
            reserved: row.get(26)?,
            events_changed: false,
        })
    })
}

fn make(step: &mut Step<'_>, name: &QueueName) -> Result<QueueRow> {
    let id = step.value(sql!("queue/row", "create"), [name.as_str()])?.unwrap_or_default();
    let name = name.clone();
    let lease_floor = i64::MAX;
    Ok(QueueRow {
        name,
        id,
        paused: false,
        reserved: false,
        limits: QueueLimits::default(),
        len: 0,
        revision: 0,
        claim: 0,
        places: 0,
        lease_floor,
        deadline_floor: i64::MAX,
        unique_until: 0,
        linked: false,
        ended: false,
        news: 0,
        changed: false,
        dropped: 0,
        kept: 0,
        kept_changed: false,
        event_last: 0,
        events_changed: false,
    })
}

/// Reserves a queue for the orders of sales. Only a handle for orders takes over a queue that was used for anything else.
pub(crate) fn reserve(step: &mut Step<'_>, name: &QueueName) -> Result<()> {
    let row = match step.queues.remove(name) {
        Some(row) => Some(row),
        None => load(step, name)?,
    };
    let (row, may_take) = match row {
        Some(row) => (row, step.for_orders),
        None => (make(step, name)?, true),
    };
    let row = if row.reserved || !may_take {
        row
    } else {
        step.exec(sql!("queue/row", "reserve"), [row.id])?;
        QueueRow { reserved: true, ..row }
    };
    let reserved = row.reserved;
    step.queues.insert(name.clone(), row);
    if reserved { Ok(()) } else { Err(Error::orders_queue_in_use(name).into()) }
}

/// Reads the capacity from column `bound`, the other limits from the seven columns at `others`, the retention from
/// two columns at `keep` with the overflow policy after them, and the number of events from `events`.
fn read_limits(
    row: &Row<'_>,
    bound: usize,
    others: usize,
    keep: usize,
    events: usize,
) -> rusqlite::Result<QueueLimits> {
    let age = row.get::<_, Option<i64>>(keep)?.map(|us| Duration::from_micros(us.cast_unsigned()));
    let rate = |at: usize| -> rusqlite::Result<Option<Rate>> {
        let per = row.get::<_, Option<i64>>(at + 1)?.map(|us| Duration::from_micros(us.cast_unsigned()));
        Ok(row.get::<_, Option<u32>>(at)?.zip(per).map(|(n, per)| Rate::new(n, per)))
    };
    Ok(QueueLimits {
        bound: row.get::<_, Option<i64>>(bound)?.map(i64::cast_unsigned),
        concurrency: row.get(others)?,
        rate: rate(others + 1)?,
        per_key: KeyLimits {
            concurrency: row.get(others + 3)?,
            rate: rate(others + 4)?,
            fifo: row.get(others + 6)?,
        },
        retention: age.zip(row.get(keep + 1)?).map(|(age, count)| Retention { age, count }),
        overflow: match row.get(keep + 2)? {
            0 => Overflow::Refuse,
            1 => Overflow::DropNew,
            _ => Overflow::DropOldest,
        },
        events: row.get(events)?,
    })
}

/// The key group of a task: key and priority.
type LineOf = Option<(TaskKey, u8)>;

/// Reads the columns `priority` and `key`.
fn read_line(row: &Row<'_>, at: usize) -> rusqlite::Result<LineOf> {
    Ok(key(row, at + 1)?.zip(Some(row.get(at)?)))
}

fn key(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<TaskKey>> {
    row.get_ref(at)?.as_str_or_null()?.map(|text| parse(text, at)).transpose()
}

/// The columns of a leased task that its end needs.
struct Run {
    arrival: i64,
    lease_until: i64,
    attempts: u32,
    max_attempts: u32,
    replaced: bool,
    cancelled: bool,
    line: LineOf,
    claim: u64,
    worker: String,
    past: Option<String>,
    deadline: Option<i64>,
    /// Due time of the task.
    due: i64,
}

impl Run {
    /// Reads the columns that the statements `expired` and `claimed` begin with.
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            arrival: row.get(0)?,
            lease_until: row.get(1)?,
            attempts: row.get(2)?,
            max_attempts: row.get(3)?,
            replaced: row.get(4)?,
            cancelled: row.get(5)?,
            line: read_line(row, 6)?,
            claim: row.get::<_, i64>(8)?.cast_unsigned(),
            worker: row.get::<_, Option<String>>(9)?.unwrap_or_default(),
            past: row.get(10)?,
            deadline: row.get(11)?,
            due: row.get(12)?,
        })
    }
}

/// State of a record after an unsuccessful run.
enum Ended {
    /// The pending replacement took its place.
    Newcomer,
    /// It was marked as canceled and is gone.
    Cancelled,
    Waiting,
    Dead,
}

/// An unsuccessful end of a run.
struct Failure<'a> {
    /// When the run ended.
    at: i64,
    /// Due time of the next attempt. Without it the task keeps its place, as if it had not been claimed.
    due: Option<i64>,
    attempts: u32,
    error: Option<&'a str>,
    dead: bool,
    /// How the run is recorded among the past runs, if it is.
    how: Option<PastEnd>,
}

impl Failure<'_> {
    /// The event of a task that waits again.
    fn event(&self, run: &Run) -> TaskChange {
        let (attempt, due) = (run.attempts, moment(self.due.unwrap_or(run.due)));
        match self.how {
            Some(PastEnd::Failed) => {
                let error = PastRun::cut(self.error.unwrap_or_default()).to_owned();
                TaskChange::Failed { attempt, due, error }
            }
            Some(PastEnd::Lost) => TaskChange::Lost { attempt },
            Some(PastEnd::Snoozed) | None => TaskChange::Released { attempt, due },
        }
    }
}

impl Queue<'_, '_> {
    fn now(&self) -> i64 {
        self.step.now_us()
    }

    fn next_revision(&mut self) -> u64 {
        self.row.changed = true;
        self.row.revision += 1;
        self.row.revision
    }

    fn removed(&mut self) {
        self.row.changed = true;
        self.row.len -= 1;
    }

    /// Deletes a record without retaining it.
    fn remove(&mut self, arrival: i64, id: &str) -> Result<()> {
        self.step.exec(sql!("queue/end", "remove"), [arrival])?;
        self.removed();
        self.tell_over(id);
        self.forget_waits(arrival)
    }

    /// Notifies a listener if the task, which just began to wait, is available.
    fn waits(&mut self, due: i64) {
        if due <= self.now() && !self.row.paused {
            self.row.news = self.row.news.saturating_add(1);
        }
    }

    /// Ends expired leases, then turns waiting tasks past their deadline into dead letters.
    fn reap(&mut self) -> Result<()> {
        self.settle()?;
        if self.row.lease_floor <= self.now() {
            self.end_leases()?;
            self.settle()?;
        }
        if self.row.deadline_floor <= self.now() {
            self.delete_late()?;
            self.settle()?;
        }
        Ok(())
    }

    fn delete_late(&mut self) -> Result<()> {
        let params = (self.row.id, self.now());
        let late = self.step.rows(sql!("queue/reap", "late"), params, |row| {
            let (arrival, id): (i64, String) = (row.get(0)?, row.get(1)?);
            Ok((arrival, id, read_line(row, 2)?, row.get::<_, i64>(4)?, row.get::<_, u32>(5)?))
        })?;
        for (arrival, id, line, deadline, attempts) in late {
            self.moment = deadline;
            self.step.exec(sql!("queue/end", "delete_late"), (arrival, DeadLetter::LATE))?;
            self.remove(arrival, &id)?;
            self.has_ended(deadline, &id, TaskEnd::Dead, None, Some(DeadLetter::LATE))?;
            self.note_dead(deadline, &id, attempts, DeadLetter::LATE);
            self.line_changed(&line)?;
        }
        self.moment = self.now();
        self.row.deadline_floor = self.first_deadline()?;
        Ok(())
    }

    /// The earliest deadline of a waiting task.
    fn first_deadline(&mut self) -> Result<i64> {
        if self.row.deadline_floor == i64::MAX {
            return Ok(i64::MAX);
        }
        let first: Option<Option<i64>> =
            self.step.value(sql!("queue/reap", "first_deadline"), [self.row.id])?;
        Ok(first.flatten().unwrap_or(i64::MAX))
    }

    fn waits_until(&mut self, deadline: Option<i64>) {
        self.row.deadline_floor = self.row.deadline_floor.min(deadline.unwrap_or(i64::MAX));
    }

    fn end_leases(&mut self) -> Result<()> {
        let params = (self.row.id, self.now());
        let expired = self.step.rows(sql!("queue/reap", "expired"), params, |row| {
            Ok((row.get::<_, String>(13)?, Run::read(row)?))
        })?;
        for (id, run) in expired {
            let at = run.lease_until;
            let error = match run.deadline {
                _ if run.attempts >= run.max_attempts => Some("lease expired"),
                Some(deadline) if deadline <= at => Some(DeadLetter::LATE),
                _ => None,
            };
            let dead = error.is_some();
            self.moment = at;
            let how = Some(PastEnd::Lost);
            self.end(&id, &run, &Failure { at, due: None, attempts: run.attempts, error, dead, how })?;
        }
        self.moment = self.now();
        let earliest: Option<Option<i64>> = self.step.value(sql!("queue/reap", "earliest"), [self.row.id])?;
        self.row.lease_floor = earliest.flatten().unwrap_or(i64::MAX);
        Ok(())
    }

    /// Ends a run that did not succeed.
    fn end(&mut self, id: &str, run: &Run, failure: &Failure<'_>) -> Result<Ended> {
        if run.replaced {
            self.promote(failure.at, id, run)?;
            return Ok(Ended::Newcomer);
        }
        if run.cancelled {
            self.finish(run.arrival, id, failure.at, TaskChange::Cancelled, None)?;
            self.run_ended(&run.line)?;
            return Ok(Ended::Cancelled);
        }
        let past = kept::past_with(run, failure)?;
        if failure.dead {
            let params = (run.arrival, failure.error.unwrap_or_default(), failure.at, past);
            self.step.exec(sql!("queue/end", "delete_dead"), params)?;
            self.remove(run.arrival, id)?;
            self.has_ended(failure.at, id, TaskEnd::Dead, None, failure.error)?;
            self.note_dead(failure.at, id, run.attempts, failure.error.unwrap_or_default());
            self.run_ended(&run.line)?;
            return Ok(Ended::Dead);
        }
        self.note(failure.at, id, || failure.event(run));
        let params = (run.arrival, failure.due, failure.attempts, failure.error, past);
        self.step.exec(sql!("queue/reap", "wait_again"), params)?;
        self.waits_until(run.deadline);
        match failure.due {
            Some(due) => self.stand_again(run, due)?,
            None => self.stand_as_before(run)?,
        }
        self.run_ended(&run.line)?;
        Ok(Ended::Waiting)
    }

    /// Replaces the record whose run has ended with the pending replacement.
    fn promote(&mut self, at: i64, id: &str, run: &Run) -> Result<()> {
        self.note(at, id, || TaskChange::Requeued { attempt: run.attempts });
        self.step.exec(sql!("queue/end", "remove"), [run.arrival])?;
        self.forget_waits(run.arrival)?;
        let newcomer = self.step.row(sql!("queue/end", "newcomer"), (self.row.id, id), |row| {
            Ok((row.get(0)?, read_line(row, 1)?, row.get(3)?))
        })?;
        let place = self.next_place();
        self.step.exec(sql!("queue/end", "promote"), (self.row.id, id, place, self.gives_way()))?;
        let arrival = self.step.inserted();
        self.step.exec(sql!("queue/end", "forget_newcomer"), (self.row.id, id))?;
        let (due, line, deadline) = newcomer.unwrap_or_default();
        self.waits_until(deadline);
        self.stand(arrival, line, due)?;
        self.run_ended(&run.line)
    }

    /// The run that the ticket names, if it is current.
    fn claimed(&mut self, ticket: &Ticket) -> Result<Option<Run>> {
        let Some(claim) = ticket.claim else { return Ok(None) };
        let params = (self.row.id, ticket.id.as_str(), claim.as_u64().cast_signed());
        self.step.row(sql!("queue/end", "claimed"), params, Run::read)
    }

    fn enqueue(&mut self, task: &NewTask, bounded: bool) -> Result<Enqueued> {
        let due = self.due(task.due);
        let mut dropped = None;
        if let (true, Some(bound)) = (bounded, self.row.limits.bound)
            && self.row.len >= bound
            && self.present(&task.id)?.is_none()
        {
            dropped = match self.overflow(&task.id, bound)? {
                Ok(oldest) => Some(oldest),
                Err(answer) => return Ok(answer),
            };
        }
        let begun = self.begin_to_wait(task)?;
        let held = Self::held(task, begun.as_ref());
        let revision = self.row.revision + 1;
        let params = params![
            self.row.id,
            task.id.as_str(),
            task.priority.get(),
            due,
            revision.cast_signed(),
            self.now(),
            task.max_attempts,
            task.payload.content_type().as_str(),
            task.payload.bytes(),
            self.row.places.cast_signed() + 1,
            self.gives_way(),
            self.deadline(task),
            held,
        ];
        if self.step.exec(sql!("queue/enqueue", "add"), params)? == 0 {
            return self.enqueue_again(task, due);
        }
        self.row.changed = true;
        self.row.revision = revision;
        self.row.len += 1;
        self.row.places += 1;
        let arrival = self.step.inserted();
        self.note(self.now(), task.id.as_str(), || TaskChange::Added { due: moment(due) });
        self.waits_until(self.deadline(task));
        if let Some(begun) = begun {
            self.note_waits(arrival, task, begun)?;
        }
        if held.is_none() {
            self.stand(arrival, line_of(task), due)?;
        }
        let revision = Revision::from_u64(revision);
        Ok(match dropped {
            None => Enqueued::Added { revision },
            Some(dropped) => Enqueued::Displaced { revision, dropped },
        })
    }

    /// Whether waiting tasks may be dropped for new ones.
    fn gives_way(&self) -> bool {
        self.row.limits.overflow == Overflow::DropOldest
    }

    /// Applies the overflow policy to a new task: returns the ID of the task dropped for it, or its answer.
    fn overflow(&mut self, id: &TaskId, bound: u64) -> Result<std::result::Result<TaskId, Enqueued>> {
        match self.row.limits.overflow {
            Overflow::Refuse => Ok(Err(Enqueued::Full { bound })),
            Overflow::DropNew => {
                self.count_dropped();
                self.note(self.now(), id.as_str(), || TaskChange::Dropped);
                Ok(Err(Enqueued::Dropped { bound }))
            }
            Overflow::DropOldest => Ok(self.drop_oldest()?.ok_or(Enqueued::Full { bound })),
        }
    }

    fn count_dropped(&mut self) {
        (self.row.dropped, self.row.changed) = (self.row.dropped + 1, true);
    }

    /// Drops the waiting task that was enqueued first, if any.
    fn drop_oldest(&mut self) -> Result<Option<TaskId>> {
        let oldest = self.step.row(sql!("queue/enqueue", "oldest"), [self.row.id], |row| {
            Ok((row.get(0)?, parsed(row, 1)?, read_line(row, 2)?))
        })?;
        let Some((arrival, id, line)): Option<(i64, TaskId, LineOf)> = oldest else { return Ok(None) };
        self.finish(arrival, id.as_str(), self.now(), TaskChange::Dropped, None)?;
        self.line_changed(&line)?;
        self.count_dropped();
        Ok(Some(id))
    }

    fn due(&self, due: Due) -> i64 {
        stored(due.at(self.step.now))
    }

    fn deadline(&self, task: &NewTask) -> Option<i64> {
        task.deadline.map(|deadline| self.due(deadline))
    }

    fn present(&mut self, id: &TaskId) -> Result<Option<Present>> {
        self.step.row(sql!("queue/enqueue", "present"), (self.row.id, id.as_str()), |row| {
            Ok(Present {
                arrival: row.get(0)?,
                revision: row.get::<_, i64>(1)?.cast_unsigned(),
                due: row.get(2)?,
                first: row.get(3)?,
                leased: row.get::<_, i64>(4)? > 0,
                replaced: row.get(5)?,
                cancelled: row.get(6)?,
                line: read_line(row, 7)?,
                held: row.get(9)?,
            })
        })
    }

    /// Enqueues a task whose ID has a live record.
    fn enqueue_again(&mut self, task: &NewTask, due: i64) -> Result<Enqueued> {
        let Some(present) = self.present(&task.id)? else {
            return Err(Error::bug("the record of a task disappeared within a step").into());
        };
        match task.on_duplicate {
            OnDuplicate::Keep if present.cancelled => self.follow_cancelled(task, due, &present),
            OnDuplicate::Keep => Ok(Enqueued::Kept { revision: Revision::from_u64(present.revision) }),
            OnDuplicate::Earliest if present.leased => self.earliest_newcomer(task, due, &present),
            OnDuplicate::Earliest => self.earliest(&task.id, due, &present),
            OnDuplicate::Replace if present.leased => {
                let first = self.newcomer_first(task)?;
                self.follow(task, due, first, &present)
            }
            OnDuplicate::Replace => self.replace(task, due, &present),
            OnDuplicate::Debounce { max_wait } => {
                let first = if present.leased { self.newcomer_first(task)? } else { present.first };
                let due = due.min(first.saturating_add(micros(max_wait)));
                if present.leased {
                    self.follow(task, due, first, &present)
                } else {
                    self.replace(task, due, &present)
                }
            }
        }
    }

    fn replace(&mut self, task: &NewTask, due: i64, present: &Present) -> Result<Enqueued> {
        let revision = self.next_revision();
        let params = (
            present.arrival,
            task.priority.get(),
            due,
            revision.cast_signed(),
            task.max_attempts,
            task.payload.content_type().as_str(),
            task.payload.bytes(),
            self.deadline(task),
            task.key.as_ref().map_or("", TaskKey::as_str),
        );
        self.step.exec(sql!("queue/enqueue", "replace"), params)?;
        self.note_replaced(&task.id, due);
        self.waits_until(self.deadline(task));
        if !present.held {
            self.stand(present.arrival, line_of(task), due)?;
            self.line_changed(&present.line)?;
        }
        Ok(Enqueued::Replaced { revision: Revision::from_u64(revision) })
    }

    fn earliest(&mut self, id: &TaskId, due: i64, present: &Present) -> Result<Enqueued> {
        if due >= present.due {
            return Ok(Enqueued::Kept { revision: Revision::from_u64(present.revision) });
        }
        let revision = self.next_revision();
        self.step.exec(sql!("queue/enqueue", "advance"), (present.arrival, due, revision.cast_signed()))?;
        self.note_replaced(id, due);
        if !present.held {
            self.stand(present.arrival, present.line.clone(), due)?;
        }
        Ok(Enqueued::Replaced { revision: Revision::from_u64(revision) })
    }

    fn note_replaced(&mut self, id: &TaskId, due: i64) {
        self.note(self.now(), id.as_str(), || TaskChange::Replaced { due: moment(due) });
    }

    /// When the pending replacement of a run was first enqueued; now, if there is none yet.
    fn newcomer_first(&mut self, task: &NewTask) -> Result<i64> {
        let params = (self.row.id, task.id.as_str());
        let first = self.step.row(sql!("queue/enqueue", "newcomer"), params, |row| row.get(2))?;
        Ok(first.unwrap_or(self.now()))
    }

    /// Enqueues behind a canceled run. The first pending replacement is kept.
    fn follow_cancelled(&mut self, task: &NewTask, due: i64, present: &Present) -> Result<Enqueued> {
        let params = (self.row.id, task.id.as_str());
        let newcomer = self.step.value::<i64>(sql!("queue/enqueue", "newcomer"), params)?;
        match newcomer {
            Some(revision) => Ok(Enqueued::Kept { revision: Revision::from_u64(revision.cast_unsigned()) }),
            None => self.follow(task, due, self.now(), present),
        }
    }

    fn earliest_newcomer(&mut self, task: &NewTask, due: i64, present: &Present) -> Result<Enqueued> {
        let params = (self.row.id, task.id.as_str());
        let newcomer = self.step.row(sql!("queue/enqueue", "newcomer"), params, |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?))
        })?;
        match newcomer {
            None => self.follow(task, due, self.now(), present),
            Some((revision, old)) if due >= old => {
                Ok(Enqueued::Kept { revision: Revision::from_u64(revision) })
            }
            Some(_) => {
                let revision = self.next_revision();
                let params = (self.row.id, task.id.as_str(), due, revision.cast_signed());
                self.step.exec(sql!("queue/enqueue", "advance_newcomer"), params)?;
                self.note_replaced(&task.id, due);
                Ok(Enqueued::Replaced { revision: Revision::from_u64(revision) })
            }
        }
    }

    /// Stores the task as the pending replacement of the current run.
    fn follow(&mut self, task: &NewTask, due: i64, first: i64, present: &Present) -> Result<Enqueued> {
        let revision = self.next_revision();
        let params = (
            self.row.id,
            task.id.as_str(),
            task.priority.get(),
            due,
            revision.cast_signed(),
            first,
            task.max_attempts,
            task.payload.content_type().as_str(),
            task.payload.bytes(),
            task.key.as_ref().map(TaskKey::as_str),
            self.deadline(task),
        );
        self.step.exec(sql!("queue/enqueue", "follow"), params)?;
        self.note_replaced(&task.id, due);
        if !present.replaced {
            self.step.exec(sql!("queue/enqueue", "mark"), [present.arrival])?;
        }
        Ok(Enqueued::Replaced { revision: Revision::from_u64(revision) })
    }

    /// The first waiting tasks of the given priority and those after it, due or not.
    fn waiting(&mut self, priority: u8, n: usize) -> Result<Vec<Waiting>> {
        self.step.rows(sql!("queue/claim", "waiting"), (self.row.id, priority, n), read_waiting)
    }

    /// The first due tasks of a priority.
    fn due_of(&mut self, priority: u8, n: usize) -> Result<Vec<Waiting>> {
        let params = (self.row.id, priority, n, self.now());
        self.step.rows(sql!("queue/claim", "due"), params, read_waiting)
    }

    /// The first `n` due tasks.
    ///
    /// One statement reads the first `n` waiting tasks. If one of them is not due, the rest of its priority is not
    /// due either, and the search continues with the next priority.
    fn due_tasks(&mut self, n: u32) -> Result<Vec<Task>> {
        let mut found = Vec::new();
        let mut priority = 0;
        loop {
            let rows = self.waiting(priority, n as usize - found.len())?;
            let now = self.now();
            let early = rows.iter().find(|one| one.at > now).map(|one| one.task.priority.get());
            found.extend(rows.into_iter().take_while(|one| one.at <= now).map(|one| one.task));
            match early {
                Some(of) => priority = of + 1,
                None => return Ok(found),
            }
        }
    }

    /// Claims or pops the first `n` due tasks in order, with `give`. Unlike in [`due_tasks`](Self::due_tasks), a
    /// priority is queried again after a task with a key, because the next task of its key group may be available
    /// now.
    fn give_out(
        &mut self,
        n: u32,
        mut give: impl FnMut(&mut Self, i64, &mut Task) -> Result<()>,
    ) -> Result<Vec<Task>> {
        let n = self.allowed()?.min(n) as usize;
        let mut given = Vec::new();
        let (mut priority, mut had_turn) = (0, false);
        while given.len() < n {
            let wanted = n - given.len();
            let rows =
                if had_turn { self.due_of(priority, wanted)? } else { self.waiting(priority, wanted)? };
            let (mut turned, mut early) = (None, None);
            for Waiting { arrival, mut task, at } in rows {
                let of = task.priority.get();
                if turned.is_some_and(|turned| turned < of) {
                    break;
                }
                if at > self.now() {
                    early = Some(of);
                    break;
                }
                give(self, arrival, &mut task)?;
                self.started(arrival, &task)?;
                turned = turned.or(task.key.as_ref().map(|_| of));
                given.push(task);
            }
            (priority, had_turn) = match (turned, early) {
                (Some(of), _) => (of, true),
                (None, _) if had_turn => (priority + 1, false),
                (None, Some(early)) => (early + 1, false),
                (None, None) => break,
            };
        }
        Ok(given)
    }

    fn next_waiting(&mut self, priority: u8) -> Result<Option<(u8, i64)>> {
        let params = (self.row.id, priority);
        self.step.row(sql!("queue/claim", "next"), params, |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// How long until a task may become available: the earliest due time of all priorities, lease expiry or deadline.
    fn next_due(&mut self) -> Result<Option<Duration>> {
        if self.row.ended {
            return Ok(Some(Duration::ZERO));
        }
        let mut earliest = i64::MAX;
        let mut priority = 0;
        while let Some((of, at)) = self.next_waiting(priority)? {
            earliest = earliest.min(at);
            priority = of + 1;
        }
        if earliest < i64::MAX {
            earliest = if self.has_room()? { earliest.max(self.free_from(None)?) } else { i64::MAX };
        }
        earliest = earliest.min(self.row.lease_floor).min(self.first_deadline()?);
        let until = u64::try_from(earliest.saturating_sub(self.now())).unwrap_or(0);
        Ok((earliest < i64::MAX).then(|| Duration::from_micros(until)))
    }

    fn claim(&mut self, claim: &Claim) -> Result<Claimed> {
        if self.row.paused {
            return Ok(Claimed { tasks: Vec::new(), next_due: None });
        }
        let until = stored(self.step.now + claim.lease.get());
        let tasks = self.give_out(claim.n, |queue, arrival, task| {
            let number = (queue.row.claim + 1).max(queue.step.now.as_micros());
            queue.row.claim = number;
            queue.row.changed = true;
            let params = (arrival, number.cast_signed(), until, claim.worker.as_str());
            queue.step.exec(sql!("queue/claim", "lease"), params)?;
            task.ticket.claim = Some(Fence::from_u64(number));
            task.attempt += 1;
            let (attempt, worker) = (task.attempt, &claim.worker);
            let claimed = || TaskChange::Claimed { attempt, worker: worker.clone() };
            queue.note(queue.now(), task.ticket.id.as_str(), claimed);
            Ok(())
        })?;
        if !tasks.is_empty() {
            self.row.lease_floor = self.row.lease_floor.min(until);
        }
        let filled = tasks.len() == claim.n as usize;
        let next_due = if filled { Some(Duration::ZERO) } else { self.next_due()? };
        Ok(Claimed { tasks, next_due })
    }

    fn pop(&mut self, n: u32) -> Result<Vec<Task>> {
        if self.row.paused {
            return Ok(Vec::new());
        }
        self.give_out(n, |queue, arrival, task| {
            let id = task.ticket.id.as_str();
            queue.remove(arrival, id)?;
            queue.note(queue.now(), id, || TaskChange::Popped);
            queue.has_ended(queue.now(), id, TaskEnd::Popped, None, None)
        })
    }

    fn complete(&mut self, done: &Completion) -> Result<Completed> {
        let ticket = &done.ticket;
        if self.row.limits.retention.is_none() && !self.row.linked && !self.keeps_events() {
            return self.take_done(ticket);
        }
        let Some(run) = self.claimed(ticket)? else { return Ok(Completed::Stale) };
        if run.replaced {
            self.promote(self.now(), ticket.id.as_str(), &run)?;
            return Ok(Completed::Requeued);
        }
        let attempt = run.attempts;
        let how = match done.discarded {
            _ if run.cancelled => TaskChange::Cancelled,
            true => TaskChange::Discarded { attempt },
            false => TaskChange::Done { attempt },
        };
        self.finish(run.arrival, ticket.id.as_str(), self.now(), how, done.result.as_ref())?;
        self.run_ended(&run.line)?;
        Ok(Completed::Done)
    }

    /// Completes a task of a queue that does not retain it.
    fn take_done(&mut self, ticket: &Ticket) -> Result<Completed> {
        let Some(claim) = ticket.claim else { return Ok(Completed::Stale) };
        let params = (self.row.id, ticket.id.as_str(), claim.as_u64().cast_signed());
        let done = self.step.row(sql!("queue/complete", "done"), params, |row| read_line(row, 0))?;
        if let Some(line) = done {
            self.removed();
            self.tell_over(ticket.id.as_str());
            self.run_ended(&line)?;
            return Ok(Completed::Done);
        }
        match self.claimed(ticket)? {
            Some(run) => {
                self.promote(self.now(), ticket.id.as_str(), &run)?;
                Ok(Completed::Requeued)
            }
            None => Ok(Completed::Stale),
        }
    }

    fn retry(&mut self, failed: &Retry) -> Result<Retried> {
        let Some(run) = self.claimed(&failed.ticket)? else { return Ok(Retried::Stale) };
        let due = self.step.now + failed.delay;
        let failure = Failure {
            at: self.now(),
            due: Some(stored(due)),
            attempts: run.attempts,
            error: Some(failed.error_cut()),
            dead: failed.give_up
                || run.attempts >= run.max_attempts
                || run.deadline.is_some_and(|deadline| deadline <= stored(due)),
            how: Some(PastEnd::Failed),
        };
        Ok(match self.end(failed.ticket.id.as_str(), &run, &failure)? {
            Ended::Newcomer => Retried::Requeued,
            Ended::Waiting => Retried::Scheduled { due },
            Ended::Dead => Retried::Dead,
            Ended::Cancelled => Retried::Cancelled,
        })
    }

    fn release_tasks(&mut self, back: &TaskRelease) -> Result<TaskReleased> {
        let Some(run) = self.claimed(&back.ticket)? else { return Ok(TaskReleased::Stale) };
        let (now, attempts) = (self.now(), run.attempts.saturating_sub(1));
        let due = (!back.delay.is_zero()).then(|| stored(self.step.now + back.delay));
        let how = due.map(|_| PastEnd::Snoozed);
        let failure = Failure { at: now, due, attempts, error: None, dead: false, how };
        Ok(match self.end(back.ticket.id.as_str(), &run, &failure)? {
            Ended::Newcomer | Ended::Waiting => TaskReleased::Waiting,
            Ended::Cancelled => TaskReleased::Cancelled,
            Ended::Dead => return Err(Error::bug("a released task became a dead letter").into()),
        })
    }

    fn extend(&mut self, beat: &Heartbeat, lease: Lease) -> Result<TaskExtended> {
        let ticket = &beat.ticket;
        let Some(claim) = ticket.claim else { return Ok(TaskExtended::Lost) };
        let until = stored(self.step.now + lease.get());
        let (of, id, claim) = (self.row.id, ticket.id.as_str(), claim.as_u64().cast_signed());
        self.row.lease_floor = self.row.lease_floor.min(until);
        let cancelled = match &beat.progress {
            None => self.step.value(sql!("queue/extend", "extend"), (of, id, claim, until))?,
            Some(TaskProgress { percent, note }) => {
                self.step.value(sql!("queue/extend", "note"), (of, id, claim, until, percent, note))?
            }
        };
        Ok(match cancelled {
            None => TaskExtended::Lost,
            Some(false) => TaskExtended::Extended,
            Some(true) => TaskExtended::Cancelled,
        })
    }

    fn dequeue(&mut self, ticket: &Ticket) -> Result<Dequeued> {
        if ticket.claim.is_some() && (self.row.linked || self.keeps_events()) {
            return self.dequeue_claimed(ticket);
        }
        if ticket.claim.is_some() {
            return Ok(match self.take_done(ticket)? {
                Completed::Done | Completed::Requeued => Dequeued::Removed,
                Completed::Stale => Dequeued::Stale,
            });
        }
        let present = self.present(&ticket.id)?;
        match present {
            Some(present) if present.revision != ticket.revision.as_u64() => Ok(Dequeued::Stale),
            Some(present) if present.leased => Ok(Dequeued::Leased),
            Some(present) => {
                self.remove(present.arrival, ticket.id.as_str())?;
                self.has_ended(self.now(), ticket.id.as_str(), TaskEnd::Deleted, None, None)?;
                self.note(self.now(), ticket.id.as_str(), || TaskChange::Deleted);
                self.line_changed(&present.line)?;
                Ok(Dequeued::Removed)
            }
            None => Ok(Dequeued::Stale),
        }
    }

    /// Removes a claimed task without completing it: for waiting tasks and events, it was deleted.
    fn dequeue_claimed(&mut self, ticket: &Ticket) -> Result<Dequeued> {
        let Some(run) = self.claimed(ticket)? else { return Ok(Dequeued::Stale) };
        let id = ticket.id.as_str();
        if run.replaced {
            self.promote(self.now(), id, &run)?;
            return Ok(Dequeued::Removed);
        }
        self.remove(run.arrival, id)?;
        self.has_ended(self.now(), id, TaskEnd::Deleted, None, None)?;
        self.note(self.now(), id, || TaskChange::Deleted);
        self.run_ended(&run.line)?;
        Ok(Dequeued::Removed)
    }

    fn cancel(&mut self, id: &TaskId) -> Result<Cancelled> {
        let Some(present) = self.present(id)? else { return Ok(Cancelled::NotFound) };
        if !present.leased {
            self.finish(present.arrival, id.as_str(), self.now(), TaskChange::Cancelled, None)?;
            self.line_changed(&present.line)?;
            return Ok(Cancelled::Removed);
        }
        if present.replaced {
            self.step.exec(sql!("queue/end", "forget_newcomer"), (self.row.id, id.as_str()))?;
        }
        self.step.exec(sql!("queue/cancel", "mark"), [present.arrival])?;
        self.note(self.now(), id.as_str(), || TaskChange::CancelAsked);
        Ok(Cancelled::Marked)
    }

    fn requeue_dead(&mut self, ids: &[String]) -> Result<DeadRequeued> {
        let mut requeued = DeadRequeued::default();
        for id in ids {
            let key = (self.row.id, id.as_str());
            let exists = self.step.row(sql!("queue/requeue_dead", "exists"), key, |row| read_line(row, 0))?;
            let Some(line) = exists else { continue };
            let full = self.row.limits.bound.is_some_and(|bound| self.row.len >= bound);
            let (revision, place) = (self.row.revision + 1, self.row.places + 1);
            let (revision, place) = (revision.cast_signed(), place.cast_signed());
            let params = (self.row.id, id.as_str(), self.now(), revision, place, self.gives_way());
            if full || self.step.exec(sql!("queue/requeue_dead", "requeue_dead"), params)? == 0 {
                requeued.kept += 1;
                continue;
            }
            let arrival = self.step.inserted();
            self.step.exec(sql!("queue/delete_dead", "delete_dead"), key)?;
            self.next_revision();
            self.next_place();
            self.row.len += 1;
            requeued.requeued += 1;
            self.note(self.now(), id, || TaskChange::DeadRequeued);
            self.stand(arrival, line, self.now())?;
        }
        Ok(requeued)
    }

    fn delete_dead(&mut self, which: &Selection) -> Result<u64> {
        for id in self.waited_for_dead(which)? {
            self.has_ended(self.now(), &id, TaskEnd::Deleted, None, None)?;
        }
        let Selection::Ids(ids) = which else {
            if self.keeps_events() {
                let ids: Vec<String> =
                    self.step.rows(sql!("queue/dead", "ids"), [self.row.id], |row| row.get(0))?;
                ids.iter().for_each(|id| self.note(self.now(), id, || TaskChange::DeadDeleted));
            }
            return Ok(self.step.exec(sql!("queue/delete_dead", "all"), [self.row.id])? as u64);
        };
        let mut deleted = 0;
        for id in ids.iter().collect::<BTreeSet<_>>() {
            let gone =
                self.step.exec(sql!("queue/delete_dead", "delete_dead"), (self.row.id, id.as_str()))? as u64;
            if gone > 0 {
                self.note(self.now(), id.as_str(), || TaskChange::DeadDeleted);
            }
            deleted += gone;
        }
        Ok(deleted)
    }
}

fn moment(us: i64) -> Timestamp {
    Timestamp::from_micros(us.cast_unsigned())
}

/// The live record that an enqueue found.
struct Present {
    arrival: i64,
    revision: u64,
    due: i64,
    first: i64,
    leased: bool,
    replaced: bool,
    cancelled: bool,
    line: LineOf,
    /// Whether it waits for other tasks.
    held: bool,
}

/// A waiting task.
struct Waiting {
    arrival: i64,
    task: Task,
    /// When it becomes available.
    at: i64,
}

fn read_waiting(row: &Row<'_>) -> rusqlite::Result<Waiting> {
    let (arrival, task) = read_task(row, 11)?;
    Ok(Waiting { arrival, task, at: row.get(10)? })
}

fn line_of(task: &NewTask) -> LineOf {
    task.key.clone().zip(Some(task.priority.get()))
}

/// Reads the columns that every listing of tasks begins with, and the deadline from the given column.
fn read_task(row: &Row<'_>, deadline: usize) -> rusqlite::Result<(i64, Task)> {
    let micros = row.get::<_, Option<i64>>(deadline)?;
    let task = Task {
        ticket: Ticket {
            id: parsed(row, 1)?,
            due: time(row, 3)?,
            revision: Revision::from_u64(row.get::<_, i64>(4)?.cast_unsigned()),
            claim: None,
        },
        payload: payload(row, 7)?,
        priority: priority(row, 2)?,
        attempt: row.get(5)?,
        max_attempts: row.get(6)?,
        key: key(row, 9)?,
        deadline: micros.map(|at| Timestamp::from_micros(at.cast_unsigned())),
    };
    Ok((row.get(0)?, task))
}

/// Reads the content type, and the payload from the column after it.
fn payload(row: &Row<'_>, at: usize) -> rusqlite::Result<Payload> {
    let bytes = row.get_ref(at + 1)?.as_blob()?;
    Payload::new(parsed(row, at)?, bytes).map_err(|error| unreadable(at + 1, error))
}

fn priority(row: &Row<'_>, at: usize) -> rusqlite::Result<Priority> {
    Priority::new(row.get(at)?).map_err(|error| unreadable(at, error))
}

pub(crate) fn enqueue(step: &mut Step<'_>, queue: &QueueName, tasks: &[NewTask]) -> Result<Vec<Enqueued>> {
    tasks.iter().try_for_each(|task| task.check_at(step.now))?;
    let answers =
        on_queue(step, queue, Access::Make, |queue| tasks.iter().map(|task| queue.offer(task)).collect())?;
    Ok(answers.unwrap_or_default())
}

/// Enqueues a task regardless of the queue's capacity, as part of a sale's step.
pub(crate) fn enqueue_unbounded(step: &mut Step<'_>, queue: &QueueName, task: &NewTask) -> Result<()> {
    on_queue(step, queue, Access::Order, |queue| queue.enqueue(task, false)).map(drop)
}

pub(crate) fn top(step: &mut Step<'_>, queue: &QueueName, n: u32) -> Result<Vec<Task>> {
    Ok(on_queue(step, queue, Access::Look, |queue| queue.due_tasks(n))?.unwrap_or_default())
}

pub(crate) fn pop(step: &mut Step<'_>, queue: &QueueName, n: u32) -> Result<Vec<Task>> {
    Ok(on_queue(step, queue, Access::Change, |queue| queue.pop(n))?.unwrap_or_default())
}

pub(crate) fn claim(step: &mut Step<'_>, queue: &QueueName, claim: &Claim) -> Result<Claimed> {
    let claimed = on_queue(step, queue, Access::Change, |queue| queue.claim(claim))?;
    Ok(claimed.unwrap_or(Claimed { tasks: Vec::new(), next_due: None }))
}

/// Runs `verb` for each item. In a queue that was never used, every answer is `stale`.
fn each<I, T: Clone>(
    step: &mut Step<'_>,
    queue: &QueueName,
    items: &[I],
    stale: T,
    verb: impl Fn(&mut Queue<'_, '_>, &I) -> Result<T>,
) -> Result<Vec<T>> {
    let answers =
        on_queue(step, queue, Access::Change, |queue| items.iter().map(|item| verb(queue, item)).collect())?;
    Ok(answers.unwrap_or_else(|| vec![stale; items.len()]))
}

pub(crate) fn complete(
    step: &mut Step<'_>,
    queue: &QueueName,
    done: &[Completion],
) -> Result<Vec<Completed>> {
    each(step, queue, done, Completed::Stale, |queue, done| queue.complete(done))
}

pub(crate) fn retry(step: &mut Step<'_>, queue: &QueueName, failed: &[Retry]) -> Result<Vec<Retried>> {
    each(step, queue, failed, Retried::Stale, |queue, failed| queue.retry(failed))
}

pub(crate) fn release_tasks(
    step: &mut Step<'_>,
    queue: &QueueName,
    back: &[TaskRelease],
) -> Result<Vec<TaskReleased>> {
    each(step, queue, back, TaskReleased::Stale, |queue, back| queue.release_tasks(back))
}

pub(crate) fn extend_tasks(
    step: &mut Step<'_>,
    queue: &QueueName,
    beats: &[Heartbeat],
    lease: Lease,
) -> Result<Vec<TaskExtended>> {
    each(step, queue, beats, TaskExtended::Lost, |queue, beat| queue.extend(beat, lease))
}

pub(crate) fn dequeue(step: &mut Step<'_>, queue: &QueueName, ticket: &Ticket) -> Result<Dequeued> {
    Ok(on_queue(step, queue, Access::Change, |queue| queue.dequeue(ticket))?.unwrap_or(Dequeued::Stale))
}

pub(crate) fn cancel(step: &mut Step<'_>, queue: &QueueName, id: &TaskId) -> Result<Cancelled> {
    Ok(on_queue(step, queue, Access::Change, |queue| queue.cancel(id))?.unwrap_or(Cancelled::NotFound))
}

pub(crate) fn set_paused(step: &mut Step<'_>, queue: &QueueName, paused: bool) -> Result<()> {
    on_queue(step, queue, Access::Make, |queue| {
        queue.row.paused = paused;
        queue.row.changed = true;
        if !paused {
            // The number of due tasks is unknown here, so all listeners are notified.
            queue.row.news = usize::MAX;
        }
        Ok(())
    })
    .map(drop)
}

pub(crate) fn limit(step: &mut Step<'_>, queue: &QueueName, limits: QueueLimits) -> Result<()> {
    on_queue(step, queue, Access::Make, |queue| queue.limit(limits)).map(drop)
}

pub(crate) fn requeue_dead(
    step: &mut Step<'_>,
    queue: &QueueName,
    which: &Selection,
) -> Result<DeadRequeued> {
    let requeued = on_queue(step, queue, Access::Change, |queue| {
        let mut ids: Vec<String> = match which {
            Selection::Ids(ids) => ids.iter().map(ToString::to_string).collect(),
            Selection::All => queue.step.rows(sql!("queue/dead", "ids"), [queue.row.id], |row| row.get(0))?,
        };
        ids.sort();
        ids.dedup();
        queue.requeue_dead(&ids)
    })?;
    Ok(requeued.unwrap_or_default())
}

pub(crate) fn delete_dead(step: &mut Step<'_>, queue: &QueueName, which: &Selection) -> Result<u64> {
    Ok(on_queue(step, queue, Access::Change, |queue| queue.delete_dead(which))?.unwrap_or_default())
}

/// Ends expired leases, before a read that needs it.
pub(crate) fn reap(step: &mut Step<'_>, queue: &QueueName) -> Result<()> {
    on_queue(step, queue, Access::Look, |_| Ok(())).map(drop)
}

/// Whether the queue has expired leases or other changes that [`reap`] has to apply first.
pub(crate) fn must_reap(reader: &Reader<'_>, queue: &QueueName) -> Result<bool> {
    let params = (queue.as_str(), stored(reader.now));
    Ok(reader.row(sql!("queue/reap", "any"), params, |row| row.get(0))?.unwrap_or(false))
}

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
    let state = match listing.state {
        None => 0,
        Some(TaskState::Scheduled) => 1,
        Some(TaskState::Ready) => 2,
        Some(TaskState::Leased) => 3,
        Some(TaskState::Blocked) => 4,
        Some(TaskState::Done) => return kept::all_finished(reader, queue, listing),
    };
    let params = (queue.as_str(), listing.after.as_str(), state, stored(reader.now), listing.limit);
    reader.rows(sql!("queue/tasks", "many"), params, |row| read_info(row, reader.now))
}

pub(crate) fn stats(reader: &Reader<'_>, queue: &QueueName) -> Result<QueueStats> {
    let now = stored(reader.now);
    let stats = reader.row(sql!("queue/stats", "counts"), (queue.as_str(), now), |row| {
        let count = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
        let oldest = row.get::<_, Option<i64>>(4)?.unwrap_or(now);
        let limits = read_limits(row, 7, 8, 16, 21)?;
        Ok(QueueStats {
            ready: count(0)?,
            scheduled: count(1)?,
            leased: count(2)?,
            dead: count(3)?,
            done: limits.retention.map_or(Ok(0), |_| count(19))?,
            dropped: count(20)?,
            lag_ms: u64::try_from(now - oldest).unwrap_or(0) / 1_000,
            blocked: count(5)?,
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

pub(crate) fn queues(reader: &Reader<'_>) -> Result<Vec<QueueName>> {
    reader.rows(sql!("queue/row", "all"), [], |row| parsed(row, 0))
}

pub(crate) fn dead(
    reader: &Reader<'_>,
    queue: &QueueName,
    after: &str,
    limit: u32,
) -> Result<Vec<DeadLetter>> {
    reader.rows(sql!("queue/dead", "page"), (queue.as_str(), after, limit), read_dead)
}

pub(crate) fn dead_letter(reader: &Reader<'_>, queue: &QueueName, id: &TaskId) -> Result<Option<DeadLetter>> {
    reader.row(sql!("queue/dead", "one"), (queue.as_str(), id.as_str()), read_dead)
}

fn read_dead(row: &Row<'_>) -> rusqlite::Result<DeadLetter> {
    Ok(DeadLetter {
        id: parsed(row, 0)?,
        payload: payload(row, 1)?,
        priority: priority(row, 3)?,
        attempts: row.get(4)?,
        max_attempts: row.get(5)?,
        error: row.get(6)?,
        died_at: time(row, 7)?,
        key: key(row, 8)?,
        past: kept::read_past(row, 9)?,
    })
}
