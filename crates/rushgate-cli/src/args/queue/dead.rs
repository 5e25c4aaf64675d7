use clap::{Args, Subcommand};

use super::FilterArgs;

/// List, requeue or delete dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadVerb {
    Ls(DeadLsArgs),
    Requeue(DeadRequeueArgs),
    Delete(DeadDeleteArgs),
}

/// List dead letters by ID, with their errors.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate queue dead ls mail")]
pub(crate) struct DeadLsArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// Page size.
    #[arg(short, long, default_value_t = 1_000)]
    pub(crate) n: u32,
    /// Only IDs after this one.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID")]
    pub(crate) after: String,
}

/// Selects dead letters.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Which {
    /// Name of the queue.
    pub(crate) queue: String,
    /// IDs of dead letters.
    #[arg(
        required_unless_present_any = ["all", "id_prefix", "kind"],
        conflicts_with_all = ["id_prefix", "kind", "dry_run"],
        value_name = "ID"
    )]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// All dead letters.
    #[arg(long, conflicts_with_all = ["ids", "id_prefix", "kind"])]
    pub(crate) all: bool,
    /// Only print how many.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Requeue dead letters: due at once, with all their attempts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue dead requeue mail order:42
  rushgate queue dead requeue mail --all
  rushgate queue dead requeue mail --kind welcome --dry-run

Exit status: 1 if no dead letter was requeued.")]
pub(crate) struct DeadRequeueArgs {
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

Exit status: 1 if nothing was deleted.")]
pub(crate) struct DeadDeleteArgs {
    #[command(flatten)]
    pub(crate) which: Which,
}
