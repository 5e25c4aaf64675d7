//! Metadata of a task, stored as parameters of its content type.
//!
//! Stores keep the content type as it is, so they need no support for them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::text::checked_text;
use crate::{ContentType, Error, Field, Result};

const KIND: &str = "kind";
const TRACEPARENT: &str = "traceparent";

/// Kind of a task, by which a worker finds its handler: 1 to 80 ASCII letters, digits and `.`, `_`, `:`, `/`, `-`.
///
/// ```
/// use rushgate_core::{ContentType, Kind};
///
/// let welcome = Kind::new("mail:welcome")?;
/// let content_type = ContentType::json().with_kind(&welcome)?;
/// assert_eq!(content_type.as_str(), "application/json;kind=\"mail:welcome\"");
/// assert_eq!(content_type.kind(), Some("mail:welcome"));
/// assert!(Kind::new("two words").is_err());
/// # Ok::<_, rushgate_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Kind(Arc<str>);

impl Kind {
    /// Maximum length, in bytes.
    pub const MAX_BYTES: usize = 80;

    /// Checks `text` against the limits.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid), with the violated limit.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        Self::check(text)?;
        Ok(Self(Arc::from(text)))
    }

    fn check(text: &str) -> Result<()> {
        if text.is_empty() || text.len() > Self::MAX_BYTES {
            let why = format_args!("has {} bytes; 1 to {} are allowed", text.len(), Self::MAX_BYTES);
            return Err(Error::invalid(Field::Kind, why));
        }
        match text.chars().find(|c| !(c.is_ascii_alphanumeric() || "._:/-".contains(*c))) {
            Some(c) => Err(Error::invalid(
                Field::Kind,
                format_args!("contains {c:?}; letters, digits and . _ : / - are allowed"),
            )),
            None => Ok(()),
        }
    }

    /// The kind as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Trace context of a task: a [W3C `traceparent`](https://www.w3.org/TR/trace-context/).
///
/// ```
/// use rushgate_core::TraceParent;
///
/// let parent: TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse()?;
/// assert_eq!(parent.trace_id(), "0af7651916cd43dd8448eb211c80319c");
/// assert!(parent.is_sampled());
/// assert!("00-00000000000000000000000000000000-b7ad6b7169203331-01".parse::<TraceParent>().is_err());
/// # Ok::<_, rushgate_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceParent(Arc<str>);

impl TraceParent {
    /// Checks `text`: version, trace ID, span ID and flags in lowercase hexadecimal, the IDs not all zero.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if it has another form.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        let wrong = || Error::invalid("the traceparent", "is not a W3C traceparent, such as 00-…-…-01");
        let parts: Vec<_> = text.split('-').collect();
        let [version, trace, span, flags] = parts[..] else { return Err(wrong()) };
        let hexadecimal = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let said = |part: &str, length| part.len() == length && hexadecimal(part);
        let named = |part: &str| part.bytes().any(|b| b != b'0');
        let holds = said(version, 2) && version != "ff" && said(flags, 2);
        match holds && said(trace, 32) && named(trace) && said(span, 16) && named(span) {
            true => Ok(Self(Arc::from(text))),
            false => Err(wrong()),
        }
    }

    /// The full `traceparent`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Trace ID: 32 hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        &self.0[3..35]
    }

    /// ID of the span that enqueued the task: 16 hexadecimal digits.
    pub fn span_id(&self) -> &str {
        &self.0[36..52]
    }

    /// Whether that span was sampled.
    pub fn is_sampled(&self) -> bool {
        u8::from_str_radix(&self.0[53..55], 16).is_ok_and(|flags| flags & 1 == 1)
    }
}

checked_text!(Kind TraceParent);

impl ContentType {
    /// The media type without its parameters, such as `application/json`.
    pub fn essence(&self) -> &str {
        self.as_str().split(';').next().unwrap_or_default()
    }

    /// Whether the payload is JSON: `application/json`, or a type that ends in `+json`.
    pub fn is_json(&self) -> bool {
        self.essence().eq_ignore_ascii_case("application/json") || self.essence().ends_with("+json")
    }

    /// Value of a parameter, without quotes; `None` if it contains escapes.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let named = |(_, had, value): (_, &str, Option<_>)| value.filter(|_| had.eq_ignore_ascii_case(name));
        parameters(self.as_str()).find_map(named)
    }

    /// The task's [`Kind`]. A `kind` parameter with an invalid value belongs to another program and is ignored.
    pub fn kind(&self) -> Option<&str> {
        self.parameter(KIND).filter(|text| Kind::check(text).is_ok())
    }

    /// Returns the type with the given kind.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the result exceeds 200 bytes.
    pub fn with_kind(&self, kind: &Kind) -> Result<Self> {
        self.with(KIND, kind.as_str())
    }

    /// The task's trace context; `None` if it is missing or invalid.
    pub fn traceparent(&self) -> Option<TraceParent> {
        self.parameter(TRACEPARENT)?.parse().ok()
    }

    /// Returns the type with the given trace context.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the result exceeds 200 bytes.
    pub fn with_traceparent(&self, parent: &TraceParent) -> Result<Self> {
        self.with(TRACEPARENT, parent.as_str())
    }

    /// The type without [`kind`](Self::kind) and [`traceparent`](Self::traceparent), which Rushgate shows separately.
    pub fn plain(&self) -> String {
        let shown = [(KIND, self.kind().is_some()), (TRACEPARENT, self.traceparent().is_some())];
        let is_shown = |name: &str| shown.iter().any(|(own, is)| *is && name.eq_ignore_ascii_case(own));
        let mut text = self.essence().to_owned();
        for (whole, name, _) in parameters(self.as_str()) {
            if !is_shown(name) {
                text = format!("{text};{whole}");
            }
        }
        text
    }

    fn with(&self, name: &str, value: &str) -> Result<Self> {
        let mut text = self.essence().to_owned();
        for (whole, had, _) in parameters(self.as_str()) {
            if !had.eq_ignore_ascii_case(name) {
                text = format!("{text};{whole}");
            }
        }
        let is_token = value.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        let quote = if is_token { "" } else { "\"" };
        Self::new(format!("{text};{name}={quote}{value}{quote}"))
    }
}

/// Iterates over the parameters: the raw text, the name, and the value if it can be parsed.
fn parameters(text: &str) -> impl Iterator<Item = (&str, &str, Option<&str>)> {
    let mut rest = text.split_once(';').map_or("", |(_, rest)| rest);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut quoted = false;
        let end = rest.find(|c| {
            quoted ^= c == '"';
            c == ';' && !quoted
        });
        let (whole, after) = end.map_or((rest, ""), |end| (&rest[..end], &rest[end + 1..]));
        rest = after;
        let (name, value) = whole.split_once('=').map_or((whole, None), |(name, value)| (name, Some(value)));
        let value = value.map(unquoted);
        Some((whole, name, value.filter(|value| !value.contains(['"', '\\']))))
    })
}

fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent() -> TraceParent {
        TraceParent::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").unwrap()
    }

    #[test]
    fn parameters_are_added_replaced_and_read_back() {
        let named = ContentType::new("text/plain;charset=utf-8").unwrap();
        let named = named.with_kind(&Kind::new("a").unwrap()).unwrap();
        let both = named.with_traceparent(&parent()).unwrap().with_kind(&Kind::new("b/c").unwrap()).unwrap();
        assert_eq!(both.kind(), Some("b/c"));
        assert_eq!(both.traceparent(), Some(parent()));
        assert_eq!(both.parameter("CHARSET"), Some("utf-8"));
        assert_eq!(both.plain(), "text/plain;charset=utf-8");
        assert_eq!((both.essence(), both.is_json()), ("text/plain", false));
        let longest = ContentType::json().with_kind(&Kind::new("k:".repeat(40)).unwrap()).unwrap();
        assert!(longest.with_traceparent(&parent()).unwrap().is_json(), "there is room for both");
    }

    #[test]
    fn what_others_have_written_is_read_as_far_as_it_can_be() {
        let read = |text| ContentType::new(text).unwrap().kind().map(str::to_owned);
        assert_eq!(read("a/b;x=\"1;kind=no\";KIND=yes"), Some("yes".to_owned()));
        assert_eq!(read("a/b;kind=\"esc\\aped\""), None);
        assert_eq!(read("a/b;kind"), None);
        let other = ContentType::new("a/b;kind=*;x").unwrap();
        assert_eq!((other.kind(), other.plain()), (None, "a/b;kind=*;x".to_owned()), "nothing is lost");
        assert_eq!(read("a/b"), None);
        let kept =
            ContentType::new("a/b;x=\"\\y\";flag").unwrap().with_kind(&Kind::new("k").unwrap()).unwrap();
        assert_eq!(kept.as_str(), "a/b;x=\"\\y\";flag;kind=k");
        let odd = ContentType::new("a/b;traceparent=00-1-2-3").unwrap();
        assert_eq!(odd.traceparent(), None);
    }

    #[test]
    fn a_kind_has_limits() {
        for wrong in ["", "a b", "a;b", "*", "ä", &"k".repeat(81)] {
            assert!(Kind::new(wrong).unwrap_err().is_invalid(), "{wrong:?}");
        }
        assert!(Kind::new("k".repeat(80)).is_ok());
    }

    #[test]
    fn a_traceparent_is_that_of_the_standard() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        for wrong in [
            String::new(),
            format!("00-{trace}-{span}"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-{trace}-{span}-01-more"),
        ] {
            assert!(TraceParent::new(&wrong).is_err(), "{wrong}");
        }
        assert_eq!(parent().span_id(), span);
    }
}
