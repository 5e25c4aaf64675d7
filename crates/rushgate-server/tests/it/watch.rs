//! Metrics and event streams.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Ask, Stand, eventually, new_token};
use http_body_util::BodyExt;
use hyper::body::Bytes;
use hyper::body::Incoming;
use rushgate::queue::{Payload, QueueLimits};
use rushgate::worker::prometheus;
use rushgate::{
    BuyerId, CancellationToken, IdempotencyKey, Line, Reserved, Rushgate, SaleBuilder, Sku, Worker,
};
use rushgate_server::{NewToken, Role, Server, TokenFile};
use rushgate_test::MemoryStore;
use serde_json::{Value, json};

/// Reads an event stream, event by event.
struct Stream {
    body: Incoming,
    text: String,
}

/// One event.
#[derive(Debug)]
struct Message {
    id: u64,
    name: String,
    data: Value,
}

impl Stream {
    async fn open(stand: &Stand, ask: Ask) -> Self {
        let response = stand.send(ask).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), text: String::new() }
    }

    /// The next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Message> {
        loop {
            while let Some((block, rest)) = self.text.split_once("\n\n") {
                let message = read(block);
                self.text = rest.to_owned();
                if message.is_some() {
                    return message;
                }
            }
            let frame = tokio::time::timeout(Duration::from_secs(30), self.body.frame()).await;
            let frame = frame.expect("something comes")?.ok()?;
            self.text += std::str::from_utf8(&frame.into_data().unwrap_or(Bytes::new())).unwrap();
        }
    }
}

fn read(block: &str) -> Option<Message> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    Some(Message {
        id: field("id:")?.parse().unwrap(),
        name: field("event:")?.to_owned(),
        data: serde_json::from_str(field("data:")?).unwrap(),
    })
}

async fn sale(stand: &Stand) -> rushgate::Sale {
    stand.client.create_sale(SaleBuilder::new("s").sku("x", 5, 5)).await.unwrap();
    let sale = stand.client.sale("s").unwrap();
    sale.open().await.unwrap();
    sale
}

async fn reserve(sale: &rushgate::Sale, key: &str) -> rushgate::sale::Hold {
    let lines = [Line { sku: Sku::new("x").unwrap(), quantity: 1 }];
    let (buyer, key) = (BuyerId::new("ann").unwrap(), IdempotencyKey::new(key).unwrap());
    match sale.reserve(&buyer, &lines, &key).await.unwrap() {
        Reserved::Reserved(hold) => hold,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn events_of_a_sale_come_as_they_happen_and_from_where_one_left() {
    let stand = Stand::open().await;
    let sale = sale(&stand).await;
    let hold = reserve(&sale, "a").await;
    let path = "/v1/sales/s/events";
    let mut all = Stream::open(&stand, Ask::new("GET", &format!("{path}?after=0"))).await;
    let mut from_now = Stream::open(&stand, Ask::new("GET", path)).await;
    let opened = all.next().await.unwrap();
    assert_eq!((opened.id, opened.name.as_str()), (1, "opened"));
    let reserved = all.next().await.unwrap();
    assert_eq!((reserved.id, reserved.name.as_str()), (2, "reserved"));
    assert_eq!(reserved.data["units"], json!([{ "sku": "x", "first": 1, "last": 1 }]));
    assert_eq!(reserved.data["reservation"], hold.id.to_string());

    sale.confirm(hold.id).await.unwrap();
    for stream in [&mut all, &mut from_now] {
        let confirmed = stream.next().await.unwrap();
        assert_eq!((confirmed.id, confirmed.name.as_str()), (3, "confirmed"));
    }
    reserve(&sale, "b").await;
    let mut again = Stream::open(&stand, Ask::new("GET", path).header("last-event-id", "2")).await;
    let ids = [again.next().await.unwrap().id, again.next().await.unwrap().id];
    assert_eq!(ids, [3, 4], "nothing is missed and nothing comes twice");
    stand.end().await;
}

#[tokio::test]
async fn streams_end_when_the_server_closes() {
    let stand = Stand::open().await;
    sale(&stand).await;
    let mut events = Stream::open(&stand, Ask::new("GET", "/v1/sales/s/events")).await;
    let mut all = Stream::open(&stand, Ask::new("GET", "/v1/events")).await;
    all.next().await.unwrap();
    stand.shut_down();
    assert!(events.next().await.is_none());
    while all.next().await.is_some() {}
    assert!(stand.end().await.is_orderly);
}

#[tokio::test]
async fn the_stream_of_a_revoked_token_ends() {
    let (stand, file) = Stand::with_tokens().await;
    let (entry, token) = file.create(new_token(Role::Operator, &[])).unwrap();
    eventually(async || stand.ask(Ask::new("GET", "/v1/queues").bearer(&token)).await.status == 200).await;
    let mut stream = Stream::open(&stand, Ask::new("GET", "/v1/events").bearer(&token)).await;
    assert!(stream.next().await.is_some());
    assert!(file.revoke(&entry.id).unwrap());
    while stream.next().await.is_some() {}
    stand.end().await;
}

#[tokio::test]
async fn a_sale_that_does_not_exist_has_no_stream() {
    let stand = Stand::open().await;
    assert_eq!(stand.get("/v1/sales/none/events").await.code(), "not_found");
    stand.end().await;
}

#[tokio::test]
async fn a_snapshot_has_everything_that_the_caller_may_see() {
    let (stand, file) = Stand::with_tokens().await;
    let (_, token) = file.create(new_token(Role::Operator, &["queue:mine", "sale:*", "lock:a"])).unwrap();
    sale(&stand).await;
    for queue in ["mine", "theirs"] {
        stand.client.queue_of::<u32>(queue).unwrap().enqueue("t", 1).send().await.unwrap();
    }
    let lock = stand.client.lock("a").unwrap();
    let _guard = lock.acquire().await.unwrap();
    eventually(async || stand.ask(Ask::new("GET", "/v1/sales").bearer(&token)).await.status == 200).await;
    let mut all = Stream::open(&stand, Ask::new("GET", "/v1/events").bearer(&token)).await;
    let first = all.next().await.unwrap();
    assert_eq!(first.name, "snapshot");
    assert_eq!(first.data["sales"][0]["skus"][0]["free"], 5);
    assert_eq!(first.data["queues"].as_array().unwrap().len(), 1);
    assert_eq!(first.data["queues"][0]["ready"], 1);
    assert_eq!(first.data["locks"][0]["name"], "a");
    stand.client.queue_of::<u32>("mine").unwrap().enqueue("u", 2).send().await.unwrap();
    while all.next().await.unwrap().data["queues"][0]["ready"] != 2 {}
    stand.end().await;
}

#[tokio::test]
async fn a_snapshot_says_which_of_its_lists_lack_entries() {
    let (stand, file) = Stand::with_tokens().await;
    let (_, scoped) = file.create(new_token(Role::Operator, &["queue:q-2*"])).unwrap();
    eventually(async || stand.ask(Ask::new("GET", "/v1/sales").bearer(&scoped)).await.status == 200).await;
    let put = async |n: u32| {
        stand.client.queue_of::<u32>(format!("q-{n:03}")).unwrap().enqueue("t", 1).send().await.unwrap();
    };
    for n in 0..200 {
        put(n).await;
    }
    let mut all = Stream::open(&stand, Ask::new("GET", "/v1/events").bearer(&scoped)).await;
    let whole = all.next().await.unwrap().data;
    assert_eq!((&whole["queues"], &whole["truncated"]), (&json!([]), &json!([])));
    put(200).await;
    // The token does not see the first 200 queues, so their number tells it nothing.
    while all.next().await.unwrap().data["truncated"] != json!(["queues"]) {}
    stand.end().await;
}

#[tokio::test]
async fn a_damaged_sale_does_not_hide_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let file = TokenFile::at(dir.path().join("tokens.json"));
    let [operator, buyer] =
        [Role::Operator, Role::Buyer].map(|role| file.create(new_token(role, &[])).unwrap().1);
    let stand =
        Stand::on(&format!("sqlite:{}", path.display()), |server, _| Server { tokens: Some(file), ..server })
            .await;
    for id in ["adrift", "sound"] {
        stand.client.create_sale(SaleBuilder::new(id).sku("x", 5, 1)).await.unwrap();
        stand.client.sale(id).unwrap().open().await.unwrap();
    }
    let records = rusqlite::Connection::open(path).unwrap();
    records.busy_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(records.execute("UPDATE sale SET status = 99 WHERE id = 'adrift'", ()).unwrap(), 1);

    // A write to the damaged sale fails, and stops no other write.
    let open = Ask::new("POST", "/v1/sales/adrift/open").json(&json!({})).bearer(&operator);
    assert_eq!(stand.ask(open).await.status, 500);
    let enqueue = Ask::new("POST", "/v1/queues/mail/tasks").json(&json!({ "id": "a" })).bearer(&operator);
    stand.ask(enqueue).await.ok(201);

    assert_eq!(stand.get("/readyz").await.ok(200)["status"], "ready");
    let listed = async |token: &str, path: &str| {
        stand.ask(Ask::new("GET", path).bearer(token)).await.ok(200)["items"].clone()
    };
    let all = listed(&operator, "/v1/sales").await;
    assert_eq!(
        (&all[0]["id"], &all[1]["id"], &all[1]["status"]),
        (&json!("adrift"), &json!("sound"), &json!("open"))
    );
    assert!(all[0]["damage"].as_str().unwrap().contains("cannot be read"), "{all}");
    let shown = listed(&buyer, "/v1/sales").await;
    assert_eq!(shown[0]["damage"], "its records are damaged or missing");
    assert_eq!(listed(&operator, "/v1/sales?after=adrift").await.as_array().unwrap().len(), 1);

    let mut all = Stream::open(&stand, Ask::new("GET", "/v1/events").bearer(&operator)).await;
    let snapshot = all.next().await.unwrap().data;
    assert_eq!(
        (&snapshot["sales"][0]["id"], &snapshot["damaged"][0]["id"]),
        (&json!("sound"), &json!("adrift"))
    );
    let metrics = stand.ask(Ask::new("GET", "/metrics").bearer(&operator)).await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    for line in ["rushgate_sale_damaged{sale=\"adrift\"} 1", "rushgate_sale_damaged{sale=\"sound\"} 0"] {
        assert!(text.lines().any(|of| of == line), "{line}: {text}");
    }
    stand.end().await;
}

#[tokio::test]
async fn metrics_count_requests_and_tell_how_the_store_stands() {
    let stand = Stand::open().await;
    let sale = sale(&stand).await;
    let hold = reserve(&sale, "a").await;
    reserve(&sale, "b").await;
    sale.confirm(hold.id).await.unwrap();
    stand.post("/v1/queues/mail/tasks", json!({ "id": "a" })).await.ok(201);
    stand.post("/v1/queues/mail/tasks", json!({})).await.code();
    let said = stand.get("/metrics").await;
    assert!(said.header("content-type").starts_with("application/openmetrics-text"), "{said:?}");
    let text = String::from_utf8(said.body.to_vec()).unwrap();
    for line in [
        "rushgate_http_requests_total{method=\"POST\",route=\"/v1/queues/{queue}/tasks\",status=\"201\"} 1",
        "rushgate_http_requests_total{method=\"POST\",route=\"/v1/queues/{queue}/tasks\",status=\"422\"} 1",
        "rushgate_http_request_seconds_count{method=\"POST\",route=\"/v1/queues/{queue}/tasks\"} 2",
        "rushgate_queue_tasks{queue=\"mail\",state=\"ready\"} 1",
        "rushgate_sale_units{sale=\"s\",sku=\"x\",place=\"free\"} 3",
        "rushgate_sale_units{sale=\"s\",sku=\"x\",place=\"held\"} 1",
        "rushgate_sale_units{sale=\"s\",sku=\"x\",place=\"confirmed\"} 1",
        "rushgate_locks_held 0",
        "# EOF",
    ] {
        assert!(text.lines().any(|has| has == line), "{line}\n{text}");
    }
    stand.end().await;
}

/// Attempts by answer, from `/metrics`.
fn attempts_of(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("rushgate_sale_attempts_total{"));
    lines
        .filter_map(|line| line.strip_prefix("sale=\"s\",answer=\"")?.split_once("\"} "))
        .map(|(answer, n)| (answer.to_owned(), n.parse().unwrap()))
        .collect()
}

/// Each answer to an attempt is counted once, in the metrics and in the snapshot.
#[tokio::test]
async fn attempts_to_reserve_are_counted_by_their_answers() {
    let day = Duration::from_secs(86_400);
    let mut worker = String::new();
    let mut buyer = String::new();
    let stand = Stand::with(|server, dir| {
        let tokens = TokenFile::at(dir.path().join("tokens.json"));
        worker = tokens.create(new_token(Role::Operator, &["sale:s*"])).unwrap().1;
        buyer =
            tokens.create(NewToken { buyer: "eve".parse().ok(), ..new_token(Role::Buyer, &[]) }).unwrap().1;
        Server { tokens: Some(tokens), limit_buyer: Some(rushgate::queue::Rate::new(2, day)), ..server }
    })
    .await;
    sale(&stand).await;
    let ask = async |sale: &str, token: &str, body: Value, key: &str| {
        let ask = Ask::new("POST", &format!("/v1/sales/{sale}/reservations")).bearer(token).json(&body);
        stand.ask(ask.key(key)).await
    };
    let five = json!({ "buyer": "ann", "lines": [{ "sku": "x", "quantity": 5 }] });
    ask("s", &worker, five.clone(), "a").await.ok(202);
    ask("s", &worker, five, "a").await.ok(200);
    for n in 0..3 {
        let one = json!({ "buyer": format!("buyer-{n}"), "lines": [{ "sku": "x" }] });
        assert_eq!(ask("s", &worker, one, "b").await.code(), "all_held");
    }
    let one = json!({ "lines": [{ "sku": "x" }] });
    for code in ["all_held", "all_held", "too_many"] {
        assert_eq!(ask("s", &buyer, one.clone(), code).await.code(), code);
    }
    assert_eq!(ask("s", &worker, json!({ "lines": [] }), "c").await.code(), "invalid");
    assert_eq!(
        ask("stranger", &worker, json!({ "buyer": "ann", "lines": [{ "sku": "x" }] }), "d").await.status,
        404
    );

    let wanted = [("all_held", 5), ("invalid", 1), ("replayed", 1), ("reserved", 1), ("too_many", 1)];
    let wanted: BTreeMap<_, _> = wanted.map(|(answer, n)| (answer.to_owned(), n)).into();
    let said = stand.ask(Ask::new("GET", "/metrics").bearer(&worker)).await;
    let text = String::from_utf8(said.body.to_vec()).unwrap();
    assert_eq!(attempts_of(&text), wanted, "{text}");
    assert!(!text.contains("stranger"), "{text}");

    let mut all = Stream::open(&stand, Ask::new("GET", "/v1/events").bearer(&worker)).await;
    let attempts = all.next().await.unwrap().data["attempts"].clone();
    assert_eq!(attempts.as_array().unwrap().len(), 1, "{attempts}");
    assert_eq!(attempts[0]["sale"], "s");
    assert_eq!(attempts[0]["answers"], json!(wanted));
    let at_store = attempts[0]["at_store"].as_u64().unwrap();
    assert!((3..=7).contains(&at_store), "the admission cache answered the others: {at_store}");
    let latest = |attempts: &Value| attempts["p99_us"].as_u64();
    assert!(
        latest(&attempts[0]).is_some_and(|us| us > 0),
        "attempts count before the first watcher comes: {attempts}"
    );
    let one = json!({ "buyer": "late", "lines": [{ "sku": "x" }] });
    ask("s", &worker, one, "e").await.code();
    let next = loop {
        let next = all.next().await.unwrap().data["attempts"][0].clone();
        if next["answers"]["all_held"] == 6 {
            break next;
        }
    };
    assert!(latest(&next) >= next["p50_us"].as_u64(), "{next}");
    stand.end().await;
}

/// Metric names of ours in a text, without the suffixes that Prometheus adds to a histogram.
fn metrics_of(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("rushgate_"));
    words.map(|word| word.trim_end_matches("_bucket")).collect()
}

/// Every query of the dashboard and the alerts.
fn asked_of_prometheus() -> Vec<String> {
    let read = |path: &str| {
        let path = format!("{}/../../examples/{path}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let dashboard: Value = serde_json::from_str(&read("grafana/rushgate.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut asked: Vec<_> = targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    let rules = read("prometheus/rushgate.rules.yml");
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    // Prometheus itself provides `up`.
    asked.extend(alerts.filter(|expr| !expr.starts_with("up{")).map(str::to_owned));
    asked
}

/// Metrics of a worker that has done one task.
async fn shown_by_a_worker() -> String {
    let client = Rushgate::with_store(Arc::new(MemoryStore::new()));
    let queue = client.queue("q").unwrap();
    queue.enqueue("a", Payload::empty()).send().await.unwrap();
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    let worker = Worker::new(&queue).register("*", move |_: Payload| {
        stop.cancel();
        async {}
    });
    let metrics = worker.metrics();
    worker.run(shutdown).await.unwrap();
    prometheus([&metrics.snapshot()])
}

/// Metrics of a server with a ledger, a sale, a reservation and a task.
async fn shown_by_a_server() -> String {
    let ledger = rushgate::connect_ledger("sqlite::memory:").unwrap();
    let stand = Stand::with(|server, _| Server { ledger: Some(ledger), ..server }).await;
    let body = json!({ "id": "s", "skus": [{ "sku": "x", "units": 5, "per_buyer": 5 }] });
    stand.post("/v1/sales", body).await.ok(201);
    stand.post("/v1/sales/s/open", json!({})).await.ok(200);
    stand.post("/v1/queues/q/tasks", json!({ "id": "a" })).await.ok(201);
    let body = json!({ "buyer": "ann", "lines": [{ "sku": "x" }] });
    stand.ask(Ask::new("POST", "/v1/sales/s/reservations").json(&body).key("k")).await.ok(202);
    let said = stand.get("/metrics").await;
    stand.end().await;
    String::from_utf8(said.body.to_vec()).unwrap()
}

#[tokio::test]
async fn the_dashboard_and_the_alerts_ask_for_what_there_is() {
    let said = shown_by_a_server().await + &shown_by_a_worker().await;
    let (there, asked) = (metrics_of(&said), asked_of_prometheus());
    assert!(asked.len() >= 15, "{asked:?}");
    for expr in &asked {
        let metrics = metrics_of(expr);
        assert!(!metrics.is_empty() && metrics.is_subset(&there), "`{expr}` asks for more than {there:?}");
    }
    for label in [
        "route=\"/v1/sales/{sale}/reservations\"",
        "method=\"POST\"",
        "state=\"dead\"",
        "status=\"",
        "answer=\"",
        "outcome=\"lost\"",
    ] {
        let is_asked = asked.iter().any(|expr| expr.contains(label.trim_end_matches("=\"")));
        assert!(is_asked && said.contains(label), "{label}");
    }
}

/// Table of `docs/reference/metrics.md` for these metrics. Name, type, unit and labels come from the metrics. The meaning
/// stays as it is on the page; a new metric gets its help text.
fn metrics_table(text: &str, page: &str) -> String {
    let declared = |word: &str| -> Vec<(String, String)> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(&format!("# {word} "))?.split_once(' '));
        lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let help: BTreeMap<_, _> = declared("HELP").into_iter().collect();
    let mut table = "| Metric | Type | Unit | Labels | Meaning |\n|---|---|---|---|---|\n".to_owned();
    for (declared, kind) in declared("TYPE") {
        let family = declared.trim_end_matches("_total");
        let name = if kind == "counter" { format!("{family}_total") } else { family.to_owned() };
        let unit = if family.ends_with("_seconds") { "seconds" } else { "" };
        let labels =
            labels_of(text, family).iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(" ");
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let meaning = row.and_then(|row| row.trim_end_matches(" |").rsplit("| ").next());
        let meaning = meaning.unwrap_or_else(|| &help[&declared]);
        table += &format!("| `{name}` | {kind} | {unit} | {labels} | {meaning} |\n");
    }
    table
}

/// Labels of a metric, in order, without the bounds of a histogram.
fn labels_of<'a>(text: &'a str, family: &str) -> Vec<&'a str> {
    let suffixes = ["", "_total", "_bucket", "_sum", "_count"];
    let is_of = |name: &str| name.strip_prefix(family).is_some_and(|suffix| suffixes.contains(&suffix));
    let mut labels = Vec::new();
    for (name, rest) in text.lines().filter_map(|line| line.split_once('{')) {
        // A label is the word before each `="`, and no value here contains one.
        let parts: Vec<_> = rest.split("=\"").collect();
        let words = parts[..parts.len() - 1].iter().filter_map(|part| part.rsplit(['"', ',']).next());
        for word in words.filter(|word| is_of(name) && *word != "le") {
            if !labels.contains(&word) {
                labels.push(word);
            }
        }
    }
    labels
}

#[tokio::test]
async fn the_reference_of_metrics_has_what_is_scraped() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
    let page = std::fs::read_to_string(path).unwrap();
    let mut written = page.clone();
    for (name, text) in [("server", shown_by_a_server().await), ("worker", shown_by_a_worker().await)] {
        let (begin, end) = (format!("<!-- {name}: made by a test -->\n"), format!("<!-- end of {name} -->"));
        let (before, rest) = written.split_once(&begin).unwrap_or_else(|| panic!("no table of the {name}"));
        let (_, after) =
            rest.split_once(&end).unwrap_or_else(|| panic!("the table of the {name} has no end"));
        written = format!("{before}{begin}{}{end}{after}", metrics_table(&text, &page));
    }
    if std::env::var_os("RUSHGATE_WRITE_TABLES").is_some() {
        std::fs::write(path, written).unwrap();
    } else {
        assert!(
            page == written,
            "docs/reference/metrics.md differs from the metrics; RUSHGATE_WRITE_TABLES=1 rewrites it"
        );
    }
}

#[tokio::test]
async fn events_of_a_queue_come_as_they_happen_and_say_what_was_missed() {
    let stand = Stand::open().await;
    let queue = stand.client.queue("mail").unwrap();
    queue.limit(QueueLimits { events: Some(2), ..QueueLimits::default() }).await.unwrap();
    queue.enqueue("a", Payload::empty()).send().await.unwrap();
    let path = "/v1/queues/mail/events";
    let mut events = Stream::open(&stand, Ask::new("GET", &format!("{path}?after=0"))).await;
    let added = events.next().await.unwrap();
    assert_eq!((added.id, added.name.as_str(), &added.data["id"]), (1, "added", &json!("a")));
    queue.cancel("a").await.unwrap();
    assert_eq!(events.next().await.unwrap().name, "cancelled");
    queue.enqueue("b", Payload::empty()).send().await.unwrap();
    assert_eq!(events.next().await.unwrap().data["seq"], 3);
    let mut again = Stream::open(&stand, Ask::new("GET", path).header("last-event-id", "0")).await;
    let missed = again.next().await.unwrap();
    assert_eq!((missed.id, missed.name.as_str(), missed.data), (1, "missed", json!({ "next": 2 })));
    assert_eq!(again.next().await.unwrap().id, 2);
    stand.end().await;
}

#[tokio::test]
async fn the_history_of_a_sale_and_a_queue_is_kept_without_watchers() {
    let stand = Stand::open().await;
    let sale = sale(&stand).await;
    let queue = stand.client.queue("mail").unwrap();
    queue.limit(QueueLimits { events: Some(100), ..QueueLimits::default() }).await.unwrap();
    queue.enqueue("a", Payload::empty()).send().await.unwrap();
    let history = async |path: &str| stand.get(path).await.ok(200);
    let last = |view: &Value, name: &str| {
        view["gauges"][name].as_array().and_then(|column| column.last().cloned()).unwrap_or_default()
    };
    let (of_sale, of_queue) = ("/v1/sales/s/history", "/v1/queues/mail/history");
    eventually(async || last(&history(of_queue).await, "ready") == 1).await;
    let hold = reserve(&sale, "a").await;
    eventually(async || last(&history(of_sale).await, "held") == 1).await;
    sale.confirm(hold.id).await.unwrap();
    queue.pop(1).await.unwrap();
    queue.enqueue("b", Payload::empty()).send().await.unwrap();
    eventually(async || last(&history(of_sale).await, "confirmed") == 1).await;
    let view = history(of_sale).await;
    assert!(view["opened_us"].as_u64().is_some() && view.get("sold_out_us").is_none(), "{view}");
    let times: Vec<u64> = serde_json::from_value(view["at_ms"].clone()).unwrap();
    assert!(times.is_sorted() && times.len() > 1, "{times:?}");
    for column in view["gauges"].as_object().unwrap().values() {
        assert_eq!(column.as_array().unwrap().len(), times.len(), "{view}");
    }
    // The first event was before the position was known; the second is counted.
    eventually(async || {
        history(of_queue).await["counts"]["added"].as_array().is_some_and(|n| n.iter().any(|n| *n == 1))
    })
    .await;
    assert_eq!(stand.get("/v1/sales/none/history").await.code(), "not_found");
    let none = history("/v1/queues/none/history").await;
    assert_eq!(
        (&none["at_ms"], &none["gauges"]["ready"], &none["counts"]),
        (&json!([]), &json!([]), &json!({}))
    );
    for query in ["window_s=0", "window_s=14401", "points=1", "points=99999", "points=x"] {
        assert_eq!(stand.get(&format!("{of_sale}?{query}")).await.code(), "invalid", "{query}");
    }
    stand.end().await;
}

#[tokio::test]
async fn a_sale_that_is_sold_out_says_since_when() {
    let stand = Stand::open().await;
    let sale = sale(&stand).await;
    for n in 0..5 {
        let hold = reserve(&sale, &n.to_string()).await;
        sale.confirm(hold.id).await.unwrap();
    }
    let events = sale.events(rushgate::store::Page::after(0, 100)).await.unwrap();
    let view = stand.get("/v1/sales/s/history").await.ok(200);
    assert_eq!(view["sold_out_us"], events.last().unwrap().at.as_micros());
    assert_eq!(view["opened_us"], events[0].at.as_micros());
    stand.end().await;
}

#[tokio::test]
async fn the_audit_log_is_for_operators_and_only_about_what_their_scopes_cover() {
    let mut operators = Vec::new();
    let stand = Stand::with(|server, dir| {
        let tokens = TokenFile::at(dir.path().join("tokens.json"));
        for (role, scopes) in
            [(Role::Operator, &[][..]), (Role::Operator, &["queue:mail"][..]), (Role::Worker, &[][..])]
        {
            operators.push(tokens.create(new_token(role, scopes)).unwrap().1);
        }
        Server { tokens: Some(tokens), audit_log: Some(dir.path().join("audit.log")), ..server }
    })
    .await;
    let ask = async |method: &str, path: &str, token: &str| {
        stand.ask(Ask::new(method, path).bearer(token).json(&json!({}))).await
    };
    for queue in ["mail", "other", "mail%2Dout"] {
        ask("POST", &format!("/v1/queues/{queue}/pause"), &operators[0]).await.ok(200);
    }
    let seen = async |token: &str| {
        let view = stand.ask(Ask::new("GET", "/v1/audit-log").bearer(token)).await.ok(200);
        let items = view["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = ["/v1/queues/mail%2Dout/pause", "/v1/queues/other/pause", "/v1/queues/mail/pause"];
    assert_eq!(seen(&operators[0]).await, all);
    assert_eq!(seen(&operators[1]).await, ["/v1/queues/mail/pause"]);
    assert_eq!(stand.ask(Ask::new("GET", "/v1/audit-log").bearer(&operators[2])).await.code(), "forbidden");
    let page = stand.ask(Ask::new("GET", "/v1/audit-log?limit=2").bearer(&operators[0])).await.ok(200);
    let rest = format!("/v1/audit-log?limit=2&before={}", page["next"]);
    let rest = stand.ask(Ask::new("GET", &rest).bearer(&operators[0])).await.ok(200);
    assert_eq!((rest["items"][0]["path"].as_str(), rest.get("next")), (Some(all[2]), None));
    stand.end().await;
}

#[tokio::test]
async fn a_server_without_an_audit_log_says_how_to_keep_one() {
    let stand = Stand::open().await;
    let said = stand.get("/v1/audit-log").await;
    assert_eq!(said.code(), "not_found");
    assert!(said.json()["detail"].as_str().unwrap().contains("--audit-log"));
    stand.end().await;
}
