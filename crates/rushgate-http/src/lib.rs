//! The store behind a Rushgate server, as one of its clients sees it.
//!
//! Each verb is one request, `POST /v1/store/{verb}`, with the fields of [`Request`](rushgate_core::Request) in
//! lossless JSON. The server carries it out on its own store, so the guarantees are those of that store. A notification
//! is the end of a stream, `POST /v1/store/listen`.

#![doc = include_str!("../README.md")]

mod api;
mod client;
mod heard;
mod order;
mod store;
mod url;

pub use api::{Connections, Connector, connections, connector};
pub use client::Client;
pub use store::HttpStore;
