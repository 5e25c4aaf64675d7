//! Shared helpers of the tests.

use std::future::ready;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{
    Acquire, BuyerId, Claim, ClientId, ContentType, Error, HoldTime, IdempotencyKey, Lease, Line, LockName,
    NewTask, Op, Owner, Payload, QueueName, ReservationId, Reserve, SaleId, SaleSecret, SaleSpec, Sku,
    SkuSpec, Snapshot, Store, TaskId, Timestamp, Token, UnitChoice, Verbs, audit_store,
};
use rushgate_sqlite::{Options, SqliteStore};
use rushgate_test::ManualClock;
use rushgate_test::{Boxed, Harness};
use rusqlite::Connection;
use tempfile::TempDir;

/// An empty store with a manual clock. `peer` is another process's view of the same file.
pub struct SqliteHarness {
    store: Arc<SqliteStore>,
    peer: Option<Arc<SqliteStore>>,
    clock: ManualClock,
    _folder: Option<TempDir>,
}

fn open(url: &str, clock: &ManualClock) -> Arc<SqliteStore> {
    let clock = clock.clone();
    Arc::new(SqliteStore::open_with(url, Options::new().clock(move || clock.now())).expect("the store opens"))
}

/// A store on a file.
pub async fn file() -> Arc<SqliteHarness> {
    let clock = ManualClock::default();
    let folder = tempfile::tempdir().expect("a folder can be made");
    let url = format!("sqlite:{}?durability=process", folder.path().join("store.db").display());
    let (store, peer) = (open(&url, &clock), Some(open(&url, &clock)));
    Arc::new(SqliteHarness { store, peer, clock, _folder: Some(folder) })
}

/// A store in memory.
pub async fn memory() -> Arc<SqliteHarness> {
    let clock = ManualClock::default();
    let store = open("sqlite::memory:", &clock);
    Arc::new(SqliteHarness { store, peer: None, clock, _folder: None })
}

impl Harness for SqliteHarness {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn peer(&self) -> Arc<dyn Store> {
        self.peer.clone().unwrap_or_else(|| self.store.clone())
    }

    fn advance(&self, by: Duration) -> Boxed<'_, ()> {
        self.clock.advance(by);
        Box::pin(ready(()))
    }

    fn put_back(&self, by: Duration) -> Boxed<'_, ()> {
        self.clock.put_back(by);
        Box::pin(ready(()))
    }

    fn now(&self) -> Option<Timestamp> {
        Some(self.clock.now())
    }
}

// ── plain stores ─────────────────────────────────────────────────────────────────────────────────────────────────────

/// A temporary folder and the path of a store in it.
pub fn fresh() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("store.db");
    (folder, path)
}

pub fn url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

/// Opens a store with the machine's clock.
pub fn store(path: &Path) -> SqliteStore {
    SqliteStore::open(&url(path)).expect("the store opens")
}

/// Result of SQLite's own integrity check.
pub fn integrity(path: &Path) -> String {
    let conn = Connection::open(path).expect("the file opens");
    conn.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("the file can be checked")
}

/// Asserts that a call failed with this code and these words, and that the error has a hint.
#[track_caller]
pub fn refused<T>(answer: Result<T, Error>, code: &str, words: &str) -> Error {
    let Err(error) = answer else { panic!("expected a fault: {code}") };
    assert_eq!(error.code(), code, "{error:?}");
    assert!(error.to_string().contains(words), "{error}");
    assert!(error.hint_text().is_some(), "{error} says nothing about what to do");
    error
}

// ── names and requests ───────────────────────────────────────────────────────────────────────────────────────────────

pub fn lock(name: &str) -> LockName {
    LockName::new(name).expect("the name is valid")
}

pub fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("the name is valid")
}

pub fn sale(name: &str) -> SaleId {
    SaleId::new(name).expect("the name is valid")
}

/// This process as a client.
pub fn me() -> ClientId {
    ClientId::from_u64(std::process::id().into())
}

pub fn op(number: u64) -> Op {
    Op::new(me(), number)
}

pub fn token(number: u64) -> Token {
    Token::new(me(), number)
}

pub fn ask(name: &str, token: Token, wait: Duration) -> Acquire {
    Acquire {
        name: lock(name),
        token,
        lease: Lease::new(Duration::from_secs(30)).expect("the lease is valid"),
        wait,
        barging: false,
        owner: Owner::default(),
    }
}

pub fn task(id: &str, bytes: usize) -> NewTask {
    let payload = Payload::new(ContentType::bytes(), vec![b'x'; bytes]).expect("the payload is small enough");
    NewTask::new(TaskId::new(id).expect("the id is valid"), payload)
}

pub fn claim(n: u32) -> Claim {
    Claim { n, lease: Lease::new(Duration::from_secs(30)).expect("the lease is valid"), worker: "w".into() }
}

const SECRET: SaleSecret = SaleSecret::from_bytes([7; 16]);

/// A sale `s` of one SKU `unit`, with a ledger.
pub fn spec(units: u32) -> SaleSpec {
    SaleSpec {
        id: sale("s"),
        skus: vec![SkuSpec { sku: Sku::new("unit").expect("the name is valid"), units, per_buyer: 1 }],
        hold: HoldTime::new(Duration::from_secs(600)).expect("the time is valid"),
        opens_at: None,
        closes_at: None,
        metadata: String::new(),
        ledger: true,
        secret: SECRET,
    }
}

/// A request for one unit.
pub fn wish(buyer: &str) -> Reserve {
    let buyer = BuyerId::new(buyer).expect("the name is valid");
    let key = IdempotencyKey::new("key").expect("the name is valid");
    Reserve {
        sale: sale("s"),
        id: ReservationId::derive(SECRET, &sale("s"), &buyer, &key),
        buyer,
        lines: vec![Line { sku: Sku::new("unit").expect("the name is valid"), quantity: 1 }],
        choice: UnitChoice::Any,
    }
}

/// Snapshot of the sale `s`, which must pass the audit (without the ledger).
pub async fn sound_snapshot(store: &SqliteStore) -> Snapshot {
    let snapshot = store.snapshot(&sale("s")).await.expect("the snapshot can be read");
    let audit = audit_store(&snapshot);
    assert!(audit.ok, "{audit:#?}");
    snapshot
}

// ── other processes ──────────────────────────────────────────────────────────────────────────────────────────────────

/// Environment variable with the path of a child's file.
const FILE: &str = "RUSHGATE_TEST_FILE";

/// A command that runs one ignored test of this program as a child process, on a file.
pub fn child_command(test: &str, file: &Path) -> Command {
    with_child(Command::new(this_program()), test, file)
}

pub fn this_program() -> PathBuf {
    std::env::current_exe().expect("this program has a path")
}

/// Adds the arguments that run one ignored test.
pub fn with_child(mut command: Command, test: &str, file: &Path) -> Command {
    command.args(["--ignored", "--exact", "--nocapture", test]).env(FILE, file);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

/// The file named by the parent; `None` if the test was started manually.
pub fn named_file() -> Option<PathBuf> {
    std::env::var_os(FILE).map(PathBuf::from)
}

/// A running child.
pub struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub fn start(test: &str, file: &Path) -> Self {
        Self::of(child_command(test, file))
    }

    pub fn of(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the child starts");
        let out = child.stdout.take().expect("its output is a pipe");
        Self { child, lines: BufReader::new(out).lines() }
    }

    /// The next line that the child prints with [`say`]; `None` once it has ended.
    pub fn hear(&mut self) -> Option<String> {
        let mut said = self.lines.by_ref().map_while(Result::ok);
        said.find_map(|line| line.split_once(MARK).map(|(_, text)| text.to_owned()))
    }

    /// Resumes a child that waits in [`wait_for_parent`].
    pub fn go(&mut self) {
        let pipe = self.child.stdin.as_mut().expect("its input is a pipe");
        pipe.write_all(b"go\n").expect("the child listens");
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("the child can be killed");
        self.child.wait().expect("the child ends");
    }

    /// The remaining output of the child, which must exit successfully.
    pub fn finish(mut self) -> Vec<String> {
        let said = std::iter::from_fn(|| self.hear()).collect();
        assert!(self.child.wait().expect("the child ends").success());
        said
    }
}

/// Prefix of the child's output, to separate it from the test runner's.
const MARK: &str = "child: ";

/// Sends a line to the parent.
pub fn say(text: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    // A child without a parent has no reader.
    let _ = writeln!(out, "\n{MARK}{text}").and_then(|()| out.flush());
}

/// Waits until the parent calls [`go`](Process::go).
pub fn wait_for_parent() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the parent writes a line");
}
