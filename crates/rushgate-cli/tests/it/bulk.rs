//! Bulk actions: filters, export and import, and the live view.

use crate::common::Shop;
use serde_json::{Value, json};

fn push(shop: &Shop, id: &str, options: &[&str]) {
    shop.ok(&[&["queue", "enqueue", "mail", id][..], options].concat());
}

fn ids(shop: &Shop) -> Vec<String> {
    let tasks = shop.json(&["queue", "ls", "mail"]);
    tasks.as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn tasks_are_cancelled_by_filter_and_a_dry_run_changes_nothing() {
    let shop = Shop::new();
    for id in ["order", "order:1", "order:2", "orders", "other"] {
        push(&shop, id, &["--kind", "welcome"]);
    }
    push(&shop, "order:3", &["--kind", "bye"]);
    push(&shop, "order:4", &["--kind", "welcome", "--delay", "1h"]);
    let filter =
        ["queue", "cancel", "mail", "--id-prefix", "order:", "--kind", "welcome", "--state", "ready"];
    let would = shop.json(&[&filter[..], &["--dry-run"]].concat());
    assert_eq!(
        (&would["chosen"], &would["removed"], &would["dry_run"]),
        (&json!(2), &json!(0), &json!(true))
    );
    assert_eq!(ids(&shop).len(), 7);
    assert_eq!(shop.json(&filter)["removed"], 2);
    assert_eq!(ids(&shop), ["order", "order:3", "order:4", "orders", "other"]);

    // A running task is marked instead of removed.
    shop.ok(&["queue", "claim", "mail", "-n", "1"]);
    let all = shop.json(&["queue", "cancel", "mail", "--all"]);
    assert_eq!((&all["removed"], &all["marked"]), (&json!(4), &json!(1)));
    // The one that waits sorts last, and is canceled too.
    shop.ok(&["queue", "enqueue", "chain", "a"]);
    shop.ok(&["queue", "enqueue", "chain", "b", "--after", "a"]);
    let both = shop.json(&["queue", "cancel", "chain", "--all"]);
    assert_eq!((&both["removed"], &both["gone"]), (&json!(2), &json!(0)), "{both}");
    assert_eq!(shop.json(&["queue", "dead", "ls", "chain"]), json!([]));
    // One that waits for one that waits becomes a dead letter, if that one is canceled first.
    for id in ["x", "y", "z"] {
        let after = [["--after", "x"], ["--after", "y"]];
        let after = match id {
            "x" => &[][..],
            "y" => &after[0],
            _ => &after[1],
        };
        shop.ok(&[&["queue", "enqueue", "chain", id], after].concat());
    }
    let said = shop.ok(&["queue", "cancel", "chain", "--all"]);
    let dead = shop.json(&["queue", "dead", "ls", "chain"]).as_array().unwrap().len();
    let told = if dead == 0 {
        "removed 3, asked 0 to stop\n".to_owned()
    } else {
        format!("{dead} had ended or became a dead letter")
    };
    assert!(said.contains(&told), "{said}");
    for wrong in [&["queue", "cancel", "mail"][..], &["queue", "cancel", "mail", "a", "--all"]] {
        assert_eq!(shop.run(wrong).status, 2);
    }
}

#[test]
fn a_listing_continues_at_the_cursor_that_it_names() {
    let shop = Shop::new();
    for id in ["a", "b", "c", "d", "e"] {
        push(&shop, id, &[]);
    }
    let mut listed = Vec::new();
    let mut after = String::new();
    while listed.len() < 5 {
        let page = shop.run(&["--json", "queue", "ls", "mail", "-n", "2", "--after", &after]);
        let tasks: Vec<Value> = serde_json::from_str(&page.out).unwrap();
        listed.extend(tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()));
        after = page.err.rsplit("--after ").next().unwrap().trim().to_owned();
        assert_eq!(page.err.contains("continue with --after"), listed.len() < 5, "{}", page.err);
    }
    listed.sort();
    assert_eq!(listed, ["a", "b", "c", "d", "e"]);
    let refused = shop.run(&["queue", "ls", "mail", "--after", "b"]);
    assert!(
        refused.status == 2 && refused.err.contains("the cursor is not of this listing"),
        "{}",
        refused.err
    );
}

#[test]
fn many_more_than_a_page_are_cancelled() {
    let shop = Shop::new();
    let line = |n: u32| {
        let task = json!({
            "id": format!("t:{n}"), "content_type": "text/plain", "payload": "",
            "priority": 5, "max_attempts": 1
        });
        format!("{task}\n")
    };
    let lines: String = (0..2_500).map(line).collect();
    let said = shop.with_stdin(&["--json", "queue", "import", "mail"], lines.as_bytes());
    assert_eq!(said.out, "{\"lines\":2500,\"added\":2500,\"kept\":0}\n", "{}", said.err);
    assert_eq!(shop.json(&["queue", "cancel", "mail", "--id-prefix", "t:1"])["removed"], 1_111);
    assert_eq!(shop.json(&["queue", "stats", "mail"])["ready"], 2_500 - 1_111);
    assert_eq!(shop.ok(&["queue", "export", "mail"]).lines().count(), 2_500 - 1_111);
}

#[test]
fn dead_letters_are_put_back_and_deleted_by_filter() {
    let shop = Shop::new();
    for (id, kind) in [("a:1", "x"), ("a:2", "y"), ("b:1", "x")] {
        push(&shop, id, &["--kind", kind]);
        let ticket = shop.json(&["queue", "claim", "mail"])[0]["ticket"].as_str().unwrap().to_owned();
        shop.ok(&["queue", "retry", "mail", "--ticket", &ticket, "--give-up"]);
    }
    let would = shop.json(&["queue", "dead", "requeue", "mail", "--all", "--dry-run"]);
    assert_eq!((&would["chosen"], &would["done"]), (&json!(3), &json!(0)));
    assert_eq!(
        shop.json(&["queue", "dead", "requeue", "mail", "--kind", "x", "--id-prefix", "a:"])["done"],
        1
    );
    assert_eq!(ids(&shop), ["a:1"]);
    assert_eq!(shop.json(&["queue", "dead", "delete", "mail", "--kind", "x"])["done"], 1);
    let left = shop.json(&["queue", "dead", "ls", "mail"]);
    assert_eq!((left.as_array().unwrap().len(), &left[0]["id"]), (1, &json!("a:2")));
}

#[test]
fn an_import_leaves_out_what_is_late_and_takes_the_rest() {
    let shop = Shop::new();
    let line = |id: &str, deadline_us: u64| {
        json!({
            "id": id, "content_type": "text/plain", "payload": "x",
            "priority": 4, "max_attempts": 3, "deadline_us": deadline_us,
        })
        .to_string()
    };
    let lines = [
        line("a", 4_102_444_800_000_000),
        line("late", 1_700_000_000_000_000),
        line("b", 4_102_444_800_000_000),
    ];
    let said = shop.with_stdin(&["--json", "queue", "import", "mail"], lines.join("\n").as_bytes());
    assert_eq!(said.status, 0, "{}", said.err);
    let tally: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&tally["added"], &tally["late"]), (&2.into(), &1.into()), "{tally}");
    assert_eq!(shop.json(&["queue", "ls", "mail"]).as_array().unwrap().len(), 2);
}

#[test]
fn a_queue_survives_export_and_import() {
    let (from, to) = (Shop::new(), Shop::new());
    push(&from, "json", &["--payload", "{\"b\": 1.50,\n \"a\":2}", "--kind", "mail:k", "--priority", "1"]);
    std::fs::write(from.path("bytes"), b"\xff\x00\n").unwrap();
    push(&from, "bytes", &["--payload-file", "bytes", "--content-type", "image/x", "--max-attempts", "3"]);
    push(&from, "later", &["--payload", "é", "--content-type", "text/plain", "--delay", "1h"]);
    let lines = from.ok(&["queue", "export", "mail"]);
    assert_eq!(lines.lines().count(), 3);
    let json = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let json = json.into_iter().find(|line| line["id"] == "json").unwrap();
    assert_eq!((&json["content_type"], &json["kind"]), (&json!("application/json"), &json!("mail:k")));
    let said = to.with_stdin(&["queue", "import", "mail"], lines.as_bytes());
    assert_eq!(said.out, "added 3, kept 0 existing\n", "{}", said.err);
    let said = to.with_stdin(&["queue", "import", "mail", "-"], lines.as_bytes());
    assert_eq!(said.out, "added 0, kept 3 existing\n", "{}", said.err);
    let seen = |shop: &Shop| {
        let mut tasks = shop.json(&["queue", "ls", "mail"]);
        for task in tasks.as_array_mut().unwrap() {
            ["ticket", "revision"].iter().for_each(|name| drop(task.as_object_mut().unwrap().remove(*name)));
        }
        tasks
    };
    assert_eq!(seen(&from), seen(&to));
    assert_eq!(to.ok(&["queue", "export", "mail"]), lines, "byte by byte");

    let ticket = to.json(&["queue", "claim", "mail"])[0]["ticket"].as_str().unwrap().to_owned();
    to.ok(&["queue", "retry", "mail", "--ticket", &ticket, "--give-up"]);
    let dead: Value = serde_json::from_str(&to.ok(&["queue", "export", "mail", "--dead"])).unwrap();
    assert_eq!((&dead["id"], dead.get("due_us")), (&json!("json"), None));
}

#[test]
fn a_broken_line_is_told_and_nothing_before_it_is_lost() {
    let shop = Shop::new();
    let line = |id: &str, attempts: u32| {
        format!(
            "{{\"id\":\"{id}\",\"content_type\":\"text/plain\",\"payload\":\"\",\
             \"priority\":5,\"max_attempts\":{attempts}}}\n"
        )
    };
    for (broken, part) in [
        ("{\"id\":\n".to_owned(), "line 3: "),
        (line("c", 0), "line 3: the number of attempts is 0"),
        (line("c c", 1), "line 3: the task ID contains ' '"),
        (line("c", 1).replace("}\n", ",\"sort\":\"typo\"}\n"), "unknown field `sort`"),
        (line("c", 1).replace("}\n", ",\"kind\":\"two words\"}\n"), "line 3: the kind contains ' '"),
    ] {
        let lines = [line("a", 1), "\n".to_owned(), broken, line("d", 1)].concat();
        let said = shop.with_stdin(&["queue", "import", "mail"], lines.as_bytes());
        assert_eq!(said.status, 2, "{}", said.err);
        assert!(said.err.contains(part), "{}", said.err);
        assert_eq!(ids(&shop), ["a"]);
    }
    shop.ok(&["queue", "limit", "mail", "--bound", "2"]);
    let lines: String = ["a", "b", "c"].map(|id| line(id, 1)).concat();
    let said = shop.with_stdin(&["--json", "queue", "import", "mail"], lines.as_bytes());
    assert_eq!(
        (said.status, said.out.as_str()),
        (1, "{\"lines\":2,\"added\":1,\"kept\":1}\n"),
        "{}",
        said.err
    );
}

#[test]
fn a_watch_tells_lengths_changes_and_who_works() {
    let shop = Shop::new();
    (0..3).for_each(|n| push(&shop, &format!("{n}"), &[]));
    let mut watch = shop.start(&["--json", "queue", "watch", "mail", "--every", "50ms"]);
    let first: Value = serde_json::from_str(&watch.line()).unwrap();
    assert_eq!((&first["ready"], &first["ready_per_s"]), (&json!(3), &Value::Null));
    shop.ok(&["queue", "claim", "mail", "-n", "2"]);
    let claimed = loop {
        let look: Value = serde_json::from_str(&watch.line()).unwrap();
        if look["leased"] == 2 {
            break look;
        }
    };
    assert!(
        claimed["ready_per_s"].as_f64().unwrap() < 0.0 && claimed["leased_per_s"].as_f64().unwrap() > 0.0
    );
    let workers: Vec<_> = claimed["workers"].as_object().unwrap().values().cloned().collect();
    assert_eq!(workers, [json!(2)]);
    watch.signal(rustix::process::Signal::INT);
    assert_eq!(watch.end().status, 0);

    let lines = shop.ok(&["queue", "watch", "-n", "2", "--every", "10ms"]);
    assert_eq!(lines.lines().count(), 2);
    assert!(lines.contains(" mail: ready 1, scheduled 0, leased 2, blocked 0, dead 0, lag"), "{lines}");
}
