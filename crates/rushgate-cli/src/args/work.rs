use std::ffi::OsString;
use std::net::{AddrParseError, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use rushgate::ContentType;

use crate::duration;

/// Work queues off: a command or a webhook for each task.
///
/// The content comes on the command's stdin; RUSHGATE_QUEUE, RUSHGATE_TASK, RUSHGATE_KIND, RUSHGATE_TICKET,
/// RUSHGATE_FENCE and RUSHGATE_ATTEMPT are in its environment, and TRACEPARENT if the task has a trace. It gets a process
/// group of its own, which is ended if the lease is lost. INT or TERM stops the worker: it claims nothing more and lets
/// tasks finish within the grace; a second one ends them.
///
/// A webhook gets a POST with the content, and the same as headers, with an idempotency key that is that of every attempt.
/// It is signed as Standard Webhooks say if RUSHGATE_WEBHOOK_SECRET or --secret-file has a secret.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("hands").args(["exec", "webhook"]).required(true)), after_help = "\
Examples:
  rushgate work mail --exec ./send-mail.sh
  rushgate work mail --concurrency 8 --until-empty \\
    --exec sh -c 'curl -sf -d @- http://localhost/mail'
  rushgate work sums --keep-output application/json --exec ./add.py
  rushgate work mail --metrics 9464 --exec ./send-mail.sh
  rushgate work urgent=6 mail=3 reports --concurrency 10 \\
    --webhook http://localhost:8080/tasks

Everything after --exec is the command. Its exit status says what becomes of the task:
   0  done
  75  try again later
  65  give up: it becomes a dead letter
  any other, or a signal: failed; tried again until the attempts are used up
A webhook's answer does:
  2xx  done
  400, 410, 413, 415, 422  give up: it becomes a dead letter
  any other, and none in time: tried again until the attempts are used up,
       not before Retry-After if it says so; redirects are not followed
With --json, stdout has one line for each attempt and, when the worker stops, one with the `summary`; what the
commands print goes to stderr.
Exit status: 0 when stopped, 126 or 127 if the command cannot be started.")]
pub(crate) struct WorkArgs {
    /// The queues. While several have due tasks, each has its part of the hands by its weight, 1 unless it is said.
    #[arg(required = true, value_name = "QUEUE[=WEIGHT]")]
    pub(crate) queues: Vec<QueueWeight>,
    /// How many tasks are worked on at a time.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) concurrency: u32,
    /// What a worker that dies costs its tasks: they are held for so long, and renewed while they run.
    #[arg(long, value_parser = duration::parse, default_value = "30s", value_name = "DURATION")]
    pub(crate) lease: Duration,
    /// How long a command may run, or a webhook take to answer [default: none, 30s].
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
    /// How long tasks may go on after the worker is stopped.
    #[arg(long, value_parser = duration::parse, default_value = "10s", value_name = "DURATION")]
    pub(crate) grace: Duration,
    /// Stop when the queues have no task left. Delayed tasks and tasks that wait for others are left.
    #[arg(long)]
    pub(crate) until_empty: bool,
    /// Show Prometheus what the worker counts, at /metrics there: a port of 127.0.0.1, or an address and a port. Whoever
    /// reaches it may read names of queues and workers, and no content.
    #[arg(long, value_parser = listen_at, value_name = "[ADDR:]PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Keep what a command that succeeds writes to stdout as its task's result, of that type: at most 64 KiB, and JSON
    /// is checked; with anything else it is given up. The queue must have a retention.
    #[arg(long, value_name = "TYPE", conflicts_with = "webhook")]
    pub(crate) keep_output: Option<ContentType>,
    /// The command and its arguments; nothing of rushgate may follow it.
    #[arg(long, num_args = 1.., allow_hyphen_values = true, value_name = "CMD")]
    pub(crate) exec: Vec<OsString>,
    /// Where to send tasks: http:// or https://.
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,
    /// A file with the secret that webhooks are signed with.
    #[arg(long, value_name = "FILE", requires = "webhook")]
    pub(crate) secret_file: Option<PathBuf>,
}

/// A queue and its weight.
#[derive(Clone, Debug)]
pub(crate) struct QueueWeight {
    pub(crate) name: String,
    pub(crate) weight: u32,
}

/// An address, or a port of loopback.
fn listen_at(text: &str) -> Result<SocketAddr, AddrParseError> {
    text.parse().map_or_else(|_| text.parse(), |port| Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_loopback() {
        let read = |text: &str| listen_at(text).map(|address| address.to_string());
        assert_eq!(read("9464").as_deref(), Ok("127.0.0.1:9464"));
        assert_eq!(read("0.0.0.0:9464").as_deref(), Ok("0.0.0.0:9464"));
        assert_eq!(read("[::1]:0").as_deref(), Ok("[::1]:0"));
        assert!(read("localhost").is_err() && read("70000").is_err());
    }
}
