//! Contract of the workers that announce themselves.

use std::time::Duration;

use rushgate_core::{Announce, Page, Verbs, WorkerId, WorkerInfo, WorkerMode};

use crate::fixture::*;

const LEASE: Duration = s(20);

fn worker(id: &str) -> Announce {
    Announce {
        id: WorkerId::new(id).expect("a test's name is valid"),
        name: "mailer on h1".into(),
        version: "rushgate 0.1.0".into(),
        concurrency: 8,
        running: 0,
        lease: Some(lease(LEASE)),
    }
}

async fn announce(fixture: &Fixture, worker: Announce) -> WorkerMode {
    fixture.store.announce(&queue_name("q"), worker).await.unwrap()
}

async fn set(fixture: &Fixture, id: &str, mode: WorkerMode) -> bool {
    fixture.store.set_worker(&queue_name("q"), &worker(id).id, mode).await.unwrap()
}

async fn listed(fixture: &Fixture) -> Vec<WorkerInfo> {
    fixture.store.workers(&queue_name("q"), Page::default()).await.unwrap()
}

async fn ids(fixture: &Fixture) -> Vec<String> {
    listed(fixture).await.iter().map(|worker| worker.id.to_string()).collect()
}

pub(super) async fn an_idle_worker_is_listed_as_it_announced_itself(fixture: Fixture) {
    assert!(listed(&fixture).await.is_empty(), "a queue that was never used");
    assert_eq!(announce(&fixture, worker("w")).await, WorkerMode::Work);
    let [first] = <[_; 1]>::try_from(listed(&fixture).await).expect("there is one worker");
    let info = WorkerInfo {
        id: worker("w").id,
        name: "mailer on h1".into(),
        version: "rushgate 0.1.0".into(),
        concurrency: 8,
        running: 0,
        since: first.since,
        seen: first.since,
        lease_until: first.since + LEASE,
        mode: WorkerMode::Work,
    };
    assert_eq!(first, info);

    fixture.advance(s(5)).await;
    announce(&fixture, Announce { running: 3, concurrency: 4, ..worker("w") }).await;
    let [later] = <[_; 1]>::try_from(listed(&fixture).await).expect("there is still one");
    assert!(later.seen >= first.seen + s(5), "{later:?}");
    let (seen, lease_until) = (later.seen, later.seen + LEASE);
    assert_eq!(later, WorkerInfo { running: 3, concurrency: 4, seen, lease_until, ..first });
}

pub(super) async fn a_worker_that_is_silent_or_has_ended_is_not_listed(fixture: Fixture) {
    for id in ["ends", "lives", "silent"] {
        announce(&fixture, worker(id)).await;
    }
    assert_eq!(ids(&fixture).await, ["ends", "lives", "silent"]);
    announce(&fixture, Announce { lease: None, ..worker("ends") }).await;
    announce(&fixture, Announce { lease: None, ..worker("unknown") }).await;
    fixture.advance(s(15)).await;
    announce(&fixture, worker("lives")).await;
    assert_eq!(ids(&fixture).await, ["lives", "silent"]);
    fixture.advance(s(15)).await;
    assert_eq!(ids(&fixture).await, ["lives"]);
    assert!(!set(&fixture, "silent", WorkerMode::Stop).await);
    // One that was only slow is a new worker to the queue.
    assert_eq!(announce(&fixture, worker("silent")).await, WorkerMode::Work);
    assert_eq!(ids(&fixture).await, ["lives", "silent"]);
}

pub(super) async fn a_queue_without_tasks_is_listed_while_it_has_a_live_worker(fixture: Fixture) {
    let queues = async || fixture.store.queues(Page::default()).await.unwrap();
    announce(&fixture, worker("w")).await;
    assert_eq!(queues().await, [queue_name("q")]);
    fixture.advance(LEASE + s(1)).await;
    assert!(queues().await.is_empty());
    announce(&fixture, worker("w")).await;
    assert_eq!(queues().await, [queue_name("q")]);
    announce(&fixture, Announce { lease: None, ..worker("w") }).await;
    assert!(queues().await.is_empty());
}

pub(super) async fn a_worker_learns_its_mode_when_it_announces_itself(fixture: Fixture) {
    announce(&fixture, worker("w")).await;
    announce(&fixture, worker("x")).await;
    assert!(set(&fixture, "w", WorkerMode::Quiet).await);
    assert!(set(&fixture, "w", WorkerMode::Quiet).await, "again");
    assert!(!set(&fixture, "unknown", WorkerMode::Quiet).await);
    let modes: Vec<_> = listed(&fixture).await.iter().map(|worker| worker.mode).collect();
    assert_eq!(modes, [WorkerMode::Quiet, WorkerMode::Work]);
    assert_eq!(announce(&fixture, Announce { running: 1, ..worker("w") }).await, WorkerMode::Quiet);
    assert_eq!(announce(&fixture, worker("x")).await, WorkerMode::Work);
    assert!(set(&fixture, "w", WorkerMode::Stop).await);
    assert_eq!(announce(&fixture, worker("w")).await, WorkerMode::Stop);
    assert!(set(&fixture, "w", WorkerMode::Work).await);
    assert_eq!(announce(&fixture, Announce { lease: None, ..worker("w") }).await, WorkerMode::Work);
    // The mode ends with the worker.
    set(&fixture, "x", WorkerMode::Stop).await;
    announce(&fixture, Announce { lease: None, ..worker("x") }).await;
    assert_eq!(announce(&fixture, worker("x")).await, WorkerMode::Work);
}

pub(super) async fn workers_are_listed_by_id_in_pages_and_for_their_queue_alone(fixture: Fixture) {
    for id in ["c", "a", "b"] {
        announce(&fixture, worker(id)).await;
    }
    fixture.store.announce(&queue_name("other"), worker("d")).await.unwrap();
    assert_eq!(ids(&fixture).await, ["a", "b", "c"]);
    let page = async |after: &str, limit| {
        let page = Page { after: after.to_owned(), limit };
        let workers = fixture.store.workers(&queue_name("q"), page).await.unwrap();
        workers.iter().map(|worker| worker.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((page("", 2).await, page("b", 2).await), (vec!["a".into(), "b".into()], vec!["c".into()]));
    announce(&fixture, Announce { lease: None, ..worker("a") }).await;
    assert_eq!(page("", 1).await, ["b"]);
}

pub(super) async fn a_thousand_workers_are_listed_and_others_work_too(fixture: Fixture) {
    let most = Announce::LISTED_MAX;
    for n in 0..most {
        announce(&fixture, worker(&format!("w{n:04}"))).await;
    }
    assert_eq!(announce(&fixture, worker("x")).await, WorkerMode::Work);
    assert_eq!(listed(&fixture).await.len() as u64, most);
    assert!(!set(&fixture, "x", WorkerMode::Stop).await);
    announce(&fixture, Announce { lease: None, ..worker("w0000") }).await;
    announce(&fixture, worker("x")).await;
    assert!(set(&fixture, "x", WorkerMode::Stop).await);
}

pub(super) async fn announcements_outside_the_limits_are_refused(fixture: Fixture) {
    let wrong = [
        Announce { concurrency: 0, ..worker("w") },
        Announce { concurrency: Announce::TASKS_MAX + 1, ..worker("w") },
        Announce { running: Announce::TASKS_MAX + 1, ..worker("w") },
        Announce { name: "n".repeat(201), ..worker("w") },
        Announce { version: "a\nb".into(), ..worker("w") },
    ];
    for worker in wrong {
        refused(fixture.store.announce(&queue_name("q"), worker).await);
    }
    refused(fixture.store.workers(&queue_name("q"), Page { after: String::new(), limit: 0 }).await);
    assert!(listed(&fixture).await.is_empty());
}
