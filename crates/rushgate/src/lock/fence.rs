//! Fencing tokens: how a protected resource rejects a holder that outlived its lease.
//!
//! A lock cannot stop a process that was paused, lost its lease and resumes in the middle of a write. The
//! resource that it writes to can. Every grant carries a [`Fence`], a number that only grows for that lock.
//! Store the highest fence seen beside the data, and reject writes with a lower one. In SQL this is one extra
//! condition:
//!
//! ```sql
//! -- accounts(id, balance, fence): true of the first write under a fence and of all later ones under the same
//! UPDATE accounts SET balance = :balance, fence = :fence WHERE id = :id AND fence <= :fence;
//! -- no row changed: the lock was lost, stop
//! ```
//!
//! Use `fence < :fence` if each grant writes once: a repeated write is then rejected too. In Redis, compare
//! in the script that writes. A worker's [`Job::fence`](crate::Job::fence) works the same way.
//!
//! ```
//! use rushgate::lock::Fence;
//! use rushgate::lock::fence::Highest;
//!
//! let seen = Highest::default();
//! assert!(seen.admit(Fence::from_u64(33)));
//! assert!(seen.admit(Fence::from_u64(34)));
//! assert!(!seen.admit(Fence::from_u64(33)), "the holder before has woken up: refuse its write");
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use rushgate_core::Fence;

/// Highest fence admitted so far, kept in this process's memory.
#[derive(Debug, Default)]
pub struct Highest(AtomicU64);

impl Highest {
    /// Records `fence`. True if no higher fence was admitted before.
    pub fn admit(&self, fence: Fence) -> bool {
        self.0.fetch_max(fence.as_u64(), Ordering::AcqRel) <= fence.as_u64()
    }

    /// Highest fence so far; zero before the first.
    pub fn get(&self) -> Fence {
        Fence::from_u64(self.0.load(Ordering::Acquire))
    }
}
