//! The simulation and its totals.

use std::time::Instant;

use rushgate::CancellationToken;
use rushgate::sale::{OrderReport, SaleId, SweepReport};

use super::place::Place;
use crate::args::rush::RushArgs;
use crate::globals::Globals;

/// SKU that the buyers reserve.
pub(super) const SKU: &str = "phone";

/// One simulation.
pub(super) struct Simulation {
    pub(super) args: RushArgs,
    pub(super) seed: u64,
    pub(super) name: SaleId,
    pub(super) place: Place,
    pub(super) globals: Globals,
    /// Canceled by the first signal.
    pub(super) stop: CancellationToken,
    pub(super) start: Instant,
}

/// Totals of the background workers.
#[derive(Default)]
pub(super) struct Workers {
    pub(super) orders: OrderReport,
    pub(super) sweeps: SweepReport,
    /// Orders that the ledger did not have when the run ended.
    pub(super) left: OrdersLeft,
}

/// What the ledger does not have yet.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct OrdersLeft {
    /// Events of the sale that it has yet to follow.
    pub(super) behind: u64,
    /// Orders that it could not record so far.
    pub(super) failed: u32,
}
