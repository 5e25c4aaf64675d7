//! A Cluster keeps working while nodes die, connections and functions are lost, and slots migrate.

use crate::common;
use std::time::Duration;

use crate::common::crew::{Crew, Writes};
use crate::common::{REPLICATED, put, queue, until_it_answers};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rushgate_core::{Durability, Page, Store, Verbs};
use rushgate_redis::RedisStore;
use rushgate_test::ManualClock;
use rushgate_test::servers::{ClusterGroup, ClusterSetup, Kind, RedisServer, RedisSetup};

/// A key of each kind that the crew uses.
const HOT: [&str; 4] = ["rg:{l:door}:lock", "rg:{q:mail}:meta", "rg:{s:phones}:home", "rg:queues"];

on_each_kind! {
    a_killed_primary_is_replaced_by_its_replica_and_work_continues
    what_was_acknowledged_with_a_replica_survives_its_primary
    a_stopped_primary_is_left
    slots_move_under_load
    connections_and_functions_are_lost_while_callers_work
    every_node_is_restarted_in_turn
    a_step_follows_its_slot_half_way
    a_waiter_is_notified_after_its_node_was_replaced
    a_cluster_that_is_down_says_so_and_comes_back
    nodes_that_are_slow_to_answer_are_waited_for
    a_store_is_opened_although_a_primary_was_killed
}

async fn crew_on(group: &ClusterGroup, writes: Writes, seed: u64) -> Crew {
    let (store, other) = (common::open_at(&group.url()).await, common::open_at(&group.url()).await);
    Crew::start(&[store, other], writes, seed).await
}

async fn a_killed_primary_is_replaced_by_its_replica_and_work_continues(kind: Kind) {
    let mut group = ClusterSetup::new(kind).start();
    let crew = crew_on(&group, Writes::MayBeLost, common::seed()).await;
    crew.does(50).await;
    let hot = group.owner(HOT[0]);
    group.nodes[hot].kill();
    crew.does(50).await;
    group.nodes[hot].restart();
    crew.does(50).await;
    crew.end().await;
}

async fn what_was_acknowledged_with_a_replica_survives_its_primary(kind: Kind) {
    let mut group = ClusterSetup::new(kind).with(&REPLICATED).start();
    let crew = crew_on(&group, Writes::Kept, common::seed()).await;
    crew.does(50).await;
    let hot = group.owner(HOT[1]);
    group.nodes[hot].kill();
    common::until(|| group.is_up() && group.find_owner(HOT[1]).is_some_and(|owner| owner != hot)).await;
    // The promoted replica acknowledges writes only once it has a replica of its own.
    group.nodes[hot].restart();
    crew.does(50).await;
    let findings = crew.end().await;
    assert_eq!((findings.lost, findings.shared), (0, 0), "{findings:?}");
}

async fn a_stopped_primary_is_left(kind: Kind) {
    let group = ClusterSetup::new(kind).start();
    let crew = crew_on(&group, Writes::MayBeLost, common::seed()).await;
    crew.does(50).await;
    let hot = group.owner(HOT[2]);
    group.nodes[hot].pause();
    crew.does(50).await;
    group.nodes[hot].resume();
    crew.does(50).await;
    crew.end().await;
}

/// While a slot migrates, a function that needs two of its keys waits. None is half executed.
async fn slots_move_under_load(kind: Kind) {
    let group = ClusterSetup::new(kind).of(3, 0).start();
    let seed = common::seed();
    let crew = crew_on(&group, Writes::Kept, seed).await;
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..12 {
        let key = HOT[rng.random_range(0..HOT.len())];
        let to = (group.owner(key) + rng.random_range(1..3)) % 3;
        let mut moving = group.begin_move(key, to);
        while moving.step() {
            tokio::time::sleep(Duration::from_millis(rng.random_range(0..20))).await;
        }
        moving.end();
        crew.does(5).await;
    }
    let findings = crew.end().await;
    assert_eq!((findings.lost, findings.shared, findings.repeated), (0, 0, 0), "{findings:?}");
}

async fn connections_and_functions_are_lost_while_callers_work(kind: Kind) {
    let group = ClusterSetup::new(kind).of(3, 0).start();
    let seed = common::seed();
    let crew = crew_on(&group, Writes::Kept, seed).await;
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..30 {
        let node = &group.nodes[rng.random_range(0..3)];
        let fault: &[&str] = match rng.random_range(0..3) {
            0 => &["FUNCTION", "FLUSH", "SYNC"],
            1 => &["CLIENT", "KILL", "TYPE", "normal"],
            _ => &["CLIENT", "KILL", "TYPE", "pubsub"],
        };
        node.command(fault);
        crew.does(2).await;
    }
    let findings = crew.end().await;
    assert_eq!((findings.lost, findings.shared, findings.repeated), (0, 0, 0), "{findings:?}");
}

async fn every_node_is_restarted_in_turn(kind: Kind) {
    let mut group = ClusterSetup::new(kind).of(3, 0).start();
    let crew = crew_on(&group, Writes::Kept, common::seed()).await;
    for node in 0..3 {
        crew.does(20).await;
        group.nodes[node].restart();
    }
    crew.does(20).await;
    let findings = crew.end().await;
    assert_eq!((findings.lost, findings.shared), (0, 0), "{findings:?}");
}

/// `ASK` for a key that has migrated, `TRYAGAIN` for several keys of which some have, `MOVED` once all have.
async fn a_step_follows_its_slot_half_way(kind: Kind) {
    let group = ClusterSetup::new(kind).of(3, 0).start();
    let store = common::open_at(&group.url()).await;
    put(&store, 1).await.unwrap();

    let mut directory = group.begin_move("rg:queues", (group.owner("rg:queues") + 1) % 3);
    assert!(directory.step(), "the directory has one key");
    assert_eq!(store.queues(Page::default()).await.unwrap(), [queue()], "its key has gone ahead");
    directory.end();
    assert_eq!(store.queues(Page::default()).await.unwrap(), [queue()]);

    let mut moving = group.begin_move(HOT[1], (group.owner(HOT[1]) + 1) % 3);
    assert!(moving.step(), "one of the keys of the queue");
    let error = put(&store, 2).await.unwrap_err();
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    assert!(error.to_string().contains("TRYAGAIN"), "{error}");
    // A request sent now waits until the other keys have migrated.
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { put(&store, 3).await }
    });
    while moving.step() {}
    moving.end();
    waiting.await.unwrap().unwrap();
    put(&store, 2).await.unwrap();
    assert_eq!(store.stats(&queue()).await.unwrap().ready, 3);
}

async fn a_waiter_is_notified_after_its_node_was_replaced(kind: Kind) {
    let mut group = ClusterSetup::new(kind).with(&["--cluster-replica-validity-factor", "0"]).start();
    common::a_waiter_is_notified_although(&group.url(), async || {
        let hot = group.owner(HOT[0]);
        group.nodes[hot].kill();
    })
    .await;
}

async fn a_cluster_that_is_down_says_so_and_comes_back(kind: Kind) {
    let mut group = ClusterSetup::new(kind).of(3, 0).start();
    let store = common::open_at(&group.url()).await;
    put(&store, 1).await.unwrap();
    let away = (group.owner(HOT[1]) + 1) % 3;
    group.nodes[away].kill();
    let error = loop {
        match put(&store, 2).await {
            Ok(()) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => break error,
        }
    };
    assert!(error.is_unavailable(), "{error:?}");
    common::until(|| !group.is_up()).await;
    let error = put(&store, 3).await.unwrap_err();
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    assert!(error.to_string().contains("CLUSTERDOWN"), "{error}");
    let error = RedisStore::open(&group.url()).await.err().expect("a primary is away");
    assert!(error.is_unavailable(), "{error:?}");
    group.nodes[away].restart();
    until_it_answers(|| put(&store, 3)).await;
    until_it_answers(|| store.list(Page::default())).await;
}

/// While a store is opened, no other node can answer instead.
async fn nodes_that_are_slow_to_answer_are_waited_for(kind: Kind) {
    // With a stopped clock, no node considers another one failed.
    let group = ClusterSetup::new(kind).of(3, 0).on(ManualClock::default()).start();
    group.nodes.iter().for_each(RedisServer::pause);
    let url = group.url();
    let opened = tokio::spawn(async move { common::open_at(&url).await });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    group.nodes.iter().for_each(RedisServer::resume);
    put(&opened.await.expect("it is opened"), 1).await.unwrap();
}

/// Opening waits for the failover.
async fn a_store_is_opened_although_a_primary_was_killed(kind: Kind) {
    let mut group = ClusterSetup::new(kind).start();
    group.nodes[1].kill();
    let store = common::open_at(&group.url()).await;
    for number in 1..=20 {
        until_it_answers(|| put(&store, number)).await;
    }
    assert_eq!(store.queues(Page::default()).await.unwrap(), [queue()]);
}

#[tokio::test]
async fn the_durability_class_is_that_of_the_weakest_node() {
    let group = ClusterSetup::new(Kind::Redis).of(3, 0).start();
    let open = async || common::open_at(&group.url()).await.info().durability;
    assert_eq!(common::in_time(open()).await, Durability::D1);
    group.nodes[1].command(&["CONFIG", "SET", "appendonly", "no"]);
    assert_eq!(common::in_time(open()).await, Durability::D0);
    group.nodes[2].command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let error = common::in_time(RedisStore::open(&group.url())).await.err().expect("one evicts");
    assert!(error.is_misconfigured() && error.to_string().contains("allkeys-lru"), "{error}");
}

#[tokio::test]
async fn a_user_of_an_access_list_works_on_every_node() {
    let group = ClusterSetup::new(Kind::Redis).of(3, 0).start();
    common::admit(&group.nodes, &common::IN_A_CLUSTER);
    let store = common::in_time(RedisStore::open(&common::as_user(&group.url()))).await.unwrap();
    assert!(!store.info().url.contains("pass-word"));
    for number in 1..=20 {
        put(&store, number).await.unwrap();
    }
    assert_eq!(store.queues(Page::default()).await.unwrap(), [queue()]);
    assert!(store.list(Page::default()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_server_and_a_cluster_are_distinguished() {
    let group = ClusterSetup::new(Kind::Redis).of(1, 0).start();
    let server = RedisSetup::new(Kind::Redis).start();
    for (url, word) in [
        (format!("redis://127.0.0.1:{}", group.nodes[0].port()), "part of a Cluster"),
        (format!("redis+cluster://127.0.0.1:{}", server.port()), "not part of a Cluster"),
    ] {
        let error = common::in_time(RedisStore::open(&url)).await.err().expect("it is the other");
        assert!(error.is_misconfigured() && error.to_string().contains(word), "{error:?}");
    }
}
