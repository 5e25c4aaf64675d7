//! Contract of overflow policies.

use std::time::Duration;

use rushgate_core::{
    ContentType, Enqueued, Finish, NewTask, OnDuplicate, OutboxId, Overflow, Page, Payload, QueueLimits,
    QueueName, QueueStats, Relay, Retention, Retry, Selection, TaskKey, TaskRelease, TaskState, Verbs,
};

use crate::fixture::*;

fn q() -> QueueName {
    queue_name("q")
}

async fn bound(fixture: &Fixture, bound: u64, overflow: Overflow) {
    let limits = QueueLimits { bound: Some(bound), overflow, ..QueueLimits::default() };
    fixture.store.limit(&q(), limits).await.unwrap();
}

async fn stats(fixture: &Fixture) -> QueueStats {
    fixture.store.stats(&q()).await.unwrap()
}

async fn top(fixture: &Fixture) -> Vec<String> {
    texts(&fixture.store.top(&q(), 1_000).await.unwrap())
}

#[track_caller]
fn dropped(answer: Enqueued) -> String {
    match answer {
        Enqueued::Displaced { dropped, .. } => dropped.to_string(),
        other => panic!("expected something to be dropped, not {other:?}"),
    }
}

/// Enqueues tasks one at a time, 10 ms apart.
async fn enqueue_in_turn(fixture: &Fixture, ids: &[&str]) {
    for id in ids {
        fixture.put(task(id)).await;
        fixture.advance(ms(10)).await;
    }
}

pub(super) async fn a_queue_that_drops_new_tasks_says_so_and_keeps_its_tasks(fixture: Fixture) {
    bound(&fixture, 2, Overflow::DropNew).await;
    let answers = fixture.put_all(vec![task("a"), task("b"), task("c")]).await;
    assert_eq!(answers[2], Enqueued::Dropped { bound: 2 });
    assert!(matches!(fixture.put(task("a")).await, Enqueued::Kept { .. }), "the ID is live");
    assert_eq!(top(&fixture).await, ["a", "b"]);
    let stats = stats(&fixture).await;
    assert_eq!((stats.ready, stats.dropped, stats.limits.overflow), (2, 1, Overflow::DropNew));
    fixture.claim_one().await;
    assert_eq!(fixture.put(task("c")).await, Enqueued::Dropped { bound: 2 }, "leased ones count");
}

pub(super) async fn a_queue_that_drops_its_oldest_names_what_it_dropped(fixture: Fixture) {
    bound(&fixture, 2, Overflow::DropOldest).await;
    enqueue_in_turn(&fixture, &["b", "a"]).await;
    let last = revision(fixture.put(with(task("a"), "new", OnDuplicate::Replace)).await);
    let answer = fixture.put(task("c")).await;
    assert!(matches!(&answer, Enqueued::Displaced { revision, .. } if *revision > last), "{answer:?}");
    assert_eq!(dropped(answer), "b");
    assert!(fixture.is_gone("b").await);
    // A scheduled task counts as waiting.
    assert_eq!(dropped(fixture.put(after(task("d"), s(60))).await), "a");
    assert_eq!(dropped(fixture.put(task("e")).await), "c");
    assert_eq!(top(&fixture).await, ["e"]);
    let stats = stats(&fixture).await;
    assert_eq!((stats.ready, stats.scheduled, stats.dropped), (1, 1, 3));
    assert_eq!(
        fixture.store.dead(&q(), Page::first(10)).await.unwrap(),
        [],
        "what is dropped has not failed"
    );
}

pub(super) async fn the_oldest_task_is_the_first_enqueued_and_of_equals_the_smallest_id(fixture: Fixture) {
    bound(&fixture, 4, Overflow::DropOldest).await;
    fixture.put_all(["d", "b", "c"].map(task).to_vec()).await;
    fixture.advance(ms(10)).await;
    fixture.put(task("a")).await;
    // A replaced task keeps its age, and a high priority does not protect it.
    let urgent = NewTask { priority: rushgate_core::Priority::new(0).unwrap(), ..task("b") };
    fixture.put(with(urgent, "b", OnDuplicate::Replace)).await;
    let mut order = Vec::new();
    for id in ["w", "x", "y", "z"] {
        fixture.advance(ms(10)).await;
        order.push(dropped(fixture.put(task(id)).await));
    }
    assert_eq!(order, ["b", "c", "d", "a"]);
}

pub(super) async fn a_claimed_task_is_never_dropped(fixture: Fixture) {
    bound(&fixture, 2, Overflow::DropOldest).await;
    enqueue_in_turn(&fixture, &["a", "b"]).await;
    let claimed = fixture.claim_one().await;
    assert_eq!(text(&claimed), "a");
    assert_eq!(dropped(fixture.put(task("c")).await), "b");
    let other = fixture.claim_one().await;
    assert_eq!(fixture.put(task("d")).await, Enqueued::Full { bound: 2 }, "all are leased");
    assert_eq!(stats(&fixture).await.dropped, 1);
    // However the run ends, the task waits again and is the oldest.
    fixture.store.release_tasks(fixture.op(), &q(), vec![TaskRelease::from(claimed.ticket)]).await.unwrap();
    assert_eq!(dropped(fixture.put(task("d")).await), "a");
    let failed = Retry { ticket: other.ticket, delay: s(5), error: "boom".into(), give_up: false };
    fixture.store.retry(fixture.op(), &q(), vec![failed]).await.unwrap();
    assert_eq!(dropped(fixture.put(task("e")).await), "c");
    fixture.claim(2).await;
    fixture.advance(s(11)).await;
    assert_eq!(dropped(fixture.put(task("f")).await), "d");
    // A pending replacement is no older than its enqueueing.
    assert_eq!(text(&fixture.claim_one().await), "e");
    fixture.advance(ms(10)).await;
    fixture.put(with(task("e"), "new", OnDuplicate::Replace)).await;
    fixture.advance(s(11)).await;
    assert_eq!(dropped(fixture.put(task("g")).await), "f");
}

pub(super) async fn a_dropped_task_leaves_its_line_to_the_next(fixture: Fixture) {
    bound(&fixture, 3, Overflow::DropOldest).await;
    let keyed = |id| NewTask { key: Some(TaskKey::new("k").unwrap()), ..task(id) };
    for id in ["a", "b", "c"] {
        fixture.put(keyed(id)).await;
        fixture.advance(ms(10)).await;
    }
    assert_eq!(top(&fixture).await, ["a"]);
    assert_eq!(dropped(fixture.put(task("d")).await), "a");
    assert_eq!(fixture.info("b").await.state, TaskState::Ready);
    assert_eq!(stats(&fixture).await.blocked, 1);
    assert_eq!(dropped(fixture.put(keyed("e")).await), "b");
    assert_eq!(texts(&fixture.claim(3).await.tasks), ["c", "d", "e"]);
}

pub(super) async fn a_policy_that_comes_later_knows_the_oldest(fixture: Fixture) {
    enqueue_in_turn(&fixture, &["a", "b", "c", "d"]).await;
    assert_eq!(text(&fixture.claim_one().await), "a");
    bound(&fixture, 4, Overflow::DropOldest).await;
    assert_eq!(dropped(fixture.put(task("e")).await), "b");
    bound(&fixture, 4, Overflow::Refuse).await;
    assert_eq!(fixture.put(task("f")).await, Enqueued::Full { bound: 4 });
    fixture.store.dequeue(fixture.op(), &q(), fixture.info("c").await.task.ticket).await.unwrap();
    fixture.put(task("f")).await;
    bound(&fixture, 2, Overflow::DropOldest).await;
    // One task replaces one: a queue above its capacity stays above it.
    assert_eq!(dropped(fixture.put(task("g")).await), "d");
    let stats = stats(&fixture).await;
    assert_eq!((stats.ready, stats.leased, stats.dropped), (3, 1, 2));
    // The same with a thousand tasks.
    let many: Vec<_> = (0..1_000).map(|n| task(&format!("t{n:04}"))).collect();
    bound(&fixture, 10_000, Overflow::Refuse).await;
    fixture.put_all(many).await;
    bound(&fixture, 4, Overflow::DropOldest).await;
    let order: Vec<_> = fixture
        .put_all((0..6).map(|n| task(&format!("u{n}"))).collect())
        .await
        .into_iter()
        .map(dropped)
        .collect();
    assert_eq!(order, ["e", "f", "g", "t0000", "t0001", "t0002"]);
}

pub(super) async fn what_was_dropped_is_kept_by_a_retention(fixture: Fixture) {
    let limits = QueueLimits {
        bound: Some(1),
        overflow: Overflow::DropOldest,
        retention: Some(Retention::new(s(60), 10)),
        ..QueueLimits::default()
    };
    fixture.store.limit(&q(), limits).await.unwrap();
    fixture.put(task("a")).await;
    assert_eq!(dropped(fixture.put(task("b")).await), "a");
    let info = fixture.info("a").await;
    assert_eq!(info.state, TaskState::Done);
    assert_eq!(info.finished.map(|of| (of.how, of.result)), Some((Finish::Dropped, None)));
    assert_eq!(stats(&fixture).await.done, 1);
    assert!(
        matches!(fixture.put(task("a")).await, Enqueued::Displaced { .. }),
        "the ID can be enqueued again"
    );
}

pub(super) async fn a_relay_passes_over_a_queue_that_drops(fixture: Fixture) {
    let relay = async |from: u64, to: u64| {
        let tasks = (from..=to).map(|number| (number, task(&format!("t{number}")))).collect();
        let relay = Relay { outbox: OutboxId::new("shop").unwrap(), tasks };
        fixture.store.relay(&q(), relay).await.unwrap().upto
    };
    bound(&fixture, 2, Overflow::DropNew).await;
    assert_eq!(relay(1, 3).await, 3);
    assert_eq!(top(&fixture).await, ["t1", "t2"]);
    bound(&fixture, 2, Overflow::DropOldest).await;
    assert_eq!(relay(4, 6).await, 6);
    assert_eq!((top(&fixture).await.len(), stats(&fixture).await.dropped), (2, 4));
    fixture.claim(2).await;
    assert_eq!(relay(7, 8).await, 6, "nothing can be dropped");
}

pub(super) async fn what_ignores_the_bound_drops_nothing(fixture: Fixture) {
    fixture.put(task("dead")).await;
    let ticket = fixture.claim_one().await.ticket;
    let failed = Retry { ticket, delay: Duration::ZERO, error: "boom".into(), give_up: true };
    fixture.store.retry(fixture.op(), &q(), vec![failed]).await.unwrap();
    bound(&fixture, 1, Overflow::DropOldest).await;
    fixture.put(task("a")).await;
    let requeued = fixture.store.requeue_dead(fixture.op(), &q(), Selection::All).await.unwrap();
    assert_eq!((requeued.requeued, requeued.kept), (0, 1));
    let stats = stats(&fixture).await;
    assert_eq!((stats.ready, stats.dropped), (1, 0));
}

pub(super) async fn what_looks_like_an_order_is_dropped_as_any_other(fixture: Fixture) {
    bound(&fixture, 1, Overflow::DropOldest).await;
    let payload = Payload::new(ContentType::json(), br#"{"order":"stock"}"#.to_vec()).unwrap();
    fixture.put(NewTask { payload, ..task("a") }).await;
    assert_eq!(dropped(fixture.put(task("b")).await), "a");
    assert_eq!(top(&fixture).await, ["b"]);
}

pub(super) async fn a_displacement_sent_twice_drops_once(fixture: Fixture) {
    bound(&fixture, 2, Overflow::DropOldest).await;
    enqueue_in_turn(&fixture, &["a", "b"]).await;
    let op = fixture.op();
    let first = fixture.store.enqueue(op, &q(), vec![task("c"), task("a")]).await.unwrap();
    assert_eq!(fixture.store.enqueue(op, &q(), vec![task("c"), task("a")]).await.unwrap(), first);
    assert_eq!(first.into_iter().map(dropped).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(stats(&fixture).await.dropped, 2);
}
