//! A sale on a store that lost writes, rebuilt from its ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{
    Books, Error, EventKind, HoldState, LedgerBooks, LedgerOrder, LedgerSku, Load, Op, OrderIntent,
    OrderTask, Pause, PauseReason, Rebuilt, ReservationId, ReservationRow, Result, SaleId, SaleState, Sku,
    SkuSpec, Stocktake, Switch, UnitNumber, UnitRange,
};
use rushgate_ledger::{Ledger, LedgerSale, Refusal, Written};

use super::Sale;
use crate::{Lock, LockGuard, LockOutcome};

/// Entries that the ledger writes in one transaction.
const WRITE_BATCH: usize = 500;
/// Orders that the store loads in one step.
const ORDER_BATCH: usize = 500;
/// Units that the store loads in one step.
const UNIT_BATCH: usize = 2_000;
/// So that those whose holds were lost come before strangers.
const RECEIPTS_FIRST: Duration = Duration::from_secs(5);
/// What one who dies in the middle of a rebuild costs those who would rebuild the sale by themselves.
const LEASE: Duration = Duration::from_secs(5);

/// Rebuilds a sale from its ledger, after its store has lost writes: a failover, an old backup, an empty store.
///
/// It stops the sale, writes to the ledger what the store still knows, gives the sale a new generation there, loads
/// what the ledger has beside what is there, and switches in one step. What the ledger has committed stands; a hold
/// that it had heard of is held for a whole hold time more; one that it had not comes back by its receipt
/// ([`Sale::restore`]), for a while before anybody else is let in.
///
/// It may die after any step, or fail: the sale stays stopped, and rebuilding it again begins anew. If two rebuild one
/// sale at a time, the one that began last goes on.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
/// use rushgate::{Rebuild, RebuildOutcome, SaleBuilder, connect_ledger};
///
/// gate.create_sale(SaleBuilder::new("phones").sku("phone", 10, 1).orders("orders")).await?;
/// let (sale, ledger) = (gate.sale("phones")?, connect_ledger("sqlite::memory:")?);
/// sale.open().await?;
/// let outcome = Rebuild::new(sale.clone(), ledger.clone()).receipts_first(Duration::ZERO).run().await?;
/// let RebuildOutcome::Rebuilt(report) = outcome else { panic!("nobody else rebuilds it") };
/// assert_eq!(sale.state().await?.generation, report.generation);
/// assert!(sale.audit(Some(&*ledger)).await?.ok);
/// # gate.close().await
/// # }
/// ```
#[must_use = "nothing is rebuilt before `run`"]
pub struct Rebuild {
    sale: Sale,
    ledger: Arc<dyn Ledger>,
    grace: Duration,
    new_ledger: bool,
}

impl fmt::Debug for Rebuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rebuild").field("sale", self.sale.id()).finish_non_exhaustive()
    }
}

/// How a rebuild ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RebuildOutcome {
    /// The sale was resumed.
    Rebuilt(RebuildReport),
    /// Another rebuild of the sale has started and continues.
    Superseded,
}

/// What a rebuild did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RebuildReport {
    /// The sale's generation from now on.
    pub generation: u32,
    /// Orders that the ledger has, loaded into the store.
    pub orders: u64,
    /// Reservations of the store that were written to the ledger before, most of them known to it.
    pub written: u64,
    /// Reservations that got other units, because another order owns theirs.
    pub reassigned: Vec<ReservationId>,
    /// Reservations that are gone, because the ledger had no room for them. Give back what was paid for them.
    pub refused: Vec<ReservationId>,
}

impl RebuildReport {
    /// Whether the ledger has every reservation of the store as the store had it.
    fn all_kept(&self) -> bool {
        self.reassigned.is_empty() && self.refused.is_empty()
    }
}

impl Rebuild {
    /// A rebuild of that sale, which honours only receipts for 5 s afterwards.
    pub fn new(sale: Sale, ledger: Arc<dyn Ledger>) -> Self {
        Self { sale, ledger, grace: RECEIPTS_FIRST, new_ledger: false }
    }

    /// For how long only receipts are honoured afterwards: at most 1 h.
    pub fn receipts_first(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Whether the ledger may be one that has never heard of the sale, though orders of it were carried out: what is sold
    /// is written there. Otherwise such a ledger is taken for the wrong one, and nothing is changed.
    pub fn new_ledger(mut self, is_meant: bool) -> Self {
        self.new_ledger = is_meant;
        self
    }

    /// Does it.
    ///
    /// # Cancel safety
    /// Dropped on its way, it leaves the sale stopped. Run it again.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found) if neither store nor ledger know the sale, and
    /// [`is_invalid`](Error::is_invalid) if it has no orders' queue; [`is_misconfigured`](Error::is_misconfigured) for
    /// what seems to be the wrong [ledger](Self::new_ledger). Nothing was changed then. Otherwise store or ledger could not be reached; the
    /// sale stays stopped.
    pub async fn run(self) -> Result<RebuildOutcome> {
        // An explicit rebuild proceeds even if another process holds the lock.
        let _guard = self.alone().await.ok().flatten();
        self.carry_out().await
    }

    /// An automatic rebuild: `None` if another one is running, or if the sale is not halted.
    pub(super) async fn run_if_needed(self) -> Result<Option<RebuildOutcome>> {
        let Some(guard) = self.alone().await? else { return Ok(None) };
        let outcome = match self.sale.state().await?.paused {
            // The operator who halted it decides when it resumes.
            None | Some(Pause { reason: PauseReason::Operator, .. }) => None,
            Some(_) => Some(self.carry_out().await?),
        };
        // If the release fails, the lease expires.
        let _ = guard.release().await;
        Ok(outcome)
    }

    /// The lock of those who rebuild the sale by themselves, if it is free.
    async fn alone(&self) -> Result<Option<LockGuard>> {
        self.lock()?.try_acquire().await.map(LockOutcome::held)
    }

    fn lock(&self) -> Result<Lock> {
        let name = format!("{}rebuild", OrderTask::stock_ids(self.sale.id()));
        Ok(self.sale.gate.lock(name)?.lease(LEASE).label("rebuilds the sale"))
    }

    async fn carry_out(&self) -> Result<RebuildOutcome> {
        let doing = format!("rebuild the sale `{}`", self.sale.id());
        let outcome = self.steps().await.map_err(|error| error.doing(doing));
        self.sale.nudge();
        match &outcome {
            Ok(RebuildOutcome::Rebuilt(report)) => {
                tracing::warn!(sale = %self.sale.id(), ?report, "the sale was rebuilt from its ledger");
            }
            Ok(RebuildOutcome::Superseded) => {
                tracing::warn!(sale = %self.sale.id(), "another process is rebuilding the sale");
            }
            Err(error) => tracing::error!(sale = %self.sale.id(), %error, "the sale was not rebuilt"),
        }
        outcome
    }

    async fn steps(&self) -> Result<RebuildOutcome> {
        let state = self.find_or_make().await?;
        self.introduce(&state).await?;
        let lost_writes =
            state.seq == 0 || state.paused.is_some_and(|pause| pause.reason == PauseReason::LostWrites);
        loop {
            if let Some(outcome) = self.attempt(lost_writes).await? {
                return Ok(outcome);
            }
        }
    }

    /// `None` if somebody who had begun before, and does not go on, has made its generation old in the ledger.
    async fn attempt(&self, lost_writes: bool) -> Result<Option<RebuildOutcome>> {
        let (gate, id, by) = (&self.sale.gate, self.sale.id(), self.sale.gate.op());
        gate.ask(|| gate.store().begin_rebuild(by, id)).await?;
        let books = self.sale.books().await?;
        let Some(mut report) = self.save(by, &books).await? else {
            return Ok(Some(RebuildOutcome::Superseded));
        };
        let Some(generation) = self.advance(by).await? else { return Ok(Some(RebuildOutcome::Superseded)) };
        // From here on the ledger takes nothing of older generations, so what is read stays true until the switch.
        let mut ledger = self.ledger.books(id).await?;
        if !lost_writes && report.all_kept() && has_all_orders(&books, &ledger) {
            offer_no_more(&books, &mut ledger);
        }
        (report.generation, report.orders) = (generation, ledger.orders.len() as u64);
        Ok(match self.load_and_switch(by, generation, ledger).await? {
            Some(Rebuilt::Done) => Some(RebuildOutcome::Rebuilt(report)),
            Some(Rebuilt::Superseded) => Some(RebuildOutcome::Superseded),
            Some(Rebuilt::Incomplete) => {
                return Err(Error::bug("what was loaded does not add up to the stock"));
            }
            None => None,
        })
    }

    /// The sale in the store. If the store has lost all of it, it is made again as the ledger was told.
    async fn find_or_make(&self) -> Result<SaleState> {
        let error = match self.sale.state().await {
            Err(error) if error.is_not_found() => error,
            state => return state,
        };
        let known = self.ledger.find_sale(self.sale.id()).await?;
        let Some(spec) = known.and_then(|known| known.spec) else {
            return Err(error.hint("the ledger cannot tell how it was made either: check both URLs"));
        };
        let gate = &self.sale.gate;
        gate.ask(|| gate.store().create(spec.clone())).await?;
        self.sale.state().await
    }

    async fn introduce(&self, state: &SaleState) -> Result<()> {
        if state.spec.orders.is_none() {
            return Err(Error::invalid("the sale", "has no orders' queue, so no ledger knows it"));
        }
        if !self.new_ledger && self.is_wrong_ledger().await? {
            return Err(Error::misconfigured(
                "the ledger does not know the sale, although the store has recorded orders",
            )
            .hint("check the ledger's URL; if it is new on purpose, say so: `sale rebuild --new-ledger`"));
        }
        self.ledger.open_sale(introduction(state)).await
    }

    /// Orders were carried to some ledger, and this one does not know the sale. Those that still wait tell nothing: nobody
    /// may have begun to carry them.
    async fn is_wrong_ledger(&self) -> Result<bool> {
        if self.ledger.find_sale(self.sale.id()).await?.is_some() {
            return Ok(false);
        }
        let rows = self.sale.books().await?.reservations;
        Ok(rows.iter().any(|row| row.state == HoldState::Confirmed))
    }

    /// A new generation of the ledger's, unless somebody else has begun to rebuild the sale: its generation would be
    /// made old.
    async fn advance(&self, by: Op) -> Result<Option<u32>> {
        let (gate, id) = (&self.sale.gate, self.sale.id());
        let ask = || gate.store().load(by, id, 1, Load::Orders(Vec::new()));
        match gate.ask(ask).await? {
            Rebuilt::Done => self.ledger.advance(id).await.map(Some),
            Rebuilt::Superseded | Rebuilt::Incomplete => Ok(None),
        }
    }

    /// Writes to the ledger what the store knows, as a generation of its own, so that no number is taken twice. What is
    /// sold is written too: should this be a ledger that has never heard of it, nothing is lost. Somebody who began to
    /// rebuild the sale before may make that generation old; then it is all written again.
    async fn save(&self, by: Op, books: &Books) -> Result<Option<RebuildReport>> {
        while let Some(generation) = self.advance(by).await? {
            if let Some(report) = self.save_as(generation, books).await? {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }

    /// `None` if the generation has become old meanwhile.
    async fn save_as(&self, generation: u32, books: &Books) -> Result<Option<RebuildReport>> {
        let mut report = RebuildReport::default();
        for entries in entries(books, generation).chunks(WRITE_BATCH) {
            for (entry, written) in entries.iter().zip(self.ledger.write(entries.to_vec()).await?) {
                let OrderTask::Reservation { id, .. } = entry else { continue };
                report.written += 1;
                match written {
                    Written::Reassigned { .. } => report.reassigned.push(*id),
                    Written::Refused(Refusal::OldGeneration) => return Ok(None),
                    Written::Refused(refusal) => {
                        tracing::error!(sale = %books.spec.id, %id, ?refusal, "a reservation is lost for good");
                        report.refused.push(*id);
                    }
                    Written::Recorded(_) | Written::Stocked { .. } => {}
                }
            }
        }
        Ok(Some(report))
    }

    /// `None` if the generation has become old meanwhile.
    async fn load_and_switch(&self, by: Op, generation: u32, ledger: LedgerBooks) -> Result<Option<Rebuilt>> {
        let (gate, id) = (&self.sale.gate, self.sale.id());
        let skus = self.sale.state().await?.spec.skus;
        let (parts, stock) = parts(&skus, ledger)?;
        for part in parts {
            let loaded = gate.ask(|| gate.store().load(by, id, generation, part.clone())).await?;
            if loaded != Rebuilt::Done {
                return Ok(Some(loaded));
            }
        }
        if self.ledger.find_sale(id).await?.is_none_or(|known| known.generation != generation) {
            return Ok(None);
        }
        let switch = Switch { generation, grace: self.grace, stock };
        gate.ask(|| gate.store().switch(by, id, switch.clone())).await.map(Some)
    }
}

/// The sale as it is registered with the ledger.
pub(super) fn introduction(state: &SaleState) -> LedgerSale {
    let sku = |sku: &rushgate_core::SkuState| SkuSpec {
        sku: sku.sku.clone(),
        units: sku.total,
        per_buyer: sku.per_buyer,
    };
    LedgerSale {
        sale: state.spec.id.clone(),
        generation: state.generation,
        skus: state.skus.iter().map(sku).collect(),
        spec: Some(state.spec.clone()),
    }
}

fn has_all_orders(books: &Books, ledger: &LedgerBooks) -> bool {
    let known: BTreeSet<ReservationId> = books.reservations.iter().map(|row| row.id).collect();
    ledger.orders.iter().all(|order| known.contains(&order.id))
}

/// A store that has lost nothing knows of every unit that was offered: the ledger offers more only if it is damaged.
fn offer_no_more(books: &Books, ledger: &mut LedgerBooks) {
    for known in &mut ledger.skus {
        let Some(store) = books.skus.iter().find(|store| store.sku == known.sku) else { continue };
        if known.total > store.total {
            tracing::error!(
                sale = %books.spec.id, sku = %known.sku, ledger = known.total, store = store.total,
                "the ledger offers more units than the store, which has lost nothing; the store's count stands"
            );
            known.total = store.total;
            let out = known.withdrawn.iter();
            let offered =
                out.filter_map(|range| UnitRange::new(range.first(), range.last().min(store.total)));
            known.withdrawn = offered.collect();
        }
    }
}

/// What the store knows, for the ledger.
fn entries(books: &Books, generation: u32) -> Vec<OrderTask> {
    let mut withdrawn: BTreeMap<&Sku, Vec<UnitRange>> = BTreeMap::new();
    // Units that were withdrawn because the ledger said that others have them are not withdrawn there.
    let events = books.events.iter().filter(|event| event.kind == EventKind::StockWithdrawn);
    for (sku, range) in events.flat_map(|event| &event.units) {
        withdrawn.entry(sku).or_default().push(*range);
    }
    let stock = books.skus.iter().map(|sku| OrderTask::Stock {
        sale: books.spec.id.clone(),
        sku: sku.sku.clone(),
        seq: books.seq,
        total: sku.total,
        withdrawn: in_order(withdrawn.remove(&sku.sku).unwrap_or_default()),
        per_buyer: sku.per_buyer,
    });
    let stock: Vec<_> = stock.collect();
    let orders = books.reservations.iter().filter_map(|row| order(&books.spec.id, generation, row));
    stock.into_iter().chain(orders).collect()
}

fn in_order(mut ranges: Vec<UnitRange>) -> Vec<UnitRange> {
    ranges.sort_unstable();
    UnitRange::gather(ranges)
}

fn order(sale: &SaleId, generation: u32, row: &ReservationRow) -> Option<OrderTask> {
    let intent = match row.state {
        HoldState::Held => OrderIntent::Hold,
        HoldState::Confirming | HoldState::Confirmed => OrderIntent::Confirm,
        HoldState::Cancelling => OrderIntent::Cancel,
        HoldState::Expiring => OrderIntent::Expire,
        HoldState::Cancelled | HoldState::Expired | HoldState::Rejected => return None,
    };
    let (sale, id, buyer, units) = (sale.clone(), row.id, row.buyer.clone(), row.units.clone());
    Some(OrderTask::Reservation { sale, generation, seq: row.seq, id, buyer, units, intent })
}

/// What the ledger knows, for the store: in parts, and what they add up to.
fn parts(skus: &[SkuSpec], ledger: LedgerBooks) -> Result<(Vec<Load>, Vec<Stocktake>)> {
    let mut owned: BTreeMap<Sku, BTreeSet<UnitNumber>> = BTreeMap::new();
    for (sku, unit) in ledger.orders.iter().flat_map(|order: &LedgerOrder| &order.units) {
        owned.entry(sku.clone()).or_default().insert(*unit);
    }
    let in_ledger: BTreeMap<Sku, LedgerSku> =
        ledger.skus.into_iter().map(|sku| (sku.sku.clone(), sku)).collect();
    let mut parts: Vec<_> =
        ledger.orders.chunks(ORDER_BATCH).map(|orders| Load::Orders(orders.to_vec())).collect();
    let mut stock = Vec::with_capacity(skus.len());
    for SkuSpec { sku, .. } in skus {
        let Some(known) = in_ledger.get(sku) else {
            return Err(Error::bug(format_args!("the ledger was told of {sku} and does not know it")));
        };
        let shelves = Shelves::of(known, &owned.remove(sku).unwrap_or_default());
        let Shelves { free, withdrawn, .. } = &shelves;
        parts.extend(free.chunks(UNIT_BATCH).map(|units| Load::Free(sku.clone(), units.to_vec())));
        parts.extend(withdrawn.chunks(UNIT_BATCH).map(|units| Load::Withdrawn(sku.clone(), units.to_vec())));
        stock.push(shelves.taken);
    }
    Ok((parts, stock))
}

/// The units of one SKU that no order owns.
struct Shelves {
    /// Below the highest number that one does.
    free: Vec<UnitNumber>,
    /// None on both sides of that number.
    withdrawn: Vec<UnitRange>,
    taken: Stocktake,
}

impl Shelves {
    fn of(sku: &LedgerSku, owned: &BTreeSet<UnitNumber>) -> Self {
        let handed_out = owned.last().copied().unwrap_or(0);
        let (mut below, mut above) = (Vec::new(), Vec::new());
        for range in &sku.withdrawn {
            below.extend(UnitRange::new(range.first(), range.last().min(handed_out)));
            above.extend(UnitRange::new(range.first().max(handed_out + 1), range.last()));
        }
        let taken = below.iter().copied().chain(owned.iter().map(|unit| UnitRange::one(*unit)));
        let taken = in_order(taken.collect());
        let free = UnitRange::new(1, handed_out).map(|all| all.without(taken)).unwrap_or_default();
        let ahead = UnitRange::total(&above) as u32;
        below.extend(above);
        Self {
            free: free.into_iter().flat_map(UnitRange::numbers).collect(),
            withdrawn: below,
            taken: Stocktake { total: sku.total, handed_out, ahead },
        }
    }
}
