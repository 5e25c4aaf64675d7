//! What the dashboard shows: a snapshot of the store.

use std::collections::BTreeMap;
use std::time::Instant;

use rushgate::lock::LockState;
use rushgate::queue::{QueueName, QueueStats};
use rushgate::sale::ListedSale;
use rushgate::store::Page;
use rushgate::{Result, Rushgate};
use tokio::task::JoinSet;

use crate::queue::all_queues;

/// Largest number of queues whose counts are read, and of locks and sales. The rest is only counted.
const QUEUES_MAX: usize = 200;
const PAGE: u32 = 200;

/// A snapshot.
pub(super) struct Look {
    pub(super) at: Instant,
    /// Queues by name, with their counts.
    pub(super) queues: BTreeMap<QueueName, QueueStats>,
    /// Number of queues, some of which may not be shown.
    pub(super) queues_all: usize,
    pub(super) locks: Vec<LockState>,
    pub(super) sales: Vec<ListedSale>,
}

impl Look {
    /// Reads the store. The reads run concurrently, because a store may be far away.
    pub(super) async fn at(client: &Rushgate) -> Result<Self> {
        let (names, locks, sales) = tokio::join!(
            all_queues(client),
            client.locks(Page::first(PAGE)),
            client.sales(Page::first(PAGE))
        );
        let names = names?;
        let queues_all = names.len();
        let mut reads = JoinSet::new();
        for name in names.into_iter().take(QUEUES_MAX) {
            let queue = client.queue(&name)?;
            reads.spawn(async move { queue.stats().await.map(|stats| (name, stats)) });
        }
        let mut queues = BTreeMap::new();
        while let Some(read) = reads.join_next().await {
            let (name, stats) =
                read.map_err(|error| rushgate::Error::bug("a read panicked").caused_by(error))??;
            queues.insert(name, stats);
        }
        Ok(Self { at: Instant::now(), queues, queues_all, locks: locks?, sales: sales? })
    }
}
