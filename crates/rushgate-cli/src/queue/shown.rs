//! Formats tasks and dead letters.

use std::fmt::{Display, Write};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rushgate::{
    ContentType, DeadLetter, Finish, Finished, PastEnd, PastRun, Payload, Spoken, Task, TaskInfo, TaskKey,
    TaskProgress, TaskState, Timestamp,
};
use serde::Serialize;
use serde_json::Value;

use crate::output::{Table, moment};

/// Maximum length of content in a table, in characters.
const CONTENT_MAX: usize = 40;

/// A task as JSON.
#[derive(Serialize)]
pub(super) struct TaskView<'a> {
    id: &'a str,
    ticket: String,
    #[serde(flatten)]
    content: Content<'a>,
    due_us: u64,
    revision: u64,
    attempt: u32,
    max_attempts: u32,
    priority: u8,
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_us: Option<u64>,
}

/// A task and its state, as JSON.
#[derive(Serialize)]
pub(super) struct InfoView<'a> {
    #[serde(flatten)]
    task: TaskView<'a>,
    state: TaskState,
    /// True if the task waits for other tasks.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    waits: bool,
    not_before_us: Option<u64>,
    lease_until_us: Option<u64>,
    worker: Option<&'a str>,
    replaced: bool,
    cancelled: bool,
    error: Option<&'a str>,
    progress: Option<&'a TaskProgress>,
    past: &'a [PastRun],
    #[serde(skip_serializing_if = "Option::is_none")]
    finished: Option<FinishedView<'a>>,
}

/// How a task ended, as JSON.
#[derive(Serialize)]
pub(super) struct FinishedView<'a> {
    at_us: u64,
    how: Finish,
    result: Option<Content<'a>>,
}

impl<'a> From<&'a Finished> for FinishedView<'a> {
    fn from(finished: &'a Finished) -> Self {
        let Finished { at, how, result } = finished;
        Self { at_us: at.as_micros(), how: *how, result: result.as_ref().map(Content::from) }
    }
}

/// A dead letter as JSON.
#[derive(Serialize)]
pub(super) struct DeadView<'a> {
    id: &'a str,
    #[serde(flatten)]
    content: Content<'a>,
    priority: u8,
    key: Option<&'a str>,
    attempts: u32,
    max_attempts: u32,
    error: &'a str,
    died_us: u64,
    past: &'a [PastRun],
}

/// A payload as JSON: parsed if it is JSON, else as text, else in base64.
#[derive(Serialize)]
pub(super) struct Content<'a> {
    payload: Value,
    encoding: &'static str,
    content_type: String,
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
}

impl<'a> From<&'a Payload> for Content<'a> {
    fn from(payload: &'a Payload) -> Self {
        let of = payload.content_type();
        let (content_type, kind) = (of.plain(), of.kind());
        let traceparent = of.traceparent().map(|parent| parent.to_string());
        let (payload, encoding) = decode(of, payload.bytes());
        Self { payload, encoding, content_type, kind, traceparent }
    }
}

fn decode(content_type: &ContentType, bytes: &[u8]) -> (Value, &'static str) {
    if content_type.is_json()
        && let Ok(value) = serde_json::from_slice(bytes)
    {
        return (value, "json");
    }
    match std::str::from_utf8(bytes) {
        _ if bytes.is_empty() => (Value::Null, "none"),
        Ok(text) if content_type.essence().starts_with("text/") => (Value::from(text), "text"),
        _ => (Value::from(BASE64_STANDARD.encode(bytes)), "base64"),
    }
}

impl<'a> From<&'a Task> for TaskView<'a> {
    fn from(task: &'a Task) -> Self {
        Self {
            id: task.ticket.id.as_str(),
            ticket: task.ticket.to_string(),
            content: (&task.payload).into(),
            due_us: task.ticket.due.as_micros(),
            revision: task.ticket.revision.as_u64(),
            attempt: task.attempt,
            max_attempts: task.max_attempts,
            priority: task.priority.get(),
            key: task.key.as_ref().map(TaskKey::as_str),
            deadline_us: task.deadline.map(Timestamp::as_micros),
        }
    }
}

impl<'a> From<&'a TaskInfo> for InfoView<'a> {
    fn from(info: &'a TaskInfo) -> Self {
        Self {
            task: (&info.task).into(),
            state: info.state,
            waits: info.waits,
            not_before_us: info.not_before.map(|at| at.as_micros()),
            lease_until_us: info.lease_until.map(|until| until.as_micros()),
            worker: info.worker.as_deref(),
            replaced: info.replaced,
            cancelled: info.cancelled,
            error: info.error.as_deref(),
            progress: info.progress.as_ref(),
            past: &info.past,
            finished: info.finished.as_ref().map(FinishedView::from),
        }
    }
}

impl<'a> From<&'a DeadLetter> for DeadView<'a> {
    fn from(dead: &'a DeadLetter) -> Self {
        Self {
            id: dead.id.as_str(),
            content: (&dead.payload).into(),
            priority: dead.priority.get(),
            key: dead.key.as_ref().map(TaskKey::as_str),
            attempts: dead.attempts,
            max_attempts: dead.max_attempts,
            error: &dead.error,
            died_us: dead.died_at.as_micros(),
            past: &dead.past,
        }
    }
}

/// Table of tasks with their tickets.
pub(super) fn tasks(tasks: &[Task]) -> Table<7> {
    let row = |task: &Task| {
        [
            task.ticket.id.to_string(),
            tries(task),
            task.priority.get().to_string(),
            moment(task.ticket.due),
            kind(&task.payload),
            content(&task.payload),
            task.ticket.to_string(),
        ]
    };
    Table::new(["ID", "TRIED", "PRIORITY", "DUE", "KIND", "PAYLOAD", "TICKET"], tasks.iter().map(row))
}

/// Table of tasks with their state.
pub(super) fn infos(infos: &[TaskInfo]) -> Table<7> {
    let row = |info: &TaskInfo| {
        [
            info.task.ticket.id.to_string(),
            state(info).to_owned(),
            tries(&info.task),
            moment(info.task.ticket.due),
            info.worker.clone().unwrap_or_else(|| "-".to_owned()),
            kind(&info.task.payload),
            content(&info.task.payload),
        ]
    };
    Table::new(["ID", "STATE", "TRIED", "DUE", "WORKER", "KIND", "PAYLOAD"], infos.iter().map(row))
}

/// Table of dead letters with their errors.
pub(super) fn dead(letters: &[DeadLetter]) -> Table<6> {
    let row = |dead: &DeadLetter| {
        [
            dead.id.to_string(),
            format!("{}/{}", dead.attempts, dead.max_attempts),
            moment(dead.died_at),
            kind(&dead.payload),
            content(&dead.payload),
            printable(&dead.error, usize::MAX),
        ]
    };
    Table::new(["ID", "TRIED", "DIED", "KIND", "PAYLOAD", "ERROR"], letters.iter().map(row))
}

/// Details of a task, line by line.
pub(super) fn info_page(info: &TaskInfo) -> String {
    let task = &info.task;
    let mut page = Page::default();
    page.line("id", &task.ticket.id);
    page.line("state", state(info));
    page.line("tried", tries(task));
    page.line("due", moment(task.ticket.due));
    if let Some(deadline) = task.deadline {
        page.line("deadline", moment(deadline));
    }
    if let Some(until) = info.lease_until {
        page.line("lease until", moment(until));
    }
    if let Some(worker) = &info.worker {
        page.line("worker", printable(worker, usize::MAX));
    }
    if let Some(progress) = &info.progress {
        page.line("progress", in_words(progress));
    }
    page.content(&task.payload);
    if let Some(Finished { at, result, .. }) = &info.finished {
        page.line("ended", moment(*at));
        page.line("result", result.as_ref().map_or_else(|| "-".to_owned(), content));
    }
    if let Some(error) = &info.error {
        page.line("error", printable(error, usize::MAX));
    }
    page.past(&info.past);
    page.0
}

/// Details of a dead letter, line by line.
pub(super) fn letter_page(letter: &DeadLetter) -> String {
    let mut page = Page::default();
    page.line("id", &letter.id);
    page.line("state", "dead");
    page.line("tried", format_args!("{}/{}", letter.attempts, letter.max_attempts));
    page.line("died", moment(letter.died_at));
    page.content(&letter.payload);
    page.line("error", printable(&letter.error, usize::MAX));
    page.past(&letter.past);
    page.0
}

/// Lines of a name and a value.
#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, name: &str, what: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{name:<12} {what}");
    }

    fn content(&mut self, payload: &Payload) {
        if let Some(kind) = payload.kind() {
            self.line("kind", kind);
        }
        self.line("payload", content(payload));
    }

    fn past(&mut self, past: &[PastRun]) {
        for PastRun { attempt, began, ended, how, worker, error } in past {
            let how = match how {
                PastEnd::Failed => "failed",
                PastEnd::Lost => "lost",
                PastEnd::Snoozed => "snoozed",
            };
            let (took, at) = (rounded(ended.since(*began)), moment(*ended));
            let (by, why) = (printable(worker, 60), printable(error, usize::MAX));
            let why = if why.is_empty() { why } else { format!(": {why}") };
            self.line(
                &format!("attempt {attempt}"),
                format_args!("{how} at {at} after {took}, by {by}{why}"),
            );
        }
    }
}

/// Progress of a task in words.
pub(super) fn in_words(progress: &TaskProgress) -> String {
    let percent = progress.percent.map(|percent| format!("{percent}%"));
    let note = Some(printable(&progress.note, 60)).filter(|note| !note.is_empty());
    percent.into_iter().chain(note).collect::<Vec<_>>().join(", ")
}

fn tries(task: &Task) -> String {
    format!("{}/{}", task.attempt, task.max_attempts)
}

fn state(info: &TaskInfo) -> &'static str {
    match info.state {
        TaskState::Scheduled => "scheduled",
        TaskState::Ready => "ready",
        TaskState::Blocked => "blocked",
        TaskState::Leased if info.cancelled => "leased, cancel requested",
        TaskState::Leased if info.replaced => "leased, replaced",
        TaskState::Leased => "leased",
        TaskState::Done => match info.finished.as_ref().map(|finished| finished.how) {
            Some(Finish::Cancelled) => "done, canceled",
            Some(Finish::Discarded) => "done, discarded",
            Some(Finish::Dropped) => "done, dropped",
            _ => "done",
        },
    }
}

fn kind(payload: &Payload) -> String {
    payload.kind().unwrap_or("-").to_owned()
}

fn content(payload: &Payload) -> String {
    match std::str::from_utf8(payload.bytes()) {
        Ok("") => "-".to_owned(),
        Ok(text) => printable(text, CONTENT_MAX),
        Err(_) => format!("({} bytes)", payload.bytes().len()),
    }
}

/// One line without control characters, which could control the terminal.
pub(crate) fn printable(text: &str, most: usize) -> String {
    let mut line = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == most {
            line.push('…');
            break;
        }
        // Writing to a string cannot fail.
        let _ = if c.is_control() { write!(line, "{}", c.escape_default()) } else { write!(line, "{c}") };
    }
    line
}

/// A duration for display: whole seconds, or whole milliseconds below one second.
pub(crate) fn rounded(of: Duration) -> Spoken {
    let step = if of < Duration::from_secs(1) { 1_000 } else { 1_000_000 };
    Spoken(Duration::from_micros(of.as_micros() as u64 / step * step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_rounded_for_people() {
        let said = |micros| rounded(Duration::from_micros(micros)).to_string();
        assert_eq!(
            (said(999), said(42_600), said(83_999_999)),
            ("0s".into(), "42ms".into(), "1m 23s".into())
        );
    }

    #[test]
    fn content_is_parsed_as_far_as_it_can_be() {
        let decode = |content_type, bytes| decode(&ContentType::new(content_type).unwrap(), bytes);
        assert_eq!(decode("application/json;kind=a", b"{\"a\":1}"), (serde_json::json!({ "a": 1 }), "json"));
        assert_eq!(decode("application/json", b"{"), (Value::from("ew=="), "base64"));
        assert_eq!(decode("text/plain", b"hi"), (Value::from("hi"), "text"));
        assert_eq!(decode("text/plain", b"\xff"), (Value::from("/w=="), "base64"));
        assert_eq!(decode("application/octet-stream", b""), (Value::Null, "none"));
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_printed() {
        assert_eq!(printable("a\x1b[2Jb", 10), "a\\u{1b}[2Jb");
        assert_eq!(printable("abc", 2), "ab…");
    }
}
