//! Uniqueness windows of task IDs, which are independent of the records.

use rushgate_core::{Enqueued, NewTask, TaskId, Timestamp, UniqueCleared, verb};

use super::Queue;
use crate::fault::Result;
use crate::read::Reader;
use crate::sql::sql;
use crate::step::Step;
use crate::stored::{stored, time};

/// Number of expired windows deleted per new window. More than one, so that their number shrinks.
const FORGOTTEN: u32 = 2;

impl Queue<'_, '_> {
    /// Enqueues a client's task. Uniqueness is checked before the capacity.
    pub(super) fn offer(&mut self, task: &NewTask) -> Result<Enqueued> {
        if self.row.unique_until > self.now()
            && let Some(until) = self.unique_until(&task.id)?
            && self.present(&task.id)?.is_none()
        {
            return Ok(Enqueued::Recent { until });
        }
        if let Some(refused) = self.refusal(task)? {
            return Ok(refused);
        }
        let answer = self.enqueue(task, true)?;
        if let Some(whole) = task.part_of.as_ref().filter(|_| answer.is_in()) {
            self.join(&task.id, whole)?;
        }
        self.settle()?;
        if let Some(period) = task.unique_for.filter(|_| answer.is_accepted()) {
            self.begin_period(&task.id, stored(self.step.now + period))?;
        }
        Ok(answer)
    }

    fn unique_until(&mut self, id: &TaskId) -> Result<Option<Timestamp>> {
        let params = (self.row.id, id.as_str(), self.now());
        self.step.row(sql!("queue/unique", "until"), params, |row| time(row, 0))
    }

    fn begin_period(&mut self, id: &TaskId, until: i64) -> Result<()> {
        self.step.exec(sql!("queue/unique", "forget"), (self.now(), FORGOTTEN))?;
        self.step.exec(sql!("queue/unique", "begin"), (self.row.id, id.as_str(), until))?;
        self.row.unique_until = self.row.unique_until.max(until);
        Ok(())
    }
}

/// Clears a uniqueness window. The task does not matter, so leases and deadlines are not checked.
pub(crate) fn clear_unique(step: &mut Step<'_>, v: &verb::ClearUnique) -> Result<UniqueCleared> {
    let params = (v.queue.as_str(), v.id.as_str());
    let cleared = step.row(sql!("queue/unique", "clear_unique"), params, |row| time(row, 0))?;
    let cleared = cleared.filter(|until| *until > step.now);
    Ok(cleared.map_or(UniqueCleared::NotFound, |until| UniqueCleared::Cleared { until }))
}

pub(crate) fn unique_until(reader: &Reader<'_>, v: &verb::UniqueUntil) -> Result<Option<Timestamp>> {
    let params = (v.queue.as_str(), v.id.as_str(), stored(reader.now));
    reader.row(sql!("queue/unique", "one"), params, |row| time(row, 0))
}
