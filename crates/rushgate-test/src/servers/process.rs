//! Signals to other processes.

use std::fs;
use std::io::{self, Write};
use std::process::{Child, Command};
use std::thread::yield_now;

pub(super) fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    if !sent.is_ok_and(|status| status.success()) {
        let _ = writeln!(io::stderr(), "the process {pid} had ended");
    }
}

/// Suspends a process (`SIGSTOP`) at a moment when it has no lock on a file. A process that was suspended within a
/// transaction of SQLite would block all others. `SIGCONT` continues it. It blocks the thread until the process is stopped.
///
/// # Panics
/// If `/proc/locks` cannot be read: only Linux lists file locks.
pub fn suspend(process: &Child) {
    let pid = process.id();
    loop {
        signal("STOP", pid);
        while is_running(pid) {
            yield_now();
        }
        if !has_file_lock(pid) {
            return;
        }
        signal("CONT", pid);
        yield_now();
    }
}

/// False if the process is stopped, or has ended.
fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, fields)| fields.chars().next());
    !matches!(state, None | Some('T' | 'Z' | 'X'))
}

fn has_file_lock(pid: u32) -> bool {
    let locks = fs::read_to_string("/proc/locks").expect("Linux lists file locks");
    let holds = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        matches!(words[..], [_, "POSIX", _, "WRITE", holder, ..] if holder == pid.to_string())
    };
    locks.lines().any(holds)
}
