//! What a handler may ask for beside the content.

use rushgate_core::{Fence, Priority, QueueName, TaskId, TaskKey, Ticket, TraceParent};
use tokio_util::sync::CancellationToken;

use super::{Job, Progress, Results};

/// What a handler may have as its second and further arguments, made from the task and the worker's state `S`.
///
/// These are there: [`State`], [`Attempt`], [`TaskId`], [`Ticket`], [`Fence`], [`Priority`], [`QueueName`],
/// [`CancellationToken`] (cancelled when the lease is lost or the task is cancelled), [`Progress`], [`Results`] of the
/// tasks that it waited for, `Option<`[`TaskKey`]`>` and
/// `Option<`[`TraceParent`]`>`.
/// Programs may add their own:
///
/// ```
/// use rushgate::{FromJob, Job};
///
/// /// The part of the id before the colon.
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
    /// Takes it out.
    fn from_job(job: &Job, state: &S) -> Self;
}

/// A clone of what the worker was given by [`Worker::state`](super::Worker::state).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State<S>(pub S);

/// How often a task has been claimed, this time included, and how often it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// 1 for the first.
    pub number: u32,
    /// 1 to 1,000.
    pub max: u32,
}

impl Attempt {
    /// Whether a failure makes it a dead letter.
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
