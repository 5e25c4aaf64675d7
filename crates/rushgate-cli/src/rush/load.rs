//! The simulated buyers, a few hundred of them concurrently.

mod receipts;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use rushgate::sale::{Hold, ReservationId, SaleState, SaleStatus};
use rushgate::{BuyerId, CancellationToken, IdempotencyKey, Line, Sale, Timestamp};
use tokio::sync::{Mutex as AsyncMutex, mpsc};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, sleep_until};

use super::connection::{Answer, Choice, Connection, Decided};
use super::retry::with_retries;
use super::script::{self, Click, Script, Then};
use super::stage::offered;
use super::tally::{Tally, ThreadCounters, Told, histogram};
use super::tickets::{Place, Stands, Ticket};
use crate::output::{Output, counted, moment};

/// Number of concurrent retries.
const LATECOMERS: usize = 64;

/// Plan of a simulation.
pub(super) struct Plan<C> {
    pub(super) connection: C,
    /// The sale, for what buyers do not do themselves.
    pub(super) sale: Sale,
    pub(super) line: Line,
    /// Generation of the sale before the first buyer.
    pub(super) generation: u32,
    pub(super) buyers: u64,
    pub(super) members: usize,
    pub(super) seed: u64,
    /// Period over which the buyers arrive on schedule. Without it, a buyer arrives when a connection is free.
    pub(super) within: Option<Duration>,
    /// Maximum number of buyers who retry later.
    pub(super) retrying_max: usize,
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
pub(super) struct LoadGenerator<C> {
    plan: Plan<C>,
    /// Part of the buyer IDs that distinguishes simulations.
    tag: String,
    keys: [IdempotencyKey; 2],
    begin: Instant,
    next: AtomicU64,
    /// Copy of `stop` as a flag, because checking a token takes a lock, and it is checked millions of times.
    stopped: Arc<AtomicBool>,
    tally: Arc<Tally>,
    retrying: mpsc::Sender<u64>,
    comers: Mutex<mpsc::Receiver<u64>>,
    going: AsyncMutex<Going>,
}

/// State of one simulated connection.
struct Member<'a, C> {
    load: &'a Arc<LoadGenerator<C>>,
    connection: C,
    number: usize,
    counters: &'a ThreadCounters,
    served: Histogram<u64>,
    /// Latency from the scheduled clicks.
    latency: Option<Histogram<u64>>,
    first_error: Option<String>,
    payments: JoinSet<()>,
}

/// A simulated buyer.
struct Buyer {
    id: BuyerId,
    number: u64,
    script: Script,
}

/// Answer to one click.
struct Asked {
    answer: Answer,
    /// Duration of the last request alone.
    served: Duration,
    /// Latency from the scheduled click.
    latency: Option<Duration>,
}

async fn tell(stop: CancellationToken, stopped: Arc<AtomicBool>) {
    stop.cancelled().await;
    stopped.store(true, Ordering::Relaxed);
}

impl<C: Connection> LoadGenerator<C> {
    pub(super) fn new(plan: Plan<C>, tally: Arc<Tally>) -> Result<Arc<Self>> {
        let (retrying, comers) = mpsc::channel(plan.retrying_max);
        let stopped = Arc::new(AtomicBool::new(false));
        tokio::spawn(tell(plan.stop.clone(), Arc::clone(&stopped)));
        Ok(Arc::new(Self {
            tag: script::tag(plan.seed),
            keys: [IdempotencyKey::new("click-1")?, IdempotencyKey::new("click-2")?],
            begin: Instant::now(),
            next: AtomicU64::new(0),
            stopped,
            tally,
            retrying,
            comers: Mutex::new(comers),
            going: AsyncMutex::new(Going::on(plan.generation)),
            plan,
        }))
    }

    /// Sends every buyer to the sale, then those who retry, until it is over. Returns figures of the first wave.
    pub(super) async fn run(self: &Arc<Self>) -> Result<Wave> {
        let (clicking, mut all_clicked) = mpsc::channel::<Infallible>(1);
        let mut members = JoinSet::new();
        for number in 0..self.plan.members {
            let (load, clicking) = (Arc::clone(self), clicking.clone());
            members.spawn(async move { load.first_wave(number, clicking).await });
        }
        drop(clicking);
        // Some buyers are still paying when the last one has clicked; the first wave does not include that.
        let _ = all_clicked.recv().await;
        let wave = Wave {
            took: self.begin.elapsed(),
            attempts: self.tally.attempts(),
            from_memory: self.plan.sale.admission_stats().from_memory,
        };
        self.latecomers().await?;
        while let Some(member) = members.join_next().await {
            member?;
        }
        Ok(wave)
    }

    fn member(self: &Arc<Self>, number: usize) -> Member<'_, C> {
        Member {
            load: self,
            connection: self.plan.connection.another(),
            number,
            counters: self.tally.counters(number),
            served: histogram(),
            latency: self.plan.within.map(|_| histogram()),
            first_error: None,
            payments: JoinSet::new(),
        }
    }

    fn buyer_id(&self, number: u64) -> rushgate::Result<BuyerId> {
        BuyerId::new(format!("buyer-{}-{number}", self.tag))
    }

    fn buyer(&self, number: u64) -> rushgate::Result<Buyer> {
        Ok(Buyer { id: self.buyer_id(number)?, number, script: Script::of(self.plan.seed, number) })
    }

    /// Scheduled time of a buyer's first click. It does not depend on how fast the server is.
    fn due(&self, buyer: u64) -> Option<Instant> {
        let us = self.plan.within?.as_micros() * u128::from(buyer) / u128::from(self.plan.buyers.max(1));
        Some(self.begin + Duration::from_micros(us as u64))
    }

    /// Time of a click that is made now, if latency is measured from there.
    fn due_now(&self) -> Option<Instant> {
        self.plan.within.map(|_| Instant::now())
    }

    async fn first_wave(self: &Arc<Self>, number: usize, clicking: mpsc::Sender<Infallible>) {
        let mut member = self.member(number);
        while !self.plan.stop.is_cancelled() {
            let first = self.next.fetch_add(C::STRETCH, Ordering::Relaxed);
            if first >= self.plan.buyers {
                break;
            }
            for buyer in first..(first + C::STRETCH).min(self.plan.buyers) {
                if self.stopped.load(Ordering::Relaxed) {
                    break;
                }
                let due = self.due(buyer);
                if let Some(due) = due.filter(|due| *due > Instant::now()) {
                    let arrival = self.plan.stop.run_until_cancelled(sleep_until(due.into()));
                    if arrival.await.is_none() {
                        break;
                    }
                }
                member.serve(buyer, due).await;
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
            let (load, line, over) = (Arc::clone(self), Arc::clone(&line), over.clone());
            members.spawn(async move { load.second_wave(number, &line, &over).await });
        }
        let mut wait = Wait::new(self.plan.output);
        while !over.is_cancelled() && self.something_may_be_left(&mut wait).await? && !is_empty(&line) {
            sleep(C::COME_BACK).await;
        }
        over.cancel();
        while let Some(member) = members.join_next().await {
            member?;
        }
        // Wait for abandoned holds to expire.
        while !self.plan.stop.is_cancelled() && self.undecided(&mut wait).await? {
            sleep(C::COME_BACK).await;
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
                sleep(C::COME_BACK).await;
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
        Ok(with_retries(|| self.plan.sale.state()).await?)
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

impl<C: Connection> LoadGenerator<C> {
    /// A buyer pays, cancels or abandons the hold. While the sale is halted, nothing is decided, and a
    /// missing hold may have been lost.
    async fn settle(self: &Arc<Self>, connection: &C, at: Place, id: ReservationId, then: Then) -> Stands {
        let (choice, done) = match then {
            Then::WalkAway => return Stands::Left,
            Then::Pay | Then::PayAtTheDeadline => (Choice::Confirm, Stands::Paid),
            Then::Cancel => (Choice::Cancel, Stands::Cancelled),
        };
        loop {
            match connection.decide(id, choice).await {
                Decided::Done => return done,
                Decided::Refused => return Stands::Late,
                Decided::Unknown => {
                    if let Some(stands) = self.look_for(at).await {
                        return stands;
                    }
                }
                Decided::Halted if self.wait_out().await => {}
                // No answer was received: only the store knows the outcome.
                Decided::Halted | Decided::NoAnswer => return Stands::Left,
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

impl<C: Connection> Member<'_, C> {
    async fn serve(&mut self, number: u64, due: Option<Instant>) {
        let Ok(buyer) = self.load.buyer(number) else { return };
        let told = match buyer.script.click {
            Click::Doubled => self.double_click(&buyer, due).await,
            _ => self.click(&buyer, 0, due).await,
        };
        match buyer.script.click {
            Click::Repeatedly(n) => {
                for _ in 1..n {
                    self.click(&buyer, 0, self.load.due_now()).await;
                }
            }
            Click::SecondKey => _ = self.click(&buyer, 1, self.load.due_now()).await,
            Click::Once | Click::Doubled => {}
        }
        if told.comes_back() {
            // Only a limited number of buyers retry; the others leave.
            let _ = self.load.retrying.try_send(number);
        }
    }

    /// A buyer retries with the same key.
    async fn come_back(&mut self, number: u64) -> Told {
        match self.load.buyer(number) {
            Ok(buyer) => self.click(&buyer, 0, self.load.due_now()).await,
            Err(_) => Told::Failed,
        }
    }

    /// Sends a request. While the sale is halted, waits and retries.
    async fn ask(&self, buyer: &Buyer, key: usize, due: Option<Instant>) -> Asked {
        loop {
            let key = &self.load.keys[key];
            let (answer, served) = self.connection.click(&buyer.id, &self.load.plan.line, key).await;
            if !matches!(answer, Answer::Told(Told::Halted)) || !self.load.wait_out().await {
                return Asked { answer, served, latency: due.map(|due| due.elapsed()) };
            }
            self.counters.count(Told::Halted);
        }
    }

    async fn click(&mut self, buyer: &Buyer, key: usize, due: Option<Instant>) -> Told {
        let asked = self.ask(buyer, key, due).await;
        self.take(asked, buyer)
    }

    /// Two concurrent requests with one key: one unit, and both get it as the answer.
    async fn double_click(&mut self, buyer: &Buyer, due: Option<Instant>) -> Told {
        let (one, two) = tokio::join!(self.ask(buyer, 0, due), self.ask(buyer, 0, due));
        let first = self.take(one, buyer);
        let second = self.take(two, buyer);
        if second == Told::Reserved { second } else { first }
    }

    fn take(&mut self, asked: Asked, buyer: &Buyer) -> Told {
        let Asked { answer, served, latency } = asked;
        self.served.saturating_record(served.as_nanos() as u64);
        if let (Some(histogram), Some(latency)) = (&mut self.latency, latency) {
            histogram.saturating_record(latency.as_nanos() as u64);
        }
        let told = match answer {
            Answer::Reserved(hold) => {
                self.leave_with(hold, buyer);
                Told::Reserved
            }
            Answer::Told(told) => told,
            Answer::Failed(why) => {
                self.first_error.get_or_insert(why);
                Told::Failed
            }
        };
        self.counters.count(told);
        told
    }

    /// Starts the buyer's payment in the background, while the connection serves other buyers.
    fn leave_with(&mut self, hold: Hold, buyer: &Buyer) {
        let (load, connection) = (Arc::clone(self.load), self.connection.clone());
        let Buyer { number, script: Script { then, .. }, .. } = *buyer;
        let at = Place {
            counters: self.number,
            number: self.counters.tickets.hand_out(Ticket::of(&hold, number)),
        };
        self.payments.spawn(async move {
            if then == Then::PayAtTheDeadline {
                let (sale, seed) = (&load.plan.sale, load.plan.seed);
                // A buyer who must stop pays at once.
                let deadline =
                    async { sleep(script::near(time_left(sale, &hold).await, seed, number)).await };
                let _ = load.plan.stop.run_until_cancelled(deadline).await;
            }
            load.tally.mark(at, load.settle(&connection, at, hold.id, then).await);
        });
    }

    async fn go(mut self) {
        while let Some(payment) = self.payments.join_next().await {
            if let Err(error) = payment {
                self.first_error.get_or_insert_with(|| error.to_string());
            }
        }
        self.load.tally.hand_in(&self.served, self.latency.as_ref(), self.first_error);
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
