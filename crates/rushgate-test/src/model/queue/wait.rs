//! Tasks that wait for other tasks.

use rushgate_core::{Closed, IfDead, Page, TaskEnd, Unmet, Waited, Waits, WaitsFor};

use super::*;

/// What a task waits for and has waited for.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    if_dead: IfDead,
    open: bool,
    left: BTreeSet<TaskId>,
    over: BTreeMap<TaskId, Waited>,
}

impl Waiting {
    fn is_over(&self) -> bool {
        !self.open && self.left.is_empty()
    }
}

/// A finished task whose waiting tasks have not been updated.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    end: TaskEnd,
    result: Option<Payload>,
    error: Option<String>,
}

impl Ended {
    fn lets_go_on(&self, if_dead: IfDead) -> bool {
        self.end.is_well() || if_dead == IfDead::Run
    }
}

/// State of an ID in the queue.
enum Known {
    Live,
    Finished(Timestamp, Ended),
    Nothing,
}

impl Record {
    /// Whether it waits for other tasks or for its batch to be closed.
    pub(super) fn is_held(&self) -> bool {
        self.waits.as_ref().is_some_and(|waits| !waits.is_over())
    }
}

impl Queue {
    /// Why a new task cannot wait for other tasks or be a member of a batch, if so.
    pub(super) fn refusal(&self, task: &NewTask) -> Option<Enqueued> {
        if self.bug == Some(Planted::UnknownTaskIsWaitedFor) {
            return None;
        }
        let refused = |task: &TaskId, why| Some(Enqueued::Refused { task: task.clone(), why });
        let record = self.records.get(&task.id);
        if task.is_to_wait() && record.is_some_and(|record| record.cancelled) {
            return refused(&task.id, Unmet::Taken);
        }
        if let Some(whole) = &task.part_of {
            if !self.records.get(whole).and_then(|record| record.waits.as_ref()).is_some_and(|it| it.open) {
                return refused(whole, Unmet::NotOpen);
            }
            if record.is_some_and(Record::is_held) {
                return refused(&task.id, Unmet::Taken);
            }
        }
        if record.is_some() {
            return None;
        }
        let mut waiting = self.records.values().filter_map(|record| record.waits.as_ref());
        if task.is_to_wait() && waiting.any(|waits| waits.left.contains(&task.id)) {
            return refused(&task.id, Unmet::Taken);
        }
        let unknown = task.after.iter().find(|id| matches!(self.known(id), Known::Nothing));
        unknown.and_then(|id| refused(id, Unmet::Unknown))
    }

    fn known(&self, id: &TaskId) -> Known {
        if self.records.contains_key(id) {
            return Known::Live;
        }
        let finished = self.done.get(id).and_then(|info| info.finished.as_ref());
        let letter = self.dead.get(id);
        match (finished, letter) {
            (Some(finished), letter) if letter.is_none_or(|letter| letter.died_at <= finished.at) => {
                let end = match finished.how {
                    Finish::Done => TaskEnd::Done,
                    Finish::Discarded => TaskEnd::Discarded,
                    Finish::Cancelled => TaskEnd::Cancelled,
                    Finish::Dropped => TaskEnd::Dropped,
                };
                Known::Finished(finished.at, Ended { end, result: finished.result.clone(), error: None })
            }
            (_, Some(letter)) => {
                let error = Some(PastRun::cut(&letter.error).to_owned());
                Known::Finished(letter.died_at, Ended { end: TaskEnd::Dead, result: None, error })
            }
            _ => Known::Nothing,
        }
    }

    /// Determines what a new task has to wait for.
    pub(super) fn begin_to_wait(&mut self, now: Timestamp, task: &NewTask) -> Option<Waiting> {
        if !task.is_to_wait() {
            return None;
        }
        let (if_dead, open) = (task.if_dead, task.held_open);
        let mut waits = Waiting { if_dead, open, left: BTreeSet::new(), over: BTreeMap::new() };
        for id in task.after.iter().collect::<BTreeSet<_>>() {
            match self.known(id) {
                Known::Finished(at, ended) if ended.lets_go_on(if_dead) => {
                    waits.over.insert(id.clone(), waited(id, at, &ended));
                    continue;
                }
                Known::Live => {}
                Known::Finished(_, ended) => drop(self.ended.insert((now, id.clone()), ended)),
                // The new task replaced it: it was dropped as the oldest.
                Known::Nothing => {
                    let ended = Ended { end: TaskEnd::Dropped, result: None, error: None };
                    self.ended.insert((now, id.clone()), ended);
                }
            }
            waits.left.insert(id.clone());
        }
        Some(waits)
    }

    /// Adds a member to an open batch, unless the batch is gone.
    pub(super) fn join(&mut self, part: &TaskId, whole: &TaskId) {
        if let Some(waits) = self.records.get_mut(whole).and_then(|record| record.waits.as_mut()) {
            waits.over.remove(part);
            waits.left.insert(part.clone());
        }
    }

    /// Records the end of a task.
    pub(super) fn has_ended(
        &mut self,
        at: Timestamp,
        id: &TaskId,
        end: TaskEnd,
        result: Option<Payload>,
        error: Option<&str>,
    ) {
        let error = error.map(|error| PastRun::cut(error).to_owned());
        self.ended.insert((at, id.clone()), Ended { end, result, error });
    }

    /// Updates the tasks that wait for finished ones, in the order in which those ended.
    pub(super) fn settle(&mut self) {
        while let Some(((at, id), ended)) = self.ended.pop_first() {
            let waits_for = |record: &Record| {
                let waits = record.waits.as_ref().filter(|waits| waits.left.contains(&id))?;
                let stays = ended.end == TaskEnd::Dead && waits.if_dead == IfDead::Wait;
                (!stays).then_some((waits.if_dead, record.arrival))
            };
            let told = self.records.iter();
            let mut told: Vec<_> = told.filter_map(|(of, it)| Some((waits_for(it)?, of.clone()))).collect();
            told.sort();
            for (_, of) in told {
                self.tell(at, &of, &id, &ended);
            }
        }
    }

    fn tell(&mut self, at: Timestamp, id: &TaskId, over: &TaskId, ended: &Ended) {
        let careless = self.bug == Some(Planted::FailureCountsAsOver);
        let record = self.records.get_mut(id).expect("it waits");
        let waits = record.waits.as_mut().expect("it waits");
        waits.left.remove(over);
        if !ended.lets_go_on(waits.if_dead) && !careless {
            let error = DeadLetter::unmet(over, ended.end, ended.error.as_deref().unwrap_or_default());
            self.die(at, id, error);
            return;
        }
        waits.over.insert(over.clone(), waited(over, at, ended));
        if self.bug == Some(Planted::FirstOfManyLetsGo) {
            waits.left.clear();
        }
        self.may_go_on(at, id);
    }

    /// Gives a task its place in the queue once it waits for nothing.
    fn may_go_on(&mut self, at: Timestamp, id: &TaskId) {
        let record = &self.records[id];
        if let Some(key) = record.content.key.clone().filter(|_| !record.is_held()) {
            self.tidy_key(at, &key);
        }
    }

    fn close(&mut self, now: Timestamp, id: &TaskId) -> Closed {
        let Some(record) = self.records.get_mut(id) else { return Closed::NotFound };
        let Some(waits) = record.waits.as_mut().filter(|waits| waits.open) else { return Closed::NotOpen };
        waits.open = false;
        let left = waits.left.len() as u64;
        self.may_go_on(now, id);
        Closed::Closed { left }
    }

    fn waits(&self, id: &TaskId) -> Option<Waits> {
        let waits = self.records.get(id)?.waits.as_ref()?;
        let error = |id: &TaskId| {
            let letter = self.dead.get(id).filter(|_| !self.records.contains_key(id));
            letter.map(|letter| PastRun::cut(&letter.error).to_owned())
        };
        let left = waits.left.iter().take(Waits::LOOKED_AT);
        let mut first: Vec<_> = left.map(|id| WaitsFor { id: id.clone(), error: error(id) }).collect();
        let dead = first.iter().filter(|one| one.error.is_some()).count() as u64;
        first.sort_by_key(|one| one.error.is_none());
        first.truncate(Waits::SHOWN);
        let if_dead = if waits.is_over() { IfDead::default() } else { waits.if_dead };
        let (left, over) = (waits.left.len() as u64, waits.over.len() as u64);
        (waits.open || left + over > 0).then_some(Waits {
            open: waits.open,
            if_dead,
            left,
            over,
            dead,
            first,
        })
    }
}

fn waited(id: &TaskId, at: Timestamp, ended: &Ended) -> Waited {
    let Ended { end, result, error } = ended.clone();
    Waited { id: id.clone(), end, at, result, error }
}

impl Model {
    /// See [`Verbs::close_batch`](rushgate_core::Verbs::close_batch).
    pub fn close_batch(&mut self, now: Timestamp, op: Op, name: &QueueName, id: &TaskId) -> Result<Closed> {
        once!(self, op, CloseBatch, self.change(now, name, |queue| queue.close(now, id)))
    }

    /// See [`Verbs::waits`](rushgate_core::Verbs::waits).
    pub fn waits(&mut self, now: Timestamp, name: &QueueName, id: &TaskId) -> Result<Option<Waits>> {
        Ok(self.queue(now, name).waits(id))
    }

    /// See [`Verbs::dependents`](rushgate_core::Verbs::dependents).
    pub fn dependents(
        &mut self,
        now: Timestamp,
        name: &QueueName,
        id: &TaskId,
        n: u32,
    ) -> Result<Vec<TaskId>> {
        let queue = self.queue(now, name);
        let waiting = queue.records.iter().filter_map(|(other, record)| {
            let waits = record.waits.as_ref().filter(|waits| waits.left.contains(id))?;
            Some((waits.if_dead, record.arrival, other.clone()))
        });
        let mut all: Vec<_> = waiting.collect();
        all.sort();
        Ok(all.into_iter().take(n as usize).map(|(_, _, other)| other).collect())
    }

    /// See [`Verbs::waited`](rushgate_core::Verbs::waited).
    pub fn waited(
        &mut self,
        now: Timestamp,
        name: &QueueName,
        id: &TaskId,
        page: &Page,
    ) -> Result<Vec<Waited>> {
        let mut queue = self.queue(now, name);
        let waits = queue.records.remove(id).and_then(|record| record.waits);
        let over = waits.into_iter().flat_map(|waits| waits.over.into_values());
        Ok(over.filter(|one| one.id.as_str() > page.after.as_str()).take(page.limit as usize).collect())
    }
}
