//! Contract of the listings of tasks.

use std::collections::BTreeSet;

use rushgate_core::{
    Claim, Completion, IfDead, Listing, NewTask, OnDuplicate, Page, QueueLimits, QueueName, Retention,
    TaskInfo, TaskKey, TaskPage, TaskState, Verbs,
};

use crate::fixture::*;

fn q() -> QueueName {
    queue_name("q")
}

fn id(info: &TaskInfo) -> String {
    info.task.ticket.id.to_string()
}

async fn page(fixture: &Fixture, state: Option<TaskState>, after: &str, limit: u32) -> TaskPage {
    let page =
        fixture.store.tasks(&q(), Listing::new(state, Page::after(after.into(), limit))).await.unwrap();
    assert!(page.tasks.len() <= limit as usize, "{} tasks", page.tasks.len());
    page
}

/// The pages of a listing: the IDs on each.
async fn pages(fixture: &Fixture, state: Option<TaskState>, limit: u32) -> Vec<Vec<String>> {
    let (mut pages, mut after) = (Vec::new(), String::new());
    loop {
        let page = page(fixture, state, &after, limit).await;
        let is_right =
            |info: &TaskInfo| state.map_or(info.state != TaskState::Done, |state| info.state == state);
        assert!(page.tasks.iter().all(is_right), "{state:?}: {:?}", page.tasks);
        pages.push(page.tasks.iter().map(id).collect());
        match page.next {
            Some(next) => after = next,
            None => return pages,
        }
    }
}

/// Asserts that a listing has each of these tasks once.
async fn lists(fixture: &Fixture, state: Option<TaskState>, limit: u32, expected: &[String]) {
    let mut listed = pages(fixture, state, limit).await.concat();
    listed.sort();
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(listed, expected, "{state:?}, pages of {limit}");
}

fn names(prefix: &str, n: usize) -> Vec<String> {
    // Neither the order of arrival nor that of any set.
    (0..n).map(|number| format!("{prefix}{:04}", number * 7_919 % 10_000)).collect()
}

fn all_of(lists: &[&[String]]) -> Vec<String> {
    lists.concat()
}

fn tasks(names: &[String]) -> Vec<NewTask> {
    names.iter().map(|name| task(name)).collect()
}

async fn put(fixture: &Fixture, tasks: &[NewTask]) {
    for some in tasks.chunks(1_000) {
        fixture.put_all(some.to_vec()).await;
    }
}

/// Claims up to `n` tasks for a time that no test exceeds. Returns their IDs.
async fn claim(fixture: &Fixture, n: u32) -> Vec<rushgate_core::Task> {
    let claim = Claim { n, lease: lease(s(3_600)), worker: "w".into() };
    fixture.store.claim(fixture.op(), &q(), claim).await.unwrap().tasks
}

fn ids(tasks: &[rushgate_core::Task]) -> Vec<String> {
    tasks.iter().map(|task| task.ticket.id.to_string()).collect()
}

pub(super) async fn tasks_are_listed_by_state_in_pages(fixture: Fixture) {
    assert_eq!(page(&fixture, None, "", 10).await, TaskPage::default());
    fixture.put_all(vec![task("a")]).await;
    fixture.claim(1).await;
    fixture.put_all(vec![task("c"), task("b"), after(task("d"), s(50))]).await;
    let of = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    for limit in [1, 2, 3, 4, 10] {
        lists(&fixture, None, limit, &of(&["a", "b", "c", "d"])).await;
        lists(&fixture, Some(TaskState::Leased), limit, &of(&["a"])).await;
        lists(&fixture, Some(TaskState::Ready), limit, &of(&["b", "c"])).await;
        lists(&fixture, Some(TaskState::Scheduled), limit, &of(&["d"])).await;
        lists(&fixture, Some(TaskState::Blocked), limit, &[]).await;
        lists(&fixture, Some(TaskState::Done), limit, &[]).await;
    }
}

/// The tasks of a queue with many in each state, by state.
struct Many {
    by_state: [(TaskState, Vec<String>); 5],
}

impl Many {
    async fn put(fixture: &Fixture) -> Self {
        let retention = Some(Retention { age: s(3_600), count: 10_000 });
        fixture.store.limit(&q(), QueueLimits { retention, ..QueueLimits::default() }).await.unwrap();
        put(fixture, &tasks(&names("done", 300))).await;
        let finished = claim(fixture, 300).await;
        let done = ids(&finished);
        let all = finished.into_iter().map(|task| Completion::from(task.ticket)).collect();
        fixture.store.complete(fixture.op(), &q(), all).await.unwrap();

        put(fixture, &tasks(&names("leased", 250))).await;
        let leased = ids(&claim(fixture, 250).await);

        // Some are due later than others, and some have a priority.
        let mut scheduled = names("later", 230);
        let later =
            |(at, name): (usize, &String)| prio(after(task(name), s(1_000 + at as u64 / 100)), at % 3);
        put(fixture, &scheduled.iter().enumerate().map(later).collect::<Vec<_>>()).await;

        let (usual, urgent) = (names("ready", 1_100), names("urgent", 130));
        put(fixture, &tasks(&usual)).await;
        put(
            fixture,
            &urgent.iter().enumerate().map(|(at, name)| prio(task(name), at % 10)).collect::<Vec<_>>(),
        )
        .await;
        let mut ready = all_of(&[&usual, &urgent]);

        // The first of each key group is ready or scheduled, and those behind it are blocked.
        let mut blocked = Vec::new();
        for key in 0..40 {
            let members = names(&format!("key{key:02}-"), 5);
            let due = |task| if key < 30 { task } else { after(task, s(2_000)) };
            let of_key = |name: &String| NewTask {
                key: Some(TaskKey::new(format!("k{key}")).unwrap()),
                ..due(task(name))
            };
            put(fixture, &members.iter().map(of_key).collect::<Vec<_>>()).await;
            if key < 30 { &mut ready } else { &mut scheduled }.push(members[0].clone());
            blocked.extend_from_slice(&members[1..]);
        }
        let held = names("held", 60);
        let waiting =
            |name: &String| NewTask { after: vec![task_id(&ready[0])], if_dead: IfDead::Run, ..task(name) };
        put(fixture, &held.iter().map(waiting).collect::<Vec<_>>()).await;
        blocked.extend(held);
        Self {
            by_state: [
                (TaskState::Done, done),
                (TaskState::Leased, leased),
                (TaskState::Scheduled, scheduled),
                (TaskState::Ready, ready),
                (TaskState::Blocked, blocked),
            ],
        }
    }
}

fn prio(mut task: NewTask, level: usize) -> NewTask {
    task.priority = rushgate_core::Priority::new(level as u8).expect("a test's priority is valid");
    task
}

pub(super) async fn pages_of_an_unchanged_queue_have_each_task_once(fixture: Fixture) {
    let Many { by_state } = Many::put(&fixture).await;
    let live: Vec<_> = by_state[1..].iter().flat_map(|(_, of)| of.clone()).collect();
    for limit in [13, 250, 1_000, 10_000] {
        for (state, expected) in &by_state {
            lists(&fixture, Some(*state), limit, expected).await;
        }
        lists(&fixture, None, limit, &live).await;
    }
    // One task per page.
    lists(&fixture, Some(TaskState::Leased), 1, &by_state[1].1).await;
}

pub(super) async fn few_in_one_state_are_found_at_once(fixture: Fixture) {
    put(&fixture, &tasks(&names("t", 4_000))).await;
    let leased = ids(&claim(&fixture, 3).await);
    let scheduled = names("later", 3);
    put(&fixture, &scheduled.iter().map(|name| after(task(name), s(50))).collect::<Vec<_>>()).await;
    for (state, few) in [(TaskState::Leased, leased), (TaskState::Scheduled, scheduled)] {
        lists(&fixture, Some(state), 10, &few).await;
        let pages = pages(&fixture, Some(state), 10).await;
        assert!(pages.len() <= 2, "{state:?}: {} pages", pages.len());
    }
}

pub(super) async fn pages_have_what_stays_while_others_change_the_queue(fixture: Fixture) {
    let first = names("t", 3_000);
    put(&fixture, &tasks(&first)).await;
    let peer = fixture.peer();
    for state in [None, Some(TaskState::Ready)] {
        let (mut listed, mut after) = (BTreeSet::new(), String::new());
        for round in 0.. {
            let page = page(&fixture, state, &after, 100).await;
            listed.extend(page.tasks.iter().map(id));
            // Tasks leave at the beginning of the order, and from anywhere, and others come.
            peer.pop(fixture.op(), &q(), 7).await.unwrap();
            let gone = page.tasks.last().map(|info| info.task.ticket.id.clone());
            if let Some(gone) = gone.filter(|_| round % 3 == 0) {
                peer.cancel(fixture.op(), &q(), &gone).await.unwrap();
            }
            let more = (0..5).map(|n| task(&format!("new{n}-{round}"))).collect();
            peer.enqueue(fixture.op(), &q(), more).await.unwrap();
            match page.next {
                Some(next) => after = next,
                None => break,
            }
            assert!(round < 1_000, "the listing ends");
        }
        let left = pages(&fixture, None, 1_000).await.concat();
        let lost: Vec<_> = left.iter().filter(|id| first.contains(id) && !listed.contains(*id)).collect();
        assert!(lost.is_empty(), "{state:?}: exist throughout, and are not listed: {lost:?}");
    }
}

pub(super) async fn what_was_listed_last_may_be_gone(fixture: Fixture) {
    put(&fixture, &tasks(&names("t", 20))).await;
    let mut listed = Vec::new();
    let mut after = String::new();
    loop {
        let page = page(&fixture, None, &after, 3).await;
        for info in &page.tasks {
            fixture.store.cancel(fixture.op(), &q(), &info.task.ticket.id).await.unwrap();
        }
        listed.extend(page.tasks.iter().map(id));
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    listed.sort();
    let mut expected = names("t", 20);
    expected.sort();
    assert_eq!(listed, expected);
}

pub(super) async fn a_cursor_of_another_listing_is_refused(fixture: Fixture) {
    put(&fixture, &tasks(&names("t", 30))).await;
    let cursor = page(&fixture, None, "", 10).await.next.expect("more than one page");
    let ready = page(&fixture, Some(TaskState::Ready), "", 10).await.next.expect("more than one page");
    for (state, after) in [
        (Some(TaskState::Ready), cursor.as_str()),
        (None, ready.as_str()),
        (Some(TaskState::Leased), ready.as_str()),
        (None, "t0000"),
        (None, "other.live.dDAwMDA"),
        (None, &cursor[..cursor.rfind('.').unwrap() + 1]),
        (None, &format!("{cursor}!")),
    ] {
        refused(fixture.store.tasks(&q(), Listing::new(state, Page::after(after.into(), 10))).await);
    }
    // Another position is another page, or refused.
    for garbled in ["AAAA", "////", "SQ", "Uw", "__8", "U3g5OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5"] {
        for (state, cursor) in [(None, &cursor), (Some(TaskState::Ready), &ready)] {
            let after = format!("{}.{garbled}", cursor.rsplit_once('.').unwrap().0);
            let answer = fixture.store.tasks(&q(), Listing::new(state, Page::after(after, 10))).await;
            assert!(answer.as_ref().map_or_else(|error| error.is_invalid(), |_| true), "{answer:?}");
        }
    }
}

pub(super) async fn a_replaced_task_is_listed_once(fixture: Fixture) {
    put(&fixture, &tasks(&names("t", 10))).await;
    put(
        &fixture,
        &names("t", 5).iter().map(|name| with(task(name), "again", OnDuplicate::Replace)).collect::<Vec<_>>(),
    )
    .await;
    for state in [None, Some(TaskState::Ready)] {
        lists(&fixture, state, 3, &names("t", 10)).await;
    }
}

pub(super) async fn a_prefix_narrows_a_listing(fixture: Fixture) {
    let of_prefix =
        |state, prefix: &str| Listing { prefix: prefix.into(), ..Listing::new(state, Page::first(5)) };
    let odd = ["a*b", "a*b-1", "a?b-2", "a[b]-3", "a^b-4", "a\\b-5", "a-b-6", "aXb-7", "é-8", "b"];
    fixture.put_all(odd.map(task).to_vec()).await;
    for many in [false, true] {
        if many {
            put(&fixture, &tasks(&names("many", 2_000))).await;
        }
        for (prefix, expected) in [
            ("a*", &odd[..2]),
            ("a?", &odd[2..3]),
            ("a[b]", &odd[3..4]),
            ("a^", &odd[4..5]),
            ("a\\", &odd[5..6]),
            ("a-", &odd[6..7]),
            ("é", &odd[8..9]),
            ("b", &odd[9..]),
            ("c", &[]),
            ("a*b-1-and-more", &[]),
        ] {
            for state in [None, Some(TaskState::Ready)] {
                let all =
                    of_prefix(state, prefix).read_all(|page| fixture.store.tasks(&q(), page)).await.unwrap();
                let mut ids: Vec<_> = all.iter().map(id).collect();
                ids.sort();
                assert_eq!(ids, expected, "{state:?} {prefix}");
            }
        }
    }
    refused(fixture.store.tasks(&q(), of_prefix(None, &"a".repeat(201))).await);
}
