//! Snapshots of store and ledger, as the audit reads them.

use crate::{
    BuyerId, Event, FailedOrder, Halt, Hold, LedgerOrder, Line, Op, ReservationId, SaleSpec, SaleStatus, Sku,
    Timestamp, UnitChoice, UnitNumber, UnitRange,
};

/// Snapshot of everything that a store knows of a sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Specification, from the sale's own row.
    pub spec: SaleSpec,
    /// Status of the sale.
    pub status: SaleStatus,
    /// Generation of the sale.
    pub generation: u32,
    /// Number of its latest event, from the sale's own counter.
    pub seq: u64,
    /// Whether it is halted until it is rebuilt.
    pub halted: Option<Halt>,
    /// Token of the latest rebuild that was begun.
    pub rebuilt_by: Option<Op>,
    /// When the previous generation was halted, and when the current one replaced it.
    pub since: Option<(Timestamp, Timestamp)>,
    /// Until when only receipts are honored, after a rebuild.
    pub receipts_until: Option<Timestamp>,
    /// Stock of each SKU, from the store's own counters and lists.
    pub skus: Vec<SkuCounters>,
    /// Every reservation, from its own row.
    pub reservations: Vec<ReservationRow>,
    /// Every unit that is held or sold, from the unit's own row. From its reservation if the store has no unit rows.
    pub units: Vec<UnitRow>,
    /// Number of units of each buyer, from the buyer's own counter. Zeros are left out.
    pub buyers: Vec<BuyerCount>,
    /// Index by which undecided holds expire.
    pub deadlines: Vec<Deadline>,
    /// Every event.
    pub events: Vec<Event>,
    /// Number of the latest event that an order worker delivered to the ledger.
    pub through: u64,
    /// Entries that the ledger could not record.
    pub failed: Vec<FailedOrder>,
    /// Contradictions within the store's own records, as text.
    pub contradictions: Vec<String>,
}

/// Stock of a SKU as the store records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkuCounters {
    /// Name of the SKU.
    pub sku: Sku,
    /// Initial number of units.
    pub initial: u32,
    /// Units ever offered: numbers 1..=total.
    pub total: u32,
    /// Free units, each as often as the store lists it.
    pub free: Vec<UnitRange>,
    /// Withdrawn units, each as often as the store lists it.
    pub withdrawn: Vec<UnitRange>,
    /// Number of free units that were never reserved, from the counter.
    pub fresh: u32,
    /// Number of free units that were released, from the counter.
    pub returned: u32,
    /// Number of held units, from the counter.
    pub held: u32,
    /// Number of confirmed units, from the counter.
    pub confirmed: u32,
    /// Number of withdrawn units, from the counter.
    pub withdrawn_count: u32,
    /// Purchase limit per buyer.
    pub per_buyer: u32,
}

/// A reservation as the store records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationRow {
    /// The reservation.
    pub hold: Hold,
    /// The requested lines; `None` if the reservation was loaded or restored after a loss.
    pub asked: Option<(Vec<Line>, UnitChoice)>,
}

impl ReservationRow {
    /// Its units, if they are held or sold now.
    pub fn live_units(&self) -> impl Iterator<Item = UnitRow> {
        let units = self.hold.units.iter().filter(|_| self.hold.state.is_live());
        units.map(|(sku, unit)| UnitRow { sku: sku.clone(), unit: *unit, reservation: self.hold.id })
    }
}

/// A held or sold unit as the store records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitRow {
    /// Name of the SKU.
    pub sku: Sku,
    /// Number of the unit.
    pub unit: UnitNumber,
    /// The reservation that has it.
    pub reservation: ReservationId,
}

/// Number of units of a SKU that a buyer holds or has bought, as the store counts them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BuyerCount {
    /// The buyer.
    pub buyer: BuyerId,
    /// Name of the SKU.
    pub sku: Sku,
    /// Number of units.
    pub units: u32,
}

/// An entry of the deadline index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// When the hold expires.
    pub at: Timestamp,
    /// Number of its event.
    pub seq: u64,
    /// ID of the reservation.
    pub reservation: ReservationId,
}

/// Snapshot of everything that the ledger knows of a sale. Default: a ledger that does not know the sale.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerSnapshot {
    /// Generation in the ledger; 0 if the ledger does not know the sale.
    pub generation: u32,
    /// Specification as the store sent it.
    pub spec: Option<SaleSpec>,
    /// Stock of each SKU.
    pub skus: Vec<LedgerSku>,
    /// Every order.
    pub orders: Vec<LedgerOrder>,
    /// Every order that was permanently refused.
    pub refusals: Vec<LedgerRefusal>,
    /// Contradictions within the ledger's own rows, as text.
    pub contradictions: Vec<String>,
}

impl LedgerSnapshot {
    /// Whether the ledger knows the sale.
    pub fn knows_the_sale(&self) -> bool {
        self.generation > 0
    }
}

/// Stock of a SKU in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerSku {
    /// Name of the SKU.
    pub sku: Sku,
    /// Units ever offered.
    pub total: u32,
    /// Units withdrawn from the sale.
    pub withdrawn: Vec<UnitRange>,
    /// Purchase limit per buyer.
    pub per_buyer: u32,
}

/// An order that the ledger permanently refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRefusal {
    /// ID of the reservation.
    pub id: ReservationId,
    /// Generation of the order.
    pub generation: u32,
    /// Whether other orders own its units. Otherwise the buyer would exceed the purchase limit.
    pub units_taken: bool,
}
