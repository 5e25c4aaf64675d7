use std::collections::VecDeque;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rushgate_core::{
    Acquire, Announce, Beacon, BuyerId, Claim, ClientId, Completion, ContentType, Delivery, DrawSecret, Due,
    Enter, Extend, Failure, Fire, Follow, HaltReason, Heartbeat, Hold, HoldTime, IdempotencyKey, IfDead,
    KeyLimits, Lease, Line, Listing, LockName, NewSchedule, NewTask, OnDuplicate, Op, OrderBatch, OutboxId,
    Overflow, Owner, Page, Payload, Priority, QueueLimits, QueueName, Rate, Receipt, Relay, ReleaseWith,
    Request, ReservationId, ReservationRow, Reserve, Retention, Retry, RoomOrder, RoomRules, SaleId,
    SaleSecret, SaleSpec, Schedule, ScheduleId, Selection, Sku, SkuSpec, Snapshot, StockChange, Switch,
    TaskId, TaskKey, TaskProgress, TaskRelease, TaskState, Ticket, Timestamp, Token, UnitChoice, Verdict,
    WorkerId, WorkerMode, verb,
};

use super::call::Answer;
use super::rebuild;

/// The next step of a history.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A client calls.
    Call(Request),
    /// Time passes.
    Pass(Duration),
    /// A reply was lost, now or earlier: the same call is sent again.
    Again(Request),
    /// A client dies, and its tokens are no longer used.
    Death,
    /// A rebuild of the sale starts.
    Rebuild,
}

/// Generates a history from a seed and the answers so far.
pub(super) struct Plan {
    rng: StdRng,
    clients: Vec<ClientId>,
    asked: Vec<Acquire>,
    tickets: Vec<(QueueName, Ticket)>,
    /// Schedules as read, now or earlier.
    schedules: Vec<(QueueName, Schedule)>,
    /// Greatest task number that a relay has assigned.
    relayed: u64,
    sent: Vec<Request>,
    holds: Vec<Hold>,
    /// The latest orders that an order worker got.
    orders: Option<OrderBatch>,
    /// Generation of the sale.
    generation: u32,
    has_ledger: bool,
    /// Remaining calls of a rebuild.
    rebuilding: VecDeque<Request>,
    numbers: u64,
}

const LOCKS: [&str; 2] = ["left", "right"];
const QUEUES: [&str; 2] = ["work", "orders"];
const TASKS: [&str; 5] = ["a", "b", "c", "d", "e"];
const SCHEDULES: [&str; 3] = ["m", "n", "o"];
const WORKERS: [&str; 2] = ["p", "q"];
const OUTBOXES: [&str; 2] = ["shop", "depot"];
const KEYS: [&str; 2] = ["x", "y"];
const SKUS: [&str; 2] = ["seat", "meal"];
const BUYERS: [&str; 4] = ["ann", "bob", "cid", "dan"];
const SECRET: [u8; 16] = [9; 16];
/// Start time of a manual clock.
const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// Durations that occasionally coincide exactly.
const MOMENTS_MS: [u64; 9] = [0, 10, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 40_000];

macro_rules! named {
    ($($make:ident: $name:ident;)*) => {$(
        fn $make(text: &str) -> $name {
            $name::new(text).expect("a history's names are valid")
        }
    )*};
}

named! {
    lock: LockName;
    queue: QueueName;
    task: TaskId;
    key: TaskKey;
    schedule: ScheduleId;
    worker: WorkerId;
    outbox: OutboxId;
    sku: Sku;
    sale: SaleId;
}

/// The sale of a history.
pub(super) fn the_sale() -> SaleId {
    sale("s")
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let rng = StdRng::seed_from_u64(seed);
        let clients = (1..=4).map(ClientId::from_u64).collect();
        Self {
            rng,
            clients,
            asked: Vec::new(),
            tickets: Vec::new(),
            schedules: Vec::new(),
            relayed: 0,
            sent: Vec::new(),
            holds: Vec::new(),
            orders: None,
            generation: 1,
            has_ledger: false,
            rebuilding: VecDeque::new(),
            numbers: 0,
        }
    }

    /// Creates the sale of the history. The seed determines whether it has a ledger and opening hours.
    pub(super) fn opening(&mut self) -> Vec<Request> {
        let sku = |name: &str| SkuSpec { sku: sku(name), units: 5, per_buyer: 3 };
        let spec = SaleSpec {
            id: the_sale(),
            skus: SKUS.iter().map(|name| sku(name)).collect(),
            hold: HoldTime::new(Duration::from_secs(5)).expect("five seconds are in range"),
            opens_at: self.chance(25).then(|| START + Duration::from_secs(10)),
            closes_at: self.chance(25).then(|| START + Duration::from_secs(200)),
            metadata: if self.chance(25) { "{}".to_owned() } else { String::new() },
            ledger: self.chance(50),
            secret: SaleSecret::from_bytes(SECRET),
        };
        self.has_ledger = spec.ledger;
        vec![Request::create(spec), Request::open(the_sale())]
    }

    /// Queries that together show the whole state.
    pub(super) fn survey() -> Vec<Request> {
        let mut calls = vec![
            Request::list(Page::default()),
            Request::queues(Page::default()),
            Request::sales(Page::default()),
        ];
        calls.extend(LOCKS.iter().map(|name| Request::show(lock(name))));
        for name in QUEUES {
            let all = Listing::new(None, Page::first(10_000));
            let done = Listing { state: Some(TaskState::Done), ..all.clone() };
            calls.extend([Request::tasks(queue(name), all), Request::tasks(queue(name), done)]);
            calls.extend([Request::stats(queue(name)), Request::dead(queue(name), Page::first(10_000))]);
            calls.push(Request::task_events(queue(name), Page::first(1_000)));
            calls
                .extend([Request::top(queue(name), 1_000), Request::schedules(queue(name), Page::default())]);
            calls.extend(TASKS.iter().map(|id| Request::unique_until(queue(name), task(id))));
            calls.extend(TASKS.iter().map(|id| Request::waits(queue(name), task(id))));
            let waited = |id: &&str| Request::waited(queue(name), task(id), Page::first(100));
            calls.extend(TASKS.iter().map(waited));
        }
        calls.extend([Request::sale(the_sale()), Request::snapshot(the_sale()), Request::room(the_sale())]);
        calls.push(Request::failed_orders(the_sale(), Page::first(1_000)));
        calls
    }

    /// Records a call and its answer.
    pub(super) fn learn(&mut self, call: &Request, answer: Answer) {
        let Answer { tickets, schedules, hold, orders, .. } = answer;
        if let Request::Claim(verb::Claim { queue, .. })
        | Request::Top(verb::Top { queue, .. })
        | Request::Pop(verb::Pop { queue, .. }) = call
        {
            self.tickets.extend(tickets.into_iter().map(|ticket| (queue.clone(), ticket)));
        }
        if let Request::Schedules(verb::Schedules { queue, .. })
        | Request::DueSchedules(verb::DueSchedules { queue, .. }) = call
        {
            self.schedules.extend(schedules.into_iter().map(|schedule| (queue.clone(), schedule)));
        }
        if let Request::Acquire(verb::Acquire { request }) = call {
            self.asked.push(request.clone());
        }
        if let Request::Switch(verb::Switch { switch, .. }) = call {
            self.generation = switch.generation;
        }
        self.holds.extend(hold);
        self.orders = orders.or(self.orders.take());
        let old = self.holds.len().saturating_sub(12);
        self.holds.drain(..old);
        self.sent.push(call.clone());
        let old = self.sent.len().saturating_sub(12);
        self.sent.drain(..old);
        let old = self.tickets.len().saturating_sub(12);
        self.tickets.drain(..old);
        let old = self.schedules.len().saturating_sub(6);
        self.schedules.drain(..old);
        let old = self.asked.len().saturating_sub(8);
        self.asked.drain(..old);
    }

    pub(super) fn next(&mut self) -> Step {
        if !self.rebuilding.is_empty() && self.chance(60) {
            return self.rebuilding.pop_front().map_or(Step::Rebuild, Step::Call);
        }
        match self.rng.random_range(0..100) {
            0..=11 => Step::Pass(self.moment()),
            12..=19 if !self.sent.is_empty() => Step::Again(self.pick_sent()),
            20 => Step::Death,
            21 if self.rebuilding.is_empty() => Step::Rebuild,
            21..=38 => Step::Call(self.lock_call()),
            39..=69 => Step::Call(self.queue_call()),
            70..=74 => Step::Call(self.source_call()),
            75..=79 => Step::Call(self.room_call()),
            _ => Step::Call(self.sale_call()),
        }
    }

    /// Plans a rebuild from a ledger that knows some of the reservations. Sometimes it does not add up or is
    /// superseded; then it is repeated.
    pub(super) fn rebuild(&mut self, snapshot: &Snapshot) {
        if !self.has_ledger {
            let by = self.op();
            self.rebuilding.extend([
                Request::halt_sale(the_sale(), 1, HaltReason::Operator),
                Request::begin_rebuild(by, the_sale()),
            ]);
            return;
        }
        let heard_of: Vec<_> = snapshot.reservations.iter().filter(|_| self.chance(75)).collect();
        if self.chance(50) {
            let of = if self.chance(80) { self.generation } else { 1 };
            self.rebuilding.push_back(Request::halt_sale(the_sale(), of, HaltReason::Operator));
        }
        let generation = self.generation + self.rng.random_range(1..=2);
        let is_spoilt = self.chance(30);
        if is_spoilt {
            let some = &heard_of[heard_of.len() / 2..];
            let dropped = usize::from(self.chance(50));
            self.rebuild_from(snapshot, some, generation, dropped);
        }
        self.rebuild_from(snapshot, &heard_of, generation + u32::from(is_spoilt), 0);
    }

    /// Plans a rebuild without the first `dropped` parts.
    fn rebuild_from(
        &mut self,
        snapshot: &Snapshot,
        heard_of: &[&ReservationRow],
        generation: u32,
        dropped: usize,
    ) {
        let (by, s) = (self.op(), the_sale());
        let (parts, stock) = rebuild::parts(snapshot, heard_of, self.generation);
        self.rebuilding.push_back(Request::begin_rebuild(by, s.clone()));
        for part in parts.into_iter().skip(dropped) {
            let load = Request::load(by, s.clone(), generation, part);
            let again = self.chance(20).then(|| load.clone());
            self.rebuilding.extend(std::iter::once(load).chain(again));
        }
        let switch = Switch { generation, grace: self.moment(), stock };
        self.rebuilding.push_back(Request::switch(by, s, switch));
    }

    /// Drops the knowledge of a client, and adds a new client.
    pub(super) fn delete_client(&mut self) {
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

    fn pick_sent(&mut self) -> Request {
        // The latest call is repeated most often, as clients do.
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

    fn lock_call(&mut self) -> Request {
        let Acquire { name, token, .. } = self.known_question();
        match self.rng.random_range(0..20) {
            0..=6 => Request::acquire(self.new_question()),
            7..=9 => Request::acquire(self.known_question()),
            10..=11 => Request::release(name, token),
            12..=13 => {
                let (queue, task) = (queue(self.word(&QUEUES)), self.new_task());
                Request::release_with(self.op(), ReleaseWith { name, token, queue, task })
            }
            14 => {
                let lease = self.lease();
                let other = self.known_question();
                let second = Extend { name: other.name, token: other.token, lease: self.lease() };
                Request::extend(vec![Extend { name, token, lease }, second])
            }
            15 => Request::held(name, token),
            16 => Request::leave(name, token),
            17 => Request::release_all(self.client()),
            18 => Request::force_release(name),
            _ => Request::show(name),
        }
    }

    // ── queues ───────────────────────────────────────────────────────────────────────────────────────────────

    fn new_task(&mut self) -> NewTask {
        self.numbers += 1;
        let bytes = self.numbers.to_string().into_bytes();
        let payload = Payload::new(ContentType::bytes(), bytes).expect("a number is small");
        let due = self.due();
        let deadline = match due {
            _ if self.chance(70) => None,
            Due::Now => Some(Due::After(self.moment().max(Duration::from_millis(10)))),
            Due::After(delay) => Some(Due::After(delay + self.moment().max(Duration::from_millis(10)))),
            // The deadline may be before the due time; then nothing is enqueued.
            Due::At(at) => Some(Due::At(at + Duration::from_secs(60) + self.moment())),
        };
        let (after, held_open, part_of) = self.waits();
        let to_wait = held_open || !after.is_empty();
        NewTask {
            after,
            held_open,
            part_of,
            if_dead: match self.rng.random_range(0..3) {
                0 => IfDead::Wait,
                1 => IfDead::Fail,
                _ => IfDead::Run,
            },
            due,
            deadline,
            priority: Priority::new(*[5, 5, 5, 4, 6].choose(&mut self.rng).expect("there are some"))
                .expect("it is in range"),
            on_duplicate: match self.rng.random_range(0..4) {
                _ if to_wait => OnDuplicate::Keep,
                0 => OnDuplicate::Keep,
                1 => OnDuplicate::Replace,
                2 => OnDuplicate::Earliest,
                _ => OnDuplicate::Debounce { max_wait: self.moment() },
            },
            max_attempts: self.rng.random_range(1..=3),
            key: self.chance(60).then(|| key(self.word(&KEYS))),
            unique_for: self.chance(15).then(|| self.moment().max(Duration::from_millis(1))),
            ..NewTask::new(task(self.word(&TASKS)), payload)
        }
    }

    fn due(&mut self) -> Due {
        match self.rng.random_range(0..6) {
            0..=2 => Due::Now,
            3 => Due::At(START + self.moment()),
            _ => Due::After(self.moment()),
        }
    }

    /// What a task waits for, whether it opens a batch, and the batch that it is a member of.
    fn waits(&mut self) -> (Vec<TaskId>, bool, Option<TaskId>) {
        match self.rng.random_range(0..20) {
            0..=2 => {
                let n = self.rng.random_range(1..=3);
                ((0..n).map(|_| task(self.word(&TASKS))).collect(), self.chance(20), None)
            }
            3 => (Vec::new(), true, None),
            4..=5 => (Vec::new(), self.chance(10), Some(task(self.word(&TASKS)))),
            _ => (Vec::new(), false, None),
        }
    }

    fn limits(&mut self) -> QueueLimits {
        let (fifo, one) = (self.chance(50), self.chance(50));
        QueueLimits {
            bound: self.chance(40).then(|| self.rng.random_range(0..6)),
            overflow: match self.rng.random_range(0..4) {
                0..=1 => Overflow::Refuse,
                2 => Overflow::DropNew,
                _ => Overflow::DropOldest,
            },
            concurrency: self.chance(30).then(|| self.rng.random_range(1..=3)),
            rate: self.chance(45).then(|| self.rate()),
            per_key: KeyLimits {
                concurrency: self.chance(40).then_some(if fifo || one { 1 } else { 2 }),
                rate: self.chance(30).then(|| self.rate()),
                fifo,
            },
            retention: self.chance(60).then(|| {
                let age = self.moment().max(Duration::from_millis(1));
                Retention::new(age, self.rng.random_range(1..=3))
            }),
            events: self.chance(70).then(|| self.rng.random_range(1..=12)),
        }
    }

    fn completion(&mut self, ticket: Ticket) -> Completion {
        self.numbers += 1;
        let result = Payload::new(ContentType::json(), self.numbers.to_string().into_bytes());
        Completion {
            ticket,
            result: self.chance(50).then(|| result.expect("a number is small")),
            discarded: self.chance(20),
        }
    }

    fn heartbeat(&mut self, ticket: Ticket) -> Heartbeat {
        self.numbers += 1;
        let percent = self.chance(50).then(|| self.rng.random_range(0..=100));
        let progress = TaskProgress { percent, note: self.numbers.to_string() };
        Heartbeat { ticket, progress: self.chance(50).then_some(progress) }
    }

    fn rate(&mut self) -> Rate {
        Rate::new(self.rng.random_range(1..=3), self.moment().max(Duration::from_millis(1)))
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

    fn queue_call(&mut self) -> Request {
        let name = queue(if self.chance(75) { "work" } else { "orders" });
        let n = self.rng.random_range(1..=3);
        match self.rng.random_range(0..49) {
            0..=11 => {
                let tasks = (0..n).map(|_| self.new_task()).collect();
                Request::enqueue(self.op(), name, tasks)
            }
            12..=18 => {
                let claim = Claim { n, lease: self.lease(), worker: "w".into() };
                Request::claim(self.op(), name, claim)
            }
            19..=20 => Request::top(name, n),
            21 => Request::pop(self.op(), name, 1),
            22..=32 => self.ticket_call(),
            33 => Request::cancel(self.op(), name, task(self.word(&TASKS))),
            34 => match self.rng.random_range(0..3) {
                0 => Request::pause(name),
                _ => Request::resume(name),
            },
            35 => {
                let limits = self.limits();
                Request::limit(name, limits)
            }
            36 => Request::requeue_dead(self.op(), name, self.selection()),
            37 => Request::delete_dead(self.op(), name, self.selection()),
            38 => Request::task(name, task(self.word(&TASKS))),
            39 => Request::clear_unique(self.op(), name, task(self.word(&TASKS))),
            40 => Request::unique_until(name, task(self.word(&TASKS))),
            41 => Request::close_batch(self.op(), name, task(self.word(&TASKS))),
            42 => Request::waits(name, task(self.word(&TASKS))),
            43 => Request::waited(name, task(self.word(&TASKS)), Page::after("b".into(), n)),
            44..=45 => {
                let due = self.due();
                Request::reschedule(self.op(), name, task(self.word(&TASKS)), due)
            }
            46 => Request::dependents(name, task(self.word(&TASKS)), n),
            47 => Request::task_events(name, Page::after(self.rng.random_range(0..60), n)),
            _ => {
                let states = [
                    TaskState::Scheduled,
                    TaskState::Ready,
                    TaskState::Leased,
                    TaskState::Blocked,
                    TaskState::Done,
                ];
                let state = states.choose(&mut self.rng).copied();
                Request::tasks(name, Listing::new(state, Page::first(n)))
            }
        }
    }

    fn ticket_call(&mut self) -> Request {
        let (queue, tickets) = self.some_tickets();
        match self.rng.random_range(0..10) {
            0..=2 => {
                let done = tickets.into_iter().map(|ticket| self.completion(ticket)).collect();
                Request::complete(self.op(), queue, done)
            }
            3..=5 => {
                let (delay, give_up) = (self.moment(), self.chance(20));
                let retry = |ticket| Retry { ticket, delay, error: "no luck".into(), give_up };
                Request::retry(self.op(), queue, tickets.into_iter().map(retry).collect())
            }
            6 => {
                let delay = if self.chance(50) { self.moment() } else { Duration::ZERO };
                let back = |ticket| TaskRelease { ticket, delay };
                Request::release_tasks(self.op(), queue, tickets.into_iter().map(back).collect())
            }
            7 => Request::dequeue(self.op(), queue, tickets[0].clone()),
            _ => {
                let beats = tickets.into_iter().map(|ticket| self.heartbeat(ticket)).collect();
                Request::extend_tasks(queue, beats, self.lease())
            }
        }
    }

    // ── schedules and relays ─────────────────────────────────────────────────────────────────────────────────

    fn source_call(&mut self) -> Request {
        let name = queue(if self.chance(75) { "work" } else { "orders" });
        match self.rng.random_range(0..20) {
            0..=3 => Request::schedule(name, self.new_schedule()),
            4..=6 => Request::due_schedules(name, self.rng.random_range(1..=3)),
            7..=10 => self.fire(),
            11 => Request::unschedule(name, schedule(self.word(&SCHEDULES))),
            12 => Request::schedules(name, Page::default()),
            13..=14 => {
                let worker = self.announcement();
                Request::announce(name, worker)
            }
            15 => Request::workers(name, Page { after: String::new(), limit: self.rng.random_range(1..=3) }),
            16 => {
                let modes = [WorkerMode::Work, WorkerMode::Quiet, WorkerMode::Stop];
                let mode = *modes.choose(&mut self.rng).expect("there are some");
                Request::set_worker(name, worker(self.word(&WORKERS)), mode)
            }
            _ => Request::relay(name, self.relay()),
        }
    }

    fn announcement(&mut self) -> Announce {
        Announce {
            id: worker(self.word(&WORKERS)),
            name: "history".into(),
            version: String::new(),
            concurrency: 1,
            running: self.rng.random_range(0..=1),
            lease: self.chance(80).then(|| self.lease()),
        }
    }

    fn new_schedule(&mut self) -> NewSchedule {
        let content = self.word(&["1", "2"]);
        let payload = Payload::new(ContentType::bytes(), content.as_bytes()).expect("a number is small");
        let read = self.schedules.choose(&mut self.rng).map(|(_, schedule)| schedule.revision);
        NewSchedule {
            id: schedule(self.word(&SCHEDULES)),
            recurrence: self.word(&["daily", "hourly"]).into(),
            payload,
            priority: Priority::new(*[5, 5, 5, 4, 6].choose(&mut self.rng).expect("there are some"))
                .expect("it is in range"),
            max_attempts: self.rng.random_range(1..=3),
            next: self.chance(90).then(|| START + self.moment()),
            paused: self.chance(30).then(|| self.chance(50)),
            as_of: read.filter(|_| self.chance(20)),
        }
    }

    /// Fires a schedule as it was read, now or earlier.
    fn fire(&mut self) -> Request {
        let Some((queue, read)) = self.schedules.choose(&mut self.rng).cloned() else {
            return Request::due_schedules(queue("work"), 3);
        };
        let at = read.next.unwrap_or(START);
        let runs = (0..self.rng.random_range(0..=2)).map(|_| (task(self.word(&TASKS)), at)).collect();
        let next = self.chance(80).then(|| START + self.moment() + self.moment());
        Request::fire(queue, Fire { id: read.id, revision: read.revision, runs, next })
    }

    /// A relay's call: mostly tasks with new numbers, some with numbers sent before.
    fn relay(&mut self) -> Relay {
        let mut number = self.relayed.saturating_sub(self.rng.random_range(0..=3)) + 1;
        let mut tasks = Vec::new();
        for _ in 0..self.rng.random_range(0..=4) {
            tasks.push((number, self.new_task()));
            self.relayed = self.relayed.max(number);
            number += self.rng.random_range(1..=2);
        }
        Relay { outbox: outbox(self.word(&OUTBOXES)), tasks }
    }

    // ── waiting rooms ────────────────────────────────────────────────────────────────────────────────────────

    fn room_call(&mut self) -> Request {
        let s = the_sale();
        let buyer = BuyerId::new(self.word(&BUYERS)).expect("a history's names are valid");
        match self.rng.random_range(0..20) {
            0..=2 => Request::set_room(s, self.room_rules(), DrawSecret::from_bytes([7; 32])),
            3..=8 => Request::join(s, buyer),
            9..=13 => {
                let place = (self.rng.random_range(0..5), self.rng.random_range(0..5));
                Request::enter(Enter { sale: s, buyer, place: self.chance(80).then_some(place) })
            }
            14 => Request::close_entry(s),
            15..=16 => Request::draw(s, Beacon::new(self.word(&["1", "2"])).expect("a number is short")),
            17 if self.chance(20) => Request::close_room(s),
            _ => Request::room(s),
        }
    }

    fn room_rules(&mut self) -> RoomRules {
        let per = Duration::from_millis([1, 700, 2_000, 60_000][self.rng.random_range(0..4)]);
        RoomRules {
            rate: Rate::new(self.rng.random_range(1..=3), per),
            pass: Duration::from_secs(self.rng.random_range(1..=20)),
            order: if self.chance(50) { RoomOrder::FirstCome } else { RoomOrder::Draw },
            from: self.chance(30).then(|| START + self.moment() * 5),
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
            sale: the_sale(),
            id: ReservationId::derive(SaleSecret::from_bytes(SECRET), &the_sale(), &buyer, &key),
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

    fn sale_call(&mut self) -> Request {
        let s = the_sale();
        let id = self.wish().id;
        match self.rng.random_range(0..51) {
            42..=48 => Request::follow_orders(self.follow()),
            49 => Request::retry_orders(s),
            50 => {
                let server = ClientId::from_u64(self.rng.random_range(1..=3));
                let mut count = |answer: &str| (answer.to_owned(), self.rng.random_range(0..100));
                Request::count_attempts(s, server, vec![count("reserved"), count("sold_out")])
            }
            0..=13 => Request::reserve(self.wish()),
            14..=17 => Request::confirm(s, id),
            18..=21 => Request::cancel_hold(s, id),
            22..=23 => Request::expire(s, self.rng.random_range(1..=3)),
            24..=31 => {
                let verdicts = (0..4).map(|_| (self.wish().id, self.verdict())).collect();
                let generation = if self.chance(90) { self.generation } else { 1 };
                Request::settle(s, generation, verdicts)
            }
            40..=41 => match self.holds.choose(&mut self.rng) {
                Some(hold) => Request::restore(Receipt::of(&s, hold)),
                None => Request::sale(s),
            },
            32..=33 => Request::stock(self.op(), s, sku(self.word(&SKUS)), self.stock_change()),
            34 => Request::sale(s),
            35 => Request::reservation(s, id),
            36 => Request::events(s, Page::after(self.rng.random_range(0..30), 10_000)),
            37 => Request::open(s),
            38 if self.chance(3) => Request::end(s),
            _ => Request::reserve(self.wish()),
        }
    }

    /// One of two order workers reports the latest orders, or has nothing to report, and asks for more.
    fn follow(&mut self) -> Follow {
        let mut follow = Follow {
            sale: the_sale(),
            worker: Token::new(ClientId::from_u64(self.rng.random_range(1..=2)), 0),
            generation: if self.chance(90) { self.generation } else { 1 },
            through: 0,
            failed: Vec::new(),
            recovered: Vec::new(),
            n: [0, 1, 3, 10, 1_000][self.rng.random_range(0..5)],
            lease: self.lease(),
        };
        if let Some(batch) = self.orders.clone().filter(|_| self.chance(80)) {
            follow.through = batch.through;
            for Delivery { seq, attempts, .. } in batch.entries {
                if self.chance(30) {
                    let (reason, retry_after) = (self.word(&["", "no", "later"]).into(), self.moment());
                    follow.failed.push(Failure { seq, attempts: attempts + 1, reason, retry_after });
                } else if attempts > 0 {
                    follow.recovered.push(seq);
                }
            }
        }
        follow
    }

    fn stock_change(&mut self) -> StockChange {
        let n = self.rng.random_range(1..=3);
        if self.chance(60) { StockChange::Add(n) } else { StockChange::Withdraw(n) }
    }
}
