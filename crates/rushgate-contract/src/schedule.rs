//! Contract of schedules.

use std::collections::BTreeSet;
use std::time::Duration;

use rushgate_core::{
    DueSchedules, Fire, Fired, NewSchedule, Page, Priority, QueueLimits, QueueName, Revision, Schedule,
    ScheduleId, Scheduled, Timestamp, Verbs,
};

use crate::fixture::*;

const DAY: Duration = s(86_400);

fn q() -> QueueName {
    queue_name("q")
}

fn schedule_id(text: &str) -> ScheduleId {
    ScheduleId::new(text).expect("a test's name is valid")
}

fn schedule(id: &str, next: Option<Timestamp>) -> NewSchedule {
    NewSchedule {
        id: schedule_id(id),
        recurrence: "daily".into(),
        payload: payload("work"),
        priority: Priority::default(),
        max_attempts: 20,
        next,
        paused: None,
        as_of: None,
    }
}

async fn enter(fixture: &Fixture, new: NewSchedule) -> Scheduled {
    fixture.store.schedule(&q(), new).await.unwrap()
}

async fn due(fixture: &Fixture, n: u32) -> DueSchedules {
    fixture.store.due_schedules(&q(), n).await.unwrap()
}

/// The store's clock.
async fn now(fixture: &Fixture) -> Timestamp {
    due(fixture, 1).await.now
}

async fn listed(fixture: &Fixture) -> Vec<Schedule> {
    fixture.store.schedules(&q(), Page::default()).await.unwrap()
}

async fn only(fixture: &Fixture) -> Schedule {
    let [schedule] = <[_; 1]>::try_from(listed(fixture).await).expect("there is one schedule");
    schedule
}

fn ids(schedules: &[Schedule]) -> Vec<&str> {
    schedules.iter().map(|schedule| schedule.id.as_str()).collect()
}

fn revision_of(scheduled: Scheduled) -> Revision {
    match scheduled {
        Scheduled::Added { revision }
        | Scheduled::Changed { revision }
        | Scheduled::Unchanged { revision } => revision,
        other => panic!("there is room, and nothing was read before: {other:?}"),
    }
}

/// The call that fires a schedule for its next occurrence, as it was read.
fn fire_of(read: &Schedule, next: Option<Timestamp>) -> Fire {
    let at = read.next.expect("it has a next moment");
    let task = task_id(&format!("{}@{}", read.id, at.as_micros()));
    Fire { id: read.id.clone(), revision: read.revision, runs: vec![(task, at)], next }
}

async fn fire(fixture: &Fixture, fire: Fire) -> Fired {
    fixture.store.fire(&q(), fire).await.unwrap()
}

pub(super) async fn a_schedule_is_entered_as_it_was_said(fixture: Fixture) {
    assert_eq!(listed(&fixture).await, [], "a queue that was never used has none");
    let at = now(&fixture).await + DAY;
    let new = NewSchedule { priority: Priority::new(2).unwrap(), max_attempts: 3, ..schedule("a", Some(at)) };
    let scheduled = enter(&fixture, new).await;
    let Scheduled::Added { revision } = scheduled else { panic!("it is new, not {scheduled:?}") };
    let expected = Schedule {
        id: schedule_id("a"),
        recurrence: "daily".into(),
        payload: payload("work"),
        priority: Priority::new(2).unwrap(),
        max_attempts: 3,
        next: Some(at),
        previous: None,
        paused: false,
        revision,
    };
    assert_eq!(only(&fixture).await, expected);
    assert_eq!(fixture.store.queues(Page::default()).await.unwrap(), [q()]);
}

pub(super) async fn a_schedule_that_says_the_same_keeps_its_next_moment(fixture: Fixture) {
    let at = now(&fixture).await + DAY;
    let first = revision_of(enter(&fixture, schedule("a", Some(at))).await);
    let again = enter(&fixture, schedule("a", Some(at + DAY))).await;
    assert_eq!(again, Scheduled::Unchanged { revision: first });
    assert_eq!(only(&fixture).await.next, Some(at));
    let running = NewSchedule { paused: Some(false), ..schedule("a", Some(at + DAY)) };
    assert_eq!(enter(&fixture, running).await, Scheduled::Unchanged { revision: first });
}

pub(super) async fn a_schedule_that_says_something_else_is_changed(fixture: Fixture) {
    let at = now(&fixture).await + DAY;
    let mut last = revision_of(enter(&fixture, schedule("a", Some(at))).await);
    let changes: [fn(&mut NewSchedule); 4] = [
        |new| new.recurrence = "weekly".into(),
        |new| new.payload = payload("other work"),
        |new| new.priority = Priority::new(0).expect("it is a priority"),
        |new| new.max_attempts = 1,
    ];
    let mut new = schedule("a", Some(at + DAY));
    for change in changes {
        change(&mut new);
        let scheduled = enter(&fixture, new.clone()).await;
        let Scheduled::Changed { revision } = scheduled else { panic!("changed, not {scheduled:?}") };
        assert!(revision > last);
        last = revision;
    }
    let found = only(&fixture).await;
    assert_eq!((found.recurrence.as_str(), found.next), ("weekly", Some(at + DAY)));
    new.payload = payload("yet other work");
    new.next = Some(at + 2 * DAY);
    enter(&fixture, new.clone()).await;
    assert_eq!(only(&fixture).await.next, Some(at + DAY), "such a change keeps due occurrences");
    new.payload = payload("other work");
    enter(&fixture, new.clone()).await;
    let found = only(&fixture).await;
    assert_eq!((&found.payload, found.max_attempts), (&new.payload, 1));
}

pub(super) async fn a_change_to_what_was_read_is_stale_after_another(fixture: Fixture) {
    let at = now(&fixture).await + DAY;
    let other = |as_of| NewSchedule { recurrence: "weekly".into(), as_of, ..schedule("a", Some(at)) };
    let never = Some(Revision::from_u64(1));
    assert_eq!(enter(&fixture, other(never)).await, Scheduled::Stale, "there is none");
    assert_eq!(fixture.store.queues(Page::default()).await.unwrap(), [q()], "who named it has used it");
    let read = Some(revision_of(enter(&fixture, schedule("a", Some(at))).await));
    assert!(matches!(enter(&fixture, other(read)).await, Scheduled::Changed { .. }));
    let paused = NewSchedule { paused: Some(true), as_of: read, ..schedule("a", Some(at)) };
    assert_eq!(enter(&fixture, paused).await, Scheduled::Stale);
    let found = only(&fixture).await;
    assert_eq!((found.recurrence.as_str(), found.paused), ("weekly", false));
}

pub(super) async fn a_due_schedule_puts_its_task_in_once(fixture: Fixture) {
    let at = now(&fixture).await + s(60);
    let new = NewSchedule { priority: Priority::new(2).unwrap(), max_attempts: 3, ..schedule("a", Some(at)) };
    enter(&fixture, new).await;
    fixture.advance(s(61)).await;
    let found = due(&fixture, 10).await;
    assert_eq!(ids(&found.due), ["a"]);
    let order = fire_of(&found.due[0], Some(at + DAY));
    assert_eq!(fire(&fixture, order.clone()).await, Fired::Fired { added: 1 });
    assert_eq!(fire(&fixture, order.clone()).await, Fired::Stale, "it fired for that occurrence");
    let after = only(&fixture).await;
    assert_eq!((after.next, after.previous), (Some(at + DAY), Some(at)));
    assert!(after.revision > order.revision);
    let task = fixture.claim_one().await;
    assert_eq!((&task.ticket.id, task.ticket.due), (&order.runs[0].0, at));
    assert_eq!((text(&task).as_str(), task.priority.get(), task.max_attempts), ("work", 2, 3));
    fixture.store.complete(fixture.op(), &q(), vec![task.ticket.into()]).await.unwrap();
    assert_eq!(fire(&fixture, order).await, Fired::Stale, "the completed task does not return");
    assert!(due(&fixture, 10).await.due.is_empty());
}

pub(super) async fn a_schedule_fires_at_its_moment_and_not_before(fixture: Fixture) {
    let at = now(&fixture).await + s(60);
    enter(&fixture, schedule("a", Some(at))).await;
    let found = due(&fixture, 10).await;
    assert_eq!((found.due.len(), found.next), (0, Some(at)));
    let order = fire_of(&only(&fixture).await, Some(at + DAY));
    assert_eq!(fire(&fixture, order.clone()).await, Fired::Stale);
    assert_eq!(fixture.store.stats(&q()).await.unwrap().scheduled, 0);
    fixture.advance(s(61)).await;
    assert_eq!(fire(&fixture, order).await, Fired::Fired { added: 1 });
}

pub(super) async fn what_was_read_before_a_change_does_not_fire(fixture: Fixture) {
    let at = now(&fixture).await;
    enter(&fixture, schedule("a", Some(at))).await;
    let order = fire_of(&only(&fixture).await, None);
    enter(&fixture, NewSchedule { recurrence: "weekly".into(), ..schedule("a", Some(at)) }).await;
    assert_eq!(fire(&fixture, order.clone()).await, Fired::Stale);
    assert!(fixture.store.unschedule(&q(), &schedule_id("a")).await.unwrap());
    assert_eq!(fire(&fixture, order.clone()).await, Fired::Stale, "it is gone");
    enter(&fixture, schedule("a", Some(at))).await;
    assert_eq!(fire(&fixture, order).await, Fired::Stale, "another took its id");
    assert_eq!(fixture.store.stats(&q()).await.unwrap().ready, 0);
}

pub(super) async fn due_schedules_come_by_moment_and_tell_of_the_next(fixture: Fixture) {
    let at = now(&fixture).await;
    for (id, after) in [("c", 10), ("b", 20), ("a", 20), ("d", 3_000)] {
        enter(&fixture, schedule(id, Some(at + s(after)))).await;
    }
    assert_eq!(due(&fixture, 10).await.next, Some(at + s(10)));
    fixture.advance(s(60)).await;
    let found = due(&fixture, 10).await;
    assert_eq!((ids(&found.due), found.next), (vec!["c", "a", "b"], Some(at + s(3_000))));
    assert!(found.now >= at + s(60));
    let found = due(&fixture, 2).await;
    assert_eq!((ids(&found.due), found.next), (vec!["c", "a"], Some(at + s(20))), "one more is due");
}

pub(super) async fn a_paused_schedule_stands_still(fixture: Fixture) {
    let at = now(&fixture).await;
    let new = schedule("a", Some(at));
    enter(&fixture, NewSchedule { paused: Some(true), ..new.clone() }).await;
    assert_eq!(due(&fixture, 10).await.next, None);
    let order = fire_of(&only(&fixture).await, None);
    assert_eq!(fire(&fixture, order).await, Fired::Stale);
    let again = enter(&fixture, new.clone()).await;
    assert!(matches!(again, Scheduled::Unchanged { .. }), "a restarted fleet leaves it paused");
    assert!(only(&fixture).await.paused);
    let later = at + s(1);
    enter(&fixture, NewSchedule { paused: Some(false), next: Some(later), ..new }).await;
    fixture.advance(s(2)).await;
    let found = due(&fixture, 10).await;
    assert_eq!((found.due.len(), found.due[0].next), (1, Some(later)));
}

pub(super) async fn a_schedule_without_a_next_moment_rests(fixture: Fixture) {
    let at = now(&fixture).await;
    enter(&fixture, schedule("a", Some(at))).await;
    let order = fire_of(&only(&fixture).await, None);
    assert_eq!(fire(&fixture, order).await, Fired::Fired { added: 1 });
    let found = due(&fixture, 10).await;
    assert_eq!((found.due.len(), found.next), (0, None));
    let rests = only(&fixture).await;
    assert_eq!((rests.next, rests.previous), (None, Some(at)));
}

pub(super) async fn missed_occurrences_are_enqueued_or_skipped_together(fixture: Fixture) {
    let at = now(&fixture).await;
    enter(&fixture, schedule("a", Some(at))).await;
    fixture.advance(s(60)).await;
    let read = only(&fixture).await;
    let runs: Vec<_> = (0..3).map(|n| (task_id(&format!("a@{n}")), at + s(n))).collect();
    let all = Fire { runs, ..fire_of(&read, Some(at + s(10))) };
    assert_eq!(fire(&fixture, all).await, Fired::Fired { added: 3 });
    let read = only(&fixture).await;
    assert_eq!(read.previous, Some(at + s(2)));
    let none = Fire { runs: Vec::new(), ..fire_of(&read, Some(at + DAY)) };
    assert_eq!(fire(&fixture, none).await, Fired::Fired { added: 0 });
    let read = only(&fixture).await;
    assert_eq!((read.next, read.previous), (Some(at + DAY), Some(at + s(2))));
    assert_eq!(texts(&fixture.store.pop(fixture.op(), &q(), 10).await.unwrap()), ["work"; 3]);
}

pub(super) async fn a_task_that_is_in_already_is_kept(fixture: Fixture) {
    let at = now(&fixture).await;
    enter(&fixture, schedule("a", Some(at))).await;
    let order = fire_of(&only(&fixture).await, None);
    let id = order.runs[0].0.as_str().to_owned();
    fixture.put(task(&id)).await;
    assert_eq!(fire(&fixture, order).await, Fired::Fired { added: 0 });
    assert_eq!(text(&fixture.claim_one().await), id, "its content is what it was");
}

pub(super) async fn the_bound_of_the_queue_stops_no_schedule(fixture: Fixture) {
    fixture.store.limit(&q(), QueueLimits { bound: Some(1), ..QueueLimits::default() }).await.unwrap();
    fixture.put(task("other")).await;
    enter(&fixture, schedule("a", Some(now(&fixture).await))).await;
    let order = fire_of(&only(&fixture).await, None);
    assert_eq!(fire(&fixture, order).await, Fired::Fired { added: 1 });
    assert_eq!(fixture.store.stats(&q()).await.unwrap().ready, 2);
}

pub(super) async fn a_deleted_schedule_leaves_its_tasks(fixture: Fixture) {
    assert!(!fixture.store.unschedule(&q(), &schedule_id("a")).await.unwrap());
    enter(&fixture, schedule("a", Some(now(&fixture).await))).await;
    let order = fire_of(&only(&fixture).await, Some(now(&fixture).await + DAY));
    fire(&fixture, order).await;
    assert!(fixture.store.unschedule(&q(), &schedule_id("a")).await.unwrap());
    assert!(!fixture.store.unschedule(&q(), &schedule_id("a")).await.unwrap());
    assert_eq!((listed(&fixture).await, due(&fixture, 10).await.next), (Vec::new(), None));
    assert_eq!(fixture.store.stats(&q()).await.unwrap().ready, 1);
}

pub(super) async fn a_listener_is_notified_of_a_schedule_that_fires(fixture: Fixture) {
    enter(&fixture, schedule("a", Some(now(&fixture).await))).await;
    let order = fire_of(&only(&fixture).await, None);
    let queue = q();
    let heard = fixture.store.ready(&queue);
    let (heard, _) = tokio::join!(soon(heard), fire(&fixture, order));
    heard.unwrap();
}

pub(super) async fn schedules_are_listed_by_id_in_pages(fixture: Fixture) {
    let at = now(&fixture).await + DAY;
    for id in ["c", "a", "b"] {
        enter(&fixture, schedule(id, Some(at))).await;
    }
    let page = |after: &str, limit| fixture.store.schedules(&q(), Page::after(after.into(), limit));
    assert_eq!(ids(&page("", 2).await.unwrap()), ["a", "b"]);
    assert_eq!(ids(&page("b", 2).await.unwrap()), ["c"]);
    let other = queue_name("other");
    assert_eq!(fixture.store.schedules(&other, Page::default()).await.unwrap(), []);
    fixture.store.schedule(&other, schedule("a", Some(at))).await.unwrap();
    assert!(fixture.store.unschedule(&other, &schedule_id("a")).await.unwrap());
    assert_eq!(listed(&fixture).await.len(), 3, "each queue has its own schedules");
}

pub(super) async fn schedules_outside_the_limits_are_refused(fixture: Fixture) {
    let bad: [fn(&mut NewSchedule); 5] = [
        |new| new.id = schedule_id(&"x".repeat(171)),
        |new| new.recurrence = String::new(),
        |new| new.recurrence = "x".repeat(4_097),
        |new| new.max_attempts = 0,
        |new| new.max_attempts = 1_001,
    ];
    for change in bad {
        let mut new = schedule("a", None);
        change(&mut new);
        refused(fixture.store.schedule(&q(), new).await);
    }
    refused(fixture.store.due_schedules(&q(), 0).await);
    refused(fixture.store.due_schedules(&q(), 1_001).await);
    refused(fixture.store.schedules(&q(), Page::first(0)).await);
    let runs = vec![(task_id("a"), Timestamp::from_micros(1)); 1_001];
    let fire = Fire { id: schedule_id("a"), revision: Revision::from_u64(1), runs: runs.clone(), next: None };
    refused(fixture.store.fire(&q(), fire).await);
    assert_eq!(listed(&fixture).await, []);
    let longest = NewSchedule {
        id: schedule_id(&"é".repeat(85)),
        recurrence: "é".repeat(2_048),
        ..schedule("a", None)
    };
    enter(&fixture, longest.clone()).await;
    assert_eq!(only(&fixture).await.recurrence, longest.recurrence);
}

pub(super) async fn sixteen_who_look_after_a_schedule_fire_it_once(fixture: Fixture) {
    let at = now(&fixture).await;
    enter(&fixture, schedule("a", Some(at))).await;
    let order = fire_of(&only(&fixture).await, Some(at + DAY));
    let stores = [fixture.store.clone(), fixture.peer()];
    let tries: Vec<_> = (0..16)
        .map(|n| {
            let (store, order) = (stores[n % 2].clone(), order.clone());
            tokio::spawn(async move { store.fire(&q(), order).await.unwrap() })
        })
        .collect();
    let mut fired = Vec::new();
    for one in tries {
        fired.push(one.await.expect("nobody panics"));
    }
    let times = fired.iter().filter(|fired| **fired != Fired::Stale).count();
    assert_eq!(times, 1, "{fired:?}");
    let tasks = fixture.store.pop(fixture.op(), &q(), 10).await.unwrap();
    let distinct: BTreeSet<_> = tasks.iter().map(|task| &task.ticket.id).collect();
    assert_eq!((tasks.len(), distinct.len()), (1, 1));
}
