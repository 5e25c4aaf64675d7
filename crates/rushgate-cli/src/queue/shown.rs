//! Tasks and dead letters as they are shown.

use std::fmt::Write;
use std::time::Duration;

use rushgate::{DeadLetter, Payload, Spoken, Task, TaskInfo, TaskState};
use serde::Serialize;
use serde_json::Value;

use crate::output::{Table, moment};

/// The longest content in a table, in characters.
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
}

/// A task as it stands, as JSON.
#[derive(Serialize)]
pub(super) struct InfoView<'a> {
    #[serde(flatten)]
    task: TaskView<'a>,
    state: TaskState,
    lease_until_us: Option<u64>,
    worker: Option<&'a str>,
    replaced: bool,
    cancelled: bool,
    error: Option<&'a str>,
}

/// A dead letter as JSON.
#[derive(Serialize)]
pub(super) struct DeadView<'a> {
    id: &'a str,
    #[serde(flatten)]
    content: Content<'a>,
    priority: u8,
    attempts: u32,
    max_attempts: u32,
    error: &'a str,
    died_us: u64,
}

/// A payload as JSON: parsed if that is what it is, else as text, else in base64.
#[derive(Serialize)]
pub(super) struct Content<'a> {
    payload: Value,
    encoding: &'static str,
    content_type: &'a str,
}

impl<'a> From<&'a Payload> for Content<'a> {
    fn from(payload: &'a Payload) -> Self {
        let content_type = payload.content_type().as_str();
        let (payload, encoding) = decode(content_type, payload.bytes());
        Self { payload, encoding, content_type }
    }
}

fn decode(content_type: &str, bytes: &[u8]) -> (Value, &'static str) {
    let is_json = content_type == "application/json" || content_type.ends_with("+json");
    if is_json && let Ok(value) = serde_json::from_slice(bytes) {
        return (value, "json");
    }
    match std::str::from_utf8(bytes) {
        _ if bytes.is_empty() => (Value::Null, "none"),
        Ok(text) if content_type.starts_with("text/") => (Value::from(text), "text"),
        _ => (Value::from(base64(bytes)), "base64"),
    }
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[bits >> (18 - 6 * place) & 63];
            text.push(if place <= chunk.len() { digit.into() } else { '=' });
        }
    }
    text
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
        }
    }
}

impl<'a> From<&'a TaskInfo> for InfoView<'a> {
    fn from(info: &'a TaskInfo) -> Self {
        Self {
            task: (&info.task).into(),
            state: info.state,
            lease_until_us: info.lease_until.map(|until| until.as_micros()),
            worker: info.worker.as_deref(),
            replaced: info.replaced,
            cancelled: info.cancelled,
            error: info.error.as_deref(),
        }
    }
}

impl<'a> From<&'a DeadLetter> for DeadView<'a> {
    fn from(dead: &'a DeadLetter) -> Self {
        Self {
            id: dead.id.as_str(),
            content: (&dead.payload).into(),
            priority: dead.priority.get(),
            attempts: dead.attempts,
            max_attempts: dead.max_attempts,
            error: &dead.error,
            died_us: dead.died_at.as_micros(),
        }
    }
}

/// Tasks with their tickets.
pub(super) fn tasks(tasks: &[Task]) -> Table<6> {
    let row = |task: &Task| {
        [
            task.ticket.id.to_string(),
            tries(task),
            task.priority.get().to_string(),
            moment(task.ticket.due),
            content(&task.payload),
            task.ticket.to_string(),
        ]
    };
    Table::new(["ID", "TRIED", "PRIORITY", "DUE", "PAYLOAD", "TICKET"], tasks.iter().map(row))
}

/// Tasks as they stand.
pub(super) fn infos(infos: &[TaskInfo]) -> Table<6> {
    let row = |info: &TaskInfo| {
        [
            info.task.ticket.id.to_string(),
            state(info).to_owned(),
            tries(&info.task),
            moment(info.task.ticket.due),
            info.worker.clone().unwrap_or_else(|| "-".to_owned()),
            content(&info.task.payload),
        ]
    };
    Table::new(["ID", "STATE", "TRIED", "DUE", "WORKER", "PAYLOAD"], infos.iter().map(row))
}

/// Dead letters, with why they died.
pub(super) fn dead(letters: &[DeadLetter]) -> Table<5> {
    let row = |dead: &DeadLetter| {
        [
            dead.id.to_string(),
            format!("{}/{}", dead.attempts, dead.max_attempts),
            moment(dead.died_at),
            content(&dead.payload),
            printable(&dead.error, usize::MAX),
        ]
    };
    Table::new(["ID", "TRIED", "DIED", "PAYLOAD", "ERROR"], letters.iter().map(row))
}

fn tries(task: &Task) -> String {
    format!("{}/{}", task.attempt, task.max_attempts)
}

fn state(info: &TaskInfo) -> &'static str {
    match info.state {
        TaskState::Scheduled => "scheduled",
        TaskState::Ready => "ready",
        TaskState::Leased if info.cancelled => "leased, to be cancelled",
        TaskState::Leased if info.replaced => "leased, replaced",
        TaskState::Leased => "leased",
    }
}

fn content(payload: &Payload) -> String {
    match std::str::from_utf8(payload.bytes()) {
        Ok("") => "-".to_owned(),
        Ok(text) => printable(text, CONTENT_MAX),
        Err(_) => format!("({} bytes)", payload.bytes().len()),
    }
}

/// One line without control characters, which could do things to a terminal.
pub(super) fn printable(text: &str, most: usize) -> String {
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

/// A length of time for people: whole seconds, or below one second whole milliseconds.
pub(super) fn rounded(of: Duration) -> Spoken {
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
    fn base64_is_that_of_the_rfc() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn content_is_parsed_as_far_as_it_can_be() {
        assert_eq!(decode("application/json", b"{\"a\":1}"), (serde_json::json!({ "a": 1 }), "json"));
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
