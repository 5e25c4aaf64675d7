//! Locks: at most one holder per name, and a fair line before it.

mod acquire;
pub mod fence;
mod guard;
mod renewal;
mod run;

use std::time::Duration;

use rushgate_core::{
    Error, Extend, Extended, Grant, Holder, Lease, LockName, LockState, ReleaseWith, ReleasedWith, Result,
    Token, WaiterState,
};

pub use acquire::{Busy, LockOutcome};
pub use guard::{ExtendOutcome, Held, LockGuard, LostReason, ReleaseOutcome, ReleaseWithOutcome};
pub use run::{BusyPolicy, RunOutcome};

pub(crate) use renewal::Renewals;

use crate::{Enqueue, Rushgate};

/// One lock by name, and how this caller wants it: made by [`Rushgate::lock`], asked for by
/// [`acquire`](Self::acquire) or [`run`](Self::run).
///
/// Holding nothing itself, it may be kept, cloned and used any number of times.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
/// use rushgate::LockOutcome;
///
/// let lock = gate.lock("order:42")?.lease(Duration::from_secs(15)).wait(Duration::from_secs(3));
/// match lock.acquire().await? {
///     LockOutcome::Held(guard) => {
///         assert!(!guard.is_lost());
///         guard.release().await?;
///     }
///     LockOutcome::Busy(busy) => println!("try again in {:?}", busy.retry_after),
/// }
/// # gate.close().await
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock {
    gate: Rushgate,
    name: LockName,
    lease: Duration,
    wait: Duration,
    label: String,
    barging: bool,
    renew: bool,
    max_hold: Option<Duration>,
    token: Option<Token>,
    on_busy: Option<BusyPolicy>,
}

impl Rushgate {
    /// The lock of that name. Asks the store nothing yet.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) unless the name has 1 to 200 bytes without white space, control
    /// characters and braces.
    pub fn lock(&self, name: impl AsRef<str>) -> Result<Lock> {
        Ok(Lock {
            gate: self.clone(),
            name: LockName::new(name)?,
            lease: Lock::LEASE,
            wait: Lock::WAIT,
            label: String::new(),
            barging: false,
            renew: true,
            max_hold: None,
            token: None,
            on_busy: None,
        })
    }
}

impl Lock {
    /// Default lease: 15 s. Waiters wait this long if a holder dies.
    pub const LEASE: Duration = Duration::from_secs(15);
    /// Default wait: 30 s.
    pub const WAIT: Duration = Duration::from_secs(30);

    /// For how long each grant and each renewal holds: 10 ms to 24 h, checked when the lock is asked for.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long to stay in line at most: zero to 24 h, checked when the lock is asked for.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// What the holder is doing, for people who look; at most 200 bytes.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Takes the lock if it is free although others are in line: more throughput, no fairness.
    pub fn barging(mut self) -> Self {
        self.barging = true;
        self
    }

    /// The longest time from the grant on for which the lock is held, renewals included. Unlimited unless said
    /// otherwise.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Whether the lease is renewed in the background while the guard lives. Default: true.
    pub fn renew(mut self, renew: bool) -> Self {
        self.renew = renew;
        self
    }

    /// Asks with that token instead of a new one, for a program that asks on behalf of others: whoever asks again with
    /// the same token, in this process or another, is told of the same grant. Of two that ask at the same time, the one
    /// that is dropped gives up for both.
    pub fn with_token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// The name.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// The current holders: none or one.
    pub async fn holders(&self) -> Result<Vec<Holder>> {
        Ok(self.state().await?.holders)
    }

    /// Those who wait for it now, first in line first.
    pub async fn waiters(&self) -> Result<Vec<WaiterState>> {
        Ok(self.state().await?.waiters)
    }

    /// Holder and line in one snapshot.
    pub async fn state(&self) -> Result<LockState> {
        self.gate.ask(|| self.gate.store().show(&self.name)).await
    }

    /// Releases the lock for the holder of that token, such as a program that was asked to or has ended without it.
    /// The token is proof: nobody else's lock is touched.
    ///
    /// # Errors
    /// The store could not tell. Asking again is safe.
    pub async fn release(&self, token: Token) -> Result<ReleaseOutcome> {
        let released = self.gate.ask(|| self.gate.store().release(&self.name, token)).await?;
        Ok(released.into())
    }

    /// As [`LockGuard::release_with`], for the holder of that token.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a task outside its limits: nothing was changed. Otherwise the store could
    /// not tell: both may have happened, or on a Redis Cluster the first of the two. To enqueue the same id again and to
    /// release again is safe.
    pub async fn release_with<T>(&self, token: Token, task: Enqueue<'_, T>) -> Result<ReleasedWith> {
        let (queue, task) = task.into_parts()?;
        self.gate.release_with(ReleaseWith { name: self.name.clone(), token, queue, task }).await
    }

    /// Starts the lease of the holder of that token anew, from now (10 ms to 24 h), for a program that keeps the token and
    /// no guard. `None` if the token does not hold the lock, or its lease has run out: nothing was changed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use std::time::Duration;
    ///
    /// let lock = gate.lock("order:42")?.renew(false);
    /// let token = lock.acquire().await?.held().expect("nobody has it").into_token();
    /// let grant = lock.extend(token, Duration::from_secs(60)).await?.expect("it is held");
    /// assert!(grant.lease_left > Duration::from_secs(59));
    /// lock.release(token).await?;
    /// assert!(lock.extend(token, Duration::from_secs(60)).await?.is_none());
    /// # gate.close().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a lease outside its range. Otherwise the store could not tell; asking again
    /// is safe.
    pub async fn extend(&self, token: Token, lease: Duration) -> Result<Option<Grant>> {
        let wish = Extend { name: self.name.clone(), token, lease: Lease::new(lease)? };
        let answers = self.gate.ask(|| self.gate.store().extend(vec![wish.clone()])).await?;
        match answers.into_iter().next() {
            Some(Extended::Extended(grant)) => Ok(Some(grant)),
            Some(Extended::NotHeld) => Ok(None),
            None => Err(Error::bug("the store answered one extension with none")),
        }
    }

    /// The lease to ask for: never longer than the whole hold may be.
    fn granted_lease(&self) -> Result<Lease> {
        Lease::new(self.max_hold.map_or(self.lease, |max_hold| self.lease.min(max_hold)))
    }
}
