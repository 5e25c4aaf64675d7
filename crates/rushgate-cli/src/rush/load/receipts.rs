//! Receipts of the buyers, and restoring lost reservations from them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rushgate::Result;
use rushgate::sale::{Decision, HoldState, ReservationId, Restored};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Going, LATECOMERS, LoadGenerator};
use crate::rush::connection::Connection;
use crate::rush::retry::{OUTAGE_MAX, with_retries};
use crate::rush::tickets::{Place, Stands};

/// Outcome of presenting a receipt.
enum Shown {
    /// The reservation exists, or was restored.
    There(HoldState),
    /// It is lost for good.
    Gone,
    /// Unknown while the sale is halted.
    Stopped,
}

impl<C: Connection> LoadGenerator<C> {
    /// Waits until a halted sale resumes for all buyers. False if that takes too long, or if the simulation
    /// is to stop.
    pub(super) async fn wait_out(self: &Arc<Self>) -> bool {
        let waited = async {
            // Boxed, because it is rare: every click would move its three kilobytes.
            let lets_in = Box::pin(self.goes_on()).await?;
            tokio::time::sleep_until(lets_in.into()).await;
            Some(())
        };
        self.plan.stop.run_until_cancelled(waited).await.flatten().is_some()
    }

    /// Waits until a halted sale resumes. After a rebuild, buyers present their receipts first. Returns the
    /// time from which buyers without one are accepted; `None` if that takes too long.
    pub(in crate::rush) async fn goes_on(self: &Arc<Self>) -> Option<Instant> {
        let asked = Instant::now();
        let mut going = self.going.lock().await;
        while going.seen < asked {
            if asked.elapsed() >= OUTAGE_MAX {
                return None;
            }
            let state = with_retries(|| self.plan.sale.state()).await.ok()?;
            let seen = Instant::now();
            let made_good = async {
                state.generation == going.generation || self.bring_back(self.tally.at_stake()).await
            };
            if state.halted.is_some() || !made_good.await {
                sleep(C::COME_BACK).await;
                continue;
            }
            let wait = state.receipts_until.map_or(Duration::ZERO, |until| until.since(state.now));
            *going = Going { generation: state.generation, seen, lets_in: seen + wait };
        }
        Some(going.lets_in)
    }

    /// True if no reservation depends on a rebuild that has not happened or was not seen yet.
    pub(in crate::rush) async fn is_made_good(&self) -> Result<bool> {
        let state = with_retries(|| self.plan.sale.state()).await?;
        Ok(state.halted.is_none() && state.generation == self.going.lock().await.generation)
    }

    /// Every buyer whose order the store may have lost presents the receipt, in the order of the
    /// reservations. False if the sale was halted again.
    pub(in crate::rush) async fn bring_back(self: &Arc<Self>, at_stake: Vec<Place>) -> bool {
        let line = Arc::new(Mutex::new(at_stake));
        let mut till = JoinSet::new();
        for _ in 0..LATECOMERS {
            let (load, line) = (Arc::clone(self), Arc::clone(&line));
            till.spawn(async move {
                let next = || line.lock().unwrap_or_else(PoisonError::into_inner).pop();
                while let Some(at) = next() {
                    if !load.make_good(at).await {
                        return false;
                    }
                }
                true
            });
        }
        till.join_all().await.into_iter().all(|done| done)
    }

    /// A buyer presents the receipt, and pays again if the payment was lost. False if the outcome is unknown
    /// for now.
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
        match with_retries(|| self.plan.sale.confirm(id)).await {
            Ok(Decision::Done(_) | Decision::Pending(_)) => Some(Stands::Paid),
            Ok(Decision::Refused(_) | Decision::Unknown) => Some(Stands::Lost),
            Ok(_) | Err(_) => None,
        }
    }

    async fn show(&self, at: Place) -> Shown {
        let ticket = self.tally.ticket(at);
        let answer = async {
            let hold = ticket.hold(self.buyer_id(ticket.buyer)?, &self.plan.line.sku);
            let receipt = self.plan.sale.receipt(&hold).await?;
            with_retries(|| self.plan.sale.restore(&receipt)).await
        };
        match answer.await {
            Ok(Restored::Restored(hold)) => {
                self.tally.count_restored();
                // The restored hold has a new receipt.
                self.tally.renew(at, &hold);
                Shown::There(hold.state)
            }
            Ok(Restored::Known(hold)) => Shown::There(hold.state),
            Ok(Restored::Halted { .. }) | Err(_) => Shown::Stopped,
            Ok(_) => Shown::Gone,
        }
    }

    /// Restores the hold of a buyer whose payment found none. `None` if it exists again.
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
