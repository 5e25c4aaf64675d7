//! Several processes on one ledger, and a process that is killed in the middle.
//!
//! The children are this test program, started for one ignored test.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use crate::common::bench::{Bench, Raw};
use crate::common::{assert_sound, id, order, phones, sale, stock};
use rushgate_core::LedgerSnapshot;
use rushgate_core::OrderIntent::{Cancel, Confirm, Expire, Hold};
use rushgate_ledger::{Ledger, Written, connect};

const URL: &str = "RUSHGATE_LEDGER_URL";
const FIRST: &str = "RUSHGATE_LEDGER_FIRST";
const UNITS: u32 = 1_000_000;

fn child(test: &str, url: &str, first: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", test])
        .env(URL, url)
        .env(FIRST, first.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn told(name: &str) -> String {
    std::env::var(name).unwrap()
}

fn say(text: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").unwrap();
    out.flush().unwrap();
}

async fn snapshot(url: &str) -> LedgerSnapshot {
    if let Raw::Sqlite(conn) = Raw::connect(url).await {
        let integrity: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(integrity, "ok");
        let unmatched = conn.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap();
        assert!(!unmatched, "a row without its parent");
    }
    let snapshot = connect(url).unwrap().snapshot(&sale()).await.unwrap();
    assert_sound(&snapshot);
    snapshot
}

/// Writes the orders `n + 1 ..= n + 50`: first held, then ended in every way. Prints each acknowledged batch.
async fn write_for_ever(ledger: &dyn Ledger, first: u32) {
    for n in (first..).step_by(50) {
        let ends = [Hold, Confirm, Cancel, Expire];
        for held in [true, false] {
            let batch = (n + 1..=n + 50).map(|n| {
                order(n, &format!("buyer-{n}"), &[n], if held { Hold } else { ends[n as usize % 4] })
            });
            ledger.write(batch.collect()).await.unwrap();
        }
        say(format_args!("acknowledged {n}"));
    }
}

async fn what_was_acknowledged_survives_kill_minus_nine_and_nothing_is_half_done(bench: Bench) {
    let url = bench.url();
    connect(&url).unwrap().open_sale(phones(UNITS, 1)).await.unwrap();
    for round in 0..5_u32 {
        let first = round * 100_000;
        let mut child = child("processes::child_writes_until_it_is_killed", &url, first);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Each round kills the child after another number of batches, at an arbitrary moment.
        let wanted = 2 + 3 * round as usize;
        let acknowledged = |line: &str| line.strip_prefix("acknowledged ")?.parse::<u32>().ok();
        let last = lines.by_ref().filter_map(|line| acknowledged(&line.unwrap())).nth(wanted).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // Batches that the child printed before its death are acknowledged too.
        let last = lines.map_while(Result::ok).filter_map(|line| acknowledged(&line)).last().unwrap_or(last);
        let snapshot = snapshot(&url).await;
        check_killed(&snapshot, first, last);
    }
}

fn check_killed(snapshot: &LedgerSnapshot, first: u32, last: u32) {
    let by_id: std::collections::HashMap<_, _> =
        snapshot.orders.iter().map(|order| (order.id, order)).collect();
    for n in first + 1..=last + 50 {
        let order = by_id.get(&id(n)).unwrap_or_else(|| panic!("order {n} was acknowledged and is gone"));
        assert_eq!(order.state, [Hold, Confirm, Cancel, Expire][n as usize % 4]);
        assert_eq!(order.units.len(), usize::from(n % 4 < 2));
    }
    // The batch under way was recorded as a whole or not at all.
    let on_its_way = (last + 51..=last + 100).filter(|n| by_id.contains_key(&id(*n))).count();
    assert!(on_its_way == 0 || on_its_way == 50, "{on_its_way} orders of a batch of 50");
}

#[tokio::test]
#[ignore = "a part of what_was_acknowledged_survives_kill_minus_nine, which starts it and kills it"]
async fn child_writes_until_it_is_killed() {
    let ledger = connect(&told(URL)).unwrap();
    write_for_ever(&*ledger, told(FIRST).parse().unwrap()).await;
}

async fn processes_that_sell_the_same_units_never_sell_one_twice(bench: Bench) {
    let url = bench.url();
    // They also create the file or schema concurrently.
    let mut children: Vec<_> =
        (0..3).map(|n| child("processes::child_sells_the_same_units", &url, n * 1_000)).collect();
    let mut outputs: Vec<_> =
        children.iter_mut().map(|child| BufReader::new(child.stdout.take().unwrap()).lines()).collect();
    for child in &mut children {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
    let mut count = |word: &str| -> usize {
        let sum = |line: String| line.strip_prefix(word).map(|n| n.trim().parse::<usize>().unwrap());
        outputs.iter_mut().map(|lines| lines.by_ref().find_map(|line| sum(line.unwrap())).unwrap()).sum()
    };
    let (recorded, reassigned, refused) = (count("recorded"), count("reassigned"), count("refused"));
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    // 3 × 200 orders for the same 200 of 450 units. A replacement may be a unit that another order requests later.
    assert_eq!((recorded + reassigned, refused), (450, 150));
    assert!(reassigned >= 250, "{reassigned}");
    let snapshot = snapshot(&url).await;
    assert_eq!(snapshot.orders.len(), 450);
}

#[tokio::test]
#[ignore = "a part of processes_that_sell_the_same_units_never_sell_one_twice, which starts it"]
async fn child_sells_the_same_units() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let ledger = connect(&told(URL)).unwrap();
    ledger.open_sale(phones(450, 1)).await.unwrap();
    let first: u32 = told(FIRST).parse().unwrap();
    let mut counts = [0_usize; 3];
    for unit in 1..=200 {
        let n = first + unit;
        let entries = vec![stock(450, &[], 1), order(n, &format!("buyer-{n}"), &[unit], Confirm)];
        match ledger.write(entries).await.unwrap().remove(1) {
            Written::Recorded(Confirm) => counts[0] += 1,
            Written::Reassigned { .. } => counts[1] += 1,
            Written::Refused(_) => counts[2] += 1,
            other => panic!("{other:?}"),
        }
    }
    ledger.close().await.unwrap();
    say(format_args!("recorded {}\nreassigned {}\nrefused {}", counts[0], counts[1], counts[2]));
}

on_each_ledger! {
    what_was_acknowledged_survives_kill_minus_nine_and_nothing_is_half_done
    processes_that_sell_the_same_units_never_sell_one_twice
}
