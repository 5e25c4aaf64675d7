use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits of a queue. Default: unlimited.
///
/// A limit applies to all workers together, on the store's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct QueueLimits {
    /// Capacity: maximum number of live records. Default: unlimited.
    pub bound: Option<u64>,
    /// Overflow policy.
    pub overflow: Overflow,
    /// Maximum number of tasks running at a time: 1 to 1,000,000.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000_000)))]
    pub concurrency: Option<u32>,
    /// Rate limit of the queue.
    pub rate: Option<Rate>,
    /// Limits for the tasks of each key separately.
    pub per_key: KeyLimits,
    /// How long finished tasks are kept. Default: not at all, at no cost.
    pub retention: Option<Retention>,
    /// Number of latest [events](crate::TaskEvent) to keep: 1 to 100,000. Default: none, at no cost. Events are
    /// numbered only while some are kept, and the numbering continues when it is enabled again.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100_000)))]
    pub events: Option<u32>,
}

impl QueueLimits {
    /// Maximum number of kept events.
    pub const EVENTS_MAX: u32 = 100_000;
}

/// Overflow policy: what happens to a new task when the queue is at capacity. Without a capacity it has no
/// effect.
///
/// Tasks that ignore the capacity (orders of a sale and tasks of schedules) drop nothing. A dead letter that
/// cannot be requeued for lack of room stays dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// The new task is refused: [`Enqueued::Full`](crate::Enqueued::Full).
    #[default]
    Refuse,
    /// The new task is dropped: [`Enqueued::Dropped`](crate::Enqueued::Dropped). For data that is worthless when late, such as samples.
    DropNew,
    /// The oldest waiting record by time of enqueueing, then by ID, is dropped for the new one:
    /// [`Enqueued::Displaced`](crate::Enqueued::Displaced). Leased records are never dropped; if all are leased, the new task is refused. One
    /// task replaces one: a queue above its capacity stays above it.
    DropOldest,
}

/// How long a queue keeps finished tasks: done, discarded, canceled or dropped by the overflow policy. Dequeued
/// and popped tasks leave no record (an older retained record of the ID stays). Dead letters stay until they are
/// requeued or deleted.
///
/// Both limits apply exactly, to the microsecond and to the task, on the store's clock: reads never show more.
/// The space is reclaimed when the next task of the queue finishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Maximum age: 1 ms to 400 days.
    #[serde(rename = "age_ms", with = "crate::time::as_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64", range(min = 1, max = 34_560_000_000_u64)))]
    pub age: Duration,
    /// Maximum number: 1 to 1,000,000. Among tasks that ended at the same time, the greatest IDs are kept.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000_000)))]
    pub count: u32,
}

impl Retention {
    /// Maximum number of kept tasks.
    pub const COUNT_MAX: u32 = 1_000_000;

    /// Keeps at most `count` tasks for at most `age`.
    pub const fn new(age: Duration, count: u32) -> Self {
        Self { age, count }
    }
}

/// Limits for the tasks of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct KeyLimits {
    /// Maximum number of tasks running at a time: 1 to 1,000,000, and 1 if the order is first in, first out.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000_000)))]
    pub concurrency: Option<u32>,
    /// Rate limit of the key.
    pub rate: Option<Rate>,
    /// First in, first out: one task at a time. A failed task keeps its place, so those behind it in its key
    /// group wait until it is done or dead.
    pub fifo: bool,
}

impl KeyLimits {
    /// Maximum concurrency of a key.
    pub fn at_a_time(&self) -> Option<u32> {
        if self.fifo { Some(1) } else { self.concurrency }
    }
}

/// Sliding-window rate limit: at most `n` tasks in any period of `per`.
///
/// It is exact: it remembers the latest `n` claims, whatever happened to the tasks, and allows the next one when
/// the oldest of them is `per` ago. There is no window edge at which twice as many could pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Maximum number of tasks: 1 to 10,000.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub n: u32,
    /// Period: 1 ms to 400 days.
    #[serde(rename = "per_ms", with = "crate::time::as_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64", range(min = 1, max = 34_560_000_000_u64)))]
    pub per: Duration,
}

impl Rate {
    /// Maximum of `n`.
    pub const MAX: u32 = 10_000;

    /// At most `n` tasks in any period of `per`.
    pub const fn new(n: u32, per: Duration) -> Self {
        Self { n, per }
    }
}
