use std::borrow::Cow;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::text::checked_text;
use crate::{Error, Result};

/// Maximum length of a name, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 200;

/// Characters that are invisible or reorder the text around them: Unicode's default-ignorable characters and
/// interlinear annotations. The function library has the same list (`lua/functions/library.lua`).
const INVISIBLE: [(char, char); 18] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fdd0}', '\u{fdef}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Normalizes a text to Unicode Normalization Form C, the form in which names are compared.
pub fn normalized(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfc().collect())
}

/// Checks a name. The rules follow the IdentifierClass of PRECIS (RFC 8264), but allow punctuation
/// and symbols.
///
/// - Braces are refused because Redis Cluster reads them as a hash tag.
/// - `.` and `..` are refused because clients resolve them in the path of a URL.
/// - Invisible characters are refused because two names would look the same.
fn check(kind: &str, text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(kind, "is empty; it must have 1 to 200 bytes"));
    }
    if text.len() > MAX_NAME_BYTES {
        return Err(Error::invalid(
            kind,
            format_args!("has {} bytes; at most {MAX_NAME_BYTES} are allowed", text.len()),
        ));
    }
    if matches!(text, "." | "..") {
        return Err(Error::invalid(kind, format_args!("is `{text}`, which is reserved in URLs")));
    }
    if text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}')) {
        return Ok(());
    }
    match text.chars().find(|c| !may_be_in_a_name(*c)) {
        Some(c) => Err(Error::invalid(
            kind,
            format_args!(
                "contains {c:?}; white space, control characters, invisible characters and braces are not allowed"
            ),
        )),
        None => Ok(()),
    }
}

fn may_be_in_a_name(c: char) -> bool {
    let is_invisible = || INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&c));
    !(c.is_control() || c.is_whitespace() || matches!(c, '{' | '}') || (!c.is_ascii() && is_invisible()))
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $kind:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// 1 to 200 bytes of UTF-8 in Normalization Form C, without white space, control or invisible characters, `{`
        /// or `}`. Not `.` or `..`. Cheap to clone.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Normalizes `text` and checks it. The error names the violated limit.
            pub fn new(text: impl AsRef<str>) -> Result<Self> {
                Self::as_stored(normalized(text.as_ref()))
            }

            /// Checks a name that a store or ledger returned, and keeps its spelling.
            ///
            /// A client in another language may have stored a name that is not normalized. The store addresses its
            /// record by those bytes, so another spelling would be another record.
            pub fn as_stored(text: impl AsRef<str>) -> Result<Self> {
                let text = text.as_ref();
                check($kind, text)?;
                Ok(Self(Arc::from(text)))
            }

            /// Deserializes a name from a record, as [`as_stored`](Self::as_stored) does.
            #[allow(dead_code)]
            pub(crate) fn deserialize_as_stored<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Self::as_stored(Cow::<str>::deserialize(from)?).map_err(D::Error::custom)
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        checked_text!($name);

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Error;
            fn try_from(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl From<&$name> for $name {
            fn from(name: &$name) -> Self {
                name.clone()
            }
        }
    )*};
}

names! {
    /// Name of a lock.
    LockName = "the lock name";
    /// Name of a queue.
    QueueName = "the queue name";
    /// ID of a task. A queue holds at most one live record per ID.
    TaskId = "the task ID";
    /// Key of a task, such as a tenant. Tasks that share a key form a key group, with an order and limits of its own.
    TaskKey = "the task key";
    /// ID of a schedule. A queue holds at most one schedule per ID.
    ScheduleId = "the schedule ID";
    /// ID of a running worker, new at every start.
    WorkerId = "the worker ID";
    /// ID of an outbox, assigned by its database.
    OutboxId = "the outbox ID";
    /// ID of a sale.
    SaleId = "the sale ID";
    /// Stock keeping unit: a product of a sale, with units numbered 1..N.
    Sku = "the SKU";
    /// ID of a buyer.
    BuyerId = "the buyer ID";
    /// Idempotency key of one attempt to buy, chosen by the buyer. A repeated key gets the same answer and no second
    /// unit.
    IdempotencyKey = "the idempotency key";
    /// Media type of a payload, such as `application/json`.
    ContentType = "the content type";
}

impl ContentType {
    /// `application/json`.
    pub fn json() -> Self {
        Self(Arc::from("application/json"))
    }

    /// `application/octet-stream`.
    pub fn bytes() -> Self {
        Self(Arc::from("application/octet-stream"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_limits_and_errors_that_name_them() {
        for (text, part) in [
            ("", "is empty"),
            ("a b", "' '"),
            ("a\nb", "'\\n'"),
            ("a\u{7}b", "'\\u{7}'"),
            ("{a}", "'{'"),
            ("a\u{2003}b", "white space"),
            (".", "`.`"),
            ("..", "`..`"),
            ("a\u{202e}b", "'\\u{202e}'"),
            ("a\u{2066}b", "invisible"),
            ("a\u{200b}", "'\\u{200b}'"),
            ("a\u{200d}b", "invisible"),
            ("\u{feff}a", "invisible"),
            ("a\u{ad}b", "invisible"),
            ("a\u{e0041}", "invisible"),
        ] {
            let error = LockName::new(text).unwrap_err();
            assert!(error.is_invalid(), "{text:?}");
            assert!(error.to_string().contains(part), "{error} should contain {part}");
        }
        let error = TaskId::new("x".repeat(201)).unwrap_err();
        assert!(error.to_string().contains("201 bytes"), "{error}");
        assert!(TaskId::new("x".repeat(200)).is_ok());
        assert!(BuyerId::new("用户:42").is_ok());
        assert!(BuyerId::new("...").is_ok());
    }

    #[test]
    fn two_spellings_are_one_name() {
        for (composed, other) in
            [("Zo\u{eb}", "Zoe\u{308}"), ("\u{ac00}", "\u{1100}\u{1161}"), ("\u{c5}", "\u{212b}")]
        {
            assert_eq!(BuyerId::new(composed).unwrap(), BuyerId::new(other).unwrap());
            assert_eq!(BuyerId::new(other).unwrap().as_str(), composed);
        }
        // The limit applies to the normalized text.
        assert!(BuyerId::new("e\u{301}".repeat(100)).is_ok());
    }

    #[test]
    fn a_stored_name_keeps_its_spelling() {
        let stored = BuyerId::as_stored("Zoe\u{308}").unwrap();
        assert_eq!(stored.as_str(), "Zoe\u{308}");
        assert_ne!(stored, BuyerId::new("Zo\u{eb}").unwrap());
        assert!(BuyerId::as_stored("a b").is_err());
    }
}
