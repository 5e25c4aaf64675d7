//! Waiting rooms.

use std::time::Duration;

use anyhow::Result;
use rushgate::sale::{Admission, Beacon, Draw, RoomOrder, RoomRules, RoomState};
use rushgate::store::HumanDuration;
use rushgate::wire::RoomReport;
use rushgate::{BuyerId, Rushgate, Sale};
use serde_json::json;

use crate::args::names::OfSale;
use crate::args::room::{RoomDrawArgs, RoomEnterArgs, RoomJoinArgs, RoomSetArgs, RoomVerb};
use crate::exit::Exit;
use crate::output::{Output, counted, moment, word};

pub(super) async fn run(client: &Rushgate, verb: RoomVerb, output: Output) -> Result<Exit> {
    match verb {
        RoomVerb::Set(args) => set(client, args, output).await,
        RoomVerb::Show(args) => show(client, args, output).await,
        RoomVerb::Join(args) => join(client, args, output).await,
        RoomVerb::Enter(args) => enter(client, args, output).await,
        RoomVerb::CloseEntry(args) => close_entry(client, args, output).await,
        RoomVerb::Draw(args) => draw(client, args, output).await,
        RoomVerb::Close(args) => close(client, args, output).await,
    }
}

async fn set(client: &Rushgate, args: RoomSetArgs, output: Output) -> Result<Exit> {
    let sale = client.sale(&args.id)?;
    let room = sale.room();
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
    tell(&sale, &room.set(rules).await?, output)
}

async fn show(client: &Rushgate, args: OfSale, output: Output) -> Result<Exit> {
    let sale = client.sale(&args.id)?;
    let Some(room) = sale.room().state().await? else { return no_room(&args.id, output) };
    tell(&sale, &room, output)
}

fn tell(sale: &Sale, room: &RoomState, output: Output) -> Result<Exit> {
    output.data(&RoomReport::new(sale.id(), room), told(room))
}

fn no_room(sale: &str, output: Output) -> Result<Exit> {
    let text =
        format!("{sale} has no waiting room; open one with: rushgate sale room set {sale} --rate 100/1s");
    output.line(&json!({ "outcome": "no_room", "sale": sale }), text)?;
    Ok(Exit::Refused)
}

async fn join(client: &Rushgate, args: RoomJoinArgs, output: Output) -> Result<Exit> {
    let ticket = client.sale(&args.id)?.room().join(&BuyerId::new(&args.buyer)?).await?;
    output.line(&ticket.admission, told_admission(&ticket.admission))?;
    Ok(Exit::done_if(!matches!(ticket.admission, Admission::Closed)))
}

async fn enter(client: &Rushgate, args: RoomEnterArgs, output: Output) -> Result<Exit> {
    let admission =
        client.sale(&args.id)?.room().enter_within(&BuyerId::new(&args.buyer)?, args.wait).await?;
    output.line(&admission, told_admission(&admission))?;
    Ok(Exit::done_if(matches!(admission, Admission::Admitted { .. } | Admission::NoRoom)))
}

async fn close_entry(client: &Rushgate, args: OfSale, output: Output) -> Result<Exit> {
    let sale = client.sale(&args.id)?;
    let Some(room) = sale.room().close_entry().await? else { return no_room(&args.id, output) };
    tell(&sale, &room, output)
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

async fn draw(client: &Rushgate, args: RoomDrawArgs, output: Output) -> Result<Exit> {
    let beacon: Beacon = args.beacon.parse()?;
    let sale = client.sale(&args.id)?;
    let room = match sale.room().draw(beacon.clone()).await? {
        Some(Draw::Drawn(room)) => room,
        Some(Draw::EntryOpen(room)) => return entry_open(&args.id, &room, output),
        None => return no_room(&args.id, output),
    };
    let by_this = room.drawn.as_ref().is_some_and(|drawn| drawn.beacon == beacon);
    let before = if by_this { "" } else { "already drawn with another beacon; nothing was changed\n" };
    output.data(&RoomReport::new(sale.id(), &room), format_args!("{before}{}", told(&room)))?;
    Ok(Exit::done_if(by_this))
}

async fn close(client: &Rushgate, args: OfSale, output: Output) -> Result<Exit> {
    let closed = client.sale(&args.id)?.room().close().await?;
    let text = if closed { "closed; all buyers may reserve" } else { "the sale has no waiting room" };
    output.line(&json!({ "sale": args.id, "closed": closed }), text)?;
    Ok(Exit::done_if(closed))
}

fn told(room: &RoomState) -> String {
    let RoomRules { rate, pass, from, .. } = room.rules;
    let mut text = format!(
        "{} joined, {} served, {} admitted\n{} per {}, admission tokens last {}\n",
        room.joined,
        room.served,
        room.admitted,
        rate.n,
        HumanDuration(rate.per),
        HumanDuration(pass),
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

/// State of a buyer in words.
fn told_admission(admission: &Admission) -> String {
    match admission {
        Admission::NoRoom => "the sale has no waiting room: all buyers may reserve".to_owned(),
        Admission::NotIn => "not in the waiting room; join with: rushgate sale room join".to_owned(),
        Admission::Waiting { serial, ahead, .. } => waiting(*serial, *ahead, admission.wait()),
        Admission::Admitted { pass, until, .. } => format!("admitted until {}\n{pass}", moment(*until)),
        Admission::Missed { until } => {
            format!("the admission token expired at {}; join again", moment(*until))
        }
        Admission::Closed => "the sale has ended or is sold out".to_owned(),
        other => word(other),
    }
}

fn waiting(serial: u64, ahead: Option<u64>, wait: Option<Duration>) -> String {
    match (ahead, wait) {
        (None, _) => format!("joined with serial {serial}; the draw decides the position"),
        (Some(ahead), None) => format!("{ahead} ahead, in the order of the draw"),
        (Some(ahead), Some(wait)) => {
            let wait = Duration::from_secs(wait.as_secs_f64().ceil() as u64);
            format!("{ahead} ahead, about {} to wait", HumanDuration(wait))
        }
    }
}
