//! Listeners of this process, and the thread that detects writes of other processes.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use foldhash::{HashMap, HashMapExt};
use rushgate_core::{ClientId, Log, Notice, QueueName, TaskId, Token};
use rusqlite::{Connection, OptionalExtension};
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::log_watch::{LogWatch, Pause, Waker};
use crate::sql::sql;

/// The listeners of a process. Notifications are sent after the commit.
pub(crate) struct Listeners {
    inner: Mutex<Inner>,
    watcher: Waker,
    closed: AtomicBool,
}

#[derive(Default)]
struct Inner {
    /// Per token. A client that listens again may do so before its earlier listener is gone.
    tokens: HashMap<Token, Vec<(u64, oneshot::Sender<Notice>)>>,
    /// Per queue, in order of arrival.
    queues: HashMap<QueueName, BTreeMap<u64, oneshot::Sender<()>>>,
    /// Per queue, listeners for the end of a task.
    over: HashMap<QueueName, Vec<Waiter<TaskId>>>,
    /// Per log, listeners for events after a number.
    followers: HashMap<Log, Vec<Waiter<u64>>>,
    next: u64,
}

struct Waiter<T> {
    number: u64,
    what: T,
    tell: oneshot::Sender<()>,
}

impl Inner {
    fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.queues.is_empty() && self.over.is_empty() && self.followers.is_empty()
    }
}

/// Notifies and removes the selected listeners of a queue or log.
fn take<K: Eq + Hash, T>(
    of_all: &mut HashMap<K, Vec<Waiter<T>>>,
    key: &K,
    which: impl Fn(&Waiter<T>) -> bool,
) {
    let Some(of_key) = of_all.get_mut(key) else { return };
    for one in of_key.extract_if(.., |one| which(one)) {
        // A listener may be gone.
        let _ = one.tell.send(());
    }
    if of_key.is_empty() {
        of_all.remove(key);
    }
}

/// A registered listener. Dropping it unregisters it.
pub(crate) struct Listening {
    listeners: Arc<Listeners>,
    what: What,
}

enum What {
    Token(Token, u64),
    Queue(QueueName, u64),
    Over(QueueName, u64),
    Events(Log, u64),
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut inner = self.listeners.lock();
        match &self.what {
            What::Token(token, number) => {
                if let Some(of_token) = inner.tokens.get_mut(token) {
                    of_token.retain(|(other, _)| other != number);
                    if of_token.is_empty() {
                        inner.tokens.remove(token);
                    }
                }
            }
            What::Events(log, number) => take(&mut inner.followers, log, |one| one.number == *number),
            What::Over(queue, number) => take(&mut inner.over, queue, |one| one.number == *number),
            What::Queue(queue, number) => {
                if let Some(of_queue) = inner.queues.get_mut(queue) {
                    of_queue.remove(number);
                    if of_queue.is_empty() {
                        inner.queues.remove(queue);
                    }
                }
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
    fn listen<T>(
        self: &Arc<Self>,
        enter: impl FnOnce(&mut Inner, u64, oneshot::Sender<T>) -> What,
    ) -> (Listening, oneshot::Receiver<T>) {
        let (tell, told) = oneshot::channel();
        let mut inner = self.lock();
        let is_first = inner.is_empty();
        inner.next += 1;
        let number = inner.next;
        let what = enter(&mut inner, number, tell);
        drop(inner);
        if is_first {
            self.watcher.wake();
        }
        (Listening { listeners: Arc::clone(self), what }, told)
    }

    pub(crate) fn listen_token(self: &Arc<Self>, token: Token) -> (Listening, oneshot::Receiver<Notice>) {
        self.listen(|inner, number, tell| {
            inner.tokens.entry(token).or_default().push((number, tell));
            What::Token(token, number)
        })
    }

    pub(crate) fn listen_queue(self: &Arc<Self>, queue: &QueueName) -> (Listening, oneshot::Receiver<()>) {
        self.listen(|inner, number, tell| {
            inner.queues.entry(queue.clone()).or_default().insert(number, tell);
            What::Queue(queue.clone(), number)
        })
    }

    pub(crate) fn listen_over(
        self: &Arc<Self>,
        queue: &QueueName,
        id: &TaskId,
    ) -> (Listening, oneshot::Receiver<()>) {
        self.listen(|inner, number, tell| {
            inner.over.entry(queue.clone()).or_default().push(Waiter { number, what: id.clone(), tell });
            What::Over(queue.clone(), number)
        })
    }

    pub(crate) fn listen_events(
        self: &Arc<Self>,
        log: &Log,
        after: u64,
    ) -> (Listening, oneshot::Receiver<()>) {
        self.listen(|inner, number, tell| {
            inner.followers.entry(log.clone()).or_default().push(Waiter { number, what: after, tell });
            What::Events(log.clone(), number)
        })
    }

    /// Notifies followers of the log that do not know its latest event.
    pub(crate) fn tell_events(&self, log: &Log, last: u64) {
        take(&mut self.lock().followers, log, |one| one.what != last);
    }

    /// Notifies listeners for the end of the task, or of any task of the queue.
    pub(crate) fn tell_over(&self, queue: &QueueName, id: Option<&str>) {
        take(&mut self.lock().over, queue, |one| id.is_none_or(|id| one.what.as_str() == id));
    }

    /// Whether the token's owner listens in this process, so that a grant is certain to reach it.
    pub(crate) fn hears(&self, token: Token) -> bool {
        self.lock()
            .tokens
            .get(&token)
            .is_some_and(|of_token| of_token.iter().any(|(_, tell)| !tell.is_closed()))
    }

    pub(crate) fn tell_token(&self, token: Token, notice: Notice) {
        for (_, tell) in self.lock().tokens.remove(&token).into_iter().flatten() {
            // A listener may be gone.
            let _ = tell.send(notice);
        }
    }

    /// Notifies up to `tasks` listeners of the queue.
    pub(crate) fn tell_queue(&self, queue: &QueueName, tasks: usize) {
        let mut inner = self.lock();
        let Some(of_queue) = inner.queues.get_mut(queue) else { return };
        for _ in 0..tasks {
            // The listener that has waited longest.
            let Some((_, tell)) = of_queue.pop_first() else { break };
            let _ = tell.send(());
        }
        if of_queue.is_empty() {
            inner.queues.remove(queue);
        }
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let mut inner = self.lock();
        inner.tokens.clear();
        inner.queues.clear();
        inner.over.clear();
        inner.followers.clear();
        drop(inner);
        self.watcher.wake();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn somebody_listens(&self) -> bool {
        !self.lock().is_empty()
    }

    /// The tokens and queues that are listened for.
    fn wanted(&self) -> (Vec<Token>, Vec<QueueName>) {
        let inner = self.lock();
        (inner.tokens.keys().copied().collect(), inner.queues.keys().cloned().collect())
    }

    /// The logs that are followed.
    fn followed(&self) -> Vec<Log> {
        self.lock().followers.keys().cloned().collect()
    }

    /// The tasks whose end is listened for.
    fn awaited(&self) -> Vec<(QueueName, TaskId)> {
        let inner = self.lock();
        let ids = inner.over.iter().flat_map(|(queue, of)| of.iter().map(move |one| (queue, &one.what)));
        ids.map(|(queue, id)| (queue.clone(), id.clone())).collect()
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
            if !self.listeners.somebody_listens() {
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
            let (tokens, queues) = self.listeners.wanted();
            self.look_for_notices(&tokens)?;
            self.look_for_tasks(&queues)?;
            self.look_for_ends(&self.listeners.awaited())?;
            self.look_for_events(&self.listeners.followed())?;
        }
        Ok(version)
    }

    fn look_for_notices(&self, tokens: &[Token]) -> rusqlite::Result<()> {
        let mut clients: Vec<ClientId> = tokens.iter().map(|token| token.client()).collect();
        clients.sort_unstable();
        clients.dedup();
        for client in clients {
            let mut notices = self.conn.prepare_cached(sql!("lock/notice", "pending"))?;
            let rows = notices.query_map([client.as_u64().cast_signed()], |row| {
                Ok((Token::from_bytes(row.get(0)?), row.get::<_, i64>(1)?))
            })?;
            for row in rows {
                let (token, kind) = row?;
                let notice = if kind == 1 { Notice::Revoked } else { Notice::Ask };
                self.listeners.tell_token(token, notice);
            }
        }
        Ok(())
    }

    fn look_for_ends(&self, awaited: &[(QueueName, TaskId)]) -> rusqlite::Result<()> {
        for (queue, id) in awaited {
            let mut live = self.conn.prepare_cached(sql!("queue/finish", "awaited"))?;
            if !live.query_row((queue.as_str(), id.as_str()), |row| row.get(0))? {
                self.listeners.tell_over(queue, Some(id.as_str()));
            }
        }
        Ok(())
    }

    fn look_for_events(&self, logs: &[Log]) -> rusqlite::Result<()> {
        for log in logs {
            let (last, name) = match log {
                Log::Queue(queue) => (sql!("queue/event", "last"), queue.as_str()),
                Log::Sale(sale) => (sql!("sale/orders", "latest"), sale.as_str()),
            };
            let mut last = self.conn.prepare_cached(last)?;
            let last = last.query_row([name], |row| row.get::<_, i64>(0)).optional()?;
            self.listeners.tell_events(log, last.unwrap_or_default().cast_unsigned());
        }
        Ok(())
    }

    /// Notifies as many listeners as there are due tasks, or one if the next due time may be unknown to them.
    fn look_for_tasks(&mut self, queues: &[QueueName]) -> rusqlite::Result<()> {
        let now = (self.clock)().as_micros().cast_signed();
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
                self.listeners.tell_queue(queue, told);
            }
        }
        Ok(())
    }
}
