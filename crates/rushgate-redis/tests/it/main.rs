//! Integration tests: the store on real servers.

#[macro_use]
mod common;

mod at_once;
mod cluster;
mod contract;
mod failover;
mod faults;
mod functions;
mod history;
mod library;
mod listing;
mod memory;
mod periods;
mod runtime;
mod tls;
mod wake_ups;
