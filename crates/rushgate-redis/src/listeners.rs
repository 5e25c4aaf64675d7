//! The callers of this process that wait for notifications.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rushgate_core::{Log, Notification, QueueName, TaskId, Token, Topic};
use tokio::sync::oneshot;

/// The most notifications that are kept for tokens without a listener.
const MISSED_MAX: usize = 4_096;

/// From this number of queues on, those without listeners are removed.
const QUEUES_MAX: usize = 1_024;

#[derive(Default)]
pub(crate) struct Listeners(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// The listeners of each topic by number, and so in order of arrival. The followers of a log share a topic,
    /// and each has the latest event that it knows.
    topics: HashMap<Topic, BTreeMap<u64, (u64, Tell)>>,
    queues: HashMap<QueueName, Queue>,
    missed: HashMap<Token, Notification>,
    missed_order: VecDeque<Token>,
    next: u64,
    closed: bool,
}

type Tell = oneshot::Sender<Option<Notification>>;

/// A queue for which this process waits, or waited recently.
#[derive(Default)]
struct Queue {
    /// Whether this process is registered on the server for the queue's next wake-up.
    registered: bool,
    /// The queue's wake-up count, as far as this process knows.
    seen: Option<u64>,
}

/// Removes its listener when dropped.
pub(crate) struct Listening {
    listeners: Arc<Listeners>,
    topic: Topic,
    number: u64,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut inner = self.listeners.lock();
        if let Some(of_topic) = inner.topics.get_mut(&self.topic) {
            of_topic.remove(&self.number);
            if of_topic.is_empty() {
                inner.topics.remove(&self.topic);
            }
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
    pub(crate) fn listen(
        self: &Arc<Self>,
        topic: Topic,
    ) -> (Listening, oneshot::Receiver<Option<Notification>>) {
        let (topic, after) = match topic {
            Topic::Event(log, after) => (Topic::Event(log, 0), after),
            topic => (topic, 0),
        };
        let (tell, told) = oneshot::channel();
        let mut inner = self.lock();
        inner.next += 1;
        let number = inner.next;
        if !inner.closed {
            let missed = if let Topic::Token(token) = &topic { inner.missed.remove(token) } else { None };
            match missed {
                Some(notification) => drop(tell.send(Some(notification))),
                None => drop(inner.topics.entry(topic.clone()).or_default().insert(number, (after, tell))),
            }
        }
        (Listening { listeners: Arc::clone(self), topic, number }, told)
    }

    /// What the listener that was just added must do.
    pub(crate) fn registration(&self, queue: &QueueName) -> Register {
        let mut inner = self.lock();
        let Inner { topics, queues, closed, .. } = &mut *inner;
        if *closed {
            return Register::Done;
        }
        if queues.len() >= QUEUES_MAX {
            queues.retain(|queue, _| topics.contains_key(&Topic::Ready(queue.clone())));
        }
        let of_queue = queues.entry(queue.clone()).or_default();
        if of_queue.registered { Register::Done } else { Register::From(of_queue.seen) }
    }

    pub(crate) fn tell_finished(&self, queue: QueueName, id: TaskId) {
        self.lock().tell(&Topic::Finished(queue, id), None, usize::MAX, |_| true);
    }

    /// Notifies the followers that do not know the latest event.
    pub(crate) fn tell_events(&self, log: Log, last: u64) {
        self.lock().tell(&Topic::Event(log, 0), None, usize::MAX, |after| after != last);
    }

    pub(crate) fn tell_token(&self, token: Token, notification: Notification) {
        let mut inner = self.lock();
        if inner.tell(&Topic::Token(token), Some(notification), usize::MAX, |_| true) == 0 {
            inner.miss(token, notification);
        }
    }

    /// Handles a wake-up of the process: notifies as many listeners of the queue as there are tasks, the longest
    /// waiting first.
    pub(crate) fn tell_queue(&self, queue: &QueueName, tasks: u64, seen: u64) -> Told {
        let mut inner = self.lock();
        let of_queue = inner.queues.entry(queue.clone()).or_default();
        of_queue.registered = false;
        of_queue.seen = Some(of_queue.seen.unwrap_or(0).max(seen));
        let topic = Topic::Ready(queue.clone());
        let woken = inner.tell(&topic, None, tasks.max(1) as usize, |_| true);
        match (woken, inner.topics.contains_key(&topic)) {
            (_, true) => Told::OthersWait(seen),
            (0, false) => Told::Nobody,
            (_, false) => Told::All,
        }
    }

    /// Records the wake-up count that a claim returned.
    pub(crate) fn saw(&self, queue: &QueueName, seen: u64) {
        let mut inner = self.lock();
        if let Some(of_queue) = inner.queues.get_mut(queue) {
            of_queue.seen = Some(of_queue.seen.unwrap_or(0).max(seen));
        }
    }

    /// Whether the caller must register the process on the server for the queue's next wake-up: a listener waits, and
    /// no other caller has been told so.
    pub(crate) fn must_register(&self, queue: &QueueName) -> bool {
        let mut inner = self.lock();
        let Inner { topics, queues, .. } = &mut *inner;
        let Some(of_queue) = queues.get_mut(queue).filter(|of_queue| !of_queue.registered) else {
            return false;
        };
        of_queue.registered = topics.contains_key(&Topic::Ready(queue.clone()));
        of_queue.registered
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
        inner.queues.clear();
        for (topic, of_topic) in inner.topics.drain() {
            let notification = matches!(topic, Topic::Token(_)).then_some(Notification::Ask);
            for (_, tell) in of_topic.into_values() {
                // The listener may be gone.
                let _ = tell.send(notification);
            }
        }
    }

    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.topics.clear();
        inner.queues.clear();
    }
}

/// How many listeners a wake-up reached: all, not all (with the wake-up count), or none.
pub(crate) enum Told {
    All,
    OthersWait(u64),
    Nobody,
}

impl Inner {
    /// Notifies up to `most` listeners of a topic, the longest waiting first. `must` selects them by the event
    /// that they know. Returns how many received it; a listener may be gone.
    fn tell(
        &mut self,
        topic: &Topic,
        notification: Option<Notification>,
        most: usize,
        must: impl Fn(u64) -> bool,
    ) -> usize {
        let Some(of_topic) = self.topics.get_mut(topic) else { return 0 };
        let selected = of_topic.extract_if(.., |_, (after, _)| must(*after));
        let told = selected.filter_map(|(_, (_, tell))| tell.send(notification).ok()).take(most).count();
        if of_topic.is_empty() {
            self.topics.remove(topic);
        }
        told
    }

    fn miss(&mut self, token: Token, notification: Notification) {
        if self.missed.insert(token, notification).is_none() {
            self.missed_order.push_back(token);
        }
        while self.missed_order.len() > MISSED_MAX {
            if let Some(oldest) = self.missed_order.pop_front() {
                self.missed.remove(&oldest);
            }
        }
    }
}
