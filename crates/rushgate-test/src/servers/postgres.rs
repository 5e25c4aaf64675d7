use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::ports::free_port;
use super::process::signal;

/// Folder of the Postgres 15 programs on Debian.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// Longer than a start takes on a busy machine.
const RETRY_BUDGET: Duration = Duration::from_secs(60);

/// How long the shared server keeps running after its last user, in seconds, so that the next test finds it.
const LINGER: &str = "1";

/// A Postgres server on a free port of this machine, with a temporary directory. Commits are synced.
///
/// It ends when the value is dropped, or when the process that started it is killed.
pub struct PostgresServer {
    directory: PathBuf,
    port: u16,
    settings: Vec<String>,
    postgres: Option<Child>,
    /// Ends the server when its own input ends, which is when this process ends.
    keeper: Option<Child>,
}

impl PostgresServer {
    /// The URL of a server that the test processes of a machine share, each with its own schema or database. The
    /// first caller starts it, and it ends a second after its last user. Different `name`s are different servers.
    ///
    /// # Panics
    /// If Postgres 15 is not installed. The message says what to install.
    pub fn shared(name: &str) -> String {
        static URL: OnceLock<(String, File)> = OnceLock::new();
        URL.get_or_init(|| share(name)).0.clone()
    }

    /// Starts a separate server, for tests that stop it.
    ///
    /// # Panics
    /// If Postgres 15 is not installed. The message says what to install.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a separate server with settings such as `max_connections=8`.
    ///
    /// # Panics
    /// If Postgres 15 is not installed. The message says what to install.
    pub fn start_with(settings: &[&str]) -> Self {
        let directory = scratch();
        make(&directory);
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { directory, port: free_port(), settings, postgres: None, keeper: None };
        init(&server.directory);
        server.start_again();
        server
    }

    /// Starts a hot standby of this server, with the same settings, until it is [promoted](Self::promote).
    pub fn standby(&self) -> Self {
        let directory = scratch();
        make(&directory);
        let mut copy = program("pg_basebackup");
        copy.args(["--host=127.0.0.1", "--username=postgres", "--checkpoint=fast", "--no-sync"]);
        copy.args(["--wal-method=stream", "--write-recovery-conf"]).arg(format!("--port={}", self.port));
        let output = copy.arg("-D").arg(directory.join("data")).current_dir(&directory).output();
        let output = output.unwrap_or_else(|error| missing(&error));
        assert!(output.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&output.stderr));
        let settings = self.settings.clone();
        let mut standby = Self { directory, port: free_port(), settings, postgres: None, keeper: None };
        standby.start_again();
        standby
    }

    /// Promotes a standby, and waits until it accepts writes.
    pub fn promote(&self) {
        let mut promote = program("pg_ctl");
        promote.args(["promote", "--wait"]).arg("-D").arg(self.directory.join("data"));
        let output = promote.current_dir(&self.directory).output().unwrap_or_else(|error| missing(&error));
        assert!(output.status.success(), "pg_ctl promote: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Stops all its processes with SIGSTOP, until [`resume`](Self::resume). The operating system accepts
    /// connections, but the server does not respond.
    pub fn pause(&self) {
        self.signal_all("STOP");
    }

    /// Resumes all its processes.
    pub fn resume(&self) {
        self.signal_all("CONT");
    }

    fn signal_all(&self, name: &str) {
        let postmaster = self.postgres.as_ref().expect("it runs").id();
        // The postmaster first, so that it starts no more processes.
        signal(name, postmaster);
        children(postmaster).into_iter().for_each(|child| signal(name, child));
    }

    /// The URL of its database.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its directory, which its user can write to.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Ends the server at once, as a crash would: connections break, and the next start recovers from the log.
    pub fn stop(&mut self) {
        if let Some(mut postgres) = self.postgres.take() {
            signal("QUIT", postgres.id());
            // A paused server handles the signal only now, and kills its paused children.
            signal("CONT", postgres.id());
            postgres.wait().expect("a child can be waited for");
        }
    }

    /// Starts the server with the same data and port, and an added or changed setting.
    pub fn start_with_also(&mut self, setting: &str) {
        self.settings.push(setting.to_owned());
        self.start_again();
    }

    /// Starts the server with the same data and port.
    pub fn start_again(&mut self) {
        self.stop_keeper();
        let mut postgres = launch(&self.directory, self.port, &self.settings);
        wait_until_ready(&self.directory, &mut postgres);
        let script = r#"cat >/dev/null; kill -QUIT "$0"; kill -CONT "$0"; sleep 0.5; rm -rf "$1""#;
        let mut keeper = Command::new("sh");
        keeper.arg("-c").arg(script).arg(postgres.id().to_string()).arg(&self.directory);
        self.keeper = Some(background(&mut keeper).stdin(Stdio::piped()).spawn().expect("sh starts"));
        self.postgres = Some(postgres);
    }

    fn stop_keeper(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            let _ = keeper.kill();
            let _ = keeper.wait();
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop_keeper();
        self.stop();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

/// Shares a server. Each user holds a shared lock on a file, which the system releases however the process ends. A
/// keeper process waits for the exclusive lock, then stops the server.
fn share(name: &str) -> (String, File) {
    let me = fs::metadata("/proc/self").map_or(0, |me| me.uid());
    let base = std::env::temp_dir().join(format!("rushgate-postgres-{name}-{me}"));
    fs::create_dir_all(&base).expect("the temporary directory takes directories");
    let starting = File::create(base.join("starting")).expect("a lock file can be made");
    starting.lock().expect("a file can be locked");
    let using = File::create(base.join("using")).expect("a lock file can be made");
    using.lock_shared().expect("a file can be locked");
    let directory = base.join("server");
    if let Some(port) = running(&directory) {
        return (url(port), using);
    }
    let _ = fs::remove_dir_all(&directory);
    make(&directory);
    init(&directory);
    let port = free_port();
    let mut postgres = launch(&directory, port, &["max_connections=200".into()]);
    wait_until_ready(&directory, &mut postgres);
    fs::write(directory.join("port"), port.to_string()).expect("the directory takes files");
    keep(&base, postgres.id());
    (url(port), using)
}

fn running(directory: &Path) -> Option<u16> {
    let port = fs::read_to_string(directory.join("port")).ok()?.parse().ok()?;
    std::net::TcpStream::connect(("127.0.0.1", port)).ok().map(|_| port)
}

#[expect(clippy::zombie_processes, reason = "the keeper outlives this process: that is what it is for")]
fn keep(base: &Path, pid: u32) {
    let script = r#"
        while :; do
            flock -x "$1/using" true
            sleep "$2"
            exec 9>"$1/starting"
            flock -x 9
            if flock -n -x "$1/using" true; then
                kill -INT "$0"
                while kill -0 "$0" 2>/dev/null; do sleep 0.05; done
                rm -rf "$1/server"
                exit
            fi
            flock -u 9
        done"#;
    let mut keeper = Command::new("sh");
    keeper.arg("-c").arg(script).arg(pid.to_string()).arg(base).arg(LINGER);
    background(&mut keeper).stdin(Stdio::null()).spawn().expect("sh starts");
}

/// The name of an unused directory.
fn scratch() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Relaxed);
    std::env::temp_dir().join(format!("rushgate-postgres-{}-{n}", std::process::id()))
}

/// Running child processes of a process.
fn children(of: u32) -> Vec<u32> {
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program's name, in parentheses, may contain spaces.
        stat.rsplit(") ").next()?.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let all = fs::read_dir("/proc").expect("/proc can be read").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent(*pid) == Some(of)).collect()
}

/// Creates a directory that the server's user owns.
fn make(directory: &Path) {
    fs::create_dir_all(directory).expect("the temporary directory takes directories");
    if let Some((uid, gid)) = user() {
        chown(directory, Some(uid), Some(gid)).expect("root may change the owner of a directory");
    }
}

fn init(directory: &Path) {
    let mut initdb = program("initdb");
    initdb.args(["--username=postgres", "--auth=trust", "--no-sync", "--no-locale", "--encoding=UTF8"]);
    let output = initdb.arg("-D").arg(directory.join("data")).current_dir(directory).output();
    let output = output.unwrap_or_else(|error| missing(&error));
    assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
}

fn launch(directory: &Path, port: u16, settings: &[String]) -> Child {
    let log = File::create(directory.join("log")).expect("the directory takes files");
    let mut postgres = program("postgres");
    postgres.arg("-D").arg(directory.join("data")).current_dir(directory);
    for setting in ["listen_addresses=127.0.0.1", "fsync=on", "shared_buffers=32MB"] {
        postgres.args(["-c", setting]);
    }
    postgres.args(["-c", &format!("port={port}")]);
    postgres.args(["-c", &format!("unix_socket_directories={}", directory.display())]);
    for setting in settings {
        postgres.args(["-c", setting]);
    }
    background(&mut postgres).stdin(Stdio::null()).stderr(log).spawn().unwrap_or_else(|error| missing(&error))
}

/// Waits until the last line of postmaster.pid is "ready".
fn wait_until_ready(directory: &Path, postgres: &mut Child) {
    let start = Instant::now();
    let is_ready = || {
        let text = fs::read_to_string(directory.join("data/postmaster.pid")).unwrap_or_default();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        lines.first() == Some(&postgres_id(postgres).as_str()) && lines.last() == Some(&"ready")
    };
    while !is_ready() {
        let ended = start.elapsed() > RETRY_BUDGET;
        if ended {
            let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
            panic!("Postgres does not start: {log}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn postgres_id(postgres: &Child) -> String {
    postgres.id().to_string()
}

/// A command for a server program. Runs as another user than root, whom the server rejects.
fn program(name: &str) -> Command {
    let path = Path::new(PROGRAMS).join(name);
    if !path.exists() {
        missing(&io::Error::from(io::ErrorKind::NotFound));
    }
    let mut command = Command::new(path);
    if let Some((uid, gid)) = user() {
        command.uid(uid).gid(gid);
    }
    command
}

/// Runs in its own process group, so that a signal to the tests' group does not stop the server before the keeper
/// does.
fn background(command: &mut Command) -> &mut Command {
    command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null())
}

/// The server's user, if this process runs as root.
fn user() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").map_or(0, |me| me.uid()) != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let line = users.lines().find(|line| line.starts_with("postgres:"))?;
    let mut fields = line.split(':').skip(2).map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}

fn missing(error: &io::Error) -> ! {
    panic!("Postgres 15 is needed for this test ({PROGRAMS}: {error}): apt-get install postgresql-15")
}
