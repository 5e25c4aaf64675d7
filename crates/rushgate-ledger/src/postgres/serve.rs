//! The ledger's thread. It has its own runtime, so the ledger serves callers of any runtime, or none.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use rushgate_core::{Error, LedgerEntry, Result};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinSet, LocalSet};
use tracing::warn;

use super::open::{self, Server};
use super::record::Cache;
use super::url::Options;
use super::write::{Shared, Work};
use crate::client::{Close, GROUP_ENTRIES_MAX, Job, Read, Reply};
use crate::counters::Counters;
use crate::{LedgerSale, Written};

/// Maximum number of concurrent transactions: one is synced to disk while the other executes. More would wait for
/// each other and make batches smaller.
const WRITERS_MAX: usize = 2;

/// Number of yields for the connections to send their termination messages.
const GOOD_BYE: usize = 16;

/// Starts the thread, and waits until the ledger is open.
pub(super) fn start(options: Options, counters: Arc<Counters>) -> Result<(UnboundedSender<Job>, Server)> {
    let (sender, jobs) = unbounded_channel();
    let (opened, answer) = channel();
    std::thread::Builder::new()
        .name("ledger-postgres".into())
        .spawn(move || run(&options, counters, jobs, &opened))
        .map_err(|error| Error::unavailable("cannot start a thread").caused_by(error))?;
    let server = answer.recv().map_err(|_| Error::bug("the ledger thread ended while opening"))??;
    Ok((sender, server))
}

fn run(
    options: &Options,
    counters: Arc<Counters>,
    jobs: UnboundedReceiver<Job>,
    opened: &Sender<Result<Server>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = opened.send(Err(Error::unavailable("cannot start a runtime").caused_by(error)));
            return;
        }
    };
    let local = LocalSet::new();
    let work = local.run_until(async {
        let shared = match open_pool(options, counters).await {
            Ok((shared, server)) => {
                let _ = opened.send(Ok(server));
                shared
            }
            Err(error) => return drop(opened.send(Err(error))),
        };
        let writers = options.pool.div_ceil(2).min(WRITERS_MAX);
        Dispatcher {
            shared: Rc::new(shared),
            writers: Arc::new(Semaphore::new(writers)),
            tasks: JoinSet::new(),
        }
        .serve(jobs)
        .await;
    });
    runtime.block_on(work);
}

async fn open_pool(options: &Options, counters: Arc<Counters>) -> Result<(Shared, Server)> {
    let pool = open::pool(options)?;
    let server = open::open(&pool, options).await?;
    let shared = Shared { pool, memory: Cache::default(), counters, step_max: options.step_max() };
    Ok((shared, server))
}

struct Dispatcher {
    shared: Rc<Shared>,
    writers: Arc<Semaphore>,
    tasks: JoinSet<()>,
}

impl Dispatcher {
    async fn serve(mut self, mut jobs: UnboundedReceiver<Job>) {
        let mut waiting = std::collections::VecDeque::new();
        let mut close = None;
        let mut open = true;
        while open || !waiting.is_empty() || !self.tasks.is_empty() {
            tokio::select! {
                job = jobs.recv(), if open => match job {
                    Some(job) => self.take(job, &mut waiting, &mut close),
                    None => open = false,
                },
                Some(ended) = self.tasks.join_next() => {
                    if let Err(error) = ended {
                        warn!(%error, "a ledger task failed");
                    }
                }
            }
            while let Ok(job) = jobs.try_recv() {
                self.take(job, &mut waiting, &mut close);
            }
            if close.is_some() {
                jobs.close();
                open = false;
            }
            // A single call does not wait for others: a group is whatever is waiting when a writer is free.
            while !waiting.is_empty()
                && let Ok(writer) = Arc::clone(&self.writers).try_acquire_owned()
            {
                self.write(group(&mut waiting), writer);
            }
        }
        self.shared.pool.close();
        // Let the connections send their termination messages.
        for _ in 0..GOOD_BYE {
            tokio::task::yield_now().await;
        }
        if let Some(reply) = close {
            let _ = reply.send(Ok(()));
        }
    }

    fn take(
        &mut self,
        job: Job,
        waiting: &mut std::collections::VecDeque<Call>,
        close: &mut Option<Reply<()>>,
    ) {
        let shared = Rc::clone(&self.shared);
        // The caller may have dropped the receiver.
        match job {
            Job::OpenSale(sale, reply) => waiting.push_back(Call::OpenSale(sale, reply)),
            Job::Write(entries, reply) => waiting.push_back(Call::Write(entries, reply)),
            Job::Advance(sale, reply) => drop(self.tasks.spawn_local(async move {
                let _ = reply.send(shared.advance(&sale).await);
            })),
            Job::Read(read) => drop(self.tasks.spawn_local(async move { shared.read(read).await })),
            // This thread is the only one to close.
            Job::Close(Close { reply, after: _after }) => *close = Some(reply),
        }
    }

    fn write(&mut self, calls: Vec<Call>, writer: OwnedSemaphorePermit) {
        let shared = Rc::clone(&self.shared);
        self.tasks.spawn_local(async move {
            write(&shared, calls).await;
            drop(writer);
        });
    }
}

impl Shared {
    async fn read(&self, read: Read) {
        // The caller may have dropped the receiver.
        match read {
            Read::Snapshot(sale, reply) => drop(reply.send(self.snapshot(&sale).await)),
            Read::Sale(sale, reply) => drop(reply.send(self.find_sale(&sale).await)),
            Read::Ping(reply) => drop(reply.send(self.ping().await)),
        }
    }
}

/// A call that writes.
enum Call {
    OpenSale(LedgerSale, Reply<()>),
    Write(Vec<LedgerEntry>, Reply<Vec<Written>>),
}

/// Takes the calls of one transaction: one sale to open, or entries up to the limit.
fn group(waiting: &mut std::collections::VecDeque<Call>) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut n = 0;
    while let Some(call) = waiting.front() {
        match call {
            Call::OpenSale(..) if !calls.is_empty() => break,
            Call::OpenSale(..) => return waiting.pop_front().into_iter().collect(),
            Call::Write(entries, _) => {
                n += entries.len();
                if n > GROUP_ENTRIES_MAX && !calls.is_empty() {
                    break;
                }
            }
        }
        calls.extend(waiting.pop_front());
    }
    calls
}

async fn write(shared: &Shared, calls: Vec<Call>) {
    let entries: Vec<&LedgerEntry> = calls
        .iter()
        .flat_map(|call| match call {
            Call::Write(entries, _) => entries.as_slice(),
            Call::OpenSale(..) => &[],
        })
        .collect();
    let result = match calls.first() {
        Some(Call::OpenSale(sale, _)) => shared.carry_out(Work::OpenSale(sale)).await,
        _ => shared.carry_out(Work::Write(&entries)).await,
    };
    match result {
        Ok(written) => answer(calls, written),
        // An invalid value in one call must not fail the others.
        Err(error) if error.is_bug() && calls.len() > 1 && !error.may_have_happened() => {
            for call in calls {
                Box::pin(write(shared, vec![call])).await;
            }
        }
        Err(error) => {
            warn!(?error, calls = calls.len(), "ledger did not commit");
            for call in calls {
                let error = error.duplicate();
                match call {
                    Call::OpenSale(_, reply) => drop(reply.send(Err(error))),
                    Call::Write(_, reply) => drop(reply.send(Err(error))),
                }
            }
        }
    }
}

fn answer(calls: Vec<Call>, written: Vec<Written>) {
    let mut written = written.into_iter();
    for call in calls {
        match call {
            Call::OpenSale(_, reply) => drop(reply.send(Ok(()))),
            Call::Write(entries, reply) => {
                drop(reply.send(Ok(written.by_ref().take(entries.len()).collect())));
            }
        }
    }
}
