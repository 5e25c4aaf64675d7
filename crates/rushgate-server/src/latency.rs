//! How long tasks wait and run, per queue, from the events of the queues.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use rushgate::queue::{QueueName, TaskChange, TaskEvent};
use schemars::JsonSchema;
use serde::Serialize;

/// Age at which a duration no longer counts.
const WINDOW: Duration = Duration::from_secs(60);
/// Durations per queue and kind.
const KEPT: usize = 1_000;

/// Quantiles of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct QuantilesView {
    /// Median in microseconds.
    p50_us: u64,
    /// 99th percentile in microseconds.
    p99_us: u64,
}

/// How long the latest tasks of a queue waited and ran: at most 1,000 tasks of the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct LatencyView {
    /// From the due time of a task to its claim. Absent if no task was claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<QuantilesView>,
    /// From the claim of a task to its completion. Absent if no task was completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<QuantilesView>,
}

/// The latest durations, oldest first, with the time at which they were read.
#[derive(Default)]
struct Latest(VecDeque<(Instant, u64)>);

impl Latest {
    fn add(&mut self, at: Instant, took_us: u64) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back((at, took_us));
    }

    fn quantiles(&mut self, now: Instant) -> Option<QuantilesView> {
        while self.0.pop_front_if(|(at, _)| now.duration_since(*at) > WINDOW).is_some() {}
        let mut all: Vec<_> = self.0.iter().map(|(_, took)| *took).collect();
        all.sort_unstable();
        let at = |percent: usize| all.get((all.len() * percent).div_ceil(100).saturating_sub(1)).copied();
        Some(QuantilesView { p50_us: at(50)?, p99_us: at(99)? })
    }
}

/// The latencies of all queues.
#[derive(Default)]
pub(crate) struct Latencies(HashMap<QueueName, (Latest, Latest)>);

impl Latencies {
    /// Adds the durations that these events tell, and returns the quantiles.
    pub fn look(&mut self, now: Instant, queue: &QueueName, events: &[TaskEvent]) -> LatencyView {
        let (waits, runs) = self.0.entry(queue.clone()).or_default();
        for TaskEvent { at, what, .. } in events {
            let micros = |since| u64::try_from(at.since(since).as_micros()).unwrap_or(u64::MAX);
            match what {
                TaskChange::Claimed { due, .. } => waits.add(now, micros(*due)),
                TaskChange::Done { began, .. } | TaskChange::Discarded { began, .. } => {
                    runs.add(now, micros(*began));
                }
                _ => {}
            }
        }
        LatencyView { wait: waits.quantiles(now), run: runs.quantiles(now) }
    }

    /// Forgets the queues that `is_wanted` does not name.
    pub fn keep(&mut self, is_wanted: impl Fn(&QueueName) -> bool) {
        self.0.retain(|queue, _| is_wanted(queue));
    }
}

#[cfg(test)]
mod tests {
    use rushgate::Timestamp;

    use super::*;

    fn event(at: u64, what: TaskChange) -> TaskEvent {
        let id = "a".parse().expect("the ID is valid");
        TaskEvent { seq: 1, at: Timestamp::from_micros(at), id, what }
    }

    fn done(took: u64) -> TaskEvent {
        event(1_000_000 + took, TaskChange::Done { attempt: 1, began: Timestamp::from_micros(1_000_000) })
    }

    #[test]
    fn quantiles_cover_the_latest_thousand_of_the_last_minute() {
        let (mut all, queue, start) = (Latencies::default(), QueueName::new("q").unwrap(), Instant::now());
        assert_eq!(all.look(start, &queue, &[]), LatencyView::default());
        let old: Vec<_> = (0..KEPT as u64).map(|_| done(900_000)).collect();
        all.look(start, &queue, &old);
        let events: Vec<_> = (1..=KEPT as u64).map(done).collect();
        let run = Some(QuantilesView { p50_us: 500, p99_us: 990 });
        assert_eq!(all.look(start, &queue, &events), LatencyView { wait: None, run });
        let due = Timestamp::from_micros(7);
        let claimed = event(12, TaskChange::Claimed { attempt: 1, worker: "w".into(), due });
        let wait = Some(QuantilesView { p50_us: 5, p99_us: 5 });
        assert_eq!(all.look(start + WINDOW, &queue, &[claimed]), LatencyView { wait, run });
        let later = start + WINDOW + Duration::from_secs(1);
        assert_eq!(all.look(later, &queue, &[]), LatencyView { wait, run: None });
        all.keep(|_| false);
        assert_eq!(all.look(later, &queue, &[]), LatencyView::default());
    }

    #[test]
    fn a_task_that_is_due_after_its_claim_has_not_waited() {
        let (mut all, queue) = (Latencies::default(), QueueName::new("q").unwrap());
        let due = Timestamp::from_micros(9);
        let claimed = event(5, TaskChange::Claimed { attempt: 1, worker: String::new(), due });
        let wait = Some(QuantilesView { p50_us: 0, p99_us: 0 });
        assert_eq!(all.look(Instant::now(), &queue, &[claimed]), LatencyView { wait, run: None });
    }
}
