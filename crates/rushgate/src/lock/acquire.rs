use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rushgate_core::{
    Acquire, Acquired, Answer, Error, Grant, Lease, LockName, Notification, Queued, Result, Store, Token,
    Verbs, check_duration,
};
use tokio::time::{Instant, sleep};

use super::Lock;
use super::guard::LockGuard;
use crate::Rushgate;
use crate::clock::{Boot, margin};
use crate::held::NewGrant;
use crate::retry::{RETRY_BUDGET, ask};

/// Outcome of acquiring a lock.
#[derive(Debug)]
#[must_use = "a guard that is dropped releases the lock"]
pub enum LockOutcome {
    /// The lock is held until the guard is released or dropped.
    Held(LockGuard),
    /// Another holder has the lock and the wait has expired. The caller has left the wait queue.
    Busy(Busy),
}

impl LockOutcome {
    /// The guard, if the lock is held.
    pub fn held(self) -> Option<LockGuard> {
        match self {
            Self::Held(guard) => Some(guard),
            Self::Busy(_) => None,
        }
    }
}

/// Why a lock was not obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Time until the current grant expires, unless it is renewed.
    pub retry_after: Duration,
    /// Number of live waiters ahead, as of the last answer from the store.
    pub waiters: u64,
    /// Position in the wait queue that was given up; 1 is next. `None` if the caller never waited.
    pub position: Option<u64>,
}

/// Longest pause between two polls of a waiter.
const CHECK_MAX: Duration = Duration::from_secs(10);
/// Polling interval for the next waiter, in case a notification was lost. Waiters further back poll less
/// often.
const CHECK_STEP: Duration = Duration::from_secs(1);
/// Shortest pause between two polls.
const CHECK_MIN: Duration = Duration::from_millis(5);
/// Jitter of the polls of waiters that are not next.
const CHECK_SPREAD: Duration = Duration::from_millis(250);

impl Lock {
    /// Acquires the lock, waiting for up to [`wait`](Lock::wait).
    ///
    /// The store keeps waiters in FIFO order and notifies the next one. If the store cannot be reached, the
    /// same request is retried until the wait ends, and for at least 5 s.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the wait queue and releases the lock if it was granted; both are sent in
    /// the background. If the store cannot be reached, the entry in the wait queue expires with the wait, and
    /// the lock with its lease.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a lease, wait or label outside its range. Otherwise the store
    /// could not answer, and the request is rolled back as above.
    pub async fn acquire(&self) -> Result<LockOutcome> {
        self.obtain(self.wait).await
    }

    /// Acquires the lock if it is free, without waiting.
    ///
    /// Cancel safety and errors are those of [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<LockOutcome> {
        self.obtain(Duration::ZERO).await
    }

    pub(super) async fn obtain(&self, wait: Duration) -> Result<LockOutcome> {
        let lease = self.granted_lease()?;
        check_duration("the wait", wait, Acquire::WAIT_MAX)?;
        let waiting = Waiting {
            lock: self,
            lease,
            place: Place::new(self, wait + lease.get()),
            give_up_at: Instant::now() + wait,
            waits: !wait.is_zero(),
        };
        waiting.run().await
    }
}

/// One acquisition, from the first request to the outcome.
struct Waiting<'a> {
    lock: &'a Lock,
    lease: Lease,
    place: Place,
    give_up_at: Instant,
    waits: bool,
}

impl Waiting<'_> {
    async fn run(mut self) -> Result<LockOutcome> {
        let mut busy = Busy { retry_after: Duration::ZERO, waiters: 0, position: None };
        loop {
            if self.waits && self.left().is_zero() {
                self.place.leave().await;
                return Ok(LockOutcome::Busy(busy));
            }
            // Listen before asking: otherwise a grant sent in between would be missed.
            let mut listener = Listener::listen(&self.lock.client, self.place.token);
            let (sent, answer) = self.ask().await?;
            let queued = match answer {
                Acquired::Granted(grant) => return Ok(self.held(grant, sent, listener)),
                Acquired::Busy(core) => {
                    self.not_in_line().await;
                    let (retry_after, waiters) = (core.retry_after, core.waiters);
                    return Ok(LockOutcome::Busy(Busy { retry_after, waiters, ..busy }));
                }
                Acquired::Queued(queued) => queued,
            };
            busy = Busy {
                retry_after: queued.check_after,
                waiters: queued.position.saturating_sub(1),
                position: Some(queued.position),
            };
            let wake_after = check_after(queued).min(self.left());
            if let Some(grant) = listener.granted_within(wake_after).await
                && is_fresh(grant, queued, sent)
            {
                let listener = Listener::listen(&self.lock.client, self.place.token);
                return Ok(self.held(grant, sent, listener));
            }
        }
    }

    /// Repeats the request with the same token until the store answers. Also returns when the answered
    /// request was sent.
    async fn ask(&self) -> Result<(Boot, Acquired)> {
        let lock = self.lock;
        let owner = lock.client.owner(&lock.label);
        let mut sent = Boot::now();
        let retry_until = self.give_up_at.max(Instant::now() + RETRY_BUDGET);
        let answer = ask(retry_until, lock.client.closing(), || {
            sent = Boot::now();
            lock.client.store().acquire(Acquire {
                name: lock.name.clone(),
                token: self.place.token,
                lease: self.lease,
                wait: self.left(),
                barging: lock.barging,
                owner: owner.clone(),
            })
        });
        let answer = answer.await?;
        Ok((sent, answer))
    }

    /// The store answered "busy". An earlier request whose answer was lost may still have entered the wait
    /// queue.
    async fn not_in_line(&mut self) {
        if self.waits { self.place.leave().await } else { self.place.forget() }
    }

    fn left(&self) -> Duration {
        self.give_up_at.saturating_duration_since(Instant::now())
    }

    fn held(self, grant: Grant, sent: Boot, listener: Listener) -> LockOutcome {
        let lock = self.lock;
        let (name, token) = self.place.become_held();
        let left = grant.lease_left.min(self.lease.get());
        let held = NewGrant {
            name,
            token,
            fence: grant.fence,
            lease: self.lease,
            until: (sent + left).minus(margin(left)),
            renew: lock.renew,
            max_until: lock.max_hold.map(|max_hold| sent + max_hold),
        };
        LockOutcome::Held(LockGuard::new(&lock.client, held, listener.revoked()))
    }
}

/// True if a pushed grant may be used without asking again. A pushed grant has no reliable timestamp, so its
/// lease is counted from the last request we sent. A higher fence proves that the grant is newer than that
/// request. If the request is older than a tenth of the lease, too little would be left.
fn is_fresh(grant: Grant, queued: Queued, asked: Boot) -> bool {
    grant.fence > queued.fence && Boot::now() <= asked + grant.lease_left / 10
}

fn check_after(queued: Queued) -> Duration {
    let place = u32::try_from(queued.position).unwrap_or(u32::MAX).max(1);
    let base = queued.check_after.min(CHECK_STEP.saturating_mul(place)).clamp(CHECK_MIN, CHECK_MAX);
    if queued.position <= 1 {
        return base;
    }
    base + rand::rng().random_range(Duration::ZERO..CHECK_SPREAD)
}

/// Rollback guard: on drop it leaves the wait queue, and releases a lock that was granted meanwhile.
struct Place {
    client: Rushgate,
    name: LockName,
    token: Token,
    /// Time after which the store drops the waiter and the lock anyway.
    lives: Duration,
    left: bool,
}

impl Place {
    fn new(lock: &Lock, lives: Duration) -> Self {
        let token = lock.token.unwrap_or_else(|| lock.client.token());
        Self { client: lock.client.clone(), name: lock.name.clone(), token, lives, left: false }
    }

    fn forget(&mut self) {
        self.left = true;
    }

    fn become_held(mut self) -> (LockName, Token) {
        self.forget();
        (self.name.clone(), self.token)
    }

    /// Leaves now. If the store cannot be reached, the drop keeps trying.
    async fn leave(&mut self) {
        let answer = self.client.store().leave(&self.name, self.token).await;
        self.left = answer.is_ok();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let (store, closing) = (self.client.store_arc(), self.client.closing().clone());
        let (name, token, lives) = (self.name.clone(), self.token, self.lives);
        self.client.in_background(async move {
            let until = Instant::now() + lives;
            let left = ask(until, &closing, || store.leave(&name, token)).await;
            if let Err(error) = left {
                tracing::warn!(%name, %error, "cannot leave the wait queue; the position expires with its wait");
            }
        });
    }
}

/// Notifications for one token, received from construction on.
struct Listener {
    store: Arc<dyn Store>,
    token: Token,
    next: Answer<'static, Notification>,
}

impl Listener {
    fn listen(client: &Rushgate, token: Token) -> Self {
        let store = client.store_arc();
        Self { next: store.notification(token), store, token }
    }

    /// Returns a grant for the full lease that is pushed within `time`. Any other notification ends the wait
    /// with `None`. A grant for the claim window is among them: the next request returns its full lease.
    async fn granted_within(&mut self, time: Duration) -> Option<Grant> {
        tokio::select! {
            notification = &mut self.next => match notification {
                Ok(Notification::Granted(grant)) => Some(grant),
                Ok(Notification::Handed(_) | Notification::Ask | Notification::Revoked) => None,
                Err(error) => self.deaf(error, time).await,
            },
            () = sleep(time) => None,
        }
    }

    /// Listening failed: sleep until the next poll instead.
    async fn deaf(&mut self, error: Error, time: Duration) -> Option<Grant> {
        tracing::debug!(%error, token = %self.token, "cannot poll the position in the wait queue");
        sleep(time).await;
        None
    }

    /// Resolves when the lock is force-released. Pending forever if the store cannot deliver notifications.
    async fn revoked(mut self) {
        loop {
            match (&mut self.next).await {
                Ok(Notification::Revoked) => return,
                Ok(Notification::Granted(_) | Notification::Handed(_) | Notification::Ask) => {
                    self.next = self.store.notification(self.token);
                    // Listening continues meanwhile. The pause only prevents a busy loop on repeated notifications.
                    sleep(CHECK_MIN).await;
                }
                Err(_) => self.next = Box::pin(std::future::pending()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rushgate_core::{Fence, Timestamp};

    use super::*;

    #[test]
    fn a_pushed_grant_is_used_only_if_it_is_newer_than_the_last_answer_and_nearly_all_of_its_lease_is_left() {
        let lease = Duration::from_secs(15);
        let grant = |fence| Grant {
            fence: Fence::from_u64(fence),
            lease_until: Timestamp::default(),
            lease_left: lease,
        };
        let queued = Queued { position: 1, check_after: lease, fence: Fence::from_u64(7) };
        let now = Boot::now();
        assert!(is_fresh(grant(8), queued, now));
        assert!(!is_fresh(grant(7), queued, now), "granted before the answer, so possibly expired");
        assert!(!is_fresh(grant(8), queued, now.minus(lease / 10)), "the grant may be as old as the request");
    }
}
