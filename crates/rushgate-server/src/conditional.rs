//! Conditional requests: an unchanged answer is not sent again (`ETag`, `If-None-Match`).

use std::collections::BTreeMap;

use crate::body::Body;
use hyper::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use rushgate::store::hex;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// Adds an `ETag`, and omits the body if the client has the same content.
///
/// `passing` names fields that change with time alone, such as the store's clock; `orders.worker_until_us` is a field
/// of the object `orders`. The tag ignores them, so it is a weak one.
pub(crate) async fn unless_known(
    response: Response<Body>,
    passing: &[&str],
    known: &IfNoneMatch,
) -> Response<Body> {
    if response.status() != StatusCode::OK {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let bytes = body.whole().await;
    let tag = format!("W/{}", tag(&lasting(&bytes, passing)));
    let is_known = known.has(&tag);
    head.headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (header::ETAG, tag)));
    // Clients may cache the answer and must revalidate it each time.
    head.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if is_known {
        head.status = StatusCode::NOT_MODIFIED;
        head.headers.remove(header::CONTENT_TYPE);
        return Response::from_parts(head, Body::empty());
    }
    Response::from_parts(head, Body::from(bytes))
}

/// The answer without the `passing` fields.
fn lasting(json: &[u8], passing: &[&str]) -> Vec<u8> {
    if passing.is_empty() {
        return json.to_vec();
    }
    let Ok(mut fields) = serde_json::from_slice::<BTreeMap<String, Box<RawValue>>>(json) else {
        return json.to_vec();
    };
    fields.retain(|name, _| !passing.contains(&name.as_str()));
    for (of, passing) in passing.iter().filter_map(|name| name.split_once('.')) {
        if let Some(value) = fields.get_mut(of) {
            let rest = String::from_utf8(lasting(value.get().as_bytes(), &[passing]));
            if let Some(rest) = rest.ok().and_then(|rest| RawValue::from_string(rest).ok()) {
                *value = rest;
            }
        }
    }
    // What was parsed from JSON can be serialized.
    serde_json::to_vec(&fields).unwrap_or_default()
}

/// A tag for this content, in quotation marks.
pub(crate) fn tag(content: &[u8]) -> String {
    format!("\"{}\"", hex(&Sha256::digest(content)[..8]))
}

/// Value of `If-None-Match`. A copy, because a header value keeps the whole buffer of the connection alive.
pub(crate) struct IfNoneMatch(String);

impl IfNoneMatch {
    pub fn of(asked: &HeaderMap) -> Self {
        let said = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        Self(said.collect::<Vec<_>>().join(","))
    }

    /// True if the list contains the tag. Compares weakly, as RFC 9110 requires.
    pub fn has(&self, tag: &str) -> bool {
        let plain = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        self.0.split(',').any(|known| known.trim() == "*" || plain(known) == plain(tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_name_several_tags_weak_or_strong() {
        let asked = |values: &[&str]| {
            let header = |value: &&str| (header::IF_NONE_MATCH, HeaderValue::from_str(value).unwrap());
            IfNoneMatch::of(&values.iter().map(header).collect())
        };
        for known in [&["\"a\""][..], &["W/\"a\""], &["\"x\", W/\"a\""], &["\"x\"", "\"a\""], &["*"]] {
            assert!(asked(known).has("W/\"a\"") && asked(known).has("\"a\""), "{known:?}");
        }
        for other in [&[][..], &["\"b\""], &["a"], &["\"a"], &[""], &["\"A\""]] {
            assert!(!asked(other).has("W/\"a\""), "{other:?}");
        }
    }

    #[test]
    fn what_passes_with_time_does_not_count_and_all_else_does() {
        let of = |text: &str| lasting(text.as_bytes(), &["now_us", "b.until"]);
        assert_eq!(of("{\"a\":1,\"now_us\":5}"), of("{\"a\":1,\"now_us\":6}"));
        assert_ne!(of("{\"a\":1,\"now_us\":5}"), of("{\"a\":2,\"now_us\":5}"));
        assert_ne!(of("{\"a\":{\"now_us\":5}}"), of("{\"a\":{\"now_us\":6}}"), "only its own fields");
        assert_eq!(of("{\"b\":{\"until\":5,\"c\":1}}"), of("{\"b\":{\"until\":6,\"c\":1}}"));
        assert_ne!(of("{\"b\":{\"until\":5,\"c\":1}}"), of("{\"b\":{\"until\":5,\"c\":2}}"));
        assert_ne!(of("{\"until\":5,\"b\":{}}"), of("{\"until\":6,\"b\":{}}"));
    }
}
