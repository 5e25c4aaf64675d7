use std::iter::Sum;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a worker did from its start to its end.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct WorkerReport {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Default)]
        pub(super) struct Counters { $(pub $name: AtomicU64),* }

        impl Counters {
            pub fn report(&self) -> WorkerReport {
                WorkerReport { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }

        impl Sum for WorkerReport {
            fn sum<I: Iterator<Item = Self>>(reports: I) -> Self {
                reports.fold(Self::default(), |sum, one| Self { $($name: sum.$name + one.$name),* })
            }
        }
    };
}

counters! {
    /// Tasks claimed.
    claimed,
    /// Tasks done, including those replaced or canceled while they ran.
    done,
    /// Tasks that their handler discarded.
    discarded,
    /// Attempts that failed and are to be repeated.
    retried,
    /// Tasks that became dead letters.
    dead,
    /// Tasks given back without an attempt counted, at the end or by the handler.
    given_back,
    /// Tasks that were canceled while they ran; counted as done too.
    cancelled,
    /// Tasks lost to the end of their lease: another worker has or had them.
    lost,
    /// Handlers that panicked; counted as failed attempts too.
    panicked,
    /// Handlers that took longer than the timeout, or than their task's deadline; counted as failed attempts too.
    timed_out,
    /// Tasks of a kind for which the worker has no handler; counted as failed attempts too.
    unknown,
    /// Answers that the store did not take before the worker had to end. Their tasks come again.
    unanswered,
    /// Calls that failed because the store could not be reached or had no room, and were repeated.
    outages,
}

pub(super) fn count(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}
