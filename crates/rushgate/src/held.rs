//! A held lock, as its guard, its renewal and the code that it protects see it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rushgate_core::{Fence, Lease, LockName, Token};
use tokio_util::sync::CancellationToken;

use crate::clock::Boot;

/// Read-only view of a held lock: its fence, and whether it is lost. Cheap to clone.
#[derive(Clone)]
pub struct Held(Arc<State>);

struct State {
    name: LockName,
    token: Token,
    fence: Fence,
    /// Time on the [`Boot`] clock, in microseconds, from which the lock may belong to another holder.
    until_us: AtomicU64,
    lost: CancellationToken,
    reason: OnceLock<LostReason>,
}

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The lease ended before the store acknowledged a renewal, or renewal was disabled.
    Expired,
    /// The store answered that this token no longer holds the lock.
    NotHeld,
    /// It was [force-released](crate::Rushgate::force_release).
    Revoked,
    /// [`max_hold`](crate::Lock::max_hold) was reached.
    MaxHold,
    /// This client released all its locks.
    ReleasedAll,
    /// This client was closed.
    Closed,
    /// The guard was released or dropped.
    Released,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the lease expired",
            Self::NotHeld => "the lock is no longer held in the store",
            Self::Revoked => "it was force-released",
            Self::MaxHold => "the maximum hold time was reached",
            Self::ReleasedAll => "all locks of this client were released",
            Self::Closed => "the client was closed",
            Self::Released => "the guard was released",
        })
    }
}

/// A new grant, as the guard is built from it.
pub(crate) struct NewGrant {
    pub name: LockName,
    pub token: Token,
    pub fence: Fence,
    pub lease: Lease,
    pub until: Boot,
    pub renew: bool,
    pub max_until: Option<Boot>,
}

impl Held {
    pub(crate) fn new(grant: &NewGrant) -> Self {
        Self(Arc::new(State {
            name: grant.name.clone(),
            token: grant.token,
            fence: grant.fence,
            until_us: AtomicU64::new(grant.until.as_micros()),
            lost: CancellationToken::new(),
            reason: OnceLock::new(),
        }))
    }

    /// The lock's name.
    pub fn name(&self) -> &LockName {
        &self.0.name
    }

    /// The token of this acquisition.
    pub fn token(&self) -> Token {
        self.0.token
    }

    /// Fencing token of this grant. The protected resource should reject a lower one.
    pub fn fence(&self) -> Fence {
        self.0.fence
    }

    /// True once the lock may belong to another holder. Local: uses this machine's clock, which counts
    /// suspend, and the notifications received so far. Sends no request.
    pub fn is_lost(&self) -> bool {
        self.0.lost.is_cancelled() || Boot::now() >= self.until()
    }

    /// Time for which the lock is certainly held if no renewal succeeds; zero once it is lost. Sends no
    /// request.
    pub fn time_left(&self) -> Duration {
        if self.is_lost() { Duration::ZERO } else { Boot::now().until(self.until()) }
    }

    /// Waits until the lock is lost, and returns the reason.
    ///
    /// Resolves before the store can grant the lock to another holder. Exceptions: the lock was
    /// force-released, or this process was suspended. Cancel safe.
    pub async fn lost(&self) -> LostReason {
        self.0.lost.cancelled().await;
        self.reason().unwrap_or(LostReason::Expired)
    }

    /// A token that is canceled when the lock is lost, for use in other tasks. Canceling it does not affect
    /// the lock.
    pub fn lost_token(&self) -> CancellationToken {
        self.0.lost.child_token()
    }

    /// Reason for the loss, or `None` while the lock is held.
    pub fn reason(&self) -> Option<LostReason> {
        self.0.reason.get().copied().or_else(|| self.is_lost().then_some(LostReason::Expired))
    }

    pub(crate) fn until(&self) -> Boot {
        Boot::from_micros(self.0.until_us.load(Ordering::Acquire))
    }

    pub(crate) fn set_until(&self, until: Boot) {
        self.0.until_us.store(until.as_micros(), Ordering::Release);
    }

    pub(crate) fn lose(&self, reason: LostReason) {
        if self.0.reason.set(reason).is_err() {
            return;
        }
        if reason != LostReason::Released {
            tracing::warn!(lock = %self.0.name, fence = %self.0.fence, %reason, "lock lost");
        }
        self.0.lost.cancel();
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("name", &self.0.name)
            .field("fence", &self.0.fence)
            .field("lost", &self.reason())
            .finish()
    }
}
