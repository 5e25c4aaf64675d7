//! Cached state of a sale's waiting room, for buyers who poll.

use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rushgate_core::{Error, Result, RoomState, SaleState, SaleStatus, Timestamp};
use tokio::sync::Mutex;

use crate::clock::Boot;

/// Maximum age of this process's cached state of a room.
pub(crate) const ROOM_AGE_MAX: Duration = Duration::from_secs(1);
/// Maximum age while a refresh is under way: only one caller waits for the store.
const AGE_MAX_WHILE_REFRESHING: Duration = Duration::from_secs(3);

/// Cached state of a sale and its room.
pub(crate) struct RoomView {
    pub sale: SaleState,
    pub room: Option<RoomState>,
    pub read_at: Boot,
}

/// Latest read and its time. A failed read is shared by all callers too.
#[derive(Default)]
pub(crate) struct RoomCache {
    latest: RwLock<Option<(Boot, Result<Arc<RoomView>>)>>,
    /// Locked during a refresh, so that concurrent callers share one.
    refreshing: Mutex<()>,
}

impl RoomCache {
    /// The cached state, or what `read` returns if that is too old.
    pub async fn get(&self, read: impl Future<Output = Result<RoomView>>) -> Result<Arc<RoomView>> {
        if let Some(view) = self.recent() {
            return view;
        }
        let _refreshing = match self.refreshing.try_lock() {
            Ok(refreshing) => refreshing,
            Err(_) => match self.until_refreshed() {
                Some(view) => return Ok(view),
                None => self.refreshing.lock().await,
            },
        };
        if let Some(view) = self.recent() {
            return view;
        }
        let view = read.await.map(Arc::new);
        let is_kept = view.as_ref().err().is_none_or(Error::is_unavailable);
        self.set(is_kept.then(|| (Boot::now(), shared(&view))));
        view
    }

    /// Clears the cache. A read under way may predate the change, so this waits for it to end.
    pub async fn clear(&self) {
        let _refreshing = self.refreshing.lock().await;
        self.set(None);
    }

    fn recent(&self) -> Option<Result<Arc<RoomView>>> {
        let latest = self.latest.read().unwrap_or_else(PoisonError::into_inner);
        let (at, view) = latest.as_ref()?;
        (at.until(Boot::now()) < ROOM_AGE_MAX).then(|| shared(view))
    }

    /// The cached state, if it is recent enough to use during a refresh.
    fn until_refreshed(&self) -> Option<Arc<RoomView>> {
        let latest = self.latest.read().unwrap_or_else(PoisonError::into_inner);
        let (at, view) = latest.as_ref()?;
        view.as_ref().ok().filter(|_| at.until(Boot::now()) < AGE_MAX_WHILE_REFRESHING).map(Arc::clone)
    }

    fn set(&self, latest: Option<(Boot, Result<Arc<RoomView>>)>) {
        *self.latest.write().unwrap_or_else(PoisonError::into_inner) = latest;
    }
}

fn shared(view: &Result<Arc<RoomView>>) -> Result<Arc<RoomView>> {
    view.as_ref().map(Arc::clone).map_err(Error::duplicate)
}

impl RoomView {
    pub fn age(&self) -> Duration {
        self.read_at.until(Boot::now())
    }

    /// Current time on the room's clock, slightly behind. On a Cluster this clock may differ from the sale's.
    pub fn room_now(&self) -> Timestamp {
        self.room.as_ref().map_or(self.sale.now, |room| room.now) + self.age()
    }

    /// True if no unit can be sold any more.
    pub fn is_over(&self) -> bool {
        let now = self.sale.now + self.age();
        let closed = self.sale.spec.closes_at.is_some_and(|closes| closes <= now);
        let sold_out = self.sale.skus.iter().all(|sku| sku.free == 0 && sku.held == 0);
        self.sale.status == SaleStatus::Ended || closed || sold_out
    }
}
