//! Waiting rooms over HTTP.

use std::time::Duration;

use hyper::http::{HeaderValue, header};
use rushgate::queue::Rate;
use rushgate::sale::{Admission, BadPass, Beacon, Draw, NoPass, RoomOrder, RoomRules};
use rushgate::wire::RoomReport;
use rushgate::{BuyerId, Sale, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::buyer_of;
use crate::access::Role;
use crate::call::Call;
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Reply};

/// Rules of a waiting room. Fields that are left out keep their values in an open room, and get their defaults in a new
/// one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RoomBody {
    /// Admission rate. Admissions are spread evenly.
    rate: Rate,
    /// Lifetime of an admission token, in milliseconds: 1,000 to 86,400,000. Default: 60,000.
    #[schemars(range(min = 1_000, max = 86_400_000))]
    pass_ms: Option<u64>,
    /// Order of admission. Default: `first_come`. It cannot be changed while the room is open.
    order: Option<RoomOrder>,
    /// No admissions before this time. Default: the opening time of the sale.
    #[serde(rename = "from_us")]
    from: Option<Timestamp>,
}

fn no_room() -> Problem {
    Problem::new(Code::NotFound, "the sale has no waiting room: all buyers may reserve")
}

pub(crate) async fn set_room(call: Call<RoomBody>) -> Answer<RoomReport> {
    let (sale, RoomBody { rate, pass_ms, order, from }) = (call.sale()?, &call.body);
    let room = sale.room();
    let before = room.state().await?.map_or(RoomRules::new(*rate), |room| room.rules);
    let rules = RoomRules {
        rate: *rate,
        pass: pass_ms.map_or(before.pass, Duration::from_millis),
        order: order.unwrap_or(before.order),
        from: from.or(before.from),
    };
    Ok(Reply::ok(RoomReport::new(sale.id(), &room.set(rules).await?)))
}

pub(crate) async fn room(call: Call) -> Answer<RoomReport> {
    let sale = call.sale()?;
    let room = sale.room().recent().await?.ok_or_else(no_room)?;
    // A cache in front of several servers may serve this answer to many buyers.
    let kept = HeaderValue::from_static("public, max-age=1");
    Ok(Reply::ok(RoomReport::new(sale.id(), &room)).header(header::CACHE_CONTROL, kept))
}

/// The randomness beacon of a draw.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrawBody {
    /// Public text that nobody could know when the entry was closed: 1 to 256 bytes without control characters.
    beacon: Beacon,
}

pub(crate) async fn close_entry(call: Call) -> Answer<RoomReport> {
    let sale = call.sale()?;
    let room = sale.room().close_entry().await?.ok_or_else(no_room)?;
    Ok(Reply::ok(RoomReport::new(sale.id(), &room)))
}

pub(crate) async fn draw(call: Call<DrawBody>) -> Answer<RoomReport> {
    let (sale, beacon) = (call.sale()?, call.body.beacon);
    let room = match sale.room().draw(beacon.clone()).await?.ok_or_else(no_room)? {
        Draw::Drawn(room) => room,
        Draw::EntryOpen(room) => return Err(Problem::plain(Code::EntryOpen).with("joined", room.joined)),
    };
    match room.drawn.as_ref().filter(|drawn| drawn.beacon == beacon) {
        Some(_) => Ok(Reply::ok(RoomReport::new(sale.id(), &room))),
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
    buyer: Option<BuyerId>,
}

/// The answer to a buyer who is in the room.
fn in_room(admission: Admission) -> Result<Admission, Problem> {
    match admission {
        Admission::Waiting { .. } | Admission::Admitted { .. } => Ok(admission),
        Admission::NoRoom => Err(no_room()),
        Admission::NotIn => Err(Problem::plain(Code::NotInLine)),
        Admission::Missed { until } => {
            Err(Problem::plain(Code::PassMissed).with("until_us", until.as_micros()))
        }
        Admission::Closed => Err(Problem::plain(Code::RoomClosed)),
        other => Err(Problem::unforeseen(other)),
    }
}

pub(crate) async fn join(call: Call<BuyerBody>) -> Answer<Admission> {
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
    let admission = in_room(ticket.admission)?;
    Ok(if ticket.again { Reply::ok(admission) } else { Reply::created(admission) })
}

pub(crate) async fn enter(call: Call<BuyerBody>) -> Answer<Admission> {
    let sale = call.sale()?;
    let buyer = buyer_of(call.caller.buyer.as_ref(), call.body.buyer.clone())?;
    let room = sale.room();
    let admission = call.unless_closing(room.enter_within(&buyer, call.wait)).await?;
    let admission = in_room(admission)?;
    if matches!(admission, Admission::Admitted { .. }) {
        return Ok(Reply::created(admission));
    }
    let again = HeaderValue::from(ask_again_s(admission.wait()));
    Ok(Reply::accepted(admission).header(header::RETRY_AFTER, again))
}

/// Seconds until the next poll: half of the estimated wait, so buyers with a long wait poll seldom.
fn ask_again_s(wait: Option<Duration>) -> u64 {
    /// Before a draw the wait is unknown.
    const UNKNOWN: Duration = Duration::from_secs(20);
    (wait.unwrap_or(UNKNOWN) / 2).as_secs_f64().ceil().clamp(1.0, 60.0) as u64
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
