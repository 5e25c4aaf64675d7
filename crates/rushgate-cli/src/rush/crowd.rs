//! The crowd: so many buyers, a few hundred of them at a time.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use rushgate::{
    BuyerId, CancellationToken, Decision, Hold, IdempotencyKey, Line, Reserved, Sale, SaleState, SaleStatus,
    Timestamp,
};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

use super::patiently;
use super::script::{self, Click, Script, Then};
use super::stage::offered;
use super::tally::{Desk, Promises, Tally, Told, histogram};
use crate::output::{Output, counted, moment};

/// Buyers that a member takes from the line at a time.
const STRETCH: u64 = 64;
/// How often those come back who were told that all units are in other carts.
const COME_BACK: Duration = Duration::from_millis(25);
/// How many of them are served at the same time.
const LATECOMERS: usize = 64;

/// What the crowd is to do.
pub(super) struct Plan {
    pub(super) sale: Sale,
    pub(super) line: Line,
    pub(super) buyers: u64,
    pub(super) members: usize,
    pub(super) seed: u64,
    /// Who was told "come back later" and does: at most so many.
    pub(super) patient_max: usize,
    pub(super) stop: CancellationToken,
    pub(super) output: Output,
}

/// The first wave: everybody but those who came back later.
pub(super) struct Wave {
    /// Until the last of them had an answer.
    pub(super) took: Duration,
    pub(super) attempts: u64,
    /// Attempts that were answered without the store.
    pub(super) from_memory: u64,
}

/// What the members share.
struct Crowd {
    plan: Plan,
    /// The part of a buyer's id that tells crowds apart.
    tag: String,
    keys: [IdempotencyKey; 2],
    next: AtomicU64,
    /// The same as `stop`, for those who ask millions of times: a token is asked under a lock.
    stopped: Arc<AtomicBool>,
    tally: Arc<Tally>,
    patient: mpsc::Sender<u64>,
}

/// What a member keeps for itself until it goes.
struct Member<'a> {
    crowd: &'a Arc<Crowd>,
    desk: &'a Desk,
    latency: Histogram<u64>,
    promises: Promises,
    first_error: Option<String>,
    payments: JoinSet<Payment>,
}

/// How a buyer who got units left.
#[derive(Clone, Copy)]
enum Payment {
    Confirmed(rushgate::ReservationId),
    Late,
    Cancelled,
    Left,
}

/// Sends every buyer to the sale, and those who were told to come back, until it is over. Tells of the first wave.
pub(super) async fn run(plan: Plan, tally: Arc<Tally>) -> Result<Wave> {
    let (patient, comers) = mpsc::channel(plan.patient_max);
    let tag = script::tag(plan.seed);
    let keys = [IdempotencyKey::new("click-1")?, IdempotencyKey::new("click-2")?];
    let stopped = Arc::new(AtomicBool::new(false));
    tokio::spawn(tell(plan.stop.clone(), Arc::clone(&stopped)));
    let crowd = Arc::new(Crowd { plan, tag, keys, next: AtomicU64::new(0), stopped, tally, patient });
    let (clicking, mut all_clicked) = mpsc::channel::<Infallible>(1);
    let start = Instant::now();
    let mut members = JoinSet::new();
    for number in 0..crowd.plan.members {
        let (crowd, clicking) = (Arc::clone(&crowd), clicking.clone());
        members.spawn(async move { crowd.first_wave(number, clicking).await });
    }
    drop(clicking);
    // Some are at the till still when the last of them has clicked; others need not wait for that.
    let _ = all_clicked.recv().await;
    let wave = Wave {
        took: start.elapsed(),
        attempts: crowd.tally.attempts(),
        from_memory: crowd.plan.sale.gate_stats().from_memory,
    };
    crowd.latecomers(comers).await?;
    while let Some(member) = members.join_next().await {
        member?;
    }
    Ok(wave)
}

async fn tell(stop: CancellationToken, stopped: Arc<AtomicBool>) {
    stop.cancelled().await;
    stopped.store(true, Ordering::Relaxed);
}

impl Crowd {
    fn member(self: &Arc<Self>, number: usize) -> Member<'_> {
        Member {
            crowd: self,
            desk: self.tally.desk(number),
            latency: histogram(),
            promises: Promises::default(),
            first_error: None,
            payments: JoinSet::new(),
        }
    }

    fn buyer(&self, number: u64) -> rushgate::Result<BuyerId> {
        BuyerId::new(format!("buyer-{}-{number}", self.tag))
    }

    async fn first_wave(self: &Arc<Self>, number: usize, clicking: mpsc::Sender<Infallible>) {
        let mut member = self.member(number);
        while !self.plan.stop.is_cancelled() {
            let first = self.next.fetch_add(STRETCH, Ordering::Relaxed);
            if first >= self.plan.buyers {
                break;
            }
            for buyer in first..(first + STRETCH).min(self.plan.buyers) {
                if self.stopped.load(Ordering::Relaxed) {
                    break;
                }
                member.serve(buyer).await;
            }
            // The store's answers and the order workers want their turn.
            yield_now().await;
        }
        drop(clicking);
        member.go().await;
    }

    /// Those who were told "come back later" come back, as long as something may be left for them.
    async fn latecomers(self: &Arc<Self>, mut comers: mpsc::Receiver<u64>) -> Result<()> {
        let mut waiting = VecDeque::new();
        while let Ok(buyer) = comers.try_recv() {
            waiting.push_back(buyer);
        }
        let line = Arc::new(Mutex::new(waiting));
        let over = self.plan.stop.child_token();
        let mut members = JoinSet::new();
        for number in 0..self.plan.members.min(LATECOMERS) {
            let (crowd, line, over) = (Arc::clone(self), Arc::clone(&line), over.clone());
            members.spawn(async move { crowd.second_wave(number, &line, &over).await });
        }
        let mut wait = Wait::new(self.plan.output);
        while !over.is_cancelled() && self.something_may_be_left(&mut wait).await? && !is_empty(&line) {
            sleep(COME_BACK).await;
        }
        over.cancel();
        while let Some(member) = members.join_next().await {
            member?;
        }
        // Carts that nobody came back for run out.
        while !self.plan.stop.is_cancelled() && self.undecided(&mut wait).await? {
            sleep(COME_BACK).await;
        }
        Ok(())
    }

    async fn second_wave(
        self: &Arc<Self>,
        number: usize,
        line: &Mutex<VecDeque<u64>>,
        over: &CancellationToken,
    ) {
        let mut member = self.member(number);
        while !over.is_cancelled() {
            let Some(buyer) = locked(line).pop_front() else { break };
            if member.come_back(buyer).await == Told::AllHeld {
                locked(line).push_back(buyer);
                sleep(COME_BACK).await;
            }
        }
        member.go().await;
    }

    async fn something_may_be_left(&self, wait: &mut Wait) -> Result<bool> {
        let state = patiently(|| self.plan.sale.state()).await?;
        let stock = offered(&state)?;
        wait.tell(&state, stock.held);
        Ok((stock.free > 0 || stock.held > 0) && state.status == SaleStatus::Open)
    }

    /// Other goods of a joined sale may be in carts for as long as they like.
    async fn undecided(&self, wait: &mut Wait) -> Result<bool> {
        let state = patiently(|| self.plan.sale.state()).await?;
        let held = offered(&state)?.held;
        wait.tell(&state, held);
        Ok(held > 0)
    }
}

/// Says once what is waited for, if it takes so long that somebody wonders.
struct Wait {
    output: Output,
    since: Instant,
    told: bool,
}

impl Wait {
    const WONDER_AFTER: Duration = Duration::from_secs(2);

    fn new(output: Output) -> Self {
        Self { output, since: Instant::now(), told: false }
    }

    fn tell(&mut self, state: &SaleState, held: u32) {
        if self.told || held == 0 || self.since.elapsed() < Self::WONDER_AFTER {
            return;
        }
        self.told = true;
        let units = counted(held.into(), "unit");
        let end = moment(state.now + state.spec.hold.get());
        self.output.over_progress(format_args!(
            "waiting for {units} in carts to be paid for or to run out, until {end} at the latest; \
             Ctrl-C waits no longer"
        ));
    }
}

impl Member<'_> {
    async fn serve(&mut self, number: u64) {
        let script = Script::of(self.crowd.plan.seed, number);
        let Ok(buyer) = self.crowd.buyer(number) else { return };
        let told = match script.click {
            Click::Once => self.click(&buyer, 0, number, script).await,
            Click::Repeatedly(n) => {
                let first = self.click(&buyer, 0, number, script).await;
                for _ in 1..n {
                    self.click(&buyer, 0, number, script).await;
                }
                first
            }
            Click::Doubled => self.double_click(&buyer, number, script).await,
            Click::SecondKey => {
                let first = self.click(&buyer, 0, number, script).await;
                self.click(&buyer, 1, number, script).await;
                first
            }
        };
        if told == Told::AllHeld {
            // Only so many have the patience; the others are gone.
            let _ = self.crowd.patient.try_send(number);
        }
    }

    /// A buyer asks again, with the same key.
    async fn come_back(&mut self, number: u64) -> Told {
        let script = Script::of(self.crowd.plan.seed, number);
        match self.crowd.buyer(number) {
            Ok(buyer) => self.click(&buyer, 0, number, script).await,
            Err(_) => Told::Failed,
        }
    }

    async fn ask(&self, buyer: &BuyerId, key: usize) -> (rushgate::Result<Reserved>, Duration) {
        let start = Instant::now();
        let lines = std::slice::from_ref(&self.crowd.plan.line);
        let answer = self.crowd.plan.sale.reserve(buyer, lines, &self.crowd.keys[key]).await;
        (answer, start.elapsed())
    }

    async fn click(&mut self, buyer: &BuyerId, key: usize, number: u64, script: Script) -> Told {
        let (answer, took) = self.ask(buyer, key).await;
        self.take(answer, took, number, script)
    }

    /// Two requests under way at once with one key: one unit, and both are told of it.
    async fn double_click(&mut self, buyer: &BuyerId, number: u64, script: Script) -> Told {
        let (one, two) = tokio::join!(self.ask(buyer, 0), self.ask(buyer, 0));
        let first = self.take(one.0, one.1, number, script);
        let second = self.take(two.0, two.1, number, script);
        if second == Told::Reserved { second } else { first }
    }

    fn take(
        &mut self,
        answer: rushgate::Result<Reserved>,
        took: Duration,
        number: u64,
        script: Script,
    ) -> Told {
        self.latency.saturating_record(took.as_nanos() as u64);
        let told = match answer {
            Ok(Reserved::Reserved(hold)) => {
                self.promises.reserved.push(hold.id);
                self.leave_with(hold, number, script.then);
                Told::Reserved
            }
            Ok(answer) => Told::from(&answer),
            Err(error) => {
                self.first_error.get_or_insert_with(|| error.to_string());
                Told::Failed
            }
        };
        self.desk.count(told);
        told
    }

    /// The buyer goes to the till, while the member serves others.
    fn leave_with(&mut self, hold: Hold, number: u64, then: Then) {
        let (sale, seed) = (self.crowd.plan.sale.clone(), self.crowd.plan.seed);
        let stop = self.crowd.plan.stop.clone();
        self.payments.spawn(async move {
            if then == Then::PayAtTheDeadline {
                // Whoever is asked to leave pays at once.
                let deadline =
                    async { sleep(script::near(time_left(&sale, &hold).await, seed, number)).await };
                let _ = stop.run_until_cancelled(deadline).await;
            }
            settle(&sale, hold, then).await
        });
    }

    async fn go(mut self) {
        while let Some(payment) = self.payments.join_next().await {
            match payment {
                Ok(Payment::Confirmed(id)) => self.promises.confirmed.push(id),
                Ok(Payment::Late) => self.promises.late += 1,
                Ok(Payment::Cancelled) => self.promises.cancelled += 1,
                Ok(Payment::Left) => {}
                Err(error) => drop(self.first_error.get_or_insert_with(|| error.to_string())),
            }
        }
        self.crowd.tally.hand_in(&self.latency, self.promises, self.first_error);
    }
}

fn locked(line: &Mutex<VecDeque<u64>>) -> MutexGuard<'_, VecDeque<u64>> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_empty(line: &Mutex<VecDeque<u64>>) -> bool {
    locked(line).is_empty()
}

async fn settle(sale: &Sale, hold: Hold, then: Then) -> Payment {
    let decision = match then {
        Then::WalkAway => return Payment::Left,
        Then::Pay | Then::PayAtTheDeadline => sale.confirm(hold.id).await,
        Then::Cancel => sale.cancel(hold.id).await,
    };
    match (decision, then) {
        (Ok(Decision::Done(hold) | Decision::Pending(hold)), Then::Cancel) => {
            drop(hold);
            Payment::Cancelled
        }
        (Ok(Decision::Done(hold) | Decision::Pending(hold)), _) => Payment::Confirmed(hold.id),
        (Ok(Decision::Refused(_) | Decision::Unknown), _) => Payment::Late,
        // Nobody was told anything: the store's books say what became of it.
        (Ok(Decision::Paused) | Err(_), _) => Payment::Left,
    }
}

async fn time_left(sale: &Sale, hold: &Hold) -> Duration {
    let now = sale.state().await.map_or(Timestamp::default(), |state| state.now);
    hold.deadline.since(now).min(Duration::from_secs(60))
}
