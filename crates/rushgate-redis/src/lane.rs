//! The request queue of one server. It sends pending requests in pipelines and delivers the replies.

use std::pin::pin;
use std::sync::Arc;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt, poll};
use rushgate_core::{Error, Result};
use tokio::sync::mpsc;
use tokio::task::{unconstrained, yield_now};

use crate::check::Checked;
use crate::fault;
use crate::library::ensure_on;
use crate::link::{Link, Walk};
use crate::plan::{Fate, Plan};
use crate::reply::Refusal;
use crate::runtime::Runtime;
use crate::way::{Linked, Way};
use crate::work::{Books, Work, fail};

/// The most requests in a pipeline.
const BATCH_MAX: usize = 128;
/// Fewer requests than this are not divided between two pipelines.
const SHARE_MIN: usize = 16;
/// The most pipelines in flight: one that the server executes, and one that is ready when it has finished. Requests
/// that arrive meanwhile share the next pipeline, which costs the server less.
const IN_FLIGHT_MAX: usize = 2;
/// How often the server may miss a function before the request fails.
const INSTALLS_MAX: usize = 3;
/// How often a request is sent again because the server is no longer the primary.
const MOVES_MAX: usize = 3;

/// The request queue and the connection of one server.
pub(crate) struct Lane {
    queue: mpsc::UnboundedSender<Work>,
    link: Arc<Link>,
}

impl Lane {
    /// Starts the task that sends requests, on the store's runtime.
    pub(crate) fn open(way: Way, books: Arc<Books>, runtime: &Runtime) -> Self {
        let (queue, steps) = mpsc::unbounded_channel();
        let link = Arc::new(Link::new(way, books));
        runtime.spawn(pump(Arc::clone(&link), steps));
        Self { queue, link }
    }

    pub(crate) fn send(&self, work: Work) {
        if let Err(unsent) = self.queue.send(work) {
            unsent.0.answer(Err(self.link.books.ended()));
        }
    }

    /// A pinned connection: the current one, or a new one.
    pub(crate) async fn walk(&self) -> Result<Walk> {
        Ok(Walk::new(&self.link, self.link.conn().await?))
    }

    /// Whether a connection exists. It may have been lost without notice.
    pub(crate) fn is_connected(&self) -> bool {
        self.link.is_connected()
    }

    /// Whether a failover by sentinels can replace the server.
    pub(crate) fn follows_sentinels(&self) -> bool {
        self.link.way.follows_sentinels()
    }

    /// Drops the connection.
    pub(crate) fn disconnect(&self) {
        self.link.disconnect();
    }

    /// The result of the latest check.
    pub(crate) fn checked(&self) -> Option<Checked> {
        self.link.checked()
    }
}

/// Takes requests from the queue, sends them, and delivers the replies. All in one task: a task for each pipeline would
/// run on another thread, and to wake that takes longer than the rest of a request.
async fn pump(link: Arc<Link>, mut steps: mpsc::UnboundedReceiver<Work>) {
    let mut carried = Carried::new();
    let mut batch = Vec::new();
    let mut is_crowded = false;
    loop {
        // Requests collect in the queue until a pipeline may be sent.
        let (may_send, share) = (carried.pipelines.len() < IN_FLIGHT_MAX, carried.share(steps.len()));
        tokio::select! {
            biased;
            Some(()) = carried.next() => continue,
            received = steps.recv_many(&mut batch, share), if may_send => if received == 0 { break },
        }
        if is_crowded {
            // Under load, let other tasks that are ready to run send first, so that their requests join this pipeline.
            // A single caller does not wait.
            yield_now().await;
            let share = carried.share(batch.len() + steps.len());
            while batch.len() < share
                && let Ok(step) = steps.try_recv()
            {
                batch.push(step);
            }
        }
        is_crowded = batch.len() > 1;
        let count = batch.len();
        let works = std::mem::take(&mut batch);
        match meanwhile(&mut carried, link.conn()).await {
            Ok(conn) => {
                let mut carrying = Box::pin(carry(&link, conn, works).map(move |()| count));
                // The first poll sends the pipeline. It must happen before the next pipeline is sent, to keep the
                // order.
                if poll!(unconstrained(&mut carrying)).is_pending() {
                    carried.push(carrying, count);
                }
            }
            Err(error) => unsent(&link, works, &error),
        }
    }
    while carried.next().await.is_some() {}
}

/// The pipelines in flight. Each completes with the number of its requests.
struct Carried<F> {
    pipelines: FuturesUnordered<F>,
    requests: usize,
}

impl<F: Future<Output = usize> + Unpin> Carried<F> {
    fn new() -> Self {
        Self { pipelines: FuturesUnordered::new(), requests: 0 }
    }

    fn push(&mut self, pipeline: F, requests: usize) {
        self.pipelines.push(pipeline);
        self.requests += requests;
    }

    async fn next(&mut self) -> Option<()> {
        self.requests -= self.pipelines.next().await?;
        Some(())
    }

    /// How many of the waiting requests to send now. With half of all in each of two pipelines, the server executes one
    /// while the callers of the other continue. In a single pipeline, each side would wait for the other.
    fn share(&self, waiting: usize) -> usize {
        (self.requests + waiting).div_ceil(2).clamp(SHARE_MIN, BATCH_MAX)
    }
}

/// Awaits a future while the pipelines continue. They may hold what it waits for.
async fn meanwhile<T>(
    carried: &mut Carried<impl Future<Output = usize> + Unpin>,
    future: impl Future<Output = T>,
) -> T {
    let mut future = pin!(future);
    loop {
        tokio::select! {
            biased;
            output = &mut future => return output,
            Some(()) = carried.next() => {}
        }
    }
}

/// Handles requests for which there was no connection.
fn unsent(link: &Link, works: Vec<Work>, error: &Error) {
    match link.way.nodes() {
        Some((nodes, at)) => nodes.unsent(works, at, error),
        None => fail(works, error),
    }
}

/// Sends a pipeline and delivers its replies. Requests are resent as needed, which is safe because each carries a
/// token, an op or a key that makes it idempotent.
async fn carry(link: &Arc<Link>, mut conn: Arc<Linked>, mut batch: Vec<Work>) {
    let (mut installs, mut moves) = (0, 0);
    while !batch.is_empty() {
        let plan = Plan::of(batch, conn.checked.replicas, link.way.nodes().is_some());
        link.books.sent(plan.len(), plan.commands.len());
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
            "READONLY" if link.way.follows_sentinels() && moves < MOVES_MAX => Fate::Follow,
            "OOM" => Fate::Full,
            _ if fault::is_referral(refusal) && link.way.nodes().is_some() => Fate::Refer,
            _ => Fate::Refused,
        });
        refer(link, rest.referred);
        batch = rest.again;
        if rest.lacks_functions {
            installs += 1;
            let server = Walk::new(link, Arc::clone(&conn));
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
        && let Some((nodes, at)) = link.way.nodes()
    {
        nodes.refer(referred, at);
    }
}
