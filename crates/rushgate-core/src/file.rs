//! Files that only their owner may read.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Creates an empty file that only its owner may read and write (mode 0600), or leaves the one that is there as it is.
///
/// SQLite gives the files beside a database the mode of the database.
///
/// # Errors
/// Those of the system, for instance for a missing directory; nothing was created then.
pub fn create_private(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.map(drop),
    }
}
