//! Output line of one task.

use std::time::Instant;

use rushgate::Job;
use rushgate::queue::Payload;
use rushgate::worker::Outcome;
use serde_json::json;

use crate::output::{Output, Paint};

/// Prints the line of one task. If it is dropped without an outcome, the task was lost.
pub(super) struct Line {
    output: Output,
    id: String,
    attempt: u32,
    started: Instant,
    said: bool,
}

impl Line {
    pub(super) fn new(output: Output, job: &Job) -> Self {
        Self { output, id: job.id().to_string(), attempt: job.attempt, started: Instant::now(), said: false }
    }

    /// The task is done.
    pub(super) fn done(&mut self, why: &str) -> Outcome {
        self.says("done", why, Paint::Good);
        Outcome::Done
    }

    /// The task is done, with a result.
    pub(super) fn done_with(&mut self, why: &str, result: Payload) -> Outcome {
        self.says("done", why, Paint::Good);
        Outcome::DoneWith(result)
    }

    /// The task failed for good. `error` is kept with it.
    pub(super) fn given_up(&mut self, why: &str, error: &str) -> Outcome {
        self.says("given up", why, Paint::Bad);
        Outcome::give_up(error)
    }

    /// The command asked for another attempt.
    pub(super) fn later(&mut self, why: &str) {
        self.says("later", why, Paint::Notice);
    }

    /// The attempt failed and will be retried. `error` is kept with the task.
    pub(super) fn failed(&mut self, why: &str, error: &str) -> Outcome {
        self.says("failed", why, Paint::Bad);
        Outcome::retry(error)
    }

    /// It was canceled, so its outcome is ignored.
    pub(super) fn cancelled(&mut self, why: &str) -> Outcome {
        self.says("cancelled", why, Paint::Notice);
        Outcome::Done
    }

    /// The task ended without an answer.
    pub(super) fn ends(&mut self, outcome: &str) {
        self.says(outcome, "", Paint::Bad);
    }

    fn says(&mut self, outcome: &str, why: &str, paint: Paint) {
        self.said = true;
        let (id, attempt, elapsed) = (&self.id, self.attempt, self.started.elapsed());
        if self.output.json {
            let word = outcome.replace(' ', "_");
            let elapsed_ms = elapsed.as_millis() as u64;
            let line = json!({
                "task": id, "attempt": attempt, "outcome": word, "status": why, "elapsed_ms": elapsed_ms
            });
            // The reader has left; the work continues.
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
