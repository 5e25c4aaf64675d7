//! Scopes: which locks, queues and sales a token is for.

use std::fmt;
use std::str::FromStr;

use rushgate::Error;
use rushgate::store::normalized;
use serde::{Deserialize, Serialize};

/// Kinds of resources that a scope can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A lock.
    Lock,
    /// A queue.
    Queue,
    /// A sale.
    Sale,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Lock, Self::Queue, Self::Sale];

    /// Its name, which is also its placeholder in a path: `{queue}`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Queue => "queue",
            Self::Sale => "sale",
        }
    }
}

/// A set of names of one kind: `queue:mail` for one queue, `queue:mail*` for a prefix, `queue:*` for all queues.
///
/// ```
/// use rushgate_server::{Kind, Scope};
///
/// let mail: Scope = "queue:mail*".parse()?;
/// assert!(mail.covers(Kind::Queue, "mail-out") && !mail.covers(Kind::Lock, "mail-out"));
/// # Ok::<_, rushgate::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Scope {
    kind: Kind,
    name: String,
    is_prefix: bool,
}

impl Scope {
    /// Whether the scope covers this name.
    pub fn covers(&self, kind: Kind, name: &str) -> bool {
        self.kind == kind && if self.is_prefix { name.starts_with(&self.name) } else { name == self.name }
    }
}

impl FromStr for Scope {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::invalid("the scope", format_args!("`{text}` is malformed")).hint(
                "write KIND:NAME, such as queue:mail, queue:mail* or lock:*; kinds are lock, queue and sale",
            )
        };
        let text = normalized(text);
        let (kind, name) = text.split_once(':').ok_or_else(wrong)?;
        let kinds = [Kind::Lock, Kind::Queue, Kind::Sale];
        let kind = kinds.into_iter().find(|known| known.word() == kind).ok_or_else(wrong)?;
        let (name, is_prefix) = name.strip_suffix('*').map_or((name, false), |prefix| (prefix, true));
        if name.contains('*') || name.is_empty() && !is_prefix {
            return Err(wrong());
        }
        Ok(Self { kind, name: name.to_owned(), is_prefix })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}{}", self.kind.word(), self.name, if self.is_prefix { "*" } else { "" })
    }
}

impl TryFrom<String> for Scope {
    type Error = Error;
    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> String {
        scope.to_string()
    }
}

/// Refuses scopes that make no sense for a buyer.
pub(crate) fn check_sales(scopes: &[Scope]) -> Result<(), Error> {
    match scopes.iter().find(|scope| scope.kind != Kind::Sale) {
        Some(scope) => Err(Error::invalid("the scope", format_args!("`{scope}` does not apply to buyers"))
            .hint("use a sale, such as sale:phones or sale:*")),
        None => Ok(()),
    }
}
