use rushgate_core::{Page, Result, TaskId, Waited};
use serde::de::DeserializeOwned;

use crate::Queue;
use crate::queue::read_json;

/// Results of the tasks that a task [waited for](crate::queue::Enqueue::after), or of its batch's
/// [members](crate::queue::Enqueue::part_of). Extractor of a handler.
///
/// The store is asked when the handler calls a method, so tasks that waited for nothing pay nothing. The
/// results are kept until the task is over, for every attempt, whatever the queue's
/// [`Retention`](crate::queue::Retention).
///
/// Two kinds of tasks have none: a requeued dead letter, and a pending replacement that took the task's place
/// while it ran. The list belongs to the live task with this ID: a handler that has lost its lease may see
/// part of it.
///
/// ```
/// use rushgate::worker::{Output, Results};
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

/// Page size of requests to the store.
const PAGE: u32 = 100;

impl Results {
    /// All tasks by ID, with how they ended. Each result has up to 64 KiB, and there are as many as the task
    /// waited for. For a large batch, use [`Queue::waited`] to read them in pages.
    ///
    /// # Errors
    /// The store could not answer. Nothing was changed.
    pub async fn all(&self) -> Result<Vec<Waited>> {
        Page::first(PAGE).read_all(|page| self.queue.waited(&self.id, page), |one| one.id.as_str()).await
    }

    /// Results of the tasks that have one, by ID, deserialized from JSON.
    ///
    /// # Errors
    /// As [`all`](Self::all), and [`is_invalid`](crate::Error::is_invalid) if a result is not an `R`.
    pub async fn read<R: DeserializeOwned>(&self) -> Result<Vec<(TaskId, R)>> {
        let mut read = Vec::new();
        for one in self.all().await? {
            let Some(result) = one.result else { continue };
            let value = read_json(&format!("the result of `{}`", one.id), &result)?;
            read.push((one.id, value));
        }
        Ok(read)
    }
}
