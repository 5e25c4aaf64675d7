//! The watchdog: a small process that ends a command's process group when its parent has died.
//!
//! A process that is killed, or suspended for longer than its lease, cannot end its command in time. The
//! command would continue under a lock that another client holds.
//!
//! The watchdog starts before the command, as the leader of its process group. It reads deadlines from a
//! pipe. At a deadline, or when the pipe closes, it kills the group and itself. Its name is not `rushgate`, so that
//! `pkill -9 rushgate` leaves it alive to do so.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, getpid, kill_process_group};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::exit::{Exit, Fault};
use crate::signals::{Signals, died_of, never_stop};

/// Maximum sleep. The timer stops while the machine is suspended, but leases do not.
const SLEEP_MAX: Duration = Duration::from_millis(250);
/// Message that releases the watchdog.
const OVER: &str = "over";

/// The watchdog's process name.
const NAME: &CStr = c"rg-watchdog";

/// Code of the fault if this process is asked to end.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// A running watchdog. Dropping it ends the group.
pub(crate) struct Watchdog {
    process: Child,
    pipe: Mutex<ChildStdin>,
    group: Pid,
}

impl Watchdog {
    /// Starts a watchdog as the leader of a new process group.
    ///
    /// Until it has blocked them, it dies of the signals that a terminal or a supervisor sends to all
    /// processes. The fault is then [`Exit::Passed`], as if the command had died of the signal.
    pub(crate) async fn start() -> Result<Self> {
        Self::try_start().await.context("cannot start the watchdog of the command")
    }

    async fn try_start() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg0(OsStr::from_bytes(NAME.to_bytes()))
            .arg("__watchdog")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let missing = || io::Error::other("the watchdog did not start");
        let group = process.id().and_then(|id| Pid::from_raw(id.cast_signed())).ok_or_else(missing)?;
        let pipe = Mutex::new(process.stdin.take().ok_or_else(missing)?);
        // The watchdog writes one byte once it handles the signals that the group may get.
        if process.stdout.take().ok_or_else(missing)?.read_u8().await.is_err() {
            return Err(too_early(process.wait().await?));
        }
        Ok(Self { process, pipe, group })
    }

    /// ID of the process group.
    pub(crate) fn group(&self) -> Pid {
        self.group
    }

    /// Waits until the watchdog has ended. Cancel safe.
    pub(crate) async fn ended(&mut self) {
        // If waiting fails, the watchdog counts as ended.
        let _ = self.process.wait().await;
    }

    /// Sets the deadline: the group is killed after `time`, unless another deadline comes before.
    pub(crate) async fn watch(&self, time: Duration) {
        self.tell(&(now() + time).as_micros().to_string()).await;
    }

    /// Ends the watchdog. Only the command's own processes stay in the group.
    pub(crate) async fn dismiss(mut self) {
        self.tell(OVER).await;
        let _ = self.process.wait().await;
    }

    async fn tell(&self, what: &str) {
        // If the watchdog is gone, this process still watches the command.
        let _ = self.pipe.lock().await.write_all(format!("{what}\n").as_bytes()).await;
    }
}

/// Error for a watchdog that ended before it was ready.
fn too_early(status: ExitStatus) -> anyhow::Error {
    let asked = [Signal::INT, Signal::TERM, Signal::HUP].map(Signal::as_raw);
    match status.signal() {
        Some(signal) if asked.contains(&signal) => {
            Fault::new(died_of(signal), INTERRUPTED, "interrupted before the command was started").into()
        }
        _ => io::Error::other(format!("it ended with {status}")).into(),
    }
}

/// Time on the clock that all processes share and that counts suspend.
pub(crate) fn now() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Main function of the watchdog process.
pub(crate) async fn run() -> Result<Exit> {
    // The command line is set by `arg0`, the name in `/proc/PID/comm` is that of the executable.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    rustix::thread::set_name(NAME)?;
    never_stop()?;
    let mut signals = Signals::listen()?;
    let mut ready = tokio::io::stdout();
    ready.write_u8(b'.').await?;
    ready.flush().await?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut deadline = None;
    loop {
        let left = deadline.map_or(SLEEP_MAX, |deadline: Duration| deadline.saturating_sub(now()));
        if left.is_zero() {
            end();
        }
        tokio::select! {
            line = lines.next_line() => match line.ok().flatten() {
                Some(line) if line == OVER => return Ok(Exit::Done),
                Some(line) => deadline = line.parse().ok().map(Duration::from_micros),
                None => end(),
            },
            // Signals are for the command, not for its watchdog.
            _ = signals.next() => {}
            () = sleep(left.min(SLEEP_MAX)) => {}
        }
    }
}

/// Kills the group, including this process.
fn end() {
    // If it fails, the loop tries again.
    let _ = kill_process_group(getpid(), Signal::KILL);
}
