//! The model, the contract suite and the faults with which Rushgate's backends are proved.

pub mod contract;
pub mod controls;
pub mod faults;
pub mod history;
pub mod model;
pub mod planted;
pub mod servers;

pub use model::{ManualClock, Model, ModelStore};
pub use planted::Planted;
