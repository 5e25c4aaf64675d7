//! Extractors: further arguments of a handler, beside the content.

use rushgate_core::{Fence, Priority, QueueName, TaskId, TaskKey, Ticket, TraceParent};
use tokio_util::sync::CancellationToken;

use super::{Job, Progress, Results};

/// Second and further arguments of a handler, made from the task and the worker's state `S`.
///
/// Built in: [`State`], [`Attempt`], [`TaskId`], [`Ticket`], [`Fence`], [`Priority`], [`QueueName`],
/// [`CancellationToken`] (canceled when the lease is lost or the task is canceled), [`Progress`], [`Results`]
/// of the tasks that it waited for, `Option<`[`TaskKey`]`>` and `Option<`[`TraceParent`]`>`. Programs can
/// implement the trait for their own types:
///
/// ```
/// use rushgate::Job;
/// use rushgate::worker::FromJob;
///
/// /// The part of the ID before the colon.
/// struct Tenant(String);
///
/// impl<S> FromJob<S> for Tenant {
///     fn from_job(job: &Job, _: &S) -> Self {
///         Self(job.id().as_str().split(':').next().unwrap_or_default().to_owned())
///     }
/// }
///
/// async fn bill(amount: u32, Tenant(tenant): Tenant) {
///     println!("{tenant} pays {amount}");
/// }
/// # let _ = bill;
/// ```
pub trait FromJob<S> {
    /// Extracts the value.
    fn from_job(job: &Job, state: &S) -> Self;
}

/// A clone of the state set by [`Worker::state`](super::Worker::state).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State<S>(pub S);

/// Number of this attempt, and the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Number of times that the task was claimed, this claim included: 1 for the first.
    pub number: u32,
    /// Maximum number of attempts: 1 to 1,000.
    pub max: u32,
}

impl Attempt {
    /// True if a failure makes the task a dead letter.
    pub fn is_last(self) -> bool {
        self.number >= self.max
    }
}

impl<S: Clone> FromJob<S> for State<S> {
    fn from_job(_: &Job, state: &S) -> Self {
        Self(state.clone())
    }
}

macro_rules! from_job {
    ($($what:ty = $of:expr;)*) => {$(
        impl<S> FromJob<S> for $what {
            fn from_job(job: &Job, _: &S) -> Self {
                let of: fn(&Job) -> Self = $of;
                of(job)
            }
        }
    )*};
}

from_job! {
    Attempt = |job| Self { number: job.attempt, max: job.max_attempts };
    TaskId = |job| job.id().clone();
    Ticket = |job| job.ticket.clone();
    Fence = Job::fence;
    Priority = |job| job.priority;
    QueueName = |job| job.queue.clone();
    CancellationToken = |job| job.cancel.clone();
    Progress = |job| job.progress.clone();
    Results = |job| job.results.clone();
    Option<TaskKey> = |job| job.key.clone();
    Option<TraceParent> = Job::traceparent;
}
