//! The warden: a small process that ends process groups when whoever started them cannot any more.
//!
//! A process that is killed, or stopped for longer than its lease, cannot end its command in time, and the command
//! would work on under a lock that is another's. The warden can: it reads deadlines from a pipe, ends each group at
//! its deadline, and ends them all when the pipe closes.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::time::{ClockId, clock_gettime};

use crate::exit::Exit;

/// The longest sleep: the timer stops while the machine is suspended, and leases do not.
const SLEEP_MAX: Duration = Duration::from_millis(250);

/// A warden at work. Dropping it ends the groups that it still watches.
pub(crate) struct Warden {
    _process: Child,
    pipe: Mutex<ChildStdin>,
}

impl Warden {
    /// Starts one, in a group of its own so that a terminal's signals pass it by.
    pub(crate) fn start() -> io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("__warden")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let pipe = process.stdin.take().ok_or_else(|| io::Error::other("the warden has no pipe"))?;
        Ok(Self { _process: process, pipe: Mutex::new(pipe) })
    }

    /// Has the group ended unless another deadline comes within that time.
    pub(crate) fn watch(&self, group: Pid, time: Duration) -> io::Result<()> {
        self.tell(group, &(now() + time).as_micros().to_string())
    }

    /// The group is over.
    pub(crate) fn forget(&self, group: Pid) {
        // A warden that is gone watches nothing.
        let _ = self.tell(group, "over");
    }

    fn tell(&self, group: Pid, what: &str) -> io::Result<()> {
        let mut pipe = self.pipe.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        pipe.write_all(format!("{} {what}\n", group.as_raw_nonzero()).as_bytes())
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

/// One line of the pipe: a group, and its deadline if it is not over.
struct Order {
    group: Pid,
    deadline: Option<Duration>,
}

impl Order {
    fn parse(line: &str) -> Option<Self> {
        let (group, what) = line.split_once(' ')?;
        let group = Pid::from_raw(group.parse().ok()?)?;
        let deadline = match what {
            "over" => None,
            micros => Some(Duration::from_micros(micros.parse().ok()?)),
        };
        Some(Self { group, deadline })
    }
}

/// What the warden's process does, until the pipe closes.
pub(crate) fn run() -> Exit {
    let (orders, taken) = sync_channel(64);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if let Some(order) = Order::parse(&line)
                && orders.send(order).is_err()
            {
                return;
            }
        }
    });
    watch(&taken);
    Exit::Done
}

fn watch(orders: &Receiver<Order>) {
    let mut deadlines: HashMap<Pid, Duration> = HashMap::new();
    loop {
        let now = now();
        deadlines.retain(|group, deadline| {
            let lives = now < *deadline;
            if !lives {
                end(*group);
            }
            lives
        });
        let next = deadlines.values().min().map_or(SLEEP_MAX, |next| next.saturating_sub(now).min(SLEEP_MAX));
        let order = if deadlines.is_empty() {
            orders.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            orders.recv_timeout(next)
        };
        match order {
            Ok(Order { group, deadline: Some(deadline) }) => drop(deadlines.insert(group, deadline)),
            Ok(Order { group, deadline: None }) => drop(deadlines.remove(&group)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return deadlines.into_keys().for_each(end),
        }
    }
}

fn end(group: Pid) {
    // It may have ended by itself.
    let _ = kill_process_group(group, Signal::KILL);
}
