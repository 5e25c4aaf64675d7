//! Transactional outbox: enqueue tasks from within a transaction of your own database.
//!
//! A program that commits an order and then enqueues a task may die in between. In the opposite order, it may
//! enqueue a task for an order that is rolled back. With an outbox, the transaction that writes the order
//! also inserts a row into a table of the same database, the [`Outbox`]. An [`OutboxRelay`] moves committed
//! rows into the queues.
//!
//! # Guarantees
//! - A task whose transaction committed is enqueued **once**. If a relay dies, loses an answer or is cut off,
//!   its successor sends the same tasks with the same sequence numbers. The queue accepts each number once,
//!   even if the task has already run.
//! - Each row has the effect of one [enqueue](crate::Queue::enqueue). The row's `on_duplicate` decides what
//!   happens if the queue already has a task with its ID.
//! - A task whose transaction was rolled back never appears.
//! - Tasks of one queue are enqueued in insertion order, if one transaction inserted them, or one transaction
//!   committed before the other inserted. Concurrent transactions have no order.
//! - A row that cannot be a task (a bad name, too much content) is set aside with the reason, and does not
//!   block later rows.
//! - A queue that is [full](crate::queue::QueueLimits::bound) delays only its own tasks in the outbox.
//!
//! # Limits
//! - A store that loses acknowledged writes (see [`Durability`](crate::store::Durability)) loses tasks and sequence
//!   numbers together.
//! - If the database is restored to an earlier state, rows may reappear whose tasks have run. Those that were
//!   in flight at the time of the backup are not enqueued again; others are.
//! - A copy made by the database (`CREATE DATABASE … TEMPLATE`, or a copied SQLite file beside the original)
//!   has its own identity and shares nothing with the original.
//! - A clone of a whole server, disk or volume has the same identity. Do not relay it into the original's
//!   store: the queues would mistake its tasks for those of the original, and drop them.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> rushgate::Result<()> {
//! use rushgate::outbox::{Outbox, OutboxRelay};
//! use rushgate::{CancellationToken, Rushgate};
//!
//! # let directory = tempfile::tempdir().unwrap();
//! # let path = directory.path().join("shop.db");
//! // The shop's own database, in any language.
//! let shop = rusqlite::Connection::open(&path).unwrap();
//! shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer TEXT)").unwrap();
//! let outbox = Outbox::open(&format!("sqlite:{}", path.display())).await?;
//! shop.execute_batch("
//!     BEGIN;
//!     INSERT INTO orders VALUES (42, 'ann');
//!     INSERT INTO rushgate_outbox (queue, id, payload) VALUES ('mail', 'order:42', '{\"to\": \"ann\"}');
//!     COMMIT;
//! ").unwrap();
//!
//! let client = Rushgate::connect("sqlite::memory:").await?;
//! let relay = OutboxRelay::new(&client, outbox);
//! let (metrics, shutdown) = (relay.metrics(), CancellationToken::new());
//! let running = tokio::spawn(relay.run(shutdown.clone()));
//! while metrics.moved() < 1 {
//!     tokio::task::yield_now().await;
//! }
//! shutdown.cancel();
//! assert_eq!(running.await.unwrap().moved, 1);
//! assert_eq!(client.queue("mail")?.stats().await?.ready, 1);
//! # client.close().await
//! # }
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::join_all;
use rushgate_core::{Due, Error, QueueName, Relay, Result, Verbs};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub use rushgate_ledger::{Outbox, OutboxEntry, OutboxStats, RefusedTask};
use rushgate_ledger::{OutboxBatches, OutboxLead, OutboxTask, OutboxTurn};

use crate::Rushgate;
use crate::counters::count;
use crate::retry::Pauses;

/// Longest pause between two reads. Notifications are reliable; this is a fallback.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Shortest pause between two reads.
const SHORTEST: Duration = Duration::from_millis(1);

/// Moves committed tasks from an [`Outbox`] into the queues of a store.
///
/// Run any number, in any number of processes: one is active, and the others take over if it ends or dies.
#[derive(Clone, Debug)]
pub struct OutboxRelay {
    client: Rushgate,
    outbox: Outbox,
    metrics: OutboxMetrics,
}

/// Counters of a relay. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct OutboxMetrics(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    moved: AtomicU64,
    batches: AtomicU64,
    refused: AtomicU64,
    full: AtomicU64,
    outages: AtomicU64,
    lag_us: AtomicU64,
    lag_max_us: AtomicU64,
    leads: AtomicU64,
}

impl OutboxMetrics {
    /// Tasks that have left the outbox because their queues have them. Includes tasks that were skipped
    /// because their ID was within its uniqueness window.
    pub fn moved(&self) -> u64 {
        self.0.moved.load(Relaxed)
    }

    /// Longest time that a task of the latest batch had waited in the outbox when it was read, by the
    /// database's clock.
    pub fn lag(&self) -> Duration {
        Duration::from_micros(self.0.lag_us.load(Relaxed))
    }

    /// True if this relay is, or has been, the active one.
    pub fn has_led(&self) -> bool {
        self.0.leads.load(Relaxed) > 0
    }

    /// All counters at this moment.
    pub fn report(&self) -> OutboxReport {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        OutboxReport {
            moved: read(&self.0.moved),
            batches: read(&self.0.batches),
            refused: read(&self.0.refused),
            full: read(&self.0.full),
            outages: read(&self.0.outages),
            lag_max: Duration::from_micros(read(&self.0.lag_max_us)),
        }
    }
}

/// Totals of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxReport {
    /// Tasks that have left the outbox because their queues have them.
    pub moved: u64,
    /// Store calls that enqueued them.
    pub batches: u64,
    /// Tasks that were set aside.
    pub refused: u64,
    /// Number of times a queue was full.
    pub full: u64,
    /// Number of times the store or the database failed or did not answer.
    pub outages: u64,
    /// Longest time that a task had waited when it was read, by the database's clock.
    pub lag_max: Duration,
}

impl OutboxRelay {
    /// A relay from `outbox` into the queues of the client's store.
    pub fn new(client: &Rushgate, outbox: Outbox) -> Self {
        Self { client: client.clone(), outbox, metrics: OutboxMetrics::default() }
    }

    /// Live counters, to watch while it runs.
    pub fn metrics(&self) -> OutboxMetrics {
        self.metrics.clone()
    }

    /// Runs until `shutdown` is canceled. Waits out outages of the store and of the database.
    ///
    /// # Cancel safety
    /// It may be dropped or die at any time: another relay continues where it stopped.
    pub async fn run(self, shutdown: CancellationToken) -> OutboxReport {
        let mut pauses = Pauses::new();
        while !self.is_over(&shutdown) {
            let moved = self.metrics.moved();
            let Err(error) = self.lead(&shutdown).await else { break };
            count(&self.metrics.0.outages, 1);
            tracing::warn!(%error, outbox = self.outbox.url(), "the outbox database is unavailable; retrying");
            if self.metrics.moved() > moved {
                pauses = Pauses::new();
            }
            tokio::select! {
                () = sleep(pauses.draw()) => {}
                () = shutdown.cancelled() => {}
            }
        }
        self.metrics.report()
    }

    fn is_over(&self, shutdown: &CancellationToken) -> bool {
        shutdown.is_cancelled() || self.client.closing().is_cancelled()
    }

    async fn lead(&self, shutdown: &CancellationToken) -> Result<()> {
        let lead = tokio::select! {
            lead = self.outbox.lead() => lead?,
            () = shutdown.cancelled() => return Ok(()),
        };
        count(&self.metrics.0.leads, 1);
        tracing::info!(outbox = self.outbox.url(), "relaying the outbox");
        let (at_hand, marks, held_up) = (OutboxBatches::new(), HashMap::new(), HashMap::new());
        Work { relay: self, lead, at_hand, marks, held_up }.run(shutdown).await
    }
}

/// The active relay.
struct Work<'r> {
    relay: &'r OutboxRelay,
    lead: OutboxLead,
    /// Tasks that were read and not yet enqueued.
    at_hand: OutboxBatches,
    marks: HashMap<QueueName, u64>,
    /// Queues that were full or could not be reached, and when to try again.
    held_up: HashMap<QueueName, (Pauses, Instant)>,
}

/// Outcome of a batch.
#[derive(Default)]
struct Sent {
    upto: u64,
    refused: Vec<(i64, String)>,
    is_held_up: bool,
}

impl Work<'_> {
    async fn run(mut self, shutdown: &CancellationToken) -> Result<()> {
        let taken = self.lead.under_way().await?;
        self.note_refused(&taken.refused);
        self.at_hand = taken.batches;
        loop {
            let turn = self.send(!self.relay.is_over(shutdown)).await;
            let has_moved = !turn.done.is_empty() || !turn.refused.is_empty();
            let (more, moved) = (turn.more, turn.done.len());
            let taken = self.lead.turn(turn).await?;
            count(&self.relay.metrics.0.moved, moved);
            if !more {
                return Ok(());
            }
            self.note_refused(&taken.refused);
            let has_more = !taken.batches.is_empty();
            self.at_hand.extend(taken.batches);
            let has_asked = self.ask_for_marks(&taken.strangers).await;
            if has_moved || has_more || has_asked {
                continue;
            }
            // Forget queues that have no tasks in the outbox any more.
            let (at_hand, strangers) = (&self.at_hand, &taken.strangers);
            self.held_up.retain(|queue, _| at_hand.contains_key(queue) || strangers.contains(queue));
            let at_most = self.held_up.values().map(|(_, until)| until.duration_since(Instant::now())).min();
            tokio::select! {
                waited = self.lead.wait(at_most.unwrap_or(LOOK_EVERY).max(SHORTEST)) => waited?,
                () = shutdown.cancelled() => {}
                () = self.relay.client.closing().cancelled() => {}
            }
        }
    }

    /// Sends the tasks of all queues concurrently, and returns what to record in the database.
    async fn send(&mut self, more: bool) -> OutboxTurn {
        let (relay, id, now) = (self.relay, self.lead.id().clone(), Instant::now());
        let rests = |queue: &QueueName| self.held_up.get(queue).is_some_and(|(_, until)| *until > now);
        let sending = self.at_hand.iter().filter(|(queue, _)| more && !rests(queue)).map(|(queue, tasks)| {
            let batch = Relay { outbox: id.clone(), tasks: numbered(tasks) };
            async move { (queue.clone(), relay.send(queue, batch, tasks).await) }
        });
        let sent = join_all(sending).await;
        let mut turn = OutboxTurn { more, ..OutboxTurn::default() };
        for (queue, sent) in sent {
            let Some(tasks) = self.at_hand.get_mut(&queue) else { continue };
            let refused: HashSet<_> = sent.refused.iter().map(|(position, _)| *position).collect();
            let before = turn.done.len();
            tasks.retain(|task| {
                if refused.contains(&task.position) {
                    return false;
                }
                let is_in = task.number <= sent.upto;
                if is_in {
                    turn.done.push(task.position);
                }
                !is_in
            });
            if tasks.is_empty() {
                self.at_hand.remove(&queue);
            }
            // A queue that accepted tasks has capacity again.
            if turn.done.len() > before {
                self.held_up.remove(&queue);
            }
            self.note_held_up(&queue, sent.is_held_up);
            turn.refused.extend(sent.refused);
        }
        count(&relay.metrics.0.refused, turn.refused.len());
        turn.marks.clone_from(&self.marks);
        turn
    }

    fn note_held_up(&mut self, queue: &QueueName, is_held_up: bool) {
        if !is_held_up {
            self.held_up.remove(queue);
            return;
        }
        let (pauses, until) =
            self.held_up.entry(queue.clone()).or_insert_with(|| (Pauses::new(), Instant::now()));
        *until = Instant::now() + pauses.draw();
    }

    /// Asks queues for the last sequence number that they have of this outbox. True if any answered.
    async fn ask_for_marks(&mut self, strangers: &[QueueName]) -> bool {
        let mut has_asked = false;
        for queue in strangers {
            if self.held_up.get(queue).is_some_and(|(_, until)| *until > Instant::now()) {
                continue;
            }
            let question = Relay { outbox: self.lead.id().clone(), tasks: Vec::new() };
            let store = self.relay.client.store();
            match self.relay.client.ask(|| store.relay(queue, question.clone())).await {
                Ok(relayed) => {
                    self.marks.insert(queue.clone(), relayed.upto);
                    has_asked = true;
                    self.note_held_up(queue, false);
                }
                Err(error) => {
                    self.relay.note_outage(queue, &error);
                    self.note_held_up(queue, true);
                }
            }
        }
        has_asked
    }

    fn note_refused(&self, refused: &[(String, String, String)]) {
        count(&self.relay.metrics.0.refused, refused.len());
        for (queue, id, why) in refused {
            tracing::error!(queue, id, why, "cannot relay an outbox task; it is set aside");
        }
    }
}

fn numbered(tasks: &[OutboxTask]) -> Vec<(u64, rushgate_core::NewTask)> {
    tasks.iter().map(|task| (task.number, task.task.clone())).collect()
}

impl OutboxRelay {
    async fn send(&self, queue: &QueueName, batch: Relay, tasks: &[OutboxTask]) -> Sent {
        let Some(last) = tasks.last().map(|task| task.number) else { return Sent::default() };
        let counters = &self.metrics.0;
        let lag = tasks.iter().map(|task| task.age.as_micros() as u64).max().unwrap_or_default();
        counters.lag_us.store(lag, Relaxed);
        counters.lag_max_us.fetch_max(lag, Relaxed);
        match self.put(queue, batch.clone()).await {
            Ok(upto) => {
                let is_held_up = upto < last;
                count(&counters.full, is_held_up.into());
                Sent { upto, is_held_up, refused: Vec::new() }
            }
            // None was enqueued. Sending them separately shows which one failed.
            Err(error) if error.is_invalid() && !error.may_have_happened() => {
                self.send_separately(queue, batch, tasks).await
            }
            Err(error) => {
                self.note_outage(queue, &error);
                Sent { is_held_up: true, ..Sent::default() }
            }
        }
    }

    async fn send_separately(&self, queue: &QueueName, batch: Relay, tasks: &[OutboxTask]) -> Sent {
        let mut sent = Sent::default();
        // Set the first refused task aside before sending the next: a queue that has a later number would
        // count this one as received.
        for (task, row) in batch.tasks.into_iter().zip(tasks) {
            let one = Relay { outbox: batch.outbox.clone(), tasks: vec![task] };
            match self.put(queue, one).await {
                Ok(upto) if upto >= row.number => sent.upto = upto,
                Err(error) if error.is_invalid() && !error.may_have_happened() => {
                    tracing::error!(%queue, id = %row.task.id, %error, "an outbox task was refused and is set aside");
                    sent.refused.push((row.position, error.to_string()));
                    break;
                }
                answer => {
                    if let Err(error) = answer {
                        self.note_outage(queue, &error);
                    }
                    sent.is_held_up = true;
                    break;
                }
            }
        }
        sent
    }

    async fn put(&self, queue: &QueueName, batch: Relay) -> Result<u64> {
        let relayed = self.client.ask(|| self.client.store().relay(queue, batch.clone())).await?;
        count(&self.metrics.0.batches, 1);
        if batch.tasks.iter().any(|(_, task)| task.due != Due::Now) {
            self.client.next_due_changed(queue);
        }
        Ok(relayed.upto)
    }

    fn note_outage(&self, queue: &QueueName, error: &Error) {
        count(&self.metrics.0.outages, 1);
        tracing::warn!(%queue, %error, "the store is unavailable; the outbox relay is retrying");
    }
}
