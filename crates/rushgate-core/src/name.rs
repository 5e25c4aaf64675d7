use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The longest name, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 200;

/// Names are 1 to 200 bytes of UTF-8 without white space, control characters or braces.
///
/// Braces are kept out because Redis Cluster reads them as a hash tag.
fn check(kind: &str, text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(kind, "is empty; give it 1 to 200 bytes"));
    }
    if text.len() > MAX_NAME_BYTES {
        return Err(Error::invalid(
            kind,
            format_args!("has {} bytes; at most {MAX_NAME_BYTES} are allowed", text.len()),
        ));
    }
    match text.chars().find(|c| c.is_control() || c.is_whitespace() || matches!(c, '{' | '}')) {
        Some(c) => Err(Error::invalid(
            kind,
            format_args!("contains {c:?}; white space, control characters and braces are not allowed"),
        )),
        None => Ok(()),
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $kind:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// 1 to 200 bytes of UTF-8 without white space, control characters, `{` or `}`. Cheap to clone.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` against the limits. The error says which limit it broke.
            pub fn new(text: impl AsRef<str>) -> Result<Self> {
                let text = text.as_ref();
                check($kind, text)?;
                Ok(Self(Arc::from(text)))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Error;
            fn try_from(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(text: String) -> Result<Self> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
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
    /// The name of a lock.
    LockName = "the lock's name";
    /// The name of a queue.
    QueueName = "the queue's name";
    /// The id of a task: a queue holds at most one live record for each.
    TaskId = "the task's id";
    /// What a queue's tasks are for, such as a tenant: those of one key stand in line, and have limits of their own.
    TaskKey = "the task's key";
    /// The id of a schedule: a queue holds at most one for each.
    ScheduleId = "the schedule's id";
    /// The id of an outbox, which its database gives it.
    OutboxId = "the outbox's id";
    /// The id of a sale.
    SaleId = "the sale's id";
    /// A stock keeping unit: the thing of which a sale has units numbered 1..N.
    Sku = "the SKU";
    /// Who buys.
    BuyerId = "the buyer's id";
    /// The buyer's own name for one attempt to buy: sending it again gives the same answer and no second unit.
    IdempotencyKey = "the idempotency key";
    /// The media type of a payload, such as `application/json`.
    ContentType = "the content type";
}

impl TaskId {
    /// A name that Rushgate made itself, within the limits by construction.
    pub(crate) fn made_of(text: &str) -> Self {
        Self(Arc::from(text))
    }
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
        ] {
            let error = LockName::new(text).unwrap_err();
            assert!(error.is_invalid(), "{text:?}");
            assert!(error.to_string().contains(part), "{error} should contain {part}");
        }
        let error = TaskId::new("x".repeat(201)).unwrap_err();
        assert!(error.to_string().contains("201 bytes"), "{error}");
        assert!(TaskId::new("x".repeat(200)).is_ok());
        assert!(BuyerId::new("用户:42").is_ok());
    }
}
