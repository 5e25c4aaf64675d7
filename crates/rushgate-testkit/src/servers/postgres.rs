use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Where Debian puts the programs of Postgres 15.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// Longer than a start takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the shared server goes on after its last user, so that the next test finds it.
const LINGER: &str = "1";

/// A Postgres server on a free port of this machine, with a scratch directory that goes with it. Commits are synced.
///
/// It ends when the value is dropped, and when the process that started it is killed.
pub struct PostgresServer {
    directory: PathBuf,
    port: u16,
    settings: Vec<String>,
    postgres: Option<Child>,
    /// Ends the server when its input ends, which is when this process does.
    keeper: Option<Child>,
}

impl PostgresServer {
    /// The URL of a server that the test processes of one machine share, each in a schema or database of its own. The
    /// first to ask starts it, and it ends a second after the last one did. Different `name`s are different servers.
    ///
    /// # Panics
    /// If Postgres 15 is not installed, with what to install.
    pub fn shared(name: &str) -> String {
        static URL: OnceLock<(String, File)> = OnceLock::new();
        URL.get_or_init(|| share(name)).0.clone()
    }

    /// A server of its own, for tests that stop it.
    ///
    /// # Panics
    /// If Postgres 15 is not installed, with what to install.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// A server of its own with settings such as `max_connections=8`.
    ///
    /// # Panics
    /// If Postgres 15 is not installed, with what to install.
    pub fn start_with(settings: &[&str]) -> Self {
        let directory = scratch();
        make(&directory);
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { directory, port: free_port(), settings, postgres: None, keeper: None };
        init(&server.directory);
        server.start_again();
        server
    }

    /// A copy of this server that follows it, with all its settings: a hot standby, until it is [promoted](Self::promote).
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

    /// Makes a standby take writes, and waits until it does.
    pub fn promote(&self) {
        let mut promote = program("pg_ctl");
        promote.args(["promote", "--wait"]).arg("-D").arg(self.directory.join("data"));
        let output = promote.current_dir(&self.directory).output().unwrap_or_else(|error| missing(&error));
        assert!(output.status.success(), "pg_ctl promote: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Stops every process of it as `kill -STOP` does, until [`resume`](Self::resume): connections are taken by the
    /// system, and nobody answers.
    pub fn pause(&self) {
        self.signal_all("STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal_all("CONT");
    }

    fn signal_all(&self, name: &str) {
        let postmaster = self.postgres.as_ref().expect("it runs").id();
        // First, so that it starts no further one.
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

    /// Its directory, which its user may write to.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Ends it at once, as a crash would: connections break, and the next start recovers from the log.
    pub fn stop(&mut self) {
        if let Some(mut postgres) = self.postgres.take() {
            signal("QUIT", postgres.id());
            // One that is paused hears of it then, and kills its paused children.
            signal("CONT", postgres.id());
            postgres.wait().expect("a child can be waited for");
        }
    }

    /// Starts it on the same data and port, with a setting more or another.
    pub fn start_with_also(&mut self, setting: &str) {
        self.settings.push(setting.to_owned());
        self.start_again();
    }

    /// Starts it on the same data and port.
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

/// A use is a shared lock on a file, which the system takes back however a process ends. A keeper waits for the lock
/// alone, and stops the server then.
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

/// The name of a directory that nobody has.
fn scratch() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Relaxed);
    std::env::temp_dir().join(format!("rushgate-postgres-{}-{n}", std::process::id()))
}

/// The processes that this one has started and that run.
fn children(of: u32) -> Vec<u32> {
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The program's name, in brackets, may have blanks in it.
        stat.rsplit(") ").next()?.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let all = fs::read_dir("/proc").expect("the system tells of its processes").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent(*pid) == Some(of)).collect()
}

/// A directory that the server's user owns.
fn make(directory: &Path) {
    fs::create_dir_all(directory).expect("the temporary directory takes directories");
    if let Some((uid, gid)) = user() {
        chown(directory, Some(uid), Some(gid)).expect("root may give a directory away");
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

/// The last line of the server's own file says so.
fn wait_until_ready(directory: &Path, postgres: &mut Child) {
    let start = Instant::now();
    let is_ready = || {
        let text = fs::read_to_string(directory.join("data/postmaster.pid")).unwrap_or_default();
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        lines.first() == Some(&postgres_id(postgres).as_str()) && lines.last() == Some(&"ready")
    };
    while !is_ready() {
        let ended = start.elapsed() > PATIENCE;
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

/// A program of the server, as a user that it accepts: it refuses root.
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

/// In a group of its own, so that what ends the tests' group leaves the stopping to the keeper.
fn background(command: &mut Command) -> &mut Command {
    command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null())
}

/// The user of the server if this process is root's.
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

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    listener.local_addr().expect("a listener has an address").port()
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    if !sent.is_ok_and(|status| status.success()) {
        let _ = writeln!(io::stderr(), "the process {pid} had ended");
    }
}
