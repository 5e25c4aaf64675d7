//! The same thing is the same JSON over HTTP, with `--json`, and in an export.

use crate::common;
use crate::common::{Shop, ask, serve};
use serde_json::{Value, json};

const QUEUE: &str = "/v1/queues/mail";

/// Without what depends on the time of the read.
fn still(of: Value) -> Value {
    const MOVING: [&str; 6] = ["now_us", "lag_ms", "lease_left_ms", "wait_ms", "due_for_ms", "left_ms"];
    match of {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(name, _)| !MOVING.contains(&name.as_str()));
            fields.map(|(name, value)| (name, still(value))).collect()
        }
        Value::Array(values) => values.into_iter().map(still).collect(),
        other => other,
    }
}

/// A server with a store, and the command on the same store.
struct Both {
    shop: Shop,
    address: String,
    _server: common::Running,
}

impl Both {
    fn open() -> Self {
        let shop = Shop::new();
        let (server, address) = serve(&shop, &[]);
        Self { shop, address, _server: server }
    }

    fn http(&self, method: &str, path: &str, body: &Value) -> Value {
        let key = if path.ends_with("/reservations") { "Idempotency-Key: k\r\n" } else { "" };
        let (status, answer) = ask(&self.address, method, path, key, &body.to_string());
        assert!((200..300).contains(&status), "{method} {path}: {answer}");
        answer
    }

    fn get(&self, path: &str) -> Value {
        self.http("GET", path, &json!({}))
    }

    /// Both ways to read the same thing.
    fn agree(&self, path: &str, words: &[&str]) -> Value {
        let (http, command) = (still(self.get(path)), still(self.shop.json(words)));
        assert_eq!(http, command, "{path} and {words:?}");
        http
    }
}

#[test]
fn a_task_is_one_object_in_every_state() {
    let both = Both::open();
    let limits = json!({ "bound": 9, "rate": { "n": 5, "per_ms": 1_500 }, "per_key": { "fifo": true } });
    let limits = both.http("PUT", &format!("{QUEUE}/limits"), &limits);
    for task in [
        json!({ "id": "waits", "payload": { "to": "ann" }, "kind": "welcome", "key": "acme", "delay_ms": 60_000 }),
        json!({ "id": "text", "payload": "hi", "content_type": "text/plain", "deadline_after_ms": 60_000 }),
        json!({ "id": "bytes", "payload_base64": "AP8=", "priority": 0 }),
    ] {
        both.http("POST", &format!("{QUEUE}/tasks"), &task);
    }
    let tasks = both.shop.json(&["queue", "ls", "mail"]);
    assert_eq!(both.get(&format!("{QUEUE}/tasks"))["items"], tasks);
    let waits = both.agree(&format!("{QUEUE}/tasks/waits"), &["queue", "show", "mail", "waits"]);
    assert_eq!((&waits["payload"]["to"], &waits["state"]), (&"ann".into(), &"scheduled".into()));
    let why = both.agree(&format!("{QUEUE}/tasks/waits/why"), &["queue", "why", "mail", "waits"]);
    assert_eq!(why["reasons"][0]["reason"], "not_due");
    let stats = both.agree(QUEUE, &["queue", "stats", "mail"]);
    assert_eq!((&stats["queue"], &stats["limits"]), (&"mail".into(), &limits));

    let claimed = both.http("POST", &format!("{QUEUE}/claim"), &json!({ "n": 1 }))["tasks"][0].clone();
    assert_eq!(claimed["id"], "bytes");
    let failed = json!({ "ticket": claimed["ticket"], "give_up": true, "error": "no luck" });
    both.http("POST", &format!("{QUEUE}/retry"), &failed);
    let dead = both.shop.json(&["queue", "dead", "ls", "mail"]);
    assert_eq!((&both.get(&format!("{QUEUE}/dead"))["items"], &dead[0]["error"]), (&dead, &"no luck".into()));
}

#[test]
fn a_line_of_an_export_is_the_body_of_a_request() {
    let both = Both::open();
    let task = json!({
        "id": "a", "payload": { "to": "ann" }, "content_type": "application/json", "kind": "welcome", "key": "acme",
        "due_us": 4_000_000_000_000_000_u64, "deadline_us": 4_000_000_000_000_001_u64, "priority": 7, "max_attempts": 3,
    });
    both.http("POST", &format!("{QUEUE}/tasks"), &task);
    let line: Value = serde_json::from_str(&both.shop.ok(&["queue", "export", "mail"])).unwrap();
    assert_eq!(line, task);
    let said = both.shop.with_stdin(&["queue", "import", "other", "-"], line.to_string().as_bytes());
    assert_eq!(said.status, 0, "{}", said.err);
    let first = both.shop.json(&["queue", "show", "mail", "a"]);
    let mut copy = both.shop.json(&["queue", "show", "other", "a"]);
    for of_its_own in ["ticket", "revision"] {
        copy[of_its_own] = first[of_its_own].clone();
    }
    assert_eq!(copy, first);
}

#[test]
fn locks_schedules_sales_and_rooms_are_one_object_each() {
    let both = Both::open();
    both.http("POST", "/v1/locks/door/acquire", &json!({ "label": "nightly" }));
    let lock = both.agree("/v1/locks/door", &["lock", "show", "door"]);
    assert_eq!((&lock["holder"]["label"], &lock["holder"]["token"]), (&"nightly".into(), &Value::Null));

    both.http("PUT", &format!("{QUEUE}/schedules/s"), &json!({ "every_ms": 60_000, "payload": [1] }));
    let schedules = both.shop.json(&["queue", "cron", "ls", "mail"]);
    assert_eq!(both.get(&format!("{QUEUE}/schedules"))["items"], schedules);
    assert_eq!(schedules[0]["recurrence"], json!({ "every_ms": 60_000, "missed": "once" }));

    let sale = json!({ "id": "phones", "skus": [{ "sku": "phone", "units": 2 }], "hold_ms": 60_000 });
    both.http("POST", "/v1/sales", &sale);
    both.http("POST", "/v1/sales/phones/open", &json!({}));
    let cart = json!({ "buyer": "ann", "lines": [{ "sku": "phone" }] });
    let mut hold = both.http("POST", "/v1/sales/phones/reservations", &cart);
    let again = ["sale", "reserve", "phones", "--buyer", "ann", "--line", "phone", "--key", "k"];
    hold["outcome"] = "replayed".into();
    assert_eq!(both.shop.json(&again), hold);
    let shown = both.agree("/v1/sales/phones", &["sale", "show", "phones"]);
    assert_eq!((&shown["skus"][0]["held"], &shown["hold_ms"]), (&1.into(), &60_000.into()));
    both.agree("/v1/sales/phones/audit", &["sale", "audit", "phones"]);
    both.http("PUT", "/v1/sales/phones/room", &json!({ "rate": { "n": 1, "per_ms": 1_000 } }));
    let room = both.agree("/v1/sales/phones/room", &["sale", "room", "show", "phones"]);
    assert_eq!((&room["pass_ms"], &room["order"]), (&60_000.into(), &"first_come".into()));
}
