//! Processes that run `rushgate rush`.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub fn rush(args: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rushgate"));
    command.arg("rush").args(args).stdin(Stdio::null()).env_remove("RUSHGATE_STORE");
    command
}

pub fn finish(mut command: Command) -> (ExitStatus, Value) {
    let output = command.arg("--json").arg("--quiet").output().expect("rush starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let report = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}\n{}", String::from_utf8_lossy(&output.stderr)));
    (output.status, report)
}

/// A simulation that takes part in a sale. Killed on drop.
pub struct Member(Option<Child>);

impl Member {
    pub fn of(child: Child) -> Self {
        Self(Some(child))
    }
}

impl Deref for Member {
    type Target = Child;
    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it is there until its report is read")
    }
}

impl DerefMut for Member {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is there until its report is read")
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a child has an id");
    kill_process(pid, signal).expect("the child is there");
}

/// Starts a simulation that prints only its report.
pub fn start(args: &[impl AsRef<OsStr>]) -> Member {
    let child = rush(args).args(["--json", "--quiet"]).stdout(Stdio::piped()).spawn();
    Member::of(child.expect("rush starts"))
}

/// Starts a simulation, and waits until its buyers have received answers for a while.
pub fn start_and_see_it_sell(args: &[impl AsRef<OsStr>]) -> Member {
    let mut child = start_telling(args);
    see(&mut child, |line| !line.starts_with("0 tries"));
    child
}

/// Starts a simulation that prints its progress.
pub fn start_telling(args: &[impl AsRef<OsStr>]) -> Member {
    let child = rush(args).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    Member::of(child.expect("rush starts"))
}

/// Waits for a line of progress.
pub fn see(child: &mut Member, progress: impl Fn(&str) -> bool) {
    let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
    let mut lines = stderr.lines().map_while(Result::ok);
    let seen = lines.find(|line| line.contains(" tries") && progress(line));
    assert!(seen.is_some(), "the process prints its progress");
    // Keep reading, so that the child never blocks on a full pipe. Errors are printed, for the output of a
    // failed test.
    let errors = |line: &String| line.starts_with("{\"error\"");
    thread::spawn(move || lines.filter(errors).for_each(|line| note(&line)));
}

pub fn report_of(mut child: Member) -> (ExitStatus, Value) {
    let child = child.0.take().expect("a report is read once");
    let output = child.wait_with_output().expect("rush ends");
    let report = serde_json::from_slice(&output.stdout).expect("a report in JSON");
    (output.status, report)
}

pub fn assert_audited(report: &Value) {
    let failed: Vec<_> = report["audit"]["checks"]
        .as_array()
        .expect("the audit has checks")
        .iter()
        .filter(|check| check["ok"] != true)
        .collect();
    assert!(failed.is_empty(), "{failed:?}\n{report:#}");
    assert_eq!(report["audit"]["ok"], true);
}

#[expect(clippy::print_stdout, reason = "shown when a test fails")]
pub fn note(text: &str) {
    println!("{text}");
}
