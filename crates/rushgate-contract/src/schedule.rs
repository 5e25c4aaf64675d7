//! Contract of schedules.

use std::collections::BTreeSet;
use std::time::Duration;

use rushgate_core::{
    DueSchedules, Fire, Fired, NewSchedule, Page, Priority, QueueLimits, QueueName, Revision, Schedule,
    ScheduleId, Scheduled, Timestamp, Verbs,
};

use crate::desk::*;

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

async fn enter(desk: &Desk, new: NewSchedule) -> Scheduled {
    desk.store.schedule(&q(), new).await.unwrap()
}

async fn due(desk: &Desk, n: u32) -> DueSchedules {
    desk.store.due_schedules(&q(), n).await.unwrap()
}

/// The store's clock.
async fn now(desk: &Desk) -> Timestamp {
    due(desk, 1).await.now
}

async fn listed(desk: &Desk) -> Vec<Schedule> {
    desk.store.schedules(&q(), Page::default()).await.unwrap()
}

async fn only(desk: &Desk) -> Schedule {
    let [schedule] = <[_; 1]>::try_from(listed(desk).await).expect("there is one schedule");
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

async fn fire(desk: &Desk, fire: Fire) -> Fired {
    desk.store.fire(&q(), fire).await.unwrap()
}

pub(super) async fn a_schedule_is_entered_as_it_was_said(desk: Desk) {
    assert_eq!(listed(&desk).await, [], "a queue that was never used has none");
    let at = now(&desk).await + DAY;
    let new = NewSchedule { priority: Priority::new(2).unwrap(), max_attempts: 3, ..schedule("a", Some(at)) };
    let scheduled = enter(&desk, new).await;
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
    assert_eq!(only(&desk).await, expected);
    assert_eq!(desk.store.queues(Page::default()).await.unwrap(), [q()]);
}

pub(super) async fn a_schedule_that_says_the_same_keeps_its_next_moment(desk: Desk) {
    let at = now(&desk).await + DAY;
    let first = revision_of(enter(&desk, schedule("a", Some(at))).await);
    let again = enter(&desk, schedule("a", Some(at + DAY))).await;
    assert_eq!(again, Scheduled::Unchanged { revision: first });
    assert_eq!(only(&desk).await.next, Some(at));
    let running = NewSchedule { paused: Some(false), ..schedule("a", Some(at + DAY)) };
    assert_eq!(enter(&desk, running).await, Scheduled::Unchanged { revision: first });
}

pub(super) async fn a_schedule_that_says_something_else_is_changed(desk: Desk) {
    let at = now(&desk).await + DAY;
    let mut last = revision_of(enter(&desk, schedule("a", Some(at))).await);
    let changes: [fn(&mut NewSchedule); 4] = [
        |new| new.recurrence = "weekly".into(),
        |new| new.payload = payload("other work"),
        |new| new.priority = Priority::new(0).expect("it is a priority"),
        |new| new.max_attempts = 1,
    ];
    let mut new = schedule("a", Some(at + DAY));
    for change in changes {
        change(&mut new);
        let scheduled = enter(&desk, new.clone()).await;
        let Scheduled::Changed { revision } = scheduled else { panic!("changed, not {scheduled:?}") };
        assert!(revision > last);
        last = revision;
    }
    let found = only(&desk).await;
    assert_eq!((found.recurrence.as_str(), found.next), ("weekly", Some(at + DAY)));
    new.payload = payload("yet other work");
    new.next = Some(at + 2 * DAY);
    enter(&desk, new.clone()).await;
    assert_eq!(only(&desk).await.next, Some(at + DAY), "such a change keeps due occurrences");
    new.payload = payload("other work");
    enter(&desk, new.clone()).await;
    let found = only(&desk).await;
    assert_eq!((&found.payload, found.max_attempts), (&new.payload, 1));
}

pub(super) async fn a_change_to_what_was_read_is_stale_after_another(desk: Desk) {
    let at = now(&desk).await + DAY;
    let other = |as_of| NewSchedule { recurrence: "weekly".into(), as_of, ..schedule("a", Some(at)) };
    let never = Some(Revision::from_u64(1));
    assert_eq!(enter(&desk, other(never)).await, Scheduled::Stale, "there is none");
    assert_eq!(desk.store.queues(Page::default()).await.unwrap(), [q()], "who named it has used it");
    let read = Some(revision_of(enter(&desk, schedule("a", Some(at))).await));
    assert!(matches!(enter(&desk, other(read)).await, Scheduled::Changed { .. }));
    let paused = NewSchedule { paused: Some(true), as_of: read, ..schedule("a", Some(at)) };
    assert_eq!(enter(&desk, paused).await, Scheduled::Stale);
    let found = only(&desk).await;
    assert_eq!((found.recurrence.as_str(), found.paused), ("weekly", false));
}

pub(super) async fn a_due_schedule_puts_its_task_in_once(desk: Desk) {
    let at = now(&desk).await + s(60);
    let new = NewSchedule { priority: Priority::new(2).unwrap(), max_attempts: 3, ..schedule("a", Some(at)) };
    enter(&desk, new).await;
    desk.advance(s(61)).await;
    let found = due(&desk, 10).await;
    assert_eq!(ids(&found.due), ["a"]);
    let order = fire_of(&found.due[0], Some(at + DAY));
    assert_eq!(fire(&desk, order.clone()).await, Fired::Fired { added: 1 });
    assert_eq!(fire(&desk, order.clone()).await, Fired::Stale, "it fired for that occurrence");
    let after = only(&desk).await;
    assert_eq!((after.next, after.previous), (Some(at + DAY), Some(at)));
    assert!(after.revision > order.revision);
    let task = desk.claim_one().await;
    assert_eq!((&task.ticket.id, task.ticket.due), (&order.runs[0].0, at));
    assert_eq!((text(&task).as_str(), task.priority.get(), task.max_attempts), ("work", 2, 3));
    desk.store.complete(desk.op(), &q(), vec![task.ticket.into()]).await.unwrap();
    assert_eq!(fire(&desk, order).await, Fired::Stale, "the completed task does not return");
    assert!(due(&desk, 10).await.due.is_empty());
}

pub(super) async fn a_schedule_fires_at_its_moment_and_not_before(desk: Desk) {
    let at = now(&desk).await + s(60);
    enter(&desk, schedule("a", Some(at))).await;
    let found = due(&desk, 10).await;
    assert_eq!((found.due.len(), found.next), (0, Some(at)));
    let order = fire_of(&only(&desk).await, Some(at + DAY));
    assert_eq!(fire(&desk, order.clone()).await, Fired::Stale);
    assert_eq!(desk.store.stats(&q()).await.unwrap().scheduled, 0);
    desk.advance(s(61)).await;
    assert_eq!(fire(&desk, order).await, Fired::Fired { added: 1 });
}

pub(super) async fn what_was_read_before_a_change_does_not_fire(desk: Desk) {
    let at = now(&desk).await;
    enter(&desk, schedule("a", Some(at))).await;
    let order = fire_of(&only(&desk).await, None);
    enter(&desk, NewSchedule { recurrence: "weekly".into(), ..schedule("a", Some(at)) }).await;
    assert_eq!(fire(&desk, order.clone()).await, Fired::Stale);
    assert!(desk.store.unschedule(&q(), &schedule_id("a")).await.unwrap());
    assert_eq!(fire(&desk, order.clone()).await, Fired::Stale, "it is gone");
    enter(&desk, schedule("a", Some(at))).await;
    assert_eq!(fire(&desk, order).await, Fired::Stale, "another took its id");
    assert_eq!(desk.store.stats(&q()).await.unwrap().ready, 0);
}

pub(super) async fn due_schedules_come_by_moment_and_tell_of_the_next(desk: Desk) {
    let at = now(&desk).await;
    for (id, after) in [("c", 10), ("b", 20), ("a", 20), ("d", 3_000)] {
        enter(&desk, schedule(id, Some(at + s(after)))).await;
    }
    assert_eq!(due(&desk, 10).await.next, Some(at + s(10)));
    desk.advance(s(60)).await;
    let found = due(&desk, 10).await;
    assert_eq!((ids(&found.due), found.next), (vec!["c", "a", "b"], Some(at + s(3_000))));
    assert!(found.now >= at + s(60));
    let found = due(&desk, 2).await;
    assert_eq!((ids(&found.due), found.next), (vec!["c", "a"], Some(at + s(20))), "one more is due");
}

pub(super) async fn a_paused_schedule_stands_still(desk: Desk) {
    let at = now(&desk).await;
    let new = schedule("a", Some(at));
    enter(&desk, NewSchedule { paused: Some(true), ..new.clone() }).await;
    assert_eq!(due(&desk, 10).await.next, None);
    let order = fire_of(&only(&desk).await, None);
    assert_eq!(fire(&desk, order).await, Fired::Stale);
    let again = enter(&desk, new.clone()).await;
    assert!(matches!(again, Scheduled::Unchanged { .. }), "a restarted fleet leaves it paused");
    assert!(only(&desk).await.paused);
    let later = at + s(1);
    enter(&desk, NewSchedule { paused: Some(false), next: Some(later), ..new }).await;
    desk.advance(s(2)).await;
    let found = due(&desk, 10).await;
    assert_eq!((found.due.len(), found.due[0].next), (1, Some(later)));
}

pub(super) async fn a_schedule_without_a_next_moment_rests(desk: Desk) {
    let at = now(&desk).await;
    enter(&desk, schedule("a", Some(at))).await;
    let order = fire_of(&only(&desk).await, None);
    assert_eq!(fire(&desk, order).await, Fired::Fired { added: 1 });
    let found = due(&desk, 10).await;
    assert_eq!((found.due.len(), found.next), (0, None));
    let rests = only(&desk).await;
    assert_eq!((rests.next, rests.previous), (None, Some(at)));
}

pub(super) async fn moments_that_were_missed_are_put_in_or_passed_over_together(desk: Desk) {
    let at = now(&desk).await;
    enter(&desk, schedule("a", Some(at))).await;
    desk.advance(s(60)).await;
    let read = only(&desk).await;
    let runs: Vec<_> = (0..3).map(|n| (task_id(&format!("a@{n}")), at + s(n))).collect();
    let all = Fire { runs, ..fire_of(&read, Some(at + s(10))) };
    assert_eq!(fire(&desk, all).await, Fired::Fired { added: 3 });
    let read = only(&desk).await;
    assert_eq!(read.previous, Some(at + s(2)));
    let none = Fire { runs: Vec::new(), ..fire_of(&read, Some(at + DAY)) };
    assert_eq!(fire(&desk, none).await, Fired::Fired { added: 0 });
    let read = only(&desk).await;
    assert_eq!((read.next, read.previous), (Some(at + DAY), Some(at + s(2))));
    assert_eq!(texts(&desk.store.pop(desk.op(), &q(), 10).await.unwrap()), ["work"; 3]);
}

pub(super) async fn a_task_that_is_in_already_is_kept(desk: Desk) {
    let at = now(&desk).await;
    enter(&desk, schedule("a", Some(at))).await;
    let order = fire_of(&only(&desk).await, None);
    let id = order.runs[0].0.as_str().to_owned();
    desk.put(task(&id)).await;
    assert_eq!(fire(&desk, order).await, Fired::Fired { added: 0 });
    assert_eq!(text(&desk.claim_one().await), id, "its content is what it was");
}

pub(super) async fn the_bound_of_the_queue_stops_no_schedule(desk: Desk) {
    desk.store.limit(&q(), QueueLimits { bound: Some(1), ..QueueLimits::default() }).await.unwrap();
    desk.put(task("other")).await;
    enter(&desk, schedule("a", Some(now(&desk).await))).await;
    let order = fire_of(&only(&desk).await, None);
    assert_eq!(fire(&desk, order).await, Fired::Fired { added: 1 });
    assert_eq!(desk.store.stats(&q()).await.unwrap().ready, 2);
}

pub(super) async fn a_schedule_that_is_taken_out_leaves_its_tasks(desk: Desk) {
    assert!(!desk.store.unschedule(&q(), &schedule_id("a")).await.unwrap());
    enter(&desk, schedule("a", Some(now(&desk).await))).await;
    let order = fire_of(&only(&desk).await, Some(now(&desk).await + DAY));
    fire(&desk, order).await;
    assert!(desk.store.unschedule(&q(), &schedule_id("a")).await.unwrap());
    assert!(!desk.store.unschedule(&q(), &schedule_id("a")).await.unwrap());
    assert_eq!((listed(&desk).await, due(&desk, 10).await.next), (Vec::new(), None));
    assert_eq!(desk.store.stats(&q()).await.unwrap().ready, 1);
}

pub(super) async fn a_listener_hears_of_a_schedule_that_fires(desk: Desk) {
    enter(&desk, schedule("a", Some(now(&desk).await))).await;
    let order = fire_of(&only(&desk).await, None);
    let queue = q();
    let heard = desk.store.ready(&queue);
    let (heard, _) = tokio::join!(soon(heard), fire(&desk, order));
    heard.unwrap();
}

pub(super) async fn schedules_are_listed_by_id_in_pages(desk: Desk) {
    let at = now(&desk).await + DAY;
    for id in ["c", "a", "b"] {
        enter(&desk, schedule(id, Some(at))).await;
    }
    let page = |after: &str, limit| desk.store.schedules(&q(), Page::after(after.into(), limit));
    assert_eq!(ids(&page("", 2).await.unwrap()), ["a", "b"]);
    assert_eq!(ids(&page("b", 2).await.unwrap()), ["c"]);
    let other = queue_name("other");
    assert_eq!(desk.store.schedules(&other, Page::default()).await.unwrap(), []);
    desk.store.schedule(&other, schedule("a", Some(at))).await.unwrap();
    assert!(desk.store.unschedule(&other, &schedule_id("a")).await.unwrap());
    assert_eq!(listed(&desk).await.len(), 3, "each queue has its own schedules");
}

pub(super) async fn schedules_outside_the_limits_are_refused(desk: Desk) {
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
        refused(desk.store.schedule(&q(), new).await);
    }
    refused(desk.store.due_schedules(&q(), 0).await);
    refused(desk.store.due_schedules(&q(), 1_001).await);
    refused(desk.store.schedules(&q(), Page::first(0)).await);
    let runs = vec![(task_id("a"), Timestamp::from_micros(1)); 1_001];
    let fire = Fire { id: schedule_id("a"), revision: Revision::from_u64(1), runs: runs.clone(), next: None };
    refused(desk.store.fire(&q(), fire).await);
    assert_eq!(listed(&desk).await, []);
    let longest = NewSchedule {
        id: schedule_id(&"é".repeat(85)),
        recurrence: "é".repeat(2_048),
        ..schedule("a", None)
    };
    enter(&desk, longest.clone()).await;
    assert_eq!(only(&desk).await.recurrence, longest.recurrence);
}

pub(super) async fn sixteen_who_look_after_a_schedule_fire_it_once(desk: Desk) {
    let at = now(&desk).await;
    enter(&desk, schedule("a", Some(at))).await;
    let order = fire_of(&only(&desk).await, Some(at + DAY));
    let stores = [desk.store.clone(), desk.peer()];
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
    let tasks = desk.store.pop(desk.op(), &q(), 10).await.unwrap();
    let distinct: BTreeSet<_> = tasks.iter().map(|task| &task.ticket.id).collect();
    assert_eq!((tasks.len(), distinct.len()), (1, 1));
}
