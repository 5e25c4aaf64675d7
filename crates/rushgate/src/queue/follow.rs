use std::collections::VecDeque;
use std::time::Duration;

use rushgate_core::{Result, TaskEvent, TaskEvents};
use tokio::time::sleep;

use super::Queue;

/// The longest wait without asking: what a lost push may cost at most, and a lease that runs out while nobody else asks.
const SLEEP_MAX: Duration = Duration::from_secs(5);
/// How long to wait if the store does not tell.
const DEAF: Duration = Duration::from_millis(250);

/// What a follower of a queue learns next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Something happened to a task.
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
    /// Begins with the event after that number, instead of with what happens from now on; 0 for the first of all.
    pub fn after(mut self, seq: u64) -> Self {
        self.after = Some(seq);
        self.read.clear();
        self
    }

    /// The next event, in the order of their numbers and each once. Waits for it as long as it takes.
    ///
    /// It sleeps until the store tells. What no call leads to, a lease or a deadline that passes, is told when somebody next
    /// uses the queue, which is this follower within five seconds.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing: the next call gives what this one would have given.
    ///
    /// # Errors
    /// The store could not tell. The follower stays where it is, and may be asked again.
    pub async fn next(&mut self) -> Result<Followed> {
        loop {
            if let Some(event) = self.read.pop_front() {
                self.after = Some(event.seq);
                return Ok(Followed::Event(event));
            }
            let after = match self.after {
                Some(after) => after,
                None => *self.after.insert(self.queue.events(u64::MAX, 1).await?.last),
            };
            // Listen first: an event between the look and the listening would go unheard.
            let told = self.queue.gate.store().happens(&self.queue.name, after);
            let page = self.queue.events(after, TaskEvents::MAX).await?;
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
                    tracing::debug!(%error, "no news of the queue");
                    sleep(DEAF).await;
                },
                () = sleep(SLEEP_MAX) => {}
            }
        }
    }
}

impl<T> Queue<T> {
    /// Events of the queue with numbers greater than `after`: the first `limit` (1 to 1,000). It keeps none unless its
    /// [limits](rushgate_core::QueueLimits::events) say so.
    ///
    /// # Errors
    /// [`is_invalid`](rushgate_core::Error::is_invalid) for a limit outside its range. Otherwise the store could not tell.
    pub async fn events(&self, after: u64, limit: u32) -> Result<TaskEvents> {
        self.gate.ask(|| self.gate.store().task_events(&self.name, after, limit)).await
    }

    /// Follows what happens to the tasks of the queue, from now on or [from an event on](Follower::after). The queue
    /// must keep events, as many as a follower may fall behind.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> rushgate::Result<()> {
    /// # let gate = rushgate::Rushgate::connect("sqlite::memory:").await?;
    /// use rushgate::{Followed, QueueLimits, TaskChange};
    ///
    /// let mail = gate.queue_of::<String>("mail")?;
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
    /// # gate.close().await
    /// # }
    /// ```
    pub fn follow(&self) -> Follower {
        Follower { queue: self.bytes(), after: None, read: VecDeque::new() }
    }
}
