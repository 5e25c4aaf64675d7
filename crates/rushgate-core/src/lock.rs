use std::hash::Hasher;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::{
    Answer, ClientId, Enqueued, Fence, Lease, LockName, NewTask, Op, Page, QueueName, Result, Timestamp,
    Token,
};

/// The locks of a store.
///
/// A lock has at most one holder and a FIFO wait queue. The step that finds the lock held also adds the caller to
/// the queue, and a release hands the lock to the first live waiter in the same step. All times are the store's.
///
/// Rules that every backend keeps and the contract suite checks:
/// - Every grant carries a [`Fence`] (fencing token) greater than all before it for that name.
/// - A step by a token that does not hold the lock changes nothing.
/// - A step sent twice with one token takes effect once and gets the same answer twice.
pub trait LockStore: Send + Sync {
    /// Acquires the lock, confirms a grant, or refreshes the position in the wait queue: all three are one
    /// request.
    ///
    /// - The token holds the lock: [`Acquired::Granted`] with its fencing token, and the lease is renewed.
    /// - The lock is free and no live waiter is ahead: granted. (`barging` ignores waiters.)
    /// - Otherwise, with `wait`: [`Acquired::Queued`]. The token is in the queue once, however often it asks,
    ///   until the wait expires. Without `wait`: [`Acquired::Busy`].
    ///
    /// If the holder's lease has expired, this step grants the lock to the first live waiter, for any caller.
    fn acquire(&self, request: Acquire) -> Answer<'_, Acquired>;

    /// Releases the lock and hands it to the first live waiter.
    ///
    /// [`Released::Released`] also if this token is among the [latest to release it](Released::REMEMBERED).
    /// [`Released::NotHeld`] if it does not hold the lock or its lease has expired; then the step only hands an
    /// expired lock to the first live waiter.
    fn release(&self, name: &LockName, token: Token) -> Answer<'_, Released>;

    /// Releases the lock like [`release`](Self::release) and enqueues a task, atomically. Nothing happens if the
    /// token does not hold the lock or the queue refuses the task.
    ///
    /// A release is remembered by its `op`. If the token does not hold the lock, the call is answered as the release
    /// with this `op` was. A refusal is not remembered, so the holder can try again with the same `op`.
    ///
    /// In a Redis Cluster, lock and queue can be on different nodes, so this is not atomic: it checks the lock,
    /// enqueues the task, then releases the lock. A client that dies in between leaves a lock that ends with its
    /// lease, and possibly the task.
    fn release_with(&self, op: Op, release: ReleaseWith) -> Answer<'_, ReleasedWith>;

    /// Extends leases, in the given order; each gets its own answer. An expired lease is not extended, even if
    /// the lock is free.
    fn extend(&self, leases: Vec<Extend>) -> Answer<'_, Vec<Extended>>;

    /// Returns the grant that the token holds now, if any.
    fn held(&self, name: &LockName, token: Token) -> Answer<'_, Option<Grant>>;

    /// Leaves the wait queue. If the token has just been granted the lock, releases it.
    fn leave(&self, name: &LockName, token: Token) -> Answer<'_, Left>;

    /// Releases every lock that the client holds and removes its waiters; returns how many locks.
    fn release_all(&self, client: ClientId) -> Answer<'_, u64>;

    /// Force-releases the lock and hands it to the next waiter. A [`Notice`] informs the holder, whose writes
    /// with the old fencing token are refused. Returns the holder that lost the lock.
    fn force_release(&self, name: &LockName) -> Answer<'_, Option<Holder>>;

    /// Returns the holder and the wait queue.
    fn show(&self, name: &LockName) -> Answer<'_, LockState>;

    /// Lists locks that are held or waited for, by name.
    fn list(&self, page: Page) -> Answer<'_, Vec<LockState>>;

    /// Waits for a notification for a token: it was granted a lock, or lost one by force.
    ///
    /// Listening starts at the call. A notification is a hint and may be late, duplicated or lost; the answers of
    /// [`acquire`](Self::acquire) and [`extend`](Self::extend) are authoritative. Dropping the future stops
    /// listening.
    fn notice(&self, token: Token) -> Answer<'_, Notice>;
}

/// A request to acquire a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// Name of the lock.
    pub name: LockName,
    /// Token of this acquisition, created before the first request.
    pub token: Token,
    /// Lease duration.
    pub lease: Lease,
    /// Maximum wait from now, at most 24 h. Zero to be answered "busy" instead of waiting.
    pub wait: Duration,
    /// Whether to take a free lock ahead of the wait queue.
    pub barging: bool,
    /// The requesting client.
    pub owner: Owner,
}

impl Acquire {
    /// Maximum wait.
    pub const WAIT_MAX: Duration = Duration::from_secs(86_400);

    /// Claim window: the time in which a waiter must confirm a lock that was handed to it (or its lease, if that
    /// is shorter). A dead waiter delays the queue by this much, once.
    pub const CLAIM_WINDOW: Duration = Duration::from_secs(2);
}

/// Identity of a holder or waiter, as shown to operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Host name.
    pub host: String,
    /// Process ID.
    pub pid: u32,
    /// Label chosen by the client, at most 200 bytes.
    pub label: String,
}

/// Outcome of [`LockStore::acquire`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The token holds the lock.
    Granted(Grant),
    /// The token is in the wait queue.
    Queued(Queued),
    /// Another token holds the lock, and this one is not in the wait queue.
    Busy(Busy),
}

/// A granted lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Fencing token, greater than that of every earlier grant.
    pub fence: Fence,
    /// When the lease expires unless it is extended.
    pub lease_until: Timestamp,
    /// Remaining lease, measured by the store in the step that answered.
    pub lease_left: Duration,
}

/// A position in the wait queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Position: 1 is next.
    pub position: u64,
    /// When to ask again if no notification comes: when the current lease would expire.
    pub check_after: Duration,
    /// The latest fencing token of the lock. A notification with a greater one is newer than this answer.
    pub fence: Fence,
}

/// Why the lock is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busy {
    /// When the current lease expires unless it is extended.
    pub retry_after: Duration,
    /// Number of live waiters.
    pub waiters: u64,
}

/// Outcome of [`LockStore::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Released {
    /// The token held the lock and has released it.
    Released,
    /// The token does not hold the lock: the lease expired, the lock was force-released, or it was never granted.
    NotHeld,
}

impl Released {
    /// Number of releases that a lock remembers. A repeated release gets the answer of the first.
    pub const REMEMBERED: usize = 64;
}

/// A lock to release and the task to enqueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseWith {
    /// Name of the lock.
    pub name: LockName,
    /// Token of the holder.
    pub token: Token,
    /// Queue of the task.
    pub queue: QueueName,
    /// The task.
    pub task: NewTask,
}

impl ReleaseWith {
    /// Checks the limits of the task.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) if it exceeds one.
    pub fn check(&self) -> Result<()> {
        self.task.check()
    }

    /// Idempotency token of this release, derived from the token of the holder, the lock, the queue and the ID of the
    /// task. So a call that is repeated by another process gets the same answer.
    ///
    /// The calls of all clients share a few client IDs, each for the locks whose names have the same hash, because a
    /// store on Redis keeps one replay cache per client ID.
    pub fn op(&self) -> Op {
        const CLIENTS: u64 = 64;
        let hash = |parts: &[&[u8]]| {
            let mut hasher = SipHasher24::new();
            for part in [&b"rushgate release 1"[..]].iter().chain(parts) {
                hasher.write(part);
                hasher.write_u8(0);
            }
            hasher.finish128().h1
        };
        let name = self.name.as_str().as_bytes();
        let client = hash(&[b"client", &(hash(&[name]) % CLIENTS).to_be_bytes()]);
        let parts = [
            &self.token.to_bytes()[..],
            name,
            self.queue.as_str().as_bytes(),
            self.task.id.as_str().as_bytes(),
        ];
        Op::new(ClientId::from_u64(client), hash(&parts))
    }
}

/// Outcome of [`LockStore::release_with`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleasedWith {
    /// The lock is released, with the outcome of the enqueue: neither [`Enqueued::Full`] nor
    /// [`Enqueued::Refused`].
    Released(Enqueued),
    /// The token does not hold the lock. The task was not enqueued.
    NotHeld,
    /// The queue refused the task: [`Enqueued::Full`] or [`Enqueued::Refused`]. The token still holds the lock.
    NotTaken(Enqueued),
}

/// A lease to extend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extend {
    /// Name of the lock.
    pub name: LockName,
    /// Token of the holder.
    pub token: Token,
    /// New lease duration, from now.
    pub lease: Lease,
}

/// Outcome of one [`Extend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// The lease was extended. The fencing token is unchanged.
    Extended(Grant),
    /// The token does not hold the lock, or its lease has expired.
    NotHeld,
}

/// Outcome of [`LockStore::leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// The token has left the wait queue.
    Line,
    /// The token had been granted the lock and has released it.
    Lock,
    /// The token was not in the wait queue.
    Nothing,
}

/// A notification for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The token was granted the lock for its full lease: no confirmation needed.
    Granted(Grant),
    /// The token was granted the lock for the claim window: [`extend`](LockStore::extend) turns it into the full
    /// lease.
    Handed(Grant),
    /// Ask the store: the token was granted a lock for the claim window, or its wait queue changed.
    Ask,
    /// The lock was force-released.
    Revoked,
}

/// A holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its token.
    pub token: Token,
    /// Its fencing token.
    pub fence: Fence,
    /// Its identity.
    pub owner: Owner,
    /// When it was granted.
    pub since: Timestamp,
    /// When the lease expires unless it is extended.
    pub lease_until: Timestamp,
}

/// A waiter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaiterState {
    /// Its token.
    pub token: Token,
    /// Its identity.
    pub owner: Owner,
    /// When it joined the wait queue.
    pub since: Timestamp,
    /// When it gives up.
    pub wait_until: Timestamp,
}

/// A lock, its holders and its wait queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockState {
    /// Name of the lock.
    pub name: LockName,
    /// The holders: none or one. (Shared locks will have more.)
    pub holders: Vec<Holder>,
    /// The waiters, next in line first.
    pub waiters: Vec<WaiterState>,
}
