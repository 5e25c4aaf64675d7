//! `rushgate work` with its defaults: several workers, tasks of random length, and one worker that is killed.
//! Its task passes to another worker after the default lease. Operators list workers, quiet and stop them.
//!
//! `RUSHGATE_SEED` repeats a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use crate::common::{Running, Shop};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rushgate_test::servers::{Kind, RedisSetup};
use rustix::process::Signal;
use serde_json::{Value, json};

const WORKERS: usize = 5;
const TASKS: usize = 48;
/// The worker is killed when this many tasks have started.
const KILLED_AFTER: usize = 12;
const RUN_MAX: Duration = Duration::from_secs(120);

/// Logs its start and end, and detects another live run of the same task. The payload is its duration.
const JOB: &str = r#"
    set -e
    other=$(cat pid.$RUSHGATE_TASK 2>/dev/null) && kill -0 "$other" 2>/dev/null && echo "met $RUSHGATE_TASK $PPID" >> log
    echo $$ > pid.$RUSHGATE_TASK
    echo "start $RUSHGATE_TASK $PPID" >> log
    sleep "$(cat)"
    rm pid.$RUSHGATE_TASK
    echo "end $RUSHGATE_TASK $PPID" >> log
"#;

/// A line of the log: event, task and worker.
type Noted = (String, String, u32);

fn log(shop: &Shop) -> Vec<Noted> {
    let text = fs::read_to_string(shop.path("log")).unwrap_or_default();
    // The last line may be incomplete.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let noted = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let [what, task, worker] = [(); 3].map(|()| words.next().expect("a line has three words"));
        (what, task, worker.parse().expect("a worker is a process id"))
    };
    whole.lines().map(noted).collect()
}

/// Waits until the log matches `wish`.
fn until(shop: &Shop, wish: impl Fn(&[Noted]) -> bool) -> Vec<Noted> {
    let start = Instant::now();
    loop {
        let log = log(shop);
        if wish(&log) {
            return log;
        }
        assert!(start.elapsed() < RUN_MAX, "the log stays {log:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_running(log: &[Noted], of: u32) -> bool {
    log.iter().rfind(|(.., worker)| *worker == of).is_some_and(|(what, ..)| what == "start")
}

/// Tasks with a completed run.
fn done(log: &[Noted]) -> BTreeSet<&str> {
    log.iter().filter(|(what, ..)| what == "end").map(|(_, task, _)| task.as_str()).collect()
}

// Prints the seed, which is shown if the test fails.
#[allow(clippy::print_stdout)]
fn every_task_is_done_once(store: Option<&str>) {
    let seed = std::env::var("RUSHGATE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    println!("RUSHGATE_SEED={seed}");
    let (shop, mut rng) = (Shop::new(), StdRng::seed_from_u64(seed));
    let command = |args: &[&str]| {
        let mut command = shop.command(args);
        if let Some(store) = store {
            command.env("RUSHGATE_STORE", store);
        }
        command
    };
    let queue = |verb: &str| {
        let output = command(&["--json", "queue", verb, "mail"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let lines = (0..TASKS).map(|n| {
        let seconds = f64::from(rng.random_range(500..4_000)) / 1e3;
        let line = json!({"id": format!("t{n}"), "payload": seconds, "priority": 5, "max_attempts": 20});
        format!("{line}\n")
    });
    fs::write(shop.path("tasks"), lines.collect::<String>()).unwrap();
    fs::write(shop.path("job.sh"), JOB).unwrap();
    assert!(command(&["queue", "import", "mail", "tasks"]).status().unwrap().success());

    let start = || Running::of(command(&["work", "mail", "--exec", "sh", "job.sh"]));
    let mut workers: Vec<Running> = (0..WORKERS).map(|_| start()).collect();
    let victim = workers.swap_remove(rng.random_range(0..WORKERS));
    let killed = victim.child.id();
    let starts = |log: &[Noted]| log.iter().filter(|(what, ..)| what == "start").count();
    until(&shop, |log| starts(log) >= KILLED_AFTER && is_running(log, killed));
    victim.signal(Signal::KILL);
    drop(victim);

    until(&shop, |log| done(log).len() == TASKS);
    // A task may have ended before its worker was killed, and its lease runs on.
    let start = Instant::now();
    loop {
        let stats = queue("stats");
        if ["ready", "scheduled", "leased"].iter().all(|state| stats[state] == 0) {
            break;
        }
        assert!(start.elapsed() < RUN_MAX, "{stats}");
        std::thread::sleep(Duration::from_millis(100));
    }
    for worker in &workers {
        worker.signal(Signal::TERM);
    }
    for worker in workers {
        let said = worker.end();
        assert_eq!(said.status, 0, "{}", said.err);
        assert!(said.err.contains("0 lost"), "{}", said.err);
    }

    let mut began = BTreeMap::<_, Vec<u32>>::new();
    for (what, task, worker) in log(&shop) {
        assert_ne!(what, "met", "two runs of {task} at the same time, the second by {worker}");
        if what == "start" {
            began.entry(task).or_default().push(worker);
        }
    }
    // The killed worker had one task, which passed to another. No other task ran twice.
    let again: Vec<_> = began.iter().filter(|(_, workers)| workers.len() > 1).collect();
    assert!(again.len() <= 1, "{again:?}");
    assert!(again.iter().all(|(_, workers)| workers.len() == 2 && workers[0] == killed), "{again:?}");
    let stats = queue("stats");
    for state in ["ready", "scheduled", "leased", "blocked", "dead"] {
        assert_eq!(stats[state], 0, "{stats}");
    }
}

#[test]
fn workers_do_every_task_once_on_sqlite() {
    every_task_is_done_once(None);
}

fn on_a_server(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    every_task_is_done_once(Some(&server.url()));
}

#[test]
fn workers_do_every_task_once_on_redis() {
    on_a_server(Kind::Redis);
}

#[test]
fn workers_do_every_task_once_on_valkey() {
    on_a_server(Kind::Valkey);
}

/// With the default times: a worker announces itself every 10 s, and is listed for 30 s.
fn an_operator_lists_quiets_and_stops_workers(store: Option<&str>) {
    let shop = Shop::new();
    let command = |args: &[&str]| {
        let mut command = shop.command(args);
        if let Some(store) = store {
            command.env("RUSHGATE_STORE", store);
        }
        command
    };
    let run = |args: &[&str]| {
        let output = command(&[&["--json", "queue", "worker"], args].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default(), said)
    };
    let until = |wish: &dyn Fn(&[Value]) -> bool| {
        let start = Instant::now();
        loop {
            let (status, workers, said) = run(&["ls", "mail"]);
            assert_eq!(status, Some(0), "{said}");
            let workers = workers.as_array().unwrap().clone();
            if wish(&workers) {
                return workers;
            }
            assert!(start.elapsed() < RUN_MAX, "{workers:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    assert!(command(&["queue", "resume", "mail"]).status().unwrap().success());
    let start = || Running::of(command(&["work", "mail", "--exec", "true"]));
    let [stopped, killed] = [start(), start()];
    let listed = until(&|workers| workers.len() == 2);
    let id = |of: &Running| {
        let ends = format!(":{}", of.child.id());
        let found = listed.iter().find(|worker| worker["name"].as_str().unwrap().ends_with(&ends));
        found.unwrap()["id"].as_str().unwrap().to_owned()
    };
    assert!(listed.iter().all(|worker| worker["version"].as_str().unwrap().starts_with("rushgate ")));
    assert!(listed.iter().all(|worker| worker["mode"] == "work" && worker["running"] == 0), "{listed:?}");

    let [stops, dies] = [id(&stopped), id(&killed)];
    assert_eq!(run(&["set", "mail", &dies, "quiet"]).1["mode"], "quiet");
    assert_eq!(run(&["set", "mail", &stops, "stop"]).0, Some(0));
    let said = stopped.end();
    assert_eq!(said.status, 0, "{}", said.err);
    let left = until(&|workers| workers.len() == 1);
    assert_eq!((&left[0]["id"], &left[0]["mode"]), (&json!(dies), &json!("quiet")));
    assert_eq!(run(&["set", "mail", &stops, "work"]).0, Some(1), "it has ended");

    killed.signal(Signal::KILL);
    drop(killed);
    until(&|workers| workers.is_empty());
}

#[test]
fn an_operator_lists_quiets_and_stops_workers_on_sqlite() {
    an_operator_lists_quiets_and_stops_workers(None);
}

#[test]
fn an_operator_lists_quiets_and_stops_workers_on_redis() {
    let server = RedisSetup::new(Kind::Redis).start();
    an_operator_lists_quiets_and_stops_workers(Some(&server.url()));
}

#[test]
fn an_operator_lists_quiets_and_stops_workers_on_valkey() {
    let server = RedisSetup::new(Kind::Valkey).start();
    an_operator_lists_quiets_and_stops_workers(Some(&server.url()));
}
