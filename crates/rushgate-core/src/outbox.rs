use crate::{Answer, NewTask, OutboxId, QueueName};

/// The store's side of outboxes: tables in other databases, whose tasks a relay moves into queues.
///
/// A relay may die after it moved tasks and before it recorded that in the outbox. Its successor sends the same tasks
/// again, perhaps after they ran and ended. The relay therefore numbers the tasks of an outbox. Each queue
/// permanently remembers the highest number that it has, and ignores tasks up to that number.
pub trait OutboxStore: Send + Sync {
    /// Enqueues tasks in order, up to the first for which the queue has no room, and returns how far it got. A
    /// repeated call continues from there. Tasks with a number that the queue already has are ignored. A task whose
    /// ID is still [unique](crate::NewTask::unique_for) is skipped and counts as relayed.
    fn relay(&self, queue: &QueueName, relay: Relay) -> Answer<'_, Relayed>;
}

/// Tasks to relay from an outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// The outbox.
    pub outbox: OutboxId,
    /// 0 to 1,000 tasks with ascending numbers, 1 to 2^53 − 1. An empty list only queries the position.
    pub tasks: Vec<(u64, NewTask)>,
}

impl Relay {
    /// Greatest task number: 2^53 − 1.
    pub const NUMBER_MAX: u64 = (1 << 53) - 1;
}

/// Outcome of [`OutboxStore::relay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed {
    /// The queue has had every task of the outbox up to this number; 0 if it had none. A value below the last number
    /// sent means that the queue is full.
    pub upto: u64,
}
