//! Behavior of queues over time: delayed tasks, many waiting tasks, and idle workers. These rows have no
//! ceiling; they report figures of the server and the clients.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use rushgate::queue::{ContentType, Due, NewTask, Payload};
use rushgate::{CancellationToken, Job, Rushgate, TaskId, Timestamp, Worker};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::ours;
use crate::table::{LENGTH, ROUNDS, Table, median, quantile};

/// Number of waiting tasks in these rows.
const WAITING: [(u64, &str); 3] = [(10_000, "10k"), (1_000_000, "1M"), (10_000_000, "10M")];
/// Delayed tasks, and the time over which they fall due.
const DELAYED: u64 = 20_000;
const SPREAD: Duration = Duration::from_secs(4);
/// All tasks must be enqueued before the first is due.
const AHEAD: Duration = Duration::from_secs(3);
/// Tasks whose handler does nothing, and the concurrency of the worker.
const NO_OPS: u64 = 100_000;
const HANDS: u32 = 100;
/// Tasks that are due at the same time, and how long before it they are enqueued.
const AT_ONCE: u64 = 1_000_000;
const AT_ONCE_AHEAD: Duration = Duration::from_secs(60);
/// Idle workers, spread over clients as over processes.
const IDLE: u64 = 1_000;
const CLIENTS: u64 = 10;
/// Two rounds of polls, at most 5 s apart.
const STRETCH: Duration = Duration::from_secs(10);

/// Figures from the store's side: calls received, and CPU time in microseconds if it is a server.
pub type Told<'a> = &'a dyn Fn() -> Result<(f64, f64)>;

/// Rows of the store at `url`, which `fresh` empties or creates.
pub fn measure(
    table: &Table,
    runtime: &Runtime,
    name: &str,
    fresh: &dyn Fn() -> Result<String>,
    told: Option<Told<'_>>,
) -> Result<()> {
    for (n, short) in WAITING {
        let row = format!("{name}: queue cycles/s in batches, {short} waiting");
        // The large ones take minutes and gigabytes, so they run only if requested by name.
        if table.wants(&row) && (n == WAITING[0].0 || table.names(short)) {
            let url = fresh()?;
            runtime.block_on(ours::fill_queue(&url, "bench", n))?;
            let rates = (0..ROUNDS).map(|_| runtime.block_on(ours::queue_in_batches(&url, LENGTH)));
            println!("{row:<52} {:>12.1}", median(rates.collect::<Result<_>>()?));
        }
    }
    let row = format!("{name}: a worker's no-ops: /s, CPU µs each, server's, calls");
    if table.wants(&row) {
        let rounds = (0..ROUNDS).map(|_| drained(runtime, &fresh()?, told)).collect::<Result<Vec<_>>>()?;
        let [rate, ours, servers, calls] =
            [0, 1, 2, 3].map(|at| median(rounds.iter().map(|round| round[at]).collect()));
        println!("{row:<52} {rate:>12.0} {ours:>12.1} {servers:>7.1} {calls:>7.3}");
    }
    let row = format!("{name}: lateness of delayed tasks, p50 and p99 ms");
    if table.wants(&row) {
        let (mut p50, mut p99) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let mut late = runtime.block_on(lateness(&fresh()?))?;
            p50.push(quantile(&mut late, 0.5));
            p99.push(quantile(&mut late, 0.99));
        }
        println!("{row:<52} {:>12.2} {:>12.2}", median(p50), median(p99));
    }
    let row = format!("{name}: 1M due at one moment: /s, calls, all begun after s");
    // Takes a minute and a gigabyte, so it runs only if requested by name.
    if table.wants(&row) && table.names("1M") {
        let [rate, calls, last] = runtime.block_on(all_due_at_once(&fresh()?))?;
        println!("{row:<52} {rate:>12.0} {calls:>12.3} {last:>7.1}");
    }
    let row = format!("{name}: one of 1,000 without work: calls/s, CPU µs/s, server's");
    if table.wants(&row) {
        let [calls, ours, servers] = idle(runtime, &fresh()?, told)?;
        println!("{row:<52} {calls:>12.2} {ours:>12.1} {servers:>7.1}");
    }
    Ok(())
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Time from when a task is due to the start of its handler, in milliseconds, for each of many tasks.
async fn lateness(url: &str) -> Result<Vec<f64>> {
    let (sender, receiver) = (Rushgate::connect(url).await?, Rushgate::connect(url).await?);
    let first = now() + AHEAD;
    let queue = sender.queue("late")?;
    for from in (0..DELAYED).step_by(1_000) {
        let task = |n: u64| {
            let due = first + SPREAD.mul_f64(n as f64 / DELAYED as f64);
            let payload = Payload::new(ContentType::bytes(), vec![b'x'; 100])?;
            let task = NewTask::new(TaskId::new(format!("task:{n}"))?, payload);
            anyhow::Ok(NewTask { due: Due::At(Timestamp::from_micros(due.as_micros() as u64)), ..task })
        };
        queue.enqueue_all((from..from + 1_000).map(task).collect::<Result<_>>()?).await?;
    }
    ensure!(now() < first, "the tasks could not be enqueued before the first was due");
    let (late, stop) = (Arc::new(Mutex::new(Vec::with_capacity(DELAYED as usize))), CancellationToken::new());
    let (all, over) = (Arc::clone(&late), stop.clone());
    let handler = move |job: Job| {
        let late = now().as_secs_f64() * 1e3 - job.ticket.due.as_micros() as f64 / 1e3;
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(late);
        if all.len() as u64 == DELAYED {
            over.cancel();
        }
        async {}
    };
    let worker = Worker::new(&receiver.queue("late")?).register("*", handler).concurrency(100);
    worker.run(stop).await?;
    sender.close().await?;
    receiver.close().await?;
    let late = std::mem::take(&mut *late.lock().unwrap_or_else(PoisonError::into_inner));
    ensure!(late.iter().all(|late| *late >= 0.0), "a task was claimed before it was due");
    Ok(late)
}

/// A worker with a concurrency of 100 runs tasks that do nothing: tasks per second; and per task the CPU time
/// here, that of the server, and the calls.
fn drained(runtime: &Runtime, url: &str, told: Option<Told<'_>>) -> Result<[f64; 4]> {
    runtime.block_on(ours::fill_queue(url, "noop", NO_OPS))?;
    let client = runtime.block_on(Rushgate::connect(url))?;
    let look =
        || anyhow::Ok((told.map_or(Ok((client.calls().calls as f64, 0.0)), |told| told())?, cpu_us()?));
    let (((calls_before, server_before), cpu_before), start) = (look()?, Instant::now());
    let (stop, left) = (CancellationToken::new(), Arc::new(AtomicU64::new(NO_OPS)));
    let handler = {
        let stop = stop.clone();
        move |_: Job| {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                stop.cancel();
            }
            async {}
        }
    };
    let worker = Worker::new(&client.queue("noop")?).register("*", handler).concurrency(HANDS);
    runtime.block_on(worker.run(stop))?;
    let length = start.elapsed().as_secs_f64();
    let ((calls_after, server_after), cpu_after) = look()?;
    ensure!(runtime.block_on(client.queue("noop")?.stats())?.ready == 0, "every task is done");
    runtime.block_on(client.close())?;
    let each = |difference: f64| difference / NO_OPS as f64;
    Ok([
        NO_OPS as f64 / length,
        each(cpu_after - cpu_before),
        each(server_after - server_before),
        each(calls_after - calls_before),
    ])
}

/// A worker with a concurrency of 100 waits for one million tasks that are due at the same time: tasks
/// started per second, calls per task, and seconds until the last one starts. Each task must be claimed once.
async fn all_due_at_once(url: &str) -> Result<[f64; 3]> {
    let (sender, receiver) = (Rushgate::connect(url).await?, Rushgate::connect(url).await?);
    let moment = now() + AT_ONCE_AHEAD;
    let queue = sender.queue("once")?;
    for first in (0..AT_ONCE).step_by(1_000) {
        let task = |n: u64| {
            let payload = Payload::new(ContentType::bytes(), vec![b'x'; 100])?;
            let task = NewTask::new(TaskId::new(format!("task:{n}"))?, payload);
            anyhow::Ok(NewTask { due: Due::At(Timestamp::from_micros(moment.as_micros() as u64)), ..task })
        };
        queue.enqueue_all((first..first + 1_000).map(task).collect::<Result<_>>()?).await?;
    }
    ensure!(now() < moment, "the tasks could not be enqueued before they were due");
    let (begun, last, stop) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), CancellationToken::new());
    let handler = {
        let (begun, last, stop) = (Arc::clone(&begun), Arc::clone(&last), stop.clone());
        move |_: Job| {
            if begun.fetch_add(1, Ordering::Relaxed) + 1 == AT_ONCE {
                last.store(now().as_micros() as u64, Ordering::Relaxed);
                stop.cancel();
            }
            async {}
        }
    };
    let calls = receiver.calls().calls;
    let worker = Worker::new(&receiver.queue("once")?).register("*", handler).concurrency(HANDS);
    worker.run(stop).await?;
    let calls = (receiver.calls().calls - calls) as f64;
    let stats = sender.queue("once")?.stats().await?;
    ensure!(
        begun.load(Ordering::Relaxed) == AT_ONCE && stats.ready == 0 && stats.leased == 0,
        "each is done once"
    );
    sender.close().await?;
    receiver.close().await?;
    let last = last.load(Ordering::Relaxed) as f64 / 1e6 - moment.as_secs_f64();
    Ok([AT_ONCE as f64 / last, calls / AT_ONCE as f64, last])
}

/// Cost of one idle worker per second: calls of the store, CPU time here, and that of the server.
fn idle(runtime: &Runtime, url: &str, told: Option<Told<'_>>) -> Result<[f64; 3]> {
    let stop = CancellationToken::new();
    let (clients, workers) = runtime.block_on(async {
        let (mut clients, mut workers) = (Vec::new(), JoinSet::new());
        for _ in 0..CLIENTS {
            let client = Rushgate::connect(url).await?;
            let queue = client.queue("idle")?;
            for _ in 0..IDLE / CLIENTS {
                let worker = Worker::new(&queue).register("*", async |_: Job| {});
                workers.spawn(worker.run(stop.clone()));
            }
            clients.push(client);
        }
        // Every worker has polled, and sleeps.
        tokio::time::sleep(STRETCH).await;
        anyhow::Ok((clients, workers))
    })?;
    let calls = || clients.iter().map(|client| client.calls().calls as f64).sum::<f64>();
    let look = || anyhow::Ok((told.map_or(Ok((calls(), 0.0)), |told| told())?, cpu_us()?));
    let (((calls_before, server_before), cpu_before), start) = (look()?, Instant::now());
    std::thread::sleep(STRETCH);
    let ((calls_after, server_after), cpu_after) = look()?;
    let each = |difference: f64| difference / start.elapsed().as_secs_f64() / IDLE as f64;
    stop.cancel();
    runtime.block_on(async {
        let mut workers = workers;
        while let Some(worked) = workers.join_next().await {
            worked??;
        }
        for client in clients {
            client.close().await?;
        }
        anyhow::Ok(())
    })?;
    Ok([each(calls_after - calls_before), each(cpu_after - cpu_before), each(server_after - server_before)])
}

/// CPU time of this process, in microseconds.
fn cpu_us() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The text before is the process name, which may contain spaces.
    let (_, fields) = stat.rsplit_once(") ").context("/proc/self/stat has a known format")?;
    let ticks = |at: usize| fields.split(' ').nth(at).and_then(|n| n.parse::<f64>().ok());
    // A tick is 10 ms on every Linux system.
    Ok((ticks(11).context("user time")? + ticks(12).context("system time")?) * 10_000.0)
}
