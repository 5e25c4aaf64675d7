use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::duration;

/// Run commands under a lock, inspect locks and force-release them.
#[derive(Debug, Subcommand)]
pub(crate) enum LockVerb {
    Run(RunArgs),
    Ls(LsArgs),
    /// Show the holder of a lock and its wait queue.
    #[command(after_help = "Example:\n  rushgate lock show nightly")]
    Show(OfLock),
    Release(ReleaseArgs),
    /// Force-release a lock and hand it to the next waiter.
    #[command(after_help = "\
Example:
  rushgate lock force-release nightly

Exit status: 1 if the lock is free.")]
    ForceRelease(OfLock),
}

/// Run a command while holding a lock.
///
/// The command runs without a shell, in its own process group, with the lock and its fencing token in the
/// environment: RUSHGATE_LOCK, RUSHGATE_FENCE, RUSHGATE_LOCK_TOKEN. The group is ended (TERM, then KILL) before the lock
/// can pass to another holder, and when the command exits. INT, TERM and HUP are forwarded to it. It cannot read from
/// a terminal.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate lock run nightly -- ./backup.sh --all
  rushgate lock run deploy --wait 0s --label \"release 7\" -- make deploy
  rushgate lock run counter -- sh -c 'echo \"fenced with $RUSHGATE_FENCE\"'

Exit status: the command's own, 128+n if it died of signal n, 127 if there is no such command, 126 if it cannot be \
started; 1 if the lock was not obtained in time or was lost.")]
pub(crate) struct RunArgs {
    /// Name of the lock.
    pub(crate) name: String,
    /// Lease duration. If this process dies, the lock becomes free after this time; while the command runs it is
    /// renewed.
    #[arg(long, value_parser = duration::parse, default_value = "15s", value_name = "DURATION")]
    pub(crate) lease: Duration,
    /// Maximum wait for the lock; 0s to fail at once.
    #[arg(long, value_parser = duration::parse, default_value = "30s", value_name = "DURATION")]
    pub(crate) wait: Duration,
    /// Label of the holder, as shown to operators [default: the command].
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// What to do if the lock is lost.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) on_lost: OnLost,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// What `lock run` does if the lock is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLost {
    /// End the command.
    #[default]
    Kill,
    /// Warn, and let the command continue: its writes must be fenced.
    Warn,
}

/// List the locks that are held or waited for.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate lock ls --json | jq -r '.[].name'")]
pub(crate) struct LsArgs {
    /// Page size.
    #[arg(short, long, default_value_t = 1_000)]
    pub(crate) n: u32,
    /// Only names after this one.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(crate) after: String,
}

/// A lock.
#[derive(Debug, Args)]
pub(crate) struct OfLock {
    /// Name of the lock.
    pub(crate) name: String,
}

/// Release a lock by the holder's token.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate lock release nightly --token \"$RUSHGATE_LOCK_TOKEN\"

Exit status: 1 if the token does not hold the lock.")]
pub(crate) struct ReleaseArgs {
    /// Name of the lock.
    pub(crate) name: String,
    /// Token of the holder.
    #[arg(long)]
    pub(crate) token: String,
}
