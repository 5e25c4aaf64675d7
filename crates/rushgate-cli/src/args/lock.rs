use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::duration;

/// Hold a lock while a command runs; look at locks, and break them.
#[derive(Debug, Subcommand)]
pub(crate) enum LockVerb {
    Run(RunArgs),
    Ls(LsArgs),
    Show(ShowArgs),
    Release(ReleaseArgs),
    Break(BreakArgs),
}

impl LockVerb {
    /// Whether it changes nothing.
    pub(crate) const fn only_looks(&self) -> bool {
        matches!(self, Self::Ls(_) | Self::Show(_))
    }
}

/// Run a command while holding a lock.
///
/// No shell is started. The command gets a process group of its own, which is ended (TERM, then KILL) before the lock
/// can pass to another, and the fence of the lock in its environment: RUSHGATE_LOCK, RUSHGATE_FENCE, RUSHGATE_TOKEN.
/// INT, TERM and HUP are passed on to it. What it leaves behind in its group ends with it. It cannot read from a
/// terminal.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate lock run nightly -- ./backup.sh --all
  rushgate lock run deploy --wait 0s --label \"release 7\" -- make deploy
  rushgate lock run counter -- sh -c 'echo \"fenced with $RUSHGATE_FENCE\"'

Exit status: the command's own, 128+n if it died of signal n, 127 if there is no such command, 126 if it cannot be
started; 1 if the lock was not obtained in time or was lost.")]
pub(crate) struct RunArgs {
    /// The lock.
    pub(crate) name: String,
    /// What this process costs the others if it dies: the lock is renewed while the command runs.
    #[arg(long, value_parser = duration::parse, default_value = "15s", value_name = "DURATION")]
    pub(crate) lease: Duration,
    /// How long to wait in line; 0s not to wait.
    #[arg(long, value_parser = duration::parse, default_value = "30s", value_name = "DURATION")]
    pub(crate) wait: Duration,
    /// What others see of the holder [default: the command].
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// What to do when the lock is lost.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) on_lost: OnLost,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// What `lock run` does when the lock is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// End the command.
    #[default]
    Kill,
    /// Say so, and let the command go on: its writes must be fenced.
    Warn,
}

/// List the locks that are held or waited for.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate lock ls --json | jq -r '.[].name'")]
pub(crate) struct LsArgs {
    /// At most so many.
    #[arg(short, long, default_value_t = 1_000)]
    pub(crate) n: u32,
    /// Only names after this one.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(crate) after: String,
}

/// Show who holds a lock and who waits for it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate lock show nightly")]
pub(crate) struct ShowArgs {
    /// The lock.
    pub(crate) name: String,
}

/// Release a lock by the token that its holder was given.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate lock release nightly --token \"$RUSHGATE_TOKEN\"

Exit status: 1 if the token does not hold the lock.")]
pub(crate) struct ReleaseArgs {
    /// The lock.
    pub(crate) name: String,
    /// The holder's token.
    #[arg(long)]
    pub(crate) token: String,
}

/// Take a lock from whoever holds it, and hand it to the first in line.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate lock break nightly

Exit status: 1 if nobody holds it.")]
pub(crate) struct BreakArgs {
    /// The lock.
    pub(crate) name: String,
}
