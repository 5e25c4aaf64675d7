use rushgate_core::{Error, Result, TaskId, Waited};
use serde::de::DeserializeOwned;

use crate::Queue;

/// What came of the tasks that a task [waited for](crate::Enqueue::after), or that were
/// [parts](crate::Enqueue::part_of) of it: an argument that a handler may have.
///
/// The store is asked when the handler asks, so that a task which waited for nothing costs nothing. What it tells is kept
/// until the task is over, for every attempt, whatever the queue's [`Retention`](crate::Retention). A dead letter that is
/// put back has none of it, nor has what took the task's place while it ran. The list is that of the live task of this id: a
/// handler whose lease was lost, and whose answer will be refused, may see a part.
///
/// ```
/// use rushgate::{Output, Results};
///
/// async fn add_up(_: (), results: Results) -> rushgate::Result<Output<u64>> {
///     let sums = results.read::<u64>().await?;
///     Ok(Output(sums.into_iter().map(|(_, sum)| sum).sum()))
/// }
/// # let _ = add_up;
/// ```
#[derive(Clone, Debug)]
pub struct Results {
    pub(super) queue: Queue,
    pub(super) id: TaskId,
}

/// Tasks that the store is asked for at a time.
const PAGE: u32 = 100;

impl Results {
    /// All of them by id, with how they ended. Each result has at most 64 KiB, and there may be as many as the task waited
    /// for: for a large batch [`Queue::waited`] gives them page by page.
    ///
    /// # Errors
    /// The store could not tell. Nothing was changed.
    pub async fn all(&self) -> Result<Vec<Waited>> {
        let mut all: Vec<Waited> = Vec::new();
        loop {
            let after = all.last().map_or_else(String::new, |last| last.id.to_string());
            let page = self.queue.waited(&self.id, &after, PAGE).await?;
            let is_last = page.len() < PAGE as usize;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// The results of those that have one, by id, read from JSON.
    ///
    /// # Errors
    /// As [`all`](Self::all); [`is_invalid`](Error::is_invalid) if a result is something else.
    pub async fn read<R: DeserializeOwned>(&self) -> Result<Vec<(TaskId, R)>> {
        let mut read = Vec::new();
        for one in self.all().await? {
            let Some(result) = one.result else { continue };
            let value = serde_json::from_slice(result.bytes()).map_err(|error| {
                let why = format_args!("is not the JSON that was expected: {error}");
                Error::invalid(&format!("the result of `{}`", one.id), why)
            })?;
            read.push((one.id, value));
        }
        Ok(read)
    }
}
