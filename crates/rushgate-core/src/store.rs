//! What a [`Store`](crate::Store) says of itself, and what its callers can listen to.

use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};

use crate::{QueueName, Result, SaleId, TaskId, Token};

/// The return type of every verb: a future of a [`Result`].
///
/// One verb is one atomic step: one script, one transaction, one round trip. The step is sent when the method is
/// **called**, not when the future is first polled. Dropping the future does not undo the step. To query or undo it,
/// use the token of the call.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// What to be notified of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// A token was granted a lock, or lost one by force. See [`notification`](crate::Verbs::notification).
    Token(Token),
    /// A queue may have a task to claim. See [`ready`](crate::Verbs::ready).
    Ready(QueueName),
    /// A task may have finished. See [`finished`](crate::Verbs::finished).
    Finished(QueueName, TaskId),
    /// A log may have an event with a greater number. See [`next_event`](crate::Verbs::next_event) and
    /// [`next_sale_event`](crate::Verbs::next_sale_event).
    Event(Log, u64),
}

impl Topic {
    /// What an error says was being done, such as `wait for a task`.
    pub fn doing(&self) -> &'static str {
        match self {
            Self::Token(_) => "wait for a notification of a lock",
            Self::Ready(_) => "wait for a task",
            Self::Finished(..) => "wait for a task to finish",
            Self::Event(Log::Queue(_), _) => "follow a queue",
            Self::Event(Log::Sale(_), _) => "follow a sale",
        }
    }
}

/// A log of events, numbered without gaps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Log {
    /// Events of the tasks of a queue.
    Queue(QueueName),
    /// Events of a sale.
    Sale(SaleId),
}

/// Description of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreInfo {
    /// URL, without secrets.
    pub url: String,
    /// Server software and version, such as `SQLite 3.54.1`.
    pub server: String,
    /// What an acknowledged write survives.
    pub durability: Durability,
}

/// A configuration warning for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The problem.
    pub what: &'static str,
    /// How to fix it.
    pub fix: &'static str,
}

/// Durability class: what an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Durability {
    /// Nothing: the data lives in the memory of one process.
    D0,
    /// The death of a process, but not a power cut.
    D1,
    /// A power cut on one machine.
    D2,
    /// The loss of one machine, if the replica that takes over had acknowledged the write.
    D3,
}

impl Durability {
    /// Name of the class, such as `D2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::D0 => "D0",
            Self::D1 => "D1",
            Self::D2 => "D2",
            Self::D3 => "D3",
        }
    }
}

/// Counters of the work that one client has sent to its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreCalls {
    /// Requests sent.
    pub calls: u64,
    /// Write transactions committed. Concurrent calls share a transaction; reads need none.
    pub transactions: u64,
    /// Statements (or commands) executed for calls and for sweeping, inside and outside those transactions. Excluded
    /// are the statements that open the store and those that poll for notifications.
    pub statements: u64,
}
