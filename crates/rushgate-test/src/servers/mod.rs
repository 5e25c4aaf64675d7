//! Real servers that the tests start and stop, each on a free port and in a temporary folder.
//!
//! No test is skipped: without the server's program it fails, and the message says what to install.

use std::thread;
use std::time::{Duration, Instant};

mod certificates;
mod cluster;
mod ports;
mod postgres;
mod process;
mod redis;
mod sentinel;
mod setup;
mod shared;
mod wire;

pub use certificates::{Certificates, again_trusting};
pub use cluster::{ClusterGroup, ClusterSetup, SlotMove};
pub use ports::free_port;
pub use postgres::PostgresServer;
pub use process::suspend;
pub use redis::{RedisServer, RedisSetup};
pub use sentinel::{DOWN_AFTER, SERVICE, SentinelGroup, SentinelSetup};
pub use setup::{Kind, Setup};
pub use shared::{Lendable, Lent};
pub use wire::Wire;

/// Polls until the condition is true. Panics after the maximum start time of a server.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + START_MAX;
    while !is_so() {
        assert!(Instant::now() < end, "{what} took too long");
        thread::sleep(LOOK_EVERY);
    }
}

/// Maximum start time of a server, on a machine that is busy with other tests.
const START_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);
