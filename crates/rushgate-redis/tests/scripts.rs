//! Script loading: each script is loaded on first use, by one process for all.

mod common;

use common::{ask, open, queue, token};
use futures_util::future::join_all;
use rushgate_core::{Acquire, Acquired, LockName, Released, Verbs};
use rushgate_redis::RedisStore;
use rushgate_testkit::servers::{Kind, RedisServer, RedisSetup};

on_each_kind! {
    a_script_is_loaded_when_it_is_first_needed
    processes_that_meet_an_empty_cache_load_each_script_once_among_them
    calls_stand_while_the_server_forgets_scripts_again_and_again
}

const PROCESSES: u64 = 100;

/// How many scripts were loaded on the server since it started.
fn loads(server: &RedisServer) -> u64 {
    let text = server.ask(&["INFO", "commandstats"]).concat();
    let count = text.lines().find_map(|line| line.strip_prefix("cmdstat_script|load:calls="));
    count.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

fn name(number: u64) -> LockName {
    LockName::new(format!("door:{number}")).unwrap()
}

async fn use_lock(store: &RedisStore, number: u64) {
    let name = name(number);
    let asked = store.acquire(Acquire { name: name.clone(), token: token(number), ..ask(number) });
    assert!(matches!(asked.await.unwrap(), Acquired::Granted(_)), "{number}");
    assert_eq!(store.release(&name, token(number)).await.unwrap(), Released::Released, "{number}");
}

async fn a_script_is_loaded_when_it_is_first_needed(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let store = open(&server).await;
    assert_eq!(loads(&server), 0, "nothing was called");
    for number in 1..=3 {
        use_lock(&store, number).await;
        assert_eq!(loads(&server), 2, "acquire and release, and each once");
    }
    store.stats(&queue()).await.unwrap();
    assert_eq!(loads(&server), 3);
    use_lock(&*open(&server).await, 4).await;
    assert_eq!(loads(&server), 3, "another process finds them");
}

async fn processes_that_meet_an_empty_cache_load_each_script_once_among_them(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    // On a busy machine, all pauses may end in one turn of this runtime. Then each process loads for itself.
    for round in 0..20 {
        let stores = join_all((0..PROCESSES).map(|_| open(&server))).await;
        let before = loads(&server);
        join_all(stores.iter().zip(1..).map(|(store, n)| use_lock(store, round * PROCESSES + n))).await;
        let loads = loads(&server) - before;
        assert!((2..=2 * PROCESSES).contains(&loads), "{loads} loads of 2 scripts");
        if loads <= PROCESSES / 5 {
            return;
        }
        assert_eq!(server.command(&["SCRIPT", "FLUSH"]), "+OK");
    }
    panic!("the processes load the same scripts in every round");
}

async fn calls_stand_while_the_server_forgets_scripts_again_and_again(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let stores = join_all((0..8).map(|_| open(&server))).await;
    let callers = stores.iter().zip(1..).map(async |(store, caller)| {
        for number in 0..100 {
            if caller == 1 && number % 10 == 0 {
                assert_eq!(server.command(&["SCRIPT", "FLUSH"]), "+OK");
            }
            use_lock(store, 1_000 * caller + number).await;
        }
    });
    join_all(callers).await;
    assert!((20..=200).contains(&loads(&server)), "{} loads of 2 scripts, 10 times", loads(&server));
}
