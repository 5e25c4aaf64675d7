//! The list of tasks that were due when they were enqueued: its order among delayed tasks, and what becomes of the entries
//! of tasks that are canceled or changed.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{open, queue};
use rushgate_core::{
    Claim, ClientId, Due, Lease, Listing, NewTask, OnDuplicate, Op, Page, Payload, TaskId, TaskState, Verbs,
};
use rushgate_redis::RedisStore;
use rushgate_test::ManualClock;
use rushgate_test::servers::{Kind, RedisServer, RedisSetup};

on_each_kind! {
    tasks_due_at_once_and_delayed_tasks_are_claimed_by_due_time
    a_task_that_is_canceled_replaced_or_rescheduled_is_claimed_once_or_never
    thousands_of_canceled_tasks_are_skipped_and_counted_out
    tasks_that_are_enqueued_and_canceled_do_not_accumulate
    with_the_clock_put_back_new_tasks_come_before_those_of_the_future
    an_entry_whose_record_was_deleted_by_hand_is_skipped
}

/// The length of the list from which new tasks go to the sorted set: 1,000 entries to skip and as many of tasks.
const LENGTH_MAX: u64 = 2_001;

/// A queue on a server whose clock moves as the test says.
struct Fixture {
    store: Arc<RedisStore>,
    server: RedisServer,
    clock: ManualClock,
    number: u64,
}

impl Fixture {
    async fn open(kind: Kind) -> Self {
        let clock = ManualClock::default();
        let server = RedisSetup::new(kind).on(clock.clone()).start();
        Self { store: open(&server).await, server, clock, number: 0 }
    }

    fn op(&mut self) -> Op {
        self.number += 1;
        Op::new(ClientId::from_u64(7), self.number)
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.server.set_clock(self.clock.now());
    }

    fn put_back(&self, by: Duration) {
        self.clock.put_back(by);
        self.server.set_clock(self.clock.now());
    }

    async fn put(&mut self, ids: impl IntoIterator<Item = impl Into<String>>, due: Due) {
        let new = |id: String| NewTask {
            due,
            on_duplicate: OnDuplicate::Replace,
            ..NewTask::new(TaskId::new(id).unwrap(), Payload::empty())
        };
        let tasks: Vec<_> = ids.into_iter().map(Into::into).map(new).collect();
        for some in tasks.chunks(1_000) {
            let op = self.op();
            self.store.enqueue(op, &queue(), some.to_vec()).await.unwrap();
        }
    }

    async fn cancel(&mut self, id: &str) {
        let op = self.op();
        self.store.cancel(op, &queue(), &TaskId::new(id).unwrap()).await.unwrap();
    }

    async fn reschedule(&mut self, id: &str, delay: Duration) {
        let due = if delay.is_zero() { Due::Now } else { Due::After(delay) };
        let op = self.op();
        self.store.reschedule(op, &queue(), &TaskId::new(id).unwrap(), due).await.unwrap();
    }

    /// Claims until nothing is left, and returns the IDs in order.
    async fn claim_all(&mut self) -> Vec<String> {
        let mut ids = Vec::new();
        loop {
            let (op, lease) = (self.op(), Lease::new(Duration::from_secs(3_600)).unwrap());
            let claimed =
                self.store.claim(op, &queue(), Claim { n: 100, lease, worker: "w".into() }).await.unwrap();
            if claimed.tasks.is_empty() && claimed.next_due != Some(Duration::ZERO) {
                return ids;
            }
            ids.extend(claimed.tasks.iter().map(|task| task.ticket.id.to_string()));
        }
    }

    /// The ready tasks, by ID.
    async fn ready(&self) -> Vec<String> {
        let listing = Listing::new(TaskState::Ready, Page::first(10_000));
        let tasks = listing.read_all(|page| self.store.tasks(&queue(), page)).await.unwrap();
        let mut ids: Vec<_> = tasks.iter().map(|info| info.task.ticket.id.to_string()).collect();
        ids.sort();
        ids
    }

    /// The entries of the list.
    fn entries(&self) -> u64 {
        let answer = self.server.command(&["LLEN", &format!("rg:{{q:{}}}:at_once", queue())]);
        answer.trim_start_matches(':').parse().unwrap()
    }
}

fn numbered(from: u32, until: u32) -> Vec<String> {
    (from..until).map(|n| format!("task-{n:05}")).collect()
}

async fn tasks_due_at_once_and_delayed_tasks_are_claimed_by_due_time(kind: Kind) {
    let mut fixture = Fixture::open(kind).await;
    fixture.put(["in-2-s"], Due::After(Duration::from_secs(2))).await;
    fixture.put(["in-1-s"], Due::After(Duration::from_secs(1))).await;
    fixture.put(["first", "second"], Due::Now).await;
    fixture.advance(Duration::from_millis(1_500));
    fixture.put(["third", "fourth"], Due::Now).await;
    fixture.advance(Duration::from_secs(1));
    fixture.put(["fifth"], Due::Now).await;
    assert_eq!(fixture.entries(), 5);
    assert_eq!(
        fixture.claim_all().await,
        ["first", "second", "in-1-s", "third", "fourth", "in-2-s", "fifth"]
    );
    assert_eq!(fixture.entries(), 0);
}

async fn a_task_that_is_canceled_replaced_or_rescheduled_is_claimed_once_or_never(kind: Kind) {
    let mut fixture = Fixture::open(kind).await;
    fixture.put(["a", "b", "c", "d", "e", "f"], Due::Now).await;
    fixture.cancel("b").await;
    fixture.put(["b"], Due::Now).await;
    fixture.reschedule("c", Duration::from_secs(5)).await;
    fixture.reschedule("d", Duration::from_secs(5)).await;
    fixture.reschedule("d", Duration::ZERO).await;
    fixture.put(["e"], Due::Now).await;
    assert_eq!(fixture.ready().await, ["a", "b", "d", "e", "f"]);
    let stats = fixture.store.stats(&queue()).await.unwrap();
    assert_eq!((stats.ready, stats.scheduled), (5, 1));
    // A task that is replaced or rescheduled keeps its place.
    assert_eq!(fixture.claim_all().await, ["a", "d", "e", "f", "b"]);
    fixture.advance(Duration::from_secs(6));
    assert_eq!(fixture.claim_all().await, ["c"]);
}

async fn thousands_of_canceled_tasks_are_skipped_and_counted_out(kind: Kind) {
    let mut fixture = Fixture::open(kind).await;
    fixture.put(numbered(0, 6_000), Due::Now).await;
    for id in numbered(1, 5_500) {
        fixture.cancel(&id).await;
    }
    let live: Vec<_> = numbered(0, 1).into_iter().chain(numbered(5_500, 6_000)).collect();
    assert_eq!(fixture.ready().await, live);
    assert_eq!(fixture.store.stats(&queue()).await.unwrap().ready, 501);
    let before = fixture.entries();
    // Most entries are to be skipped, so new tasks are not added to them.
    fixture.put(["new-1", "new-2"], Due::Now).await;
    assert_eq!(fixture.entries(), before);
    fixture.cancel("task-00000").await;
    let wanted: Vec<_> = numbered(5_500, 6_000).into_iter().chain(["new-1".into(), "new-2".into()]).collect();
    assert_eq!(fixture.claim_all().await, wanted);
    assert_eq!((fixture.entries(), fixture.store.stats(&queue()).await.unwrap().ready), (0, 0));
}

async fn tasks_that_are_enqueued_and_canceled_do_not_accumulate(kind: Kind) {
    let mut fixture = Fixture::open(kind).await;
    fixture.put(["oldest"], Due::Now).await;
    let ids = numbered(0, 5_000);
    fixture.put([ids[0].clone()], Due::Now).await;
    for pair in ids.windows(2) {
        fixture.put([pair[1].clone()], Due::Now).await;
        fixture.cancel(&pair[0]).await;
    }
    assert!(fixture.entries() <= LENGTH_MAX, "{} entries for two tasks", fixture.entries());
    assert_eq!(fixture.claim_all().await, ["oldest", "task-04999"]);
    assert_eq!(fixture.entries(), 0);
}

async fn with_the_clock_put_back_new_tasks_come_before_those_of_the_future(kind: Kind) {
    let mut fixture = Fixture::open(kind).await;
    fixture.put(["at-noon"], Due::Now).await;
    fixture.put_back(Duration::from_secs(60));
    assert_eq!(fixture.claim_all().await, [""; 0]);
    let stats = fixture.store.stats(&queue()).await.unwrap();
    assert_eq!((stats.ready, stats.scheduled), (0, 1));
    fixture.put(["a-minute-before"], Due::Now).await;
    assert_eq!(fixture.claim_all().await, ["a-minute-before"]);
    fixture.advance(Duration::from_secs(61));
    fixture.put(["later"], Due::Now).await;
    assert_eq!(fixture.claim_all().await, ["at-noon", "later"]);
}

async fn an_entry_whose_record_was_deleted_by_hand_is_skipped(kind: Kind) {
    let mut fixture = Fixture::open(kind).await;
    fixture.put(["a", "b", "c"], Due::Now).await;
    let deleted = fixture.server.command(&["HDEL", &format!("rg:{{q:{}}}:records", queue()), "b"]);
    assert_eq!(deleted, ":1");
    assert_eq!(fixture.claim_all().await, ["a", "c"]);
    assert_eq!(fixture.entries(), 0);
}
