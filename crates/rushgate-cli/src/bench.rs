//! `rushgate bench`: a store's rate and latency.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use rushgate::store::Spoken;
use rushgate::{BuyerId, IdempotencyKey, Line, LockOutcome, Queue, Reserved, Rushgate, SaleBuilder, Sku};
use serde_json::json;
use tokio::task::JoinSet;

use crate::args::tools::{BenchArgs, Subject};
use crate::exit::{Exit, Fault};
use crate::globals::Globals;
use crate::output::Output;

/// Maximum recorded latency, in microseconds.
const LATENCY_MAX_US: u64 = 60_000_000;
/// More units than the benchmark can reserve.
const STOCK: u32 = 10_000_000;
const LEASE: Duration = Duration::from_secs(30);

pub(crate) async fn run(args: BenchArgs, globals: &Globals) -> Result<Exit> {
    let mut globals = globals.clone();
    // Deletes the temporary store at the end.
    let _fresh = match globals.store {
        Some(_) => None,
        None => {
            let fresh = tempfile::tempdir().context("cannot create a temporary directory")?;
            globals.store = Some(format!("sqlite:{}", fresh.path().join("bench.db").display()));
            Some(fresh)
        }
    };
    let output = globals.output();
    globals.with_gate(async |gate| bench(&gate, &args, output).await).await
}

async fn bench(gate: &Rushgate, args: &BenchArgs, output: Output) -> Result<Exit> {
    let names = Names(rand::random());
    output.note(format_args!(
        "{} cycles for {} with {} callers on {}",
        args.subject.word(),
        Spoken(args.time()),
        args.callers,
        gate.info().url
    ));
    let (before, started) = (gate.calls(), Instant::now());
    let latencies = match args.subject {
        Subject::Lock => {
            crowd(args, |caller| lock(gate.clone(), names.of(&format!("lock-{caller}")))).await?
        }
        Subject::Queue => {
            let queue = gate.queue(names.of("queue"))?;
            crowd(args, |caller| cycle(queue.clone(), caller)).await?
        }
        Subject::Sale => {
            let id = names.of("sale");
            gate.create_sale(SaleBuilder::new(&id).sku("unit", STOCK, 1)).await?;
            gate.sale(&id)?.open().await?;
            let latencies = crowd(args, |caller| reserve(gate.clone(), id.clone(), caller)).await?;
            gate.sale(&id)?.end().await?;
            latencies
        }
    };
    let transactions = gate.calls().transactions - before.transactions;
    report(args, &latencies, started.elapsed(), transactions, gate, output)?;
    Ok(Exit::Done)
}

/// Unique names for the benchmark's locks, queue and sale, so that it touches no other data.
struct Names(u32);

impl Names {
    fn of(&self, thing: &str) -> String {
        format!("bench-{:08x}-{thing}", self.0)
    }
}

/// One step of one caller.
trait Step: Send + 'static {
    fn step(&mut self) -> impl Future<Output = Result<()>> + Send;
}

/// Runs the callers and merges their latencies, in microseconds.
async fn crowd<S: Step>(args: &BenchArgs, caller: impl Fn(u32) -> S) -> Result<Histogram<u64>> {
    let until = Instant::now() + args.time();
    let mut callers = JoinSet::new();
    for n in 0..args.callers {
        callers.spawn(run_one(caller(n), until));
    }
    let mut all = histogram()?;
    while let Some(one) = callers.join_next().await {
        all.add(one??)?;
    }
    Ok(all)
}

async fn run_one(mut caller: impl Step, until: Instant) -> Result<Histogram<u64>> {
    let mut latencies = histogram()?;
    loop {
        let started = Instant::now();
        if started >= until {
            return Ok(latencies);
        }
        caller.step().await?;
        latencies.saturating_record(started.elapsed().as_micros() as u64);
    }
}

fn histogram() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LATENCY_MAX_US, 3)?)
}

struct LockStep(Rushgate, String);

fn lock(gate: Rushgate, name: String) -> impl Step {
    LockStep(gate, name)
}

impl Step for LockStep {
    async fn step(&mut self) -> Result<()> {
        match self.0.lock(&self.1)?.try_acquire().await? {
            LockOutcome::Held(guard) => drop(guard.release().await?),
            LockOutcome::Busy(_) => return Err(unexpected("an unshared lock was busy")),
        }
        Ok(())
    }
}

struct QueueStep {
    queue: Queue,
    caller: u32,
    n: u64,
}

fn cycle(queue: Queue, caller: u32) -> impl Step {
    QueueStep { queue, caller, n: 0 }
}

impl Step for QueueStep {
    async fn step(&mut self) -> Result<()> {
        self.n += 1;
        let id = format!("{}-{}", self.caller, self.n);
        let _ = self.queue.enqueue(id, rushgate::queue::Payload::empty()).send().await?;
        // Each caller enqueues one task and completes one, not necessarily its own.
        let tasks = self.queue.claim_wait(1, LEASE, LEASE).await?;
        let tickets: Vec<_> = tasks.into_iter().map(|task| task.ticket).collect();
        if tickets.is_empty() {
            return Err(unexpected("no task was claimed"));
        }
        self.queue.complete(tickets).await?;
        Ok(())
    }
}

struct SaleStep {
    gate: Rushgate,
    id: String,
    caller: u32,
    n: u64,
}

fn reserve(gate: Rushgate, id: String, caller: u32) -> impl Step {
    SaleStep { gate, id, caller, n: 0 }
}

impl Step for SaleStep {
    async fn step(&mut self) -> Result<()> {
        self.n += 1;
        let buyer = BuyerId::new(format!("{}-{}", self.caller, self.n))?;
        let cart = [Line { sku: Sku::new("unit")?, quantity: 1 }];
        let answer = self.gate.sale(&self.id)?.reserve(&buyer, &cart, &IdempotencyKey::new("click")?).await?;
        match answer {
            Reserved::Reserved(_) => Ok(()),
            _ => Err(unexpected("a unit was refused although some are free")),
        }
    }
}

fn unexpected(what: &str) -> anyhow::Error {
    Fault::new(Exit::Bug, "bug", what).into()
}

fn report(
    args: &BenchArgs,
    latencies: &Histogram<u64>,
    elapsed: Duration,
    transactions: u64,
    gate: &Rushgate,
    output: Output,
) -> Result<()> {
    let (what, n) = (args.subject.word(), latencies.len());
    let rate = n as f64 / elapsed.as_secs_f64();
    let [p50, p99] = [0.5, 0.99].map(|q| latencies.value_at_quantile(q));
    let info = gate.info();
    let json = json!({
        "bench": what, "callers": args.callers, "elapsed_ms": elapsed.as_millis() as u64, "cycles": n,
        "cycles_per_second": rate.round(), "latency_us": { "p50": p50, "p99": p99, "max": latencies.max() },
        "transactions": transactions, "store": info.url, "durability": info.durability,
    });
    let text = format!(
        "{rate:.0} {what} cycles a second with {} callers: p50 {p50} µs, p99 {p99} µs, max {} µs; \
         {transactions} transactions, {:?}",
        args.callers,
        latencies.max(),
        info.durability,
    );
    output.line(&json, text)
}
