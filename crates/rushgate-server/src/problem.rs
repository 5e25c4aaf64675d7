//! Refusals and errors: problem+json (RFC 9457) with a stable code. Only this file maps them to status codes.

use std::fmt::{Debug, Display};
use std::time::{Duration, SystemTime};

use crate::body::Body;
use hyper::http::{HeaderValue, Response, StatusCode, header};
use rand::RngExt;
use rushgate::{Error, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// Media type of a problem.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal, $status:literal, $again:ident;)*) => {
        /// Stable code of a refusal or error, with its HTTP status.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code { $($(#[doc = $doc])+ $name),* }

        impl Code {
            /// Every code, in order of status.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Stable code, for programs.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// HTTP status.
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status),* }
            }

            /// Whether the unchanged request may succeed later.
            pub const fn is_retryable(self) -> bool {
                let again = match self { $(Self::$name => Again::$again),* };
                matches!(again, Again::Later)
            }

            /// Title, in one sentence.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii()),* }
            }
        }
    };
}

enum Again {
    Later,
    Never,
}

codes! {
    /// The body is not valid JSON for this route.
    MalformedJson = "malformed_json", 400, Never;
    /// The body or the query has an unknown field.
    UnknownField = "unknown_field", 400, Never;
    /// The request is not valid HTTP/1.1.
    BadRequest = "bad_request", 400, Never;
    /// The path is not valid: it is not UTF-8, or it is badly percent-encoded.
    BadPath = "bad_path", 400, Never;
    /// This request requires an Idempotency-Key.
    IdempotencyKeyMissing = "idempotency_key_missing", 400, Never;
    /// The Idempotency-Key must be one header of 1 to 128 visible ASCII characters.
    IdempotencyKeyInvalid = "idempotency_key_invalid", 400, Never;
    /// The bearer token is missing, malformed, unknown, expired or revoked.
    Unauthorized = "unauthorized", 401, Never;
    /// The token's role or scopes do not allow this request.
    Forbidden = "forbidden", 403, Never;
    /// Cross-origin request refused: this origin is not allowed.
    BadOrigin = "bad_origin", 403, Never;
    /// The sale has a waiting room. Join it, and reserve with the admission token that it issues.
    PassNeeded = "pass_needed", 403, Never;
    /// The admission token has expired. Join the waiting room again.
    PassExpired = "pass_expired", 403, Never;
    /// The admission token is not valid for this sale and buyer.
    PassRefused = "pass_refused", 403, Never;
    /// A bot check is required: send its proof in the header Rushgate-Proof.
    ProofNeeded = "proof_needed", 403, Never;
    /// The bot check refused the proof in Rushgate-Proof. Get another proof.
    ProofRefused = "proof_refused", 403, Never;
    /// Not found.
    NotFound = "not_found", 404, Never;
    /// This route does not support the method.
    MethodNotAllowed = "method_not_allowed", 405, Never;
    /// The request did not arrive in time.
    RequestTimeout = "request_timeout", 408, Later;
    /// Another client holds the lock, and the wait timed out.
    LockBusy = "lock_busy", 409, Later;
    /// The token does not hold the lock, or its lease has expired. Nothing was changed.
    NotHeld = "not_held", 409, Never;
    /// The ticket is stale: the task was claimed, changed or finished since. Nothing was changed.
    Stale = "stale", 409, Never;
    /// A worker is running the task. Nothing was changed.
    Leased = "leased", 409, Later;
    /// The queue is full. Nothing was enqueued.
    QueueFull = "queue_full", 409, Later;
    /// A dependency or batch of the task does not exist, or the batch is closed. Nothing was enqueued.
    Unmet = "unmet", 409, Never;
    /// The batch is not open. Nothing was changed.
    NotOpen = "not_open", 409, Never;
    /// The queue has no retention, so clients cannot wait for its tasks to finish.
    NothingKept = "nothing_kept", 409, Never;
    /// This server has no tokens: it was started without --tokens.
    NoTokens = "no_tokens", 409, Never;
    /// The name is taken. Nothing was changed.
    Exists = "exists", 409, Never;
    /// Sold out: too few units are left, and no holds can return any.
    SoldOut = "sold_out", 409, Never;
    /// All remaining units are on hold. Retry later: holds may expire.
    AllHeld = "all_held", 409, Later;
    /// Purchase limit exceeded.
    LimitReached = "limit_reached", 409, Never;
    /// The sale is not open yet.
    SaleNotOpen = "sale_not_open", 409, Later;
    /// The sale has ended.
    SaleEnded = "sale_ended", 409, Never;
    /// The reservation already has another outcome: see its state.
    Decided = "decided", 409, Never;
    /// Fewer units are free than the request withdraws. Nothing was changed.
    NotEnough = "not_enough", 409, Never;
    /// The stock change is too large: `most` is the largest now. A SKU has at most 10,000,000 units, and one request
    /// withdraws at most 20,000 released units. Nothing was changed.
    ChangeTooLarge = "change_too_large", 409, Never;
    /// The hold of this receipt has expired.
    HoldExpired = "hold_expired", 409, Never;
    /// The receipt is not valid for this sale.
    ReceiptRefused = "receipt_refused", 409, Never;
    /// The buyer is not in the waiting room.
    NotInLine = "not_in_line", 409, Never;
    /// The buyer was admitted, but the admission token has expired. Join the waiting room again.
    PassMissed = "pass_missed", 409, Never;
    /// The waiting room is closed: the sale has ended or is sold out for good.
    RoomClosed = "room_closed", 409, Never;
    /// Entry to the draw is still open. Close it and publish the number of entries before you draw. Nothing was
    /// drawn.
    EntryOpen = "entry_open", 409, Never;
    /// A request with this Idempotency-Key is in progress.
    IdempotencyInFlight = "idempotency_in_flight", 409, Later;
    /// The task is a dead letter: it used all its attempts, or its deadline passed.
    Dead = "dead", 410, Never;
    /// The body exceeds the size limit of this route.
    PayloadTooLarge = "payload_too_large", 413, Never;
    /// The URI exceeds 4 KiB.
    UriTooLong = "uri_too_long", 414, Never;
    /// The Content-Type must be application/json, without a Content-Encoding.
    UnsupportedMediaType = "unsupported_media_type", 415, Never;
    /// The Host header does not name this server.
    Misdirected = "misdirected", 421, Never;
    /// A value has the wrong type or is out of range. Nothing was sent to the store.
    Invalid = "invalid", 422, Never;
    /// This Idempotency-Key was used for a different request.
    IdempotencyKeyReused = "idempotency_key_reused", 422, Never;
    /// Rate limit exceeded for this buyer or address. Nothing was changed.
    TooMany = "too_many", 429, Later;
    /// The request has more than 100 headers, or more than 16 KiB of them.
    HeadersTooLarge = "headers_too_large", 431, Never;
    /// Internal error: a bug in Rushgate.
    Bug = "bug", 500, Never;
    /// The store is misconfigured, so the guarantees would not hold. An operator must fix it.
    Misconfigured = "misconfigured", 500, Never;
    /// The stored data is corrupt. An operator must restore it.
    Corrupt = "corrupt", 500, Never;
    /// The store is unavailable. Nothing was changed.
    Unavailable = "unavailable", 503, Later;
    /// The bot-check service is unavailable. Nothing was changed.
    CheckUnavailable = "check_unavailable", 503, Later;
    /// The outcome is unknown: the request may have taken effect. Repeat it with the same Idempotency-Key, token or
    /// ticket.
    OutcomeUnknown = "outcome_unknown", 503, Later;
    /// The sale is halted: it needs a rebuild, or accepts only receipts for now.
    SaleHalted = "sale_halted", 503, Later;
    /// The server is shutting down.
    Closing = "closing", 503, Later;
    /// The store is full. Nothing was written.
    Full = "full", 507, Later;
}

/// Default retry delay.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Spread of retry times, so that clients refused together do not return together. Never too early.
const JITTER: f64 = 0.2;
/// Clients that wait for a known time are spread over this period after it.
const COMING: Duration = Duration::from_secs(1);
/// Longest pause before the next poll, because a known time may still be moved forward.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A refusal or an error on its way to the client.
#[derive(Debug)]
pub(crate) struct Problem(Box<Inner>);

#[derive(Debug)]
struct Inner {
    code: Code,
    detail: String,
    hint: Option<String>,
    field: Option<String>,
    retry_after: Option<Duration>,
    /// Retry delay with its jitter.
    retry_at: Option<Duration>,
    more: Map<String, Value>,
    allow: Option<HeaderValue>,
}

/// A problem in its JSON form.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemView {
    /// `about:blank`: the code identifies the problem.
    r#type: &'static str,
    /// Title of the code.
    title: &'static str,
    /// HTTP status.
    status: u16,
    /// Stable code, for programs.
    code: &'static str,
    /// What is wrong with this request.
    detail: String,
    /// What to do next, if there is a hint.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Field that has the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// Whether the unchanged request may succeed later.
    retryable: bool,
    /// Retry delay in milliseconds, with jitter. `Retry-After` has it in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// Members that depend on the code, such as `position` or `free`. An internal error has the `request_id` under which
    /// the server logged it.
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Display) -> Self {
        Self(Box::new(Inner {
            code,
            detail: detail.to_string(),
            hint: None,
            field: None,
            retry_after: None,
            retry_at: None,
            more: Map::new(),
            allow: None,
        }))
    }

    /// A problem with the title of its code as the detail.
    pub(crate) fn plain(code: Code) -> Self {
        Self::new(code, code.title())
    }

    /// An outcome that no code is for: a bug, which the log names.
    pub(crate) fn unforeseen(outcome: impl Debug) -> Self {
        Error::bug(format_args!("no code for the outcome {outcome:?}")).into()
    }

    /// The same problem with another code.
    pub(crate) fn called(mut self, code: Code) -> Self {
        self.0.code = code;
        self
    }

    /// For a request that changes nothing, an unknown outcome is just unavailability.
    pub(crate) fn of_a_look(mut self) -> Self {
        if self.0.code == Code::OutcomeUnknown {
            (self.0.code, self.0.detail) = (Code::Unavailable, Code::Unavailable.title().to_owned());
        }
        self
    }

    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.0.field = Some(field.into());
        self
    }

    pub(crate) fn retry_after(mut self, after: Duration) -> Self {
        self.0.retry_after = Some(after);
        self
    }

    /// Suggests to retry at `at`.
    pub(crate) fn retry_at(mut self, at: Timestamp) -> Self {
        let left = at.since(SystemTime::now().try_into().unwrap_or_default());
        let spread = COMING.mul_f64(rand::rng().random_range(0.0..1.0));
        self.0.retry_at = Some(left.min(LOOK_AGAIN_AFTER) + spread);
        self
    }

    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.0.hint = Some(hint.to_owned());
        self
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.more.insert(name.to_owned(), value.into());
        self
    }

    /// Sets the methods that the path supports.
    pub(crate) fn allow(mut self, methods: HeaderValue) -> Self {
        self.0.allow = Some(methods);
        self
    }

    pub(crate) fn code(&self) -> Code {
        self.0.code
    }

    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let Inner { code, detail, hint, field, retry_after, retry_at, more, allow } = *self.0;
        let retry_after = code
            .is_retryable()
            .then(|| retry_at.unwrap_or_else(|| jittered(retry_after.unwrap_or(AGAIN_AFTER))));
        let view = ProblemView {
            r#type: "about:blank",
            title: code.title(),
            status: code.status(),
            code: code.word(),
            detail,
            hint,
            field,
            retryable: code.is_retryable(),
            retry_after_ms: retry_after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
            more,
        };
        // Strings and numbers always serialize.
        let mut response = Response::new(Body::from(serde_json::to_vec(&view).unwrap_or_default()));
        *response.status_mut() =
            StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(after) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds(after)));
        }
        if let Some(allow) = allow {
            headers.insert(header::ALLOW, allow);
        }
        if code == Code::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"rushgate\""));
        }
        response
    }
}

/// Whole seconds, at least one: zero would make all clients retry at once.
fn seconds(after: Duration) -> u64 {
    u64::try_from(after.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX).max(1)
}

fn jittered(after: Duration) -> Duration {
    after.mul_f64(rand::rng().random_range(1.0..1.0 + JITTER))
}

/// Maps the core's errors to codes. This is the only place.
impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = match () {
            () if error.may_have_happened() => Code::OutcomeUnknown,
            () if error.is_invalid() => Code::Invalid,
            () if error.is_not_found() => Code::NotFound,
            () if error.is_unavailable() => Code::Unavailable,
            () if error.is_full() => Code::Full,
            // The store of this server is another server, which refuses this server's token.
            () if error.is_misconfigured() || error.is_forbidden() => Code::Misconfigured,
            () if error.is_corrupt() => Code::Corrupt,
            () => Code::Bug,
        };
        let problem = match code {
            Code::Invalid | Code::NotFound => Self::new(code, &error),
            // The message may name hosts and files, so it goes to the log only.
            _ => {
                let request_id = format!("{:016x}", rand::random::<u64>());
                tracing::error!(request_id, code = code.word(), %error, "a request failed");
                Self::plain(code).with("request_id", request_id)
            }
        };
        let hint = error.hint_text().filter(|_| code == Code::Invalid).map(str::to_owned);
        let field = error.field().map(str::to_owned);
        Self(Box::new(Inner { hint, field, ..*problem.0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_core_has_its_code_and_an_unknown_outcome_says_so() {
        for (error, code) in [
            (Error::invalid("the lease", "is 0s"), Code::Invalid),
            (Error::not_found("sale `x`"), Code::NotFound),
            (Error::unavailable("down"), Code::Unavailable),
            (Error::full("disk"), Code::Full),
            (Error::misconfigured("read-only"), Code::Misconfigured),
            (Error::corrupt("damaged"), Code::Corrupt),
            (Error::bug("oops"), Code::Bug),
            (Error::unavailable("no answer").maybe_happened(), Code::OutcomeUnknown),
            (Error::corrupt("damaged").maybe_happened(), Code::OutcomeUnknown),
        ] {
            assert_eq!(Problem::from(error).code(), code);
        }
    }

    #[test]
    fn what_a_store_says_of_itself_is_not_told_to_clients() {
        let problem = Problem::from(Error::unavailable("redis://10.0.0.7 refused the connection"));
        assert!(!problem.0.detail.contains("10.0.0.7"), "{}", problem.0.detail);
        assert_eq!(problem.0.more["request_id"].as_str().map(str::len), Some(16), "it is found in the log");
    }

    #[test]
    fn codes_are_distinguished_and_come_in_the_order_of_their_statuses() {
        let mut words: Vec<_> = Code::ALL.iter().map(|code| code.word()).collect();
        assert!(Code::ALL.is_sorted_by_key(|code| code.status()));
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Code::ALL.len());
    }

    #[test]
    fn retry_after_is_spread_over_callers() {
        let after = |code| {
            let problem = Problem::plain(code).retry_after(Duration::from_secs(100));
            problem
                .into_response()
                .headers()
                .get(header::RETRY_AFTER)
                .map(|after| after.to_str().unwrap().to_owned())
        };
        assert_eq!(after(Code::SoldOut), None);
        let told: std::collections::BTreeSet<u64> =
            (0..100).map(|_| after(Code::AllHeld).unwrap().parse().unwrap()).collect();
        assert!(told.len() > 1 && told.iter().all(|after| (80..=120).contains(after)), "{told:?}");
    }
}
