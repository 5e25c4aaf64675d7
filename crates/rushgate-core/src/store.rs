use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{LockStore, OutboxStore, QueueStore, Result, RoomStore, SaleStore, ScheduleStore};

/// The return type of every store method: a future of a [`Result`].
///
/// One method is one atomic step: one script, one transaction, one round trip. The step is sent when the method is
/// **called**, not when the future is first polled. Dropping the future does not undo the step. To query or undo it,
/// use the token of the call.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A store of locks, queues, schedules, outbox positions, sales and waiting rooms.
pub trait Store: LockStore + QueueStore + ScheduleStore + OutboxStore + SaleStore + RoomStore {
    /// Returns a handle to this store that may change queues [reserved](crate::SaleSpec::orders) for the orders of
    /// sales. Order workers and the methods of a sale use it. Any other handle may read such a queue; its changes
    /// fail with [`is_queue_reserved`](crate::Error::is_queue_reserved).
    fn for_orders(&self) -> Arc<dyn Store>;

    /// Describes this store: URL, server version and durability class.
    fn info(&self) -> StoreInfo;

    /// Configuration warnings found at the latest connect. The store works despite them.
    fn warnings(&self) -> Vec<Warning> {
        Vec::new()
    }

    /// Identifies the server process that answers this client, as found at the latest connect. It changes after a
    /// failover or a restart, the two events at which a store may lose writes. It never changes for a store whose
    /// data only this client holds open.
    fn incarnation(&self) -> String;

    /// Counts the work that this client has sent to the store since it was opened.
    fn calls(&self) -> StoreCalls;

    /// Waits until all steps sent before this call have finished, then closes the store. Waits at most 2 s for a
    /// server that does not answer. Later calls fail with [`is_unavailable`](crate::Error::is_unavailable).
    fn close(&self) -> Answer<'_, ()>;
}

/// Description of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreInfo {
    /// URL, without secrets.
    pub url: String,
    /// Server software and version, such as `SQLite 3.54.1`.
    pub server: String,
    /// What an acknowledged write survives.
    pub durability: Durability,
}

/// A configuration warning for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The problem.
    pub what: &'static str,
    /// How to fix it.
    pub fix: &'static str,
}

/// Durability class: what an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Durability {
    /// Nothing: the data lives in the memory of one process.
    D0,
    /// The death of a process, but not a power cut.
    D1,
    /// A power cut on one machine.
    D2,
    /// The loss of one machine, if the replica that takes over had acknowledged the write.
    D3,
    /// Whatever the ledger's database survives.
    D4,
}

/// Counters of the work that one client has sent to its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCalls {
    /// Trait methods called.
    pub calls: u64,
    /// Write transactions committed. Concurrent calls share a transaction; reads need none.
    pub transactions: u64,
    /// Statements (or commands) executed for calls and for sweeping, inside and outside those transactions. Excluded
    /// are the statements that open the store and those that poll for notifications.
    pub statements: u64,
}

/// A page of a long list: at most `limit` entries whose name comes after `after`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Returns only names greater than this one. Empty: start at the beginning.
    pub after: String,
    /// Page size: 1 to 10,000. Default: 1,000.
    pub limit: u32,
}

impl Default for Page {
    fn default() -> Self {
        Self { after: String::new(), limit: 1_000 }
    }
}
