//! The buyers' receipts, and how lost reservations are restored from them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rushgate::{BuyerId, Decision, Hold, HoldState, ReservationId, Restored, Result, Timestamp, UnitNumber};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::crowd::{COME_BACK, Crowd, LATECOMERS};
use super::tally::Tally;
use super::{OUTAGE_MAX, patiently};

/// What one buyer was promised: enough to make the receipt, which a shop would hand out with the reservation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) id: ReservationId,
    /// The buyer's number in the crowd.
    buyer: u64,
    unit: UnitNumber,
    deadline: Timestamp,
    seq: u64,
    generation: u32,
    pub(super) stands: Stands,
}

/// How it stands, as far as the buyer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    /// The unit is the buyer's for now.
    Held,
    /// The sale is final, or only waits for the ledger.
    Paid,
    /// The payment came too late.
    Late,
    /// The order was called off.
    Cancelled,
    /// The buyer has gone without a word, or without an answer.
    Left,
    /// The store lost it, and the receipt did not bring it back.
    Lost,
}

impl Ticket {
    pub(super) fn of(hold: &Hold, buyer: u64) -> Self {
        let unit = hold.units.first().map_or(0, |(_, unit)| *unit);
        let Hold { id, deadline, seq, generation, .. } = *hold;
        Self { id, buyer, unit, deadline, seq, generation, stands: Stands::Held }
    }

    fn hold(&self, buyer: BuyerId, crowd: &Crowd) -> Hold {
        let Self { id, unit, deadline, seq, generation, .. } = *self;
        let units = vec![(crowd.plan.line.sku.clone(), unit)];
        Hold { id, buyer, units, state: HoldState::Held, deadline, seq, generation }
    }
}

/// Which ticket: the desk that handed it out, and how many had been before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) desk: usize,
    pub(super) number: usize,
}

/// The tickets that one desk has handed out.
#[derive(Default)]
pub(super) struct Tickets(Mutex<Vec<Ticket>>);

impl Tickets {
    /// Gives the number of the ticket.
    pub(super) fn hand_out(&self, ticket: Ticket) -> usize {
        self.with(|tickets| {
            tickets.push(ticket);
            tickets.len() - 1
        })
    }

    pub(super) fn all(&self) -> Vec<Ticket> {
        self.with(|tickets| tickets.clone())
    }

    fn with<T>(&self, look: impl FnOnce(&mut Vec<Ticket>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Tally {
    fn ticket(&self, at: Place) -> Ticket {
        self.change(at, |ticket| *ticket)
    }

    pub(super) fn mark(&self, at: Place, stands: Stands) {
        self.change(at, |ticket| ticket.stands = stands);
    }

    fn change<T>(&self, at: Place, change: impl FnOnce(&mut Ticket) -> T) -> T {
        self.desk(at.desk).tickets.with(|tickets| change(&mut tickets[at.number]))
    }

    /// Where the tickets are of those to whom a loss matters, in the order in which they were handed out.
    fn at_stake(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for desk in 0..self.desks() {
            let tickets = self.desk(desk).tickets.all().into_iter().enumerate();
            let at_stake = tickets.filter(|(_, ticket)| matches!(ticket.stands, Stands::Held | Stands::Paid));
            places.extend(at_stake.map(|(number, of)| (of.generation, of.seq, Place { desk, number })));
        }
        places.sort_unstable_by_key(|(generation, seq, _)| (*generation, *seq));
        places.into_iter().map(|(.., at)| at).collect()
    }
}

/// When the sale was last seen to go on, and in which generation.
pub(super) struct Going {
    generation: u32,
    seen: Instant,
    /// When it lets in those without a receipt.
    lets_in: Instant,
}

impl Going {
    pub(super) fn on(generation: u32) -> Self {
        let now = Instant::now();
        Self { generation, seen: now, lets_in: now }
    }
}

/// What came of a receipt.
enum Shown {
    /// The reservation is there, now or still.
    There(HoldState),
    /// It is lost for good.
    Gone,
    /// Nobody can tell as long as the sale is stopped.
    Stopped,
}

impl Crowd {
    /// Waits until a halted sale resumes for all buyers. False if that takes too long, or if the
    /// crowd is to leave.
    pub(super) async fn wait_out(self: &Arc<Self>) -> bool {
        let waited = async {
            let lets_in = self.goes_on().await?;
            tokio::time::sleep_until(lets_in.into()).await;
            Some(())
        };
        self.plan.stop.run_until_cancelled(waited).await.flatten().is_some()
    }

    /// Waits until a halted sale resumes. After a rebuild buyers present their receipts first. Returns when
    /// those without one are let in; `None` if that takes too long.
    pub(super) async fn goes_on(self: &Arc<Self>) -> Option<Instant> {
        let asked = Instant::now();
        let mut going = self.going.lock().await;
        while going.seen < asked {
            if asked.elapsed() >= OUTAGE_MAX {
                return None;
            }
            let state = patiently(|| self.plan.sale.state()).await.ok()?;
            let seen = Instant::now();
            let made_good = async { state.generation == going.generation || self.bring_back().await };
            if state.paused.is_some() || !made_good.await {
                sleep(COME_BACK).await;
                continue;
            }
            let wait = state.receipts_until.map_or(Duration::ZERO, |until| until.since(state.now));
            *going = Going { generation: state.generation, seen, lets_in: seen + wait };
        }
        Some(going.lets_in)
    }

    /// Whether nothing of what was promised hangs on a rebuild that is still to come, or was not seen yet.
    pub(super) async fn is_made_good(&self) -> Result<bool> {
        let state = patiently(|| self.plan.sale.state()).await?;
        Ok(state.paused.is_none() && state.generation == self.going.lock().await.generation)
    }

    /// Everybody whose order the store may have lost comes with the receipt, those of late first. False if the sale
    /// was stopped again.
    async fn bring_back(self: &Arc<Self>) -> bool {
        let line = Arc::new(Mutex::new(self.tally.at_stake()));
        let mut till = JoinSet::new();
        for _ in 0..LATECOMERS {
            let (crowd, line) = (Arc::clone(self), Arc::clone(&line));
            till.spawn(async move {
                let next = || line.lock().unwrap_or_else(PoisonError::into_inner).pop();
                while let Some(at) = next() {
                    if !crowd.make_good(at).await {
                        return false;
                    }
                }
                true
            });
        }
        till.join_all().await.into_iter().all(|done| done)
    }

    /// A buyer shows the receipt, and pays again if the payment is lost. False if nobody can tell for the moment.
    async fn make_good(&self, at: Place) -> bool {
        let shown = self.show(at).await;
        let ticket = self.tally.ticket(at);
        let stands = match (shown, ticket.stands) {
            (Shown::Stopped, _) => return false,
            // A buyer who is paying learns the outcome there.
            (_, Stands::Held) | (Shown::There(HoldState::Confirming | HoldState::Confirmed), _) => {
                return true;
            }
            (Shown::There(HoldState::Held), _) => self.pay_again(ticket.id).await,
            (Shown::There(_) | Shown::Gone, _) => Some(Stands::Lost),
        };
        stands.map(|stands| self.tally.mark(at, stands)).is_some()
    }

    async fn pay_again(&self, id: ReservationId) -> Option<Stands> {
        match patiently(|| self.plan.sale.confirm(id)).await {
            Ok(Decision::Done(_) | Decision::Pending(_)) => Some(Stands::Paid),
            Ok(Decision::Refused(_) | Decision::Unknown) => Some(Stands::Lost),
            Ok(Decision::Paused) | Err(_) => None,
        }
    }

    async fn show(&self, at: Place) -> Shown {
        let ticket = self.tally.ticket(at);
        let answer = async {
            let hold = ticket.hold(self.buyer(ticket.buyer)?, self);
            let receipt = self.plan.sale.receipt(&hold).await?;
            patiently(|| self.plan.sale.restore(&receipt)).await
        };
        match answer.await {
            Ok(Restored::Restored(hold)) => {
                self.tally.count_restored();
                // There is a new receipt with it.
                self.tally.change(at, |ticket| {
                    *ticket = Ticket { stands: ticket.stands, ..Ticket::of(&hold, ticket.buyer) }
                });
                Shown::There(hold.state)
            }
            Ok(Restored::Known(hold)) => Shown::There(hold.state),
            Ok(Restored::Paused { .. }) | Err(_) => Shown::Stopped,
            Ok(_) => Shown::Gone,
        }
    }

    /// Brings back the hold of a buyer at the till who was told that there is none. `None` if it is there again.
    pub(super) async fn look_for(self: &Arc<Self>, at: Place) -> Option<Stands> {
        loop {
            match self.show(at).await {
                Shown::There(_) => return None,
                Shown::Gone => return Some(Stands::Lost),
                Shown::Stopped if self.wait_out().await => {}
                Shown::Stopped => return Some(Stands::Left),
            }
        }
    }
}
