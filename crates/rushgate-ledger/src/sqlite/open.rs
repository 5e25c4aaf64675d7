//! Opens the file: checks before the first write, settings, schema, and waiting for other processes.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::{Duration, Instant};

use rushgate_core::{Error, Result, create_private};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::fault;

/// "RGLD" in the file's header: marks a file as a Rushgate ledger.
const APPLICATION_ID: i32 = 0x5247_4c44;

/// Migrations, in order. The first one creates version 1 of the schema.
const MIGRATIONS: [&str; 1] = [include_str!("../../migrations/0001_orders.sql")];

/// SQLite's default page size.
const PAGE_BYTES: u64 = 4_096;

/// Size of the write-ahead log at which it is checkpointed: 64 MiB. Orders arrive in random key order, so a batch
/// changes many pages, and a checkpoint copies each page once, however often it changed.
const WAL_PAGES: i64 = 16_384;

/// How long a step waits for writes of other processes.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Opens the writer's connection. Creates the file, migrates its schema and limits its size to `bytes_max`.
pub(super) fn writer(path: Option<&Path>, bytes_max: Option<u64>) -> Result<Connection> {
    let mut conn = connection(path)?;
    check_owner(&conn)?;
    if path.is_some() {
        set_wal(&conn)?;
    }
    settle(&conn)?;
    migrate(&mut conn)?;
    if let Some(bytes) = bytes_max {
        let pages = i64::try_from(bytes / PAGE_BYTES).unwrap_or(i64::MAX);
        conn.pragma_update(None, "max_page_count", pages).map_err(fault::error)?;
    }
    Ok(conn)
}

/// Opens a read-only connection, beside the writer's.
pub(super) fn reader(path: &Path) -> Result<Connection> {
    let conn = connection(Some(path))?;
    settle(&conn)?;
    conn.pragma_update(None, "query_only", true).map_err(fault::error)?;
    Ok(conn)
}

fn connection(path: Option<&Path>) -> Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut conn = match path {
        // SQLite's own error is only "unable to open".
        Some(path) if path.is_dir() => {
            return Err(Error::misconfigured(format_args!("{} is a directory", path.display()))
                .hint("pass a file in it"));
        }
        Some(path) => {
            // The file contains the secrets of sales. SQLite reports why a file cannot be created.
            let _ = create_private(path);
            Connection::open_with_flags(path, flags)
        }
        None => Connection::open_in_memory_with_flags(flags),
    }
    .map_err(fault::error)?;
    conn.busy_handler(Some(wait_for_others)).map_err(fault::error)?;
    // SQLite silently opens a file without write permission read-only.
    if conn.is_readonly("main").map_err(fault::error)? {
        return Err(Error::misconfigured("the ledger file is read-only")
            .hint("grant this user write permission on the file and its directory"));
    }
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// Fails, before any change, for a file of another program or of a newer Rushgate.
fn check_owner(conn: &Connection) -> Result<()> {
    let owner: i32 = number(conn, "PRAGMA application_id")?;
    let version: i32 = number(conn, "PRAGMA user_version")?;
    let objects: i32 = number(conn, "SELECT count(*) FROM sqlite_schema")?;
    if owner != APPLICATION_ID && (owner != 0 || version != 0 || objects != 0) {
        return Err(Error::misconfigured("the file belongs to another program")
            .hint("use a separate file for the ledger"));
    }
    check_version(version)
}

fn check_version(version: i32) -> Result<()> {
    let newest = MIGRATIONS.len();
    if usize::try_from(version).is_ok_and(|version| version <= newest) {
        return Ok(());
    }
    let why =
        format!("the ledger's schema has version {version}; this build supports versions up to {newest}");
    Err(Error::misconfigured(why).hint("use the newer build of Rushgate that created it"))
}

fn number(conn: &Connection, sql: &str) -> Result<i32> {
    conn.query_row(sql, [], |row| row.get(0)).map_err(fault::error)
}

/// Switches to write-ahead logging. Two processes that create the file at the same time get "busy" at once, because
/// SQLite calls no busy handler during the switch.
fn set_wal(conn: &Connection) -> Result<()> {
    let start = Instant::now();
    loop {
        let mode = conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match mode {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let why = format!("the ledger's journal mode is `{mode}`; WAL is required");
                return Err(Error::misconfigured(why).hint("move the file to a local disk"));
            }
            Err(busy)
                if busy.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && start.elapsed() < WAIT_MAX =>
            {
                std::thread::sleep(nap(10));
            }
            Err(error) => return Err(fault::error(error)),
        }
    }
}

/// Settings of a connection, which the file does not keep.
fn settle(conn: &Connection) -> Result<()> {
    // Otherwise SQLite (built with STAT4) replans a statement whenever its parameters change, which takes a third of
    // the time of each write.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(fault::error)?;
    let set = |name: &str, value: i64| conn.pragma_update(None, name, value).map_err(fault::error);
    set("synchronous", 2)?; // FULL: a commit is on disk before it is answered.
    set("foreign_keys", 1)?;
    set("recursive_triggers", 1)?; // Otherwise INSERT OR REPLACE deletes rows without firing triggers.
    set("temp_store", 2)?; // MEMORY: savepoints never use the disk.
    set("cache_size", -65_536)?; // 64 MiB
    set("wal_autocheckpoint", WAL_PAGES)?;
    Ok(())
}

fn migrate(conn: &mut Connection) -> Result<()> {
    if number(conn, "PRAGMA user_version")? as usize == MIGRATIONS.len() {
        return Ok(());
    }
    let behavior = rusqlite::TransactionBehavior::Immediate;
    let transaction = conn.transaction_with_behavior(behavior).map_err(fault::error)?;
    // Another process may have migrated since the check.
    let version = number(&transaction, "PRAGMA user_version")?;
    check_version(version)?;
    for (done, migration) in MIGRATIONS.iter().enumerate().skip(version as usize) {
        transaction.execute_batch(migration).map_err(fault::error)?;
        transaction.pragma_update(None, "user_version", done as i64 + 1).map_err(fault::error)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(fault::error)?;
    transaction.commit().map_err(fault::commit_error)
}

thread_local! {
    static WAITING_SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
    static WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Busy handler. SQLite's own sleeps up to 100 ms at a time, which lets one process starve the others. Short pauses
/// are fair.
fn wait_for_others(attempt: i32) -> bool {
    if attempt == 0 {
        WAITING_SINCE.set(Some(Instant::now()));
    }
    let before = Instant::now();
    if WAITING_SINCE.get().is_some_and(|since| before.duration_since(since) >= WAIT_MAX) {
        return false;
    }
    std::thread::sleep(nap(attempt));
    WAITED.set(WAITED.get() + before.elapsed());
    true
}

/// 20 µs at first and 100 µs from the tenth attempt on, plus up to half as much at random, so that processes do not
/// retry in lockstep.
fn nap(attempt: i32) -> Duration {
    let micros = if attempt < 10 { 20 } else { 100 };
    Duration::from_micros(micros + RandomState::new().hash_one(attempt) % (micros / 2))
}

/// How long this thread has waited for other processes since the last call.
pub(super) fn take_waited() -> Duration {
    WAITED.take()
}
