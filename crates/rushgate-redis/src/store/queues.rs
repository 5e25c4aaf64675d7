//! The directory of queues, and the listings of their tasks.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rushgate_core::{DeadLetter, Listing, Page, QueueName, Result, TaskId, TaskInfo, TaskState};

use super::{Inner, SCAN_COUNT};
use crate::ahead::{self, Ahead, Ids};
use crate::command::Command;
use crate::keys::{self, QueueSet};
use crate::queue;
use crate::reply::{Fields, strange};
use crate::worker;

/// The most entries that one call of a listing reads.
const PAGE: usize = 500;
/// The page size of a search for blocked tasks.
const BLOCKED_PAGE: usize = 10_000;
/// The page size of a walk through a list.
const LIST_PAGE: u64 = 1_000;
/// How long a queue's entry in the directory is assumed to exist.
const ENTERED_FOR: Duration = Duration::from_secs(60);
/// From this number of queues on, expired assumptions are removed.
const ENTERED_MAX: usize = 1_024;

impl Inner {
    /// Adds the queue to the directory, if this process has not done so recently. The command is sent immediately.
    pub(super) fn enter_queue(
        self: &Arc<Self>,
        queue: &QueueName,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
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

    pub(crate) async fn queues(self: Arc<Self>, mut page: Page) -> Result<Vec<QueueName>> {
        let (mut names, limit) = (Vec::new(), page.limit as usize);
        loop {
            let mut entered = self.entries(keys::QUEUES, &page).await?;
            let mut asked = Vec::new();
            while !entered.is_empty() {
                let name = QueueName::as_stored(entered.text()?)?;
                let exists = Command::new("EXISTS").arg(keys::queue_meta(&name));
                asked.push((name, self.driver.command(exists)));
            }
            let is_last = asked.len() < limit;
            let mut found = Vec::new();
            for (name, exists) in asked {
                let was_used = exists.await?.int()? == 1;
                let first = Page::first(1);
                let workers = (!was_used).then(|| self.driver.call(worker::workers(&name, &first)));
                found.push((name, workers));
            }
            for (name, workers) in found {
                name.as_str().clone_into(&mut page.after);
                let is_listed = match workers {
                    Some(workers) => !worker::read_workers(workers.await?)?.is_empty(),
                    None => true,
                };
                names.extend(is_listed.then_some(name));
            }
            names.truncate(limit);
            if is_last || names.len() == limit {
                return Ok(names);
            }
        }
    }

    /// A page of a directory of names.
    pub(super) async fn entries(&self, directory: &str, page: &Page) -> Result<Fields> {
        let from = if page.after.is_empty() { "-".to_owned() } else { format!("({}", page.after) };
        let names = Command::new("ZRANGEBYLEX").arg(directory).arg(from).arg("+");
        let names = names.arg("LIMIT").arg("0").arg(page.limit.to_string());
        self.driver.command(names).await?.list()
    }

    pub(crate) async fn tasks(
        self: Arc<Self>,
        queue: QueueName,
        mut listing: Listing,
    ) -> Result<Vec<TaskInfo>> {
        let now = self.driver.call(queue::reap(&queue)).await?.int()?;
        let (mut infos, limit) = (Vec::new(), listing.page.limit as usize);
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
                    last.as_str().clone_into(&mut listing.page.after)
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
        let Listing { state, page: Page { after, .. } } = listing;
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
        // Before the sets: a task leaves this list for a set, and never comes back.
        let mut more = match listing.state {
            None | Some(TaskState::Ready) => self.ids_at_once(queue, listing, most, &mut ids).await?,
            Some(_) => false,
        };
        // A task that is claimed meanwhile leaves a set that is not read yet for the leases, so these are read again.
        let sets = keys::queue_sets(queue);
        let leases = sets.iter().filter(|(_, of)| *of == QueueSet::Leases && listing.state.is_none());
        for (set, of) in sets.iter().chain(leases) {
            more |= self.ids_in(set, *of, now, listing, most, &mut ids).await?;
        }
        Ok(Ids { ids: ids.into_iter().rev().collect(), more })
    }

    /// Adds the IDs of tasks that were due when they were enqueued, as [`Inner::ids_in`] does. Reads from the end of the
    /// list, because claims move the entries towards its beginning.
    async fn ids_at_once(
        &self,
        queue: &QueueName,
        listing: &Listing,
        most: usize,
        ids: &mut BTreeSet<TaskId>,
    ) -> Result<bool> {
        let key = keys::queue_at_once(queue);
        let walk = self.driver.walk_to(&key).await?;
        let mut left = walk.ask(Command::new("LLEN").arg(&key)).await?.int()?;
        let mut more = false;
        while left > 0 {
            let from = left.saturating_sub(LIST_PAGE);
            let range = Command::new("LRANGE").arg(&key).arg(from.to_string()).arg((left - 1).to_string());
            let mut entries = walk.ask(range).await?.list()?;
            while !entries.is_empty() {
                more |= keep_first(ids, QueueSet::Waiting.id(&entries.bytes()?)?, listing, most);
            }
            left = from;
        }
        Ok(more)
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
            None => of != QueueSet::Done,
            Some(TaskState::Done) => of == QueueSet::Done,
            Some(TaskState::Leased) => of == QueueSet::Leases,
            Some(TaskState::Ready) => of == QueueSet::Waiting && score <= now as f64,
            Some(TaskState::Scheduled) => of == QueueSet::Waiting && score > now as f64,
            Some(TaskState::Blocked) => matches!(of, QueueSet::Blocked | QueueSet::Held),
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
                if wanted(score) {
                    more |= keep_first(ids, id, listing, most);
                }
            }
            if cursor == "0" {
                return Ok(more);
            }
        }
    }

    pub(crate) async fn dead(self: Arc<Self>, queue: QueueName, page: Page) -> Result<Vec<DeadLetter>> {
        let (mut letters, limit) = (Vec::new(), page.limit as usize);
        let mut part = page;
        loop {
            let wanted = (limit - letters.len()).min(PAGE);
            part.limit = wanted as u32;
            let some = queue::read_dead(self.driver.call(queue::dead(&queue, &part)).await?)?;
            let is_last = some.len() < wanted;
            letters.extend(some);
            match letters.last() {
                Some(last) if !is_last && letters.len() < limit => {
                    last.id.as_str().clone_into(&mut part.after);
                }
                _ => return Ok(letters),
            }
        }
    }
}

/// Adds an ID that comes after the listing's page. Returns whether there are more than `most` now, and drops the last.
fn keep_first(ids: &mut BTreeSet<TaskId>, id: TaskId, listing: &Listing, most: usize) -> bool {
    let is_new = id.as_str() > listing.page.after.as_str() && ids.insert(id);
    let more = is_new && ids.len() > most;
    if more {
        ids.pop_last();
    }
    more
}
