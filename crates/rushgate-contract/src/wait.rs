//! Contract of tasks that wait for others, and of batches.

use std::time::Duration;

use rushgate_core::{
    Cancelled, Claim, Closed, Completion, ContentType, Due, Enqueued, IfDead, KeyLimits, Listing, NewTask,
    OnDuplicate, OutboxId, Overflow, Page, Payload, QueueLimits, QueueName, Relay, Retention, Retry,
    Selection, TaskEnd, TaskKey, TaskState, Unmet, Verbs, Waited, Waits,
};

use crate::fixture::*;

fn q() -> QueueName {
    queue_name("q")
}

/// A task that waits for others.
fn following(id: &str, others: &[&str]) -> NewTask {
    NewTask { after: others.iter().map(|id| task_id(id)).collect(), ..task(id) }
}

fn if_dead(task: NewTask, if_dead: IfDead) -> NewTask {
    NewTask { if_dead, ..task }
}

/// The callback of an open batch.
fn open(id: &str) -> NewTask {
    NewTask { held_open: true, ..task(id) }
}

fn part(id: &str, whole: &str) -> NewTask {
    NewTask { part_of: Some(task_id(whole)), ..task(id) }
}

pub(super) async fn a_task_that_others_wait_for_does_not_begin_to_wait(fixture: Fixture) {
    fixture.put(task("x")).await;
    added(fixture.put(following("a", &["x"])).await);
    fail_for_good(&fixture).await;
    // No task with that ID is live, but `a` waits for it. If it waited for `a`, neither would ever run.
    let refused = fixture.put(following("x", &["a"])).await;
    assert!(matches!(refused, Enqueued::Refused { why: Unmet::Taken, .. }), "{refused:?}");
    // A waiting task that is gone prevents nothing.
    cancel(&fixture, "a").await;
    fixture.put(task("b")).await;
    added(fixture.put(following("x", &["b"])).await);
    assert_eq!([work_off(&fixture).await, work_off(&fixture).await], ["b", "x"]);
}

#[track_caller]
fn refused(answer: Enqueued, task: &str, why: Unmet) {
    assert_eq!(answer, Enqueued::Refused { task: task_id(task), why });
}

async fn close(fixture: &Fixture, id: &str) -> Closed {
    fixture.store.close_batch(fixture.op(), &q(), &task_id(id)).await.unwrap()
}

async fn waits(fixture: &Fixture, id: &str) -> Option<Waits> {
    fixture.store.waits(&q(), &task_id(id)).await.unwrap()
}

/// The unfinished tasks that a task waits for, of which only a few are shown.
async fn left(fixture: &Fixture, id: &str) -> Vec<String> {
    let waits = waits(fixture, id).await;
    waits.into_iter().flat_map(|waits| waits.first).map(|one| one.id.to_string()).collect()
}

async fn waited(fixture: &Fixture, id: &str) -> Vec<Waited> {
    fixture.store.waited(&q(), &task_id(id), Page::first(100)).await.unwrap()
}

/// How the tasks ended that a task waited for.
async fn ends(fixture: &Fixture, id: &str) -> Vec<(String, TaskEnd)> {
    waited(fixture, id).await.into_iter().map(|one| (one.id.to_string(), one.end)).collect()
}

async fn cancel(fixture: &Fixture, id: &str) -> Cancelled {
    fixture.store.cancel(fixture.op(), &q(), &task_id(id)).await.unwrap()
}

async fn keep_done(fixture: &Fixture) {
    let retention = Some(Retention::new(s(3_600), 100));
    fixture.store.limit(&q(), QueueLimits { retention, ..QueueLimits::default() }).await.unwrap();
}

/// Why a task is dead.
async fn error(fixture: &Fixture, id: &str) -> String {
    let letter = fixture.store.dead_letter(&q(), &task_id(id)).await.unwrap();
    letter.unwrap_or_else(|| panic!("{id} is not dead")).error
}

async fn nothing_is_due(fixture: &Fixture) {
    assert_eq!(texts(&fixture.store.top(&q(), 10).await.unwrap()), Vec::<String>::new());
}

pub(super) async fn a_task_runs_when_all_that_it_waits_for_are_done(fixture: Fixture) {
    added(fixture.put(task("a")).await);
    added(fixture.put(task("b")).await);
    added(fixture.put(following("c", &["a", "b", "a"])).await);
    let info = fixture.info("c").await;
    assert_eq!((info.state, info.not_before), (TaskState::Blocked, None));
    assert_eq!(fixture.store.stats(&q()).await.unwrap().blocked, 1);
    let blocked = Listing::new(TaskState::Blocked, Page::first(10));
    assert_eq!(fixture.store.tasks(&q(), blocked).await.unwrap().tasks.len(), 1);
    let expected = Waits { open: false, if_dead: IfDead::Wait, left: 2, over: 0, dead: 0, first: Vec::new() };
    assert_eq!(waits(&fixture, "c").await.map(|waits| Waits { first: Vec::new(), ..waits }), Some(expected));
    assert_eq!(left(&fixture, "c").await, ["a", "b"]);

    assert_eq!(work_off(&fixture).await, "a");
    assert_eq!(left(&fixture, "c").await, ["b"]);
    let b = fixture.claim_one().await;
    nothing_is_due(&fixture).await;
    complete(&fixture, b).await;
    assert_eq!(fixture.info("c").await.state, TaskState::Ready);
    assert_eq!(ends(&fixture, "c").await, [("a".into(), TaskEnd::Done), ("b".into(), TaskEnd::Done)]);
    assert_eq!(work_off(&fixture).await, "c");
    assert_eq!((waits(&fixture, "c").await, waited(&fixture, "c").await), (None, Vec::new()));
}

pub(super) async fn a_task_knows_which_tasks_wait_for_it(fixture: Fixture) {
    let dependents = async |id: &str, n| {
        let ids = fixture.store.dependents(&q(), &task_id(id), n).await.unwrap();
        ids.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(dependents("a", 10).await.is_empty(), "a queue that was never used");
    fixture.put_all(vec![task("a"), task("b"), open("whole"), part("p", "whole")]).await;
    let runs = if_dead(following("z", &["a"]), IfDead::Run);
    fixture.put_all(vec![runs, following("y", &["a", "b"]), following("x", &["a"])]).await;
    assert_eq!(dependents("a", 10).await, ["y", "x", "z"]);
    assert_eq!(dependents("a", 2).await, ["y", "x"]);
    assert_eq!(
        (dependents("b", 10).await, dependents("p", 10).await),
        (vec!["y".into()], vec!["whole".into()])
    );
    assert!(dependents("whole", 10).await.is_empty() && dependents("nothing", 10).await.is_empty());
    cancel(&fixture, "x").await;
    assert_eq!(dependents("a", 10).await, ["y", "z"]);
    assert_eq!(work_off(&fixture).await, "a");
    assert!(dependents("a", 10).await.is_empty(), "it is done");
    assert_eq!(dependents("b", 10).await, ["y"]);
    crate::fixture::refused(fixture.store.dependents(&q(), &task_id("a"), 0).await);
}

pub(super) async fn a_task_may_wait_for_one_of_the_same_call(fixture: Fixture) {
    let tasks = vec![task("a"), following("b", &["a"]), following("c", &["b"])];
    let answers = fixture.store.enqueue(fixture.op(), &q(), tasks).await.unwrap();
    answers.into_iter().for_each(added);
    for id in ["a", "b", "c"] {
        assert_eq!(work_off(&fixture).await, id);
    }
}

pub(super) async fn a_dependency_on_an_unknown_task_is_refused_and_nothing_is_enqueued(fixture: Fixture) {
    let tasks = vec![following("b", &["a"]), task("a"), following("c", &["a", "typo"])];
    let answers = fixture.store.enqueue(fixture.op(), &q(), tasks).await.unwrap();
    refused(answers[0].clone(), "a", Unmet::Unknown);
    added(answers[1].clone());
    refused(answers[2].clone(), "typo", Unmet::Unknown);
    assert!(fixture.is_gone("b").await && fixture.is_gone("c").await);
    // A finished task that was not retained is as unknown as a wrong name.
    work_off(&fixture).await;
    refused(fixture.put(following("b", &["a"])).await, "a", Unmet::Unknown);
    let unique = NewTask { unique_for: Some(s(60)), ..following("b", &["a"]) };
    refused(fixture.put(unique).await, "a", Unmet::Unknown);
    added(fixture.put(task("b")).await);
}

pub(super) async fn one_that_is_kept_as_done_counts_as_over(fixture: Fixture) {
    keep_done(&fixture).await;
    fixture.put(task("a")).await;
    let result = Payload::new(ContentType::json(), *b"[7]").unwrap();
    let done = Completion::with(fixture.claim_one().await.ticket, result.clone());
    fixture.store.complete(fixture.op(), &q(), vec![done]).await.unwrap();
    added(fixture.put(following("b", &["a"])).await);
    assert_eq!(fixture.info("b").await.state, TaskState::Ready);
    let over = waited(&fixture, "b").await;
    assert_eq!((over[0].id.as_str(), over[0].end, &over[0].result), ("a", TaskEnd::Done, &Some(result)));
    fixture.put(task("gone")).await;
    cancel(&fixture, "gone").await;
    added(fixture.put(following("c", &["gone"])).await);
    assert_eq!(error(&fixture, "c").await, "waited for gone, which was canceled");
    added(fixture.put(if_dead(following("d", &["gone"]), IfDead::Run)).await);
    assert_eq!(ends(&fixture, "d").await, [("gone".into(), TaskEnd::Cancelled)]);
}

pub(super) async fn results_are_given_to_who_waited_though_nothing_else_is_kept(fixture: Fixture) {
    for id in ["a", "b", "c"] {
        fixture.put(task(id)).await;
    }
    fixture.put(following("sum", &["a", "b", "c"])).await;
    for claimed in fixture.claim(3).await.tasks {
        let result = Payload::new(ContentType::bytes(), text(&claimed).into_bytes()).unwrap();
        let discarded = text(&claimed) == "b";
        let done = Completion { ticket: claimed.ticket, result: (!discarded).then_some(result), discarded };
        fixture.store.complete(fixture.op(), &q(), vec![done]).await.unwrap();
    }
    let sum = fixture.claim_one().await;
    let results: Vec<_> = waited(&fixture, "sum").await.into_iter().map(|one| one.result).collect();
    assert_eq!(results, [Some(payload("a")), None, Some(payload("c"))]);
    let page = fixture.store.waited(&q(), &task_id("sum"), Page::after("a".into(), 1)).await.unwrap();
    assert_eq!((page.len(), page[0].id.as_str(), page[0].end), (1, "b", TaskEnd::Discarded));
    // They are kept for the next attempt too, and deleted with the task.
    let again = Retry { ticket: sum.ticket, delay: Duration::ZERO, error: "no".into(), give_up: false };
    fixture.store.retry(fixture.op(), &q(), vec![again]).await.unwrap();
    assert_eq!(waited(&fixture, "sum").await.len(), 3);
    work_off(&fixture).await;
    assert_eq!(waited(&fixture, "sum").await, []);
    fixture.put(task("sum")).await;
    assert_eq!((waits(&fixture, "sum").await, waited(&fixture, "sum").await), (None, Vec::new()));
    assert!(fixture.store.waited(&q(), &task_id("sum"), Page::first(101)).await.unwrap_err().is_invalid());
}

pub(super) async fn a_task_continues_waiting_for_one_that_is_dead(fixture: Fixture) {
    fixture.put(task("a")).await;
    fixture.put(task("b")).await;
    fixture.put(following("c", &["a", "b"])).await;
    fail_for_good(&fixture).await;
    let blocked = waits(&fixture, "c").await.expect("it waits");
    assert_eq!((blocked.left, blocked.dead), (2, 1));
    let shown: Vec<_> = blocked.first.iter().map(|one| (one.id.as_str(), one.error.as_deref())).collect();
    assert_eq!(shown, [("a", Some("boom")), ("b", None)]);
    work_off(&fixture).await;
    nothing_is_due(&fixture).await;
    fixture.store.requeue_dead(fixture.op(), &q(), Selection::All).await.unwrap();
    assert_eq!(waits(&fixture, "c").await.map(|waits| (waits.left, waits.dead)), Some((1, 0)));
    assert_eq!(work_off(&fixture).await, "a");
    assert_eq!(work_off(&fixture).await, "c");
}

pub(super) async fn a_task_may_fail_with_one_that_it_waits_for(fixture: Fixture) {
    fixture.put(task("a")).await;
    fixture.put(if_dead(following("b", &["a"]), IfDead::Fail)).await;
    fixture.put(if_dead(following("c", &["b"]), IfDead::Fail)).await;
    fixture.put(following("d", &["c"])).await;
    fail_for_good(&fixture).await;
    assert_eq!(error(&fixture, "b").await, "waited for a, which is dead: boom");
    assert_eq!(error(&fixture, "c").await, "waited for b, which is dead: waited for a, which is dead: boom");
    assert_eq!(fixture.info("d").await.state, TaskState::Blocked);
    // The same applies to one that comes later.
    added(fixture.put(if_dead(following("e", &["a"]), IfDead::Fail)).await);
    assert_eq!(error(&fixture, "e").await, "waited for a, which is dead: boom");
    // A requeued dead letter waits for nothing.
    fixture.store.requeue_dead(fixture.op(), &q(), Selection::Ids(vec![task_id("c")])).await.unwrap();
    assert_eq!(work_off(&fixture).await, "c");
    assert_eq!(work_off(&fixture).await, "d");
}

pub(super) async fn a_task_may_run_when_one_that_it_waits_for_is_dead(fixture: Fixture) {
    fixture.put(task("a")).await;
    fixture.put(task("b")).await;
    fixture.put(if_dead(following("c", &["a", "b"]), IfDead::Run)).await;
    fail_for_good(&fixture).await;
    nothing_is_waited_for_but(&fixture, "c", "b").await;
    cancel(&fixture, "b").await;
    let over = waited(&fixture, "c").await;
    assert_eq!((over[0].end, over[0].error.as_deref()), (TaskEnd::Dead, Some("boom")));
    assert_eq!((over[1].end, over[1].error.as_deref()), (TaskEnd::Cancelled, None));
    assert_eq!(work_off(&fixture).await, "c");
    added(fixture.put(if_dead(following("d", &["a"]), IfDead::Run)).await);
    assert_eq!(work_off(&fixture).await, "d");
}

async fn nothing_is_waited_for_but(fixture: &Fixture, id: &str, other: &str) {
    assert_eq!(left(fixture, id).await, [other]);
}

pub(super) async fn nobody_waits_for_what_can_never_be_done(fixture: Fixture) {
    for (id, after) in [("cancelled", "1"), ("dequeued", "2"), ("deleted", "3"), ("marked", "4")] {
        fixture.put(task(id)).await;
        added(fixture.put(following(after, &[id])).await);
    }
    cancel(&fixture, "cancelled").await;
    assert_eq!(error(&fixture, "1").await, "waited for cancelled, which was canceled");
    fixture.store.dequeue(fixture.op(), &q(), fixture.info("dequeued").await.task.ticket).await.unwrap();
    assert_eq!(error(&fixture, "2").await, "waited for dequeued, which was deleted");
    fail_for_good(&fixture).await;
    assert_eq!(fixture.info("3").await.state, TaskState::Blocked);
    fixture.store.delete_dead(fixture.op(), &q(), Selection::Ids(vec![task_id("deleted")])).await.unwrap();
    assert_eq!(error(&fixture, "3").await, "waited for deleted, which was deleted");
    let marked = fixture.claim_one().await;
    assert_eq!(cancel(&fixture, "marked").await, Cancelled::Marked);
    assert_eq!(fixture.info("4").await.state, TaskState::Blocked);
    complete(&fixture, marked).await;
    assert_eq!(error(&fixture, "4").await, "waited for marked, which was canceled");
    assert_eq!(fixture.store.stats(&q()).await.unwrap().blocked, 0);
}

pub(super) async fn a_task_that_was_popped_counts_as_over(fixture: Fixture) {
    fixture.put(task("a")).await;
    fixture.put(following("b", &["a"])).await;
    assert_eq!(texts(&fixture.store.pop(fixture.op(), &q(), 2).await.unwrap()), ["a"]);
    assert_eq!(ends(&fixture, "b").await, [("a".into(), TaskEnd::Popped)]);
    assert_eq!(work_off(&fixture).await, "b");
}

pub(super) async fn a_lease_that_ran_out_for_good_is_a_death_too(fixture: Fixture) {
    fixture.put(NewTask { max_attempts: 1, ..task("a") }).await;
    fixture.put(if_dead(following("b", &["a"]), IfDead::Fail)).await;
    fixture.put(following("c", &["b"])).await;
    let claim = Claim { n: 1, lease: lease(s(5)), worker: "w".into() };
    fixture.store.claim(fixture.op(), &q(), claim).await.unwrap();
    fixture.advance(s(6)).await;
    assert_eq!(error(&fixture, "b").await, "waited for a, which is dead: lease expired");
    assert_eq!(waits(&fixture, "c").await.map(|waits| waits.dead), Some(1));
}

pub(super) async fn a_task_waits_for_its_time_and_for_the_others(fixture: Fixture) {
    fixture.put(task("a")).await;
    fixture.put(after(following("b", &["a"]), s(60))).await;
    work_off(&fixture).await;
    assert_eq!(fixture.info("b").await.state, TaskState::Scheduled);
    fixture.advance(s(61)).await;
    // A task that became due while it waited gets the place that it would have had.
    fixture.put(task("c")).await;
    fixture.put(after(following("d", &["c"]), s(5))).await;
    fixture.advance(s(6)).await;
    fixture.put(task("later")).await;
    assert_eq!(work_off(&fixture).await, "b");
    assert_eq!(work_off(&fixture).await, "c");
    assert_eq!(work_off(&fixture).await, "d");
}

pub(super) async fn a_deadline_holds_while_a_task_waits(fixture: Fixture) {
    fixture.put(after(task("a"), s(100))).await;
    let dated = NewTask { deadline: Some(Due::After(s(10))), ..following("b", &["a"]) };
    fixture.put(dated).await;
    fixture.put(if_dead(following("c", &["b"]), IfDead::Fail)).await;
    fixture.advance(s(11)).await;
    let late = "its deadline passed before it ran";
    assert_eq!(error(&fixture, "b").await, late);
    assert_eq!(error(&fixture, "c").await, format!("waited for b, which is dead: {late}"));
    assert_eq!(fixture.store.stats(&q()).await.unwrap().blocked, 0);
}

pub(super) async fn what_waits_for_others_holds_up_no_line(fixture: Fixture) {
    let keyed = |task: NewTask| NewTask { key: Some(TaskKey::new("k").unwrap()), ..task };
    let per_key = KeyLimits { fifo: true, ..KeyLimits::default() };
    fixture.store.limit(&q(), QueueLimits { per_key, ..QueueLimits::default() }).await.unwrap();
    fixture.put(task("a")).await;
    fixture.put(keyed(following("b", &["a"]))).await;
    fixture.put(keyed(task("c"))).await;
    assert_eq!(texts(&fixture.store.top(&q(), 5).await.unwrap()), ["a", "c"]);
    assert_eq!(work_off(&fixture).await, "a");
    let info = fixture.info("b").await;
    assert_eq!((info.state, info.task.key.map(|key| key.to_string())), (TaskState::Ready, Some("k".into())));
    assert_eq!(work_off(&fixture).await, "b", "it takes the place that it would have had");
    assert_eq!(work_off(&fixture).await, "c");
}

pub(super) async fn a_duplicate_changes_nothing_of_what_a_task_waits_for(fixture: Fixture) {
    fixture.put(task("a")).await;
    fixture.put(following("b", &["a"])).await;
    let kept = fixture.put(following("b", &["nobody"])).await;
    assert!(matches!(kept, Enqueued::Kept { .. }), "{kept:?}");
    let replaced = fixture.put(with(task("b"), "new", OnDuplicate::Replace)).await;
    assert!(matches!(replaced, Enqueued::Replaced { .. }), "{replaced:?}");
    nothing_is_waited_for_but(&fixture, "b", "a").await;
    assert_eq!(fixture.info("b").await.state, TaskState::Blocked);
    work_off(&fixture).await;
    assert_eq!(work_off(&fixture).await, "new");
    let replacing = with(following("c", &["b"]), "c", OnDuplicate::Replace);
    assert!(fixture.store.enqueue(fixture.op(), &q(), vec![replacing]).await.unwrap_err().is_invalid());
}

pub(super) async fn one_that_is_replaced_during_its_work_is_waited_for_until_it_is_done(fixture: Fixture) {
    fixture.put(task("a")).await;
    fixture.put(following("b", &["a"])).await;
    let run = fixture.claim_one().await;
    fixture.put(with(task("a"), "again", OnDuplicate::Replace)).await;
    fixture.store.complete(fixture.op(), &q(), vec![run.ticket.into()]).await.unwrap();
    nothing_is_waited_for_but(&fixture, "b", "a").await;
    assert_eq!(work_off(&fixture).await, "again");
    assert_eq!(work_off(&fixture).await, "b");
}

pub(super) async fn nothing_can_wait_behind_a_run_that_is_to_be_cancelled(fixture: Fixture) {
    fixture.put(task("a")).await;
    fixture.put(after(task("other"), s(60))).await;
    let run = fixture.claim_one().await;
    cancel(&fixture, "a").await;
    refused(fixture.put(following("a", &["other"])).await, "a", Unmet::Taken);
    complete(&fixture, run).await;
    added(fixture.put(following("a", &["other"])).await);
}

pub(super) async fn a_dropped_task_lets_nobody_wait(fixture: Fixture) {
    let limits = QueueLimits { bound: Some(2), overflow: Overflow::DropOldest, ..QueueLimits::default() };
    fixture.store.limit(&q(), limits).await.unwrap();
    fixture.put(task("a")).await;
    fixture.put(after(task("b2"), s(60))).await;
    let displaced = fixture.put(following("b", &["a"])).await;
    assert!(matches!(displaced, Enqueued::Displaced { ref dropped, .. } if dropped.as_str() == "a"));
    assert_eq!(error(&fixture, "b").await, "waited for a, which was dropped");
    added(fixture.put(following("c", &["b2"])).await);
    fixture.put(task("d")).await;
    assert_eq!(error(&fixture, "c").await, "waited for b2, which was dropped");
}

pub(super) async fn what_waits_counts_towards_the_bound_and_a_refusal_does_not(fixture: Fixture) {
    let limits = QueueLimits { bound: Some(2), ..QueueLimits::default() };
    fixture.store.limit(&q(), limits).await.unwrap();
    fixture.put(task("a")).await;
    refused(fixture.put(following("b", &["nobody"])).await, "nobody", Unmet::Unknown);
    added(fixture.put(following("b", &["a"])).await);
    assert_eq!(fixture.put(following("c", &["a"])).await, Enqueued::Full { bound: 2 });
    work_off(&fixture).await;
    assert_eq!(work_off(&fixture).await, "b");
}

pub(super) async fn a_task_that_dies_when_enqueued_leaves_its_capacity_to_the_next_of_the_call(
    fixture: Fixture,
) {
    fixture.put(task("x")).await;
    fail_for_good(&fixture).await;
    let bounded = QueueLimits { bound: Some(1), ..QueueLimits::default() };
    for (overflow, dead, others) in
        [(Overflow::Refuse, "a", ["b", "c"]), (Overflow::DropOldest, "d", ["e", "f"])]
    {
        fixture.store.limit(&q(), QueueLimits { overflow, ..bounded }).await.unwrap();
        let dies = if_dead(following(dead, &["x"]), IfDead::Fail);
        let tasks = vec![dies, task(others[0]), task(others[1])];
        let answers = fixture.store.enqueue(fixture.op(), &q(), tasks).await.unwrap();
        assert!(error(&fixture, dead).await.starts_with("waited for x, which is dead"));
        added(answers[0].clone());
        added(answers[1].clone());
        let full = match &answers[2] {
            Enqueued::Full { bound: 1 } => overflow == Overflow::Refuse,
            Enqueued::Displaced { dropped, .. } => dropped.as_str() == others[0],
            _ => false,
        };
        assert!(full, "{:?}", answers[2]);
        work_off(&fixture).await;
    }
}

pub(super) async fn a_batch_runs_its_callback_when_it_is_closed_and_all_parts_are_over(fixture: Fixture) {
    added(fixture.put(open("done")).await);
    assert_eq!(fixture.info("done").await.state, TaskState::Blocked);
    assert_eq!(waits(&fixture, "done").await.map(|waits| (waits.open, waits.left)), Some((true, 0)));
    for id in ["a", "b", "c"] {
        added(fixture.put(part(id, "done")).await);
    }
    assert_eq!(work_off(&fixture).await, "a");
    assert_eq!(close(&fixture, "done").await, Closed::Closed { left: 2 });
    assert_eq!(close(&fixture, "done").await, Closed::NotOpen);
    refused(fixture.put(part("d", "done")).await, "done", Unmet::NotOpen);
    let progress = waits(&fixture, "done").await.expect("it waits");
    assert_eq!((progress.open, progress.left, progress.over, progress.dead), (false, 2, 1, 0));
    assert_eq!(work_off(&fixture).await, "b");
    assert_eq!(work_off(&fixture).await, "c");
    assert_eq!(ends(&fixture, "done").await.len(), 3);
    let callback = fixture.claim_one().await;
    assert_eq!(text(&callback), "done");
    refused(fixture.put(part("d", "done")).await, "done", Unmet::NotOpen);
    complete(&fixture, callback).await;
    refused(fixture.put(part("d", "done")).await, "done", Unmet::NotOpen);
    assert_eq!(close(&fixture, "done").await, Closed::NotFound);
}

pub(super) async fn a_batch_whose_parts_are_over_waits_to_be_closed(fixture: Fixture) {
    fixture.put(open("done")).await;
    fixture.put(part("a", "done")).await;
    work_off(&fixture).await;
    nothing_is_due(&fixture).await;
    assert_eq!(close(&fixture, "done").await, Closed::Closed { left: 0 });
    assert_eq!(work_off(&fixture).await, "done");
    // A batch without members runs at once.
    fixture.put(open("empty")).await;
    assert_eq!(close(&fixture, "empty").await, Closed::Closed { left: 0 });
    assert_eq!(waits(&fixture, "empty").await, None);
    assert_eq!(work_off(&fixture).await, "empty");
}

pub(super) async fn a_task_that_is_in_already_becomes_a_part(fixture: Fixture) {
    fixture.put(task("a")).await;
    fixture.put(open("done")).await;
    fixture.put(following("later", &["done"])).await;
    for _ in 0..2 {
        assert!(matches!(fixture.put(part("a", "done")).await, Enqueued::Kept { .. }));
    }
    // A member that waits for others could end up waiting for itself.
    refused(fixture.put(part("later", "done")).await, "later", Unmet::Taken);
    assert_eq!(close(&fixture, "done").await, Closed::Closed { left: 1 });
    assert_eq!(work_off(&fixture).await, "a");
    assert_eq!(work_off(&fixture).await, "done");
    assert_eq!(work_off(&fixture).await, "later");
}

pub(super) async fn a_batch_may_be_part_of_another(fixture: Fixture) {
    fixture.put(open("outer")).await;
    fixture.put(NewTask { held_open: true, ..part("inner", "outer") }).await;
    fixture.put(part("a", "inner")).await;
    assert_eq!(close(&fixture, "outer").await, Closed::Closed { left: 1 });
    assert_eq!(close(&fixture, "inner").await, Closed::Closed { left: 1 });
    for id in ["a", "inner", "outer"] {
        assert_eq!(work_off(&fixture).await, id);
    }
}

pub(super) async fn the_policy_of_a_batch_is_that_of_its_callback(fixture: Fixture) {
    fixture.put(if_dead(open("fails"), IfDead::Fail)).await;
    fixture.put(if_dead(open("runs"), IfDead::Run)).await;
    fixture.put(open("waits")).await;
    fixture.put(task("a")).await;
    for whole in ["fails", "runs", "waits"] {
        fixture.put(part("a", whole)).await;
    }
    fail_for_good(&fixture).await;
    assert_eq!(error(&fixture, "fails").await, "waited for a, which is dead: boom");
    refused(fixture.put(part("b", "fails")).await, "fails", Unmet::NotOpen);
    assert_eq!(waits(&fixture, "runs").await.map(|waits| (waits.left, waits.over)), Some((0, 1)));
    assert_eq!(waits(&fixture, "waits").await.map(|waits| (waits.left, waits.dead)), Some((1, 1)));
    assert_eq!(close(&fixture, "runs").await, Closed::Closed { left: 0 });
    assert_eq!(work_off(&fixture).await, "runs");
    // Canceling a batch leaves its members unchanged and drops its list of them.
    assert_eq!(cancel(&fixture, "waits").await, Cancelled::Removed);
    assert_eq!(waits(&fixture, "waits").await, None);
    fixture.put(open("waits")).await;
    assert_eq!(waits(&fixture, "waits").await.map(|waits| waits.left), Some(0));
}

pub(super) async fn calls_about_waiting_tasks_sent_twice_are_carried_out_once(fixture: Fixture) {
    fixture.put(task("a")).await;
    let op = fixture.op();
    let tasks = || vec![following("b", &["a"]), open("done"), part("c", "done")];
    let answers = fixture.store.enqueue(op, &q(), tasks()).await.unwrap();
    assert_eq!(fixture.store.enqueue(op, &q(), tasks()).await.unwrap(), answers);
    let op = fixture.op();
    for _ in 0..2 {
        let closed = fixture.store.close_batch(op, &q(), &task_id("done")).await.unwrap();
        assert_eq!(closed, Closed::Closed { left: 1 });
    }
    assert_eq!(close(&fixture, "done").await, Closed::NotOpen);
    assert_eq!(close(&fixture, "nobody").await, Closed::NotFound);
}

pub(super) async fn a_listener_is_notified_of_a_task_that_waited(fixture: Fixture) {
    fixture.put(task("a")).await;
    fixture.put(following("b", &["a"])).await;
    let run = fixture.claim_one().await;
    // A notification of the enqueue may be pending. The one that counts comes after it.
    let (queue, stale) = (q(), tokio::time::timeout(ms(50), fixture.store.ready(&q())).await);
    drop(stale);
    let heard = fixture.store.ready(&queue);
    let (heard, ()) = tokio::join!(soon(heard), complete(&fixture, run));
    heard.unwrap();
    assert_eq!(work_off(&fixture).await, "b");
}

pub(super) async fn many_that_wait_for_one_go_on_together(fixture: Fixture) {
    const N: usize = 1_200;
    fixture.put(task("first")).await;
    let tasks: Vec<_> = (0..N).map(|n| following(&format!("t{n:04}"), &["first"])).collect();
    for some in tasks.chunks(600) {
        let answers = fixture.store.enqueue(fixture.op(), &q(), some.to_vec()).await.unwrap();
        answers.into_iter().for_each(added);
    }
    let last: Vec<_> = (N - 1_000..N).map(|n| format!("t{n:04}")).collect();
    let last: Vec<_> = last.iter().map(String::as_str).collect();
    added(fixture.put(following("last", &last)).await);
    assert_eq!(waits(&fixture, "last").await.map(|waits| waits.left), Some(1_000));
    work_off(&fixture).await;
    let mut done = 0;
    while done < N {
        let claimed = fixture.claim(500).await.tasks;
        assert!(!claimed.is_empty(), "{done} of them went on");
        done += claimed.iter().filter(|task| text(task) != "last").count();
        let tickets: Vec<_> = claimed.into_iter().map(|task| task.ticket.into()).collect();
        fixture.store.complete(fixture.op(), &q(), tickets).await.unwrap();
    }
    assert_eq!(waited(&fixture, "last").await.len(), 100);
    assert_eq!(work_off(&fixture).await, "last");
}

pub(super) async fn a_long_chain_fails_to_its_end(fixture: Fixture) {
    const N: usize = 700;
    fixture.put(task("t000")).await;
    let chain = (1..N).map(|n| {
        let task = following(&format!("t{n:03}"), &[format!("t{:03}", n - 1).as_str()]);
        if_dead(task, IfDead::Fail)
    });
    fixture.store.enqueue(fixture.op(), &q(), chain.collect()).await.unwrap();
    fail_for_good(&fixture).await;
    let stats = fixture.store.stats(&q()).await.unwrap();
    assert_eq!((stats.dead, stats.blocked), (N as u64, 0));
}

pub(super) async fn waits_outside_the_limits_are_refused(fixture: Fixture) {
    let own = following("a", &["a"]);
    let itself = part("a", "a");
    let many: Vec<_> = (0..1_001).map(|n| n.to_string()).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let both = NewTask { part_of: Some(task_id("b")), ..following("a", &["c"]) };
    for wrong in [
        own,
        itself,
        following("a", &many),
        both,
        NewTask { on_duplicate: OnDuplicate::Earliest, ..open("a") },
    ] {
        let answer = fixture.store.enqueue(fixture.op(), &q(), vec![wrong]).await;
        assert!(answer.unwrap_err().is_invalid());
    }
    let relayed = Relay { outbox: OutboxId::new("o").unwrap(), tasks: vec![(1, open("a"))] };
    assert!(fixture.store.relay(&q(), relayed).await.unwrap_err().is_invalid());
    assert!(fixture.is_gone("a").await);
}
