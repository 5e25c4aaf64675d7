//! Embedded store of Rushgate: locks, queues and sales in one SQLite file, shared by the processes of one machine.
//!
//! - One thread writes. It executes all waiting calls in one transaction and commits; a single call does not wait for
//!   others. A second thread syncs the log and answers the callers while the next calls execute. Two more threads
//!   read.
//! - No call is answered before the log is synced: an acknowledged write survives a power cut (class D2). With
//!   `?durability=process` there is no sync. A power cut may then lose the latest writes, but the death of a process
//!   does not, and the file is never damaged (class D1).
//! - Waiters in the same process are woken at once, and waiters in other processes within about 2 ms of the write.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rushgate_core::Error> {
//! use rushgate_core::Store;
//!
//! let store = rushgate_sqlite::SqliteStore::open("sqlite::memory:")?;
//! assert!(store.info().server.starts_with("SQLite 3"));
//! store.close().await
//! # }
//! ```

mod busy;
mod clock;
mod counters;
mod fault;
mod job;
mod lock;
mod log_watch;
mod open;
mod queue;
mod read;
mod room;
mod rows;
mod sale;
mod sql;
mod step;
mod store;
mod stored;
mod sweep;
mod syncer;
mod verbs;
mod wake;
mod writer;

pub use store::{Options, SqliteStore};
