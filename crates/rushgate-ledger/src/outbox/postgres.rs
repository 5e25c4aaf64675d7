//! The outbox on Postgres.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::poll_fn;
use rushgate_core::{Error, OutboxId, Payload, Result};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client, NoTls, Row as Found, Statement};

use super::row::{Plan, Row, new_id, plan, resume};
use super::turn::{BATCH_BYTES, BATCH_MAX, OutboxStats, OutboxTaken, OutboxTurn, RefusedTask};
use crate::postgres::fault::Fault;
use crate::postgres::session::{BEGIN, Params, sql};
use crate::postgres::url::Options;
use crate::postgres::{hosts, open, tls};

const RETRY: &str = "UPDATE outbox SET refused = NULL WHERE refused IS NOT NULL AND ($1::bigint[] IS NULL OR position = ANY ($1))";
const DELETE: &str =
    "DELETE FROM outbox WHERE refused IS NOT NULL AND ($1::bigint[] IS NULL OR position = ANY ($1))";
const REFUSED: &str = "SELECT position, queue, id, refused, octet_length(payload)::bigint FROM outbox
    WHERE refused IS NOT NULL AND position > $1 ORDER BY position LIMIT $2";
/// Identifies the cluster and database. A copy elsewhere has another value.
const HOME: &str = "SELECT (SELECT system_identifier::text FROM pg_control_system()) || '/' ||
    (SELECT oid::text FROM pg_database WHERE datname = current_database())";

/// The advisory lock that only one relay holds.
const LOCK: &str = "SELECT pg_try_advisory_lock(hashtext('rushgate outbox'), hashtext($1))";
/// How often a waiting relay tries to get the lock.
const TRY_EVERY: Duration = Duration::from_millis(500);
/// The notification channel of the outbox. The hash keeps it short, whatever the length of the schema's name.
const CHANNEL: &str = "SELECT 'rushgate_outbox_' || md5($1)";

/// Limits how long a relay that lost its server blocks others: the server detects the dead connection.
const KEPT_ALIVE: &str =
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
    SET tcp_user_timeout = '30s'; SET client_connection_check_interval = '10s';";

#[derive(Clone, Debug)]
pub(super) struct Postgres {
    options: Arc<Options>,
}

/// A separate connection of the outbox, outside the ledger's pool. It listens, and holds the lock.
#[derive(Debug)]
struct Session {
    client: Client,
    notified: Arc<Notify>,
    step_max: Duration,
    prepared: Mutex<HashMap<&'static str, Statement>>,
}

#[derive(Debug)]
pub(super) struct Lead {
    session: Session,
    id: OutboxId,
}

impl Postgres {
    pub(super) async fn open(url: &str) -> Result<Self> {
        let options = Options::parse(url)?;
        let doing = |error: Error| error.doing(format_args!("open the outbox {options}"));
        let pool = open::pool(&options).map_err(doing)?;
        open::open(&pool, &options).await.map_err(doing)?;
        pool.close();
        Ok(Self { options: Arc::new(options) })
    }

    pub(super) fn url(&self) -> String {
        self.options.to_string()
    }

    async fn session(&self) -> Result<Session> {
        let options = &self.options;
        let (client, notified) = if options.uses_tls() {
            connect(options, tls::connector(&options.trust)?).await?
        } else {
            connect(options, NoTls).await?
        };
        let session = Session { client, notified, step_max: options.step_max(), prepared: Mutex::default() };
        session.say(&open::settings(options)).await?;
        Ok(session)
    }

    pub(super) async fn lead(&self) -> Result<Lead> {
        let session = self.session().await?;
        let schema = &self.options.schema;
        session.say(KEPT_ALIVE).await?;
        // A waiting relay has no open transaction and does not LISTEN. Either would prevent the server from cleaning
        // up while the other relay works.
        while !session.one(LOCK, &[schema]).await?.get::<_, bool>(0) {
            sleep(TRY_EVERY).await;
        }
        let channel: String = session.one(CHANNEL, &[schema]).await?.get(0);
        session.say(&format!("LISTEN {channel}")).await?;
        let home: String = session.one(HOME, &[]).await?.get(0);
        let id: String = session.one(sql!("outbox/begin"), &[&new_id(), &home]).await?.get(0);
        Ok(Lead { session, id: OutboxId::new(id)? })
    }

    pub(super) async fn stats(&self) -> Result<OutboxStats> {
        let found = self.session().await?.one(sql!("outbox/stats"), &[]).await?;
        let n = |at: usize| found.get::<_, i64>(at).try_into().unwrap_or_default();
        Ok(OutboxStats { waiting: n(0), refused: n(1), oldest: Duration::from_millis(n(2)) })
    }

    pub(super) async fn refused(&self, after: i64, limit: u32) -> Result<Vec<RefusedTask>> {
        let found = self.session().await?.rows(REFUSED, &[&after, &i64::from(limit)]).await?;
        let read = |row: &Found| RefusedTask {
            position: row.get(0),
            queue: row.get(1),
            id: row.get(2),
            why: row.get(3),
            bytes: row.get::<_, i64>(4).try_into().unwrap_or_default(),
        };
        Ok(found.iter().map(read).collect())
    }

    pub(super) async fn retry(&self, positions: Option<Vec<i64>>) -> Result<u64> {
        self.session().await?.run(RETRY, &[&positions]).await
    }

    pub(super) async fn delete(&self, positions: Option<Vec<i64>>) -> Result<u64> {
        self.session().await?.run(DELETE, &[&positions]).await
    }
}

/// Connects, and forwards notifications from the server.
async fn connect<T>(options: &Options, tls: T) -> Result<(Client, Arc<Notify>)>
where
    T: tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket> + Clone,
    T::Stream: Send + 'static,
{
    let connecting = hosts::connect(&options.hosts, &tls, options.host_max());
    let connected = timeout(options.connect_max(), connecting).await.ok().flatten().ok_or_else(no_answer)?;
    let (client, mut connection) = connected.map_err(said)?;
    let notified = Arc::new(Notify::new());
    let teller = Arc::clone(&notified);
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(_) = message {
                teller.notify_one();
            }
        }
        // Wake the waiter, which then detects that the connection has ended.
        teller.notify_one();
    });
    Ok((client, notified))
}

fn said(error: tokio_postgres::Error) -> Error {
    Fault::from(error).error()
}

fn no_answer() -> Error {
    Fault::NoAnswer.error()
}

impl Session {
    async fn within<T>(&self, step: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T> {
        timeout(self.step_max, step).await.map_err(|_| no_answer())?.map_err(said)
    }

    async fn say(&self, sql: &str) -> Result<()> {
        self.within(self.client.batch_execute(sql)).await
    }

    /// Prepares a statement once per connection.
    async fn prepare(&self, sql: &'static str) -> Result<Statement> {
        let known = || self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known().get(sql).cloned();
        match found {
            Some(statement) => Ok(statement),
            None => {
                let statement = self.within(self.client.prepare(sql)).await?;
                known().insert(sql, statement.clone());
                Ok(statement)
            }
        }
    }

    async fn rows(&self, sql: &'static str, params: Params<'_>) -> Result<Vec<Found>> {
        let statement = self.prepare(sql).await?;
        self.within(self.client.query(&statement, params)).await
    }

    async fn one(&self, sql: &'static str, params: Params<'_>) -> Result<Found> {
        let statement = self.prepare(sql).await?;
        self.within(self.client.query_one(&statement, params)).await
    }

    async fn run(&self, sql: &'static str, params: Params<'_>) -> Result<u64> {
        let statement = self.prepare(sql).await?;
        self.within(self.client.execute(&statement, params)).await
    }
}

fn read(row: &Found) -> Row {
    Row {
        position: row.get(0),
        queue: row.get(1),
        id: row.get(2),
        payload: row.get(3),
        bytes: row.get(4),
        content_type: row.get(5),
        kind: row.get(6),
        due_at_ms: row.get(7),
        priority: row.get::<_, Option<i32>>(8).map(i64::from),
        max_attempts: row.get::<_, Option<i32>>(9).map(i64::from),
        key: row.get(10),
        on_duplicate: row.get(11),
        max_wait_ms: row.get(12),
        traceparent: row.get(13),
        age_ms: row.get(14),
    }
}

impl Lead {
    pub(super) fn id(&self) -> &OutboxId {
        &self.id
    }

    pub(super) async fn under_way(&mut self) -> Result<OutboxTaken> {
        self.session.say(BEGIN).await?;
        self.session.run(sql!("outbox/ended"), &[]).await?;
        let found = self.session.rows(sql!("outbox/under_way"), &[&(Payload::MAX_BYTES as i32)]).await?;
        let resumed = resume(found.iter().map(|row| (read(row), row.get(15))).collect());
        self.set_aside(&resumed.refused).await?;
        self.session.say("COMMIT").await?;
        Ok(resumed.taken)
    }

    pub(super) async fn turn(&mut self, turn: OutboxTurn) -> Result<OutboxTaken> {
        self.session.say(BEGIN).await?;
        if !turn.done.is_empty() {
            self.session.run(sql!("outbox/done"), &[&turn.done]).await?;
        }
        self.set_aside(&turn.refused).await?;
        if !turn.done.is_empty() || !turn.refused.is_empty() {
            self.session.run(sql!("outbox/ended"), &[]).await?;
        }
        let plan = if turn.more { self.take(&turn).await? } else { Plan::default() };
        self.session.say("COMMIT").await?;
        Ok(plan.taken)
    }

    async fn take(&self, turn: &OutboxTurn) -> Result<Plan> {
        let (rows, bytes) = (BATCH_MAX as i64, BATCH_BYTES as i64);
        let found =
            self.session.rows(sql!("outbox/next"), &[&rows, &bytes, &(Payload::MAX_BYTES as i32)]).await?;
        if found.is_empty() {
            return Ok(Plan::default());
        }
        let last: i64 = self.session.one("SELECT last FROM outbox_state FOR UPDATE", &[]).await?.get(0);
        let rows = found.iter().map(read).collect();
        let plan = plan(rows, last.cast_unsigned(), &turn.marks);
        self.set_aside(&plan.refused).await?;
        for (queue, first, positions) in &plan.noted {
            let note = "INSERT INTO outbox_batch (queue, first, positions) VALUES ($1, $2, $3)";
            self.session.run(note, &[&queue.as_str(), first, positions]).await?;
        }
        if plan.last.cast_signed() > last {
            self.session.run("UPDATE outbox_state SET last = $1", &[&plan.last.cast_signed()]).await?;
        }
        Ok(plan)
    }

    async fn set_aside(&self, refused: &[(i64, String)]) -> Result<()> {
        for (position, why) in refused {
            self.session.run(sql!("outbox/refuse"), &[position, why]).await?;
        }
        Ok(())
    }

    pub(super) async fn wait(&mut self, at_most: Duration) -> Result<()> {
        let _ = timeout(at_most, self.session.notified.notified()).await;
        if self.session.client.is_closed() {
            return Err(
                Error::unavailable("the connection to Postgres was lost").hint("check that the server is up")
            );
        }
        Ok(())
    }
}
