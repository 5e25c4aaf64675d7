use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Answer, ClientId, Enqueued, Fence, Lease, LockName, NewTask, Op, Page, QueueName, Result, Timestamp,
    Token,
};

/// The locks of a store.
///
/// A lock has at most one holder and a line of waiters. A place in line is taken in the same step that finds the
/// lock held; a release hands the lock to the first live waiter in the same step. All times are the store's.
///
/// Rules that every backend keeps, and the contract suite checks:
/// - Every grant carries a [`Fence`] greater than all before it for that name.
/// - A step by a token that is not the holder's changes nothing.
/// - A step sent twice with one token is answered twice and carried out once.
pub trait LockStore: Send + Sync {
    /// Asks for the lock, or confirms a grant, or asks how the line stands: the three are one question.
    ///
    /// - The token holds the lock: [`Acquired::Granted`] with the fence it has, and the lease starts anew.
    /// - Free, nobody live in line before the token: granted. (`barging` ignores the line.)
    /// - Otherwise with `wait`: [`Acquired::Queued`], in line once however often it asks, and kept there until the
    ///   wait runs out. Without: [`Acquired::Busy`].
    ///
    /// If the last holder's lease has run out, the first live waiter is granted the lock in this step, whoever asks.
    fn acquire(&self, request: Acquire) -> Answer<'_, Acquired>;

    /// Gives the lock up and hands it to the first live waiter.
    ///
    /// [`Released::Released`] also if this token is among the [latest to release it](Released::REMEMBERED);
    /// [`Released::NotHeld`] if it does not hold it or its lease has run out. An expired holder's release changes nothing but the line: the first live
    /// waiter gets the lock.
    fn release(&self, name: &LockName, token: Token) -> Answer<'_, Released>;

    /// Gives the lock up as [`release`](Self::release) does, and puts a task into a queue in the same step: either both
    /// happen or neither. Nothing happens if the token does not hold the lock, or the queue does not take the task.
    ///
    /// A store that keeps the lock and the queue in different places cannot do this in one step: a Redis Cluster. There the
    /// lock is looked at first, then the task is put in, then the lock is given up. Whoever dies on the way leaves a lock
    /// that ends with its lease, and perhaps the task.
    fn release_with(&self, op: Op, release: ReleaseWith) -> Answer<'_, ReleasedWith>;

    /// Starts the leases anew, in the order given; each is answered by itself. A lease that has run out is not
    /// extended, even if nobody else holds the lock.
    fn extend(&self, leases: Vec<Extend>) -> Answer<'_, Vec<Extended>>;

    /// The grant that the token holds now, if it does.
    fn held(&self, name: &LockName, token: Token) -> Answer<'_, Option<Grant>>;

    /// Leaves the line; if the token has just been granted the lock, releases it.
    fn leave(&self, name: &LockName, token: Token) -> Answer<'_, Left>;

    /// Releases every lock that the client holds, and takes its waiters out of every line. Says how many locks.
    fn release_all(&self, client: ClientId) -> Answer<'_, u64>;

    /// Takes the lock from whoever holds it and hands it on. The holder is told by a [`Notice`]; what it writes with
    /// its old fence is refused. Gives the holder who lost it.
    fn force_release(&self, name: &LockName) -> Answer<'_, Option<Holder>>;

    /// The holder and the line.
    fn show(&self, name: &LockName) -> Answer<'_, LockState>;

    /// Locks that are held or waited for, by name.
    fn list(&self, page: Page) -> Answer<'_, Vec<LockState>>;

    /// Waits for news of a token: it was granted a lock, or lost one by force.
    ///
    /// Listening starts at the call. News is a hint and may be late, doubled or lost; the state is what
    /// [`acquire`](Self::acquire) and [`extend`](Self::extend) answer. Dropping the future stops listening.
    fn notice(&self, token: Token) -> Answer<'_, Notice>;
}

/// A question for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// Which lock.
    pub name: LockName,
    /// Made for this acquisition, before sending.
    pub token: Token,
    /// How long to hold it unless extended.
    pub lease: Lease,
    /// Stay in line for so long from now; zero to be told "busy" instead. At most 24 h.
    pub wait: Duration,
    /// Take the lock if it is free, although others are in line.
    pub barging: bool,
    /// Who asks.
    pub owner: Owner,
}

impl Acquire {
    /// The longest time in line.
    pub const WAIT_MAX: Duration = Duration::from_secs(86_400);

    /// A waiter that was granted the lock by somebody's release has so long to confirm (or its lease, if that is
    /// shorter): what a dead waiter costs, once.
    pub const CLAIM_WINDOW: Duration = Duration::from_secs(2);
}

/// Who holds or waits, for people who look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The machine's name.
    pub host: String,
    /// The process id.
    pub pid: u32,
    /// What the caller says it is doing; at most 200 bytes.
    pub label: String,
}

/// The answer to [`LockStore::acquire`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The lock is the token's.
    Granted(Grant),
    /// The token is in line.
    Queued(Queued),
    /// Somebody else has it, and the token is not in line.
    Busy(Busy),
}

/// A lock in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Greater than that of every grant before.
    pub fence: Fence,
    /// When it ends unless extended.
    pub lease_until: Timestamp,
    /// What is left of it, measured by the store in the step that answered.
    pub lease_left: Duration,
}

/// A place in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// 1 is next.
    pub position: u64,
    /// When to ask again if no notice comes: the moment at which the present grant would end.
    pub check_after: Duration,
    /// The lock's latest fence. A notice of a grant with a greater one is younger than this answer.
    pub fence: Fence,
}

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busy {
    /// When the present grant would end if it is not extended.
    pub retry_after: Duration,
    /// How many live waiters are in line.
    pub waiters: u64,
}

/// The answer to [`LockStore::release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Released {
    /// It was held, and is no more.
    Released,
    /// It was not this token's to release: the lease ran out, or it was forced away, or never granted.
    NotHeld,
}

impl Released {
    /// Releases that a lock remembers, so that one whose answer was lost and that is sent again gets the same answer.
    pub const REMEMBERED: usize = 64;
}

/// A lock to give up, and the task that is put in by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseWith {
    /// Which lock.
    pub name: LockName,
    /// The holder's token.
    pub token: Token,
    /// Where the task goes.
    pub queue: QueueName,
    /// What is put in.
    pub task: NewTask,
}

impl ReleaseWith {
    /// Whether the task is within its limits.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) if not.
    pub fn check(&self) -> Result<()> {
        self.task.check()
    }
}

/// The answer to [`LockStore::release_with`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleasedWith {
    /// The lock is given up, and that became of the task: neither [`Enqueued::Full`] nor [`Enqueued::Refused`].
    Released(Enqueued),
    /// The lock was not this token's to release. The task was not put in.
    NotHeld,
    /// The queue did not take the task: [`Enqueued::Full`] or [`Enqueued::Refused`]. The token holds the lock as before.
    NotTaken(Enqueued),
}

/// One lease to start anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extend {
    /// Which lock.
    pub name: LockName,
    /// The holder's token.
    pub token: Token,
    /// The lease, from now.
    pub lease: Lease,
}

/// The answer to one [`Extend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// The lease runs anew; the fence is unchanged.
    Extended(Grant),
    /// The token does not hold the lock, or its lease has run out.
    NotHeld,
}

/// The answer to [`LockStore::leave`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// Out of the line.
    Line,
    /// It had been granted, and was released.
    Lock,
    /// There was nothing to leave.
    Nothing,
}

/// News of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It has been granted the lock for its full lease: no need to confirm.
    Granted(Grant),
    /// It has been granted the lock for the claim window: [`extend`](LockStore::extend) gives it the whole lease.
    Handed(Grant),
    /// Ask: the token was granted a lock for the claim window, or something about its line changed.
    Ask,
    /// The lock was taken from it by force.
    Revoked,
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its token.
    pub token: Token,
    /// Its fence.
    pub fence: Fence,
    /// Who it says it is.
    pub owner: Owner,
    /// When it was granted.
    pub since: Timestamp,
    /// When it ends unless extended.
    pub lease_until: Timestamp,
}

/// Who waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaiterState {
    /// Its token.
    pub token: Token,
    /// Who it says it is.
    pub owner: Owner,
    /// When it took its place.
    pub since: Timestamp,
    /// When it gives up.
    pub wait_until: Timestamp,
}

/// A lock as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockState {
    /// Its name.
    pub name: LockName,
    /// Those who hold it: none or one. (Shared variants will have more.)
    pub holders: Vec<Holder>,
    /// Those who wait, first in line first.
    pub waiters: Vec<WaiterState>,
}
