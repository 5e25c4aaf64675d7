//! The snapshot of everything: one task takes it every second, sends it to all watchers and records it in the
//! [history](crate::history).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt;
use futures_util::stream;
use hyper::body::Bytes;
use hyper::http::Response;
use rushgate::lock::LockState;
use rushgate::queue::QueueName;
use rushgate::sale::{DamagedSale, ListedSale, RoomState, SaleId, SaleState, SaleStatus};
use rushgate::store::Page;
use rushgate::wire::{QueueReport, RoomReport};
use rushgate::{CancellationToken, Result, Rushgate};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::access::Caller;
use crate::attempts::{Attempts, AttemptsView, Recently};
use crate::body::Body;
use crate::events::{message, response};
use crate::history::{Flow, FlowView, History};
use crate::scope::Kind;

/// Interval of the snapshots.
const EVERY: Duration = Duration::from_secs(1);
/// Without watchers, queues are read only at every fifth snapshot: nobody sees them, and there may be many.
const UNWATCHED_QUEUES_EVERY: u64 = 5;
/// Maximum number of sales, queues and locks in a snapshot.
pub(crate) const SNAPSHOT_MAX: u32 = 200;
/// Requests to the store at a time.
pub(crate) const AT_A_TIME: usize = 16;

/// A list of a snapshot, by the name of its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SnapshotList {
    Sales,
    Queues,
    Locks,
}

/// A snapshot of everything.
#[derive(Clone, Default)]
pub(crate) struct Snapshot {
    pub sales: Vec<SaleState>,
    pub damaged: Vec<DamagedSale>,
    pub rooms: Vec<(SaleId, RoomState)>,
    pub attempts: Vec<AttemptsView>,
    pub counted_us: u64,
    pub queues: Vec<QueueReport>,
    pub flows: Vec<FlowView>,
    pub locks: Vec<LockState>,
    pub truncated: Vec<SnapshotList>,
}

/// A snapshot of everything that the caller may see: up to 200 sales, queues and locks each.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SnapshotView {
    /// The server's clock, in microseconds since the Unix epoch, for countdowns on pages.
    now_us: u64,
    /// The sales.
    sales: Vec<SaleState>,
    /// Sales whose records are damaged or missing.
    damaged: Vec<DamagedSale>,
    /// The waiting rooms of these sales.
    rooms: Vec<RoomReport>,
    /// Reservation attempts that all servers of the store have answered, for each of these sales with attempts.
    attempts: Vec<AttemptsView>,
    /// When they were counted, by the same clock. Compute rates from the time between two counts.
    counted_us: u64,
    /// The queues.
    queues: Vec<QueueReport>,
    /// What happened in the last second, for each of these queues that keeps events.
    flows: Vec<FlowView>,
    /// Locks that are held or waited for.
    locks: Vec<LockState>,
    /// Lists that have only their first 200 entries by name. Get the others from `/v1/sales`, `/v1/queues` and
    /// `/v1/locks`.
    truncated: Vec<SnapshotList>,
}

/// The server's clock, in microseconds since the Unix epoch.
fn now_us() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

impl Snapshot {
    /// Reads the store. Without watchers it omits what the history does not record.
    async fn take(
        live: &Live,
        flow: &mut Flow,
        recently: &mut Recently,
        (is_watched, with_queues): (bool, bool),
    ) -> Result<Self> {
        let gate = &live.gate;
        // One more than a snapshot has tells whether it has all.
        let page = Page::first(SNAPSHOT_MAX + 1);
        let mut truncated = Vec::new();
        let (mut sales, mut damaged) = (Vec::new(), Vec::new());
        for sale in first(SnapshotList::Sales, gate.sales(page.clone()).await?, &mut truncated) {
            match sale {
                ListedSale::Sound(mut sale) => {
                    // Up to 64 KiB each, which no view of a snapshot shows.
                    sale.spec.metadata = String::new();
                    sales.push(sale);
                }
                ListedSale::Damaged(sale) => damaged.push(sale),
            }
        }
        let locks = if is_watched { gate.locks(page.clone()).await? } else { Vec::new() };
        let locks = first(SnapshotList::Locks, locks, &mut truncated);
        let with_rooms = sales.iter().filter(|sale| is_watched || sale.status == SaleStatus::Open);
        let rooms: Vec<_> = with_rooms.map(|sale| room(gate, sale.spec.id.clone())).collect();
        let rooms: Vec<Result<_>> = stream::iter(rooms).buffered(AT_A_TIME).collect().await;
        let rooms = rooms.into_iter().filter_map(Result::transpose).collect::<Result<_>>()?;
        let (queues, flows) = match with_queues {
            true => {
                let queues = first(SnapshotList::Queues, gate.queues(page).await?, &mut truncated);
                queues_of(gate, flow, queues).await?
            }
            false => Default::default(),
        };
        let stats = |id: &SaleId| gate.sale(id).map(|sale| (id.clone(), sale.gate_stats())).ok();
        let attempts = recently.look(&live.attempts, sales.iter().filter_map(|sale| stats(&sale.spec.id)));
        let attempts = everywhere(gate, &sales, attempts, is_watched).await?;
        Ok(Self { sales, damaged, rooms, attempts, counted_us: now_us(), queues, flows, locks, truncated })
    }

    fn seen_by(&self, caller: &Caller) -> SnapshotView {
        let Self { sales, damaged, rooms, attempts, counted_us, queues, flows, locks, truncated } =
            self.clone();
        let sales = sales.into_iter().filter(|sale| caller.may(Kind::Sale, sale.spec.id.as_str()));
        let damaged = damaged.into_iter().filter(|sale| caller.may(Kind::Sale, sale.id.as_str()));
        let rooms = rooms.iter().filter(|(sale, _)| caller.may(Kind::Sale, sale.as_str()));
        let attempts = attempts.into_iter().filter(|of| caller.may(Kind::Sale, &of.sale));
        let queues = queues.into_iter().filter(|of| caller.may(Kind::Queue, of.queue.as_str()));
        let flows = flows.into_iter().filter(|of| caller.may(Kind::Queue, of.queue.as_str()));
        let locks = locks.into_iter().filter(|lock| caller.may(Kind::Lock, lock.name.as_str()));
        SnapshotView {
            now_us: now_us(),
            sales: sales.collect(),
            damaged: damaged.collect(),
            rooms: rooms.map(|(sale, room)| RoomReport::new(sale, room)).collect(),
            attempts: attempts.collect(),
            counted_us,
            queues: queues.collect(),
            flows: flows.collect(),
            locks: locks.collect(),
            truncated,
        }
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

async fn room(gate: &Rushgate, id: SaleId) -> Result<Option<(SaleId, RoomState)>> {
    let room = gate.sale(&id)?.room().state().await?;
    Ok(room.map(|room| (id, room)))
}

/// The attempts at sales that are open, watched or asked for here, added up over all servers.
async fn everywhere(
    gate: &Rushgate,
    sales: &[SaleState],
    own: Vec<AttemptsView>,
    is_watched: bool,
) -> Result<Vec<AttemptsView>> {
    let mut own: HashMap<_, _> = own.into_iter().map(|view| (view.sale.clone(), view)).collect();
    let wanted = sales.iter().filter_map(|sale| {
        let id = &sale.spec.id;
        let own = own.remove(id.as_str());
        let is_wanted = own.is_some() || is_watched || sale.status == SaleStatus::Open;
        is_wanted.then(|| own.unwrap_or_default().everywhere(gate, id))
    });
    let wanted: Vec<_> = wanted.collect();
    let all: Vec<Result<_>> = stream::iter(wanted).buffered(AT_A_TIME).collect().await;
    all.into_iter().filter_map(Result::transpose).collect()
}

async fn queues_of(
    gate: &Rushgate,
    flow: &mut Flow,
    queues: Vec<QueueName>,
) -> Result<(Vec<QueueReport>, Vec<FlowView>)> {
    let queues = queues.into_iter().map(|queue| stats(gate, queue));
    let queues: Vec<Result<_>> = stream::iter(queues).buffered(AT_A_TIME).collect().await;
    let queues = queues.into_iter().collect::<Result<Vec<_>>>()?;
    let flows = flow.read(gate, &queues).await;
    Ok((queues, flows))
}

async fn stats(gate: &Rushgate, queue: QueueName) -> Result<QueueReport> {
    let stats = gate.queue(&queue)?.stats().await?;
    Ok(QueueReport { queue, stats })
}

/// The latest snapshot and its number; none while there are no watchers.
type Latest = (u64, Option<Arc<Snapshot>>);

/// Takes the snapshots and sends them to the watchers.
pub(crate) struct Live {
    gate: Rushgate,
    attempts: Attempts,
    pub history: History,
    /// Canceled when the shutdown starts.
    closing: CancellationToken,
    latest: watch::Sender<Latest>,
    /// Notified when the first watcher has come.
    wake: Notify,
}

impl Live {
    pub fn new(gate: Rushgate, attempts: Attempts, closing: CancellationToken) -> Arc<Self> {
        let (latest, _) = watch::channel((0, None));
        Arc::new(Self { gate, attempts, history: History::default(), closing, latest, wake: Notify::new() })
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
                taken = Snapshot::take(&self, &mut flow, &mut recently, reads) => taken,
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
    let snapshots =
        stream::unfold((latest, caller, closing, 0), async |(mut latest, caller, closing, sent)| {
            loop {
                let (number, snapshot) = latest.borrow_and_update().clone();
                if let Some(snapshot) = snapshot.filter(|_| number != sent) {
                    let data = serde_json::to_string(&snapshot.seen_by(&caller)).unwrap_or_default();
                    return Some((
                        Bytes::from(message(number, "snapshot", &data)),
                        (latest, caller, closing, number),
                    ));
                }
                tokio::select! {
                    changed = latest.changed() => changed.ok()?,
                    () = closing.cancelled() => return None,
                }
            }
        });
    response(snapshots.boxed())
}
