//! Integration tests: the in-memory store, and the texts of all errors.

mod memory;
mod messages;
