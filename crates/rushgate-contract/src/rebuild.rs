//! Contract of sales after lost writes: halts, rebuilds and receipts.

use rushgate_core::{
    BuyerId, Decision, EventKind, HaltReason, Hold, HoldState, LedgerEntry, LedgerOrder, Line, Load, Op,
    OrderIntent, Page, Rebuilt, Receipt, ReservationId, Reserved, Restored, SaleId, Settled, Sku,
    StockChange, StockChanged, Stocktake, Switch, Timestamp, UnitNumber, UnitRange, Verbs, Verdict,
};

use crate::fixture::*;

fn id() -> SaleId {
    sale_id("s")
}

fn one() -> Vec<Line> {
    vec![line("a", 1)]
}

async fn buy(fixture: &Fixture, buyer: &str) -> Hold {
    reserved(fixture.buy(buyer, one()).await)
}

async fn pause(fixture: &Fixture, generation: u32) -> bool {
    fixture.store.halt_sale(&id(), generation, HaltReason::Operator).await.unwrap()
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

async fn begin(fixture: &Fixture) -> Op {
    let by = fixture.op();
    fixture.store.begin_rebuild(by, &id()).await.unwrap();
    by
}

async fn load(fixture: &Fixture, by: Op, part: Load) -> Rebuilt {
    load_for(fixture, by, 3, part).await
}

async fn load_for(fixture: &Fixture, by: Op, generation: u32, part: Load) -> Rebuilt {
    fixture.store.load(by, &id(), generation, part).await.unwrap()
}

async fn switch(fixture: &Fixture, by: Op, generation: u32, stock: &[(u32, u32)]) -> Rebuilt {
    switch_with(fixture, by, generation, stock, s(0)).await
}

async fn switch_with(
    fixture: &Fixture,
    by: Op,
    generation: u32,
    stock: &[(u32, u32)],
    grace: std::time::Duration,
) -> Rebuilt {
    let take =
        |(total, handed_out): &(u32, u32)| Stocktake { total: *total, handed_out: *handed_out, ahead: 0 };
    let switch = Switch { generation, grace, stock: stock.iter().map(take).collect() };
    fixture.store.switch(by, &id(), switch).await.unwrap()
}

/// Rebuilds the sale as if the ledger knew only these holds.
async fn lose_all_but(fixture: &Fixture, holds: &[Hold], total: u32) {
    let by = begin(fixture).await;
    let owned: Vec<UnitNumber> = holds.iter().flat_map(numbers).collect();
    let highest = owned.iter().copied().max().unwrap_or(0);
    let generation = fixture.store.sale(&id()).await.unwrap().generation + 2;
    if !holds.is_empty() {
        assert_eq!(
            load_for(fixture, by, generation, orders_of(holds, OrderIntent::Hold)).await,
            Rebuilt::Done
        );
    }
    let free: Vec<_> = (1..highest).filter(|unit| !owned.contains(unit)).collect();
    if !free.is_empty() {
        assert_eq!(load_for(fixture, by, generation, Load::Free(sku("a"), free)).await, Rebuilt::Done);
    }
    assert_eq!(switch(fixture, by, generation, &[(total, highest)]).await, Rebuilt::Done);
}

fn receipt(hold: &Hold) -> Receipt {
    Receipt::of(&id(), hold)
}

async fn restore(fixture: &Fixture, receipt: Receipt) -> Restored {
    fixture.store.restore(receipt).await.unwrap()
}

fn halted(answer: &Reserved, now: Timestamp) -> bool {
    matches!(answer, Reserved::Halted { retry_at } if *retry_at > now)
}

pub(super) async fn a_halted_sale_stands_still(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 5, 1)]).await;
    let wish = fixture.wish("ann", "k", one());
    let hold = reserved(fixture.store.reserve(wish.clone()).await.unwrap());
    assert!(!pause(&fixture, 2).await, "it is of another generation");
    assert!(matches!(fixture.buy("bob", one()).await, Reserved::Reserved(_)));
    assert!(pause(&fixture, 1).await);
    assert!(pause(&fixture, 1).await, "twice is once");

    let now = fixture.now().await;
    assert!(halted(&fixture.buy("cid", one()).await, now));
    assert_eq!(fixture.store.reserve(wish).await.unwrap(), Reserved::Replayed(hold.clone()));
    assert_eq!(fixture.store.confirm(&id(), hold.id).await.unwrap(), Decision::Halted);
    assert_eq!(fixture.store.cancel_hold(&id(), hold.id).await.unwrap(), Decision::Halted);
    let lost = ReservationId::from_bytes([9; 16]);
    assert_eq!(fixture.store.confirm(&id(), lost).await.unwrap(), Decision::Halted);
    fixture.advance(s(11)).await;
    assert_eq!(fixture.store.expire(&id(), 10).await.unwrap(), 0);
    let more = fixture.store.stock(fixture.op(), &id(), &sku("a"), StockChange::Add(1)).await.unwrap();
    assert_eq!(more, StockChanged::Halted);

    let state = fixture.store.sale(&id()).await.unwrap();
    let pause = state.halted.expect("the sale is halted");
    assert_eq!(pause.reason, HaltReason::Operator);
    assert_eq!(fixture.places("a").await, (3, 2, 0, 0));
    fixture.audited().await;
}

pub(super) async fn a_stock_change_that_was_refused_stays_so_when_it_is_sent_again(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 5, 1)]).await;
    pause(&fixture, 1).await;
    let op = fixture.op();
    let add = async || fixture.store.stock(op, &id(), &sku("a"), StockChange::Add(1)).await.unwrap();
    assert_eq!(add().await, StockChanged::Halted);
    lose_all_but(&fixture, &[], 5).await;
    assert_eq!(add().await, StockChanged::Halted, "the same call has the same answer");
    assert_eq!(fixture.places("a").await, (5, 0, 0, 0));
    fixture.audited().await;
}

pub(super) async fn a_paused_sale_that_is_over_says_so(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 5, 1)]).await;
    pause(&fixture, 1).await;
    fixture.store.end(&id()).await.unwrap();
    assert_eq!(fixture.buy("bob", one()).await, Reserved::Ended);
}

pub(super) async fn a_sale_without_a_ledger_cannot_be_rebuilt(fixture: Fixture) {
    fixture.sell(&[("a", 5, 1)]).await;
    refused(fixture.store.halt_sale(&id(), 1, HaltReason::Operator).await);
    refused(fixture.store.begin_rebuild(fixture.op(), &id()).await);
    unknown(fixture.store.begin_rebuild(fixture.op(), &sale_id("nobody")).await);
    assert!(matches!(fixture.buy("bob", one()).await, Reserved::Reserved(_)));
}

pub(super) async fn a_rebuild_takes_the_place_of_the_sale(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 4, 3), ("b", 2, 1)]).await;
    let lost = reserved(fixture.buy("ann", vec![line("a", 2)]).await);
    let by = begin(&fixture).await;
    let known = [
        order(1, "bob", OrderIntent::Confirm, &[("a", 5), ("b", 2)]),
        order(2, "bob", OrderIntent::Hold, &[("a", 2)]),
        order(3, "cid", OrderIntent::Cancel, &[]),
        order(4, "dee", OrderIntent::Expire, &[]),
    ];
    assert_eq!(load(&fixture, by, Load::Orders(known[..2].to_vec())).await, Rebuilt::Done);
    assert_eq!(load(&fixture, by, Load::Orders(known[2..].to_vec())).await, Rebuilt::Done);
    assert_eq!(load(&fixture, by, Load::Free(sku("a"), vec![1, 4])).await, Rebuilt::Done);
    assert_eq!(load(&fixture, by, Load::Free(sku("b"), vec![1])).await, Rebuilt::Done);
    assert_eq!(load(&fixture, by, Load::Withdrawn(sku("a"), vec![UnitRange::one(3)])).await, Rebuilt::Done);
    assert!(halted(&fixture.buy("eve", one()).await, fixture.now().await), "not before the switch");
    assert_eq!(fixture.places("a").await, (2, 2, 0, 0), "what is there stays as it is");
    assert_eq!(switch(&fixture, by, 3, &[(6, 5), (2, 2)]).await, Rebuilt::Done);

    assert_eq!(fixture.places("a").await, (3, 1, 1, 1));
    assert_eq!(fixture.places("b").await, (1, 0, 1, 0));
    let state = fixture.store.sale(&id()).await.unwrap();
    assert_eq!((state.generation, state.halted), (3, None));
    fixture.audited().await;
    let events = fixture.store.events(&id(), Page::first(1)).await.unwrap();
    assert_eq!((events[0].seq, events[0].kind), (1, EventKind::Rebuilt));

    assert_eq!(fixture.store.reservation(&id(), lost.id).await.unwrap(), None);
    assert_eq!(fixture.store.confirm(&id(), lost.id).await.unwrap(), Decision::Unknown);
    for (order, state) in
        known.iter().zip([HoldState::Confirmed, HoldState::Held, HoldState::Cancelled, HoldState::Expired])
    {
        let hold = fixture.store.reservation(&id(), order.id).await.unwrap().expect("the ledger has it");
        assert_eq!((hold.state, &hold.buyer, hold.generation), (state, &order.buyer, 3));
        assert_eq!(hold.units, order.units);
    }
    assert!(matches!(fixture.buy("bob", vec![line("a", 2)]).await, Reserved::LimitReached { has: 2, .. }));
    assert!(matches!(fixture.store.confirm(&id(), known[1].id).await.unwrap(), Decision::Pending(_)));
    let next = reserved(fixture.buy("fay", vec![line("a", 3)]).await);
    assert_eq!(numbers(&next), [1, 4, 6]);
    fixture.audited().await;
}

pub(super) async fn what_was_withdrawn_stays_so_in_a_rebuild(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 4, 9)]).await;
    let by = begin(&fixture).await;
    let range = |first, last| UnitRange::new(first, last).unwrap();
    load(&fixture, by, Load::Orders(vec![order(1, "bob", OrderIntent::Confirm, &[("a", 3)])])).await;
    for _ in 0..2 {
        load(&fixture, by, Load::Withdrawn(sku("a"), vec![range(1, 2), range(5, 6), range(9, 10)])).await;
    }
    let stock = vec![Stocktake { total: 10, handed_out: 3, ahead: 4 }];
    let switch = Switch { generation: 3, grace: s(0), stock };
    assert_eq!(fixture.store.switch(by, &id(), switch).await.unwrap(), Rebuilt::Done);
    assert_eq!(fixture.places("a").await, (3, 0, 1, 6));
    fixture.audited().await;
    let hold = reserved(fixture.buy("ann", vec![line("a", 3)]).await);
    assert_eq!(numbers(&hold), [4, 7, 8]);
    assert!(matches!(fixture.buy("cid", one()).await, Reserved::AllHeld { .. }));
    fixture.audited().await;
}

pub(super) async fn a_part_that_is_loaded_twice_counts_once(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 4, 1)]).await;
    let by = begin(&fixture).await;
    for _ in 0..2 {
        load(&fixture, by, Load::Orders(vec![order(1, "bob", OrderIntent::Confirm, &[("a", 3)])])).await;
        load(&fixture, by, Load::Free(sku("a"), vec![1])).await;
        load(&fixture, by, Load::Withdrawn(sku("a"), vec![UnitRange::one(2)])).await;
        fixture.store.begin_rebuild(by, &id()).await.unwrap();
    }
    assert_eq!(switch(&fixture, by, 3, &[(4, 3)]).await, Rebuilt::Done);
    assert_eq!(switch(&fixture, by, 3, &[(4, 3)]).await, Rebuilt::Done, "twice is once");
    assert_eq!(fixture.places("a").await, (2, 0, 1, 1));
    fixture.audited().await;
}

pub(super) async fn what_does_not_add_up_is_not_switched_to(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 4, 1)]).await;
    let by = begin(&fixture).await;
    load(&fixture, by, Load::Orders(vec![order(1, "bob", OrderIntent::Confirm, &[("a", 3)])])).await;
    assert_eq!(switch(&fixture, by, 3, &[(4, 3)]).await, Rebuilt::Incomplete, "1 and 2 are missing");
    load(&fixture, by, Load::Free(sku("a"), vec![1, 2])).await;
    assert_eq!(switch(&fixture, by, 1, &[(4, 3)]).await, Rebuilt::Incomplete, "a generation is new");
    assert_eq!(fixture.places("a").await, (4, 0, 0, 0));
    assert_eq!(switch(&fixture, by, 3, &[(4, 3)]).await, Rebuilt::Done);
    assert_eq!(fixture.places("a").await, (3, 0, 1, 0));
}

pub(super) async fn the_latest_rebuild_wins(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 4, 1)]).await;
    let first = begin(&fixture).await;
    load(&fixture, first, Load::Orders(vec![order(1, "bob", OrderIntent::Hold, &[("a", 1)])])).await;
    assert_eq!(load(&fixture, first, Load::Orders(Vec::new())).await, Rebuilt::Done, "the rebuild continues");
    let second = begin(&fixture).await;
    assert_eq!(load(&fixture, first, Load::Orders(Vec::new())).await, Rebuilt::Superseded);
    assert_eq!(load(&fixture, first, Load::Free(sku("a"), vec![2])).await, Rebuilt::Superseded);
    assert_eq!(switch(&fixture, first, 3, &[(4, 2)]).await, Rebuilt::Superseded);
    assert_eq!(
        switch(&fixture, second, 5, &[(4, 0)]).await,
        Rebuilt::Done,
        "the first rebuild's data is gone"
    );
    assert_eq!(fixture.places("a").await, (4, 0, 0, 0));
    assert_eq!(
        load(&fixture, second, Load::Free(sku("a"), vec![2])).await,
        Rebuilt::Superseded,
        "it is done"
    );
    fixture.store.begin_rebuild(second, &id()).await.unwrap();
    assert_eq!(fixture.store.sale(&id()).await.unwrap().halted, None, "a late call has no effect");
    refused(fixture.store.load(second, &id(), 3, Load::Free(sku("a"), Vec::new())).await);
    fixture.audited().await;
}

pub(super) async fn a_receipt_gives_the_same_units_back(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 5, 2)]).await;
    let kept = buy(&fixture, "ann").await;
    let wish = fixture.wish("bob", "k", vec![line("a", 2)]);
    let lost = reserved(fixture.store.reserve(wish.clone()).await.unwrap());
    let known = restore(&fixture, receipt(&lost)).await;
    assert_eq!(known, Restored::Known(lost.clone()), "nothing was lost");
    lose_all_but(&fixture, std::slice::from_ref(&kept), 5).await;

    let Restored::Restored(back) = restore(&fixture, receipt(&lost)).await else { panic!("they are free") };
    assert_eq!((&back.units, back.id, back.state), (&lost.units, lost.id, HoldState::Held));
    assert_eq!(back.generation, 3);
    assert_eq!(restore(&fixture, receipt(&lost)).await, Restored::Known(back.clone()), "twice is once");
    assert_eq!(fixture.store.reserve(wish).await.unwrap(), Reserved::Replayed(back.clone()));
    assert_eq!(fixture.places("a").await, (2, 3, 0, 0));
    assert!(matches!(fixture.store.confirm(&id(), back.id).await.unwrap(), Decision::Pending(_)));
    let orders = fixture.undelivered().await;
    let is_order =
        |entry: &LedgerEntry| matches!(entry, LedgerEntry::Reservation { id, .. } if *id == back.id);
    assert!(orders.iter().any(is_order), "an order for the ledger exists: {orders:?}");
    fixture.audited().await;
}

pub(super) async fn a_receipt_gives_other_units_if_those_are_gone(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 3)]).await;
    let lost = [buy(&fixture, "ann").await, buy(&fixture, "bob").await, buy(&fixture, "cid").await];
    lose_all_but(&fixture, &[], 3).await;
    let stranger = buy(&fixture, "dee").await;
    assert_eq!(numbers(&stranger), numbers(&lost[0]));
    let Restored::Restored(back) = restore(&fixture, receipt(&lost[0])).await else { panic!("2 is free") };
    assert_eq!(numbers(&back), [2]);
    let Restored::Restored(back) = restore(&fixture, receipt(&lost[2])).await else { panic!("3 is free") };
    assert_eq!(numbers(&back), [3]);
    let none = restore(&fixture, receipt(&lost[1])).await;
    assert_eq!(none, Restored::NoneLeft { sku: sku("a"), free: 0 });
    fixture.audited().await;
}

pub(super) async fn a_receipt_does_not_lift_the_limit(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let lost = buy(&fixture, "ann").await;
    lose_all_but(&fixture, &[], 3).await;
    buy(&fixture, "ann").await;
    let refused = restore(&fixture, receipt(&lost)).await;
    assert_eq!(refused, Restored::LimitReached { sku: sku("a"), limit: 1, has: 1 });
}

pub(super) async fn a_receipt_of_a_hold_that_ran_out_is_not_honoured(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let old = buy(&fixture, "ann").await;
    fixture.advance(s(5)).await;
    let young = buy(&fixture, "bob").await;
    fixture.advance(s(6)).await;
    pause(&fixture, 1).await;
    // No buyer could pay while the sale was halted, so that time does not count.
    fixture.advance(s(60)).await;
    lose_all_but(&fixture, &[], 3).await;
    assert_eq!(restore(&fixture, receipt(&old)).await, Restored::Expired);
    fixture.advance(s(4)).await;
    let Restored::Restored(back) = restore(&fixture, receipt(&young)).await else { panic!("it ran") };
    near(back.time_left(fixture.now().await), s(6));
    fixture.advance(s(7)).await;
    let another = Receipt { id: ReservationId::from_bytes([8; 16]), ..receipt(&young) };
    assert_eq!(restore(&fixture, another).await, Restored::Expired, "a hold time after the switch");
}

pub(super) async fn a_receipt_of_this_generation_proves_a_lost_write(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let hold = buy(&fixture, "ann").await;
    let lost = Receipt { id: ReservationId::from_bytes([8; 16]), ..receipt(&hold) };
    assert!(matches!(restore(&fixture, lost.clone()).await, Restored::Halted { .. }));
    let state = fixture.store.sale(&id()).await.unwrap();
    assert_eq!(state.halted.map(|halt| halt.reason), Some(HaltReason::LostWrites));
    assert!(matches!(restore(&fixture, lost).await, Restored::Halted { .. }));
    assert!(matches!(restore(&fixture, receipt(&hold)).await, Restored::Known(_)));
    fixture.audited().await;
}

pub(super) async fn receipts_come_before_strangers(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 1, 1)]).await;
    let lost = buy(&fixture, "ann").await;
    let by = begin(&fixture).await;
    assert_eq!(switch_with(&fixture, by, 3, &[(1, 0)], s(5)).await, Rebuilt::Done);
    let until = fixture.store.sale(&id()).await.unwrap().receipts_until.expect("only receipts for a while");
    assert_eq!(fixture.buy("bob", one()).await, Reserved::Halted { retry_at: until });
    let Restored::Restored(back) = restore(&fixture, receipt(&lost)).await else { panic!("it is free") };
    assert!(matches!(fixture.store.cancel_hold(&id(), back.id).await.unwrap(), Decision::Pending(_)));
    fixture.advance(s(6)).await;
    assert_eq!(fixture.store.sale(&id()).await.unwrap().receipts_until, None);
    assert!(matches!(fixture.buy("bob", one()).await, Reserved::AllHeld { .. }));
}

pub(super) async fn a_receipt_finds_one_seat_over_several_segments(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1), ("b", 3, 1)]).await;
    let wish = fixture.wish("ann", "k", vec![line("b", 1), line("a", 1)]);
    let wish = rushgate_core::Reserve { choice: rushgate_core::UnitChoice::SameNumber, ..wish };
    let lost = reserved(fixture.store.reserve(wish).await.unwrap());
    assert_eq!(lost.units, [(sku("b"), 1), (sku("a"), 1)]);
    let by = begin(&fixture).await;
    load(&fixture, by, Load::Orders(vec![order(1, "bob", OrderIntent::Confirm, &[("a", 1)])])).await;
    assert_eq!(switch(&fixture, by, 3, &[(3, 1), (3, 0)]).await, Rebuilt::Done);
    let Restored::Restored(back) = restore(&fixture, receipt(&lost)).await else {
        panic!("2 is free in both")
    };
    assert_eq!(back.units, [(sku("b"), 2), (sku("a"), 2)]);
    fixture.audited().await;
}

pub(super) async fn verdicts_of_another_generation_change_nothing(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 3, 1)]).await;
    let hold = buy(&fixture, "ann").await;
    lose_all_but(&fixture, std::slice::from_ref(&hold), 3).await;
    let rejected = vec![(hold.id, Verdict::Rejected { units_taken: true })];
    let late = fixture.store.settle(&id(), 1, rejected.clone()).await.unwrap();
    assert_eq!(late, [Settled::Unchanged(HoldState::Held)]);
    assert_eq!(fixture.store.settle(&id(), 3, rejected).await.unwrap(), [Settled::Settled]);
    fixture.audited().await;
}

pub(super) async fn a_sale_can_be_rebuilt_again_and_again(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 5, 1)]).await;
    let mut known = Vec::new();
    for (at, buyer) in ["ann", "bob", "cid", "dee"].into_iter().enumerate() {
        let hold = buy(&fixture, buyer).await;
        assert_eq!(numbers(&hold), [at as u32 + 1]);
        known.push(hold);
        lose_all_but(&fixture, &known, 5).await;
        fixture.audited().await;
    }
    assert_eq!(fixture.store.sale(&id()).await.unwrap().generation, 9);
    assert_eq!(fixture.places("a").await, (1, 4, 0, 0));
}

pub(super) async fn parts_of_an_unknown_sku_are_refused(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 5, 1)]).await;
    let by = begin(&fixture).await;
    unknown(fixture.store.load(by, &id(), 3, Load::Free(Sku::new("z").unwrap(), vec![1])).await);
    let strange = order(1, "bob", OrderIntent::Confirm, &[("z", 3)]);
    unknown(fixture.store.load(by, &id(), 3, Load::Orders(vec![strange])).await);
    assert_eq!(switch(&fixture, by, 3, &[(5, 0)]).await, Rebuilt::Done);
}
