//! What a relay and an outbox exchange.

use std::collections::HashMap;
use std::time::Duration;

use rushgate_core::{NewTask, QueueName};

/// Maximum number of tasks of a queue that are under way at a time.
pub(super) const BATCH_MAX: usize = 1_000;
/// Maximum size of a batch's payloads, in bytes, unless a single task is larger.
pub(super) const BATCH_BYTES: usize = 8 << 20;

/// State of an outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStats {
    /// Tasks that are not in their queues yet.
    pub waiting: u64,
    /// Tasks that cannot be moved and were set aside.
    pub refused: u64,
    /// Age of the oldest waiting task, on the database's clock.
    pub oldest: Duration,
}

/// A task that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedTask {
    /// Position of its row.
    pub position: i64,
    /// Name of the queue.
    pub queue: String,
    /// ID of the task.
    pub id: String,
    /// Why it was set aside.
    pub why: String,
    /// Size of its payload, in bytes.
    pub bytes: u64,
}

/// A task to relay.
#[derive(Clone, Debug)]
pub struct OutboxTask {
    /// Its number, which is the same for each delivery.
    pub number: u64,
    /// Position of its row.
    pub position: i64,
    /// The task to enqueue.
    pub task: NewTask,
    /// How long it had waited when it was read.
    pub age: Duration,
}

/// Tasks to relay, by queue and in order. A queue has one batch at a time.
pub type OutboxBatches = HashMap<QueueName, Vec<OutboxTask>>;

/// Progress that a relay reports in a turn, and what it asks for.
#[derive(Clone, Debug, Default)]
pub struct OutboxTurn {
    /// Positions of tasks that are in their queues.
    pub done: Vec<i64>,
    /// Positions of tasks that no queue accepts, and why.
    pub refused: Vec<(i64, String)>,
    /// The highest number that each queue has from this outbox, for the queues that were asked.
    pub marks: HashMap<QueueName, u64>,
    /// Whether to return more tasks.
    pub more: bool,
}

/// The answer to a turn.
#[derive(Clone, Debug, Default)]
pub struct OutboxTaken {
    /// New batches to send.
    pub batches: OutboxBatches,
    /// Queues with waiting tasks whose highest number is unknown: ask them first.
    pub strangers: Vec<QueueName>,
    /// Tasks that cannot be moved and were set aside: queue, ID and reason.
    pub refused: Vec<(String, String, String)>,
}
