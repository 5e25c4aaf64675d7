use std::collections::VecDeque;
use std::time::Duration;

use rushgate_core::{Page, Result, TaskEvent, TaskEvents, Verbs};
use tokio::time::sleep;

use super::Queue;

/// Longest sleep between two reads, in case a notification was lost or a lease expires while no client uses
/// the queue.
const SLEEP_MAX: Duration = Duration::from_secs(5);
/// Polling interval while notifications fail.
const DEAF: Duration = Duration::from_millis(250);

/// Next item of a [`Follower`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// A change of a task.
    Event(TaskEvent),
    /// Events were missed: they are no longer kept, or the store lost its latest writes.
    Missed {
        /// Number of the next event.
        next: u64,
    },
}

/// A follower of the events of a queue; see [`Queue::follow`].
#[derive(Debug)]
pub struct Follower {
    queue: Queue,
    /// Latest event that was returned or skipped; `None` before the start is known.
    after: Option<u64>,
    read: VecDeque<TaskEvent>,
}

impl Follower {
    /// Starts with the event after number `seq` instead of with future events; 0 for the first event of all.
    pub fn after(mut self, seq: u64) -> Self {
        self.after = Some(seq);
        self.read.clear();
        self
    }

    /// Waits for the next event, without a time limit. Events come in order of their numbers, each once.
    ///
    /// Sleeps until the store notifies it. The expiry of a lease or a deadline is recorded when a client next
    /// uses the queue. The follower itself does so every 5 s.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event: the next call returns it.
    ///
    /// # Errors
    /// The store could not answer. The follower keeps its position; call it again.
    pub async fn next(&mut self) -> Result<Followed> {
        loop {
            if let Some(event) = self.read.pop_front() {
                self.after = Some(event.seq);
                return Ok(Followed::Event(event));
            }
            let after = match self.after {
                Some(after) => after,
                None => *self.after.insert(self.queue.events(Page::after(u64::MAX, 1)).await?.last),
            };
            // Listen first: an event between the read and the listening would be missed.
            let told = self.queue.client.store().next_event(&self.queue.name, after);
            let page = self.queue.events(Page::after(after, TaskEvents::MAX)).await?;
            if page.is_missed(after) {
                let next = if page.last < after { page.last + 1 } else { page.first };
                self.after = Some(next - 1);
                self.read = page.events.into();
                return Ok(Followed::Missed { next });
            }
            if !page.events.is_empty() {
                self.read = page.events.into();
                continue;
            }
            tokio::select! {
                told = told => if let Err(error) = told {
                    tracing::debug!(%error, "cannot wait for notifications of the queue");
                    sleep(DEAF).await;
                },
                () = sleep(SLEEP_MAX) => {}
            }
        }
    }
}

impl<T> Queue<T> {
    /// Events of the queue in order: up to 1,000 a page. A queue keeps events only if its
    /// [limits](rushgate_core::QueueLimits::events) say so.
    ///
    /// # Errors
    /// [`is_invalid`](rushgate_core::Error::is_invalid) for a limit outside its range. Otherwise the store
    /// could not answer.
    pub async fn events(&self, page: Page<u64>) -> Result<TaskEvents> {
        self.client.ask(|| self.client.store().task_events(&self.name, page.clone())).await
    }

    /// Follows the events of the queue, from now on or [from a given event](Follower::after). The queue must
    /// keep events: at least as many as a follower may fall behind.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let client = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use rushgate::queue::{Followed, QueueLimits, TaskChange};
    ///
    /// let mail = client.queue_of::<String>("mail")?;
    /// mail.limit(QueueLimits { events: Some(10_000), ..QueueLimits::default() }).await?;
    /// mail.enqueue("to:ann", "Welcome".to_owned()).send().await?;
    ///
    /// let mut events = mail.follow().after(0);
    /// match events.next().await? {
    ///     Followed::Event(event) => {
    ///         assert_eq!((event.seq, event.id.as_str()), (1, "to:ann"));
    ///         assert!(matches!(event.what, TaskChange::Added { .. }));
    ///     }
    ///     Followed::Missed { next } => println!("too late for what was before {next}"),
    /// }
    /// # client.close().await
    /// # }
    /// ```
    pub fn follow(&self) -> Follower {
        Follower { queue: self.bytes(), after: None, read: VecDeque::new() }
    }
}
