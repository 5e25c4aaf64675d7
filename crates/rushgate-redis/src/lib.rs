//! Rushgate's store on Redis and Valkey: locks, queues and sales that many machines share.
//!
//! - Supports Redis 7.0 and Valkey 7.2 or later: one server, `redis://[user[:password]@]host[:port][/database]`; the
//!   primary of a Sentinel service, `redis+sentinel://[user[:password]@]host[:port],…/service[/database]`; a Cluster,
//!   `redis+cluster://[user[:password]@]host[:port],…`. Use `rediss` for TLS.
//! - Each step is one function of a library on the server ([`functions`]), made of the files under `lua/`. The header of
//!   a file is its contract: keys, arguments, answers. The clock is the server's and is read once per call. Every key is declared, and all keys of one lock, queue or
//!   sale have one hash tag.
//! - Each server has one connection for commands, which sends concurrent requests in pipelines, and another one for
//!   notifications that wake waiters. Both reconnect automatically, and follow failovers and slot migrations. A
//!   notification is only a hint: the state is on the server.
//! - Opening rejects a server that cannot keep the guarantees: one that is too old, a replica, or one that evicts keys.
//!   [`info`](rushgate_core::Store::info) tells what an acknowledged write survives.
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
mod choose;
mod cluster;
mod command;
mod connection;
mod dispatcher;
mod fault;
mod function;
pub mod functions;
#[cfg(test)]
mod generate;
mod inbox;
mod keys;
mod library;
mod link;
mod listeners;
mod lock;
mod outbox;
mod plan;
mod queue;
mod reply;
mod resolver;
mod room;
mod runtime;
mod sale;
mod schedule;
mod sentinel;
mod slot;
mod store;
mod transport;
mod url;
mod verbs;
mod work;
mod worker;

pub use check::UNSEEN_SETTINGS;
pub use store::RedisStore;
