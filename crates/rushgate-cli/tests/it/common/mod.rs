//! Runs the real binary in a directory of its own.

pub mod rushes;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rushgate_test::servers::suspend;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A request received by a test's own server.
pub struct Request {
    pub line: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    /// Reads the next request of a connection; `None` at its end.
    pub fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let mut headers = HashMap::new();
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let Some((name, value)) = header.trim().split_once(": ") else { break };
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        Some(Self { line: line.trim().to_owned(), headers, body })
    }
}

/// A directory with a store, in which commands run.
pub struct Shop {
    pub dir: TempDir,
}

/// Outcome of a command.
pub struct Said {
    pub status: i32,
    pub out: String,
    pub err: String,
}

/// A running command, with line-by-line access to its output.
pub struct Running {
    pub child: Child,
    pub out: BufReader<ChildStdout>,
    /// The lines of its stderr, which a thread reads: a server blocks while this pipe is full.
    notes: Mutex<Receiver<String>>,
}

impl Shop {
    pub fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rushgate"));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        for name in [
            "RUSHGATE_STORE",
            "RUSHGATE_URL",
            "RUSHGATE_TOKEN",
            "RUSHGATE_PROFILE",
            "RUSHGATE_ORDERS",
            "RUSHGATE_OUTBOX",
            "NO_COLOR",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "TRACEPARENT",
        ] {
            command.env_remove(name);
        }
        command
    }

    pub fn run(&self, args: &[&str]) -> Said {
        self.command(args).output().unwrap().into()
    }

    /// Runs a command that must succeed, and returns its stdout.
    pub fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!(said.status, 0, "{args:?}: {}{}", said.out, said.err);
        said.out
    }

    /// Runs a command with --json that must exit with `status`, and returns its data.
    pub fn json_as(&self, status: i32, args: &[&str]) -> Value {
        let said = self.run(&[&["--json"], args].concat());
        assert_eq!(said.status, status, "{args:?}: {}{}", said.out, said.err);
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {:?}", said.out))
    }

    /// Runs a command with --json that must succeed, and returns its data.
    pub fn json(&self, args: &[&str]) -> Value {
        self.json_as(0, args)
    }

    /// Runs a command whose stdout is a closed pipe.
    pub fn unread(&self, args: &[&str]) -> Said {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        self.command(args).stdout(writer).output().unwrap().into()
    }

    pub fn with_stdin(&self, args: &[&str], stdin: &[u8]) -> Said {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        // The command may close the pipe before it has read everything.
        let _ = pipe.write_all(stdin);
        drop(pipe);
        child.wait_with_output().unwrap().into()
    }

    pub fn start(&self, args: &[&str]) -> Running {
        Running::of(self.command(args))
    }

    /// Polls a command until its JSON matches `wish`. For states that no output line and no file announces.
    pub fn until(&self, args: &[&str], wish: impl Fn(&Value) -> bool) -> Value {
        let start = std::time::Instant::now();
        loop {
            let value = self.json(args);
            if wish(&value) {
                return value;
            }
            assert!(start.elapsed().as_secs() < 30, "{args:?} stays {value}");
        }
    }
}

impl Running {
    pub fn of(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (send, notes) = channel();
        thread::spawn(move || stderr.lines().try_for_each(|line| send.send(line.unwrap())));
        Self { child, out, notes: Mutex::new(notes) }
    }

    /// Next line of its stdout.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Next line of its stderr.
    pub fn note(&mut self) -> String {
        self.notes.get_mut().unwrap().recv().expect("stderr has another line")
    }

    /// Rest of its stdout, which ends when every process that could write to it has ended.
    pub fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        rest
    }

    /// Stops the process while it has no lock on its store's file.
    pub fn suspend(&self) {
        suspend(&self.child);
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
    }

    pub fn end(mut self) -> Said {
        let out = self.rest();
        let err = self.notes.get_mut().unwrap().iter().map(|line| line + "\n").collect();
        Said { status: code_of(self.child.wait().unwrap()), out, err }
    }
}

impl Drop for Running {
    /// Kills the process, so that a failed test leaves none behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { status: code_of(output.status), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// -1 if a signal ended the process.
fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or(-1)
}

impl Said {
    /// The error that was printed as JSON.
    pub fn error(&self) -> Value {
        let line = self.err.lines().last().unwrap_or_default();
        let error: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {:?}", self.err));
        error["error"].clone()
    }
}

/// Starts a server on a free port, and returns its address.
pub fn serve(shop: &Shop, args: &[&str]) -> (Running, String) {
    let mut running = shop.start(&[&["serve", "--listen", "127.0.0.1:0"], args].concat());
    let url = running.line();
    let address = url.strip_prefix("http://").unwrap_or_else(|| panic!("{url}")).to_owned();
    (running, address)
}

/// Sends a request, and returns the status and body of the answer.
pub fn ask(address: &str, method: &str, path: &str, headers: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    let (head, body) = said.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// Splits a line into its fixed text, with `*` in place of times and IDs, and these.
pub fn masked(line: &str) -> (String, Vec<&str>) {
    let is_part = |c: char| c.is_alphanumeric() || "_.:-+…".contains(c);
    let (mut fixed, mut values, mut rest) = (String::new(), Vec::new(), line);
    while let Some(start) = rest.find(|c: char| c.is_alphanumeric() || c == '…') {
        let word = &rest[start..][..rest[start..].find(|c| !is_part(c)).unwrap_or(rest.len() - start)];
        let word = word.trim_end_matches(['.', ':', '-', '+']);
        let end = start + word.len();
        let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let digits = word.len() - unit.len();
        let is_time = digits > 0 && ["ns", "µs", "ms", "s", "m", "h"].contains(&unit);
        let is_version = unit.is_empty() && word.matches('.').count() > 1;
        let is_size =
            unit.is_empty() && ["KiB", "MiB", "GiB"].iter().any(|u| rest[end..].trim_start().starts_with(u));
        let is_id = word.len() >= 5 && unit.is_empty()
            || word.len() >= 10 && word.contains(|c: char| c.is_ascii_digit());
        fixed += &rest[..start];
        if is_time || is_version || is_size || is_id || word.contains('…') {
            fixed.push('*');
            values.push(word);
        } else {
            fixed += word;
        }
        rest = &rest[end..];
    }
    let fixed = (fixed + rest).replace("MiB", "KiB").replace("GiB", "KiB");
    (fixed.split_whitespace().collect::<Vec<_>>().join(" "), values)
}
