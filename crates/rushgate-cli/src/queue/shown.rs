//! Formats tasks and dead letters.

use std::fmt::{Display, Write};
use std::time::Duration;

use rushgate::queue::{
    DeadLetter, Finish, Finished, PastEnd, PastRun, Payload, Task, TaskInfo, TaskKey, TaskProgress, TaskState,
};
use rushgate::store::HumanDuration;

use crate::output::{Table, moment};

/// Maximum length of content in a table, in characters.
const CONTENT_MAX: usize = 40;

/// Table of tasks with their tickets.
pub(super) fn tasks(tasks: &[Task]) -> Table<8> {
    let row = |task: &Task| {
        [
            task.ticket.id.to_string(),
            tries(task),
            task.priority.get().to_string(),
            moment(task.ticket.due),
            kind(&task.payload),
            key(task.key.as_ref()),
            content(&task.payload),
            task.ticket.to_string(),
        ]
    };
    Table::new(["ID", "TRIED", "PRIORITY", "DUE", "KIND", "KEY", "PAYLOAD", "TICKET"], tasks.iter().map(row))
}

/// Table of tasks with their state.
pub(super) fn infos(infos: &[TaskInfo]) -> Table<8> {
    let row = |info: &TaskInfo| {
        [
            info.task.ticket.id.to_string(),
            state(info).to_owned(),
            tries(&info.task),
            moment(info.task.ticket.due),
            info.worker.clone().unwrap_or_else(|| "-".to_owned()),
            kind(&info.task.payload),
            key(info.task.key.as_ref()),
            content(&info.task.payload),
        ]
    };
    Table::new(["ID", "STATE", "TRIED", "DUE", "WORKER", "KIND", "KEY", "PAYLOAD"], infos.iter().map(row))
}

/// Table of dead letters with their errors.
pub(super) fn dead(letters: &[DeadLetter]) -> Table<7> {
    let row = |dead: &DeadLetter| {
        [
            dead.id.to_string(),
            format!("{}/{}", dead.attempts, dead.max_attempts),
            moment(dead.died_at),
            kind(&dead.payload),
            key(dead.key.as_ref()),
            content(&dead.payload),
            dead.error.clone(),
        ]
    };
    Table::new(["ID", "TRIED", "DIED", "KIND", "KEY", "PAYLOAD", "ERROR"], letters.iter().map(row))
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
    page.key(task.key.as_ref());
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
    page.key(letter.key.as_ref());
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

    fn key(&mut self, key: Option<&TaskKey>) {
        if let Some(key) = key {
            self.line("key", key);
        }
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
        TaskState::Leased if info.cancelled => "leased, cancel requested",
        TaskState::Leased if info.replaced => "leased, replaced",
        other => match info.finished.as_ref().map(|finished| finished.how) {
            Some(Finish::Cancelled) => "done, canceled",
            Some(Finish::Discarded) => "done, discarded",
            Some(Finish::Dropped) => "done, dropped",
            _ => other.word(),
        },
    }
}

fn key(key: Option<&TaskKey>) -> String {
    key.map_or("-".to_owned(), ToString::to_string)
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
pub(crate) fn rounded(of: Duration) -> HumanDuration {
    let step = if of < Duration::from_secs(1) { 1_000 } else { 1_000_000 };
    HumanDuration(Duration::from_micros(of.as_micros() as u64 / step * step))
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
    fn nothing_that_a_terminal_obeys_is_printed() {
        assert_eq!(printable("a\x1b[2Jb", 10), "a\\u{1b}[2Jb");
        assert_eq!(printable("abc", 2), "ab…");
    }
}
