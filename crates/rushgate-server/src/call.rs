//! A request as a verb sees it: parsed, checked and authenticated.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use rushgate::{BuyerId, Lock, Queue, Sale};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::access::{Caller, Role};
use crate::app::App;
use crate::check::Checker;
use crate::problem::{Code, Problem};
use crate::read;

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(crate) const PREFER: HeaderName = HeaderName::from_static("prefer");

/// Maximum length of an idempotency key.
const KEY_MAX: usize = 128;
/// Maximum length of the URI, in bytes.
const URI_MAX: usize = 4 << 10;
/// Maximum total size of the headers, in bytes.
const HEADERS_WEIGHT_MAX: usize = 16 << 10;
/// Maximum number of headers.
const HEADERS_MAX: usize = 100;

/// No body, or no query.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// One request. Before it is [parsed](Call::parsed), its query is the URI and its body the bytes.
pub(crate) struct Call<B = Nothing, Q = Nothing> {
    pub app: Arc<App>,
    pub caller: Caller,
    pub path: PathParams,
    pub query: Q,
    pub body: B,
    /// Value of `Idempotency-Key`.
    pub key: Option<String>,
    /// Time that the client asks to wait, capped at the server's maximum.
    pub wait: Duration,
    /// Number of the last event that the client has seen.
    pub seen: Option<u64>,
    pub visitor: Visitor,
}

/// Client address, and the proof for the bot check.
#[derive(Debug)]
pub(crate) struct Visitor {
    pub address: IpAddr,
    pub proof: Option<HeaderValue>,
}

/// Parameters of the path.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathParams(pub Vec<(String, String)>);

impl PathParams {
    /// Value of a path parameter. The tests check that each route asks only for parameters of its path.
    pub fn get(&self, place: &str) -> &str {
        self.0.iter().find(|(name, _)| name == place).map_or("", |(_, value)| value)
    }
}

impl Call<Bytes, Uri> {
    /// Parses the query and the body.
    pub fn parsed<B: DeserializeOwned, Q: DeserializeOwned>(self) -> Result<Call<B, Q>, Problem> {
        let Self { app, caller, path, query, body, key, wait, seen, visitor } = self;
        let (query, body) = (read::query(&query)?, read::body(&body)?);
        Ok(Call { app, caller, path, query, body, key, wait, seen, visitor })
    }
}

impl<B, Q> Call<B, Q> {
    pub fn lock(&self) -> Result<Lock, Problem> {
        Ok(self.app.client.lock(self.path.get("lock"))?.renew(false))
    }

    pub fn queue(&self) -> Result<Queue, Problem> {
        Ok(self.app.client.queue(self.path.get("queue"))?)
    }

    pub fn sale(&self) -> Result<Sale, Problem> {
        Ok(self.app.client.sale(self.path.get("sale"))?)
    }

    /// Refuses a buyer who fails the bot check, if the server has one.
    pub async fn must_be_let_in(&self, sale: &Sale, buyer: &BuyerId) -> Result<(), Problem> {
        let Some(check) = self.check() else { return Ok(()) };
        check.admit(sale.id(), buyer, self.visitor.address, self.visitor.proof.as_ref()).await
    }

    /// The bot check for this caller. Workers and operators skip it.
    pub fn check(&self) -> Option<&Checker> {
        self.app.check.as_ref().filter(|_| self.caller.role == Role::Buyer)
    }

    /// Waits for `work`, but ends when the server shuts down. Dropping `work` leaves nothing behind.
    pub async fn unless_closing<T>(
        &self,
        work: impl Future<Output = Result<T, rushgate::Error>>,
    ) -> Result<T, Problem> {
        tokio::select! {
            done = work => Ok(done?),
            () = self.app.closing.cancelled() => Err(Problem::plain(Code::Closing)),
        }
    }
}

/// Refuses a request whose URI or headers exceed the limits.
pub(crate) fn check_head(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let length = uri.path_and_query().map_or(0, |path| path.as_str().len());
    if length > URI_MAX {
        return Err(Problem::plain(Code::UriTooLong));
    }
    let weight: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if weight > HEADERS_WEIGHT_MAX || headers.len() > HEADERS_MAX {
        return Err(Problem::plain(Code::HeadersTooLarge));
    }
    if headers.get_all(header::HOST).iter().nth(1).is_some() {
        return Err(Problem::new(Code::BadRequest, "the request has more than one Host header"));
    }
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if codings.next().is_some_and(|coding| !is_chunked(coding)) || codings.next().is_some() {
        return Err(Problem::new(Code::BadRequest, "the only supported Transfer-Encoding is chunked"));
    }
    Ok(())
}

/// Parses `Idempotency-Key`.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut all = headers.get_all(&IDEMPOTENCY_KEY).iter();
    let Some(first) = all.next() else { return Ok(None) };
    // RFC 8941 puts strings in quotation marks; clients send them with and without.
    let text = first.to_str().unwrap_or_default();
    let text = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let is_good = (1..=KEY_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if all.next().is_some() || !is_good {
        return Err(Problem::plain(Code::IdempotencyKeyInvalid));
    }
    Ok(Some(text.to_owned()))
}

/// Parses `Prefer: wait=SECONDS` (RFC 7240). Ignores a malformed value.
pub(crate) fn wait(headers: &HeaderMap) -> Option<Duration> {
    let all = headers.get_all(&PREFER).iter().filter_map(|value| value.to_str().ok());
    let mut parts = all.flat_map(|text| text.split([',', ';'])).filter_map(|part| part.split_once('='));
    let (_, seconds) = parts.find(|(name, _)| name.trim().eq_ignore_ascii_case("wait"))?;
    seconds.trim().trim_matches('"').parse().ok().map(Duration::from_secs)
}

/// Parses `Last-Event-ID`, which browsers send on reconnect. Ignores a value that is not a number.
pub(crate) fn seen(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok()
}

/// Reads the whole body within its size and time limits. A request without a body has an empty one.
pub(crate) async fn bytes(
    headers: &HeaderMap,
    body: &mut Incoming,
    limit: usize,
    arrival: Duration,
) -> Result<Bytes, Problem> {
    let too_large = || Problem::new(Code::PayloadTooLarge, format_args!("the body exceeds {limit} bytes"));
    let said =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let whole = tokio::time::timeout(arrival, Limited::new(body, limit).collect()).await;
    let Ok(whole) = whole else { return Err(Problem::plain(Code::RequestTimeout)) };
    let bytes = whole.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => too_large(),
        None => Problem::new(Code::MalformedJson, "the body ended early"),
    })?;
    let bytes = bytes.to_bytes();
    if !bytes.is_empty() {
        check_media_type(headers)?;
    }
    Ok(bytes)
}

fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let (media, more) =
        text(header::CONTENT_TYPE).map_or(("", ""), |text| text.split_once(';').unwrap_or((text, "")));
    let charset = more
        .split(';')
        .filter_map(|part| part.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    let is_utf8 =
        charset.is_none_or(|(_, charset)| charset.trim().trim_matches('"').eq_ignore_ascii_case("utf-8"));
    let is_plain =
        text(header::CONTENT_ENCODING).is_none_or(|encoding| encoding.eq_ignore_ascii_case("identity"));
    if media.trim().eq_ignore_ascii_case("application/json") && is_utf8 && is_plain {
        return Ok(());
    }
    Err(Problem::new(
        Code::UnsupportedMediaType,
        "send the body as application/json in UTF-8, without Content-Encoding",
    ))
}

#[cfg(test)]
mod tests {
    use hyper::http::HeaderValue;

    use super::*;

    fn headers(name: &HeaderName, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn one_visible_key_is_taken_with_or_without_quotation_marks() {
        let read =
            |values: &[&str]| key(&headers(&IDEMPOTENCY_KEY, values)).map_err(|problem| problem.code());
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["a-1"]), Ok(Some("a-1".to_owned())));
        assert_eq!(read(&["\"a-1\""]), Ok(Some("a-1".to_owned())));
        let long = "x".repeat(KEY_MAX + 1);
        for wrong in [&[""][..], &["a b"], &["\"\""], &[&long], &["a", "a"]] {
            assert_eq!(read(wrong), Err(Code::IdempotencyKeyInvalid), "{wrong:?}");
        }
    }

    #[test]
    fn a_wait_is_found_among_other_preferences() {
        for (value, seconds) in [
            ("wait=5", Some(5)),
            ("respond-async, Wait=\"7\"", Some(7)),
            ("return=minimal; wait=0", Some(0)),
            ("wait", None),
            ("wait=-1", None),
            ("wait=soon", None),
        ] {
            assert_eq!(wait(&headers(&PREFER, &[value])), seconds.map(Duration::from_secs), "{value}");
        }
    }
}
