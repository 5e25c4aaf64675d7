use std::hash::Hasher;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::{ClientId, Enqueued, Fence, Lease, LockName, NewTask, Op, QueueName, Result, Timestamp, Token};

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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Owner {
    /// Host name.
    pub host: String,
    /// Process ID.
    pub pid: u32,
    /// Label chosen by the client, at most 200 bytes.
    pub label: String,
}

/// Outcome of [`Verbs::acquire`](crate::Verbs::acquire).
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

/// Outcome of [`Verbs::release`](crate::Verbs::release).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Released {
    /// The token held the lock and has released it.
    Released,
    /// The token does not hold the lock: the lease expired, the lock was force-released, or it was never granted.
    NotHeld,
}

impl Released {
    /// Number of releases that a lock remembers. A repeated release gets the answer of the first.
    pub const REMEMBERED: usize = 4;
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

/// Outcome of [`Verbs::release_with`](crate::Verbs::release_with).
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

/// Outcome of [`Verbs::leave`](crate::Verbs::leave).
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
pub enum Notification {
    /// The token was granted the lock for its full lease: no confirmation needed.
    Granted(Grant),
    /// The token was granted the lock for the claim window: [`extend`](crate::Verbs::extend) turns it into the full
    /// lease.
    Handed(Grant),
    /// Ask the store: the token was granted a lock for the claim window, or its wait queue changed.
    Ask,
    /// The lock was force-released.
    Revoked,
}

/// A holder. Its token is secret, so JSON does not contain it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Holder {
    /// Its token.
    #[serde(skip)]
    pub token: Token,
    /// Its fencing token.
    pub fence: Fence,
    /// Its identity.
    #[serde(flatten)]
    pub owner: Owner,
    /// When it was granted.
    #[serde(rename = "since_us")]
    pub since: Timestamp,
    /// When the lease expires unless it is extended.
    #[serde(rename = "lease_until_us")]
    pub lease_until: Timestamp,
}

/// A waiter. Its token is secret, so JSON does not contain it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaiterState {
    /// Its token.
    #[serde(skip)]
    pub token: Token,
    /// Its identity.
    #[serde(flatten)]
    pub owner: Owner,
    /// When it joined the wait queue.
    #[serde(rename = "since_us")]
    pub since: Timestamp,
    /// When it gives up.
    #[serde(rename = "wait_until_us")]
    pub wait_until: Timestamp,
}

/// A lock, its holders and its wait queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockState {
    /// Name of the lock.
    pub name: LockName,
    /// The holder. Absent if the lock is free.
    // A list, because shared locks will have several.
    #[serde(rename = "holder", serialize_with = "first", skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<Holder>"))]
    pub holders: Vec<Holder>,
    /// The waiters, next in line first.
    #[serde(serialize_with = "numbered")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Numbered<WaiterState>>"))]
    pub waiters: Vec<WaiterState>,
}

/// A waiter with its position.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Waiter"))]
struct Numbered<T> {
    /// Position in the wait queue. 1 is next.
    position: usize,
    #[serde(flatten)]
    waiter: T,
}

fn numbered<S: Serializer>(waiters: &[WaiterState], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq((1..).zip(waiters).map(|(position, waiter)| Numbered { position, waiter }))
}

fn first<S: Serializer>(holders: &[Holder], serializer: S) -> Result<S::Ok, S::Error> {
    holders.first().serialize(serializer)
}
