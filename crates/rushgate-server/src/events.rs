//! Server-sent events.

use std::fmt::Display;
use std::time::Duration;

use crate::body::Body;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, Stream, StreamExt};
use hyper::body::Bytes;
use hyper::http::{HeaderValue, Response, header};
use rushgate::queue::Followed;
use rushgate::sale::Event;
use rushgate::store::Page;
use rushgate::{CancellationToken, Error, Queue, Result, Sale};
use tokio::time::{sleep, timeout};

/// Media type of an event stream.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// Shortest time between two reads of a watched sale. Many events may happen within it.
const READ_MIN: Duration = Duration::from_millis(20);
/// Time until the next read if the store cannot notify.
const READ_AGAIN: Duration = Duration::from_millis(200);
/// Longest time between two reads, because a notification may be lost.
const READ_MAX: Duration = Duration::from_secs(2);
/// Interval of keep-alive comments, which detect clients that have left.
const PING_EVERY: Duration = Duration::from_secs(15);
const PING: &str = ": keep-alive\n\n";
/// Reconnect delay for clients, in milliseconds.
const RETRY_MS: u32 = 1_000;
/// Events per read.
const PAGE: u32 = 1_000;

/// The events of a sale with numbers greater than `after`, as they happen.
pub(crate) async fn of_sale(
    sale: Sale,
    after: Option<u64>,
    closing: CancellationToken,
) -> Result<Response<Body>> {
    let latest = sale.state().await?.seq;
    let parts = stream::unfold((sale, after.unwrap_or(latest)), async |(sale, after)| {
        loop {
            let events = sale.events(Page::after(after, PAGE)).await;
            let events = events.inspect_err(|error| unreadable(sale.id(), error)).ok()?;
            if let Some(last) = events.last() {
                return Some((events.iter().map(of_change).collect(), (sale, last.seq)));
            }
            let next = async {
                if sale.next_event(after).await.is_err() {
                    sleep(READ_AGAIN).await;
                }
            };
            let _ = timeout(READ_MAX, next).await;
            sleep(READ_MIN).await;
        }
    });
    Ok(stream(parts, closing))
}

/// The events of a queue with numbers greater than `after`, as they happen. The store sends notifications.
pub(crate) fn of_queue(queue: &Queue, after: Option<u64>, closing: CancellationToken) -> Response<Body> {
    let events = queue.follow();
    let events = if let Some(after) = after { events.after(after) } else { events };
    let parts = stream::unfold((queue.clone(), events), async |(queue, mut events)| {
        let part = match events.next().await.inspect_err(|error| unreadable(queue.name(), error)).ok()? {
            Followed::Event(event) => {
                // Names and numbers always serialize.
                let data = serde_json::to_string(&event).unwrap_or_default();
                let what = serde_json::to_value(&event.what).unwrap_or_default();
                message(event.seq, what["event"].as_str().unwrap_or_default(), &data)
            }
            Followed::Missed { next } => {
                message(next.saturating_sub(1), "missed", &format!("{{\"next\":{next}}}"))
            }
        };
        Some((part, (queue, events)))
    });
    stream(parts, closing)
}

/// Streams one event, and ends. Without an event it ends after `longest`.
pub(crate) fn of_one(
    data: impl Future<Output = String> + Send + 'static,
    closing: CancellationToken,
    longest: Duration,
) -> Response<Body> {
    let part = data.map(|data| message(1, "heard", &data));
    stream(stream::once(part).take_until(sleep(longest)), closing)
}

fn unreadable(of: impl Display, error: &Error) {
    tracing::debug!(%of, %error, "cannot read the events");
}

fn of_change(event: &Event) -> String {
    // Names and numbers always serialize.
    let data = serde_json::to_string(event).unwrap_or_default();
    let name = serde_json::to_value(event.kind).unwrap_or_default();
    message(event.seq, name.as_str().unwrap_or_default(), &data)
}

/// Streams the parts as they come, with keep-alive comments between them, until the server closes.
pub(crate) fn stream(
    parts: impl Stream<Item = String> + Send + 'static,
    closing: CancellationToken,
) -> Response<Body> {
    let parts = with_pings(parts.take_until(closing.cancelled_owned()), PING_EVERY);
    response(parts.map(Bytes::from).boxed())
}

/// Adds a comment whenever no part has come for this long.
fn with_pings(
    parts: impl Stream<Item = String> + Send + 'static,
    every: Duration,
) -> impl Stream<Item = String> + Send {
    stream::unfold(parts.boxed(), move |mut parts| async move {
        let part = timeout(every, parts.next()).await;
        Some((part.unwrap_or_else(|_| Some(PING.to_owned()))?, parts))
    })
}

/// One event. JSON contains no line breaks.
pub(crate) fn message(id: u64, name: &str, data: &str) -> String {
    format!("id: {id}\nevent: {name}\ndata: {data}\n\n")
}

fn response(events: BoxStream<'static, Bytes>) -> Response<Body> {
    let first = Bytes::from(format!("retry: {RETRY_MS}\n\n"));
    let events = stream::once(async { first }).chain(events);
    let mut response = Response::new(Body::streaming(events));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    response
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_part_that_takes_long_comes_after_keep_alives() {
        let (send, sent) = oneshot::channel();
        let parts = stream::once(async { sent.await.unwrap() });
        let mut parts = pin!(with_pings(parts, Duration::from_millis(1)));
        assert_eq!(parts.next().await.unwrap(), PING);
        assert_eq!(parts.next().await.unwrap(), PING);
        send.send("sold".to_owned()).unwrap();
        let mut rest = parts.skip_while(|part| std::future::ready(part == PING));
        assert_eq!(rest.next().await.unwrap(), "sold");
        assert_eq!(rest.next().await, None);
    }

    #[tokio::test]
    async fn a_stream_ends_when_the_server_closes() {
        let closing = CancellationToken::new();
        closing.cancel();
        let frames = http_body_util::BodyExt::collect(stream(stream::pending(), closing).into_body());
        assert_eq!(frames.await.unwrap().to_bytes(), "retry: 1000\n\n");
    }
}
