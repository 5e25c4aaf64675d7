//! Files that only their owner may read.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Creates an empty file that only its owner can read and write (mode 0600). Leaves an existing file unchanged.
///
/// SQLite gives its companion files (WAL, shared memory) the mode of the database.
///
/// # Errors
/// The operating system's error, for example for a missing directory. Nothing was created.
pub fn create_private(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.map(drop),
    }
}
