use std::fmt::Display;
use std::time::Duration;

use rushgate_core::{Fence, Priority, TaskId, Ticket};
use tokio_util::sync::CancellationToken;

/// One claimed task in a handler's hands.
#[derive(Clone, Debug)]
pub struct Job<T> {
    /// Its content.
    pub payload: T,
    /// What was claimed, as of which revision.
    pub ticket: Ticket,
    /// How often it has been claimed, this time included.
    pub attempt: u32,
    /// How often it may be.
    pub max_attempts: u32,
    /// Its urgency.
    pub priority: Priority,
    /// Cancelled when the lease is lost or somebody cancels the task. A lost task's handler is dropped at the same
    /// time; a cancelled one's has the worker's grace to come to an end.
    pub cancel: CancellationToken,
}

impl<T> Job<T> {
    /// The task's id.
    pub fn id(&self) -> &TaskId {
        &self.ticket.id
    }

    /// The claim's number, which only grows in this queue: fences the task's writes as a lock's fence does.
    pub fn fence(&self) -> Fence {
        self.ticket.claim.unwrap_or_default()
    }
}

/// What became of a task, as its handler sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done: it leaves the queue.
    Done,
    /// Failed: it waits for its next attempt, or becomes a dead letter when those are used up.
    Retry {
        /// Not before so long; by the worker's policy if `None`.
        after: Option<Duration>,
        /// Why, for people who look.
        error: String,
    },
    /// Failed for good: it becomes a dead letter now.
    GiveUp {
        /// Why, for people who look.
        error: String,
    },
    /// Not done, and nobody's fault: it waits again at once, and the attempt is not counted.
    GiveBack,
}

impl Outcome {
    /// Failed; the worker's policy says when to try again.
    pub fn retry(error: impl Display) -> Self {
        Self::Retry { after: None, error: format!("{error:#}") }
    }

    /// Failed; try again after that time.
    pub fn retry_after(after: Duration, error: impl Display) -> Self {
        Self::Retry { after: Some(after), error: format!("{error:#}") }
    }

    /// Failed for good.
    pub fn give_up(error: impl Display) -> Self {
        Self::GiveUp { error: format!("{error:#}") }
    }
}

/// What a handler may return: `()`, [`Outcome`], or a `Result` of these whose error means "try again".
pub trait IntoOutcome {
    /// What became of the task.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Done
    }
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl<O: IntoOutcome, E: Display> IntoOutcome for Result<O, E> {
    fn into_outcome(self) -> Outcome {
        self.map_or_else(Outcome::retry, IntoOutcome::into_outcome)
    }
}
