//! Helpers for the tests of the store.

pub mod crew;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{
    Acquire, Acquired, ClientId, ContentType, Error, Lease, LockName, NewTask, Notification, Op, Owner,
    Payload, QueueName, Store, TaskId, Timestamp, Token, Verbs,
};
use rushgate_redis::RedisStore;
use rushgate_test::ManualClock;
use rushgate_test::history::SEED_VARIABLE;
use rushgate_test::servers::{ClusterSetup, Kind, Lendable, Lent, RedisServer, RedisSetup, SentinelSetup};
use rushgate_test::{Boxed, Harness};

/// An empty store with a clock that the test controls. `peer` is another process's store on the same data.
pub struct RedisHarness {
    store: Arc<RedisStore>,
    peer: Arc<RedisStore>,
    clock: ManualClock,
    /// Last, so that the servers are returned after the stores have closed.
    servers: Lent,
}

/// The servers may have been used by an earlier test; they are empty again.
async fn harness(clock: ManualClock, servers: Lent, url: &str) -> Arc<RedisHarness> {
    servers.set_clock(clock.now());
    let (store, peer) = (open_at(url).await, open_at(url).await);
    Arc::new(RedisHarness { store, peer, clock, servers })
}

/// Turns each test into one on Redis and one on Valkey.
macro_rules! on_each_kind {
    ($($name:ident)*) => {
        mod on_redis { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { crate::common::in_time(super::$name(super::Kind::Redis)).await }
        )* }
        mod on_valkey { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { crate::common::in_time(super::$name(super::Kind::Valkey)).await }
        )* }
    };
}

/// With these settings, an acknowledged write is on a replica.
pub const REPLICATED: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "2"];

/// Creates the user `shop` of [`as_user`] with the fewest rights that suffice, plus `also`.
pub fn admit(servers: &[RedisServer], also: &[&str]) {
    let rules = ["ACL", "SETUSER", "shop", "on", ">pass-word", "~rg:*", "&rg:in:*", "+@all", "-@dangerous"];
    for server in servers {
        assert_eq!(server.command(&[&rules[..], &["+info"], also].concat()), "+OK");
    }
}

/// Further rights that the user needs on the nodes of a Cluster.
pub const IN_A_CLUSTER: [&str; 2] = ["+cluster|info", "+cluster|slots"];

/// The URL with the user `shop`.
pub fn as_user(url: &str) -> String {
    url.replace("//", "//shop:pass-word@")
}

/// The error for a URL whose servers are rejected. It must not contain the password.
pub async fn refused(url: &str) -> Error {
    let error = RedisStore::open(url).await.err().expect("it is refused");
    assert!(error.is_misconfigured() && !error.may_have_happened(), "{url}: {error:?}");
    assert!(!format!("{error} {error:?}").contains("pass-word"), "{error:?}");
    error
}

/// Whether a client has sent a password, which is sent first.
pub fn was_spoken_to(server: &RedisServer) -> bool {
    server.ask(&["INFO", "commandstats"]).concat().contains("cmdstat_auth")
}

/// Polls until the condition holds.
pub async fn until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// What `put` sends is longer than this, and periodic queries are shorter.
pub const UNREAD_BYTES: usize = 300;

/// Waits until a paused server has received a request, by the number of unread bytes that the system reports.
pub async fn until_unread(port: u16) {
    let local = format!(":{port:04X}");
    let waits = || {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        table.lines().any(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let unread =
                words.get(4).and_then(|queues| u64::from_str_radix(queues.split(':').nth(1)?, 16).ok());
            words.get(1).is_some_and(|address| address.ends_with(&local))
                && unread.is_some_and(|n| n > UNREAD_BYTES as u64)
        })
    };
    until(waits).await;
}

/// Longer than anything that is expected to happen.
pub const RETRY_BUDGET: Duration = Duration::from_secs(150);

pub async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(RETRY_BUDGET, work).await.expect("the test timed out")
}

/// The seed of this run: `RUSHGATE_SEED`, or a random one. It is printed in the test's output.
pub fn seed() -> u64 {
    let named = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok());
    let seed = named.unwrap_or_else(rand::random);
    note(&format!("replay with {SEED_VARIABLE}={seed}"));
    seed
}

/// Prints a line, which is shown if the test fails.
#[expect(clippy::print_stdout, reason = "test output")]
pub fn note(text: &str) {
    println!("{text}");
}

pub async fn open_at(url: &str) -> Arc<RedisStore> {
    Arc::new(RedisStore::open(url).await.expect("the store opens"))
}

pub async fn open(server: &RedisServer) -> Arc<RedisStore> {
    open_at(&server.url()).await
}

async fn lent<S: Lendable>(
    name: &str,
    kind: Kind,
    start: impl FnOnce(ManualClock) -> S,
) -> Arc<RedisHarness> {
    let clock = ManualClock::default();
    let servers = Lent::take(&format!("{name}-{kind:?}"), || start(clock.clone()));
    let url = servers.url().to_owned();
    harness(clock, servers, &url).await
}

async fn alone(kind: Kind) -> Arc<RedisHarness> {
    lent("alone", kind, |clock| RedisSetup::new(kind).on(clock).start()).await
}

/// A server behind a sentinel. Other tests cover failovers.
async fn behind_a_sentinel(kind: Kind) -> Arc<RedisHarness> {
    lent("behind-a-sentinel", kind, |clock| SentinelSetup::new(kind).of(0, 1).on(clock).start()).await
}

/// Three primaries, so that different names are on different servers.
async fn spread(kind: Kind) -> Arc<RedisHarness> {
    lent("cluster", kind, |clock| ClusterSetup::new(kind).of(3, 0).on(clock).start()).await
}

/// A primary, two replicas and three sentinels.
async fn replicated_behind_sentinels(kind: Kind) -> Arc<RedisHarness> {
    lent("behind-sentinels", kind, |clock| SentinelSetup::new(kind).on(clock).start()).await
}

/// Three primaries with a replica each.
async fn replicated_and_spread(kind: Kind) -> Arc<RedisHarness> {
    lent("whole-cluster", kind, |clock| ClusterSetup::new(kind).on(clock).start()).await
}

macro_rules! factories {
    ($($name:ident: $factory:ident $kind:ident)*) => { $(
        pub async fn $name() -> Arc<RedisHarness> {
            $factory(Kind::$kind).await
        }
    )* };
}

factories! {
    redis: alone Redis
    valkey: alone Valkey
    redis_sentinel: behind_a_sentinel Redis
    valkey_sentinel: behind_a_sentinel Valkey
    redis_cluster: spread Redis
    valkey_cluster: spread Valkey
    redis_sentinel_group: replicated_behind_sentinels Redis
    valkey_sentinel_group: replicated_behind_sentinels Valkey
    redis_cluster_group: replicated_and_spread Redis
    valkey_cluster_group: replicated_and_spread Valkey
}

impl Harness for RedisHarness {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn peer(&self) -> Arc<dyn Store> {
        self.peer.clone()
    }

    fn advance(&self, by: Duration) -> Boxed<'_, ()> {
        self.clock.advance(by);
        self.servers.set_clock(self.clock.now());
        Box::pin(ready(()))
    }

    fn put_back(&self, by: Duration) -> Boxed<'_, ()> {
        self.clock.put_back(by);
        self.servers.set_clock(self.clock.now());
        Box::pin(ready(()))
    }

    fn now(&self) -> Option<Timestamp> {
        Some(self.clock.now())
    }
}

pub fn queue() -> QueueName {
    QueueName::new("mail").unwrap()
}

/// Enqueues one task. The same number repeats the same call.
pub async fn put(store: &RedisStore, number: u64) -> rushgate_core::Result<()> {
    let payload = Payload::new(ContentType::bytes(), vec![7; UNREAD_BYTES]).unwrap();
    let task = NewTask::new(TaskId::new(number.to_string()).unwrap(), payload);
    store.enqueue(Op::new(ClientId::from_u64(1), number), &queue(), vec![task]).await.map(drop)
}

pub fn token(number: u64) -> Token {
    Token::new(ClientId::from_u64(1), number)
}

pub fn ask(number: u64) -> Acquire {
    let lease = Lease::new(Duration::from_secs(60)).unwrap();
    Acquire {
        name: LockName::new("door").unwrap(),
        token: token(number),
        lease,
        wait: Duration::from_secs(60),
        barging: false,
        owner: Owner::default(),
    }
}

/// Another server replaces the one on which a caller waits for a lock. The waiter is notified at once, and later of its
/// grant by the new server.
pub async fn a_waiter_is_notified_although(url: &str, server_is_replaced: impl AsyncFnOnce()) {
    let (store, other) = (open_at(url).await, open_at(url).await);
    assert!(matches!(store.acquire(ask(1)).await.unwrap(), Acquired::Granted(_)));
    assert!(matches!(other.acquire(ask(2)).await.unwrap(), Acquired::Queued(_)));
    let lost = other.notification(token(2));
    server_is_replaced().await;
    assert_eq!(lost.await.unwrap(), Notification::Ask, "a lost connection makes the waiter ask again");
    until_it_answers(|| other.acquire(ask(2))).await;
    let news = other.notification(token(2));
    until_it_answers(|| store.release(&ask(1).name, token(1))).await;
    assert!(matches!(news.await.unwrap(), Notification::Handed(_) | Notification::Ask));
    assert!(matches!(until_it_answers(|| other.acquire(ask(2))).await, Acquired::Granted(_)));
}

/// Retries until the store answers.
pub async fn until_it_answers<T, F>(mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = rushgate_core::Result<T>>,
{
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_unavailable(), "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Creates the user of [`as_user`] with these rights, and returns the URL with it.
pub fn with_rights(server: &RedisServer, rights: &str) -> String {
    let rights: Vec<_> = rights.split(' ').collect();
    let rules = [&["ACL", "SETUSER", "shop", "reset", "on", ">pass-word"], &rights[..]].concat();
    assert_eq!(server.command(&rules), "+OK");
    as_user(&server.url())
}
