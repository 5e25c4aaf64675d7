//! Checks that an order worker will get a pending order.

use crate::{ContentType, Lease, OrderTask, Priority, Timestamp};

/// Task of a pending order, as stored.
#[derive(Clone, Copy, Debug)]
pub struct OrderRecord<'a> {
    /// Order in its payload.
    pub order: &'a OrderTask,
    /// ID of the task.
    pub id: &'a str,
    /// Content type of the payload.
    pub content_type: &'a ContentType,
    /// Priority of the task.
    pub priority: u64,
    /// Attempts so far.
    pub attempts: u64,
    /// Maximum attempts.
    pub max_attempts: u64,
    /// When it is due.
    pub due: Timestamp,
    /// End of its lease, if a worker has it.
    pub lease_until: Option<Timestamp>,
    /// Whether it is marked as canceled.
    pub is_cancelled: bool,
    /// Whether it has a key, a deadline or dependencies, which orders do not have.
    pub is_bound: bool,
}

impl OrderRecord<'_> {
    /// Why no order worker will get the order in time, as text. Empty for every order that a store makes.
    pub fn obstacles(&self, now: Timestamp) -> Vec<String> {
        let mut found = Vec::new();
        let mut note = |is_wrong: bool, what: String| {
            if is_wrong {
                found.push(format!("order {} in the order queue {what}", self.id));
            }
        };
        let id = self.order.task_id();
        note(self.id != id.as_str(), format!("belongs to task {id}"));
        let kind = self.content_type;
        note(!kind.is_json(), format!("has the content type {kind}"));
        let priority = u64::from(Priority::default().get());
        note(self.priority != priority, format!("has priority {}, not {priority}", self.priority));
        let most = u64::from(OrderTask::ATTEMPTS);
        note(
            self.max_attempts != most,
            format!("has a maximum of {} attempts, not {most}", self.max_attempts),
        );
        // The lease counts its own attempt.
        let had = self.attempts - u64::from(self.lease_until.is_some()).min(self.attempts);
        note(had >= most, format!("has used {had} of {most} attempts"));
        note(self.due > now + OrderTask::DUE_WITHIN, format!("is due only at {} µs", self.due.as_micros()));
        if let Some(until) = self.lease_until {
            note(until > now + Lease::MAX, format!("is leased until {} µs", until.as_micros()));
        }
        note(self.is_cancelled, "is marked as canceled".into());
        note(self.is_bound, "has a key, a deadline or dependencies".into());
        found
    }
}
