//! The ledger's two threads: a writer and a reader.

use std::sync::Arc;
use std::time::Instant;

use rushgate_core::{Error, LedgerEntry, Result, SaleId};
use rusqlite::Connection;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tracing::{debug, warn};

use super::record::{IdCache, Recorder, Tally};
use super::session::Session;
use super::{fault, open, snapshot};
use crate::client::{Close, GROUP_ENTRIES_MAX, Job, Read, Reply};
use crate::counters::Counters;
use crate::words::{now_us, unknown};
use crate::{LedgerSale, Written};

/// Starts a thread that serves `conn` until it is closed, or until all senders are dropped.
pub(super) fn start(name: &str, conn: Connection, counters: Arc<Counters>) -> Result<UnboundedSender<Job>> {
    let (sender, jobs) = unbounded_channel();
    let server = Server { conn, counters, known: IdCache::default() };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || server.serve(jobs))
        .map_err(|error| Error::unavailable("cannot start a thread").caused_by(error))?;
    Ok(sender)
}

struct Server {
    conn: Connection,
    counters: Arc<Counters>,
    known: IdCache,
}

/// Calls that are executed together.
#[derive(Default)]
struct Group {
    writes: Vec<Write>,
    reads: Vec<Read>,
    entries: usize,
    close: Option<Close>,
}

impl Group {
    fn take(&mut self, job: Job) {
        match job {
            Job::OpenSale(sale, reply) => {
                self.entries += sale.skus.len();
                self.writes.push(Write::OpenSale { sale, opened: Ok(()), reply });
            }
            Job::Write(entries, reply) => {
                self.entries += entries.len();
                self.writes.push(Write::Entries { entries, written: Vec::new(), reply });
            }
            Job::Advance(sale, reply) => {
                self.entries += 1;
                self.writes.push(Write::Advance { sale, generation: None, reply });
            }
            Job::Read(read) => self.reads.push(read),
            Job::Close(close) => self.close = Some(close),
        }
    }

    fn has_room(&self) -> bool {
        self.entries < GROUP_ENTRIES_MAX && self.close.is_none()
    }
}

/// A call that writes, with its result. It is answered after the commit.
enum Write {
    OpenSale { sale: LedgerSale, opened: Result<()>, reply: Reply<()> },
    Entries { entries: Vec<LedgerEntry>, written: Vec<Written>, reply: Reply<Vec<Written>> },
    Advance { sale: SaleId, generation: Option<u32>, reply: Reply<u32> },
}

impl Write {
    fn carry_out(&mut self, recorder: &mut Recorder<'_>) -> rusqlite::Result<()> {
        match self {
            Self::OpenSale { sale, opened, .. } => *opened = recorder.open_sale(sale)?,
            Self::Entries { entries, written, .. } => *written = recorder.entries(entries)?,
            Self::Advance { sale, generation, .. } => *generation = recorder.advance(sale)?,
        }
        Ok(())
    }

    fn answer(self) {
        // The caller may have dropped the receiver.
        match self {
            Self::OpenSale { opened, reply, .. } => drop(reply.send(opened)),
            Self::Entries { written, reply, .. } => drop(reply.send(Ok(written))),
            Self::Advance { sale, generation, reply } => {
                drop(reply.send(generation.ok_or_else(|| unknown(&sale))));
            }
        }
    }

    fn fail(self, error: &Error) {
        let error = error.duplicate();
        match self {
            Self::OpenSale { reply, .. } => drop(reply.send(Err(error))),
            Self::Entries { reply, .. } => drop(reply.send(Err(error))),
            Self::Advance { reply, .. } => drop(reply.send(Err(error))),
        }
    }
}

fn transaction(session: Session<'_>, known: &mut IdCache, jobs: &mut [Write]) -> Result<Tally> {
    session.run("BEGIN IMMEDIATE", []).map_err(fault::error)?;
    let mut recorder = Recorder::new(session, known, now_us());
    for job in jobs {
        job.carry_out(&mut recorder).map_err(fault::error)?;
    }
    let tally = recorder.tally;
    session.run("COMMIT", []).map_err(fault::commit_error)?;
    Ok(tally)
}

impl Server {
    fn serve(mut self, mut jobs: UnboundedReceiver<Job>) {
        // A single call does not wait for others: a group is whatever is waiting when the thread is free.
        while let Some(job) = jobs.blocking_recv() {
            let mut group = Group::default();
            group.take(job);
            while group.has_room() {
                let Ok(job) = jobs.try_recv() else { break };
                group.take(job);
            }
            self.carry_out(&mut group);
            if let Some(Close { reply, after }) = group.close {
                // An error of the other connection does not concern this caller, because it leaves the file
                // unchanged.
                let _ = after.map(oneshot::Receiver::blocking_recv);
                let _ = reply.send(self.conn.close().map_err(|(_, fault)| fault::error(fault)));
                return;
            }
        }
    }

    fn carry_out(&mut self, group: &mut Group) {
        let start = Instant::now();
        if !group.writes.is_empty() {
            self.write(std::mem::take(&mut group.writes));
        }
        for read in group.reads.drain(..) {
            self.read(read);
        }
        self.counters.worked(start.elapsed(), open::take_waited());
    }

    fn read(&self, read: Read) {
        let session = Session::new(&self.conn, &self.counters);
        // The caller may have dropped the receiver.
        match read {
            Read::Snapshot(sale, reply) => drop(reply.send(snapshot::snapshot(session, &sale))),
            Read::Sale(sale, reply) => drop(reply.send(snapshot::find_sale(session, &sale))),
            Read::Ping(reply) => drop(reply.send(snapshot::ping(session))),
        }
    }

    fn write(&mut self, mut jobs: Vec<Write>) {
        let session = Session::new(&self.conn, &self.counters);
        match transaction(session, &mut self.known, &mut jobs) {
            Ok(tally) => {
                // Update the counters before the calls are answered, so that callers find them up to date.
                self.counters.count(|calls| {
                    calls.transactions += 1;
                    calls.entries += tally.entries;
                    calls.orders += tally.orders;
                    calls.refused += tally.refused;
                });
                debug!(
                    calls = jobs.len(),
                    entries = tally.entries,
                    orders = tally.orders,
                    "ledger committed"
                );
                jobs.into_iter().for_each(Write::answer);
            }
            Err(error) => {
                session.roll_back();
                self.known.forget();
                warn!(?error, calls = jobs.len(), "ledger did not commit");
                jobs.into_iter().for_each(|job| job.fail(&error));
            }
        }
    }
}
