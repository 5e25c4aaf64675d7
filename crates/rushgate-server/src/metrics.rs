//! Metrics of the server and of the store, as OpenMetrics text for Prometheus.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use rushgate::queue::{QueueName, WorkerInfo, WorkerMode};
use rushgate::sale::ListedSale;
use rushgate::store::Page;
use rushgate::{Result, Rushgate};
use tokio::time::timeout;

use crate::access::Caller;
use crate::attempts::{Attempts, Figures};
use crate::scope::Kind;

/// Media type of the text.
pub(crate) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Maximum number of queues and of sales with metrics of their own.
const THINGS_MAX: usize = 1_000;

/// Time limit for reading the store. A scraper waits for 10 s by default.
const STORE_MAX: Duration = Duration::from_secs(8);

/// What an operator can ask of a worker.
const MODES: [(&str, WorkerMode); 3] =
    [("work", WorkerMode::Work), ("quiet", WorkerMode::Quiet), ("stop", WorkerMode::Stop)];

type RouteLabels = [(&'static str, &'static str); 2];
type RequestLabels = (RouteLabels, [(&'static str, u32); 1]);
type NameLabels = Vec<(&'static str, String)>;

/// Counters of the server.
#[derive(Clone)]
pub(crate) struct Metrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    connections: Gauge,
    /// Attempts per sale, which the snapshot shows too.
    pub attempts: Attempts,
}

impl Default for Metrics {
    fn default() -> Self {
        // 0.1 ms to 52 s, because waiting requests are slow on purpose.
        let buckets: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_1, 3.0, 13));
        Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(buckets),
            connections: Gauge::default(),
            attempts: Attempts::default(),
        }
    }
}

impl Metrics {
    /// Counts one answered request.
    pub fn answered(&self, method: &'static str, path: &'static str, status: u16, took: Duration) {
        let route = [("method", method), ("route", path)];
        self.requests.get_or_create(&(route, [("status", u32::from(status))])).inc();
        self.seconds.get_or_create(&route).observe(took.as_secs_f64());
    }

    /// Counts one connection while the returned guard lives.
    pub fn connection(&self) -> impl Drop + Send + use<> {
        self.connections.inc();
        Connected(self.connections.clone())
    }

    /// Formats the counters, and the current state of what the caller may see. While the store does not answer, only its
    /// state is missing.
    pub async fn text(&self, client: &Rushgate, caller: &Caller) -> Result<String> {
        let mut registry = Registry::with_prefix("rushgate");
        registry.register("http_requests", "HTTP requests answered", self.requests.clone());
        registry.register_with_unit(
            "http_request",
            "Response time, including long polls",
            Unit::Seconds,
            self.seconds.clone(),
        );
        registry.register("http_connections", "Open connections", self.connections.clone());
        register_store(&mut registry, client);
        let read = timeout(STORE_MAX, self.register_state(&mut registry, client, caller)).await;
        let up = match read {
            Ok(Err(error)) if !error.is_unavailable() => return Err(error),
            answered => matches!(answered, Ok(Ok(()))),
        };
        let gauge = Gauge::<u64, AtomicU64>::default();
        gauge.set(up.into());
        registry.register("store_up", "Whether the store answered this scrape", gauge);
        let mut text = String::new();
        encode(&mut text, &registry)
            .map_err(|error| rushgate::Error::bug("cannot encode metrics").caused_by(error))?;
        Ok(text)
    }

    async fn register_state(
        &self,
        registry: &mut Registry,
        client: &Rushgate,
        caller: &Caller,
    ) -> Result<()> {
        register_queues(registry, client, caller).await?;
        self.register_sales(registry, client, caller).await?;
        register_locks(registry, client, caller).await
    }

    async fn register_sales(
        &self,
        registry: &mut Registry,
        client: &Rushgate,
        caller: &Caller,
    ) -> Result<()> {
        let attempts = Family::<NameLabels, Counter>::default();
        let units = Family::<NameLabels, Gauge<u64, AtomicU64>>::default();
        let damaged = Family::<NameLabels, Gauge<u64, AtomicU64>>::default();
        let halted = Family::<NameLabels, Gauge<u64, AtomicU64>>::default();
        let behind = Family::<NameLabels, Gauge<u64, AtomicU64>>::default();
        let lag = Family::<NameLabels, Gauge<f64, AtomicU64>>::default();
        let failed = Family::<NameLabels, Gauge<u64, AtomicU64>>::default();
        for sale in sales_of(client, caller).await? {
            let name = vec![("sale", sale.id().to_string())];
            damaged.get_or_create(&name).set(matches!(sale, ListedSale::Damaged(_)).into());
            let Some(sale) = sale.sound() else { continue };
            let id = ("sale", sale.spec.id.to_string());
            halted.get_or_create(&vec![id.clone()]).set(sale.halted.is_some().into());
            if let Some(orders) = &sale.orders {
                let since = orders.behind_since.map_or(Duration::ZERO, |since| sale.now.since(since));
                behind.get_or_create(&vec![id.clone()]).set(sale.seq.saturating_sub(orders.through));
                lag.get_or_create(&vec![id.clone()]).set(since.as_secs_f64());
                failed.get_or_create(&vec![id.clone()]).set(orders.failed.into());
            }
            for (answer, n) in self.attempts.of(&id.1).iter().flat_map(Figures::answers) {
                attempts.get_or_create(&vec![id.clone(), ("answer", answer.to_owned())]).inc_by(n);
            }
            for sku in sale.skus {
                let places = [
                    ("free", sku.free),
                    ("held", sku.held),
                    ("confirmed", sku.confirmed),
                    ("withdrawn", sku.withdrawn),
                ];
                for (place, n) in places {
                    let labels = vec![id.clone(), ("sku", sku.sku.to_string()), ("place", place.to_owned())];
                    units.get_or_create(&labels).set(n.into());
                }
            }
        }
        registry.register("sale_attempts", "Reservation attempts answered by this process", attempts);
        registry.register("sale_units", "Units by place", units);
        registry.register("sale_damaged", "Whether the records of the sale are damaged or missing", damaged);
        registry.register("sale_halted", "Whether the sale is halted until a rebuild", halted);
        registry.register(
            "sale_orders_behind",
            "Events of the sale that its ledger has yet to follow",
            behind,
        );
        registry.register_with_unit(
            "sale_orders_lag",
            "Lag of the ledger: time since the first event that it has yet to follow",
            Unit::Seconds,
            lag,
        );
        registry.register("sale_orders_failed", "Orders that the ledger could not record so far", failed);
        Ok(())
    }
}

struct Connected(Gauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn register_store(registry: &mut Registry, client: &Rushgate) {
    let calls = client.calls();
    registry.register("store_calls", "Calls to the store", ConstCounter::new(calls.calls));
    registry.register(
        "store_transactions",
        "Write transactions committed by the store",
        ConstCounter::new(calls.transactions),
    );
}

async fn register_queues(registry: &mut Registry, client: &Rushgate, caller: &Caller) -> Result<()> {
    let tasks = Family::<NameLabels, Gauge<u64, AtomicU64>>::default();
    let oldest = Family::<NameLabels, Gauge<f64, AtomicU64>>::default();
    let dropped = Family::<NameLabels, Counter>::default();
    let workers = Family::<NameLabels, Gauge<u64, AtomicU64>>::default();
    let queues = Page::default().read_all(|page| client.queues(page), QueueName::as_str).await?;
    let seen = queues.into_iter().filter(|queue| caller.may(Kind::Queue, queue.as_str()));
    for queue in seen.take(THINGS_MAX) {
        let of = client.queue(&queue)?;
        let stats = of.stats().await?;
        let live = Page::default().read_all(|page| of.workers(page), |worker| worker.id.as_str()).await?;
        let name = ("queue", queue.to_string());
        let states = [
            ("ready", stats.ready),
            ("scheduled", stats.scheduled),
            ("leased", stats.leased),
            ("blocked", stats.blocked),
            ("dead", stats.dead),
        ];
        for (state, n) in states {
            tasks.get_or_create(&vec![name.clone(), ("state", state.to_owned())]).set(n);
        }
        for (mode, asked) in MODES {
            let n = live.iter().filter(|worker: &&WorkerInfo| worker.mode == asked).count() as u64;
            workers.get_or_create(&vec![name.clone(), ("mode", mode.to_owned())]).set(n);
        }
        dropped.get_or_create(&vec![name.clone()]).inc_by(stats.dropped);
        oldest.get_or_create(&vec![name]).set(Duration::from_millis(stats.lag_ms).as_secs_f64());
    }
    registry.register("queue_tasks", "Tasks by state", tasks);
    registry.register("queue_workers", "Workers that have announced themselves, by mode", workers);
    registry.register("queue_dropped", "Tasks dropped because the queue was at capacity", dropped);
    registry.register_with_unit(
        "queue_oldest_due",
        "Lag: time since the oldest ready task became due",
        Unit::Seconds,
        oldest,
    );
    Ok(())
}

/// The first sales that the caller may see.
async fn sales_of(client: &Rushgate, caller: &Caller) -> Result<Vec<ListedSale>> {
    let (mut seen, mut next) = (Vec::new(), Some(Page::default()));
    while let Some(page) = next.filter(|_| seen.len() < THINGS_MAX) {
        let sales = client.sales(page.clone()).await?;
        next = page.next(&sales, |sale| sale.id().as_str());
        seen.extend(sales.into_iter().filter(|sale| caller.may(Kind::Sale, sale.id().as_str())));
    }
    seen.truncate(THINGS_MAX);
    Ok(seen)
}

async fn register_locks(registry: &mut Registry, client: &Rushgate, caller: &Caller) -> Result<()> {
    let held = Gauge::<u64, AtomicU64>::default();
    let waiters = Gauge::<u64, AtomicU64>::default();
    let mut next = Some(Page::default());
    // Counted page by page: there may be a million.
    while let Some(page) = next {
        let locks = client.locks(page.clone()).await?;
        let seen = || locks.iter().filter(|lock| caller.may(Kind::Lock, lock.name.as_str()));
        held.inc_by(seen().filter(|lock| !lock.holders.is_empty()).count() as u64);
        waiters.inc_by(seen().map(|lock| lock.waiters.len() as u64).sum());
        next = page.next(&locks, |lock| lock.name.as_str());
    }
    registry.register("locks_held", "Locks held", held);
    registry.register("lock_waiters", "Clients waiting for locks", waiters);
    Ok(())
}
