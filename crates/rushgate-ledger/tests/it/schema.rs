//! Attacks every constraint with raw SQL, bypassing the program: the schema alone guarantees the invariants.

use crate::common::bench::{Bench, Raw};
use crate::common::{order, phones, stock, write_one};
use rushgate_core::OrderIntent::{Cancel, Confirm, Hold};
use rushgate_ledger::connect;

/// Units 1 (ann, confirmed) and 2 (bob, held); cid's order for 3 is canceled; 8 to 10 are withdrawn. At most 2 per
/// buyer. The `order_id`s are 1, 2, 3.
async fn victim(bench: &Bench) -> Raw {
    victim_at(&bench.url()).await
}

async fn victim_at(url: &str) -> Raw {
    let ledger = connect(url).unwrap();
    ledger.open_sale(phones(10, 2)).await.unwrap();
    write_one(&*ledger, order(1, "ann", &[1], Confirm)).await;
    write_one(&*ledger, order(2, "bob", &[2], Hold)).await;
    write_one(&*ledger, order(3, "cid", &[3], Cancel)).await;
    write_one(&*ledger, stock(10, &[8, 9, 10], 2)).await;
    ledger.close().await.unwrap();
    Raw::connect(url).await
}

fn unit(order: i64, buyer: &str, unit: u32, slot: i64, per_buyer: u32) -> String {
    format!(
        "INSERT INTO order_unit (order_id, sale, buyer, sku, unit, slot, per_buyer, live)
         VALUES ({order}, 1, '{buyer}', 1, {unit}, {slot}, {per_buyer}, TRUE)"
    )
}

fn withdraw(first: u32, last: u32) -> String {
    format!("INSERT INTO withdrawn (sku, first, last) VALUES (1, {first}, {last})")
}

fn new_order(reservation: u8, seq: u32) -> String {
    format!(
        "INSERT INTO orders (sale, reservation, buyer, generation, seq, state, recorded_at_us, changed_at_us)
         VALUES (1, X'{reservation:032x}', 'eve', 1, {seq}, 'held', 0, 0)"
    )
}

async fn the_legal_path_passes(bench: Bench) {
    let raw = victim(&bench).await;
    raw.execute(&unit(2, "bob", 4, 2, 2)).await.unwrap();
    raw.execute(&new_order(9, 9)).await.unwrap();
    raw.execute("UPDATE orders SET state = 'expired' WHERE id = 2").await.unwrap();
    let live = raw.count("order_unit WHERE order_id = 2 AND live").await;
    assert_eq!(live, 0, "the schema releases the units");
}

async fn every_attack_is_refused_by_the_constraint_that_is_meant_to(bench: Bench) {
    let attacks = [
        ("a unit twice", unit(2, "bob", 1, 2, 2), "order_unit.sku, order_unit.unit|unit_taken"),
        ("a unit beyond N", unit(2, "bob", 11, 2, 2), "not_for_sale"),
        ("a unit below 1", unit(2, "bob", 0, 2, 2), "unit >= 1|order_unit_unit_check"),
        ("a withdrawn unit", unit(2, "bob", 9, 2, 2), "withdrawn"),
        ("the last of withdrawn units", unit(2, "bob", 10, 2, 2), "withdrawn"),
        ("a place filled twice", unit(2, "bob", 4, 1, 2), "order_unit.slot|slot_taken"),
        ("a place above the limit", unit(2, "bob", 4, 3, 2), "limit_reached"),
        ("a place below 1", unit(2, "bob", 4, 0, 2), "limit_reached"),
        ("a forged limit", unit(2, "bob", 4, 3, 3), "FOREIGN KEY|foreign key"),
        ("another buyer's name", unit(2, "eve", 4, 1, 2), "FOREIGN KEY|foreign key"),
        ("a unit without an order", unit(99, "eve", 4, 1, 2), "FOREIGN KEY|foreign key"),
        ("a unit for a cancelled order", unit(3, "cid", 4, 1, 2), "live exactly as long"),
        (
            "a live unit without a place",
            unit(2, "bob", 4, 1, 2).replace(", 1, 2, TRUE)", ", NULL, 2, TRUE)"),
            "limit_reached",
        ),
        ("a re-used sequence", new_order(9, 2), "orders.sale, orders.generation, orders.seq|sequence_reused"),
        (
            "a second order for a reservation",
            new_order(2, 9),
            "orders.sale, orders.reservation|order_recorded",
        ),
        ("an unknown state", new_order(9, 9).replace("'held'", "'sold'"), "CHECK|orders_state_check"),
        ("a requeued order", "UPDATE orders SET state = 'held' WHERE id = 3".into(), "fixed"),
        ("a confirmed cancellation", "UPDATE orders SET state = 'confirmed' WHERE id = 3".into(), "fixed"),
        ("a cancelled confirmation", "UPDATE orders SET state = 'cancelled' WHERE id = 1".into(), "fixed"),
        ("an order moved to another buyer", "UPDATE orders SET buyer = 'eve' WHERE id = 2".into(), "fixed"),
        ("an order renumbered", "UPDATE orders SET seq = 99 WHERE id = 2".into(), "fixed"),
        ("a requeued unit", "UPDATE order_unit SET live = TRUE, slot = 1 WHERE order_id = 3".into(), "fixed"),
        ("a sold unit returned", "UPDATE order_unit SET live = FALSE WHERE order_id = 1".into(), "fixed"),
        ("a sold unit renumbered", "UPDATE order_unit SET unit = 5 WHERE order_id = 1".into(), "fixed"),
        (
            "a unit moved to another place",
            "UPDATE order_unit SET slot = 2 WHERE order_id = 1".into(),
            "fixed",
        ),
        ("a raised limit", "UPDATE sku SET per_buyer = 3".into(), "fixed"),
        ("a smaller stock", "UPDATE sku SET total = 9".into(), "fixed"),
        (
            "an order of a store of the past",
            new_order(9, 9).replace("'eve', 1,", "'eve', 0,"),
            "old_generation",
        ),
        ("an older generation", "UPDATE sale SET generation = 0".into(), "fixed"),
        ("a sold unit withdrawn", withdraw(1, 1), "owned"),
        ("a sold unit withdrawn among others", withdraw(2, 7), "owned"),
        ("a withdrawn unit beyond N", withdraw(11, 11), "not_for_sale"),
        ("a withdrawn unit below 1", withdraw(0, 0), "first >= 1|withdrawn_first_check"),
        ("a range that goes backwards", withdraw(5, 4), "last >= first|withdrawn_check"),
        ("a unit withdrawn twice", withdraw(8, 10), "withdrawn_twice"),
        ("a unit withdrawn again in the middle", withdraw(9, 9), "withdrawn_twice"),
        ("a unit withdrawn again from below", withdraw(4, 8), "withdrawn_twice"),
        ("a unit withdrawn again from above", withdraw(10, 10), "withdrawn_twice"),
        ("a withdrawn unit back for sale", "DELETE FROM withdrawn".into(), "kept"),
        ("a withdrawn unit exchanged", "UPDATE withdrawn SET first = 9".into(), "fixed"),
        ("an order deleted", "DELETE FROM orders WHERE id = 3".into(), "kept"),
        ("a unit deleted", "DELETE FROM order_unit WHERE order_id = 1".into(), "kept"),
        ("an SKU deleted", "DELETE FROM sku".into(), "kept"),
        ("a sale deleted", "DELETE FROM sale".into(), "kept"),
        (
            "a refusal of a recorded order",
            "INSERT INTO refusal VALUES (1, X'00000000000000000000000000000001', 1, 'unit_taken', 0)".into(),
            "recorded",
        ),
    ];
    let raw = victim(&bench).await;
    let before = raw.content().await;
    for (attack, sql, constraints) in attacks {
        let error = raw.execute(&sql).await.expect_err(attack);
        // The name in SQLite or in Postgres.
        assert!(constraints.split('|').any(|constraint| error.contains(constraint)), "{attack}: {error}");
        assert_eq!(raw.content().await, before, "{attack}");
    }
    // Each database has its own way to bypass row triggers.
    let (round, constraint) = match raw {
        Raw::Sqlite(_) => (unit(2, "bob", 1, 2, 2).replace("INSERT", "INSERT OR REPLACE"), "kept"),
        Raw::Postgres(_) => ("TRUNCATE order_unit".into(), "kept"),
    };
    assert!(raw.execute(&round).await.unwrap_err().contains(constraint), "{round}");
    assert_eq!(raw.content().await, before, "{round}");
}

async fn a_final_refusal_cannot_be_undone(bench: Bench) {
    let raw = victim(&bench).await;
    let reservation = format!("X'{:032x}'", 9);
    raw.execute(&format!("INSERT INTO refusal VALUES (1, {reservation}, 1, 'unit_taken', 0)")).await.unwrap();
    for (sql, constraint) in [
        (new_order(9, 9), "refused"),
        ("DELETE FROM refusal".into(), "kept"),
        ("UPDATE refusal SET generation = 2".into(), "fixed"),
    ] {
        let error = raw.execute(&sql).await.unwrap_err();
        assert!(error.contains(constraint), "{sql}: {error}");
    }
}

on_each_ledger! {
    the_legal_path_passes
    every_attack_is_refused_by_the_constraint_that_is_meant_to
    a_final_refusal_cannot_be_undone
}

// ── concurrent transactions, on Postgres only; SQLite has one writer at a time ──────────────────────────────────────

/// Pairs of transactions that are legal alone but not together: first, second, and the violated constraint.
fn pairs() -> Vec<(&'static str, String, String, &'static str)> {
    let refusal = format!("INSERT INTO refusal VALUES (1, X'{:032x}', 1, 'unit_taken', 0)", 9);
    let among_others = withdraw(3, 7);
    let cancel = "UPDATE orders SET state = 'cancelled' WHERE id = 2".to_owned();
    let another = new_order(8, 8).replace("'eve'", "'bob'");
    vec![
        ("one unit for two", unit(1, "ann", 4, 2, 2), unit(2, "bob", 4, 2, 2), "unit_taken"),
        ("one place for two", unit(2, "bob", 4, 2, 2), unit(2, "bob", 5, 2, 2), "slot_taken"),
        ("sold and withdrawn", unit(2, "bob", 4, 2, 2), among_others.clone(), "owned"),
        ("withdrawn and sold", among_others.clone(), unit(2, "bob", 4, 2, 2), "withdrawn"),
        ("withdrawn by two", among_others, withdraw(5, 5), "withdrawn_twice"),
        ("ordered and refused", new_order(9, 9), refusal.clone(), "recorded"),
        ("refused and ordered", refusal, new_order(9, 9), "refused"),
        ("cancelled and given a unit", cancel, unit(2, "bob", 4, 2, 2), "live exactly as long"),
        ("one sequence for two", new_order(9, 9), another.replace("1, 8", "1, 9"), "sequence_reused"),
    ]
}

#[tokio::test]
async fn what_two_transactions_may_not_do_together_the_second_may_not() {
    for (attack, first, second, constraint) in pairs() {
        for (isolation, constraint) in [("READ COMMITTED", constraint), ("REPEATABLE READ", "")] {
            let bench = Bench::postgres();
            let url = bench.url();
            let one = victim_at(&url).await;
            let two = Raw::connect(&url).await;
            two.execute(&format!("BEGIN ISOLATION LEVEL {isolation}")).await.unwrap();
            // If the isolation level takes a snapshot, it takes it now.
            two.count("orders").await;
            one.execute("BEGIN").await.unwrap();
            one.execute(&first).await.unwrap_or_else(|error| panic!("{attack}: {error}"));
            // Whether or not the second waits for the first's locks, the first commits while the second is running.
            let both = async { tokio::join!(two.execute(&second), commit_when_waited_for(&url, &one)).0 };
            let error = both.await.expect_err(attack);
            assert!(error.contains(constraint), "{attack}: {error}");
        }
    }
}

/// A unit that is added while its order is being canceled is released with the others.
#[tokio::test]
async fn a_unit_that_joins_an_order_on_its_way_out_comes_back_with_it() {
    let bench = Bench::postgres();
    let url = bench.url();
    let one = victim_at(&url).await;
    let two = Raw::connect(&url).await;
    one.execute("BEGIN").await.unwrap();
    one.execute(&unit(2, "bob", 4, 2, 2)).await.unwrap();
    let cancel = "UPDATE orders SET state = 'cancelled' WHERE id = 2";
    let (cancelled, ()) = tokio::join!(two.execute(cancel), commit_when_waited_for(&url, &one));
    cancelled.unwrap();
    assert_eq!(one.count("order_unit WHERE order_id = 2 AND live").await, 0);
}

async fn commit_when_waited_for(url: &str, one: &Raw) {
    let watch = Raw::connect(url).await;
    for _ in 0..50 {
        if watch.waiting_for(one).await {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    one.execute("COMMIT").await.unwrap();
}
