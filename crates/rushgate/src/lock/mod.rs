//! Locks: at most one holder per name, with FIFO waiters.

mod acquire;
pub mod fence;
mod guard;
mod run;

use std::time::Duration;

use rushgate_core::{Error, Extend, Extended, ReleaseWith, Result, Verbs};

pub use crate::held::{Held, LostReason};
pub use acquire::{Busy, LockOutcome};
pub use guard::{LockGuard, ReleaseWithOutcome};
pub use run::{BusyPolicy, RunOutcome};
#[doc(inline)]
pub use rushgate_core::{
    Fence, Grant, Holder, Lease, LockName, LockState, Owner, Released, ReleasedWith, Token, WaiterState,
};

use crate::Rushgate;
use crate::clock::{Boot, margin};
use crate::queue::Enqueue;

/// A named lock and its options. Created by [`Rushgate::lock`], acquired with [`acquire`](Self::acquire) or
/// [`run`](Self::run).
///
/// A `Lock` holds nothing: keep it, clone it and use it any number of times.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// use std::time::Duration;
/// use rushgate::LockOutcome;
///
/// let lock = client.lock("order:42")?.lease(Duration::from_secs(15)).wait(Duration::from_secs(3));
/// match lock.acquire().await? {
///     LockOutcome::Held(guard) => {
///         assert!(!guard.is_lost());
///         guard.release().await?;
///     }
///     LockOutcome::Busy(busy) => println!("try again in {:?}", busy.retry_after),
/// }
/// # client.close().await
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock {
    client: Rushgate,
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
    /// A handle to the lock `name`. Sends no request.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) unless the name has 1 to 200 bytes and no white space,
    /// control characters or braces.
    pub fn lock(&self, name: impl AsRef<str>) -> Result<Lock> {
        Ok(Lock {
            client: self.clone(),
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
    /// Default lease: 15 s. If a holder dies, waiters wait up to this time.
    pub const LEASE: Duration = Duration::from_secs(15);
    /// Default wait: 30 s.
    pub const WAIT: Duration = Duration::from_secs(30);

    /// Lease of each grant and renewal: 10 ms to 24 h, checked on acquisition. Default:
    /// [`LEASE`](Self::LEASE).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Maximum time to wait for the lock: zero to 24 h, checked on acquisition. Default:
    /// [`WAIT`](Self::WAIT).
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// What the holder is doing, shown to operators. At most 200 bytes.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Takes a free lock ahead of the waiters: more throughput, no FIFO order.
    pub fn barging(mut self) -> Self {
        self.barging = true;
        self
    }

    /// Maximum time to hold the lock, counted from the grant and including renewals. Default: unlimited.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }

    /// Whether the lease is renewed in the background while the guard lives. Default: true.
    pub fn renew(mut self, renew: bool) -> Self {
        self.renew = renew;
        self
    }

    /// Acquires with this token instead of a new one, for a program that acts on behalf of others. Repeating
    /// the call with the same token, in any process, returns the same grant. If two calls with one token run
    /// at the same time, dropping one rolls back both.
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

    /// Current waiters, first in line first.
    pub async fn waiters(&self) -> Result<Vec<WaiterState>> {
        Ok(self.state().await?.waiters)
    }

    /// Holder and waiters in one snapshot.
    pub async fn state(&self) -> Result<LockState> {
        self.client.ask(|| self.client.store().show(&self.name)).await
    }

    /// Releases the lock on behalf of the holder with this token, for example one that has crashed. No other
    /// holder's lock is affected.
    ///
    /// # Errors
    /// The store could not answer. Repeating the call is safe.
    pub async fn release(&self, token: Token) -> Result<Released> {
        self.client.ask(|| self.client.store().release(&self.name, token)).await
    }

    /// Releases the lock and enqueues a task, as [`LockGuard::release_with`] does, for the holder with this
    /// token.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a task outside its limits: nothing was changed. Otherwise the
    /// store could not answer: both steps may have happened, or on a Redis Cluster only the enqueue.
    /// Repeating the call with the same token, queue and task ID is safe, also from another process: it gets
    /// the answer of the first.
    pub async fn release_with<T>(&self, token: Token, task: Enqueue<'_, T>) -> Result<ReleasedWith> {
        let (queue, task) = task.into_parts()?;
        self.client.release_with(ReleaseWith { name: self.name.clone(), token, queue, task }).await
    }

    /// Extends the lease to `lease` from now (10 ms to 24 h), for a program that keeps a token instead of a
    /// guard. `None` if the token does not hold the lock or its lease has expired; nothing was changed.
    ///
    /// `lease_left` is how long the lock is certainly held: the time that the request took and a safety margin (a
    /// tenth of the lease, 1 ms to 1 s) are subtracted, as for a guard.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use std::time::Duration;
    ///
    /// let lock = client.lock("order:42")?.renew(false);
    /// let token = lock.acquire().await?.held().expect("nobody has it").into_token();
    /// let grant = lock.extend(token, Duration::from_secs(60)).await?.expect("it is held");
    /// assert!(grant.lease_left > Duration::from_secs(55));
    /// lock.release(token).await?;
    /// assert!(lock.extend(token, Duration::from_secs(60)).await?.is_none());
    /// # client.close().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for a lease outside its range. Otherwise the store could not answer;
    /// repeating the call is safe.
    pub async fn extend(&self, token: Token, lease: Duration) -> Result<Option<Grant>> {
        let wish = Extend { name: self.name.clone(), token, lease: Lease::new(lease)? };
        let sent = Boot::now();
        let answers = self.client.ask(|| self.client.store().extend(vec![wish.clone()])).await?;
        match answers.into_iter().next() {
            Some(Extended::Extended(grant)) => {
                let until = (sent + grant.lease_left).minus(margin(grant.lease_left));
                Ok(Some(Grant { lease_left: Boot::now().until(until), ..grant }))
            }
            Some(Extended::NotHeld) => Ok(None),
            None => Err(Error::bug("the store returned no answer for an extension")),
        }
    }

    /// Lease to request: never longer than `max_hold`.
    fn granted_lease(&self) -> Result<Lease> {
        Lease::new(self.max_hold.map_or(self.lease, |max_hold| self.lease.min(max_hold)))
    }
}
