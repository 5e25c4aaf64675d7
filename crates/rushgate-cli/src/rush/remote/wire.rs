//! What the command and the processes of its crowd tell each other: lines of JSON, through pipes.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::rush::tally::{Told, histogram};

/// What a process is to do, as the first line of its stdin. The second line lets it begin, and the end of its stdin
/// makes it stop: no process of buyers outlives its parent.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) base: String,
    pub(super) token: Option<String>,
    pub(super) sale: String,
    pub(super) generation: u32,
    /// Of the whole crowd.
    pub(super) buyers: u64,
    pub(super) seed: u64,
    /// This process has every buyer whose number leaves `share` when it is divided by `shares`.
    pub(super) share: u64,
    pub(super) shares: u64,
    /// Of this process.
    pub(super) connections: usize,
    /// Within which the whole crowd comes.
    pub(super) within_us: u64,
    /// Maximum number of buyers of this process who retry later.
    pub(super) patient_max: usize,
}

/// What a process tells, a line at a time.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// It waits to begin.
    Ready,
    /// Answers so far, in the order of [`Told::ALL`].
    Progress([u64; Told::ALL.len()]),
    /// It is done.
    Done(Box<Share>),
    /// It cannot go on.
    Failed(String),
}

/// Result of one process's share of the buyers.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Share {
    pub(super) answers: [u64; Told::ALL.len()],
    /// From the moment at which each buyer was to click, in nanoseconds.
    pub(super) latency: Sparse,
    /// From the moment at which the request was sent, likewise.
    pub(super) served: Sparse,
    /// The first wave: everybody but those who came back later.
    pub(super) wave_us: u64,
    pub(super) wave_attempts: u64,
    /// Requests that were sent again because the server, its store or the sale was away.
    pub(super) asked_again: u64,
    pub(super) promises: Promises,
    pub(super) first_error: Option<String>,
    pub(super) memory_peak_bytes: u64,
}

/// What buyers were told, and how it stands in the server's books.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Promises {
    pub(super) told: u64,
    pub(super) missing: u64,
    pub(super) paid: u64,
    pub(super) unsold: u64,
    pub(super) cancelled: u64,
    pub(super) late: u64,
    /// Came back by their receipts.
    pub(super) restored: u64,
    /// Were told that it is gone, receipt or not.
    pub(super) lost: u64,
}

impl Promises {
    pub(super) fn add(&mut self, other: &Self) {
        self.told += other.told;
        self.missing += other.missing;
        self.paid += other.paid;
        self.unsold += other.unsold;
        self.cancelled += other.cancelled;
        self.late += other.late;
        self.restored += other.restored;
        self.lost += other.lost;
    }
}

/// A histogram as the values that it has, with how often it has each.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Sparse(Vec<(u64, u64)>);

impl From<&Histogram<u64>> for Sparse {
    fn from(of: &Histogram<u64>) -> Self {
        let each = of.iter_recorded();
        Self(each.map(|value| (value.value_iterated_to(), value.count_since_last_iteration())).collect())
    }
}

impl Sparse {
    pub(super) fn add_to(&self, sum: &mut Histogram<u64>) {
        for (value, count) in &self.0 {
            sum.saturating_record_n(*value, *count);
        }
    }

    pub(super) fn whole(shares: &[Share], of: impl Fn(&Share) -> &Self) -> Histogram<u64> {
        let mut sum = histogram();
        for share in shares {
            of(share).add_to(&mut sum);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_the_same_after_its_journey() {
        let mut sent = histogram();
        for value in [1, 250, 250, 40_000_000, 59_000_000_000] {
            sent.record(value).unwrap();
        }
        let text = serde_json::to_string(&Sparse::from(&sent)).unwrap();
        let mut come = histogram();
        serde_json::from_str::<Sparse>(&text).unwrap().add_to(&mut come);
        assert_eq!(come, sent);
    }
}
