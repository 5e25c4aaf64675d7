//! How the stock of a sale changes.

use super::*;

#[track_caller]
fn changed(answer: StockChanged) -> SkuState {
    match answer {
        StockChanged::Changed(now) => now,
        other => panic!("expected a change, not {other:?}"),
    }
}

/// Total and withdrawn units in the entry for the ledger of the stock change with that event number.
async fn stock_entry(fixture: &Fixture, event: u64) -> (u32, Vec<UnitRange>) {
    let of_event = |entry: &LedgerEntry| matches!(entry, LedgerEntry::Stock { seq, .. } if *seq == event);
    let Some(LedgerEntry::Stock { sale, sku: of, total, withdrawn, per_buyer, .. }) =
        fixture.undelivered().await.into_iter().find(of_event)
    else {
        panic!("event {event} has no entry");
    };
    assert_eq!((sale, of, per_buyer), (id(), sku("a"), fixture.sku("a").await.per_buyer));
    (total, withdrawn)
}

pub(crate) async fn added_units_are_numbered_on(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 2, 5)]).await;
    let StockChanged::Changed(now) = stock(&fixture, StockChange::Add(3)).await else {
        panic!("there is room")
    };
    assert_eq!((now.total, now.free), (5, 5));
    assert_eq!(numbers(&reserved(fixture.buy("ann", vec![line("a", 5)]).await)), [1, 2, 3, 4, 5]);
    let events = fixture.store.events(&id(), Page::first(10)).await.unwrap();
    assert_eq!(events[1].kind, EventKind::StockAdded);
    assert_eq!(events[1].units, [(sku("a"), range(3, 5))]);
    assert_eq!(fixture.store.sale(&id()).await.unwrap().spec.skus[0].units, 2, "the spec stays");
    assert_eq!(stock_entry(&fixture, 2).await, (5, vec![]));
    fixture.audited().await;
}

pub(crate) async fn withdrawn_units_are_the_highest_free_ones(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 6, 6)]).await;
    let mut holds = Vec::new();
    for buyer in ["ann", "bob", "cid"] {
        holds.push(buy_one(&fixture, buyer).await);
    }
    for hold in [&holds[0], &holds[2]] {
        cancel(&fixture, hold).await;
        settle(&fixture, hold, Verdict::Cancelled).await;
    }
    assert_eq!(stock(&fixture, StockChange::Withdraw(6)).await, StockChanged::NotEnough { free: 5 });
    let now = changed(stock(&fixture, StockChange::Withdraw(4)).await);
    assert_eq!((now.total, now.free, now.held, now.withdrawn), (6, 1, 1, 4));
    let events = fixture.store.events(&id(), Page::first(100)).await.unwrap();
    let withdrawal = events.last().unwrap();
    assert_eq!(withdrawal.units, [(sku("a"), range(3, 6))]);
    assert_eq!(stock_entry(&fixture, withdrawal.seq).await, (6, vec![range(3, 6)]));
    assert_eq!(numbers(&buy_one(&fixture, "dan").await), [1]);
    fixture.audited().await;
}

pub(crate) async fn what_is_withdrawn_between_held_units_is_named_piece_by_piece(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 30, 1)]).await;
    let mut holds = Vec::new();
    for n in 1..=20 {
        holds.push(buy_one(&fixture, &format!("buyer-{n}")).await);
    }
    for hold in holds.iter().step_by(2) {
        cancel(&fixture, hold).await;
        settle(&fixture, hold, Verdict::Cancelled).await;
    }
    assert_eq!(fixture.places("a").await, (20, 10, 0, 0));
    let now = changed(stock(&fixture, StockChange::Withdraw(15)).await);
    assert_eq!((now.free, now.withdrawn), (5, 15));
    let events = fixture.store.events(&id(), Page::first(1_000)).await.unwrap();
    let withdrawal = events.last().unwrap();
    let mut pieces: Vec<_> = (11..=19).step_by(2).map(UnitRange::one).collect();
    pieces.push(range(21, 30));
    let named: Vec<_> = pieces.iter().map(|piece| (sku("a"), *piece)).collect();
    assert_eq!(withdrawal.units, named);
    assert_eq!(stock_entry(&fixture, withdrawal.seq).await, (30, pieces));
    assert_eq!(numbers(&buy_one(&fixture, "last").await), [1]);
    fixture.audited().await;
}

pub(crate) async fn units_added_above_withdrawn_ones_are_sold_after_those_below(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 5, 9), ("b", 9, 9)]).await;
    changed(stock(&fixture, StockChange::Withdraw(2)).await);
    let now = changed(stock(&fixture, StockChange::Add(3)).await);
    assert_eq!((now.total, now.free, now.withdrawn), (8, 6, 2));
    fixture.audited().await;
    assert_eq!(numbers(&reserved(fixture.buy("ann", vec![line("a", 2)]).await)), [1, 2]);
    assert_eq!(numbers(&reserved(fixture.buy("bob", vec![line("a", 2)]).await)), [3, 6]);
    // The highest fresh units again: earlier and current withdrawals meet at the top.
    let now = changed(stock(&fixture, StockChange::Withdraw(1)).await);
    assert_eq!((now.free, now.withdrawn), (1, 3));
    changed(stock(&fixture, StockChange::Add(2)).await);
    let seq = fixture.store.sale(&id()).await.unwrap().seq + 1;
    changed(stock(&fixture, StockChange::Withdraw(3)).await);
    let events = fixture.store.events(&id(), Page::after(seq - 1, 1)).await.unwrap();
    assert_eq!(events[0].units, [(sku("a"), range(7, 7)), (sku("a"), range(9, 10))]);
    assert_eq!(stock_entry(&fixture, seq).await, (10, vec![range(7, 7), range(9, 10)]));
    assert!(matches!(fixture.buy("cid", vec![line("a", 1)]).await, Reserved::AllHeld { free: 0, .. }));
    assert_eq!(fixture.places("a").await, (0, 4, 0, 6));
    fixture.audited().await;
}

pub(crate) async fn one_seat_is_found_above_withdrawn_ones(fixture: Fixture) {
    fixture.sell(&[("a", 5, 9), ("b", 10, 9)]).await;
    changed(stock(&fixture, StockChange::Withdraw(2)).await);
    changed(stock(&fixture, StockChange::Add(5)).await);
    reserved(fixture.buy("ann", vec![line("b", 3)]).await);
    let seat = |key: &str| {
        let wish = fixture.wish("bob", key, vec![line("a", 1), line("b", 1)]);
        fixture.store.reserve(Reserve { choice: UnitChoice::SameNumber, ..wish })
    };
    assert_eq!(numbers(&reserved(seat("1").await.unwrap())), [6, 6], "4 and 5 of a are withdrawn");
    assert_eq!(fixture.places("a").await, (7, 1, 0, 2));
    fixture.audited().await;
    assert_eq!(numbers(&reserved(fixture.buy("cid", vec![line("a", 5)]).await)), [1, 2, 3, 7, 8]);
    assert_eq!(numbers(&reserved(fixture.buy("cid", vec![line("b", 3)]).await)), [4, 5, 7]);
    assert_eq!(numbers(&reserved(seat("2").await.unwrap())), [9, 9]);
    fixture.audited().await;
}

pub(crate) async fn a_million_units_are_withdrawn_in_one_step(fixture: Fixture) {
    fixture.sell_with_ledger(&[("a", 2_000_000, 5)]).await;
    buy_one(&fixture, "ann").await;
    let now = changed(stock(&fixture, StockChange::Withdraw(1_000_000)).await);
    assert_eq!((now.total, now.free, now.held, now.withdrawn), (2_000_000, 999_999, 1, 1_000_000));
    let withdrawn = range(1_000_001, 2_000_000);
    let events = fixture.store.events(&id(), Page::after(2, 10)).await.unwrap();
    assert_eq!((events[0].seq, &events[0].units[..]), (3, &[(sku("a"), withdrawn)][..]));
    assert_eq!(stock_entry(&fixture, 3).await, (2_000_000, vec![withdrawn]));
    let now = changed(stock(&fixture, StockChange::Add(10)).await);
    assert_eq!((now.total, now.free, now.withdrawn), (2_000_010, 1_000_009, 1_000_000));
    assert_eq!(stock_entry(&fixture, 4).await, (2_000_010, vec![]), "earlier units are not repeated");
    let snapshot = fixture.store.snapshot(&id()).await.unwrap();
    assert_eq!(snapshot.skus[0].free, [range(2, 1_000_000), range(2_000_001, 2_000_010)]);
    assert_eq!(snapshot.skus[0].withdrawn, [withdrawn]);
    assert_eq!(numbers(&reserved(fixture.buy("bob", vec![line("a", 2)]).await)), [2, 3]);
    fixture.audited().await;
}

pub(crate) async fn one_call_withdraws_a_limited_number_of_returned_units(fixture: Fixture) {
    let (units, carts) = (30_000, 21);
    fixture.sell(&[("a", units, 1_000)]).await;
    let mut holds = Vec::new();
    for n in 0..carts {
        holds.push(reserved(fixture.buy(&format!("buyer-{n}"), vec![line("a", 1_000)]).await));
    }
    for hold in &holds {
        cancel(&fixture, hold).await;
    }
    let most = units - carts * 1_000 + StockChange::GIVEN_BACK_MAX;
    let withdraw = |n| fixture.store.stock(fixture.op(), &id(), &sku("a"), StockChange::Withdraw(n));
    assert_eq!(withdraw(most + 1).await.unwrap(), StockChanged::TooLarge { most: 29_000 });
    assert_eq!(fixture.places("a").await, (units, 0, 0, 0));
    let now = changed(withdraw(most).await.unwrap());
    assert_eq!((now.free, now.withdrawn), (1_000, 29_000));
    let events = fixture.store.events(&id(), Page::after(1 + 2 * u64::from(carts), 10)).await.unwrap();
    assert_eq!(events[0].units, [(sku("a"), range(1_001, units))]);
    assert_eq!(changed(withdraw(1_000).await.unwrap()).free, 0);
    fixture.audited().await;
}

pub(crate) async fn a_stock_change_sent_twice_is_carried_out_once(fixture: Fixture) {
    fixture.sell(&[("a", 2, 5)]).await;
    let (add, withdraw) = (fixture.op(), fixture.op());
    let first = fixture.store.stock(add, &id(), &sku("a"), StockChange::Add(3)).await.unwrap();
    assert_eq!(fixture.store.stock(add, &id(), &sku("a"), StockChange::Add(3)).await.unwrap(), first);
    for _ in 0..2 {
        fixture.store.stock(withdraw, &id(), &sku("a"), StockChange::Withdraw(1)).await.unwrap();
    }
    assert_eq!(fixture.places("a").await, (4, 0, 0, 1));
    fixture.audited().await;
}

pub(crate) async fn an_op_names_one_stock_change(fixture: Fixture) {
    fixture.sell(&[("a", 2, 5), ("b", 2, 5)]).await;
    let op = fixture.op();
    let first = fixture.store.stock(op, &id(), &sku("a"), StockChange::Add(3)).await.unwrap();
    for (other, change) in
        [("a", StockChange::Add(4)), ("a", StockChange::Withdraw(3)), ("b", StockChange::Add(3))]
    {
        let answer = fixture.peer().stock(op, &id(), &sku(other), change).await.unwrap();
        assert_eq!(answer, StockChanged::KeyReused, "{other} {change:?}");
    }
    let again = fixture.peer().stock(op, &id(), &sku("a"), StockChange::Add(3)).await.unwrap();
    assert_eq!(again, first, "another client is answered as the first was");
    assert_eq!((fixture.places("a").await, fixture.places("b").await), ((5, 0, 0, 0), (2, 0, 0, 0)));
    fixture.audited().await;
}

pub(crate) async fn more_stock_than_can_be_numbered_is_refused(fixture: Fixture) {
    fixture.sell(&[("a", 2, 5)]).await;
    let most = SaleSpec::UNITS_MAX - 2;
    let (op, add) = (fixture.op(), StockChange::Add(most + 1));
    let refused = fixture.store.stock(op, &id(), &sku("a"), add).await.unwrap();
    assert_eq!(refused, StockChanged::TooLarge { most });
    assert_eq!(fixture.places("a").await, (2, 0, 0, 0));
    changed(fixture.store.stock(fixture.op(), &id(), &sku("a"), StockChange::Withdraw(1)).await.unwrap());
    let again = fixture.peer().stock(op, &id(), &sku("a"), add).await.unwrap();
    assert_eq!(again, refused, "the same step is answered the same way");
    fixture.audited().await;
}
