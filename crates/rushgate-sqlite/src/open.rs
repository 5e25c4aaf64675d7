//! Opening the file: its URL, its pragmas, its schema.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rushgate_core::{Durability, Error, Result};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::fault::translate;

/// "RGAT": says that a file is ours.
const APPLICATION_ID: i64 = 0x5247_4154;
/// How long a writer waits for the other processes' transactions.
const BUSY_LIMIT: Duration = Duration::from_secs(5);
/// The pages that a connection keeps in memory, in KiB.
const CACHE_KIB: i64 = 65_536;

/// Every migration, in order: the schema's version is how many have been carried out.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/0001_init.sql")];

/// Where the store is and how careful it is.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub(crate) target: Target,
    pub(crate) durability: Durability,
}

#[derive(Clone, Debug)]
pub(crate) enum Target {
    File(PathBuf),
    /// In memory, for this process only.
    Memory,
}

impl Location {
    /// Reads `sqlite:PATH`, `sqlite::memory:`, and `?durability=power|process`.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("sqlite:").ok_or_else(|| {
            Error::invalid("the store's URL", format_args!("`{url}` does not begin with `sqlite:`"))
        })?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.strip_prefix("//").unwrap_or(path);
        let mut durability = Durability::D2;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            durability = match pair {
                "durability=power" => Durability::D2,
                "durability=process" => Durability::D1,
                _ => {
                    let why =
                        format!("has the unknown option `{pair}`; there is `durability=power` or `=process`");
                    return Err(Error::invalid("the store's URL", why));
                }
            };
        }
        match path {
            "" => Err(Error::invalid("the store's URL", "names no file").hint("write `sqlite:rushgate.db`")),
            ":memory:" => Ok(Self { target: Target::Memory, durability: Durability::D0 }),
            path => Ok(Self { target: Target::File(path.into()), durability }),
        }
    }

    /// The path as text, for people.
    pub(crate) fn shown(&self) -> String {
        match &self.target {
            Target::File(path) => path.display().to_string(),
            Target::Memory => ":memory:".into(),
        }
    }

    /// The writer's connection, on a file that is known to have today's schema.
    pub(crate) fn open_writer(&self) -> Result<Connection> {
        let mut conn = match &self.target {
            Target::File(path) => {
                open_file(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?
            }
            Target::Memory => Connection::open_in_memory().map_err(|fault| translate(fault, ":memory:"))?,
        };
        let path = self.shown();
        check_ours(&conn, &path)?;
        self.prepare(&mut conn).map_err(|fault| translate(fault, &path))?;
        migrate(&conn, &path)?;
        Ok(conn)
    }

    /// A connection that only reads. There is none for a store in memory.
    pub(crate) fn open_reader(&self) -> Result<Option<Connection>> {
        let Target::File(path) = &self.target else { return Ok(None) };
        let mut conn = open_file(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let pragmas = |conn: &mut Connection| {
            conn.busy_handler(Some(wait_for_lock))?;
            conn.pragma_update(None, "query_only", true)?;
            conn.pragma_update(None, "cache_size", -CACHE_KIB / 4)?;
            conn.set_prepared_statement_cache_capacity(64);
            Ok(())
        };
        pragmas(&mut conn).map_err(|fault| translate(fault, &self.shown()))?;
        Ok(Some(conn))
    }

    fn prepare(&self, conn: &mut Connection) -> rusqlite::Result<()> {
        conn.busy_handler(Some(wait_for_lock))?;
        if matches!(self.target, Target::File(_)) {
            enter_wal(conn)?;
        }
        let synchronous = if self.durability >= Durability::D2 { "FULL" } else { "NORMAL" };
        conn.pragma_update(None, "synchronous", synchronous)?;
        conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
        conn.pragma_update(None, "wal_autocheckpoint", 4_000)?;
        conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        conn.set_prepared_statement_cache_capacity(256);
        Ok(())
    }
}

fn open_file(path: &Path, flags: OpenFlags) -> Result<Connection> {
    if path.is_dir() {
        return Err(Error::misconfigured(format_args!("`{}` is a directory", path.display()))
            .hint("name a file in it, such as `sqlite:DIR/rushgate.db`"));
    }
    Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|fault| translate(fault, &path.display().to_string()))
}

/// Switches to write-ahead logging.
///
/// On a fresh file SQLite answers "busy" at once, without asking the busy handler, when two processes do this at
/// the same moment; so the switch is tried again until the limit.
fn enter_wal(conn: &Connection) -> rusqlite::Result<()> {
    let end = Instant::now() + BUSY_LIMIT;
    loop {
        let switched = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        match switched {
            Err(fault)
                if fault.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < end =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other.map(drop),
        }
    }
}

/// Refuses a database that belongs to another program.
fn check_ours(conn: &Connection, path: &str) -> Result<()> {
    let pragma = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let read = || Ok((pragma("application_id")?, pragma("user_version")?, tables(conn)?));
    let (application, version, tables) = read().map_err(|fault| translate(fault, path))?;
    if application == APPLICATION_ID || (application == 0 && version == 0 && tables == 0) {
        return Ok(());
    }
    Err(Error::misconfigured(format_args!("`{path}` is an SQLite database of another program"))
        .hint("give Rushgate a file of its own"))
}

fn tables(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
}

fn migrate(conn: &Connection, path: &str) -> Result<()> {
    let version =
        |conn: &Connection| conn.pragma_query_value(None, "user_version", |row| row.get::<_, usize>(0));
    let newer = |have: usize| {
        Error::misconfigured(format_args!(
            "`{path}` has schema {have}, this build knows schemas up to {}",
            MIGRATIONS.len()
        ))
        .hint("use a newer build of Rushgate with this file")
    };
    let fault = |fault| translate(fault, path);
    let have = version(conn).map_err(fault)?;
    if have == MIGRATIONS.len() {
        return Ok(());
    }
    if have > MIGRATIONS.len() {
        return Err(newer(have));
    }
    // Another process may be migrating as well: look again once the file is ours.
    conn.execute_batch("BEGIN IMMEDIATE").map_err(fault)?;
    let run = || {
        for migration in MIGRATIONS.iter().skip(version(conn)?) {
            conn.execute_batch(migration)?;
        }
        conn.pragma_update(None, "application_id", APPLICATION_ID)?;
        conn.pragma_update(None, "user_version", MIGRATIONS.len())?;
        conn.execute_batch("COMMIT")
    };
    run().map_err(|error| {
        let _ = conn.execute_batch("ROLLBACK");
        fault(error)
    })
}

/// Waits for another process's lock in short, uneven naps.
///
/// SQLite's own handler sleeps up to 100 ms at a time, which starves whoever came first when several processes
/// write without a pause. Naps of 20 to 100 µs share the file nearly evenly.
fn wait_for_lock(tries: i32) -> bool {
    static NAPS: AtomicU64 = AtomicU64::new(0);
    let micros = if tries < 10 { 20 } else { 80 + NAPS.fetch_add(17, Ordering::Relaxed) % 40 };
    std::thread::sleep(Duration::from_micros(micros));
    // A nap lasts about 60 µs longer than asked for.
    u64::try_from(tries).unwrap_or(0) * 150 < BUSY_LIMIT.as_micros() as u64
}
