//! Retries while other processes have the file locked.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;

/// Retries `attempt` while another process has the file locked, for at most `limit`.
///
/// The pauses are short and random. SQLite's own busy handler sleeps up to 100 ms at a time, which starves the
/// longest waiting process when several write continuously. SQLite does not call it at all when two processes switch
/// a new file to write-ahead logging at the same time.
pub(crate) fn retry_while_busy<T>(
    limit: Duration,
    mut attempt: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    // Most attempts succeed at once, so the clock is read only after a failure.
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
