//! Key groups ("lines"), and the limits of a queue and its keys.
//!
//! A seat is a place in the queue, which [`give_out`](Queue::give_out) reads. Only the first task of a key group has
//! one, and only while the limits of its key allow it to run. Every change to a group or its limits reassigns the
//! seat.

use rushgate_core::{Coded, Overflow, QueueLimits, Rate, Task, TaskKey};
use rusqlite::params;

use super::{LineOf, Queue, Run, key};
use crate::fault::Result;
use crate::sql::sql;
use crate::stored::micros;

/// State of a key group.
struct Line {
    /// When its last task was claimed.
    turn: i64,
    /// Its arrival, renewed with each turn.
    place: i64,
    /// Arrival number of its latest task to get a seat.
    first: Option<i64>,
}

/// The first task of a key group.
struct First {
    arrival: i64,
    due: i64,
    seat: Option<(i64, i64)>,
}

impl Queue<'_, '_> {
    pub(super) fn next_place(&mut self) -> i64 {
        self.row.changed = true;
        self.row.places += 1;
        self.row.places.cast_signed()
    }

    /// Adds a task to the queue or, if it has a key, to its key group.
    pub(super) fn stand(&mut self, arrival: i64, line: LineOf, due: i64) -> Result<()> {
        let Some((key, _)) = &line else {
            self.waits(due);
            return Ok(());
        };
        self.step.exec(sql!("queue/line", "stand"), (arrival, key.as_str(), Some(due), due))?;
        self.line_changed(&line)
    }

    /// Returns a task whose run has ended to its key group. With `fifo`, it keeps its place.
    pub(super) fn stand_again(&mut self, run: &Run, due: i64) -> Result<()> {
        let Some((key, _)) = &run.line else {
            self.waits(due);
            return Ok(());
        };
        let asked = self.step.value(sql!("queue/line", "asked"), [run.arrival])?;
        let line_due = asked.filter(|_| self.row.limits.per_key.fifo).unwrap_or(due);
        let none: Option<i64> = None;
        self.step.exec(sql!("queue/line", "stand"), (run.arrival, key.as_str(), none, line_due)).map(drop)
    }

    /// Returns a task to its place before the claim. Its key group moves to the task's due time and place, unless it
    /// is already ahead of them.
    pub(super) fn stand_as_before(&mut self, run: &Run) -> Result<()> {
        let Some((key, priority)) = &run.line else {
            self.waits(run.due);
            return Ok(());
        };
        if self.step.exec(sql!("queue/line", "return_turn"), [run.arrival])? > 0 {
            let of = (self.row.id, key.as_str(), priority);
            self.step.exec(sql!("queue/line", "unseat_first"), of)?;
        }
        Ok(())
    }

    /// Counts a claim for the rate limits, and moves the task's key group behind everything that is due.
    pub(super) fn started(&mut self, arrival: i64, task: &Task) -> Result<()> {
        self.count_start(None)?;
        let Some(key) = &task.key else { return Ok(()) };
        self.count_start(Some(key))?;
        self.step.exec(sql!("queue/line", "leave"), [arrival])?;
        let (place, priority) = (self.next_place(), task.priority.get());
        let params = (self.row.id, key.as_str(), priority, self.now(), place);
        self.step.exec(sql!("queue/line", "turn"), params)?;
        self.seats_of_key(key, priority)
    }

    /// Updates the limits after a run: both the key and the queue may have room for another.
    pub(super) fn run_ended(&mut self, line: &LineOf) -> Result<()> {
        if self.row.limits.concurrency.is_some() && !self.row.paused {
            self.row.wakeups = self.row.wakeups.saturating_add(1);
        }
        self.line_changed(line)
    }

    pub(super) fn line_changed(&mut self, line: &LineOf) -> Result<()> {
        match line {
            Some((key, priority)) => self.seats_of_key(key, *priority),
            None => Ok(()),
        }
    }

    /// Reassigns the seat of a key group and, if limits apply, of the key's other groups.
    fn seats_of_key(&mut self, key: &TaskKey, priority: u8) -> Result<()> {
        self.seat(key, priority)?;
        let limits = self.row.limits.per_key;
        if limits.at_a_time().is_none() && limits.rate.is_none() {
            return Ok(());
        }
        let all = (self.row.id, key.as_str());
        let others: Vec<u8> = self.step.rows(sql!("queue/line", "of_key"), all, |row| row.get(0))?;
        others.into_iter().filter(|other| *other != priority).try_for_each(|other| self.seat(key, other))
    }

    fn seat(&mut self, key: &TaskKey, priority: u8) -> Result<()> {
        let of = (self.row.id, key.as_str(), priority);
        let line = self.step.row(sql!("queue/line", "line"), of, |row| {
            Ok(Line { turn: row.get(0)?, place: row.get(1)?, first: row.get(2)? })
        })?;
        let first = self.step.row(sql!("queue/line", "first"), of, |row| {
            let seat = row.get::<_, Option<i64>>(2)?.zip(row.get(3)?);
            Ok(First { arrival: row.get(0)?, due: row.get(1)?, seat })
        })?;
        let Some(first) = first else {
            return self.step.exec(sql!("queue/line", "forget"), of).map(drop);
        };
        let line = match line {
            Some(line) => line,
            None => Line { turn: 0, place: self.next_place(), first: None },
        };
        if let Some(other) = line.first.filter(|other| *other != first.arrival) {
            let params = (other, self.row.id, key.as_str(), priority, line.place);
            self.step.exec(sql!("queue/line", "unseat"), params)?;
        }
        if line.first != Some(first.arrival) {
            let params = (self.row.id, key.as_str(), priority, line.turn, line.place, first.arrival);
            self.step.exec(sql!("queue/line", "store"), params)?;
        }
        let (now, free) = (self.moment, self.free_from(Some(key))?);
        // A seat whose time has come is kept.
        let kept = first.seat.filter(|(at, _)| *at <= now && line.first == Some(first.arrival));
        let seat = match kept {
            _ if !self.key_has_room(key)? => None,
            _ if free > now => Some((first.due.max(line.turn).max(free), line.place)),
            Some(seat) => Some(seat),
            None => Some((first.due.max(line.turn), line.place)),
        };
        if seat == first.seat {
            return Ok(());
        }
        let (at, place) = seat.unzip();
        self.step.exec(sql!("queue/line", "seat"), (first.arrival, at, place))?;
        match at {
            // A listener must learn of the changed due time.
            Some(at) if at > self.now() && !self.row.paused => {
                self.row.wakeups = self.row.wakeups.saturating_add(1)
            }
            Some(at) => self.waits(at),
            None => {}
        }
        Ok(())
    }

    fn rate(&self, key: Option<&TaskKey>) -> Option<Rate> {
        if key.is_some() { self.row.limits.per_key.rate } else { self.row.limits.rate }
    }

    fn count_start(&mut self, key: Option<&TaskKey>) -> Result<()> {
        let Some(rate) = self.rate(key) else { return Ok(()) };
        let (of, now) = (self.row.id, self.now());
        let old = (of, key.is_some(), now.saturating_sub(micros(rate.per)));
        self.step.exec(sql!("queue/line", "forget_starts"), old)?;
        let params = (of, key.is_some(), key.map_or("", TaskKey::as_str), now);
        self.step.exec(sql!("queue/line", "started"), params).map(drop)
    }

    /// When the rate limit allows the next task.
    pub(super) fn free_from(&mut self, key: Option<&TaskKey>) -> Result<i64> {
        let Some(rate) = self.rate(key) else { return Ok(0) };
        let params = (self.row.id, key.is_some(), key.map_or("", TaskKey::as_str), rate.n - 1);
        let start = self.step.value::<i64>(sql!("queue/line", "nth_start"), params)?;
        Ok(start.map_or(0, |start| start.saturating_add(micros(rate.per))))
    }

    fn key_has_room(&mut self, key: &TaskKey) -> Result<bool> {
        let Some(most) = self.row.limits.per_key.at_a_time() else { return Ok(true) };
        let params = (self.row.id, key.as_str(), most);
        let running = self.step.value::<u32>(sql!("queue/line", "running"), params)?;
        Ok(running.unwrap_or_default() < most)
    }

    fn room(&mut self) -> Result<u32> {
        let Some(most) = self.row.limits.concurrency else { return Ok(u32::MAX) };
        let leased = self.step.value::<u32>(sql!("queue/claim", "leased"), (self.row.id, most))?;
        Ok(most.saturating_sub(leased.unwrap_or_default()))
    }

    pub(super) fn has_room(&mut self) -> Result<bool> {
        Ok(self.room()? > 0)
    }

    /// Number of tasks that the queue's own limits allow to be claimed now.
    pub(super) fn allowed(&mut self) -> Result<u32> {
        let room = self.room()?;
        let Some(rate) = self.row.limits.rate else { return Ok(room) };
        let since = self.now().saturating_sub(micros(rate.per));
        let params = (self.row.id, false, "", since);
        let counted = self.step.value::<u32>(sql!("queue/line", "count_starts"), params)?;
        Ok(room.min(rate.n.saturating_sub(counted.unwrap_or_default())))
    }

    pub(crate) fn limit(&mut self, limits: QueueLimits) -> Result<()> {
        // Write the events so far under the old limit.
        self.write_events()?;
        let old = std::mem::replace(&mut self.row.limits, limits);
        self.forget_for(old.retention, limits.retention)?;
        let QueueLimits { bound, overflow, concurrency, rate, per_key, retention, events } = limits;
        let of_rate = |rate: Option<Rate>| rate.map(|rate| (rate.n, micros(rate.per))).unzip();
        let ((n, per), (key_n, key_per)) = (of_rate(rate), of_rate(per_key.rate));
        let bound = bound.map(u64::cast_signed);
        let of = self.row.id;
        let (keep_us, keep_n) = retention.map(|keep| (micros(keep.age), keep.count)).unzip();
        let params = params![
            of,
            bound,
            concurrency,
            n,
            per,
            per_key.concurrency,
            key_n,
            key_per,
            per_key.fifo,
            keep_us,
            keep_n,
            overflow.code()
        ];
        self.step.exec(sql!("queue/row", "limit"), params)?;
        if old.events != events {
            self.limit_events(events)?;
        }
        if (old.overflow == Overflow::DropOldest) != self.gives_way() {
            self.step.exec(sql!("queue/row", "give_way"), (of, self.gives_way()))?;
        }
        for (is_key, changed) in [(false, old.rate != rate), (true, old.per_key.rate != per_key.rate)] {
            if changed {
                self.step.exec(sql!("queue/line", "forget_starts"), (of, is_key, i64::MAX))?;
            }
        }
        if old.per_key != per_key {
            let keys = self.step.rows(sql!("queue/line", "keys"), [of], |row| key(row, 0))?;
            for key in keys.into_iter().flatten() {
                let lines = (of, key.as_str());
                let all: Vec<u8> = self.step.rows(sql!("queue/line", "of_key"), lines, |row| row.get(0))?;
                all.into_iter().try_for_each(|priority| self.seat(&key, priority))?;
            }
        }
        if !self.row.paused {
            // The number of tasks that this makes available is unknown, so all listeners are notified.
            self.row.wakeups = usize::MAX;
        }
        Ok(())
    }
}
