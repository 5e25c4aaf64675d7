//! Exit statuses: what scripts may rely on.

use std::process::ExitCode;

/// How a command ended. `lock run` alone ends with another program's status instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Refused: the answer is no. A stale ticket, a lock not obtained in time, sold out, a failed audit.
    Refused = 1,
    /// Wrong usage: an unknown flag, a bad name, a number outside its range.
    Usage = 2,
    /// Not allowed.
    NotAllowed = 3,
    /// The store cannot be used: unreachable, full, misconfigured or damaged.
    Unavailable = 4,
    /// No answer came and the step may have happened.
    MayHaveHappened = 5,
    /// Rushgate itself is wrong: please report it.
    Bug = 70,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
