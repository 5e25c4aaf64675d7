//! Fences: how what a lock protects refuses a holder that slept through its lease.
//!
//! A lock cannot stop a process that was paused, lost its lease, and wakes in the middle of a write. The thing it
//! writes to can. Every grant carries a [`Fence`], a number that only grows for that lock; keep the
//! highest one seen beside the data, and let a smaller one change nothing. In SQL that is one condition more:
//!
//! ```sql
//! -- accounts(id, balance, fence): true of the first write under a fence and of all later ones under the same
//! UPDATE accounts SET balance = :balance, fence = :fence WHERE id = :id AND fence <= :fence;
//! -- no row changed: the lock was lost, stop
//! ```
//!
//! Use `fence < :fence` where one grant writes once: then a repeated write is refused as well. In Redis the same
//! compare belongs in the script that writes. A worker's [`Job::fence`](crate::Job::fence) is used alike.
//!
//! ```
//! use rushgate::{Fence, fence::Highest};
//!
//! let seen = Highest::default();
//! assert!(seen.admit(Fence::from_u64(33)));
//! assert!(seen.admit(Fence::from_u64(34)));
//! assert!(!seen.admit(Fence::from_u64(33)), "the holder before has woken up: refuse its write");
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use rushgate_core::Fence;

/// The highest fence that was admitted to something in this process's memory.
#[derive(Debug, Default)]
pub struct Highest(AtomicU64);

impl Highest {
    /// True if no higher fence was admitted before.
    pub fn admit(&self, fence: Fence) -> bool {
        self.0.fetch_max(fence.as_u64(), Ordering::AcqRel) <= fence.as_u64()
    }

    /// The highest so far; zero before the first.
    pub fn get(&self) -> Fence {
        Fence::from_u64(self.0.load(Ordering::Acquire))
    }
}
