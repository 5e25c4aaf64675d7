//! Requests to the server, and what its answers mean.

use std::sync::Mutex;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rushgate_core::{Effect, Error, IdempotencyKey, Notification, Result, Topic, with_causes};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::heard::Lines;
use crate::url::Address;

/// How long a request is repeated that the server refuses for the moment.
const RETRY_BUDGET: Duration = Duration::from_secs(5);
/// Time limit of a connection attempt. A server that is up accepts within a round trip or two.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Pause before such a repeat, if the server does not name one.
const PAUSE: Duration = Duration::from_secs(1);
/// Time limit of one exchange. The server's store gives up earlier.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Time limit of a part of a stream. The server sends one every 15 seconds.
const PART_WITHIN: Duration = Duration::from_secs(45);
/// How long an unused connection is kept. A server closes it after 10 s, and a request at that moment would be lost.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// Largest answer, in bytes.
const ANSWER_MAX: usize = 512 << 20;
/// Response header with the incarnation of the server's store.
const INCARNATION: &str = "rushgate-incarnation";

/// Opens connections to HTTP servers.
pub type Connector = HttpsConnector<HttpConnector>;

/// A pool of connections to HTTP servers.
pub type Connections = Client<Connector, Full<Bytes>>;

/// Connections to one server.
pub(crate) struct Api {
    connector: Connector,
    connections: Connections,
    address: Address,
    incarnation: Mutex<String>,
}

/// A refusal.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    code: String,
    detail: String,
    hint: Option<String>,
}

impl Api {
    pub(crate) fn new(address: Address) -> Result<Self> {
        let connector = connector(address.base.starts_with("https:"))?;
        Ok(Self::with(connector, address))
    }

    fn with(connector: Connector, address: Address) -> Self {
        let connections = connections(connector.clone());
        Self { connector, connections, address, incarnation: Mutex::default() }
    }

    /// The same with a connection pool of its own.
    pub(crate) fn another(&self) -> Self {
        Self::with(self.connector.clone(), self.address.clone())
    }

    /// URL of the server, without the token.
    pub(crate) fn base(&self) -> &str {
        &self.address.base
    }

    /// Whether the token travels without encryption to another machine.
    pub(crate) fn is_exposed(&self) -> bool {
        self.address.is_exposed()
    }

    /// The incarnation of the server's store at the latest answer.
    pub(crate) fn incarnation(&self) -> String {
        self.incarnation.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Sends a request, again while the server refuses it for the moment, and returns the JSON of its answer.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Bytes, effect: Effect) -> Result<Value> {
        let until = Instant::now() + RETRY_BUDGET;
        // Whether an earlier answer left the outcome open. A later refusal does not close it.
        let mut maybe_happened = false;
        let failed = |error: Error, maybe_happened| match effect {
            // A request that changes nothing cannot have taken effect.
            Effect::Read => error.of_a_look(),
            _ if maybe_happened => error.maybe_happened(),
            _ => error,
        };
        loop {
            let answer = timeout(ANSWER_WITHIN, self.exchange(&method, path, None, &body)).await;
            let answer = answer.unwrap_or_else(|_| {
                let seconds = ANSWER_WITHIN.as_secs();
                Err(self.unknown(format_args!("did not answer within {seconds} s")))
            });
            let (status, headers, bytes) = answer.map_err(|error| failed(error, maybe_happened))?;
            if status.is_success() {
                self.note_incarnation(&headers);
                let unreadable = |_| failed(self.unknown("answered with something else than JSON"), true);
                return serde_json::from_slice(&bytes).map_err(unreadable);
            }
            let problem: Problem = serde_json::from_slice(&bytes).unwrap_or_default();
            let (is_passing, pause) = (is_passing(status, &problem, effect), pause(&headers));
            let refusal = self.refusal(status, problem);
            maybe_happened |= refusal.may_have_happened();
            if !is_passing || Instant::now() + pause >= until {
                return Err(failed(refusal, maybe_happened));
            }
            tracing::debug!(
                path,
                status = status.as_u16(),
                ?pause,
                "the server refuses a request for the moment"
            );
            sleep(pause).await;
        }
    }

    /// Waits for a notification, which changes nothing. `opening` is dropped when the server listens.
    pub(crate) async fn listen(
        &self,
        topic: &Topic,
        opening: watch::Sender<()>,
    ) -> Result<Option<Notification>> {
        self.heard(topic, opening).await.map_err(Error::of_a_look)
    }

    async fn heard(&self, topic: &Topic, opening: watch::Sender<()>) -> Result<Option<Notification>> {
        let body = Bytes::from(topic.to_wire().to_string());
        let opened = timeout(ANSWER_WITHIN, self.send(&Method::POST, "/v1/store/listen", None, &body)).await;
        let response =
            opened.unwrap_or_else(|_| Err(Error::unavailable("no stream of notifications came")))?;
        drop(opening);
        let status = response.status();
        let mut stream = response.into_body();
        if !status.is_success() {
            let bytes = Limited::new(stream, ANSWER_MAX).collect().await.map(|body| body.to_bytes());
            let problem = serde_json::from_slice(&bytes.unwrap_or_default()).unwrap_or_default();
            return Err(self.refusal(status, problem));
        }
        let mut lines = Lines::default();
        loop {
            let Ok(part) = timeout(PART_WITHIN, stream.frame()).await else {
                return Err(Error::unavailable("the stream of notifications is silent"));
            };
            match part {
                Some(Ok(part)) => {
                    if let Some(heard) = part.data_ref().map(|data| lines.add(data)).transpose()?.flatten() {
                        return Ok(heard);
                    }
                }
                Some(Err(error)) => return Err(Error::unavailable(with_causes(&error))),
                // The server ends a stream after its longest wait. The waiter asks the store, and listens again.
                None => return Ok(matches!(topic, Topic::Token(_)).then_some(Notification::Ask)),
            }
        }
    }

    /// Sends a request, perhaps with an idempotency key, and returns the complete answer.
    pub(crate) async fn exchange(
        &self,
        method: &Method,
        path: &str,
        key: Option<&IdempotencyKey>,
        body: &Bytes,
    ) -> Result<(StatusCode, HeaderMap, Bytes)> {
        let (head, body) = self.send(method, path, key, body).await?.into_parts();
        let whole = Limited::new(body, ANSWER_MAX).collect().await;
        let whole = whole.map_err(|error| Error::unavailable(with_causes(&*error)).maybe_happened())?;
        Ok((head.status, head.headers, whole.to_bytes()))
    }

    async fn send(
        &self,
        method: &Method,
        path: &str,
        key: Option<&IdempotencyKey>,
        body: &Bytes,
    ) -> Result<Response<Incoming>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.address.base))
            .header(USER_AGENT, concat!("rushgate/", env!("CARGO_PKG_VERSION")));
        if let Some(bearer) = &self.address.bearer {
            request = request.header(AUTHORIZATION, bearer.clone());
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key.as_str());
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::from(body.clone()));
        let request = request.map_err(|error| Error::bug("cannot build a request").caused_by(error))?;
        self.connections.request(request).await.map_err(|error| self.unreachable(error))
    }

    fn unreachable(&self, error: ClientError) -> Error {
        let was_sent = !error.is_connect();
        let fault = Error::unavailable(format_args!("cannot reach {}: {}", self.base(), with_causes(&error)));
        let hint = match self.base().starts_with("https:") {
            true => {
                "check the address, and that this machine trusts the CA of its certificate (SSL_CERT_FILE)"
            }
            false => "check the address, and that `rushgate serve` runs there",
        };
        let fault = fault.hint(hint).caused_by(error);
        if was_sent { fault.maybe_happened() } else { fault }
    }

    fn unknown(&self, why: impl std::fmt::Display) -> Error {
        Error::unavailable(format_args!("{} {why}", self.base())).maybe_happened()
    }

    fn refusal(&self, status: StatusCode, problem: Problem) -> Error {
        let Problem { code, detail, hint } = problem;
        let base = self.base();
        let error = match (status.as_u16(), code.as_str()) {
            (401, _) => Error::forbidden(format_args!("{base} requires a valid API token"))
                .hint("set RUSHGATE_TOKEN to a token from `rushgate token create`"),
            (403, "forbidden") => Error::forbidden(detail)
                .hint("use a token with a higher role or more scopes: `rushgate token create` makes one"),
            (404, "") => self.no_store_api(),
            (_, "no_tokens") => Error::misconfigured(detail).hint("start the server with --tokens"),
            (413, _) => Error::invalid("the request", "is too large for the server: its limit is 8 MiB")
                .hint("send fewer or smaller tasks in one call"),
            (421, _) => Error::misconfigured(detail)
                .hint("start the server with --tokens, or name the host with --host"),
            // A proxy in between answered. It may have passed the request on.
            (502..=504, "") => {
                Error::unavailable(format_args!("{base} answered with status {}", status.as_u16()))
                    .maybe_happened()
            }
            (_, "") => Error::misconfigured(format_args!("{base} answered with status {}", status.as_u16()))
                .hint("check that the URL is that of a Rushgate server"),
            (400, _) => Error::misconfigured(format_args!("{base} cannot read the request: {detail}"))
                .hint("use the same version of Rushgate on both sides"),
            (_, code) => Error::reported(code, detail),
        };
        match hint {
            Some(hint) if error.hint_text().is_none() => error.hint(hint),
            _ => error,
        }
    }

    /// The error for a server without the store API.
    pub(crate) fn no_store_api(&self) -> Error {
        Error::misconfigured(format_args!("{} has no store API", self.base()))
            .hint("check the URL, and that the server is as new as this program")
    }

    fn note_incarnation(&self, headers: &HeaderMap) {
        let Some(now) = headers.get(INCARNATION).and_then(|value| value.to_str().ok()) else { return };
        let mut known = self.incarnation.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *known != now {
            now.clone_into(&mut known);
        }
    }
}

/// Whether to send the request again.
fn is_passing(status: StatusCode, problem: &Problem, effect: Effect) -> bool {
    match problem.code.as_str() {
        "too_many" | "unavailable" | "closing" => true,
        "outcome_unknown" => effect != Effect::Write,
        "" => matches!(status.as_u16(), 502..=504) && effect != Effect::Write,
        _ => false,
    }
}

fn pause(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    seconds.map_or(PAUSE, Duration::from_secs)
}

/// A connector, which gives up after 5 s. With `is_https` it verifies servers against the root certificates of the
/// system.
///
/// # Errors
/// [`is_misconfigured`](Error::is_misconfigured) if `is_https` and the system has no root certificates.
pub fn connector(is_https: bool) -> Result<Connector> {
    let mut http = HttpConnector::new();
    // Requests are small: send each at once.
    http.set_nodelay(true);
    http.set_connect_timeout(Some(CONNECT_WITHIN));
    http.enforce_http(false);
    let https = match is_https {
        true => HttpsConnectorBuilder::new().with_native_roots().map_err(|error| {
            Error::misconfigured("the system has no root certificates")
                .caused_by(error)
                .hint("install the package ca-certificates, or set SSL_CERT_FILE")
        })?,
        false => {
            let roots = rustls::RootCertStore::empty();
            let config = rustls::ClientConfig::builder().with_root_certificates(roots);
            HttpsConnectorBuilder::new().with_tls_config(config.with_no_client_auth())
        }
    };
    Ok(https.https_or_http().enable_http1().wrap_connector(http))
}

/// A new pool of connections.
pub fn connections(connector: Connector) -> Connections {
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_MAX)
        .pool_timer(TokioTimer::new())
        .build(connector)
}
