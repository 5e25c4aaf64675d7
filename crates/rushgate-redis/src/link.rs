//! The connection to one server, with reconnection.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rushgate_core::{Error, Result};
use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::check::Checked;
use crate::command::Command;
use crate::fault::{self, Broken};
use crate::reply::{Answered, Reply};
use crate::resolver::{Linked, Resolver};
use crate::work::InFlight;

/// How long a Cluster node may be silent before the other nodes are asked whether it was replaced.
const SILENCE_MAX: Duration = Duration::from_millis(500);

/// The connection to the server: the current one, and the next attempt to connect.
pub(crate) struct Link {
    pub(crate) resolver: Resolver,
    pub(crate) in_flight: Arc<InFlight>,
    slot: Mutex<Slot>,
    next: tokio::sync::Mutex<Next>,
}

#[derive(Default)]
struct Slot {
    conn: Option<Arc<Linked>>,
    /// The result of the latest check.
    checked: Option<Checked>,
}

/// When the next attempt to connect is due. The task that holds the lock makes the attempt.
struct Next {
    /// The earliest moment of the attempt.
    at: Option<Instant>,
    backoff: Backoff,
}

impl Link {
    /// Connects when the connection is first used.
    pub(crate) fn new(resolver: Resolver, in_flight: Arc<InFlight>) -> Self {
        let next = tokio::sync::Mutex::new(Next { at: None, backoff: Backoff::new() });
        Self { resolver, in_flight, slot: Mutex::default(), next }
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current connection, if it has not been lost and the server was not replaced.
    pub(crate) fn current(&self) -> Option<Arc<Linked>> {
        let mut slot = self.slot();
        slot.conn.take_if(|conn| self.resolver.is_left(&conn.at));
        slot.conn.clone()
    }

    /// The current connection. If there is none, makes one attempt to connect when the backoff allows it.
    pub(crate) async fn conn(&self) -> Result<Arc<Linked>> {
        if let Some(conn) = self.current() {
            return Ok(conn);
        }
        let mut next = self.next.lock().await;
        if let Some(conn) = self.current() {
            return Ok(conn);
        }
        if let Some(at) = next.at {
            tokio::select! {
                () = tokio::time::sleep_until(at) => {}
                () = self.resolver.changed() => {}
            }
        }
        let made = self.connect().await;
        if made.is_ok() {
            next.backoff = Backoff::new();
        }
        next.at = Some(Instant::now() + next.backoff.draw());
        made
    }

    /// Connects, and checks the server.
    async fn connect(&self) -> Result<Arc<Linked>> {
        let linked = Arc::new(self.resolver.connect().await?);
        *self.slot() = Slot { conn: Some(Arc::clone(&linked)), checked: Some(linked.checked.clone()) };
        Ok(linked)
    }

    pub(crate) fn lost(&self, conn: &Arc<Linked>) {
        self.slot().conn.take_if(|current| Arc::ptr_eq(current, conn));
    }

    /// Whether a connection exists. It may have been lost without notice.
    pub(crate) fn is_connected(&self) -> bool {
        self.slot().conn.is_some()
    }

    /// Drops the connection.
    pub(crate) fn disconnect(&self) {
        self.slot().conn = None;
    }

    /// The result of the latest check.
    pub(crate) fn checked(&self) -> Option<Checked> {
        self.slot().checked.clone()
    }

    /// Sends commands, and stops waiting if another server replaces this one.
    pub(crate) async fn send(
        &self,
        conn: &Linked,
        commands: &[Command],
    ) -> std::result::Result<Vec<Answered>, Broken> {
        let mut answers = pin!(conn.conn.send(commands));
        loop {
            tokio::select! {
                biased;
                // Whatever this server answers from now on, it is no longer the primary.
                () = self.resolver.left(&conn.at) => return Err(Broken::Replaced),
                answers = &mut answers => return answers,
                () = sleep(SILENCE_MAX), if self.resolver.nodes().is_some() => {
                    if let Some((nodes, _)) = self.resolver.nodes() {
                        nodes.look_soon();
                    }
                }
            }
        }
    }
}

/// A pinned connection, for queries that must go to one server process: a SCAN cursor is invalid on another server and
/// after a restart.
pub(crate) struct PinnedConnection {
    link: Arc<Link>,
    conn: Arc<Linked>,
}

impl PinnedConnection {
    pub(crate) fn new(link: &Arc<Link>, conn: Arc<Linked>) -> Self {
        Self { link: Arc::clone(link), conn }
    }

    /// Sends a command on this connection.
    pub(crate) async fn ask(&self, question: Command) -> Result<Reply> {
        self.try_ask(question).await?.map_err(|refusal| fault::refused(&refusal))
    }

    /// The same, with the server's error reply if it refuses.
    pub(crate) async fn try_ask(&self, question: Command) -> Result<Answered> {
        self.link.in_flight.sent(1, 1);
        match self.conn.conn.send(&[question]).await {
            Ok(answers) => answers.into_iter().next().ok_or_else(|| Error::bug("the server sent no reply")),
            Err(error) => {
                self.link.lost(&self.conn);
                Err(fault::broken(&error))
            }
        }
    }
}
