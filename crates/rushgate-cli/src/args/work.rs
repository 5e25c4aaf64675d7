use std::ffi::OsString;
use std::net::{AddrParseError, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use rushgate::queue::ContentType;

use crate::duration;

/// Run a worker: a command or a webhook for each task.
///
/// The command gets the payload on stdin and the task in its environment: RUSHGATE_QUEUE, RUSHGATE_TASK,
/// RUSHGATE_KIND, RUSHGATE_TICKET, RUSHGATE_FENCE, RUSHGATE_ATTEMPT, and TRACEPARENT if the task has a trace. It runs
/// in its own process group, which is ended if the lease is lost. INT or TERM stops the worker: it claims nothing
/// more and lets tasks finish within the grace period. A second signal ends them.
///
/// A webhook gets the payload in a POST request and the task in headers, with the same idempotency key for every
/// attempt. With a secret (RUSHGATE_WEBHOOK_SECRET or --secret-file) requests are signed by the Standard Webhooks
/// specification.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("runner").args(["exec", "webhook"]).required(true)), after_help = "\
Examples:
  rushgate work mail --exec ./send-mail.sh
  rushgate work mail --concurrency 8 --until-empty \\
    --exec sh -c 'curl -sf -d @- http://localhost/mail'
  rushgate work sums --keep-output application/json --exec ./add.py
  rushgate work mail --metrics 9464 --exec ./send-mail.sh
  rushgate work urgent=6 mail=3 reports --concurrency 10 \\
    --webhook http://localhost:8080/tasks

Everything after --exec is the command. Its exit status decides what happens to the task:
   0  done
  75  retry, and report `later` instead of `failed`
  65  give up: the task becomes a dead letter
  any other, or a signal: failed; retried until no attempts remain
With a webhook, the status of the response decides:
  2xx  done
  400, 410, 413, 415, 422  give up: the task becomes a dead letter
  any other, or no response in time: failed; retried until no attempts remain,
       and not before the time in Retry-After; redirects are not followed
With --json, stdout has one line for each attempt and, when the worker stops, one with the \
`summary`. Output of the commands goes to stderr.
Exit status: 0 after a stop by signal, 126 or 127 if the command cannot be started.")]
pub(crate) struct WorkArgs {
    /// Queues, each with an optional weight [default: 1]. Busy queues share the concurrency by weight.
    #[arg(required = true, value_name = "QUEUE[=WEIGHT]")]
    pub(crate) queues: Vec<QueueWeight>,
    /// Concurrency: maximum number of tasks at a time.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) concurrency: u32,
    /// Lease duration. If a worker dies, its tasks become available again after this time.
    #[arg(long, value_parser = duration::parse, default_value = "30s", value_name = "DURATION")]
    pub(crate) lease: Duration,
    /// Time limit of a command or webhook [default: none for commands, 30s for webhooks].
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
    /// Maximum delay before the first retry. It doubles with each further failure. The actual delay is random, from zero
    /// to this maximum.
    #[arg(long, value_parser = duration::parse, default_value = "1s", value_name = "DURATION")]
    pub(crate) backoff: Duration,
    /// Maximum delay before any retry.
    #[arg(long, value_parser = duration::parse, default_value = "1h", value_name = "DURATION")]
    pub(crate) backoff_max: Duration,
    /// Grace period for running tasks after the worker is stopped.
    #[arg(long, value_parser = duration::parse, default_value = "10s", value_name = "DURATION")]
    pub(crate) grace: Duration,
    /// Stop when the queues are empty. Waits for scheduled and blocked tasks too, and for failed ones that are retried.
    #[arg(long)]
    pub(crate) until_empty: bool,
    /// Serve Prometheus metrics at /metrics on this address, or on this port of 127.0.0.1. They show names of queues
    /// and workers, but no payloads.
    #[arg(long, value_parser = listen_at, value_name = "[ADDR:]PORT")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Keep the stdout of a successful command as the task's result, with this content type: at most 64 KiB, and JSON
    /// is validated. Invalid output is a final failure. The queue needs a retention.
    #[arg(long, value_name = "TYPE", conflicts_with = "webhook")]
    pub(crate) keep_output: Option<ContentType>,
    /// The command and its arguments; all rushgate options go before it.
    #[arg(long, num_args = 1.., allow_hyphen_values = true, value_name = "CMD")]
    pub(crate) exec: Vec<OsString>,
    /// Webhook URL: http:// or https://.
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,
    /// File with the secret that signs webhooks.
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
