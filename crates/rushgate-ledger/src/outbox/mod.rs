//! The outbox: tasks that transactions of the application's own database enqueue.

mod entry;
#[cfg(feature = "postgres")]
mod postgres;
mod row;
#[cfg(feature = "sqlite")]
mod sqlite;
mod turn;

use std::time::Duration;

use rushgate_core::{Error, Field, OutboxId, Result, check_range};

pub use entry::OutboxEntry;
pub use turn::{OutboxBatches, OutboxStats, OutboxTaken, OutboxTask, OutboxTurn, RefusedTask};

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

/// Does the same with each backend.
macro_rules! each {
    ($kind:ident, $value:expr, $of:ident => $does:expr) => {
        match $value {
            #[cfg(feature = "postgres")]
            $kind::Postgres($of) => $does,
            #[cfg(feature = "sqlite")]
            $kind::Sqlite($of) => $does,
        }
    };
}

impl Outbox {
    /// Maximum number of tasks of a queue that are under way at a time.
    pub const BATCH_MAX: usize = turn::BATCH_MAX;
    /// Maximum size of a batch's payloads, in bytes, unless a single task is larger.
    pub const BATCH_BYTES: usize = turn::BATCH_BYTES;

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
        each!(Kind, &self.0, of => of.url())
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
        each!(Kind, &self.0, of => of.stats().await)
    }

    /// Lists tasks that were set aside, by position: up to `limit` (1 to 10,000) after `after`.
    pub async fn refused(&self, after: i64, limit: u32) -> Result<Vec<RefusedTask>> {
        check_range(Field::Limit, limit.into(), 1, 10_000)?;
        each!(Kind, &self.0, of => of.refused(after, limit).await)
    }

    /// Retries tasks that were set aside: those at the positions, or all. Returns how many.
    pub async fn retry(&self, positions: Option<Vec<i64>>) -> Result<u64> {
        each!(Kind, &self.0, of => of.retry(positions).await)
    }

    /// Deletes tasks that were set aside: those at the positions, or all. Returns how many.
    pub async fn delete(&self, positions: Option<Vec<i64>>) -> Result<u64> {
        each!(Kind, &self.0, of => of.delete(positions).await)
    }
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

impl OutboxLead {
    /// ID of the outbox in stores.
    pub fn id(&self) -> &OutboxId {
        each!(Lead, &self.0, lead => lead.id())
    }

    /// Returns the batches that were under way when the last relay ended. Send them again before anything else of
    /// their queues.
    pub async fn under_way(&mut self) -> Result<OutboxTaken> {
        each!(Lead, &mut self.0, lead => lead.under_way().await)
    }

    /// Records what was relayed and returns more tasks, in one transaction.
    ///
    /// # Errors
    /// After any error the right is lost: drop the value, and call [`lead`](Outbox::lead) again.
    pub async fn turn(&mut self, turn: OutboxTurn) -> Result<OutboxTaken> {
        each!(Lead, &mut self.0, lead => lead.turn(turn).await)
    }

    /// Waits until there may be more tasks: a transaction with inserts has committed, or `at_most` has passed.
    pub async fn wait(&mut self, at_most: Duration) -> Result<()> {
        each!(Lead, &mut self.0, lead => lead.wait(at_most).await)
    }
}
