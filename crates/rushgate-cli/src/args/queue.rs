use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use rushgate::{Rate, Retention};

use crate::duration;

/// Put tasks into queues, take them out, and look after them.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueVerb {
    Push(PushArgs),
    Top(TopArgs),
    Pop(PopArgs),
    Claim(ClaimArgs),
    Complete(CompleteArgs),
    Retry(RetryArgs),
    GiveBack(GiveBackArgs),
    Extend(ExtendArgs),
    Dequeue(DequeueArgs),
    Cancel(CancelArgs),
    Lift(LiftArgs),
    Close(CloseArgs),
    Ls(LsArgs),
    Stats(StatsArgs),
    Show(ShowArgs),
    Wait(WaitArgs),
    Why(WhyArgs),
    Watch(WatchArgs),
    Events(EventsArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Limit(LimitArgs),
    #[command(subcommand)]
    Dead(DeadVerb),
    #[command(subcommand)]
    Cron(CronVerb),
}

impl QueueVerb {
    /// Whether it changes nothing.
    pub(crate) const fn only_looks(&self) -> bool {
        matches!(
            self,
            Self::Top(_)
                | Self::Ls(_)
                | Self::Stats(_)
                | Self::Show(_)
                | Self::Wait(_)
                | Self::Why(_)
                | Self::Watch(_)
                | Self::Events(_)
                | Self::Export(_)
                | Self::Dead(DeadVerb::Ls(_))
                | Self::Cron(CronVerb::Ls(_))
        )
    }
}

/// Put a task in: one live record per id.
#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("due").args(["delay", "at"])),
    group(ArgGroup::new("until").args(["deadline", "deadline_at"])),
    group(ArgGroup::new("duplicate").args(["replace", "earliest", "debounce"])),
    group(ArgGroup::new("waits").args(["after", "open"]).multiple(true).conflicts_with("duplicate")),
    after_help = "\
Examples:
  rushgate queue push mail order:42 --payload '{\"to\":\"ann\"}'
  rushgate queue push mail order:42 --payload '\"to bob\"' --replace --delay 5s
  rushgate queue push reports shop:7 --unique-for 1h
  rushgate queue push build test --after compile --after lint --if-dead fail
  date | rushgate queue push log a --payload-file - --content-type text/plain

Answers `added`, `kept` or `replaced` with the record's revision, `recent` if
the id is not free yet, or `dropped` if the queue is at its bound and drops
newcomers.
Exit status: 1 if the queue is full, or a task named by --after is not known,
or the one named by --part-of is not held open."
)]
pub(crate) struct PushArgs {
    /// The queue.
    pub(crate) queue: String,
    /// The task's id.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    /// Not before so long from now.
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) delay: Option<Duration>,
    /// Not before that moment, in milliseconds since 1970.
    #[arg(long, value_name = "EPOCH_MS")]
    pub(crate) at: Option<u64>,
    /// Not any more when so long has passed from now: it is a dead letter then.
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) deadline: Option<Duration>,
    /// As --deadline, at that moment, in milliseconds since 1970.
    #[arg(long, value_name = "EPOCH_MS")]
    pub(crate) deadline_at: Option<u64>,
    /// If the id is in already: take its place.
    #[arg(long)]
    pub(crate) replace: bool,
    /// If the id is in already: keep it, due at the earlier of the two times.
    #[arg(long)]
    pub(crate) earliest: bool,
    /// If the id is in already: take its place, putting it off for so long in all.
    #[arg(long, value_parser = duration::parse, value_name = "MAX_WAIT")]
    pub(crate) debounce: Option<Duration>,
    /// No other of this id for so long from now, even once it is done.
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) unique_for: Option<Duration>,
    /// Not before this task of the queue is over; give it again for each.
    #[arg(long, value_name = "ID", conflicts_with = "part_of")]
    pub(crate) after: Vec<String>,
    /// Not before `queue close`: the callback of a batch.
    #[arg(long)]
    pub(crate) open: bool,
    /// What becomes of it if one that it waits for is dead.
    #[arg(long, value_enum, default_value_t = IfDeadWord::Wait, value_name = "POLICY")]
    pub(crate) if_dead: IfDeadWord,
    /// It is part of that task, which was pushed with --open.
    #[arg(long, value_name = "ID")]
    pub(crate) part_of: Option<String>,
    /// What it is for, such as a tenant: the tasks of a key stand in line.
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// How urgent: 0 goes first, 9 last.
    #[arg(long, default_value_t = 5)]
    pub(crate) priority: u8,
    /// How often it may be tried before it is a dead letter.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) max_attempts: u32,
}

/// What becomes of a task when one that it waits for is dead.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum IfDeadWord {
    /// It goes on waiting, for the dead one may be put back.
    Wait,
    /// It is dead too.
    Fail,
    /// It runs all the same.
    Run,
}

/// What a task carries.
#[derive(Debug, Args)]
pub(crate) struct ContentArgs {
    /// Its content; `-` reads it from stdin.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "payload_file")]
    pub(crate) payload: Option<String>,
    /// A file with its content; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    pub(crate) payload_file: Option<PathBuf>,
    /// What the content is; JSON is checked.
    #[arg(long, value_name = "TYPE", default_value = "application/json")]
    pub(crate) content_type: String,
    /// What sort of work it is, by which a program's worker finds its handler.
    #[arg(long)]
    pub(crate) kind: Option<String>,
}

/// Look at the first due tasks without taking them.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate queue top mail -n 3 --json")]
pub(crate) struct TopArgs {
    /// The queue.
    pub(crate) queue: String,
    /// At most so many.
    #[arg(short, long, default_value_t = 1)]
    pub(crate) n: u32,
}

/// Print the first due tasks, then complete them.
///
/// A task is removed only after it was written. If the command ends before that, the task comes again after a minute.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate queue pop mail --json | jq '.[].payload'")]
pub(crate) struct PopArgs {
    /// The queue.
    pub(crate) queue: String,
    /// At most so many.
    #[arg(short, long, default_value_t = 1)]
    pub(crate) n: u32,
}

/// Take the first due tasks under a lease: a taker that dies gives them back.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ticket=$(rushgate queue claim mail --lease 1m --json | jq -r '.[0].ticket')
  rushgate queue complete mail --ticket \"$ticket\"")]
pub(crate) struct ClaimArgs {
    /// The queue.
    pub(crate) queue: String,
    /// At most so many.
    #[arg(short, long, default_value_t = 1)]
    pub(crate) n: u32,
    /// How long to hold them unless extended.
    #[arg(long, value_parser = duration::parse, default_value = "30s", value_name = "DURATION")]
    pub(crate) lease: Duration,
    /// How long to wait for a first one.
    #[arg(long, value_parser = duration::parse, default_value = "0s", value_name = "DURATION")]
    pub(crate) wait: Duration,
}

/// Which queue, and which claims.
#[derive(Debug, Args)]
pub(crate) struct Tickets {
    /// The queue.
    pub(crate) queue: String,
    /// What was claimed; give it again for each further one.
    #[arg(long = "ticket", required = true, value_name = "TICKET")]
    pub(crate) tickets: Vec<String>,
}

/// End claimed tasks that are done.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate queue complete mail --ticket \"$ticket\" --result '{\"sent\":3}'

Exit status: 1 if a ticket is stale.")]
pub(crate) struct CompleteArgs {
    #[command(flatten)]
    pub(crate) tickets: Tickets,
    /// What came of it, at most 64 KiB; kept if the queue has a retention.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) result: Option<String>,
    /// What the result is; JSON is checked.
    #[arg(long, value_name = "TYPE", default_value = "application/json", requires = "result")]
    pub(crate) content_type: String,
    /// There was nothing to do: it was not carried out.
    #[arg(long, conflicts_with = "result")]
    pub(crate) discarded: bool,
}

/// End claimed tasks that failed: they wait again, or become dead letters. One that was cancelled meanwhile is gone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue retry mail --ticket \"$ticket\" --delay 5s --error 'it is down'
  rushgate queue retry mail --ticket \"$ticket\" --give-up --error 'unknown'

Exit status: 1 if a ticket is stale.")]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    pub(crate) tickets: Tickets,
    /// Not again before so long.
    #[arg(long, value_parser = duration::parse, default_value = "0s", value_name = "DURATION")]
    pub(crate) delay: Duration,
    /// Why it failed, for people who look.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) error: String,
    /// Make it a dead letter now.
    #[arg(long)]
    pub(crate) give_up: bool,
}

/// Give claimed tasks back as if they had not been claimed: each keeps its place. One that was cancelled meanwhile is gone.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate queue give-back mail --ticket \"$ticket\" --delay 5m

Exit status: 1 if a ticket is stale.")]
pub(crate) struct GiveBackArgs {
    #[command(flatten)]
    pub(crate) tickets: Tickets,
    /// Delay before the tasks are due again. Default: none, they keep their places.
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) delay: Option<Duration>,
}

/// Start the leases of claimed tasks anew.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate queue extend mail --ticket \"$ticket\" --lease 2m

Exit status: 1 if a task was lost, or is to be cancelled.")]
pub(crate) struct ExtendArgs {
    #[command(flatten)]
    pub(crate) tickets: Tickets,
    /// How long to hold them from now.
    #[arg(long, value_parser = duration::parse, default_value = "30s", value_name = "DURATION")]
    pub(crate) lease: Duration,
    /// How much of it is done, for people who look.
    #[arg(long, value_name = "0-100")]
    pub(crate) percent: Option<u8>,
    /// What it is at, for people who look.
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,
}

/// Remove a task only if it was not pushed again since its ticket was read.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ticket=$(rushgate queue top mail --json | jq -r '.[0].ticket')
  rushgate queue dequeue mail --ticket \"$ticket\"

Exit status: 1 if the ticket is stale or somebody works on the task.")]
pub(crate) struct DequeueArgs {
    /// The queue.
    pub(crate) queue: String,
    /// What was read.
    #[arg(long)]
    pub(crate) ticket: String,
}

/// Remove a task whatever its revision, or many; those that are being worked on are told to stop.
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
    /// The queue.
    pub(crate) queue: String,
    /// The task's id.
    #[arg(conflicts_with_all = ["state", "id_prefix", "kind", "all", "dry_run"])]
    pub(crate) id: Option<String>,
    /// Those in this state.
    #[arg(long, value_enum)]
    pub(crate) state: Option<State>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// All of them.
    #[arg(long, conflicts_with_all = ["state", "id_prefix", "kind"])]
    pub(crate) all: bool,
    /// Only tell how many.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// End the time for which an id is unique: it may be pushed again at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate queue lift reports shop:7

Its task, if it is live, stays as it is.
Exit status: 1 if the id was not unique.")]
pub(crate) struct LiftArgs {
    /// The queue.
    pub(crate) queue: String,
    /// The task's id.
    pub(crate) id: String,
}

/// Let a task that was pushed with --open run when all its parts are over.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate queue push pages report --open
  rushgate queue push pages page:1 --part-of report
  rushgate queue close pages report

Exit status: 1 if the task is not live, or not held open.")]
pub(crate) struct CloseArgs {
    /// The queue.
    pub(crate) queue: String,
    /// The task's id.
    pub(crate) id: String,
}

/// Which of a queue's tasks: those to which all of this applies.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct FilterArgs {
    /// Those whose id begins like this.
    #[arg(long, value_name = "TEXT")]
    pub(crate) id_prefix: Option<String>,
    /// Those of this kind.
    #[arg(long)]
    pub(crate) kind: Option<String>,
}

/// Show queues as they change: lengths, changes per second, the oldest due task, and who works.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue watch
  rushgate queue watch mail -n 10 --every 5s --json

On a terminal it is a page that is drawn anew; elsewhere, and with --json, a line for each queue and look. Changes are
net: what came less what went. It ends with ^C, or after -n looks.")]
pub(crate) struct WatchArgs {
    /// The queues; all if there is none.
    #[arg(value_name = "QUEUE")]
    pub(crate) queues: Vec<String>,
    /// How long from one look to the next.
    #[arg(long, value_parser = duration::parse, default_value = "1s", value_name = "DURATION")]
    pub(crate) every: Duration,
    /// How many looks; on and on if it is not said.
    #[arg(short, long)]
    pub(crate) n: Option<u64>,
}

/// Show what happened to the tasks of a queue, one line for each event.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue limit mail --events 10000
  rushgate queue events mail --follow
  rushgate queue events mail --after 4711 --follow --json

A queue keeps its latest events if its limits say so. Those that went by and are
not kept any more are told of on stderr. With --follow it ends with ^C.")]
pub(crate) struct EventsArgs {
    /// The queue.
    pub(crate) queue: String,
    /// Only events with greater numbers; all that are kept if it is not said.
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<u64>,
    /// Go on with what happens from now on.
    #[arg(short, long)]
    pub(crate) follow: bool,
}

/// Write tasks to stdout, one line of JSON each, for `import` to read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue export mail > mail.jsonl
  rushgate queue export mail --dead --kind welcome > dead.jsonl

Each line has the id, content, content type, kind, due time, priority and the number of attempts a task may have; attempts
that were made are not counted over. A task that is being worked on is written like any other: pause the queue first
if it is to be moved.")]
pub(crate) struct ExportArgs {
    /// The queue.
    pub(crate) queue: String,
    /// Only those in this state.
    #[arg(long, value_enum)]
    pub(crate) state: Option<State>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// The dead letters instead; they are due at once when they are imported.
    #[arg(long, conflicts_with = "state")]
    pub(crate) dead: bool,
}

/// Put tasks in that `export` wrote. One whose id is in already is kept as it is, so it can be run again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue import mail mail.jsonl
  rushgate --store sqlite:old.db queue export mail |
    rushgate --store redis://localhost queue import mail

A line that cannot be read is told by its number; what came before it is in.
Periods of uniqueness are not exported; a task whose id is unique is left out.
Exit status: 1 if the queue is full, 2 if a line cannot be read.")]
pub(crate) struct ImportArgs {
    /// The queue.
    pub(crate) queue: String,
    /// The file; `-` is stdin.
    #[arg(default_value = "-", hide_default_value = true)]
    pub(crate) file: PathBuf,
}

/// List the tasks of a queue by id, or the queues.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate queue ls mail --state leased")]
pub(crate) struct LsArgs {
    /// The queue; all queues if there is none.
    pub(crate) queue: Option<String>,
    /// Only tasks in this state.
    #[arg(long, value_enum, requires = "queue")]
    pub(crate) state: Option<State>,
    /// At most so many.
    #[arg(short, long, default_value_t = 1_000)]
    pub(crate) n: u32,
    /// Only ids after this one.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID")]
    pub(crate) after: String,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum State {
    /// Not due yet.
    Scheduled,
    /// Due.
    Ready,
    /// Claimed.
    Leased,
    /// Behind others of its key.
    Blocked,
    /// Over, and kept by the queue's retention.
    Done,
}

/// Show the lengths of a queue, or of all.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate queue stats mail --json | jq .ready

Exit status: 1 if there is no such queue.")]
pub(crate) struct StatsArgs {
    /// The queue; all queues if there is none.
    pub(crate) queue: Option<String>,
}

/// Show a task: where it stands, how far it has come, what went wrong before, and what came of it.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate queue show mail order:42

Exit status: 1 if there is no such task, live, done or dead.")]
pub(crate) struct ShowArgs {
    /// The queue.
    pub(crate) queue: String,
    /// The task's id.
    pub(crate) id: String,
}

/// Wait until a task is over, and write its result to stdout. The queue must have a retention.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue limit sums --keep 1h/1000
  rushgate queue wait sums first --for 1m | jq .total

With --json it tells how the task ended, too.
Exit status: 0 if it is done, 1 if it ended in another way or was not over in time.")]
pub(crate) struct WaitArgs {
    /// The queue.
    pub(crate) queue: String,
    /// The task's id.
    pub(crate) id: String,
    /// How long to wait.
    #[arg(long = "for", value_parser = duration::parse, default_value = "1m", value_name = "DURATION")]
    pub(crate) wait: Duration,
}

/// Say why a task is not running.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate queue why mail order:42

Exit status: 1 if there is no such task, live or dead.")]
pub(crate) struct WhyArgs {
    /// The queue.
    pub(crate) queue: String,
    /// The task's id.
    pub(crate) id: String,
}

/// Stop giving tasks out; everything else goes on.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate queue pause mail")]
pub(crate) struct PauseArgs {
    /// The queue.
    pub(crate) queue: String,
}

/// Give tasks out again.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate queue resume mail")]
pub(crate) struct ResumeArgs {
    /// The queue.
    pub(crate) queue: String,
}

/// Set what a queue puts up with, and what it keeps.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue limit mail --bound 100000
  rushgate queue limit mail --rate 100/1m --key-concurrency 2
  rushgate queue limit mail --bound none --fifo true
  rushgate queue limit mail --keep 1d/10000
  rushgate queue limit samples --bound 1000 --overflow drop-oldest
  rushgate queue limit mail --events 10000

What is not named stays as it is.")]
pub(crate) struct LimitArgs {
    /// The queue.
    pub(crate) queue: String,
    /// At most so many live tasks.
    #[arg(long, value_parser = number::<u64>, value_name = "N|none")]
    pub(crate) bound: Option<Limit<u64>>,
    /// What becomes of a task that is one too many.
    #[arg(long, value_enum)]
    pub(crate) overflow: Option<OverflowWord>,
    /// At most so many under a lease at a time.
    #[arg(long, value_parser = number::<u32>, value_name = "N|none")]
    pub(crate) concurrency: Option<Limit<u32>>,
    /// At most so many, of up to 10,000, given out in any stretch of that time.
    #[arg(long, value_parser = rate, value_name = "N/TIME|none")]
    pub(crate) rate: Option<Limit<Rate>>,
    /// As --concurrency, of the tasks of each key.
    #[arg(long, value_parser = number::<u32>, value_name = "N|none")]
    pub(crate) key_concurrency: Option<Limit<u32>>,
    /// As --rate, of the tasks of each key.
    #[arg(long, value_parser = rate, value_name = "N/TIME|none")]
    pub(crate) key_rate: Option<Limit<Rate>>,
    /// One task of a key at a time; one that failed holds up those behind it.
    #[arg(long, value_name = "BOOL")]
    pub(crate) fifo: Option<bool>,
    /// Keep tasks that are over for so long, and no more than the latest so many.
    #[arg(long, value_parser = retention, value_name = "TIME/N|none")]
    pub(crate) keep: Option<Limit<Retention>>,
    /// Keep so many of the latest events, to be read by `queue events`.
    #[arg(long, value_parser = number::<u32>, value_name = "N|none")]
    pub(crate) events: Option<Limit<u32>>,
}

/// What becomes of a task that is put into a queue at its bound.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OverflowWord {
    /// It is refused.
    Refuse,
    /// It is dropped.
    DropNew,
    /// It takes the place of the oldest that nobody works on.
    DropOldest,
}

/// A limit, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit<T>(pub(crate) Option<T>);

fn number<T: std::str::FromStr>(text: &str) -> Result<Limit<T>, String> {
    match text {
        "none" => Ok(Limit(None)),
        _ => text.parse().map(|n| Limit(Some(n))).map_err(|_| "write a number, or none".to_owned()),
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
    let wrong = || "write a time and a number, such as 1d/10000, or none".to_owned();
    let (age, count) = text.split_once('/').ok_or_else(wrong)?;
    let count = count.parse().map_err(|_| wrong())?;
    Ok(Limit(Some(Retention::new(duration::parse(age)?, count))))
}

/// Look at dead letters, retry them, or delete them.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadVerb {
    Ls(DeadLsArgs),
    Retry(DeadRetryArgs),
    Delete(DeadDeleteArgs),
}

/// List dead letters by id, with why they died.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate queue dead ls mail")]
pub(crate) struct DeadLsArgs {
    /// The queue.
    pub(crate) queue: String,
    /// At most so many.
    #[arg(short, long, default_value_t = 1_000)]
    pub(crate) n: u32,
    /// Only ids after this one.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID")]
    pub(crate) after: String,
}

/// Which dead letters.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Which {
    /// The queue.
    pub(crate) queue: String,
    /// Their ids.
    #[arg(
        required_unless_present_any = ["all", "id_prefix", "kind"],
        conflicts_with_all = ["id_prefix", "kind", "dry_run"],
        value_name = "ID"
    )]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// All of them.
    #[arg(long, conflicts_with_all = ["ids", "id_prefix", "kind"])]
    pub(crate) all: bool,
    /// Only tell how many.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Put dead letters back, due at once and with all attempts before them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue dead retry mail order:42
  rushgate queue dead retry mail --all
  rushgate queue dead retry mail --kind welcome --dry-run

Exit status: 1 if none of those named was put back.")]
pub(crate) struct DeadRetryArgs {
    #[command(flatten)]
    pub(crate) which: Which,
}

/// Delete dead letters.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue dead delete mail order:42
  rushgate queue dead delete mail --all
  rushgate queue dead delete mail --id-prefix order:

Exit status: 1 if none of those named was deleted.")]
pub(crate) struct DeadDeleteArgs {
    #[command(flatten)]
    pub(crate) which: Which,
}

/// Tasks that come again and again: by a cron pattern, or at an interval.
///
/// Schedules are fired by every worker of the queue (`rushgate work`, and programs with a Worker), each moment once.
/// `tend` does the same where no such worker runs.
#[derive(Debug, Subcommand)]
pub(crate) enum CronVerb {
    Add(CronAddArgs),
    Ls(CronLsArgs),
    Next(CronNextArgs),
    Run(CronRunArgs),
    Pause(CronPauseArgs),
    Resume(CronResumeArgs),
    Rm(CronRmArgs),
    Tend(CronTendArgs),
}

/// When it fires.
#[derive(Debug, Args)]
#[group(skip)]
#[command(group(ArgGroup::new("when").args(["cron", "every"]).required(true)))]
pub(crate) struct WhenArgs {
    /// A cron pattern: minute hour day month weekday, with seconds in front if there are six fields; or @daily and such.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) cron: Option<String>,
    /// The pattern's time zone [default: UTC].
    #[arg(long, value_name = "ZONE", conflicts_with = "every")]
    pub(crate) zone: Option<String>,
    /// An interval of at least 1s, counted from 1970.
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) every: Option<Duration>,
    /// What becomes of moments at which nobody looked after it.
    #[arg(long, value_enum, default_value = "once", value_name = "POLICY")]
    pub(crate) missed: MissedArg,
}

/// What becomes of moments that were missed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MissedArg {
    /// They are passed over, but for one that is at most a minute old.
    Skip,
    /// The latest has a task.
    Once,
    /// Each has a task.
    All,
}

/// Enter a schedule under its id, or change the one that is there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue cron add reports nightly \\
    --cron '30 3 * * *' --zone Europe/Berlin
  rushgate queue cron add poll each-minute --every 1m --payload '\"all\"'

Its tasks have ids such as nightly@2026-11-23T02:30:00Z.
Answers `added`, `changed` or `unchanged` with the revision.
Exit status: 1 if the queue has as many schedules as it may have.")]
pub(crate) struct CronAddArgs {
    /// The queue.
    pub(crate) queue: String,
    /// The schedule's id.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) when: WhenArgs,
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    /// How urgent its tasks are: 0 goes first, 9 last.
    #[arg(long, default_value_t = 5)]
    pub(crate) priority: u8,
    /// How often a task may be tried before it is a dead letter.
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) max_attempts: u32,
    /// It stands still until it is resumed.
    #[arg(long)]
    pub(crate) paused: bool,
}

/// List the schedules of a queue by id, with their next and previous moments.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate queue cron ls reports")]
pub(crate) struct CronLsArgs {
    /// The queue.
    pub(crate) queue: String,
    /// At most so many.
    #[arg(short, long, default_value_t = 1_000)]
    pub(crate) n: u32,
    /// Only ids after this one.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID")]
    pub(crate) after: String,
}

/// Tell the next moments of a pattern or an interval, without a store.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  rushgate queue cron next -n 3 --cron '0 9 * * MON-FRI' --zone Asia/Shanghai"
)]
pub(crate) struct CronNextArgs {
    #[command(flatten)]
    pub(crate) when: WhenArgs,
    /// How many: 1 to 10,000.
    #[arg(short, long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) n: u32,
}

/// Which schedule.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct WhichSchedule {
    /// The queue.
    pub(crate) queue: String,
    /// The schedule's id.
    pub(crate) id: String,
}

/// Put a schedule's task in now, whatever its moments.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  rushgate queue cron run reports nightly\n\nExit status: 1 if there is no such schedule, or the queue is full."
)]
pub(crate) struct CronRunArgs {
    #[command(flatten)]
    pub(crate) which: WhichSchedule,
}

/// Have a schedule stand still.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  rushgate queue cron pause reports nightly\n\nExit status: 1 if there is no such schedule."
)]
pub(crate) struct CronPauseArgs {
    #[command(flatten)]
    pub(crate) which: WhichSchedule,
}

/// Have a schedule go on, with the moments from now on.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  rushgate queue cron resume reports nightly\n\nExit status: 1 if there is no such schedule."
)]
pub(crate) struct CronResumeArgs {
    #[command(flatten)]
    pub(crate) which: WhichSchedule,
}

/// Take a schedule out; tasks that it has put in stay.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  rushgate queue cron rm reports nightly\n\nExit status: 1 if there is no such schedule."
)]
pub(crate) struct CronRmArgs {
    #[command(flatten)]
    pub(crate) which: WhichSchedule,
}

/// Fire the schedules of a queue until INT or TERM, where no worker of it does.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate queue cron tend reports")]
pub(crate) struct CronTendArgs {
    /// The queue.
    pub(crate) queue: String,
}
