//! The public store: each trait method sends its step to the writer or a reader.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rushgate_core::{
    Acquire, Acquired, Answer, Beacon, Books, BuyerId, Cancelled, Claim, Claimed, ClientId, Closed,
    Completed, Completion, Created, DeadLetter, Decision, Dequeued, Draw, DrawSecret, DueSchedules,
    Durability, Enqueued, Enter, Entered, Error, Event, Extend, Extended, Fire, Fired, GiveBack, GivenBack,
    Grant, Heartbeat, Hold, Holder, Joined, Lease, Left, Lifted, Listing, Load, LockName, LockState,
    LockStore, NewSchedule, NewTask, Notice, Op, OutboxStore, Page, PauseReason, QueueLimits, QueueName,
    QueueStats, QueueStore, Rebuilt, Receipt, Relay, Relayed, ReleaseWith, Released, ReleasedWith,
    ReservationId, Reserve, Reserved, Restored, Retried, Retry, Revived, RoomRules, RoomState, RoomStore,
    SaleId, SaleSpec, SaleState, SaleStatus, SaleStore, Schedule, ScheduleId, ScheduleStore, Scheduled,
    Selection, Settled, Sku, StockChange, StockChanged, Store, StoreCalls, StoreInfo, Switch, Task,
    TaskEvents, TaskExtended, TaskId, TaskInfo, Ticket, Timestamp, Token, Verdict, Waited, Waits,
    check_batch, check_range, check_tasks,
};
use tokio::sync::oneshot;

use crate::clock::{self, Clock};
use crate::fault::{self, caught, explain};
use crate::open::{Limits, Location, SameFile};
use crate::queue::{outbox, schedule};
use crate::read::{Reader, Readers, closed};
use crate::step::{Replays, Step};
use crate::syncer::{Horizon, Syncer};
use crate::wake::{Listeners, Watcher};
use crate::writer::{Counters, Writer, WriterHandle};
use crate::{lock, queue, room, sale};

/// Number of reader threads.
const READERS: usize = 2;

/// A store in an SQLite file.
///
/// Share it with [`Arc`]. When the last reference is dropped, calls that were sent still complete in the background.
/// [`close`](Store::close) waits for them.
pub struct SqliteStore {
    inner: Arc<Inner>,
    for_orders: bool,
}

struct Inner {
    location: Location,
    clock: Clock,
    writer: WriterHandle,
    readers: Option<Readers>,
    listeners: Arc<Listeners>,
    counters: Arc<Counters>,
    horizon: Arc<Horizon>,
}

/// Options for opening a store, in addition to its URL.
///
/// ```
/// # fn main() -> Result<(), rushgate_core::Error> {
/// use std::time::Duration;
///
/// use rushgate_sqlite::{Options, SqliteStore};
///
/// let options = Options::new().patience(Duration::from_secs(1)).max_bytes(1 << 30);
/// let store = SqliteStore::open_with("sqlite::memory:", options)?;
/// # drop(store);
/// # Ok(())
/// # }
/// ```
pub struct Options {
    clock: Clock,
    limits: Limits,
}

impl Options {
    /// Creates the default options: the machine's clock, a patience of 5 s, and no size limit.
    pub fn new() -> Self {
        let limits = Limits { patience: Duration::from_secs(5), max_bytes: None };
        Self { clock: clock::system(), limits }
    }

    /// Sets the clock. Default: the machine's clock. For tests; all processes that share a file must read the same
    /// clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets how long a call waits while another process has the file locked. Default: 5 s. Then the call fails with
    /// [`is_unavailable`](Error::is_unavailable). Processes lock the file for a few milliseconds at a time.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.limits.patience = patience;
        self
    }

    /// Sets the maximum size of the file in bytes, rounded to pages of 4 KiB. Default: unlimited. A call that needs
    /// more fails with [`is_full`](Error::is_full) and changes nothing. The write-ahead log is not included: it is
    /// kept below 64 MiB, unless readers prevent a checkpoint. Each process that opens the file has its own limit.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.limits.max_bytes = Some(bytes);
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl SqliteStore {
    /// Opens `sqlite:PATH` or `sqlite::memory:`, and creates the file if needed. Its directory must exist.
    ///
    /// `?durability=process` gives up surviving a power cut for speed; see the crate's documentation. An open store
    /// has two more files, `PATH-wal` and `PATH-shm`. The last process to close the store merges them into the main
    /// file; copy or move it only then. The file must be on a local disk, because processes share memory through it.
    ///
    /// # Errors
    /// - [`is_invalid`](Error::is_invalid): the URL is invalid.
    /// - [`is_misconfigured`](Error::is_misconfigured): a directory, a file or directory without write permission, a
    ///   missing directory, a file of another program, a schema of a newer version, a network file system.
    /// - [`is_corrupt`](Error::is_corrupt): a file that is not a database, or damaged.
    /// - [`is_full`](Error::is_full): the disk is full.
    /// - [`is_unavailable`](Error::is_unavailable): another process kept the file locked for too long
    ///   ([`Options::patience`]), or the disk failed.
    ///
    /// None of them changes the file.
    pub fn open(url: &str) -> Result<Self, Error> {
        Self::open_with(url, Options::new())
    }

    /// Like [`open`](Self::open), with options.
    pub fn open_with(url: &str, options: Options) -> Result<Self, Error> {
        let location = Location::parse(url)?;
        Self::start(location, options).map_err(|error| error.doing(format_args!("open the store `{url}`")))
    }

    fn start(location: Location, Options { clock, limits }: Options) -> Result<Self, Error> {
        let listeners = Arc::new(Listeners::default());
        let counters = Arc::new(Counters::default());
        let conn = location.open_writer(&limits)?;
        let mut companions = Vec::new();
        let readers = start_readers(&location, &limits, &clock, &counters, &mut companions)?;
        if let Some(conn) = location.open_reader(&limits)? {
            let watcher = Watcher::start(conn, Arc::clone(&listeners), Arc::clone(&clock));
            companions.push(watcher.map_err(no_thread)?);
        }
        let horizon = Arc::new(Horizon::default());
        let log = location.open_log(&conn)?;
        let syncer = Syncer::start(log, Arc::clone(&listeners), Arc::clone(&horizon)).map_err(no_thread)?;
        let writer = Writer {
            conn,
            path: location.shown(),
            file: SameFile::of(&location)?,
            patience: limits.patience,
            companions,
            clock: Arc::clone(&clock),
            listeners: Arc::clone(&listeners),
            counters: Arc::clone(&counters),
            replays: Replays::default(),
            broken: None,
            swept: Instant::now(),
            sweep_from: String::new(),
            horizon: Arc::clone(&horizon),
            syncer,
        };
        let writer = writer.start().map_err(|error| {
            listeners.close();
            no_thread(error)
        })?;
        let inner = Inner { location, clock, writer, readers, listeners, counters, horizon };
        Ok(Self { inner: Arc::new(inner), for_orders: false })
    }

    /// Sends a step to the writer, unless the request exceeds its limits.
    fn write<T: Send + 'static>(
        &self,
        doing: &'static str,
        checked: Result<(), Error>,
        mut verb: impl FnMut(&mut Step<'_>) -> fault::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        if let Err(error) = checked {
            return Box::pin(std::future::ready(Err(error.doing(doing))));
        }
        let for_orders = self.for_orders;
        let answer = self.inner.writer.send(move |step| {
            step.for_orders = for_orders;
            verb(step)
        });
        Box::pin(async move { answer.await.map_err(|_| closed())?.map_err(|error| error.doing(doing)) })
    }

    /// Sends a query to a reader, or to the writer if the store is in memory.
    fn read<T: Send + 'static>(
        &self,
        doing: &'static str,
        checked: Result<(), Error>,
        question: impl Fn(&Reader<'_>) -> fault::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        let Some(readers) = &self.inner.readers else {
            let counters = Arc::clone(&self.inner.counters);
            return self.write(doing, checked, move |step| {
                // The query must see the changes of the group.
                step.write_back()?;
                question(&Reader { conn: step.conn, now: step.now, counters: &counters })
            });
        };
        if let Err(error) = checked {
            return Box::pin(std::future::ready(Err(error.doing(doing))));
        }
        self.inner.counters.count_call();
        let (reply, answer) = oneshot::channel();
        let (path, horizon) = (self.inner.location.shown(), Arc::clone(&self.inner.horizon));
        readers.send(Box::new(move |reader| {
            let found = caught(|| question(reader)).map_err(|stop| explain(stop, &path));
            // Wait until the answer is durable: a power cut must not undo what a caller has read.
            horizon.settle();
            let _ = reply.send(found);
        }));
        Box::pin(async move { answer.await.map_err(|_| closed())?.map_err(|error| error.doing(doing)) })
    }

    /// Reads a queue, after ending its expired leases.
    fn read_queue<T: Send + 'static>(
        &self,
        doing: &'static str,
        queue: &QueueName,
        checked: Result<(), Error>,
        question: impl Fn(&Reader<'_>) -> fault::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        if let Err(error) = checked {
            return Box::pin(std::future::ready(Err(error.doing(doing))));
        }
        let queue = queue.clone();
        Box::pin(async move {
            let of = queue.clone();
            if self.read(doing, Ok(()), move |reader| queue::must_reap(reader, &of)).await? {
                self.write(doing, Ok(()), move |step| queue::reap(step, &queue)).await?;
            }
            self.read(doing, Ok(()), question).await
        })
    }
}

impl Inner {
    /// Ends the threads once they have executed all calls that were sent.
    fn take_no_more(&self) {
        self.listeners.close();
        self.writer.close();
        if let Some(readers) = &self.readers {
            readers.close();
        }
    }
}

/// Starts the readers of a store on a file. Adds their threads to `threads`.
fn start_readers(
    location: &Location,
    limits: &Limits,
    clock: &Clock,
    counters: &Arc<Counters>,
    threads: &mut Vec<JoinHandle<()>>,
) -> Result<Option<Readers>, Error> {
    let connections = (0..READERS).map(|_| location.open_reader(limits));
    let Some(connections) = connections.collect::<Result<Option<Vec<_>>, _>>()? else { return Ok(None) };
    let (readers, started) = Readers::start(connections, clock, counters).map_err(no_thread)?;
    threads.extend(started);
    Ok(Some(readers))
}

fn no_thread(error: std::io::Error) -> Error {
    Error::unavailable("cannot start a thread").caused_by(error)
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.take_no_more();
    }
}

impl RoomStore for SqliteStore {
    fn set_room(&self, id: &SaleId, rules: RoomRules, secret: DrawSecret) -> Answer<'_, RoomState> {
        let id = id.clone();
        self.write("set a room", rules.check(), move |step| room::set(step, &id, rules, secret))
    }

    fn room(&self, id: &SaleId) -> Answer<'_, Option<RoomState>> {
        let id = id.clone();
        self.read("show a room", Ok(()), move |reader| room::show(reader, &id))
    }

    fn join(&self, id: &SaleId, buyer: &BuyerId) -> Answer<'_, Option<Joined>> {
        let (id, buyer) = (id.clone(), buyer.clone());
        self.write("join a room", Ok(()), move |step| room::join(step, &id, &buyer))
    }

    fn enter(&self, enter: Enter) -> Answer<'_, Option<Entered>> {
        self.write("enter", Ok(()), move |step| room::enter(step, &enter))
    }

    fn close_entry(&self, id: &SaleId) -> Answer<'_, Option<RoomState>> {
        let id = id.clone();
        self.write("close an entry", Ok(()), move |step| room::close_entry(step, &id))
    }

    fn draw(&self, id: &SaleId, beacon: Beacon) -> Answer<'_, Option<Draw>> {
        let id = id.clone();
        self.write("draw", Ok(()), move |step| room::draw(step, &id, &beacon))
    }

    fn close_room(&self, id: &SaleId) -> Answer<'_, bool> {
        let id = id.clone();
        self.write("close a room", Ok(()), move |step| room::close(step, &id))
    }
}

impl Store for SqliteStore {
    fn for_orders(&self) -> Arc<dyn Store> {
        Arc::new(Self { inner: Arc::clone(&self.inner), for_orders: true })
    }

    fn info(&self) -> StoreInfo {
        let option =
            if self.inner.location.durability == Durability::D1 { "?durability=process" } else { "" };
        StoreInfo {
            url: format!("sqlite:{}{option}", self.inner.location.shown()),
            server: format!("SQLite {}", rusqlite::version()),
            durability: self.inner.location.durability,
        }
    }

    /// Constant: an open store never switches to another file.
    fn incarnation(&self) -> String {
        String::new()
    }

    fn calls(&self) -> StoreCalls {
        self.inner.counters.read()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.inner.take_no_more();
        let writer = self.inner.writer.take_thread();
        let (tell, told) = oneshot::channel::<()>();
        // Joining blocks, so it runs on a separate thread. That thread ends with the writer, the last one to end.
        let joiner = std::thread::Builder::new().name("rushgate-closer".into()).spawn(move || {
            writer.into_iter().for_each(|thread| drop(thread.join()));
            let _ = tell.send(());
        });
        Box::pin(async move {
            joiner.map_err(no_thread)?;
            let _ = told.await;
            Ok(())
        })
    }
}

impl LockStore for SqliteStore {
    fn acquire(&self, request: Acquire) -> Answer<'_, Acquired> {
        self.write("acquire a lock", request.check(), move |step| lock::acquire(step, &request))
    }

    fn release(&self, name: &LockName, token: Token) -> Answer<'_, Released> {
        let name = name.clone();
        self.write("release a lock", Ok(()), move |step| lock::release(step, &name, token))
    }

    fn release_with(&self, op: Op, release: ReleaseWith) -> Answer<'_, ReleasedWith> {
        self.write("release a lock with a task", release.check(), move |step| {
            lock::release_with(step, op, &release)
        })
    }

    fn extend(&self, leases: Vec<Extend>) -> Answer<'_, Vec<Extended>> {
        self.write("extend locks", check_batch(leases.len()), move |step| lock::extend(step, &leases))
    }

    fn held(&self, name: &LockName, token: Token) -> Answer<'_, Option<Grant>> {
        let name = name.clone();
        self.read("check whether a lock is held", Ok(()), move |reader| lock::held(reader, &name, token))
    }

    fn leave(&self, name: &LockName, token: Token) -> Answer<'_, Left> {
        let name = name.clone();
        self.write("leave the wait queue of a lock", Ok(()), move |step| lock::leave(step, &name, token))
    }

    fn release_all(&self, client: ClientId) -> Answer<'_, u64> {
        self.write("release all locks", Ok(()), move |step| lock::release_all(step, client))
    }

    fn force_release(&self, name: &LockName) -> Answer<'_, Option<Holder>> {
        let name = name.clone();
        self.write("force-release a lock", Ok(()), move |step| lock::force_release(step, &name))
    }

    fn show(&self, name: &LockName) -> Answer<'_, LockState> {
        let name = name.clone();
        self.read("show a lock", Ok(()), move |reader| lock::show(reader, &name))
    }

    fn list(&self, page: Page) -> Answer<'_, Vec<LockState>> {
        self.read("list locks", page.check(), move |reader| lock::list(reader, &page.after, page.limit))
    }

    fn notice(&self, token: Token) -> Answer<'_, Notice> {
        let (listening, told) = self.inner.listeners.listen_token(token);
        Box::pin(async move {
            let _listening = listening;
            told.await.map_err(|_| closed().doing("wait for a notification of a lock"))
        })
    }
}

/// Size of an answer that is kept for replay, in bytes.
fn weight(tasks: &[Task]) -> usize {
    tasks.iter().map(|task| 100 + task.payload.bytes().len()).sum()
}

impl QueueStore for SqliteStore {
    fn enqueue(&self, op: Op, queue: &QueueName, tasks: Vec<NewTask>) -> Answer<'_, Vec<Enqueued>> {
        let checked = check_tasks(&tasks);
        let queue = queue.clone();
        self.write("enqueue", checked, move |step| {
            step.once(op, Vec::len, |step| queue::enqueue(step, &queue, &tasks))
        })
    }

    fn top(&self, queue: &QueueName, n: u32) -> Answer<'_, Vec<Task>> {
        let queue = queue.clone();
        self.write("read a queue's first tasks", check_batch(n as usize), move |step| {
            queue::top(step, &queue, n)
        })
    }

    fn pop(&self, op: Op, queue: &QueueName, n: u32) -> Answer<'_, Vec<Task>> {
        let queue = queue.clone();
        self.write("pop", check_batch(n as usize), move |step| {
            step.once(op, |tasks: &Vec<Task>| weight(tasks), |step| queue::pop(step, &queue, n))
        })
    }

    fn claim(&self, op: Op, queue: &QueueName, claim: Claim) -> Answer<'_, Claimed> {
        let queue = queue.clone();
        self.write("claim", claim.check(), move |step| {
            step.once(op, |it: &Claimed| weight(&it.tasks), |step| queue::claim(step, &queue, &claim))
        })
    }

    fn complete(&self, op: Op, queue: &QueueName, done: Vec<Completion>) -> Answer<'_, Vec<Completed>> {
        let checked = check_batch(done.len()).and_then(|()| done.iter().try_for_each(Completion::check));
        let queue = queue.clone();
        self.write("complete", checked, move |step| {
            step.once(op, Vec::len, |step| queue::complete(step, &queue, &done))
        })
    }

    fn retry(&self, op: Op, queue: &QueueName, failed: Vec<Retry>) -> Answer<'_, Vec<Retried>> {
        let checked = check_batch(failed.len()).and_then(|()| failed.iter().try_for_each(Retry::check));
        let queue = queue.clone();
        self.write("retry", checked, move |step| {
            step.once(op, Vec::len, |step| queue::retry(step, &queue, &failed))
        })
    }

    fn give_back(&self, op: Op, queue: &QueueName, back: Vec<GiveBack>) -> Answer<'_, Vec<GivenBack>> {
        let queue = queue.clone();
        self.write(
            "release tasks",
            check_batch(back.len()).and_then(|()| back.iter().try_for_each(GiveBack::check)),
            move |step| step.once(op, Vec::len, |step| queue::give_back(step, &queue, &back)),
        )
    }

    fn extend_tasks(
        &self,
        queue: &QueueName,
        beats: Vec<Heartbeat>,
        lease: Lease,
    ) -> Answer<'_, Vec<TaskExtended>> {
        let checked = check_batch(beats.len()).and_then(|()| beats.iter().try_for_each(Heartbeat::check));
        let queue = queue.clone();
        self.write("extend tasks", checked, move |step| queue::extend_tasks(step, &queue, &beats, lease))
    }

    fn dequeue(&self, op: Op, queue: &QueueName, ticket: Ticket) -> Answer<'_, Dequeued> {
        let queue = queue.clone();
        self.write("dequeue", Ok(()), move |step| {
            step.once(op, |_| 1, |step| queue::dequeue(step, &queue, &ticket))
        })
    }

    fn cancel(&self, op: Op, queue: &QueueName, id: &TaskId) -> Answer<'_, Cancelled> {
        let (queue, id) = (queue.clone(), id.clone());
        self.write("cancel a task", Ok(()), move |step| {
            step.once(op, |_| 1, |step| queue::cancel(step, &queue, &id))
        })
    }

    fn unique_until(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<Timestamp>> {
        let (queue, id) = (queue.clone(), id.clone());
        self.read("check a uniqueness window", Ok(()), move |reader| {
            queue::unique::unique_until(reader, &queue, &id)
        })
    }

    fn lift(&self, op: Op, queue: &QueueName, id: &TaskId) -> Answer<'_, Lifted> {
        let (queue, id) = (queue.clone(), id.clone());
        self.write("clear a uniqueness window", Ok(()), move |step| {
            step.once(op, |_| 1, |step| queue::unique::lift(step, &queue, &id))
        })
    }

    fn close_batch(&self, op: Op, queue: &QueueName, id: &TaskId) -> Answer<'_, Closed> {
        let (queue, id) = (queue.clone(), id.clone());
        self.write("close a batch", Ok(()), move |step| {
            step.once(op, |_| 1, |step| queue::wait::close(step, &queue, &id))
        })
    }

    fn waits(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<Waits>> {
        let (of, id) = (queue.clone(), id.clone());
        let read = move |reader: &Reader<'_>| queue::wait::waits(reader, &of, &id);
        self.read_queue("read the dependencies of a task", queue, Ok(()), read)
    }

    fn waited(&self, queue: &QueueName, id: &TaskId, after: &str, limit: u32) -> Answer<'_, Vec<Waited>> {
        let (of, id, after) = (queue.clone(), id.clone(), after.to_owned());
        let checked = check_range("the page limit", limit.into(), 1, 100);
        self.read_queue("list the dependencies of a task", queue, checked, move |reader| {
            queue::wait::waited(reader, &of, &id, &after, limit)
        })
    }

    fn task(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<TaskInfo>> {
        let (of, id) = (queue.clone(), id.clone());
        self.read_queue("read a task", queue, Ok(()), move |reader| queue::task(reader, &of, &id))
    }

    fn tasks(&self, queue: &QueueName, listing: Listing) -> Answer<'_, Vec<TaskInfo>> {
        let of = queue.clone();
        self.read_queue("list tasks", queue, listing.check(), move |reader| {
            queue::tasks(reader, &of, &listing)
        })
    }

    fn stats(&self, queue: &QueueName) -> Answer<'_, QueueStats> {
        let of = queue.clone();
        self.read_queue("count a queue's tasks", queue, Ok(()), move |reader| queue::stats(reader, &of))
    }

    fn queues(&self) -> Answer<'_, Vec<QueueName>> {
        self.read("list queues", Ok(()), queue::queues)
    }

    fn pause(&self, queue: &QueueName, paused: bool) -> Answer<'_, ()> {
        let queue = queue.clone();
        self.write("pause a queue", Ok(()), move |step| queue::pause(step, &queue, paused))
    }

    fn limit(&self, queue: &QueueName, limits: QueueLimits) -> Answer<'_, ()> {
        let queue = queue.clone();
        self.write("set a queue's limits", limits.check(), move |step| queue::limit(step, &queue, limits))
    }

    fn task_events(&self, queue: &QueueName, after: u64, limit: u32) -> Answer<'_, TaskEvents> {
        let (of, checked) = (queue.clone(), TaskEvents::check(limit));
        self.read_queue("read a queue's events", queue, checked, move |reader| {
            queue::event::events(reader, &of, after, limit)
        })
    }

    fn dead(&self, queue: &QueueName, after: &str, limit: u32) -> Answer<'_, Vec<DeadLetter>> {
        let (of, after) = (queue.clone(), after.to_owned());
        let checked = check_range("the page limit", limit.into(), 1, 10_000);
        self.read_queue("list dead letters", queue, checked, move |reader| {
            queue::dead(reader, &of, &after, limit)
        })
    }

    fn dead_letter(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, Option<DeadLetter>> {
        let (of, id) = (queue.clone(), id.clone());
        self.read_queue("find a dead letter", queue, Ok(()), move |reader| {
            queue::dead_letter(reader, &of, &id)
        })
    }

    fn revive(&self, op: Op, queue: &QueueName, which: Selection) -> Answer<'_, Revived> {
        let queue = queue.clone();
        self.write("requeue dead letters", which.check(), move |step| {
            step.once(op, |_| 1, |step| queue::revive(step, &queue, &which))
        })
    }

    fn bury(&self, op: Op, queue: &QueueName, which: Selection) -> Answer<'_, u64> {
        let queue = queue.clone();
        self.write("delete dead letters", which.check(), move |step| {
            step.once(op, |_| 1, |step| queue::bury(step, &queue, &which))
        })
    }

    fn ready(&self, queue: &QueueName) -> Answer<'_, ()> {
        let (listening, told) = self.inner.listeners.listen_queue(queue);
        Box::pin(async move {
            let _listening = listening;
            told.await.map_err(|_| closed().doing("wait for a queue"))
        })
    }

    fn over(&self, queue: &QueueName, id: &TaskId) -> Answer<'_, ()> {
        const DOING: &str = "wait for a task to finish";
        let (listening, told) = self.inner.listeners.listen_over(queue, id);
        let (of, id) = (queue.clone(), id.clone());
        let awaited =
            self.read_queue(DOING, queue, Ok(()), move |reader| queue::kept::is_awaited(reader, &of, &id));
        Box::pin(async move {
            let _listening = listening;
            if awaited.await? {
                told.await.map_err(|_| closed().doing(DOING))?;
            }
            Ok(())
        })
    }

    fn happens(&self, queue: &QueueName, after: u64) -> Answer<'_, ()> {
        const DOING: &str = "follow a queue";
        let (listening, told) = self.inner.listeners.listen_events(queue, after);
        let of = queue.clone();
        let last = self.read_queue(DOING, queue, Ok(()), move |reader| queue::event::last(reader, &of));
        Box::pin(async move {
            let _listening = listening;
            if last.await? == after {
                told.await.map_err(|_| closed().doing(DOING))?;
            }
            Ok(())
        })
    }
}

impl ScheduleStore for SqliteStore {
    fn schedule(&self, queue: &QueueName, new: NewSchedule) -> Answer<'_, Scheduled> {
        let queue = queue.clone();
        self.write("save a schedule", new.check(), move |step| schedule::schedule(step, &queue, &new))
    }

    fn unschedule(&self, queue: &QueueName, id: &ScheduleId) -> Answer<'_, bool> {
        let (queue, id) = (queue.clone(), id.clone());
        self.write("delete a schedule", Ok(()), move |step| schedule::unschedule(step, &queue, &id))
    }

    fn schedules(&self, queue: &QueueName, page: Page) -> Answer<'_, Vec<Schedule>> {
        let queue = queue.clone();
        let checked = page.check();
        self.read("list schedules", checked, move |reader| schedule::schedules(reader, &queue, &page))
    }

    fn due_schedules(&self, queue: &QueueName, n: u32) -> Answer<'_, DueSchedules> {
        let queue = queue.clone();
        let checked = check_batch(n as usize);
        self.read("find due schedules", checked, move |reader| schedule::due_schedules(reader, &queue, n))
    }

    fn fire(&self, queue: &QueueName, fire: Fire) -> Answer<'_, Fired> {
        let queue = queue.clone();
        self.write("fire a schedule", fire.check(), move |step| schedule::fire(step, &queue, &fire))
    }
}

impl OutboxStore for SqliteStore {
    fn relay(&self, queue: &QueueName, relay: Relay) -> Answer<'_, Relayed> {
        let queue = queue.clone();
        self.write("relay an outbox", relay.check(), move |step| outbox::relay(step, &queue, &relay))
    }
}

impl SaleStore for SqliteStore {
    fn create(&self, spec: SaleSpec) -> Answer<'_, Created> {
        self.write("create a sale", spec.check(), move |step| sale::create(step, &spec))
    }

    fn open(&self, id: &SaleId) -> Answer<'_, SaleStatus> {
        let id = id.clone();
        self.write("open a sale", Ok(()), move |step| sale::open(step, &id))
    }

    fn end(&self, id: &SaleId) -> Answer<'_, SaleStatus> {
        let id = id.clone();
        self.write("end a sale", Ok(()), move |step| sale::end(step, &id))
    }

    fn reserve(&self, request: Reserve) -> Answer<'_, Reserved> {
        self.write("reserve", request.check(), move |step| sale::reserve(step, &request))
    }

    fn confirm(&self, id: &SaleId, of: ReservationId) -> Answer<'_, Decision> {
        let id = id.clone();
        self.write("confirm a reservation", Ok(()), move |step| sale::confirm(step, &id, of))
    }

    fn cancel_hold(&self, id: &SaleId, of: ReservationId) -> Answer<'_, Decision> {
        let id = id.clone();
        self.write("cancel a reservation", Ok(()), move |step| sale::cancel_hold(step, &id, of))
    }

    fn expire(&self, id: &SaleId, n: u32) -> Answer<'_, u32> {
        let id = id.clone();
        self.write("expire holds", check_batch(n as usize), move |step| sale::expire(step, &id, n))
    }

    fn settle(
        &self,
        id: &SaleId,
        generation: u32,
        verdicts: Vec<(ReservationId, Verdict)>,
    ) -> Answer<'_, Vec<Settled>> {
        let id = id.clone();
        self.write("settle reservations", check_batch(verdicts.len()), move |step| {
            sale::settle(step, &id, generation, &verdicts)
        })
    }

    fn pause_sale(&self, id: &SaleId, generation: u32, reason: PauseReason) -> Answer<'_, bool> {
        let id = id.clone();
        self.write("halt a sale", Ok(()), move |step| sale::pause(step, &id, generation, reason))
    }

    fn begin_rebuild(&self, by: Op, id: &SaleId) -> Answer<'_, ()> {
        let id = id.clone();
        self.write("start the rebuild of a sale", Ok(()), move |step| sale::begin_rebuild(step, by, &id))
    }

    fn load(&self, by: Op, id: &SaleId, generation: u32, part: Load) -> Answer<'_, Rebuilt> {
        let id = id.clone();
        self.write("load a part of a sale", part.check(), move |step| {
            sale::load_part(step, by, &id, generation, &part)
        })
    }

    fn switch(&self, by: Op, id: &SaleId, switch: Switch) -> Answer<'_, Rebuilt> {
        let id = id.clone();
        self.write("switch a sale to its new generation", switch.check(), move |step| {
            sale::switch(step, by, &id, &switch)
        })
    }

    fn restore(&self, receipt: Receipt) -> Answer<'_, Restored> {
        self.write("restore a reservation", Ok(()), move |step| sale::restore(step, &receipt))
    }

    fn stock(&self, op: Op, id: &SaleId, sku: &Sku, change: StockChange) -> Answer<'_, StockChanged> {
        let (id, sku) = (id.clone(), sku.clone());
        self.write("change the stock", change.check(), move |step| sale::stock(step, op, &id, &sku, change))
    }

    fn sale(&self, id: &SaleId) -> Answer<'_, SaleState> {
        let id = id.clone();
        self.read("show a sale", Ok(()), move |reader| sale::sale(reader, &id))
    }

    fn sales(&self, page: Page) -> Answer<'_, Vec<SaleState>> {
        self.read("list sales", page.check(), move |reader| sale::sales(reader, &page.after, page.limit))
    }

    fn reservation(&self, id: &SaleId, of: ReservationId) -> Answer<'_, Option<Hold>> {
        let id = id.clone();
        self.read("read a reservation", Ok(()), move |reader| sale::reservation(reader, &id, of))
    }

    fn events(&self, id: &SaleId, after: u64, limit: u32) -> Answer<'_, Vec<Event>> {
        let id = id.clone();
        let checked = check_range("the page limit", limit.into(), 1, 10_000);
        self.read("read a sale's events", checked, move |reader| sale::events(reader, &id, after, limit))
    }

    fn books(&self, id: &SaleId) -> Answer<'_, Books> {
        let id = id.clone();
        self.read("read a sale's snapshot", Ok(()), move |reader| sale::books(reader, &id))
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("info", &self.info()).field("now", &(self.inner.clock)()).finish()
    }
}
