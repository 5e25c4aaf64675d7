//! Contract of deadlines.

use std::time::Duration;

use rushgate_core::{
    Completed, DeadLetter, Due, Enqueued, KeyLimits, NewTask, OnDuplicate, OutboxId, Page, PastEnd,
    QueueLimits, QueueName, Relay, Retried, Retry, Selection, Task, TaskKey, TaskRelease, TaskState, Verbs,
};

use crate::desk::*;

fn q() -> QueueName {
    queue_name("q")
}

/// Sets a deadline, from now.
fn within(mut task: NewTask, time: Duration) -> NewTask {
    task.deadline = Some(Due::After(time));
    task
}

async fn dead(desk: &Desk) -> Vec<DeadLetter> {
    desk.store.dead(&q(), Page::first(10)).await.unwrap()
}

async fn top(desk: &Desk) -> Vec<String> {
    texts(&desk.store.top(&q(), 1_000).await.unwrap())
}

async fn fail(desk: &Desk, task: &Task, delay: Duration) -> Retried {
    let how = Retry { ticket: task.ticket.clone(), delay, error: "boom".into(), give_up: false };
    desk.store.retry(desk.op(), &q(), vec![how]).await.unwrap()[0]
}

pub(super) async fn a_task_is_given_out_before_its_deadline_and_tells_it(desk: Desk) {
    let put = within(after(task("a"), s(5)), s(60));
    assert!(matches!(desk.put(put).await, Enqueued::Added { .. }));
    desk.put(task("b")).await;
    let info = desk.info("a").await;
    assert_eq!((info.state, desk.info("b").await.task.deadline), (TaskState::Scheduled, None));
    let deadline = info.task.deadline.expect("it has one");
    near(deadline.since(info.task.ticket.due), s(55));
    desk.advance(s(6)).await;
    assert_eq!(desk.store.top(&q(), 2).await.unwrap()[1].deadline, Some(deadline));
    let tasks = desk.claim(2).await.tasks;
    assert_eq!((texts(&tasks), tasks[1].deadline), (vec!["b".into(), "a".into()], Some(deadline)));
    desk.put(within(task("c"), s(60))).await;
    let popped = desk.store.pop(desk.op(), &q(), 1).await.unwrap();
    assert!(popped[0].deadline > Some(deadline));
}

pub(super) async fn a_task_whose_deadline_passed_is_a_dead_letter(desk: Desk) {
    desk.put_all(vec![within(task("a"), s(5)), within(task("b"), s(20)), task("c")]).await;
    desk.advance(s(6)).await;
    assert_eq!(top(&desk).await, ["b", "c"]);
    let letters = dead(&desk).await;
    assert_eq!((letters.len(), letters[0].id.as_str(), letters[0].attempts), (1, "a", 0));
    assert_eq!((letters[0].error.as_str(), letters[0].past.len()), (DeadLetter::LATE, 0));
    assert_eq!(letters[0].payload, payload("a"));
    let stats = desk.store.stats(&q()).await.unwrap();
    assert_eq!((stats.ready, stats.dead), (2, 1));
    desk.advance(s(15)).await;
    assert_eq!(texts(&desk.claim(10).await.tasks), ["c"]);
    assert_eq!(dead(&desk).await.len(), 2);
    assert!(desk.is_gone("b").await);
    assert_eq!(desk.store.pop(desk.op(), &q(), 10).await.unwrap(), []);
}

pub(super) async fn a_task_dies_at_its_deadline_and_not_when_somebody_looks(desk: Desk) {
    let due = desk.claim(1).await.next_due;
    assert_eq!(due, None);
    desk.put(within(after(task("a"), s(5)), s(20))).await;
    let deadline = desk.info("a").await.task.deadline;
    near(desk.claim(1).await.next_due.expect("it is due soon"), s(5));
    desk.advance(s(60)).await;
    assert_eq!(Some(dead(&desk).await[0].died_at), deadline);
    assert_eq!(desk.claim(1).await.next_due, None);
}

pub(super) async fn a_requeued_task_has_no_deadline(desk: Desk) {
    let keyed = NewTask { key: Some(TaskKey::new("k").unwrap()), ..within(task("a"), s(5)) };
    desk.put(keyed).await;
    desk.advance(s(6)).await;
    assert_eq!(desk.store.requeue_dead(desk.op(), &q(), Selection::All).await.unwrap().requeued, 1);
    desk.advance(s(60)).await;
    let claimed = desk.claim_one().await;
    assert_eq!((text(&claimed), claimed.deadline), ("a".into(), None));
    assert_eq!(claimed.key, Some(TaskKey::new("k").unwrap()));
}

pub(super) async fn a_run_that_goes_on_past_its_deadline_may_complete(desk: Desk) {
    desk.put(within(task("a"), s(5))).await;
    let claimed = desk.claim_one().await;
    desk.advance(s(6)).await;
    assert_eq!(desk.info("a").await.state, TaskState::Leased);
    assert!(dead(&desk).await.is_empty());
    let done = desk.store.complete(desk.op(), &q(), vec![claimed.ticket.into()]).await.unwrap();
    assert_eq!(done, [Completed::Done]);
    desk.advance(s(60)).await;
    assert!(dead(&desk).await.is_empty() && desk.is_gone("a").await);
}

pub(super) async fn a_failure_whose_next_attempt_would_be_late_is_the_last(desk: Desk) {
    desk.put(within(task("a"), s(30))).await;
    let claimed = desk.claim_one().await;
    assert!(matches!(fail(&desk, &claimed, s(5)).await, Retried::Scheduled { .. }));
    desk.advance(s(6)).await;
    let claimed = desk.claim_one().await;
    assert_eq!(fail(&desk, &claimed, s(40)).await, Retried::Dead);
    let letter = dead(&desk).await.remove(0);
    assert_eq!((letter.error.as_str(), letter.attempts, letter.past.len()), ("boom", 2, 2));
}

pub(super) async fn a_lease_that_runs_out_past_the_deadline_is_the_last(desk: Desk) {
    desk.put(within(task("a"), s(5))).await;
    desk.claim_one().await;
    desk.advance(s(11)).await;
    assert!(top(&desk).await.is_empty());
    let letter = dead(&desk).await.remove(0);
    assert_eq!((letter.error.as_str(), letter.attempts), (DeadLetter::LATE, 1));
    assert_eq!((letter.past[0].how, letter.past[0].ended), (PastEnd::Lost, letter.died_at));
}

pub(super) async fn a_second_enqueue_brings_its_own_deadline(desk: Desk) {
    let deadline = async || desk.info("a").await.task.deadline;
    desk.put(within(task("a"), s(30))).await;
    let first = deadline().await;
    desk.put(within(task("a"), s(60))).await;
    assert_eq!(deadline().await, first, "it was kept");
    let sooner =
        NewTask { on_duplicate: OnDuplicate::Earliest, due: Due::At(Default::default()), ..task("a") };
    assert!(matches!(desk.put(sooner).await, Enqueued::Replaced { .. }));
    assert_eq!(deadline().await, first, "all but its due time was kept");
    desk.put(with(within(task("a"), s(90)), "new", OnDuplicate::Replace)).await;
    assert!(deadline().await > first);
    desk.put(with(task("a"), "newer", OnDuplicate::Replace)).await;
    assert_eq!(deadline().await, None);
    desk.advance(s(120)).await;
    assert_eq!(top(&desk).await, ["newer"]);
}

pub(super) async fn a_newcomer_behind_a_run_has_its_own_deadline(desk: Desk) {
    desk.put(within(task("a"), s(60))).await;
    desk.claim_one().await;
    desk.put(with(within(task("a"), s(5)), "new", OnDuplicate::Replace)).await;
    desk.advance(s(6)).await;
    assert!(dead(&desk).await.is_empty(), "the run continues");
    desk.advance(s(6)).await;
    let letter = dead(&desk).await.remove(0);
    assert_eq!((letter.payload, letter.attempts), (payload("new"), 0));
}

pub(super) async fn a_first_in_line_that_dies_lets_the_next_go(desk: Desk) {
    let per_key = KeyLimits { fifo: true, ..KeyLimits::default() };
    desk.store.limit(&q(), QueueLimits { per_key, ..QueueLimits::default() }).await.unwrap();
    let keyed = |task: NewTask| NewTask { key: Some(TaskKey::new("k").unwrap()), ..task };
    desk.put(keyed(within(task("a"), s(60)))).await;
    desk.put(keyed(task("b"))).await;
    let claimed = desk.claim_one().await;
    let back = TaskRelease { ticket: claimed.ticket, delay: s(70) };
    desk.store.release_tasks(desk.op(), &q(), vec![back]).await.unwrap();
    assert!(top(&desk).await.is_empty(), "the first task blocks its key group");
    near(desk.claim(1).await.next_due.expect("a deadline passes then"), s(60));
    desk.advance(s(61)).await;
    assert_eq!(top(&desk).await, ["b"]);
}

pub(super) async fn a_task_released_past_its_deadline_dies(desk: Desk) {
    desk.put(within(task("a"), s(5))).await;
    let claimed = desk.claim_one().await;
    desk.advance(s(6)).await;
    desk.store.release_tasks(desk.op(), &q(), vec![claimed.ticket.into()]).await.unwrap();
    assert!(desk.claim(1).await.tasks.is_empty());
    assert_eq!(dead(&desk).await[0].error, DeadLetter::LATE);
}

pub(super) async fn a_deadline_that_leaves_no_time_is_refused_and_nothing_is_put_in(desk: Desk) {
    desk.put(task("b")).await;
    let now = desk.info("b").await.task.ticket.due;
    let at = |deadline| NewTask { deadline: Some(deadline), ..task("a") };
    for wrong in [
        at(Due::Now),
        at(Due::After(Duration::ZERO)),
        at(Due::After(NewTask::DELAY_MAX + ms(1))),
        at(Due::At(now)),
        after(at(Due::After(s(5))), s(5)),
        NewTask { due: Due::At(now + s(60)), ..at(Due::After(s(5))) },
    ] {
        refused(desk.store.enqueue(desk.op(), &q(), vec![task("c"), wrong.clone()]).await);
        let relay = Relay { outbox: OutboxId::new("shop").unwrap(), tasks: vec![(1, task("c")), (2, wrong)] };
        refused(desk.store.relay(&q(), relay).await);
    }
    assert!(desk.is_gone("a").await && desk.is_gone("c").await, "no task of the batch was enqueued");
    let enough = NewTask { due: Due::At(now), ..at(Due::At(now + s(60))) };
    assert!(matches!(desk.put(enough).await, Enqueued::Added { .. }));
}

pub(super) async fn a_deadline_survives_a_repeated_call(desk: Desk) {
    let (op, tasks) = (desk.op(), vec![within(task("a"), s(30)), NewTask { deadline: None, ..task("b") }]);
    let at = desk.store.stats(&q()).await.unwrap();
    assert_eq!(at.ready, 0);
    let first = desk.store.enqueue(op, &q(), tasks.clone()).await.unwrap();
    let deadline = desk.info("a").await.task.deadline.expect("it has one");
    let again = vec![NewTask { deadline: Some(Due::At(deadline)), ..task("a") }, task("b")];
    desk.advance(s(31)).await;
    assert_eq!(desk.store.enqueue(op, &q(), again).await.unwrap(), first);
    assert_eq!(top(&desk).await, ["b"]);
}
