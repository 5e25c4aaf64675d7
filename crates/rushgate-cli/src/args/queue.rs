mod cron;
mod dead;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, Subcommand};
use rushgate::Timestamp;
use rushgate::queue::{IfDead, Overflow, Rate, Retention, TaskState};

use crate::args::words;
use crate::{duration, moments};

pub(crate) use cron::{CronAddArgs, CronNextArgs, CronVerb, WhenArgs, WhichSchedule};
pub(crate) use dead::{DeadVerb, Which};
pub(crate) use worker::{SetWorkerArgs, WorkerVerb};

/// Enqueue, claim, inspect and manage tasks.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueVerb {
    Enqueue(EnqueueArgs),
    /// Show the first due tasks without claiming them.
    #[command(after_help = "Example:\n  rushgate queue top mail -n 3 --json")]
    Top(TakeArgs),
    /// Print the first due tasks and complete them.
    ///
    /// A task is removed only after it was printed. If the command ends before that, the task is available
    /// again after a minute.
    #[command(after_help = "Example:\n  rushgate queue pop mail --json | jq '.[].payload'")]
    Pop(TakeArgs),
    Claim(ClaimArgs),
    Complete(CompleteArgs),
    Retry(RetryArgs),
    Release(ReleaseArgs),
    Extend(ExtendArgs),
    Dequeue(DequeueArgs),
    Cancel(CancelArgs),
    Reschedule(RescheduleArgs),
    /// Clear the uniqueness window of an ID.
    #[command(after_help = "\
Example:
  rushgate queue clear-unique reports shop:7

A live task with this ID is not changed.
Exit status: 1 if the ID had no uniqueness window.")]
    ClearUnique(OfTask),
    /// Close a batch: its callback runs when all members have finished.
    #[command(mut_arg("id", |id| id.help("ID of the callback")))]
    #[command(after_help = "\
Example:
  rushgate queue enqueue pages report --open
  rushgate queue enqueue pages page:1 --part-of report
  rushgate queue close-batch pages report

Exit status: 1 if there is no such batch, or it is closed already.")]
    CloseBatch(OfTask),
    Ls(LsArgs),
    Stats(StatsArgs),
    /// Show a task: state, progress, earlier errors and result.
    #[command(after_help = "\
Example:
  rushgate queue show mail order:42

Exit status: 1 if there is no such task.")]
    Show(OfTask),
    Wait(WaitArgs),
    /// Explain why a task is not running.
    #[command(after_help = "\
Example:
  rushgate queue why mail order:42

Exit status: 1 if there is no such task, live or dead.")]
    Why(OfTask),
    Watch(WatchArgs),
    Events(EventsArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    /// Pause a queue: workers get no tasks; everything else works.
    #[command(after_help = "Example:\n  rushgate queue pause mail")]
    Pause(OfQueue),
    /// Resume a queue.
    #[command(after_help = "Example:\n  rushgate queue resume mail")]
    Resume(OfQueue),
    Limit(LimitArgs),
    Delete(DeleteArgs),
    #[command(subcommand)]
    Dead(DeadVerb),
    #[command(subcommand)]
    Cron(CronVerb),
    #[command(subcommand)]
    Worker(WorkerVerb),
}

/// A queue.
#[derive(Debug, Args)]
pub(crate) struct OfQueue {
    /// Name of the queue.
    pub(crate) queue: String,
}

/// A task of a queue.
#[derive(Debug, Args)]
pub(crate) struct OfTask {
    /// Name of the queue.
    pub(crate) queue: String,
    /// ID of the task.
    pub(crate) id: String,
}

/// Enqueue a task: one live task per ID.
///
/// Without an ID the task gets a new one, which is printed. Sent twice, such a task is enqueued twice.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("due").args(["delay", "at"])),
    group(ArgGroup::new("until").args(["deadline", "deadline_at"])),
    group(ArgGroup::new("duplicate").args(["replace", "earliest", "debounce"])),
    group(ArgGroup::new("waits").args(["after", "open"]).multiple(true).conflicts_with("duplicate")),
    after_help = "\
Examples:
  rushgate queue enqueue mail order:42 --payload '{\"to\":\"ann\"}'
  rushgate queue enqueue mail order:42 --payload '\"to bob\"' --replace --delay 5s
  rushgate queue enqueue reports shop:7 --unique-for 1h
  rushgate queue enqueue build test --after compile --after lint --if-dead fail
  date | rushgate queue enqueue log --payload-file - --content-type text/plain

Prints `added`, `kept` or `replaced` with the revision of the task; `recent` if an earlier \
--unique-for still holds the ID; or `dropped` if the queue is at capacity and its overflow policy \
drops new tasks.
Exit status: 1 if the queue is full, if a task named by --after does not exist, or if the batch \
named by --part-of is not open."
)]
pub(crate) struct EnqueueArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// ID of the task [default: a new one].
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    /// Delay before the task is due.
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) delay: Option<Duration>,
    /// When the task is due: RFC 3339, or milliseconds since 1970.
    #[arg(long, value_parser = moments::parse, value_name = "TIME")]
    pub(crate) at: Option<Timestamp>,
    /// Deadline, from now. A task not started by then becomes a dead letter.
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) deadline: Option<Duration>,
    /// Deadline as a time: RFC 3339, or milliseconds since 1970.
    #[arg(long, value_parser = moments::parse, value_name = "TIME")]
    pub(crate) deadline_at: Option<Timestamp>,
    /// If the ID is live: replace the task.
    #[arg(long)]
    pub(crate) replace: bool,
    /// If the ID is live: keep the task, due at the earlier of the two times.
    #[arg(long)]
    pub(crate) earliest: bool,
    /// If the ID is live: replace the task and postpone it, by at most this much in total.
    #[arg(long, value_parser = duration::parse, value_name = "MAX_WAIT")]
    pub(crate) debounce: Option<Duration>,
    /// Keep the ID unique for this long from now, even after the task is done.
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) unique_for: Option<Duration>,
    /// Wait until this task of the queue has finished; repeat for more.
    #[arg(long, value_name = "ID", conflicts_with = "part_of")]
    pub(crate) after: Vec<String>,
    /// Make it the callback of an open batch, which waits for `queue close-batch`.
    #[arg(long)]
    pub(crate) open: bool,
    /// What to do if a task that it waits for becomes a dead letter.
    #[arg(long, value_parser = words::if_dead(), default_value = "wait", value_name = "POLICY")]
    pub(crate) if_dead: IfDead,
    /// Make it a member of the batch whose callback was enqueued with --open.
    #[arg(long, value_name = "ID")]
    pub(crate) part_of: Option<String>,
    /// Key, such as a tenant: tasks of a key run in order, and keys take turns.
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Priority, from 0 (first) to 9 (last).
    #[arg(long, default_value_t = 5)]
    pub(crate) priority: u8,
    /// Maximum number of attempts before it becomes a dead letter.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) max_attempts: u32,
}

/// Payload of a task.
#[derive(Debug, Args)]
pub(crate) struct ContentArgs {
    /// Payload; `-` reads stdin.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "payload_file")]
    pub(crate) payload: Option<String>,
    /// File with the payload; `-` reads stdin.
    #[arg(long, value_name = "FILE")]
    pub(crate) payload_file: Option<PathBuf>,
    /// Content type of the payload. JSON is validated.
    #[arg(long, value_name = "TYPE", default_value = "application/json")]
    pub(crate) content_type: String,
    /// Kind of work, by which a worker selects the handler.
    #[arg(long)]
    pub(crate) kind: Option<String>,
}

/// The first due tasks of a queue.
#[derive(Debug, Args)]
pub(crate) struct TakeArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// Maximum number of tasks.
    #[arg(short, long, default_value_t = 1)]
    pub(crate) n: u32,
}

/// Claim the first due tasks under a lease. If the client dies, they become available again.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ticket=$(rushgate queue claim mail --lease 1m --json | jq -r '.[0].ticket')
  rushgate queue complete mail --ticket \"$ticket\"")]
pub(crate) struct ClaimArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// Maximum number of tasks.
    #[arg(short, long, default_value_t = 1)]
    pub(crate) n: u32,
    /// Lease duration.
    #[arg(long, value_parser = duration::parse, default_value = "30s", value_name = "DURATION")]
    pub(crate) lease: Duration,
    /// Maximum wait for the first task.
    #[arg(long, value_parser = duration::parse, default_value = "0s", value_name = "DURATION")]
    pub(crate) wait: Duration,
}

/// A queue and claims in it.
#[derive(Debug, Args)]
pub(crate) struct Tickets {
    /// Name of the queue.
    pub(crate) queue: String,
    /// Ticket of the claim; repeat for more.
    #[arg(long = "ticket", required = true, value_name = "TICKET")]
    pub(crate) tickets: Vec<String>,
}

/// Complete claimed tasks.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate queue complete mail --ticket \"$ticket\" --result '{\"sent\":3}'

Exit status: 1 if a ticket is stale.")]
pub(crate) struct CompleteArgs {
    #[command(flatten)]
    pub(crate) tickets: Tickets,
    /// Result, at most 64 KiB. Kept if the queue has a retention.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) result: Option<String>,
    /// Content type of the result. JSON is validated.
    #[arg(long, value_name = "TYPE", default_value = "application/json", requires = "result")]
    pub(crate) content_type: String,
    /// Mark the tasks as discarded: there was nothing to do.
    #[arg(long, conflicts_with = "result")]
    pub(crate) discarded: bool,
}

/// Retry claimed tasks that failed. Without attempts left they become dead letters. Canceled tasks are removed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue retry mail --ticket \"$ticket\" --delay 5s --error 'it is down'
  rushgate queue retry mail --ticket \"$ticket\" --give-up --error 'unknown'

Exit status: 1 if a ticket is stale.")]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    pub(crate) tickets: Tickets,
    /// Delay before the next attempt.
    #[arg(long, value_parser = duration::parse, default_value = "0s", value_name = "DURATION")]
    pub(crate) delay: Duration,
    /// Error message, as shown to operators.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) error: String,
    /// Turn the tasks into dead letters now.
    #[arg(long)]
    pub(crate) give_up: bool,
}

/// Release claimed tasks: they return to their places unclaimed. Canceled tasks are removed.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate queue release mail --ticket \"$ticket\" --delay 5m

Exit status: 1 if a ticket is stale.")]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(crate) tickets: Tickets,
    /// Delay before the tasks are due again [default: none, they keep their places].
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) delay: Option<Duration>,
}

/// Extend the leases of claimed tasks.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate queue extend mail --ticket \"$ticket\" --lease 2m

Exit status: 1 if a lease was lost, or a task should be canceled.")]
pub(crate) struct ExtendArgs {
    #[command(flatten)]
    pub(crate) tickets: Tickets,
    /// Lease duration from now.
    #[arg(long, value_parser = duration::parse, default_value = "30s", value_name = "DURATION")]
    pub(crate) lease: Duration,
    /// Percentage done, as shown to operators.
    #[arg(long, value_name = "0-100")]
    pub(crate) percent: Option<u8>,
    /// Current step, as shown to operators.
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}

/// Remove a task if it is unchanged since its ticket was read.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ticket=$(rushgate queue top mail --json | jq -r '.[0].ticket')
  rushgate queue dequeue mail --ticket \"$ticket\"

Exit status: 1 if the ticket is stale or the task is running.")]
pub(crate) struct DequeueArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// Ticket of the task as it was read.
    #[arg(long)]
    pub(crate) ticket: String,
}

/// Cancel one task or many. Running tasks are asked to stop.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("which").args(["id", "state", "id_prefix", "kind", "all"]).required(true).multiple(true)),
    after_help = "\
Examples:
  rushgate queue cancel mail order:42
  rushgate queue cancel mail --id-prefix order: --kind welcome --dry-run
  rushgate queue cancel mail --state scheduled

Exit status: 1 if there is no such task."
)]
pub(crate) struct CancelArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// ID of the task.
    #[arg(conflicts_with_all = ["state", "id_prefix", "kind", "all", "dry_run"])]
    pub(crate) id: Option<String>,
    /// Only tasks in this state.
    #[arg(long, value_parser = words::task_state())]
    pub(crate) state: Option<TaskState>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// All tasks.
    #[arg(long, conflicts_with_all = ["state", "id_prefix", "kind"])]
    pub(crate) all: bool,
    /// Only print how many.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Change when a waiting task is due. Default: now.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("due").args(["delay", "at"])),
    after_help = "\
Examples:
  rushgate queue reschedule mail order:42
  rushgate queue reschedule mail order:42 --delay 2h

Everything else about the task stays, such as its attempts.
Exit status: 1 if there is no such task, if it is running, or if its deadline is earlier."
)]
pub(crate) struct RescheduleArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// ID of the task.
    pub(crate) id: String,
    /// Delay before the task is due.
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) delay: Option<Duration>,
    /// When the task is due: RFC 3339, or milliseconds since 1970.
    #[arg(long, value_parser = moments::parse, value_name = "TIME")]
    pub(crate) at: Option<Timestamp>,
}

/// Filters for tasks, all of which must match.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct FilterArgs {
    /// Only IDs with this prefix.
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) id_prefix: Option<String>,
    /// Only tasks of this kind.
    #[arg(long)]
    pub(crate) kind: Option<String>,
}

/// Watch queues: counts, rates, lag and workers.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue watch
  rushgate queue watch mail -n 10 --every 5s --json

On a terminal it refreshes a page; elsewhere, and with --json, it prints a line per queue and refresh. Changes are \
net: arrivals minus departures. It ends with ^C, or after -n refreshes.")]
pub(crate) struct WatchArgs {
    /// Names of the queues [default: all].
    #[arg(value_name = "QUEUE")]
    pub(crate) queues: Vec<String>,
    /// Refresh interval.
    #[arg(long, value_parser = duration::parse, default_value = "1s", value_name = "DURATION")]
    pub(crate) every: Duration,
    /// Number of refreshes, printed as lines [default: until interrupted].
    #[arg(short, long)]
    pub(crate) n: Option<u64>,
}

/// Show the events of a queue, one line each.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue limit mail --events 10000
  rushgate queue events mail --follow
  rushgate queue events mail --after 4711 --follow --json

A queue keeps events only if `queue limit --events` is set. Missed events are \
reported on stderr. With --follow it ends with ^C.")]
pub(crate) struct EventsArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// Only events with greater numbers [default: all that are kept].
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<u64>,
    /// Follow new events.
    #[arg(short, long)]
    pub(crate) follow: bool,
}

/// Export tasks as lines of JSON, for `import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue export mail > mail.jsonl
  rushgate queue export mail --dead --kind welcome > dead.jsonl

Each line has the ID, payload, content type, kind, due time, priority and maximum number of attempts \
of a task. Attempts already made are not exported. Running tasks are exported too: to move a queue, \
pause it first.")]
pub(crate) struct ExportArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// Only tasks in this state.
    #[arg(long, value_parser = words::task_state())]
    pub(crate) state: Option<TaskState>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Export the dead letters instead. An import makes them due at once.
    #[arg(long, conflicts_with = "state")]
    pub(crate) dead: bool,
}

/// Import tasks from `export`. Tasks whose ID is live are skipped.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue import mail mail.jsonl
  rushgate --store sqlite:old.db queue export mail |
    rushgate --store redis://localhost queue import mail

An invalid line is reported with its number; the lines before it were imported. Uniqueness windows \
are not exported. Tasks whose ID is live are skipped.
Exit status: 1 if the queue is full, 2 if a line is invalid.")]
pub(crate) struct ImportArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// File to read; `-` reads stdin.
    #[arg(default_value = "-", hide_default_value = true)]
    pub(crate) file: PathBuf,
}

/// List the tasks of a queue, or all queues.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate queue ls mail --state leased")]
pub(crate) struct LsArgs {
    /// Name of the queue [default: list the queues].
    pub(crate) queue: Option<String>,
    /// Only tasks in this state.
    #[arg(long, value_parser = words::task_state(), requires = "queue")]
    pub(crate) state: Option<TaskState>,
    /// Maximum number of tasks.
    #[arg(short, long, default_value_t = 1_000)]
    pub(crate) n: u32,
    /// Continue a listing: the cursor that the previous page names.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "CURSOR")]
    pub(crate) after: String,
}

/// Show counts and limits of a queue, or of all.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate queue stats mail --json | jq .ready

Exit status: 1 if there is no such queue.")]
pub(crate) struct StatsArgs {
    /// Name of the queue [default: all].
    pub(crate) queue: Option<String>,
}

/// Wait until a task has finished and print its result. The queue needs a retention.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue limit sums --keep 1h/1000
  rushgate queue wait sums first --for 1m | jq .total

With --json it also prints how the task ended.
Exit status: 0 if the task is done, 1 if it ended in another way or did not end in time.")]
pub(crate) struct WaitArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// ID of the task.
    pub(crate) id: String,
    /// Maximum wait.
    #[arg(long = "for", value_parser = duration::parse, default_value = "1m", value_name = "DURATION")]
    pub(crate) wait: Duration,
}

/// Delete a queue's tasks, dead letters and schedules; reset its limits.
///
/// If tasks are running, nothing is deleted: stop the workers first, or pass --force to ask them to stop. A paused queue
/// is resumed. Tasks that are enqueued while the command runs stay. The queue stays in lists.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue delete mail --dry-run
  rushgate queue delete mail

Exit status: 1 if a task is running and --force is not passed.")]
pub(crate) struct DeleteArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// Delete even if tasks are running, and ask their workers to stop.
    #[arg(long)]
    pub(crate) force: bool,
    /// Only print what would be deleted.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Set a queue's limits and retention.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue limit mail --bound 100000
  rushgate queue limit mail --rate 100/1m --key-concurrency 2
  rushgate queue limit mail --bound none --fifo true
  rushgate queue limit mail --keep 1d/10000
  rushgate queue limit samples --bound 1000 --overflow drop-oldest
  rushgate queue limit mail --events 10000

Options that are left out keep their values.")]
pub(crate) struct LimitArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// Capacity: maximum number of live tasks.
    #[arg(long, value_parser = number::<u64>, value_name = "N|none")]
    pub(crate) bound: Option<Limit<u64>>,
    /// Overflow policy: what happens to a new task at capacity.
    #[arg(long, value_parser = words::overflow())]
    pub(crate) overflow: Option<Overflow>,
    /// Maximum number of tasks running at a time.
    #[arg(long, value_parser = number::<u32>, value_name = "N|none")]
    pub(crate) concurrency: Option<Limit<u32>>,
    /// Rate limit: at most N tasks, up to 10,000, in any period of TIME.
    #[arg(long, value_parser = rate, value_name = "N/TIME|none")]
    pub(crate) rate: Option<Limit<Rate>>,
    /// Like --concurrency, for each key.
    #[arg(long, value_parser = number::<u32>, value_name = "N|none")]
    pub(crate) key_concurrency: Option<Limit<u32>>,
    /// Like --rate, for each key.
    #[arg(long, value_parser = rate, value_name = "N/TIME|none")]
    pub(crate) key_rate: Option<Limit<Rate>>,
    /// Run one task of a key at a time; a failed one blocks those behind it.
    #[arg(long, value_name = "BOOL")]
    pub(crate) fifo: Option<bool>,
    /// Retention: keep finished tasks for TIME, and at most the latest N.
    #[arg(long, value_parser = retention, value_name = "TIME/N|none")]
    pub(crate) keep: Option<Limit<Retention>>,
    /// Number of latest events to keep for `queue events`.
    #[arg(long, value_parser = number::<u32>, value_name = "N|none")]
    pub(crate) events: Option<Limit<u32>>,
}

/// A limit, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit<T>(pub(crate) Option<T>);

fn number<T: std::str::FromStr>(text: &str) -> Result<Limit<T>, String> {
    match text {
        "none" => Ok(Limit(None)),
        _ => text.parse().map(|n| Limit(Some(n))).map_err(|_| "use a number, or none".to_owned()),
    }
}

fn rate(text: &str) -> Result<Limit<Rate>, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    duration::rate(text).map(|rate| Limit(Some(rate))).map_err(|wrong| format!("{wrong}, or none"))
}

fn retention(text: &str) -> Result<Limit<Retention>, String> {
    if text == "none" {
        return Ok(Limit(None));
    }
    let wrong = || "use a duration and a number, such as 1d/10000, or none".to_owned();
    let (age, count) = text.split_once('/').ok_or_else(wrong)?;
    let count = count.parse().map_err(|_| wrong())?;
    Ok(Limit(Some(Retention::new(duration::parse(age)?, count))))
}

/// A page of a queue's dead letters or schedules.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// Maximum number of tasks.
    #[arg(short, long, default_value_t = 1_000)]
    pub(crate) n: u32,
    /// Continue a listing: the cursor that the previous page names.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "CURSOR")]
    pub(crate) after: String,
}
