//! Rebuilds a sale from its ledger after its store lost writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{
    Error, EventKind, Halt, HaltReason, HoldState, LedgerEntry, LedgerOrder, LedgerSku, LedgerSnapshot, Load,
    Op, OrderIntent, Rebuilt, ReservationId, ReservationRow, Result, SaleId, SaleState, Sku, SkuSpec,
    Snapshot, Stocktake, Switch, UnitNumber, UnitRange, Verbs, check_duration,
};
use rushgate_ledger::{KnownSale, Ledger, LedgerSale, Refusal, Written};

use super::Sale;
use crate::{Lock, LockGuard, LockOutcome};

/// Entries per ledger transaction.
const WRITE_BATCH: usize = 500;
/// Orders that the store loads per call.
const ORDER_BATCH: usize = 500;
/// Units that the store loads per call.
const UNIT_BATCH: usize = 2_000;
/// Default time for receipts only, so that buyers with lost holds are served before others.
const RECEIPTS_FIRST: Duration = Duration::from_secs(5);
/// Lease of the lock that automatic rebuilds share. If the holder dies, the next one starts after this time.
const LEASE: Duration = Duration::from_secs(5);

/// Rebuilds a sale from its ledger after its store has lost writes: a failover, an old backup, an empty
/// store.
///
/// Steps: halt the sale, write what the store still has to the ledger, start a new generation there, load the
/// ledger's data into the store beside the old data, and switch atomically.
///
/// Result:
/// - What the ledger committed stands.
/// - A hold that the ledger knew is held for another full hold time.
/// - A hold that the ledger did not know can be restored from its receipt ([`Sale::restore`]). For a while,
///   receipts are served before new reservations.
///
/// A rebuild may fail or die after any step: the sale stays halted, and the next rebuild starts from the
/// beginning. If two rebuilds of one sale run at the same time, the one that started last wins.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
/// use rushgate::{SaleBuilder, connect_ledger};
/// use rushgate::sale::{Rebuild, RebuildOutcome};
///
/// client.create_sale(SaleBuilder::new("phones").sku("phone", 10, 1).ledger()).await?;
/// let (sale, ledger) = (client.sale("phones")?, connect_ledger("sqlite::memory:")?);
/// sale.open().await?;
/// let outcome = Rebuild::new(sale.clone(), ledger.clone()).receipts_first(Duration::ZERO).run().await?;
/// let RebuildOutcome::Rebuilt(report) = outcome else { panic!("nobody else rebuilds it") };
/// assert_eq!(sale.state().await?.generation, report.generation);
/// assert!(sale.audit(Some(&*ledger)).await?.ok);
/// # client.close().await
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

/// Outcome of a rebuild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RebuildOutcome {
    /// The sale was resumed.
    Rebuilt(RebuildReport),
    /// Another rebuild of the sale has started and continues.
    Superseded,
}

/// Report of a rebuild.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RebuildReport {
    /// New generation of the sale.
    pub generation: u32,
    /// Orders loaded from the ledger into the store.
    pub orders: u64,
    /// Reservations of the store that were written to the ledger first. The ledger knew most of them.
    pub written: u64,
    /// Reservations that got other units, because another order owns theirs.
    pub reassigned: Vec<ReservationId>,
    /// Reservations that are gone, because the ledger had no free units for them. Refund their payments.
    pub refused: Vec<ReservationId>,
}

impl RebuildReport {
    /// True if the ledger has every reservation of the store unchanged.
    fn all_kept(&self) -> bool {
        self.reassigned.is_empty() && self.refused.is_empty()
    }
}

impl Rebuild {
    /// A rebuild of `sale`. Afterwards, only receipts are honored for 5 s.
    pub fn new(sale: Sale, ledger: Arc<dyn Ledger>) -> Self {
        Self { sale, ledger, grace: RECEIPTS_FIRST, new_ledger: false }
    }

    /// Time after the rebuild during which only receipts are honored: at most 1 h. Default: 5 s.
    pub fn receipts_first(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Allows a ledger that does not know the sale, although orders of it were committed: the sold units are
    /// then written there. Default: false; such a ledger is treated as the wrong one, and nothing is changed.
    pub fn new_ledger(mut self, is_meant: bool) -> Self {
        self.new_ledger = is_meant;
        self
    }

    /// Runs the rebuild.
    ///
    /// # Cancel safety
    /// A dropped rebuild leaves the sale halted. Run it again.
    ///
    /// # Errors
    /// [`is_not_found`](Error::is_not_found) if neither store nor ledger knows the sale;
    /// [`is_invalid`](Error::is_invalid) if it has no ledger, or for a time beyond its [limit](Self::receipts_first);
    /// [`is_misconfigured`](Error::is_misconfigured) if this seems to be the wrong
    /// [ledger](Self::new_ledger), or if the sale was created again after the store had lost it: receipts are signed with
    /// the secret of the first one. Nothing was changed in these cases. Otherwise store or ledger could not be
    /// reached, and the sale stays halted.
    pub async fn run(self) -> Result<RebuildOutcome> {
        // An explicit rebuild proceeds even if another process holds the lock.
        let _guard = self.alone().await.ok().flatten();
        self.carry_out().await
    }

    /// An automatic rebuild: `None` if another one is running, or if the sale is not halted.
    pub(super) async fn run_if_needed(self) -> Result<Option<RebuildOutcome>> {
        let Some(guard) = self.alone().await? else { return Ok(None) };
        let outcome = match self.sale.state().await?.halted {
            // The operator who halted it decides when it resumes.
            None | Some(Halt { reason: HaltReason::Operator, .. }) => None,
            Some(_) => Some(self.carry_out().await?),
        };
        // If the release fails, the lease expires.
        let _ = guard.release().await;
        Ok(outcome)
    }

    /// Lock shared by automatic rebuilds of the sale, if it is free.
    async fn alone(&self) -> Result<Option<LockGuard>> {
        self.lock()?.try_acquire().await.map(LockOutcome::held)
    }

    fn lock(&self) -> Result<Lock> {
        // Sales whose long IDs begin alike share a lock, and are rebuilt one after the other.
        let id = self.sale.id().as_str();
        let name = format!("rebuild:{}", &id[..id.floor_char_boundary(180)]);
        Ok(self.sale.client.lock(name)?.lease(LEASE).label("rebuilds the sale"))
    }

    async fn carry_out(&self) -> Result<RebuildOutcome> {
        let doing = format!("rebuild the sale `{}`", self.sale.id());
        let outcome = self.steps().await.map_err(|error| error.doing(doing));
        self.sale.nudge();
        match &outcome {
            Ok(RebuildOutcome::Rebuilt(report)) => {
                tracing::warn!(sale = %self.sale.id(), ?report, "rebuilt the sale from its ledger");
            }
            Ok(RebuildOutcome::Superseded) => {
                tracing::warn!(sale = %self.sale.id(), "another process is rebuilding the sale");
            }
            Err(error) => tracing::error!(sale = %self.sale.id(), %error, "cannot rebuild the sale"),
        }
        outcome
    }

    async fn steps(&self) -> Result<RebuildOutcome> {
        check_duration("the receipts-first period", self.grace, Switch::GRACE_MAX)?;
        let state = self.find_or_make().await?;
        self.introduce(&state).await?;
        let lost_writes =
            state.seq == 0 || state.halted.is_some_and(|halt| halt.reason == HaltReason::LostWrites);
        loop {
            if let Some(outcome) = self.attempt(lost_writes).await? {
                return Ok(outcome);
            }
        }
    }

    /// Returns `None` if an earlier rebuild, since superseded, has made this generation obsolete in the
    /// ledger.
    async fn attempt(&self, lost_writes: bool) -> Result<Option<RebuildOutcome>> {
        let (client, id, by) = (&self.sale.client, self.sale.id(), self.sale.client.op());
        client.ask(|| client.store().begin_rebuild(by, id)).await?;
        let snapshot = self.sale.snapshot().await?;
        let Some(mut report) = self.save(by, &snapshot).await? else {
            return Ok(Some(RebuildOutcome::Superseded));
        };
        let Some(generation) = self.advance(by).await? else { return Ok(Some(RebuildOutcome::Superseded)) };
        // From here on the ledger refuses older generations, so the data read stay valid until the switch.
        let mut ledger = self.ledger.snapshot(id).await?;
        if !lost_writes && report.all_kept() && has_all_orders(&snapshot, &ledger) {
            offer_no_more(&snapshot, &mut ledger);
        }
        (report.generation, report.orders) = (generation, ledger.orders.len() as u64);
        Ok(match self.load_and_switch(by, generation, ledger).await? {
            Some(Rebuilt::Done) => Some(RebuildOutcome::Rebuilt(report)),
            Some(Rebuilt::Superseded) => Some(RebuildOutcome::Superseded),
            Some(Rebuilt::Incomplete) => {
                return Err(Error::bug("the loaded units do not add up to the stock"));
            }
            None => None,
        })
    }

    /// State of the sale in the store. If the store lost the sale, it is created again from the ledger's
    /// specification.
    async fn find_or_make(&self) -> Result<SaleState> {
        let error = match self.sale.state().await {
            Err(error) if error.is_not_found() || error.is_corrupt() => error,
            state => return state,
        };
        let known = self.ledger.find_sale(self.sale.id()).await?;
        let Some(spec) = known.and_then(|known| known.spec) else {
            return Err(error.hint("the ledger has no specification of it either; check both URLs"));
        };
        let client = &self.sale.client;
        client.ask(|| client.store().create(spec.clone())).await?;
        self.sale.state().await
    }

    async fn introduce(&self, state: &SaleState) -> Result<()> {
        if !state.spec.ledger {
            return Err(Error::invalid("the sale", "has no ledger"));
        }
        match self.ledger.find_sale(self.sale.id()).await? {
            Some(KnownSale { spec: Some(spec), .. }) if spec.secret != state.spec.secret => {
                return Err(Error::misconfigured(
                    "the sale was created again after the store had lost it, so it is not the one in the ledger",
                )
                .hint("remove the sale from the store, then rebuild it; docs/operations/incidents.md says how"));
            }
            None if !self.new_ledger && self.has_recorded_orders().await? => {
                return Err(Error::misconfigured(
                    "the ledger has no record of the sale, but the store has recorded orders",
                )
                .hint(
                    "check the ledger's URL; if the ledger is new on purpose, pass `--new-ledger` to `sale rebuild`",
                ));
            }
            _ => {}
        }
        self.ledger.open_sale(introduction(state)).await
    }

    /// True if orders were committed to some ledger. Undecided orders prove nothing: no order worker may have started
    /// yet.
    async fn has_recorded_orders(&self) -> Result<bool> {
        let rows = self.sale.snapshot().await?.reservations;
        Ok(rows.iter().any(|row| row.hold.state == HoldState::Confirmed))
    }

    /// Advances the ledger to a new generation, unless another rebuild has started: this would make its
    /// generation obsolete.
    async fn advance(&self, by: Op) -> Result<Option<u32>> {
        let (client, id) = (&self.sale.client, self.sale.id());
        let ask = || client.store().load(by, id, 1, Load::Orders(Vec::new()));
        match client.ask(ask).await? {
            Rebuilt::Done => self.ledger.advance(id).await.map(Some),
            Rebuilt::Superseded | Rebuilt::Incomplete => Ok(None),
        }
    }

    /// Writes the store's data to the ledger under a generation of their own, so that no sequence number is
    /// used twice. Sold units are written too, so a ledger that never knew the sale gets them. An earlier
    /// rebuild may make the generation obsolete; everything is then written again.
    async fn save(&self, by: Op, snapshot: &Snapshot) -> Result<Option<RebuildReport>> {
        while let Some(generation) = self.advance(by).await? {
            if let Some(report) = self.save_as(generation, snapshot).await? {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }

    /// Returns `None` if the generation has become obsolete meanwhile.
    async fn save_as(&self, generation: u32, snapshot: &Snapshot) -> Result<Option<RebuildReport>> {
        let mut report = RebuildReport::default();
        for entries in entries(snapshot, generation).chunks(WRITE_BATCH) {
            for (entry, written) in entries.iter().zip(self.ledger.write(entries.to_vec()).await?) {
                let LedgerEntry::Reservation { id, .. } = entry else { continue };
                report.written += 1;
                match written {
                    Written::Reassigned { .. } => report.reassigned.push(*id),
                    Written::Refused(Refusal::OldGeneration) => return Ok(None),
                    Written::Refused(refusal) => {
                        tracing::error!(sale = %snapshot.spec.id, %id, ?refusal, "a reservation is permanently lost");
                        report.refused.push(*id);
                    }
                    Written::Recorded(_) | Written::Stocked { .. } => {}
                }
            }
        }
        Ok(Some(report))
    }

    /// Returns `None` if the generation has become obsolete meanwhile.
    async fn load_and_switch(
        &self,
        by: Op,
        generation: u32,
        ledger: LedgerSnapshot,
    ) -> Result<Option<Rebuilt>> {
        let (client, id) = (&self.sale.client, self.sale.id());
        let skus = self.sale.state().await?.spec.skus;
        let (parts, stock) = parts(&skus, ledger)?;
        for part in parts {
            let loaded = client.ask(|| client.store().load(by, id, generation, part.clone())).await?;
            if loaded != Rebuilt::Done {
                return Ok(Some(loaded));
            }
        }
        if self.ledger.find_sale(id).await?.is_none_or(|known| known.generation != generation) {
            return Ok(None);
        }
        let switch = Switch { generation, grace: self.grace, stock };
        client.ask(|| client.store().switch(by, id, switch.clone())).await.map(Some)
    }
}

/// The sale as registered with the ledger.
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

fn has_all_orders(snapshot: &Snapshot, ledger: &LedgerSnapshot) -> bool {
    let known: BTreeSet<ReservationId> = snapshot.reservations.iter().map(|row| row.hold.id).collect();
    ledger.orders.iter().all(|order| known.contains(&order.id))
}

/// A store that has lost nothing knows every unit that was offered. If the ledger offers more, it is damaged,
/// and the extra units are dropped.
fn offer_no_more(snapshot: &Snapshot, ledger: &mut LedgerSnapshot) {
    for known in &mut ledger.skus {
        let Some(store) = snapshot.skus.iter().find(|store| store.sku == known.sku) else { continue };
        if known.total > store.total {
            tracing::error!(
                sale = %snapshot.spec.id, sku = %known.sku, ledger = known.total, store = store.total,
                "the ledger offers more units than the store, which has lost no writes; the store's count is used"
            );
            known.total = store.total;
            let out = known.withdrawn.iter();
            let offered =
                out.filter_map(|range| UnitRange::new(range.first(), range.last().min(store.total)));
            known.withdrawn = offered.collect();
        }
    }
}

/// The store's data as entries for the ledger.
fn entries(snapshot: &Snapshot, generation: u32) -> Vec<LedgerEntry> {
    let mut withdrawn: BTreeMap<&Sku, Vec<UnitRange>> = BTreeMap::new();
    // Units withdrawn because other orders own them in the ledger are not withdrawn there.
    let events = snapshot.events.iter().filter(|event| event.kind == EventKind::StockWithdrawn);
    for (sku, range) in events.flat_map(|event| &event.units) {
        withdrawn.entry(sku).or_default().push(*range);
    }
    let stock = snapshot.skus.iter().map(|sku| LedgerEntry::Stock {
        sale: snapshot.spec.id.clone(),
        sku: sku.sku.clone(),
        seq: snapshot.seq,
        total: sku.total,
        withdrawn: in_order(withdrawn.remove(&sku.sku).unwrap_or_default()),
        per_buyer: sku.per_buyer,
    });
    let stock: Vec<_> = stock.collect();
    let orders = snapshot.reservations.iter().filter_map(|row| order(&snapshot.spec.id, generation, row));
    stock.into_iter().chain(orders).collect()
}

fn in_order(mut ranges: Vec<UnitRange>) -> Vec<UnitRange> {
    ranges.sort_unstable();
    UnitRange::gather(ranges)
}

fn order(sale: &SaleId, generation: u32, row: &ReservationRow) -> Option<LedgerEntry> {
    let hold = &row.hold;
    let intent = match hold.state {
        HoldState::Held => OrderIntent::Hold,
        HoldState::Confirming | HoldState::Confirmed => OrderIntent::Confirm,
        HoldState::Cancelling => OrderIntent::Cancel,
        HoldState::Expiring => OrderIntent::Expire,
        HoldState::Cancelled | HoldState::Expired | HoldState::Rejected => return None,
    };
    let (sale, id, buyer, units) = (sale.clone(), hold.id, hold.buyer.clone(), hold.units.clone());
    Some(LedgerEntry::Reservation { sale, generation, seq: hold.seq, id, buyer, units, intent })
}

/// The ledger's data as parts to load into the store, with their totals.
fn parts(skus: &[SkuSpec], ledger: LedgerSnapshot) -> Result<(Vec<Load>, Vec<Stocktake>)> {
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
            return Err(Error::bug(format_args!("the ledger has no record of {sku} after it was written")));
        };
        let shelves = Shelves::of(known, &owned.remove(sku).unwrap_or_default());
        let Shelves { free, withdrawn, .. } = &shelves;
        parts.extend(free.chunks(UNIT_BATCH).map(|units| Load::Free(sku.clone(), units.to_vec())));
        parts.extend(withdrawn.chunks(UNIT_BATCH).map(|units| Load::Withdrawn(sku.clone(), units.to_vec())));
        stock.push(shelves.taken);
    }
    Ok((parts, stock))
}

/// Units of one SKU that no order owns.
struct Shelves {
    /// Free units below the highest owned number.
    free: Vec<UnitNumber>,
    /// Withdrawn units, below and above that number.
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
