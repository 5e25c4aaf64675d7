use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rushgate_core::{
    BadOrder, Error, HaltReason, OrderTask, ReservationId, Result, SaleId, SaleSecret, Settled, Verbs,
    Verdict,
};
use rushgate_ledger::{Ledger, Refusal, Written};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Sale;
use super::rebuild::{Rebuild, RebuildOutcome, introduction};
use crate::patience::{Pauses, will_pass};
use crate::worker::{Backoff, Outcome, WorkerReport};
use crate::{Job, Rushgate, Worker};

/// Retry delay for a temporary refusal, such as an order that overtook its stock change.
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// Interval between comparisons of store and ledger.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How soon they are compared after another server answers for the store. Checking for that sends no request.
const NOTICED_AFTER: Duration = Duration::from_millis(50);

/// Writes the orders of sales to their ledger: claims batches of order tasks, commits them to the ledger, and
/// settles them in the store.
///
/// Each of the three steps (write, settle, complete) is idempotent, so a crash in between is harmless: the
/// tasks become available again. While the ledger or the store is unreachable, the batch waits; no attempt is
/// counted and no order is lost. A task that the ledger rejects becomes a dead letter without affecting
/// others.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # use std::time::Duration;
/// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use rushgate::{BuyerId, CancellationToken, IdempotencyKey, Line, OrderWorker, Reserved, SaleBuilder, Sku, connect_ledger};
/// use rushgate::sale::HoldState;
///
/// gate.create_sale(SaleBuilder::new("phones").sku("phone", 1, 1).orders("orders")).await?;
/// let (sale, ledger) = (gate.sale("phones")?, connect_ledger("sqlite::memory:")?);
/// sale.open().await?;
/// let shutdown = CancellationToken::new();
/// let clerk = tokio::spawn(OrderWorker::new(sale.clone(), ledger.clone()).run(shutdown.clone()));
///
/// let (ann, key) = (BuyerId::new("ann")?, IdempotencyKey::new("click-1")?);
/// let cart = [Line { sku: Sku::new("phone")?, quantity: 1 }];
/// let Reserved::Reserved(hold) = sale.reserve(&ann, &cart, &key).await? else { panic!("one is left") };
/// sale.confirm(hold.id).await?;
/// let order = sale.wait_final(hold.id, Duration::from_secs(20)).await?.expect("it was made");
/// assert_eq!(order.state, HoldState::Confirmed);
///
/// shutdown.cancel();
/// let report = clerk.await.expect("no panic")?;
/// assert_eq!(report.settled, 1);
/// assert!(sale.audit(Some(&*ledger)).await?.ok);
/// # gate.close().await
/// # }
/// ```
#[must_use = "an order worker does nothing until it runs"]
pub struct OrderWorker {
    sale: Sale,
    ledger: Arc<dyn Ledger>,
    batch: u32,
    writers: u32,
    lease: Duration,
    grace: Duration,
    rebuilds: Option<Duration>,
    look_every: Duration,
}

/// Totals of an order worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderReport {
    /// Outcomes of the order tasks.
    pub tasks: WorkerReport,
    /// Batches that the ledger committed.
    pub batches: u64,
    /// Entries that the ledger committed, repeats included.
    pub written: u64,
    /// Reservations that the store moved to confirmed, canceled or expired after the ledger committed them.
    pub settled: u64,
    /// Entries that the ledger refused for good. Their reservations were rejected.
    pub rejected: u64,
    /// Answers that prove that the store lost acknowledged writes.
    pub lost_writes: u64,
    /// Sales that the worker rebuilt.
    pub rebuilds: u64,
    /// Calls that failed because the ledger or the store was unreachable, and were retried.
    pub outages: u64,
}

impl fmt::Debug for OrderWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderWorker").field("sale", self.sale.id()).finish_non_exhaustive()
    }
}

impl OrderWorker {
    /// A worker for the sale's order queue, which other sales may share. Defaults: one writer, batches of up
    /// to 500.
    pub fn new(sale: Sale, ledger: Arc<dyn Ledger>) -> Self {
        let (lease, grace) = (Duration::from_secs(30), Duration::from_secs(10));
        Self { sale, ledger, batch: 500, writers: 1, lease, grace, rebuilds: None, look_every: LOOK_EVERY }
    }

    /// Maximum number of orders per ledger transaction: 1 to 1,000. Default: 500.
    pub fn batch(mut self, batch: u32) -> Self {
        self.batch = batch;
        self
    }

    /// Number of concurrent batches. Default: 1, which is best for SQLite.
    pub fn writers(mut self, writers: u32) -> Self {
        self.writers = writers;
        self
    }

    /// Lease of order tasks: 10 ms to 24 h. Default: 30 s.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Time that the current batch may take after shutdown. Default: 10 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Rebuilds a halted sale automatically, unless an operator [halted](Sale::halt) it. After the
    /// rebuild, only receipts are honored for `receipts_first` (at most 1 h). Default: the worker stops a
    /// sale whose store has lost writes, and an operator [rebuilds](Rebuild) it.
    pub fn auto_rebuild(mut self, receipts_first: Duration) -> Self {
        self.rebuilds = Some(receipts_first);
        self
    }

    /// Interval for comparing store and ledger, to detect lost writes. Default: 5 s. They are also compared
    /// whenever another server answers for the store, or it has restarted.
    pub fn look_every(mut self, look_every: Duration) -> Self {
        self.look_every = look_every;
        self
    }

    /// Runs until `shutdown` is canceled, then finishes the current batch. See [`Worker::run_until`].
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the sale has no order queue, and
    /// [`is_not_found`](Error::is_not_found) if there is no such sale. Otherwise only lasting errors.
    pub async fn run(self, shutdown: CancellationToken) -> Result<OrderReport> {
        let state = self.sale.state().await?;
        let Some(queue) = state.spec.orders else {
            return Err(Error::invalid("the sale", "has no order queue")
                .hint("set one with SaleBuilder::orders when you create the sale"));
        };
        let gate = self.sale.client().clone();
        let clerk = Arc::new(Clerk {
            gate: gate.clone(),
            ledger: self.ledger,
            counters: Counters::default(),
            rebuilds: self.rebuilds,
        });
        let at_work = Arc::clone(&clerk);
        let handler = move |jobs| {
            let clerk = Arc::clone(&at_work);
            async move { clerk.carry(jobs).await }
        };
        let worker = Worker::new(&gate.for_orders().queue(queue)?)
            .register_batches("*", self.batch, handler)
            .schedules(false)
            .concurrency(self.writers)
            .lease(self.lease)
            .retry_policy(Backoff { max: OrderTask::DUE_WITHIN, ..Backoff::default() })
            .grace(self.grace);
        let (watching, watched) =
            (clerk.watch(&self.sale, self.look_every), worker.run_until(shutdown.cancelled_owned()));
        let tasks = tokio::select! {
            tasks = watched => tasks?,
            () = watching => unreachable!("a watch has no end"),
        };
        Ok(clerk.counters.report(tasks))
    }
}

#[derive(Default)]
struct Counters {
    batches: AtomicU64,
    written: AtomicU64,
    settled: AtomicU64,
    rejected: AtomicU64,
    lost_writes: AtomicU64,
    rebuilds: AtomicU64,
    outages: AtomicU64,
}

impl Counters {
    fn report(&self, tasks: WorkerReport) -> OrderReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OrderReport {
            tasks,
            batches: read(&self.batches),
            written: read(&self.written),
            settled: read(&self.settled),
            rejected: read(&self.rejected),
            lost_writes: read(&self.lost_writes),
            rebuilds: read(&self.rebuilds),
            outages: read(&self.outages),
        }
    }
}

fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

/// Executor of order batches.
struct Clerk {
    gate: Rushgate,
    ledger: Arc<dyn Ledger>,
    counters: Counters,
    rebuilds: Option<Duration>,
}

/// Decisions to record in the store, by sale and generation.
type Verdicts = BTreeMap<(SaleId, u32), Vec<(ReservationId, Verdict)>>;

/// Outcome of a batch.
struct Judgement {
    outcomes: Vec<Outcome>,
    verdicts: Verdicts,
    /// Sales whose store has lost writes, with the generation that shows it; `None` for the current one.
    parted: BTreeSet<(SaleId, Option<u32>)>,
}

impl Clerk {
    async fn carry(&self, jobs: Vec<Job>) -> Vec<Outcome> {
        let mut orders = Vec::with_capacity(jobs.len());
        let mut set_aside = Vec::with_capacity(jobs.len());
        for read in self.read(&jobs).await {
            match read {
                Ok(order) => {
                    orders.push(order);
                    set_aside.push(None);
                }
                Err(outcome) => set_aside.push(Some(outcome)),
            }
        }
        let mut outcomes = match orders.is_empty() {
            true => Vec::new(),
            false => self.carry_entries(orders).await,
        }
        .into_iter();
        let mut next =
            || outcomes.next().unwrap_or_else(|| Outcome::retry("the batch was not answered whole"));
        set_aside.into_iter().map(|outcome| outcome.unwrap_or_else(&mut next)).collect()
    }

    /// Parses and verifies the order tasks of a batch. Only orders signed by their sale reach the ledger; any
    /// other task becomes a dead letter with the reason.
    async fn read(&self, jobs: &[Job]) -> Vec<Result<OrderTask, Outcome>> {
        let mut secrets: BTreeMap<SaleId, Result<SaleSecret, Outcome>> = BTreeMap::new();
        let mut read = Vec::with_capacity(jobs.len());
        for job in jobs {
            let order = match OrderTask::read(&job.payload) {
                Ok(order) => order,
                Err(bad) => {
                    read.push(Err(set_aside(job, &bad)));
                    continue;
                }
            };
            let secret = match secrets.entry(order.sale().clone()) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let secret = self.secret(order.sale()).await;
                    new.insert(secret)
                }
            };
            let verify = |secret| OrderTask::verify(&job.payload, secret).map_err(|bad| set_aside(job, &bad));
            read.push(secret.clone().and_then(verify).map(|()| order));
        }
        read
    }

    async fn secret(&self, sale: &SaleId) -> Result<SaleSecret, Outcome> {
        match self.through_outages("store", || self.gate.store().sale(sale)).await {
            Ok(state) => Ok(state.spec.secret),
            Err(error) if error.is_not_found() => Err(Outcome::give_up(error)),
            Err(error) => Err(Outcome::retry(error)),
        }
    }

    async fn carry_entries(&self, entries: Vec<OrderTask>) -> Vec<Outcome> {
        let mut written = self.write(&entries).await;
        self.introduce_sales(&entries, &mut written).await;
        let Judgement { outcomes, verdicts, parted } = self.judge(&entries, written);
        let told = async {
            self.settle(verdicts).await?;
            self.halt(parted).await
        };
        match told.await {
            Ok(()) => outcomes,
            Err(error) => outcomes.into_iter().map(|_| Outcome::retry(&error)).collect(),
        }
    }

    /// Halts sales whose store differs from the ledger. Only a rebuild can resume them, and it takes every
    /// reservation from the store, so the tasks are done.
    async fn halt(&self, parted: BTreeSet<(SaleId, Option<u32>)>) -> Result<()> {
        for (id, generation) in parted {
            let generation = match generation {
                Some(generation) => generation,
                None => self.through_outages("store", || self.gate.store().sale(&id)).await?.generation,
            };
            let halt = || self.gate.store().halt_sale(&id, generation, HaltReason::LostWrites);
            if self.through_outages("store", halt).await? {
                tracing::error!(sale = %id, generation, "store and ledger have diverged; the sale is halted");
                self.rebuild(self.gate.sale_by_id(&id)).await;
            }
        }
        Ok(())
    }

    /// Rebuilds the sale, through outages, unless another process does. If the rebuild fails for good, it
    /// logs the error, the sale stays halted, and the watch retries.
    async fn rebuild(&self, sale: Sale) {
        let Some(receipts_first) = self.rebuilds else { return };
        let mut pauses = Pauses::new();
        loop {
            let rebuild = Rebuild::new(sale.clone(), Arc::clone(&self.ledger)).receipts_first(receipts_first);
            match rebuild.run_if_needed().await {
                Ok(Some(RebuildOutcome::Rebuilt(_))) => return add(&self.counters.rebuilds, 1),
                Err(error) if will_be_mended(&error) && !self.gate.closing().is_cancelled() => {
                    add(&self.counters.outages, 1);
                    sleep(pauses.draw()).await;
                }
                _ => return,
            }
        }
    }

    /// Compares store and ledger at an interval.
    async fn watch(&self, sale: &Sale, every: Duration) {
        loop {
            // Read before the check, so that a server that takes over meanwhile triggers another one.
            let server = self.gate.store().incarnation();
            if let Err(error) = self.look(sale).await {
                tracing::debug!(sale = %sale.id(), %error, "cannot compare store and ledger");
            }
            let _ = timeout(every, self.other_than(&server)).await;
        }
    }

    /// Waits until another server answers for the store.
    async fn other_than(&self, server: &str) {
        while self.gate.store().incarnation() == server {
            sleep(NOTICED_AFTER).await;
        }
    }

    async fn look(&self, sale: &Sale) -> Result<()> {
        // The store is read last, so it must be at least as recent as the ledger.
        let Some(known) = self.ledger.find_sale(sale.id()).await? else { return Ok(()) };
        let state = sale.state().await?;
        if state.halted.is_some() {
            self.rebuild(sale.clone()).await;
        } else if known.is_ahead_of(&state) {
            add(&self.counters.lost_writes, 1);
            self.halt(BTreeSet::from([(sale.id().clone(), Some(state.generation))])).await?;
        }
        Ok(())
    }

    /// Commits the entries to the ledger. If it rejects the batch as a whole, each entry is written in its
    /// own transaction, so that a bad entry affects no other.
    async fn write(&self, entries: &[OrderTask]) -> Vec<Result<Written>> {
        match self.write_batch(entries).await {
            Ok(written) => written.into_iter().map(Ok).collect(),
            Err(error) if entries.len() == 1 => vec![Err(error)],
            Err(error) => {
                tracing::warn!(%error, n = entries.len(), "the ledger refused a batch; writing its entries separately");
                let mut written = Vec::with_capacity(entries.len());
                for entry in entries {
                    let one = self.write_batch(std::slice::from_ref(entry)).await;
                    written.push(one.and_then(first));
                }
                written
            }
        }
    }

    /// Writes one transaction. Waits out an outage: the tasks stay leased meanwhile, and no attempt is
    /// counted.
    async fn write_batch(&self, entries: &[OrderTask]) -> Result<Vec<Written>> {
        let written = self.through_outages("ledger", || self.ledger.write(entries.to_vec())).await?;
        if written.len() != entries.len() {
            return Err(Error::bug("the ledger returned the wrong number of answers"));
        }
        add(&self.counters.batches, 1);
        add(&self.counters.written, entries.len());
        Ok(written)
    }

    async fn through_outages<'a, T>(
        &self,
        whose: &str,
        call: impl Fn() -> rushgate_core::Answer<'a, T>,
    ) -> Result<T> {
        let mut pauses = Pauses::new();
        loop {
            let answer = call().await;
            let error = match answer {
                Err(error) if will_be_mended(&error) && !self.gate.closing().is_cancelled() => error,
                answer => return answer,
            };
            add(&self.counters.outages, 1);
            tracing::warn!(%error, "the {whose} is unavailable; orders are pending");
            sleep(pauses.draw()).await;
        }
    }

    /// Registers an unknown sale with the ledger and writes the entries again.
    async fn introduce_sales(&self, entries: &[OrderTask], written: &mut [Result<Written>]) {
        let mut strangers: BTreeMap<&SaleId, Vec<usize>> = BTreeMap::new();
        for (at, (entry, written)) in entries.iter().zip(&*written).enumerate() {
            if matches!(written, Ok(Written::Refused(Refusal::UnknownSale))) {
                strangers.entry(entry.sale()).or_default().push(at);
            }
        }
        for (sale, places) in strangers {
            if let Err(error) = self.introduce(sale).await {
                tracing::warn!(%sale, %error, "cannot register the sale in the ledger");
                continue;
            }
            let again: Vec<_> = places.iter().map(|at| entries[*at].clone()).collect();
            for (at, answer) in places.into_iter().zip(self.write(&again).await) {
                written[at] = answer;
            }
        }
    }

    async fn introduce(&self, sale: &SaleId) -> Result<()> {
        let state = self.through_outages("store", || self.gate.store().sale(sale)).await?;
        let known = introduction(&state);
        self.through_outages("ledger", || self.ledger.open_sale(known.clone())).await
    }

    /// Outcome of each task, and the decisions to record in the store first.
    fn judge(&self, entries: &[OrderTask], written: Vec<Result<Written>>) -> Judgement {
        let (mut verdicts, mut parted) = (Verdicts::new(), BTreeSet::new());
        let outcome = |(entry, written): (&OrderTask, Result<Written>)| {
            let written = match written {
                Ok(written) => written,
                Err(error) if error.is_invalid() => return Outcome::give_up(error),
                Err(error) => return Outcome::retry(error),
            };
            if written.shows_lost_writes() {
                // Old generation: either this entry is late, or the store is behind. The store is asked later
                // for its generation.
                if written != Written::Refused(Refusal::OldGeneration) {
                    add(&self.counters.lost_writes, 1);
                    tracing::error!(?entry, ?written, "the store has lost writes");
                }
                parted.insert((entry.sale().clone(), generation_of(entry)));
            }
            if let OrderTask::Reservation { sale, generation, id, intent, .. } = entry
                && !awaits_rebuild(&written)
                && let Some(verdict) = written.verdict(*intent)
            {
                verdicts.entry((sale.clone(), *generation)).or_default().push((*id, verdict));
            }
            match written {
                Written::Refused(refusal) if !refusal.is_final() => {
                    Outcome::retry_after(AGAIN_AFTER, format_args!("the ledger refuses: {refusal:?}"))
                }
                _ => Outcome::Done,
            }
        };
        let outcomes = entries.iter().zip(written).map(outcome).collect();
        Judgement { outcomes, verdicts, parted }
    }

    async fn settle(&self, verdicts: Verdicts) -> Result<()> {
        for ((sale, generation), verdicts) in verdicts {
            let tell = || self.gate.store().settle(&sale, generation, verdicts.clone());
            let settled = self.through_outages("store", tell).await?;
            for ((id, verdict), settled) in verdicts.iter().zip(settled) {
                match (settled, verdict) {
                    (Settled::Settled, Verdict::Rejected { .. }) => add(&self.counters.rejected, 1),
                    (Settled::Settled, _) => add(&self.counters.settled, 1),
                    (Settled::Unchanged(_), _) => {}
                    (Settled::Unknown, _) => {
                        tracing::warn!(%sale, %id, "the ledger has an order that the store does not have");
                    }
                }
            }
            self.gate.sale_by_id(&sale).nudge();
        }
        Ok(())
    }
}

fn set_aside(job: &Job, bad: &BadOrder) -> Outcome {
    tracing::error!(queue = %job.queue, task = %job.ticket.id, %bad, "an order became a dead letter");
    Outcome::give_up(bad)
}

fn first(written: Vec<Written>) -> Result<Written> {
    written.into_iter().next().ok_or_else(|| Error::bug("the ledger returned no answer for an entry"))
}

fn generation_of(entry: &OrderTask) -> Option<u32> {
    match entry {
        OrderTask::Reservation { generation, .. } => Some(*generation),
        OrderTask::Stock { .. } => None,
    }
}

/// True if the store cannot take the ledger's decision: the order has other units there, or must be written
/// again.
fn awaits_rebuild(written: &Written) -> bool {
    matches!(written, Written::Reassigned { .. } | Written::Refused(Refusal::SequenceReused))
}

/// True for an error that time or an operator fixes. The entries are not the cause.
fn will_be_mended(error: &Error) -> bool {
    will_pass(error) || error.is_misconfigured() || error.is_corrupt()
}
