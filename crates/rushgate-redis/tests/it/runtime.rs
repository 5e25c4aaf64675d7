//! Where the store runs: on the caller's runtime, or on a thread of its own.

use std::net::TcpListener;
use std::sync::Arc;

use crate::common::{ask, in_time, open, put, queue, token, until, until_unread};
use rushgate_core::{Acquire, Acquired, LockName, Page, Released, Store, Verbs};
use rushgate_redis::RedisStore;
use rushgate_test::servers::{Kind, RedisServer, RedisSetup};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

fn server() -> RedisServer {
    RedisSetup::new(Kind::Redis).start()
}

fn with_threads(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
}

fn of_this_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Whether the store has a thread of its own, which has the store's name.
fn has_thread() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.into_iter().any(|name| name.trim() == "rushgate-redis")
}

#[test]
fn a_store_opened_where_threads_are_needs_no_thread() {
    let server = server();
    let runtime = with_threads(1);
    let store = runtime.block_on(open(&server));
    assert!(!has_thread());
    assert!(matches!(runtime.block_on(store.acquire(ask(1))).unwrap(), Acquired::Granted(_)));
}

#[test]
fn a_store_whose_opener_drives_nothing_continues_on_its_own_thread() {
    let server = server();
    let (opener, user) = (of_this_thread(), with_threads(1));
    let store = opener.block_on(open(&server));
    assert!(has_thread());
    assert!(matches!(user.block_on(in_time(store.acquire(ask(1)))).unwrap(), Acquired::Granted(_)));
    user.block_on(in_time(store.close())).unwrap();
    drop(store);
    user.block_on(in_time(until(|| !has_thread())));
}

#[test]
fn a_request_after_the_end_of_the_runtime_fails() {
    let server = server();
    let (opener, user) = (with_threads(2), of_this_thread());
    let store = opener.block_on(open(&server));
    drop(opener);
    for error in [
        user.block_on(in_time(store.acquire(ask(1)))).unwrap_err(),
        user.block_on(in_time(store.ready(&queue()))).unwrap_err(),
    ] {
        assert!(error.is_unavailable() && error.to_string().contains("runtime"), "{error}");
        assert!(!error.may_have_happened(), "{error:?}");
    }
    user.block_on(in_time(store.close())).unwrap();
}

#[test]
fn a_waiter_fails_when_the_runtime_ends_and_its_step_may_have_happened() {
    let server = server();
    let (opener, user) = (with_threads(2), of_this_thread());
    let store = opener.block_on(open(&server));
    user.block_on(in_time(async {
        put(&store, 1).await.unwrap();
        let (news, ready) = (store.notification(token(1)), store.ready(&queue()));
        store.stats(&queue()).await.unwrap();
        server.pause();
        let asked = tokio::spawn({
            let store = Arc::clone(&store);
            async move { put(&store, 2).await }
        });
        until_unread(server.port()).await;
        opener.shutdown_background();
        assert!(asked.await.unwrap().unwrap_err().may_have_happened());
        assert!(news.await.unwrap_err().is_unavailable() && ready.await.unwrap_err().is_unavailable());
    }));
}

#[test]
fn a_closed_store_says_so_and_keeps_no_connection() {
    let server = server();
    with_threads(2).block_on(in_time(async {
        let clients = || server.ask(&["CLIENT", "LIST"]).concat().matches("id=").count();
        let before = clients();
        let store = open(&server).await;
        assert_eq!(clients(), before + 2);
        store.close().await.unwrap();
        until(|| clients() == before).await;
        for error in
            [store.acquire(ask(1)).await.unwrap_err(), store.queues(Page::default()).await.unwrap_err()]
        {
            assert!(error.to_string().contains("closed") && !error.may_have_happened(), "{error:?}");
        }
    }));
}

#[test]
fn a_runtime_that_cannot_carry_the_store_is_refused() {
    let server = server();
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let error = runtime.block_on(RedisStore::open(&server.url())).err().expect("there is no I/O");
    assert!(
        error.is_unavailable() && error.hint_text().is_some_and(|hint| hint.contains("enable_all")),
        "{error:?}"
    );
}

#[test]
fn an_opening_that_is_given_up_leaves_no_thread() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    of_this_thread().block_on(in_time(async {
        tokio::select! {
            _ = RedisStore::open(&url) => panic!("nobody answers"),
            () = until(has_thread) => {}
        }
        until(|| !has_thread()).await;
    }));
}

/// Requests of one caller are executed in the order in which they were made, even if none is awaited, and whichever
/// thread sends them.
#[test]
fn steps_are_sent_in_their_order_by_whatever_threads() {
    let server = server();
    with_threads(8).block_on(async {
        let store = open(&server).await;
        let callers = (0..32u64).map(|caller| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let name = LockName::new(format!("door:{caller}")).unwrap();
                for number in 0..500 {
                    let token = token(1_000 * caller + number);
                    let asked = store.acquire(Acquire { name: name.clone(), token, ..ask(number) });
                    for _ in 0..number % 8 {
                        yield_now().await;
                    }
                    let released = store.release(&name, token);
                    let (asked, released) = (asked.await.unwrap(), released.await.unwrap());
                    assert!(matches!(asked, Acquired::Granted(_)), "{caller}.{number}: {asked:?}");
                    assert_eq!(released, Released::Released, "{caller}.{number}");
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.unwrap();
        }
    });
}

/// A closed store receives no notification that another process should have.
#[test]
fn a_store_that_was_closed_listens_no_more() {
    let server = server();
    with_threads(2).block_on(async {
        for number in 1..=20 {
            let (store, other) = (open(&server).await, open(&server).await);
            drop(store.ready(&queue()));
            let listens = || server.ask(&["PUBSUB", "CHANNELS"]).len();
            let before = listens();
            store.close().await.unwrap();
            assert_eq!(listens(), before - 1);
            put(&other, number).await.unwrap();
            other.close().await.unwrap();
        }
    });
}
