//! `rushgate work`: a command for each task.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rushgate::{CancellationToken, Job, Outcome, Payload, Queue, Rushgate, Worker, WorkerReport};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::args::work::WorkArgs;
use crate::exit::Exit;
use crate::globals::Globals;
use crate::group::{Group, command, not_started, status};
use crate::log;
use crate::output::{Output, Paint};
use crate::signals::Signals;
use crate::warden::Warden;

/// "Try again later", `EX_TEMPFAIL` of sysexits.h.
const TEMPFAIL: u8 = 75;
/// "Give up", `EX_DATAERR` of sysexits.h.
const DATAERR: u8 = 65;
/// How often to look whether the queue is empty.
const EMPTY_CHECK: Duration = Duration::from_millis(50);

pub(crate) async fn run(args: WorkArgs, globals: &Globals) -> Result<Exit> {
    let output = globals.output();
    log::show(output);
    warn_of_lost_options(&args.exec, output);
    globals.with_gate(async |gate| work(&gate, args, output).await).await
}

/// An option that is typed after the command is the command's, which is seldom meant.
fn warn_of_lost_options(exec: &[OsString], output: Output) {
    const OURS: [&str; 6] = ["--concurrency", "--lease", "--timeout", "--grace", "--until-empty", "--json"];
    for word in exec.iter().filter_map(|word| word.to_str()).filter(|word| OURS.contains(word)) {
        output.note(format_args!("note: `{word}` comes after --exec and is handed to the command"));
    }
}

async fn work(gate: &Rushgate, args: WorkArgs, output: Output) -> Result<Exit> {
    let queue = gate.queue(&args.queue)?;
    let (shutdown, second_signal) = Signals::listen().context("signals cannot be listened for")?.cancels();
    let shop = Arc::new(Shop {
        queue: args.queue.clone(),
        exec: args.exec.clone(),
        output,
        shutdown: shutdown.clone(),
        lease: args.lease,
        fault: Mutex::default(),
    });
    let worker = worker(&queue, &args);
    let handler = {
        let shop = Arc::clone(&shop);
        move |job| {
            let shop = Arc::clone(&shop);
            async move { shop.carry_out(job).await }
        }
    };
    let report = tokio::select! {
        report = worker.run(handler, shutdown.clone()) => report?,
        _ = second_signal => {
            output.note("stopped at once; the tasks at hand come again when their leases run out");
            return Ok(Exit::Done);
        }
        never = until_empty(&queue, args.until_empty, &shutdown) => match never? {},
    };
    say(report, output)?;
    match shop.fault.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(fault) => Err(fault),
        None => Ok(Exit::Done),
    }
}

fn worker(queue: &Queue, args: &WorkArgs) -> Worker {
    let worker = Worker::new(queue.clone()).concurrency(args.concurrency).lease(args.lease).grace(args.grace);
    match args.timeout {
        Some(timeout) => worker.timeout(timeout),
        None => worker,
    }
}

/// There is no such value.
enum Never {}

/// Stops the work once nothing is left in the queue.
async fn until_empty(queue: &Queue, wanted: bool, shutdown: &CancellationToken) -> Result<Never> {
    if wanted {
        while !is_empty(queue).await? {
            sleep(EMPTY_CHECK).await;
        }
        shutdown.cancel();
    }
    std::future::pending().await
}

async fn is_empty(queue: &Queue) -> Result<bool> {
    let stats = queue.stats().await?;
    Ok(stats.ready + stats.scheduled + stats.leased == 0)
}

/// The summary: data for a program, after the lines about tasks; for people a remark, since stdout is the commands'.
fn say(report: WorkerReport, output: Output) -> Result<()> {
    let WorkerReport { done, retried, dead, given_back, lost, .. } = report;
    if output.is_json() {
        let summary = json!({
            "done": done, "retried": retried, "dead": dead, "given_back": given_back, "lost": lost
        });
        return output.line(&json!({ "summary": summary }), "");
    }
    output.note(format_args!(
        "{done} done, {retried} to be retried, {dead} dead, {given_back} given back, {lost} lost"
    ));
    Ok(())
}

/// What the commands share.
struct Shop {
    queue: String,
    exec: Vec<OsString>,
    output: Output,
    shutdown: CancellationToken,
    lease: Duration,
    /// Why no command can be started.
    fault: Mutex<Option<anyhow::Error>>,
}

impl Shop {
    async fn carry_out(self: Arc<Self>, job: Job<Payload>) -> Outcome {
        let mut line = Line::new(&self, &job);
        let mut group = match self.start(&job).await {
            Ok(group) => group,
            Err(error) => {
                // Every task would fare the same: keep them all.
                *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                self.shutdown.cancel();
                line.ends("not started");
                return Outcome::GiveBack;
            }
        };
        match self.wait(&mut group, &job).await {
            Ok(ended) => {
                group.end_left_behind().await;
                line.judge(ended)
            }
            Err(error) => {
                line.ends("failed");
                Outcome::retry(error)
            }
        }
    }

    async fn start(&self, job: &Job<Payload>) -> Result<Group> {
        let warden = Warden::start().await.context("the command's warden cannot be started")?;
        warden.watch(self.alive()).await;
        Group::start_under(warden, self.command(job)).map_err(|error| not_started(&self.exec, &error).into())
    }

    /// What the warden is told again and again while this process lives. If it is stopped, the command ends before
    /// its lease does: that is extended at a third.
    fn alive(&self) -> Duration {
        self.lease / 3
    }

    /// Hands the content over and waits for the end. Whoever drops this ends the command by dropping the group: its
    /// lease is lost, or it took too long.
    async fn wait(&self, group: &mut Group, job: &Job<Payload>) -> std::io::Result<ExitStatus> {
        let content = job.payload.clone();
        let stdin = group.child().stdin.take();
        // On its own, since a command need not read its content.
        let handing_over = tokio::spawn(async move {
            if let Some(mut stdin) = stdin {
                let _ = stdin.write_all(content.bytes()).await;
            }
        });
        let mut tick = interval((self.lease / 10).max(Duration::from_millis(2)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = false;
        let ended = loop {
            tokio::select! {
                ended = group.child().wait() => break ended,
                () = job.cancel.cancelled(), if !told => {
                    // The worker gives it its grace; then it ends by force.
                    group.signal(Signal::TERM);
                    told = true;
                }
                _ = tick.tick() => group.watch(self.alive()).await,
            }
        };
        handing_over.abort();
        ended
    }

    fn command(&self, job: &Job<Payload>) -> Command {
        let mut command = command(&self.exec);
        command
            .stdin(Stdio::piped())
            .env("RUSHGATE_QUEUE", &self.queue)
            .env("RUSHGATE_TASK", job.id().as_str())
            .env("RUSHGATE_TICKET", job.ticket.to_string())
            .env("RUSHGATE_FENCE", job.fence().to_string())
            .env("RUSHGATE_ATTEMPT", job.attempt.to_string());
        if self.output.is_json() {
            // stdout has one line of JSON for each task, and the summary.
            command.stdout(std::io::stderr());
        }
        command
    }
}

/// The line about one task. If nothing else was said by the time it is dropped, the task was lost on the way.
struct Line {
    output: Output,
    id: String,
    attempt: u32,
    started: Instant,
    said: bool,
}

impl Line {
    fn new(shop: &Shop, job: &Job<Payload>) -> Self {
        Self {
            output: shop.output,
            id: job.id().to_string(),
            attempt: job.attempt,
            started: Instant::now(),
            said: false,
        }
    }

    fn judge(&mut self, ended: ExitStatus) -> Outcome {
        let why = ended.to_string();
        match status(ended) {
            Exit::Passed(0) => {
                self.says("done", &why, Paint::Good);
                Outcome::Done
            }
            Exit::Passed(DATAERR) => {
                self.says("given up", &why, Paint::Bad);
                Outcome::give_up(&why)
            }
            Exit::Passed(TEMPFAIL) => {
                self.says("later", &why, Paint::Notice);
                Outcome::retry(&why)
            }
            _ => {
                self.says("failed", &why, Paint::Bad);
                Outcome::retry(&why)
            }
        }
    }

    fn ends(&mut self, outcome: &str) {
        self.says(outcome, "", Paint::Bad);
    }

    fn says(&mut self, outcome: &str, why: &str, paint: Paint) {
        self.said = true;
        let (id, attempt, elapsed) = (&self.id, self.attempt, self.started.elapsed());
        if self.output.is_json() {
            let word = outcome.replace(' ', "_");
            let elapsed_ms = elapsed.as_millis() as u64;
            let line = json!({
                "task": id, "attempt": attempt, "outcome": word, "status": why, "elapsed_ms": elapsed_ms
            });
            // Nobody reads the lines any more; the work goes on.
            let _ = self.output.line(&line, "");
            return;
        }
        let outcome = self.output.paint(paint, outcome);
        let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
        self.output.note(format_args!("{outcome} {id} attempt {attempt} in {elapsed:.0?}{why}"));
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if !self.said {
            self.ends("stopped");
        }
    }
}
