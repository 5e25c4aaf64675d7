//! Workers and a store that are killed or suspended while a handler runs: state of the tasks afterwards, and
//! how often they ran. For deaths at the individual calls of a task's life, see `failpoints`.
//!
//! Each scenario has two processes: the test, and a second instance of this test binary that runs one ignored
//! test as the worker.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::common::parts::{Lines, path, play, say, signal};
use crate::common::{eventually, in_time, ms};
use rushgate::queue::Selection;
use rushgate::store::Page;
use rushgate::worker::{Backoff, Outcome, State, WorkerReport};
use rushgate::{CancellationToken, Job, Queue, Rushgate, Worker};
use rushgate_test::servers::{Kind, RedisServer, RedisSetup, suspend};
use rustix::process::{Signal, getpid, kill_process};
use tempfile::TempDir;
use tokio::sync::Semaphore;

/// A store per scenario, and a directory that both processes share.
struct Scene {
    folder: TempDir,
    queue: Queue<u32>,
    _server: Option<RedisServer>,
}

impl Scene {
    async fn on(url: Option<String>, server: Option<RedisServer>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        let url = url.unwrap_or_else(|| format!("sqlite:{}?durability=process", file.display()));
        fs::write(folder.path().join("url"), &url).unwrap();
        let queue = Rushgate::connect(&url).await.unwrap().queue_of("numbers").unwrap();
        Self { folder, queue, _server: server }
    }

    async fn fill(&self, n: u32) {
        let tasks = (0..n).map(|n| {
            let mut task = self.queue.new_task(n.to_string(), n).unwrap();
            task.max_attempts = 3;
            task
        });
        self.queue.enqueue_all(tasks.collect()).await.unwrap();
    }

    /// Runs the remaining tasks, like another worker of the fleet.
    async fn work_off(&self) -> WorkerReport {
        let shutdown = CancellationToken::new();
        let diary = Diary::open(self.folder.path().join("diary").to_str().unwrap());
        let worker = Worker::new(&self.queue).state(diary).register("*", note);
        let working = tokio::spawn(worker.run(shutdown.clone()));
        in_time(eventually(async || is_empty(&self.queue).await)).await;
        shutdown.cancel();
        working.await.unwrap().unwrap()
    }

    /// Each run as task and attempt number, sorted by task.
    fn runs(&self) -> Vec<String> {
        let diary = fs::read_to_string(self.folder.path().join("diary")).unwrap();
        let mut runs: Vec<_> = diary.lines().map(str::to_owned).collect();
        runs.sort();
        runs
    }
}

async fn is_empty(queue: &Queue<u32>) -> bool {
    let stats = queue.stats().await.unwrap();
    stats.ready + stats.scheduled + stats.leased == 0
}

/// File that records every run in every process.
#[derive(Clone)]
struct Diary(Arc<Mutex<fs::File>>);

impl Diary {
    fn open(path: &str) -> Self {
        let file = fs::File::options().create(true).append(true).open(path).unwrap();
        Self(Arc::new(Mutex::new(file)))
    }
}

async fn note(job: Job<u32>, State(diary): State<Diary>) {
    writeln!(diary.0.lock().unwrap(), "{} {}", job.payload, job.attempt).unwrap();
}

async fn store_of_the_scene() -> Queue<u32> {
    let url = fs::read_to_string(path("url")).unwrap();
    Rushgate::connect(&url).await.unwrap().queue_of("numbers").unwrap()
}

fn worker(queue: &Queue<u32>) -> Worker<Diary> {
    let quickly = Backoff { base: ms(1), factor: 1.0, max: ms(1), jitter: false };
    Worker::new(queue)
        .lease(ms(1_500))
        .concurrency(1)
        .retry_policy(quickly)
        .state(Diary::open(&path("diary")))
}

fn die() {
    kill_process(getpid(), Signal::KILL).unwrap();
}

/// Kills its process after the handler has returned and before the answer is sent.
#[derive(Clone)]
struct DiesAfter<W>(W);

impl<W> tower_service::Service<Job> for DiesAfter<W>
where
    W: tower_service::Service<Job, Response = Outcome, Future: Send + 'static>,
{
    type Response = Outcome;
    type Error = W::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Outcome, W::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), W::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, job: Job) -> Self::Future {
        let handled = self.0.call(job);
        Box::pin(async move {
            let outcome = handled.await?;
            die();
            Ok(outcome)
        })
    }
}

#[derive(Clone)]
struct DiesAfterLayer;

impl<W> tower_layer::Layer<W> for DiesAfterLayer {
    type Service = DiesAfter<W>;
    fn layer(&self, inner: W) -> DiesAfter<W> {
        DiesAfter(inner)
    }
}

// ── child processes ────────────────────────────────────────────────────────────────────────────────────────

#[tokio::test]
#[ignore = "a part: a worker that stays in its handler, with a second task claimed ahead"]
async fn worker_in_its_handler() {
    let handler = async |job: Job<u32>, diary: State<Diary>| {
        note(job, diary).await;
        say("began");
        std::future::pending::<()>().await;
    };
    let queue = store_of_the_scene().await;
    worker(&queue).prefetch(1).register("*", handler).run(CancellationToken::new()).await.unwrap();
}

#[tokio::test]
#[ignore = "a part: a worker that dies when its handler is done and nobody knows"]
async fn worker_that_dies_before_its_answer() {
    let worker = worker(&store_of_the_scene().await).layer(DiesAfterLayer).register("*", note);
    worker.run(CancellationToken::new()).await.unwrap();
}

#[tokio::test]
#[ignore = "a part: a worker that says what it lost"]
async fn worker_that_is_notified_of_its_loss() {
    let handler = async |job: Job<u32>, diary: State<Diary>| {
        let cancel = job.cancel.clone();
        note(job, diary).await;
        say("began");
        cancel.cancelled().await;
    };
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let worker = worker(&store_of_the_scene().await).register("*", handler);
    let metrics = worker.metrics();
    let working = tokio::spawn(worker.run(shutdown));
    eventually(async || metrics.snapshot().total().lost == 1).await;
    stop.cancel();
    let report = working.await.unwrap().unwrap();
    say(format_args!("{} lost, {} done", report.lost, report.done));
}

#[tokio::test]
#[ignore = "a part: a worker that task 0 kills"]
async fn worker_that_is_poisoned() {
    let handler = async |job: Job<u32>, diary: State<Diary>| {
        let n = job.payload;
        note(job, diary).await;
        if n == 0 {
            die();
        }
    };
    let worker = worker(&store_of_the_scene().await).register("*", handler);
    worker.run(CancellationToken::new()).await.unwrap();
}

// ── scenarios ──────────────────────────────────────────────────────────────────────────────────────────────

async fn a_worker_killed_in_its_handler_leaves_both_its_tasks_to_another(scene: Scene) {
    scene.fill(2).await;
    let mut part = play("deaths::worker_in_its_handler", &scene.folder);
    assert_eq!(Lines::of(&mut part).next(), "began");
    in_time(eventually(async || scene.queue.stats().await.unwrap().leased == 2)).await;
    signal(&part, Signal::KILL);
    part.wait().unwrap();
    let report = scene.work_off().await;
    assert_eq!((report.done, report.dead), (2, 0));
    assert_eq!(scene.runs(), ["0 1", "0 2", "1 2"], "the second task was claimed but not started");
}

async fn a_worker_killed_before_its_answer_has_its_task_run_again(scene: Scene) {
    scene.fill(1).await;
    play("deaths::worker_that_dies_before_its_answer", &scene.folder).wait().unwrap();
    assert_eq!(scene.queue.stats().await.unwrap().leased, 1, "the store does not know yet");
    assert_eq!(scene.work_off().await.done, 1);
    assert_eq!(scene.runs(), ["0 1", "0 2"]);
}

async fn a_worker_stopped_past_its_lease_is_notified_and_its_answer_refused(scene: Scene) {
    scene.fill(1).await;
    let mut part = play("deaths::worker_that_is_notified_of_its_loss", &scene.folder);
    let mut said = Lines::of(&mut part);
    assert_eq!(said.next(), "began");
    suspend(&part);
    assert_eq!(scene.work_off().await.done, 1, "another worker runs it after the lease expires");
    signal(&part, Signal::CONT);
    assert_eq!(said.next(), "1 lost, 0 done");
    part.wait().unwrap();
    assert_eq!(scene.runs(), ["0 1", "0 2"]);
}

async fn a_task_that_kills_its_worker_is_a_dead_letter_in_the_end(scene: Scene) {
    scene.fill(4).await;
    // Three attempts, three dead workers. The next claim, by any worker, expires the last lease.
    for _ in 0..3 {
        play("deaths::worker_that_is_poisoned", &scene.folder).wait().unwrap();
    }
    assert_eq!(scene.work_off().await.dead, 0, "there is no fourth attempt");
    let dead = scene.queue.dead(Page::first(10)).await.unwrap();
    assert_eq!((dead.len(), dead[0].id.as_str(), dead[0].attempts), (1, "0", 3));
    assert_eq!(scene.runs(), ["0 1", "0 2", "0 3", "1 1", "2 1", "3 1"]);
    assert_eq!(scene.queue.delete_dead(Selection::All).await.unwrap(), 1);
}

/// The store is killed twice during work. Every task is done, and no task is claimed again while its lease is
/// valid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_killed_and_started_again_during_work_loses_no_task_and_doubles_none() {
    const TASKS: usize = 500;
    const LEASE: Duration = Duration::from_secs(10);
    let mut server = RedisSetup::new(Kind::Redis).start();
    assert_eq!(server.ask(&["CONFIG", "GET", "appendonly"]).last().map(String::as_str), Some("yes"));
    let queue: Queue<u32> = Rushgate::connect(&server.url()).await.unwrap().queue_of("numbers").unwrap();
    let tasks = (0..TASKS as u32).map(|n| queue.new_task(n.to_string(), n).unwrap());
    queue.enqueue_all(tasks.collect()).await.unwrap();

    // Each run with the time of its claim, in order of start. The semaphore limits how many may end.
    let runs: Arc<Mutex<Vec<(u32, u64)>>> = Arc::default();
    let (ended, may_end) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(100)));
    let handler = {
        let (runs, ended, may_end) = (Arc::clone(&runs), Arc::clone(&ended), Arc::clone(&may_end));
        move |job: Job<u32>| {
            runs.lock().unwrap().push((job.payload, job.fence().as_u64()));
            let (ended, may_end) = (Arc::clone(&ended), Arc::clone(&may_end));
            async move {
                may_end.acquire().await.unwrap().forget();
                ended.fetch_add(1, SeqCst);
            }
        }
    };
    let shutdown = CancellationToken::new();
    let worker = Worker::new(&queue).lease(LEASE).concurrency(8).register("*", handler);
    let metrics = worker.metrics();
    let outages = || metrics.snapshot().total().outages;
    let working = tokio::spawn(worker.run(shutdown.clone()));
    for let_go in [100, 300] {
        in_time(eventually(async || ended.load(SeqCst) >= let_go)).await;
        let before = outages();
        may_end.add_permits(200);
        server.kill();
        in_time(eventually(async || outages() > before)).await;
        server.restart();
    }
    // Tasks whose claim was never answered are claimed again, and may end too.
    may_end.add_permits(TASKS);
    in_time(eventually(async || is_empty(&queue).await)).await;
    shutdown.cancel();
    let report = working.await.unwrap().unwrap();
    assert!(report.outages >= 2, "{report:?}");
    assert_eq!((report.dead, report.retried, report.unanswered), (0, 0, 0));
    let mut claims = HashMap::new();
    for (n, claimed) in runs.lock().unwrap().iter() {
        let last = claims.insert(*n, *claimed);
        let freed = last.map(|last| last + LEASE.as_micros() as u64);
        assert!(freed.is_none_or(|freed| *claimed >= freed), "{n} was claimed again during its lease");
    }
    assert_eq!(claims.len(), TASKS, "every task has run");
}

macro_rules! scenes {
    ($($name:ident)*) => {
        mod sqlite { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name(super::Scene::on(None, None).await).await }
        )* }
        mod redis { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let server = super::RedisSetup::new(super::Kind::Redis).start();
                super::$name(super::Scene::on(Some(server.url()), Some(server)).await).await
            }
        )* }
    };
}

scenes! {
    a_worker_killed_in_its_handler_leaves_both_its_tasks_to_another
    a_worker_killed_before_its_answer_has_its_task_run_again
    a_worker_stopped_past_its_lease_is_notified_and_its_answer_refused
    a_task_that_kills_its_worker_is_a_dead_letter_in_the_end
}
