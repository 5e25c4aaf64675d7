use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::settings::ServeOptions;

/// Say what a deployment promises, what is amiss, and what to do.
///
/// It looks at the store, at the ledger if one is named, at the library of functions on a Redis or Valkey server, and
/// at what rushgate.toml and the environment tell `rushgate serve`, if they tell it anything. It takes the lock
/// `rushgate:doctor` and gives it back, to see whether a write works, and changes nothing else.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate doctor --store sqlite:shop.db
  rushgate doctor --strict --store redis://HOST --orders postgres://HOST/NAME

Exit status: 0, and with --strict 1 if anything is amiss.")]
pub(crate) struct DoctorArgs {
    /// End with 1 if anything is amiss.
    #[arg(long)]
    pub(crate) strict: bool,
    /// What a server is told in the file and in the environment.
    #[arg(skip)]
    pub(crate) serve: ServeOptions,
}

/// Measure a store: rate and latency with many callers.
///
/// A fresh file in the temporary directory is measured, unless --store or RUSHGATE_STORE names a store; what is put
/// there is named `bench-…` and taken out again, but for the sale, which is ended.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate bench lock
  rushgate bench queue --callers 1 --seconds 5 --store sqlite:bench.db")]
pub(crate) struct BenchArgs {
    /// What to measure.
    #[arg(value_enum)]
    pub(crate) subject: Subject,
    /// How many callers there are at a time.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) callers: u32,
    /// For how long.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub(crate) seconds: u32,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// Acquire and release, each caller its own lock.
    Lock,
    /// Enqueue, claim and complete.
    Queue,
    /// Reserve, a new buyer each time.
    Sale,
}

/// Print the completions of a shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  rushgate completions bash > /etc/bash_completion.d/rushgate")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Give other languages the same verbs, as functions on a server.
#[derive(Debug, Subcommand)]
pub(crate) enum FunctionsVerb {
    Print(PrintArgs),
    Install(InstallArgs),
    Check(CheckArgs),
}

/// Print the function library, as FUNCTION LOAD takes it.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate functions print | redis-cli -x FUNCTION LOAD REPLACE")]
pub(crate) struct PrintArgs {}

/// Install the function library on the server, in place of an older one.
///
/// The server keeps it with its data and passes it on to its replicas. Installing what is there already changes nothing.
/// A newer library, and one of the same name that is not Rushgate's, are kept.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate functions install --store redis://127.0.0.1:6379

Exit status: 1 if a newer or foreign library was kept.")]
pub(crate) struct InstallArgs {
    /// Replace a newer or foreign library too.
    #[arg(long)]
    pub(crate) force: bool,
}

/// Say whether the server has this very function library.
///
/// The answer is same, missing, older, newer, other_build (of this version, with another content), edited (changed after
/// it was made) or foreign (of the same name, and not Rushgate's).
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate functions check --store redis://127.0.0.1:6379 || exit 1

Exit status: 1 if it is not the same.")]
pub(crate) struct CheckArgs {}

impl Subject {
    /// Its name.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Queue => "queue",
            Self::Sale => "sale",
        }
    }
}

impl BenchArgs {
    /// For how long.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }
}
