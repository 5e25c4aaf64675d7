use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rushgate_core::{
    Cancelled, Claim, Claimed, Completed, DeadLetter, Dequeued, Due, Enqueued, Fence, GivenBack, Lease,
    Listing, NewTask, OnDuplicate, Op, Payload, Priority, QueueLimits, QueueName, QueueStats, Result,
    Retried, Retry, Revision, Revived, Schedule, ScheduleId, Selection, StockChanged, Task, TaskExtended,
    TaskId, TaskInfo, TaskState, Ticket, Timestamp, check_batch, check_range,
};

use super::{Model, Planted};

mod schedule;

/// All queues that were ever used, and the answers that were given to calls with an [`Op`].
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    pub(super) by_name: BTreeMap<QueueName, Queue>,
    answers: BTreeMap<Op, Answered>,
    /// Queues that got something to give out in the last step, once for each task.
    pub(super) woken: Vec<QueueName>,
}

/// An answer kept for the repetition of its call.
#[derive(Clone, Debug)]
pub(super) enum Answered {
    Enqueue(Vec<Enqueued>),
    Pop(Vec<Task>),
    Claim(Claimed),
    Complete(Vec<Completed>),
    Retry(Vec<Retried>),
    GiveBack(Vec<GivenBack>),
    Dequeue(Dequeued),
    Cancel(Cancelled),
    Revive(Revived),
    Bury(u64),
    Stock(StockChanged),
}

/// Carries a step out once: its answer is kept under the call's `Op` and given again to a repetition.
macro_rules! once {
    ($model:ident, $op:expr, $kind:ident, $step:expr) => {{
        let op = $op;
        match $model.kept_answer(op) {
            Some(Answered::$kind(answer)) => Ok(answer),
            _ => {
                let answer = $step;
                $model.keep_answer(op, Answered::$kind(answer.clone()));
                Ok(answer)
            }
        }
    }};
}
pub(super) use once;

#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    records: BTreeMap<TaskId, Record>,
    dead: BTreeMap<TaskId, DeadLetter>,
    schedules: BTreeMap<ScheduleId, Schedule>,
    paused: bool,
    limits: QueueLimits,
    revision_last: u64,
    arrival_last: u64,
    claim_last: u64,
    bug: Option<Planted>,
}

/// What an enqueue decides about a task.
#[derive(Clone, Debug)]
struct Content {
    payload: Payload,
    due: Timestamp,
    priority: Priority,
    max_attempts: u32,
}

#[derive(Clone, Debug)]
struct Record {
    revision: Revision,
    first: Timestamp,
    content: Content,
    arrival: u64,
    attempts: u32,
    error: Option<String>,
    lease: Option<Leased>,
    next: Option<Newcomer>,
    cancelled: bool,
}

#[derive(Clone, Debug)]
struct Leased {
    claim: Fence,
    until: Timestamp,
    worker: String,
}

/// What was put in while the record was leased.
#[derive(Clone, Debug)]
struct Newcomer {
    revision: Revision,
    first: Timestamp,
    content: Content,
}

fn moment(now: Timestamp, due: Due) -> Timestamp {
    match due {
        Due::Now => now,
        Due::After(delay) => now + delay,
        Due::At(at) => at,
    }
}

impl Record {
    fn order(&self) -> (Priority, Timestamp, u64) {
        (self.content.priority, self.content.due, self.arrival)
    }

    fn has_claim(&self, ticket: &Ticket) -> bool {
        self.lease.as_ref().is_some_and(|lease| Some(lease.claim) == ticket.claim)
    }

    fn task(&self, id: &TaskId) -> Task {
        Task {
            ticket: Ticket {
                id: id.clone(),
                due: self.content.due,
                revision: self.revision,
                claim: self.lease.as_ref().map(|lease| lease.claim),
            },
            payload: self.content.payload.clone(),
            priority: self.content.priority,
            attempt: self.attempts,
            max_attempts: self.content.max_attempts,
        }
    }

    fn state(&self, now: Timestamp) -> TaskState {
        match self.lease {
            Some(_) => TaskState::Leased,
            None if self.content.due <= now => TaskState::Ready,
            None => TaskState::Scheduled,
        }
    }

    fn info(&self, id: &TaskId, now: Timestamp) -> TaskInfo {
        TaskInfo {
            task: self.task(id),
            state: self.state(now),
            lease_until: self.lease.as_ref().map(|lease| lease.until),
            worker: self.lease.as_ref().map(|lease| lease.worker.clone()),
            replaced: self.next.is_some(),
            cancelled: self.cancelled,
            error: self.error.clone(),
        }
    }
}

impl Queue {
    fn next_revision(&mut self) -> Revision {
        self.revision_last += 1;
        Revision::from_u64(self.revision_last)
    }

    fn next_arrival(&mut self) -> u64 {
        self.arrival_last += 1;
        self.arrival_last
    }

    fn fresh(&mut self, revision: Revision, first: Timestamp, content: Content) -> Record {
        let arrival = self.next_arrival();
        Record {
            revision,
            first,
            content,
            arrival,
            attempts: 0,
            error: None,
            lease: None,
            next: None,
            cancelled: false,
        }
    }

    /// Gives back, in the order of their ends, the leases that have run out.
    fn reap(&mut self, now: Timestamp) {
        if self.bug == Some(Planted::ExpiredLeaseIsNotGivenBack) {
            return;
        }
        let expired = |record: &Record| record.lease.clone().filter(|lease| lease.until <= now);
        let found = self.records.iter().filter_map(|(id, record)| Some((expired(record)?, id.clone())));
        let mut ended: Vec<_> = found.map(|(lease, id)| (lease.until, lease.claim, id)).collect();
        ended.sort();
        for (until, _, id) in ended {
            self.run_out(until, &id);
        }
    }

    fn run_out(&mut self, until: Timestamp, id: &TaskId) {
        if self.promote(id) {
            return;
        }
        let record = self.records.get_mut(id).expect("the caller found it");
        record.lease = None;
        if record.cancelled {
            self.records.remove(id);
        } else if record.attempts >= record.content.max_attempts {
            self.die(until, id, "lease ran out".to_owned());
        } else {
            record.content.due = until;
        }
    }

    /// Ends the run of a record behind which a newcomer waits: the newcomer takes its place.
    fn promote(&mut self, id: &TaskId) -> bool {
        let Some(next) = self.records.get_mut(id).and_then(|record| record.next.take()) else {
            return false;
        };
        let record = self.fresh(next.revision, next.first, next.content);
        self.records.insert(id.clone(), record);
        true
    }

    fn die(&mut self, now: Timestamp, id: &TaskId, error: String) {
        let record = self.records.remove(id).expect("only a live record dies");
        let letter = DeadLetter {
            id: id.clone(),
            payload: record.content.payload,
            priority: record.content.priority,
            attempts: record.attempts,
            max_attempts: record.content.max_attempts,
            error,
            died_at: now,
        };
        self.dead.insert(id.clone(), letter);
    }

    fn is_full(&self) -> Option<u64> {
        let ignored = self.bug == Some(Planted::BoundIsIgnored);
        self.limits.bound.filter(|bound| !ignored && self.records.len() as u64 >= *bound)
    }

    fn put(&mut self, now: Timestamp, task: NewTask, bounded: bool) -> Enqueued {
        let content = Content {
            due: moment(now, task.due),
            payload: task.payload,
            priority: task.priority,
            max_attempts: task.max_attempts,
        };
        match self.records.get(&task.id) {
            None => match self.is_full().filter(|_| bounded) {
                Some(bound) => Enqueued::Full { bound },
                None => self.add(now, task.id, content),
            },
            Some(record) if task.on_duplicate == OnDuplicate::Keep && !record.cancelled => {
                Enqueued::Kept { revision: record.revision }
            }
            Some(record) if record.lease.is_some() => {
                self.put_behind(now, &task.id, task.on_duplicate, content)
            }
            Some(_) => self.put_over(&task.id, task.on_duplicate, content),
        }
    }

    fn add(&mut self, now: Timestamp, id: TaskId, content: Content) -> Enqueued {
        let revision = self.next_revision();
        let record = self.fresh(revision, now, content);
        self.records.insert(id, record);
        Enqueued::Added { revision }
    }

    /// A newcomer to a record that waits.
    fn put_over(&mut self, id: &TaskId, mode: OnDuplicate, mut content: Content) -> Enqueued {
        let revision = self.next_revision();
        let record = self.records.get_mut(id).expect("the caller found it");
        match mode {
            OnDuplicate::Keep => unreachable!("kept by the caller"),
            OnDuplicate::Earliest if content.due >= record.content.due => {
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
            }
        }
        record.revision = revision;
        Enqueued::Replaced { revision }
    }

    /// A newcomer to a record that is leased: it waits behind the run.
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

    /// The first `n` due tasks in the order in which they are given out.
    fn due(&self, now: Timestamp, n: u32) -> Vec<TaskId> {
        let early = self.bug == Some(Planted::GivenOutEarly);
        let waits = |record: &Record| record.lease.is_none() && (early || record.content.due <= now);
        let mut found: Vec<_> = self.records.iter().filter(|(_, record)| waits(record)).collect();
        found.sort_by_key(|(_, record)| match self.bug {
            Some(Planted::PriorityIsIgnored) => (Priority::default(), record.content.due, record.arrival),
            _ => record.order(),
        });
        found.into_iter().take(n as usize).map(|(id, _)| id.clone()).collect()
    }

    fn lease_out(&mut self, now: Timestamp, id: &TaskId, claim: u64, asked: &Claim) -> Task {
        self.claim_last = claim;
        let record = self.records.get_mut(id).expect("it is due");
        record.attempts += 1;
        record.lease = Some(Leased {
            claim: Fence::from_u64(claim),
            until: now + asked.lease.get(),
            worker: asked.worker.clone(),
        });
        record.task(id)
    }

    fn claim(&mut self, now: Timestamp, asked: &Claim) -> Claimed {
        self.reap(now);
        if self.paused {
            return Claimed { tasks: Vec::new(), next_due: None };
        }
        let first = (self.claim_last + 1).max(now.as_micros());
        let ids = self.due(now, asked.n);
        let tasks = ids.iter().zip(first..).map(|(id, claim)| self.lease_out(now, id, claim, asked));
        let tasks: Vec<_> = tasks.collect();
        let filled = tasks.len() == asked.n as usize;
        let next_due = if filled { Some(Duration::ZERO) } else { self.next_due().map(|at| at.since(now)) };
        Claimed { tasks, next_due }
    }

    fn next_due(&self) -> Option<Timestamp> {
        let moment = |record: &Record| record.lease.as_ref().map_or(record.content.due, |lease| lease.until);
        self.records.values().map(moment).min()
    }

    fn claimed(&self, ticket: &Ticket) -> bool {
        let careless = self.bug == Some(Planted::StaleTicketCompletes);
        let record = self.records.get(&ticket.id);
        record.is_some_and(|record| record.has_claim(ticket) || (careless && record.lease.is_some()))
    }

    fn complete(&mut self, ticket: &Ticket) -> Completed {
        if !self.claimed(ticket) {
            Completed::Stale
        } else if self.promote(&ticket.id) {
            Completed::Requeued
        } else {
            self.records.remove(&ticket.id);
            Completed::Done
        }
    }

    fn retry(&mut self, now: Timestamp, failed: &Retry) -> Retried {
        let id = &failed.ticket.id;
        if !self.claimed(&failed.ticket) {
            return Retried::Stale;
        }
        if self.promote(id) {
            return Retried::Requeued;
        }
        let record = self.records.get_mut(id).expect("it is claimed");
        let error = failed.error_cut().to_owned();
        if record.cancelled {
            self.records.remove(id);
            return Retried::Cancelled;
        }
        if failed.give_up || record.attempts >= record.content.max_attempts {
            self.die(now, id, error);
            return Retried::Dead;
        }
        record.lease = None;
        record.error = Some(error);
        record.content.due = now + failed.delay;
        Retried::Scheduled { due: record.content.due }
    }

    fn give_back(&mut self, now: Timestamp, ticket: &Ticket) -> GivenBack {
        if !self.claimed(ticket) {
            return GivenBack::Stale;
        }
        if self.promote(&ticket.id) {
            return GivenBack::Waiting;
        }
        let record = self.records.get_mut(&ticket.id).expect("it is claimed");
        if record.cancelled {
            self.records.remove(&ticket.id);
            return GivenBack::Cancelled;
        }
        record.lease = None;
        record.attempts -= 1;
        record.content.due = now;
        GivenBack::Waiting
    }

    fn extend(&mut self, now: Timestamp, ticket: &Ticket, lease: Lease) -> TaskExtended {
        let record = self.records.get_mut(&ticket.id).filter(|record| record.has_claim(ticket));
        let Some(Record { lease: Some(leased), cancelled, .. }) = record else { return TaskExtended::Lost };
        leased.until = now + lease.get();
        if *cancelled { TaskExtended::Cancelled } else { TaskExtended::Extended }
    }

    fn dequeue(&mut self, ticket: &Ticket) -> Dequeued {
        let careless = self.bug == Some(Planted::DequeueIgnoresTheRevision);
        let Some(record) = self.records.get(&ticket.id) else { return Dequeued::Stale };
        let same = record.revision == ticket.revision || careless;
        match (&record.lease, ticket.claim) {
            (Some(lease), Some(claim)) if lease.claim == claim => {}
            (None, None) if same => {}
            (Some(_), None) if same => return Dequeued::Leased,
            _ => return Dequeued::Stale,
        }
        if !self.promote(&ticket.id) {
            self.records.remove(&ticket.id);
        }
        Dequeued::Removed
    }

    fn cancel(&mut self, id: &TaskId) -> Cancelled {
        match self.records.get_mut(id) {
            None => Cancelled::NotFound,
            Some(record) if record.lease.is_some() => {
                record.cancelled = true;
                record.next = None;
                Cancelled::Marked
            }
            Some(_) => {
                self.records.remove(id);
                Cancelled::Removed
            }
        }
    }

    fn chosen(&self, which: &Selection) -> BTreeSet<TaskId> {
        match which {
            Selection::All => self.dead.keys().cloned().collect(),
            Selection::Ids(ids) => ids.iter().filter(|id| self.dead.contains_key(id)).cloned().collect(),
        }
    }

    fn revive(&mut self, now: Timestamp, which: &Selection) -> Revived {
        let mut answer = Revived::default();
        for id in self.chosen(which) {
            if self.records.contains_key(&id) || self.is_full().is_some() {
                answer.kept += 1;
                continue;
            }
            let DeadLetter { payload, priority, max_attempts, .. } =
                self.dead.remove(&id).expect("it was chosen among the dead");
            self.add(now, id, Content { payload, due: now, priority, max_attempts });
            answer.revived += 1;
        }
        answer
    }

    fn stats(&self, now: Timestamp) -> QueueStats {
        let count = |state| self.records.values().filter(|record| record.state(now) == state).count() as u64;
        let ready = self.records.values().filter(|record| record.state(now) == TaskState::Ready);
        let oldest = ready.map(|record| record.content.due).min();
        QueueStats {
            ready: count(TaskState::Ready),
            scheduled: count(TaskState::Scheduled),
            leased: count(TaskState::Leased),
            dead: self.dead.len() as u64,
            oldest_due_us: oldest.map_or(0, |due| now.as_micros() - due.as_micros()),
            paused: self.paused,
            limits: self.limits,
        }
    }
}

impl Model {
    pub(super) fn kept_answer(&self, op: Op) -> Option<Answered> {
        self.queues
            .answers
            .get(&op)
            .filter(|_| self.bug != Some(Planted::RepeatedCallIsCarriedOutAgain))
            .cloned()
    }

    pub(super) fn keep_answer(&mut self, op: Op, answer: Answered) {
        self.queues.answers.insert(op, answer);
    }

    /// The queue as it is at `now`, and as if it were empty if it was never used.
    fn queue(&mut self, now: Timestamp, name: &QueueName) -> Queue {
        let mut queue = match self.queues.by_name.get(name) {
            Some(queue) => queue.clone(),
            None => Queue { bug: self.bug, ..Queue::default() },
        };
        queue.reap(now);
        queue
    }

    /// Changes a queue, and remembers what it has to give out that it had not before.
    fn change<T>(&mut self, now: Timestamp, name: &QueueName, step: impl FnOnce(&mut Queue) -> T) -> T {
        let known = self.queues.by_name.contains_key(name);
        let mut queue = self.queue(now, name);
        let before: BTreeSet<TaskId> = queue.due(now, u32::MAX).into_iter().collect();
        let answer = step(&mut queue);
        let after = queue.due(now, u32::MAX);
        if !queue.paused {
            let new = after.iter().filter(|id| !before.contains(id));
            self.queues.woken.extend(new.map(|_| name.clone()));
        }
        if known {
            self.queues.by_name.insert(name.clone(), queue);
        }
        answer
    }

    /// Puts a sale's order into its queue, in the same step as the sale's own change and whatever the bound.
    pub(super) fn put_order(&mut self, now: Timestamp, name: &QueueName, task: NewTask) {
        self.touch(name);
        self.change(now, name, |queue| queue.put(now, task, false));
    }

    /// See [`QueueStore::enqueue`](rushgate_core::QueueStore::enqueue).
    pub fn enqueue(
        &mut self,
        now: Timestamp,
        op: Op,
        name: &QueueName,
        tasks: Vec<NewTask>,
    ) -> Result<Vec<Enqueued>> {
        check_batch(tasks.len())?;
        tasks.iter().try_for_each(NewTask::check)?;
        self.touch(name);
        let put = |queue: &mut Queue| tasks.into_iter().map(|task| queue.put(now, task, true)).collect();
        once!(self, op, Enqueue, self.change::<Vec<_>>(now, name, put))
    }

    fn touch(&mut self, name: &QueueName) {
        let bug = self.bug;
        self.queues.by_name.entry(name.clone()).or_insert_with(|| Queue { bug, ..Queue::default() });
    }

    /// See [`QueueStore::top`](rushgate_core::QueueStore::top).
    pub fn top(&mut self, now: Timestamp, name: &QueueName, n: u32) -> Result<Vec<Task>> {
        check_batch(n as usize)?;
        let queue = self.queue(now, name);
        Ok(queue.due(now, n).iter().map(|id| queue.records[id].task(id)).collect())
    }

    /// See [`QueueStore::pop`](rushgate_core::QueueStore::pop).
    pub fn pop(&mut self, now: Timestamp, op: Op, name: &QueueName, n: u32) -> Result<Vec<Task>> {
        check_batch(n as usize)?;
        let pop = |queue: &mut Queue| {
            let ids = if queue.paused { Vec::new() } else { queue.due(now, n) };
            let mut take = |id: TaskId| Some(queue.records.remove(&id)?.task(&id));
            ids.into_iter().filter_map(&mut take).collect()
        };
        once!(self, op, Pop, self.change::<Vec<_>>(now, name, pop))
    }

    /// See [`QueueStore::claim`](rushgate_core::QueueStore::claim).
    pub fn claim(&mut self, now: Timestamp, op: Op, name: &QueueName, claim: Claim) -> Result<Claimed> {
        claim.check()?;
        once!(self, op, Claim, self.change(now, name, |queue| queue.claim(now, &claim)))
    }

    /// See [`QueueStore::complete`](rushgate_core::QueueStore::complete).
    pub fn complete(
        &mut self,
        now: Timestamp,
        op: Op,
        name: &QueueName,
        tickets: Vec<Ticket>,
    ) -> Result<Vec<Completed>> {
        check_batch(tickets.len())?;
        let step = |queue: &mut Queue| tickets.iter().map(|ticket| queue.complete(ticket)).collect();
        once!(self, op, Complete, self.change::<Vec<_>>(now, name, step))
    }

    /// See [`QueueStore::retry`](rushgate_core::QueueStore::retry).
    pub fn retry(
        &mut self,
        now: Timestamp,
        op: Op,
        name: &QueueName,
        failed: Vec<Retry>,
    ) -> Result<Vec<Retried>> {
        check_batch(failed.len())?;
        failed.iter().try_for_each(Retry::check)?;
        let step = |queue: &mut Queue| failed.iter().map(|one| queue.retry(now, one)).collect();
        once!(self, op, Retry, self.change::<Vec<_>>(now, name, step))
    }

    /// See [`QueueStore::give_back`](rushgate_core::QueueStore::give_back).
    pub fn give_back(
        &mut self,
        now: Timestamp,
        op: Op,
        name: &QueueName,
        tickets: Vec<Ticket>,
    ) -> Result<Vec<GivenBack>> {
        check_batch(tickets.len())?;
        let step = |queue: &mut Queue| tickets.iter().map(|ticket| queue.give_back(now, ticket)).collect();
        once!(self, op, GiveBack, self.change::<Vec<_>>(now, name, step))
    }

    /// See [`QueueStore::extend_tasks`](rushgate_core::QueueStore::extend_tasks).
    pub fn extend_tasks(
        &mut self,
        now: Timestamp,
        name: &QueueName,
        tickets: Vec<Ticket>,
        lease: Lease,
    ) -> Result<Vec<TaskExtended>> {
        check_batch(tickets.len())?;
        let step =
            |queue: &mut Queue| tickets.iter().map(|ticket| queue.extend(now, ticket, lease)).collect();
        Ok(self.change(now, name, step))
    }

    /// See [`QueueStore::dequeue`](rushgate_core::QueueStore::dequeue).
    pub fn dequeue(&mut self, now: Timestamp, op: Op, name: &QueueName, ticket: Ticket) -> Result<Dequeued> {
        once!(self, op, Dequeue, self.change(now, name, |queue| queue.dequeue(&ticket)))
    }

    /// See [`QueueStore::cancel`](rushgate_core::QueueStore::cancel).
    pub fn cancel(&mut self, now: Timestamp, op: Op, name: &QueueName, id: &TaskId) -> Result<Cancelled> {
        once!(self, op, Cancel, self.change(now, name, |queue| queue.cancel(id)))
    }

    /// See [`QueueStore::task`](rushgate_core::QueueStore::task).
    pub fn task(&mut self, now: Timestamp, name: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>> {
        Ok(self.queue(now, name).records.get(id).map(|record| record.info(id, now)))
    }

    /// See [`QueueStore::tasks`](rushgate_core::QueueStore::tasks).
    pub fn tasks(&mut self, now: Timestamp, name: &QueueName, listing: &Listing) -> Result<Vec<TaskInfo>> {
        listing.check()?;
        let queue = self.queue(now, name);
        let after = queue.records.iter().filter(|(id, _)| id.as_str() > listing.after.as_str());
        let infos = after.map(|(id, record)| record.info(id, now));
        let wanted = infos.filter(|info| listing.state.is_none_or(|state| state == info.state));
        Ok(wanted.take(listing.limit as usize).collect())
    }

    /// See [`QueueStore::stats`](rushgate_core::QueueStore::stats).
    pub fn stats(&mut self, now: Timestamp, name: &QueueName) -> Result<QueueStats> {
        Ok(self.queue(now, name).stats(now))
    }

    /// See [`QueueStore::queues`](rushgate_core::QueueStore::queues).
    pub fn queues(&self) -> Result<Vec<QueueName>> {
        Ok(self.queues.by_name.keys().cloned().collect())
    }

    /// See [`QueueStore::pause`](rushgate_core::QueueStore::pause).
    pub fn pause(&mut self, now: Timestamp, name: &QueueName, paused: bool) -> Result<()> {
        self.touch(name);
        self.change(now, name, |queue| queue.paused = paused);
        if !paused {
            let due = self.queue(now, name).due(now, u32::MAX).len();
            self.queues.woken.extend(std::iter::repeat_n(name.clone(), due));
        }
        Ok(())
    }

    /// See [`QueueStore::limit`](rushgate_core::QueueStore::limit).
    pub fn limit(&mut self, now: Timestamp, name: &QueueName, limits: QueueLimits) -> Result<()> {
        self.touch(name);
        self.change(now, name, |queue| queue.limits = limits);
        Ok(())
    }

    /// See [`QueueStore::dead`](rushgate_core::QueueStore::dead).
    pub fn dead(
        &mut self,
        now: Timestamp,
        name: &QueueName,
        after: &str,
        limit: u32,
    ) -> Result<Vec<DeadLetter>> {
        check_range("the page's limit", limit.into(), 1, 10_000)?;
        let queue = self.queue(now, name);
        let wanted = queue.dead.into_values().filter(|letter| letter.id.as_str() > after);
        Ok(wanted.take(limit as usize).collect())
    }

    /// See [`QueueStore::dead_letter`](rushgate_core::QueueStore::dead_letter).
    pub fn dead_letter(
        &mut self,
        now: Timestamp,
        name: &QueueName,
        id: &TaskId,
    ) -> Result<Option<DeadLetter>> {
        Ok(self.queue(now, name).dead.remove(id))
    }

    /// See [`QueueStore::revive`](rushgate_core::QueueStore::revive).
    pub fn revive(&mut self, now: Timestamp, op: Op, name: &QueueName, which: &Selection) -> Result<Revived> {
        which.check()?;
        once!(self, op, Revive, self.change(now, name, |queue| queue.revive(now, which)))
    }

    /// See [`QueueStore::bury`](rushgate_core::QueueStore::bury).
    pub fn bury(&mut self, now: Timestamp, op: Op, name: &QueueName, which: &Selection) -> Result<u64> {
        which.check()?;
        let step = |queue: &mut Queue| {
            let chosen = queue.chosen(which);
            chosen.iter().filter(|id| queue.dead.remove(id).is_some()).count() as u64
        };
        once!(self, op, Bury, self.change(now, name, step))
    }
}
