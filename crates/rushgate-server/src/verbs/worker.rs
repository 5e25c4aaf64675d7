//! Workers of a queue over HTTP.

use std::time::Duration;

use rushgate::lock::Lease;
use rushgate::queue::{Announce, WorkerId, WorkerInfo, WorkerMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PageQuery, PageView};
use crate::call::{Call, Nothing};
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Reply};

pub(crate) async fn workers(call: Call<Nothing, PageQuery>) -> Answer<PageView<WorkerInfo>> {
    let workers = call.queue()?.workers((&call.query).into()).await?;
    Ok(Reply::ok(PageView::of(workers, call.query.limit, |worker| worker.id.as_str(), Some)))
}

/// A worker that lives.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnnounceBody {
    /// Name under which it claims: at most 200 bytes without control characters. Default: empty.
    #[serde(default)]
    #[schemars(extend("pattern" = rushgate::wire::schema::LABEL))]
    name: String,
    /// Program and version: at most 200 bytes without control characters. Default: empty.
    #[serde(default)]
    #[schemars(extend("pattern" = rushgate::wire::schema::LABEL))]
    version: String,
    /// Number of tasks that it runs at a time: 1 to 1,000,000. Default: 1.
    #[serde(default = "concurrency")]
    #[schemars(range(min = 1, max = 1_000_000))]
    concurrency: u32,
    /// Number of tasks of this queue that it runs now: at most 1,000,000. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 1_000_000))]
    running: u32,
    /// How long it is listed without another announcement, in milliseconds: 10 to 86,400,000. Default: 30,000. Announce
    /// it every 10 s.
    #[serde(default = "lease_ms")]
    #[schemars(range(min = 10, max = 86_400_000))]
    lease_ms: u64,
}

fn concurrency() -> u32 {
    1
}

fn lease_ms() -> u64 {
    30_000
}

/// What an operator asked of a worker.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModeView {
    /// What it is to do.
    mode: WorkerMode,
}

pub(crate) async fn announce(call: Call<AnnounceBody>) -> Answer<ModeView> {
    let (queue, id) = (call.queue()?, WorkerId::new(call.path.get("worker"))?);
    let AnnounceBody { name, version, concurrency, running, lease_ms } = call.body;
    let lease = Some(Lease::new(Duration::from_millis(lease_ms))?);
    let mode = queue.announce(Announce { id, name, version, concurrency, running, lease }).await?;
    Ok(Reply::ok(ModeView { mode }))
}

/// Outcome of removing a worker from the list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub(crate) enum WorkerEndedView {
    /// It is listed no more.
    Ended,
}

pub(crate) async fn end_worker(call: Call) -> Answer<WorkerEndedView> {
    let id = WorkerId::new(call.path.get("worker"))?;
    call.queue()?.announce(Announce::end(id)).await?;
    Ok(Reply::ok(WorkerEndedView::Ended))
}

pub(crate) async fn set_worker(call: Call<ModeView>) -> Answer<ModeView> {
    let (id, mode) = (WorkerId::new(call.path.get("worker"))?, call.body.mode);
    match call.queue()?.set_worker(&id, mode).await? {
        true => Ok(Reply::ok(ModeView { mode })),
        false => Err(Problem::new(Code::NotFound, "no such worker")),
    }
}
