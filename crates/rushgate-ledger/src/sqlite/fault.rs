//! Translates SQLite errors into core's.

use rushgate_core::Error;
use rusqlite::ErrorCode;

use crate::words::Violation;

/// The error of a step that was rolled back or never began: the data is unchanged.
pub(crate) fn error(fault: rusqlite::Error) -> Error {
    let code = fault.sqlite_error_code();
    let error = match code {
        Some(ErrorCode::DiskFull) => {
            Error::full("the disk is full, or the ledger has reached its size limit")
                .hint("free disk space, then retry the call; nothing was written")
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::unavailable("another process has locked the ledger for too long")
                .hint("check which process has the file open, then retry the call")
        }
        Some(ErrorCode::DatabaseCorrupt) => Error::corrupt("the ledger file is damaged")
            .hint("stop the writers, keep a copy of the file and restore a backup"),
        Some(ErrorCode::NotADatabase) => Error::corrupt("the ledger file is not an SQLite database")
            .hint("check the path; if it is right, restore a backup"),
        Some(ErrorCode::ReadOnly) => Error::misconfigured("the ledger file is not writable")
            .hint("grant this user write permission on the file and its directory"),
        Some(
            ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied,
        ) => Error::misconfigured("cannot open the ledger file")
            .hint("check that the directory exists and that this user may write to it"),
        Some(ErrorCode::SystemIoFailure) => Error::unavailable("the disk failed to read or write the ledger")
            .hint("check the system log for disk errors"),
        Some(ErrorCode::OutOfMemory) => Error::unavailable("out of memory for the ledger"),
        _ if is_undecodable(&fault) => Error::corrupt("cannot read a row of the ledger")
            .hint("stop the writers, keep a copy of the file and restore a backup"),
        _ => Error::bug("SQLite refused a statement of the ledger"),
    };
    error.caused_by(fault)
}

/// The error of a failed COMMIT.
///
/// A full disk or a lock is reported before the commit's last frame is written, so nothing happened. After a failed
/// write or sync that frame may be on disk, and a later recovery would apply it.
pub(crate) fn commit_error(fault: rusqlite::Error) -> Error {
    let undecided = !matches!(
        fault.sqlite_error_code(),
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    );
    let error = error(fault);
    if undecided { error.maybe_happened() } else { error }
}

fn is_undecodable(fault: &rusqlite::Error) -> bool {
    matches!(
        fault,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::QueryReturnedNoRows
    )
}

/// The constraint that `fault` reports, or `None` for an error of another kind.
pub(super) fn violation(fault: &rusqlite::Error) -> Option<Violation> {
    let rusqlite::Error::SqliteFailure(code, Some(message)) = fault else { return None };
    if code.code != ErrorCode::ConstraintViolation {
        return None;
    }
    // SQLite reports the columns of an index, the name of a CHECK, and the text of a RAISE.
    Violation::named(match message.as_str() {
        "UNIQUE constraint failed: order_unit.sku, order_unit.unit" => "unit_taken",
        "CHECK constraint failed: limit_reached" => "limit_reached",
        "UNIQUE constraint failed: order_unit.sku, order_unit.buyer, order_unit.slot" => "slot_taken",
        "UNIQUE constraint failed: orders.sale, orders.generation, orders.seq" => "sequence_reused",
        text => text.split_once(':')?.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None)
    }

    #[test]
    fn every_kind_of_fault_is_distinguished() {
        use rusqlite::ffi;
        for (code, kind) in [
            (ffi::SQLITE_FULL, "full"),
            (ffi::SQLITE_BUSY, "unavailable"),
            (ffi::SQLITE_LOCKED, "unavailable"),
            (ffi::SQLITE_IOERR_READ, "unavailable"),
            (ffi::SQLITE_NOMEM, "unavailable"),
            (ffi::SQLITE_CORRUPT, "corrupt"),
            (ffi::SQLITE_NOTADB, "corrupt"),
            (ffi::SQLITE_READONLY, "misconfigured"),
            (ffi::SQLITE_CANTOPEN, "misconfigured"),
            (ffi::SQLITE_PERM, "misconfigured"),
            (ffi::SQLITE_MISUSE, "bug"),
            (ffi::SQLITE_CONSTRAINT, "bug"),
        ] {
            assert_eq!(error(fault(code)).code(), kind, "{code}");
            assert!(!error(fault(code)).may_have_happened());
        }
    }

    #[test]
    fn only_a_commit_that_failed_on_its_way_to_the_disk_may_have_happened() {
        use rusqlite::ffi;
        assert!(commit_error(fault(ffi::SQLITE_IOERR_FSYNC)).may_have_happened());
        assert!(commit_error(fault(ffi::SQLITE_IOERR_WRITE)).may_have_happened());
        assert!(!commit_error(fault(ffi::SQLITE_FULL)).may_have_happened());
        assert!(!commit_error(fault(ffi::SQLITE_BUSY)).may_have_happened());
    }
}
