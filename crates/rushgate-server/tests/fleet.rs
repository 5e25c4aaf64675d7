//! Several servers on one store, as behind one address: whatever one of them said holds at all of them.

mod common;

use std::sync::Arc;

use common::{Ask, Stand};
use rushgate::Ledger;
use rushgate_testkit::servers::{Kind, RedisServer, RedisSetup};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

/// Two servers with one store and one ledger, of which each has a connection of its own.
struct Fleet {
    one: Arc<Stand>,
    two: Arc<Stand>,
    ledgers: [Arc<dyn Ledger>; 2],
    // Last, so that what they serve outlives them.
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
        let books = TempDir::new().unwrap();
        let url = format!("sqlite:{}", books.path().join("store.db").display());
        Self::new(&url, books, None).await
    }

    async fn new(store: &str, books: TempDir, redis: Option<RedisServer>) -> Self {
        let orders = format!("sqlite:{}", books.path().join("orders.db").display());
        let ledgers = [(); 2].map(|()| rushgate::connect_ledger(&orders).unwrap());
        let one = Stand::on(store, |server, _| server.ledger(Arc::clone(&ledgers[0]))).await;
        let two = Stand::on(store, |server, _| server.ledger(Arc::clone(&ledgers[1]))).await;
        Self { one: Arc::new(one), two: Arc::new(two), ledgers, _books: books, _redis: redis }
    }

    /// An open sale of so many phones.
    async fn opened(&self, units: u32) {
        let sale = json!({ "id": "phones", "skus": [{ "sku": "phone", "units": units }] });
        self.one.post("/v1/sales", sale).await.ok(201);
        self.two.post("/v1/sales/phones/open", json!({})).await.ok(200);
    }

    async fn end(self) {
        let Self { one, two, ledgers, .. } = self;
        for stand in [one, two] {
            let stand = Arc::into_inner(stand).expect("nobody asks any more");
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

/// Sends so many buyers to both servers in turn, and gives the reservations of those who were told that they have one.
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

/// On a file a process knows only the changes that it made itself, as `Sale::change_stock` says.
#[tokio::test]
async fn a_stock_change_under_one_key_is_made_once_by_all_servers_on_redis() {
    let fleet = Fleet::on_redis().await;
    fleet.opened(5).await;
    let more = json!({ "sku": "phone", "add": 5 });
    let add = || Ask::new("POST", "/v1/sales/phones/stock").json(&more).key("more");
    assert_eq!(fleet.one.ask(add()).await.ok(200)["total"], 10);
    assert_eq!(fleet.two.ask(add()).await.ok(200)["total"], 10);
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
    common::eventually(async || {
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
        // Reserved at one of the servers, paid for at either, and told of by the other.
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
    // Whoever was told "yours" has it, and whoever was not may ask the other server.
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
    a_wait_at_one_server_is_ended_by_a_release_at_another => a_wait_is_ended;
    buyers_at_two_servers_get_exactly_what_there_is => exactly_what_there_is;
    a_server_that_goes_takes_no_reservation_with_it => one_may_go;
}
