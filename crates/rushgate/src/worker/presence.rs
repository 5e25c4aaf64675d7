//! Presence of a worker at its queues: announces it every few seconds, and does what an operator asks of it.

use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{Announce, Lease, Result, Verbs, WorkerId, WorkerMode};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::heartbeat::Leases;
use super::plan::Plan;
use crate::Queue;

/// Time between announcements, and so the longest that an operator waits for a worker to be quiet or to stop.
const EACH: Duration = Duration::from_secs(10);
/// How long a worker is listed after its last announcement.
const LISTED: Duration = Duration::from_secs(30);
/// Time limit for saying that the worker has ended.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// What a worker says of itself, and what is asked of it at one of its queues.
pub(super) struct Presence {
    queue: Queue,
    leases: Arc<Leases>,
    id: WorkerId,
    /// Name under which it claims.
    pub name: String,
    version: String,
    concurrency: u32,
    lease: Lease,
    mode: watch::Sender<WorkerMode>,
}

impl Presence {
    pub fn new(id: WorkerId, queue: Queue, leases: Arc<Leases>, plan: &Plan) -> Result<Self> {
        let name = plan.label.clone().unwrap_or_else(|| queue.client().who());
        let (mode, lease) = (watch::Sender::new(WorkerMode::Work), Lease::new(LISTED)?);
        let (version, concurrency) = (plan.version.clone(), plan.concurrency);
        Ok(Self { queue, leases, id, name, version, concurrency, lease, mode })
    }

    fn said(&self) -> Announce {
        Announce {
            id: self.id.clone(),
            name: self.name.clone(),
            version: self.version.clone(),
            concurrency: self.concurrency,
            running: self.leases.count(),
            lease: Some(self.lease),
        }
    }

    /// Announces the worker until it is dropped. Cancels `stop` if an operator asks it to stop.
    pub async fn announce(&self, stop: CancellationToken) {
        let (client, queue) = (self.queue.client(), self.queue.name());
        loop {
            match client.store().announce(queue, self.said()).await {
                Ok(mode) => self.obey(mode, &stop),
                // The claims report outages.
                Err(error) => tracing::debug!(%queue, %error, "cannot announce the worker"),
            }
            sleep(EACH).await;
        }
    }

    fn obey(&self, mode: WorkerMode, stop: &CancellationToken) {
        if self.mode.send_replace(mode) != mode {
            tracing::info!(queue = %self.queue.name(), ?mode, "an operator set the mode of the worker");
        }
        if mode == WorkerMode::Stop {
            stop.cancel();
        }
    }

    /// Says that the worker has ended. If that fails, it is listed a while longer.
    pub async fn leave(&self) {
        let left = self.queue.client().store().announce(self.queue.name(), Announce::end(self.id.clone()));
        if !matches!(timeout(LEAVE_MAX, left).await, Ok(Ok(_))) {
            tracing::debug!(queue = %self.queue.name(), "cannot say that the worker has ended");
        }
    }

    /// Whether it is to claim nothing.
    pub fn is_quiet(&self) -> bool {
        *self.mode.borrow() != WorkerMode::Work
    }

    /// Returns when it is to claim nothing, or to claim again.
    pub async fn until(&self, quiet: bool) {
        let is_so = |mode: &WorkerMode| (*mode != WorkerMode::Work) == quiet;
        // The sender lives as long as this does.
        let _ = self.mode.subscribe().wait_for(is_so).await;
    }
}
