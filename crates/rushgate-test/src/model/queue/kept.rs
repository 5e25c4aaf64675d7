//! Retention of finished tasks and of unsuccessful runs.

use super::*;

impl Record {
    /// Records an unsuccessful run.
    pub(super) fn remember(&mut self, ended: Timestamp, how: PastEnd, error: &str) {
        let Some(lease) = &self.lease else { return };
        let run = PastRun {
            attempt: self.attempts,
            began: Timestamp::from_micros(lease.claim.as_u64()),
            ended,
            how,
            worker: lease.worker.clone(),
            error: PastRun::cut(error).to_owned(),
        };
        run.add_to(&mut self.past);
    }
}

impl Queue {
    /// Ends a task, and retains it if the queue has a retention.
    pub(super) fn finish(&mut self, at: Timestamp, id: &TaskId, how: Finish, result: Option<Payload>) {
        let record = self.records.remove(id).expect("the caller found it");
        let attempt = record.attempts;
        let began = record.lease.as_ref().map(|lease| Timestamp::from_micros(lease.claim.as_u64()));
        let began = began.unwrap_or_default();
        let (end, what) = match how {
            Finish::Done => (TaskEnd::Done, TaskChange::Done { attempt, began }),
            Finish::Discarded => (TaskEnd::Discarded, TaskChange::Discarded { attempt, began }),
            Finish::Cancelled => (TaskEnd::Cancelled, TaskChange::Cancelled),
            Finish::Dropped => (TaskEnd::Dropped, TaskChange::Dropped),
        };
        self.note(at, id, what);
        self.has_ended(at, id, end, result.clone(), None);
        if self.limits.retention.is_none() {
            return;
        }
        let done = TaskInfo {
            task: record.task(id),
            state: TaskState::Done,
            waits: false,
            not_before: None,
            lease_until: None,
            worker: record.lease.map(|lease| lease.worker),
            progress: None,
            replaced: false,
            cancelled: false,
            error: record.error,
            past: record.past,
            finished: Some(Finished { at, how, result }),
        };
        self.done.insert(id.clone(), done);
    }

    /// Deletes tasks that exceed the retention.
    pub(super) fn forget_done(&mut self, now: Timestamp) {
        let Some(retention) = self.limits.retention else { return };
        if self.bug == Some(Planted::RetentionForgetsNothing) {
            return;
        }
        let at = |info: &TaskInfo| info.finished.as_ref().map(|finished| finished.at).unwrap_or_default();
        self.done.retain(|_, info| at(info) + retention.age > now);
        let mut latest: Vec<_> = self.done.iter().map(|(id, info)| (at(info), id.clone())).collect();
        latest.sort();
        let too_many = latest.len().saturating_sub(retention.count as usize);
        for (_, id) in latest.drain(..too_many) {
            self.done.remove(&id);
        }
    }
}
