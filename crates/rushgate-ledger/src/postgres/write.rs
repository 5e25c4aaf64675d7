//! Executes a group of calls in one transaction, with retries.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use deadpool_postgres::{Client, Pool};
use futures_util::future::{join, join3};
use rushgate_core::{Error, LedgerEntry, Result};
use tokio::time::{sleep, timeout};
use tokio_postgres::Row;
use tracing::debug;

use super::fault::Fault;
use super::record::{Cache, Order, Recorder, Tally};
use super::session::{BEGIN, Session, Sql, sql};
use crate::counters::Counters;
use crate::words::now_us;
use crate::{LedgerSale, Refusal, Written};

/// Maximum attempts of a transaction when others interfere.
const ATTEMPTS: u32 = 10;

/// State shared by the tasks of a ledger.
pub(super) struct Shared {
    pub(super) pool: Pool,
    pub(super) memory: Cache,
    pub(super) counters: std::sync::Arc<Counters>,
    /// Time limit of a step, after which its connection is closed.
    pub(super) step_max: Duration,
}

/// The work of one transaction.
#[derive(Clone, Copy)]
pub(super) enum Work<'a> {
    OpenSale(&'a LedgerSale),
    Write(&'a [&'a LedgerEntry]),
}

/// How a batch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Division {
    Whole,
    Halves,
}

/// Why a transaction did not commit.
struct Failure {
    fault: Fault,
    /// Whether COMMIT was sent and its answer is missing.
    committing: bool,
}

impl Failure {
    fn error(self) -> Error {
        if self.committing { self.fault.commit_error() } else { self.fault.error() }
    }
}

impl Shared {
    pub(super) async fn client(&self) -> Sql<Client> {
        self.pool.get().await.map_err(Fault::Pool)
    }

    pub(super) fn session<'c>(&'c self, client: &'c Client) -> Session<'c> {
        Session::new(client, &self.counters)
    }

    /// Does the work in one transaction. Returns the entries' answers in their order.
    pub(super) async fn carry_out(&self, work: Work<'_>) -> Result<Vec<Written>> {
        let mut division = Division::Whole;
        let mut lost = false;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let failure = match self.attempt(work, division).await {
                Ok(written) => return Ok(written),
                Err(failure) => failure,
            };
            debug!(fault = ?failure.fault, ?division, attempt, "ledger did not commit");
            if failure.committing && !failure.fault.is_worth_another_go() || attempt == ATTEMPTS {
                return Err(failure.error());
            }
            if division == Division::Whole && failure.fault.violation().is_some() {
                division = Division::Halves;
            } else if !lost && failure.fault.is_lost_connection() {
                // The connection may have died while it was idle in the pool.
                lost = true;
            } else if failure.fault.is_worth_another_go() {
                sleep(pause(attempt)).await;
            } else {
                return Err(failure.error());
            }
        }
    }

    async fn attempt(&self, work: Work<'_>, division: Division) -> Result<Vec<Written>, Failure> {
        let client = self.client().await.map_err(|fault| Failure { fault, committing: false })?;
        let start = Instant::now();
        let committing = AtomicBool::new(false);
        let steps = self.transaction(&client, work, division, &committing);
        let result = timeout(self.step_max, steps).await.unwrap_or(Err(Fault::NoAnswer));
        match result {
            Ok((written, tally)) => {
                self.count(&written, tally, start.elapsed());
                Ok(written)
            }
            Err(fault) => {
                self.put_back(client, &fault).await;
                Err(Failure { fault, committing: committing.into_inner() })
            }
        }
    }

    /// Updates the counters before the calls are answered, so that callers find them up to date.
    fn count(&self, written: &[Written], tally: Tally, elapsed: Duration) {
        let refused = written.iter().filter(|written| matches!(written, Written::Refused(_))).count();
        let waited = Duration::from_micros(tally.waited_us).min(elapsed);
        self.counters.count(|calls| {
            calls.transactions += 1;
            calls.entries += written.len() as u64;
            calls.orders += tally.orders;
            calls.refused += refused as u64;
        });
        self.counters.worked(elapsed, waited);
        debug!(entries = written.len(), orders = tally.orders, "ledger committed");
    }

    /// Returns a connection to the pool without an open transaction, or closes it.
    pub(super) async fn put_back(&self, client: Client, fault: &Fault) {
        let undone = !fault.spoils_the_connection()
            && matches!(timeout(self.step_max, self.session(&client).say("ROLLBACK")).await, Ok(Ok(())));
        if !undone {
            drop(Client::take(client));
        }
    }

    async fn transaction(
        &self,
        client: &Client,
        work: Work<'_>,
        division: Division,
        committing: &AtomicBool,
    ) -> Sql<(Vec<Written>, Tally)> {
        let session = self.session(client);
        let mut recorder = Recorder::new(session, &self.memory, now_us());
        let written = match work {
            Work::OpenSale(sale) => {
                session.say(BEGIN).await?;
                recorder.open_sale(sale).await?;
                Vec::new()
            }
            Work::Write(entries) => {
                self.memory.find_sales(session, entries.iter().map(|task| task.sale())).await?;
                entries_of(&mut recorder, session, &Sorted::of(entries, &self.memory), division).await?
            }
        };
        committing.store(true, Relaxed);
        session.say("COMMIT").await?;
        Ok((written, recorder.remember()))
    }
}

/// Entries of a transaction, by kind.
struct Sorted<'a> {
    n: usize,
    sales: Vec<i32>,
    stock: Vec<(usize, i32, &'a LedgerEntry)>,
    orders: Vec<Order<'a>>,
    places: Vec<usize>,
}

impl<'a> Sorted<'a> {
    fn of(entries: &[&'a LedgerEntry], memory: &Cache) -> Self {
        let mut sales = BTreeSet::new();
        let (mut stock, mut orders, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (at, task) in entries.iter().enumerate() {
            let Some(sale) = memory.sale(task.sale()) else { continue };
            sales.insert(sale);
            match Order::of(task, sale) {
                Some(order) => {
                    orders.push(order);
                    places.push(at);
                }
                None => stock.push((at, sale, *task)),
            }
        }
        Self { n: entries.len(), sales: sales.into_iter().collect(), stock, orders, places }
    }
}

/// Begins, locks the sales and writes. Stock changes go first, so that an order for a new unit does not depend on its
/// place in the batch.
async fn entries_of(
    recorder: &mut Recorder<'_>,
    session: Session<'_>,
    entries: &Sorted<'_>,
    division: Division,
) -> Sql<Vec<Written>> {
    let mut answers = vec![Written::Refused(Refusal::UnknownSale); entries.n];
    let written = if division == Division::Whole && entries.stock.is_empty() && !entries.orders.is_empty() {
        let lock = session.prepare(sql!("sale/lock_shared")).await?;
        recorder.prepare_look().await?;
        let (begun, locked, sight) = join3(
            session.say(BEGIN),
            session.rows_prepared(&lock, &[&entries.sales]),
            recorder.look(&entries.orders),
        )
        .await;
        begun?;
        recorder.tally.waited_us = waited_us(&locked?);
        recorder.whole(&entries.orders, sight?).await?
    } else {
        let lock = session.prepare(sql!("sale/lock_alone")).await?;
        let (begun, locked) = join(session.say(BEGIN), session.rows_prepared(&lock, &[&entries.sales])).await;
        begun?;
        recorder.tally.waited_us = waited_us(&locked?);
        for (at, sale, task) in &entries.stock {
            answers[*at] = recorder.stock(*sale, task).await?;
        }
        match division {
            Division::Whole if entries.orders.is_empty() => Vec::new(),
            Division::Whole => {
                let sight = recorder.look(&entries.orders).await?;
                recorder.whole(&entries.orders, sight).await?
            }
            Division::Halves => recorder.halves(&entries.orders).await?,
        }
    };
    for (at, written) in entries.places.iter().zip(written) {
        answers[*at] = written;
    }
    Ok(answers)
}

fn waited_us(rows: &[Row]) -> u64 {
    rows.first().map_or(0, |row| row.get::<_, i64>(0)).try_into().unwrap_or(0)
}

/// The pause before a retry: increasing, with random jitter.
fn pause(attempt: u32) -> Duration {
    let millis = u64::from(attempt) * 3;
    Duration::from_millis(millis + RandomState::new().hash_one(attempt) % (millis + 1))
}
