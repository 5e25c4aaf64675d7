//! Real servers, which the tests start and stop themselves, each on a free port and in a scratch folder.
//!
//! Nothing is skipped: without the server's program a test fails and says what to install.

mod postgres;
mod redis;

pub use postgres::PostgresServer;
pub use redis::{Kind, RedisServer, RedisSetup};
