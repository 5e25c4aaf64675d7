//! Opens the file: URL, pragmas, schema.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rushgate_core::{Durability, Error, Result, create_private};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use crate::busy::retry_while_busy;
use crate::fault::{moved, read_only, translate};

/// "RGAT": marks a file as a Rushgate store.
const APPLICATION_ID: i64 = 0x5247_4154;
/// Page cache of the writer's connection, in KiB.
const CACHE_KIB: i64 = 65_536;

/// All migrations, in order. The schema version is the number of applied migrations.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/0001_init.sql")];

/// Target and durability class of the store.
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
    /// Parses `sqlite:PATH` and `sqlite::memory:`, with the option `?durability=power|process`.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("sqlite:").ok_or_else(|| {
            Error::invalid("the store's URL", format_args!("`{url}` does not start with `sqlite:`"))
        })?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.strip_prefix("//").unwrap_or(path);
        let mut durability = Durability::D2;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            durability = match pair {
                "durability=power" => Durability::D2,
                "durability=process" => Durability::D1,
                _ => {
                    let why = format!(
                        "has the unknown option `{pair}`; use `durability=power` or `durability=process`"
                    );
                    return Err(Error::invalid("the store's URL", why));
                }
            };
        }
        match path {
            "" => Err(Error::invalid("the store's URL", "names no file")
                .hint("use a path, such as `sqlite:rushgate.db`")),
            ":memory:" => Ok(Self { target: Target::Memory, durability: Durability::D0 }),
            path => Ok(Self { target: Target::File(path.into()), durability }),
        }
    }

    /// The path, for messages.
    pub(crate) fn shown(&self) -> String {
        match &self.target {
            Target::File(path) => path.display().to_string(),
            Target::Memory => ":memory:".into(),
        }
    }

    /// Opens the writer's connection, after checking the file's owner and migrating its schema.
    pub(crate) fn open_writer(&self, limits: &Limits) -> Result<Connection> {
        let path = self.shown();
        let conn = match &self.target {
            Target::File(file) => {
                open_file(file, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?
            }
            Target::Memory => Connection::open_in_memory().map_err(|fault| translate(fault, &path))?,
        };
        let fault = |fault| translate(fault, &path);
        // The writer retries on its own, see `retry_while_busy`.
        conn.busy_timeout(Duration::ZERO).map_err(fault)?;
        check_ours(&conn, &path, limits)?;
        retry_while_busy(limits.busy_timeout, || self.prepare(&conn, limits)).map_err(fault)?;
        if matches!(self.target, Target::File(_)) {
            enter_wal(&conn, &path, limits)?;
        }
        migrate(&conn, limits).map_err(fault)?;
        Ok(conn)
    }

    /// Opens a read-only connection; `None` for a store in memory.
    pub(crate) fn open_reader(&self, limits: &Limits) -> Result<Option<Connection>> {
        let Target::File(path) = &self.target else { return Ok(None) };
        let conn = open_file(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let pragmas = || {
            conn.busy_timeout(limits.busy_timeout)?;
            keep_plans(&conn)?;
            conn.pragma_update(None, "query_only", true)?;
            conn.pragma_update(None, "cache_size", -CACHE_KIB / 4)?;
            conn.set_prepared_statement_cache_capacity(64);
            Ok(())
        };
        pragmas().map_err(|fault| translate(fault, &self.shown()))?;
        Ok(Some(conn))
    }

    /// Opens the write-ahead log of `conn`'s file; `None` if commits need not survive a power cut.
    pub(crate) fn open_log(&self, conn: &Connection) -> Result<Option<Log>> {
        if self.durability < Durability::D2 {
            return Ok(None);
        }
        // Use SQLite's own name of the file, which has symbolic links resolved.
        let log = format!("{}-wal", conn.path().unwrap_or_default());
        let path = self.shown();
        match File::open(&log) {
            Ok(file) => Ok(Some(Log { file, path })),
            Err(fault) => Err(Error::misconfigured(format_args!("cannot open the write-ahead log `{log}`"))
                .hint("check that this user has read and write permission on the directory, and the limit of open \
                       files")
                .caused_by(fault)),
        }
    }

    fn prepare(&self, conn: &Connection, limits: &Limits) -> rusqlite::Result<()> {
        keep_plans(conn)?;
        // Commits do not wait for the disk here. `Syncer` syncs the log.
        conn.pragma_update(None, "synchronous", "NORMAL")?;
        conn.pragma_update(None, "cache_size", -CACHE_KIB)?;
        conn.pragma_update(None, "wal_autocheckpoint", 4_000)?;
        conn.pragma_update(None, "journal_size_limit", 64 << 20)?;
        conn.pragma_update(None, "temp_store", "MEMORY")?;
        if let Some(bytes) = limits.max_bytes {
            let page: u64 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
            let pages = (bytes / page).clamp(1, u32::MAX.into());
            conn.pragma_update_and_check(None, "max_page_count", pages.cast_signed(), |_| Ok(()))?;
        }
        conn.set_prepared_statement_cache_capacity(256);
        Ok(())
    }
}

/// The write-ahead log of the store's file.
pub(crate) struct Log {
    pub(crate) file: File,
    /// Path of the store's file, for messages.
    pub(crate) path: String,
}

/// The file that a path referred to when the store was opened.
///
/// A moved or deleted file stays writable for processes that have it open, and the next process creates a new file.
/// Two processes could then hold the same lock, and acknowledged writes would be lost with the old file.
pub(crate) struct SameFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl SameFile {
    pub(crate) fn of(location: &Location) -> Result<Option<Self>> {
        let Target::File(path) = &location.target else { return Ok(None) };
        let looked = || {
            let path = path.canonicalize()?;
            Ok(Self { inode: inode(&path)?, path })
        };
        looked().map(Some).map_err(|error: std::io::Error| moved(&location.shown()).caused_by(error))
    }

    /// Fails if the path refers to another file now, or to none.
    pub(crate) fn check(&self) -> Result<()> {
        match inode(&self.path) {
            Ok(inode) if inode == self.inode => Ok(()),
            _ => Err(moved(&self.path.display().to_string())),
        }
    }
}

fn inode(path: &Path) -> std::io::Result<(u64, u64)> {
    let found = path.metadata()?;
    Ok((found.dev(), found.ino()))
}

/// Limits of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long to retry while another process has the file locked.
    pub(crate) busy_timeout: Duration,
    /// Maximum size of the file, in bytes.
    pub(crate) max_bytes: Option<u64>,
}

/// Keeps the plan with which a statement was prepared. By default SQLite replans when a bound value could change the
/// plan, which costs more than most of the store's statements.
fn keep_plans(conn: &Connection) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

fn open_file(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let shown = path.display();
    if path.is_dir() {
        return Err(Error::misconfigured(format_args!("`{shown}` is a directory"))
            .hint(format_args!("use a file in it, such as `sqlite:{shown}/rushgate.db`")));
    }
    if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("") && is_missing(folder)) {
        let folder = folder.display();
        return Err(Error::misconfigured(format_args!("the directory `{folder}` does not exist"))
            .hint(format_args!("create it with `mkdir -p {folder}`, or use another path")));
    }
    if flags.contains(OpenFlags::SQLITE_OPEN_CREATE) {
        // The file contains the secrets of sales. SQLite reports why a file cannot be created.
        let _ = create_private(path);
    }
    let conn = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map_err(|fault| translate(fault, &shown.to_string()))?;
    // SQLite opens a file without write permission read-only, and reports that only at the first write.
    if conn.is_readonly(MAIN_DB).unwrap_or_default() {
        return Err(read_only(&shown.to_string()));
    }
    Ok(conn)
}

fn is_missing(folder: &Path) -> bool {
    matches!(folder.try_exists(), Ok(false))
}

/// Switches to write-ahead logging.
fn enter_wal(conn: &Connection, path: &str, limits: &Limits) -> Result<()> {
    let switch = || conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
    let mode = retry_while_busy(limits.busy_timeout, switch).map_err(|fault| translate(fault, path))?;
    if mode == "wal" {
        return Ok(());
    }
    let why =
        format!("the file system of `{path}` cannot share memory between processes; nothing was changed");
    Err(Error::misconfigured(why)
        .hint("move the file to a local disk: network file systems are not supported"))
}

/// Fails for a database that belongs to another program or a newer version.
fn check_ours(conn: &Connection, path: &str, limits: &Limits) -> Result<()> {
    // Read in one transaction, because another process may be migrating the schema.
    let read = || {
        let seen = conn.unchecked_transaction()?;
        let pragma = |name| seen.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        Ok((pragma("application_id")?, pragma("user_version")?, tables(&seen)?))
    };
    let (application, version, tables) =
        retry_while_busy(limits.busy_timeout, read).map_err(|fault| translate(fault, path))?;
    let fresh = application == 0 && version == 0 && tables == 0;
    if application != APPLICATION_ID && !fresh {
        let why = format!("`{path}` is an SQLite database of another program; nothing was changed");
        return Err(Error::misconfigured(why).hint("use a separate file for Rushgate"));
    }
    let known = MIGRATIONS.len();
    if version > known as i64 {
        let why = format!(
            "`{path}` has schema {version}, this build supports schemas up to {known}; nothing was changed"
        );
        return Err(Error::misconfigured(why).hint("use a newer build of Rushgate"));
    }
    Ok(())
}

fn tables(conn: &Connection) -> rusqlite::Result<i64> {
    conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
}

fn migrate(conn: &Connection, limits: &Limits) -> rusqlite::Result<()> {
    let version = || conn.pragma_query_value(None, "user_version", |row| row.get::<_, usize>(0));
    if retry_while_busy(limits.busy_timeout, version)? >= MIGRATIONS.len() {
        return Ok(());
    }
    // Another process may be migrating too: read the version again with the file locked.
    retry_while_busy(limits.busy_timeout, || conn.execute_batch("BEGIN IMMEDIATE"))?;
    let run = || {
        for migration in MIGRATIONS.iter().skip(version()?) {
            conn.execute_batch(migration)?;
        }
        conn.pragma_update(None, "application_id", APPLICATION_ID)?;
        conn.pragma_update(None, "user_version", MIGRATIONS.len().max(version()?))?;
        conn.execute_batch("COMMIT")
    };
    run().inspect_err(|_| drop(conn.execute_batch("ROLLBACK")))
}
