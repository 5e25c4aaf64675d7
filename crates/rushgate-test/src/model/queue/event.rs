//! Events of a queue's tasks.

use std::collections::VecDeque;

use rushgate_core::{Log, Page, TaskChange, TaskEvent, TaskEvents};

use super::*;

/// The events of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    kept: VecDeque<TaskEvent>,
    last: u64,
    /// Events of the current step, in order of occurrence.
    noted: Vec<(Timestamp, TaskId, TaskChange)>,
}

impl Queue {
    /// Records an event.
    pub(super) fn note(&mut self, at: Timestamp, id: &TaskId, what: TaskChange) {
        let forgets = match what {
            TaskChange::Lost { .. } => self.bug == Some(Planted::LostLeaseIsNoEvent),
            _ => false,
        };
        if self.limits.events.is_some() && !forgets {
            self.events.noted.push((at, id.clone(), what));
        }
    }

    /// Numbers the recorded events by time, so that the result does not depend on when an expiry is noticed.
    pub(super) fn number_events(&mut self) {
        let Events { kept, last, noted } = &mut self.events;
        noted.sort_by_key(|(at, ..)| *at);
        for (at, id, what) in noted.drain(..) {
            *last += 1;
            kept.push_back(TaskEvent { seq: *last, at, id, what });
        }
        self.forget_events();
    }

    /// Deletes events that exceed the limit.
    pub(super) fn forget_events(&mut self) {
        let most = match self.limits.events {
            Some(_) if self.bug == Some(Planted::EventsAreNotForgotten) => usize::MAX,
            most => most.unwrap_or_default() as usize,
        };
        let kept = &mut self.events.kept;
        kept.drain(..kept.len().saturating_sub(most));
    }

    fn events_after(self, page: &Page<u64>) -> TaskEvents {
        let Events { kept, last, .. } = self.events;
        let first = kept.front().map_or(last + 1, |event| event.seq);
        let wanted = kept.into_iter().filter(|event| event.seq > page.after);
        TaskEvents { events: wanted.take(page.limit as usize).collect(), first, last }
    }
}

impl Model {
    /// See [`Verbs::task_events`](rushgate_core::Verbs::task_events).
    pub fn task_events(&mut self, now: Timestamp, name: &QueueName, page: &Page<u64>) -> Result<TaskEvents> {
        Ok(self.queue(now, name).events_after(page))
    }

    /// Whether `after` is the log's latest event, so that its listener must keep waiting.
    pub fn is_at(&mut self, now: Timestamp, log: &Log, after: u64) -> Result<bool> {
        match log {
            Log::Queue(name) => Ok(self.queue(now, name).events.last == after),
            Log::Sale(sale) => self.sale_is_at(sale, after),
        }
    }
}
