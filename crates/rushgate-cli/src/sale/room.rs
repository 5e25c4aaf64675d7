//! Waiting rooms.

use std::time::Duration;

use anyhow::Result;
use rushgate::{Beacon, BuyerId, Draw, RoomOrder, RoomRules, RoomState, Rushgate, Spoken, Timestamp, Turn};
use serde_json::{Value, json};

use crate::args::room::{
    RoomCloseArgs, RoomCloseEntryArgs, RoomDrawArgs, RoomEnterArgs, RoomJoinArgs, RoomSetArgs, RoomShowArgs,
    RoomVerb,
};
use crate::exit::Exit;
use crate::output::{Output, counted, moment};

pub(super) async fn run(gate: &Rushgate, verb: RoomVerb, output: Output) -> Result<Exit> {
    match verb {
        RoomVerb::Set(args) => set(gate, args, output).await,
        RoomVerb::Show(args) => show(gate, args, output).await,
        RoomVerb::Join(args) => join(gate, args, output).await,
        RoomVerb::Enter(args) => enter(gate, args, output).await,
        RoomVerb::CloseEntry(args) => close_entry(gate, args, output).await,
        RoomVerb::Draw(args) => draw(gate, args, output).await,
        RoomVerb::Close(args) => close(gate, args, output).await,
    }
}

async fn set(gate: &Rushgate, args: RoomSetArgs, output: Output) -> Result<Exit> {
    let room = gate.sale(&args.id)?.room();
    let said = RoomRules {
        from: args.from,
        order: if args.draw { RoomOrder::Draw } else { RoomOrder::FirstCome },
        ..RoomRules::new(args.rate)
    };
    let before = room.state().await?.map(|room| room.rules);
    let rules = RoomRules {
        pass: args.pass.or(before.map(|rules| rules.pass)).unwrap_or(said.pass),
        from: said.from.or(before.and_then(|rules| rules.from)),
        order: before.filter(|_| !args.draw).map_or(said.order, |rules| rules.order),
        ..said
    };
    let room = room.set(rules).await?;
    output.data(&shown(&args.id, &room), told(&room))?;
    Ok(Exit::Done)
}

async fn show(gate: &Rushgate, args: RoomShowArgs, output: Output) -> Result<Exit> {
    match gate.sale(&args.id)?.room().state().await? {
        Some(room) => output.data(&shown(&args.id, &room), told(&room))?,
        None => return no_room(&args.id, output),
    }
    Ok(Exit::Done)
}

fn no_room(sale: &str, output: Output) -> Result<Exit> {
    let text =
        format!("{sale} has no waiting room; open one with: rushgate sale room set {sale} --rate 100/1s");
    output.line(&json!({ "outcome": "no_room", "sale": sale }), text)?;
    Ok(Exit::Refused)
}

async fn join(gate: &Rushgate, args: RoomJoinArgs, output: Output) -> Result<Exit> {
    let ticket = gate.sale(&args.id)?.room().join(&BuyerId::new(&args.buyer)?).await?;
    let (mut json, text) = told_turn(&ticket.turn);
    json["sale"] = args.id.into();
    json["again"] = ticket.again.into();
    output.line(&json, text)?;
    Ok(Exit::done_if(!matches!(ticket.turn, Turn::Closed)))
}

async fn enter(gate: &Rushgate, args: RoomEnterArgs, output: Output) -> Result<Exit> {
    let turn = gate.sale(&args.id)?.room().enter_within(&BuyerId::new(&args.buyer)?, args.wait).await?;
    let (mut json, text) = told_turn(&turn);
    json["sale"] = args.id.into();
    output.line(&json, text)?;
    Ok(Exit::done_if(matches!(turn, Turn::Admitted { .. } | Turn::NoRoom)))
}

async fn close_entry(gate: &Rushgate, args: RoomCloseEntryArgs, output: Output) -> Result<Exit> {
    match gate.sale(&args.id)?.room().close_entry().await? {
        Some(room) => output.data(&shown(&args.id, &room), told(&room))?,
        None => return no_room(&args.id, output),
    }
    Ok(Exit::Done)
}

fn entry_open(sale: &str, room: &RoomState, output: Output) -> Result<Exit> {
    let text = format!(
        "not drawn: the entry is open, and {} have joined. Close it with: rushgate sale room close-entry {sale}; \
         publish the number of entrants, then draw with a beacon that becomes known only later",
        room.joined,
    );
    output.line(&json!({ "outcome": "entry_open", "sale": sale, "joined": room.joined }), text)?;
    Ok(Exit::Refused)
}

async fn draw(gate: &Rushgate, args: RoomDrawArgs, output: Output) -> Result<Exit> {
    let beacon: Beacon = args.beacon.parse()?;
    let room = match gate.sale(&args.id)?.room().draw(beacon.clone()).await? {
        Some(Draw::Drawn(room)) => room,
        Some(Draw::EntryOpen(room)) => return entry_open(&args.id, &room, output),
        None => return no_room(&args.id, output),
    };
    let by_this = room.drawn.as_ref().is_some_and(|drawn| drawn.beacon == beacon);
    let before = if by_this { "" } else { "already drawn with another beacon; nothing was changed\n" };
    output.data(&shown(&args.id, &room), format_args!("{before}{}", told(&room)))?;
    Ok(Exit::done_if(by_this))
}

async fn close(gate: &Rushgate, args: RoomCloseArgs, output: Output) -> Result<Exit> {
    let closed = gate.sale(&args.id)?.room().close().await?;
    let text = if closed { "closed; all buyers may reserve" } else { "the sale has no waiting room" };
    output.line(&json!({ "sale": args.id, "closed": closed }), text)?;
    Ok(Exit::done_if(closed))
}

/// A room as JSON. After the draw, this is the record that `sale draw verify` reads.
fn shown(sale: &str, room: &RoomState) -> Value {
    let micros = |at: Option<Timestamp>| at.map(Timestamp::as_micros);
    let mut json = json!({
        "sale": sale, "order": room.rules.order, "rate": room.rules.rate, "pass_ms": room.rules.pass.as_millis() as u64,
        "from_us": micros(room.rules.from), "opened_us": room.opened.as_micros(), "joined": room.joined,
        "served": room.served, "admitted": room.admitted, "commitment": room.commitment,
        "now_us": room.now.as_micros(),
    });
    if let Some(entry) = room.closed_entry {
        json["entrants"] = entry.entrants.into();
        json["entry_closed_us"] = entry.at.as_micros().into();
    }
    if let Some(drawn) = &room.drawn {
        json["entrants"] = drawn.entrants.into();
        json["secret"] = drawn.secret.to_hex().into();
        json["beacon"] = drawn.beacon.as_str().into();
    }
    json
}

fn told(room: &RoomState) -> String {
    let RoomRules { rate, pass, from, .. } = room.rules;
    let mut text = format!(
        "{} joined, {} served, {} admitted\n{} per {}, admission tokens last {}\n",
        room.joined,
        room.served,
        room.admitted,
        rate.n,
        Spoken(rate.per),
        Spoken(pass),
    );
    if let Some(from) = from.filter(|from| room.now < *from) {
        text.push_str(&format!("admission starts at {}\n", moment(from)));
    }
    if let Some(entry) = room.closed_entry {
        let late = room.joined.saturating_sub(entry.entrants);
        let behind = if late > 0 { format!("; {late} wait behind them") } else { String::new() };
        text.push_str(&format!(
            "entry closed at {}: {}{behind}\n",
            moment(entry.at),
            counted(entry.entrants, "entrant")
        ));
    }
    match (&room.drawn, room.commitment) {
        (Some(drawn), _) => text.push_str(&format!(
            "drawn among {} with beacon {}\nsecret {}\n",
            drawn.entrants,
            drawn.beacon.as_str(),
            drawn.secret.to_hex()
        )),
        (None, Some(commitment)) => text.push_str(&format!("not drawn yet; commitment {commitment}\n")),
        (None, None) => {}
    }
    text
}

/// State of a buyer, as JSON and in words.
fn told_turn(turn: &Turn) -> (Value, String) {
    match turn {
        Turn::NoRoom => (
            json!({ "outcome": "no_room" }),
            "the sale has no waiting room: all buyers may reserve".to_owned(),
        ),
        Turn::NotIn => (
            json!({ "outcome": "not_in" }),
            "not in the waiting room; join with: rushgate sale room join".to_owned(),
        ),
        Turn::Waiting { serial, place, ahead, at, now } => {
            let wait = at.map(|at| at.since(*now));
            let json = json!({
                "outcome": "waiting", "serial": serial, "place": place, "ahead": ahead,
                "wait_ms": wait.map(|wait| wait.as_millis() as u64),
            });
            (json, waiting(*serial, *ahead, wait))
        }
        Turn::Admitted { pass, until, .. } => {
            let json = json!({ "outcome": "admitted", "pass": pass, "until_us": until.as_micros() });
            (json, format!("admitted until {}\n{pass}", moment(*until)))
        }
        Turn::Missed { until } => {
            let json = json!({ "outcome": "missed", "until_us": until.as_micros() });
            (json, format!("the admission token expired at {}; join again", moment(*until)))
        }
        Turn::Closed => (json!({ "outcome": "closed" }), "the sale has ended or is sold out".to_owned()),
    }
}

fn waiting(serial: u64, ahead: Option<u64>, wait: Option<Duration>) -> String {
    match (ahead, wait) {
        (None, _) => format!("joined with serial {serial}; the draw decides the position"),
        (Some(ahead), None) => format!("{ahead} ahead, in the order of the draw"),
        (Some(ahead), Some(wait)) => {
            let wait = Duration::from_secs(wait.as_secs_f64().ceil() as u64);
            format!("{ahead} ahead, about {} to wait", Spoken(wait))
        }
    }
}
