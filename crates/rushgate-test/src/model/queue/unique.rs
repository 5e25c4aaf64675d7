//! Uniqueness windows of task IDs, which are independent of the records.

use super::*;

impl Queue {
    /// Enqueues a client's task. Uniqueness is checked before the capacity.
    pub(super) fn offer(&mut self, now: Timestamp, task: NewTask) -> Enqueued {
        let recent = self.unique_until(now, &task.id).filter(|_| !self.records.contains_key(&task.id));
        if let Some(until) = recent.filter(|_| self.bug != Some(Planted::UniquenessEndsWithTheTask)) {
            return Enqueued::Recent { until };
        }
        if let Some(refused) = self.refusal(&task) {
            return refused;
        }
        let (id, period, whole) = (task.id.clone(), task.unique_for, task.part_of.clone());
        let answer = self.put(now, task, true);
        if let Some(whole) = whole.filter(|_| answer.is_in()) {
            self.join(&id, &whole);
        }
        self.settle();
        let careless = self.bug == Some(Planted::KeptDuplicateProlongsThePeriod);
        let begins = answer.is_accepted() || careless && matches!(answer, Enqueued::Kept { .. });
        if let Some(period) = period.filter(|_| begins) {
            self.begin_period(now, id, now + period);
        }
        answer
    }

    fn begin_period(&mut self, now: Timestamp, id: TaskId, until: Timestamp) {
        let running = self.unique_until(now, &id);
        let running = running.filter(|_| self.bug != Some(Planted::ShorterPeriodEndsTheLonger));
        self.unique.insert(id, running.map_or(until, |running| running.max(until)));
    }

    fn unique_until(&self, now: Timestamp, id: &TaskId) -> Option<Timestamp> {
        self.unique.get(id).copied().filter(|until| *until > now)
    }

    fn clear_unique(&mut self, now: Timestamp, id: &TaskId) -> UniqueCleared {
        let cleared = self.unique_until(now, id).map(|until| UniqueCleared::Cleared { until });
        self.unique.remove(id);
        cleared.unwrap_or(UniqueCleared::NotFound)
    }
}

impl Model {
    /// See [`Verbs::unique_until`](rushgate_core::Verbs::unique_until).
    pub fn unique_until(
        &mut self,
        now: Timestamp,
        name: &QueueName,
        id: &TaskId,
    ) -> Result<Option<Timestamp>> {
        Ok(self.queue(now, name).unique_until(now, id))
    }

    /// See [`Verbs::clear_unique`](rushgate_core::Verbs::clear_unique).
    pub fn clear_unique(
        &mut self,
        now: Timestamp,
        op: Op,
        name: &QueueName,
        id: &TaskId,
    ) -> Result<UniqueCleared> {
        // The task does not matter, so leases and deadlines are not checked.
        once!(self, op, ClearUnique, {
            let queue = self.queues.by_name.get_mut(name);
            queue.map_or(UniqueCleared::NotFound, |queue| queue.clear_unique(now, id))
        })
    }
}
