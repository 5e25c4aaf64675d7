//! Key groups ("lines"), and the limits of a queue and its keys.

use super::*;

/// State of a key group.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// When its last task was claimed.
    turn: Timestamp,
    /// Its arrival, renewed with each turn.
    place: u64,
    /// ID of its first task.
    first: TaskId,
    /// When the first task becomes available, if the limits of its key allow it.
    at: Option<Timestamp>,
}

/// Place of a waiting task.
pub(super) enum Seat {
    /// Available from that time on, at that place among tasks of the same time.
    From(Timestamp, u64),
    /// Behind others of its key.
    Blocked,
}

impl Seat {
    pub(super) fn moment(&self) -> Option<Timestamp> {
        match self {
            Self::From(at, _) => Some(*at),
            Self::Blocked => None,
        }
    }
}

impl Queue {
    /// Answers items in order. Each one's effects apply to the next.
    pub(super) fn each<I, T>(
        &mut self,
        now: Timestamp,
        items: &[I],
        mut verb: impl FnMut(&mut Self, &I) -> T,
    ) -> Vec<T> {
        let answer = |item| {
            let answer = verb(self, item);
            self.tidy(now);
            answer
        };
        items.iter().map(answer).collect()
    }

    /// The first task of a key group.
    fn first(&self, key: &TaskKey, priority: Priority) -> Option<(&TaskId, &Record)> {
        let stands = |record: &Record| {
            record.lease.is_none()
                && !record.is_held()
                && record.content.key.as_ref() == Some(key)
                && record.content.priority == priority
        };
        let line = self.records.iter().filter(|(_, record)| stands(record));
        line.min_by_key(|(_, record)| (record.line_due, record.arrival))
    }

    pub(super) fn seat(&self, id: &TaskId, record: &Record) -> Seat {
        if record.is_held() {
            return Seat::Blocked;
        }
        let Some(key) = &record.content.key else { return Seat::From(record.due, record.arrival) };
        let line = self.lines.get(&(key.clone(), record.content.priority)).filter(|line| line.first == *id);
        line.and_then(|line| Some(Seat::From(line.at?, line.place))).unwrap_or(Seat::Blocked)
    }

    /// Creates groups with their first task and removes them with their last. A due time that has come is kept.
    pub(super) fn tidy(&mut self, now: Timestamp) {
        self.tidy_where(now, |_| true);
    }

    /// Does the same for one key only, at a time that may be earlier than that of other checks.
    pub(super) fn tidy_key(&mut self, now: Timestamp, key: &TaskKey) {
        self.tidy_where(now, |of| of == key);
    }

    fn tidy_where(&mut self, now: Timestamp, is_meant: impl Fn(&TaskKey) -> bool) {
        let waiting = self.records.values().filter(|record| record.lease.is_none() && !record.is_held());
        let stands = |record: &Record| Some((record.content.key.clone()?, record.content.priority));
        let found: BTreeSet<_> = waiting.filter_map(stands).collect();
        let mut lines = std::mem::take(&mut self.lines);
        for (key, priority) in found {
            if !is_meant(&key) {
                self.lines.extend(lines.remove_entry(&(key, priority)));
                continue;
            }
            let Some((first, record)) = self.first(&key, priority) else { continue };
            let (first, due, of) = (first.clone(), record.due, (key, priority));
            let old = lines.remove(&of);
            let kept = old.as_ref().filter(|line| line.first == first).and_then(|line| line.at);
            let (turn, place) = match old {
                Some(line) => (line.turn, line.place),
                None => (Timestamp::default(), self.next_arrival()),
            };
            let free = self.free_from(Some(&of.0));
            let at = match kept.filter(|at| *at <= now) {
                _ if free > now => due.max(turn).max(free),
                Some(at) => at,
                None => due.max(turn),
            };
            let line = Line { turn, place, first, at: self.key_has_room(&of.0).then_some(at) };
            self.lines.insert(of, line);
        }
    }

    /// Recomputes when a changed task becomes available, if it is the first of its key group.
    pub(super) fn reseat(&mut self, id: &TaskId) {
        for line in self.lines.values_mut().filter(|line| line.first == *id) {
            line.at = None;
        }
    }

    /// Counts a claim, and moves the task's key group behind everything that is due.
    pub(super) fn take_turn(&mut self, now: Timestamp, id: &TaskId) {
        let content = &self.records[id].content;
        let (key, priority) = (content.key.clone(), content.priority);
        self.started(now, None, self.limits.rate);
        if let Some(key) = key {
            self.started(now, Some(&key), self.limits.per_key.rate);
            if self.bug == Some(Planted::LinesTakeNoTurns) {
                return;
            }
            let place = self.next_arrival();
            self.lines.insert((key, priority), Line { turn: now, place, first: id.clone(), at: None });
        }
    }

    /// Returns a claimed task to its place. Its key group moves to the task's due time and arrival, unless it is
    /// already ahead.
    pub(super) fn return_turn(&mut self, id: &TaskId) {
        let Record { content, due, arrival, .. } = &self.records[id];
        let Some(key) = content.key.clone() else { return };
        let (of, turn, place) = ((key, content.priority), *due, *arrival);
        if self.lines.get(&of).is_none_or(|line| (turn, place) < (line.turn, line.place)) {
            self.lines.insert(of, Line { turn, place, first: id.clone(), at: None });
        }
    }

    fn started(&mut self, now: Timestamp, key: Option<&TaskKey>, rate: Option<Rate>) {
        if rate.is_some() {
            self.starts.entry(key.cloned()).or_default().push(now);
        }
    }

    /// When the rate limit allows the next task.
    pub(super) fn free_from(&self, key: Option<&TaskKey>) -> Timestamp {
        let rate = if key.is_none() { self.limits.rate } else { self.limits.per_key.rate };
        let starts = self.starts.get(&key.cloned());
        let (Some(rate), Some(starts)) = (rate, starts) else { return Timestamp::default() };
        match starts.len().checked_sub(rate.n as usize) {
            Some(at) => starts[at] + rate.per,
            None => Timestamp::default(),
        }
    }

    fn leased(&self, key: Option<&TaskKey>) -> usize {
        let leased = self.records.values().filter(|record| record.lease.is_some());
        leased.filter(|record| key.is_none() || record.content.key.as_ref() == key).count()
    }

    fn key_has_room(&self, key: &TaskKey) -> bool {
        let ignored = self.bug == Some(Planted::KeyConcurrencyIsIgnored);
        ignored || self.limits.per_key.at_a_time().is_none_or(|most| self.leased(Some(key)) < most as usize)
    }

    pub(super) fn has_room(&self) -> bool {
        self.limits.concurrency.is_none_or(|most| self.leased(None) < most as usize)
    }

    /// Number of tasks that the queue's own limits allow to be claimed now.
    pub(super) fn allowed(&self, now: Timestamp) -> usize {
        let room = self.limits.concurrency.map(|most| (most as usize).saturating_sub(self.leased(None)));
        let starts = self.starts.get(&None).map_or(&[][..], Vec::as_slice);
        let rate = self.limits.rate.map(|rate| {
            let counted = starts.iter().rev().take_while(|start| **start + rate.per > now).count();
            (rate.n as usize).saturating_sub(counted)
        });
        room.into_iter().chain(rate).min().unwrap_or(usize::MAX)
    }

    pub(super) fn state(&self, id: &TaskId, record: &Record, now: Timestamp) -> TaskState {
        if record.lease.is_some() {
            return TaskState::Leased;
        }
        match self.seat(id, record) {
            Seat::Blocked => TaskState::Blocked,
            Seat::From(at, _) if at <= now => TaskState::Ready,
            Seat::From(..) => TaskState::Scheduled,
        }
    }

    pub(super) fn info(&self, id: &TaskId, record: &Record, now: Timestamp) -> TaskInfo {
        let waits = record.lease.is_none();
        TaskInfo {
            task: record.task(id),
            state: self.state(id, record, now),
            waits: record.is_held(),
            not_before: waits.then(|| self.seat(id, record).moment()).flatten(),
            lease_until: record.lease.as_ref().map(|lease| lease.until),
            worker: record.lease.as_ref().map(|lease| lease.worker.clone()),
            replaced: record.next.is_some(),
            cancelled: record.cancelled,
            error: record.error.clone(),
            progress: record.lease.as_ref().and_then(|lease| lease.progress.clone()),
            past: record.past.clone(),
            finished: None,
        }
    }
}
