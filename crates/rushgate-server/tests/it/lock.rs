//! Locks over HTTP.

use crate::common::{Ask, Stand, eventually};
use serde_json::{Value, json};

#[tokio::test]
async fn a_lock_is_acquired_shown_extended_and_released() {
    let stand = Stand::open().await;
    let grant = stand
        .post("/v1/locks/order:42/acquire", json!({ "lease_ms": 60_000, "label": "ship" }))
        .await
        .ok(201);
    let token = grant["token"].as_str().unwrap();
    assert!(grant["lease_left_ms"].as_u64().unwrap() > 50_000, "{grant}");

    let shown = stand.get("/v1/locks/order:42").await;
    assert_eq!(shown.ok(200)["holder"]["label"], "ship");
    assert!(!String::from_utf8_lossy(&shown.body).contains(token), "only the holder knows the token");
    assert_eq!(stand.get("/v1/locks").await.ok(200)["items"][0]["name"], "order:42");

    let extended =
        stand.post("/v1/locks/order:42/extend", json!({ "token": token, "lease_ms": 90_000 })).await.ok(200);
    assert_eq!(extended["fence"], grant["fence"]);
    // The same safety margin as after `acquire`: a tenth of the lease, and 1 s at most.
    assert!((80_000..=89_000).contains(&extended["lease_left_ms"].as_u64().unwrap()), "{extended}");

    let release = json!({ "token": token });
    assert_eq!(
        stand.post("/v1/locks/order:42/release", release.clone()).await.ok(200)["outcome"],
        "released"
    );
    assert_eq!(
        stand.post("/v1/locks/order:42/release", release.clone()).await.ok(200)["outcome"],
        "released"
    );
    assert_eq!(stand.post("/v1/locks/order:42/extend", release).await.code(), "not_held");
    assert!(stand.get("/v1/locks/order:42").await.ok(200).get("holder").is_none());
    stand.end().await;
}

#[tokio::test]
async fn what_acknowledges_a_write_says_what_it_survives() {
    let stand = Stand::open().await;
    let lease = json!({ "lease_ms": 60_000 });
    let granted = stand.post("/v1/locks/a/acquire", lease.clone()).await;
    let class = stand.get("/readyz").await.ok(200)["durability"].clone();
    assert_eq!((granted.status, granted.header("rushgate-durability")), (201, class.as_str().unwrap()));
    for nothing_written in [stand.get("/v1/locks/a").await, stand.post("/v1/locks/a/acquire", lease).await] {
        assert_eq!(nothing_written.header("rushgate-durability"), "");
    }
    stand.end().await;
}

/// If a worker could guess the next token from its own, it could release another client's lock.
#[tokio::test]
async fn a_token_tells_nothing_of_the_next() {
    let stand = Stand::open().await;
    let mut numbers = Vec::new();
    for name in ["a", "b", "c"] {
        let token =
            stand.post(&format!("/v1/locks/{name}/acquire"), json!({})).await.ok(201)["token"].clone();
        numbers.push(u64::from_str_radix(&token.as_str().unwrap()[16..], 16).unwrap());
    }
    assert!(numbers.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 1_000_000), "{numbers:?}");
    stand.end().await;
}

#[tokio::test]
async fn a_busy_lock_says_when_to_come_back() {
    let stand = Stand::open().await;
    stand.post("/v1/locks/a/acquire", json!({ "lease_ms": 100_000 })).await.ok(201);
    let busy = stand.post("/v1/locks/a/acquire", json!({})).await;
    assert_eq!((busy.status, busy.code().as_str()), (409, "lock_busy"));
    let after: u64 = busy.header("retry-after").parse().unwrap();
    assert!((75..=125).contains(&after), "{after}");
    stand.end().await;
}

#[tokio::test]
async fn a_waiter_is_granted_the_lock_by_a_release() {
    let stand = Stand::open().await;
    let first = stand.post("/v1/locks/a/acquire", json!({ "lease_ms": 60_000 })).await.ok(201);
    let waiting =
        stand.ask(Ask::new("POST", "/v1/locks/a/acquire").json(&json!({ "lease_ms": 60_000 })).wait(30));
    let released = async {
        eventually(async || !stand.client.lock("a").unwrap().waiters().await.unwrap().is_empty()).await;
        stand.post("/v1/locks/a/release", json!({ "token": first["token"] })).await.ok(200)
    };
    let (second, _) = tokio::join!(waiting, released);
    assert_eq!(second.header("preference-applied"), "wait=30");
    let second = second.ok(201);
    assert!(second["fence"].as_u64() > first["fence"].as_u64());
    assert!(second["lease_left_ms"].as_u64().unwrap() > 50_000, "{second}");
    stand.end().await;
}

#[tokio::test]
async fn a_release_sent_again_is_answered_as_the_first() {
    let stand = Stand::open().await;
    let acquire = async || stand.post("/v1/locks/a/acquire", json!({})).await.ok(201)["token"].clone();
    let release = async |token: &Value| stand.post("/v1/locks/a/release", json!({ "token": token })).await;
    let first = acquire().await;
    release(&first).await.ok(200);
    let next = acquire().await;
    release(&next).await.ok(200);
    let _held = acquire().await;
    release(&first).await.ok(200);
    assert_eq!(release(&json!("0".repeat(32))).await.code(), "not_held");
    stand.end().await;
}

#[tokio::test]
async fn a_caller_that_leaves_leaves_no_waiter() {
    let stand = Stand::open().await;
    stand.post("/v1/locks/a/acquire", json!({ "lease_ms": 60_000 })).await.ok(201);
    let waiters = async || stand.client.lock("a").unwrap().waiters().await.unwrap().len();
    let ask = Ask::new("POST", "/v1/locks/a/acquire").json(&json!({})).wait(60);
    stand.ask_and_leave(ask, async || waiters().await == 1).await;
    eventually(async || waiters().await == 0).await;
    stand.end().await;
}

#[tokio::test]
async fn the_same_key_is_the_same_acquisition() {
    let stand = Stand::open().await;
    let ask = || Ask::new("POST", "/v1/locks/a/acquire").json(&json!({ "lease_ms": 60_000 })).key("try-1");
    let (first, second) = (stand.ask(ask()).await.ok(201), stand.ask(ask()).await.ok(201));
    assert_eq!((&first["token"], &first["fence"]), (&second["token"], &second["fence"]));
    let other = Ask::new("POST", "/v1/locks/a/acquire").json(&json!({})).key("try-2");
    assert_eq!(stand.ask(other).await.code(), "lock_busy");
    stand.end().await;
}

#[tokio::test]
async fn a_key_that_is_under_way_is_not_asked_twice() {
    let stand = Stand::open().await;
    stand.post("/v1/locks/a/acquire", json!({ "lease_ms": 60_000 })).await.ok(201);
    let ask = || Ask::new("POST", "/v1/locks/a/acquire").json(&json!({})).key("try-1").wait(60);
    let waiters = async || stand.client.lock("a").unwrap().waiters().await.unwrap().len();
    stand
        .ask_and_leave(ask(), async || {
            waiters().await == 1 && stand.ask(ask()).await.code() == "idempotency_in_flight"
        })
        .await;
    eventually(async || waiters().await == 0).await;
    stand.end().await;
}

#[tokio::test]
async fn a_lock_that_is_taken_by_force_is_its_holders_no_more() {
    let stand = Stand::open().await;
    let grant = stand.post("/v1/locks/a/acquire", json!({ "label": "stuck" })).await.ok(201);
    let forced = stand.post("/v1/locks/a/force-release", json!({})).await.ok(200);
    assert_eq!(forced["holder"]["label"], "stuck");
    assert_eq!(stand.post("/v1/locks/a/extend", json!({ "token": grant["token"] })).await.code(), "not_held");
    stand.end().await;
}

#[tokio::test]
async fn a_wait_ends_when_the_server_closes() {
    let stand = Stand::open().await;
    stand.post("/v1/locks/a/acquire", json!({ "lease_ms": 60_000 })).await.ok(201);
    let waiting = stand.ask(Ask::new("POST", "/v1/locks/a/acquire").json(&json!({})).wait(60));
    let closing = async {
        eventually(async || !stand.client.lock("a").unwrap().waiters().await.unwrap().is_empty()).await;
        stand.shut_down();
    };
    let (told, ()) = tokio::join!(waiting, closing);
    assert_eq!(told.code(), "closing");
    assert!(stand.end().await.is_orderly);
}

#[tokio::test]
async fn a_lock_is_released_with_a_task_or_neither_happens() {
    let stand = Stand::open().await;
    let grant = stand.post("/v1/locks/a/acquire", json!({ "lease_ms": 60_000 })).await.ok(201);
    let body = |token: &Value| {
        let task = json!({ "id": "1", "payload": { "to": "ann" } });
        json!({ "token": token, "queue": "mail", "task": task })
    };
    let nobodys = json!("0".repeat(32));
    assert_eq!(stand.post("/v1/locks/a/release-with", body(&nobodys)).await.code(), "not_held");
    let queue = stand.client.queue("mail").unwrap();
    assert_eq!(queue.stats().await.unwrap().ready, 0);
    let ask = || Ask::new("POST", "/v1/locks/a/release-with").json(&body(&grant["token"])).key("once");
    assert_eq!(stand.ask(ask()).await.ok(201)["outcome"], "added");
    assert_eq!(stand.ask(ask()).await.ok(201)["outcome"], "added", "the same key gets the same answer");
    let again = stand.post("/v1/locks/a/release-with", body(&grant["token"])).await;
    assert_eq!(again.ok(201)["outcome"], "added", "so does a repeat without a key");
    assert_eq!(queue.pop(2).await.unwrap().len(), 1);
    assert!(stand.get("/v1/locks/a").await.ok(200).get("holder").is_none());
    stand.end().await;
}
