use std::collections::BTreeMap;
use std::future::ready;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rushgate_core::{
    Answer, Durability, Error, Log, Notification, QueueName, Reply, Request, Result, Store, StoreCalls,
    StoreInfo, TaskId, Timestamp, Token, Topic,
};
use tokio::sync::{Notify, oneshot};

use super::{Clock, ManualClock, Model, Planted};

/// An in-memory store for tests: no file, no server, and a clock that [moves on request](Self::advance).
///
/// It implements every verb of locks, queues and sales, and passes the same contract suite as the stores on SQLite
/// and Redis. Pass it to `Rushgate::with_store`. Clones share the data, so each client gets a clone.
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

struct Inner {
    model: Mutex<Model>,
    clock: Clock,
    listeners: Mutex<BTreeMap<Token, Vec<Listener>>>,
    listener_last: AtomicU64,
    bells: Mutex<BTreeMap<QueueName, Arc<Notify>>>,
    /// Listeners for the end of a task.
    awaited: Mutex<Vec<(QueueName, TaskId, oneshot::Sender<()>)>>,
    /// Listeners for events of a log after a number.
    followed: Mutex<Vec<(Log, u64, oneshot::Sender<()>)>>,
    calls: AtomicU64,
    incarnation: AtomicU64,
    closed: AtomicBool,
}

/// A call of `notification`: its number and channel.
type Listener = (u64, oneshot::Sender<Notification>);

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

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// Creates an empty store. Its clock runs like the machine's, and [`advance`](Self::advance) moves it ahead.
    pub fn new() -> Self {
        Self::with(Model::default(), Clock::Ahead(ManualClock::new(Timestamp::default())))
    }

    /// Creates an empty store whose clock stands still between calls of [`advance`](Self::advance).
    pub fn on(clock: ManualClock) -> Self {
        Self::with(Model::default(), Clock::Manual(clock))
    }

    /// Creates an empty store with a bug, on a test's clock.
    pub fn planted(bug: Planted, clock: ManualClock) -> Self {
        Self::with(Model::planted(bug), Clock::Manual(clock))
    }

    /// Moves the store's clock forward. Leases, delays and deadlines that end by then end now, and waiting clients are
    /// notified.
    ///
    /// The clients' own clocks do not move. A lock guard learns that its lease has expired at its next renewal.
    pub fn advance(&self, by: Duration) {
        self.inner.clock.advance(by);
        let mut model = locked(&self.inner.model);
        self.tell_finished(&mut model);
        self.tell_events(&mut model);
        drop(model);
        let listening: Vec<Token> = locked(&self.inner.listeners).keys().copied().collect();
        listening.into_iter().for_each(|token| self.tell(token, Notification::Ask));
        locked(&self.inner.bells).values().for_each(|bell| bell.notify_one());
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
        Self { inner }
    }

    /// Executes a step at the time of the call, as the contract requires, and notifies listeners.
    fn step_now<T>(&self, step: impl FnOnce(&mut Model, Timestamp) -> Result<T>) -> Result<T> {
        self.inner.calls.fetch_add(1, Ordering::SeqCst);
        if self.inner.closed.load(Ordering::SeqCst) {
            return Err(closed());
        }
        let mut model = locked(&self.inner.model);
        model.locks.listening = locked(&self.inner.listeners).keys().copied().collect();
        let answer = step(&mut model, self.inner.clock.now());
        let notifications = std::mem::take(&mut model.locks.notifications);
        let woken = std::mem::take(&mut model.queues.woken);
        self.tell_finished(&mut model);
        self.tell_events(&mut model);
        drop(model);
        notifications.into_iter().for_each(|(token, notification)| self.tell(token, notification));
        woken.iter().for_each(|queue| self.bell(queue).notify_one());
        answer
    }

    fn tell(&self, token: Token, notification: Notification) {
        let listeners = locked(&self.inner.listeners).remove(&token).unwrap_or_default();
        for (_, listener) in listeners {
            // The listener may be gone: a notification is a hint.
            let _ = listener.send(notification);
        }
    }

    fn tell_finished(&self, model: &mut Model) {
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
        let (idle, notifications): (Vec<_>, Vec<_>) =
            all.partition(|(log, after, _)| model.is_at(now, log, *after).unwrap_or(false));
        *followed = idle;
        for (.., told) in notifications {
            // The listener may be gone.
            let _ = told.send(());
        }
    }

    fn bell(&self, queue: &QueueName) -> Arc<Notify> {
        locked(&self.inner.bells).entry(queue.clone()).or_default().clone()
    }

    fn listen_token(&self, token: Token) -> (Listening, oneshot::Receiver<Notification>) {
        let number = self.inner.listener_last.fetch_add(1, Ordering::SeqCst);
        let (sender, receiver) = oneshot::channel();
        locked(&self.inner.listeners).entry(token).or_default().push((number, sender));
        (Listening { inner: self.inner.clone(), token, number }, receiver)
    }
}

impl Store for MemoryStore {
    fn step(&self, request: Request) -> Answer<'static, Reply> {
        Box::pin(ready(self.step_now(|model, now| model.carry_out(now, request))))
    }

    fn listen(&self, topic: Topic) -> Answer<'static, Option<Notification>> {
        match topic {
            Topic::Token(token) => {
                let (listening, notifications) = self.listen_token(token);
                let missed = self.step_now(|model, now| Ok(model.missed_notice(now, token)));
                Box::pin(async move {
                    let _listening = listening;
                    match missed? {
                        Some(notification) => Ok(Some(notification)),
                        None => notifications.await.map(Some).map_err(|_| closed()),
                    }
                })
            }
            Topic::Ready(queue) => {
                let bell = self.bell(&queue);
                // `Notify` keeps a notification for the first poll, so listening starts at this call.
                Box::pin(async move {
                    bell.notified().await;
                    Ok(None)
                })
            }
            Topic::Finished(queue, id) => {
                let (told, listened) = oneshot::channel();
                let live = self.step_now(|model, now| Ok(model.is_awaited(now, &queue, &id)));
                if let Ok(true) = live {
                    locked(&self.inner.awaited).push((queue, id, told));
                }
                hear(live, listened)
            }
            Topic::Event(log, after) => {
                let (told, listened) = oneshot::channel();
                let waits = self.step_now(|model, now| model.is_at(now, &log, after));
                if let Ok(true) = waits {
                    locked(&self.inner.followed).push((log, after, told));
                }
                hear(waits, listened)
            }
        }
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

fn closed() -> Error {
    Error::unavailable("the store is closed")
}

/// Waits for a notification, unless there is nothing to wait for.
fn hear(waits: Result<bool>, listened: oneshot::Receiver<()>) -> Answer<'static, Option<Notification>> {
    Box::pin(async move {
        if waits? {
            listened.await.map_err(|_| closed())?;
        }
        Ok(None)
    })
}
