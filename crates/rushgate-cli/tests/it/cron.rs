//! `rushgate queue cron`: schedules from the shell.

use crate::common::Shop;
use rustix::process::Signal;
use serde_json::{Value, json};

const ADD: [&str; 5] = ["queue", "cron", "add", "reports", "nightly"];
const BY_NIGHT: [&str; 4] = ["--cron", "30 3 * * *", "--zone", "Europe/Berlin"];

fn only(shop: &Shop) -> Value {
    let schedules = shop.json(&["queue", "cron", "ls", "reports"]);
    assert_eq!(schedules.as_array().map(Vec::len), Some(1), "{schedules}");
    schedules[0].clone()
}

#[test]
fn a_schedule_is_added_left_alone_changed_and_removed() {
    let shop = Shop::new();
    let add = |more: &[&'static str]| [&ADD[..], &BY_NIGHT, more].concat();
    assert_eq!(shop.ok(&add(&[])), "added revision 1\n");
    assert_eq!(shop.ok(&add(&[])), "unchanged revision 1\n");
    assert_eq!(shop.json(&add(&["--missed", "all"])), json!({ "outcome": "changed", "revision": 2 }));
    let schedule = only(&shop);
    let recurrence = json!({ "cron": "30 3 * * *", "zone": "Europe/Berlin", "missed": "all" });
    assert_eq!((&schedule["id"], &schedule["recurrence"]), (&json!("nightly"), &recurrence));
    assert!(schedule["next_us"].as_u64() > Some(1_700_000_000_000_000));
    assert_eq!(shop.ok(&["queue", "cron", "rm", "reports", "nightly"]), "removed\n");
    assert_eq!(shop.run(&["queue", "cron", "rm", "reports", "nightly"]).status, 1);
}

#[test]
fn a_schedule_says_when_it_fires_to_people() {
    let shop = Shop::new();
    shop.ok(&[&ADD[..], &BY_NIGHT].concat());
    shop.ok(&["queue", "cron", "add", "reports", "often", "--every", "90s", "--paused"]);
    let table = shop.ok(&["queue", "cron", "ls", "reports"]);
    assert!(table.contains("30 3 * * * Europe/Berlin"), "{table}");
    assert!(table.contains("every 1m 30s") && table.contains("paused"), "{table}");
}

#[test]
fn moments_are_told_without_a_store() {
    let shop = Shop::new();
    let told = shop.json(&["queue", "cron", "next", "--every", "1h", "-n", "3"]);
    let moments: Vec<_> = told["next_us"].as_array().unwrap().iter().map(|at| at.as_u64().unwrap()).collect();
    assert_eq!(moments.len(), 3);
    assert!(moments.windows(2).all(|pair| pair[1] - pair[0] == 3_600_000_000), "{moments:?}");
    assert!(!shop.path("rushgate.db").exists(), "a read creates no store");
}

#[test]
fn what_fires_at_no_moment_is_refused() {
    let shop = Shop::new();
    for when in [
        &["--cron", "61 * * * *"][..],
        &["--cron", "0 0 31 2 *"],
        &["--cron", "@daily", "--zone", "Europe/Nowhere"],
        &["--every", "10ms"],
        &["--every", "1m", "--zone", "UTC"],
        &["--every", "1m", "--cron", "@daily"],
        &[],
    ] {
        assert_eq!(shop.run(&[&ADD[..], when].concat()).status, 2, "{when:?}");
    }
}

#[test]
fn a_schedule_is_run_at_once_paused_and_resumed() {
    let shop = Shop::new();
    shop.ok(&[&ADD[..], &BY_NIGHT, &["--payload", "{\"n\":1}", "--max-attempts", "2"]].concat());
    assert_eq!(shop.ok(&["queue", "cron", "run", "reports", "nightly"]), "added revision 2\n");
    let tasks = shop.json(&["queue", "pop", "reports"]);
    assert_eq!((&tasks[0]["payload"], &tasks[0]["max_attempts"]), (&json!({ "n": 1 }), &json!(2)));
    assert!(tasks[0]["id"].as_str().unwrap().starts_with("nightly@20"), "{tasks}");
    assert_eq!(shop.ok(&["queue", "cron", "pause", "reports", "nightly"]), "paused\n");
    assert_eq!(only(&shop)["paused"], true);
    assert_eq!(shop.ok(&["queue", "cron", "resume", "reports", "nightly"]), "resumed\n");
    assert_eq!(only(&shop)["paused"], false);
    for verb in ["run", "pause", "resume"] {
        assert_eq!(shop.run(&["queue", "cron", verb, "reports", "nothing"]).status, 1, "{verb}");
    }
}

#[test]
fn a_worker_of_the_queue_carries_out_what_the_schedule_puts_in() {
    let shop = Shop::new();
    shop.ok(&["queue", "cron", "add", "pulse", "beat", "--every", "1s", "--payload", "7"]);
    let mut worker = shop.start(&["work", "pulse", "--json", "--exec", "cat"]);
    let line: Value = serde_json::from_str(&worker.line()).unwrap();
    assert!(line["task"].as_str().unwrap().starts_with("beat@20"), "{line}");
    assert_eq!(line["outcome"], "done");
    worker.signal(Signal::INT);
    assert_eq!(worker.end().status, 0);
}

#[test]
fn schedules_are_looked_after_where_no_worker_is() {
    let shop = Shop::new();
    let tender = shop.start(&["queue", "cron", "tend", "pulse", "--json"]);
    shop.ok(&["queue", "cron", "add", "pulse", "beat", "--every", "1s", "--payload", "7"]);
    let is_in = |tasks: &Value| tasks.as_array().is_some_and(|tasks| !tasks.is_empty());
    let tasks = shop.until(&["queue", "ls", "pulse"], is_in);
    assert_eq!(tasks[0]["payload"], 7);
    tender.signal(Signal::INT);
    let said = tender.end();
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert!(report["tasks"].as_u64() >= Some(1), "{report}");
}
