//! Steps on their way: what is sent, where the answer goes, and how many are unanswered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use rushgate_core::{Error, Result, StoreCalls};
use tokio::sync::{Notify, oneshot};

use crate::command::{Call, Command};
use crate::reply::Reply;

/// What one step sends.
#[derive(Clone)]
pub(crate) enum What {
    Call(Call),
    Command(Command),
    /// Commands that nobody comes between.
    Together(Vec<Command>),
}

/// One step to be sent, and where its answer goes.
pub(crate) struct Work {
    pub(crate) what: What,
    reply: oneshot::Sender<Result<Reply>>,
    _under_way: UnderWay,
}

impl Work {
    pub(crate) fn answer(self, answer: Result<Reply>) {
        // Whoever asked may listen no more.
        let _ = self.reply.send(answer);
    }
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
        (!self.closed.load(Ordering::SeqCst)).then(|| (Work { what, reply, _under_way: under_way }, answer))
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

    /// Takes no more steps.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.changed.notify_one();
    }

    /// Waits until no more steps are taken and all have their answers.
    pub(crate) async fn done(&self) {
        while !(self.closed.load(Ordering::SeqCst) && self.under_way.load(Ordering::SeqCst) == 0) {
            self.changed.notified().await;
        }
    }
}
