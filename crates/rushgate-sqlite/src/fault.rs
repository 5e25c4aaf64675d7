//! Translates SQLite's errors into core's, in one place.

use std::panic::AssertUnwindSafe;

use rushgate_core::Error;
use rusqlite::{ErrorCode, ffi};

/// Why a step stopped without an answer.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The request was refused. Nothing was written: a step refuses before its first write.
    Refused(Error),
    /// SQLite failed. The step's writes must be rolled back.
    Fault(rusqlite::Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(fault: rusqlite::Error) -> Self {
        Self::Fault(fault)
    }
}

pub(crate) type Result<T> = std::result::Result<T, Stop>;

/// Runs a step. A panic fails only its own call.
pub(crate) fn caught<T>(verb: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing that the step may have left inconsistent is used again: the step is rolled back.
    let ran = std::panic::catch_unwind(AssertUnwindSafe(verb));
    ran.unwrap_or_else(|_| {
        Err(Error::bug("Rushgate panicked; nothing was changed").hint("please report it").into())
    })
}

/// Tells a stop that is about the stored values themselves from a failure of SQLite, which is passed on.
pub(crate) fn about_values<T>(step: Result<T>) -> Result<rushgate_core::Result<T>> {
    match step {
        Ok(value) => Ok(Ok(value)),
        Err(Stop::Refused(error)) => Ok(Err(error)),
        Err(Stop::Fault(fault)) if fault.sqlite_error_code().is_none() => {
            Ok(Err(Error::corrupt(format_args!("a stored value cannot be read ({fault})"))))
        }
        Err(stop) => Err(stop),
    }
}

/// Converts a stop to the caller's error.
pub(crate) fn explain(stop: Stop, path: &str) -> Error {
    match stop {
        Stop::Refused(error) => error,
        Stop::Fault(fault) => translate(fault, path),
    }
}

/// Converts an SQLite error to the caller's error, for a step that was rolled back. `path` is the store's file, for
/// the message.
pub(crate) fn translate(fault: rusqlite::Error, path: &str) -> Error {
    let text = match fault.sqlite_error() {
        Some(error) => format!("{fault}; SQLite code {}", error.extended_code),
        None => fault.to_string(),
    };
    let unchanged = |what: &str| format!("{what} ({text}); nothing was changed");
    let error = match fault.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::full(unchanged(&format!("the disk is full, or `{path}` has reached its size limit")))
            .hint("free disk space or raise the store's limit, then retry"),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed) => {
            Error::unavailable(unchanged(&format!("another process has kept `{path}` locked for too long")))
                .hint("retry; check for a process that keeps a transaction open on this file")
        }
        Some(ErrorCode::DatabaseCorrupt) => damaged(&unchanged(&format!("`{path}` is damaged"))),
        Some(ErrorCode::NotADatabase) => {
            Error::corrupt(unchanged(&format!("`{path}` is not an SQLite database")))
                .hint("use another file, or move this one")
        }
        Some(ErrorCode::ReadOnly) if is_moved(&fault) => moved(path),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => read_only(path),
        Some(ErrorCode::CannotOpen) => Error::misconfigured(unchanged(&format!(
            "cannot open `{path}` or its write-ahead log"
        )))
        .hint("check that this user has write permission on the file and its directory, and the limit of open files"),
        Some(ErrorCode::SystemIoFailure) => {
            Error::unavailable(unchanged(&format!("the disk failed while `{path}` was in use")))
                .hint("check the system log: the disk may be full, missing or broken")
        }
        Some(ErrorCode::OutOfMemory) => {
            Error::unavailable(unchanged("SQLite is out of memory")).hint("retry with more memory")
        }
        // Not an SQLite error code: a stored value has an unexpected form.
        None => damaged(&unchanged(&format!("`{path}` contains a value that cannot be read"))),
        Some(_) => Error::bug(unchanged(&format!("an SQLite statement failed on `{path}`"))),
    };
    error.caused_by(fault)
}

/// Whether SQLite found the file itself damaged. A value that cannot be read concerns only what it belongs to.
pub(crate) fn is_damaged_file(error: &Error) -> bool {
    let fault = std::error::Error::source(error).and_then(|source| source.downcast_ref::<rusqlite::Error>());
    let code = fault.and_then(rusqlite::Error::sqlite_error_code);
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn damaged(why: &str) -> Error {
    Error::corrupt(why).hint("restore it from a backup, or recover it with `sqlite3 FILE .recover`")
}

/// The error of a file without write permission.
pub(crate) fn read_only(path: &str) -> Error {
    Error::misconfigured(format_args!("`{path}` is not writable; nothing was changed")).hint(
        "grant the user that runs Rushgate write permission on the file and its directory, or use another file",
    )
}

/// The error of a file that was moved, deleted or replaced.
pub(crate) fn moved(path: &str) -> Error {
    let why =
        format_args!("`{path}` was moved, deleted or replaced while it was in use; nothing was changed");
    Error::misconfigured(why).hint("restore the file, or restart this process to use the current one")
}

fn is_moved(fault: &rusqlite::Error) -> bool {
    fault.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_READONLY_DBMOVED)
}

/// Converts the error of a commit: either nothing was changed, or the outcome is unknown.
///
/// When the disk is full, SQLite stops before it writes the commit record. Any other error may have come after it: a
/// failed sync leaves the record in the log, where a restart may or may not find it.
pub(crate) fn translate_commit(fault: rusqlite::Error, path: &str) -> Error {
    match fault.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy) => translate(fault, path),
        _ => Error::unavailable(format_args!("the disk failed during a commit to `{path}` ({fault})"))
            .hint("check the system log, then restart this process and retry")
            .caused_by(fault)
            .maybe_happened(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn every_fault_has_its_kind_and_says_what_to_do_and_that_nothing_was_changed() {
        for (code, kind) in [
            (ffi::SQLITE_FULL, "full"),
            (ffi::SQLITE_BUSY, "unavailable"),
            (ffi::SQLITE_BUSY_RECOVERY, "unavailable"),
            (ffi::SQLITE_BUSY_SNAPSHOT, "unavailable"),
            (ffi::SQLITE_PROTOCOL, "unavailable"),
            (ffi::SQLITE_IOERR_READ, "unavailable"),
            (ffi::SQLITE_IOERR_SHMSIZE, "unavailable"),
            (ffi::SQLITE_NOMEM, "unavailable"),
            (ffi::SQLITE_CORRUPT, "corrupt"),
            (ffi::SQLITE_CORRUPT_INDEX, "corrupt"),
            (ffi::SQLITE_NOTADB, "corrupt"),
            (ffi::SQLITE_READONLY, "misconfigured"),
            (ffi::SQLITE_READONLY_CANTINIT, "misconfigured"),
            (ffi::SQLITE_READONLY_DBMOVED, "misconfigured"),
            (ffi::SQLITE_PERM, "misconfigured"),
            (ffi::SQLITE_CANTOPEN, "misconfigured"),
        ] {
            let error = translate(fault(code), "x.db");
            assert_eq!(error.code(), kind, "{code}");
            assert!(error.to_string().contains("nothing was changed"), "{error}");
            assert!(error.hint_text().is_some() && !error.may_have_happened(), "{error:?}");
        }
        assert!(translate(fault(ffi::SQLITE_CONSTRAINT_CHECK), "x.db").is_bug());
        assert!(translate(rusqlite::Error::InvalidColumnIndex(0), "x.db").is_corrupt());
    }

    #[test]
    fn a_panic_is_a_bug_of_one_call() {
        let Err(Stop::Refused(error)) = caught(|| -> Result<()> { panic!("on purpose") }) else {
            panic!("the panic was not caught");
        };
        assert!(error.is_bug());
    }

    #[test]
    fn only_a_commit_without_room_is_known_not_to_have_happened() {
        let full = translate_commit(fault(ffi::SQLITE_FULL), "x.db");
        assert!(full.is_full() && !full.may_have_happened());
        for code in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_NOMEM] {
            let error = translate_commit(fault(code), "x.db");
            assert!(error.is_unavailable() && error.may_have_happened(), "{error}");
        }
    }
}
