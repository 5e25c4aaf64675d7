//! The lock API: guards, loss, waiting, and rollback of dropped futures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{Bench, eventually, ms, secs};
use rushgate::lock::{BusyPolicy, LostReason, ReleaseWithOutcome, Released};
use rushgate::queue::{NewTask, Payload, QueueLimits, QueueName};
use rushgate::{Enqueued, LockGuard, LockOutcome, RunOutcome, Rushgate, TaskId};

on_each_store! {
    a_release_hands_the_lock_to_the_first_waiter_with_a_higher_fence
    a_release_with_a_task_hands_on_both_or_neither
    a_release_with_a_task_of_a_lost_lock_puts_nothing_in
    a_lock_that_was_handed_over_is_held_for_its_whole_lease
    a_dropped_guard_frees_the_lock
    a_guard_dropped_outside_the_runtime_frees_the_lock
    a_cancelled_acquire_leaves_no_waiter
    a_wait_that_is_over_leaves_no_waiter
    a_lock_that_is_held_is_busy_at_once_for_who_does_not_wait
    a_renewed_lease_outlives_its_length
    a_lease_that_is_not_renewed_is_lost_before_another_holds_it
    a_forced_release_tells_the_holder
    locks_share_their_tasks
    max_hold_ends_the_lock
    an_extension_changes_the_lease
    run_gives_the_value_and_the_lock_back
    a_panic_in_run_releases
    run_stops_the_work_when_the_lock_is_lost
    busy_policies_fail_and_defer
    release_all_tells_the_guards
    only_one_at_a_time
    closing_tells_the_guards_and_ends_the_client
    bad_arguments_are_refused_before_anything_is_sent
}

on_a_cluster! {
    a_release_with_a_task_hands_on_both_or_neither
    a_release_with_a_task_of_a_lost_lock_puts_nothing_in
    only_one_at_a_time
}

/// Acquires a lock with a lease that outlasts the test.
async fn hold(client: &Rushgate, name: &str) -> LockGuard {
    client.lock(name).unwrap().lease(secs(3600)).acquire().await.unwrap().held().expect("the lock is free")
}

async fn is_free(client: &Rushgate, name: &str) -> bool {
    client.lock(name).unwrap().holders().await.unwrap().is_empty()
}

async fn a_release_hands_the_lock_to_the_first_waiter_with_a_higher_fence(bench: Bench) {
    let (a, b) = (bench.client(), bench.client());
    let first = hold(&a, "x").await;
    let fence = first.fence();
    let waiting = tokio::spawn(async move { hold(&b, "x").await });
    eventually(async || a.lock("x").unwrap().waiters().await.unwrap().len() == 1).await;
    assert_eq!(first.release().await.unwrap(), Released::Released);
    let second = waiting.await.unwrap();
    assert!(second.fence() > fence);
    assert!(second.is_held().await.unwrap());
}

async fn a_release_with_a_task_hands_on_both_or_neither(bench: Bench) {
    let (a, b) = (bench.client(), bench.client());
    let queue = a.queue("next").unwrap();
    let limits = QueueLimits { bound: Some(1), ..QueueLimits::default() };
    queue.limit(limits).await.unwrap();
    let task = |id: &str| queue.enqueue(id, Payload::empty());
    let first = hold(&a, "x").await;
    let held = first.held();
    let waiting = tokio::spawn(async move { hold(&b, "x").await });
    eventually(async || a.lock("x").unwrap().waiters().await.unwrap().len() == 1).await;
    let released = first.release_with(task("1")).await.unwrap();
    assert!(matches!(released, ReleaseWithOutcome::Released(Enqueued::Added { .. })), "{released:?}");
    assert_eq!(held.lost().await, LostReason::Released);
    let second = waiting.await.unwrap();
    let released = second.release_with(task("2")).await.unwrap();
    let ReleaseWithOutcome::NotTaken { guard, why: Enqueued::Full { bound: 1 } } = released else {
        panic!("there is room for one task: {released:?}")
    };
    assert!(guard.is_held().await.unwrap() && !guard.is_lost());
    assert_eq!(queue.pop(2).await.unwrap().len(), 1);
    let released = guard.release_with(task("2")).await.unwrap();
    assert!(matches!(released, ReleaseWithOutcome::Released(_)), "{released:?}");
    assert!(is_free(&a, "x").await);
}

async fn a_release_with_a_task_of_a_lost_lock_puts_nothing_in(bench: Bench) {
    let client = bench.client();
    let queue = client.queue("next").unwrap();
    let guard = hold(&client, "x").await;
    client.force_release("x").await.unwrap();
    let released = guard.release_with(queue.enqueue("1", Payload::empty())).await.unwrap();
    assert!(matches!(released, ReleaseWithOutcome::NotHeld), "{released:?}");
    assert_eq!(queue.stats().await.unwrap().ready, 0);
    let guard = hold(&client, "x").await;
    let bad = guard.release_with(queue.enqueue("no id", Payload::empty())).await;
    assert!(bad.unwrap_err().is_invalid());
    eventually(async || is_free(&client, "x").await).await;
}

async fn a_lock_that_was_handed_over_is_held_for_its_whole_lease(bench: Bench) {
    let (a, b) = (bench.client(), bench.client());
    let first = hold(&a, "x").await;
    let lock = b.lock("x").unwrap().lease(secs(60)).renew(false);
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap().held().expect("it is next in line") }
    });
    eventually(async || lock.waiters().await.unwrap().len() == 1).await;
    first.release().await.unwrap();
    let second = waiting.await.unwrap();
    let left = second.held().time_left();
    assert!(left > secs(50), "a guard never has less than the lease that was asked for: {left:?}");
    let [holder] = &lock.holders().await.unwrap()[..] else { panic!("it is held") };
    assert_eq!((holder.token, holder.fence), (second.token(), second.fence()));
    assert!(holder.lease_until.since(holder.since) > secs(30));
}

async fn a_dropped_guard_frees_the_lock(bench: Bench) {
    let client = bench.client();
    drop(hold(&client, "x").await);
    eventually(async || is_free(&client, "x").await).await;
}

async fn a_guard_dropped_outside_the_runtime_frees_the_lock(bench: Bench) {
    let client = bench.client();
    let guard = hold(&client, "x").await;
    std::thread::spawn(move || drop(guard)).join().unwrap();
    eventually(async || is_free(&client, "x").await).await;
}

async fn a_cancelled_acquire_leaves_no_waiter(bench: Bench) {
    let client = bench.client();
    let guard = hold(&client, "x").await;
    let lock = client.lock("x").unwrap().wait(secs(60));
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    eventually(async || lock.waiters().await.unwrap().len() == 1).await;
    waiting.abort();
    eventually(async || lock.waiters().await.unwrap().is_empty()).await;
    guard.release().await.unwrap();
    assert!(is_free(&client, "x").await);
}

async fn a_wait_that_is_over_leaves_no_waiter(bench: Bench) {
    let client = bench.client();
    let _guard = hold(&client, "x").await;
    let lock = client.lock("x").unwrap().wait(ms(100));
    let LockOutcome::Busy(busy) = lock.acquire().await.unwrap() else { panic!("it is held") };
    assert_eq!((busy.position, busy.waiters), (Some(1), 0));
    assert!(lock.waiters().await.unwrap().is_empty());
}

async fn a_lock_that_is_held_is_busy_at_once_for_who_does_not_wait(bench: Bench) {
    let client = bench.client();
    let _guard = hold(&client, "x").await;
    let LockOutcome::Busy(busy) = client.lock("x").unwrap().try_acquire().await.unwrap() else {
        panic!("it is held")
    };
    assert!(busy.retry_after > ms(0) && busy.retry_after <= secs(3600));
    assert_eq!(busy.position, None);
}

async fn a_renewed_lease_outlives_its_length(bench: Bench) {
    let client = bench.client();
    let lock = client.lock("x").unwrap().lease(ms(600));
    let guard = lock.acquire().await.unwrap().held().unwrap();
    let first = lock.holders().await.unwrap()[0].clone();
    eventually(async || lock.holders().await.unwrap()[0].lease_until > first.lease_until + ms(600)).await;
    assert!(!guard.is_lost());
    assert_eq!(lock.holders().await.unwrap()[0].fence, first.fence);
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

async fn a_lease_that_is_not_renewed_is_lost_before_another_holds_it(bench: Bench) {
    let (a, b) = (bench.client(), bench.client());
    let guard = a.lock("x").unwrap().lease(ms(300)).renew(false).acquire().await.unwrap().held().unwrap();
    let other = tokio::spawn(async move { hold(&b, "x").await });
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(guard.is_lost());
    let other = other.await.unwrap();
    assert!(other.fence() > guard.fence());
    assert_eq!(guard.release().await.unwrap(), Released::NotHeld);
    assert!(other.is_held().await.unwrap(), "the loser's release changes nothing");
}

async fn a_forced_release_tells_the_holder(bench: Bench) {
    let (a, b) = (bench.client(), bench.client());
    let guard = hold(&a, "x").await;
    let loser = b.force_release("x").await.unwrap().unwrap();
    assert_eq!(loser.token, guard.token());
    assert_eq!(guard.lost().await, LostReason::Revoked);
    assert!(!guard.is_held().await.unwrap());
    assert!(!guard.extend(secs(5)).await.unwrap());
}

/// A task for each would wake another thread at each grant.
async fn locks_share_their_tasks(bench: Bench) {
    let client = bench.client();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let first = hold(&client, "first").await;
    let (of_one, mut others) = (tasks(), Vec::new());
    for n in 0..20 {
        others.push(hold(&client, &n.to_string()).await);
    }
    assert!(tasks() < of_one + others.len(), "{} tasks in place of {of_one}", tasks());
    client.force_release("7").await.unwrap();
    assert_eq!(others[7].lost().await, LostReason::Revoked);
    let lost = others.iter().filter(|guard| guard.is_lost()).count();
    assert_eq!((lost, first.is_lost()), (1, false), "the others are held");
}

async fn max_hold_ends_the_lock(bench: Bench) {
    let client = bench.client();
    let lock = client.lock("x").unwrap().lease(ms(200)).max_hold(ms(500));
    let guard = lock.acquire().await.unwrap().held().unwrap();
    assert_eq!(guard.lost().await, LostReason::MaxHold);
    eventually(async || is_free(&client, "x").await).await;
}

async fn an_extension_changes_the_lease(bench: Bench) {
    let client = bench.client();
    let lock = client.lock("x").unwrap().lease(secs(2)).renew(false);
    let guard = lock.acquire().await.unwrap().held().unwrap();
    let before = lock.holders().await.unwrap()[0].lease_until;
    assert!(guard.extend(secs(60)).await.unwrap());
    assert!(lock.holders().await.unwrap()[0].lease_until > before + secs(50));
    assert!(guard.extend(ms(100)).await.unwrap());
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(guard.extend(ms(1)).await.unwrap_err().is_invalid());
}

async fn run_gives_the_value_and_the_lock_back(bench: Bench) {
    let client = bench.client();
    let lock = client.lock("x").unwrap();
    let outcome = lock.run(async |held| (held.is_lost(), 7)).await.unwrap();
    assert_eq!(outcome, RunOutcome::Done((false, 7)));
    assert!(is_free(&client, "x").await);
}

async fn a_panic_in_run_releases(bench: Bench) {
    let client = bench.client();
    let lock = client.lock("x").unwrap().lease(secs(3600));
    let work = tokio::spawn(async move {
        lock.run(|_| async { panic!("on purpose") }).await.map(|_: RunOutcome<()>| ())
    });
    assert!(work.await.unwrap_err().is_panic());
    eventually(async || is_free(&client, "x").await).await;
}

async fn run_stops_the_work_when_the_lock_is_lost(bench: Bench) {
    struct Stopped(Arc<AtomicBool>);
    impl Drop for Stopped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let client = bench.client();
    let lock = client.lock("x").unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    let stopped = Stopped(Arc::clone(&flag));
    let outcome = lock.run(async |_| {
        let _stopped = stopped;
        client.force_release("x").await.unwrap();
        std::future::pending::<()>().await;
    });
    assert_eq!(outcome.await.unwrap(), RunOutcome::Lost { reason: LostReason::Revoked });
    assert!(flag.load(Ordering::SeqCst));
}

async fn busy_policies_fail_and_defer(bench: Bench) {
    let client = bench.client();
    let _guard = hold(&client, "x").await;
    let lock = client.lock("x").unwrap();
    let failing = lock.clone().on_busy(BusyPolicy::Fail);
    assert!(matches!(failing.run(async |_| ()).await.unwrap(), RunOutcome::Busy(_)));
    let waiting = lock.clone().on_busy(BusyPolicy::Wait(ms(50)));
    assert!(matches!(waiting.run(async |_| ()).await.unwrap(), RunOutcome::Busy(_)));
    let task = NewTask::new(TaskId::new("x").unwrap(), Payload::empty());
    let queue = QueueName::new("later").unwrap();
    let deferring = lock.on_busy(BusyPolicy::Defer { queue, task });
    let first = deferring.run(async |_| ()).await.unwrap();
    assert!(matches!(first, RunOutcome::Deferred(Enqueued::Added { .. })));
    let second = deferring.run(async |_| ()).await.unwrap();
    assert!(matches!(second, RunOutcome::Deferred(Enqueued::Kept { .. })));
    assert_eq!(client.queue("later").unwrap().stats().await.unwrap().ready, 1);
}

async fn release_all_tells_the_guards(bench: Bench) {
    let (a, b) = (bench.client(), bench.client());
    let (x, y, z) = (hold(&a, "x").await, hold(&a, "y").await, hold(&b, "z").await);
    assert_eq!(a.release_all().await.unwrap(), 2);
    assert_eq!((x.lost().await, y.lost().await), (LostReason::ReleasedAll, LostReason::ReleasedAll));
    assert!(is_free(&a, "x").await && is_free(&a, "y").await);
    assert!(!z.is_lost() && z.is_held().await.unwrap());
}

async fn only_one_at_a_time(bench: Bench) {
    let (inside, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let lock = bench.client().lock("x").unwrap();
        let (inside, done) = (Arc::clone(&inside), Arc::clone(&done));
        workers.spawn(async move {
            for _ in 0..10 {
                let outcome = lock.run(async |_| {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                });
                assert_eq!(outcome.await.unwrap(), RunOutcome::Done(()));
                done.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    workers.join_all().await;
    assert_eq!(done.load(Ordering::SeqCst), 80);
}

async fn closing_tells_the_guards_and_ends_the_client(bench: Bench) {
    let client = bench.client();
    let held = hold(&client, "y").await;
    client.close().await.unwrap();
    assert_eq!(held.lost().await, LostReason::Closed);
    assert!(client.lock("z").unwrap().acquire().await.unwrap_err().is_unavailable());
}

#[tokio::test]
async fn closing_waits_for_the_releases_of_dropped_guards() {
    let (first, url) = Bench::sqlite_at();
    let client = first.client();
    drop(hold(&client, "x").await);
    client.close().await.unwrap();
    let other = Rushgate::connect(&url).await.unwrap();
    assert!(is_free(&other, "x").await);
}

#[tokio::test]
async fn a_lock_passes_from_one_process_to_another() {
    let (first, url) = Bench::sqlite_at();
    let (a, b) = (first.client(), Rushgate::connect(&url).await.unwrap());
    let guard = hold(&a, "x").await;
    let fence = guard.fence();
    let waiting = tokio::spawn(async move { hold(&b, "x").await });
    eventually(async || a.lock("x").unwrap().waiters().await.unwrap().len() == 1).await;
    drop(guard);
    assert!(waiting.await.unwrap().fence() > fence);
}

async fn bad_arguments_are_refused_before_anything_is_sent(bench: Bench) {
    let client = bench.client();
    let before = client.calls().calls;
    assert!(client.lock("a b").unwrap_err().is_invalid());
    let lock = client.lock("x").unwrap();
    assert!(lock.clone().lease(ms(1)).acquire().await.unwrap_err().is_invalid());
    assert!(lock.clone().wait(secs(86_401)).acquire().await.unwrap_err().is_invalid());
    assert_eq!(client.calls().calls, before);
    assert!(lock.clone().label("x".repeat(201)).acquire().await.unwrap_err().is_invalid());
}
