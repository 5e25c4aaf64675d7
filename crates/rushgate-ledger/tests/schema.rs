//! Attacks on every constraint by raw SQL, past the program: the schema alone keeps the promises.

mod common;

use common::{order, phones, stock, write_one};
use rushgate_core::OrderIntent::{Cancel, Confirm, Hold};
use rushgate_ledger::{Ledger, SqliteLedger};
use rusqlite::Connection;

/// Units 1 (ann, confirmed), 2 (bob, held); cid's order for 3 is cancelled; 10 is withdrawn. At most 2 each.
/// `order_id`s are 1, 2, 3.
async fn victim() -> (tempfile::TempDir, Connection) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("orders.db");
    let ledger = SqliteLedger::open(&path).unwrap();
    ledger.open_sale(phones(10, 2)).await.unwrap();
    write_one(&ledger, order(1, "ann", &[1], Confirm)).await;
    write_one(&ledger, order(2, "bob", &[2], Hold)).await;
    write_one(&ledger, order(3, "cid", &[3], Cancel)).await;
    write_one(&ledger, stock(10, &[10], 2)).await;
    ledger.close().await.unwrap();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA foreign_keys = ON; PRAGMA recursive_triggers = ON;").unwrap();
    (directory, conn)
}

fn unit(order: i64, buyer: &str, unit: u32, slot: i64, per_buyer: u32) -> String {
    format!(
        "INSERT INTO order_unit (order_id, sale, buyer, sku, unit, slot, per_buyer, live)
         VALUES ({order}, 1, '{buyer}', 1, {unit}, {slot}, {per_buyer}, 1)"
    )
}

fn new_order(reservation: u8, seq: u32) -> String {
    format!(
        "INSERT INTO orders (sale, reservation, buyer, generation, seq, state, recorded_at_us, changed_at_us)
         VALUES (1, X'{reservation:032x}', 'eve', 1, {seq}, 'held', 0, 0)"
    )
}

#[tokio::test]
async fn the_legal_path_passes() {
    let (_directory, conn) = victim().await;
    conn.execute_batch(&unit(2, "bob", 4, 2, 2)).unwrap();
    conn.execute_batch(&new_order(9, 9)).unwrap();
    conn.execute_batch("UPDATE orders SET state = 'expired' WHERE id = 2").unwrap();
    let live: i64 = conn
        .query_row("SELECT count(*) FROM order_unit WHERE order_id = 2 AND live", [], |row| row.get(0))
        .unwrap();
    assert_eq!(live, 0, "the units come back by the schema's own doing");
}

#[tokio::test]
async fn every_attack_is_refused_by_the_constraint_that_is_meant_to() {
    let attacks = [
        ("a unit twice", unit(2, "bob", 1, 2, 2), "order_unit.sku, order_unit.unit"),
        ("a unit beyond N", unit(2, "bob", 11, 2, 2), "not_for_sale"),
        ("a unit below 1", unit(2, "bob", 0, 2, 2), "unit >= 1"),
        ("a withdrawn unit", unit(2, "bob", 10, 2, 2), "withdrawn"),
        ("a place filled twice", unit(2, "bob", 4, 1, 2), "order_unit.slot"),
        ("a place above the limit", unit(2, "bob", 4, 3, 2), "limit_reached"),
        ("a place below 1", unit(2, "bob", 4, 0, 2), "limit_reached"),
        ("a forged limit", unit(2, "bob", 4, 3, 3), "FOREIGN KEY"),
        ("another buyer's name", unit(2, "eve", 4, 1, 2), "FOREIGN KEY"),
        ("a unit without an order", unit(99, "eve", 4, 1, 2), "FOREIGN KEY"),
        ("a unit for a cancelled order", unit(3, "cid", 4, 1, 2), "live exactly as long"),
        (
            "a live unit without a place",
            unit(2, "bob", 4, 1, 2).replace(", 1, 2, 1)", ", NULL, 2, 1)"),
            "limit_reached",
        ),
        ("a re-used sequence", new_order(9, 2), "orders.sale, orders.generation, orders.seq"),
        ("a second order for a reservation", new_order(2, 9), "orders.sale, orders.reservation"),
        ("an unknown state", new_order(9, 9).replace("'held'", "'sold'"), "CHECK"),
        ("a revived order", "UPDATE orders SET state = 'held' WHERE id = 3".into(), "fixed"),
        ("a confirmed cancellation", "UPDATE orders SET state = 'confirmed' WHERE id = 3".into(), "fixed"),
        ("a cancelled confirmation", "UPDATE orders SET state = 'cancelled' WHERE id = 1".into(), "fixed"),
        ("an order moved to another buyer", "UPDATE orders SET buyer = 'eve' WHERE id = 2".into(), "fixed"),
        ("an order renumbered", "UPDATE orders SET seq = 99 WHERE id = 2".into(), "fixed"),
        ("a revived unit", "UPDATE order_unit SET live = 1, slot = 1 WHERE order_id = 3".into(), "fixed"),
        ("a sold unit given back", "UPDATE order_unit SET live = 0 WHERE order_id = 1".into(), "fixed"),
        ("a sold unit renumbered", "UPDATE order_unit SET unit = 5 WHERE order_id = 1".into(), "fixed"),
        (
            "a unit moved to another place",
            "UPDATE order_unit SET slot = 2 WHERE order_id = 1".into(),
            "fixed",
        ),
        ("a raised limit", "UPDATE sku SET per_buyer = 3".into(), "fixed"),
        ("a smaller stock", "UPDATE sku SET total = 9".into(), "fixed"),
        ("an older generation", "UPDATE sale SET generation = 0".into(), "fixed"),
        ("a sold unit withdrawn", "INSERT INTO withdrawn VALUES (1, 1)".into(), "owned"),
        ("a withdrawn unit beyond N", "INSERT INTO withdrawn VALUES (1, 11)".into(), "not_for_sale"),
        ("a withdrawn unit back for sale", "DELETE FROM withdrawn".into(), "kept"),
        ("a withdrawn unit exchanged", "UPDATE withdrawn SET unit = 9".into(), "fixed"),
        ("an order deleted", "DELETE FROM orders WHERE id = 3".into(), "kept"),
        ("a unit deleted", "DELETE FROM order_unit WHERE order_id = 1".into(), "kept"),
        ("an SKU deleted", "DELETE FROM sku".into(), "kept"),
        ("a sale deleted", "DELETE FROM sale".into(), "kept"),
        ("a unit replaced", unit(2, "bob", 1, 2, 2).replace("INSERT", "INSERT OR REPLACE"), "kept"),
        (
            "a refusal of a recorded order",
            "INSERT INTO refusal VALUES (1, X'00000000000000000000000000000001', 1, 'unit_taken', 0)".into(),
            "recorded",
        ),
    ];
    let (_directory, conn) = victim().await;
    let content = || -> Vec<String> {
        ["sale", "sku", "withdrawn", "orders", "order_unit", "refusal"]
            .iter()
            .map(|table| {
                let mut statement = conn.prepare(&format!("SELECT * FROM {table}")).unwrap();
                let columns = statement.column_count();
                let rows = statement.query_map([], |row| {
                    (0..columns)
                        .map(|at| row.get::<_, rusqlite::types::Value>(at))
                        .collect::<Result<Vec<_>, _>>()
                });
                format!("{:?}", rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap())
            })
            .collect()
    };
    let before = content();
    for (attack, sql, constraint) in attacks {
        let error = conn.execute_batch(&sql).expect_err(attack).to_string();
        assert!(error.contains(constraint), "{attack}: {error}");
        assert_eq!(content(), before, "{attack}");
    }
}

#[tokio::test]
async fn a_final_refusal_cannot_be_undone() {
    let (_directory, conn) = victim().await;
    let reservation = format!("X'{:032x}'", 9);
    conn.execute_batch(&format!("INSERT INTO refusal VALUES (1, {reservation}, 1, 'unit_taken', 0)"))
        .unwrap();
    for (sql, constraint) in [
        (new_order(9, 9), "refused"),
        ("DELETE FROM refusal".into(), "kept"),
        ("UPDATE refusal SET generation = 2".into(), "fixed"),
    ] {
        let error = conn.execute_batch(&sql).unwrap_err().to_string();
        assert!(error.contains(constraint), "{sql}: {error}");
    }
}
