//! Workers: claim tasks, run a handler for each, and see that every task ends exactly one way.

mod backoff;
mod crew;
mod flusher;
mod heartbeat;
mod job;
mod report;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{Claim, Lease, Payload, Result, check_range};
use tokio_util::sync::CancellationToken;

pub use backoff::Backoff;
pub use job::{IntoOutcome, Job, Outcome};
pub use report::WorkerReport;

use crate::Queue;
use crew::Crew;

/// A worker of one queue: it claims due tasks and runs an async handler for each.
///
/// At least once: a task whose worker dies is claimed again when its lease runs out, so a handler should be
/// idempotent, or fence its writes with [`Job::fence`]. While the handler runs its lease is extended at a third of
/// it. Panics and timeouts are failed attempts; failed attempts are repeated by the [`Backoff`] until they are used
/// up, and then the task is a dead letter. While the store cannot be reached, or has no room, the worker waits, and goes
/// on after.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use rushgate::{CancellationToken, Job, Worker};
///
/// let mail = gate.queue_of::<String>("mail")?;
/// mail.enqueue("to:ann", "Welcome".to_owned()).send().await?;
///
/// let shutdown = CancellationToken::new();
/// let stop = shutdown.clone();
/// let handler = move |job: Job<String>| {
///     let stop = stop.clone();
///     async move {
///         assert_eq!(job.payload, "Welcome");
///         stop.cancel();
///         Ok::<_, std::io::Error>(())
///     }
/// };
/// let report = Worker::new(mail).concurrency(4).run(handler, shutdown).await?;
/// assert_eq!((report.claimed, report.done), (1, 1));
/// # gate.close().await
/// # }
/// ```
#[must_use = "a worker does nothing until it runs"]
pub struct Worker<T = Payload> {
    queue: Queue<T>,
    plan: Plan,
}

/// How a worker works.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    concurrency: u32,
    prefetch: u32,
    lease: Duration,
    retry_policy: Backoff,
    timeout: Option<Duration>,
    grace: Duration,
    label: Option<String>,
    schedules: bool,
}

impl<T: Send + 'static> Worker<T> {
    /// A worker that runs 16 tasks at a time, each under a lease of 30 s.
    pub fn new(queue: Queue<T>) -> Self {
        let plan = Plan {
            concurrency: 16,
            prefetch: 0,
            lease: Duration::from_secs(30),
            retry_policy: Backoff::default(),
            timeout: None,
            grace: Duration::from_secs(10),
            label: None,
            schedules: true,
        };
        Self { queue, plan }
    }

    /// How many handlers run at a time: 1 to 10,000.
    pub fn concurrency(mut self, n: u32) -> Self {
        self.plan.concurrency = n;
        self
    }

    /// How many more tasks to claim ahead of a free handler: 0 to the concurrency. It hides the store's round trip
    /// from short tasks; long ones had better stay in the queue, where another worker finds them. None unless said
    /// otherwise.
    pub fn prefetch(mut self, n: u32) -> Self {
        self.plan.prefetch = n;
        self
    }

    /// For how long a claim and each heartbeat hold: 10 ms to 24 h. It is what a worker that dies costs its tasks.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.plan.lease = lease;
        self
    }

    /// When failed tasks are tried again.
    pub fn retry_policy(mut self, policy: Backoff) -> Self {
        self.plan.retry_policy = policy;
        self
    }

    /// How long a handler may take before it is dropped and its attempt has failed. Unlimited unless said otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.plan.timeout = Some(timeout);
        self
    }

    /// How long handlers may go on after the shutdown, or after a cancellation of their task, before they are
    /// dropped: 10 s unless said otherwise.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.plan.grace = grace;
        self
    }

    /// The worker's name, for people who look: `host:pid` unless said otherwise; at most 200 bytes.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.plan.label = Some(label.into());
        self
    }

    /// Whether it fires the queue's [schedules](crate::Queue::schedule) as well; it does unless said otherwise.
    pub fn schedules(mut self, fires: bool) -> Self {
        self.plan.schedules = fires;
        self
    }

    /// Works until `shutdown` is cancelled, and then ends in order: claims nothing more, gives back what was not
    /// started, lets the rest finish within the grace, gives back what did not, and sends every answer.
    ///
    /// # Cancel safety
    /// Dropping the future stops the handlers where they are; their tasks come again when the leases run out.
    /// Cancel `shutdown` instead.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for what is outside its range, and any lasting error of a claim, after
    /// the same orderly end. An outage is no error, nor is a full store: the worker waits for its end.
    pub async fn run<H, Fut, O>(self, handler: H, shutdown: CancellationToken) -> Result<WorkerReport>
    where
        H: Fn(Job<T>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = O> + Send + 'static,
        O: IntoOutcome + 'static,
    {
        let handler = Arc::new(handler);
        let one_by_one = move |jobs: Vec<Job<T>>| {
            let handler = Arc::clone(&handler);
            async move {
                let mut outcomes = Vec::with_capacity(jobs.len());
                for job in jobs {
                    outcomes.push(handler(job).await.into_outcome());
                }
                outcomes
            }
        };
        self.run_batches(1, one_by_one, shutdown).await
    }

    /// As [`run`](Self::run), with a handler that takes up to `max` (1 to 1,000) tasks at once and answers for each,
    /// in their order. A batch is whatever is due when a handler is free; nothing waits for a batch to fill.
    ///
    /// [`concurrency`](Self::concurrency) then counts batches. A panic or a timeout fails the whole batch, as does an
    /// answer that is missing for its task. When some tasks of a batch are lost or cancelled their tokens say so,
    /// and the batch goes on for the others.
    pub async fn run_batches<H, Fut, O>(
        self,
        max: u32,
        handler: H,
        shutdown: CancellationToken,
    ) -> Result<WorkerReport>
    where
        H: Fn(Vec<Job<T>>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<O>> + Send + 'static,
        O: IntoOutcome + 'static,
    {
        let lease = self.plan.check()?;
        check_range("the size of the batch", max.into(), 1, Claim::BATCH_MAX as u64)?;
        Crew::gather(self.queue, self.plan, lease, max, handler).work(shutdown).await
    }
}

impl Plan {
    fn check(&self) -> Result<Lease> {
        check_range("the concurrency", self.concurrency.into(), 1, 10_000)?;
        check_range("the prefetch", self.prefetch.into(), 0, self.concurrency.into())?;
        Lease::new(self.lease)
    }
}
