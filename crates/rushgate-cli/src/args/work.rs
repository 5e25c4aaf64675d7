use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use crate::duration;

/// Work a queue off: run a command for each task.
///
/// The content comes on the command's stdin; RUSHGATE_QUEUE, RUSHGATE_TASK, RUSHGATE_TICKET, RUSHGATE_FENCE and
/// RUSHGATE_ATTEMPT are in its environment. It gets a process group of its own, which is ended if the lease is lost.
/// INT or TERM stops the worker: it claims nothing more and lets commands finish within the grace; a second one ends
/// them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate work mail --exec ./send-mail.sh
  rushgate work mail --concurrency 8 --until-empty \\
    --exec sh -c 'curl -sf -d @- http://localhost/mail'

Everything after --exec is the command. Its exit status says what becomes of the task:
   0  done
  75  try again later
  65  give up: it becomes a dead letter
  any other, or a signal: failed; tried again until the attempts are used up
With --json, stdout has one line for each attempt and, when the worker stops, one with the `summary`; what the
commands print goes to stderr.
Exit status: 0 when stopped, 126 or 127 if the command cannot be started.")]
pub(crate) struct WorkArgs {
    /// The queue.
    pub(crate) queue: String,
    /// How many commands run at a time.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) concurrency: u32,
    /// What a worker that dies costs its tasks: they are held for so long, and renewed while they run.
    #[arg(long, value_parser = duration::parse, default_value = "30s", value_name = "DURATION")]
    pub(crate) lease: Duration,
    /// How long a command may run.
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
    /// How long commands may go on after the worker is stopped.
    #[arg(long, value_parser = duration::parse, default_value = "10s", value_name = "DURATION")]
    pub(crate) grace: Duration,
    /// Stop when the queue has no task left, delayed ones included.
    #[arg(long)]
    pub(crate) until_empty: bool,
    /// The command and its arguments; nothing of rushgate may follow it.
    #[arg(long, required = true, num_args = 1.., allow_hyphen_values = true, value_name = "CMD")]
    pub(crate) exec: Vec<OsString>,
}
