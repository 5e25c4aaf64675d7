//! Tests for programs on Rushgate: an in-memory store whose clock moves on request.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use rushgate::Rushgate;
//! use rushgate_test::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> rushgate::Result<()> {
//! let store = MemoryStore::new();
//! let client = Rushgate::with_store(Arc::new(store.clone()));
//! let mail = client.queue_of::<String>("mail")?;
//! mail.enqueue("order:42", "Thank you".to_owned()).delay(Duration::from_secs(3600)).send().await?;
//! assert!(mail.claim(1, Duration::from_secs(30)).await?.is_empty());
//!
//! store.advance(Duration::from_secs(3600));
//! assert_eq!(mail.claim(1, Duration::from_secs(30)).await?.len(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! For programs:
//! - [`MemoryStore`]: every verb of locks, queues and sales, in memory. Two clients on clones of one store act as two
//!   processes do.
//! - [`faults`]: a store that fails, answers late or loses answers, by a plan that a seed repeats.
//! - [`servers`]: Redis, Valkey and Postgres servers of a test, started from the installed programs.
//!
//! For other stores, beside the contract suite in the crate `rushgate-contract`:
//! - [`Harness`]: an empty store and its clock.
//! - [`history`]: random sequences of calls, compared with the [`Model`].
//! - [`planted`] and [`controls`]: bugs and faulty designs that test the tests.

pub mod controls;
pub mod faults;
mod harness;
pub mod history;
pub mod model;
pub mod planted;
pub mod servers;

pub use harness::{Boxed, Harness, ModelHarness};
pub use model::{ManualClock, MemoryStore, Model};
pub use planted::Planted;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
