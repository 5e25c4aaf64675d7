//! The buyers' reservations, as the buyers know them.

use std::sync::{Mutex, PoisonError};

use rushgate::sale::{Hold, HoldState, ReservationId, UnitNumber};
use rushgate::{BuyerId, Sku, Timestamp};

/// Reservation of one buyer, with enough data to make its receipt, which a shop would hand out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) id: ReservationId,
    /// Number of the buyer.
    pub(super) buyer: u64,
    unit: UnitNumber,
    deadline: Timestamp,
    pub(super) seq: u64,
    pub(super) generation: u32,
    pub(super) stands: Stands,
}

/// State of a reservation, as the buyer knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    /// On hold.
    Held,
    /// Paid: confirmed, or waiting for the ledger.
    Paid,
    /// Paid after expiry.
    Late,
    /// Canceled.
    Cancelled,
    /// Abandoned, or without an answer.
    Left,
    /// Lost by the store and not restored from the receipt.
    Lost,
}

impl Ticket {
    pub(super) fn of(hold: &Hold, buyer: u64) -> Self {
        let unit = hold.units.first().map_or(0, |(_, unit)| *unit);
        let Hold { id, deadline, seq, generation, .. } = *hold;
        Self { id, buyer, unit, deadline, seq, generation, stands: Stands::Held }
    }

    /// The reservation after it was restored: in the same state, with a new receipt.
    pub(super) fn renewed(&self, hold: &Hold) -> Self {
        Self { stands: self.stands, ..Self::of(hold, self.buyer) }
    }

    /// The hold that the receipt is for.
    pub(super) fn hold(&self, buyer: BuyerId, sku: &Sku) -> Hold {
        let Self { id, unit, deadline, seq, generation, .. } = *self;
        let units = vec![(sku.clone(), unit)];
        Hold { id, buyer, units, state: HoldState::Held, deadline, seq, generation }
    }
}

/// Position of a reservation: the thread that recorded it, and its index there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) counters: usize,
    pub(super) number: usize,
}

/// Reservations recorded by one thread.
#[derive(Default)]
pub(super) struct Tickets(Mutex<Vec<Ticket>>);

impl Tickets {
    /// Records a reservation, and returns its index.
    pub(super) fn hand_out(&self, ticket: Ticket) -> usize {
        self.with(|tickets| {
            tickets.push(ticket);
            tickets.len() - 1
        })
    }

    pub(super) fn all(&self) -> Vec<Ticket> {
        self.with(|tickets| tickets.clone())
    }

    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Vec<Ticket>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
