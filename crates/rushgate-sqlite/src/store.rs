//! The public store: opens the file, and sends steps to the writer and queries to the readers.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rushgate_core::{
    Answer, Durability, Error, Log, Notification, QueueName, Reply, Request, Store, StoreCalls, StoreInfo,
    Timestamp, Topic,
};
use tokio::sync::oneshot;

use crate::clock::{self, Clock};
use crate::counters::Counters;
use crate::fault::{self, caught, explain};
use crate::log_watch::Waker;
use crate::open::{Limits, Location, SameFile};
use crate::queue;
use crate::read::{Reader, Readers, closed};
use crate::sale;
use crate::step::{Replays, Step};
use crate::syncer::{Horizon, Syncer};
use crate::wake::{Listeners, Watcher};
use crate::writer::{Writer, WriterHandle, write_back};

/// Number of reader threads.
const READERS: usize = 2;

/// A store in an SQLite file.
///
/// Share it with [`Arc`]. When the last reference is dropped, calls that were sent still complete in the background.
/// [`close`](Store::close) waits for them.
pub struct SqliteStore {
    inner: Arc<Inner>,
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
/// let options = Options::new().busy_timeout(Duration::from_secs(1)).max_bytes(1 << 30);
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
    /// Creates the default options: the machine's clock, a busy timeout of 5 s, and no size limit.
    pub fn new() -> Self {
        let limits = Limits { busy_timeout: Duration::from_secs(5), max_bytes: None };
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
    pub fn busy_timeout(mut self, busy_timeout: Duration) -> Self {
        self.limits.busy_timeout = busy_timeout;
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
    ///   ([`Options::busy_timeout`]), or the disk failed.
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
        let listeners = Arc::new(Listeners::new(Waker::new().map_err(no_waker)?));
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
            busy_timeout: limits.busy_timeout,
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
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Sends a step to the writer.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        verb: impl FnMut(&mut Step<'_>) -> fault::Result<T> + Send + 'static,
    ) -> Answer<'static, T> {
        let answer = self.inner.writer.send(verb);
        Box::pin(async move { answer.await.map_err(|_| closed())? })
    }

    /// Sends a query to a reader, or to the writer if the store is in memory.
    pub(crate) fn read<T: Send + 'static>(
        &self,
        question: impl Fn(&Reader<'_>) -> fault::Result<T> + Send + 'static,
    ) -> Answer<'static, T> {
        if self.inner.readers.is_none() {
            return self.inner.read_in_writer(|_| Ok(()), question);
        }
        self.inner.ask_reader(move |_, reader| question(reader).map(Found::Here))
    }

    /// Reads a queue, after ending its expired leases.
    pub(crate) fn read_queue<T: Send + 'static>(
        &self,
        queue: QueueName,
        question: impl Fn(&Reader<'_>) -> fault::Result<T> + Send + 'static,
    ) -> Answer<'static, T> {
        let reap = {
            let queue = queue.clone();
            move |step: &mut Step<'_>| queue::reap(step, &queue)
        };
        if self.inner.readers.is_none() {
            return self.inner.read_in_writer(reap, question);
        }
        self.inner.ask_reader(move |inner, reader| {
            if !queue::must_reap(reader, &queue)? {
                return question(reader).map(Found::Here);
            }
            Ok(Found::InWriter(inner.read_in_writer(reap, question)))
        })
    }
}

/// Where the answer to a query is.
enum Found<T> {
    Here(T),
    /// The reader found that the writer has to change something first.
    InWriter(Answer<'static, T>),
}

impl Inner {
    /// Sends a query to a reader. The answer may come from the writer.
    fn ask_reader<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Arc<Self>, &Reader<'_>) -> fault::Result<Found<T>> + Send + 'static,
    ) -> Answer<'static, T> {
        self.counters.count_calls(1);
        let (reply, answer) = oneshot::channel();
        let inner = Arc::clone(self);
        let job = move |reader: &Reader<'_>| {
            let found = caught(|| question(&inner, reader));
            let found = found.map_err(|stop| explain(stop, &inner.location.shown()));
            inner.counters.count_statements(reader.statements());
            // Wait until the answer is durable: a power cut must not undo what a caller has read.
            inner.horizon.settle();
            let _ = reply.send(found);
        };
        if let Some(readers) = &self.readers {
            readers.send(Box::new(job));
        }
        Box::pin(async move {
            match answer.await.map_err(|_| closed())?? {
                Found::Here(answer) => Ok(answer),
                Found::InWriter(answer) => answer.await,
            }
        })
    }

    /// Executes a query in the writer, after a step.
    fn read_in_writer<T: Send + 'static>(
        &self,
        before: impl Fn(&mut Step<'_>) -> fault::Result<()> + Send + 'static,
        question: impl Fn(&Reader<'_>) -> fault::Result<T> + Send + 'static,
    ) -> Answer<'static, T> {
        let answer = self.writer.send(move |step| {
            before(step)?;
            // The query must see the changes of the group.
            write_back(step)?;
            question(step)
        });
        Box::pin(async move { answer.await.map_err(|_| closed())? })
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

fn no_waker(error: std::io::Error) -> Error {
    Error::unavailable("cannot create an event descriptor").caused_by(error)
}

fn no_thread(error: std::io::Error) -> Error {
    Error::unavailable("cannot start a thread").caused_by(error)
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.take_no_more();
    }
}

impl Store for SqliteStore {
    fn step(&self, request: Request) -> Answer<'static, Reply> {
        self.carry(request)
    }

    fn listen(&self, topic: Topic) -> Answer<'static, Option<Notification>> {
        let (listening, told) = self.inner.listeners.listen(topic.clone());
        // Whether there is something to wait for.
        let waits = match topic {
            Topic::Token(_) | Topic::Ready(_) => None,
            Topic::Finished(queue, id) => {
                let of = queue.clone();
                Some(self.read_queue(queue, move |reader| queue::kept::is_awaited(reader, &of, &id)))
            }
            Topic::Event(Log::Queue(queue), after) => {
                let of = queue.clone();
                Some(self.read_queue(queue, move |reader| Ok(queue::event::last(reader, &of)? == after)))
            }
            Topic::Event(Log::Sale(sale), after) => {
                Some(self.read(move |reader| Ok(sale::orders::last(reader, &sale)? == after)))
            }
        };
        Box::pin(async move {
            let _listening = listening;
            if let Some(waits) = waits
                && !waits.await?
            {
                return Ok(None);
            }
            told.await.map_err(|_| closed())
        })
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

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("info", &self.info()).field("now", &(self.inner.clock)()).finish()
    }
}
