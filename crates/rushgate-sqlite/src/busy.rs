//! Waiting for the other processes that use the file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;

/// Tries until the file is not locked by another process, or the limit has passed.
///
/// The naps are short and uneven. SQLite's own handler sleeps up to 100 ms at a time, which starves whoever came
/// first when several processes write without a pause, and it is not asked at all when two processes switch a fresh
/// file to write-ahead logging at the same moment.
pub(crate) fn patiently<T>(
    limit: Duration,
    mut attempt: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    // Most attempts succeed at once: the clock is read only if not.
    let (mut end, mut tries) = (None, 0);
    loop {
        match attempt() {
            Err(fault) if is_busy(&fault) => {
                if Instant::now() >= *end.get_or_insert_with(|| Instant::now() + limit) {
                    return Err(fault);
                }
                nap(tries);
                tries += 1;
            }
            other => return other,
        }
    }
}

fn is_busy(fault: &rusqlite::Error) -> bool {
    fault.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

fn nap(tries: u64) {
    static NAPS: AtomicU64 = AtomicU64::new(0);
    let micros = if tries < 10 { 20 } else { 80 + NAPS.fetch_add(17, Ordering::Relaxed) % 40 };
    std::thread::sleep(Duration::from_micros(micros));
}
