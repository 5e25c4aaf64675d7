//! Real servers for tests: started on a free port in a scratch folder, stopped with the value that stands for them.
//!
//! Nothing is skipped: without the server's program a test fails and says what to install.

mod redis;

pub use redis::{Kind, RedisServer, RedisSetup};
