//! Integration tests: a store behind a server.

mod access;
mod common;
mod contract;
mod faults;
mod history;
