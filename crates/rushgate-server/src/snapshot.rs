//! The snapshot of everything, for the pages and for the [history](crate::history).

use std::collections::HashMap;

use futures_util::StreamExt;
use futures_util::stream;
use rushgate::lock::LockState;
use rushgate::queue::QueueName;
use rushgate::sale::{DamagedSale, ListedSale, SaleId, SaleState, SaleStatus};
use rushgate::store::Page;
use rushgate::wire::{QueueReport, RoomReport};
use rushgate::{Result, Rushgate};
use schemars::JsonSchema;
use serde::Serialize;

use crate::access::Caller;
use crate::attempts::{Attempts, AttemptsView, Recently};
use crate::flow::{AT_A_TIME, Flow, FlowView};
use crate::now;
use crate::scope::Kind;

/// Maximum number of sales, queues and locks in a snapshot.
pub(crate) const SNAPSHOT_MAX: u32 = 200;

/// A list of a snapshot, by the name of its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SnapshotList {
    Sales,
    Queues,
    Locks,
}

/// A snapshot of everything that the caller may see: up to 200 sales, queues and locks each.
#[derive(Clone, Default, Serialize, JsonSchema)]
#[schemars(rename = "SnapshotView")]
pub(crate) struct Snapshot {
    /// The server's clock, in microseconds since the Unix epoch, for countdowns on pages.
    pub now_us: u64,
    /// The sales.
    pub sales: Vec<SaleState>,
    /// Sales whose records are damaged or missing.
    pub damaged: Vec<DamagedSale>,
    /// The waiting rooms of these sales.
    pub rooms: Vec<RoomReport>,
    /// Reservation attempts that all servers of the store have answered, for each of these sales with attempts.
    pub attempts: Vec<AttemptsView>,
    /// When they were counted, by the same clock. Compute rates from the time between two counts.
    pub counted_us: u64,
    /// The queues.
    pub queues: Vec<QueueReport>,
    /// What happened in the last second, for each of these queues that keeps events.
    pub flows: Vec<FlowView>,
    /// Locks that are held or waited for.
    pub locks: Vec<LockState>,
    /// Lists that have only their first 200 entries by name. Get the others from `/v1/sales`, `/v1/queues` and
    /// `/v1/locks`.
    pub truncated: Vec<SnapshotList>,
}

impl Snapshot {
    /// Reads the store. Without watchers it omits what the history does not record.
    pub async fn take(
        client: &Rushgate,
        attempts: &Attempts,
        flow: &mut Flow,
        recently: &mut Recently,
        (is_watched, with_queues): (bool, bool),
    ) -> Result<Self> {
        // One more than a snapshot has tells whether it has all.
        let page = Page::first(SNAPSHOT_MAX + 1);
        let mut truncated = Vec::new();
        let (mut sales, mut damaged) = (Vec::new(), Vec::new());
        for sale in first(SnapshotList::Sales, client.sales(page.clone()).await?, &mut truncated) {
            match sale {
                ListedSale::Sound(mut sale) => {
                    // Up to 64 KiB each, which no view of a snapshot shows.
                    sale.spec.metadata = String::new();
                    sales.push(sale);
                }
                ListedSale::Damaged(sale) => damaged.push(sale),
            }
        }
        let locks = if is_watched { client.locks(page.clone()).await? } else { Vec::new() };
        let locks = first(SnapshotList::Locks, locks, &mut truncated);
        let with_rooms = sales.iter().filter(|sale| is_watched || sale.status == SaleStatus::Open);
        let rooms: Vec<_> = with_rooms.map(|sale| room(client, sale.spec.id.clone())).collect();
        let rooms: Vec<Result<_>> = stream::iter(rooms).buffered(AT_A_TIME).collect().await;
        let rooms = rooms.into_iter().filter_map(Result::transpose).collect::<Result<_>>()?;
        let (queues, flows) = match with_queues {
            true => {
                let queues = first(SnapshotList::Queues, client.queues(page).await?, &mut truncated);
                queues_of(client, flow, queues).await?
            }
            false => Default::default(),
        };
        let stats = |id: &SaleId| client.sale(id).map(|sale| (id.clone(), sale.admission_stats())).ok();
        let attempts = recently.look(attempts, sales.iter().filter_map(|sale| stats(&sale.spec.id)));
        let attempts = everywhere(client, &sales, attempts, is_watched).await?;
        let counted_us = now().as_micros() as u64;
        let now_us = counted_us;
        Ok(Self { now_us, sales, damaged, rooms, attempts, counted_us, queues, flows, locks, truncated })
    }

    /// What the caller may see of it.
    pub fn seen_by(&self, caller: &Caller) -> Self {
        let mut seen = Self { now_us: now().as_micros() as u64, ..self.clone() };
        seen.sales.retain(|sale| caller.may(Kind::Sale, sale.spec.id.as_str()));
        seen.damaged.retain(|sale| caller.may(Kind::Sale, sale.id.as_str()));
        seen.rooms.retain(|room| caller.may(Kind::Sale, room.sale.as_str()));
        seen.attempts.retain(|of| caller.may(Kind::Sale, &of.sale));
        seen.queues.retain(|of| caller.may(Kind::Queue, of.queue.as_str()));
        seen.flows.retain(|of| caller.may(Kind::Queue, of.queue.as_str()));
        seen.locks.retain(|lock| caller.may(Kind::Lock, lock.name.as_str()));
        seen
    }
}

/// The entries that a snapshot has room for. If there are more, the list is noted as truncated.
fn first<T>(list: SnapshotList, mut all: Vec<T>, truncated: &mut Vec<SnapshotList>) -> Vec<T> {
    if all.len() > SNAPSHOT_MAX as usize {
        all.truncate(SNAPSHOT_MAX as usize);
        truncated.push(list);
    }
    all
}

async fn room(client: &Rushgate, id: SaleId) -> Result<Option<RoomReport>> {
    let room = client.sale(&id)?.room().state().await?;
    Ok(room.map(|room| RoomReport::new(&id, &room)))
}

/// The attempts at sales that are open, watched or asked for here, added up over all servers.
async fn everywhere(
    client: &Rushgate,
    sales: &[SaleState],
    own: Vec<AttemptsView>,
    is_watched: bool,
) -> Result<Vec<AttemptsView>> {
    let mut own: HashMap<_, _> = own.into_iter().map(|view| (view.sale.clone(), view)).collect();
    let wanted = sales.iter().filter_map(|sale| {
        let id = &sale.spec.id;
        let own = own.remove(id.as_str());
        let is_wanted = own.is_some() || is_watched || sale.status == SaleStatus::Open;
        is_wanted.then(|| own.unwrap_or_default().everywhere(client, id))
    });
    let wanted: Vec<_> = wanted.collect();
    let all: Vec<Result<_>> = stream::iter(wanted).buffered(AT_A_TIME).collect().await;
    all.into_iter().filter_map(Result::transpose).collect()
}

async fn queues_of(
    client: &Rushgate,
    flow: &mut Flow,
    queues: Vec<QueueName>,
) -> Result<(Vec<QueueReport>, Vec<FlowView>)> {
    let queues = queues.into_iter().map(|queue| stats(client, queue));
    let queues: Vec<Result<_>> = stream::iter(queues).buffered(AT_A_TIME).collect().await;
    let queues = queues.into_iter().collect::<Result<Vec<_>>>()?;
    let flows = flow.read(client, &queues).await;
    Ok((queues, flows))
}

async fn stats(client: &Rushgate, queue: QueueName) -> Result<QueueReport> {
    let stats = client.queue(&queue)?.stats().await?;
    Ok(QueueReport { queue, stats })
}
