//! A store behind an unreliable network, driven by a seeded plan. For tests of code that uses a store.

use std::collections::BTreeMap;
use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rushgate_core::{
    Answer, Effect, Error, Notification, Reply, Request, Store, StoreCalls, StoreInfo, Topic, Verb, Warning,
};

/// Failure rates of the network, per thousand calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// The call never arrives.
    pub before: u32,
    /// The call is executed and its reply is lost. Awaited notifications are lost too.
    pub reply: u32,
    /// The reply to the first of two equal calls is lost, so the client repeats the call. Applies only to calls that
    /// get the same answer twice.
    pub twice: u32,
}

/// Before or after the store's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The call has not been sent.
    Before,
    /// The store has executed the call, and the caller has no answer yet.
    After,
}

/// An action at a given point of a given call.
#[derive(Clone, Copy, Debug)]
pub struct Trap {
    /// The [name](Verb::NAME) of the verb.
    pub verb: &'static str,
    /// Before or after the store's step.
    pub moment: Moment,
    /// The number of the call of that verb, from 1.
    pub nth: u64,
    /// The action, such as killing the process.
    pub spring: fn(),
}

/// A store whose calls fail according to a plan. The errors are those of a backend: unavailable, with a correct
/// `may_have_happened`.
pub struct Faulty<S> {
    store: Arc<S>,
    plan: FaultPlan,
    rng: Mutex<StdRng>,
    faults: AtomicU64,
    away: AtomicBool,
    trap: OnceLock<Trap>,
    /// Number of calls by verb.
    calls: Mutex<BTreeMap<&'static str, u64>>,
}

enum Fault {
    None,
    Before,
    Reply,
    Twice,
}

impl<S: Store + 'static> Faulty<S> {
    /// Puts an unreliable network in front of a store. The same seed fails the same calls, if they arrive in the same
    /// order.
    pub fn new(store: S, plan: FaultPlan, seed: u64) -> Self {
        let rng = Mutex::new(StdRng::seed_from_u64(seed));
        Self {
            store: Arc::new(store),
            plan,
            rng,
            faults: AtomicU64::new(0),
            away: AtomicBool::new(false),
            trap: OnceLock::new(),
            calls: Mutex::default(),
        }
    }

    /// Sets a trap.
    #[must_use]
    pub fn trapped(self, trap: Trap) -> Self {
        self.trap.get_or_init(|| trap);
        self
    }

    /// Number of calls of the verb that were started, whatever their outcome. The fate of these calls is decided.
    pub fn calls_of<V: Verb>(&self) -> u64 {
        locked(&self.calls).get(V::NAME).copied().unwrap_or_default()
    }

    /// The store behind the network.
    pub fn behind(&self) -> &S {
        &self.store
    }

    /// Number of calls that failed so far.
    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::SeqCst)
    }

    /// Sets whether the store is unreachable. While it is, no call arrives.
    pub fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    fn fault(&self, may_repeat: bool) -> Fault {
        if self.away.load(Ordering::SeqCst) {
            return Fault::Before;
        }
        let FaultPlan { before, reply, twice } = self.plan;
        let fault = match locked(&self.rng).random_range(0..1_000) {
            n if n < before => Fault::Before,
            n if n < before + reply => Fault::Reply,
            n if n < before + reply + twice && may_repeat => Fault::Twice,
            _ => return Fault::None,
        };
        self.faults.fetch_add(1, Ordering::SeqCst);
        fault
    }

    fn send(&self, request: Request, fault: Fault) -> Answer<'static, Reply> {
        match fault {
            Fault::None => self.store.step(request),
            Fault::Before => Box::pin(ready(Err(Error::unavailable("the call was lost on the way")))),
            Fault::Reply => {
                let sent = self.store.step(request);
                Box::pin(async move {
                    sent.await?;
                    Err(Error::unavailable("the reply was lost on the way").maybe_happened())
                })
            }
            Fault::Twice => {
                let (store, first) = (Arc::clone(&self.store), self.store.step(request.clone()));
                Box::pin(async move {
                    first.await?;
                    store.step(request).await
                })
            }
        }
    }

    /// The trap for this call, if there is one.
    fn trap(&self, verb: &'static str) -> Option<Trap> {
        let mut calls = locked(&self.calls);
        let nth = calls.entry(verb).or_default();
        *nth += 1;
        self.trap.get().copied().filter(|trap| (trap.verb, trap.nth) == (verb, *nth))
    }
}

/// A panic leaves the values consistent, so a poisoned mutex is still usable.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Store + 'static> Store for Faulty<S> {
    fn step(&self, request: Request) -> Answer<'static, Reply> {
        // Before the call is counted: who has seen the count changes only what happens to later calls.
        let fault = self.fault(request.effect() != Effect::Write);
        let Some(trap) = self.trap(request.name()) else { return self.send(request, fault) };
        if trap.moment == Moment::Before {
            (trap.spring)();
        }
        let answer = self.send(request, fault);
        Box::pin(async move {
            let answer = answer.await?;
            if trap.moment == Moment::After {
                (trap.spring)();
            }
            Ok(answer)
        })
    }

    /// A notification is a hint: a bad network can only lose it.
    fn listen(&self, topic: Topic) -> Answer<'static, Option<Notification>> {
        let heard = self.store.listen(topic);
        match self.fault(false) {
            Fault::None => heard,
            _ => Box::pin(pending()),
        }
    }

    fn info(&self) -> StoreInfo {
        self.store.info()
    }

    fn warnings(&self) -> Vec<Warning> {
        self.store.warnings()
    }

    fn incarnation(&self) -> String {
        self.store.incarnation()
    }

    fn calls(&self) -> StoreCalls {
        self.store.calls()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.store.close()
    }
}
