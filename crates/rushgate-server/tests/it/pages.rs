//! Pages for operators and buyers.

use crate::common::{Ask, Stand};

#[tokio::test]
async fn pages_are_served_to_anybody_under_a_strict_policy() {
    let (stand, _) = Stand::with_tokens().await;
    for (path, media) in [
        ("/", "text/html"),
        ("/sales", "text/html"),
        ("/sales/phones/drop", "text/html"),
        ("/queues/mail/tasks/to:bob", "text/html"),
        ("/queues/a%2Fb", "text/html"),
        ("/locks/order:42", "text/html"),
        ("/log", "text/html"),
        ("/shop/phones", "text/html"),
        ("/docs", "text/html"),
        ("/page/live.js", "text/javascript"),
        ("/page/page.css", "text/css"),
        ("/page/vendor/preact.js", "text/javascript"),
        ("/page/vendor/uPlot.iife.min.js", "text/javascript"),
        ("/page/icon.svg", "image/svg+xml"),
        ("/page/vendor/rapidoc-min.js.gz", "text/javascript"),
    ] {
        let said = stand.get(path).await;
        assert_eq!(said.status, 200, "{path}");
        assert!(said.header("content-type").starts_with(media) && !said.body.is_empty(), "{path}");
        let policy = said.header("content-security-policy");
        // The renderer of the reference sets styles.
        let styled = if path == "/docs" { "style-src 'self' 'unsafe-inline'" } else { "" };
        let policy = policy.replace(styled, "");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(said.header("x-content-type-options"), "nosniff", "{path}");
    }
    stand.end().await;
}

#[tokio::test]
async fn the_renderer_of_the_reference_is_sent_compressed() {
    let stand = Stand::open().await;
    let said = stand.get("/page/vendor/rapidoc-min.js.gz").await;
    assert_eq!(said.header("content-encoding"), "gzip");
    assert_eq!(said.body[..2], [0x1f, 0x8b]);
    stand.end().await;
}

#[tokio::test]
async fn a_page_that_the_browser_has_is_not_sent_again() {
    let stand = Stand::open().await;
    let tag = stand.get("/").await.header("etag").to_owned();
    let again = stand.ask(Ask::new("GET", "/").header("if-none-match", &tag)).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    let other = stand.ask(Ask::new("GET", "/page/live.js").header("if-none-match", &tag)).await;
    assert_eq!(other.status, 200);
    stand.end().await;
}

#[tokio::test]
async fn what_is_no_page_is_a_problem() {
    let stand = Stand::open().await;
    for path in ["/queue", "/page/", "/page/none.js", "/page/../Cargo.toml", "/page/%2e%2e/src/lib.rs"] {
        assert_eq!(stand.get(path).await.code(), "not_found", "{path}");
    }
    assert_eq!(stand.ask(Ask::new("POST", "/")).await.code(), "method_not_allowed");
    stand.end().await;
}

#[tokio::test]
async fn a_browser_that_finds_no_page_shows_the_console() {
    let stand = Stand::open().await;
    let accepts = |path| Ask::new("GET", path).header("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
    let said = stand.ask(accepts("/sale/phones").header("if-none-match", "*")).await;
    assert_eq!((said.status, said.header("content-type")), (404, "text/html; charset=utf-8"));
    assert!(!said.body.is_empty() && said.header("etag").is_empty());
    assert_eq!(stand.ask(accepts("/v1/sale/phones")).await.code(), "not_found");
    stand.end().await;
}
