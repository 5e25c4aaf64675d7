use std::fmt;
use std::time::Duration;

use rushgate_core::{
    Enqueued, Extend, Extended, Fence, Lease, LockName, Released, ReleasedWith, Result, Token, Verbs,
};
use tokio::time::{Instant, timeout_at};

use crate::Rushgate;
use crate::clock::{Boot, MARGIN_MAX};
use crate::held::{Held, LostReason, NewGrant};
use crate::queue::Enqueue;
use crate::retry::{RETRY_BUDGET, ask};

/// A held lock. The value is the ownership: it can move between tasks and threads, and dropping it releases the lock.
///
/// The lease is renewed in the background. If that fails for too long, or the lock is force-released, the guard is
/// *lost*: [`lost`](Self::lost) resolves before the store can grant the lock to another holder. Work that cannot stop
/// that fast passes its [`fence`](Self::fence) to the resource that it writes to (see [`crate::lock::fence`]).
///
/// Dropping never blocks: the release is sent, and its answer is read in the background.
#[must_use = "dropping the guard releases the lock"]
pub struct LockGuard {
    client: Rushgate,
    held: Held,
    releases_on_drop: bool,
}

/// Outcome of a release with a task.
#[derive(Debug)]
#[must_use = "a queue that does not take the task leaves the lock held"]
pub enum ReleaseWithOutcome {
    /// The lock was held and is now released. The value is the outcome of the enqueue.
    Released(Enqueued),
    /// The lock was already lost and may have had another holder since. The task was not enqueued.
    NotHeld,
    /// The queue did not accept the task. The lock is still held.
    NotTaken {
        /// Guard of the lock.
        guard: LockGuard,
        /// Reason: [`Enqueued::Full`] or [`Enqueued::Refused`].
        why: Enqueued,
    },
}

impl LockGuard {
    /// Builds a guard from a grant, and starts its renewal. The lock is lost when `revoked` resolves.
    pub(super) fn new(
        client: &Rushgate,
        grant: NewGrant,
        revoked: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let held = Held::new(&grant);
        client.renewals().insert(held.clone(), &grant, Box::pin(revoked));
        Self { client: client.clone(), held, releases_on_drop: true }
    }

    /// A view of the lock, to pass to the code that it protects.
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// The lock's name.
    pub fn name(&self) -> &LockName {
        self.held.name()
    }

    /// The token of this acquisition.
    pub fn token(&self) -> Token {
        self.held.token()
    }

    /// Fencing token of this grant. The protected resource should reject a lower one.
    pub fn fence(&self) -> Fence {
        self.held.fence()
    }

    /// True once the lock may belong to another holder. Sends no request. See [`Held::is_lost`].
    pub fn is_lost(&self) -> bool {
        self.held.is_lost()
    }

    /// Waits until the lock is lost, and returns the reason. Cancel safe. See [`Held::lost`].
    pub async fn lost(&self) -> LostReason {
        self.held.lost().await
    }

    /// Asks the store whether this guard's token holds the lock.
    ///
    /// # Errors
    /// The store could not answer. Nothing was changed.
    pub async fn is_held(&self) -> Result<bool> {
        let held = self.client.ask(|| self.client.store().held(self.name(), self.token())).await?;
        if held.is_none() {
            self.client.renewals().lose(self.token(), LostReason::NotHeld);
        }
        Ok(held.is_some())
    }

    /// Extends the lease to `lease` from now (10 ms to 24 h). Later renewals use it too. The lease never
    /// exceeds [`max_hold`](super::Lock::max_hold). False if the lock was already lost: nothing was changed.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a lease outside its range. Otherwise the store could not
    /// answer: the lease ends at the old or the new time, and the guard assumes the earlier.
    pub async fn extend(&self, lease: Duration) -> Result<bool> {
        let Some(lease) = self.client.renewals().change(self.token(), Lease::new(lease)?) else {
            return Ok(false);
        };
        let wish = Extend { name: self.name().clone(), token: self.token(), lease };
        let mut sent = Boot::now();
        let answers = self.client.ask(|| {
            sent = Boot::now();
            self.client.store().extend(vec![wish.clone()])
        });
        match answers.await?.first() {
            Some(Extended::Extended(_)) => {
                self.client.renewals().extended(self.token(), lease, sent);
                Ok(true)
            }
            Some(Extended::NotHeld) | None => {
                self.client.renewals().lose(self.token(), LostReason::NotHeld);
                Ok(false)
            }
        }
    }

    /// Releases the lock, hands it to the first waiter, and returns whether it was still held.
    ///
    /// # Cancel safety
    /// If the future is dropped, the release continues in the background.
    ///
    /// # Errors
    /// The store could not be reached for 5 s, or until the lease ended. The outcome is unknown. The release continues
    /// in the background, and the lock expires with its lease at the latest.
    pub async fn release(mut self) -> Result<Released> {
        // After the lease there is nothing left to release.
        let until = Instant::now() + self.held.time_left().min(RETRY_BUDGET);
        self.let_go();
        let release = || self.client.store().release(self.name(), self.token());
        let answer = ask(until, self.client.closing(), release).await?;
        self.releases_on_drop = false;
        Ok(answer)
    }

    /// Releases the lock and enqueues a task in one atomic step of the store. Use it to hand follow-up work
    /// to a worker without a gap in which neither the lock nor the task exists.
    ///
    /// On a Redis Cluster, lock and queue are on different nodes, so this takes three steps: check the lock,
    /// enqueue the task, release the lock. If the client dies in between, the lock expires with its lease,
    /// and the task may have been enqueued.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use rushgate::lock::ReleaseWithOutcome;
    ///
    /// let mails = client.queue_of::<String>("mails")?;
    /// let guard = client.lock("invoice:7")?.acquire().await?.held().expect("nobody has it");
    /// // … the invoice is written …
    /// let mail = mails.enqueue("invoice:7", "ann@example.com".to_owned());
    /// match guard.release_with(mail).await? {
    ///     ReleaseWithOutcome::Released(enqueued) => println!("{enqueued:?}"),
    ///     ReleaseWithOutcome::NotHeld => println!("another may write it now: no mail"),
    ///     ReleaseWithOutcome::NotTaken { guard, why } => println!("{why:?}; {} is still held", guard.name()),
    /// }
    /// assert_eq!(mails.stats().await?.ready, 1);
    /// assert!(client.lock("invoice:7")?.holders().await?.is_empty());
    /// # client.close().await
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is released in the background, and the task may have been enqueued.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a task outside its limits: nothing was enqueued.
    /// Otherwise the store could not answer, and the task may have been enqueued; enqueueing the same ID
    /// again is safe. After any error the lock is released in the background, and expires with its lease at
    /// the latest.
    pub async fn release_with<T>(mut self, task: Enqueue<'_, T>) -> Result<ReleaseWithOutcome> {
        let lock = self.client.lock(self.name())?;
        Ok(match lock.release_with(self.token(), task).await? {
            ReleasedWith::Released(enqueued) => {
                self.let_go();
                self.releases_on_drop = false;
                ReleaseWithOutcome::Released(enqueued)
            }
            ReleasedWith::NotHeld => {
                self.client.renewals().lose(self.token(), LostReason::NotHeld);
                ReleaseWithOutcome::NotHeld
            }
            ReleasedWith::NotTaken(why) => ReleaseWithOutcome::NotTaken { guard: self, why },
        })
    }

    /// Consumes the guard without releasing the lock, and returns its token. The lock stays held until its
    /// lease ends. Use the token to [extend](super::Lock::extend) or [release](super::Lock::release) it.
    pub fn into_token(mut self) -> Token {
        self.let_go();
        self.releases_on_drop = false;
        self.token()
    }

    /// Stops renewal and listening. Called before the release is sent, so that no renewal follows it.
    fn let_go(&mut self) {
        self.client.renewals().remove(self.token());
        self.held.lose(LostReason::Released);
    }

    fn needs_release(&self) -> bool {
        let gone = [LostReason::NotHeld, LostReason::Revoked, LostReason::ReleasedAll];
        self.releases_on_drop && !self.held.reason().is_some_and(|reason| gone.contains(&reason))
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.let_go();
        if !self.needs_release() {
            return;
        }
        let (store, closing) = (self.client.store_arc(), self.client.closing().clone());
        let held = self.held.clone();
        self.client.in_background(async move {
            // The store's lease ends up to a margin later than ours. After that there is nothing left to
            // release.
            let until = Instant::now() + Boot::now().until(held.until()) + MARGIN_MAX;
            let release = ask(until, &closing, || store.release(held.name(), held.token()));
            match timeout_at(until, release).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(lock = %held.name(), %error, "cannot release the lock; it expires with its lease");
                }
                Err(_) => tracing::warn!(lock = %held.name(), "cannot release the lock; it expired with its lease"),
            }
        });
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockGuard").field(&self.held).finish()
    }
}
