//! The simulated buyers, a few hundred of them concurrently.

mod receipts;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use rushgate::sale::{Decision, Hold, ReservationId, SaleState, SaleStatus};
use rushgate::{BuyerId, CancellationToken, IdempotencyKey, Line, Reserved, Sale, Timestamp};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

use super::patiently;
use super::script::{self, Click, Script, Then};
use super::stage::offered;
use super::tally::{Desk, Tally, Told, histogram};
use super::tickets::{Place, Stands, Ticket};
use crate::output::{Output, counted, moment};

/// Number of buyers that a thread takes from the sequence at a time.
const STRETCH: u64 = 64;
/// Pause before a buyer retries after "all on hold".
const COME_BACK: Duration = Duration::from_millis(25);
/// Number of concurrent retries.
pub(super) const LATECOMERS: usize = 64;

/// Plan of a simulation.
pub(super) struct Plan {
    pub(super) sale: Sale,
    pub(super) line: Line,
    /// Generation of the sale before the first buyer.
    pub(super) generation: u32,
    pub(super) buyers: u64,
    pub(super) members: usize,
    pub(super) seed: u64,
    /// Maximum number of buyers who retry later.
    pub(super) patient_max: usize,
    pub(super) stop: CancellationToken,
    pub(super) output: Output,
}

/// The first wave: all buyers, without retries after "all on hold".
pub(super) struct Wave {
    /// Time until the last buyer had an answer.
    pub(super) took: Duration,
    pub(super) attempts: u64,
    /// Attempts answered from the admission cache.
    pub(super) from_memory: u64,
}

/// When the sale was last seen running, and in which generation.
struct Going {
    generation: u32,
    seen: Instant,
    /// Time from which it accepts buyers without a receipt.
    lets_in: Instant,
}

impl Going {
    fn on(generation: u32) -> Self {
        let now = Instant::now();
        Self { generation, seen: now, lets_in: now }
    }
}

/// State shared by the simulated connections.
pub(super) struct Crowd {
    pub(super) plan: Plan,
    /// Part of the buyer IDs that distinguishes simulations.
    tag: String,
    keys: [IdempotencyKey; 2],
    next: AtomicU64,
    /// Copy of `stop` as a flag, because checking a token takes a lock, and it is checked millions of times.
    stopped: Arc<AtomicBool>,
    pub(super) tally: Arc<Tally>,
    patient: mpsc::Sender<u64>,
    comers: Mutex<mpsc::Receiver<u64>>,
    going: AsyncMutex<Going>,
}

/// State of one simulated connection.
struct Member<'a> {
    crowd: &'a Arc<Crowd>,
    number: usize,
    desk: &'a Desk,
    latency: Histogram<u64>,
    first_error: Option<String>,
    payments: JoinSet<()>,
}

async fn tell(stop: CancellationToken, stopped: Arc<AtomicBool>) {
    stop.cancelled().await;
    stopped.store(true, Ordering::Relaxed);
}

impl Crowd {
    pub(super) fn new(plan: Plan, tally: Arc<Tally>) -> Result<Arc<Self>> {
        let (patient, comers) = mpsc::channel(plan.patient_max);
        let stopped = Arc::new(AtomicBool::new(false));
        tokio::spawn(tell(plan.stop.clone(), Arc::clone(&stopped)));
        Ok(Arc::new(Self {
            tag: script::tag(plan.seed),
            keys: [IdempotencyKey::new("click-1")?, IdempotencyKey::new("click-2")?],
            next: AtomicU64::new(0),
            stopped,
            tally,
            patient,
            comers: Mutex::new(comers),
            going: AsyncMutex::new(Going::on(plan.generation)),
            plan,
        }))
    }

    /// Sends every buyer to the sale, then those who retry, until it is over. Returns figures of the first wave.
    pub(super) async fn run(self: &Arc<Self>) -> Result<Wave> {
        let (clicking, mut all_clicked) = mpsc::channel::<Infallible>(1);
        let start = Instant::now();
        let mut members = JoinSet::new();
        for number in 0..self.plan.members {
            let (crowd, clicking) = (Arc::clone(self), clicking.clone());
            members.spawn(async move { crowd.first_wave(number, clicking).await });
        }
        drop(clicking);
        // Some buyers are still paying when the last one has clicked; the first wave does not include that.
        let _ = all_clicked.recv().await;
        let wave = Wave {
            took: start.elapsed(),
            attempts: self.tally.attempts(),
            from_memory: self.plan.sale.gate_stats().from_memory,
        };
        self.latecomers().await?;
        while let Some(member) = members.join_next().await {
            member?;
        }
        Ok(wave)
    }

    fn member(self: &Arc<Self>, number: usize) -> Member<'_> {
        Member {
            crowd: self,
            number,
            desk: self.tally.desk(number),
            latency: histogram(),
            first_error: None,
            payments: JoinSet::new(),
        }
    }

    pub(super) fn buyer(&self, number: u64) -> rushgate::Result<BuyerId> {
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
            // Let the store's answers and the order workers run.
            yield_now().await;
        }
        drop(clicking);
        member.go().await;
    }

    /// Buyers who got "retry later" try again while units may be left for them.
    async fn latecomers(self: &Arc<Self>) -> Result<()> {
        let line = Arc::new(Mutex::new(self.those_who_wait()));
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
        // Wait for abandoned holds to expire.
        while !self.plan.stop.is_cancelled() && self.undecided(&mut wait).await? {
            sleep(COME_BACK).await;
        }
        Ok(())
    }

    fn those_who_wait(&self) -> VecDeque<u64> {
        let mut comers = self.comers.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| comers.try_recv().ok()).collect()
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
            if member.come_back(buyer).await.comes_back() {
                locked(line).push_back(buyer);
                sleep(COME_BACK).await;
            }
        }
        member.go().await;
    }

    async fn something_may_be_left(self: &Arc<Self>, wait: &mut Wait) -> Result<bool> {
        let state = self.look().await?;
        let stock = offered(&state)?;
        wait.tell(&state, stock.held);
        Ok((stock.free > 0 || stock.held > 0) && state.status == SaleStatus::Open)
    }

    /// State of the sale, once it is not halted.
    async fn look(self: &Arc<Self>) -> Result<SaleState> {
        if !self.is_made_good().await? {
            self.wait_out().await;
        }
        Ok(patiently(|| self.plan.sale.state()).await?)
    }

    /// True while units of this simulation's SKU are on hold. A joined sale may keep other SKUs on hold for
    /// longer.
    async fn undecided(self: &Arc<Self>, wait: &mut Wait) -> Result<bool> {
        let state = self.look().await?;
        let held = offered(&state)?.held;
        wait.tell(&state, held);
        Ok(held > 0)
    }
}

impl Crowd {
    /// A buyer pays, cancels or abandons the hold. While the sale is halted, nothing is decided, and a
    /// missing hold may have been lost.
    async fn settle(self: &Arc<Self>, at: Place, id: ReservationId, then: Then) -> Stands {
        let sale = &self.plan.sale;
        loop {
            let decision = match then {
                Then::WalkAway => return Stands::Left,
                Then::Pay | Then::PayAtTheDeadline => patiently(|| sale.confirm(id)).await,
                Then::Cancel => patiently(|| sale.cancel(id)).await,
            };
            match decision {
                Ok(Decision::Done(_) | Decision::Pending(_)) if then == Then::Cancel => {
                    return Stands::Cancelled;
                }
                Ok(Decision::Done(_) | Decision::Pending(_)) => return Stands::Paid,
                Ok(Decision::Refused(_)) => return Stands::Late,
                Ok(Decision::Unknown) => {
                    if let Some(stands) = self.look_for(at).await {
                        return stands;
                    }
                }
                Ok(Decision::Halted) if self.wait_out().await => {}
                // No answer was received: only the store knows the outcome.
                Ok(_) | Err(_) => return Stands::Left,
            }
        }
    }
}

/// Prints a note, once, if a wait takes long.
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
            "waiting until {end} at the latest for {units} on hold to be paid for or to expire; press Ctrl-C to stop \
             waiting"
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
        if told.comes_back() {
            // Only a limited number of buyers retry; the others leave.
            let _ = self.crowd.patient.try_send(number);
        }
    }

    /// A buyer retries with the same key.
    async fn come_back(&mut self, number: u64) -> Told {
        let script = Script::of(self.crowd.plan.seed, number);
        match self.crowd.buyer(number) {
            Ok(buyer) => self.click(&buyer, 0, number, script).await,
            Err(_) => Told::Failed,
        }
    }

    /// Sends a request. While the sale is halted, waits and retries.
    async fn ask(&self, buyer: &BuyerId, key: usize) -> (rushgate::Result<Reserved>, Duration) {
        loop {
            let start = Instant::now();
            let lines = std::slice::from_ref(&self.crowd.plan.line);
            let answer = self.crowd.plan.sale.reserve(buyer, lines, &self.crowd.keys[key]).await;
            let took = start.elapsed();
            if !matches!(answer, Ok(Reserved::Halted { .. })) || !self.crowd.wait_out().await {
                return (answer, took);
            }
            self.desk.count(Told::Halted);
        }
    }

    async fn click(&mut self, buyer: &BuyerId, key: usize, number: u64, script: Script) -> Told {
        let (answer, took) = self.ask(buyer, key).await;
        self.take(answer, took, number, script)
    }

    /// Two concurrent requests with one key: one unit, and both get it as the answer.
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

    /// Starts the buyer's payment in the background, while the connection serves other buyers.
    fn leave_with(&mut self, hold: Hold, number: u64, then: Then) {
        let crowd = Arc::clone(self.crowd);
        let at = Place { desk: self.number, number: self.desk.tickets.hand_out(Ticket::of(&hold, number)) };
        self.payments.spawn(async move {
            if then == Then::PayAtTheDeadline {
                let (sale, seed) = (&crowd.plan.sale, crowd.plan.seed);
                // A buyer who must stop pays at once.
                let deadline =
                    async { sleep(script::near(time_left(sale, &hold).await, seed, number)).await };
                let _ = crowd.plan.stop.run_until_cancelled(deadline).await;
            }
            crowd.tally.mark(at, crowd.settle(at, hold.id, then).await);
        });
    }

    async fn go(mut self) {
        while let Some(payment) = self.payments.join_next().await {
            if let Err(error) = payment {
                self.first_error.get_or_insert_with(|| error.to_string());
            }
        }
        self.crowd.tally.hand_in(&self.latency, self.first_error);
    }
}

fn locked(line: &Mutex<VecDeque<u64>>) -> MutexGuard<'_, VecDeque<u64>> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_empty(line: &Mutex<VecDeque<u64>>) -> bool {
    locked(line).is_empty()
}

async fn time_left(sale: &Sale, hold: &Hold) -> Duration {
    let now = sale.state().await.map_or(Timestamp::default(), |state| state.now);
    hold.deadline.since(now).min(Duration::from_secs(60))
}
