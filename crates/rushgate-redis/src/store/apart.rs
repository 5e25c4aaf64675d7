//! Releases with a task whose lock and queue are on different servers of a Cluster.

use std::collections::{HashMap, VecDeque};

use rushgate_core::{Enqueued, Fence, Op};

/// The enqueues of the latest releases with a task in a Cluster, so that a retry does not repeat them.
#[derive(Default)]
pub(super) struct Apart {
    by_op: HashMap<Op, Released>,
    order: VecDeque<Op>,
}

/// The enqueue of a release with a task.
#[derive(Clone)]
pub(super) struct Released {
    pub(super) enqueued: Enqueued,
    /// The grant that it released, if it still existed. A token may be granted the lock again.
    pub(super) fence: Option<Fence>,
}

impl Apart {
    const MAX: usize = 1_024;

    pub(super) fn get(&self, op: Op) -> Option<Released> {
        self.by_op.get(&op).cloned()
    }

    pub(super) fn keep(&mut self, op: Op, released: Released) {
        if self.by_op.insert(op, released).is_none() {
            self.order.push_back(op);
        }
        if self.order.len() > Self::MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_op.remove(&oldest);
        }
    }
}
