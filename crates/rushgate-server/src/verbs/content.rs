//! What tasks carry, in JSON and back.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rushgate::{ContentType, Payload};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::problem::{Code, Problem};

/// Content on its way in: `payload` as any JSON, or `payload_base64` as bytes of the `content_type`; neither for none.
/// At most 1 MiB.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub payload: Option<Box<RawValue>>,
    pub payload_base64: Option<String>,
    pub content_type: Option<ContentType>,
}

impl TryFrom<Content> for Payload {
    type Error = Problem;
    fn try_from(content: Content) -> Result<Self, Problem> {
        let Content { payload, payload_base64, content_type } = content;
        match (payload, payload_base64) {
            (Some(_), Some(_)) => {
                Err(Problem::new(Code::Invalid, "give one or its base64, not both").field("payload"))
            }
            (Some(json), None) => {
                Ok(Self::new(content_type.unwrap_or_else(ContentType::json), json.get().as_bytes().to_vec())?)
            }
            (None, Some(text)) => {
                let wrong = |_| Problem::new(Code::Invalid, "it is no base64").field("payload_base64");
                let bytes = BASE64_STANDARD.decode(text).map_err(wrong)?;
                Ok(Self::new(content_type.unwrap_or_else(ContentType::bytes), bytes)?)
            }
            (None, None) => Ok(Self::empty()),
        }
    }
}

/// Content on its way out: as JSON if that is what it is, in base64 otherwise.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ContentView {
    /// The content, if it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    payload: Option<Box<RawValue>>,
    /// The content in base64, if it is anything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    /// What it is.
    content_type: String,
}

impl From<&Payload> for ContentView {
    fn from(of: &Payload) -> Self {
        let content_type = of.content_type().as_str().to_owned();
        let is_json = content_type == "application/json" || content_type.ends_with("+json");
        let text = std::str::from_utf8(of.bytes()).ok().filter(|_| is_json);
        let payload = text.and_then(|text| serde_json::from_str::<Box<RawValue>>(text).ok());
        let payload_base64 =
            (payload.is_none() && !of.bytes().is_empty()).then(|| BASE64_STANDARD.encode(of.bytes()));
        Self { payload, payload_base64, content_type }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(payload: &Payload) -> serde_json::Value {
        serde_json::to_value(ContentView::from(payload)).unwrap()
    }

    #[test]
    fn json_goes_as_json_and_all_else_in_base64() {
        let json = Payload::new(ContentType::json(), br#"{"to": "ann"}"#.to_vec()).unwrap();
        assert_eq!(there_and_back(&json)["payload"]["to"], "ann");
        let broken = Payload::new(ContentType::json(), b"{".to_vec()).unwrap();
        assert_eq!(there_and_back(&broken)["payload_base64"], "ew==");
        let empty = there_and_back(&Payload::empty());
        assert!(empty.get("payload").is_none() && empty.get("payload_base64").is_none(), "{empty}");
    }
}
