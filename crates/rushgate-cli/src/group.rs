//! A command in its own process group, so that everything it starts can be ended with it.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::sleep;

use crate::exit::{Exit, Fault};
use crate::signals::died_of;
use crate::watchdog::Watchdog;

/// Time that processes left behind by a command have to end after a signal.
const LEFT_BEHIND_MAX: Duration = Duration::from_millis(500);

/// A running command and its process group. Dropping it kills the group.
pub(crate) struct Group {
    child: Child,
    id: Pid,
    /// The watchdog; `None` if the command may outlive this process.
    watchdog: Option<Watchdog>,
}

impl Group {
    /// Starts the command as the leader of a new group.
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        let child = command.process_group(0).spawn()?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let id = id.ok_or_else(|| io::Error::other("the command has no process ID"))?;
        Ok(Self { child, id, watchdog: None })
    }

    /// Starts the command in the group of a watchdog, which ends the group unless it is renewed.
    pub(crate) fn start_under(watchdog: Watchdog, mut command: Command) -> io::Result<Self> {
        let id = watchdog.group();
        let child = command.process_group(id.as_raw_pid()).spawn()?;
        Ok(Self { child, id, watchdog: Some(watchdog) })
    }

    /// Makes the watchdog end the group unless it is renewed within this time.
    pub(crate) async fn watch(&self, time: Duration) {
        if let Some(watchdog) = &self.watchdog {
            watchdog.watch(time).await;
        }
    }

    /// The command's own process.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for the end of the command's own process. If the watchdog dies first, the command would survive this process,
    /// so it is ended at once, and that is the error. Cancel safe.
    pub(crate) async fn wait(&mut self) -> Result<ExitStatus> {
        let Some(watchdog) = &mut self.watchdog else { return Ok(self.child.wait().await?) };
        tokio::select! {
            biased;
            ended = self.child.wait() => return Ok(ended?),
            () = watchdog.ended() => {}
        }
        self.signal(Signal::KILL);
        self.child.wait().await?;
        Err(Fault::refused("watchdog_killed", "the command was terminated because its watchdog was killed")
            .hint("keep the process `rg-watchdog` running: it terminates the command if this process cannot")
            .into())
    }

    /// Sends a signal to the whole group. A stopped process, such as one that reads from the terminal in the background,
    /// is continued, because it would not get the signal before.
    pub(crate) fn signal(&self, signal: Signal) {
        // If it fails, the group is already gone.
        let _ = kill_process_group(self.id, signal);
        let _ = kill_process_group(self.id, Signal::CONT);
    }

    /// Ends the processes that the command left behind: first with a signal, then by force.
    pub(crate) async fn end_left_behind(mut self) {
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss().await;
        }
        let until = Instant::now() + LEFT_BEHIND_MAX;
        self.signal(Signal::TERM);
        while test_kill_process_group(self.id).is_ok() && Instant::now() < until {
            sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The program and its arguments.
pub(crate) fn command(words: &[OsString]) -> Command {
    let mut words = words.iter();
    let mut command = Command::new(words.next().cloned().unwrap_or_default());
    command.args(words);
    command
}

/// Exit status that shells use for a program that cannot be started.
pub(crate) fn not_started(words: &[OsString], error: &io::Error) -> Fault {
    let program = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    match error.kind() {
        io::ErrorKind::NotFound => {
            Fault::new(Exit::Passed(127), "command_not_found", format_args!("command not found: `{program}`"))
                .hint("use sh -c '…' for shell syntax")
        }
        _ => Fault::new(
            Exit::Passed(126),
            "command_not_executable",
            format_args!("cannot start `{program}`: {error}"),
        ),
    }
}

/// The command's own status, or 128+n for signal n.
pub(crate) fn status(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Passed(code as u8),
        (None, Some(signal)) => died_of(signal),
        (None, None) => Exit::Bug,
    }
}
