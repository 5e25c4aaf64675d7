//! Dead letters.

use super::*;

impl Queue {
    pub(super) fn die(&mut self, now: Timestamp, id: &TaskId, error: String) {
        let record = self.records.remove(id).expect("only a live record dies");
        self.has_ended(now, id, TaskEnd::Dead, None, Some(&error));
        let (attempt, why) = (record.attempts, PastRun::cut(&error).to_owned());
        self.note(now, id, TaskChange::Dead { attempt, error: why });
        let letter = DeadLetter {
            id: id.clone(),
            payload: record.content.payload,
            priority: record.content.priority,
            attempts: record.attempts,
            max_attempts: record.content.max_attempts,
            error,
            died_at: now,
            key: record.content.key,
            past: record.past,
        };
        self.dead.insert(id.clone(), letter);
    }

    fn chosen(&self, which: &Selection) -> BTreeSet<TaskId> {
        match which {
            Selection::All => self.dead.keys().cloned().collect(),
            Selection::Ids(ids) => ids.iter().filter(|id| self.dead.contains_key(id)).cloned().collect(),
        }
    }

    fn requeue_dead(&mut self, now: Timestamp, which: &Selection) -> DeadRequeued {
        let mut answer = DeadRequeued::default();
        for id in self.chosen(which) {
            if self.records.contains_key(&id) || self.is_full().is_some() {
                answer.kept += 1;
                continue;
            }
            let DeadLetter { payload, priority, max_attempts, key, .. } =
                self.dead.remove(&id).expect("it was chosen among the dead");
            self.note(now, &id, TaskChange::DeadRequeued);
            self.add(now, id, Content { payload, due: now, priority, max_attempts, key, deadline: None });
            self.tidy(now);
            answer.requeued += 1;
        }
        answer
    }
}

impl Model {
    /// See [`Verbs::dead`](rushgate_core::Verbs::dead).
    pub fn dead(&mut self, now: Timestamp, name: &QueueName, page: &Page) -> Result<Vec<DeadLetter>> {
        let queue = self.queue(now, name);
        let wanted = queue.dead.into_values().filter(|letter| letter.id.as_str() > page.after.as_str());
        Ok(wanted.take(page.limit as usize).collect())
    }

    /// See [`Verbs::dead_letter`](rushgate_core::Verbs::dead_letter).
    pub fn dead_letter(
        &mut self,
        now: Timestamp,
        name: &QueueName,
        id: &TaskId,
    ) -> Result<Option<DeadLetter>> {
        Ok(self.queue(now, name).dead.remove(id))
    }

    /// See [`Verbs::requeue_dead`](rushgate_core::Verbs::requeue_dead).
    pub fn requeue_dead(
        &mut self,
        now: Timestamp,
        op: Op,
        name: &QueueName,
        which: &Selection,
    ) -> Result<DeadRequeued> {
        once!(self, op, RequeueDead, self.change(now, name, |queue| queue.requeue_dead(now, which)))
    }

    /// See [`Verbs::delete_dead`](rushgate_core::Verbs::delete_dead).
    pub fn delete_dead(
        &mut self,
        now: Timestamp,
        op: Op,
        name: &QueueName,
        which: &Selection,
    ) -> Result<u64> {
        let step = |queue: &mut Queue| {
            let chosen = queue.chosen(which);
            let gone: Vec<_> = chosen.into_iter().filter(|id| queue.dead.remove(id).is_some()).collect();
            for id in &gone {
                queue.note(now, id, TaskChange::DeadDeleted);
            }
            for id in gone.iter().filter(|id| !queue.records.contains_key(id)).cloned().collect::<Vec<_>>() {
                queue.has_ended(now, &id, TaskEnd::Deleted, None, None);
            }
            gone.len() as u64
        };
        once!(self, op, DeleteDead, self.change(now, name, step))
    }
}
