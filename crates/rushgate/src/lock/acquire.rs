use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rand::RngExt;
use rushgate_core::{
    Acquire, Acquired, Error, Grant, Lease, LockName, Notice, Queued, Result, Store, Token, check_duration,
};
use tokio::time::{Instant, sleep};

use super::guard::{Grasp, LockGuard};
use super::{Lock, renewal};
use crate::Rushgate;
use crate::clock::{Boot, margin};
use crate::patience::{PATIENCE, ask};

/// Outcome of acquiring a lock.
#[derive(Debug)]
#[must_use = "a guard that is dropped gives the lock up"]
pub enum LockOutcome {
    /// It is held, until the guard is released or dropped.
    Held(LockGuard),
    /// Another holder has the lock and the wait has expired. The wait queue is left.
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
    /// When the present grant would end if it is not extended.
    pub retry_after: Duration,
    /// How many live waiters were in line ahead, as far as is known.
    pub waiters: u64,
    /// The place in line that was given up; 1 was next. `None` if none was taken.
    pub position: Option<u64>,
}

/// The longest time in line without asking the store how it stands.
const CHECK_MAX: Duration = Duration::from_secs(10);
/// Who is next asks so often, and those behind less often by their place: what a lost push may cost.
const CHECK_STEP: Duration = Duration::from_secs(1);
/// The shortest.
const CHECK_MIN: Duration = Duration::from_millis(5);
/// Jitter of the polls of waiters that are not next.
const CHECK_SPREAD: Duration = Duration::from_millis(250);

impl Lock {
    /// Asks for the lock and waits in line for it, up to [`wait`](Lock::wait).
    ///
    /// Waiting is a place in line in the store, first come first served: no polling. While the store cannot be
    /// reached the same question is asked again, until the wait is over (5 s at least).
    ///
    /// # Cancel safety
    /// Dropping the future leaves no place in line and no lock behind: what was sent is undone by its token in the
    /// background. If the store cannot be reached then, both end by themselves, the place with the wait and the
    /// lock with its lease.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a lease, wait or label outside its range. Otherwise the store could
    /// not tell; what may have happened is undone as above.
    pub async fn acquire(&self) -> Result<LockOutcome> {
        self.obtain(self.wait).await
    }

    /// Asks for the lock without waiting in line.
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

/// One question for a lock, from the first send to the answer.
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
            // Listen first: a grant between the question and the listening would go unheard.
            let mut news = News::listen(&self.lock.gate, self.place.token);
            let (sent, answer) = self.ask().await?;
            let queued = match answer {
                Acquired::Granted(grant) => return Ok(self.held(grant, sent, news)),
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
            if let Some(grant) = news.granted_within(wake_after).await
                && is_fresh(grant, queued, sent)
            {
                let news = News::listen(&self.lock.gate, self.place.token);
                return Ok(self.held(grant, sent, news));
            }
        }
    }

    /// Asks with the same token until the store answers, and says when the question that was answered was sent.
    async fn ask(&self) -> Result<(Boot, Acquired)> {
        let lock = self.lock;
        let owner = lock.gate.owner(&lock.label);
        let mut sent = Boot::now();
        let patient_until = self.give_up_at.max(Instant::now() + PATIENCE);
        let answer = ask(patient_until, lock.gate.closing(), || {
            sent = Boot::now();
            lock.gate.store().acquire(Acquire {
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

    /// The answer was "busy". An earlier question, whose answer was lost, may have taken a place all the same.
    async fn not_in_line(&mut self) {
        if self.waits { self.place.leave().await } else { self.place.forget() }
    }

    fn left(&self) -> Duration {
        self.give_up_at.saturating_duration_since(Instant::now())
    }

    fn held(self, grant: Grant, sent: Boot, news: News) -> LockOutcome {
        let lock = self.lock;
        let (name, token) = self.place.become_held();
        let left = grant.lease_left.min(self.lease.get());
        let held = Grasp {
            name,
            token,
            fence: grant.fence,
            lease: self.lease,
            until: (sent + left).minus(margin(left)),
            renew: lock.renew,
            max_until: lock.max_hold.map(|max_hold| sent + max_hold),
        };
        renewal::hold(&lock.gate, held, news)
    }
}

/// True if a pushed grant may be used without asking again. It has no reliable timestamp, so its lease is counted from the
/// last request we sent; a higher fence proves that the grant is newer. An older request would make a guard with a lease
/// that is nearly over.
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
    gate: Rushgate,
    name: LockName,
    token: Token,
    /// Time after which the store drops the waiter and the lock anyway.
    lives: Duration,
    left: bool,
}

impl Place {
    fn new(lock: &Lock, lives: Duration) -> Self {
        let token = lock.token.unwrap_or_else(|| lock.gate.token());
        Self { gate: lock.gate.clone(), name: lock.name.clone(), token, lives, left: false }
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
        let answer = self.gate.store().leave(&self.name, self.token).await;
        self.left = answer.is_ok();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let (store, closing) = (self.gate.store_arc(), self.gate.closing().clone());
        let (name, token, lives) = (self.name.clone(), self.token, self.lives);
        self.gate.in_background(async move {
            let until = Instant::now() + lives;
            let left = ask(until, &closing, || store.leave(&name, token)).await;
            if let Err(error) = left {
                tracing::warn!(%name, %error, "could not leave the line; the place ends with its wait");
            }
        });
    }
}

/// News of one token, listened for from the moment of its making.
pub(super) struct News {
    store: Arc<dyn Store>,
    token: Token,
    next: Pin<Box<dyn Future<Output = Result<Notice>> + Send>>,
}

impl News {
    fn listen(gate: &Rushgate, token: Token) -> Self {
        let store = gate.store_arc();
        let mut news = Self { next: Self::next(&store, token), store, token };
        news.start();
        news
    }

    fn next(store: &Arc<dyn Store>, token: Token) -> Pin<Box<dyn Future<Output = Result<Notice>> + Send>> {
        let store = Arc::clone(store);
        Box::pin(async move { store.notice(token).await })
    }

    /// Listening starts when the store's method is called, which is at the first poll.
    fn start(&mut self) {
        let polled = self.next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(answer) = polled {
            self.next = Box::pin(std::future::ready(answer));
        }
    }

    /// A grant for the full lease that was pushed within that time. Ends early, with `None`, on any other news: a grant
    /// for the claim window is a reason to ask, and the answer gives the full lease.
    async fn granted_within(&mut self, time: Duration) -> Option<Grant> {
        tokio::select! {
            notice = &mut self.next => match notice {
                Ok(Notice::Granted(grant)) => Some(grant),
                Ok(Notice::Handed(_) | Notice::Ask | Notice::Revoked) => None,
                Err(error) => self.deaf(error, time).await,
            },
            () = sleep(time) => None,
        }
    }

    /// Without news, the time to ask again is all there is.
    async fn deaf(&mut self, error: Error, time: Duration) -> Option<Grant> {
        tracing::debug!(%error, token = %self.token, "no news of a place in line");
        sleep(time).await;
        None
    }

    /// Waits until the lock is taken away by force. Pending for ever if the store cannot tell.
    pub(super) async fn revoked(mut self) {
        loop {
            match (&mut self.next).await {
                Ok(Notice::Revoked) => return,
                Ok(Notice::Granted(_) | Notice::Handed(_) | Notice::Ask) => {
                    self.next = Self::next(&self.store, self.token);
                    self.start();
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
        assert!(!is_fresh(grant(7), queued, now), "granted before the answer, and perhaps over");
        assert!(!is_fresh(grant(8), queued, now.minus(lease / 10)), "perhaps pushed long ago");
    }
}
