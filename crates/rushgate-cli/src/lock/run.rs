//! `rushgate lock run`: runs a command under a lock.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use rushgate::lock::{Busy, LostReason, Released};
use rushgate::store::HumanDuration;
use rushgate::{Error, Lock, LockGuard, LockOutcome, Rushgate};
use rustix::process::Signal;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::args::lock::{OnLost, RunArgs};
use crate::exit::{Exit, Fault};
use crate::group::{Group, command, not_started, status};
use crate::lock::who;
use crate::output::{Output, counted};
use crate::signals::{Signals, died_of};
use crate::watchdog::{Watchdog, now};

/// Maximum length of a label, in bytes.
const LABEL_MAX: usize = 200;
/// Minimum time for a release.
const RELEASE_MIN: Duration = Duration::from_secs(1);

pub(super) async fn run(client: &Rushgate, args: RunArgs, output: Output) -> Result<Exit> {
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let label = args.label.clone().unwrap_or_else(|| label(&args.command));
    let lock = client.lock(&args.name)?.lease(args.lease).wait(args.wait).label(label);
    // A signal drops the acquisition, which leaves the wait queue.
    let guard = tokio::select! {
        outcome = lock.acquire() => match outcome? {
            LockOutcome::Held(guard) => guard,
            LockOutcome::Busy(busy) => return Err(refusal(&lock, busy, args.wait).await.into()),
        },
        signal = signals.next() => return Ok(died_of(signal.as_raw())),
    };
    output.detail(format_args!("holding `{}` with fence {}", guard.name(), guard.fence()));
    let ended = match Watch::start(&guard, &args).await {
        Ok(watch) => watch.until_the_end(&guard, &mut signals, output).await,
        Err(error) => Err(error),
    };
    finish(guard, ended, args.on_lost, &lock, &mut signals, output).await
}

/// Names the holder, if there still is one.
async fn refusal(lock: &Lock, busy: Busy, wait: Duration) -> Fault {
    let holders = lock.holders().await.unwrap_or_default();
    let holder =
        holders.first().map_or("not held now".to_owned(), |holder| format!("held by {}", who(holder)));
    let line = match busy.waiters {
        0 => String::new(),
        ahead => format!("; {} ahead", counted(ahead, "waiter")),
    };
    let message = format!("cannot acquire `{}` within {}: {holder}{line}", lock.name(), HumanDuration(wait));
    Fault::refused("busy", message)
        .hint("pass a longer --wait, or see `rushgate lock show` and `rushgate lock force-release`")
}

/// The command as a label for others: one line, cut to the maximum length.
fn label(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let mut label = words.join(" ").replace(char::is_control, " ");
    while label.len() > LABEL_MAX {
        label.pop();
    }
    label
}

/// How the command ended.
enum Ended {
    Status(Exit),
    Lost(LostReason),
}

/// The running command, and what is needed to end it in time.
struct Watch {
    group: Group,
    lease: Duration,
    on_lost: OnLost,
    /// Time for which the lock was certainly held at the last check, and the time at which it ends, on the
    /// clock that counts suspend.
    left: Duration,
    sure_until: Duration,
    /// How long before that time the command gets a signal to end.
    notice: Duration,
}

impl Watch {
    async fn start(guard: &LockGuard, args: &RunArgs) -> Result<Self> {
        let mut command = command(&args.command);
        command
            .env("RUSHGATE_LOCK", guard.name().as_str())
            .env("RUSHGATE_FENCE", guard.fence().to_string())
            .env("RUSHGATE_LOCK_TOKEN", guard.token().to_string());
        if std::io::stdin().is_terminal() {
            // Reading from a terminal would suspend a background process group forever.
            command.stdin(Stdio::null());
        }
        let group = match args.on_lost {
            OnLost::Warn => Group::start(command),
            OnLost::Kill => {
                let watchdog = Watchdog::start().await?;
                watchdog.watch(guard.held().time_left()).await;
                Group::start_under(watchdog, command)
            }
        };
        let group = group.map_err(|error| not_started(&args.command, &error))?;
        let (left, notice) = (Duration::ZERO, Duration::ZERO);
        let mut watch =
            Self { group, lease: args.lease, on_lost: args.on_lost, left, sure_until: now(), notice };
        watch.tell_watchdog(guard).await;
        Ok(watch)
    }

    /// Renews the deadline of the watchdog, which ends the group if this process cannot. Called for every
    /// renewal of the lease.
    async fn tell_watchdog(&mut self, guard: &LockGuard) {
        let left = guard.held().time_left();
        if left > self.left {
            // The lease was granted or renewed. It may be shorter than requested.
            self.notice = notice(left);
        }
        self.left = left;
        self.sure_until = now() + left;
        if !left.is_zero() {
            self.group.watch(left).await;
        }
    }

    async fn until_the_end(
        mut self,
        guard: &LockGuard,
        signals: &mut Signals,
        output: Output,
    ) -> Result<Ended> {
        let mut tick = interval((self.lease / 10).max(Duration::from_millis(2)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut kept_on = false;
        let exit = loop {
            let last_call = self.time_until_last_call();
            tokio::select! {
                biased;
                reason = guard.lost(), if !kept_on => {
                    if self.on_lost == OnLost::Kill {
                        self.end(reason).await;
                        return Ok(Ended::Lost(reason));
                    }
                    output.warn(format_args!("lease lost: {reason}; the command continues"));
                    kept_on = true;
                }
                ended = self.group.wait() => match ended {
                    Ok(ended) => break status(ended),
                    // A watchdog that acted on its deadline ended with the command.
                    Err(_) if guard.is_lost() => return Ok(Ended::Lost(LostReason::Expired)),
                    Err(error) => return Err(error),
                },
                signal = signals.next() => self.group.signal(signal),
                () = sleep(last_call), if self.on_lost == OnLost::Kill => {
                    // The lease may have been renewed since the last check.
                    self.tell_watchdog(guard).await;
                    if self.time_until_last_call().is_zero() {
                        self.end(LostReason::Expired).await;
                        return Ok(Ended::Lost(LostReason::Expired));
                    }
                }
                _ = tick.tick() => self.tell_watchdog(guard).await,
            }
        };
        // A command that the watchdog ended, or that ended too late, was not under the lock all the time.
        if guard.is_lost() && self.on_lost == OnLost::Kill {
            return Ok(Ended::Lost(guard.held().reason().unwrap_or(LostReason::Expired)));
        }
        self.group.end_left_behind().await;
        Ok(Ended::Status(exit))
    }

    /// Time until the command must get the signal to end, if no renewal comes.
    fn time_until_last_call(&self) -> Duration {
        self.sure_until.saturating_sub(now()).saturating_sub(self.notice)
    }

    /// Sends a signal to end while the lock is certainly held, and kills the group before the lock can pass
    /// to another holder.
    async fn end(mut self, reason: LostReason) {
        let left = self.time_to_end(reason);
        if !left.is_zero() {
            self.group.signal(Signal::TERM);
            let _ = timeout(left, self.group.child().wait()).await;
        }
        self.group.signal(Signal::KILL);
        // The group has been killed; this only reaps the process.
        let _ = self.group.child().wait().await;
    }

    /// Zero if the lock may already belong to another holder: it was force-released, or this process was
    /// suspended.
    fn time_to_end(&self, reason: LostReason) -> Duration {
        if matches!(reason, LostReason::Revoked | LostReason::NotHeld) {
            return Duration::ZERO;
        }
        self.sure_until.saturating_sub(now())
    }
}

/// How long before the deadline a command gets the signal to end: a tenth of the time left after a renewal, 1
/// ms to 1 s.
fn notice(left: Duration) -> Duration {
    (left / 10).clamp(Duration::from_millis(1), Duration::from_secs(1))
}

async fn finish(
    guard: LockGuard,
    ended: Result<Ended>,
    on_lost: OnLost,
    lock: &Lock,
    signals: &mut Signals,
    output: Output,
) -> Result<Exit> {
    let name = lock.name();
    let lost = |reason: &dyn std::fmt::Display| {
        Fault::refused("lease_lost", format_args!("lease lost: `{name}`: {reason}"))
            .hint("check that your database rejects later writes of the command by their fencing token")
    };
    let exit = match ended? {
        Ended::Status(exit) => exit,
        // The rest of the store's lease is released in the background.
        Ended::Lost(reason) => {
            return Err(lost(&format_args!("{reason}; the command was terminated")).into());
        }
    };
    // After the lease there is nothing left to release, so a server that does not answer costs no more than that.
    let left = guard.held().time_left().max(RELEASE_MIN);
    let released = timeout(left, release(guard, lock, left, signals, output))
        .await
        .unwrap_or_else(|_| Err(Error::unavailable("the store did not answer within the lease")));
    match released {
        Ok(Released::Released) => Ok(exit),
        Ok(Released::NotHeld) if on_lost == OnLost::Warn => Ok(exit),
        Ok(Released::NotHeld) => Err(lost(&"the lock was no longer held when the command ended").into()),
        Err(error) => {
            output.warn(format_args!("cannot release `{name}`; it expires with its lease: {error}"));
            Ok(exit)
        }
    }
}

/// Releases the lock, as soon as the store can be reached: others would wait for the end of the lease. Once a release has
/// failed, a signal ends the attempts.
async fn release(
    guard: LockGuard,
    lock: &Lock,
    left: Duration,
    signals: &mut Signals,
    output: Output,
) -> rushgate::Result<Released> {
    let token = guard.token();
    let mut released = guard.release().await;
    if released.as_ref().is_err_and(Error::is_unavailable) {
        output.warn(format_args!(
            "the store cannot be reached; trying to release `{}` until its lease ends, for up to {}",
            lock.name(),
            HumanDuration(left)
        ));
    }
    while released.as_ref().is_err_and(Error::is_unavailable) {
        released = tokio::select! {
            released = lock.release(token) => released,
            _ = signals.next() => return released,
        };
    }
    released
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_one_line_of_at_most_two_hundred_bytes() {
        let words = |text: &str| label(&[OsString::from("sh"), OsString::from(text)]);
        assert_eq!(words("a\nb"), "sh a b");
        assert!(words(&"é".repeat(200)).len() <= LABEL_MAX);
    }
}
