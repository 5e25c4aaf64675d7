//! Bad input: the answer is a problem with its code, never a 500, and nothing is changed.

use std::time::Duration;

use crate::common::{Ask, Stand};
use rushgate::store::Page;
use rushgate_server::Server;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TASKS: &str = "/v1/queues/q/tasks";

#[tokio::test]
async fn a_body_that_is_not_what_was_expected_is_refused_with_its_code() {
    let stand = Stand::open().await;
    let deep = format!("{{\"id\":\"a\",\"payload\":{}{}}}", "[".repeat(40), "]".repeat(40));
    for (body, status, code, field) in [
        ("{", 400, "malformed_json", ""),
        ("{\"id\":\"a\"}}", 400, "malformed_json", ""),
        ("{\"id\":\"a\"} x", 400, "malformed_json", ""),
        ("{\"id\":\"a\",\"id\":\"b\"}", 400, "malformed_json", "id"),
        ("\u{feff}{\"id\":\"a\"}", 400, "malformed_json", ""),
        ("\u{c}{\"id\":\"a\"}", 400, "malformed_json", ""),
        (" ", 400, "malformed_json", ""),
        ("nul", 400, "malformed_json", ""),
        ("null", 422, "invalid", ""),
        ("{\"id\":\"a\",\"delay_ms\":NaN}", 400, "malformed_json", ""),
        (&deep, 400, "malformed_json", ""),
        ("{\"id\":\"a\",\"dalay_ms\":5}", 400, "unknown_field", "dalay_ms"),
        ("[]", 422, "invalid", ""),
        ("[\"a\"]", 422, "invalid", ""),
        ("{}", 422, "invalid", "id"),
        ("{\"id\":5}", 422, "invalid", "id"),
        ("{\"id\":\"\"}", 422, "invalid", "id"),
        ("{\"id\":\"a b\"}", 422, "invalid", "id"),
        ("{\"id\":\"{a}\"}", 422, "invalid", "id"),
        ("{\"id\":\"a\\u0000\"}", 422, "invalid", "id"),
        ("{\"id\":\"a\",\"delay_ms\":1.5}", 422, "invalid", "delay_ms"),
        ("{\"id\":\"a\",\"delay_ms\":\"5\"}", 422, "invalid", "delay_ms"),
        ("{\"id\":\"a\",\"delay_ms\":-1}", 422, "invalid", "delay_ms"),
        ("{\"id\":\"a\",\"delay_ms\":1e400}", 422, "invalid", "delay_ms"),
        ("{\"id\":\"a\",\"delay_ms\":99999999999999999999}", 422, "invalid", "delay_ms"),
        ("{\"id\":\"a\",\"priority\":10}", 422, "invalid", "priority"),
        ("{\"id\":\"a\",\"on_duplicate\":\"perhaps\"}", 422, "invalid", "on_duplicate"),
        ("{\"id\":\"a\",\"on_duplicate\":\"debounce\"}", 422, "invalid", "max_wait_ms"),
        ("{\"id\":\"a\",\"max_attempts\":0}", 422, "invalid", ""),
        ("{\"id\":\"a\",\"delay_ms\":34560000001}", 422, "invalid", ""),
        ("{\"id\":\"a\",\"delay_ms\":1,\"due_us\":1}", 422, "invalid", "delay_ms"),
    ] {
        let said = stand.ask(Ask::new("POST", TASKS).raw("application/json", body.as_bytes())).await;
        assert_eq!((said.status, said.code().as_str()), (status, code), "{body}");
        if !field.is_empty() {
            assert_eq!(said.json()["field"], field, "{body}");
        }
    }
    let said = stand.ask(Ask::new("POST", TASKS).raw("application/json", b"{\"id\":\"\xff\"}")).await;
    assert_eq!(said.code(), "malformed_json");
    let batch = json!({ "tasks": [{ "id": "a" }, { "id": "b", "dalay_ms": 1 }] });
    let said = stand.post("/v1/queues/q/batch", batch).await;
    assert_eq!(
        (said.code().as_str(), said.json()["field"].as_str()),
        ("unknown_field", Some("tasks[1].dalay_ms"))
    );
    let said = stand.post("/v1/queues/q/batch", json!({ "tasks": [["a"]] })).await;
    assert_eq!((said.code().as_str(), said.json()["field"].as_str()), ("invalid", Some("tasks[0]")));
    assert!(stand.client.queues(Page::default()).await.unwrap().is_empty(), "nothing was enqueued");
    stand.end().await;
}

#[tokio::test]
async fn a_whole_number_may_be_written_as_a_float() {
    let stand = Stand::open().await;
    let body = b"{\"id\":\"a\",\"delay_ms\":60000.0,\"payload\":1.0}";
    stand.ask(Ask::new("POST", TASKS).raw("application/json", body)).await.ok(201);
    let task = stand.get("/v1/queues/q/tasks/a").await.ok(200);
    assert_eq!(task["state"], "scheduled");
    assert_eq!(task["payload"].to_string(), "1.0", "content stays as it was written");
    stand.end().await;
}

#[tokio::test]
async fn a_body_of_another_kind_is_refused() {
    let stand = Stand::open().await;
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "",
        "application/json; charset=latin1",
    ] {
        let said = stand.ask(Ask::new("POST", TASKS).raw(content_type, b"{\"id\":\"a\"}")).await;
        assert_eq!((said.status, said.code().as_str()), (415, "unsupported_media_type"), "{content_type}");
    }
    let zipped =
        Ask::new("POST", TASKS).raw("application/json", b"{\"id\":\"a\"}").header("content-encoding", "gzip");
    assert_eq!(stand.ask(zipped).await.code(), "unsupported_media_type");
    let with_charset = Ask::new("POST", TASKS).raw("Application/JSON; charset=utf-8", b"{\"id\":\"a\"}");
    stand.ask(with_charset).await.ok(201);
    stand.end().await;
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_it_is_read() {
    let stand = Stand::open().await;
    let said = stand.post("/v1/queues/q/claim", json!({ "x": "y".repeat(70_000) })).await;
    assert_eq!((said.status, said.code().as_str()), (413, "payload_too_large"));
    let head = "POST /v1/queues/q/claim HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n";
    let said = raw(&stand, head.as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 413") && said.contains("connection: close"), "{said}");
    let most = json!({ "id": "a", "payload": "x".repeat((1 << 20) - 2) });
    stand.post(TASKS, most).await.ok(201);
    let more = json!({ "id": "b", "payload": "x".repeat((1 << 20) - 1) });
    assert_eq!(stand.post(TASKS, more).await.code(), "invalid");
    for path in ["/v1/queues/", "/page/", "/nowhere/"] {
        let said = stand.get(&format!("{path}{}", "x".repeat(5_000))).await;
        assert_eq!((said.status, said.code().as_str()), (414, "uri_too_long"), "{path}");
    }
    let many = (0..120).fold(Ask::new("GET", "/v1/queues"), |ask, n| ask.header(&format!("x-{n}"), "1"));
    assert_eq!(stand.ask(many).await.code(), "headers_too_large");
    let heavy = Ask::new("GET", "/v1/queues").header("x-heavy", &"x".repeat(20_000));
    let said = stand.ask(heavy).await;
    assert_eq!((said.status, said.code().as_str()), (431, "headers_too_large"));
    stand.end().await;
}

#[tokio::test]
async fn paths_methods_and_queries_that_do_not_exist_are_refused() {
    let stand = Stand::open().await;
    for path in ["/page/none.js", "/v1", "/v1/queue", "/v1/queues/q/", "/v2/queues"] {
        assert_eq!(stand.get(path).await.code(), "not_found", "{path}");
    }
    let said = stand.ask(Ask::new("PATCH", "/v1/queues/q/tasks/t")).await;
    assert_eq!(
        (said.status, said.code().as_str(), said.header("allow")),
        (405, "method_not_allowed", "GET, DELETE, HEAD")
    );
    assert_eq!(stand.ask(Ask::new("TRACE", "/v1/queues")).await.code(), "method_not_allowed");
    for (query, code) in [
        ("limit=0", "invalid"),
        ("limit=10001", "invalid"),
        ("limit=1e9", "invalid"),
        ("limit=many", "invalid"),
        ("state=asleep", "invalid"),
        ("limit=1&limit=2", "invalid"),
        ("sort=%3Bdrop", "unknown_field"),
    ] {
        assert_eq!(stand.get(&format!("{TASKS}?{query}")).await.code(), code, "{query}");
    }
    assert_eq!(stand.get("/v1/queues/%ff").await.code(), "bad_path");
    assert_eq!(stand.get("/v1/queues/a%20b").await.code(), "invalid");
    let head = stand.ask(Ask::new("HEAD", "/healthz")).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    stand.end().await;
}

#[tokio::test]
async fn a_key_that_is_none_is_refused() {
    let stand = Stand::open().await;
    for key in ["", "a b", &"x".repeat(129)] {
        let said = stand.ask(Ask::new("POST", TASKS).json(&json!({ "id": "a" })).key(key)).await;
        assert_eq!(said.code(), "idempotency_key_invalid", "{key}");
    }
    let twice = Ask::new("POST", TASKS).json(&json!({ "id": "a" })).key("a").key("b");
    assert_eq!(stand.ask(twice).await.code(), "idempotency_key_invalid");
    stand.end().await;
}

#[tokio::test]
async fn other_pages_and_other_names_are_kept_out() {
    let stand = Stand::open().await;
    let own = format!("http://{}", stand.address);
    let write = |origin: &str| Ask::new("POST", TASKS).json(&json!({ "id": "a" })).header("origin", origin);
    stand.ask(write(&own)).await.ok(201);
    for origin in ["http://evil.example", "null", "http://127.0.0.1"] {
        let said = stand.ask(write(origin)).await;
        assert_eq!((said.status, said.code().as_str()), (403, "bad_origin"), "{origin}");
    }
    for (host, status) in
        [("localhost:7979", 200), ("[::1]:7979", 200), ("127.0.0.9", 200), ("evil.example", 421)]
    {
        assert_eq!(
            stand.ask(Ask::new("GET", "/v1/queues").header("host", host)).await.status,
            status,
            "{host}"
        );
    }
    stand.end().await;
}

#[tokio::test]
async fn a_name_has_one_spelling_and_nothing_invisible() {
    let stand = Stand::open().await;
    let sale = json!({ "id": "phones", "skus": [{ "sku": "phone", "units": 5 }] });
    stand.post("/v1/sales", sale).await.ok(201);
    stand.post("/v1/sales/phones/open", json!({})).await.ok(200);
    let reserve = |buyer: &str, key: &str| {
        let body = json!({ "buyer": buyer, "lines": [{ "sku": "phone" }] });
        stand.ask(Ask::new("POST", "/v1/sales/phones/reservations").json(&body).key(key))
    };
    let (composed, decomposed) = ("Zo\u{eb}", "Zoe\u{308}");
    assert_eq!(reserve(decomposed, "first").await.ok(202)["buyer"], composed);
    assert_eq!(reserve(composed, "second").await.code(), "limit_reached");
    for wrong in [".", "..", "a\u{202e}b", "a\u{200b}", "\u{feff}a"] {
        let said = reserve(wrong, "k").await;
        assert_eq!(
            (said.code().as_str(), said.json()["field"].as_str()),
            ("invalid", Some("buyer")),
            "{wrong:?}"
        );
    }
    stand.post("/v1/queues/Zo%C3%AB/tasks", json!({ "id": "a" })).await.ok(201);
    assert_eq!(stand.get("/v1/queues/Zoe%CC%88/tasks/a").await.ok(200)["id"], "a");
    assert_eq!(stand.get("/v1/queues/%2E%2E").await.code(), "invalid");
    stand.end().await;
}

/// Sends raw bytes, and reads until the server closes the connection.
async fn raw(stand: &Stand, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(stand.address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut said = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut said)).await;
    read.expect("the server closes the connection").unwrap();
    String::from_utf8(said).unwrap()
}

#[tokio::test]
async fn bytes_that_are_no_http_end_the_connection() {
    let stand = Stand::open().await;
    for (bytes, status) in [
        (&b"hello\r\n\r\n"[..], "HTTP/1.1 400"),
        (b"POST /v1/queues/q/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "HTTP/1.1 400"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: \x01\r\n\r\n", "HTTP/1.1 400"),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n", "HTTP/1.1 400"),
        (b"POST /v1/queues/q/tasks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "HTTP/1.1 400"),
        (b"POST /v1/queues/q/tasks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: identity, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "HTTP/1.1 400"),
        (b"POST /v1/queues/q/tasks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "HTTP/1.1 400"),
    ] {
        let said = raw(&stand, bytes).await;
        assert!(said.starts_with(status), "{:?}: {said}", String::from_utf8_lossy(bytes));
    }
    stand.get("/healthz").await.ok(200);
    stand.end().await;
}

#[tokio::test]
async fn a_body_that_breaks_off_changes_nothing() {
    let stand = Stand::open().await;
    let mut stream = TcpStream::connect(stand.address).await.unwrap();
    let head = format!(
        "POST {TASKS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(b"{\"id\":\"a\"}").await.unwrap();
    drop(stream);
    assert!(stand.client.queues(Page::default()).await.unwrap().is_empty());
    assert!(stand.end().await.is_orderly);
}

#[tokio::test]
async fn who_sends_too_slowly_loses_the_connection() {
    let stand = Stand::with(|server, _| Server { arrival: Duration::from_millis(50), ..server }).await;
    // The request never completes: the server must not wait for it.
    let said = raw(&stand, b"GET /healthz HTTP/1.1\r\nHost: local").await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}");
    let head = format!(
        "POST {TASKS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{{"
    );
    let said = raw(&stand, head.as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 408") && said.contains("request_timeout"), "{said}");
    assert!(stand.client.queues(Page::default()).await.unwrap().is_empty());
    stand.end().await;
}

/// The body of a refused request may come before or after the answer; the connection stays open for the next
/// request.
#[tokio::test]
async fn a_request_that_is_refused_early_leaves_the_connection_to_the_next() {
    let (stand, _) = Stand::with_tokens().await;
    let length = 300_000;
    for path in ["/v1/queues/q/tasks", "/nowhere", "/", "/v1/queues/q/claim"] {
        let mut stream = TcpStream::connect(stand.address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        let next = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; length]).await.unwrap();
        stream.write_all(next.as_bytes()).await.unwrap();
        let mut said = String::new();
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_string(&mut said)).await;
        read.expect("the server closes the connection").unwrap();
        assert!(said.starts_with("HTTP/1.1 4") && said.contains("HTTP/1.1 200"), "{path}: {said}");
    }
    stand.end().await;
}

/// A client that waits for `100 Continue` and is refused does not send its body.
#[tokio::test]
async fn a_body_that_waits_to_be_asked_for_is_not_asked_for_in_vain() {
    let (stand, _) = Stand::with_tokens().await;
    let head = format!(
        "POST {TASKS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
    );
    let said = raw(&stand, head.as_bytes()).await;
    assert!(said.starts_with("HTTP/1.1 401") && said.contains("connection: close"), "{said}");
    stand.end().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_reads_nothing_loses_the_connection() {
    let stand = Stand::with(|server, _| Server { arrival: Duration::from_millis(200), ..server }).await;
    let mut stream = TcpStream::connect(stand.address).await.unwrap();
    let ask = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    // Most answers fit into the buffers, so send more requests than the two sides can buffer.
    let written = async {
        loop {
            if stream.write_all(ask.as_bytes()).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), written).await.expect("the server ends the connection");
    stand.get("/healthz").await.ok(200);
    stand.end().await;
}

#[tokio::test]
async fn a_page_of_large_tasks_is_short_and_says_that_more_follow() {
    let stand = Stand::open().await;
    for n in 0..20 {
        stand
            .post(TASKS, json!({ "id": format!("{n:02}"), "payload": "x".repeat(1 << 20).split_off(2) }))
            .await
            .ok(201);
    }
    let (mut seen, mut after) = (0, String::new());
    loop {
        let page = stand.get(&format!("{TASKS}?limit=10000&after={after}")).await.ok(200);
        let items = page["items"].as_array().unwrap().len();
        assert!(items <= 16, "{items}");
        seen += items;
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen, 20);
    stand.end().await;
}

/// 4,096 connections, Linux's default backlog, or half of this system's limit. A listener without an explicit
/// backlog has 1,024.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_crowd_that_comes_within_a_moment_waits_to_be_accepted() {
    let most: usize =
        std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse().unwrap();
    let crowd = most.min(4_096) / 2;
    let client = rushgate::Rushgate::connect("sqlite::memory:").await.unwrap();
    // The server listens, but accepts no connection yet.
    let bound = Server::new(client.clone()).bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    for n in 0..crowd {
        // A connection stays in the backlog after the client closes it, so this needs only one file
        // descriptor.
        let coming = TcpStream::connect(bound.address());
        let came = tokio::time::timeout(Duration::from_secs(10), coming).await;
        assert!(matches!(came, Ok(Ok(_))), "{n} of {crowd}: {came:?}");
    }
    drop(bound);
    client.close().await.unwrap();
}
