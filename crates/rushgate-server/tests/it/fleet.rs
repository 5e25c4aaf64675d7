//! Several servers on one store behind one address: an answer of one holds at all of them.

use crate::common;
use std::sync::Arc;

use crate::common::{Ask, Stand, eventually};
use rushgate::Ledger;
use rushgate_server::Server;
use rushgate_test::servers::{Kind, RedisServer, RedisSetup};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

/// Two servers with the same store and ledger, each with its own connections.
struct Fleet {
    one: Arc<Stand>,
    two: Arc<Stand>,
    ledgers: [Arc<dyn Ledger>; 2],
    // Last, so that these outlive the servers.
    _books: TempDir,
    _redis: Option<RedisServer>,
}

impl Fleet {
    async fn on_redis() -> Self {
        let redis = RedisSetup::new(Kind::Redis).start();
        let url = redis.url();
        Self::new(&url, TempDir::new().unwrap(), Some(redis)).await
    }

    async fn on_file() -> Self {
        let snapshot = TempDir::new().unwrap();
        let url = format!("sqlite:{}", snapshot.path().join("store.db").display());
        Self::new(&url, snapshot, None).await
    }

    async fn new(store: &str, snapshot: TempDir, redis: Option<RedisServer>) -> Self {
        let orders = format!("sqlite:{}", snapshot.path().join("orders.db").display());
        let ledgers = [(); 2].map(|()| rushgate::connect_ledger(&orders).unwrap());
        let one =
            Stand::on(store, |server, _| Server { ledger: Some(Arc::clone(&ledgers[0])), ..server }).await;
        let two =
            Stand::on(store, |server, _| Server { ledger: Some(Arc::clone(&ledgers[1])), ..server }).await;
        Self { one: Arc::new(one), two: Arc::new(two), ledgers, _books: snapshot, _redis: redis }
    }

    /// Creates and opens a sale of `units` phones.
    async fn opened(&self, units: u32) {
        let sale = json!({ "id": "phones", "skus": [{ "sku": "phone", "units": units }] });
        self.one.post("/v1/sales", sale).await.ok(201);
        self.two.post("/v1/sales/phones/open", json!({})).await.ok(200);
    }

    async fn end(self) {
        let Self { one, two, ledgers, .. } = self;
        for stand in [one, two] {
            let stand = Arc::into_inner(stand).expect("no request is in flight");
            assert!(stand.end().await.is_orderly);
        }
        for ledger in ledgers {
            ledger.close().await.unwrap();
        }
    }
}

fn reserve(buyer: &str) -> Ask {
    let body = json!({ "buyer": buyer, "lines": [{ "sku": "phone" }] });
    Ask::new("POST", "/v1/sales/phones/reservations").json(&body).key("click")
}

/// Sends `buyers` requests to both servers in turn, and returns the reservations made.
async fn crowd(fleet: &Fleet, buyers: u32) -> Vec<Value> {
    let mut clicks = JoinSet::new();
    for n in 0..buyers {
        let stand = Arc::clone(if n % 2 == 0 { &fleet.one } else { &fleet.two });
        clicks.spawn(async move { stand.ask(reserve(&format!("buyer-{n}"))).await });
    }
    let answers = clicks.join_all().await;
    let told = answers.iter().filter(|said| said.status == 202);
    let told: Vec<_> = told.map(common::Said::json).collect();
    for said in answers.iter().filter(|said| said.status != 202) {
        assert!(["all_held", "sold_out"].contains(&said.code().as_str()), "{said:?}");
    }
    told
}

async fn keys_are_known(fleet: Fleet) {
    fleet.opened(5).await;
    let (one, two) = (&fleet.one, &fleet.two);
    let first = one.ask(reserve("ann")).await.ok(202);
    let again = two.ask(reserve("ann")).await;
    assert_eq!(
        (again.ok(200)["id"].clone(), again.header("idempotency-replayed")),
        (first["id"].clone(), "true")
    );

    let acquire =
        || Ask::new("POST", "/v1/locks/door/acquire").json(&json!({ "lease_ms": 60_000 })).key("mine");
    let held = one.ask(acquire()).await.ok(201);
    let same = two.ask(acquire()).await.ok(201);
    assert_eq!((&held["token"], &held["fence"]), (&same["token"], &same["fence"]));
    fleet.end().await;
}

fn stock(change: &Value) -> Ask {
    Ask::new("POST", "/v1/sales/phones/stock").json(change).key("more")
}

async fn a_stock_change_is_made_once(fleet: Fleet) {
    fleet.opened(5).await;
    let more = json!({ "sku": "phone", "add": 5 });
    assert_eq!(fleet.one.ask(stock(&more)).await.ok(200)["total"], 10);
    assert_eq!(fleet.two.ask(stock(&more)).await.ok(200)["total"], 10);
    let other = json!({ "sku": "phone", "add": 6 });
    for stand in [&fleet.one, &fleet.two] {
        assert_eq!(stand.ask(stock(&other)).await.code(), "idempotency_key_reused");
    }
    fleet.end().await;
}

/// A restarted process knows only what the store has.
#[tokio::test]
async fn a_stock_change_is_made_once_although_the_server_was_restarted() {
    let snapshot = TempDir::new().unwrap();
    let url = format!("sqlite:{}", snapshot.path().join("store.db").display());
    let more = json!({ "sku": "phone", "add": 5 });
    let before = Stand::on(&url, |server, _| server).await;
    let sale = json!({ "id": "phones", "skus": [{ "sku": "phone", "units": 5 }] });
    before.post("/v1/sales", sale).await.ok(201);
    let first = before.ask(stock(&more)).await.ok(200);
    before.end().await;

    let after = Stand::on(&url, |server, _| server).await;
    assert_eq!(after.ask(stock(&more)).await.ok(200), first);
    let other = json!({ "sku": "phone", "withdraw": 5 });
    assert_eq!(after.ask(stock(&other)).await.code(), "idempotency_key_reused");
    assert_eq!(after.get("/v1/sales/phones").await.ok(200)["skus"][0]["total"], 10);
    after.end().await;
}

async fn a_lock_key_is_for_one_request(fleet: Fleet) {
    let acquire = |lease: u64| {
        Ask::new("POST", "/v1/locks/door/acquire").json(&json!({ "lease_ms": lease })).key("mine")
    };
    fleet.one.ask(acquire(60_000)).await.ok(201);
    assert_eq!(fleet.one.ask(acquire(50_000)).await.code(), "idempotency_key_reused");
    // The other server does not know the body that came with the key, and treats this as a new acquisition.
    assert_eq!(fleet.two.ask(acquire(50_000)).await.code(), "lock_busy");
    fleet.two.ask(acquire(60_000)).await.ok(201);
    fleet.end().await;
}

/// The answer to a release with a task was lost: the repeat may reach any server, with or without a key.
async fn a_release_with_a_task_is_answered_alike(fleet: Fleet) {
    for (round, key) in [None, Some("mine")].into_iter().enumerate() {
        let held = fleet.one.post("/v1/locks/door/acquire", json!({ "lease_ms": 60_000 })).await.ok(201);
        let id = format!("t-{round}");
        let body = json!({ "token": held["token"], "queue": "mail", "task": { "id": id, "payload": 1 } });
        let ask = || {
            let ask = Ask::new("POST", "/v1/locks/door/release-with").json(&body);
            key.into_iter().fold(ask, Ask::key)
        };
        let first = fleet.one.ask(ask()).await.ok(201);
        assert_eq!(first["outcome"], "added");
        let next = fleet.two.post("/v1/locks/door/acquire", json!({ "lease_ms": 60_000 })).await.ok(201);
        for stand in [&fleet.one, &fleet.two, &fleet.one] {
            assert_eq!(stand.ask(ask()).await.ok(201), first, "{key:?}");
        }
        let claimed = fleet.two.post("/v1/queues/mail/claim", json!({ "n": 10 })).await.ok(200);
        assert_eq!(claimed["tasks"].as_array().unwrap().len(), 1, "enqueued once");
        let token = json!({ "token": next["token"] });
        fleet.one.post("/v1/locks/door/release", token.clone()).await.ok(200);
        fleet.two.post("/v1/locks/door/release", token).await.ok(200);
        let other =
            json!({ "token": held["token"], "queue": "mail", "task": { "id": "other", "payload": 1 } });
        assert_eq!(fleet.two.post("/v1/locks/door/release-with", other).await.code(), "not_held");
    }
    fleet.end().await;
}

async fn a_wait_is_ended(fleet: Fleet) {
    let held = fleet.one.post("/v1/locks/door/acquire", json!({ "lease_ms": 60_000 })).await.ok(201);
    let two = Arc::clone(&fleet.two);
    let waiting = tokio::spawn(async move {
        two.ask(Ask::new("POST", "/v1/locks/door/acquire").json(&json!({ "lease_ms": 60_000 })).wait(30))
            .await
    });
    let one = &fleet.one;
    eventually(async || {
        one.get("/v1/locks/door").await.ok(200)["waiters"].as_array().is_some_and(|line| line.len() == 1)
    })
    .await;
    one.post("/v1/locks/door/release", json!({ "token": held["token"] })).await.ok(200);
    let granted = waiting.await.unwrap().ok(201);
    assert!(granted["fence"].as_u64() > held["fence"].as_u64(), "{granted}");
    fleet.end().await;
}

async fn exactly_what_there_is(fleet: Fleet) {
    fleet.opened(10).await;
    let told = crowd(&fleet, 60).await;
    assert_eq!(told.len(), 10);
    for (n, hold) in told.iter().enumerate() {
        // Reserved at one server, confirmed at either, and read from the other.
        let path = format!("/v1/sales/phones/reservations/{}", hold["id"].as_str().unwrap());
        let (at, then) = if n % 2 == 0 { (&fleet.one, &fleet.two) } else { (&fleet.two, &fleet.one) };
        at.post(&format!("{path}/confirm"), json!({})).await;
        let seen = then.ask(Ask::new("GET", &path).wait(30)).await.ok(200);
        assert_eq!(seen["state"], "confirmed");
    }
    for stand in [&fleet.one, &fleet.two] {
        let audit = stand.get("/v1/sales/phones/audit").await.ok(200);
        assert_eq!(audit["ok"], true, "{audit}");
        assert_eq!(stand.ask(reserve("late")).await.code(), "sold_out");
    }
    fleet.end().await;
}

async fn one_may_go(fleet: Fleet) {
    fleet.opened(100).await;
    let one = Arc::clone(&fleet.one);
    let mut clicks = JoinSet::new();
    for n in 0..60 {
        let one = Arc::clone(&one);
        clicks.spawn(async move {
            let mut sender = one.connect().await;
            let asked = reserve(&format!("buyer-{n}")).request(one.address);
            let answer = sender.send_request(asked).await.ok()?;
            if n == 20 {
                one.shut_down();
            }
            (answer.status().as_u16() == 202).then_some(n)
        });
    }
    let told: Vec<_> = clicks.join_all().await.into_iter().flatten().collect();
    drop(one);
    assert!(!told.is_empty());
    // Every buyer who was told of a reservation has it; the others may ask the other server.
    for n in 0..60 {
        let said = fleet.two.ask(reserve(&format!("buyer-{n}"))).await;
        let known = said.status == 200;
        assert!(known || !told.contains(&n), "buyer {n} was told so: {said:?}");
        assert!(known || said.status == 202, "{said:?}");
    }
    assert_eq!(fleet.two.get("/v1/sales/phones").await.ok(200)["skus"][0]["held"], 60);
    assert_eq!(fleet.two.get("/v1/sales/phones/audit").await.ok(200)["ok"], true);
    fleet.end().await;
}

async fn attempts_are_added_up(fleet: Fleet) {
    fleet.opened(4).await;
    let path = "/v1/sales/phones/history?window_s=600&points=600";
    let stands = [&fleet.one, &fleet.two];
    for stand in stands {
        // What comes before the first sample is in no history.
        eventually(async || stand.get(path).await.ok(200)["at_ms"][0].is_u64()).await;
    }
    assert_eq!(crowd(&fleet, 20).await.len(), 4);
    for stand in stands {
        eventually(async || {
            let history = stand.get(path).await.ok(200);
            let counts = history["counts"].as_object().unwrap();
            let sum = |of: &Value| of.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>();
            let of = |answer| counts.get(answer).map_or(0, sum);
            of("reserved") == 4 && counts.values().map(sum).sum::<u64>() == 20
        })
        .await;
    }
    fleet.end().await;
}

macro_rules! on_both {
    ($($name:ident => $test:ident;)*) => {
        mod redis {
            $(#[tokio::test]
            async fn $name() {
                super::$test(super::Fleet::on_redis().await).await;
            })*
        }

        mod file {
            $(#[tokio::test]
            async fn $name() {
                super::$test(super::Fleet::on_file().await).await;
            })*
        }
    };
}

on_both! {
    a_key_is_known_to_every_server => keys_are_known;
    a_stock_change_is_made_once_by_all_servers => a_stock_change_is_made_once;
    a_lock_key_is_good_for_one_request_at_every_server => a_lock_key_is_for_one_request;
    a_release_with_a_task_is_answered_alike_by_all_servers => a_release_with_a_task_is_answered_alike;
    a_wait_at_one_server_is_ended_by_a_release_at_another => a_wait_is_ended;
    buyers_at_two_servers_get_exactly_what_there_is => exactly_what_there_is;
    a_server_that_goes_takes_no_reservation_with_it => one_may_go;
    the_histories_of_all_servers_have_the_attempts_at_all_of_them => attempts_are_added_up;
}
