//! Contract of uniqueness windows.

use std::time::Duration;

use rushgate_core::{
    Cancelled, Enqueued, Fire, Fired, NewSchedule, NewTask, OnDuplicate, OutboxId, Overflow, Page, Priority,
    QueueLimits, QueueName, Relay, Retention, ScheduleId, Selection, Timestamp, UniqueCleared, Verbs,
};

use crate::fixture::*;

fn q() -> QueueName {
    queue_name("q")
}

/// A task with a uniqueness window.
fn unique(id: &str, period: Duration) -> NewTask {
    NewTask { unique_for: Some(period), ..task(id) }
}

/// When the uniqueness window of an ID ends.
async fn until(fixture: &Fixture, id: &str) -> Option<Timestamp> {
    fixture.store.unique_until(&q(), &task_id(id)).await.unwrap()
}

async fn clear(fixture: &Fixture, id: &str) -> UniqueCleared {
    fixture.store.clear_unique(fixture.op(), &q(), &task_id(id)).await.unwrap()
}

async fn limit(fixture: &Fixture, bound: u64, overflow: Overflow) {
    let limits = QueueLimits { bound: Some(bound), overflow, ..QueueLimits::default() };
    fixture.store.limit(&q(), limits).await.unwrap();
}

#[track_caller]
fn recent(answer: Enqueued) -> Timestamp {
    match answer {
        Enqueued::Recent { until } => until,
        other => panic!("expected to be turned away, not {other:?}"),
    }
}

pub(super) async fn an_id_is_not_taken_again_before_its_period_is_over(fixture: Fixture) {
    assert_eq!(until(&fixture, "a").await, None, "a queue that was never used");
    added(fixture.put(unique("a", s(60))).await);
    let end = until(&fixture, "a").await.expect("it was taken");
    near(end.since(fixture.info("a").await.task.ticket.due), s(60));
    work_off(&fixture).await;
    assert_eq!(recent(fixture.put(unique("a", s(60))).await), end);
    fixture.advance(s(50)).await;
    assert_eq!(recent(fixture.put(unique("a", s(60))).await), end, "the window is not extended");
    assert!(fixture.is_gone("a").await && fixture.claim(1).await.tasks.is_empty());
    fixture.advance(s(11)).await;
    assert_eq!(until(&fixture, "a").await, None);
    added(fixture.put(unique("a", s(60))).await);
    assert_eq!(work_off(&fixture).await, "a");
    assert!(recent(fixture.put(task("a")).await) > end);
}

pub(super) async fn a_period_outlives_every_end_of_its_task(fixture: Fixture) {
    let retention = Some(Retention::new(s(5), 10));
    fixture.store.limit(&q(), QueueLimits { retention, ..QueueLimits::default() }).await.unwrap();
    fixture.put(unique("done", s(60))).await;
    work_off(&fixture).await;
    fixture.put(unique("popped", s(60))).await;
    fixture.store.pop(fixture.op(), &q(), 1).await.unwrap();
    fixture.put(unique("cancelled", s(60))).await;
    let cancelled = fixture.store.cancel(fixture.op(), &q(), &task_id("cancelled")).await.unwrap();
    assert_eq!(cancelled, Cancelled::Removed);
    fixture.put(unique("dequeued", s(60))).await;
    fixture.store.dequeue(fixture.op(), &q(), fixture.info("dequeued").await.task.ticket).await.unwrap();
    fixture.put(unique("dead", s(60))).await;
    fail_for_good(&fixture).await;
    fixture.put(unique("late", s(60))).await;
    let late = NewTask { deadline: Some(rushgate_core::Due::After(s(5))), ..task("late") };
    fixture.put(with(late, "late", OnDuplicate::Replace)).await;
    // The retention deletes finished tasks, but not uniqueness windows.
    fixture.advance(s(6)).await;
    fixture.store.delete_dead(fixture.op(), &q(), Selection::All).await.unwrap();
    let ids = ["done", "popped", "cancelled", "dequeued", "dead", "late"];
    for id in ids {
        assert!(fixture.is_gone(id).await, "{id}");
        recent(fixture.put(task(id)).await);
    }
    fixture.advance(s(60)).await;
    for id in ids {
        added(fixture.put(task(id)).await);
    }
}

pub(super) async fn a_period_is_that_of_the_id_and_not_of_who_asks(fixture: Fixture) {
    added(fixture.put(unique("a", s(60))).await);
    work_off(&fixture).await;
    let end = until(&fixture, "a").await.expect("it was taken");
    for other in [task("a"), unique("a", s(1)), with(task("a"), "new", OnDuplicate::Replace)] {
        assert_eq!(recent(fixture.put(other).await), end);
    }
    let peer = fixture.peer();
    let answer = peer.enqueue(fixture.op(), &q(), vec![task("a"), task("b")]).await.unwrap();
    assert_eq!(recent(answer[0].clone()), end);
    added(answer[1].clone());
    assert_eq!(peer.unique_until(&q(), &task_id("a")).await.unwrap(), Some(end));
}

pub(super) async fn while_a_task_is_live_its_duplicates_are_decided_as_ever(fixture: Fixture) {
    added(fixture.put(unique("a", s(60))).await);
    let end = until(&fixture, "a").await;
    assert!(matches!(fixture.put(task("a")).await, Enqueued::Kept { .. }));
    let changed = || with(task("a"), "new", OnDuplicate::Replace);
    assert!(matches!(fixture.put(changed()).await, Enqueued::Replaced { .. }));
    let claimed = fixture.claim_one().await;
    assert_eq!(text(&claimed), "new");
    assert!(matches!(fixture.put(task("a")).await, Enqueued::Kept { .. }));
    assert!(matches!(
        fixture.put(with(task("a"), "newer", OnDuplicate::Replace)).await,
        Enqueued::Replaced { .. }
    ));
    complete(&fixture, claimed).await;
    assert_eq!(work_off(&fixture).await, "newer", "a change during the work is never lost");
    assert_eq!(Some(recent(fixture.put(changed()).await)), end, "a change without a window starts none");
}

pub(super) async fn a_duplicate_that_is_kept_begins_no_period(fixture: Fixture) {
    added(fixture.put(task("a")).await);
    assert!(matches!(fixture.put(unique("a", s(60))).await, Enqueued::Kept { .. }));
    assert_eq!(until(&fixture, "a").await, None);
    work_off(&fixture).await;
    added(fixture.put(unique("a", s(60))).await);
    let end = until(&fixture, "a").await;
    fixture.advance(s(5)).await;
    assert!(matches!(fixture.put(unique("a", s(600))).await, Enqueued::Kept { .. }));
    assert_eq!(until(&fixture, "a").await, end);
}

pub(super) async fn a_change_begins_its_own_period_and_shortens_none(fixture: Fixture) {
    added(fixture.put(unique("a", s(60))).await);
    let end = until(&fixture, "a").await.expect("it was taken");
    let change = |period| with(unique("a", period), "new", OnDuplicate::Replace);
    fixture.advance(s(5)).await;
    assert!(matches!(fixture.put(change(s(10))).await, Enqueued::Replaced { .. }));
    assert_eq!(until(&fixture, "a").await, Some(end));
    assert!(matches!(fixture.put(change(s(60))).await, Enqueued::Replaced { .. }));
    let later = until(&fixture, "a").await.expect("it was taken");
    assert!(later >= end + s(5), "{later:?}");
    // The same behind a run, and when one pending replacement follows another.
    let claimed = fixture.claim_one().await;
    for _ in 0..2 {
        fixture.advance(s(1)).await;
        assert!(matches!(fixture.put(change(s(70))).await, Enqueued::Replaced { .. }));
    }
    complete(&fixture, claimed).await;
    work_off(&fixture).await;
    assert!(recent(fixture.put(task("a")).await) >= later + s(12));
}

pub(super) async fn a_period_counts_from_the_acceptance_and_not_from_the_run(fixture: Fixture) {
    added(fixture.put(after(unique("a", s(20)), s(30))).await);
    fixture.advance(s(31)).await;
    let claimed = fixture.claim_one().await;
    assert!(matches!(fixture.put(task("a")).await, Enqueued::Kept { .. }));
    complete(&fixture, claimed).await;
    added(fixture.put(task("a")).await);
}

pub(super) async fn what_is_not_taken_begins_no_period(fixture: Fixture) {
    limit(&fixture, 1, Overflow::Refuse).await;
    fixture.put(task("first")).await;
    assert_eq!(fixture.put(unique("a", s(60))).await, Enqueued::Full { bound: 1 });
    limit(&fixture, 1, Overflow::DropNew).await;
    assert_eq!(fixture.put(unique("a", s(60))).await, Enqueued::Dropped { bound: 1 });
    assert_eq!(until(&fixture, "a").await, None);
    work_off(&fixture).await;
    added(fixture.put(unique("a", s(60))).await);
}

pub(super) async fn uniqueness_is_decided_before_the_bound(fixture: Fixture) {
    added(fixture.put(unique("a", s(60))).await);
    work_off(&fixture).await;
    fixture.put(task("first")).await;
    for overflow in [Overflow::Refuse, Overflow::DropNew, Overflow::DropOldest] {
        limit(&fixture, 1, overflow).await;
        recent(fixture.put(task("a")).await);
    }
    let stats = fixture.store.stats(&q()).await.unwrap();
    assert_eq!((stats.ready, stats.dropped), (1, 0));
}

pub(super) async fn a_task_that_is_dropped_leaves_its_id_unique(fixture: Fixture) {
    limit(&fixture, 1, Overflow::DropOldest).await;
    let answers = fixture.put_all(vec![unique("a", s(60)), unique("b", s(60)), task("a"), task("b")]).await;
    added(answers[0].clone());
    assert!(
        matches!(&answers[1], Enqueued::Displaced { dropped, .. } if dropped.as_str() == "a"),
        "{answers:?}"
    );
    assert_eq!(Some(recent(answers[2].clone())), until(&fixture, "a").await);
    assert!(matches!(answers[3], Enqueued::Kept { .. }));
    recent(fixture.put(task("a")).await);
    assert_eq!(work_off(&fixture).await, "b");
    recent(fixture.put(task("b")).await);
}

pub(super) async fn a_cleared_id_may_be_enqueued_again(fixture: Fixture) {
    assert_eq!(clear(&fixture, "a").await, UniqueCleared::NotFound, "a queue that was never used");
    assert!(fixture.store.queues(Page::default()).await.unwrap().is_empty());
    added(fixture.put(unique("a", s(60))).await);
    let end = until(&fixture, "a").await.expect("it was taken");
    work_off(&fixture).await;
    let op = fixture.op();
    for _ in 0..2 {
        let cleared = fixture.store.clear_unique(op, &q(), &task_id("a")).await.unwrap();
        assert_eq!(cleared, UniqueCleared::Cleared { until: end });
    }
    assert_eq!((clear(&fixture, "a").await, until(&fixture, "a").await), (UniqueCleared::NotFound, None));
    added(fixture.put(unique("a", s(5))).await);
    work_off(&fixture).await;
    recent(fixture.put(task("a")).await);
    fixture.advance(s(6)).await;
    assert_eq!(clear(&fixture, "a").await, UniqueCleared::NotFound, "the window has ended");
    // A repeated call does not clear a window that started after it.
    added(fixture.put(unique("a", s(60))).await);
    assert_eq!(
        fixture.store.clear_unique(op, &q(), &task_id("a")).await.unwrap(),
        UniqueCleared::Cleared { until: end }
    );
    assert!(until(&fixture, "a").await.is_some());
}

pub(super) async fn a_uniqueness_window_is_cleared_while_its_task_is_live(fixture: Fixture) {
    added(fixture.put(unique("a", s(60))).await);
    assert!(matches!(clear(&fixture, "a").await, UniqueCleared::Cleared { .. }));
    assert!(matches!(fixture.put(task("a")).await, Enqueued::Kept { .. }), "the task stays");
    assert_eq!(work_off(&fixture).await, "a");
    added(fixture.put(task("a")).await);
}

pub(super) async fn ids_and_queues_have_periods_of_their_own(fixture: Fixture) {
    added(fixture.put(unique("a", s(60))).await);
    let other = queue_name("p");
    let answer = fixture.store.enqueue(fixture.op(), &other, vec![unique("a", s(5))]).await.unwrap();
    added(answer[0].clone());
    added(fixture.put(task("A")).await);
    fixture.advance(s(6)).await;
    assert_eq!(fixture.store.unique_until(&other, &task_id("a")).await.unwrap(), None);
    assert!(until(&fixture, "a").await.is_some() && until(&fixture, "A").await.is_none());
    fixture.store.clear_unique(fixture.op(), &other, &task_id("a")).await.unwrap();
    assert!(until(&fixture, "a").await.is_some());
}

pub(super) async fn a_relay_passes_over_what_came_lately(fixture: Fixture) {
    let relay = async |tasks| {
        let relay = Relay { outbox: OutboxId::new("shop").unwrap(), tasks };
        fixture.store.relay(&q(), relay).await.unwrap().upto
    };
    added(fixture.put(unique("a", s(60))).await);
    work_off(&fixture).await;
    assert_eq!(relay(vec![(1, task("a")), (2, unique("b", s(60))), (3, task("c"))]).await, 3);
    assert_eq!(texts(&fixture.claim(5).await.tasks), ["b", "c"]);
    assert!(until(&fixture, "b").await.is_some(), "what a relay brings begins its period");
    fixture.advance(s(61)).await;
    fixture.store.pop(fixture.op(), &q(), 5).await.unwrap();
    assert_eq!(relay(vec![(1, task("a"))]).await, 3, "it was answered");
    assert!(fixture.is_gone("a").await);
    assert_eq!(relay(vec![(4, task("a"))]).await, 4);
    assert_eq!(work_off(&fixture).await, "a");
}

pub(super) async fn a_schedule_and_a_revival_ask_for_no_uniqueness(fixture: Fixture) {
    fixture.put_all(vec![unique("run", s(60)), unique("dead", s(60))]).await;
    let end = until(&fixture, "dead").await;
    work_off(&fixture).await;
    fail_for_good(&fixture).await;
    let now = fixture.store.due_schedules(&q(), 1).await.unwrap().now;
    let schedule = NewSchedule {
        id: ScheduleId::new("s").unwrap(),
        recurrence: "daily".into(),
        payload: payload("run"),
        priority: Priority::default(),
        max_attempts: 1,
        next: Some(now),
        paused: None,
        as_of: None,
    };
    fixture.store.schedule(&q(), schedule).await.unwrap();
    let read = fixture.store.schedules(&q(), Page::default()).await.unwrap().remove(0);
    let fire = Fire { id: read.id, revision: read.revision, runs: vec![(task_id("run"), now)], next: None };
    assert_eq!(fixture.store.fire(&q(), fire).await.unwrap(), Fired::Fired { added: 1 });
    let requeued = fixture.store.requeue_dead(fixture.op(), &q(), Selection::All).await.unwrap();
    assert_eq!(requeued.requeued, 1);
    assert_eq!(texts(&fixture.claim(5).await.tasks), ["run", "dead"]);
    assert_eq!(until(&fixture, "dead").await, end, "a requeued dead letter starts no window");
}

pub(super) async fn a_call_that_is_sent_twice_begins_one_period(fixture: Fixture) {
    let op = fixture.op();
    let send = || fixture.store.enqueue(op, &q(), vec![unique("a", s(60)), task("b")]);
    let first = send().await.unwrap();
    let end = until(&fixture, "a").await;
    fixture.claim(2).await;
    fixture.advance(s(5)).await;
    assert_eq!(send().await.unwrap(), first, "the repeated call gets its first answer");
    assert_eq!(until(&fixture, "a").await, end);
    let turned_away = fixture.op();
    fixture.store.pop(fixture.op(), &q(), 2).await.unwrap();
    fixture.advance(s(6)).await;
    fixture.store.pop(fixture.op(), &q(), 2).await.unwrap();
    let answer = fixture.store.enqueue(turned_away, &q(), vec![task("a")]).await.unwrap();
    recent(answer[0].clone());
    fixture.advance(s(60)).await;
    let again = fixture.store.enqueue(turned_away, &q(), vec![task("a")]).await.unwrap();
    assert_eq!(again, answer, "the answer is kept");
    added(fixture.put(task("a")).await);
}

pub(super) async fn many_periods_end_each_at_its_own_time(fixture: Fixture) {
    let ids: Vec<_> = (0..500).map(|n| format!("t{n:03}")).collect();
    let all = |seconds: fn(usize) -> u64| {
        let tasks = ids.iter().enumerate().map(move |(at, id)| unique(id, s(seconds(at))));
        tasks.collect::<Vec<_>>()
    };
    let taken = async |answers: Vec<Enqueued>| {
        fixture.store.pop(fixture.op(), &q(), 1_000).await.unwrap();
        answers.iter().filter(|answer| answer.is_accepted()).count()
    };
    assert_eq!(taken(fixture.put_all(all(|at| if at % 2 == 0 { 10 } else { 60 })).await).await, 500);
    assert_eq!(taken(fixture.put_all(all(|_| 10)).await).await, 0);
    fixture.advance(s(11)).await;
    assert_eq!(taken(fixture.put_all(all(|_| 10)).await).await, 250);
    fixture.advance(s(11)).await;
    assert_eq!(taken(fixture.put_all(all(|_| 5)).await).await, 250);
    fixture.advance(s(61)).await;
    assert_eq!(taken(fixture.put_all(all(|_| 5)).await).await, 500);
}

pub(super) async fn periods_outside_the_limits_are_refused(fixture: Fixture) {
    let day = s(86_400);
    for wrong in [Duration::ZERO, Duration::from_micros(999), 400 * day + ms(1)] {
        refused(fixture.store.enqueue(fixture.op(), &q(), vec![unique("a", wrong)]).await);
        let relay = Relay { outbox: OutboxId::new("shop").unwrap(), tasks: vec![(1, unique("a", wrong))] };
        refused(fixture.store.relay(&q(), relay).await);
    }
    assert!(fixture.is_gone("a").await && until(&fixture, "a").await.is_none());
    added(fixture.put(unique("a", 400 * day)).await);
    added(fixture.put(unique("b", ms(1))).await);
}
