//! Listing a whole queue page by page: its cost, and what it lists while other clients change the queue.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::{open, open_at, queue};
use rushgate_core::{ClientId, Listing, NewTask, Op, Page, Payload, TaskId, TaskState, Verbs};
use rushgate_redis::RedisStore;
use rushgate_test::servers::{ClusterSetup, Kind, RedisServer, RedisSetup};

on_each_kind! {
    reading_a_whole_queue_costs_as_much_per_task_however_long_it_is
    pages_list_what_stays_once_while_others_change_the_queue
    pages_of_a_queue_in_a_cluster_list_what_stays_once
}

const PAGE: u32 = 500;

/// How often sets were scanned on the server since it started.
fn scans(server: &RedisServer) -> u64 {
    let text = server.ask(&["INFO", "commandstats"]).concat();
    let count = text.lines().find_map(|line| line.strip_prefix("cmdstat_zscan:calls="));
    count.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

fn new_op() -> Op {
    static LATEST: AtomicU64 = AtomicU64::new(0);
    Op::new(ClientId::from_u64(1), LATEST.fetch_add(1, Ordering::Relaxed))
}

fn id(number: u32) -> TaskId {
    // The order of the IDs is not the order of arrival.
    TaskId::new(format!("{:08x}", number.wrapping_mul(2_654_435_761))).unwrap()
}

async fn fill(store: &RedisStore, numbers: std::ops::Range<u32>) {
    let numbers: Vec<_> = numbers.collect();
    for some in numbers.chunks(1_000) {
        let tasks = some.iter().map(|number| NewTask::new(id(*number), Payload::empty())).collect();
        store.enqueue(new_op(), &queue(), tasks).await.unwrap();
    }
}

async fn page(store: &RedisStore, state: Option<TaskState>, after: &str, limit: u32) -> Vec<String> {
    let listing = Listing { state, page: Page::after(after.to_owned(), limit) };
    let infos = store.tasks(&queue(), listing).await.unwrap();
    infos.into_iter().map(|info| String::from(info.task.ticket.id)).collect()
}

/// All IDs, page by page.
async fn read(store: &RedisStore) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    loop {
        let after = ids.last().cloned().unwrap_or_default();
        let next = page(store, None, &after, PAGE).await;
        let is_last = next.len() < PAGE as usize;
        ids.extend(next);
        if is_last {
            return ids;
        }
    }
}

async fn reading_a_whole_queue_costs_as_much_per_task_however_long_it_is(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    let store = open(&server).await;
    let mut costs = Vec::new();
    for (from, to) in [(0, 10_000), (10_000, 20_000), (20_000, 40_000)] {
        fill(&store, from..to).await;
        let before = scans(&server);
        let ids = read(&store).await;
        let cost = scans(&server) - before;
        assert!(ids.is_sorted() && ids.len() == to as usize, "{}", ids.len());
        costs.push(cost);
    }
    for (one, two) in costs.iter().zip(&costs[1..]) {
        assert!(*two <= one * 2 + 10, "twice as many tasks cost at most twice as much: {costs:?} scans");
    }
}

async fn pages_list_what_stays_once_while_others_change_the_queue(kind: Kind) {
    let server = RedisSetup::new(kind).start();
    list_while_others_change(&server.url()).await;
}

async fn pages_of_a_queue_in_a_cluster_list_what_stays_once(kind: Kind) {
    let group = ClusterSetup::new(kind).of(3, 0).start();
    list_while_others_change(&group.url()).await;
}

async fn list_while_others_change(url: &str) {
    let (store, other) = (open_at(url).await, open_at(url).await);
    fill(&store, 0..2_000).await;
    let mut listed: Vec<String> = Vec::new();
    for round in 0.. {
        let after = listed.last().cloned().unwrap_or_default();
        let next = page(&store, None, &after, 100).await;
        if next.is_empty() {
            break;
        }
        listed.extend(next);
        // Another client pops the first tasks and adds some.
        other.pop(new_op(), &queue(), 10).await.unwrap();
        fill(&other, 2_000 + 10 * round..2_010 + 10 * round).await;
    }
    assert!(listed.is_sorted_by(|a, b| a < b), "each once, in order");
    let left = read(&store).await;
    let all: std::collections::BTreeSet<_> = listed.iter().collect();
    let first: std::collections::BTreeSet<_> = (0..2_000).map(|number| String::from(id(number))).collect();
    let lost: Vec<_> = left.iter().filter(|id| first.contains(*id) && !all.contains(id)).collect();
    assert!(lost.is_empty(), "exist throughout, but are not listed: {lost:?}");

    // What this client adds is in its next page.
    let first = page(&store, None, "", 100).await;
    let second = page(&store, None, first.last().unwrap(), 100).await;
    let last = second.last().unwrap();
    let added = TaskId::new(format!("{last}0")).unwrap();
    store.enqueue(new_op(), &queue(), vec![NewTask::new(added.clone(), Payload::empty())]).await.unwrap();
    assert_eq!(page(&store, None, last, 1).await, [added.as_str()]);
}
