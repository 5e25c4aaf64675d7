//! Checks a store file: free space, write-ahead log and file system.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rustix::fs::{statfs, statvfs};

use super::findings::{Findings, bytes};

/// Below this, the disk may soon be full.
const FREE_MIN: u64 = 256 << 20;
/// A larger write-ahead log has a reader that never ends.
const LOG_MAX: u64 = 512 << 20;
/// File systems on which SQLite's locks cannot be trusted, by their magic numbers.
const NETWORK: [(i64, &str); 4] =
    [(0x6969, "NFS"), (0x517B, "SMB"), (0xFF53_4D42, "CIFS"), (0xFE53_4D42, "SMB2")];

pub(super) fn look(file: &Path, findings: &mut Findings) {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    let size = |path: &Path| path.metadata().ok().map(|data| data.len());
    findings.file = Some(file.to_owned());
    findings.file_bytes = size(file);
    findings.log_bytes = size(Path::new(&log));
    findings.schema = schema(file);
    findings.free_bytes = statvfs(file).ok().map(|fs| fs.f_bavail.saturating_mul(fs.f_frsize));
    if let Some(free) = findings.free_bytes.filter(|free| *free < FREE_MIN) {
        findings.warn(
            format!("the disk has only {} free", bytes(free)),
            "free disk space: a full store accepts no writes, but loses no data",
        );
    }
    if let Some(log) = findings.log_bytes.filter(|log| *log > LOG_MAX) {
        findings.warn(
            format!(
                "the write-ahead log has {}; an open read transaction may keep it from shrinking",
                bytes(log)
            ),
            "end the process with the long read transaction; the log shrinks with the next writes",
        );
    }
    if let Some(name) = network(file) {
        findings.warn(
            format!("the file is on {name}, which processes on several machines cannot share"),
            "move it to a local disk, or use a Redis or Valkey server",
        );
    }
}

/// Schema version in the file's header (<https://www.sqlite.org/fileformat.html#the_database_header>): "user
/// version" at offset 60. Zero means that it is still in the log.
fn schema(file: &Path) -> Option<u32> {
    let mut header = [0; 64];
    File::open(file).ok()?.read_exact(&mut header).ok()?;
    let version = u32::from_be_bytes([header[60], header[61], header[62], header[63]]);
    (version != 0).then_some(version)
}

fn network(file: &Path) -> Option<&'static str> {
    let kind = statfs(file).ok()?.f_type as i64;
    NETWORK.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name)
}
