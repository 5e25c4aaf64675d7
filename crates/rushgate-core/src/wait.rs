//! Tasks that wait for other tasks, and batches.

use serde::{Deserialize, Serialize};

use crate::{Payload, TaskId, Timestamp};

/// What happens to a task when one that it [waits for](crate::NewTask::after) becomes a dead letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum IfDead {
    /// The task keeps waiting: the dead letter can be requeued and finish then. A task that can never finish,
    /// because it was canceled, dropped, dequeued or deleted as a dead letter, turns the waiting task into a dead
    /// letter.
    #[default]
    Wait,
    /// The task becomes a dead letter too, and its error names the one that failed. The same applies if that one
    /// can never finish.
    Fail,
    /// The dead letter counts as finished, and so does a task that can never finish.
    Run,
}

/// How a task ended that another one waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskEnd {
    /// A worker completed it.
    Done,
    /// There was nothing to do.
    Discarded,
    /// A client canceled it.
    Cancelled,
    /// The overflow policy dropped it: the queue was at capacity.
    Dropped,
    /// A client took it with [`pop`](crate::Verbs::pop). Whether it was executed is unknown.
    Popped,
    /// It was dequeued, or its dead letter was deleted.
    Deleted,
    /// It is a dead letter.
    Dead,
}

impl TaskEnd {
    /// Whether a task that waits for it can run: it was done, discarded or popped.
    pub fn is_well(self) -> bool {
        matches!(self, Self::Done | Self::Discarded | Self::Popped)
    }
}

/// A finished task, as seen by a task that waited for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waited {
    /// ID of the task.
    #[cfg_attr(feature = "schema", schemars(with = "String", length(min = 1, max = 200)))]
    pub id: TaskId,
    /// How it ended.
    pub end: TaskEnd,
    /// When it ended.
    #[serde(rename = "at_us")]
    pub at: Timestamp,
    /// Its result, if the worker returned one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// Why it failed, if it is dead. Truncated to 200 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What a live task waits for, and the progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waits {
    /// Whether it is the callback of an open batch: it takes members and does not run before the batch is closed.
    pub open: bool,
    /// What happens when a task that it waits for becomes a dead letter. The default once it waits for nothing.
    pub if_dead: IfDead,
    /// Number of tasks that it still waits for.
    pub left: u64,
    /// Number of tasks that have finished.
    pub over: u64,
    /// Number of dead letters, not live again, among the first 1,000 unfinished tasks by ID.
    pub dead: u64,
    /// Up to [`SHOWN`](Self::SHOWN) of those 1,000: dead letters first, then by ID.
    pub first: Vec<WaitsFor>,
}

impl Waits {
    /// Maximum number of unfinished tasks shown.
    pub const SHOWN: usize = 5;
    /// Maximum number of unfinished tasks examined for dead letters.
    pub const LOOKED_AT: usize = 1_000;
}

/// A task that another one waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitsFor {
    /// ID of the task.
    #[cfg_attr(feature = "schema", schemars(with = "String", length(min = 1, max = 200)))]
    pub id: TaskId,
    /// Why it failed, if it is dead and not live again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Why a task cannot wait for another task, or be a member of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Unmet {
    /// No task with the given ID is live, dead or retained.
    Unknown,
    /// The batch is not open: it was closed, runs, has finished or never existed.
    NotOpen,
    /// A live record of the same ID prevents it: one that waits for others and so cannot be a member; one that is
    /// running and marked as canceled, behind which nothing can wait; or one that others wait for, which would
    /// make them wait for each other.
    Taken,
}

/// Outcome of [`Verbs::close_batch`](crate::Verbs::close_batch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
#[non_exhaustive]
pub enum Closed {
    /// The batch takes no more members. Its callback runs as soon as everything that it waits for has finished.
    Closed {
        /// Number of tasks that it still waits for.
        left: u64,
    },
    /// The task is not the callback of an open batch. Nothing was changed.
    NotOpen,
    /// No live task has this ID.
    NotFound,
}
