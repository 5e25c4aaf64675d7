//! Queues over HTTP.

use crate::common;
use crate::common::{Ask, Stand, eventually};
use serde_json::{Value, json};

const QUEUE: &str = "/v1/queues/mail";

async fn enqueue(stand: &Stand, body: Value) -> common::Said {
    stand.post(&format!("{QUEUE}/tasks"), body).await
}

async fn claim(stand: &Stand) -> Value {
    stand.post(&format!("{QUEUE}/claim"), json!({ "lease_ms": 60_000 })).await.ok(200)["tasks"][0].clone()
}

#[tokio::test]
async fn a_task_is_enqueued_claimed_and_completed() {
    let stand = Stand::open().await;
    let added = enqueue(&stand, json!({ "id": "to:ann", "payload": { "text": "Welcome" } })).await.ok(201);
    assert_eq!(added["outcome"], "added");
    assert_eq!(enqueue(&stand, json!({ "id": "to:ann" })).await.ok(200)["outcome"], "kept");
    assert_eq!(
        stand.get(&format!("{QUEUE}/top?n=5")).await.ok(200)["tasks"][0]["payload"]["text"],
        "Welcome"
    );

    let task = claim(&stand).await;
    assert_eq!((&task["id"], &task["attempt"]), (&json!("to:ann"), &json!(1)));
    let ticket = json!({ "ticket": task["ticket"] });
    let extend = json!({ "ticket": task["ticket"], "lease_ms": 90_000 });
    assert_eq!(
        stand.post(&format!("{QUEUE}/extend"), extend).await.ok(200)["outcomes"],
        json!([{ "outcome": "extended" }])
    );
    assert_eq!(
        stand.post(&format!("{QUEUE}/complete"), ticket.clone()).await.ok(200)["outcomes"],
        json!([{ "outcome": "done" }])
    );
    assert_eq!(stand.post(&format!("{QUEUE}/complete"), ticket).await.code(), "stale");
    let many = json!({ "tickets": [task["ticket"]] });
    assert_eq!(
        stand.post(&format!("{QUEUE}/complete"), many).await.ok(200)["outcomes"],
        json!([{ "outcome": "stale" }])
    );
    assert_eq!(stand.get(QUEUE).await.ok(200)["leased"], 0);
    assert_eq!(stand.get("/v1/queues").await.ok(200)["items"], json!([{ "name": "mail" }]));
    stand.end().await;
}

#[tokio::test]
async fn a_claim_says_who_works_on_it() {
    let stand = Stand::open().await;
    enqueue(&stand, json!({ "id": "a" })).await.ok(201);
    stand.post(&format!("{QUEUE}/claim"), json!({ "worker": "mailer 7" })).await.ok(200);
    assert_eq!(stand.get(&format!("{QUEUE}/tasks/a")).await.ok(200)["worker"], "mailer 7");
    let wrong = stand.post(&format!("{QUEUE}/claim"), json!({ "worker": "a\nb" })).await;
    assert_eq!((wrong.code().as_str(), &wrong.json()["field"]), ("invalid", &json!("worker")));
    stand.end().await;
}

#[tokio::test]
async fn bytes_travel_in_base64() {
    let stand = Stand::open().await;
    let body = json!({ "id": "a", "payload_base64": "AP8=", "content_type": "image/x-dot" });
    enqueue(&stand, body).await.ok(201);
    let task = claim(&stand).await;
    assert_eq!((&task["payload_base64"], &task["content_type"]), (&json!("AP8="), &json!("image/x-dot")));
    for wrong in [
        json!({ "id": "a", "payload_base64": "?" }),
        json!({ "id": "a", "payload": 1, "payload_base64": "" }),
    ] {
        assert_eq!(enqueue(&stand, wrong).await.code(), "invalid");
    }
    stand.end().await;
}

#[tokio::test]
async fn text_is_a_string_without_its_quotes() {
    let stand = Stand::open().await;
    let said = "say \"hi\"\n";
    enqueue(&stand, json!({ "id": "a", "payload": said, "content_type": "text/plain" })).await.ok(201);
    let task = claim(&stand).await;
    assert_eq!((&task["payload"], &task["content_type"]), (&json!(said), &json!("text/plain")));
    // The store holds the plain text.
    let in_base64 = json!({ "id": "b", "payload_base64": "c2F5ICJoaSIK", "content_type": "text/plain" });
    enqueue(&stand, in_base64).await.ok(201);
    assert_eq!(claim(&stand).await["payload"], said);
    enqueue(&stand, json!({ "id": "c", "payload": "<a/>", "content_type": "application/xml" })).await.ok(201);
    assert_eq!(claim(&stand).await["payload_base64"], "PGEvPg==");
    enqueue(&stand, json!({ "id": "d", "payload": "quoted" })).await.ok(201);
    let task = claim(&stand).await;
    assert_eq!((&task["payload"], &task["content_type"]), (&json!("quoted"), &json!("application/json")));

    let keep = json!({ "retention": { "age_ms": 60_000, "count": 10 } });
    stand.ask(Ask::new("PUT", &format!("{QUEUE}/limits")).json(&keep)).await.ok(200);
    let result = json!({ "ticket": task["ticket"], "result": "two\nlines", "result_type": "text/plain" });
    stand.post(&format!("{QUEUE}/complete"), result).await.ok(200);
    let over = stand.get(&format!("{QUEUE}/tasks/d")).await.ok(200);
    assert_eq!(over["finished"]["result"]["payload"], "two\nlines", "{over}");

    for payload in [json!(1), json!({ "a": 1 })] {
        let wrong =
            enqueue(&stand, json!({ "id": "e", "payload": payload, "content_type": "text/csv" })).await;
        assert_eq!((wrong.code().as_str(), &wrong.json()["field"]), ("invalid", &json!("payload")));
    }
    stand.end().await;
}

#[tokio::test]
async fn the_kind_of_a_task_is_a_field() {
    let stand = Stand::open().await;
    let content = json!({ "payload": { "to": "ann" }, "kind": "mail:welcome" });
    let with = |more: Value| {
        let mut body = content.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    enqueue(&stand, with(json!({ "id": "a" }))).await.ok(201);
    let locked = stand.post("/v1/locks/l/acquire", json!({ "lease_ms": 60_000 })).await.ok(201);
    let left = json!({ "token": locked["token"], "queue": "mail", "task": with(json!({ "id": "b" })) });
    stand.post("/v1/locks/l/release-with", left).await.ok(201);
    let nightly = format!("{QUEUE}/schedules/nightly");
    let schedule = Ask::new("PUT", &nightly).json(&with(json!({ "every_ms": 86_400_000 })));
    stand.ask(schedule).await.ok(201);
    stand.post(&format!("{nightly}/run"), json!({})).await.ok(201);

    let claimed = stand.post(&format!("{QUEUE}/claim"), json!({ "n": 3, "lease_ms": 60_000 })).await.ok(200);
    let mut seen = claimed["tasks"].as_array().unwrap().clone();
    assert_eq!(seen.len(), 3);
    seen.push(stand.get(&format!("{QUEUE}/tasks/a")).await.ok(200));
    seen.push(stand.get(&nightly).await.ok(200));
    for of in seen {
        assert_eq!((&of["kind"], &of["payload"]["to"]), (&json!("mail:welcome"), &json!("ann")), "{of}");
        assert_eq!(of["content_type"], "application/json", "{of}");
    }
    enqueue(&stand, json!({ "id": "none" })).await.ok(201);
    assert_eq!(claim(&stand).await.get("kind"), None);
    let wrong = enqueue(&stand, json!({ "id": "c", "kind": "two words" })).await;
    assert_eq!((wrong.code().as_str(), &wrong.json()["field"]), ("invalid", &json!("kind")));
    stand.end().await;
}

#[tokio::test]
async fn a_batch_has_an_answer_per_task() {
    let stand = Stand::open().await;
    stand.ask(Ask::new("PUT", &format!("{QUEUE}/limits")).json(&json!({ "bound": 2 }))).await.ok(200);
    let tasks =
        json!({ "tasks": [{ "id": "a" }, { "id": "a" }, { "id": "b", "delay_ms": 60_000 }, { "id": "c" }] });
    let outcomes = stand.post(&format!("{QUEUE}/batch"), tasks).await.ok(200);
    let words: Vec<_> =
        outcomes["outcomes"].as_array().unwrap().iter().map(|of| of["outcome"].as_str()).collect();
    assert_eq!(words, [Some("added"), Some("kept"), Some("added"), Some("full")]);
    let full = enqueue(&stand, json!({ "id": "d" })).await;
    assert_eq!((full.code().as_str(), full.json()["bound"].as_u64()), ("queue_full", Some(2)));
    assert_eq!(stand.post(&format!("{QUEUE}/batch"), json!({ "tasks": [] })).await.code(), "invalid");
    stand.end().await;
}

#[tokio::test]
async fn a_task_has_its_deadline() {
    let stand = Stand::open().await;
    enqueue(&stand, json!({ "id": "a", "deadline_after_ms": 60_000 })).await.ok(201);
    let task = stand.get(&format!("{QUEUE}/tasks/a")).await.ok(200);
    assert!(task["deadline_us"].as_u64() > task["due_us"].as_u64(), "{task}");
    let why = stand.get(&format!("{QUEUE}/tasks/a/why")).await.ok(200);
    assert_eq!(why["reasons"][1]["reason"], "deadline", "{why}");
    for wrong in [
        json!({ "id": "b", "deadline_us": 1 }),
        json!({ "id": "b", "deadline_after_ms": 1_000, "delay_ms": 1_000 }),
        json!({ "id": "b", "deadline_after_ms": 1_000, "deadline_us": 4_000_000_000_000_000_u64 }),
    ] {
        assert_eq!(enqueue(&stand, wrong).await.code(), "invalid");
    }
    stand.end().await;
}

#[tokio::test]
async fn an_id_is_taken_once_in_its_period_unless_its_window_is_cleared() {
    let stand = Stand::open().await;
    let task = json!({ "id": "a", "unique_for_ms": 3_600_000 });
    enqueue(&stand, task.clone()).await.ok(201);
    assert_eq!(enqueue(&stand, task.clone()).await.ok(200)["outcome"], "kept");
    stand.post(&format!("{QUEUE}/pop"), json!({})).await.ok(200);
    let recent = enqueue(&stand, json!({ "id": "a" })).await.ok(200);
    assert!(recent["outcome"] == "recent" && recent["until_us"].as_u64() > Some(0), "{recent}");
    let batch =
        stand.post(&format!("{QUEUE}/batch"), json!({ "tasks": [task, { "id": "b" }] })).await.ok(200);
    assert_eq!(batch["outcomes"][0], recent, "{batch}");
    let why = stand.get(&format!("{QUEUE}/tasks/a/why")).await.ok(200);
    assert_eq!(
        (&why["reasons"][0]["reason"], &why["reasons"][0]["until_us"]),
        (&json!("unique"), &recent["until_us"])
    );
    let unique = format!("{QUEUE}/tasks/a/unique");
    let cleared = stand.ask(Ask::new("DELETE", &unique)).await.ok(200);
    assert_eq!(cleared, json!({ "outcome": "cleared", "until_us": recent["until_us"] }));
    assert_eq!(stand.ask(Ask::new("DELETE", &unique)).await.code(), "not_found");
    enqueue(&stand, json!({ "id": "a" })).await.ok(201);
    for wrong in [0_u64, 34_560_000_001] {
        assert_eq!(enqueue(&stand, json!({ "id": "c", "unique_for_ms": wrong })).await.code(), "invalid");
    }
    stand.end().await;
}

#[tokio::test]
async fn a_batch_waits_for_its_parts_and_has_their_results() {
    let stand = Stand::open().await;
    enqueue(&stand, json!({ "id": "whole", "held_open": true, "if_dead": "run" })).await.ok(201);
    enqueue(&stand, json!({ "id": "part", "part_of": "whole" })).await.ok(201);
    enqueue(&stand, json!({ "id": "last", "after": ["whole"] })).await.ok(201);
    let refused = enqueue(&stand, json!({ "id": "x", "after": ["typo"] })).await;
    assert_eq!(refused.code(), "unmet");
    let batch = json!({ "tasks": [{ "id": "x", "part_of": "last" }] });
    let batch = stand.post(&format!("{QUEUE}/batch"), batch).await.ok(200);
    assert_eq!(batch["outcomes"][0], json!({ "outcome": "refused", "task": "last", "why": "not_open" }));
    let close = format!("{QUEUE}/tasks/whole/close");
    assert_eq!(stand.post(&close, json!({})).await.ok(200), json!({ "outcome": "closed", "left": 1 }));
    assert_eq!(stand.post(&close, json!({})).await.code(), "not_open");
    assert_eq!(stand.post(&format!("{QUEUE}/tasks/nobody/close"), json!({})).await.code(), "not_found");
    let shown = stand.get(&format!("{QUEUE}/tasks/whole")).await.ok(200);
    assert_eq!((&shown["state"], &shown["waits"]), (&json!("blocked"), &json!(true)));
    let waits = stand.get(&format!("{QUEUE}/tasks/whole/waits")).await.ok(200);
    let first = json!([{ "id": "part" }]);
    let expected =
        json!({ "open": false, "if_dead": "run", "left": 1, "over": 0, "dead": 0, "first": first });
    assert_eq!(waits, expected);
    let claimed = stand.post(&format!("{QUEUE}/claim"), json!({})).await.ok(200);
    let done = json!({ "ticket": claimed["tasks"][0]["ticket"], "result": [7] });
    stand.post(&format!("{QUEUE}/complete"), done).await.ok(200);
    let waited = stand.get(&format!("{QUEUE}/tasks/whole/waited")).await.ok(200);
    let one = &waited["items"][0];
    assert_eq!(
        (&one["id"], &one["end"], &one["result"]["payload"]),
        (&json!("part"), &json!("done"), &json!([7]))
    );
    assert_eq!(stand.get(&format!("{QUEUE}/tasks/nobody/waits")).await.code(), "not_found");
    stand.end().await;
}

#[tokio::test]
async fn a_queue_at_its_bound_says_what_it_drops() {
    let stand = Stand::open().await;
    let limit = async |overflow: &str| {
        let limits = json!({ "bound": 1, "overflow": overflow });
        let said = stand.ask(Ask::new("PUT", &format!("{QUEUE}/limits")).json(&limits)).await.ok(200);
        assert_eq!(said["overflow"], overflow);
    };
    limit("drop_oldest").await;
    enqueue(&stand, json!({ "id": "a" })).await.ok(201);
    let displaced = enqueue(&stand, json!({ "id": "b" })).await.ok(201);
    assert_eq!(displaced, json!({ "outcome": "displaced", "revision": 2, "dropped": "a" }));
    limit("drop_new").await;
    let dropped = enqueue(&stand, json!({ "id": "c" })).await.ok(200);
    assert_eq!(dropped, json!({ "outcome": "dropped", "bound": 1 }));
    assert_eq!(stand.get(QUEUE).await.ok(200)["dropped"], 2);
    let metrics = stand.get("/metrics").await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(metrics.contains("rushgate_queue_dropped_total{queue=\"mail\"} 2"), "{metrics}");
    stand.end().await;
}

#[tokio::test]
async fn a_claim_waits_for_a_task() {
    let stand = Stand::open().await;
    let waiting = stand.ask(Ask::new("POST", &format!("{QUEUE}/claim")).json(&json!({})).wait(30));
    let (tasks, _) = tokio::join!(waiting, enqueue(&stand, json!({ "id": "a" })));
    assert_eq!(tasks.ok(200)["tasks"][0]["id"], "a");
    assert_eq!(stand.post(&format!("{QUEUE}/claim"), json!({})).await.ok(200)["tasks"], json!([]));
    stand.end().await;
}

#[tokio::test]
async fn a_caller_that_leaves_while_waiting_takes_no_task_along() {
    let stand = Stand::open().await;
    let calls = stand.client.calls().calls;
    let ask = Ask::new("POST", &format!("{QUEUE}/claim")).json(&json!({ "lease_ms": 60_000 })).wait(60);
    stand.ask_and_leave(ask, async || stand.client.calls().calls > calls).await;
    enqueue(&stand, json!({ "id": "a" })).await.ok(201);
    // The task may have been claimed for the client that left; it then returns to the queue.
    eventually(async || claim(&stand).await["id"] == "a").await;
    stand.end().await;
}

#[tokio::test]
async fn a_claim_that_is_repeated_under_its_key_takes_nothing_more() {
    let stand = Stand::open().await;
    for id in ["a", "b"] {
        enqueue(&stand, json!({ "id": id })).await.ok(201);
    }
    let ask = || Ask::new("POST", &format!("{QUEUE}/pop")).json(&json!({ "n": 1 })).key("pop-1");
    let (first, second) = (stand.ask(ask()).await, stand.ask(ask()).await);
    assert_eq!(first.body, second.body);
    assert_eq!((first.header("idempotency-replayed"), second.header("idempotency-replayed")), ("", "true"));
    let other = Ask::new("POST", &format!("{QUEUE}/pop")).json(&json!({ "n": 2 })).key("pop-1");
    assert_eq!(stand.ask(other).await.code(), "idempotency_key_reused");
    assert_eq!(stand.get(QUEUE).await.ok(200)["ready"], 1);
    stand.end().await;
}

#[tokio::test]
async fn a_task_that_fails_is_retried_then_dead_then_requeued_or_deleted() {
    let stand = Stand::open().await;
    enqueue(&stand, json!({ "id": "a", "max_attempts": 2 })).await.ok(201);
    let ticket = claim(&stand).await["ticket"].clone();
    let retry =
        stand.post(&format!("{QUEUE}/retry"), json!({ "ticket": ticket, "error": "no luck" })).await.ok(200);
    assert_eq!(retry["outcomes"][0]["outcome"], "scheduled");
    let ticket = claim(&stand).await["ticket"].clone();
    let back = stand.post(&format!("{QUEUE}/release"), json!({ "ticket": ticket })).await.ok(200);
    assert_eq!(back["outcomes"], json!([{ "outcome": "waiting" }]));
    let ticket = claim(&stand).await["ticket"].clone();
    let retry =
        stand.post(&format!("{QUEUE}/retry"), json!({ "ticket": ticket, "error": "again" })).await.ok(200);
    assert_eq!(retry["outcomes"], json!([{ "outcome": "dead" }]));

    assert_eq!(stand.get(&format!("{QUEUE}/dead")).await.ok(200)["items"][0]["error"], "again");
    assert_eq!(stand.get(&format!("{QUEUE}/tasks/a/why")).await.ok(200)["reasons"][0]["reason"], "dead");
    let requeued = stand.post(&format!("{QUEUE}/dead/requeue"), json!({ "ids": ["a"] })).await.ok(200);
    assert_eq!(requeued, json!({ "requeued": 1, "kept": 0 }));
    let ticket = claim(&stand).await["ticket"].clone();
    stand.post(&format!("{QUEUE}/retry"), json!({ "ticket": ticket, "give_up": true })).await.ok(200);
    assert_eq!(stand.post(&format!("{QUEUE}/dead/delete"), json!({})).await.code(), "invalid");
    assert_eq!(
        stand.post(&format!("{QUEUE}/dead/delete"), json!({ "all": true })).await.ok(200)["deleted"],
        1
    );
    stand.end().await;
}

#[tokio::test]
async fn tasks_are_shown_listed_dequeued_and_cancelled() {
    let stand = Stand::open().await;
    for id in ["a", "b/c", "d"] {
        enqueue(&stand, json!({ "id": id, "delay_ms": 60_000 })).await.ok(201);
    }
    let page = stand.get(&format!("{QUEUE}/tasks?limit=2&state=scheduled")).await.ok(200);
    let next = page["next"].as_str().unwrap();
    assert_eq!((page["items"].as_array().unwrap().len(), &page["items"][1]["id"]), (2, &json!("b/c")));
    let rest = stand.get(&format!("{QUEUE}/tasks?limit=2&state=scheduled&after={next}")).await.ok(200);
    assert_eq!((rest["items"][0]["id"].as_str(), rest.get("next")), (Some("d"), None));
    // A cursor belongs to its listing.
    for other in [format!("after={next}"), "after=b%2Fc".to_owned()] {
        let refused = stand.get(&format!("{QUEUE}/tasks?{other}")).await;
        assert_eq!(
            (refused.code().as_str(), &refused.json()["field"]),
            ("invalid", &json!("after")),
            "{other}"
        );
    }

    for (query, found, read, is_last) in [
        ("contains=B%2FC", vec!["b/c"], 3, true),
        ("contains=nothing&limit=2", vec![], 2, false),
        ("contains=d&state=ready", vec![], 0, true),
        ("contains=b&prefix=b%2F", vec!["b/c"], 1, true),
    ] {
        let page = stand.get(&format!("{QUEUE}/tasks?{query}")).await.ok(200);
        let ids = page["items"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap());
        assert_eq!(ids.collect::<Vec<_>>(), found, "{query}");
        assert_eq!((&page["read"], page["next"].is_null()), (&json!(read), is_last), "{query}");
    }
    let found = stand.get(&format!("{QUEUE}/tasks?prefix=b")).await.ok(200);
    assert_eq!((found["items"].as_array().unwrap().len(), &found["items"][0]["id"]), (1, &json!("b/c")));
    assert_eq!(stand.get(&format!("{QUEUE}/tasks?prefix={}", "a".repeat(201))).await.code(), "invalid");
    for text in ["", &"a".repeat(201)] {
        assert_eq!(stand.get(&format!("{QUEUE}/tasks?contains={text}")).await.code(), "invalid");
    }

    let shown = stand.get(&format!("{QUEUE}/tasks/b%2Fc")).await.ok(200);
    assert_eq!(shown["state"], "scheduled");
    let dequeue = json!({ "ticket": shown["ticket"] });
    assert_eq!(stand.post(&format!("{QUEUE}/dequeue"), dequeue.clone()).await.ok(200)["outcome"], "removed");
    assert_eq!(stand.post(&format!("{QUEUE}/dequeue"), dequeue).await.code(), "stale");
    let cancel = || Ask::new("DELETE", &format!("{QUEUE}/tasks/d"));
    assert_eq!(stand.ask(cancel()).await.ok(200)["outcome"], "removed");
    assert_eq!(stand.ask(cancel()).await.code(), "not_found");
    assert_eq!(stand.get(&format!("{QUEUE}/tasks/d")).await.code(), "not_found");
    stand.end().await;
}

#[tokio::test]
async fn a_waiting_task_is_rescheduled_and_a_running_one_is_not() {
    let stand = Stand::open().await;
    enqueue(&stand, json!({ "id": "a", "delay_ms": 60_000, "deadline_after_ms": 90_000 })).await.ok(201);
    let url = format!("{QUEUE}/tasks/a/reschedule");
    let reschedule = |body| stand.post(&url, body);
    let late = reschedule(json!({ "delay_ms": 95_000 })).await;
    assert_eq!((late.code().as_str(), late.json()["field"].as_str()), ("invalid", Some("due_us")));
    assert_eq!(reschedule(json!({ "delay_ms": 5, "due_us": 5 })).await.code(), "invalid");
    let said = reschedule(json!({ "delay_ms": 30_000 })).await.ok(200);
    let shown = stand.get(&format!("{QUEUE}/tasks/a")).await.ok(200);
    assert_eq!((&said["outcome"], &said["due_us"]), (&json!("rescheduled"), &shown["not_before_us"]));
    assert_eq!(reschedule(json!({})).await.ok(200)["outcome"], "rescheduled");
    assert_eq!(claim(&stand).await["id"], "a");
    assert_eq!(reschedule(json!({})).await.code(), "leased");
    let missing = stand.post(&format!("{QUEUE}/tasks/b/reschedule"), json!({})).await;
    assert_eq!(missing.code(), "not_found");
    stand.end().await;
}

#[tokio::test]
async fn the_tasks_that_wait_for_one_are_listed() {
    let stand = Stand::open().await;
    for (id, after) in [("a", json!([])), ("b", json!(["a"])), ("c", json!(["a"]))] {
        enqueue(&stand, json!({ "id": id, "after": after })).await.ok(201);
    }
    let ids =
        async |id: &str| stand.get(&format!("{QUEUE}/tasks/{id}/dependents")).await.ok(200)["ids"].clone();
    assert_eq!((ids("a").await, ids("b").await), (json!(["b", "c"]), json!([])));
    let first = stand.get(&format!("{QUEUE}/tasks/a/dependents?n=1")).await.ok(200);
    assert_eq!(first["ids"], json!(["b"]));
    assert_eq!(stand.get(&format!("{QUEUE}/tasks/a/dependents?n=0")).await.code(), "invalid");
    stand.end().await;
}

#[tokio::test]
async fn a_paused_queue_gives_nothing_out() {
    let stand = Stand::open().await;
    enqueue(&stand, json!({ "id": "a" })).await.ok(201);
    assert_eq!(stand.post(&format!("{QUEUE}/pause"), json!({})).await.ok(200)["paused"], true);
    assert_eq!(claim(&stand).await, Value::Null);
    assert_eq!(stand.ask(Ask::new("POST", &format!("{QUEUE}/resume"))).await.ok(200)["paused"], false);
    assert_eq!(claim(&stand).await["id"], "a");
    stand.end().await;
}

#[tokio::test]
async fn a_worker_is_announced_listed_set_and_ended() {
    let stand = Stand::open().await;
    let (workers, path) = (format!("{QUEUE}/workers"), format!("{QUEUE}/workers/w1"));
    let put = async |path: &str, body: Value| stand.ask(Ask::new("PUT", path).json(&body)).await;
    assert_eq!(stand.get(&workers).await.ok(200)["items"], json!([]));
    let about = json!({ "name": "mailer 7", "version": "shop 1.2", "concurrency": 4, "running": 2 });
    assert_eq!(put(&path, about).await.ok(200), json!({ "mode": "work" }));
    assert_eq!(put(&format!("{workers}/w2"), json!({})).await.ok(200)["mode"], "work");
    let listed = stand.get(&workers).await.ok(200)["items"].clone();
    let worker = &listed[0];
    assert_eq!(
        (&worker["id"], &worker["name"], &worker["version"]),
        (&json!("w1"), &json!("mailer 7"), &json!("shop 1.2"))
    );
    assert_eq!(
        (&worker["concurrency"], &worker["running"], &worker["mode"]),
        (&json!(4), &json!(2), &json!("work"))
    );
    let us = |field: &str| worker[field].as_u64().unwrap();
    assert_eq!((us("since_us"), us("lease_until_us")), (us("seen_us"), us("seen_us") + 30_000_000));
    let page = stand.get(&format!("{workers}?limit=1")).await.ok(200);
    assert_eq!((&page["items"][0]["id"], &page["next"]), (&json!("w1"), &json!("w1")));
    assert_eq!(stand.get(&format!("{workers}?after=w1")).await.ok(200)["items"][0]["id"], "w2");

    let mode = format!("{path}/mode");
    assert_eq!(put(&mode, json!({ "mode": "quiet" })).await.ok(200), json!({ "mode": "quiet" }));
    assert_eq!(put(&path, json!({})).await.ok(200)["mode"], "quiet");
    enqueue(&stand, json!({ "id": "a" })).await.ok(201);
    let metrics = String::from_utf8_lossy(&stand.get("/metrics").await.body).into_owned();
    for (mode, n) in [("work", 1), ("quiet", 1), ("stop", 0)] {
        let line = format!("rushgate_queue_workers{{queue=\"mail\",mode=\"{mode}\"}} {n}\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
    assert_eq!(put(&mode, json!({ "mode": "sleep" })).await.code(), "invalid");
    assert_eq!(put(&format!("{workers}/unknown/mode"), json!({ "mode": "stop" })).await.code(), "not_found");
    for wrong in [
        json!({ "concurrency": 0 }),
        json!({ "lease_ms": 9 }),
        json!({ "name": "a\nb" }),
        json!({ "version": "v".repeat(201) }),
    ] {
        assert_eq!(put(&path, wrong.clone()).await.code(), "invalid", "{wrong}");
    }
    assert_eq!(stand.ask(Ask::new("DELETE", &path)).await.ok(200)["outcome"], "ended");
    assert_eq!(stand.ask(Ask::new("DELETE", &path)).await.ok(200)["outcome"], "ended", "again");
    assert_eq!(stand.get(&workers).await.ok(200)["items"][0]["id"], "w2");
    stand.end().await;
}

#[tokio::test]
async fn a_schedule_is_saved_run_paused_and_deleted() {
    let stand = Stand::open().await;
    let path = format!("{QUEUE}/schedules/nightly");
    let enter = |body: Value| stand.ask(Ask::new("PUT", &path).json(&body));
    let nightly = json!({ "cron": "30 3 * * *", "zone": "Europe/Berlin", "payload": "report" });
    assert_eq!(enter(nightly.clone()).await.ok(201)["outcome"], "added");
    assert_eq!(enter(nightly).await.ok(200)["outcome"], "unchanged");
    assert_eq!(enter(json!({ "cron": "61 * * * *" })).await.code(), "invalid");
    let shown = stand.get(&path).await.ok(200);
    assert_eq!(shown["payload"], "report");
    let upcoming: Vec<_> =
        shown["upcoming_us"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    assert_eq!((upcoming.len(), Some(upcoming[0])), (5, shown["next_us"].as_u64()));
    let day = 86_400_000_000;
    assert!(
        upcoming
            .windows(2)
            .all(|two| (day - 3_600_000_000..=day + 3_600_000_000).contains(&(two[1] - two[0])))
    );
    assert_eq!(stand.post(&format!("{path}/run"), json!({})).await.ok(201)["outcome"], "added");
    assert_eq!(stand.post(&format!("{path}/pause"), json!({})).await.ok(200)["paused"], true);
    assert_eq!(stand.get(&format!("{QUEUE}/schedules")).await.ok(200)["items"][0]["paused"], true);
    assert_eq!(stand.get(&path).await.ok(200)["upcoming_us"], json!([]));
    assert_eq!(stand.post(&format!("{path}/resume"), json!({})).await.ok(200)["paused"], false);
    assert_eq!(stand.ask(Ask::new("DELETE", &path)).await.ok(200)["outcome"], "removed");
    assert_eq!(stand.get(&path).await.code(), "not_found");
    stand.end().await;
}

#[tokio::test]
async fn a_schedule_fires_though_nobody_but_the_server_runs() {
    let stand = Stand::open().await;
    let each_second = json!({ "every_ms": 1_000, "payload": {} });
    stand.ask(Ask::new("PUT", &format!("{QUEUE}/schedules/tick")).json(&each_second)).await.ok(201);
    let claimed =
        stand.ask(Ask::new("POST", &format!("{QUEUE}/claim")).json(&json!({})).wait(30)).await.ok(200);
    assert!(claimed["tasks"][0]["id"].as_str().unwrap().starts_with("tick@"), "{claimed}");
    stand.end().await;
}

#[tokio::test]
async fn a_thousand_long_ids_are_within_the_limits() {
    let stand = Stand::open().await;
    let ids: Vec<_> = (0..1_000).map(|n| format!("{n:0>200}")).collect();
    let requeued = stand.post(&format!("{QUEUE}/dead/requeue"), json!({ "ids": ids })).await.ok(200);
    assert_eq!(requeued["requeued"], 0);
    let tasks: Vec<_> = ids.iter().map(|id| json!({ "id": id })).collect();
    stand.post(&format!("{QUEUE}/batch"), json!({ "tasks": tasks })).await.ok(200);
    let claimed = stand.post(&format!("{QUEUE}/claim"), json!({ "n": 1_000 })).await.ok(200);
    let tickets: Vec<_> = claimed["tasks"].as_array().unwrap().iter().map(|task| &task["ticket"]).collect();
    let done = stand.post(&format!("{QUEUE}/complete"), json!({ "tickets": tickets })).await.ok(200);
    assert!(done["outcomes"].as_array().unwrap().iter().all(|of| of["outcome"] == "done"));
    stand.end().await;
}

#[tokio::test]
async fn a_result_is_waited_for_and_kept() {
    let stand = Stand::open().await;
    let task_url = format!("{QUEUE}/tasks/a");
    enqueue(&stand, json!({ "id": "a" })).await.ok(201);
    let waits = stand.ask(Ask::new("GET", &task_url).header("prefer", "wait=1")).await;
    assert_eq!((waits.status, waits.code().as_str()), (409, "nothing_kept"));
    assert!(waits.json()["hint"].as_str().unwrap().contains("--keep"));
    let limits = json!({ "retention": { "age_ms": 3_600_000, "count": 10 } });
    let said = stand.ask(Ask::new("PUT", &format!("{QUEUE}/limits")).json(&limits)).await.ok(200);
    assert_eq!(said["retention"], json!({ "age_ms": 3_600_000, "count": 10 }));
    let task = claim(&stand).await;
    let progress = json!({ "ticket": task["ticket"], "progress": { "percent": 40, "note": "page 4" } });
    stand.post(&format!("{QUEUE}/extend"), progress).await.ok(200);
    let live = stand.get(&task_url).await.ok(200);
    assert_eq!((&live["progress"], &live["past"]), (&json!({ "percent": 40, "note": "page 4" }), &json!([])));
    let too_far = json!({ "ticket": task["ticket"], "progress": { "percent": 101 } });
    assert_eq!(stand.post(&format!("{QUEUE}/extend"), too_far).await.code(), "invalid");
    let both = json!({ "ticket": task["ticket"], "result": 1, "result_base64": "AA==" });
    assert_eq!(stand.post(&format!("{QUEUE}/complete"), both).await.code(), "invalid");
    let done = json!({ "ticket": task["ticket"], "result": { "total": 6 } });
    let (kept, said) = tokio::join!(stand.ask(Ask::new("GET", &task_url).wait(30)), async {
        stand.post(&format!("{QUEUE}/complete"), done).await
    });
    assert_eq!(said.ok(200)["outcomes"], json!([{ "outcome": "done" }]));
    let kept = kept.ok(200);
    assert_eq!((&kept["state"], &kept["finished"]["how"]), (&json!("done"), &json!("done")));
    assert_eq!(kept["finished"]["result"]["payload"], json!({ "total": 6 }));
    assert_eq!(stand.get(&format!("{QUEUE}/tasks?state=done")).await.ok(200)["items"][0]["id"], "a");
    assert_eq!(stand.get(QUEUE).await.ok(200)["done"], 1);

    enqueue(&stand, json!({ "id": "b" })).await.ok(201);
    let task = claim(&stand).await;
    let given_up = json!({ "ticket": task["ticket"], "error": "no such address", "give_up": true });
    let (dead, said) =
        tokio::join!(stand.ask(Ask::new("GET", &format!("{QUEUE}/tasks/b")).wait(30)), async {
            stand.post(&format!("{QUEUE}/retry"), given_up).await
        });
    said.ok(200);
    assert_eq!((dead.status, dead.code().as_str()), (410, "dead"));
    assert_eq!((&dead.json()["error"], &dead.json()["attempts"]), (&json!("no such address"), &json!(1)));

    // An earlier task with this ID was completed and is retained. The latest end counts.
    enqueue(&stand, json!({ "id": "a" })).await.ok(201);
    let task = claim(&stand).await;
    let given_up = json!({ "ticket": task["ticket"], "error": "gone", "give_up": true });
    stand.post(&format!("{QUEUE}/retry"), given_up).await.ok(200);
    assert_eq!(stand.get(&task_url).await.code(), "dead");
    stand.end().await;
}
