//! Health, readiness, the OpenAPI description, metrics and the event stream of the whole server.

use std::time::Duration;

use crate::body::Body;
use hyper::http::{HeaderValue, Response, header};
use percent_encoding::percent_decode_str;
use rushgate::Error;
use rushgate::store::{Page, normalized};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::app::App;
use crate::audit_log::AuditLogView;
use crate::call::{Call, Nothing};
use crate::live;
use crate::metrics::OPENMETRICS;
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Reply};
use crate::scope::Kind;

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

/// Time limit of the store check: below that of most probes, which must get the answer and its reason.
const STORE_MAX: Duration = Duration::from_secs(2);
/// Time limit of the ledger check.
const LEDGER_MAX: Duration = Duration::from_secs(1);

async fn ledger(app: &App) -> LedgerWord {
    let Some(ledger) = &app.ledger else { return LedgerWord::None };
    match timeout(LEDGER_MAX, ledger.ping()).await {
        Ok(Ok(())) => LedgerWord::Up,
        Ok(Err(_)) | Err(_) => LedgerWord::Down,
    }
}

pub(crate) async fn readyz(call: Call) -> Answer<ReadyView> {
    if call.app.closing.is_cancelled() {
        return Err(Problem::plain(Code::Closing));
    }
    // The cheapest call that every store must answer itself.
    let asked = timeout(STORE_MAX, call.app.client.sales(Page::first(1))).await;
    asked.map_err(|_| Problem::new(Code::Unavailable, "the store did not answer within 2 s"))??;
    let info = call.app.client.info();
    Ok(Reply::ok(ReadyView {
        status: "ready",
        durability: info.durability.name().to_owned(),
        server: info.server,
        ledger: ledger(&call.app).await,
    }))
}

pub(crate) async fn openapi(call: Call) -> Result<Response<Body>, Problem> {
    let mut response = Response::new(Body::from(call.app.description.clone()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Counters, and the current state of the store, as text.
pub(crate) async fn metrics(call: Call) -> Result<Response<Body>, Problem> {
    let text = call.app.metrics.text(&call.app.client, &call.caller).await?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(OPENMETRICS));
    Ok(response)
}

/// Page of the audit log.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditLogQuery {
    /// Only entries older than this position: the `next` of the previous page.
    before: Option<u64>,
    /// Page size: 1 to 1,000. Default: 100.
    #[serde(default = "audit_log_limit")]
    #[schemars(range(min = 1, max = 1_000))]
    limit: u32,
}

fn audit_log_limit() -> u32 {
    100
}

/// Lists admin actions.
pub(crate) async fn audit_log(call: Call<Nothing, AuditLogQuery>) -> Answer<AuditLogView> {
    let AuditLogQuery { before, limit } = call.query;
    Page::<String>::first(limit).check()?;
    let Some(log) = call.app.audit_log.clone() else {
        return Err(Problem::new(
            Code::NotFound,
            "the server keeps no audit log; start it with --audit-log FILE",
        ));
    };
    let caller = call.caller.clone();
    let may = move |path: &str| match place_of(path) {
        Some((kind, name)) => caller.may(kind, &name),
        // An action on no single resource is for operators without scopes.
        None => Kind::ALL.iter().all(|kind| caller.may(*kind, "")),
    };
    let read =
        tokio::task::spawn_blocking(move || log.latest(before.unwrap_or(u64::MAX), limit as usize, may));
    let view = read.await.map_err(|error| Error::bug("cannot read the audit log").caused_by(error))?;
    let unreadable = |error| Error::unavailable("cannot read the audit log").caused_by(error);
    Ok(Reply::ok(view.map_err(unreadable)?))
}

/// The resource that a path of the API names.
fn place_of(path: &str) -> Option<(Kind, String)> {
    let mut parts = path.strip_prefix("/v1/")?.split('/');
    let word = parts.next()?;
    let kind = Kind::ALL.into_iter().find(|kind| word.strip_suffix('s') == Some(kind.word()))?;
    let name = percent_decode_str(parts.next()?).decode_utf8().ok()?;
    Some((kind, normalized(&name).into_owned()))
}

/// Streams snapshots of everything.
pub(crate) async fn events(call: Call) -> Result<Response<Body>, Problem> {
    let Call { app, caller, .. } = call;
    Ok(live::of_all(&app.live, caller))
}
