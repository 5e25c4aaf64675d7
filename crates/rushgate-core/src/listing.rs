//! Pages of long lists; listings of the tasks of a queue, and the cursors by which they continue.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::{Error, Field, MAX_NAME_BYTES, Result, TaskInfo, TaskState, check_range};

/// Maximum page size of a listing.
const PAGE_MAX: u32 = 10_000;

/// A page of a long list: at most `limit` entries that come after `after`, by name or, in a log, by number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<K = String> {
    /// Returns only entries greater than this one. Empty (or 0): start at the beginning.
    pub after: K,
    /// Page size: 1 to 10,000, unless the verb allows fewer. Default: 1,000.
    pub limit: u32,
}

impl<K: Default> Page<K> {
    /// The first page.
    pub fn first(limit: u32) -> Self {
        Self::after(K::default(), limit)
    }
}

impl<K> Page<K> {
    /// The page that follows an entry.
    pub const fn after(after: K, limit: u32) -> Self {
        Self { after, limit }
    }

    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        self.check_size(PAGE_MAX)
    }

    pub(crate) fn check_size(&self, max: u32) -> Result<()> {
        check_range(Field::Limit, self.limit.into(), 1, max.into())
    }
}

impl Page {
    /// The page after this one, whose entries are passed; `None` if they were fewer than `limit`. `name` returns an entry's
    /// name.
    #[must_use]
    pub fn next<T>(&self, entries: &[T], name: impl Fn(&T) -> &str) -> Option<Self> {
        let last = entries.last().filter(|_| entries.len() >= self.limit as usize)?;
        Some(Self::after(name(last).to_owned(), self.limit))
    }

    /// Reads this page and all that follow, while `read` returns full pages. `name` returns an entry's name.
    ///
    /// # Errors
    /// The first error of `read`. What was read before it is lost.
    pub async fn read_all<T, F: Future<Output = Result<Vec<T>>>>(
        self,
        read: impl Fn(Self) -> F,
        name: impl Fn(&T) -> &str,
    ) -> Result<Vec<T>> {
        let (mut all, mut next) = (Vec::new(), Some(self));
        while let Some(page) = next {
            let some = read(page.clone()).await?;
            next = page.next(&some, &name);
            all.extend(some);
        }
        Ok(all)
    }
}

impl<K: Default> Default for Page<K> {
    fn default() -> Self {
        Self::first(1_000)
    }
}

/// Which tasks to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Only tasks in this state.
    pub state: Option<TaskState>,
    /// Only tasks whose ID begins with this text, of at most 200 bytes.
    pub prefix: String,
    /// Which of them: `after` is the [`next`](TaskPage::next) of the previous page.
    pub page: Page,
}

/// A page of a listing of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskPage {
    /// The tasks. A page may be short or empty although more follow.
    pub tasks: Vec<TaskInfo>,
    /// Cursor of the next page: opaque text. `None` on the last page.
    pub next: Option<String>,
}

impl Listing {
    /// Maximum number of entries that a store looks at for one page, unless the page has more tasks.
    pub const LOOKED_MAX: usize = 1_000;

    /// A page of the live tasks (`None`), or of those in a state.
    pub fn new(state: impl Into<Option<TaskState>>, page: Page) -> Self {
        Self { state: state.into(), prefix: String::new(), page }
    }

    /// Checks the documented limits; fails with [`is_invalid`](Error::is_invalid).
    pub fn check(&self) -> Result<()> {
        self.page.check()?;
        match self.prefix.len() {
            0..=MAX_NAME_BYTES => Ok(()),
            n => Err(Error::invalid(
                Field::Prefix,
                format_args!("has {n} bytes; at most {MAX_NAME_BYTES} are allowed"),
            )),
        }
    }

    /// Reads this page, and more pages while it has fewer than `page.limit` tasks.
    ///
    /// # Errors
    /// The first error of `read`. What was read before it is lost.
    pub async fn fill<F: Future<Output = Result<TaskPage>>>(
        mut self,
        read: impl Fn(Self) -> F,
    ) -> Result<TaskPage> {
        let (mut tasks, limit) = (Vec::new(), self.page.limit as usize);
        loop {
            let page = read(self.clone()).await?;
            tasks.extend(page.tasks);
            match page.next {
                Some(next) if tasks.len() < limit => self.page.after = next,
                next => return Ok(TaskPage { tasks, next }),
            }
            self.page.limit = (limit - tasks.len()) as u32;
        }
    }

    /// Reads this page and all that follow.
    ///
    /// # Errors
    /// The first error of `read`. What was read before it is lost.
    pub async fn read_all<F: Future<Output = Result<TaskPage>>>(
        mut self,
        read: impl Fn(Self) -> F,
    ) -> Result<Vec<TaskInfo>> {
        let mut all = Vec::new();
        loop {
            let page = read(self.clone()).await?;
            all.extend(page.tasks);
            match page.next {
                Some(next) => self.page.after = next,
                None => return Ok(all),
            }
        }
    }

    /// The cursor of a position in this listing. `store` names the kind of store, whose positions no other can read.
    pub fn cursor(&self, store: &str, position: &[u8]) -> String {
        self.prefix(store) + &BASE64_URL_SAFE_NO_PAD.encode(position)
    }

    /// The position of the cursor, which another process may have got; empty for the first page.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) if the text is no cursor of this kind of store and this state.
    pub fn position(&self, store: &str) -> Result<Vec<u8>> {
        if self.page.after.is_empty() {
            return Ok(Vec::new());
        }
        let position = self.page.after.strip_prefix(&self.prefix(store));
        let position = position.and_then(|text| BASE64_URL_SAFE_NO_PAD.decode(text).ok());
        position.filter(|position| !position.is_empty()).ok_or_else(foreign)
    }

    /// The position of the cursor, where positions are IDs.
    ///
    /// # Errors
    /// As [`position`](Self::position).
    pub fn id_position(&self, store: &str) -> Result<String> {
        String::from_utf8(self.position(store)?).map_err(|_| foreign())
    }

    fn prefix(&self, store: &str) -> String {
        format!("{store}.{}.", self.state.map_or("live", TaskState::word))
    }
}

fn foreign() -> Error {
    Error::invalid(Field::Cursor, "is not of this listing; pass the next of its previous page")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(state: Option<TaskState>, after: impl Into<String>) -> Listing {
        Listing::new(state, Page::after(after.into(), 10))
    }

    #[test]
    fn a_cursor_continues_its_own_listing_only() {
        let cursor = listing(None, "").cursor("a", b"\0position");
        assert_eq!(listing(None, &cursor).position("a").unwrap(), b"\0position");
        assert_eq!(listing(None, "").position("a").unwrap(), b"");
        for (state, store) in [(None, "b"), (Some(TaskState::Ready), "a")] {
            assert!(listing(state, &cursor).position(store).unwrap_err().is_invalid());
        }
        for garbled in ["a", "a.live.", "a.live.=", &cursor[1..], &format!("{cursor}!")] {
            assert!(listing(None, garbled).position("a").unwrap_err().is_invalid(), "{garbled}");
        }
    }
}
