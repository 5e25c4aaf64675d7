//! Who waits for a reservation to end: one look at the sale does for all of them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rushgate_core::{ReservationId, Result};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use super::Sale;

/// The shortest and the longest time from one look to the next. What this process does is told at once, what others do is
/// seen by looking.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(200);
/// So few look for themselves whenever anything has happened in the sale. For more the events are read, which tell whose
/// reservation moved.
const FEW: usize = 16;
/// Events that are read at a time.
const PAGE: u32 = 1_000;

/// Those who wait in this process for a reservation of one sale.
#[derive(Default)]
pub(super) struct Endings(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    of: HashMap<ReservationId, Vec<oneshot::Sender<()>>>,
    /// Whether a poller is running for the sale.
    is_looked_at: bool,
}

impl Endings {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, id: ReservationId) {
        self.lock().of.remove(&id);
    }

    fn tell_all(&self) {
        self.lock().of.clear();
    }

    fn are_few(&self) -> bool {
        self.lock().of.len() <= FEW
    }

    /// Whether nobody waits any more; then nobody looks any more either.
    fn are_left(&self) -> bool {
        let mut waiting = self.lock();
        waiting.of.retain(|_, of| {
            of.retain(|who| !who.is_closed());
            !of.is_empty()
        });
        waiting.is_looked_at = !waiting.of.is_empty();
        !waiting.is_looked_at
    }
}

impl Sale {
    /// Ends when the reservation may have moved since the call. It is a hint: whoever hears it asks for the reservation.
    pub(super) fn moves(&self, id: ReservationId) -> oneshot::Receiver<()> {
        let (who, told) = oneshot::channel();
        let mut waiting = self.shared.endings.lock();
        waiting.of.entry(id).or_default().push(who);
        if !std::mem::replace(&mut waiting.is_looked_at, true) {
            tokio::spawn(Looker { sale: self.clone(), is_over: false }.look());
        }
        told
    }
}

/// Polls a sale while it has waiters.
struct Looker {
    sale: Sale,
    /// Whether nobody waited any more: who came since has another that looks.
    is_over: bool,
}

impl Drop for Looker {
    /// If it ends early with its runtime, the remaining waiters are notified and start another one.
    fn drop(&mut self) {
        if !self.is_over {
            *self.sale.shared.endings.lock() = Waiting::default();
        }
    }
}

impl Looker {
    async fn look(mut self) {
        let sale = &self.sale;
        let (mut known, mut pause) = (None, LOOK_MIN);
        while !sale.shared.endings.are_left() {
            let (moved, looked_at) = (sale.shared.moved.notified(), Instant::now());
            // What cannot be told is for each to find out.
            known = self.tell_since(known).await.ok();
            if known.is_none() {
                sale.shared.endings.tell_all();
            }
            tokio::select! {
                () = moved => pause = LOOK_MIN,
                () = sleep(pause) => pause = (pause * 2).min(LOOK_MAX),
            }
            // Much may move here at a time, and one look sees all of it.
            sleep_until(looked_at + LOOK_MIN).await;
        }
        self.is_over = true;
    }

    /// Tells those whose reservation may have moved since the sale was in that generation and had that event. What it has
    /// now.
    async fn tell_since(&self, known: Option<(u32, u64)>) -> Result<(u32, u64)> {
        let sale = &self.sale;
        let state = sale.state().await?;
        let now = (state.generation, state.seq);
        match known {
            Some(known) if known == now => {}
            Some((generation, seq))
                if generation == now.0 && seq < now.1 && !sale.shared.endings.are_few() =>
            {
                self.tell_of_events(seq, now.1).await?;
            }
            // A sale that was rebuilt, or lost its latest writes, counts anew; and before the first look anything may have
            // happened.
            _ => sale.shared.endings.tell_all(),
        }
        Ok(now)
    }

    async fn tell_of_events(&self, mut after: u64, last: u64) -> Result<()> {
        let sale = &self.sale;
        while after < last {
            let events = sale.events(after, PAGE).await?;
            let Some(latest) = events.last() else { break };
            after = latest.seq;
            events.iter().filter_map(|event| event.reservation).for_each(|id| sale.shared.endings.tell(id));
        }
        Ok(())
    }
}
