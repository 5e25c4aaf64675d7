//! Events of a queue's tasks.

use rushgate_core::{Error, PastRun, QueueName, TaskChange, TaskEvent, TaskEvents, Timestamp, verb};
use rusqlite::{Row, params};

use super::{Noted, Queue};
use crate::fault::Result;
use crate::read::Reader;
use crate::sql::sql;
use crate::stored::{parsed, stored, time, unreadable};

/// Values of the columns `what`, `attempt`, `due_us` and `text`. Of a finished run, `due_us` has when it began.
type Columns<'a> = (u8, Option<u32>, Option<Timestamp>, Option<&'a str>);

fn columns(what: &TaskChange) -> Columns<'_> {
    match what {
        TaskChange::Added { due } => (0, None, Some(*due), None),
        TaskChange::Replaced { due } => (1, None, Some(*due), None),
        TaskChange::Claimed { attempt, worker, due } => (2, Some(*attempt), Some(*due), Some(worker)),
        TaskChange::Done { attempt, began } => (3, Some(*attempt), Some(*began), None),
        TaskChange::Discarded { attempt, began } => (4, Some(*attempt), Some(*began), None),
        TaskChange::Requeued { attempt } => (5, Some(*attempt), None, None),
        TaskChange::Failed { attempt, due, error } => (6, Some(*attempt), Some(*due), Some(error)),
        TaskChange::Lost { attempt } => (7, Some(*attempt), None, None),
        TaskChange::Released { attempt, due } => (8, Some(*attempt), Some(*due), None),
        TaskChange::Dead { attempt, error } => (9, Some(*attempt), None, Some(error)),
        TaskChange::CancelAsked => (10, None, None, None),
        TaskChange::Cancelled => (11, None, None, None),
        TaskChange::Dropped => (12, None, None, None),
        TaskChange::Popped => (13, None, None, None),
        TaskChange::Deleted => (14, None, None, None),
        TaskChange::DeadRequeued => (15, None, None, None),
        TaskChange::DeadDeleted => (16, None, None, None),
    }
}

fn read_event(row: &Row<'_>) -> rusqlite::Result<TaskEvent> {
    let attempt = || row.get(4);
    let due = || time(row, 5);
    let text = || row.get(6);
    let what = match row.get::<_, u8>(2)? {
        0 => TaskChange::Added { due: due()? },
        1 => TaskChange::Replaced { due: due()? },
        2 => TaskChange::Claimed { attempt: attempt()?, worker: text()?, due: due()? },
        3 => TaskChange::Done { attempt: attempt()?, began: due()? },
        4 => TaskChange::Discarded { attempt: attempt()?, began: due()? },
        5 => TaskChange::Requeued { attempt: attempt()? },
        6 => TaskChange::Failed { attempt: attempt()?, due: due()?, error: text()? },
        7 => TaskChange::Lost { attempt: attempt()? },
        8 => TaskChange::Released { attempt: attempt()?, due: due()? },
        9 => TaskChange::Dead { attempt: attempt()?, error: text()? },
        10 => TaskChange::CancelAsked,
        11 => TaskChange::Cancelled,
        12 => TaskChange::Dropped,
        13 => TaskChange::Popped,
        14 => TaskChange::Deleted,
        15 => TaskChange::DeadRequeued,
        16 => TaskChange::DeadDeleted,
        _ => return Err(unreadable(2, Error::corrupt("an event of an unknown kind"))),
    };
    let seq = row.get::<_, i64>(0)?.cast_unsigned();
    Ok(TaskEvent { seq, at: time(row, 1)?, id: parsed(row, 3)?, what })
}

impl Queue<'_, '_> {
    pub(super) fn keeps_events(&self) -> bool {
        self.row.limits.events.is_some()
    }

    /// Records an event, if the queue keeps events.
    pub(super) fn note(&mut self, at: i64, id: &str, what: impl FnOnce() -> TaskChange) {
        if self.keeps_events() {
            self.noted.push(Noted { at, id: id.to_owned(), what: what() });
        }
    }

    /// Records that a task became a dead letter.
    pub(super) fn note_dead(&mut self, at: i64, id: &str, attempt: u32, error: &str) {
        self.note(at, id, || TaskChange::Dead { attempt, error: PastRun::cut(error).to_owned() });
    }

    /// Numbers and writes the recorded events by time, and deletes those that exceed the limit.
    pub(super) fn write_events(&mut self) -> Result<()> {
        let Some(most) = self.row.limits.events.filter(|_| !self.noted.is_empty()) else { return Ok(()) };
        let mut noted = std::mem::take(&mut self.noted);
        noted.sort_by_key(|one| one.at);
        let passed_over = noted.len().saturating_sub(most as usize);
        self.row.event_last += passed_over as u64;
        for Noted { at, id, what } in noted.drain(passed_over..) {
            self.row.event_last += 1;
            let (kind, attempt, due, text) = columns(&what);
            let seq = self.row.event_last.cast_signed();
            let params = params![self.row.id, seq, at, kind, id, attempt, due.map(stored), text];
            self.step.exec(sql!("queue/event", "add"), params)?;
        }
        self.row.events_changed = true;
        self.forget_events(most)
    }

    fn forget_events(&mut self, most: u32) -> Result<()> {
        let old = self.row.event_last.saturating_sub(most.into());
        if old > 0 {
            self.step.exec(sql!("queue/event", "forget"), (self.row.id, old.cast_signed()))?;
        }
        Ok(())
    }

    /// Changes the number of events to keep.
    pub(super) fn limit_events(&mut self, events: Option<u32>) -> Result<()> {
        self.step.exec(sql!("queue/event", "limit"), (self.row.id, events))?;
        self.forget_events(events.unwrap_or_default())
    }
}

pub(crate) fn events(reader: &Reader<'_>, v: &verb::TaskEvents) -> Result<TaskEvents> {
    let verb::TaskEvents { queue, page } = v;
    let kept = reader.row(sql!("queue/event", "kept"), [queue.as_str()], |row| {
        Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?.cast_unsigned()))
    })?;
    let (first, last) = kept.unwrap_or((1, 0));
    let after = i64::try_from(page.after).unwrap_or(i64::MAX);
    let params = (queue.as_str(), after, page.limit);
    let events = reader.rows(sql!("queue/event", "page"), params, read_event)?;
    Ok(TaskEvents { events, first, last })
}

/// Number of the queue's latest event.
pub(crate) fn last(reader: &Reader<'_>, queue: &QueueName) -> Result<u64> {
    let last = reader.row(sql!("queue/event", "last"), [queue.as_str()], |row| row.get::<_, i64>(0))?;
    Ok(last.unwrap_or_default().cast_unsigned())
}
