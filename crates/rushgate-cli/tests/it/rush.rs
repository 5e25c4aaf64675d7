//! `rushgate rush` as users run it: the real binary, files and signals.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::rushes::{
    Member, assert_audited, finish, report_of, rush, signal, start, start_and_see_it_sell,
};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

fn store(folder: &TempDir) -> String {
    format!("sqlite:{}", folder.path().join("store.db").display())
}

#[test]
fn a_crowd_buys_exactly_what_there_is_and_the_audit_holds() {
    let (status, report) = finish(rush(&["--stock", "10", "--buyers", "50000"]));
    assert!(status.success(), "{report:#}");
    assert_audited(&report);
    assert_eq!(report["units"], 10);
    assert_eq!(report["confirmed"], 10);
    assert_eq!((&report["held"], &report["free"], &report["withdrawn"]), (&0.into(), &0.into(), &0.into()));
    assert_eq!(report["buyers"], 50_000);
    assert!(report["attempts"].as_u64() > Some(50_000), "some click more than once");
    let answers = report["answers"].as_object().expect("answers by kind");
    let sum: u64 = answers.values().filter_map(Value::as_u64).sum();
    assert_eq!(Some(sum), report["attempts"].as_u64());
    assert_eq!(answers["failed"], 0);
    for figure in
        ["attempts_per_second", "elapsed_ms", "store_calls", "store_statements", "ledger_transactions"]
    {
        assert!(report[figure].as_u64() > Some(0), "{figure}");
    }
    let number = |figure: &str| report[figure].as_u64().expect("a number");
    // BEGIN, COMMIT, and at least one statement in between.
    assert!(number("store_statements") >= 3 * number("store_transactions"), "{report:#}");
    for figure in ["p50", "p99", "max"] {
        assert!(report["latency_us"][figure].as_f64() > Some(0.0), "{figure}");
    }
    // The ledger needs few transactions for tens of thousands of attempts.
    assert!(report["ledger_transactions"].as_u64() < Some(200));
}

#[test]
fn with_much_stock_carts_are_called_off_run_out_and_are_sold_again() {
    let args = ["--stock", "300", "--buyers", "6000", "--per-buyer", "2", "--hold", "300ms", "--seed", "3"];
    let (status, report) = finish(rush(&args));
    assert!(status.success(), "{report:#}");
    assert_audited(&report);
    assert_eq!(report["confirmed"], 300);
    let payments = &report["payments"];
    assert!(payments["cancelled"].as_u64() > Some(0), "{payments}");
    assert!(payments["expired"].as_u64() > Some(0), "{payments}");
    assert!(report["answers"]["reserved"].as_u64() > Some(300), "units were sold again");
    assert!(report["answers"]["replayed"].as_u64() > Some(0), "some clicked twice");
}

#[test]
fn more_units_than_buyers_leaves_units_and_the_audit_holds() {
    let (status, report) = finish(rush(&["--stock", "1000", "--buyers", "20", "--hold", "200ms"]));
    assert!(status.success(), "{report:#}");
    assert_audited(&report);
    let sold = report["confirmed"].as_u64().expect("a number");
    assert!(sold <= 20);
    assert_eq!(report["free"].as_u64(), Some(1_000 - sold));
}

#[test]
fn nobody_comes_and_the_audit_holds() {
    let (status, report) = finish(rush(&["--buyers", "0"]));
    assert!(status.success(), "{report:#}");
    assert_eq!(report["free"], 10);
}

#[test]
fn the_report_for_people_says_what_was_sold_and_that_the_audit_holds() {
    let output = rush(&["--stock", "5", "--buyers", "2000", "--quiet"]).output().expect("rush runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}");
    assert!(text.contains("5 of 5: none free"), "{text}");
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("Audit passed ("), "{text}");
    assert!(!text.contains("FAIL"), "{text}");
}

#[test]
fn ctrl_c_stops_a_rush_cleanly_and_the_audit_holds() {
    let child = start_and_see_it_sell(&["--stock", "1000000", "--buyers", "1000000000"]);
    signal(&child, Signal::INT);
    let (status, report) = report_of(child);
    assert!(status.success(), "{report:#}");
    assert_eq!(report["interrupted"], true);
    assert_audited(&report);
}

/// Half of the buyers pay at the deadline or never, and the hold is long.
#[test]
fn a_signal_stops_a_rush_within_seconds_however_long_carts_are_kept() {
    for sent in [Signal::INT, Signal::TERM] {
        let child = start_and_see_it_sell(&["--stock", "1000000", "--buyers", "1000000000", "--hold", "1h"]);
        signal(&child, sent);
        let start = Instant::now();
        let (status, report) = report_of(child);
        assert!(start.elapsed() < Duration::from_secs(30), "it waited for the deadline of a cart");
        assert!(status.success(), "{report:#}");
        assert_eq!(report["interrupted"], true);
        assert_audited(&report);
    }
}

#[test]
fn the_first_ctrl_c_is_answered_and_the_second_ends_it_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = rush(&["--stock", "1000000", "--buyers", "1000000000"]);
    let child = command.env("TMPDIR", folder.path()).stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut child = Member::of(child.expect("rush starts"));
    let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let mut lines = stderr.lines().map_while(Result::ok);
    let mut says = |part: &str| {
        assert!(lines.any(|line| line.contains(part)), "it says {part:?}");
    };
    says("tries");
    signal(&child, Signal::INT);
    says("stopping");
    signal(&child, Signal::INT);
    thread::spawn(move || lines.for_each(drop));
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(130));
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
}

#[test]
fn kept_files_are_there_for_a_look_and_others_are_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let files = |folder: &Path| std::fs::read_dir(folder).expect("readable").count();
    let run = |keep: &[&str]| {
        let mut command = rush(&["--stock", "2", "--buyers", "50"]);
        let output = command.args(keep).arg("--quiet").env("TMPDIR", folder.path()).output();
        let output = output.expect("rush runs");
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).expect("text");
        let told = text.contains(&folder.path().display().to_string());
        assert_eq!(told, !keep.is_empty(), "{text}");
    };
    run(&[]);
    assert_eq!(files(folder.path()), 0);
    run(&["--keep"]);
    assert_eq!(files(folder.path()), 1);
}

#[test]
fn several_processes_sell_one_sale_and_one_may_be_killed_in_the_middle() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = store(&folder);
    let args = ["--join", "launch", "--store", &url, "--stock", "3000", "--hold", "500ms"];
    let with = |more: &[&'static str]| [&args[..], more].concat();
    let mut victim = start_and_see_it_sell(&with(&["--buyers", "1000000000"]));
    let others: Vec<_> = (0..2).map(|_| start(&with(&["--buyers", "60000"]))).collect();
    signal(&victim, Signal::KILL);
    victim.wait().expect("it is dead");
    for child in others {
        let (_, report) = report_of(child);
        assert_audited(&report);
    }
    // A final simulation: by now every order is recorded, including those of the killed process.
    let (status, report) = finish(rush(&with(&["--buyers", "40000"])));
    assert!(status.success(), "{report:#}");
    assert_audited(&report);
    assert_eq!(report["confirmed"], 3_000);
    assert_eq!(report["held"], 0);
}

#[test]
fn a_rush_that_was_killed_continues_from_its_files_and_the_audit_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = store(&folder);
    let args = ["--join", "launch", "--store", &url, "--stock", "2000", "--hold", "500ms"];
    let mut first = start_and_see_it_sell(&[&args[..], &["--buyers", "1000000000"]].concat());
    signal(&first, Signal::KILL);
    first.wait().expect("it is dead");
    let (status, report) = finish(rush(&[&args[..], &["--buyers", "30000"]].concat()));
    assert!(status.success(), "{report:#}");
    assert_audited(&report);
    assert_eq!(report["confirmed"], 2_000);
}

#[test]
fn bad_input_is_refused_before_anything_is_opened() {
    for args in [
        &["--stock", "0"][..],
        &["--stock", "99999999999"],
        &["--per-buyer", "0"],
        &["--concurrency", "0"],
        &["--hold", "1ms"],
        &["--hold", "5"],
        &["--hold", "61m"],
        &["--buyers", "-1"],
        &["--join", "launch"],
        &["--nonsense"],
    ] {
        let output = rush(args).output().expect("rush runs");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?} is explained");
    }
}

#[test]
fn a_store_that_cannot_be_used_is_told_with_a_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().display());
    let output = rush(&["--store", &url]).output().expect("rush runs");
    assert_eq!(output.status.code(), Some(4));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("is a directory") && text.contains("hint"), "{text}");
}
