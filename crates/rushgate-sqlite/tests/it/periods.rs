//! Uniqueness windows leave nothing behind: new ones delete expired ones.

use std::time::Duration;

use crate::common::{fresh, op, queue, store, task};
use rushgate_core::{Enqueued, NewTask, Store, Verbs};
use rusqlite::Connection;

#[tokio::test]
async fn periods_that_are_over_leave_nothing_behind() {
    let (_folder, path) = fresh();
    let kept = || {
        let file = Connection::open(&path).unwrap();
        file.query_row("SELECT count(*) FROM unique_id", [], |row| row.get::<_, u32>(0)).unwrap()
    };
    let store = store(&path);
    for turn in 0..10 {
        let unique =
            |n: u64| NewTask { unique_for: Some(Duration::from_millis(1)), ..task(&format!("t{n}"), 1) };
        let tasks = (200 * turn..200 * (turn + 1)).map(unique).collect();
        let answers = store.enqueue(op(turn), &queue("q"), tasks).await.unwrap();
        assert!(answers.iter().all(|answer| matches!(answer, Enqueued::Added { .. })));
        assert!((1..=600).contains(&kept()), "{} after {turn}", kept());
    }
    store.close().await.unwrap();
}
