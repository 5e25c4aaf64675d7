//! The store of Rushgate on Redis and Valkey: locks, queues and sales shared by many machines.
//!
//! - Redis 7.0 or Valkey 7.2 and later: one server, `redis://[user[:password]@]host[:port][/database]`; the primary of
//!   a service, `redis+sentinel://[user[:password]@]host[:port],…/service[/database]`; a Cluster,
//!   `redis+cluster://[user[:password]@]host[:port],…`. With `rediss` for TLS.
//! - Each verb is one Lua script under `lua/`, one file a verb. Its header is its contract: keys, arguments, answers.
//!   The clock is the server's, read once a script. Every key is declared, and all keys of one lock, queue or sale
//!   carry one hash tag.
//! - One connection to a server carries the commands, whatever waits at the same moment travelling together; another one
//!   brings the pushes that wake waiters. Both come back by themselves, and follow failovers and slots. A push is a hint:
//!   the state is in the store.
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

mod backoff;
mod check;
mod cluster;
mod command;
mod conn;
mod driver;
mod fault;
pub mod functions;
mod header;
mod inbox;
mod keys;
mod lane;
mod library;
mod listeners;
mod lock;
mod outbox;
mod queue;
mod reference;
mod reply;
mod room;
mod runtime;
mod sale;
mod schedule;
mod scripts;
mod sentinel;
mod slot;
mod store;
mod url;
mod way;
mod work;

pub use check::UNSEEN_SETTINGS;
pub use store::RedisStore;
