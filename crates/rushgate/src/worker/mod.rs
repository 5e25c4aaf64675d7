//! Workers: claim tasks, run a handler for each, and see that every task ends exactly one way.

mod backoff;
mod crew;
mod extract;
mod flusher;
mod handler;
mod heartbeat;
mod job;
mod metrics;
mod progress;
mod report;
mod results;
mod route;
mod service;
mod shop;
mod slots;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use rushgate_core::{Claim, Error, Lease, Result, check_range};
use tower_layer::Layer;
use tower_service::Service;

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
use crew::Crew;
use handler::Handled;
use route::{Hand, Register};
use service::Wrap;

/// A worker of one queue or several: it claims due tasks and runs the handler of each task's kind.
///
/// A handler is a plain function; see [`Handler`] for what it may take and return. At least once: a task whose worker
/// dies is claimed again when its lease runs out, so a handler should be idempotent, or fence its writes with
/// [`Job::fence`]. While the handler runs its lease is extended at a third of it. Panics and timeouts are failed
/// attempts; failed attempts are repeated by the [`Backoff`] until they are used up, and then the task is a dead letter.
/// While the store is unreachable or full, the worker waits, and then continues.
///
/// # Kinds
/// A task's kind ([`Enqueue::kind`](crate::Enqueue::kind)) says which handler it has; the handler of `*` takes whatever
/// has none of its own, tasks without a kind included. A task for which there is no handler at all has failed: it is
/// tried again by the policy, so that a worker of a newer release can have it, and is a dead letter, which can be put
/// back, if none comes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use rushgate::{Attempt, CancellationToken, Outcome, State, Worker};
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
/// let tasks = gate.queue_of::<serde_json::Value>("tasks")?;
/// tasks.enqueue("bill:1", 0.into()).kind("bill").priority(0).send().await?;
/// tasks.enqueue("welcome:ann", "ann".into()).kind("welcome").send().await?;
///
/// let shutdown = CancellationToken::new();
/// let worker = Worker::new(&tasks)
///     .state(shutdown.clone())
///     .register("welcome", welcome)
///     .register("bill", bill)
///     .concurrency(1);
/// let report = worker.run_until(shutdown.cancelled_owned()).await?;
/// assert_eq!((report.claimed, report.done, report.discarded), (2, 1, 1));
/// # gate.close().await
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
    /// What was wrong with how it was put together.
    fault: Option<Error>,
}

/// How a worker works.
#[derive(Clone, Debug)]
struct Plan {
    concurrency: u32,
    prefetch: u32,
    lease: Duration,
    retry_policy: Backoff,
    timeout: Option<Duration>,
    grace: Duration,
    label: Option<String>,
    schedules: bool,
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
    /// A worker that runs 16 tasks at a time, each under a lease of 30 s.
    pub fn new<T>(queue: &Queue<T>) -> Self {
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
        Self {
            queues: vec![(queue.bytes(), 1)],
            plan,
            state: (),
            register: Register::default(),
            layers: Vec::new(),
            metrics: WorkerMetrics::default(),
            fault: None,
        }
    }
}

impl<S: Clone + Send + Sync + 'static> Worker<S> {
    /// What handlers that are registered from here on get as [`State`]: a clone for each call.
    pub fn state<N: Clone + Send + Sync + 'static>(self, state: N) -> Worker<N> {
        let Self { queues, plan, register, layers, metrics, fault, .. } = self;
        Worker { queues, plan, state, register, layers, metrics, fault }
    }

    /// Has that function carry out the tasks of that kind, or with `*` all that have no handler of their own.
    pub fn register<M: 'static, H: Handler<M, S>>(self, kind: impl AsRef<str>, handler: H) -> Self {
        let handled = Handled::new(handler, self.state.clone());
        self.hand(kind.as_ref(), Hand::Each(JobService::new(handled)))
    }

    /// As [`register`](Self::register), with a function that blocks: it runs on a thread of its own (one of Tokio's for
    /// blocking work, 512 at most unless the runtime was built otherwise), so that heartbeats and other handlers go on.
    ///
    /// A thread cannot be stopped. When the lease is lost, the attempt takes too long or the grace is over, its
    /// [`CancellationToken`](crate::CancellationToken) is cancelled and what it returns is ignored: look at that between
    /// steps, and fence what is written. A runtime that ends waits for its threads.
    pub fn register_blocking<M: 'static, H: BlockingHandler<M, S>>(
        self,
        kind: impl AsRef<str>,
        handler: H,
    ) -> Self {
        let handled = Handled::new(handler, self.state.clone()).on_thread();
        self.hand(kind.as_ref(), Hand::Each(JobService::new(handled)))
    }

    /// As [`register`](Self::register), with a function that takes up to `max` (1 to 1,000) tasks at once and answers
    /// for each, in their order. A batch is whatever is due when there is a free slot; nothing waits for a batch to fill.
    ///
    /// [`concurrency`](Self::concurrency) counts batches then. A panic or a timeout fails the whole batch, and an answer
    /// that is missing its task. When some tasks of a batch are lost or cancelled their tokens say so, and the batch goes
    /// on for the others. Layers are not around batches. Beside other handlers a batch has at most as many tasks as
    /// there are free slots.
    pub fn register_batches<M, T, H, Fut, O>(mut self, kind: impl AsRef<str>, max: u32, handler: H) -> Self
    where
        M: 'static,
        T: FromContent<M> + Send + 'static,
        H: Fn(Vec<Job<T>>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<O>> + Send + 'static,
        O: IntoOutcome + 'static,
    {
        let size = check_range("the size of the batch", max.into(), 1, Claim::BATCH_MAX as u64);
        self.fault = self.fault.or(size.err());
        self.hand(kind.as_ref(), Hand::Batches(max, route::batches(handler)))
    }

    fn hand(mut self, kind: &str, hand: Hand) -> Self {
        let added = self.register.add(kind, hand);
        self.fault = self.fault.or(added.err());
        self
    }

    /// Puts a layer around every handler, before or after which it is registered: the last is the outermost. It sees
    /// each task as a [`Job`] and its [`Outcome`]; if it fails itself the attempt has failed.
    ///
    /// Panics, timeouts, spans and counts need no layer: the worker sees to them, outside of all layers.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use std::task::{Context, Poll};
    /// use rushgate::{CancellationToken, Job, Outcome, Worker};
    /// use tower_service::Service;
    ///
    /// /// Discards tasks that were tried before.
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
    /// let mail = gate.queue_of::<String>("mail")?;
    /// mail.enqueue("to:ann", "Welcome".to_owned()).send().await?;
    /// let shutdown = CancellationToken::new();
    /// let stop = shutdown.clone();
    /// let worker = Worker::new(&mail).layer(OnceLayer).register("*", move |_: String| {
    ///     stop.cancel();
    ///     async {}
    /// });
    /// assert_eq!(worker.run_until(shutdown.cancelled_owned()).await?.done, 1);
    /// # gate.close().await
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

    /// The weight of the queue that it was made for: 1 to 1,000. Default: 1. See [`queue`](Self::queue).
    pub fn weight(mut self, weight: u32) -> Self {
        if let Some(first) = self.queues.first_mut() {
            first.1 = weight;
        }
        self
    }

    /// Works a further queue off, with that weight (1 to 1,000). It may be of another store.
    ///
    /// While several queues have due tasks, each has its part of the handlers by weight, and at least one of them in
    /// turn; a queue that has none leaves its part to the others, and has it again as handlers end. Nothing is reserved,
    /// and nothing is stopped for another queue's sake.
    pub fn queue<T>(mut self, queue: &Queue<T>, weight: u32) -> Self {
        self.queues.push((queue.bytes(), weight));
        self
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

    /// How long a handler may take before it is dropped and its attempt has failed. Unlimited unless said otherwise, but
    /// for the [deadline](crate::Enqueue::deadline) of its task; a batch is dropped at the first deadline in it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.plan.timeout = Some(timeout);
        self
    }

    /// When failed tasks of that kind are tried again, in place of the worker's [`retry_policy`](Self::retry_policy).
    pub fn retry_policy_of(mut self, kind: impl AsRef<str>, policy: Backoff) -> Self {
        self.register.terms(kind.as_ref()).retry_policy = Some(policy);
        self
    }

    /// How long the handler of that kind may take, in place of the worker's [`timeout`](Self::timeout).
    pub fn timeout_of(mut self, kind: impl AsRef<str>, timeout: Duration) -> Self {
        self.register.terms(kind.as_ref()).timeout = Some(timeout);
        self
    }

    /// How long handlers may go on after the signal to stop, or after a cancellation of their task, before they are
    /// dropped. Default: 10 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.plan.grace = grace;
        self
    }

    /// Name of the worker, as shown to operators: at most 200 bytes. Default: `host:pid`.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.plan.label = Some(label.into());
        self
    }

    /// Whether it fires its queues' [schedules](crate::Queue::schedule) too. Default: true.
    pub fn schedules(mut self, fires: bool) -> Self {
        self.plan.schedules = fires;
        self
    }

    /// Where to read what it does while it runs, and after.
    pub fn metrics(&self) -> WorkerMetrics {
        self.metrics.clone()
    }

    /// Works until `signal` completes, and then ends in order: claims nothing more, gives back what was not started,
    /// lets the rest finish within the grace, gives back what did not, and sends every answer.
    ///
    /// The signal is any future: `tokio::signal::ctrl_c()`, or a token's
    /// [`cancelled_owned`](crate::CancellationToken::cancelled_owned).
    ///
    /// # Cancel safety
    /// Dropping the future stops the handlers where they are, but for blocking ones; their tasks come again when the
    /// leases run out. Let the signal complete instead.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for what is outside its range, two handlers for a kind, terms for one without, and
    /// no handler at all; and any lasting error of a claim, after the same orderly end. An outage is no error, nor is a
    /// full store: the worker waits for its end.
    pub async fn run_until(self, signal: impl Future) -> Result<WorkerReport> {
        let Self { queues, plan, register, layers, metrics, fault, .. } = self;
        fault.map_or(Ok(()), Err)?;
        let lease = plan.check()?;
        for (_, weight) in &queues {
            check_range("the weight of a queue", (*weight).into(), 1, 1_000)?;
        }
        Crew::gather(queues, register.finish(&layers)?, plan, lease, metrics).work(signal).await
    }
}

impl Plan {
    fn check(&self) -> Result<Lease> {
        check_range("the concurrency", self.concurrency.into(), 1, 10_000)?;
        check_range("the prefetch", self.prefetch.into(), 0, self.concurrency.into())?;
        Lease::new(self.lease)
    }
}
