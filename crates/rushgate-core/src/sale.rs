mod orders;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use crate::{
    BuyerId, HoldTime, ReservationId, Result, SaleId, SaleSecret, Sku, Timestamp, UnitNumber, UnitRange,
    units,
};

pub use orders::{
    Delivery, FailedOrder, Failure, Follow, Followed, LedgerEntry, LedgerOrder, OrderBatch, OrderIntent,
    OrdersState,
};

/// Maximum number of answers by which the attempts at a sale are counted.
pub const ATTEMPT_ANSWERS_MAX: u32 = 64;
/// Maximum number of servers of which the attempts at a sale are counted apart.
pub const ATTEMPT_SERVERS_MAX: u32 = 256;

/// A sale to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleSpec {
    /// ID of the sale.
    pub id: SaleId,
    /// The SKUs: 1 to 1,000, each listed once.
    pub skus: Vec<SkuSpec>,
    /// Hold duration of a reservation.
    pub hold: HoldTime,
    /// Opening time. An open sale refuses buyers before it.
    pub opens_at: Option<Timestamp>,
    /// Closing time. The sale refuses buyers from then on.
    pub closes_at: Option<Timestamp>,
    /// Whether a ledger records the orders. An order worker then follows the sale's events
    /// ([`follow_orders`](crate::Verbs::follow_orders)), and a decision is final once the ledger has it.
    pub ledger: bool,
    /// What a shop page shows of the sale, such as titles, prices and pictures: a JSON object of at most
    /// [`METADATA_MAX`](Self::METADATA_MAX) bytes, or empty. Stores do not read it.
    pub metadata: String,
    /// Secret key of the sale, random; see [`ReservationId::derive`].
    pub secret: SaleSecret,
}

impl SaleSpec {
    /// Default retry delay for buyers while a sale is halted.
    pub const ASK_AGAIN_AFTER: Duration = Duration::from_secs(2);
    /// Maximum number of units per SKU.
    pub const UNITS_MAX: u32 = 10_000_000;
    /// Maximum number of SKUs per sale.
    pub const SKUS_MAX: usize = 1_000;
    /// Maximum purchase limit per buyer.
    pub const PER_BUYER_MAX: u32 = 10_000;
    /// Maximum size of the metadata, in bytes.
    pub const METADATA_MAX: usize = 64 << 10;
    /// Maximum number of expired holds that one reservation ends.
    pub const SWEEP_MAX: u32 = 100;
}

/// A SKU of a sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SkuSpec {
    /// Name of the SKU.
    pub sku: Sku,
    /// Initial number of units: 1 to 10,000,000.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000_000)))]
    pub units: u32,
    /// Purchase limit per buyer, held and confirmed units together: 1 to 10,000. Default in JSON: 1.
    #[serde(default = "one")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000)))]
    pub per_buyer: u32,
}

fn one() -> u32 {
    1
}

/// Outcome of [`Verbs::create`](crate::Verbs::create).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Created {
    /// The sale exists and is not open yet.
    Created,
    /// A different sale has this ID. Nothing was changed.
    Exists,
}

/// Status of a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SaleStatus {
    /// Created, not opened.
    Created,
    /// Opened. `opens_at` and `closes_at` may still keep buyers out.
    Open,
    /// Ended.
    Ended,
}

/// A line of a cart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Name of the SKU.
    pub sku: Sku,
    /// Quantity: 1 to 1,000. Default in JSON: 1.
    #[serde(default = "one")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000)))]
    pub quantity: u32,
}

/// How unit numbers are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnitChoice {
    /// Any numbers: released ones first, lowest first.
    #[default]
    Any,
    /// The same number in every line, the lowest that is free in all: one seat on several legs of a journey.
    /// Every line must ask for one unit.
    SameNumber,
}

/// A request to reserve units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// ID of the sale.
    pub sale: SaleId,
    /// ID of the reservation, derived from buyer and idempotency key.
    pub id: ReservationId,
    /// The buyer.
    pub buyer: BuyerId,
    /// 1 to 32 lines, each SKU once.
    pub lines: Vec<Line>,
    /// How unit numbers are chosen.
    pub choice: UnitChoice,
}

/// Outcome of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
#[non_exhaustive]
pub enum Reserved {
    /// The units are on hold for the buyer until the deadline.
    Reserved(Hold),
    /// Idempotent replay: the reservation that the same key made, in its current state.
    Replayed(Hold),
    /// The key was used with other lines. Nothing was changed.
    KeyReused,
    /// Sold out: too few units are free, and no hold can release any.
    SoldOut {
        /// The first line that cannot be served.
        sku: Sku,
        /// Free units of that SKU.
        free: u32,
    },
    /// All on hold: too few units are free, but holds may release some.
    AllHeld {
        /// The first line that cannot be served.
        sku: Sku,
        /// Free units of that SKU.
        free: u32,
        /// The earliest deadline of an undecided hold, if there is one.
        #[serde(rename = "next_expiry_us", skip_serializing_if = "Option::is_none")]
        next_expiry: Option<Timestamp>,
    },
    /// The request exceeds the purchase limit.
    LimitReached {
        /// The first line over the limit.
        sku: Sku,
        /// The limit.
        limit: u32,
        /// Units that the buyer has.
        has: u32,
    },
    /// The sale is not open yet.
    NotOpen {
        /// When it opens, if known.
        #[serde(rename = "opens_at_us", skip_serializing_if = "Option::is_none")]
        opens_at: Option<Timestamp>,
    },
    /// The sale has ended.
    Ended,
    /// The sale is halted, because the store lost writes, or honors only receipts after a rebuild. It is not sold
    /// out.
    Halted {
        /// When to retry.
        #[serde(rename = "retry_at_us")]
        retry_at: Timestamp,
    },
}

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hold {
    /// ID of the reservation.
    pub id: ReservationId,
    /// The buyer.
    pub buyer: BuyerId,
    /// Its units, by line and then by number.
    #[serde(with = "units::each")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<units::Unit>"))]
    pub units: Vec<(Sku, UnitNumber)>,
    /// State of the reservation.
    pub state: HoldState,
    /// Deadline for the confirmation.
    #[serde(rename = "deadline_us")]
    pub deadline: Timestamp,
    /// Number of the event that created it.
    pub seq: u64,
    /// Generation of the sale in which it was created.
    pub generation: u32,
}

impl Hold {
    /// Time left to confirm it at `now`, on the store's clock.
    pub fn time_left(&self, now: Timestamp) -> Duration {
        self.deadline.since(now)
    }
}

/// State of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HoldState {
    /// On hold: the buyer may confirm or cancel.
    Held,
    /// Paid for. The ledger has not committed yet.
    Confirming,
    /// Canceled. The ledger has not committed yet.
    Cancelling,
    /// Hold expired. The ledger has not committed yet.
    Expiring,
    /// Sold.
    Confirmed,
    /// Canceled. The units were released.
    Cancelled,
    /// Hold expired. The units were released.
    Expired,
    /// Refused by the ledger.
    Rejected,
}

impl HoldState {
    /// Whether the units are taken but not sold: held, or waiting for the ledger.
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::Confirming | Self::Cancelling | Self::Expiring)
    }

    /// Whether the reservation has its units: held or confirmed.
    pub const fn is_live(self) -> bool {
        self.is_held() || matches!(self, Self::Confirmed)
    }

    /// Whether the state is final.
    pub const fn is_final(self) -> bool {
        !self.is_held()
    }
}

impl OrderIntent {
    /// What the ledger has yet to record for a reservation in this state, if anything.
    pub const fn awaited(state: HoldState) -> Option<Self> {
        match state {
            HoldState::Held => Some(Self::Hold),
            HoldState::Confirming => Some(Self::Confirm),
            HoldState::Cancelling => Some(Self::Cancel),
            HoldState::Expiring => Some(Self::Expire),
            HoldState::Confirmed | HoldState::Cancelled | HoldState::Expired | HoldState::Rejected => None,
        }
    }
}

/// Outcome of a confirmation or a cancellation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
#[non_exhaustive]
pub enum Decision {
    /// The decision is final, now or since an earlier call.
    Done(Hold),
    /// The decision is made, and the ledger has not committed yet.
    Pending(Hold),
    /// The reservation was decided differently before; the state of the hold says how. Refund a payment for it.
    Refused(Hold),
    /// No such reservation. If the store lost it, its [`Receipt`](crate::Receipt) restores it.
    Unknown,
    /// Not decided, because the sale is halted. Retry once it has resumed.
    Halted,
}

/// What the ledger committed for a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Sold.
    Confirmed,
    /// Canceled: the units can be sold again.
    Cancelled,
    /// Hold expired: the units can be sold again.
    Expired,
    /// The ledger refused the order.
    Rejected {
        /// Whether the ledger assigned the units to another order, so that they must be withdrawn. Otherwise they
        /// can be sold again.
        units_taken: bool,
    },
}

/// Outcome of one verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// The reservation changed its state.
    Settled,
    /// The reservation does not wait for this verdict: it was settled before, or decided differently. Nothing was
    /// changed.
    Unchanged(HoldState),
    /// No such reservation.
    Unknown,
}

/// A change of the stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StockChange {
    /// Adds this many units: 1 to 10,000,000, and no more than that in total.
    Add(u32),
    /// Withdraws this many of the highest free units: 1 to 10,000,000, of which at most
    /// [`GIVEN_BACK_MAX`](Self::GIVEN_BACK_MAX) were released before.
    Withdraw(u32),
}

impl StockChange {
    /// Maximum number of released units that one change withdraws. They lie scattered among held and sold units,
    /// so each takes time and space in the order; units that were never reserved form one range.
    pub const GIVEN_BACK_MAX: u32 = 20_000;

    /// Minimum time for which a store keeps the answer to a change.
    pub const REMEMBERED: Duration = Duration::from_secs(86_400);

    /// Why the change is impossible for a SKU with `total` units, of which `free` are free and `fresh` were never
    /// reserved.
    pub fn refusal(self, total: u32, free: u32, fresh: u32) -> Option<StockChanged> {
        let (units, most) = match self {
            Self::Withdraw(n) if n > free => return Some(StockChanged::NotEnough { free }),
            Self::Withdraw(n) => (n, fresh.saturating_add(Self::GIVEN_BACK_MAX)),
            Self::Add(n) => (n, SaleSpec::UNITS_MAX.saturating_sub(total)),
        };
        (units > most).then_some(StockChanged::TooLarge { most })
    }
}

/// Outcome of [`Verbs::stock`](crate::Verbs::stock).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
#[non_exhaustive]
pub enum StockChanged {
    /// The new stock.
    Changed(SkuState),
    /// Fewer units are free than were to be withdrawn. Nothing was changed.
    NotEnough {
        /// Free units.
        free: u32,
    },
    /// More units than a SKU can have (10,000,000), or more released units than one change withdraws (20,000).
    /// Nothing was changed.
    TooLarge {
        /// Maximum size of the change with the current stock.
        most: u32,
    },
    /// The sale is halted until it is rebuilt. Nothing was changed.
    Halted,
    /// The `Op` was used for another change of this sale. Nothing was changed.
    KeyReused,
}

/// A sale and its stock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SaleState {
    /// The specification; the `units` of its SKUs are the initial ones.
    #[serde(flatten, serialize_with = "spec_fields")]
    #[cfg_attr(feature = "schema", schemars(flatten, with = "SpecFields"))]
    pub spec: SaleSpec,
    /// Status of the sale.
    pub status: SaleStatus,
    /// Generation: 1 for a sale that was never rebuilt. Each rebuild raises it by one or more.
    pub generation: u32,
    /// Number of its latest event.
    pub seq: u64,
    /// Stock of each SKU, in the order of the specification.
    pub skus: Vec<SkuState>,
    /// Earliest deadline of an undecided hold.
    #[serde(rename = "next_expiry_us", skip_serializing_if = "Option::is_none")]
    pub next_expiry: Option<Timestamp>,
    /// Whether it is halted until it is rebuilt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halted: Option<Halt>,
    /// Until when only receipts are honored, after a rebuild.
    #[serde(rename = "receipts_until_us", skip_serializing_if = "Option::is_none")]
    pub receipts_until: Option<Timestamp>,
    /// How far the ledger has followed the sale, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orders: Option<OrdersState>,
    /// The store's clock when this was read.
    #[serde(rename = "now_us")]
    pub now: Timestamp,
}

/// A sale in a listing: its state, or why that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "nearly every sale of a listing is sound")]
pub enum ListedSale {
    /// Its state.
    Sound(SaleState),
    /// Its records are damaged or missing. Other sales are not affected.
    Damaged(DamagedSale),
}

/// A sale whose records are damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DamagedSale {
    /// ID of the sale.
    pub id: SaleId,
    /// What is damaged.
    pub damage: String,
}

impl ListedSale {
    /// The entry of a sale. An error about anything but damaged records is passed on.
    pub fn of(id: SaleId, state: Result<SaleState>) -> Result<Self> {
        match state {
            Ok(state) => Ok(Self::Sound(state)),
            Err(error) if error.is_corrupt() => {
                Ok(Self::Damaged(DamagedSale { id, damage: error.to_string() }))
            }
            Err(error) => Err(error),
        }
    }

    /// ID of the sale.
    pub fn id(&self) -> &SaleId {
        match self {
            Self::Sound(state) => &state.spec.id,
            Self::Damaged(damaged) => &damaged.id,
        }
    }

    /// The state, unless the sale is damaged.
    pub fn sound(self) -> Option<SaleState> {
        match self {
            Self::Sound(state) => Some(state),
            Self::Damaged(_) => None,
        }
    }
}

/// The specification in the JSON of a sale: without the secret, and without the initial stock.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct SpecFields<'a> {
    /// ID of the sale.
    id: &'a SaleId,
    /// Hold duration of a reservation, in milliseconds.
    hold_ms: u64,
    /// Opening time.
    #[serde(rename = "opens_at_us", skip_serializing_if = "Option::is_none")]
    opens_at: Option<Timestamp>,
    /// Closing time.
    #[serde(rename = "closes_at_us", skip_serializing_if = "Option::is_none")]
    closes_at: Option<Timestamp>,
    /// Whether a ledger records the orders.
    ledger: bool,
}

fn spec_fields<S: Serializer>(spec: &SaleSpec, serializer: S) -> Result<S::Ok, S::Error> {
    let SaleSpec { id, hold, opens_at, closes_at, ledger, .. } = spec;
    let hold_ms = hold.as_micros() / 1_000;
    let fields = SpecFields { id, hold_ms, opens_at: *opens_at, closes_at: *closes_at, ledger: *ledger };
    fields.serialize(serializer)
}

/// A halt of a sale, which lasts until it is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Halt {
    /// The reason.
    pub reason: HaltReason,
    /// When it was halted.
    #[serde(rename = "since_us")]
    pub since: Timestamp,
}

/// Why a sale is halted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HaltReason {
    /// The store lost writes that it had acknowledged.
    LostWrites,
    /// An operator halted it.
    Operator,
    /// A rebuild is running.
    Rebuilding,
}

/// A part of the data that a rebuild loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Load {
    /// Orders, each once in all parts: up to 1,000.
    Orders(Vec<LedgerOrder>),
    /// Free units of a SKU below the highest one that was ever reserved: 1 to 10,000.
    Free(Sku, Vec<UnitNumber>),
    /// Withdrawn ranges of a SKU, none of them across the highest unit that was ever reserved: 1 to 10,000.
    Withdrawn(Sku, Vec<UnitRange>),
}

impl Load {
    /// Maximum number of orders in a part.
    pub const ORDERS_MAX: usize = 1_000;
    /// Maximum number of units or ranges in a part.
    pub const UNITS_MAX: usize = 10_000;
}

/// The last step of a rebuild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The new generation, greater than all before it: the one that the parts were loaded for.
    pub generation: u32,
    /// Period after the rebuild in which only receipts are honored, so that buyers with lost holds come first.
    pub grace: Duration,
    /// What the parts must add up to for each SKU, in the order of the sale.
    pub stock: Vec<Stocktake>,
}

impl Switch {
    /// Maximum period in which only receipts are honored.
    pub const GRACE_MAX: Duration = Duration::from_secs(3_600);
}

/// Stock of a SKU in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stocktake {
    /// All units ever offered: 1 to 10,000,000.
    pub total: u32,
    /// Highest unit that an order owns; 0 for none. Units above it are free unless they were withdrawn.
    pub handed_out: u32,
    /// Number of withdrawn units above it.
    pub ahead: u32,
}

/// Outcome of a step of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rebuilt {
    /// The step is done, now or since an earlier call.
    Done,
    /// Another rebuild of the sale has started. Nothing was changed.
    Superseded,
    /// The parts do not add up to the stock. The sale was not switched.
    Incomplete,
}

/// Outcome of [`Verbs::restore`](crate::Verbs::restore).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
#[non_exhaustive]
pub enum Restored {
    /// The buyer has the units again, the same or others.
    Restored(Hold),
    /// Nothing was lost: the reservation in its current state.
    Known(Hold),
    /// The hold would have expired.
    Expired,
    /// Other buyers have the units, and too few of the SKU are free.
    NoneLeft {
        /// The first line that cannot be served.
        sku: Sku,
        /// Free units of that SKU.
        free: u32,
    },
    /// The buyer has reached the purchase limit since then.
    LimitReached {
        /// The first line over the limit.
        sku: Sku,
        /// The limit.
        limit: u32,
        /// Units that the buyer has.
        has: u32,
    },
    /// The sale is halted until it is rebuilt. Retry then.
    Halted {
        /// When to retry.
        #[serde(rename = "retry_at_us")]
        retry_at: Timestamp,
    },
    /// Not a receipt of this sale. The store was not asked.
    NotHonoured {
        /// The reason.
        why: BadReceipt,
    },
}

/// Why a text is not a receipt of the sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BadReceipt {
    /// Not a receipt, or truncated.
    Unreadable,
    /// Issued for another sale.
    OtherSale,
    /// Changed after signing, or signed with another key.
    Forged,
}

impl fmt::Display for BadReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "malformed receipt: pass the full text that `reserve` returned",
            Self::OtherSale => "the receipt is for another sale",
            Self::Forged => "the receipt was not signed by this sale",
        })
    }
}

/// Stock of a SKU: `total = free + held + confirmed + withdrawn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkuState {
    /// Name of the SKU.
    pub sku: Sku,
    /// All units ever offered.
    pub total: u32,
    /// Units that buyers can reserve.
    pub free: u32,
    /// Units on hold.
    pub held: u32,
    /// Units sold.
    pub confirmed: u32,
    /// Units withdrawn from the sale.
    pub withdrawn: u32,
    /// Purchase limit per buyer.
    pub per_buyer: u32,
}

/// An event of a sale. Events are numbered without gaps, in the order in which they happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Sequence number: 1, 2, 3, …
    pub seq: u64,
    /// When it happened, on the store's clock.
    #[serde(rename = "at_us")]
    pub at: Timestamp,
    /// What happened.
    pub kind: EventKind,
    /// The reservation, if the event concerns one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationId>,
    /// The units that were reserved, released, added or withdrawn: each SKU with as few ranges as possible.
    #[serde(serialize_with = "units::ranges")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<units::Units>"))]
    pub units: Vec<(Sku, UnitRange)>,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// Units were reserved.
    Reserved,
    /// A hold was paid for. The ledger has yet to commit.
    Confirming,
    /// A hold was canceled. The ledger has yet to commit.
    Cancelling,
    /// A hold expired. The ledger has yet to commit.
    Expiring,
    /// Held units were sold.
    Confirmed,
    /// The buyer released held units.
    Cancelled,
    /// Held units were released at the deadline.
    Expired,
    /// The ledger refused the order, and the units were released.
    Rejected,
    /// The ledger refused the order because another order owns the units, and they were withdrawn.
    Quarantined,
    /// Units were added.
    StockAdded,
    /// Free units were withdrawn.
    StockWithdrawn,
    /// The sale was opened.
    Opened,
    /// The sale was ended.
    Ended,
    /// The sale was halted until it is rebuilt.
    Halted,
    /// The sale was rebuilt from the ledger: the first event of a generation.
    Rebuilt,
}

impl EventKind {
    /// Whether the ledger records what happened: a reservation, a decision or a change of the stock.
    pub const fn is_for_ledger(self) -> bool {
        matches!(
            self,
            Self::Reserved
                | Self::Confirming
                | Self::Cancelling
                | Self::Expiring
                | Self::StockAdded
                | Self::StockWithdrawn
        )
    }
}
