use std::fmt::{self, Write};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha1::Sha1;
use siphasher::sip::SipHasher24;

use crate::{
    Answer, BadReceipt, BuyerId, ContentType, Error, HoldTime, LedgerOrder, Op, Page, Payload, QueueName,
    Receipt, ReservationId, Result, SaleId, SaleSecret, Sku, Timestamp, UnitNumber, UnitRange, units,
};

/// The sales of a store: units numbered 1..N per SKU, reserved by buyers.
///
/// A reservation takes its **numbered** units, counts them against the buyer's limit, appends an event and puts its
/// order into the orders' queue in one step, so nothing can come between the stock and the order. A unit has exactly
/// one place at any moment: free, held, confirmed or withdrawn.
///
/// ```text
///                    ┌─ confirm ─► confirming ─┐            ┌─► confirmed
/// reserve ─► held ───┼─ cancel ──► cancelling ─┼─ settle ───┼─► cancelled   (units free again)
///                    └─ deadline ► expiring ───┘            ├─► expired     (units free again)
///                                                           └─► rejected    (the ledger refused)
/// ```
/// The store's row decides, in one step, which of confirm, cancel and the deadline comes first. With a ledger behind
/// the sale the middle states wait until it has committed ([`settle`](Self::settle)); without one the step from
/// `held` leads straight to the end.
///
/// # Generations
/// A store may lose writes that it acknowledged: by a failover, or because an old backup took its place. Whoever finds
/// out [pauses](Self::pause_sale) the sale; a rebuild reads it from the ledger, loads it beside what is there and
/// [switches](Self::switch) to it in one step, under the next generation. A hold that the ledger has not heard of
/// comes back by its signed [`Receipt`] ([`restore`](Self::restore)).
pub trait SaleStore: Send + Sync {
    /// Makes a sale, not yet open, and reserves its orders' queue. The same call again is answered the same way.
    /// [`is_invalid`](crate::Error::is_invalid) if that queue was used for other tasks.
    fn create(&self, sale: SaleSpec) -> Answer<'_, Created>;

    /// Opens the sale, from its `opens_at` if it has one. Opening an open sale changes nothing; an ended one stays
    /// ended. Gives the status that it has then.
    fn open(&self, sale: &SaleId) -> Answer<'_, SaleStatus>;

    /// Ends the sale for good: no more reservations. Holds can still be confirmed, cancelled and expire. Gives the
    /// status that it has then.
    fn end(&self, sale: &SaleId) -> Answer<'_, SaleStatus>;

    /// Asks for units.
    ///
    /// Checks in this order: replay, open, limit of the buyer, stock of every line; then takes all or nothing. If the
    /// limit or a line is in the way, holds whose deadline has passed are ended first (up to
    /// [`SWEEP_MAX`](SaleSpec::SWEEP_MAX), by deadline), as [`expire`](Self::expire) does.
    fn reserve(&self, request: Reserve) -> Answer<'_, Reserved>;

    /// Confirms a hold: it is paid for. A hold whose deadline has passed is ended instead, and refused.
    fn confirm(&self, sale: &SaleId, id: ReservationId) -> Answer<'_, Decision>;

    /// Cancels a hold: the buyer does not want it. A hold whose deadline has passed is ended as expired.
    fn cancel_hold(&self, sale: &SaleId, id: ReservationId) -> Answer<'_, Decision>;

    /// Ends up to `n` holds whose deadline has passed, by deadline, and says how many (1 to 1,000).
    fn expire(&self, sale: &SaleId, n: u32) -> Answer<'_, u32>;

    /// Tells what the ledger has committed, in the order given, of orders of that generation. Only a reservation in
    /// the matching middle state moves, so telling it twice changes nothing. What is said of another generation than
    /// the sale's changes nothing either: a rebuild has read it from the ledger.
    fn settle(
        &self,
        sale: &SaleId,
        generation: u32,
        verdicts: Vec<(ReservationId, Verdict)>,
    ) -> Answer<'_, Vec<Settled>>;

    /// Adds units (numbered on from the last) or withdraws free ones for good (the highest), all or nothing.
    ///
    /// The store keeps the answer beside the stock for at least [`StockChange::REMEMBERED`], so a process that starts
    /// later gets it as well. The same `Op` with another request is [`StockChanged::KeyReused`].
    fn stock(&self, op: Op, sale: &SaleId, sku: &Sku, change: StockChange) -> Answer<'_, StockChanged>;

    /// Stops the sale, because the store of that generation cannot be trusted: nothing is reserved, decided, ended or
    /// stocked any more, and nothing but a rebuild goes on from there. Says whether it is stopped; a sale of another
    /// generation is left alone. [`is_invalid`](crate::Error::is_invalid) for a sale without a ledger, from which
    /// alone it could be rebuilt.
    fn pause_sale(&self, sale: &SaleId, generation: u32, reason: PauseReason) -> Answer<'_, bool>;

    /// Begins to rebuild the sale from the ledger: stops it, and makes room beside it for what will be loaded. Whoever
    /// begins last goes on; what an earlier one loads is refused from then on, and what it has loaded is dropped.
    fn begin_rebuild(&self, by: Op, sale: &SaleId) -> Answer<'_, ()>;

    /// Loads a part of what the ledger knows, beside the sale, for the generation to come. A part that was loaded
    /// before changes nothing. Up to 1,000 orders, which may be none to ask whether this rebuild goes on, or 1 to
    /// 10,000 units.
    fn load(&self, by: Op, sale: &SaleId, generation: u32, part: Load) -> Answer<'_, Rebuilt>;

    /// Puts what was loaded in the place of the sale, in one step, if it adds up; the sale goes on from there.
    fn switch(&self, by: Op, sale: &SaleId, switch: Switch) -> Answer<'_, Rebuilt>;

    /// Gives a buyer the units of a receipt back, if the store has lost the reservation: the same if they are free,
    /// others if not. The sale need not be open, because the reservation was made when it was.
    ///
    /// A receipt of the generation that the sale is in, for a reservation that it does not know, proves a lost write:
    /// a sale with a ledger is stopped, as by [`pause_sale`](Self::pause_sale).
    fn restore(&self, receipt: Receipt) -> Answer<'_, Restored>;

    /// The sale as it stands.
    fn sale(&self, sale: &SaleId) -> Answer<'_, SaleState>;

    /// Sales by id.
    fn sales(&self, page: Page) -> Answer<'_, Vec<SaleState>>;

    /// One reservation.
    fn reservation(&self, sale: &SaleId, id: ReservationId) -> Answer<'_, Option<Hold>>;

    /// Events with a number greater than `after`, in order, at most `limit` (1 to 10,000).
    fn events(&self, sale: &SaleId, after: u64, limit: u32) -> Answer<'_, Vec<Event>>;

    /// Everything the store knows of the sale, read in one snapshot, for the audit.
    fn books(&self, sale: &SaleId) -> Answer<'_, crate::Books>;
}

/// Units per line at most.
pub const MAX_UNITS_PER_LINE: u32 = 1_000;
/// Lines per reservation at most.
pub const MAX_LINES: usize = 32;
/// Units per reservation at most.
pub const MAX_UNITS: u32 = MAX_LINES as u32 * MAX_UNITS_PER_LINE;

/// A sale to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleSpec {
    /// Its id.
    pub id: SaleId,
    /// What it sells: 1 to 1,000 SKUs, each once.
    pub skus: Vec<SkuSpec>,
    /// How long a reservation holds its units.
    pub hold: HoldTime,
    /// Not before this moment, even if opened.
    pub opens_at: Option<Timestamp>,
    /// Not from this moment on.
    pub closes_at: Option<Timestamp>,
    /// The queue that gets an [`OrderTask`] in the step of each reservation and of each decision, if a ledger has the
    /// last word. Its limits do not apply to these tasks: an accepted reservation never lacks its order.
    ///
    /// The queue must never have been used, except for the orders of other sales. From then on it is reserved: it can
    /// be read, but only a handle [for orders](crate::Store::for_orders) changes it.
    pub orders: Option<QueueName>,
    /// Made at random; see [`ReservationId::derive`].
    pub secret: SaleSecret,
}

impl SaleSpec {
    /// Units per SKU at most.
    pub const UNITS_MAX: u32 = 10_000_000;
    /// SKUs per sale at most.
    pub const SKUS_MAX: usize = 1_000;
    /// The largest limit per buyer.
    pub const PER_BUYER_MAX: u32 = 10_000;
    /// Holds that one reservation ends on its way at most.
    pub const SWEEP_MAX: u32 = 100;
}

/// One SKU of a sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkuSpec {
    /// Its name.
    pub sku: Sku,
    /// How many units it begins with: 1 to 10,000,000.
    pub units: u32,
    /// How many of them one buyer may have at a time, held or confirmed: 1 to 10,000.
    pub per_buyer: u32,
}

/// The answer to [`SaleStore::create`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Created {
    /// It is there, not yet open.
    Created,
    /// Another sale has this id. Nothing was changed.
    Exists,
}

/// Whether a sale sells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaleStatus {
    /// Made, not opened.
    Created,
    /// Opened. (`opens_at` and `closes_at` may still keep buyers out.)
    Open,
    /// Over.
    Ended,
}

/// One line of a cart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Line {
    /// Of what.
    pub sku: Sku,
    /// How many: 1 to 1,000.
    pub quantity: u32,
}

/// Which numbers will do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnitChoice {
    /// Any: given-back numbers first, lowest first.
    #[default]
    Any,
    /// The same number in every line, the lowest that is free in all: one seat over several segments of a journey.
    /// Every line must ask for one unit.
    SameNumber,
}

/// A wish for units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// Which sale.
    pub sale: SaleId,
    /// The reservation, derived from buyer and idempotency key.
    pub id: ReservationId,
    /// Who buys.
    pub buyer: BuyerId,
    /// What: 1 to 32 lines, each SKU once.
    pub lines: Vec<Line>,
    /// Which numbers.
    pub choice: UnitChoice,
}

/// The answer to [`SaleStore::reserve`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Reserved {
    /// The units are the buyer's until the deadline.
    Reserved(Hold),
    /// The same key was sent before: the reservation that it made, as it stands now.
    Replayed(Hold),
    /// The same key was sent before with other lines. Nothing was changed.
    KeyReused,
    /// Too little is left and nothing is held that could come back.
    SoldOut {
        /// The first line that is short.
        sku: Sku,
        /// What is free of it.
        free: u32,
    },
    /// Too little is free, but units are held and may come back.
    AllHeld {
        /// The first line that is short.
        sku: Sku,
        /// What is free of it.
        free: u32,
        /// The earliest deadline of a hold, if one is not decided yet.
        next_give_back: Option<Timestamp>,
    },
    /// The buyer would have more than allowed.
    LimitReached {
        /// The first line over the limit.
        sku: Sku,
        /// What is allowed.
        limit: u32,
        /// What the buyer has.
        has: u32,
    },
    /// Not opened yet.
    NotOpen {
        /// When it opens, if that is known.
        opens_at: Option<Timestamp>,
    },
    /// Over.
    Ended,
    /// Nobody is let in for the moment: the store lost writes, or lately did and honours receipts only. Not sold out.
    Paused {
        /// When to ask again.
        retry_at: Timestamp,
    },
}

/// A reservation as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Its id.
    pub id: ReservationId,
    /// Whose it is.
    pub buyer: BuyerId,
    /// Its units, in the order of the lines and by number within one.
    pub units: Vec<(Sku, UnitNumber)>,
    /// Where it stands.
    pub state: HoldState,
    /// Until when it may be confirmed.
    pub deadline: Timestamp,
    /// The number of the event that made it.
    pub seq: u64,
    /// The sale's generation in which it was made.
    pub generation: u32,
}

/// Where a reservation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldState {
    /// The buyer may confirm or cancel.
    Held,
    /// Paid for; the ledger has not committed yet.
    Confirming,
    /// Called off; the ledger has not committed yet.
    Cancelling,
    /// Run out; the ledger has not committed yet.
    Expiring,
    /// Sold.
    Confirmed,
    /// Called off; the units were given back.
    Cancelled,
    /// Run out; the units were given back.
    Expired,
    /// Refused by the ledger.
    Rejected,
}

impl HoldState {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Held,
        Self::Confirming,
        Self::Cancelling,
        Self::Expiring,
        Self::Confirmed,
        Self::Cancelled,
        Self::Expired,
        Self::Rejected,
    ];

    /// True if the units are taken but not sold: held, or waiting for the ledger.
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::Confirming | Self::Cancelling | Self::Expiring)
    }

    /// True if the reservation has its units: held or confirmed.
    pub const fn is_live(self) -> bool {
        self.is_held() || matches!(self, Self::Confirmed)
    }

    /// True if nothing moves it any more.
    pub const fn is_final(self) -> bool {
        !self.is_held()
    }
}

/// The answer to a confirmation or a cancellation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Decision {
    /// It is final, now or since an earlier call.
    Done(Hold),
    /// It is decided; the ledger has still to commit.
    Pending(Hold),
    /// It was decided otherwise before: the hold's state says how. A payment for it must be given back.
    Refused(Hold),
    /// There is no such reservation. Where the store lost it, its [`Receipt`] brings it back.
    Unknown,
    /// It is not decided, and cannot be while the sale is stopped. Ask again once it goes on.
    Paused,
}

/// What the ledger committed for a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Sold.
    Confirmed,
    /// Called off: the units may be sold again.
    Cancelled,
    /// Run out: the units may be sold again.
    Expired,
    /// The ledger refused the order.
    Rejected {
        /// The ledger knows the units as somebody else's: withdraw them. Otherwise they may be sold again.
        units_taken: bool,
    },
}

/// The answer to one verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// The reservation moved.
    Settled,
    /// It does not wait for this verdict: settled before, or decided otherwise. Nothing was changed.
    Unchanged(HoldState),
    /// There is no such reservation.
    Unknown,
}

/// A change of the stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StockChange {
    /// So many more: 1 to 10,000,000, and no more than that in all.
    Add(u32),
    /// So many fewer, the highest of those that are free: 1 to 10,000,000, of which at most
    /// [`GIVEN_BACK_MAX`](Self::GIVEN_BACK_MAX) were given back.
    Withdraw(u32),
}

impl StockChange {
    /// Given-back units that one change withdraws at most. They lie one by one between those that are held or sold, so
    /// each of them takes its time and its place in the order to the ledger; those that nobody ever had do not.
    pub const GIVEN_BACK_MAX: u32 = 20_000;

    /// How long a store keeps the answer to a change at least.
    pub const REMEMBERED: Duration = Duration::from_secs(86_400);

    /// Why a SKU of `total` units cannot be changed so, of which `free` are free and `fresh` nobody ever had.
    pub fn refusal(self, total: u32, free: u32, fresh: u32) -> Option<StockChanged> {
        let (units, most) = match self {
            Self::Withdraw(n) if n > free => return Some(StockChanged::NotEnough { free }),
            Self::Withdraw(n) => (n, fresh.saturating_add(Self::GIVEN_BACK_MAX)),
            Self::Add(n) => (n, SaleSpec::UNITS_MAX.saturating_sub(total)),
        };
        (units > most).then_some(StockChanged::TooLarge { most })
    }
}

/// The answer to [`SaleStore::stock`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum StockChanged {
    /// The stock as it is now.
    Changed(SkuState),
    /// Fewer are free than were to be withdrawn. Nothing was changed.
    NotEnough {
        /// What is free.
        free: u32,
    },
    /// More units than the SKU can have (10,000,000), or more that were given back than one change withdraws (20,000).
    /// Nothing was changed.
    TooLarge {
        /// How many units the change may have at most, as the stock is now.
        most: u32,
    },
    /// The sale is stopped until it is rebuilt. Nothing was changed.
    Paused,
    /// This `Op` was used for another change of this sale. Nothing was changed.
    KeyReused,
}

/// A sale as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaleState {
    /// How it was made; the `units` of its SKUs are what it began with.
    pub spec: SaleSpec,
    /// Whether it sells.
    pub status: SaleStatus,
    /// 1 for a sale that was never rebuilt, and greater after each rebuild: one takes two or more.
    pub generation: u32,
    /// The number of its latest event.
    pub seq: u64,
    /// Its stock, in the order of the spec.
    pub skus: Vec<SkuState>,
    /// The earliest deadline of an undecided hold.
    pub next_give_back: Option<Timestamp>,
    /// Whether it is stopped until it is rebuilt.
    pub paused: Option<Pause>,
    /// After a rebuild: until when only receipts are honoured.
    pub receipts_until: Option<Timestamp>,
    /// The store's clock when this was read.
    pub now: Timestamp,
}

/// A sale that is stopped until it is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Why.
    pub reason: PauseReason,
    /// Since when.
    pub since: Timestamp,
}

/// Why a sale is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// The store lost writes that it had acknowledged.
    LostWrites,
    /// Somebody said so.
    Operator,
    /// It is being rebuilt.
    Rebuilding,
}

impl PauseReason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::LostWrites, Self::Operator, Self::Rebuilding];
}

/// A part of what a rebuild loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Load {
    /// Orders, each once in all parts: up to 1,000.
    Orders(Vec<LedgerOrder>),
    /// Numbers of a SKU below the highest that was ever handed out, which nobody has: 1 to 10,000.
    Free(Sku, Vec<UnitNumber>),
    /// Ranges of a SKU that were withdrawn, none on both sides of the highest number that was handed out: 1 to 10,000.
    Withdrawn(Sku, Vec<UnitRange>),
}

impl Load {
    /// Orders in one part at most.
    pub const ORDERS_MAX: usize = 1_000;
    /// Units in one part at most.
    pub const UNITS_MAX: usize = 10_000;
}

/// The last step of a rebuild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The new generation, greater than any before it: that for which the parts were loaded.
    pub generation: u32,
    /// For how long only receipts are honoured then: so that those whose holds were lost come before strangers.
    pub grace: Duration,
    /// What the parts must add up to, for each SKU of the sale in its order.
    pub stock: Vec<Stocktake>,
}

impl Switch {
    /// The longest time in which only receipts are honoured.
    pub const GRACE_MAX: Duration = Duration::from_secs(3_600);
}

/// The stock of one SKU in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stocktake {
    /// Units ever offered: 1 to 10,000,000.
    pub total: u32,
    /// The highest number that an order owns; 0 for none. Those above are free, if they were not withdrawn.
    pub handed_out: u32,
    /// How many of those above it were withdrawn.
    pub ahead: u32,
}

/// The answer to a step of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rebuilt {
    /// It is carried out, now or before.
    Done,
    /// Somebody else has begun to rebuild the sale since. Nothing was changed.
    Superseded,
    /// The parts do not add up to the stock. Nothing was switched.
    Incomplete,
}

/// The answer to [`SaleStore::restore`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Restored {
    /// The units are the buyer's again, the same or others.
    Restored(Hold),
    /// Nothing was lost: the reservation as it stands.
    Known(Hold),
    /// The hold would have run out.
    Expired,
    /// The units are others', and too few of the SKU are free.
    NoneLeft {
        /// The first line that is short.
        sku: Sku,
        /// What is free of it.
        free: u32,
    },
    /// The buyer has since taken what is allowed.
    LimitReached {
        /// The first line over the limit.
        sku: Sku,
        /// What is allowed.
        limit: u32,
        /// What the buyer has.
        has: u32,
    },
    /// The sale is stopped until it is rebuilt. Come again then.
    Paused {
        /// When to ask again.
        retry_at: Timestamp,
    },
    /// It is no receipt of this sale. Nothing was asked of the store.
    NotHonoured(BadReceipt),
}

/// The stock of one SKU: `total = free + held + confirmed + withdrawn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkuState {
    /// Which.
    pub sku: Sku,
    /// Units ever offered.
    pub total: u32,
    /// Units that anybody may reserve.
    pub free: u32,
    /// Units reserved and not confirmed.
    pub held: u32,
    /// Units sold.
    pub confirmed: u32,
    /// Units taken out of the sale.
    pub withdrawn: u32,
    /// What one buyer may have.
    pub per_buyer: u32,
}

/// Something that happened in a sale. Events are numbered without gaps, in the order in which they happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// 1, 2, 3, …
    pub seq: u64,
    /// When, on the store's clock.
    pub at: Timestamp,
    /// What.
    pub kind: EventKind,
    /// Whose reservation, if one.
    pub reservation: Option<ReservationId>,
    /// Which units it took, gave back, added or withdrew: each SKU with as few ranges as its numbers allow.
    pub units: Vec<(Sku, UnitRange)>,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// Units became held.
    Reserved,
    /// A hold was paid for; the ledger is to commit.
    Confirming,
    /// A hold was called off; the ledger is to commit.
    Cancelling,
    /// A hold ran out; the ledger is to commit.
    Expiring,
    /// Held units were sold.
    Confirmed,
    /// Held units were given back by the buyer.
    Cancelled,
    /// Held units were given back by the deadline.
    Expired,
    /// The ledger refused; the units were given back.
    Rejected,
    /// The ledger refused because the units are somebody else's; they were withdrawn.
    Quarantined,
    /// Units were added.
    StockAdded,
    /// Free units were withdrawn.
    StockWithdrawn,
    /// The sale was opened.
    Opened,
    /// The sale was ended.
    Ended,
    /// The sale was stopped until it is rebuilt.
    Paused,
    /// The sale was rebuilt from the ledger: the first event of a generation.
    Rebuilt,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::Reserved,
        Self::Confirming,
        Self::Cancelling,
        Self::Expiring,
        Self::Confirmed,
        Self::Cancelled,
        Self::Expired,
        Self::Rejected,
        Self::Quarantined,
        Self::StockAdded,
        Self::StockWithdrawn,
        Self::Opened,
        Self::Ended,
        Self::Paused,
        Self::Rebuilt,
    ];
}

/// What the orders' queue carries, as JSON. A reservation's task has the reservation's id, so a later decision replaces
/// an earlier one that was not carried out yet. Each change of the stock has a task of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "order")]
pub enum OrderTask {
    /// Record the reservation and what was decided.
    Reservation {
        /// Of which sale.
        sale: SaleId,
        /// The sale's generation.
        generation: u32,
        /// The number of the event that made the reservation: unique in sale and generation.
        seq: u64,
        /// The reservation.
        id: ReservationId,
        /// Whose.
        buyer: BuyerId,
        /// Its units. In JSON, each SKU with its numbers as ranges: `["phone",[[1,3],[7,7]]]`.
        #[serde(with = "units::by_line")]
        units: Vec<(Sku, UnitNumber)>,
        /// What was decided.
        intent: OrderIntent,
    },
    /// Record a change of the stock.
    ///
    /// It names what it withdraws and not all that was withdrawn before, so that it stays small. A stock only grows,
    /// and what is withdrawn stays so; hence changes may be recorded in any order, and more than once.
    Stock {
        /// Of which sale.
        sale: SaleId,
        /// Of which SKU.
        sku: Sku,
        /// The number of its event: unique in the sale.
        seq: u64,
        /// Units ever offered, this change included.
        total: u32,
        /// Units that it takes out of the sale; some of them may have been out before.
        withdrawn: Vec<UnitRange>,
        /// What one buyer may have.
        per_buyer: u32,
    },
}

/// What stands before the digits of the authentication code.
const MAC: &str = ",\"mac\":\"";
const MAC_DIGITS: usize = 40;

fn mac(secret: SaleSecret, text: &[u8]) -> Hmac<Sha1> {
    let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(&secret.to_bytes()) else {
        unreachable!("HMAC takes keys of every length");
    };
    mac.update(ORDER_DOMAIN);
    mac.update(text);
    mac
}

/// What is authenticated before the order: the secret serves many things, and this says which.
const ORDER_DOMAIN: &[u8] = b"rushgate order 1\0";

/// Why the content of a task in an orders' queue is no order of a sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadOrder {
    /// It is no order at all.
    Unreadable(String),
    /// The sale that it names has not made it.
    Forged,
}

impl fmt::Display for BadOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "the content is no order: {why}"),
            Self::Forged => f.write_str(
                "the order was not made by the sale that it names, and was not carried to the ledger",
            ),
        }
    }
}

/// What is to become of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderIntent {
    /// The units are held for the buyer.
    Hold,
    /// The buyer paid.
    Confirm,
    /// The buyer called it off.
    Cancel,
    /// The deadline passed.
    Expire,
}

impl SaleSpec {
    /// How long a buyer who is kept out by a pause should wait before asking again.
    pub const ASK_AGAIN_AFTER: Duration = Duration::from_secs(2);
}

impl Hold {
    /// How long it may still be confirmed at `now` on the store's clock.
    pub fn time_left(&self, now: Timestamp) -> Duration {
        self.deadline.since(now)
    }
}

impl OrderTask {
    /// Of which sale it is.
    pub fn sale(&self) -> &SaleId {
        match self {
            Self::Reservation { sale, .. } | Self::Stock { sale, .. } => sale,
        }
    }

    /// The id of its task in the orders' queue: the reservation's, or `stock:SALE:SEQ`.
    pub fn task_id(&self) -> crate::TaskId {
        let id = match self {
            Self::Reservation { id, .. } => id.to_string(),
            Self::Stock { sale, seq, .. } => format!("{}{seq}", Self::stock_ids(sale)),
        };
        crate::TaskId::made_of(&id)
    }

    /// As the orders' queue carries it: its JSON, whose last field authenticates all before it.
    ///
    /// `mac` is HMAC-SHA-1 (RFC 2104) under the sale's secret, because SHA-1 is what a script on Redis can compute. HMAC
    /// does not rest on what is broken in SHA-1, which is its resistance to collisions (RFC 6194).
    pub fn seal(&self, secret: SaleSecret) -> Result<Payload> {
        let mut text = serde_json::to_string(self)
            .map_err(|error| Error::bug("an order is not JSON").caused_by(error))?;
        text.truncate(text.len() - 1);
        let mac = mac(secret, text.as_bytes()).finalize().into_bytes();
        text.push_str(MAC);
        for byte in mac {
            let _ = write!(text, "{byte:02x}");
        }
        text.push_str("\"}");
        Payload::new(ContentType::json(), text.into_bytes())
    }

    /// Reads what [`seal`](Self::seal) made, and believes it only if the sale of that secret has made it.
    ///
    /// # Errors
    /// Why it is no order: it is damaged, or somebody else has made it.
    pub fn unseal(payload: &Payload, secret: SaleSecret) -> Result<Self, BadOrder> {
        let order = Self::read(payload)?;
        Self::verify(payload, secret)?;
        Ok(order)
    }

    /// Checks that the sale of that secret has made what [`read`](Self::read) reads.
    ///
    /// # Errors
    /// [`BadOrder::Forged`]: it has not.
    pub fn verify(payload: &Payload, secret: SaleSecret) -> Result<(), BadOrder> {
        let sealed =
            payload.bytes().strip_suffix(b"\"}").and_then(|text| text.split_last_chunk::<MAC_DIGITS>());
        let (text, digits) = sealed.ok_or(BadOrder::Forged)?;
        let text = text.strip_suffix(MAC.as_bytes()).ok_or(BadOrder::Forged)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(BadOrder::Forged);
        }
        let mut given = [0; MAC_DIGITS / 2];
        for (byte, pair) in given.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| BadOrder::Forged)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| BadOrder::Forged)?;
        }
        // The comparison takes as long whatever is wrong.
        mac(secret, text).verify_slice(&given).map_err(|_| BadOrder::Forged)
    }

    /// Reads what claims to be an order. Who has made it is for [`verify`](Self::verify) to tell.
    ///
    /// # Errors
    /// It is none.
    pub fn read(payload: &Payload) -> Result<Self, BadOrder> {
        serde_json::from_slice(payload.bytes()).map_err(|error| BadOrder::Unreadable(error.to_string()))
    }

    /// What the ids of a sale's changes of stock begin with; the number of the change's event follows. It names the
    /// sale, because sales may share a queue: by a hash if its id is too long for that.
    pub fn stock_ids(sale: &SaleId) -> String {
        const SEQ_DIGITS: usize = 20;
        if "stock::".len() + sale.as_str().len() + SEQ_DIGITS <= crate::MAX_NAME_BYTES {
            return format!("stock:{sale}:");
        }
        format!("stock:#{:016x}:", SipHasher24::new().hash(sale.as_str().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TaskId;

    fn named(text: &str) -> Sku {
        Sku::new(text).unwrap()
    }

    fn order(units: Vec<(Sku, UnitNumber)>) -> OrderTask {
        OrderTask::Reservation {
            sale: SaleId::new("s").unwrap(),
            generation: 1,
            seq: 7,
            id: ReservationId::from_bytes([1; 16]),
            buyer: BuyerId::new("ann").unwrap(),
            units,
            intent: OrderIntent::Hold,
        }
    }

    fn withdrawal(sale: &str, seq: u64, withdrawn: Vec<UnitRange>) -> OrderTask {
        let (sale, sku) = (SaleId::new(sale).unwrap(), named(&"x".repeat(crate::MAX_NAME_BYTES)));
        OrderTask::Stock { sale, sku, seq, total: SaleSpec::UNITS_MAX, withdrawn, per_buyer: 10_000 }
    }

    #[test]
    fn an_order_survives_json_and_neighbours_travel_as_ranges() {
        let units: Vec<_> = [("a", 1), ("a", 2), ("a", 3), ("b", 9), ("b", 7), ("a", 5)]
            .map(|(sku, unit)| (named(sku), unit))
            .into();
        let json = serde_json::to_string(&order(units.clone())).unwrap();
        assert!(json.contains(r#""units":[["a",[[1,3]]],["b",[[9,9],[7,7]]],["a",[[5,5]]]]"#), "{json}");
        assert_eq!(serde_json::from_str::<OrderTask>(&json).unwrap(), order(units));
        let json = json.replace("[1,3]", "[1,4000000000]");
        let error = serde_json::from_str::<OrderTask>(&json).unwrap_err().to_string();
        assert!(error.contains("at most 32000"), "{error}");
    }

    #[test]
    fn an_order_is_believed_only_as_the_sale_made_it() {
        let secret = SaleSecret::from_bytes([7; 16]);
        let order = order(vec![(named("a"), 1)]);
        let sealed = order.seal(secret).unwrap();
        assert_eq!(OrderTask::unseal(&sealed, secret), Ok(order.clone()));
        assert_eq!(OrderTask::unseal(&sealed, SaleSecret::from_bytes([8; 16])), Err(BadOrder::Forged));
        let text = String::from_utf8(sealed.bytes().to_vec()).unwrap();
        let plain = serde_json::to_string(&order).unwrap();
        for forged in [
            plain,
            text.replace("hold", "confirm"),
            text.replace("\"seq\":7", "\"seq\":8"),
            text.replace(",\"mac\"", ",\"other\":1,\"mac\""),
            text.replace("\"}", "0\"}"),
            text.replacen('}', " }", 1),
        ] {
            let payload = Payload::new(ContentType::json(), forged.clone().into_bytes()).unwrap();
            assert_eq!(OrderTask::unseal(&payload, secret), Err(BadOrder::Forged), "{forged}");
        }
        let signed = |text: &str| {
            let at = text.len() - "0f\"}".len();
            (&text[at..=at] == "0").then(|| format!("{}+{}", &text[..at], &text[at + 1..]))
        };
        let signed = (0..=u8::MAX).find_map(|key| {
            let secret = SaleSecret::from_bytes([key; 16]);
            let sealed = order.seal(secret).unwrap();
            signed(std::str::from_utf8(sealed.bytes()).unwrap()).map(|text| (secret, text))
        });
        let (secret, signed) = signed.unwrap();
        let payload = Payload::new(ContentType::json(), signed.into_bytes()).unwrap();
        assert_eq!(OrderTask::unseal(&payload, secret), Err(BadOrder::Forged), "`+f` is no byte");
        let garbage = OrderTask::unseal(&Payload::empty(), secret);
        assert!(matches!(garbage, Err(BadOrder::Unreadable(_))), "{garbage:?}");
    }

    #[test]
    fn the_largest_orders_fit_into_a_task() {
        let scattered = |n: u32| (0..n).map(|n| SaleSpec::UNITS_MAX - 2 * n);
        let skus = (0..MAX_LINES).map(|n| named(&format!("{n:0>200}")));
        let units = skus.flat_map(|sku| scattered(MAX_UNITS_PER_LINE).map(move |unit| (sku.clone(), unit)));
        let withdrawn = scattered(StockChange::GIVEN_BACK_MAX + 1).map(UnitRange::one).collect();
        for order in
            [order(units.collect()), withdrawal(&"s".repeat(crate::MAX_NAME_BYTES), u64::MAX, withdrawn)]
        {
            order.seal(SaleSecret::from_bytes([7; 16])).unwrap();
            TaskId::new(order.task_id().as_str()).unwrap();
        }
    }

    #[test]
    fn sales_that_share_a_queue_do_not_share_the_ids_of_their_stock() {
        let ids =
            [("a", 1), ("b", 1), ("a", 2)].map(|(sale, seq)| withdrawal(sale, seq, Vec::new()).task_id());
        assert_eq!(ids.each_ref().map(TaskId::as_str), ["stock:a:1", "stock:b:1", "stock:a:2"]);
    }
}
