//! Heartbeat of a worker's queue: one task that extends the leases of all claims, and signals those that are
//! lost or canceled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rushgate_core::{Claim, Fence, Heartbeat, Lease, TaskExtended, TaskId, Ticket, Verbs};
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Progress;
use super::metrics::{Meter, QueueMeter};
use crate::Rushgate;
use crate::clock::{Boot, margin};
use crate::counters::count;

const SLEEP_MAX: Duration = Duration::from_millis(500);

/// Leases of a worker, from claim to acknowledged answer.
pub(super) struct Leases {
    lease: Lease,
    held: Mutex<HashMap<Key, Leased>>,
    changed: Notify,
}

type Key = (TaskId, Option<Fence>);

struct Leased {
    ticket: Ticket,
    until: Boot,
    beat_at: Boot,
    signals: Signals,
    meter: Arc<Meter>,
}

/// Signals to one handler.
#[derive(Clone, Debug)]
pub(super) struct Signals {
    /// The lease is lost: the handler is dropped at once.
    pub lost: CancellationToken,
    /// The lease was lost or the task was canceled.
    pub cancel: CancellationToken,
    /// Progress that the handler has reported.
    pub progress: Progress,
}

impl Leased {
    fn lose(&self) {
        self.signals.lost.cancel();
        count(&self.meter.counters.lost, 1);
    }
}

fn key(ticket: &Ticket) -> Key {
    (ticket.id.clone(), ticket.claim)
}

impl Leases {
    pub fn new(lease: Lease) -> Self {
        Self { lease, held: Mutex::default(), changed: Notify::new() }
    }

    /// Number of claims.
    pub fn count(&self) -> u32 {
        u32::try_from(self.held().len()).unwrap_or(u32::MAX)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Key, Leased>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a claim whose request was sent at `sent`.
    pub fn add(&self, ticket: &Ticket, sent: Boot, meter: &Arc<Meter>) -> Signals {
        let lost = CancellationToken::new();
        let signals = Signals { cancel: lost.child_token(), lost, progress: Progress::default() };
        let leased = Leased {
            ticket: ticket.clone(),
            until: self.believed(sent),
            beat_at: self.next_beat(sent),
            signals: signals.clone(),
            meter: Arc::clone(meter),
        };
        let mut held = self.held();
        let first = held.is_empty();
        held.insert(key(ticket), leased);
        if first {
            self.changed.notify_one();
        }
        signals
    }

    /// Removes a claim. True if its lease was still held.
    pub fn remove(&self, ticket: &Ticket) -> bool {
        self.held().remove(&key(ticket)).is_some()
    }

    fn believed(&self, sent: Boot) -> Boot {
        (sent + self.lease.get()).minus(margin(self.lease.get()))
    }

    fn next_beat(&self, sent: Boot) -> Boot {
        sent + self.lease.get() / 3
    }

    /// Signals lost leases, and returns the extensions to send and the time of the next check.
    fn due(&self, now: Boot) -> (Vec<Heartbeat>, Option<Boot>) {
        let mut held = self.held();
        held.retain(|_, leased| {
            let lives = now < leased.until;
            if !lives {
                leased.lose();
            }
            lives
        });
        let soon = now + self.lease.get() / 10;
        let mut batch = Vec::new();
        for leased in held.values_mut().filter(|leased| leased.beat_at <= soon).take(Claim::BATCH_MAX) {
            // If no answer comes by then, send the heartbeat again.
            leased.beat_at = now + self.lease.get() / 4;
            let (ticket, progress) = (leased.ticket.clone(), leased.signals.progress.take_new());
            batch.push(Heartbeat { ticket, progress });
        }
        let next = held.values().map(|leased| leased.beat_at.min(leased.until)).min();
        (batch, next)
    }

    fn answered(&self, batch: &[Heartbeat], sent: Boot, answers: &[TaskExtended]) {
        let mut held = self.held();
        for (beat, answer) in batch.iter().zip(answers) {
            let key = key(&beat.ticket);
            let Some(leased) = held.get_mut(&key) else { continue };
            match answer {
                TaskExtended::Lost => {
                    leased.lose();
                    held.remove(&key);
                    continue;
                }
                TaskExtended::Cancelled => leased.signals.cancel.cancel(),
                TaskExtended::Extended => {}
            }
            leased.until = leased.until.max(self.believed(sent));
            leased.beat_at = self.next_beat(sent);
        }
    }

    fn failed(&self, batch: &[Heartbeat]) {
        let mut held = self.held();
        let again = Boot::now() + (self.lease.get() / 20).min(Duration::from_secs(1));
        for beat in batch {
            if let Some(leased) = held.get_mut(&key(&beat.ticket)) {
                leased.beat_at = again;
                if beat.progress.is_some() {
                    leased.signals.progress.tell_again();
                }
            }
        }
        self.changed.notify_one();
    }
}

/// Sends heartbeats until the future is dropped.
pub(super) async fn beat(
    client: Rushgate,
    queue: rushgate_core::QueueName,
    leases: Arc<Leases>,
    meter: Arc<QueueMeter>,
) {
    loop {
        let now = Boot::now();
        let (batch, next) = leases.due(now);
        if !batch.is_empty() {
            let (client, queue) = (client.clone(), queue.clone());
            let (leases, meter) = (Arc::clone(&leases), Arc::clone(&meter));
            // In its own task, so that a slow answer does not delay the signal of a loss.
            tokio::spawn(async move {
                match client.store().extend_tasks(&queue, batch.clone(), leases.lease).await {
                    Ok(answers) => leases.answered(&batch, now, &answers),
                    Err(error) => {
                        tracing::debug!(%queue, %error, "heartbeat failed; retrying");
                        count(&meter.outages, 1);
                        leases.failed(&batch);
                    }
                }
            });
        }
        let pause = next.map_or(Duration::from_secs(3600), |next| now.until(next).min(SLEEP_MAX));
        tokio::select! {
            () = sleep(pause) => {}
            () = leases.changed.notified() => {}
        }
    }
}
