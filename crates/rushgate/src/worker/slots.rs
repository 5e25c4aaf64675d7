//! Slots of a worker, shared between its queues by weight.
//!
//! A free slot goes to the queue with the fewest running tasks relative to its weight. Among equals, it goes
//! to the queue that was served least relative to its weight. A queue without due tasks does not compete, so
//! the others have all slots. A queue with a claim under way does compete, so that its share is not given
//! away meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::task::yield_now;

pub(super) struct Slots {
    shared: Mutex<Shared>,
}

struct Shared {
    free: usize,
    lines: Vec<Line>,
}

/// State of one queue.
struct Line {
    weight: f64,
    at_work: usize,
    /// Tasks claimed so far, divided by the weight.
    served: f64,
    /// True if the queue may have due tasks.
    hungry: bool,
    changed: Arc<Notify>,
}

impl Line {
    fn turn(&self) -> (f64, f64) {
        (self.at_work as f64 / self.weight, self.served)
    }
}

/// Permit to work on one batch. Freed on drop.
pub(super) struct Slot {
    slots: Arc<Slots>,
    line: usize,
}

impl Slots {
    pub fn new(n: usize, weights: impl IntoIterator<Item = u32>) -> Arc<Self> {
        let line = |weight| Line {
            weight: f64::from(weight),
            at_work: 0,
            served: 0.0,
            hungry: false,
            changed: Arc::new(Notify::new()),
        };
        let lines = weights.into_iter().map(line).collect();
        Arc::new(Self { shared: Mutex::new(Shared { free: n, lines }) })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a free slot for this queue, and takes up to `most` of them.
    pub async fn take(self: &Arc<Self>, line: usize, most: usize) -> Vec<Slot> {
        loop {
            let (taken, changed) = self.shared().take(line, most);
            if taken > 0 {
                return (0..taken).map(|_| Slot { slots: Arc::clone(self), line }).collect();
            }
            changed.notified().await;
            // Handlers that can end now do so first: their slots are filled by the same claim.
            yield_now().await;
        }
    }

    /// Records that this many tasks were claimed.
    pub fn served(&self, line: usize, tasks: usize) {
        let mut shared = self.shared();
        let line = &mut shared.lines[line];
        line.served += tasks as f64 / line.weight;
        shared.tell();
    }

    /// Records that this queue has no due tasks for now.
    pub fn idle(&self, line: usize) {
        let mut shared = self.shared();
        shared.lines[line].hungry = false;
        shared.tell();
    }

    /// True if a claim would find a slot at once.
    pub fn any_free(&self) -> bool {
        self.shared().free > 0
    }
}

impl Shared {
    fn take(&mut self, line: usize, most: usize) -> (usize, Arc<Notify>) {
        if !self.lines[line].hungry {
            // A queue that was idle has not saved up turns.
            let others = self.lines.iter().filter(|other| other.hungry).map(|other| other.served);
            let least = others.reduce(f64::min).unwrap_or(0.0);
            let line = &mut self.lines[line];
            line.hungry = true;
            line.served = line.served.max(least);
        }
        let mut taken = 0;
        while taken < most && self.free > 0 && self.is_turn_of(line) {
            self.free -= 1;
            self.lines[line].at_work += 1;
            taken += 1;
        }
        self.tell();
        (taken, Arc::clone(&self.lines[line].changed))
    }

    fn is_turn_of(&self, line: usize) -> bool {
        let mine = self.lines[line].turn();
        self.lines.iter().all(|other| !other.hungry || mine <= other.turn())
    }

    /// Wakes the queues that may take a slot now. Another queue's change may have made it their turn.
    fn tell(&self) {
        if self.free > 0 {
            let turns =
                (0..self.lines.len()).filter(|line| self.lines[*line].hungry && self.is_turn_of(*line));
            turns.for_each(|line| self.lines[line].changed.notify_one());
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut shared = self.slots.shared();
        shared.free += 1;
        shared.lines[self.line].at_work -= 1;
        shared.tell();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes free slots without waiting.
    fn try_take(slots: &Arc<Slots>, line: usize, most: usize) -> Vec<Slot> {
        let taken = slots.shared().take(line, most).0;
        (0..taken).map(|_| Slot { slots: Arc::clone(slots), line }).collect()
    }

    #[test]
    fn slots_are_shared_by_weight_while_all_have_work() {
        let slots = Slots::new(8, [3, 1]);
        // Both queues compete before any slot is taken.
        drop((try_take(&slots, 0, 0), try_take(&slots, 1, 0)));
        let (mut a, mut b) = (Vec::new(), Vec::new());
        while slots.any_free() {
            a.extend(try_take(&slots, 0, 8));
            b.extend(try_take(&slots, 1, 8));
        }
        assert_eq!((a.len(), b.len()), (6, 2));
        // The slot that b frees goes to b again.
        b.pop();
        assert_eq!((try_take(&slots, 0, 8).len(), try_take(&slots, 1, 8).len()), (0, 1));
    }

    #[test]
    fn all_slots_go_to_one_if_the_others_have_nothing() {
        let slots = Slots::new(8, [1, 5]);
        drop(try_take(&slots, 1, 1));
        slots.idle(1);
        let mut a = try_take(&slots, 0, 8);
        assert_eq!(a.len(), 8);
        // Queue 1 has tasks again: it gets the next free slots.
        assert_eq!(try_take(&slots, 1, 8).len(), 0);
        a.truncate(6);
        assert_eq!((try_take(&slots, 0, 8).len(), try_take(&slots, 1, 8).len()), (0, 2));
    }

    #[test]
    fn one_slot_goes_round_by_weight() {
        let slots = Slots::new(1, [3, 1]);
        drop((try_take(&slots, 0, 0), try_take(&slots, 1, 0)));
        let mut turns = [0, 0];
        for _ in 0..400 {
            let line = (0..2).find(|line| !try_take(&slots, *line, 1).is_empty()).unwrap();
            slots.served(line, 1);
            turns[line] += 1;
        }
        assert_eq!(turns, [300, 100]);
    }

    #[tokio::test]
    async fn a_buyer_is_notified_of_the_turn() {
        let slots = Slots::new(2, [1, 1]);
        drop((try_take(&slots, 0, 0), try_take(&slots, 1, 0)));
        slots.served(1, 1);
        let first = slots.take(0, 1).await;
        let second = slots.take(1, 1).await;
        drop((first, second));
        // It is the turn of queue 0, whose claim is under way; queue 1 waits.
        let waiting = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.take(1, 1).await.len() }
        });
        yield_now().await;
        slots.served(0, 2);
        assert_eq!(waiting.await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_waiter_is_notified() {
        let slots = Slots::new(1, [1, 1]);
        let taken = slots.take(0, 1).await;
        let waiting = tokio::spawn({
            let slots = Arc::clone(&slots);
            async move { slots.take(1, 1).await.len() }
        });
        yield_now().await;
        drop(taken);
        slots.idle(0);
        assert_eq!(waiting.await.unwrap(), 1);
    }
}
