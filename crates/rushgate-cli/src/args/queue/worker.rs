use clap::{Args, Subcommand};
use rushgate::queue::WorkerMode;

use super::PageArgs;
use crate::args::words;

/// Workers of a queue: list them, quiet or stop one.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkerVerb {
    /// List the workers that live, busy or idle.
    ///
    /// A worker announces itself every 10 s. One that died is listed for up to 30 s. The number
    /// of running tasks is as of its latest announcement.
    #[command(after_help = "\
Examples:
  rushgate queue worker ls mail
  rushgate queue worker ls mail --json")]
    Ls(PageArgs),
    Set(SetWorkerArgs),
}

/// Ask a worker to claim no more tasks, to stop, or to work again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rushgate queue worker set mail 5f0c3a9e81d2b746 quiet
  rushgate queue worker set mail 5f0c3a9e81d2b746 stop

A worker does so within 10 s. A quiet worker keeps running its tasks and claims none from this queue. A worker that is to
stop lets its tasks end, within its grace, and exits; a supervisor may start a new one.
Exit status: 1 if the worker is not listed.")]
pub(crate) struct SetWorkerArgs {
    /// Name of the queue.
    pub(crate) queue: String,
    /// ID of the worker.
    pub(crate) worker: String,
    /// What it is to do.
    #[arg(value_parser = words::worker_mode())]
    pub(crate) mode: WorkerMode,
}
