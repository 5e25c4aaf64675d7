use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use rushgate_core::{
    Cancelled, Claim, Claimed, Completed, Completion, DeadLetter, DeadRequeued, Dequeued, Due, Enqueued,
    Fence, Finish, Finished, Heartbeat, Lease, Listing, NewTask, OnDuplicate, Op, OutboxId, Overflow, Page,
    PastEnd, PastRun, Payload, Priority, QueueLimits, QueueName, QueueStats, Rate, Reply, Rescheduled,
    Result, Retried, Retry, Revision, Schedule, ScheduleId, Selection, Task, TaskChange, TaskEnd,
    TaskExtended, TaskId, TaskInfo, TaskKey, TaskPage, TaskProgress, TaskRelease, TaskReleased, TaskState,
    Ticket, Timestamp, UniqueCleared, WorkerId, WorkerInfo,
};

use super::{Model, Planted};

mod dead;
mod enqueue;
mod event;
mod kept;
mod line;
mod outbox;
mod schedule;
mod unique;
mod wait;
mod worker;

use event::Events;
use line::{Line, Seat};
use wait::{Ended, Waiting};

/// Names the positions of the model in cursors. A position is an ID.
const STORE: &str = "memory";

/// All queues ever used, and the answers to calls with an [`Op`].
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    pub(super) by_name: BTreeMap<QueueName, Queue>,
    answers: BTreeMap<Op, Reply>,
    workers: BTreeMap<(QueueName, WorkerId), WorkerInfo>,
    /// Queues with tasks that became available in the last step, once per task.
    pub(super) woken: Vec<QueueName>,
}

/// Executes a step once per `Op`. A repetition gets the same answer.
macro_rules! once {
    ($model:ident, $op:expr, $kind:ident, $step:expr) => {{
        let op = $op;
        match $model.kept_answer(op) {
            Some(Reply::$kind(answer)) => Ok(answer),
            _ => {
                let answer = $step;
                $model.keep_answer(op, Reply::$kind(answer.clone()));
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
    /// Retained tasks.
    done: BTreeMap<TaskId, TaskInfo>,
    /// Ends of uniqueness windows.
    unique: BTreeMap<TaskId, Timestamp>,
    schedules: BTreeMap<ScheduleId, Schedule>,
    /// Highest number relayed from each outbox.
    relayed: BTreeMap<OutboxId, u64>,
    paused: bool,
    limits: QueueLimits,
    lines: BTreeMap<(TaskKey, Priority), Line>,
    /// Claim times, of each key and, under `None`, of all tasks.
    starts: BTreeMap<Option<TaskKey>, Vec<Timestamp>>,
    revision_last: u64,
    arrival_last: u64,
    /// Number of tasks dropped by the overflow policy.
    dropped: u64,
    claim_last: u64,
    /// Finished tasks whose waiting tasks have not been updated.
    ended: BTreeMap<(Timestamp, TaskId), Ended>,
    events: Events,
    bug: Option<Planted>,
}

/// The values that an enqueue sets.
#[derive(Clone, Debug)]
struct Content {
    payload: Payload,
    due: Timestamp,
    priority: Priority,
    max_attempts: u32,
    key: Option<TaskKey>,
    deadline: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct Record {
    revision: Revision,
    first: Timestamp,
    content: Content,
    /// Due time of the next attempt.
    due: Timestamp,
    /// Due time that determines its place in its key group.
    line_due: Timestamp,
    arrival: u64,
    attempts: u32,
    error: Option<String>,
    past: Vec<PastRun>,
    lease: Option<Leased>,
    next: Option<Newcomer>,
    cancelled: bool,
    waits: Option<Waiting>,
}

#[derive(Clone, Debug)]
struct Leased {
    claim: Fence,
    until: Timestamp,
    worker: String,
    progress: Option<TaskProgress>,
}

/// A pending replacement: a task enqueued while the record was leased.
#[derive(Clone, Debug)]
struct Newcomer {
    revision: Revision,
    first: Timestamp,
    content: Content,
}

impl Record {
    fn has_claim(&self, ticket: &Ticket) -> bool {
        self.lease.as_ref().is_some_and(|lease| Some(lease.claim) == ticket.claim)
    }

    fn task(&self, id: &TaskId) -> Task {
        Task {
            ticket: Ticket {
                id: id.clone(),
                due: self.due,
                revision: self.revision,
                claim: self.lease.as_ref().map(|lease| lease.claim),
            },
            payload: self.content.payload.clone(),
            priority: self.content.priority,
            attempt: self.attempts,
            max_attempts: self.content.max_attempts,
            key: self.content.key.clone(),
            deadline: self.content.deadline,
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
            due: content.due,
            line_due: content.due,
            content,
            arrival,
            attempts: 0,
            error: None,
            past: Vec::new(),
            lease: None,
            next: None,
            cancelled: false,
            waits: None,
        }
    }

    /// Ends expired leases in the order of their expiry, then turns tasks past their deadline into dead letters.
    fn reap(&mut self, now: Timestamp) {
        if self.bug == Some(Planted::ExpiredLeaseIsNotReturned) {
            return;
        }
        let expired = |record: &Record| record.lease.clone().filter(|lease| lease.until <= now);
        let found = self.records.iter().filter_map(|(id, record)| Some((expired(record)?, id.clone())));
        let mut ended: Vec<_> = found.map(|(lease, id)| (lease.until, lease.claim, id)).collect();
        ended.sort();
        for (until, _, id) in ended {
            self.run_out(until, &id);
            self.tidy(until);
        }
        self.settle();
        let waiting = self.records.iter().filter(|(_, record)| record.lease.is_none());
        let deadlines = waiting.filter_map(|(id, record)| Some((record.content.deadline?, id.clone())));
        let mut late: Vec<_> = deadlines.filter(|(deadline, _)| *deadline <= now).collect();
        late.sort();
        for (deadline, id) in late {
            if self.bug == Some(Planted::DeadlineIsIgnored) {
                return;
            }
            let key = self.records[&id].content.key.clone();
            self.die(deadline, &id, DeadLetter::LATE.to_owned());
            if let Some(key) = key {
                self.tidy_key(deadline, &key);
            }
        }
        self.settle();
    }

    fn run_out(&mut self, until: Timestamp, id: &TaskId) {
        if self.promote(until, id) {
            return;
        }
        let record = self.records.get_mut(id).expect("the caller found it");
        if record.cancelled {
            self.finish(until, id, Finish::Cancelled, None);
            return;
        }
        if record.attempts >= record.content.max_attempts {
            let error = "lease expired".to_owned();
            record.remember(until, PastEnd::Lost, &error);
            self.die(until, id, error);
        } else if record.content.deadline.is_some_and(|deadline| deadline <= until) {
            record.remember(until, PastEnd::Lost, DeadLetter::LATE);
            self.die(until, id, DeadLetter::LATE.to_owned());
        } else {
            record.remember(until, PastEnd::Lost, "");
            let attempt = record.attempts;
            self.note(until, id, TaskChange::Lost { attempt });
            self.return_to_place(until, id);
        }
    }

    /// Ends a run as if the task had not been claimed: it keeps its place.
    fn return_to_place(&mut self, now: Timestamp, id: &TaskId) {
        if self.bug == Some(Planted::ReleasedTaskGoesToTheBack) {
            return self.back(id, now);
        }
        self.records.get_mut(id).expect("the caller found it").lease = None;
        self.return_turn(id);
    }

    /// Ends a run, and returns the task to its key group with a new due time.
    fn back(&mut self, id: &TaskId, due: Timestamp) {
        let fifo = self.limits.per_key.fifo && self.bug != Some(Planted::FifoLosesItsPlace);
        let record = self.records.get_mut(id).expect("the caller found it");
        record.lease = None;
        record.due = due;
        record.line_due = if fifo { record.content.due } else { due };
    }

    /// Ends the run of a record with a pending replacement, which takes its place.
    fn promote(&mut self, now: Timestamp, id: &TaskId) -> bool {
        let Some(next) = self.records.get_mut(id).and_then(|record| record.next.take()) else {
            return false;
        };
        let attempt = self.records[id].attempts;
        self.note(now, id, TaskChange::Requeued { attempt });
        let record = self.fresh(next.revision, next.first, next.content);
        self.records.insert(id.clone(), record);
        true
    }

    /// The first `n` due tasks, in order.
    fn due(&self, now: Timestamp, n: usize) -> Vec<TaskId> {
        let early = self.bug == Some(Planted::GivenOutEarly);
        let waiting = self.records.iter().filter(|(_, record)| record.lease.is_none());
        let mut found: Vec<_> = waiting
            .filter_map(|(id, record)| match self.seat(id, record) {
                Seat::From(at, place) if early || at <= now => Some((record.content.priority, at, place, id)),
                _ => None,
            })
            .collect();
        if self.bug == Some(Planted::PriorityIsIgnored) {
            found.iter_mut().for_each(|(priority, ..)| *priority = Priority::default());
        }
        let mut found: BinaryHeap<_> = found.into_iter().map(Reverse).collect();
        std::iter::from_fn(|| found.pop()).take(n).map(|Reverse((.., id))| id.clone()).collect()
    }

    /// Claims or pops due tasks in order. Each one's effects apply to the next.
    fn give_out<T>(
        &mut self,
        now: Timestamp,
        n: u32,
        mut give: impl FnMut(&mut Self, TaskId) -> T,
    ) -> Vec<T> {
        let n = self.allowed(now).min(n as usize);
        let mut given = Vec::new();
        while given.len() < n
            && let Some(id) = self.due(now, 1).pop()
        {
            self.take_turn(now, &id);
            given.push(give(self, id));
            self.tidy(now);
        }
        given
    }

    fn lease_out(&mut self, now: Timestamp, id: &TaskId, claim: u64, asked: &Claim) -> Task {
        self.claim_last = claim;
        let record = self.records.get_mut(id).expect("it is due");
        record.attempts += 1;
        let (attempt, worker, due) = (record.attempts, asked.worker.clone(), record.due);
        let claimed = TaskChange::Claimed { attempt, worker, due };
        record.lease = Some(Leased {
            claim: Fence::from_u64(claim),
            until: now + asked.lease.get(),
            worker: asked.worker.clone(),
            progress: None,
        });
        let task = record.task(id);
        self.note(now, id, claimed);
        task
    }

    fn claim(&mut self, now: Timestamp, asked: &Claim) -> Claimed {
        self.reap(now);
        if self.paused {
            return Claimed::default();
        }
        let tasks = self.give_out(now, asked.n, |queue, id| {
            let claim = (queue.claim_last + 1).max(now.as_micros());
            queue.lease_out(now, &id, claim, asked)
        });
        let filled = tasks.len() == asked.n as usize;
        let next_due = if filled { Some(Duration::ZERO) } else { self.next_due().map(|at| at.since(now)) };
        Claimed { tasks, next_due }
    }

    fn next_due(&self) -> Option<Timestamp> {
        let leases = self.records.values().filter_map(|record| Some(record.lease.as_ref()?.until));
        let deadlines = self.records.values().filter(|record| record.lease.is_none());
        let deadlines = deadlines.filter_map(|record| record.content.deadline);
        let waiting = self.records.iter().filter(|(_, record)| record.lease.is_none());
        let first = waiting.filter_map(|(id, record)| self.seat(id, record).moment()).min();
        let first = first.filter(|_| self.has_room()).map(|at| at.max(self.free_from(None)));
        leases.chain(deadlines).min().into_iter().chain(first).min()
    }

    fn claimed(&self, ticket: &Ticket) -> bool {
        let careless = self.bug == Some(Planted::StaleTicketCompletes);
        let record = self.records.get(&ticket.id);
        record.is_some_and(|record| record.has_claim(ticket) || (careless && record.lease.is_some()))
    }

    fn complete(&mut self, now: Timestamp, done: &Completion) -> Completed {
        let ticket = &done.ticket;
        if !self.claimed(ticket) {
            Completed::Stale
        } else if self.promote(now, &ticket.id) {
            Completed::Requeued
        } else {
            if self.bug == Some(Planted::RateForgetsWhatIsDone) {
                self.starts.clear();
            }
            let how = if done.discarded { Finish::Discarded } else { Finish::Done };
            let how = if self.records[&ticket.id].cancelled { Finish::Cancelled } else { how };
            self.finish(now, &ticket.id, how, done.result.clone());
            Completed::Done
        }
    }

    fn retry(&mut self, now: Timestamp, failed: &Retry) -> Retried {
        let id = &failed.ticket.id;
        if !self.claimed(&failed.ticket) {
            return Retried::Stale;
        }
        if self.promote(now, id) {
            return Retried::Requeued;
        }
        let record = self.records.get_mut(id).expect("it is claimed");
        let error = failed.error_cut().to_owned();
        if record.cancelled {
            self.finish(now, id, Finish::Cancelled, None);
            return Retried::Cancelled;
        }
        record.remember(now, PastEnd::Failed, &error);
        let careless = self.bug == Some(Planted::RetryOutlivesItsDeadline);
        let late =
            record.content.deadline.is_some_and(|deadline| deadline <= now + failed.delay && !careless);
        if failed.give_up || late || record.attempts >= record.content.max_attempts {
            self.die(now, id, error);
            return Retried::Dead;
        }
        let due = now + failed.delay;
        let (attempt, why) = (record.attempts, PastRun::cut(&error).to_owned());
        record.error = Some(error);
        self.note(now, id, TaskChange::Failed { attempt, due, error: why });
        self.back(id, due);
        Retried::Scheduled { due }
    }

    fn release_tasks(&mut self, now: Timestamp, back: &TaskRelease) -> TaskReleased {
        let ticket = &back.ticket;
        if !self.claimed(ticket) {
            return TaskReleased::Stale;
        }
        if self.promote(now, &ticket.id) {
            return TaskReleased::Waiting;
        }
        let record = self.records.get_mut(&ticket.id).expect("it is claimed");
        if record.cancelled {
            self.finish(now, &ticket.id, Finish::Cancelled, None);
            return TaskReleased::Cancelled;
        }
        let attempt = record.attempts;
        if !back.delay.is_zero() {
            record.remember(now, PastEnd::Snoozed, "");
        }
        record.attempts -= 1;
        match back.delay {
            Duration::ZERO => self.return_to_place(now, &ticket.id),
            delay => self.back(&ticket.id, now + delay),
        }
        let due = self.records[&ticket.id].due;
        self.note(now, &ticket.id, TaskChange::Released { attempt, due });
        TaskReleased::Waiting
    }

    fn extend(&mut self, now: Timestamp, beat: &Heartbeat, lease: Lease) -> TaskExtended {
        let ticket = &beat.ticket;
        let record = self.records.get_mut(&ticket.id).filter(|record| record.has_claim(ticket));
        let Some(Record { lease: Some(leased), cancelled, .. }) = record else { return TaskExtended::Lost };
        leased.until = now + lease.get();
        if let Some(progress) = &beat.progress {
            leased.progress = Some(progress.clone());
        }
        if *cancelled { TaskExtended::Cancelled } else { TaskExtended::Extended }
    }

    fn dequeue(&mut self, now: Timestamp, ticket: &Ticket) -> Dequeued {
        let careless = self.bug == Some(Planted::DequeueIgnoresTheRevision);
        let Some(record) = self.records.get(&ticket.id) else { return Dequeued::Stale };
        let same = record.revision == ticket.revision || careless;
        match (&record.lease, ticket.claim) {
            (Some(lease), Some(claim)) if lease.claim == claim => {}
            (None, None) if same => {}
            (Some(_), None) if same => return Dequeued::Leased,
            _ => return Dequeued::Stale,
        }
        if !self.promote(now, &ticket.id) {
            self.records.remove(&ticket.id);
            self.note(now, &ticket.id, TaskChange::Deleted);
            self.has_ended(now, &ticket.id, TaskEnd::Deleted, None, None);
        }
        Dequeued::Removed
    }

    fn cancel(&mut self, now: Timestamp, id: &TaskId) -> Cancelled {
        match self.records.get_mut(id) {
            None => Cancelled::NotFound,
            Some(record) if record.lease.is_some() => {
                record.cancelled = true;
                record.next = None;
                self.note(now, id, TaskChange::CancelAsked);
                Cancelled::Marked
            }
            Some(_) => {
                self.finish(now, id, Finish::Cancelled, None);
                Cancelled::Removed
            }
        }
    }

    fn reschedule(&mut self, now: Timestamp, id: &TaskId, due: Due) -> Rescheduled {
        let due = due.at(now);
        match self.records.get(id) {
            None => return Rescheduled::NotFound,
            Some(record) if record.lease.is_some() => return Rescheduled::Leased,
            Some(record) => {
                if let Some(deadline) = record.content.deadline.filter(|deadline| *deadline <= due) {
                    return Rescheduled::TooLate { deadline };
                }
            }
        }
        let revision = self.next_revision();
        let record = self.records.get_mut(id).expect("it was just found");
        (record.content.due, record.due, record.line_due) = (due, due, due);
        record.revision = revision;
        self.reseat(id);
        self.note(now, id, TaskChange::Replaced { due });
        Rescheduled::Rescheduled { due }
    }

    fn stats(&self, now: Timestamp) -> QueueStats {
        let states: Vec<_> = self.records.iter().map(|(id, record)| self.state(id, record, now)).collect();
        let count = |wanted| states.iter().filter(|state| **state == wanted).count() as u64;
        let waiting = self.records.iter().filter(|(_, record)| record.lease.is_none());
        let oldest = waiting.filter_map(|(id, record)| self.seat(id, record).moment()).min();
        QueueStats {
            ready: count(TaskState::Ready),
            scheduled: count(TaskState::Scheduled),
            leased: count(TaskState::Leased),
            blocked: count(TaskState::Blocked),
            dead: self.dead.len() as u64,
            done: self.done.len() as u64,
            dropped: self.dropped,
            lag_ms: oldest.map_or(0, |due| now.as_micros().saturating_sub(due.as_micros()) / 1_000),
            rate_until: Some(self.free_from(None)).filter(|until| *until > now),
            last_claim: (self.claim_last > 0).then(|| Timestamp::from_micros(self.claim_last)),
            paused: self.paused,
            limits: self.limits,
        }
    }

    fn limit(&mut self, limits: QueueLimits) {
        let (all, per_key) =
            (limits.rate != self.limits.rate, limits.per_key.rate != self.limits.per_key.rate);
        self.starts.retain(|key, _| !if key.is_none() { all } else { per_key });
        self.limits = limits;
        self.forget_events();
        if limits.retention.is_none() {
            self.done.clear();
        }
    }
}

impl Model {
    pub(super) fn kept_answer(&self, op: Op) -> Option<Reply> {
        self.queues
            .answers
            .get(&op)
            .filter(|_| self.bug != Some(Planted::RepeatedCallIsCarriedOutAgain))
            .cloned()
    }

    pub(super) fn keep_answer(&mut self, op: Op, answer: Reply) {
        self.queues.answers.insert(op, answer);
    }

    /// The queue at the time `now`. An unused queue is empty.
    fn queue(&mut self, now: Timestamp, name: &QueueName) -> Queue {
        let mut queue = match self.queues.by_name.get(name) {
            Some(queue) => queue.clone(),
            None => Queue { bug: self.bug, ..Queue::default() },
        };
        queue.reap(now);
        queue.number_events();
        queue.forget_done(now);
        queue
    }

    /// Changes a queue, and records the tasks that became available.
    fn change<T>(&mut self, now: Timestamp, name: &QueueName, step: impl FnOnce(&mut Queue) -> T) -> T {
        let known = self.queues.by_name.contains_key(name);
        let mut queue = self.queue(now, name);
        let before: BTreeSet<TaskId> = queue.due(now, queue.allowed(now)).into_iter().collect();
        let answer = step(&mut queue);
        queue.settle();
        queue.tidy(now);
        queue.number_events();
        queue.forget_done(now);
        let after = queue.due(now, queue.allowed(now));
        if !queue.paused {
            let new = after.iter().filter(|id| !before.contains(id));
            self.queues.woken.extend(new.map(|_| name.clone()));
        }
        if known {
            self.queues.by_name.insert(name.clone(), queue);
        }
        answer
    }

    fn touch(&mut self, name: &QueueName) {
        let bug = self.bug;
        self.queues.by_name.entry(name.clone()).or_insert_with(|| Queue { bug, ..Queue::default() });
    }

    /// See [`Verbs::top`](rushgate_core::Verbs::top).
    pub fn top(&mut self, now: Timestamp, name: &QueueName, n: u32) -> Result<Vec<Task>> {
        let queue = self.queue(now, name);
        Ok(queue.due(now, n as usize).iter().map(|id| queue.records[id].task(id)).collect())
    }

    /// See [`Verbs::pop`](rushgate_core::Verbs::pop).
    pub fn pop(&mut self, now: Timestamp, op: Op, name: &QueueName, n: u32) -> Result<Vec<Task>> {
        let pop = |queue: &mut Queue| {
            let n = if queue.paused { 0 } else { n };
            let take = |queue: &mut Queue, id: TaskId| {
                queue.has_ended(now, &id, TaskEnd::Popped, None, None);
                queue.note(now, &id, TaskChange::Popped);
                queue.records.remove(&id).map(|it| it.task(&id))
            };
            queue.give_out(now, n, take).into_iter().flatten().collect()
        };
        once!(self, op, Pop, self.change::<Vec<_>>(now, name, pop))
    }

    /// See [`Verbs::claim`](rushgate_core::Verbs::claim).
    pub fn claim(&mut self, now: Timestamp, op: Op, name: &QueueName, claim: Claim) -> Result<Claimed> {
        once!(self, op, Claim, self.change(now, name, |queue| queue.claim(now, &claim)))
    }

    /// See [`Verbs::complete`](rushgate_core::Verbs::complete).
    pub fn complete(
        &mut self,
        now: Timestamp,
        op: Op,
        name: &QueueName,
        done: Vec<Completion>,
    ) -> Result<Vec<Completed>> {
        let step = |queue: &mut Queue| queue.each(now, &done, |queue, one| queue.complete(now, one));
        once!(self, op, Complete, self.change::<Vec<_>>(now, name, step))
    }

    /// See [`Verbs::retry`](rushgate_core::Verbs::retry).
    pub fn retry(
        &mut self,
        now: Timestamp,
        op: Op,
        name: &QueueName,
        failed: Vec<Retry>,
    ) -> Result<Vec<Retried>> {
        let step = |queue: &mut Queue| queue.each(now, &failed, |queue, one| queue.retry(now, one));
        once!(self, op, Retry, self.change::<Vec<_>>(now, name, step))
    }

    /// See [`Verbs::release_tasks`](rushgate_core::Verbs::release_tasks).
    pub fn release_tasks(
        &mut self,
        now: Timestamp,
        op: Op,
        name: &QueueName,
        back: Vec<TaskRelease>,
    ) -> Result<Vec<TaskReleased>> {
        let step = |queue: &mut Queue| queue.each(now, &back, |queue, one| queue.release_tasks(now, one));
        once!(self, op, ReleaseTasks, self.change::<Vec<_>>(now, name, step))
    }

    /// See [`Verbs::extend_tasks`](rushgate_core::Verbs::extend_tasks).
    pub fn extend_tasks(
        &mut self,
        now: Timestamp,
        name: &QueueName,
        beats: Vec<Heartbeat>,
        lease: Lease,
    ) -> Result<Vec<TaskExtended>> {
        let step = |queue: &mut Queue| beats.iter().map(|beat| queue.extend(now, beat, lease)).collect();
        Ok(self.change(now, name, step))
    }

    /// See [`Verbs::dequeue`](rushgate_core::Verbs::dequeue).
    pub fn dequeue(&mut self, now: Timestamp, op: Op, name: &QueueName, ticket: Ticket) -> Result<Dequeued> {
        once!(self, op, Dequeue, self.change(now, name, |queue| queue.dequeue(now, &ticket)))
    }

    /// See [`Verbs::cancel`](rushgate_core::Verbs::cancel).
    pub fn cancel(&mut self, now: Timestamp, op: Op, name: &QueueName, id: &TaskId) -> Result<Cancelled> {
        once!(self, op, Cancel, self.change(now, name, |queue| queue.cancel(now, id)))
    }

    /// See [`Verbs::reschedule`](rushgate_core::Verbs::reschedule).
    pub fn reschedule(
        &mut self,
        now: Timestamp,
        op: Op,
        name: &QueueName,
        id: &TaskId,
        due: Due,
    ) -> Result<Rescheduled> {
        once!(self, op, Reschedule, self.change(now, name, |queue| queue.reschedule(now, id, due)))
    }

    /// See [`Verbs::task`](rushgate_core::Verbs::task).
    pub fn task(&mut self, now: Timestamp, name: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>> {
        let queue = self.queue(now, name);
        let live = queue.records.get(id).map(|record| queue.info(id, record, now));
        Ok(live.or_else(|| queue.done.get(id).cloned()))
    }

    /// See [`Verbs::tasks`](rushgate_core::Verbs::tasks). Lists by ID.
    pub fn tasks(&mut self, now: Timestamp, name: &QueueName, listing: &Listing) -> Result<TaskPage> {
        let queue = self.queue(now, name);
        let after = listing.id_position(STORE)?;
        let is_wanted =
            |id: &TaskId| id.as_str() > after.as_str() && id.as_str().starts_with(&listing.prefix);
        let live = queue.records.iter().filter(|(id, _)| is_wanted(id));
        let live = live.map(|(id, record)| queue.info(id, record, now));
        let done = queue.done.iter().filter(|(id, _)| is_wanted(id)).map(|(_, info)| info.clone());
        let limit = listing.page.limit as usize;
        let mut tasks: Vec<_> = match listing.state {
            Some(TaskState::Done) => done.take(limit + 1).collect(),
            state => {
                live.filter(|info| state.is_none_or(|state| state == info.state)).take(limit + 1).collect()
            }
        };
        let last = tasks.get(limit - 1).filter(|_| tasks.len() > limit);
        let next = last.map(|last| listing.cursor(STORE, last.task.ticket.id.as_str().as_bytes()));
        tasks.truncate(limit);
        Ok(TaskPage { tasks, next })
    }

    /// Whether a task with this ID is live and its end is published.
    pub fn is_awaited(&mut self, now: Timestamp, name: &QueueName, id: &TaskId) -> bool {
        let queue = self.queue(now, name);
        queue.limits.retention.is_some() && queue.records.contains_key(id)
    }

    /// See [`Verbs::stats`](rushgate_core::Verbs::stats).
    pub fn stats(&mut self, now: Timestamp, name: &QueueName) -> Result<QueueStats> {
        Ok(self.queue(now, name).stats(now))
    }

    /// See [`Verbs::queues`](rushgate_core::Verbs::queues).
    pub fn queues(&self, now: Timestamp, page: &Page) -> Result<Vec<QueueName>> {
        let live = self.queues.workers.iter().filter(|(_, worker)| worker.lease_until > now);
        let names: BTreeSet<_> =
            self.queues.by_name.keys().chain(live.map(|((queue, _), _)| queue)).collect();
        let after = names.into_iter().filter(|name| name.as_str() > page.after.as_str());
        Ok(after.take(page.limit as usize).cloned().collect())
    }

    /// See [`Verbs::pause`](rushgate_core::Verbs::pause).
    pub fn set_paused(&mut self, now: Timestamp, name: &QueueName, paused: bool) -> Result<()> {
        self.touch(name);
        self.change(now, name, |queue| queue.paused = paused);
        if !paused {
            let due = self.queue(now, name).due(now, usize::MAX).len();
            self.queues.woken.extend(std::iter::repeat_n(name.clone(), due));
        }
        Ok(())
    }

    /// See [`Verbs::limit`](rushgate_core::Verbs::limit).
    pub fn limit(&mut self, now: Timestamp, name: &QueueName, limits: QueueLimits) -> Result<()> {
        self.touch(name);
        self.change(now, name, |queue| queue.limit(limits));
        Ok(())
    }
}
