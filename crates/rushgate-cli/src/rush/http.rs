//! HTTP connections of simulated buyers, to the routes that shop pages use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use hyper::header::RETRY_AFTER;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rushgate::sale::{ReservationId, SaleId};
use rushgate::{BuyerId, CancellationToken, IdempotencyKey, Line};
use rushgate_http::Client;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::connection::{Answer, Choice, Connection, Decided};
use super::retry::OUTAGE_MAX;
use super::tally::Told;

/// Time limit for an answer. Generous, because the server's store may be unreachable for a while.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Default pause after a request without an answer.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest pause that a buyer waits for.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A connection to a sale of a server.
#[derive(Clone)]
pub(super) struct Http {
    /// Its own pool. Concurrent requests take a TCP connection each.
    client: Arc<Client>,
    shared: Arc<Shared>,
}

/// State shared by all connections.
struct Shared {
    /// Path of the sale's reservations.
    reservations: String,
    asked_again: AtomicU64,
    stop: CancellationToken,
}

/// A response with its JSON.
struct Response {
    status: u16,
    body: Value,
    /// When to retry, from `Retry-After`.
    retry_after: Option<Duration>,
}

/// Path of a sale, with its name percent-encoded.
pub(super) fn sale_path(sale: &SaleId) -> String {
    const PLAIN: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');
    format!("/v1/sales/{}", utf8_percent_encode(sale.as_str(), PLAIN))
}

impl Http {
    /// A connection to a sale. Once `stop` is canceled, requests are not repeated.
    pub(super) fn new(client: Client, sale: &SaleId, stop: CancellationToken) -> Self {
        let reservations = format!("{}/reservations", sale_path(sale));
        let shared = Shared { reservations, asked_again: AtomicU64::new(0), stop };
        Self { client: Arc::new(client), shared: Arc::new(shared) }
    }

    /// Number of requests that were repeated because the server or its store was unavailable.
    pub(super) fn asked_again(&self) -> u64 {
        self.shared.asked_again.load(Ordering::Relaxed)
    }

    /// Sends a request, and retries while the server or its store is unavailable. Also returns the duration of
    /// the last request alone.
    async fn post(
        &self,
        path: &str,
        key: Option<&IdempotencyKey>,
        body: &Value,
    ) -> (Result<Response, String>, Duration) {
        let (start, body) = (Instant::now(), Bytes::from(body.to_string()));
        loop {
            let sent = Instant::now();
            let response = timeout(ANSWER_WITHIN, self.exchange(path, key, &body)).await;
            let late = |_| Err(format!("no response within {} s", ANSWER_WITHIN.as_secs()));
            let (why, pause) = match response.unwrap_or_else(late) {
                Ok(response) if response.is_passing() => {
                    let pause = response.retry_after.unwrap_or(PAUSE).min(PAUSE_MAX);
                    (response.code().to_owned(), pause)
                }
                Ok(response) => return (Ok(response), sent.elapsed()),
                Err(why) => (why, PAUSE),
            };
            if start.elapsed() >= OUTAGE_MAX || self.shared.stop.is_cancelled() {
                return (Err(why), sent.elapsed());
            }
            self.shared.asked_again.fetch_add(1, Ordering::Relaxed);
            sleep(pause).await;
        }
    }

    /// Sends one request. If no readable response comes, it may have taken effect.
    async fn exchange(
        &self,
        path: &str,
        key: Option<&IdempotencyKey>,
        body: &Bytes,
    ) -> Result<Response, String> {
        let path = format!("{}{path}", self.shared.reservations);
        let answer = self.client.try_post(&path, key, body).await;
        let (status, headers, body) = answer.map_err(|error| error.to_string())?;
        let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let status = status.as_u16();
        let body = serde_json::from_slice(&body)
            .map_err(|_| format!("the response with status {status} is not JSON"))?;
        Ok(Response { status, body, retry_after: seconds.map(Duration::from_secs) })
    }
}

impl Connection for Http {
    /// Buyers arrive on schedule, so none waits for those before.
    const STRETCH: u64 = 1;
    const COME_BACK: Duration = Duration::from_millis(250);

    fn another(&self) -> Self {
        Self { client: Arc::new(self.client.another()), shared: Arc::clone(&self.shared) }
    }

    async fn click(&self, buyer: &BuyerId, line: &Line, key: &IdempotencyKey) -> (Answer, Duration) {
        let (response, took) = self.post("", Some(key), &json!({ "buyer": buyer, "lines": [line] })).await;
        (response.map_or_else(Answer::Failed, Answer::from), took)
    }

    async fn decide(&self, id: ReservationId, choice: Choice) -> Decided {
        let verb = match choice {
            Choice::Confirm => "confirm",
            Choice::Cancel => "cancel",
        };
        let (response, _) = self.post(&format!("/{id}/{verb}"), None, &json!({})).await;
        response.map_or(Decided::NoAnswer, Decided::from)
    }
}

impl Response {
    /// Code of a problem.
    fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or("unknown")
    }

    /// True if the server or its store is unavailable for the moment. A sale may be halted for longer.
    fn is_passing(&self) -> bool {
        matches!(self.status, 429 | 502..=504 | 507) && self.code() != "sale_halted"
    }
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        let told = match (response.status, response.code()) {
            (202, _) => {
                let hold = serde_json::from_value(response.body);
                return hold.map_or_else(|error| Self::Failed(error.to_string()), Self::Reserved);
            }
            (200, _) => Told::Replayed,
            (_, "all_held") => Told::AllHeld,
            (_, "sold_out") => Told::SoldOut,
            (_, "limit_reached") => Told::LimitReached,
            (_, "idempotency_key_reused") => Told::KeyReused,
            (_, "sale_not_open") => Told::NotOpen,
            (_, "sale_ended") => Told::Ended,
            (_, "sale_halted") => Told::Halted,
            (status, code) => return Self::Failed(format!("{code} ({status}): {}", response.body["detail"])),
        };
        Self::Told(told)
    }
}

impl From<Response> for Decided {
    fn from(response: Response) -> Self {
        match (response.status, response.code()) {
            (200 | 202, _) => Self::Done,
            (404, _) => Self::Unknown,
            (_, "decided") => Self::Refused,
            (_, "sale_halted") => Self::Halted,
            _ => Self::NoAnswer,
        }
    }
}
