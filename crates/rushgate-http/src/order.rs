//! Order of the requests of one client.
//!
//! Requests travel on several connections, so one can overtake another. Two orders are part of the contract of a
//! store: steps on one lock, and a step after the listening that was to notice it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rushgate_core::{LockName, Request, Target};
use tokio::sync::oneshot::{self, Receiver, Sender, error::TryRecvError};
use tokio::sync::watch;
use tokio::time::timeout;

/// How long a request waits for streams to begin.
const OPENING_WITHIN: Duration = Duration::from_secs(2);
/// Above this number, entries of ended requests are removed.
const ENDED_MAX: usize = 256;

/// The requests on their way.
#[derive(Default)]
pub(crate) struct Order(Mutex<Sent>);

#[derive(Default)]
struct Sent {
    /// The latest request on each lock. Its sender is dropped at the answer.
    locks: HashMap<LockName, Receiver<Infallible>>,
    /// Streams that the server has not begun.
    opening: Vec<watch::Receiver<()>>,
}

/// The position of one request. Dropping it lets the next one go.
pub(crate) struct Position {
    before: Vec<Receiver<Infallible>>,
    opening: Vec<watch::Receiver<()>>,
    _next: Vec<Sender<Infallible>>,
}

impl Order {
    /// The position of a request that is sent now.
    pub(crate) fn position(&self, request: &Request) -> Position {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sent.forget_ended();
        let opening = sent.opening.clone();
        let (mut before, mut next) = (Vec::new(), Vec::new());
        for name in locks_of(request) {
            let (sender, receiver) = oneshot::channel();
            next.push(sender);
            before.extend(sent.locks.insert(name.clone(), receiver));
        }
        Position { before, opening, _next: next }
    }

    /// A stream to open. Later requests wait until the sender is dropped.
    pub(crate) fn opening(&self) -> watch::Sender<()> {
        let (sender, receiver) = watch::channel(());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).opening.push(receiver);
        sender
    }
}

impl Sent {
    fn forget_ended(&mut self) {
        self.opening.retain(|stream| stream.has_changed().is_ok());
        if self.locks.len() > ENDED_MAX {
            self.locks.retain(|_, latest| matches!(latest.try_recv(), Err(TryRecvError::Empty)));
        }
    }
}

impl Position {
    /// Waits until everything before it has been answered.
    pub(crate) async fn comes(&mut self) {
        let opening = self.opening.drain(..);
        let opened = async {
            for mut stream in opening {
                while stream.changed().await.is_ok() {}
            }
        };
        // Notifications are hints. A proxy that holds a stream back must not hold the requests back too.
        let _ = timeout(OPENING_WITHIN, opened).await;
        for before in self.before.drain(..) {
            // The sender is dropped at the answer.
            let Err(_) = before.await;
        }
    }
}

fn locks_of(request: &Request) -> Vec<&LockName> {
    match request.target() {
        Target::Lock(name) | Target::LockAndQueue(name, _) => vec![name],
        Target::Leases(leases) => {
            let mut names: Vec<_> = leases.iter().map(|lease| &lease.name).collect();
            // A request that named a lock twice would wait for itself.
            names.sort();
            names.dedup();
            names
        }
        _ => Vec::new(),
    }
}
