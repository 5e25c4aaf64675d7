//! Contract of outboxes.

use rushgate_core::{NewTask, OnDuplicate, OutboxId, Page, Priority, QueueLimits, QueueName, Relay, Verbs};

use crate::fixture::*;

fn q() -> QueueName {
    queue_name("q")
}

fn outbox(id: &str) -> OutboxId {
    OutboxId::new(id).expect("a test's name is valid")
}

/// Relays numbered tasks, and returns how far it got.
async fn relay(fixture: &Fixture, from: &str, tasks: Vec<(u64, NewTask)>) -> u64 {
    fixture.store.relay(&q(), Relay { outbox: outbox(from), tasks }).await.unwrap().upto
}

fn numbered(numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, NewTask)> {
    numbers.into_iter().map(|number| (number, task(&format!("t{number}")))).collect()
}

/// Claims and completes everything that is due.
async fn work_off(fixture: &Fixture) -> Vec<String> {
    let tasks = fixture.claim(1_000).await.tasks;
    let tickets = tasks.iter().map(|task| task.ticket.clone().into()).collect();
    if !tasks.is_empty() {
        fixture.store.complete(fixture.op(), &q(), tickets).await.unwrap();
    }
    texts(&tasks)
}

pub(super) async fn relayed_tasks_are_enqueued_in_order(fixture: Fixture) {
    assert_eq!(relay(&fixture, "shop", numbered([3, 4, 9])).await, 9);
    assert_eq!(relay(&fixture, "shop", numbered([10, 11])).await, 11);
    assert_eq!(work_off(&fixture).await, ["t3", "t4", "t9", "t10", "t11"]);
}

pub(super) async fn a_relayed_task_is_not_enqueued_again_though_it_has_ended(fixture: Fixture) {
    relay(&fixture, "shop", numbered(1..=3)).await;
    assert_eq!(work_off(&fixture).await.len(), 3);
    assert_eq!(relay(&fixture, "shop", numbered(1..=3)).await, 3);
    assert!(work_off(&fixture).await.is_empty(), "they have run");
    // The number counts: the same ID with a new number is a new task.
    assert_eq!(relay(&fixture, "shop", vec![(4, task("t1"))]).await, 4);
    assert_eq!(work_off(&fixture).await, ["t1"]);
}

pub(super) async fn a_relay_that_was_cut_off_continues_behind_what_arrived(fixture: Fixture) {
    relay(&fixture, "shop", numbered(1..=2)).await;
    work_off(&fixture).await;
    assert_eq!(relay(&fixture, "shop", numbered(1..=5)).await, 5);
    assert_eq!(work_off(&fixture).await, ["t3", "t4", "t5"]);
    // A late call with fewer tasks does not lower the mark.
    assert_eq!(relay(&fixture, "shop", numbered(1..=2)).await, 5);
    assert_eq!(relay(&fixture, "shop", numbered(1..=5)).await, 5);
    assert!(work_off(&fixture).await.is_empty());
}

pub(super) async fn a_full_queue_stops_a_relay_until_there_is_room(fixture: Fixture) {
    let limits = QueueLimits { bound: Some(2), ..QueueLimits::default() };
    fixture.store.limit(&q(), limits).await.unwrap();
    assert_eq!(relay(&fixture, "shop", numbered(1..=5)).await, 2);
    assert_eq!(relay(&fixture, "shop", numbered(1..=5)).await, 2);
    assert_eq!(work_off(&fixture).await, ["t1", "t2"]);
    assert_eq!(relay(&fixture, "shop", numbered(1..=5)).await, 4);
    assert_eq!(work_off(&fixture).await, ["t3", "t4"]);
    assert_eq!(relay(&fixture, "shop", numbered(1..=5)).await, 5);
    assert_eq!(work_off(&fixture).await, ["t5"]);
}

pub(super) async fn a_relay_without_tasks_says_how_far_it_got(fixture: Fixture) {
    assert_eq!(relay(&fixture, "shop", vec![]).await, 0);
    assert!(
        fixture.store.queues(Page::default()).await.unwrap().is_empty(),
        "a query does not create the queue"
    );
    relay(&fixture, "shop", numbered([7])).await;
    assert_eq!(relay(&fixture, "shop", vec![]).await, 7);
    assert_eq!(fixture.store.queues(Page::default()).await.unwrap(), [q()], "what is relayed makes one");
}

pub(super) async fn outboxes_and_queues_have_marks_of_their_own(fixture: Fixture) {
    let other = queue_name("other");
    relay(&fixture, "shop", numbered([5])).await;
    assert_eq!(relay(&fixture, "depot", numbered([1])).await, 1);
    let there = Relay { outbox: outbox("shop"), tasks: numbered([2]) };
    assert_eq!(fixture.store.relay(&other, there).await.unwrap().upto, 2);
    assert_eq!(work_off(&fixture).await, ["t5", "t1"]);
    assert_eq!(fixture.store.stats(&other).await.unwrap().ready, 1);
}

pub(super) async fn a_relayed_task_keeps_what_it_asks_for(fixture: Fixture) {
    let urgent = NewTask { priority: Priority::new(0).unwrap(), max_attempts: 3, ..task("urgent") };
    let later = after(task("later"), s(60));
    let tasks = vec![
        (1, task("usual")),
        (2, later),
        (3, urgent),
        (4, with(task("usual"), "new", OnDuplicate::Replace)),
    ];
    assert_eq!(relay(&fixture, "shop", tasks).await, 4);
    let first = fixture.claim(1).await.tasks.remove(0);
    assert_eq!((text(&first).as_str(), first.max_attempts), ("urgent", 3));
    assert_eq!(texts(&fixture.claim(10).await.tasks), ["new"]);
    assert_eq!(fixture.store.stats(&q()).await.unwrap().scheduled, 1);
}

pub(super) async fn a_listener_is_notified_of_a_relayed_task(fixture: Fixture) {
    let ready = fixture.store.ready(&q());
    relay(&fixture, "shop", numbered([1])).await;
    soon(ready).await.unwrap();
}

pub(super) async fn relays_outside_the_limits_are_refused(fixture: Fixture) {
    let of = |tasks| fixture.store.relay(&q(), Relay { outbox: outbox("shop"), tasks });
    refused(of(numbered(1..=1_001)).await);
    refused(of(numbered([0])).await);
    refused(of(numbered([2, 2])).await);
    refused(of(numbered([3, 2])).await);
    refused(of(numbered([Relay::NUMBER_MAX + 1])).await);
    refused(of(vec![(1, NewTask { max_attempts: 0, ..task("t") })]).await);
    assert_eq!(relay(&fixture, "shop", vec![]).await, 0);
    assert_eq!(relay(&fixture, "shop", numbered([Relay::NUMBER_MAX])).await, Relay::NUMBER_MAX);
}

pub(super) async fn sixteen_relays_of_one_outbox_put_each_task_in_once(fixture: Fixture) {
    let relays = (0..16).map(|at| {
        let store = if at % 2 == 0 { fixture.store.clone() } else { fixture.peer() };
        tokio::spawn(async move {
            // Each relay starts from the beginning, as if it knew nothing of the others.
            for upto in [40, 80, 120] {
                let relay = Relay { outbox: outbox("shop"), tasks: numbered(1..=upto) };
                assert!(store.relay(&q(), relay).await.unwrap().upto >= upto);
            }
        })
    });
    for relay in relays.collect::<Vec<_>>() {
        relay.await.unwrap();
    }
    let ran = work_off(&fixture).await;
    let expected: Vec<_> = (1..=120).map(|number| format!("t{number}")).collect();
    assert_eq!(ran, expected);
}
