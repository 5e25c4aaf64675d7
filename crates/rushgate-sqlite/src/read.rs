//! The threads that read, beside the writer.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rushgate_core::{Error, Timestamp};
use rusqlite::{Connection, OptionalExtension, Params, Row};

use crate::clock::Clock;
use crate::fault::Result;
use crate::writer::Counters;

/// One read transaction: everything read through it is of one moment.
pub(crate) struct Reader<'c> {
    pub(crate) conn: &'c Connection,
    pub(crate) now: Timestamp,
    pub(crate) counters: &'c Counters,
}

impl Reader<'_> {
    /// The first row that a statement gives, if any.
    pub(crate) fn row<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        self.counters.count_statements(1);
        Ok(self.conn.prepare_cached(sql)?.query_row(params, read).optional()?)
    }

    /// Every row that a statement gives.
    pub(crate) fn rows<T>(
        &self,
        sql: &'static str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        self.counters.count_statements(1);
        let mut statement = self.conn.prepare_cached(sql)?;
        let rows = statement.query_map(params, read)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

type ReadJob = Box<dyn FnOnce(&Reader<'_>) + Send>;

/// A few threads that take turns at one list of questions.
pub(crate) struct Readers {
    jobs: Mutex<Option<Sender<ReadJob>>>,
}

impl Readers {
    /// The readers, and their threads, which end once the readers are closed.
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
            // With the COMMIT that follows: whoever has the answer finds everything counted.
            counters.count_statements(2);
        }
        job(&Reader { conn, now: clock(), counters });
        if opened.is_ok() {
            let _ = conn.execute_batch("COMMIT");
        }
    }
}

/// The error of a store that was closed.
pub(crate) fn closed() -> Error {
    Error::unavailable("the store was closed").hint("open it again with `Rushgate::connect`")
}
