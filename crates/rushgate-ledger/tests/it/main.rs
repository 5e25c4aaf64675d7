//! Integration tests: the ledger in a file and in Postgres.

#[macro_use]
mod common;

mod faults;
mod postgres;
mod processes;
mod schema;
mod write;
