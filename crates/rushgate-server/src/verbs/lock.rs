//! Locks over HTTP. The client keeps the token and passes it to extend and release.

use std::time::Duration;

use rushgate::lock::{Fence, Holder, LockName, LockState, Released, ReleasedWith, Token};
use rushgate::queue::QueueName;
use rushgate::wire::TaskSpec;
use rushgate::wire::schema::LABEL;
use rushgate::{Enqueued, Lock, LockGuard, LockOutcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::queue::{entered, task_of};
use super::{PageQuery, PageView, millis};
use crate::call::{Call, Nothing};
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Reply, RollbackGuard};
use crate::scope::Kind;

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
    name: LockName,
    /// Secret proof of this acquisition. Pass it to extend and release.
    token: Token,
    /// Fencing token, greater than that of every earlier grant. Let the protected resource refuse smaller ones.
    fence: Fence,
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
                name: guard.name().clone(),
                token: guard.token(),
                fence: guard.fence(),
                lease_left_ms: millis(guard.held().time_left()),
            };
            Ok(Reply::created(view).guarded_by(HeldLock(guard)))
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

impl RollbackGuard for HeldLock {
    fn delivered(self: Box<Self>) {
        self.0.into_token();
    }
}

/// The lease to extend.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtendBody {
    /// Token of the acquisition.
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
            name: lock.name().clone(),
            token,
            fence: grant.fence,
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
    token: Token,
}

pub(crate) async fn release(call: Call<ReleaseBody>) -> Answer<Released> {
    match call.lock()?.release(call.body.token).await? {
        released @ Released::Released => Ok(Reply::ok(released)),
        Released::NotHeld => Err(Problem::plain(Code::NotHeld)),
    }
}

/// The lock to release, and the task to enqueue in the same step.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReleaseWithBody {
    /// Token of the acquisition.
    token: Token,
    /// Queue of the task.
    queue: QueueName,
    /// The task.
    task: TaskSpec,
}

pub(crate) async fn release_with(call: Call<ReleaseWithBody>) -> Answer<Enqueued> {
    let lock = call.lock()?;
    let ReleaseWithBody { token, queue, task } = call.body;
    if !call.caller.may(Kind::Queue, queue.as_str()) {
        return Err(Problem::new(Code::Forbidden, "the token's scopes do not cover this queue"));
    }
    let queue = call.app.client.queue(queue.as_str())?;
    match lock.release_with(token, queue.enqueue_new(task_of(task)?)).await? {
        ReleasedWith::Released(enqueued) | ReleasedWith::NotTaken(enqueued) => entered(enqueued),
        ReleasedWith::NotHeld => Err(Problem::plain(Code::NotHeld)),
    }
}

/// Outcome of a forced release.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ForceReleasedView {
    /// The holder that lost the lock. Absent if the lock was free.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<Holder>,
}

pub(crate) async fn force_release(call: Call) -> Answer<ForceReleasedView> {
    let holder = call.app.client.force_release(call.path.get("lock")).await?;
    Ok(Reply::ok(ForceReleasedView { holder }))
}

pub(crate) async fn show(call: Call) -> Answer<LockState> {
    Ok(Reply::ok(call.lock()?.state().await?))
}

pub(crate) async fn list(call: Call<Nothing, PageQuery>) -> Answer<PageView<LockState>> {
    let locks = call.app.client.locks((&call.query).into()).await?;
    let seen = |lock: LockState| call.caller.may(Kind::Lock, lock.name.as_str()).then_some(lock);
    Ok(Reply::ok(PageView::of(locks, call.query.limit, |lock| lock.name.as_str(), seen)))
}
