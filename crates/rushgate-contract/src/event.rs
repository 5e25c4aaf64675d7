//! Contract of task events.

use std::time::Duration;

use rushgate_core::{
    Completion, Due, Fire, NewSchedule, NewTask, OnDuplicate, Overflow, Page, PastRun, Priority, QueueLimits,
    QueueName, Relay, ReleaseWith, ReleasedWith, Retention, Retry, ScheduleId, Selection, TaskChange,
    TaskEvent, TaskEvents, TaskRelease, Ticket, Verbs,
};

use crate::fixture::*;

fn q() -> QueueName {
    queue_name("q")
}

async fn keep(fixture: &Fixture, events: u32) {
    limit(fixture, QueueLimits { events: Some(events), ..QueueLimits::default() }).await;
}

async fn limit(fixture: &Fixture, limits: QueueLimits) {
    fixture.store.limit(&q(), limits).await.unwrap();
}

async fn page(fixture: &Fixture, after: u64) -> TaskEvents {
    fixture.store.task_events(&q(), Page::after(after, TaskEvents::MAX)).await.unwrap()
}

/// An event as text, without its times.
fn word(event: &TaskEvent) -> String {
    let id = &event.id;
    match &event.what {
        TaskChange::Added { .. } => format!("added {id}"),
        TaskChange::Replaced { .. } => format!("replaced {id}"),
        TaskChange::Claimed { attempt, worker, .. } => format!("claimed {id} {attempt} {worker}"),
        TaskChange::Done { attempt, .. } => format!("done {id} {attempt}"),
        TaskChange::Discarded { attempt, .. } => format!("discarded {id} {attempt}"),
        TaskChange::Requeued { attempt } => format!("requeued {id} {attempt}"),
        TaskChange::Failed { attempt, error, .. } => format!("failed {id} {attempt} {error}"),
        TaskChange::Lost { attempt } => format!("lost {id} {attempt}"),
        TaskChange::Released { attempt, .. } => format!("released {id} {attempt}"),
        TaskChange::Dead { attempt, error } => format!("dead {id} {attempt} {error}"),
        TaskChange::CancelAsked => format!("cancel asked {id}"),
        TaskChange::Cancelled => format!("cancelled {id}"),
        TaskChange::Dropped => format!("dropped {id}"),
        TaskChange::Popped => format!("popped {id}"),
        TaskChange::Deleted => format!("deleted {id}"),
        TaskChange::DeadRequeued => format!("dead letter requeued {id}"),
        TaskChange::DeadDeleted => format!("dead letter deleted {id}"),
    }
}

/// Events after that number, as text. Asserts that the numbers have no gaps.
async fn story(fixture: &Fixture, after: u64) -> Vec<String> {
    let TaskEvents { events, last, .. } = page(fixture, after).await;
    let numbers: Vec<_> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (last + 1 - events.len() as u64..=last).collect::<Vec<_>>());
    events.iter().map(word).collect()
}

async fn fail(fixture: &Fixture, ticket: Ticket, delay: Duration, error: &str, give_up: bool) {
    let failed = Retry { ticket, delay, error: error.into(), give_up };
    fixture.store.retry(fixture.op(), &q(), vec![failed]).await.unwrap();
}

async fn release(fixture: &Fixture, ticket: Ticket, delay: Duration) {
    fixture.store.release_tasks(fixture.op(), &q(), vec![TaskRelease { ticket, delay }]).await.unwrap();
}

pub(super) async fn a_queue_keeps_no_events_unless_it_is_told_to(fixture: Fixture) {
    let none = TaskEvents { events: vec![], first: 1, last: 0 };
    assert_eq!(page(&fixture, 0).await, none, "a queue that was never used");
    fixture.put(task("a")).await;
    work_off(&fixture).await;
    assert_eq!(page(&fixture, 0).await, none);
    keep(&fixture, 10).await;
    assert_eq!(fixture.store.stats(&q()).await.unwrap().limits.events, Some(10));
    assert_eq!(page(&fixture, 0).await, none, "earlier changes produce no events");
    fixture.put(task("b")).await;
    assert_eq!(story(&fixture, 0).await, ["added b"]);
    let other = fixture.store.task_events(&queue_name("other"), Page::first(1)).await.unwrap();
    assert_eq!(other, none, "each queue has its own numbering");
}

pub(super) async fn a_run_is_told_from_its_beginning_to_its_end(fixture: Fixture) {
    keep(&fixture, 100).await;
    fixture.put_all(vec![task("a"), after(task("b"), s(60)), task("c")]).await;
    let tasks = fixture.claim(2).await.tasks;
    let done =
        |at: usize, discarded| Completion { ticket: tasks[at].ticket.clone(), result: None, discarded };
    fixture
        .store
        .complete(fixture.op(), &q(), vec![done(1, true), done(0, false), done(0, false)])
        .await
        .unwrap();
    let words =
        ["added a", "added b", "added c", "claimed a 1 w", "claimed c 1 w", "discarded c 1", "done a 1"];
    assert_eq!(story(&fixture, 0).await, words);
    let events = page(&fixture, 0).await.events;
    let (at, due) = match &events[1] {
        TaskEvent { at, what: TaskChange::Added { due }, .. } => (*at, *due),
        other => panic!("{other:?}"),
    };
    assert_eq!(due, at + s(60));
    assert!(events.is_sorted_by_key(|event| event.at));
    // The same with a retention, and with a key group.
    let retention = Some(Retention::new(s(60), 10));
    limit(&fixture, QueueLimits { retention, events: Some(100), ..QueueLimits::default() }).await;
    fixture.put(NewTask { key: Some("k".parse().unwrap()), ..task("d") }).await;
    work_off(&fixture).await;
    assert_eq!(story(&fixture, 7).await, ["added d", "claimed d 1 w", "done d 1"]);
}

pub(super) async fn an_event_says_how_long_a_task_waited_and_ran(fixture: Fixture) {
    let retention = Some(Retention::new(s(3600), 10));
    for limits in [QueueLimits::default(), QueueLimits { retention, ..QueueLimits::default() }] {
        limit(&fixture, QueueLimits { events: Some(100), ..limits }).await;
        let before = page(&fixture, 0).await.last;
        fixture.put(task("a")).await;
        fixture.advance(s(20)).await;
        let first = fixture.claim_one().await;
        fail(&fixture, first.ticket, s(10), "boom", false).await;
        fixture.advance(s(15)).await;
        let second = fixture.claim_one().await;
        fixture.advance(s(2)).await;
        let done = Completion { ticket: second.ticket.clone(), result: None, discarded: true };
        fixture.store.complete(fixture.op(), &q(), vec![done]).await.unwrap();
        let times = page(&fixture, before).await.events.into_iter().filter_map(|event| match event.what {
            TaskChange::Claimed { due, .. } => Some(event.at.since(due)),
            TaskChange::Discarded { began, .. } => Some(event.at.since(began)),
            _ => None,
        });
        let times: Vec<_> = times.collect();
        assert_eq!(times.len(), 3, "{times:?}");
        times.into_iter().zip([s(20), s(5), s(2)]).for_each(|(is, wanted)| near(is, wanted));
    }
}

pub(super) async fn what_failed_and_came_again_is_told(fixture: Fixture) {
    keep(&fixture, 100).await;
    fixture.put(NewTask { max_attempts: 2, ..task("a") }).await;
    let long = "é".repeat(150);
    fail(&fixture, fixture.claim_one().await.ticket, s(0), &long, false).await;
    release(&fixture, fixture.claim_one().await.ticket, s(0)).await;
    release(&fixture, fixture.claim_one().await.ticket, s(30)).await;
    fixture.advance(s(31)).await;
    fail(&fixture, fixture.claim_one().await.ticket, s(0), "boom", false).await;
    fixture.store.requeue_dead(fixture.op(), &q(), Selection::All).await.unwrap();
    fail_for_good(&fixture).await;
    fixture.store.delete_dead(fixture.op(), &q(), Selection::All).await.unwrap();
    let cut = "é".repeat(PastRun::ERROR_MAX / 2);
    let words = [
        "added a",
        "claimed a 1 w",
        &format!("failed a 1 {cut}"),
        "claimed a 2 w",
        "released a 2",
        "claimed a 2 w",
        "released a 2",
        "claimed a 2 w",
        "dead a 2 boom",
        "dead letter requeued a",
        "claimed a 1 w",
        "dead a 1 boom",
        "dead letter deleted a",
    ];
    assert_eq!(story(&fixture, 0).await, words);
    let events = page(&fixture, 0).await.events;
    let due = |at: usize| match events[at].what {
        TaskChange::Failed { due, .. } | TaskChange::Released { due, .. } => due.since(events[at].at),
        ref other => panic!("{other:?}"),
    };
    assert_eq!((due(2), due(4), due(6)), (s(0), s(0), s(30)));
}

pub(super) async fn a_lease_and_a_deadline_are_told_at_their_moments(fixture: Fixture) {
    keep(&fixture, 100).await;
    fixture.put_all(vec![task("a"), NewTask { max_attempts: 1, ..task("b") }]).await;
    let claimed = page(&fixture, 0).await.last;
    assert_eq!(fixture.claim(2).await.tasks.len(), 2);
    let began = page(&fixture, claimed).await.events[0].at;
    fixture.put(NewTask { deadline: Some(Due::After(s(5))), ..after(task("c"), s(1)) }).await;
    fixture.advance(s(60)).await;
    let TaskEvents { events, .. } = page(&fixture, claimed + 3).await;
    let words: Vec<_> = events.iter().map(word).collect();
    let late = format!("dead c 0 {}", rushgate_core::DeadLetter::LATE);
    assert_eq!(words, [&late, "lost a 1", "dead b 1 lease expired"], "in order of time");
    assert_eq!((events[1].at, events[2].at), (began + s(10), began + s(10)));
    assert!(events[0].at < events[1].at);
    assert_eq!(page(&fixture, claimed + 3).await.events, events, "a repeated read returns the same events");
}

pub(super) async fn changes_and_cancels_are_told(fixture: Fixture) {
    keep(&fixture, 100).await;
    fixture.put(task("a")).await;
    fixture.put(task("a")).await;
    fixture.put(with(task("a"), "new", OnDuplicate::Replace)).await;
    fixture.put(after(with(task("a"), "late", OnDuplicate::Earliest), s(60))).await;
    let first = fixture.claim_one().await;
    fixture.put(with(task("a"), "newer", OnDuplicate::Replace)).await;
    complete(&fixture, first).await;
    let second = fixture.claim_one().await;
    fixture.put(with(task("a"), "newest", OnDuplicate::Replace)).await;
    fixture.store.cancel(fixture.op(), &q(), &task_id("a")).await.unwrap();
    fail(&fixture, second.ticket, s(0), "boom", false).await;
    fixture.put(task("b")).await;
    fixture.store.cancel(fixture.op(), &q(), &task_id("b")).await.unwrap();
    fixture.store.cancel(fixture.op(), &q(), &task_id("b")).await.unwrap();
    let words = [
        "added a", "replaced a", "claimed a 1 w", "replaced a", "requeued a 1", "claimed a 1 w",
        "replaced a", "cancel asked a", "cancelled a", "added b", "cancelled b",
    ];
    assert_eq!(story(&fixture, 0).await, words);
    // A run that was canceled and completes anyway.
    fixture.put(task("c")).await;
    let third = fixture.claim_one().await;
    fixture.store.cancel(fixture.op(), &q(), &task_id("c")).await.unwrap();
    complete(&fixture, third).await;
    assert_eq!(story(&fixture, 11).await, ["added c", "claimed c 1 w", "cancel asked c", "cancelled c"]);
}

pub(super) async fn a_pending_replacement_is_announced_however_the_run_before_it_ends(fixture: Fixture) {
    keep(&fixture, 100).await;
    for end in 0..4 {
        fixture.put(task("a")).await;
        let ticket = fixture.claim_one().await.ticket;
        fixture.put(with(task("a"), "new", OnDuplicate::Replace)).await;
        let before = page(&fixture, 0).await.last;
        match end {
            0 => fail(&fixture, ticket, s(0), "boom", false).await,
            1 => release(&fixture, ticket, s(1)).await,
            2 => drop(fixture.store.dequeue(fixture.op(), &q(), ticket).await.unwrap()),
            _ => fixture.advance(s(11)).await,
        }
        assert_eq!(story(&fixture, before).await, ["requeued a 1"]);
        work_off(&fixture).await;
    }
}

pub(super) async fn what_leaves_without_a_run_is_told(fixture: Fixture) {
    keep(&fixture, 100).await;
    fixture.put_all(vec![task("a"), task("b"), task("c")]).await;
    let ticket = fixture.info("a").await.task.ticket;
    fixture.store.dequeue(fixture.op(), &q(), ticket.clone()).await.unwrap();
    fixture.store.dequeue(fixture.op(), &q(), ticket).await.unwrap();
    fixture.store.pop(fixture.op(), &q(), 1).await.unwrap();
    let claimed = fixture.claim_one().await.ticket;
    fixture.store.dequeue(fixture.op(), &q(), claimed).await.unwrap();
    let words = ["added a", "added b", "added c", "deleted a", "popped b", "claimed c 1 w", "deleted c"];
    assert_eq!(story(&fixture, 0).await, words);
    let full =
        |overflow| QueueLimits { bound: Some(1), overflow, events: Some(100), ..QueueLimits::default() };
    limit(&fixture, full(Overflow::DropOldest)).await;
    fixture.put_all(vec![task("d"), task("e")]).await;
    limit(&fixture, full(Overflow::DropNew)).await;
    fixture.put(task("f")).await;
    limit(&fixture, full(Overflow::Refuse)).await;
    fixture.put(task("g")).await;
    assert_eq!(story(&fixture, 7).await, ["added d", "dropped d", "added e", "dropped f"]);
}

pub(super) async fn waiters_of_a_failed_task_are_notified_with_it(fixture: Fixture) {
    keep(&fixture, 100).await;
    fixture.put(task("a")).await;
    let waits = NewTask { after: vec![task_id("a")], if_dead: rushgate_core::IfDead::Fail, ..task("b") };
    fixture.put(waits).await;
    fail_for_good(&fixture).await;
    let words = story(&fixture, 0).await;
    assert_eq!(words[..4], ["added a", "added b", "claimed a 1 w", "dead a 1 boom"]);
    assert!(words[4].starts_with("dead b 0 waited for a") && words.len() == 5, "{words:?}");
}

pub(super) async fn tasks_of_other_processes_are_announced_too(fixture: Fixture) {
    keep(&fixture, 100).await;
    let (outbox, id) = ("shop".parse().unwrap(), ScheduleId::new("nightly").unwrap());
    let relay = Relay { outbox, tasks: vec![(1, task("relayed"))] };
    fixture.store.relay(&q(), relay.clone()).await.unwrap();
    fixture.store.relay(&q(), relay).await.unwrap();
    let schedule = NewSchedule {
        id: id.clone(),
        recurrence: "daily".into(),
        payload: payload(""),
        priority: Priority::default(),
        max_attempts: 1,
        next: Some(rushgate_core::Timestamp::from_micros(1)),
        paused: None,
        as_of: None,
    };
    fixture.store.schedule(&q(), schedule).await.unwrap();
    let read = fixture.store.schedules(&q(), Page::default()).await.unwrap().remove(0);
    let due = read.next.unwrap();
    let fire = Fire { id, revision: read.revision, runs: vec![(task_id("fired"), due)], next: None };
    fixture.store.fire(&q(), fire.clone()).await.unwrap();
    fixture.store.fire(&q(), fire).await.unwrap();
    let token = fixture.token();
    granted(fixture.try_lock(token).await);
    let release = ReleaseWith { name: lock_name("l"), token, queue: q(), task: task("released") };
    let released = fixture.store.release_with(fixture.op(), release).await.unwrap();
    assert!(matches!(released, ReleasedWith::Released(_)), "{released:?}");
    assert_eq!(story(&fixture, 0).await, ["added relayed", "added fired", "added released"]);
}

pub(super) async fn only_the_latest_events_are_kept(fixture: Fixture) {
    keep(&fixture, 3).await;
    for id in ["a", "b", "c", "d", "e"] {
        fixture.put(task(id)).await;
    }
    let all = page(&fixture, 0).await;
    assert_eq!((all.events.len(), all.first, all.last), (3, 3, 5));
    assert!(
        all.is_missed(0) && all.is_missed(1) && !all.is_missed(2) && !all.is_missed(5) && all.is_missed(6)
    );
    assert_eq!(story(&fixture, 3).await, ["added d", "added e"]);
    assert_eq!(page(&fixture, 5).await, TaskEvents { events: vec![], first: 3, last: 5 });
    assert_eq!(page(&fixture, u64::MAX).await, TaskEvents { events: vec![], first: 3, last: 5 });
    let one = fixture.store.task_events(&q(), Page::after(2, 1)).await.unwrap();
    assert_eq!((one.events.len(), one.events[0].seq), (1, 3), "the first one in the requested range");
    // One call may write more events than are kept.
    fixture.put_all((0..10).map(|n| task(&format!("many-{n}"))).collect()).await;
    let many = page(&fixture, 0).await;
    assert_eq!((many.events.len(), many.first, many.last), (3, 13, 15));
}

pub(super) async fn another_number_of_events_holds_at_once(fixture: Fixture) {
    keep(&fixture, 5).await;
    for id in ["a", "b", "c", "d", "e"] {
        fixture.put(task(id)).await;
    }
    keep(&fixture, 2).await;
    assert_eq!(story(&fixture, 0).await, ["added d", "added e"]);
    keep(&fixture, 4).await;
    assert_eq!(story(&fixture, 0).await, ["added d", "added e"], "deleted events stay deleted");
    fixture.put_all(vec![task("f"), task("g"), task("h")]).await;
    assert_eq!(story(&fixture, 0).await, ["added e", "added f", "added g", "added h"]);
    limit(&fixture, QueueLimits::default()).await;
    assert_eq!(page(&fixture, 0).await, TaskEvents { events: vec![], first: 9, last: 8 });
    fixture.put(task("i")).await;
    keep(&fixture, 4).await;
    fixture.put(task("j")).await;
    let all = page(&fixture, 0).await;
    assert_eq!((all.events.len(), all.first, all.last), (1, 9, 9), "numbering continues");
}

pub(super) async fn many_events_are_forgotten_together(fixture: Fixture) {
    keep(&fixture, QueueLimits::EVENTS_MAX).await;
    for _ in 0..2 {
        fixture.put_all((0..1_000).map(|n| task(&n.to_string())).collect()).await;
        assert_eq!(fixture.store.pop(fixture.op(), &q(), 1_000).await.unwrap().len(), 1_000);
    }
    let first = page(&fixture, 0).await;
    assert_eq!((first.events.len(), first.first, first.last), (1_000, 1, 4_000));
    assert_eq!(word(&page(&fixture, 3_999).await.events[0]), "popped 999");
    keep(&fixture, 1).await;
    let last = page(&fixture, 0).await;
    assert_eq!((last.events.len(), last.first, last.last), (1, 4_000, 4_000));
}

pub(super) async fn a_call_that_is_sent_twice_is_told_once(fixture: Fixture) {
    keep(&fixture, 100).await;
    let (put, claim, end) = (fixture.op(), fixture.op(), fixture.op());
    for _ in 0..2 {
        fixture.store.enqueue(put, &q(), vec![task("a"), task("b")]).await.unwrap();
    }
    let asked = rushgate_core::Claim { n: 2, lease: lease(s(10)), worker: "w".into() };
    let mut tasks = Vec::new();
    for _ in 0..2 {
        tasks = fixture.store.claim(claim, &q(), asked.clone()).await.unwrap().tasks;
    }
    for _ in 0..2 {
        let done = vec![tasks[0].ticket.clone().into()];
        fixture.store.complete(end, &q(), done).await.unwrap();
    }
    let (cancel, fail) = (fixture.op(), fixture.op());
    for _ in 0..2 {
        fixture.store.cancel(cancel, &q(), &task_id("b")).await.unwrap();
    }
    let failed = Retry { ticket: tasks[1].ticket.clone(), delay: s(0), error: "x".into(), give_up: true };
    for _ in 0..2 {
        fixture.store.retry(fail, &q(), vec![failed.clone()]).await.unwrap();
    }
    let words =
        ["added a", "added b", "claimed a 1 w", "claimed b 1 w", "done a 1", "cancel asked b", "cancelled b"];
    assert_eq!(story(&fixture, 0).await, words);
}

pub(super) async fn a_follower_of_a_queue_is_notified_of_what_happens(fixture: Fixture) {
    keep(&fixture, 100).await;
    let (queue, peer) = (q(), fixture.peer());
    for (n, id) in ["a", "b", "c"].into_iter().enumerate() {
        let after = n as u64;
        let (here, there) = (fixture.store.next_event(&queue, after), peer.next_event(&queue, after));
        let put = async {
            // The other client's listening call must reach the store before the change.
            peer.task_events(&queue, Page::first(1)).await.unwrap();
            fixture.put(task(id)).await;
        };
        let (here, there, ()) = tokio::join!(soon(here), soon(there), put);
        here.unwrap();
        there.unwrap();
    }
    soon(fixture.store.next_event(&queue, 2)).await.unwrap();
    soon(fixture.store.next_event(&queue, 4)).await.expect("a follower that is ahead is notified");
}

pub(super) async fn events_outside_the_limits_are_refused(fixture: Fixture) {
    for events in [0, QueueLimits::EVENTS_MAX + 1] {
        let limits = QueueLimits { events: Some(events), ..QueueLimits::default() };
        refused(fixture.store.limit(&q(), limits).await);
    }
    refused(fixture.store.task_events(&q(), Page::first(0)).await);
    refused(fixture.store.task_events(&q(), Page::first(TaskEvents::MAX + 1)).await);
}
