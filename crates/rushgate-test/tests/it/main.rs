//! Integration tests: the in-memory store, faults, planted designs and the texts of all errors.

mod controls;
mod faults;
mod memory;
mod messages;
