//! The same work through Rushgate's store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rushgate_core::{
    Acquire, Acquired, BuyerId, Claim, ClientId, ContentType, HoldTime, IdempotencyKey, Lease, Line,
    LockName, LockStore, NewTask, Op, Owner, Payload, QueueName, QueueStore, ReservationId, Reserve,
    Reserved, SaleId, SaleSecret, SaleSpec, SaleStore, Sku, SkuSpec, Store, TaskId, Token, UnitChoice,
};
use rushgate_sqlite::SqliteStore;

fn open(path: &Path) -> Result<Arc<SqliteStore>> {
    Ok(Arc::new(SqliteStore::open(&format!("sqlite:{}", path.display()))?))
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

async fn lock_cycles(store: Arc<SqliteStore>, n: u64, end: Instant) -> Result<u64> {
    let name = LockName::new(format!("lock:{n}"))?;
    let client = ClientId::from_u64(n);
    let mut done = 0;
    while Instant::now() < end {
        let token = Token::new(client, done);
        let ask = Acquire {
            name: name.clone(),
            token,
            lease: Lease::new(Duration::from_secs(15))?,
            wait: Duration::ZERO,
            barging: false,
            owner: Owner { host: "host".into(), pid: 1, label: String::new() },
        };
        ensure!(matches!(store.acquire(ask).await?, Acquired::Granted(_)), "nobody else asks");
        store.release(&name, token).await?;
        done += 1;
    }
    Ok(done)
}

pub async fn lock(path: &Path, callers: u64, length: Duration) -> Result<f64> {
    let store = open(path)?;
    let rate = together(callers, length, |n, end| lock_cycles(Arc::clone(&store), n, end)).await?;
    store.close().await?;
    Ok(rate)
}

pub async fn lone(path: &Path, length: Duration) -> Result<f64> {
    let store = open(path)?;
    let start = Instant::now();
    let cycles = lock_cycles(Arc::clone(&store), 0, start + length).await?;
    let micros = start.elapsed().as_secs_f64() * 1e6 / (cycles as f64 * 2.0);
    store.close().await?;
    Ok(micros)
}

fn task(id: String) -> Result<NewTask> {
    Ok(NewTask::new(TaskId::new(id)?, Payload::new(ContentType::bytes(), vec![b'x'; 100])?))
}

async fn queue_cycles(store: Arc<SqliteStore>, n: u64, end: Instant) -> Result<u64> {
    let queue = QueueName::new("bench")?;
    let client = ClientId::from_u64(n);
    let lease = Lease::new(Duration::from_secs(30))?;
    let mut done = 0;
    while Instant::now() < end {
        let op = |step| Op::new(client, done * 3 + step);
        store.enqueue(op(0), &queue, vec![task(format!("task:{n}:{done}"))?]).await?;
        let claimed = store.claim(op(1), &queue, Claim { n: 1, lease, worker: "worker".into() }).await?;
        let tickets: Vec<_> = claimed.tasks.into_iter().map(|task| task.ticket).collect();
        ensure!(tickets.len() == 1, "each caller claims what it or another has put in");
        store.complete(op(2), &queue, tickets).await?;
        done += 1;
    }
    Ok(done)
}

pub async fn queue(path: &Path, callers: u64, length: Duration) -> Result<f64> {
    let store = open(path)?;
    let rate = together(callers, length, |n, end| queue_cycles(Arc::clone(&store), n, end)).await?;
    store.close().await?;
    Ok(rate)
}

pub async fn reserve(path: &Path, callers: u64, length: Duration) -> Result<f64> {
    let store = open(path)?;
    let sale = SaleId::new("bench")?;
    let secret = SaleSecret::from_bytes([7; 16]);
    let sku = Sku::new("unit")?;
    store
        .create(SaleSpec {
            id: sale.clone(),
            skus: vec![SkuSpec { sku: sku.clone(), units: 10_000_000, per_buyer: 1 }],
            hold: HoldTime::new(Duration::from_secs(600))?,
            opens_at: None,
            closes_at: None,
            orders: Some(QueueName::new("orders")?),
            secret,
        })
        .await?;
    SaleStore::open(&*store, &sale).await?;
    let buyers = Arc::new(AtomicU64::new(0));
    let rate = together(callers, length, |_, end| {
        let (store, sale, sku, buyers) = (Arc::clone(&store), sale.clone(), sku.clone(), Arc::clone(&buyers));
        async move {
            let mut done = 0;
            while Instant::now() < end {
                let buyer = BuyerId::new(format!("buyer:{}", buyers.fetch_add(1, Ordering::Relaxed)))?;
                let id = ReservationId::derive(secret, &sale, &buyer, &IdempotencyKey::new("1")?);
                let lines = vec![Line { sku: sku.clone(), quantity: 1 }];
                let ask = Reserve { sale: sale.clone(), id, buyer, lines, choice: UnitChoice::Any };
                ensure!(
                    matches!(store.reserve(ask).await?, Reserved::Reserved(_)),
                    "there is enough for all"
                );
                done += 1;
            }
            Ok(done)
        }
    })
    .await?;
    store.close().await?;
    Ok(rate)
}

/// Claims whose time is taken.
const CLAIMS: usize = 8_000;

/// The time of a claim of one task while so many wait, in microseconds. One caller claims, in
/// a store without fsync, so that the time is the claim's and not the disk's.
pub async fn claim_with_waiting(waiting: u64) -> Result<f64> {
    let folder = tempfile::tempdir_in(".")?;
    let url = format!("sqlite:{}?durability=process", folder.path().join("deep.db").display());
    let store = SqliteStore::open(&url)?;
    let queue = QueueName::new("deep")?;
    let client = ClientId::from_u64(1);
    let mut op = 0;
    for first in (0..waiting).step_by(1_000) {
        // Ids in no order, as real ones are.
        let id = |n: u64| format!("{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let tasks = (first..first + 1_000).map(|n| task(id(n))).collect::<Result<_>>()?;
        op += 1;
        store.enqueue(Op::new(client, op), &queue, tasks).await?;
    }
    let lease = Lease::new(Duration::from_secs(600))?;
    let start = Instant::now();
    let mut claimed = 0;
    while claimed < CLAIMS {
        op += 1;
        let claim = Claim { n: 1, lease, worker: "worker".into() };
        claimed += store.claim(Op::new(client, op), &queue, claim).await?.tasks.len();
    }
    let micros = start.elapsed().as_secs_f64() * 1e6 / claimed as f64;
    store.close().await?;
    Ok(micros)
}
