//! `rushgate bench`: a store's rate and latency.

use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use rushgate::store::HumanDuration;
use rushgate::{
    BuyerId, IdempotencyKey, Line, LockOutcome, Queue, Reserved, Rushgate, Sale, SaleBuilder, Sku,
};
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
    // Deletes the temporary store at the end.
    let (globals, _folder) = globals.or_temporary("rushgate-bench-", false)?;
    let output = globals.output;
    globals.with_client(async |client| bench(&client, &args, output).await).await
}

async fn bench(client: &Rushgate, args: &BenchArgs, output: Output) -> Result<Exit> {
    // Unique names, so that the benchmark touches no other data.
    let run: u32 = rand::random();
    let name = move |thing: &str| format!("bench-{run:08x}-{thing}");
    output.note(format_args!(
        "{} cycles for {} with {} callers on {}",
        args.subject.word(),
        HumanDuration(args.time()),
        args.callers,
        client.info().url
    ));
    let (before, started) = (client.calls(), Instant::now());
    let latencies = match args.subject {
        Subject::Lock => {
            let client = client.clone();
            load(args, move |caller, _| lock(client.clone(), name(&format!("lock-{caller}")))).await?
        }
        Subject::Queue => {
            let queue = client.queue(name("queue"))?;
            load(args, move |caller, n| cycle(queue.clone(), format!("{caller}-{n}"))).await?
        }
        Subject::Sale => {
            let id = name("sale");
            client.create_sale(SaleBuilder::new(&id).sku("unit", STOCK, 1)).await?;
            let sale = client.sale(&id)?;
            sale.open().await?;
            let buyers = sale.clone();
            let latencies =
                load(args, move |caller, n| reserve(buyers.clone(), format!("{caller}-{n}"))).await?;
            sale.end().await?;
            latencies
        }
    };
    let transactions = client.calls().transactions - before.transactions;
    report(args, &latencies, started.elapsed(), transactions, client, output)
}

/// Runs the callers and merges their latencies, in microseconds. `step` makes one cycle from the number of
/// the caller and that of its cycle.
async fn load<S, F>(args: &BenchArgs, step: S) -> Result<Histogram<u64>>
where
    S: Fn(u32, u64) -> F + Clone + Send + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let until = Instant::now() + args.time();
    let mut callers = JoinSet::new();
    for caller in 0..args.callers {
        let step = step.clone();
        callers.spawn(run_one(move |n| step(caller, n), until));
    }
    let mut all = histogram()?;
    while let Some(one) = callers.join_next().await {
        all.add(one??)?;
    }
    Ok(all)
}

async fn run_one<F: Future<Output = Result<()>>>(
    step: impl Fn(u64) -> F,
    until: Instant,
) -> Result<Histogram<u64>> {
    let mut latencies = histogram()?;
    for n in 1.. {
        let started = Instant::now();
        if started >= until {
            break;
        }
        step(n).await?;
        latencies.saturating_record(started.elapsed().as_micros() as u64);
    }
    Ok(latencies)
}

fn histogram() -> Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1, LATENCY_MAX_US, 3)?)
}

async fn lock(client: Rushgate, name: String) -> Result<()> {
    match client.lock(&name)?.try_acquire().await? {
        LockOutcome::Held(guard) => drop(guard.release().await?),
        LockOutcome::Busy(_) => return Err(unexpected("an unshared lock was busy")),
    }
    Ok(())
}

async fn cycle(queue: Queue, id: String) -> Result<()> {
    let _ = queue.enqueue(id, rushgate::queue::Payload::empty()).send().await?;
    // Each caller enqueues one task and completes one, not necessarily its own.
    let tasks = queue.claim_wait(1, LEASE, LEASE).await?;
    let tickets: Vec<_> = tasks.into_iter().map(|task| task.ticket).collect();
    if tickets.is_empty() {
        return Err(unexpected("no task was claimed"));
    }
    queue.complete(tickets).await?;
    Ok(())
}

async fn reserve(sale: Sale, buyer: String) -> Result<()> {
    let cart = [Line { sku: Sku::new("unit")?, quantity: 1 }];
    match sale.reserve(&BuyerId::new(buyer)?, &cart, &IdempotencyKey::new("click")?).await? {
        Reserved::Reserved(_) => Ok(()),
        _ => Err(unexpected("a unit was refused although some are free")),
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
    client: &Rushgate,
    output: Output,
) -> Result<Exit> {
    let (what, n) = (args.subject.word(), latencies.len());
    let rate = n as f64 / elapsed.as_secs_f64();
    let [p50, p99] = [0.5, 0.99].map(|q| latencies.value_at_quantile(q));
    let info = client.info();
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
