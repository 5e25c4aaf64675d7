//! Reads of sales.

use anyhow::Result;
use rushgate::Rushgate;
use rushgate::sale::{DamagedSale, Event, ListedSale, OrdersState, SaleState, SaleStatus, SkuState};
use rushgate::store::{HumanDuration, Page};

use crate::args::names::OfSale;
use crate::args::sale::{EventsArgs, LsArgs};
use crate::exit::Exit;
use crate::output::{Output, Table, counted, moment, word};
use crate::queue::rounded;

pub(super) async fn show(client: &Rushgate, args: OfSale, output: Output) -> Result<Exit> {
    let state = client.sale(&args.id)?.state().await?;
    output.data(&state, text(&state))
}

fn text(state: &SaleState) -> String {
    let spec = &state.spec;
    let moments = [
        ("opens at", spec.opens_at),
        ("closes at", spec.closes_at.filter(|at| *at > state.now)),
        ("closed at", spec.closes_at.filter(|at| *at <= state.now)),
        ("next hold expires at", state.next_expiry),
        ("only receipts are accepted until", state.receipts_until),
        ("HALTED until it is rebuilt, since", state.halted.map(|halt| halt.since)),
    ];
    let moments = moments.iter().filter_map(|(words, at)| Some(format!(", {words} {}", moment((*at)?))));
    let orders = if spec.ledger { "orders go to a ledger" } else { "no ledger" };
    format!(
        "{} is {}{}\nholds last {}; {orders}; generation {}, {}\n{}{}",
        spec.id,
        // The moments say that it is halted.
        if state.halted.is_some() { word(&state.status) } else { standing(state) },
        moments.collect::<String>(),
        HumanDuration(spec.hold.get()),
        state.generation,
        counted(state.seq, "event"),
        state.orders.map(|orders| delivery(state, orders)).unwrap_or_default(),
        stock(&state.skus),
    )
}

/// How far the ledger has followed the sale.
fn delivery(state: &SaleState, orders: OrdersState) -> String {
    let behind = orders.behind_since.map(|since| {
        let lag = rounded(state.now.since(since));
        format!(", {} behind ({lag})", counted(state.seq.saturating_sub(orders.through), "event"))
    });
    let behind = behind.unwrap_or_default();
    let worker = match orders.worker_until {
        Some(until) if until > state.now => "",
        _ => "; no order worker runs",
    };
    let failed = match orders.failed {
        0 => String::new(),
        n => format!("; {}, see `sale orders ls`", counted(n.into(), "failed order")),
    };
    format!("ledger is at event {}{behind}{worker}{failed}\n", orders.through)
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

pub(super) async fn ls(client: &Rushgate, args: LsArgs, output: Output) -> Result<Exit> {
    let (is_first, page) = (args.after.is_empty(), Page::after(args.after, args.n));
    let sales = client.sales(page).await?;
    if sales.is_empty() {
        output.remark(if is_first { "no sales" } else { "no more sales" });
    }
    let row = |sale: &ListedSale| match sale {
        ListedSale::Sound(state) => {
            let [total, free, held, confirmed] = units(state);
            let skus = state.skus.len().to_string();
            [state.spec.id.to_string(), standing(state), skus, total, free, held, confirmed]
        }
        ListedSale::Damaged(sale) => {
            [sale.id.as_str(), "damaged", "-", "-", "-", "-", "-"].map(str::to_owned)
        }
    };
    let head = ["SALE", "STATUS", "SKUS", "UNITS", "FREE", "HELD", "CONFIRMED"];
    output.data(&sales, Table::new(head, sales.iter().map(row)))?;
    for sale in &sales {
        if let ListedSale::Damaged(DamagedSale { id, damage }) = sale {
            output.note(format_args!("sale `{id}` is damaged: {damage}"));
        }
    }
    Ok(Exit::Done)
}

/// Units of all SKUs: total, free, held and confirmed.
pub(crate) fn units(state: &SaleState) -> [String; 4] {
    let counts: [fn(&SkuState) -> u32; 4] =
        [|sku| sku.total, |sku| sku.free, |sku| sku.held, |sku| sku.confirmed];
    counts.map(|of| state.skus.iter().map(|sku| u64::from(of(sku))).sum::<u64>().to_string())
}

/// The status in a word, also of an open sale in which nobody can buy now.
pub(crate) fn standing(state: &SaleState) -> String {
    match state.status {
        _ if state.halted.is_some() => "halted".to_owned(),
        SaleStatus::Open if state.spec.opens_at.is_some_and(|opens| opens > state.now) => {
            "scheduled".to_owned()
        }
        SaleStatus::Open if state.spec.closes_at.is_some_and(|closes| closes <= state.now) => {
            "closed".to_owned()
        }
        status => word(&status),
    }
}

pub(super) async fn events(client: &Rushgate, args: EventsArgs, output: Output) -> Result<Exit> {
    let events = client.sale(&args.id)?.events(Page::after(args.after, args.n)).await?;
    output.more(events.last().filter(|_| events.len() == args.n as usize).map(|last| last.seq));
    let row = |event: &Event| {
        let units: Vec<_> = event.units.iter().map(|(sku, range)| format!("{sku}#{range}")).collect();
        [
            event.seq.to_string(),
            moment(event.at),
            word(&event.kind),
            event.reservation.map_or("-".to_owned(), |id| id.to_string()),
            units.join(" "),
        ]
    };
    output.data(&events, Table::new(["SEQ", "AT", "KIND", "RESERVATION", "UNITS"], events.iter().map(row)))
}
