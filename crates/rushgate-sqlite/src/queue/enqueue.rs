//! Enqueues tasks: what a duplicate does, and what a full queue does.

use rushgate_core::{
    Due, Enqueued, Error, NewTask, OnDuplicate, Overflow, QueueName, Rescheduled, Revision, TaskChange,
    TaskId, TaskKey,
};
use rusqlite::params;

use super::{LineOf, Present, Queue, moment, on_any_queue, read_line};
use crate::fault::Result;
use crate::sql::sql;
use crate::step::Step;
use crate::stored::{micros, parsed, stored};

fn line_of(task: &NewTask) -> LineOf {
    task.key.clone().zip(Some(task.priority.get()))
}

pub(crate) fn enqueue(step: &mut Step<'_>, queue: &QueueName, tasks: &[NewTask]) -> Result<Vec<Enqueued>> {
    tasks.iter().try_for_each(|task| task.check_at(step.now))?;
    on_any_queue(step, queue, |queue| tasks.iter().map(|task| queue.offer(task)).collect())
}

impl Queue<'_, '_> {
    pub(crate) fn reschedule(&mut self, id: &TaskId, due: Due) -> Result<Rescheduled> {
        let Some(present) = self.present(id)? else { return Ok(Rescheduled::NotFound) };
        if present.leased {
            return Ok(Rescheduled::Leased);
        }
        let due = self.due(due);
        if let Some(deadline) = present.deadline.filter(|deadline| *deadline <= due) {
            return Ok(Rescheduled::TooLate { deadline: moment(deadline) });
        }
        self.move_to(id, due, &present)?;
        Ok(Rescheduled::Rescheduled { due: moment(due) })
    }

    pub(super) fn enqueue(&mut self, task: &NewTask, bounded: bool) -> Result<Enqueued> {
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
    pub(super) fn gives_way(&self) -> bool {
        self.row.limits.overflow == Overflow::DropOldest
    }

    /// Applies the overflow policy to a new task: returns the ID of the task dropped for it, or its answer.
    pub(super) fn overflow(
        &mut self,
        id: &TaskId,
        bound: u64,
    ) -> Result<std::result::Result<TaskId, Enqueued>> {
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

    pub(super) fn due(&self, due: Due) -> i64 {
        stored(due.at(self.step.now))
    }

    pub(super) fn deadline(&self, task: &NewTask) -> Option<i64> {
        task.deadline.map(|deadline| self.due(deadline))
    }

    /// Enqueues a task whose ID has a live record.
    fn enqueue_again(&mut self, task: &NewTask, due: i64) -> Result<Enqueued> {
        let Some(present) = self.present(&task.id)? else {
            return Err(Error::bug("the record of a task disappeared within a step").into());
        };
        match task.on_duplicate {
            OnDuplicate::Keep if present.cancelled => self.follow_cancelled(task, due, &present),
            OnDuplicate::Keep => Ok(Enqueued::Kept { revision: Revision::from_u64(present.revision) }),
            OnDuplicate::Earliest if present.leased => self.earliest_replacement(task, due, &present),
            OnDuplicate::Earliest => self.earliest(&task.id, due, &present),
            OnDuplicate::Replace if present.leased => {
                let first = self.replacement_first_us(task)?;
                self.follow(task, due, first, &present)
            }
            OnDuplicate::Replace => self.replace(task, due, &present),
            OnDuplicate::Debounce { max_wait } => {
                let first = if present.leased { self.replacement_first_us(task)? } else { present.first };
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

    pub(super) fn earliest(&mut self, id: &TaskId, due: i64, present: &Present) -> Result<Enqueued> {
        if due >= present.due {
            return Ok(Enqueued::Kept { revision: Revision::from_u64(present.revision) });
        }
        let revision = self.move_to(id, due, present)?;
        Ok(Enqueued::Replaced { revision: Revision::from_u64(revision) })
    }

    /// Changes the due time of a waiting task, and nothing else. Returns its new revision.
    fn move_to(&mut self, id: &TaskId, due: i64, present: &Present) -> Result<u64> {
        let revision = self.next_revision();
        self.step.exec(sql!("queue/enqueue", "move"), (present.arrival, due, revision.cast_signed()))?;
        self.note_replaced(id, due);
        if !present.held {
            self.stand(present.arrival, present.line.clone(), due)?;
        }
        Ok(revision)
    }

    fn note_replaced(&mut self, id: &TaskId, due: i64) {
        self.note(self.now(), id.as_str(), || TaskChange::Replaced { due: moment(due) });
    }

    /// When the pending replacement of a run was first enqueued; now, if there is none yet.
    fn replacement_first_us(&mut self, task: &NewTask) -> Result<i64> {
        let params = (self.row.id, task.id.as_str());
        let first = self.step.row(sql!("queue/enqueue", "pending_replacement"), params, |row| row.get(2))?;
        Ok(first.unwrap_or(self.now()))
    }

    /// Enqueues behind a canceled run. The first pending replacement is kept.
    fn follow_cancelled(&mut self, task: &NewTask, due: i64, present: &Present) -> Result<Enqueued> {
        let params = (self.row.id, task.id.as_str());
        let pending_replacement =
            self.step.value::<i64>(sql!("queue/enqueue", "pending_replacement"), params)?;
        match pending_replacement {
            Some(revision) => Ok(Enqueued::Kept { revision: Revision::from_u64(revision.cast_unsigned()) }),
            None => self.follow(task, due, self.now(), present),
        }
    }

    fn earliest_replacement(&mut self, task: &NewTask, due: i64, present: &Present) -> Result<Enqueued> {
        let params = (self.row.id, task.id.as_str());
        let pending_replacement =
            self.step.row(sql!("queue/enqueue", "pending_replacement"), params, |row| {
                Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?))
            })?;
        match pending_replacement {
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
}
