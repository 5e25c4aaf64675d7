//! Tasks that wait for other tasks.

use rushgate_core::{
    Closed, Coded, DeadLetter, Enqueued, IfDead, NewTask, PastRun, Payload, Selection, TaskEnd, TaskId,
    TaskKey, Unmet, Waited, Waits, WaitsFor, verb,
};
use rusqlite::{Row, params};

use super::{Queue, payload};
use crate::fault::Result;
use crate::read::Reader;
use crate::sql::sql;
use crate::stored::{coded, micros, parsed, time};

/// Maximum number of waiting tasks that one call updates. The next call updates the rest.
const TOLD_MAX: usize = 2_000;

/// How a task ended that others may wait for.
struct Ended {
    at: i64,
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
    Finished(Ended),
    Nothing,
}

/// What a new task waits for.
pub(super) struct Begun {
    left: Vec<TaskId>,
    over: Vec<(TaskId, Ended)>,
    /// Finished tasks among `left` that prevent the new task from running.
    failed: Vec<(TaskId, Ended)>,
}

/// Reads the content type, and the payload from the column after it, if there is a result.
fn read_result(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Payload>> {
    let has_result = row.get_ref(at)?.as_str_or_null()?.is_some();
    has_result.then(|| payload(row, at)).transpose()
}

impl Queue<'_, '_> {
    /// Why a new task cannot wait for other tasks or be a member of a batch, if so.
    pub(super) fn refusal(&mut self, task: &NewTask) -> Result<Option<Enqueued>> {
        if !task.is_to_wait() && task.part_of.is_none() {
            return Ok(None);
        }
        // Apply earlier ends first: the new task must not wait for them.
        while self.row.ended {
            self.settle()?;
        }
        let refused = |task: &TaskId, why| Ok(Some(Enqueued::Refused { task: task.clone(), why }));
        let present = self.present(&task.id)?;
        if task.is_to_wait() && present.as_ref().is_some_and(|present| present.cancelled) {
            return refused(&task.id, Unmet::Taken);
        }
        if let Some(whole) = &task.part_of {
            if self.open(whole)?.is_none() {
                return refused(whole, Unmet::NotOpen);
            }
            if present.as_ref().is_some_and(|present| present.held) {
                return refused(&task.id, Unmet::Taken);
            }
        }
        if present.is_some() {
            return Ok(None);
        }
        // Otherwise tasks could wait for each other.
        let of = (self.row.id, task.id.as_str());
        if task.is_to_wait() && self.step.value(sql!("queue/wait", "is_waited_for"), of)?.unwrap_or(false) {
            return refused(&task.id, Unmet::Taken);
        }
        for id in &task.after {
            if matches!(self.known(id)?, Known::Nothing) {
                return refused(id, Unmet::Unknown);
            }
        }
        Ok(None)
    }

    /// The arrival number of the callback of an open batch, and its policy for dead members.
    fn open(&mut self, id: &TaskId) -> Result<Option<(i64, IfDead)>> {
        let Some(arrival) = self.step.value(sql!("queue/wait", "open"), (self.row.id, id.as_str()))? else {
            return Ok(None);
        };
        let if_dead = self.step.row(sql!("queue/wait", "is_open"), [arrival], |row| coded(row, 0))?;
        Ok(if_dead.map(|if_dead| (arrival, if_dead)))
    }

    fn known(&mut self, id: &TaskId) -> Result<Known> {
        if self.present(id)?.is_some() {
            return Ok(Known::Live);
        }
        let of = (self.row.id, id.as_str());
        let letter = self.step.row(sql!("queue/wait", "dead"), of, |row| {
            let error = Some(PastRun::cut(&row.get::<_, String>(1)?).to_owned());
            Ok(Ended { at: row.get(0)?, end: TaskEnd::Dead, result: None, error })
        })?;
        let mut finished = None;
        if let Some(retention) = self.row.limits.retention {
            let since = self.now().saturating_sub(micros(retention.age));
            let params = (self.row.id, id.as_str(), since);
            finished = self.step.row(sql!("queue/wait", "finished"), params, |row| {
                Ok(Ended { at: row.get(0)?, end: coded(row, 1)?, result: read_result(row, 2)?, error: None })
            })?;
        }
        Ok(match (finished, letter) {
            (Some(finished), Some(letter)) if letter.at > finished.at => Known::Finished(letter),
            (Some(finished), _) => Known::Finished(finished),
            (None, Some(letter)) => Known::Finished(letter),
            (None, None) => Known::Nothing,
        })
    }

    /// Determines what a new task has to wait for.
    pub(super) fn begin_to_wait(&mut self, task: &NewTask) -> Result<Option<Begun>> {
        if !task.is_to_wait() {
            return Ok(None);
        }
        let mut begun = Begun { left: Vec::new(), over: Vec::new(), failed: Vec::new() };
        for id in &task.after {
            match self.known(id)? {
                Known::Finished(ended) if ended.lets_go_on(task.if_dead) => {
                    begun.over.push((id.clone(), ended));
                    continue;
                }
                Known::Live => {}
                Known::Finished(ended) => begun.failed.push((id.clone(), ended)),
                // The new task replaced it: it was dropped as the oldest.
                Known::Nothing => {
                    let ended = Ended { at: 0, end: TaskEnd::Dropped, result: None, error: None };
                    begun.failed.push((id.clone(), ended));
                }
            }
            begun.left.push(id.clone());
        }
        Ok(Some(begun))
    }

    /// Value of the column `held`: the key of a task that waits for others, or an empty text.
    pub(super) fn held(task: &NewTask, begun: Option<&Begun>) -> Option<String> {
        let waits = begun.is_some_and(|begun| task.held_open || !begun.left.is_empty());
        waits.then(|| task.key.as_ref().map_or_else(String::new, |key| key.as_str().to_owned()))
    }

    /// Stores what a new task waits for.
    pub(super) fn note_waits(&mut self, arrival: i64, task: &NewTask, begun: Begun) -> Result<()> {
        let (of, if_dead) = (self.row.id, task.if_dead.code());
        let open = task.held_open.then_some("");
        for id in begun.left.iter().map(TaskId::as_str).chain(open) {
            self.step.exec(sql!("queue/wait", "add"), (arrival, id, of, if_dead))?;
        }
        for (id, ended) in begun.over {
            let (content_type, bytes) = parts(ended.result.as_ref());
            let end = ended.end.code();
            let params =
                params![arrival, id.as_str(), of, if_dead, end, ended.at, content_type, bytes, ended.error];
            self.step.exec(sql!("queue/wait", "add_over"), params)?;
        }
        self.row.linked = true;
        for (id, ended) in begun.failed {
            self.has_ended(self.now(), id.as_str(), ended.end, None, ended.error.as_deref())?;
        }
        Ok(())
    }

    /// Adds a member to an open batch, unless the batch is gone.
    pub(super) fn join(&mut self, part: &TaskId, whole: &TaskId) -> Result<()> {
        if let Some((arrival, if_dead)) = self.open(whole)? {
            // The ID may have been a member before, with a record that has finished.
            let params = (arrival, part.as_str());
            self.step.exec(sql!("queue/wait", "forget_one"), params)?;
            let params = (arrival, part.as_str(), self.row.id, if_dead.code());
            self.step.exec(sql!("queue/wait", "add"), params)?;
        }
        Ok(())
    }

    /// Records the end of a task for the tasks that wait for it.
    pub(super) fn has_ended(
        &mut self,
        at: i64,
        id: &str,
        end: TaskEnd,
        result: Option<&Payload>,
        error: Option<&str>,
    ) -> Result<()> {
        if !self.row.linked {
            return Ok(());
        }
        let waited_for = self.step.value(sql!("queue/wait", "is_waited_for"), (self.row.id, id))?;
        if !waited_for.unwrap_or(false) {
            return Ok(());
        }
        let (content_type, bytes) = parts(result);
        let error = error.map(PastRun::cut);
        let params = params![self.row.id, at, id, end.code(), content_type, bytes, error];
        self.step.exec(sql!("queue/wait", "ended"), params)?;
        self.row.ended = true;
        Ok(())
    }

    /// Deletes what a deleted record waited for.
    pub(super) fn forget_waits(&mut self, arrival: i64) -> Result<()> {
        if self.row.linked {
            self.step.exec(sql!("queue/wait", "forget"), [arrival])?;
        }
        Ok(())
    }

    /// Updates the tasks that wait for finished ones, in the order in which those ended. If there are too many for
    /// one call, a listener is notified, whose call continues.
    pub(super) fn settle(&mut self) -> Result<()> {
        let mut left = TOLD_MAX;
        while self.row.ended && left > 0 {
            let first = self.step.row(sql!("queue/wait", "first_ended"), [self.row.id], |row| {
                let (result, error) = (read_result(row, 3)?, row.get(5)?);
                Ok((parsed::<TaskId>(row, 1)?, Ended { at: row.get(0)?, end: coded(row, 2)?, result, error }))
            })?;
            let Some((id, ended)) = first else {
                self.row.ended = false;
                break;
            };
            // Tasks whose policy is to keep waiting for dead ones are not updated.
            let from = u8::from(ended.end == TaskEnd::Dead);
            let params = (self.row.id, id.as_str(), from, left);
            let told: Vec<(i64, IfDead)> = self
                .step
                .rows(sql!("queue/wait", "waiting"), params, |row| Ok((row.get(0)?, coded(row, 1)?)))?;
            if told.len() < left {
                self.step.exec(sql!("queue/wait", "told"), (self.row.id, ended.at, id.as_str()))?;
            }
            left -= told.len();
            for (arrival, if_dead) in told {
                self.tell(arrival, if_dead, &id, &ended)?;
            }
        }
        if self.row.ended {
            self.waits(self.now());
        }
        Ok(())
    }

    fn tell(&mut self, arrival: i64, if_dead: IfDead, over: &TaskId, ended: &Ended) -> Result<()> {
        if ended.lets_go_on(if_dead) {
            let (content_type, bytes) = parts(ended.result.as_ref());
            let end = ended.end.code();
            let params = params![arrival, over.as_str(), end, ended.at, content_type, bytes, ended.error];
            self.step.exec(sql!("queue/wait", "over"), params)?;
            return self.may_go_on(arrival, ended.at);
        }
        let error = DeadLetter::unmet(over, ended.end, ended.error.as_deref().unwrap_or_default());
        let id: Option<String> = self.step.value(sql!("queue/wait", "held"), [arrival])?;
        let Some(id) = id else { return Ok(()) };
        let past: Option<String> = None;
        self.step.exec(sql!("queue/end", "delete_dead"), (arrival, error.as_str(), ended.at, past))?;
        self.remove(arrival, &id)?;
        // A task that waits for others has never run.
        self.note_dead(ended.at, &id, 0, &error);
        self.has_ended(ended.at, &id, TaskEnd::Dead, None, Some(&error))
    }

    /// Gives a task its place in the queue once it waits for nothing.
    fn may_go_on(&mut self, arrival: i64, at: i64) -> Result<()> {
        if self.step.value(sql!("queue/wait", "is_held"), [arrival])?.unwrap_or(false) {
            return Ok(());
        }
        let held = self.step.row(sql!("queue/wait", "held"), [arrival], |row| {
            Ok((row.get::<_, u8>(1)?, row.get::<_, String>(2)?, row.get::<_, i64>(3)?))
        })?;
        let Some((priority, key, due)) = held else { return Ok(()) };
        let key = (!key.is_empty()).then(|| TaskKey::new(key)).transpose()?;
        self.step.exec(sql!("queue/wait", "release"), [arrival])?;
        let moment = std::mem::replace(&mut self.moment, at);
        self.stand(arrival, key.zip(Some(priority)), due)?;
        self.moment = moment;
        if due > self.now() && !self.row.paused {
            // A listener must learn of the new due time.
            self.row.wakeups = self.row.wakeups.saturating_add(1);
        }
        Ok(())
    }

    pub(crate) fn close_batch(&mut self, id: &TaskId) -> Result<Closed> {
        if self.present(id)?.is_none() {
            return Ok(Closed::NotFound);
        }
        let Some((arrival, _)) = self.open(id)? else { return Ok(Closed::NotOpen) };
        self.step.exec(sql!("queue/wait", "forget_one"), (arrival, ""))?;
        let left = self.step.value::<i64>(sql!("queue/wait", "left"), [arrival])?.unwrap_or_default();
        self.may_go_on(arrival, self.now())?;
        Ok(Closed::Closed { left: left.cast_unsigned() })
    }

    /// IDs of selected dead letters that tasks wait for and that are not live.
    pub(super) fn waited_for_dead(&mut self, which: &Selection) -> Result<Vec<String>> {
        if !self.row.linked {
            return Ok(Vec::new());
        }
        let Selection::Ids(ids) = which else {
            return self.step.rows(sql!("queue/wait", "deleted"), [self.row.id], |row| row.get(0));
        };
        let mut found = Vec::new();
        for id in ids {
            let of = (self.row.id, id.as_str());
            if self.step.value(sql!("queue/wait", "is_deleted"), of)?.unwrap_or(false) {
                found.push(id.to_string());
            }
        }
        Ok(found)
    }
}

fn parts(result: Option<&Payload>) -> (Option<&str>, Option<&[u8]>) {
    (result.map(|result| result.content_type().as_str()), result.map(Payload::bytes))
}

pub(crate) fn waits(reader: &Reader<'_>, v: &verb::Waits) -> Result<Option<Waits>> {
    let of = (v.queue.as_str(), v.id.as_str());
    let counts = reader.row(sql!("queue/wait", "counts"), of, |row| {
        let waits = Waits {
            open: row.get::<_, Option<bool>>(3)?.unwrap_or(false),
            if_dead: row.get::<_, Option<u8>>(4)?.map_or(Ok(IfDead::default()), |_| coded(row, 4))?,
            left: row.get::<_, i64>(1)?.cast_unsigned(),
            over: row.get::<_, i64>(2)?.cast_unsigned(),
            dead: 0,
            first: Vec::new(),
        };
        Ok((row.get::<_, i64>(0)?, waits))
    })?;
    let Some((arrival, mut waits)) = counts else { return Ok(None) };
    let params = (arrival, Waits::LOOKED_AT);
    let mut first = reader.rows(sql!("queue/wait", "first"), params, |row| {
        let error = row.get::<_, Option<String>>(1)?;
        Ok(WaitsFor { id: parsed(row, 0)?, error: error.map(|error| PastRun::cut(&error).to_owned()) })
    })?;
    waits.dead = first.iter().filter(|one| one.error.is_some()).count() as u64;
    first.sort_by_key(|one| one.error.is_none());
    first.truncate(Waits::SHOWN);
    waits.first = first;
    Ok((waits.open || waits.left + waits.over > 0).then_some(waits))
}

pub(crate) fn dependents(reader: &Reader<'_>, v: &verb::Dependents) -> Result<Vec<TaskId>> {
    let params = (v.queue.as_str(), v.id.as_str(), v.n);
    reader.rows(sql!("queue/wait", "dependents"), params, |row| parsed(row, 0))
}

pub(crate) fn waited(reader: &Reader<'_>, v: &verb::Waited) -> Result<Vec<Waited>> {
    let params = (v.queue.as_str(), v.id.as_str(), &v.page.after, v.page.limit);
    reader.rows(sql!("queue/wait", "page"), params, |row| {
        Ok(Waited {
            id: parsed(row, 0)?,
            end: coded(row, 1)?,
            at: time(row, 2)?,
            result: read_result(row, 3)?,
            error: row.get(5)?,
        })
    })
}
