//! Tasks that wait for others, and batches.

use serde::{Deserialize, Serialize};

use crate::{DeadLetter, PastRun, Payload, TaskId, Timestamp};

/// What becomes of a task when one that it [waits for](crate::NewTask::after) is dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfDead {
    /// It goes on waiting: the dead letter can be put back, and be done then. One that can never be done any more, because
    /// it was cancelled, dropped, dequeued or buried, makes a dead letter of the task.
    #[default]
    Wait,
    /// It becomes a dead letter, and its error names the one that failed it. So it does if that one can never be done.
    Fail,
    /// It counts as over, as one that can never be done does.
    Run,
}

/// How a task ended that another waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskEnd {
    /// It was carried out.
    Done,
    /// There was nothing to do.
    Discarded,
    /// Somebody cancelled it.
    Cancelled,
    /// It gave its place to a newcomer, because the queue was at its bound.
    Dropped,
    /// It was taken for good by [`pop`](crate::QueueStore::pop): whether it was carried out nobody knows.
    Popped,
    /// It was dequeued, or it was a dead letter and was buried.
    Deleted,
    /// It is a dead letter.
    Dead,
}

impl TaskEnd {
    /// Whether who waited for it goes on: it was done, discarded or popped.
    pub fn is_well(self) -> bool {
        matches!(self, Self::Done | Self::Discarded | Self::Popped)
    }
}

/// A task that is over, as one that waited for it sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// Its id.
    pub id: TaskId,
    /// How it ended.
    pub end: TaskEnd,
    /// When.
    pub at: Timestamp,
    /// What came of it, if whoever completed it has said so.
    pub result: Option<Payload>,
    /// Why it failed, if it is dead; cut to 200 bytes.
    pub error: Option<String>,
}

/// What a live task waits for, and how far that has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Whether it is held open: others may become part of it, and it does not run before it is closed.
    pub open: bool,
    /// What becomes of it when one that it waits for is dead; as it is by default once it waits for nothing.
    pub if_dead: IfDead,
    /// So many it waits for still.
    pub left: u64,
    /// So many are over.
    pub over: u64,
    /// So many of the first 1,000 that are left, by id, are dead letters, and not live.
    pub dead: u64,
    /// Some of those 1,000, at most [`SHOWN`](Self::SHOWN): those that are dead come first, and each by id.
    pub first: Vec<WaitsFor>,
}

impl Waits {
    /// How many are shown of those that it waits for.
    pub const SHOWN: usize = 5;
    /// How many of those that it waits for are looked at for dead ones.
    pub const LOOKED_AT: usize = 1_000;
}

/// One that a task waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitsFor {
    /// Its id.
    pub id: TaskId,
    /// Why it failed, if it is dead and not live.
    pub error: Option<String>,
}

/// Why a task was refused that was to wait for others, or to be part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unmet {
    /// The queue knows no task of the id that it was to wait for: none that is live, dead, or kept as done.
    Unknown,
    /// The task that it was to be part of is not held open: it was closed, runs, is over, or never was.
    NotOpen,
    /// Its own id is in the way: of a live record that waits for others itself and so can be part of nothing, or that is
    /// being worked on and to be cancelled, behind which nothing can wait for others; or because others wait for that
    /// id, and behind one of them neither would ever run.
    Taken,
}

/// The answer to [`QueueStore::close_batch`](crate::QueueStore::close_batch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Closed {
    /// It takes no more parts, and runs as soon as all that it waits for are over.
    Closed {
        /// So many it waits for still.
        left: u64,
    },
    /// It was not held open. Nothing was changed.
    NotOpen,
    /// There is no such live task.
    NotFound,
}

impl DeadLetter {
    /// Why a task is dead that waited for one that ended so; `error` is that of a dead one.
    pub fn unmet(id: &TaskId, end: TaskEnd, error: &str) -> String {
        match end {
            TaskEnd::Dead => format!("waited for {id}, which is dead: {}", PastRun::cut(error)),
            TaskEnd::Cancelled => format!("waited for {id}, which was cancelled"),
            TaskEnd::Dropped => format!("waited for {id}, which was dropped"),
            _ => format!("waited for {id}, which was deleted"),
        }
    }
}
