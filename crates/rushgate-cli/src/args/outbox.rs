use clap::{Args, Subcommand};

/// Enqueue tasks from transactions of your own database.
///
/// A transaction inserts a row into rushgate_outbox (SQLite) or rushgate.outbox (Postgres), or calls
/// rushgate.enqueue(queue, id, payload) (Postgres). A relay moves committed rows to the queues. Each of these
/// commands creates missing tables.
#[derive(Debug, Subcommand)]
pub(crate) enum OutboxVerb {
    Relay(RelayArgs),
    /// Show how many tasks are waiting or set aside, and the lag.
    #[command(after_help = "Example:\n  rushgate outbox stats sqlite:shop.db --json")]
    Stats(Place),
    Ls(LsArgs),
    /// Retry tasks that were set aside, after their rows were fixed.
    #[command(after_help = "\
Examples:
  rushgate outbox retry sqlite:shop.db --at 17 --at 19
  rushgate outbox retry sqlite:shop.db --all

Exit status: 1 if none of them was set aside.")]
    Retry(Which),
    /// Delete tasks that were set aside.
    #[command(after_help = "\
Examples:
  rushgate outbox delete sqlite:shop.db --at 17
  rushgate outbox delete sqlite:shop.db --all

Exit status: 1 if none of them was set aside.")]
    Delete(Which),
}

/// The database with the outbox.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Your own existing database: sqlite:PATH or postgres://USER@HOST/NAME. RUSHGATE_OUTBOX names it too, and keeps
    /// a password out of the process list.
    #[arg(env = "RUSHGATE_OUTBOX", value_name = "URL", hide_env = true)]
    pub(crate) database: String,
}

/// Move committed rows from the outbox to their queues, until INT or TERM.
///
/// Each committed task is enqueued exactly once, whatever fails, and in order within a queue. Any number of relays
/// may run: one is active, and another takes over when it ends. The relay retries through outages of store and
/// database. The first signal finishes the current step; a second one does not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate outbox relay sqlite:shop.db --store redis://localhost
  rushgate outbox relay postgres://shop@localhost/shop
  rushgate outbox relay sqlite:shop.db --until-empty

With --json, the relay prints one line when it stops: the `summary` with the numbers of tasks \
`moved` and `refused`, the number of `outages`, and `lag_max_us`, the longest wait of a task.")]
pub(crate) struct RelayArgs {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Stop when the outbox is empty.
    #[arg(long)]
    pub(crate) until_empty: bool,
}

/// List tasks that were set aside because no queue accepts them, with the reason.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate outbox ls sqlite:shop.db")]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Page size: 1 to 10,000.
    #[arg(short, long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) n: u32,
    /// Only positions after this one.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "POSITION")]
    pub(crate) after: i64,
}

/// Selects tasks that were set aside.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Which {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Position of the task, as `outbox ls` shows it; repeat for more.
    #[arg(long, value_name = "POSITION", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) at: Vec<i64>,
    /// All of them.
    #[arg(long)]
    pub(crate) all: bool,
}
