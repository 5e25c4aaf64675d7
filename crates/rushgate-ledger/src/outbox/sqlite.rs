//! The outbox in the application's own SQLite file.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rushgate_core::{Error, OutboxId, Payload, Result};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use tokio::time::sleep;

use super::row::{Plan, Row, batch_of, new_id, plan, resume};
use super::turn::{BATCH_MAX, OutboxStats, OutboxTaken, OutboxTurn, RefusedTask};
use crate::sqlite::fault;
use crate::sqlite::session::sql;

const SCHEMA: &str = include_str!("../../migrations/outbox.sql");
const RETRY: &str = "UPDATE rushgate_outbox SET refused = NULL
    WHERE refused IS NOT NULL AND (?1 IS NULL OR position IN (SELECT value FROM json_each(?1)))";
const DELETE: &str = "DELETE FROM rushgate_outbox
    WHERE refused IS NOT NULL AND (?1 IS NULL OR position IN (SELECT value FROM json_each(?1)))";
const REFUSED: &str = "SELECT position, queue, id, refused, octet_length(payload) FROM rushgate_outbox
    WHERE refused IS NOT NULL AND position > ?1 ORDER BY position LIMIT ?2";

/// How long a step waits for the application's transactions.
const BUSY_MAX: Duration = Duration::from_secs(5);
/// Polling interval for commits of other processes. A poll reads a few bytes from memory.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often a waiting relay tries to get the lock.
const TRY_EVERY: Duration = Duration::from_millis(500);

#[derive(Clone, Debug)]
pub(super) struct Sqlite {
    path: PathBuf,
}

#[derive(Debug)]
pub(super) struct Lead {
    held: Arc<Held>,
    id: OutboxId,
    /// The latest commit of other processes, as last polled.
    seen: i64,
}

/// State of the right to relay. A step whose caller has gone keeps the right until the step ends.
#[derive(Debug)]
struct Held {
    conn: Mutex<Connection>,
    /// Closing the file releases its lock.
    _turn: File,
}

impl Sqlite {
    pub(super) async fn open(path: PathBuf) -> Result<Self> {
        let outbox = Self { path };
        let doing = |error: Error| error.doing(format_args!("open the outbox {}", outbox.path.display()));
        outbox.on_connection(|_| Ok(())).await.map_err(doing)?;
        Ok(outbox)
    }

    pub(super) fn url(&self) -> String {
        format!("sqlite:{}", self.path.display())
    }

    async fn on_connection<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let path = self.path.clone();
        blocking(move || work(&mut connect(&path)?)).await
    }

    pub(super) async fn lead(&self) -> Result<Lead> {
        let turn = self.take_turn().await?;
        let path = self.path.clone();
        blocking(move || {
            let conn = connect(&path)?;
            let params = (new_id(), home(&path)?);
            let id: String =
                conn.query_row(sql!("outbox/begin"), params, |row| row.get(0)).map_err(fault::error)?;
            let id = OutboxId::new(id)?;
            Ok(Lead { held: Arc::new(Held { conn: Mutex::new(conn), _turn: turn }), id, seen: -1 })
        })
        .await
    }

    /// Locks a separate file, because SQLite's own locks end when another handle of its file is closed.
    async fn take_turn(&self) -> Result<File> {
        let mut path = self.path.clone().into_os_string();
        path.push("-relay");
        let unusable = |error: std::io::Error| {
            Error::misconfigured("cannot use the lock file beside the outbox")
                .hint("grant this user write permission on the directory")
                .caused_by(error)
        };
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(unusable)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => sleep(TRY_EVERY).await,
                Err(TryLockError::Error(error)) => return Err(unusable(error)),
            }
        }
    }

    pub(super) async fn stats(&self) -> Result<OutboxStats> {
        self.on_connection(|conn| {
            let read = |row: &rusqlite::Row<'_>| {
                let age: i64 = row.get(2)?;
                let oldest = Duration::from_millis(age.try_into().unwrap_or_default());
                Ok(OutboxStats { waiting: row.get(0)?, refused: row.get(1)?, oldest })
            };
            conn.query_row(sql!("outbox/stats"), [], read).map_err(fault::error)
        })
        .await
    }

    pub(super) async fn refused(&self, after: i64, limit: u32) -> Result<Vec<RefusedTask>> {
        self.on_connection(move |conn| {
            let read = |row: &rusqlite::Row<'_>| {
                Ok(RefusedTask {
                    position: row.get(0)?,
                    queue: text(row, 1)?,
                    id: text(row, 2)?,
                    why: row.get(3)?,
                    bytes: row.get(4)?,
                })
            };
            let mut statement = conn.prepare(REFUSED).map_err(fault::error)?;
            let rows = statement.query_map((after, limit), read).map_err(fault::error)?;
            rows.collect::<rusqlite::Result<_>>().map_err(fault::error)
        })
        .await
    }

    pub(super) async fn retry(&self, positions: Option<Vec<i64>>) -> Result<u64> {
        self.on_refused(RETRY, positions).await
    }

    pub(super) async fn delete(&self, positions: Option<Vec<i64>>) -> Result<u64> {
        self.on_refused(DELETE, positions).await
    }

    /// Changes tasks that were set aside.
    async fn on_refused(&self, sql: &'static str, positions: Option<Vec<i64>>) -> Result<u64> {
        self.on_connection(move |conn| {
            let positions = positions.map(|positions| as_json(&positions));
            Ok(conn.execute(sql, [positions]).map_err(fault::error)? as u64)
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::bug("the outbox thread panicked").caused_by(error))?
}

/// Opens the application's file. Changes only settings of the connection, none of the file.
fn connect(path: &Path) -> Result<Connection> {
    if !path.is_file() {
        return Err(Error::misconfigured(format_args!("file `{}` does not exist", path.display()))
            .hint("name the application's database, whose transactions enqueue tasks"));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(fault::error)?;
    conn.busy_timeout(BUSY_MAX).map_err(fault::error)?;
    // A task that was recorded as moved must survive a power cut.
    conn.pragma_update(None, "synchronous", 2).map_err(fault::error)?;
    let made = "SELECT count(*) FROM sqlite_schema WHERE name = 'rushgate_outbox_state'";
    if conn.query_row(made, [], |row| row.get::<_, i64>(0)).map_err(fault::error)? == 0 {
        let make = format!("BEGIN IMMEDIATE; {SCHEMA}; COMMIT");
        if let Err(error) = conn.execute_batch(&make) {
            // It fails only if no transaction is open, which is the desired state.
            let _ = conn.execute_batch("ROLLBACK");
            return Err(fault::error(error));
        }
    }
    Ok(conn)
}

/// Identifies the file by its inode: a copy has another one, a moved file keeps it.
fn home(path: &Path) -> Result<String> {
    use std::os::unix::fs::MetadataExt as _;
    let gone = |error| Error::unavailable("cannot inspect the outbox file").caused_by(error);
    Ok(std::fs::metadata(path).map_err(gone)?.ino().to_string())
}

fn as_json(positions: &[i64]) -> String {
    let all: Vec<_> = positions.iter().map(i64::to_string).collect();
    format!("[{}]", all.join(","))
}

/// Reads a value of any type as text, because SQLite does not enforce column types.
fn text(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<String> {
    use rusqlite::types::ValueRef;
    Ok(match row.get_ref(at)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Null => String::new(),
    })
}

fn optional_text(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Option<String>> {
    let none = matches!(row.get_ref(at)?, rusqlite::types::ValueRef::Null);
    if none { Ok(None) } else { text(row, at).map(Some) }
}

/// Reads a number. Returns one outside every valid range for any other value.
fn number(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Option<i64>> {
    use rusqlite::types::ValueRef;
    Ok(match row.get_ref(at)? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number),
        _ => Some(-1),
    })
}

fn content(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Option<Vec<u8>>> {
    use rusqlite::types::ValueRef;
    Ok(match row.get_ref(at)? {
        ValueRef::Null => None,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes.to_vec()),
        _ => Some(text(row, at)?.into_bytes()),
    })
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        position: row.get(0)?,
        queue: text(row, 1)?,
        id: text(row, 2)?,
        payload: content(row, 3)?,
        bytes: row.get(4)?,
        content_type: text(row, 5)?,
        kind: optional_text(row, 6)?,
        due_at_ms: number(row, 7)?,
        priority: number(row, 8)?,
        max_attempts: number(row, 9)?,
        key: optional_text(row, 10)?,
        on_duplicate: text(row, 11)?,
        max_wait_ms: number(row, 12)?,
        traceparent: optional_text(row, 13)?,
        age_ms: number(row, 14)?.unwrap_or_default(),
    })
}

/// The transaction of a turn.
struct Step<'c>(rusqlite::Transaction<'c>);

impl Step<'_> {
    fn run(&self, sql: &str, params: impl rusqlite::Params) -> Result<()> {
        let done = self.0.prepare_cached(sql).and_then(|mut statement| statement.execute(params));
        done.map(drop).map_err(fault::error)
    }

    fn rows<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.0.prepare_cached(sql).map_err(fault::error)?;
        let rows = statement.query_map(params, read).map_err(fault::error)?;
        rows.collect::<rusqlite::Result<_>>().map_err(fault::error)
    }

    fn set_aside(&self, refused: &[(i64, String)]) -> Result<()> {
        for (position, why) in refused {
            self.run(sql!("outbox/refuse"), (position, why))?;
            self.run(sql!("outbox/leave"), [position])?;
        }
        Ok(())
    }

    fn under_way(&self) -> Result<OutboxTaken> {
        self.run(sql!("outbox/ended"), [])?;
        let found = |row: &rusqlite::Row<'_>| Ok((read(row)?, row.get(15)?));
        let resumed = resume(self.rows(sql!("outbox/under_way"), [Payload::MAX_BYTES as i64], found)?);
        self.set_aside(&resumed.refused)?;
        Ok(resumed.taken)
    }

    fn turn(&self, turn: &OutboxTurn) -> Result<OutboxTaken> {
        for position in &turn.done {
            self.run(sql!("outbox/done"), [position])?;
        }
        self.set_aside(&turn.refused)?;
        if !turn.done.is_empty() || !turn.refused.is_empty() {
            self.run(sql!("outbox/ended"), [])?;
        }
        if turn.more { self.take(turn) } else { Ok(OutboxTaken::default()) }
    }

    fn take(&self, turn: &OutboxTurn) -> Result<OutboxTaken> {
        let mut rows = Vec::new();
        for queue in self.rows(sql!("outbox/queues"), [], |row| text(row, 0))? {
            rows.extend(self.next(&queue)?);
        }
        if rows.is_empty() {
            return Ok(OutboxTaken::default());
        }
        let last = self.rows("SELECT last FROM rushgate_outbox_state", [], |row| row.get::<_, i64>(0))?;
        let last = last.first().copied().unwrap_or_default();
        let Plan { taken, refused, noted, last: now } = plan(rows, last.cast_unsigned(), &turn.marks);
        self.set_aside(&refused)?;
        let note = "INSERT INTO rushgate_outbox_batch (queue, first, positions) VALUES (?1, ?2, ?3)";
        for (queue, first, positions) in &noted {
            self.run(note, (queue.as_str(), first, as_json(positions)))?;
        }
        if now.cast_signed() > last {
            self.run("UPDATE rushgate_outbox_state SET last = ?1", [now.cast_signed()])?;
        }
        Ok(taken)
    }

    /// Reads row by row, so that no more than one batch is in memory.
    fn next(&self, queue: &str) -> Result<Vec<Row>> {
        let mut statement = self.0.prepare_cached(sql!("outbox/next")).map_err(fault::error)?;
        let params = (queue, BATCH_MAX as i64, Payload::MAX_BYTES as i64);
        let rows = statement.query_map(params, read).map_err(fault::error)?;
        let mut failed = None;
        let batch = batch_of(rows.map_while(|row| row.map_err(|error| failed = Some(error)).ok()));
        failed.map_or(Ok(batch), |error| Err(fault::error(error)))
    }
}

impl Lead {
    pub(super) fn id(&self) -> &OutboxId {
        &self.id
    }

    async fn step<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Step<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let held = Arc::clone(&self.held);
        blocking(move || {
            let mut conn = held.conn.lock().unwrap_or_else(PoisonError::into_inner);
            let transaction =
                conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault::error)?;
            let step = Step(transaction);
            let answer = work(&step)?;
            step.0.commit().map_err(fault::commit_error)?;
            Ok(answer)
        })
        .await
    }

    pub(super) async fn under_way(&mut self) -> Result<OutboxTaken> {
        self.step(|step| step.under_way()).await
    }

    pub(super) async fn turn(&mut self, turn: OutboxTurn) -> Result<OutboxTaken> {
        self.step(move |step| step.turn(&turn)).await
    }

    pub(super) async fn wait(&mut self, at_most: Duration) -> Result<()> {
        let until = Instant::now() + at_most;
        loop {
            let version = self.version()?;
            if version != self.seen || Instant::now() >= until {
                self.seen = version;
                return Ok(());
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// The file's data version, which changes with each commit of another connection.
    fn version(&self) -> Result<i64> {
        let conn = self.held.conn.lock().unwrap_or_else(PoisonError::into_inner);
        conn.query_row("PRAGMA data_version", [], |row| row.get(0)).map_err(fault::error)
    }
}
