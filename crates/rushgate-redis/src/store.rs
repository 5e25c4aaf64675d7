//! The public store: connects, sends calls, and runs the verbs that take several calls.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rushgate_core::{
    Answer, Books, ClientId, Created, DeadLetter, Enqueued, Error, Extend, Extended, Fence, Listing,
    LockName, LockState, Log, Notice, Op, Page, QueueName, ReleaseWith, ReleasedWith, Reply as Answered,
    Request, Result, SaleId, SaleSpec, SaleState, Store, StoreCalls, StoreInfo, TaskId, TaskInfo, TaskState,
    Topic, Warning,
};

use tokio::sync::oneshot;

use crate::ahead::{self, Ahead, Ids};
use crate::check::Checked;
use crate::command::{Call, Command};
use crate::driver::Driver;
use crate::inbox::{Inbox, Post};
use crate::keys::{self, QueueSet};
use crate::library::Library;
use crate::link::Walk;
use crate::listeners::{Listening, Register};
use crate::reply::{Reply, strange};
use crate::sale::{self, Home};
use crate::url::Url;
use crate::{lock, queue};

/// COUNT of each SCAN.
const SCAN_COUNT: &str = "1000";
/// The most entries that one call of a listing reads.
const PAGE: usize = 500;
/// The page size of a search for blocked tasks.
const BLOCKED_PAGE: usize = 10_000;
/// How long a queue's entry in the directory is assumed to exist.
const ENTERED_FOR: Duration = Duration::from_secs(60);
/// From this number of queues on, expired assumptions are removed.
const ENTERED_MAX: usize = 1_024;
/// The most specifications of sales that are cached.
const HOMES_MAX: usize = 1_024;
/// How long a listener must wait before it is registered on the server.
const LINGER: Duration = Duration::from_millis(1);

/// A store on a Redis or Valkey server, on a Sentinel service or on a Cluster.
///
/// It runs on the multi-threaded runtime in which it was opened, and is unavailable after that runtime has ended.
/// Without such a runtime it starts a thread of its own. It is cheap to share as an [`Arc`]. After the last one is
/// dropped, requests that were sent are still executed in the background; [`close`](rushgate_core::Store::close) waits
/// for them.
pub struct RedisStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    url: String,
    pub(crate) driver: Driver,
    pub(crate) inbox: Arc<Inbox>,
    entered: Mutex<HashMap<QueueName, Instant>>,
    homes: Mutex<HashMap<SaleId, Arc<Home>>>,
    apart: Mutex<Latest>,
    ahead: Ahead,
}

/// The enqueues of the latest releases with a task in a Cluster, so that a retry does not repeat them.
#[derive(Default)]
struct Latest {
    by_op: HashMap<Op, Handed>,
    order: VecDeque<Op>,
}

/// The enqueue of a release with a task.
#[derive(Clone)]
struct Handed {
    enqueued: Enqueued,
    /// The grant that it released, if it still existed. A token may be granted the lock again.
    fence: Option<Fence>,
}

impl Latest {
    const MAX: usize = 1_024;

    fn get(&self, op: Op) -> Option<Handed> {
        self.by_op.get(&op).cloned()
    }

    fn keep(&mut self, op: Op, handed: Handed) {
        if self.by_op.insert(op, handed).is_none() {
            self.order.push_back(op);
        }
        if self.order.len() > Self::MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_op.remove(&oldest);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.inbox.listeners.close();
    }
}

impl Post for Inner {
    fn register(self: Arc<Self>, queue: QueueName, seen: u64) {
        let inner = Arc::clone(&self);
        self.driver.spawn(async move { inner.register_now(queue, Some(seen)).await });
    }

    fn pass_on(self: Arc<Self>, queue: QueueName) {
        drop(self.driver.call(queue::ring(&queue)));
    }
}

impl RedisStore {
    /// Connects to a server, `redis://[user[:password]@]host[:port][/database]`; to the primary of a Sentinel service,
    /// `redis+sentinel://[user[:password]@]host[:port],…/service[/database]`; or to a Cluster through some of its
    /// nodes, `redis+cluster://[user[:password]@]host[:port],…`. Use `rediss` in place of `redis` for TLS. Every
    /// server is checked.
    ///
    /// # Errors
    /// - [`is_invalid`](Error::is_invalid): the URL is invalid.
    /// - [`is_unavailable`](Error::is_unavailable): the server cannot be reached, or is loading its data.
    /// - [`is_misconfigured`](Error::is_misconfigured): the password is wrong; the certificate is trusted neither by
    ///   this machine nor by the file in `SSL_CERT_FILE`; the server is too old, a replica, or has a
    ///   `maxmemory-policy` that evicts keys; no sentinel knows the service; or the server is not a Cluster.
    ///
    /// None of these errors changes data.
    pub async fn open(url: &str) -> Result<Self> {
        let Url { deployment, shown } = Url::parse(url)?;
        let inbox = Inbox::new();
        let driver = Driver::start(deployment, Arc::clone(&inbox), Library::Install).await;
        let driver = driver.map_err(|error| error.doing(format_args!("open the store `{shown}`")))?;
        let (entered, homes, apart) = (Mutex::default(), Mutex::default(), Mutex::default());
        let ahead = Ahead::default();
        let inner = Arc::new(Inner { url: shown, driver, inbox, entered, homes, apart, ahead });
        let post: Weak<Inner> = Arc::downgrade(&inner);
        inner.inbox.is_read_for(post);
        Ok(Self { inner })
    }

    /// Sends a call.
    pub(crate) fn send<T: 'static>(
        &self,
        call: Call,
        read: impl FnOnce(Reply) -> Result<T> + Send + 'static,
        reply: fn(T) -> Answered,
    ) -> Answer<'static, Answered> {
        let answer = self.inner.driver.call(call);
        Box::pin(async move { answer.await.and_then(read).map(reply) })
    }

    /// Sends a call that changes a queue, with the key that allows it to change a reserved one if this handle has that
    /// right.
    pub(crate) fn change<T: 'static>(
        &self,
        queue: &QueueName,
        call: Call,
        read: impl FnOnce(Reply) -> Result<T> + Send + 'static,
        reply: fn(T) -> Answered,
    ) -> Answer<'static, Answered> {
        self.inner.ahead.forget(queue);
        let (inner, changed) = (Arc::clone(&self.inner), queue.clone());
        let read = move |raw| {
            inner.ahead.forget(&changed);
            read(raw)
        };
        self.send(call, read, reply)
    }

    /// Sends a call that may be the first use of a queue.
    pub(crate) fn put<T: 'static>(
        &self,
        queue: &QueueName,
        call: Call,
        read: impl FnOnce(Reply) -> Result<T> + Send + 'static,
        reply: fn(T) -> Answered,
    ) -> Answer<'static, Answered> {
        let entered = self.inner.enter_queue(queue);
        let answer = self.change(queue, call, read, reply);
        Box::pin(async move {
            let entered = entered.await;
            let answer = answer.await?;
            // The directory may be on another node. A queue that it does not list was not acknowledged.
            entered.map(|()| answer).map_err(Error::maybe_happened)
        })
    }

    /// Runs several steps, even if the caller drops the returned future.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        steps: impl Future<Output = Result<T>> + Send + 'static,
        reply: fn(T) -> Answered,
    ) -> Answer<'static, Answered> {
        let answer = self.inner.driver.run(steps);
        Box::pin(async move { answer.await.map(reply) })
    }

    pub(crate) fn release_with(&self, op: Op, release: ReleaseWith) -> Answer<'static, Answered> {
        if !self.inner.driver.is_cluster() {
            let call = lock::release_with(op, &release);
            return self.put(&release.queue, call, lock::read_released_with, Answered::ReleaseWith);
        }
        let put = queue::enqueue(op, &release.queue, std::slice::from_ref(&release.task));
        self.run(Arc::clone(&self.inner).release_apart(op, release, put), Answered::ReleaseWith)
    }
}

impl Inner {
    /// The names of all locks with keys on the servers, whether or not they are held.
    async fn lock_names(&self) -> Result<BTreeSet<LockName>> {
        let walks = self.driver.walks().await?;
        // A key that migrates during the scan could be missed. Two rounds in opposite order find it on one node or the
        // other.
        let back = if walks.len() > 1 { &walks[..] } else { &[] };
        let mut names = BTreeSet::new();
        for walk in walks.iter().chain(back.iter().rev()) {
            scan_locks(walk, &mut names).await?;
        }
        Ok(names)
    }

    pub(crate) async fn list(self: Arc<Self>, page: Page) -> Result<Vec<LockState>> {
        let names = self.lock_names().await?.into_iter();
        let names: Vec<_> = names.filter(|name| name.as_str() > page.after.as_str()).collect();
        let mut states = Vec::new();
        for some in names.chunks(100) {
            let asked: Vec<_> = some.iter().map(|name| self.driver.call(lock::show(name))).collect();
            for (name, answer) in some.iter().zip(asked) {
                states.extend(Some(lock::read_state(name.clone(), answer.await?)?).filter(lock::is_used));
            }
            if states.len() >= page.limit as usize {
                break;
            }
        }
        states.truncate(page.limit as usize);
        Ok(states)
    }

    /// Releases a lock with a task when the two are on different servers: checks that the token holds the lock,
    /// enqueues the task, then releases the lock. A retry of the call continues where the earlier one failed.
    async fn release_apart(self: Arc<Self>, op: Op, release: ReleaseWith, put: Call) -> Result<ReleasedWith> {
        let ReleaseWith { name, token, queue, .. } = release;
        self.ahead.forget(&queue);
        let grant = lock::read_held(self.driver.call(lock::held(&name, token)).await?)?;
        let (holds, fence) = (grant.is_some(), grant.map(|grant| grant.fence));
        let known = self.apart().get(op);
        let is_later_grant = holds && known.as_ref().is_some_and(|known| known.fence != fence);
        let enqueued = match known {
            Some(known) if !is_later_grant => known.enqueued,
            _ => {
                if is_later_grant {
                    self.forget_replay(op, &queue).await?;
                }
                if !holds && !self.is_replay(op, &queue).await? {
                    return Ok(ReleasedWith::NotHeld);
                }
                self.enter_queue(&queue).await?;
                let answers = self.driver.call(put).await?;
                self.ahead.forget(&queue);
                match queue::read_enqueued(answers)?.pop() {
                    Some(refused @ (Enqueued::Full { .. } | Enqueued::Refused { .. })) => {
                        self.forget_replay(op, &queue).await?;
                        return Ok(if holds {
                            ReleasedWith::NotTaken(refused)
                        } else {
                            ReleasedWith::NotHeld
                        });
                    }
                    Some(enqueued) => enqueued,
                    None => return Err(Error::bug("the store returned no answer for an enqueued task")),
                }
            }
        };
        self.apart().keep(op, Handed { enqueued: enqueued.clone(), fence });
        // If the lease has expired by now, the lock counts as released.
        self.driver.call(lock::release(&name, token)).await?;
        Ok(ReleasedWith::Released(enqueued))
    }

    /// Whether the queue's replay cache has the answer to `op`, perhaps of another process.
    async fn is_replay(&self, op: Op, queue: &QueueName) -> Result<bool> {
        for key in keys::replays(queue, op.client()) {
            let ask = Command::new("HEXISTS").arg(key).arg(&op.to_bytes()[8..]);
            if self.driver.command(ask).await?.int()? == 1 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes the answer to `op` from the queue's replay cache, so that the call can be repeated.
    async fn forget_replay(&self, op: Op, queue: &QueueName) -> Result<()> {
        for key in keys::replays(queue, op.client()) {
            self.driver.command(Command::new("HDEL").arg(key).arg(&op.to_bytes()[8..])).await?;
        }
        Ok(())
    }

    fn apart(&self) -> MutexGuard<'_, Latest> {
        self.apart.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends all extensions at once.
    pub(crate) fn extend(
        &self,
        leases: &[Extend],
    ) -> impl Future<Output = Result<Vec<Extended>>> + Send + use<> {
        let asked: Vec<_> = leases.iter().map(|lease| self.driver.call(lock::extend(lease))).collect();
        async move {
            let mut answers = Vec::with_capacity(asked.len());
            for answer in asked {
                answers.push(lock::read_extended(answer.await?)?);
            }
            Ok(answers)
        }
    }

    pub(crate) async fn release_all(self: Arc<Self>, client: ClientId) -> Result<u64> {
        let names: Vec<_> = self.lock_names().await?.into_iter().collect();
        let mut released = 0;
        for some in names.chunks(100) {
            let asked: Vec<_> =
                some.iter().map(|name| self.driver.call(lock::release_all(name, client))).collect();
            for answer in asked {
                released += answer.await?.int()?;
            }
        }
        Ok(released)
    }
}

/// Adds the names of the locks on one server.
async fn scan_locks(walk: &Walk, names: &mut BTreeSet<LockName>) -> Result<()> {
    let mut cursor = "0".to_owned();
    loop {
        let scan = Command::new("SCAN").arg(&cursor).arg("MATCH").arg(keys::LOCK_PATTERN);
        let mut page = walk.ask(scan.arg("COUNT").arg(SCAN_COUNT)).await?.list()?;
        cursor = page.text()?;
        let mut found = page.list()?;
        while !found.is_empty() {
            names.insert(keys::lock_name(&found.bytes()?).ok_or_else(lock::bad_key)?);
        }
        if cursor == "0" {
            return Ok(());
        }
    }
}

impl Inner {
    /// Adds the queue to the directory, if this process has not done so recently. The command is sent immediately.
    fn enter_queue(self: &Arc<Self>, queue: &QueueName) -> impl Future<Output = Result<()>> + Send + use<> {
        let entry = self.must_enter(queue).then(|| {
            self.driver.command(Command::new("ZADD").arg(keys::QUEUES).arg("0").arg(queue.as_str()))
        });
        let (inner, queue) = (Arc::clone(self), queue.clone());
        async move {
            let Some(entry) = entry else { return Ok(()) };
            let entered = entry.await;
            if entered.is_err() {
                inner.entered().remove(&queue);
            }
            entered.map(drop)
        }
    }

    fn entered(&self) -> MutexGuard<'_, HashMap<QueueName, Instant>> {
        self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn must_enter(&self, queue: &QueueName) -> bool {
        let (mut entered, now) = (self.entered(), Instant::now());
        if entered.get(queue).is_some_and(|since| now.duration_since(*since) < ENTERED_FOR) {
            return false;
        }
        if entered.len() >= ENTERED_MAX {
            entered.retain(|_, since| now.duration_since(*since) < ENTERED_FOR);
        }
        entered.insert(queue.clone(), now);
        true
    }

    pub(crate) async fn queues(self: Arc<Self>) -> Result<Vec<QueueName>> {
        let all = Command::new("ZRANGE").arg(keys::QUEUES).arg("0").arg("-1");
        let mut entered = self.driver.command(all).await?.list()?;
        let mut asked = Vec::new();
        while !entered.is_empty() {
            let name = QueueName::as_stored(entered.text()?)?;
            let exists = Command::new("EXISTS").arg(keys::queue_meta(&name));
            asked.push((name, self.driver.command(exists)));
        }
        let mut names = Vec::new();
        for (name, exists) in asked {
            names.extend((exists.await?.int()? == 1).then_some(name));
        }
        Ok(names)
    }

    pub(crate) async fn tasks(
        self: Arc<Self>,
        queue: QueueName,
        mut listing: Listing,
    ) -> Result<Vec<TaskInfo>> {
        let now = self.driver.call(queue::reap(&queue)).await?.int()?;
        let (mut infos, limit) = (Vec::new(), listing.limit as usize);
        let over = listing.state == Some(TaskState::Done);
        loop {
            // The set of key groups also has each group's first task, which is not blocked. So more IDs than requested
            // are read.
            let is_blocked = listing.state == Some(TaskState::Blocked);
            let most = if is_blocked { BLOCKED_PAGE } else { limit - infos.len() };
            let ids = self.page_of_ids(&queue, now, &listing, most).await?;
            for some in ids.chunks(PAGE) {
                let found = queue::read_infos(self.driver.call(queue::tasks(&queue, over, some)).await?)?;
                // A task may have finished since its ID was read.
                let wanted = |info: &TaskInfo| match listing.state {
                    None => info.state != TaskState::Done,
                    Some(state) => info.state == state,
                };
                infos.extend(found.into_iter().filter(wanted));
            }
            infos.truncate(limit);
            match ids.last() {
                Some(last) if infos.len() < limit && ids.len() == most => {
                    last.as_str().clone_into(&mut listing.after)
                }
                _ => return Ok(infos),
            }
        }
    }

    /// The next IDs that match the listing, at most `most`, in ascending order.
    async fn page_of_ids(
        &self,
        queue: &QueueName,
        now: u64,
        listing: &Listing,
        most: usize,
    ) -> Result<Vec<TaskId>> {
        let Listing { state, after, .. } = listing;
        let suits = Ahead::suits(*state);
        let (reading, kept) = suits.then(|| self.ahead.take(queue, *state, after)).unzip();
        let mut ahead = match kept.flatten().filter(|kept| kept.ids.len() >= most || !kept.more) {
            Some(kept) => kept,
            // A first page may be the only one.
            None => {
                let keeps = if suits && !after.is_empty() { most.max(ahead::IDS_MAX) } else { most };
                self.ids_of(queue, now, listing, keeps).await?
            }
        };
        let page = ahead.ids.split_off(ahead.ids.len().saturating_sub(most));
        let page: Vec<_> = page.into_iter().rev().collect();
        // An end is kept, too: the page after the last one is empty.
        let goes_on = page.len() == most && (!ahead.ids.is_empty() || !ahead.more);
        if let (Some(reading), Some(last), true) = (reading, page.last(), goes_on) {
            reading.keep(*state, last.as_str().to_owned(), ahead);
        }
        Ok(page)
    }

    /// The first IDs in the queue's sets that match the listing, at most `most`.
    async fn ids_of(&self, queue: &QueueName, now: u64, listing: &Listing, most: usize) -> Result<Ids> {
        let mut ids = BTreeSet::new();
        let mut more = false;
        // A task that is claimed meanwhile leaves a set that is not read yet for the leases, so these are read again.
        let sets = keys::queue_sets(queue);
        let leases = sets.iter().filter(|(_, of)| *of == QueueSet::Leases && listing.state.is_none());
        for (set, of) in sets.iter().chain(leases) {
            more |= self.ids_in(set, *of, now, listing, most, &mut ids).await?;
        }
        Ok(Ids { ids: ids.into_iter().rev().collect(), more })
    }

    /// Adds the IDs in a set that match the listing, and drops those beyond the first `most`. Returns whether it dropped
    /// any.
    async fn ids_in(
        &self,
        set: &[u8],
        of: QueueSet,
        now: u64,
        listing: &Listing,
        most: usize,
        ids: &mut BTreeSet<TaskId>,
    ) -> Result<bool> {
        let wanted = |score: f64| match listing.state {
            None => of != QueueSet::Over,
            Some(TaskState::Done) => of == QueueSet::Over,
            Some(TaskState::Leased) => of == QueueSet::Leases,
            Some(TaskState::Ready) => of == QueueSet::Waiting && score <= now as f64,
            Some(TaskState::Scheduled) => of == QueueSet::Waiting && score > now as f64,
            Some(TaskState::Blocked) => of == QueueSet::Lines,
        };
        let walk = self.driver.walk_to(set).await?;
        let (mut cursor, mut more) = ("0".to_owned(), false);
        loop {
            let scan = Command::new("ZSCAN").arg(set).arg(&cursor).arg("COUNT").arg(SCAN_COUNT);
            let mut page = walk.ask(scan).await?.list()?;
            cursor = page.text()?;
            let mut found = page.list()?;
            while !found.is_empty() {
                let id = of.id(&found.bytes()?)?;
                let score = found.text()?.parse().map_err(|_| strange("not a number"))?;
                ids.extend(id.filter(|id| id.as_str() > listing.after.as_str() && wanted(score)));
            }
            while ids.len() > most {
                ids.pop_last();
                more = true;
            }
            if cursor == "0" {
                return Ok(more);
            }
        }
    }

    pub(crate) async fn dead(
        self: Arc<Self>,
        queue: QueueName,
        mut after: String,
        limit: u32,
    ) -> Result<Vec<DeadLetter>> {
        let mut letters = Vec::new();
        loop {
            let wanted = (limit as usize - letters.len()).min(PAGE);
            let page = queue::read_dead(self.driver.call(queue::dead(&queue, &after, wanted as u32)).await?)?;
            let more = page.len() == wanted;
            letters.extend(page);
            match letters.last() {
                Some(last) if more && letters.len() < limit as usize => after = last.id.as_str().to_owned(),
                _ => return Ok(letters),
            }
        }
    }

    /// Registers the process for the queue's next wake-up, if a listener still waits for one.
    async fn register_now(self: Arc<Self>, queue: QueueName, seen: Option<u64>) {
        let mut seen = seen;
        while self.inbox.listeners.must_register(&queue) {
            let answer = self.driver.call(queue::listen(&queue, self.inbox.id, seen)).await;
            match answer.and_then(queue::read_listening) {
                Ok((0, _)) => return,
                Ok((missed, wakes)) => {
                    seen = Some(wakes);
                    self.inbox.listeners.tell_queue(&queue, missed, wakes);
                }
                Err(error) => {
                    tracing::debug!(%queue, %error, "not registered for notifications");
                    return self.inbox.listeners.not_registered(&queue);
                }
            }
        }
    }
}

impl Inner {
    fn hear_ready(self: Arc<Self>, queue: &QueueName) -> Answer<'static, Option<Notice>> {
        let (listening, told, register) = self.inbox.listeners.listen_queue(queue);
        match register {
            Register::Done => {}
            // Sent now, before any later request of the caller.
            Register::From(None) => self.register_first(queue),
            // A worker that claims in a loop need not register between two claims: the wake-up count shows what it
            // missed.
            Register::From(seen) => {
                let (inner, of) = (Arc::clone(&self), queue.clone());
                self.driver.spawn(async move {
                    tokio::time::sleep(LINGER).await;
                    inner.register_now(of, seen).await;
                });
            }
        }
        Box::pin(async move {
            let _listening = listening;
            told.await.map(|()| None).map_err(|_| self.driver.why_ended())
        })
    }

    /// Waits for a notification, if the server's answer is that there is something to wait for.
    fn hear(
        self: Arc<Self>,
        (listening, told): (Listening, oneshot::Receiver<()>),
        watch: Call,
    ) -> Answer<'static, Option<Notice>> {
        let watched = self.driver.call(watch);
        Box::pin(async move {
            let _listening = listening;
            if watched.await?.int()? == 1 {
                told.await.map_err(|_| self.driver.why_ended())?;
            }
            Ok(None)
        })
    }

    /// Waits for an event of a sale, if its latest one is `after`.
    fn hear_sale(
        self: Arc<Self>,
        (listening, told): (Listening, oneshot::Receiver<()>),
        sale: SaleId,
        after: u64,
    ) -> Answer<'static, Option<Notice>> {
        let inbox = self.inbox.id;
        // Sent now, if the sale's keys are known.
        let watched = self.known_home(&sale).map(|home| self.driver.call(sale::listen(&home, inbox, after)));
        Box::pin(async move {
            let _listening = listening;
            let answer = match watched {
                Some(watched) => Some(watched.await?).filter(|reply| !reply.is("MISSING")),
                None => None,
            };
            let waits = match answer {
                Some(reply) => reply.int()? == 1,
                None => {
                    let build = |home: &Home, asked: &(u64, u64)| Ok(sale::listen(home, asked.0, asked.1));
                    let read = |_: &Home, _: &(u64, u64), reply: Reply| Ok(reply.int()? == 1);
                    Arc::clone(&self).step_of_sale(sale, (inbox, after), build, read).await?
                }
            };
            if waits {
                told.await.map_err(|_| self.driver.why_ended())?;
            }
            Ok(None)
        })
    }

    fn register_first(self: &Arc<Self>, queue: &QueueName) {
        if !self.inbox.listeners.must_register(queue) {
            return;
        }
        let answer = self.driver.call(queue::listen(queue, self.inbox.id, None));
        let (inner, queue) = (Arc::clone(self), queue.clone());
        self.driver.spawn(async move {
            if let Err(error) = answer.await {
                tracing::debug!(%queue, %error, "not registered for notifications");
                inner.inbox.listeners.not_registered(&queue);
            }
        });
    }
}

impl Inner {
    fn homes(&self) -> MutexGuard<'_, HashMap<SaleId, Arc<Home>>> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known_home(&self, id: &SaleId) -> Option<Arc<Home>> {
        self.homes().get(id).cloned()
    }

    pub(crate) fn forget_home(&self, id: &SaleId) {
        self.homes().remove(id);
    }

    /// The specification and keys of a sale, from the cache or the server.
    async fn home(&self, id: &SaleId) -> Result<Arc<Home>> {
        if let Some(home) = self.known_home(id) {
            return Ok(home);
        }
        match self.driver.command(Command::new("GET").arg(keys::sale_home(id))).await? {
            Reply::Nil => Err(sale::unknown(id)),
            stored => {
                let home = Arc::new(Home::new(SaleSpec::from_json(id, &stored.bytes()?)?));
                let mut homes = self.homes();
                if homes.len() >= HOMES_MAX {
                    homes.clear();
                }
                homes.insert(id.clone(), Arc::clone(&home));
                Ok(home)
            }
        }
    }

    pub(crate) async fn step_of_sale<V, T>(
        self: Arc<Self>,
        id: SaleId,
        verb: V,
        build: fn(&Home, &V) -> Result<Call>,
        read: fn(&Home, &V, Reply) -> Result<T>,
    ) -> Result<T> {
        // The cached specification may be that of a sale that has since been replaced.
        let cached = self.known_home(&id).is_some();
        let home = self.home(&id).await?;
        let reply = self.driver.call(build(&home, &verb)?).await?;
        if !reply.is("MISSING") {
            return read(&home, &verb, reply);
        }
        self.forget_home(&id);
        if cached {
            return Box::pin(self.step_of_sale(id, verb, build, read)).await;
        }
        Err(sale::without_keys(&id))
    }

    pub(crate) async fn create(self: Arc<Self>, spec: SaleSpec) -> Result<Created> {
        let entry = Command::new("ZADD").arg(keys::SALES).arg("0").arg(spec.id.as_str());
        self.driver.command(entry).await?;
        sale::read_created(self.driver.call(sale::create(&Home::new(spec))).await?)
    }

    pub(crate) async fn sales(self: Arc<Self>, page: Page) -> Result<Vec<SaleState>> {
        let (mut after, mut states) = (page.after, Vec::new());
        loop {
            let from = if after.is_empty() { "-".to_owned() } else { format!("({after}") };
            let ids = Command::new("ZRANGEBYLEX").arg(keys::SALES).arg(from).arg("+");
            let ids = ids.arg("LIMIT").arg("0").arg(page.limit.to_string());
            let mut ids = self.driver.command(ids).await?.list()?;
            if ids.is_empty() {
                return Ok(states);
            }
            while !ids.is_empty() {
                let id = SaleId::as_stored(ids.text()?)?;
                after = id.as_str().to_owned();
                let state = Arc::clone(&self).step_of_sale(
                    id,
                    (),
                    |home, ()| Ok(sale::show(home)),
                    |home, (), reply| sale::read_state(home, reply),
                );
                match state.await {
                    Ok(state) => states.push(state),
                    Err(error) if error.is_not_found() => {}
                    Err(error) => return Err(error),
                }
                if states.len() == page.limit as usize {
                    return Ok(states);
                }
            }
        }
    }

    /// Whether the list of sales lacks the sale. A name is listed before it is used, so this can be read after the sale.
    async fn is_unlisted(&self, id: &SaleId) -> Result<bool> {
        let score = self.driver.command(Command::new("ZSCORE").arg(keys::SALES).arg(id.as_str())).await?;
        // Pages of a directory rely on equal scores.
        Ok(score == Reply::Nil || score.text()? != "0")
    }

    pub(crate) async fn books(self: Arc<Self>, id: SaleId) -> Result<Books> {
        // Read the specification from the server, not from the cache.
        self.forget_home(&id);
        let home = self.home(&id).await?;
        let reply = self.driver.together(sale::books(&home)).await?;
        let mut books = sale::read_books(&home, reply)?;
        if self.is_unlisted(&id).await? {
            books.contradictions.push("the list of sales lacks the sale".to_owned());
        }
        Ok(books)
    }
}

impl Store for RedisStore {
    fn step(&self, request: Request) -> Answer<'static, Answered> {
        self.carry(request)
    }

    fn listen(&self, topic: Topic) -> Answer<'static, Option<Notice>> {
        let (inner, listeners) = (Arc::clone(&self.inner), &self.inner.inbox.listeners);
        match topic {
            Topic::Token(token) => {
                let (listening, told) = listeners.listen_token(token);
                Box::pin(async move {
                    let _listening = listening;
                    told.await.map(Some).map_err(|_| inner.driver.why_ended())
                })
            }
            Topic::Ready(queue) => inner.hear_ready(&queue),
            Topic::Over(queue, id) => {
                let heard = listeners.listen_over(&queue, &id);
                inner.hear(heard, queue::watch(&queue, self.inner.inbox.id, &id))
            }
            Topic::Event(log, after) => {
                let heard = listeners.listen_events(&log, after);
                match log {
                    Log::Queue(queue) => inner.hear(heard, queue::follow(&queue, self.inner.inbox.id, after)),
                    Log::Sale(sale) => inner.hear_sale(heard, sale, after),
                }
            }
        }
    }

    fn info(&self) -> StoreInfo {
        let Checked { server, durability, .. } = self.inner.driver.checked();
        StoreInfo { url: self.inner.url.clone(), server, durability }
    }

    fn warnings(&self) -> Vec<Warning> {
        self.inner.driver.warnings()
    }

    fn incarnation(&self) -> String {
        self.inner.driver.checked().run
    }

    fn calls(&self) -> StoreCalls {
        self.inner.driver.counted()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.inner.inbox.listeners.close();
        self.inner.driver.stop();
        let ended = self.inner.driver.ended();
        Box::pin(async move {
            ended.await;
            Ok(())
        })
    }
}
