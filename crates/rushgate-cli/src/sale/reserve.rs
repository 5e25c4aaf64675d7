//! Reserves units, and decides on reservations.

use std::time::Duration;

use anyhow::Result;
use rushgate::{
    BuyerId, Decision, Hold, HoldState, IdempotencyKey, Line, Reserved, Rushgate, Sale, Sku, Timestamp,
    UnitChoice,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::look::{UnitView, units};
use super::make::{reservation, sweep};
use crate::args::sale::{CancelArgs, ConfirmArgs, ReserveArgs};
use crate::exit::Exit;
use crate::output::{Output, moment};

/// A reservation as JSON.
#[derive(Serialize)]
struct HoldView<'a> {
    reservation: String,
    buyer: &'a str,
    units: Vec<UnitView<'a>>,
    state: HoldState,
    deadline_us: u64,
    seq: u64,
    generation: u32,
}

impl<'a> From<&'a Hold> for HoldView<'a> {
    fn from(hold: &'a Hold) -> Self {
        Self {
            reservation: hold.id.to_string(),
            buyer: hold.buyer.as_str(),
            units: units(&hold.units),
            state: hold.state,
            deadline_us: hold.deadline.as_micros(),
            seq: hold.seq,
            generation: hold.generation,
        }
    }
}

pub(super) async fn reserve(gate: &Rushgate, args: ReserveArgs, output: Output) -> Result<Exit> {
    let (buyer, key) = (BuyerId::new(&args.buyer)?, IdempotencyKey::new(&args.key)?);
    let line =
        |line: &crate::args::sale::LineArg| Ok(Line { sku: Sku::new(&line.sku)?, quantity: line.quantity });
    let lines: Vec<_> = args.lines.iter().map(line).collect::<rushgate::Result<_>>()?;
    let choice = if args.same_number { UnitChoice::SameNumber } else { UnitChoice::Any };
    let sale = gate.sale(&args.id)?;
    let answer = as_it_stands(&sale, sale.reserve_units(&buyer, &lines, choice, &key).await?).await?;
    let (mut json, mut text) = shown(&answer, &lines);
    let stands = stands(&answer);
    if let Some(hold) = stands {
        let receipt = sale.receipt(hold).await?;
        text = format!("{text}\nreceipt {receipt}");
        json["receipt"] = receipt.into();
    }
    output.line(&json, text)?;
    Ok(Exit::done_if(stands.is_some()))
}

/// State of a replayed hold that has expired: the store may show it as held until it is swept.
async fn as_it_stands(sale: &Sale, answer: Reserved) -> Result<Reserved> {
    let Reserved::Replayed(hold) = &answer else { return Ok(answer) };
    if hold.state != HoldState::Held || sale.state().await?.now < hold.deadline {
        return Ok(answer);
    }
    sweep(sale).await?;
    let swept = sale.reservation(hold.id).await?;
    Ok(swept.map_or(answer, Reserved::Replayed))
}

/// The buyer's hold, if there is one.
fn stands(answer: &Reserved) -> Option<&Hold> {
    let (Reserved::Reserved(hold) | Reserved::Replayed(hold)) = answer else { return None };
    matches!(hold.state, HoldState::Held | HoldState::Confirming | HoldState::Confirmed).then_some(hold)
}

fn shown(answer: &Reserved, lines: &[Line]) -> (Value, String) {
    match answer {
        Reserved::Reserved(hold) => held("reserved", hold),
        Reserved::Replayed(hold) => held("replayed", hold),
        Reserved::KeyReused => (
            json!({ "outcome": "key_reused" }),
            "this key was used for another cart; nothing was changed".into(),
        ),
        Reserved::SoldOut { sku, free } => (
            json!({ "outcome": "sold_out", "sku": sku, "free": free }),
            format!("sold out: {free} of {sku} free, none on hold"),
        ),
        Reserved::AllHeld { sku, free, next_give_back } => (
            json!({
                "outcome": "all_held", "sku": sku, "free": free, "next_give_back_us": micros(*next_give_back)
            }),
            format!(
                "all on hold: {free} of {sku} free; retry later{}",
                from("; next hold expires at", *next_give_back)
            ),
        ),
        Reserved::LimitReached { sku, limit, has } => (
            json!({ "outcome": "limit_reached", "sku": sku, "limit": limit, "has": has }),
            format!(
                "purchase limit exceeded: {} of {sku} requested, {has} owned, limit {limit} per buyer",
                requested(lines, sku)
            ),
        ),
        Reserved::NotOpen { opens_at } => (
            json!({ "outcome": "not_open", "opens_at_us": micros(*opens_at) }),
            format!("not open yet{}", from("; opens at", *opens_at)),
        ),
        Reserved::Ended => (json!({ "outcome": "ended" }), "the sale has ended".into()),
        Reserved::Paused { retry_at } => (
            json!({ "outcome": "paused", "retry_at_us": retry_at.as_micros() }),
            format!(
                "the sale is halted, or accepts only receipts for now; retry after {}",
                moment(*retry_at)
            ),
        ),
    }
}

/// Quantity of a SKU in the request.
fn requested(lines: &[Line], sku: &Sku) -> u32 {
    lines.iter().filter(|line| line.sku == *sku).map(|line| line.quantity).sum()
}

pub(super) fn held(outcome: &str, hold: &Hold) -> (Value, String) {
    let text = format!("{outcome} {} {}{}", hold.id, list(hold), until(hold));
    (with_outcome(outcome, hold), text)
}

fn with_outcome(outcome: &str, hold: &Hold) -> Value {
    let mut json = json!(HoldView::from(hold));
    json["outcome"] = outcome.into();
    json
}

fn list(hold: &Hold) -> String {
    let units: Vec<_> = hold.units.iter().map(|(sku, unit)| format!("{sku}#{unit}")).collect();
    units.join(" ")
}

fn until(hold: &Hold) -> String {
    match hold.state {
        HoldState::Held => format!(" until {}", moment(hold.deadline)),
        state => format!(" {}", state_word(state)),
    }
}

pub(super) fn state_word(state: HoldState) -> &'static str {
    match state {
        HoldState::Held => "held",
        HoldState::Confirming => "confirming",
        HoldState::Cancelling => "cancelling",
        HoldState::Expiring => "expiring",
        HoldState::Confirmed => "confirmed",
        HoldState::Cancelled => "cancelled",
        HoldState::Expired => "expired",
        HoldState::Rejected => "rejected",
    }
}

fn micros(at: Option<Timestamp>) -> Option<u64> {
    at.map(Timestamp::as_micros)
}

fn from(words: &str, at: Option<Timestamp>) -> String {
    at.map_or(String::new(), |at| format!("{words} {}", moment(at)))
}

pub(super) async fn confirm(gate: &Rushgate, args: ConfirmArgs, output: Output) -> Result<Exit> {
    let (sale, id) = (gate.sale(&args.id)?, reservation(&args.reservation)?);
    let decision = sale.confirm(id).await?;
    decided(&sale, decision, HoldState::Confirmed, args.wait, output).await
}

pub(super) async fn cancel(gate: &Rushgate, args: CancelArgs, output: Output) -> Result<Exit> {
    let (sale, id) = (gate.sale(&args.id)?, reservation(&args.reservation)?);
    let decision = sale.cancel(id).await?;
    decided(&sale, decision, HoldState::Cancelled, args.wait, output).await
}

async fn decided(
    sale: &Sale,
    decision: Decision,
    wanted: HoldState,
    wait: Duration,
    output: Output,
) -> Result<Exit> {
    let (outcome, hold) = match settled(sale, decision, wanted, wait).await? {
        Decision::Done(hold) => ("done", hold),
        Decision::Pending(hold) => ("pending", hold),
        Decision::Refused(hold) => ("refused", hold),
        Decision::Unknown => {
            output.line(&json!({ "outcome": "unknown" }), "no such reservation")?;
            return Ok(Exit::Refused);
        }
        Decision::Paused => {
            output.line(&json!({ "outcome": "paused" }), "the sale is halted; retry after it is rebuilt")?;
            return Ok(Exit::Refused);
        }
    };
    output.line(
        &with_outcome(outcome, &hold),
        format_args!("{outcome} {} {}", hold.id, state_word(hold.state)),
    )?;
    Ok(Exit::done_if(outcome != "refused"))
}

/// Waits for the ledger, if requested.
async fn settled(sale: &Sale, decision: Decision, wanted: HoldState, wait: Duration) -> Result<Decision> {
    let Decision::Pending(hold) = decision else { return Ok(decision) };
    if wait.is_zero() {
        return Ok(Decision::Pending(hold));
    }
    Ok(match sale.wait_final(hold.id, wait).await? {
        Some(hold) if hold.state == wanted => Decision::Done(hold),
        Some(hold) if hold.state.is_final() => Decision::Refused(hold),
        Some(hold) => Decision::Pending(hold),
        None => Decision::Unknown,
    })
}
