//! What happens in each queue that keeps events, from snapshot to snapshot.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream;
use rushgate::Rushgate;
use rushgate::queue::{QueueName, TaskChange, TaskEvents};
use rushgate::store::Page;
use rushgate::wire::QueueReport;
use schemars::JsonSchema;
use serde::Serialize;

use crate::latency::{Latencies, LatencyView};

/// Requests to the store at a time.
pub(crate) const AT_A_TIME: usize = 16;

/// What happened in a queue since the previous snapshot.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct FlowView {
    /// The queue.
    pub queue: QueueName,
    /// Number of events by name: `added`, `claimed`, `done` (or discarded), `failed` (or lost with its lease) and
    /// `dead`. Above 1,000 events they are estimated from the first 1,000.
    pub events: BTreeMap<&'static str, u32>,
    #[serde(flatten)]
    latency: LatencyView,
}

/// Position in the events of each queue that keeps some, and the latencies that they tell.
#[derive(Default)]
pub(crate) struct Flow {
    seen: HashMap<QueueName, u64>,
    latencies: Latencies,
}

impl Flow {
    /// Reads the events since the previous call. A queue whose events cannot be read is left out.
    pub async fn read(&mut self, client: &Rushgate, queues: &[QueueReport]) -> Vec<FlowView> {
        let with_events = || queues.iter().filter(|of| of.stats.limits.events.is_some()).map(|of| &of.queue);
        let reads: Vec<_> =
            with_events().map(|queue| latest(client, queue.clone(), self.seen.get(queue).copied())).collect();
        let read: Vec<_> = stream::iter(reads).buffered(AT_A_TIME).collect().await;
        // A queue that could not be read keeps its position, so the next call counts what this one has missed.
        let keeping: HashSet<_> = with_events().collect();
        self.seen.retain(|queue, _| keeping.contains(queue));
        let mut flows = Vec::new();
        for (queue, after, page) in read.into_iter().flatten() {
            self.seen.insert(queue.clone(), page.last);
            let Some(after) = after else { continue };
            let latency = self.latencies.look(Instant::now(), &queue, &page.events);
            flows.push(FlowView { queue, events: counted(after, &page), latency });
        }
        self.latencies.keep(|queue| self.seen.contains_key(queue));
        flows
    }
}

/// The events after this one. Without one, only the number of the latest event matters.
async fn latest(
    client: &Rushgate,
    queue: QueueName,
    after: Option<u64>,
) -> Option<(QueueName, Option<u64>, TaskEvents)> {
    let page = after.map_or(Page::after(u64::MAX, 1), |after| Page::after(after, TaskEvents::MAX));
    let events = client.queue(&queue).ok()?.events(page).await.ok()?;
    Some((queue, after, events))
}

/// The number of events by name. If the page does not have all of them, it is taken as a sample.
fn counted(after: u64, page: &TaskEvents) -> BTreeMap<&'static str, u32> {
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    for name in page.events.iter().filter_map(|event| name_of(&event.what)) {
        *counts.entry(name).or_default() += 1;
    }
    let (all, seen) = (page.last.saturating_sub(after), page.events.len() as u64);
    let scaled = |n: u64| (n * all.max(seen)).checked_div(seen).unwrap_or_default();
    counts.into_iter().map(|(name, n)| (name, narrowed(scaled(n)))).collect()
}

/// The name under which an event is counted; `None` for those that no chart shows.
fn name_of(what: &TaskChange) -> Option<&'static str> {
    match what {
        TaskChange::Added { .. } => Some("added"),
        TaskChange::Claimed { .. } => Some("claimed"),
        TaskChange::Done { .. } | TaskChange::Discarded { .. } => Some("done"),
        TaskChange::Failed { .. } | TaskChange::Lost { .. } => Some("failed"),
        TaskChange::Dead { .. } => Some("dead"),
        _ => None,
    }
}

pub(crate) fn narrowed(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
