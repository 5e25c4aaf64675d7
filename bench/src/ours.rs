//! The same work through Rushgate, called as an application would.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rushgate::queue::{ContentType, NewTask, Payload};
use rushgate::{
    BuyerId, CancellationToken, IdempotencyKey, Job, Line, Queue, Reserved, Rushgate, SaleBuilder, Sku,
    TaskId, Worker,
};
use tokio::sync::{Notify, mpsc};

use crate::table::quantile;

/// Number of claims that are timed.
const CLAIMS: usize = 8_000;
/// Longer than any measurement, so that no lease expires.
const LEASE: Duration = Duration::from_secs(600);

/// Runs `caller` `callers` times concurrently until the time is up. Each returns how much it has done.
/// Returns the sum per second.
pub async fn together<F>(callers: u64, length: Duration, caller: impl Fn(u64, Instant) -> F) -> Result<f64>
where
    F: Future<Output = Result<u64>> + Send + 'static,
{
    let start = Instant::now();
    let tasks: Vec<_> = (0..callers).map(|n| tokio::spawn(caller(n, start + length))).collect();
    let mut done = 0;
    for task in tasks {
        done += task.await??;
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}

async fn lock_cycles(client: Rushgate, n: u64, end: Instant) -> Result<u64> {
    let lock = client.lock(format!("lock:{n}"))?;
    let mut done = 0;
    while Instant::now() < end {
        let guard = lock.try_acquire().await?.held().context("nobody else asks")?;
        guard.release().await?;
        done += 1;
    }
    Ok(done)
}

pub async fn lock(url: &str, callers: u64, length: Duration) -> Result<f64> {
    let client = Rushgate::connect(url).await?;
    let rate = together(callers, length, |n, end| lock_cycles(client.clone(), n, end)).await?;
    client.close().await?;
    Ok(rate)
}

/// One step of a single caller, in microseconds.
pub async fn lone(url: &str, length: Duration) -> Result<f64> {
    let client = Rushgate::connect(url).await?;
    let start = Instant::now();
    let cycles = lock_cycles(client.clone(), 0, start + length).await?;
    let micros = start.elapsed().as_secs_f64() * 1e6 / (cycles as f64 * 2.0);
    client.close().await?;
    Ok(micros)
}

fn task(id: String) -> Result<NewTask> {
    Ok(NewTask::new(TaskId::new(id)?, Payload::new(ContentType::bytes(), vec![b'x'; 100])?))
}

async fn queue_cycles(client: Rushgate, n: u64, end: Instant) -> Result<u64> {
    let queue = client.queue("bench")?;
    let mut done = 0;
    while Instant::now() < end {
        queue.enqueue_all(vec![task(format!("task:{n}:{done}"))?]).await?;
        let tasks = queue.claim(1, LEASE).await?;
        ensure!(tasks.len() == 1, "there is a task for each caller");
        queue.complete(tasks.into_iter().map(|task| task.ticket).collect()).await?;
        done += 1;
    }
    Ok(done)
}

pub async fn queue(url: &str, callers: u64, length: Duration) -> Result<f64> {
    let client = Rushgate::connect(url).await?;
    let rate = together(callers, length, |n, end| queue_cycles(client.clone(), n, end)).await?;
    client.close().await?;
    Ok(rate)
}

/// Tasks per call.
const BATCH: u64 = 64;

/// A few callers enqueue, claim and complete batches, so that the server is always busy.
pub async fn queue_in_batches(url: &str, length: Duration) -> Result<f64> {
    let client = Rushgate::connect(url).await?;
    // Tasks of an earlier round may still be queued.
    let round = client.client_id().as_u64();
    let rate = together(4, length, |n, end| {
        let client = client.clone();
        async move {
            let queue = client.queue("bench")?;
            let mut done = 0;
            while Instant::now() < end {
                let id = |m: u64| format!("cycle:{round}:{n}:{done}:{m}");
                queue.enqueue_all((0..BATCH).map(|m| task(id(m))).collect::<Result<_>>()?).await?;
                let tasks = queue.claim(BATCH as u32, LEASE).await?;
                ensure!(tasks.len() as u64 == BATCH, "there is a batch for each caller");
                queue.complete(tasks.into_iter().map(|task| task.ticket).collect()).await?;
                done += BATCH;
            }
            Ok(done)
        }
    })
    .await?;
    client.close().await?;
    Ok(rate)
}

/// Time that a worker without tasks needs to become idle.
pub const SETTLED: Duration = Duration::from_millis(5);
/// Number of measured hand-overs and pick-ups.
pub const TIMES: usize = 2_000;

/// Time from a release to the return of the next waiter's `acquire`: p50 and p99, in microseconds.
pub async fn hand_over(url: String) -> Result<(f64, f64)> {
    // Two clients, like two machines.
    let (giver, taker) = (Rushgate::connect(&url).await?, Rushgate::connect(&url).await?);
    let (mut times, again) = (Vec::with_capacity(TIMES), Arc::new(Notify::new()));
    for _ in 0..TIMES {
        let held = giver.lock("hot")?.acquire().await?.held().context("nobody else asks")?;
        let waiting = tokio::spawn({
            let (lock, again) = (taker.lock("hot")?.wait(Duration::from_secs(10)), Arc::clone(&again));
            async move {
                let guard = lock.acquire().await?.held().context("it is next in line")?;
                let got = Instant::now();
                guard.release().await?;
                again.notify_one();
                anyhow::Ok(got)
            }
        });
        while giver.lock("hot")?.waiters().await?.is_empty() {}
        let start = Instant::now();
        held.release().await?;
        again.notified().await;
        times.push((waiting.await?? - start).as_secs_f64() * 1e6);
    }
    giver.close().await?;
    taker.close().await?;
    Ok((quantile(&mut times, 0.5), quantile(&mut times, 0.99)))
}

/// Time from an enqueue to the start of the handler in an idle worker: p50 and p99, in microseconds.
pub async fn pick_up(url: String) -> Result<(f64, f64)> {
    let (sender, receiver) = (Rushgate::connect(&url).await?, Rushgate::connect(&url).await?);
    let (started, mut starts) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let handler = move |_: Job<Payload>| {
        let _ = started.send(Instant::now());
        async { Ok::<_, std::io::Error>(()) }
    };
    let worker = Worker::new(&receiver.queue("idle")?).register("*", handler);
    let working = tokio::spawn(worker.run(stop.clone()));
    let queue = sender.queue("idle")?;
    let mut times = Vec::with_capacity(TIMES);
    for n in 0..TIMES {
        // Until the worker has reported the last task and is idle, and the store knows it.
        while idle_not_yet(&queue).await? {}
        tokio::time::sleep(SETTLED).await;
        let start = Instant::now();
        queue.enqueue_all(vec![task(format!("task:{n}"))?]).await?;
        let began = starts.recv().await.context("the worker runs")?;
        times.push((began - start).as_secs_f64() * 1e6);
    }
    stop.cancel();
    working.await??;
    sender.close().await?;
    receiver.close().await?;
    Ok((quantile(&mut times, 0.5), quantile(&mut times, 0.99)))
}

async fn idle_not_yet(queue: &Queue) -> Result<bool> {
    let stats = queue.stats().await?;
    Ok(stats.ready + stats.leased > 0)
}

/// Enqueues `tasks` tasks of 100 bytes.
pub async fn fill(url: &str, tasks: u64) -> Result<()> {
    fill_queue(url, "deep", tasks).await
}

/// Enqueues `tasks` tasks of 100 bytes into `queue`.
pub async fn fill_queue(url: &str, queue: &str, tasks: u64) -> Result<()> {
    let client = Rushgate::connect(url).await?;
    let queue = client.queue(queue)?;
    for first in (0..tasks).step_by(1_000) {
        let id = |n: u64| format!("task:{n:017}");
        queue.enqueue_all((first..first + 1_000).map(|n| task(id(n))).collect::<Result<_>>()?).await?;
    }
    client.close().await?;
    Ok(())
}

pub async fn reserve(url: &str, callers: u64, length: Duration) -> Result<f64> {
    let client = Rushgate::connect(url).await?;
    let spec = SaleBuilder::new("bench").sku("unit", 10_000_000, 1).hold(LEASE).ledger();
    client.create_sale(spec).await?;
    let sale = client.sale("bench")?;
    sale.open().await?;
    let cart: Arc<[Line]> = Arc::new([Line { sku: Sku::new("unit")?, quantity: 1 }]);
    let buyers = Arc::new(AtomicU64::new(0));
    let rate = together(callers, length, |_, end| {
        let (sale, cart, buyers) = (sale.clone(), Arc::clone(&cart), Arc::clone(&buyers));
        async move {
            let key = IdempotencyKey::new("1")?;
            let mut done = 0;
            while Instant::now() < end {
                let buyer = BuyerId::new(format!("buyer:{}", buyers.fetch_add(1, Ordering::Relaxed)))?;
                let answer = sale.reserve(&buyer, &cart, &key).await?;
                ensure!(matches!(answer, Reserved::Reserved(_)), "there is enough for all");
                done += 1;
            }
            Ok(done)
        }
    })
    .await?;
    client.close().await?;
    Ok(rate)
}

/// Time of a claim of one task while `waiting` others are due, in microseconds. A single caller claims, in a
/// store without fsync, so that the disk does not count.
pub async fn claim_with_waiting(waiting: u64) -> Result<f64> {
    let folder = tempfile::tempdir_in(".")?;
    let url = format!("sqlite:{}?durability=process", folder.path().join("deep.db").display());
    let client = Rushgate::connect(&url).await?;
    let queue = client.queue("deep")?;
    for first in (0..waiting).step_by(1_000) {
        // IDs in random order, like real ones.
        let id = |n: u64| format!("{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        queue.enqueue_all((first..first + 1_000).map(|n| task(id(n))).collect::<Result<_>>()?).await?;
    }
    let start = Instant::now();
    for _ in 0..CLAIMS {
        ensure!(queue.claim(1, LEASE).await?.len() == 1, "enough wait");
    }
    let micros = start.elapsed().as_secs_f64() * 1e6 / CLAIMS as f64;
    client.close().await?;
    Ok(micros)
}
