//! Listings of the tasks of a queue, and the cursors by which they continue.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::{Error, Field, MAX_NAME_BYTES, Page, Result, TaskInfo, TaskState};

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
