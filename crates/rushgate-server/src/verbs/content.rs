//! Payloads of tasks, to and from JSON.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rushgate::{ContentType, Kind, Payload};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::problem::{Code, Problem};

/// A payload in a request: `payload` as JSON, or `payload_base64` as bytes of the `content_type`, or neither. With a
/// content type other than JSON, `payload` is a text. At most 1 MiB.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub payload: Option<Box<RawValue>>,
    pub payload_base64: Option<String>,
    pub content_type: Option<ContentType>,
    pub kind: Option<Kind>,
}

impl TryFrom<Content> for Payload {
    type Error = Problem;
    fn try_from(content: Content) -> Result<Self, Problem> {
        let Content { payload, payload_base64, content_type, kind } = content;
        let default = if payload.is_some() { ContentType::json } else { ContentType::bytes };
        let content_type = content_type.unwrap_or_else(default);
        let bytes = match (payload, payload_base64) {
            (Some(_), Some(_)) => {
                return Err(Problem::new(Code::Invalid, "set either the payload or its base64, not both")
                    .field("payload"));
            }
            (Some(json), None) => written_as(&content_type, &json)?,
            (None, Some(text)) => {
                let wrong = |_| Problem::new(Code::Invalid, "invalid base64").field("payload_base64");
                BASE64_STANDARD.decode(text).map_err(wrong)?
            }
            (None, None) => Vec::new(),
        };
        let payload = Self::new(content_type, bytes)?;
        Ok(match kind {
            Some(kind) => payload.with_kind(&kind)?,
            None => payload,
        })
    }
}

/// The bytes of a JSON field: the JSON itself if the type is JSON, otherwise the text within its quotes.
fn written_as(content_type: &ContentType, json: &RawValue) -> Result<Vec<u8>, Problem> {
    if content_type.is_json() {
        return Ok(json.get().as_bytes().to_vec());
    }
    let text: String = serde_json::from_str(json.get()).map_err(|_| {
        let why = format_args!("the content type is {}, so it must be a string", content_type.essence());
        Problem::new(Code::Invalid, why).field("payload")
    })?;
    Ok(text.into_bytes())
}

/// A payload in an answer: JSON as JSON, text as a string, anything else in base64.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ContentView {
    /// The payload, if it is JSON or text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
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

impl From<&Payload> for ContentView {
    fn from(of: &Payload) -> Self {
        let content_type = of.content_type();
        let payload = as_json(content_type, of.bytes());
        let payload_base64 =
            (payload.is_none() && !of.bytes().is_empty()).then(|| BASE64_STANDARD.encode(of.bytes()));
        Self {
            payload,
            payload_base64,
            content_type: content_type.plain(),
            kind: content_type.kind().map(str::to_owned),
            traceparent: content_type.traceparent().map(|parent| parent.to_string()),
        }
    }
}

/// JSON as it is, and text as a JSON string. None if the bytes do not match their type.
fn as_json(content_type: &ContentType, bytes: &[u8]) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(bytes).ok()?;
    match content_type.is_json() {
        true => serde_json::from_str(text).ok(),
        false if content_type.essence().starts_with("text/") => serde_json::value::to_raw_value(text).ok(),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(payload: &Payload) -> serde_json::Value {
        serde_json::to_value(ContentView::from(payload)).unwrap()
    }

    #[test]
    fn json_goes_as_json_text_as_a_string_and_all_else_in_base64() {
        let json = Payload::new(ContentType::json(), br#"{"to": "ann"}"#.to_vec()).unwrap();
        assert_eq!(there_and_back(&json)["payload"]["to"], "ann");
        let broken = Payload::new(ContentType::json(), b"{".to_vec()).unwrap();
        assert_eq!(there_and_back(&broken)["payload_base64"], "ew==");
        let kind = Kind::new("mail:welcome").unwrap();
        let named = there_and_back(&json.with_kind(&kind).unwrap());
        assert_eq!((&named["payload"]["to"], &named["kind"]), (&"ann".into(), &"mail:welcome".into()));
        assert_eq!(named["content_type"], "application/json");
        let text =
            |bytes: &[u8]| Payload::new(ContentType::new("text/plain").unwrap(), bytes.to_vec()).unwrap();
        assert_eq!(there_and_back(&text(b"say \"hi\""))["payload"], "say \"hi\"");
        assert_eq!(there_and_back(&text(b"\xff"))["payload_base64"], "/w==");
        let empty = there_and_back(&Payload::empty());
        assert!(empty.get("payload").is_none() && empty.get("payload_base64").is_none(), "{empty}");
    }
}
