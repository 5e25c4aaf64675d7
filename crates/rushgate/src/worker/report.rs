use std::sync::atomic::{AtomicU64, Ordering};

/// What a worker did from its start to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerReport {
    /// Tasks claimed.
    pub claimed: u64,
    /// Tasks done, those included that were put in again or cancelled meanwhile.
    pub done: u64,
    /// Attempts that failed and are to be repeated.
    pub retried: u64,
    /// Tasks that became dead letters.
    pub dead: u64,
    /// Tasks given back without an attempt counted, at the end or by the handler.
    pub given_back: u64,
    /// Tasks that somebody cancelled during the work; counted as done too.
    pub cancelled: u64,
    /// Tasks lost to the end of their lease: another worker has or had them.
    pub lost: u64,
    /// Handlers that panicked; counted as failed attempts too.
    pub panicked: u64,
    /// Handlers that took longer than the timeout; counted as failed attempts too.
    pub timed_out: u64,
    /// Answers that the store did not take before the worker had to end. Their tasks come again.
    pub unanswered: u64,
    /// Calls that failed because the store could not be reached or had no room, and were repeated.
    pub outages: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        #[derive(Default)]
        pub(super) struct Counters { $(pub $name: AtomicU64),* }

        impl Counters {
            pub fn report(&self) -> WorkerReport {
                WorkerReport { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }
    };
}

counters!(
    claimed, done, retried, dead, given_back, cancelled, lost, panicked, timed_out, unanswered, outages
);

pub(super) fn count(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}
