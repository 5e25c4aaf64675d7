//! A primary dies while callers work. Work resumes within seconds, no caller hangs, and every guarantee holds.

use crate::common;
use std::time::{Duration, Instant};

use crate::common::crew::{Crew, Writes};
use crate::common::{REPLICATED, in_time, put, queue, until_it_answers};
use rushgate_core::{Durability, Page, Store, Verbs};
use rushgate_redis::RedisStore;
use rushgate_test::servers::{Kind, RedisServer, SERVICE, SentinelGroup, SentinelSetup};

on_each_kind! {
    a_killed_primary_is_replaced_and_what_was_acknowledged_is_there
    a_stopped_primary_is_left_and_what_it_says_later_changes_nothing
    a_planned_failover_moves_everybody_at_once
    what_no_replica_has_may_have_happened
    who_may_not_read_the_settings_waits_for_a_replica_too
    a_waiter_is_notified_after_the_primary_was_replaced
    sentinels_may_be_away
    sentinels_that_are_slow_to_answer_are_waited_for
    a_store_is_opened_although_its_primary_was_killed
}

fn group(kind: Kind) -> SentinelGroup {
    SentinelSetup::new(kind).with(&REPLICATED).start()
}

async fn a_killed_primary_is_replaced_and_what_was_acknowledged_is_there(kind: Kind) {
    let mut group = group(kind);
    let store = common::open_at(&group.url()).await;
    assert_eq!(store.info().durability, Durability::D3);
    let crew = Crew::start(&[store, common::open_at(&group.url()).await], Writes::Kept, common::seed()).await;
    crew.does(50).await;
    let primary = group.primary();
    group.servers[primary].kill();
    crew.does(20).await;
    group.servers[primary].restart();
    crew.does(50).await;
    let findings = crew.end().await;
    assert_eq!((findings.lost, findings.shared), (0, 0), "{findings:?}");
}

async fn a_stopped_primary_is_left_and_what_it_says_later_changes_nothing(kind: Kind) {
    let group = group(kind);
    let store = common::open_at(&group.url()).await;
    let crew = Crew::start(&[store, common::open_at(&group.url()).await], Writes::Kept, common::seed()).await;
    crew.does(50).await;
    let primary = group.primary();
    group.servers[primary].pause();
    crew.does(20).await;
    group.servers[primary].resume();
    crew.does(50).await;
    let findings = crew.end().await;
    assert_eq!((findings.lost, findings.shared), (0, 0), "{findings:?}");
}

/// A primary that is replaced by command keeps answering until the sentinels have demoted it. If it must wait for all
/// replicas, it acknowledges nothing after one of them was promoted.
async fn a_planned_failover_moves_everybody_at_once(kind: Kind) {
    let group = SentinelSetup::new(kind).with(&REPLICATED).with(&["--min-replicas-to-write", "2"]).start();
    let store = common::open_at(&group.url()).await;
    let crew = Crew::start(&[store, common::open_at(&group.url()).await], Writes::Kept, common::seed()).await;
    crew.does(50).await;
    let primary = group.primary();
    assert_eq!(group.sentinels[0].command(&["SENTINEL", "FAILOVER", SERVICE]), "+OK");
    common::until(|| group.primary() != primary).await;
    crew.does(50).await;
    let findings = crew.end().await;
    assert_eq!((findings.lost, findings.shared), (0, 0), "{findings:?}");
}

/// The primary has executed the request, but the replica, which would be promoted, does not have it.
async fn what_no_replica_has_may_have_happened(kind: Kind) {
    let group = SentinelSetup::new(kind).of(1, 1).with(&REPLICATED).start();
    let store = common::open_at(&group.url()).await;
    until_it_answers(|| put(&store, 1)).await;
    group.servers[1].pause();
    let error = put(&store, 2).await.unwrap_err();
    assert!(error.is_unavailable() && error.may_have_happened(), "{error:?}");
    assert!(error.hint_text().unwrap().contains("min-replicas-to-write"), "{error:?}");
    // A retry is answered from the replay cache, and still no replica has it.
    let again = put(&store, 2).await.unwrap_err();
    assert!(again.may_have_happened(), "{again:?}");
    // The primary soon notices, and refuses new writes.
    let mut number = 3;
    let error = loop {
        match put(&store, number).await {
            Ok(_) => panic!("no replica has it"),
            Err(error) if error.may_have_happened() => number += 1,
            Err(error) => break error,
        }
    };
    assert!(error.is_unavailable() && error.to_string().contains("too few replicas"), "{error:?}");
    group.servers[1].resume();
    until_it_answers(|| put(&store, 2)).await;
    until_it_answers(|| put(&store, number)).await;
    assert_eq!(store.stats(&queue()).await.unwrap().ready, number, "each was done once");
}

async fn who_may_not_read_the_settings_waits_for_a_replica_too(kind: Kind) {
    let group = SentinelSetup::new(kind).of(1, 1).with(&REPLICATED).start();
    common::admit(&group.servers, &[]);
    let store = common::open_at(&common::as_user(&group.servers[0].url())).await;
    assert_eq!(store.info().durability, Durability::D3);
    until_it_answers(|| put(&store, 1)).await;
    group.servers[1].pause();
    let error = put(&store, 2).await.unwrap_err();
    assert!(error.is_unavailable() && error.may_have_happened(), "{error:?}");
    assert!(error.to_string().contains("too few replicas"), "{error:?}");
    group.servers[1].resume();
    until_it_answers(|| put(&store, 2)).await;
}

async fn a_waiter_is_notified_after_the_primary_was_replaced(kind: Kind) {
    let mut group = SentinelSetup::new(kind).start();
    common::a_waiter_is_notified_although(&group.url(), async || {
        until_replicated(&group.servers[0], 2).await;
        group.servers[0].kill();
    })
    .await;
}

/// Waits until this many replicas have all that the primary has written by now. `WAIT` would wait only for what its own
/// connection has written.
async fn until_replicated(primary: &RedisServer, replicas: usize) {
    let number = |text: &str, name: &str| {
        let (_, rest) = text.split_once(name)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    let replication = || primary.ask(&["INFO", "replication"]).concat();
    let written = number(&replication(), "master_repl_offset:").expect("it is a primary");
    let has_all = |text: &str| {
        let offsets = text.split("slave").filter_map(|of| number(of, ",offset="));
        offsets.filter(|offset| *offset >= written).count() >= replicas
    };
    common::until(|| has_all(&replication())).await;
}

async fn sentinels_may_be_away(kind: Kind) {
    let mut group = SentinelSetup::new(kind).of(0, 3).start();
    group.sentinels[0].kill();
    group.sentinels[1].pause();
    let store = common::open_at(&group.url()).await;
    let crew = Crew::start(std::slice::from_ref(&store), Writes::Kept, common::seed()).await;
    group.sentinels[2].kill();
    group.servers[0].command(&["CLIENT", "KILL", "TYPE", "normal"]);
    crew.does(20).await;
    group.sentinels[1].resume();
    // A sentinel that does not know the service counts as missing.
    assert_eq!(group.sentinels[1].command(&["SENTINEL", "REMOVE", SERVICE]), "+OK");
    group.servers[0].command(&["CLIENT", "KILL", "TYPE", "normal"]);
    crew.does(20).await;
    assert_eq!(crew.end().await.lost, 0);
    drop(store);
    group.sentinels[1].kill();
    let error = RedisStore::open(&group.url()).await.err().expect("nobody knows the primary");
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
}

/// While a store is opened, no other sentinel can answer instead.
async fn sentinels_that_are_slow_to_answer_are_waited_for(kind: Kind) {
    let group = SentinelSetup::new(kind).of(0, 1).start();
    group.sentinels[0].pause();
    let url = group.url();
    let opened = tokio::spawn(async move { common::open_at(&url).await });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    group.sentinels[0].resume();
    put(&opened.await.expect("it is opened"), 1).await.unwrap();
}

/// Opening waits for the failover, but not for sentinels that are unreachable.
async fn a_store_is_opened_although_its_primary_was_killed(kind: Kind) {
    let mut group = SentinelSetup::new(kind).of(1, 3).start();
    group.servers[0].kill();
    let store = common::open_at(&group.url()).await;
    put(&store, 1).await.unwrap();
    assert_eq!(group.primary(), 1);
    drop(store);
    group.sentinels.iter_mut().for_each(RedisServer::kill);
    let asked = Instant::now();
    let error = RedisStore::open(&group.url()).await.err().expect("nobody knows the primary");
    assert!(error.is_unavailable() && asked.elapsed() < Duration::from_secs(2), "{error:?}");
}

/// If the sentinels require a password, they get the one in the URL.
#[tokio::test]
async fn a_password_opens_sentinels_and_servers_and_is_never_shown() {
    let group = SentinelSetup::new(Kind::Redis).of(1, 1).guarded("right-secret").start();
    let url = |password: &str| group.url().replace("//", &format!("//:{password}@"));
    let error = in_time(RedisStore::open(&url("wrong-secret"))).await.err().expect("the password is wrong");
    assert!(error.is_misconfigured(), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    let store = in_time(RedisStore::open(&url("right-secret"))).await.unwrap();
    put(&store, 1).await.unwrap();
    assert_eq!(store.info().url, group.url());
    // Sentinels have no databases.
    let other = in_time(RedisStore::open(&format!("{}/2", url("right-secret")))).await.unwrap();
    assert!(other.queues(Page::default()).await.unwrap().is_empty(), "another database is another store");
}

#[tokio::test]
async fn a_service_that_no_sentinel_knows_is_said_so() {
    let group = SentinelSetup::new(Kind::Redis).of(0, 1).start();
    let url = group.url().replace(SERVICE, "other");
    let error = in_time(RedisStore::open(&url)).await.err().expect("there is no such service");
    assert!(
        error.is_misconfigured() && error.to_string().contains("do not know the service `other`"),
        "{error:?}"
    );
}
