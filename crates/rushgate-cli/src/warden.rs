//! The watchdog: a small process that ends a command's process group when its parent has died.
//!
//! A process that is killed, or stopped for longer than its lease, cannot end its command in time, and the command
//! would work on under a lock that is another's. The warden can: it is the first of the group, before there is a
//! command, reads deadlines from a pipe, and ends the group, and itself with it, at the deadline or when the pipe
//! closes.

use std::io;
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
use crate::signals::{Signals, died_of};

/// The longest sleep: the timer stops while the machine is suspended, and leases do not.
const SLEEP_MAX: Duration = Duration::from_millis(250);
/// Releases the watchdog.
const OVER: &str = "over";

/// The code of the fault that this process is asked to end.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// A warden at work. Dropping it ends the group.
pub(crate) struct Warden {
    process: Child,
    pipe: Mutex<ChildStdin>,
    group: Pid,
}

impl Warden {
    /// Starts one, as the first of a group of its own.
    ///
    /// It dies of the signals that ask this process to end until it can stand them, if a terminal or a supervisor
    /// sends them to all. Then the fault is [`Exit::Passed`], as if the command had died of the signal.
    pub(crate) async fn start() -> Result<Self> {
        Self::try_start().await.context("the command's warden cannot be started")
    }

    async fn try_start() -> Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("__warden")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let missing = || io::Error::other("the warden did not start");
        let group = process.id().and_then(|id| Pid::from_raw(id.cast_signed())).ok_or_else(missing)?;
        let pipe = Mutex::new(process.stdin.take().ok_or_else(missing)?);
        // It writes once it can stand the signals that the group may get.
        if process.stdout.take().ok_or_else(missing)?.read_u8().await.is_err() {
            return Err(too_early(process.wait().await?));
        }
        Ok(Self { process, pipe, group })
    }

    /// The group.
    pub(crate) fn group(&self) -> Pid {
        self.group
    }

    /// Waits until it is gone. Cancel safe.
    pub(crate) async fn ended(&mut self) {
        // If that cannot be told, it counts as gone.
        let _ = self.process.wait().await;
    }

    /// Has the group ended unless another deadline comes within that time.
    pub(crate) async fn watch(&self, time: Duration) {
        self.tell(&(now() + time).as_micros().to_string()).await;
    }

    /// Sends it home: only the command's own processes are left in the group.
    pub(crate) async fn dismiss(mut self) {
        self.tell(OVER).await;
        let _ = self.process.wait().await;
    }

    async fn tell(&self, what: &str) {
        // Without the watchdog its parent still watches the command.
        let _ = self.pipe.lock().await.write_all(format!("{what}\n").as_bytes()).await;
    }
}

/// Why a warden ended before it was ready.
fn too_early(status: ExitStatus) -> anyhow::Error {
    let asked = [Signal::INT, Signal::TERM, Signal::HUP].map(Signal::as_raw);
    match status.signal() {
        Some(signal) if asked.contains(&signal) => {
            Fault::new(died_of(signal), INTERRUPTED, "asked to end before the command was started").into()
        }
        _ => io::Error::other(format!("it ended with {status}")).into(),
    }
}

/// The moment on the clock that all processes share and that counts suspend.
pub(crate) fn now() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What the warden's process does, until it is sent home.
pub(crate) async fn run() -> Result<Exit> {
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
            // They are for the command, not for its warden.
            _ = signals.next() => {}
            () = sleep(left.min(SLEEP_MAX)) => {}
        }
    }
}

/// Ends the group, and so this process.
fn end() {
    // Nothing can be done about a failure but to go on trying.
    let _ = kill_process_group(getpid(), Signal::KILL);
}
