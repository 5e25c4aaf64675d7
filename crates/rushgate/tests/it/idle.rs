//! Cost of waiting and waking: 1,000 workers on an empty queue, and many tasks that are due at the same time.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::common::{eventually, secs};
use rushgate::queue::{ContentType, Due, Listing, NewTask, Payload, TaskState};
use rushgate::store::{Page, Store};
use rushgate::{CancellationToken, Job, Queue, Rushgate, TaskId, Timestamp, Worker};
use rushgate_core::verb::ExtendTasks;
use rushgate_test::MemoryStore;
use rushgate_test::faults::{FaultPlan, Faulty};
use rushgate_test::servers::{Kind, RedisServer, RedisSetup};
use tokio::task::JoinSet;

/// Number of idle workers, spread over clients as over processes.
const WORKERS: u64 = 1_000;
const CLIENTS: u64 = 10;
/// Longer than a worker sleeps without a notification.
const STRETCH: Duration = Duration::from_secs(6);
/// Upper limit of idle calls: a sleeping worker polls every 5 s for tasks and for schedules, in case a notification was
/// lost, and announces itself every 10 s.
const LOOKS: u64 = 2 * WORKERS * 2 + WORKERS;
/// Tasks enqueued one after the other while all workers are idle.
const TASKS: u64 = 100;

/// A counter of calls to the store.
trait Counted {
    fn count(&self) -> u64;
}

struct OnRedis(RedisServer);

impl Counted for OnRedis {
    /// Function calls by all clients.
    fn count(&self) -> u64 {
        let script = "local n = 0
            for calls in string.gmatch(redis.call('INFO', 'commandstats'), 'cmdstat_fcall:calls=(%d+)') do
              n = n + calls
            end
            return n";
        self.0.command(&["EVAL", script, "0"]).trim_start_matches(':').trim().parse().unwrap()
    }
}

struct OnSqlite(Vec<Rushgate>);

impl Counted for OnSqlite {
    /// Store calls by all clients.
    fn count(&self) -> u64 {
        self.0.iter().map(|client| client.calls().calls).sum()
    }
}

async fn a_thousand_idle_workers(clients: Vec<Rushgate>, counted: &dyn Counted) {
    let done = Arc::new(AtomicU64::new(0));
    let shutdown = CancellationToken::new();
    let mut workers = JoinSet::new();
    for client in &clients {
        let queue = client.queue("empty").unwrap();
        for _ in 0..WORKERS / CLIENTS {
            let done = Arc::clone(&done);
            let worker = Worker::new(&queue).register("*", move |_: Job| {
                let done = Arc::clone(&done);
                async move {
                    done.fetch_add(1, SeqCst);
                }
            });
            workers.spawn(worker.run(shutdown.clone()));
        }
    }
    // By now every worker has polled once and sleeps.
    tokio::time::sleep(STRETCH).await;

    let before = counted.count();
    tokio::time::sleep(STRETCH).await;
    let idle = counted.count() - before;
    assert!(idle <= LOOKS, "{WORKERS} idle workers made {idle} calls in {STRETCH:?}");

    // If each task woke all workers, there would be 100,000 calls.
    let before = counted.count();
    let queue = clients[0].queue("empty").unwrap();
    let start = Instant::now();
    for n in 0..TASKS {
        queue.enqueue(n.to_string(), Payload::empty()).send().await.unwrap();
        eventually(|| async { done.load(SeqCst) > n }).await;
    }
    let woken = counted.count() - before;
    let looks = LOOKS * (start.elapsed().as_secs() / STRETCH.as_secs() + 1);
    assert!(woken <= looks + 20 * TASKS, "{TASKS} tasks made {woken} calls, {looks} of them looks at most");

    shutdown.cancel();
    let mut worked = 0;
    while let Some(report) = workers.join_next().await {
        worked += report.unwrap().unwrap().done;
    }
    assert_eq!(worked, TASKS);
}

/// Number of connections, as reported by the server.
fn connections(server: &RedisServer) -> u64 {
    let script = "return tonumber(string.match(redis.call('INFO', 'clients'), 'connected_clients:(%d+)'))";
    server.command(&["EVAL", script, "0"]).trim_start_matches(':').trim().parse().unwrap()
}

/// Half of them wait for a lock, the other half for tasks of 100 queues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_of_one_process_have_two_connections() {
    let server = RedisSetup::new(Kind::Redis).start();
    let before = connections(&server);
    let client = Rushgate::connect(&server.url()).await.unwrap();
    let lock = client.lock("door").unwrap().wait(secs(300));
    let guard = lock.acquire().await.unwrap().held().unwrap();
    let (mut in_line, mut for_tasks) = (JoinSet::new(), JoinSet::new());
    for n in 0..WORKERS / 2 {
        let (lock, queue) = (lock.clone(), client.queue(format!("q{}", n % 100)).unwrap());
        in_line.spawn(async move { lock.acquire().await.unwrap().held().unwrap().release().await.unwrap() });
        for_tasks.spawn(async move { queue.claim_wait(1, secs(60), secs(300)).await.unwrap().len() });
    }
    tokio::time::timeout(secs(120), async {
        eventually(|| async { lock.state().await.unwrap().waiters.len() as u64 == WORKERS / 2 }).await;
        assert_eq!(connections(&server), before + 2);

        // Every waiter gets its turn.
        guard.release().await.unwrap();
        for n in 0..WORKERS / 2 {
            let queue = client.queue(format!("q{}", n % 100)).unwrap();
            queue.enqueue(n.to_string(), Payload::empty()).send().await.unwrap();
        }
        assert_eq!(in_line.join_all().await.len() as u64, WORKERS / 2);
        assert_eq!(for_tasks.join_all().await.iter().sum::<usize>() as u64, WORKERS / 2);
        assert_eq!(connections(&server), before + 2);
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_idle_workers_cost_redis_next_to_nothing_and_a_task_wakes_few() {
    let server = RedisSetup::new(Kind::Redis).start();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Rushgate::connect(&server.url()).await.unwrap());
    }
    let counted = OnRedis(server);
    let work = a_thousand_idle_workers(clients, &counted);
    tokio::time::timeout(secs(120), work).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_idle_workers_cost_sqlite_next_to_nothing_and_a_task_wakes_few() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}?durability=process", directory.path().join("rushgate.db").display());
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Rushgate::connect(&url).await.unwrap());
    }
    let counted = OnSqlite(clients.clone());
    let work = a_thousand_idle_workers(clients, &counted);
    tokio::time::timeout(secs(120), work).await.unwrap();
}

/// Number of tasks: 50,000 by default. Set RUSHGATE_DUE=1000000 for one million.
fn multitude() -> u64 {
    std::env::var("RUSHGATE_DUE").ok().and_then(|n| n.parse().ok()).unwrap_or(50_000)
}

fn now_us() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_micros() as u64
}

async fn many_tasks_due_at_once(url: &str) {
    let client = Rushgate::connect(url).await.unwrap();
    let (queue, n) = (client.queue("rush").unwrap(), multitude());
    // Paused, so that all tasks are enqueued before the first is claimed.
    queue.pause().await.unwrap();
    let instant = Timestamp::from_micros(now_us() + 1_000_000);
    for first in (0..n).step_by(1_000) {
        let task = |n: u64| {
            let payload = Payload::new(ContentType::bytes(), *b"x").unwrap();
            NewTask { due: Due::At(instant), ..NewTask::new(TaskId::new(n.to_string()).unwrap(), payload) }
        };
        queue.enqueue_all((first..(first + 1_000).min(n)).map(task).collect()).await.unwrap();
    }
    while now_us() < instant.as_micros() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(queue.stats().await.unwrap().ready, n);
    queue.resume().await.unwrap();

    let calls = client.calls().calls;
    let mut claimers = JoinSet::new();
    for _ in 0..4 {
        let queue = queue.clone();
        claimers.spawn(async move {
            let mut mine = Vec::new();
            let mut wait = secs(300);
            loop {
                let tasks = queue.claim_wait(1_000, secs(600), wait).await.unwrap();
                if tasks.is_empty() {
                    return mine;
                }
                assert!(tasks.iter().all(|task| task.ticket.due == instant), "no task is claimed early");
                // Tasks are claimed in the order in which they were enqueued.
                let ids: Vec<u64> =
                    tasks.iter().map(|task| task.ticket.id.as_str().parse().unwrap()).collect();
                assert!(ids.is_sorted());
                mine.extend(ids);
                queue.complete(tasks.into_iter().map(|task| task.ticket).collect()).await.unwrap();
                wait = Duration::ZERO;
            }
        });
    }
    let mut all = HashSet::new();
    while let Some(mine) = claimers.join_next().await {
        for id in mine.unwrap() {
            assert!(all.insert(id), "{id} was claimed twice");
        }
    }
    assert_eq!(all.len() as u64, n);
    let stats = queue.stats().await.unwrap();
    assert_eq!((stats.ready, stats.scheduled, stats.leased), (0, 0, 0));
    // Two calls per 1,000 tasks, with a margin, and the polls of the four waiting workers.
    let calls = client.calls().calls - calls;
    assert!(calls <= n / 1_000 * 2 * 3 + 4 * 100, "{calls} calls for {n} tasks");
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_due_at_once_are_claimed_once_each_on_redis() {
    let server = RedisSetup::new(Kind::Redis).start();
    many_tasks_due_at_once(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_due_at_once_are_claimed_once_each_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}?durability=process", directory.path().join("rushgate.db").display());
    many_tasks_due_at_once(&url).await;
}

/// Number of workers that sleep until the tasks are due, spread over clients as over processes.
const SLEEPERS: u64 = 100;
/// Number of tasks: 20,000 by default; RUSHGATE_DUE overrides it.
fn crowd() -> u64 {
    std::env::var("RUSHGATE_DUE").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000)
}

async fn enqueue_many(queue: &Queue, n: u64, due: Due) {
    for first in (0..n).step_by(1_000) {
        let payload = Payload::new(ContentType::bytes(), *b"x").unwrap();
        let task =
            |n: u64| NewTask { due, ..NewTask::new(TaskId::new(n.to_string()).unwrap(), payload.clone()) };
        queue.enqueue_all((first..(first + 1_000).min(n)).map(task).collect()).await.unwrap();
    }
}

/// The queue is not paused: only the store's clock makes the tasks due and wakes the workers.
async fn an_instant_wakes_workers_that_sleep(clients: Vec<Rushgate>) {
    let n = crowd();
    // Estimate how long the enqueue takes on this machine, so that the tasks are due only afterwards.
    let start = Instant::now();
    enqueue_many(&clients[0].queue("warm-up").unwrap(), n / 10, Due::Now).await;
    let until = secs(2) + start.elapsed() * 40;
    let instant = Timestamp::from_micros(now_us()) + until;

    let runs: Arc<Vec<AtomicU64>> = Arc::new((0..n).map(|_| AtomicU64::new(0)).collect());
    let done = Arc::new(AtomicU64::new(0));
    let shutdown = CancellationToken::new();
    let mut workers = JoinSet::new();
    for client in &clients {
        let queue = client.queue("rush").unwrap();
        for _ in 0..SLEEPERS / clients.len() as u64 {
            let (runs, done) = (Arc::clone(&runs), Arc::clone(&done));
            let worker = Worker::new(&queue).register("*", move |job: Job| {
                assert!(job.fence().as_u64() >= instant.as_micros(), "{} was claimed early", job.id());
                let id: usize = job.id().as_str().parse().unwrap();
                runs[id].fetch_add(1, SeqCst);
                done.fetch_add(1, SeqCst);
                std::future::ready(())
            });
            workers.spawn(worker.run(shutdown.clone()));
        }
    }
    let queue = clients[0].queue("rush").unwrap();
    enqueue_many(&queue, n, Due::At(instant)).await;
    assert!(now_us() < instant.as_micros(), "all tasks were enqueued before they were due");
    assert_eq!((queue.stats().await.unwrap().scheduled, done.load(SeqCst)), (n, 0));

    let calls = || clients.iter().map(|client| client.calls().calls).sum::<u64>();
    let before = calls();
    let start = Instant::now();
    eventually(async || done.load(SeqCst) >= n).await;
    // The last answers may still be in flight.
    eventually(async || {
        let stats = queue.stats().await.unwrap();
        stats.ready + stats.scheduled + stats.leased == 0
    })
    .await;
    let made = calls() - before;
    shutdown.cancel();
    let mut worked = 0;
    while let Some(report) = workers.join_next().await {
        let report = report.unwrap().unwrap();
        assert_eq!((report.lost, report.retried, report.unanswered), (0, 0, 0));
        worked += report.done;
    }
    assert_eq!(worked, n);
    assert!(runs.iter().all(|runs| runs.load(SeqCst) == 1), "each once");
    // One claim and one answer serve several tasks; the rest are polls while the workers slept.
    let looks = 2 * SLEEPERS * (start.elapsed().as_secs() / 5 + 2);
    assert!(made <= n / 2 + looks, "{n} tasks made {made} calls in {:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instant_wakes_workers_that_sleep_on_redis() {
    let server = RedisSetup::new(Kind::Redis).start();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Rushgate::connect(&server.url()).await.unwrap());
    }
    tokio::time::timeout(secs(120), an_instant_wakes_workers_that_sleep(clients)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instant_wakes_workers_that_sleep_on_sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}?durability=process", directory.path().join("rushgate.db").display());
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Rushgate::connect(&url).await.unwrap());
    }
    tokio::time::timeout(secs(120), an_instant_wakes_workers_that_sleep(clients)).await.unwrap();
}

/// 100 concurrent handlers share one heartbeat: one call extends all leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_handlers_of_a_worker_have_one_heartbeat() {
    const HANDLERS: u64 = 100;
    const BEATS: u64 = 4;
    let lease = Duration::from_millis(1_200);
    let store = Arc::new(Faulty::new(MemoryStore::new(), FaultPlan::default(), 0));
    let queue = Rushgate::with_store(Arc::clone(&store) as Arc<dyn Store>).queue("long").unwrap();
    enqueue_many(&queue, HANDLERS, Due::Now).await;
    let shutdown = CancellationToken::new();
    let running = Arc::new(AtomicU64::new(0));
    let worker = Worker::new(&queue).lease(lease).concurrency(HANDLERS as u32).register("*", {
        let running = Arc::clone(&running);
        move |job: Job| {
            running.fetch_add(1, SeqCst);
            async move { job.cancel.cancelled().await }
        }
    });
    let start = Instant::now();
    let working = tokio::spawn(worker.grace(Duration::ZERO).run(shutdown.clone()));
    tokio::time::timeout(secs(30), eventually(async || store.calls_of::<ExtendTasks>() >= BEATS))
        .await
        .unwrap();
    // The heartbeat comes at a third of the lease, or at a quarter if the last one was not answered by then.
    assert!(start.elapsed() >= lease / 4 * BEATS as u32, "{BEATS} calls in {:?}", start.elapsed());
    assert_eq!(running.load(SeqCst), HANDLERS);
    let listing = Listing::new(TaskState::Leased, Page::first(1_000));
    let leases: Vec<_> =
        queue.tasks(listing).await.unwrap().tasks.into_iter().map(|task| task.lease_until.unwrap()).collect();
    assert_eq!(leases.len() as u64, HANDLERS, "all tasks are leased");
    assert_eq!(leases.iter().collect::<HashSet<_>>().len(), 1, "one call extended all leases");
    shutdown.cancel();
    let report = working.await.unwrap().unwrap();
    assert_eq!((report.claimed, report.lost, report.released), (HANDLERS, 0, HANDLERS));
}
