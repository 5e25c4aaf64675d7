//! Gives out due tasks: top, pop and claim.

use std::time::Duration;

use rushgate_core::{Claim, Claimed, Fence, Revision, Task, TaskChange, TaskEnd, Ticket};
use rusqlite::Row;

use super::{Queue, key, payload, priority};
use crate::fault::Result;
use crate::sql::sql;
use crate::stored::{optional_time, parsed, stored, time};

/// A waiting task.
pub(super) struct Waiting {
    arrival: i64,
    task: Task,
    /// When it becomes available.
    at: i64,
}

fn read_waiting(row: &Row<'_>) -> rusqlite::Result<Waiting> {
    let (arrival, task) = read_task(row, 11)?;
    Ok(Waiting { arrival, task, at: row.get(10)? })
}

/// Reads the columns that every listing of tasks begins with, and the deadline from the given column.
pub(super) fn read_task(row: &Row<'_>, deadline: usize) -> rusqlite::Result<(i64, Task)> {
    let task = Task {
        ticket: Ticket {
            id: parsed(row, 1)?,
            due: time(row, 3)?,
            revision: Revision::from_u64(row.get::<_, i64>(4)?.cast_unsigned()),
            claim: None,
        },
        payload: payload(row, 7)?,
        priority: priority(row, 2)?,
        attempt: row.get(5)?,
        max_attempts: row.get(6)?,
        key: key(row, 9)?,
        deadline: optional_time(row, deadline)?,
    };
    Ok((row.get(0)?, task))
}

impl Queue<'_, '_> {
    /// The first waiting tasks of the given priority and those after it, due or not.
    fn waiting(&mut self, priority: u8, n: usize) -> Result<Vec<Waiting>> {
        self.step.rows(sql!("queue/claim", "waiting"), (self.row.id, priority, n), read_waiting)
    }

    /// The first due tasks of a priority.
    fn due_of(&mut self, priority: u8, n: usize) -> Result<Vec<Waiting>> {
        let params = (self.row.id, priority, n, self.now());
        self.step.rows(sql!("queue/claim", "due"), params, read_waiting)
    }

    /// The first `n` due tasks.
    ///
    /// One statement reads the first `n` waiting tasks. If one of them is not due, the rest of its priority is not
    /// due either, and the search continues with the next priority.
    pub(crate) fn due_tasks(&mut self, n: u32) -> Result<Vec<Task>> {
        let mut found = Vec::new();
        let mut priority = 0;
        loop {
            let rows = self.waiting(priority, n as usize - found.len())?;
            let now = self.now();
            let early = rows.iter().find(|one| one.at > now).map(|one| one.task.priority.get());
            found.extend(rows.into_iter().take_while(|one| one.at <= now).map(|one| one.task));
            match early {
                Some(of) => priority = of + 1,
                None => return Ok(found),
            }
        }
    }

    /// Claims or pops the first `n` due tasks in order, with `give`. Unlike in [`due_tasks`](Self::due_tasks), a
    /// priority is queried again after a task with a key, because the next task of its key group may be available
    /// now.
    fn give_out(
        &mut self,
        n: u32,
        mut give: impl FnMut(&mut Self, i64, &mut Task) -> Result<()>,
    ) -> Result<Vec<Task>> {
        let n = self.allowed()?.min(n) as usize;
        let mut given = Vec::new();
        let (mut priority, mut had_turn) = (0, false);
        while given.len() < n {
            let wanted = n - given.len();
            let rows =
                if had_turn { self.due_of(priority, wanted)? } else { self.waiting(priority, wanted)? };
            let (mut turned, mut early) = (None, None);
            for Waiting { arrival, mut task, at } in rows {
                let of = task.priority.get();
                if turned.is_some_and(|turned| turned < of) {
                    break;
                }
                if at > self.now() {
                    early = Some(of);
                    break;
                }
                give(self, arrival, &mut task)?;
                self.started(arrival, &task)?;
                turned = turned.or(task.key.as_ref().map(|_| of));
                given.push(task);
            }
            (priority, had_turn) = match (turned, early) {
                (Some(of), _) => (of, true),
                (None, _) if had_turn => (priority + 1, false),
                (None, Some(early)) => (early + 1, false),
                (None, None) => break,
            };
        }
        Ok(given)
    }

    fn next_waiting(&mut self, priority: u8) -> Result<Option<(u8, i64)>> {
        let params = (self.row.id, priority);
        self.step.row(sql!("queue/claim", "next"), params, |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// How long until a task may become available: the earliest due time of all priorities, lease expiry or deadline.
    fn next_due(&mut self) -> Result<Option<Duration>> {
        if self.row.ended {
            return Ok(Some(Duration::ZERO));
        }
        let mut earliest = i64::MAX;
        let mut priority = 0;
        while let Some((of, at)) = self.next_waiting(priority)? {
            earliest = earliest.min(at);
            priority = of + 1;
        }
        if earliest < i64::MAX {
            earliest = if self.has_room()? { earliest.max(self.free_from(None)?) } else { i64::MAX };
        }
        earliest = earliest.min(self.row.lease_floor).min(self.first_deadline()?);
        let until = u64::try_from(earliest.saturating_sub(self.now())).unwrap_or(0);
        Ok((earliest < i64::MAX).then(|| Duration::from_micros(until)))
    }

    pub(crate) fn claim(&mut self, claim: &Claim) -> Result<Claimed> {
        if self.row.paused {
            return Ok(Claimed::default());
        }
        let until = stored(self.step.now + claim.lease.get());
        let tasks = self.give_out(claim.n, |queue, arrival, task| {
            let number = (queue.row.claim + 1).max(queue.step.now.as_micros());
            queue.row.claim = number;
            queue.row.changed = true;
            let params = (arrival, number.cast_signed(), until, claim.worker.as_str());
            queue.step.exec(sql!("queue/claim", "lease"), params)?;
            task.ticket.claim = Some(Fence::from_u64(number));
            task.attempt += 1;
            let (attempt, worker, due) = (task.attempt, &claim.worker, task.ticket.due);
            let claimed = || TaskChange::Claimed { attempt, worker: worker.clone(), due };
            queue.note(queue.now(), task.ticket.id.as_str(), claimed);
            Ok(())
        })?;
        if !tasks.is_empty() {
            self.row.lease_floor = self.row.lease_floor.min(until);
        }
        let filled = tasks.len() == claim.n as usize;
        let next_due = if filled { Some(Duration::ZERO) } else { self.next_due()? };
        Ok(Claimed { tasks, next_due })
    }

    pub(crate) fn pop(&mut self, n: u32) -> Result<Vec<Task>> {
        if self.row.paused {
            return Ok(Vec::new());
        }
        self.give_out(n, |queue, arrival, task| {
            let id = task.ticket.id.as_str();
            queue.remove(arrival, id)?;
            queue.note(queue.now(), id, || TaskChange::Popped);
            queue.has_ended(queue.now(), id, TaskEnd::Popped, None, None)
        })
    }
}
