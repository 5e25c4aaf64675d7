//! Server-sent events. One task per watched sale, and one for the snapshot, serves any number of watchers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::body::Body;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use hyper::body::Bytes;
use hyper::http::{HeaderValue, Response, header};
use rushgate::lock::LockState;
use rushgate::queue::{Followed, Follower, TaskChange};
use rushgate::sale::{Event, SaleId, SaleState};
use rushgate::store::Page;
use rushgate::wire::QueueReport;
use rushgate::{CancellationToken, Queue, Result, Rushgate, Sale};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::access::Caller;
use crate::attempts::{Attempts, AttemptsView, Recently};
use crate::scope::Kind;

/// Media type of an event stream.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// Shortest time between two reads of a watched sale.
const LOOK_MIN: Duration = Duration::from_millis(20);
/// Time until the next read if the store cannot be reached.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Longest time between two reads, because a notification may be lost.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// Interval of keep-alive comments, which detect clients that have left.
const PING_EVERY: Duration = Duration::from_secs(15);
/// Reconnect delay for clients, in milliseconds.
const RETRY_MS: u32 = 1_000;
/// Events per read.
const PAGE: u32 = 1_000;

/// The watched sales, each with the number of its latest event.
#[derive(Default)]
pub(crate) struct Tails(Mutex<HashMap<SaleId, watch::Sender<u64>>>);

impl Tails {
    /// Number of the sale's latest event, updated while the sale has watchers.
    async fn follow(
        self: &Arc<Self>,
        sale: &Sale,
        closing: &CancellationToken,
    ) -> Result<watch::Receiver<u64>> {
        // Subscribe before the map is locked. The first watcher starts the task for the others.
        let seq = sale.state().await?.seq;
        let mut tails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A sale without watchers is removed under this lock, or kept.
        if let Some(tail) = tails.get(sale.id()) {
            return Ok(tail.subscribe());
        }
        let (sender, receiver) = watch::channel(seq);
        tails.insert(sale.id().clone(), sender.clone());
        tokio::spawn(look(Arc::clone(self), sale.clone(), sender, closing.clone()));
        Ok(receiver)
    }

    /// Whether no watchers are left. The sale is then removed.
    fn is_left(&self, sale: &SaleId, sender: &watch::Sender<u64>) -> bool {
        let mut tails = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_left = sender.is_closed();
        if is_left {
            tails.remove(sale);
        }
        is_left
    }
}

/// Reads a sale after each of its events, while it has watchers.
async fn look(tails: Arc<Tails>, sale: Sale, sender: watch::Sender<u64>, closing: CancellationToken) {
    while !tails.is_left(sale.id(), &sender) && !closing.is_cancelled() {
        let next = match sale.state().await {
            Ok(state) => {
                sender.send_if_modified(|seq| std::mem::replace(seq, state.seq) != state.seq);
                Some(state.seq)
            }
            Err(error) => {
                tracing::debug!(sale = %sale.id(), %error, "cannot read the sale");
                None
            }
        };
        let happens = async {
            sleep(LOOK_MIN).await;
            match next {
                Some(seq) if sale.next_event(seq).await.is_ok() => {}
                _ => sleep(LOOK_AGAIN).await,
            }
        };
        tokio::select! {
            () = happens => {}
            () = sleep(LOOK_MAX) => {}
            () = closing.cancelled() => {}
        }
    }
}

/// A watcher of a sale.
struct Watcher {
    sale: Sale,
    after: u64,
    latest: watch::Receiver<u64>,
    closing: CancellationToken,
    ping_at: Instant,
}

/// The events of a sale with numbers greater than `after`, as they happen.
pub(crate) async fn of_sale(
    tails: &Arc<Tails>,
    sale: Sale,
    after: Option<u64>,
    closing: CancellationToken,
) -> Result<Response<Body>> {
    let latest = tails.follow(&sale, &closing).await?;
    let after = after.unwrap_or_else(|| *latest.borrow());
    let watcher = Watcher { sale, after, latest, closing, ping_at: Instant::now() + PING_EVERY };
    let events = stream::unfold(watcher, async |mut watcher| Some((watcher.next().await?, watcher)));
    Ok(response(events.boxed()))
}

impl Watcher {
    /// The next chunk to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if *self.latest.borrow_and_update() > self.after {
                match self.sale.events(Page::after(self.after, PAGE)).await {
                    Ok(events) if !events.is_empty() => return Some(self.write(&events)),
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(sale = %self.sale.id(), %error, "cannot read the events");
                        return None;
                    }
                }
            }
            tokio::select! {
                changed = self.latest.changed() => changed.ok()?,
                () = sleep_until(self.ping_at) => {
                    self.ping_at = Instant::now() + PING_EVERY;
                    return Some(Bytes::from_static(b": keep-alive\n\n"));
                }
                () = self.closing.cancelled() => return None,
            }
        }
    }

    fn write(&mut self, events: &[Event]) -> Bytes {
        let mut text = String::new();
        for event in events {
            self.after = event.seq;
            // Names and numbers always serialize.
            let data = serde_json::to_string(event).unwrap_or_default();
            let name = serde_json::to_value(event.kind).unwrap_or_default();
            text += &message(event.seq, name.as_str().unwrap_or_default(), &data);
        }
        self.ping_at = Instant::now() + PING_EVERY;
        text.into()
    }
}

/// A follower of a queue.
struct TaskWatcher {
    events: Follower,
    closing: CancellationToken,
    ping_at: Instant,
}

/// The events of a queue with numbers greater than `after`, as they happen. The store sends notifications.
pub(crate) fn of_queue(queue: &Queue, after: Option<u64>, closing: CancellationToken) -> Response<Body> {
    let events = queue.follow();
    let events = if let Some(after) = after { events.after(after) } else { events };
    let watcher = TaskWatcher { events, closing, ping_at: Instant::now() + PING_EVERY };
    let events = stream::unfold(watcher, async |mut watcher| Some((watcher.next().await?, watcher)));
    response(events.boxed())
}

impl TaskWatcher {
    /// The next chunk to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let text = tokio::select! {
            next = self.events.next() => match next {
                Ok(Followed::Event(event)) => {
                    // Names and numbers always serialize.
                    let data = serde_json::to_string(&event).unwrap_or_default();
                    message(event.seq, &name_of(&event.what), &data)
                }
                Ok(Followed::Missed { next }) => {
                    message(next.saturating_sub(1), "missed", &format!("{{\"next\":{next}}}"))
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot read the events");
                    return None;
                }
            },
            () = sleep_until(self.ping_at) => ": keep-alive\n\n".to_owned(),
            () = self.closing.cancelled() => return None,
        };
        self.ping_at = Instant::now() + PING_EVERY;
        Some(text.into())
    }
}

/// Name of an event in one word, such as `released`.
fn name_of(what: &TaskChange) -> String {
    let value = serde_json::to_value(what).unwrap_or_default();
    value["event"].as_str().unwrap_or_default().to_owned()
}

/// Interval of the snapshots while there are watchers.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of sales, queues and locks in a snapshot.
const SNAPSHOT_MAX: u32 = 200;

/// A snapshot of everything.
#[derive(Clone)]
struct Snapshot {
    sales: Vec<SaleState>,
    attempts: Vec<AttemptsView>,
    counted_us: u64,
    queues: Vec<QueueReport>,
    locks: Vec<LockState>,
}

/// A snapshot of everything that the caller may see: up to 200 sales, queues and locks each.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SnapshotView {
    /// The server's clock, in microseconds since the Unix epoch, for countdowns on pages.
    now_us: u64,
    /// The sales.
    sales: Vec<SaleState>,
    /// Reservation attempts that this process has answered since it started, for each of these sales with attempts.
    attempts: Vec<AttemptsView>,
    /// When they were counted, by the same clock. Compute rates from the time between two counts.
    counted_us: u64,
    /// The queues.
    queues: Vec<QueueReport>,
    /// Locks that are held or waited for.
    locks: Vec<LockState>,
}

/// The server's clock, in microseconds since the Unix epoch.
fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

impl Snapshot {
    async fn take(gate: &Rushgate, attempts: &Attempts, recently: &mut Recently) -> Result<Self> {
        let page = Page::first(SNAPSHOT_MAX);
        let (sales, locks) = (gate.sales(page.clone()).await?, gate.locks(page).await?);
        let mut queues = Vec::new();
        for queue in gate.queues(Page::first(SNAPSHOT_MAX)).await? {
            let stats = gate.queue(&queue)?.stats().await?;
            queues.push(QueueReport { queue, stats });
        }
        let stats = |id: &SaleId| gate.sale(id).map(|sale| (id.clone(), sale.gate_stats())).ok();
        let attempts = recently.look(attempts, sales.iter().filter_map(|sale| stats(&sale.spec.id)));
        Ok(Self { sales, attempts, counted_us: now_us(), queues, locks })
    }

    fn seen_by(&self, caller: &Caller) -> SnapshotView {
        let Self { sales, attempts, counted_us, queues, locks } = self.clone();
        let sales = sales.into_iter().filter(|sale| caller.may(Kind::Sale, sale.spec.id.as_str()));
        let attempts = attempts.into_iter().filter(|of| caller.may(Kind::Sale, &of.sale));
        let queues = queues.into_iter().filter(|of| caller.may(Kind::Queue, of.queue.as_str()));
        let locks = locks.into_iter().filter(|lock| caller.may(Kind::Lock, lock.name.as_str()));
        SnapshotView {
            now_us: now_us(),
            sales: sales.collect(),
            attempts: attempts.collect(),
            counted_us,
            queues: queues.collect(),
            locks: locks.collect(),
        }
    }
}

/// The latest snapshot and its number; none before the first.
type Latest = (u64, Option<Arc<Snapshot>>);

/// The watchers of the snapshot, and what it is taken of.
pub(crate) struct Live {
    gate: Rushgate,
    attempts: Attempts,
    /// Canceled when the shutdown starts.
    closing: CancellationToken,
    watchers: Mutex<Option<watch::Sender<Latest>>>,
}

impl Live {
    pub(crate) fn new(gate: Rushgate, attempts: Attempts, closing: CancellationToken) -> Arc<Self> {
        Arc::new(Self { gate, attempts, closing, watchers: Mutex::default() })
    }

    fn follow(self: &Arc<Self>) -> watch::Receiver<Latest> {
        let mut live = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*live {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel((0, None));
        *live = Some(sender.clone());
        tokio::spawn(look_at_all(Arc::clone(self), sender));
        receiver
    }

    /// Whether no watchers are left.
    fn is_left(&self, sender: &watch::Sender<Latest>) -> bool {
        let mut live = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_left = sender.is_closed();
        if is_left {
            *live = None;
        }
        is_left
    }
}

async fn look_at_all(live: Arc<Live>, sender: watch::Sender<Latest>) {
    let (mut number, mut recently) = (0, Recently::default());
    while !live.is_left(&sender) && !live.closing.is_cancelled() {
        match Snapshot::take(&live.gate, &live.attempts, &mut recently).await {
            Ok(snapshot) => {
                number += 1;
                sender.send_replace((number, Some(Arc::new(snapshot))));
            }
            Err(error) => tracing::debug!(%error, "cannot read the store"),
        }
        tokio::select! {
            () = sleep(SNAPSHOT_EVERY) => {}
            () = live.closing.cancelled() => {}
        }
    }
}

/// Snapshots of everything, one per second. Each is complete, so a client that reconnects misses nothing.
pub(crate) fn of_all(live: &Arc<Live>, caller: Caller) -> Response<Body> {
    let (latest, closing) = (live.follow(), live.closing.clone());
    let snapshots =
        stream::unfold((latest, caller, closing, 0), async |(mut latest, caller, closing, sent)| {
            loop {
                let (number, snapshot) = latest.borrow_and_update().clone();
                if let Some(snapshot) = snapshot.filter(|_| number != sent) {
                    let data = serde_json::to_string(&snapshot.seen_by(&caller)).unwrap_or_default();
                    return Some((
                        Bytes::from(message(number, "snapshot", &data)),
                        (latest, caller, closing, number),
                    ));
                }
                tokio::select! {
                    changed = latest.changed() => changed.ok()?,
                    () = closing.cancelled() => return None,
                }
            }
        });
    response(snapshots.boxed())
}

/// A stream of one event.
struct One {
    /// Data of the event.
    data: BoxFuture<'static, String>,
    closing: CancellationToken,
    ping_at: Instant,
    end_at: Instant,
    has_ended: bool,
}

/// Streams one event, and ends. Without an event it ends after `longest`.
pub(crate) fn of_one(
    data: BoxFuture<'static, String>,
    closing: CancellationToken,
    longest: Duration,
) -> Response<Body> {
    let now = Instant::now();
    let one = One { data, closing, ping_at: now + PING_EVERY, end_at: now + longest, has_ended: false };
    response(stream::unfold(one, async |mut one| Some((one.next().await?, one))).boxed())
}

impl One {
    /// The next chunk to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        tokio::select! {
            data = &mut self.data => {
                self.has_ended = true;
                Some(message(1, "heard", &data).into())
            }
            () = sleep_until(self.ping_at) => {
                self.ping_at = Instant::now() + PING_EVERY;
                Some(Bytes::from_static(b": keep-alive\n\n"))
            }
            () = sleep_until(self.end_at) => None,
            () = self.closing.cancelled() => None,
        }
    }
}

/// One event. JSON contains no line breaks.
fn message(id: u64, name: &str, data: &str) -> String {
    format!("id: {id}\nevent: {name}\ndata: {data}\n\n")
}

fn response(events: BoxStream<'static, Bytes>) -> Response<Body> {
    let first = Bytes::from(format!("retry: {RETRY_MS}\n\n"));
    let events = stream::once(async { first }).chain(events);
    let mut response = Response::new(Body::streaming(events));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    response
}
