//! Protocol between the command and its child processes: lines of JSON over pipes.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::rush::tally::{Told, histogram};

/// Plan for a child process, sent as the first line of its stdin. The second line starts it, and the end of
/// stdin stops it, so that no child outlives its parent.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) base: String,
    pub(super) token: Option<String>,
    pub(super) sale: String,
    pub(super) generation: u32,
    /// Number of buyers in all processes.
    pub(super) buyers: u64,
    pub(super) seed: u64,
    /// This process simulates the buyers whose number modulo `shares` is `share`.
    pub(super) share: u64,
    pub(super) shares: u64,
    /// Number of connections of this process.
    pub(super) connections: usize,
    /// Period over which all buyers arrive.
    pub(super) within_us: u64,
    /// Maximum number of buyers of this process who retry later.
    pub(super) patient_max: usize,
}

/// Message from a child process, one per line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// Ready to start.
    Ready,
    /// Answers so far, in the order of [`Told::ALL`].
    Progress([u64; Told::ALL.len()]),
    /// Done.
    Done(Box<Share>),
    /// Failed.
    Failed(String),
}

/// Result of one process's share of the buyers.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Share {
    pub(super) answers: [u64; Told::ALL.len()],
    /// Latency from each buyer's scheduled click, in nanoseconds.
    pub(super) latency: Sparse,
    /// Latency from when the request was sent, in nanoseconds.
    pub(super) served: Sparse,
    /// The first wave: all buyers, without retries after "all on hold".
    pub(super) wave_us: u64,
    pub(super) wave_attempts: u64,
    /// Retries because the server, its store or the sale was unavailable.
    pub(super) asked_again: u64,
    pub(super) promises: Promises,
    pub(super) first_error: Option<String>,
    pub(super) memory_peak_bytes: u64,
}

/// The buyers' answers, compared with the server's data.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Promises {
    pub(super) told: u64,
    pub(super) missing: u64,
    pub(super) paid: u64,
    pub(super) unsold: u64,
    pub(super) cancelled: u64,
    pub(super) late: u64,
    /// Restored from receipts.
    pub(super) restored: u64,
    /// Lost, even with a receipt.
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

/// A histogram as pairs of value and count.
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
