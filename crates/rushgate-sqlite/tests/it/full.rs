//! Out of space: a call that needs more changes nothing, concurrent calls succeed, and work continues once there is
//! space.

use crate::common;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::{
    Process, ask, fresh, integrity, op, queue, say, sound_snapshot, spec, store, task, token, url, wish,
};
use rushgate_core::{
    Acquired, Enqueued, Error, EventKind, Extend, Extended, HoldState, Lease, Reserved, Store, UnitRange,
    Verbs,
};
use rushgate_sqlite::{Options, SqliteStore};

const MIB: u64 = 1 << 20;

fn small(path: &Path) -> SqliteStore {
    SqliteStore::open_with(&url(path), Options::new().max_bytes(MIB)).unwrap()
}

#[track_caller]
fn assert_full(error: &Error) {
    assert!(error.is_full() && !error.may_have_happened(), "{error:?}");
    assert!(error.to_string().contains("nothing was changed") && error.hint_text().is_some(), "{error}");
}

/// Enqueues tasks until there is no space for another, and returns their number.
async fn fill(store: &SqliteStore) -> u64 {
    for n in 0.. {
        if let Err(error) = store.enqueue(op(n), &queue("q"), vec![task(&format!("t{n}"), 20_000)]).await {
            assert_full(&error);
            return n;
        }
    }
    unreachable!("there is always a next number")
}

#[tokio::test]
async fn a_full_store_refuses_and_continues_when_there_is_room() {
    let (_folder, path) = fresh();
    let store = small(&path);
    let n = fill(&store).await;
    assert_eq!(store.stats(&queue("q")).await.unwrap().ready, n);
    store.pop(op(1_000), &queue("q"), 10).await.unwrap();
    let again = store.enqueue(op(1_001), &queue("q"), vec![task("new", 20_000)]).await.unwrap();
    assert!(matches!(again[0], Enqueued::Added { .. }));
    store.close().await.unwrap();
    assert_eq!(integrity(&path), "ok");
}

#[tokio::test]
async fn the_calls_beside_one_that_finds_no_room_are_carried_out() {
    let (_folder, path) = fresh();
    let store = small(&path);
    assert!(matches!(store.acquire(ask("l", token(1), Duration::ZERO)).await, Ok(Acquired::Granted(_))));
    let n = fill(&store).await;
    let lease = Lease::new(Duration::from_secs(60)).unwrap();
    let extend = || vec![Extend { name: common::lock("l"), token: token(1), lease }];
    let transactions = store.calls().transactions;
    // Sent without a pause, so that they form one group.
    let mut large = Vec::new();
    let mut small = Vec::new();
    for number in 0..50 {
        large.push(store.enqueue(op(2_000 + number), &queue("q"), vec![task(&format!("l{number}"), 50_000)]));
        small.push(store.extend(extend()));
    }
    for call in large {
        assert_full(&call.await.unwrap_err());
    }
    for call in small {
        assert!(matches!(call.await.unwrap()[..], [Extended::Extended(_)]));
    }
    assert!(store.calls().transactions > transactions);
    assert_eq!(store.stats(&queue("q")).await.unwrap().ready, n);
}

#[tokio::test]
async fn a_sale_in_a_full_store_has_no_half_reservations() {
    let (_folder, path) = fresh();
    let store = small(&path);
    store.create(spec(100_000)).await.unwrap();
    store.open(&common::sale("s")).await.unwrap();
    let (mut reserved, mut refused) = (0, 0);
    while refused < 200 {
        let wishes: Vec<_> =
            (0..100).map(|n| store.reserve(wish(&format!("buyer-{}", reserved + refused + n)))).collect();
        for wish in wishes {
            match wish.await {
                Ok(Reserved::Reserved(_)) => reserved += 1,
                Ok(other) => panic!("{other:?}"),
                Err(error) => {
                    assert_full(&error);
                    refused += 1;
                }
            }
        }
    }
    let snapshot = sound_snapshot(&store).await;
    assert_eq!(snapshot.reservations.len(), reserved);
    assert!(snapshot.reservations.iter().all(|row| row.hold.state == HoldState::Held));
    let logged = snapshot.events.iter().filter(|event| event.kind == EventKind::Reserved).count();
    assert_eq!(logged, reserved, "each has its order in the log");
    store.close().await.unwrap();
    assert_eq!(integrity(&path), "ok");
}

// ── a disk that is full ──────────────────────────────────────────────────────────────────────────────────────────────

/// A command that runs a child with a 4 MiB disk mounted on the folder. `None` if the system does not permit mounts:
/// then only the size limit is tested.
fn on_a_small_disk(folder: &Path, test: &str) -> Option<Process> {
    let may = Command::new("unshare").args(["--mount", "--map-root-user", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        say("no disk can be mounted here");
        return None;
    }
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=4m tmpfs \"$0\" && exec \"$@\"";
    command.args(["--mount", "--map-root-user", "sh", "-c", script]).arg(folder).arg(common::this_program());
    Some(Process::of(common::with_child(command, test, &folder.join("store.db"))))
}

#[test]
fn a_full_disk_is_survived() {
    let (folder, _) = fresh();
    if let Some(child) = on_a_small_disk(folder.path(), "full::child_fills_its_disk") {
        assert_eq!(child.finish(), ["survived"]);
    }
}

#[tokio::test]
#[ignore = "started by another test in a process of its own"]
async fn child_fills_its_disk() {
    let Some(path) = common::named_file() else { return };
    let ballast = path.with_extension("ballast");
    fs::write(&ballast, vec![0; MIB as usize]).unwrap();
    let on_disk = store(&path);
    let n = fill(&on_disk).await;
    assert!(n > 10, "only {n} tasks went in");
    assert_eq!(on_disk.stats(&queue("q")).await.unwrap().ready, n);
    fs::remove_file(ballast).unwrap();
    on_disk.enqueue(op(5_000), &queue("q"), vec![task("new", 20_000)]).await.unwrap();
    on_disk.close().await.unwrap();
    assert_eq!(integrity(&path), "ok");
    assert_eq!(store(&path).stats(&queue("q")).await.unwrap().ready, n + 1);
    say("survived");
}

// ── a call that fails half-way ───────────────────────────────────────────────────────────────────────────────────────

#[tokio::test]
async fn a_call_that_fails_half_way_changes_nothing() {
    let (_folder, path) = fresh();
    let store = store(&path);
    store.create(spec(1_000)).await.unwrap();
    store.open(&common::sale("s")).await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON hold BEGIN SELECT RAISE(ABORT, 'not now'); END";
    other.execute_batch(refuse).unwrap();
    // The unit is taken and the event written before the hold fails.
    let refused = store.reserve(wish("ann"));
    let beside = store.enqueue(op(1), &queue("mail"), vec![task("a", 1)]);
    let error = refused.await.unwrap_err();
    assert!(!error.may_have_happened() && error.to_string().contains("nothing was changed"), "{error}");
    beside.await.unwrap();
    let snapshot = sound_snapshot(&store).await;
    assert!(snapshot.reservations.is_empty() && UnitRange::total(&snapshot.skus[0].free) == 1_000);
    other.execute_batch("DROP TRIGGER refuse").unwrap();
    assert!(matches!(store.reserve(wish("ann")).await.unwrap(), Reserved::Reserved(_)));
}
