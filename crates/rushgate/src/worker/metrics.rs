//! Worker metrics by queue and kind, as a snapshot or in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rushgate_core::QueueName;

use super::report::{Counters, WorkerReport};
use crate::counters::count;

/// Counters of a worker, readable while it runs and after. Cheap to clone. Created by
/// [`Worker::metrics`](super::Worker::metrics).
#[derive(Clone, Default)]
pub struct WorkerMetrics {
    meters: Arc<OnceLock<Meters>>,
}

/// All meters of a worker.
pub(super) struct Meters {
    worker: String,
    queues: Vec<Arc<QueueMeter>>,
}

/// Meters of one queue.
pub(super) struct QueueMeter {
    queue: QueueName,
    pub claim: Timer,
    pub outages: AtomicU64,
    /// By registered kind.
    kinds: BTreeMap<String, Arc<Meter>>,
    rest: Arc<Meter>,
}

/// Meters of one kind in a queue.
#[derive(Default)]
pub(super) struct Meter {
    pub counters: Counters,
    pub run: Timer,
}

/// Histogram of durations.
#[derive(Default)]
pub(super) struct Timer {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    sum_us: AtomicU64,
}

/// Upper bounds of the buckets, in microseconds.
const BOUNDS: [u64; 19] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000, 30_000_000, 60_000_000, 300_000_000, 1_800_000_000, 7_200_000_000,
];

impl Timer {
    pub fn record(&self, took: Duration) {
        let micros = took.as_micros() as u64;
        let bucket = BOUNDS.partition_point(|bound| *bound < micros);
        count(&self.buckets[bucket], 1);
        count(&self.sum_us, micros as usize);
    }

    fn read(&self) -> Latency {
        let counts = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        Latency { counts, sum: Duration::from_micros(self.sum_us.load(Ordering::Relaxed)) }
    }
}

impl QueueMeter {
    pub fn new<'a>(queue: QueueName, kinds: impl Iterator<Item = &'a str>) -> Self {
        let kinds = kinds.map(|kind| (kind.to_owned(), Arc::new(Meter::default()))).collect();
        Self { queue, claim: Timer::default(), outages: AtomicU64::new(0), kinds, rest: Arc::default() }
    }

    pub fn of(&self, kind: Option<&str>) -> &Arc<Meter> {
        kind.and_then(|kind| self.kinds.get(kind)).unwrap_or(&self.rest)
    }

    fn read(&self) -> QueueSnapshot {
        let rest = [("*", &self.rest)];
        let kinds = self.kinds.iter().map(|(kind, meter)| (kind.as_str(), meter)).chain(rest);
        let read = |(kind, meter): (&str, &Arc<Meter>)| KindSnapshot {
            kind: kind.to_owned(),
            tasks: meter.counters.report(),
            run: meter.run.read(),
        };
        QueueSnapshot {
            queue: self.queue.clone(),
            claim: self.claim.read(),
            outages: self.outages.load(Ordering::Relaxed),
            kinds: kinds.map(read).collect(),
        }
    }
}

impl WorkerMetrics {
    /// Makes the counters of a starting worker visible.
    pub(super) fn start(&self, worker: String, queues: Vec<Arc<QueueMeter>>) {
        // A worker runs once.
        let _ = self.meters.set(Meters { worker, queues });
    }

    /// Counts so far. Empty before the worker runs.
    pub fn snapshot(&self) -> WorkerSnapshot {
        match self.meters.get() {
            Some(meters) => WorkerSnapshot {
                worker: meters.worker.clone(),
                queues: meters.queues.iter().map(|queue| queue.read()).collect(),
            },
            None => WorkerSnapshot::default(),
        }
    }
}

impl fmt::Debug for WorkerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkerMetrics").field(&self.snapshot()).finish()
    }
}

/// Counts of a worker since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerSnapshot {
    /// Label of the worker.
    pub worker: String,
    /// Queues, in the order in which they were added.
    pub queues: Vec<QueueSnapshot>,
}

/// Counts of a worker in one of its queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSnapshot {
    /// The queue.
    pub queue: QueueName,
    /// Duration of the worker's claims, including those that found no task.
    pub claim: Latency,
    /// Calls that failed because the store was unreachable or full, and were retried.
    pub outages: u64,
    /// By kind: those that have a handler, sorted, and `*` for the rest.
    pub kinds: Vec<KindSnapshot>,
}

/// Counts of a worker for one kind of task in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindSnapshot {
    /// Kind, or `*` for those without a handler of their own.
    pub kind: String,
    /// Outcomes of the tasks. Outages are counted per queue.
    pub tasks: WorkerReport,
    /// Run time of the handlers. A batch counts once, under the kind of its first task.
    pub run: Latency,
}

/// Histogram of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    counts: Vec<u64>,
    /// Sum of all durations.
    pub sum: Duration,
}

impl Latency {
    /// Number of durations measured.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Cumulative buckets: each upper bound with the number of durations up to it. Durations above the last
    /// bound, 2 h, are only in [`count`](Self::count).
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let mut seen = 0;
        BOUNDS.iter().zip(&self.counts).map(move |(bound, count)| {
            seen += count;
            (Duration::from_micros(*bound), seen)
        })
    }
}

impl KindSnapshot {
    /// Tasks that are claimed and not finished: they wait for a handler, run, or wait for the store to take
    /// their answer.
    pub fn at_hand(&self) -> u64 {
        let ended: u64 = OUTCOMES.iter().map(|(_, read)| read(&self.tasks)).sum();
        // The counters are not read at the same instant.
        self.tasks.claimed.saturating_sub(ended)
    }
}

impl WorkerSnapshot {
    /// Totals over all queues and kinds, as returned by [`run`](super::Worker::run).
    pub fn total(&self) -> WorkerReport {
        let kinds = self.queues.iter().flat_map(|queue| &queue.kinds).map(|kind| kind.tasks);
        let outages = self.queues.iter().map(|queue| queue.outages).sum();
        WorkerReport { outages, ..kinds.sum() }
    }
}

type Read = fn(&WorkerReport) -> u64;

/// Outcomes of tasks, by the label `outcome`.
const OUTCOMES: [(&str, Read); 7] = [
    ("done", |tasks| tasks.done),
    ("discarded", |tasks| tasks.discarded),
    ("retried", |tasks| tasks.retried),
    ("dead", |tasks| tasks.dead),
    ("released", |tasks| tasks.released),
    ("lost", |tasks| tasks.lost),
    ("unanswered", |tasks| tasks.unanswered),
];

/// Further counters, each a metric of its own.
const COUNTERS: [(&str, &str, Read); 5] = [
    ("claimed", "Tasks claimed.", |tasks| tasks.claimed),
    ("cancelled", "Tasks canceled while running.", |tasks| tasks.cancelled),
    ("panicked", "Handlers that panicked.", |tasks| tasks.panicked),
    ("timed_out", "Handlers that timed out.", |tasks| tasks.timed_out),
    ("unknown", "Tasks whose kind has no handler.", |tasks| tasks.unknown),
];

/// Formats snapshots in the Prometheus text format (version 0.0.4). Each sample has the labels `worker` and
/// `queue`; all but those of claims also have `kind`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use rushgate::{CancellationToken, Worker, worker::prometheus};
///
/// let mail = client.queue_of::<String>("mail")?;
/// mail.enqueue("to:ann", "Welcome".to_owned()).kind("welcome").send().await?;
/// let shutdown = CancellationToken::new();
/// let stop = shutdown.clone();
/// let worker = Worker::new(&mail).label("one").register("welcome", move |_: String| {
///     stop.cancel();
///     async {}
/// });
/// let metrics = worker.metrics();
/// worker.run(shutdown).await?;
///
/// let text = prometheus([&metrics.snapshot()]);
/// let done = r#"rushgate_worker_tasks_total{worker="one",queue="mail",kind="welcome",outcome="done"} 1"#;
/// assert!(text.contains(done), "{text}");
/// # client.close().await
/// # }
/// ```
pub fn prometheus<'a>(workers: impl IntoIterator<Item = &'a WorkerSnapshot>) -> String {
    let workers: Vec<_> = workers.into_iter().collect();
    let mut page = Page(String::new());
    page.head("tasks_total", "counter", "Finished tasks by outcome.");
    for (labels, kind) in kinds(&workers) {
        for (outcome, read) in OUTCOMES {
            page.line("tasks_total", &format!("{labels},outcome=\"{outcome}\""), read(&kind.tasks));
        }
    }
    for (name, help, read) in COUNTERS {
        let name = format!("{name}_total");
        page.head(&name, "counter", help);
        kinds(&workers).for_each(|(labels, kind)| page.line(&name, &labels, read(&kind.tasks)));
    }
    page.head("tasks_at_hand", "gauge", "Tasks claimed and not finished.");
    kinds(&workers).for_each(|(labels, kind)| page.line("tasks_at_hand", &labels, kind.at_hand()));
    page.head("run_seconds", "histogram", "Handler duration.");
    kinds(&workers).for_each(|(labels, kind)| page.histogram("run_seconds", &labels, &kind.run));
    page.head("claim_seconds", "histogram", "Claim latency of the store.");
    queues(&workers).for_each(|(labels, queue)| page.histogram("claim_seconds", &labels, &queue.claim));
    page.head("outages_total", "counter", "Store calls retried after a failure.");
    queues(&workers).for_each(|(labels, queue)| page.line("outages_total", &labels, queue.outages));
    page.0
}

fn queues<'a>(workers: &[&'a WorkerSnapshot]) -> impl Iterator<Item = (String, &'a QueueSnapshot)> {
    workers.iter().flat_map(|worker| {
        let label = escaped(&worker.worker);
        let labels =
            move |queue: &QueueName| format!("worker=\"{label}\",queue=\"{}\"", escaped(queue.as_str()));
        worker.queues.iter().map(move |queue| (labels(&queue.queue), queue))
    })
}

fn kinds<'a>(workers: &[&'a WorkerSnapshot]) -> impl Iterator<Item = (String, &'a KindSnapshot)> {
    queues(workers).flat_map(|(labels, queue)| {
        queue.kinds.iter().map(move |kind| (format!("{labels},kind=\"{}\"", kind.kind), kind))
    })
}

/// Escapes the value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// Lines of text. Writing to it cannot fail.
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, sort: &str, help: &str) {
        let name = format!("rushgate_worker_{name}");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {sort}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl fmt::Display) {
        let _ = writeln!(self.0, "rushgate_worker_{name}{{{labels}}} {value}");
    }

    fn histogram(&mut self, name: &str, labels: &str, latency: &Latency) {
        let bucket = format!("{name}_bucket");
        for (bound, count) in latency.buckets() {
            self.line(&bucket, &format!("{labels},le=\"{}\"", bound.as_secs_f64()), count);
        }
        self.line(&bucket, &format!("{labels},le=\"+Inf\""), latency.count());
        self.line(&format!("{name}_sum"), labels, latency.sum.as_secs_f64());
        self.line(&format!("{name}_count"), labels, latency.count());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_durations_up_to_their_limit() {
        let timer = Timer::default();
        for micros in [1, 500, 501, 1_000_000, 8_000_000_000] {
            timer.record(Duration::from_micros(micros));
        }
        let latency = timer.read();
        let at = |micros| {
            let bound = Duration::from_micros(micros);
            latency.buckets().find(|(at, _)| *at == bound).unwrap().1
        };
        assert_eq!((at(500), at(1_000), at(500_000), at(1_000_000), at(7_200_000_000)), (2, 3, 3, 4, 4));
        assert_eq!((latency.count(), latency.sum), (5, Duration::from_micros(8_001_001_002)));
    }

    #[test]
    fn a_page_names_every_measure_once_and_escapes_labels() {
        let queue = QueueName::new("a\"b").unwrap();
        let meter = QueueMeter::new(queue, ["k"].into_iter());
        meter.of(Some("k")).run.record(Duration::from_millis(3));
        count(&meter.of(Some("other")).counters.claimed, 5);
        count(&meter.of(Some("other")).counters.dead, 2);
        let metrics = WorkerMetrics::default();
        assert_eq!(
            prometheus([&metrics.snapshot()]).lines().filter(|line| !line.starts_with('#')).count(),
            0
        );
        metrics.start("w".to_owned(), vec![Arc::new(meter)]);
        let page = prometheus([&metrics.snapshot()]);
        let labels = r#"worker="w",queue="a\"b""#;
        for line in [
            format!("rushgate_worker_tasks_total{{{labels},kind=\"*\",outcome=\"dead\"}} 2"),
            format!("rushgate_worker_tasks_at_hand{{{labels},kind=\"*\"}} 3"),
            format!("rushgate_worker_run_seconds_bucket{{{labels},kind=\"k\",le=\"0.0025\"}} 0"),
            format!("rushgate_worker_run_seconds_bucket{{{labels},kind=\"k\",le=\"0.005\"}} 1"),
            format!("rushgate_worker_run_seconds_sum{{{labels},kind=\"k\"}} 0.003"),
            format!("rushgate_worker_claim_seconds_count{{{labels}}} 0"),
        ] {
            assert!(page.lines().any(|had| had == line), "{line} in\n{page}");
        }
        let mut heads: Vec<_> = page.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let all = heads.len();
        heads.dedup();
        assert_eq!(heads.len(), all);
    }
}
