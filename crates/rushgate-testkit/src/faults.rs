//! A store behind an unreliable network, driven by a seeded plan. For tests of code that uses a store.

use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rushgate_core::{
    Acquire, Acquired, Answer, Beacon, Books, BuyerId, Cancelled, Claim, Claimed, ClientId, Closed,
    Completed, Completion, Created, DeadLetter, Decision, Dequeued, Draw, DrawSecret, DueSchedules, Enqueued,
    Enter, Entered, Error, Event, Extend, Extended, Fire, Fired, GiveBack, GivenBack, Grant, Heartbeat, Hold,
    Holder, Joined, Lease, Left, Lifted, Listing, Load, LockName, LockState, LockStore, NewSchedule, NewTask,
    Notice, Op, OutboxStore, Page, PauseReason, QueueLimits, QueueName, QueueStats, QueueStore, Rebuilt,
    Receipt, Relay, Relayed, ReleaseWith, Released, ReleasedWith, ReservationId, Reserve, Reserved, Restored,
    Retried, Retry, Revived, RoomRules, RoomState, RoomStore, SaleId, SaleSpec, SaleState, SaleStatus,
    SaleStore, Schedule, ScheduleId, ScheduleStore, Scheduled, Selection, Settled, Sku, StockChange,
    StockChanged, Store, StoreCalls, StoreInfo, Switch, Task, TaskEvents, TaskExtended, TaskId, TaskInfo,
    Ticket, Timestamp, Token, Verdict, Waited, Waits, Warning,
};

/// Failure rates of the network, per thousand calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// The call never arrives.
    pub before: u32,
    /// The call is executed and its reply is lost. Awaited notifications are lost too.
    pub reply: u32,
    /// The reply to the first of two equal calls is lost, so the client repeats the call. Applies only to calls that
    /// get the same answer twice.
    pub twice: u32,
}

/// A counted call in a task's life, for which a [`Trap`] can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// [`QueueStore::enqueue`].
    Enqueue,
    /// [`QueueStore::claim`].
    Claim,
    /// [`QueueStore::extend_tasks`].
    Extend,
    /// [`QueueStore::complete`].
    Complete,
    /// [`QueueStore::retry`].
    Retry,
    /// [`QueueStore::give_back`].
    GiveBack,
    /// [`ScheduleStore::fire`].
    Fire,
}

impl Verb {
    const N: usize = 7;
}

/// Before or after the store's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The call has not been sent.
    Before,
    /// The store has executed the call, and the caller has no answer yet.
    After,
}

/// An action at a given point of a given call.
#[derive(Clone, Copy, Debug)]
pub struct Trap {
    /// The kind of call.
    pub verb: Verb,
    /// Before or after the store's step.
    pub moment: Moment,
    /// The number of the call of that kind, from 1.
    pub nth: u64,
    /// The action, such as killing the process.
    pub spring: fn(),
}

/// A store whose calls fail according to a plan. The errors are those of a backend: unavailable, with a correct
/// `may_have_happened`.
pub struct Faulty<S> {
    /// The store, or its handle for orders.
    store: Arc<dyn Store>,
    behind: Arc<S>,
    network: Arc<Network>,
}

/// State shared by a store and its handle for orders.
struct Network {
    plan: FaultPlan,
    rng: Mutex<StdRng>,
    faults: AtomicU64,
    away: AtomicBool,
    trap: OnceLock<Trap>,
    calls: [AtomicU64; Verb::N],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Yes,
    No,
}

enum Fault {
    None,
    Before,
    Reply,
    Twice,
}

impl<S: Store + 'static> Faulty<S> {
    /// Puts an unreliable network in front of a store. The same seed fails the same calls, if they arrive in the same
    /// order.
    pub fn new(store: S, plan: FaultPlan, seed: u64) -> Self {
        let rng = Mutex::new(StdRng::seed_from_u64(seed));
        let behind = Arc::new(store);
        let store: Arc<dyn Store> = behind.clone();
        let network = Network {
            plan,
            rng,
            faults: AtomicU64::new(0),
            away: AtomicBool::new(false),
            trap: OnceLock::new(),
            calls: Default::default(),
        };
        Self { store, behind, network: Arc::new(network) }
    }

    /// Sets a trap.
    #[must_use]
    pub fn trapped(self, trap: Trap) -> Self {
        self.network.trap.get_or_init(|| trap);
        self
    }

    /// Number of calls of that kind that were started, whatever their outcome.
    pub fn calls_of(&self, verb: Verb) -> u64 {
        self.network.calls[verb as usize].load(Ordering::SeqCst)
    }

    /// The store behind the network.
    pub fn behind(&self) -> &S {
        &self.behind
    }

    /// Number of calls that failed so far.
    pub fn faults(&self) -> u64 {
        self.network.faults.load(Ordering::SeqCst)
    }

    /// Sets whether the store is unreachable. While it is, no call arrives.
    pub fn set_away(&self, away: bool) {
        self.network.away.store(away, Ordering::SeqCst);
    }

    fn fault(&self, repeat: Repeat) -> Fault {
        if self.network.away.load(Ordering::SeqCst) {
            return Fault::Before;
        }
        let FaultPlan { before, reply, twice } = self.network.plan;
        let drawn = self.network.rng.lock().unwrap_or_else(PoisonError::into_inner).random_range(0..1_000);
        let fault = match drawn {
            n if n < before => Fault::Before,
            n if n < before + reply => Fault::Reply,
            n if n < before + reply + twice && repeat == Repeat::Yes => Fault::Twice,
            _ => return Fault::None,
        };
        self.network.faults.fetch_add(1, Ordering::SeqCst);
        fault
    }

    fn send<'a, T: Send + 'a>(
        &'a self,
        repeat: Repeat,
        step: impl Fn(&'a dyn Store) -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        match self.fault(repeat) {
            Fault::None => step(&*self.store),
            Fault::Before => Box::pin(ready(Err(Error::unavailable("the call was lost on the way")))),
            Fault::Reply => {
                let sent = step(&*self.store);
                Box::pin(async move {
                    sent.await?;
                    Err(Error::unavailable("the reply was lost on the way").maybe_happened())
                })
            }
            Fault::Twice => {
                let first = step(&*self.store);
                Box::pin(async move {
                    first.await?;
                    step(&*self.store).await
                })
            }
        }
    }

    /// Like [`send`](Self::send), for counted calls that may have a trap.
    fn send_as<'a, T: Send + 'a>(
        &'a self,
        verb: Verb,
        repeat: Repeat,
        step: impl Fn(&'a dyn Store) -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        let nth = self.network.calls[verb as usize].fetch_add(1, Ordering::SeqCst) + 1;
        let Some(trap) = self.network.trap.get().copied().filter(|trap| (trap.verb, trap.nth) == (verb, nth))
        else {
            return self.send(repeat, step);
        };
        Box::pin(async move {
            if trap.moment == Moment::Before {
                (trap.spring)();
            }
            let answer = self.send(repeat, step).await?;
            if trap.moment == Moment::After {
                (trap.spring)();
            }
            Ok(answer)
        })
    }

    /// A notification is a hint: a bad network can only lose it.
    fn listen<'a, T: Send + 'a>(&self, news: Answer<'a, T>) -> Answer<'a, T> {
        match self.fault(Repeat::No) {
            Fault::None => news,
            _ => Box::pin(pending()),
        }
    }
}

impl<S: Store + 'static> LockStore for Faulty<S> {
    fn acquire(&self, request: Acquire) -> Answer<'_, Acquired> {
        self.send(Repeat::Yes, move |store| store.acquire(request.clone()))
    }

    fn release(&self, name: &LockName, token: Token) -> Answer<'_, Released> {
        let name = name.clone();
        self.send(Repeat::Yes, move |store| store.release(&name, token))
    }

    fn release_with(&self, op: Op, release: ReleaseWith) -> Answer<'_, ReleasedWith> {
        self.send(Repeat::Yes, move |store| store.release_with(op, release.clone()))
    }

    fn extend(&self, leases: Vec<Extend>) -> Answer<'_, Vec<Extended>> {
        self.send(Repeat::No, move |store| store.extend(leases.clone()))
    }

    fn held(&self, name: &LockName, token: Token) -> Answer<'_, Option<Grant>> {
        let name = name.clone();
        self.send(Repeat::Yes, move |store| store.held(&name, token))
    }

    fn leave(&self, name: &LockName, token: Token) -> Answer<'_, Left> {
        let name = name.clone();
        self.send(Repeat::No, move |store| store.leave(&name, token))
    }

    fn release_all(&self, client: ClientId) -> Answer<'_, u64> {
        self.send(Repeat::No, move |store| store.release_all(client))
    }

    fn force_release(&self, name: &LockName) -> Answer<'_, Option<Holder>> {
        let name = name.clone();
        self.send(Repeat::No, move |store| store.force_release(&name))
    }

    fn show(&self, name: &LockName) -> Answer<'_, LockState> {
        let name = name.clone();
        self.send(Repeat::Yes, move |store| store.show(&name))
    }

    fn list(&self, page: Page) -> Answer<'_, Vec<LockState>> {
        self.send(Repeat::Yes, move |store| store.list(page.clone()))
    }

    fn notice(&self, token: Token) -> Answer<'_, Notice> {
        self.listen(self.store.notice(token))
    }
}

impl<S: Store + 'static> QueueStore for Faulty<S> {
    fn enqueue(&self, op: Op, queue: &QueueName, tasks: Vec<NewTask>) -> Answer<'_, Vec<Enqueued>> {
        let queue = queue.clone();
        self.send_as(Verb::Enqueue, Repeat::Yes, move |store| store.enqueue(op, &queue, tasks.clone()))
    }

    fn top(&self, queue: &QueueName, n: u32) -> Answer<'_, Vec<Task>> {
        let queue = queue.clone();
        self.send(Repeat::Yes, move |store| store.top(&queue, n))
    }

    fn pop(&self, op: Op, queue: &QueueName, n: u32) -> Answer<'_, Vec<Task>> {
        let queue = queue.clone();
        self.send(Repeat::Yes, move |store| store.pop(op, &queue, n))
    }

    fn claim(&self, op: Op, queue: &QueueName, claim: Claim) -> Answer<'_, Claimed> {
        let queue = queue.clone();
        self.send_as(Verb::Claim, Repeat::Yes, move |store| store.claim(op, &queue, claim.clone()))
    }

    fn complete(&self, op: Op, queue: &QueueName, done: Vec<Completion>) -> Answer<'_, Vec<Completed>> {
        let queue = queue.clone();
        self.send_as(Verb::Complete, Repeat::Yes, move |store| store.complete(op, &queue, done.clone()))
    }

    fn retry(&self, op: Op, queue: &QueueName, failed: Vec<Retry>) -> Answer<'_, Vec<Retried>> {
        let queue = queue.clone();
        self.send_as(Verb::Retry, Repeat::Yes, move |store| store.retry(op, &queue, failed.clone()))
    }

    fn give_back(&self, op: Op, queue: &QueueName, back: Vec<GiveBack>) -> Answer<'_, Vec<GivenBack>> {
        let queue = queue.clone();
        self.send_as(Verb::GiveBack, Repeat::Yes, move |store| store.give_back(op, &queue, back.clone()))
    }

    fn extend_tasks(
        &self,
        queue: &QueueName,
        beats: Vec<Heartbeat>,
        lease: Lease,
    ) -> Answer<'_, Vec<TaskExtended>> {
        let queue = queue.clone();
        self.send_as(Verb::Extend, Repeat::No, move |store| store.extend_tasks(&queue, beats.clone(), lease))
    }

    fn dequeue(&self, op: Op, queue: &QueueName, ticket: Ticket) -> Answer<'_, Dequeued> {
        let queue = queue.clone();
        self.send(Repeat::Yes, move |store| store.dequeue(op, &queue, ticket.clone()))
    }

    fn cancel(&self, op: Op, queue: &QueueName, id: &TaskId) -> Answer<'_, Cancelled> {
        let queue = queue.clone();
        let id = id.clone();
        self.send(Repeat::Yes, move |store| store.cancel(op, &queue, &id))
    }

    fn unique_until(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<Timestamp>> {
        let queue = queue.clone();
        let id = id.clone();
        self.send(Repeat::Yes, move |store| store.unique_until(&queue, &id))
    }

    fn lift(&self, op: Op, queue: &QueueName, id: &TaskId) -> Answer<'_, Lifted> {
        let queue = queue.clone();
        let id = id.clone();
        self.send(Repeat::Yes, move |store| store.lift(op, &queue, &id))
    }

    fn close_batch(&self, op: Op, queue: &QueueName, id: &TaskId) -> Answer<'_, Closed> {
        let queue = queue.clone();
        let id = id.clone();
        self.send(Repeat::Yes, move |store| store.close_batch(op, &queue, &id))
    }

    fn waits(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<Waits>> {
        let queue = queue.clone();
        let id = id.clone();
        self.send(Repeat::Yes, move |store| store.waits(&queue, &id))
    }

    fn waited(&self, queue: &QueueName, id: &TaskId, after: &str, limit: u32) -> Answer<'_, Vec<Waited>> {
        let queue = queue.clone();
        let id = id.clone();
        let after = after.to_owned();
        self.send(Repeat::Yes, move |store| store.waited(&queue, &id, &after, limit))
    }

    fn task(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<TaskInfo>> {
        let queue = queue.clone();
        let id = id.clone();
        self.send(Repeat::Yes, move |store| store.task(&queue, &id))
    }

    fn tasks(&self, queue: &QueueName, listing: Listing) -> Answer<'_, Vec<TaskInfo>> {
        let queue = queue.clone();
        self.send(Repeat::Yes, move |store| store.tasks(&queue, listing.clone()))
    }

    fn stats(&self, queue: &QueueName) -> Answer<'_, QueueStats> {
        let queue = queue.clone();
        self.send(Repeat::Yes, move |store| store.stats(&queue))
    }

    fn queues(&self) -> Answer<'_, Vec<QueueName>> {
        self.send(Repeat::Yes, move |store| store.queues())
    }

    fn pause(&self, queue: &QueueName, paused: bool) -> Answer<'_, ()> {
        let queue = queue.clone();
        self.send(Repeat::Yes, move |store| store.pause(&queue, paused))
    }

    fn limit(&self, queue: &QueueName, limits: QueueLimits) -> Answer<'_, ()> {
        let queue = queue.clone();
        self.send(Repeat::Yes, move |store| store.limit(&queue, limits))
    }

    fn task_events(&self, queue: &QueueName, after: u64, limit: u32) -> Answer<'_, TaskEvents> {
        let queue = queue.clone();
        self.send(Repeat::Yes, move |store| store.task_events(&queue, after, limit))
    }

    fn dead(&self, queue: &QueueName, after: &str, limit: u32) -> Answer<'_, Vec<DeadLetter>> {
        let queue = queue.clone();
        let after = after.to_owned();
        self.send(Repeat::Yes, move |store| store.dead(&queue, &after, limit))
    }

    fn dead_letter(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<DeadLetter>> {
        let queue = queue.clone();
        let id = id.clone();
        self.send(Repeat::Yes, move |store| store.dead_letter(&queue, &id))
    }

    fn revive(&self, op: Op, queue: &QueueName, which: Selection) -> Answer<'_, Revived> {
        let queue = queue.clone();
        self.send(Repeat::Yes, move |store| store.revive(op, &queue, which.clone()))
    }

    fn bury(&self, op: Op, queue: &QueueName, which: Selection) -> Answer<'_, u64> {
        let queue = queue.clone();
        self.send(Repeat::Yes, move |store| store.bury(op, &queue, which.clone()))
    }

    fn ready(&self, queue: &QueueName) -> Answer<'_, ()> {
        self.listen(self.store.ready(queue))
    }

    fn over(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, ()> {
        self.listen(self.store.over(queue, id))
    }

    fn happens(&self, queue: &QueueName, after: u64) -> Answer<'_, ()> {
        self.listen(self.store.happens(queue, after))
    }
}

impl<S: Store + 'static> ScheduleStore for Faulty<S> {
    fn schedule(&self, queue: &QueueName, new: NewSchedule) -> Answer<'_, Scheduled> {
        let queue = queue.clone();
        self.send(Repeat::No, move |store| store.schedule(&queue, new.clone()))
    }

    fn unschedule(&self, queue: &QueueName, id: &ScheduleId) -> Answer<'_, bool> {
        let queue = queue.clone();
        let id = id.clone();
        self.send(Repeat::No, move |store| store.unschedule(&queue, &id))
    }

    fn schedules(&self, queue: &QueueName, page: Page) -> Answer<'_, Vec<Schedule>> {
        let queue = queue.clone();
        self.send(Repeat::Yes, move |store| store.schedules(&queue, page.clone()))
    }

    fn due_schedules(&self, queue: &QueueName, n: u32) -> Answer<'_, DueSchedules> {
        let queue = queue.clone();
        self.send(Repeat::Yes, move |store| store.due_schedules(&queue, n))
    }

    fn fire(&self, queue: &QueueName, fire: Fire) -> Answer<'_, Fired> {
        let queue = queue.clone();
        self.send_as(Verb::Fire, Repeat::No, move |store| store.fire(&queue, fire.clone()))
    }
}

impl<S: Store + 'static> OutboxStore for Faulty<S> {
    fn relay(&self, queue: &QueueName, relay: Relay) -> Answer<'_, Relayed> {
        let queue = queue.clone();
        self.send(Repeat::Yes, move |store| store.relay(&queue, relay.clone()))
    }
}

impl<S: Store + 'static> SaleStore for Faulty<S> {
    fn create(&self, sale: SaleSpec) -> Answer<'_, Created> {
        self.send(Repeat::Yes, move |store| store.create(sale.clone()))
    }

    fn open(&self, sale: &SaleId) -> Answer<'_, SaleStatus> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.open(&sale))
    }

    fn end(&self, sale: &SaleId) -> Answer<'_, SaleStatus> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.end(&sale))
    }

    fn reserve(&self, request: Reserve) -> Answer<'_, Reserved> {
        self.send(Repeat::Yes, move |store| store.reserve(request.clone()))
    }

    fn confirm(&self, sale: &SaleId, id: ReservationId) -> Answer<'_, Decision> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.confirm(&sale, id))
    }

    fn cancel_hold(&self, sale: &SaleId, id: ReservationId) -> Answer<'_, Decision> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.cancel_hold(&sale, id))
    }

    fn expire(&self, sale: &SaleId, n: u32) -> Answer<'_, u32> {
        let sale = sale.clone();
        self.send(Repeat::No, move |store| store.expire(&sale, n))
    }

    fn settle(
        &self,
        sale: &SaleId,
        generation: u32,
        verdicts: Vec<(ReservationId, Verdict)>,
    ) -> Answer<'_, Vec<Settled>> {
        let sale = sale.clone();
        self.send(Repeat::No, move |store| store.settle(&sale, generation, verdicts.clone()))
    }

    fn pause_sale(&self, sale: &SaleId, generation: u32, reason: PauseReason) -> Answer<'_, bool> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.pause_sale(&sale, generation, reason))
    }

    fn begin_rebuild(&self, by: Op, sale: &SaleId) -> Answer<'_, ()> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.begin_rebuild(by, &sale))
    }

    fn load(&self, by: Op, sale: &SaleId, generation: u32, part: Load) -> Answer<'_, Rebuilt> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.load(by, &sale, generation, part.clone()))
    }

    fn switch(&self, by: Op, sale: &SaleId, switch: Switch) -> Answer<'_, Rebuilt> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.switch(by, &sale, switch.clone()))
    }

    fn restore(&self, receipt: Receipt) -> Answer<'_, Restored> {
        self.send(Repeat::Yes, move |store| store.restore(receipt.clone()))
    }

    fn stock(&self, op: Op, sale: &SaleId, sku: &Sku, change: StockChange) -> Answer<'_, StockChanged> {
        let sale = sale.clone();
        let sku = sku.clone();
        self.send(Repeat::Yes, move |store| store.stock(op, &sale, &sku, change))
    }

    fn sale(&self, sale: &SaleId) -> Answer<'_, SaleState> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.sale(&sale))
    }

    fn sales(&self, page: Page) -> Answer<'_, Vec<SaleState>> {
        self.send(Repeat::Yes, move |store| store.sales(page.clone()))
    }

    fn reservation(&self, sale: &SaleId, id: ReservationId) -> Answer<'_, Option<Hold>> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.reservation(&sale, id))
    }

    fn events(&self, sale: &SaleId, after: u64, limit: u32) -> Answer<'_, Vec<Event>> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.events(&sale, after, limit))
    }

    fn books(&self, sale: &SaleId) -> Answer<'_, Books> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.books(&sale))
    }
}

impl<S: Store + 'static> RoomStore for Faulty<S> {
    fn set_room(&self, sale: &SaleId, rules: RoomRules, secret: DrawSecret) -> Answer<'_, RoomState> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.set_room(&sale, rules, secret))
    }

    fn room(&self, sale: &SaleId) -> Answer<'_, Option<RoomState>> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.room(&sale))
    }

    fn join(&self, sale: &SaleId, buyer: &BuyerId) -> Answer<'_, Option<Joined>> {
        let (sale, buyer) = (sale.clone(), buyer.clone());
        self.send(Repeat::No, move |store| store.join(&sale, &buyer))
    }

    fn enter(&self, enter: Enter) -> Answer<'_, Option<Entered>> {
        self.send(Repeat::Yes, move |store| store.enter(enter.clone()))
    }

    fn close_entry(&self, sale: &SaleId) -> Answer<'_, Option<RoomState>> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.close_entry(&sale))
    }

    fn draw(&self, sale: &SaleId, beacon: Beacon) -> Answer<'_, Option<Draw>> {
        let sale = sale.clone();
        self.send(Repeat::Yes, move |store| store.draw(&sale, beacon.clone()))
    }

    fn close_room(&self, sale: &SaleId) -> Answer<'_, bool> {
        let sale = sale.clone();
        self.send(Repeat::No, move |store| store.close_room(&sale))
    }
}

impl<S: Store + 'static> Store for Faulty<S> {
    /// The order worker's calls use the same network.
    fn for_orders(&self) -> Arc<dyn Store> {
        let (behind, network) = (Arc::clone(&self.behind), Arc::clone(&self.network));
        Arc::new(Self { store: self.store.for_orders(), behind, network })
    }

    fn info(&self) -> StoreInfo {
        self.store.info()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.store.warnings()
    }

    fn incarnation(&self) -> String {
        self.store.incarnation()
    }

    fn calls(&self) -> StoreCalls {
        self.store.calls()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.store.close()
    }
}

#[cfg(test)]
mod tests {
    use rushgate_core::{BuyerId, ClientId, ContentType, HoldTime, SkuSpec};

    use super::*;
    use crate::ModelStore;

    async fn until_answered<T>(mut call: impl AsyncFnMut() -> Result<T, Error>) -> T {
        loop {
            match call().await {
                Ok(answer) => return answer,
                Err(error) => assert!(error.is_unavailable(), "{error:?}"),
            }
        }
    }

    fn sale() -> SaleSpec {
        SaleSpec {
            id: SaleId::new("s").unwrap(),
            skus: vec![SkuSpec { sku: Sku::new("a").unwrap(), units: 50, per_buyer: 1 }],
            hold: HoldTime::new(std::time::Duration::from_secs(60)).unwrap(),
            opens_at: None,
            closes_at: None,
            orders: None,
            secret: rushgate_core::SaleSecret::from_bytes([1; 16]),
        }
    }

    #[tokio::test]
    async fn a_client_that_asks_again_by_token_sells_each_unit_once() {
        let plan = FaultPlan { before: 200, reply: 300, twice: 200 };
        let store = Faulty::new(ModelStore::new(), plan, 7);
        let spec = sale();
        until_answered(async || store.create(spec.clone()).await).await;
        until_answered(async || store.open(&spec.id).await).await;
        for n in 0..50_u8 {
            let wish = Reserve {
                sale: spec.id.clone(),
                id: ReservationId::from_bytes([n; 16]),
                buyer: BuyerId::new(format!("b{n}")).unwrap(),
                lines: vec![rushgate_core::Line { sku: spec.skus[0].sku.clone(), quantity: 1 }],
                choice: Default::default(),
            };
            let answer = until_answered(async || store.reserve(wish.clone()).await).await;
            assert!(matches!(answer, Reserved::Reserved(_) | Reserved::Replayed(_)), "{answer:?}");
        }
        let books = store.behind().books(&spec.id).await.unwrap();
        assert!(rushgate_core::audit(&books, None).ok);
        assert_eq!((books.reservations.len(), books.skus[0].free.len()), (50, 0));
        assert!(store.faults() > 20);
    }

    #[tokio::test]
    async fn an_error_says_whether_the_step_may_have_happened() {
        let (name, op) = (QueueName::new("q").unwrap(), Op::new(ClientId::from_u64(1), 1));
        let payload = rushgate_core::Payload::new(ContentType::bytes(), Vec::new()).unwrap();
        let task = NewTask::new(TaskId::new("t").unwrap(), payload);
        for (plan, happened) in [
            (FaultPlan { before: 1_000, ..FaultPlan::default() }, false),
            (FaultPlan { reply: 1_000, ..FaultPlan::default() }, true),
        ] {
            let store = Faulty::new(ModelStore::new(), plan, 1);
            let error = store.enqueue(op, &name, vec![task.clone()]).await.unwrap_err();
            assert_eq!(error.may_have_happened(), happened);
            assert_eq!(!store.behind().top(&name, 1).await.unwrap().is_empty(), happened);
        }
    }
}
