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

use crate::fixture::*;
pub(super) use attempts::*;
pub(super) use stock::*;

fn id() -> SaleId {
    sale_id("s")
}

async fn buy_one(fixture: &Fixture, buyer: &str) -> Hold {
    reserved(fixture.buy(buyer, vec![line("a", 1)]).await)
}

async fn confirm(fixture: &Fixture, hold: &Hold) -> Decision {
    fixture.store.confirm(&id(), hold.id).await.unwrap()
}

async fn cancel(fixture: &Fixture, hold: &Hold) -> Decision {
    fixture.store.cancel_hold(&id(), hold.id).await.unwrap()
}

async fn settle(fixture: &Fixture, hold: &Hold, verdict: Verdict) -> Settled {
    fixture.store.settle(&id(), 1, vec![(hold.id, verdict)]).await.unwrap()[0]
}

async fn stock(fixture: &Fixture, change: StockChange) -> StockChanged {
    fixture.store.stock(fixture.op(), &id(), &sku("a"), change).await.unwrap()
}

async fn state(fixture: &Fixture, hold: &Hold) -> HoldState {
    fixture.store.reservation(&id(), hold.id).await.unwrap().expect("it was made").state
}

async fn kinds(fixture: &Fixture) -> Vec<EventKind> {
    let events = fixture.store.events(&id(), Page::first(10_000)).await.unwrap();
    events.into_iter().map(|event| event.kind).collect()
}

fn intent(order: &LedgerEntry) -> Option<OrderIntent> {
    match order {
        LedgerEntry::Reservation { intent, .. } => Some(*intent),
        LedgerEntry::Stock { .. } => None,
    }
}

// ── the sale itself ──────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn a_sale_is_made_once_and_the_same_call_is_answered_the_same(fixture: Fixture) {
    let metadata = r#"{ "skus": { "a": { "title": "caf\u00e9" } } }"#.to_owned();
    let spec = SaleSpec { metadata, ..fixture.spec(&[("a", 3, 1), ("b", 2, 2)], false) };
    assert_eq!(fixture.store.create(spec.clone()).await.unwrap(), Created::Created);
    assert_eq!(fixture.store.create(spec.clone()).await.unwrap(), Created::Created);
    let other = fixture.spec(&[("a", 4, 1)], false);
    assert_eq!(fixture.store.create(other).await.unwrap(), Created::Exists);
    let other = SaleSpec { metadata: "{}".to_owned(), ..spec.clone() };
    assert_eq!(fixture.store.create(other).await.unwrap(), Created::Exists);
    for metadata in ["[]", "{", &format!("{{\"a\":\"{}\"}}", "x".repeat(SaleSpec::METADATA_MAX))] {
        refused(fixture.store.create(SaleSpec { metadata: metadata.to_owned(), ..spec.clone() }).await);
    }
    let state = fixture.store.sale(&id()).await.unwrap();
    assert_eq!((state.spec, state.status, state.generation, state.seq), (spec, SaleStatus::Created, 1, 0));
    assert_eq!(fixture.places("a").await, (3, 0, 0, 0));
    fixture.audited().await;
}

pub(super) async fn a_sale_opens_and_ends_once(fixture: Fixture) {
    fixture.store.create(fixture.spec(&[("a", 3, 1)], false)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(fixture.store.open(&id()).await.unwrap(), SaleStatus::Open);
    }
    for _ in 0..2 {
        assert_eq!(fixture.store.end(&id()).await.unwrap(), SaleStatus::Ended);
    }
    assert_eq!(fixture.store.open(&id()).await.unwrap(), SaleStatus::Ended);
    assert_eq!(kinds(&fixture).await, [EventKind::Opened, EventKind::Ended]);
}

pub(super) async fn a_sale_that_is_not_open_sells_nothing(fixture: Fixture) {
    fixture.store.create(fixture.spec(&[("a", 3, 1)], false)).await.unwrap();
    let lines = || vec![line("a", 1)];
    assert_eq!(fixture.buy("ann", lines()).await, Reserved::NotOpen { opens_at: None });
    fixture.store.open(&id()).await.unwrap();
    let hold = buy_one(&fixture, "ann").await;
    fixture.store.end(&id()).await.unwrap();
    assert_eq!(fixture.buy("bob", lines()).await, Reserved::Ended);
    assert!(matches!(confirm(&fixture, &hold).await, Decision::Done(_)), "holds can still be confirmed");
    fixture.audited().await;
}

pub(super) async fn a_sale_keeps_its_hours(fixture: Fixture) {
    fixture.sell(&[("a", 3, 1)]).await;
    let now = fixture.now().await;
    let mut spec = fixture.spec(&[("a", 3, 3)], false);
    spec.id = sale_id("hours");
    (spec.opens_at, spec.closes_at) = (Some(now + s(20)), Some(now + s(60)));
    fixture.start(spec).await;
    let ask = |key: &str| Reserve { sale: sale_id("hours"), ..fixture.wish("ann", key, vec![line("a", 1)]) };
    let answer = fixture.store.reserve(ask("1")).await.unwrap();
    assert_eq!(answer, Reserved::NotOpen { opens_at: Some(now + s(20)) });
    fixture.advance(s(21)).await;
    reserved(fixture.store.reserve(ask("2")).await.unwrap());
    fixture.advance(s(40)).await;
    assert_eq!(fixture.store.reserve(ask("3")).await.unwrap(), Reserved::Ended);
}

pub(super) async fn sales_are_listed_by_id_in_pages(fixture: Fixture) {
    for name in ["z", "x", "y"] {
        let spec = SaleSpec { id: sale_id(name), ..fixture.spec(&[("a", 1, 1)], false) };
        fixture.store.create(spec).await.unwrap();
    }
    let ids = |page: Page| async {
        let sales = fixture.store.sales(page).await.unwrap();
        sales.iter().map(|sale| sale.id().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(Page::default()).await, ["x", "y", "z"]);
    assert_eq!(ids(Page::after("x".into(), 1)).await, ["y"]);
}

pub(super) async fn an_unknown_sale_sku_or_reservation_is_said_to_be_unknown(fixture: Fixture) {
    let nobody = sale_id("nobody");
    let wish = fixture.wish("ann", "k", vec![line("a", 1)]);
    unknown(fixture.store.open(&nobody).await);
    unknown(fixture.store.end(&nobody).await);
    unknown(fixture.store.sale(&nobody).await);
    unknown(fixture.store.snapshot(&nobody).await);
    unknown(fixture.store.events(&nobody, Page::first(1)).await);
    unknown(fixture.store.expire(&nobody, 1).await);
    unknown(fixture.store.reserve(wish.clone()).await);
    unknown(fixture.store.confirm(&nobody, wish.id).await);
    unknown(fixture.store.cancel_hold(&nobody, wish.id).await);
    unknown(fixture.store.reservation(&nobody, wish.id).await);
    unknown(fixture.store.settle(&nobody, 1, vec![(wish.id, Verdict::Confirmed)]).await);
    unknown(fixture.store.stock(fixture.op(), &nobody, &sku("a"), StockChange::Add(1)).await);
    fixture.sell(&[("a", 3, 1)]).await;
    let strange = fixture.wish("ann", "k", vec![line("a", 1), line("b", 1)]);
    unknown(fixture.store.reserve(strange).await);
    unknown(fixture.store.stock(fixture.op(), &id(), &sku("b"), StockChange::Add(1)).await);
    assert_eq!(fixture.store.confirm(&id(), wish.id).await.unwrap(), Decision::Unknown);
    assert_eq!(fixture.store.cancel_hold(&id(), wish.id).await.unwrap(), Decision::Unknown);
    assert_eq!(fixture.store.reservation(&id(), wish.id).await.unwrap(), None);
    let settled = fixture.store.settle(&id(), 1, vec![(wish.id, Verdict::Confirmed)]).await.unwrap();
    assert_eq!(settled, [Settled::Unknown]);
    assert_eq!(fixture.places("a").await, (3, 0, 0, 0));
}

// ── reserve ──────────────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn units_are_numbered_and_given_lowest_first(fixture: Fixture) {
    fixture.sell(&[("a", 10, 4)]).await;
    let hold = reserved(fixture.buy("ann", vec![line("a", 3)]).await);
    assert_eq!(numbers(&hold), [1, 2, 3]);
    assert_eq!((hold.state, hold.seq, hold.generation), (HoldState::Held, 2, 1));
    near(hold.deadline.since(fixture.now().await), s(10));
    assert_eq!(numbers(&buy_one(&fixture, "bob").await), [4]);
    assert_eq!(fixture.places("a").await, (6, 4, 0, 0));
    assert_eq!(fixture.store.reservation(&id(), hold.id).await.unwrap(), Some(hold));
    fixture.audited().await;
}

pub(super) async fn a_cart_is_filled_in_the_order_of_its_lines(fixture: Fixture) {
    fixture.sell(&[("a", 5, 5), ("b", 5, 5)]).await;
    let hold = reserved(fixture.buy("ann", vec![line("b", 2), line("a", 1)]).await);
    assert_eq!(hold.units, [(sku("b"), 1), (sku("b"), 2), (sku("a"), 1)]);
    fixture.audited().await;
}

pub(super) async fn a_cart_is_all_or_nothing(fixture: Fixture) {
    fixture.sell(&[("a", 5, 5), ("b", 2, 5)]).await;
    let answer = fixture.buy("ann", vec![line("a", 2), line("b", 3)]).await;
    assert_eq!(answer, Reserved::SoldOut { sku: sku("b"), free: 2 });
    assert_eq!((fixture.places("a").await, fixture.places("b").await), ((5, 0, 0, 0), (2, 0, 0, 0)));
    assert_eq!(kinds(&fixture).await, [EventKind::Opened]);
    fixture.audited().await;
}

pub(super) async fn nobody_gets_more_than_the_limit(fixture: Fixture) {
    fixture.sell(&[("a", 10, 2)]).await;
    let over = |has| Reserved::LimitReached { sku: sku("a"), limit: 2, has };
    assert_eq!(fixture.buy("ann", vec![line("a", 3)]).await, over(0));
    let hold = buy_one(&fixture, "ann").await;
    assert_eq!(fixture.buy("ann", vec![line("a", 2)]).await, over(1));
    confirm(&fixture, &hold).await;
    let second = buy_one(&fixture, "ann").await;
    assert_eq!(fixture.buy("ann", vec![line("a", 1)]).await, over(2));
    cancel(&fixture, &second).await;
    buy_one(&fixture, "ann").await;
    buy_one(&fixture, "bob").await;
    fixture.audited().await;
}

pub(super) async fn the_limit_comes_before_the_stock(fixture: Fixture) {
    fixture.sell(&[("a", 1, 1)]).await;
    let hold = buy_one(&fixture, "ann").await;
    confirm(&fixture, &hold).await;
    let answer = fixture.buy("ann", vec![line("a", 1)]).await;
    assert_eq!(answer, Reserved::LimitReached { sku: sku("a"), limit: 1, has: 1 });
}

pub(super) async fn the_same_key_gives_the_same_reservation(fixture: Fixture) {
    fixture.sell(&[("a", 10, 5)]).await;
    let wish = fixture.wish("ann", "k", vec![line("a", 2)]);
    let hold = reserved(fixture.store.reserve(wish.clone()).await.unwrap());
    for _ in 0..2 {
        assert_eq!(fixture.store.reserve(wish.clone()).await.unwrap(), Reserved::Replayed(hold.clone()));
    }
    assert_eq!(fixture.places("a").await, (8, 2, 0, 0));
    confirm(&fixture, &hold).await;
    let sold = Hold { state: HoldState::Confirmed, ..hold };
    fixture.store.end(&id()).await.unwrap();
    assert_eq!(fixture.store.reserve(wish).await.unwrap(), Reserved::Replayed(sold), "even when it is over");
    fixture.audited().await;
}

pub(super) async fn a_key_with_other_lines_is_refused(fixture: Fixture) {
    fixture.sell(&[("a", 10, 5), ("b", 10, 5)]).await;
    let wish = fixture.wish("ann", "k", vec![line("a", 1)]);
    reserved(fixture.store.reserve(wish.clone()).await.unwrap());
    let changed = [
        Reserve { lines: vec![line("a", 2)], ..wish.clone() },
        Reserve { lines: vec![line("b", 1)], ..wish.clone() },
        Reserve { choice: UnitChoice::SameNumber, ..wish.clone() },
    ];
    for other in changed {
        assert_eq!(fixture.store.reserve(other).await.unwrap(), Reserved::KeyReused);
    }
    assert_eq!((fixture.places("a").await, fixture.places("b").await), ((9, 1, 0, 0), (10, 0, 0, 0)));
}

pub(super) async fn held_units_may_come_back_and_sold_ones_do_not(fixture: Fixture) {
    fixture.sell(&[("a", 2, 1)]).await;
    let (first, second) = (buy_one(&fixture, "ann").await, buy_one(&fixture, "bob").await);
    let lines = || vec![line("a", 1)];
    let all_held = |next| Reserved::AllHeld { sku: sku("a"), free: 0, next_expiry: next };
    assert_eq!(fixture.buy("cid", lines()).await, all_held(Some(first.deadline)));
    assert_eq!(fixture.store.sale(&id()).await.unwrap().next_expiry, Some(first.deadline));
    confirm(&fixture, &first).await;
    assert_eq!(fixture.buy("cid", lines()).await, all_held(Some(second.deadline)));
    confirm(&fixture, &second).await;
    assert_eq!(fixture.buy("cid", lines()).await, Reserved::SoldOut { sku: sku("a"), free: 0 });
    fixture.audited().await;
}

pub(super) async fn the_last_units_are_not_split(fixture: Fixture) {
    fixture.sell(&[("a", 3, 3)]).await;
    let hold = reserved(fixture.buy("ann", vec![line("a", 2)]).await);
    let answer = fixture.buy("bob", vec![line("a", 2)]).await;
    let next_expiry = Some(hold.deadline);
    assert_eq!(answer, Reserved::AllHeld { sku: sku("a"), free: 1, next_expiry });
    assert_eq!(numbers(&buy_one(&fixture, "bob").await), [3]);
}

pub(super) async fn returned_numbers_are_sold_again_lowest_first(fixture: Fixture) {
    fixture.sell(&[("a", 6, 2)]).await;
    let mut holds = Vec::new();
    for buyer in ["ann", "bob", "cid", "dan"] {
        holds.push(buy_one(&fixture, buyer).await);
    }
    assert!(matches!(cancel(&fixture, &holds[2]).await, Decision::Done(_)));
    assert!(matches!(cancel(&fixture, &holds[0]).await, Decision::Done(_)));
    assert_eq!(fixture.places("a").await, (4, 2, 0, 0));
    let hold = reserved(fixture.buy("eve", vec![line("a", 2)]).await);
    assert_eq!(numbers(&hold), [1, 3]);
    assert_eq!(numbers(&buy_one(&fixture, "fay").await), [5]);
    fixture.audited().await;
}

pub(super) async fn a_short_line_ends_expired_holds_on_its_way(fixture: Fixture) {
    fixture.sell(&[("a", 2, 1)]).await;
    let (first, second) = (buy_one(&fixture, "ann").await, buy_one(&fixture, "bob").await);
    confirm(&fixture, &second).await;
    fixture.advance(s(11)).await;
    assert_eq!(state(&fixture, &first).await, HoldState::Held, "it has not been ended yet");
    assert_eq!(numbers(&buy_one(&fixture, "cid").await), [1]);
    assert_eq!(state(&fixture, &first).await, HoldState::Expired);
    fixture.audited().await;
}

pub(super) async fn enough_stock_leaves_expired_holds_alone(fixture: Fixture) {
    fixture.sell(&[("a", 2, 1)]).await;
    let first = buy_one(&fixture, "ann").await;
    fixture.advance(s(11)).await;
    assert_eq!(numbers(&buy_one(&fixture, "bob").await), [2]);
    assert_eq!(state(&fixture, &first).await, HoldState::Held);
}

pub(super) async fn one_seat_is_found_for_several_segments(fixture: Fixture) {
    fixture.sell(&[("a", 4, 4), ("b", 4, 4), ("c", 4, 4)]).await;
    reserved(fixture.buy("ann", vec![line("a", 1)]).await);
    reserved(fixture.buy("bob", vec![line("b", 2)]).await);
    let seat = |buyer: &str, key: &str| Reserve {
        choice: UnitChoice::SameNumber,
        ..fixture.wish(buyer, key, vec![line("a", 1), line("b", 1), line("c", 1)])
    };
    let hold = reserved(fixture.store.reserve(seat("cid", "1")).await.unwrap());
    assert_eq!(hold.units, [(sku("a"), 3), (sku("b"), 3), (sku("c"), 3)]);
    let hold = reserved(fixture.store.reserve(seat("dan", "2")).await.unwrap());
    assert_eq!(numbers(&hold), [4, 4, 4]);
    let answer = fixture.store.reserve(seat("eve", "3")).await.unwrap();
    assert!(matches!(answer, Reserved::AllHeld { ref sku, .. } if sku.as_str() == "b"), "{answer:?}");
    assert_eq!(numbers(&buy_one(&fixture, "eve").await), [2], "what was skipped is still for sale");
    fixture.audited().await;
}

pub(super) async fn no_common_seat_is_named_by_the_first_line(fixture: Fixture) {
    fixture.sell(&[("a", 2, 2), ("b", 2, 2)]).await;
    reserved(fixture.buy("ann", vec![line("a", 1)]).await);
    reserved(fixture.buy("bob", vec![line("b", 1)]).await);
    let hold = reserved(fixture.buy("bob", vec![line("b", 1)]).await);
    confirm(&fixture, &hold).await;
    assert!(matches!(cancel(&fixture, &last_of(&fixture, "b", 1).await).await, Decision::Done(_)));
    // Now number 2 of `a` and number 1 of `b` are free.
    let seat = Reserve {
        choice: UnitChoice::SameNumber,
        ..fixture.wish("cid", "k", vec![line("a", 1), line("b", 1)])
    };
    let answer = fixture.store.reserve(seat).await.unwrap();
    assert!(
        matches!(answer, Reserved::AllHeld { ref sku, free: 1, .. } if sku.as_str() == "a"),
        "{answer:?}"
    );
    fixture.audited().await;
}

/// The reservation that owns a unit.
async fn last_of(fixture: &Fixture, of: &str, unit: u32) -> Hold {
    let snapshot = fixture.store.snapshot(&id()).await.unwrap();
    let row = snapshot.units.iter().find(|row| row.sku.as_str() == of && row.unit == unit);
    let owner = row.expect("the unit is owned").reservation;
    fixture.store.reservation(&id(), owner).await.unwrap().expect("the owner is known")
}

// ── confirm, cancel, expire ──────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn a_confirmed_hold_is_sold_for_good(fixture: Fixture) {
    fixture.sell(&[("a", 2, 1)]).await;
    let hold = buy_one(&fixture, "ann").await;
    for _ in 0..2 {
        let Decision::Done(sold) = confirm(&fixture, &hold).await else { panic!("it is paid for") };
        assert_eq!(sold, Hold { state: HoldState::Confirmed, ..hold.clone() });
    }
    assert!(matches!(cancel(&fixture, &hold).await, Decision::Refused(_)));
    fixture.advance(s(11)).await;
    assert_eq!(fixture.store.expire(&id(), 10).await.unwrap(), 0);
    assert_eq!(fixture.places("a").await, (1, 0, 1, 0));
    fixture.audited().await;
}

pub(super) async fn a_cancelled_hold_gives_its_units_back_once(fixture: Fixture) {
    fixture.sell(&[("a", 2, 1)]).await;
    let hold = buy_one(&fixture, "ann").await;
    for _ in 0..2 {
        assert!(matches!(cancel(&fixture, &hold).await, Decision::Done(_)));
    }
    let Decision::Refused(now) = confirm(&fixture, &hold).await else { panic!("it was canceled") };
    assert_eq!(now.state, HoldState::Cancelled);
    assert_eq!(fixture.places("a").await, (2, 0, 0, 0));
    fixture.audited().await;
}

pub(super) async fn a_hold_past_its_deadline_is_ended_by_the_next_call(fixture: Fixture) {
    fixture.sell(&[("a", 3, 1)]).await;
    let (first, second) = (buy_one(&fixture, "ann").await, buy_one(&fixture, "bob").await);
    fixture.advance(s(11)).await;
    for decision in [confirm(&fixture, &first).await, cancel(&fixture, &second).await] {
        let Decision::Refused(hold) = decision else { panic!("the deadline has passed: {decision:?}") };
        assert_eq!(hold.state, HoldState::Expired);
    }
    assert_eq!(fixture.places("a").await, (3, 0, 0, 0));
    fixture.audited().await;
}

pub(super) async fn expire_ends_expired_holds_by_deadline(fixture: Fixture) {
    fixture.sell(&[("a", 5, 5)]).await;
    let mut holds = Vec::new();
    for _ in 0..3 {
        holds.push(buy_one(&fixture, "ann").await);
        fixture.advance(s(2)).await;
    }
    assert_eq!(fixture.store.expire(&id(), 10).await.unwrap(), 0);
    fixture.advance(s(7)).await;
    assert_eq!(fixture.store.expire(&id(), 1).await.unwrap(), 1);
    assert_eq!(state(&fixture, &holds[0]).await, HoldState::Expired);
    assert_eq!(fixture.store.expire(&id(), 10).await.unwrap(), 1);
    assert_eq!(state(&fixture, &holds[1]).await, HoldState::Expired);
    assert_eq!(state(&fixture, &holds[2]).await, HoldState::Held);
    assert_eq!(fixture.places("a").await, (4, 1, 0, 0));
    fixture.audited().await;
}

// ── with a ledger ────────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn a_reservation_and_its_order_come_together(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 2)]).await;
    let hold = buy_one(&fixture, "ann").await;
    let expected = LedgerEntry::Reservation {
        sale: id(),
        generation: 1,
        seq: hold.seq,
        id: hold.id,
        buyer: hold.buyer.clone(),
        units: hold.units.clone(),
        intent: OrderIntent::Hold,
    };
    assert_eq!(fixture.undelivered().await, [expected]);
}

pub(super) async fn the_largest_cart_has_its_order(fixture: Fixture) {
    let skus: Vec<_> = (0..MAX_LINES).map(|n| format!("{n:0>200}")).collect();
    let stock: Vec<_> = skus.iter().map(|sku| (sku.as_str(), 1_000, 1_000)).collect();
    fixture.sell_with_ledger(&stock).await;
    let lines = skus.iter().map(|sku| line(sku, MAX_UNITS_PER_LINE)).collect();
    let hold = reserved(fixture.buy("ann", lines).await);
    assert_eq!(hold.units.len(), MAX_UNITS as usize);
    let [LedgerEntry::Reservation { units, .. }] = &fixture.undelivered().await[..] else {
        panic!("one was made")
    };
    assert_eq!(*units, hold.units);
    cancel(&fixture, &hold).await;
    assert_eq!(settle(&fixture, &hold, Verdict::Cancelled).await, Settled::Settled);
    assert_eq!(fixture.places(&skus[0]).await, (1_000, 0, 0, 0));
    fixture.audited().await;
}

pub(super) async fn an_order_has_its_buyer_whatever_the_name(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 1, 1)]).await;
    let strange = r#"x\","intent":"confirm"#;
    let hold = buy_one(&fixture, strange).await;
    for (intends, asks) in [(OrderIntent::Hold, None), (OrderIntent::Expire, Some("bob"))] {
        if let Some(other) = asks {
            // Another buyer's reservation notices that the hold has expired.
            fixture.advance(s(60)).await;
            assert!(matches!(fixture.buy(other, vec![line("a", 1)]).await, Reserved::AllHeld { .. }));
        }
        let [LedgerEntry::Reservation { id, buyer, intent, .. }] = &fixture.undelivered().await[..] else {
            panic!("there is one");
        };
        assert_eq!((*id, buyer.as_str(), *intent), (hold.id, strange, intends));
    }
}

pub(super) async fn a_refused_reservation_makes_no_order(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 1, 1)]).await;
    buy_one(&fixture, "ann").await;
    fixture.buy("bob", vec![line("a", 1)]).await;
    fixture.buy("ann", vec![line("a", 1)]).await;
    assert_eq!(fixture.undelivered().await.len(), 1);
}

pub(super) async fn with_a_ledger_decisions_wait_for_it(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let (paid, off) = (buy_one(&fixture, "ann").await, buy_one(&fixture, "bob").await);
    for _ in 0..2 {
        let Decision::Pending(hold) = confirm(&fixture, &paid).await else { panic!("the ledger decides") };
        assert_eq!(hold.state, HoldState::Confirming);
        let Decision::Pending(hold) = cancel(&fixture, &off).await else { panic!("the ledger decides") };
        assert_eq!(hold.state, HoldState::Cancelling);
    }
    assert!(matches!(cancel(&fixture, &paid).await, Decision::Refused(_)));
    assert!(matches!(confirm(&fixture, &off).await, Decision::Refused(_)));
    assert_eq!(fixture.places("a").await, (1, 2, 0, 0), "no unit is free before the ledger has committed");
    let intents: BTreeSet<_> = fixture.undelivered().await.iter().filter_map(intent).collect();
    assert_eq!(intents, [OrderIntent::Confirm, OrderIntent::Cancel].into(), "a decision replaces its hold");
    fixture.audited().await;
}

pub(super) async fn the_ledger_settles_each_decision_once(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let mut holds = Vec::new();
    for buyer in ["ann", "bob", "cid"] {
        holds.push(buy_one(&fixture, buyer).await);
    }
    confirm(&fixture, &holds[0]).await;
    cancel(&fixture, &holds[1]).await;
    fixture.advance(s(11)).await;
    assert_eq!(fixture.store.expire(&id(), 10).await.unwrap(), 1);
    assert_eq!(state(&fixture, &holds[2]).await, HoldState::Expiring);
    let wrong = settle(&fixture, &holds[0], Verdict::Cancelled).await;
    assert_eq!(wrong, Settled::Unchanged(HoldState::Confirming));
    let verdicts = [Verdict::Confirmed, Verdict::Cancelled, Verdict::Expired];
    let told: Vec<_> = holds.iter().map(|hold| hold.id).zip(verdicts).collect();
    assert_eq!(fixture.store.settle(&id(), 1, told.clone()).await.unwrap(), [Settled::Settled; 3]);
    let again = fixture.store.settle(&id(), 1, told).await.unwrap();
    let states = [HoldState::Confirmed, HoldState::Cancelled, HoldState::Expired];
    assert_eq!(again, states.map(Settled::Unchanged));
    assert!(matches!(confirm(&fixture, &holds[0]).await, Decision::Done(_)));
    assert!(matches!(cancel(&fixture, &holds[1]).await, Decision::Done(_)));
    assert_eq!(fixture.places("a").await, (2, 0, 1, 0));
    fixture.audited().await;
}

pub(super) async fn a_hold_that_is_not_decided_is_not_settled(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let hold = buy_one(&fixture, "ann").await;
    for verdict in [Verdict::Confirmed, Verdict::Cancelled, Verdict::Expired] {
        assert_eq!(settle(&fixture, &hold, verdict).await, Settled::Unchanged(HoldState::Held));
    }
    assert_eq!(fixture.places("a").await, (2, 1, 0, 0));
}

pub(super) async fn a_rejected_order_gives_its_units_back(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 2, 1)]).await;
    let hold = buy_one(&fixture, "ann").await;
    confirm(&fixture, &hold).await;
    let verdict = Verdict::Rejected { units_taken: false };
    assert_eq!(settle(&fixture, &hold, verdict).await, Settled::Settled);
    assert_eq!(settle(&fixture, &hold, verdict).await, Settled::Unchanged(HoldState::Rejected));
    assert!(matches!(confirm(&fixture, &hold).await, Decision::Refused(_)));
    assert_eq!(fixture.places("a").await, (2, 0, 0, 0));
    assert_eq!(kinds(&fixture).await.last(), Some(&EventKind::Rejected));
    fixture.audited().await;
}

pub(super) async fn units_that_the_ledger_knows_as_sold_are_withdrawn(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 2, 1)]).await;
    let hold = buy_one(&fixture, "ann").await;
    assert_eq!(settle(&fixture, &hold, Verdict::Rejected { units_taken: true }).await, Settled::Settled);
    assert_eq!(fixture.places("a").await, (1, 0, 0, 1));
    assert_eq!(kinds(&fixture).await.last(), Some(&EventKind::Quarantined));
    assert_eq!(numbers(&buy_one(&fixture, "bob").await), [2]);
    fixture.audited().await;
}

pub(super) async fn with_a_ledger_an_expired_hold_is_not_free_before_it_is_settled(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 1, 1)]).await;
    let hold = buy_one(&fixture, "ann").await;
    fixture.advance(s(11)).await;
    let answer = fixture.buy("bob", vec![line("a", 1)]).await;
    assert_eq!(answer, Reserved::AllHeld { sku: sku("a"), free: 0, next_expiry: None });
    assert_eq!(state(&fixture, &hold).await, HoldState::Expiring);
    assert!(matches!(confirm(&fixture, &hold).await, Decision::Refused(_)), "a late payment is refused");
    settle(&fixture, &hold, Verdict::Expired).await;
    assert_eq!(numbers(&buy_one(&fixture, "bob").await), [1]);
    fixture.audited().await;
}

// ── events, snapshot ────────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn events_are_numbered_without_gaps_and_paged(fixture: Fixture) {
    fixture.sell(&[("a", 3, 1)]).await;
    let hold = buy_one(&fixture, "ann").await;
    let off = buy_one(&fixture, "bob").await;
    confirm(&fixture, &hold).await;
    cancel(&fixture, &off).await;
    buy_one(&fixture, "cid").await;
    fixture.advance(s(11)).await;
    fixture.store.expire(&id(), 10).await.unwrap();
    fixture.store.end(&id()).await.unwrap();
    use EventKind::*;
    let expected = [Opened, Reserved, Reserved, Confirmed, Cancelled, Reserved, Expired, Ended];
    assert_eq!(kinds(&fixture).await, expected);
    let page = fixture.store.events(&id(), Page::after(3, 2)).await.unwrap();
    assert_eq!(page.iter().map(|event| event.seq).collect::<Vec<_>>(), [4, 5]);
    assert_eq!((page[0].reservation, page[0].units.clone()), (Some(hold.id), vec![(sku("a"), range(1, 1))]));
    assert!(fixture.store.events(&id(), Page::after(8, 10)).await.unwrap().is_empty());
    assert_eq!(fixture.store.sale(&id()).await.unwrap().seq, 8);
    fixture.audited().await;
}

pub(super) async fn middle_states_have_events_without_units(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let hold = buy_one(&fixture, "ann").await;
    confirm(&fixture, &hold).await;
    settle(&fixture, &hold, Verdict::Confirmed).await;
    let events = fixture.store.events(&id(), Page::after(2, 10)).await.unwrap();
    let seen: Vec<_> = events.iter().map(|event| (event.kind, event.units.len())).collect();
    assert_eq!(seen, [(EventKind::Confirming, 0), (EventKind::Confirmed, 1)]);
}

pub(super) async fn the_snapshot_shows_every_unit_in_its_place(fixture: Fixture) {
    fixture.sell(&[("a", 6, 2), ("b", 2, 2)]).await;
    let hold = reserved(fixture.buy("ann", vec![line("a", 2), line("b", 1)]).await);
    confirm(&fixture, &hold).await;
    buy_one(&fixture, "bob").await;
    stock(&fixture, StockChange::Withdraw(1)).await;
    let snapshot = fixture.store.snapshot(&id()).await.unwrap();
    let a = &snapshot.skus[0];
    assert_eq!((a.initial, a.total, a.held, a.confirmed, a.per_buyer), (6, 6, 1, 2, 2));
    assert_eq!((a.free.clone(), a.withdrawn.clone()), (vec![range(4, 5)], vec![range(6, 6)]));
    assert_eq!((snapshot.reservations.len(), snapshot.units.len(), snapshot.events.len()), (2, 4, 5));
    assert_eq!((snapshot.seq, snapshot.generation, snapshot.spec.ledger), (5, 1, false));
    fixture.audited().await;
}

pub(super) async fn wishes_outside_the_limits_are_refused(fixture: Fixture) {
    fixture.sell(&[("a", 3, 1), ("b", 3, 1)]).await;
    let many = (0..33).map(|n| line(&format!("x{n}"), 1)).collect::<Vec<Line>>();
    let twice = vec![line("a", 1), line("a", 1)];
    for lines in [Vec::new(), vec![line("a", 0)], vec![line("a", 1_001)], twice, many] {
        refused(fixture.store.reserve(fixture.wish("ann", "k", lines)).await);
    }
    let two_seats = fixture.wish("ann", "k", vec![line("a", 2), line("b", 1)]);
    refused(fixture.store.reserve(Reserve { choice: UnitChoice::SameNumber, ..two_seats }).await);
    for n in [0, SaleSpec::UNITS_MAX + 1] {
        refused(fixture.store.stock(fixture.op(), &id(), &sku("a"), StockChange::Add(n)).await);
        refused(fixture.store.stock(fixture.op(), &id(), &sku("a"), StockChange::Withdraw(n)).await);
    }
    for n in [0, 1_001] {
        refused(fixture.store.expire(&id(), n).await);
    }
    refused(fixture.store.settle(&id(), 1, Vec::new()).await);
    refused(fixture.store.events(&id(), Page::first(0)).await);
    refused(fixture.store.events(&id(), Page::first(10_001)).await);
    refused(fixture.store.sales(Page::first(0)).await);
    assert_eq!(kinds(&fixture).await, [EventKind::Opened]);
}

pub(super) async fn sales_outside_the_limits_are_refused(fixture: Fixture) {
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
        refused(fixture.store.create(fixture.spec(skus, false)).await);
    }
    let at = Some(rushgate_core::Timestamp::from_micros(5));
    refused(
        fixture
            .store
            .create(SaleSpec { opens_at: at, closes_at: at, ..fixture.spec(&[("a", 1, 1)], false) })
            .await,
    );
    assert!(fixture.store.sales(Page::default()).await.unwrap().is_empty());
}

// ── crowds ───────────────────────────────────────────────────────────────────────────────────────────────────────

async fn one_of_many_buyers(fixture: Fixture, n: usize) -> Option<Hold> {
    let store = if n.is_multiple_of(2) { fixture.store.clone() } else { fixture.peer() };
    let wish = fixture.wish(&format!("buyer-{}", n / 2), &format!("key-{n}"), vec![line("a", 1)]);
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

pub(super) async fn two_hundred_buyers_get_ten_units_between_them(fixture: Fixture) {
    fixture.sell(&[("a", 10, 1)]).await;
    let sent: Vec<_> = (0..200).map(|n| tokio::spawn(one_of_many_buyers(fixture.clone(), n))).collect();
    let mut units = BTreeSet::new();
    let mut buyers = BTreeSet::new();
    for buyer in sent {
        if let Some(hold) = buyer.await.expect("a repetition is answered the same way") {
            assert!(units.insert(numbers(&hold)[0]), "a unit was sold twice");
            assert!(buyers.insert(hold.buyer.clone()), "a buyer is over the limit");
        }
    }
    assert_eq!(units, (1..=10).collect());
    assert_eq!(fixture.places("a").await, (0, 10, 0, 0));
    fixture.audited().await;
}

pub(super) async fn one_row_decides_between_confirm_cancel_and_the_deadline(fixture: Fixture) {
    fixture.sell(&[("a", 20, 20)]).await;
    let mut holds = Vec::new();
    for _ in 0..20 {
        holds.push(buy_one(&fixture, "ann").await);
    }
    for hold in &holds {
        let sale = id();
        let (a, b, c) = (fixture.clone(), fixture.clone(), fixture.clone());
        let (one, two) = (hold.clone(), hold.clone());
        let confirm = tokio::spawn(async move { confirm(&a, &one).await });
        let cancel = tokio::spawn(async move { cancel(&b, &two).await });
        let expire = tokio::spawn(async move { c.store.expire(&sale, 10).await.unwrap() });
        let confirmed = matches!(confirm.await.unwrap(), Decision::Done(_));
        let cancelled = matches!(cancel.await.unwrap(), Decision::Done(_));
        expire.await.unwrap();
        assert!(confirmed ^ cancelled, "exactly one of them decides");
        let end = if confirmed { HoldState::Confirmed } else { HoldState::Cancelled };
        assert_eq!(state(&fixture, hold).await, end);
    }
    fixture.audited().await;
}
