//! Contract of deadlines.

use std::time::Duration;

use rushgate_core::{
    Completed, DeadLetter, Due, Enqueued, KeyLimits, NewTask, OnDuplicate, OutboxId, Page, PastEnd,
    QueueLimits, QueueName, Relay, Retried, Retry, Selection, Task, TaskKey, TaskRelease, TaskState, Verbs,
};

use crate::fixture::*;

fn q() -> QueueName {
    queue_name("q")
}

/// Sets a deadline, from now.
fn within(mut task: NewTask, time: Duration) -> NewTask {
    task.deadline = Some(Due::After(time));
    task
}

async fn dead(fixture: &Fixture) -> Vec<DeadLetter> {
    fixture.store.dead(&q(), Page::first(10)).await.unwrap()
}

async fn top(fixture: &Fixture) -> Vec<String> {
    texts(&fixture.store.top(&q(), 1_000).await.unwrap())
}

async fn fail(fixture: &Fixture, task: &Task, delay: Duration) -> Retried {
    let how = Retry { ticket: task.ticket.clone(), delay, error: "boom".into(), give_up: false };
    fixture.store.retry(fixture.op(), &q(), vec![how]).await.unwrap()[0]
}

pub(super) async fn a_task_is_claimed_before_its_deadline_and_shows_it(fixture: Fixture) {
    let put = within(after(task("a"), s(5)), s(60));
    assert!(matches!(fixture.put(put).await, Enqueued::Added { .. }));
    fixture.put(task("b")).await;
    let info = fixture.info("a").await;
    assert_eq!((info.state, fixture.info("b").await.task.deadline), (TaskState::Scheduled, None));
    let deadline = info.task.deadline.expect("it has one");
    near(deadline.since(info.task.ticket.due), s(55));
    fixture.advance(s(6)).await;
    assert_eq!(fixture.store.top(&q(), 2).await.unwrap()[1].deadline, Some(deadline));
    let tasks = fixture.claim(2).await.tasks;
    assert_eq!((texts(&tasks), tasks[1].deadline), (vec!["b".into(), "a".into()], Some(deadline)));
    fixture.put(within(task("c"), s(60))).await;
    let popped = fixture.store.pop(fixture.op(), &q(), 1).await.unwrap();
    assert!(popped[0].deadline > Some(deadline));
}

pub(super) async fn a_task_whose_deadline_passed_is_a_dead_letter(fixture: Fixture) {
    fixture.put_all(vec![within(task("a"), s(5)), within(task("b"), s(20)), task("c")]).await;
    fixture.advance(s(6)).await;
    assert_eq!(top(&fixture).await, ["b", "c"]);
    let letters = dead(&fixture).await;
    assert_eq!((letters.len(), letters[0].id.as_str(), letters[0].attempts), (1, "a", 0));
    assert_eq!((letters[0].error.as_str(), letters[0].past.len()), (DeadLetter::LATE, 0));
    assert_eq!(letters[0].payload, payload("a"));
    let stats = fixture.store.stats(&q()).await.unwrap();
    assert_eq!((stats.ready, stats.dead), (2, 1));
    fixture.advance(s(15)).await;
    assert_eq!(texts(&fixture.claim(10).await.tasks), ["c"]);
    assert_eq!(dead(&fixture).await.len(), 2);
    assert!(fixture.is_gone("b").await);
    assert_eq!(fixture.store.pop(fixture.op(), &q(), 10).await.unwrap(), []);
}

pub(super) async fn a_task_dies_at_its_deadline_and_not_at_the_next_read(fixture: Fixture) {
    let due = fixture.claim(1).await.next_due;
    assert_eq!(due, None);
    fixture.put(within(after(task("a"), s(5)), s(20))).await;
    let deadline = fixture.info("a").await.task.deadline;
    near(fixture.claim(1).await.next_due.expect("it is due soon"), s(5));
    fixture.advance(s(60)).await;
    assert_eq!(Some(dead(&fixture).await[0].died_at), deadline);
    assert_eq!(fixture.claim(1).await.next_due, None);
}

pub(super) async fn a_requeued_task_has_no_deadline(fixture: Fixture) {
    let keyed = NewTask { key: Some(TaskKey::new("k").unwrap()), ..within(task("a"), s(5)) };
    fixture.put(keyed).await;
    fixture.advance(s(6)).await;
    assert_eq!(fixture.store.requeue_dead(fixture.op(), &q(), Selection::All).await.unwrap().requeued, 1);
    fixture.advance(s(60)).await;
    let claimed = fixture.claim_one().await;
    assert_eq!((text(&claimed), claimed.deadline), ("a".into(), None));
    assert_eq!(claimed.key, Some(TaskKey::new("k").unwrap()));
}

pub(super) async fn a_run_that_continues_past_its_deadline_may_complete(fixture: Fixture) {
    fixture.put(within(task("a"), s(5))).await;
    let claimed = fixture.claim_one().await;
    fixture.advance(s(6)).await;
    assert_eq!(fixture.info("a").await.state, TaskState::Leased);
    assert!(dead(&fixture).await.is_empty());
    let done = fixture.store.complete(fixture.op(), &q(), vec![claimed.ticket.into()]).await.unwrap();
    assert_eq!(done, [Completed::Done]);
    fixture.advance(s(60)).await;
    assert!(dead(&fixture).await.is_empty() && fixture.is_gone("a").await);
}

pub(super) async fn a_failure_whose_next_attempt_would_be_late_is_the_last(fixture: Fixture) {
    fixture.put(within(task("a"), s(30))).await;
    let claimed = fixture.claim_one().await;
    assert!(matches!(fail(&fixture, &claimed, s(5)).await, Retried::Scheduled { .. }));
    fixture.advance(s(6)).await;
    let claimed = fixture.claim_one().await;
    assert_eq!(fail(&fixture, &claimed, s(40)).await, Retried::Dead);
    let letter = dead(&fixture).await.remove(0);
    assert_eq!((letter.error.as_str(), letter.attempts, letter.past.len()), ("boom", 2, 2));
}

pub(super) async fn a_lease_that_runs_out_past_the_deadline_is_the_last(fixture: Fixture) {
    fixture.put(within(task("a"), s(5))).await;
    fixture.claim_one().await;
    fixture.advance(s(11)).await;
    assert!(top(&fixture).await.is_empty());
    let letter = dead(&fixture).await.remove(0);
    assert_eq!((letter.error.as_str(), letter.attempts), (DeadLetter::LATE, 1));
    assert_eq!((letter.past[0].how, letter.past[0].ended), (PastEnd::Lost, letter.died_at));
}

pub(super) async fn a_second_enqueue_brings_its_own_deadline(fixture: Fixture) {
    let deadline = async || fixture.info("a").await.task.deadline;
    fixture.put(within(task("a"), s(30))).await;
    let first = deadline().await;
    fixture.put(within(task("a"), s(60))).await;
    assert_eq!(deadline().await, first, "it was kept");
    let sooner =
        NewTask { on_duplicate: OnDuplicate::Earliest, due: Due::At(Default::default()), ..task("a") };
    assert!(matches!(fixture.put(sooner).await, Enqueued::Replaced { .. }));
    assert_eq!(deadline().await, first, "all but its due time was kept");
    fixture.put(with(within(task("a"), s(90)), "new", OnDuplicate::Replace)).await;
    assert!(deadline().await > first);
    fixture.put(with(task("a"), "newer", OnDuplicate::Replace)).await;
    assert_eq!(deadline().await, None);
    fixture.advance(s(120)).await;
    assert_eq!(top(&fixture).await, ["newer"]);
}

pub(super) async fn a_pending_replacement_has_its_own_deadline(fixture: Fixture) {
    fixture.put(within(task("a"), s(60))).await;
    fixture.claim_one().await;
    fixture.put(with(within(task("a"), s(5)), "new", OnDuplicate::Replace)).await;
    fixture.advance(s(6)).await;
    assert!(dead(&fixture).await.is_empty(), "the run continues");
    fixture.advance(s(6)).await;
    let letter = dead(&fixture).await.remove(0);
    assert_eq!((letter.payload, letter.attempts), (payload("new"), 0));
}

pub(super) async fn a_first_waiter_that_dies_lets_the_next_go(fixture: Fixture) {
    let per_key = KeyLimits { fifo: true, ..KeyLimits::default() };
    fixture.store.limit(&q(), QueueLimits { per_key, ..QueueLimits::default() }).await.unwrap();
    let keyed = |task: NewTask| NewTask { key: Some(TaskKey::new("k").unwrap()), ..task };
    fixture.put(keyed(within(task("a"), s(60)))).await;
    fixture.put(keyed(task("b"))).await;
    let claimed = fixture.claim_one().await;
    let back = TaskRelease { ticket: claimed.ticket, delay: s(70) };
    fixture.store.release_tasks(fixture.op(), &q(), vec![back]).await.unwrap();
    assert!(top(&fixture).await.is_empty(), "the first task blocks its key group");
    near(fixture.claim(1).await.next_due.expect("a deadline passes then"), s(60));
    fixture.advance(s(61)).await;
    assert_eq!(top(&fixture).await, ["b"]);
}

pub(super) async fn a_task_released_past_its_deadline_dies(fixture: Fixture) {
    fixture.put(within(task("a"), s(5))).await;
    let claimed = fixture.claim_one().await;
    fixture.advance(s(6)).await;
    fixture.store.release_tasks(fixture.op(), &q(), vec![claimed.ticket.into()]).await.unwrap();
    assert!(fixture.claim(1).await.tasks.is_empty());
    assert_eq!(dead(&fixture).await[0].error, DeadLetter::LATE);
}

pub(super) async fn a_deadline_that_leaves_no_time_is_refused_and_nothing_is_enqueued(fixture: Fixture) {
    fixture.put(task("b")).await;
    let now = fixture.info("b").await.task.ticket.due;
    let at = |deadline| NewTask { deadline: Some(deadline), ..task("a") };
    for wrong in [
        at(Due::Now),
        at(Due::After(Duration::ZERO)),
        at(Due::After(NewTask::DELAY_MAX + ms(1))),
        at(Due::At(now)),
        after(at(Due::After(s(5))), s(5)),
        NewTask { due: Due::At(now + s(60)), ..at(Due::After(s(5))) },
    ] {
        refused(fixture.store.enqueue(fixture.op(), &q(), vec![task("c"), wrong.clone()]).await);
        let relay = Relay { outbox: OutboxId::new("shop").unwrap(), tasks: vec![(1, task("c")), (2, wrong)] };
        refused(fixture.store.relay(&q(), relay).await);
    }
    assert!(fixture.is_gone("a").await && fixture.is_gone("c").await, "no task of the batch was enqueued");
    let enough = NewTask { due: Due::At(now), ..at(Due::At(now + s(60))) };
    assert!(matches!(fixture.put(enough).await, Enqueued::Added { .. }));
}

pub(super) async fn a_deadline_survives_a_repeated_call(fixture: Fixture) {
    let (op, tasks) = (fixture.op(), vec![within(task("a"), s(30)), NewTask { deadline: None, ..task("b") }]);
    let at = fixture.store.stats(&q()).await.unwrap();
    assert_eq!(at.ready, 0);
    let first = fixture.store.enqueue(op, &q(), tasks.clone()).await.unwrap();
    let deadline = fixture.info("a").await.task.deadline.expect("it has one");
    let again = vec![NewTask { deadline: Some(Due::At(deadline)), ..task("a") }, task("b")];
    fixture.advance(s(31)).await;
    assert_eq!(fixture.store.enqueue(op, &q(), again).await.unwrap(), first);
    assert_eq!(top(&fixture).await, ["b"]);
}
