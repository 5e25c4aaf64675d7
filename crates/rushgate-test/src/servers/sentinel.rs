use std::time::Duration;

use rushgate_core::Timestamp;

use super::ports::free_port;
use super::redis::{RedisServer, RedisSetup};
use super::setup::{Kind, Settings, Setup};
use super::wait_until;

/// Name of the primary in the sentinels' configuration.
pub const SERVICE: &str = "shop";

/// Configuration of a primary, its replicas and sentinels.
pub type SentinelSetup = Setup<Watched>;

/// Number of replicas and sentinels.
#[derive(Clone, Debug)]
pub struct Watched {
    replicas: usize,
    sentinels: usize,
}

impl SentinelSetup {
    /// One primary, two replicas and three sentinels, which consider a primary down after half a second.
    pub fn new(kind: Kind) -> Self {
        Self { settings: Settings::of(kind), shape: Watched { replicas: 2, sentinels: 3 } }
    }

    /// Sets the number of replicas and sentinels.
    #[must_use]
    pub fn of(mut self, replicas: usize, sentinels: usize) -> Self {
        self.shape = Watched { replicas, sentinels };
        self
    }

    /// Starts the servers and waits until they know each other.
    pub fn start(self) -> SentinelGroup {
        let primary = self.server(&[]).start();
        let replica = |_| self.server(&["--replicaof", "127.0.0.1", &primary.port().to_string()]).start();
        let replicas: Vec<_> = (0..self.shape.replicas).map(replica).collect();
        wait_until("the replicas", || online_replicas(&primary) == replicas.len());
        let sentinels = self.start_sentinels(&primary, &replicas);
        let servers = std::iter::once(primary).chain(replicas).collect();
        SentinelGroup { servers, sentinels }
    }

    fn server(&self, arguments: &[&str]) -> RedisSetup {
        let mut setup = RedisSetup::of(self.settings.clone());
        if self.settings.clock.is_some() {
            // A clock that jumps must not break the replicas' links.
            setup = setup.with(&["--repl-timeout", "2000000000"]);
        }
        setup.with(&["--repl-diskless-sync-delay", "0"]).with(arguments)
    }

    /// Starts the sentinels. Their configuration lists the other sentinels and the replicas, which saves the time of
    /// discovery.
    fn start_sentinels(&self, primary: &RedisServer, replicas: &[RedisServer]) -> Vec<RedisServer> {
        let ports: Vec<_> = (0..self.shape.sentinels).map(|_| free_port()).collect();
        let sentinel = |number: usize| {
            let mut text = format!(
                "sentinel monitor {SERVICE} 127.0.0.1 {} {}\nsentinel down-after-milliseconds {SERVICE} {}\n\
                 sentinel failover-timeout {SERVICE} 3000\nsentinel parallel-syncs {SERVICE} 2\nsentinel myid {:040x}\n",
                primary.port(),
                self.shape.sentinels / 2 + 1,
                DOWN_AFTER.as_millis(),
                number + 1,
            );
            if let Some(password) = &self.settings.password {
                text += &format!("sentinel auth-pass {SERVICE} {password}\n");
            }
            for replica in replicas {
                text += &format!("sentinel known-replica {SERVICE} 127.0.0.1 {}\n", replica.port());
            }
            for (other, port) in ports.iter().enumerate().filter(|(other, _)| *other != number) {
                text += &format!("sentinel known-sentinel {SERVICE} 127.0.0.1 {port} {:040x}\n", other + 1);
            }
            RedisSetup::sentinel(&self.settings, text).on_port(ports[number]).start()
        };
        (0..self.shape.sentinels).map(sentinel).collect()
    }
}

/// How long a primary may be silent at first before the sentinels consider it down.
pub const DOWN_AFTER: Duration = Duration::from_millis(500);

/// Number of replicas that are in sync, according to the primary.
pub(super) fn online_replicas(primary: &RedisServer) -> usize {
    primary.ask(&["INFO", "replication"]).concat().matches("state=online").count()
}

/// Keeps the replicas away from a primary while it runs.
pub(super) fn cut_off_replicas(primary: &RedisServer) {
    assert_eq!(primary.command(&["ACL", "SETUSER", "default", "-psync", "-sync"]), "+OK");
    primary.command(&["CLIENT", "KILL", "TYPE", "replica"]);
    wait_until("the end of the replicas' links", || online_replicas(primary) == 0);
}

/// A primary, its replicas and their sentinels. Dropping the value ends them.
pub struct SentinelGroup {
    /// The servers. The first one was the primary at the start.
    pub servers: Vec<RedisServer>,
    /// The sentinels.
    pub sentinels: Vec<RedisServer>,
}

impl SentinelGroup {
    /// The URL with all sentinels.
    pub fn url(&self) -> String {
        let hosts: Vec<_> =
            self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
        let scheme = self.servers[0].settings().scheme();
        format!("{scheme}+sentinel://{}/{SERVICE}", hosts.join(","))
    }

    /// Index of the primary, according to the first running sentinel.
    pub fn primary(&self) -> usize {
        let sentinel = self.sentinels.iter().find(|sentinel| sentinel.pid().is_some()).expect("one runs");
        let named = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE]);
        let port = |server: &RedisServer| server.port().to_string() == named[1];
        self.servers.iter().position(port).expect("the sentinels name one of the group")
    }

    /// Keeps the replicas away from the primary while it runs: only the primary has what it acknowledges from now on.
    /// Its clients and the sentinels do not notice. Sentinels promote a replica that was away for less than ten times
    /// the down-after period.
    pub fn cut_off_replicas(&self) {
        cut_off_replicas(&self.servers[self.primary()]);
    }

    /// Sets how long the primary may be silent before the sentinels consider it down.
    pub fn set_down_after(&self, silence: Duration) {
        let set = ["SENTINEL", "SET", SERVICE, "down-after-milliseconds", &silence.as_millis().to_string()];
        self.sentinels.iter().for_each(|sentinel| assert_eq!(sentinel.command(&set), "+OK"));
    }

    /// Sets the servers' clocks.
    pub fn set_clock(&self, now: Timestamp) {
        self.servers.iter().for_each(|server| server.set_clock(now));
    }
}
