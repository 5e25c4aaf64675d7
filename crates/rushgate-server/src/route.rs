//! One row of the table of routes, and the steps of a request: limits, authentication, idempotency key, verb,
//! answer.

use std::any::TypeId;
use std::future::ready;
use std::net::IpAddr;
use std::ops::Deref;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header};
use rushgate::trace;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::access::{Authenticator, Caller, Role};
use crate::app::App;
use crate::audit_log::{Action, Record};
use crate::body::{Body, keeping, until};
use crate::call::{self, Call, Nothing, PathParams, Visitor};
use crate::check;
use crate::conditional::{self, IfNoneMatch};
use crate::events::EVENT_STREAM;
use crate::keys::{Begun, KeyName, Remembered};
use crate::limits::Peer;
use crate::problem::{Code, Problem};
use crate::reply::Answer;
use crate::scope::Kind;

/// Default limit of a request body, in bytes.
const BODY_MAX: usize = 64 << 10;

/// How soon a stream ends after its token was revoked.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Header of every answer that acknowledges a write: what the write survives.
const DURABILITY: HeaderName = HeaderName::from_static("rushgate-durability");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// Codes that any route may answer with.
pub(crate) const COMMON: &[Code] = &[
    Code::BadRequest,
    Code::BadPath,
    Code::MalformedJson,
    Code::UnknownField,
    Code::IdempotencyKeyInvalid,
    Code::Unauthorized,
    Code::Forbidden,
    Code::BadOrigin,
    Code::RequestTimeout,
    Code::PayloadTooLarge,
    Code::UriTooLong,
    Code::UnsupportedMediaType,
    Code::Misdirected,
    Code::Invalid,
    Code::TooMany,
    Code::HeadersTooLarge,
    Code::Bug,
    Code::Misconfigured,
    Code::Corrupt,
    Code::Unavailable,
    Code::OutcomeUnknown,
    Code::Closing,
    Code::Full,
];

/// Use of `Idempotency-Key` by a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyUse {
    /// None: the request names its subject and is safe to repeat.
    None,
    /// This process caches the answer for ten minutes.
    Answers,
    /// The same; the key is required.
    AnswersRequired,
    /// The key and the body make the lock's token, which the store knows for every process.
    Token,
    /// The key of a buyer's attempt; required. The store knows it for every process. Keys are per buyer, not
    /// per sender.
    Buyer,
}

impl KeyUse {
    pub fn is_required(self) -> bool {
        matches!(self, Self::AnswersRequired | Self::Buyer)
    }

    fn remembers(self) -> bool {
        matches!(self, Self::Answers | Self::AnswersRequired)
    }
}

/// Returns the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

type Work = Arc<
    dyn Fn(Call<Bytes, Uri>) -> Pin<Box<dyn Future<Output = Result<Response<Body>, Problem>> + Send>>
        + Send
        + Sync,
>;

/// One row of the table of routes.
pub(crate) struct Route {
    row: Row,
    pub body: Option<SchemaOf>,
    pub query: Option<SchemaOf>,
    pub answer: SchemaOf,
    /// Media type of the answer.
    pub media: &'static str,
    work: Work,
}

impl Deref for Route {
    type Target = Row;

    fn deref(&self) -> &Row {
        &self.row
    }
}

/// A row without its verb.
pub(crate) struct Row {
    pub method: Method,
    pub path: &'static str,
    /// Name of the operation in every layer; also its `operationId`.
    pub verb: &'static str,
    /// Description in one sentence.
    pub says: &'static str,
    /// Required role; `None` if public.
    pub needs: Option<Role>,
    /// Kind of the resource in the path, to which scopes apply.
    pub kind: Option<Kind>,
    pub key: KeyUse,
    /// Whether `Prefer: wait` has an effect.
    pub waits: bool,
    /// Whether the bot check may apply.
    pub proves: bool,
    /// Whether answers are counted per sale.
    pub counts: bool,
    /// Fields that an `ETag` ignores; `None` if the answer has no tag.
    pub tagged: Option<&'static [&'static str]>,
    pub body_max: usize,
    /// Status codes of success.
    pub succeeds: &'static [u16],
    /// Problem codes of this route, in addition to the common ones.
    pub refuses: &'static [Code],
    /// Whether a request is an action of an operator, if the route has others too.
    acts: Option<fn(&PathParams) -> bool>,
}

/// Starts a row: `row(Method::GET, "/v1/queues/{queue}", "stats", "…")`. Default role: operator.
pub(crate) fn row(method: Method, path: &'static str, verb: &'static str, says: &'static str) -> Row {
    Row {
        method,
        path,
        verb,
        says,
        needs: Some(Role::Operator),
        kind: kind_of(path),
        key: KeyUse::None,
        waits: false,
        proves: false,
        counts: false,
        tagged: None,
        body_max: BODY_MAX,
        succeeds: &[200],
        refuses: &[],
        acts: None,
    }
}

impl Row {
    pub fn needs(self, role: Role) -> Self {
        Self { needs: Some(role), ..self }
    }

    pub fn for_anybody(self) -> Self {
        Self { needs: None, ..self }
    }

    pub fn key(self, key: KeyUse) -> Self {
        Self { key, ..self }
    }

    pub fn waits(self) -> Self {
        Self { waits: true, ..self }
    }

    /// Applies the bot check.
    pub fn proves(self) -> Self {
        Self { proves: true, ..self }
    }

    /// Counts each answer for its sale, as an attempt to reserve.
    pub fn counts(self) -> Self {
        Self { counts: true, ..self }
    }

    /// Adds an `ETag`; `passing` names the fields that change with time alone.
    pub fn tagged(self, passing: &'static [&'static str]) -> Self {
        Self { tagged: Some(passing), ..self }
    }

    pub fn body_max(self, body_max: usize) -> Self {
        Self { body_max, ..self }
    }

    pub fn succeeds(self, succeeds: &'static [u16]) -> Self {
        Self { succeeds, ..self }
    }

    pub fn refuses(self, refuses: &'static [Code]) -> Self {
        Self { refuses, ..self }
    }

    /// Which requests are actions of operators, for the audit log.
    pub fn acts(self, acts: fn(&PathParams) -> bool) -> Self {
        Self { acts: Some(acts), ..self }
    }

    /// Completes the row with its verb.
    pub fn work<B, Q, T, F, Fut>(self, verb: F) -> Route
    where
        B: DeserializeOwned + JsonSchema + Send + 'static,
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        T: Serialize + JsonSchema,
        F: Fn(Call<B, Q>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Answer<T>> + Send + 'static,
    {
        self.write::<B, Q, T, _, _, _>("application/json", verb)
    }

    /// Completes the row with a verb that writes an answer of another media type: text, or a stream of `T`s.
    pub fn write<B, Q, T, R, F, Fut>(self, media: &'static str, verb: F) -> Route
    where
        B: DeserializeOwned + JsonSchema + Send + 'static,
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        T: JsonSchema,
        R: Into<Response<Body>>,
        F: Fn(Call<B, Q>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Problem>> + Send + 'static,
    {
        let work: Work = Arc::new(move |call: Call<Bytes, Uri>| match call.parsed() {
            Ok(call) => Box::pin(verb(call).map(|answer| answer.map(Into::into))),
            Err(problem) => Box::pin(ready(Err(problem))),
        });
        Route {
            row: self,
            body: schema_of::<B>(),
            query: schema_of::<Q>(),
            answer: |generator| generator.subschema_for::<T>(),
            media,
            work,
        }
    }
}

fn schema_of<T: JsonSchema + 'static>() -> Option<SchemaOf> {
    if TypeId::of::<T>() == TypeId::of::<Nothing>() {
        return None;
    }
    Some(|generator| generator.subschema_for::<T>())
}

fn kind_of(path: &str) -> Option<Kind> {
    let kinds = [Kind::Lock, Kind::Queue, Kind::Sale];
    kinds.into_iter().find(|kind| path.contains(&format!("{{{}}}", kind.word())))
}

impl Route {
    /// Answers a request. Problems are those of this route or the common ones.
    pub async fn answer(
        &self,
        app: &Arc<App>,
        path: PathParams,
        peer: Peer,
        head: Parts,
        body: &mut Incoming,
    ) -> Response<Body> {
        let began = Instant::now();
        let span = self.span(&head.headers);
        let sale = self.counts.then(|| path.get(Kind::Sale.word()).to_owned());
        // Pinned here: the future is large, and each layer would move it.
        let carried_out = pin!(self.carry_out(app, path, peer, head, body));
        let answered = AssertUnwindSafe(carried_out.instrument(span.clone())).catch_unwind().await;
        let answered = answered.unwrap_or_else(|_| {
            tracing::error!(verb = self.verb, "a request handler panicked");
            Err(Problem::plain(Code::Bug))
        });
        let took = began.elapsed();
        if let Some(sale) = sale {
            let (answer, is_sale) = self.attempt(&answered);
            app.metrics.attempts.answered(&sale, answer, is_sale, took);
        }
        let response = match answered {
            Ok(mut response) => {
                debug_assert!(
                    self.succeeds.contains(&response.status().as_u16()) || !response.status().is_success()
                );
                if response.status().is_success() && self.method != Method::GET {
                    let class = app.client.info().durability.name();
                    response.headers_mut().insert(DURABILITY, HeaderValue::from_static(class));
                }
                response
            }
            Err(problem) => {
                let problem = if self.method == Method::GET { problem.of_a_look() } else { problem };
                let code = problem.code();
                debug_assert!(self.may_refuse(code), "{} {} does not list {code:?}", self.method, self.path);
                problem.into_response()
            }
        };
        let status = response.status();
        span.record("http.response.status_code", status.as_u16());
        if status.is_server_error() {
            span.record("otel.status_code", "ERROR");
        }
        app.metrics.answered(self.method_word(), self.path, status.as_u16(), took);
        response
    }

    /// Answer to an attempt to reserve, and whether it proves that the sale exists.
    fn attempt(&self, answered: &Result<Response<Body>, Problem>) -> (&'static str, bool) {
        match answered {
            Ok(response) if response.status() == StatusCode::ACCEPTED => ("reserved", true),
            Ok(_) => ("replayed", true),
            Err(problem) => {
                let code = problem.code();
                (code.word(), code != Code::NotFound && self.refuses.contains(&code))
            }
        }
    }

    /// The span of a request, a child of the client's `traceparent` if it sent one.
    fn span(&self, headers: &HeaderMap) -> Span {
        let (method, path) = (self.method_word(), self.path);
        let span = tracing::info_span!(
            "request",
            otel.name = format_args!("{method} {path}"),
            otel.kind = "server",
            otel.status_code = Empty,
            http.request.method = method,
            http.route = path,
            http.response.status_code = Empty,
        );
        let parent = headers.get("traceparent").and_then(|parent| parent.to_str().ok());
        if let Some(parent) = parent.and_then(|parent| parent.parse().ok()) {
            trace::continue_from(&span, &parent);
        }
        span
    }

    /// The method as a static string, for labels.
    fn method_word(&self) -> &'static str {
        match self.method {
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::DELETE => "DELETE",
            _ => "GET",
        }
    }

    /// Whether the table lists this code for the route.
    pub fn may_refuse(&self, code: Code) -> bool {
        let of_keys = match self.key {
            KeyUse::None => &[][..],
            KeyUse::Buyer => &[Code::IdempotencyKeyMissing, Code::IdempotencyKeyReused],
            _ => &[Code::IdempotencyKeyMissing, Code::IdempotencyKeyReused, Code::IdempotencyInFlight],
        };
        COMMON.contains(&code) || self.refuses.contains(&code) || of_keys.contains(&code)
    }

    async fn carry_out(
        &self,
        app: &Arc<App>,
        path: PathParams,
        peer: Peer,
        Parts { uri, headers, .. }: Parts,
        body: &mut Incoming,
    ) -> Result<Response<Body>, Problem> {
        check_sender(app, &self.method, peer, &uri, &headers)?;
        let caller = self.admit(app, &path, &headers)?;
        if self.needs.is_some() {
            app.limits.check(&caller, peer, &headers)?;
        }
        let key = self.key_of(&headers)?;
        let bytes = call::bytes(&headers, body, self.body_max, app.arrival).await?;
        let turn = match self.begin(app, &caller, &uri, key.as_deref(), &bytes)? {
            Some(Begun::Before(answer)) => return Ok(again(answer)),
            Some(Begun::New(turn)) => Some(turn),
            None => None,
        };
        let asked = call::wait(&headers).filter(|_| self.waits);
        let wait = asked.unwrap_or_default().min(app.longest_wait);
        let seen = call::seen(&headers);
        let address = app.limits.origin(peer, &headers);
        let action = self.action(app, &caller, &path, address, &uri, &bytes);
        let visitor = Visitor { address, proof: check::proof(&headers) };
        let known = self.tagged.map(|passing| (passing, IfNoneMatch::of(&headers)));
        let bearer = (self.media == EVENT_STREAM).then(|| bearer(&headers).map(Box::from));
        // Headers keep the buffer that they were read into, and the verb may wait long.
        drop(headers);
        let call =
            Call { app: Arc::clone(app), caller, path, query: uri, body: bytes, key, wait, seen, visitor };
        let answer = (self.work)(call).await;
        if let Some(action) = action {
            action.end(&answer);
        }
        let mut response = answer?;
        if let Some(bearer) = bearer {
            response = response.map(|body| until(body, let_in_no_more(Arc::clone(app), bearer)));
        }
        if let Some((passing, known)) = known {
            response = conditional::unless_known(response, passing, &known).await;
        }
        if asked.is_some() {
            let applied = HeaderValue::from_str(&format!("wait={}", wait.as_secs()));
            response.headers_mut().extend(applied.ok().map(|applied| (PREFERENCE_APPLIED, applied)));
        }
        match turn {
            Some(turn) if self.key.remembers() => {
                let (response, answer) = copied(response).await;
                turn.remember(answer);
                Ok(response)
            }
            // If the lock does not reach its client, it is released. A retry must wait for that, so the key
            // is bound until then.
            Some(turn) => Ok(response.map(|body| keeping(body, turn.bind()))),
            None => Ok(response),
        }
    }

    /// Entry for the audit log, if the request requires an operator and may change something.
    fn action(
        &self,
        app: &App,
        caller: &Caller,
        path: &PathParams,
        address: IpAddr,
        uri: &Uri,
        bytes: &Bytes,
    ) -> Option<Action> {
        let is_action = match self.acts {
            Some(acts) => acts(path),
            None => self.needs == Some(Role::Operator) && self.method != Method::GET,
        };
        if !is_action {
            return None;
        }
        let record =
            Record::now(caller.id.clone(), address, self.verb, self.method_word(), uri.path().to_owned());
        Some(Action::begin(app.audit_log.clone(), record, bytes.clone()))
    }

    fn admit(&self, app: &App, path: &PathParams, headers: &HeaderMap) -> Result<Caller, Problem> {
        let Some(least) = self.needs else { return Ok(Caller::nobody()) };
        let caller =
            app.authenticator.caller(bearer(headers)).ok_or_else(|| Problem::plain(Code::Unauthorized))?;
        if caller.role < least {
            let detail = format_args!(
                "this route requires the role {}; the token has {}",
                least.word(),
                caller.role.word()
            );
            return Err(Problem::new(Code::Forbidden, detail));
        }
        match self.kind {
            Some(kind) if !caller.may(kind, path.get(kind.word())) => {
                let detail = format_args!("the token's scopes do not cover this {}", kind.word());
                Err(Problem::new(Code::Forbidden, detail))
            }
            _ => Ok(caller),
        }
    }

    fn key_of(&self, headers: &HeaderMap) -> Result<Option<String>, Problem> {
        let key = call::key(headers)?.filter(|_| self.key != KeyUse::None);
        if key.is_none() && self.key.is_required() {
            return Err(Problem::plain(Code::IdempotencyKeyMissing));
        }
        Ok(key)
    }

    /// Two requests with one key never run concurrently: dropping the first would undo the second. Reservations are
    /// never undone, and the store itself handles their key.
    fn begin(
        &self,
        app: &App,
        caller: &Caller,
        uri: &Uri,
        key: Option<&str>,
        bytes: &[u8],
    ) -> Result<Option<Begun>, Problem> {
        let Some(key) = key.filter(|_| self.key != KeyUse::Buyer) else { return Ok(None) };
        let name = KeyName {
            caller: caller.id.clone(),
            request: format!("{} {}", self.method, uri.path()),
            key: key.to_owned(),
        };
        app.keys.begin(name, Sha256::digest(bytes).into()).map(Some)
    }
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes)
}

/// Completes when the token of a stream is revoked or has expired.
async fn let_in_no_more(app: Arc<App>, bearer: Option<Box<[u8]>>) {
    while app.authenticator.caller(bearer.as_deref()).is_some() {
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
    }
}

/// Returns a cached answer.
fn again(answer: Remembered) -> Response<Body> {
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
    response
}

async fn copied(response: Response<Body>) -> (Response<Body>, Remembered) {
    let (head, body) = response.into_parts();
    let body = body.whole().await;
    let answer = Remembered { status: head.status, headers: head.headers.clone(), body: body.clone() };
    (Response::from_parts(head, Body::from(body)), answer)
}

/// Refuses cross-site requests that a browser sends for another page.
///
/// Without tokens, any web page in a browser on this machine could use a host name that resolves to this
/// server (DNS rebinding). So only the server's own host names are accepted. A page of another origin may not
/// write in any case, unless its origin is allowed.
fn check_sender(
    app: &App,
    method: &Method,
    peer: Peer,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let text = |name| headers.get(name).map(|value: &HeaderValue| value.to_str().unwrap_or("?"));
    let host = text(header::HOST).or_else(|| uri.authority().map(|authority| authority.as_str()));
    if matches!(app.authenticator, Authenticator::Open) && !host.is_some_and(|host| is_ours(app, host)) {
        return Err(Problem::plain(Code::Misdirected));
    }
    let is_foreign = match text(header::ORIGIN) {
        Some(origin) => {
            let is_own = origin.split_once("://").is_some_and(|(scheme, authority)| {
                Some(authority) == host && is_own_scheme(app, scheme, app.limits.scheme(peer, headers))
            });
            !is_own && !app.origins.allow(origin)
        }
        // Some requests of pages have no `Origin`. `Sec-Fetch-Site` then tells whether they come from another
        // site.
        None => text(SEC_FETCH_SITE).is_some_and(|site| matches!(site, "cross-site" | "same-site")),
    };
    if is_foreign && !matches!(*method, Method::GET | Method::HEAD) {
        return Err(Problem::plain(Code::BadOrigin));
    }
    Ok(())
}

/// Checks the scheme of a same-host origin. Over plain HTTP, anyone on the network path could have altered
/// the page, so it does not count as a page of a server with TLS. Behind a proxy that is not trusted, the
/// server cannot know the browser's scheme.
fn is_own_scheme(app: &App, scheme: &str, proxied: Option<&str>) -> bool {
    match proxied {
        _ if app.is_tls => scheme == "https",
        Some(proxied) => scheme.eq_ignore_ascii_case(proxied),
        None => matches!(scheme, "http" | "https"),
    }
}

fn is_ours(app: &App, host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.is_loopback())
        || app.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(name))
}

/// Headers of every answer.
pub(crate) fn mark(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}
