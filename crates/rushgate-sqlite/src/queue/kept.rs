//! Retention of finished tasks.

use rushgate_core::{
    Coded, Fence, Finished, Payload, QueueName, Retention, TaskChange, TaskEnd, TaskId, TaskInfo, TaskState,
    Topic,
};
use rusqlite::{Row, params};

use super::claim::read_task;
use super::{Queue, payload, read_past};
use crate::fault::Result;
use crate::read::Reader;
use crate::sql::sql;
use crate::stored::{coded, micros, stored, time};

/// Maximum number of expired tasks deleted per step. Reads skip the rest.
const FORGOTTEN_MAX: u32 = 2_000;

impl Queue<'_, '_> {
    /// Ends a task, and retains it if the queue has a retention.
    pub(super) fn finish(
        &mut self,
        arrival: i64,
        id: &str,
        at: i64,
        what: TaskChange,
        result: Option<&Payload>,
    ) -> Result<()> {
        let end = match what {
            TaskChange::Discarded { .. } => TaskEnd::Discarded,
            TaskChange::Cancelled => TaskEnd::Cancelled,
            TaskChange::Dropped => TaskEnd::Dropped,
            _ => TaskEnd::Done,
        };
        self.note(at, id, || what);
        self.has_ended(at, id, end, result, None)?;
        if self.row.limits.retention.is_some() {
            let replaced = self.step.exec(sql!("queue/finish", "forget_one"), (self.row.id, id))?;
            let content_type = result.map(|result| result.content_type().as_str());
            let params = params![arrival, at, end.code(), content_type, result.map(Payload::bytes)];
            self.step.exec(sql!("queue/finish", "keep"), params)?;
            self.kept(self.row.kept + 1 - replaced as u64);
            self.finished = true;
        }
        self.remove(arrival, id)
    }

    /// Notifies listeners for the end of a task.
    pub(super) fn tell_finished(&mut self, id: &str) {
        if self.row.limits.retention.is_some()
            && let Ok(id) = TaskId::as_stored(id)
        {
            self.step.tell(Topic::Finished(self.row.name.clone(), id), None, usize::MAX);
        }
    }

    fn kept(&mut self, n: u64) {
        (self.row.kept, self.row.kept_changed) = (n, true);
    }

    /// Deletes tasks that exceed the retention, if a task was added.
    pub(super) fn forget_finished(&mut self) -> Result<()> {
        match self.row.limits.retention {
            Some(retention) if self.finished => self.forget_by(retention, FORGOTTEN_MAX),
            _ => Ok(()),
        }
    }

    fn forget_by(&mut self, retention: Retention, most: u32) -> Result<()> {
        let old = self.now().saturating_sub(micros(retention.age));
        let gone = self.step.exec(sql!("queue/finish", "forget_old"), (self.row.id, old, most))?;
        let left = self.row.kept - gone as u64;
        let too_many = left.saturating_sub(retention.count.into());
        if too_many > 0 {
            let first = (self.row.id, too_many.cast_signed());
            self.step.exec(sql!("queue/finish", "forget_first"), first)?;
        }
        if gone > 0 || too_many > 0 {
            self.kept(left - too_many);
        }
        Ok(())
    }

    /// Deletes tasks that exceed the old retention, so that a longer one does not bring them back, or the new one.
    pub(super) fn forget_for(&mut self, old: Option<Retention>, new: Option<Retention>) -> Result<()> {
        if old == new {
            return Ok(());
        }
        for retention in old.into_iter().chain(new) {
            self.forget_by(retention, u32::MAX)?;
        }
        if new.is_none() {
            self.step.exec(sql!("queue/finish", "forget_all"), [self.row.id])?;
            self.kept(0);
            self.step.tell_all_finished(&self.row.name);
        }
        Ok(())
    }
}

fn read_finished(row: &Row<'_>) -> rusqlite::Result<TaskInfo> {
    let (_, mut task) = read_task(row, 18)?;
    let claim = row.get::<_, i64>(10)?.cast_unsigned();
    task.ticket.claim = (claim > 0).then(|| Fence::from_u64(claim));
    let how = coded(row, 15)?;
    let has_result = row.get_ref(16)?.as_str_or_null()?.is_some();
    let result = has_result.then(|| payload(row, 16)).transpose()?;
    Ok(TaskInfo {
        task,
        state: TaskState::Done,
        waits: false,
        not_before: None,
        lease_until: None,
        worker: row.get(11)?,
        progress: None,
        replaced: false,
        cancelled: false,
        error: row.get(12)?,
        past: read_past(row, 13)?,
        finished: Some(Finished { at: time(row, 14)?, how, result }),
    })
}

pub(super) fn finished(reader: &Reader<'_>, queue: &QueueName, id: &TaskId) -> Result<Option<TaskInfo>> {
    let params = (queue.as_str(), id.as_str(), stored(reader.now));
    reader.row(sql!("queue/finish", "one"), params, read_finished)
}

/// The next finished tasks of a range of IDs, and whether the retention still covers each.
pub(super) fn next_finished(
    reader: &Reader<'_>,
    queue: &QueueName,
    (from, to): (&str, &str),
    n: usize,
) -> Result<Vec<(TaskInfo, bool)>> {
    let params = (queue.as_str(), from, to, n, stored(reader.now));
    reader.rows(sql!("queue/finish", "many"), params, |row| Ok((read_finished(row)?, row.get(19)?)))
}

/// Whether a task with this ID is live and its end is published.
pub(crate) fn is_awaited(reader: &Reader<'_>, queue: &QueueName, id: &TaskId) -> Result<bool> {
    let params = (queue.as_str(), id.as_str());
    let awaited = reader.row(sql!("queue/finish", "awaited"), params, |row| row.get(0))?;
    Ok(awaited.unwrap_or(false))
}
