//! Requests in flight: what is sent, where the reply goes, and how many have no reply yet.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rushgate_core::{Error, Result, StoreCalls};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::command::{Call, Command, Item};
use crate::function::Function;
use crate::reply::Reply;

/// What a request sends.
#[derive(Clone)]
pub(crate) enum What {
    Call(Call),
    Command(Command),
    /// Commands of one transaction.
    Together(Vec<Command>),
}

impl From<Call> for What {
    fn from(call: Call) -> Self {
        Self::Call(call)
    }
}

impl From<Command> for What {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

impl From<Vec<Command>> for What {
    fn from(commands: Vec<Command>) -> Self {
        Self::Together(commands)
    }
}

impl What {
    /// A key of the request. All its keys are in one slot.
    pub(crate) fn key(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Call(call) => call.first_key().into(),
            Self::Command(command) => command.first_key().into(),
            Self::Together(commands) => commands.first().map_or(&b""[..], Command::first_key).into(),
        }
    }

    /// Whether the request writes nothing.
    pub(crate) fn only_looks(&self) -> bool {
        match self {
            Self::Call(call) => call.function().only_looks(),
            Self::Command(command) => command.only_looks(),
            Self::Together(commands) => commands.iter().all(Command::only_looks),
        }
    }
}

/// Retry deadline of a request that Cluster nodes redirect or cannot execute at the moment.
const REFERRED_MAX: Duration = Duration::from_secs(2);
/// How many redirections are followed without a pause.
const HOPS_MAX: u32 = 4;
/// Maximum pause between retries.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// A request and the channel for its reply.
pub(crate) struct Work {
    pub(crate) what: What,
    /// Whether to send ASKING first, because the node does not own the slot yet.
    pub(crate) asking: bool,
    /// Whether the request needs a call of its own: a shared call was refused, perhaps because of another item.
    pub(crate) alone: bool,
    reply: oneshot::Sender<Result<Reply>>,
    referred: Option<Referred>,
    _under_way: UnderWay,
}

/// The retries of a request that a node did not execute.
struct Referred {
    until: Instant,
    hops: u32,
    backoff: Backoff,
}

impl Work {
    fn referred(&mut self) -> &mut Referred {
        let new = || Referred { until: Instant::now() + REFERRED_MAX, hops: 0, backoff: Backoff::new() };
        self.referred.get_or_insert_with(new)
    }

    /// Whether to follow another redirection without a pause.
    pub(crate) fn goes_on(&mut self) -> bool {
        let referred = self.referred();
        referred.hops += 1;
        referred.hops <= HOPS_MAX
    }

    /// The pause before the next retry. `None` after the retry deadline.
    pub(crate) fn pause(&mut self) -> Option<Duration> {
        let referred = self.referred();
        referred.hops = 0;
        let pause = referred.backoff.draw().min(PAUSE_MAX);
        (Instant::now() + pause < referred.until).then_some(pause)
    }

    /// Whether the request must not share its call.
    pub(crate) fn travels_alone(&self) -> bool {
        self.asking || self.alone
    }

    /// The call, and the request's item in it.
    pub(crate) fn item(&self) -> Option<(&Call, &Item)> {
        match &self.what {
            What::Call(call) => call.item.as_ref().map(|item| (call, item)),
            _ => None,
        }
    }

    /// Whether the item has its own keys, so that requests for different keys can share a call.
    pub(crate) fn has_own_keys(&self) -> bool {
        self.item().is_some_and(|(_, item)| item.has_keys())
    }

    /// Whether the request acquires a lock for a caller that no longer waits. That caller has already sent the request
    /// that undoes it. Any other request stays valid without a caller.
    pub(crate) fn is_given_up(&self) -> bool {
        let asks = matches!(&self.what, What::Call(call) if call.is(Function::LockAcquire));
        asks && self.reply.is_closed()
    }

    /// Changes the request to one that a server whose memory is full may answer. False if there is none.
    pub(crate) fn try_when_full(&mut self) -> bool {
        let What::Call(call) = &self.what else { return false };
        let Some(call) = call.when_full() else { return false };
        (self.what, self.alone) = (What::Call(call), true);
        true
    }

    pub(crate) fn by_itself(self) -> Self {
        Self { alone: true, ..self }
    }

    pub(crate) fn answer(self, answer: Result<Reply>) {
        // The caller may have dropped its future.
        let _ = self.reply.send(answer);
    }
}

/// The error of a request after the store was closed.
pub(crate) fn closed() -> Error {
    Error::unavailable("the store is closed")
}

/// Answers requests that failed together.
pub(crate) fn fail(works: impl IntoIterator<Item = Work>, error: &Error) {
    works.into_iter().for_each(|work| work.answer(Err(error.duplicate())));
}

/// The in-flight tracker: counts requests sent, and requests without a reply.
#[derive(Default)]
pub(crate) struct InFlight {
    calls: AtomicU64,
    transactions: AtomicU64,
    statements: AtomicU64,
    under_way: AtomicUsize,
    closed: AtomicBool,
    changed: Notify,
}

/// A request without a reply.
struct UnderWay(Arc<InFlight>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        // Only the closing store waits for the last one. To wake it after each would cost a single caller a thread switch.
        if self.0.under_way.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.are_closed() {
            self.0.changed.notify_one();
        }
    }
}

impl InFlight {
    /// Registers a request. `None` if the store is closed.
    pub(crate) fn enter(self: &Arc<Self>, what: What) -> Option<(Work, oneshot::Receiver<Result<Reply>>)> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let under_way = UnderWay(Arc::clone(self));
        let (reply, answer) = oneshot::channel();
        // Counted before the check: `close` either waits for this request, or its flag is seen here.
        (!self.are_closed()).then(|| {
            let work =
                Work { what, asking: false, alone: false, reply, referred: None, _under_way: under_way };
            (work, answer)
        })
    }

    pub(crate) fn sent(&self, steps: usize, commands: usize) {
        self.transactions.fetch_add(steps as u64, Ordering::Relaxed);
        self.statements.fetch_add(commands as u64, Ordering::Relaxed);
    }

    pub(crate) fn counted(&self) -> StoreCalls {
        StoreCalls {
            calls: self.calls.load(Ordering::Relaxed),
            transactions: self.transactions.load(Ordering::Relaxed),
            statements: self.statements.load(Ordering::Relaxed),
        }
    }

    /// Whether the store is closed.
    pub(crate) fn are_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// The error for a request that was not executed.
    pub(crate) fn ended(&self) -> Error {
        match self.are_closed() {
            true => closed(),
            false => Error::unavailable("the runtime that opened the store has ended"),
        }
    }

    /// Accepts no more requests.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.changed.notify_one();
    }

    /// Waits until the store is closed, and then for pending replies, up to `max`.
    pub(crate) async fn done(&self, max: Duration) {
        while !self.are_closed() {
            self.changed.notified().await;
        }
        let answered = async {
            while self.under_way.load(Ordering::SeqCst) > 0 {
                self.changed.notified().await;
            }
        };
        let _ = tokio::time::timeout(max, answered).await;
    }
}
