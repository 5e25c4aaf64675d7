//! The request queue of one server. It sends pending requests in pipelines and delivers the replies.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rushgate_core::{Error, Result};
use tokio::sync::mpsc;
use tokio::task::{unconstrained, yield_now};
use tokio::time::{Instant, Sleep, sleep};

use crate::choose::choose;
use crate::fault;
use crate::library::ensure_on;
use crate::link::{Link, PinnedConnection};
use crate::plan::{Fate, Plan};
use crate::reply::Refusal;
use crate::resolver::{Linked, Resolver};
use crate::runtime::Runtime;
use crate::work::{InFlight, Work, fail};

/// The most requests in a pipeline.
const BATCH_MAX: usize = 128;
/// The most requests among which those of the next pipeline are chosen.
const HELD_MAX: usize = 2 * BATCH_MAX;
/// Fewer requests than this are not divided between two pipelines.
const SHARE_MIN: usize = 16;
/// The most pipelines in flight: one that the server executes, and one that is ready when it has finished. Requests
/// that arrive meanwhile share the next pipeline, which costs the server less.
const IN_FLIGHT_MAX: usize = 2;
/// Period of the [`Beat`]: shorter than every timeout of a request.
const BEAT: Duration = Duration::from_secs(1);
/// How often the server may miss a function before the request fails.
const INSTALLS_MAX: usize = 3;
/// How often a request is sent again because the server is no longer the primary.
const MOVES_MAX: usize = 3;

/// The request queue and the connection of one server.
pub(crate) struct Connection {
    queue: mpsc::UnboundedSender<Work>,
    pump: Arc<Mutex<Pump>>,
    pub(crate) link: Arc<Link>,
    runtime: Runtime,
}

impl Connection {
    /// Starts the task that sends requests, on the store's runtime.
    pub(crate) fn open(resolver: Resolver, in_flight: Arc<InFlight>, runtime: &Runtime) -> Self {
        let (queue, waiting) = mpsc::unbounded_channel();
        let link = Arc::new(Link::new(resolver, in_flight));
        let pump = Arc::new(Mutex::new(Pump::new(waiting)));
        runtime.spawn(run(Arc::clone(&link), Running(Arc::clone(&pump))));
        Self { queue, pump, link, runtime: runtime.clone() }
    }

    /// Sends a request on the caller's thread if nothing else is under way: to wake the connection's task, which often means
    /// another thread, would take longer than the rest of the request. Otherwise the task sends it.
    pub(crate) fn send(&self, work: Work) {
        // The task holds the lock while it delivers replies. A Cluster sends requests again from there.
        if let Ok(mut pump) = self.pump.try_lock()
            && let Some(waker) = pump.idle_waker()
            && let Some(conn) = self.link.current()
        {
            let _entered = self.runtime.enter();
            return pump.start(&self.link, conn, vec![work], &mut Context::from_waker(&waker));
        }
        if let Err(unsent) = self.queue.send(work) {
            unsent.0.answer(Err(self.link.in_flight.ended()));
        }
    }

    /// A pinned connection: the current one, or a new one.
    pub(crate) async fn pinned(&self) -> Result<PinnedConnection> {
        Ok(PinnedConnection::new(&self.link, self.link.conn().await?))
    }
}

/// Takes requests from the queue, sends them, and delivers the replies. All in one task: a task for each pipeline would
/// run on another thread, and to wake that takes longer than the rest of a request.
async fn run(link: Arc<Link>, running: Running) {
    loop {
        // Requests collect in the queue until a pipeline may be sent.
        if !poll_fn(|cx| running.pump().poll_receive(cx)).await {
            break;
        }
        if running.pump().is_crowded {
            // Under load, let other tasks that are ready to run send first, so that their requests join this pipeline.
            // A single caller does not wait.
            yield_now().await;
        }
        let mut batch = running.pump().take();
        match meanwhile(&running, link.conn()).await {
            Ok(conn) => {
                let batch = &mut batch;
                poll_fn(|cx| {
                    running.pump().start(&link, Arc::clone(&conn), std::mem::take(batch), cx);
                    Poll::Ready(())
                })
                .await;
            }
            Err(error) => unsent(&link, batch, &error),
        }
        running.pump().is_sending = false;
    }
    poll_fn(|cx| running.pump().poll_carried(cx)).await;
}

/// Awaits a future while the pipelines continue. They may hold what it waits for.
async fn meanwhile<T>(running: &Running, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let output = future.as_mut().poll(cx);
        if output.is_pending() {
            let _ = running.pump().poll_carried(cx);
        }
        output
    })
    .await
}

/// The pump while the connection's task runs. Afterwards no request is accepted.
struct Running(Arc<Mutex<Pump>>);

impl Running {
    fn pump(&self) -> MutexGuard<'_, Pump> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut pump = self.pump();
        pump.waker = None;
        pump.waiting.close();
        let carried = std::mem::take(&mut pump.carried);
        let mut waiting = Vec::from(std::mem::take(&mut pump.held));
        while let Ok(work) = pump.waiting.try_recv() {
            waiting.push(work);
        }
        drop(pump);
        // Their callers learn that the store has ended.
        drop((carried, waiting));
    }
}

/// Completes when its requests are answered, with their number.
type Pipeline = Pin<Box<dyn Future<Output = usize> + Send>>;

/// The requests of a connection, used by its task and by callers that find it idle.
struct Pump {
    waiting: mpsc::UnboundedReceiver<Work>,
    /// Requests taken from the queue and not sent yet.
    held: VecDeque<Work>,
    /// The pipelines in flight, and the number of their requests.
    carried: Vec<Pipeline>,
    requests: usize,
    /// Whether the latest pipeline had several requests.
    is_crowded: bool,
    /// Whether the task has taken requests that it has not sent yet.
    is_sending: bool,
    beat: Beat,
    /// Wakes the task. `None` before its first and after its last run.
    waker: Option<Waker>,
}

impl Pump {
    fn new(waiting: mpsc::UnboundedReceiver<Work>) -> Self {
        Self {
            waiting,
            held: VecDeque::new(),
            carried: Vec::new(),
            requests: 0,
            is_crowded: false,
            is_sending: false,
            beat: Beat::default(),
            waker: None,
        }
    }

    /// The task's waker, if nothing is under way and nobody else is about to send.
    fn idle_waker(&self) -> Option<Waker> {
        let is_idle = self.carried.is_empty()
            && self.waiting.is_empty()
            && self.held.is_empty()
            && !self.is_sending
            && !self.is_crowded;
        self.waker.clone().filter(|_| is_idle)
    }

    /// Ready when there are requests and a pipeline may be sent. False at the end.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let _ = self.poll_carried(cx);
        self.beat.poll(cx);
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
        }
        if self.carried.len() >= IN_FLIGHT_MAX {
            return Poll::Pending;
        }
        if self.held.is_empty() {
            let Some(work) = ready!(self.waiting.poll_recv(cx)) else { return Poll::Ready(false) };
            self.held.push_back(work);
        }
        Poll::Ready(true)
    }

    /// Takes the requests of the next pipeline. With half of all in each of two pipelines, the server executes one while
    /// the callers of the other continue. In a single pipeline, each side would wait for the other.
    fn take(&mut self) -> Vec<Work> {
        while self.held.len() < HELD_MAX
            && let Ok(work) = self.waiting.try_recv()
        {
            self.held.push_back(work);
        }
        let all = self.requests + self.held.len() + self.waiting.len();
        let [enough, most] = [4, 2].map(|part| all.div_ceil(part).clamp(SHARE_MIN, BATCH_MAX));
        self.is_sending = true;
        choose(&mut self.held, enough, most)
    }

    /// Sends a pipeline.
    fn start(&mut self, link: &Arc<Link>, conn: Arc<Linked>, works: Vec<Work>, cx: &mut Context<'_>) {
        let (link, count) = (Arc::clone(link), works.len());
        self.beat.keep(cx);
        self.is_crowded = count > 1;
        let mut pipeline: Pipeline = Box::pin(unconstrained(async move {
            carry(&link, conn, works).await;
            count
        }));
        // The first poll sends the requests. It must happen before the next pipeline is sent, to keep the order.
        if pipeline.as_mut().poll(cx).is_pending() {
            self.carried.push(pipeline);
            self.requests += count;
        }
    }

    /// Lets the pipelines continue. Ready when there is none.
    fn poll_carried(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.carried.retain_mut(|pipeline| match pipeline.as_mut().poll(cx) {
            Poll::Ready(answered) => {
                self.requests -= answered;
                false
            }
            Poll::Pending => true,
        });
        if self.carried.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// A timer that is due every second while requests are sent. Tokio wakes the thread that waits for I/O when a new timer
/// becomes the earliest, and each request has a timeout. Without an earlier timer, each would wake another thread.
#[derive(Default)]
struct Beat {
    due: Option<Pin<Box<Sleep>>>,
    /// Whether a request was sent since the latest beat.
    is_needed: bool,
}

impl Beat {
    /// Starts the timer, or keeps it for another second.
    fn keep(&mut self, cx: &mut Context<'_>) {
        self.is_needed = true;
        if self.due.is_none() {
            self.due = Some(Box::pin(sleep(BEAT)));
            self.poll(cx);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        while let Some(due) = &mut self.due
            && due.as_mut().poll(cx).is_ready()
        {
            match std::mem::take(&mut self.is_needed) {
                true => due.as_mut().reset(Instant::now() + BEAT),
                false => self.due = None,
            }
        }
    }
}

/// Handles requests for which there was no connection.
fn unsent(link: &Link, works: Vec<Work>, error: &Error) {
    match link.resolver.nodes() {
        Some((nodes, at)) => nodes.unsent(works, at, error),
        None => fail(works, error),
    }
}

/// Sends a pipeline and delivers its replies. Requests are resent as needed, which is safe because each carries a
/// token, an op or a key that makes it idempotent.
async fn carry(link: &Arc<Link>, mut conn: Arc<Linked>, mut batch: Vec<Work>) {
    let (mut installs, mut moves) = (0, 0);
    while !batch.is_empty() {
        let plan = Plan::of(batch, conn.checked.replicas, link.resolver.nodes().is_some());
        link.in_flight.sent(plan.len(), plan.commands.len());
        let answers = match link.send(&conn, &plan.commands).await {
            Ok(answers) => answers,
            Err(error) => {
                link.lost(&conn);
                tracing::debug!(%error, "lost the connection to the store");
                return fail(plan.works(), &fault::broken(&error));
            }
        };
        let rest = plan.hand_out(answers, |refusal| match refusal.code.as_str() {
            _ if fault::lacks_function(refusal) && installs < INSTALLS_MAX => Fate::Install,
            "READONLY" if link.resolver.follows_sentinels() && moves < MOVES_MAX => Fate::Follow,
            "OOM" => Fate::Full,
            _ if fault::is_referral(refusal) && link.resolver.nodes().is_some() => Fate::Refer,
            _ => Fate::Refused,
        });
        refer(link, rest.referred);
        batch = rest.again;
        if rest.lacks_functions {
            installs += 1;
            let server = PinnedConnection::new(link, Arc::clone(&conn));
            if let Err(error) = ensure_on(&server).await.and_then(|installed| installed) {
                return fail(batch, &error);
            }
        }
        if rest.is_replica {
            moves += 1;
            link.lost(&conn);
            conn = match link.conn().await {
                Ok(conn) => conn,
                Err(error) => return fail(batch, &error),
            };
        }
    }
}

fn refer(link: &Link, referred: Vec<(Work, Refusal)>) {
    if !referred.is_empty()
        && let Some((nodes, at)) = link.resolver.nodes()
    {
        nodes.refer(referred, at);
    }
}
