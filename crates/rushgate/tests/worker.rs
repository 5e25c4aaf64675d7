//! Workers: every task ends exactly one way, whatever its handler does.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use common::{Bench, eventually, ms, secs};
use rushgate::{Backoff, CancellationToken, Dequeued, Job, Outcome, Queue, Rushgate, Worker, WorkerReport};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

on_each_store! {
    tasks_are_done_once_each
    a_failed_task_is_tried_again
    a_panic_is_a_failed_attempt
    a_handler_that_takes_too_long_is_a_failed_attempt
    a_task_that_is_given_up_is_a_dead_letter
    content_that_cannot_be_read_is_a_dead_letter
    a_shutdown_finishes_what_was_started_and_gives_back_the_rest
    what_outlives_the_grace_is_given_back
    a_lost_lease_cancels_the_handler
    a_cancelled_task_tells_its_handler_and_ends
    a_cancelled_task_that_fails_is_over
    a_long_task_keeps_its_lease
    a_batch_is_answered_task_by_task
    a_task_that_comes_while_the_worker_idles_is_taken_at_once
    no_more_handlers_run_than_allowed
}

on_a_cluster! {
    tasks_are_done_once_each
}

const QUICK: Backoff =
    Backoff { base: Duration::from_millis(1), factor: 1.0, max: Duration::from_millis(1), jitter: false };

fn numbers(gate: &Rushgate) -> Queue<u32> {
    gate.queue_of("numbers").unwrap()
}

async fn fill(queue: &Queue<u32>, n: u32) {
    let tasks = (0..n).map(|n| queue.new_task(n.to_string(), n).unwrap());
    queue.enqueue_all(tasks.collect()).await.unwrap();
}

struct Running {
    worker: JoinHandle<rushgate::Result<WorkerReport>>,
    shutdown: CancellationToken,
}

impl Running {
    fn start<F, Fut, O>(worker: Worker<u32>, handler: F) -> Self
    where
        F: Fn(Job<u32>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = O> + Send + 'static,
        O: rushgate::IntoOutcome + 'static,
    {
        let shutdown = CancellationToken::new();
        let worker = tokio::spawn(worker.run(handler, shutdown.clone()));
        Self { worker, shutdown }
    }

    async fn stop(self) -> WorkerReport {
        self.shutdown.cancel();
        self.worker.await.unwrap().unwrap()
    }
}

async fn is_empty(queue: &Queue<u32>) -> bool {
    let stats = queue.stats().await.unwrap();
    stats.ready + stats.scheduled + stats.leased == 0
}

async fn tasks_are_done_once_each(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 300).await;
    let sum = Arc::new(AtomicU64::new(0));
    let workers = [0, 1].map(|prefetch| {
        let sum = Arc::clone(&sum);
        let worker = Worker::new(numbers(&bench.client())).concurrency(8).prefetch(prefetch * 8);
        Running::start(worker, move |job| {
            sum.fetch_add(u64::from(job.payload), Ordering::SeqCst);
            async {}
        })
    });
    eventually(async || is_empty(&queue).await).await;
    let mut done = 0;
    for worker in workers {
        let report = worker.stop().await;
        assert_eq!(report.claimed, report.done + report.given_back);
        done += report.done;
    }
    assert_eq!((done, sum.load(Ordering::SeqCst)), (300, 299 * 300 / 2));
}

async fn a_failed_task_is_tried_again(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let worker = Worker::new(queue.clone()).retry_policy(QUICK);
    let running = Running::start(worker, async |job: Job<u32>| match job.attempt {
        1 => Err("not yet".to_owned()),
        2 => Ok(Outcome::retry_after(ms(1), "in a moment")),
        _ => Ok(Outcome::Done),
    });
    eventually(async || is_empty(&queue).await).await;
    let report = running.stop().await;
    assert_eq!((report.claimed, report.retried, report.done, report.dead), (3, 2, 1, 0));
}

async fn a_panic_is_a_failed_attempt(bench: Bench) {
    let queue = numbers(&bench.client());
    queue.enqueue("1", 1).max_attempts(2).send().await.unwrap();
    let worker = Worker::new(queue.clone()).retry_policy(QUICK);
    let running = Running::start(worker, async |job: Job<u32>| assert_eq!(job.payload, 2, "one is not two"));
    eventually(async || queue.stats().await.unwrap().dead == 1).await;
    let report = running.stop().await;
    assert_eq!((report.panicked, report.retried, report.dead), (2, 1, 1));
    let dead = queue.dead("", 1).await.unwrap();
    assert!(dead[0].error.contains("one is not two"), "{}", dead[0].error);
}

async fn a_handler_that_takes_too_long_is_a_failed_attempt(bench: Bench) {
    let queue = numbers(&bench.client());
    queue.enqueue("1", 1).max_attempts(1).send().await.unwrap();
    let worker = Worker::new(queue.clone()).timeout(ms(20));
    let running = Running::start(worker, |_| std::future::pending::<()>());
    eventually(async || queue.stats().await.unwrap().dead == 1).await;
    let report = running.stop().await;
    assert_eq!((report.timed_out, report.dead), (1, 1));
}

async fn a_task_that_is_given_up_is_a_dead_letter(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let running = Running::start(Worker::new(queue.clone()), async |_| Outcome::give_up("never"));
    eventually(async || queue.stats().await.unwrap().dead == 1).await;
    assert_eq!(running.stop().await.dead, 1);
}

async fn content_that_cannot_be_read_is_a_dead_letter(bench: Bench) {
    let gate = bench.client();
    gate.queue_of("numbers").unwrap().enqueue("1", "one".to_owned()).send().await.unwrap();
    let queue = numbers(&gate);
    let running = Running::start(Worker::new(queue.clone()), async |_| ());
    eventually(async || queue.stats().await.unwrap().dead == 1).await;
    assert_eq!(running.stop().await.done, 0);
}

async fn a_shutdown_finishes_what_was_started_and_gives_back_the_rest(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 4).await;
    let (started, go) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let worker = Worker::new(queue.clone()).concurrency(2).prefetch(2);
    let running = Running::start(worker, {
        let (started, go) = (Arc::clone(&started), Arc::clone(&go));
        move |_| {
            let (started, go) = (Arc::clone(&started), Arc::clone(&go));
            async move {
                let gone = go.notified();
                started.add_permits(1);
                gone.await;
            }
        }
    });
    started.acquire_many(2).await.unwrap().forget();
    eventually(async || queue.stats().await.unwrap().leased == 4).await;
    running.shutdown.cancel();
    eventually(async || queue.stats().await.unwrap().ready == 2).await;
    go.notify_waiters();
    let report = running.stop().await;
    assert_eq!((report.claimed, report.done, report.given_back), (4, 2, 2));
    let left = queue.claim(4, secs(30)).await.unwrap();
    assert!(left.len() == 2 && left.iter().all(|task| task.attempt == 1), "no attempt was counted");
}

async fn what_outlives_the_grace_is_given_back(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let started = Arc::new(Notify::new());
    let worker = Worker::new(queue.clone()).grace(ms(20));
    let running = Running::start(worker, {
        let started = Arc::clone(&started);
        move |_| {
            started.notify_one();
            std::future::pending::<()>()
        }
    });
    started.notified().await;
    let report = running.stop().await;
    assert_eq!((report.claimed, report.done, report.given_back), (1, 0, 1));
    assert_eq!(queue.claim(1, secs(30)).await.unwrap()[0].attempt, 1);
}

async fn a_lost_lease_cancels_the_handler(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker::new(queue.clone()).lease(ms(300));
    let running = Running::start(worker, move |job: Job<u32>| {
        tell.send((job.ticket, job.cancel)).unwrap();
        std::future::pending::<()>()
    });
    let (ticket, cancel) = told.recv().await.unwrap();
    assert_eq!(queue.dequeue(ticket).await.unwrap(), Dequeued::Removed);
    cancel.cancelled().await;
    let report = running.stop().await;
    assert_eq!((report.lost, report.done, report.given_back), (1, 0, 0));
}

async fn a_cancelled_task_tells_its_handler_and_ends(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let started = Arc::new(Notify::new());
    let worker = Worker::new(queue.clone()).lease(ms(300));
    let running = Running::start(worker, {
        let started = Arc::clone(&started);
        move |job: Job<u32>| {
            started.notify_one();
            async move { job.cancel.cancelled().await }
        }
    });
    started.notified().await;
    queue.cancel("0").await.unwrap();
    eventually(async || is_empty(&queue).await).await;
    let report = running.stop().await;
    assert_eq!((report.cancelled, report.done), (1, 1));
}

async fn a_cancelled_task_that_fails_is_over(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let running = Running::start(Worker::new(queue.clone()), {
        let queue = queue.clone();
        move |_| {
            let queue = queue.clone();
            async move {
                // Long before the next heartbeat tells the worker.
                queue.cancel("0").await.unwrap();
                Outcome::give_up("no luck")
            }
        }
    });
    eventually(async || is_empty(&queue).await).await;
    let report = running.stop().await;
    assert_eq!((report.claimed, report.cancelled, report.done, report.dead), (1, 1, 1, 0));
    assert_eq!(queue.dead("", 1).await.unwrap(), []);
}

async fn a_long_task_keeps_its_lease(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let go = Arc::new(Notify::new());
    let worker = Worker::new(queue.clone()).lease(ms(600));
    let running = Running::start(worker, {
        let go = Arc::clone(&go);
        move |_| {
            let go = Arc::clone(&go);
            async move { go.notified().await }
        }
    });
    eventually(async || queue.stats().await.unwrap().leased == 1).await;
    let until = || async { queue.task("0").await.unwrap().unwrap().lease_until.unwrap() };
    let first = until().await;
    eventually(async || until().await > first + ms(600)).await;
    go.notify_one();
    let report = running.stop().await;
    assert_eq!((report.claimed, report.done, report.lost), (1, 1, 0));
}

async fn a_batch_is_answered_task_by_task(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 25).await;
    let largest = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&largest);
    let handler = move |jobs: Vec<Job<u32>>| {
        seen.fetch_max(jobs.len() as u32, Ordering::SeqCst);
        async move {
            let answer = |job: Job<u32>| match job.payload {
                7 => Outcome::give_up("seven"),
                _ => Outcome::Done,
            };
            jobs.into_iter().map(answer).collect()
        }
    };
    let shutdown = CancellationToken::new();
    let worker = Worker::new(queue.clone()).concurrency(1);
    let running = tokio::spawn(worker.run_batches(10, handler, shutdown.clone()));
    eventually(async || is_empty(&queue).await).await;
    shutdown.cancel();
    let report = running.await.unwrap().unwrap();
    assert_eq!((report.done, report.dead), (24, 1));
    assert_eq!(largest.load(Ordering::SeqCst), 10);
}

async fn a_task_that_comes_while_the_worker_idles_is_taken_at_once(bench: Bench) {
    let queue = numbers(&bench.client());
    let running = Running::start(Worker::new(queue.clone()), async |_| ());
    for round in 0..20 {
        queue.enqueue(format!("round-{round}"), round).send().await.unwrap();
        eventually(async || is_empty(&queue).await).await;
    }
    assert_eq!(running.stop().await.done, 20);
}

async fn no_more_handlers_run_than_allowed(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 60).await;
    let (inside, over) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let worker = Worker::new(queue.clone()).concurrency(3).prefetch(3);
    let running = Running::start(worker, {
        let over = Arc::clone(&over);
        move |_| {
            let (inside, over) = (Arc::clone(&inside), Arc::clone(&over));
            async move {
                if inside.fetch_add(1, Ordering::SeqCst) >= 3 {
                    over.store(true, Ordering::SeqCst);
                }
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
            }
        }
    });
    eventually(async || is_empty(&queue).await).await;
    assert_eq!(running.stop().await.done, 60);
    assert!(!over.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_whose_answer_the_store_refuses_comes_again() {
    let (bench, url) = Bench::sqlite_at();
    let path = url.trim_start_matches("sqlite:").split('?').next().unwrap().to_owned();
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let other = rusqlite::Connection::open(path).unwrap();
    other.busy_timeout(secs(10)).unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE DELETE ON task BEGIN SELECT RAISE(ABORT, 'not now'); END";
    other.execute_batch(refuse).unwrap();

    let attempts = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&attempts);
    let running = Running::start(Worker::new(queue.clone()).lease(ms(300)), move |job| {
        seen.store(job.attempt, Ordering::SeqCst);
        async {}
    });
    // The worker goes on all the while. It must not keep the lease of a task that it is done with.
    common::in_time(eventually(async || attempts.load(Ordering::SeqCst) >= 2)).await;
    other.execute_batch("DROP TRIGGER refuse").unwrap();
    common::in_time(eventually(async || is_empty(&queue).await)).await;
    let report = running.stop().await;
    assert_eq!(report.done, 1, "{report:?}");
    assert!(report.unanswered >= 1, "{report:?}");
}
