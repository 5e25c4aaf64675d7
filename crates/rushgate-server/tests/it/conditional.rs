//! Unchanged answers are not sent again.

use crate::common;
use crate::common::{Ask, Said, Stand};
use serde_json::json;

async fn again(stand: &Stand, path: &str, tag: &str) -> Said {
    stand.ask(Ask::new("GET", path).header("if-none-match", tag)).await
}

/// Requests the path twice, the second time with the tag of the first answer, and returns the tag.
async fn is_sent_once(stand: &Stand, path: &str) -> String {
    let first = stand.get(path).await;
    first.ok(200);
    let tag = first.header("etag").to_owned();
    assert!(
        tag.starts_with("W/\"") && first.header("cache-control") == "private, no-cache",
        "{path}: {first:?}"
    );
    for known in
        [tag.clone(), tag.trim_start_matches("W/").to_owned(), format!("\"x\", {tag}"), "*".to_owned()]
    {
        let said = again(stand, path, &known).await;
        assert_eq!(
            (said.status, said.body.len(), said.header("etag")),
            (304, 0, tag.as_str()),
            "{path} {known}"
        );
        assert_eq!(said.header("content-type"), "", "{path}");
    }
    again(stand, path, "\"another\"").await.ok(200);
    tag
}

async fn is_sent_again(stand: &Stand, path: &str, tag: &str) {
    let said = again(stand, path, tag).await;
    assert_eq!((said.status, said.header("etag") == tag), (200, false), "{path}");
}

#[tokio::test]
async fn a_queue_and_its_task_are_sent_again_only_when_they_change_and_its_age_does_not_count() {
    let stand = Stand::open().await;
    stand.post("/v1/queues/q/tasks", json!({ "id": "a", "payload": 1 })).await.ok(201);
    let (queue, task) = ("/v1/queues/q", "/v1/queues/q/tasks/a");
    let queue_tag = is_sent_once(&stand, queue).await;
    let task_tag = is_sent_once(&stand, task).await;
    let tasks_tag = is_sent_once(&stand, "/v1/queues/q/tasks").await;
    let age = async || stand.get(queue).await.ok(200)["lag_ms"].as_u64().unwrap();
    let before = age().await;
    common::eventually(async || age().await > before).await;
    assert_eq!(again(&stand, queue, &queue_tag).await.status, 304);
    stand.post("/v1/queues/q/claim", json!({ "lease_ms": 60_000 })).await.ok(200);
    is_sent_again(&stand, queue, &queue_tag).await;
    is_sent_again(&stand, task, &task_tag).await;
    is_sent_again(&stand, "/v1/queues/q/tasks", &tasks_tag).await;
    stand.end().await;
}

#[tokio::test]
async fn a_lock_is_sent_again_only_when_it_changes() {
    let stand = Stand::open().await;
    let free = is_sent_once(&stand, "/v1/locks/l").await;
    let none = is_sent_once(&stand, "/v1/locks").await;
    stand.post("/v1/locks/l/acquire", json!({ "lease_ms": 60_000 })).await.ok(201);
    is_sent_again(&stand, "/v1/locks/l", &free).await;
    is_sent_again(&stand, "/v1/locks", &none).await;
    is_sent_once(&stand, "/v1/locks/l").await;
    stand.end().await;
}

#[tokio::test]
async fn a_sale_and_a_reservation_are_sent_again_only_when_they_change_and_the_clock_does_not_count() {
    let stand = Stand::open().await;
    let sale = json!({ "id": "s", "skus": [{ "sku": "x", "units": 2 }] });
    stand.post("/v1/sales", sale).await.ok(201);
    stand.post("/v1/sales/s/open", json!({})).await.ok(200);
    let clock = async || stand.get("/v1/sales/s").await.ok(200)["now_us"].as_u64().unwrap();
    let (tag, before) = (is_sent_once(&stand, "/v1/sales/s").await, clock().await);
    common::eventually(async || clock().await > before).await;
    assert_eq!(again(&stand, "/v1/sales/s", &tag).await.status, 304);
    let body = json!({ "buyer": "ann", "lines": [{ "sku": "x" }] });
    let hold = stand.ask(Ask::new("POST", "/v1/sales/s/reservations").key("k").json(&body)).await.ok(202);
    is_sent_again(&stand, "/v1/sales/s", &tag).await;
    let path = format!("/v1/sales/s/reservations/{}", hold["id"].as_str().unwrap());
    let held = is_sent_once(&stand, &path).await;
    stand.post(&format!("{path}/cancel"), json!({})).await.ok(200);
    is_sent_again(&stand, &path, &held).await;
    stand.end().await;
}

#[tokio::test]
async fn refusals_have_no_tag_and_a_known_one_does_not_hide_them() {
    let stand = Stand::open().await;
    let said = again(&stand, "/v1/queues/q/tasks/none", "*").await;
    assert_eq!((said.code().as_str(), said.header("etag")), ("not_found", ""));
    stand.end().await;
    let (stand, _) = Stand::with_tokens().await;
    assert_eq!(again(&stand, "/v1/queues/q", "*").await.code(), "unauthorized");
    stand.end().await;
}

#[tokio::test]
async fn the_description_says_which_answers_have_a_tag() {
    let stand = Stand::open().await;
    let described = stand.get("/openapi.json").await.ok(200);
    for path in
        ["/v1/locks/{lock}", "/v1/queues/{queue}", "/v1/queues/{queue}/tasks/{task}", "/v1/sales/{sale}"]
    {
        let of = &described["paths"][path]["get"];
        assert!(of["responses"]["200"]["headers"]["ETag"].is_object(), "{path}");
        assert!(of["responses"]["304"].is_object() && of["responses"]["304"]["content"].is_null(), "{path}");
        let names = of["parameters"].as_array().unwrap().iter().map(|parameter| &parameter["name"]);
        assert!(names.into_iter().any(|name| name == "If-None-Match"), "{path}");
    }
    assert!(described["paths"]["/v1/queues/{queue}/top"]["get"]["responses"]["304"].is_null());
    stand.end().await;
}
