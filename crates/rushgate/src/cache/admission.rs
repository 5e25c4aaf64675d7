//! Admission cache of one sale: which requests this process answers without the store.
//!
//! It holds no stock. It remembers that the store had no free units, until the next probe, and which requests
//! may be replays and must reach the store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use rushgate_core::{
    EventKind, Line, MAX_LINES, MAX_UNITS_PER_LINE, Page, ReservationId, Reserved, Result, SaleId,
    SaleSecret, SaleSpec, SaleState, SaleStatus, Sku, SkuState, Store, Timestamp, Verbs,
};
use tokio::sync::Mutex;

use super::high_water::Mark;
use super::reservations::ReservationCache;
use crate::clock::coarse_us;
use crate::counters::{count, counters};

/// While the cache is closed, it lets one request through per 50 ms.
const PROBE_EVERY_US: u64 = 50_000;
/// Page size of event reads during a refresh.
const PAGE: u32 = 10_000;

const OPEN: u8 = 0;
const SOLD_OUT: u8 = 1;
const ALL_HELD: u8 = 2;

const SELLING: u8 = 0;
const NOT_OPEN: u8 = 1;
const ENDED: u8 = 2;

/// Marks a time that is not set.
const NEVER: u64 = u64::MAX;

counters! {
    /// Counters of a sale's admission cache in this process.
    AdmissionStats, Counters {
        /// Requests answered from memory.
        from_memory,
        /// Requests that a closed cache let through to probe the store.
        probes,
        /// Requests sent to the store, probes included.
        at_store,
        /// Requests that a closed cache let through because they may be replays.
        replays,
        /// Number of refreshes of the cached state.
        learned,
    }
}

pub(crate) struct AdmissionCache {
    secret: SaleSecret,
    shelves: HashMap<Sku, AtomicU8>,
    window: AtomicU8,
    /// Opening time on the store's clock, for the answer.
    opens_at: AtomicU64,
    /// Opening time on the coarse local clock. May be slightly early.
    opens_here_us: AtomicU64,
    /// Next expiry of a hold on the store's clock, for the answer.
    next_expiry_at: AtomicU64,
    next_probe_us: AtomicU64,
    pub reservations: ReservationCache,
    /// Events of this generation up to this number are applied. Locked during a refresh.
    cursor: Mutex<Mark>,
    pub counters: Counters,
}

/// Outcome of [`Sale::estimate`](crate::Sale::estimate).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Estimate {
    /// The request would get this answer and reserve nothing.
    Answer(Reserved),
    /// The request may be an idempotent replay. Only [`Sale::reserve`](crate::Sale::reserve) can tell.
    Replay,
    /// Only the store can tell.
    Unknown,
}

/// Selling state, as reported by the store.
pub(crate) enum Window {
    Selling,
    NotOpen(Option<Timestamp>),
    Ended,
    /// The sale is halted; only the store knows what is left.
    Stopped,
    /// The answer does not tell the state.
    AsBefore,
}

impl From<&Reserved> for Window {
    fn from(answer: &Reserved) -> Self {
        match answer {
            Reserved::Ended => Self::Ended,
            Reserved::NotOpen { opens_at } => Self::NotOpen(*opens_at),
            Reserved::Halted { .. } => Self::Stopped,
            // A replay and a reused key are answered before the opening times are checked.
            Reserved::Replayed(_) | Reserved::KeyReused => Self::AsBefore,
            _ => Self::Selling,
        }
    }
}

impl From<&SaleState> for Window {
    fn from(state: &SaleState) -> Self {
        match state.status {
            _ if state.halted.is_some() || state.receipts_until.is_some_and(|until| state.now < until) => {
                Self::Stopped
            }
            SaleStatus::Ended => Self::Ended,
            _ if state.spec.closes_at.is_some_and(|closes| closes <= state.now) => Self::Ended,
            SaleStatus::Created => Self::NotOpen(state.spec.opens_at),
            SaleStatus::Open => match state.spec.opens_at.filter(|opens| state.now < *opens) {
                Some(opens) => Self::NotOpen(Some(opens)),
                None => Self::Selling,
            },
        }
    }
}

impl AdmissionCache {
    pub fn new(spec: &SaleSpec) -> Self {
        Self {
            secret: spec.secret,
            shelves: spec.skus.iter().map(|sku| (sku.sku.clone(), AtomicU8::new(OPEN))).collect(),
            window: AtomicU8::new(SELLING),
            opens_at: AtomicU64::new(NEVER),
            opens_here_us: AtomicU64::new(NEVER),
            next_expiry_at: AtomicU64::new(NEVER),
            next_probe_us: AtomicU64::new(0),
            reservations: ReservationCache::new(),
            cursor: Mutex::new((0, 0)),
            counters: Counters::default(),
        }
    }

    pub fn secret(&self) -> SaleSecret {
        self.secret
    }

    pub fn stats(&self) -> AdmissionStats {
        self.counters.report()
    }

    /// Predicts the answer to the request without the store. `None`: a probe is due, and the caller makes it. Does not
    /// block on long-held locks and does not allocate.
    pub fn estimate(&self, id: ReservationId, lines: &[Line]) -> Option<Estimate> {
        let Some(shut) = self.shut(lines) else { return Some(Estimate::Unknown) };
        if self.reservations.contains(id) {
            return Some(Estimate::Replay);
        }
        if self.may_probe(&shut) {
            count(&self.counters.probes, 1);
            return None;
        }
        count(&self.counters.from_memory, 1);
        Some(Estimate::Answer(self.answer(shut)))
    }

    /// Answer for the cart while the cache is closed for it.
    pub fn refusal(&self, lines: &[Line]) -> Option<Reserved> {
        self.shut(lines).map(|shut| self.answer(shut))
    }

    /// Why the cart is unavailable now, if the cache knows. A cart that the store would reject as invalid
    /// goes to the store.
    fn shut<'a>(&self, lines: &'a [Line]) -> Option<Shut<'a>> {
        let window = self.window();
        let mut shelves = lines.iter().map(|line| (line, self.shelves.get(&line.sku)));
        if window == SELLING {
            let (line, state) = shelves.find_map(|(line, shelf)| match shelf?.load(Ordering::Acquire) {
                OPEN => None,
                state => Some((line, state)),
            })?;
            let shut = if state == SOLD_OUT { Shut::SoldOut(&line.sku) } else { Shut::AllHeld(&line.sku) };
            return self.is_in_order(lines).then_some(shut);
        }
        let shut = if window == ENDED { Shut::Ended } else { Shut::NotOpen };
        self.is_in_order(lines).then_some(shut)
    }

    fn window(&self) -> u8 {
        let window = self.window.load(Ordering::Acquire);
        if window == NOT_OPEN && coarse_us() >= self.opens_here_us.load(Ordering::Acquire) {
            self.window.store(SELLING, Ordering::Release);
            return SELLING;
        }
        window
    }

    fn is_in_order(&self, lines: &[Line]) -> bool {
        let each = |(at, line): (usize, &Line)| {
            (1..=MAX_UNITS_PER_LINE).contains(&line.quantity)
                && self.shelves.contains_key(&line.sku)
                && lines[..at].iter().all(|other| other.sku != line.sku)
        };
        (1..=MAX_LINES).contains(&lines.len()) && lines.iter().enumerate().all(each)
    }

    fn may_probe(&self, shut: &Shut<'_>) -> bool {
        if matches!(shut, Shut::Ended) {
            return false;
        }
        let (now, next) = (coarse_us(), self.next_probe_us.load(Ordering::Relaxed));
        let taken = |next| {
            self.next_probe_us.compare_exchange(
                next,
                now + PROBE_EVERY_US,
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
        };
        now >= next && taken(next).is_ok()
    }

    fn answer(&self, shut: Shut<'_>) -> Reserved {
        let moment = |at: &AtomicU64| match at.load(Ordering::Acquire) {
            NEVER => None,
            at => Some(Timestamp::from_micros(at)),
        };
        match shut {
            Shut::SoldOut(sku) => Reserved::SoldOut { sku: sku.clone(), free: 0 },
            Shut::AllHeld(sku) => {
                Reserved::AllHeld { sku: sku.clone(), free: 0, next_expiry: moment(&self.next_expiry_at) }
            }
            Shut::NotOpen => Reserved::NotOpen { opens_at: moment(&self.opens_at) },
            Shut::Ended => Reserved::Ended,
        }
    }

    /// Lets the next request through as a probe.
    pub fn nudge(&self) {
        self.next_probe_us.store(0, Ordering::Release);
    }

    /// True if the store's answer contradicts the cache.
    pub fn contradicts(&self, answer: &Reserved) -> bool {
        let window = self.window.load(Ordering::Acquire);
        match answer {
            Reserved::SoldOut { sku, free: 0 } => window != SELLING || !self.is(sku, SOLD_OUT),
            Reserved::AllHeld { sku, free: 0, .. } => window != SELLING || !self.is(sku, ALL_HELD),
            Reserved::NotOpen { .. } => window != NOT_OPEN,
            Reserved::Ended => window != ENDED,
            Reserved::Reserved(_) => window != SELLING,
            Reserved::Halted { .. } => {
                window != SELLING || self.shelves.values().any(|shelf| shelf.load(Ordering::Acquire) != OPEN)
            }
            _ => false,
        }
    }

    fn is(&self, sku: &Sku, state: u8) -> bool {
        self.shelves.get(sku).is_some_and(|shelf| shelf.load(Ordering::Acquire) == state)
    }

    /// Refreshes the cache: which requests may be replays, what is free, and when to probe next. One refresh
    /// runs at a time; other callers use the cached state.
    ///
    /// The cache closes only after it has learned of every reservation made before the answer, so that it
    /// never rejects a replay of one.
    pub async fn learn(&self, store: &dyn Store, sale: &SaleId, window: Window) -> Result<()> {
        let Ok(mut cursor) = self.cursor.try_lock() else { return Ok(()) };
        let before_us = coarse_us();
        let state = store.sale(sale).await?;
        if cursor.0 != state.generation {
            // A rebuild has started a new event log, which lists every reservation again.
            *cursor = (state.generation, 0);
        }
        while cursor.1 < state.seq {
            let events = store.events(sale, Page::after(cursor.1, PAGE)).await?;
            let Some(last) = events.last() else { break };
            cursor.1 = last.seq;
            let made = events.iter().filter(|event| event.kind == EventKind::Reserved);
            made.filter_map(|event| event.reservation).for_each(|id| self.reservations.add(id));
        }
        let stopped = matches!(window, Window::Stopped);
        self.set_window(window, &state, before_us);
        // While a sale is halted, its free units are unknown: the store answers.
        for sku in &state.skus {
            if let Some(shelf) = self.shelves.get(&sku.sku) {
                shelf.store(if stopped { OPEN } else { shelf_state(sku) }, Ordering::Release);
            }
        }
        self.plan_probe(&state);
        count(&self.counters.learned, 1);
        Ok(())
    }

    fn set_window(&self, window: Window, state: &SaleState, before_us: u64) {
        let window = match window {
            Window::Ended => ENDED,
            Window::NotOpen(opens_at) => {
                // Early by at most the round trip. The store then answers "not open" once more.
                let here = opens_at.filter(|at| *at > state.now);
                let here = here.map_or(NEVER, |at| before_us + micros(at.since(state.now)));
                self.opens_at.store(opens_at.map_or(NEVER, Timestamp::as_micros), Ordering::Release);
                self.opens_here_us.store(here, Ordering::Release);
                NOT_OPEN
            }
            Window::AsBefore => return,
            Window::Selling | Window::Stopped => SELLING,
        };
        self.window.store(window, Ordering::Release);
    }

    fn plan_probe(&self, state: &SaleState) {
        let now = coarse_us();
        let mut next = now + PROBE_EVERY_US;
        if let Some(at) = state.next_expiry {
            let left = micros(at.since(state.now));
            if left > 0 {
                next = next.min(now + left);
            }
        }
        let next_expiry_at = state.next_expiry.map_or(NEVER, Timestamp::as_micros);
        self.next_expiry_at.store(next_expiry_at, Ordering::Release);
        self.next_probe_us.store(next, Ordering::Release);
    }
}

enum Shut<'a> {
    SoldOut(&'a Sku),
    AllHeld(&'a Sku),
    NotOpen,
    Ended,
}

fn shelf_state(sku: &SkuState) -> u8 {
    match (sku.free, sku.held) {
        (0, 0) => SOLD_OUT,
        (0, _) => ALL_HELD,
        _ => OPEN,
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX / 2)
}
