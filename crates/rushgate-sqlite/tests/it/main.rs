//! Integration tests: the store in a file and in memory.

mod common;
mod contract;
mod counters;
mod damage;
mod follow;
mod full;
mod history;
mod idle;
mod opening;
mod periods;
mod processes;
