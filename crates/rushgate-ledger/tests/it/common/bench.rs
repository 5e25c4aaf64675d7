//! Creates empty ledgers of each kind, and opens them again or bypasses the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rushgate_ledger::{Ledger, connect};
use rushgate_test::servers::PostgresServer;
use rusqlite::types::Value;
use tempfile::TempDir;
use tokio_postgres::NoTls;

use super::phones;

/// Where ledgers of one kind are created.
pub enum Bench {
    Sqlite(TempDir),
    Postgres(String),
}

/// Runs each named test with each kind of ledger.
macro_rules! on_each_ledger {
    ($($name:ident)*) => {
        mod sqlite { $(
            #[tokio::test]
            async fn $name() { super::$name(crate::common::bench::Bench::sqlite()).await }
        )* }
        mod postgres { $(
            #[tokio::test]
            async fn $name() { super::$name(crate::common::bench::Bench::postgres()).await }
        )* }
    };
}

impl Bench {
    pub fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub fn postgres() -> Self {
        Self::Postgres(PostgresServer::shared("ledger"))
    }

    /// The URL of a new ledger.
    pub fn url(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Relaxed);
        match self {
            Self::Sqlite(directory) => {
                format!("sqlite:{}", directory.path().join(format!("{n}.db")).display())
            }
            Self::Postgres(url) => format!("{url}?schema=test_{}_{n}", std::process::id()),
        }
    }

    /// A new ledger with a sale of phones.
    pub async fn ledger(&self, units: u32, per_buyer: u32) -> Arc<dyn Ledger> {
        let ledger = connect(&self.url()).unwrap();
        ledger.open_sale(phones(units, per_buyer)).await.unwrap();
        ledger
    }
}

/// A direct connection to a ledger's database, as of another program.
pub enum Raw {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Raw {
    pub async fn connect(url: &str) -> Self {
        let Some(path) = url.strip_prefix("sqlite:") else {
            let (url, schema) = url.split_once("?schema=").unwrap();
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute(&format!("SET search_path TO {schema}")).await.unwrap();
            return Self::Postgres(client);
        };
        let conn = rusqlite::Connection::open(path).unwrap();
        conn.execute_batch("PRAGMA foreign_keys = ON; PRAGMA recursive_triggers = ON;").unwrap();
        Self::Sqlite(conn)
    }

    /// Executes SQL in SQLite's syntax; byte and boolean literals are translated for Postgres.
    pub async fn execute(&self, sql: &str) -> Result<(), String> {
        match self {
            Self::Sqlite(conn) => conn.execute_batch(sql).map_err(|error| error.to_string()),
            Self::Postgres(client) => {
                client.batch_execute(&sql.replace("X'", "'\\x")).await.map_err(|error| {
                    error.as_db_error().map_or_else(|| error.to_string(), |db| db.message().to_owned())
                })
            }
        }
    }

    pub async fn count(&self, from: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {from}");
        match self {
            Self::Sqlite(conn) => conn.query_row(&sql, [], |row| row.get(0)).unwrap(),
            Self::Postgres(client) => client.query_one(&sql, &[]).await.unwrap().get(0),
        }
    }

    /// Every row of every table.
    pub async fn content(&self) -> Vec<String> {
        let mut content = Vec::new();
        for table in ["sale", "sku", "withdrawn", "orders", "order_unit", "refusal"] {
            content.push(match self {
                Self::Sqlite(conn) => {
                    let mut statement = conn.prepare(&format!("SELECT * FROM {table}")).unwrap();
                    let columns = statement.column_count();
                    let rows = statement
                        .query_map([], |row| {
                            (0..columns).map(|at| row.get::<_, Value>(at)).collect::<Result<Vec<_>, _>>()
                        })
                        .unwrap();
                    format!("{:?}", rows.collect::<Result<Vec<_>, _>>().unwrap())
                }
                Self::Postgres(client) => {
                    let sql = format!(
                        "SELECT coalesce(string_agg(t::text, ' ' ORDER BY t::text), '') FROM {table} t"
                    );
                    client.query_one(&sql, &[]).await.unwrap().get(0)
                }
            });
        }
        content
    }

    /// True if another connection waits for a lock that `holder` has.
    pub async fn waiting_for(&self, holder: &Self) -> bool {
        let (Self::Postgres(client), Self::Postgres(holder)) = (self, holder) else { return false };
        let pid: i32 = holder.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))";
        client.query_one(sql, &[&pid]).await.unwrap().get::<_, i64>(0) > 0
    }

    /// Blocks every other writer until [`let_go`](Self::let_go).
    pub async fn hold_writers_up(&self) {
        let sql = match self {
            Self::Sqlite(_) => "BEGIN IMMEDIATE",
            Self::Postgres(_) => "BEGIN; LOCK TABLE orders IN SHARE ROW EXCLUSIVE MODE",
        };
        self.execute(sql).await.unwrap();
    }

    pub async fn let_go(&self) {
        self.execute("ROLLBACK").await.unwrap();
    }
}
