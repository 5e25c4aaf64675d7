//! Reserves units, and decides on reservations.

use std::time::Duration;

use anyhow::Result;
use rushgate::sale::{Decision, Hold, HoldState, UnitChoice};
use rushgate::{BuyerId, IdempotencyKey, Line, Reserved, Rushgate, Sale, Sku, Timestamp};
use serde_json::json;

use super::make::{reservation, sweep};
use crate::args::sale::{DecideArgs, ReserveArgs};
use crate::exit::Exit;
use crate::output::{Output, moment, word};

pub(super) async fn reserve(client: &Rushgate, args: ReserveArgs, output: Output) -> Result<Exit> {
    let (buyer, key) = (BuyerId::new(&args.buyer)?, IdempotencyKey::new(&args.key)?);
    let line =
        |line: &crate::args::sale::LineArg| Ok(Line { sku: Sku::new(&line.sku)?, quantity: line.quantity });
    let lines: Vec<_> = args.lines.iter().map(line).collect::<rushgate::Result<_>>()?;
    let choice = if args.same_number { UnitChoice::SameNumber } else { UnitChoice::Any };
    let sale = client.sale(&args.id)?;
    let answer = as_it_stands(&sale, sale.reserve_units(&buyer, &lines, choice, &key).await?).await?;
    let (mut json, mut text) = (json!(answer), told(&answer, &lines));
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

fn told(answer: &Reserved, lines: &[Line]) -> String {
    match answer {
        Reserved::Reserved(hold) | Reserved::Replayed(hold) => held(&word(answer), hold),
        Reserved::KeyReused => "this key was used for another cart; nothing was changed".to_owned(),
        Reserved::SoldOut { sku, free } => format!("sold out: {free} of {sku} free, none on hold"),
        Reserved::AllHeld { sku, free, next_expiry } => format!(
            "all on hold: {free} of {sku} free; retry later{}",
            from("; next hold expires at", *next_expiry)
        ),
        Reserved::LimitReached { sku, limit, has } => format!(
            "purchase limit exceeded: {} of {sku} requested, {has} owned, limit {limit} per buyer",
            requested(lines, sku)
        ),
        Reserved::NotOpen { opens_at } => format!("not open yet{}", from("; opens at", *opens_at)),
        Reserved::Ended => "the sale has ended".to_owned(),
        Reserved::Halted { retry_at } => {
            let at = moment(*retry_at);
            format!("the sale is halted, or accepts only receipts for now; retry after {at}")
        }
        other => word(other),
    }
}

/// Quantity of a SKU in the request.
fn requested(lines: &[Line], sku: &Sku) -> u32 {
    lines.iter().filter(|line| line.sku == *sku).map(|line| line.quantity).sum()
}

pub(super) fn held(outcome: &str, hold: &Hold) -> String {
    format!("{outcome} {} {}{}", hold.id, list(hold), until(hold))
}

fn list(hold: &Hold) -> String {
    let units: Vec<_> = hold.units.iter().map(|(sku, unit)| format!("{sku}#{unit}")).collect();
    units.join(" ")
}

fn until(hold: &Hold) -> String {
    match hold.state {
        HoldState::Held => format!(" until {}", moment(hold.deadline)),
        state => format!(" {}", word(&state)),
    }
}

fn from(words: &str, at: Option<Timestamp>) -> String {
    at.map_or(String::new(), |at| format!("{words} {}", moment(at)))
}

pub(super) async fn confirm(client: &Rushgate, args: DecideArgs, output: Output) -> Result<Exit> {
    let (sale, id) = (client.sale(&args.id)?, reservation(&args.reservation)?);
    let decision = sale.confirm(id).await?;
    decided(&sale, decision, HoldState::Confirmed, args.wait, output).await
}

pub(super) async fn cancel(client: &Rushgate, args: DecideArgs, output: Output) -> Result<Exit> {
    let (sale, id) = (client.sale(&args.id)?, reservation(&args.reservation)?);
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
    let decision = settled(sale, decision, wanted, wait).await?;
    let text = match &decision {
        Decision::Done(hold) | Decision::Pending(hold) | Decision::Refused(hold) => {
            format!("{} {} {}", word(&decision), hold.id, word(&hold.state))
        }
        Decision::Unknown => "no such reservation".to_owned(),
        Decision::Halted => "the sale is halted; retry after it is rebuilt".to_owned(),
        other => word(other),
    };
    output.line(&decision, text)?;
    Ok(Exit::done_if(matches!(decision, Decision::Done(_) | Decision::Pending(_))))
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
