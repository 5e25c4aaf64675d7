//! The same work through Rushgate, as an application calls it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rushgate::{
    BuyerId, ContentType, IdempotencyKey, Line, NewTask, Payload, Reserved, Rushgate, SaleBuilder, Sku,
    TaskId,
};

/// Claims whose time is taken.
const CLAIMS: usize = 8_000;
/// Nothing runs out while it is measured.
const LEASE: Duration = Duration::from_secs(600);

async fn open(path: &Path) -> Result<Rushgate> {
    Ok(Rushgate::connect(&format!("sqlite:{}", path.display())).await?)
}

/// Runs `caller` so many times at once until the time is up; each says how much it has done. Gives the sum per
/// second.
async fn together<F>(callers: u64, length: Duration, caller: impl Fn(u64, Instant) -> F) -> Result<f64>
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

async fn lock_cycles(gate: Rushgate, n: u64, end: Instant) -> Result<u64> {
    let lock = gate.lock(format!("lock:{n}"))?;
    let mut done = 0;
    while Instant::now() < end {
        let guard = lock.try_acquire().await?.held().context("nobody else asks")?;
        guard.release().await?;
        done += 1;
    }
    Ok(done)
}

pub async fn lock(path: &Path, callers: u64, length: Duration) -> Result<f64> {
    let gate = open(path).await?;
    let rate = together(callers, length, |n, end| lock_cycles(gate.clone(), n, end)).await?;
    gate.close().await?;
    Ok(rate)
}

/// One step of a lone caller, in microseconds.
pub async fn lone(path: &Path, length: Duration) -> Result<f64> {
    let gate = open(path).await?;
    let start = Instant::now();
    let cycles = lock_cycles(gate.clone(), 0, start + length).await?;
    let micros = start.elapsed().as_secs_f64() * 1e6 / (cycles as f64 * 2.0);
    gate.close().await?;
    Ok(micros)
}

fn task(id: String) -> Result<NewTask> {
    Ok(NewTask::new(TaskId::new(id)?, Payload::new(ContentType::bytes(), vec![b'x'; 100])?))
}

async fn queue_cycles(gate: Rushgate, n: u64, end: Instant) -> Result<u64> {
    let queue = gate.queue("bench")?;
    let mut done = 0;
    while Instant::now() < end {
        queue.enqueue_all(vec![task(format!("task:{n}:{done}"))?]).await?;
        let tasks = queue.claim(1, LEASE).await?;
        ensure!(tasks.len() == 1, "each caller claims what it or another has put in");
        queue.complete(tasks.into_iter().map(|task| task.ticket).collect()).await?;
        done += 1;
    }
    Ok(done)
}

pub async fn queue(path: &Path, callers: u64, length: Duration) -> Result<f64> {
    let gate = open(path).await?;
    let rate = together(callers, length, |n, end| queue_cycles(gate.clone(), n, end)).await?;
    gate.close().await?;
    Ok(rate)
}

pub async fn reserve(path: &Path, callers: u64, length: Duration) -> Result<f64> {
    let gate = open(path).await?;
    let spec = SaleBuilder::new("bench").sku("unit", 10_000_000, 1).hold(LEASE).orders("orders");
    gate.create_sale(spec).await?;
    let sale = gate.sale("bench")?;
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
    gate.close().await?;
    Ok(rate)
}

/// The time of a claim of one task while so many wait, in microseconds. One caller claims, in a store without fsync,
/// so that the time is the claim's and not the disk's.
pub async fn claim_with_waiting(waiting: u64) -> Result<f64> {
    let folder = tempfile::tempdir_in(".")?;
    let url = format!("sqlite:{}?durability=process", folder.path().join("deep.db").display());
    let gate = Rushgate::connect(&url).await?;
    let queue = gate.queue("deep")?;
    for first in (0..waiting).step_by(1_000) {
        // Ids in no order, as real ones are.
        let id = |n: u64| format!("{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        queue.enqueue_all((first..first + 1_000).map(|n| task(id(n))).collect::<Result<_>>()?).await?;
    }
    let start = Instant::now();
    for _ in 0..CLAIMS {
        ensure!(queue.claim(1, LEASE).await?.len() == 1, "enough wait");
    }
    let micros = start.elapsed().as_secs_f64() * 1e6 / CLAIMS as f64;
    gate.close().await?;
    Ok(micros)
}
