//! The executable specification: answers and effects of every verb, on plain maps, with the time as an
//! argument.
//!
//! It is written to be read. Where the model and a backend differ, the contract in `rushgate-core` decides which of
//! them is wrong.

mod clock;
mod lock;
mod queue;
mod room;
mod sale;
mod store;
mod verbs;

use crate::planted::Planted;

use clock::Clock;
pub use clock::ManualClock;
pub use store::MemoryStore;

/// Locks, queues and sales as plain maps. Every method is one step at the time `now`.
#[derive(Clone, Debug, Default)]
pub struct Model {
    locks: lock::Locks,
    queues: queue::Queues,
    sales: sale::Sales,
    rooms: room::Rooms,
    bug: Option<Planted>,
}

impl Model {
    /// Creates a model with a bug, to measure the tests.
    pub fn planted(bug: Planted) -> Self {
        Self { bug: Some(bug), ..Self::default() }
    }
}
