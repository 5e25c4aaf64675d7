//! The recent past of each sale and queue for the pages: one sample per second, in memory.
//!
//! The figures are those of the store, so they are the same on every server. Attempts are those at all servers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rushgate::sale::SaleState;
use rushgate::wire::QueueReport;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::attempts::AttemptsView;
use crate::flow::narrowed;
use crate::problem::{Code, Problem};
use crate::scope::Kind;
use crate::snapshot::{SNAPSHOT_MAX, Snapshot};

/// Most samples of a sale or queue: four hours if each second differs from the one before.
const SAMPLES_MAX: usize = 4 * 60 * 60;
/// Most samples of all sales and queues together, about 110 MB. Many that change all the time keep less than four hours.
const SAMPLES_OF_ALL_MAX: usize = 128 * SAMPLES_MAX;
/// Samples that are closer than this are merged.
const SAMPLE_MIN_MS: u64 = 500;
/// Longest history in seconds, and most points.
const WINDOW_MAX: u32 = 14_400;
/// Sales and queues with a history: all that a snapshot can have, and as many that are gone. Of more, the one that has
/// been gone for longest is dropped.
const SERIES_MAX: usize = 4 * SNAPSHOT_MAX as usize;

/// Figures of a sale, in the order of a sample.
const SALE: [&str; GAUGES] = ["free", "held", "confirmed", "withdrawn", "waiting", "lag_ms", "behind"];
/// Figures of a queue, in the order of a sample.
const QUEUE: [&str; GAUGES] = ["ready", "scheduled", "leased", "blocked", "dead", "lag_ms", "done"];
const GAUGES: usize = 7;

/// The samples of all sales and queues.
#[derive(Default)]
pub(crate) struct History(Mutex<HashMap<(Kind, String), Series>>);

/// The samples of a sale or a queue, oldest first.
#[derive(Default)]
struct Series {
    samples: VecDeque<Sample>,
    /// Attempts so far by answer, to find how many came since the previous sample.
    counted: Option<BTreeMap<&'static str, u64>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Sample {
    at_ms: u64,
    gauges: [u32; GAUGES],
    /// What happened since the previous sample.
    counts: Box<[(&'static str, u32)]>,
}

impl Sample {
    fn is_like(&self, other: &Self) -> bool {
        self.gauges == other.gauges && self.counts == other.counts
    }
}

impl Series {
    /// Adds a sample, and drops the oldest ones above `most`. A stretch without changes keeps only its first and its
    /// last sample.
    fn add(&mut self, mut sample: Sample, most: usize) {
        // A snapshot for a new watcher comes early. Rates over so short a time would be noise.
        if let Some(before) = self.samples.pop_back_if(|before| sample.at_ms < before.at_ms + SAMPLE_MIN_MS) {
            sample.counts = sum(&before.counts, &sample.counts);
        }
        let len = self.samples.len();
        let is_flat = len >= 2 && self.samples.range(len - 2..).all(|before| before.is_like(&sample));
        if is_flat && sample.counts.is_empty() {
            self.samples.pop_back();
        }
        self.samples.push_back(sample);
        let above = self.samples.len().saturating_sub(most);
        self.samples.drain(..above);
    }

    /// The attempts since the previous sample. Those before the first sample count for none, and those at a store that
    /// was emptied count from zero.
    fn grown(&mut self, answers: &BTreeMap<&'static str, u64>) -> Box<[(&'static str, u32)]> {
        let Some(before) = self.counted.replace(answers.clone()) else { return Box::default() };
        let since = answers.iter().map(|(answer, n)| {
            let grown = n.checked_sub(before.get(answer).copied().unwrap_or_default()).unwrap_or(*n);
            (*answer, narrowed(grown))
        });
        since.filter(|(_, n)| *n > 0).collect()
    }
}

/// What happened in two stretches of time.
fn sum(one: &[(&'static str, u32)], two: &[(&'static str, u32)]) -> Box<[(&'static str, u32)]> {
    let mut all = BTreeMap::new();
    for (name, n) in one.iter().chain(two) {
        let sum: &mut u32 = all.entry(*name).or_default();
        *sum = sum.saturating_add(*n);
    }
    all.into_iter().collect()
}

/// Which part of a history to get.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    /// How far back, in seconds: 1 to 14,400. Default: 900.
    #[serde(default = "window_s")]
    #[schemars(range(min = 1, max = 14_400))]
    pub window_s: u32,
    /// Maximum number of points: 2 to 14,400. Default: 900. Neighboring samples are merged until they fit.
    #[serde(default = "points")]
    #[schemars(range(min = 2, max = 14_400))]
    pub points: u32,
}

impl HistoryQuery {
    /// The query, if it is within its limits.
    pub fn checked(&self) -> Result<&Self, Problem> {
        let within = |name, value: u32, min| match (min..=WINDOW_MAX).contains(&value) {
            true => Ok(()),
            false => Err(Problem::new(
                Code::Invalid,
                format_args!("{name} must be {min} to {WINDOW_MAX}, not {value}"),
            )
            .field(name)),
        };
        within("window_s", self.window_s, 1)?;
        within("points", self.points, 2)?;
        Ok(self)
    }
}

fn window_s() -> u32 {
    900
}

fn points() -> u32 {
    900
}

/// The recent past as columns, one value per point.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct HistoryView {
    /// Time of each point by the server's clock, in milliseconds since the Unix epoch, oldest first. In a stretch
    /// without changes only the first and the last point are kept.
    at_ms: Vec<u64>,
    /// Figures at that time: of a sale `free`, `held`, `confirmed`, `withdrawn`, `waiting` (in the waiting room),
    /// `lag_ms` and `behind` (of the ledger); of a queue `ready`, `scheduled`, `leased`, `blocked`, `dead`, `lag_ms`
    /// and `done` (retained).
    gauges: BTreeMap<&'static str, Vec<u32>>,
    /// What happened since the previous point: attempts at a sale, by answer, or
    /// events of a queue that keeps events, by name.
    counts: BTreeMap<&'static str, Vec<u32>>,
}

impl History {
    /// Records the figures of a snapshot.
    pub fn record(&self, snapshot: &Snapshot) {
        let at_ms = snapshot.counted_us / 1_000;
        let mut all = self.lock();
        let most = (SAMPLES_OF_ALL_MAX / all.len().max(1)).min(SAMPLES_MAX);
        for sale in &snapshot.sales {
            let id = sale.spec.id.as_str();
            let room = snapshot.rooms.iter().find(|room| room.sale == sale.spec.id);
            let waiting = room.map_or(0, |room| room.joined.saturating_sub(room.served));
            let series = series_of(&mut all, Kind::Sale, id);
            let attempts = snapshot.attempts.iter().find(|of| of.sale == id).map(AttemptsView::answers);
            let counts = series.grown(attempts.unwrap_or(&BTreeMap::new()));
            series.add(Sample { at_ms, gauges: gauges_of(sale, waiting), counts }, most);
        }
        for QueueReport { queue, stats } in &snapshot.queues {
            let gauges = [
                stats.ready, stats.scheduled, stats.leased, stats.blocked, stats.dead, stats.lag_ms,
                stats.done,
            ];
            let flow = snapshot.flows.iter().find(|flow| flow.queue == *queue);
            let counts = flow.map(|flow| flow.events.iter().map(|(name, n)| (*name, *n)).collect());
            let sample = Sample { at_ms, gauges: gauges.map(narrowed), counts: counts.unwrap_or_default() };
            series_of(&mut all, Kind::Queue, queue.as_str()).add(sample, most);
        }
        drop_gone(&mut all);
    }

    /// The recent past of a sale or a queue; empty if there is none.
    pub fn of(&self, kind: Kind, name: &str, query: &HistoryQuery) -> HistoryView {
        let names = if kind == Kind::Sale { SALE } else { QUEUE };
        let gauges = names.into_iter().map(|name| (name, Vec::new())).collect();
        let mut view = HistoryView { gauges, ..HistoryView::default() };
        let all = self.lock();
        let Some(series) = all.get(&(kind, name.to_owned())) else { return view };
        let latest = series.samples.back().map_or(0, |sample| sample.at_ms);
        let window_ms = u64::from(query.window_s) * 1_000;
        let since = latest.saturating_sub(window_ms);
        let bucket_ms = window_ms.div_ceil(u64::from(query.points)).max(1);
        let mut bucket = None;
        // One sample before the window shows what it begins with.
        let begin = series.samples.partition_point(|sample| sample.at_ms < since).saturating_sub(1);
        for sample in series.samples.range(begin..) {
            let this = sample.at_ms.checked_sub(since).map(|after| after / bucket_ms);
            if bucket.replace(this) != Some(this) {
                view.at_ms.push(sample.at_ms);
                for name in names {
                    view.gauges.entry(name).or_default().push(0);
                }
            }
            let len = view.at_ms.len();
            view.at_ms[len - 1] = sample.at_ms;
            for (name, value) in names.into_iter().zip(sample.gauges) {
                view.gauges.entry(name).or_default()[len - 1] = value;
            }
            for (name, n) in &sample.counts {
                let column = view.counts.entry(name).or_default();
                column.resize(len, 0);
                column[len - 1] = column[len - 1].saturating_add(*n);
            }
        }
        let len = view.at_ms.len();
        view.counts.values_mut().for_each(|column| column.resize(len, 0));
        view
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Kind, String), Series>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn series_of<'a>(all: &'a mut HashMap<(Kind, String), Series>, kind: Kind, name: &str) -> &'a mut Series {
    all.entry((kind, name.to_owned())).or_default()
}

/// Drops the series above the limit whose latest sample is oldest. Those of the current snapshot have the newest ones.
fn drop_gone(all: &mut HashMap<(Kind, String), Series>) {
    let latest = |series: &Series| series.samples.back().map_or(0, |sample| sample.at_ms);
    while all.len() > SERIES_MAX {
        let gone = all.iter().min_by_key(|(_, series)| latest(series)).map(|(key, _)| key.clone());
        gone.map(|gone| all.remove(&gone));
    }
}

fn gauges_of(sale: &SaleState, waiting: u64) -> [u32; GAUGES] {
    let sum = |place: fn(&rushgate::sale::SkuState) -> u32| {
        sale.skus.iter().map(|sku| u64::from(place(sku))).sum::<u64>()
    };
    let orders = sale.orders.as_ref();
    let lag =
        orders.and_then(|orders| orders.behind_since).map_or(0, |since| sale.now.since(since).as_millis());
    let behind = orders.map_or(0, |orders| sale.seq.saturating_sub(orders.through));
    [
        sum(|sku| sku.free),
        sum(|sku| sku.held),
        sum(|sku| sku.confirmed),
        sum(|sku| sku.withdrawn),
        waiting,
        u64::try_from(lag).unwrap_or(u64::MAX),
        behind,
    ]
    .map(narrowed)
}

#[cfg(test)]
mod tests {
    use rushgate::queue::{QueueName, QueueStats};

    use super::*;

    fn sample(at_s: u64, free: u32, sold_out: u32) -> Sample {
        let counts: &[_] = if sold_out > 0 { &[("sold_out", sold_out)] } else { &[] };
        Sample { at_ms: at_s * 1_000, gauges: [free, 0, 0, 0, 0, 0, 0], counts: counts.into() }
    }

    fn history(samples: impl IntoIterator<Item = Sample>) -> History {
        let history = History::default();
        let mut all = history.lock();
        samples.into_iter().for_each(|sample| series_of(&mut all, Kind::Sale, "s").add(sample, SAMPLES_MAX));
        drop(all);
        history
    }

    #[test]
    fn a_stretch_without_changes_keeps_its_ends() {
        let flat = (0..10_000).map(|s| sample(s, 5, 0));
        let history = history(flat.chain([sample(10_000, 4, 2), sample(10_001, 4, 0)]));
        let view = history.of(Kind::Sale, "s", &HistoryQuery { window_s: 14_400, points: 14_400 });
        assert_eq!(view.at_ms, [0, 9_999_000, 10_000_000, 10_001_000]);
        assert_eq!(view.gauges["free"], [5, 5, 4, 4]);
        assert_eq!(view.counts["sold_out"], [0, 0, 2, 0]);
    }

    #[test]
    fn a_sample_that_comes_early_is_merged_with_the_one_before() {
        let early = Sample { at_ms: 2_100, ..sample(2, 7, 4) };
        let history = history([sample(1, 9, 1), sample(2, 8, 3), early, sample(3, 7, 0)]);
        let view = history.of(Kind::Sale, "s", &HistoryQuery { window_s: 10, points: 100 });
        assert_eq!((view.at_ms, &view.gauges["free"][..]), (vec![1_000, 2_100, 3_000], &[9, 7, 7][..]));
        assert_eq!(view.counts["sold_out"], [1, 7, 0]);
    }

    #[test]
    fn merged_samples_keep_the_sum_of_what_happened() {
        let history = history((0..1_000).map(|s| sample(s, 1_000 - u32::try_from(s).unwrap(), 3)));
        let view = history.of(Kind::Sale, "s", &HistoryQuery { window_s: 999, points: 10 });
        assert!((10..=12).contains(&view.at_ms.len()), "{}", view.at_ms.len());
        assert_eq!(view.counts["sold_out"].iter().sum::<u32>(), 3_000);
        assert_eq!(view.gauges["free"].last(), Some(&1));
        let recent = history.of(Kind::Sale, "s", &HistoryQuery { window_s: 10, points: 100 });
        assert_eq!(recent.at_ms.first(), Some(&988_000), "one before the window");
    }

    #[test]
    fn the_oldest_sample_is_dropped_first() {
        let history = history((0..20_000).map(|s| sample(s, u32::try_from(s).unwrap(), 1)));
        let view = history.of(Kind::Sale, "s", &HistoryQuery { window_s: 14_400, points: 14_400 });
        assert_eq!((view.at_ms.len(), view.at_ms[0]), (SAMPLES_MAX, 5_600_000));
    }

    /// A snapshot with queues of these numbers, a second after the one before.
    fn queues(at_s: u64, numbers: std::ops::Range<u64>) -> Snapshot {
        let report = |n| QueueReport {
            queue: QueueName::new(format!("q-{n}")).unwrap(),
            stats: QueueStats { ready: n, ..QueueStats::default() },
        };
        Snapshot {
            counted_us: at_s * 1_000_000,
            queues: numbers.map(report).collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn every_queue_of_a_snapshot_keeps_its_history_and_of_those_that_are_gone_the_latest_do() {
        let (history, max) = (History::default(), u64::from(SNAPSHOT_MAX));
        let len = |n: u64| {
            let query = HistoryQuery { window_s: 14_400, points: 14_400 };
            history.of(Kind::Queue, &format!("q-{n}"), &query).at_ms.len()
        };
        for at_s in 1..=3 {
            history.record(&queues(at_s, 0..max));
        }
        assert!((0..max).all(|n| len(n) == 2), "an unchanged stretch has two samples");
        // Further snapshots have other queues, until the first ones are too many.
        for n in 1..5 {
            history.record(&queues(3 + n, n * max..(n + 1) * max));
        }
        assert_eq!((len(0), len(max), len(4 * max)), (0, 1, 1));
        assert_eq!(history.lock().len(), SERIES_MAX);
    }

    #[test]
    fn attempts_are_counted_from_the_previous_sample_and_from_zero_at_an_emptied_store() {
        let mut series = Series::default();
        let grown = |series: &mut Series, n| series.grown(&[("sold_out", n)].into()).to_vec();
        assert_eq!(grown(&mut series, 5), [], "they were before");
        assert_eq!(grown(&mut series, 5), []);
        assert_eq!(grown(&mut series, 9), [("sold_out", 4)]);
        assert_eq!(grown(&mut series, 3), [("sold_out", 3)]);
    }
}
