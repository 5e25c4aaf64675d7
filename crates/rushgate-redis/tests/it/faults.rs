//! Failures of real servers: each has one defined error, and work resumes after it.

use crate::common;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use rushgate_core::{
    Acquire, Acquired, BuyerId, Claim, ClientId, Completed, ContentType, Decision, Durability, Enqueued,
    HoldTime, IdempotencyKey, Lease, Line, ListedSale, LockName, NewTask, Notification, Op, Owner, Page,
    Payload, QueueName, Released, ReservationId, Reserve, Reserved, SaleId, SaleSecret, SaleSpec, SaleStatus,
    Sku, SkuSpec, Store, TaskId, Ticket, Token, UnitChoice, Verbs,
};
use rushgate_redis::RedisStore;
use rushgate_test::servers::{ClusterSetup, Kind, RedisServer, RedisSetup, SentinelSetup};

/// Longer than anything that is expected to happen.
const RETRY_BUDGET: Duration = Duration::from_secs(20);

/// Turns each test into one on Redis and one on Valkey.
macro_rules! on_each_server {
    ($($name:ident)*) => {
        mod on_redis { $(
            #[tokio::test]
            async fn $name() { super::in_time(super::$name(super::Kind::Redis)).await }
        )* }
        mod on_valkey { $(
            #[tokio::test]
            async fn $name() { super::in_time(super::$name(super::Kind::Valkey)).await }
        )* }
    };
}

on_each_server! {
    deleted_functions_are_installed_again
    one_batch_of_many_verbs_installs_deleted_functions_once
    a_killed_connection_comes_back
    waiters_are_told_to_ask_after_their_connection_was_lost
    a_restarted_server_has_everything_and_work_continues
    a_server_that_is_down_is_unavailable_and_nothing_happened
    a_full_server_takes_nothing_in_and_lets_work_end
    a_server_that_evicts_is_refused
    a_replica_is_refused_and_a_primary_made_one_takes_no_writes
    a_wrong_password_is_refused_and_never_shown
    a_user_of_an_access_list_and_a_database_work
    a_user_with_the_rights_that_the_hint_names_can_do_everything
    a_user_without_a_right_is_reported
    a_url_for_another_kind_of_server_is_reported
    a_server_without_room_for_clients_is_unavailable
    the_durability_class_is_that_of_the_settings
    a_server_that_is_loading_is_unavailable
    a_busy_server_is_unavailable_until_the_script_is_killed
    a_server_that_cannot_save_takes_no_writes
    a_server_that_cannot_write_its_log_takes_no_writes
    a_call_under_way_when_the_connection_ends_may_have_happened
    a_step_that_shared_a_refused_call_stands_though_nobody_awaits_it
    a_sale_whose_keys_are_gone_is_not_sold_again
    nothing_is_sent_to_a_server_whose_certificate_is_not_trusted
    confusing_tls_and_plain_text_is_reported
}

async fn in_time(test: impl Future<Output = ()>) {
    tokio::time::timeout(RETRY_BUDGET, test).await.expect("the test timed out");
}

fn server(kind: Kind) -> RedisServer {
    RedisSetup::new(kind).start()
}

async fn open(server: &RedisServer) -> Arc<RedisStore> {
    common::open(server).await
}

fn token(number: u64) -> Token {
    Token::new(ClientId::from_u64(1), number)
}

fn op(number: u64) -> Op {
    Op::new(ClientId::from_u64(1), number)
}

fn name() -> LockName {
    LockName::new("l").unwrap()
}

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

fn ask(number: u64, wait: Duration) -> Acquire {
    Acquire {
        name: name(),
        token: token(number),
        lease: Lease::new(Duration::from_secs(60)).unwrap(),
        wait,
        barging: false,
        owner: Owner::default(),
    }
}

async fn lock(store: &RedisStore, number: u64) -> Acquired {
    store.acquire(ask(number, Duration::from_secs(60))).await.unwrap()
}

fn task(id: &str, bytes: usize) -> NewTask {
    let payload = Payload::new(ContentType::bytes(), vec![7; bytes]).unwrap();
    NewTask::new(TaskId::new(id).unwrap(), payload)
}

async fn put(store: &RedisStore, number: u64) -> rushgate_core::Result<Vec<Enqueued>> {
    store.enqueue(op(number), &queue(), vec![task(&number.to_string(), common::UNREAD_BYTES)]).await
}

async fn claim(store: &RedisStore, number: u64) -> Vec<Ticket> {
    let lease = Lease::new(Duration::from_secs(60)).unwrap();
    let claim = Claim { n: 10, lease, worker: "w".into() };
    let claimed = store.claim(op(number), &queue(), claim).await.unwrap();
    claimed.tasks.into_iter().map(|task| task.ticket).collect()
}

fn spec() -> SaleSpec {
    SaleSpec {
        id: SaleId::new("s").unwrap(),
        skus: vec![SkuSpec { sku: Sku::new("seat").unwrap(), units: 5, per_buyer: 5 }],
        hold: HoldTime::new(Duration::from_secs(600)).unwrap(),
        opens_at: None,
        closes_at: None,
        metadata: String::new(),
        ledger: false,
        secret: SaleSecret::from_bytes([7; 16]),
    }
}

fn wish(key: &str) -> Reserve {
    let (sale, buyer) = (SaleId::new("s").unwrap(), BuyerId::new("ann").unwrap());
    let key = IdempotencyKey::new(key).unwrap();
    Reserve {
        id: ReservationId::derive(SaleSecret::from_bytes([7; 16]), &sale, &buyer, &key),
        sale,
        buyer,
        lines: vec![Line { sku: Sku::new("seat").unwrap(), quantity: 1 }],
        choice: UnitChoice::Any,
    }
}

/// Retries until the store answers.
async fn until_it_answers<T, F>(mut call: impl FnMut() -> F) -> T
where
    F: Future<Output = rushgate_core::Result<T>>,
{
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_unavailable(), "{error:?}"),
        }
    }
}

async fn deleted_functions_are_installed_again(kind: Kind) {
    let server = server(kind);
    let store = open(&server).await;
    for number in 1..=3 {
        assert_eq!(server.command(&["FUNCTION", "FLUSH", "SYNC"]), "+OK");
        let together = (0..20).map(|n| put(&store, 100 * number + n));
        for answer in futures_util::future::join_all(together).await {
            assert!(matches!(answer.unwrap()[0], Enqueued::Added { .. }));
        }
    }
    assert_eq!(store.stats(&queue()).await.unwrap().ready, 60);
}

/// Sends two pipelines to a paused server, which is the most in flight. Later requests wait and share a pipeline.
async fn two_under_way<'s>(
    store: &'s RedisStore,
    name: &'s LockName,
    number: u64,
) -> Vec<rushgate_core::Answer<'s, Option<rushgate_core::Grant>>> {
    let mut under_way = Vec::new();
    for _ in 0..2 {
        let sent = store.calls().transactions;
        under_way.push(store.held(name, token(number)));
        in_time(async {
            while store.calls().transactions == sent {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    under_way
}

async fn one_batch_of_many_verbs_installs_deleted_functions_once(kind: Kind) {
    let server = server(kind);
    let store = open(&server).await;
    let id = SaleId::new("s").unwrap();
    store.create(spec()).await.unwrap();
    store.open(&id).await.unwrap();
    // If the flush comes before the questions, these install the library again. Then another round is needed.
    for round in 1..=100 {
        let name = name();
        assert_eq!(server.command(&["CONFIG", "RESETSTAT"]), "+OK");
        server.pause();
        let under_way = two_under_way(&store, &name, round).await;
        // It arrives before the pipeline, which is sent when the requests in flight are answered.
        let _flush = send_only(&server, "FUNCTION FLUSH\r\n");
        let key = round.to_string();
        let added = put(&store, round);
        let locked = store.acquire(ask(round, Duration::ZERO));
        let reserved = store.reserve(wish(&key));
        let stats = store.stats(&queue());
        let sale = store.sale(&id);
        let released = store.release(&name, token(round));
        let claimed = claim(&store, 100 + round);
        // Async functions of this test send at the first poll. The other calls were sent when they were made.
        let all = async { tokio::join!(added, locked, reserved, stats, sale, released, claimed) };
        let resumed = async { server.resume() };
        let ((added, locked, reserved, stats, sale, released, claimed), ()) = tokio::join!(all, resumed);
        assert!(matches!(added.unwrap()[0], Enqueued::Added { .. }));
        assert!(matches!(locked.unwrap(), Acquired::Granted(_)));
        let Ok(Reserved::Reserved(held)) = reserved else { panic!("{reserved:?}") };
        assert!(matches!(store.cancel_hold(&id, held.id).await, Ok(Decision::Done(_))));
        assert_eq!(stats.unwrap().ready, 0, "the one of each round was claimed");
        assert_eq!(sale.unwrap().skus[0].total, 5);
        assert_eq!(released.unwrap(), Released::Released, "in the order in which they were asked");
        assert_eq!(claimed.len(), 1, "it was enqueued before");
        for question in under_way {
            assert!(question.await.unwrap().is_none(), "it was asked before all others");
        }
        // Each of the seven requests in the pipeline fails at most once, and so do the two that were in flight.
        let met = unknown_functions(&server);
        assert!(met <= 9, "{met} steps met a server without their function");
        if met >= 7 {
            return;
        }
    }
    panic!("the flush never came between the questions and the batch");
}

/// How many calls failed because the server had no such function.
fn unknown_functions(server: &RedisServer) -> u64 {
    let text = server.ask(&["INFO", "errorstats"]).concat();
    let count = text.lines().find_map(|line| line.trim().strip_prefix("errorstat_ERR:count="));
    count.map_or(0, |count| count.parse().unwrap())
}

async fn a_killed_connection_comes_back(kind: Kind) {
    let server = server(kind);
    let store = open(&server).await;
    for number in 1..=5 {
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        until_it_answers(|| put(&store, number)).await;
    }
    assert_eq!(store.stats(&queue()).await.unwrap().ready, 5);
}

async fn waiters_are_told_to_ask_after_their_connection_was_lost(kind: Kind) {
    let server = server(kind);
    let store = open(&server).await;
    assert!(matches!(lock(&store, 1).await, Acquired::Granted(_)));
    assert!(matches!(lock(&store, 2).await, Acquired::Queued(_)));
    let (news, ready) = (store.notification(token(2)), store.ready(&queue()));
    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(news.await.unwrap(), Notification::Ask);
    ready.await.unwrap();
    // Notifications arrive again.
    let news = store.notification(token(2));
    assert_eq!(store.release(&name(), token(1)).await.unwrap(), Released::Released);
    assert!(matches!(news.await.unwrap(), Notification::Handed(_)));
    assert!(matches!(lock(&store, 2).await, Acquired::Granted(_)));
}

async fn a_restarted_server_has_everything_and_work_continues(kind: Kind) {
    let mut server = server(kind);
    let store = open(&server).await;
    let Acquired::Granted(before) = lock(&store, 1).await else { panic!("the lock is free") };
    put(&store, 1).await.unwrap();
    let news = store.notification(token(1));
    server.kill();
    let error = put(&store, 2).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    server.restart();
    assert_eq!(news.await.unwrap(), Notification::Ask);
    let Acquired::Granted(after) = until_it_answers(|| store.acquire(ask(1, Duration::ZERO))).await else {
        panic!("the token still holds the lock")
    };
    assert_eq!(after.fence, before.fence);
    // The call whose answer was lost is retried, and was executed once.
    until_it_answers(|| put(&store, 2)).await;
    assert_eq!(store.stats(&queue()).await.unwrap().ready, 2);
}

async fn a_server_that_is_down_is_unavailable_and_nothing_happened(kind: Kind) {
    let mut server = server(kind);
    let store = open(&server).await;
    server.kill();
    let _lost = put(&store, 1).await.unwrap_err();
    let error = put(&store, 2).await.unwrap_err();
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    let error = RedisStore::open(&server.url()).await.err().expect("nobody listens");
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    assert!(error.to_string().contains("cannot reach "), "{error}");
}

async fn a_full_server_takes_nothing_in_and_lets_work_end(kind: Kind) {
    let server = server(kind);
    let store = open(&server).await;
    let id = SaleId::new("s").unwrap();
    store.create(spec()).await.unwrap();
    store.open(&id).await.unwrap();
    let Reserved::Reserved(hold) = store.reserve(wish("a")).await.unwrap() else { panic!("there is stock") };
    assert!(matches!(lock(&store, 1).await, Acquired::Granted(_)));
    assert!(matches!(lock(&store, 2).await, Acquired::Queued(_)));
    put(&store, 1).await.unwrap();
    put(&store, 2).await.unwrap();
    let tickets = claim(&store, 3).await;

    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "1"]), "+OK");
    let error = put(&store, 4).await.unwrap_err();
    assert!(error.is_full() && !error.may_have_happened(), "{error:?}");
    let error = store.reserve(wish("b")).await.unwrap_err();
    assert!(error.is_full() && !error.may_have_happened(), "{error:?}");
    // Concurrent requests share a call, but not its refusal.
    let together = (0..40).map(|n| store.reserve(wish(if n % 2 == 0 { "a" } else { "b" })));
    for (n, answer) in futures_util::future::join_all(together).await.into_iter().enumerate() {
        match answer {
            Ok(Reserved::Replayed(again)) => assert!(n % 2 == 0 && again.id == hold.id),
            Err(error) => assert!(n % 2 == 1 && error.is_full(), "{error:?}"),
            Ok(other) => panic!("{other:?}"),
        }
    }
    let lease = Lease::new(Duration::from_secs(60)).unwrap();
    let beats = tickets.iter().cloned().map(rushgate_core::Heartbeat::from).collect();
    store.extend_tasks(&queue(), beats, lease).await.unwrap();
    let done = tickets.into_iter().map(rushgate_core::Completion::from).collect();
    let done = store.complete(op(5), &queue(), done).await.unwrap();
    assert_eq!(done, [Completed::Done, Completed::Done]);
    let extend = rushgate_core::Extend { name: name(), token: token(1), lease };
    assert!(matches!(store.extend(vec![extend]).await.unwrap()[0], rushgate_core::Extended::Extended(_)));
    assert_eq!(store.release(&name(), token(1)).await.unwrap(), Released::Released);
    assert!(matches!(lock(&store, 2).await, Acquired::Granted(_)), "a hand-over can be confirmed");
    store.confirm(&id, hold.id).await.unwrap();

    assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", "0"]), "+OK");
    assert!(store.task(&queue(), &TaskId::new("4").unwrap()).await.unwrap().is_none());
    let state = store.sale(&id).await.unwrap();
    assert_eq!((state.skus[0].free, state.skus[0].confirmed, state.seq), (4, 1, 3), "nothing was written");
}

async fn a_server_that_evicts_is_refused(kind: Kind) {
    let server = RedisSetup::new(kind).with(&["--maxmemory-policy", "allkeys-lru"]).start();
    let error = RedisStore::open(&server.url()).await.err().expect("it evicts");
    assert!(error.is_misconfigured(), "{error:?}");
    assert!(error.to_string().contains("`maxmemory-policy` is `allkeys-lru`"), "{error}");
    assert!(error.hint_text().unwrap().contains("noeviction"));
}

async fn a_replica_is_refused_and_a_primary_made_one_takes_no_writes(kind: Kind) {
    let (server, primary) = (server(kind), server(kind));
    let store = open(&server).await;
    server.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    let error = put(&store, 1).await.unwrap_err();
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    let error = RedisStore::open(&server.url()).await.err().expect("it is a replica");
    assert!(error.is_misconfigured() && error.to_string().contains("replica"), "{error:?}");
    server.command(&["REPLICAOF", "NO", "ONE"]);
    until_it_answers(|| put(&store, 1)).await;
}

async fn a_wrong_password_is_refused_and_never_shown(kind: Kind) {
    let server = RedisSetup::new(kind).guarded("right-secret").start();
    let place = format!("127.0.0.1:{}", server.port());
    for url in [format!("redis://:wrong-secret@{place}"), format!("redis://{place}")] {
        let error = RedisStore::open(&url).await.err().expect("the password is wrong");
        assert!(error.is_misconfigured(), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    let store = RedisStore::open(&format!("redis://:right-secret@{place}")).await.unwrap();
    assert_eq!(store.info().url, format!("redis://{place}"));
}

async fn a_user_of_an_access_list_and_a_database_work(kind: Kind) {
    let server = server(kind);
    common::admit(slice::from_ref(&server), &[]);
    let url = format!("{}/3", common::as_user(&server.url()));
    let store = RedisStore::open(&url).await.unwrap();
    put(&store, 1).await.unwrap();
    assert!(!store.info().url.contains("pass-word"));
    assert!(
        open(&server).await.queues(Page::default()).await.unwrap().is_empty(),
        "another database is another store"
    );
}

/// Gives the user in the URL these rights only.
const RIGHTS: &str = "~rg:* &rg:in:* +@all -@dangerous +info +config|get";

async fn a_user_with_the_rights_that_the_hint_names_can_do_everything(kind: Kind) {
    let server = server(kind);
    let error = common::refused(&common::with_rights(&server, "~rg:*")).await;
    let hint = error.hint_text().expect("a hint");
    let (_, rights) = hint.split_once("`ACL SETUSER NAME ").expect("it names a rule");
    let (rights, _) = rights.split_once('`').expect("the rule ends");
    assert_eq!(rights, RIGHTS);
    let store = Arc::new(RedisStore::open(&common::with_rights(&server, rights)).await.unwrap());
    assert!(store.warnings().is_empty(), "{:?}", store.warnings());
    assert!(matches!(lock(&store, 1).await, Acquired::Granted(_)));
    assert!(matches!(lock(&store, 2).await, Acquired::Queued(_)));
    let news = store.notification(token(2));
    store.release(&name(), token(1)).await.unwrap();
    assert!(matches!(news.await.unwrap(), Notification::Handed(_)));
    put(&store, 3).await.unwrap();
    assert_eq!(claim(&store, 4).await.len(), 1);
    store.create(spec()).await.unwrap();
    store.open(&spec().id).await.unwrap();
    let Reserved::Reserved(hold) = store.reserve(wish("a")).await.unwrap() else { panic!("there is stock") };
    store.confirm(&spec().id, hold.id).await.unwrap();
    assert_eq!(store.list(Page::default()).await.unwrap().len(), 1);
    assert_eq!(store.queues(Page::default()).await.unwrap().len(), 1);
    assert_eq!(store.sales(Page::default()).await.unwrap().len(), 1);
    let functions = rushgate_redis::functions::Functions::connect(&common::as_user(&server.url())).await;
    functions.unwrap().state().await.unwrap();
}

async fn a_user_without_a_right_is_reported(kind: Kind) {
    let server = server(kind);
    for (lacks, word) in [
        (format!("{RIGHTS} -time"), "time"),
        (RIGHTS.replace("&rg:in:*", "&other"), "channel"),
        (RIGHTS.replace("+info", "-info"), "info"),
    ] {
        let error = common::refused(&common::with_rights(&server, &lacks)).await;
        assert!(error.to_string().contains(word), "{error}");
        assert!(error.hint_text().unwrap().contains("ACL SETUSER"), "{error:?}");
    }
    let store = RedisStore::open(&common::with_rights(&server, RIGHTS)).await.unwrap();
    for (lacks, is_certain) in [
        // It may follow another write.
        ("-zadd", false),
        // Every function begins with it, but Redis 7.0 does not say which command it denies.
        ("-time", kind == Kind::Valkey),
        ("-fcall", true),
    ] {
        common::with_rights(&server, &format!("{RIGHTS} {lacks}"));
        let error = put(&store, 1).await.unwrap_err();
        assert!(error.is_misconfigured() && error.may_have_happened() != is_certain, "{lacks}: {error:?}");
        assert!(error.hint_text().unwrap().contains("ACL SETUSER"), "{error:?}");
    }
}

async fn a_url_for_another_kind_of_server_is_reported(kind: Kind) {
    let alone = server(kind);
    let watched = SentinelSetup::new(kind).of(0, 1).start();
    let member = ClusterSetup::new(kind).of(1, 0).start();
    let (alone, sentinel) = (alone.port(), watched.sentinels[0].port());
    let member = member.nodes[0].port();
    for (url, word, hint) in [
        (format!("redis://127.0.0.1:{alone}/99"), "no database", "`databases`"),
        (format!("redis://127.0.0.1:{member}/1"), "part of a Cluster", "redis+cluster://"),
        (format!("redis://127.0.0.1:{sentinel}"), "is a sentinel", "redis+sentinel://"),
        (format!("redis+cluster://127.0.0.1:{sentinel}"), "is a sentinel", "redis+sentinel://"),
        (format!("redis+cluster://127.0.0.1:{alone}"), "not part of a Cluster", "redis://"),
        (format!("redis+sentinel://127.0.0.1:{alone}/shop"), "not a sentinel", "26379"),
    ] {
        let error = common::refused(&url).await;
        assert!(error.to_string().contains(word), "{url}: {error}");
        assert!(error.hint_text().is_some_and(|text| text.contains(hint)), "{url}: {error:?}");
    }
}

async fn a_server_without_room_for_clients_is_unavailable(kind: Kind) {
    let server = server(kind);
    let store = open(&server).await;
    assert_eq!(server.command(&["CONFIG", "SET", "maxclients", "1"]), "+OK");
    let error = RedisStore::open(&server.url()).await.err().expect("there is no room");
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    assert!(error.hint_text().unwrap().contains("maxclients"), "{error:?}");
    put(&store, 1).await.unwrap();
}

async fn the_durability_class_is_that_of_the_settings(kind: Kind) {
    let server = server(kind);
    for (setting, value, class) in [
        ("appendfsync", "everysec", Durability::D1),
        ("appendfsync", "always", Durability::D2),
        ("min-replicas-to-write", "1", Durability::D3),
        ("appendonly", "no", Durability::D0),
    ] {
        server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
        assert_eq!(server.command(&["CONFIG", "SET", setting, value]), "+OK");
        if class == Durability::D3 {
            // A server that requires missing replicas refuses writes, but answers INFO.
            let store = open(&server).await;
            assert_eq!(store.info().durability, class);
            let error = put(&store, 1).await.unwrap_err();
            assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
            continue;
        }
        assert_eq!(open(&server).await.info().durability, class, "{setting} {value}");
    }
}

async fn a_server_that_is_loading_is_unavailable(kind: Kind) {
    let server = server(kind);
    let store = open(&server).await;
    put(&store, 1).await.unwrap();
    for number in 0..200 {
        server.command(&["SET", &format!("filler:{number}"), "x"]);
    }
    server.command(&["CONFIG", "SET", "key-load-delay", "20000"]);
    server.command(&["CONFIG", "SET", "loading-process-events-interval-bytes", "1024"]);
    let _reload = send_only(&server, "DEBUG RELOAD\r\n");
    let error = loop {
        if let Err(error) = put(&store, 2).await {
            break error;
        }
    };
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    assert!(error.to_string().contains("loading"), "{error}");
    until_it_answers(|| store.stats(&queue())).await;
}

/// Sends a command without waiting for its answer.
fn send_only(server: &RedisServer, line: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
    stream
}

async fn a_busy_server_is_unavailable_until_the_script_is_killed(kind: Kind) {
    let server = server(kind);
    let store = open(&server).await;
    server.command(&["CONFIG", "SET", "busy-reply-threshold", "50"]);
    let _busy = send_only(&server, "EVAL 'while true do end' 0\r\n");
    let error = loop {
        if let Err(error) = put(&store, 1).await {
            break error;
        }
    };
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    assert!(error.to_string().contains("busy"), "{error}");
    assert!(error.hint_text().unwrap().contains("SCRIPT KILL"));
    let error = RedisStore::open(&server.url()).await.err().expect("it is busy");
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    assert_eq!(server.command(&["SCRIPT", "KILL"]), "+OK");
    until_it_answers(|| put(&store, 1)).await;
}

async fn a_server_that_cannot_save_takes_no_writes(kind: Kind) {
    let settings = ["--save", "3600 1", "--enable-protected-configs", "yes"];
    let server = RedisSetup::new(kind).with(&settings).start();
    let store = open(&server).await;
    put(&store, 1).await.unwrap();
    std::fs::remove_dir_all(server.folder()).unwrap();
    common::until(|| {
        server.command(&["BGSAVE"]);
        server.ask(&["INFO", "persistence"]).concat().contains("rdb_last_bgsave_status:err")
    })
    .await;
    let error = put(&store, 2).await.unwrap_err();
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    assert!(error.to_string().contains("disk"), "{error}");
    assert_eq!(store.held(&name(), token(1)).await.unwrap(), None, "it answers questions");
    std::fs::create_dir_all(server.folder()).unwrap();
    let folder = server.folder().display().to_string();
    assert_eq!(server.command(&["CONFIG", "SET", "dir", &folder]), "+OK");
    until_it_answers(async || {
        server.command(&["BGSAVE"]);
        put(&store, 2).await
    })
    .await;
    assert_eq!(store.stats(&queue()).await.unwrap().ready, 2);
}

async fn a_server_that_cannot_write_its_log_takes_no_writes(kind: Kind) {
    let server = server(kind);
    let store = open(&server).await;
    put(&store, 1).await.unwrap();
    // The next AOF file is on a full disk.
    let folder = server.folder().join("appendonlydir");
    let number_of = |name: &str| name.strip_suffix(".incr.aof")?.rsplit('.').next()?.parse::<u32>().ok();
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name());
    let latest = files.filter_map(|name| number_of(name.to_str()?)).max().expect("it has a log");
    let next = folder.join(format!("appendonly.aof.{}.incr.aof", latest + 1));
    std::os::unix::fs::symlink("/dev/full", next).unwrap();
    begin_another_log(&server).await;
    let mut number = 2;
    let error = loop {
        match put(&store, number).await {
            // The write is in the server's memory before the AOF write fails.
            Ok(_) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    assert!(error.to_string().contains("disk"), "{error}");
    assert_eq!(store.held(&name(), token(1)).await.unwrap(), None, "it answers questions");
    begin_another_log(&server).await;
    until_it_answers(|| put(&store, number)).await;
    assert_eq!(store.stats(&queue()).await.unwrap().ready, number);
}

async fn begin_another_log(server: &RedisServer) {
    common::until(|| server.command(&["BGREWRITEAOF"]).starts_with("+Background")).await;
}

async fn a_call_under_way_when_the_connection_ends_may_have_happened(kind: Kind) {
    let mut server = server(kind);
    let store = open(&server).await;
    put(&store, 1).await.unwrap();
    server.pause();
    let under_way = put(&store, 2);
    let ended = async {
        in_time(common::until_unread(server.port())).await;
        server.kill();
    };
    let (answer, ()) = tokio::join!(under_way, ended);
    let error = answer.unwrap_err();
    assert!(error.is_unavailable() && error.may_have_happened(), "{error:?}");
    let error = put(&store, 3).await.unwrap_err();
    assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
    server.restart();
    until_it_answers(|| put(&store, 2)).await;
    assert_eq!(store.stats(&queue()).await.unwrap().ready, 2);
}

async fn a_step_that_shared_a_refused_call_stands_though_nobody_awaits_it(kind: Kind) {
    let server = server(kind);
    let store = open(&server).await;
    let [good, bad] = ["good", "bad"].map(|name| LockName::new(name).unwrap());
    for (name, number) in [(&good, 1), (&bad, 2)] {
        let acquired = store.acquire(Acquire { name: name.clone(), ..ask(number, Duration::ZERO) }).await;
        assert!(matches!(acquired.unwrap(), Acquired::Granted(_)));
    }
    server.command(&["DEL", "rg:{l:bad}:lock"]);
    server.command(&["LPUSH", "rg:{l:bad}:lock", "no lock at all"]);

    server.pause();
    let under_way = two_under_way(&store, &good, 1).await;
    drop(store.release(&good, token(1)));
    let refused = store.release(&bad, token(2));
    let before = store.calls().statements;
    server.resume();
    let error = refused.await.unwrap_err();
    assert!(error.is_corrupt() || error.is_bug() || error.is_misconfigured(), "{error:?}");
    for question in under_way {
        assert!(question.await.unwrap().is_some(), "it was asked before the release");
    }
    // One shared call, and one for each of the two requests.
    assert_eq!(store.calls().statements - before, 3);
    let next = store.acquire(Acquire { name: good, ..ask(5, Duration::ZERO) }).await.unwrap();
    assert!(matches!(next, Acquired::Granted(_)), "nobody holds it: {next:?}");
}

async fn a_sale_whose_keys_are_gone_is_not_sold_again(kind: Kind) {
    let server = server(kind);
    let (store, other) = (open(&server).await, open(&server).await);
    store.create(spec()).await.unwrap();
    let sale = SaleId::new("s").unwrap();
    store.open(&sale).await.unwrap();
    assert_eq!(server.command(&["DEL", "rg:{s:s}:row"]), ":1");
    for store in [&store, &other] {
        let error = store.reserve(wish("a")).await.unwrap_err();
        assert!(error.is_corrupt() && !error.may_have_happened(), "{error:?}");
        assert!(error.to_string().contains("the keys of the sale `s` are missing"), "{error}");
        assert!(store.snapshot(&sale).await.unwrap_err().is_corrupt());
    }
    let sound = SaleSpec { id: SaleId::new("t").unwrap(), ..spec() };
    store.create(sound.clone()).await.unwrap();
    let listed = store.sales(Page::default()).await.unwrap();
    assert!(
        matches!(&listed[..], [ListedSale::Damaged(one), ListedSale::Sound(two)]
        if one.id == sale && one.damage.contains("are missing") && two.spec.id == sound.id),
        "{listed:?}"
    );
    // A rebuild begins with this.
    store.create(spec()).await.unwrap();
    assert_eq!(store.sale(&sale).await.unwrap().status, SaleStatus::Created);
}

async fn nothing_is_sent_to_a_server_whose_certificate_is_not_trusted(kind: Kind) {
    let alone = RedisSetup::new(kind).encrypted().start();
    let watched = SentinelSetup::new(kind).of(0, 2).encrypted().start();
    let cluster = ClusterSetup::new(kind).of(3, 0).encrypted().start();
    for (url, servers) in [
        (alone.url(), slice::from_ref(&alone)),
        (watched.url(), &watched.sentinels),
        (cluster.url(), &cluster.nodes),
    ] {
        let error = common::refused(&common::as_user(&url)).await;
        assert!(error.to_string().contains("certificate"), "{error}");
        assert!(error.hint_text().unwrap().contains("SSL_CERT_FILE"), "{error:?}");
        assert!(!servers.iter().any(common::was_spoken_to), "{url}");
    }
}

async fn confusing_tls_and_plain_text_is_reported(kind: Kind) {
    let (plain, encrypted) = (RedisSetup::new(kind).start(), RedisSetup::new(kind).encrypted().start());
    for (url, hint) in [
        (plain.url().replace("redis:", "rediss:"), "change rediss to redis"),
        (encrypted.url().replace("rediss:", "redis:"), "change redis to rediss"),
    ] {
        let error = RedisStore::open(&url).await.err().expect("they do not understand each other");
        // One side sees a silent peer, the other a closed connection.
        assert!(error.is_unavailable() && !error.may_have_happened(), "{error:?}");
        assert!(error.hint_text().unwrap().contains(hint), "{error:?}");
    }
}

#[tokio::test]
async fn something_that_is_no_store_is_said_to_be_none() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let open = async |scheme: &str| {
        let opened = in_time_value(RedisStore::open(&format!("{scheme}://127.0.0.1:{port}"))).await;
        opened.err().expect("it speaks another language")
    };
    let error = open("redis").await;
    assert!(
        error.is_misconfigured() && error.to_string().ends_with("is not a Redis or Valkey server"),
        "{error:?}"
    );
    let error = open("rediss").await;
    assert!(error.is_misconfigured() && error.to_string().contains("does not speak TLS"), "{error:?}");
}

async fn in_time_value<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(RETRY_BUDGET, work).await.expect("the test timed out")
}

#[tokio::test]
async fn a_url_that_cannot_be_read_is_invalid_and_its_password_is_not_shown() {
    for url in [
        "redis://:secret@",
        "redis://:secret@host:notaport",
        "redis://:secret@host/notadatabase",
        "http://:secret@host",
    ] {
        let error = RedisStore::open(url).await.err().expect("the URL is wrong");
        assert!(error.is_invalid(), "{url}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}
