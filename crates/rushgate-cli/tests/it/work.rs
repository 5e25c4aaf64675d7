//! `rushgate work`: the command's exit status decides the outcome of each task, even if the worker is killed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Running, Shop};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

fn work<'a>(options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&["work", "mail"], options, &["--exec", "sh", "-c", script]].concat()
}

fn push(shop: &Shop, id: &str) {
    shop.ok(&["queue", "enqueue", "mail", id, "--payload", &format!("\"for {id}\"")]);
}

/// The lines about tasks, sorted by task.
fn lines(out: &str) -> Vec<Value> {
    let mut lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.sort_by_key(|line| line["task"].to_string());
    lines
}

#[test]
fn the_exit_status_of_the_command_decides() {
    let shop = Shop::new();
    ["0", "65", "75", "3"].iter().for_each(|id| push(&shop, id));
    // Retries come after about 1 s. Wait until each task was tried once, then stop.
    let script = "echo $RUSHGATE_TASK >> tried; exit $RUSHGATE_TASK";
    let mut worker = shop.start(&[&["--json"][..], &work(&[], script)].concat());
    let said = [worker.line(), worker.line(), worker.line(), worker.line()].join("\n");
    let outcomes: Vec<_> =
        lines(&said).iter().map(|line| line["outcome"].as_str().unwrap().to_owned()).collect();
    assert_eq!(outcomes, ["done", "failed", "given_up", "later"], "{said}");
    shop.until(&["queue", "stats", "mail"], |stats| stats["scheduled"] == 2 && stats["dead"] == 1);
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().status, 0);
    let dead = shop.json(&["queue", "dead", "ls", "mail"]);
    assert_eq!((&dead[0]["id"], &dead[0]["error"]), (&"65".into(), &"exit status: 65".into()));
    let waiting = shop.json(&["queue", "ls", "mail"]);
    assert_eq!((&waiting[0]["id"], &waiting[0]["error"]), (&"3".into(), &"exit status: 3".into()));
}

#[test]
fn the_end_of_a_failed_commands_stderr_is_its_error_and_all_of_it_is_shown() {
    let shop = Shop::new();
    ["fails", "gives-up", "works"].iter().for_each(|id| push(&shop, id));
    let script = "seq 1000 >&2; echo \"no route to $RUSHGATE_TASK\" >&2
                  case $RUSHGATE_TASK in fails) exit 3;; gives-up) exit 65;; esac";
    let mut worker = shop.start(&[&["--json"][..], &work(&[], script)].concat());
    let outcomes = [worker.line(), worker.line(), worker.line()].join("\n");
    assert!(outcomes.contains("\"status\":\"exit status: 3\""), "the line has the status alone: {outcomes}");
    shop.until(&["queue", "stats", "mail"], |stats| stats["scheduled"] == 1 && stats["dead"] == 1);
    worker.signal(Signal::TERM);
    let said = worker.end();
    assert!(said.err.lines().filter(|line| *line == "1").count() >= 3, "the start is shown too");
    assert!(said.err.contains("no route to works"), "{}", said.err);
    let error = shop.json(&["queue", "show", "mail", "fails"])["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("exit status: 3: ") && error.ends_with("1000\nno route to fails"), "{error}");
    assert!(error.len() < 1_600 && !error.contains("\n1\n"), "only the end is kept: {error}");
    let dead = shop.json(&["queue", "dead", "ls", "mail"])[0]["error"].as_str().unwrap().to_owned();
    assert!(dead.starts_with("exit status: 65: ") && dead.ends_with("no route to gives-up"), "{dead}");
}

#[test]
fn the_backoff_flags_bound_the_delay_of_the_next_attempt() {
    let shop = Shop::new();
    push(&shop, "a");
    let options = ["--backoff", "3ms", "--backoff-max", "5ms", "--until-empty"];
    shop.ok(&["queue", "enqueue", "mail", "b", "--max-attempts", "6"]);
    // `b` fails six times within the milliseconds that the flags allow: with the defaults it would take minutes.
    let script = "echo $RUSHGATE_TASK >> tried; test $RUSHGATE_TASK = a";
    shop.ok(&work(&options, script));
    let tried = std::fs::read_to_string(shop.path("tried")).unwrap();
    assert_eq!(tried.lines().filter(|line| *line == "b").count(), 6, "{tried}");
    assert_eq!(shop.json(&["queue", "dead", "ls", "mail"])[0]["attempts"], 6);
}

#[test]
fn the_command_gets_content_and_names() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a", "--payload", "\"for a\"", "--kind", "welcome"]);
    let script = "cat; echo; echo $RUSHGATE_QUEUE $RUSHGATE_TASK $RUSHGATE_ATTEMPT $RUSHGATE_FENCE $RUSHGATE_TICKET \
                  $RUSHGATE_KIND";
    let out = shop.ok(&work(&["--until-empty"], script));
    let mut lines = out.lines();
    assert_eq!(lines.next(), Some("\"for a\""));
    let words: Vec<_> = lines.next().unwrap().split(' ').collect();
    assert_eq!(words[..3], ["mail", "a", "1"]);
    assert!(words[3].parse::<u64>().unwrap() > 1_700_000_000_000_000, "the fence");
    assert!(words[4].ends_with(".a"), "the ticket");
    assert_eq!(words[5], "welcome");
}

#[test]
fn until_empty_waits_for_a_callback_that_is_blocked() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "batch", "--open"]);
    shop.ok(&["queue", "enqueue", "mail", "part", "--part-of", "batch"]);
    let mut worker = shop.start(&work(&["--until-empty"], "echo $RUSHGATE_TASK"));
    assert_eq!(worker.line(), "part");
    while !worker.note().starts_with("1 task left, waiting for dependencies: ") {}
    shop.ok(&["queue", "close-batch", "mail", "batch"]);
    assert_eq!(worker.line(), "batch");
    let said = worker.end();
    assert!(said.status == 0 && said.err.contains("2 done"), "{}", said.err);
}

#[test]
fn what_the_command_writes_is_kept_as_the_result() {
    let shop = Shop::new();
    shop.ok(&["queue", "limit", "mail", "--keep", "1h/10"]);
    for (id, payload) in [("sum", "[1,2]"), ("text", "\"no number\""), ("long", "0"), ("fails", "null")] {
        shop.ok(&["queue", "enqueue", "mail", id, "--payload", payload]);
    }
    let script = r#"case $RUSHGATE_TASK in
        sum) printf '{"of":%s}' "$(cat)";;
        text) echo no JSON;;
        long) head -c 70000 /dev/zero;;
        fails) echo '"in vain"'; exit 65;;
    esac"#;
    let said = shop.run(&work(&["--until-empty", "--keep-output", "application/json"], script));
    assert!(said.err.contains("1 done, 0 to be retried, 3 dead"), "{}", said.err);
    assert_eq!(said.out, "", "stdout belongs to the command");
    assert_eq!(shop.ok(&["queue", "wait", "mail", "sum"]), r#"{"of":[1,2]}"#);
    for (id, why) in [("text", "not JSON"), ("long", "exceeds 65536 bytes"), ("fails", "exit status: 65")] {
        let dead = shop.json(&["queue", "dead", "ls", "mail"]);
        let letter = dead.as_array().unwrap().iter().find(|letter| letter["id"] == id).unwrap();
        assert!(letter["error"].as_str().unwrap().contains(why), "{letter}");
    }

    let said =
        shop.run(&[&["work", "other", "--keep-output", "text/plain", "--exec"][..], &["true"]].concat());
    assert!(said.status == 2 && said.err.contains("queue limit other --keep"), "{}", said.err);

    // Byte for byte. A child process that stays behind does not block the result.
    shop.ok(&["queue", "enqueue", "mail", "bytes"]);
    let script = "sleep 300 & printf 'a\\377b'";
    shop.ok(&work(&["--until-empty", "--keep-output", "application/octet-stream"], script));
    let out = shop.command(&["queue", "wait", "mail", "bytes"]).output().unwrap().stdout;
    assert_eq!(out, b"a\xffb");
}

/// Requests a page, and returns the whole answer.
fn ask(url: &str, method: &str, path: &str) -> String {
    let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

#[test]
fn what_the_worker_counts_is_shown_to_prometheus() {
    let shop = Shop::new();
    ["0", "65"].iter().for_each(|id| push(&shop, id));
    let options = ["--metrics", "0", "--concurrency", "1"];
    let mut worker = shop.start(&[&["--json"][..], &work(&options, "exit $RUSHGATE_TASK")].concat());
    let note = worker.note();
    let url = note.split_once("metrics at ").unwrap().1.trim();
    assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/metrics"), "{note}");
    let queue = "queue=\"mail\"";
    let counted = |outcome: &str| format!("{queue},kind=\"*\",outcome=\"{outcome}\"}} 1");
    // The counters are updated after the store has the answers.
    let start = Instant::now();
    let page = loop {
        let page = ask(url, "GET", "/metrics");
        if ["done", "dead"].iter().all(|outcome| page.contains(&counted(outcome))) {
            break page;
        }
        assert!(start.elapsed().as_secs() < 30, "{page}");
        thread::sleep(Duration::from_millis(5));
    };
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("text/plain; version=0.0.4"), "{page}");
    for line in [
        "outcome=\"lost\"} 0".to_owned(),
        "rushgate_worker_run_seconds_count{worker=".to_owned(),
        format!("{queue},kind=\"*\",le=\"+Inf\"}} 2"),
        "rushgate_worker_claim_seconds_bucket{worker=".to_owned(),
    ] {
        assert!(page.contains(&line), "{line} in\n{page}");
    }
    assert!(ask(url, "GET", "/").starts_with("HTTP/1.1 404 "));
    assert!(ask(url, "POST", "/metrics").starts_with("HTTP/1.1 405 "));

    // Another worker cannot use the same port, and fails before it claims a task.
    let port = url.rsplit(':').next().unwrap().split('/').next().unwrap();
    let said = shop.run(&work(&["--metrics", port], "true"));
    assert!(said.status == 2 && said.err.contains("cannot serve metrics at 127.0.0.1:"), "{}", said.err);
    worker.signal(Signal::TERM);
    assert_eq!(worker.end().status, 0);
}

#[test]
fn a_command_need_not_read_its_content() {
    let shop = Shop::new();
    let large = serde_json::to_string(&"x".repeat(1_000_000)).unwrap();
    let said = shop.with_stdin(&["queue", "enqueue", "mail", "large", "--payload", "-"], large.as_bytes());
    assert_eq!(said.status, 0, "{}", said.err);
    shop.ok(&work(&["--until-empty"], "exit 0"));
}

#[test]
fn until_empty_works_everything_off_several_at_a_time() {
    let shop = Shop::new();
    (0..20).for_each(|n| push(&shop, &n.to_string()));
    let out =
        shop.ok(&[&["--json"][..], &work(&["--until-empty", "--concurrency", "4"], "echo out")].concat());
    let (summary, tasks): (Vec<_>, Vec<_>) =
        lines(&out).into_iter().partition(|line| line["summary"].is_object());
    assert_eq!(tasks.len(), 20, "the commands' own output is not among the data");
    let counts = json!({ "done": 20, "cancelled": 0, "retried": 0, "dead": 0, "released": 0, "lost": 0 });
    assert_eq!(summary, [json!({ "summary": counts })]);
    assert_eq!(shop.json(&["queue", "ls", "mail"]), json!([]));
}

#[test]
fn a_command_that_cannot_be_started_stops_the_worker_and_costs_no_attempt() {
    let shop = Shop::new();
    push(&shop, "a");
    let said = shop.run(&["work", "mail", "--exec", "no-such-command"]);
    assert_eq!(said.status, 127, "{}", said.err);
    assert_eq!(shop.json(&["queue", "claim", "mail"])[0]["attempt"], 1);
}

#[test]
fn an_option_of_the_worker_after_its_command_is_pointed_out() {
    let shop = Shop::new();
    let said = shop.run(&[&work(&["--until-empty"], "exit 0")[..], &["--concurrency", "--url"]].concat());
    assert_eq!(said.status, 0, "{}", said.err);
    let notes: Vec<_> = said.err.lines().filter(|line| line.contains("--exec")).collect();
    assert_eq!(notes, ["note: `--concurrency` comes after --exec and is passed to the command"]);
}

/// Starts a worker with a task that runs until a file appears.
fn worker_at_work(shop: &Shop, options: &[&str]) -> Running {
    push(shop, "a");
    let mut worker = shop.start(&work(options, "echo at work; while [ ! -e go ]; do sleep 0.02; done"));
    assert_eq!(worker.line(), "at work");
    worker
}

#[test]
fn a_worker_that_is_stopped_lets_its_command_finish() {
    let shop = Shop::new();
    let worker = worker_at_work(&shop, &["--grace", "1m"]);
    push(&shop, "b");
    worker.signal(Signal::INT);
    std::fs::write(shop.path("go"), "").unwrap();
    let said = worker.end();
    assert_eq!(said.status, 0);
    assert!(said.err.contains("1 done"), "{}", said.err);
    assert_eq!(shop.json(&["queue", "ls", "mail"])[0]["id"], "b", "no further task was claimed");
}

#[test]
fn a_second_signal_ends_the_commands_at_once() {
    let shop = Shop::new();
    let mut worker = worker_at_work(&shop, &["--grace", "1h"]);
    worker.signal(Signal::TERM);
    worker.signal(Signal::INT);
    assert_eq!(worker.rest(), "", "the whole process group has ended");
    assert_eq!(worker.end().status, 0);
}

#[test]
fn a_killed_workers_command_ends_and_its_task_goes_to_another() {
    let shop = Shop::new();
    let mut worker = worker_at_work(&shop, &["--lease", "1s"]);
    worker.signal(Signal::KILL);
    assert_eq!(worker.rest(), "", "the whole process group has ended");
    drop(worker.end());
    let out = shop.ok(&work(&["--until-empty"], "echo $RUSHGATE_TASK $RUSHGATE_ATTEMPT"));
    assert_eq!(out, "a 2\n");
}

#[test]
fn a_command_whose_watchdog_is_killed_ends_and_its_task_is_tried_again() {
    let shop = Shop::new();
    push(&shop, "a");
    // The watchdog leads the command's process group.
    let script = "[ $RUSHGATE_ATTEMPT = 2 ] && exec echo again; cut -d' ' -f5 /proc/$$/stat; while :; do sleep 0.02; done";
    let mut worker = shop.start(&work(&[], script));
    let watchdog = Pid::from_raw(worker.line().parse().unwrap()).unwrap();
    kill_process(watchdog, Signal::KILL).unwrap();
    assert_eq!(worker.line(), "again");
    worker.signal(Signal::TERM);
    let said = worker.end();
    assert_eq!(said.status, 0, "{}", said.err);
}

#[test]
fn a_worker_stopped_beyond_its_lease_loses_its_command_before_another_has_the_task() {
    let shop = Shop::new();
    push(&shop, "a");
    let script = "echo at work; while :; do echo x >> log; sleep 0.005; done";
    let mut worker = shop.start(&work(&["--lease", "1s"], script));
    assert_eq!(worker.line(), "at work");
    worker.suspend();
    // The next run checks twice that the first one writes nothing more.
    let script = "echo $RUSHGATE_TASK $RUSHGATE_ATTEMPT; wc -l < log; sleep 0.1; wc -l < log";
    let out = shop.ok(&work(&["--until-empty"], script));
    let lines: Vec<_> = out.lines().map(str::trim).collect();
    assert_eq!((lines[0], lines[1]), ("a 2", lines[2]));
    worker.signal(Signal::CONT);
    worker.signal(Signal::TERM);
    let said = worker.end();
    assert_eq!(said.status, 0, "{}", said.err);
    assert_eq!(shop.json(&["queue", "dead", "ls", "mail"]), json!([]));
}

#[test]
fn a_cancelled_tasks_command_is_told_to_stop() {
    let shop = Shop::new();
    push(&shop, "a");
    let script = "trap 'echo told; exit 0' TERM; echo at work; while :; do sleep 0.02; done";
    let mut worker = shop.start(&work(&["--lease", "1s", "--until-empty"], script));
    assert_eq!(worker.line(), "at work");
    shop.ok(&["queue", "cancel", "mail", "a"]);
    assert_eq!(worker.line(), "told");
    let said = worker.end();
    assert_eq!(said.status, 0);
    assert!(said.err.contains("cancelled a attempt 1"), "{}", said.err);
    assert!(said.err.contains("0 done, ") && said.err.contains(", 1 canceled, "), "{}", said.err);
}

/// Signals the whole group at random times of a command's start and end, as a terminal or a supervisor does.
#[test]
fn a_whole_group_that_is_told_to_end_ends_in_order() {
    let shop = Shop::new();
    push(&shop, "t");
    let pattern: Value = serde_json::from_str(&shop.ok(&["queue", "export", "mail"])).unwrap();
    let task = |n| {
        let mut task = pattern.clone();
        task["id"] = json!(format!("t{n}"));
        task
    };
    let tasks: String = (0..1_000).map(|n| format!("{}\n", task(n))).collect();
    std::fs::write(shop.path("tasks"), tasks).unwrap();
    shop.ok(&["queue", "import", "mail", "tasks"]);
    for _ in 0..30 {
        let mut command = shop.command(&work(&["--concurrency", "8"], "echo at work"));
        command.process_group(0);
        let mut worker = Running::of(command);
        assert_eq!(worker.line(), "at work");
        let group = Pid::from_child(&worker.child);
        kill_process_group(group, Signal::TERM).unwrap();
        let said = worker.end();
        assert_eq!(said.status, 0, "{}", said.err);
    }
    shop.until(&["queue", "stats", "mail"], |stats| stats["leased"] == 0);
}

#[test]
fn a_command_that_takes_too_long_is_ended_and_tried_again() {
    let shop = Shop::new();
    push(&shop, "a");
    let script = "echo try $RUSHGATE_ATTEMPT; if [ $RUSHGATE_ATTEMPT = 1 ]; then sleep 1000; fi";
    // Long enough for a shell to start on a busy machine.
    let out = shop.ok(&work(&["--timeout", "3s", "--until-empty"], script));
    assert_eq!(out, "try 1\ntry 2\n");
}

#[test]
fn several_queues_are_worked_off_by_weight() {
    let shop = Shop::new();
    for n in 0..20 {
        for queue in ["mail", "log"] {
            shop.ok(&["queue", "enqueue", queue, &format!("{n}"), "--payload", "1"]);
        }
    }
    let out =
        shop.ok(&["work", "mail=3", "log", "--until-empty", "--exec", "sh", "-c", "echo $RUSHGATE_QUEUE"]);
    let order: Vec<_> = out.lines().collect();
    assert_eq!(order.len(), 40);
    // While both queues have tasks, one in four is of the lighter queue.
    let first: Vec<_> = order.iter().take(16).filter(|queue| **queue == "log").collect();
    assert!((3..=5).contains(&first.len()), "{order:?}");
}
