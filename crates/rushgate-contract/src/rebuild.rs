//! Contract of sales after lost writes: halts, rebuilds and receipts.

use rushgate_core::{
    BuyerId, Decision, EventKind, HaltReason, Hold, HoldState, LedgerEntry, LedgerOrder, Line, Load, Op,
    OrderIntent, Page, Rebuilt, Receipt, ReservationId, Reserved, Restored, SaleId, Settled, Sku,
    StockChange, StockChanged, Stocktake, Switch, Timestamp, UnitNumber, UnitRange, Verbs, Verdict,
};

use crate::desk::*;

fn id() -> SaleId {
    sale_id("s")
}

fn one() -> Vec<Line> {
    vec![line("a", 1)]
}

async fn buy(desk: &Desk, buyer: &str) -> Hold {
    reserved(desk.buy(buyer, one()).await)
}

async fn pause(desk: &Desk, generation: u32) -> bool {
    desk.store.halt_sale(&id(), generation, HaltReason::Operator).await.unwrap()
}

fn order(n: u8, buyer: &str, state: OrderIntent, units: &[(&str, UnitNumber)]) -> LedgerOrder {
    LedgerOrder {
        id: ReservationId::from_bytes([n; 16]),
        buyer: BuyerId::new(buyer).unwrap(),
        state,
        generation: 1,
        seq: n.into(),
        units: units.iter().map(|(of, unit)| (sku(of), *unit)).collect(),
        returned: Vec::new(),
    }
}

fn orders_of(holds: &[Hold], state: OrderIntent) -> Load {
    let order = |hold: &Hold| LedgerOrder {
        id: hold.id,
        buyer: hold.buyer.clone(),
        state,
        generation: hold.generation,
        seq: hold.seq,
        units: hold.units.clone(),
        returned: Vec::new(),
    };
    Load::Orders(holds.iter().map(order).collect())
}

async fn begin(desk: &Desk) -> Op {
    let by = desk.op();
    desk.store.begin_rebuild(by, &id()).await.unwrap();
    by
}

async fn load(desk: &Desk, by: Op, part: Load) -> Rebuilt {
    load_for(desk, by, 3, part).await
}

async fn load_for(desk: &Desk, by: Op, generation: u32, part: Load) -> Rebuilt {
    desk.store.load(by, &id(), generation, part).await.unwrap()
}

async fn switch(desk: &Desk, by: Op, generation: u32, stock: &[(u32, u32)]) -> Rebuilt {
    switch_with(desk, by, generation, stock, s(0)).await
}

async fn switch_with(
    desk: &Desk,
    by: Op,
    generation: u32,
    stock: &[(u32, u32)],
    grace: std::time::Duration,
) -> Rebuilt {
    let take =
        |(total, handed_out): &(u32, u32)| Stocktake { total: *total, handed_out: *handed_out, ahead: 0 };
    let switch = Switch { generation, grace, stock: stock.iter().map(take).collect() };
    desk.store.switch(by, &id(), switch).await.unwrap()
}

/// Rebuilds the sale as if the ledger knew only these holds.
async fn lose_all_but(desk: &Desk, holds: &[Hold], total: u32) {
    let by = begin(desk).await;
    let owned: Vec<UnitNumber> = holds.iter().flat_map(numbers).collect();
    let highest = owned.iter().copied().max().unwrap_or(0);
    let generation = desk.store.sale(&id()).await.unwrap().generation + 2;
    if !holds.is_empty() {
        assert_eq!(load_for(desk, by, generation, orders_of(holds, OrderIntent::Hold)).await, Rebuilt::Done);
    }
    let free: Vec<_> = (1..highest).filter(|unit| !owned.contains(unit)).collect();
    if !free.is_empty() {
        assert_eq!(load_for(desk, by, generation, Load::Free(sku("a"), free)).await, Rebuilt::Done);
    }
    assert_eq!(switch(desk, by, generation, &[(total, highest)]).await, Rebuilt::Done);
}

fn receipt(hold: &Hold) -> Receipt {
    Receipt::of(&id(), hold)
}

async fn restore(desk: &Desk, receipt: Receipt) -> Restored {
    desk.store.restore(receipt).await.unwrap()
}

fn halted(answer: &Reserved, now: Timestamp) -> bool {
    matches!(answer, Reserved::Halted { retry_at } if *retry_at > now)
}

pub(super) async fn a_halted_sale_stands_still(desk: Desk) {
    desk.sell_with_ledger(&[("a", 5, 1)]).await;
    let wish = desk.wish("ann", "k", one());
    let hold = reserved(desk.store.reserve(wish.clone()).await.unwrap());
    assert!(!pause(&desk, 2).await, "it is of another generation");
    assert!(matches!(desk.buy("bob", one()).await, Reserved::Reserved(_)));
    assert!(pause(&desk, 1).await);
    assert!(pause(&desk, 1).await, "twice is once");

    let now = desk.now().await;
    assert!(halted(&desk.buy("cid", one()).await, now));
    assert_eq!(desk.store.reserve(wish).await.unwrap(), Reserved::Replayed(hold.clone()));
    assert_eq!(desk.store.confirm(&id(), hold.id).await.unwrap(), Decision::Halted);
    assert_eq!(desk.store.cancel_hold(&id(), hold.id).await.unwrap(), Decision::Halted);
    let lost = ReservationId::from_bytes([9; 16]);
    assert_eq!(desk.store.confirm(&id(), lost).await.unwrap(), Decision::Halted);
    desk.advance(s(11)).await;
    assert_eq!(desk.store.expire(&id(), 10).await.unwrap(), 0);
    let more = desk.store.stock(desk.op(), &id(), &sku("a"), StockChange::Add(1)).await.unwrap();
    assert_eq!(more, StockChanged::Halted);

    let state = desk.store.sale(&id()).await.unwrap();
    let pause = state.halted.expect("the sale is halted");
    assert_eq!(pause.reason, HaltReason::Operator);
    assert_eq!(desk.places("a").await, (3, 2, 0, 0));
    desk.audited().await;
}

pub(super) async fn a_stock_change_that_was_refused_stays_so_when_it_is_sent_again(desk: Desk) {
    desk.sell_with_ledger(&[("a", 5, 1)]).await;
    pause(&desk, 1).await;
    let op = desk.op();
    let add = async || desk.store.stock(op, &id(), &sku("a"), StockChange::Add(1)).await.unwrap();
    assert_eq!(add().await, StockChanged::Halted);
    lose_all_but(&desk, &[], 5).await;
    assert_eq!(add().await, StockChanged::Halted, "the same call has the same answer");
    assert_eq!(desk.places("a").await, (5, 0, 0, 0));
    desk.audited().await;
}

pub(super) async fn a_paused_sale_that_is_over_says_so(desk: Desk) {
    desk.sell_with_ledger(&[("a", 5, 1)]).await;
    pause(&desk, 1).await;
    desk.store.end(&id()).await.unwrap();
    assert_eq!(desk.buy("bob", one()).await, Reserved::Ended);
}

pub(super) async fn a_sale_without_a_ledger_cannot_be_rebuilt(desk: Desk) {
    desk.sell(&[("a", 5, 1)]).await;
    refused(desk.store.halt_sale(&id(), 1, HaltReason::Operator).await);
    refused(desk.store.begin_rebuild(desk.op(), &id()).await);
    unknown(desk.store.begin_rebuild(desk.op(), &sale_id("nobody")).await);
    assert!(matches!(desk.buy("bob", one()).await, Reserved::Reserved(_)));
}

pub(super) async fn a_rebuild_takes_the_place_of_the_sale(desk: Desk) {
    desk.sell_with_ledger(&[("a", 4, 3), ("b", 2, 1)]).await;
    let lost = reserved(desk.buy("ann", vec![line("a", 2)]).await);
    let by = begin(&desk).await;
    let known = [
        order(1, "bob", OrderIntent::Confirm, &[("a", 5), ("b", 2)]),
        order(2, "bob", OrderIntent::Hold, &[("a", 2)]),
        order(3, "cid", OrderIntent::Cancel, &[]),
        order(4, "dee", OrderIntent::Expire, &[]),
    ];
    assert_eq!(load(&desk, by, Load::Orders(known[..2].to_vec())).await, Rebuilt::Done);
    assert_eq!(load(&desk, by, Load::Orders(known[2..].to_vec())).await, Rebuilt::Done);
    assert_eq!(load(&desk, by, Load::Free(sku("a"), vec![1, 4])).await, Rebuilt::Done);
    assert_eq!(load(&desk, by, Load::Free(sku("b"), vec![1])).await, Rebuilt::Done);
    assert_eq!(load(&desk, by, Load::Withdrawn(sku("a"), vec![UnitRange::one(3)])).await, Rebuilt::Done);
    assert!(halted(&desk.buy("eve", one()).await, desk.now().await), "not before the switch");
    assert_eq!(desk.places("a").await, (2, 2, 0, 0), "what is there stays as it is");
    assert_eq!(switch(&desk, by, 3, &[(6, 5), (2, 2)]).await, Rebuilt::Done);

    assert_eq!(desk.places("a").await, (3, 1, 1, 1));
    assert_eq!(desk.places("b").await, (1, 0, 1, 0));
    let state = desk.store.sale(&id()).await.unwrap();
    assert_eq!((state.generation, state.halted), (3, None));
    desk.audited().await;
    let events = desk.store.events(&id(), Page::first(1)).await.unwrap();
    assert_eq!((events[0].seq, events[0].kind), (1, EventKind::Rebuilt));

    assert_eq!(desk.store.reservation(&id(), lost.id).await.unwrap(), None);
    assert_eq!(desk.store.confirm(&id(), lost.id).await.unwrap(), Decision::Unknown);
    for (order, state) in
        known.iter().zip([HoldState::Confirmed, HoldState::Held, HoldState::Cancelled, HoldState::Expired])
    {
        let hold = desk.store.reservation(&id(), order.id).await.unwrap().expect("the ledger has it");
        assert_eq!((hold.state, &hold.buyer, hold.generation), (state, &order.buyer, 3));
        assert_eq!(hold.units, order.units);
    }
    assert!(matches!(desk.buy("bob", vec![line("a", 2)]).await, Reserved::LimitReached { has: 2, .. }));
    assert!(matches!(desk.store.confirm(&id(), known[1].id).await.unwrap(), Decision::Pending(_)));
    let next = reserved(desk.buy("fay", vec![line("a", 3)]).await);
    assert_eq!(numbers(&next), [1, 4, 6]);
    desk.audited().await;
}

pub(super) async fn what_was_withdrawn_stays_so_in_a_rebuild(desk: Desk) {
    desk.sell_with_ledger(&[("a", 4, 9)]).await;
    let by = begin(&desk).await;
    let range = |first, last| UnitRange::new(first, last).unwrap();
    load(&desk, by, Load::Orders(vec![order(1, "bob", OrderIntent::Confirm, &[("a", 3)])])).await;
    for _ in 0..2 {
        load(&desk, by, Load::Withdrawn(sku("a"), vec![range(1, 2), range(5, 6), range(9, 10)])).await;
    }
    let stock = vec![Stocktake { total: 10, handed_out: 3, ahead: 4 }];
    let switch = Switch { generation: 3, grace: s(0), stock };
    assert_eq!(desk.store.switch(by, &id(), switch).await.unwrap(), Rebuilt::Done);
    assert_eq!(desk.places("a").await, (3, 0, 1, 6));
    desk.audited().await;
    let hold = reserved(desk.buy("ann", vec![line("a", 3)]).await);
    assert_eq!(numbers(&hold), [4, 7, 8]);
    assert!(matches!(desk.buy("cid", one()).await, Reserved::AllHeld { .. }));
    desk.audited().await;
}

pub(super) async fn a_part_that_is_loaded_twice_counts_once(desk: Desk) {
    desk.sell_with_ledger(&[("a", 4, 1)]).await;
    let by = begin(&desk).await;
    for _ in 0..2 {
        load(&desk, by, Load::Orders(vec![order(1, "bob", OrderIntent::Confirm, &[("a", 3)])])).await;
        load(&desk, by, Load::Free(sku("a"), vec![1])).await;
        load(&desk, by, Load::Withdrawn(sku("a"), vec![UnitRange::one(2)])).await;
        desk.store.begin_rebuild(by, &id()).await.unwrap();
    }
    assert_eq!(switch(&desk, by, 3, &[(4, 3)]).await, Rebuilt::Done);
    assert_eq!(switch(&desk, by, 3, &[(4, 3)]).await, Rebuilt::Done, "twice is once");
    assert_eq!(desk.places("a").await, (2, 0, 1, 1));
    desk.audited().await;
}

pub(super) async fn what_does_not_add_up_is_not_switched_to(desk: Desk) {
    desk.sell_with_ledger(&[("a", 4, 1)]).await;
    let by = begin(&desk).await;
    load(&desk, by, Load::Orders(vec![order(1, "bob", OrderIntent::Confirm, &[("a", 3)])])).await;
    assert_eq!(switch(&desk, by, 3, &[(4, 3)]).await, Rebuilt::Incomplete, "1 and 2 are missing");
    load(&desk, by, Load::Free(sku("a"), vec![1, 2])).await;
    assert_eq!(switch(&desk, by, 1, &[(4, 3)]).await, Rebuilt::Incomplete, "a generation is new");
    assert_eq!(desk.places("a").await, (4, 0, 0, 0));
    assert_eq!(switch(&desk, by, 3, &[(4, 3)]).await, Rebuilt::Done);
    assert_eq!(desk.places("a").await, (3, 0, 1, 0));
}

pub(super) async fn whoever_begins_last_rebuilds(desk: Desk) {
    desk.sell_with_ledger(&[("a", 4, 1)]).await;
    let first = begin(&desk).await;
    load(&desk, first, Load::Orders(vec![order(1, "bob", OrderIntent::Hold, &[("a", 1)])])).await;
    assert_eq!(load(&desk, first, Load::Orders(Vec::new())).await, Rebuilt::Done, "the rebuild continues");
    let second = begin(&desk).await;
    assert_eq!(load(&desk, first, Load::Orders(Vec::new())).await, Rebuilt::Superseded);
    assert_eq!(load(&desk, first, Load::Free(sku("a"), vec![2])).await, Rebuilt::Superseded);
    assert_eq!(switch(&desk, first, 3, &[(4, 2)]).await, Rebuilt::Superseded);
    assert_eq!(switch(&desk, second, 5, &[(4, 0)]).await, Rebuilt::Done, "the first rebuild's data is gone");
    assert_eq!(desk.places("a").await, (4, 0, 0, 0));
    assert_eq!(load(&desk, second, Load::Free(sku("a"), vec![2])).await, Rebuilt::Superseded, "it is done");
    desk.store.begin_rebuild(second, &id()).await.unwrap();
    assert_eq!(desk.store.sale(&id()).await.unwrap().halted, None, "a late call has no effect");
    refused(desk.store.load(second, &id(), 3, Load::Free(sku("a"), Vec::new())).await);
    desk.audited().await;
}

pub(super) async fn a_receipt_gives_the_same_units_back(desk: Desk) {
    desk.sell_with_ledger(&[("a", 5, 2)]).await;
    let kept = buy(&desk, "ann").await;
    let wish = desk.wish("bob", "k", vec![line("a", 2)]);
    let lost = reserved(desk.store.reserve(wish.clone()).await.unwrap());
    let known = restore(&desk, receipt(&lost)).await;
    assert_eq!(known, Restored::Known(lost.clone()), "nothing was lost");
    lose_all_but(&desk, std::slice::from_ref(&kept), 5).await;

    let Restored::Restored(back) = restore(&desk, receipt(&lost)).await else { panic!("they are free") };
    assert_eq!((&back.units, back.id, back.state), (&lost.units, lost.id, HoldState::Held));
    assert_eq!(back.generation, 3);
    assert_eq!(restore(&desk, receipt(&lost)).await, Restored::Known(back.clone()), "twice is once");
    assert_eq!(desk.store.reserve(wish).await.unwrap(), Reserved::Replayed(back.clone()));
    assert_eq!(desk.places("a").await, (2, 3, 0, 0));
    assert!(matches!(desk.store.confirm(&id(), back.id).await.unwrap(), Decision::Pending(_)));
    let orders = desk.undelivered().await;
    let is_order =
        |entry: &LedgerEntry| matches!(entry, LedgerEntry::Reservation { id, .. } if *id == back.id);
    assert!(orders.iter().any(is_order), "an order for the ledger exists: {orders:?}");
    desk.audited().await;
}

pub(super) async fn a_receipt_gives_other_units_if_those_are_gone(desk: Desk) {
    desk.sell_with_ledger(&[("a", 3, 3)]).await;
    let lost = [buy(&desk, "ann").await, buy(&desk, "bob").await, buy(&desk, "cid").await];
    lose_all_but(&desk, &[], 3).await;
    let stranger = buy(&desk, "dee").await;
    assert_eq!(numbers(&stranger), numbers(&lost[0]));
    let Restored::Restored(back) = restore(&desk, receipt(&lost[0])).await else { panic!("2 is free") };
    assert_eq!(numbers(&back), [2]);
    let Restored::Restored(back) = restore(&desk, receipt(&lost[2])).await else { panic!("3 is free") };
    assert_eq!(numbers(&back), [3]);
    let none = restore(&desk, receipt(&lost[1])).await;
    assert_eq!(none, Restored::NoneLeft { sku: sku("a"), free: 0 });
    desk.audited().await;
}

pub(super) async fn a_receipt_does_not_lift_the_limit(desk: Desk) {
    desk.sell_with_ledger(&[("a", 3, 1)]).await;
    let lost = buy(&desk, "ann").await;
    lose_all_but(&desk, &[], 3).await;
    buy(&desk, "ann").await;
    let refused = restore(&desk, receipt(&lost)).await;
    assert_eq!(refused, Restored::LimitReached { sku: sku("a"), limit: 1, has: 1 });
}

pub(super) async fn a_receipt_of_a_hold_that_ran_out_is_not_honoured(desk: Desk) {
    desk.sell_with_ledger(&[("a", 3, 1)]).await;
    let old = buy(&desk, "ann").await;
    desk.advance(s(5)).await;
    let young = buy(&desk, "bob").await;
    desk.advance(s(6)).await;
    pause(&desk, 1).await;
    // No buyer could pay while the sale was halted, so that time does not count.
    desk.advance(s(60)).await;
    lose_all_but(&desk, &[], 3).await;
    assert_eq!(restore(&desk, receipt(&old)).await, Restored::Expired);
    desk.advance(s(4)).await;
    let Restored::Restored(back) = restore(&desk, receipt(&young)).await else { panic!("it ran") };
    near(back.time_left(desk.now().await), s(6));
    desk.advance(s(7)).await;
    let another = Receipt { id: ReservationId::from_bytes([8; 16]), ..receipt(&young) };
    assert_eq!(restore(&desk, another).await, Restored::Expired, "a hold time after the switch");
}

pub(super) async fn a_receipt_of_this_generation_proves_a_lost_write(desk: Desk) {
    desk.sell_with_ledger(&[("a", 3, 1)]).await;
    let hold = buy(&desk, "ann").await;
    let lost = Receipt { id: ReservationId::from_bytes([8; 16]), ..receipt(&hold) };
    assert!(matches!(restore(&desk, lost.clone()).await, Restored::Halted { .. }));
    let state = desk.store.sale(&id()).await.unwrap();
    assert_eq!(state.halted.map(|halt| halt.reason), Some(HaltReason::LostWrites));
    assert!(matches!(restore(&desk, lost).await, Restored::Halted { .. }));
    assert!(matches!(restore(&desk, receipt(&hold)).await, Restored::Known(_)));
    desk.audited().await;
}

pub(super) async fn receipts_come_before_strangers(desk: Desk) {
    desk.sell_with_ledger(&[("a", 1, 1)]).await;
    let lost = buy(&desk, "ann").await;
    let by = begin(&desk).await;
    assert_eq!(switch_with(&desk, by, 3, &[(1, 0)], s(5)).await, Rebuilt::Done);
    let until = desk.store.sale(&id()).await.unwrap().receipts_until.expect("only receipts for a while");
    assert_eq!(desk.buy("bob", one()).await, Reserved::Halted { retry_at: until });
    let Restored::Restored(back) = restore(&desk, receipt(&lost)).await else { panic!("it is free") };
    assert!(matches!(desk.store.cancel_hold(&id(), back.id).await.unwrap(), Decision::Pending(_)));
    desk.advance(s(6)).await;
    assert_eq!(desk.store.sale(&id()).await.unwrap().receipts_until, None);
    assert!(matches!(desk.buy("bob", one()).await, Reserved::AllHeld { .. }));
}

pub(super) async fn a_receipt_finds_one_seat_over_several_segments(desk: Desk) {
    desk.sell_with_ledger(&[("a", 3, 1), ("b", 3, 1)]).await;
    let wish = desk.wish("ann", "k", vec![line("b", 1), line("a", 1)]);
    let wish = rushgate_core::Reserve { choice: rushgate_core::UnitChoice::SameNumber, ..wish };
    let lost = reserved(desk.store.reserve(wish).await.unwrap());
    assert_eq!(lost.units, [(sku("b"), 1), (sku("a"), 1)]);
    let by = begin(&desk).await;
    load(&desk, by, Load::Orders(vec![order(1, "bob", OrderIntent::Confirm, &[("a", 1)])])).await;
    assert_eq!(switch(&desk, by, 3, &[(3, 1), (3, 0)]).await, Rebuilt::Done);
    let Restored::Restored(back) = restore(&desk, receipt(&lost)).await else { panic!("2 is free in both") };
    assert_eq!(back.units, [(sku("b"), 2), (sku("a"), 2)]);
    desk.audited().await;
}

pub(super) async fn verdicts_of_another_generation_change_nothing(desk: Desk) {
    desk.sell_with_ledger(&[("a", 3, 1)]).await;
    let hold = buy(&desk, "ann").await;
    lose_all_but(&desk, std::slice::from_ref(&hold), 3).await;
    let rejected = vec![(hold.id, Verdict::Rejected { units_taken: true })];
    let late = desk.store.settle(&id(), 1, rejected.clone()).await.unwrap();
    assert_eq!(late, [Settled::Unchanged(HoldState::Held)]);
    assert_eq!(desk.store.settle(&id(), 3, rejected).await.unwrap(), [Settled::Settled]);
    desk.audited().await;
}

pub(super) async fn a_sale_can_be_rebuilt_again_and_again(desk: Desk) {
    desk.sell_with_ledger(&[("a", 5, 1)]).await;
    let mut known = Vec::new();
    for (at, buyer) in ["ann", "bob", "cid", "dee"].into_iter().enumerate() {
        let hold = buy(&desk, buyer).await;
        assert_eq!(numbers(&hold), [at as u32 + 1]);
        known.push(hold);
        lose_all_but(&desk, &known, 5).await;
        desk.audited().await;
    }
    assert_eq!(desk.store.sale(&id()).await.unwrap().generation, 9);
    assert_eq!(desk.places("a").await, (1, 4, 0, 0));
}

pub(super) async fn parts_of_an_unknown_sku_are_refused(desk: Desk) {
    desk.sell_with_ledger(&[("a", 5, 1)]).await;
    let by = begin(&desk).await;
    unknown(desk.store.load(by, &id(), 3, Load::Free(Sku::new("z").unwrap(), vec![1])).await);
    let strange = order(1, "bob", OrderIntent::Confirm, &[("z", 3)]);
    unknown(desk.store.load(by, &id(), 3, Load::Orders(vec![strange])).await);
    assert_eq!(switch(&desk, by, 3, &[(5, 0)]).await, Rebuilt::Done);
}
