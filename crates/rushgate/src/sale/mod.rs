//! Sales: numbered units, reserved by buyers, each sold exactly once.

mod builder;
mod endings;
mod gate;
mod known;
mod orders;
mod orders_queue;
mod rebuild;
mod room;
mod seen;
mod sweeper;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rushgate_core::{
    Audit, Books, BuyerId, Created, Decision, Durability, Event, Hold, IdempotencyKey, LedgerBooks, Line,
    Meanwhile, Op, PauseReason, Receipt, ReservationId, Reserve, Reserved, Restored, Result, SaleId,
    SaleState, SaleStatus, Sku, StockChange, StockChanged, UnitChoice,
};
use rushgate_ledger::Ledger;
use tokio::sync::{Notify, OnceCell};
use tokio::time::{Instant, timeout};

pub use builder::SaleBuilder;
pub use gate::GateStats;
pub use orders::{OrderReport, OrderWorker};
pub use rebuild::{Rebuild, RebuildOutcome, RebuildReport};
pub use room::{NoPass, Room, RoomTicket, Turn};
pub use sweeper::{SweepReport, Sweeper};

use crate::Rushgate;
use crate::patience::moment_after;
use endings::Endings;
use gate::Gate;
use room::LastLook;
use seen::{Mark, Seen, mark_of};

/// One sale by id. Cheap to clone; all handles of one client share the gate.
///
/// # The gate
/// Once a SKU has nothing free, this process answers for it from memory, and lets one request through to the store
/// each 50 ms, or as soon as a hold is due to end, so that given-back units are found again. It never holds stock.
/// Requests that may be replays are always let through: those whose reservation this process made or has learned of
/// from the event log. A reservation that another process made less than 50 ms ago may not be known yet.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
/// use rushgate::{BuyerId, IdempotencyKey, Line, Reserved, SaleBuilder, Sku};
///
/// gate.create_sale(SaleBuilder::new("phones").sku("phone", 1, 1).hold(Duration::from_secs(120))).await?;
/// let sale = gate.sale("phones")?;
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
/// # gate.close().await
/// # }
/// ```
#[derive(Clone)]
pub struct Sale {
    gate: Rushgate,
    shared: Arc<Shared>,
}

/// What the handles of one sale share within a client.
struct Shared {
    id: SaleId,
    gate: OnceCell<Gate>,
    /// A reservation was made or moved here.
    moved: Notify,
    /// Who waits here for reservations to end.
    endings: Endings,
    seen: Seen,
    /// Of its waiting room.
    look: LastLook,
}

/// Above this number, unused sales without cached state are removed.
const UNUSED_MAX: usize = 1_024;

/// The sales that a client has touched.
#[derive(Default)]
pub(crate) struct Sales(Mutex<HashMap<SaleId, Arc<Shared>>>);

impl Rushgate {
    /// The sale of that id. Asks the store nothing yet.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) unless the id has 1 to 200 bytes without white space, control
    /// characters and braces.
    pub fn sale(&self, id: impl AsRef<str>) -> Result<Sale> {
        Ok(self.sale_by_id(&SaleId::new(id)?))
    }

    fn sale_by_id(&self, id: &SaleId) -> Sale {
        let mut sales = self.shared_sales().0.lock().unwrap_or_else(PoisonError::into_inner);
        if sales.len() >= UNUSED_MAX && !sales.contains_key(id) {
            // Ids come from outside. Those of no sale are forgotten; a gate that has learned stays.
            sales.retain(|_, sale| sale.gate.initialized() || Arc::strong_count(sale) > 1);
        }
        let shared = sales.entry(id.clone()).or_insert_with(|| {
            Arc::new(Shared {
                id: id.clone(),
                gate: OnceCell::new(),
                moved: Notify::new(),
                endings: Endings::default(),
                seen: Seen::default(),
                look: LastLook::default(),
            })
        });
        Sale { gate: self.clone(), shared: Arc::clone(shared) }
    }

    /// Makes a sale, not yet open.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for what is outside its range: nothing was made. Otherwise the store
    /// could not tell, and the sale may exist if the error says so.
    pub async fn create_sale(&self, sale: SaleBuilder) -> Result<Created> {
        let spec = sale.build()?;
        self.ask(|| self.store().create(spec.clone())).await
    }
}

/// The answer to [`Sale::foresee`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreseen {
    /// So it would be answered: nothing would be taken.
    Answer(Reserved),
    /// The attempt may have been made before: only [`Sale::reserve`] tells.
    Replay,
    /// The store must be asked.
    Unknown,
}

impl Sale {
    /// The id.
    pub fn id(&self) -> &SaleId {
        &self.shared.id
    }

    /// Opens it, from its `opens_at` if it has one. Gives the status that it has then.
    pub async fn open(&self) -> Result<SaleStatus> {
        let status = self.gate.ask(|| self.gate.store().open(self.id())).await;
        self.nudge();
        status
    }

    /// Ends it for good. Holds can still be confirmed, cancelled and expire. Gives the status that it has then.
    pub async fn end(&self) -> Result<SaleStatus> {
        let status = self.gate.ask(|| self.gate.store().end(self.id())).await;
        self.nudge();
        status
    }

    /// The sale as it stands.
    ///
    /// # Errors
    /// [`is_not_found`](crate::Error::is_not_found) if there is no such sale.
    pub async fn state(&self) -> Result<SaleState> {
        let mut before = Mark::default();
        let ask = || {
            before = self.shared.seen.mark();
            self.gate.store().sale(self.id())
        };
        let mut state = self.gate.ask(ask).await?;
        let now = mark_of(&state);
        if now < before && state.paused.is_none() {
            self.went_back(before, now).await;
            state = self.gate.ask(|| self.gate.store().sale(self.id())).await?;
        }
        // A store whose replicas must have a write before it is acknowledged has promised nothing of what only a look
        // shows: a failover may take it back, and nothing was lost.
        if self.gate.info().durability < Durability::D3 {
            self.shared.seen.note(now);
        }
        Ok(state)
    }

    /// Stops the sale until it is [rebuilt](Rebuild): nobody is let in, and nothing is decided. Says whether it is
    /// stopped.
    ///
    /// Rushgate does so by itself when it finds that the store has lost writes.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a sale without a ledger, from which alone it could be rebuilt.
    pub async fn pause(&self) -> Result<bool> {
        let generation = self.state().await?.generation;
        self.pause_as(generation, PauseReason::Operator).await
    }

    async fn pause_as(&self, generation: u32, reason: PauseReason) -> Result<bool> {
        self.gate.ask(|| self.gate.store().pause_sale(self.id(), generation, reason)).await
    }

    /// Stops the sale because the store is behind what it said before.
    async fn went_back(&self, before: Mark, now: Mark) {
        tracing::error!(
            sale = %self.id(), ?before, ?now,
            "the store has lost writes that it had acknowledged; the sale is stopped: rebuild it"
        );
        if let Err(error) = self.pause_as(now.0, PauseReason::LostWrites).await {
            tracing::error!(sale = %self.id(), %error, "the sale could not be stopped");
        }
    }

    /// The signed text that proves a reservation: should the store lose it, [`restore`](Self::restore) brings it back.
    /// Give it to the buyer with the reservation.
    pub async fn receipt(&self, hold: &Hold) -> Result<String> {
        Ok(Receipt::of(self.id(), hold).sign(self.known_gate().await?.secret()))
    }

    /// Gives a buyer the units of a receipt back if the store has lost the reservation, the same or others. A
    /// reservation that is there is answered as it stands, so asking twice is asking once.
    ///
    /// A receipt whose reservation a store with a ledger has lost since its latest rebuild proves that it lost writes:
    /// the sale is stopped, and the receipt honoured after the next rebuild.
    pub async fn restore(&self, receipt: &str) -> Result<Restored> {
        let receipt = match Receipt::read(receipt, self.id(), self.known_gate().await?.secret()) {
            Ok(receipt) => receipt,
            Err(why) => return Ok(Restored::NotHonoured(why)),
        };
        let answer = self.gate.ask(|| self.gate.store().restore(receipt.clone())).await?;
        if let Restored::Restored(hold) = &answer {
            self.shared.seen.note((hold.generation, hold.seq));
        }
        self.nudge();
        Ok(answer)
    }

    /// Asks for units: all lines or none. Any numbers will do.
    ///
    /// The idempotency key is the buyer's own name for this attempt: sent again, it gives the same reservation. While
    /// the outcome is unknown the same question is asked again for up to 5 s.
    ///
    /// # Cancel safety
    /// A dropped request may have reserved; the same key says so, and otherwise the hold runs out.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for lines outside their range and
    /// [`is_not_found`](crate::Error::is_not_found) for an unknown sale or SKU: nothing was taken. Otherwise the
    /// store could not tell; ask again with the same key.
    pub async fn reserve(&self, buyer: &BuyerId, lines: &[Line], key: &IdempotencyKey) -> Result<Reserved> {
        self.reserve_units(buyer, lines, UnitChoice::Any, key).await
    }

    /// As [`reserve`](Self::reserve), saying which numbers will do: with
    /// [`SameNumber`](UnitChoice::SameNumber) one seat over several segments of a journey.
    pub async fn reserve_units(
        &self,
        buyer: &BuyerId,
        lines: &[Line],
        choice: UnitChoice,
        key: &IdempotencyKey,
    ) -> Result<Reserved> {
        let gate = self.known_gate().await?;
        let id = ReservationId::derive(gate.secret(), self.id(), buyer, key);
        let probes = match gate.ask(id, lines) {
            gate::Asked::Memory(answer) => return Ok(answer),
            gate::Asked::Store { probes } => probes,
        };
        let request =
            Reserve { sale: self.id().clone(), id, buyer: buyer.clone(), lines: lines.to_vec(), choice };
        self.reserve_at_store(gate, request, probes).await
    }

    /// What [`reserve`](Self::reserve) would answer, if that is known without taking anything: a sale that is over, not
    /// open or sold out is known to be so here, and looked at again from time to time. For whoever has something to
    /// check before a buyer may try, and would rather not for nothing.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve)'s. Nothing is taken in any case.
    pub async fn foresee(&self, buyer: &BuyerId, lines: &[Line], key: &IdempotencyKey) -> Result<Foreseen> {
        let gate = self.known_gate().await?;
        let id = ReservationId::derive(gate.secret(), self.id(), buyer, key);
        match gate.foresee(id, lines) {
            gate::Foreseen::Answer(answer) => return Ok(Foreseen::Answer(answer)),
            gate::Foreseen::Replay => return Ok(Foreseen::Replay),
            gate::Foreseen::Due => {
                let window = (&self.state().await?).into();
                gate.learn(self.gate.store(), self.id(), window).await?;
                // What was learnt may be that this very attempt was made before.
                if let gate::Foreseen::Replay = gate.foresee(id, lines) {
                    return Ok(Foreseen::Replay);
                }
            }
            gate::Foreseen::Unknown => {}
        }
        Ok(gate.refusal(lines).map_or(Foreseen::Unknown, Foreseen::Answer))
    }

    async fn reserve_at_store(&self, gate: &Gate, request: Reserve, probes: bool) -> Result<Reserved> {
        let (asking, mut before) = (gate.asking(request.id), Mark::default());
        let ask = || {
            // Check every time: a loss comes with an outage, and other requests were answered before it.
            before = self.shared.seen.mark();
            self.gate.store().reserve(request.clone())
        };
        let answer = self.gate.ask(ask).await?;
        asking.answered(&answer);
        if let Reserved::Reserved(hold) = &answer {
            self.shared.moved.notify_waiters();
            let now = (hold.generation, hold.seq);
            if now <= before {
                self.went_back(before, now).await;
            }
            self.shared.seen.note(now);
        }
        if probes || gate.contradicts(&answer) {
            // The answer to this buyer does not depend on it.
            if let Err(error) = gate.learn(self.gate.store(), self.id(), (&answer).into()).await {
                tracing::debug!(sale = %self.id(), %error, "the gate could not learn; it stays as it is");
            }
        }
        Ok(answer)
    }

    async fn known_gate(&self) -> Result<&Gate> {
        self.shared.gate.get_or_try_init(|| async { Ok(Gate::new(&self.state().await?.spec)) }).await
    }

    /// Confirms a hold: it is paid for. [`Decision::Pending`] if a ledger has still to commit;
    /// [`wait_final`](Self::wait_final) waits for it.
    pub async fn confirm(&self, id: ReservationId) -> Result<Decision> {
        let decision = self.gate.ask(|| self.gate.store().confirm(self.id(), id)).await;
        self.shared.moved.notify_waiters();
        decision
    }

    /// Cancels a hold: the buyer does not want it. [`Decision::Pending`] if a ledger has still to commit.
    pub async fn cancel(&self, id: ReservationId) -> Result<Decision> {
        let decision = self.gate.ask(|| self.gate.store().cancel_hold(self.id(), id)).await;
        self.nudge();
        decision
    }

    /// One reservation as it stands.
    pub async fn reservation(&self, id: ReservationId) -> Result<Option<Hold>> {
        self.gate.ask(|| self.gate.store().reservation(self.id(), id)).await
    }

    /// The reservation that the buyer made under that key, as it stands.
    pub async fn reservation_of(&self, buyer: &BuyerId, key: &IdempotencyKey) -> Result<Option<Hold>> {
        let secret = self.known_gate().await?.secret();
        self.reservation(ReservationId::derive(secret, self.id(), buyer, key)).await
    }

    /// Waits until nothing moves the reservation any more, at most for `wait`, and gives it as it stands then; `None`
    /// if there is none. Cancel safe.
    ///
    /// However many wait in this process, the sale is looked at for all of them together: at once when something moves
    /// here, and five times a second for what other processes do.
    pub async fn wait_final(&self, id: ReservationId, wait: Duration) -> Result<Option<Hold>> {
        let until = moment_after(wait);
        let mut moves = None;
        loop {
            let hold = self.reservation(id).await?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || hold.as_ref().is_none_or(|hold| hold.state.is_final()) {
                return Ok(hold);
            }
            // Listen first, and look once more: what moves in between would go unheard.
            match moves.take() {
                None => moves = Some(self.moves(id)),
                Some(moves) => _ = timeout(left, moves).await,
            }
        }
    }

    /// Adds units, numbered on from the last: 1 to 10,000,000. A SKU never has more than 10,000,000 in all:
    /// [`StockChanged::TooLarge`] says how many can be added.
    pub async fn add_stock(&self, sku: &Sku, units: u32) -> Result<StockChanged> {
        self.change_stock(self.gate.op(), sku, StockChange::Add(units)).await
    }

    /// Withdraws the highest free units for good, all or nothing: 1 to 10,000,000. Of those that were held before and
    /// given back, one call withdraws at most 20,000: [`StockChanged::TooLarge`] says how many units it can have.
    pub async fn withdraw_stock(&self, sku: &Sku, units: u32) -> Result<StockChanged> {
        self.change_stock(self.gate.op(), sku, StockChange::Withdraw(units)).await
    }

    /// Adds or withdraws units, for a program that does so on behalf of others: the same change sent again with the same
    /// `op` is answered the same way and changes nothing. The store knows it for a day, whichever process asks.
    pub async fn change_stock(&self, op: Op, sku: &Sku, change: StockChange) -> Result<StockChanged> {
        let changed = self.gate.ask(|| self.gate.store().stock(op, self.id(), sku, change)).await;
        self.nudge();
        changed
    }

    /// Ends up to `n` holds (1 to 1,000) whose deadline has passed, and says how many. A [`Sweeper`] does it in time.
    pub async fn expire(&self, n: u32) -> Result<u32> {
        let ended = self.gate.ask(|| self.gate.store().expire(self.id(), n)).await;
        if matches!(ended, Ok(1..)) {
            self.nudge();
        }
        ended
    }

    /// Events with a number greater than `after`, in order, at most `limit` (1 to 10,000).
    pub async fn events(&self, after: u64, limit: u32) -> Result<Vec<Event>> {
        self.gate.ask(|| self.gate.store().events(self.id(), after, limit)).await
    }

    /// Everything that the store knows of the sale, in one snapshot.
    pub async fn books(&self) -> Result<Books> {
        self.gate.ask(|| self.gate.store().books(self.id())).await
    }

    /// Compares everything that store, event log, orders queue and ledger wrote down, and says whether every promise was
    /// kept. A sale that has a ledger fails the audit without one.
    ///
    /// The sale may be under way: the store is read first and the ledger after it, and what moved in between is not
    /// compared. A change that the ledger has not heard of must be in the orders queue. A ledger that has not heard of the
    /// sale has no orders of it.
    pub async fn audit(&self, ledger: Option<&dyn Ledger>) -> Result<Audit> {
        loop {
            let books = self.books().await?;
            let Some(ledger) = ledger else { return Ok(rushgate_core::audit(&books, None)) };
            let orders = match ledger.books(self.id()).await {
                // Nor does one that serves other sales have to be there.
                Err(error) if error.is_not_found() || books.spec.orders.is_none() => LedgerBooks::default(),
                orders => orders?,
            };
            if is_of_another_sale(&books, &orders) {
                return Ok(rushgate_core::audit(&books, None));
            }
            let meanwhile = self.since(books.seq).await?;
            // A rebuild in between began another log.
            let now = self.gate.ask(|| self.gate.store().sale(self.id())).await?;
            if now.generation == books.generation {
                return Ok(rushgate_core::audit_live(&books, Some(&orders), &meanwhile));
            }
        }
    }

    /// What happened after the event of that number.
    async fn since(&self, mut seq: u64) -> Result<Meanwhile> {
        const PAGE: u32 = 10_000;
        let mut meanwhile = Meanwhile::default();
        loop {
            let events = self.events(seq, PAGE).await?;
            let Some(last) = events.last() else { return Ok(meanwhile) };
            seq = last.seq;
            meanwhile.extend(events);
        }
    }

    /// What the gate of this process has done so far.
    pub fn gate_stats(&self) -> GateStats {
        self.shared.gate.get().map(Gate::stats).unwrap_or_default()
    }

    fn client(&self) -> &Rushgate {
        &self.gate
    }

    /// Something moved here: who waits for a reservation looks again, and the next buyer asks the store.
    fn nudge(&self) {
        self.shared.moved.notify_waiters();
        if let Some(gate) = self.shared.gate.get() {
            gate.nudge();
        }
    }
}

/// Whether a ledger that serves other sales says nothing about this one, which has none.
fn is_of_another_sale(books: &Books, ledger: &LedgerBooks) -> bool {
    let same = ledger.spec.as_ref().is_some_and(|spec| spec.secret == books.spec.secret);
    books.spec.orders.is_none() && !same
}

impl fmt::Debug for Sale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sale").field("id", self.id()).finish_non_exhaustive()
    }
}
