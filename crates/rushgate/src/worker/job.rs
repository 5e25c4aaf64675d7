use std::error::Error as StdError;
use std::fmt::Display;
use std::time::Duration;

use rushgate_core::{
    ContentType, Fence, Payload, Priority, QueueName, TaskId, TaskKey, Ticket, Timestamp, TraceParent,
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{Progress, Results};

/// One claimed task in a handler's hands. What layers see has its content as bytes: `Job`, which is `Job<Payload>`.
#[derive(Clone, Debug)]
pub struct Job<T = Payload> {
    /// Its content.
    pub payload: T,
    /// What its content was as bytes, with the task's kind.
    pub content_type: ContentType,
    /// The queue that it was claimed from.
    pub queue: QueueName,
    /// What was claimed, as of which revision.
    pub ticket: Ticket,
    /// How often it has been claimed, this time included.
    pub attempt: u32,
    /// How often it may be.
    pub max_attempts: u32,
    /// Its urgency.
    pub priority: Priority,
    /// Key of the task, such as a tenant, if it has one.
    pub key: Option<TaskKey>,
    /// Deadline of the task on the store's clock, if it has one. The handler is stopped then.
    pub deadline: Option<Timestamp>,
    /// Cancelled when the lease is lost or somebody cancels the task. A lost task's handler is dropped at the same
    /// time; a cancelled one's has the worker's grace to come to an end.
    pub cancel: CancellationToken,
    /// Tells how far it has come.
    pub progress: Progress,
    /// Gives what came of the tasks that it waited for.
    pub results: Results,
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

    /// Kind of work, if it has one.
    pub fn kind(&self) -> Option<&str> {
        self.content_type.kind()
    }

    /// Where it comes from in a distributed trace, if it carries that.
    pub fn traceparent(&self) -> Option<TraceParent> {
        self.content_type.traceparent()
    }

    /// The same job with its content made into something else.
    pub(super) fn carrying<U>(self, payload: U) -> Job<U> {
        Job {
            payload,
            content_type: self.content_type,
            queue: self.queue,
            ticket: self.ticket,
            attempt: self.attempt,
            max_attempts: self.max_attempts,
            priority: self.priority,
            key: self.key,
            deadline: self.deadline,
            cancel: self.cancel,
            progress: self.progress,
            results: self.results,
        }
    }
}

/// Outcome of a task, as its handler reports it.
///
/// Every standard error becomes a [`Retry`](Self::Retry) by `From`, so that `?` works in a handler that returns
/// `Result<(), Outcome>`:
///
/// ```
/// use rushgate::Outcome;
///
/// async fn send(to: String) -> Result<(), Outcome> {
///     let port: u16 = "25".parse()?; // what fails is tried again
///     if !to.contains('@') {
///         return Err(Outcome::give_up("there is no such address"));
///     }
///     assert_eq!(port, 25);
///     Ok(())
/// }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// assert!(send("ann@example.org".into()).await.is_ok());
/// assert!(matches!(send("ann".into()).await, Err(Outcome::GiveUp { .. })));
/// # });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done: it leaves the queue.
    Done,
    /// Done, and this came of it: at most 64 KiB, kept if the queue has a [`Retention`](crate::Retention). With more it is
    /// given up, so that nobody waits for a result in vain. [`Output`] makes one of what a handler returns.
    DoneWith(Payload),
    /// The task leaves the queue without work, because there was nothing to do. Counted separately.
    Discard {
        /// Why, for people who look at the log.
        reason: String,
    },
    /// Failed: it waits for its next attempt, or becomes a dead letter when those are used up.
    Retry {
        /// Delay before the next attempt, at most 400 days. `None`: the worker's retry policy decides.
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
    /// Too early, and nobody's fault: it waits again, and the attempt is not counted.
    Snooze {
        /// Delay before the task is due again, capped at 400 days.
        after: Duration,
    },
}

impl Outcome {
    /// Nothing to do any more.
    pub fn discard(reason: impl Display) -> Self {
        Self::Discard { reason: format!("{reason:#}") }
    }

    /// Failed; the worker's policy says when to try again.
    pub fn retry(error: impl Display) -> Self {
        Self::Retry { after: None, error: format!("{error:#}") }
    }

    /// Failed; try again after that time, at most 400 days.
    pub fn retry_after(after: Duration, error: impl Display) -> Self {
        Self::Retry { after: Some(after), error: format!("{error:#}") }
    }

    /// Too early: come again after that time, without an attempt counted.
    pub fn snooze(after: Duration) -> Self {
        Self::Snooze { after }
    }

    /// Failed for good.
    pub fn give_up(error: impl Display) -> Self {
        Self::GiveUp { error: format!("{error:#}") }
    }
}

impl<E: StdError> From<E> for Outcome {
    /// A failed attempt, told with everything that it was caused by.
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        Self::Retry { after: None, error: text }
    }
}

/// What a handler returns for others to have: it becomes the task's result, as JSON.
///
/// ```
/// use rushgate::{IntoOutcome, Outcome, Output};
///
/// async fn add(numbers: Vec<u64>) -> Output<u64> {
///     Output(numbers.iter().sum())
/// }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let Outcome::DoneWith(result) = add(vec![1, 2, 3]).await.into_outcome() else { panic!() };
/// assert_eq!(result.bytes(), b"6");
/// # });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output<T>(pub T);

impl<T: Serialize> IntoOutcome for Output<T> {
    fn into_outcome(self) -> Outcome {
        let content = serde_json::to_vec(&self.0).map_err(|error| error.to_string());
        let payload = content
            .and_then(|bytes| Payload::new(ContentType::json(), bytes).map_err(|error| error.to_string()));
        payload.map_or_else(Outcome::give_up, Outcome::DoneWith)
    }
}

/// What a handler may return: `()`, [`Outcome`], [`Output`], or a `Result` of these. An error means "try again" if it
/// can be shown, and what it says if it is an [`Outcome`].
pub trait IntoOutcome {
    /// Outcome of the task.
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

impl<O: IntoOutcome, E: IntoFailure> IntoOutcome for Result<O, E> {
    fn into_outcome(self) -> Outcome {
        self.map_or_else(E::into_failure, IntoOutcome::into_outcome)
    }
}

/// What the error of a handler may be.
pub trait IntoFailure {
    /// Outcome of the task.
    fn into_failure(self) -> Outcome;
}

impl<E: Display> IntoFailure for E {
    fn into_failure(self) -> Outcome {
        Outcome::retry(self)
    }
}

impl IntoFailure for Outcome {
    fn into_failure(self) -> Outcome {
        self
    }
}
