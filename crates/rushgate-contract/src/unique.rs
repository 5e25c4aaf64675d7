//! Contract of uniqueness windows.

use std::time::Duration;

use rushgate_core::{
    Cancelled, Enqueued, Fire, Fired, NewSchedule, NewTask, OnDuplicate, OutboxId, Overflow, Page, Priority,
    QueueLimits, QueueName, Relay, Retention, ScheduleId, Selection, Timestamp, UniqueCleared, Verbs,
};

use crate::desk::*;

fn q() -> QueueName {
    queue_name("q")
}

/// A task with a uniqueness window.
fn unique(id: &str, period: Duration) -> NewTask {
    NewTask { unique_for: Some(period), ..task(id) }
}

/// When the uniqueness window of an ID ends.
async fn until(desk: &Desk, id: &str) -> Option<Timestamp> {
    desk.store.unique_until(&q(), &task_id(id)).await.unwrap()
}

async fn clear(desk: &Desk, id: &str) -> UniqueCleared {
    desk.store.clear_unique(desk.op(), &q(), &task_id(id)).await.unwrap()
}

async fn limit(desk: &Desk, bound: u64, overflow: Overflow) {
    let limits = QueueLimits { bound: Some(bound), overflow, ..QueueLimits::default() };
    desk.store.limit(&q(), limits).await.unwrap();
}

#[track_caller]
fn recent(answer: Enqueued) -> Timestamp {
    match answer {
        Enqueued::Recent { until } => until,
        other => panic!("expected to be turned away, not {other:?}"),
    }
}

pub(super) async fn an_id_is_not_taken_again_before_its_period_is_over(desk: Desk) {
    assert_eq!(until(&desk, "a").await, None, "a queue that was never used");
    added(desk.put(unique("a", s(60))).await);
    let end = until(&desk, "a").await.expect("it was taken");
    near(end.since(desk.info("a").await.task.ticket.due), s(60));
    work_off(&desk).await;
    assert_eq!(recent(desk.put(unique("a", s(60))).await), end);
    desk.advance(s(50)).await;
    assert_eq!(recent(desk.put(unique("a", s(60))).await), end, "the window is not extended");
    assert!(desk.is_gone("a").await && desk.claim(1).await.tasks.is_empty());
    desk.advance(s(11)).await;
    assert_eq!(until(&desk, "a").await, None);
    added(desk.put(unique("a", s(60))).await);
    assert_eq!(work_off(&desk).await, "a");
    assert!(recent(desk.put(task("a")).await) > end);
}

pub(super) async fn a_period_outlives_every_end_of_its_task(desk: Desk) {
    let retention = Some(Retention::new(s(5), 10));
    desk.store.limit(&q(), QueueLimits { retention, ..QueueLimits::default() }).await.unwrap();
    desk.put(unique("done", s(60))).await;
    work_off(&desk).await;
    desk.put(unique("popped", s(60))).await;
    desk.store.pop(desk.op(), &q(), 1).await.unwrap();
    desk.put(unique("cancelled", s(60))).await;
    let cancelled = desk.store.cancel(desk.op(), &q(), &task_id("cancelled")).await.unwrap();
    assert_eq!(cancelled, Cancelled::Removed);
    desk.put(unique("dequeued", s(60))).await;
    desk.store.dequeue(desk.op(), &q(), desk.info("dequeued").await.task.ticket).await.unwrap();
    desk.put(unique("dead", s(60))).await;
    fail_for_good(&desk).await;
    desk.put(unique("late", s(60))).await;
    let late = NewTask { deadline: Some(rushgate_core::Due::After(s(5))), ..task("late") };
    desk.put(with(late, "late", OnDuplicate::Replace)).await;
    // The retention deletes finished tasks, but not uniqueness windows.
    desk.advance(s(6)).await;
    desk.store.delete_dead(desk.op(), &q(), Selection::All).await.unwrap();
    let ids = ["done", "popped", "cancelled", "dequeued", "dead", "late"];
    for id in ids {
        assert!(desk.is_gone(id).await, "{id}");
        recent(desk.put(task(id)).await);
    }
    desk.advance(s(60)).await;
    for id in ids {
        added(desk.put(task(id)).await);
    }
}

pub(super) async fn a_period_is_that_of_the_id_and_not_of_who_asks(desk: Desk) {
    added(desk.put(unique("a", s(60))).await);
    work_off(&desk).await;
    let end = until(&desk, "a").await.expect("it was taken");
    for other in [task("a"), unique("a", s(1)), with(task("a"), "new", OnDuplicate::Replace)] {
        assert_eq!(recent(desk.put(other).await), end);
    }
    let peer = desk.peer();
    let answer = peer.enqueue(desk.op(), &q(), vec![task("a"), task("b")]).await.unwrap();
    assert_eq!(recent(answer[0].clone()), end);
    added(answer[1].clone());
    assert_eq!(peer.unique_until(&q(), &task_id("a")).await.unwrap(), Some(end));
}

pub(super) async fn while_a_task_is_live_its_duplicates_are_decided_as_ever(desk: Desk) {
    added(desk.put(unique("a", s(60))).await);
    let end = until(&desk, "a").await;
    assert!(matches!(desk.put(task("a")).await, Enqueued::Kept { .. }));
    let changed = || with(task("a"), "new", OnDuplicate::Replace);
    assert!(matches!(desk.put(changed()).await, Enqueued::Replaced { .. }));
    let claimed = desk.claim_one().await;
    assert_eq!(text(&claimed), "new");
    assert!(matches!(desk.put(task("a")).await, Enqueued::Kept { .. }));
    assert!(matches!(
        desk.put(with(task("a"), "newer", OnDuplicate::Replace)).await,
        Enqueued::Replaced { .. }
    ));
    complete(&desk, claimed).await;
    assert_eq!(work_off(&desk).await, "newer", "a change during the work is never lost");
    assert_eq!(Some(recent(desk.put(changed()).await)), end, "a change without a window starts none");
}

pub(super) async fn a_duplicate_that_is_kept_begins_no_period(desk: Desk) {
    added(desk.put(task("a")).await);
    assert!(matches!(desk.put(unique("a", s(60))).await, Enqueued::Kept { .. }));
    assert_eq!(until(&desk, "a").await, None);
    work_off(&desk).await;
    added(desk.put(unique("a", s(60))).await);
    let end = until(&desk, "a").await;
    desk.advance(s(5)).await;
    assert!(matches!(desk.put(unique("a", s(600))).await, Enqueued::Kept { .. }));
    assert_eq!(until(&desk, "a").await, end);
}

pub(super) async fn a_change_begins_its_own_period_and_shortens_none(desk: Desk) {
    added(desk.put(unique("a", s(60))).await);
    let end = until(&desk, "a").await.expect("it was taken");
    let change = |period| with(unique("a", period), "new", OnDuplicate::Replace);
    desk.advance(s(5)).await;
    assert!(matches!(desk.put(change(s(10))).await, Enqueued::Replaced { .. }));
    assert_eq!(until(&desk, "a").await, Some(end));
    assert!(matches!(desk.put(change(s(60))).await, Enqueued::Replaced { .. }));
    let later = until(&desk, "a").await.expect("it was taken");
    assert!(later >= end + s(5), "{later:?}");
    // The same behind a run, and when one pending replacement follows another.
    let claimed = desk.claim_one().await;
    for _ in 0..2 {
        desk.advance(s(1)).await;
        assert!(matches!(desk.put(change(s(70))).await, Enqueued::Replaced { .. }));
    }
    complete(&desk, claimed).await;
    work_off(&desk).await;
    assert!(recent(desk.put(task("a")).await) >= later + s(12));
}

pub(super) async fn a_period_counts_from_the_acceptance_and_not_from_the_run(desk: Desk) {
    added(desk.put(after(unique("a", s(20)), s(30))).await);
    desk.advance(s(31)).await;
    let claimed = desk.claim_one().await;
    assert!(matches!(desk.put(task("a")).await, Enqueued::Kept { .. }));
    complete(&desk, claimed).await;
    added(desk.put(task("a")).await);
}

pub(super) async fn what_is_not_taken_begins_no_period(desk: Desk) {
    limit(&desk, 1, Overflow::Refuse).await;
    desk.put(task("first")).await;
    assert_eq!(desk.put(unique("a", s(60))).await, Enqueued::Full { bound: 1 });
    limit(&desk, 1, Overflow::DropNew).await;
    assert_eq!(desk.put(unique("a", s(60))).await, Enqueued::Dropped { bound: 1 });
    assert_eq!(until(&desk, "a").await, None);
    work_off(&desk).await;
    added(desk.put(unique("a", s(60))).await);
}

pub(super) async fn uniqueness_is_decided_before_the_bound(desk: Desk) {
    added(desk.put(unique("a", s(60))).await);
    work_off(&desk).await;
    desk.put(task("first")).await;
    for overflow in [Overflow::Refuse, Overflow::DropNew, Overflow::DropOldest] {
        limit(&desk, 1, overflow).await;
        recent(desk.put(task("a")).await);
    }
    let stats = desk.store.stats(&q()).await.unwrap();
    assert_eq!((stats.ready, stats.dropped), (1, 0));
}

pub(super) async fn a_task_that_is_dropped_leaves_its_id_unique(desk: Desk) {
    limit(&desk, 1, Overflow::DropOldest).await;
    let answers = desk.put_all(vec![unique("a", s(60)), unique("b", s(60)), task("a"), task("b")]).await;
    added(answers[0].clone());
    assert!(
        matches!(&answers[1], Enqueued::Displaced { dropped, .. } if dropped.as_str() == "a"),
        "{answers:?}"
    );
    assert_eq!(Some(recent(answers[2].clone())), until(&desk, "a").await);
    assert!(matches!(answers[3], Enqueued::Kept { .. }));
    recent(desk.put(task("a")).await);
    assert_eq!(work_off(&desk).await, "b");
    recent(desk.put(task("b")).await);
}

pub(super) async fn a_cleared_id_may_be_enqueued_again(desk: Desk) {
    assert_eq!(clear(&desk, "a").await, UniqueCleared::NotFound, "a queue that was never used");
    assert!(desk.store.queues(Page::default()).await.unwrap().is_empty());
    added(desk.put(unique("a", s(60))).await);
    let end = until(&desk, "a").await.expect("it was taken");
    work_off(&desk).await;
    let op = desk.op();
    for _ in 0..2 {
        let cleared = desk.store.clear_unique(op, &q(), &task_id("a")).await.unwrap();
        assert_eq!(cleared, UniqueCleared::Cleared { until: end });
    }
    assert_eq!((clear(&desk, "a").await, until(&desk, "a").await), (UniqueCleared::NotFound, None));
    added(desk.put(unique("a", s(5))).await);
    work_off(&desk).await;
    recent(desk.put(task("a")).await);
    desk.advance(s(6)).await;
    assert_eq!(clear(&desk, "a").await, UniqueCleared::NotFound, "the window has ended");
    // A repeated call does not clear a window that started after it.
    added(desk.put(unique("a", s(60))).await);
    assert_eq!(
        desk.store.clear_unique(op, &q(), &task_id("a")).await.unwrap(),
        UniqueCleared::Cleared { until: end }
    );
    assert!(until(&desk, "a").await.is_some());
}

pub(super) async fn a_uniqueness_window_is_cleared_while_its_task_is_live(desk: Desk) {
    added(desk.put(unique("a", s(60))).await);
    assert!(matches!(clear(&desk, "a").await, UniqueCleared::Cleared { .. }));
    assert!(matches!(desk.put(task("a")).await, Enqueued::Kept { .. }), "the task stays");
    assert_eq!(work_off(&desk).await, "a");
    added(desk.put(task("a")).await);
}

pub(super) async fn ids_and_queues_have_periods_of_their_own(desk: Desk) {
    added(desk.put(unique("a", s(60))).await);
    let other = queue_name("p");
    let answer = desk.store.enqueue(desk.op(), &other, vec![unique("a", s(5))]).await.unwrap();
    added(answer[0].clone());
    added(desk.put(task("A")).await);
    desk.advance(s(6)).await;
    assert_eq!(desk.store.unique_until(&other, &task_id("a")).await.unwrap(), None);
    assert!(until(&desk, "a").await.is_some() && until(&desk, "A").await.is_none());
    desk.store.clear_unique(desk.op(), &other, &task_id("a")).await.unwrap();
    assert!(until(&desk, "a").await.is_some());
}

pub(super) async fn a_relay_passes_over_what_came_lately(desk: Desk) {
    let relay = async |tasks| {
        let relay = Relay { outbox: OutboxId::new("shop").unwrap(), tasks };
        desk.store.relay(&q(), relay).await.unwrap().upto
    };
    added(desk.put(unique("a", s(60))).await);
    work_off(&desk).await;
    assert_eq!(relay(vec![(1, task("a")), (2, unique("b", s(60))), (3, task("c"))]).await, 3);
    assert_eq!(texts(&desk.claim(5).await.tasks), ["b", "c"]);
    assert!(until(&desk, "b").await.is_some(), "what a relay brings begins its period");
    desk.advance(s(61)).await;
    desk.store.pop(desk.op(), &q(), 5).await.unwrap();
    assert_eq!(relay(vec![(1, task("a"))]).await, 3, "it was answered");
    assert!(desk.is_gone("a").await);
    assert_eq!(relay(vec![(4, task("a"))]).await, 4);
    assert_eq!(work_off(&desk).await, "a");
}

pub(super) async fn a_schedule_and_a_revival_ask_for_no_uniqueness(desk: Desk) {
    desk.put_all(vec![unique("run", s(60)), unique("dead", s(60))]).await;
    let end = until(&desk, "dead").await;
    work_off(&desk).await;
    fail_for_good(&desk).await;
    let now = desk.store.due_schedules(&q(), 1).await.unwrap().now;
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
    desk.store.schedule(&q(), schedule).await.unwrap();
    let read = desk.store.schedules(&q(), Page::default()).await.unwrap().remove(0);
    let fire = Fire { id: read.id, revision: read.revision, runs: vec![(task_id("run"), now)], next: None };
    assert_eq!(desk.store.fire(&q(), fire).await.unwrap(), Fired::Fired { added: 1 });
    let requeued = desk.store.requeue_dead(desk.op(), &q(), Selection::All).await.unwrap();
    assert_eq!(requeued.requeued, 1);
    assert_eq!(texts(&desk.claim(5).await.tasks), ["run", "dead"]);
    assert_eq!(until(&desk, "dead").await, end, "a requeued dead letter starts no window");
}

pub(super) async fn a_call_that_is_sent_twice_begins_one_period(desk: Desk) {
    let op = desk.op();
    let send = || desk.store.enqueue(op, &q(), vec![unique("a", s(60)), task("b")]);
    let first = send().await.unwrap();
    let end = until(&desk, "a").await;
    desk.claim(2).await;
    desk.advance(s(5)).await;
    assert_eq!(send().await.unwrap(), first, "the repeated call gets its first answer");
    assert_eq!(until(&desk, "a").await, end);
    let turned_away = desk.op();
    desk.store.pop(desk.op(), &q(), 2).await.unwrap();
    desk.advance(s(6)).await;
    desk.store.pop(desk.op(), &q(), 2).await.unwrap();
    let answer = desk.store.enqueue(turned_away, &q(), vec![task("a")]).await.unwrap();
    recent(answer[0].clone());
    desk.advance(s(60)).await;
    let again = desk.store.enqueue(turned_away, &q(), vec![task("a")]).await.unwrap();
    assert_eq!(again, answer, "the answer is kept");
    added(desk.put(task("a")).await);
}

pub(super) async fn many_periods_end_each_at_its_own_time(desk: Desk) {
    let ids: Vec<_> = (0..500).map(|n| format!("t{n:03}")).collect();
    let all = |seconds: fn(usize) -> u64| {
        let tasks = ids.iter().enumerate().map(move |(at, id)| unique(id, s(seconds(at))));
        tasks.collect::<Vec<_>>()
    };
    let taken = async |answers: Vec<Enqueued>| {
        desk.store.pop(desk.op(), &q(), 1_000).await.unwrap();
        answers.iter().filter(|answer| answer.is_accepted()).count()
    };
    assert_eq!(taken(desk.put_all(all(|at| if at % 2 == 0 { 10 } else { 60 })).await).await, 500);
    assert_eq!(taken(desk.put_all(all(|_| 10)).await).await, 0);
    desk.advance(s(11)).await;
    assert_eq!(taken(desk.put_all(all(|_| 10)).await).await, 250);
    desk.advance(s(11)).await;
    assert_eq!(taken(desk.put_all(all(|_| 5)).await).await, 250);
    desk.advance(s(61)).await;
    assert_eq!(taken(desk.put_all(all(|_| 5)).await).await, 500);
}

pub(super) async fn periods_outside_the_limits_are_refused(desk: Desk) {
    let day = s(86_400);
    for wrong in [Duration::ZERO, Duration::from_micros(999), 400 * day + ms(1)] {
        refused(desk.store.enqueue(desk.op(), &q(), vec![unique("a", wrong)]).await);
        let relay = Relay { outbox: OutboxId::new("shop").unwrap(), tasks: vec![(1, unique("a", wrong))] };
        refused(desk.store.relay(&q(), relay).await);
    }
    assert!(desk.is_gone("a").await && until(&desk, "a").await.is_none());
    added(desk.put(unique("a", 400 * day)).await);
    added(desk.put(unique("b", ms(1))).await);
}
