//! The audit detects what the wrong designs do.

use rushgate_core::audit;
use rushgate_test::controls::{DecrementThenPublish, ReadCompareWrite, Wreck};

fn failed(wreck: &Wreck) -> Vec<String> {
    let checks = audit(&wreck.snapshot, Some(&wreck.ledger)).checks;
    checks.into_iter().filter(|check| !check.ok).map(|check| check.name).collect()
}

#[test]
fn read_compare_write_sells_a_unit_twice_and_the_audit_says_so() {
    let failed = failed(&ReadCompareWrite::run(10, 200, 3));
    for check in ["conservation", "no_unit_twice", "log_replays", "ledger_no_unit_twice"] {
        assert!(failed.iter().any(|name| name == check), "{check} holds; failed: {failed:?}");
    }
}

#[test]
fn decrement_then_publish_loses_units_and_the_audit_says_so() {
    let failed = failed(&DecrementThenPublish::run(10, 200, 4));
    for check in ["conservation", "log_replays"] {
        assert!(failed.iter().any(|name| name == check), "{check} holds; failed: {failed:?}");
    }
}

#[test]
fn without_a_crowd_the_wrong_designs_pass_so_the_audit_fails_them_for_what_is_wrong() {
    assert_eq!(failed(&ReadCompareWrite::run(10, 8, 0)), [""; 0]);
    assert_eq!(failed(&DecrementThenPublish::run(10, 8, 9)), [""; 0]);
}
