use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rushgate_core::Timestamp;

use super::START_MAX;
use super::ports::free_port;
use super::setup::{Kind, Settings, Setup};

/// How many lines of a server's log a failed test shows.
const LOG_MAX: usize = 15;
/// Configuration file of a sentinel.
const SENTINEL_FILE: &str = "sentinel.conf";

/// Configuration of a single server.
pub type RedisSetup = Setup<Alone>;

/// A single server.
#[derive(Clone, Debug, Default)]
pub struct Alone {
    port: Option<u16>,
    files: Vec<(&'static str, String)>,
    sentinel: bool,
}

impl RedisSetup {
    /// A server that evicts no keys and writes an append-only file without syncing it.
    pub fn new(kind: Kind) -> Self {
        Self::of(Settings::of(kind))
    }

    /// Creates a configuration with these settings.
    pub(super) fn of(settings: Settings) -> Self {
        Self { settings, shape: Alone::default() }
    }

    /// A sentinel with this configuration, which it rewrites itself.
    pub(super) fn sentinel(settings: &Settings, configuration: String) -> Self {
        let settings = Settings { arguments: Vec::new(), clock: None, ..settings.clone() };
        let shape = Alone { sentinel: true, ..Alone::default() };
        Self { settings, shape }.with_file(SENTINEL_FILE, configuration)
    }

    /// Adds a file to its folder.
    pub(super) fn with_file(mut self, name: &'static str, text: String) -> Self {
        self.shape.files.push((name, text));
        self
    }

    /// Sets a fixed port.
    pub(super) fn on_port(mut self, port: u16) -> Self {
        self.shape.port = Some(port);
        self
    }

    /// Starts the server and waits until it responds.
    pub fn start(self) -> RedisServer {
        let program = self.settings.kind.program();
        let server = RedisServer::start(self);
        server.unwrap_or_else(|said| panic!("{program} did not start:\n{said}"))
    }
}

/// A running server. Dropping the value ends the server and removes its folder.
pub struct RedisServer {
    setup: RedisSetup,
    folder: PathBuf,
    port: u16,
    child: Option<Child>,
    log: Log,
}

/// The latest lines of a server's log.
type Log = Arc<Mutex<VecDeque<String>>>;

impl RedisServer {
    /// Starts the server. On failure, returns its output.
    fn start(setup: RedisSetup) -> Result<Self, String> {
        let folder = scratch_folder();
        let port = setup.shape.port.unwrap_or_else(free_port);
        let mut server = Self { setup, folder, port, child: None, log: Log::default() };
        if let Some(clock) = &server.setup.settings.clock {
            server.set_clock(clock.now());
        }
        for (name, text) in &server.setup.shape.files {
            fs::write(server.folder.join(name), text).expect("the folder can be written");
        }
        server.launch()?;
        Ok(server)
    }

    /// Starts the program on the chosen port. On failure, returns its output.
    fn launch(&mut self) -> Result<(), String> {
        let kind = self.setup.settings.kind;
        let mut child = match self.spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                panic!("{} is not installed; this test needs it: {}", kind.program(), kind.install());
            }
            Err(error) => panic!("{} cannot be started: {error}", kind.program()),
        };
        let ready = watch(child.stdout.take().expect("the output is piped"), Arc::clone(&self.log));
        let up = ready.recv_timeout(START_MAX).unwrap_or_else(|_| Err("it was not ready in time".to_owned()));
        if up.is_err() {
            let _ = child.kill();
            let _ = child.wait();
            return up;
        }
        self.child = Some(child);
        Ok(())
    }

    /// Starts the program without waiting for it.
    fn spawn(&self) -> io::Result<Child> {
        let Setup { settings, shape } = &self.setup;
        let mut command = Command::new(settings.kind.program());
        if shape.sentinel {
            command.arg(self.folder.join(SENTINEL_FILE)).arg("--sentinel");
        } else {
            command.args(["--save", "", "--appendonly", "yes", "--appendfsync", "no"]);
            command.args(["--maxmemory-policy", "noeviction", "--enable-debug-command", "yes"]);
            // Disable the thread that frees memory in the background: it can spin on an idle server, and many idle
            // servers are kept for later tests.
            command.args(["--jemalloc-bg-thread", "no"]);
        }
        let port = self.port.to_string();
        match &settings.certificates {
            Some(certificates) => {
                certificates.settings(&port, &mut command);
                command.arg("--unixsocket").arg(self.socket());
            }
            None => {
                command.args(["--port", &port]);
            }
        }
        command.args(["--bind", "127.0.0.1", "--dir"]).arg(&self.folder);
        command.args(["--daemonize", "no", "--logfile", ""]);
        if let Some(password) = &settings.password {
            command.args(["--requirepass", password]);
            if !shape.sentinel {
                command.args(["--masterauth", password]);
            }
        }
        command.args(&settings.arguments);
        if settings.clock.is_some() {
            command.env("LD_PRELOAD", clock_library()).env("RUSHGATE_CLOCK", self.clock_file());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    }

    /// The socket through which tests send commands to an encrypted server.
    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn clock_file(&self) -> PathBuf {
        self.folder.join("clock")
    }

    /// A server that another process has started, without password or TLS.
    pub(super) fn at(port: u16, folder: PathBuf) -> Self {
        Self { setup: RedisSetup::new(Kind::Redis), folder, port, child: None, log: Log::default() }
    }

    pub(super) fn is_sentinel(&self) -> bool {
        self.setup.shape.sentinel
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.setup.settings
    }

    /// Prints the state of its process, such as `R (running)` or `Z (zombie)`, and the end of its log.
    #[expect(clippy::print_stdout, reason = "test output")]
    fn show_log(&self) {
        let what = if self.is_sentinel() { "sentinel" } else { "server" };
        let status = self.pid().and_then(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok());
        let state =
            status.as_ref().and_then(|status| status.lines().find_map(|line| line.strip_prefix("State:")));
        let state = state.map_or("it was stopped", str::trim);
        println!("{what} on port {}: {state}; its log ends with:\n{}", self.port, text_of(&self.log));
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("{}://127.0.0.1:{}", self.setup.settings.scheme(), self.port)
    }

    /// The folder with its files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its process ID, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Sets its clock.
    pub fn set_clock(&self, now: Timestamp) {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(self.clock_file());
        let bytes = now.as_micros().to_ne_bytes();
        file.and_then(|file| file.write_all_at(&bytes, 0)).expect("the clock's file can be written");
    }

    /// Ends the server at once with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Restarts the server with the same port and files.
    pub fn restart(&mut self) {
        self.kill();
        let program = self.setup.settings.kind.program();
        self.launch().unwrap_or_else(|said| panic!("{program} did not come up again:\n{said}"));
    }

    /// Stops the server with SIGSTOP, until [`resume`](Self::resume).
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Resumes the server.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.pid().expect("the server runs").to_string();
        let status = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(status.expect("`kill` is there").success(), "kill -s {signal} {pid}");
    }

    /// Sends a command, and returns the first line of the answer.
    pub fn command(&self, words: &[&str]) -> String {
        let mut line = String::new();
        self.send(words).read_line(&mut line).expect("the server answers");
        line.trim_end().to_owned()
    }

    /// Sends a command, and returns the texts and numbers of the answer, flattened.
    pub fn ask(&self, words: &[&str]) -> Vec<String> {
        let mut parts = Vec::new();
        read_parts(&mut self.send(words), &mut parts);
        parts
    }

    fn send(&self, words: &[&str]) -> BufReader<File> {
        let mut stream = BufReader::new(self.connect().expect("the server listens"));
        if let Some(password) = &self.setup.settings.password {
            write_command(&mut stream, &["AUTH", password]);
            let mut line = String::new();
            stream.read_line(&mut line).expect("the server answers");
            assert_eq!(line, "+OK\r\n");
        }
        write_command(&mut stream, words);
        stream
    }

    fn connect(&self) -> io::Result<File> {
        let socket: OwnedFd = match self.setup.settings.certificates {
            Some(_) => UnixStream::connect(self.socket())?.into(),
            None => TcpStream::connect(("127.0.0.1", self.port))?.into(),
        };
        Ok(socket.into())
    }
}

fn write_command(stream: &mut BufReader<File>, words: &[&str]) {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.get_mut().write_all(request.as_bytes()).expect("the server reads");
}

/// Reads one answer. Nested lists are flattened.
fn read_parts(stream: &mut impl BufRead, parts: &mut Vec<String>) {
    let mut line = String::new();
    stream.read_line(&mut line).expect("the server answers");
    let rest = line.get(1..).unwrap_or_default().trim_end();
    match (line.chars().next(), rest.parse::<usize>()) {
        (Some('*'), Ok(count)) => (0..count).for_each(|_| read_parts(stream, parts)),
        (Some('$'), Ok(length)) => {
            let mut bytes = vec![0; length + 2];
            stream.read_exact(&mut bytes).expect("the server answers in full");
            bytes.truncate(length);
            parts.push(String::from_utf8_lossy(&bytes).into_owned());
        }
        _ => parts.push(rest.to_owned()),
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        if thread::panicking() {
            self.show_log();
        }
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Reports when the server accepts connections, or the end of its output if it ends before that. Keeps reading, so that
/// the server never blocks on its output.
fn watch(output: impl Read + Send + 'static, log: Log) -> Receiver<Result<(), String>> {
    let (tell, told) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if line.contains("eady to accept connections") || line.contains("Sentinel ID is") {
                let _ = tell.send(Ok(()));
            }
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.push_back(line);
            if log.len() > LOG_MAX {
                log.pop_front();
            }
        }
        let _ = tell.send(Err(text_of(&log)));
    });
    told
}

fn text_of(log: &Log) -> String {
    let log = log.lock().unwrap_or_else(PoisonError::into_inner);
    log.iter().map(|line| format!("{line}\n")).collect()
}

pub(super) fn scratch_folder() -> PathBuf {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("rushgate-redis-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a scratch folder can be made");
    folder
}

/// The library that freezes a server's wall clock, compiled once per build of the tests.
fn clock_library() -> PathBuf {
    const SOURCE: &str = include_str!("clock.c");
    let sum = SOURCE
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let program = std::env::current_exe().expect("the test knows where it is");
    let folder = program.parent().expect("a program is in a folder");
    let library = folder.join(format!("librushgate_clock_{sum:016x}.so"));
    if !library.exists() {
        compile(SOURCE, &library).expect("cc compiles the test's clock; apt-get install build-essential");
    }
    library
}

fn compile(source: &str, library: &Path) -> io::Result<()> {
    // Tests may compile concurrently, so each uses its own file name.
    let draft = library.with_extension(format!("{}.so", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-x", "c", "-", "-o"]).arg(&draft);
    let mut child = compiler.stdin(Stdio::piped()).spawn()?;
    child.stdin.take().expect("the input is piped").write_all(source.as_bytes())?;
    if !child.wait()?.success() {
        return Err(io::Error::other("cc failed"));
    }
    fs::rename(draft, library)
}
