use std::error::Error as StdError;
use std::fmt;

/// The result of asking a store: an answer, or an [`Error`] when the store could not tell.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a store could not answer: one opaque type that is asked questions.
///
/// It is opaque so that backends may learn to tell more faults apart without breaking anybody. Callers decide by
/// the `is_*` questions and by [`may_have_happened`](Error::may_have_happened); people read the `Display` form,
/// which says what failed, why, what it did to the data, and what to do next.
///
/// Outcomes are never errors: a held lock, an empty queue and a sold-out sale are enums.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    doing: Option<String>,
    field: Option<String>,
    why: String,
    hint: Option<String>,
    may_have_happened: bool,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Invalid,
    NotFound,
    Unavailable,
    Full,
    QueueReserved,
    Misconfigured,
    Corrupt,
    Bug,
}

impl Error {
    /// An argument is outside its documented range. Nothing was sent.
    pub fn invalid(field: &str, why: impl fmt::Display) -> Self {
        let mut error = Self::new(Kind::Invalid, format!("{field} {why}"));
        error.0.field = Some(field.to_owned());
        error
    }

    /// The thing that was named does not exist. Nothing was changed.
    pub fn not_found(what: impl fmt::Display) -> Self {
        Self::new(Kind::NotFound, format!("{what} does not exist"))
    }

    /// The store cannot be reached now, or did not answer in time.
    pub fn unavailable(why: impl fmt::Display) -> Self {
        Self::new(Kind::Unavailable, why)
    }

    /// The store has no room left for the write. Nothing was written.
    pub fn full(why: impl fmt::Display) -> Self {
        Self::new(Kind::Full, why)
    }

    /// The queue carries the orders of a sale. Nothing was changed.
    pub fn queue_reserved() -> Self {
        Self::new(Kind::QueueReserved, "the queue is reserved for the orders of a sale").hint(
            "use another queue; `rushgate sale orders` retries, deletes and pauses the orders of a sale",
        )
    }

    /// The queue that a sale names for its orders has been used for other tasks. Nothing was changed.
    pub fn orders_queue_in_use(queue: &crate::QueueName) -> Self {
        Self::invalid("the orders' queue", format_args!("`{queue}` has been used for other tasks"))
            .hint("name a queue that was never used: the store reserves it for the orders of sales")
    }

    /// The store is set up in a way in which the promises cannot be kept.
    pub fn misconfigured(why: impl fmt::Display) -> Self {
        Self::new(Kind::Misconfigured, why)
    }

    /// The stored data are damaged.
    pub fn corrupt(why: impl fmt::Display) -> Self {
        Self::new(Kind::Corrupt, why)
    }

    /// Rushgate itself is wrong.
    pub fn bug(why: impl fmt::Display) -> Self {
        Self::new(Kind::Bug, why)
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

    /// The same error, telling the reader what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.0.hint = Some(hint.to_string());
        self
    }

    /// The same error, saying what was being done. The first caller to say so wins: it knows most.
    #[must_use]
    pub fn doing(mut self, doing: impl fmt::Display) -> Self {
        self.0.doing.get_or_insert_with(|| doing.to_string());
        self
    }

    /// The same error, with the fault that caused it.
    #[must_use]
    pub fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Box::new(source));
        self
    }

    /// The same error, for a step whose outcome is unknown.
    #[must_use]
    pub fn maybe_happened(mut self) -> Self {
        self.0.may_have_happened = true;
        self
    }

    /// The same error, of a step that changes nothing in any case.
    #[must_use]
    pub fn of_a_look(mut self) -> Self {
        self.0.may_have_happened = false;
        self
    }

    /// True if an argument was outside its documented range. Correct the call; a retry cannot help.
    pub fn is_invalid(&self) -> bool {
        self.0.kind == Kind::Invalid
    }

    /// True if the sale, SKU, reservation or queue that was named does not exist.
    pub fn is_not_found(&self) -> bool {
        self.0.kind == Kind::NotFound
    }

    /// True if the store could not be reached or was too busy. A later retry with the same token is safe and may
    /// succeed.
    pub fn is_unavailable(&self) -> bool {
        self.0.kind == Kind::Unavailable
    }

    /// True if the store has no room (disk full, memory limit). Nothing was written; make room and retry.
    pub fn is_full(&self) -> bool {
        self.0.kind == Kind::Full
    }

    /// True if the queue is reserved for the orders of a sale: only the sale's own verbs and its order worker change
    /// it. Use another queue.
    pub fn is_queue_reserved(&self) -> bool {
        self.0.kind == Kind::QueueReserved
    }

    /// True if the store's set-up rules the promises out: a read-only file, a directory, a newer schema. An
    /// operator must act.
    pub fn is_misconfigured(&self) -> bool {
        self.0.kind == Kind::Misconfigured
    }

    /// True if the stored data are damaged. Nothing further was written.
    pub fn is_corrupt(&self) -> bool {
        self.0.kind == Kind::Corrupt
    }

    /// True if Rushgate broke one of its own rules. Please report it.
    pub fn is_bug(&self) -> bool {
        self.0.kind == Kind::Bug
    }

    /// Whether the step may have taken effect although no answer came. Retry with the same token to learn
    /// the answer: a step that did happen is not done twice.
    ///
    /// When this is false the data are as they were before the call.
    pub fn may_have_happened(&self) -> bool {
        self.0.may_have_happened
    }

    /// Which argument [`is_invalid`](Self::is_invalid) is about, in the words of the message: `the lease`.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// What to do next, if there is something to say.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// A stable word for the kind of fault, for programs that read JSON: `invalid`, `not_found`, `unavailable`,
    /// `full`, `queue_reserved`, `misconfigured`, `corrupt` or `bug`.
    pub fn code(&self) -> &'static str {
        match self.0.kind {
            Kind::Invalid => "invalid",
            Kind::NotFound => "not_found",
            Kind::Unavailable => "unavailable",
            Kind::Full => "full",
            Kind::QueueReserved => "queue_reserved",
            Kind::Misconfigured => "misconfigured",
            Kind::Corrupt => "corrupt",
            Kind::Bug => "bug",
        }
    }

    /// A copy without the source, for calls that failed together.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self(Box::new(Inner {
            kind: self.0.kind,
            doing: self.0.doing.clone(),
            field: self.0.field.clone(),
            why: self.0.why.clone(),
            hint: self.0.hint.clone(),
            may_have_happened: self.0.may_have_happened,
            source: None,
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(doing) = &self.0.doing {
            write!(f, "{doing}: ")?;
        }
        f.write_str(&self.0.why)?;
        if self.0.may_have_happened {
            f.write_str(" (the step may have happened; retry with the same token to learn)")?;
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
        assert!(error.to_string().contains("may have happened"));
    }

    #[test]
    fn the_innermost_caller_names_the_work() {
        let error = Error::unavailable("locked").doing("claim").doing("work");
        assert_eq!(error.to_string(), "claim: locked");
    }
}
