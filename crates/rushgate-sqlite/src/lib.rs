//! The embedded store of Rushgate: locks, queues and sales in one SQLite file, shared by the processes of one
//! machine.
//!
//! - One thread writes. It carries out the calls that are waiting in one transaction and commits; a lone call does
//!   not wait for company. Another thread syncs the log and answers them, while the next are carried out. Two threads
//!   read beside them.
//! - Nothing is answered before the log was synced: an acknowledged write survives a power cut (class D2). With
//!   `?durability=process` there is no sync: the latest writes may be lost in a power cut, but none in the death of a
//!   process, and the file is never damaged (class D1).
//! - Waiters are woken at once inside a process, and within about 2 ms by another process's write.
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
mod fault;
mod lock;
mod open;
mod queue;
mod read;
mod room;
mod sale;
mod sql;
mod step;
mod store;
mod stored;
mod sweep;
mod syncer;
mod wake;
mod writer;

pub use store::{Options, SqliteStore};
