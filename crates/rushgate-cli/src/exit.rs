//! Exit statuses, which are stable for scripts, and the faults that cause them.

use std::fmt;
use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done,
    /// Refused: for example a stale ticket, a busy lock or a failed audit.
    Refused,
    /// Wrong usage.
    Usage,
    /// Not allowed.
    NotAllowed,
    /// The store is unavailable.
    Unavailable,
    /// No answer came; the step may have happened.
    MayHaveHappened,
    /// A bug in Rushgate.
    Bug,
    /// `lock run`: the status of its command, or 128+n if signal n killed it.
    Passed(u8),
}

impl Exit {
    /// Every status of Rushgate's own, with its meaning.
    pub(crate) const OWN: [(Self, &str); 7] = [
        (Self::Done, "done"),
        (Self::Refused, "refused: lock busy or lost, stale ticket, sold out, audit failed"),
        (Self::Usage, "usage error: unknown option, invalid name, value out of range, bad file"),
        (Self::NotAllowed, "forbidden"),
        (Self::Unavailable, "store unavailable: unreachable, full, misconfigured or damaged"),
        (Self::MayHaveHappened, "outcome unknown: no response, and the step may have taken effect"),
        (Self::Bug, "bug in Rushgate: please report it"),
    ];

    /// Numeric exit status.
    pub(crate) const fn status(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refused => 1,
            Self::Usage => 2,
            Self::NotAllowed => 3,
            Self::Unavailable => 4,
            Self::MayHaveHappened => 5,
            Self::Bug => 70,
            Self::Passed(status) => status,
        }
    }

    /// Done or refused.
    pub(crate) const fn done_if(done: bool) -> Self {
        if done { Self::Done } else { Self::Refused }
    }

    /// Exit status for an error of the store.
    fn of(error: &rushgate::Error) -> Self {
        let down =
            error.is_unavailable() || error.is_full() || error.is_misconfigured() || error.is_corrupt();
        match () {
            () if error.may_have_happened() => Self::MayHaveHappened,
            () if down => Self::Unavailable,
            () if error.is_invalid() => Self::Usage,
            () if error.is_not_found() => Self::Refused,
            () if error.is_forbidden() => Self::NotAllowed,
            () => Self::Bug,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.status())
    }
}

/// A fault found by the command line itself.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) exit: Exit,
    /// Stable code for programs that read JSON.
    pub(crate) code: &'static str,
    message: String,
    hint: Option<String>,
}

impl Fault {
    /// The arguments or the configuration file are wrong.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// The request was refused.
    pub(crate) fn refused(code: &'static str, message: impl fmt::Display) -> Self {
        Self::new(Exit::Refused, code, message)
    }

    pub(crate) fn new(exit: Exit, code: &'static str, message: impl fmt::Display) -> Self {
        Self { exit, code, message: message.to_string(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

/// The reader of a listing has closed the pipe. Not a fault.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reader of stdout has closed it")
    }
}

impl std::error::Error for ReaderGone {}

/// An error with its chain of causes.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

/// An error, prepared for display.
pub(crate) struct Verdict {
    pub(crate) exit: Exit,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) may_have_happened: bool,
}

impl Verdict {
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        let message = error.to_string();
        if let Some(fault) = error.downcast_ref::<Fault>() {
            let may_have_happened = fault.exit == Exit::MayHaveHappened;
            return Self {
                exit: fault.exit,
                code: fault.code,
                message,
                hint: fault.hint.clone(),
                may_have_happened,
            };
        }
        match error.chain().find_map(|cause| cause.downcast_ref::<rushgate::Error>()) {
            Some(cause) => Self {
                exit: Exit::of(cause),
                code: cause.code(),
                message,
                hint: cause.hint_text().map(str::to_owned),
                may_have_happened: cause.may_have_happened(),
            },
            None => Self {
                exit: Exit::Bug,
                code: "bug",
                message: format!("{error:#}"),
                hint: None,
                may_have_happened: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_may_have_happened_is_never_called_unavailable() {
        let error = rushgate::Error::unavailable("the disk is gone");
        assert_eq!(Exit::of(&error), Exit::Unavailable);
        assert_eq!(Exit::of(&error.maybe_happened()), Exit::MayHaveHappened);
    }

    #[test]
    fn statuses_are_those_that_the_documents_name() {
        let statuses: Vec<_> = Exit::OWN.iter().map(|(exit, _)| exit.status()).collect();
        assert_eq!(statuses, [0, 1, 2, 3, 4, 5, 70]);
    }
}
