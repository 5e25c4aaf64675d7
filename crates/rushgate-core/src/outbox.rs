use crate::{NewTask, OutboxId};

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

/// Outcome of [`Verbs::relay`](crate::Verbs::relay).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed {
    /// The queue has had every task of the outbox up to this number; 0 if it had none. A value below the last number
    /// sent means that the queue is full.
    pub upto: u64,
}
