//! The store of Rushgate on Redis and Valkey: locks, queues and sales shared by many machines.
//!
//! - Redis 7.0 or Valkey 7.2 and later, standalone, over `redis://` and `rediss://` (TLS), with user, password and
//!   database: `redis://[user[:password]@]host[:port][/database]`.
//! - Each verb is one Lua script under `lua/`, one file a verb. Its header is its contract: keys, arguments, answers.
//!   The clock is the server's, read once a script. Every key is declared, and all keys of one lock, queue or sale
//!   carry one hash tag.
//! - One connection carries the commands, whatever waits at the same moment travelling together; another one brings
//!   the pushes that wake waiters. Both come back by themselves. A push is a hint: the state is in the store.
//! - Opening refuses a server with which the promises cannot be kept: too old, a replica, one that evicts keys.
//!   [`info`](rushgate_core::Store::info) says what an acknowledged write survives there.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rushgate_core::Error> {
//! use rushgate_core::Store;
//!
//! let store = rushgate_redis::RedisStore::open("redis://127.0.0.1:6379").await?;
//! println!("{:?}", store.info());
//! store.close().await
//! # }
//! ```

mod check;
mod command;
mod conn;
mod driver;
mod fault;
pub mod functions;
mod header;
mod inbox;
mod keys;
mod library;
mod listeners;
mod lock;
mod queue;
mod reference;
mod reply;
mod sale;
mod scripts;
mod store;

pub use store::RedisStore;
