//! Workers: claim tasks, run a handler for each, and report exactly one outcome per task.

mod backoff;
mod executor;
mod extract;
mod flusher;
mod handler;
mod heartbeat;
mod job;
mod metrics;
mod plan;
mod pool;
mod presence;
mod progress;
mod report;
mod results;
mod route;
mod service;
mod slots;

use std::fmt;
use std::future::Future;
use std::panic::resume_unwind;
use std::time::Duration;

use rushgate_core::{Claim, Error, Result, check_range};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument as _;

pub use backoff::Backoff;
pub use extract::{Attempt, FromJob, State};
pub use handler::{AsIs, AsJson, BlockingHandler, FromContent, Handler};
pub use job::{IntoFailure, IntoOutcome, Job, Outcome, Output};
pub use metrics::{KindSnapshot, Latency, QueueSnapshot, WorkerMetrics, WorkerSnapshot, prometheus};
pub use progress::Progress;
pub use report::WorkerReport;
pub use results::Results;
pub use service::{BoxError, JobService};

use crate::Queue;
use plan::Plan;
use pool::WorkerPool;
use route::{Handling, Register};
use service::Wrap;

/// A worker for one or several queues: it claims due tasks and runs the handler for each task's kind.
///
/// A handler is a plain function; see [`Handler`] for its arguments and return types.
///
/// Delivery is at least once: if a worker dies, its tasks become available again when their leases expire.
/// Make handlers idempotent, or fence their writes with [`Job::fence`]. While a handler runs, the worker
/// extends its lease after each third of it.
///
/// Every 10 s, busy or idle, a worker announces itself to its queues: [`Queue::workers`](crate::Queue::workers) lists it,
/// and [`Queue::set_worker`](crate::Queue::set_worker) quiets or stops it.
///
/// Panics and timeouts are failed attempts. Failed attempts are retried with [`Backoff`]; after the last one
/// the task becomes a dead letter. While the store is unreachable or full, the worker waits, then continues.
///
/// # Kinds
/// A task's kind ([`Enqueue::kind`](crate::queue::Enqueue::kind)) selects its handler. The handler for `*` takes
/// every task without a handler of its own, including tasks without a kind.
///
/// If there is no handler at all, the attempt fails. It is retried by the retry policy, so that a worker of a
/// newer release can take the task. If none does, the task becomes a dead letter, which can be requeued.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use rushgate::{CancellationToken, Worker};
/// use rushgate::worker::{Attempt, Outcome, State};
///
/// async fn welcome(to: String, State(stop): State<CancellationToken>) {
///     assert_eq!(to, "ann");
///     stop.cancel();
/// }
///
/// async fn bill(cents: u32, attempt: Attempt) -> Result<(), Outcome> {
///     if cents == 0 {
///         return Err(Outcome::discard("there is nothing to pay"));
///     }
///     assert_eq!(attempt.number, 1);
///     Ok(())
/// }
///
/// let tasks = client.queue_of::<serde_json::Value>("tasks")?;
/// tasks.enqueue("bill:1", 0.into()).kind("bill").priority(0).send().await?;
/// tasks.enqueue("welcome:ann", "ann".into()).kind("welcome").send().await?;
///
/// let shutdown = CancellationToken::new();
/// let worker = Worker::new(&tasks)
///     .state(shutdown.clone())
///     .register("welcome", welcome)
///     .register("bill", bill)
///     .concurrency(1);
/// let report = worker.run(shutdown).await?;
/// assert_eq!((report.claimed, report.done, report.discarded), (2, 1, 1));
/// # client.close().await
/// # }
/// ```
#[must_use = "a worker does nothing until it runs"]
pub struct Worker<S = ()> {
    queues: Vec<(Queue, u32)>,
    plan: Plan,
    state: S,
    register: Register,
    layers: Vec<Wrap>,
    metrics: WorkerMetrics,
    /// First error in the builder's arguments.
    fault: Option<Error>,
}

impl<S> fmt::Debug for Worker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("queues", &self.queues)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker with a concurrency of 16 and a lease of 30 s.
    pub fn new<T>(queue: &Queue<T>) -> Self {
        Self {
            queues: vec![(queue.bytes(), 1)],
            plan: Plan::default(),
            state: (),
            register: Register::default(),
            layers: Vec::new(),
            metrics: WorkerMetrics::default(),
            fault: None,
        }
    }
}

impl<S: Clone + Send + Sync + 'static> Worker<S> {
    /// State for the handlers registered after this call. They receive a clone as [`State`].
    pub fn state<N: Clone + Send + Sync + 'static>(self, state: N) -> Worker<N> {
        let Self { queues, plan, register, layers, metrics, fault, .. } = self;
        Worker { queues, plan, state, register, layers, metrics, fault }
    }

    /// Registers the handler for `kind`, or with `*` for all kinds without a handler of their own.
    pub fn register<M: 'static, H: Handler<M, S>>(self, kind: impl AsRef<str>, handler: H) -> Self {
        let handled = handler::each(handler, self.state.clone());
        self.handle(kind.as_ref(), Handling::Each(handled))
    }

    /// Registers a blocking function, like [`register`](Self::register). It runs on one of Tokio's blocking
    /// threads (512 at most by default), so that heartbeats and other handlers continue.
    ///
    /// A thread cannot be stopped. If the lease is lost, the timeout passes or the grace ends, the worker
    /// cancels the handler's [`CancellationToken`] and ignores its result. Check
    /// the token between steps, and fence writes. On shutdown the runtime waits for its threads.
    pub fn register_blocking<M: 'static, H: BlockingHandler<M, S>>(
        self,
        kind: impl AsRef<str>,
        handler: H,
    ) -> Self {
        let handled = handler::on_thread(handler, self.state.clone());
        self.handle(kind.as_ref(), Handling::Each(handled))
    }

    /// Registers a function that takes up to `max` (1 to 1,000) tasks at once and returns one outcome per
    /// task, in order. A batch holds the tasks that are due when a slot is free; the worker does not wait for
    /// it to fill.
    ///
    /// - [`concurrency`](Self::concurrency) counts batches.
    /// - A panic or a timeout fails the whole batch. A missing outcome fails its task.
    /// - If tasks of a batch are lost or canceled, their tokens are canceled, and the batch continues for the
    ///   others.
    /// - Layers do not apply to batches.
    /// - If the worker has other handlers too, a batch has at most as many tasks as there are free slots.
    pub fn register_batches<M, T, H, Fut, O>(mut self, kind: impl AsRef<str>, max: u32, handler: H) -> Self
    where
        M: 'static,
        T: FromContent<M> + Send + 'static,
        H: Fn(Vec<Job<T>>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<O>> + Send + 'static,
        O: IntoOutcome + 'static,
    {
        let size = check_range("the batch size", max.into(), 1, Claim::BATCH_MAX as u64);
        self.fault = self.fault.or(size.err());
        self.handle(kind.as_ref(), Handling::Batches(max, route::batches(handler)))
    }

    fn handle(mut self, kind: &str, handling: Handling) -> Self {
        let added = self.register.add(kind, handling);
        self.fault = self.fault.or(added.err());
        self
    }

    /// Wraps every handler in a layer, whether registered before or after. The last layer added is the
    /// outermost. A layer sees each task as a [`Job`] and its [`Outcome`]. If the layer itself fails, the
    /// attempt has failed.
    ///
    /// Panics, timeouts, spans and metrics need no layer: the worker handles them outside of all layers.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use std::task::{Context, Poll};
    /// use rushgate::{CancellationToken, Job, Worker};
    /// use rushgate::worker::Outcome;
    /// use tower_service::Service;
    ///
    /// /// Prints each attempt of a task.
    /// #[derive(Clone)]
    /// struct Once<W>(W);
    ///
    /// impl<W: Service<Job, Response = Outcome>> Service<Job> for Once<W> {
    ///     type Response = Outcome;
    ///     type Error = W::Error;
    ///     type Future = W::Future;
    ///     fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), W::Error>> {
    ///         self.0.poll_ready(context)
    ///     }
    ///     fn call(&mut self, job: Job) -> W::Future {
    ///         println!("{} for the {}. time", job.id(), job.attempt);
    ///         self.0.call(job)
    ///     }
    /// }
    ///
    /// #[derive(Clone)]
    /// struct OnceLayer;
    ///
    /// impl<W> tower_layer::Layer<W> for OnceLayer {
    ///     type Service = Once<W>;
    ///     fn layer(&self, inner: W) -> Once<W> {
    ///         Once(inner)
    ///     }
    /// }
    ///
    /// let mail = client.queue_of::<String>("mail")?;
    /// mail.enqueue("to:ann", "Welcome".to_owned()).send().await?;
    /// let shutdown = CancellationToken::new();
    /// let stop = shutdown.clone();
    /// let worker = Worker::new(&mail).layer(OnceLayer).register("*", move |_: String| {
    ///     stop.cancel();
    ///     async {}
    /// });
    /// assert_eq!(worker.run(shutdown).await?.done, 1);
    /// # client.close().await
    /// # }
    /// ```
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<JobService> + Send + Sync + 'static,
        L::Service: Service<Job, Response = Outcome> + Clone + Send + Sync + 'static,
        <L::Service as Service<Job>>::Error: Into<BoxError>,
        <L::Service as Service<Job>>::Future: Send + 'static,
    {
        self.layers.push(service::wrap(layer));
        self
    }

    /// Weight of the queue passed to [`new`](Worker::new): 1 to 1,000. Default: 1. See
    /// [`queue`](Self::queue).
    pub fn weight(mut self, weight: u32) -> Self {
        if let Some(first) = self.queues.first_mut() {
            first.1 = weight;
        }
        self
    }

    /// Adds a queue with a weight of 1 to 1,000. It may be of another store.
    ///
    /// While several queues have due tasks, they share the slots by weight, and each has at least one in
    /// turn. A queue without due tasks lends its share to the others, and regains it as handlers end. No slot
    /// is reserved, and no handler is stopped for another queue.
    pub fn queue<T>(mut self, queue: &Queue<T>, weight: u32) -> Self {
        self.queues.push((queue.bytes(), weight));
        self
    }

    /// Number of handlers that run at a time: 1 to 10,000. Default: 16.
    pub fn concurrency(mut self, n: u32) -> Self {
        self.plan.concurrency = n;
        self
    }

    /// Number of tasks to claim ahead of a free handler: 0 to the concurrency. Default: 0. Prefetching hides
    /// the store's round trip for short tasks. Do not use it for long ones: other workers could run the
    /// claimed tasks sooner.
    pub fn prefetch(mut self, n: u32) -> Self {
        self.plan.prefetch = n;
        self
    }

    /// Lease of a claim and of each heartbeat: 10 ms to 24 h. Default: 30 s. If the worker dies, its tasks
    /// become available again after this time.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.plan.lease = lease;
        self
    }

    /// Retry policy of failed tasks. Default: [`Backoff::default`].
    pub fn retry_policy(mut self, policy: Backoff) -> Self {
        self.plan.retry_policy = policy;
        self
    }

    /// Maximum run time of a handler. After it, the handler is dropped and its attempt has failed. Default:
    /// unlimited. A task's [deadline](crate::queue::Enqueue::deadline) applies in any case; a batch is dropped at
    /// the first deadline in it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.plan.timeout = Some(timeout);
        self
    }

    /// Retry policy for `kind`, instead of the worker's [`retry_policy`](Self::retry_policy).
    pub fn retry_policy_of(mut self, kind: impl AsRef<str>, policy: Backoff) -> Self {
        self.register.terms(kind.as_ref()).retry_policy = Some(policy);
        self
    }

    /// Timeout for `kind`, instead of the worker's [`timeout`](Self::timeout).
    pub fn timeout_of(mut self, kind: impl AsRef<str>, timeout: Duration) -> Self {
        self.register.terms(kind.as_ref()).timeout = Some(timeout);
        self
    }

    /// Time that handlers have to end after the worker's stop signal or the cancellation of their task. After
    /// it, they are dropped. Default: 10 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.plan.grace = grace;
        self
    }

    /// Name of the worker, as shown to operators: at most 200 bytes. Default: `host:pid`.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.plan.label = Some(label.into());
        self
    }

    /// Program and version, as shown to operators: at most 200 bytes. Default: `rushgate` and its version.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.plan.version = version.into();
        self
    }

    /// Whether the worker also fires its queues' [schedules](crate::Queue::schedule). Default: true.
    pub fn schedules(mut self, fires: bool) -> Self {
        self.plan.schedules = fires;
        self
    }

    /// Counters of this worker, readable while it runs and after.
    pub fn metrics(&self) -> WorkerMetrics {
        self.metrics.clone()
    }

    /// Runs until `shutdown` is canceled or an operator asks it to stop ([`Queue::set_worker`](crate::Queue::set_worker)).
    /// Then it shuts down in order: it stops claiming, returns tasks that were
    /// not started, waits for running handlers within the grace, returns those that did not end, and sends
    /// every answer.
    ///
    /// # Cancel safety
    /// Dropping the future stops all handlers at their current await, except blocking ones. Their tasks
    /// become available again when the leases expire. Cancel the token instead.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a setting outside its range, two handlers for one kind, settings
    /// for a kind without a handler, or no handler at all. Any lasting error of a claim, after the same
    /// shutdown. Outages and a full store are not errors: the worker waits until they end.
    pub async fn run(self, shutdown: CancellationToken) -> Result<WorkerReport> {
        let Self { queues, plan, register, layers, metrics, fault, .. } = self;
        fault.map_or(Ok(()), Err)?;
        let lease = plan.check()?;
        for (_, weight) in &queues {
            check_range("the weight of a queue", (*weight).into(), 1, 1_000)?;
        }
        let pool = WorkerPool::gather(queues, register.finish(&layers)?, plan, lease, metrics)?;
        // As a task of its own: `block_on` polls on the thread of its caller, so each claim would change threads twice.
        let work = AbortOnDropHandle::new(tokio::spawn(pool.work(shutdown).in_current_span()));
        work.await.unwrap_or_else(|ended| resume_unwind(ended.into_panic()))
    }
}
