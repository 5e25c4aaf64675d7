//! The verbs: each reads its request, calls the facade's method of the same name, and says what came of it.

pub(crate) mod content;
pub(crate) mod lock;
pub(crate) mod look;
pub(crate) mod queue;
pub(crate) mod room;
pub(crate) mod sale;
pub(crate) mod schedule;

use std::time::Duration;

use rushgate::Page;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which part of a long list is wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    /// Only names greater than this one: the `next` of the page before.
    #[serde(default)]
    after: String,
    /// At most so many, 1 to 10,000; 1,000 unless said otherwise.
    #[serde(default = "page_limit")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: u32,
}

fn page_limit() -> u32 {
    Page::default().limit
}

impl From<&PageQuery> for Page {
    fn from(query: &PageQuery) -> Self {
        Self { after: query.after.clone(), limit: query.limit }
    }
}

/// A part of a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PageView<T> {
    /// The entries, by name.
    items: Vec<T>,
    /// What `after` has to be for the entries that follow; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl<T> PageView<T> {
    /// The entries that the caller may see, of a page that had room for `limit`.
    fn of<E>(page: Vec<E>, limit: u32, name: impl Fn(&E) -> &str, view: impl Fn(E) -> Option<T>) -> Self {
        let is_full = page.len() >= limit as usize;
        let next = page.last().filter(|_| is_full).map(|last| name(last).to_owned());
        Self { items: page.into_iter().filter_map(view).collect(), next }
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
