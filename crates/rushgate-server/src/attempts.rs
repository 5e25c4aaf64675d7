//! Attempts to reserve: those that this process has answered, per sale and answer, with their latency; and the sums over
//! all servers, which the store adds up.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use rushgate::sale::{AdmissionStats, SaleId};
use rushgate::{Result, Rushgate};
use schemars::JsonSchema;
use serde::Serialize;

use crate::problem::Code;

/// Maximum number of counted sales. Beyond it, the sale with the oldest attempt starts over.
const SALES_MAX: usize = 1_000;
/// Name under which the attempts that reached the store are counted, beside the answers.
const AT_STORE: &str = "at_store";
/// Maximum number of answers that a server counts per sale.
const ANSWERS_MAX: usize = 31;
/// Longer latencies count as this one, in microseconds: 134 s.
const LATENCY_MAX_US: u64 = (1 << 27) - 1;
/// Number of latest snapshots that quantiles cover. There is one per second.
const LOOKS: usize = 10;

/// Attempts per sale, counted since this process started.
#[derive(Clone, Default)]
pub(crate) struct Attempts(Arc<Mutex<Sales>>);

#[derive(Default)]
struct Sales {
    of: HashMap<String, Figures>,
    /// Grows with each attempt, to find the sale with the oldest one.
    clock: u64,
}

/// Attempts at one sale.
#[derive(Clone, Default)]
pub(crate) struct Figures {
    answers: BTreeMap<&'static str, u64>,
    took: Spread,
    last: u64,
}

impl Attempts {
    /// Counts one attempt by its answer: `reserved`, `replayed`, or the code of the refusal. The first
    /// attempt of a sale counts only if the answer proves that the sale exists, because names come from
    /// clients.
    pub fn answered(&self, sale: &str, answer: &'static str, is_sale: bool, took: Duration) {
        let mut sales = self.lock();
        sales.clock += 1;
        let clock = sales.clock;
        if !sales.of.contains_key(sale) {
            if !is_sale {
                return;
            }
            sales.make_room();
            sales.of.insert(sale.to_owned(), Figures::default());
        }
        let Some(figures) = sales.of.get_mut(sale) else { return };
        *figures.answers.entry(answer).or_default() += 1;
        figures.took.add(took);
        figures.last = clock;
    }

    /// Attempts at a sale; `None` if there were none.
    pub fn of(&self, sale: &str) -> Option<Figures> {
        self.lock().of.get(sale).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Sales> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sales {
    fn make_room(&mut self) {
        if self.of.len() < SALES_MAX {
            return;
        }
        let oldest = self.of.iter().min_by_key(|(_, figures)| figures.last).map(|(sale, _)| sale.clone());
        oldest.map(|sale| self.of.remove(&sale));
    }
}

impl Figures {
    /// Number of attempts by answer.
    pub fn answers(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.answers.iter().map(|(answer, n)| (*answer, *n))
    }
}

/// Latency histogram in microseconds, in which a value is known to within a sixteenth.
#[derive(Clone)]
struct Spread(Histogram<u64>);

impl Default for Spread {
    fn default() -> Self {
        let histogram = Histogram::new_with_max(LATENCY_MAX_US, 1);
        Self(histogram.unwrap_or_else(|_| unreachable!("the bounds are constants")))
    }
}

impl Spread {
    fn add(&mut self, took: Duration) {
        self.0.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// The attempts since `before`. A sale that was dropped in between counts from zero.
    fn since(&self, before: &Self) -> Self {
        let mut grown = self.clone();
        match grown.0.subtract(&before.0) {
            Ok(()) => grown,
            Err(_) => self.clone(),
        }
    }

    /// A latency quantile in microseconds; `None` without attempts.
    fn quantile_us(&self, quantile: f64) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(quantile))
    }
}

/// Attempts over the latest snapshots.
#[derive(Default)]
pub(crate) struct Recently {
    looks: HashMap<String, VecDeque<Spread>>,
    has_looked: bool,
}

impl Recently {
    /// Takes a snapshot of these sales, each with its admission cache's counters. Omits sales without
    /// attempts.
    pub fn look(
        &mut self,
        attempts: &Attempts,
        sales: impl Iterator<Item = (SaleId, AdmissionStats)>,
    ) -> Vec<AttemptsView> {
        let mut seen = Vec::new();
        let mut before = std::mem::take(&mut self.looks);
        for (sale, cache) in sales {
            let Some(figures) = attempts.of(sale.as_str()) else { continue };
            // Before the first snapshot there is no base. A sale that is new since then had no attempts
            // before.
            let begin = self.has_looked.then(Spread::default);
            let mut looks = before.remove(sale.as_str()).unwrap_or_else(|| begin.into_iter().collect());
            let latest = looks.front().map(|begin| figures.took.since(begin)).unwrap_or_default();
            looks.push_back(figures.took);
            if looks.len() > LOOKS {
                looks.pop_front();
            }
            self.looks.insert(sale.to_string(), looks);
            seen.push(AttemptsView {
                sale: sale.to_string(),
                answers: figures.answers,
                at_store: cache.at_store,
                p50_us: latest.quantile_us(0.5),
                p99_us: latest.quantile_us(0.99),
            });
        }
        self.has_looked = true;
        seen
    }
}

/// Reservation attempts at a sale that all servers of the store have answered.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct AttemptsView {
    /// The sale.
    pub sale: String,
    /// Attempts by answer: `reserved`, `replayed`, or the code of the refusal.
    answers: BTreeMap<&'static str, u64>,
    /// Attempts that reached the store. The others were answered from an admission cache.
    at_store: u64,
    /// Median latency at this server over the last ten seconds, in microseconds, rounded up to a sixteenth. Absent without
    /// attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_us: Option<u64>,
    /// 99th percentile, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_us: Option<u64>,
}

impl AttemptsView {
    /// Attempts so far by answer.
    pub fn answers(&self) -> &BTreeMap<&'static str, u64> {
        &self.answers
    }

    /// Has the store add up the attempts of all servers. `None` if there were none.
    pub async fn everywhere(self, client: &Rushgate, sale: &SaleId) -> Result<Option<Self>> {
        let own = self.answers.iter().map(|(answer, n)| ((*answer).to_owned(), *n)).take(ANSWERS_MAX);
        let counts = own.chain((self.at_store > 0).then(|| (AT_STORE.to_owned(), self.at_store))).collect();
        let mut sums = client.sale(sale)?.count_attempts(counts).await?;
        let at_store = sums.remove(AT_STORE).unwrap_or_default();
        // A newer server may know other answers.
        let known = |(answer, n): (String, u64)| Some((word_of(&answer)?, n));
        let answers: BTreeMap<_, _> = sums.into_iter().filter_map(known).collect();
        let view = Self { sale: sale.to_string(), answers, at_store, ..self };
        Ok((!view.answers.is_empty()).then_some(view))
    }
}

/// The answer of that name, if this server knows it.
fn word_of(answer: &str) -> Option<&'static str> {
    let refusals = Code::ALL.iter().map(|code| code.word());
    ["reserved", "replayed"].into_iter().chain(refusals).find(|word| *word == answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_what_came_since() {
        let mut spread = Spread::default();
        assert_eq!(spread.quantile_us(0.5), None);
        spread.add(Duration::from_secs(1));
        let before = spread.clone();
        for us in [100; 98].into_iter().chain([5_000; 2]) {
            spread.add(Duration::from_micros(us));
        }
        let latest = spread.since(&before);
        assert_eq!(latest.quantile_us(0.5), Some(103));
        assert_eq!(latest.quantile_us(0.98), Some(103));
        assert_eq!(latest.quantile_us(0.99), Some(5_119));
        assert_eq!(before.since(&spread).quantile_us(0.5), Some(1_015_807), "it started over");
    }

    #[test]
    fn the_flow_shows_the_latest_seconds_only() {
        let (attempts, mut recently) = (Attempts::default(), Recently::default());
        let look = |recently: &mut Recently| {
            let sale = (SaleId::new("s").unwrap(), AdmissionStats::default());
            let seen = recently.look(&attempts, [sale].into_iter());
            seen.first().map(|view| (view.answers["sold_out"], view.p50_us, view.p99_us))
        };
        assert_eq!(Recently::default().look(&attempts, std::iter::empty()).len(), 0);
        attempts.answered("s", "sold_out", true, Duration::from_secs(1));
        assert_eq!(look(&mut recently), Some((1, None, None)), "that was before");
        attempts.answered("s", "sold_out", true, Duration::from_micros(100));
        for _ in 0..LOOKS {
            assert_eq!(look(&mut recently), Some((2, Some(103), Some(103))));
        }
        assert_eq!(look(&mut recently), Some((2, None, None)));
    }

    #[test]
    fn names_of_no_sale_are_not_kept_and_of_too_many_the_oldest_goes() {
        let attempts = Attempts::default();
        let took = Duration::from_micros(10);
        attempts.answered("none", "not_found", false, took);
        assert!(attempts.of("none").is_none());
        for n in 0..SALES_MAX {
            attempts.answered(&format!("sale-{n}"), "sold_out", true, took);
        }
        attempts.answered("sale-0", "too_many", false, took);
        attempts.answered("one more", "reserved", true, took);
        assert!(attempts.of("sale-1").is_none() && attempts.of("one more").is_some());
        let counted: Vec<_> = attempts.of("sale-0").unwrap().answers().collect();
        assert_eq!(counted, [("sold_out", 1), ("too_many", 1)]);
    }
}
