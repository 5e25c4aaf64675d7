//! Health, readiness, the OpenAPI description, metrics and the event stream of the whole server.

use std::time::Duration;

use crate::body::Body;
use hyper::http::{HeaderValue, Response, header};
use rushgate::store::Page;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::timeout;

use crate::call::Call;
use crate::events;
use crate::metrics::OPENMETRICS;
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Reply};
use crate::shop::Shop;

/// Health: the process answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HealthView {
    /// `ok`.
    status: &'static str,
}

pub(crate) async fn healthz(_: Call) -> Answer<HealthView> {
    Ok(Reply::ok(HealthView { status: "ok" }))
}

/// Readiness: the store answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ReadyView {
    /// `ready`.
    status: &'static str,
    /// What an acknowledged write survives: D0 nothing, D1 the death of a process, D2 a power cut, D3 the loss of a
    /// machine.
    durability: String,
    /// The store's software and version.
    server: String,
    /// The ledger to which this server writes orders. While it is down the server sells, and orders wait.
    ledger: LedgerWord,
}

/// State of the ledger.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LedgerWord {
    /// The server has no ledger.
    None,
    /// The ledger answers and accepts writes.
    Up,
    /// The ledger does not accept writes, or did not answer within one second.
    Down,
}

/// Time limit of the ledger check.
const LEDGER_MAX: Duration = Duration::from_secs(1);

async fn ledger(shop: &Shop) -> LedgerWord {
    let Some(ledger) = &shop.ledger else { return LedgerWord::None };
    match timeout(LEDGER_MAX, ledger.ping()).await {
        Ok(Ok(())) => LedgerWord::Up,
        Ok(Err(_)) | Err(_) => LedgerWord::Down,
    }
}

pub(crate) async fn readyz(call: Call) -> Answer<ReadyView> {
    if call.shop.closing.is_cancelled() {
        return Err(Problem::plain(Code::Closing));
    }
    // The cheapest call that every store must answer itself.
    call.shop.gate.sales(Page::first(1)).await?;
    let info = call.shop.gate.info();
    Ok(Reply::ok(ReadyView {
        status: "ready",
        durability: info.durability.name().to_owned(),
        server: info.server,
        ledger: ledger(&call.shop).await,
    }))
}

pub(crate) async fn openapi(call: Call) -> Result<Response<Body>, Problem> {
    let mut response = Response::new(Body::from(call.shop.description.clone()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Counters, and the current state of the store, as text.
pub(crate) async fn metrics(call: Call) -> Result<Response<Body>, Problem> {
    let text = call.shop.metrics.text(&call.shop.gate, &call.caller).await?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(OPENMETRICS));
    Ok(response)
}

/// Streams snapshots of everything.
pub(crate) async fn events(call: Call) -> Result<Response<Body>, Problem> {
    let Call { shop, caller, .. } = call;
    Ok(events::of_all(&shop.live, caller))
}
