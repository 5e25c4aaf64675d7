//! Filters the tasks of a queue page by page, with progress.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use anyhow::Result;
use rushgate::Queue;
use rushgate::queue::{DeadLetter, Listing, Payload, TaskInfo, TaskPage, TaskState};
use rushgate::store::Page;

use crate::args::queue::FilterArgs;
use crate::output::{CLEAR_LINE, Output};

/// Maximum page size.
const PAGE_MAX: u32 = 1_000;
/// Approximate maximum size of a page.
const PAGE_BYTES: usize = 16 << 20;
/// Interval of progress reports: on a terminal, and elsewhere.
const DRAW_EVERY: Duration = Duration::from_millis(100);
const PRINT_EVERY: Duration = Duration::from_secs(5);

/// Pages of a queue that may contain matches, and the matches.
pub(super) struct Chosen<'a> {
    queue: &'a Queue,
    filter: &'a FilterArgs,
    state: Option<TaskState>,
    /// Where the next page starts; `None` after the last page.
    after: Option<String>,
    page: u32,
    pub(super) looked: u64,
}

impl<'a> Chosen<'a> {
    pub(super) fn new(queue: &'a Queue, filter: &'a FilterArgs, state: Option<TaskState>) -> Self {
        Self { queue, filter, state, after: Some(String::new()), page: PAGE_MAX, looked: 0 }
    }

    /// Matching tasks of the next page; `None` after the last.
    pub(super) async fn tasks(&mut self) -> Result<Option<Vec<TaskInfo>>> {
        let Some(after) = self.after.take() else { return Ok(None) };
        let prefix = self.filter.id_prefix.clone().unwrap_or_default();
        let listing = Listing { state: self.state, prefix, page: Page::after(after, self.page) };
        let TaskPage { tasks, next } = self.queue.tasks(listing).await?;
        self.after = next;
        self.weigh(tasks.iter().map(|info| &info.task.payload));
        let chosen = |info: &TaskInfo| self.filter.takes(info.task.ticket.id.as_str(), &info.task.payload);
        Ok(Some(tasks.into_iter().filter(chosen).collect()))
    }

    /// Matching dead letters of the next page; `None` after the last. They are listed by ID.
    pub(super) async fn dead(&mut self) -> Result<Option<Vec<DeadLetter>>> {
        let Some(mut after) = self.after.take() else { return Ok(None) };
        let prefix = self.filter.id_prefix.as_deref().unwrap_or_default();
        if after.is_empty() {
            // The greatest string below all IDs with this prefix.
            prefix.clone_into(&mut after);
            after.pop();
        }
        let letters = self.queue.dead(Page::after(after, self.page)).await?;
        let last = letters.last().map(|letter| letter.id.as_str());
        let last = last.filter(|_| letters.len() == self.page as usize);
        self.after = last.filter(|last| last.starts_with(prefix) || *last < prefix).map(str::to_owned);
        self.weigh(letters.iter().map(|letter| &letter.payload));
        let chosen = |letter: &DeadLetter| self.filter.takes(letter.id.as_str(), &letter.payload);
        Ok(Some(letters.into_iter().filter(chosen).collect()))
    }

    /// Counts the entries of a page, and chooses the size of the next one.
    fn weigh<'p>(&mut self, page: impl ExactSizeIterator<Item = &'p Payload>) {
        let n = page.len();
        self.looked += n as u64;
        let each = page.map(|payload| payload.bytes().len()).sum::<usize>() / n.max(1);
        self.page = u32::try_from(PAGE_BYTES / each.max(1)).unwrap_or(PAGE_MAX).clamp(10, PAGE_MAX);
    }
}

impl FilterArgs {
    /// True if any filter is set.
    pub(super) fn is_set(&self) -> bool {
        self.id_prefix.is_some() || self.kind.is_some()
    }

    fn takes(&self, id: &str, payload: &Payload) -> bool {
        self.id_prefix.as_ref().is_none_or(|prefix| id.starts_with(prefix))
            && self.kind.as_ref().is_none_or(|kind| payload.kind() == Some(kind))
    }
}

/// Progress on stderr.
pub(super) struct Progress {
    output: Output,
    said: Instant,
}

impl Progress {
    pub(super) fn new(output: Output) -> Self {
        Self { output, said: Instant::now() }
    }

    pub(super) fn says(&mut self, words: impl FnOnce() -> String) {
        let terminal = stderr().is_terminal();
        if self.said.elapsed() < if terminal { DRAW_EVERY } else { PRINT_EVERY } || self.output.quiet {
            return;
        }
        self.said = Instant::now();
        let mut out = stderr().lock();
        let _ = if terminal { write!(out, "{CLEAR_LINE}{}", words()) } else { writeln!(out, "{}", words()) };
        let _ = out.flush();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if stderr().is_terminal() && !self.output.quiet {
            let _ = write!(stderr(), "{CLEAR_LINE}");
        }
    }
}
