//! Integration tests: the server and its pages, over HTTP.

mod access;
mod answers;
mod common;
mod conditional;
mod cors;
mod fleet;
mod input;
mod lock;
mod pages;
mod queue;
mod room;
mod sale;
mod tls;
mod watch;
