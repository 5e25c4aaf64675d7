//! The verbs of a queue, each one step.

use std::time::Duration;

use rushgate_core::{
    Cancelled, Claim, Claimed, Completed, DeadLetter, Dequeued, Due, Enqueued, Error, Fence, GivenBack,
    Lease, Listing, NewTask, OnDuplicate, Payload, Priority, QueueLimits, QueueName, QueueStats, Retried,
    Retry, Revision, Revived, Selection, Task, TaskExtended, TaskId, TaskInfo, TaskState, Ticket, Timestamp,
};
use rusqlite::Row;

use crate::fault::Result;
use crate::read::Reader;
use crate::sql::sql;
use crate::step::Step;
use crate::stored::{micros, parsed, stored, time, unreadable};

pub(crate) mod schedule;

/// A queue's counters while a group of calls is carried out.
pub(crate) struct QueueRow {
    name: QueueName,
    id: i64,
    paused: bool,
    bound: Option<u64>,
    len: u64,
    revision: u64,
    claim: u64,
    /// No lease of the queue ends before this.
    lease_floor: i64,
    /// How many tasks became due, which as many listeners will be told.
    news: usize,
    changed: bool,
}

impl QueueRow {
    /// Writes the counters back, if a call of the group changed them.
    pub(crate) fn write_back(&mut self, step: &mut Step<'_>) -> Result<()> {
        if self.news > 0 {
            step.tell_queue(&self.name, self.news);
        }
        if !self.changed {
            return Ok(());
        }
        let params = (
            self.id,
            self.paused,
            self.bound.map(u64::cast_signed),
            self.len.cast_signed(),
            self.revision.cast_signed(),
            self.claim.cast_signed(),
        );
        step.exec(sql!("queue/row", "store"), params).map(drop)
    }
}

/// A verb's view of one queue: the step, and the queue's counters taken out of it.
struct Queue<'s, 'w> {
    step: &'s mut Step<'w>,
    row: QueueRow,
}

/// Runs a verb on a queue, with all leases that ran out given back first. `None` if the queue was never used and
/// the verb is not one that makes it.
fn on_queue<T>(
    step: &mut Step<'_>,
    name: &QueueName,
    create: bool,
    verb: impl FnOnce(&mut Queue<'_, '_>) -> Result<T>,
) -> Result<Option<T>> {
    let row = match step.queues.remove(name) {
        Some(row) => row,
        None => match load(step, name)? {
            Some(row) => row,
            None if create => make(step, name)?,
            None => return Ok(None),
        },
    };
    let mut queue = Queue { step, row };
    let answer = queue.reap().and_then(|()| verb(&mut queue));
    let Queue { step, row } = queue;
    step.queues.insert(name.clone(), row);
    answer.map(Some)
}

fn load(step: &mut Step<'_>, name: &QueueName) -> Result<Option<QueueRow>> {
    step.row(sql!("queue/row", "load"), [name.as_str()], |row| {
        Ok(QueueRow {
            name: name.clone(),
            id: row.get(0)?,
            paused: row.get(1)?,
            bound: row.get::<_, Option<i64>>(2)?.map(i64::cast_unsigned),
            len: row.get::<_, i64>(3)?.cast_unsigned(),
            revision: row.get::<_, i64>(4)?.cast_unsigned(),
            claim: row.get::<_, i64>(5)?.cast_unsigned(),
            lease_floor: row.get::<_, Option<i64>>(6)?.unwrap_or(i64::MAX),
            news: 0,
            changed: false,
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
        bound: None,
        len: 0,
        revision: 0,
        claim: 0,
        lease_floor,
        news: 0,
        changed: false,
    })
}

/// A leased task as its end needs it.
struct Run {
    arrival: i64,
    lease_until: i64,
    attempts: u32,
    max_attempts: u32,
    replaced: bool,
    cancelled: bool,
}

impl Run {
    /// The columns that `expired` and `claimed` begin with.
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            arrival: row.get(0)?,
            lease_until: row.get(1)?,
            attempts: row.get(2)?,
            max_attempts: row.get(3)?,
            replaced: row.get(4)?,
            cancelled: row.get(5)?,
        })
    }
}

/// How a run that did not succeed leaves the record.
enum Ended {
    /// A newcomer waits in its place.
    Newcomer,
    /// It was to be cancelled, and is gone.
    Cancelled,
    /// It waits again.
    Waiting,
    /// It is a dead letter.
    Dead,
}

/// What becomes of a task whose run did not succeed.
struct Failure<'a> {
    /// When the run ended.
    at: i64,
    /// When the next may begin.
    due: i64,
    attempts: u32,
    error: Option<&'a str>,
    dead: bool,
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

    /// Wakes listeners if the task that was just made to wait may be given out.
    fn waits(&mut self, due: i64) {
        if due <= self.now() && !self.row.paused {
            self.row.news = self.row.news.saturating_add(1);
        }
    }

    /// Ends every lease that ran out.
    fn reap(&mut self) -> Result<()> {
        if self.row.lease_floor > self.now() {
            return Ok(());
        }
        let params = (self.row.id, self.now());
        let expired = self.step.rows(sql!("queue/reap", "expired"), params, |row| {
            Ok((row.get::<_, String>(6)?, Run::read(row)?))
        })?;
        for (id, run) in expired {
            let dead = run.attempts >= run.max_attempts;
            let error = dead.then_some("lease ran out");
            let at = run.lease_until;
            self.end(&id, &run, &Failure { at, due: at, attempts: run.attempts, error, dead })?;
        }
        let earliest: Option<Option<i64>> = self.step.value(sql!("queue/reap", "earliest"), [self.row.id])?;
        self.row.lease_floor = earliest.flatten().unwrap_or(i64::MAX);
        Ok(())
    }

    /// Ends a run that did not succeed.
    fn end(&mut self, id: &str, run: &Run, failure: &Failure<'_>) -> Result<Ended> {
        if run.replaced {
            self.promote(id, run.arrival)?;
            return Ok(Ended::Newcomer);
        }
        if run.cancelled || failure.dead {
            if !run.cancelled {
                let params = (run.arrival, failure.error.unwrap_or_default(), failure.at);
                self.step.exec(sql!("queue/end", "bury"), params)?;
            }
            self.step.exec(sql!("queue/end", "remove"), [run.arrival])?;
            self.removed();
            return Ok(if run.cancelled { Ended::Cancelled } else { Ended::Dead });
        }
        let params = (run.arrival, failure.due, failure.attempts, failure.error);
        self.step.exec(sql!("queue/reap", "wait_again"), params)?;
        self.waits(failure.due);
        Ok(Ended::Waiting)
    }

    /// Puts the newcomer in the place of the record whose run has ended.
    fn promote(&mut self, id: &str, arrival: i64) -> Result<()> {
        self.step.exec(sql!("queue/end", "remove"), [arrival])?;
        let due = self.step.value(sql!("queue/end", "newcomer"), (self.row.id, id))?;
        self.step.exec(sql!("queue/end", "promote"), (self.row.id, id))?;
        self.step.exec(sql!("queue/end", "forget_newcomer"), (self.row.id, id))?;
        self.waits(due.unwrap_or_default());
        Ok(())
    }

    /// The run that the ticket claims to be, if it is.
    fn claimed(&mut self, ticket: &Ticket) -> Result<Option<Run>> {
        let Some(claim) = ticket.claim else { return Ok(None) };
        let params = (self.row.id, ticket.id.as_str(), claim.as_u64().cast_signed());
        self.step.row(sql!("queue/end", "claimed"), params, Run::read)
    }

    fn enqueue(&mut self, task: &NewTask, bounded: bool) -> Result<Enqueued> {
        let due = self.due(task.due);
        if let (true, Some(bound)) = (bounded, self.row.bound)
            && self.row.len >= bound
            && self.present(&task.id)?.is_none()
        {
            return Ok(Enqueued::Full { bound });
        }
        let revision = self.row.revision + 1;
        let params = (
            self.row.id,
            task.id.as_str(),
            task.priority.get(),
            due,
            revision.cast_signed(),
            self.now(),
            task.max_attempts,
            task.payload.content_type().as_str(),
            task.payload.bytes(),
        );
        if self.step.exec(sql!("queue/enqueue", "add"), params)? == 0 {
            return self.enqueue_again(task, due);
        }
        self.row.changed = true;
        self.row.revision = revision;
        self.row.len += 1;
        self.waits(due);
        Ok(Enqueued::Added { revision: Revision::from_u64(revision) })
    }

    fn due(&self, due: Due) -> i64 {
        match due {
            Due::Now => self.now(),
            Due::After(delay) => stored(self.step.now + delay),
            Due::At(at) => stored(at),
        }
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
            })
        })
    }

    /// The id has a live record.
    fn enqueue_again(&mut self, task: &NewTask, due: i64) -> Result<Enqueued> {
        let Some(present) = self.present(&task.id)? else {
            return Err(Error::bug("a task's record vanished within a step").into());
        };
        match task.on_duplicate {
            OnDuplicate::Keep if present.cancelled => self.follow_cancelled(task, due, &present),
            OnDuplicate::Keep => Ok(Enqueued::Kept { revision: Revision::from_u64(present.revision) }),
            OnDuplicate::Earliest if present.leased => self.earliest_newcomer(task, due, &present),
            OnDuplicate::Earliest => self.earliest(due, &present),
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
        );
        self.step.exec(sql!("queue/enqueue", "replace"), params)?;
        self.waits(due);
        Ok(Enqueued::Replaced { revision: Revision::from_u64(revision) })
    }

    fn earliest(&mut self, due: i64, present: &Present) -> Result<Enqueued> {
        if due >= present.due {
            return Ok(Enqueued::Kept { revision: Revision::from_u64(present.revision) });
        }
        let revision = self.next_revision();
        self.step.exec(sql!("queue/enqueue", "advance"), (present.arrival, due, revision.cast_signed()))?;
        self.waits(due);
        Ok(Enqueued::Replaced { revision: Revision::from_u64(revision) })
    }

    /// When the newcomer behind a run was first put in: now, if there is none yet.
    fn newcomer_first(&mut self, task: &NewTask) -> Result<i64> {
        let params = (self.row.id, task.id.as_str());
        let first = self.step.row(sql!("queue/enqueue", "newcomer"), params, |row| row.get(2))?;
        Ok(first.unwrap_or(self.now()))
    }

    /// The present run is the record's last: the first newcomer behind it is the one to keep.
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
                Ok(Enqueued::Replaced { revision: Revision::from_u64(revision) })
            }
        }
    }

    /// Puts the newcomer behind the present run.
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
        );
        self.step.exec(sql!("queue/enqueue", "follow"), params)?;
        if !present.replaced {
            self.step.exec(sql!("queue/enqueue", "mark"), [present.arrival])?;
        }
        Ok(Enqueued::Replaced { revision: Revision::from_u64(revision) })
    }

    /// The first `n` due tasks with their rows.
    ///
    /// One statement gives the first `n` waiting tasks. They are what is wanted unless one of them is not due:
    /// then the rest of its priority is not due either, and the next priority is looked into.
    fn due_tasks(&mut self, n: u32) -> Result<Vec<(i64, Task)>> {
        let mut found = Vec::new();
        let mut priority = 0;
        loop {
            let wanted = n as usize - found.len();
            let rows =
                self.step.rows(sql!("queue/claim", "waiting"), (self.row.id, priority, wanted), read_due)?;
            let now = self.step.now;
            let early =
                rows.iter().find(|(_, task)| task.ticket.due > now).map(|(_, task)| task.priority.get());
            found.extend(rows.into_iter().take_while(|(_, task)| task.ticket.due <= now));
            match early {
                Some(of) => priority = of + 1,
                None => return Ok(found),
            }
        }
    }

    fn next_waiting(&mut self, priority: u8) -> Result<Option<(u8, i64)>> {
        let params = (self.row.id, priority);
        self.step.row(sql!("queue/claim", "next"), params, |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// How long until something may be due: the earliest over the priorities, or the end of a lease.
    fn next_due(&mut self) -> Result<Option<Duration>> {
        let mut earliest = self.row.lease_floor;
        let mut priority = 0;
        while let Some((of, due)) = self.next_waiting(priority)? {
            earliest = earliest.min(due);
            priority = of + 1;
        }
        let until = u64::try_from(earliest.saturating_sub(self.now())).unwrap_or(0);
        Ok((earliest < i64::MAX).then(|| Duration::from_micros(until)))
    }

    fn claim(&mut self, claim: &Claim) -> Result<Claimed> {
        if self.row.paused {
            return Ok(Claimed { tasks: Vec::new(), next_due: None });
        }
        let due = self.due_tasks(claim.n)?;
        let until = stored(self.step.now + claim.lease.get());
        let mut tasks = Vec::with_capacity(due.len());
        for (arrival, mut task) in due {
            let number = (self.row.claim + 1).max(self.step.now.as_micros());
            self.row.claim = number;
            self.row.changed = true;
            let params = (arrival, number.cast_signed(), until, claim.worker.as_str());
            self.step.exec(sql!("queue/claim", "lease"), params)?;
            task.ticket.claim = Some(Fence::from_u64(number));
            task.attempt += 1;
            tasks.push(task);
        }
        if !tasks.is_empty() {
            self.row.lease_floor = self.row.lease_floor.min(until);
        }
        let filled = tasks.len() == claim.n as usize;
        let next_due = if filled { Some(Duration::ZERO) } else { self.next_due()? };
        Ok(Claimed { tasks, next_due })
    }

    fn complete(&mut self, ticket: &Ticket) -> Result<Completed> {
        let Some(claim) = ticket.claim else { return Ok(Completed::Stale) };
        let params = (self.row.id, ticket.id.as_str(), claim.as_u64().cast_signed());
        if self.step.exec(sql!("queue/complete", "done"), params)? > 0 {
            self.removed();
            return Ok(Completed::Done);
        }
        match self.claimed(ticket)? {
            Some(run) => {
                self.promote(ticket.id.as_str(), run.arrival)?;
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
            due: stored(due),
            attempts: run.attempts,
            error: Some(failed.error_cut()),
            dead: failed.give_up || run.attempts >= run.max_attempts,
        };
        Ok(match self.end(failed.ticket.id.as_str(), &run, &failure)? {
            Ended::Newcomer => Retried::Requeued,
            Ended::Waiting => Retried::Scheduled { due },
            Ended::Dead => Retried::Dead,
            Ended::Cancelled => Retried::Cancelled,
        })
    }

    fn give_back(&mut self, ticket: &Ticket) -> Result<GivenBack> {
        let Some(run) = self.claimed(ticket)? else { return Ok(GivenBack::Stale) };
        let (now, attempts) = (self.now(), run.attempts.saturating_sub(1));
        let failure = Failure { at: now, due: now, attempts, error: None, dead: false };
        Ok(match self.end(ticket.id.as_str(), &run, &failure)? {
            Ended::Newcomer | Ended::Waiting => GivenBack::Waiting,
            Ended::Cancelled => GivenBack::Cancelled,
            Ended::Dead => return Err(Error::bug("a task that was given back died").into()),
        })
    }

    fn extend(&mut self, ticket: &Ticket, lease: Lease) -> Result<TaskExtended> {
        let Some(claim) = ticket.claim else { return Ok(TaskExtended::Lost) };
        let until = stored(self.step.now + lease.get());
        let params = (self.row.id, ticket.id.as_str(), claim.as_u64().cast_signed(), until);
        self.row.lease_floor = self.row.lease_floor.min(until);
        Ok(match self.step.value(sql!("queue/extend", "extend"), params)? {
            None => TaskExtended::Lost,
            Some(false) => TaskExtended::Extended,
            Some(true) => TaskExtended::Cancelled,
        })
    }

    fn dequeue(&mut self, ticket: &Ticket) -> Result<Dequeued> {
        if ticket.claim.is_some() {
            return Ok(match self.complete(ticket)? {
                Completed::Done | Completed::Requeued => Dequeued::Removed,
                Completed::Stale => Dequeued::Stale,
            });
        }
        let present = self.present(&ticket.id)?;
        match present {
            Some(present) if present.revision != ticket.revision.as_u64() => Ok(Dequeued::Stale),
            Some(present) if present.leased => Ok(Dequeued::Leased),
            Some(present) => {
                self.step.exec(sql!("queue/end", "remove"), [present.arrival])?;
                self.removed();
                Ok(Dequeued::Removed)
            }
            None => Ok(Dequeued::Stale),
        }
    }

    fn cancel(&mut self, id: &TaskId) -> Result<Cancelled> {
        let Some(present) = self.present(id)? else { return Ok(Cancelled::NotFound) };
        if !present.leased {
            self.step.exec(sql!("queue/end", "remove"), [present.arrival])?;
            self.removed();
            return Ok(Cancelled::Removed);
        }
        if present.replaced {
            self.step.exec(sql!("queue/end", "forget_newcomer"), (self.row.id, id.as_str()))?;
        }
        self.step.exec(sql!("queue/cancel", "mark"), [present.arrival])?;
        Ok(Cancelled::Marked)
    }

    fn revive(&mut self, ids: &[String]) -> Result<Revived> {
        let mut revived = Revived::default();
        for id in ids {
            let key = (self.row.id, id.as_str());
            if self.step.value::<i64>(sql!("queue/revive", "exists"), key)?.is_none() {
                continue;
            }
            let full = self.row.bound.is_some_and(|bound| self.row.len >= bound);
            let revision = self.row.revision + 1;
            let params = (self.row.id, id.as_str(), self.now(), revision.cast_signed());
            if full || self.step.exec(sql!("queue/revive", "revive"), params)? == 0 {
                revived.kept += 1;
                continue;
            }
            self.step.exec(sql!("queue/bury", "bury"), key)?;
            self.next_revision();
            self.row.len += 1;
            revived.revived += 1;
            self.waits(self.now());
        }
        Ok(revived)
    }

    fn bury(&mut self, which: &Selection) -> Result<u64> {
        let Selection::Ids(ids) = which else {
            return Ok(self.step.exec(sql!("queue/bury", "all"), [self.row.id])? as u64);
        };
        let mut buried = 0;
        for id in ids {
            buried += self.step.exec(sql!("queue/bury", "bury"), (self.row.id, id.as_str()))? as u64;
        }
        Ok(buried)
    }
}

/// A live record that an enqueue met.
struct Present {
    arrival: i64,
    revision: u64,
    due: i64,
    first: i64,
    leased: bool,
    replaced: bool,
    cancelled: bool,
}

/// The columns that every listing of tasks begins with.
fn read_due(row: &Row<'_>) -> rusqlite::Result<(i64, Task)> {
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
    };
    Ok((row.get(0)?, task))
}

/// The content type and the bytes after it.
fn payload(row: &Row<'_>, at: usize) -> rusqlite::Result<Payload> {
    let bytes = row.get_ref(at + 1)?.as_blob()?;
    Payload::new(parsed(row, at)?, bytes).map_err(|error| unreadable(at + 1, error))
}

fn priority(row: &Row<'_>, at: usize) -> rusqlite::Result<Priority> {
    Priority::new(row.get(at)?).map_err(|error| unreadable(at, error))
}

pub(crate) fn enqueue(step: &mut Step<'_>, queue: &QueueName, tasks: &[NewTask]) -> Result<Vec<Enqueued>> {
    let answers =
        on_queue(step, queue, true, |queue| tasks.iter().map(|task| queue.enqueue(task, true)).collect())?;
    Ok(answers.unwrap_or_default())
}

/// Puts a task in whatever the queue's bound: for tasks that belong to another thing's step.
pub(crate) fn enqueue_unbounded(step: &mut Step<'_>, queue: &QueueName, task: &NewTask) -> Result<()> {
    on_queue(step, queue, true, |queue| queue.enqueue(task, false)).map(drop)
}

pub(crate) fn top(step: &mut Step<'_>, queue: &QueueName, n: u32) -> Result<Vec<Task>> {
    let due = on_queue(step, queue, false, |queue| queue.due_tasks(n))?.unwrap_or_default();
    Ok(due.into_iter().map(|(_, task)| task).collect())
}

pub(crate) fn pop(step: &mut Step<'_>, queue: &QueueName, n: u32) -> Result<Vec<Task>> {
    let popped = on_queue(step, queue, false, |queue| {
        if queue.row.paused {
            return Ok(Vec::new());
        }
        let due = queue.due_tasks(n)?;
        for (arrival, _) in &due {
            queue.step.exec(sql!("queue/end", "remove"), [*arrival])?;
            queue.removed();
        }
        Ok(due.into_iter().map(|(_, task)| task).collect())
    })?;
    Ok(popped.unwrap_or_default())
}

pub(crate) fn claim(step: &mut Step<'_>, queue: &QueueName, claim: &Claim) -> Result<Claimed> {
    let claimed = on_queue(step, queue, false, |queue| queue.claim(claim))?;
    Ok(claimed.unwrap_or(Claimed { tasks: Vec::new(), next_due: None }))
}

/// Answers each ticket by itself; on a queue that was never used every ticket is `stale`.
fn each<I, T: Clone>(
    step: &mut Step<'_>,
    queue: &QueueName,
    items: &[I],
    stale: T,
    verb: impl Fn(&mut Queue<'_, '_>, &I) -> Result<T>,
) -> Result<Vec<T>> {
    let answers = on_queue(step, queue, false, |queue| items.iter().map(|item| verb(queue, item)).collect())?;
    Ok(answers.unwrap_or_else(|| vec![stale; items.len()]))
}

pub(crate) fn complete(step: &mut Step<'_>, queue: &QueueName, tickets: &[Ticket]) -> Result<Vec<Completed>> {
    each(step, queue, tickets, Completed::Stale, |queue, ticket| queue.complete(ticket))
}

pub(crate) fn retry(step: &mut Step<'_>, queue: &QueueName, failed: &[Retry]) -> Result<Vec<Retried>> {
    each(step, queue, failed, Retried::Stale, |queue, failed| queue.retry(failed))
}

pub(crate) fn give_back(
    step: &mut Step<'_>,
    queue: &QueueName,
    tickets: &[Ticket],
) -> Result<Vec<GivenBack>> {
    each(step, queue, tickets, GivenBack::Stale, |queue, ticket| queue.give_back(ticket))
}

pub(crate) fn extend_tasks(
    step: &mut Step<'_>,
    queue: &QueueName,
    tickets: &[Ticket],
    lease: Lease,
) -> Result<Vec<TaskExtended>> {
    each(step, queue, tickets, TaskExtended::Lost, |queue, ticket| queue.extend(ticket, lease))
}

pub(crate) fn dequeue(step: &mut Step<'_>, queue: &QueueName, ticket: &Ticket) -> Result<Dequeued> {
    Ok(on_queue(step, queue, false, |queue| queue.dequeue(ticket))?.unwrap_or(Dequeued::Stale))
}

pub(crate) fn cancel(step: &mut Step<'_>, queue: &QueueName, id: &TaskId) -> Result<Cancelled> {
    Ok(on_queue(step, queue, false, |queue| queue.cancel(id))?.unwrap_or(Cancelled::NotFound))
}

pub(crate) fn pause(step: &mut Step<'_>, queue: &QueueName, paused: bool) -> Result<()> {
    on_queue(step, queue, true, |queue| {
        queue.row.paused = paused;
        queue.row.changed = true;
        if !paused {
            // Everybody may look: how many tasks are due is not known here.
            queue.row.news = usize::MAX;
        }
        Ok(())
    })
    .map(drop)
}

pub(crate) fn limit(step: &mut Step<'_>, queue: &QueueName, limits: QueueLimits) -> Result<()> {
    on_queue(step, queue, true, |queue| {
        queue.row.bound = limits.bound;
        queue.row.changed = true;
        Ok(())
    })
    .map(drop)
}

pub(crate) fn revive(step: &mut Step<'_>, queue: &QueueName, which: &Selection) -> Result<Revived> {
    let revived = on_queue(step, queue, false, |queue| {
        let mut ids: Vec<String> = match which {
            Selection::Ids(ids) => ids.iter().map(ToString::to_string).collect(),
            Selection::All => queue.step.rows(sql!("queue/dead", "ids"), [queue.row.id], |row| row.get(0))?,
        };
        ids.sort();
        ids.dedup();
        queue.revive(&ids)
    })?;
    Ok(revived.unwrap_or_default())
}

pub(crate) fn bury(step: &mut Step<'_>, queue: &QueueName, which: &Selection) -> Result<u64> {
    Ok(on_queue(step, queue, false, |queue| queue.bury(which))?.unwrap_or_default())
}

/// Ends the leases that ran out: what reading a queue needs first, if there are any.
pub(crate) fn reap(step: &mut Step<'_>, queue: &QueueName) -> Result<()> {
    on_queue(step, queue, false, |_| Ok(())).map(drop)
}

/// Whether leases of the queue have run out that no verb has ended yet.
pub(crate) fn must_reap(reader: &Reader<'_>, queue: &QueueName) -> Result<bool> {
    let params = (queue.as_str(), stored(reader.now));
    Ok(reader.row(sql!("queue/reap", "any"), params, |row| row.get(0))?.unwrap_or(false))
}

fn read_info(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<TaskInfo> {
    let (_, mut task) = read_due(row)?;
    let claim = row.get::<_, i64>(9)?.cast_unsigned();
    task.ticket.claim = (claim > 0).then(|| Fence::from_u64(claim));
    let state = match claim {
        0 if task.ticket.due > now => TaskState::Scheduled,
        0 => TaskState::Ready,
        _ => TaskState::Leased,
    };
    Ok(TaskInfo {
        task,
        state,
        lease_until: (claim > 0).then(|| time(row, 10)).transpose()?,
        worker: row.get(11)?,
        replaced: row.get(12)?,
        cancelled: row.get(13)?,
        error: row.get(14)?,
    })
}

pub(crate) fn task(reader: &Reader<'_>, queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>> {
    let params = (queue.as_str(), id.as_str());
    reader.row(sql!("queue/tasks", "one"), params, |row| read_info(row, reader.now))
}

pub(crate) fn tasks(reader: &Reader<'_>, queue: &QueueName, listing: &Listing) -> Result<Vec<TaskInfo>> {
    let state = match listing.state {
        None => 0,
        Some(TaskState::Scheduled) => 1,
        Some(TaskState::Ready) => 2,
        Some(TaskState::Leased) => 3,
    };
    let params = (queue.as_str(), listing.after.as_str(), state, stored(reader.now), listing.limit);
    reader.rows(sql!("queue/tasks", "many"), params, |row| read_info(row, reader.now))
}

pub(crate) fn stats(reader: &Reader<'_>, queue: &QueueName) -> Result<QueueStats> {
    let now = stored(reader.now);
    let stats = reader.row(sql!("queue/stats", "counts"), (queue.as_str(), now), |row| {
        let count = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
        let oldest = row.get::<_, Option<i64>>(4)?.unwrap_or(now);
        Ok(QueueStats {
            ready: count(0)?,
            scheduled: count(1)?,
            leased: count(2)?,
            dead: count(3)?,
            oldest_due_us: u64::try_from(now - oldest).unwrap_or(0),
            paused: row.get(5)?,
            limits: QueueLimits { bound: row.get::<_, Option<i64>>(6)?.map(i64::cast_unsigned) },
        })
    })?;
    Ok(stats.unwrap_or(QueueStats {
        ready: 0,
        scheduled: 0,
        leased: 0,
        dead: 0,
        oldest_due_us: 0,
        paused: false,
        limits: QueueLimits::default(),
    }))
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
    })
}
