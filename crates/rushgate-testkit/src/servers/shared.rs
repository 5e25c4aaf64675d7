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

/// Ends servers and removes folders once the program that runs the tests has ended, whatever it died of.
const WATCHER: &str = r#"
while kill -0 "$1" 2>/dev/null; do sleep 2; done
kill -9 $2
shift 2
rm -rf "$@"
rmdir "${1%/*}" && rmdir "${1%/*/*}"
"#;
/// The folder of servers that are lent has the lock of whoever has them, and says where they are.
const LOCK: &str = "lock";
const WHERE: &str = "where";

/// Servers that may be lent to one test after another.
pub trait Lendable {
    /// Where a store finds them.
    fn url(&self) -> String;

    /// All of them.
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

/// Servers on loan: nobody else has them until this is dropped, and then they run on.
pub struct Lent {
    url: String,
    /// Those with data. They are not this test's to end.
    servers: Vec<ManuallyDrop<RedisServer>>,
    _lock: File,
}

impl Lent {
    /// Servers of that name which nobody has, or new ones: empty, and with their clocks where they were. They end after
    /// the program that runs the tests has ended.
    pub fn take<S: Lendable>(name: &str, start: impl FnOnce() -> S) -> Self {
        let shelf = std::env::temp_dir().join(format!("rushgate-servers-{}", parent_id())).join(name);
        let taken = (0_u32..).find_map(|number| {
            let place = shelf.join(number.to_string());
            lock(&place).expect("the shelf can be written").map(|lock| (place, lock))
        });
        let (place, lock) = taken.expect("there is no end of numbers");
        let (url, servers) = find(&place).unwrap_or_else(|| put_up(&place, start()));
        servers.iter().for_each(|server| empty(server));
        Self { url, servers, _lock: lock }
    }

    /// Where a store finds them.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many keys they have.
    pub fn keys(&self) -> u64 {
        let keys = |server: &ManuallyDrop<RedisServer>| server.ask(&["DBSIZE"])[0].parse::<u64>();
        self.servers.iter().map(|server| keys(server).expect("a number of keys")).sum()
    }

    /// Puts their clocks to a moment.
    pub fn set_clock(&self, now: Timestamp) {
        self.servers.iter().for_each(|server| server.set_clock(now));
    }
}

/// The lock of a place, unless somebody has it.
fn lock(place: &Path) -> io::Result<Option<File>> {
    fs::create_dir_all(place)?;
    let file = File::options().create(true).truncate(false).write(true).open(place.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// What runs at a place.
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

/// Leaves servers at a place for whoever comes next.
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
    // It clears up after a test, too, that is ended together with its whole group.
    watcher.process_group(0).spawn().map(drop)
}

/// Nothing is left of whoever had it: no connection through which something might still come, and no key.
fn empty(server: &RedisServer) {
    for kind in ["normal", "pubsub"] {
        server.command(&["CLIENT", "KILL", "TYPE", kind]);
    }
    // What a replica has goes with what its primary has.
    if server.ask(&["ROLE"])[0] == "master" {
        assert_eq!(server.command(&["FLUSHALL", "SYNC"]), "+OK");
    }
    assert_eq!(server.command(&["CONFIG", "RESETSTAT"]), "+OK");
}
