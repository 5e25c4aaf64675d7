//! Random histories of locks, queues with schedules and relays, and sales with waiting rooms. They include lost
//! replies, dead clients and expiries, and are compared with the model step by step.
//!
//! The seed determines the history, so `RUSHGATE_SEED` replays a failure.

mod call;
mod plan;
mod rebuild;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rushgate_core::{Effect, Request, Store, Verbs, audit_store};

use crate::{Harness, ManualClock, MemoryStore};
use call::{Answer, send};
use plan::{Plan, Step};

/// Environment variable with the seed to replay.
pub const SEED_VARIABLE: &str = "RUSHGATE_SEED";

/// Number of steps printed when a history fails.
const TOLD: usize = 20;
/// Number of steps between two comparisons of the whole state.
const SURVEY_EVERY: usize = 25;

/// A difference between a backend and the model.
#[derive(Clone, Debug)]
pub struct Mismatch {
    seed: u64,
    step: usize,
    why: String,
    last: Vec<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, step {}: {}", self.seed, self.step, self.why)?;
        writeln!(f, "the last steps:")?;
        for step in &self.last {
            writeln!(f, "  {step}")?;
        }
        write!(f, "replay with {SEED_VARIABLE}={}", self.seed)
    }
}

/// Compares a backend with the model, with one history per seed and one more, seeded from the time of day. The
/// harness must know its clock ([`Harness::now`]). Panics at the first difference, with everything needed to replay
/// it.
pub fn check<H, F>(factory: impl Fn() -> F, seeds: Range<u64>, steps: usize)
where
    H: Harness,
    F: Future<Output = Arc<H>>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    for seed in choose(seeds) {
        let result = runtime.block_on(async { run(factory().await, seed, steps).await });
        if let Err(mismatch) = result {
            panic!("{mismatch}");
        }
    }
}

/// The seeds to run: the one from the environment, or the fixed ones and one more.
fn choose(seeds: Range<u64>) -> Vec<u64> {
    if let Ok(text) = std::env::var(SEED_VARIABLE) {
        return vec![text.parse().expect("the seed to replay is a number")];
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let random = u64::try_from(since.as_micros()).unwrap_or_default();
    announce(&seeds, random);
    seeds.chain([random]).collect()
}

#[allow(clippy::print_stdout, reason = "a test's output is where its seeds are looked for")]
fn announce(seeds: &Range<u64>, random: u64) {
    println!("histories from the seeds {seeds:?} and {random}");
}

/// Runs one history on a backend and on the model.
pub async fn run(harness: Arc<dyn Harness>, seed: u64, steps: usize) -> Result<(), Mismatch> {
    let mut history = History::new(harness, seed);
    for call in history.plan.opening() {
        history.call(&call).await?;
    }
    for step in 1..=steps {
        history.step = step;
        history.advance().await?;
        if step % SURVEY_EVERY == 0 || step == steps {
            history.survey().await?;
        }
    }
    Ok(())
}

struct History {
    harness: Arc<dyn Harness>,
    store: Arc<dyn Store>,
    clock: ManualClock,
    model: MemoryStore,
    plan: Plan,
    seed: u64,
    step: usize,
    last: VecDeque<String>,
    /// First answers of calls with an `Op`.
    answered: Vec<(String, String)>,
}

impl History {
    fn new(harness: Arc<dyn Harness>, seed: u64) -> Self {
        let clock = ManualClock::default();
        let model = MemoryStore::on(clock.clone());
        Self {
            store: harness.store(),
            model,
            plan: Plan::new(seed),
            last: VecDeque::new(),
            answered: Vec::new(),
            step: 0,
            harness,
            clock,
            seed,
        }
    }

    async fn advance(&mut self) -> Result<(), Mismatch> {
        match self.plan.next() {
            Step::Call(call) => self.call(&call).await,
            Step::Pass(by) => {
                self.tell(format!("{by:?} pass"));
                self.harness.advance(by).await;
                Ok(())
            }
            Step::Again(call) => self.again(&call).await,
            Step::Rebuild => self.plan_rebuild().await,
            Step::Death => {
                self.tell("a client dies".to_owned());
                self.plan.delete_client();
                Ok(())
            }
        }
    }

    /// Plans a rebuild of the sale from the model's state.
    async fn plan_rebuild(&mut self) -> Result<(), Mismatch> {
        let snapshot = self.model.snapshot(&plan::the_sale()).await;
        let snapshot = snapshot.map_err(|error| self.mismatch(format!("no snapshot: {error}")))?;
        self.plan.rebuild(&snapshot);
        Ok(())
    }

    fn tell(&mut self, what: String) {
        self.last.push_back(format!("{}: {what}", self.step));
        if self.last.len() > TOLD {
            self.last.pop_front();
        }
    }

    fn mismatch(&self, why: String) -> Mismatch {
        let last = self.last.iter().cloned().collect();
        Mismatch { seed: self.seed, step: self.step, why, last }
    }

    async fn call(&mut self, call: &Request) -> Result<(), Mismatch> {
        let answer = self.compare(call).await?;
        if call.effect() == Effect::Replayed {
            self.answered.push((format!("{call:?}"), answer.text.clone()));
        }
        self.plan.learn(call, answer);
        Ok(())
    }

    /// Repeats a call. With an `Op`, it must get its first answer again.
    async fn again(&mut self, call: &Request) -> Result<(), Mismatch> {
        let answer = self.compare(call).await?;
        let sent = format!("{call:?}");
        match self.answered.iter().find(|(before, _)| *before == sent) {
            Some((_, first)) if *first != answer.text => Err(self.mismatch(format!(
                "the repeated call got a different answer\n  call:  {sent}\n  first: {first}\n  again: {}",
                answer.text
            ))),
            _ => Ok(()),
        }
    }

    /// Sends a call to the model and the backend at the same time.
    async fn compare(&mut self, call: &Request) -> Result<Answer, Mismatch> {
        let now = self.harness.now().expect("a harness for histories knows its clock");
        self.clock.set(now);
        let (expected, actual) = (send(&self.model, call).await, send(&*self.store, call).await);
        self.tell(format!("{call:?} -> {}", expected.text));
        if expected.text != actual.text {
            return Err(self.mismatch(format!(
                "the answers differ\n  call:    {call:?}\n  model:   {}\n  backend: {}",
                expected.text, actual.text
            )));
        }
        Ok(expected)
    }

    /// Compares the whole state with the model's, and audits it.
    async fn survey(&mut self) -> Result<(), Mismatch> {
        let told = self.last.clone();
        for call in Plan::survey() {
            if let Err(mismatch) = self.compare(&call).await {
                return Err(Mismatch { last: told.into(), ..mismatch });
            }
        }
        self.last = told;
        let snapshot = self.store.snapshot(&plan::the_sale()).await;
        let snapshot = snapshot.map_err(|error| self.mismatch(format!("no snapshot: {error}")))?;
        let audit = audit_store(&snapshot);
        let failed: Vec<_> = audit.checks.iter().filter(|check| !check.ok).collect();
        if audit.ok { Ok(()) } else { Err(self.mismatch(format!("the audit fails: {failed:#?}"))) }
    }
}
