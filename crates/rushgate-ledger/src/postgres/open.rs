//! Opens the ledger: pool, connection settings, checks and schema.

use std::time::Duration;

use deadpool_postgres::{
    Client, Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts,
};
use rushgate_core::{Durability, Error, Result};
use tokio_postgres::NoTls;

use super::fault::{Fault, takes_no_writes};
use super::hosts::EachHost;
use super::tls;
use super::url::Options;

/// Migrations, in order. The first one creates version 1 of the schema.
const MIGRATIONS: [&str; 2] = [
    include_str!("../../migrations/postgres/0001_orders.sql"),
    include_str!("../../migrations/postgres/0002_outbox.sql"),
];

/// Oldest supported server version. Guarantees were tested with it and later versions.
const OLDEST: i32 = 150_000;

/// How long to wait for another process that migrates the schema.
const MIGRATION_MAX: Duration = Duration::from_secs(60);

/// Properties of a server.
pub(crate) struct Server {
    pub(super) version: String,
    pub(super) durability: Durability,
}

pub(crate) fn pool(options: &Options) -> Result<Pool> {
    let config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let (hosts, at_most) = (options.hosts.clone(), options.host_max());
    let manager = if options.uses_tls() {
        let each = EachHost { hosts, tls: tls::connector(&options.trust)?, at_most };
        Manager::from_connect(options.config.clone(), each, config)
    } else {
        Manager::from_connect(options.config.clone(), EachHost { hosts, tls: NoTls, at_most }, config)
    };
    let settings = settings(options);
    Pool::builder(manager)
        .max_size(options.pool)
        .runtime(Runtime::Tokio1)
        .timeouts(Timeouts {
            wait: Some(options.statement_timeout),
            create: Some(options.connect_max()),
            recycle: Some(options.connect_timeout()),
        })
        .post_create(Hook::async_fn(move |client, _| {
            let settings = settings.clone();
            Box::pin(async move { client.batch_execute(&settings).await.map_err(HookError::Backend) })
        }))
        .build()
        .map_err(|error| Error::bug("cannot create the connection pool").caused_by(error))
}

/// Settings of a connection. Every query of the ledger has an index. Plans with full table scans are disabled,
/// because a plan that was made while a table was small would stay cached.
pub(crate) fn settings(options: &Options) -> String {
    let (schema, limit) = (&options.schema, options.statement_timeout.as_millis());
    format!(
        "SET search_path TO \"{schema}\", pg_temp;
         SET statement_timeout = {limit};
         SET idle_in_transaction_session_timeout = {};
         SET client_min_messages = error;
         SET enable_seqscan = off;
         SET enable_bitmapscan = off;
         SET enable_hashjoin = off;
         SET enable_mergejoin = off;
         SET jit = off;
         SELECT set_config('synchronous_commit', 'on', false)
         WHERE current_setting('synchronous_commit') IN ('off', 'local', 'remote_write')",
        limit * 2
    )
}

/// Checks the server and migrates the schema.
pub(crate) async fn open(pool: &Pool, options: &Options) -> Result<Server> {
    let client = pool.get().await.map_err(|error| Fault::Pool(error).error())?;
    let server = check_server(&client).await?;
    let version = version(&client, &options.schema).await?;
    if version != Some(MIGRATIONS.len() as i32) {
        migrate(&client, options).await?;
    }
    Ok(server)
}

async fn check_server(client: &Client) -> Result<Server> {
    let row = client
        .query_one(
            "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
                    pg_is_in_recovery() OR current_setting('transaction_read_only')::bool,
                    current_setting('fsync')::bool, current_setting('synchronous_standby_names')",
            &[],
        )
        .await
        .map_err(said)?;
    let (number, version): (i32, String) = (row.get(0), row.get(1));
    if number < OLDEST {
        let why = format!("Postgres {version} is too old; version 15 or later is required");
        return Err(Error::misconfigured(why).hint("upgrade the server"));
    }
    if row.get(2) {
        return Err(takes_no_writes());
    }
    let durability = match (row.get::<_, bool>(3), row.get::<_, &str>(4)) {
        (false, _) => Durability::D1,
        (true, "") => Durability::D2,
        (true, _) => Durability::D3,
    };
    // Debian appends its package version.
    let version = version.split_whitespace().next().unwrap_or(&version).to_owned();
    Ok(Server { version, durability })
}

fn said(error: tokio_postgres::Error) -> Error {
    Fault::from(error).error()
}

/// Version of the schema, or `None` if it does not exist.
async fn version(client: &Client, schema: &str) -> Result<Option<i32>> {
    let made = client
        .query_one("SELECT to_regclass(format('%I.schema_version', $1::text)) IS NOT NULL", &[&schema])
        .await
        .map_err(said)?;
    if !made.get::<_, bool>(0) {
        return Ok(None);
    }
    let row = client.query_one("SELECT max(version) FROM schema_version", &[]).await.map_err(said)?;
    let version: Option<i32> = row.get(0);
    let newest = MIGRATIONS.len() as i32;
    match version {
        Some(version) if version > newest => {
            let why = format!(
                "the ledger's schema has version {version}; this build supports versions up to {newest}"
            );
            Err(Error::misconfigured(why).hint("use the newer build of Rushgate that created it"))
        }
        version => Ok(version),
    }
}

/// Migrates in one transaction, one process at a time.
async fn migrate(client: &Client, options: &Options) -> Result<()> {
    let done = migrate_steps(client, &options.schema).await;
    if done.is_err() {
        // Rolls back. If this fails, the end of the connection does.
        let _ = client.batch_execute("ROLLBACK").await;
    }
    let limit = options.statement_timeout.as_millis();
    client.batch_execute(&format!("SET statement_timeout = {limit}")).await.map_err(said)?;
    done
}

async fn migrate_steps(client: &Client, schema: &str) -> Result<()> {
    let begin = format!(
        "SET statement_timeout = {}; BEGIN ISOLATION LEVEL READ COMMITTED;
         SELECT pg_advisory_xact_lock(hashtext('rushgate migration of {schema}'))",
        MIGRATION_MAX.as_millis()
    );
    client.batch_execute(&begin).await.map_err(said)?;
    // A user without the right to create schemas may use an existing one.
    let made = client.query_one("SELECT to_regnamespace($1) IS NOT NULL", &[&schema]).await.map_err(said)?;
    if !made.get::<_, bool>(0) {
        client.batch_execute(&format!("CREATE SCHEMA \"{schema}\"")).await.map_err(said)?;
    }
    // Another process may have migrated while this one waited.
    let version = version(client, schema).await?;
    if version.is_none() {
        check_owner(client, schema).await?;
        client
            .batch_execute(
                "CREATE TABLE schema_version (version integer PRIMARY KEY, made_at timestamptz NOT NULL DEFAULT now())",
            )
            .await
            .map_err(said)?;
    }
    for (done, migration) in (0..).zip(MIGRATIONS).skip(version.unwrap_or(0) as usize) {
        client.batch_execute(migration).await.map_err(said)?;
        let insert = "INSERT INTO schema_version (version) VALUES ($1)";
        client.execute(insert, &[&(done + 1_i32)]).await.map_err(said)?;
    }
    client.batch_execute("COMMIT").await.map_err(|error| Fault::from(error).commit_error())
}

/// Fails, before any change, for a schema with another program's tables.
async fn check_owner(client: &Client, schema: &str) -> Result<()> {
    let count = "SELECT count(*) FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)";
    let row = client.query_one(count, &[&schema]).await.map_err(said)?;
    if row.get::<_, i64>(0) == 0 {
        return Ok(());
    }
    Err(Error::misconfigured(format_args!("the schema `{schema}` belongs to another program"))
        .hint("pass ?schema= in the URL to use another schema"))
}
