//! What a store costs on which nothing happens. On its own, because it counts the threads of its process.

mod common;

use std::fs;
use std::time::Duration;

use common::{fresh, queue, store};
use rushgate_core::QueueStore;

/// How often the threads of this process that look for other processes' writes have gone to sleep.
fn naps_of_the_watcher() -> Vec<String> {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    let watchers = threads.filter(|thread| {
        // The system cuts a thread's name after 15 bytes.
        fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.trim() == "rushgate-watche")
    });
    let naps =
        |status: String| status.lines().find(|line| line.starts_with("voluntary_ctxt")).map(str::to_owned);
    watchers.filter_map(|thread| naps(fs::read_to_string(thread.join("status")).ok()?)).collect()
}

#[tokio::test]
async fn a_store_on_which_nobody_listens_does_not_look_for_news() {
    let (_folder, path) = fresh();
    let store = store(&path);
    // Somebody has listened, and listens no more.
    drop(store.ready(&queue("q")));
    let pause = Duration::from_millis(300);
    tokio::time::sleep(pause).await;
    let before = naps_of_the_watcher();
    assert_eq!(before.len(), 1);
    tokio::time::sleep(pause).await;
    assert_eq!(naps_of_the_watcher(), before);
}
