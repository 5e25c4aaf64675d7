//! The queue's verbs, each one step, and what several of them share.

pub(crate) mod claim;
pub(crate) mod dead;
pub(crate) mod enqueue;
pub(crate) mod event;
pub(crate) mod finish;
pub(crate) mod kept;
mod line;
pub(crate) mod look;
pub(crate) mod outbox;
pub(crate) mod schedule;
pub(crate) mod unique;
pub(crate) mod wait;
pub(crate) mod worker;

use rushgate_core::{
    DeadLetter, Error, Log, PastEnd, PastRun, Payload, Priority, QueueName, TaskChange, TaskEnd, TaskId,
    TaskKey, Ticket, Timestamp, Topic,
};
use rusqlite::Row;

use crate::fault::Result;
use crate::read::Reader;
use crate::sql::sql;
use crate::step::Step;
use crate::stored::{parse, parsed, stored, unreadable};

use crate::rows::queue::QueueRow;

/// Writes back the rows of the queues that the calls of a group used.
pub(crate) fn write_back(step: &mut Step<'_>) -> Result<()> {
    std::mem::take(&mut step.queues).into_values().try_for_each(|row| row.write_back(step))
}

impl QueueRow {
    /// Writes the counters back if a call of the group changed them.
    fn write_back(self, step: &mut Step<'_>) -> Result<()> {
        if self.wakeups > 0 {
            step.tell(Topic::Ready(self.name.clone()), None, self.wakeups);
        }
        if self.kept_changed {
            step.exec(sql!("queue/finish", "count"), (self.id, self.kept.cast_signed()))?;
        }
        if self.events_changed {
            step.tell(Topic::Event(Log::Queue(self.name.clone()), self.event_last), None, usize::MAX);
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
pub(crate) struct Queue<'s, 'w> {
    step: &'s mut Step<'w>,
    row: QueueRow,
    /// Time of the current change: now, or the expiry of the lease that is being ended.
    moment: i64,
    /// Whether a task was added to the retained ones.
    finished: bool,
    /// Events that are not written yet.
    noted: Vec<Noted>,
}

/// An event without a number.
struct Noted {
    at: i64,
    id: String,
    what: TaskChange,
}

/// Runs `verb` on a queue, after ending all expired leases. Returns `None` if the queue was never used.
pub(crate) fn on_queue<T>(
    step: &mut Step<'_>,
    name: &QueueName,
    verb: impl FnOnce(&mut Queue<'_, '_>) -> Result<T>,
) -> Result<Option<T>> {
    take(step, name)?.map(|row| run(step, row, verb)).transpose()
}

/// The same, but creates a queue that was never used.
pub(crate) fn on_any_queue<T>(
    step: &mut Step<'_>,
    name: &QueueName,
    verb: impl FnOnce(&mut Queue<'_, '_>) -> Result<T>,
) -> Result<T> {
    let row = match take(step, name)? {
        Some(row) => row,
        None => make(step, name)?,
    };
    run(step, row, verb)
}

/// Removes the queue's row from the step's cache, or reads it.
fn take(step: &mut Step<'_>, name: &QueueName) -> Result<Option<QueueRow>> {
    match step.queues.remove(name) {
        Some(row) => Ok(Some(row)),
        None => load(step, name),
    }
}

fn run<T>(
    step: &mut Step<'_>,
    row: QueueRow,
    verb: impl FnOnce(&mut Queue<'_, '_>) -> Result<T>,
) -> Result<T> {
    let moment = step.now_us();
    let mut queue = Queue { step, row, moment, finished: false, noted: Vec::new() };
    let answer = queue.reap().and_then(|()| verb(&mut queue));
    let answer = answer.and_then(|answer| queue.settle().map(|()| answer));
    let answer = answer.and_then(|answer| queue.forget_finished().map(|()| answer));
    let answer = answer.and_then(|answer| queue.write_events().map(|()| answer));
    let Queue { step, row, .. } = queue;
    step.queues.insert(row.name.clone(), row);
    answer
}

fn load(step: &mut Step<'_>, name: &QueueName) -> Result<Option<QueueRow>> {
    step.row(sql!("queue/row", "load"), [name.as_str()], |row| QueueRow::read(row, name))
}

fn make(step: &mut Step<'_>, name: &QueueName) -> Result<QueueRow> {
    step.exec(sql!("queue/row", "create"), [name.as_str()])?;
    load(step, name)?.ok_or_else(|| Error::bug("a queue disappeared within a step").into())
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

/// The past runs of a task as JSON, including the one that ends.
fn past_with(run: &Run, failure: &Failure<'_>) -> Result<Option<String>> {
    let Some(how) = failure.how else { return Ok(run.past.clone()) };
    let mut past = parse_past(run.past.as_deref()).map_err(|error| Error::corrupt(error.to_string()))?;
    let ended = PastRun {
        attempt: run.attempts,
        began: Timestamp::from_micros(run.claim),
        ended: Timestamp::from_micros(failure.at.cast_unsigned()),
        how,
        worker: run.worker.clone(),
        error: PastRun::cut(failure.error.unwrap_or_default()).to_owned(),
    };
    ended.add_to(&mut past);
    let text = serde_json::to_string(&past).map_err(|error| Error::bug(error.to_string()))?;
    Ok(Some(text))
}

fn parse_past(text: Option<&str>) -> serde_json::Result<Vec<PastRun>> {
    text.map_or(Ok(Vec::new()), serde_json::from_str)
}

impl Queue<'_, '_> {
    fn now(&self) -> i64 {
        self.step.now_us()
    }

    pub(crate) fn set_paused(&mut self, paused: bool) -> Result<()> {
        self.row.paused = paused;
        self.row.changed = true;
        if !paused {
            // The number of due tasks is unknown here, so all listeners are notified.
            self.row.wakeups = usize::MAX;
        }
        Ok(())
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
        self.tell_finished(id);
        self.forget_waits(arrival)
    }

    /// Notifies a listener if the task, which just began to wait, is available.
    fn waits(&mut self, due: i64) {
        if due <= self.now() && !self.row.paused {
            self.row.wakeups = self.row.wakeups.saturating_add(1);
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
        let past = past_with(run, failure)?;
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
        let pending_replacement =
            self.step.row(sql!("queue/end", "pending_replacement"), (self.row.id, id), |row| {
                Ok((row.get(0)?, read_line(row, 1)?, row.get(3)?))
            })?;
        let place = self.next_place();
        self.step.exec(sql!("queue/end", "promote"), (self.row.id, id, place, self.gives_way()))?;
        let arrival = self.step.inserted();
        self.step.exec(sql!("queue/end", "forget_newcomer"), (self.row.id, id))?;
        let (due, line, deadline) = pending_replacement.unwrap_or_default();
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
                deadline: row.get(10)?,
            })
        })
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
    deadline: Option<i64>,
}

/// Reads the content type, and the payload from the column after it.
fn payload(row: &Row<'_>, at: usize) -> rusqlite::Result<Payload> {
    let bytes = row.get_ref(at + 1)?.as_blob()?;
    Payload::new(parsed(row, at)?, bytes).map_err(|error| unreadable(at + 1, error))
}

fn read_past(row: &Row<'_>, at: usize) -> rusqlite::Result<Vec<PastRun>> {
    let text = row.get_ref(at)?.as_str_or_null()?;
    parse_past(text).map_err(|error| unreadable(at, Error::corrupt(error.to_string())))
}

fn priority(row: &Row<'_>, at: usize) -> rusqlite::Result<Priority> {
    Priority::new(row.get(at)?).map_err(|error| unreadable(at, error))
}

/// Ends expired leases, before a read that needs it.
pub(crate) fn reap(step: &mut Step<'_>, queue: &QueueName) -> Result<()> {
    on_queue(step, queue, |_| Ok(())).map(drop)
}

/// Whether the queue has expired leases or other changes that [`reap`] has to apply first.
pub(crate) fn must_reap(reader: &Reader<'_>, queue: &QueueName) -> Result<bool> {
    let params = (queue.as_str(), stored(reader.now));
    Ok(reader.row(sql!("queue/reap", "any"), params, |row| row.get(0))?.unwrap_or(false))
}
