use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand};
use rushgate::schedule::Missed;

use super::{ContentArgs, OfQueue, PageArgs};
use crate::args::words;
use crate::duration;

/// Run tasks on a schedule: a cron pattern or an interval.
///
/// Every worker of the queue (`rushgate work`, or a program with a Worker) fires its schedules, each occurrence once.
/// Without such a worker, use `tend`.
#[derive(Debug, Subcommand)]
pub(crate) enum CronVerb {
    Add(CronAddArgs),
    /// List the schedules of a queue by ID, with next and previous occurrence.
    #[command(after_help = "Example:\n  rushgate queue cron ls reports")]
    Ls(PageArgs),
    Next(CronNextArgs),
    /// Run a schedule now.
    #[command(after_help = "\
Example:
  rushgate queue cron run reports nightly

Exit status: 1 if there is no such schedule, or the queue is full.")]
    Run(WhichSchedule),
    /// Pause a schedule.
    #[command(after_help = "\
Example:
  rushgate queue cron pause reports nightly

Exit status: 1 if there is no such schedule.")]
    Pause(WhichSchedule),
    /// Resume a schedule from now on.
    #[command(after_help = "\
Example:
  rushgate queue cron resume reports nightly

Exit status: 1 if there is no such schedule.")]
    Resume(WhichSchedule),
    /// Delete a schedule. Tasks that it enqueued stay.
    #[command(after_help = "\
Example:
  rushgate queue cron rm reports nightly

Exit status: 1 if there is no such schedule.")]
    Rm(WhichSchedule),
    /// Fire the schedules of a queue until INT or TERM. For queues without a worker.
    #[command(after_help = "Example:\n  rushgate queue cron tend reports")]
    Tend(OfQueue),
}

/// When the schedule fires.
#[derive(Debug, Args)]
#[group(skip)]
#[command(group(ArgGroup::new("when").args(["cron", "every"]).required(true)))]
pub(crate) struct WhenArgs {
    /// Cron pattern: minute hour day month weekday, with seconds first if there are six fields; or a shorthand such
    /// as @daily.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) cron: Option<String>,
    /// Time zone of the pattern [default: UTC].
    #[arg(long, value_name = "ZONE", conflicts_with = "every")]
    pub(crate) zone: Option<String>,
    /// Fixed interval, at least 1s. Occurrences are aligned to 1970-01-01 UTC: 1h fires on the hour.
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) every: Option<Duration>,
    /// What to do about missed occurrences.
    #[arg(long, value_parser = words::missed(), default_value = "once", value_name = "POLICY")]
    pub(crate) missed: Missed,
}

/// Create or change a schedule.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue cron add reports nightly \\
    --cron '30 3 * * *' --zone Europe/Berlin
  rushgate queue cron add poll each-minute --every 1m --payload '\"all\"'

Its tasks have IDs such as nightly@2026-11-23T02:30:00Z. Prints `added`, `changed` or `unchanged`
with the revision.
Exit status: 1 if the queue has the maximum number of schedules.")]
pub(crate) struct CronAddArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// ID of the schedule.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) when: WhenArgs,
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    /// Priority of its tasks, from 0 (first) to 9 (last).
    #[arg(long, default_value_t = 5)]
    pub(crate) priority: u8,
    /// Maximum number of attempts of each task.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) max_attempts: u32,
    /// Create the schedule paused.
    #[arg(long)]
    pub(crate) paused: bool,
}

/// Print the next occurrences of a pattern or an interval. Needs no store.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  rushgate queue cron next -n 3 --cron '0 9 * * MON-FRI' --zone Asia/Shanghai"
)]
pub(crate) struct CronNextArgs {
    #[command(flatten)]
    pub(crate) when: WhenArgs,
    /// Number of occurrences: 1 to 10,000.
    #[arg(short, long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) n: u32,
}

/// A schedule.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct WhichSchedule {
    /// Name of the queue.
    pub(crate) queue: String,
    /// ID of the schedule.
    pub(crate) id: String,
}
