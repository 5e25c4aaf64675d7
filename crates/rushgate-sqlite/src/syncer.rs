//! Syncs commits to disk and then answers their callers, while the writer executes the next group.
//!
//! The writer commits without waiting for the disk (`synchronous=NORMAL`). The commit is then in the log as a whole,
//! but a power cut may undo it. Callers are answered only after the log has been synced here. One sync serves all
//! commits that arrived during the previous one. With `durability=process` there is nothing to sync, and callers are
//! answered at once.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use rushgate_core::Error;

use crate::job::Job;
use crate::open::Log;
use crate::wake::{Listeners, Wakeup};

/// A committed group, to be answered once commit `number` is on disk.
pub(crate) struct Committed {
    pub(crate) group: Vec<Box<dyn Job>>,
    pub(crate) wakeups: Vec<Wakeup>,
    pub(crate) number: u64,
}

/// Tracks the latest commit and the latest synced commit.
#[derive(Default)]
pub(crate) struct Horizon {
    begun: AtomicU64,
    synced: AtomicU64,
    waiting: Mutex<()>,
    moved: Condvar,
}

impl Horizon {
    /// Numbers a new commit. Call it before the commit becomes visible.
    pub(crate) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Number of the latest commit.
    pub(crate) fn latest(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    fn has(&self, number: u64) -> bool {
        self.synced.load(Ordering::SeqCst) >= number
    }

    fn reach(&self, number: u64) {
        let _waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.synced.fetch_max(number, Ordering::SeqCst);
        self.moved.notify_all();
    }

    /// Waits until all commits that are visible now are on disk.
    pub(crate) fn settle(&self) {
        let seen = self.latest();
        if self.has(seen) {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.has(seen) {
            waiting = self.moved.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Handle to the sync thread.
pub(crate) struct Syncer {
    shared: Arc<Shared>,
    commits: Option<Sender<Committed>>,
    thread: Option<JoinHandle<()>>,
    /// Number of the latest commit sent to the thread.
    handed: u64,
}

struct Shared {
    /// `None` if commits need not survive a power cut.
    log: Option<Log>,
    listeners: Arc<Listeners>,
    horizon: Arc<Horizon>,
    failed: OnceLock<Error>,
}

impl Syncer {
    /// Minimum size of a group for the sync thread: answering fewer callers is faster than waking the thread.
    const GROUP_MIN: usize = 8;

    pub(crate) fn start(
        log: Option<Log>,
        listeners: Arc<Listeners>,
        horizon: Arc<Horizon>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared { log, listeners, horizon, failed: OnceLock::new() });
        let (commits, receive) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("rushgate-syncer".into());
        let thread = thread.spawn(move || of_thread.run(&receive))?;
        Ok(Self { shared, commits: Some(commits), thread: Some(thread), handed: 0 })
    }

    /// Syncs and answers a commit. A small group is handled on the calling thread if no earlier one is pending, which
    /// saves a thread switch.
    pub(crate) fn see_to(&mut self, commit: Committed) {
        let idle = self.shared.horizon.has(self.handed);
        match &self.commits {
            Some(commits) if commit.group.len() >= Self::GROUP_MIN || !idle => {
                self.handed = commit.number;
                // The thread lives as long as the sender. Otherwise dropping the commit answers the callers.
                let _ = commits.send(commit);
            }
            _ => self.shared.finish(vec![commit]),
        }
    }

    /// The first sync failure. Nothing committed since is known to be on disk.
    pub(crate) fn failed(&self) -> Option<&Error> {
        self.shared.failed.get()
    }

    /// Returns once all callers have been answered.
    pub(crate) fn close(&mut self) {
        drop(self.commits.take());
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Shared {
    fn run(&self, commits: &Receiver<Committed>) {
        while let Ok(first) = commits.recv() {
            let mut together = vec![first];
            together.extend(commits.try_iter());
            self.finish(together);
        }
    }

    fn finish(&self, commits: Vec<Committed>) {
        let latest = commits.iter().map(|commit| commit.number).max().unwrap_or_default();
        // A step without changes may depend on a commit whose sync failed.
        let is_safe = self.failed.get().is_none() && self.horizon.has(latest);
        let failed = if is_safe { None } else { self.sync().err() };
        self.horizon.reach(latest);
        for commit in commits {
            commit.group.into_iter().for_each(|job| job.answer(failed.as_ref()));
            if failed.is_none() {
                commit.wakeups.into_iter().for_each(|wakeup| self.listeners.wake(wakeup));
            }
        }
    }

    /// Syncs the log. After a failure there is no second attempt, because the operating system may report success
    /// although the data is not on disk.
    fn sync(&self) -> Result<(), Error> {
        if let Some(error) = self.failed.get() {
            return Err(error.duplicate());
        }
        let Some(log) = &self.log else { return Ok(()) };
        log.file.sync_data().map_err(|fault| {
            let why = format_args!("the disk failed during a commit to `{}`", log.path);
            let error = Error::unavailable(why)
                .hint("check the system log, then restart this process and retry")
                .caused_by(fault)
                .maybe_happened();
            self.failed.get_or_init(|| error).duplicate()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_watch::Waker;

    struct Asked(Sender<Option<bool>>);

    impl Job for Asked {
        fn run(&mut self, _: &mut crate::step::Step<'_>) -> crate::fault::Result<()> {
            Ok(())
        }

        fn answer(self: Box<Self>, failed: Option<&Error>) {
            self.0.send(failed.map(Error::may_have_happened)).unwrap();
        }
    }

    #[test]
    fn after_a_failed_sync_even_what_changed_nothing_may_not_have_happened() {
        let listeners = Arc::new(Listeners::new(Waker::new().unwrap()));
        let shared = Shared { log: None, listeners, horizon: Arc::default(), failed: OnceLock::new() };
        let (tell, told) = mpsc::channel();
        let unchanged = || {
            let group: Vec<Box<dyn Job>> = vec![Box::new(Asked(tell.clone()))];
            vec![Committed { group, wakeups: Vec::new(), number: 0 }]
        };
        shared.finish(unchanged());
        assert_eq!(told.recv().unwrap(), None);
        shared.failed.set(Error::unavailable("the disk failed").maybe_happened()).unwrap();
        shared.finish(unchanged());
        assert_eq!(told.recv().unwrap(), Some(true));
    }

    #[test]
    fn a_reader_waits_for_the_commits_that_it_may_have_seen_and_for_no_others() {
        let horizon = Arc::new(Horizon::default());
        horizon.settle();
        let (first, second) = (horizon.begin(), horizon.begin());
        let reader = thread::spawn({
            let horizon = Arc::clone(&horizon);
            move || horizon.settle()
        });
        horizon.reach(first);
        assert!(!horizon.has(second));
        let third = horizon.begin();
        horizon.reach(second);
        // The reader started with two or three commits in sight.
        horizon.reach(third);
        reader.join().unwrap();
    }
}
