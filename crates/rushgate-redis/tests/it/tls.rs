//! TLS: one server, sentinels with their servers, and a Cluster, each with a user and a password. The servers accept
//! only TLS.

use crate::common;
use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use crate::common::crew::{Crew, Writes};
use crate::common::{
    IN_A_CLUSTER, REPLICATED, admit, as_user, ask, put, queue, refused, until_it_answers, was_spoken_to,
};
use rushgate_core::{Acquired, Durability, Store, Verbs};
use rushgate_redis::RedisStore;
use rushgate_test::servers::{ClusterSetup, Kind, RedisServer, RedisSetup, SentinelSetup, again_trusting};

/// Turns each test into one on Redis and one on Valkey, in a process that trusts the servers' CA.
macro_rules! on_each_kind {
    ($($name:ident)*) => {
        mod on_redis { $(on_each_kind! { "tls::on_redis::" Redis $name })* }
        mod on_valkey { $(on_each_kind! { "tls::on_valkey::" Valkey $name })* }
    };
    ($module:literal $kind:ident $name:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            if !super::again_trusting(concat!($module, stringify!($name))) {
                crate::common::in_time(super::$name(super::Kind::$kind)).await;
            }
        }
    };
}

on_each_kind! {
    a_connection_is_encrypted_and_the_certificate_is_checked
    a_server_that_wants_a_certificate_of_its_clients_is_misconfigured
    work_continues_over_tls_when_a_primary_behind_sentinels_is_killed
    work_continues_over_tls_when_slots_of_a_cluster_move_and_a_primary_is_killed
}

/// In an unoptimized build on a busy machine, handshakes may take longer than the second in which one of several
/// servers must answer.
async fn open(url: &str) -> Arc<RedisStore> {
    Arc::new(until_it_answers(|| RedisStore::open(url)).await)
}

async fn a_connection_is_encrypted_and_the_certificate_is_checked(kind: Kind) {
    let server = RedisSetup::new(kind).encrypted().start();
    admit(from_ref(&server), &[]);
    assert!(!was_spoken_to(&server));
    let store = common::open_at(&as_user(&server.url())).await;
    assert!(was_spoken_to(&server));
    assert!(matches!(store.acquire(ask(1)).await.unwrap(), Acquired::Granted(_)));
    let ready = store.ready(&queue());
    put(&store, 1).await.unwrap();
    ready.await.unwrap();
    // The certificate is valid for the address only.
    let error = refused(&as_user(&server.url()).replace("127.0.0.1", "localhost")).await;
    assert!(error.to_string().contains("certificate"), "{error}");
}

async fn a_server_that_wants_a_certificate_of_its_clients_is_misconfigured(kind: Kind) {
    let server = RedisSetup::new(kind).encrypted().with(&["--tls-auth-clients", "yes"]).start();
    let error = refused(&server.url()).await;
    assert!(error.hint_text().unwrap().contains("tls-auth-clients"), "{error:?}");
}

async fn work_continues_over_tls_when_a_primary_behind_sentinels_is_killed(kind: Kind) {
    let setup = SentinelSetup::new(kind).with(&REPLICATED).encrypted().guarded("operators-word");
    let mut group = setup.start();
    admit(&group.servers, &["+config|get"]);
    admit_to_sentinels(&group.sentinels);
    let url = as_user(&group.url());
    let (store, other) = (open(&url).await, open(&url).await);
    assert_eq!(store.info().url, group.url().replace("//", "//shop@"));
    assert_eq!(store.info().durability, Durability::D3);
    let crew = Crew::start(&[store, other], Writes::Kept, common::seed()).await;
    crew.does(50).await;
    let primary = group.primary();
    // On a busy machine a handshake may take half a second. The sentinels would then replace the new primary as well, and
    // Valkey 8.0.1 may crash when it becomes a replica again over TLS, which leaves no replica for a write.
    group.set_down_after(Duration::from_secs(3));
    group.servers[primary].kill();
    crew.does(50).await;
    assert_ne!(group.primary(), primary);
    let findings = crew.end().await;
    assert_eq!(findings.lost, 0, "{findings:?}");
}

/// The only rights needed to ask sentinels for the primary and to follow their announcements.
fn admit_to_sentinels(sentinels: &[RedisServer]) {
    let rules = ["ACL", "SETUSER", "shop", "on", ">pass-word", "&+switch-master", "+sentinel|master"];
    for sentinel in sentinels {
        assert_eq!(sentinel.command(&[&rules[..], &["+subscribe", "+ping"]].concat()), "+OK");
    }
}

async fn work_continues_over_tls_when_slots_of_a_cluster_move_and_a_primary_is_killed(kind: Kind) {
    let mut group = ClusterSetup::new(kind).encrypted().guarded("operators-word").start();
    admit(&group.nodes, &IN_A_CLUSTER);
    let url = as_user(&group.url());
    let crew = Crew::start(&[open(&url).await, open(&url).await], Writes::MayBeLost, common::seed()).await;
    for key in ["rg:{l:door}:lock", "rg:{q:mail}:meta", "rg:{s:phones}:home"] {
        crew.does(10).await;
        group.move_slot(key, (group.owner(key) + 1) % 3);
    }
    crew.does(50).await;
    let hot = group.owner("rg:{q:mail}:meta");
    group.nodes[hot].kill();
    crew.does(50).await;
    crew.end().await;
}
