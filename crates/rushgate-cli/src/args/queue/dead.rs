use clap::{Args, Subcommand};

use super::{FilterArgs, PageArgs};

/// List, requeue or delete dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadVerb {
    /// List dead letters by ID, with their errors.
    #[command(after_help = "Example:\n  rushgate queue dead ls mail")]
    Ls(PageArgs),
    /// Requeue dead letters: due at once, with all their attempts.
    #[command(after_help = "\
Examples:
  rushgate queue dead requeue mail order:42
  rushgate queue dead requeue mail --all
  rushgate queue dead requeue mail --kind welcome --dry-run

Exit status: 1 if no dead letter was requeued.")]
    Requeue(Which),
    /// Delete dead letters.
    #[command(after_help = "\
Examples:
  rushgate queue dead delete mail order:42
  rushgate queue dead delete mail --all
  rushgate queue dead delete mail --id-prefix order:

Exit status: 1 if nothing was deleted.")]
    Delete(Which),
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
