//! Listeners of this process, and the thread that detects writes of other processes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use foldhash::{HashMap, HashMapExt, HashSet};
use rushgate_core::{Log, Notification, QueueName, Token, Topic};
use rusqlite::{Connection, OptionalExtension};
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::log_watch::{LogWatch, Pause, Waker};
use crate::sql::sql;

/// A notification for listeners, sent after the commit.
pub(crate) enum Wakeup {
    /// For a topic, and the maximum number of its listeners to wake. The topic of a log has the number of the log's
    /// latest event.
    Topic(Topic, Option<Notification>, usize),
    /// Any task of the queue may have finished.
    AllFinished(QueueName),
}

/// The listeners of a process. Notifications are sent after the commit.
pub(crate) struct Listeners {
    inner: Mutex<Inner>,
    watcher: Waker,
    closed: AtomicBool,
}

#[derive(Default)]
struct Inner {
    /// The listeners of each topic by number, and so in order of arrival. The followers of a log share a topic,
    /// and each has the latest event that it knows.
    topics: HashMap<Topic, BTreeMap<u64, (Option<u64>, Tell)>>,
    next: u64,
}

/// Followers of a log share a topic, without the number of the event that each knows.
fn split(topic: Topic) -> (Topic, Option<u64>) {
    match topic {
        Topic::Event(log, event) => (Topic::Event(log, 0), Some(event)),
        topic => (topic, None),
    }
}

type Tell = oneshot::Sender<Option<Notification>>;

/// A registered listener. Dropping it unregisters it.
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

impl Listeners {
    /// `watcher` wakes the thread that detects writes of other processes.
    pub(crate) fn new(watcher: Waker) -> Self {
        Self { inner: Mutex::default(), watcher, closed: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a listener under a new number, and wakes the watcher.
    pub(crate) fn listen(
        self: &Arc<Self>,
        topic: Topic,
    ) -> (Listening, oneshot::Receiver<Option<Notification>>) {
        let (topic, after) = split(topic);
        let (tell, told) = oneshot::channel();
        let mut inner = self.lock();
        let is_first = inner.topics.is_empty();
        inner.next += 1;
        let number = inner.next;
        inner.topics.entry(topic.clone()).or_default().insert(number, (after, tell));
        drop(inner);
        if is_first {
            self.watcher.wake();
        }
        (Listening { listeners: Arc::clone(self), topic, number }, told)
    }

    /// Sends a notification whose change is committed.
    pub(crate) fn wake(&self, wakeup: Wakeup) {
        match wakeup {
            Wakeup::Topic(topic, notification, most) => self.tell(topic, notification, most),
            Wakeup::AllFinished(queue) => {
                let mut inner = self.lock();
                let of_queue = inner
                    .topics
                    .extract_if(|topic, _| matches!(topic, Topic::Finished(of, _) if *of == queue));
                for (_, tell) in of_queue.flat_map(|(_, of_task)| of_task.into_values()) {
                    let _ = tell.send(None);
                }
            }
        }
    }

    /// Notifies up to `most` listeners of a topic, the longest waiting first. Followers of a log that know its latest
    /// event are left out.
    fn tell(&self, topic: Topic, notification: Option<Notification>, most: usize) {
        let (topic, last) = split(topic);
        let mut inner = self.lock();
        let Some(of_topic) = inner.topics.get_mut(&topic) else { return };
        for (_, (_, tell)) in
            of_topic.extract_if(.., |_, (after, _)| last.is_none() || *after != last).take(most)
        {
            // A listener may be gone.
            let _ = tell.send(notification);
        }
        if of_topic.is_empty() {
            inner.topics.remove(&topic);
        }
    }

    /// Whether the token's owner listens in this process, so that a grant is certain to reach it.
    pub(crate) fn hears(&self, token: Token) -> bool {
        let inner = self.lock();
        let of_token = inner.topics.get(&Topic::Token(token));
        of_token.is_some_and(|of_token| of_token.values().any(|(_, tell)| !tell.is_closed()))
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.lock().topics.clear();
        self.watcher.wake();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The topics that have listeners.
    fn topics(&self) -> Vec<Topic> {
        self.lock().topics.keys().cloned().collect()
    }
}

/// The thread that detects writes of other processes while there are listeners, and sleeps otherwise.
///
/// `PRAGMA data_version` changes when another connection has committed. Reading it takes a few microseconds and no
/// disk access.
pub(crate) struct Watcher {
    conn: Connection,
    log: LogWatch,
    listeners: Arc<Listeners>,
    clock: Clock,
    /// The next due time of each queue, as notified to a listener of this process.
    next_due: HashMap<QueueName, i64>,
}

impl Watcher {
    pub(crate) fn start(
        conn: Connection,
        listeners: Arc<Listeners>,
        clock: Clock,
    ) -> std::io::Result<JoinHandle<()>> {
        let log = LogWatch::new(conn.path().unwrap_or_default(), listeners.watcher.clone());
        let mut watcher = Self { conn, log, listeners, clock, next_due: HashMap::new() };
        thread::Builder::new().name("rushgate-watcher".into()).spawn(move || watcher.run())
    }

    fn run(&mut self) {
        // SQLite never returns this version, so the first look always checks.
        let (mut seen, mut pause) = (-1, Pause::new());
        while !self.listeners.is_closed() {
            if self.listeners.lock().topics.is_empty() {
                self.log.sleep();
                pause.shorten();
                continue;
            }
            match self.look(seen) {
                Ok(version) if version == seen => {}
                Ok(version) => {
                    seen = version;
                    pause.shorten();
                }
                Err(fault) => {
                    tracing::warn!(%fault, "cannot check for writes of other processes; retrying")
                }
            }
            pause.take(&mut self.log);
        }
    }

    /// Sends notifications if the file's version differs from `seen`, and returns the version.
    fn look(&mut self, seen: i64) -> rusqlite::Result<i64> {
        // Read the version first: a listener registered before a write is then notified of it.
        let version =
            self.conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get::<_, i64>(0))?;
        if version != seen {
            let topics = self.listeners.topics();
            self.look_for_notices(&topics)?;
            self.look_for_tasks(&topics)?;
            self.look_for_ends(&topics)?;
            self.look_for_events(&topics)?;
        }
        Ok(version)
    }

    fn look_for_notices(&self, topics: &[Topic]) -> rusqlite::Result<()> {
        let client =
            |topic: &Topic| if let Topic::Token(token) = topic { Some(token.client()) } else { None };
        for client in topics.iter().filter_map(client).collect::<BTreeSet<_>>() {
            let mut notifications = self.conn.prepare_cached(sql!("lock/notification", "pending"))?;
            let rows = notifications.query_map([client.as_u64().cast_signed()], |row| {
                Ok((Token::from_bytes(row.get(0)?), row.get::<_, i64>(1)?))
            })?;
            for row in rows {
                let (token, kind) = row?;
                let notification = if kind == 1 { Notification::Revoked } else { Notification::Ask };
                self.listeners.tell(Topic::Token(token), Some(notification), usize::MAX);
            }
        }
        Ok(())
    }

    fn look_for_ends(&self, topics: &[Topic]) -> rusqlite::Result<()> {
        for topic in topics {
            let Topic::Finished(queue, id) = topic else { continue };
            let mut live = self.conn.prepare_cached(sql!("queue/finish", "awaited"))?;
            if !live.query_row((queue.as_str(), id.as_str()), |row| row.get(0))? {
                self.listeners.tell(topic.clone(), None, usize::MAX);
            }
        }
        Ok(())
    }

    fn look_for_events(&self, topics: &[Topic]) -> rusqlite::Result<()> {
        for topic in topics {
            let Topic::Event(log, _) = topic else { continue };
            let (last, name) = match log {
                Log::Queue(queue) => (sql!("queue/event", "last"), queue.as_str()),
                Log::Sale(sale) => (sql!("sale/orders", "latest"), sale.as_str()),
            };
            let mut last = self.conn.prepare_cached(last)?;
            let last = last.query_row([name], |row| row.get::<_, i64>(0)).optional()?;
            let last = last.unwrap_or_default().cast_unsigned();
            self.listeners.tell(Topic::Event(log.clone(), last), None, usize::MAX);
        }
        Ok(())
    }

    /// Notifies as many listeners as there are due tasks, or one if the next due time may be unknown to them.
    fn look_for_tasks(&mut self, topics: &[Topic]) -> rusqlite::Result<()> {
        let now = (self.clock)().as_micros().cast_signed();
        let queues: HashSet<&QueueName> = topics
            .iter()
            .filter_map(|topic| if let Topic::Ready(queue) = topic { Some(queue) } else { None })
            .collect();
        self.next_due.retain(|queue, _| queues.contains(queue));
        for queue in queues {
            let mut due = self.conn.prepare_cached(sql!("queue/ready", "due"))?;
            let n: usize = due.query_row((queue.as_str(), now), |row| row.get(0))?;
            let mut next = self.conn.prepare_cached(sql!("queue/ready", "next"))?;
            let next: Option<i64> = next.query_row([queue.as_str()], |row| row.get(0))?;
            let next = next.unwrap_or(i64::MAX);
            let before = self.next_due.insert(queue.clone(), next).unwrap_or(i64::MAX);
            // Once the announced task is due, the listener that was notified of it may be busy with it.
            let unknown = next < before || (before <= now && next < i64::MAX);
            let told = n.max(usize::from(unknown));
            if told > 0 {
                self.listeners.tell(Topic::Ready(queue.clone()), None, told);
            }
        }
        Ok(())
    }
}
