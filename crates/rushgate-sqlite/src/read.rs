//! Reader threads, which run beside the writer.

use std::cell::Cell;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rushgate_core::{Error, Timestamp};
use rusqlite::types::FromSql;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row};

use crate::clock::Clock;
use crate::counters::Counters;
use crate::fault::Result;

/// A transaction that reads, and its time.
pub(crate) struct Reader<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) now: Timestamp,
    statements: Cell<u64>,
}

impl<'c> Reader<'c> {
    pub(crate) fn new(conn: &'c Connection, now: Timestamp) -> Self {
        Self { conn, now, statements: Cell::new(0) }
    }

    /// Prepares a statement, and counts it.
    pub(crate) fn prepare(&self, sql: &'static str) -> rusqlite::Result<CachedStatement<'c>> {
        self.statements.update(|n| n + 1);
        self.conn.prepare_cached(sql)
    }

    /// The first row, if any.
    pub(crate) fn row<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.prepare(sql)?.query_row(params, read).optional()?)
    }

    /// The first column of the first row, if any.
    pub(crate) fn value<T: FromSql>(&self, sql: &'static str, params: impl Params) -> Result<Option<T>> {
        self.row(sql, params, |row| row.get(0))
    }

    /// All rows.
    pub(crate) fn rows<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.prepare(sql)?;
        let rows = statement.query_map(params, read)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Number of statements executed.
    pub(crate) fn statements(&self) -> u64 {
        self.statements.get()
    }
}

type ReadJob = Box<dyn FnOnce(&Reader<'_>) + Send>;

/// A pool of threads that run read jobs from a shared queue.
pub(crate) struct Readers {
    jobs: Mutex<Option<Sender<ReadJob>>>,
}

impl Readers {
    /// Starts the threads. They end once the pool is closed.
    pub(crate) fn start(
        connections: Vec<Connection>,
        clock: &Clock,
        counters: &Arc<Counters>,
    ) -> std::io::Result<(Self, Vec<JoinHandle<()>>)> {
        let (send, receive) = mpsc::channel();
        let receive = Arc::new(Mutex::new(receive));
        let mut threads = Vec::new();
        for conn in connections {
            let (receive, clock, counters) = (Arc::clone(&receive), Arc::clone(clock), Arc::clone(counters));
            let thread = thread::Builder::new().name("rushgate-reader".into());
            threads.push(thread.spawn(move || serve(&conn, &receive, &clock, &counters))?);
        }
        Ok((Self { jobs: Mutex::new(Some(send)) }, threads))
    }

    pub(crate) fn send(&self, job: ReadJob) {
        if let Some(jobs) = &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = jobs.send(job);
        }
    }

    pub(crate) fn close(&self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

fn serve(conn: &Connection, jobs: &Mutex<Receiver<ReadJob>>, clock: &Clock, counters: &Counters) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { break };
        let opened = conn.execute_batch("BEGIN");
        if opened.is_ok() {
            // Count the COMMIT now, so that the counters are complete when the caller gets its answer.
            counters.count_statements(2);
        }
        job(&Reader::new(conn, clock()));
        if opened.is_ok() {
            let _ = conn.execute_batch("COMMIT");
        }
    }
}

/// The error of a closed store.
pub(crate) fn closed() -> Error {
    Error::unavailable("the store is closed").hint("reopen it with `Rushgate::connect`")
}
