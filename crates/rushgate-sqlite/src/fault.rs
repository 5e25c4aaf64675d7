//! SQLite's faults, translated into core's words at this one place.

use rushgate_core::Error;
use rusqlite::ErrorCode;

/// Why a verb stopped before its answer.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The request cannot be carried out. Nothing was written: verbs refuse before their first write.
    Refused(Error),
    /// SQLite failed. Whatever the verb wrote must be rolled back.
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

/// What a fault of SQLite means to a caller. `path` is the store's file, for the reader's sake.
pub(crate) fn translate(fault: rusqlite::Error, path: &str) -> Error {
    let text = fault.to_string();
    let error = match fault.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::full(format_args!("no room is left for `{path}` ({text})"))
            .hint("free some space on the disk, then try again; nothing was written"),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::unavailable(format_args!("another process has kept `{path}` locked for too long ({text})"))
                .hint("look for a process that holds a write transaction open on this file")
        }
        Some(ErrorCode::DatabaseCorrupt) => Error::corrupt(format_args!("`{path}` is damaged ({text})"))
            .hint("restore it from a backup, or salvage it with `sqlite3 FILE .recover`"),
        Some(ErrorCode::NotADatabase) => {
            Error::corrupt(format_args!("`{path}` is not an SQLite database ({text})"))
                .hint("name another file, or move this one away")
        }
        Some(ErrorCode::ReadOnly) => {
            Error::misconfigured(format_args!("`{path}` cannot be written to ({text})"))
                .hint("give the user that runs Rushgate write permission on the file and its directory")
        }
        Some(ErrorCode::PermissionDenied) => {
            Error::misconfigured(format_args!("`{path}` may not be opened ({text})"))
                .hint("give the user that runs Rushgate permission on the file and its directory")
        }
        Some(ErrorCode::CannotOpen) => {
            Error::misconfigured(format_args!("`{path}` cannot be opened ({text})"))
                .hint("the directory must exist and the path must name a file")
        }
        Some(ErrorCode::SystemIoFailure) => {
            Error::unavailable(format_args!("the disk failed while `{path}` was in use ({text})"))
                .hint("look at the system's log; restart this process once the disk is well")
        }
        Some(ErrorCode::OutOfMemory) => Error::unavailable(format_args!("SQLite ran out of memory ({text})")),
        _ => Error::bug(format_args!("an SQLite statement failed on `{path}`: {text}")),
    };
    error.caused_by(fault)
}
