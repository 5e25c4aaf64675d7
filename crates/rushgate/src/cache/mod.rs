//! What a client caches of the sales that it has used.

mod admission;
mod high_water;
mod reservations;
mod room;
mod waiters;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rushgate_core::SaleId;
use tokio::sync::{Notify, OnceCell};

pub(crate) use admission::AdmissionCache;
pub use admission::{AdmissionStats, Estimate};
pub(crate) use high_water::{HighWaterMark, Mark, mark_of};
pub(crate) use room::{ROOM_AGE_MAX, RoomCache, RoomView};
pub(crate) use waiters::{Waiters, Waiting};

/// Above this number, unused sales without cached state are removed.
const UNUSED_MAX: usize = 1_024;

/// State shared by the handles of one sale within a client.
pub(crate) struct SaleCache {
    pub id: SaleId,
    pub admission: OnceCell<AdmissionCache>,
    /// Notified when this process makes or changes a reservation.
    pub moved: Notify,
    /// Callers that wait for reservations to become final.
    pub waiters: Waiters,
    pub high_water: HighWaterMark,
    pub room: RoomCache,
}

/// Sales that a client has used.
#[derive(Default)]
pub(crate) struct Sales(Mutex<HashMap<SaleId, Arc<SaleCache>>>);

impl Sales {
    pub fn of(&self, id: &SaleId) -> Arc<SaleCache> {
        let mut sales = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sales.len() >= UNUSED_MAX && !sales.contains_key(id) {
            // IDs come from callers. Drop unused sales without cached state.
            sales.retain(|_, sale| sale.admission.initialized() || Arc::strong_count(sale) > 1);
        }
        let sale = sales.entry(id.clone()).or_insert_with(|| {
            Arc::new(SaleCache {
                id: id.clone(),
                admission: OnceCell::new(),
                moved: Notify::new(),
                waiters: Waiters::default(),
                high_water: HighWaterMark::default(),
                room: RoomCache::default(),
            })
        });
        Arc::clone(sale)
    }
}
