//! Signals that ask this process to end.

use std::io;

use rushgate::CancellationToken;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::exit::Exit;

/// Listens for INT, TERM and HUP from construction on.
pub(crate) struct Signals {
    int: unix::Signal,
    term: unix::Signal,
    hup: unix::Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            int: unix::signal(SignalKind::interrupt())?,
            term: unix::signal(SignalKind::terminate())?,
            hup: unix::signal(SignalKind::hangup())?,
        })
    }

    /// Next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.int.recv() => Signal::INT,
            _ = self.term.recv() => Signal::TERM,
            _ = self.hup.recv() => Signal::HUP,
        }
    }

    /// A token that the first signal cancels, and a future for the second signal.
    pub(crate) fn cancels(mut self) -> (CancellationToken, impl Future<Output = Signal>) {
        let token = CancellationToken::new();
        let first = token.clone();
        let twice = async move {
            self.next().await;
            first.cancel();
            self.next().await
        };
        (token, twice)
    }
}

/// Keeps a terminal from stopping this process. Tokio never removes a handler, so its listener can be dropped.
pub(crate) fn never_stop() -> io::Result<()> {
    for signal in [Signal::TSTP, Signal::TTIN, Signal::TTOU] {
        drop(unix::signal(SignalKind::from_raw(signal.as_raw()))?);
    }
    Ok(())
}

/// Exit status that shells use for a program killed by this signal.
pub(crate) fn died_of(signal: i32) -> Exit {
    Exit::Passed(u8::try_from(128 + signal).unwrap_or(u8::MAX))
}
