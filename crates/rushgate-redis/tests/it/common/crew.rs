//! Workers that use a store concurrently: they lock, enqueue and process tasks, and buy. Each retries until it gets an
//! answer and records it. At the end the records are compared with the store.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rushgate_core::{
    Acquire, Acquired, BuyerId, Claim, ClientId, Completed, ContentType, Error, HoldTime, IdempotencyKey,
    Lease, Line, LockName, NewTask, Op, Owner, Payload, QueueName, ReservationId, Reserve, Reserved, Result,
    SaleId, SaleSecret, SaleSpec, Sku, SkuSpec, TaskId, Token, UnitChoice, Verbs, audit_store,
};
use rushgate_redis::RedisStore;

/// What all workers recorded, compared with the store at the end.
#[derive(Debug, Default)]
pub struct Findings {
    /// Number of answers.
    #[expect(dead_code, reason = "it is only printed")]
    pub answers: u64,
    /// The longest time that a worker waited for an answer, for each trade.
    pub gaps: BTreeMap<&'static str, Duration>,
    /// Calls that failed and were retried.
    #[expect(dead_code, reason = "it is only printed")]
    pub errors: u64,
    /// Acknowledged tasks and reservations that are lost.
    pub lost: usize,
    /// Grants of a lock while another worker held it, by that worker's lease.
    pub shared: u64,
    /// Tasks that were executed more than once.
    pub repeated: usize,
}

/// The resource behind one lock, which rejects a smaller fencing token.
#[derive(Default)]
struct Guarded {
    holders: u64,
    latest: u64,
    fences: HashMap<u64, Token>,
}

#[derive(Default)]
struct Ledger {
    guarded: Mutex<BTreeMap<LockName, Guarded>>,
    put: Mutex<BTreeSet<TaskId>>,
    done: Mutex<BTreeMap<TaskId, usize>>,
    bought: Mutex<Vec<ReservationId>>,
    shared: AtomicU64,
    errors: AtomicU64,
    numbers: AtomicU64,
}

/// A worker, and when it was last answered.
struct Member {
    trade: &'static str,
    answers: AtomicU64,
    last: Mutex<Instant>,
    gap: Mutex<Duration>,
    error: Mutex<String>,
}

impl Member {
    fn answered(&self) {
        let now = Instant::now();
        let before = std::mem::replace(&mut *self.last.lock().unwrap(), now);
        let mut gap = self.gap.lock().unwrap();
        *gap = (*gap).max(now - before);
        self.answers.fetch_add(1, Ordering::Relaxed);
    }
}

/// A group of workers, which run until they are stopped.
pub struct Crew {
    store: Arc<RedisStore>,
    writes: Writes,
    ledger: Arc<Ledger>,
    members: Vec<Arc<Member>>,
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

type Turn = Pin<Box<dyn Future<Output = ()> + Send>>;
type Trade = fn(Fixture, u64) -> Turn;

const TRADES: [(&str, Trade); 4] = [("lock", lock), ("put", put), ("carry_out", carry_out), ("buy", buy)];

/// What a worker needs for one turn.
#[derive(Clone)]
struct Fixture {
    store: Arc<RedisStore>,
    writes: Writes,
    ledger: Arc<Ledger>,
    member: Arc<Member>,
    client: ClientId,
}

/// A worker without an answer for this long hangs: no failover takes longer.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const QUEUES: [&str; 3] = ["mail", "print", "ship"];
const LOCKS: [&str; 3] = ["door", "till", "van"];
/// What the servers may do to an acknowledged write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// They keep it. A lock whose release they lost would never come free again.
    Kept,
    /// They lose it with a primary that nobody had copied it from.
    MayBeLost,
}

impl Writes {
    fn lease(self) -> Duration {
        match self {
            Self::Kept => 2 * super::RETRY_BUDGET,
            Self::MayBeLost => Duration::from_secs(5),
        }
    }
}

impl Crew {
    /// Starts two workers of each kind on each store.
    pub async fn start(stores: &[Arc<RedisStore>], writes: Writes, seed: u64) -> Self {
        let ledger = Arc::new(Ledger::default());
        for queue in 0..QUEUES.len() {
            make_sale(&stores[0], queue).await;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut crew =
            Self { store: stores[0].clone(), writes, ledger, members: Vec::new(), stop, tasks: Vec::new() };
        for store in stores {
            for trade in TRADES {
                for _ in 0..2 {
                    crew.employ(store.clone(), trade, seed);
                }
            }
        }
        crew
    }

    fn employ(&mut self, store: Arc<RedisStore>, (trade, work): (&'static str, Trade), seed: u64) {
        let member = Arc::new(Member {
            trade,
            answers: AtomicU64::new(0),
            last: Mutex::new(Instant::now()),
            gap: Mutex::default(),
            error: Mutex::default(),
        });
        let number = self.members.len() as u64 + 1;
        self.members.push(member.clone());
        let fixture = Fixture {
            store,
            writes: self.writes,
            ledger: self.ledger.clone(),
            member,
            client: ClientId::from_u64(number),
        };
        let stop = self.stop.clone();
        let mut rng = StdRng::seed_from_u64(seed ^ number);
        self.tasks.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                work(fixture.clone(), rng.random()).await;
                tokio::time::sleep(Duration::from_micros(rng.random_range(0..2_000))).await;
            }
        }));
    }

    /// Waits until each worker has had this many more answers. Panics with what each of them does if one has none for a
    /// minute.
    pub async fn does(&self, answers: u64) {
        let goals: Vec<_> =
            self.members.iter().map(|member| member.answers.load(Ordering::Relaxed) + answers).collect();
        for (member, goal) in self.members.iter().zip(goals) {
            while member.answers.load(Ordering::Relaxed) < goal {
                let silent = member.last.lock().unwrap().elapsed();
                assert!(silent < SILENCE_MAX, "no answer for {silent:?}: {}", self.describe());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    fn describe(&self) -> String {
        let member = |member: &Arc<Member>| {
            let (answers, silent) =
                (member.answers.load(Ordering::Relaxed), member.last.lock().unwrap().elapsed());
            let error = member.error.lock().unwrap();
            format!(
                "\n  {}: {answers} answers, the latest {silent:?} ago; latest error: {error}",
                member.trade
            )
        };
        let errors = self.ledger.errors.load(Ordering::Relaxed);
        format!("{errors} errors{}", self.members.iter().map(member).collect::<String>())
    }

    /// Lets the workers finish their turns, processes the remaining tasks, compares the records and prints what it
    /// found.
    pub async fn end(self) -> Findings {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("nobody gives up");
        }
        let mut findings = Findings {
            answers: self.members.iter().map(|member| member.answers.load(Ordering::Relaxed)).sum(),
            errors: self.ledger.errors.load(Ordering::Relaxed),
            shared: self.ledger.shared.load(Ordering::Relaxed),
            ..Findings::default()
        };
        for member in &self.members {
            let gap = findings.gaps.entry(member.trade).or_default();
            *gap = (*gap).max(*member.gap.lock().unwrap());
        }
        let last = self.members[0].clone();
        let fixture = Fixture {
            store: self.store,
            writes: self.writes,
            ledger: self.ledger,
            member: last,
            client: ClientId::from_u64(u64::MAX),
        };
        findings.lost = lost_tasks(&fixture).await + lost_reservations(&fixture).await;
        findings.repeated = fixture.ledger.done.lock().unwrap().values().filter(|times| **times > 1).count();
        super::note(&format!("{findings:?}"));
        findings
    }
}

impl Fixture {
    fn number(&self) -> u64 {
        self.ledger.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn op(&self) -> Op {
        Op::new(self.client, self.number())
    }

    /// Retries until there is an answer.
    async fn ask<T, F: Future<Output = Result<T>>>(&self, mut call: impl FnMut() -> F) -> T {
        loop {
            match call().await {
                Ok(answer) => {
                    self.member.answered();
                    return answer;
                }
                Err(error) => self.note(&error).await,
            }
        }
    }

    async fn note(&self, error: &Error) {
        assert!(error.is_unavailable(), "{error:?}");
        self.ledger.errors.fetch_add(1, Ordering::Relaxed);
        *self.member.error.lock().unwrap() = error.to_string();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn pick(names: &[&'static str], draw: u64) -> &'static str {
    names[draw as usize % names.len()]
}

fn queue(draw: u64) -> QueueName {
    QueueName::new(pick(&QUEUES, draw)).unwrap()
}

fn lock(fixture: Fixture, draw: u64) -> Turn {
    Box::pin(async move {
        let name = LockName::new(pick(&LOCKS, draw)).unwrap();
        let token = Token::new(fixture.client, fixture.number());
        let before = fixture.ledger.guarded.lock().unwrap().entry(name.clone()).or_default().latest;
        let ask = Acquire {
            name: name.clone(),
            token,
            lease: Lease::new(fixture.writes.lease()).unwrap(),
            wait: fixture.writes.lease(),
            barging: false,
            owner: Owner::default(),
        };
        let grant = loop {
            let told = fixture.store.notification(token);
            match fixture.ask(|| fixture.store.acquire(ask.clone())).await {
                Acquired::Granted(grant) => break grant,
                // The notification may be lost with its server.
                _ => drop(tokio::time::timeout(Duration::from_millis(200), told).await),
            }
        };
        enter(&fixture, &name, token, before, grant.fence.as_u64());
        tokio::task::yield_now().await;
        fixture.ledger.guarded.lock().unwrap().get_mut(&name).unwrap().holders -= 1;
        fixture.ask(|| fixture.store.release(&name, token)).await;
    })
}

/// A new grant must have a unique fencing token, greater than all that were seen before the request.
fn enter(fixture: &Fixture, name: &LockName, token: Token, before: u64, fence: u64) {
    let mut guarded = fixture.ledger.guarded.lock().unwrap();
    let guarded = guarded.get_mut(name).unwrap();
    assert!(fence > before, "{name}: the fence {fence} was granted after {before}");
    let other = guarded.fences.insert(fence, token);
    assert!(other.is_none_or(|other| other == token), "{name}: the fence {fence} was granted twice");
    guarded.latest = guarded.latest.max(fence);
    guarded.holders += 1;
    fixture.ledger.shared.fetch_add(u64::from(guarded.holders > 1), Ordering::Relaxed);
}

fn put(fixture: Fixture, draw: u64) -> Turn {
    Box::pin(async move {
        let (op, id) = (fixture.op(), TaskId::new(format!("{}-{}", draw % 3, fixture.number())).unwrap());
        let payload = Payload::new(ContentType::bytes(), vec![1; 20]).unwrap();
        let task = || vec![NewTask::new(id.clone(), payload.clone())];
        fixture.ask(|| fixture.store.enqueue(op, &queue(draw % 3), task())).await;
        fixture.ledger.put.lock().unwrap().insert(id);
    })
}

fn carry_out(fixture: Fixture, draw: u64) -> Turn {
    Box::pin(async move {
        carry_out_some(&fixture, &queue(draw), 5).await;
    })
}

async fn carry_out_some(fixture: &Fixture, queue: &QueueName, n: u32) {
    let claim = Claim { n, lease: Lease::new(Duration::from_secs(5)).unwrap(), worker: "w".into() };
    let op = fixture.op();
    let claimed = fixture.ask(|| fixture.store.claim(op, queue, claim.clone())).await;
    if claimed.tasks.is_empty() {
        return;
    }
    let tickets: Vec<_> = claimed.tasks.into_iter().map(|task| task.ticket).collect();
    let op = fixture.op();
    let done: Vec<_> = tickets.iter().cloned().map(rushgate_core::Completion::from).collect();
    let answers = fixture.ask(|| fixture.store.complete(op, queue, done.clone())).await;
    let mut done = fixture.ledger.done.lock().unwrap();
    for (ticket, answer) in tickets.iter().zip(answers) {
        if answer != Completed::Stale {
            *done.entry(ticket.id.clone()).or_default() += 1;
        }
    }
}

/// Claims until no task waits or is leased.
async fn lost_tasks(fixture: &Fixture) -> usize {
    for name in QUEUES {
        let queue = QueueName::new(name).unwrap();
        loop {
            carry_out_some(fixture, &queue, 500).await;
            let stats = fixture.ask(|| fixture.store.stats(&queue)).await;
            if stats.ready + stats.scheduled + stats.leased == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let done = fixture.ledger.done.lock().unwrap();
    fixture.ledger.put.lock().unwrap().iter().filter(|id| !done.contains_key(*id)).count()
}

const SALES: [&str; 3] = ["phones", "seats", "shoes"];
const SECRET: [u8; 16] = [7; 16];

fn sale(draw: u64) -> SaleId {
    SaleId::new(pick(&SALES, draw)).unwrap()
}

async fn make_sale(store: &RedisStore, number: usize) {
    let spec = SaleSpec {
        id: sale(number as u64),
        skus: vec![SkuSpec { sku: Sku::new("one").unwrap(), units: 1_000_000, per_buyer: 1_000 }],
        hold: HoldTime::new(Duration::from_secs(600)).unwrap(),
        opens_at: None,
        closes_at: None,
        metadata: String::new(),
        ledger: false,
        secret: SaleSecret::from_bytes(SECRET),
    };
    store.create(spec).await.unwrap();
    store.open(&sale(number as u64)).await.unwrap();
}

fn buy(fixture: Fixture, draw: u64) -> Turn {
    Box::pin(async move {
        let (sale, buyer) = (sale(draw), BuyerId::new(format!("buyer-{}", draw % 1_000)).unwrap());
        let key = IdempotencyKey::new(fixture.number().to_string()).unwrap();
        let id = ReservationId::derive(SaleSecret::from_bytes(SECRET), &sale, &buyer, &key);
        let lines = vec![Line { sku: Sku::new("one").unwrap(), quantity: 1 + draw as u32 % 3 }];
        let wish = Reserve { id, sale: sale.clone(), buyer, lines, choice: UnitChoice::Any };
        let answer = fixture.ask(|| fixture.store.reserve(wish.clone())).await;
        assert!(matches!(answer, Reserved::Reserved(_) | Reserved::Replayed(_)), "{answer:?}");
        fixture.ledger.bought.lock().unwrap().push(id);
        if draw.is_multiple_of(2) {
            fixture.ask(|| fixture.store.confirm(&sale, id)).await;
        }
    })
}

/// Audits every sale, and finds each acknowledged reservation in its snapshot.
async fn lost_reservations(fixture: &Fixture) -> usize {
    let mut known = BTreeSet::new();
    for number in 0..SALES.len() {
        let snapshot = fixture.ask(|| fixture.store.snapshot(&sale(number as u64))).await;
        let found = audit_store(&snapshot);
        assert!(found.ok, "{found:?}");
        known.extend(snapshot.reservations.iter().map(|row| row.hold.id));
    }
    fixture.ledger.bought.lock().unwrap().iter().filter(|id| !known.contains(*id)).count()
}
