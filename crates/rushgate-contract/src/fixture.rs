use std::borrow::Borrow;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rushgate_core::{
    Acquire, Acquired, BuyerId, Claim, Claimed, ClientId, Completed, ContentType, Due, Enqueued, Follow,
    Followed, Grant, Hold, HoldTime, IdempotencyKey, Lease, LedgerEntry, Line, LockName, NewTask,
    OnDuplicate, Op, Owner, Payload, QueueName, ReservationId, Reserve, Reserved, Result, Retry, Revision,
    SaleId, SaleSecret, SaleSpec, Sku, SkuSpec, SkuState, Store, Task, TaskId, Timestamp, Token, UnitChoice,
    UnitRange, Verbs, audit_store,
};

use rushgate_test::Harness;

/// How long a test waits for an expected notification. Generous, because no test checks timing.
pub const RETRY_BUDGET: Duration = Duration::from_secs(15);

/// The secret of the sale `s`.
pub(super) const SECRET: SaleSecret = SaleSecret::from_bytes([7; 16]);

/// How far a real clock may move between two calls of a test.
const SLACK: Duration = Duration::from_millis(900);

/// Milliseconds.
pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Seconds.
pub(super) const fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(super) fn lease(of: Duration) -> Lease {
    Lease::new(of).expect("a test's lease is in range")
}

pub(super) fn lock_name(text: &str) -> LockName {
    LockName::new(text).expect("a test's name is valid")
}

pub(super) fn task_id(text: &str) -> TaskId {
    TaskId::new(text).expect("a test's name is valid")
}

pub(super) fn sku(text: &str) -> Sku {
    Sku::new(text).expect("a test's name is valid")
}

pub(super) fn queue_name(text: &str) -> QueueName {
    QueueName::new(text).expect("a test's name is valid")
}

pub(super) fn sale_id(text: &str) -> SaleId {
    SaleId::new(text).expect("a test's name is valid")
}

pub(super) fn payload(text: &str) -> Payload {
    Payload::new(ContentType::bytes(), text.as_bytes().to_vec()).expect("a test's payload is small")
}

/// A task with its ID as payload.
pub(super) fn task(id: &str) -> NewTask {
    NewTask::new(task_id(id), payload(id))
}

pub(super) fn after(mut task: NewTask, delay: Duration) -> NewTask {
    task.due = Due::After(delay);
    task
}

pub(super) fn with(mut task: NewTask, text: &str, mode: OnDuplicate) -> NewTask {
    task.payload = payload(text);
    task.on_duplicate = mode;
    task
}

pub(super) fn line(of: &str, quantity: u32) -> Line {
    Line { sku: sku(of), quantity }
}

pub(super) fn text(task: &Task) -> String {
    String::from_utf8_lossy(task.payload.bytes()).into_owned()
}

pub(super) fn texts(tasks: &[Task]) -> Vec<String> {
    tasks.iter().map(text).collect()
}

pub(super) fn revision(of: impl Borrow<Enqueued>) -> Revision {
    match of.borrow() {
        Enqueued::Added { revision } | Enqueued::Kept { revision } | Enqueued::Replaced { revision } => {
            *revision
        }
        Enqueued::Displaced { revision, .. } => *revision,
        other => panic!("{other:?} has no revision"),
    }
}

#[track_caller]
pub(super) fn granted(answer: Acquired) -> Grant {
    match answer {
        Acquired::Granted(grant) => grant,
        other => panic!("expected a grant, not {other:?}"),
    }
}

/// The position in the wait queue.
#[track_caller]
pub(super) fn position(answer: &Acquired) -> u64 {
    match answer {
        Acquired::Queued(queued) => queued.position,
        other => panic!("expected a place in line, not {other:?}"),
    }
}

#[track_caller]
pub(super) fn reserved(answer: Reserved) -> Hold {
    match answer {
        Reserved::Reserved(hold) => hold,
        other => panic!("expected a reservation, not {other:?}"),
    }
}

pub(super) fn range(first: u32, last: u32) -> UnitRange {
    UnitRange::new(first, last).expect("a test's range goes forward")
}

pub(super) fn numbers(hold: &Hold) -> Vec<u32> {
    hold.units.iter().map(|(_, unit)| *unit).collect()
}

#[track_caller]
pub(super) fn refused<T: std::fmt::Debug>(answer: Result<T>) {
    let error = answer.expect_err("the request is outside the limits");
    assert!(error.is_invalid() && !error.may_have_happened(), "{error:?}");
}

#[track_caller]
pub(super) fn unknown<T: std::fmt::Debug>(answer: Result<T>) {
    let error = answer.expect_err("the thing does not exist");
    assert!(error.is_not_found() && !error.may_have_happened(), "{error:?}");
}

/// Asserts a duration, with tolerance for a real clock.
#[track_caller]
pub(super) fn near(actual: Duration, expected: Duration) {
    assert!(actual <= expected && actual + SLACK >= expected, "{actual:?} should be about {expected:?}");
}

/// Waits for an expected notification.
pub(super) async fn soon<T>(signal: impl Future<Output = T>) -> T {
    tokio::time::timeout(RETRY_BUDGET, signal).await.expect("the signal comes in time")
}

#[track_caller]
pub(super) fn added(answer: Enqueued) {
    assert!(matches!(answer, Enqueued::Added { .. }), "{answer:?}");
}

/// Completes a claimed task of the queue `q`.
pub(super) async fn complete(fixture: &Fixture, task: Task) {
    let done =
        fixture.store.complete(fixture.op(), &queue_name("q"), vec![task.ticket.into()]).await.unwrap();
    assert!(matches!(done[..], [Completed::Done | Completed::Requeued]), "{done:?}");
}

/// Claims and completes the one due task, and returns its payload.
pub(super) async fn work_off(fixture: &Fixture) -> String {
    let claimed = fixture.claim_one().await;
    let text = text(&claimed);
    complete(fixture, claimed).await;
    text
}

/// Claims the one due task, and turns it into a dead letter with the error "boom".
pub(super) async fn fail_for_good(fixture: &Fixture) {
    let ticket = fixture.claim_one().await.ticket;
    let failed = Retry { ticket, delay: Duration::ZERO, error: "boom".into(), give_up: true };
    fixture.store.retry(fixture.op(), &queue_name("q"), vec![failed]).await.unwrap();
}

/// Tools of a test case: the store, its clock, and unique names.
#[derive(Clone)]
pub struct Fixture {
    harness: Arc<dyn Harness>,
    pub(super) store: Arc<dyn Store>,
    numbers: Arc<AtomicU64>,
}

impl Fixture {
    /// Creates the tools for a new harness.
    pub fn new(harness: Arc<dyn Harness>) -> Self {
        let store = harness.store();
        Self { store, harness, numbers: Arc::default() }
    }

    pub(super) fn peer(&self) -> Arc<dyn Store> {
        self.harness.peer()
    }

    pub(super) async fn advance(&self, by: Duration) {
        self.harness.advance(by).await;
    }

    pub(super) async fn put_back(&self, by: Duration) {
        self.harness.put_back(by).await;
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// A new token of client 1.
    pub(super) fn token(&self) -> Token {
        self.token_of(1)
    }

    pub(super) fn token_of(&self, client: u64) -> Token {
        Token::new(ClientId::from_u64(client), self.number())
    }

    pub(super) fn op(&self) -> Op {
        Op::new(ClientId::from_u64(1), self.number())
    }

    /// A request for the lock `l` with a lease of 10 s.
    pub(super) fn ask(&self, token: Token, wait: Duration) -> Acquire {
        Acquire {
            name: lock_name("l"),
            token,
            lease: lease(s(10)),
            wait,
            barging: false,
            owner: Owner { host: "h".into(), pid: 1, label: "test".into() },
        }
    }

    /// Requests the lock `l` without waiting.
    pub(super) async fn try_lock(&self, token: Token) -> Acquired {
        self.store.acquire(self.ask(token, Duration::ZERO)).await.unwrap()
    }

    /// Requests the lock `l`, waiting up to a minute.
    pub(super) async fn wait_lock(&self, token: Token) -> Acquired {
        self.store.acquire(self.ask(token, s(60))).await.unwrap()
    }

    /// Enqueues one task in the queue `q`.
    pub(super) async fn put(&self, task: NewTask) -> Enqueued {
        self.put_all(vec![task]).await.remove(0)
    }

    pub(super) async fn put_all(&self, tasks: Vec<NewTask>) -> Vec<Enqueued> {
        self.store.enqueue(self.op(), &queue_name("q"), tasks).await.unwrap()
    }

    /// Claims from the queue `q` for 10 s.
    pub(super) async fn claim(&self, n: u32) -> Claimed {
        let claim = Claim { n, lease: lease(s(10)), worker: "w".into() };
        self.store.claim(self.op(), &queue_name("q"), claim).await.unwrap()
    }

    /// Claims the one due task of the queue `q`.
    pub(super) async fn claim_one(&self) -> Task {
        let mut tasks = self.claim(1).await.tasks;
        tasks.pop().expect("one task is due")
    }

    pub(super) async fn info(&self, id: &str) -> rushgate_core::TaskInfo {
        self.store.task(&queue_name("q"), &task_id(id)).await.unwrap().expect("the task is there")
    }

    pub(super) async fn is_gone(&self, id: &str) -> bool {
        self.store.task(&queue_name("q"), &task_id(id)).await.unwrap().is_none()
    }

    /// The sale `s` with a hold time of 10 s: SKUs with units and limits.
    pub(super) fn spec(&self, skus: &[(&str, u32, u32)], ledger: bool) -> SaleSpec {
        let sku = |(name, units, per_buyer): &(&str, u32, u32)| SkuSpec {
            sku: sku(name),
            units: *units,
            per_buyer: *per_buyer,
        };
        SaleSpec {
            id: sale_id("s"),
            skus: skus.iter().map(sku).collect(),
            hold: HoldTime::new(s(10)).expect("ten seconds are in range"),
            opens_at: None,
            closes_at: None,
            metadata: String::new(),
            ledger,
            secret: SECRET,
        }
    }

    /// Creates and opens the sale `s`.
    pub(super) async fn sell(&self, skus: &[(&str, u32, u32)]) {
        self.start(self.spec(skus, false)).await;
    }

    /// Creates and opens the sale `s`, with a ledger.
    pub(super) async fn sell_with_ledger(&self, skus: &[(&str, u32, u32)]) {
        self.start(self.spec(skus, true)).await;
    }

    /// The entries that the ledger of the sale `s` has yet to record.
    pub(super) async fn undelivered(&self) -> Vec<LedgerEntry> {
        let follow = Follow {
            sale: sale_id("s"),
            worker: Token::new(ClientId::from_u64(9), 1),
            generation: 0,
            through: 0,
            failed: Vec::new(),
            recovered: Vec::new(),
            n: Follow::EVENTS_MAX,
            lease: lease(s(1)),
        };
        match self.store.follow_orders(follow).await.unwrap() {
            Followed::Batch(batch) => batch.entries.into_iter().map(|delivery| delivery.entry).collect(),
            Followed::Busy { until } => panic!("another worker follows the sale until {until:?}"),
        }
    }

    pub(super) async fn start(&self, spec: SaleSpec) {
        let id = spec.id.clone();
        self.store.create(spec).await.unwrap();
        self.store.open(&id).await.unwrap();
    }

    /// A request of `buyer`, under a key.
    pub(super) fn wish(&self, buyer: &str, key: &str, lines: Vec<Line>) -> Reserve {
        let buyer = BuyerId::new(buyer).expect("a test's name is valid");
        let key = IdempotencyKey::new(key).expect("a test's name is valid");
        Reserve {
            id: ReservationId::derive(SECRET, &sale_id("s"), &buyer, &key),
            sale: sale_id("s"),
            buyer,
            lines,
            choice: UnitChoice::Any,
        }
    }

    /// Sends a request under a new key.
    pub(super) async fn buy(&self, buyer: &str, lines: Vec<Line>) -> Reserved {
        let key = format!("key-{}", self.number());
        self.store.reserve(self.wish(buyer, &key, lines)).await.unwrap()
    }

    pub(super) async fn sku(&self, of: &str) -> SkuState {
        let state = self.store.sale(&sale_id("s")).await.unwrap();
        state.skus.into_iter().find(|state| state.sku.as_str() == of).expect("the sale has the SKU")
    }

    /// Numbers of free, held, confirmed and withdrawn units.
    pub(super) async fn places(&self, of: &str) -> (u32, u32, u32, u32) {
        let sku = self.sku(of).await;
        (sku.free, sku.held, sku.confirmed, sku.withdrawn)
    }

    pub(super) async fn now(&self) -> Timestamp {
        self.store.sale(&sale_id("s")).await.unwrap().now
    }

    /// Asserts that the sale `s` passes the audit (without a ledger).
    pub(super) async fn audited(&self) {
        let snapshot = self.store.snapshot(&sale_id("s")).await.unwrap();
        let audit = audit_store(&snapshot);
        let failed: Vec<_> = audit.checks.iter().filter(|check| !check.ok).collect();
        assert!(audit.ok, "{failed:#?}");
    }
}
