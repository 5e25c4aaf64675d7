//! Opening a store installs the function library: once for a whole fleet, and again if the server lost it.

use crate::common::{ask, open, refused, token, with_rights};
use futures_util::future::join_all;
use rushgate_core::{Acquire, Acquired, LockName, Released, Verbs};
use rushgate_redis::RedisStore;
use rushgate_redis::functions::{Functions, State, code, version};
use rushgate_test::servers::{Kind, RedisServer, RedisSetup};

on_each_kind! {
    opening_a_store_installs_the_library_and_replaces_an_older_one
    processes_that_open_an_empty_server_install_the_library_once_among_them
    calls_stand_while_the_server_loses_the_library_again_and_again
    a_user_who_may_not_install_the_library_is_told_who_must
    a_server_that_accepts_no_writes_gets_the_library_when_it_does
    the_library_uses_no_global_name_that_the_server_does_not_have
}

const PROCESSES: u64 = 100;
/// The rights in docs/servers.md, without that to install the library.
const RIGHTS: &str = "~rg:* &rg:in:* +@all -@dangerous -function|load +info +config|get";

/// Reads the names of globals from the bytecode of a library.
const GLOBALS: &str = include_str!("globals.lua");

/// How often the library was installed on the server since it started.
fn installed(server: &RedisServer) -> u64 {
    let text = server.ask(&["INFO", "commandstats"]).concat();
    let Some(stats) = text.lines().find_map(|line| line.strip_prefix("cmdstat_function|load:")) else {
        return 0;
    };
    let number = |name: &str| -> u64 {
        let found = stats.trim().split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        found.expect("the server counts it").parse().unwrap()
    };
    number("calls") - number("failed_calls")
}

async fn use_lock(store: &RedisStore, number: u64) {
    let name = LockName::new(format!("door:{number}")).unwrap();
    let asked = store.acquire(Acquire { name: name.clone(), token: token(number), ..ask(number) });
    assert!(matches!(asked.await.unwrap(), Acquired::Granted(_)), "{number}");
    assert_eq!(store.release(&name, token(number)).await.unwrap(), Released::Released, "{number}");
}

async fn state(server: &RedisServer) -> State {
    Functions::connect(&server.url()).await.unwrap().state().await.unwrap()
}

async fn opening_a_store_installs_the_library_and_replaces_an_older_one(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    assert_eq!(state(&server).await, State::Missing, "a look installs nothing");
    for number in 1..=2 {
        use_lock(&*open(&server).await, number).await;
        assert_eq!(installed(&server), 1);
    }
    let older = code().replace(version(), "0.0.1");
    assert_eq!(server.command(&["FUNCTION", "LOAD", "REPLACE", &older]), "$10");
    use_lock(&*open(&server).await, 3).await;
    assert_eq!(state(&server).await, State::Same);
    let newer = code().replace(version(), "99.0.0");
    assert_eq!(server.command(&["FUNCTION", "LOAD", "REPLACE", &newer]), "$10");
    use_lock(&*open(&server).await, 4).await;
    assert_eq!(state(&server).await, State::Newer { version: "99.0.0".into() });
}

async fn processes_that_open_an_empty_server_install_the_library_once_among_them(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let stores = join_all((0..PROCESSES).map(|_| open(&server))).await;
    assert_eq!(installed(&server), 1);
    // The same for a fleet that is connected when the server loses it.
    assert_eq!(server.command(&["FUNCTION", "FLUSH", "SYNC"]), "+OK");
    join_all(stores.iter().zip(1..).map(|(store, n)| use_lock(store, n))).await;
    assert_eq!(installed(&server), 2);
}

async fn calls_stand_while_the_server_loses_the_library_again_and_again(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let stores = join_all((0..8).map(|_| open(&server))).await;
    let callers = stores.iter().zip(1..).map(async |(store, caller)| {
        for number in 0..100 {
            if caller == 1 && number % 10 == 0 {
                assert_eq!(server.command(&["FUNCTION", "FLUSH", "SYNC"]), "+OK");
            }
            use_lock(store, 1_000 * caller + number).await;
        }
    });
    join_all(callers).await;
    assert_eq!(installed(&server), 11, "once for each loss, and at first");
}

async fn a_user_who_may_not_install_the_library_is_told_who_must(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let error = refused(&with_rights(&server, RIGHTS)).await;
    assert!(error.to_string().contains("may not install"), "{error}");
    assert!(error.hint_text().unwrap().contains("rushgate functions install"), "{error:?}");
    let older = code().replace(version(), "0.0.1");
    assert_eq!(server.command(&["FUNCTION", "LOAD", "REPLACE", &older]), "$10");
    // An older library of the same protocol has the same functions.
    use_lock(&RedisStore::open(&with_rights(&server, RIGHTS)).await.unwrap(), 1).await;
    assert_eq!(state(&server).await, State::Older { version: "0.0.1".into() });
}

async fn a_server_that_accepts_no_writes_gets_the_library_when_it_does(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let limit = |bytes| assert_eq!(server.command(&["CONFIG", "SET", "maxmemory", bytes]), "+OK");
    limit("1");
    let store = open(&server).await;
    let error = store.acquire(ask(1)).await.unwrap_err();
    assert!(error.to_string().contains("memory limit"), "{error}");
    limit("0");
    use_lock(&store, 1).await;
    // The same with an older library, whose functions answer until it can be replaced.
    let older = code().replace(version(), "0.0.1");
    assert_eq!(server.command(&["FUNCTION", "LOAD", "REPLACE", &older]), "$10");
    limit("1");
    let store = open(&server).await;
    limit("0");
    use_lock(&store, 2).await;
    assert_eq!(state(&server).await, State::Older { version: "0.0.1".into() });
}

/// A misspelled name would be found only by a call that needs it.
async fn the_library_uses_no_global_name_that_the_server_does_not_have(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let wrong = |code: &str| server.ask(&["EVAL", GLOBALS, "0", code]);
    assert_eq!(wrong(code()), [""; 0]);
    let misspelled = code().replacen("local function hand_over(", "local function handover(", 1);
    let found = wrong(&misspelled);
    assert!(!found.is_empty() && found.iter().all(|name| name.ends_with(": hand_over")), "{found:?}");
}
