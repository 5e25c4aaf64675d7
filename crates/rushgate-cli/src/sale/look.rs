//! Reads of sales.

use anyhow::Result;
use rushgate::{
    Event, EventKind, Page, Rushgate, SaleState, SaleStatus, Sku, SkuState, Spoken, Timestamp, UnitNumber,
    UnitRange,
};
use serde::Serialize;

use super::make::word;
use crate::args::sale::{EventsArgs, LsArgs, ShowArgs};
use crate::exit::Exit;
use crate::output::{Output, Table, moment};

/// A sale as JSON.
#[derive(Serialize)]
struct SaleView<'a> {
    sale: &'a str,
    status: SaleStatus,
    generation: u32,
    seq: u64,
    hold_us: u64,
    opens_at_us: Option<u64>,
    closes_at_us: Option<u64>,
    orders_queue: Option<&'a str>,
    next_give_back_us: Option<u64>,
    paused: Option<rushgate::Pause>,
    receipts_until_us: Option<u64>,
    now_us: u64,
    skus: &'a [SkuState],
}

impl<'a> From<&'a SaleState> for SaleView<'a> {
    fn from(state: &'a SaleState) -> Self {
        let micros = |at: Option<Timestamp>| at.map(Timestamp::as_micros);
        Self {
            sale: state.spec.id.as_str(),
            status: state.status,
            generation: state.generation,
            seq: state.seq,
            hold_us: state.spec.hold.as_micros(),
            opens_at_us: micros(state.spec.opens_at),
            closes_at_us: micros(state.spec.closes_at),
            orders_queue: state.spec.orders.as_ref().map(|queue| queue.as_str()),
            next_give_back_us: micros(state.next_give_back),
            paused: state.paused,
            receipts_until_us: micros(state.receipts_until),
            now_us: state.now.as_micros(),
            skus: &state.skus,
        }
    }
}

/// A unit as JSON.
#[derive(Serialize)]
pub(super) struct UnitView<'a> {
    sku: &'a str,
    number: UnitNumber,
}

pub(super) fn units(units: &[(Sku, UnitNumber)]) -> Vec<UnitView<'_>> {
    units.iter().map(|(sku, number)| UnitView { sku: sku.as_str(), number: *number }).collect()
}

/// A range of consecutive units as JSON, because an event may concern millions.
#[derive(Serialize)]
struct RangeView<'a> {
    sku: &'a str,
    first: UnitNumber,
    last: UnitNumber,
}

impl<'a> From<&'a (Sku, UnitRange)> for RangeView<'a> {
    fn from((sku, range): &'a (Sku, UnitRange)) -> Self {
        Self { sku: sku.as_str(), first: range.first(), last: range.last() }
    }
}

/// An event as JSON.
#[derive(Serialize)]
struct EventView<'a> {
    seq: u64,
    at_us: u64,
    kind: EventKind,
    reservation: Option<String>,
    units: Vec<RangeView<'a>>,
}

impl<'a> From<&'a Event> for EventView<'a> {
    fn from(event: &'a Event) -> Self {
        Self {
            seq: event.seq,
            at_us: event.at.as_micros(),
            kind: event.kind,
            reservation: event.reservation.map(|id| id.to_string()),
            units: event.units.iter().map(RangeView::from).collect(),
        }
    }
}

pub(super) async fn show(gate: &Rushgate, args: ShowArgs, output: Output) -> Result<Exit> {
    let state = gate.sale(&args.id)?.state().await?;
    output.data(&SaleView::from(&state), text(&state))?;
    Ok(Exit::Done)
}

fn text(state: &SaleState) -> String {
    let spec = &state.spec;
    let moments = [
        ("opens at", spec.opens_at),
        ("closes at", spec.closes_at),
        ("next hold expires at", state.next_give_back),
        ("only receipts are accepted until", state.receipts_until),
        ("HALTED until it is rebuilt, since", state.paused.map(|pause| pause.since)),
    ];
    let moments = moments.iter().filter_map(|(words, at)| Some(format!(", {words} {}", moment((*at)?))));
    let orders = match &spec.orders {
        Some(queue) => format!("orders go to a ledger through queue {queue}"),
        None => "no ledger".to_owned(),
    };
    format!(
        "{} is {}{}\nholds last {}; {orders}; generation {}, {} events\n{}",
        spec.id,
        word(state.status),
        moments.collect::<String>(),
        Spoken(spec.hold.get()),
        state.generation,
        state.seq,
        stock(&state.skus),
    )
}

/// The stock of each SKU.
pub(super) fn stock(skus: &[SkuState]) -> Table<7> {
    let row = |sku: &SkuState| {
        let [total, free, held, confirmed, withdrawn, per_buyer] =
            [sku.total, sku.free, sku.held, sku.confirmed, sku.withdrawn, sku.per_buyer]
                .map(|n| n.to_string());
        [sku.sku.to_string(), total, free, held, confirmed, withdrawn, per_buyer]
    };
    let head = ["SKU", "TOTAL", "FREE", "HELD", "CONFIRMED", "WITHDRAWN", "PER BUYER"];
    Table::new(head, skus.iter().map(row))
}

pub(super) async fn ls(gate: &Rushgate, args: LsArgs, output: Output) -> Result<Exit> {
    let sales = gate.sales(Page { after: args.after, limit: args.n }).await?;
    let views: Vec<_> = sales.iter().map(SaleView::from).collect();
    let row = |state: &SaleState| {
        let sum = |of: fn(&SkuState) -> u32| {
            state.skus.iter().map(|sku| u64::from(of(sku))).sum::<u64>().to_string()
        };
        [
            state.spec.id.to_string(),
            word(state.status).to_owned(),
            state.skus.len().to_string(),
            sum(|sku| sku.total),
            sum(|sku| sku.free),
            sum(|sku| sku.held),
            sum(|sku| sku.confirmed),
        ]
    };
    let head = ["SALE", "STATUS", "SKUS", "UNITS", "FREE", "HELD", "CONFIRMED"];
    output.data(&views, Table::new(head, sales.iter().map(row)))?;
    Ok(Exit::Done)
}

pub(super) async fn events(gate: &Rushgate, args: EventsArgs, output: Output) -> Result<Exit> {
    let events = gate.sale(&args.id)?.events(args.after, args.n).await?;
    if let Some(last) = events.last().filter(|_| events.len() == args.n as usize) {
        output.note(format_args!("there may be more; continue with --after {}", last.seq));
    }
    let views: Vec<_> = events.iter().map(EventView::from).collect();
    let row = |event: &Event| {
        let units: Vec<_> = event.units.iter().map(|(sku, range)| format!("{sku}#{range}")).collect();
        [
            event.seq.to_string(),
            moment(event.at),
            kind(event.kind),
            event.reservation.map_or("-".to_owned(), |id| id.to_string()),
            units.join(" "),
        ]
    };
    output.data(&views, Table::new(["SEQ", "AT", "KIND", "RESERVATION", "UNITS"], events.iter().map(row)))?;
    Ok(Exit::Done)
}

/// Kind of an event, with the same word as in JSON.
fn kind(kind: EventKind) -> String {
    serde_json::to_value(kind).ok().and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default()
}
