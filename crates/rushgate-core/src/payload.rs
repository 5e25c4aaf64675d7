//! Payloads of tasks, and their JSON form.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{ContentType, Error, Field, Kind, Result, TraceParent};

/// Opaque bytes with a content type. Cheap to clone.
///
/// The JSON form is that of [`PayloadView`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Payload {
    content_type: ContentType,
    bytes: Arc<[u8]>,
}

impl Payload {
    /// Maximum size of a payload: 1 MiB.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Creates a payload after checking its size.
    pub fn new(content_type: ContentType, bytes: impl Into<Arc<[u8]>>) -> Result<Self> {
        let bytes = bytes.into();
        if bytes.len() > Self::MAX_BYTES {
            return Err(Error::invalid(
                Field::Payload,
                format_args!("has {} bytes; at most {} are allowed", bytes.len(), Self::MAX_BYTES),
            )
            .hint("store the content elsewhere and enqueue a reference to it"));
        }
        Ok(Self { content_type, bytes })
    }

    /// An empty payload.
    pub fn empty() -> Self {
        Self { content_type: ContentType::bytes(), bytes: Arc::from([]) }
    }

    /// The same bytes with another content type.
    fn as_content(&self, content_type: ContentType) -> Self {
        Self { content_type, bytes: Arc::clone(&self.bytes) }
    }

    /// The content type.
    pub fn content_type(&self) -> &ContentType {
        &self.content_type
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The task's [`Kind`], from its content type.
    pub fn kind(&self) -> Option<&str> {
        self.content_type().kind()
    }

    /// Returns the payload with the given kind.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the content type would exceed 200 bytes.
    pub fn with_kind(&self, kind: &Kind) -> Result<Self> {
        Ok(self.as_content(self.content_type().with_kind(kind)?))
    }

    /// Returns the payload with the given trace context.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the content type would exceed 200 bytes.
    pub fn with_traceparent(&self, parent: &TraceParent) -> Result<Self> {
        Ok(self.as_content(self.content_type().with_traceparent(parent)?))
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PayloadView::from(self).serialize(serializer)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Payload {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Payload".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        PayloadView::json_schema(generator)
    }
}

/// A payload as JSON: JSON as it is, text as a string, and anything else in base64.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Payload"))]
pub struct PayloadView {
    /// The payload, if it is JSON or text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    payload: Option<Box<RawValue>>,
    /// The payload in base64, if it is neither JSON nor text.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// Media type of the payload.
    content_type: String,
    /// Kind of work, by which a worker selects the handler.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// W3C `traceparent` of the span that enqueued the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
}

impl From<&Payload> for PayloadView {
    fn from(of: &Payload) -> Self {
        let content_type = of.content_type();
        let payload = as_json(content_type, of.bytes());
        let is_binary = payload.is_none() && !of.bytes().is_empty();
        Self {
            payload,
            payload_base64: is_binary.then(|| BASE64_STANDARD.encode(of.bytes())),
            content_type: content_type.plain(),
            kind: content_type.kind().map(str::to_owned),
            traceparent: content_type.traceparent().map(|parent| parent.to_string()),
        }
    }
}

/// JSON as it is, and text as a JSON string. `None` if the bytes do not match their type.
fn as_json(content_type: &ContentType, bytes: &[u8]) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(bytes).ok()?;
    match content_type.is_json() {
        true => serde_json::from_str(text).ok(),
        false if content_type.essence().starts_with("text/") => serde_json::value::to_raw_value(text).ok(),
        false => None,
    }
}

/// A payload in a request: `payload` as JSON or text, `payload_base64` as bytes, or neither. See [`PayloadView`].
#[derive(Clone, Debug, Default)]
pub struct PayloadSpec {
    /// The payload as JSON, or as a string if the content type is not JSON.
    pub payload: Option<Box<RawValue>>,
    /// The payload in base64, instead of `payload`.
    pub payload_base64: Option<String>,
    /// Media type. Default: `application/json` for `payload`, otherwise `application/octet-stream`.
    pub content_type: Option<ContentType>,
    /// Kind of work.
    pub kind: Option<Kind>,
    /// Trace context.
    pub traceparent: Option<TraceParent>,
}

impl PayloadSpec {
    /// The specification of exactly this payload, without line breaks.
    pub(crate) fn exact(of: &Payload) -> Self {
        let content_type = of.content_type();
        let is_exact = |json: &RawValue| {
            let json = (!json.get().contains(['\n', '\r'])).then_some(json);
            json.is_some_and(|json| written_as(content_type, json).is_ok_and(|bytes| bytes == of.bytes()))
        };
        let payload = as_json(content_type, of.bytes()).filter(|json| is_exact(json));
        Self {
            payload_base64: payload.is_none().then(|| BASE64_STANDARD.encode(of.bytes())),
            payload,
            content_type: ContentType::as_stored(content_type.plain()).ok(),
            kind: content_type.kind().and_then(|kind| Kind::new(kind).ok()),
            traceparent: content_type.traceparent(),
        }
    }
}

impl TryFrom<PayloadSpec> for Payload {
    type Error = Error;
    fn try_from(spec: PayloadSpec) -> Result<Self> {
        let PayloadSpec { payload, payload_base64, content_type, kind, traceparent } = spec;
        let default = if payload.is_some() { ContentType::json } else { ContentType::bytes };
        let content_type = content_type.unwrap_or_else(default);
        let bytes = match (payload, payload_base64) {
            (Some(_), Some(_)) => return Err(Error::either("payload", "payload_base64")),
            (Some(json), None) => written_as(&content_type, &json)?,
            (None, Some(text)) => BASE64_STANDARD
                .decode(text)
                .map_err(|error| Error::invalid(Field::PayloadBase64, format_args!("is invalid: {error}")))?,
            (None, None) => Vec::new(),
        };
        let mut payload = Self::new(content_type, bytes)?;
        if let Some(kind) = kind {
            payload = payload.with_kind(&kind)?;
        }
        if let Some(parent) = traceparent {
            payload = payload.with_traceparent(&parent)?;
        }
        Ok(payload)
    }
}

/// The bytes of a JSON field: the JSON itself if the type is JSON, otherwise the text within its quotes.
fn written_as(content_type: &ContentType, json: &RawValue) -> Result<Vec<u8>> {
    if content_type.is_json() {
        return Ok(json.get().as_bytes().to_vec());
    }
    let text: String = serde_json::from_str(json.get()).map_err(|_| {
        let why = format_args!("must be a string, because the content type is {}", content_type.essence());
        Error::invalid(Field::Payload, why)
    })?;
    Ok(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_over_the_limit_is_refused_with_its_size() {
        let error = Payload::new(ContentType::bytes(), vec![0; Payload::MAX_BYTES + 1]).unwrap_err();
        assert!(error.is_invalid());
        assert!(error.to_string().contains("1048577 bytes"), "{error}");
    }

    fn shown(payload: &Payload) -> serde_json::Value {
        serde_json::to_value(payload).unwrap()
    }

    #[test]
    fn json_goes_as_json_text_as_a_string_and_all_else_in_base64() {
        let json = Payload::new(ContentType::json(), br#"{"to": "ann"}"#.to_vec()).unwrap();
        assert_eq!(shown(&json)["payload"]["to"], "ann");
        let broken = Payload::new(ContentType::json(), b"{".to_vec()).unwrap();
        assert_eq!(shown(&broken)["payload_base64"], "ew==");
        let named = shown(&json.with_kind(&Kind::new("mail:welcome").unwrap()).unwrap());
        assert_eq!((&named["payload"]["to"], &named["kind"]), (&"ann".into(), &"mail:welcome".into()));
        assert_eq!(named["content_type"], "application/json");
        let text =
            |bytes: &[u8]| Payload::new(ContentType::new("text/plain").unwrap(), bytes.to_vec()).unwrap();
        assert_eq!(shown(&text(b"say \"hi\""))["payload"], "say \"hi\"");
        assert_eq!(shown(&text(b"\xff"))["payload_base64"], "/w==");
        let empty = shown(&Payload::empty());
        assert!(empty.get("payload").is_none() && empty.get("payload_base64").is_none(), "{empty}");
    }
}
