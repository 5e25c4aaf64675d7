//! The verbs. Each parses its request, calls the facade's method of the same name and renders the outcome.

pub(crate) mod lock;
pub(crate) mod look;
pub(crate) mod queue;
pub(crate) mod room;
pub(crate) mod sale;
pub(crate) mod schedule;
pub(crate) mod store;
pub(crate) mod token;
pub(crate) mod worker;

use std::time::Duration;

use rushgate::BuyerId;
use rushgate::queue::{DeadLetter, Payload, TaskInfo, TaskKey};
use rushgate::schedule::Schedule;
use rushgate::store::Page;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::{Code, Problem};
use crate::reply::{Answer, Reply};

/// Size limit of the payloads on one page, in bytes. The entry that crosses it is the last one of the page.
const PAGE_WEIGHT_MAX: usize = 8 << 20;
/// Entries in the first read, which shows how large they are.
const FIRST_READ: u32 = 16;
/// The most parts of a page, because parts may be empty.
const PARTS_MAX: u32 = 100;

/// Page of a long list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    /// Only names greater than this one: the `next` of the previous page.
    #[serde(default)]
    after: String,
    /// Page size: 1 to 10,000. Default: 1,000. Large payloads make a page smaller; `next` says whether more entries
    /// follow.
    #[serde(default = "page_limit")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: u32,
}

fn page_limit() -> u32 {
    Page::<String>::default().limit
}

impl From<&PageQuery> for Page {
    fn from(query: &PageQuery) -> Self {
        Self { after: query.after.clone(), limit: query.limit }
    }
}

/// Page of a list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub(crate) struct PageView<T> {
    /// The entries, sorted by name. Tasks are in the order of the store.
    items: Vec<T>,
    /// Pass it as `after` to get the next page. Absent on the last page. A page may be short, or empty, and have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// With `contains`: the number of entries that were searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<u32>,
}

/// A text that an entry of a list must contain, in any case of ASCII letters.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Contains(#[schemars(length(min = 1, max = 200))] String);

impl Contains {
    /// Refuses an empty or a long text.
    fn check(&self) -> Result<(), Problem> {
        match self.0.len() {
            1..=200 => Ok(()),
            _ => Err(Problem::new(Code::Invalid, "contains must have 1 to 200 bytes").field("contains")),
        }
    }

    fn is_in(&self, entry: &impl Entry) -> bool {
        let is_in =
            |text: &[u8]| text.windows(self.0.len()).any(|part| part.eq_ignore_ascii_case(self.0.as_bytes()));
        let texts =
            [Some(entry.id()), entry.payload().kind()].into_iter().chain(entry.more_texts()).flatten();
        texts.map(str::as_bytes).any(is_in) || is_in(entry.payload().bytes())
    }
}

/// An entry of a list that has a payload.
pub(super) trait Entry {
    fn id(&self) -> &str;

    fn payload(&self) -> &Payload;

    /// What [`Contains`] searches beside ID, kind and payload.
    fn more_texts(&self) -> [Option<&str>; 3] {
        [None; 3]
    }
}

/// A part of a page of a list.
pub(super) struct Part<E> {
    pub(super) entries: Vec<E>,
    /// Where the next part begins.
    pub(super) next: Option<String>,
}

impl<E> Part<E> {
    /// A part of a list by ID, for which up to `limit` entries were read.
    pub(super) fn by_id(entries: Vec<E>, limit: u32) -> Self
    where
        E: Entry,
    {
        let last = entries.last().filter(|_| entries.len() >= limit as usize);
        Self { next: last.map(|last| last.id().to_owned()), entries }
    }

    /// Reads a page in parts, so that one request cannot fill the server's memory. `weight` returns the bytes
    /// of an entry.
    pub(super) async fn of_page<Why, F: Future<Output = Result<Self, Why>>>(
        whole: Page,
        weight: impl Fn(&E) -> usize,
        ask: impl Fn(Page) -> F,
    ) -> Result<Self, Why> {
        let (limit, mut asked, mut weighed) = (whole.limit, 0, 0);
        let mut page = Self { entries: Vec::new(), next: None };
        let mut part = Page { limit: limit.min(FIRST_READ), ..whole };
        loop {
            let Self { entries, next } = ask(part.clone()).await?;
            asked += 1;
            weighed += entries.iter().map(&weight).sum::<usize>();
            page.entries.extend(entries);
            let read = page.entries.len();
            let left = limit.saturating_sub(u32::try_from(read).unwrap_or(u32::MAX));
            let is_full = left == 0 || weighed >= PAGE_WEIGHT_MAX || asked == PARTS_MAX;
            match next {
                Some(after) if !is_full => {
                    let fit = (PAGE_WEIGHT_MAX - weighed) / (weighed / read.max(1) + 1) + 1;
                    part = Page { after, limit: left.min(u32::try_from(fit).unwrap_or(u32::MAX)) };
                }
                next => return Ok(Self { next, ..page }),
            }
        }
    }
}

impl Entry for TaskInfo {
    fn id(&self) -> &str {
        self.task.ticket.id.as_str()
    }

    fn payload(&self) -> &Payload {
        &self.task.payload
    }

    fn more_texts(&self) -> [Option<&str>; 3] {
        [self.task.key.as_ref().map(TaskKey::as_str), self.worker.as_deref(), self.error.as_deref()]
    }
}

impl Entry for DeadLetter {
    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn payload(&self) -> &Payload {
        &self.payload
    }

    fn more_texts(&self) -> [Option<&str>; 3] {
        [self.key.as_ref().map(TaskKey::as_str), Some(&self.error), None]
    }
}

impl Entry for Schedule {
    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn payload(&self) -> &Payload {
        &self.payload
    }
}

impl<T> PageView<T> {
    /// The entries of a page that the caller may see. The page had room for `limit` entries.
    fn of<E>(page: Vec<E>, limit: u32, name: impl Fn(&E) -> &str, view: impl Fn(E) -> Option<T>) -> Self {
        let is_full = page.len() >= limit as usize;
        let next = page.last().filter(|_| is_full).map(|last| name(last).to_owned());
        Self { items: page.into_iter().filter_map(view).collect(), next, read: None }
    }

    /// The same for entries with payloads. With `contains`, the page has those of its entries that have the text.
    async fn read<E: Entry, F: Future<Output = rushgate::Result<Part<E>>>>(
        whole: Page,
        contains: Option<Contains>,
        ask: impl Fn(Page) -> F,
        view: impl Fn(E) -> T,
    ) -> Answer<Self> {
        whole.check()?;
        contains.as_ref().map_or(Ok(()), Contains::check)?;
        let Part { entries, next } =
            Part::of_page(whole, |entry: &E| entry.payload().bytes().len(), ask).await?;
        let read = contains.as_ref().map(|_| u32::try_from(entries.len()).unwrap_or(u32::MAX));
        let is_wanted = |entry: &E| contains.as_ref().is_none_or(|wanted| wanted.is_in(entry));
        let items = entries.into_iter().filter(is_wanted).map(view).collect();
        Ok(Reply::ok(Self { items, next, read }))
    }
}

/// Where a stream of events begins.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// Only events with greater numbers; 0 for all. `Last-Event-ID` takes precedence. Without both, only new events.
    after: Option<u64>,
}

/// The buyer that the token is for, or that the body names.
fn buyer_of(bound: Option<&BuyerId>, named: Option<BuyerId>) -> Result<BuyerId, Problem> {
    match (bound, named) {
        (None, Some(buyer)) => Ok(buyer),
        (Some(bound), None) => Ok(bound.clone()),
        (Some(bound), Some(buyer)) if buyer == *bound => Ok(buyer),
        (Some(_), Some(_)) => {
            Err(Problem::new(Code::Forbidden, "the token is for another buyer").field("buyer"))
        }
        (None, None) => Err(Problem::new(Code::Invalid, "set buyer").field("buyer")),
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
