//! Commands whose stdout is a closed pipe.

use crate::common;
use crate::common::Shop;
use serde_json::{Value, json};

/// Both output formats.
const WAYS: [&[&str]; 2] = [&[], &["--json"]];

fn unread(shop: &Shop, way: &[&str], args: &str) -> common::Said {
    let words: Vec<&str> = way.iter().copied().chain(args.split(' ')).collect();
    shop.unread(&words)
}

#[test]
fn tasks_that_cannot_be_written_stay_in_the_queue() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    shop.ok(&["queue", "enqueue", "mail", "b"]);
    for way in WAYS {
        for take in
            ["queue claim mail -n 2", "queue claim mail --wait 5s", "queue pop mail", "queue pop mail -n 9"]
        {
            let said = unread(&shop, way, take);
            assert_eq!(said.status, 5, "{way:?} {take}: {}", said.err);
            assert!(
                said.err.contains("the tasks were returned to the queue"),
                "{way:?} {take}: {}",
                said.err
            );
            let tasks = shop.json(&["queue", "ls", "mail"]);
            let states: Vec<_> = tasks.as_array().unwrap().iter().map(state).collect();
            assert_eq!(states, [("a", "ready", 0), ("b", "ready", 0)], "{way:?} {take}");
        }
    }
    assert_eq!(shop.json(&["queue", "pop", "mail", "-n", "9"])[1]["id"], "b");
    assert_eq!(shop.json(&["queue", "ls", "mail"]), json!([]));
}

fn state(task: &Value) -> (&str, &str, u64) {
    (task["id"].as_str().unwrap(), task["state"].as_str().unwrap(), task["attempt"].as_u64().unwrap())
}

#[test]
fn what_changes_something_says_that_its_answer_was_not_read() {
    for way in WAYS {
        let shop = Shop::new();
        let claim = || {
            let claimed = shop.json(&["queue", "claim", "mail"]);
            claimed[0]["ticket"].as_str().unwrap().to_owned()
        };
        for id in ["b", "c", "d", "e"] {
            shop.ok(&["queue", "enqueue", "mail", id]);
        }
        let (done, back, failed) = (claim(), claim(), claim());
        shop.ok(&["queue", "enqueue", "mail", "open", "--open"]);
        let changes = [
            "queue enqueue mail a --unique-for 1h".to_owned(),
            format!("queue extend mail --ticket {done}"),
            format!("queue complete mail --ticket {done}"),
            format!("queue release mail --ticket {back}"),
            format!("queue retry mail --give-up --ticket {failed}"),
            "queue dead requeue mail d".to_owned(),
            "queue dead delete mail --all".to_owned(),
            "queue cancel mail d".to_owned(),
            "queue cancel mail --id-prefix e".to_owned(),
            "queue close-batch mail open".to_owned(),
            "queue clear-unique mail a".to_owned(),
            "queue pause mail".to_owned(),
            "queue resume mail".to_owned(),
            "queue limit mail --bound 9".to_owned(),
            "queue import mail -".to_owned(),
            "queue cron add mail nightly --every 1h".to_owned(),
            "queue cron pause mail nightly".to_owned(),
            "queue cron resume mail nightly".to_owned(),
            "queue cron run mail nightly".to_owned(),
            "queue cron rm mail nightly".to_owned(),
            "sale create phones --sku phone=10".to_owned(),
            "sale open phones".to_owned(),
            "sale reserve phones --buyer ann --key k --line phone=1".to_owned(),
            "sale room set phones --rate 10/1s".to_owned(),
            "sale room close phones".to_owned(),
            "sale end phones".to_owned(),
            "token create ann --role operator".to_owned(),
        ];
        for change in changes {
            let said = unread(&shop, way, &change);
            assert_eq!(said.status, 5, "{way:?} {change}: {}", said.err);
            assert!(said.err.contains("the step took effect"), "{way:?} {change}: {}", said.err);
        }
    }
}

#[test]
fn what_only_looks_ends_when_its_reader_has_gone() {
    let shop = Shop::new();
    shop.ok(&["queue", "limit", "mail", "--events", "100"]);
    shop.ok(&["queue", "enqueue", "mail", "a"]);
    shop.ok(&["queue", "enqueue", "mail", "dead", "--priority", "0"]);
    let claimed = shop.json(&["queue", "claim", "mail"]);
    shop.ok(&["queue", "retry", "mail", "--give-up", "--ticket", claimed[0]["ticket"].as_str().unwrap()]);
    let mut holder = shop.start(&["lock", "run", "held", "--", "sh", "-c", "echo held; sleep 60"]);
    assert_eq!(holder.line(), "held");
    let looks = [
        "queue ls",
        "queue ls mail",
        "queue stats mail",
        "queue show mail a",
        "queue top mail",
        "queue why mail a",
        "queue export mail",
        "queue events mail",
        "queue events mail --follow",
        "queue watch mail --every 10ms",
        "queue cron next --every 1h",
        "lock ls",
        "functions print",
        "completions bash",
        "--help",
    ];
    for way in WAYS {
        for look in looks {
            let said = unread(&shop, way, look);
            assert_eq!((said.status, said.err.as_str()), (0, ""), "{way:?} {look}");
        }
        // The exit status is an answer too: a dead task is a failure.
        assert_eq!(unread(&shop, way, "queue wait mail dead").status, 1);
    }
}
