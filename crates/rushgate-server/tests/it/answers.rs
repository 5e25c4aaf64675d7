//! Answers to bad input. Each row names the test that checks it; tests without a file name are in this file.
//!
//! | input | status | code | test |
//! |---|---|---|---|
//! | no token, a malformed, wrong or revoked one | 401 | `unauthorized` | `a_refused_caller_gets_the_same_answer`, `access.rs: every_route_lets_in_its_role_and_those_above_and_nobody_else` |
//! | a valid token without the role or scope | 403 | `forbidden` | `access.rs: every_route_with_a_name_keeps_to_the_scopes_of_the_token` |
//! | an unknown resource or route | 404 | `not_found` | `input.rs: paths_methods_and_queries_that_do_not_exist_are_refused`, `sale.rs: every_refusal_has_its_code` |
//! | a known route with another method, including TRACE | 405, `Allow` | `method_not_allowed` | `input.rs: paths_methods_and_queries_that_do_not_exist_are_refused` |
//! | another content type or charset, an encoded body | 415 | `unsupported_media_type` | `input.rs: a_body_of_another_kind_is_refused` |
//! | invalid JSON or UTF-8, trailing bytes, a duplicate key, too deep, a BOM, NaN | 400 | `malformed_json` | `input.rs: a_body_that_is_not_what_was_expected_is_refused_with_its_code` |
//! | an unknown field | 400 | `unknown_field` | the same |
//! | a field that is missing, of another type, or not a valid integer | 422 | `invalid` | the same, `numbers_outside_their_range_are_refused_by_name` |
//! | a lease or delay outside its range; a due time in the past | 422; 201 | `invalid` | `numbers_outside_their_range_are_refused_by_name`, `a_task_that_was_due_long_ago_runs_now` |
//! | a name that is empty, too long, or has braces, white space or control characters | 422 | `invalid` | `names_that_cannot_be_are_refused` |
//! | a body that is too large | 413; the connection closes if it is far too large | `payload_too_large` | `input.rs: what_is_too_large_is_refused_before_it_is_read` |
//! | too many or too large headers; too long a URI | 431; 414 | `headers_too_large`; `uri_too_long` | the same |
//! | two Host headers, another transfer coding than chunked | 400 | `bad_request` | `input.rs: bytes_that_are_no_http_end_the_connection` |
//! | the body of a request that is refused early | the refusal; the connection stays open | | `input.rs: a_request_that_is_refused_early_leaves_the_connection_to_the_next` |
//! | a client that does not read its answers | the connection closes | | `input.rs: who_reads_nothing_loses_the_connection` |
//! | slow headers, a slow body | 408, or the connection closes | `request_timeout` | `input.rs: who_sends_too_slowly_loses_the_connection` |
//! | two lengths; a length and chunks | 400, the connection closes; the chunks are the body, and later bytes are ignored | | `input.rs: bytes_that_are_no_http_end_the_connection`, `nothing_is_smuggled_behind_a_second_length` |
//! | an empty batch, or one of more than 1,000 | 422 | `invalid` | `batches_have_one_to_a_thousand` |
//! | a missing, invalid or duplicate `Idempotency-Key` | 400 | `idempotency_key_missing`, `idempotency_key_invalid` | `sale.rs: every_refusal_has_its_code`, `input.rs: a_key_that_is_none_is_refused` |
//! | the same key with another body; a key in flight | 422; 409, `Retry-After` | `idempotency_key_reused`; `idempotency_in_flight` | `sale.rs: every_refusal_has_its_code`, `lock.rs: a_key_that_is_under_way_is_not_asked_twice` |
//! | a lock that is held, without or after a wait | 409, `Retry-After` | `lock_busy` | `lock.rs: a_busy_lock_says_when_to_come_back`, `a_wait_for_a_lock_that_is_over_says_that_it_is_held` |
//! | an outdated token or ticket | 409, nothing is changed | `not_held`, `stale` | `a_token_that_does_not_hold_the_lock_changes_nothing` |
//! | a repeated completion, with the same key or without | 200, the same answer; 409 | `stale` | `a_completion_is_answered_again_under_its_key_and_not_without` |
//! | sold out; purchase limit exceeded; not open; ended | 409 | `sold_out`, `all_held`; `limit_reached`; `sale_not_open`; `sale_ended` | `sale.rs: one_phone_is_reserved_confirmed_and_sold_out`, `sale.rs: every_refusal_has_its_code` |
//! | an expired hold; an invalid receipt | 409 | `decided`; `receipt_refused` | `a_hold_that_ran_out_is_not_confirmed`, `sale.rs: a_receipt_of_a_known_reservation_gives_it_as_it_stands` |
//! | a quantity of 0, negative, or above the limit | 422 | `invalid` | `numbers_outside_their_range_are_refused_by_name` |
//! | rate limit exceeded | 429, `Retry-After` | `too_many` | `access.rs: a_buyer_and_an_address_ask_as_often_as_they_may` |
//! | an unreachable store | 503, `Retry-After`, nothing is changed | `unavailable` | `a_store_that_is_away_is_said_to_be_and_nothing_is_changed` |

use std::time::Duration;

use crate::common::{Ask, Stand, eventually, new_token};
use rushgate::store::Page;
use rushgate_server::Role;
use rushgate_test::servers::{Kind, RedisSetup};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TASKS: &str = "/v1/queues/q/tasks";

#[tokio::test]
async fn a_refused_caller_gets_the_same_answer() {
    let (stand, file) = Stand::with_tokens().await;
    let (entry, revoked) = file.create(new_token(Role::Operator, &[])).unwrap();
    let ask = async |authorization: Option<&str>| {
        let ask = Ask::new("GET", "/v1/queues");
        stand.ask(authorization.map_or(ask.clone(), |value| ask.header("authorization", value))).await
    };
    let good = format!("Bearer {revoked}");
    eventually(async || ask(Some(&good)).await.status == 200).await;
    file.revoke(&entry.id).unwrap();
    eventually(async || ask(Some(&good)).await.status == 401).await;
    let expected = ask(None).await;
    assert_eq!((expected.status, expected.code().as_str()), (401, "unauthorized"));
    for wrong in ["", "Bearer", "Bearer x", "Basic YTpi", "Bearer rg_00000000_00", &good] {
        let said = ask(Some(wrong)).await;
        assert_eq!((said.status, &said.body), (401, &expected.body), "{wrong}");
        assert!(said.header("www-authenticate").starts_with("Bearer"), "{said:?}");
    }
    stand.end().await;
}

#[tokio::test]
async fn numbers_outside_their_range_are_refused_by_name() {
    let stand = Stand::open().await;
    let sale = json!({ "id": "s", "skus": [{ "sku": "x", "units": 3 }] });
    stand.post("/v1/sales", sale).await.ok(201);
    let numbers =
        ["0", "-1", "1.5", "\"5\"", "null", "true", "9007199254740993", "99999999999999999999", "1e400"];
    type Body = fn(&str) -> String;
    let bodies: [(&str, Body); 5] = [
        ("/v1/locks/a/acquire", |n| format!("{{\"lease_ms\":{n}}}")),
        ("/v1/queues/q/claim", |n| format!("{{\"lease_ms\":{n}}}")),
        ("/v1/queues/q/claim", |n| format!("{{\"n\":{n}}}")),
        ("/v1/sales/s/stock", |n| format!("{{\"sku\":\"x\",\"add\":{n}}}")),
        ("/v1/sales/s/reservations", |n| {
            format!("{{\"buyer\":\"ann\",\"lines\":[{{\"sku\":\"x\",\"quantity\":{n}}}]}}")
        }),
    ];
    for (path, body) in bodies {
        for n in numbers {
            let body = body(n);
            let said =
                stand.ask(Ask::new("POST", path).raw("application/json", body.as_bytes()).key("k")).await;
            // An optional field may be null.
            let may_be = n == "null" && said.status < 300;
            assert!(may_be || (said.status == 422 && said.code() == "invalid"), "{path} {body}: {said:?}");
        }
    }
    let of_sku = |name: &str, n: u64| json!({ "id": "t", "skus": [{ "sku": "x", "units": 1, name: n }] });
    for (method, path, body, field) in [
        ("POST", "/v1/locks/b/acquire", json!({ "lease_ms": 9 }), "lease_ms"),
        ("POST", "/v1/locks/b/acquire", json!({ "lease_ms": 86_400_001 }), "lease_ms"),
        ("POST", "/v1/locks/b/acquire", json!({ "label": "x".repeat(201) }), "label"),
        ("POST", TASKS, json!({ "id": "t", "delay_ms": 40_000_000_000_u64 }), "delay_ms"),
        ("POST", TASKS, json!({ "id": "t", "max_attempts": 0 }), "max_attempts"),
        ("POST", TASKS, json!({ "id": "t", "unique_for_ms": 40_000_000_000_u64 }), "unique_for_ms"),
        ("PUT", "/v1/queues/q/limits", json!({ "concurrency": 0 }), "concurrency"),
        ("PUT", "/v1/queues/q/limits", json!({ "rate": { "n": 10_001, "per_ms": 1_000 } }), "rate"),
        ("PUT", "/v1/queues/q/limits", json!({ "events": 10_000_000 }), "events"),
        ("PUT", "/v1/queues/q/schedules/a", json!({ "every_ms": 999 }), "every_ms"),
        ("PUT", "/v1/queues/q/schedules/a", json!({ "cron": "61 * * * *" }), "cron"),
        ("GET", "/v1/queues/q/tasks?limit=10001", Value::Null, "limit"),
        ("POST", "/v1/sales", of_sku("units", 10_000_001), "units"),
        ("POST", "/v1/sales", of_sku("per_buyer", 0), "per_buyer"),
        (
            "POST",
            "/v1/sales/s/reservations",
            json!({ "buyer": "a", "lines": [{ "sku": "x", "quantity": 1_001 }] }),
            "quantity",
        ),
    ] {
        let ask = Ask::new(method, path).key("k2");
        let said = stand.ask(if body.is_null() { ask } else { ask.json(&body) }).await;
        assert_eq!(
            (said.code().as_str(), &said.json()["field"]),
            ("invalid", &json!(field)),
            "{path} {body}"
        );
    }
    assert_eq!(stand.get("/v1/sales/s").await.ok(200)["skus"][0]["free"], 3);
    assert!(stand.client.lock("b").unwrap().holders().await.unwrap().is_empty());
    stand.end().await;
}

#[tokio::test]
async fn a_task_that_was_due_long_ago_runs_now() {
    let stand = Stand::open().await;
    stand.post(TASKS, json!({ "id": "a", "due_us": 1 })).await.ok(201);
    assert_eq!(stand.get(&format!("{TASKS}/a")).await.ok(200)["state"], "ready");
    assert_eq!(stand.post("/v1/queues/q/claim", json!({})).await.ok(200)["tasks"][0]["id"], "a");
    stand.end().await;
}

#[tokio::test]
async fn names_that_cannot_be_are_refused() {
    let stand = Stand::open().await;
    let long = "x".repeat(201);
    for name in ["", " ", "a b", "a\rb", "a\nb", "a\0b", "a\u{7f}b", "{", "}", "{a}", "\u{a0}", &long] {
        let said = stand.post(TASKS, json!({ "id": name })).await;
        assert_eq!((said.status, said.code().as_str()), (422, "invalid"), "{name:?}");
        assert_eq!(said.json()["field"], "id", "{name:?}");
    }
    for path in ["/v1/queues/%7Ba%7D", "/v1/locks/a%0Ab", "/v1/sales/a%00b"] {
        assert_eq!(stand.get(path).await.code(), "invalid", "{path}");
    }
    assert!(stand.client.queues(Page::default()).await.unwrap().is_empty());
    stand.end().await;
}

#[tokio::test]
async fn batches_have_one_to_a_thousand() {
    let stand = Stand::open().await;
    let tasks = |n: usize| (0..n).map(|n| json!({ "id": n.to_string() })).collect::<Vec<_>>();
    for n in [0, 1_001] {
        let said = stand.post("/v1/queues/q/batch", json!({ "tasks": tasks(n) })).await;
        assert_eq!((said.status, said.code().as_str()), (422, "invalid"), "{n}");
    }
    assert!(stand.client.queues(Page::default()).await.unwrap().is_empty());
    stand.post("/v1/queues/q/batch", json!({ "tasks": tasks(1_000) })).await.ok(200);
    let tickets: Vec<Value> = Vec::new();
    assert_eq!(stand.post("/v1/queues/q/complete", json!({ "tickets": tickets })).await.code(), "invalid");
    stand.end().await;
}

#[tokio::test]
async fn a_wait_for_a_lock_that_is_over_says_that_it_is_held() {
    let stand = Stand::open().await;
    stand.post("/v1/locks/a/acquire", json!({ "lease_ms": 600_000 })).await.ok(201);
    let said = stand.ask(Ask::new("POST", "/v1/locks/a/acquire").json(&json!({})).wait(1)).await;
    assert_eq!((said.status, said.code().as_str()), (409, "lock_busy"));
    assert_eq!(said.header("preference-applied"), "", "a refusal applies nothing");
    assert_eq!(stand.client.lock("a").unwrap().waiters().await.unwrap().len(), 0, "no waiter is left");
    stand.end().await;
}

#[tokio::test]
async fn a_token_that_does_not_hold_the_lock_changes_nothing() {
    let stand = Stand::open().await;
    let ours = stand.post("/v1/locks/a/acquire", json!({ "lease_ms": 600_000 })).await.ok(201);
    let theirs = stand.post("/v1/locks/b/acquire", json!({ "lease_ms": 600_000 })).await.ok(201);
    for verb in ["extend", "release"] {
        let said = stand.post(&format!("/v1/locks/a/{verb}"), json!({ "token": theirs["token"] })).await;
        assert_eq!((said.status, said.code().as_str()), (409, "not_held"), "{verb}");
    }
    assert_eq!(stand.get("/v1/locks/a").await.ok(200)["holder"]["fence"], ours["fence"]);
    stand.post(TASKS, json!({ "id": "a" })).await.ok(201);
    let first = stand.post("/v1/queues/q/claim", json!({})).await.ok(200)["tasks"][0]["ticket"].clone();
    stand.post("/v1/queues/q/release", json!({ "ticket": first })).await.ok(200);
    let second = stand.post("/v1/queues/q/claim", json!({})).await.ok(200)["tasks"][0]["ticket"].clone();
    for verb in ["complete", "retry", "release"] {
        let said = stand.post(&format!("/v1/queues/q/{verb}"), json!({ "ticket": first })).await;
        assert_eq!((said.status, said.code().as_str()), (409, "stale"), "{verb}");
    }
    let extend = json!({ "ticket": first, "lease_ms": 60_000 });
    assert_eq!(stand.post("/v1/queues/q/extend", extend).await.code(), "stale");
    stand.post("/v1/queues/q/complete", json!({ "ticket": second })).await.ok(200);
    stand.end().await;
}

#[tokio::test]
async fn a_completion_is_answered_again_under_its_key_and_not_without() {
    let stand = Stand::open().await;
    stand.post(TASKS, json!({ "id": "a" })).await.ok(201);
    let ticket = stand.post("/v1/queues/q/claim", json!({})).await.ok(200)["tasks"][0]["ticket"].clone();
    let complete = async |key: &str| {
        stand.ask(Ask::new("POST", "/v1/queues/q/complete").json(&json!({ "ticket": ticket })).key(key)).await
    };
    let first = complete("one").await;
    let again = complete("one").await;
    assert_eq!((first.ok(200), again.header("idempotency-replayed")), (again.ok(200), "true"));
    assert_eq!(complete("two").await.code(), "stale");
    stand.post(TASKS, json!({ "id": "b" })).await.ok(201);
    let ticket = stand.post("/v1/queues/q/claim", json!({})).await.ok(200)["tasks"][0]["ticket"].clone();
    for verb in ["retry", "release"] {
        let ask = Ask::new("POST", &format!("/v1/queues/q/{verb}")).json(&json!({ "ticket": ticket }));
        let first = stand.ask(ask.clone().key(verb)).await;
        if verb == "retry" {
            assert_eq!(first.ok(200), stand.ask(ask.key(verb)).await.ok(200));
        } else {
            assert_eq!(first.code(), "stale", "the task was given up before");
        }
    }
    stand.end().await;
}

#[tokio::test]
async fn a_hold_that_ran_out_is_not_confirmed() {
    let stand = Stand::open().await;
    let sale = json!({ "id": "s", "hold_ms": 50, "skus": [{ "sku": "x", "units": 1 }] });
    stand.post("/v1/sales", sale).await.ok(201);
    stand.post("/v1/sales/s/open", json!({})).await.ok(200);
    let body = json!({ "buyer": "ann", "lines": [{ "sku": "x" }] });
    let hold = stand.ask(Ask::new("POST", "/v1/sales/s/reservations").json(&body).key("k")).await.ok(202);
    let path = format!("/v1/sales/s/reservations/{}", hold["id"].as_str().unwrap());
    assert_eq!(stand.ask(Ask::new("GET", &path).wait(30)).await.ok(200)["state"], "expired");
    let late = stand.post(&format!("{path}/confirm"), json!({})).await;
    assert_eq!((late.status, late.code().as_str()), (409, "decided"));
    assert_eq!(late.json()["state"], "expired");
    assert_eq!(stand.get("/v1/sales/s").await.ok(200)["skus"][0]["free"], 1);
    stand.end().await;
}

/// Either the request is refused, or the chunks are its body and the server answers nothing else.
#[tokio::test]
async fn nothing_is_smuggled_behind_a_second_length() {
    let stand = Stand::open().await;
    let task = "{\"id\":\"a\"}";
    let smuggled = "POST /v1/queues/evil/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                    Content-Length: 10\r\n\r\n{\"id\":\"b\"}";
    for (first, second) in [
        ("Content-Length: 200", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 4"),
    ] {
        let mut stream = TcpStream::connect(stand.address).await.unwrap();
        let request = format!(
            "POST {TASKS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{first}\r\n{second}\r\n\r\n\
             {:x}\r\n{task}\r\n0\r\n\r\n{smuggled}",
            task.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut said)).await;
        read.expect("the server closes the connection").unwrap();
        let said = String::from_utf8(said).unwrap();
        assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{first}: {said}");
        let queues = stand.client.queues(Page::default()).await.unwrap();
        assert!(queues.iter().all(|queue| queue.as_str() != "evil"), "{first}: {said}");
    }
    stand.end().await;
}

#[tokio::test]
async fn a_store_that_is_away_is_said_to_be_and_nothing_is_changed() {
    let mut redis = RedisSetup::new(Kind::Redis).start();
    let stand = Stand::on(&redis.url(), |server, _| server).await;
    stand.post(TASKS, json!({ "id": "a" })).await.ok(201);
    stand.get("/v1/queues/q").await.ok(200);
    redis.kill();
    // A read changes nothing, so its outcome is never unknown.
    for path in ["/v1/queues/q", "/v1/queues", "/v1/sales"] {
        assert_eq!(stand.get(path).await.code(), "unavailable", "{path}");
    }
    // The call that finds the connection broken may have been sent; later calls are not.
    let away = async || {
        let said = stand.post("/v1/locks/a/acquire", json!({})).await;
        let (code, status) = (said.code(), said.status);
        assert!(status == 503 && ["unavailable", "outcome_unknown"].contains(&code.as_str()), "{said:?}");
        code == "unavailable"
    };
    eventually(away).await;
    let ready = stand.get("/readyz").await;
    assert_eq!((ready.status, ready.code()), (503, "unavailable".to_owned()), "{ready:?}");
    assert!(ready.json()["detail"].as_str().unwrap().contains("did not answer within 2 s"), "{ready:?}");
    let metrics = async || String::from_utf8(stand.get("/metrics").await.body.to_vec()).unwrap();
    let away = metrics().await;
    assert!(away.contains("\nrushgate_store_up 0\n") && !away.contains("rushgate_queue_tasks{"), "{away}");
    assert!(away.contains("rushgate_http_requests_total{"), "what the process counts stays: {away}");
    redis.restart();
    eventually(async || stand.post("/v1/locks/b/acquire", json!({})).await.status == 201).await;
    assert!(metrics().await.contains("\nrushgate_store_up 1\n"));
    stand.end().await;
}
