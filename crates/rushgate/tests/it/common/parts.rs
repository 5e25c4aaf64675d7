//! A second instance of this test binary that runs one ignored test, to be killed or suspended.

use std::io::{BufRead, BufReader};
use std::ops::{Deref, DerefMut};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const FILES: &str = "RUSHGATE_TEST_FILES";

/// A child process, killed on drop.
pub struct Part(Child);

impl Deref for Part {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Part {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the child process for the ignored test `part`.
pub fn play(part: &str, folder: &TempDir) -> Part {
    let child = Command::new(std::env::current_exe().expect("a test has a binary"))
        .args([part, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(FILES, folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    Part(child.expect("the part starts"))
}

pub fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("the child has a PID");
    kill_process(pid, signal).expect("the child is running");
}

/// Lines of the child's standard output that start with `» `.
pub struct Lines(std::io::Lines<BufReader<ChildStdout>>);

impl Lines {
    pub fn of(child: &mut Child) -> Self {
        Self(BufReader::new(child.stdout.take().expect("stdout is piped")).lines())
    }

    pub fn next(&mut self) -> String {
        let said =
            self.0.by_ref().map_while(Result::ok).find_map(|line| Some(line.split_once("» ")?.1.to_owned()));
        said.expect("the other process says more")
    }
}

#[allow(clippy::print_stdout)]
pub fn say(text: impl std::fmt::Display) {
    println!("» {text}");
}

pub fn path(file: &str) -> String {
    format!("{}/{file}", std::env::var(FILES).expect("a part is started by a scene"))
}
