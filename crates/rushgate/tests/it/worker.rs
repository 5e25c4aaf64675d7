//! Workers: every task ends exactly one way, whatever its handler does.

use crate::common;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Bench, eventually, ms, secs};
use rushgate::lock::Fence;
use rushgate::queue::{
    ContentType, Dequeued, Finish, FinishedTask, Payload, Priority, QueueLimits, QueueName, Retention,
    Selection, TaskKey, TaskProgress, Ticket, TraceParent, WorkerInfo, WorkerMode,
};
use rushgate::store::Page;
use rushgate::worker::{Attempt, Backoff, Outcome, Output, Progress, State, WorkerReport};
use rushgate::{CancellationToken, Job, Queue, Rushgate, TaskId, Timestamp, Worker};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

on_each_store! {
    tasks_are_done_once_each
    a_failed_task_is_tried_again
    a_panic_is_a_failed_attempt
    a_handler_that_takes_too_long_is_a_failed_attempt
    a_handler_gets_what_came_of_those_that_its_task_waited_for
    a_handler_is_stopped_at_its_tasks_deadline
    a_deadline_of_one_stops_a_batch_and_costs_the_others_no_attempt
    a_task_that_is_given_up_is_a_dead_letter
    content_that_cannot_be_read_is_a_dead_letter
    a_shutdown_finishes_what_was_started_and_gives_back_the_rest
    what_outlives_the_grace_is_released
    a_lost_lease_cancels_the_handler
    a_cancelled_task_tells_its_handler_and_ends
    a_cancelled_task_that_fails_is_over
    a_long_task_keeps_its_lease
    a_batch_is_answered_task_by_task
    a_task_that_comes_while_the_worker_idles_is_taken_at_once
    no_more_handlers_run_than_allowed
    each_kind_has_its_handler
    a_handler_may_ask_for_all_that_is_known_of_its_task
    a_task_of_an_unknown_kind_waits_for_a_worker_that_knows_it
    a_discarded_task_is_over_and_counted_apart
    a_task_that_comes_too_early_comes_again_without_an_attempt_counted
    a_kind_may_have_its_own_terms
    a_blocking_handler_does_not_starve_the_heartbeat
    a_blocking_handler_that_takes_too_long_is_told
    a_blocking_handlers_panic_is_a_failed_attempt
    layers_see_every_task_and_the_last_is_outermost
    the_layers_of_tower_serve
    queues_share_the_slots_by_weight
    a_queue_alone_has_all_slots
    what_a_worker_does_can_be_read_while_it_does_it
    a_result_reaches_its_waiter
    a_waiter_is_notified_of_every_other_end_too
    progress_travels_with_the_lease
    a_worker_is_listed_while_it_lives
    a_quiet_worker_continues_its_task_and_claims_no_other
    a_worker_stops_in_order_when_an_operator_asks
}

on_a_cluster! {
    tasks_are_done_once_each
}

/// The workers at the queue, by name.
async fn listed(queue: &Queue<u32>) -> Vec<WorkerInfo> {
    let mut workers = queue.workers(Page::default()).await.unwrap();
    workers.sort_by(|one, other| one.name.cmp(&other.name));
    workers
}

/// The only worker at the queue, once it has announced itself after that time.
async fn announced_after(queue: &Queue<u32>, time: Timestamp) -> WorkerInfo {
    loop {
        let worker = listed(queue).await.remove(0);
        if worker.seen > time {
            return worker;
        }
        tokio::time::sleep(ms(2)).await;
    }
}

async fn a_worker_is_listed_while_it_lives(bench: Bench) {
    let queue = numbers(&bench.client());
    let other: Queue<u32> = bench.client().queue_of("others").unwrap();
    let worker = |name: &str| Worker::new(&numbers(&bench.client())).queue(&other, 1).label(name);
    let idle = Running::start(worker("idle").concurrency(3), async |_| ());
    let busy = Running::start(worker("mailer on h1").version("shop 7"), async |_| ());
    eventually(async || listed(&queue).await.len() == 2 && listed(&other).await.len() == 2).await;
    let [first, second] = <[_; 2]>::try_from(listed(&queue).await).expect("there are two");
    assert_eq!((first.name.as_str(), first.concurrency, first.running), ("idle", 3, 0));
    assert_eq!(first.version, concat!("rushgate ", env!("CARGO_PKG_VERSION")));
    assert_eq!((second.name.as_str(), second.version.as_str()), ("mailer on h1", "shop 7"));
    assert_eq!(first.lease_until, first.seen + secs(30));
    assert_eq!(listed(&other).await[0].id, first.id, "a worker has one ID");
    idle.stop().await;
    assert_eq!(listed(&queue).await.len(), 1);
    busy.stop().await;
    assert!(listed(&queue).await.is_empty() && listed(&other).await.is_empty());
}

/// With the default times: a worker announces itself every 10 s.
async fn a_quiet_worker_continues_its_task_and_claims_no_other(bench: Bench) {
    let queue = numbers(&bench.client());
    let (go, claimed) = (Arc::new(Notify::new()), Arc::new(AtomicU64::new(0)));
    let running = Running::start(Worker::new(&numbers(&bench.client())).concurrency(2), {
        let (go, claimed) = (Arc::clone(&go), Arc::clone(&claimed));
        move |job| {
            let (go, claimed) = (Arc::clone(&go), Arc::clone(&claimed));
            async move {
                match job.payload {
                    0 => go.notified().await,
                    _ => claimed.store(job.fence().as_u64(), Ordering::SeqCst),
                }
            }
        }
    });
    fill(&queue, 1).await;
    eventually(async || queue.stats().await.unwrap().leased == 1 && listed(&queue).await.len() == 1).await;
    let [worker] = <[_; 1]>::try_from(listed(&queue).await).expect("there is one");
    assert!(queue.set_worker(&worker.id, WorkerMode::Quiet).await.unwrap());
    // With its second announcement, the worker has the answer of the first.
    let first = announced_after(&queue, worker.seen).await;
    let quiet = announced_after(&queue, first.seen).await;
    assert_eq!((quiet.running, quiet.mode), (1, WorkerMode::Quiet), "the running task continues");

    queue.enqueue("later", 1).send().await.unwrap();
    assert!(queue.set_worker(&worker.id, WorkerMode::Work).await.unwrap());
    eventually(async || queue.stats().await.unwrap().ready == 0).await;
    let works = listed(&queue).await.remove(0);
    assert!(works.seen > quiet.seen, "the task waited until the worker was told to work");
    eventually(async || claimed.load(Ordering::SeqCst) > 0).await;
    assert!(claimed.load(Ordering::SeqCst) >= works.seen.as_micros());
    go.notify_one();
    assert_eq!(running.stop().await.done, 2);
}

async fn a_worker_stops_in_order_when_an_operator_asks(bench: Bench) {
    let queue = numbers(&bench.client());
    let go = Arc::new(Notify::new());
    let running = Running::start(Worker::new(&numbers(&bench.client())).concurrency(1), {
        let go = Arc::clone(&go);
        move |_| {
            let go = Arc::clone(&go);
            async move { go.notified().await }
        }
    });
    fill(&queue, 2).await;
    eventually(async || queue.stats().await.unwrap().leased == 1 && listed(&queue).await.len() == 1).await;
    let [worker] = <[_; 1]>::try_from(listed(&queue).await).expect("there is one");
    assert!(queue.set_worker(&worker.id, WorkerMode::Stop).await.unwrap());
    eventually(async || listed(&queue).await[0].seen > worker.seen).await;
    go.notify_one();
    let report = running.worker.await.unwrap().unwrap();
    assert_eq!((report.claimed, report.done, report.released), (1, 1, 0));
    assert!(listed(&queue).await.is_empty());
    assert!(!queue.set_worker(&worker.id, WorkerMode::Work).await.unwrap());
}

const QUICK: Backoff =
    Backoff { base: Duration::from_millis(1), factor: 1.0, max: Duration::from_millis(1), jitter: false };

fn numbers(client: &Rushgate) -> Queue<u32> {
    client.queue_of("numbers").unwrap()
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
    fn start<F, Fut, O>(worker: Worker, handler: F) -> Self
    where
        F: Fn(Job<u32>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = O> + Send + 'static,
        O: rushgate::worker::IntoOutcome + 'static,
    {
        Self::just(worker.register("*", handler))
    }

    fn just<S: Clone + Send + Sync + 'static>(worker: Worker<S>) -> Self {
        let shutdown = CancellationToken::new();
        let worker = tokio::spawn(worker.run(shutdown.clone()));
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
        let worker = Worker::new(&numbers(&bench.client())).concurrency(8).prefetch(prefetch * 8);
        Running::start(worker, move |job| {
            sum.fetch_add(u64::from(job.payload), Ordering::SeqCst);
            async {}
        })
    });
    eventually(async || is_empty(&queue).await).await;
    let mut done = 0;
    for worker in workers {
        let report = worker.stop().await;
        assert_eq!(report.claimed, report.done + report.released);
        done += report.done;
    }
    assert_eq!((done, sum.load(Ordering::SeqCst)), (300, 299 * 300 / 2));
}

async fn a_failed_task_is_tried_again(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let worker = Worker::new(&queue).retry_policy(QUICK);
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
    let worker = Worker::new(&queue).retry_policy(QUICK);
    let running = Running::start(worker, async |job: Job<u32>| assert_eq!(job.payload, 2, "one is not two"));
    eventually(async || queue.stats().await.unwrap().dead == 1).await;
    let report = running.stop().await;
    assert_eq!((report.panicked, report.retried, report.dead), (2, 1, 1));
    let dead = queue.dead(Page::first(1)).await.unwrap();
    assert!(dead[0].error.contains("one is not two"), "{}", dead[0].error);
}

async fn a_handler_that_takes_too_long_is_a_failed_attempt(bench: Bench) {
    let queue = numbers(&bench.client());
    queue.enqueue("1", 1).max_attempts(1).send().await.unwrap();
    let worker = Worker::new(&queue).timeout(ms(20));
    let running = Running::start(worker, |_| std::future::pending::<()>());
    eventually(async || queue.stats().await.unwrap().dead == 1).await;
    let report = running.stop().await;
    assert_eq!((report.timed_out, report.dead), (1, 1));
}

async fn a_handler_gets_what_came_of_those_that_its_task_waited_for(bench: Bench) {
    let queue = numbers(&bench.client());
    let retention = Some(Retention::new(secs(60), 10));
    queue.limit(QueueLimits { retention, ..QueueLimits::default() }).await.unwrap();
    queue.enqueue("sum", 0).held_open().send().await.unwrap();
    for n in 1..=120 {
        queue.enqueue(n.to_string(), n).part_of("sum").send().await.unwrap();
    }
    queue.close_batch("sum").await.unwrap();
    let running = Running::start(Worker::new(&queue), async |job: Job<u32>| {
        let parts = job.results.read::<u32>().await?;
        Ok::<_, rushgate::Error>(Output(parts.into_iter().map(|(_, part)| part).sum::<u32>() + job.payload))
    });
    let over = queue.wait_for("sum", secs(60)).await.unwrap().expect("the task is over");
    assert_eq!(over.result::<u32>().unwrap(), Some(120 * 121 / 2));
    running.stop().await;
}

async fn a_handler_is_stopped_at_its_tasks_deadline(bench: Bench) {
    let queue = numbers(&bench.client());
    let running = Running::start(Worker::new(&queue), async |job: Job<u32>| {
        assert!(job.deadline.is_some());
        std::future::pending::<()>().await
    });
    queue.enqueue("1", 1).deadline(secs(2)).send().await.unwrap();
    eventually(async || queue.stats().await.unwrap().dead == 1).await;
    let report = running.stop().await;
    assert_eq!((report.timed_out, report.dead, report.retried), (1, 1, 0));
    let dead = queue.dead(Page::first(1)).await.unwrap();
    assert!(dead[0].error.contains("deadline"), "{}", dead[0].error);
}

async fn a_deadline_of_one_stops_a_batch_and_costs_the_others_no_attempt(bench: Bench) {
    let queue = numbers(&bench.client());
    let pair = [queue.enqueue("late", 1).deadline(secs(2)), queue.enqueue("other", 2)];
    for one in pair {
        one.send().await.unwrap();
    }
    let runs = Arc::new(AtomicU32::new(0));
    let worker = Worker::new(&queue).register_batches("*", 2, {
        let runs = Arc::clone(&runs);
        move |jobs: Vec<Job<u32>>| {
            let first = runs.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                if first {
                    std::future::pending::<()>().await;
                }
                assert!(jobs.iter().all(|job| job.id().as_str() == "other" && job.attempt == 1));
                vec![Outcome::Done; jobs.len()]
            }
        }
    });
    let running = Running::just(worker);
    eventually(async || {
        let stats = queue.stats().await.unwrap();
        (stats.dead, stats.ready + stats.leased) == (1, 0)
    })
    .await;
    let report = running.stop().await;
    assert_eq!((report.done, report.dead, report.retried), (1, 1, 0), "{report:?}");
    assert_eq!(queue.dead(Page::first(10)).await.unwrap()[0].id.as_str(), "late");
}

async fn a_task_that_is_given_up_is_a_dead_letter(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let running = Running::start(Worker::new(&queue), async |_| Outcome::give_up("never"));
    eventually(async || queue.stats().await.unwrap().dead == 1).await;
    assert_eq!(running.stop().await.dead, 1);
}

async fn content_that_cannot_be_read_is_a_dead_letter(bench: Bench) {
    let client = bench.client();
    client.queue_of("numbers").unwrap().enqueue("1", "one".to_owned()).send().await.unwrap();
    let queue = numbers(&client);
    let running = Running::start(Worker::new(&queue), async |_| ());
    eventually(async || queue.stats().await.unwrap().dead == 1).await;
    assert_eq!(running.stop().await.done, 0);
}

async fn a_shutdown_finishes_what_was_started_and_gives_back_the_rest(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 4).await;
    let (started, go) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let worker = Worker::new(&queue).concurrency(2).prefetch(2);
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
    assert_eq!((report.claimed, report.done, report.released), (4, 2, 2));
    let left = queue.claim(4, secs(30)).await.unwrap();
    assert!(left.len() == 2 && left.iter().all(|task| task.attempt == 1), "no attempt was counted");
}

async fn what_outlives_the_grace_is_released(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let started = Arc::new(Notify::new());
    let worker = Worker::new(&queue).grace(ms(20));
    let running = Running::start(worker, {
        let started = Arc::clone(&started);
        move |_| {
            started.notify_one();
            std::future::pending::<()>()
        }
    });
    started.notified().await;
    let report = running.stop().await;
    assert_eq!((report.claimed, report.done, report.released), (1, 0, 1));
    assert_eq!(queue.claim(1, secs(30)).await.unwrap()[0].attempt, 1);
}

async fn a_lost_lease_cancels_the_handler(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker::new(&queue).lease(ms(300));
    let running = Running::start(worker, move |job: Job<u32>| {
        tell.send((job.ticket, job.cancel)).unwrap();
        std::future::pending::<()>()
    });
    let (ticket, cancel) = told.recv().await.unwrap();
    assert_eq!(queue.dequeue(ticket).await.unwrap(), Dequeued::Removed);
    cancel.cancelled().await;
    let report = running.stop().await;
    assert_eq!((report.lost, report.done, report.released), (1, 0, 0));
}

async fn a_cancelled_task_tells_its_handler_and_ends(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let (started, lease) = (Arc::new(Notify::new()), secs(4));
    let worker = Worker::new(&queue).lease(lease);
    let metrics = worker.metrics();
    let at_hand = || metrics.snapshot().queues[0].kinds[0].at_hand();
    let running = Running::start(worker, {
        let started = Arc::clone(&started);
        move |job: Job<u32>| {
            started.notify_one();
            async move { job.cancel.cancelled().await }
        }
    });
    started.notified().await;
    assert_eq!(at_hand(), 1);
    let asked = Instant::now();
    queue.cancel("0").await.unwrap();
    eventually(async || is_empty(&queue).await).await;
    assert!(asked.elapsed() < lease, "a heartbeat reports it within a third of the lease");
    let report = running.stop().await;
    assert_eq!((report.cancelled, report.done, report.lost, at_hand()), (1, 1, 0, 0));
}

async fn a_cancelled_task_that_fails_is_over(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let running = Running::start(Worker::new(&queue), {
        let queue = queue.clone();
        move |_| {
            let queue = queue.clone();
            async move {
                // Long before the next heartbeat could report it.
                queue.cancel("0").await.unwrap();
                Outcome::give_up("no luck")
            }
        }
    });
    eventually(async || is_empty(&queue).await).await;
    let report = running.stop().await;
    assert_eq!((report.claimed, report.cancelled, report.done, report.dead), (1, 1, 1, 0));
    assert_eq!(queue.dead(Page::first(1)).await.unwrap(), []);
}

async fn a_long_task_keeps_its_lease(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let go = Arc::new(Notify::new());
    // Long enough that a busy machine misses no heartbeat.
    let worker = Worker::new(&queue).lease(secs(2));
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
    eventually(async || until().await > first + secs(2)).await;
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
    let running = Running::just(Worker::new(&queue).concurrency(1).register_batches("*", 10, handler));
    eventually(async || is_empty(&queue).await).await;
    let report = running.stop().await;
    assert_eq!((report.done, report.dead), (24, 1));
    assert_eq!(largest.load(Ordering::SeqCst), 10);
}

async fn a_task_that_comes_while_the_worker_idles_is_taken_at_once(bench: Bench) {
    let queue = numbers(&bench.client());
    let running = Running::start(Worker::new(&queue), async |_| ());
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
    let worker = Worker::new(&queue).concurrency(3).prefetch(3);
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
    let running = Running::start(Worker::new(&queue).lease(ms(300)), move |job| {
        seen.store(job.attempt, Ordering::SeqCst);
        async {}
    });
    // The worker keeps running. It must not renew the lease of a task that it has finished with.
    common::in_time(eventually(async || attempts.load(Ordering::SeqCst) >= 2)).await;
    other.execute_batch("DROP TRIGGER refuse").unwrap();
    common::in_time(eventually(async || is_empty(&queue).await)).await;
    let report = running.stop().await;
    assert_eq!(report.done, 1, "{report:?}");
    assert!(report.unanswered >= 1, "{report:?}");
}

async fn each_kind_has_its_handler(bench: Bench) {
    let queue = bench.client().queue_of::<serde_json::Value>("mixed").unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let other = tell.clone();
    async fn double(n: u32, State(tell): State<Tell>, id: TaskId, attempt: Attempt, fence: Fence) {
        assert!(fence.as_u64() > 0 && attempt.number == 1 && attempt.max == 20 && !attempt.is_last());
        tell.send(format!("{id} {}", n * 2)).unwrap();
    }
    queue.enqueue("a", 21.into()).kind("double").send().await.unwrap();
    queue.enqueue("b", "text".into()).kind("else").send().await.unwrap();
    queue.enqueue("c", "text".into()).send().await.unwrap();
    let worker =
        Worker::new(&queue).state(tell).register("double", double).register("*", move |text: Job<String>| {
            other.send(format!("{} {:?} {}", text.id(), text.kind(), text.payload)).unwrap();
            async {}
        });
    let running = Running::just(worker);
    let mut said = [told.recv().await, told.recv().await, told.recv().await].map(Option::unwrap);
    said.sort();
    assert_eq!(said, ["a 42", "b Some(\"else\") text", "c None text"]);
    assert_eq!(running.stop().await.done, 3);
}

type Tell = tokio::sync::mpsc::UnboundedSender<String>;

async fn a_handler_may_ask_for_all_that_is_known_of_its_task(bench: Bench) {
    type Known = (u32, Ticket, QueueName, Option<TraceParent>, Option<TaskKey>, Priority);
    async fn tell(
        n: u32,
        ticket: Ticket,
        queue: QueueName,
        parent: Option<TraceParent>,
        key: Option<TaskKey>,
        priority: Priority,
        State(told): State<tokio::sync::mpsc::UnboundedSender<Known>>,
    ) {
        told.send((n, ticket, queue, parent, key, priority)).unwrap();
    }
    let queue = numbers(&bench.client());
    let parent: TraceParent = "00-0af7651916cd43dd8448eb211c803101-b7ad6b7169203331-01".parse().unwrap();
    let mut traced = queue.new_task("traced", 1).unwrap();
    traced.payload = traced.payload.with_traceparent(&parent).unwrap();
    traced.key = Some("ann".parse().unwrap());
    traced.priority = Priority::new(2).unwrap();
    queue.enqueue_all(vec![traced, queue.new_task("plain", 2).unwrap()]).await.unwrap();
    let (tell_it, mut told) = tokio::sync::mpsc::unbounded_channel();
    let running = Running::just(Worker::new(&queue).concurrency(1).state(tell_it).register("*", tell));
    let (first, second) = (told.recv().await.unwrap(), told.recv().await.unwrap());
    assert_eq!((first.0, first.1.id.as_str(), &first.2), (1, "traced", queue.name()));
    assert!(first.1.claim.is_some(), "the fence is the claim's number");
    assert_eq!(
        (first.3, first.4.as_ref().map(TaskKey::as_str), first.5.get()),
        (Some(parent), Some("ann"), 2)
    );
    assert_eq!((second.0, second.1.id.as_str(), second.3, second.4), (2, "plain", None, None));
    assert_eq!(running.stop().await.done, 2);
}

async fn a_task_of_an_unknown_kind_waits_for_a_worker_that_knows_it(bench: Bench) {
    let queue = numbers(&bench.client());
    queue.enqueue("new", 1).kind("new").max_attempts(3).send().await.unwrap();
    let old = Worker::new(&queue).retry_policy(QUICK).register("old", async |_: u32| ());
    let running = Running::just(old);
    eventually(async || queue.stats().await.unwrap().dead == 1).await;
    let report = running.stop().await;
    assert_eq!((report.unknown, report.retried, report.dead), (3, 2, 1));
    let letter = &queue.dead(Page::first(1)).await.unwrap()[0];
    assert!(letter.error.contains("no handler for the kind `new`"), "{}", letter.error);
    queue.requeue_dead(Selection::All).await.unwrap();
    let running = Running::just(Worker::new(&queue).register("new", async |_: u32| ()));
    eventually(async || is_empty(&queue).await).await;
    assert_eq!(running.stop().await.done, 1);
}

async fn a_kind_may_have_its_own_terms(bench: Bench) {
    let queue = numbers(&bench.client());
    queue.enqueue("slow", 1).kind("slow").send().await.unwrap();
    queue.enqueue("own", 2).kind("own").send().await.unwrap();
    let fixed = Backoff { base: secs(3_600), factor: 1.0, max: secs(3_600), jitter: false };
    let worker = Worker::new(&queue)
        .retry_policy(fixed)
        .timeout_of("slow", ms(10))
        .register("slow", async |_: u32| std::future::pending::<()>().await)
        .retry_policy_of("own", QUICK)
        .register("own", async |_: u32, attempt: Attempt| match attempt.number {
            1 => Err("once"),
            _ => Ok(()),
        });
    let running = Running::just(worker);
    eventually(async || queue.task("own").await.unwrap().is_none()).await;
    eventually(async || queue.stats().await.unwrap().scheduled == 1).await;
    let report = running.stop().await;
    assert_eq!((report.timed_out, report.retried, report.done), (1, 2, 1));
}

async fn a_task_that_comes_too_early_comes_again_without_an_attempt_counted(bench: Bench) {
    let queue = numbers(&bench.client());
    queue.enqueue("early", 0).max_attempts(1).send().await.unwrap();
    let tries = Arc::new(AtomicU32::new(0));
    let worker = Worker::new(&queue).register("*", {
        let tries = Arc::clone(&tries);
        move |_: u32, attempt: Attempt| {
            let number = tries.fetch_add(1, Ordering::SeqCst);
            async move {
                assert_eq!(attempt.number, 1);
                if number < 3 { Outcome::snooze(Duration::from_millis(5)) } else { Outcome::Done }
            }
        }
    });
    let running = Running::just(worker);
    common::in_time(eventually(async || queue.task("early").await.unwrap().is_none())).await;
    let report = running.stop().await;
    assert_eq!((tries.load(Ordering::SeqCst), report.released, report.done, report.dead), (4, 3, 1, 0));
}

async fn keep(queue: &Queue<u32>) {
    let retention = Some(Retention::new(secs(600), 100));
    queue.limit(QueueLimits { retention, ..QueueLimits::default() }).await.unwrap();
}

async fn a_result_reaches_its_waiter(bench: Bench) {
    let (queue, other) = (numbers(&bench.client()), numbers(&bench.client()));
    queue.enqueue("twice", 21).send().await.unwrap();
    let error = other.wait_for("twice", secs(60)).await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("has no retention"), "{error}");
    keep(&queue).await;
    assert_eq!(other.wait_for("twice", ms(1)).await.unwrap(), None);
    let waits = tokio::spawn(async move { other.wait_for("twice", Duration::MAX).await });
    let running = Running::just(Worker::new(&queue).register("*", async |n: u32| Output(2 * n)));
    let over = common::in_time(waits).await.unwrap().unwrap().expect("the task is over");
    assert_eq!(over.result::<u32>().unwrap(), Some(42));
    assert!(over.result::<String>().unwrap_err().is_invalid());
    let again = queue.wait_for("twice", Duration::ZERO).await.unwrap().expect("its result is kept");
    assert_eq!(again, over);
    assert_eq!(queue.wait_for("stranger", secs(60)).await.unwrap(), Some(FinishedTask::Gone));
    assert_eq!(running.stop().await.done, 1);
}

async fn a_waiter_is_notified_of_every_other_end_too(bench: Bench) {
    let queue = numbers(&bench.client());
    keep(&queue).await;
    fill(&queue, 3).await;
    let wait = |id: &'static str| {
        let queue = queue.clone();
        tokio::spawn(async move { queue.wait_for(id, secs(60)).await })
    };
    let waiting = [wait("0"), wait("1"), wait("2")];
    fn large() -> Payload {
        Payload::new(ContentType::bytes(), vec![0; 70_000]).unwrap()
    }
    let worker = Worker::new(&queue).register("*", async |n: u32| match n {
        0 => Outcome::discard("nobody wants it"),
        1 => Outcome::give_up("never"),
        _ => Outcome::DoneWith(large()),
    });
    let running = Running::just(worker);
    let mut overs = Vec::new();
    for one in waiting {
        overs.push(common::in_time(one).await.unwrap().unwrap().expect("the task is over"));
    }
    let [FinishedTask::Finished(discarded), FinishedTask::Dead(dead), FinishedTask::Dead(large)] = &overs[..]
    else {
        panic!("{overs:?}")
    };
    assert_eq!(discarded.finished.as_ref().unwrap().how, Finish::Discarded);
    assert_eq!((dead.error.as_str(), dead.past.len()), ("never", 1));
    assert!(large.error.contains("at most 65536"), "{}", large.error);
    running.stop().await;
}

async fn progress_travels_with_the_lease(bench: Bench) {
    let queue = numbers(&bench.client());
    queue.enqueue("long", 1).send().await.unwrap();
    let go_on = Arc::new(Notify::new());
    let worker = Worker::new(&queue).lease(ms(600)).register("*", {
        let go_on = Arc::clone(&go_on);
        move |_: u32, progress: Progress| {
            let go_on = Arc::clone(&go_on);
            async move {
                progress.percent(40);
                progress.note("page 4 of 10");
                go_on.notified().await;
            }
        }
    });
    let running = Running::just(worker);
    let seen = TaskProgress { percent: Some(40), note: "page 4 of 10".to_owned() };
    eventually(async || {
        queue.task("long").await.unwrap().is_some_and(|task| task.progress == Some(seen.clone()))
    })
    .await;
    go_on.notify_one();
    eventually(async || is_empty(&queue).await).await;
    assert_eq!(running.stop().await.done, 1);
}

async fn a_discarded_task_is_over_and_counted_apart(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 3).await;
    let worker = Worker::new(&queue).register("*", async |n: u32| match n {
        0 => Err(Outcome::discard("nobody wants it")),
        1 => "no number".parse::<u8>().map(|_| ()).map_err(Outcome::from),
        _ => Ok(()),
    });
    let running = Running::just(worker);
    eventually(async || queue.task("0").await.unwrap().is_none()).await;
    eventually(async || queue.task("1").await.unwrap().is_some_and(|task| task.error.is_some())).await;
    let why = queue.task("1").await.unwrap().unwrap().error;
    assert_eq!(why.as_deref(), Some("invalid digit found in string"));
    eventually(async || queue.task("2").await.unwrap().is_none()).await;
    let report = running.stop().await;
    assert_eq!((report.discarded, report.done, report.dead), (1, 1, 0), "{report:?}");
    assert!(report.retried >= 1);
}

async fn a_blocking_handler_does_not_starve_the_heartbeat(bench: Bench) {
    let queue = numbers(&bench.client());
    // One blocking handler per runtime thread: on those threads, nothing else could run.
    fill(&queue, 2).await;
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    let worker = Worker::new(&queue).lease(secs(2)).register_blocking("*", move |_: u32| {
        gone.lock().unwrap().recv().unwrap();
    });
    let running = Running::just(worker);
    eventually(async || queue.stats().await.unwrap().leased == 2).await;
    let until = || async { queue.task("0").await.unwrap().unwrap().lease_until.unwrap() };
    let first = until().await;
    eventually(async || until().await > first + secs(2)).await;
    go.send(()).unwrap();
    go.send(()).unwrap();
    let report = running.stop().await;
    assert_eq!((report.claimed, report.done, report.lost), (2, 2, 0));
}

async fn a_blocking_handler_that_takes_too_long_is_told(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker::new(&queue).timeout(ms(50)).retry_policy(QUICK).register_blocking(
        "*",
        move |_: u32, attempt: Attempt, cancel: CancellationToken| {
            if attempt.number == 1 {
                while !cancel.is_cancelled() {
                    std::thread::yield_now();
                }
                tell.send(()).unwrap();
            }
        },
    );
    let running = Running::just(worker);
    told.recv().await.unwrap();
    eventually(async || is_empty(&queue).await).await;
    let report = running.stop().await;
    assert!(report.timed_out >= 1 && report.cancelled == 0 && report.done == 1, "{report:?}");
}

async fn a_blocking_handlers_panic_is_a_failed_attempt(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let handler = |_: u32, attempt: Attempt| assert_ne!(attempt.number, 1, "on purpose");
    let worker = Worker::new(&queue).retry_policy(QUICK).register_blocking("*", handler);
    let running = Running::just(worker);
    eventually(async || is_empty(&queue).await).await;
    let report = running.stop().await;
    assert_eq!((report.panicked, report.retried, report.done), (1, 1, 1), "{report:?}");
}

/// A layer that logs every call, and fails for some.
#[derive(Clone)]
struct Spy {
    name: &'static str,
    tell: Tell,
    fails: bool,
}

#[derive(Clone)]
struct Spied<W>(W, Spy);

impl<W> tower_layer::Layer<W> for Spy {
    type Service = Spied<W>;
    fn layer(&self, inner: W) -> Spied<W> {
        Spied(inner, self.clone())
    }
}

impl<W> tower_service::Service<Job> for Spied<W>
where
    W: tower_service::Service<Job, Response = Outcome, Future: Send + 'static>,
    W::Error: Into<rushgate::worker::BoxError>,
{
    type Response = Outcome;
    type Error = rushgate::worker::BoxError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Outcome, Self::Error>> + Send>>;

    fn poll_ready(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, job: Job) -> Self::Future {
        let Spy { name, tell, fails } = self.1.clone();
        tell.send(format!("{name} sees {}", job.id())).unwrap();
        let handled = self.0.call(job);
        Box::pin(async move {
            if fails {
                return Err("the spy fails".into());
            }
            let outcome = handled.await.map_err(Into::into)?;
            tell.send(format!("{name} hears {outcome:?}")).unwrap();
            Ok(outcome)
        })
    }
}

async fn layers_see_every_task_and_the_last_is_outermost(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 1).await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let spy = |name, fails| Spy { name, tell: tell.clone(), fails };
    let worker = Worker::new(&queue).layer(spy("inner", false)).register("*", async |_: u32| ());
    let running = Running::just(worker.layer(spy("outer", false)));
    let mut said = Vec::new();
    for _ in 0..4 {
        said.push(told.recv().await.unwrap());
    }
    assert_eq!(said, ["outer sees 0", "inner sees 0", "inner hears Done", "outer hears Done"]);
    assert_eq!(running.stop().await.done, 1);

    fill(&queue, 1).await;
    let worker = Worker::new(&queue).layer(spy("failing", true)).register("*", async |_: u32| ());
    let running = Running::just(worker);
    let failed = async || queue.task("0").await.unwrap().and_then(|task| task.error);
    eventually(async || failed().await.is_some()).await;
    assert_eq!(failed().await.as_deref(), Some("the spy fails"));
    running.stop().await;
}

async fn the_layers_of_tower_serve(bench: Bench) {
    let queue = numbers(&bench.client());
    fill(&queue, 20).await;
    let (room, over) = (Arc::new(Semaphore::new(2)), Arc::new(AtomicBool::new(false)));
    let seen = Arc::clone(&over);
    let worker = Worker::new(&queue)
        .concurrency(8)
        .retry_policy(QUICK)
        .register("*", move |n: u32, attempt: Attempt| {
            let (room, over) = (Arc::clone(&room), Arc::clone(&over));
            async move {
                // The permit is released on every path out.
                let inside = room.try_acquire();
                over.fetch_or(inside.is_err(), Ordering::SeqCst);
                if (n, attempt.number) == (0, 1) {
                    std::future::pending::<()>().await;
                }
                tokio::task::yield_now().await;
            }
        })
        .layer(tower::timeout::TimeoutLayer::new(ms(200)))
        .layer(tower::limit::GlobalConcurrencyLimitLayer::new(2));
    let running = Running::just(worker);
    eventually(async || is_empty(&queue).await).await;
    let report = running.stop().await;
    assert_eq!(
        (report.done, report.dead, report.timed_out),
        (20, 0, 0),
        "the worker has no timeout of its own"
    );
    assert!(report.retried >= 1 && !seen.load(Ordering::SeqCst), "{report:?}");
}

async fn queues_share_the_slots_by_weight(bench: Bench) {
    let client = bench.client();
    let [much, little] = ["much", "little"].map(|name| client.queue_of::<u32>(name).unwrap());
    fill(&much, 40).await;
    fill(&little, 40).await;
    let (started, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let at_work = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let worker = Worker::new(&much).weight(3).queue(&little, 1).concurrency(8);
    let running = Running::start(worker, {
        let (started, go, at_work) = (Arc::clone(&started), Arc::clone(&go), Arc::clone(&at_work));
        move |job| {
            let (started, go, at_work) = (Arc::clone(&started), Arc::clone(&go), Arc::clone(&at_work));
            async move {
                let mine = &at_work[usize::from(job.queue.as_str() == "little")];
                mine.fetch_add(1, Ordering::SeqCst);
                started.add_permits(1);
                go.acquire().await.unwrap().forget();
                mine.fetch_sub(1, Ordering::SeqCst);
            }
        }
    });
    started.acquire_many(8).await.unwrap().forget();
    // The first queue took all slots. As its tasks end, each queue gets its share.
    for _ in 0..16 {
        go.add_permits(1);
        started.acquire().await.unwrap().forget();
    }
    let shares = [0, 1].map(|queue| at_work[queue].load(Ordering::SeqCst));
    assert_eq!(shares, [6, 2]);
    go.add_permits(1_000);
    eventually(async || is_empty(&much).await && is_empty(&little).await).await;
    assert_eq!(running.stop().await.done, 80);
}

async fn a_queue_alone_has_all_slots(bench: Bench) {
    let client = bench.client();
    let [busy, empty] = ["busy", "empty"].map(|name| client.queue_of::<u32>(name).unwrap());
    fill(&busy, 8).await;
    let (started, go) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let worker = Worker::new(&busy).queue(&empty, 9).concurrency(8);
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
    started.acquire_many(8).await.unwrap().forget();
    go.notify_waiters();
    eventually(async || is_empty(&busy).await).await;
    fill(&empty, 1).await;
    started.acquire().await.unwrap().forget();
    go.notify_waiters();
    eventually(async || is_empty(&empty).await).await;
    assert_eq!(running.stop().await.done, 9);
}

async fn what_a_worker_does_can_be_read_while_it_does_it(bench: Bench) {
    let queue = numbers(&bench.client());
    queue.enqueue("1", 1).kind("odd").send().await.unwrap();
    queue.enqueue("2", 2).kind("even").send().await.unwrap();
    let worker = Worker::new(&queue)
        .label("one")
        .register("odd", async |_: u32| ())
        .register("*", async |_: u32| Outcome::give_up("even"));
    let metrics = worker.metrics();
    assert_eq!(metrics.snapshot().total(), WorkerReport::default());
    let running = Running::just(worker);
    eventually(async || metrics.snapshot().total().dead == 1 && metrics.snapshot().total().done == 1).await;
    let seen = metrics.snapshot();
    let kinds: Vec<_> = seen.queues[0]
        .kinds
        .iter()
        .map(|kind| (kind.kind.as_str(), kind.tasks.done, kind.tasks.dead, kind.run.count()))
        .collect();
    assert_eq!((seen.worker.as_str(), kinds), ("one", vec![("odd", 1, 0, 1), ("*", 0, 1, 1)]));
    assert!(seen.queues[0].claim.count() >= 1);
    assert_eq!(running.stop().await, metrics.snapshot().total());
}

#[tokio::test]
async fn a_worker_that_is_put_together_wrongly_says_so() {
    let client = Bench::model().client();
    let queue = numbers(&client);
    let worker = || Worker::new(&queue);
    let none = async |_: u32| ();
    for (worker, part) in [
        (worker(), "has no handler"),
        (worker().register("a b", none), "the kind contains ' '"),
        (worker().register("a", none).register("a", none), "two handlers for the kind `a`"),
        (worker().register("*", none).concurrency(0), "the concurrency"),
        (worker().register("*", none).weight(0), "the weight of a queue"),
        (worker().register("*", none).timeout_of("a", ms(1)), "for the kind `a`, but no handler"),
        (worker().register_batches("*", 0, async |jobs: Vec<Job<u32>>| vec![(); jobs.len()]), "the batch"),
    ] {
        let error = common::in_time(worker.run(CancellationToken::new())).await.unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(part), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_of_two_stores_stops_in_order_in_both() {
    let (one, two) = (Bench::model(), Bench::sqlite());
    let (here, there) = (numbers(&one.client()), numbers(&two.client()));
    fill(&here, 3).await;
    fill(&there, 3).await;
    let (started, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let worker = Worker::new(&here).queue(&there, 1).concurrency(2).prefetch(2);
    let running = Running::start(worker, {
        let (started, go) = (Arc::clone(&started), Arc::clone(&go));
        move |_| {
            let (started, go) = (Arc::clone(&started), Arc::clone(&go));
            async move {
                started.add_permits(1);
                go.acquire().await.unwrap().forget();
            }
        }
    });
    let leased = async || here.stats().await.unwrap().leased + there.stats().await.unwrap().leased;
    common::in_time(async {
        started.acquire_many(2).await.unwrap().forget();
        eventually(async || leased().await == 4).await;
    })
    .await;
    running.shutdown.cancel();
    // Tasks claimed ahead return to their queue before the running handlers end.
    common::in_time(eventually(async || leased().await == 2)).await;
    go.add_permits(2);
    let report = common::in_time(running.stop()).await;
    // A claim in flight at shutdown also returns its tasks; the report does not count them.
    assert_eq!((report.done, report.claimed), (2, 2 + report.released));
    let ready = async || here.stats().await.unwrap().ready + there.stats().await.unwrap().ready;
    common::in_time(eventually(async || (ready().await, leased().await) == (4, 0))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_works_while_its_caller_is_busy() {
    let queue = numbers(&Bench::model().client());
    let (done, seen) = std::sync::mpsc::channel();
    let worker = Worker::new(&queue).register("*", move |n: u32| {
        let done = done.clone();
        async move { done.send(n).unwrap() }
    });
    let mut running = Box::pin(worker.run(CancellationToken::new()));
    tokio::select! {
        biased;
        _ = &mut running => panic!("nothing stops the worker"),
        () = std::future::ready(()) => {}
    }
    queue.enqueue("one", 1).send().await.unwrap();
    assert_eq!(seen.recv_timeout(secs(30)), Ok(1), "this thread waits, and polls nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_dropped_drops_its_handlers_and_claims_no_more() {
    let queue = numbers(&Bench::model().client());
    let (started, handlers) = (Arc::new(Semaphore::new(0)), Arc::new(()));
    let worker = Worker::new(&queue).register("*", {
        let (started, handlers) = (Arc::clone(&started), Arc::clone(&handlers));
        move |_: u32| {
            let (started, handler) = (Arc::clone(&started), Arc::clone(&handlers));
            async move {
                started.add_permits(1);
                std::future::pending::<()>().await;
                drop(handler);
            }
        }
    });
    fill(&queue, 1).await;
    common::in_time(async {
        tokio::select! {
            _ = worker.run(CancellationToken::new()) => panic!("nothing stops the worker"),
            permit = started.acquire() => permit.unwrap().forget(),
        }
        eventually(async || Arc::strong_count(&handlers) == 1).await;
    })
    .await;
    queue.enqueue("later", 1).send().await.unwrap();
    assert_eq!(queue.claim(1, secs(30)).await.unwrap().len(), 1);
}
