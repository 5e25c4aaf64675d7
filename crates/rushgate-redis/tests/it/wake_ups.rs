//! Which process a queue wakes, and when: for a task that is due, and for the time at which one will be.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{open, put, queue};
use rushgate_core::{Claim, Claimed, ClientId, Due, Lease, NewTask, Op, Payload, Store, TaskId, Verbs};
use rushgate_redis::RedisStore;
use rushgate_test::ManualClock;
use rushgate_test::servers::{Kind, RedisSetup};

on_each_kind! {
    a_claimer_is_woken_by_another_process
    a_dead_listener_does_not_swallow_the_wake_up
    a_delayed_task_enqueued_between_a_claim_and_the_wait_is_noticed
    each_claim_of_a_delayed_task_wakes_the_next_process
    a_claimer_that_cannot_wait_for_the_next_due_time_wakes_a_process_that_can
    a_claim_of_a_task_that_woke_its_claimer_wakes_no_other_process
}

const HOUR: Duration = Duration::from_secs(3_600);

async fn claim(store: &RedisStore, number: u64) -> Claimed {
    let claim = Claim { n: 1, lease: Lease::new(HOUR).unwrap(), worker: "w".into() };
    store.claim(Op::new(ClientId::from_u64(2), number), &queue(), claim).await.unwrap()
}

async fn put_delayed(store: &RedisStore, number: u64) {
    let id = TaskId::new(format!("delayed-{number}")).unwrap();
    let task = NewTask {
        due: Due::After(HOUR / 2 + Duration::from_millis(number)),
        ..NewTask::new(id, Payload::empty())
    };
    store.enqueue(Op::new(ClientId::from_u64(3), number), &queue(), vec![task]).await.unwrap();
}

/// Listens for tasks. When this returns, the process is registered on the server.
async fn listen(store: &Arc<RedisStore>) -> tokio::task::JoinHandle<()> {
    let ready = store.ready(&queue());
    // The answer to a later call proves it.
    store.stats(&queue()).await.unwrap();
    tokio::spawn(async move { ready.await.unwrap() })
}

async fn a_claimer_is_woken_by_another_process(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let (store, other) = (open(&server).await, open(&server).await);
    for number in 1..=5 {
        let ready = listen(&store).await;
        put(&other, number).await.unwrap();
        ready.await.unwrap();
        assert_eq!(claim(&store, number).await.tasks.len(), 1);
    }
}

async fn a_dead_listener_does_not_swallow_the_wake_up(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let (store, dying, other) = (open(&server).await, open(&server).await, open(&server).await);
    drop(dying.ready(&queue()));
    dying.close().await.unwrap();
    let ready = listen(&store).await;
    put(&other, 1).await.unwrap();
    ready.await.unwrap();
}

async fn a_delayed_task_enqueued_between_a_claim_and_the_wait_is_noticed(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let (store, other) = (open(&server).await, open(&server).await);
    let ready = listen(&store).await;
    put(&other, 1).await.unwrap();
    ready.await.unwrap();
    assert_eq!(claim(&store, 1).await.tasks.len(), 1);
    assert!(claim(&store, 2).await.tasks.is_empty());
    put_delayed(&other, 1).await;
    store.ready(&queue()).await.unwrap();
}

async fn each_claim_of_a_delayed_task_wakes_the_next_process(kind: Kind) {
    let clock = ManualClock::default();
    let server = RedisSetup::new(kind).on(clock.clone()).start();
    let (first, second, third) = (open(&server).await, open(&server).await, open(&server).await);
    let tick = |by| {
        clock.advance(by);
        server.set_clock(clock.now());
    };
    let mut listening = Vec::new();
    for store in [&first, &second, &third] {
        listening.push(listen(store).await);
        // The process that has waited longest is woken first.
        tick(Duration::from_millis(1));
    }
    let [one, two, three] = listening.try_into().unwrap();
    for number in 1..=3 {
        put_delayed(&first, number).await;
    }
    one.await.unwrap();
    assert!(claim(&first, 1).await.tasks.is_empty());
    tick(HOUR);
    assert_eq!(claim(&first, 2).await.tasks.len(), 1);
    two.await.unwrap();
    assert_eq!(claim(&second, 3).await.tasks.len(), 1);
    three.await.unwrap();
    assert_eq!(claim(&third, 4).await.tasks.len(), 1);
}

async fn a_claimer_that_cannot_wait_for_the_next_due_time_wakes_a_process_that_can(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let (busy, idle) = (open(&server).await, open(&server).await);
    put_delayed(&busy, 1).await;
    put(&busy, 1).await.unwrap();
    let ready = listen(&idle).await;
    assert_eq!(claim(&busy, 1).await.tasks.len(), 1);
    ready.await.unwrap();
    assert!(claim(&idle, 2).await.next_due.is_some());
}

async fn a_claim_of_a_task_that_woke_its_claimer_wakes_no_other_process(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let (store, idle) = (open(&server).await, open(&server).await);
    for number in 1..=3 {
        put(&store, number).await.unwrap();
    }
    let ready = listen(&idle).await;
    assert_eq!(claim(&store, 1).await.tasks.len(), 1);
    assert_eq!(server.command(&["ZCARD", "rg:{q:mail}:listeners"]), ":1");
    assert!(!ready.is_finished());
}
