//! The cost of a page of a listing: it does not depend on the length of the queue.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{open, open_at, queue};
use rushgate_core::{
    Claim, ClientId, Due, Lease, Listing, NewTask, Op, Page, Payload, Priority, TaskId, TaskPage, TaskState,
    Verbs,
};
use rushgate_redis::RedisStore;
use rushgate_test::servers::{ClusterSetup, Kind, RedisServer, RedisSetup};

on_each_kind! {
    a_page_costs_as_much_however_long_the_queue_is
    a_listing_continues_while_the_hash_grows_and_shrinks
    a_queue_in_a_cluster_is_listed
}

/// The most commands for a page of 100 tasks: a search of its beginning, and the reads of its tasks.
const COMMANDS_MAX: u64 = 200;

/// Number of commands that read, since the server started.
fn reads(server: &RedisServer) -> u64 {
    const READS: [&str; 11] = [
        "hscan", "zscan", "hkeys", "hgetall", "hget", "hmget", "hlen", "zrange", "zcount", "lrange", "lindex",
    ];
    let text = server.ask(&["INFO", "commandstats"]).concat();
    let calls = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        READS.contains(&name).then(|| rest.split(',').next().unwrap().parse::<u64>().unwrap())
    };
    text.lines().filter_map(calls).sum()
}

fn new_op() -> Op {
    static LATEST: AtomicU64 = AtomicU64::new(0);
    Op::new(ClientId::from_u64(1), LATEST.fetch_add(1, Ordering::Relaxed))
}

fn id(number: u32) -> TaskId {
    // The order of the IDs is not the order of arrival.
    TaskId::new(format!("{:08x}", number.wrapping_mul(2_654_435_761))).unwrap()
}

async fn fill(store: &RedisStore, numbers: std::ops::Range<u32>, of: impl Fn(NewTask) -> NewTask) {
    let numbers: Vec<_> = numbers.collect();
    for some in numbers.chunks(1_000) {
        let tasks = some.iter().map(|number| of(NewTask::new(id(*number), Payload::empty()))).collect();
        store.enqueue(new_op(), &queue(), tasks).await.unwrap();
    }
}

async fn page(store: &RedisStore, state: Option<TaskState>, after: &str, limit: u32) -> TaskPage {
    let listing = Listing::new(state, Page::after(after.to_owned(), limit));
    let page = store.tasks(&queue(), listing).await.unwrap();
    assert!(page.tasks.len() <= limit as usize, "{} tasks", page.tasks.len());
    page
}

fn ids(page: &TaskPage) -> impl Iterator<Item = String> {
    page.tasks.iter().map(|info| info.task.ticket.id.to_string())
}

async fn a_page_costs_as_much_however_long_the_queue_is(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let store = open(&server).await;
    let later = |task| NewTask { due: Due::After(std::time::Duration::from_secs(1_000)), ..task };
    fill(&store, 0..10, later).await;
    fill(&store, 10..20_000, |task| task).await;
    let urgent = |task| NewTask { priority: Priority::new(1).unwrap(), ..task };
    fill(&store, 20_000..40_000, urgent).await;
    let lease = Lease::new(std::time::Duration::from_secs(1_000)).unwrap();
    store.claim(new_op(), &queue(), Claim { n: 10, lease, worker: "w".into() }).await.unwrap();
    let states = [None, Some(TaskState::Ready), Some(TaskState::Leased), Some(TaskState::Scheduled)];
    for (state, n) in states.into_iter().zip([100, 100, 10, 10]) {
        let mut after = String::new();
        // Of a long listing, the first pages, and one from the middle of the queue.
        for number in 0..250 {
            let before = reads(&server);
            let TaskPage { tasks, next } = page(&store, state, &after, 100).await;
            let cost = reads(&server) - before;
            assert!(cost <= COMMANDS_MAX, "{state:?}, page {number}: {cost} commands");
            // A page ends when it may look at no more, so it may lack a few.
            assert!(tasks.len() >= n - 2, "{state:?}: page {number} has {} tasks", tasks.len());
            let Some(next) = next else { break };
            after = next;
        }
    }
}

async fn a_listing_continues_while_the_hash_grows_and_shrinks(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let store = open(&server).await;
    // From few tasks to many: the hash becomes a table, which grows.
    fill(&store, 0..300, |task| task).await;
    let mut listed = BTreeSet::new();
    let (mut after, mut round) = (String::new(), 0);
    loop {
        let page = page(&store, None, &after, 7).await;
        listed.extend(ids(&page));
        let Some(next) = page.next else { break };
        after = next;
        if round < 40 {
            fill(&store, 1_000 + 500 * round..1_500 + 500 * round, |task| task).await;
        }
        round += 1;
    }
    assert!((0..300).all(|number| listed.contains(id(number).as_str())), "tasks that stay are listed");

    // From many to few: the table shrinks.
    let (mut listed, mut after) = (BTreeSet::new(), String::new());
    loop {
        let page = page(&store, None, &after, 3).await;
        listed.extend(ids(&page));
        let Some(next) = page.next else { break };
        after = next;
        store.pop(new_op(), &queue(), 40).await.unwrap();
    }
    let left = Listing::new(None, Page::first(1_000));
    let left = left.read_all(|page| store.tasks(&queue(), page)).await.unwrap();
    let lost: Vec<_> =
        left.iter().map(|info| info.task.ticket.id.as_str()).filter(|id| !listed.contains(*id)).collect();
    assert!(lost.is_empty(), "exist throughout, and are not listed: {lost:?}");
}

async fn a_queue_in_a_cluster_is_listed(kind: Kind) {
    let group = ClusterSetup::new(kind).of(3, 0).start();
    let store = open_at(&group.url()).await;
    fill(&store, 0..2_000, |task| task).await;
    for state in [None, Some(TaskState::Ready)] {
        let listing = Listing::new(state, Page::first(300));
        assert_eq!(listing.read_all(|page| store.tasks(&queue(), page)).await.unwrap().len(), 2_000);
    }
}
