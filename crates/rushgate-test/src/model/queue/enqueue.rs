//! Enqueueing: duplicates, capacity and the overflow policy.

use super::*;

impl Queue {
    pub(super) fn is_full(&self) -> Option<u64> {
        let ignored = self.bug == Some(Planted::BoundIsIgnored);
        self.limits.bound.filter(|bound| !ignored && self.records.len() as u64 >= *bound)
    }

    pub(super) fn put(&mut self, now: Timestamp, task: NewTask, bounded: bool) -> Enqueued {
        let asked = task.clone();
        let content = Content {
            due: task.due.at(now),
            payload: task.payload,
            priority: task.priority,
            max_attempts: task.max_attempts,
            key: task.key,
            deadline: task.deadline.map(|deadline| deadline.at(now)),
        };
        let answer = match self.records.get(&task.id) {
            None => match self.is_full().filter(|_| bounded) {
                Some(bound) => self.overflow(now, bound, &asked, content),
                None => Enqueued::Added { revision: self.add_asked(now, &asked, content) },
            },
            Some(record) if task.on_duplicate == OnDuplicate::Keep && !record.cancelled => {
                Enqueued::Kept { revision: record.revision }
            }
            Some(record) if record.lease.is_some() => {
                self.put_behind(now, &task.id, task.on_duplicate, content)
            }
            Some(_) => self.put_over(&task.id, task.on_duplicate, content),
        };
        if matches!(answer, Enqueued::Replaced { .. }) {
            let record = &self.records[&task.id];
            let due = record.next.as_ref().map_or(record.due, |next| next.content.due);
            self.note(now, &task.id, TaskChange::Replaced { due });
        }
        self.tidy(now);
        answer
    }

    /// Applies the overflow policy to a new task.
    fn overflow(&mut self, now: Timestamp, bound: u64, asked: &NewTask, content: Content) -> Enqueued {
        let oldest = self.oldest();
        match self.limits.overflow {
            Overflow::Refuse => Enqueued::Full { bound },
            Overflow::DropNew => {
                self.dropped += 1;
                self.note(now, &asked.id, TaskChange::Dropped);
                Enqueued::Dropped { bound }
            }
            Overflow::DropOldest => match oldest {
                None => Enqueued::Full { bound },
                Some(dropped) => {
                    self.finish(now, &dropped, Finish::Dropped, None);
                    self.tidy(now);
                    self.dropped += 1;
                    Enqueued::Displaced { revision: self.add_asked(now, asked, content), dropped }
                }
            },
        }
    }

    /// The waiting record that was enqueued first.
    fn oldest(&self) -> Option<TaskId> {
        let careless = self.bug == Some(Planted::LeasedTaskIsDropped);
        let waiting = self.records.iter().filter(|(_, record)| record.lease.is_none() || careless);
        let by_age = |(id, record): &(&TaskId, &Record)| (record.first, (*id).clone());
        let found = match self.bug {
            Some(Planted::NewestIsDropped) => waiting.max_by_key(by_age),
            _ => waiting.min_by_key(by_age),
        };
        found.map(|(id, _)| id.clone())
    }

    fn add_asked(&mut self, now: Timestamp, asked: &NewTask, content: Content) -> Revision {
        let waits = self.begin_to_wait(now, asked);
        self.note(now, &asked.id, TaskChange::Added { due: content.due });
        let revision = self.add(now, asked.id.clone(), content);
        self.records.get_mut(&asked.id).expect("it was just added").waits = waits;
        revision
    }

    pub(super) fn add(&mut self, now: Timestamp, id: TaskId, content: Content) -> Revision {
        let revision = self.next_revision();
        let record = self.fresh(revision, now, content);
        self.records.insert(id, record);
        revision
    }

    /// Enqueues over a waiting record.
    fn put_over(&mut self, id: &TaskId, mode: OnDuplicate, mut content: Content) -> Enqueued {
        let revision = self.next_revision();
        let record = self.records.get_mut(id).expect("the caller found it");
        match mode {
            OnDuplicate::Keep => unreachable!("kept by the caller"),
            OnDuplicate::Earliest if content.due >= record.due => {
                self.revision_last -= 1;
                return Enqueued::Kept { revision: record.revision };
            }
            OnDuplicate::Earliest => record.content.due = content.due,
            OnDuplicate::Replace | OnDuplicate::Debounce { .. } => {
                if let OnDuplicate::Debounce { max_wait } = mode {
                    content.due = content.due.min(record.first + max_wait);
                }
                record.content = content;
                record.attempts = 0;
                record.error = None;
                record.past.clear();
            }
        }
        (record.due, record.line_due) = (record.content.due, record.content.due);
        record.revision = revision;
        self.reseat(id);
        Enqueued::Replaced { revision }
    }

    /// Enqueues behind a leased record, as the pending replacement.
    fn put_behind(
        &mut self,
        now: Timestamp,
        id: &TaskId,
        mode: OnDuplicate,
        mut content: Content,
    ) -> Enqueued {
        let lost = self.bug == Some(Planted::ReplaceIsLostWhileLeased);
        let revision = self.next_revision();
        let record = self.records.get_mut(id).expect("the caller found it");
        let first = record.next.as_ref().map_or(now, |next| next.first);
        match (&mut record.next, mode) {
            (Some(next), OnDuplicate::Keep) => {
                self.revision_last -= 1;
                return Enqueued::Kept { revision: next.revision };
            }
            (Some(next), OnDuplicate::Earliest) if content.due >= next.content.due => {
                self.revision_last -= 1;
                return Enqueued::Kept { revision: next.revision };
            }
            (Some(next), OnDuplicate::Earliest) => {
                next.content.due = content.due;
                next.revision = revision;
            }
            _ if lost => {}
            (next, _) => {
                if let OnDuplicate::Debounce { max_wait } = mode {
                    content.due = content.due.min(first + max_wait);
                }
                *next = Some(Newcomer { revision, first, content });
            }
        }
        Enqueued::Replaced { revision }
    }
}

impl Model {
    /// See [`Verbs::enqueue`](rushgate_core::Verbs::enqueue).
    pub fn enqueue(
        &mut self,
        now: Timestamp,
        op: Op,
        name: &QueueName,
        tasks: Vec<NewTask>,
    ) -> Result<Vec<Enqueued>> {
        if self.kept_answer(op).is_none() {
            tasks.iter().try_for_each(|task| task.check_at(now))?;
        }
        self.touch(name);
        let put = |queue: &mut Queue| tasks.into_iter().map(|task| queue.offer(now, task)).collect();
        once!(self, op, Enqueue, self.change::<Vec<_>>(now, name, put))
    }

    /// Enqueues a task as part of another step.
    pub(in crate::model) fn offer(
        &mut self,
        now: Timestamp,
        name: &QueueName,
        task: NewTask,
    ) -> Result<Enqueued> {
        self.touch(name);
        Ok(self.change(now, name, |queue: &mut Queue| queue.offer(now, task)))
    }
}
