use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::field::Subject;

/// Result of a store call: an outcome, or an [`Error`] if the store could not answer.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store could not answer: an opaque type with predicates.
///
/// Callers branch on the `is_*` methods and on [`may_have_happened`](Error::may_have_happened). The `Display` form is
/// for people: it says what failed, why, what happened to the data, and what to do next. The type is opaque so that
/// backends can distinguish more faults without breaking callers.
///
/// Outcomes are never errors: a held lock, an empty queue and a sold-out sale are enums.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    doing: Option<String>,
    field: Option<&'static str>,
    why: String,
    hint: Option<String>,
    may_have_happened: bool,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Invalid,
    NotFound,
    Forbidden,
    Unavailable,
    Full,
    Misconfigured,
    Corrupt,
    Bug,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Invalid,
        Self::NotFound,
        Self::Forbidden,
        Self::Unavailable,
        Self::Full,
        Self::Misconfigured,
        Self::Corrupt,
        Self::Bug,
    ];

    const fn code(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotFound => "not_found",
            Self::Forbidden => "forbidden",
            Self::Unavailable => "unavailable",
            Self::Full => "full",
            Self::Misconfigured => "misconfigured",
            Self::Corrupt => "corrupt",
            Self::Bug => "bug",
        }
    }
}

impl Error {
    /// Creates an error for an argument outside its documented range. Nothing was sent.
    pub fn invalid<'a>(what: impl Into<Subject<'a>>, why: impl fmt::Display) -> Self {
        let Subject { words, field } = what.into();
        let mut error = Self::new(Kind::Invalid, format!("{words} {why}"));
        error.0.field = field;
        error
    }

    /// Creates an error for two fields of a request that exclude each other. Nothing was sent.
    pub fn either(field: &'static str, other: &str) -> Self {
        let mut error = Self::new(Kind::Invalid, format!("set {field} or {other}, not both"));
        error.0.field = Some(field);
        error
    }

    /// Creates an error for a named object that does not exist. Nothing was changed.
    pub fn not_found(what: impl fmt::Display) -> Self {
        Self::new(Kind::NotFound, format!("{what} does not exist"))
    }

    /// Creates an error for a server that refuses the client's API token. Nothing was changed.
    pub fn forbidden(why: impl fmt::Display) -> Self {
        Self::new(Kind::Forbidden, why)
    }

    /// Creates an error for a store that cannot be reached, or did not answer in time.
    pub fn unavailable(why: impl fmt::Display) -> Self {
        Self::new(Kind::Unavailable, why)
    }

    /// Creates an error for a store that has no space left for the write. Nothing was written.
    pub fn full(why: impl fmt::Display) -> Self {
        Self::new(Kind::Full, why)
    }

    /// Creates an error for a store whose configuration rules out its guarantees.
    pub fn misconfigured(why: impl fmt::Display) -> Self {
        Self::new(Kind::Misconfigured, why)
    }

    /// Creates an error for damaged stored data.
    pub fn corrupt(why: impl fmt::Display) -> Self {
        Self::new(Kind::Corrupt, why)
    }

    /// Creates an error for a bug in Rushgate.
    pub fn bug(why: impl fmt::Display) -> Self {
        Self::new(Kind::Bug, why)
    }

    /// Creates the error that a server reported by its [code](Self::code), or by one of the codes with which a server
    /// refuses a request for the moment. An unknown code counts as a bug.
    pub fn reported(code: &str, why: impl fmt::Display) -> Self {
        match code {
            "outcome_unknown" => Self::unavailable(why).maybe_happened(),
            "too_many" | "closing" | "request_timeout" => Self::unavailable(why),
            _ => {
                let kind = Kind::ALL.into_iter().find(|kind| kind.code() == code);
                Self::new(kind.unwrap_or(Kind::Bug), why)
            }
        }
    }

    fn new(kind: Kind, why: impl fmt::Display) -> Self {
        Self(Box::new(Inner {
            kind,
            doing: None,
            field: None,
            why: why.to_string(),
            hint: None,
            may_have_happened: false,
            source: None,
        }))
    }

    /// Sets the hint: what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.0.hint = Some(hint.to_string());
        self
    }

    /// Sets the operation that failed. The first call wins, because the innermost caller knows most.
    #[must_use]
    pub fn doing(mut self, doing: impl fmt::Display) -> Self {
        self.0.doing.get_or_insert_with(|| doing.to_string());
        self
    }

    /// Sets the underlying error.
    #[must_use]
    pub fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// Marks the outcome of the step as unknown. See [`may_have_happened`](Self::may_have_happened).
    #[must_use]
    pub fn maybe_happened(mut self) -> Self {
        self.0.may_have_happened = true;
        self
    }

    /// Marks the step as read-only: it cannot have taken effect.
    #[must_use]
    pub fn of_a_look(mut self) -> Self {
        self.0.may_have_happened = false;
        self
    }

    /// True if an argument was outside its documented range. Correct the call; a retry cannot succeed.
    pub fn is_invalid(&self) -> bool {
        self.0.kind == Kind::Invalid
    }

    /// True if the named sale, SKU, reservation or queue does not exist.
    pub fn is_not_found(&self) -> bool {
        self.0.kind == Kind::NotFound
    }

    /// True if a Rushgate server refused the API token, or its role or scopes do not allow the call. Use another token.
    pub fn is_forbidden(&self) -> bool {
        self.0.kind == Kind::Forbidden
    }

    /// True if the store could not be reached or was too busy. A retry with the same token is safe and may succeed.
    pub fn is_unavailable(&self) -> bool {
        self.0.kind == Kind::Unavailable
    }

    /// True if the store has no space (disk full, memory limit). Nothing was written. Free space, then retry.
    pub fn is_full(&self) -> bool {
        self.0.kind == Kind::Full
    }

    /// True if the store's configuration rules out its guarantees: a read-only file, a directory, a newer schema. An
    /// operator must act.
    pub fn is_misconfigured(&self) -> bool {
        self.0.kind == Kind::Misconfigured
    }

    /// True if the stored data is damaged. Nothing further was written.
    pub fn is_corrupt(&self) -> bool {
        self.0.kind == Kind::Corrupt
    }

    /// True if Rushgate violated one of its own invariants. Please report it.
    pub fn is_bug(&self) -> bool {
        self.0.kind == Kind::Bug
    }

    /// True if the step may have taken effect although no answer arrived. Retry with the same token to get the
    /// answer: a step that took effect is not repeated.
    ///
    /// If false, the data is unchanged.
    pub fn may_have_happened(&self) -> bool {
        self.0.may_have_happened
    }

    /// Name in JSON of the field that [`is_invalid`](Self::is_invalid) refers to, such as `lease_ms`; `None` if the
    /// argument is no field of a request.
    pub fn field(&self) -> Option<&'static str> {
        self.0.field
    }

    /// The hint: what to do next, if known.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Stable identifier of the kind of fault, for JSON output: `invalid`, `not_found`, `forbidden`,
    /// `unavailable`, `full`, `misconfigured`, `corrupt` or `bug`.
    pub fn code(&self) -> &'static str {
        self.0.kind.code()
    }

    /// A copy that shares the underlying error, for calls that failed together.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self(Box::new(Inner {
            kind: self.0.kind,
            doing: self.0.doing.clone(),
            field: self.0.field,
            why: self.0.why.clone(),
            hint: self.0.hint.clone(),
            may_have_happened: self.0.may_have_happened,
            source: self.0.source.clone(),
        }))
    }
}

/// The messages of an error and of its causes. The innermost one, such as that of a database, is the last.
pub fn with_causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(doing) = &self.0.doing {
            write!(f, "{doing}: ")?;
        }
        f.write_str(&self.0.why)?;
        if self.0.may_have_happened {
            f.write_str(" (it may have taken effect; retry with the same token to find out)")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("doing", &self.0.doing)
            .field("why", &self.0.why)
            .field("hint", &self.0.hint)
            .field("may_have_happened", &self.0.may_have_happened)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|s| s.as_ref() as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_says_what_failed_and_why_and_hides_the_hint() {
        let error =
            Error::full("the disk is full").doing("enqueue on queue `orders`").hint("free some space");
        assert_eq!(error.to_string(), "enqueue on queue `orders`: the disk is full");
        assert_eq!(error.hint_text(), Some("free some space"));
        assert!(error.is_full() && !error.may_have_happened());
    }

    #[test]
    fn an_unknown_outcome_is_said_aloud() {
        let error = Error::unavailable("the commit was not acknowledged").maybe_happened();
        assert!(error.may_have_happened());
        assert!(error.to_string().contains("may have taken effect"));
    }

    #[test]
    fn calls_that_failed_together_have_the_same_cause() {
        let error = Error::unavailable("the ledger is down").caused_by(std::io::Error::other("disk on fire"));
        let copy = error.duplicate().doing("write");
        assert_eq!(copy.to_string(), "write: the ledger is down");
        assert_eq!(copy.source().map(ToString::to_string).as_deref(), Some("disk on fire"));
    }

    #[test]
    fn the_innermost_caller_names_the_work() {
        let error = Error::unavailable("locked").doing("claim").doing("work");
        assert_eq!(error.to_string(), "claim: locked");
    }
}
