use crate::{Answer, NewTask, OutboxId, QueueName};

/// The store's side of outboxes: tables in other databases, from which a relay brings tasks into queues.
///
/// A relay may die between a step here and the note of it over there, and then its successor sends the same tasks
/// again, perhaps after they have run and ended. So the relay numbers the tasks of an outbox, and each queue
/// remembers, for good, up to which number it has them: what it had before it does not take again.
pub trait OutboxStore: Send + Sync {
    /// Enqueues, in order, the tasks with numbers greater than all that this queue has from this outbox, up to the first
    /// that finds no room, and returns how far it got. A repeated call continues from there. A task whose ID is still
    /// [unique](crate::NewTask::unique_for) is skipped and counts as relayed.
    fn relay(&self, queue: &QueueName, relay: Relay) -> Answer<'_, Relayed>;
}

/// What a relay brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// From where.
    pub outbox: OutboxId,
    /// 0 to 1,000 tasks with their numbers, which grow: 1 to 2^53 − 1. Without any it is a question.
    pub tasks: Vec<(u64, NewTask)>,
}

impl Relay {
    /// The greatest number.
    pub const NUMBER_MAX: u64 = (1 << 53) - 1;
}

/// The answer to [`OutboxStore::relay`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed {
    /// The queue had every task of the outbox up to this number, now or before; 0 if it had none. Less than the last
    /// number sent means that the queue is full.
    pub upto: u64,
}
