//! One task takes a snapshot every second, sends it to all watchers and records it in the history.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use hyper::http::Response;
use rushgate::{CancellationToken, Rushgate};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::access::Caller;
use crate::attempts::{Attempts, Recently};
use crate::body::Body;
use crate::events::{self, message};
use crate::flow::Flow;
use crate::history::History;
use crate::snapshot::Snapshot;

/// Interval of the snapshots.
const EVERY: Duration = Duration::from_secs(1);
/// Without watchers, queues are read only at every fifth snapshot: nobody sees them, and there may be many.
const UNWATCHED_QUEUES_EVERY: u64 = 5;

/// The latest snapshot and its number; none while there are no watchers.
type Latest = (u64, Option<Arc<Snapshot>>);

/// Takes the snapshots and sends them to the watchers.
pub(crate) struct Live {
    client: Rushgate,
    attempts: Attempts,
    pub history: History,
    /// Canceled when the shutdown starts.
    closing: CancellationToken,
    latest: watch::Sender<Latest>,
    /// Notified when the first watcher has come.
    wake: Notify,
}

impl Live {
    pub fn new(client: Rushgate, attempts: Attempts, closing: CancellationToken) -> Arc<Self> {
        let (latest, _) = watch::channel((0, None));
        Arc::new(Self { client, attempts, history: History::default(), closing, latest, wake: Notify::new() })
    }

    fn follow(&self) -> watch::Receiver<Latest> {
        let latest = self.latest.subscribe();
        if latest.borrow().1.is_none() {
            self.wake.notify_one();
        }
        latest
    }

    /// Takes snapshots until the shutdown starts.
    pub async fn run(self: Arc<Self>) {
        let (mut number, mut flow, mut recently) = (0, Flow::default(), Recently::default());
        while !self.closing.is_cancelled() {
            let next = Instant::now() + EVERY;
            let is_watched = self.latest.receiver_count() > 0;
            let reads = (is_watched, is_watched || number % UNWATCHED_QUEUES_EVERY == 0);
            let taken = tokio::select! {
                taken = Snapshot::take(&self.client, &self.attempts, &mut flow, &mut recently, reads) => taken,
                () = self.closing.cancelled() => return,
            };
            match taken {
                Ok(snapshot) => {
                    self.history.record(&snapshot);
                    number += 1;
                    self.latest.send_replace((number, is_watched.then(|| Arc::new(snapshot))));
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot read the store");
                    // A watcher that comes now must not take the latest snapshot for the present.
                    self.latest.send_replace((number, None));
                }
            }
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.wake.notified() => {}
                () = self.closing.cancelled() => {}
            }
        }
    }
}

/// Snapshots of everything, one per second. Each is complete, so a client that reconnects misses nothing.
pub(crate) fn of_all(live: &Arc<Live>, caller: Caller) -> Response<Body> {
    let (latest, closing) = (live.follow(), live.closing.clone());
    let snapshots = stream::unfold((latest, caller, 0), async |(mut latest, caller, sent)| {
        loop {
            let (number, snapshot) = latest.borrow_and_update().clone();
            if let Some(snapshot) = snapshot.filter(|_| number != sent) {
                let data = serde_json::to_string(&snapshot.seen_by(&caller)).unwrap_or_default();
                return Some((message(number, "snapshot", &data), (latest, caller, number)));
            }
            latest.changed().await.ok()?;
        }
    });
    events::stream(snapshots, closing)
}
