use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rushgate_core::{
    Acquire, BuyerId, Claim, ClientId, ContentType, Due, Extend, HoldTime, IdempotencyKey, Lease, Line,
    Listing, LockName, NewTask, OnDuplicate, Op, Owner, Page, Payload, Priority, QueueLimits, QueueName,
    ReservationId, Reserve, Retry, SaleId, SaleSecret, SaleSpec, Selection, Sku, SkuSpec, StockChange,
    TaskId, TaskState, Ticket, Timestamp, Token, UnitChoice, Verdict,
};

use super::call::Call;

/// What happens next in a history.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A client calls.
    Call(Call),
    /// Time passes.
    Pass(Duration),
    /// A reply was lost, now or a while ago: the same call comes again.
    Again(Call),
    /// A client dies: nobody knows its tokens any more.
    Death,
}

/// Makes up a history from a seed and from what was answered so far.
pub(super) struct Plan {
    rng: StdRng,
    clients: Vec<ClientId>,
    asked: Vec<Acquire>,
    tickets: Vec<(QueueName, Ticket)>,
    sent: Vec<Call>,
    numbers: u64,
}

const LOCKS: [&str; 2] = ["left", "right"];
const QUEUES: [&str; 2] = ["work", "orders"];
const TASKS: [&str; 5] = ["a", "b", "c", "d", "e"];
const SKUS: [&str; 2] = ["seat", "meal"];
const BUYERS: [&str; 4] = ["ann", "bob", "cid", "dan"];
const SECRET: [u8; 16] = [9; 16];
/// Where a manual clock begins.
const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// Lengths of time that meet each other's ends exactly now and then.
const MOMENTS_MS: [u64; 9] = [0, 10, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 40_000];

macro_rules! named {
    ($($make:ident: $name:ident;)*) => {$(
        fn $make(text: &str) -> $name {
            $name::new(text).expect("a history's names are valid")
        }
    )*};
}

named! { lock: LockName; queue: QueueName; task: TaskId; sku: Sku; sale: SaleId; }

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let rng = StdRng::seed_from_u64(seed);
        let clients = (1..=4).map(ClientId::from_u64).collect();
        Self { rng, clients, asked: Vec::new(), tickets: Vec::new(), sent: Vec::new(), numbers: 0 }
    }

    /// The sale of the history: with a ledger or without, with hours or without, by the seed.
    pub(super) fn opening(&mut self) -> Vec<Call> {
        let sku = |name: &str| SkuSpec { sku: sku(name), units: 5, per_buyer: 3 };
        let spec = SaleSpec {
            id: sale("s"),
            skus: SKUS.iter().map(|name| sku(name)).collect(),
            hold: HoldTime::new(Duration::from_secs(5)).expect("five seconds are in range"),
            opens_at: self.chance(25).then(|| START + Duration::from_secs(10)),
            closes_at: self.chance(25).then(|| START + Duration::from_secs(200)),
            orders: self.chance(50).then(|| queue("orders")),
            secret: SaleSecret::from_bytes(SECRET),
        };
        vec![Call::Create(spec), Call::Open(sale("s"))]
    }

    /// Questions that together show the whole state.
    pub(super) fn survey() -> Vec<Call> {
        let mut calls = vec![Call::List(Page::default()), Call::Queues, Call::Sales(Page::default())];
        calls.extend(LOCKS.iter().map(|name| Call::Show(lock(name))));
        for name in QUEUES {
            let all = Listing { state: None, after: String::new(), limit: 10_000 };
            calls.extend([Call::Tasks(queue(name), all), Call::Stats(queue(name)), Call::Dead(queue(name))]);
            calls.push(Call::Top(queue(name), 1_000));
        }
        calls.extend([Call::Sale(sale("s")), Call::Books(sale("s"))]);
        calls
    }

    /// Remembers what was sent and answered.
    pub(super) fn learn(&mut self, call: &Call, tickets: Vec<Ticket>) {
        if let Call::Claim(_, queue, _) | Call::Top(queue, _) | Call::Pop(_, queue, _) = call {
            self.tickets.extend(tickets.into_iter().map(|ticket| (queue.clone(), ticket)));
        }
        if let Call::Acquire(request) = call {
            self.asked.push(request.clone());
        }
        self.sent.push(call.clone());
        let old = self.sent.len().saturating_sub(12);
        self.sent.drain(..old);
        let old = self.tickets.len().saturating_sub(12);
        self.tickets.drain(..old);
        let old = self.asked.len().saturating_sub(8);
        self.asked.drain(..old);
    }

    pub(super) fn next(&mut self) -> Step {
        match self.rng.random_range(0..100) {
            0..=11 => Step::Pass(self.moment()),
            12..=19 if !self.sent.is_empty() => Step::Again(self.pick_sent()),
            20 => Step::Death,
            21..=43 => Step::Call(self.lock_call()),
            44..=74 => Step::Call(self.queue_call()),
            _ => Step::Call(self.sale_call()),
        }
    }

    /// Forgets what a client knew. A new one takes its place.
    pub(super) fn bury_client(&mut self) {
        let dead = self.clients.remove(0);
        self.asked.retain(|request| request.token.client() != dead);
        self.numbers += 1;
        self.clients.push(ClientId::from_u64(1_000 + self.numbers));
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn moment(&mut self) -> Duration {
        Duration::from_millis(*MOMENTS_MS.choose(&mut self.rng).expect("there are moments"))
    }

    fn lease(&mut self) -> Lease {
        Lease::new(self.moment().clamp(Lease::MIN, Duration::from_secs(10))).expect("it is clamped")
    }

    fn word(&mut self, words: &[&'static str]) -> &'static str {
        words.choose(&mut self.rng).expect("there are words")
    }

    fn pick_sent(&mut self) -> Call {
        // The latest call is sent again most often: that is how clients retry.
        let last = self.sent.len() - 1;
        let back = if self.chance(60) { 0 } else { self.rng.random_range(0..=last) };
        self.sent[last - back].clone()
    }

    fn client(&mut self) -> ClientId {
        *self.clients.choose(&mut self.rng).expect("there are clients")
    }

    fn op(&mut self) -> Op {
        self.numbers += 1;
        Op::new(self.client(), self.numbers)
    }

    // ── locks ────────────────────────────────────────────────────────────────────────────────────────────────

    fn new_question(&mut self) -> Acquire {
        self.numbers += 1;
        Acquire {
            name: lock(self.word(&LOCKS)),
            token: Token::new(self.client(), self.numbers),
            lease: self.lease(),
            wait: self.moment(),
            barging: self.chance(10),
            owner: Owner { host: "h".into(), pid: 1, label: self.numbers.to_string() },
        }
    }

    fn known_question(&mut self) -> Acquire {
        match self.asked.choose(&mut self.rng) {
            Some(request) => request.clone(),
            None => self.new_question(),
        }
    }

    fn lock_call(&mut self) -> Call {
        let Acquire { name, token, .. } = self.known_question();
        match self.rng.random_range(0..20) {
            0..=6 => Call::Acquire(self.new_question()),
            7..=9 => Call::Acquire(self.known_question()),
            10..=13 => Call::Release(name, token),
            14 => {
                let lease = self.lease();
                let other = self.known_question();
                let second = Extend { name: other.name, token: other.token, lease: self.lease() };
                Call::Extend(vec![Extend { name, token, lease }, second])
            }
            15 => Call::Held(name, token),
            16 => Call::Leave(name, token),
            17 => Call::ReleaseAll(self.client()),
            18 => Call::ForceRelease(name),
            _ => Call::Show(name),
        }
    }

    // ── queues ───────────────────────────────────────────────────────────────────────────────────────────────

    fn new_task(&mut self) -> NewTask {
        self.numbers += 1;
        let bytes = self.numbers.to_string().into_bytes();
        let payload = Payload::new(ContentType::bytes(), bytes).expect("a number is small");
        NewTask {
            due: match self.rng.random_range(0..6) {
                0..=2 => Due::Now,
                3 => Due::At(START + self.moment()),
                _ => Due::After(self.moment()),
            },
            priority: Priority::new(self.rng.random_range(4..=6)).expect("it is in range"),
            on_duplicate: match self.rng.random_range(0..4) {
                0 => OnDuplicate::Keep,
                1 => OnDuplicate::Replace,
                2 => OnDuplicate::Earliest,
                _ => OnDuplicate::Debounce { max_wait: self.moment() },
            },
            max_attempts: self.rng.random_range(1..=3),
            ..NewTask::new(task(self.word(&TASKS)), payload)
        }
    }

    fn some_tickets(&mut self) -> (QueueName, Vec<Ticket>) {
        let Some((queue, first)) = self.tickets.choose(&mut self.rng).cloned() else {
            let nobodys = Ticket {
                id: task("a"),
                due: Timestamp::default(),
                revision: Default::default(),
                claim: None,
            };
            return (queue("work"), vec![nobodys]);
        };
        let same = |(of, ticket): &&(QueueName, Ticket)| *of == queue && *ticket != first;
        let more: Vec<_> = self.tickets.iter().filter(same).map(|(_, ticket)| ticket.clone()).collect();
        let n = self.rng.random_range(0..=more.len().min(2));
        (queue, std::iter::once(first).chain(more.into_iter().take(n)).collect())
    }

    fn selection(&mut self) -> Selection {
        if self.chance(30) {
            return Selection::All;
        }
        Selection::Ids(vec![task(self.word(&TASKS)), task(self.word(&TASKS))])
    }

    fn queue_call(&mut self) -> Call {
        let name = queue(if self.chance(75) { "work" } else { "orders" });
        let n = self.rng.random_range(1..=3);
        match self.rng.random_range(0..40) {
            0..=11 => {
                let tasks = (0..n).map(|_| self.new_task()).collect();
                Call::Enqueue(self.op(), name, tasks)
            }
            12..=18 => {
                let claim = Claim { n, lease: self.lease(), worker: "w".into() };
                Call::Claim(self.op(), name, claim)
            }
            19..=20 => Call::Top(name, n),
            21 => Call::Pop(self.op(), name, 1),
            22..=32 => self.ticket_call(),
            33 => Call::Cancel(self.op(), name, task(self.word(&TASKS))),
            34 => Call::Pause(name, self.rng.random_range(0..3) == 0),
            35 => {
                let bound = self.chance(50).then(|| self.rng.random_range(0..6));
                Call::Limit(name, QueueLimits { bound })
            }
            36 => Call::Revive(self.op(), name, self.selection()),
            37 => Call::Bury(self.op(), name, self.selection()),
            38 => Call::Task(name, task(self.word(&TASKS))),
            _ => {
                let states = [TaskState::Scheduled, TaskState::Ready, TaskState::Leased];
                let state = states.choose(&mut self.rng).copied();
                Call::Tasks(name, Listing { state, after: "b".into(), limit: n })
            }
        }
    }

    fn ticket_call(&mut self) -> Call {
        let (queue, tickets) = self.some_tickets();
        match self.rng.random_range(0..10) {
            0..=2 => Call::Complete(self.op(), queue, tickets),
            3..=5 => {
                let (delay, give_up) = (self.moment(), self.chance(20));
                let retry = |ticket| Retry { ticket, delay, error: "no luck".into(), give_up };
                Call::Retry(self.op(), queue, tickets.into_iter().map(retry).collect())
            }
            6 => Call::GiveBack(self.op(), queue, tickets),
            7 => Call::Dequeue(self.op(), queue, tickets[0].clone()),
            _ => Call::ExtendTasks(queue, tickets, self.lease()),
        }
    }

    // ── sale ─────────────────────────────────────────────────────────────────────────────────────────────────

    fn wish(&mut self) -> Reserve {
        let buyer = BuyerId::new(self.word(&BUYERS)).expect("a history's names are valid");
        let key = format!("k{}", self.rng.random_range(0..8));
        let key = IdempotencyKey::new(key).expect("a history's names are valid");
        let same = self.chance(20);
        let first = self.rng.random_range(0..2);
        let lines = self.rng.random_range(1..=2);
        let mut line = |at: usize| Line {
            sku: sku(SKUS[(first + at) % 2]),
            quantity: if same { 1 } else { self.rng.random_range(1..=2) },
        };
        Reserve {
            sale: sale("s"),
            id: ReservationId::derive(SaleSecret::from_bytes(SECRET), &sale("s"), &buyer, &key),
            lines: (0..lines).map(&mut line).collect(),
            buyer,
            choice: if same { UnitChoice::SameNumber } else { UnitChoice::Any },
        }
    }

    fn verdict(&mut self) -> Verdict {
        match self.rng.random_range(0..10) {
            0..=3 => Verdict::Confirmed,
            4..=5 => Verdict::Cancelled,
            6..=8 => Verdict::Expired,
            _ => Verdict::Rejected { units_taken: self.chance(50) },
        }
    }

    fn sale_call(&mut self) -> Call {
        let s = sale("s");
        let id = self.wish().id;
        match self.rng.random_range(0..40) {
            0..=13 => Call::Reserve(self.wish()),
            14..=17 => Call::Confirm(s, id),
            18..=21 => Call::CancelHold(s, id),
            22..=23 => Call::Expire(s, self.rng.random_range(1..=3)),
            24..=31 => {
                let verdicts = (0..4).map(|_| (self.wish().id, self.verdict())).collect();
                Call::Settle(s, verdicts)
            }
            32..=33 => Call::Stock(self.op(), s, sku(self.word(&SKUS)), self.stock_change()),
            34 => Call::Sale(s),
            35 => Call::Reservation(s, id),
            36 => Call::Events(s, self.rng.random_range(0..30)),
            37 => Call::Open(s),
            38 if self.chance(3) => Call::End(s),
            _ => Call::Reserve(self.wish()),
        }
    }

    fn stock_change(&mut self) -> StockChange {
        let n = self.rng.random_range(1..=3);
        if self.chance(60) { StockChange::Add(n) } else { StockChange::Withdraw(n) }
    }
}
