//! The thread that talks to the server: it takes whatever steps wait, sends them together, and hands the answers out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rand::RngExt;
use rushgate_core::{Error, Result, StoreCalls};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use crate::check::{Checked, check};
use crate::command::{Call, Command};
use crate::conn::{Answered, Broken, Commands, Conn, Server};
use crate::fault;
use crate::reply::Reply;
use crate::scripts::Script;

/// Steps that travel together at most.
const BATCH_MAX: usize = 128;
/// Batches on their way at most.
const IN_FLIGHT_MAX: usize = 16;
/// How often a script may be unknown to the server before the step is given up.
const LOADS_MAX: usize = 3;

/// Pauses between attempts to connect: doubling, each drawn from its upper half, so that clients which lost the
/// server together do not come back together.
pub(crate) struct Backoff(Duration);

impl Backoff {
    const FIRST: Duration = Duration::from_millis(10);
    const LAST: Duration = Duration::from_secs(1);

    pub(crate) fn new() -> Self {
        Self(Self::FIRST)
    }

    pub(crate) fn draw(&mut self) -> Duration {
        let pause = self.0.mul_f64(rand::rng().random_range(0.5..1.0));
        self.0 = (self.0 * 2).min(Self::LAST);
        pause
    }
}

/// One step to be sent, and where its answer goes.
struct Work {
    what: What,
    reply: oneshot::Sender<Result<Reply>>,
}

#[derive(Clone)]
enum What {
    Call(Call),
    Command(Command),
    /// Commands that nobody comes between.
    Together(Vec<Command>),
}

/// The way to the server.
pub(crate) struct Driver {
    queue: mpsc::UnboundedSender<Work>,
    handle: Handle,
    counters: Arc<Counters>,
    thread: Mutex<Option<JoinHandle<()>>>,
    stop: Mutex<Option<oneshot::Sender<()>>>,
}

#[derive(Default)]
struct Counters {
    calls: AtomicU64,
    transactions: AtomicU64,
    statements: AtomicU64,
}

pub(crate) fn closed() -> Error {
    Error::unavailable("the store is closed")
}

impl Driver {
    /// Starts the thread, makes the first connection and checks the server.
    pub(crate) async fn start(server: Server) -> Result<(Self, Checked)> {
        let (queue, steps) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let (opened, first) = oneshot::channel();
        let counters = Arc::new(Counters::default());
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let handle = runtime.handle().clone();
        let of_thread = Arc::clone(&counters);
        let thread = std::thread::Builder::new().name("rushgate-redis".into()).spawn(move || {
            runtime.block_on(async move {
                let link = Link { server, slot: Mutex::default(), counters: of_thread };
                let checked = link.connect().await;
                let up = checked.is_ok();
                let told = opened.send(checked).is_ok();
                if up && told {
                    Pump { link: Arc::new(link), steps, stopped }.run().await;
                }
            });
        });
        let thread = Mutex::new(Some(thread.map_err(no_thread)?));
        let checked = first.await.map_err(|_| closed())??;
        Ok((Self { queue, handle, counters, thread, stop: Mutex::new(Some(stop)) }, checked))
    }

    fn send(&self, what: What) -> oneshot::Receiver<Result<Reply>> {
        let (reply, answer) = oneshot::channel();
        self.counters.calls.fetch_add(1, Ordering::Relaxed);
        // If the thread has ended, the answer's sender is dropped, which says so.
        let _ = self.queue.send(Work { what, reply });
        answer
    }

    /// Sends a script at once; the answer is awaited later.
    pub(crate) fn call(&self, call: Call) -> impl Future<Output = Result<Reply>> + Send + use<> {
        let answer = self.send(What::Call(call));
        async move { answer.await.map_err(|_| closed())? }
    }

    /// Sends a command at once.
    pub(crate) fn command(&self, command: Command) -> impl Future<Output = Result<Reply>> + Send + use<> {
        let answer = self.send(What::Command(command));
        async move { answer.await.map_err(|_| closed())? }
    }

    /// Sends commands between which nothing else happens; gives the list of their answers.
    pub(crate) fn together(
        &self,
        commands: Vec<Command>,
    ) -> impl Future<Output = Result<Reply>> + Send + use<> {
        let answer = self.send(What::Together(commands));
        async move { answer.await.map_err(|_| closed())? }
    }

    /// Carries out steps that depend on each other, whether or not somebody waits for the answer.
    pub(crate) fn run<T, F>(&self, steps: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.handle.spawn(async move {
            let _ = reply.send(steps.await);
        });
        async move { answer.await.map_err(|_| closed())? }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    pub(crate) fn counted(&self) -> StoreCalls {
        StoreCalls {
            calls: self.counters.calls.load(Ordering::Relaxed),
            transactions: self.counters.transactions.load(Ordering::Relaxed),
            statements: self.counters.statements.load(Ordering::Relaxed),
        }
    }

    /// Takes no more steps. Those that were sent are carried out first.
    pub(crate) fn stop(&self) {
        drop(self.stop.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// The thread, to be waited for, once.
    pub(crate) fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) fn no_thread(error: std::io::Error) -> Error {
    Error::unavailable("the system did not start a thread").caused_by(error)
}

/// Takes the steps from the queue.
struct Pump {
    link: Arc<Link>,
    steps: mpsc::UnboundedReceiver<Work>,
    stopped: oneshot::Receiver<()>,
}

impl Pump {
    async fn run(mut self) {
        let slots = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        let mut backoff = Backoff::new();
        let mut open = true;
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                biased;
                n = self.steps.recv_many(&mut batch, BATCH_MAX) => if n == 0 { break },
                _ = &mut self.stopped, if open => {
                    open = false;
                    self.steps.close();
                    continue;
                }
            }
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { break };
            let conn = match self.link.conn(&mut backoff).await {
                Ok(conn) => conn,
                Err(error) => {
                    batch.into_iter().for_each(|work| drop(work.reply.send(Err(error.duplicate()))));
                    continue;
                }
            };
            let link = Arc::clone(&self.link);
            tokio::spawn(async move {
                link.carry(&conn, batch).await;
                drop(slot);
            });
        }
        // Whatever is on its way is answered before the thread ends.
        let _ = slots.acquire_many(IN_FLIGHT_MAX as u32).await;
    }
}

/// The connection, made again when it was lost.
struct Link {
    server: Server,
    slot: Mutex<Slot>,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct Slot {
    conn: Option<Arc<Commands>>,
    /// Not before this moment, after a connection that did not work.
    again: Option<Instant>,
}

impl Link {
    fn slot(&self) -> std::sync::MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that works as far as is known. Waits for the next attempt, no longer than that.
    async fn conn(&self, backoff: &mut Backoff) -> Result<Arc<Commands>> {
        let again = {
            let slot = self.slot();
            if let Some(conn) = &slot.conn {
                return Ok(Arc::clone(conn));
            }
            slot.again
        };
        if let Some(again) = again {
            tokio::time::sleep_until(again).await;
        }
        let made = self.connect().await;
        if made.is_ok() {
            *backoff = Backoff::new();
        }
        let mut slot = self.slot();
        slot.again = Some(Instant::now() + backoff.draw());
        made?;
        slot.conn.clone().ok_or_else(closed)
    }

    /// Makes a connection, checks the server behind it and gives it the scripts.
    async fn connect(&self) -> Result<Checked> {
        let conn = self.server.connect().await?;
        let checked = check(&conn).await?;
        let scripts: Vec<Command> = Script::ALL.iter().map(|script| load(*script)).collect();
        for answer in conn.send(&scripts).await.map_err(|broken| not_sent(&broken))? {
            answer.map_err(|refusal| fault::refused(&refusal))?;
        }
        self.slot().conn = Some(Arc::new(conn));
        Ok(checked)
    }

    fn lost(&self, conn: &Arc<Commands>) {
        let mut slot = self.slot();
        if slot.conn.as_ref().is_some_and(|current| Arc::ptr_eq(current, conn)) {
            slot.conn = None;
        }
    }

    /// Sends a batch and answers it. Steps that the server wants to be sent again are sent again.
    async fn carry(&self, conn: &Arc<Commands>, mut batch: Vec<Work>) {
        let mut loads = 0;
        while !batch.is_empty() {
            let plan = Plan::of(&batch);
            self.counters.statements.fetch_add(plan.commands.len() as u64, Ordering::Relaxed);
            self.counters.transactions.fetch_add(batch.len() as u64, Ordering::Relaxed);
            let answers = match conn.send(&plan.commands).await {
                Ok(answers) => answers,
                Err(error) => {
                    self.lost(conn);
                    tracing::debug!(%error, "the connection to the store ended");
                    let error = fault::broken(&error);
                    batch.into_iter().for_each(|work| drop(work.reply.send(Err(error.duplicate()))));
                    return;
                }
            };
            let (again, missing) = plan.hand_out(batch, answers, loads < LOADS_MAX);
            batch = again;
            if missing {
                loads += 1;
                let scripts: Vec<Command> = Script::ALL.iter().map(|script| load(*script)).collect();
                // What goes wrong here goes wrong with the steps as well, which say so.
                let _ = conn.send(&scripts).await;
            }
        }
    }
}

fn load(script: Script) -> Command {
    Command::new("SCRIPT").arg("LOAD").arg(script.body())
}

fn not_sent(broken: &Broken) -> Error {
    Error::unavailable(format_args!("the connection to the server ended at once: {broken}"))
}

/// The commands of a batch, and how many of them belong to each step.
struct Plan {
    commands: Vec<Command>,
    counts: Vec<usize>,
}

impl Plan {
    fn of(batch: &[Work]) -> Self {
        let mut plan =
            Self { commands: Vec::with_capacity(batch.len()), counts: Vec::with_capacity(batch.len()) };
        for work in batch {
            let before = plan.commands.len();
            match &work.what {
                What::Call(call) => plan.commands.push(call.command.clone()),
                What::Command(command) => plan.commands.push(command.clone()),
                What::Together(commands) => {
                    plan.commands.push(Command::new("MULTI"));
                    plan.commands.extend(commands.iter().cloned());
                    plan.commands.push(Command::new("EXEC"));
                }
            }
            plan.counts.push(plan.commands.len() - before);
        }
        plan
    }

    /// Answers the steps; gives back those that must be sent again, and whether the server lacked a script.
    fn hand_out(self, batch: Vec<Work>, answers: Vec<Answered>, may_load: bool) -> (Vec<Work>, bool) {
        let mut answers = answers.into_iter();
        let (mut again, mut missing) = (Vec::new(), false);
        for (work, count) in batch.into_iter().zip(self.counts) {
            // Of commands that travel together, the last answer is the list of all.
            let answer = answers.by_ref().take(count).last();
            match answer {
                Some(Ok(reply)) if reply.is("AGAIN") => again.push(work),
                Some(Ok(reply)) => drop(work.reply.send(Ok(reply))),
                Some(Err(refusal)) if refusal.code == "NOSCRIPT" && may_load => {
                    missing = true;
                    again.push(work);
                }
                Some(Err(refusal)) => drop(work.reply.send(Err(fault::refused(&refusal)))),
                None => {
                    drop(work.reply.send(Err(Error::bug("the server sent too few answers").maybe_happened())))
                }
            }
        }
        (again, missing)
    }
}
