//! The outbox: tasks that transactions of the application's own database enqueue.

mod entry;
#[cfg(feature = "postgres")]
mod postgres;
mod row;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::collections::HashMap;
use std::time::Duration;

use rushgate_core::{Error, Field, NewTask, OutboxId, QueueName, Result, check_range};

pub use entry::OutboxEntry;

/// The outbox in an application's own database: a table in a Postgres schema, or in an SQLite file.
///
/// A transaction inserts rows (see [`OutboxEntry`]) together with its other changes. If it is rolled back, there are
/// no tasks. A relay moves committed tasks with [`lead`](Self::lead).
///
/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Outbox(Kind);

#[derive(Clone, Debug)]
enum Kind {
    #[cfg(feature = "postgres")]
    Postgres(postgres::Postgres),
    #[cfg(feature = "sqlite")]
    Sqlite(sqlite::Sqlite),
}

impl Outbox {
    /// Maximum number of tasks of a queue that are under way at a time.
    pub const BATCH_MAX: usize = 1_000;
    /// Maximum size of a batch's payloads, in bytes, unless a single task is larger.
    pub const BATCH_BYTES: usize = 8 << 20;

    /// Opens the outbox at `url`, `sqlite:PATH` or `postgres://…`, and creates its tables if needed.
    ///
    /// On Postgres they are in the ledger's schema (`rushgate`, unless the URL has `schema=`), with its options and
    /// migrations. In an SQLite file they are beside the application's tables, and the file's settings stay
    /// unchanged.
    ///
    /// # Errors
    /// Those of [`connect`](crate::connect), except that the file may belong to another program. A missing file is
    /// [`is_misconfigured`](Error::is_misconfigured), because the application creates it.
    pub async fn open(url: &str) -> Result<Self> {
        match url.split_once(':') {
            #[cfg(feature = "sqlite")]
            Some(("sqlite", path)) if !path.is_empty() && path != ":memory:" => {
                Ok(Self(Kind::Sqlite(sqlite::Sqlite::open(path.into()).await?)))
            }
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Ok(Self(Kind::Postgres(postgres::Postgres::open(url).await?)))
            }
            _ => Err(Error::invalid("the outbox's URL", "has an unsupported scheme")
                .hint("use sqlite:PATH or postgres://USER@HOST/DATABASE")),
        }
    }

    /// The URL, without secrets.
    pub fn url(&self) -> String {
        match &self.0 {
            #[cfg(feature = "postgres")]
            Kind::Postgres(of) => of.url(),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(of) => of.url(),
        }
    }

    /// Waits until no other relay works on this outbox, then locks it until the value is dropped or its connection
    /// ends. Dropping the future stops waiting.
    pub async fn lead(&self) -> Result<OutboxLead> {
        Ok(OutboxLead(match &self.0 {
            #[cfg(feature = "postgres")]
            Kind::Postgres(of) => Lead::Postgres(Box::new(of.lead().await?)),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(of) => Lead::Sqlite(of.lead().await?),
        }))
    }

    /// Returns the number and age of waiting tasks.
    pub async fn stats(&self) -> Result<OutboxStats> {
        match &self.0 {
            #[cfg(feature = "postgres")]
            Kind::Postgres(of) => of.stats().await,
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(of) => of.stats().await,
        }
    }

    /// Lists tasks that were set aside, by position: up to `limit` (1 to 10,000) after `after`.
    pub async fn refused(&self, after: i64, limit: u32) -> Result<Vec<RefusedTask>> {
        check_range(Field::Limit, limit.into(), 1, 10_000)?;
        match &self.0 {
            #[cfg(feature = "postgres")]
            Kind::Postgres(of) => of.refused(after, limit).await,
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(of) => of.refused(after, limit).await,
        }
    }

    /// Retries tasks that were set aside: those at the positions, or all. Returns how many.
    pub async fn retry(&self, positions: Option<Vec<i64>>) -> Result<u64> {
        match &self.0 {
            #[cfg(feature = "postgres")]
            Kind::Postgres(of) => of.mend(postgres::RETRY, positions).await,
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(of) => of.mend(sqlite::RETRY, positions).await,
        }
    }

    /// Deletes tasks that were set aside: those at the positions, or all. Returns how many.
    pub async fn delete(&self, positions: Option<Vec<i64>>) -> Result<u64> {
        match &self.0 {
            #[cfg(feature = "postgres")]
            Kind::Postgres(of) => of.mend(postgres::DELETE, positions).await,
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(of) => of.mend(sqlite::DELETE, positions).await,
        }
    }
}

/// State of an outbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStats {
    /// Tasks that are not in their queues yet.
    pub waiting: u64,
    /// Tasks that cannot be moved and were set aside.
    pub refused: u64,
    /// Age of the oldest waiting task, on the database's clock.
    pub oldest: Duration,
}

/// A task that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedTask {
    /// Position of its row.
    pub position: i64,
    /// Name of the queue.
    pub queue: String,
    /// ID of the task.
    pub id: String,
    /// Why it was set aside.
    pub why: String,
    /// Size of its payload, in bytes.
    pub bytes: u64,
}

/// Exclusive right to relay an outbox.
#[derive(Debug)]
pub struct OutboxLead(Lead);

#[derive(Debug)]
enum Lead {
    #[cfg(feature = "postgres")]
    Postgres(Box<postgres::Lead>),
    #[cfg(feature = "sqlite")]
    Sqlite(sqlite::Lead),
}

/// A task to relay.
#[derive(Clone, Debug)]
pub struct OutboxTask {
    /// Its number, which is the same for each delivery.
    pub number: u64,
    /// Position of its row.
    pub position: i64,
    /// The task to enqueue.
    pub task: NewTask,
    /// How long it had waited when it was read.
    pub age: Duration,
}

/// Tasks to relay, by queue and in order. A queue has one batch at a time.
pub type OutboxBatches = HashMap<QueueName, Vec<OutboxTask>>;

/// Progress that a relay reports in a turn, and what it asks for.
#[derive(Clone, Debug, Default)]
pub struct OutboxTurn {
    /// Positions of tasks that are in their queues.
    pub done: Vec<i64>,
    /// Positions of tasks that no queue accepts, and why.
    pub refused: Vec<(i64, String)>,
    /// The highest number that each queue has from this outbox, for the queues that were asked.
    pub marks: HashMap<QueueName, u64>,
    /// Whether to return more tasks.
    pub more: bool,
}

/// The answer to a turn.
#[derive(Clone, Debug, Default)]
pub struct OutboxTaken {
    /// New batches to send.
    pub batches: OutboxBatches,
    /// Queues with waiting tasks whose highest number is unknown: ask them first.
    pub strangers: Vec<QueueName>,
    /// Tasks that cannot be moved and were set aside: queue, ID and reason.
    pub refused: Vec<(String, String, String)>,
}

impl OutboxLead {
    /// ID of the outbox in stores.
    pub fn id(&self) -> &OutboxId {
        match &self.0 {
            #[cfg(feature = "postgres")]
            Lead::Postgres(lead) => lead.id(),
            #[cfg(feature = "sqlite")]
            Lead::Sqlite(lead) => lead.id(),
        }
    }

    /// Returns the batches that were under way when the last relay ended. Send them again before anything else of
    /// their queues.
    pub async fn under_way(&mut self) -> Result<OutboxTaken> {
        match &mut self.0 {
            #[cfg(feature = "postgres")]
            Lead::Postgres(lead) => lead.under_way().await,
            #[cfg(feature = "sqlite")]
            Lead::Sqlite(lead) => lead.under_way().await,
        }
    }

    /// Records what was relayed and returns more tasks, in one transaction.
    ///
    /// # Errors
    /// After any error the right is lost: drop the value, and call [`lead`](Outbox::lead) again.
    pub async fn turn(&mut self, turn: OutboxTurn) -> Result<OutboxTaken> {
        match &mut self.0 {
            #[cfg(feature = "postgres")]
            Lead::Postgres(lead) => lead.turn(turn).await,
            #[cfg(feature = "sqlite")]
            Lead::Sqlite(lead) => lead.turn(turn).await,
        }
    }

    /// Waits until there may be more tasks: a transaction with inserts has committed, or `at_most` has passed.
    pub async fn wait(&mut self, at_most: Duration) -> Result<()> {
        match &mut self.0 {
            #[cfg(feature = "postgres")]
            Lead::Postgres(lead) => lead.wait(at_most).await,
            #[cfg(feature = "sqlite")]
            Lead::Sqlite(lead) => lead.wait(at_most).await,
        }
    }
}
