//! Contract of sales.

mod attempts;
mod stock;

use std::collections::BTreeSet;
use std::time::Duration;

use rushgate_core::{
    Created, Decision, EventKind, Hold, HoldState, HoldTime, LedgerEntry, Line, MAX_LINES, MAX_UNITS,
    MAX_UNITS_PER_LINE, OrderIntent, Page, Reserve, Reserved, SaleId, SaleSpec, SaleStatus, Settled,
    SkuState, StockChange, StockChanged, UnitChoice, UnitRange, Verbs, Verdict,
};

use crate::desk::*;
pub(super) use attempts::*;
pub(super) use stock::*;

fn id() -> SaleId {
    sale_id("s")
}

async fn buy_one(desk: &Desk, buyer: &str) -> Hold {
    reserved(desk.buy(buyer, vec![line("a", 1)]).await)
}

async fn confirm(desk: &Desk, hold: &Hold) -> Decision {
    desk.store.confirm(&id(), hold.id).await.unwrap()
}

async fn cancel(desk: &Desk, hold: &Hold) -> Decision {
    desk.store.cancel_hold(&id(), hold.id).await.unwrap()
}

async fn settle(desk: &Desk, hold: &Hold, verdict: Verdict) -> Settled {
    desk.store.settle(&id(), 1, vec![(hold.id, verdict)]).await.unwrap()[0]
}

async fn stock(desk: &Desk, change: StockChange) -> StockChanged {
    desk.store.stock(desk.op(), &id(), &sku("a"), change).await.unwrap()
}

async fn state(desk: &Desk, hold: &Hold) -> HoldState {
    desk.store.reservation(&id(), hold.id).await.unwrap().expect("it was made").state
}

async fn kinds(desk: &Desk) -> Vec<EventKind> {
    let events = desk.store.events(&id(), Page::first(10_000)).await.unwrap();
    events.into_iter().map(|event| event.kind).collect()
}

fn intent(order: &LedgerEntry) -> Option<OrderIntent> {
    match order {
        LedgerEntry::Reservation { intent, .. } => Some(*intent),
        LedgerEntry::Stock { .. } => None,
    }
}

// ── the sale itself ──────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn a_sale_is_made_once_and_the_same_call_is_answered_the_same(desk: Desk) {
    let metadata = r#"{ "skus": { "a": { "title": "caf\u00e9" } } }"#.to_owned();
    let spec = SaleSpec { metadata, ..desk.spec(&[("a", 3, 1), ("b", 2, 2)], false) };
    assert_eq!(desk.store.create(spec.clone()).await.unwrap(), Created::Created);
    assert_eq!(desk.store.create(spec.clone()).await.unwrap(), Created::Created);
    let other = desk.spec(&[("a", 4, 1)], false);
    assert_eq!(desk.store.create(other).await.unwrap(), Created::Exists);
    let other = SaleSpec { metadata: "{}".to_owned(), ..spec.clone() };
    assert_eq!(desk.store.create(other).await.unwrap(), Created::Exists);
    for metadata in ["[]", "{", &format!("{{\"a\":\"{}\"}}", "x".repeat(SaleSpec::METADATA_MAX))] {
        refused(desk.store.create(SaleSpec { metadata: metadata.to_owned(), ..spec.clone() }).await);
    }
    let state = desk.store.sale(&id()).await.unwrap();
    assert_eq!((state.spec, state.status, state.generation, state.seq), (spec, SaleStatus::Created, 1, 0));
    assert_eq!(desk.places("a").await, (3, 0, 0, 0));
    desk.audited().await;
}

pub(super) async fn a_sale_opens_and_ends_once(desk: Desk) {
    desk.store.create(desk.spec(&[("a", 3, 1)], false)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(desk.store.open(&id()).await.unwrap(), SaleStatus::Open);
    }
    for _ in 0..2 {
        assert_eq!(desk.store.end(&id()).await.unwrap(), SaleStatus::Ended);
    }
    assert_eq!(desk.store.open(&id()).await.unwrap(), SaleStatus::Ended);
    assert_eq!(kinds(&desk).await, [EventKind::Opened, EventKind::Ended]);
}

pub(super) async fn a_sale_that_is_not_open_sells_nothing(desk: Desk) {
    desk.store.create(desk.spec(&[("a", 3, 1)], false)).await.unwrap();
    let lines = || vec![line("a", 1)];
    assert_eq!(desk.buy("ann", lines()).await, Reserved::NotOpen { opens_at: None });
    desk.store.open(&id()).await.unwrap();
    let hold = buy_one(&desk, "ann").await;
    desk.store.end(&id()).await.unwrap();
    assert_eq!(desk.buy("bob", lines()).await, Reserved::Ended);
    assert!(matches!(confirm(&desk, &hold).await, Decision::Done(_)), "holds can still be confirmed");
    desk.audited().await;
}

pub(super) async fn a_sale_keeps_its_hours(desk: Desk) {
    desk.sell(&[("a", 3, 1)]).await;
    let now = desk.now().await;
    let mut spec = desk.spec(&[("a", 3, 3)], false);
    spec.id = sale_id("hours");
    (spec.opens_at, spec.closes_at) = (Some(now + s(20)), Some(now + s(60)));
    desk.start(spec).await;
    let ask = |key: &str| Reserve { sale: sale_id("hours"), ..desk.wish("ann", key, vec![line("a", 1)]) };
    let answer = desk.store.reserve(ask("1")).await.unwrap();
    assert_eq!(answer, Reserved::NotOpen { opens_at: Some(now + s(20)) });
    desk.advance(s(21)).await;
    reserved(desk.store.reserve(ask("2")).await.unwrap());
    desk.advance(s(40)).await;
    assert_eq!(desk.store.reserve(ask("3")).await.unwrap(), Reserved::Ended);
}

pub(super) async fn sales_are_listed_by_id_in_pages(desk: Desk) {
    for name in ["z", "x", "y"] {
        let spec = SaleSpec { id: sale_id(name), ..desk.spec(&[("a", 1, 1)], false) };
        desk.store.create(spec).await.unwrap();
    }
    let ids = |page: Page| async {
        let sales = desk.store.sales(page).await.unwrap();
        sales.iter().map(|sale| sale.id().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(Page::default()).await, ["x", "y", "z"]);
    assert_eq!(ids(Page::after("x".into(), 1)).await, ["y"]);
}

pub(super) async fn an_unknown_sale_sku_or_reservation_is_said_to_be_unknown(desk: Desk) {
    let nobody = sale_id("nobody");
    let wish = desk.wish("ann", "k", vec![line("a", 1)]);
    unknown(desk.store.open(&nobody).await);
    unknown(desk.store.end(&nobody).await);
    unknown(desk.store.sale(&nobody).await);
    unknown(desk.store.books(&nobody).await);
    unknown(desk.store.events(&nobody, Page::first(1)).await);
    unknown(desk.store.expire(&nobody, 1).await);
    unknown(desk.store.reserve(wish.clone()).await);
    unknown(desk.store.confirm(&nobody, wish.id).await);
    unknown(desk.store.cancel_hold(&nobody, wish.id).await);
    unknown(desk.store.reservation(&nobody, wish.id).await);
    unknown(desk.store.settle(&nobody, 1, vec![(wish.id, Verdict::Confirmed)]).await);
    unknown(desk.store.stock(desk.op(), &nobody, &sku("a"), StockChange::Add(1)).await);
    desk.sell(&[("a", 3, 1)]).await;
    let strange = desk.wish("ann", "k", vec![line("a", 1), line("b", 1)]);
    unknown(desk.store.reserve(strange).await);
    unknown(desk.store.stock(desk.op(), &id(), &sku("b"), StockChange::Add(1)).await);
    assert_eq!(desk.store.confirm(&id(), wish.id).await.unwrap(), Decision::Unknown);
    assert_eq!(desk.store.cancel_hold(&id(), wish.id).await.unwrap(), Decision::Unknown);
    assert_eq!(desk.store.reservation(&id(), wish.id).await.unwrap(), None);
    let settled = desk.store.settle(&id(), 1, vec![(wish.id, Verdict::Confirmed)]).await.unwrap();
    assert_eq!(settled, [Settled::Unknown]);
    assert_eq!(desk.places("a").await, (3, 0, 0, 0));
}

// ── reserve ──────────────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn units_are_numbered_and_given_lowest_first(desk: Desk) {
    desk.sell(&[("a", 10, 4)]).await;
    let hold = reserved(desk.buy("ann", vec![line("a", 3)]).await);
    assert_eq!(numbers(&hold), [1, 2, 3]);
    assert_eq!((hold.state, hold.seq, hold.generation), (HoldState::Held, 2, 1));
    near(hold.deadline.since(desk.now().await), s(10));
    assert_eq!(numbers(&buy_one(&desk, "bob").await), [4]);
    assert_eq!(desk.places("a").await, (6, 4, 0, 0));
    assert_eq!(desk.store.reservation(&id(), hold.id).await.unwrap(), Some(hold));
    desk.audited().await;
}

pub(super) async fn a_cart_is_filled_in_the_order_of_its_lines(desk: Desk) {
    desk.sell(&[("a", 5, 5), ("b", 5, 5)]).await;
    let hold = reserved(desk.buy("ann", vec![line("b", 2), line("a", 1)]).await);
    assert_eq!(hold.units, [(sku("b"), 1), (sku("b"), 2), (sku("a"), 1)]);
    desk.audited().await;
}

pub(super) async fn a_cart_is_all_or_nothing(desk: Desk) {
    desk.sell(&[("a", 5, 5), ("b", 2, 5)]).await;
    let answer = desk.buy("ann", vec![line("a", 2), line("b", 3)]).await;
    assert_eq!(answer, Reserved::SoldOut { sku: sku("b"), free: 2 });
    assert_eq!((desk.places("a").await, desk.places("b").await), ((5, 0, 0, 0), (2, 0, 0, 0)));
    assert_eq!(kinds(&desk).await, [EventKind::Opened]);
    desk.audited().await;
}

pub(super) async fn nobody_gets_more_than_the_limit(desk: Desk) {
    desk.sell(&[("a", 10, 2)]).await;
    let over = |has| Reserved::LimitReached { sku: sku("a"), limit: 2, has };
    assert_eq!(desk.buy("ann", vec![line("a", 3)]).await, over(0));
    let hold = buy_one(&desk, "ann").await;
    assert_eq!(desk.buy("ann", vec![line("a", 2)]).await, over(1));
    confirm(&desk, &hold).await;
    let second = buy_one(&desk, "ann").await;
    assert_eq!(desk.buy("ann", vec![line("a", 1)]).await, over(2));
    cancel(&desk, &second).await;
    buy_one(&desk, "ann").await;
    buy_one(&desk, "bob").await;
    desk.audited().await;
}

pub(super) async fn the_limit_comes_before_the_stock(desk: Desk) {
    desk.sell(&[("a", 1, 1)]).await;
    let hold = buy_one(&desk, "ann").await;
    confirm(&desk, &hold).await;
    let answer = desk.buy("ann", vec![line("a", 1)]).await;
    assert_eq!(answer, Reserved::LimitReached { sku: sku("a"), limit: 1, has: 1 });
}

pub(super) async fn the_same_key_gives_the_same_reservation(desk: Desk) {
    desk.sell(&[("a", 10, 5)]).await;
    let wish = desk.wish("ann", "k", vec![line("a", 2)]);
    let hold = reserved(desk.store.reserve(wish.clone()).await.unwrap());
    for _ in 0..2 {
        assert_eq!(desk.store.reserve(wish.clone()).await.unwrap(), Reserved::Replayed(hold.clone()));
    }
    assert_eq!(desk.places("a").await, (8, 2, 0, 0));
    confirm(&desk, &hold).await;
    let sold = Hold { state: HoldState::Confirmed, ..hold };
    desk.store.end(&id()).await.unwrap();
    assert_eq!(desk.store.reserve(wish).await.unwrap(), Reserved::Replayed(sold), "even when it is over");
    desk.audited().await;
}

pub(super) async fn a_key_with_other_lines_is_refused(desk: Desk) {
    desk.sell(&[("a", 10, 5), ("b", 10, 5)]).await;
    let wish = desk.wish("ann", "k", vec![line("a", 1)]);
    reserved(desk.store.reserve(wish.clone()).await.unwrap());
    let changed = [
        Reserve { lines: vec![line("a", 2)], ..wish.clone() },
        Reserve { lines: vec![line("b", 1)], ..wish.clone() },
        Reserve { choice: UnitChoice::SameNumber, ..wish.clone() },
    ];
    for other in changed {
        assert_eq!(desk.store.reserve(other).await.unwrap(), Reserved::KeyReused);
    }
    assert_eq!((desk.places("a").await, desk.places("b").await), ((9, 1, 0, 0), (10, 0, 0, 0)));
}

pub(super) async fn held_units_may_come_back_and_sold_ones_do_not(desk: Desk) {
    desk.sell(&[("a", 2, 1)]).await;
    let (first, second) = (buy_one(&desk, "ann").await, buy_one(&desk, "bob").await);
    let lines = || vec![line("a", 1)];
    let all_held = |next| Reserved::AllHeld { sku: sku("a"), free: 0, next_expiry: next };
    assert_eq!(desk.buy("cid", lines()).await, all_held(Some(first.deadline)));
    assert_eq!(desk.store.sale(&id()).await.unwrap().next_expiry, Some(first.deadline));
    confirm(&desk, &first).await;
    assert_eq!(desk.buy("cid", lines()).await, all_held(Some(second.deadline)));
    confirm(&desk, &second).await;
    assert_eq!(desk.buy("cid", lines()).await, Reserved::SoldOut { sku: sku("a"), free: 0 });
    desk.audited().await;
}

pub(super) async fn the_last_units_are_not_split(desk: Desk) {
    desk.sell(&[("a", 3, 3)]).await;
    let hold = reserved(desk.buy("ann", vec![line("a", 2)]).await);
    let answer = desk.buy("bob", vec![line("a", 2)]).await;
    let next_expiry = Some(hold.deadline);
    assert_eq!(answer, Reserved::AllHeld { sku: sku("a"), free: 1, next_expiry });
    assert_eq!(numbers(&buy_one(&desk, "bob").await), [3]);
}

pub(super) async fn returned_numbers_are_sold_again_lowest_first(desk: Desk) {
    desk.sell(&[("a", 6, 2)]).await;
    let mut holds = Vec::new();
    for buyer in ["ann", "bob", "cid", "dan"] {
        holds.push(buy_one(&desk, buyer).await);
    }
    assert!(matches!(cancel(&desk, &holds[2]).await, Decision::Done(_)));
    assert!(matches!(cancel(&desk, &holds[0]).await, Decision::Done(_)));
    assert_eq!(desk.places("a").await, (4, 2, 0, 0));
    let hold = reserved(desk.buy("eve", vec![line("a", 2)]).await);
    assert_eq!(numbers(&hold), [1, 3]);
    assert_eq!(numbers(&buy_one(&desk, "fay").await), [5]);
    desk.audited().await;
}

pub(super) async fn a_short_line_ends_overdue_holds_on_its_way(desk: Desk) {
    desk.sell(&[("a", 2, 1)]).await;
    let (first, second) = (buy_one(&desk, "ann").await, buy_one(&desk, "bob").await);
    confirm(&desk, &second).await;
    desk.advance(s(11)).await;
    assert_eq!(state(&desk, &first).await, HoldState::Held, "it has not been ended yet");
    assert_eq!(numbers(&buy_one(&desk, "cid").await), [1]);
    assert_eq!(state(&desk, &first).await, HoldState::Expired);
    desk.audited().await;
}

pub(super) async fn enough_stock_leaves_overdue_holds_alone(desk: Desk) {
    desk.sell(&[("a", 2, 1)]).await;
    let first = buy_one(&desk, "ann").await;
    desk.advance(s(11)).await;
    assert_eq!(numbers(&buy_one(&desk, "bob").await), [2]);
    assert_eq!(state(&desk, &first).await, HoldState::Held);
}

pub(super) async fn one_seat_is_found_for_several_segments(desk: Desk) {
    desk.sell(&[("a", 4, 4), ("b", 4, 4), ("c", 4, 4)]).await;
    reserved(desk.buy("ann", vec![line("a", 1)]).await);
    reserved(desk.buy("bob", vec![line("b", 2)]).await);
    let seat = |buyer: &str, key: &str| Reserve {
        choice: UnitChoice::SameNumber,
        ..desk.wish(buyer, key, vec![line("a", 1), line("b", 1), line("c", 1)])
    };
    let hold = reserved(desk.store.reserve(seat("cid", "1")).await.unwrap());
    assert_eq!(hold.units, [(sku("a"), 3), (sku("b"), 3), (sku("c"), 3)]);
    let hold = reserved(desk.store.reserve(seat("dan", "2")).await.unwrap());
    assert_eq!(numbers(&hold), [4, 4, 4]);
    let answer = desk.store.reserve(seat("eve", "3")).await.unwrap();
    assert!(matches!(answer, Reserved::AllHeld { ref sku, .. } if sku.as_str() == "b"), "{answer:?}");
    assert_eq!(numbers(&buy_one(&desk, "eve").await), [2], "what was skipped is still for sale");
    desk.audited().await;
}

pub(super) async fn no_common_seat_is_named_by_the_first_line(desk: Desk) {
    desk.sell(&[("a", 2, 2), ("b", 2, 2)]).await;
    reserved(desk.buy("ann", vec![line("a", 1)]).await);
    reserved(desk.buy("bob", vec![line("b", 1)]).await);
    let hold = reserved(desk.buy("bob", vec![line("b", 1)]).await);
    confirm(&desk, &hold).await;
    assert!(matches!(cancel(&desk, &last_of(&desk, "b", 1).await).await, Decision::Done(_)));
    // Now number 2 of `a` and number 1 of `b` are free.
    let seat =
        Reserve { choice: UnitChoice::SameNumber, ..desk.wish("cid", "k", vec![line("a", 1), line("b", 1)]) };
    let answer = desk.store.reserve(seat).await.unwrap();
    assert!(
        matches!(answer, Reserved::AllHeld { ref sku, free: 1, .. } if sku.as_str() == "a"),
        "{answer:?}"
    );
    desk.audited().await;
}

/// The reservation that owns a unit.
async fn last_of(desk: &Desk, of: &str, unit: u32) -> Hold {
    let books = desk.store.books(&id()).await.unwrap();
    let row = books.units.iter().find(|row| row.sku.as_str() == of && row.unit == unit);
    let owner = row.expect("the unit is owned").reservation;
    desk.store.reservation(&id(), owner).await.unwrap().expect("the owner is known")
}

// ── confirm, cancel, expire ──────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn a_confirmed_hold_is_sold_for_good(desk: Desk) {
    desk.sell(&[("a", 2, 1)]).await;
    let hold = buy_one(&desk, "ann").await;
    for _ in 0..2 {
        let Decision::Done(sold) = confirm(&desk, &hold).await else { panic!("it is paid for") };
        assert_eq!(sold, Hold { state: HoldState::Confirmed, ..hold.clone() });
    }
    assert!(matches!(cancel(&desk, &hold).await, Decision::Refused(_)));
    desk.advance(s(11)).await;
    assert_eq!(desk.store.expire(&id(), 10).await.unwrap(), 0);
    assert_eq!(desk.places("a").await, (1, 0, 1, 0));
    desk.audited().await;
}

pub(super) async fn a_cancelled_hold_gives_its_units_back_once(desk: Desk) {
    desk.sell(&[("a", 2, 1)]).await;
    let hold = buy_one(&desk, "ann").await;
    for _ in 0..2 {
        assert!(matches!(cancel(&desk, &hold).await, Decision::Done(_)));
    }
    let Decision::Refused(now) = confirm(&desk, &hold).await else { panic!("it was canceled") };
    assert_eq!(now.state, HoldState::Cancelled);
    assert_eq!(desk.places("a").await, (2, 0, 0, 0));
    desk.audited().await;
}

pub(super) async fn a_hold_past_its_deadline_is_ended_by_whoever_comes(desk: Desk) {
    desk.sell(&[("a", 3, 1)]).await;
    let (first, second) = (buy_one(&desk, "ann").await, buy_one(&desk, "bob").await);
    desk.advance(s(11)).await;
    for decision in [confirm(&desk, &first).await, cancel(&desk, &second).await] {
        let Decision::Refused(hold) = decision else { panic!("the deadline has passed: {decision:?}") };
        assert_eq!(hold.state, HoldState::Expired);
    }
    assert_eq!(desk.places("a").await, (3, 0, 0, 0));
    desk.audited().await;
}

pub(super) async fn expire_ends_overdue_holds_by_deadline(desk: Desk) {
    desk.sell(&[("a", 5, 5)]).await;
    let mut holds = Vec::new();
    for _ in 0..3 {
        holds.push(buy_one(&desk, "ann").await);
        desk.advance(s(2)).await;
    }
    assert_eq!(desk.store.expire(&id(), 10).await.unwrap(), 0);
    desk.advance(s(7)).await;
    assert_eq!(desk.store.expire(&id(), 1).await.unwrap(), 1);
    assert_eq!(state(&desk, &holds[0]).await, HoldState::Expired);
    assert_eq!(desk.store.expire(&id(), 10).await.unwrap(), 1);
    assert_eq!(state(&desk, &holds[1]).await, HoldState::Expired);
    assert_eq!(state(&desk, &holds[2]).await, HoldState::Held);
    assert_eq!(desk.places("a").await, (4, 1, 0, 0));
    desk.audited().await;
}

// ── with a ledger ────────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn a_reservation_and_its_order_come_together(desk: Desk) {
    desk.sell_with_ledger(&[("a", 3, 2)]).await;
    let hold = buy_one(&desk, "ann").await;
    let expected = LedgerEntry::Reservation {
        sale: id(),
        generation: 1,
        seq: hold.seq,
        id: hold.id,
        buyer: hold.buyer.clone(),
        units: hold.units.clone(),
        intent: OrderIntent::Hold,
    };
    assert_eq!(desk.undelivered().await, [expected]);
}

pub(super) async fn the_largest_cart_has_its_order(desk: Desk) {
    let skus: Vec<_> = (0..MAX_LINES).map(|n| format!("{n:0>200}")).collect();
    let stock: Vec<_> = skus.iter().map(|sku| (sku.as_str(), 1_000, 1_000)).collect();
    desk.sell_with_ledger(&stock).await;
    let lines = skus.iter().map(|sku| line(sku, MAX_UNITS_PER_LINE)).collect();
    let hold = reserved(desk.buy("ann", lines).await);
    assert_eq!(hold.units.len(), MAX_UNITS as usize);
    let [LedgerEntry::Reservation { units, .. }] = &desk.undelivered().await[..] else {
        panic!("one was made")
    };
    assert_eq!(*units, hold.units);
    cancel(&desk, &hold).await;
    assert_eq!(settle(&desk, &hold, Verdict::Cancelled).await, Settled::Settled);
    assert_eq!(desk.places(&skus[0]).await, (1_000, 0, 0, 0));
    desk.audited().await;
}

pub(super) async fn an_order_has_its_buyer_whatever_the_name(desk: Desk) {
    desk.sell_with_ledger(&[("a", 1, 1)]).await;
    let strange = r#"x\","intent":"confirm"#;
    let hold = buy_one(&desk, strange).await;
    for (intends, asks) in [(OrderIntent::Hold, None), (OrderIntent::Expire, Some("bob"))] {
        if let Some(other) = asks {
            // Another buyer's reservation notices that the hold has expired.
            desk.advance(s(60)).await;
            assert!(matches!(desk.buy(other, vec![line("a", 1)]).await, Reserved::AllHeld { .. }));
        }
        let [LedgerEntry::Reservation { id, buyer, intent, .. }] = &desk.undelivered().await[..] else {
            panic!("there is one");
        };
        assert_eq!((*id, buyer.as_str(), *intent), (hold.id, strange, intends));
    }
}

pub(super) async fn a_refused_reservation_makes_no_order(desk: Desk) {
    desk.sell_with_ledger(&[("a", 1, 1)]).await;
    buy_one(&desk, "ann").await;
    desk.buy("bob", vec![line("a", 1)]).await;
    desk.buy("ann", vec![line("a", 1)]).await;
    assert_eq!(desk.undelivered().await.len(), 1);
}

pub(super) async fn with_a_ledger_decisions_wait_for_it(desk: Desk) {
    desk.sell_with_ledger(&[("a", 3, 1)]).await;
    let (paid, off) = (buy_one(&desk, "ann").await, buy_one(&desk, "bob").await);
    for _ in 0..2 {
        let Decision::Pending(hold) = confirm(&desk, &paid).await else { panic!("the ledger decides") };
        assert_eq!(hold.state, HoldState::Confirming);
        let Decision::Pending(hold) = cancel(&desk, &off).await else { panic!("the ledger decides") };
        assert_eq!(hold.state, HoldState::Cancelling);
    }
    assert!(matches!(cancel(&desk, &paid).await, Decision::Refused(_)));
    assert!(matches!(confirm(&desk, &off).await, Decision::Refused(_)));
    assert_eq!(desk.places("a").await, (1, 2, 0, 0), "no unit is free before the ledger has committed");
    let intents: BTreeSet<_> = desk.undelivered().await.iter().filter_map(intent).collect();
    assert_eq!(intents, [OrderIntent::Confirm, OrderIntent::Cancel].into(), "a decision replaces its hold");
    desk.audited().await;
}

pub(super) async fn the_ledger_settles_each_decision_once(desk: Desk) {
    desk.sell_with_ledger(&[("a", 3, 1)]).await;
    let mut holds = Vec::new();
    for buyer in ["ann", "bob", "cid"] {
        holds.push(buy_one(&desk, buyer).await);
    }
    confirm(&desk, &holds[0]).await;
    cancel(&desk, &holds[1]).await;
    desk.advance(s(11)).await;
    assert_eq!(desk.store.expire(&id(), 10).await.unwrap(), 1);
    assert_eq!(state(&desk, &holds[2]).await, HoldState::Expiring);
    let wrong = settle(&desk, &holds[0], Verdict::Cancelled).await;
    assert_eq!(wrong, Settled::Unchanged(HoldState::Confirming));
    let verdicts = [Verdict::Confirmed, Verdict::Cancelled, Verdict::Expired];
    let told: Vec<_> = holds.iter().map(|hold| hold.id).zip(verdicts).collect();
    assert_eq!(desk.store.settle(&id(), 1, told.clone()).await.unwrap(), [Settled::Settled; 3]);
    let again = desk.store.settle(&id(), 1, told).await.unwrap();
    let states = [HoldState::Confirmed, HoldState::Cancelled, HoldState::Expired];
    assert_eq!(again, states.map(Settled::Unchanged));
    assert!(matches!(confirm(&desk, &holds[0]).await, Decision::Done(_)));
    assert!(matches!(cancel(&desk, &holds[1]).await, Decision::Done(_)));
    assert_eq!(desk.places("a").await, (2, 0, 1, 0));
    desk.audited().await;
}

pub(super) async fn a_hold_that_is_not_decided_is_not_settled(desk: Desk) {
    desk.sell_with_ledger(&[("a", 3, 1)]).await;
    let hold = buy_one(&desk, "ann").await;
    for verdict in [Verdict::Confirmed, Verdict::Cancelled, Verdict::Expired] {
        assert_eq!(settle(&desk, &hold, verdict).await, Settled::Unchanged(HoldState::Held));
    }
    assert_eq!(desk.places("a").await, (2, 1, 0, 0));
}

pub(super) async fn a_rejected_order_gives_its_units_back(desk: Desk) {
    desk.sell_with_ledger(&[("a", 2, 1)]).await;
    let hold = buy_one(&desk, "ann").await;
    confirm(&desk, &hold).await;
    let verdict = Verdict::Rejected { units_taken: false };
    assert_eq!(settle(&desk, &hold, verdict).await, Settled::Settled);
    assert_eq!(settle(&desk, &hold, verdict).await, Settled::Unchanged(HoldState::Rejected));
    assert!(matches!(confirm(&desk, &hold).await, Decision::Refused(_)));
    assert_eq!(desk.places("a").await, (2, 0, 0, 0));
    assert_eq!(kinds(&desk).await.last(), Some(&EventKind::Rejected));
    desk.audited().await;
}

pub(super) async fn units_that_the_ledger_knows_as_sold_are_withdrawn(desk: Desk) {
    desk.sell_with_ledger(&[("a", 2, 1)]).await;
    let hold = buy_one(&desk, "ann").await;
    assert_eq!(settle(&desk, &hold, Verdict::Rejected { units_taken: true }).await, Settled::Settled);
    assert_eq!(desk.places("a").await, (1, 0, 0, 1));
    assert_eq!(kinds(&desk).await.last(), Some(&EventKind::Quarantined));
    assert_eq!(numbers(&buy_one(&desk, "bob").await), [2]);
    desk.audited().await;
}

pub(super) async fn with_a_ledger_an_overdue_hold_is_not_free_before_it_is_settled(desk: Desk) {
    desk.sell_with_ledger(&[("a", 1, 1)]).await;
    let hold = buy_one(&desk, "ann").await;
    desk.advance(s(11)).await;
    let answer = desk.buy("bob", vec![line("a", 1)]).await;
    assert_eq!(answer, Reserved::AllHeld { sku: sku("a"), free: 0, next_expiry: None });
    assert_eq!(state(&desk, &hold).await, HoldState::Expiring);
    assert!(matches!(confirm(&desk, &hold).await, Decision::Refused(_)), "a late payment is refused");
    settle(&desk, &hold, Verdict::Expired).await;
    assert_eq!(numbers(&buy_one(&desk, "bob").await), [1]);
    desk.audited().await;
}

// ── events, books ────────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn events_are_numbered_without_gaps_and_paged(desk: Desk) {
    desk.sell(&[("a", 3, 1)]).await;
    let hold = buy_one(&desk, "ann").await;
    let off = buy_one(&desk, "bob").await;
    confirm(&desk, &hold).await;
    cancel(&desk, &off).await;
    buy_one(&desk, "cid").await;
    desk.advance(s(11)).await;
    desk.store.expire(&id(), 10).await.unwrap();
    desk.store.end(&id()).await.unwrap();
    use EventKind::*;
    let expected = [Opened, Reserved, Reserved, Confirmed, Cancelled, Reserved, Expired, Ended];
    assert_eq!(kinds(&desk).await, expected);
    let page = desk.store.events(&id(), Page::after(3, 2)).await.unwrap();
    assert_eq!(page.iter().map(|event| event.seq).collect::<Vec<_>>(), [4, 5]);
    assert_eq!((page[0].reservation, page[0].units.clone()), (Some(hold.id), vec![(sku("a"), range(1, 1))]));
    assert!(desk.store.events(&id(), Page::after(8, 10)).await.unwrap().is_empty());
    assert_eq!(desk.store.sale(&id()).await.unwrap().seq, 8);
    desk.audited().await;
}

pub(super) async fn middle_states_have_events_without_units(desk: Desk) {
    desk.sell_with_ledger(&[("a", 3, 1)]).await;
    let hold = buy_one(&desk, "ann").await;
    confirm(&desk, &hold).await;
    settle(&desk, &hold, Verdict::Confirmed).await;
    let events = desk.store.events(&id(), Page::after(2, 10)).await.unwrap();
    let seen: Vec<_> = events.iter().map(|event| (event.kind, event.units.len())).collect();
    assert_eq!(seen, [(EventKind::Confirming, 0), (EventKind::Confirmed, 1)]);
}

pub(super) async fn the_books_show_every_unit_in_its_place(desk: Desk) {
    desk.sell(&[("a", 6, 2), ("b", 2, 2)]).await;
    let hold = reserved(desk.buy("ann", vec![line("a", 2), line("b", 1)]).await);
    confirm(&desk, &hold).await;
    buy_one(&desk, "bob").await;
    stock(&desk, StockChange::Withdraw(1)).await;
    let books = desk.store.books(&id()).await.unwrap();
    let a = &books.skus[0];
    assert_eq!((a.initial, a.total, a.held, a.confirmed, a.per_buyer), (6, 6, 1, 2, 2));
    assert_eq!((a.free.clone(), a.withdrawn.clone()), (vec![range(4, 5)], vec![range(6, 6)]));
    assert_eq!((books.reservations.len(), books.units.len(), books.events.len()), (2, 4, 5));
    assert_eq!((books.seq, books.generation, books.spec.ledger), (5, 1, false));
    desk.audited().await;
}

pub(super) async fn wishes_outside_the_limits_are_refused(desk: Desk) {
    desk.sell(&[("a", 3, 1), ("b", 3, 1)]).await;
    let many = (0..33).map(|n| line(&format!("x{n}"), 1)).collect::<Vec<Line>>();
    let twice = vec![line("a", 1), line("a", 1)];
    for lines in [Vec::new(), vec![line("a", 0)], vec![line("a", 1_001)], twice, many] {
        refused(desk.store.reserve(desk.wish("ann", "k", lines)).await);
    }
    let two_seats = desk.wish("ann", "k", vec![line("a", 2), line("b", 1)]);
    refused(desk.store.reserve(Reserve { choice: UnitChoice::SameNumber, ..two_seats }).await);
    for n in [0, SaleSpec::UNITS_MAX + 1] {
        refused(desk.store.stock(desk.op(), &id(), &sku("a"), StockChange::Add(n)).await);
        refused(desk.store.stock(desk.op(), &id(), &sku("a"), StockChange::Withdraw(n)).await);
    }
    for n in [0, 1_001] {
        refused(desk.store.expire(&id(), n).await);
    }
    refused(desk.store.settle(&id(), 1, Vec::new()).await);
    refused(desk.store.events(&id(), Page::first(0)).await);
    refused(desk.store.events(&id(), Page::first(10_001)).await);
    refused(desk.store.sales(Page::first(0)).await);
    assert_eq!(kinds(&desk).await, [EventKind::Opened]);
}

pub(super) async fn sales_outside_the_limits_are_refused(desk: Desk) {
    refused(HoldTime::new(Duration::ZERO));
    refused(HoldTime::new(s(31 * 86_400)));
    let many: Vec<String> = (0..1_001).map(|n| format!("x{n}")).collect();
    let many: Vec<_> = many.iter().map(|name| (name.as_str(), 1, 1)).collect();
    let wrong: [&[(&str, u32, u32)]; 7] = [
        &[],
        &many,
        &[("a", 0, 1)],
        &[("a", SaleSpec::UNITS_MAX + 1, 1)],
        &[("a", 1, 0)],
        &[("a", 1, 10_001)],
        &[("a", 1, 1), ("a", 2, 1)],
    ];
    for skus in wrong {
        refused(desk.store.create(desk.spec(skus, false)).await);
    }
    let at = Some(rushgate_core::Timestamp::from_micros(5));
    refused(
        desk.store.create(SaleSpec { opens_at: at, closes_at: at, ..desk.spec(&[("a", 1, 1)], false) }).await,
    );
    assert!(desk.store.sales(Page::default()).await.unwrap().is_empty());
}

// ── crowds ───────────────────────────────────────────────────────────────────────────────────────────────────────

async fn one_of_the_crowd(desk: Desk, n: usize) -> Option<Hold> {
    let store = if n.is_multiple_of(2) { desk.store.clone() } else { desk.peer() };
    let wish = desk.wish(&format!("buyer-{}", n / 2), &format!("key-{n}"), vec![line("a", 1)]);
    let first = store.reserve(wish.clone()).await.unwrap();
    let again = store.reserve(wish).await.unwrap();
    match first {
        Reserved::Reserved(hold) => {
            assert_eq!(again, Reserved::Replayed(hold.clone()));
            Some(hold)
        }
        _ => None,
    }
}

pub(super) async fn two_hundred_buyers_get_ten_units_between_them(desk: Desk) {
    desk.sell(&[("a", 10, 1)]).await;
    let crowd: Vec<_> = (0..200).map(|n| tokio::spawn(one_of_the_crowd(desk.clone(), n))).collect();
    let mut units = BTreeSet::new();
    let mut buyers = BTreeSet::new();
    for buyer in crowd {
        if let Some(hold) = buyer.await.expect("a repetition is answered the same way") {
            assert!(units.insert(numbers(&hold)[0]), "a unit was sold twice");
            assert!(buyers.insert(hold.buyer.clone()), "a buyer is over the limit");
        }
    }
    assert_eq!(units, (1..=10).collect());
    assert_eq!(desk.places("a").await, (0, 10, 0, 0));
    desk.audited().await;
}

pub(super) async fn one_row_decides_between_confirm_cancel_and_the_deadline(desk: Desk) {
    desk.sell(&[("a", 20, 20)]).await;
    let mut holds = Vec::new();
    for _ in 0..20 {
        holds.push(buy_one(&desk, "ann").await);
    }
    for hold in &holds {
        let sale = id();
        let (a, b, c) = (desk.clone(), desk.clone(), desk.clone());
        let (one, two) = (hold.clone(), hold.clone());
        let confirm = tokio::spawn(async move { confirm(&a, &one).await });
        let cancel = tokio::spawn(async move { cancel(&b, &two).await });
        let expire = tokio::spawn(async move { c.store.expire(&sale, 10).await.unwrap() });
        let confirmed = matches!(confirm.await.unwrap(), Decision::Done(_));
        let cancelled = matches!(cancel.await.unwrap(), Decision::Done(_));
        expire.await.unwrap();
        assert!(confirmed ^ cancelled, "exactly one of them decides");
        let end = if confirmed { HoldState::Confirmed } else { HoldState::Cancelled };
        assert_eq!(state(&desk, hold).await, end);
    }
    desk.audited().await;
}
