//! Waiting rooms over HTTP.

use std::time::Duration;

use hyper::http::{HeaderValue, header};
use rushgate::{
    BadPass, Beacon, BuyerId, Draw, NoPass, Rate, RoomOrder, RoomRules, RoomState, Sale, Timestamp, Turn,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::millis;
use super::sale::{buyer_of, moment};
use crate::access::Role;
use crate::call::Call;
use crate::openapi::NameText;
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Reply};

/// Rules of a waiting room. Fields that are left out keep their values in an open room, and get their defaults in a new
/// one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoomBody {
    /// Admission rate. Admissions are spread evenly.
    rate: RoomRate,
    /// Lifetime of an admission token, in milliseconds: 1,000 to 86,400,000. Default: 60,000.
    #[schemars(range(min = 1_000, max = 86_400_000))]
    pass_ms: Option<u64>,
    /// Order of admission. Default: `first_come`. It cannot be changed while the room is open.
    order: Option<OrderWord>,
    /// No admissions before this time, in milliseconds since the Unix epoch. Default: the opening time of the sale.
    #[schemars(range(max = 9_007_199_254_740_u64))]
    from_ms: Option<u64>,
}

/// Admission rate: `n` buyers per `per_ms`, spread evenly.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RoomRate")]
pub(crate) struct RoomRate {
    /// Number of buyers: 1 to 10,000.
    #[schemars(range(min = 1, max = 10_000))]
    n: u32,
    /// Period in milliseconds: at most 86,400,000.
    #[schemars(range(min = 1, max = 86_400_000))]
    per_ms: u64,
}

/// Order of admission.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OrderWord {
    /// First come, first served.
    FirstCome,
    /// Randomized draw among the buyers who joined before the entry was closed. Later buyers stand behind them.
    Draw,
}

/// A waiting room, the same for every reader. After the draw it is the record that `rushgate sale draw verify` reads.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RoomView {
    /// ID of the sale.
    sale: String,
    /// Admission rate.
    rate: RoomRate,
    /// Lifetime of an admission token, in milliseconds.
    pass_ms: u64,
    /// Order of admission.
    order: OrderWord,
    /// No admissions before this time, in microseconds since the Unix epoch, if set.
    from_us: Option<u64>,
    /// Number of buyers who joined.
    joined: u64,
    /// Number of positions that have been admitted.
    served: u64,
    /// Number of admission tokens issued.
    admitted: u64,
    /// SHA-256 of the draw's secret, in hexadecimal digits, published before the draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    commitment: Option<String>,
    /// The secret, published after the draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// The randomness beacon of the draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    beacon: Option<String>,
    /// Number of buyers in the draw, once the entry is closed: those with serials below this number.
    #[serde(skip_serializing_if = "Option::is_none")]
    entrants: Option<u64>,
    /// When the entry was closed, in microseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    entry_closed_us: Option<u64>,
    /// The store's clock, in microseconds since the Unix epoch.
    now_us: u64,
}

impl RoomView {
    fn of(sale: &Sale, room: &RoomState) -> Self {
        let (drawn, entry) = (room.drawn.as_ref(), room.closed_entry);
        Self {
            sale: sale.id().to_string(),
            rate: RoomRate { n: room.rules.rate.n, per_ms: millis(room.rules.rate.per) },
            pass_ms: millis(room.rules.pass),
            order: match room.rules.order {
                RoomOrder::FirstCome => OrderWord::FirstCome,
                RoomOrder::Draw => OrderWord::Draw,
            },
            from_us: room.rules.from.map(Timestamp::as_micros),
            joined: room.joined,
            served: room.served,
            admitted: room.admitted,
            commitment: room.commitment.map(|commitment| commitment.to_hex()),
            secret: drawn.map(|drawn| drawn.secret.to_hex()),
            beacon: drawn.map(|drawn| drawn.beacon.as_str().to_owned()),
            entrants: drawn.map(|drawn| drawn.entrants).or(entry.map(|entry| entry.entrants)),
            entry_closed_us: entry.map(|entry| entry.at.as_micros()),
            now_us: room.now.as_micros(),
        }
    }
}

fn no_room() -> Problem {
    Problem::new(Code::NotFound, "the sale has no waiting room: all buyers may reserve")
}

pub(crate) async fn set_room(call: Call<RoomBody>) -> Answer<RoomView> {
    let (sale, RoomBody { rate, pass_ms, order, from_ms }) = (call.sale()?, &call.body);
    let (room, rate) = (sale.room(), Rate::new(rate.n, Duration::from_millis(rate.per_ms)));
    let before = room.state().await?.map_or(RoomRules::new(rate), |room| room.rules);
    let order = match order {
        Some(OrderWord::FirstCome) => RoomOrder::FirstCome,
        Some(OrderWord::Draw) => RoomOrder::Draw,
        None => before.order,
    };
    let pass = pass_ms.map_or(before.pass, Duration::from_millis);
    let room = room.set(RoomRules { rate, pass, order, from: from_ms.map(moment).or(before.from) }).await?;
    Ok(Reply::ok(RoomView::of(&sale, &room)))
}

pub(crate) async fn room(call: Call) -> Answer<RoomView> {
    let sale = call.sale()?;
    let room = sale.room().recent().await?.ok_or_else(no_room)?;
    // A cache in front of several servers may serve this answer to many buyers.
    let kept = HeaderValue::from_static("public, max-age=1");
    Ok(Reply::ok(RoomView::of(&sale, &room)).header(header::CACHE_CONTROL, kept))
}

/// The randomness beacon of a draw.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrawBody {
    /// Public text that nobody could know when the entry was closed: 1 to 256 bytes without control characters.
    #[schemars(with = "String", length(min = 1, max = 256))]
    beacon: Beacon,
}

pub(crate) async fn close_entry(call: Call) -> Answer<RoomView> {
    let sale = call.sale()?;
    let room = sale.room().close_entry().await?.ok_or_else(no_room)?;
    Ok(Reply::ok(RoomView::of(&sale, &room)))
}

pub(crate) async fn draw(call: Call<DrawBody>) -> Answer<RoomView> {
    let (sale, beacon) = (call.sale()?, call.body.beacon);
    let room = match sale.room().draw(beacon.clone()).await?.ok_or_else(no_room)? {
        Draw::Drawn(room) => room,
        Draw::EntryOpen(room) => return Err(Problem::plain(Code::EntryOpen).with("joined", room.joined)),
    };
    match room.drawn.as_ref().filter(|drawn| drawn.beacon == beacon) {
        Some(_) => Ok(Reply::ok(RoomView::of(&sale, &room))),
        None => Err(Problem::new(Code::Stale, "the waiting room was already drawn with another beacon")),
    }
}

/// A closed waiting room.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClosedView {
    /// Always true: the sale has no waiting room anymore.
    closed: bool,
}

pub(crate) async fn close(call: Call) -> Answer<ClosedView> {
    let sale = call.sale()?;
    if !sale.room().close().await? {
        return Err(no_room());
    }
    Ok(Reply::ok(ClosedView { closed: true }))
}

/// A buyer who joins or asks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BuyerBody {
    /// The buyer. A token for one buyer names it already.
    #[schemars(with = "Option<NameText>")]
    buyer: Option<BuyerId>,
}

/// Whether a buyer is waiting.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TurnWord {
    /// The buyer is waiting.
    Waiting,
    /// The buyer was admitted and has a token.
    Admitted,
}

/// Position of a buyer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TurnView {
    /// Whether the buyer is waiting.
    state: TurnWord,
    /// Serial number with which the buyer joined.
    serial: u64,
    /// Position, from 0. Absent before a draw for buyers who take part in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<u64>,
    /// Number of buyers ahead who are not admitted yet. Absent without a position.
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<u64>,
    /// Estimated wait in milliseconds at the current rate. Absent before a draw.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
    /// Admission token: pass it as `pass` of a reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<String>,
    /// When the admission token expires, in microseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    until_us: Option<u64>,
    /// The store's clock, in microseconds since the Unix epoch.
    now_us: u64,
}

/// Converts a turn into the answer.
fn told(turn: Turn) -> Result<TurnView, Problem> {
    match turn {
        Turn::Waiting { serial, place, ahead, at, now } => Ok(TurnView {
            state: TurnWord::Waiting,
            serial,
            place,
            ahead,
            wait_ms: at.map(|at| millis(at.since(now))),
            pass: None,
            until_us: None,
            now_us: now.as_micros(),
        }),
        Turn::Admitted { serial, place, pass, until, now } => Ok(TurnView {
            state: TurnWord::Admitted,
            serial,
            place,
            ahead: None,
            wait_ms: None,
            pass: Some(pass),
            until_us: Some(until.as_micros()),
            now_us: now.as_micros(),
        }),
        Turn::NoRoom => Err(no_room()),
        Turn::NotIn => Err(Problem::plain(Code::NotInLine)),
        Turn::Missed { until } => Err(Problem::plain(Code::PassMissed).with("until_us", until.as_micros())),
        Turn::Closed => Err(Problem::plain(Code::RoomClosed)),
    }
}

pub(crate) async fn join(call: Call<BuyerBody>) -> Answer<TurnView> {
    let sale = call.sale()?;
    let buyer = buyer_of(call.caller.buyer.as_ref(), call.body.buyer.clone())?;
    let room = sale.room();
    if call.check().is_some() {
        // Refuse a buyer who cannot join anyway before the bot check runs. A room that this process does not know yet
        // counts as none, because nobody joins without the check.
        if room.recent().await?.is_none() {
            return Err(no_room());
        }
        if room.is_over().await? {
            return Err(Problem::plain(Code::RoomClosed));
        }
        call.must_be_let_in(&sale, &buyer).await?;
    }
    let ticket = room.join(&buyer).await?;
    let again = ticket.again;
    let view = told(ticket.turn)?;
    Ok(if again { Reply::ok(view) } else { Reply::created(view) })
}

pub(crate) async fn enter(call: Call<BuyerBody>) -> Answer<TurnView> {
    let sale = call.sale()?;
    let buyer = buyer_of(call.caller.buyer.as_ref(), call.body.buyer.clone())?;
    let room = sale.room();
    let turn = call.unless_closing(room.enter_within(&buyer, call.wait)).await?;
    let view = told(turn)?;
    if matches!(view.state, TurnWord::Admitted) {
        return Ok(Reply::created(view));
    }
    let again = HeaderValue::from(ask_again_s(view.wait_ms));
    Ok(Reply::accepted(view).header(header::RETRY_AFTER, again))
}

/// Seconds until the next poll: half of the estimated wait, so buyers with a long wait poll seldom.
fn ask_again_s(wait_ms: Option<u64>) -> u64 {
    /// Before a draw the wait is unknown.
    const UNKNOWN_MS: u64 = 20_000;
    (wait_ms.unwrap_or(UNKNOWN_MS) / 2).div_ceil(1_000).clamp(1, 60)
}

/// Refuses a buyer without an admission token if the sale has a waiting room; returns whether it has one. A token
/// that sells for several buyers needs no admission, and a replay is answered after the admission token has expired.
pub(crate) async fn must_have_pass(
    sale: &Sale,
    role: Role,
    buyer: &BuyerId,
    pass: Option<&str>,
    key: &rushgate::IdempotencyKey,
) -> Result<bool, Problem> {
    if role > Role::Buyer {
        return Ok(true);
    }
    match sale.room().check(pass, buyer).await? {
        Ok(has_room) => Ok(has_room),
        Err(NoPass::Needed) => Err(Problem::plain(Code::PassNeeded).field("pass")),
        // The token was valid once, so the store is asked. A forged token is refused without.
        Err(NoPass::Bad(why @ (BadPass::Expired | BadPass::OtherRoom))) => {
            match sale.reservation_of(buyer, key).await? {
                Some(_) => Ok(true),
                None if why == BadPass::Expired => Err(Problem::plain(Code::PassExpired).field("pass")),
                None => Err(Problem::new(Code::PassRefused, why).field("pass")),
            }
        }
        Err(NoPass::Bad(why)) => Err(Problem::new(Code::PassRefused, why).field("pass")),
    }
}
