use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use rushgate_core::{
    Answer, ClientId, Holder, ListedSale, LockName, LockState, Op, Owner, Page, QueueName, Result, SaleId,
    Store, StoreCalls, StoreInfo, Token, Verbs, Warning,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cache::{SaleCache, Sales};
use crate::held::LostReason;
use crate::renewal::Renewals;
use crate::retry::{RETRY_BUDGET, ask};

/// A client of one store: entry point to its locks, queues and sales.
///
/// Cheap to clone. Clones share one renewal task, one set of tokens and the admission caches of the sales.
/// Create one per process and store, inside a Tokio runtime.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> rushgate::Result<()> {
/// let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
/// assert_eq!(client.info().durability, rushgate::store::Durability::D0);
/// client.close().await
/// # }
/// ```
#[derive(Clone)]
pub struct Rushgate {
    shared: Arc<Shared>,
}

/// Above this number, queues without listeners are removed.
const RELAYS_MAX: usize = 1_024;

struct Shared {
    store: Arc<dyn Store>,
    client: ClientId,
    numbers: AtomicU64,
    owner: Owner,
    closing: CancellationToken,
    background: Background,
    renewals: Arc<Renewals>,
    sales: Sales,
    relays: Mutex<HashMap<QueueName, Arc<Notify>>>,
    schedules_changed: Notify,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

impl Rushgate {
    /// A client of a store that is already open, such as the in-memory store of `rushgate-test` in a unit test.
    pub fn with_store(store: Arc<dyn Store>) -> Self {
        let closing = CancellationToken::new();
        Self {
            shared: Arc::new(Shared {
                renewals: Arc::new(Renewals::new(Arc::clone(&store), closing.clone())),
                client: ClientId::from_u64(rand::random()),
                numbers: AtomicU64::new(1),
                owner: this_process(),
                closing,
                background: Background::new(),
                sales: Sales::default(),
                relays: Mutex::default(),
                schedules_changed: Notify::new(),
                store,
            }),
        }
    }

    /// Kind of the store, and what an acknowledged write survives.
    pub fn info(&self) -> StoreInfo {
        self.store().info()
    }

    /// Identifies the server process behind the store, as of the last connection.
    pub fn incarnation(&self) -> String {
        self.store().incarnation()
    }

    /// Configuration warnings for operators, as of the last connection.
    pub fn warnings(&self) -> Vec<Warning> {
        self.store().warnings()
    }

    /// Number of calls that this client has made to the store since it was opened.
    pub fn calls(&self) -> StoreCalls {
        self.store().calls()
    }

    /// This client's random number: the first half of each of its tokens.
    pub fn client_id(&self) -> ClientId {
        self.shared.client
    }

    /// Locks that are held or waited for, sorted by name.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a limit outside 1 to 10,000. Otherwise the store could
    /// not answer. Nothing was changed.
    pub async fn locks(&self, page: Page) -> Result<Vec<LockState>> {
        self.ask(|| self.store().list(page.clone())).await
    }

    /// Names of the queues that were used or have a live worker, sorted. [`Page::read_all`] reads the whole list.
    pub async fn queues(&self, page: Page) -> Result<Vec<QueueName>> {
        self.ask(|| self.store().queues(page.clone())).await
    }

    /// Sales, sorted by ID. One whose records are damaged is listed as such, and does not hide the others.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a limit outside 1 to 10,000. Otherwise the store could
    /// not answer. Nothing was changed.
    pub async fn sales(&self, page: Page) -> Result<Vec<ListedSale>> {
        self.ask(|| self.store().sales(page.clone())).await
    }

    /// Releases every lock that this client holds, and leaves every wait queue. Returns the number of locks
    /// that the store released.
    ///
    /// The guards are marked as lost first, with [`LostReason::ReleasedAll`]. Stop the work under the locks
    /// before this call.
    ///
    /// # Errors
    /// The store could not answer. The locks then expire with their leases at the latest.
    pub async fn release_all(&self) -> Result<u64> {
        self.shared.renewals.lose_all(LostReason::ReleasedAll);
        self.ask(|| self.store().release_all(self.client_id())).await
    }

    /// Force-releases a lock and hands it to the next waiter. Returns the holder that lost it.
    ///
    /// The holder's guard is notified at once if it can be reached, and otherwise learns of it at its next
    /// renewal. Until then its work continues: only a checked [fence](crate::lock::fence) rejects its writes.
    ///
    /// # Errors
    /// [`is_invalid`](crate::Error::is_invalid) for a bad name. Otherwise the store could not answer;
    /// [`may_have_happened`](crate::Error::may_have_happened) says whether the lock may have been released.
    pub async fn force_release(&self, name: impl AsRef<str>) -> Result<Option<Holder>> {
        let name = LockName::new(name)?;
        self.store().force_release(&name).await
    }

    /// Closes this client: stops renewals, waits for the releases of dropped guards, and closes the store.
    ///
    /// Guards that are still held are lost with [`LostReason::Closed`], and their locks expire with their
    /// leases. Later calls on any clone fail with [`is_unavailable`](crate::Error::is_unavailable).
    pub async fn close(&self) -> Result<()> {
        self.shared.closing.cancel();
        self.shared.renewals.lose_all(LostReason::Closed);
        self.shared.background.drain().await;
        self.store().close().await
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.shared.store
    }

    pub(crate) fn store_arc(&self) -> Arc<dyn Store> {
        Arc::clone(&self.shared.store)
    }

    /// Random, so that a token does not reveal the others of this process.
    pub(crate) fn token(&self) -> Token {
        Token::new(self.shared.client, rand::random())
    }

    pub(crate) fn op(&self) -> Op {
        Op::new(self.shared.client, self.number())
    }

    fn number(&self) -> u64 {
        self.shared.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn owner(&self, label: &str) -> Owner {
        Owner { label: label.to_owned(), ..self.shared.owner.clone() }
    }

    /// `host:pid`, shown to operators.
    pub(crate) fn who(&self) -> String {
        format!("{}:{}", self.shared.owner.host, self.shared.owner.pid)
    }

    pub(crate) fn renewals(&self) -> &Arc<Renewals> {
        &self.shared.renewals
    }

    pub(crate) fn sale_cache(&self, id: &SaleId) -> Arc<SaleCache> {
        self.shared.sales.of(id)
    }

    /// Shared notifier of this process's listeners on one queue.
    pub(crate) fn relay(&self, queue: &QueueName) -> Arc<Notify> {
        let mut relays = self.shared.relays.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(relay) = relays.get(queue) {
            return Arc::clone(relay);
        }
        if relays.len() >= RELAYS_MAX {
            // Queue names come from callers. Drop the entries that no listener uses.
            relays.retain(|_, relay| Arc::strong_count(relay) > 1);
        }
        Arc::clone(relays.entry(queue.clone()).or_default())
    }

    /// Wakes one listener of this process to look up when the next task of the queue is due. The store
    /// notifies of ready tasks, but not of a new delay that ends before the known ones.
    pub(crate) fn next_due_changed(&self, queue: &QueueName) {
        let relays = self.shared.relays.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(relay) = relays.get(queue) {
            relay.notify_one();
        }
    }

    /// Notified when this process adds or changes a schedule.
    pub(crate) fn schedules_changed(&self) -> &Notify {
        &self.shared.schedules_changed
    }

    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.shared.closing
    }

    /// Retries the call with the same token while its outcome is unknown, for up to [`RETRY_BUDGET`].
    pub(crate) fn ask<'a, T>(&self, call: impl FnMut() -> Answer<'a, T>) -> impl Future<Output = Result<T>> {
        ask(Instant::now() + RETRY_BUDGET, self.closing(), call)
    }

    /// Sends the first request of `work` now and continues in the background. Never blocks, never panics, and
    /// sends without a runtime.
    pub(crate) fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shared.background.carry_on(Box::pin(work));
    }
}

impl fmt::Debug for Rushgate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rushgate")
            .field("store", &self.info().url)
            .field("client", &self.shared.client)
            .finish_non_exhaustive()
    }
}

fn this_process() -> Owner {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host = host.chars().filter(|c| !c.is_control()).take(60).collect();
    Owner { host, pid: std::process::id(), label: String::new() }
}

/// Requests that dropped values leave behind.
struct Background {
    tasks: TaskTracker,
    runtime: Option<Handle>,
}

impl Background {
    fn new() -> Self {
        Self { tasks: TaskTracker::new(), runtime: Handle::try_current().ok() }
    }

    /// A store sends its request when the method is called, so one poll from within a `drop` sends it.
    /// Reading the answer and retrying need a runtime, and continue if there is one.
    fn carry_on(&self, mut work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let runtime = Handle::try_current().ok().or_else(|| self.runtime.clone());
        let _context = runtime.as_ref().map(Handle::enter);
        let first = catch_unwind(AssertUnwindSafe(|| work.as_mut().now_or_never().is_none()));
        if let (Ok(true), Some(runtime)) = (first, &runtime) {
            self.tasks.spawn_on(work, runtime);
        }
    }

    async fn drain(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
