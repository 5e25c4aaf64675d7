//! Integration tests: the library on every kind of store.

#[macro_use]
mod common;

mod collector;
mod damage;
mod deaths;
mod examples;
mod failover;
mod failpoints;
mod faults;
mod full;
mod idle;
mod lock;
mod outbox;
mod postgres;
mod processes;
mod queue;
mod rebuild;
mod room;
mod sale;
mod schedule;
mod trace;
mod worker;
