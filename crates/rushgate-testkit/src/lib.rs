//! Tools to test Rushgate's backends: the model, the contract suite and fault injection.

pub mod contract;
pub mod controls;
pub mod faults;
pub mod history;
pub mod model;
pub mod planted;
pub mod servers;

pub use model::{ManualClock, Model, ModelStore};
pub use planted::Planted;
