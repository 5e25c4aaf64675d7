//! CORS: off by default, on for named origins, and never with browser credentials.

use crate::common::{Ask, Said, Stand};
use rushgate::store::Page;
use rushgate_server::{Server, TokenFile};
use serde_json::json;

const SHOP: &str = "https://shop.example";
const TASKS: &str = "/v1/queues/mail/tasks";

async fn stand() -> Stand {
    let origins = [SHOP, "http://localhost:5173"].map(|origin| origin.parse().unwrap()).into();
    Stand::with(|server, _| Server { origins, ..server }).await
}

fn preflight(origin: &str) -> Ask {
    Ask::new("OPTIONS", TASKS)
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,content-type,idempotency-key")
}

fn put_limits_from(origin: &str) -> Ask {
    Ask::new("POST", TASKS).header("origin", origin).json(&json!({ "id": "a" }))
}

/// CORS headers of an answer. Checks that it allows neither all origins nor credentials.
fn cors(said: &Said) -> Vec<&str> {
    assert!(!said.headers.contains_key("access-control-allow-credentials"), "{said:?}");
    assert_ne!(said.header("access-control-allow-origin"), "*");
    let names = said.headers.keys().map(|name| name.as_str());
    names.filter(|name| name.starts_with("access-control-")).collect()
}

#[tokio::test]
async fn without_origins_no_page_elsewhere_is_let_in() {
    let stand = Stand::open().await;
    let asked = stand.ask(preflight(SHOP)).await;
    assert_eq!((asked.code().as_str(), cors(&asked).len()), ("method_not_allowed", 0));
    assert_eq!(stand.ask(put_limits_from(SHOP)).await.code(), "bad_origin");
    let looked = stand.ask(Ask::new("GET", "/v1/queues").header("origin", SHOP)).await;
    assert_eq!((looked.status, cors(&looked).len(), looked.header("vary")), (200, 0, ""));
    assert!(stand.client.queues(Page::default()).await.unwrap().is_empty(), "nothing was enqueued");
    stand.end().await;
}

/// A proxy that terminates TLS reports the scheme of its client.
#[tokio::test]
async fn behind_a_proxy_an_origin_has_the_scheme_that_the_proxy_names() {
    let proxies = vec!["127.0.0.1".parse().unwrap()];
    let stand = Stand::with(|server, _| Server { proxies, ..server }).await;
    let from = |scheme: &str| put_limits_from(&format!("{scheme}://{}", stand.address));
    let said = stand.ask(from("http").header("x-forwarded-proto", "https")).await;
    assert_eq!(said.code(), "bad_origin");
    stand.ask(from("https").header("x-forwarded-proto", "https")).await.ok(201);
    assert_eq!(stand.ask(from("ftp")).await.code(), "bad_origin");
    stand.end().await;

    // The header is ignored if the client is not a trusted proxy.
    let stand = Stand::open().await;
    let own = format!("http://{}", stand.address);
    stand.ask(put_limits_from(&own).header("x-forwarded-proto", "https")).await.ok(201);
    stand.end().await;
}

#[tokio::test]
async fn a_page_that_may_ask_reads_that_there_is_no_such_route() {
    let stand = stand().await;
    let from = async |method: &str, path: &str, origin: &str| {
        stand.ask(Ask::new(method, path).header("origin", origin)).await
    };
    for (method, path, code) in [
        ("GET", "/v1/nothing", "not_found"),
        ("POST", "/", "method_not_allowed"),
        ("PATCH", "/docs", "method_not_allowed"),
    ] {
        let said = from(method, path, SHOP).await;
        assert_eq!((said.code().as_str(), said.header("access-control-allow-origin")), (code, SHOP));
        assert!(said.header("vary").contains("origin"), "{said:?}");
        let other = from(method, path, "https://other.example").await;
        assert_eq!((other.code().as_str(), cors(&other).len()), (code, 0));
    }
    stand.end().await;
}

#[tokio::test]
async fn a_preflight_of_a_named_origin_says_what_its_pages_may_send() {
    let stand = stand().await;
    for origin in [SHOP, "http://localhost:5173"] {
        let said = stand.ask(preflight(origin)).await;
        assert_eq!((said.status, said.body.len()), (204, 0));
        assert_eq!(said.header("access-control-allow-origin"), origin);
        assert_eq!(said.header("access-control-allow-methods"), "POST, GET, HEAD");
        let sent = said.header("access-control-allow-headers");
        for name in
            ["authorization", "content-type", "idempotency-key", "prefer", "if-none-match", "traceparent"]
        {
            assert!(sent.split(", ").any(|allowed| allowed == name), "{name}: {sent}");
        }
        assert!(!sent.contains("cookie") && said.header("access-control-max-age") == "600", "{said:?}");
        assert_eq!(said.header("vary"), "origin");
        cors(&said);
    }
    stand.end().await;
}

#[tokio::test]
async fn other_origins_stay_out_however_alike_they_are() {
    let stand = stand().await;
    for origin in [
        "https://shop.example.evil.example",
        "https://evil-shop.example",
        "http://shop.example",
        "https://shop.example:444",
        "https://shop.example/",
        "https://SHOP.example",
        "null",
        "*",
        "\u{e9}",
    ] {
        for ask in [preflight(origin), put_limits_from(origin)] {
            let said = stand.ask(ask).await;
            assert_eq!((said.code().as_str(), cors(&said).len()), ("bad_origin", 0), "{origin}");
            assert_eq!(said.header("vary"), "origin", "{origin}");
        }
    }
    assert!(stand.client.queues(Page::default()).await.unwrap().is_empty(), "nothing was enqueued");
    stand.end().await;
}

#[tokio::test]
async fn a_named_origins_page_writes_and_reads_answers_and_refusals_and_repeats() {
    let stand = stand().await;
    let first = stand.ask(put_limits_from(SHOP).key("k")).await;
    let other = stand.ask(put_limits_from("http://localhost:5173").key("k")).await;
    let refused = stand.ask(Ask::new("GET", "/v1/queues/mail/tasks/none").header("origin", SHOP)).await;
    assert_eq!((first.status, other.status, refused.code().as_str()), (201, 201, "not_found"));
    assert_eq!(other.header("idempotency-replayed"), "true");
    for (said, origin) in [(&first, SHOP), (&other, "http://localhost:5173"), (&refused, SHOP)] {
        assert_eq!(cors(said), ["access-control-allow-origin", "access-control-expose-headers"]);
        assert_eq!((said.header("access-control-allow-origin"), said.header("vary")), (origin, "origin"));
        let read = said.header("access-control-expose-headers");
        for name in ["location", "retry-after", "etag", "preference-applied"] {
            assert!(read.split(", ").any(|exposed| exposed == name), "{name}: {read}");
        }
    }
    stand.end().await;
}

#[tokio::test]
async fn a_write_that_a_browser_sends_for_another_site_is_refused_without_an_origin_too_with_cookies_or_none()
{
    let stand = stand().await;
    let ask = || Ask::new("POST", TASKS).json(&json!({ "id": "a" }));
    for site in ["cross-site", "same-site"] {
        assert_eq!(stand.ask(ask().header("sec-fetch-site", site)).await.code(), "bad_origin", "{site}");
        let with_cookie = ask().header("sec-fetch-site", site).header("cookie", "session=1");
        assert_eq!(stand.ask(with_cookie).await.code(), "bad_origin", "{site}");
    }
    assert!(stand.client.queues(Page::default()).await.unwrap().is_empty(), "nothing was enqueued");
    for site in ["same-origin", "none"] {
        assert!(stand.ask(ask().header("sec-fetch-site", site)).await.status < 300, "{site}");
    }
    stand.end().await;
}

#[tokio::test]
async fn a_named_origin_is_no_token() {
    let stand = Stand::with(|server, dir| {
        let tokens = Some(TokenFile::at(dir.path().join("tokens.json")));
        Server { tokens, origins: vec![SHOP.parse().unwrap()], ..server }
    })
    .await;
    assert_eq!(stand.ask(preflight(SHOP)).await.status, 204, "browsers send no token with a preflight");
    let said = stand.ask(put_limits_from(SHOP)).await;
    assert_eq!((said.code().as_str(), said.header("access-control-allow-origin")), ("unauthorized", SHOP));
    stand.end().await;
}
