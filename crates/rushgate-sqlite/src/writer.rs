//! The writer thread.
//!
//! It executes all waiting calls in one transaction, commits, and passes them to the [`Syncer`], which answers them.
//! A single call finds the writer idle and does not wait for others. Calls that arrive meanwhile form the next group.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rushgate_core::Error;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tokio::sync::oneshot;

use crate::busy::retry_while_busy;
use crate::clock::Clock;
use crate::counters::Counters;
use crate::fault::{Result, explain, is_damaged_file, translate, translate_commit};
use crate::job::{Call, Job};
use crate::open::SameFile;
use crate::queue;
use crate::sale;
use crate::step::{Replays, Step};
use crate::sweep::Sweep;
use crate::syncer::{Committed, Horizon, Syncer};
use crate::wake::{Listeners, Wakeup};

/// Maximum number of calls per transaction.
const GROUP_MAX: usize = 512;
/// How often old rows are swept, if anything was written.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Handle to send calls to the writer.
pub(crate) struct WriterHandle {
    jobs: Mutex<Option<Sender<Box<dyn Job>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WriterHandle {
    /// Sends a call. The receiver gets the answer after the commit.
    pub(crate) fn send<F, T>(&self, verb: F) -> oneshot::Receiver<std::result::Result<T, Error>>
    where
        F: FnMut(&mut Step<'_>) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let (job, answer) = Call::new(verb);
        if let Some(jobs) = &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = jobs.send(Box::new(job));
        }
        answer
    }

    /// Accepts no more calls. Calls that were sent still complete.
    pub(crate) fn close(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    pub(crate) fn take_thread(&self) -> Option<JoinHandle<()>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

pub(crate) struct Writer {
    pub(crate) conn: Connection,
    pub(crate) path: String,
    /// `None` for a store in memory.
    pub(crate) file: Option<SameFile>,
    /// How long to retry while other processes have the file locked.
    pub(crate) busy_timeout: Duration,
    /// The other threads with connections to the file.
    pub(crate) companions: Vec<JoinHandle<()>>,
    pub(crate) clock: Clock,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) replays: Replays,
    /// Set after a commit failure that rules out any further write.
    pub(crate) broken: Option<Error>,
    pub(crate) swept: Instant,
    pub(crate) sweep_from: String,
    pub(crate) horizon: Arc<Horizon>,
    pub(crate) syncer: Syncer,
}

impl Writer {
    pub(crate) fn start(mut self) -> std::io::Result<WriterHandle> {
        let (send, receive) = mpsc::channel();
        let thread =
            thread::Builder::new().name("rushgate-writer".into()).spawn(move || self.run(&receive))?;
        Ok(WriterHandle { jobs: Mutex::new(Some(send)), thread: Mutex::new(Some(thread)) })
    }

    fn run(&mut self, jobs: &Receiver<Box<dyn Job>>) {
        let mut unswept = false;
        loop {
            let wait = if unswept { SWEEP_EVERY } else { Duration::from_secs(3_600) };
            match jobs.recv_timeout(wait) {
                Ok(job) => {
                    let mut group = vec![job];
                    group.extend(jobs.try_iter().take(GROUP_MAX - 1));
                    self.carry_out(group);
                    unswept = true;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if unswept && self.swept.elapsed() >= SWEEP_EVERY {
                self.sweep();
                unswept = false;
            }
        }
        self.syncer.close();
        self.heed_failed_sync();
        // The last connection to close merges the log into the file, so that a single file is left.
        self.companions.drain(..).for_each(|thread| drop(thread.join()));
    }

    /// Executes a group in one transaction and has it answered. If a call makes the transaction fail, the group is
    /// split in two halves, so that in the end only the failing call gets the error.
    fn carry_out(&mut self, mut group: Vec<Box<dyn Job>>) {
        let done = self.transaction(&mut group);
        if let Err(Failed::Before(_)) = done
            && group.len() > 1
        {
            let second = group.split_off(group.len() / 2);
            self.carry_out(group);
            self.carry_out(second);
            return;
        }
        self.counters.count_calls(group.len() as u64);
        let number = self.horizon.latest();
        match done {
            Ok(wakeups) => {
                self.syncer.see_to(Committed { group, wakeups, number });
            }
            Err(failed) => {
                // Readers need not wait for this commit.
                self.syncer.see_to(Committed { group: Vec::new(), wakeups: Vec::new(), number });
                let error = failed.into_error();
                group.into_iter().for_each(|job| job.answer(Some(&error)));
            }
        }
    }

    /// Executes a group and returns the notifications to send once the commit is on disk.
    fn transaction(&mut self, group: &mut [Box<dyn Job>]) -> std::result::Result<Vec<Wakeup>, Failed> {
        self.heed_failed_sync();
        if let Some(error) = &self.broken {
            return Err(Failed::Known(error.duplicate()));
        }
        self.file.as_ref().map_or(Ok(()), SameFile::check).map_err(Failed::Known)?;
        let path = &self.path;
        self.begin().map_err(|fault| Failed::Known(translate(fault, path)))?;
        let before = self.conn.total_changes();
        let mut step = Step::new(&self.conn, (self.clock)(), &self.listeners, &mut self.replays);
        let ran = group
            .iter_mut()
            .try_for_each(|job| job.run(&mut step))
            .and_then(|()| write_back(&mut step))
            .map_err(|stop| Failed::Before(explain(stop, path)));
        // 2: BEGIN and COMMIT.
        self.counters.count_statements(step.statements() + 2);
        let changed = self.conn.total_changes() != before;
        let committed = ran.and_then(|()| {
            if changed {
                self.horizon.begin();
            }
            commit(&self.conn).map_err(|fault| failed_commit(fault, path))
        });
        match committed {
            Ok(()) => {
                self.counters.count_transaction();
                Ok(step.committed())
            }
            Err(failed) => {
                self.recover(&failed);
                Err(failed)
            }
        }
    }

    fn begin(&self) -> rusqlite::Result<()> {
        retry_while_busy(self.busy_timeout, || {
            self.conn.prepare_cached("BEGIN IMMEDIATE")?.execute([]).map(drop)
        })
    }

    /// Rolls back. Stops all writes if the file is damaged or the outcome of a commit is unknown.
    fn recover(&mut self, failed: &Failed) {
        self.roll_back();
        match failed {
            Failed::Unknown(error) => self.stop_after_unknown(error),
            Failed::Before(error) if is_damaged_file(error) => self.stop(error, error.duplicate()),
            Failed::Before(_) | Failed::Known(_) => {}
        }
    }

    /// Stops after a failed sync, because it is unknown what is on disk.
    fn heed_failed_sync(&mut self) {
        if self.broken.is_none()
            && let Some(error) = self.syncer.failed().map(Error::duplicate)
        {
            self.stop_after_unknown(&error);
        }
    }

    fn stop_after_unknown(&mut self, error: &Error) {
        let why = "a commit failed in this process; it no longer writes to the store";
        let hint = "check the system log, then restart this process and retry";
        self.stop(error, Error::unavailable(why).hint(hint));
    }

    /// Stops writing, and answers every later call with `error`.
    fn stop(&mut self, cause: &Error, error: Error) {
        tracing::error!(%cause, "this process no longer writes to the store");
        self.broken = Some(error);
        // Closing must not merge the log into the file either.
        if let Err(fault) = self.conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
            tracing::error!(%fault, "the write-ahead log will be checkpointed into the file");
        }
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit()
            && let Err(fault) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(%fault, "a rollback failed");
        }
    }

    fn sweep_stretch(&mut self) -> rusqlite::Result<()> {
        let (now, busy_timeout) = ((self.clock)(), self.busy_timeout);
        let sweep = Sweep { conn: &self.conn, busy_timeout, now, counters: &self.counters };
        sweep.locks(&mut self.sweep_from)?;
        sweep.periods()?;
        sweep.room()
    }

    fn sweep(&mut self) {
        self.swept = Instant::now();
        if self.broken.is_none()
            && let Err(fault) = self.sweep_stretch()
        {
            self.roll_back();
            tracing::warn!(%fault, "cannot delete old rows; retrying");
        }
    }
}

/// Writes the rows that calls of the group have changed in its cache.
pub(crate) fn write_back(step: &mut Step<'_>) -> Result<()> {
    queue::write_back(step)?;
    sale::write_back(step)
}

/// Where a transaction failed.
enum Failed {
    /// In one of the calls, before the commit. The other calls can still be executed.
    Before(Error),
    /// Before anything was done.
    Known(Error),
    /// In the commit: the outcome is unknown.
    Unknown(Error),
}

impl Failed {
    fn into_error(self) -> Error {
        let (Self::Before(error) | Self::Known(error) | Self::Unknown(error)) = self;
        error
    }
}

fn commit(conn: &Connection) -> rusqlite::Result<()> {
    conn.prepare_cached("COMMIT")?.execute([]).map(drop)
}

fn failed_commit(fault: rusqlite::Error, path: &str) -> Failed {
    let error = translate_commit(fault, path);
    if error.may_have_happened() { Failed::Unknown(error) } else { Failed::Before(error) }
}
