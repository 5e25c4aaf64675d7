//! Waits for a write to the store's file, by any process.
//!
//! Each commit writes to SQLite's write-ahead log, and the kernel reports the write (inotify) a moment before other
//! connections see the commit. So a caller checks again after a pause, and makes the pauses longer while nothing happens.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

use std::time::Duration;

#[cfg(target_os = "linux")]
pub(crate) use linux::{LogWatch, Waker};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{LogWatch, Waker};

/// The shortest pause between two checks of the file. Every pause has this length if the kernel does not report writes.
const PAUSE_MIN: Duration = Duration::from_micros(1_500);
/// The longest pause, in case a write was not reported.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pause before the next look.
pub(crate) struct Pause(Duration);

impl Pause {
    pub(crate) fn new() -> Self {
        Self(PAUSE_MIN)
    }

    /// Begins with the shortest pause again, because something was written.
    pub(crate) fn shorten(&mut self) {
        self.0 = PAUSE_MIN;
    }

    /// Waits until the log is written to, the waker is used, or the pause is over. Never returns sooner than after the
    /// shortest pause, so that many commits cost one look.
    pub(crate) fn take(&mut self, watch: &mut LogWatch) {
        std::thread::sleep(PAUSE_MIN);
        if watch.wait(self.0 - PAUSE_MIN) {
            self.shorten();
        } else {
            let longest = if watch.is_watched() { PAUSE_MAX } else { PAUSE_MIN };
            self.0 = (self.0 * 2).min(longest);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::thread;

    use tempfile::TempDir;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn watched() -> (TempDir, PathBuf, LogWatch, Waker) {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("store");
        let log = dir.path().join("store-wal");
        fs::write(&log, b"").unwrap();
        let waker = Waker::new().unwrap();
        let watch = LogWatch::new(file.to_str().unwrap(), waker.clone());
        (dir, log, watch, waker)
    }

    #[test]
    fn a_write_and_a_waker_end_a_wait() {
        let (_dir, log, mut watch, waker) = watched();
        assert!(!watch.wait(Duration::ZERO), "nothing has happened");
        assert!(watch.is_watched());
        let writer = thread::spawn(move || fs::write(&log, b"frame").unwrap());
        assert!(watch.wait(LONG));
        writer.join().unwrap();
        while watch.wait(Duration::ZERO) {}
        waker.wake();
        assert!(watch.wait(LONG));
        assert!(!watch.wait(Duration::ZERO), "both were used up");
    }

    #[test]
    fn a_recreated_log_is_watched_again() {
        let (_dir, log, mut watch, _) = watched();
        assert!(!watch.wait(Duration::ZERO));
        fs::remove_file(&log).unwrap();
        while watch.wait(Duration::ZERO) {}
        assert!(!watch.is_watched(), "without a log, the file is checked often");
        fs::write(&log, b"").unwrap();
        assert!(!watch.wait(Duration::ZERO));
        assert!(watch.is_watched());
    }

    #[test]
    fn pauses_grow_until_something_is_written() {
        let (_dir, log, mut watch, _) = watched();
        let mut pause = Pause::new();
        while pause.0 < PAUSE_MAX / 16 {
            let before = pause.0;
            pause.take(&mut watch);
            assert_eq!(pause.0, before * 2);
        }
        fs::write(&log, b"frame").unwrap();
        pause.take(&mut watch);
        assert_eq!(pause.0, PAUSE_MIN);
    }
}
