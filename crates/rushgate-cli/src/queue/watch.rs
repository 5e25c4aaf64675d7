//! `queue watch`: live view of queues.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use rushgate::queue::{Listing, QueueName, QueueStats, TaskProgress, TaskState};
use rushgate::store::Page;
use rushgate::wire::QueueReport;
use rushgate::{Rushgate, Timestamp};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use super::look::{lag, status};
use super::shown::{in_words, printable};
use crate::args::queue::WatchArgs;
use crate::exit::Exit;
use crate::output::{Output, Table, moment};
use crate::signals::Signals;

/// Number of leased tasks that are read to list the workers.
const LEASES: u32 = 1_000;
/// Switches to the terminal's alternate screen, and back.
const OPEN: &str = "\x1b[?1049h\x1b[?25l";
const CLOSE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H\x1b[J";

/// Snapshot of one queue.
#[derive(Serialize)]
struct Look {
    at_us: u64,
    #[serde(flatten)]
    report: QueueReport,
    /// Net change since the previous snapshot; absent in the first.
    ready_per_s: Option<f64>,
    scheduled_per_s: Option<f64>,
    leased_per_s: Option<f64>,
    dead_per_s: Option<f64>,
    /// Workers and their number of tasks, among the first 1,000 leased tasks.
    workers: BTreeMap<String, u64>,
    /// Progress reports, among the first 1,000 leased tasks.
    progress: Vec<Run>,
}

/// A running task.
#[derive(Serialize)]
struct Run {
    id: String,
    #[serde(flatten)]
    progress: TaskProgress,
}

/// Previous snapshot of each queue.
type Before = BTreeMap<QueueName, (Instant, QueueStats)>;

pub(super) async fn watch(client: &Rushgate, args: WatchArgs, output: Output) -> Result<Exit> {
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let screen = Screen::open(output, args.n.is_some())?;
    let (mut before, mut ticks) = (Before::new(), interval(args.every.max(Duration::from_millis(10))));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looks = 0;
    loop {
        tokio::select! {
            _ = signals.next() => return Ok(Exit::Done),
            _ = ticks.tick() => {}
        }
        match look_at_all(client, &args.queues, &mut before).await {
            Ok(looks) => screen.show(&looks)?,
            // Keep watching: the store may come back.
            Err(error) if error.is_unavailable() => output.warn(format_args!("{error}")),
            Err(error) => return Err(error.into()),
        }
        looks += 1;
        if args.n.is_some_and(|n| looks >= n) {
            return Ok(Exit::Done);
        }
    }
}

async fn look_at_all(
    client: &Rushgate,
    queues: &[String],
    before: &mut Before,
) -> rushgate::Result<Vec<Look>> {
    let names = match queues {
        [] => super::all_queues(client).await?,
        named => named.iter().map(QueueName::new).collect::<rushgate::Result<_>>()?,
    };
    let mut looks = Vec::with_capacity(names.len());
    for name in names {
        looks.push(look_at(client, name, before).await?);
    }
    Ok(looks)
}

async fn look_at(client: &Rushgate, name: QueueName, before: &mut Before) -> rushgate::Result<Look> {
    let queue = client.queue(&name)?;
    let stats = queue.stats().await?;
    let now = Instant::now();
    let (mut workers, mut progress) = (BTreeMap::new(), Vec::new());
    if stats.leased > 0 {
        let leased = Listing::new(TaskState::Leased, Page::first(LEASES));
        for info in leased.fill(|leased| queue.tasks(leased)).await?.tasks {
            *workers.entry(info.worker.unwrap_or_default()).or_default() += 1;
            let id = info.task.ticket.id;
            progress.extend(info.progress.map(|progress| Run { id: id.to_string(), progress }));
        }
    }
    let last = before.insert(name.clone(), (now, stats.clone()));
    let rate = |of: fn(&QueueStats) -> u64| {
        let (at, last) = last.as_ref()?;
        let change = of(&stats) as f64 - of(last) as f64;
        Some(change / now.duration_since(*at).as_secs_f64().max(1e-3))
    };
    Ok(Look {
        at_us: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64,
        ready_per_s: rate(|stats| stats.ready),
        scheduled_per_s: rate(|stats| stats.scheduled),
        leased_per_s: rate(|stats| stats.leased),
        dead_per_s: rate(|stats| stats.dead),
        report: QueueReport { queue: name, stats },
        workers,
        progress,
    })
}

/// Target of the snapshots.
struct Screen {
    output: Output,
    live: bool,
}

impl Screen {
    /// A given number of snapshots is printed line by line, because the alternate screen vanishes with the last one.
    fn open(output: Output, is_counted: bool) -> Result<Self> {
        let live = stdout().is_terminal() && !output.json && !is_counted;
        if live {
            output.text(OPEN)?;
        }
        Ok(Self { output, live })
    }

    fn show(&self, looks: &[Look]) -> Result<()> {
        if self.live {
            return self.output.text(format_args!("{HOME}{}", page(looks)));
        }
        looks.iter().try_for_each(|look| self.output.next_line(look, words(look)))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.live {
            let _ = self.output.text(CLOSE);
        }
    }
}

/// All queues as one page.
fn page(looks: &[Look]) -> String {
    let row = |look: &Look| {
        let QueueReport { queue, stats } = &look.report;
        [
            printable(queue.as_str(), 40),
            count(stats.ready, look.ready_per_s),
            count(stats.scheduled, look.scheduled_per_s),
            count(stats.leased, look.leased_per_s),
            stats.blocked.to_string(),
            count(stats.dead, look.dead_per_s),
            lag(stats),
            status(stats).to_owned(),
        ]
    };
    let head = ["QUEUE", "READY", "SCHEDULED", "LEASED", "BLOCKED", "DEAD", "LAG", "STATE"];
    let mut page = Table::new(head, looks.iter().map(row)).to_string();
    for look in looks.iter().filter(|look| !look.workers.is_empty()) {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "\nWorkers of {}", printable(look.report.queue.as_str(), 40));
        for (worker, tasks) in look.workers.iter().take(20) {
            let _ = writeln!(page, "  {tasks:>5}  {}", printable(worker, 60));
        }
        for run in look.progress.iter().take(20) {
            let _ = writeln!(page, "  {}: {}", printable(&run.id, 40), in_words(&run.progress));
        }
    }
    let _ =
        write!(page, "\nChanges are per second and net: arrivals minus departures. Press Ctrl-C to quit.");
    page
}

/// One queue as one line.
fn words(look: &Look) -> String {
    let QueueReport { queue, stats } = &look.report;
    let at = moment(Timestamp::from_micros(look.at_us));
    let paused = if stats.paused { ", paused" } else { "" };
    format!(
        "{at} {queue}: ready {}, scheduled {}, leased {}, blocked {}, dead {}, lag {}, workers {}{paused}",
        count(stats.ready, look.ready_per_s),
        count(stats.scheduled, look.scheduled_per_s),
        count(stats.leased, look.leased_per_s),
        stats.blocked,
        count(stats.dead, look.dead_per_s),
        lag(stats),
        look.workers.len(),
    )
}

fn count(n: u64, per_s: Option<f64>) -> String {
    match per_s {
        Some(rate) if rate.abs() >= 0.05 => format!("{n} ({rate:+.1}/s)"),
        _ => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_changes_and_nothing_that_a_terminal_obeys() {
        let look = Look {
            at_us: 1_700_000_000_000_000,
            report: QueueReport {
                queue: QueueName::new("mail").unwrap(),
                stats: QueueStats { ready: 3, leased: 2, lag_ms: 2_500, ..QueueStats::default() },
            },
            ready_per_s: Some(-1.5),
            scheduled_per_s: Some(0.0),
            leased_per_s: None,
            dead_per_s: None,
            workers: BTreeMap::from([("host:1".to_owned(), 2)]),
            progress: vec![Run {
                id: "a".to_owned(),
                progress: TaskProgress { percent: Some(40), note: "page\x1b4".to_owned() },
            }],
        };
        let page = page(&[look]);
        assert!(page.contains("3 (-1.5/s)") && page.contains("    2  host:1"), "{page}");
        assert!(page.contains("a: 40%, page"), "{page}");
        assert!(!page.contains('\x1b'), "{page}");
    }
}
