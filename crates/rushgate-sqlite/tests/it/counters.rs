//! The store's counters match the work that it does.

use std::time::Duration;

use crate::common::{ask, fresh, token, url};
use rushgate_core::{Page, Store, StoreCalls, Verbs};
use rushgate_sqlite::SqliteStore;

/// Difference between two readings.
fn done(before: StoreCalls, after: StoreCalls) -> (u64, u64, u64) {
    (
        after.calls - before.calls,
        after.transactions - before.transactions,
        after.statements - before.statements,
    )
}

#[tokio::test]
async fn a_read_is_a_call_and_its_statements_and_no_write_transaction() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&url(&path)).unwrap();
    let before = store.calls();
    store.queues(Page::default()).await.unwrap();
    // BEGIN, one query, COMMIT.
    assert_eq!(done(before, store.calls()), (1, 0, 3));
}

#[tokio::test]
async fn in_memory_a_read_is_carried_out_by_the_writer_and_counted_once() {
    let store = SqliteStore::open("sqlite::memory:").unwrap();
    let before = store.calls();
    store.queues(Page::default()).await.unwrap();
    assert_eq!(done(before, store.calls()), (1, 1, 3));
}

#[tokio::test]
async fn a_write_counts_its_statements_with_begin_and_commit() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&url(&path)).unwrap();
    let before = store.calls();
    store.acquire(ask("l", token(1), Duration::ZERO)).await.unwrap();
    // BEGIN, one upsert, COMMIT.
    assert_eq!(done(before, store.calls()), (1, 1, 3));
}

#[tokio::test]
async fn what_is_refused_before_it_is_sent_is_not_counted() {
    let (_folder, path) = fresh();
    let store = SqliteStore::open(&url(&path)).unwrap();
    let before = store.calls();
    Verbs::list(&store, Page { limit: 0, ..Page::default() }).await.unwrap_err();
    assert_eq!(done(before, store.calls()), (0, 0, 0));
}
