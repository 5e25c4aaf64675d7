//! Several processes on one file: they exclude each other, wake each other, and may be killed.

use crate::common;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{
    Process, ask, child_command, claim, fresh, integrity, lock, me, op, queue, refused, sale, say,
    sound_snapshot, spec, store, task, token, url, wait_for_parent, wish,
};
use rushgate_core::{
    Acquired, ClientId, Completed, Due, EventKind, Extend, Extended, Grant, Lease, NewTask, Notification,
    Released, Reserved, Store, Token, Verbs,
};
use rushgate_sqlite::{Options, SqliteStore};
use rushgate_test::ManualClock;
use rusqlite::Connection;

/// Notifications from a waiter's own timer come no earlier than this.
const TIMER: Duration = Duration::from_secs(10);

#[test]
fn eight_processes_may_open_a_fresh_file_at_once() {
    let (_folder, path) = fresh();
    let mut children: Vec<_> =
        (0..8).map(|_| Process::start("processes::child_opens_when_told", &path)).collect();
    for child in &mut children {
        assert_eq!(child.hear().as_deref(), Some("ready"));
    }
    children.iter_mut().for_each(Process::go);
    for child in children {
        assert_eq!(child.finish(), ["opened"]);
    }
    assert_eq!(integrity(&path), "ok");
}

#[tokio::test]
#[ignore = "started by another test in a process of its own"]
async fn child_opens_when_told() {
    let Some(path) = common::named_file() else { return };
    say("ready");
    wait_for_parent();
    let store = store(&path);
    store.enqueue(op(1), &queue("q"), vec![task(&me().as_u64().to_string(), 1)]).await.unwrap();
    say("opened");
    store.close().await.unwrap();
}

// ── a locked file ────────────────────────────────────────────────────────────────────────────────────────────────────

#[tokio::test]
async fn calls_wait_for_another_programs_transaction_and_fail_after_a_while() {
    let (_folder, path) = fresh();
    let busy_timeout = Duration::from_millis(300);
    let store = SqliteStore::open_with(&url(&path), Options::new().busy_timeout(busy_timeout)).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let start = Instant::now();
    let answer = store.enqueue(op(1), &queue("q"), vec![task("a", 1)]).await;
    let error = refused(answer, "unavailable", "locked for too long");
    assert!(!error.may_have_happened() && start.elapsed() >= busy_timeout);

    // Readers do not wait, and waiting writers continue at once.
    assert_eq!(store.stats(&queue("q")).await.unwrap().ready, 0);
    let waiting = store.enqueue(op(2), &queue("q"), vec![task("a", 1)]);
    other.execute_batch("ROLLBACK").unwrap();
    waiting.await.unwrap();
}

// ── mutual exclusion ─────────────────────────────────────────────────────────────────────────────────────────────────

const TASKS: u64 = 8;
const TURNS: u64 = 15;

/// Waits until the token holds the lock.
async fn wait_for(store: &SqliteStore, name: &str, token: Token) -> Grant {
    loop {
        let notification = store.notification(token);
        match store.acquire(ask(name, token, Duration::from_secs(60))).await.unwrap() {
            Acquired::Granted(grant) => return grant,
            Acquired::Queued(_) => match notification.await.unwrap() {
                Notification::Granted(grant) => return grant,
                Notification::Handed(_) | Notification::Ask | Notification::Revoked => {}
            },
            Acquired::Busy(busy) => panic!("{busy:?} although it waits"),
        }
    }
}

/// Increments a number in a file, in two steps, between which another process could interfere.
async fn count_up(file: &Path) {
    let n: u64 = fs::read_to_string(file).unwrap().parse().unwrap();
    tokio::task::yield_now().await;
    fs::write(file, (n + 1).to_string()).unwrap();
}

async fn take_turns(path: &Path) {
    let store = Arc::new(store(path));
    let counter = path.with_extension("counter");
    let mut tasks = Vec::new();
    for number in 0..TASKS {
        let (store, counter) = (Arc::clone(&store), counter.clone());
        tasks.push(tokio::spawn(async move {
            for turn in 0..TURNS {
                let token = token(number * 1_000 + turn);
                wait_for(&store, "counter", token).await;
                count_up(&counter).await;
                assert_eq!(store.release(&lock("counter"), token).await.unwrap(), Released::Released);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_never_hold_a_lock_together() {
    let (_folder, path) = fresh();
    let counter = path.with_extension("counter");
    fs::write(&counter, "0").unwrap();
    let child = Process::start("processes::child_takes_turns", &path);
    take_turns(&path).await;
    child.finish();
    assert_eq!(fs::read_to_string(counter).unwrap(), (2 * TASKS * TURNS).to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by another test in a process of its own"]
async fn child_takes_turns() {
    if let Some(path) = common::named_file() {
        take_turns(&path).await;
    }
}

#[tokio::test]
async fn a_queue_gives_no_task_to_two_processes() {
    let (_folder, path) = fresh();
    let ids: BTreeSet<String> = (0..500).map(|n| format!("t{n}")).collect();
    let tasks = ids.iter().map(|id| task(id, 10)).collect();
    let filled = store(&path);
    filled.enqueue(op(1), &queue("q"), tasks).await.unwrap();
    let children: Vec<_> = (0..3).map(|_| Process::start("processes::child_works", &path)).collect();
    let done: Vec<String> = children.into_iter().flat_map(Process::finish).collect();
    assert_eq!(done.len(), ids.len());
    assert_eq!(done.into_iter().collect::<BTreeSet<_>>(), ids);
    assert_eq!(filled.stats(&queue("q")).await.unwrap().leased, 0);
}

#[tokio::test]
#[ignore = "started by another test in a process of its own"]
async fn child_works() {
    let Some(path) = common::named_file() else { return };
    let store = store(&path);
    for number in 0.. {
        let claimed = store.claim(op(2 * number), &queue("q"), claim(3)).await.unwrap().tasks;
        if claimed.is_empty() {
            break;
        }
        let tickets: Vec<_> = claimed.into_iter().map(|task| task.ticket).collect();
        let done = tickets.iter().cloned().map(rushgate_core::Completion::from).collect();
        let ended = store.complete(op(2 * number + 1), &queue("q"), done).await.unwrap();
        assert!(ended.iter().all(|answer| *answer == Completed::Done));
        tickets.iter().for_each(|ticket| say(&ticket.id));
    }
    store.close().await.unwrap();
}

const UNITS: u32 = 60;

#[tokio::test]
async fn a_sale_in_three_processes_sells_each_unit_once() {
    let (_folder, path) = fresh();
    let shop = store(&path);
    shop.create(spec(UNITS)).await.unwrap();
    shop.open(&sale("s")).await.unwrap();
    let children: Vec<_> = (0..3).map(|_| Process::start("processes::child_buys", &path)).collect();
    let units: Vec<String> = children.into_iter().flat_map(Process::finish).collect();
    assert_eq!(units.len(), UNITS as usize);
    let numbers: BTreeSet<u32> = units.iter().map(|unit| unit.parse().unwrap()).collect();
    assert_eq!(numbers, (1..=UNITS).collect());
    assert_eq!(sound_snapshot(&shop).await.reservations.len(), UNITS as usize);
}

#[tokio::test]
#[ignore = "started by another test in a process of its own"]
async fn child_buys() {
    let Some(path) = common::named_file() else { return };
    let store = store(&path);
    let wishes: Vec<_> = (0..100).map(|n| store.reserve(wish(&format!("{:?}-{n}", me())))).collect();
    for wish in wishes {
        match wish.await.unwrap() {
            Reserved::Reserved(hold) => say(hold.units[0].1),
            Reserved::AllHeld { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    store.close().await.unwrap();
}

// ── waking each other ────────────────────────────────────────────────────────────────────────────────────────────────

#[tokio::test]
async fn a_release_and_an_enqueue_wake_another_process_without_its_timer() {
    let (_folder, path) = fresh();
    let store = store(&path);
    let mut child = Process::start("processes::child_releases_and_enqueues", &path);
    assert_eq!(child.hear().as_deref(), Some("held"));
    let (mine, ready) = (token(1), store.ready(&queue("q")));
    let notification = store.notification(mine);
    let Acquired::Queued(queued) = store.acquire(ask("l", mine, Duration::from_secs(60))).await.unwrap()
    else {
        panic!("the child does not hold the lock");
    };
    assert!(queued.check_after > 2 * TIMER);
    child.go();
    tokio::time::timeout(TIMER, notification).await.expect("no notification of the release").unwrap();
    tokio::time::timeout(TIMER, ready).await.expect("no notification of the enqueue").unwrap();
    let again = store.acquire(ask("l", mine, Duration::from_secs(60))).await.unwrap();
    assert!(matches!(again, Acquired::Granted(_)), "{again:?}");
    child.finish();
}

#[tokio::test]
#[ignore = "started by another test in a process of its own"]
async fn child_releases_and_enqueues() {
    let Some(path) = common::named_file() else { return };
    let store = store(&path);
    wait_for(&store, "l", token(1)).await;
    say("held");
    wait_for_parent();
    store.release(&lock("l"), token(1)).await.unwrap();
    store.enqueue(op(1), &queue("q"), vec![task("a", 1)]).await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn another_listener_is_notified_of_the_next_delay_when_the_first_is_over() {
    let (_folder, path) = fresh();
    // Two stores in one process see each other as two processes do.
    let (here, there) = (store(&path), store(&path));
    let (first, second) = (here.ready(&queue("q")), here.ready(&queue("q")));
    let delayed = |id, ms| NewTask { due: Due::After(Duration::from_millis(ms)), ..task(id, 1) };
    there.enqueue(op(1), &queue("q"), vec![delayed("a", 200), delayed("b", 60_000)]).await.unwrap();
    tokio::time::timeout(TIMER, first).await.expect("no notification of the delayed tasks").unwrap();
    tokio::time::sleep(Duration::from_millis(250)).await;
    // The notified listener claims the first task and is busy with it. The other must learn when the next is due.
    let claimed = here.claim(op(2), &queue("q"), claim(1)).await.unwrap();
    assert_eq!(claimed.tasks.len(), 1);
    tokio::time::timeout(TIMER, second).await.expect("no notification of the second delayed task").unwrap();
}

#[tokio::test]
async fn a_waiter_that_was_too_late_and_asked_again_is_not_notified_of_the_past() {
    let (_folder, path) = fresh();
    let clock = ManualClock::default();
    let open = || {
        let clock = clock.clone();
        SqliteStore::open_with(&url(&path), Options::new().clock(move || clock.now())).unwrap()
    };
    // Two stores in one process see each other as two processes do.
    let (here, there) = (open(), open());
    let wait = Duration::from_secs(600);
    here.acquire(ask("l", token(1), wait)).await.unwrap();
    there.acquire(ask("l", token(2), wait)).await.unwrap();
    here.acquire(ask("l", token(3), wait)).await.unwrap();
    here.release(&lock("l"), token(1)).await.unwrap();
    clock.advance(Duration::from_secs(5));
    // The second let its claim window pass, so the third has the lock.
    let third = here.acquire(ask("l", token(3), wait)).await.unwrap();
    assert!(matches!(third, Acquired::Granted(_)), "{third:?}");
    let again = there.acquire(ask("l", token(2), wait)).await.unwrap();
    assert!(matches!(again, Acquired::Queued(_)), "{again:?}");
    let told = tokio::time::timeout(Duration::from_millis(200), there.notification(token(2))).await;
    assert!(told.is_err(), "unexpected notification: {told:?}");
}

// ── killed in the middle ─────────────────────────────────────────────────────────────────────────────────────────────

#[tokio::test]
async fn what_was_acknowledged_survives_kill_minus_nine_and_nothing_is_half_done() {
    let (_folder, path) = fresh();
    let shop = store(&path);
    shop.create(spec(100_000)).await.unwrap();
    shop.open(&sale("s")).await.unwrap();
    shop.close().await.unwrap();
    let mut reserved = 0;
    for round in 0..5 {
        let mut command = child_command("processes::child_writes_until_it_is_killed", &path);
        command.env("RUSHGATE_TEST_DURABILITY", if round % 2 == 0 { "power" } else { "process" });
        let mut child = Process::of(command);
        // Each round kills the child after another number of answers, at an arbitrary moment.
        let last = (0..20 + 30 * round).filter_map(|_| child.hear()).last().expect("the child writes");
        child.kill();
        // Answers that the child printed before its death, but that were not read yet, are acknowledged too.
        let last = std::iter::from_fn(|| child.hear()).last().unwrap_or(last);
        let (client, n) = last.split_once(' ').unwrap();
        let n: u64 = n.parse().unwrap();

        assert_eq!(integrity(&path), "ok");
        let store = store(&path);
        let snapshot = sound_snapshot(&store).await;
        reserved += n as usize;
        assert!(snapshot.reservations.len() >= reserved, "{} of {reserved}", snapshot.reservations.len());
        reserved = snapshot.reservations.len();
        let logged = snapshot.events.iter().filter(|event| event.kind == EventKind::Reserved).count();
        assert_eq!(logged, reserved, "each has its order in the log");
        // The child still holds its lock until the lease expires.
        let token = Token::new(ClientId::from_u64(client.parse().unwrap()), 0);
        let lease = Lease::new(Duration::from_secs(1)).unwrap();
        let extend = Extend { name: lock(&format!("of-{client}")), token, lease };
        assert!(matches!(store.extend(vec![extend]).await.unwrap()[..], [Extended::Extended(_)]));
        store.close().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "started by another test in a process of its own"]
async fn child_writes_until_it_is_killed() {
    let Some(path) = common::named_file() else { return };
    let durability = std::env::var("RUSHGATE_TEST_DURABILITY").unwrap();
    let store = SqliteStore::open(&format!("{}?durability={durability}", url(&path))).unwrap();
    let client = me().as_u64();
    wait_for(&store, &format!("of-{client}"), token(0)).await;
    for n in 1.. {
        // Nothing waits for this call, so the kill always interrupts something.
        drop(store.enqueue(op(n), &queue("q"), vec![task(&format!("{client}-{n}"), 5_000)]));
        let answer = store.reserve(wish(&format!("{client}-{n}"))).await.unwrap();
        assert!(matches!(answer, Reserved::Reserved(_)), "{answer:?}");
        say(format_args!("{client} {n}"));
    }
}
