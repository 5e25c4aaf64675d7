//! Contract of key groups and of a queue's limits.

use std::time::Duration;

use rushgate_core::{
    Claimed, Completed, Due, KeyLimits, NewTask, OnDuplicate, Page, Priority, QueueLimits, QueueName, Rate,
    Retried, Retry, Selection, Task, TaskKey, TaskState, Timestamp, Verbs,
};

use crate::fixture::*;

fn q() -> QueueName {
    queue_name("q")
}

fn keyed(id: &str, key: &str) -> NewTask {
    NewTask { key: Some(TaskKey::new(key).expect("a test's key is valid")), ..task(id) }
}

fn prio(task: NewTask, level: u8) -> NewTask {
    NewTask { priority: Priority::new(level).expect("a test's priority is valid"), ..task }
}

fn per_key(limits: KeyLimits) -> QueueLimits {
    QueueLimits { per_key: limits, ..QueueLimits::default() }
}

fn at_a_time(n: u32) -> QueueLimits {
    per_key(KeyLimits { concurrency: Some(n), ..KeyLimits::default() })
}

fn fifo() -> QueueLimits {
    per_key(KeyLimits { fifo: true, ..KeyLimits::default() })
}

async fn limit(fixture: &Fixture, limits: QueueLimits) {
    fixture.store.limit(&q(), limits).await.unwrap();
}

async fn claim(fixture: &Fixture, n: u32) -> Vec<String> {
    texts(&fixture.claim(n).await.tasks)
}

async fn top(fixture: &Fixture) -> Vec<String> {
    texts(&fixture.store.top(&q(), 1_000).await.unwrap())
}

async fn complete(fixture: &Fixture, task: &Task) {
    let answer = fixture.store.complete(fixture.op(), &q(), vec![task.ticket.clone().into()]).await.unwrap();
    assert_eq!(answer, [Completed::Done]);
}

/// Claims and completes tasks, and returns their payloads.
async fn work_off(fixture: &Fixture, n: u32) -> Vec<String> {
    let tasks = fixture.claim(n).await.tasks;
    for task in &tasks {
        complete(fixture, task).await;
    }
    texts(&tasks)
}

async fn retry(fixture: &Fixture, task: &Task, delay: Duration) -> Retried {
    let how = Retry { ticket: task.ticket.clone(), delay, error: "boom".into(), give_up: false };
    fixture.store.retry(fixture.op(), &q(), vec![how]).await.unwrap()[0]
}

async fn state(fixture: &Fixture, id: &str) -> TaskState {
    fixture.info(id).await.state
}

/// Numbers of ready, scheduled, leased and blocked tasks.
async fn lengths(fixture: &Fixture) -> (u64, u64, u64, u64) {
    let stats = fixture.store.stats(&q()).await.unwrap();
    (stats.ready, stats.scheduled, stats.leased, stats.blocked)
}

// ── turns ────────────────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn keys_take_turns_however_long_their_lines_are(fixture: Fixture) {
    let many = (1..=4).map(|n| keyed(&format!("many{n}"), "many")).collect();
    fixture.put_all(many).await;
    fixture.put_all(vec![keyed("few1", "few"), keyed("few2", "few"), task("alone")]).await;
    assert_eq!(lengths(&fixture).await, (3, 0, 0, 4));
    assert_eq!(top(&fixture).await, ["many1", "few1", "alone"]);
    assert_eq!(claim(&fixture, 2).await, ["many1", "few1"]);
    assert_eq!(claim(&fixture, 10).await, ["alone", "many2", "few2", "many3", "many4"]);
    assert_eq!(lengths(&fixture).await, (0, 0, 7, 0));
}

pub(super) async fn a_line_is_in_order_of_due_time_and_arrival(fixture: Fixture) {
    let base = Timestamp::from_micros(1_000_000);
    let at = |id: &str, us| NewTask { due: Due::At(base + ms(us)), ..keyed(id, "k") };
    fixture.put_all(vec![at("last", 9), at("second", 3), at("third", 3), at("first", 1)]).await;
    assert_eq!(top(&fixture).await, ["first"]);
    assert_eq!(claim(&fixture, 10).await, ["first", "second", "third", "last"]);
}

pub(super) async fn each_priority_of_a_key_has_a_line(fixture: Fixture) {
    fixture.put_all(vec![keyed("low1", "k"), keyed("low2", "k"), prio(keyed("high1", "k"), 1)]).await;
    fixture.put(prio(keyed("high2", "k"), 1)).await;
    assert_eq!(top(&fixture).await, ["high1", "low1"]);
    assert_eq!(claim(&fixture, 3).await, ["high1", "high2", "low1"]);
}

pub(super) async fn a_task_that_comes_before_the_first_takes_the_lines_place(fixture: Fixture) {
    fixture.put(after(keyed("late", "k"), s(60))).await;
    assert_eq!(state(&fixture, "late").await, TaskState::Scheduled);
    fixture.put(keyed("early", "k")).await;
    assert_eq!(
        (state(&fixture, "late").await, state(&fixture, "early").await),
        (TaskState::Blocked, TaskState::Ready)
    );
    assert_eq!(claim(&fixture, 10).await, ["early"]);
    assert_eq!(state(&fixture, "late").await, TaskState::Scheduled);
}

pub(super) async fn a_task_that_leaves_its_line_makes_room(fixture: Fixture) {
    fixture.put_all(vec![keyed("a", "k"), keyed("b", "k"), keyed("c", "k")]).await;
    fixture.store.cancel(fixture.op(), &q(), &task_id("a")).await.unwrap();
    assert_eq!(top(&fixture).await, ["b"]);
    // The task moves to another key group, because it gets another key.
    fixture.put(NewTask { on_duplicate: OnDuplicate::Replace, ..keyed("b", "other") }).await;
    assert_eq!(top(&fixture).await, ["c", "b"]);
    assert_eq!(fixture.info("b").await.task.key, Some(TaskKey::new("other").unwrap()));
    let ticket = fixture.info("c").await.task.ticket;
    fixture.store.dequeue(fixture.op(), &q(), ticket).await.unwrap();
    assert_eq!(texts(&fixture.store.pop(fixture.op(), &q(), 10).await.unwrap()), ["b"]);
    assert_eq!(lengths(&fixture).await, (0, 0, 0, 0));
}

pub(super) async fn a_key_comes_out_as_it_went_in(fixture: Fixture) {
    fixture.put(NewTask { max_attempts: 1, ..keyed("a", "ann:7") }).await;
    let key = Some(TaskKey::new("ann:7").unwrap());
    let task = fixture.claim_one().await;
    assert_eq!((&task.key, text(&task)), (&key, "a".to_owned()));
    assert_eq!(retry(&fixture, &task, Duration::ZERO).await, Retried::Dead);
    let letter = fixture.store.dead_letter(&q(), &task_id("a")).await.unwrap().unwrap();
    assert_eq!((&letter.key, &letter.payload), (&key, &task.payload));
    fixture.store.requeue_dead(fixture.op(), &q(), Selection::All).await.unwrap();
    fixture.put(keyed("b", "ann:7")).await;
    assert_eq!((top(&fixture).await, state(&fixture, "b").await), (vec!["a".to_owned()], TaskState::Blocked));
}

// ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────

pub(super) async fn no_more_are_leased_than_the_queue_allows(fixture: Fixture) {
    limit(&fixture, QueueLimits { concurrency: Some(2), ..QueueLimits::default() }).await;
    fixture.put_all(vec![task("a"), task("b"), task("c")]).await;
    let Claimed { tasks, next_due } = fixture.claim(10).await;
    assert_eq!((texts(&tasks), next_due.is_some()), (vec!["a".to_owned(), "b".to_owned()], true));
    assert_eq!(claim(&fixture, 10).await, [""; 0]);
    complete(&fixture, &tasks[0]).await;
    assert_eq!(claim(&fixture, 10).await, ["c"]);
}

pub(super) async fn no_more_are_leased_of_a_key_than_it_may_have(fixture: Fixture) {
    limit(&fixture, at_a_time(1)).await;
    fixture
        .put_all(vec![keyed("a1", "a"), keyed("a2", "a"), prio(keyed("a3", "a"), 1), keyed("b1", "b")])
        .await;
    let tasks = fixture.claim(10).await.tasks;
    assert_eq!(texts(&tasks), ["a3", "b1"]);
    assert_eq!(lengths(&fixture).await, (0, 0, 2, 2));
    assert_eq!(state(&fixture, "a1").await, TaskState::Blocked);
    complete(&fixture, &tasks[0]).await;
    assert_eq!(lengths(&fixture).await, (1, 0, 1, 1));
    assert_eq!(claim(&fixture, 10).await, ["a1"]);
}

pub(super) async fn a_lease_that_ran_out_frees_its_keys_place(fixture: Fixture) {
    limit(&fixture, at_a_time(1)).await;
    fixture.put_all(vec![keyed("a", "k"), keyed("b", "k")]).await;
    assert_eq!(claim(&fixture, 1).await, ["a"]);
    assert_eq!(claim(&fixture, 10).await, [""; 0]);
    fixture.advance(s(10)).await;
    assert_eq!(work_off(&fixture, 10).await, ["a"]);
    assert_eq!(claim(&fixture, 10).await, ["b"]);
}

pub(super) async fn a_limit_holds_for_what_is_in_already(fixture: Fixture) {
    fixture.put_all(vec![keyed("a", "k"), keyed("b", "k"), keyed("c", "k")]).await;
    let first = fixture.claim_one().await;
    limit(&fixture, at_a_time(1)).await;
    assert_eq!(claim(&fixture, 10).await, [""; 0]);
    limit(&fixture, at_a_time(2)).await;
    assert_eq!(claim(&fixture, 10).await, ["b"]);
    limit(&fixture, QueueLimits::default()).await;
    assert_eq!(claim(&fixture, 10).await, ["c"]);
    complete(&fixture, &first).await;
}

pub(super) async fn a_queues_rate_is_exact(fixture: Fixture) {
    limit(&fixture, QueueLimits { rate: Some(Rate::new(2, s(10))), ..QueueLimits::default() }).await;
    fixture.put_all(["a", "b", "c", "d", "e"].map(task).into()).await;
    assert_eq!(work_off(&fixture, 1).await, ["a"]);
    fixture.advance(s(6)).await;
    assert_eq!(work_off(&fixture, 10).await, ["b"]);
    // Both are done, but still count for the rate.
    let claimed = fixture.claim(10).await;
    assert_eq!(texts(&claimed.tasks), [""; 0]);
    near(claimed.next_due.unwrap(), s(4));
    fixture.advance(s(4)).await;
    assert_eq!(work_off(&fixture, 10).await, ["c"]);
    fixture.advance(s(6)).await;
    assert_eq!(texts(&fixture.store.pop(fixture.op(), &q(), 10).await.unwrap()), ["d"]);
    assert_eq!(work_off(&fixture, 10).await, [""; 0]);
}

pub(super) async fn a_keys_rate_is_its_own(fixture: Fixture) {
    let rate = Some(Rate::new(1, s(10)));
    limit(&fixture, per_key(KeyLimits { rate, ..KeyLimits::default() })).await;
    fixture
        .put_all(vec![keyed("a1", "a"), keyed("a2", "a"), prio(keyed("a3", "a"), 9), keyed("b1", "b")])
        .await;
    fixture.put_all(vec![task("free1"), task("free2")]).await;
    assert_eq!(work_off(&fixture, 10).await, ["a1", "b1", "free1", "free2"]);
    near(fixture.claim(10).await.next_due.unwrap(), s(10));
    let info = fixture.info("a2").await;
    assert_eq!((info.state, info.not_before > Some(info.task.ticket.due)), (TaskState::Scheduled, true));
    fixture.advance(s(10)).await;
    assert_eq!(work_off(&fixture, 10).await, ["a2"]);
    // A changed rate limit starts counting from zero.
    let rate = Some(Rate::new(1, s(20)));
    limit(&fixture, per_key(KeyLimits { rate, ..KeyLimits::default() })).await;
    assert_eq!(claim(&fixture, 10).await, ["a3"]);
}

pub(super) async fn in_first_in_first_out_a_failed_task_holds_its_line_up(fixture: Fixture) {
    limit(&fixture, fifo()).await;
    fixture.put_all(vec![keyed("a1", "a"), keyed("a2", "a"), keyed("b1", "b")]).await;
    let tasks = fixture.claim(10).await.tasks;
    assert_eq!(texts(&tasks), ["a1", "b1"]);
    assert!(matches!(retry(&fixture, &tasks[0], s(5)).await, Retried::Scheduled { .. }));
    assert_eq!(
        (state(&fixture, "a1").await, state(&fixture, "a2").await),
        (TaskState::Scheduled, TaskState::Blocked)
    );
    assert_eq!(claim(&fixture, 10).await, [""; 0]);
    fixture.advance(s(5)).await;
    let again = fixture.claim(10).await.tasks;
    assert_eq!(texts(&again), ["a1"]);
    fixture.store.release_tasks(fixture.op(), &q(), vec![again[0].ticket.clone().into()]).await.unwrap();
    let again = fixture.claim(10).await.tasks;
    assert_eq!(texts(&again), ["a1"]);
    complete(&fixture, &again[0]).await;
    assert_eq!(claim(&fixture, 10).await, ["a2"]);
}

pub(super) async fn a_task_that_comes_back_gives_its_line_the_turn_back(fixture: Fixture) {
    for (limits, how) in [
        (QueueLimits::default(), "release"),
        (QueueLimits::default(), "expiry"),
        (at_a_time(1), "release"),
        (fifo(), "expiry"),
    ] {
        limit(&fixture, limits).await;
        fixture.put_all(vec![keyed("a1", "a"), keyed("a2", "a"), keyed("b1", "b"), task("free")]).await;
        let claimed = fixture.claim_one().await;
        assert_eq!(text(&claimed), "a1");
        fixture.advance(ms(10)).await;
        fixture.put_all(vec![keyed("b2", "b"), task("late")]).await;
        match how {
            "release" => {
                drop(
                    fixture
                        .store
                        .release_tasks(fixture.op(), &q(), vec![claimed.ticket.into()])
                        .await
                        .unwrap(),
                );
            }
            _ => fixture.advance(s(11)).await,
        }
        let mut order = work_off(&fixture, 1).await;
        assert_eq!(order, ["a1"], "{how} {limits:?}");
        // The group has had its turn, and is now behind everything that was due.
        while order.len() < 6 {
            order.extend(work_off(&fixture, 1).await);
        }
        assert_eq!(order, ["a1", "b1", "free", "late", "a2", "b2"], "{how} {limits:?}");
    }
}

pub(super) async fn tasks_of_a_line_come_back_in_their_order(fixture: Fixture) {
    fixture.put_all(vec![keyed("a1", "a"), keyed("a2", "a"), keyed("b1", "b"), keyed("b2", "b")]).await;
    let claimed = fixture.claim(10).await.tasks;
    assert_eq!(texts(&claimed), ["a1", "b1", "a2", "b2"]);
    for at in [2, 0, 3, 1] {
        let back = vec![claimed[at].ticket.clone().into()];
        drop(fixture.store.release_tasks(fixture.op(), &q(), back).await.unwrap());
    }
    assert_eq!(work_off(&fixture, 10).await, ["a1", "b1", "a2", "b2"]);
}

pub(super) async fn without_it_a_failed_task_lets_the_others_pass(fixture: Fixture) {
    limit(&fixture, at_a_time(1)).await;
    fixture.put_all(vec![keyed("a1", "a"), keyed("a2", "a")]).await;
    let task = fixture.claim_one().await;
    assert!(matches!(retry(&fixture, &task, s(5)).await, Retried::Scheduled { .. }));
    assert_eq!(claim(&fixture, 10).await, ["a2"]);
}

pub(super) async fn a_waiter_is_notified_when_a_limit_allows_more(fixture: Fixture) {
    limit(&fixture, at_a_time(1)).await;
    fixture.put_all(vec![keyed("a", "k"), keyed("b", "k")]).await;
    let task = fixture.claim_one().await;
    let queue = q();
    // A notification of the enqueue may be pending. The one that counts comes after it.
    drop(tokio::time::timeout(ms(50), fixture.store.ready(&queue)).await);
    let heard = fixture.store.ready(&queue);
    let (heard, ()) = tokio::join!(soon(heard), complete(&fixture, &task));
    heard.unwrap();
    assert_eq!(claim(&fixture, 1).await, ["b"]);
}

pub(super) async fn bad_limits_are_refused(fixture: Fixture) {
    let rate = |n, per| Some(Rate::new(n, per));
    let none = QueueLimits::default();
    for (limits, what) in [
        (QueueLimits { concurrency: Some(0), ..none }, "the concurrency"),
        (at_a_time(1_000_001), "the concurrency"),
        (QueueLimits { rate: rate(0, s(1)), ..none }, "the rate"),
        (QueueLimits { rate: rate(10_001, s(1)), ..none }, "the rate"),
        (QueueLimits { rate: rate(1, Duration::from_micros(999)), ..none }, "the rate period"),
        (QueueLimits { rate: rate(1, s(401 * 86_400)), ..none }, "the rate period"),
        (per_key(KeyLimits { concurrency: Some(2), fifo: true, rate: None }), "the concurrency per key"),
    ] {
        let error = fixture.store.limit(&q(), limits).await.unwrap_err();
        assert!(error.is_invalid() && error.to_string().contains(what), "{error}");
    }
    assert!(fixture.store.queues(Page::default()).await.unwrap().is_empty(), "nothing was made");
}
