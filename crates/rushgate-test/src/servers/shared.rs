//! Servers that outlive the test that started them, so that most tests need not start their own.

use std::fs::{self, File, TryLockError};
use std::io;
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rushgate_core::Timestamp;

use super::redis::RedisServer;
use super::{ClusterGroup, SentinelGroup};

/// Ends servers and removes folders once the test runner has ended, for whatever reason.
const WATCHER: &str = r#"
while kill -0 "$1" 2>/dev/null; do sleep 2; done
kill -9 $2
shift 2
rm -rf "$@"
rmdir "${1%/*}" && rmdir "${1%/*/*}"
"#;
/// Lock file in the folder of lent servers, held by their current user. The second file has their addresses.
const LOCK: &str = "lock";
const WHERE: &str = "where";

/// Servers that can be lent to one test after another.
pub trait Lendable {
    /// The URL for a store.
    fn url(&self) -> String;

    /// All servers of the group.
    fn into_servers(self) -> Vec<RedisServer>;
}

impl Lendable for RedisServer {
    fn url(&self) -> String {
        self.url()
    }

    fn into_servers(self) -> Vec<RedisServer> {
        vec![self]
    }
}

impl Lendable for SentinelGroup {
    fn url(&self) -> String {
        self.url()
    }

    fn into_servers(self) -> Vec<RedisServer> {
        self.servers.into_iter().chain(self.sentinels).collect()
    }
}

impl Lendable for ClusterGroup {
    fn url(&self) -> String {
        self.url()
    }

    fn into_servers(self) -> Vec<RedisServer> {
        self.nodes
    }
}

/// Lent servers: no other process uses them until this value is dropped, and they keep running after that.
pub struct Lent {
    url: String,
    /// The servers with data. Dropping the value does not end them.
    servers: Vec<ManuallyDrop<RedisServer>>,
    _lock: File,
}

impl Lent {
    /// Takes unused servers with that name, or starts new ones. They are empty, with their clocks unchanged. They end
    /// after the test runner has ended.
    pub fn take<S: Lendable>(name: &str, start: impl FnOnce() -> S) -> Self {
        let shelf = std::env::temp_dir().join(format!("rushgate-servers-{}", parent_id())).join(name);
        let taken = (0_u32..).find_map(|number| {
            let place = shelf.join(number.to_string());
            lock(&place).expect("the shelf can be written").map(|lock| (place, lock))
        });
        let (place, lock) = taken.expect("a number is unused");
        let (url, servers) = find(&place).unwrap_or_else(|| put_up(&place, start()));
        servers.iter().for_each(|server| empty(server));
        Self { url, servers, _lock: lock }
    }

    /// The URL for a store.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Number of keys.
    pub fn keys(&self) -> u64 {
        let keys = |server: &ManuallyDrop<RedisServer>| server.ask(&["DBSIZE"])[0].parse::<u64>();
        self.servers.iter().map(|server| keys(server).expect("a number of keys")).sum()
    }

    /// Sets the servers' clocks.
    pub fn set_clock(&self, now: Timestamp) {
        self.servers.iter().for_each(|server| server.set_clock(now));
    }
}

/// Locks a place, unless it is locked.
fn lock(place: &Path) -> io::Result<Option<File>> {
    fs::create_dir_all(place)?;
    let file = File::options().create(true).truncate(false).write(true).open(place.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The servers at a place.
fn find(place: &Path) -> Option<(String, Vec<ManuallyDrop<RedisServer>>)> {
    let text = fs::read_to_string(place.join(WHERE)).ok()?;
    let mut lines = text.lines();
    let url = lines.next()?.to_owned();
    let server = |line: &str| {
        let (port, folder) = line.split_once(' ')?;
        let port = port.parse().ok()?;
        TcpStream::connect(("127.0.0.1", port)).ok()?;
        Some(ManuallyDrop::new(RedisServer::at(port, PathBuf::from(folder))))
    };
    Some((url, lines.map(server).collect::<Option<_>>()?))
}

/// Records new servers at a place, for later tests.
fn put_up(place: &Path, group: impl Lendable) -> (String, Vec<ManuallyDrop<RedisServer>>) {
    let url = group.url();
    let all: Vec<_> = group.into_servers().into_iter().map(ManuallyDrop::new).collect();
    watch(place, &all).expect("the watcher starts");
    let with_data: Vec<_> = all.into_iter().filter(|server| !server.is_sentinel()).collect();
    let mut text = format!("{url}\n");
    for server in &with_data {
        text += &format!("{} {}\n", server.port(), server.folder().display());
    }
    fs::write(place.join(WHERE), text).expect("the shelf can be written");
    (url, with_data)
}

fn watch(place: &Path, servers: &[ManuallyDrop<RedisServer>]) -> io::Result<()> {
    let pids: Vec<_> = servers.iter().filter_map(|server| server.pid()).map(|pid| pid.to_string()).collect();
    let mut watcher = Command::new("sh");
    watcher.args(["-c", WATCHER, "sh", &parent_id().to_string(), &pids.join(" ")]).arg(place);
    watcher.args(servers.iter().map(|server| server.folder()));
    watcher.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // It also cleans up after a test that is killed together with its process group.
    watcher.process_group(0).spawn().map(drop)
}

/// Removes everything that the previous user left: connections with pending commands, and keys.
fn empty(server: &RedisServer) {
    for kind in ["normal", "pubsub"] {
        server.command(&["CLIENT", "KILL", "TYPE", kind]);
    }
    // A replica is emptied with its primary.
    if server.ask(&["ROLE"])[0] == "master" {
        assert_eq!(server.command(&["FLUSHALL", "SYNC"]), "+OK");
    }
    assert_eq!(server.command(&["CONFIG", "RESETSTAT"]), "+OK");
}
