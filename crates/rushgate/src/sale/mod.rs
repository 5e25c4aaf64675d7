//! Sales: oversell-proof inventory of numbered units, reserved by buyers, each sold exactly once.

mod builder;
mod endings;
mod orders;
mod rebuild;
mod room;
mod sweeper;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{Durability, Error, LedgerSnapshot, Meanwhile, Op, Page, Reserve, Result, Verbs};
use tokio::time::{Instant, timeout};

pub use crate::cache::{AdmissionStats, Estimate};
pub use builder::SaleBuilder;
pub use orders::{OrderReport, OrderWorker};
pub use rebuild::{Rebuild, RebuildOutcome, RebuildReport};
pub use room::{Admission, NoPass, Room, RoomTicket};
#[doc(inline)]
pub use rushgate_core::{
    AdmissionSchedule, Audit, BadPass, BadReceipt, Beacon, BuyerId, Check, ClosedEntry, Commitment, Created,
    DamagedSale, Decision, Draw, DrawRecord, DrawSecret, Drawn, Event, EventKind, FailedOrder, Halt,
    HaltReason, Hold, HoldState, HoldTime, IdempotencyKey, LedgerEntry, Line, ListedSale, OrderIntent,
    OrdersState, Pass, Receipt, ReservationId, Reserved, Restored, RoomOrder, RoomRules, RoomState, SaleId,
    SaleSpec, SaleState, SaleStatus, Sku, SkuCounters, SkuSpec, SkuState, Snapshot, StockChange,
    StockChanged, UnitChoice, UnitNumber, UnitRange,
};
#[doc(inline)]
pub use rushgate_ledger::{
    Ledger, connect as connect_ledger, connect_when_it_can as connect_ledger_when_it_can,
};
pub use sweeper::{SweepReport, Sweeper};

use crate::Rushgate;
use crate::cache::{AdmissionCache, Mark, SaleCache, mark_of};
use crate::counters::count;
use crate::retry::moment_after;

/// A handle to one sale. Cheap to clone; all handles of one client share an admission cache.
///
/// # Admission cache
/// Once a SKU has no free units, this process answers "sold out" from memory. It lets one request through to
/// the store per 50 ms, and one as soon as a hold is due to expire, so that released units are found. The
/// cache never holds stock.
///
/// Requests that may be idempotent replays always reach the store: those whose reservation this process made
/// or has read from the event log. The cache may not yet know a reservation that another process made less
/// than 50 ms ago.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
/// use rushgate::{BuyerId, IdempotencyKey, Line, Reserved, SaleBuilder, Sku};
///
/// client.create_sale(SaleBuilder::new("phones").sku("phone", 1, 1).hold(Duration::from_secs(120))).await?;
/// let sale = client.sale("phones")?;
/// sale.open().await?;
///
/// let cart = [Line { sku: Sku::new("phone")?, quantity: 1 }];
/// let (ann, key) = (BuyerId::new("ann")?, IdempotencyKey::new("click-1")?);
/// let Reserved::Reserved(hold) = sale.reserve(&ann, &cart, &key).await? else { panic!("one is left") };
/// assert_eq!(hold.units, [(Sku::new("phone")?, 1)]);
/// sale.confirm(hold.id).await?;
///
/// let late = sale.reserve(&BuyerId::new("bob")?, &cart, &key).await?;
/// assert!(matches!(late, Reserved::SoldOut { .. }));
/// assert!(sale.audit(None).await?.ok);
/// # client.close().await
/// # }
/// ```
#[derive(Clone)]
pub struct Sale {
    client: Rushgate,
    shared: Arc<SaleCache>,
}

impl Rushgate {
    /// A handle to the sale `id`. Sends no request.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) unless the ID has 1 to 200 bytes and no white space, control
    /// characters or braces.
    pub fn sale(&self, id: impl AsRef<str>) -> Result<Sale> {
        Ok(self.sale_by_id(&SaleId::new(id)?))
    }

    fn sale_by_id(&self, id: &SaleId) -> Sale {
        let shared = self.sale_cache(id);
        Sale { client: self.clone(), shared }
    }

    /// Creates a sale. Call [`Sale::open`] to open it.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a value outside its range: nothing was created. Otherwise
    /// the store could not answer; [`may_have_happened`](crate::Error::may_have_happened) says whether the
    /// sale may exist.
    pub async fn create_sale(&self, sale: SaleBuilder) -> Result<Created> {
        let spec = sale.build()?;
        self.ask(|| self.store().create(spec.clone())).await
    }
}

impl Sale {
    /// ID of the sale.
    pub fn id(&self) -> &SaleId {
        &self.shared.id
    }

    /// Opens the sale, or schedules it if `opens_at` is in the future. Returns the resulting status.
    pub async fn open(&self) -> Result<SaleStatus> {
        let status = self.client.ask(|| self.client.store().open(self.id())).await;
        self.nudge();
        status
    }

    /// Ends the sale for good. Existing holds can still be confirmed, canceled and expire. Returns the
    /// resulting status.
    pub async fn end(&self) -> Result<SaleStatus> {
        let status = self.client.ask(|| self.client.store().end(self.id())).await;
        self.nudge();
        status
    }

    /// State of the sale.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if there is no such sale.
    pub async fn state(&self) -> Result<SaleState> {
        let mut before = Mark::default();
        let ask = || {
            before = self.shared.high_water.mark();
            self.client.store().sale(self.id())
        };
        let mut state = self.client.ask(ask).await?;
        let now = mark_of(&state);
        if now < before && state.halted.is_none() {
            self.went_back(before, now).await;
            state = self.client.ask(|| self.client.store().sale(self.id())).await?;
        }
        // With replicated acknowledgment, a read may show a write that is not acknowledged yet. A failover
        // may undo it, and that is no lost write.
        if self.client.info().durability < Durability::D3 {
            self.shared.high_water.note(now);
        }
        Ok(state)
    }

    /// Halts the sale until it is [rebuilt](Rebuild): the store refuses reservations and decisions. True if
    /// it is halted.
    ///
    /// Rushgate halts a sale automatically when it finds that the store has lost writes.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a sale without a ledger, because only a ledger can
    /// rebuild it.
    pub async fn halt(&self) -> Result<bool> {
        let generation = self.state().await?.generation;
        self.halt_as(generation, HaltReason::Operator).await
    }

    async fn halt_as(&self, generation: u32, reason: HaltReason) -> Result<bool> {
        self.client.ask(|| self.client.store().halt_sale(self.id(), generation, reason)).await
    }

    /// Halts the sale because the store is behind an earlier answer.
    async fn went_back(&self, before: Mark, now: Mark) {
        tracing::error!(
            sale = %self.id(), ?before, ?now,
            "the store lost acknowledged writes; the sale is halted until it is rebuilt"
        );
        if let Err(error) = self.halt_as(now.0, HaltReason::LostWrites).await {
            tracing::error!(sale = %self.id(), %error, "cannot halt the sale");
        }
    }

    /// Signed receipt of a reservation. If the store loses the reservation, [`restore`](Self::restore) brings
    /// it back. Hand the receipt to the buyer with the reservation.
    pub async fn receipt(&self, hold: &Hold) -> Result<String> {
        Ok(Receipt::of(self.id(), hold).sign(self.admission().await?.secret()))
    }

    /// Reads a receipt, and checks that this sale has signed it. Changes nothing. `Err(BadReceipt)` says why a text is not
    /// a receipt of this sale.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) for an unknown sale. Otherwise the store could not answer.
    pub async fn read_receipt(&self, receipt: &str) -> Result<Result<Receipt, BadReceipt>> {
        Ok(Receipt::read(receipt, self.id(), self.admission().await?.secret()))
    }

    /// Restores a reservation that the store has lost, from its receipt. The buyer gets the same units, or
    /// others if those are taken. If the reservation exists, it is returned as is, so repeating the call is
    /// safe.
    ///
    /// If a store with a ledger has lost the reservation since its latest rebuild, the receipt proves a lost
    /// write: the sale is halted, and the receipt is honored after the next rebuild.
    pub async fn restore(&self, receipt: &str) -> Result<Restored> {
        let receipt = match self.read_receipt(receipt).await? {
            Ok(receipt) => receipt,
            Err(why) => return Ok(Restored::NotHonoured { why }),
        };
        let answer = self.client.ask(|| self.client.store().restore(receipt.clone())).await?;
        if let Restored::Restored(hold) = &answer {
            self.shared.high_water.note((hold.generation, hold.seq));
        }
        self.nudge();
        Ok(answer)
    }

    /// Reserves units, all lines or none. Any free unit numbers match.
    ///
    /// The idempotency key identifies this attempt of the buyer: sending it again returns the same
    /// reservation. While the outcome is unknown, the request is retried for up to 5 s.
    ///
    /// # Cancel safety
    /// A dropped request may have reserved units. Repeat it with the same key to find out; otherwise the hold
    /// expires.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for lines outside their range, and
    /// [`is_not_found`](crate::Error::is_not_found) for an unknown sale or SKU: nothing was reserved.
    /// Otherwise the store could not answer; repeat the request with the same key.
    pub async fn reserve(&self, buyer: &BuyerId, lines: &[Line], key: &IdempotencyKey) -> Result<Reserved> {
        self.reserve_units(buyer, lines, UnitChoice::Any, key).await
    }

    /// Like [`reserve`](Self::reserve), with a choice of unit numbers. [`SameNumber`](UnitChoice::SameNumber)
    /// reserves one seat for several segments of a journey.
    pub async fn reserve_units(
        &self,
        buyer: &BuyerId,
        lines: &[Line],
        choice: UnitChoice,
        key: &IdempotencyKey,
    ) -> Result<Reserved> {
        let admission = self.admission().await?;
        let id = ReservationId::derive(admission.secret(), self.id(), buyer, key);
        let is_probe = match admission.estimate(id, lines) {
            Some(Estimate::Answer(answer)) => return Ok(answer),
            Some(Estimate::Replay) => {
                count(&admission.counters.replays, 1);
                false
            }
            Some(Estimate::Unknown) => false,
            None => true,
        };
        count(&admission.counters.at_store, 1);
        let request =
            Reserve { sale: self.id().clone(), id, buyer: buyer.clone(), lines: lines.to_vec(), choice };
        let (asking, mut before) = (admission.reservations.asking(id), Mark::default());
        let ask = || {
            // Read the mark before every request: an outage may lose writes, and other requests were answered
            // before it.
            before = self.shared.high_water.mark();
            self.client.store().reserve(request.clone())
        };
        let answer = self.client.ask(ask).await?;
        asking.answered(&answer);
        if let Reserved::Reserved(hold) = &answer {
            self.shared.moved.notify_waiters();
            let now = (hold.generation, hold.seq);
            if now <= before {
                self.went_back(before, now).await;
            }
            self.shared.high_water.note(now);
        }
        if is_probe || admission.contradicts(&answer) {
            // A failed refresh does not affect the answer to this buyer.
            if let Err(error) = admission.learn(self.client.store(), self.id(), (&answer).into()).await {
                tracing::debug!(sale = %self.id(), %error, "cannot refresh the admission cache; it is unchanged");
            }
        }
        Ok(answer)
    }

    /// Predicts the outcome of [`reserve`](Self::reserve) without reserving anything. Answers from the
    /// admission cache if the sale is sold out, ended or not open; a due probe refreshes the cache first. Use
    /// it to skip costly checks of a buyer that could get nothing.
    ///
    /// # Errors
    /// As for [`reserve`](Self::reserve). Nothing is reserved in any case.
    pub async fn estimate(&self, buyer: &BuyerId, lines: &[Line], key: &IdempotencyKey) -> Result<Estimate> {
        let admission = self.admission().await?;
        let id = ReservationId::derive(admission.secret(), self.id(), buyer, key);
        if let Some(estimate) = admission.estimate(id, lines) {
            return Ok(estimate);
        }
        let window = (&self.state().await?).into();
        admission.learn(self.client.store(), self.id(), window).await?;
        Ok(match admission.estimate(id, lines) {
            // The refresh has shown that this attempt was made before.
            Some(Estimate::Replay) => Estimate::Replay,
            _ => admission.refusal(lines).map_or(Estimate::Unknown, Estimate::Answer),
        })
    }

    async fn admission(&self) -> Result<&AdmissionCache> {
        self.shared
            .admission
            .get_or_try_init(|| async { Ok(AdmissionCache::new(&self.state().await?.spec)) })
            .await
    }

    /// Confirms a hold after payment. [`Decision::Pending`] if the ledger has yet to commit; use
    /// [`wait_final`](Self::wait_final) to wait for it.
    pub async fn confirm(&self, id: ReservationId) -> Result<Decision> {
        let decision = self.client.ask(|| self.client.store().confirm(self.id(), id)).await;
        self.shared.moved.notify_waiters();
        decision
    }

    /// Cancels a hold, for example because the buyer abandons the cart. [`Decision::Pending`] if the ledger
    /// has yet to commit.
    pub async fn cancel(&self, id: ReservationId) -> Result<Decision> {
        let decision = self.client.ask(|| self.client.store().cancel_hold(self.id(), id)).await;
        self.nudge();
        decision
    }

    /// One reservation by ID.
    pub async fn reservation(&self, id: ReservationId) -> Result<Option<Hold>> {
        self.client.ask(|| self.client.store().reservation(self.id(), id)).await
    }

    /// The reservation that the buyer made with this idempotency key.
    pub async fn reservation_of(&self, buyer: &BuyerId, key: &IdempotencyKey) -> Result<Option<Hold>> {
        let secret = self.admission().await?.secret();
        self.reservation(ReservationId::derive(secret, self.id(), buyer, key)).await
    }

    /// Waits up to `wait` until the reservation is final, and returns it; `None` if there is none. Cancel
    /// safe.
    ///
    /// One reader per sale and process serves all waiters. It reads the sale at once after a change by this
    /// process, and otherwise when the store notifies it of an event, or after 2 s.
    pub async fn wait_final(&self, id: ReservationId, wait: Duration) -> Result<Option<Hold>> {
        let until = moment_after(wait);
        let mut moves = None;
        loop {
            let hold = self.reservation(id).await?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || hold.as_ref().is_none_or(|hold| hold.state.is_final()) {
                return Ok(hold);
            }
            // Listen first and read again: a change in between would be missed.
            match moves.take() {
                None => moves = Some(self.moves(id)),
                Some(moves) => _ = timeout(left, moves).await,
            }
        }
    }

    /// Adds 1 to 10,000,000 units, numbered on from the last. A SKU has at most 10,000,000 units in total:
    /// [`StockChanged::TooLarge`] says how many can be added.
    pub async fn add_stock(&self, sku: &Sku, units: u32) -> Result<StockChanged> {
        self.change_stock(self.client.op(), sku, StockChange::Add(units)).await
    }

    /// Withdraws the highest free units for good, all or nothing: 1 to 10,000,000. Of units that were held
    /// and released before, one call withdraws at most 20,000: [`StockChanged::TooLarge`] says how many units
    /// are possible.
    pub async fn withdraw_stock(&self, sku: &Sku, units: u32) -> Result<StockChanged> {
        self.change_stock(self.client.op(), sku, StockChange::Withdraw(units)).await
    }

    /// Adds or withdraws units, for a program that acts on behalf of others. The same change repeated with
    /// the same `op` gets the same answer and takes effect once. The store remembers the `op` for one day,
    /// across processes.
    pub async fn change_stock(&self, op: Op, sku: &Sku, change: StockChange) -> Result<StockChanged> {
        let changed = self.client.ask(|| self.client.store().stock(op, self.id(), sku, change)).await;
        self.nudge();
        changed
    }

    /// Expires up to `n` holds (1 to 1,000) that are past their deadline, and returns how many. A [`Sweeper`]
    /// does this automatically.
    pub async fn expire(&self, n: u32) -> Result<u32> {
        let ended = self.client.ask(|| self.client.store().expire(self.id(), n)).await;
        if matches!(ended, Ok(1..)) {
            self.nudge();
        }
        ended
    }

    /// Events in order.
    pub async fn events(&self, page: Page<u64>) -> Result<Vec<Event>> {
        self.client.ask(|| self.client.store().events(self.id(), page.clone())).await
    }

    /// Waits until the sale may have an event with a number above `after`. Returns at once if it has one.
    ///
    /// This is a hint, and may be lost if the connection to the store is: read the events after it, and also from time
    /// to time. Dropping the future stops waiting.
    pub async fn next_event(&self, after: u64) -> Result<()> {
        self.client.store().next_sale_event(self.id(), after).await
    }

    /// Entries that the ledger could not record, by event number: up to 1,000 a page. The order worker retries them.
    pub async fn failed_orders(&self, page: Page<u64>) -> Result<Vec<FailedOrder>> {
        self.client.ask(|| self.client.store().failed_orders(self.id(), page.clone())).await
    }

    /// Makes all [failed](Self::failed_orders) entries due now, and returns how many there are. The order worker
    /// retries them within a third of its lease.
    pub async fn retry_orders(&self) -> Result<u32> {
        self.client.ask(|| self.client.store().retry_orders(self.id())).await
    }

    /// Adds up the attempts that servers have answered from memory and from the store: records those of this client
    /// since it started, by answer, and returns the sums over all clients, also over those that have ended. At most 32
    /// answers, each named by 1 to 40 lower-case letters, digits and underscores.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a name or number outside its limits. Otherwise the store could not answer. The
    /// counts may be recorded; recording them again is safe.
    pub async fn count_attempts(&self, answers: Vec<(String, u64)>) -> Result<BTreeMap<String, u64>> {
        let server = self.client.client_id();
        let sums = self
            .client
            .ask(|| self.client.store().count_attempts(self.id(), server, answers.clone()))
            .await?;
        Ok(sums.into_iter().collect())
    }

    /// Snapshot of everything that the store knows about the sale.
    pub async fn snapshot(&self) -> Result<Snapshot> {
        self.client.ask(|| self.client.store().snapshot(self.id())).await
    }

    /// Reconciles store, event log and ledger, entry by entry, and reports whether every guarantee holds. A sale with a
    /// ledger fails the audit if none is passed.
    ///
    /// The sale may be live: the store is read before the ledger, and changes in between are not compared. The ledger
    /// must have every change that an order worker has delivered, except for [failed](Self::failed_orders) ones. If
    /// the ledger does not know the sale, it must have no orders of it.
    ///
    /// It reads all records of the sale into memory: about 1 kB for each unit that is held or sold.
    pub async fn audit(&self, ledger: Option<&dyn Ledger>) -> Result<Audit> {
        loop {
            let snapshot = self.snapshot().await?;
            let Some(ledger) = ledger else {
                return audited(move || rushgate_core::audit(&snapshot, None)).await;
            };
            let orders = match ledger.snapshot(self.id()).await {
                // A sale without a ledger can be audited with one that is unavailable.
                Err(error) if error.is_not_found() || !snapshot.spec.ledger => LedgerSnapshot::default(),
                orders => orders?,
            };
            if is_of_another_sale(&snapshot, &orders) {
                return audited(move || rushgate_core::audit(&snapshot, None)).await;
            }
            let meanwhile = self.since(snapshot.seq).await?;
            // A rebuild in between has started a new log: read again.
            let now = self.client.ask(|| self.client.store().sale(self.id())).await?;
            if now.generation == snapshot.generation {
                return audited(move || rushgate_core::audit_live(&snapshot, Some(&orders), &meanwhile))
                    .await;
            }
        }
    }

    /// Changes after the event with number `seq`.
    async fn since(&self, mut seq: u64) -> Result<Meanwhile> {
        const PAGE: u32 = 10_000;
        let mut meanwhile = Meanwhile::default();
        loop {
            let events = self.events(Page::after(seq, PAGE)).await?;
            let Some(last) = events.last() else { return Ok(meanwhile) };
            seq = last.seq;
            meanwhile.extend(events);
        }
    }

    /// Counters of this process's admission cache for the sale.
    pub fn admission_stats(&self) -> AdmissionStats {
        self.shared.admission.get().map(AdmissionCache::stats).unwrap_or_default()
    }

    fn client(&self) -> &Rushgate {
        &self.client
    }

    /// Records a change by this process: waiters read again, and the next request reaches the store.
    fn nudge(&self) {
        self.shared.moved.notify_waiters();
        if let Some(admission) = self.shared.admission.get() {
            admission.nudge();
        }
    }
}

/// Runs an audit on a blocking thread: of a million units it takes seconds.
async fn audited(audit: impl FnOnce() -> Audit + Send + 'static) -> Result<Audit> {
    tokio::task::spawn_blocking(audit)
        .await
        .map_err(|error| Error::bug("the audit panicked").caused_by(error))
}

/// True if the sale has no ledger, and the ledger's data belong to other sales.
fn is_of_another_sale(snapshot: &Snapshot, ledger: &LedgerSnapshot) -> bool {
    let same = ledger.spec.as_ref().is_some_and(|spec| spec.secret == snapshot.spec.secret);
    !snapshot.spec.ledger && !same
}

impl fmt::Debug for Sale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sale").field("id", self.id()).finish_non_exhaustive()
    }
}
