use std::error::Error as StdError;
use std::fmt::Display;
use std::time::Duration;

use rushgate_core::{
    ContentType, Fence, Payload, Priority, QueueName, TaskId, TaskKey, Ticket, Timestamp, TraceParent,
    with_causes,
};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{Progress, Results};

/// One claimed task, as passed to its handler. Layers see `Job`, which is `Job<Payload>`: its content is
/// bytes.
#[derive(Clone, Debug)]
pub struct Job<T = Payload> {
    /// Content.
    pub payload: T,
    /// Media type of the content, with the task's kind.
    pub content_type: ContentType,
    /// Queue that the task was claimed from.
    pub queue: QueueName,
    /// Ticket of the claim: task ID and revision.
    pub ticket: Ticket,
    /// Number of times that the task was claimed, this claim included.
    pub attempt: u32,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Priority.
    pub priority: Priority,
    /// Key of the task, such as a tenant, if it has one.
    pub key: Option<TaskKey>,
    /// Deadline of the task on the store's clock, if it has one. The handler is stopped then.
    pub deadline: Option<Timestamp>,
    /// Canceled when the lease is lost or the task is canceled. If the lease is lost, the handler is dropped
    /// at once. If the task is canceled, the handler has the worker's [grace](crate::Worker::grace) to end.
    pub cancel: CancellationToken,
    /// Reports progress.
    pub progress: Progress,
    /// Results of the tasks that this task waited for.
    pub results: Results,
}

impl<T> Job<T> {
    /// ID of the task.
    pub fn id(&self) -> &TaskId {
        &self.ticket.id
    }

    /// Fencing token of the claim. Only grows within a queue; use it to fence the task's writes like a lock's
    /// fence.
    pub fn fence(&self) -> Fence {
        self.ticket.claim.unwrap_or_default()
    }

    /// Kind of the task, if it has one.
    pub fn kind(&self) -> Option<&str> {
        self.content_type.kind()
    }

    /// Parent span in a distributed trace, if the task carries one.
    pub fn traceparent(&self) -> Option<TraceParent> {
        self.content_type.traceparent()
    }

    /// The same job with other content.
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
/// use rushgate::worker::Outcome;
///
/// async fn send(to: String) -> Result<(), Outcome> {
///     let port: u16 = "25".parse()?; // a parse error is retried
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
#[non_exhaustive]
pub enum Outcome {
    /// The task is done and leaves the queue.
    Done,
    /// The task is done, with a result of at most 64 KiB. The result is kept if the queue has a
    /// [`Retention`](crate::queue::Retention). A larger result makes the task a dead letter, so that no client waits
    /// for it in vain. [`Output`] converts a handler's return value.
    DoneWith(Payload),
    /// The task leaves the queue without work, because there is nothing to do. Counted separately.
    Discard {
        /// Reason, for the log.
        reason: String,
    },
    /// The attempt failed. The task waits for its next attempt, or becomes a dead letter after the last.
    Retry {
        /// Delay before the next attempt, at most 400 days. `None`: the worker's retry policy decides.
        after: Option<Duration>,
        /// Error text, shown to operators.
        error: String,
    },
    /// The task failed for good and becomes a dead letter now.
    GiveUp {
        /// Error text, shown to operators.
        error: String,
    },
    /// The task returns to the queue at once. The attempt is not counted.
    Release,
    /// The task returns to the queue and is due later. The attempt is not counted.
    Snooze {
        /// Delay before the task is due again, capped at 400 days.
        after: Duration,
    },
}

impl Outcome {
    /// Discards the task: there is nothing to do.
    pub fn discard(reason: impl Display) -> Self {
        Self::Discard { reason: format!("{reason:#}") }
    }

    /// Fails the attempt. The worker's retry policy decides when to retry.
    pub fn retry(error: impl Display) -> Self {
        Self::Retry { after: None, error: format!("{error:#}") }
    }

    /// Fails the attempt. The task is retried after `after`, at most 400 days.
    pub fn retry_after(after: Duration, error: impl Display) -> Self {
        Self::Retry { after: Some(after), error: format!("{error:#}") }
    }

    /// Postpones the task by `after` without counting an attempt.
    pub fn snooze(after: Duration) -> Self {
        Self::Snooze { after }
    }

    /// Fails the task for good.
    pub fn give_up(error: impl Display) -> Self {
        Self::GiveUp { error: format!("{error:#}") }
    }
}

impl<E: StdError> From<E> for Outcome {
    /// A failed attempt. Its text includes the error's chain of causes.
    fn from(error: E) -> Self {
        Self::Retry { after: None, error: with_causes(&error) }
    }
}

/// Wraps a handler's return value, to store it as the task's result in JSON.
///
/// ```
/// use rushgate::worker::{IntoOutcome, Outcome, Output};
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

/// Return type of a handler: `()`, [`Outcome`], [`Output`], or a `Result` of these. An error that is an
/// [`Outcome`] is used as is. Any other error that implements `Display` means "retry".
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

/// Error type of a handler.
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
