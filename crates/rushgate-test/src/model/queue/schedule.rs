use rushgate_core::{
    Due, DueSchedules, Enqueued, Fire, Fired, NewSchedule, NewTask, Page, QueueName, Result, Schedule,
    ScheduleId, Scheduled, Timestamp,
};

use super::{Model, Planted, Queue};

impl Queue {
    fn schedule(&mut self, new: NewSchedule) -> Scheduled {
        let old = self.schedules.get(&new.id);
        if new.as_of.is_some_and(|revision| old.is_none_or(|old| old.revision != revision)) {
            return Scheduled::Stale;
        }
        if let Some(old) = old.filter(|old| old.says_the_same(&new)) {
            return Scheduled::Unchanged { revision: old.revision };
        }
        if old.is_none() && self.schedules.len() as u64 >= NewSchedule::MAX {
            return Scheduled::Full;
        }
        let (is_new, previous) = (old.is_none(), old.and_then(|old| old.previous));
        let paused = new.paused.unwrap_or(old.is_some_and(|old| old.paused));
        // A change of other values keeps due times that have not fired yet.
        let loses = self.bug == Some(Planted::ChangeLosesAMoment);
        let goes_on = old.filter(|old| old.recurrence == new.recurrence && old.paused == paused && !loses);
        let next = goes_on.map_or(new.next, |old| old.next);
        let revision = self.next_revision();
        let NewSchedule { id, recurrence, payload, priority, max_attempts, .. } = new;
        let schedule =
            Schedule { id, recurrence, payload, priority, max_attempts, next, previous, paused, revision };
        self.schedules.insert(schedule.id.clone(), schedule);
        if is_new { Scheduled::Added { revision } } else { Scheduled::Changed { revision } }
    }

    /// Schedules that will fire, by time.
    fn running(&self) -> Vec<(Timestamp, &Schedule)> {
        let running = self.schedules.values().filter(|schedule| !schedule.paused);
        let mut running: Vec<_> = running.filter_map(|one| Some((one.next?, one))).collect();
        running.sort_by_key(|(next, schedule)| (*next, &schedule.id));
        running
    }

    fn fire(&mut self, now: Timestamp, fire: Fire) -> Fired {
        let is_due = |one: &&Schedule| !one.paused && one.next.is_some_and(|next| next <= now);
        let stale_too = self.bug == Some(Planted::StaleScheduleFires);
        let found = self.schedules.get(&fire.id).filter(|one| stale_too || one.revision == fire.revision);
        let Some(mut schedule) = found.filter(is_due).cloned() else { return Fired::Stale };
        schedule.previous = fire.runs.iter().map(|(_, at)| *at).max().or(schedule.previous);
        let mut added = 0;
        for (id, at) in fire.runs {
            let task = NewTask {
                due: Due::At(at),
                priority: schedule.priority,
                max_attempts: schedule.max_attempts,
                ..NewTask::new(id, schedule.payload.clone())
            };
            added += u32::from(matches!(self.put(now, task, false), Enqueued::Added { .. }));
        }
        schedule.next = fire.next;
        schedule.revision = self.next_revision();
        self.schedules.insert(fire.id, schedule);
        Fired::Fired { added }
    }
}

impl Model {
    /// See [`Verbs::schedule`](rushgate_core::Verbs::schedule).
    pub fn schedule(&mut self, now: Timestamp, name: &QueueName, new: NewSchedule) -> Result<Scheduled> {
        self.touch(name);
        Ok(self.change(now, name, |queue| queue.schedule(new)))
    }

    /// See [`Verbs::unschedule`](rushgate_core::Verbs::unschedule).
    pub fn unschedule(&mut self, now: Timestamp, name: &QueueName, id: &ScheduleId) -> Result<bool> {
        Ok(self.change(now, name, |queue| queue.schedules.remove(id).is_some()))
    }

    /// See [`Verbs::schedules`](rushgate_core::Verbs::schedules).
    pub fn schedules(&mut self, now: Timestamp, name: &QueueName, page: &Page) -> Result<Vec<Schedule>> {
        let all = self.queue(now, name).schedules.into_values();
        let wanted = all.filter(|schedule| schedule.id.as_str() > page.after.as_str());
        Ok(wanted.take(page.limit as usize).collect())
    }

    /// See [`Verbs::due_schedules`](rushgate_core::Verbs::due_schedules).
    pub fn due_schedules(&mut self, now: Timestamp, name: &QueueName, n: u32) -> Result<DueSchedules> {
        let queue = self.queue(now, name);
        let running = queue.running();
        let due = running.iter().take_while(|(next, _)| *next <= now).take(n as usize);
        let due: Vec<_> = due.map(|(_, schedule)| (*schedule).clone()).collect();
        let next = running.get(due.len()).map(|(next, _)| *next);
        Ok(DueSchedules { now, due, next })
    }

    /// See [`Verbs::fire`](rushgate_core::Verbs::fire).
    pub fn fire(&mut self, now: Timestamp, name: &QueueName, fire: Fire) -> Result<Fired> {
        Ok(self.change(now, name, |queue| queue.fire(now, fire)))
    }
}
