use serde::{Deserialize, Serialize};

use crate::check::check_label;
use crate::{Error, Field, Lease, Result, Timestamp, WorkerId};

/// A worker tells a queue that it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announce {
    /// ID of the worker, new at every start.
    pub id: WorkerId,
    /// Name under which it claims: at most 200 bytes, without control characters.
    pub name: String,
    /// Program and version, such as `rushgate 0.1.0`: at most 200 bytes, without control characters.
    pub version: String,
    /// Number of tasks that it runs at a time: 1 to 1,000,000.
    pub concurrency: u32,
    /// Number of tasks of this queue that it runs now: at most 1,000,000.
    pub running: u32,
    /// How long it is listed without another announcement. `None`: it has ended and is listed no more.
    pub lease: Option<Lease>,
}

impl Announce {
    /// Maximum number of workers that a queue lists. Others work too, but are not listed.
    pub const LISTED_MAX: u64 = 1_000;
    /// Maximum number of tasks in an announcement.
    pub const TASKS_MAX: u32 = 1_000_000;

    /// A worker that has ended.
    pub fn end(id: WorkerId) -> Self {
        Self { id, name: String::new(), version: String::new(), concurrency: 1, running: 0, lease: None }
    }

    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        check_label(Field::Worker, &self.name)?;
        check_label("the version", &self.version)?;
        crate::check_range(Field::Concurrency, self.concurrency.into(), 1, Self::TASKS_MAX.into())?;
        if self.running > Self::TASKS_MAX {
            let most = Self::TASKS_MAX;
            return Err(Error::invalid("the number of running tasks", format_args!("exceeds {most}")));
        }
        Ok(())
    }
}

/// What an operator asked of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkerMode {
    /// Claim and run tasks.
    #[default]
    Work,
    /// Claim nothing from this queue. Running tasks continue.
    Quiet,
    /// Claim nothing, let running tasks end, and stop. A supervisor may start a new worker.
    Stop,
}

/// A worker that has announced itself to a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerInfo {
    /// ID of the worker.
    pub id: WorkerId,
    /// Name under which it claims.
    pub name: String,
    /// Program and version.
    pub version: String,
    /// Number of tasks that it runs at a time.
    pub concurrency: u32,
    /// Number of tasks of this queue that it ran at its latest announcement.
    pub running: u32,
    /// Its first announcement.
    #[serde(rename = "since_us")]
    pub since: Timestamp,
    /// Its latest announcement.
    #[serde(rename = "seen_us")]
    pub seen: Timestamp,
    /// When it is listed no more, unless it announces itself again.
    #[serde(rename = "lease_until_us")]
    pub lease_until: Timestamp,
    /// What an operator asked of it.
    pub mode: WorkerMode,
}
