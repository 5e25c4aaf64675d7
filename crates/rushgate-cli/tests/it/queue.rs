//! `rushgate queue`: enqueue and claim tasks, with tickets that are passed between commands.

use crate::common::Shop;
use serde_json::{Value, json};

fn ticket(task: &Value) -> &str {
    task["ticket"].as_str().unwrap()
}

#[test]
fn push_answers_added_kept_or_replaced_with_the_revision() {
    let shop = Shop::new();
    assert_eq!(shop.ok(&["queue", "enqueue", "mail", "a"]), "added revision 1\n");
    assert_eq!(shop.ok(&["queue", "enqueue", "mail", "a"]), "kept revision 1\n");
    assert_eq!(shop.ok(&["queue", "enqueue", "mail", "a", "--replace"]), "replaced revision 2\n");
    assert_eq!(shop.json(&["queue", "enqueue", "mail", "a"]), json!({ "outcome": "kept", "revision": 2 }));
    assert_eq!(shop.json(&["queue", "enqueue", "mail", "a", "--earliest"])["outcome"], "kept");
    assert_eq!(shop.json(&["queue", "enqueue", "mail", "a", "--debounce", "1m"])["outcome"], "replaced");
}

#[test]
fn a_task_as_json_has_everything_and_its_payload_parsed() {
    let shop = Shop::new();
    let args = ["--payload", r#"{"to":"ann"}"#, "--priority", "2", "--max-attempts", "7"];
    shop.ok(&[&["queue", "enqueue", "mail", "a"][..], &args].concat());
    let tasks = shop.json(&["queue", "claim", "mail"]);
    let task = &tasks[0];
    assert_eq!(tasks.as_array().unwrap().len(), 1);
    assert_eq!(task["id"], "a");
    assert_eq!(task["payload"], json!({ "to": "ann" }));
    assert_eq!(task["content_type"], "application/json");
    let numbers =
        ["revision", "attempt", "max_attempts", "priority"].map(|name| task[name].as_u64().unwrap());
    assert_eq!(numbers, [1, 1, 7, 2]);
    assert!(task["due_us"].as_u64().unwrap() > 1_700_000_000_000_000);
    assert!(!ticket(task).contains(char::is_whitespace));
}

#[test]
fn the_kind_of_a_task_is_a_field() {
    let shop = Shop::new();
    let of = ["--payload", r#"{"to":"ann"}"#, "--kind", "mail:welcome"];
    shop.ok(&[&["queue", "enqueue", "mail", "a", "--priority", "1"][..], &of].concat());
    shop.ok(&[&["queue", "cron", "add", "mail", "nightly", "--every", "1d"][..], &of].concat());
    shop.ok(&["queue", "cron", "run", "mail", "nightly"]);
    assert!(shop.ok(&["queue", "show", "mail", "a"]).contains("\nkind         mail:welcome\n"));
    let mut seen = vec![shop.json(&["queue", "show", "mail", "a"])];
    for list in [&["queue", "cron", "ls", "mail"][..], &["queue", "claim", "mail", "-n", "2"]] {
        seen.extend(shop.json(list).as_array().unwrap().clone());
    }
    assert_eq!(seen.len(), 4);
    for of in &seen {
        assert_eq!((&of["kind"], &of["content_type"]), (&json!("mail:welcome"), &json!("application/json")));
        assert_eq!(of["payload"]["to"], "ann", "{of}");
    }
    shop.ok(&["queue", "retry", "mail", "--ticket", ticket(&seen[2]), "--give-up"]);
    assert_eq!(shop.json(&["queue", "dead", "ls", "mail"])[0]["kind"], "mail:welcome");
    for list in [&["queue", "ls", "mail"][..], &["queue", "dead", "ls", "mail"]] {
        let table = shop.ok(list);
        assert!(table.contains("KIND") && table.contains("mail:welcome"), "{table}");
    }
}

#[test]
fn content_comes_from_the_command_line_a_file_or_stdin() {
    let shop = Shop::new();
    std::fs::write(shop.path("body.json"), "[1, 2]").unwrap();
    shop.ok(&["queue", "enqueue", "q", "1", "--payload", "\"hi\""]);
    shop.ok(&["queue", "enqueue", "q", "2", "--payload-file", "body.json"]);
    assert_eq!(shop.with_stdin(&["queue", "enqueue", "q", "3", "--payload", "-"], b"{}").status, 0);
    let text = ["queue", "enqueue", "q", "4", "--payload-file", "-", "--content-type", "text/plain"];
    assert_eq!(shop.with_stdin(&text, "grüße".as_bytes()).status, 0);
    let bytes = ["queue", "enqueue", "q", "5", "--payload", "-", "--content-type", "image/png"];
    assert_eq!(shop.with_stdin(&bytes, b"\x89PNG").status, 0);
    shop.ok(&["queue", "enqueue", "q", "6"]);
    let tasks = shop.json(&["queue", "top", "q", "-n", "10"]);
    let payloads: Vec<_> = tasks.as_array().unwrap().iter().map(|task| task["payload"].clone()).collect();
    assert_eq!(payloads, [json!("hi"), json!([1, 2]), json!({}), json!("grüße"), Value::Null, Value::Null]);
    assert_eq!(tasks[4]["payload_base64"], "iVBORw==");
}

#[test]
fn a_claimed_task_is_completed_by_its_ticket_and_only_once() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    let claimed = shop.json(&["queue", "claim", "mail"]);
    let complete = ["queue", "complete", "mail", "--ticket", ticket(&claimed[0])];
    assert_eq!(shop.ok(&complete), "done a\n");
    assert_eq!(shop.json_as(1, &complete), json!([{ "id": "a", "outcome": "stale" }]));
}

#[test]
fn one_stale_ticket_among_others_is_refused_alone() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    shop.ok(&["queue", "enqueue", "mail", "b"]);
    let tasks = shop.json(&["queue", "claim", "mail", "-n", "2"]);
    let (a, b) = (ticket(&tasks[0]), ticket(&tasks[1]));
    shop.ok(&["queue", "complete", "mail", "--ticket", a]);
    let said = shop.run(&["queue", "complete", "mail", "--ticket", a, "--ticket", b]);
    assert_eq!((said.status, said.out.as_str()), (1, "stale a\ndone b\n"));
}

#[test]
fn a_task_replaced_during_the_work_runs_again() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a", "--payload", "1"]);
    let claimed = shop.json(&["queue", "claim", "mail"]);
    shop.ok(&["queue", "enqueue", "mail", "a", "--payload", "2", "--replace"]);
    let ticket = ticket(&claimed[0]);
    assert_eq!(shop.ok(&["queue", "complete", "mail", "--ticket", ticket]), "requeued a\n");
    assert_eq!(shop.json(&["queue", "top", "mail"])[0]["payload"], 2);
}

#[test]
fn dequeue_removes_only_what_was_not_pushed_again() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    let seen = shop.json(&["queue", "top", "mail"]);
    let dequeue = ["queue", "dequeue", "mail", "--ticket", ticket(&seen[0])];
    shop.ok(&["queue", "enqueue", "mail", "a", "--replace"]);
    assert_eq!(shop.json_as(1, &dequeue)["outcome"], "stale");
    let seen = shop.json(&["queue", "top", "mail"]);
    assert_eq!(shop.ok(&["queue", "dequeue", "mail", "--ticket", ticket(&seen[0])]), "removed a\n");
}

#[test]
fn retry_schedules_and_give_up_makes_a_dead_letter() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a", "--payload", "1"]);
    let first = shop.json(&["queue", "claim", "mail"]);
    let retried = shop.json(&["queue", "retry", "mail", "--ticket", ticket(&first[0]), "--delay", "0s"]);
    assert_eq!(retried[0]["outcome"], "scheduled");
    let again = shop.json(&["queue", "claim", "mail", "--wait", "5s"]);
    assert_eq!(again[0]["attempt"], 2);
    let give_up = ["--give-up", "--error", "no such address"];
    let args = [&["queue", "retry", "mail", "--ticket", ticket(&again[0])][..], &give_up].concat();
    assert_eq!(shop.ok(&args), "dead a\n");
    let dead = shop.json(&["queue", "dead", "ls", "mail"]);
    assert_eq!((&dead[0]["id"], &dead[0]["error"]), (&"a".into(), &"no such address".into()));
    assert_eq!(shop.json(&["queue", "dead", "requeue", "mail", "a"])["requeued"], 1);
    assert_eq!(shop.run(&["queue", "dead", "requeue", "mail", "a"]).status, 1);
    let third = shop.json(&["queue", "claim", "mail"]);
    assert_eq!(third[0]["attempt"], 1, "the attempts start over");
    shop.ok(&["queue", "retry", "mail", "--ticket", ticket(&third[0]), "--give-up"]);
    assert_eq!(shop.json(&["queue", "dead", "delete", "mail", "--all"])["deleted"], 1);
    assert_eq!(shop.json(&["queue", "dead", "ls", "mail"]), json!([]));
}

#[test]
fn release_counts_no_attempt_and_extend_keeps_the_claim() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    let first = shop.json(&["queue", "claim", "mail"]);
    let extend = ["queue", "extend", "mail", "--lease", "1m", "--ticket", ticket(&first[0])];
    assert_eq!(shop.ok(&extend), "extended a\n");
    shop.ok(&["queue", "release", "mail", "--ticket", ticket(&first[0])]);
    assert_eq!(shop.json_as(1, &extend)[0]["outcome"], "lost");
    assert_eq!(shop.json(&["queue", "claim", "mail"])[0]["attempt"], 1);
}

#[test]
fn cancel_removes_the_task_and_notifies_its_worker() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    assert_eq!(shop.ok(&["queue", "cancel", "mail", "a"]), "removed a\n");
    assert_eq!(shop.run(&["queue", "cancel", "mail", "a"]).status, 1);
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    let claimed = shop.json(&["queue", "claim", "mail"]);
    assert_eq!(shop.ok(&["queue", "cancel", "mail", "a"]), "marked a\n");
    let said = shop.run(&["queue", "extend", "mail", "--ticket", ticket(&claimed[0])]);
    assert_eq!((said.status, said.out.as_str()), (1, "cancelled a\n"));
    assert_eq!(shop.ok(&["queue", "retry", "mail", "--ticket", ticket(&claimed[0])]), "cancelled a\n");
    assert_eq!(shop.json(&["queue", "dead", "ls", "mail"]), json!([]));
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    let claimed = shop.json(&["queue", "claim", "mail"]);
    shop.ok(&["queue", "cancel", "mail", "a"]);
    let released = shop.json(&["queue", "release", "mail", "--ticket", ticket(&claimed[0])]);
    assert_eq!(released[0]["outcome"], "cancelled");
}

#[test]
fn a_task_shows_which_tasks_need_it() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "build", "compile"]);
    assert!(!shop.ok(&["queue", "show", "build", "compile"]).contains("needed by"));
    for id in ["test", "lint"] {
        shop.ok(&["queue", "enqueue", "build", id, "--after", "compile"]);
    }
    assert!(shop.ok(&["queue", "show", "build", "compile"]).contains("needed by    test, lint\n"));
    assert_eq!(shop.json(&["queue", "show", "build", "compile"])["needed_by"], json!(["test", "lint"]));
}

#[test]
fn a_waiting_task_is_rescheduled() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    assert_eq!(shop.ok(&["queue", "reschedule", "mail", "a", "--delay", "1h"]), "rescheduled a\n");
    assert_eq!(shop.json(&["queue", "claim", "mail"]), json!([]));
    assert_eq!(shop.json(&["queue", "reschedule", "mail", "a"])["outcome"], "rescheduled");
    assert_eq!(shop.json(&["queue", "claim", "mail"])[0]["id"], "a");
    let said = shop.run(&["queue", "reschedule", "mail", "a", "--at", "2027-01-01T00:00:00Z"]);
    assert_eq!((said.status, said.out.as_str()), (1, "leased a\n"));
    assert_eq!(shop.run(&["queue", "reschedule", "mail", "b"]).status, 1);
}

#[test]
fn nothing_is_claimed_before_its_time() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "later", "--delay", "1h"]);
    let year_2100_ms = "4102444800000";
    shop.ok(&["queue", "enqueue", "mail", "much-later", "--at", year_2100_ms]);
    assert_eq!(shop.json(&["queue", "claim", "mail", "-n", "9"]), json!([]));
    let listed = shop.json(&["queue", "ls", "mail", "--state", "scheduled"]);
    assert_eq!(listed[1]["due_us"], 4_102_444_800_000_000_u64);
    assert_eq!(shop.json(&["queue", "ls", "mail", "--state", "ready"]), json!([]));
    assert_eq!(shop.run(&["queue", "enqueue", "mail", "x", "--at", "4102444800"]).status, 2, "seconds");
}

#[test]
fn a_claim_that_waits_gets_what_another_process_pushes() {
    let shop = Shop::new();
    shop.ok(&["queue", "resume", "mail"]);
    let mut claim = shop.start(&["--json", "queue", "claim", "mail", "--wait", "1m"]);
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    let tasks: Value = serde_json::from_str(&claim.line()).unwrap();
    assert_eq!(tasks[0]["id"], "a");
    assert_eq!(claim.end().status, 0);
}

#[test]
fn pop_takes_for_good() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "low", "--priority", "9"]);
    shop.ok(&["queue", "enqueue", "mail", "high", "--priority", "0"]);
    assert_eq!(shop.json(&["queue", "pop", "mail"])[0]["id"], "high");
    assert_eq!(shop.json(&["queue", "pop", "mail", "-n", "5"])[0]["id"], "low");
    assert_eq!(shop.json(&["queue", "pop", "mail"]), json!([]));
}

#[test]
fn a_full_queue_refuses_and_a_paused_one_gives_nothing() {
    let shop = Shop::new();
    shop.ok(&["queue", "limit", "mail", "--bound", "1"]);
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    let said = shop.run(&["queue", "enqueue", "mail", "b"]);
    assert_eq!((said.status, said.out.as_str()), (1, "full capacity 1\n"));
    shop.ok(&["queue", "limit", "mail", "--bound", "none"]);
    shop.ok(&["queue", "enqueue", "mail", "b"]);
    shop.ok(&["queue", "pause", "mail"]);
    assert_eq!(shop.json(&["queue", "claim", "mail"]), json!([]));
    let stats = shop.json(&["queue", "stats", "mail"]);
    assert_eq!(
        (&stats["ready"], &stats["paused"], &stats["limits"]["bound"]),
        (&2.into(), &true.into(), &Value::Null)
    );
    shop.ok(&["queue", "resume", "mail"]);
    assert_eq!(shop.json(&["queue", "claim", "mail"])[0]["id"], "a");
    assert_eq!(shop.json(&["queue", "ls"]), json!(["mail"]));
    assert_eq!(shop.json(&["queue", "stats"])[0]["queue"], "mail");
}

#[test]
fn a_queue_without_due_tasks_has_no_oldest_one() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a", "--delay", "1h"]);
    let table = shop.ok(&["queue", "stats", "mail"]);
    let words: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(words, ["mail", "0", "1", "0", "0", "0", "-", "none", "runs"]);
}

#[test]
fn nothing_is_said_to_be_nothing_and_why() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    for (args, part) in [
        (&["queue", "ls", "nope"][..], "no tasks in `nope`"),
        (&["queue", "ls", "mail", "--state", "leased"], "no such tasks in `mail`"),
        (&["queue", "dead", "ls", "mail"], "no dead letters in `mail`"),
    ] {
        assert!(shop.run(args).err.contains(part), "{args:?}: {}", shop.run(args).err);
        let json = shop.run(&[&["--json"][..], args].concat());
        assert_eq!((json.status, json.err.as_str()), (0, ""), "{args:?}");
    }
    let stats = ["queue", "stats", "nope"];
    assert!(shop.run(&stats).err.contains("no queue `nope`"));
    assert_eq!(shop.json_as(1, &stats)["ready"], 0);
    assert_eq!(shop.json_as(1, &["queue", "show", "mail", "nope"]), Value::Null);
    shop.ok(&["queue", "limit", "mail", "--keep", "1h/10"]);
    let waited = shop.json_as(1, &["queue", "wait", "mail", "a", "--for", "1ms"]);
    assert_eq!((&waited["how"], &waited["task"]), (&json!("waiting"), &Value::Null));
    shop.ok(&["queue", "pause", "mail"]);
    for args in [&["queue", "claim", "mail"][..], &["queue", "pop", "mail"]] {
        assert_eq!(shop.run(args).err, "`mail` is paused: no tasks are available\n", "{args:?}");
    }
}

#[test]
fn a_task_says_why_it_is_not_running_and_what_to_do() {
    let shop = Shop::new();
    let why = |id: &'static str| shop.run(&["queue", "why", "mail", id]);
    shop.ok(&["queue", "enqueue", "mail", "a", "--max-attempts", "1"]);
    assert!(why("a").out.starts_with("ready for "), "{}", why("a").out);
    shop.ok(&["queue", "pause", "mail"]);
    assert_eq!(why("a").out, "the queue is paused: `rushgate queue resume mail` resumes it\n");
    shop.ok(&["queue", "resume", "mail"]);
    shop.ok(&["queue", "enqueue", "mail", "b", "--delay", "1h"]);
    assert!(why("b").out.starts_with("due in 59m "), "{}", why("b").out);
    let claimed = shop.json(&["queue", "claim", "mail"]);
    assert!(why("a").out.starts_with("running: attempt 1 by "), "{}", why("a").out);
    let ticket = ticket(&claimed[0]);
    shop.ok(&["queue", "retry", "mail", "--ticket", ticket, "--error", "it is\x1b[2J down"]);
    let dead = why("a");
    assert_eq!(dead.status, 0);
    assert!(
        dead.out.contains("after attempt 1 of 1: it is\\u{1b}[2J down; `rushgate queue dead requeue mail a`")
    );
    let json = shop.json(&["queue", "why", "mail", "a"]);
    assert_eq!((&json["id"], &json["reasons"][0]["reason"]), (&json!("a"), &json!("dead")));
    assert!(json["reasons"][0]["died_us"].as_u64() > Some(1_700_000_000_000_000), "{json}");
    let unknown = why("nothing");
    assert_eq!(unknown.status, 1);
    assert!(unknown.out.starts_with("no such task"), "{}", unknown.out);
}

#[test]
fn limits_are_set_separately_and_shown_together() {
    let shop = Shop::new();
    let said = shop.ok(&["queue", "limit", "mail", "--rate", "100/1m", "--key-concurrency", "2"]);
    assert_eq!(said, "at most 100 per 1m, 2 per key at a time\n");
    let set = shop.json(&["queue", "limit", "mail", "--key-concurrency", "none", "--fifo", "true"]);
    let rate = json!({ "n": 100, "per_ms": 60_000 });
    let per_key = json!({ "concurrency": null, "rate": null, "fifo": true });
    let limits =
        json!({ "bound": null, "concurrency": null, "rate": rate, "per_key": per_key, "retention": null });
    let limits = with(with(limits, "overflow", json!("refuse")), "events", json!(null));
    assert_eq!(set, json!({ "queue": "mail", "limits": limits }));
    assert_eq!(shop.json(&["queue", "stats", "mail"])["limits"], limits);
    let said = shop.ok(&["queue", "limit", "mail", "--rate", "none", "--fifo", "false"]);
    assert_eq!(said, "none\n");
}

#[test]
fn a_queue_that_keeps_no_events_is_told_of() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    let shown = shop.run(&["queue", "events", "mail"]);
    assert_eq!((shown.status, &*shown.out), (0, ""));
    assert!(shown.err.contains("rushgate queue limit mail --events 10000"), "{}", shown.err);
    shop.ok(&["queue", "limit", "mail", "--events", "10000"]);
    assert_eq!(shop.run(&["queue", "events", "mail"]).err, "");
}

#[test]
fn events_are_shown_one_on_a_line() {
    let shop = Shop::new();
    assert_eq!(shop.ok(&["queue", "limit", "mail", "--events", "3"]), "keeps 3 events\n");
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    let ticket = ticket(&shop.json(&["queue", "claim", "mail"])[0]).to_owned();
    shop.ok(&["queue", "retry", "mail", "--ticket", &ticket, "--error", "no luck"]);
    let shown = shop.ok(&["queue", "events", "mail"]);
    let words: Vec<_> = shown.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap()).collect();
    assert!(words[0].starts_with("added, due "), "{shown}");
    assert!(words[1].starts_with("claimed by ") && words[1].ends_with(", attempt 1"), "{shown}");
    assert!(
        words[2].starts_with("failed, attempt 1, due again ") && words[2].ends_with(": no luck"),
        "{shown}"
    );
    let last = shop.run(&["queue", "events", "mail", "--after", "2", "--json"]).out;
    let event: Value = serde_json::from_str(last.trim()).unwrap();
    assert_eq!((&event["seq"], &event["event"], &event["id"]), (&json!(3), &json!("failed"), &json!("a")));
    shop.ok(&["queue", "cancel", "mail", "a"]);
    let missed = shop.run(&["queue", "events", "mail", "--after", "0"]);
    assert_eq!(missed.out.lines().count(), 3);
    assert!(missed.err.contains("events before 2 are no longer kept"), "{}", missed.err);
    let unknown = shop.run(&["queue", "events", "mail", "--after", "9"]);
    assert!(unknown.err.contains("event 9 does not exist; the latest is 4"), "{}", unknown.err);
    assert_eq!(shop.ok(&["queue", "events", "mail", "--after", "4"]), "");
}

#[test]
fn a_task_past_its_deadline_is_dead_and_says_so() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a", "--deadline", "1h"]);
    assert!(shop.json(&["queue", "ls", "mail"])[0]["deadline_us"].as_u64() > Some(0));
    let why = shop.run(&["queue", "why", "mail", "a"]).out;
    assert!(why.contains("; deadline in ") || why.contains("\ndeadline in "), "{why}");
    assert!(shop.ok(&["queue", "show", "mail", "a"]).contains("deadline"));
    let line = shop.ok(&["queue", "export", "mail"]);
    assert!(line.contains("\"deadline_us\":"), "{line}");
    let soon = shop.json(&["queue", "ls", "mail"])[0]["due_us"].as_u64().unwrap() / 1_000 + 3_600_000;
    let soon = soon.to_string();
    let refused = shop.run(&["queue", "enqueue", "mail", "b", "--delay", "2h", "--deadline-at", &soon]);
    assert!(refused.status != 0 && refused.err.contains("deadline"), "{}", refused.err);
    shop.ok(&["queue", "enqueue", "mail", "c", "--deadline", "10ms"]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    let why = shop.run(&["queue", "why", "mail", "c"]).out;
    assert!(why.contains("its deadline passed before it ran"), "{why}");
}

#[test]
fn an_id_is_pushed_once_in_its_period_unless_its_window_is_cleared() {
    let shop = Shop::new();
    let push = ["queue", "enqueue", "reports", "shop:7", "--unique-for", "1h"];
    assert_eq!(shop.ok(&push), "added revision 1\n");
    assert_eq!(shop.ok(&push), "kept revision 1\n");
    shop.ok(&["queue", "pop", "reports"]);
    let recent = shop.ok(&push);
    assert!(recent.starts_with("recent until "), "{recent}");
    let recent = shop.json(&["queue", "enqueue", "reports", "shop:7"]);
    assert!(recent["outcome"] == "recent" && recent["until_us"].as_u64() > Some(0), "{recent}");
    let why = shop.ok(&["queue", "why", "reports", "shop:7"]);
    assert!(why.starts_with("the ID stays unique for another "), "{why}");
    assert!(why.contains("`rushgate queue clear-unique reports shop:7`"), "{why}");
    let why = shop.json(&["queue", "why", "reports", "shop:7"]);
    assert_eq!(why["reasons"][0]["until_us"], recent["until_us"]);
    assert_eq!(shop.ok(&["queue", "clear-unique", "reports", "shop:7"]), "cleared shop:7\n");
    let again = shop.json_as(1, &["queue", "clear-unique", "reports", "shop:7"]);
    assert_eq!(again, json!({ "id": "shop:7", "outcome": "not_found" }));
    assert_eq!(shop.ok(&push), "added revision 2\n");
    let refused = shop.run(&["queue", "enqueue", "reports", "b", "--unique-for", "401d"]);
    assert!(refused.status != 0 && refused.err.contains("at most 400"), "{}", refused.err);
}

#[test]
fn a_batch_is_closed_and_a_task_says_what_it_waits_for() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "pages", "book", "--open"]);
    shop.ok(&["queue", "enqueue", "pages", "page:1", "--part-of", "book"]);
    shop.ok(&[
        "queue", "enqueue", "pages", "sent", "--after", "book", "--after", "page:1", "--if-dead", "fail",
    ]);
    let refused = shop.run(&["queue", "enqueue", "pages", "x", "--after", "typo"]);
    assert_eq!((refused.status, refused.out.as_str()), (1, "refused: typo does not exist\n"));
    let refused = shop.json_as(1, &["queue", "enqueue", "pages", "x", "--part-of", "sent"]);
    assert_eq!(refused, json!({ "outcome": "refused", "task": "sent", "why": "not_open" }));
    let why = shop.ok(&["queue", "why", "pages", "book"]);
    assert_eq!(
        why,
        "waiting for 1 task: page:1; it is the callback of an open batch: `rushgate queue close-batch pages book` closes it\n"
    );
    assert_eq!(shop.ok(&["queue", "close-batch", "pages", "book"]), "closed book: 1 task left\n");
    assert_eq!(shop.json_as(1, &["queue", "close-batch", "pages", "book"]), json!({ "outcome": "not_open" }));
    let why = shop.json(&["queue", "why", "pages", "sent"]);
    assert_eq!((&why["reasons"][0]["reason"], &why["reasons"][0]["left"]), (&json!("waits_for"), &json!(2)));
    let shown = shop.json(&["queue", "show", "pages", "book"]);
    assert_eq!((&shown["waits"], &shown["waits_for"]["left"]), (&json!(true), &json!(1)));
    assert_eq!(shop.ok(&["queue", "export", "pages"]).lines().count(), 1, "what waits is left out");
    let ticket = shop.json(&["queue", "claim", "pages"])[0]["ticket"].as_str().unwrap().to_owned();
    shop.ok(&["queue", "retry", "pages", "--ticket", &ticket, "--give-up", "--error", "boom"]);
    let why = shop.ok(&["queue", "why", "pages", "book"]);
    assert!(
        why.contains("; page:1 is dead: boom; `rushgate queue dead requeue pages page:1` requeues it"),
        "{why}"
    );
    assert!(shop.ok(&["queue", "why", "pages", "sent"]).contains("waited for page:1, which is dead: boom"));
}

#[test]
fn an_import_leaves_out_what_came_lately_and_says_so() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "reports", "a", "--unique-for", "1h"]);
    let lines = shop.ok(&["queue", "export", "reports"]);
    shop.ok(&["queue", "pop", "reports"]);
    let said = shop.with_stdin(&["queue", "import", "reports"], lines.as_bytes());
    assert_eq!(said.out, "added 0, kept 0 existing, skipped 1 within uniqueness windows\n");
}

fn with(mut of: Value, field: &str, value: Value) -> Value {
    of[field] = value;
    of
}

#[test]
fn a_queue_at_its_bound_says_what_it_drops() {
    let shop = Shop::new();
    let limit = |overflow| shop.ok(&["queue", "limit", "samples", "--bound", "1", "--overflow", overflow]);
    assert_eq!(limit("drop-oldest"), "at most 1 tasks; drops the oldest tasks\n");
    shop.ok(&["queue", "enqueue", "samples", "a"]);
    assert_eq!(shop.ok(&["queue", "enqueue", "samples", "b"]), "added revision 2, dropped a\n");
    let answer = shop.json(&["queue", "enqueue", "samples", "c"]);
    assert_eq!(answer, json!({ "outcome": "displaced", "revision": 3, "dropped": "b" }));
    assert_eq!(limit("drop-new"), "at most 1 tasks; drops new tasks\n");
    assert_eq!(shop.ok(&["queue", "enqueue", "samples", "d"]), "dropped capacity 1\n");
    assert_eq!(shop.json(&["queue", "stats", "samples"])["dropped"], 3);
    limit("refuse");
    assert_eq!(shop.run(&["queue", "enqueue", "samples", "e"]).status, 1);
}

#[test]
fn keys_take_turns_and_a_blocked_task_says_behind_whom_it_is() {
    let shop = Shop::new();
    let why = |id: &'static str| shop.run(&["queue", "why", "mail", id]).out;
    for id in ["big1", "big2", "big3"] {
        shop.ok(&["queue", "enqueue", "mail", id, "--key", "big"]);
    }
    shop.ok(&["queue", "enqueue", "mail", "small1", "--key", "small"]);
    assert_eq!(why("big2"), "behind other tasks of key big; big1 is first in order\n");
    assert_eq!(shop.json(&["queue", "ls", "mail", "--state", "blocked"])[0]["id"], "big2");
    shop.ok(&["queue", "limit", "mail", "--key-concurrency", "1"]);
    let tasks = shop.json(&["queue", "claim", "mail", "-n", "5"]);
    assert_eq!(
        (&tasks[0]["id"], &tasks[1]["id"], &tasks[2]),
        (&"big1".into(), &"small1".into(), &Value::Null)
    );
    assert_eq!(tasks[0]["key"], "big");
    let busy = why("big2");
    assert!(busy.starts_with("concurrency limit of key big reached: big1 by "), "{busy}");
    shop.ok(&["queue", "limit", "mail", "--key-concurrency", "none", "--rate", "1/1h"]);
    shop.ok(&["queue", "pop", "mail"]);
    let limited = why("big3");
    assert!(limited.starts_with("rate limit of the queue: next task in 59m "), "{limited}");
    shop.ok(&["queue", "limit", "mail", "--rate", "none", "--concurrency", "2"]);
    let busy = why("big3");
    assert!(
        busy.starts_with("concurrency limit of the queue reached (2 tasks at a time): big1 by "),
        "{busy}"
    );
    assert!(busy.contains("; small1 by "), "{busy}");
}

#[test]
fn a_task_that_is_over_is_shown_with_its_result_while_the_queue_keeps_it() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "sums", "a"]);
    assert_eq!(shop.run(&["queue", "wait", "sums", "a", "--for", "1ms"]).status, 2);
    assert_eq!(shop.ok(&["queue", "limit", "sums", "--keep", "1h/10"]), "keeps 10 for 1h\n");
    assert_eq!(shop.run(&["queue", "wait", "sums", "a", "--for", "1ms"]).status, 1);
    let claimed = shop.json(&["queue", "claim", "sums"]);
    let ticket = ticket(&claimed[0]).to_owned();
    shop.ok(&["queue", "extend", "sums", "--ticket", &ticket, "--percent", "40", "--note", "page 4"]);
    assert!(shop.ok(&["queue", "show", "sums", "a"]).contains("progress     40%, page 4"));
    let wrong = ["queue", "complete", "sums", "--ticket", &ticket, "--result", "{"];
    assert_eq!(shop.run(&wrong).status, 2);
    shop.ok(&["queue", "retry", "sums", "--ticket", &ticket, "--error", "not yet"]);
    let claimed = shop.json(&["queue", "claim", "sums"]);
    let done = ["queue", "complete", "sums", "--ticket", claimed[0]["ticket"].as_str().unwrap()];
    shop.ok(&[&done[..], &["--result", "{\"total\":6}"]].concat());
    assert_eq!(shop.ok(&["queue", "wait", "sums", "a"]), "{\"total\":6}");
    let never = shop.run(&["queue", "wait", "sums", "b"]);
    assert_eq!(never.err, "nothing is kept of `b`: it was removed, or never enqueued\n");
    assert_eq!(never.status, 1);
    let json = shop.json(&["queue", "wait", "sums", "a"]);
    assert_eq!((&json["how"], &json["result"]["payload"]), (&json!("done"), &json!({ "total": 6 })));
    let shown = shop.json(&["queue", "show", "sums", "a"]);
    assert_eq!((&shown["state"], &shown["past"][0]["error"]), (&json!("done"), &json!("not yet")));
    assert_eq!(shown["finished"]["how"], "done");
    let page = shop.ok(&["queue", "show", "sums", "a"]);
    assert!(page.contains("attempt 1    failed at ") && page.contains(": not yet"), "{page}");
    assert_eq!(shop.json(&["queue", "ls", "sums", "--state", "done"])[0]["id"], "a");
    assert_eq!(shop.json(&["queue", "why", "sums", "a"])["reasons"][0]["reason"], "done");
    assert_eq!(shop.json(&["queue", "stats", "sums"])["done"], 1);
    assert_eq!(shop.ok(&["queue", "limit", "sums", "--keep", "none"]), "none\n");
    assert_eq!(shop.run(&["queue", "show", "sums", "a"]).status, 1);
}

#[test]
fn a_task_without_an_id_gets_a_new_one_each_time() {
    let shop = Shop::new();
    let said = shop.ok(&["queue", "enqueue", "mail", "--payload", "1"]);
    let id = said.trim_end().strip_prefix("added revision 1, ID ").unwrap_or_else(|| panic!("{said}"));
    let made = shop.json(&["queue", "enqueue", "mail", "--payload", "2"]);
    assert_eq!(made["outcome"], "added");
    assert_ne!(made["id"], id);
    let ids: Vec<_> =
        shop.json(&["queue", "ls", "mail"]).as_array().unwrap().iter().map(|t| t["id"].clone()).collect();
    assert_eq!(ids, [id.into(), made["id"].clone()], "IDs are in the order of time");
    assert_eq!(shop.json(&["queue", "enqueue", "mail", "named"]).get("id"), None);
}

#[test]
fn the_tables_have_the_key_of_each_task() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a", "--key", "tenant-7", "--max-attempts", "1"]);
    for command in [&["queue", "ls", "mail"][..], &["queue", "top", "mail"]] {
        let table = shop.ok(command);
        assert!(table.contains("KEY") && table.contains("tenant-7"), "{table}");
    }
    assert!(shop.ok(&["queue", "show", "mail", "a"]).contains("key          tenant-7\n"));
    let ticket = shop.json(&["queue", "claim", "mail"])[0]["ticket"].as_str().unwrap().to_owned();
    shop.ok(&["queue", "retry", "mail", "--ticket", &ticket]);
    let table = shop.ok(&["queue", "dead", "ls", "mail"]);
    assert!(table.contains("KEY") && table.contains("tenant-7"), "{table}");
}

#[test]
fn a_deleted_queue_leaves_nothing_and_a_running_task_stops_the_deletion() {
    let shop = Shop::new();
    for id in ["a", "b", "c"] {
        shop.ok(&["queue", "enqueue", "mail", id]);
    }
    shop.ok(&["queue", "enqueue", "mail", "later", "--delay", "1h"]);
    shop.ok(&["queue", "enqueue", "mail", "blocked", "--after", "later"]);
    shop.ok(&["queue", "limit", "mail", "--bound", "10", "--keep", "1h/10", "--events", "10"]);
    shop.ok(&["queue", "cron", "add", "mail", "nightly", "--cron", "0 3 * * *", "--zone", "UTC"]);
    let claim = || shop.json(&["queue", "claim", "mail"])[0]["ticket"].as_str().unwrap().to_owned();
    shop.ok(&["queue", "complete", "mail", "--ticket", &claim()]);
    shop.ok(&["queue", "retry", "mail", "--ticket", &claim(), "--give-up"]);
    let running = claim();
    shop.ok(&["queue", "pause", "mail"]);

    assert_eq!(shop.run(&["queue", "delete", "mail", "--dry-run"]).status, 1, "as it would be without it");
    let would = shop.json(&["queue", "delete", "mail", "--dry-run", "--force"]);
    let of =
        |json: &Value| ["removed", "marked", "dead", "schedules"].map(|name| json[name].as_u64().unwrap());
    assert_eq!(of(&would), [3, 1, 1, 1], "{would}");
    let refused = shop.run(&["queue", "delete", "mail"]);
    assert_eq!(refused.status, 1);
    assert!(
        refused.err.contains("1 task is running in `mail`") && refused.err.contains("--force"),
        "{}",
        refused.err
    );
    assert_eq!(shop.json(&["queue", "stats", "mail"])["blocked"], 1, "nothing was deleted");

    let deleted = shop.json(&["queue", "delete", "mail", "--force"]);
    assert_eq!(of(&deleted), [3, 1, 1, 1], "{deleted}");
    let extended = shop.json_as(1, &["queue", "extend", "mail", "--ticket", &running]);
    assert_eq!(extended[0]["outcome"], "cancelled", "its worker learns of it: {extended}");
    shop.ok(&["queue", "complete", "mail", "--ticket", &running]);
    let stats = shop.json(&["queue", "stats", "mail"]);
    for count in ["ready", "scheduled", "leased", "blocked", "dead", "done"] {
        assert_eq!(stats[count], 0, "{stats}");
    }
    assert_eq!((&stats["paused"], &stats["limits"]["bound"]), (&json!(false), &Value::Null), "{stats}");
    assert_eq!(shop.json(&["queue", "cron", "ls", "mail"]), json!([]));
}
