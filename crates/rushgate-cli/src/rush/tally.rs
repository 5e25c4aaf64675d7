//! Counts of the buyers' answers, per thread, summed when read.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use rushgate::Reserved;
use rushgate::sale::Hold;
use serde::Serialize;

use super::tickets::{Place, Stands, Ticket, Tickets};

/// Kinds of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told {
    Reserved,
    Replayed,
    AllHeld,
    SoldOut,
    LimitReached,
    KeyReused,
    NotOpen,
    Ended,
    Halted,
    Failed,
}

impl Told {
    /// Every kind with its text in the report, in the order of the report.
    pub(super) const ALL: [(Self, &str); 10] = [
        (Self::Reserved, "reserved a unit"),
        (Self::Replayed, "idempotent replay: same answer, no second unit"),
        (Self::AllHeld, "all units on hold: retry later"),
        (Self::SoldOut, "sold out"),
        (Self::LimitReached, "purchase limit exceeded"),
        (Self::KeyReused, "idempotency key reused for another cart"),
        (Self::NotOpen, "not open yet"),
        (Self::Ended, "sale ended"),
        (Self::Halted, "sale halted: retry later"),
        (Self::Failed, "no answer"),
    ];

    /// True if the buyer retries later.
    pub(super) fn comes_back(self) -> bool {
        matches!(self, Self::AllHeld | Self::Halted)
    }
}

impl From<&Reserved> for Told {
    fn from(answer: &Reserved) -> Self {
        match answer {
            Reserved::Reserved(_) => Self::Reserved,
            Reserved::Replayed(_) => Self::Replayed,
            Reserved::KeyReused => Self::KeyReused,
            Reserved::SoldOut { .. } => Self::SoldOut,
            Reserved::AllHeld { .. } => Self::AllHeld,
            Reserved::LimitReached { .. } => Self::LimitReached,
            Reserved::NotOpen { .. } => Self::NotOpen,
            Reserved::Ended => Self::Ended,
            Reserved::Halted { .. } => Self::Halted,
            _ => Self::Failed,
        }
    }
}

/// Counters of one thread, in their own cache lines, so that counting causes no contention.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct ThreadCounters {
    answers: [AtomicU64; Told::ALL.len()],
    pub(super) tickets: Tickets,
}

impl ThreadCounters {
    pub(super) fn count(&self, told: Told) {
        // Only the owning thread writes.
        let counter = &self.answers[told as usize];
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Counters of all threads.
pub(super) struct Tally {
    threads: Vec<ThreadCounters>,
    /// Holds restored from receipts.
    restored: AtomicU64,
    sum: Mutex<Sum>,
}

/// Totals that each thread adds when it ends.
pub(super) struct Sum {
    /// Duration of each request alone, in nanoseconds.
    pub(super) served: Histogram<u64>,
    /// Latency from each scheduled click, in nanoseconds. Empty without a schedule.
    pub(super) latency: Histogram<u64>,
    pub(super) first_error: Option<String>,
}

/// A latency histogram: up to one minute, with two significant digits.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2)
        .unwrap_or_else(|_| unreachable!("the bounds are constants"))
}

impl Tally {
    pub(super) fn new(members: usize) -> Self {
        let threads = std::iter::repeat_with(ThreadCounters::default).take(members).collect();
        let sum = Sum { served: histogram(), latency: histogram(), first_error: None };
        Self { threads, restored: AtomicU64::new(0), sum: Mutex::new(sum) }
    }

    pub(super) fn counters(&self, member: usize) -> &ThreadCounters {
        &self.threads[member]
    }

    pub(super) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// All recorded reservations.
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        self.threads.iter().flat_map(|counters| counters.tickets.all()).collect()
    }

    pub(super) fn ticket(&self, at: Place) -> Ticket {
        self.change(at, |ticket| *ticket)
    }

    pub(super) fn mark(&self, at: Place, stands: Stands) {
        self.change(at, |ticket| ticket.stands = stands);
    }

    /// Replaces a reservation that was restored from its receipt.
    pub(super) fn renew(&self, at: Place, hold: &Hold) {
        self.change(at, |ticket| *ticket = ticket.renewed(hold));
    }

    fn change<T>(&self, at: Place, change: impl FnOnce(&mut Ticket) -> T) -> T {
        self.counters(at.counters).tickets.with(|tickets| change(&mut tickets[at.number]))
    }

    /// Reservations that would be missed after a loss, in the order in which they were made.
    pub(super) fn at_stake(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for counters in 0..self.threads() {
            let tickets = self.counters(counters).tickets.all().into_iter().enumerate();
            let at_stake = tickets.filter(|(_, ticket)| matches!(ticket.stands, Stands::Held | Stands::Paid));
            places.extend(at_stake.map(|(number, of)| (of.generation, of.seq, Place { counters, number })));
        }
        places.sort_unstable_by_key(|(generation, seq, _)| (*generation, *seq));
        places.into_iter().map(|(.., at)| at).collect()
    }

    pub(super) fn count_restored(&self) {
        self.restored.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn restored(&self) -> u64 {
        self.restored.load(Ordering::Relaxed)
    }

    pub(super) fn hand_in(
        &self,
        served: &Histogram<u64>,
        latency: Option<&Histogram<u64>>,
        first_error: Option<String>,
    ) {
        let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = sum.served.add(served);
        if let Some(latency) = latency {
            let _ = sum.latency.add(latency);
        }
        sum.first_error = sum.first_error.take().or(first_error);
    }

    pub(super) fn count(&self, told: Told) -> u64 {
        self.threads.iter().map(|counters| counters.answers[told as usize].load(Ordering::Relaxed)).sum()
    }

    pub(super) fn attempts(&self) -> u64 {
        Told::ALL.into_iter().map(|(told, _)| self.count(told)).sum()
    }

    pub(super) fn read<T>(&self, look: impl FnOnce(&Sum) -> T) -> T {
        look(&self.sum.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Rate per second, for display.
pub(super) fn per_second(n: u64, length: Duration) -> u64 {
    (n as f64 / length.as_secs_f64().max(1e-6)) as u64
}
