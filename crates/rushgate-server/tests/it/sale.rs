//! Sales over HTTP.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{Ask, Said, Stand, eventually, new_token};
use rushgate_server::{Role, Server, TokenFile};
use rushgate_test::servers::PostgresServer;
use serde_json::{Value, json};

async fn opened(stand: &Stand, body: Value) {
    let path = format!("/v1/sales/{}", body["id"].as_str().unwrap());
    assert_eq!(stand.post("/v1/sales", body).await.ok(201)["status"], "created");
    assert_eq!(stand.post(&format!("{path}/open"), json!({})).await.ok(200)["status"], "open");
}

fn phones(units: u32) -> Value {
    json!({ "id": "phones", "skus": [{ "sku": "phone", "units": units }] })
}

async fn reserve(stand: &Stand, buyer: &str, key: &str) -> Said {
    let body = json!({ "buyer": buyer, "lines": [{ "sku": "phone" }] });
    stand.ask(Ask::new("POST", "/v1/sales/phones/reservations").json(&body).key(key)).await
}

#[tokio::test]
async fn one_phone_is_reserved_confirmed_and_sold_out() {
    let stand = Stand::open().await;
    opened(&stand, phones(1)).await;
    let reserved = reserve(&stand, "ann", "click-1").await;
    let hold = reserved.ok(202);
    assert_eq!(hold["units"], json!([{ "sku": "phone", "unit": 1 }]));
    let path = reserved.header("location").to_owned();
    assert_eq!(path, format!("/v1/sales/phones/reservations/{}", hold["id"].as_str().unwrap()));

    let held = reserve(&stand, "bob", "click-1").await;
    assert_eq!(held.code(), "all_held");
    let confirmed = stand.post(&format!("{path}/confirm"), json!({})).await.ok(200);
    assert_eq!(confirmed["state"], "confirmed");
    assert_eq!(stand.get(&path).await.ok(200)["state"], "confirmed");
    let again = reserve(&stand, "ann", "click-1").await;
    assert_eq!(
        (again.ok(200)["state"].as_str(), again.header("idempotency-replayed")),
        (Some("confirmed"), "true")
    );

    // The admission cache answers from memory, and probes the store every 50 ms.
    eventually(async || reserve(&stand, "bob", "click-2").await.code() == "sold_out").await;
    let late = reserve(&stand, "bob", "click-2").await;
    assert_eq!((late.status, late.json()["sku"].as_str()), (409, Some("phone")));
    let cancelled = stand.post(&format!("{path}/cancel"), json!({})).await;
    assert_eq!(
        (cancelled.code().as_str(), cancelled.json()["state"].as_str()),
        ("decided", Some("confirmed"))
    );
    assert_eq!(stand.get("/v1/sales/phones/audit").await.ok(200)["ok"], true);
    stand.end().await;
}

#[tokio::test]
async fn metadata_is_kept_and_shown_as_it_was_given() {
    let stand = Stand::open().await;
    let metadata =
        json!({ "title": "Drop", "skus": { "phone": { "price": { "amount": 49_900, "currency": "EUR" } } } });
    let sale = |id: &str, metadata: &Value| json!({ "id": id, "skus": [{ "sku": "phone", "units": 1 }], "metadata": metadata });
    stand.post("/v1/sales", sale("drop", &metadata)).await.ok(201);
    stand.post("/v1/sales", sale("plain", &Value::Null)).await.ok(201);
    let first = stand.get("/v1/sales/drop/metadata").await;
    let again = Ask::new("GET", "/v1/sales/drop/metadata").header("if-none-match", first.header("etag"));
    assert_eq!(stand.ask(again).await.status, 304);
    assert_eq!(first.ok(200), metadata);
    assert_eq!(stand.get("/v1/sales/plain/metadata").await.ok(200), json!({}));
    assert_eq!(stand.get("/v1/sales/none/metadata").await.code(), "not_found");
    assert_eq!(stand.get("/v1/sales/drop").await.ok(200).get("metadata"), None);
    assert_eq!(stand.post("/v1/sales", sale("list", &json!([1]))).await.code(), "invalid");
    stand.end().await;
}

#[tokio::test]
async fn every_refusal_has_its_code() {
    let stand = Stand::open().await;
    assert_eq!(reserve(&stand, "ann", "k").await.code(), "not_found");
    assert_eq!(stand.post("/v1/sales", phones(3)).await.ok(201)["status"], "created");
    assert_eq!(stand.post("/v1/sales", phones(3)).await.code(), "exists");
    assert_eq!(reserve(&stand, "ann", "k").await.code(), "sale_not_open");
    // Opens far in the future: clients poll rarely, but often enough to notice an earlier opening.
    let later = json!({ "id": "later", "skus": [{ "sku": "phone", "units": 1 }], "opens_at_us": 4_000_000_000_000_000_u64 });
    stand.post("/v1/sales", later).await.ok(201);
    stand.post("/v1/sales/later/open", json!({})).await.ok(200);
    let ask = json!({ "buyer": "ann", "lines": [{ "sku": "phone" }] });
    let early = stand.ask(Ask::new("POST", "/v1/sales/later/reservations").json(&ask).key("k")).await;
    let after = early.json()["retry_after_ms"].as_u64().unwrap();
    assert!(early.code() == "sale_not_open" && (60_000..=61_000).contains(&after), "{after}");
    stand.post("/v1/sales/phones/open", json!({})).await.ok(200);
    reserve(&stand, "ann", "k").await.ok(202);
    let limit = reserve(&stand, "ann", "k2").await;
    assert_eq!((limit.code().as_str(), limit.json()["limit"].as_u64()), ("limit_reached", Some(1)));
    let other = json!({ "buyer": "ann", "lines": [{ "sku": "phone", "quantity": 2 }] });
    let reused = stand.ask(Ask::new("POST", "/v1/sales/phones/reservations").json(&other).key("k")).await;
    assert_eq!(reused.code(), "idempotency_key_reused");
    let keyless = stand.post("/v1/sales/phones/reservations", other).await;
    assert_eq!(keyless.code(), "idempotency_key_missing");
    assert_eq!(stand.get("/v1/sales/phones/reservations/none").await.code(), "not_found");
    assert_eq!(stand.post("/v1/sales/phones/halt", json!({})).await.code(), "invalid");
    assert_eq!(stand.post("/v1/sales/phones/end", json!({})).await.ok(200)["status"], "ended");
    assert_eq!(stand.post("/v1/sales/phones/open", json!({})).await.code(), "sale_ended");
    assert_eq!(reserve(&stand, "bob", "k").await.code(), "sale_ended");
    stand.end().await;
}

#[tokio::test]
async fn a_stock_that_is_added_under_one_key_is_added_once() {
    let stand = Stand::open().await;
    opened(&stand, phones(1)).await;
    let ask =
        |key: &str, body: Value| stand.ask(Ask::new("POST", "/v1/sales/phones/stock").json(&body).key(key));
    let add = json!({ "sku": "phone", "add": 5 });
    assert_eq!(ask("a", add.clone()).await.ok(200)["total"], 6);
    assert_eq!(ask("a", add.clone()).await.ok(200)["total"], 6);
    assert_eq!(ask("b", json!({ "sku": "phone", "withdraw": 2 })).await.ok(200)["free"], 4);
    let too_many = ask("c", json!({ "sku": "phone", "withdraw": 5 })).await;
    assert_eq!((too_many.code().as_str(), too_many.json()["free"].as_u64()), ("not_enough", Some(4)));
    let too_large = ask("e", json!({ "sku": "phone", "add": 9_999_998 })).await;
    assert_eq!(
        (too_large.status, too_large.code().as_str(), too_large.json()["most"].as_u64()),
        (409, "change_too_large", Some(9_999_994))
    );
    assert_eq!(ask("d", json!({ "sku": "phone" })).await.code(), "invalid");
    assert_eq!(stand.post("/v1/sales/phones/stock", add).await.code(), "idempotency_key_missing");
    assert_eq!(stand.get("/v1/sales/phones").await.ok(200)["skus"][0]["total"], 6);
    stand.end().await;
}

#[tokio::test]
async fn orders_go_to_the_ledger_while_the_server_runs() {
    let ledger = rushgate::connect_ledger("sqlite::memory:").unwrap();
    let stand = Stand::with(|server, _| Server { ledger: Some(ledger.clone()), ..server }).await;
    opened(&stand, phones(2)).await;
    let hold = reserve(&stand, "ann", "k").await.ok(202);
    let path = format!("/v1/sales/phones/reservations/{}", hold["id"].as_str().unwrap());
    let confirmed = stand.ask(Ask::new("POST", &format!("{path}/confirm")).wait(30)).await;
    assert_eq!(confirmed.ok(200)["state"], "confirmed");
    assert_eq!(stand.get("/v1/sales/phones/audit").await.ok(200)["ok"], true);
    assert_eq!(stand.get("/readyz").await.ok(200)["ledger"], "up");

    assert_eq!(stand.post("/v1/sales/phones/halt", json!({})).await.ok(200)["halted"], true);
    assert_eq!(reserve(&stand, "bob", "k").await.code(), "sale_halted");
    let rebuilt = stand.post("/v1/sales/phones/rebuild", json!({ "receipts_first_ms": 0 })).await.ok(200);
    assert_eq!(rebuilt["generation"], 3, "one to write the store's data, one to resume: {rebuilt}");
    reserve(&stand, "bob", "k").await.ok(202);
    assert!(stand.end().await.is_orderly);
}

#[tokio::test]
async fn a_ledger_that_is_away_is_down_and_the_server_ready() {
    let mut postgres = PostgresServer::start();
    let ledger = rushgate::connect_ledger(&postgres.url()).unwrap();
    let stand = Stand::with(|server, _| Server { ledger: Some(ledger.clone()), ..server }).await;
    let ready = async || stand.get("/readyz").await.ok(200)["ledger"].clone();
    assert_eq!(ready().await, "up");
    postgres.stop();
    assert_eq!(ready().await, "down");
    postgres.start_again();
    eventually(async || ready().await == "up").await;
    postgres.pause();
    assert_eq!(ready().await, "down", "the ledger does not answer");
    postgres.resume();
    stand.end().await;
    let without = Stand::open().await;
    assert_eq!(without.get("/readyz").await.ok(200)["ledger"], "none");
    without.end().await;
}

#[tokio::test]
async fn holds_end_by_themselves_while_the_server_runs() {
    let stand = Stand::open().await;
    let mut sale = phones(1);
    sale["hold_ms"] = json!(50);
    opened(&stand, sale).await;
    let hold = reserve(&stand, "ann", "k").await.ok(202);
    let path = format!("/v1/sales/phones/reservations/{}", hold["id"].as_str().unwrap());
    assert_eq!(stand.ask(Ask::new("GET", &path).wait(30)).await.ok(200)["state"], "expired");
    stand.end().await;
}

#[tokio::test]
async fn a_receipt_of_a_known_reservation_gives_it_as_it_stands() {
    let stand = Stand::open().await;
    opened(&stand, phones(1)).await;
    let hold = reserve(&stand, "ann", "k").await.ok(202);
    let restored =
        stand.post("/v1/sales/phones/restore", json!({ "receipt": hold["receipt"] })).await.ok(200);
    assert_eq!(restored["id"], hold["id"]);
    let forged = stand.post("/v1/sales/phones/restore", json!({ "receipt": "rg1.e30.e30" })).await;
    assert_eq!(forged.code(), "receipt_refused");
    stand.end().await;
}

#[tokio::test]
async fn two_hundred_buyers_at_once_get_ten_phones_between_them() {
    let stand = Stand::open().await;
    opened(&stand, phones(10)).await;
    let names: Vec<_> = (0..200).map(|n| format!("buyer-{n}")).collect();
    let told = futures_util::future::join_all(names.iter().map(|buyer| reserve(&stand, buyer, "k"))).await;
    let sold = told.iter().filter(|said| said.status == 202).count();
    assert_eq!(sold, 10);
    for said in told.iter().filter(|said| said.status != 202) {
        assert_eq!(said.code(), "all_held");
    }
    assert_eq!(stand.get("/v1/sales/phones/audit").await.ok(200)["ok"], true);
    assert_eq!(stand.get("/v1/sales").await.ok(200)["items"][0]["skus"][0]["held"], 10);
    stand.end().await;
}

#[tokio::test]
async fn a_worker_token_can_forge_neither_an_order_nor_the_stock() {
    let (ledger, mut file) = (rushgate::connect_ledger("sqlite::memory:").unwrap(), None);
    let stand = Stand::with(|server, dir| {
        let tokens = TokenFile::at(dir.path().join("tokens.json"));
        file = Some(tokens.clone());
        Server { tokens: Some(tokens), ledger: Some(ledger.clone()), ..server }
    })
    .await;
    let file = file.unwrap();
    let (_, operator) = file.create(new_token(Role::Operator, &[])).unwrap();
    let (_, worker) = file.create(new_token(Role::Worker, &["queue:*", "lock:*"])).unwrap();
    let (_, mine) = file.create(new_token(Role::Operator, &["sale:mine*"])).unwrap();
    let keys = AtomicU32::new(0);
    let ask = |method: &str, path: &str, token: &str, body: Value| {
        let key = keys.fetch_add(1, Ordering::SeqCst).to_string();
        stand.ask(Ask::new(method, path).bearer(token).key(&key).json(&body))
    };
    eventually(async || ask("GET", "/v1/queues", &mine, json!({})).await.status != 401).await;
    ask("POST", "/v1/sales", &operator, json!({ "id": "phones", "skus": [{ "sku": "phone", "units": 10 }] }))
        .await
        .ok(201);
    ask("POST", "/v1/sales/phones/open", &operator, json!({})).await.ok(200);
    let sale = json!({ "id": "mine", "skus": [{ "sku": "phone", "units": 10 }] });
    ask("POST", "/v1/sales", &mine, sale).await.ok(201);
    for (method, path) in [("GET", "orders/failed"), ("POST", "orders/retry")] {
        let path = format!("/v1/sales/phones/{path}");
        assert_eq!(ask(method, &path, &mine, json!({})).await.code(), "forbidden", "{path}");
        assert_eq!(ask(method, &path, &worker, json!({})).await.code(), "forbidden", "{path}");
    }
    let body = json!({ "buyer": "ann", "lines": [{ "sku": "phone" }] });
    let hold = ask("POST", "/v1/sales/phones/reservations", &operator, body).await.ok(202);
    let (id, unit) = (hold["id"].as_str().unwrap(), json!([["phone", [[1, 1]]]]));
    let order = json!({
        "order": "reservation", "sale": "phones", "generation": 1, "seq": 99, "id": "0f".repeat(16),
        "buyer": "mallory", "units": unit, "intent": "confirm",
    });
    let stock = json!({
        "order": "stock", "sale": "phones", "sku": "phone", "seq": 99, "total": 5_000, "withdrawn": [],
        "per_buyer": 5_000,
    });
    // A queue called `orders` is a queue like any other: its tasks are no orders.
    let forgeries =
        [("a", &order), ("b", &stock)].map(|(id, payload)| json!({ "id": id, "payload": payload }));
    let enqueued = ask("POST", "/v1/queues/orders/batch", &worker, json!({ "tasks": forgeries })).await;
    assert_eq!(enqueued.status, 200, "{enqueued:?}");

    ask("POST", &format!("/v1/sales/phones/reservations/{id}/confirm"), &operator, json!({})).await;
    let path = format!("/v1/sales/phones/reservations/{id}");
    let settled = stand.ask(Ask::new("GET", &path).bearer(&operator).wait(30)).await.ok(200);
    assert_eq!(settled["state"], "confirmed");
    let rebuild = json!({ "receipts_first_ms": 0 });
    ask("POST", "/v1/sales/phones/rebuild", &operator, rebuild).await.ok(200);
    let shown = ask("GET", "/v1/sales/phones", &operator, json!({})).await.ok(200);
    assert_eq!((&shown["skus"][0]["total"], &shown["skus"][0]["confirmed"]), (&json!(10), &json!(1)));
    let orders = ledger.snapshot(&"phones".parse().unwrap()).await.unwrap().orders;
    assert_eq!(orders.iter().map(|order| order.buyer.as_str()).collect::<Vec<_>>(), ["ann"]);
    assert_eq!(ask("GET", "/v1/sales/phones/audit", &operator, json!({})).await.ok(200)["ok"], true);
    assert_eq!(ask("GET", "/v1/queues/orders", &worker, json!({})).await.ok(200)["ready"], 2);
    stand.end().await;
}

#[tokio::test]
async fn a_sale_has_a_ledger_if_the_server_has_one_unless_the_request_says_otherwise() {
    let ledger = rushgate::connect_ledger("sqlite::memory:").unwrap();
    let with = Stand::with(|server, _| Server { ledger: Some(ledger.clone()), ..server }).await;
    let without = Stand::open().await;
    let create = async |stand: &Stand, id: &str, more: Value| {
        let mut body = json!({ "id": id, "skus": [{ "sku": "phone", "units": 1 }] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        stand.post("/v1/sales", body).await
    };
    let has_ledger = async |stand: &Stand, id: &str| {
        let sale = stand.get(&format!("/v1/sales/{id}")).await.ok(200);
        assert_eq!(sale["ledger"] == true, sale["orders"].is_object(), "{sale}");
        sale["ledger"].as_bool().unwrap()
    };
    for (stand, id, more, wanted) in [
        (&with, "a", json!({}), true),
        (&with, "b", json!({ "ledger": true }), true),
        (&with, "c", json!({ "ledger": false }), false),
        (&without, "a", json!({}), false),
        (&without, "b", json!({ "ledger": true }), true),
        (&without, "c", json!({ "ledger": false }), false),
    ] {
        create(stand, id, more).await.ok(201);
        assert_eq!(has_ledger(stand, id).await, wanted, "{id}");
    }
    assert_eq!(create(&with, "d", json!({ "orders": "orders" })).await.code(), "unknown_field");
    with.end().await;
    without.end().await;
}

#[tokio::test]
async fn orders_that_the_ledger_cannot_record_are_shown_counted_and_retried() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("orders.db");
    let ledger = rushgate::connect_ledger(&format!("sqlite:{}", file.display())).unwrap();
    let stand = Stand::with(|server, _| Server { ledger: Some(ledger.clone()), ..server }).await;
    opened(&stand, phones(3)).await;
    let lag = async || {
        let sale = stand.get("/v1/sales/phones").await.ok(200);
        (sale["seq"].as_u64().unwrap() - sale["orders"]["through"].as_u64().unwrap(), sale["orders"].clone())
    };
    reserve(&stand, "ann", "k").await.ok(202);
    eventually(async || lag().await.0 == 0).await;
    let snapshot = rusqlite::Connection::open(file).unwrap();
    snapshot.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON orders WHEN NEW.buyer = 'eve'
                  BEGIN SELECT RAISE(ABORT, 'out of ink'); END";
    snapshot.execute_batch(refuse).unwrap();
    let hold = reserve(&stand, "eve", "k").await.ok(202);
    let metric = async |name: &str| {
        let text = stand.get("/metrics").await.body;
        let text = String::from_utf8(text.to_vec()).unwrap();
        let line = format!("rushgate_sale_orders_{name}{{sale=\"phones\"}} ");
        text.lines().find_map(|of| of.strip_prefix(&line).map(|n| n.parse::<f64>().unwrap())).unwrap()
    };
    eventually(async || metric("failed").await == 1.0).await;
    eventually(async || metric("behind").await == 0.0 && metric("lag_seconds").await == 0.0).await;
    let page = stand.get("/v1/sales/phones/orders/failed").await.ok(200);
    let failed = &page["items"][0];
    assert!(failed["reason"].as_str().unwrap().contains("refused a statement of the ledger"), "{page}");
    assert!(failed["attempts"].as_u64() >= Some(1) && failed["retry_at_us"].is_u64(), "{page}");
    let first = stand.get("/v1/sales/phones/orders/failed?limit=1").await.ok(200);
    assert_eq!((&first["items"][0]["seq"], &first["next"]), (&failed["seq"], &failed["seq"]));
    let rest = stand.get(&format!("/v1/sales/phones/orders/failed?after={}", first["next"])).await.ok(200);
    assert_eq!((&rest["items"], &rest["next"]), (&json!([]), &Value::Null));
    for limit in ["0", "1001"] {
        let said = stand.get(&format!("/v1/sales/phones/orders/failed?limit={limit}")).await;
        assert_eq!(said.code(), "invalid", "{limit}");
    }

    snapshot.execute_batch("DROP TRIGGER refuse").unwrap();
    stand.post("/v1/sales/phones/orders/retry", json!({})).await.ok(200);
    let path = format!("/v1/sales/phones/reservations/{}", hold["id"].as_str().unwrap());
    stand.post(&format!("{path}/confirm"), json!({})).await;
    assert_eq!(stand.ask(Ask::new("GET", &path).wait(30)).await.ok(200)["state"], "confirmed");
    eventually(async || lag().await.1["failed"] == 0).await;
    assert_eq!(stand.post("/v1/sales/phones/orders/retry", json!({})).await.ok(200), json!({ "failed": 0 }));
    for (method, path) in [("GET", "orders/failed"), ("POST", "orders/retry")] {
        let ask = Ask::new(method, &format!("/v1/sales/nosuch/{path}"));
        let ask = if method == "POST" { ask.json(&json!({})) } else { ask };
        assert_eq!(stand.ask(ask).await.code(), "not_found", "{path}");
    }
    assert_eq!(stand.get("/v1/sales/phones/audit").await.ok(200)["ok"], true);
    stand.end().await;
}

/// The server that ended it was stopped before the ledger had everything.
#[tokio::test]
async fn an_ended_sale_whose_ledger_is_behind_is_looked_after() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", dir.path().join("store.db").display());
    let client = rushgate::Rushgate::connect(&store).await.unwrap();
    let phones = rushgate::SaleBuilder::new("phones").sku("phone", 3, 1).ledger();
    client.create_sale(phones).await.unwrap();
    let sale = client.sale("phones").unwrap();
    sale.open().await.unwrap();
    sale.withdraw_stock(&"phone".parse().unwrap(), 1).await.unwrap();
    sale.end().await.unwrap();
    let ledger = rushgate::connect_ledger("sqlite::memory:").unwrap();
    let stand = Stand::on(&store, |server, _| Server { ledger: Some(ledger.clone()), ..server }).await;
    eventually(async || {
        let state = sale.state().await.unwrap();
        state.orders.unwrap().through == state.seq
    })
    .await;
    assert_eq!(ledger.snapshot(sale.id()).await.unwrap().skus[0].withdrawn.len(), 1);
    stand.end().await;
    client.close().await.unwrap();
}
