use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

/// Ends a wait from another thread.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub(crate) fn wake(&self) {
        // It fails only if the counter is full, and then a wait ends as well.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    fn reset(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0_u8; 8]);
    }
}

/// A watch of the write-ahead log.
#[derive(Debug)]
pub(crate) struct LogWatch {
    waker: Waker,
    /// `None` if the kernel gives no more of them: a user may have 128 by default.
    inotify: Option<OwnedFd>,
    log: PathBuf,
    is_watched: bool,
}

impl LogWatch {
    /// `file` is the path of the store's file.
    pub(crate) fn new(file: &str, waker: Waker) -> Self {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        Self { waker, inotify, log: format!("{file}-wal").into(), is_watched: false }
    }

    /// Waits until the waker is used.
    pub(crate) fn sleep(&mut self) {
        let _ = poll(&mut [PollFd::new(&*self.waker.0, PollFlags::IN)], None);
        self.waker.reset();
    }

    /// Waits until the log is written to or the waker is used, up to `max`. Returns whether either happened.
    pub(super) fn wait(&mut self, max: Duration) -> bool {
        self.watch();
        let timeout = Timespec::try_from(max).unwrap_or_default();
        let of_waker = PollFd::new(&*self.waker.0, PollFlags::IN);
        let happened = match &self.inotify {
            Some(inotify) => poll(&mut [of_waker, PollFd::new(inotify, PollFlags::IN)], Some(&timeout)),
            None => poll(&mut [of_waker], Some(&timeout)),
        };
        self.waker.reset();
        self.read_events();
        // An interrupted wait counts as a write: one check too many does no harm.
        !matches!(happened, Ok(0))
    }

    /// Whether the kernel reports writes.
    pub(super) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Begins to watch the log. It is created by the first transaction on the file.
    fn watch(&mut self) {
        if let Some(inotify) = &self.inotify
            && !self.is_watched
        {
            self.is_watched = inotify::add_watch(inotify, &self.log, WatchFlags::MODIFY).is_ok();
        }
    }

    fn read_events(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(inotify, &mut buffer);
        while let Ok(event) = events.next() {
            // The watch has ended, because the log was deleted.
            if event.events().contains(ReadFlags::IGNORED) {
                self.is_watched = false;
            }
        }
    }
}
