//! Answers of `write`, and the resulting records.

use std::time::Duration;

use crate::common::bench::{Bench, Raw};
use crate::common::{
    assert_sound, cart, find, id, order, phone_units, phones, range, sale, sku, stock, stock_ranges,
    withdrawn, write_one,
};
use rushgate_core::OrderIntent::{Cancel, Confirm, Expire, Hold};
use rushgate_core::{
    Error, HoldTime, LedgerEntry, LedgerRefusal, SaleSecret, SaleSpec, SkuSpec, StockChange, UnitRange,
};
use rushgate_ledger::{KnownSale, LedgerSale, Refusal, Written, connect};

fn reassigned(state: rushgate_core::OrderIntent, units: &[u32]) -> Written {
    Written::Reassigned { state, units: units.iter().map(|unit| (sku("phone"), *unit)).collect() }
}

async fn a_redelivery_is_answered_the_same_way_and_changes_nothing(bench: Bench) {
    let ledger = bench.ledger(10, 2).await;
    for entry in [
        order(1, "ann", &[1], Hold),
        order(1, "ann", &[1], Confirm),
        order(2, "bob", &[2, 3], Confirm),
        order(3, "cid", &[4], Cancel),
        order(4, "dan", &[1], Confirm), // reassigned
        stock(12, &[12], 2),
        order(5, "ann", &[5, 6], Confirm), // over the limit
    ] {
        let first = write_one(&*ledger, entry.clone()).await;
        let snapshot = ledger.snapshot(&sale()).await.unwrap();
        let again = ledger.write(vec![entry.clone(), entry.clone()]).await.unwrap();
        assert_eq!(again, [first.clone(), first], "{entry:?}");
        assert_eq!(ledger.snapshot(&sale()).await.unwrap(), snapshot, "{entry:?}");
        assert_sound(&snapshot);
    }
}

async fn an_order_moves_once_and_what_stands_is_answered(bench: Bench) {
    for (n, end) in [(1, Confirm), (2, Cancel), (3, Expire)] {
        let ledger = bench.ledger(10, 1).await;
        assert_eq!(write_one(&*ledger, order(n, "ann", &[n], Hold)).await, Written::Recorded(Hold));
        assert_eq!(write_one(&*ledger, order(n, "ann", &[n], end)).await, Written::Recorded(end));
        for later in [Hold, Confirm, Cancel, Expire] {
            assert_eq!(write_one(&*ledger, order(n, "ann", &[n], later)).await, Written::Recorded(end));
        }
        let snapshot = ledger.snapshot(&sale()).await.unwrap();
        let order = find(&snapshot, n).unwrap();
        assert_eq!(order.state, end);
        assert_eq!(phone_units(order), if end == Confirm { vec![n] } else { vec![] });
    }
}

async fn a_decision_may_come_without_its_hold(bench: Bench) {
    let ledger = bench.ledger(10, 1).await;
    for (n, intent) in [(1, Confirm), (2, Cancel), (3, Expire)] {
        let buyer = format!("buyer-{n}");
        assert_eq!(write_one(&*ledger, order(n, &buyer, &[n], intent)).await, Written::Recorded(intent));
    }
    let snapshot = ledger.snapshot(&sale()).await.unwrap();
    assert_eq!(snapshot.orders.iter().map(|order| order.units.len()).collect::<Vec<_>>(), [1, 0, 0]);
    // An ended order owns nothing, so it blocks no one and cannot be refused because of its former units.
    assert_eq!(write_one(&*ledger, order(4, "dan", &[2], Hold)).await, Written::Recorded(Hold));
    assert_eq!(write_one(&*ledger, order(5, "eve", &[1, 99], Cancel)).await, Written::Recorded(Cancel));
    assert_eq!(
        write_one(&*ledger, cart(6, "eve", &[("unheard-of", 1)], Expire)).await,
        Written::Recorded(Expire)
    );
}

async fn units_and_the_buyers_places_come_back_with_a_cancellation(bench: Bench) {
    let ledger = bench.ledger(3, 2).await;
    write_one(&*ledger, order(1, "ann", &[1], Hold)).await;
    write_one(&*ledger, order(2, "ann", &[2], Hold)).await;
    write_one(&*ledger, order(1, "ann", &[1], Cancel)).await;
    assert_eq!(write_one(&*ledger, order(3, "ann", &[1], Confirm)).await, Written::Recorded(Confirm));
    assert_eq!(
        write_one(&*ledger, order(4, "ann", &[3], Confirm)).await,
        Written::Refused(Refusal::LimitReached)
    );
    assert_eq!(write_one(&*ledger, order(5, "bob", &[3], Confirm)).await, Written::Recorded(Confirm));
}

async fn one_offender_does_not_affect_the_rest_of_its_batch(bench: Bench) {
    for offender_at in [0, 250, 499] {
        let ledger = bench.ledger(1_000, 1).await;
        write_one(&*ledger, order(1_000, "winner", &[900], Confirm)).await;
        let mut batch: Vec<_> = (1..500).map(|n| order(n, &format!("buyer-{n}"), &[n], Hold)).collect();
        batch.insert(offender_at, order(1_001, "winner", &[950], Hold));
        let written = ledger.write(batch).await.unwrap();
        for (at, written) in written.iter().enumerate() {
            let refused = Written::Refused(Refusal::LimitReached);
            assert_eq!(*written, if at == offender_at { refused } else { Written::Recorded(Hold) });
        }
        let snapshot = ledger.snapshot(&sale()).await.unwrap();
        assert_eq!(snapshot.orders.len(), 500);
        assert!(find(&snapshot, 1_001).is_none());
    }
}

async fn a_cart_is_recorded_whole_or_not_at_all(bench: Bench) {
    let ledger = bench.ledger(3, 3).await;
    write_one(&*ledger, order(1, "ann", &[1, 2, 3], Confirm)).await;
    let mut both = phones(3, 3);
    both.skus.push(SkuSpec { sku: sku("case"), units: 5, per_buyer: 1 });
    ledger.open_sale(both).await.unwrap();
    let refused = write_one(&*ledger, cart(2, "bob", &[("case", 1), ("phone", 3)], Confirm)).await;
    assert_eq!(refused, Written::Refused(Refusal::UnitTaken));
    let free = write_one(&*ledger, cart(3, "bob", &[("case", 1)], Confirm)).await;
    assert_eq!(
        free,
        Written::Recorded(Confirm),
        "the case of the refused cart is free, and so is bob's place"
    );
}

async fn a_taken_unit_is_replaced_by_the_highest_free_one_until_none_is_left(bench: Bench) {
    let ledger = bench.ledger(6, 3).await;
    write_one(&*ledger, stock(6, &[5], 3)).await;
    write_one(&*ledger, order(1, "ann", &[1, 2], Confirm)).await;
    let batch = vec![
        order(2, "bob", &[1], Hold),
        order(3, "cid", &[3, 1], Confirm),
        order(4, "dan", &[1], Confirm),
        order(5, "eve", &[1], Confirm),
    ];
    let expected = [
        reassigned(Hold, &[6]),
        reassigned(Confirm, &[3, 4]),
        Written::Refused(Refusal::UnitTaken),
        Written::Refused(Refusal::UnitTaken),
    ];
    assert_eq!(ledger.write(batch.clone()).await.unwrap(), expected);
    assert!(expected.iter().all(Written::shows_lost_writes));
    assert_eq!(ledger.write(batch).await.unwrap(), expected);
    let snapshot = ledger.snapshot(&sale()).await.unwrap();
    assert_sound(&snapshot);
    assert_eq!(phone_units(find(&snapshot, 3).unwrap()), [3, 4]);
    // The buyer of the replacement pays: the order keeps its new unit.
    assert_eq!(write_one(&*ledger, order(2, "bob", &[1], Confirm)).await, reassigned(Confirm, &[6]));
}

async fn a_final_refusal_stays_when_the_unit_comes_back_but_not_in_a_new_generation(bench: Bench) {
    let ledger = bench.ledger(1, 1).await;
    write_one(&*ledger, order(1, "ann", &[1], Hold)).await;
    let bobs = order(2, "bob", &[1], Confirm);
    let refused = Written::Refused(Refusal::UnitTaken);
    assert_eq!(write_one(&*ledger, bobs.clone()).await, refused);
    write_one(&*ledger, order(1, "ann", &[1], Expire)).await;
    assert_eq!(write_one(&*ledger, bobs.clone()).await, refused, "the store was informed");
    let mut rebuilt = bobs;
    if let LedgerEntry::Reservation { generation, .. } = &mut rebuilt {
        *generation = 2;
    }
    assert_eq!(write_one(&*ledger, rebuilt).await, Written::Recorded(Confirm));
}

fn in_generation(mut entry: LedgerEntry, of: u32) -> LedgerEntry {
    if let LedgerEntry::Reservation { generation, .. } = &mut entry {
        *generation = of;
    }
    entry
}

async fn a_new_generation_is_closed_to_entries_of_older_ones(bench: Bench) {
    let ledger = bench.ledger(5, 1).await;
    write_one(&*ledger, order(1, "ann", &[1], Hold)).await;
    write_one(&*ledger, order(2, "bob", &[2], Confirm)).await;
    assert_eq!(ledger.advance(&sale()).await.unwrap(), 2);
    assert_eq!(ledger.advance(&sale()).await.unwrap(), 3);
    let late = Written::Refused(Refusal::OldGeneration);
    let batch = vec![
        order(3, "cid", &[3], Hold),
        order(1, "ann", &[1], Confirm),
        in_generation(order(4, "dee", &[4], Hold), 2),
        in_generation(order(5, "eve", &[5], Confirm), 3),
        order(1, "ann", &[1], Hold),
        order(2, "bob", &[2], Expire),
    ];
    let repeated = [Written::Recorded(Hold), Written::Recorded(Confirm)];
    let expected = [late.clone(), late.clone(), late.clone(), Written::Recorded(Confirm)];
    let expected: Vec<_> = expected.into_iter().chain(repeated).collect();
    assert_eq!(ledger.write(batch.clone()).await.unwrap(), expected);
    assert_eq!(ledger.write(batch).await.unwrap(), expected);
    assert_eq!(late.verdict(Confirm), None);
    let moved = in_generation(order(1, "ann", &[1], Confirm), 3);
    assert_eq!(write_one(&*ledger, moved).await, Written::Recorded(Confirm));
    assert_sound(&ledger.snapshot(&sale()).await.unwrap());
    let nobody = rushgate_core::SaleId::new("nobody").unwrap();
    assert!(ledger.advance(&nobody).await.unwrap_err().is_not_found());
}

async fn a_sale_is_known_with_its_specification(bench: Bench) {
    let ledger = bench.ledger(5, 1).await;
    let known = KnownSale { generation: 1, latest_seq: 0, spec: None };
    assert_eq!(ledger.find_sale(&sale()).await.unwrap(), Some(known.clone()));
    let spec = SaleSpec {
        id: sale(),
        skus: phones(5, 1).skus,
        hold: HoldTime::new(Duration::from_secs(5)).unwrap(),
        opens_at: None,
        closes_at: None,
        metadata: String::new(),
        ledger: true,
        secret: SaleSecret::from_bytes([7; 16]),
    };
    let told = LedgerSale { spec: Some(spec.clone()), ..phones(5, 1) };
    ledger.open_sale(told.clone()).await.unwrap();
    let other = SaleSpec { secret: SaleSecret::from_bytes([8; 16]), ..spec.clone() };
    ledger.open_sale(LedgerSale { spec: Some(other), ..told }).await.unwrap();
    ledger.open_sale(phones(5, 1)).await.unwrap();
    write_one(&*ledger, order(7, "ann", &[1], Hold)).await;
    let known = KnownSale { latest_seq: 7, spec: Some(spec), ..known };
    assert_eq!(ledger.find_sale(&sale()).await.unwrap(), Some(known), "the first word counts");
    assert_eq!(ledger.find_sale(&rushgate_core::SaleId::new("nobody").unwrap()).await.unwrap(), None);
}

async fn every_refusal_has_its_name(bench: Bench) {
    let ledger = bench.ledger(5, 1).await;
    write_one(&*ledger, order(1, "ann", &[1], Confirm)).await;
    write_one(&*ledger, stock(5, &[5], 1)).await;
    let mut same_seq = order(2, "bob", &[2], Hold);
    if let LedgerEntry::Reservation { seq, .. } = &mut same_seq {
        *seq = 1;
    }
    let mut elsewhere = order(3, "bob", &[2], Hold);
    if let LedgerEntry::Reservation { sale, .. } = &mut elsewhere {
        *sale = rushgate_core::SaleId::new("elsewhere").unwrap();
    }
    for (entry, refusal) in [
        (same_seq, Refusal::SequenceReused),
        (elsewhere, Refusal::UnknownSale),
        (order(1, "bob", &[1], Confirm), Refusal::OtherBuyer),
        (order(4, "bob", &[6], Hold), Refusal::NotForSale),
        (cart(5, "bob", &[("case", 1)], Hold), Refusal::NotForSale),
        (order(6, "bob", &[5], Hold), Refusal::Withdrawn),
        (order(7, "ann", &[2], Hold), Refusal::LimitReached),
    ] {
        let snapshot = ledger.snapshot(&sale()).await.unwrap();
        assert_eq!(write_one(&*ledger, entry).await, Written::Refused(refusal));
        let after = ledger.snapshot(&sale()).await.unwrap();
        assert_eq!((after.skus, after.orders), (snapshot.skus, snapshot.orders));
    }
    let refusals = ledger.snapshot(&sale()).await.unwrap().refusals;
    assert_eq!(refusals, [LedgerRefusal { id: id(7), generation: 1, units_taken: false }]);
    assert_eq!(ledger.counters().refused, 7);
}

async fn an_order_for_a_new_unit_does_not_depend_on_where_the_stock_stands_in_the_batch(bench: Bench) {
    let ledger = bench.ledger(1, 1).await;
    assert_eq!(
        write_one(&*ledger, order(1, "ann", &[2], Hold)).await,
        Written::Refused(Refusal::NotForSale),
        "the stock is still on its way"
    );
    let written = ledger.write(vec![order(1, "ann", &[2], Hold), stock(2, &[], 1)]).await.unwrap();
    assert_eq!(written, [Written::Recorded(Hold), Written::Stocked { owned: vec![] }]);
}

async fn stock_never_shrinks_and_a_buyers_unit_is_not_withdrawn(bench: Bench) {
    let ledger = bench.ledger(10, 1).await;
    write_one(&*ledger, order(1, "ann", &[3], Confirm)).await;
    let written = write_one(&*ledger, stock(12, &[2, 3, 12], 1)).await;
    assert_eq!(written, Written::Stocked { owned: vec![3] });
    assert!(written.shows_lost_writes());
    write_one(&*ledger, stock(11, &[], 1)).await;
    ledger.open_sale(phones(10, 1)).await.unwrap();
    let snapshot = ledger.snapshot(&sale()).await.unwrap();
    assert_eq!((snapshot.skus[0].total, withdrawn(&snapshot)), (12, &[range(2, 2), range(12, 12)][..]));
}

async fn changes_of_stock_may_come_in_any_order_and_more_than_once(bench: Bench) {
    let changes = [
        stock_ranges(20, vec![range(15, 20)], 1),
        stock_ranges(30, vec![], 1),
        stock_ranges(30, vec![range(4, 4), range(12, 30)], 1),
        stock_ranges(40, vec![range(1, 2), range(8, 9)], 1),
    ];
    for order_of in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
        let ledger = bench.ledger(20, 1).await;
        for at in order_of {
            let told = write_one(&*ledger, changes[at].clone()).await;
            let snapshot = ledger.snapshot(&sale()).await.unwrap();
            let again = ledger.write(vec![changes[at].clone(), changes[at].clone()]).await.unwrap();
            assert_eq!(again, [told.clone(), told.clone()]);
            assert_eq!(told, Written::Stocked { owned: vec![] });
            assert_eq!(ledger.snapshot(&sale()).await.unwrap(), snapshot, "nothing is written twice");
        }
        let snapshot = ledger.snapshot(&sale()).await.unwrap();
        let all = [range(1, 2), range(4, 4), range(8, 9), range(12, 30)];
        assert_eq!(UnitRange::gather(withdrawn(&snapshot).iter().copied()), all);
        assert_eq!(snapshot.skus[0].total, 40);
    }
}

async fn what_lies_between_the_units_of_orders_is_withdrawn(bench: Bench) {
    let ledger = bench.ledger(2_000_000, 3).await;
    write_one(&*ledger, order(1, "ann", &[3, 5, 1_500_000], Confirm)).await;
    write_one(&*ledger, order(2, "bob", &[1_000_000, 2_000_000], Hold)).await;
    let change = stock_ranges(2_000_000, vec![range(4, 6), range(1_000_001, 2_000_000)], 3);
    for _ in 0..2 {
        let owned = vec![5, 1_500_000, 2_000_000];
        assert_eq!(write_one(&*ledger, change.clone()).await, Written::Stocked { owned });
    }
    let snapshot = ledger.snapshot(&sale()).await.unwrap();
    let all = [range(4, 4), range(6, 6), range(1_000_001, 1_499_999), range(1_500_001, 1_999_999)];
    assert_eq!(withdrawn(&snapshot), all);
    assert_sound(&snapshot);
    let last = write_one(&*ledger, order(3, "cid", &[1_999_999], Hold)).await;
    assert_eq!(last, Written::Refused(Refusal::Withdrawn));
    // The unit is owned: the highest free one lies below the withdrawn range.
    assert_eq!(write_one(&*ledger, order(4, "dan", &[3], Hold)).await, reassigned(Hold, &[999_999]));
}

async fn a_change_with_as_many_pieces_as_there_may_be_is_one_step(bench: Bench) {
    let most = StockChange::GIVEN_BACK_MAX;
    let ledger = bench.ledger(2 * most, 1).await;
    let pieces: Vec<_> = (1..=most).map(|n| range(2 * n, 2 * n)).collect();
    let change = stock_ranges(2 * most, pieces.clone(), 1);
    for _ in 0..2 {
        assert_eq!(write_one(&*ledger, change.clone()).await, Written::Stocked { owned: vec![] });
    }
    assert_eq!(withdrawn(&ledger.snapshot(&sale()).await.unwrap()), pieces);
    assert_eq!(write_one(&*ledger, order(1, "ann", &[7], Hold)).await, Written::Recorded(Hold));
    assert_eq!(write_one(&*ledger, order(2, "bob", &[8], Hold)).await, Written::Refused(Refusal::Withdrawn));
}

async fn a_sale_is_opened_once_and_its_limit_is_fixed(bench: Bench) {
    let ledger = bench.ledger(10, 2).await;
    ledger.open_sale(phones(10, 2)).await.unwrap();
    let mut other = phones(10, 3);
    other.skus.insert(0, SkuSpec { sku: sku("case"), units: 1, per_buyer: 1 });
    let error = ledger.open_sale(other).await.unwrap_err();
    assert!(error.is_invalid() && error.to_string().contains("limit per buyer"), "{error}");
    let snapshot = ledger.snapshot(&sale()).await.unwrap();
    assert_eq!(snapshot.skus.len(), 1, "nothing of the refused call was kept");
    assert_eq!(snapshot.skus[0].per_buyer, 2);
}

async fn what_is_outside_the_limits_is_refused_before_it_is_sent(bench: Bench) {
    let ledger = bench.ledger(10, 2).await;
    let invalid: fn(Error) -> bool = |error| error.is_invalid();
    let one = || order(1, "ann", &[1], Hold);
    for batch in [
        vec![],
        vec![one(); 1_001],
        vec![order(1, "ann", &[], Hold)],
        vec![order(1, "ann", &[0], Hold)],
        vec![one(), order(2, "ann", &[2, 2], Hold)],
        vec![stock(0, &[], 1)],
        vec![stock(10, &[11], 1)],
        vec![stock(10, &[0], 1)],
        vec![stock(10, &[5, 5], 1)],
        vec![stock(10, &[5, 4], 1)],
    ] {
        assert!(invalid(ledger.write(batch).await.unwrap_err()));
    }
    let no_skus = LedgerSale { sale: sale(), generation: 1, skus: vec![], spec: None };
    assert!(invalid(ledger.open_sale(no_skus).await.unwrap_err()));
    assert!(ledger.snapshot(&rushgate_core::SaleId::new("none").unwrap()).await.unwrap_err().is_not_found());
    assert_eq!(ledger.counters().transactions, 1, "only the opening of the sale");
}

async fn the_counters_count_what_was_done(bench: Bench) {
    let ledger = bench.ledger(10, 1).await;
    let before = ledger.counters();
    ledger.write(vec![order(1, "ann", &[1], Hold), order(2, "ann", &[2], Hold)]).await.unwrap();
    ledger.ping().await.unwrap();
    let now = ledger.counters();
    assert_eq!(now.calls - before.calls, 2);
    assert_eq!(now.transactions - before.transactions, 1);
    assert_eq!(now.entries - before.entries, 2);
    assert_eq!((now.orders - before.orders, now.refused - before.refused), (1, 1));
    assert!(now.statements - before.statements >= 8, "{now:?}");
}

async fn calls_that_wait_together_share_a_commit_and_a_dropped_call_is_carried_out(bench: Bench) {
    let url = bench.url();
    let ledger = connect(&url).unwrap();
    ledger.open_sale(phones(100, 1)).await.unwrap();
    let before = ledger.counters();
    // Another process's transaction blocks the writers while the calls are sent.
    let other = Raw::connect(&url).await;
    other.hold_writers_up().await;
    let mut sent: Vec<_> =
        (1..=60).map(|n| ledger.write(vec![order(n, &format!("buyer-{n}"), &[n], Hold)])).collect();
    drop(sent.pop());
    other.let_go().await;
    for answer in sent {
        assert_eq!(answer.await.unwrap(), [Written::Recorded(Hold)]);
    }
    ledger.close().await.unwrap();
    let now = ledger.counters();
    assert_eq!(now.orders - before.orders, 60);
    // A writer may have started with any first part of the calls before it met the lock.
    let transactions = now.transactions - before.transactions;
    assert!(transactions <= 4, "{transactions} transactions for 60 calls");
}

async fn a_closed_ledger_has_done_what_was_sent_and_refuses_what_comes(bench: Bench) {
    let url = bench.url();
    let ledger = connect(&url).unwrap();
    ledger.open_sale(phones(10, 1)).await.unwrap();
    let sent = ledger.write(vec![order(1, "ann", &[1], Hold)]);
    ledger.close().await.unwrap();
    assert_eq!(sent.await.unwrap(), [Written::Recorded(Hold)]);
    let error = ledger.ping().await.unwrap_err();
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error}");
    if let Some(path) = url.strip_prefix("sqlite:") {
        // The file is complete without its log, so it can be copied.
        assert!(!std::path::Path::new(&format!("{path}-wal")).exists());
    }
    let snapshot = connect(&url).unwrap().snapshot(&sale()).await.unwrap();
    assert_eq!(snapshot.orders[0].id, id(1));
}

on_each_ledger! {
    a_redelivery_is_answered_the_same_way_and_changes_nothing
    an_order_moves_once_and_what_stands_is_answered
    a_decision_may_come_without_its_hold
    units_and_the_buyers_places_come_back_with_a_cancellation
    one_offender_does_not_affect_the_rest_of_its_batch
    a_cart_is_recorded_whole_or_not_at_all
    a_taken_unit_is_replaced_by_the_highest_free_one_until_none_is_left
    a_final_refusal_stays_when_the_unit_comes_back_but_not_in_a_new_generation
    a_new_generation_is_closed_to_entries_of_older_ones
    a_sale_is_known_with_its_specification
    every_refusal_has_its_name
    an_order_for_a_new_unit_does_not_depend_on_where_the_stock_stands_in_the_batch
    stock_never_shrinks_and_a_buyers_unit_is_not_withdrawn
    changes_of_stock_may_come_in_any_order_and_more_than_once
    what_lies_between_the_units_of_orders_is_withdrawn
    a_change_with_as_many_pieces_as_there_may_be_is_one_step
    a_sale_is_opened_once_and_its_limit_is_fixed
    what_is_outside_the_limits_is_refused_before_it_is_sent
    the_counters_count_what_was_done
    calls_that_wait_together_share_a_commit_and_a_dropped_call_is_carried_out
    a_closed_ledger_has_done_what_was_sent_and_refuses_what_comes
}
