//! The simulated buyers, over their connections.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;
use rushgate::CancellationToken;
use rushgate_http::Address;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use super::api::{Answer, Api, Ask, get, post};
use super::{Seen, sale_path};
use crate::rush::crowd::LATECOMERS;
use crate::rush::report::memory_peak_bytes;
use crate::rush::script::{self, Click, Script, Then};
use crate::rush::tally::{Tally, Told, histogram};
use crate::rush::tickets::Stands;
use crate::rush::{DRAIN_MAX, OUTAGE_MAX, SKU};

/// Pause before a buyer retries after "all on hold".
const COME_BACK: Duration = Duration::from_millis(250);
/// Default pause after a request without an answer.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest pause that a buyer waits for.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// What the buyers do.
pub(super) struct Plan {
    pub(super) address: Address,
    pub(super) sale: String,
    pub(super) generation: u32,
    pub(super) buyers: u64,
    pub(super) seed: u64,
    pub(super) connections: usize,
    /// Period over which all buyers arrive.
    pub(super) within: Duration,
    /// Maximum number of buyers who retry later.
    pub(super) patient_max: usize,
    /// Stops the simulation.
    pub(super) stop: CancellationToken,
}

/// What the buyers got.
pub(super) struct Share {
    /// In the order of [`Told::ALL`].
    pub(super) answers: [u64; Told::ALL.len()],
    /// Latency from each buyer's scheduled click, in nanoseconds.
    pub(super) latency: Histogram<u64>,
    /// Latency from when the request was sent, in nanoseconds.
    pub(super) served: Histogram<u64>,
    /// The first wave: all buyers, without retries after "all on hold".
    pub(super) wave: Duration,
    pub(super) wave_attempts: u64,
    /// Retries because the server, its store or the sale was unavailable.
    pub(super) asked_again: u64,
    pub(super) promises: Promises,
    pub(super) first_error: Option<String>,
    pub(super) memory_peak_bytes: u64,
}

/// The buyers' answers, compared with the server's data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Promises {
    pub(super) told: u64,
    pub(super) missing: u64,
    pub(super) paid: u64,
    pub(super) unsold: u64,
    pub(super) cancelled: u64,
    pub(super) late: u64,
    /// Restored from receipts.
    pub(super) restored: u64,
    /// Lost, even with a receipt.
    pub(super) lost: u64,
}

impl Promises {
    fn add(&mut self, other: &Self) {
        self.told += other.told;
        self.missing += other.missing;
        self.paid += other.paid;
        self.unsold += other.unsold;
        self.cancelled += other.cancelled;
        self.late += other.late;
        self.lost += other.lost;
    }
}

/// State shared by the connections.
pub(super) struct Crowd {
    plan: Plan,
    api: Api,
    /// Part of the buyer IDs that distinguishes simulations.
    tag: String,
    path: String,
    reservations: String,
    begin: Instant,
    next: AtomicU64,
    tally: Tally,
    served: Mutex<Histogram<u64>>,
    asked_again: AtomicU64,
    patient: Mutex<VecDeque<u64>>,
    tickets: Mutex<Vec<Ticket>>,
    restored: AtomicU64,
}

/// Reservation of a buyer.
#[derive(Clone)]
struct Ticket {
    id: String,
    receipt: String,
    stands: Stands,
}

/// One connection and its buyers.
struct Member {
    crowd: Arc<Crowd>,
    number: usize,
    api: Arc<Api>,
    latency: Histogram<u64>,
    served: Histogram<u64>,
    first_error: Option<String>,
    payments: JoinSet<()>,
}

impl Crowd {
    pub(super) fn new(plan: Plan) -> Result<Self> {
        Ok(Self {
            api: Api::new(plan.address.clone())?,
            tag: script::tag(plan.seed),
            path: sale_path(&plan.sale),
            reservations: format!("{}/reservations", sale_path(&plan.sale)),
            begin: Instant::now(),
            next: AtomicU64::new(0),
            tally: Tally::new(plan.connections),
            served: Mutex::new(histogram()),
            asked_again: AtomicU64::new(0),
            patient: Mutex::default(),
            tickets: Mutex::default(),
            restored: AtomicU64::new(0),
            plan,
        })
    }

    /// Path of the sale.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Runs all buyers.
    pub(super) async fn come(self: Arc<Self>) -> Share {
        let mut members = JoinSet::new();
        for number in 0..self.plan.connections {
            members.spawn(Arc::clone(&self).member(number).first_wave());
        }
        let mut at_the_till = Vec::new();
        while let Some(member) = members.join_next().await {
            at_the_till.extend(member.ok());
        }
        let (wave, attempts) = (self.begin.elapsed(), self.tally.attempts());
        self.latecomers().await;
        for member in at_the_till {
            member.go().await;
        }
        let promises = self.check_promises().await;
        self.share(wave, attempts, promises)
    }

    fn share(&self, wave: Duration, wave_attempts: u64, promises: Promises) -> Share {
        let served = locked(&self.served).clone();
        let (latency, first_error) = self.tally.read(|sum| (sum.latency.clone(), sum.first_error.clone()));
        Share {
            answers: self.answers(),
            latency,
            served,
            wave,
            wave_attempts,
            asked_again: self.asked_again.load(Ordering::Relaxed),
            promises,
            first_error,
            memory_peak_bytes: memory_peak_bytes(),
        }
    }

    pub(super) fn answers(&self) -> [u64; Told::ALL.len()] {
        Told::ALL.map(|told| self.tally.count(told))
    }

    fn member(self: Arc<Self>, number: usize) -> Member {
        Member {
            number,
            api: Arc::new(self.api.sibling()),
            latency: histogram(),
            served: histogram(),
            first_error: None,
            payments: JoinSet::new(),
            crowd: self,
        }
    }

    /// Scheduled time of the buyer's click. It does not depend on how fast the server is.
    fn due(&self, buyer: u64) -> Instant {
        let Plan { within, buyers, .. } = self.plan;
        let us = within.as_micros() * u128::from(buyer) / u128::from(buyers.max(1));
        self.begin + Duration::from_micros(us as u64)
    }

    /// Buyers who got "retry later" try again while units may be left for them.
    async fn latecomers(self: &Arc<Self>) {
        let over = self.plan.stop.child_token();
        let mut members = JoinSet::new();
        for number in 0..self.plan.connections.min(LATECOMERS) {
            members.spawn(Arc::clone(self).member(number).second_wave(over.clone()));
        }
        while !over.is_cancelled() && !locked(&self.patient).is_empty() && self.something_may_be_left().await
        {
            sleep(COME_BACK).await;
        }
        over.cancel();
        while let Some(member) = members.join_next().await {
            if let Ok(member) = member {
                member.go().await;
            }
        }
    }

    async fn something_may_be_left(&self) -> bool {
        match self.api.ask(&get(&self.path)).await {
            Ok(answer) if answer.status.is_success() => serde_json::from_value::<Seen>(answer.body)
                .is_ok_and(|seen| seen.is_open() && seen.phone().is_some_and(|sku| sku.free + sku.held > 0)),
            Ok(answer) => answer.is_passing(),
            // The server may recover; the connections retry on their own.
            Err(_) => true,
        }
    }

    /// Requests a decision on a reservation, and retries while the server or the sale is unavailable. `None`
    /// if that takes too long.
    async fn decide(&self, api: &Api, id: &str, what: &str) -> Option<Answer> {
        let path = format!("{}/reservations/{id}/{what}", self.path);
        self.patiently(api, post(&path, "{}".into())).await.answer.ok()
    }

    /// Sends a request, and retries while the server, its store or the sale is unavailable.
    async fn patiently(&self, api: &Api, ask: Ask<'_>) -> Asked {
        let (start, mut halted) = (Instant::now(), 0);
        loop {
            let sent = Instant::now();
            let answer = api.ask(&ask).await;
            let (why, pause) = match answer {
                Ok(answer) if answer.is_passing() => {
                    halted += u64::from(answer.code() == "sale_halted");
                    let pause = answer.retry_after.unwrap_or(PAUSE).min(PAUSE_MAX);
                    (answer.code().to_owned(), pause)
                }
                Ok(answer) => return Asked { answer: Ok(answer), served: sent.elapsed(), halted },
                Err(why) => (why, PAUSE),
            };
            if start.elapsed() >= OUTAGE_MAX || self.plan.stop.is_cancelled() {
                return Asked { answer: Err(why), served: sent.elapsed(), halted };
            }
            self.asked_again.fetch_add(1, Ordering::Relaxed);
            sleep(pause).await;
        }
    }
}

/// Outcome of a request with retries.
struct Asked {
    answer: Result<Answer, String>,
    /// Duration of the last request alone.
    served: Duration,
    /// Number of answers "sale halted".
    halted: u64,
}

impl Member {
    async fn first_wave(mut self) -> Self {
        let crowd = Arc::clone(&self.crowd);
        loop {
            let buyer = crowd.next.fetch_add(1, Ordering::Relaxed);
            if buyer >= crowd.plan.buyers || crowd.plan.stop.is_cancelled() {
                return self;
            }
            let due = crowd.due(buyer);
            if due > Instant::now()
                && crowd.plan.stop.run_until_cancelled(sleep_until(due.into())).await.is_none()
            {
                return self;
            }
            self.serve(buyer, due).await;
        }
    }

    async fn second_wave(mut self, over: CancellationToken) -> Self {
        while !over.is_cancelled() {
            let Some(buyer) = locked(&self.crowd.patient).pop_front() else { break };
            if self.click(buyer, 0, Instant::now()).await.comes_back() {
                locked(&self.crowd.patient).push_back(buyer);
                sleep(COME_BACK).await;
            }
        }
        self
    }

    async fn serve(&mut self, buyer: u64, due: Instant) {
        let script = Script::of(self.crowd.plan.seed, buyer);
        let told = match script.click {
            Click::Once => self.click(buyer, 0, due).await,
            Click::Repeatedly(n) => {
                let first = self.click(buyer, 0, due).await;
                for _ in 1..n {
                    self.click(buyer, 0, Instant::now()).await;
                }
                first
            }
            Click::Doubled => self.double_click(buyer, due).await,
            Click::SecondKey => {
                let first = self.click(buyer, 0, due).await;
                self.click(buyer, 1, Instant::now()).await;
                first
            }
        };
        let mut patient = locked(&self.crowd.patient);
        if told.comes_back() && patient.len() < self.crowd.plan.patient_max {
            patient.push_back(buyer);
        }
    }

    async fn click(&mut self, buyer: u64, key: usize, due: Instant) -> Told {
        let (answer, times) = self.ask(buyer, key, due).await;
        self.take(answer, times, buyer)
    }

    /// Two concurrent requests with one key over two connections: one unit, and both get it as the answer.
    async fn double_click(&mut self, buyer: u64, due: Instant) -> Told {
        let (one, two) = tokio::join!(self.ask(buyer, 0, due), self.ask(buyer, 0, due));
        let first = self.take(one.0, one.1, buyer);
        let second = self.take(two.0, two.1, buyer);
        if second == Told::Reserved { second } else { first }
    }

    /// Sends a request until there is an answer. Also returns the latency from the buyer's scheduled click,
    /// and from when the last request was sent.
    async fn ask(&self, buyer: u64, key: usize, due: Instant) -> (Result<Answer, String>, [Duration; 2]) {
        let body = json!({ "buyer": self.crowd.buyer(buyer), "lines": [{ "sku": SKU }] }).to_string();
        let ask = post(&self.crowd.reservations, body).key(["click-1", "click-2"][key]);
        let Asked { answer, served, halted } = self.crowd.patiently(&self.api, ask).await;
        for _ in 0..halted {
            self.crowd.tally.desk(self.number).count(Told::Halted);
        }
        (answer, [due.elapsed(), served])
    }

    fn take(&mut self, answer: Result<Answer, String>, times: [Duration; 2], buyer: u64) -> Told {
        self.latency.saturating_record(times[0].as_nanos() as u64);
        self.served.saturating_record(times[1].as_nanos() as u64);
        let told = match answer {
            Ok(answer) => {
                let told = told_by(&answer);
                if told == Told::Reserved {
                    self.leave_with(&answer.body, buyer);
                }
                if told == Told::Failed {
                    let status = answer.status.as_u16();
                    let why = format!("{} ({status}): {}", answer.code(), answer.body["detail"]);
                    self.first_error.get_or_insert(why);
                }
                told
            }
            Err(why) => {
                self.first_error.get_or_insert(why);
                Told::Failed
            }
        };
        self.crowd.tally.desk(self.number).count(told);
        told
    }

    /// Starts the buyer's payment in the background, while other buyers click.
    fn leave_with(&mut self, hold: &Value, buyer: u64) {
        let text = |name: &str| hold[name].as_str().unwrap_or_default().to_owned();
        let ticket = Ticket { id: text("id"), receipt: text("receipt"), stands: Stands::Held };
        let deadline_us = hold["deadline_us"].as_u64().unwrap_or(0);
        let at = {
            let mut tickets = locked(&self.crowd.tickets);
            tickets.push(ticket);
            tickets.len() - 1
        };
        let then = Script::of(self.crowd.plan.seed, buyer).then;
        let (crowd, api) = (Arc::clone(&self.crowd), Arc::clone(&self.api));
        self.payments.spawn(async move {
            if then == Then::PayAtTheDeadline {
                let left = crowd.time_left(&api, deadline_us).await;
                let near = script::near(left, crowd.plan.seed, buyer);
                let _ = crowd.plan.stop.run_until_cancelled(sleep(near)).await;
            }
            let stands = crowd.settle(&api, at, then).await;
            locked(&crowd.tickets)[at].stands = stands;
        });
    }

    async fn go(mut self) {
        while let Some(payment) = self.payments.join_next().await {
            if let Err(error) = payment {
                self.first_error.get_or_insert_with(|| error.to_string());
            }
        }
        self.crowd.tally.hand_in(&self.latency, self.first_error);
        let _ = locked(&self.crowd.served).add(&self.served);
    }
}

fn told_by(answer: &Answer) -> Told {
    match (answer.status.as_u16(), answer.code()) {
        (202, _) => Told::Reserved,
        (200, _) => Told::Replayed,
        (_, "all_held") => Told::AllHeld,
        (_, "sold_out") => Told::SoldOut,
        (_, "limit_reached") => Told::LimitReached,
        (_, "idempotency_key_reused") => Told::KeyReused,
        (_, "sale_not_open") => Told::NotOpen,
        (_, "sale_ended") => Told::Ended,
        _ => Told::Failed,
    }
}

impl Crowd {
    fn buyer(&self, number: u64) -> String {
        format!("buyer-{}-{number}", self.tag)
    }

    fn ticket(&self, at: usize) -> Ticket {
        locked(&self.tickets)[at].clone()
    }

    async fn time_left(&self, api: &Api, deadline_us: u64) -> Duration {
        let now_us = match api.ask(&get(&self.path)).await {
            Ok(answer) => answer.body["now_us"].as_u64().unwrap_or(deadline_us),
            Err(_) => deadline_us,
        };
        Duration::from_micros(deadline_us.saturating_sub(now_us)).min(Duration::from_secs(60))
    }

    /// A buyer pays, cancels or abandons the hold.
    async fn settle(&self, api: &Api, at: usize, then: Then) -> Stands {
        let (what, done) = match then {
            Then::WalkAway => return Stands::Left,
            Then::Pay | Then::PayAtTheDeadline => ("confirm", Stands::Paid),
            Then::Cancel => ("cancel", Stands::Cancelled),
        };
        loop {
            let ticket = self.ticket(at);
            let Some(answer) = self.decide(api, &ticket.id, what).await else { return Stands::Left };
            match (answer.status.as_u16(), answer.code()) {
                (200 | 202, _) => return done,
                (404, _) => match self.show(api, at).await {
                    Some(true) => {}
                    Some(false) => return Stands::Lost,
                    None => return Stands::Left,
                },
                (_, "decided") => return Stands::Late,
                _ => return Stands::Left,
            }
        }
    }

    /// Presents the receipt of a missing reservation. True if it exists now; `None` if the outcome is
    /// unknown.
    async fn show(&self, api: &Api, at: usize) -> Option<bool> {
        let ticket = self.ticket(at);
        let body = json!({ "receipt": ticket.receipt }).to_string();
        let path = format!("{}/restore", self.path);
        let answer = self.patiently(api, post(&path, body)).await.answer.ok()?;
        if answer.status.as_u16() == 201 {
            self.restored.fetch_add(1, Ordering::Relaxed);
            if let Some(receipt) = answer.body["receipt"].as_str() {
                receipt.clone_into(&mut locked(&self.tickets)[at].receipt);
            }
        }
        Some(answer.status.is_success())
    }

    /// Checks every answer that these buyers got against the server, once the orders are recorded.
    async fn check_promises(self: &Arc<Self>) -> Promises {
        let line = Arc::new(AtomicU64::new(0));
        let mut till = JoinSet::new();
        for _ in 0..LATECOMERS {
            till.spawn(Arc::clone(self).check_some(Arc::clone(&line)));
        }
        let mut sum = Promises::default();
        for part in till.join_all().await {
            sum.add(&part);
        }
        sum.restored = self.restored.load(Ordering::Relaxed);
        sum
    }

    async fn check_some(self: Arc<Self>, line: Arc<AtomicU64>) -> Promises {
        let (api, mut sum) = (self.api.sibling(), Promises::default());
        loop {
            let at = line.fetch_add(1, Ordering::Relaxed) as usize;
            if at >= locked(&self.tickets).len() {
                return sum;
            }
            self.check_one(&api, at, &mut sum).await;
        }
    }

    async fn check_one(&self, api: &Api, at: usize, sum: &mut Promises) {
        let stands = self.ticket(at).stands;
        sum.told += 1;
        match stands {
            Stands::Paid => sum.paid += 1,
            Stands::Cancelled => sum.cancelled += 1,
            Stands::Late => sum.late += 1,
            Stands::Lost => {
                sum.lost += 1;
                return;
            }
            Stands::Held | Stands::Left => {}
        }
        let state = match self.state_of(api, at, stands == Stands::Paid).await {
            None if stands == Stands::Paid && self.pay_again(api, at).await => {
                self.state_of(api, at, true).await
            }
            state => state,
        };
        // After a rebuild, canceled and abandoned reservations may be missing.
        let wanted = stands == Stands::Paid || !self.was_rebuilt(api).await;
        if state.is_none() && wanted {
            sum.missing += 1;
        }
        if stands == Stands::Paid && !matches!(state.as_deref(), Some("confirmed")) {
            sum.unsold += 1;
        }
    }

    /// State of a reservation; if `awaited`, once it is final. `None` if the server does not know it.
    async fn state_of(&self, api: &Api, at: usize, awaited: bool) -> Option<String> {
        let path = format!("{}/reservations/{}", self.path, self.ticket(at).id);
        let start = Instant::now();
        loop {
            let wait = if awaited { Duration::from_secs(10) } else { Duration::ZERO };
            let answer = self.patiently(api, get(&path).wait(wait)).await.answer.ok()?;
            let state = answer.body["state"].as_str().filter(|_| answer.status.is_success())?.to_owned();
            let is_final = matches!(&*state, "confirmed" | "cancelled" | "expired" | "rejected");
            if is_final || !awaited || start.elapsed() >= DRAIN_MAX || self.plan.stop.is_cancelled() {
                return Some(state);
            }
        }
    }

    async fn pay_again(&self, api: &Api, at: usize) -> bool {
        if self.show(api, at).await != Some(true) {
            return false;
        }
        let paid = self.decide(api, &self.ticket(at).id, "confirm").await;
        paid.is_some_and(|answer| answer.status.is_success())
    }

    async fn was_rebuilt(&self, api: &Api) -> bool {
        let answer = self.patiently(api, get(&self.path)).await.answer;
        answer.is_ok_and(|answer| answer.body["generation"].as_u64() > Some(self.plan.generation.into()))
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
