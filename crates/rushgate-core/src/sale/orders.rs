//! How orders get from a sale's event log to the ledger.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{BuyerId, Lease, MAX_UNITS, ReservationId, SaleId, Sku, Timestamp, Token, UnitNumber, UnitRange};

/// What the ledger records: a reservation with its decision, or a change of the stock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerEntry {
    /// A reservation and its decision.
    Reservation {
        /// ID of the sale.
        sale: SaleId,
        /// Generation of the reservation.
        generation: u32,
        /// Number of the event that created the reservation: unique in sale and generation.
        seq: u64,
        /// ID of the reservation.
        id: ReservationId,
        /// The buyer.
        buyer: BuyerId,
        /// Its units.
        units: Vec<(Sku, UnitNumber)>,
        /// The decision.
        intent: OrderIntent,
    },
    /// A change of the stock. Stock only grows and withdrawn units stay withdrawn, so changes may be recorded in any
    /// order, and repeatedly.
    Stock {
        /// ID of the sale.
        sale: SaleId,
        /// Name of the SKU.
        sku: Sku,
        /// Number of its event.
        seq: u64,
        /// All units ever offered.
        total: u32,
        /// Units that it withdraws.
        withdrawn: Vec<UnitRange>,
        /// Purchase limit per buyer.
        per_buyer: u32,
    },
}

impl LedgerEntry {
    /// ID of its sale.
    pub fn sale(&self) -> &SaleId {
        match self {
            Self::Reservation { sale, .. } | Self::Stock { sale, .. } => sale,
        }
    }

    /// How much of [`Follow::WORK_MAX`] it takes: its units, or the ranges of a stock change.
    pub fn work(&self) -> usize {
        match self {
            Self::Reservation { units, .. } => units.len(),
            Self::Stock { withdrawn, .. } => withdrawn.len(),
        }
    }
}

/// What an order asks the ledger to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderIntent {
    /// The units are on hold for the buyer.
    Hold,
    /// The buyer paid.
    Confirm,
    /// The buyer canceled.
    Cancel,
    /// The deadline passed.
    Expire,
}

impl OrderIntent {
    /// Every intent.
    pub const ALL: [Self; 4] = [Self::Hold, Self::Confirm, Self::Cancel, Self::Expire];

    /// Whether the order has its units: held or sold.
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Hold | Self::Confirm)
    }

    /// The word that the ledger stores for this state.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hold => "held",
            Self::Confirm => "confirmed",
            Self::Cancel => "cancelled",
            Self::Expire => "expired",
        }
    }
}

/// An order in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerOrder {
    /// ID of the reservation.
    pub id: ReservationId,
    /// The buyer.
    pub buyer: BuyerId,
    /// What the ledger committed: `Hold` for held, `Confirm` for sold, and so on.
    pub state: OrderIntent,
    /// Generation of the sale.
    pub generation: u32,
    /// Number of its event.
    pub seq: u64,
    /// Units that the order owns; empty once they were released.
    pub units: Vec<(Sku, UnitNumber)>,
    /// Units that the order owned and released.
    pub returned: Vec<(Sku, UnitNumber)>,
}

/// A request of an order worker: reports what the ledger has, and asks for what comes next in the sale's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    /// ID of the sale.
    pub sale: SaleId,
    /// Identifies the worker. One worker at a time follows a sale, under a lease.
    pub worker: Token,
    /// Generation that the report is about; 0 for the first request of a worker, which has nothing to report.
    pub generation: u32,
    /// Number of the latest event of which the ledger has the entry: [`OrderBatch::through`] of the batch before.
    pub through: u64,
    /// Entries of that batch that the ledger could not record: up to 1,100.
    pub failed: Vec<Failure>,
    /// Entries of that batch that had failed before, and that the ledger has now: up to 100 event numbers.
    pub recovered: Vec<u64>,
    /// Number of events to read: 1 to 1,000. 0 to report and give up the lease.
    pub n: u32,
    /// The worker's lease from now on.
    pub lease: Lease,
}

impl Follow {
    /// Maximum number of events of a batch.
    pub const EVENTS_MAX: u32 = 1_000;
    /// Maximum number of failed entries in a batch, beside those of its events.
    pub const RETRIES_MAX: u32 = 100;
    /// The [work](LedgerEntry::work) from which on a batch gets no further entry.
    pub const WORK_MAX: usize = MAX_UNITS as usize;
    /// The number of failed entries from which on a worker gets no new ones: the ledger then has a problem with more
    /// than a few entries.
    pub const FAILED_MAX: u32 = 1_000;

    /// Whether a worker's lease that ends at `until` is valid at `now`. A moment further away than the longest lease
    /// is none that a worker got, and must not stop the others.
    pub fn has_lease(until: Timestamp, now: Timestamp) -> bool {
        until > now && until.since(now) <= Lease::MAX
    }
}

/// An entry that the ledger could not record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Number of its event.
    pub seq: u64,
    /// How many attempts have failed.
    pub attempts: u32,
    /// Why, as text: up to 500 bytes are kept.
    pub reason: String,
    /// When to retry, from now: up to 1 h.
    pub retry_after: Duration,
}

impl Failure {
    /// Maximum length of a kept reason, in bytes.
    pub const REASON_MAX: usize = 500;
    /// Maximum delay of a retry.
    pub const RETRY_MAX: Duration = Duration::from_secs(3_600);

    /// Whether an entry with this `retry_at` is due. One that is further away than the longest delay is due as well.
    pub fn is_due(retry_at: Timestamp, now: Timestamp) -> bool {
        retry_at <= now || retry_at.since(now) > Self::RETRY_MAX
    }

    /// The reason, truncated at a character boundary to the length that is kept.
    pub fn reason_cut(&self) -> &str {
        &self.reason[..self.reason.floor_char_boundary(Self::REASON_MAX)]
    }
}

/// Outcome of [`Verbs::follow_orders`](crate::Verbs::follow_orders).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// What comes next.
    Batch(OrderBatch),
    /// Another worker follows the sale. The report was ignored.
    Busy {
        /// When its lease ends.
        until: Timestamp,
    },
}

/// Entries for the ledger, in the order of the sale's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderBatch {
    /// Generation of the sale.
    pub generation: u32,
    /// Failed entries that are due again, up to 100, then the entries of the next events. A reservation is in a batch
    /// once, with its current decision.
    pub entries: Vec<Delivery>,
    /// Number of the last event that was read.
    pub through: u64,
    /// Number of the sale's latest event.
    pub latest: u64,
}

/// An entry to write to the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Number of the event.
    pub seq: u64,
    /// How many attempts have failed.
    pub attempts: u32,
    /// The entry.
    pub entry: LedgerEntry,
}

/// An entry that the ledger could not record. Order workers retry it, with a growing delay of up to 1 h.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailedOrder {
    /// Number of its event.
    pub seq: u64,
    /// How many attempts have failed.
    pub attempts: u32,
    /// When it is due again.
    #[serde(rename = "retry_at_us")]
    pub retry_at: Timestamp,
    /// Why the latest attempt failed.
    pub reason: String,
}

/// How far the ledger has followed the log of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OrdersState {
    /// Number of the latest event that was delivered. The sale's `seq` minus this is the lag in events.
    pub through: u64,
    /// Time of the first event after it: since when the ledger lags.
    #[serde(rename = "behind_since_us", skip_serializing_if = "Option::is_none")]
    pub behind_since: Option<Timestamp>,
    /// Number of entries that the ledger could not record so far.
    pub failed: u32,
    /// When the lease of the worker that follows the sale ends or ended; absent if none does.
    #[serde(rename = "worker_until_us", skip_serializing_if = "Option::is_none")]
    pub worker_until: Option<Timestamp>,
}
