//! Steps on their way: what is sent, where the answer goes, and how many are unanswered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rushgate_core::{Error, Result, StoreCalls};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::command::{Call, Command, Item};
use crate::reply::Reply;
use crate::scripts::Script;

/// What one step sends.
#[derive(Clone)]
pub(crate) enum What {
    Call(Call),
    Command(Command),
    /// Commands that nobody comes between.
    Together(Vec<Command>),
}

impl What {
    /// A key that it is about: all of them are in one slot.
    pub(crate) fn key(&self) -> &[u8] {
        match self {
            Self::Call(call) => call.first_key(),
            Self::Command(command) => command.first_key(),
            Self::Together(commands) => commands.first().map_or(b"", Command::first_key),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Call(call) => Kind::Script(call.script()),
            Self::Command(command) => Kind::Commands { only_look: command.only_looks() },
            Self::Together(commands) => {
                Kind::Commands { only_look: commands.iter().all(Command::only_looks) }
            }
        }
    }
}

/// What is known of a step once it is on its way.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Script(Script),
    Commands { only_look: bool },
}

impl Kind {
    /// An error of such a step: what only looks has changed nothing, whether or not its answer came.
    pub(crate) fn blame(self, error: Error) -> Error {
        let only_looks = match self {
            Self::Script(script) => script.only_looks(),
            Self::Commands { only_look } => only_look,
        };
        if only_looks { error.of_a_look() } else { error }
    }
}

/// How long a step is sent from node to node, and made again because nobody can carry it out now, before whoever
/// asked is told so.
const REFERRED_MAX: Duration = Duration::from_secs(2);
/// How often it is sent elsewhere at once.
const HOPS_MAX: u32 = 4;
/// The longest pause before it is tried again.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// One step to be sent, and where its answer goes.
pub(crate) struct Work {
    pub(crate) what: What,
    /// Whether the node must be told that the step is sent to it by way of exception.
    pub(crate) asking: bool,
    /// Whether it travels in a call of its own: one that it shared was refused, perhaps because of another.
    pub(crate) alone: bool,
    reply: oneshot::Sender<Result<Reply>>,
    referred: Option<Referred>,
    _under_way: UnderWay,
}

/// What has become of a step that a node did not carry out.
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

    /// Whether it may be sent elsewhere once more, at once.
    pub(crate) fn goes_on(&mut self) -> bool {
        let referred = self.referred();
        referred.hops += 1;
        referred.hops <= HOPS_MAX
    }

    /// How long to wait before it is tried again; `None` if that has been done for long enough.
    pub(crate) fn pause(&mut self) -> Option<Duration> {
        let referred = self.referred();
        referred.hops = 0;
        let pause = referred.backoff.draw().min(PAUSE_MAX);
        (Instant::now() + pause < referred.until).then_some(pause)
    }

    /// Whether no other may share its call.
    pub(crate) fn travels_alone(&self) -> bool {
        self.asking || self.alone
    }

    /// The script that it calls.
    pub(crate) fn script(&self) -> Option<Script> {
        match &self.what {
            What::Call(call) => Some(call.script()),
            What::Command(_) | What::Together(_) => None,
        }
    }

    /// Its call, and what it is one of many in that call.
    pub(crate) fn item(&self) -> Option<(&Call, &Item)> {
        match &self.what {
            What::Call(call) => call.item.as_ref().map(|item| (call, item)),
            _ => None,
        }
    }

    /// Whether its keys are its own, and not those of a call that others share.
    pub(crate) fn has_own_keys(&self) -> bool {
        self.item().is_some_and(|(_, item)| item.has_keys())
    }

    /// Whether it asks for a lock that nobody waits for any more. Whoever left has sent what undoes the question, and
    /// that was carried out already; any other step stands, whether or not its answer is awaited.
    pub(crate) fn is_given_up(&self) -> bool {
        let asks = matches!(&self.what, What::Call(call) if call.is(Script::LockAcquire));
        asks && self.reply.is_closed()
    }

    pub(crate) fn by_itself(self) -> Self {
        Self { alone: true, ..self }
    }

    pub(crate) fn answer(self, answer: Result<Reply>) {
        // Whoever asked may listen no more.
        let _ = self.reply.send(answer);
    }
}

/// Of a step that is not taken any more.
pub(crate) fn closed() -> Error {
    Error::unavailable("the store is closed")
}

/// Answers steps that failed together.
pub(crate) fn fail(works: impl IntoIterator<Item = Work>, error: &Error) {
    works.into_iter().for_each(|work| work.answer(Err(error.duplicate())));
}

/// What was sent, and what has no answer yet.
#[derive(Default)]
pub(crate) struct Books {
    calls: AtomicU64,
    transactions: AtomicU64,
    statements: AtomicU64,
    under_way: AtomicUsize,
    closed: AtomicBool,
    changed: Notify,
}

/// One step without an answer.
struct UnderWay(Arc<Books>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.0.under_way.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.changed.notify_one();
        }
    }
}

impl Books {
    /// Enters a step; `None` if no more are taken.
    pub(crate) fn enter(self: &Arc<Self>, what: What) -> Option<(Work, oneshot::Receiver<Result<Reply>>)> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let under_way = UnderWay(Arc::clone(self));
        let (reply, answer) = oneshot::channel();
        // It was counted first, so whoever closes either waits for it or is seen here.
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

    /// Whether no more steps are taken.
    pub(crate) fn are_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Why a step was left undone.
    pub(crate) fn ended(&self) -> Error {
        match self.are_closed() {
            true => closed(),
            false => Error::unavailable("the runtime that opened the store has ended"),
        }
    }

    /// Takes no more steps.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.changed.notify_one();
    }

    /// Waits until no more steps are taken, and then until all have their answers, for that time at most.
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
