//! Locks over HTTP. The client keeps the token and passes it to extend and release.

use std::time::Duration;

use rushgate::{
    Holder, Lock, LockGuard, LockOutcome, LockState, Owner, QueueName, ReleasedWith, Token, WaiterState,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::queue::{EnqueuedView, TaskBody, entered};
use super::{PageQuery, PageView, millis};
use crate::access::Kind;
use crate::call::{Call, Nothing};
use crate::openapi::{LABEL, NameText, TokenText};
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Owed, Reply};

/// How to acquire a lock.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireBody {
    /// Lease duration in milliseconds: 10 to 86,400,000. Default: 15,000.
    #[serde(default = "lease_ms")]
    #[schemars(range(min = 10, max = 86_400_000))]
    lease_ms: u64,
    /// What the holder does, as shown to operators: at most 200 bytes without control characters.
    #[serde(default)]
    #[schemars(extend("pattern" = LABEL))]
    label: String,
    /// Whether to take a free lock ahead of the wait queue.
    #[serde(default)]
    barging: bool,
}

fn lease_ms() -> u64 {
    millis(Lock::LEASE)
}

/// An acquired lock.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GrantView {
    /// Name of the lock.
    name: String,
    /// Secret proof of this acquisition. Pass it to extend and release.
    token: String,
    /// Fencing token, greater than that of every earlier grant. Let the protected resource refuse smaller ones.
    fence: u64,
    /// How long the lock is certainly held, in milliseconds, unless it is extended.
    lease_left_ms: u64,
}

pub(crate) async fn acquire(call: Call<AcquireBody>) -> Answer<GrantView> {
    let lease = Duration::from_millis(call.body.lease_ms);
    let mut lock = call.lock()?.lease(lease).wait(call.wait).label(&call.body.label);
    if call.body.barging {
        lock = lock.barging();
    }
    if let Some(key) = &call.key {
        // A different body makes a different token, so that no process treats it as the same acquisition.
        let AcquireBody { lease_ms, label, barging } = &call.body;
        let body = format!("{lease_ms} {barging} {label}");
        let token = call.caller.derive(&["lock", call.path.get("lock"), key, &body]);
        lock = lock.with_token(Token::from_bytes(token));
    }
    match call.unless_closing(lock.acquire()).await? {
        LockOutcome::Held(guard) => {
            let view = GrantView {
                name: guard.name().to_string(),
                token: guard.token().to_string(),
                fence: guard.fence().as_u64(),
                lease_left_ms: millis(guard.held().time_left()),
            };
            Ok(Reply::created(view).owing(HeldLock(guard)))
        }
        LockOutcome::Busy(busy) => {
            let problem =
                Problem::plain(Code::LockBusy).retry_after(busy.retry_after).with("waiters", busy.waiters);
            Err(match busy.position {
                Some(position) => problem.with("position", position),
                None => problem,
            })
        }
    }
}

/// A lock whose token is on its way to the client. If the answer cannot be delivered the lock is released.
struct HeldLock(LockGuard);

impl Owed for HeldLock {
    fn delivered(self: Box<Self>) {
        self.0.into_token();
    }
}

/// The lease to extend.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendBody {
    /// Token of the acquisition.
    #[schemars(with = "TokenText")]
    token: Token,
    /// New lease duration from now, in milliseconds: 10 to 86,400,000. Default: 15,000.
    #[serde(default = "lease_ms")]
    #[schemars(range(min = 10, max = 86_400_000))]
    lease_ms: u64,
}

pub(crate) async fn extend(call: Call<ExtendBody>) -> Answer<GrantView> {
    let (lock, token) = (call.lock()?, call.body.token);
    match lock.extend(token, Duration::from_millis(call.body.lease_ms)).await? {
        Some(grant) => Ok(Reply::ok(GrantView {
            name: lock.name().to_string(),
            token: token.to_string(),
            fence: grant.fence.as_u64(),
            lease_left_ms: millis(grant.lease_left),
        })),
        None => Err(Problem::plain(Code::NotHeld)),
    }
}

/// The lock to release.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseBody {
    /// Token of the acquisition.
    #[schemars(with = "TokenText")]
    token: Token,
}

/// Outcome of a release.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub(crate) enum ReleasedView {
    /// The token held the lock and has released it.
    Released,
}

pub(crate) async fn release(call: Call<ReleaseBody>) -> Answer<ReleasedView> {
    match call.lock()?.release(call.body.token).await? {
        rushgate::lock::Released::Released => Ok(Reply::ok(ReleasedView::Released)),
        rushgate::lock::Released::NotHeld => Err(Problem::plain(Code::NotHeld)),
    }
}

/// The lock to release, and the task to enqueue in the same step.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseWithBody {
    /// Token of the acquisition.
    #[schemars(with = "TokenText")]
    token: Token,
    /// Queue of the task.
    #[schemars(with = "NameText")]
    queue: QueueName,
    /// The task.
    task: TaskBody,
}

pub(crate) async fn release_with(call: Call<ReleaseWithBody>) -> Answer<EnqueuedView> {
    let lock = call.lock()?;
    let ReleaseWithBody { token, queue, task } = call.body;
    if !call.caller.may(Kind::Queue, queue.as_str()) {
        return Err(Problem::new(Code::Forbidden, "the token's scopes do not cover this queue"));
    }
    let queue = call.shop.gate.queue(queue.as_str())?;
    match lock.release_with(token, queue.enqueue_new(task.try_into()?)).await? {
        ReleasedWith::Released(enqueued) | ReleasedWith::NotTaken(enqueued) => entered(enqueued),
        ReleasedWith::NotHeld => Err(Problem::plain(Code::NotHeld)),
    }
}

/// Outcome of a forced release.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ForcedView {
    /// The holder that lost the lock. Absent if the lock was free.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_by: Option<HolderView>,
}

pub(crate) async fn force_release(call: Call) -> Answer<ForcedView> {
    let name = call.path.get("lock");
    let holder = call.shop.gate.force_release(name).await?;
    Ok(Reply::ok(ForcedView { lost_by: holder.as_ref().map(HolderView::from) }))
}

/// A lock, its holder and its wait queue.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LockView {
    /// Name of the lock.
    name: String,
    /// The holder. Absent if the lock is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<HolderView>,
    /// The waiters, next in line first.
    waiters: Vec<WaiterView>,
}

/// The holder of a lock. Its token is never shown.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HolderView {
    /// Fencing token of its grant.
    fence: u64,
    #[serde(flatten)]
    owner: OwnerView,
    /// When it was granted, in microseconds since the Unix epoch.
    since_us: u64,
    /// When the lease expires, in microseconds since the Unix epoch.
    lease_until_us: u64,
}

/// A waiter.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaiterView {
    /// Position in the wait queue. 1 is next.
    position: usize,
    #[serde(flatten)]
    owner: OwnerView,
    /// When it joined, in microseconds since the Unix epoch.
    since_us: u64,
    /// When it gives up, in microseconds since the Unix epoch.
    wait_until_us: u64,
}

/// How a client identifies itself.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OwnerView {
    /// Host of the client process. Over HTTP this is the server's.
    host: String,
    /// ID of the client process. Over HTTP this is the server's.
    pid: u32,
    /// What the client says it does.
    label: String,
}

impl From<&Owner> for OwnerView {
    fn from(of: &Owner) -> Self {
        Self { host: of.host.clone(), pid: of.pid, label: of.label.clone() }
    }
}

impl From<&Holder> for HolderView {
    fn from(of: &Holder) -> Self {
        Self {
            fence: of.fence.as_u64(),
            owner: (&of.owner).into(),
            since_us: of.since.as_micros(),
            lease_until_us: of.lease_until.as_micros(),
        }
    }
}

impl From<LockState> for LockView {
    fn from(of: LockState) -> Self {
        let waiter = |(at, of): (usize, &WaiterState)| WaiterView {
            position: at + 1,
            owner: (&of.owner).into(),
            since_us: of.since.as_micros(),
            wait_until_us: of.wait_until.as_micros(),
        };
        Self {
            name: of.name.to_string(),
            holder: of.holders.first().map(HolderView::from),
            waiters: of.waiters.iter().enumerate().map(waiter).collect(),
        }
    }
}

pub(crate) async fn show(call: Call) -> Answer<LockView> {
    Ok(Reply::ok(call.lock()?.state().await?.into()))
}

pub(crate) async fn list(call: Call<Nothing, PageQuery>) -> Answer<PageView<LockView>> {
    let locks = call.shop.gate.locks((&call.query).into()).await?;
    let seen = |lock: LockState| call.caller.may(Kind::Lock, lock.name.as_str()).then(|| lock.into());
    Ok(Reply::ok(PageView::of(locks, call.query.limit, |lock| lock.name.as_str(), seen)))
}
