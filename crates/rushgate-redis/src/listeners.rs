//! The callers of this process that wait for notifications.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rushgate_core::{Log, Notice, QueueName, TaskId, Token};
use tokio::sync::oneshot;

/// The most notifications that are kept for tokens without a listener.
const MISSED_MAX: usize = 4_096;

/// From this number of queues on, those without listeners are removed.
const QUEUES_MAX: usize = 1_024;

#[derive(Default)]
pub(crate) struct Listeners(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    tokens: HashMap<Token, BTreeMap<u64, oneshot::Sender<Notice>>>,
    queues: HashMap<QueueName, Queue>,
    /// Listeners for the end of a task, by number.
    over: HashMap<(QueueName, TaskId), BTreeMap<u64, oneshot::Sender<()>>>,
    /// Followers of a log by number, each with the latest event that it knows.
    followers: HashMap<Log, BTreeMap<u64, (u64, oneshot::Sender<()>)>>,
    missed: HashMap<Token, Notice>,
    missed_order: VecDeque<Token>,
    next: u64,
    closed: bool,
}

/// A queue for which this process waits, or waited recently.
#[derive(Default)]
struct Queue {
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
    /// Whether this process is registered on the server for the queue's next wake-up.
    registered: bool,
    /// The queue's wake-up count, as far as this process knows.
    seen: Option<u64>,
}

/// Removes its listener when dropped.
pub(crate) struct Listening {
    listeners: Arc<Listeners>,
    number: u64,
    what: What,
}

enum What {
    Token(Token),
    Queue(QueueName),
    Over((QueueName, TaskId)),
    Events(Log),
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut inner = self.listeners.lock();
        match &self.what {
            What::Token(token) => forget(&mut inner.tokens, token, self.number),
            What::Over(task) => forget(&mut inner.over, task, self.number),
            What::Events(log) => forget(&mut inner.followers, log, self.number),
            What::Queue(queue) => {
                if let Some(of_queue) = inner.queues.get_mut(queue) {
                    of_queue.waiting.remove(&self.number);
                }
            }
        }
    }
}

fn forget<K: Hash + Eq, T>(of_all: &mut HashMap<K, BTreeMap<u64, T>>, key: &K, number: u64) {
    if let Some(of_key) = of_all.get_mut(key) {
        of_key.remove(&number);
        if of_key.is_empty() {
            of_all.remove(key);
        }
    }
}

/// What a new listener of a queue must do about the registration on the server.
pub(crate) enum Register {
    /// Nothing: the process is registered.
    Done,
    /// Register, with the wake-up count that the process knows, if any.
    From(Option<u64>),
}

impl Listeners {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a listener. If the store is closed, its channel ends at once.
    fn listen<T>(
        self: &Arc<Self>,
        what: What,
        enter: impl FnOnce(&mut Inner, u64, oneshot::Sender<T>),
    ) -> (Listening, oneshot::Receiver<T>) {
        let (tell, told) = oneshot::channel();
        let mut inner = self.lock();
        inner.next += 1;
        let number = inner.next;
        if !inner.closed {
            enter(&mut inner, number, tell);
        }
        (Listening { listeners: Arc::clone(self), number, what }, told)
    }

    pub(crate) fn listen_token(self: &Arc<Self>, token: Token) -> (Listening, oneshot::Receiver<Notice>) {
        self.listen(What::Token(token), |inner, number, tell| match inner.missed.remove(&token) {
            Some(notice) => drop(tell.send(notice)),
            None => drop(inner.tokens.entry(token).or_default().insert(number, tell)),
        })
    }

    pub(crate) fn listen_queue(
        self: &Arc<Self>,
        queue: &QueueName,
    ) -> (Listening, oneshot::Receiver<()>, Register) {
        let mut register = Register::Done;
        let (listening, told) = self.listen(What::Queue(queue.clone()), |inner, number, tell| {
            if inner.queues.len() >= QUEUES_MAX {
                inner.queues.retain(|_, of_queue| !of_queue.waiting.is_empty());
            }
            let of_queue = inner.queues.entry(queue.clone()).or_default();
            of_queue.waiting.insert(number, tell);
            if !of_queue.registered {
                register = Register::From(of_queue.seen);
            }
        });
        (listening, told, register)
    }

    pub(crate) fn listen_over(
        self: &Arc<Self>,
        queue: &QueueName,
        id: &TaskId,
    ) -> (Listening, oneshot::Receiver<()>) {
        let task = (queue.clone(), id.clone());
        self.listen(What::Over(task.clone()), |inner, number, tell| {
            inner.over.entry(task).or_default().insert(number, tell);
        })
    }

    pub(crate) fn listen_events(
        self: &Arc<Self>,
        log: &Log,
        after: u64,
    ) -> (Listening, oneshot::Receiver<()>) {
        self.listen(What::Events(log.clone()), |inner, number, tell| {
            inner.followers.entry(log.clone()).or_default().insert(number, (after, tell));
        })
    }

    pub(crate) fn tell_over(&self, queue: &QueueName, id: &TaskId) {
        if let Some(of_task) = self.lock().over.remove(&(queue.clone(), id.clone())) {
            tell_each(of_task, ());
        }
    }

    /// Notifies the followers that do not know the latest event.
    pub(crate) fn tell_events(&self, log: &Log, last: u64) {
        let mut inner = self.lock();
        let Some(of_log) = inner.followers.get_mut(log) else { return };
        for (_, (_, tell)) in of_log.extract_if(.., |_, (after, _)| *after != last) {
            // The listener may be gone.
            let _ = tell.send(());
        }
        if of_log.is_empty() {
            inner.followers.remove(log);
        }
    }

    pub(crate) fn tell_token(&self, token: Token, notice: Notice) {
        let mut inner = self.lock();
        match inner.tokens.remove(&token) {
            Some(of_token) => tell_each(of_token, notice),
            None => inner.miss(token, notice),
        }
    }

    /// Handles a wake-up of the process: notifies as many listeners of the queue as there are tasks, the longest
    /// waiting first.
    pub(crate) fn tell_queue(&self, queue: &QueueName, tasks: u64, seen: u64) -> Told {
        let mut inner = self.lock();
        let of_queue = inner.queues.entry(queue.clone()).or_default();
        of_queue.registered = false;
        of_queue.seen = Some(of_queue.seen.unwrap_or(0).max(seen));
        let mut woken = 0;
        while woken < tasks.max(1)
            && let Some((_, tell)) = of_queue.waiting.pop_first()
        {
            woken += u64::from(tell.send(()).is_ok());
        }
        match (woken, of_queue.waiting.is_empty()) {
            (_, false) => Told::OthersWait(seen),
            (0, true) => Told::Nobody,
            (_, true) => Told::All,
        }
    }

    /// Records the wake-up count that a claim returned.
    pub(crate) fn saw(&self, queue: &QueueName, seen: u64) {
        let mut inner = self.lock();
        if let Some(of_queue) = inner.queues.get_mut(queue) {
            of_queue.seen = Some(of_queue.seen.unwrap_or(0).max(seen));
        }
    }

    /// Whether the caller must register the process. Returns true to only one caller at a time.
    pub(crate) fn must_register(&self, queue: &QueueName) -> bool {
        let mut inner = self.lock();
        let Some(of_queue) = inner.queues.get_mut(queue) else { return false };
        let must = !of_queue.registered && !of_queue.waiting.is_empty();
        of_queue.registered |= must;
        must
    }

    /// The registration failed.
    pub(crate) fn not_registered(&self, queue: &QueueName) {
        if let Some(of_queue) = self.lock().queues.get_mut(queue) {
            of_queue.registered = false;
        }
    }

    /// Notifications may have been lost, so every listener is woken to query the state.
    pub(crate) fn tell_all(&self) {
        let mut inner = self.lock();
        for (_, of_token) in inner.tokens.drain() {
            tell_each(of_token, Notice::Ask);
        }
        for (_, of_task) in inner.over.drain() {
            tell_each(of_task, ());
        }
        for (_, of_queue) in inner.followers.drain() {
            tell_each(of_queue.into_iter().map(|(number, (_, tell))| (number, tell)).collect(), ());
        }
        for (_, mut of_queue) in inner.queues.drain() {
            while let Some((_, tell)) = of_queue.waiting.pop_first() {
                let _ = tell.send(());
            }
        }
    }

    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.tokens.clear();
        inner.queues.clear();
        inner.over.clear();
        inner.followers.clear();
    }
}

fn tell_each<T: Copy>(listeners: BTreeMap<u64, oneshot::Sender<T>>, notice: T) {
    for tell in listeners.into_values() {
        // The listener may be gone.
        let _ = tell.send(notice);
    }
}

/// How many listeners a wake-up reached: all, not all (with the wake-up count), or none.
pub(crate) enum Told {
    All,
    OthersWait(u64),
    Nobody,
}

impl Inner {
    fn miss(&mut self, token: Token, notice: Notice) {
        if self.missed.insert(token, notice).is_none() {
            self.missed_order.push_back(token);
        }
        while self.missed_order.len() > MISSED_MAX {
            if let Some(oldest) = self.missed_order.pop_front() {
                self.missed.remove(&oldest);
            }
        }
    }
}
