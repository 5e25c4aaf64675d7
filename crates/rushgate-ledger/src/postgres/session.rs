//! A connection that counts its statements.

use deadpool_postgres::Client;
use futures_util::TryStreamExt as _;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::fault::Fault;
use crate::counters::Counters;

/// The SQL of a file. Its header documents parameters and result.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/postgres/", $name, ".sql"))
    };
}
pub(crate) use sql;

pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

pub(super) type Sql<T> = Result<T, Fault>;
pub(crate) type Params<'p> = &'p [&'p (dyn ToSql + Sync)];

#[derive(Clone, Copy)]
pub(super) struct Session<'c> {
    client: &'c Client,
    counters: &'c Counters,
}

impl<'c> Session<'c> {
    pub(super) fn new(client: &'c Client, counters: &'c Counters) -> Self {
        Self { client, counters }
    }

    /// Executes SQL text without parameters.
    pub(super) async fn say(self, sql: &str) -> Sql<()> {
        self.counters.count(|calls| calls.statements += 1);
        Ok(self.client.batch_execute(sql).await?)
    }

    /// Executes a statement and returns the number of changed rows.
    pub(super) async fn run(self, sql: &str, params: Params<'_>) -> Sql<u64> {
        let statement = self.prepare(sql).await?;
        self.run_prepared(&statement, params).await
    }

    pub(super) async fn rows(self, sql: &str, params: Params<'_>) -> Sql<Vec<Row>> {
        let statement = self.prepare(sql).await?;
        self.rows_prepared(&statement, params).await
    }

    /// The first row, if any.
    pub(super) async fn first(self, sql: &str, params: Params<'_>) -> Sql<Option<Row>> {
        Ok(self.rows(sql, params).await?.into_iter().next())
    }

    /// Calls `visit` for each row as it arrives.
    pub(super) async fn each(
        self,
        sql: &str,
        params: Params<'_>,
        mut visit: impl FnMut(&Row) -> Sql<()>,
    ) -> Sql<()> {
        let statement = self.prepare(sql).await?;
        self.counters.count(|calls| calls.statements += 1);
        let rows = self.client.query_raw(&statement, params.iter().copied()).await?;
        let mut rows = std::pin::pin!(rows);
        while let Some(row) = rows.try_next().await? {
            visit(&row)?;
        }
        Ok(())
    }

    /// Prepares and caches a statement. Prepared statements can be sent together: futures that are polled together do
    /// not wait for each other's answers.
    pub(super) async fn prepare(self, sql: &str) -> Sql<Statement> {
        Ok(self.client.prepare_cached(sql).await?)
    }

    pub(super) async fn run_prepared(self, statement: &Statement, params: Params<'_>) -> Sql<u64> {
        self.counters.count(|calls| calls.statements += 1);
        Ok(self.client.execute(statement, params).await?)
    }

    pub(super) async fn rows_prepared(self, statement: &Statement, params: Params<'_>) -> Sql<Vec<Row>> {
        self.counters.count(|calls| calls.statements += 1);
        Ok(self.client.query(statement, params).await?)
    }
}
