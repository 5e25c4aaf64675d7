//! `rushgate rush` as a user runs it: the real binary, real files, real signals.

use std::io::{BufRead, BufReader};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rushgate_testkit::servers::{Kind, PostgresServer, SentinelSetup};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

fn rush(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rushgate"));
    command.arg("rush").args(args).stdin(Stdio::null()).env_remove("RUSHGATE_STORE");
    command
}

fn finish(mut command: Command) -> (ExitStatus, Value) {
    let output = command.arg("--json").arg("--quiet").output().expect("rush starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let report = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr)));
    (output.status, report)
}

fn store(folder: &TempDir) -> String {
    format!("sqlite:{}", folder.path().join("store.db").display())
}

/// A member of a sale. A test that fails leaves none behind.
struct Member(Option<Child>);

impl Deref for Member {
    type Target = Child;
    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it is there until its report is read")
    }
}

impl DerefMut for Member {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is there until its report is read")
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a child has an id");
    kill_process(pid, signal).expect("the child is there");
}

/// Starts a member of a sale that only says what came of it.
fn start(args: &[&str]) -> Member {
    Member(Some(rush(args).args(["--json", "--quiet"]).stdout(Stdio::piped()).spawn().expect("rush starts")))
}

/// Starts a member of a sale and waits until its crowd has been answered for a while.
fn start_and_see_it_sell(args: &[&str]) -> Member {
    let child = rush(args).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = Member(Some(child.expect("rush starts")));
    let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let mut lines = stderr.lines().map_while(Result::ok);
    let selling = lines.find(|line| line.contains(" tries") && !line.starts_with("0 tries"));
    assert!(selling.is_some(), "it tells its progress");
    // Go on reading, so that the child never waits for us; what ended it is for whoever reads a failed test.
    let errors = |line: &String| line.starts_with("{\"error\"");
    thread::spawn(move || lines.filter(errors).for_each(|line| note(&line)));
    child
}

fn report_of(mut child: Member) -> (ExitStatus, Value) {
    let child = child.0.take().expect("a report is read once");
    let output = child.wait_with_output().expect("rush ends");
    let report = serde_json::from_slice(&output.stdout).expect("a report in JSON");
    (output.status, report)
}

fn assert_audited(report: &Value) {
    let failed: Vec<_> = report["audit"]["checks"]
        .as_array()
        .expect("the audit has checks")
        .iter()
        .filter(|check| check["ok"] != true)
        .collect();
    assert!(failed.is_empty(), "{failed:?}\n{report:#}");
    assert_eq!(report["audit"]["ok"], true);
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
    // BEGIN, COMMIT, and something in between.
    assert!(number("store_statements") >= 3 * number("store_transactions"), "{report:#}");
    for figure in ["p50", "p99", "max"] {
        assert!(report["latency_us"][figure].as_f64() > Some(0.0), "{figure}");
    }
    // The database hardly notices: a few transactions for tens of thousands of attempts.
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
    assert!(text.contains("5 of 5: nothing left"), "{text}");
    assert!(text.ends_with("The audit holds.\n"), "{text}");
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

/// Half of those who have a cart pay at its deadline or never, and the hold is long.
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
    let mut child = Member(Some(child.expect("rush starts")));
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
    // Whoever comes last finds everything carried out, the dead process's part too.
    let (status, report) = finish(rush(&with(&["--buyers", "40000"])));
    assert!(status.success(), "{report:#}");
    assert_audited(&report);
    assert_eq!(report["confirmed"], 3_000);
    assert_eq!(report["held"], 0);
}

#[test]
fn a_rush_that_was_killed_goes_on_from_its_files_and_the_audit_holds() {
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

// ── on servers that die in the middle ────────────────────────────────────────────────────────────────────────────────

/// What is acknowledged is on a replica too.
const REPLICATED: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];

/// What befalls a sale while it sells.
#[derive(Clone, Copy, Debug)]
enum Disaster {
    PrimaryKilled,
    LedgerRestarted,
    MemberKilled,
}

/// One sale over sentinels and Postgres, with every disaster at a random moment and in random order.
fn a_sale_with_disasters(kind: Kind, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut group = SentinelSetup::new(kind).with(&REPLICATED).start();
    let mut ledger = PostgresServer::start();
    let (store, orders) = (group.url(), ledger.url());
    let args = ["--join", "launch", "--store", &store, "--orders", &orders, "--stock", "3000"];
    let with = |more: &[&'static str]| [&args[..], &["--hold", "500ms"], more].concat();
    let mut victim = start_and_see_it_sell(&with(&["--buyers", "1000000000"]));
    let others: Vec<_> = (0..2).map(|_| start_and_see_it_sell(&with(&["--buyers", "100000"]))).collect();

    let mut disasters = [Disaster::PrimaryKilled, Disaster::LedgerRestarted, Disaster::MemberKilled];
    disasters.shuffle(&mut random);
    let mut killed = None;
    for disaster in disasters {
        thread::sleep(Duration::from_millis(random.random_range(0..400)));
        match disaster {
            Disaster::PrimaryKilled => {
                let primary = group.primary();
                group.servers[primary].kill();
                killed = Some(primary);
            }
            Disaster::LedgerRestarted => {
                ledger.stop();
                ledger.start_again();
            }
            Disaster::MemberKilled => {
                signal(&victim, Signal::KILL);
                victim.wait().expect("it is dead");
            }
        }
    }
    for child in others {
        let (_, report) = report_of(child);
        assert_audited(&report);
    }
    if let Some(primary) = killed {
        group.servers[primary].restart();
    }
    // Whoever comes last finds everything carried out, the dead process's part too.
    let (status, report) = finish(rush(&with(&["--buyers", "40000"])));
    assert!(status.success(), "{disasters:?}\n{report:#}");
    assert_audited(&report);
    assert_eq!((&report["confirmed"], &report["held"]), (&3_000.into(), &0.into()), "{disasters:?}");
}

/// `RUSHGATE_SEED` repeats a run, `RUSHGATE_MINUTES` goes on for so long, each sale with the next seed.
#[test]
fn a_sale_outlives_its_primary_a_restart_of_its_ledger_and_a_killed_member() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let end = Instant::now() + Duration::from_secs(60 * number("RUSHGATE_MINUTES").unwrap_or(0));
    let mut seed = number("RUSHGATE_SEED").unwrap_or_else(rand::random);
    loop {
        note(&format!("replay with RUSHGATE_SEED={seed}"));
        let kind = if seed.is_multiple_of(2) { Kind::Redis } else { Kind::Valkey };
        a_sale_with_disasters(kind, seed);
        if Instant::now() >= end {
            return;
        }
        seed = seed.wrapping_add(1);
    }
}

#[expect(clippy::print_stdout, reason = "the output of a test is for whoever reads it")]
fn note(text: &str) {
    println!("{text}");
}
