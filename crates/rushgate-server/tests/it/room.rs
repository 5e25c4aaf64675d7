//! Waiting rooms over HTTP: position, turn, admission token, and no reservation by a buyer without one.

use crate::common::{Ask, Said, Stand, eventually, new_token};
use rushgate::SaleBuilder;
use rushgate_server::{NewToken, Role};
use serde_json::{Value, json};

const ROOM: &str = "/v1/sales/phones/room";

/// A server with three tokens: for an operator, for a shop and all its buyers, and for the buyer ann.
struct Fixture {
    stand: Stand,
    operator: String,
    shop: String,
    ann: String,
}

impl Fixture {
    async fn new() -> Self {
        let (stand, file) = Stand::with_tokens().await;
        let token = |role, buyer: Option<&str>| {
            let new = NewToken { buyer: buyer.map(|buyer| buyer.parse().unwrap()), ..new_token(role, &[]) };
            file.create(new).unwrap().1
        };
        let (operator, shop) = (token(Role::Operator, None), token(Role::Buyer, None));
        let ann = token(Role::Buyer, Some("ann"));
        stand.client.create_sale(SaleBuilder::new("phones").sku("phone", 2, 1)).await.unwrap();
        stand.client.sale("phones").unwrap().open().await.unwrap();
        let fixture = Self { stand, operator, shop, ann };
        eventually(async || fixture.ask("GET", "/v1/sales", &fixture.ann, None).await.status == 200).await;
        fixture
    }

    async fn ask(&self, method: &str, path: &str, token: &str, body: Option<Value>) -> Said {
        let ask = Ask::new(method, path).bearer(token).key("k");
        self.stand.ask(if let Some(body) = body { ask.json(&body) } else { ask }).await
    }

    async fn set(&self, body: Value) -> Said {
        self.ask("PUT", ROOM, &self.operator, Some(body)).await
    }

    /// Joins or enters as a buyer, with the shop's token.
    async fn buyer(&self, what: &str, buyer: &str) -> Said {
        let path = format!("/v1/sales/phones/{what}");
        self.ask("POST", &path, &self.shop, Some(json!({ "buyer": buyer }))).await
    }

    async fn reserve(&self, token: &str, buyer: &str, pass: Option<&str>) -> Said {
        let body = json!({ "buyer": buyer, "lines": [{ "sku": "phone" }], "pass": pass });
        self.ask("POST", "/v1/sales/phones/reservations", token, Some(body)).await
    }
}

#[tokio::test]
async fn a_buyer_joins_waits_and_buys_with_a_pass() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.ask("GET", ROOM, &fixture.ann, None).await.code(), "not_found");
    assert_eq!(fixture.buyer("tickets", "ann").await.code(), "not_found");
    let rules = json!({ "rate": { "n": 1, "per_ms": 3_600_000 } });
    assert_eq!(fixture.set(rules.clone()).await.ok(200)["order"], "first_come");
    let shown = fixture.ask("GET", ROOM, &fixture.ann, None).await;
    assert_eq!(shown.header("cache-control"), "public, max-age=1");
    let shown = shown.ok(200);
    assert_eq!(
        (&shown["joined"], &shown["pass_ms"], &shown["rate"]),
        (&0.into(), &60_000.into(), &rules["rate"])
    );

    assert_eq!(fixture.buyer("passes", "ann").await.code(), "not_in_line");
    assert_eq!(fixture.buyer("tickets", "ann").await.ok(201)["serial"], 0);
    assert_eq!(fixture.buyer("tickets", "ann").await.ok(200)["state"], "waiting");
    let bob = fixture.buyer("tickets", "bob").await.ok(201);
    assert_eq!((&bob["place"], &bob["ahead"]), (&1.into(), &0.into()));
    assert!(bob["wait_ms"].as_u64().unwrap() > 3_500_000);
    let waits = fixture.buyer("passes", "bob").await;
    assert_eq!((waits.ok(202)["state"].as_str(), waits.header("retry-after")), (Some("waiting"), "60"));

    let admitted = fixture.buyer("passes", "ann").await.ok(201);
    let pass = admitted["pass"].as_str().unwrap();
    assert_eq!(fixture.buyer("passes", "ann").await.ok(201)["until_us"], admitted["until_us"]);
    assert_eq!(fixture.reserve(&fixture.shop, "bob", None).await.code(), "pass_needed");
    assert_eq!(fixture.reserve(&fixture.shop, "bob", Some(pass)).await.code(), "pass_refused");
    assert_eq!(fixture.reserve(&fixture.ann, "ann", Some(pass)).await.ok(202)["buyer"], "ann");
    let replayed = fixture.reserve(&fixture.shop, "ann", Some(pass)).await;
    assert_eq!((replayed.status, replayed.header("idempotency-replayed")), (200, "true"));
    fixture.reserve(&fixture.operator, "cid", None).await.ok(202);
    fixture.stand.end().await;
}

#[tokio::test]
async fn a_token_of_one_buyer_joins_for_nobody_else() {
    let fixture = Fixture::new().await;
    fixture.set(json!({ "rate": { "n": 1, "per_ms": 3_600_000 } })).await.ok(200);
    for what in ["tickets", "passes"] {
        let path = format!("/v1/sales/phones/{what}");
        let other = fixture.ask("POST", &path, &fixture.ann, Some(json!({ "buyer": "bob" }))).await;
        assert_eq!(other.code(), "forbidden");
        assert!(fixture.ask("POST", &path, &fixture.ann, Some(json!({}))).await.status < 300);
        assert_eq!(fixture.ask("POST", &path, &fixture.shop, Some(json!({}))).await.code(), "invalid");
    }
    for (method, path) in [
        ("PUT", ROOM),
        ("DELETE", ROOM),
        ("POST", "/v1/sales/phones/room/close-entry"),
        ("POST", "/v1/sales/phones/room/draw"),
    ] {
        assert_eq!(fixture.ask(method, path, &fixture.shop, None).await.code(), "forbidden", "{method}");
    }
    fixture.stand.end().await;
}

#[tokio::test]
async fn a_buyer_who_waits_on_a_connection_is_admitted_in_turn() {
    let fixture = Fixture::new().await;
    fixture.set(json!({ "rate": { "n": 4, "per_ms": 1_000 } })).await.ok(200);
    for buyer in ["ann", "bob", "cid"] {
        fixture.buyer("tickets", buyer).await.ok(201);
    }
    let ask =
        Ask::new("POST", "/v1/sales/phones/passes").bearer(&fixture.shop).json(&json!({ "buyer": "cid" }));
    assert!(fixture.stand.ask(ask.wait(20)).await.ok(201)["pass"].is_string());
    fixture.stand.end().await;
}

#[tokio::test]
async fn a_waiter_on_a_connection_is_notified_when_the_sale_ends() {
    let fixture = Fixture::new().await;
    fixture.set(json!({ "rate": { "n": 1, "per_ms": 3_600_000 } })).await.ok(200);
    for buyer in ["ann", "bob"] {
        fixture.buyer("tickets", buyer).await.ok(201);
    }
    let ask =
        Ask::new("POST", "/v1/sales/phones/passes").bearer(&fixture.shop).json(&json!({ "buyer": "bob" }));
    let end = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        fixture.ask("POST", "/v1/sales/phones/end", &fixture.operator, None).await.ok(200);
    };
    let (told, ()) = tokio::join!(fixture.stand.ask(ask.wait(20)), end);
    assert_eq!(told.code(), "room_closed");
    assert_eq!(fixture.buyer("tickets", "cid").await.code(), "room_closed");
    fixture.stand.end().await;
}

#[tokio::test]
async fn a_pass_that_ran_out_buys_nothing_and_what_it_bought_is_told() {
    let fixture = Fixture::new().await;
    fixture.set(json!({ "rate": { "n": 100, "per_ms": 1_000 }, "pass_ms": 3_000 })).await.ok(200);
    let mut passes = Vec::new();
    for buyer in ["ann", "bob"] {
        fixture.buyer("tickets", buyer).await.ok(201);
        eventually(async || fixture.buyer("passes", buyer).await.status == 201).await;
        passes.push(fixture.buyer("passes", buyer).await.ok(201)["pass"].as_str().unwrap().to_owned());
    }
    fixture.reserve(&fixture.shop, "ann", Some(&passes[0])).await.ok(202);
    eventually(async || fixture.buyer("passes", "bob").await.status == 409).await;
    assert_eq!(fixture.buyer("passes", "bob").await.code(), "pass_missed");
    // The server judges the token by a clock that lags the store's by the latency of its last read. An unknown SKU shows
    // when it has caught up, and reserves nothing until then.
    let bob = json!({ "buyer": "bob", "lines": [{ "sku": "none" }], "pass": passes[1] });
    let expired = async || {
        fixture.ask("POST", "/v1/sales/phones/reservations", &fixture.shop, Some(bob.clone())).await.code()
    };
    eventually(async || expired().await == "pass_expired").await;
    assert_eq!(fixture.reserve(&fixture.shop, "bob", Some(&passes[1])).await.code(), "pass_expired");
    fixture.reserve(&fixture.shop, "ann", Some(&passes[0])).await.ok(200);
    fixture.buyer("tickets", "bob").await.ok(201);
    fixture.stand.end().await;
}

#[tokio::test]
async fn a_draw_is_published_and_drawn_once() {
    let fixture = Fixture::new().await;
    let rules = json!({ "rate": { "n": 100, "per_ms": 1_000 }, "order": "draw" });
    let commitment = fixture.set(rules).await.ok(200)["commitment"].clone();
    let first_come = json!({ "rate": { "n": 1, "per_ms": 1_000 }, "order": "first_come" });
    assert_eq!(fixture.set(first_come).await.code(), "invalid");
    let joined = fixture.buyer("tickets", "ann").await.ok(201);
    assert!(joined.get("place").is_none() && joined.get("wait_ms").is_none(), "{joined}");
    let rules = json!({ "rate": { "n": 100, "per_ms": 1_000 }, "pass_ms": 90_000, "from_us": 1_000_000 });
    fixture.set(rules).await.ok(200);
    let faster = fixture.set(json!({ "rate": { "n": 200, "per_ms": 1_000 } })).await.ok(200);
    assert_eq!(
        (&faster["pass_ms"], &faster["from_us"]),
        (&90_000.into(), &1_000_000.into()),
        "what is left out stays: {faster}"
    );
    assert_eq!(
        (&faster["order"], &faster["joined"]),
        (&"draw".into(), &1.into()),
        "the order stays: {faster}"
    );
    let draw = |beacon: &str| {
        fixture.ask(
            "POST",
            "/v1/sales/phones/room/draw",
            &fixture.operator,
            Some(json!({ "beacon": beacon })),
        )
    };
    assert_eq!(draw("").await.code(), "invalid");
    let early = draw("07 11").await;
    assert_eq!((early.code().as_str(), &early.json()["joined"]), ("entry_open", &1.into()));
    let close = async || {
        fixture.ask("POST", "/v1/sales/phones/room/close-entry", &fixture.operator, None).await.ok(200)
    };
    let closed = close().await;
    assert_eq!((&closed["entrants"], closed.get("secret")), (&1.into(), None));
    assert_eq!(
        fixture.buyer("tickets", "bob").await.ok(201)["place"],
        1,
        "a late buyer is behind the participants"
    );
    let shown = fixture.ask("GET", ROOM, &fixture.ann, None).await.ok(200);
    assert_eq!((&shown["entrants"], &shown["entry_closed_us"]), (&1.into(), &closed["entry_closed_us"]));
    assert_eq!(close().await["entry_closed_us"], closed["entry_closed_us"]);
    let record = draw("07 12").await.ok(200);
    assert_eq!((&record["commitment"], &record["entrants"]), (&commitment, &1.into()));
    draw("07 12").await.ok(200);
    assert_eq!(draw("other").await.code(), "stale");
    let record: rushgate::sale::DrawRecord = serde_json::from_value(record).unwrap();
    assert!(record.keeps_its_word());
    fixture.buyer("passes", "ann").await.ok(201);
    assert_eq!(fixture.ask("DELETE", ROOM, &fixture.operator, None).await.ok(200)["closed"], true);
    assert_eq!(fixture.ask("DELETE", ROOM, &fixture.operator, None).await.code(), "not_found");
    fixture.reserve(&fixture.shop, "bob", None).await.ok(202);
    fixture.stand.end().await;
}
