//! What stores and ledgers hand to the audit.

use crate::{
    BuyerId, Event, HoldState, Line, Op, OrderIntent, OrderTask, Pause, ReservationId, SaleSpec, SaleStatus,
    Sku, Timestamp, UnitChoice, UnitNumber, UnitRange,
};

/// Everything a store knows of a sale, read in one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Books {
    /// How it was made, by its own row.
    pub spec: SaleSpec,
    /// Whether it sells.
    pub status: SaleStatus,
    /// Its generation.
    pub generation: u32,
    /// The number of its latest event, by the sale's own counter.
    pub seq: u64,
    /// Whether it is stopped until it is rebuilt.
    pub paused: Option<Pause>,
    /// The latest rebuild that was begun.
    pub rebuilt_by: Option<Op>,
    /// When the previous generation was stopped, and when this one took its place.
    pub since: Option<(Timestamp, Timestamp)>,
    /// After a rebuild: until when only receipts are honored.
    pub receipts_until: Option<Timestamp>,
    /// The stock, by the store's own counters and lists.
    pub skus: Vec<SkuCounters>,
    /// Every reservation, by its own row.
    pub reservations: Vec<ReservationRow>,
    /// Every unit that is held or sold, by the unit's own row; by its reservation if the store has no rows of units.
    pub units: Vec<UnitRow>,
    /// How many units each buyer has, by the buyer's own counter. Those at zero are left out.
    pub buyers: Vec<BuyerCount>,
    /// The index by which undecided holds expire.
    pub deadlines: Vec<Deadline>,
    /// Every event.
    pub events: Vec<Event>,
    /// The orders of this sale in the orders queue, waiting or leased, that it has made; of each reservation the latest.
    pub pending: Vec<OrderTask>,
    /// What contradicts itself within the store's own records, in words.
    pub contradictions: Vec<String>,
}

/// The stock of one SKU as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkuCounters {
    /// Which.
    pub sku: Sku,
    /// Units that the sale began with.
    pub initial: u32,
    /// Units ever offered: numbers 1..=total.
    pub total: u32,
    /// The free numbers, each as often as the store lists it.
    pub free: Vec<UnitRange>,
    /// The withdrawn numbers, likewise.
    pub withdrawn: Vec<UnitRange>,
    /// The free units that were never handed out, by the counter.
    pub fresh: u32,
    /// The free units that were handed out before, by the counter.
    pub returned: u32,
    /// The held units, by the counter.
    pub held: u32,
    /// The confirmed units, by the counter.
    pub confirmed: u32,
    /// The withdrawn units, by the counter.
    pub withdrawn_count: u32,
    /// What one buyer may have.
    pub per_buyer: u32,
}

/// One reservation as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationRow {
    /// Its id.
    pub id: ReservationId,
    /// Whose.
    pub buyer: BuyerId,
    /// Where it stands.
    pub state: HoldState,
    /// Until when it may be confirmed.
    pub deadline: Timestamp,
    /// The number of its event.
    pub seq: u64,
    /// The sale's generation in which it was made or loaded.
    pub generation: u32,
    /// What was asked for; `None` if it came back after a loss.
    pub asked: Option<(Vec<Line>, UnitChoice)>,
    /// Its units.
    pub units: Vec<(Sku, UnitNumber)>,
}

impl ReservationRow {
    /// The units that are held or sold by it now.
    pub fn live_units(&self) -> impl Iterator<Item = UnitRow> {
        let units = self.units.iter().filter(|_| self.state.is_live());
        units.map(|(sku, unit)| UnitRow { sku: sku.clone(), unit: *unit, reservation: self.id })
    }
}

/// One unit that is held or sold, as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitRow {
    /// Of what.
    pub sku: Sku,
    /// Its number.
    pub unit: UnitNumber,
    /// Whose reservation has it.
    pub reservation: ReservationId,
}

/// The units of one SKU that one buyer holds or has bought, as the store counts them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BuyerCount {
    /// Who.
    pub buyer: BuyerId,
    /// Of what.
    pub sku: Sku,
    /// How many.
    pub units: u32,
}

/// An entry of the index of deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// When the hold expires.
    pub at: Timestamp,
    /// The number of its event.
    pub seq: u64,
    /// Which hold.
    pub reservation: ReservationId,
}

/// Everything the ledger knows of a sale. The default is a ledger that has not heard of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerBooks {
    /// Its generation there; 0 if the ledger has not heard of the sale.
    pub generation: u32,
    /// How the store made it.
    pub spec: Option<SaleSpec>,
    /// The stock it sells from.
    pub skus: Vec<LedgerSku>,
    /// Every order.
    pub orders: Vec<LedgerOrder>,
    /// Every order that was refused for good.
    pub refusals: Vec<LedgerRefusal>,
    /// What contradicts itself within the ledger's own rows, in words.
    pub contradictions: Vec<String>,
}

impl LedgerBooks {
    /// Whether the ledger has heard of the sale.
    pub fn knows_the_sale(&self) -> bool {
        self.generation > 0
    }
}

/// The stock of one SKU in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerSku {
    /// Which.
    pub sku: Sku,
    /// Units ever offered.
    pub total: u32,
    /// Units withdrawn from the sale.
    pub withdrawn: Vec<UnitRange>,
    /// What one buyer may have.
    pub per_buyer: u32,
}

/// One order in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerOrder {
    /// The reservation.
    pub id: ReservationId,
    /// Whose.
    pub buyer: BuyerId,
    /// What the ledger committed: `Hold` for held, `Confirm` for sold, and so on.
    pub state: OrderIntent,
    /// Its generation.
    pub generation: u32,
    /// The number of its event.
    pub seq: u64,
    /// The units that are the order's now; empty once given back.
    pub units: Vec<(Sku, UnitNumber)>,
    /// The units that the order had and gave back.
    pub given_back: Vec<(Sku, UnitNumber)>,
}

/// An order that the ledger refused for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRefusal {
    /// The reservation.
    pub id: ReservationId,
    /// The generation of the order.
    pub generation: u32,
    /// Whether its units belong to other orders; otherwise the buyer would have more than allowed.
    pub units_taken: bool,
}
