use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::duration;
use crate::settings::ServeOptions;

/// Check configuration, durability and health, and suggest fixes.
///
/// Checks the store, the ledger if one is named, the function library on a Redis or Valkey server, and the settings
/// of `rushgate serve` in rushgate.toml and the environment. To test a write it acquires and releases the lock
/// `rushgate:doctor`; it changes nothing else.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate doctor --store sqlite:shop.db
  rushgate doctor --strict --store redis://HOST --orders postgres://HOST/NAME

Exit status: 0, and with --strict 1 if a check fails.")]
pub(crate) struct DoctorArgs {
    /// Exit with 1 if a check fails.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Settings of a server, from the file and the environment.
    #[arg(skip)]
    pub(crate) serve: ServeOptions,
}

/// Show a dashboard of queues, locks and sales.
///
/// It refreshes until q, Esc or ^C. Tab selects a panel, and the arrow keys scroll it. Red rows need attention: tasks wait
/// for more than a minute, orders failed, or a sale is halted.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate top
  rushgate top --url https://rushgate.example.com --every 5s")]
pub(crate) struct TopArgs {
    /// Refresh interval.
    #[arg(long, value_parser = duration::parse, default_value = "1s", value_name = "DURATION")]
    pub(crate) every: Duration,
}

/// Benchmark a store: throughput and latency.
///
/// Measures a fresh file in the temporary directory, unless --store, --url or their variables name another place. There
/// it uses names that begin with `bench-` and deletes them, except the sale, which is ended.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate bench lock
  rushgate bench queue --callers 1 --seconds 5 --store sqlite:bench.db")]
pub(crate) struct BenchArgs {
    /// What to measure.
    #[arg(value_enum)]
    pub(crate) subject: Subject,
    /// Number of concurrent callers.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) callers: u32,
    /// Duration of each measurement.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3_600))]
    pub(crate) seconds: u32,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// Acquire and release, one lock per caller.
    Lock,
    /// Enqueue, claim and complete.
    Queue,
    /// Reserve, with a new buyer each time.
    Sale,
}

/// Print the script that completes commands in a shell.
///
/// It completes commands, options and the names of locks, queues and sales in the store or at the server that the
/// command would use. The script asks `rushgate` for them, so load it again after an upgrade.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  echo 'source <(rushgate completions bash)' >> ~/.bashrc
  echo 'source <(rushgate completions zsh)' >> ~/.zshrc
  rushgate completions fish > ~/.config/fish/completions/rushgate.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Write the man pages: rushgate(1) and one page for each command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate man --dir /usr/local/share/man/man1
  man rushgate-lock-run")]
pub(crate) struct ManArgs {
    /// Directory for the pages. It is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// Manage the function library for clients in other languages.
#[derive(Debug, Subcommand)]
pub(crate) enum FunctionsVerb {
    /// Print the function library in the format of FUNCTION LOAD.
    #[command(after_help = "\
Example:
  rushgate functions print | redis-cli -x FUNCTION LOAD REPLACE")]
    Print,
    Install(InstallArgs),
    /// Compare the server's function library with this one.
    ///
    /// The answer is same, missing, older, newer or other_build (this version with other content).
    #[command(after_help = "\
Example:
  rushgate functions check --store redis://127.0.0.1:6379 || exit 1

Exit status: 1 if it is not the same.")]
    Check,
}

/// Install or upgrade the function library on the server.
///
/// The server stores it with its data and replicates it. Installing an identical library changes nothing, and a newer
/// one is not replaced. Every command and every Rust program that opens the store installs it too, so run this where
/// only programs in other languages do, or where the Redis user of your programs may not install it.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rushgate functions install --store redis://127.0.0.1:6379

Exit status: 1 if a newer library was kept.")]
pub(crate) struct InstallArgs {
    /// Replace a newer library too.
    #[arg(long)]
    pub(crate) force: bool,
}

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
