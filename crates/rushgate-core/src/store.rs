use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{LockStore, OutboxStore, QueueStore, Result, RoomStore, SaleStore, ScheduleStore};

/// What every store method gives back: a future of a [`Result`].
///
/// One method is one atomic step: one script, one transaction, one round trip. The step is sent when the method is
/// **called**, not when the future is first polled. Dropping the future does not undo the step; use
/// the token of the call to query or undo it.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A place in which locks, queues and sales live together.
pub trait Store: LockStore + QueueStore + ScheduleStore + OutboxStore + SaleStore + RoomStore {
    /// The same store, with authority over the queues that are [reserved](crate::SaleSpec::orders) for the orders of
    /// sales. Every other handle may read such a queue, and is refused as
    /// [`is_queue_reserved`](crate::Error::is_queue_reserved) when it changes one. For order workers, and for the
    /// verbs of a sale.
    fn for_orders(&self) -> Arc<dyn Store>;

    /// What this store is and what it promises.
    fn info(&self) -> StoreInfo;

    /// What is not as it could be, as found when the store was last connected. It works all the same.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }

    /// Which server, since which start, answers this client: as found when it was last connected. It is another one
    /// after a failover and after a restart, which are the moments at which a store may lose writes. A store whose
    /// data this client alone holds open is always the same.
    fn incarnation(&self) -> String;

    /// What has been asked of the store by this client since it was opened.
    fn calls(&self) -> StoreCalls;

    /// Waits until all steps sent before this call have finished, then closes the store. It waits at most 2 s for a server
    /// that does not answer. Later calls fail with
    /// [`is_unavailable`](crate::Error::is_unavailable).
    fn close(&self) -> Answer<'_, ()>;
}

/// What a store is and what it promises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreInfo {
    /// The URL, without secrets.
    pub url: String,
    /// The software and its version, such as `SQLite 3.54.1`.
    pub server: String,
    /// What an acknowledged write survives.
    pub durability: Durability,
}

/// Something that an operator should know, and what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What is not as it could be.
    pub what: &'static str,
    /// What to do about it.
    pub fix: &'static str,
}

/// What an acknowledged write survives: the durability class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Durability {
    /// Nothing is promised: the data live in the memory of one process.
    D0,
    /// The death of a process, not a power cut.
    D1,
    /// A power cut on one machine.
    D2,
    /// The loss of one machine, if the replica that takes over had acknowledged the write.
    D3,
    /// Whatever the ledger's database survives.
    D4,
}

/// Work that one client has given its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCalls {
    /// Trait methods called.
    pub calls: u64,
    /// Write transactions committed. Calls that waited at the same moment share one; reads need none.
    pub transactions: u64,
    /// Statements (or commands) executed for calls and for sweeping, inside and outside those transactions. Not
    /// counted are opening the store, and looking whether others have news.
    pub statements: u64,
}

/// Which part of a long list is wanted: at most `limit` entries whose name comes after `after`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Only names greater than this one. Empty for the beginning.
    pub after: String,
    /// Page size: 1 to 10,000.
    pub limit: u32,
}

impl Default for Page {
    fn default() -> Self {
        Self { after: String::new(), limit: 1_000 }
    }
}
