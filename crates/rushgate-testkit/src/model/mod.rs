//! The specification: what every verb answers and leaves behind, on plain maps, with the time passed in.
//!
//! It is meant to be read. Where the model and a backend differ, the contract in `rushgate-core` decides which of the
//! two is wrong.

mod clock;
mod lock;
mod queue;
mod room;
mod sale;
mod store;

use crate::planted::Planted;

pub use clock::{Clock, ManualClock};
pub use store::ModelStore;

/// Locks, queues and sales as plain maps. Every method is one step at the moment `now`.
#[derive(Clone, Debug, Default)]
pub struct Model {
    locks: lock::Locks,
    queues: queue::Queues,
    sales: sale::Sales,
    rooms: room::Rooms,
    bug: Option<Planted>,
    /// Whether the step at hand has authority over queues that are reserved for orders.
    for_orders: bool,
}

impl Model {
    /// A model with a bug in it, to measure the tests.
    pub fn planted(bug: Planted) -> Self {
        Self { bug: Some(bug), ..Self::default() }
    }
}
