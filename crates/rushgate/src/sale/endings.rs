//! Wakes callers that wait for a reservation to become final. One read of the sale serves all of them.

use std::time::Duration;

use rushgate_core::{Page, ReservationId, Result};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use super::Sale;
use crate::cache::Waiting;

/// Shortest time between two reads.
const LOOK_MIN: Duration = Duration::from_millis(10);
/// Time until the next read if the store cannot be reached.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Longest time between two reads, because a notification may be lost.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// Page size of event reads.
const PAGE: u32 = 1_000;
/// Up to this number of new events, the events are read. After more of them, every waiter is woken.
const EVENTS_MOST: u64 = 10 * PAGE as u64;

impl Sale {
    /// Resolves when the reservation may have changed since the call. This is a hint: read the reservation to
    /// find out.
    pub(super) fn moves(&self, id: ReservationId) -> oneshot::Receiver<()> {
        let (who, told) = oneshot::channel();
        let mut waiting = self.shared.waiters.lock();
        waiting.of.entry(id).or_default().push(who);
        if !std::mem::replace(&mut waiting.is_watched, true) {
            tokio::spawn(Watch { sale: self.clone(), is_over: false }.run());
        }
        told
    }
}

/// Reads a sale after each of its events, while it has waiters.
struct Watch {
    sale: Sale,
    /// True if it stopped because there were no waiters. Later waiters start a new one.
    is_over: bool,
}

impl Drop for Watch {
    /// If it ends early with its runtime, the remaining waiters are notified and start another one.
    fn drop(&mut self) {
        if !self.is_over {
            *self.sale.shared.waiters.lock() = Waiting::default();
        }
    }
}

impl Watch {
    async fn run(mut self) {
        let sale = &self.sale;
        while !sale.shared.waiters.are_left() {
            let (moved, looked_at) = (sale.shared.moved.notified(), Instant::now());
            self.tell_changes().await;
            tokio::select! {
                () = moved => {}
                () = self.next_event() => {}
                () = sleep(LOOK_MAX) => {}
            }
            // Many reservations may change within a short time; one read sees all of them.
            sleep_until(looked_at + LOOK_MIN).await;
        }
        self.is_over = true;
    }

    /// Waits for an event after the latest one that was read.
    async fn next_event(&self) {
        let known = self.sale.shared.waiters.lock().known;
        let heard = match known {
            Some((_, latest)) => self.sale.next_event(latest).await.is_ok(),
            None => false,
        };
        if !heard {
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Wakes the waiters whose reservation may have changed since the last read. If the sale cannot be read,
    /// it wakes all of them: each gets the error itself.
    async fn tell_changes(&self) {
        let waiters = &self.sale.shared.waiters;
        let known = waiters.lock().known;
        let now = self.tell_since(known).await.ok();
        waiters.lock().known = now;
        if now.is_none() {
            waiters.tell_all();
        }
    }

    /// Wakes the waiters whose reservation may have changed since `known`, and returns the current values.
    async fn tell_since(&self, known: Option<(u32, u64)>) -> Result<(u32, u64)> {
        let waiters = &self.sale.shared.waiters;
        let state = self.sale.state().await?;
        let now = (state.generation, state.seq);
        match known {
            Some(known) if known == now => {}
            Some((generation, seq))
                if generation == now.0 && are_readable(seq, now.1) && !waiters.are_few() =>
            {
                self.tell_of_events(seq, now.1).await?;
            }
            // First read, rebuilt sale, lost writes or very many events: any reservation may have changed.
            _ => waiters.tell_all(),
        }
        Ok(now)
    }

    async fn tell_of_events(&self, mut after: u64, last: u64) -> Result<()> {
        let sale = &self.sale;
        while after < last {
            let events = sale.events(Page::after(after, PAGE)).await?;
            let Some(latest) = events.last() else { break };
            after = latest.seq;
            events.iter().filter_map(|event| event.reservation).for_each(|id| sale.shared.waiters.tell(id));
        }
        Ok(())
    }
}

/// Whether there are events after `known` that are worth reading.
fn are_readable(known: u64, last: u64) -> bool {
    last.checked_sub(known).is_some_and(|new| (1..=EVENTS_MOST).contains(&new))
}
