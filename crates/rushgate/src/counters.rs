//! Counters of a background service, and the report of their totals.

use std::sync::atomic::{AtomicU64, Ordering};

/// Makes a public report and the counters that threads share, with the same names.
macro_rules! counters {
    ($(#[$of:meta])* $Report:ident, $Counters:ident { $($(#[$doc:meta])* $name:ident,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $Report {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Default)]
        pub(crate) struct $Counters { $(pub $name: std::sync::atomic::AtomicU64),* }

        impl $Counters {
            pub fn report(&self) -> $Report {
                $Report { $($name: self.$name.load(std::sync::atomic::Ordering::Relaxed)),* }
            }
        }

        impl std::iter::Sum for $Report {
            fn sum<I: Iterator<Item = Self>>(reports: I) -> Self {
                reports.fold(Self::default(), |sum, one| Self { $($name: sum.$name + one.$name),* })
            }
        }
    };
}
pub(crate) use counters;

pub(crate) fn count(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}
