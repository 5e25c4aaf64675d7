//! Ends runs: complete, retry, release, extend, dequeue and cancel.

use rushgate_core::{
    Cancelled, Completed, Completion, Dequeued, Error, Heartbeat, Lease, PastEnd, Retried, Retry, TaskChange,
    TaskEnd, TaskExtended, TaskId, TaskProgress, TaskRelease, TaskReleased, Ticket, Timestamp,
};

use super::{Ended, Failure, Queue, read_line};
use crate::fault::Result;
use crate::sql::sql;
use crate::stored::stored;

impl Queue<'_, '_> {
    pub(crate) fn complete(&mut self, done: &Completion) -> Result<Completed> {
        let ticket = &done.ticket;
        if self.row.limits.retention.is_none() && !self.row.linked && !self.keeps_events() {
            return self.take_done(ticket);
        }
        let Some(run) = self.claimed(ticket)? else { return Ok(Completed::Stale) };
        if run.replaced {
            self.promote(self.now(), ticket.id.as_str(), &run)?;
            return Ok(Completed::Requeued);
        }
        let (attempt, began) = (run.attempts, Timestamp::from_micros(run.claim));
        let how = match done.discarded {
            _ if run.cancelled => TaskChange::Cancelled,
            true => TaskChange::Discarded { attempt, began },
            false => TaskChange::Done { attempt, began },
        };
        self.finish(run.arrival, ticket.id.as_str(), self.now(), how, done.result.as_ref())?;
        self.run_ended(&run.line)?;
        Ok(Completed::Done)
    }

    /// Completes a task of a queue that does not retain it.
    fn take_done(&mut self, ticket: &Ticket) -> Result<Completed> {
        let Some(claim) = ticket.claim else { return Ok(Completed::Stale) };
        let params = (self.row.id, ticket.id.as_str(), claim.as_u64().cast_signed());
        let done = self.step.row(sql!("queue/complete", "done"), params, |row| read_line(row, 0))?;
        if let Some(line) = done {
            self.removed();
            self.tell_finished(ticket.id.as_str());
            self.run_ended(&line)?;
            return Ok(Completed::Done);
        }
        match self.claimed(ticket)? {
            Some(run) => {
                self.promote(self.now(), ticket.id.as_str(), &run)?;
                Ok(Completed::Requeued)
            }
            None => Ok(Completed::Stale),
        }
    }

    pub(crate) fn retry(&mut self, failed: &Retry) -> Result<Retried> {
        let Some(run) = self.claimed(&failed.ticket)? else { return Ok(Retried::Stale) };
        let due = self.step.now + failed.delay;
        let failure = Failure {
            at: self.now(),
            due: Some(stored(due)),
            attempts: run.attempts,
            error: Some(failed.error_cut()),
            dead: failed.give_up
                || run.attempts >= run.max_attempts
                || run.deadline.is_some_and(|deadline| deadline <= stored(due)),
            how: Some(PastEnd::Failed),
        };
        Ok(match self.end(failed.ticket.id.as_str(), &run, &failure)? {
            Ended::Newcomer => Retried::Requeued,
            Ended::Waiting => Retried::Scheduled { due },
            Ended::Dead => Retried::Dead,
            Ended::Cancelled => Retried::Cancelled,
        })
    }

    pub(crate) fn release_tasks(&mut self, back: &TaskRelease) -> Result<TaskReleased> {
        let Some(run) = self.claimed(&back.ticket)? else { return Ok(TaskReleased::Stale) };
        let (now, attempts) = (self.now(), run.attempts.saturating_sub(1));
        let due = (!back.delay.is_zero()).then(|| stored(self.step.now + back.delay));
        let how = due.map(|_| PastEnd::Snoozed);
        let failure = Failure { at: now, due, attempts, error: None, dead: false, how };
        Ok(match self.end(back.ticket.id.as_str(), &run, &failure)? {
            Ended::Newcomer | Ended::Waiting => TaskReleased::Waiting,
            Ended::Cancelled => TaskReleased::Cancelled,
            Ended::Dead => return Err(Error::bug("a released task became a dead letter").into()),
        })
    }

    pub(crate) fn extend(&mut self, beat: &Heartbeat, lease: Lease) -> Result<TaskExtended> {
        let ticket = &beat.ticket;
        let Some(claim) = ticket.claim else { return Ok(TaskExtended::Lost) };
        let until = stored(self.step.now + lease.get());
        let (of, id, claim) = (self.row.id, ticket.id.as_str(), claim.as_u64().cast_signed());
        self.row.lease_floor = self.row.lease_floor.min(until);
        let cancelled = match &beat.progress {
            None => self.step.value(sql!("queue/extend", "extend"), (of, id, claim, until))?,
            Some(TaskProgress { percent, note }) => {
                self.step.value(sql!("queue/extend", "note"), (of, id, claim, until, percent, note))?
            }
        };
        Ok(match cancelled {
            None => TaskExtended::Lost,
            Some(false) => TaskExtended::Extended,
            Some(true) => TaskExtended::Cancelled,
        })
    }

    pub(crate) fn dequeue(&mut self, ticket: &Ticket) -> Result<Dequeued> {
        if ticket.claim.is_some() && (self.row.linked || self.keeps_events()) {
            return self.dequeue_claimed(ticket);
        }
        if ticket.claim.is_some() {
            return Ok(match self.take_done(ticket)? {
                Completed::Done | Completed::Requeued => Dequeued::Removed,
                Completed::Stale => Dequeued::Stale,
            });
        }
        let present = self.present(&ticket.id)?;
        match present {
            Some(present) if present.revision != ticket.revision.as_u64() => Ok(Dequeued::Stale),
            Some(present) if present.leased => Ok(Dequeued::Leased),
            Some(present) => {
                self.remove(present.arrival, ticket.id.as_str())?;
                self.has_ended(self.now(), ticket.id.as_str(), TaskEnd::Deleted, None, None)?;
                self.note(self.now(), ticket.id.as_str(), || TaskChange::Deleted);
                self.line_changed(&present.line)?;
                Ok(Dequeued::Removed)
            }
            None => Ok(Dequeued::Stale),
        }
    }

    /// Removes a claimed task without completing it: for waiting tasks and events, it was deleted.
    fn dequeue_claimed(&mut self, ticket: &Ticket) -> Result<Dequeued> {
        let Some(run) = self.claimed(ticket)? else { return Ok(Dequeued::Stale) };
        let id = ticket.id.as_str();
        if run.replaced {
            self.promote(self.now(), id, &run)?;
            return Ok(Dequeued::Removed);
        }
        self.remove(run.arrival, id)?;
        self.has_ended(self.now(), id, TaskEnd::Deleted, None, None)?;
        self.note(self.now(), id, || TaskChange::Deleted);
        self.run_ended(&run.line)?;
        Ok(Dequeued::Removed)
    }

    pub(crate) fn cancel(&mut self, id: &TaskId) -> Result<Cancelled> {
        let Some(present) = self.present(id)? else { return Ok(Cancelled::NotFound) };
        if !present.leased {
            self.finish(present.arrival, id.as_str(), self.now(), TaskChange::Cancelled, None)?;
            self.line_changed(&present.line)?;
            return Ok(Cancelled::Removed);
        }
        if present.replaced {
            self.step.exec(sql!("queue/end", "forget_newcomer"), (self.row.id, id.as_str()))?;
        }
        self.step.exec(sql!("queue/cancel", "mark"), [present.arrival])?;
        self.note(self.now(), id.as_str(), || TaskChange::CancelAsked);
        Ok(Cancelled::Marked)
    }
}
