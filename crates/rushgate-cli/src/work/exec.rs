//! `work --exec`: runs a command for each task.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Result;
use clap::Arg;
use rushgate::Job;
use rushgate::queue::{Completion, ContentType, Payload};
use rushgate::worker::Outcome;
use rustix::process::Signal;
use serde::de::IgnoredAny;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::line::Line;
use super::stop::Stop;
use super::tail::Tail;
use crate::args;
use crate::args::work::WorkArgs;
use crate::exit::{Exit, Fault};
use crate::group::{Group, command, not_started, status};
use crate::output::Output;
use crate::spans;
use crate::watchdog::{self, Watchdog};

/// `EX_TEMPFAIL` of sysexits.h: retry later.
const TEMPFAIL: u8 = 75;
/// `EX_DATAERR` of sysexits.h: give up.
const DATAERR: u8 = 65;
/// Time limit for the end of a command's output after its process group has ended.
const OUTPUT_END_MAX: Duration = Duration::from_secs(1);

/// Warns about options after the command: they belong to the command, which is rarely intended.
pub(super) fn warn_of_lost_options(exec: &[OsString], output: Output) {
    let command = args::command();
    let ours = command.find_subcommand("work").into_iter().flat_map(clap::Command::get_arguments);
    // Other programs have most global options too, such as `--url`, so only `--json` is pointed out.
    let ours: Vec<_> = ours.filter_map(Arg::get_long).chain(["json"]).collect();
    let options = exec.iter().filter_map(|word| word.to_str()?.strip_prefix("--"));
    for name in options.filter(|name| ours.contains(name)) {
        output.note(format_args!("note: `--{name}` comes after --exec and is passed to the command"));
    }
}

/// State shared by the commands.
pub(super) struct Executor {
    exec: Vec<OsString>,
    output: Output,
    /// Media type of a command's output, if the output is the task's result.
    kept: Option<ContentType>,
    lease: Duration,
    /// Error because of which no command can be started.
    fault: Stop,
}

impl Executor {
    pub(super) fn new(args: &WorkArgs, output: Output, fault: Stop) -> Self {
        let (exec, kept) = (args.exec.clone(), args.keep_output.clone());
        Self { exec, output, kept, lease: args.lease, fault }
    }

    pub(super) async fn carry_out(&self, job: Job) -> Outcome {
        let mut line = Line::new(self.output, &job);
        let mut group = match self.start(&job).await {
            Ok(group) => group,
            Err(error) => {
                line.ends("not started");
                // Every task would fail in the same way, so release them all. A requested stop is not an
                // error.
                if !is_interrupted(&error) {
                    self.fault.is(error);
                }
                return Outcome::Release;
            }
        };
        match self.wait(&mut group, &job).await {
            Ok((ended, Written { stdout, stderr })) => {
                group.end_left_behind().await;
                // A process that left the group may keep stderr open.
                let tail =
                    timeout(OUTPUT_END_MAX, stderr).await.ok().and_then(Result::ok).unwrap_or_default();
                if job.cancel.is_cancelled() {
                    return line.cancelled(&ended.to_string());
                }
                self.judge(&mut line, ended, stdout, &tail.text()).await
            }
            Err(error) => {
                line.ends("failed");
                Outcome::retry(error)
            }
        }
    }

    async fn start(&self, job: &Job) -> Result<Group> {
        let watchdog = Watchdog::start().await?;
        watchdog.watch(self.alive()).await;
        Group::start_under(watchdog, self.command(job))
            .map_err(|error| not_started(&self.exec, &error).into())
    }

    /// Deadline that this process renews at the watchdog. The lease is extended after each third. So if this
    /// process is suspended, the command ends before its lease expires.
    fn alive(&self) -> Duration {
        self.lease / 3
    }

    /// Writes the payload to the command, and waits for it to end. Also returns its output. Dropping the
    /// future drops the group, which kills the command: its lease is lost, or it timed out.
    async fn wait(&self, group: &mut Group, job: &Job) -> Result<(ExitStatus, Written)> {
        let content = job.payload.clone();
        let stdin = group.child().stdin.take();
        // In its own task, because a command need not read its input.
        let handing_over = tokio::spawn(async move {
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(content.bytes()).await;
            }
        });
        // In their own tasks, because a command with a full pipe blocks.
        let mut stdout = JoinSet::new();
        stdout.spawn(read_all(group.child().stdout.take()));
        let stderr = tokio::spawn(Tail::copied(group.child().stderr.take()));
        let mut tick = interval((self.lease / 10).max(Duration::from_millis(2)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = false;
        let ended = loop {
            tokio::select! {
                ended = group.wait() => break ended,
                () = job.cancel.cancelled(), if !told => {
                    // The worker gives the command its grace, and then kills it.
                    group.signal(Signal::TERM);
                    told = true;
                }
                _ = tick.tick() => group.watch(self.alive()).await,
            }
        };
        handing_over.abort();
        Ok((ended?, Written { stdout, stderr }))
    }

    fn command(&self, job: &Job) -> Command {
        let mut command = command(&self.exec);
        command
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .env("RUSHGATE_QUEUE", job.queue.as_str())
            .env("RUSHGATE_TASK", job.id().as_str())
            .env("RUSHGATE_TICKET", job.ticket.to_string())
            .env("RUSHGATE_FENCE", job.fence().to_string())
            .env("RUSHGATE_ATTEMPT", job.attempt.to_string())
            .env("RUSHGATE_KIND", job.kind().unwrap_or_default());
        match spans::current().or_else(|| job.traceparent()) {
            Some(parent) => command.env("TRACEPARENT", parent.as_str()),
            // This process's own trace would be a different one.
            None => command.env_remove("TRACEPARENT"),
        };
        if self.kept.is_some() {
            command.stdout(Stdio::piped());
        } else if self.output.json {
            // stdout is reserved for one line of JSON per task and the summary.
            command.stdout(std::io::stderr());
        }
        command
    }

    async fn judge(
        &self,
        line: &mut Line,
        ended: ExitStatus,
        stdout: JoinSet<Vec<u8>>,
        tail: &str,
    ) -> Outcome {
        let why = ended.to_string();
        let error = if tail.is_empty() { why.clone() } else { format!("{why}: {tail}") };
        match (status(ended), &self.kept) {
            (Exit::Passed(0), None) => line.done(&why),
            (Exit::Passed(0), Some(kept)) => match result(stdout, kept).await {
                Ok(result) => line.done_with(&why, result),
                Err(error) => line.given_up(&error, &error),
            },
            (Exit::Passed(DATAERR), _) => line.given_up(&why, &error),
            (Exit::Passed(TEMPFAIL), _) => {
                line.later(&why);
                Outcome::retry(&error)
            }
            _ => line.failed(&why, &error),
        }
    }
}

/// What a command writes.
struct Written {
    stdout: JoinSet<Vec<u8>>,
    stderr: JoinHandle<Tail>,
}

/// True if a command was not started because this process was asked to end.
fn is_interrupted(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Fault>().is_some_and(|fault| fault.code == watchdog::INTERRUPTED)
}

/// Reads slightly more than the maximum result. Discards the rest.
async fn read_all(pipe: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut written = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = (&mut pipe).take(Completion::RESULT_MAX as u64 + 1).read_to_end(&mut written).await;
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
    written
}

/// Output of a command as the result of its task, or the reason why it cannot be one.
async fn result(mut output: JoinSet<Vec<u8>>, kept: &ContentType) -> Result<Payload, String> {
    let Ok(Some(Ok(written))) = timeout(OUTPUT_END_MAX, output.join_next()).await else {
        return Err("a background process keeps its output open".into());
    };
    if written.len() > Completion::RESULT_MAX {
        return Err(format!("its output exceeds {} bytes", Completion::RESULT_MAX));
    }
    if kept.is_json()
        && let Err(error) = serde_json::from_slice::<IgnoredAny>(&written)
    {
        return Err(format!("its output is not JSON: {error}"));
    }
    Payload::new(kept.clone(), written).map_err(|error| error.to_string())
}
