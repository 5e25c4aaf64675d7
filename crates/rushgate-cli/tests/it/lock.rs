//! `rushgate lock`: one holder at a time, even if processes are killed or suspended.

use std::os::unix::fs::PermissionsExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Running, Shop};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rushgate_test::history::SEED_VARIABLE;
use rushgate_test::servers::{Kind, RedisSetup, Wire};
use rustix::process::{Pid, Signal, kill_process};

fn run<'a>(name: &'a str, options: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    [&["lock", "run", name], options, &["--"], command].concat()
}

fn sh(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

#[test]
fn the_exit_status_is_the_commands_own() {
    let shop = Shop::new();
    for status in [0, 1, 7, 255] {
        let script = format!("exit {status}");
        assert_eq!(shop.run(&run("a", &[], &sh(&script))).status, status);
    }
}

#[test]
fn a_command_that_dies_of_a_signal_gives_128_and_its_number() {
    let shop = Shop::new();
    assert_eq!(shop.run(&run("a", &[], &sh("kill -9 $$"))).status, 137);
    assert_eq!(shop.run(&run("a", &[], &sh("kill -TERM $$"))).status, 143);
}

#[test]
fn a_command_that_cannot_be_started_gives_127_or_126_and_the_lock_back() {
    let shop = Shop::new();
    let said = shop.run(&run("a", &[], &["no-such-command"]));
    assert_eq!(said.status, 127);
    assert!(said.err.contains("hint: use sh -c"), "{}", said.err);
    let file = shop.path("plain");
    std::fs::write(&file, "").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(shop.run(&run("a", &[], &["./plain"])).status, 126);
    assert_eq!(shop.json(&["lock", "ls"]), serde_json::json!([]));
}

#[test]
fn name_token_and_a_growing_fence_are_exported() {
    let shop = Shop::new();
    let print = sh("echo $RUSHGATE_LOCK $RUSHGATE_LOCK_TOKEN $RUSHGATE_FENCE");
    let mut last = 0;
    for _ in 0..3 {
        let out = shop.ok(&run("order:42", &[], &print));
        let words: Vec<_> = out.split_whitespace().collect();
        assert_eq!((words[0], words[1].len()), ("order:42", 32));
        let fence: u64 = words[2].parse().unwrap();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }
}

#[test]
fn a_busy_lock_is_refused_and_its_holder_named() {
    let shop = Shop::new();
    let mut holder = shop.start(&run("a", &["--label", "release 7"], &sh(WAIT_FOR_GO)));
    assert_eq!(holder.line(), "held");
    let pid = holder.child.id();
    let said = shop.run(&run("a", &["--wait", "0s"], &["true"]));
    assert_eq!(said.status, 1);
    assert!(said.err.contains(&format!("process {pid} on ")), "{}", said.err);
    assert!(said.err.contains("(release 7) since 2"), "{}", said.err);
    let said = shop.run(&[&["--json"][..], &run("a", &["--wait", "10ms"], &["true"])].concat());
    assert_eq!((said.status, said.error()["code"].as_str()), (1, Some("busy")));
    std::fs::write(shop.path("go"), "").unwrap();
    assert_eq!(holder.end().status, 0);
}

/// Prints a line, then runs until a file appears.
const WAIT_FOR_GO: &str = "echo held; while [ ! -e go ]; do sleep 0.02; done";

#[test]
fn show_tells_holder_and_line() {
    let shop = Shop::new();
    let mut holder = shop.start(&run("a", &[], &sh(WAIT_FOR_GO)));
    assert_eq!(holder.line(), "held");
    let waiter = shop.start(&run("a", &["--label", "second"], &["true"]));
    let lock = shop.until(&["lock", "show", "a"], |lock| !lock["waiters"].as_array().unwrap().is_empty());
    assert_eq!(lock["name"], "a");
    assert_eq!(lock["holder"]["pid"], holder.child.id());
    assert!(lock["holder"]["label"].as_str().unwrap().starts_with("sh -c echo held"), "{lock}");
    assert_eq!(lock["waiters"][0]["position"], 1);
    assert_eq!(lock["waiters"][0]["pid"], waiter.child.id());
    assert_eq!(lock["waiters"][0]["label"], "second");
    let text = shop.ok(&["lock", "show", "a"]);
    assert!(text.starts_with("a is held by process "), "{text}");
    // The holder may renew its lease between the two reads.
    shop.until(&["lock", "ls"], |locks| locks[0] == shop.json(&["lock", "show", "a"]));
    std::fs::write(shop.path("go"), "").unwrap();
    assert_eq!((holder.end().status, waiter.end().status), (0, 0));
    assert_eq!(shop.ok(&["lock", "show", "a"]), "a is free\n");
}

#[test]
fn only_the_holders_token_releases() {
    let shop = Shop::new();
    let script = "echo $RUSHGATE_LOCK_TOKEN; while :; do sleep 0.02; done";
    let mut holder = shop.start(&run("a", &["--lease", "2s"], &sh(script)));
    let token = holder.line();
    let other = "0".repeat(32);
    assert_eq!(shop.run(&["lock", "release", "a", "--token", &other]).status, 1);
    assert_eq!(shop.run(&["lock", "release", "a", "--token", "x"]).status, 2);
    assert_eq!(shop.ok(&["lock", "release", "a", "--token", &token]), "released\n");
    let said = holder.end();
    assert_eq!(said.status, 1, "the command was ended");
    assert!(said.err.contains("lease lost"), "{}", said.err);
    shop.ok(&run("a", &[], &["true"]));
    assert_eq!(shop.json(&["lock", "show", "a"])["holder"], serde_json::Value::Null);
}

#[test]
fn a_broken_lock_ends_the_command_and_what_it_started() {
    let shop = Shop::new();
    let script = "sh -c 'trap \"\" TERM; while :; do sleep 0.02; done' & echo started; wait";
    let mut holder = shop.start(&run("a", &[], &sh(script)));
    assert_eq!(holder.line(), "started");
    let broken = shop.json(&["lock", "force-release", "a"]);
    assert_eq!(broken["holder"]["pid"], holder.child.id());
    // Grandchildren inherit this pipe, so it ends when the last of them has ended.
    assert_eq!(holder.rest(), "");
    let said = holder.end();
    assert_eq!(said.status, 1);
    assert!(said.err.contains("lease lost: `a`: it was force-released"), "{}", said.err);
    assert_eq!(shop.run(&["lock", "force-release", "a"]).status, 1);
}

#[test]
fn with_on_lost_warn_the_command_continues() {
    let shop = Shop::new();
    let script = format!("{WAIT_FOR_GO}; exit 3");
    let mut holder = shop.start(&run("a", &["--on-lost", "warn"], &sh(&script)));
    assert_eq!(holder.line(), "held");
    shop.ok(&["lock", "force-release", "a"]);
    std::fs::write(shop.path("go"), "").unwrap();
    let said = holder.end();
    assert_eq!(said.status, 3, "{}", said.err);
}

#[test]
fn what_the_command_leaves_behind_ends_with_it() {
    let shop = Shop::new();
    let mut holder = shop.start(&run("a", &[], &sh("sleep 1000 & exit 5")));
    assert_eq!(holder.rest(), "", "the pipe ends with the last of the group");
    assert_eq!(holder.end().status, 5);
}

#[test]
fn a_signal_is_passed_on_and_the_lock_released_after() {
    let shop = Shop::new();
    for (signal, name) in [(Signal::INT, "INT"), (Signal::TERM, "TERM"), (Signal::HUP, "HUP")] {
        let script = format!("trap 'exit 9' {name}; echo ready; while :; do sleep 0.02; done");
        let mut holder = shop.start(&run("a", &[], &sh(&script)));
        assert_eq!(holder.line(), "ready");
        holder.signal(signal);
        assert_eq!(holder.end().status, 9, "{name}");
        assert_eq!(shop.json(&["lock", "ls"]), serde_json::json!([]));
    }
}

#[test]
fn a_waiter_that_is_interrupted_leaves_no_place_behind() {
    let shop = Shop::new();
    let mut holder = shop.start(&run("a", &[], &sh(WAIT_FOR_GO)));
    assert_eq!(holder.line(), "held");
    let waiter = shop.start(&run("a", &[], &["true"]));
    shop.until(&["lock", "show", "a"], |lock| !lock["waiters"].as_array().unwrap().is_empty());
    waiter.signal(Signal::INT);
    assert_eq!(waiter.end().status, 130);
    assert_eq!(shop.json(&["lock", "show", "a"])["waiters"], serde_json::json!([]));
    std::fs::write(shop.path("go"), "").unwrap();
    assert_eq!(holder.end().status, 0);
}

#[test]
fn a_holder_that_is_killed_takes_its_command_along_and_its_lock_frees_after_the_lease() {
    let shop = Shop::new();
    let script = "echo $RUSHGATE_FENCE; sh -c 'while :; do sleep 0.02; done'";
    let mut holder = shop.start(&run("a", &["--lease", "1s"], &sh(script)));
    let fence: u64 = holder.line().parse().unwrap();
    holder.signal(Signal::KILL);
    assert_eq!(holder.rest(), "", "the whole process group has ended");
    let next = shop.ok(&run("a", &["--wait", "20s"], &sh("echo $RUSHGATE_FENCE")));
    assert!(next.trim().parse::<u64>().unwrap() > fence);
    drop(holder.end());
}

#[test]
fn a_holder_that_is_stopped_beyond_its_lease_loses_its_command_before_the_next_has_the_lock() {
    let shop = Shop::new();
    let script = "echo $RUSHGATE_FENCE; while :; do echo x >> log; sleep 0.005; done";
    let mut holder = shop.start(&run("a", &["--lease", "1s"], &sh(script)));
    let fence: u64 = holder.line().parse().unwrap();
    holder.suspend();
    // The next holder checks twice that the first one writes nothing more.
    let script = "echo $RUSHGATE_FENCE; wc -l < log; sleep 0.1; wc -l < log";
    let said = shop.ok(&run("a", &["--wait", "20s"], &sh(script)));
    let lines: Vec<u64> = said.lines().map(|line| line.trim().parse().unwrap()).collect();
    assert!(lines[0] > fence, "the fence grows");
    assert_eq!(lines[1], lines[2], "the first command had ended");
    holder.signal(Signal::CONT);
    let said = holder.end();
    assert_eq!(said.status, 1);
    assert!(said.err.contains("lease lost"), "{}", said.err);
}

#[test]
fn a_command_whose_watchdog_is_killed_ends_and_gives_the_lock_back() {
    let shop = Shop::new();
    // The watchdog leads the command's process group.
    let script = "cut -d' ' -f5 /proc/$$/stat; while :; do sleep 0.02; done";
    let mut holder = shop.start(&run("a", &[], &sh(script)));
    let watchdog = Pid::from_raw(holder.line().parse().unwrap()).unwrap();
    kill_process(watchdog, Signal::KILL).unwrap();
    assert_eq!(holder.rest(), "", "the whole process group has ended");
    let said = holder.end();
    assert_eq!(said.status, 1);
    assert!(said.err.contains("its watchdog was killed"), "{}", said.err);
    assert_eq!(shop.json(&["lock", "ls"]), serde_json::json!([]));
}

/// As a command does that reads from the terminal: it runs in the background, so the system stops its whole group.
const STOPS: &str = "echo $$; kill -TTIN 0; sleep 60";

/// Waits until the command has stopped.
fn until_stopped(holder: &mut Running) {
    let stat = format!("/proc/{}/stat", holder.line());
    let until = Instant::now() + Duration::from_secs(20);
    while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
        assert!(Instant::now() < until, "the command does not stop");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_signal_ends_a_command_that_is_stopped() {
    let shop = Shop::new();
    let mut holder = shop.start(&run("a", &[], &sh(STOPS)));
    until_stopped(&mut holder);
    holder.signal(Signal::TERM);
    assert_eq!(holder.rest(), "");
    assert_eq!(holder.end().status, 143);
    assert_eq!(shop.json(&["lock", "ls"]), serde_json::json!([]));
}

#[test]
fn a_stopped_command_ends_with_the_process_that_holds_its_lock() {
    let shop = Shop::new();
    let mut holder = shop.start(&run("a", &[], &sh(STOPS)));
    until_stopped(&mut holder);
    holder.signal(Signal::KILL);
    assert_eq!(holder.rest(), "", "the watchdog is not stopped, and ends the group");
}

#[test]
fn a_command_ends_when_every_process_named_rushgate_is_killed() {
    let shop = Shop::new();
    let script = "cut -d' ' -f5 /proc/$$/stat; while :; do sleep 0.02; done";
    let mut holder = shop.start(&run("a", &[], &sh(script)));
    let watchdog: u32 = holder.line().parse().unwrap();
    let wrapper = holder.child.id();
    // As `pkill -9 -f rushgate` does: by the name and by the command line.
    let (mut killed, mut spared) = (Vec::new(), Vec::new());
    for id in [watchdog, wrapper] {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{id}/{file}")).unwrap();
        let named = read("comm").contains("rushgate") || read("cmdline").contains("rushgate");
        if named { &mut killed } else { &mut spared }.push(id);
    }
    for id in &killed {
        kill_process(Pid::from_raw(id.cast_signed()).unwrap(), Signal::KILL).unwrap();
    }
    assert_eq!(holder.rest(), "", "the whole process group has ended");
    assert_eq!((killed, spared), (vec![wrapper], vec![watchdog]));
}

#[test]
fn with_a_frozen_server_the_command_ends_with_the_lease_and_the_process_soon_after() {
    let server = RedisSetup::new(Kind::Redis).start();
    let shop = Shop::new();
    let script = sh("echo held; while :; do sleep 0.02; done");
    let mut holder =
        shop.start(&[&["--store", &server.url()], &run("a", &["--lease", "2s"], &script)[..]].concat());
    assert_eq!(holder.line(), "held");
    server.pause();
    let frozen = Instant::now();
    assert_eq!(holder.rest(), "");
    let said = holder.end();
    let took = frozen.elapsed();
    server.resume();
    assert_eq!(said.status, 1);
    assert!(said.err.contains("lease lost"), "{}", said.err);
    assert!(took < Duration::from_secs(6), "a lease that is over needs no release: {took:?}");
}

#[test]
fn with_a_frozen_server_a_command_that_ends_within_the_lease_keeps_its_status() {
    let server = RedisSetup::new(Kind::Redis).start();
    let shop = Shop::new();
    let script = sh("echo held; while [ ! -e go ]; do sleep 0.02; done; exit 4");
    let mut holder =
        shop.start(&[&["--store", &server.url()], &run("a", &["--lease", "3s"], &script)[..]].concat());
    assert_eq!(holder.line(), "held");
    server.pause();
    std::fs::write(shop.path("go"), "").unwrap();
    let frozen = Instant::now();
    assert_eq!(holder.rest(), "");
    let said = holder.end();
    let took = frozen.elapsed();
    server.resume();
    assert_eq!(said.status, 4, "{}", said.err);
    assert!(said.err.contains("expires with its lease"), "{}", said.err);
    assert!(took < Duration::from_secs(9), "the release takes no longer than the lease: {took:?}");
}

/// With the default lease.
#[test]
fn a_lock_whose_store_is_away_when_the_command_ends_is_released_when_it_is_back() {
    let server = RedisSetup::new(Kind::Redis).start();
    let (shop, wire) = (Shop::new(), Wire::to(server.port()));
    let script = sh("echo held; while [ ! -e go ]; do sleep 0.02; done; exit 4");
    let mut holder = shop.start(&[&["--store", &wire.url()], &run("a", &[], &script)[..]].concat());
    assert_eq!(holder.line(), "held");
    wire.lose_answers(true);
    std::fs::write(shop.path("go"), "").unwrap();
    // It says so once a call is repeated no longer.
    let note = holder.note();
    assert!(note.contains("the store cannot be reached; trying to release `a`"), "{note}");
    wire.lose_answers(false);
    let said = holder.end();
    assert_eq!(said.status, 4, "{}", said.err);
    assert!(!said.err.contains("expires with its lease"), "{}", said.err);
    let store = server.url();
    assert_eq!(shop.run(&["--store", &store, "lock", "run", "a", "--wait", "0s", "--", "true"]).status, 0);
}

#[test]
fn a_signal_ends_the_wait_for_a_store_that_is_away_when_the_command_ends() {
    let server = RedisSetup::new(Kind::Redis).start();
    let (shop, wire) = (Shop::new(), Wire::to(server.port()));
    let script = sh("echo held; while [ ! -e go ]; do sleep 0.02; done; exit 4");
    let lease = ["--lease", "10m"];
    let mut holder = shop.start(&[&["--store", &wire.url()], &run("a", &lease, &script)[..]].concat());
    assert_eq!(holder.line(), "held");
    wire.lose_answers(true);
    std::fs::write(shop.path("go"), "").unwrap();
    assert!(holder.note().contains("the store cannot be reached"));
    holder.signal(Signal::INT);
    let said = holder.end();
    assert_eq!(said.status, 4, "{}", said.err);
    assert!(said.err.contains("expires with its lease"), "{}", said.err);
}

#[test]
fn a_command_longer_than_the_lease_keeps_its_lock() {
    let shop = Shop::new();
    let said = shop.run(&run("a", &["--lease", "2s"], &sh("sleep 3; exit 4")));
    assert_eq!(said.status, 4, "{}", said.err);
}

#[test]
fn processes_exclude_each_other() {
    let shop = Shop::new();
    std::fs::write(shop.path("count"), "0\n").unwrap();
    let add = sh("n=$(cat count); echo $((n+1)) > count");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..20).for_each(|_| drop(shop.ok(&run("count", &["--wait", "2m"], &add)))));
        }
    });
    assert_eq!(std::fs::read_to_string(shop.path("count")).unwrap(), "160\n");
}

#[test]
fn verbose_output_says_why_a_lock_is_waited_for() {
    let server = RedisSetup::new(Kind::Redis).with(&["--min-replicas-to-write", "1"]).start();
    let shop = Shop::new();
    let said = shop.run(&["-v", "--store", &server.url(), "lock", "run", "a", "--wait", "1s", "--", "true"]);
    assert_eq!(said.status, 4, "{}", said.err);
    assert!(
        said.err.contains("retrying a store call error=acquire a lock: too few replicas"),
        "{}",
        said.err
    );
}

#[test]
fn contenders_with_default_settings_all_succeed_on_sqlite() {
    contend(None);
}

#[test]
fn contenders_with_default_settings_all_succeed_on_redis() {
    contend(Some(&RedisSetup::new(Kind::Redis).start().url()));
}

#[test]
fn contenders_with_default_settings_all_succeed_on_valkey() {
    contend(Some(&RedisSetup::new(Kind::Valkey).start().url()));
}

/// Ten commands contend for one lock with default options. `RUSHGATE_SEED` repeats a run.
fn contend(store: Option<&str>) {
    let seed = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    let mut random = StdRng::seed_from_u64(seed);
    let commands = loop {
        let draw = [(); 10].map(|()| (random.random_range(0..1_000), random.random_range(500..4_000)));
        // The last waiter waits for all others, and the default wait is 30 s.
        if draw.iter().map(|(_start, hold)| hold).sum::<u64>() <= 24_000 {
            break draw;
        }
    };
    let shop = Shop::new();
    let store: Vec<&str> = store.iter().flat_map(|url| ["--store", url]).collect();
    std::thread::scope(|scope| {
        for (start, hold) in commands {
            let (shop, store) = (&shop, &store);
            scope.spawn(move || {
                sleep(Duration::from_millis(start));
                // `mkdir` fails if another holder's directory exists.
                let script = format!("mkdir held && sleep {} && rmdir held", hold as f64 / 1e3);
                let said = shop.run(&[&store[..], &run("a", &[], &sh(&script))].concat());
                assert_eq!(
                    said.status, 0,
                    "held for {hold} ms: {}\nreplay with {SEED_VARIABLE}={seed}",
                    said.err
                );
            });
        }
    });
}

/// Regression: when every process loaded every script, a busy server did not answer for 5 s, and some
/// commands failed.
#[test]
fn many_processes_that_meet_a_fresh_server_all_get_their_locks() {
    let server = RedisSetup::new(Kind::Redis).start();
    let shop = Shop::new();
    let names: Vec<_> = (0..40).map(|number| format!("n{number}")).collect();
    let url = server.url();
    let start = |name: &String| shop.start(&[&["--store", &url], &run(name, &[], &["true"])[..]].concat());
    let started: Vec<_> = names.iter().map(start).collect();
    for running in started {
        let said = running.end();
        assert_eq!(said.status, 0, "{}", said.err);
    }
    let text = server.ask(&["INFO", "commandstats"]).concat();
    let stats = text.lines().find_map(|line| line.strip_prefix("cmdstat_function|load:")).unwrap();
    let number = |name: &str| -> u64 {
        let value = stats.trim().split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        value.unwrap().parse().unwrap()
    };
    let (tried, failed) = (number("calls"), number("failed_calls"));
    assert_eq!(tried - failed, 1, "one of 40 processes installs the library: {stats}");
    assert!(tried <= 10, "most find it installed: {stats}");
}

#[test]
fn a_list_without_locks_says_so() {
    let shop = Shop::new();
    shop.ok(&["lock", "run", "l", "--", "true"]);
    let said = shop.run(&["lock", "ls"]);
    assert_eq!((said.status, said.err.as_str()), (0, "no locks are held or waited for\n"));
    assert_eq!(shop.json(&["lock", "ls"]), serde_json::json!([]));
}
