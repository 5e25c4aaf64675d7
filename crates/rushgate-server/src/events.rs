//! Server-sent events. One task per watched sale serves any number of watchers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::body::Body;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use hyper::body::Bytes;
use hyper::http::{HeaderValue, Response, header};
use rushgate::queue::{Followed, Follower, TaskChange};
use rushgate::sale::{Event, SaleId};
use rushgate::store::Page;
use rushgate::{CancellationToken, Queue, Result, Sale};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

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
pub(crate) fn message(id: u64, name: &str, data: &str) -> String {
    format!("id: {id}\nevent: {name}\ndata: {data}\n\n")
}

pub(crate) fn response(events: BoxStream<'static, Bytes>) -> Response<Body> {
    let first = Bytes::from(format!("retry: {RETRY_MS}\n\n"));
    let events = stream::once(async { first }).chain(events);
    let mut response = Response::new(Body::streaming(events));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    response
}
