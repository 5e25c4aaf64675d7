use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{
    Delivery, Error, Failure, Follow, Followed, HaltReason, Lease, LedgerEntry, OrderBatch, ReservationId,
    Result, Settled, Timestamp, Token, Verbs, Verdict, check_range, with_causes,
};
use rushgate_ledger::{Ledger, Refusal, Written};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Sale;
use super::rebuild::{Rebuild, RebuildOutcome, introduction};
use crate::counters::{count, counters};
use crate::retry::{Pauses, will_pass};

/// Delay before the first retry of an entry that the ledger could not record. It doubles with each attempt.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// Interval at which a worker asks again while another one follows the sale.
const STANDBY: Duration = Duration::from_secs(1);
/// Interval between comparisons of store and ledger.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How soon they are compared after another server answers for the store. Checking for that sends no request.
const NOTICED_AFTER: Duration = Duration::from_millis(50);
/// Entries per ledger transaction.
const WRITE_BATCH: usize = 1_000;

/// Writes the orders of a sale to its ledger: follows the sale's event log, commits the entries of a batch of events
/// to the ledger, and settles their reservations in the store.
///
/// One worker at a time follows a sale, under a lease; others wait for the lease to end. Each step is idempotent, so a
/// crash in between is harmless: the next worker gets the same entries again. While the ledger or the store is
/// unreachable, the batch waits, and no order is lost. An entry that the ledger rejects for a reason of its own is
/// [set aside](Sale::failed_orders) and retried after 200 ms, then after twice as long each time, up to 1 h. The
/// others continue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # use std::time::Duration;
/// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use rushgate::{BuyerId, CancellationToken, IdempotencyKey, Line, OrderWorker, Reserved, SaleBuilder, Sku, connect_ledger};
/// use rushgate::sale::HoldState;
///
/// client.create_sale(SaleBuilder::new("phones").sku("phone", 1, 1).ledger()).await?;
/// let (sale, ledger) = (client.sale("phones")?, connect_ledger("sqlite::memory:")?);
/// sale.open().await?;
/// let shutdown = CancellationToken::new();
/// let follower = tokio::spawn(OrderWorker::new(sale.clone(), ledger.clone()).run(shutdown.clone()));
///
/// let (ann, key) = (BuyerId::new("ann")?, IdempotencyKey::new("click-1")?);
/// let cart = [Line { sku: Sku::new("phone")?, quantity: 1 }];
/// let Reserved::Reserved(hold) = sale.reserve(&ann, &cart, &key).await? else { panic!("one is left") };
/// sale.confirm(hold.id).await?;
/// let order = sale.wait_final(hold.id, Duration::from_secs(20)).await?.expect("it was made");
/// assert_eq!(order.state, HoldState::Confirmed);
///
/// shutdown.cancel();
/// let report = follower.await.expect("no panic")?;
/// assert_eq!(report.settled, 1);
/// assert!(sale.audit(Some(&*ledger)).await?.ok);
/// # client.close().await
/// # }
/// ```
#[must_use = "an order worker does nothing until it runs"]
pub struct OrderWorker {
    sale: Sale,
    ledger: Arc<dyn Ledger>,
    batch: u32,
    lease: Duration,
    grace: Duration,
    rebuilds: Option<Duration>,
    look_every: Duration,
}

counters! {
    /// Totals of an order worker.
    OrderReport, Counters {
        /// Batches that the ledger committed.
        batches,
        /// Entries that the ledger committed, repeats included.
        written,
        /// Reservations that the store moved to confirmed, canceled or expired after the ledger committed
        /// them.
        settled,
        /// Entries that the ledger refused for good. Their reservations were rejected.
        rejected,
        /// Attempts at entries that the ledger could not record, which are retried later.
        failed,
        /// Answers that prove that the store lost acknowledged writes.
        lost_writes,
        /// Sales that the worker rebuilt.
        rebuilds,
        /// Calls that failed because the ledger or the store was unreachable, and were retried.
        outages,
    }
}

impl fmt::Debug for OrderWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderWorker").field("sale", self.sale.id()).finish_non_exhaustive()
    }
}

impl OrderWorker {
    /// Creates a worker for the sale.
    pub fn new(sale: Sale, ledger: Arc<dyn Ledger>) -> Self {
        let (lease, grace) = (Duration::from_secs(10), Duration::from_secs(10));
        Self { sale, ledger, batch: 500, lease, grace, rebuilds: None, look_every: LOOK_EVERY }
    }

    /// Maximum number of events that it reads at a time: 1 to 1,000. Default: 500.
    pub fn batch(mut self, batch: u32) -> Self {
        self.batch = batch;
        self
    }

    /// Lease on the sale: 10 ms to 24 h. If the worker dies, another one continues after this time. Default: 10 s.
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

    /// Runs until `shutdown` is canceled, then finishes the current batch.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the sale has no ledger or for a batch or lease outside its range, and
    /// [`is_not_found`](Error::is_not_found) if there is no such sale. Otherwise only lasting errors. Events that were
    /// not reported stay for the next worker.
    pub async fn run(self, shutdown: CancellationToken) -> Result<OrderReport> {
        // A request for 0 events would give up the lease.
        check_range("the batch size", self.batch.into(), 1, Follow::EVENTS_MAX.into())?;
        if !self.sale.state().await?.spec.ledger {
            return Err(Error::invalid("the sale", "has no ledger")
                .hint("call SaleBuilder::ledger when you create the sale"));
        }
        let follower = OrderFollower {
            worker: self.sale.client().token(),
            lease: Lease::new(self.lease)?,
            batch: self.batch,
            sale: self.sale,
            ledger: self.ledger,
            counters: Counters::default(),
            rebuilds: self.rebuilds,
        };
        let out_of_time = async {
            shutdown.cancelled().await;
            sleep(self.grace).await;
        };
        tokio::select! {
            followed = follower.follow(&shutdown) => followed?,
            () = out_of_time => tracing::warn!(sale = %follower.sale.id(), "stopped before the batch was finished"),
            () = follower.watch(self.look_every) => unreachable!("a watch has no end"),
        }
        Ok(follower.counters.report())
    }
}

/// A running worker.
struct OrderFollower {
    worker: Token,
    sale: Sale,
    ledger: Arc<dyn Ledger>,
    batch: u32,
    lease: Lease,
    counters: Counters,
    rebuilds: Option<Duration>,
}

/// What the next request reports of a batch.
#[derive(Clone, Default)]
struct Report {
    generation: u32,
    through: u64,
    failed: Vec<Failure>,
    recovered: Vec<u64>,
}

/// Outcome of a batch.
#[derive(Default)]
struct Judgement {
    /// Decisions to record in the store.
    verdicts: Vec<(ReservationId, Verdict)>,
    failed: Vec<Failure>,
    recovered: Vec<u64>,
    /// Whether the store has lost writes.
    lost_writes: bool,
}

impl OrderFollower {
    async fn follow(&self, shutdown: &CancellationToken) -> Result<()> {
        let (mut report, mut next_retry) = (Report::default(), None);
        loop {
            let is_last = shutdown.is_cancelled();
            let follow = self.request(&report, if is_last { 0 } else { self.batch });
            let store = self.sale.client().store();
            let followed = self.through_outages("store", || store.follow_orders(follow.clone())).await?;
            report = match followed {
                _ if is_last => return Ok(()),
                Followed::Busy { until } => {
                    self.stand_by(until, shutdown).await;
                    Report::default()
                }
                Followed::Batch(batch) if batch.entries.is_empty() => {
                    if (batch.generation, batch.through) == (report.generation, report.through) {
                        self.idle(&batch, next_retry.take(), shutdown).await;
                    }
                    Report { generation: batch.generation, through: batch.through, ..Report::default() }
                }
                Followed::Batch(batch) => self.deliver(batch).await?,
            };
            let due = report.failed.iter().map(|failure| Instant::now() + failure.retry_after);
            next_retry = due.chain(next_retry).min();
        }
    }

    fn request(&self, report: &Report, n: u32) -> Follow {
        let Report { generation, through, failed, recovered } = report.clone();
        let (sale, worker, lease) = (self.sale.id().clone(), self.worker, self.lease);
        Follow { sale, worker, generation, through, failed, recovered, n, lease }
    }

    /// Waits while another worker follows the sale.
    async fn stand_by(&self, until: Timestamp, shutdown: &CancellationToken) {
        tracing::debug!(sale = %self.sale.id(), ?until, "another worker follows the sale");
        let _ = timeout(STANDBY, shutdown.cancelled()).await;
    }

    /// Waits for an event or the next retry, for a third of the lease at most.
    async fn idle(&self, batch: &OrderBatch, next_retry: Option<Instant>, shutdown: &CancellationToken) {
        let renewal = Instant::now() + self.lease.get() / 3;
        let until = next_retry.map_or(renewal, |due| due.min(renewal));
        let happens = async {
            let heard = self.sale.next_event(batch.latest).await;
            if heard.is_err() || batch.through < batch.latest {
                std::future::pending().await
            }
        };
        tokio::select! {
            () = happens => {}
            () = sleep_until(until) => {}
            () = shutdown.cancelled() => {}
        }
    }

    /// Writes a batch to the ledger and settles it in the store.
    async fn deliver(&self, batch: OrderBatch) -> Result<Report> {
        let entries: Vec<_> = batch.entries.iter().map(|delivery| delivery.entry.clone()).collect();
        let mut written = self.write(&entries).await;
        if written.iter().any(|written| matches!(written, Ok(Written::Refused(Refusal::UnknownSale)))) {
            self.introduce().await?;
            written = self.write(&entries).await;
        }
        let Judgement { verdicts, failed, recovered, lost_writes } = self.judge(&batch.entries, written);
        self.settle(batch.generation, verdicts).await?;
        if lost_writes {
            self.halt(batch.generation).await?;
        }
        Ok(Report { generation: batch.generation, through: batch.through, failed, recovered })
    }

    /// Halts the sale, because its store differs from the ledger. Only a rebuild can resume it, and takes every
    /// reservation from the store. Changes nothing if the sale was rebuilt since.
    async fn halt(&self, generation: u32) -> Result<()> {
        let (store, id) = (self.sale.client().store(), self.sale.id());
        let halt = || store.halt_sale(id, generation, HaltReason::LostWrites);
        if self.through_outages("store", halt).await? {
            tracing::error!(sale = %id, generation, "store and ledger have diverged; the sale is halted");
            self.rebuild().await;
        }
        Ok(())
    }

    /// Rebuilds the sale, through outages, unless another process does. If the rebuild fails for good, it
    /// logs the error, the sale stays halted, and the watch retries.
    async fn rebuild(&self) {
        let Some(receipts_first) = self.rebuilds else { return };
        let mut pauses = Pauses::new();
        loop {
            let rebuild =
                Rebuild::new(self.sale.clone(), Arc::clone(&self.ledger)).receipts_first(receipts_first);
            match rebuild.run_if_needed().await {
                Ok(Some(RebuildOutcome::Rebuilt(_))) => return count(&self.counters.rebuilds, 1),
                Err(error) if self.waits_out(&error) => {
                    count(&self.counters.outages, 1);
                    sleep(pauses.draw()).await;
                }
                _ => return,
            }
        }
    }

    /// Compares store and ledger at an interval.
    async fn watch(&self, every: Duration) {
        loop {
            // Read before the check, so that a server that takes over meanwhile triggers another one.
            let server = self.sale.client().store().incarnation();
            if let Err(error) = self.look().await {
                tracing::debug!(sale = %self.sale.id(), %error, "cannot compare store and ledger");
            }
            let _ = timeout(every, self.other_than(&server)).await;
        }
    }

    /// Waits until another server answers for the store.
    async fn other_than(&self, server: &str) {
        while self.sale.client().store().incarnation() == server {
            sleep(NOTICED_AFTER).await;
        }
    }

    async fn look(&self) -> Result<()> {
        // The store is read last, so it must be at least as recent as the ledger.
        let Some(known) = self.ledger.find_sale(self.sale.id()).await? else { return Ok(()) };
        let state = self.sale.state().await?;
        if state.halted.is_some() {
            self.rebuild().await;
        } else if known.is_ahead_of(&state) {
            count(&self.counters.lost_writes, 1);
            self.halt(state.generation).await?;
        }
        Ok(())
    }

    /// Commits the entries to the ledger.
    async fn write(&self, entries: &[LedgerEntry]) -> Vec<Result<Written>> {
        let mut written = Vec::with_capacity(entries.len());
        for batch in entries.chunks(WRITE_BATCH) {
            written.extend(self.write_or_split(batch).await);
        }
        written
    }

    /// Commits one transaction. If the ledger rejects it as a whole, each entry is written in its own transaction, so
    /// that a bad entry affects no other.
    async fn write_or_split(&self, entries: &[LedgerEntry]) -> Vec<Result<Written>> {
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

    /// Writes one transaction. Waits out an outage. The lease may end meanwhile: another worker then writes the same
    /// entries, which changes nothing.
    async fn write_batch(&self, entries: &[LedgerEntry]) -> Result<Vec<Written>> {
        let written = self.through_outages("ledger", || self.ledger.write(entries.to_vec())).await?;
        if written.len() != entries.len() {
            return Err(Error::bug("the ledger returned the wrong number of answers"));
        }
        count(&self.counters.batches, 1);
        count(&self.counters.written, entries.len());
        Ok(written)
    }

    async fn through_outages<'a, T>(
        &self,
        whose: &str,
        call: impl Fn() -> rushgate_core::Answer<'a, T>,
    ) -> Result<T> {
        let mut pauses = Pauses::new();
        loop {
            let error = match call().await {
                Err(error) if self.waits_out(&error) => error,
                answer => return answer,
            };
            count(&self.counters.outages, 1);
            tracing::warn!(%error, "the {whose} is unavailable; orders are pending");
            sleep(pauses.draw()).await;
        }
    }

    /// True for an error that time or an operator fixes, until the client closes. The entries are not the cause.
    fn waits_out(&self, error: &Error) -> bool {
        let will_be_mended = will_pass(error) || error.is_misconfigured() || error.is_corrupt();
        will_be_mended && !self.sale.client().closing().is_cancelled()
    }

    /// Registers the sale with the ledger.
    async fn introduce(&self) -> Result<()> {
        let (store, id) = (self.sale.client().store(), self.sale.id());
        let known = introduction(&self.through_outages("store", || store.sale(id)).await?);
        self.through_outages("ledger", || self.ledger.open_sale(known.clone())).await
    }

    fn judge(&self, deliveries: &[Delivery], written: Vec<Result<Written>>) -> Judgement {
        let mut judgement = Judgement::default();
        for (delivery, written) in deliveries.iter().zip(written) {
            match written {
                Ok(Written::Refused(refusal)) if !refusal.is_final() => {
                    judgement.failed.push(failure(delivery, format!("the ledger refuses: {refusal:?}")));
                }
                Ok(written) => self.judge_one(delivery, &written, &mut judgement),
                Err(error) => judgement.failed.push(failure(delivery, with_causes(&error))),
            }
        }
        count(&self.counters.failed, judgement.failed.len());
        for failure in &judgement.failed {
            let (seq, reason) = (failure.seq, &failure.reason);
            tracing::error!(sale = %self.sale.id(), seq, reason, "the ledger could not record an order; it is retried");
        }
        judgement
    }

    fn judge_one(&self, delivery: &Delivery, written: &Written, judgement: &mut Judgement) {
        if delivery.attempts > 0 {
            judgement.recovered.push(delivery.seq);
        }
        if written.shows_lost_writes() {
            judgement.lost_writes = true;
            // Old generation: either this entry is late, or the store is behind. Halting asks for its generation.
            if *written != Written::Refused(Refusal::OldGeneration) {
                count(&self.counters.lost_writes, 1);
                tracing::error!(entry = ?delivery.entry, ?written, "the store has lost writes");
            }
        }
        if let LedgerEntry::Reservation { id, intent, .. } = &delivery.entry
            && !awaits_rebuild(written)
            && let Some(verdict) = written.verdict(*intent)
        {
            judgement.verdicts.push((*id, verdict));
        }
    }

    async fn settle(&self, generation: u32, verdicts: Vec<(ReservationId, Verdict)>) -> Result<()> {
        let (store, id) = (self.sale.client().store(), self.sale.id());
        for verdicts in verdicts.chunks(WRITE_BATCH) {
            let tell = || store.settle(id, generation, verdicts.to_vec());
            let settled = self.through_outages("store", tell).await?;
            for ((reservation, verdict), settled) in verdicts.iter().zip(settled) {
                match (settled, verdict) {
                    (Settled::Settled, Verdict::Rejected { .. }) => count(&self.counters.rejected, 1),
                    (Settled::Settled, _) => count(&self.counters.settled, 1),
                    (Settled::Unchanged(_), _) => {}
                    (Settled::Unknown, _) => {
                        tracing::warn!(sale = %id, %reservation, "the ledger has an order that the store does not have");
                    }
                }
            }
        }
        self.sale.nudge();
        Ok(())
    }
}

fn failure(delivery: &Delivery, reason: String) -> Failure {
    let doubled = RETRY_AFTER.saturating_mul(1 << delivery.attempts.min(20));
    let (attempts, retry_after) = (delivery.attempts.saturating_add(1), doubled.min(Failure::RETRY_MAX));
    Failure { seq: delivery.seq, attempts, reason, retry_after }
}

fn first(written: Vec<Written>) -> Result<Written> {
    written.into_iter().next().ok_or_else(|| Error::bug("the ledger returned no answer for an entry"))
}

/// True if the store cannot take the ledger's decision: the order has other units there, or must be written
/// again.
fn awaits_rebuild(written: &Written) -> bool {
    matches!(written, Written::Reassigned { .. } | Written::Refused(Refusal::SequenceReused))
}
