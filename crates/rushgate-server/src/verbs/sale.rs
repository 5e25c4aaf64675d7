//! Sales over HTTP.

use std::time::Duration;

use crate::access::Role;
use crate::body::Body;
use hyper::http::{HeaderName, HeaderValue, Response};
use rushgate::sale::{
    Audit, BadReceipt, Created, Decision, Estimate, EventKind, FailedOrder, Hold, HoldState, ListedSale,
    Rebuild, RebuildOutcome, RebuildReport, ReservationId, Restored, SaleId, SaleState, SaleStatus, SkuSpec,
    SkuState, StockChange, StockChanged, UnitChoice,
};
use rushgate::store::{Op, Page};
use rushgate::{BuyerId, Error, IdempotencyKey, Line, Reserved, Sale, SaleBuilder, Sku, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{EventsQuery, PageQuery, PageView, buyer_of};
use crate::call::{Call, Nothing};
use crate::events;
use crate::history::{HistoryQuery, HistoryView};
use crate::openapi::exactly_one;
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Reply};
use crate::scope::Kind;

/// A sale to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaleBody {
    /// ID of the sale.
    id: SaleId,
    /// The SKUs on sale: 1 to 1,000, each listed once.
    #[schemars(length(min = 1, max = 1_000))]
    skus: Vec<SkuSpec>,
    /// Hold duration of a reservation, in milliseconds: 10 ms to 30 days. Default: 300,000.
    #[serde(default = "hold_ms")]
    #[schemars(range(min = 10, max = 2_592_000_000_u64))]
    hold_ms: u64,
    /// Opening time. An open sale refuses buyers before it.
    #[serde(rename = "opens_at_us")]
    opens_at: Option<Timestamp>,
    /// Closing time. The sale refuses buyers from then on.
    #[serde(rename = "closes_at_us")]
    closes_at: Option<Timestamp>,
    /// Whether a ledger records the orders. Default: whether the server has a ledger. An order worker of another
    /// process, such as `rushgate sale work`, can serve a sale whose server has none.
    ledger: Option<bool>,
    /// What shop pages show of the sale, such as titles, prices and pictures: a JSON object of at most 64 KiB.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    metadata: Option<Box<RawValue>>,
}

fn hold_ms() -> u64 {
    300_000
}

/// New status of a sale.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StatusView {
    /// ID of the sale.
    sale: SaleId,
    /// Status of the sale.
    status: SaleStatus,
}

pub(crate) async fn create(call: Call<SaleBody>) -> Answer<StatusView> {
    let SaleBody { id, skus, hold_ms, opens_at, closes_at, ledger, metadata } = call.body;
    if !call.caller.may(Kind::Sale, id.as_str()) {
        return Err(Problem::new(Code::Forbidden, "the token's scopes do not cover this sale"));
    }
    let mut sale = SaleBuilder::new(id.as_str()).hold(Duration::from_millis(hold_ms));
    for SkuSpec { sku, units, per_buyer } in skus {
        sale = sale.sku(sku.as_str(), units, per_buyer);
    }
    if let Some(at) = opens_at {
        sale = sale.opens_at(at);
    }
    if let Some(at) = closes_at {
        sale = sale.closes_at(at);
    }
    if let Some(metadata) = metadata {
        sale = sale.metadata(metadata.get());
    }
    if ledger.unwrap_or(call.app.ledger.is_some()) {
        sale = sale.ledger();
    }
    match call.app.client.create_sale(sale).await? {
        Created::Created => {
            call.app.more_to_look_after.notify_one();
            let path = format!("/v1/sales/{}", in_path(id.as_str()));
            let view = StatusView { sale: id, status: SaleStatus::Created };
            Ok(Reply::created(view).location(&path))
        }
        Created::Exists => Err(Problem::plain(Code::Exists)),
    }
}

/// Encodes a name as a segment of a path.
fn in_path(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    name.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

pub(crate) async fn open(call: Call) -> Answer<StatusView> {
    let sale = call.sale()?;
    match sale.open().await? {
        SaleStatus::Ended => Err(Problem::plain(Code::SaleEnded)),
        status => Ok(status_of(&sale, status)),
    }
}

/// Page of the entries that the ledger could not record.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailedQuery {
    /// Only event numbers greater than this one: the `next` of the previous page.
    #[serde(default)]
    after: u64,
    /// Page size: 1 to 1,000. Default: 1,000.
    #[serde(default = "super::page_limit")]
    #[schemars(range(min = 1, max = 1_000))]
    limit: u32,
}

/// Entries that the ledger could not record so far.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FailedView {
    /// The entries, sorted by event number.
    items: Vec<FailedOrder>,
    /// Pass it as `after` to get the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

pub(crate) async fn failed_orders(call: Call<Nothing, FailedQuery>) -> Answer<FailedView> {
    let FailedQuery { after, limit } = call.query;
    let sale = call.sale()?;
    let items = sale.failed_orders(Page::after(after, limit)).await?;
    let next = items.last().filter(|_| items.len() >= limit as usize).map(|last| last.seq);
    Ok(Reply::ok(FailedView { items, next }))
}

/// Number of entries that the ledger could not record so far.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RetriedView {
    /// The number.
    failed: u32,
}

pub(crate) async fn retry_orders(call: Call) -> Answer<RetriedView> {
    Ok(Reply::ok(RetriedView { failed: call.sale()?.retry_orders().await? }))
}

pub(crate) async fn end(call: Call) -> Answer<StatusView> {
    let sale = call.sale()?;
    let status = sale.end().await?;
    Ok(status_of(&sale, status))
}

fn status_of(sale: &Sale, status: SaleStatus) -> Reply<StatusView> {
    Reply::ok(StatusView { sale: sale.id().clone(), status })
}

/// A sale, and whether it has a waiting room.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SaleView {
    #[serde(flatten)]
    sale: SaleState,
    /// Whether the sale has a waiting room, at most one second old. Absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_room: Option<bool>,
}

pub(crate) async fn sale(call: Call) -> Answer<SaleView> {
    let sale = call.sale()?;
    let waiting_room = sale.room().recent().await?.map(|_| true);
    Ok(Reply::ok(SaleView { sale: sale.state().await?, waiting_room }))
}

/// What shop pages show of a sale: the JSON object with which it was created, empty by default.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct MetadataView(
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")] Box<RawValue>,
);

pub(crate) async fn metadata(call: Call) -> Answer<MetadataView> {
    let text = call.sale()?.state().await?.spec.metadata;
    let text = if text.is_empty() { "{}".to_owned() } else { text };
    let json = RawValue::from_string(text);
    let json = json.map_err(|error| Error::corrupt("the metadata of a sale is not JSON").caused_by(error))?;
    Ok(Reply::ok(MetadataView(json)))
}

pub(crate) async fn sales(call: Call<Nothing, PageQuery>) -> Answer<PageView<ListedSale>> {
    let page = call.app.client.sales((&call.query).into()).await?;
    let seen = |mut sale: ListedSale| {
        if let ListedSale::Damaged(damaged) = &mut sale
            && call.caller.role < Role::Operator
        {
            // The store's words may name files.
            damaged.damage = "its records are damaged or missing".to_owned();
        }
        call.caller.may(Kind::Sale, sale.id().as_str()).then_some(sale)
    };
    Ok(Reply::ok(PageView::of(page, call.query.limit, |sale| sale.id().as_str(), seen)))
}

/// Units to reserve.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReserveBody {
    /// The buyer. A token for one buyer names it already.
    buyer: Option<BuyerId>,
    /// 1 to 32 lines, each SKU once. The buyer gets all of them or none.
    #[schemars(length(min = 1, max = 32))]
    lines: Vec<Line>,
    /// Whether every line must get the same unit number, such as one seat on several legs of a journey.
    #[serde(default)]
    same_number: bool,
    /// Admission token from the waiting room, if the sale has one and the caller is a buyer.
    #[schemars(length(max = 2_048))]
    pass: Option<String>,
}

/// A reservation, and its receipt if the answer is to a buyer who has just made it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HoldView {
    #[serde(flatten)]
    hold: Hold,
    /// Signed receipt. It restores the units if the store loses the reservation, so give it to the buyer.
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<String>,
}

impl From<Hold> for HoldView {
    fn from(hold: Hold) -> Self {
        Self { hold, receipt: None }
    }
}

/// A reservation with its receipt.
async fn with_receipt(sale: &Sale, hold: Hold) -> Result<HoldView, Problem> {
    Ok(HoldView { receipt: Some(sale.receipt(&hold).await?), hold })
}

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

pub(crate) async fn reserve(call: Call<ReserveBody>) -> Answer<HoldView> {
    let sale = call.sale()?;
    let key = IdempotencyKey::new(call.key.as_deref().unwrap_or_default())?;
    let buyer = buyer_of(call.caller.buyer.as_ref(), call.body.buyer.clone())?;
    let (role, pass) = (call.caller.role, call.body.pass.as_deref());
    let has_room = super::room::must_have_pass(&sale, role, &buyer, pass, &key).await?;
    let lines = &call.body.lines;
    // With a waiting room, the bot check ran when the buyer joined.
    if call.check().is_some() && !has_room {
        match sale.estimate(&buyer, lines, &key).await? {
            Estimate::Answer(refused) => return Err(refusal(refused)),
            Estimate::Replay => {}
            Estimate::Unknown => call.must_be_let_in(&sale, &buyer).await?,
        }
    }
    let choice = if call.body.same_number { UnitChoice::SameNumber } else { UnitChoice::Any };
    match sale.reserve_units(&buyer, lines, choice, &key).await? {
        Reserved::Reserved(hold) => {
            let path = format!("/v1/sales/{}/reservations/{}", in_path(sale.id().as_str()), hold.id);
            Ok(Reply::accepted(with_receipt(&sale, hold).await?).location(&path))
        }
        Reserved::Replayed(hold) => {
            let reply = Reply::ok(with_receipt(&sale, hold).await?);
            Ok(reply.header(REPLAYED, HeaderValue::from_static("true")))
        }
        refused => Err(refusal(refused)),
    }
}

/// Why nothing was reserved.
fn refusal(reserved: Reserved) -> Problem {
    match reserved {
        Reserved::KeyReused => Problem::plain(Code::IdempotencyKeyReused),
        Reserved::SoldOut { sku, free } => {
            Problem::plain(Code::SoldOut).with("sku", sku.as_str()).with("free", free)
        }
        Reserved::AllHeld { sku, free, next_expiry } => {
            let problem = Problem::plain(Code::AllHeld).with("sku", sku.as_str()).with("free", free);
            match next_expiry {
                Some(at) => problem.with("next_expiry_us", at.as_micros()),
                None => problem,
            }
        }
        Reserved::LimitReached { sku, limit, has } => limit_reached(&sku, limit, has),
        Reserved::NotOpen { opens_at } => match opens_at {
            Some(at) => Problem::plain(Code::SaleNotOpen).retry_at(at).with("opens_at_us", at.as_micros()),
            None => Problem::plain(Code::SaleNotOpen),
        },
        Reserved::Ended => Problem::plain(Code::SaleEnded),
        Reserved::Halted { retry_at } => halted(retry_at),
        other => Problem::unforeseen(other),
    }
}

fn halted(retry_at: Timestamp) -> Problem {
    Problem::plain(Code::SaleHalted).retry_at(retry_at).with("retry_at_us", retry_at.as_micros())
}

fn limit_reached(sku: &Sku, limit: u32, has: u32) -> Problem {
    Problem::plain(Code::LimitReached).with("sku", sku.as_str()).with("limit", limit).with("has", has)
}

impl<B, Q> Call<B, Q> {
    fn reservation_id(&self) -> Result<ReservationId, Problem> {
        // A malformed ID matches no reservation.
        self.path.get("reservation").parse().map_err(|_| no_reservation())
    }

    /// Refuses a reservation of another buyer exactly as one that does not exist, and just as fast.
    async fn check_sees(&self, sale: &Sale, id: ReservationId) -> Result<(), Problem> {
        let Some(buyer) = &self.caller.buyer else { return Ok(()) };
        let hold = sale.reservation(id).await?;
        if hold.is_some_and(|hold| hold.buyer == *buyer) { Ok(()) } else { Err(no_reservation()) }
    }
}

fn no_reservation() -> Problem {
    Problem::new(Code::NotFound, "no such reservation; if the store lost it, restore it with its receipt")
}

pub(crate) async fn reservation(call: Call) -> Answer<HoldView> {
    let (sale, id) = (call.sale()?, call.reservation_id()?);
    call.check_sees(&sale, id).await?;
    let hold = call.unless_closing(sale.wait_final(id, call.wait)).await?.ok_or_else(no_reservation)?;
    Ok(Reply::ok(hold.into()))
}

pub(crate) async fn confirm(call: Call) -> Answer<HoldView> {
    let (sale, id) = (call.sale()?, call.reservation_id()?);
    call.check_sees(&sale, id).await?;
    let decision = sale.confirm(id).await?;
    decided(&call, &sale, decision, HoldState::Confirmed).await
}

pub(crate) async fn cancel_hold(call: Call) -> Answer<HoldView> {
    let (sale, id) = (call.sale()?, call.reservation_id()?);
    call.check_sees(&sale, id).await?;
    let decision = sale.cancel(id).await?;
    decided(&call, &sale, decision, HoldState::Cancelled).await
}

/// The answer to a decision, which may have to wait for the ledger.
async fn decided(call: &Call, sale: &Sale, decision: Decision, wanted: HoldState) -> Answer<HoldView> {
    let hold = match decision {
        Decision::Done(hold) => return Ok(Reply::ok(hold.into())),
        Decision::Pending(hold) => hold,
        Decision::Refused(hold) => return Err(otherwise(&hold)),
        Decision::Unknown => return Err(no_reservation()),
        Decision::Halted => return Err(Problem::plain(Code::SaleHalted)),
        other => return Err(Problem::unforeseen(other)),
    };
    if call.wait.is_zero() {
        return Ok(Reply::accepted(hold.into()));
    }
    let settled =
        call.unless_closing(sale.wait_final(hold.id, call.wait)).await?.ok_or_else(no_reservation)?;
    match settled.state {
        state if state == wanted => Ok(Reply::ok(settled.into())),
        state if state.is_final() => Err(otherwise(&settled)),
        _ => Ok(Reply::accepted(settled.into())),
    }
}

fn otherwise(hold: &Hold) -> Problem {
    let state = serde_json::to_value(hold.state).unwrap_or_default();
    Problem::plain(Code::Decided).with("state", state)
}

/// A receipt to restore.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestoreBody {
    /// The complete receipt that came with the reservation.
    receipt: String,
}

pub(crate) async fn restore(call: Call<RestoreBody>) -> Answer<HoldView> {
    let sale = call.sale()?;
    if let Some(buyer) = &call.caller.buyer {
        let receipt = sale.read_receipt(&call.body.receipt).await?.map_err(not_honoured)?;
        if receipt.buyer != *buyer {
            return Err(no_reservation());
        }
    }
    match sale.restore(&call.body.receipt).await? {
        Restored::Restored(hold) => Ok(Reply::created(with_receipt(&sale, hold).await?)),
        Restored::Known(hold) => Ok(Reply::ok(with_receipt(&sale, hold).await?)),
        Restored::Expired => Err(Problem::plain(Code::HoldExpired)),
        Restored::NoneLeft { sku, free } => {
            Err(Problem::plain(Code::SoldOut).with("sku", sku.as_str()).with("free", free))
        }
        Restored::LimitReached { sku, limit, has } => Err(limit_reached(&sku, limit, has)),
        Restored::Halted { retry_at } => Err(halted(retry_at)),
        Restored::NotHonoured { why } => Err(not_honoured(why)),
        other => Err(Problem::unforeseen(other)),
    }
}

fn not_honoured(why: BadReceipt) -> Problem {
    Problem::new(Code::ReceiptRefused, why).field("receipt")
}

/// A change of the stock: units to add or to withdraw.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = exactly_one("add", "withdraw"))]
pub(crate) struct StockBody {
    /// Name of the SKU.
    sku: Sku,
    /// Number of units to add: 1 to 10,000,000. Their numbers continue from the last one.
    #[schemars(range(min = 1, max = 10_000_000))]
    add: Option<u32>,
    /// Number of units to withdraw permanently: 1 to 10,000,000. The highest free ones are taken.
    #[schemars(range(min = 1, max = 10_000_000))]
    withdraw: Option<u32>,
}

pub(crate) async fn stock(call: Call<StockBody>) -> Answer<SkuState> {
    let (sale, StockBody { sku, add, withdraw }) = (call.sale()?, &call.body);
    let change = match (add, withdraw) {
        (Some(add), None) => StockChange::Add(*add),
        (None, Some(withdraw)) => StockChange::Withdraw(*withdraw),
        _ => return Err(Problem::new(Code::Invalid, "set add or withdraw").field("add")),
    };
    let key = call.key.as_deref().unwrap_or_default();
    // The step is derived from the key, so repeating the request adds nothing twice.
    let op = Op::from_bytes(call.caller.derive(&["stock", sale.id().as_str(), key]));
    let changed = sale.change_stock(op, sku, change).await?;
    match changed {
        StockChanged::Changed(state) => Ok(Reply::ok(state)),
        StockChanged::NotEnough { free } => Err(Problem::plain(Code::NotEnough).with("free", free)),
        StockChanged::TooLarge { most } => Err(Problem::plain(Code::ChangeTooLarge).with("most", most)),
        StockChanged::Halted => Err(Problem::plain(Code::SaleHalted)),
        StockChanged::KeyReused => Err(Problem::plain(Code::IdempotencyKeyReused)),
        other => Err(Problem::unforeseen(other)),
    }
}

/// Whether a sale is halted.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HaltedView {
    /// True if the sale is halted until it is rebuilt.
    halted: bool,
}

pub(crate) async fn halt_sale(call: Call) -> Answer<HaltedView> {
    let sale = call.sale()?;
    Ok(Reply::ok(HaltedView { halted: sale.halt().await? }))
}

/// How to resume a halted sale.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RebuildBody {
    /// Period after the rebuild in which only receipts are honored, in milliseconds: at most 1 h. Default: 5,000.
    #[serde(default = "receipts_first_ms")]
    #[schemars(range(max = 3_600_000))]
    receipts_first_ms: u64,
    /// Whether to accept a ledger that does not know the sale although orders were recorded, and to write the sold
    /// units to it.
    #[serde(default)]
    new_ledger: bool,
}

fn receipts_first_ms() -> u64 {
    5_000
}

pub(crate) async fn rebuild(call: Call<RebuildBody>) -> Answer<RebuildReport> {
    let sale = call.sale()?;
    let Some(ledger) = call.app.ledger.clone() else {
        return Err(Problem::new(
            Code::Invalid,
            "the server has no ledger to rebuild from; start it with --orders",
        ));
    };
    let rebuild = Rebuild::new(sale, ledger)
        .receipts_first(Duration::from_millis(call.body.receipts_first_ms))
        .new_ledger(call.body.new_ledger);
    match rebuild.run().await? {
        RebuildOutcome::Rebuilt(report) => Ok(Reply::ok(report)),
        RebuildOutcome::Superseded => {
            Err(Problem::new(Code::Stale, "another rebuild of this sale has started"))
        }
    }
}

pub(crate) async fn audit(call: Call) -> Answer<Audit> {
    let (sale, ledger) = (call.sale()?, call.app.ledger.clone());
    // The semaphore is never closed.
    let permit = call.app.auditing.clone().acquire_owned().await;
    // A task of its own: an audit cannot stop midway, so it keeps the permit if the caller leaves.
    let audit = tokio::spawn(async move {
        let _permit = permit;
        sale.audit(ledger.as_deref()).await
    });
    Ok(Reply::ok(audit.await.map_err(|error| Error::bug("the audit panicked").caused_by(error))??))
}

/// The recent past of a sale, and the moments that its event log knows.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SaleHistoryView {
    #[serde(flatten)]
    history: HistoryView,
    /// When the sale opened for buyers. Absent if it has not, or if its first 1,000 events do not say so.
    #[serde(rename = "opened_us", skip_serializing_if = "Option::is_none")]
    opened: Option<Timestamp>,
    /// When the last unit was sold. Absent if units are free or held, or if the latest 1,000 events do not say so.
    #[serde(rename = "sold_out_us", skip_serializing_if = "Option::is_none")]
    sold_out: Option<Timestamp>,
}

/// Number of events that are read for a moment.
const MOMENT_EVENTS: u32 = 1_000;

pub(crate) async fn history(call: Call<Nothing, HistoryQuery>) -> Answer<SaleHistoryView> {
    let sale = call.sale()?;
    let query = call.query.checked()?;
    let state = sale.state().await?;
    let first = sale.events(Page::after(0, MOMENT_EVENTS)).await?;
    let opened = first.iter().find(|event| event.kind == EventKind::Opened).map(|event| event.at);
    let opened = opened.map(|at| state.spec.opens_at.map_or(at, |opens| opens.max(at)));
    let is_gone = state.skus.iter().all(|sku| sku.free == 0 && sku.held == 0);
    let sold_out = if is_gone {
        let after = state.seq.saturating_sub(MOMENT_EVENTS.into());
        let latest = sale.events(Page::after(after, MOMENT_EVENTS)).await?;
        latest.iter().rfind(|event| event.kind == EventKind::Confirmed).map(|event| event.at)
    } else {
        None
    };
    Ok(Reply::ok(SaleHistoryView {
        history: call.app.live.history.of(Kind::Sale, sale.id().as_str(), query),
        opened: opened.filter(|at| *at <= state.now),
        sold_out,
    }))
}

/// Streams the events of a sale.
pub(crate) async fn events(call: Call<Nothing, EventsQuery>) -> Result<Response<Body>, Problem> {
    let (sale, after) = (call.sale()?, call.seen.or(call.query.after));
    Ok(events::of_sale(sale, after, call.app.closing.clone()).await?)
}
