use std::collections::BTreeMap;
use std::future::ready;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rushgate_core::{
    Acquire, Acquired, Answer, Beacon, Books, BuyerId, Cancelled, Claim, Claimed, ClientId, Closed,
    Completed, Completion, Created, DeadLetter, Decision, Dequeued, Draw, DrawSecret, DueSchedules,
    Durability, Enqueued, Enter, Entered, Error, Event, Extend, Extended, Fire, Fired, GiveBack, GivenBack,
    Grant, Heartbeat, Hold, Holder, Joined, Lease, Left, Lifted, Listing, Load, LockName, LockState,
    LockStore, NewSchedule, NewTask, Notice, Op, OutboxStore, Page, PauseReason, QueueLimits, QueueName,
    QueueStats, QueueStore, Rebuilt, Receipt, Relay, Relayed, ReleaseWith, Released, ReleasedWith,
    ReservationId, Reserve, Reserved, Restored, Result, Retried, Retry, Revived, RoomRules, RoomState,
    RoomStore, SaleId, SaleSpec, SaleState, SaleStatus, SaleStore, Schedule, ScheduleId, ScheduleStore,
    Scheduled, Selection, Settled, Sku, StockChange, StockChanged, Store, StoreCalls, StoreInfo, Switch,
    Task, TaskEvents, TaskExtended, TaskId, TaskInfo, Ticket, Timestamp, Token, Verdict, Waited, Waits,
};
use tokio::sync::{Notify, oneshot};

use super::{Clock, ManualClock, Model, Planted};

/// The model as a store, for unit tests that need no file or server. Clones share the store.
#[derive(Clone)]
pub struct ModelStore {
    inner: Arc<Inner>,
    for_orders: bool,
}

struct Inner {
    model: Mutex<Model>,
    clock: Clock,
    listeners: Mutex<BTreeMap<Token, Vec<Listener>>>,
    listener_last: AtomicU64,
    bells: Mutex<BTreeMap<QueueName, Arc<Notify>>>,
    /// Listeners for the end of a task.
    awaited: Mutex<Vec<(QueueName, TaskId, oneshot::Sender<()>)>>,
    /// Listeners for events of a queue after a number.
    followed: Mutex<Vec<(QueueName, u64, oneshot::Sender<()>)>>,
    calls: AtomicU64,
    incarnation: AtomicU64,
    closed: AtomicBool,
}

/// A call of `notice`: its number and channel.
type Listener = (u64, oneshot::Sender<Notice>);

/// Unregisters the listener when dropped.
struct Listening {
    inner: Arc<Inner>,
    token: Token,
    number: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut listeners = locked(&self.inner.listeners);
        if let Some(of_token) = listeners.get_mut(&self.token) {
            of_token.retain(|(number, _)| *number != self.number);
            if of_token.is_empty() {
                listeners.remove(&self.token);
            }
        }
    }
}

/// A panic in a test step leaves the maps consistent, so a poisoned mutex is still usable.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for ModelStore {
    fn default() -> Self {
        Self::new()
    }
}

impl ModelStore {
    /// Creates an empty store on the machine's clock.
    pub fn new() -> Self {
        Self::with(Model::default(), Clock::Real)
    }

    /// Creates an empty store on a test's clock.
    pub fn on(clock: ManualClock) -> Self {
        Self::with(Model::default(), Clock::Manual(clock))
    }

    /// Creates an empty store with a bug, on a test's clock.
    pub fn planted(bug: Planted, clock: ManualClock) -> Self {
        Self::with(Model::planted(bug), Clock::Manual(clock))
    }

    /// Copies the whole content.
    pub fn copy(&self) -> Model {
        locked(&self.inner.model).clone()
    }

    /// Restores a copy, as after a failover or from an old backup. Later writes are lost.
    pub fn go_back_to(&self, copy: Model) {
        *locked(&self.inner.model) = copy;
        self.inner.incarnation.fetch_add(1, Ordering::SeqCst);
    }

    fn with(model: Model, clock: Clock) -> Self {
        let inner = Arc::new(Inner {
            model: Mutex::new(model),
            clock,
            listeners: Mutex::default(),
            listener_last: AtomicU64::new(0),
            bells: Mutex::default(),
            awaited: Mutex::default(),
            followed: Mutex::default(),
            calls: AtomicU64::new(0),
            incarnation: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        });
        Self { inner, for_orders: false }
    }

    /// Executes a step at the time of the call, as the contract requires, and notifies listeners.
    fn step<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut Model, Timestamp) -> Result<T>,
    ) -> Answer<'_, T> {
        Box::pin(ready(self.step_now(step)))
    }

    fn step_now<T>(&self, step: impl FnOnce(&mut Model, Timestamp) -> Result<T>) -> Result<T> {
        self.inner.calls.fetch_add(1, Ordering::SeqCst);
        if self.inner.closed.load(Ordering::SeqCst) {
            return Err(Error::unavailable("the store is closed"));
        }
        let mut model = locked(&self.inner.model);
        model.for_orders = self.for_orders;
        model.locks.listening = locked(&self.inner.listeners).keys().copied().collect();
        let answer = step(&mut model, self.inner.clock.now());
        let news = std::mem::take(&mut model.locks.news);
        let woken = std::mem::take(&mut model.queues.woken);
        self.tell_over(&mut model);
        self.tell_events(&mut model);
        drop(model);
        news.into_iter().for_each(|(token, notice)| self.tell(token, notice));
        woken.iter().for_each(|queue| self.bell(queue).notify_one());
        answer
    }

    fn tell(&self, token: Token, notice: Notice) {
        let listeners = locked(&self.inner.listeners).remove(&token).unwrap_or_default();
        for (_, listener) in listeners {
            // The listener may be gone: a notification is a hint.
            let _ = listener.send(notice);
        }
    }

    fn tell_over(&self, model: &mut Model) {
        let now = self.inner.clock.now();
        let mut awaited = locked(&self.inner.awaited);
        let all = std::mem::take(&mut *awaited).into_iter().filter(|(.., told)| !told.is_closed());
        let (live, over): (Vec<_>, Vec<_>) = all.partition(|(queue, id, _)| model.is_awaited(now, queue, id));
        *awaited = live;
        for (.., told) in over {
            // The listener may be gone.
            let _ = told.send(());
        }
    }

    fn tell_events(&self, model: &mut Model) {
        let now = self.inner.clock.now();
        let mut followed = locked(&self.inner.followed);
        let all = std::mem::take(&mut *followed).into_iter().filter(|(.., told)| !told.is_closed());
        let (idle, news): (Vec<_>, Vec<_>) =
            all.partition(|(queue, after, _)| model.nothing_happens(now, queue, *after));
        *followed = idle;
        for (.., told) in news {
            // The listener may be gone.
            let _ = told.send(());
        }
    }

    fn bell(&self, queue: &QueueName) -> Arc<Notify> {
        locked(&self.inner.bells).entry(queue.clone()).or_default().clone()
    }

    fn listen(&self, token: Token) -> (Listening, oneshot::Receiver<Notice>) {
        let number = self.inner.listener_last.fetch_add(1, Ordering::SeqCst);
        let (sender, receiver) = oneshot::channel();
        locked(&self.inner.listeners).entry(token).or_default().push((number, sender));
        (Listening { inner: self.inner.clone(), token, number }, receiver)
    }
}

impl LockStore for ModelStore {
    fn acquire(&self, request: Acquire) -> Answer<'_, Acquired> {
        self.step(|model, now| model.acquire(now, request))
    }

    fn release(&self, name: &LockName, token: Token) -> Answer<'_, Released> {
        self.step(|model, now| model.release(now, name, token))
    }

    fn release_with(&self, op: Op, release: ReleaseWith) -> Answer<'_, ReleasedWith> {
        self.step(|model, now| model.release_with(now, op, release))
    }

    fn extend(&self, leases: Vec<Extend>) -> Answer<'_, Vec<Extended>> {
        self.step(|model, now| model.extend(now, leases))
    }

    fn held(&self, name: &LockName, token: Token) -> Answer<'_, Option<Grant>> {
        self.step(|model, now| model.held(now, name, token))
    }

    fn leave(&self, name: &LockName, token: Token) -> Answer<'_, Left> {
        self.step(|model, now| model.leave(now, name, token))
    }

    fn release_all(&self, client: ClientId) -> Answer<'_, u64> {
        self.step(|model, now| model.release_all(now, client))
    }

    fn force_release(&self, name: &LockName) -> Answer<'_, Option<Holder>> {
        self.step(|model, now| model.force_release(now, name))
    }

    fn show(&self, name: &LockName) -> Answer<'_, LockState> {
        self.step(|model, now| model.show(now, name))
    }

    fn list(&self, page: Page) -> Answer<'_, Vec<LockState>> {
        self.step(|model, now| model.list(now, &page))
    }

    fn notice(&self, token: Token) -> Answer<'_, Notice> {
        let (listening, news) = self.listen(token);
        let missed = self.step_now(|model, now| Ok(model.missed_notice(now, token)));
        Box::pin(async move {
            let _listening = listening;
            match missed? {
                Some(notice) => Ok(notice),
                None => news.await.map_err(|_| Error::unavailable("the store is closed")),
            }
        })
    }
}

impl QueueStore for ModelStore {
    fn enqueue(&self, op: Op, queue: &QueueName, tasks: Vec<NewTask>) -> Answer<'_, Vec<Enqueued>> {
        self.step(|model, now| model.enqueue(now, op, queue, tasks))
    }

    fn top(&self, queue: &QueueName, n: u32) -> Answer<'_, Vec<Task>> {
        self.step(|model, now| model.top(now, queue, n))
    }

    fn pop(&self, op: Op, queue: &QueueName, n: u32) -> Answer<'_, Vec<Task>> {
        self.step(|model, now| model.pop(now, op, queue, n))
    }

    fn claim(&self, op: Op, queue: &QueueName, claim: Claim) -> Answer<'_, Claimed> {
        self.step(|model, now| model.claim(now, op, queue, claim))
    }

    fn complete(&self, op: Op, queue: &QueueName, done: Vec<Completion>) -> Answer<'_, Vec<Completed>> {
        self.step(|model, now| model.complete(now, op, queue, done))
    }

    fn retry(&self, op: Op, queue: &QueueName, failed: Vec<Retry>) -> Answer<'_, Vec<Retried>> {
        self.step(|model, now| model.retry(now, op, queue, failed))
    }

    fn give_back(&self, op: Op, queue: &QueueName, back: Vec<GiveBack>) -> Answer<'_, Vec<GivenBack>> {
        self.step(|model, now| model.give_back(now, op, queue, back))
    }

    fn extend_tasks(
        &self,
        queue: &QueueName,
        beats: Vec<Heartbeat>,
        lease: Lease,
    ) -> Answer<'_, Vec<TaskExtended>> {
        self.step(|model, now| model.extend_tasks(now, queue, beats, lease))
    }

    fn dequeue(&self, op: Op, queue: &QueueName, ticket: Ticket) -> Answer<'_, Dequeued> {
        self.step(|model, now| model.dequeue(now, op, queue, ticket))
    }

    fn cancel(&self, op: Op, queue: &QueueName, id: &TaskId) -> Answer<'_, Cancelled> {
        self.step(|model, now| model.cancel(now, op, queue, id))
    }

    fn unique_until(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<Timestamp>> {
        self.step(|model, now| model.unique_until(now, queue, id))
    }

    fn lift(&self, op: Op, queue: &QueueName, id: &TaskId) -> Answer<'_, Lifted> {
        self.step(|model, now| model.lift(now, op, queue, id))
    }

    fn close_batch(&self, op: Op, queue: &QueueName, id: &TaskId) -> Answer<'_, Closed> {
        self.step(|model, now| model.close_batch(now, op, queue, id))
    }

    fn waits(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<Waits>> {
        self.step(|model, now| model.waits(now, queue, id))
    }

    fn waited(&self, queue: &QueueName, id: &TaskId, after: &str, limit: u32) -> Answer<'_, Vec<Waited>> {
        self.step(|model, now| model.waited(now, queue, id, after, limit))
    }

    fn task(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<TaskInfo>> {
        self.step(|model, now| model.task(now, queue, id))
    }

    fn tasks(&self, queue: &QueueName, listing: Listing) -> Answer<'_, Vec<TaskInfo>> {
        self.step(|model, now| model.tasks(now, queue, &listing))
    }

    fn stats(&self, queue: &QueueName) -> Answer<'_, QueueStats> {
        self.step(|model, now| model.stats(now, queue))
    }

    fn queues(&self) -> Answer<'_, Vec<QueueName>> {
        self.step(|model, _| model.queues())
    }

    fn pause(&self, queue: &QueueName, paused: bool) -> Answer<'_, ()> {
        self.step(|model, now| model.pause(now, queue, paused))
    }

    fn limit(&self, queue: &QueueName, limits: QueueLimits) -> Answer<'_, ()> {
        self.step(|model, now| model.limit(now, queue, limits))
    }

    fn task_events(&self, queue: &QueueName, after: u64, limit: u32) -> Answer<'_, TaskEvents> {
        self.step(|model, now| model.task_events(now, queue, after, limit))
    }

    fn dead(&self, queue: &QueueName, after: &str, limit: u32) -> Answer<'_, Vec<DeadLetter>> {
        self.step(|model, now| model.dead(now, queue, after, limit))
    }

    fn dead_letter(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<DeadLetter>> {
        self.step(|model, now| model.dead_letter(now, queue, id))
    }

    fn revive(&self, op: Op, queue: &QueueName, which: Selection) -> Answer<'_, Revived> {
        self.step(|model, now| model.revive(now, op, queue, &which))
    }

    fn bury(&self, op: Op, queue: &QueueName, which: Selection) -> Answer<'_, u64> {
        self.step(|model, now| model.bury(now, op, queue, &which))
    }

    fn ready(&self, queue: &QueueName) -> Answer<'_, ()> {
        let bell = self.bell(queue);
        // `Notify` keeps a notification for the first poll, so listening starts at this call.
        Box::pin(async move {
            bell.notified().await;
            Ok(())
        })
    }

    fn over(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, ()> {
        let (told, listened) = oneshot::channel();
        let live = self.step_now(|model, now| Ok(model.is_awaited(now, queue, id)));
        if let Ok(true) = live {
            locked(&self.inner.awaited).push((queue.clone(), id.clone(), told));
        }
        Box::pin(async move {
            if live? {
                listened.await.map_err(|_| Error::unavailable("the store is closed"))?;
            }
            Ok(())
        })
    }

    fn happens(&self, queue: &QueueName, after: u64) -> Answer<'_, ()> {
        let (told, listened) = oneshot::channel();
        let waits = self.step_now(|model, now| Ok(model.nothing_happens(now, queue, after)));
        if let Ok(true) = waits {
            locked(&self.inner.followed).push((queue.clone(), after, told));
        }
        Box::pin(async move {
            if waits? {
                listened.await.map_err(|_| Error::unavailable("the store is closed"))?;
            }
            Ok(())
        })
    }
}

impl ScheduleStore for ModelStore {
    fn schedule(&self, queue: &QueueName, new: NewSchedule) -> Answer<'_, Scheduled> {
        self.step(|model, now| model.schedule(now, queue, new))
    }

    fn unschedule(&self, queue: &QueueName, id: &ScheduleId) -> Answer<'_, bool> {
        self.step(|model, now| model.unschedule(now, queue, id))
    }

    fn schedules(&self, queue: &QueueName, page: Page) -> Answer<'_, Vec<Schedule>> {
        self.step(|model, now| model.schedules(now, queue, &page))
    }

    fn due_schedules(&self, queue: &QueueName, n: u32) -> Answer<'_, DueSchedules> {
        self.step(|model, now| model.due_schedules(now, queue, n))
    }

    fn fire(&self, queue: &QueueName, fire: Fire) -> Answer<'_, Fired> {
        self.step(|model, now| model.fire(now, queue, fire))
    }
}

impl OutboxStore for ModelStore {
    fn relay(&self, queue: &QueueName, relay: Relay) -> Answer<'_, Relayed> {
        self.step(|model, now| model.relay(now, queue, relay))
    }
}

impl SaleStore for ModelStore {
    fn create(&self, sale: SaleSpec) -> Answer<'_, Created> {
        self.step(|model, _| model.create(sale))
    }

    fn open(&self, sale: &SaleId) -> Answer<'_, SaleStatus> {
        self.step(|model, now| model.open(now, sale))
    }

    fn end(&self, sale: &SaleId) -> Answer<'_, SaleStatus> {
        self.step(|model, now| model.end(now, sale))
    }

    fn reserve(&self, request: Reserve) -> Answer<'_, Reserved> {
        self.step(|model, now| model.reserve(now, request))
    }

    fn confirm(&self, sale: &SaleId, id: ReservationId) -> Answer<'_, Decision> {
        self.step(|model, now| model.confirm(now, sale, id))
    }

    fn cancel_hold(&self, sale: &SaleId, id: ReservationId) -> Answer<'_, Decision> {
        self.step(|model, now| model.cancel_hold(now, sale, id))
    }

    fn expire(&self, sale: &SaleId, n: u32) -> Answer<'_, u32> {
        self.step(|model, now| model.expire(now, sale, n))
    }

    fn settle(
        &self,
        sale: &SaleId,
        generation: u32,
        verdicts: Vec<(ReservationId, Verdict)>,
    ) -> Answer<'_, Vec<Settled>> {
        self.step(|model, now| model.settle(now, sale, generation, verdicts))
    }

    fn pause_sale(&self, sale: &SaleId, generation: u32, reason: PauseReason) -> Answer<'_, bool> {
        self.step(|model, now| model.pause_sale(now, sale, generation, reason))
    }

    fn begin_rebuild(&self, by: Op, sale: &SaleId) -> Answer<'_, ()> {
        self.step(|model, now| model.begin_rebuild(now, by, sale))
    }

    fn load(&self, by: Op, sale: &SaleId, generation: u32, part: Load) -> Answer<'_, Rebuilt> {
        self.step(|model, now| model.load(now, by, sale, generation, part))
    }

    fn switch(&self, by: Op, sale: &SaleId, switch: Switch) -> Answer<'_, Rebuilt> {
        self.step(|model, now| model.switch(now, by, sale, &switch))
    }

    fn restore(&self, receipt: Receipt) -> Answer<'_, Restored> {
        self.step(|model, now| model.restore(now, receipt))
    }

    fn stock(&self, op: Op, sale: &SaleId, sku: &Sku, change: StockChange) -> Answer<'_, StockChanged> {
        self.step(|model, now| model.stock(now, op, sale, sku, change))
    }

    fn sale(&self, sale: &SaleId) -> Answer<'_, SaleState> {
        self.step(|model, now| model.sale(now, sale))
    }

    fn sales(&self, page: Page) -> Answer<'_, Vec<SaleState>> {
        self.step(|model, now| model.sales(now, &page))
    }

    fn reservation(&self, sale: &SaleId, id: ReservationId) -> Answer<'_, Option<Hold>> {
        self.step(|model, _| model.reservation(sale, id))
    }

    fn events(&self, sale: &SaleId, after: u64, limit: u32) -> Answer<'_, Vec<Event>> {
        self.step(|model, _| model.events(sale, after, limit))
    }

    fn books(&self, sale: &SaleId) -> Answer<'_, Books> {
        self.step(|model, _| model.books(sale))
    }
}

impl RoomStore for ModelStore {
    fn set_room(&self, sale: &SaleId, rules: RoomRules, secret: DrawSecret) -> Answer<'_, RoomState> {
        self.step(|model, now| model.set_room(now, sale, rules, secret))
    }

    fn room(&self, sale: &SaleId) -> Answer<'_, Option<RoomState>> {
        self.step(|model, now| model.room(now, sale))
    }

    fn join(&self, sale: &SaleId, buyer: &BuyerId) -> Answer<'_, Option<Joined>> {
        self.step(|model, now| model.join(now, sale, buyer))
    }

    fn enter(&self, enter: Enter) -> Answer<'_, Option<Entered>> {
        self.step(|model, now| model.enter(now, &enter))
    }

    fn close_entry(&self, sale: &SaleId) -> Answer<'_, Option<RoomState>> {
        self.step(|model, now| model.close_entry(now, sale))
    }

    fn draw(&self, sale: &SaleId, beacon: Beacon) -> Answer<'_, Option<Draw>> {
        self.step(|model, now| model.draw(now, sale, beacon))
    }

    fn close_room(&self, sale: &SaleId) -> Answer<'_, bool> {
        self.step(|model, _| model.close_room(sale))
    }
}

impl Store for ModelStore {
    fn for_orders(&self) -> Arc<dyn Store> {
        Arc::new(Self { for_orders: true, ..self.clone() })
    }

    fn info(&self) -> StoreInfo {
        StoreInfo {
            url: "model:".to_owned(),
            server: concat!("Rushgate's model ", env!("CARGO_PKG_VERSION")).to_owned(),
            durability: Durability::D0,
        }
    }

    fn incarnation(&self) -> String {
        self.inner.incarnation.load(Ordering::SeqCst).to_string()
    }

    fn calls(&self) -> StoreCalls {
        let calls = self.inner.calls.load(Ordering::SeqCst);
        StoreCalls { calls, transactions: calls, statements: calls }
    }

    fn close(&self) -> Answer<'_, ()> {
        self.inner.closed.store(true, Ordering::SeqCst);
        locked(&self.inner.listeners).clear();
        locked(&self.inner.awaited).clear();
        Box::pin(ready(Ok(())))
    }
}
