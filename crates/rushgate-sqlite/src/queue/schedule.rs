//! Schedules: each enqueues a task repeatedly.

use rushgate_core::{
    Due, DueSchedules, Enqueued, Fire, Fired, NewSchedule, NewTask, Revision, Schedule, ScheduleId,
    Scheduled, verb,
};
use rusqlite::Row;

use super::{Queue, payload, priority};
use crate::fault::Result;
use crate::read::Reader;
use crate::sql::sql;
use crate::stored::{optional_time, parsed, stored};

impl Queue<'_, '_> {
    fn find_schedule(&mut self, id: &ScheduleId) -> Result<Option<Schedule>> {
        self.step.row(sql!("queue/schedule", "load"), (self.row.id, id.as_str()), read)
    }

    pub(crate) fn schedule(&mut self, new: &NewSchedule) -> Result<Scheduled> {
        let old = self.find_schedule(&new.id)?;
        if new.as_of.is_some_and(|revision| old.as_ref().is_none_or(|old| old.revision != revision)) {
            return Ok(Scheduled::Stale);
        }
        if let Some(old) = old.as_ref().filter(|old| old.says_the_same(new)) {
            return Ok(Scheduled::Unchanged { revision: old.revision });
        }
        let count: Option<i64> = self.step.value(sql!("queue/schedule", "count"), [self.row.id])?;
        if old.is_none() && count.unwrap_or_default().cast_unsigned() >= NewSchedule::MAX {
            return Ok(Scheduled::Full);
        }
        let was_paused = old.as_ref().is_some_and(|old| old.paused);
        let paused = new.paused.unwrap_or(was_paused);
        let goes_on = old.as_ref().filter(|old| old.recurrence == new.recurrence && old.paused == paused);
        let next = goes_on.map_or(new.next, |old| old.next);
        let revision = self.next_revision();
        let params = (
            self.row.id,
            new.id.as_str(),
            revision.cast_signed(),
            &new.recurrence,
            new.payload.content_type().as_str(),
            new.payload.bytes(),
            new.priority.get(),
            new.max_attempts,
            next.map(stored),
            old.as_ref().and_then(|old| old.previous).map(stored),
            paused,
        );
        self.step.exec(sql!("queue/schedule", "store"), params)?;
        let revision = Revision::from_u64(revision);
        Ok(if old.is_none() { Scheduled::Added { revision } } else { Scheduled::Changed { revision } })
    }

    pub(crate) fn unschedule(&mut self, id: &ScheduleId) -> Result<bool> {
        Ok(self.step.exec(sql!("queue/schedule", "remove"), (self.row.id, id.as_str()))? > 0)
    }

    pub(crate) fn fire(&mut self, fire: &Fire) -> Result<Fired> {
        let now = self.step.now;
        let is_due = |one: &Schedule| !one.paused && one.next.is_some_and(|next| next <= now);
        let found = self.find_schedule(&fire.id)?.filter(|one| one.revision == fire.revision);
        let Some(schedule) = found.filter(is_due) else { return Ok(Fired::Stale) };
        let mut added = 0;
        for (id, at) in &fire.runs {
            let task = NewTask {
                due: Due::At(*at),
                priority: schedule.priority,
                max_attempts: schedule.max_attempts,
                ..NewTask::new(id.clone(), schedule.payload.clone())
            };
            added += u32::from(matches!(self.enqueue(&task, false)?, Enqueued::Added { .. }));
        }
        let previous = fire.runs.iter().map(|(_, at)| *at).max().or(schedule.previous);
        let params = (
            self.row.id,
            fire.id.as_str(),
            self.next_revision().cast_signed(),
            fire.next.map(stored),
            previous.map(stored),
        );
        self.step.exec(sql!("queue/schedule", "fired"), params)?;
        Ok(Fired::Fired { added })
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Schedule> {
    Ok(Schedule {
        id: parsed(row, 0)?,
        revision: Revision::from_u64(row.get::<_, i64>(1)?.cast_unsigned()),
        recurrence: row.get(2)?,
        payload: payload(row, 3)?,
        priority: priority(row, 5)?,
        max_attempts: row.get(6)?,
        next: optional_time(row, 7)?,
        previous: optional_time(row, 8)?,
        paused: row.get(9)?,
    })
}

pub(crate) fn schedules(reader: &Reader<'_>, v: &verb::Schedules) -> Result<Vec<Schedule>> {
    reader.rows(sql!("queue/schedule", "page"), (v.queue.as_str(), &v.page.after, v.page.limit), read)
}

pub(crate) fn due_schedules(reader: &Reader<'_>, v: &verb::DueSchedules) -> Result<DueSchedules> {
    let mut due = reader.rows(sql!("queue/schedule", "due"), (v.queue.as_str(), v.n + 1), read)?;
    let now = reader.now;
    let is_due = |schedule: &&Schedule| schedule.next.is_some_and(|next| next <= now);
    let count = due.iter().take(v.n as usize).take_while(is_due).count();
    let next = due.get(count).and_then(|schedule| schedule.next);
    due.truncate(count);
    Ok(DueSchedules { now, due, next })
}
