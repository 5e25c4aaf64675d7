//! The outbox: tasks that a transaction of the shop's own database wants in a queue.

mod entry;
mod postgres;
mod row;
mod sqlite;

use std::collections::HashMap;
use std::time::Duration;

use rushgate_core::{Error, NewTask, OutboxId, QueueName, Result, check_range};

pub use entry::OutboxEntry;

/// The outbox in a database of the shop's own: a table in a Postgres schema, or in an SQLite file.
///
/// A transaction inserts rows (see [`OutboxEntry`]), together with whatever else it changes; if it is rolled back there
/// are no tasks. A relay takes the turns of [`lead`](Self::lead) to move what was committed.
///
/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Outbox(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Postgres(postgres::Postgres),
    Sqlite(sqlite::Sqlite),
}

impl Outbox {
    /// The most tasks of a queue that are on their way at a time.
    pub const BATCH_MAX: usize = 1_000;
    /// The most bytes of content that a batch has, unless one task alone has more.
    pub const BATCH_BYTES: usize = 8 << 20;

    /// Opens the outbox at `url`, `sqlite:PATH` or `postgres://…`, and makes its tables if they are not there.
    ///
    /// On Postgres they are in the ledger's schema (`rushgate`, unless the URL says `schema=`), with whose options and
    /// migrations they come; in a file they are beside the shop's own, whose settings are left alone.
    ///
    /// # Errors
    /// Those of [`connect`](crate::connect), but for a file of another program: that is what is wanted. A file that is
    /// not there is [`is_misconfigured`](Error::is_misconfigured), because the shop makes it.
    pub async fn open(url: &str) -> Result<Self> {
        match url.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() && path != ":memory:" => {
                Ok(Self(Kind::Sqlite(sqlite::Sqlite::open(path.into()).await?)))
            }
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Ok(Self(Kind::Postgres(postgres::Postgres::open(url).await?)))
            }
            _ => Err(Error::invalid("the outbox's URL", "is of a kind that has no outbox")
                .hint("use sqlite:PATH or postgres://USER@HOST/DATABASE")),
        }
    }

    /// The URL, without secrets.
    pub fn url(&self) -> String {
        match &self.0 {
            Kind::Postgres(of) => of.url(),
            Kind::Sqlite(of) => of.url(),
        }
    }

    /// Waits until no other relay is at work on this outbox, and keeps others waiting from then on, until the value is
    /// dropped or its connection ends. Dropping the future stops waiting.
    pub async fn lead(&self) -> Result<OutboxLead> {
        Ok(OutboxLead(match &self.0 {
            Kind::Postgres(of) => Lead::Postgres(Box::new(of.lead().await?)),
            Kind::Sqlite(of) => Lead::Sqlite(of.lead().await?),
        }))
    }

    /// How much waits.
    pub async fn stats(&self) -> Result<OutboxStats> {
        match &self.0 {
            Kind::Postgres(of) => of.stats().await,
            Kind::Sqlite(of) => of.stats().await,
        }
    }

    /// Tasks that were set aside, by position: up to `limit` (1 to 10,000) after `after`.
    pub async fn refused(&self, after: i64, limit: u32) -> Result<Vec<RefusedTask>> {
        check_range("the page's limit", limit.into(), 1, 10_000)?;
        match &self.0 {
            Kind::Postgres(of) => of.refused(after, limit).await,
            Kind::Sqlite(of) => of.refused(after, limit).await,
        }
    }

    /// Tries tasks again that were set aside: those at the positions, or all. Says how many.
    pub async fn retry(&self, positions: Option<Vec<i64>>) -> Result<u64> {
        match &self.0 {
            Kind::Postgres(of) => of.mend(postgres::RETRY, positions).await,
            Kind::Sqlite(of) => of.mend(sqlite::RETRY, positions).await,
        }
    }

    /// Deletes tasks that were set aside: those at the positions, or all. Says how many.
    pub async fn delete(&self, positions: Option<Vec<i64>>) -> Result<u64> {
        match &self.0 {
            Kind::Postgres(of) => of.mend(postgres::DELETE, positions).await,
            Kind::Sqlite(of) => of.mend(sqlite::DELETE, positions).await,
        }
    }
}

/// How an outbox stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutboxStats {
    /// Tasks that are not in their queues yet.
    pub waiting: u64,
    /// Tasks that cannot be moved, and were set aside.
    pub refused: u64,
    /// How long ago the oldest of those that wait was inserted, by the database's clock.
    pub oldest: Duration,
}

/// A task that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedTask {
    /// Its row.
    pub position: i64,
    /// The queue it was meant for.
    pub queue: String,
    /// Its id.
    pub id: String,
    /// Why.
    pub why: String,
    /// The size of its content, in bytes.
    pub bytes: u64,
}

/// The right to relay an outbox, which one at a time has.
#[derive(Debug)]
pub struct OutboxLead(Lead);

#[derive(Debug)]
enum Lead {
    Postgres(Box<postgres::Lead>),
    Sqlite(sqlite::Lead),
}

/// A task on its way.
#[derive(Clone, Debug)]
pub struct OutboxTask {
    /// Its number, the same each time that it is sent.
    pub number: u64,
    /// Its row.
    pub position: i64,
    /// What to put in.
    pub task: NewTask,
    /// How long it had waited when it was read.
    pub age: Duration,
}

/// Tasks on their way, by queue and in order. A queue has one batch at a time.
pub type OutboxBatches = HashMap<QueueName, Vec<OutboxTask>>;

/// What a relay has to say and to ask at a turn.
#[derive(Clone, Debug, Default)]
pub struct OutboxTurn {
    /// Positions of tasks that the queues have.
    pub done: Vec<i64>,
    /// Positions of tasks that no queue takes, and why.
    pub refused: Vec<(i64, String)>,
    /// Up to which number each queue has had this outbox, of the queues that were asked.
    pub marks: HashMap<QueueName, u64>,
    /// Whether to take more.
    pub more: bool,
}

/// The answer to a turn.
#[derive(Clone, Debug, Default)]
pub struct OutboxTaken {
    /// What is to be sent, and was not on its way before.
    pub batches: OutboxBatches,
    /// Queues with tasks whose marks have to be asked for first.
    pub strangers: Vec<QueueName>,
    /// Tasks that cannot be moved, and were set aside: queue, id and why.
    pub refused: Vec<(String, String, String)>,
}

impl OutboxLead {
    /// The name under which stores know the outbox.
    pub fn id(&self) -> &OutboxId {
        match &self.0 {
            Lead::Postgres(lead) => lead.id(),
            Lead::Sqlite(lead) => lead.id(),
        }
    }

    /// What was on its way when the last relay ended, to be sent again before anything else of its queues.
    pub async fn under_way(&mut self) -> Result<OutboxTaken> {
        match &mut self.0 {
            Lead::Postgres(lead) => lead.under_way().await,
            Lead::Sqlite(lead) => lead.under_way().await,
        }
    }

    /// Notes what was moved and takes more, in one transaction.
    ///
    /// # Errors
    /// The right is lost then: drop the value, and [`lead`](Outbox::lead) again.
    pub async fn turn(&mut self, turn: OutboxTurn) -> Result<OutboxTaken> {
        match &mut self.0 {
            Lead::Postgres(lead) => lead.turn(turn).await,
            Lead::Sqlite(lead) => lead.turn(turn).await,
        }
    }

    /// Waits until there may be more: a transaction that inserted has committed, or `at_most` has passed.
    pub async fn wait(&mut self, at_most: Duration) -> Result<()> {
        match &mut self.0 {
            Lead::Postgres(lead) => lead.wait(at_most).await,
            Lead::Sqlite(lead) => lead.wait(at_most).await,
        }
    }
}
